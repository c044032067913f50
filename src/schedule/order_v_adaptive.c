/* Adaptive V schedule under a memory budget: all building blocks of six slots whose ranks follow
 * each other by uniform offsets are tried - repeated, squeezed, warm-up and cool-down reordered -
 * and the shortest within the budget stays. Source: Pipeline Parallelism with Controllable Memory
 * (arXiv 2405.15362), the authors' v_auto_schedule.py. Every step may spoil a candidate; such ones
 * are dropped. */
#include <math.h>
#include <string.h>

#include "schedule/order_v_block.h"
#include "schedule/schedule_int.h"

/* Longest rank span with the real times. */
static double span_of(const v_candidate *c, const orr_durations *d, double *end) {
    uint32_t pp = c->rows.pp;
    double *clock = end + (size_t)c->m * pp * V_TYPES, longest = 0;
    uint32_t seen[V_TYPES][ORR_MAX_PP] = {{0}};
    memset(clock, 0, pp * sizeof *clock);
    for (uint32_t t = 0; t < c->rows.length; t++) {
        for (uint32_t r = 0; r < pp; r++) {
            uint8_t type = v_row(&c->rows, r)[t];
            if (type == V_FREE) {
                continue;
            }
            uint32_t mb = seen[type][r]++, from = v_runs_down(type) ? r - 1 : r + 1;
            const int64_t *of = v_is_f(type) ? d->f : v_is_w(type) ? d->w : d->b;
            uint32_t chunk = type == V_F0 || type == V_B0 || type == V_W0 ? 0 : 1;
            double time = clock[r];
            if (!v_is_w(type) && from < pp) {
                double hop = d->hop == NULL ? 0 : orr_order_real(d, d->hop[orr_min_u32(r, from)]);
                time = fmax(time, end[((size_t)mb * pp + from) * V_TYPES + type] + hop);
            }
            clock[r] = time + (of == NULL ? 0 : orr_order_real(d, of[2 * r + chunk]));
            end[((size_t)mb * pp + r) * V_TYPES + type] = clock[r];
        }
    }
    for (uint32_t r = 0; r < pp; r++) {
        const double *first = end + (size_t)r * V_TYPES;
        const double *last = end + ((size_t)(c->m - 1) * pp + r) * V_TYPES;
        double f = orr_order_real(d, d->f[2 * r]);
        longest = fmax(longest, fmax(last[V_W1], last[V_W0]) - first[V_F0] + f);
    }
    return longest;
}

/* ---- the search ----------------------------------------------------------------------------- */

/* Each W right behind its B where there is room. */
static void fill_w(uint8_t slot[V_TYPES]) {
    bool taken[V_PERIOD] = {0};
    for (uint32_t type = V_F0; type <= V_B0; type++) {
        taken[slot[type]] = true;
    }
    for (uint32_t type = V_B1; type <= V_B0; type++) {
        uint32_t t = slot[type];
        while (taken[t]) {
            t = (t + 1) % V_PERIOD;
        }
        taken[t] = true;
        slot[type + (V_W1 - V_B1)] = (uint8_t)t;
    }
}

/* Ranks up to `turn` follow each other by `offset`, later ones by `offset2`, one way; the other way
 * by one slot. False when two ops meet. */
static bool make_block(uint8_t (*block)[V_TYPES], uint32_t pp, uint32_t offset, uint32_t offset2,
                       uint32_t turn) {
    for (uint32_t r = 0; r + 1 < pp; r++) {
        bool taken[V_PERIOD] = {0};
        for (uint32_t type = V_F0; type <= V_B0; type++) {
            uint32_t step = !v_runs_down((uint8_t)type) ? V_PERIOD - 1
                            : r < turn                  ? offset
                                                        : offset2;
            uint32_t t = (block[r][type] + step) % V_PERIOD;
            if (taken[t]) {
                return false;
            }
            taken[t] = true;
            block[r + 1][type] = (uint8_t)t;
        }
        fill_w(block[r + 1]);
    }
    return true;
}

typedef struct search {
    v_candidate c;
    const orr_durations *d;
    uint32_t pp, m, budget;
    uint8_t (*block)[V_TYPES];
    uint8_t *best;
    uint32_t best_length;
    double least;
    double *end;
    orr_arena *work;
} search;

/* One pair of offsets with every turning rank; stops at the first that takes too much memory. */
static void try_offsets(search *s, uint32_t offset, uint32_t offset2) {
    for (uint32_t turn = 1; turn < s->pp; turn++) {
        uint32_t peak;
        if (!make_block(s->block, s->pp, offset, offset2, turn)) {
            continue;
        }
        bool fine =
            orr_v_develop(&s->c, s->work, s->block, s->m, orr_min_u32(2 * s->pp, s->budget), &peak);
        if (peak > 2 * s->pp || peak > s->budget) {
            return;
        }
        double span = fine ? span_of(&s->c, s->d, s->end) : (double)INFINITY;
        if (span < s->least) {
            s->least = span;
            s->best_length = s->c.rows.length;
            for (uint32_t r = 0; r < s->pp; r++) {
                memcpy(s->best + (size_t)r * s->c.rows.capacity, v_row(&s->c.rows, r),
                       s->best_length);
            }
        }
        orr_arena_reset(s->work);
    }
}

static void try_first_row(search *s, uint8_t f1, uint8_t b1, uint8_t b0) {
    if (f1 == b1 || f1 == b0 || b1 == b0) {
        return;
    }
    for (uint32_t offset = 1; offset <= 5; offset++) {
        for (uint32_t offset2 = 1; offset2 <= offset; offset2++) {
            uint8_t *row = s->block[0];
            row[V_F0] = 0;
            row[V_F1] = f1;
            row[V_B1] = b1;
            row[V_B0] = b0;
            fill_w(row);
            try_offsets(s, offset, offset2);
        }
    }
}

static void write_best(const search *s, op_writer *w) {
    static const uint8_t kind[V_TYPES] = {ORR_SOP_F, ORR_SOP_F, ORR_SOP_B,
                                          ORR_SOP_B, ORR_SOP_W, ORR_SOP_W};
    static const uint8_t chunk[V_TYPES] = {0, 1, 1, 0, 1, 0};
    for (uint32_t r = 0; r < s->pp; r++) {
        const uint8_t *row = s->best + (size_t)r * s->c.rows.capacity;
        uint32_t next[V_TYPES] = {0};
        for (uint32_t t = 0; t < s->best_length; t++) {
            if (row[t] != V_FREE) {
                put_op(w, (orr_sched_op_kind)kind[row[t]], chunk[row[t]], next[row[t]]++);
            }
        }
        end_rank(w);
    }
}

static void prepare(search *s, orr_arena *work) {
    uint32_t many = orr_max_u32(s->m, 2 * s->pp);
    uint32_t capacity = V_PERIOD * (4 * s->pp + many + 1) + 6 * many;
    size_t cells = (size_t)s->pp * capacity;
    s->c.rows = (v_rows){s->pp, 0, capacity, ORR_NEW_ARRAY(work, uint8_t, cells)};
    s->c.spare = (v_rows){s->pp, 0, capacity, ORR_NEW_ARRAY(work, uint8_t, cells)};
    s->c.slots = ORR_NEW_ARRAY(work, int32_t, (size_t)many * s->pp * V_TYPES);
    s->c.peaks = ORR_NEW_ARRAY(work, uint32_t, s->pp);
    s->best = ORR_NEW_ARRAY(work, uint8_t, cells);
    s->block = orr_arena_array(work, s->pp, sizeof *s->block);
    s->end = ORR_NEW_ARRAY(work, double, ((size_t)many * V_TYPES + 1) * s->pp);
}

orr_status orr_order_v_adaptive(orr_arena *work, const orr_schedule_spec *spec,
                                const orr_durations *d, op_writer *w, orr_err *err) {
    search s = {.d = d,
                .pp = spec->pp,
                .m = spec->micro_batches,
                .budget = spec->memory_limit != 0 ? spec->memory_limit : 2 * spec->pp,
                .least = INFINITY};
    prepare(&s, work);
    s.work = orr_arena_new();
    for (uint8_t f1 = 1; f1 < V_PERIOD; f1++) {
        for (uint8_t b1 = 1; b1 < V_PERIOD; b1++) {
            for (uint8_t b0 = 1; b0 < V_PERIOD; b0++) {
                try_first_row(&s, f1, b1, b0);
            }
        }
    }
    orr_arena_free(s.work);
    if (isinf(s.least)) {
        return orr_fail(err, ORR_E_INFEASIBLE,
                        "v-adaptive finds no order for %u micro-batches on %u ranks within %u "
                        "chunks (rule SCH-MEMORY)",
                        s.m, s.pp, s.budget);
    }
    write_best(&s, w);
    return ORR_OK;
}
