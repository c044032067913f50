/* The automatic zero-bubble order for any memory budget: a greedy walk through the micro-batches,
 * tried with eight settings, of which the one with the shortest longest rank span stays.
 * Source: Zero Bubble Pipeline Parallelism (arXiv 2401.10241), the heuristic of its authors' code;
 * rule by rule in docs/internals/schedules.md.
 * Times are doubles that hold whole picoseconds, hence exact, unless the caller asks for the
 * rounding of another program's unit (orr_durations.unit_ps). */
#include <math.h>
#include <string.h>

#include "schedule/schedule_int.h"

enum { KINDS = 3 }; /* F, B, W as in orr_sched_op_kind */

typedef struct settings {
    bool bubble_before_first_b; /* warm-up may stop short of the first B */
    bool prioritize_b;
    bool no_bubble_greedy; /* put W even into a wait that the longest rank could bear */
} settings;

typedef struct walk {
    const orr_schedule_spec *s;
    const orr_durations *d;
    settings set;
    uint32_t pp, m;
    int64_t take[KINDS]; /* memory change of an op */
    int64_t limit;
    double *end;           /* [kind][rank][micro-batch] */
    uint32_t *done[KINDS]; /* [rank] ops of a kind so far */
    int64_t *memory;
    double *clock, *bubble;
    uint32_t *wanted; /* [rank] */
    uint8_t *list;    /* [rank][3 m] kinds in order */
} walk;

static double cost(const walk *w, uint32_t kind, uint32_t rank) {
    const int64_t *of[KINDS] = {w->d->f, w->d->b, w->d->w};
    return of[kind] == NULL ? 0 : orr_order_real(w->d, of[kind][rank]);
}

static double *end_of(const walk *w, uint32_t kind, uint32_t rank, uint32_t micro_batch) {
    return &w->end[((size_t)kind * w->pp + rank) * w->m + micro_batch];
}

static double hop(const walk *w, uint32_t lower) {
    return w->d->hop == NULL ? 0 : orr_order_real(w->d, w->d->hop[lower]);
}

/* When the input of a rank's next op of a kind arrives; -1 when nothing has to. */
static double arrival(const walk *w, uint32_t kind, uint32_t rank) {
    uint32_t i = w->done[kind][rank];
    if (kind == ORR_SOP_F && rank > 0) {
        return *end_of(w, kind, rank - 1, i) + hop(w, rank - 1);
    }
    if (kind == ORR_SOP_B && rank + 1 < w->pp) {
        return *end_of(w, kind, rank + 1, i) + hop(w, rank);
    }
    return -1;
}

static void put(walk *w, uint32_t rank, uint32_t kind) {
    uint32_t i = w->done[kind][rank];
    double own = w->clock[rank] + cost(w, kind, rank), wait = arrival(w, kind, rank);
    double end = wait < 0 ? own : fmax(own, wait + cost(w, kind, rank));
    if (w->done[ORR_SOP_F][rank] > 0) {
        w->bubble[rank] += end - own;
    }
    w->clock[rank] = end;
    *end_of(w, kind, rank, i) = w->clock[rank];
    w->memory[rank] += w->take[kind];
    uint32_t at = w->done[0][rank] + w->done[1][rank] + w->done[2][rank];
    w->list[(size_t)rank * KINDS * w->m + at] = (uint8_t)kind;
    w->done[kind][rank]++;
}

static double most_bubble(const walk *w) {
    double most = 0;
    for (uint32_t r = 0; r < w->pp; r++) {
        most = w->bubble[r] > most ? w->bubble[r] : most;
    }
    return most;
}

static bool has_w(const walk *w, uint32_t rank) {
    return w->done[ORR_SOP_W][rank] < w->done[ORR_SOP_B][rank];
}

/* ---- warm-up -------------------------------------------------------------------------------- */

/* How many more forwards fit before the first B can arrive. */
static uint32_t fitting(const walk *w, uint32_t rank, double b_arrives, double *clock) {
    uint32_t more = 0;
    int64_t memory = w->memory[rank];
    double f = cost(w, ORR_SOP_F, rank);
    *clock = w->clock[rank];
    while (w->done[ORR_SOP_F][rank] + more < w->m && memory + w->take[ORR_SOP_F] <= w->limit) {
        bool full = w->set.bubble_before_first_b ? *clock + f > b_arrives : *clock >= b_arrives;
        if (full) {
            break;
        }
        memory += w->take[ORR_SOP_F];
        *clock += f;
        more++;
    }
    return more;
}

static void warm_up(walk *w) {
    for (uint32_t r = 0; r < w->pp; r++) {
        put(w, r, ORR_SOP_F);
        w->wanted[r] = 0;
    }
    uint32_t last = w->pp - 1;
    double b_end = w->clock[last] + cost(w, ORR_SOP_B, last);
    for (uint32_t r = last; r-- > 0;) {
        double clock, arrives = b_end + hop(w, r);
        w->wanted[r] = fitting(w, r, arrives, &clock);
        b_end = (clock > arrives ? clock : arrives) + cost(w, ORR_SOP_B, r);
    }
    for (uint32_t r = 1; r < w->pp; r++) { /* strictly fewer on later ranks */
        while (w->wanted[r] > 0 && w->wanted[r] >= w->wanted[r - 1] &&
               w->done[ORR_SOP_F][r] + w->wanted[r] < w->m) {
            w->wanted[r]--;
        }
    }
    for (uint32_t r = 0; r < w->pp; r++) {
        for (uint32_t i = 0; i < w->wanted[r]; i++) {
            put(w, r, ORR_SOP_F);
        }
    }
    for (uint32_t r = w->pp; r-- > 0;) {
        put(w, r, ORR_SOP_B);
    }
}

/* ---- one micro-batch ------------------------------------------------------------------------ */

/* When the next rank will be through its next F and B. */
static double next_through(const walk *w, uint32_t rank) {
    return w->clock[rank + 1] + cost(w, ORR_SOP_F, rank + 1) + cost(w, ORR_SOP_B, rank + 1) +
           hop(w, rank);
}

/* Whether a rank that is two forwards ahead of the next one should run another. */
static bool goes_further(const walk *w, uint32_t rank) {
    double until = next_through(w, rank);
    if (w->clock[rank] >= until) {
        return false;
    }
    double w_time = 0;
    int64_t memory = w->memory[rank] + w->take[ORR_SOP_F];
    for (uint32_t i = w->done[ORR_SOP_W][rank]; memory > w->limit && i < w->done[ORR_SOP_B][rank];
         i++) {
        w_time += cost(w, ORR_SOP_W, rank);
        memory += w->take[ORR_SOP_W];
    }
    if (w->clock[rank] + cost(w, ORR_SOP_F, rank) + w_time <= until) {
        return true;
    }
    return until - w->clock[rank] > most_bubble(w) - w->bubble[rank];
}

static void choose_forwards(walk *w) {
    const uint32_t *f = w->done[ORR_SOP_F];
    for (uint32_t r = 0; r < w->pp; r++) {
        w->wanted[r] = 0;
        if (f[r] >= w->m) {
            continue;
        }
        bool ahead = r + 1 < w->pp && f[r] >= f[r + 1] + 2 && w->set.prioritize_b;
        w->wanted[r] = !ahead || goes_further(w, r);
    }
    for (uint32_t r = w->pp - 1; r-- > 0;) {
        w->wanted[r] = orr_min_u32(w->wanted[r], w->wanted[r + 1]);
    }
}

/* W while memory is short, then while one fits into the wait, then one that prolongs it if the wait
 * would make this rank the longest. False: memory cannot be had. */
static bool fill_before(walk *w, uint32_t rank, uint32_t kind) {
    while (w->memory[rank] + w->take[kind] > w->limit) {
        if (!has_w(w, rank)) {
            return false;
        }
        put(w, rank, ORR_SOP_W);
    }
    double wait = arrival(w, kind, rank);
    if (wait < 0) {
        return true;
    }
    while (has_w(w, rank) && w->clock[rank] + cost(w, ORR_SOP_W, rank) <= wait) {
        put(w, rank, ORR_SOP_W);
    }
    if (has_w(w, rank) && w->clock[rank] < wait) {
        bool bearable = wait - w->clock[rank] <= most_bubble(w) - w->bubble[rank];
        if (!bearable || w->set.no_bubble_greedy) {
            put(w, rank, ORR_SOP_W);
        }
    }
    return true;
}

static bool run_micro_batch(walk *w) {
    choose_forwards(w);
    for (uint32_t r = 0; r < w->pp; r++) {
        if (w->wanted[r] != 0) {
            if (!fill_before(w, r, ORR_SOP_F)) {
                return false;
            }
            put(w, r, ORR_SOP_F);
        }
    }
    for (uint32_t r = w->pp; r-- > 0;) {
        if (!fill_before(w, r, ORR_SOP_B)) {
            return false;
        }
        while (r == 0 && w->done[ORR_SOP_F][0] == w->m && has_w(w, 0)) {
            put(w, 0, ORR_SOP_W);
        }
        if (w->done[ORR_SOP_F][r] == w->done[ORR_SOP_B][r]) {
            return false; /* unequal stages led it astray */
        }
        put(w, r, ORR_SOP_B);
    }
    return true;
}

static bool run_walk(walk *w) {
    memset(w->end, 0, (size_t)KINDS * w->pp * w->m * sizeof *w->end);
    for (uint32_t r = 0; r < w->pp; r++) {
        w->memory[r] = 0;
        w->clock[r] = w->bubble[r] = 0;
        w->done[0][r] = w->done[1][r] = w->done[2][r] = 0;
    }
    warm_up(w);
    for (uint32_t i = 1; i < w->m; i++) {
        if (!run_micro_batch(w)) {
            return false;
        }
    }
    for (uint32_t r = 0; r < w->pp; r++) {
        while (w->done[ORR_SOP_W][r] < w->m) {
            put(w, r, ORR_SOP_W);
        }
    }
    return true;
}

static double longest_span(const walk *w) {
    double longest = 0;
    for (uint32_t r = 0; r < w->pp; r++) {
        double f = cost(w, ORR_SOP_F, r);
        double span = *end_of(w, ORR_SOP_W, r, w->m - 1) - *end_of(w, ORR_SOP_F, r, 0) + f;
        longest = span > longest ? span : longest;
    }
    return longest;
}

static walk new_walk(orr_arena *work, const orr_schedule_spec *s, const orr_durations *d) {
    uint32_t pp = s->pp, m = s->micro_batches;
    bool plain = s->memory_f == 0; /* F takes one, W gives it back */
    walk w = {.s = s, .d = d, .pp = pp, .m = m};
    w.take[ORR_SOP_F] = plain ? 1 : s->memory_f;
    w.take[ORR_SOP_B] = plain ? 0 : -(int64_t)s->memory_b;
    w.take[ORR_SOP_W] = plain ? -1 : -(int64_t)s->memory_w;
    w.limit = s->memory_limit;
    if (w.limit == 0) {
        /* without a limit of its own: what the paper calls 1p and 2p */
        w.limit = w.take[ORR_SOP_F] * pp * (s->kind == ORR_SCHEDULE_ZB_1P ? 1 : 2);
    }
    w.end = ORR_NEW_ARRAY(work, double, (size_t)KINDS *pp *m);
    w.memory = ORR_NEW_ARRAY(work, int64_t, pp);
    w.clock = ORR_NEW_ARRAY(work, double, pp);
    w.bubble = ORR_NEW_ARRAY(work, double, pp);
    w.wanted = ORR_NEW_ARRAY(work, uint32_t, pp);
    w.list = ORR_NEW_ARRAY(work, uint8_t, (size_t)KINDS * pp * m);
    for (int k = 0; k < KINDS; k++) {
        w.done[k] = ORR_NEW_ARRAY(work, uint32_t, pp);
    }
    return w;
}

static void write_list(const walk *w, const uint8_t *list, op_writer *out) {
    for (uint32_t r = 0; r < w->pp; r++) {
        uint32_t next[KINDS] = {0};
        for (uint32_t i = 0; i < KINDS * w->m; i++) {
            uint8_t kind = list[(size_t)r * KINDS * w->m + i];
            put_op(out, (orr_sched_op_kind)kind, 0, next[kind]++);
        }
        end_rank(out);
    }
}

static double run_settings(walk *w, uint8_t *best) {
    double shortest = INFINITY;
    for (unsigned k = 0; k < 8; k++) {
        w->set = (settings){(k & 4) == 0, (k & 2) == 0, (k & 1) == 0};
        if (run_walk(w) && longest_span(w) < shortest) {
            shortest = longest_span(w);
            memcpy(best, w->list, (size_t)KINDS * w->pp * w->m);
        }
    }
    return shortest;
}

/* The walk was made for nearly equal stages. Where unequal ones lead it astray, the order for their
 * mean is taken. */
orr_status orr_order_zb_auto(orr_arena *work, const orr_schedule_spec *s, const orr_durations *d,
                             op_writer *out, orr_err *err) {
    walk w = new_walk(work, s, d);
    uint8_t *best = ORR_NEW_ARRAY(work, uint8_t, (size_t)KINDS * w.pp * w.m);
    double shortest = run_settings(&w, best);
    orr_durations mean;
    if (isinf(shortest)) {
        mean = orr_order_mean_times(work, d, w.pp, 1);
        w.d = &mean;
        shortest = run_settings(&w, best);
    }
    if (isinf(shortest)) {
        return orr_fail(err, ORR_E_INFEASIBLE,
                        "a memory budget of %lld is too small for %s: a forward takes %lld (rule "
                        "SCH-MEMORY)",
                        (long long)w.limit, orr_schedule_name((orr_schedule_kind)s->kind),
                        (long long)w.take[ORR_SOP_F]);
    }
    write_list(&w, best, out);
    return ORR_OK;
}
