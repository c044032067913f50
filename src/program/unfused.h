/* Attention that is not fused: two batched products around a softmax over whole rows of scores;
 * nothing is skipped above the diagonal. What lowering adds for a layer, and `cost attention
 * --unfused` for one op. */
#ifndef ORR_PROGRAM_UNFUSED_H
#define ORR_PROGRAM_UNFUSED_H

#include "program/program.h"

typedef struct orr_unfused {
    uint64_t batch; /* heads times sequences */
    uint64_t seq_q, seq_kv, head_dim, v_dim;
    bool fused_softmax; /* else scale, mask, softmax and dropout are ops of their own */
} orr_unfused;

typedef enum orr_unfused_kind {
    ORR_UNFUSED_SCORES = 0,
    ORR_UNFUSED_SOFTMAX, /* with scale, mask and dropout */
    ORR_UNFUSED_CONTEXT
} orr_unfused_kind;

enum { ORR_UNFUSED_PARTS = 5 };
typedef struct orr_unfused_part {
    orr_unfused_kind of;
    const char *what;
    uint64_t m, n, k; /* of a product, `batch` times */
    double bytes;     /* of the softmax */
    uint32_t kernels;
} orr_unfused_part;

/* The parts of a forward (3) or a backward (5), in the order in which lowering lists them: a
 * backward runs last first. */
uint32_t orr_unfused_parts(const orr_unfused *core, bool backward,
                           orr_unfused_part out[ORR_UNFUSED_PARTS]);

#endif
