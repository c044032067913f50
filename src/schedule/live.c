/* In-flight vectors: how many micro-batches of each chunk a rank holds at the moments when memory
 * can be highest. Chunks differ in size, so all Pareto-maximal vectors are kept. */
#include <string.h>

#include "schedule/schedule_int.h"

enum { EVENTS = 4 }; /* F, B, W, BW */

typedef struct entry {
    uint32_t next; /* in the list of one event and chunk; NO_NODE ends it */
    uint16_t pending_w;
} entry;

typedef struct live_lists {
    uint32_t vpp;
    entry *entry;
    uint16_t *counts; /* [capacity * vpp] */
    uint32_t used, capacity;
    uint32_t dropped; /* list of entries to reuse */
    uint32_t *head;   /* [EVENTS * vpp] */
    uint16_t *now;    /* [vpp] */
    uint16_t pending_w;
    orr_arena *work;
} live_lists;

static bool covers(const uint16_t *a, uint16_t a_pending, const uint16_t *b, uint16_t b_pending,
                   uint32_t vpp) {
    unsigned below = a_pending < b_pending;
    for (uint32_t c = 0; c < vpp; c++) {
        below |= a[c] < b[c];
    }
    return below == 0;
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
        uint16_t *counts = ORR_NEW_ARRAY(l->work, uint16_t, (size_t)capacity * l->vpp);
        memcpy(entries, l->entry, l->used * sizeof *entries);
        memcpy(counts, l->counts, (size_t)l->used * l->vpp * sizeof *counts);
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
        const uint16_t *old = l->counts + (size_t)e * l->vpp;
        if (covers(old, l->entry[e].pending_w, l->now, l->pending_w, l->vpp)) {
            return;
        }
        if (covers(l->now, l->pending_w, old, l->entry[e].pending_w, l->vpp)) {
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
    memcpy(l->counts + (size_t)e * l->vpp, l->now, l->vpp * sizeof *l->now);
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
            memcpy(count, l->counts + (size_t)e * l->vpp, l->vpp * sizeof *count);
            out[kept++] = (orr_live){.event = (uint8_t)(h / l->vpp),
                                     .chunk = (uint16_t)(h % l->vpp),
                                     .pending_w = l->entry[e].pending_w,
                                     .count = count};
        }
    }
    return kept;
}

static void scan_rank(live_lists *l, const orr_order_view *v, uint32_t rank) {
    uint32_t first = v->op_first[rank], end = v->op_first[rank + 1];
    l->used = 0;
    l->dropped = NO_NODE;
    memset(l->head, 0xff, EVENTS * l->vpp * sizeof *l->head);
    for (uint32_t i = first; i < end; i++) {
        step_op(l, &v->op[i], i == first ? NULL : &v->op[i - 1],
                i + 1 == end ? NULL : &v->op[i + 1]);
    }
}

orr_status orr_order_live(orr_arena *arena, orr_order *order, orr_err *err) {
    orr_order_view *v = &order->view;
    if ((uint64_t)order->per_chain * v->spec.vpp > UINT16_MAX &&
        (v->spec.kind == ORR_SCHEDULE_GPIPE || v->spec.kind == ORR_SCHEDULE_LOOPED_BFS ||
         v->spec.kind == ORR_SCHEDULE_USER)) {
        return orr_fail(err, ORR_E_LIMIT,
                        "up to %u chunk micro-batches in flight on a rank, at most %u",
                        order->per_chain * v->spec.vpp, (unsigned)UINT16_MAX);
    }
    orr_arena *work = orr_arena_new();
    live_lists l = {.vpp = v->spec.vpp, .capacity = 64, .work = work};
    l.entry = ORR_NEW_ARRAY(work, entry, l.capacity);
    l.counts = ORR_NEW_ARRAY(work, uint16_t, (size_t)l.capacity * l.vpp);
    l.head = ORR_NEW_ARRAY(work, uint32_t, (size_t)EVENTS * l.vpp);
    l.now = ORR_NEW_ARRAY(work, uint16_t, l.vpp);
    uint32_t *first = ORR_NEW_ARRAY(arena, uint32_t, v->spec.pp + 1);
    orr_live *live = NULL;
    uint32_t used = 0, capacity = 0;
    for (uint32_t r = 0; r < v->spec.pp; r++) {
        scan_rank(&l, v, r);
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
