/* From ops and calls to max-plus nodes.
 *
 * The clock of a rank is the maximum of a few terms "end of a node plus hops". A post fixes the
 * terms in a node; a wait adds the posts of both ends plus the transfer's hop. Transfers of one
 * kind between two ranks match in the order in which they are posted. */
#include <stdio.h>
#include <string.h>

#include "schedule/schedule_int.h"

enum { MAX_TERMS = 12 };

typedef struct term {
    uint32_t node; /* NO_NODE: time zero */
    uint16_t rank, lag;
} term;

typedef struct rank_state {
    const call_item *item, *end;
    term term[MAX_TERMS];
    uint32_t terms;
    uint32_t next;      /* node number */
    uint32_t last_op;   /* node of the last op; 0: none yet */
    uint32_t posted[4]; /* per kind of transfer */
    bool waiting;       /* the item at hand is a call whose posts are made */
} rank_state;

typedef struct builder {
    const orr_order *order;
    node_lists *lists;
    rank_state *rank;
    uint32_t pp;
    bool quick;
    /* Per kind (send next, receive from prev, send prev, receive from next) and rank: the node that
     * posted the k-th transfer; stride transfers each. */
    uint32_t *post[4];
    uint32_t stride;
    uint32_t *stack, depth;
    bool *stacked;
} builder;

static uint32_t kind_of(unsigned bit) {
    return bit == SEND_NEXT ? 0 : bit == RECV_PREV ? 1 : bit == SEND_PREV ? 2 : 3;
}

/* The rank and kind at the other end of a transfer. */
static uint32_t partner(const builder *b, uint32_t rank, uint32_t kind) {
    return kind == 0 || kind == 3 ? (rank + 1 == b->pp ? 0 : rank + 1)
                                  : (rank == 0 ? b->pp - 1 : rank - 1);
}
static uint32_t partner_kind(uint32_t kind) {
    return kind ^ 1u;
}

/* hop r joins rank r and the one after */
static uint16_t hop_of(const builder *b, uint32_t rank, uint32_t kind) {
    uint32_t lower = kind == 0 || kind == 3 ? rank : partner(b, rank, kind);
    return (uint16_t)(1 + lower);
}

static uint32_t add_node(builder *b, uint32_t rank, term x, term y, uint32_t duration) {
    rank_state *s = &b->rank[rank];
    b->lists->node[s->next] = (orr_node){x.node, y.node, duration, x.lag, y.lag, x.rank, y.rank};
    return s->next++;
}

/* Folds the terms of a rank into one node that takes `duration`. */
static uint32_t settle(builder *b, uint32_t rank, uint32_t duration) {
    rank_state *s = &b->rank[rank];
    term none = {NO_NODE, (uint16_t)rank, 0};
    term sum = s->terms > 0 ? s->term[0] : none;
    for (uint32_t i = 1; i + 1 < s->terms; i++) {
        sum = (term){add_node(b, rank, sum, s->term[i], 0), (uint16_t)rank, 0};
    }
    term other = s->terms > 1 ? s->term[s->terms - 1] : none;
    uint32_t made = add_node(b, rank, sum, other, duration);
    s->term[0] = (term){made, (uint16_t)rank, 0};
    s->terms = 1;
    return made;
}

static void add_term(rank_state *s, term t) {
    for (uint32_t i = 0; i < s->terms; i++) {
        term *old = &s->term[i];
        if (old->node == t.node && (old->lag == t.lag || t.lag == 0)) {
            return;
        }
        if (old->node == t.node && old->lag == 0) {
            old->lag = t.lag;
            return;
        }
    }
    s->term[s->terms++] = t;
}

static void push(builder *b, uint32_t rank) {
    if (!b->stacked[rank]) {
        b->stacked[rank] = true;
        b->stack[b->depth++] = rank;
    }
}

static void make_posts(builder *b, uint32_t rank, unsigned what) {
    rank_state *s = &b->rank[rank];
    bool settled = s->terms == 1 && s->term[0].lag == 0 && s->term[0].node != NO_NODE &&
                   s->term[0].rank == rank;
    uint32_t at = settled ? s->term[0].node : settle(b, rank, 0);
    for (unsigned bit = 1; bit <= RECV_NEXT; bit <<= 1) {
        if ((what & bit) != 0) {
            uint32_t kind = kind_of(bit);
            b->post[kind][rank * b->stride + s->posted[kind]++] = at;
            push(b, partner(b, rank, kind));
        }
    }
}

/* Waits for the k-th transfer of a kind; false when the other end has not posted it. */
static bool join(builder *b, uint32_t rank, uint32_t kind, uint32_t k) {
    rank_state *s = &b->rank[rank];
    uint32_t other = partner(b, rank, kind), other_kind = partner_kind(kind);
    if (b->rank[other].posted[other_kind] <= k) {
        return false;
    }
    uint16_t lag = hop_of(b, rank, kind);
    if (s->terms + 2 > MAX_TERMS) {
        settle(b, rank, 0);
    }
    uint32_t own = b->post[kind][rank * b->stride + k];
    if (!b->quick || own >= s->last_op) {
        add_term(s, (term){own, (uint16_t)rank, lag});
    }
    add_term(s, (term){b->post[other_kind][other * b->stride + k], (uint16_t)other, lag});
    return true;
}

static bool all_posted(const builder *b, uint32_t rank, unsigned what) {
    const rank_state *s = &b->rank[rank];
    for (unsigned bit = 1; bit <= RECV_NEXT; bit <<= 1) {
        uint32_t kind = kind_of(bit);
        if ((what & bit) != 0 &&
            b->rank[partner(b, rank, kind)].posted[partner_kind(kind)] < s->posted[kind]) {
            return false;
        }
    }
    return true;
}

/* One item; false when it has to wait for another rank. */
static bool take_item(builder *b, uint32_t rank) {
    rank_state *s = &b->rank[rank];
    const call_item *item = s->item;
    switch ((item_type)item->type) {
    case ITEM_OP: {
        const orr_sched_op *op = &b->order->view.op[item->index];
        s->last_op = settle(b, rank, orr_order_class(b->order, rank, op));
        b->lists->of_op[item->index] = s->last_op;
        return true;
    }
    case ITEM_POST: make_posts(b, rank, item->what); return true;
    case ITEM_CALL:
        if (!s->waiting) {
            make_posts(b, rank, item->what);
            s->waiting = true;
        }
        if (!all_posted(b, rank, item->what)) {
            return false;
        }
        s->waiting = false;
        for (unsigned bit = 1; bit <= RECV_NEXT; bit <<= 1) {
            if ((item->what & bit) != 0) {
                join(b, rank, kind_of(bit), s->posted[kind_of(bit)] - 1);
            }
        }
        return true;
    case ITEM_WAIT: return join(b, rank, kind_of(item->what), item->index);
    }
    return true;
}

static uint32_t node_bound(const call_item *item, const call_item *end) {
    uint32_t bound = 1;
    for (; item < end; item++) {
        bound += item->type == ITEM_OP || item->type == ITEM_POST ? 1u
                 : item->type == ITEM_WAIT                        ? 2u
                                           : 1u + 2u * (uint32_t)__builtin_popcount(item->what);
    }
    return bound;
}

static orr_status stuck(const builder *b, orr_err *err) {
    char text[400] = "";
    size_t used = 0;
    for (uint32_t r = 0; r < b->pp && used < sizeof text; r++) {
        const call_item *item = b->rank[r].item;
        while (item < b->rank[r].end && item->type != ITEM_OP) {
            item++;
        }
        int more = 0;
        if (item == b->rank[r].end) {
            more = snprintf(text + used, sizeof text - used, "%srank %u done", r ? ", " : "", r);
        } else {
            const orr_sched_op *op = &b->order->view.op[item->index];
            more =
                snprintf(text + used, sizeof text - used, "%srank %u before %c%u.%u", r ? ", " : "",
                         r, op->kind == ORR_SOP_F ? 'F' : 'B', op->chunk, op->micro_batch);
        }
        used += more > 0 ? (size_t)more : 0;
    }
    return orr_fail(err, ORR_E_SCHEDULE, "the transfers deadlock: %s", text);
}

static void prepare(orr_arena *arena, builder *b, const call_lists *calls) {
    const orr_schedule_spec *s = &b->order->view.spec;
    node_lists *out = b->lists;
    b->stride = s->micro_batches * s->vpp + 1;
    b->rank = ORR_NEW_ARRAY(arena, rank_state, b->pp);
    b->stack = ORR_NEW_ARRAY(arena, uint32_t, b->pp);
    b->stacked = ORR_NEW_ARRAY(arena, bool, b->pp);
    for (int k = 0; k < 4; k++) {
        b->post[k] = ORR_NEW_ARRAY(arena, uint32_t, (size_t)b->pp * b->stride);
    }
    out->first = ORR_NEW_ARRAY(arena, uint32_t, b->pp);
    out->count = ORR_NEW_ARRAY(arena, uint32_t, b->pp);
    out->of_op = ORR_NEW_ARRAY(arena, uint32_t, b->order->view.op_first[b->pp]);
    for (uint32_t r = 0; r < b->pp; r++) {
        rank_state *state = &b->rank[r];
        state->item = calls->item + calls->first[r];
        state->end = calls->item + calls->first[r + 1];
        out->first[r] = state->next = out->total;
        out->total += node_bound(state->item, state->end);
    }
    out->node = ORR_NEW_ARRAY(arena, orr_node, out->total);
}

orr_status orr_order_nodes_calls(orr_arena *arena, const orr_order *order, bool quick,
                                 node_lists *out, orr_err *err) {
    call_lists calls;
    orr_order_calls(arena, order, &calls);
    builder b = {.order = order, .lists = out, .pp = order->view.spec.pp, .quick = quick};
    prepare(arena, &b, &calls);
    for (uint32_t r = b.pp; r-- > 0;) {
        push(&b, r);
    }
    while (b.depth > 0) {
        uint32_t r = b.stack[--b.depth];
        b.stacked[r] = false;
        rank_state *s = &b.rank[r];
        while (s->item < s->end && take_item(&b, r)) {
            s->item++;
        }
    }
    for (uint32_t r = 0; r < b.pp; r++) {
        rank_state *s = &b.rank[r];
        if (s->item < s->end) {
            return stuck(&b, err);
        }
        settle(&b, r, 0); /* the end of the rank, after its last call */
        out->count[r] = s->next - out->first[r];
    }
    return ORR_OK;
}
