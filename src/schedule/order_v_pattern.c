/* V-Half and V-Min: a pattern of unit slots, repeated every six, then squeezed.
 * Source: Pipeline Parallelism with Controllable Memory (arXiv 2405.15362); the squeezing follows
 * the authors' greedy code (zbv_greedy.py), the other variant that of Primus. Both only reorder the
 * warm-up and the cool-down and never raise the peak of the stable pattern. */
#include <string.h>

#include "schedule/schedule_int.h"

enum { F0, F1, B1, B0, W1, W0, SLOT_TYPES, FREE = 0xff, PERIOD = 6 };

static const struct {
    uint8_t kind, chunk;
} slot_op[SLOT_TYPES] = {{ORR_SOP_F, 0}, {ORR_SOP_F, 1}, {ORR_SOP_B, 1},
                         {ORR_SOP_B, 0}, {ORR_SOP_W, 1}, {ORR_SOP_W, 0}};

/* Per rank a row of unit slots; per rank and type the slots of its micro-batches. */
typedef struct grid {
    uint32_t pp, m, length;
    uint8_t *slot;  /* [pp][length] type or FREE */
    uint32_t *at;   /* [pp][SLOT_TYPES][2 m]; W of either chunk share a list of 2 m at W1 */
    uint32_t *used; /* [pp] slots up to the last op */
} grid;

static grid new_grid(orr_arena *work, uint32_t pp, uint32_t m) {
    grid g = {.pp = pp, .m = m, .length = PERIOD * (m + pp + 2) + 2 * m};
    g.slot = ORR_NEW_ARRAY(work, uint8_t, (size_t)pp * g.length);
    g.at = ORR_NEW_ARRAY(work, uint32_t, (size_t)pp * SLOT_TYPES * 2 * m);
    g.used = ORR_NEW_ARRAY(work, uint32_t, pp);
    memset(g.slot, FREE, (size_t)pp * g.length);
    return g;
}

static uint8_t *slot_of(const grid *g, uint32_t rank, uint32_t slot) {
    return &g->slot[(size_t)rank * g->length + slot];
}

static uint32_t *at_of(const grid *g, uint32_t rank, uint32_t type, uint32_t micro_batch) {
    return &g->at[((size_t)rank * SLOT_TYPES + type) * 2 * g->m + micro_batch];
}

static void place(grid *g, uint32_t rank, uint32_t type, uint32_t micro_batch, uint32_t slot) {
    *slot_of(g, rank, slot) = (uint8_t)type;
    *at_of(g, rank, type, micro_batch) = slot;
    g->used[rank] = orr_max_u32(g->used[rank], slot + 1);
}

static void pattern_start(orr_schedule_kind kind, uint32_t pp, uint32_t r, uint32_t start[4]) {
    bool minimum = kind == ORR_SCHEDULE_V_MIN || kind == ORR_SCHEDULE_V_MIN_PRIMUS;
    if (minimum) {
        uint32_t gap = pp % 3 == 0 ? 2 : 0;
        start[F0] = r;
        start[F1] = 2 * pp - 1 - r;
        start[B1] = 2 * pp + gap + r;
        start[B0] = 4 * pp + gap - 1 - r;
    } else {
        uint32_t gap = pp % 2 == 0 ? 3 : 0;
        start[F0] = 2 * r;
        start[F1] = 3 * pp - 2 - r;
        start[B1] = 3 * pp + gap + 2 * r - 1;
        start[B0] = 6 * pp + gap - 2 - r;
    }
}

static grid stable_pattern(orr_arena *work, const orr_schedule_spec *s) {
    grid g = new_grid(work, s->pp, s->micro_batches);
    for (uint32_t r = 0; r < s->pp; r++) {
        uint32_t start[4];
        pattern_start((orr_schedule_kind)s->kind, s->pp, r, start);
        for (uint32_t type = F0; type <= B0; type++) {
            for (uint32_t i = 0; i < g.m; i++) {
                place(&g, r, type, i, start[type] + PERIOD * i);
            }
        }
    }
    return g;
}

/* W goes into free slots once its B is done. `split` keeps the chunks apart, chunk 1 first; else
 * the W of both are counted together in one list. */
static void put_w(grid *g, uint32_t rank, bool split) {
    uint32_t waiting[2] = {0, 0}, done[2] = {0, 0}, bound = g->used[rank];
    for (uint32_t t = 0; t < bound || waiting[0] + waiting[1] > 0; t++) {
        uint8_t type = t < bound ? *slot_of(g, rank, t) : FREE;
        if (type == B1 || type == B0) {
            waiting[split && type == B0]++;
        } else if (type == FREE && waiting[0] + waiting[1] > 0) {
            uint32_t k = waiting[0] > 0 ? 0 : 1;
            waiting[k]--;
            place(g, rank, k == 0 ? W1 : W0, done[k]++, t);
        }
    }
}

static void remove_w(grid *g) {
    for (uint32_t r = 0; r < g->pp; r++) {
        uint32_t used = 0;
        for (uint32_t t = 0; t < g->used[r]; t++) {
            uint8_t *slot = slot_of(g, r, t);
            if (*slot == W1 || *slot == W0) {
                *slot = FREE;
            } else if (*slot != FREE) {
                used = t + 1;
            }
        }
        g->used[r] = used;
    }
}

/* Most chunks in flight on a rank whose slots before `seam` are as in `now`, later ones as in
 * `then`. Without W ops every free slot is taken to hold one, if one is due. */
static uint32_t peak_of(const uint8_t *now, const uint8_t *then, uint32_t seam, uint32_t used,
                        bool with_w) {
    uint32_t memory = 0, peak = 0, due = 0;
    for (uint32_t t = 0; t < used; t++) {
        uint8_t type = t < seam ? now[t] : then[t];
        if (type == F0 || type == F1) {
            memory++;
            peak = orr_max_u32(peak, memory);
        } else if (type == B1 || type == B0) {
            due++;
        } else if (type != FREE) {
            memory--;
        } else if (!with_w && due > 0) {
            due--;
            memory--;
        }
    }
    return peak;
}

/* ---- the authors' squeeze ---------------------------------------------------------------------
 */

/* k-th earliest slot among the B of both chunks: what the k-th W waits for. */
static uint32_t kth_backward(const grid *g, uint32_t rank, uint32_t k) {
    uint32_t i = 0, j = 0, slot = 0;
    while (i + j <= k) {
        uint32_t a = i < g->m ? *at_of(g, rank, B1, i) : UINT32_MAX;
        uint32_t b = j < g->m ? *at_of(g, rank, B0, j) : UINT32_MAX;
        if (a < b) {
            slot = a;
            i++;
        } else {
            slot = b;
            j++;
        }
    }
    return slot;
}

static uint32_t after(uint32_t slot, uint32_t least) {
    return orr_max_u32(slot + 1, least);
}

/* First slot that the dependencies of an op allow. */
static uint32_t earliest(const grid *g, uint32_t rank, uint32_t type, uint32_t mb) {
    uint32_t least = 0;
    if ((type == F0 || type == B1) && rank > 0) {
        least = after(*at_of(g, rank - 1, type, mb), least);
    }
    if ((type == F1 || type == B0) && rank + 1 < g->pp) {
        least = after(*at_of(g, rank + 1, type, mb), least);
    }
    if (type > F0 && type <= B0) {
        least = after(*at_of(g, rank, type - 1, mb), least);
    }
    if (type == W1) {
        least = after(kth_backward(g, rank, mb), least);
    }
    return mb > 0 ? after(*at_of(g, rank, type, mb - 1), least) : least;
}

typedef struct squeezer {
    const grid *from;
    grid *to;
    uint32_t *next; /* [pp][SLOT_TYPES] micro-batches seen */
    uint32_t peak;
    bool with_w;
    uint32_t phase; /* 0 warm-up, 1 steady, 2 cool-down */
} squeezer;

static void squeeze_op(squeezer *q, uint32_t rank, uint32_t type, uint32_t mb, uint32_t slot) {
    grid *g = q->to;
    uint8_t *row = slot_of(g, rank, 0);
    const uint8_t *old = slot_of(q->from, rank, 0);
    *at_of(g, rank, type, mb) = slot;
    for (uint32_t t = earliest(g, rank, type, mb); t < slot; t++) {
        if (row[t] != FREE) {
            continue;
        }
        row[t] = (uint8_t)type;
        if (peak_of(row, old, slot + 1, q->from->used[rank], q->with_w) <= q->peak) {
            place(g, rank, type, mb, t);
            return;
        }
        row[t] = FREE;
    }
    place(g, rank, type, mb, slot);
}

static void squeeze_slot(squeezer *q, uint32_t rank, uint32_t slot) {
    uint8_t type = *slot_of(q->from, rank, slot);
    if (type == FREE) {
        return;
    }
    uint32_t mb = q->next[rank * SLOT_TYPES + type]++;
    if (type == B0 && rank == 0 && q->phase == 0) {
        q->phase = 1;
    }
    if (q->phase == 1) {
        q->phase = type == F0 && mb + 1 == q->to->m ? 2 : 1;
        place(q->to, rank, type, mb, slot);
    } else if (q->phase == 0 && !q->with_w) {
        place(q->to, rank, type, mb, slot);
    } else {
        squeeze_op(q, rank, type, mb, slot);
    }
}

/* Every op as early as order and dependencies let it, in unit time. */
static void run_in_unit_time(orr_arena *work, grid *g) {
    grid done = new_grid(work, g->pp, g->m);
    uint32_t *next = ORR_NEW_ARRAY(work, uint32_t, (size_t)g->pp * SLOT_TYPES), longest = 0;
    for (uint32_t r = 0; r < g->pp; r++) {
        longest = orr_max_u32(longest, g->used[r]);
    }
    for (uint32_t t = 0; t < longest; t++) {
        for (uint32_t r = 0; r < g->pp; r++) {
            uint8_t type = *slot_of(g, r, t);
            if (type != FREE) {
                uint32_t mb = next[r * SLOT_TYPES + type]++;
                /* W waits for nothing but its turn on the rank */
                uint32_t least = type < W1 ? earliest(&done, r, type, mb) : 0;
                place(&done, r, type, mb, orr_max_u32(least, done.used[r]));
            }
        }
    }
    *g = done;
}

static grid squeeze(orr_arena *work, const grid *from, bool with_w) {
    grid to = new_grid(work, from->pp, from->m);
    squeezer q = {.from = from, .to = &to, .with_w = with_w};
    uint32_t longest = 0;
    q.next = ORR_NEW_ARRAY(work, uint32_t, (size_t)from->pp * SLOT_TYPES);
    /* what is not yet moved counts at its old place */
    memcpy(to.at, from->at, (size_t)from->pp * SLOT_TYPES * 2 * from->m * sizeof *to.at);
    for (uint32_t r = 0; r < from->pp; r++) {
        const uint8_t *row = slot_of(from, r, 0);
        q.peak = orr_max_u32(q.peak, peak_of(row, row, 0, from->used[r], with_w));
        longest = orr_max_u32(longest, from->used[r]);
    }
    for (uint32_t t = 0; t < longest; t++) {
        for (uint32_t r = 0; r < from->pp; r++) {
            if (t < from->used[r]) {
                squeeze_slot(&q, r, t);
            }
        }
    }
    return to;
}

static void write_grid(const grid *g, op_writer *w) {
    for (uint32_t r = 0; r < g->pp; r++) {
        uint32_t next[SLOT_TYPES] = {0};
        for (uint32_t t = 0; t < g->used[r]; t++) {
            uint8_t type = *slot_of(g, r, t);
            if (type != FREE) {
                put_op(w, (orr_sched_op_kind)slot_op[type].kind, slot_op[type].chunk, next[type]++);
            }
        }
        end_rank(w);
    }
}

static void put_all_w(grid *g, bool split) {
    for (uint32_t r = 0; r < g->pp; r++) {
        put_w(g, r, split);
    }
}

void orr_order_v_pattern(orr_arena *work, const orr_schedule_spec *s, op_writer *w) {
    grid g = stable_pattern(work, s);
    put_all_w(&g, false);
    g = squeeze(work, &g, true);
    run_in_unit_time(work, &g);
    remove_w(&g);
    g = squeeze(work, &g, false);
    put_all_w(&g, false);
    run_in_unit_time(work, &g);
    remove_w(&g);
    put_all_w(&g, true);
    write_grid(&g, w);
}

/* ---- Primus' squeeze --------------------------------------------------------------------------
 */

enum { WARM_UP, STEADY, COOL_DOWN };

typedef struct cell {
    uint8_t type, phase;
    uint32_t micro_batch;
} cell;

typedef struct board {
    grid g;          /* at[] is kept; slot[] marks what is taken */
    cell *cell;      /* [pp][length] */
    int32_t *memory; /* [pp][length] chunks in flight after a slot */
    uint32_t last;   /* last slot of any rank */
    int32_t peak;
} board;

static cell *cell_of(const board *b, uint32_t rank, uint32_t slot) {
    return &b->cell[(size_t)rank * b->g.length + slot];
}

static void set_cell(board *b, uint32_t rank, uint32_t slot, cell c) {
    *cell_of(b, rank, slot) = c;
    place(&b->g, rank, c.type, c.micro_batch, slot);
}

static uint8_t next_phase(const board *b, uint8_t phase, const cell *c) {
    if (c->micro_batch == 0 && c->type == B0) {
        return STEADY;
    }
    return c->micro_batch + 1 == b->g.m && c->type == F1 ? COOL_DOWN : phase;
}

/* Queues W behind their B, first in first out, and notes memory and phase of every slot. */
static void fill_board(board *b, uint32_t rank, cell *queue) {
    int32_t *memory = &b->memory[(size_t)rank * b->g.length];
    uint32_t head = 0, tail = 0, end = b->g.used[rank] + 2, next[SLOT_TYPES] = {0};
    uint8_t phase = WARM_UP;
    for (uint32_t t = 0; t < end; t++) {
        uint8_t type = *slot_of(&b->g, rank, t);
        memory[t] = t > 0 ? memory[t - 1] : 0;
        if (type != FREE) {
            cell c = {type, phase, next[type]++};
            *cell_of(b, rank, t) = c;
            memory[t] += type == F0 || type == F1;
            if (type == B1 || type == B0) {
                queue[tail++] = (cell){type == B1 ? W1 : W0, 0, c.micro_batch};
            }
            phase = next_phase(b, phase, &c);
        } else if (head < tail) {
            cell c = queue[head++];
            c.phase = phase;
            set_cell(b, rank, t, c);
            memory[t]--;
        }
        b->peak = memory[t] > b->peak ? memory[t] : b->peak;
    }
    b->last = orr_max_u32(b->last, b->g.used[rank] - 1);
}

static uint32_t primus_earliest(const board *b, uint32_t rank, const cell *c) {
    const grid *g = &b->g;
    uint32_t slot = c->micro_batch > 0 ? *at_of(g, rank, c->type, c->micro_batch - 1) : 0;
    uint32_t need = 0;
    switch (c->type) {
    case F0: need = rank > 0 ? *at_of(g, rank - 1, F0, c->micro_batch) : 0; break;
    case F1:
        need = rank + 1 < g->pp ? *at_of(g, rank + 1, F1, c->micro_batch)
                                : *at_of(g, rank, F0, c->micro_batch);
        break;
    case B1:
        need = rank > 0 ? *at_of(g, rank - 1, B1, c->micro_batch)
                        : *at_of(g, rank, F1, c->micro_batch);
        break;
    case B0:
        need = rank + 1 < g->pp ? *at_of(g, rank + 1, B0, c->micro_batch)
                                : *at_of(g, rank, B1, c->micro_batch);
        break;
    default: return orr_max_u32(slot, *at_of(g, rank, c->type == W1 ? B1 : B0, c->micro_batch));
    }
    return orr_max_u32(slot, need) + 1;
}

/* First free slot that an op may move to; `from` when there is none. */
static uint32_t primus_slot(board *b, uint32_t rank, const cell *c, uint32_t from, bool cooling) {
    int32_t *memory = &b->memory[(size_t)rank * b->g.length];
    int32_t delta = c->type == F0 || c->type == F1 ? 1 : c->type == W1 || c->type == W0 ? -1 : 0;
    for (uint32_t t = primus_earliest(b, rank, c); t < from; t++) {
        if (*slot_of(&b->g, rank, t) != FREE) {
            continue;
        }
        bool fits = true;
        for (uint32_t k = t; k < from && !cooling; k++) {
            fits = fits && memory[k] + delta <= b->peak;
        }
        if (fits) {
            for (uint32_t k = t; k < from && !cooling; k++) {
                memory[k] += delta;
            }
            return t;
        }
    }
    return from;
}

static void primus_squeeze(board *b, bool cooling, cell *put_off, uint32_t *count) {
    for (uint32_t t = 0; t <= b->last; t++) {
        for (uint32_t r = 0; r < b->g.pp; r++) {
            cell c = *cell_of(b, r, t);
            uint8_t type = *slot_of(&b->g, r, t);
            if (type == FREE || (cooling && c.phase != COOL_DOWN)) {
                continue;
            }
            *slot_of(&b->g, r, t) = FREE;
            if (cooling && (type == W1 || type == W0)) {
                put_off[(size_t)r * 2 * b->g.m + count[r]++] = c;
            } else {
                /* its own slot is not free to itself: search before it only */
                set_cell(b, r, primus_slot(b, r, &c, t, cooling), c);
            }
        }
    }
}

/* The W put off go, in their order, into the first free slots after their B. */
static void primus_put_back(board *b, const cell *put_off, const uint32_t *count) {
    for (uint32_t r = 0; r < b->g.pp; r++) {
        for (uint32_t i = 0; i < count[r]; i++) {
            const cell *c = &put_off[(size_t)r * 2 * b->g.m + i];
            uint32_t t = primus_earliest(b, r, c);
            while (*slot_of(&b->g, r, t) != FREE) {
                t++;
            }
            set_cell(b, r, t, *c);
        }
    }
}

void orr_order_v_primus(orr_arena *work, const orr_schedule_spec *s, op_writer *w) {
    board b = {.g = stable_pattern(work, s)};
    size_t cells = (size_t)s->pp * b.g.length;
    cell *queue = ORR_NEW_ARRAY(work, cell, (size_t)s->pp * 2 * s->micro_batches);
    uint32_t *count = ORR_NEW_ARRAY(work, uint32_t, s->pp);
    b.cell = ORR_NEW_ARRAY(work, cell, cells);
    b.memory = ORR_NEW_ARRAY(work, int32_t, cells);
    for (uint32_t r = 0; r < s->pp; r++) {
        fill_board(&b, r, queue);
    }
    primus_squeeze(&b, false, queue, count);
    primus_squeeze(&b, true, queue, count);
    primus_put_back(&b, queue, count);
    write_grid(&b.g, w);
}
