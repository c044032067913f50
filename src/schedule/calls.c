/* The transfers that Megatron-LM's schedules post and wait for, between the ops of each rank.
 *
 * Blocking: one batched call after each op (or pair of ops), which returns when its last transfer
 * is done. Overlapped (interleaved schedule only): posts return at once and a wait comes before the
 * value is used or the buffer of the previous send is reused; with warm-up flush, warm-up and
 * cool-down are overlapped as well. A transfer runs once both ends have posted it. Facts from
 * Megatron-LM's core/pipeline_parallel/schedules.py, checked against recorded traces. */
#include "schedule/schedule_int.h"

enum { NONE = UINT32_MAX };

/* Transfers posted and not yet waited for, oldest first. They are numbered in order, so that two
 * counters tell which. */
typedef struct fifo {
    uint32_t head, tail;
} fifo;

typedef struct caller {
    call_item *item;
    uint32_t count;
    uint32_t op;                                         /* next op of the rank */
    uint32_t send_next, recv_prev, send_prev, recv_next; /* posted so far */
    fifo prev_waits, next_waits;                         /* receives to wait for */
    uint32_t next_handle, prev_handle;                   /* last send each way, or NONE */
    const orr_schedule_spec *spec;
    uint32_t rank, warm, total;
    const uint16_t *chunk_of; /* [total] of a virtual micro-batch, forward */
} caller;

static void add_item(caller *c, item_type type, unsigned what, uint32_t index) {
    c->item[c->count++] = (call_item){type & 3u, what & 15u, index & 0x3ffffffu};
}

static void add_op(caller *c) {
    add_item(c, ITEM_OP, 0, c->op++);
}

static void count_posts(caller *c, unsigned what) {
    c->send_next += (what & SEND_NEXT) != 0;
    c->recv_prev += (what & RECV_PREV) != 0;
    c->send_prev += (what & SEND_PREV) != 0;
    c->recv_next += (what & RECV_NEXT) != 0;
}

/* Blocking: index is not needed, everything posted is waited for. */
static void call(caller *c, unsigned what) {
    if (what != 0) {
        count_posts(c, what);
        add_item(c, ITEM_CALL, what, 0);
    }
}

static void wait_send(caller *c, unsigned what, uint32_t *handle) {
    if (*handle != NONE) {
        add_item(c, ITEM_WAIT, what, *handle);
        *handle = NONE;
    }
}

static void wait_receive(caller *c, unsigned what, fifo *waits) {
    if (waits->head < waits->tail) {
        add_item(c, ITEM_WAIT, what, waits->head++);
    }
}

/* Posts without waiting; receives join the queue of waits. A blocking receive in between is
 * numbered too, so the queue starts over at its first member when empty. */
static void post(caller *c, unsigned what) {
    if (what == 0) {
        return;
    }
    if ((what & RECV_PREV) != 0) {
        if (c->prev_waits.head == c->prev_waits.tail) {
            c->prev_waits.head = c->recv_prev;
        }
        c->prev_waits.tail = c->recv_prev + 1;
    }
    if ((what & RECV_NEXT) != 0) {
        if (c->next_waits.head == c->next_waits.tail) {
            c->next_waits.head = c->recv_next;
        }
        c->next_waits.tail = c->recv_next + 1;
    }
    count_posts(c, what);
    add_item(c, ITEM_POST, what, 0);
}

/* Posts, then waits for the previous send the same way. */
static void post_sending(caller *c, unsigned what, unsigned send, uint32_t *handle) {
    uint32_t sent = send == SEND_NEXT ? c->send_next : c->send_prev;
    post(c, what);
    wait_send(c, send, handle);
    if ((what & send) != 0) {
        *handle = sent;
    }
}

/* ---- 1F1B ----------------------------------------------------------------------------------- */

static void calls_1f1b(caller *c) {
    uint32_t m = c->spec->micro_batches, last = c->spec->pp - 1;
    unsigned from_prev = c->rank == 0 ? 0 : RECV_PREV, to_prev = c->rank == 0 ? 0 : SEND_PREV;
    unsigned from_next = c->rank == last ? 0 : RECV_NEXT, to_next = c->rank == last ? 0 : SEND_NEXT;
    uint32_t warm = c->warm;
    for (uint32_t i = 0; i < warm; i++) {
        call(c, from_prev);
        add_op(c);
        call(c, to_next);
    }
    if (m > warm) {
        call(c, from_prev);
    }
    for (uint32_t i = warm; i < m; i++) {
        add_op(c);
        call(c, to_next | from_next);
        add_op(c);
        call(c, i + 1 < m ? to_prev | from_prev : to_prev);
    }
    for (uint32_t i = 0; i < warm; i++) {
        call(c, from_next);
        add_op(c);
        call(c, to_prev);
    }
}

/* ---- interleaved ---------------------------------------------------------------------------- */

static uint32_t chunk_at(const caller *c, uint32_t k, bool forward) {
    return forward ? c->chunk_of[k] : c->spec->vpp - 1 - c->chunk_of[k];
}

/* Does the rank receive for the virtual micro-batch after k? The leading rank gets what the ending
 * rank, pp - 1 steps behind, has just made, unless it was the last chunk. */
static bool receives(const caller *c, uint32_t k, bool forward) {
    uint32_t leading = forward ? 0 : c->spec->pp - 1, last_chunk = forward ? c->spec->vpp - 1 : 0;
    if (c->rank != leading) {
        return true;
    }
    return k + 1 >= c->spec->pp && chunk_at(c, k + 1 - c->spec->pp, forward) != last_chunk;
}

static bool is_first_stage(const caller *c, uint32_t k, bool forward) {
    return c->rank == 0 && chunk_at(c, k, forward) == 0;
}

static bool is_last_stage(const caller *c, uint32_t k, bool forward) {
    return c->rank == c->spec->pp - 1 && chunk_at(c, k, forward) == c->spec->vpp - 1;
}

static bool overlaps(const caller *c) {
    return c->spec->p2p == ORR_P2P_OVERLAP || c->spec->p2p == ORR_P2P_OVERLAP_WARMUP_FLUSH;
}

static void warm_up(caller *c, uint32_t k) {
    bool flush = c->spec->p2p == ORR_P2P_OVERLAP_WARMUP_FLUSH;
    bool turns = k + 1 == c->warm && c->warm < c->total; /* steady state follows */
    bool last_rank = c->rank == c->spec->pp - 1;
    unsigned receive = receives(c, k, true) && k + 1 != c->total ? RECV_PREV : 0;
    unsigned send = is_last_stage(c, k, true) ? 0 : SEND_NEXT;
    if (flush) {
        if (!is_first_stage(c, k, true) && k != 0) {
            wait_receive(c, RECV_PREV, &c->prev_waits);
        }
        if (c->rank != 0) {
            post(c, receive);
            receive = 0;
        }
    }
    add_op(c);
    if (flush) {
        post_sending(c, send | receive, SEND_NEXT, &c->next_handle);
    } else {
        call(c, send | receive | (turns && !overlaps(c) && !last_rank ? RECV_NEXT : 0));
    }
    if (overlaps(c) && turns) {
        post_sending(c, last_rank ? 0 : RECV_NEXT, SEND_PREV, &c->prev_handle);
    }
}

static void steady_overlapped(caller *c, uint32_t k) {
    uint32_t fk = k + c->warm;
    bool paired = c->spec->ep_overlap != 0;
    unsigned forward = (is_last_stage(c, fk, true) ? 0 : SEND_NEXT) |
                       (receives(c, fk, true) && fk + 1 != c->total ? RECV_PREV : 0);
    unsigned backward =
        (is_first_stage(c, k, false) ? 0 : SEND_PREV) | (receives(c, k, false) ? RECV_NEXT : 0);
    if (!is_first_stage(c, fk, true)) {
        wait_receive(c, RECV_PREV, &c->prev_waits);
    }
    if (!paired) {
        add_op(c);
        post_sending(c, forward, SEND_NEXT, &c->next_handle);
    }
    if (!is_last_stage(c, k, false)) {
        wait_receive(c, RECV_NEXT, &c->next_waits);
    }
    add_op(c);
    if (paired) {
        post_sending(c, forward, SEND_NEXT, &c->next_handle);
    }
    post_sending(c, backward, SEND_PREV, &c->prev_handle);
}

static void steady_blocking(caller *c, uint32_t k) {
    uint32_t fk = k + c->warm;
    add_op(c);
    add_op(c);
    call(c, (is_last_stage(c, fk, true) ? 0 : SEND_NEXT) |
                (is_first_stage(c, k, false) ? 0 : SEND_PREV) |
                (receives(c, fk, true) && fk + 1 != c->total ? RECV_PREV : 0) |
                (receives(c, k, false) ? RECV_NEXT : 0));
}

static void cool_down(caller *c, uint32_t k) {
    bool flush = c->spec->p2p == ORR_P2P_OVERLAP_WARMUP_FLUSH;
    unsigned receive = receives(c, k, false) && k + 1 != c->total ? RECV_NEXT : 0;
    unsigned send = is_first_stage(c, k, false) ? 0 : SEND_PREV;
    if (!is_last_stage(c, k, false) && k != 0) {
        wait_receive(c, RECV_NEXT, &c->next_waits);
    }
    if (flush && c->rank != c->spec->pp - 1) {
        post(c, receive);
        receive = 0;
    }
    add_op(c);
    if (flush) {
        post_sending(c, send | receive, SEND_PREV, &c->prev_handle);
    } else {
        call(c, send | receive);
    }
}

static void calls_interleaved(caller *c) {
    call(c, c->rank == 0 ? 0 : RECV_PREV);
    for (uint32_t k = 0; k < c->warm; k++) {
        warm_up(c, k);
    }
    for (uint32_t k = 0; k + c->warm < c->total; k++) {
        if (overlaps(c)) {
            steady_overlapped(c, k);
        } else {
            steady_blocking(c, k);
        }
    }
    if (c->warm == c->total) {
        call(c, c->rank == c->spec->pp - 1 ? 0 : RECV_NEXT);
    }
    for (uint32_t k = c->total - c->warm; k < c->total; k++) {
        cool_down(c, k);
    }
    wait_send(c, SEND_PREV, &c->prev_handle);
}

static uint16_t *virtual_chunks(orr_arena *arena, const orr_schedule_spec *s) {
    uint16_t *chunk_of = ORR_NEW_ARRAY(arena, uint16_t, (size_t)s->micro_batches * s->vpp);
    uint32_t k = 0;
    for (uint32_t first = 0; first < s->micro_batches; first += s->group) {
        uint32_t size = orr_min_u32(s->group, s->micro_batches - first);
        for (uint32_t c = 0; c < s->vpp; c++) {
            for (uint32_t i = 0; i < size; i++) {
                chunk_of[k++] = (uint16_t)c;
            }
        }
    }
    return chunk_of;
}

void orr_order_calls(orr_arena *arena, const orr_order *order, call_lists *out) {
    const orr_order_view *v = &order->view;
    const orr_schedule_spec *s = &v->spec;
    uint32_t ops = v->op_first[s->pp];
    /* a pair of ops merged into one brings at most two posts and four waits */
    out->item = ORR_NEW_ARRAY(arena, call_item, 8 * (size_t)ops + 8 * (size_t)s->pp);
    out->first = ORR_NEW_ARRAY(arena, uint32_t, s->pp + 1);
    const uint16_t *chunk_of = virtual_chunks(arena, s);
    uint32_t used = 0;
    for (uint32_t r = 0; r < s->pp; r++) {
        caller c = {.item = out->item + used,
                    .op = v->op_first[r],
                    .next_handle = NONE,
                    .prev_handle = NONE,
                    .spec = s,
                    .rank = r,
                    .warm = orr_order_warm_up(s, r),
                    .total = s->micro_batches * s->vpp,
                    .chunk_of = chunk_of};
        out->first[r] = used;
        if (s->kind == ORR_SCHEDULE_1F1B) {
            calls_1f1b(&c);
        } else {
            calls_interleaved(&c);
        }
        used += c.count;
    }
    out->first[s->pp] = used;
}
