/* In-flight vectors: how many micro-batches of each chunk a rank holds at the moments when memory
 * can be highest. Chunks differ in size, so all Pareto-maximal vectors are kept. */
#include <string.h>

#include "schedule/schedule_int.h"

enum { EVENTS = 4 /* F, B, W, BW */, LANES = 4, MOST_IN_FLIGHT = INT16_MAX };

typedef struct entry {
    uint32_t next; /* in the list of one event and chunk; NO_NODE ends it */
    uint16_t pending_w;
} entry;

typedef struct live_lists {
    uint32_t vpp, width; /* width: vpp rounded up to whole lanes */
    entry *entry;
    uint16_t *counts; /* [capacity * width] */
    uint32_t used, capacity;
    uint32_t dropped; /* list of entries to reuse */
    uint32_t *head;   /* [EVENTS * vpp] */
    uint16_t *now;    /* [width] */
    uint16_t *then;   /* [width] as it was when the period at hand began */
    uint16_t pending_w;
    orr_arena *work;
} live_lists;

/* Whether a is nowhere below b, four counts at a time: the borrow of a lane stays in its top bit,
 * because counts have 15 bits. */
static bool covers(const uint16_t *a, uint16_t a_pending, const uint16_t *b, uint16_t b_pending,
                   uint32_t width) {
    const uint64_t top = 0x8000800080008000u;
    uint64_t no_borrow = top;
    for (uint32_t c = 0; c < width; c += LANES) {
        uint64_t x, y;
        memcpy(&x, a + c, sizeof x);
        memcpy(&y, b + c, sizeof y);
        no_borrow &= (x | top) - y;
    }
    return (no_borrow & top) == top && a_pending >= b_pending;
}

static uint32_t take_entry(live_lists *l) {
    if (l->dropped != NO_NODE) {
        uint32_t e = l->dropped;
        l->dropped = l->entry[e].next;
        return e;
    }
    if (l->used == l->capacity) {
        uint32_t capacity = 2 * l->capacity;
        entry *entries = ORR_NEW_ARRAY(l->work, entry, capacity);
        uint16_t *counts = ORR_NEW_ARRAY(l->work, uint16_t, (size_t)capacity * l->width);
        memcpy(entries, l->entry, l->used * sizeof *entries);
        memcpy(counts, l->counts, (size_t)l->used * l->width * sizeof *counts);
        l->entry = entries;
        l->counts = counts;
        l->capacity = capacity;
    }
    return l->used++;
}

static void note(live_lists *l, orr_sched_op_kind event, uint32_t chunk) {
    uint32_t *head = &l->head[(uint32_t)event * l->vpp + chunk], *link = head;
    while (*link != NO_NODE) {
        uint32_t e = *link;
        const uint16_t *old = l->counts + (size_t)e * l->width;
        if (covers(old, l->entry[e].pending_w, l->now, l->pending_w, l->width)) {
            return;
        }
        if (covers(l->now, l->pending_w, old, l->entry[e].pending_w, l->width)) {
            *link = l->entry[e].next;
            l->entry[e].next = l->dropped;
            l->dropped = e;
        } else {
            link = &l->entry[e].next;
        }
    }
    uint32_t e = take_entry(l);
    l->entry[e] = (entry){*head, l->pending_w};
    head = &l->head[(uint32_t)event * l->vpp + chunk];
    *head = e;
    memcpy(l->counts + (size_t)e * l->width, l->now, l->width * sizeof *l->now);
}

static bool same(const orr_sched_op *a, const orr_sched_op *b) {
    return a->kind == b->kind && a->chunk == b->chunk;
}

/* `before` and `after` are the neighbours on the rank or NULL. */
static void step_op(live_lists *l, const orr_sched_op *op, const orr_sched_op *before,
                    const orr_sched_op *after) {
    switch ((orr_sched_op_kind)op->kind) {
    case ORR_SOP_F:
        l->now[op->chunk]++;
        if (after == NULL || !same(op, after)) { /* a run of forwards is covered by its last */
            note(l, ORR_SOP_F, op->chunk);
        }
        break;
    case ORR_SOP_PAIR:
        l->now[op->chunk]++;
        note(l, ORR_SOP_F, op->chunk);
        note(l, ORR_SOP_BW, op->chunk2);
        l->now[op->chunk2]--;
        break;
    case ORR_SOP_B:
        note(l, ORR_SOP_B, op->chunk);
        l->now[op->chunk]--;
        l->pending_w++;
        break;
    case ORR_SOP_BW:
        if (before == NULL || !same(op, before)) {
            note(l, ORR_SOP_BW, op->chunk);
        }
        l->now[op->chunk]--;
        break;
    case ORR_SOP_W:
        note(l, ORR_SOP_W, op->chunk);
        l->pending_w--;
        break;
    }
}

static uint32_t count_entries(const live_lists *l) {
    uint32_t count = 0;
    for (uint32_t h = 0; h < EVENTS * l->vpp; h++) {
        for (uint32_t e = l->head[h]; e != NO_NODE; e = l->entry[e].next) {
            count++;
        }
    }
    return count;
}

static uint32_t keep(orr_arena *arena, const live_lists *l, orr_live *out) {
    uint32_t kept = 0;
    for (uint32_t h = 0; h < EVENTS * l->vpp; h++) {
        for (uint32_t e = l->head[h]; e != NO_NODE; e = l->entry[e].next) {
            uint16_t *count = ORR_NEW_ARRAY(arena, uint16_t, l->vpp);
            memcpy(count, l->counts + (size_t)e * l->width, l->vpp * sizeof *count);
            out[kept++] = (orr_live){.event = (uint8_t)(h / l->vpp),
                                     .chunk = (uint16_t)(h % l->vpp),
                                     .pending_w = l->entry[e].pending_w,
                                     .count = count};
        }
    }
    return kept;
}

/* Ops between two micro-batches in the middle, or between groups: after so many, a steady rank does
 * the same again. 0: unknown. */
static uint32_t period_of(const orr_order *o, uint32_t rank) {
    const orr_schedule_spec *s = &o->view.spec;
    uint32_t ahead = o->facts.place == PLACE_LOOP ? s->group : 1, middle = o->per_chain / 2;
    if (middle + ahead >= o->per_chain) {
        return 0;
    }
    const uint32_t *at = o->f_at + (size_t)rank * s->vpp * o->per_chain;
    return at[middle + ahead] > at[middle] ? at[middle + ahead] - at[middle] : 0;
}

/* How far from `at` on the ops are those of one period before. */
static uint32_t repeated_until(const orr_sched_op *op, uint32_t at, uint32_t end, uint32_t period) {
    while (at < end && same(&op[at], &op[at - period]) && op[at].chunk2 == op[at - period].chunk2) {
        at++;
    }
    return at;
}

/* Goes through a rank's ops. Once a period repeats the one before and holds what that held, all its
 * further repetitions bring no new vector and are stepped over, but for the last. */
static void scan_rank(live_lists *l, const orr_order *o, uint32_t rank) {
    const orr_order_view *v = &o->view;
    uint32_t first = v->op_first[rank], end = v->op_first[rank + 1];
    uint32_t period = period_of(o, rank), check = end;
    uint32_t try_from = first + period; /* before this an op differs from that a period earlier */
    uint16_t then_pending = 0;
    l->used = 0;
    l->dropped = NO_NODE;
    memset(l->head, 0xff, EVENTS * l->vpp * sizeof *l->head);
    for (uint32_t i = first; i < end; i++) {
        if (period != 0 && check == end && i >= try_from) {
            uint32_t until = repeated_until(v->op, i, orr_min_u32(end, i + period), period);
            try_from = until + 1;
            if (until == i + period) {
                check = until;
                then_pending = l->pending_w;
                memcpy(l->then, l->now, l->width * sizeof *l->now);
            }
        } else if (i == check) {
            bool steady = then_pending == l->pending_w &&
                          memcmp(l->then, l->now, l->width * sizeof *l->now) == 0;
            check = end;
            try_from = i;
            if (steady) {
                i += (repeated_until(v->op, i, end, period) - i) / period * period;
                period = 0;
                if (i == end) {
                    break;
                }
            }
        }
        step_op(l, &v->op[i], i == first ? NULL : &v->op[i - 1],
                i + 1 == end ? NULL : &v->op[i + 1]);
    }
}

static uint32_t most_in_flight(const orr_order *order) {
    orr_arena *work = orr_arena_new();
    uint32_t pp = order->view.spec.pp, most = 0;
    orr_peaks peaks = {.until_w = ORR_NEW_ARRAY(work, uint32_t, pp)};
    orr_order_peaks(order, &peaks);
    for (uint32_t r = 0; r < pp; r++) {
        most = orr_max_u32(most, peaks.until_w[r]);
    }
    orr_arena_free(work);
    return most;
}

orr_status orr_order_live(orr_arena *arena, orr_order *order, orr_err *err) {
    orr_order_view *v = &order->view;
    uint32_t most =
        (uint64_t)order->per_chain * v->spec.vpp <= MOST_IN_FLIGHT ? 0 : most_in_flight(order);
    if (most > MOST_IN_FLIGHT) {
        return orr_fail(err, ORR_E_LIMIT,
                        "up to %u chunk micro-batches in flight on a rank, at most %u", most,
                        (unsigned)MOST_IN_FLIGHT);
    }
    orr_arena *work = orr_arena_new();
    live_lists l = {.vpp = v->spec.vpp, .capacity = 64, .work = work};
    l.entry = ORR_NEW_ARRAY(work, entry, l.capacity);
    l.width = (l.vpp + LANES - 1) / LANES * LANES;
    l.counts = ORR_NEW_ARRAY(work, uint16_t, (size_t)l.capacity * l.width);
    l.head = ORR_NEW_ARRAY(work, uint32_t, (size_t)EVENTS * l.vpp);
    l.now = ORR_NEW_ARRAY(work, uint16_t, 2 * (size_t)l.width);
    l.then = l.now + l.width;
    uint32_t *first = ORR_NEW_ARRAY(arena, uint32_t, v->spec.pp + 1);
    orr_live *live = NULL;
    uint32_t used = 0, capacity = 0;
    for (uint32_t r = 0; r < v->spec.pp; r++) {
        scan_rank(&l, order, r);
        uint32_t more = count_entries(&l);
        if (used + more > capacity) {
            capacity = orr_max_u32(2 * capacity, used + more * (v->spec.pp - r));
            orr_live *grown = ORR_NEW_ARRAY(arena, orr_live, capacity);
            if (used != 0) {
                memcpy(grown, live, used * sizeof *grown);
            }
            live = grown;
        }
        first[r] = used;
        used += keep(arena, &l, live + used);
    }
    first[v->spec.pp] = used;
    v->live_first = first;
    v->live = live;
    orr_arena_free(work);
    return ORR_OK;
}
