#include "program/traffic.h"

/* As many kernels of one family each way. */
static orr_traffic alike(double forward_bytes, double backward_bytes, uint32_t kernels,
                         orr_memop family) {
    return (orr_traffic){forward_bytes, backward_bytes, kernels, kernels, family, family};
}

orr_traffic orr_traffic_loss(orr_loss_kernel kernel) {
    switch (kernel) {
    /* Middle of the 24-38 and 16-22 bytes that published runs show. */
    case ORR_LOSS_EAGER:
    case ORR_LOSS_EAGER_BF16: return alike(31, 19, 6, ORR_MEMOP_ELEMENTWISE);
    case ORR_LOSS_NATIVE: return alike(12, 8, 6, ORR_MEMOP_LOSS);
    case ORR_LOSS_TE:
    case ORR_LOSS_FUSED: break;
    }
    /* two passes over 16-bit logits, the second leaves the gradient in their place; one scales it
     */
    return alike(6, 4, 2, ORR_MEMOP_LOSS);
}

orr_traffic orr_traffic_embedding(void) {
    /* Read a row and write it; gradients are read and added into the table. */
    return alike(4, 6, 2, ORR_MEMOP_EMBEDDING);
}

orr_traffic orr_traffic_router(void) {
    return alike(12, 12, 6, ORR_MEMOP_ELEMENTWISE);
}

orr_traffic orr_traffic_dropout(void) {
    /* in, out and a byte of mask each way */
    return alike(5, 5, 1, ORR_MEMOP_ELEMENTWISE);
}

orr_traffic orr_traffic_norm(bool fused) {
    /* eager: cast, square, mean, rsqrt, product, cast, weight; gradients of each */
    return fused ? (orr_traffic){4, 6, 1, 2, ORR_MEMOP_NORM_FWD, ORR_MEMOP_NORM_BWD}
                 : (orr_traffic){1, 1, 7, 10, ORR_MEMOP_EAGER, ORR_MEMOP_EAGER};
}

orr_traffic orr_traffic_rotary(bool fused) {
    /* read and write; eager also rotates, multiplies twice and adds */
    return fused ? alike(4, 4, 2, ORR_MEMOP_ELEMENTWISE) : alike(24, 24, 8, ORR_MEMOP_ELEMENTWISE);
}

orr_traffic orr_traffic_residual(bool dropout) {
    /* both residual adds of a layer together: 12 B an element forward, 6 backward */
    double mask = dropout ? 1 : 0;
    return alike(6 + mask, 3 + mask, 1, ORR_MEMOP_ELEMENTWISE);
}

orr_traffic orr_traffic_activation(bool gated, bool fused, bool clamped) {
    orr_traffic out = alike(4, 6, fused ? 1 : 3, ORR_MEMOP_ELEMENTWISE);
    if (gated) {
        out.forward_bytes = fused ? 6 : 10;
        out.backward_bytes = fused ? 10 : 26;
    } else if (!fused) { /* the bias on its own */
        out.forward_bytes = 8;
        out.backward_bytes = 10;
    }
    out.forward_bytes *= clamped ? 4 : 1;
    out.backward_bytes *= clamped ? 4 : 1;
    return out;
}

orr_traffic orr_traffic_scores(bool fused) {
    return fused ? alike(9, 11, 2, ORR_MEMOP_SOFTMAX) : alike(35, 24, 5, ORR_MEMOP_SOFTMAX);
}

orr_traffic orr_traffic_adam(bool fused) {
    /* gradient read, master and two moments read and written, the 16-bit copy written */
    static const double FUSED_BYTES = 4 + 2 * 3 * 4 + 2;
    /* operands and results of fp32 lerp, mul, addcmul, sqrt, div, add, addcdiv and the decay's mul,
     * then the copy */
    static const double FOREACH_BYTES = 4 * (3 + 2 + 3 + 2 + 2 + 2 + 4 + 2) + 4 + 2;
    return fused ? alike(FUSED_BYTES, 0, 2, ORR_MEMOP_BULK)
                 : alike(FOREACH_BYTES, 0, 9, ORR_MEMOP_BULK);
}
