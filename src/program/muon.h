/* Muon: momentum whose matrices are orthogonalised. What one matrix takes: five Newton-Schulz
 * iterations on the shorter side, A = X X^T, B = b A + c A A, X = a X + B X, in bf16, one matrix
 * after the other, as Megatron-Core's with NVIDIA's Emerging-Optimizers and PyTorch's own do.
 *
 * Taken: a tensor-parallel rank's piece is a matrix of its own (Megatron's default, `blockwise`).
 * `duplicated` would gather each matrix and run it whole on every rank; `distributed` sums A over
 * them. Both products of a symmetric result are whole ones: Megatron passes no `use_syrk`. */
#ifndef ORR_PROGRAM_MUON_H
#define ORR_PROGRAM_MUON_H

#include "program/program.h"

enum { ORR_MUON_STEPS = 5, ORR_MUON_PRODUCTS = 3 };

/* The products of one iteration over an m x n matrix. */
void orr_muon_products(uint64_t rows, uint64_t cols, orr_op op[ORR_MUON_PRODUCTS]);
/* Of all iterations. */
double orr_muon_flops(uint64_t rows, uint64_t cols);
/* What comes on top of an elementwise optimizer's pass: norm, division, casts there and back, the
 * scale. */
orr_op orr_muon_elementwise(uint64_t rows, uint64_t cols);

#endif
