/* Bytes that memory-bound ops move for each of their elements, and the kernels they take: what
 * lowering counts for a layer, and `cost` for one op. Sources: docs/internals/program.md; PyTorch's
 * multi-tensor Adam. */
#ifndef ORR_PROGRAM_TRAFFIC_H
#define ORR_PROGRAM_TRAFFIC_H

#include "program/program.h"
#include "software/software.h"

typedef struct orr_traffic {
    double forward_bytes, backward_bytes; /* an element */
    uint32_t kernels;
    orr_memop family;
} orr_traffic;

orr_traffic orr_traffic_loss(orr_loss_kernel kernel); /* of a logit */
orr_traffic orr_traffic_embedding(void);              /* of an element of the looked-up rows */
orr_traffic orr_traffic_router(void);                 /* of a token and expert: scores, top-k */
orr_traffic orr_traffic_dropout(void);                /* of an element, with its mask */
/* Of a parameter with fp32 states. Fused: one pass; else each of the foreach steps is one. The
 * backward is 0. */
orr_traffic orr_traffic_adam(bool fused);

#endif
