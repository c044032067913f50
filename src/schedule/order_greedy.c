/* Hanayo and Chimera: in unit time, a free rank runs a backward that is ready, else a forward, the
 * oldest micro-batch first and of one micro-batch the deepest position; only so many micro-batches
 * are on a chain at once. Chimera counts a backward as long as a forward, Hanayo twice as long; the
 * order does not depend on the real times. Sources: Hanayo (arXiv 2308.15762), Chimera (arXiv
 * 2107.06925); neither published a generator, the rule above is the one recorded in the vectors
 * (tests/data/schedules). */
#include <string.h>

#include "schedule/schedule_int.h"

enum { NEVER = UINT32_MAX };

typedef struct unit_run {
    const orr_order *o;
    uint32_t vpp, length, per_chain, limit, backward_time;
    uint32_t *f_end, *b_end;   /* [chunk][micro-batch]; NEVER: not begun */
    uint32_t *f_next, *b_next; /* per chunk */
    uint32_t *busy_until;      /* per rank */
    orr_sched_op *list;        /* [rank][ops] */
    uint32_t *listed;
    uint32_t now;
} unit_run;

static bool is_over(uint32_t end, uint32_t now) {
    return end != NEVER && end <= now;
}

static uint32_t neighbour(const unit_run *u, uint32_t chunk, int shift) {
    const orr_order_view *v = &u->o->view;
    return u->o->owner[v->chain[chunk] * u->length + (uint32_t)((int)v->position[chunk] + shift)];
}

static bool forward_ready(const unit_run *u, uint32_t chunk) {
    uint32_t mb = u->f_next[chunk];
    if (mb == u->per_chain) {
        return false;
    }
    if (u->o->view.position[chunk] > 0) {
        return is_over(u->f_end[neighbour(u, chunk, -1) * u->per_chain + mb], u->now);
    }
    return mb < u->limit || is_over(u->b_end[chunk * u->per_chain + mb - u->limit], u->now);
}

static bool backward_ready(const unit_run *u, uint32_t chunk) {
    uint32_t mb = u->b_next[chunk];
    if (mb == u->per_chain || !is_over(u->f_end[chunk * u->per_chain + mb], u->now)) {
        return false;
    }
    return u->o->view.position[chunk] + 1 == u->length ||
           is_over(u->b_end[neighbour(u, chunk, 1) * u->per_chain + mb], u->now);
}

/* The chunk of a rank whose next op of a kind goes first; NEVER: none is ready. */
static uint32_t choose(const unit_run *u, uint32_t rank, bool backward) {
    const uint32_t *next = backward ? u->b_next : u->f_next;
    const uint32_t *position = u->o->view.position;
    uint32_t best = NEVER;
    for (uint32_t i = rank * u->vpp; i < (rank + 1) * u->vpp; i++) {
        bool ready = backward ? backward_ready(u, i) : forward_ready(u, i);
        if (ready && (best == NEVER || next[i] < next[best] ||
                      (next[i] == next[best] && position[i] > position[best]))) {
            best = i;
        }
    }
    return best;
}

static bool run_one(unit_run *u, uint32_t rank) {
    bool backward = true;
    uint32_t chunk = choose(u, rank, true);
    if (chunk == NEVER) {
        backward = false;
        chunk = choose(u, rank, false);
    }
    if (chunk == NEVER) {
        return false;
    }
    uint32_t mb = backward ? u->b_next[chunk]++ : u->f_next[chunk]++;
    uint32_t end = u->now + (backward ? u->backward_time : 1);
    (backward ? u->b_end : u->f_end)[chunk * u->per_chain + mb] = end;
    u->busy_until[rank] = end;
    u->list[(size_t)rank * 2 * u->vpp * u->per_chain + u->listed[rank]++] =
        (orr_sched_op){.kind = backward ? ORR_SOP_BW : ORR_SOP_F,
                       .chunk = (uint16_t)(chunk % u->vpp),
                       .micro_batch = mb};
    return true;
}

void orr_order_greedy(orr_arena *work, const orr_order *o, op_writer *w) {
    const orr_schedule_spec *s = &o->view.spec;
    bool chimera = s->kind == ORR_SCHEDULE_CHIMERA;
    uint32_t chunks = s->pp * s->vpp, ops = 2 * s->vpp * o->per_chain;
    size_t cells = (size_t)chunks * o->per_chain;
    unit_run u = {.o = o,
                  .vpp = s->vpp,
                  .length = o->view.chain_length,
                  .per_chain = o->per_chain,
                  .limit = chimera ? s->pp / 2 : s->pp,
                  .backward_time = chimera ? 1 : 2};
    u.f_end = ORR_NEW_ARRAY(work, uint32_t, 2 * cells);
    u.b_end = u.f_end + cells;
    memset(u.f_end, 0xff, 2 * cells * sizeof *u.f_end);
    u.f_next = ORR_NEW_ARRAY(work, uint32_t, chunks);
    u.b_next = ORR_NEW_ARRAY(work, uint32_t, chunks);
    u.busy_until = ORR_NEW_ARRAY(work, uint32_t, s->pp);
    u.listed = ORR_NEW_ARRAY(work, uint32_t, s->pp);
    u.list = ORR_NEW_ARRAY(work, orr_sched_op, (size_t)s->pp * ops);
    for (uint64_t left = (uint64_t)s->pp * ops; left > 0; u.now++) {
        for (uint32_t r = 0; r < s->pp; r++) {
            left -= u.busy_until[r] <= u.now && run_one(&u, r);
        }
    }
    for (uint32_t r = 0; r < s->pp; r++) {
        memcpy(w->op + w->count, u.list + (size_t)r * ops, ops * sizeof *w->op);
        w->count += ops;
        end_rank(w);
    }
}
