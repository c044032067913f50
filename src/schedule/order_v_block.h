/* Building blocks of six unit slots a micro-batch on the V placement, shared by the orders made by
 * repeating one (order_v_1f1b.c, order_v_adaptive.c). */
#ifndef ORR_SCHEDULE_ORDER_V_BLOCK_H
#define ORR_SCHEDULE_ORDER_V_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
