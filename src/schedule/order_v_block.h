/* Building blocks of six unit slots a micro-batch on the V placement, shared by the orders made by
 * repeating one (order_v_1f1b.c, order_v_adaptive.c). */
#ifndef ORR_SCHEDULE_ORDER_V_BLOCK_H
#define ORR_SCHEDULE_ORDER_V_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

enum { V_F0, V_F1, V_B1, V_B0, V_W1, V_W0, V_TYPES, V_FREE = 0xff, V_PERIOD = 6 };

/* Rows of slots, one a rank; those beyond `length` up to `capacity` are free. */
typedef struct v_rows {
    uint32_t pp, length, capacity;
    uint8_t *slot; /* [pp][capacity] */
} v_rows;

static inline uint8_t *v_row(const v_rows *rows, uint32_t rank) {
    return rows->slot + (uint64_t)rank * rows->capacity;
}

/* Repeats the block over all rows, then keeps m micro-batches along the path of the first one. */
void orr_v_repeat(v_rows *rows, uint8_t (*block)[V_TYPES], uint32_t m);

/* One building block on its way to a schedule (adaptive V). */
typedef struct v_candidate {
    v_rows rows;
    uint32_t m;      /* micro-batches at present: at least 2 pp until the redundant ones go */
    int32_t *slots;  /* [micro-batch][rank][V_TYPES] slot of an op; -1: not placed */
    v_rows spare;    /* of equal size, for squeezing */
    uint32_t *peaks; /* [pp] */
} v_candidate;

/* Develops a block for m micro-batches; *peak is what the budget, in chunks, is compared with.
 * False: spoilt or too large. */
bool orr_v_develop(v_candidate *c, orr_arena *work, uint8_t (*block)[V_TYPES], uint32_t m,
                   uint32_t budget, uint32_t *peak);

static inline bool v_is_f(uint8_t type) {
    return type == V_F0 || type == V_F1;
}
static inline bool v_is_w(uint8_t type) {
    return type == V_W1 || type == V_W0;
}
/* Ops that run from rank 0 to the last one: F of chunk 0 and B of chunk 1; their W along. */
static inline bool v_runs_down(uint8_t type) {
    return type == V_F0 || type == V_B1 || type == V_W1;
}

#endif
