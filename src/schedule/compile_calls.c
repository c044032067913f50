/* Compiles ops with the framework's calls between them.
 *
 * The clock of a rank is the maximum of a few terms "end of a step plus hops". A post fixes the
 * terms in a step; a wait adds the posts of both ends plus the transfer's hop. Transfers of one
 * kind between two ranks match in the order in which they are posted. Ranks take turns, an op each;
 * one that waits for a transfer which the other end has not posted goes on when that comes. The
 * order in which steps are made is topological, so they are stored as they come.
 *
 * Steady state: from a cut that no rank has to pass for another, all ranks run a lap at a time, the
 * ops of one group of micro-batches. What a rank will do depends on its coming calls and on its
 * state: terms, posts not yet joined. When the state after a lap is that before it, counted from
 * the last step, then with equal calls all further laps are equal, and are stored once. */
#include <stdio.h>
#include <string.h>

#include "schedule/steps.h"

enum { MAX_TERMS = 12, LEAST_LAPS = 3, MAX_SETTLING = 64 };

typedef struct term {
    uint32_t id; /* of a step; 0: time zero */
    uint16_t lag;
} term;

typedef struct rank_state {
    const call_item *item, *end;
    term term[MAX_TERMS];
    uint32_t terms;
    uint32_t op, stop;  /* ops done; does not begin op number `stop` */
    uint32_t last_op;   /* step of the last op; 0: none yet */
    uint32_t posted[4]; /* per kind of transfer */
    uint32_t joined[4]; /* likewise: all before this have been waited for */
    bool waiting;       /* the item at hand is a call whose posts are made */
    bool queued;
} rank_state;

/* A step to pick up and its class. */
typedef struct mark {
    uint32_t id, duration;
} mark;

typedef struct emitter {
    const orr_order *order;
    step_list out;
    rank_state *rank;
    uint32_t pp;
    bool quick;
    /* Per kind (send next, receive from prev, send prev, receive from next) and rank: the step that
     * posted the k-th transfer; stride transfers each. */
    uint32_t *post[4];
    uint32_t stride;
    uint32_t *queue, head, count; /* ranks whose turn it is */
    mark *first_op, *first_use, *grads;
} emitter;

/* Of the lowest bit; 0 when there is none. */
static uint32_t kind_of(unsigned bits) {
    return bits == 0 ? 0 : (uint32_t)__builtin_ctz(bits);
}

/* The rank and kind at the other end of a transfer. */
static uint32_t partner(const emitter *e, uint32_t rank, uint32_t kind) {
    return kind == 0 || kind == 3 ? (rank + 1 == e->pp ? 0 : rank + 1)
                                  : (rank == 0 ? e->pp - 1 : rank - 1);
}
static uint32_t partner_kind(uint32_t kind) {
    return kind ^ 1u;
}

/* hop r joins rank r and the one after */
static uint16_t hop_of(const emitter *e, uint32_t rank, uint32_t kind) {
    uint32_t lower = kind == 0 || kind == 3 ? rank : partner(e, rank, kind);
    return (uint16_t)(1 + lower);
}

static void enqueue(emitter *e, uint32_t rank) {
    if (!e->rank[rank].queued) {
        uint32_t at = e->head + e->count++;
        e->queue[at < e->pp ? at : at - e->pp] = rank;
        e->rank[rank].queued = true;
    }
}

/* ---- one rank ------------------------------------------------------------------------------- */

/* Folds the terms of a rank into one step that takes `duration`. */
static uint32_t settle(emitter *e, rank_state *s, uint32_t duration) {
    term sum = s->terms > 0 ? s->term[0] : (term){0, 0};
    for (uint32_t i = 1; i + 1 < s->terms; i++) {
        sum.id = orr_steps_put(&e->out, sum.id, sum.lag, s->term[i].id, s->term[i].lag, 0);
        sum.lag = 0;
    }
    term other = s->terms > 1 ? s->term[s->terms - 1] : sum;
    s->term[0].id = orr_steps_put(&e->out, sum.id, sum.lag, other.id, other.lag, duration);
    s->term[0].lag = 0;
    s->terms = 1;
    return s->term[0].id;
}

static void add_term(rank_state *s, uint32_t id, uint16_t lag) {
    for (uint32_t i = 0; i < s->terms; i++) {
        term *old = &s->term[i];
        if (old->id == id && (old->lag == lag || lag == 0)) {
            return;
        }
        if (old->id == id && old->lag == 0) {
            old->lag = lag;
            return;
        }
    }
    s->term[s->terms++] = (term){id, lag};
}

static void make_posts(emitter *e, uint32_t rank, unsigned what) {
    rank_state *s = &e->rank[rank];
    bool settled = s->terms == 1 && s->term[0].lag == 0;
    uint32_t at = settled ? s->term[0].id : settle(e, s, 0);
    for (unsigned left = what; left != 0; left &= left - 1) {
        uint32_t kind = kind_of(left), other = partner(e, rank, kind);
        e->post[kind][rank * e->stride + s->posted[kind]++] = at;
        enqueue(e, other);
    }
}

/* Waits for the k-th transfer of a kind; false when the other end has not posted it. */
static bool join(emitter *e, uint32_t rank, uint32_t kind, uint32_t k) {
    rank_state *s = &e->rank[rank];
    uint32_t other = partner(e, rank, kind), other_kind = partner_kind(kind);
    if (e->rank[other].posted[other_kind] <= k) {
        return false;
    }
    uint16_t lag = hop_of(e, rank, kind);
    if (s->terms + 2 > MAX_TERMS) {
        settle(e, s, 0);
    }
    uint32_t own = e->post[kind][rank * e->stride + k];
    if (!e->quick || own >= s->last_op) {
        add_term(s, own, lag);
    }
    add_term(s, e->post[other_kind][other * e->stride + k], lag);
    s->joined[kind] = k + 1;
    return true;
}

/* A kind of transfer that the call has posted and the other end has not; 4: none. */
static uint32_t unmatched(const emitter *e, uint32_t rank, unsigned what) {
    for (unsigned left = what; left != 0; left &= left - 1) {
        uint32_t kind = kind_of(left);
        const rank_state *other = &e->rank[partner(e, rank, kind)];
        if (other->posted[partner_kind(kind)] < e->rank[rank].posted[kind]) {
            return kind;
        }
    }
    return 4;
}

static void run_op(emitter *e, uint32_t rank, uint32_t number) {
    rank_state *s = &e->rank[rank];
    const orr_sched_op *op = &e->order->view.op[number];
    uint32_t duration = orr_order_class(e->order, rank, op);
    uint32_t id = s->last_op = settle(e, s, duration);
    mark m = {id, duration}, *first = &e->first_use[rank * e->order->view.spec.vpp + op->chunk];
    bool pair = op->kind == ORR_SOP_PAIR;
    if (s->op++ == 0) {
        e->first_op[rank] = m;
    }
    if ((pair || op->kind == ORR_SOP_F) && first->id == 0) {
        *first = m;
    }
    if (pair || op->kind == ORR_SOP_BW) {
        e->grads[rank * e->order->view.spec.vpp + (pair ? op->chunk2 : op->chunk)] = m;
    }
}

/* One item; false when it has to wait for another rank. */
static bool take_item(emitter *e, uint32_t rank) {
    rank_state *s = &e->rank[rank];
    const call_item item = *s->item;
    switch ((item_type)item.type) {
    case ITEM_OP: run_op(e, rank, item.index); return true;
    case ITEM_POST: make_posts(e, rank, item.what); return true;
    case ITEM_CALL:
        if (!s->waiting) {
            make_posts(e, rank, item.what);
            s->waiting = true;
        }
        if (unmatched(e, rank, item.what) != 4) {
            return false;
        }
        s->waiting = false;
        for (unsigned left = item.what; left != 0; left &= left - 1) {
            uint32_t kind = kind_of(left);
            join(e, rank, kind, s->posted[kind] - 1);
        }
        return true;
    case ITEM_WAIT: return join(e, rank, kind_of(item.what), item.index);
    }
    return true;
}

static bool is_stopped(const rank_state *s) {
    return s->item == s->end || (s->item->type == ITEM_OP && s->op == s->stop);
}

/* One op and the calls up to the next. */
static void take_turn(emitter *e, uint32_t rank) {
    rank_state *s = &e->rank[rank];
    bool ran = false;
    while (!is_stopped(s)) {
        bool op = s->item->type == ITEM_OP;
        if (op && ran) {
            enqueue(e, rank);
            return;
        }
        if (!take_item(e, rank)) {
            return;
        }
        ran = ran || op;
        s->item++;
    }
}

static void run(emitter *e) {
    for (uint32_t r = 0; r < e->pp; r++) {
        enqueue(e, r);
    }
    while (e->count != 0) {
        uint32_t r = e->queue[e->head];
        e->head = e->head + 1 == e->pp ? 0 : e->head + 1;
        e->count--;
        e->rank[r].queued = false;
        take_turn(e, r);
    }
}

static bool all_stopped(const emitter *e) {
    for (uint32_t r = 0; r < e->pp; r++) {
        if (!is_stopped(&e->rank[r])) {
            return false;
        }
    }
    return true;
}

/* ---- steady state --------------------------------------------------------------------------- */

/* The ops of a rank that repeat: pairs of a forward and a backward, after warm-up, until one before
 * the last forward of whole groups. */
typedef struct steady {
    uint32_t *first, *end; /* per rank, op numbers; equal: none */
    uint32_t period, leg;  /* ops: of a lap, and of one chunk's share in it */
    uint32_t micro_batches;
} steady;

static steady find_steady(orr_arena *work, const emitter *e) {
    const orr_schedule_spec *s = &e->order->view.spec;
    uint32_t group = s->kind == ORR_SCHEDULE_1F1B ? 1 : s->group, pair = s->ep_overlap ? 1 : 2;
    uint32_t regular = s->micro_batches / group * group * s->vpp;
    steady out = {.first = ORR_NEW_ARRAY(work, uint32_t, e->pp),
                  .end = ORR_NEW_ARRAY(work, uint32_t, e->pp),
                  .period = pair * group * s->vpp,
                  .leg = pair * group,
                  .micro_batches = group};
    for (uint32_t r = 0; r < e->pp; r++) {
        uint32_t warm = orr_order_warm_up(s, r);
        uint32_t pairs = regular > warm + 1 ? regular - 1 - warm : 0;
        out.first[r] = warm;
        out.end[r] = warm + pair * pairs;
    }
    return out;
}

/* Runs every rank up to `legs` legs after its first steady op, and those that others wait for as
 * far as needed. */
static bool reach(emitter *e, const steady *st, uint32_t legs) {
    for (uint32_t r = 0; r < e->pp; r++) {
        e->rank[r].stop = orr_max_u32(e->rank[r].op, st->first[r] + legs * st->leg);
    }
    for (;;) {
        bool further = false;
        run(e);
        for (uint32_t r = 0; r < e->pp; r++) {
            const rank_state *s = &e->rank[r];
            if (is_stopped(s)) {
                continue;
            }
            uint32_t kind = s->item->type == ITEM_CALL ? unmatched(e, r, s->item->what)
                                                       : kind_of(s->item->what);
            rank_state *other = &e->rank[partner(e, r, kind)];
            if (is_stopped(other) && other->item != other->end) {
                other->stop++;
                further = true;
            }
        }
        if (!further) {
            return all_stopped(e);
        }
    }
}

/* How many times `ops` more every rank has in its steady part. */
static uint32_t times_left(const emitter *e, const steady *st, uint32_t ops) {
    uint32_t times = UINT32_MAX;
    for (uint32_t r = 0; r < e->pp; r++) {
        uint32_t op = e->rank[r].op;
        times = orr_min_u32(times, st->end[r] <= op ? 0 : (st->end[r] - op) / ops);
    }
    return times;
}

/* All that decides what comes, counted from the last step; returns how many numbers. */
static uint32_t take_state(const emitter *e, uint32_t *out) {
    uint32_t n = 0, now = e->out.next_id;
    for (uint32_t r = 0; r < e->pp; r++) {
        const rank_state *s = &e->rank[r];
        out[n++] = s->terms;
        out[n++] = now - s->last_op;
        for (uint32_t i = 0; i < s->terms; i++) {
            out[n++] = now - s->term[i].id;
            out[n++] = s->term[i].lag;
        }
        for (uint32_t kind = 0; kind < 4; kind++) {
            const rank_state *other = &e->rank[partner(e, r, kind)];
            uint32_t from = orr_min_u32(s->joined[kind], other->joined[partner_kind(kind)]);
            out[n++] = s->posted[kind] - s->joined[kind];
            out[n++] = s->posted[kind] - from;
            for (uint32_t k = from; k < s->posted[kind]; k++) {
                out[n++] = now - e->post[kind][r * e->stride + k];
            }
        }
    }
    return n;
}

/* Room for take_state: posts not yet joined are counted. */
static uint32_t state_size(const emitter *e) {
    uint32_t size = e->pp * (2 + 2 * MAX_TERMS + 8);
    for (uint32_t r = 0; r < e->pp; r++) {
        for (uint32_t kind = 0; kind < 4; kind++) {
            const rank_state *s = &e->rank[r], *other = &e->rank[partner(e, r, kind)];
            size +=
                s->posted[kind] - orr_min_u32(s->joined[kind], other->joined[partner_kind(kind)]);
        }
    }
    return size;
}

/* A period that has been run: the calls of each rank and what they did to its counters. */
typedef struct lap {
    const call_item **item;
    uint32_t (*posted)[4], (*joined)[4];
    uint32_t *op;   /* ops done */
    uint32_t first; /* step */
    uint32_t *state, states;
} lap;

static lap begin_lap(orr_arena *work, const emitter *e) {
    lap b = {.item = (const call_item **)orr_arena_array(work, e->pp, sizeof *b.item),
             .posted = orr_arena_array(work, e->pp, sizeof *b.posted),
             .joined = orr_arena_array(work, e->pp, sizeof *b.joined),
             .op = ORR_NEW_ARRAY(work, uint32_t, e->pp),
             .first = e->out.steps};
    for (uint32_t r = 0; r < e->pp; r++) {
        b.item[r] = e->rank[r].item;
        b.op[r] = e->rank[r].op;
        memcpy(b.posted[r], e->rank[r].posted, sizeof b.posted[r]);
        memcpy(b.joined[r], e->rank[r].joined, sizeof b.joined[r]);
    }
    b.state = ORR_NEW_ARRAY(work, uint32_t, state_size(e));
    b.states = take_state(e, b.state);
    return b;
}

/* Whether the calls from `later` on are those from `now` on, `count` items, transfers counted up.
 */
static bool same_calls(const emitter *e, const rank_state *s, const uint32_t posted[4],
                       const call_item *now, const call_item *later, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (now[i].type != later[i].type || now[i].what != later[i].what) {
            return false;
        }
        if (now[i].type == ITEM_WAIT) {
            uint32_t kind = kind_of(now[i].what);
            if (later[i].index != now[i].index + s->posted[kind] - posted[kind]) {
                return false;
            }
        } else if (now[i].type == ITEM_OP) {
            const orr_sched_op *a = &e->order->view.op[now[i].index];
            const orr_sched_op *b = &e->order->view.op[later[i].index];
            if (a->kind != b->kind || a->chunk != b->chunk || a->chunk2 != b->chunk2) {
                return false;
            }
        }
    }
    return true;
}

/* How many more laps have the calls of the one just run, `most` at most. */
static uint32_t equal_laps(const emitter *e, const lap *last, uint32_t most) {
    for (uint32_t r = 0; r < e->pp; r++) {
        const rank_state *s = &e->rank[r];
        size_t items = (size_t)(s->item - last->item[r]);
        uint32_t laps = 0;
        while (laps < most && (size_t)(s->end - s->item) >= (laps + 1) * items &&
               same_calls(e, s, last->posted[r], last->item[r] + laps * items,
                          s->item + laps * items, items)) {
            laps++;
        }
        most = orr_min_u32(most, laps);
    }
    return most;
}

/* Moves every rank on by `laps` like the last one, without making steps. */
static void skip(emitter *e, const steady *st, const lap *last, uint32_t laps) {
    uint32_t ids = laps * (e->out.steps - last->first), now = e->out.next_id;
    uint32_t chunks = e->pp * e->order->view.spec.vpp;
    for (uint32_t r = 0; r < e->pp; r++) {
        for (uint32_t kind = 0; kind < 4; kind++) {
            const rank_state *s = &e->rank[r], *other = &e->rank[partner(e, r, kind)];
            uint32_t from = orr_min_u32(s->joined[kind], other->joined[partner_kind(kind)]);
            uint32_t *post = e->post[kind] + r * e->stride;
            for (uint32_t k = s->posted[kind]; k-- > from;) {
                post[k + laps * (s->posted[kind] - last->posted[r][kind])] = post[k] + ids;
            }
        }
    }
    for (uint32_t r = 0; r < e->pp; r++) {
        rank_state *s = &e->rank[r];
        s->item += (ptrdiff_t)laps * (s->item - last->item[r]);
        s->op += laps * st->period;
        s->stop = s->op;
        s->last_op += ids;
        for (uint32_t i = 0; i < s->terms; i++) {
            s->term[i].id += ids;
        }
        for (uint32_t kind = 0; kind < 4; kind++) {
            s->posted[kind] += laps * (s->posted[kind] - last->posted[r][kind]);
            s->joined[kind] += laps * (s->joined[kind] - last->joined[r][kind]);
        }
    }
    for (uint32_t i = 0; i < chunks; i++) {
        if (e->grads[i].id >= now - (e->out.steps - last->first)) {
            e->grads[i].id += ids;
        }
    }
}

/* How many blocks the steps since `first` look back. */
static uint32_t look_back(const step_list *l, uint32_t first) {
    uint32_t count = l->steps - first, back = 1;
    for (uint32_t i = 0; i < count; i++) {
        const orr_step *s = &l->step[first + i];
        uint32_t most = orr_max_u32(s->back, s->back2);
        if (most > i) {
            back = orr_max_u32(back, (most - i + count - 1) / count);
        }
    }
    return back;
}

/* The state after a lap is that before it, every rank having done a lap's ops. */
static bool came_round(const emitter *e, const steady *st, const lap *from, const lap *to) {
    for (uint32_t r = 0; r < e->pp; r++) {
        if (to->op[r] - from->op[r] != st->period) {
            return false;
        }
    }
    return from->states == to->states &&
           memcmp(from->state, to->state, to->states * sizeof *to->state) == 0;
}

/* Runs up to the steady state and through one lap of it, which then stands for all. All ranks stop
 * after every leg, so that the order of steps comes to be the same in each lap soon. */
static void fold(orr_arena *work, emitter *e) {
    steady st = find_steady(work, e);
    uint32_t vpp = st.period / st.leg;
    uint32_t legs = reach(e, &st, 0) ? times_left(e, &st, st.leg) : 0;
    uint32_t most = orr_min_u32(legs, 4 * vpp + MAX_SETTLING);
    if (legs < (e->order->left_out != 0 ? 1 : LEAST_LAPS) * vpp) {
        return;
    }
    lap *at = ORR_NEW_ARRAY(work, lap, most + 1);
    at[0] = begin_lap(work, e);
    for (uint32_t i = 1; i <= most && reach(e, &st, i); i++) {
        at[i] = begin_lap(work, e);
        if (i < vpp || !came_round(e, &st, &at[i - vpp], &at[i])) {
            continue;
        }
        const lap *from = &at[i - vpp];
        uint32_t count = e->out.steps - from->first;
        uint32_t window = look_back(&e->out, from->first);
        bool led = i >= 2 * vpp && from->first - at[i - 2 * vpp].first == count &&
                   memcmp(e->out.step + from->first - count, e->out.step + from->first,
                          count * sizeof *e->out.step) == 0;
        uint32_t more = equal_laps(e, from, times_left(e, &st, st.period));
        skip(e, &st, from, more);
        orr_steps_repeat(&e->out, from->first, 1 + more, window, led, st.micro_batches);
        return;
    }
}

/* ---- the whole ------------------------------------------------------------------------------ */

static orr_status stuck(const emitter *e, orr_err *err) {
    char text[400] = "";
    size_t used = 0;
    for (uint32_t r = 0; r < e->pp && used < sizeof text; r++) {
        const call_item *item = e->rank[r].item;
        while (item < e->rank[r].end && item->type != ITEM_OP) {
            item++;
        }
        int more = 0;
        if (item == e->rank[r].end) {
            more = snprintf(text + used, sizeof text - used, "%srank %u done", r ? ", " : "", r);
        } else {
            const orr_sched_op *op = &e->order->view.op[item->index];
            more =
                snprintf(text + used, sizeof text - used, "%srank %u before %c%u.%u", r ? ", " : "",
                         r, op->kind == ORR_SOP_F ? 'F' : 'B', op->chunk, op->micro_batch);
        }
        used += more > 0 ? (size_t)more : 0;
    }
    return orr_fail(err, ORR_E_SCHEDULE, "the transfers deadlock: %s", text);
}

static emitter emitter_new(orr_arena *arena, orr_arena *work, const orr_order *order, bool quick) {
    const orr_schedule_spec *s = &order->view.spec;
    uint32_t pp = s->pp, chunks = pp * s->vpp;
    emitter e = {.order = order, .pp = pp, .quick = quick};
    call_lists calls;
    orr_order_calls(work, order, &calls);
    e.stride = s->micro_batches * s->vpp + 1;
    e.rank = ORR_NEW_ARRAY(work, rank_state, pp);
    e.queue = ORR_NEW_ARRAY(work, uint32_t, pp);
    e.first_op = ORR_NEW_ARRAY(work, mark, pp);
    e.first_use = ORR_NEW_ARRAY(work, mark, chunks);
    e.grads = ORR_NEW_ARRAY(work, mark, chunks);
    for (int k = 0; k < 4; k++) {
        e.post[k] = ORR_NEW_ARRAY(work, uint32_t, (size_t)pp * e.stride);
    }
    for (uint32_t r = 0; r < pp; r++) {
        e.rank[r].item = calls.item + calls.first[r];
        e.rank[r].end = calls.item + calls.first[r + 1];
    }
    orr_steps_begin(&e.out, arena, order->view.op_first[pp] / 2 * 5 + 64);
    return e;
}

static void place_probes(orr_arena *arena, emitter *e, orr_compiled *out) {
    uint32_t chunks = e->pp * e->order->view.spec.vpp;
    orr_probe *rank_first = ORR_NEW_ARRAY(arena, orr_probe, e->pp);
    orr_probe *rank_last = ORR_NEW_ARRAY(arena, orr_probe, e->pp);
    orr_probe *first_use = ORR_NEW_ARRAY(arena, orr_probe, chunks);
    orr_probe *grads = ORR_NEW_ARRAY(arena, orr_probe, chunks);
    for (uint32_t r = 0; r < e->pp; r++) {
        rank_first[r] = orr_steps_first(&e->out, e->first_op[r].id, e->first_op[r].duration);
        rank_last[r] = orr_steps_last(&e->out, e->rank[r].term[0].id, 0);
    }
    for (uint32_t i = 0; i < chunks; i++) {
        first_use[i] = orr_steps_first(&e->out, e->first_use[i].id, e->first_use[i].duration);
        grads[i] = orr_steps_last(&e->out, e->grads[i].id, e->grads[i].duration);
    }
    out->rank_first = rank_first;
    out->rank_last = rank_last;
    out->first_use = first_use;
    out->grads = grads;
}

orr_status orr_order_compile_calls(orr_arena *arena, const orr_order *order, bool quick,
                                   orr_compiled *out, orr_err *err) {
    orr_arena *work = orr_arena_new();
    emitter e = emitter_new(arena, work, order, quick);
    fold(work, &e);
    for (uint32_t r = 0; r < e.pp; r++) {
        e.rank[r].stop = UINT32_MAX;
    }
    run(&e);
    orr_status status = all_stopped(&e) ? ORR_OK : stuck(&e, err);
    if (status == ORR_OK) {
        for (uint32_t r = 0; r < e.pp; r++) {
            settle(&e, &e.rank[r], 0); /* the end of the rank, after its last call */
        }
        orr_steps_end_part(&e.out);
        place_probes(arena, &e, out);
        status = orr_steps_finish(&e.out, order, out, err);
    }
    orr_arena_free(work);
    return status;
}
