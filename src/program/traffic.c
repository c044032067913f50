#include "program/traffic.h"

orr_traffic orr_traffic_loss(orr_loss_kernel kernel) {
    switch (kernel) {
    /* Middle of the 24-38 and 16-22 bytes that published runs show. */
    case ORR_LOSS_EAGER:
    case ORR_LOSS_EAGER_BF16: return (orr_traffic){31, 19, 6, ORR_MEMOP_ELEMENTWISE};
    case ORR_LOSS_NATIVE: return (orr_traffic){12, 8, 6, ORR_MEMOP_LOSS};
    case ORR_LOSS_TE:
    case ORR_LOSS_FUSED: break;
    }
    /* two passes over 16-bit logits, the second leaves the gradient in their place; one scales it
     */
    return (orr_traffic){6, 4, 2, ORR_MEMOP_LOSS};
}

orr_traffic orr_traffic_embedding(void) {
    /* Read a row and write it; gradients are read and added into the table. */
    return (orr_traffic){4, 6, 2, ORR_MEMOP_EMBEDDING};
}

orr_traffic orr_traffic_router(void) {
    return (orr_traffic){12, 12, 6, ORR_MEMOP_ELEMENTWISE};
}

orr_traffic orr_traffic_dropout(void) {
    /* in, out and a byte of mask each way */
    return (orr_traffic){5, 5, 1, ORR_MEMOP_ELEMENTWISE};
}

orr_traffic orr_traffic_adam(bool fused) {
    /* gradient read, master and two moments read and written, the 16-bit copy written */
    static const double FUSED_BYTES = 4 + 2 * 3 * 4 + 2;
    /* operands and results of fp32 lerp, mul, addcmul, sqrt, div, add, addcdiv and the decay's mul,
     * then the copy */
    static const double FOREACH_BYTES = 4 * (3 + 2 + 3 + 2 + 2 + 2 + 4 + 2) + 4 + 2;
    return fused ? (orr_traffic){FUSED_BYTES, 0, 2, ORR_MEMOP_BULK}
                 : (orr_traffic){FOREACH_BYTES, 0, 9, ORR_MEMOP_BULK};
}
