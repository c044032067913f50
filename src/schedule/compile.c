/* Puts the nodes of all ranks in one topological order and folds the periodic middle.
 *
 * In a steady state every rank repeats its ops with shifted micro-batches, so the nodes of one
 * period look like those of the next, references included. Such a period is stored once, with
 * distances back instead of node numbers, and repeated when played. What is periodic is found by
 * comparing nodes, not assumed: a seed op gives each rank's period length, from it the region is
 * grown in both directions. A down-closed set of nodes that reaches into the regions of all ranks,
 * shifted by one period again and again, cuts the run into blocks that depend on earlier blocks
 * only. */
#include <string.h>

#include "base/text.h"
#include "schedule/steps.h"

enum { LEAST_BLOCKS = 4 };

typedef struct compiler {
    const orr_order *order;
    const node_lists *lists;
    uint32_t pp;
    uint32_t least_blocks;   /* that make it worth while to fold */
    uint32_t *id;            /* per node; NO_NODE: not yet emitted */
    uint32_t *next, *limit;  /* per rank: node number to emit next, and where to stop */
    uint32_t *queue, *waits; /* ranks ready; per rank the node it waits for */
    uint32_t *first_waiter, *next_waiter; /* per rank */
    bool *queued;
    uint32_t queue_head, queue_count;
    uint32_t *low, *high, *period, *start; /* per rank: region, length of a period, first block */
    step_list out;
} compiler;

/* ---- emission ------------------------------------------------------------------------------- */

static void enqueue(compiler *c, uint32_t rank) {
    if (!c->queued[rank]) {
        uint32_t at = c->queue_head + c->queue_count;
        c->queue[at < c->pp ? at : at - c->pp] = rank;
        c->queue_count++;
        c->queued[rank] = true;
    }
}

static uint32_t dequeue(compiler *c) {
    uint32_t rank = c->queue[c->queue_head];
    c->queue_head = c->queue_head + 1 == c->pp ? 0 : c->queue_head + 1;
    c->queue_count--;
    c->queued[rank] = false;
    return rank;
}

static bool is_open(const compiler *c, uint32_t ref) {
    return ref != NO_NODE && c->id[ref] == NO_NODE;
}

static void emit(compiler *c, uint32_t number) {
    const orr_node *n = &c->lists->node[number];
    uint32_t ref = n->ref == NO_NODE ? n->ref2 : n->ref;
    uint32_t ref2 = n->ref2 == NO_NODE ? n->ref : n->ref2;
    uint16_t lag = n->ref == NO_NODE ? n->lag2 : n->lag;
    uint16_t lag2 = n->ref2 == NO_NODE ? n->lag : n->lag2;
    c->id[number] = orr_steps_put(&c->out, ref == NO_NODE ? 0 : c->id[ref], lag,
                                  ref2 == NO_NODE ? 0 : c->id[ref2], lag2, n->duration);
}

static void wake(compiler *c, uint32_t rank, uint32_t number) {
    uint32_t *link = &c->first_waiter[rank];
    while (*link != NO_NODE) {
        uint32_t waiter = *link;
        if (c->waits[waiter] == number) {
            *link = c->next_waiter[waiter];
            enqueue(c, waiter);
        } else {
            link = &c->next_waiter[waiter];
        }
    }
}

/* Waits for a node of another rank. When that rank was to stop before the node, its limit is raised
 * if `grow` is set: this closes the set of emitted nodes under dependencies. */
static void wait_for(compiler *c, uint32_t rank, uint32_t number, uint32_t other, bool grow) {
    c->waits[rank] = number;
    c->next_waiter[rank] = c->first_waiter[other];
    c->first_waiter[other] = rank;
    if (grow && number >= c->limit[other]) {
        c->limit[other] = number + 1;
        if (c->next[other] < c->limit[other] && c->waits[other] == NO_NODE) {
            enqueue(c, other);
        }
    }
}

/* Emits until every rank is at its limit, ranks in turn so that neighbours overlap when played.
 * False when some rank cannot get there. */
static bool emit_all(compiler *c, bool grow) {
    for (uint32_t r = 0; r < c->pp; r++) {
        c->waits[r] = NO_NODE;
        c->first_waiter[r] = NO_NODE;
        if (c->next[r] < c->limit[r]) {
            enqueue(c, r);
        }
    }
    while (c->queue_count != 0) {
        uint32_t r = dequeue(c);
        c->waits[r] = NO_NODE;
        uint32_t number = c->next[r];
        if (number >= c->limit[r]) {
            continue;
        }
        const orr_node *n = &c->lists->node[number];
        if (is_open(c, n->ref2)) {
            wait_for(c, r, n->ref2, n->rank2, grow);
        } else if (is_open(c, n->ref)) {
            wait_for(c, r, n->ref, n->rank, grow);
        } else {
            emit(c, number);
            c->next[r]++;
            if (c->first_waiter[r] != NO_NODE) {
                wake(c, r, number);
            }
            enqueue(c, r);
        }
    }
    for (uint32_t r = 0; r < c->pp; r++) {
        if (c->next[r] < c->limit[r]) {
            return false;
        }
    }
    return true;
}

/* ---- periods -------------------------------------------------------------------------------- */

static bool shifted(const compiler *c, uint32_t ref, uint32_t ref_later, uint16_t rank) {
    return ref == NO_NODE ? ref_later == NO_NODE
                          : ref_later != NO_NODE && ref_later - ref == c->period[rank];
}

static bool alike(const compiler *c, uint32_t a, uint32_t b) {
    const orr_node *x = &c->lists->node[a], *y = &c->lists->node[b];
    return x->duration == y->duration && x->lag == y->lag && x->lag2 == y->lag2 &&
           x->rank == y->rank && x->rank2 == y->rank2 && shifted(c, x->ref, y->ref, x->rank) &&
           shifted(c, x->ref2, y->ref2, x->rank2);
}

static uint32_t node_of(const node_lists *lists, uint32_t op) {
    return lists->of_op == NULL ? op : lists->of_op[op];
}

/* Whether ops from one of them until a like one are all ops of `micro_batches` micro-batches. */
static bool is_whole(const compiler *c, uint32_t first, uint32_t end, uint32_t micro_batches) {
    const orr_order_view *v = &c->order->view;
    uint32_t parts = 0;
    for (uint32_t i = first; i < end; i++) {
        parts += v->op[i].kind == ORR_SOP_PAIR ? 2 : 1;
    }
    return parts == (v->split_backward ? 3 : 2) * v->spec.vpp * micro_batches;
}

/* Period and region of every rank around the middle micro-batch of one kind of op. In a short run
 * that stands for a longer one the last forwards are taken, which come after all warm-up, and
 * periods must be whole. */
static bool find_regions(compiler *c, const uint32_t *at, uint32_t chunk, uint32_t step_mb) {
    const orr_order *o = c->order;
    bool brief = o->left_out != 0;
    uint32_t per = o->per_chain, late = step_mb + 2;
    uint32_t middle = !brief ? per / 2 : per > late ? per - late : 0;
    if (middle + step_mb >= per) {
        return false;
    }
    for (uint32_t r = 0; r < c->pp; r++) {
        const uint32_t *of = at + (size_t)(r * o->view.spec.vpp + chunk) * per;
        uint32_t a = node_of(c->lists, of[middle]), b = node_of(c->lists, of[middle + step_mb]);
        c->low[r] = orr_min_u32(a, b);
        c->high[r] = orr_max_u32(a, b);
        c->period[r] = c->high[r] - c->low[r];
        if (c->period[r] == 0 ||
            (brief && !is_whole(c, of[middle], of[middle + step_mb], step_mb))) {
            return false;
        }
    }
    for (uint32_t r = 0; r < c->pp; r++) {
        uint32_t first = c->lists->first[r], end = first + c->lists->count[r];
        while (c->high[r] < end && alike(c, c->high[r] - c->period[r], c->high[r])) {
            c->high[r]++;
        }
        while (c->low[r] > first && alike(c, c->low[r] - 1, c->low[r] - 1 + c->period[r])) {
            c->low[r]--;
        }
    }
    return true;
}

/* How many blocks back the last block looks; 0 when it looks past the first. */
static uint32_t look_back(const compiler *c, uint32_t blocks) {
    uint32_t back = 1;
    for (uint32_t r = 0; r < c->pp; r++) {
        uint32_t from = c->start[r] + (blocks - 1) * c->period[r];
        for (uint32_t i = from; i < from + c->period[r]; i++) {
            const orr_node *n = &c->lists->node[i];
            const uint32_t ref[2] = {n->ref, n->ref2};
            const uint16_t rank[2] = {n->rank, n->rank2};
            for (int k = 0; k < 2; k++) {
                if (ref[k] == NO_NODE) {
                    continue;
                }
                if (ref[k] < c->start[rank[k]]) {
                    return 0;
                }
                uint32_t block = (ref[k] - c->start[rank[k]]) / c->period[rank[k]];
                back = orr_max_u32(back, blocks - 1 - block);
            }
        }
    }
    return back;
}

static bool emit_block(compiler *c) {
    for (uint32_t r = 0; r < c->pp; r++) {
        c->limit[r] = c->next[r] + c->period[r];
    }
    return emit_all(c, false);
}

/* Gives ids to the nodes of blocks that are not stored, and steps over them. */
static void skip_blocks(compiler *c, uint32_t stored_from, uint32_t blocks, uint32_t block_steps) {
    for (uint32_t r = 0; r < c->pp; r++) {
        uint32_t from = c->start[r] + stored_from * c->period[r];
        uint32_t end = c->start[r] + blocks * c->period[r];
        for (uint32_t i = from + c->period[r]; i < end; i++) {
            c->id[i] = c->id[i - c->period[r]] + block_steps;
        }
        c->next[r] = end;
    }
}

/* Folds the region found by find_regions, if it is long enough. False: deadlock. */
static bool fold(compiler *c, uint32_t micro_batches) {
    uint32_t blocks = UINT32_MAX, block_steps = 0;
    for (uint32_t r = 0; r < c->pp; r++) {
        if (c->high[r] <= c->next[r] ||
            (c->high[r] - orr_max_u32(c->next[r], c->low[r])) / c->period[r] < c->least_blocks) {
            return true;
        }
    }
    for (uint32_t r = 0; r < c->pp; r++) {
        c->limit[r] = orr_max_u32(c->next[r], c->low[r]);
    }
    if (!emit_all(c, true)) {
        return false;
    }
    for (uint32_t r = 0; r < c->pp; r++) {
        uint32_t left = c->high[r] <= c->next[r] ? 0 : c->high[r] - c->next[r];
        blocks = orr_min_u32(blocks, left / c->period[r]);
        block_steps += c->period[r];
        c->start[r] = c->next[r];
    }
    uint32_t back = blocks < c->least_blocks ? 0 : look_back(c, blocks);
    if (back == 0 || blocks < back + c->least_blocks) {
        return true;
    }
    for (uint32_t b = 0; b < back; b++) {
        if (!emit_block(c)) {
            return false;
        }
    }
    uint32_t first = c->out.steps;
    if (!emit_block(c)) {
        return false;
    }
    skip_blocks(c, back, blocks, block_steps);
    orr_steps_repeat(&c->out, first, blocks - back, back, back, micro_batches);
    return true;
}

/* ---- probes --------------------------------------------------------------------------------- */

static orr_probe first_probe(compiler *c, uint32_t number) {
    return orr_steps_first(&c->out, c->id[number], c->lists->node[number].duration);
}

static orr_probe last_probe(compiler *c, uint32_t number) {
    return orr_steps_last(&c->out, c->id[number], c->lists->node[number].duration);
}

static bool is_forward(const orr_sched_op *op) {
    return op->kind == ORR_SOP_F || op->kind == ORR_SOP_PAIR;
}

/* The chunk whose weight gradient an op finishes, or -1. */
static int finishes(const orr_sched_op *op) {
    return op->kind == ORR_SOP_W || op->kind == ORR_SOP_BW ? op->chunk
           : op->kind == ORR_SOP_PAIR                      ? op->chunk2
                                                           : -1;
}

static void probe_chunks(compiler *c, uint32_t rank, orr_probe *first_use, orr_probe *grads) {
    const orr_order_view *v = &c->order->view;
    uint32_t vpp = v->spec.vpp, base = rank * vpp;
    bool seen[ORR_MAX_VPP] = {0};
    uint32_t left = vpp;
    for (uint32_t i = v->op_first[rank]; i < v->op_first[rank + 1] && left > 0; i++) {
        uint32_t chunk = v->op[i].chunk;
        if (is_forward(&v->op[i]) && !seen[chunk]) {
            seen[chunk] = true;
            left--;
            first_use[base + chunk] = first_probe(c, node_of(c->lists, i));
        }
    }
    memset(seen, 0, sizeof seen);
    left = vpp;
    for (uint32_t i = v->op_first[rank + 1]; i-- > v->op_first[rank] && left > 0;) {
        int chunk = finishes(&v->op[i]);
        if (chunk >= 0 && !seen[chunk]) {
            seen[chunk] = true;
            left--;
            grads[base + (uint32_t)chunk] = last_probe(c, node_of(c->lists, i));
        }
    }
}

static void place_probes(orr_arena *arena, compiler *c, orr_compiled *out) {
    const orr_order_view *v = &c->order->view;
    uint32_t chunks = c->pp * v->spec.vpp;
    orr_probe *rank_first = ORR_NEW_ARRAY(arena, orr_probe, c->pp);
    orr_probe *rank_last = ORR_NEW_ARRAY(arena, orr_probe, c->pp);
    orr_probe *first_use = ORR_NEW_ARRAY(arena, orr_probe, chunks);
    orr_probe *grads = ORR_NEW_ARRAY(arena, orr_probe, chunks);
    for (uint32_t r = 0; r < c->pp; r++) {
        rank_first[r] = first_probe(c, node_of(c->lists, v->op_first[r]));
        rank_last[r] = last_probe(c, c->lists->first[r] + c->lists->count[r] - 1);
        probe_chunks(c, r, first_use, grads);
    }
    out->rank_first = rank_first;
    out->rank_last = rank_last;
    out->first_use = first_use;
    out->grads = grads;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static uint32_t op_at_node(const orr_order *o, const node_lists *lists, uint32_t rank,
                           uint32_t number) {
    uint32_t i = o->view.op_first[rank];
    while (i + 1 < o->view.op_first[rank + 1] && node_of(lists, i) < number) {
        i++;
    }
    return i;
}

static orr_status deadlock(orr_arena *arena, const compiler *c, orr_err *err) {
    orr_text text = orr_text_new(arena, ORR_ERR_TEXT);
    for (uint32_t r = 0; r < c->pp; r++) {
        char name[ORR_SCHED_OP_TEXT];
        uint32_t end = c->lists->first[r] + c->lists->count[r];
        if (c->next[r] >= end) {
            orr_text_format(&text, "%srank %u done", r == 0 ? "" : ", ", r);
            continue;
        }
        orr_sched_op_format(&c->order->view.op[op_at_node(c->order, c->lists, r, c->next[r])],
                            name);
        orr_text_format(&text, "%srank %u at %s", r == 0 ? "" : ", ", r, name);
    }
    return orr_fail(err, ORR_E_SCHEDULE, "the order deadlocks: %s", orr_text_done(&text));
}

static compiler compiler_new(orr_arena *work, const orr_order *order, const node_lists *lists) {
    uint32_t pp = order->view.spec.pp;
    compiler c = {.order = order, .lists = lists, .pp = pp};
    c.least_blocks = order->left_out == 0 ? LEAST_BLOCKS : 1;
    c.id = ORR_NEW_ARRAY(work, uint32_t, lists->total);
    memset(c.id, 0xff, lists->total * sizeof *c.id);
    uint32_t **const per_rank[] = {&c.next,        &c.limit, &c.queue, &c.waits,  &c.first_waiter,
                                   &c.next_waiter, &c.low,   &c.high,  &c.period, &c.start};
    uint32_t *all = ORR_NEW_ARRAY(work, uint32_t, (sizeof per_rank / sizeof *per_rank) * pp);
    for (size_t i = 0; i < sizeof per_rank / sizeof *per_rank; i++) {
        *per_rank[i] = all + i * pp;
    }
    c.queued = ORR_NEW_ARRAY(work, bool, pp);
    memcpy(c.next, lists->first, pp * sizeof *c.next);
    return c;
}

/* Seeds in the order in which their phases run; one phase often covers the others. */
static bool fold_phases(compiler *c) {
    const orr_order *o = c->order;
    const orr_schedule_spec *s = &o->view.spec;
    uint32_t steps[2] = {o->facts.place == PLACE_LOOP ? s->group : 1, 1};
    bool pure = s->kind == ORR_SCHEDULE_GPIPE;
    for (uint32_t k = 0; k < 2 && c->out.segments == 0; k++) {
        if (find_regions(c, o->f_at, 0, steps[k]) && !fold(c, steps[k])) {
            return false;
        }
        if ((pure || c->out.segments == 0) && find_regions(c, o->b_at, 0, steps[k]) &&
            !fold(c, steps[k])) {
            return false;
        }
        if (steps[0] == 1) {
            break;
        }
    }
    return true;
}

orr_status orr_order_compile(orr_arena *arena, const orr_order *order, const node_lists *lists,
                             orr_compiled *out, orr_err *err) {
    orr_arena *work = orr_arena_new();
    compiler c = compiler_new(work, order, lists);
    uint32_t nodes = 0;
    for (uint32_t r = 0; r < c.pp; r++) {
        nodes += lists->count[r];
    }
    orr_steps_begin(&c.out, arena, nodes);
    bool live = fold_phases(&c);
    for (uint32_t r = 0; r < c.pp; r++) {
        c.limit[r] = lists->first[r] + lists->count[r];
    }
    live = live && emit_all(&c, false);
    orr_status status = ORR_OK;
    if (live) {
        orr_steps_end_part(&c.out);
        place_probes(arena, &c, out);
        status = orr_steps_finish(&c.out, order, out, err);
    } else {
        status = deadlock(work, &c, err);
    }
    orr_arena_free(work);
    return status;
}
