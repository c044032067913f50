/* Positive definite systems: A = L L'. Matrices are [n][n], row by row. */
#ifndef ORR_BASE_CHOLESKY_H
#define ORR_BASE_CHOLESKY_H

#include <stddef.h>

/* L in place of A's lower half. Where A is not quite positive definite a pivot is held above 0. */
void orr_cholesky(double *a, size_t n);
/* x of L x = b and of L' x = b, in place of b. */
void orr_cholesky_forward(const double *l, size_t n, double *b);
void orr_cholesky_back(const double *l, size_t n, double *b);

#endif
