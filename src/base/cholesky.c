#include "base/cholesky.h"

#include <math.h>

#include "base/num.h"

static const double LEAST_PIVOT = 1e-12;

void orr_cholesky(double *a, size_t n) {
    for (size_t j = 0; j < n; j++) {
        for (size_t i = j; i < n; i++) {
            double sum = a[i * n + j];
            for (size_t k = 0; k < j; k++) {
                sum -= a[i * n + k] * a[j * n + k];
            }
            a[i * n + j] = i == j ? sqrt(orr_max_f64(sum, LEAST_PIVOT)) : sum / a[j * n + j];
        }
    }
}

void orr_cholesky_forward(const double *l, size_t n, double *b) {
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++) {
            b[i] -= l[i * n + k] * b[k];
        }
        b[i] /= l[i * n + i];
    }
}

void orr_cholesky_back(const double *l, size_t n, double *b) {
    for (size_t i = n; i-- > 0;) {
        for (size_t k = i + 1; k < n; k++) {
            b[i] -= l[k * n + i] * b[k];
        }
        b[i] /= l[i * n + i];
    }
}
