/* Building an order: resolve and check the spec, place the chunks, write the op lists, index them,
 * then compile. */
#include <string.h>

#include "schedule/schedule_int.h"

orr_schedule_spec orr_order_resolve(const orr_schedule_spec *spec) {
    orr_schedule_spec s = *spec;
    const kind_facts *facts = orr_schedule_facts((orr_schedule_kind)s.kind);
    if (s.vpp == 0) {
        s.vpp = facts->vpp == 0 ? 1 : facts->vpp;
    }
    if (s.group == 0) {
        s.group = s.pp;
        if (s.kind == ORR_SCHEDULE_INTERLEAVED_ZB) {
            /* PyTorch: as many rounds as whole multiples of pp, of equal length */
            s.group = s.micro_batches / orr_max_u32(1, s.micro_batches / s.pp);
        } else if (s.kind == ORR_SCHEDULE_GROUPED) {
            s.group = 1;
        } else if (s.vpp == 1 || s.pp == 1) {
            s.group = orr_min_u32(s.pp, s.micro_batches);
        }
    }
    return s;
}

orr_status orr_order_refuse(const orr_schedule_spec *spec, orr_err *err) {
    orr_schedule_rule rule;
    if (orr_schedule_check(spec, &rule, 1) == 0) {
        return ORR_OK;
    }
    orr_status status = orr_fail(err, ORR_E_INFEASIBLE, "%s (rule %s)", rule.message, rule.id);
    orr_hint(err, "%s", rule.hint);
    return status;
}

/* ---- placement ------------------------------------------------------------------------------ */

static uint32_t position_of(uint8_t place, uint32_t pp, uint32_t rank, uint32_t chunk) {
    switch ((placement)place) {
    case PLACE_LINEAR: return rank;
    case PLACE_LOOP: return chunk * pp + rank;
    case PLACE_WAVE: return chunk * pp + (chunk % 2 == 0 ? rank : pp - 1 - rank);
    case PLACE_TWO_WAY: return chunk == 0 ? rank : pp - 1 - rank;
    }
    return 0;
}

static void place_chunks(orr_arena *arena, orr_order *order) {
    const orr_schedule_spec *s = &order->view.spec;
    bool two_way = order->facts.place == PLACE_TWO_WAY;
    uint32_t chunks = s->pp * s->vpp;
    uint32_t *position = ORR_NEW_ARRAY(arena, uint32_t, chunks);
    uint8_t *chain = ORR_NEW_ARRAY(arena, uint8_t, chunks);
    uint32_t *owner = ORR_NEW_ARRAY(arena, uint32_t, chunks);
    order->chains = two_way ? 2 : 1;
    order->per_chain = s->micro_batches / order->chains;
    order->view.chain_length = chunks / order->chains;
    for (uint32_t r = 0, i = 0; r < s->pp; r++) {
        for (uint32_t c = 0; c < s->vpp; c++, i++) {
            position[i] = position_of(order->facts.place, s->pp, r, c);
            chain[i] = two_way && c == 1;
            owner[chain[i] * order->view.chain_length + position[i]] = i;
        }
    }
    order->view.position = position;
    order->view.chain = chain;
    order->owner = owner;
}

/* hop class (index + 1) of the edge between `position` and the next one of a chain; 0 when both are
 * on one rank */
static uint16_t hop_of(const orr_order *order, uint32_t chain, uint32_t position) {
    uint32_t pp = order->view.spec.pp, vpp = order->view.spec.vpp;
    const uint32_t *owner = order->owner + chain * order->view.chain_length;
    uint32_t a = owner[position] / vpp, b = owner[position + 1] / vpp;
    if (a == b) {
        return 0;
    }
    bool wraps = order->facts.place == PLACE_LOOP && a == pp - 1;
    return (uint16_t)(1 + (wraps ? a : orr_min_u32(a, b)));
}

/* once placed */
static void find_sources(orr_arena *arena, orr_order *order) {
    const orr_order_view *v = &order->view;
    uint32_t chunks = v->spec.pp * v->spec.vpp, length = v->chain_length;
    orr_source *f = ORR_NEW_ARRAY(arena, orr_source, chunks),
               *b = ORR_NEW_ARRAY(arena, orr_source, chunks);
    for (uint32_t i = 0; i < chunks; i++) {
        uint32_t position = v->position[i], chain = v->chain[i];
        const uint32_t *owner = order->owner + chain * length;
        f[i] = b[i] = (orr_source){NO_NODE, 0, 0};
        if (position > 0) {
            uint32_t from = owner[position - 1];
            f[i] = (orr_source){from * order->per_chain, (uint16_t)(from / v->spec.vpp),
                                hop_of(order, chain, position - 1)};
        }
        if (position + 1 < length) {
            uint32_t from = owner[position + 1];
            b[i] = (orr_source){from * order->per_chain, (uint16_t)(from / v->spec.vpp),
                                hop_of(order, chain, position)};
        }
    }
    order->f_source = f;
    order->b_source = b;
}

/* ---- writing and indexing ------------------------------------------------------------------- */

static const int64_t *mean_of(orr_arena *work, const int64_t *times, uint32_t count) {
    int64_t sum = 0, *out = ORR_NEW_ARRAY(work, int64_t, count);
    for (uint32_t i = 0; i < count && times != NULL; i++) {
        sum += times[i] / count;
    }
    for (uint32_t i = 0; i < count; i++) {
        out[i] = sum;
    }
    return out;
}

orr_durations orr_order_mean_times(orr_arena *work, const orr_durations *d, uint32_t pp,
                                   uint32_t vpp) {
    return (orr_durations){.f = mean_of(work, d->f, pp * vpp),
                           .b = mean_of(work, d->b, pp * vpp),
                           .w = mean_of(work, d->w, pp * vpp),
                           .hop = mean_of(work, d->hop, pp)};
}

static orr_status write_ops(orr_arena *work, const orr_order *o, const orr_durations *d,
                            op_writer *w, orr_err *err) {
    const orr_schedule_spec *s = &o->view.spec;
    switch ((orr_schedule_kind)s->kind) {
    case ORR_SCHEDULE_GPIPE: orr_order_gpipe(s, w); return ORR_OK;
    case ORR_SCHEDULE_LOOPED_BFS: orr_order_looped_bfs(s, w); return ORR_OK;
    case ORR_SCHEDULE_INTERLEAVED: orr_order_interleaved(s, w); return ORR_OK;
    case ORR_SCHEDULE_INTERLEAVED_ZB: orr_order_interleaved_zb(s, w); return ORR_OK;
    case ORR_SCHEDULE_1F1B: orr_order_1f1b(s, w); return ORR_OK;
    case ORR_SCHEDULE_ZB_H1: orr_order_zb_h1(s, w); return ORR_OK;
    case ORR_SCHEDULE_ZB_H2: orr_order_zb_h2(s, w); return ORR_OK;
    case ORR_SCHEDULE_ZB_H1_PRIMUS: orr_order_zb_h1_primus(s, w); return ORR_OK;
    case ORR_SCHEDULE_ZBV: orr_order_zbv(s, w); return ORR_OK;
    case ORR_SCHEDULE_DUALPIPE: orr_order_dualpipe(work, s, w); return ORR_OK;
    case ORR_SCHEDULE_DUALPIPEV: orr_order_dualpipev(work, s, w); return ORR_OK;
    case ORR_SCHEDULE_ZB_1P:
    case ORR_SCHEDULE_ZB_2P:
    case ORR_SCHEDULE_ZB_AUTO: return orr_order_zb_auto(work, s, d, w, err);
    case ORR_SCHEDULE_V_HALF:
    case ORR_SCHEDULE_V_MIN: orr_order_v_pattern(work, s, w); return ORR_OK;
    case ORR_SCHEDULE_V_HALF_PRIMUS:
    case ORR_SCHEDULE_V_MIN_PRIMUS: orr_order_v_primus(work, s, w); return ORR_OK;
    case ORR_SCHEDULE_V_1F1B: orr_order_v_1f1b(work, s, w); return ORR_OK;
    case ORR_SCHEDULE_GROUPED: return orr_order_grouped(work, s, w, err);
    case ORR_SCHEDULE_ZBV_AUTO: return orr_order_zbv_auto(work, s, d, w, err);
    case ORR_SCHEDULE_V_ADAPTIVE: return orr_order_v_adaptive(work, s, d, w, err);
    case ORR_SCHEDULE_HANAYO:
    case ORR_SCHEDULE_CHIMERA: orr_order_greedy(work, o, w); return ORR_OK;
    case ORR_SCHEDULE_USER:
    case ORR_SCHEDULE_COUNT: break;
    }
    return orr_fail(err, ORR_E_USAGE, "no order is made for %s",
                    orr_schedule_name((orr_schedule_kind)s->kind));
}

static orr_status twice(const char *what, uint32_t rank, uint32_t chunk, uint32_t micro_batch,
                        orr_err *err) {
    return orr_fail(err, ORR_E_SCHEDULE, "rank %u runs %s%u.%u twice", rank, what, chunk,
                    micro_batch);
}

typedef struct op_index {
    uint32_t *f, *b, *w;
    uint32_t forwards, backwards, weights; /* found so far */
} op_index;

static orr_status index_op(const orr_order *order, uint32_t rank, uint32_t number, op_index *at,
                           orr_err *err) {
    const orr_sched_op *op = &order->view.op[number];
    uint32_t vpp = order->view.spec.vpp, per = order->per_chain;
    bool pair = op->kind == ORR_SOP_PAIR;
    if (op->kind > ORR_SOP_PAIR) {
        return orr_fail(err, ORR_E_SCHEDULE, "rank %u has an op of unknown kind %u", rank,
                        op->kind);
    }
    uint32_t bc = pair ? op->chunk2 : op->chunk, bm = pair ? op->micro_batch2 : op->micro_batch;
    if (op->chunk >= vpp || bc >= vpp || op->micro_batch >= per || bm >= per) {
        return orr_fail(err, ORR_E_SCHEDULE,
                        "rank %u names chunk %u, micro-batch %u; there are %u chunks and %u "
                        "micro-batches",
                        rank, op->chunk >= vpp ? op->chunk : bc,
                        op->micro_batch >= per ? op->micro_batch : bm, vpp, per);
    }
    uint32_t *f = &at->f[(rank * vpp + op->chunk) * per + op->micro_batch];
    const uint32_t *own_f = &at->f[(rank * vpp + bc) * per + bm];
    uint32_t *b = &at->b[(rank * vpp + bc) * per + bm];
    uint32_t *w = at->w == NULL ? NULL : &at->w[(rank * vpp + bc) * per + bm];
    if (pair || op->kind == ORR_SOP_F) {
        if (*f != NO_NODE) {
            return twice("F", rank, op->chunk, op->micro_batch, err);
        }
        *f = number;
        at->forwards++;
    }
    if (pair || op->kind == ORR_SOP_B || op->kind == ORR_SOP_BW) {
        if (*b != NO_NODE) {
            return twice("B", rank, bc, bm, err);
        }
        *b = number;
        at->backwards++;
        if (*own_f == NO_NODE || *own_f >= number) {
            return orr_fail(err, ORR_E_SCHEDULE,
                            "rank %u runs the backward of chunk %u, micro-batch %u before its "
                            "forward",
                            rank, bc, bm);
        }
    }
    if (w != NULL && (pair || op->kind == ORR_SOP_W || op->kind == ORR_SOP_BW)) {
        if (*w != NO_NODE) {
            return twice("W", rank, bc, bm, err);
        }
        if (*b == NO_NODE) {
            return orr_fail(err, ORR_E_SCHEDULE, "rank %u runs W%u.%u before its input gradient",
                            rank, bc, bm);
        }
        *w = number;
        at->weights++;
    }
    return ORR_OK;
}

static orr_status missing(const orr_order *order, const uint32_t *at, const char *what,
                          orr_err *err) {
    uint32_t chunks = order->view.spec.pp * order->view.spec.vpp;
    for (uint32_t i = 0; i < chunks * order->per_chain; i++) {
        if (at[i] == NO_NODE) {
            uint32_t c = i / order->per_chain;
            return orr_fail(err, ORR_E_SCHEDULE, "rank %u never runs %s%u.%u",
                            c / order->view.spec.vpp, what, c % order->view.spec.vpp,
                            i % order->per_chain);
        }
    }
    return ORR_OK;
}

/* The forward that a pair also needs on its own rank is checked like that of a plain backward: a
 * pair of one micro-batch's own forward and backward is refused by `*f >= number`. */
static orr_status index_ops(orr_arena *arena, orr_order *order, orr_err *err) {
    const orr_order_view *v = &order->view;
    uint32_t slots = v->spec.pp * v->spec.vpp * order->per_chain;
    op_index at = {.f = ORR_NEW_ARRAY(arena, uint32_t, slots),
                   .b = ORR_NEW_ARRAY(arena, uint32_t, slots),
                   .w = v->split_backward ? ORR_NEW_ARRAY(arena, uint32_t, slots) : NULL};
    memset(at.f, 0xff, slots * sizeof *at.f);
    memset(at.b, 0xff, slots * sizeof *at.b);
    if (at.w != NULL) {
        memset(at.w, 0xff, slots * sizeof *at.w);
    }
    for (uint32_t r = 0; r < v->spec.pp; r++) {
        for (uint32_t i = v->op_first[r]; i < v->op_first[r + 1]; i++) {
            ORR_TRY(index_op(order, r, i, &at, err));
        }
    }
    /* none came twice, so that the right numbers mean that all are there */
    if (at.forwards != slots || at.backwards != slots || (at.w != NULL && at.weights != slots)) {
        ORR_TRY(missing(order, at.f, "F", err));
        ORR_TRY(missing(order, at.b, "B", err));
        ORR_TRY(missing(order, at.w, "W", err));
    }
    order->f_at = at.f;
    order->b_at = at.b;
    return ORR_OK;
}

/* Pairs with equal chunks share a duration class. Written when `out` is given, else only counted.
 */
static uint32_t scan_pairs(const orr_order *order, bool *seen, uint32_t *first, pair_class *out) {
    const orr_order_view *v = &order->view;
    uint32_t vpp = v->spec.vpp, count = 0;
    for (uint32_t r = 0; r < v->spec.pp; r++) {
        first[r] = count;
        memset(seen, 0, (size_t)vpp * vpp * sizeof *seen);
        for (uint32_t i = v->op_first[r]; i < v->op_first[r + 1]; i++) {
            const orr_sched_op *op = &v->op[i];
            if (op->kind == ORR_SOP_PAIR && !seen[op->chunk * vpp + op->chunk2]) {
                seen[op->chunk * vpp + op->chunk2] = true;
                if (out != NULL) {
                    out[count] = (pair_class){r, op->chunk, op->chunk2};
                }
                count++;
            }
        }
    }
    return count;
}

static void collect_pairs(orr_arena *arena, orr_order *order) {
    const orr_schedule_spec *s = &order->view.spec;
    if (!order->facts.pairs || (s->kind == ORR_SCHEDULE_INTERLEAVED && !s->ep_overlap)) {
        return;
    }
    bool *seen = ORR_NEW_ARRAY(arena, bool, (size_t)s->vpp * s->vpp);
    uint32_t *first = ORR_NEW_ARRAY(arena, uint32_t, s->pp);
    order->pairs = scan_pairs(order, seen, first, NULL);
    pair_class *pair = ORR_NEW_ARRAY(arena, pair_class, order->pairs);
    (void)scan_pairs(order, seen, first, pair);
    order->pair = pair;
    order->pair_first = first;
}

static orr_status compile_async(orr_arena *arena, orr_order *order, orr_err *err) {
    orr_arena *work = orr_arena_new();
    node_lists lists = {0};
    orr_status status = orr_order_nodes(work, order, &lists, err);
    if (status == ORR_OK) {
        status = orr_order_compile(arena, order, &lists, &order->program, err);
    }
    orr_arena_free(work);
    return status;
}

orr_status orr_order_late(const orr_order *order, const orr_compiled **out, orr_err *err) {
    late_program *late = order->late;
    if (!late->made) {
        orr_compiled *program = &late->program;
        orr_status status = orr_order_compile_calls(late->arena, order, false, program, err);
        if (status == ORR_E_INTERNAL && order->left_out != 0) {
            const orr_order *whole = NULL;
            ORR_TRY(orr_order_whole(order, late->arena, &whole, err));
            status = orr_order_compile_calls(late->arena, whole, false, program, err);
        }
        ORR_TRY(status);
        late->made = true;
    }
    *out = &late->program;
    return ORR_OK;
}

orr_status orr_order_finish(orr_arena *arena, orr_order *order, orr_err *err) {
    find_sources(arena, order);
    ORR_TRY(index_ops(arena, order, err));
    collect_pairs(arena, order);
    orr_p2p_mode p2p = (orr_p2p_mode)order->view.spec.p2p;
    if (p2p == ORR_P2P_ASYNC || order->view.spec.pp == 1) {
        ORR_TRY(compile_async(arena, order, err));
    } else {
        bool overlaps = p2p != ORR_P2P_BLOCKING;
        ORR_TRY(orr_order_compile_calls(arena, order, overlaps, &order->program, err));
        if (overlaps) {
            order->late = ORR_NEW(arena, late_program);
            order->late->arena = arena;
        }
    }
    return orr_order_live(arena, order, err);
}

orr_status orr_order_build_run(orr_arena *arena, const orr_schedule_spec *spec, uint32_t left_out,
                               const orr_durations *d, const orr_order **out, orr_err *err) {
    orr_order *order = ORR_NEW(arena, orr_order);
    order->view.spec = orr_order_resolve(spec);
    order->view.spec.micro_batches -= left_out;
    order->left_out = left_out;
    order->facts = *orr_schedule_facts((orr_schedule_kind)spec->kind);
    order->view.split_backward = order->facts.split;
    place_chunks(arena, order);

    const orr_schedule_spec *s = &order->view.spec;
    uint32_t kinds = order->facts.split ? 3 : 2;
    op_writer writer = {
        .capacity = kinds * s->pp * s->vpp * order->per_chain,
        .op_first = ORR_NEW_ARRAY(arena, uint32_t, s->pp + 1),
    };
    writer.op = ORR_NEW_ARRAY(arena, orr_sched_op, writer.capacity);
    orr_arena *work = orr_arena_new();
    orr_status status = write_ops(work, order, d, &writer, err);
    orr_arena_free(work);
    ORR_TRY(status);
    order->view.op = writer.op;
    order->view.op_first = writer.op_first;
    ORR_TRY(orr_order_finish(arena, order, err));
    *out = order;
    return ORR_OK;
}

orr_status orr_order_build(orr_arena *arena, const orr_schedule_spec *spec, const orr_durations *d,
                           const orr_order **out, orr_err *err) {
    ORR_TRY(orr_order_refuse(spec, err));
    if (spec->kind == ORR_SCHEDULE_USER) {
        return orr_fail(err, ORR_E_USAGE, "a user order is built from its ops");
    }
    if (d == NULL && orr_schedule_needs_durations((orr_schedule_kind)spec->kind)) {
        return orr_fail(err, ORR_E_USAGE, "the order of %s depends on durations; none were given",
                        orr_schedule_name((orr_schedule_kind)spec->kind));
    }
    return orr_order_build_run(arena, spec, 0, d, out, err);
}

orr_order_view orr_order_look(const orr_order *order) {
    orr_order_view view = order->view;
    if (order->left_out != 0) {
        view.spec.micro_batches += order->left_out;
        view.op = NULL;
        view.op_first = NULL;
    }
    return view;
}
