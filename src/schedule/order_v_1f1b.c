/* 1F1B on the V placement, fused backward, about two thirds of 1F1B's activations: a building block
 * of six slots repeated, then packed without raising the peak.
 * Source: the zero-bubble authors' v1f1b.py (arXiv 2405.15362). Backward and weight gradient take
 * one slot each and stay together. */
#include <string.h>

#include "schedule/order_v_block.h"
#include "schedule/schedule_int.h"

typedef struct board {
    uint32_t pp, m, length;
    v_rows rows;
    int32_t *memory; /* [pp][length] chunks in flight after a slot */
    int32_t *at;     /* [pp][m + 2][V_TYPES] slot of the n-th op, n from 1; -1: none */
    int32_t peak;
} board;

static uint8_t *row_of(const board *b, uint32_t rank) {
    return v_row(&b->rows, rank);
}

static int32_t *at_of(const board *b, uint32_t rank, uint32_t n, uint32_t type) {
    return &b->at[((size_t)rank * (b->m + 2) + n) * V_TYPES + type];
}

/* Slots of the building block modulo the period: forwards run down the V one slot a hop, backwards
 * two slots a hop, skipping what forwards take. */
static void block_slots(uint32_t pp, uint8_t (*block)[V_TYPES]) {
    uint32_t now = 0, cycle = (3 - (pp + 2) % 3) % 3;
    for (uint32_t r = 0; r < pp; r++) {
        block[r][V_F0] = (uint8_t)(++now % V_PERIOD);
    }
    for (uint32_t r = pp; r-- > 0;) {
        block[r][V_F1] = (uint8_t)(++now % V_PERIOD);
    }
    now += pp % 3 == 0 ? 4 : 1;
    for (uint32_t k = 0; k < 2 * pp; k++) {
        uint32_t r = k < pp ? k : 2 * pp - 1 - k;
        block[r][k < pp ? V_B1 : V_B0] = (uint8_t)(now % V_PERIOD);
        block[r][k < pp ? V_W1 : V_W0] = (uint8_t)((now + 1) % V_PERIOD);
        now += 2;
        if (++cycle == 3) {
            cycle = 0;
            now += 3;
        }
    }
}

/* Slot of the op that has to come before the n-th one of a type; -1: none. */
static int32_t before(const board *b, uint32_t rank, uint32_t type, uint32_t n) {
    int32_t slot = n > 1 ? *at_of(b, rank, n - 1, type) : -1, need = -1;
    bool last = rank + 1 == b->pp;
    switch (type) {
    case V_F0: need = rank > 0 ? *at_of(b, rank - 1, n, V_F0) : -1; break;
    case V_F1: need = last ? *at_of(b, rank, n, V_F0) : *at_of(b, rank + 1, n, V_F1); break;
    case V_B1: need = rank > 0 ? *at_of(b, rank - 1, n, V_W1) : *at_of(b, rank, n, V_F1); break;
    case V_B0: need = last ? *at_of(b, rank, n, V_W1) : *at_of(b, rank + 1, n, V_W0); break;
    case V_W1: need = *at_of(b, rank, n, V_B1); break;
    default: need = *at_of(b, rank, n, V_B0); break;
    }
    return slot > need ? slot : need;
}

/* Where an op now at `from` can go: the first free slot after what precedes it, two in a row for a
 * backward, no further forward than memory allows. */
static uint32_t target(const board *b, uint32_t rank, uint32_t type, uint32_t n, uint32_t from) {
    const uint8_t *row = row_of(b, rank);
    const int32_t *memory = b->memory + (size_t)rank * b->length;
    uint32_t t = (uint32_t)(before(b, rank, type, n) + 1);
    while (t < from && row[t] != V_FREE) {
        t++;
    }
    while ((type == V_B1 || type == V_B0) && t < from &&
           (row[t] != V_FREE || row[t + 1] != V_FREE)) {
        t++;
    }
    if (t >= from || (type != V_F0 && type != V_F1)) {
        return orr_min_u32(t, from);
    }
    uint32_t place = from;
    while (place > t && memory[place - 1] < b->peak) {
        place--;
    }
    while (place < from && row[place] != V_FREE) {
        place++;
    }
    return place;
}

static void move(board *b, uint32_t rank, uint32_t type, uint32_t from, uint32_t to) {
    uint8_t *row = row_of(b, rank);
    int32_t change = type == V_F0 || type == V_F1 ? 1 : type == V_W1 || type == V_W0 ? -1 : 0;
    row[from] = V_FREE;
    row[to] = (uint8_t)type;
    for (uint32_t t = to; t < from; t++) {
        b->memory[(size_t)rank * b->length + t] += change;
    }
}

static void pack(board *b, uint32_t *seen) {
    for (uint32_t r = 0; r < b->pp; r++) {
        int32_t now = 0;
        for (uint32_t t = 0; t < b->length; t++) {
            uint8_t type = row_of(b, r)[t];
            now += type == V_F0 || type == V_F1 ? 1 : type == V_W1 || type == V_W0 ? -1 : 0;
            b->memory[(size_t)r * b->length + t] = now;
            b->peak = now > b->peak ? now : b->peak;
        }
    }
    for (uint32_t t = 0; t < b->length; t++) {
        for (uint32_t r = 0; r < b->pp; r++) {
            uint8_t type = row_of(b, r)[t];
            if (type != V_FREE) {
                uint32_t n = ++seen[r * V_TYPES + type];
                uint32_t to = target(b, r, type, n, t);
                *at_of(b, r, n, type) = (int32_t)to;
                if (to != t) {
                    move(b, r, type, t, to);
                }
            }
        }
    }
}

void orr_order_v_1f1b(orr_arena *work, const orr_schedule_spec *s, op_writer *w) {
    static const uint8_t kind[V_TYPES] = {ORR_SOP_F, ORR_SOP_F, ORR_SOP_BW, ORR_SOP_BW};
    static const uint8_t chunk[V_TYPES] = {0, 1, 1, 0};
    board b = {.pp = s->pp, .m = s->micro_batches};
    b.length = V_PERIOD * (4 * b.pp + b.m + 1);
    b.rows =
        (v_rows){b.pp, b.length, b.length, ORR_NEW_ARRAY(work, uint8_t, (size_t)b.pp * b.length)};
    b.memory = ORR_NEW_ARRAY(work, int32_t, (size_t)b.pp * b.length);
    b.at = ORR_NEW_ARRAY(work, int32_t, (size_t)b.pp * (b.m + 2) * V_TYPES);
    memset(b.at, 0xff, (size_t)b.pp * (b.m + 2) * V_TYPES * sizeof *b.at);
    uint8_t(*block)[V_TYPES] = orr_arena_array(work, b.pp, sizeof *block);
    block_slots(b.pp, block);
    orr_v_repeat(&b.rows, block, b.m);
    pack(&b, ORR_NEW_ARRAY(work, uint32_t, (size_t)b.pp * V_TYPES));
    for (uint32_t r = 0; r < b.pp; r++) {
        uint32_t next[V_TYPES] = {0};
        for (uint32_t t = 0; t < b.length; t++) {
            uint8_t type = row_of(&b, r)[t];
            if (type <= V_B0) {
                put_op(w, (orr_sched_op_kind)kind[type], chunk[type], next[type]++);
            }
        }
        end_rank(w);
    }
}
