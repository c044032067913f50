/* The plain worklist: every op by its dependencies, every transfer by its two ends. It shares
 * nothing with the compiled player but the lists of ops and calls, and so checks it. */
#include "schedule/schedule_int.h"

typedef struct clock_state {
    const call_item *item, *end;
    uint32_t op, op_end;
    int64_t clock;
    uint32_t posted[4];
    bool waiting;
} clock_state;

typedef struct simulation {
    const orr_order *order;
    const int64_t *duration, *lag;
    int64_t *start, *done; /* per op; done < 0: not yet */
    clock_state *rank;
    uint32_t pp, stride;
    int64_t *post[4]; /* send next, receive from prev, send prev, receive from next */
    uint32_t *stack, depth;
    bool *stacked;
    bool calls;
} simulation;

static void push(simulation *s, uint32_t rank) {
    if (!s->stacked[rank]) {
        s->stacked[rank] = true;
        s->stack[s->depth++] = rank;
    }
}

/* When the result that a chunk's op needs is here; -1: not yet, 0: nothing is needed. */
static inline int64_t arrival(const simulation *s, const orr_source *from, const uint32_t *at,
                              uint32_t micro_batch) {
    if (from->slots == NO_NODE) {
        return 0;
    }
    int64_t done = s->done[at[from->slots + micro_batch]];
    return done < 0 ? -1 : done + (s->calls ? 0 : s->lag[from->lag]);
}

static int64_t forward_ready(const simulation *s, uint32_t index, uint32_t micro_batch) {
    return arrival(s, &s->order->f_source[index], s->order->f_at, micro_batch);
}

/* At the end of the chain the backward follows its own forward, which comes before it on the rank.
 */
static int64_t backward_ready(const simulation *s, uint32_t index, uint32_t micro_batch) {
    return arrival(s, &s->order->b_source[index], s->order->b_at, micro_batch);
}

static int64_t ready(const simulation *s, uint32_t rank, const orr_sched_op *op) {
    uint32_t base = rank * s->order->view.spec.vpp;
    if (op->kind == ORR_SOP_W) {
        return 0;
    }
    if (op->kind == ORR_SOP_F) {
        return forward_ready(s, base + op->chunk, op->micro_batch);
    }
    if (op->kind != ORR_SOP_PAIR) {
        return backward_ready(s, base + op->chunk, op->micro_batch);
    }
    int64_t f = forward_ready(s, base + op->chunk, op->micro_batch);
    int64_t b = backward_ready(s, base + op->chunk2, op->micro_batch2);
    return f < 0 || b < 0 ? -1 : f > b ? f : b;
}

/* The successor of a forward is where the chunk's backward comes from, and the other way round. */
static inline void wake(simulation *s, const orr_source *to) {
    if (to->slots != NO_NODE) {
        push(s, to->rank);
    }
}

static void wake_next(simulation *s, uint32_t rank, const orr_sched_op *op) {
    uint32_t base = rank * s->order->view.spec.vpp;
    bool pair = op->kind == ORR_SOP_PAIR;
    if (pair || op->kind == ORR_SOP_F) {
        wake(s, &s->order->b_source[base + op->chunk]);
    }
    if (pair || op->kind == ORR_SOP_B || op->kind == ORR_SOP_BW) {
        wake(s, &s->order->f_source[base + (pair ? op->chunk2 : op->chunk)]);
    }
}

/* With calls, the waits stand for the latency: the op's inputs are then there already. */
static bool run_op(simulation *s, uint32_t rank, uint32_t number) {
    const orr_sched_op *op = &s->order->view.op[number];
    clock_state *state = &s->rank[rank];
    int64_t at = ready(s, rank, op);
    if (at < 0) {
        return false;
    }
    s->start[number] = at > state->clock ? at : state->clock;
    state->clock = s->start[number] + s->duration[orr_order_class(s->order, rank, op)];
    s->done[number] = state->clock;
    wake_next(s, rank, op);
    return true;
}

/* ---- transfers ------------------------------------------------------------------------------ */

static const uint8_t bit_of[4] = {SEND_NEXT, RECV_PREV, SEND_PREV, RECV_NEXT};

static uint32_t next_rank(const simulation *s, uint32_t rank) {
    return (rank + 1) % s->pp;
}

/* The end of the k-th transfer of a kind; -1 while the other end has not posted. */
static int64_t transfer_end(const simulation *s, uint32_t rank, uint32_t kind, uint32_t k) {
    bool to_next = bit_of[kind] == SEND_NEXT || bit_of[kind] == RECV_NEXT;
    uint32_t other = to_next ? next_rank(s, rank) : (rank + s->pp - 1) % s->pp;
    uint32_t other_kind = kind == 0 ? 1 : kind == 1 ? 0 : kind == 2 ? 3 : 2;
    if (s->rank[other].posted[other_kind] <= k) {
        return -1;
    }
    int64_t a = s->post[kind][rank * s->stride + k];
    int64_t b = s->post[other_kind][other * s->stride + k];
    return (a > b ? a : b) + s->lag[1 + (to_next ? rank : other)];
}

static void post_all(simulation *s, uint32_t rank, unsigned what) {
    clock_state *state = &s->rank[rank];
    for (uint32_t kind = 0; kind < 4; kind++) {
        if ((what & bit_of[kind]) != 0) {
            s->post[kind][rank * s->stride + state->posted[kind]++] = state->clock;
            push(s, next_rank(s, rank));
            push(s, (rank + s->pp - 1) % s->pp);
        }
    }
}

static bool wait_all(simulation *s, uint32_t rank, unsigned what, uint32_t k, bool last_posted) {
    clock_state *state = &s->rank[rank];
    int64_t latest = state->clock;
    for (uint32_t kind = 0; kind < 4; kind++) {
        if ((what & bit_of[kind]) != 0) {
            int64_t end = transfer_end(s, rank, kind, last_posted ? state->posted[kind] - 1 : k);
            if (end < 0) {
                return false;
            }
            latest = end > latest ? end : latest;
        }
    }
    state->clock = latest;
    return true;
}

static bool run_item(simulation *s, uint32_t rank) {
    clock_state *state = &s->rank[rank];
    const call_item *item = state->item;
    switch ((item_type)item->type) {
    case ITEM_OP: return run_op(s, rank, item->index);
    case ITEM_POST: post_all(s, rank, item->what); return true;
    case ITEM_CALL:
        if (!state->waiting) {
            post_all(s, rank, item->what);
            state->waiting = true;
        }
        state->waiting = !wait_all(s, rank, item->what, 0, true);
        return !state->waiting;
    case ITEM_WAIT: return wait_all(s, rank, item->what, item->index, false);
    }
    return true;
}

static void run_rank(simulation *s, uint32_t rank) {
    clock_state *state = &s->rank[rank];
    if (s->calls) {
        while (state->item < state->end && run_item(s, rank)) {
            state->item++;
        }
        return;
    }
    while (state->op < state->op_end && run_op(s, rank, state->op)) {
        state->op++;
    }
}

static void prepare(orr_arena *scratch, simulation *s) {
    const orr_order_view *v = &s->order->view;
    s->rank = ORR_NEW_ARRAY(scratch, clock_state, s->pp);
    s->stack = ORR_NEW_ARRAY(scratch, uint32_t, s->pp);
    s->stacked = ORR_NEW_ARRAY(scratch, bool, s->pp);
    call_lists calls = {0};
    if (s->calls) {
        orr_order_calls(scratch, s->order, &calls);
        s->stride = v->spec.micro_batches * v->spec.vpp + 1;
        for (int k = 0; k < 4; k++) {
            s->post[k] = ORR_NEW_ARRAY(scratch, int64_t, (size_t)s->pp * s->stride);
        }
    }
    for (uint32_t r = 0; r < s->pp; r++) {
        s->rank[r].op = v->op_first[r];
        s->rank[r].op_end = v->op_first[r + 1];
        if (s->calls) {
            s->rank[r].item = calls.item + calls.first[r];
            s->rank[r].end = calls.item + calls.first[r + 1];
        }
    }
}

orr_status orr_order_times(const orr_order *given, const orr_durations *d, orr_arena *scratch,
                           int64_t *start, int64_t *end, int64_t *rank_end, orr_err *err) {
    const orr_order *order = NULL;
    ORR_TRY(orr_order_whole(given, scratch, &order, err));
    const orr_order_view *v = &order->view;
    uint32_t ops = v->op_first[v->spec.pp];
    simulation s = {
        .order = order, .pp = v->spec.pp, .calls = v->spec.p2p != ORR_P2P_ASYNC && v->spec.pp > 1};
    int64_t *duration, *lag;
    ORR_TRY(orr_order_durations(scratch, order, d, &duration, &lag, err));
    s.duration = duration;
    s.lag = lag;
    s.start = start != NULL ? start : ORR_NEW_ARRAY(scratch, int64_t, ops);
    s.done = end != NULL ? end : ORR_NEW_ARRAY(scratch, int64_t, ops);
    for (uint32_t i = 0; i < ops; i++) {
        s.done[i] = -1;
    }
    prepare(scratch, &s);
    for (uint32_t r = s.pp; r-- > 0;) {
        push(&s, r);
    }
    while (s.depth > 0) {
        uint32_t r = s.stack[--s.depth];
        s.stacked[r] = false;
        run_rank(&s, r);
    }
    for (uint32_t i = 0; i < ops; i++) {
        if (s.done[i] < 0) {
            return orr_fail(err, ORR_E_INTERNAL, "the worklist did not reach op %u", i);
        }
    }
    for (uint32_t r = 0; r < s.pp && rank_end != NULL; r++) {
        rank_end[r] = s.rank[r].clock;
    }
    return ORR_OK;
}
