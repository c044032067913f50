#include "program/muon.h"

#include "base/num.h"

static orr_op product(uint64_t m, uint64_t n, uint64_t k, uint8_t out_bytes) {
    orr_op op = {.kind = ORR_OP_GEMM,
                 .phase = ORR_PHASE_FORWARD,
                 .class = ORR_CLASS_GEMM,
                 .dtype = ORR_BF16,
                 .out_bytes = out_bytes};
    op.shape.gemm.m = m;
    op.shape.gemm.n = n;
    op.shape.gemm.k = k;
    op.shape.gemm.batch = 1;
    op.flops = 2 * (double)m * (double)n * (double)k;
    return op;
}

void orr_muon_products(uint64_t rows, uint64_t cols, orr_op op[ORR_MUON_PRODUCTS]) {
    enum { WRITTEN = 2, READ_TOO = 4 }; /* addmm reads what it adds to */
    uint64_t m = orr_min_u64(rows, cols), n = orr_max_u64(rows, cols);
    op[0] = product(m, m, n, WRITTEN);
    op[1] = product(m, m, m, READ_TOO);
    op[2] = product(m, n, m, READ_TOO);
}

double orr_muon_flops(uint64_t rows, uint64_t cols) {
    orr_op op[ORR_MUON_PRODUCTS];
    double sum = 0;
    orr_muon_products(rows, cols, op);
    for (int i = 0; i < ORR_MUON_PRODUCTS; i++) {
        sum += op[i].flops;
    }
    return ORR_MUON_STEPS * sum;
}

orr_op orr_muon_elementwise(uint64_t rows, uint64_t cols) {
    /* fp32: the norm reads; division reads and writes; to bf16; back; the scale reads and writes */
    static const double BYTES = 4 + 8 + 6 + 6 + 8;
    orr_op op = {.kind = ORR_OP_MEMORY,
                 .class = ORR_CLASS_ELEMENTWISE,
                 .sub = ORR_MEMOP_ELEMENTWISE,
                 .bytes = BYTES * (double)rows * (double)cols};
    op.shape.memory.kernels = 5;
    return op;
}
