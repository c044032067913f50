/* The automatic ZBV order: a greedy walk on the V placement under a memory budget, tried with four
 * settings and repeated with the bubbles that the walk before could not avoid.
 * Source: the zero-bubble authors' code for ZBV (arXiv 2401.10241, 2405.15362). There "half" 0 of a
 * micro-batch's forward is chunk 0 and half 0 of its backward is chunk 1: the half that comes
 * first. Doubles hold whole picoseconds, see orr_durations.unit_ps. */
#include <math.h>
#include <string.h>

#include "schedule/schedule_int.h"

enum { KINDS = 3 };

typedef struct pending {
    uint32_t head, tail;
    uint8_t *half;
} pending;

typedef struct walk {
    const orr_durations *d;
    uint32_t pp, m;
    int64_t limit;
    bool fill_f, fill_b;
    const double *approved; /* [pp] or NULL */
    double most_approved;
    double *end;                 /* [kind][half][rank][micro-batch]; < 0: not yet */
    uint32_t (*count)[KINDS][2]; /* [rank] */
    double *clock, *bubble;
    int64_t *memory;
    pending *w;
    uint8_t *list; /* [rank][6 m]: kind * 2 + half */
    bool failed;
} walk;

static uint32_t chunk_of(uint32_t kind, uint32_t half) {
    return kind == ORR_SOP_F ? half : 1 - half;
}

static double cost(const walk *w, uint32_t kind, uint32_t half, uint32_t rank) {
    const int64_t *of[KINDS] = {w->d->f, w->d->b, w->d->w};
    return of[kind] == NULL ? 0 : orr_order_real(w->d, of[kind][2 * rank + chunk_of(kind, half)]);
}

static double hop(const walk *w, uint32_t lower) {
    return w->d->hop == NULL ? 0 : orr_order_real(w->d, w->d->hop[lower]);
}

static double *end_of(const walk *w, uint32_t kind, uint32_t half, uint32_t rank, uint32_t mb) {
    return &w->end[((size_t)(kind * 2 + half) * w->pp + rank) * w->m + mb];
}

static uint32_t done(const walk *w, uint32_t kind, uint32_t half, uint32_t rank) {
    return w->count[rank][kind][half];
}

/* The rank that has the same half just before `rank`; false when it starts here. */
static bool source(const walk *w, uint32_t half, uint32_t rank, uint32_t *from) {
    *from = half == 0 ? rank - 1 : rank + 1;
    return half == 0 ? rank > 0 : rank + 1 < w->pp;
}

/* End of the op that the next one of this kind and half waits for on a neighbour rank; < 0: none.
 */
static double neighbour_end(const walk *w, uint32_t kind, uint32_t half, uint32_t rank) {
    uint32_t from, i = done(w, kind, half, rank);
    return source(w, half, rank, &from) && i < w->m ? *end_of(w, kind, half, from, i) : -1;
}

static double hop_from(const walk *w, uint32_t half, uint32_t rank) {
    return half == 0 ? (rank > 0 ? hop(w, rank - 1) : hop(w, 0)) : hop(w, rank);
}

/* Whether what precedes the next op of a kind and half is done. */
static bool is_ready(const walk *w, uint32_t kind, uint32_t half, uint32_t rank) {
    uint32_t from, i = done(w, kind, half, rank);
    if (i >= w->m) {
        return false;
    }
    if (kind == ORR_SOP_W) {
        return *end_of(w, ORR_SOP_B, half, rank, i) >= 0;
    }
    bool before = kind == ORR_SOP_F && half == 0 ? true
                  : half == 1                    ? *end_of(w, kind, 0, rank, i) >= 0
                                                 : *end_of(w, ORR_SOP_F, 1, rank, i) >= 0;
    return before && (!source(w, half, rank, &from) || *end_of(w, kind, half, from, i) >= 0);
}

static void put(walk *w, uint32_t kind, uint32_t half, uint32_t rank) {
    static const int64_t take[KINDS] = {1, 0, -1};
    if (w->failed || !is_ready(w, kind, half, rank) || w->memory[rank] + take[kind] > w->limit) {
        w->failed = true;
        return;
    }
    double time = cost(w, kind, half, rank), own = w->clock[rank] + time, end = own;
    if (kind != ORR_SOP_W && neighbour_end(w, kind, half, rank) >= 0) {
        end = fmax(own, neighbour_end(w, kind, half, rank) + hop_from(w, half, rank) + time);
    }
    if (w->count[rank][ORR_SOP_F][0] > 0) {
        w->bubble[rank] += end - own;
    }
    uint32_t at = 0;
    for (uint32_t k = 0; k < KINDS; k++) {
        at += w->count[rank][k][0] + w->count[rank][k][1];
    }
    w->list[(size_t)rank * 2 * KINDS * w->m + at] = (uint8_t)(kind * 2 + half);
    *end_of(w, kind, half, rank, w->count[rank][kind][half]++) = end;
    w->clock[rank] = end;
    w->memory[rank] += take[kind];
    if (kind == ORR_SOP_B) {
        w->w[rank].half[w->w[rank].tail++] = (uint8_t)half;
    }
}

static bool has_w(const walk *w, uint32_t rank) {
    return !w->failed && w->w[rank].head < w->w[rank].tail;
}

static void put_w(walk *w, uint32_t rank) {
    if (!has_w(w, rank)) {
        w->failed = true;
        return;
    }
    put(w, ORR_SOP_W, w->w[rank].half[w->w[rank].head++], rank);
}

static double next_w_cost(const walk *w, uint32_t rank) {
    return cost(w, ORR_SOP_W, w->w[rank].half[w->w[rank].head], rank);
}

/* The bubble that a rank may have without being the worst. */
static double bearable(const walk *w, uint32_t rank) {
    double most = 0;
    for (uint32_t r = 0; r < w->pp; r++) {
        most = fmax(most, w->bubble[r]);
    }
    return w->approved == NULL ? most : fmax(most, w->most_approved - w->approved[rank]);
}

/* ---- warm-up -------------------------------------------------------------------------------- */

static void warm_up_forward(walk *w) {
    for (uint32_t r = 0; r < w->pp; r++) {
        put(w, ORR_SOP_F, 0, r);
    }
    put(w, ORR_SOP_F, 1, w->pp - 1);
    for (uint32_t r = w->pp - 1; r-- > 0;) {
        double arrives = *end_of(w, ORR_SOP_F, 1, r + 1, 0) + hop(w, r);
        while (!w->failed && w->memory[r] + 2 + 2 * (int64_t)r <= w->limit &&
               w->clock[r] + cost(w, ORR_SOP_F, 0, r) <= arrives && done(w, 0, 0, r) < w->m) {
            for (uint32_t k = 0; k <= r; k++) {
                put(w, ORR_SOP_F, 0, k);
            }
        }
        put(w, ORR_SOP_F, 1, r);
    }
}

static bool lags(const walk *w, uint32_t rank) {
    uint32_t mine = done(w, 0, 0, rank) + done(w, 0, 1, rank);
    uint32_t before = done(w, 0, 0, rank - 1) + done(w, 0, 1, rank - 1);
    return mine < before ||
           (done(w, 0, 1, rank) <= done(w, 0, 1, rank - 1) && done(w, 0, 1, rank - 1) < w->m);
}

static void warm_up_catch_up(walk *w) {
    uint32_t half = 0;
    for (uint32_t r = 1; r < w->pp; r++) {
        while (!w->failed && lags(w, r)) {
            bool moved = false;
            for (uint32_t k = w->pp; k-- > r;) {
                if (done(w, ORR_SOP_F, half, k) < w->m) {
                    put(w, ORR_SOP_F, half, k);
                    moved = true;
                }
            }
            half = 1 - half;
            w->failed =
                w->failed || (!moved && done(w, 0, 0, r) == w->m && done(w, 0, 1, r) == w->m);
        }
    }
}

/* ---- steady state --------------------------------------------------------------------------- */

/* The end of what the next op waits for, as the authors' code reads it: where there is nothing to
 * wait for it looks at the last W of all, which counts only once that is done. */
static double awaited(const walk *w, uint32_t kind, uint32_t half, uint32_t rank, bool *named) {
    uint32_t from;
    *named = source(w, half, rank, &from);
    return *named ? *end_of(w, kind, half, from, done(w, kind, half, rank))
                  : *end_of(w, ORR_SOP_W, 1, w->pp - 1, w->m - 1);
}

static void fill_wait(walk *w, uint32_t kind, uint32_t half, uint32_t rank, bool fill) {
    bool named;
    double end = awaited(w, kind, half, rank, &named), hops = hop_from(w, half, rank);
    while (has_w(w, rank) && named && end + hops >= w->clock[rank] + next_w_cost(w, rank)) {
        put_w(w, rank);
    }
    if (has_w(w, rank) && end + hops - w->clock[rank] > bearable(w, rank) - w->bubble[rank] &&
        fill) {
        put_w(w, rank);
    }
}

static bool second_half_of_backward(const walk *w, uint32_t rank) {
    if (done(w, ORR_SOP_B, 1, rank) >= done(w, ORR_SOP_B, 0, rank)) {
        return false;
    }
    return rank + 1 == w->pp || done(w, ORR_SOP_B, 0, rank) >= w->m ||
           *end_of(w, ORR_SOP_B, 1, rank + 1, done(w, ORR_SOP_B, 1, rank)) >= 0;
}

static void put_backwards(walk *w, bool *second) {
    for (uint32_t r = 0; r < w->pp; r++) {
        second[r] = second_half_of_backward(w, r);
    }
    for (uint32_t r = w->pp; r-- > 0 && !w->failed;) {
        if (second[r]) {
            fill_wait(w, ORR_SOP_B, 1, r, true);
            put(w, ORR_SOP_B, 1, r);
        }
    }
    for (uint32_t r = 0; r < w->pp && !w->failed; r++) {
        if (!second[r]) {
            w->failed = done(w, ORR_SOP_B, 0, r) >= w->m;
            if (!w->failed) {
                fill_wait(w, ORR_SOP_B, 0, r, w->fill_b);
                put(w, ORR_SOP_B, 0, r);
            }
        }
    }
}

/* Which half a rank's next forward is: 0, 1, or 2 for none. */
static uint32_t next_forward(const walk *w, uint32_t rank) {
    uint32_t first = done(w, ORR_SOP_F, 0, rank), second = done(w, ORR_SOP_F, 1, rank);
    if (second >= w->m) {
        return 2;
    }
    if (second >= first) {
        return 0;
    }
    if (rank + 1 == w->pp || *end_of(w, ORR_SOP_F, 1, rank + 1, second) >= 0) {
        return 1;
    }
    bool fed = first < w->m && (rank == 0 || *end_of(w, ORR_SOP_F, 0, rank - 1, first) >= 0);
    return fed ? 0 : 2;
}

static void put_forwards(walk *w) {
    for (uint32_t r = 0; r < w->pp && !w->failed; r++) {
        uint32_t half = next_forward(w, r);
        if (half == 2) {
            continue;
        }
        while (!w->failed && w->memory[r] + 1 > w->limit) {
            put_w(w, r);
        }
        if (!w->failed) {
            fill_wait(w, ORR_SOP_F, half, r, w->fill_f);
            put(w, ORR_SOP_F, half, r);
        }
    }
}

static double run_walk(walk *w, bool *scratch) {
    size_t cells = (size_t)2 * KINDS * w->pp * w->m;
    for (size_t i = 0; i < cells; i++) {
        w->end[i] = -1;
    }
    memset(w->count, 0, w->pp * sizeof *w->count);
    for (uint32_t r = 0; r < w->pp; r++) {
        w->clock[r] = w->bubble[r] = 0;
        w->memory[r] = 0;
        w->w[r].head = w->w[r].tail = 0;
    }
    w->failed = false;
    warm_up_forward(w);
    warm_up_catch_up(w);
    for (uint32_t i = 0; i < 2 * w->m && !w->failed; i++) {
        put_backwards(w, scratch);
        put_forwards(w);
    }
    for (uint32_t r = 0; r < w->pp; r++) {
        while (has_w(w, r)) {
            put_w(w, r);
        }
    }
    double most = 0;
    for (uint32_t r = 0; r < w->pp; r++) {
        most = fmax(most, w->bubble[r]);
    }
    return w->failed ? (double)INFINITY : most;
}

static void write_list(const walk *w, const uint8_t *list, op_writer *out) {
    for (uint32_t r = 0; r < w->pp; r++) {
        uint32_t next[2 * KINDS] = {0};
        for (uint32_t i = 0; i < 2 * KINDS * w->m; i++) {
            uint8_t code = list[(size_t)r * 2 * KINDS * w->m + i];
            uint32_t kind = code / 2;
            put_op(out, (orr_sched_op_kind)kind, chunk_of(kind, code % 2), next[code]++);
        }
        end_rank(out);
    }
}

static walk new_walk(orr_arena *work, const orr_schedule_spec *s, const orr_durations *d) {
    uint32_t pp = s->pp, m = s->micro_batches;
    walk w = {.d = d, .pp = pp, .m = m};
    w.limit = s->memory_limit != 0 ? s->memory_limit : 2 * pp;
    w.end = ORR_NEW_ARRAY(work, double, (size_t)2 * KINDS * pp * m);
    w.count = orr_arena_array(work, pp, sizeof *w.count);
    w.clock = ORR_NEW_ARRAY(work, double, pp);
    w.bubble = ORR_NEW_ARRAY(work, double, pp);
    w.memory = ORR_NEW_ARRAY(work, int64_t, pp);
    w.list = ORR_NEW_ARRAY(work, uint8_t, (size_t)2 * KINDS * pp * m);
    w.w = ORR_NEW_ARRAY(work, pending, pp);
    for (uint32_t r = 0; r < pp; r++) {
        w.w[r].half = ORR_NEW_ARRAY(work, uint8_t, 2 * (size_t)m);
    }
    return w;
}

/* Runs all settings; the least bubble, or infinity when none gets through. The best order is kept.
 */
static double run_settings(walk *w, uint8_t *best, double *approved, bool *scratch) {
    size_t size = (size_t)2 * KINDS * w->pp * w->m;
    double least = INFINITY;
    for (unsigned k = 0; k < 4; k++) {
        w->fill_b = (k & 2) == 0;
        w->fill_f = (k & 1) == 0;
        w->approved = NULL;
        double last = INFINITY;
        for (double most = run_walk(w, scratch); most < last; most = run_walk(w, scratch)) {
            if (most < least) {
                least = most;
                memcpy(best, w->list, size);
            }
            last = most;
            memcpy(approved, w->bubble, w->pp * sizeof *approved);
            w->approved = approved;
            w->most_approved = most;
        }
    }
    return least;
}

/* The walk was made for equal stages. Where unequal ones lead it astray, the order for their mean
 * is taken. */
orr_status orr_order_zbv_auto(orr_arena *work, const orr_schedule_spec *s, const orr_durations *d,
                              op_writer *out, orr_err *err) {
    walk w = new_walk(work, s, d);
    uint8_t *best = ORR_NEW_ARRAY(work, uint8_t, (size_t)2 * KINDS * w.pp * w.m);
    double *approved = ORR_NEW_ARRAY(work, double, w.pp);
    bool *scratch = ORR_NEW_ARRAY(work, bool, w.pp);
    double least = run_settings(&w, best, approved, scratch);
    orr_durations mean;
    if (isinf(least)) {
        mean = orr_order_mean_times(work, d, w.pp, 2);
        w.d = &mean;
        least = run_settings(&w, best, approved, scratch);
    }
    if (isinf(least)) {
        return orr_fail(err, ORR_E_INFEASIBLE,
                        "zbv-auto finds no order for %u micro-batches on %u ranks within %lld "
                        "chunks (rule SCH-MEMORY)",
                        w.m, w.pp, (long long)w.limit);
    }
    write_list(&w, best, out);
    return ORR_OK;
}
