/* Bytes that memory-bound ops move for each of their elements, and the kernels they take: what
 * lowering counts for a layer, and `cost` for one op. Sources: docs/internals/program.md; PyTorch's
 * multi-tensor Adam. */
#ifndef ORR_PROGRAM_TRAFFIC_H
#define ORR_PROGRAM_TRAFFIC_H

#include "program/program.h"
#include "software/software.h"

typedef struct orr_traffic {
    double forward_bytes, backward_bytes; /* an element */
    uint32_t kernels, backward_kernels;
    orr_memop family, backward_family;
} orr_traffic;

orr_traffic orr_traffic_loss(orr_loss_kernel kernel); /* of a logit */
orr_traffic orr_traffic_embedding(void);              /* of an element of the looked-up rows */
orr_traffic orr_traffic_router(void);                 /* of a token and expert: scores, top-k */
orr_traffic orr_traffic_dropout(void);                /* of an element, with its mask */
/* Of an element. An eager norm counts 1 of ORR_MEMOP_EAGER: the profile says how many bytes. */
orr_traffic orr_traffic_norm(bool fused);
orr_traffic orr_traffic_rotary(bool fused);     /* of an element of queries and keys */
orr_traffic orr_traffic_residual(bool dropout); /* bias, dropout and sum, as one kernel */
/* Of an element of the output. clamped: biased gated experts bound both halves in ops of their own
 * (gpt-oss). */
orr_traffic orr_traffic_activation(bool gated, bool fused, bool clamped);
/* Of an element of whole attention scores: one kernel scales, masks and normalises, another drops
 * out; or each is an op of its own. */
orr_traffic orr_traffic_scores(bool fused);
/* Of a parameter with fp32 states. Fused: one pass; else each of the foreach steps is one. The
 * backward is 0. */
orr_traffic orr_traffic_adam(bool fused);

#endif
