/* From ops to max-plus nodes, transfers costing only latency on their edge. */
#include "schedule/schedule_int.h"

/* What an op waits for on another rank. */
typedef struct need {
    uint32_t op; /* NO_NODE: nothing */
    uint16_t rank, lag;
} need;

static inline need need_of(const orr_source *from, const uint32_t *at, uint32_t micro_batch) {
    if (from->slots == NO_NODE) {
        return (need){NO_NODE, 0, 0};
    }
    return (need){at[from->slots + micro_batch], from->rank, from->lag};
}

static bool elsewhere(need n, uint32_t rank) {
    return n.op != NO_NODE && n.rank != rank;
}

uint32_t orr_order_pair_class(const orr_order *o, uint32_t rank, const orr_sched_op *op) {
    uint32_t i = o->pair_first[rank];
    while (o->pair[i].chunk != op->chunk || o->pair[i].chunk2 != op->chunk2) {
        i++;
    }
    return 1 + 4 * o->view.spec.pp * o->view.spec.vpp + i;
}

static orr_status self_check(const orr_order *o, need n, uint32_t rank, uint32_t number,
                             orr_err *err) {
    if (n.op != NO_NODE && n.rank == rank && n.op >= number) {
        const orr_sched_op *op = &o->view.op[number];
        return orr_fail(err, ORR_E_SCHEDULE,
                        "rank %u runs chunk %u, micro-batch %u before what it needs on the same "
                        "rank",
                        rank, op->chunk, op->micro_batch);
    }
    return ORR_OK;
}

static orr_status needs_of(const orr_order *o, uint32_t rank, uint32_t number, need out[2],
                           orr_err *err) {
    const orr_sched_op *op = &o->view.op[number];
    uint32_t base = rank * o->view.spec.vpp;
    out[0] = out[1] = (need){NO_NODE, 0, 0};
    switch ((orr_sched_op_kind)op->kind) {
    case ORR_SOP_F:
        out[0] = need_of(&o->f_source[base + op->chunk], o->f_at, op->micro_batch);
        break;
    case ORR_SOP_B:
    case ORR_SOP_BW:
        out[0] = need_of(&o->b_source[base + op->chunk], o->b_at, op->micro_batch);
        break;
    case ORR_SOP_PAIR:
        out[0] = need_of(&o->f_source[base + op->chunk], o->f_at, op->micro_batch);
        out[1] = need_of(&o->b_source[base + op->chunk2], o->b_at, op->micro_batch2);
        break;
    case ORR_SOP_W: break;
    }
    ORR_TRY(self_check(o, out[0], rank, number, err));
    ORR_TRY(self_check(o, out[1], rank, number, err));
    if (!elsewhere(out[0], rank)) {
        out[0] = out[1];
        out[1].op = NO_NODE;
    }
    if (!elsewhere(out[1], rank)) {
        out[1].op = NO_NODE;
    }
    if (!elsewhere(out[0], rank)) {
        out[0].op = NO_NODE;
    }
    return ORR_OK;
}

/* A pair that waits for two other ranks takes a second, timeless node. */
static uint32_t *number_nodes(orr_arena *arena, const orr_order *o, uint32_t *count) {
    const orr_order_view *v = &o->view;
    uint32_t ops = v->op_first[v->spec.pp];
    *count = ops;
    if (o->pairs == 0) {
        return NULL;
    }
    uint32_t *of_op = ORR_NEW_ARRAY(arena, uint32_t, ops);
    uint32_t next = 0;
    for (uint32_t r = 0; r < v->spec.pp; r++) {
        for (uint32_t i = v->op_first[r]; i < v->op_first[r + 1]; i++) {
            need n[2];
            bool two = v->op[i].kind == ORR_SOP_PAIR && needs_of(o, r, i, n, NULL) == ORR_OK &&
                       n[1].op != NO_NODE;
            next += two;
            of_op[i] = next++;
        }
    }
    *count = next;
    return of_op;
}

/* Without pairs a node is an op. */
static orr_status plain_rank(const orr_order *o, uint32_t rank, node_lists *out, orr_err *err) {
    const orr_order_view *v = &o->view;
    uint32_t first = v->op_first[rank], end = v->op_first[rank + 1];
    uint32_t base = rank * v->spec.vpp, chunks = v->spec.pp * v->spec.vpp;
    const orr_source *const sources[] = {o->f_source, o->b_source, NULL, o->b_source};
    const uint32_t *const at[] = {o->f_at, o->b_at, NULL, o->b_at};
    for (uint32_t i = first; i < end; i++) {
        const orr_sched_op *op = &v->op[i];
        need n = {NO_NODE, 0, 0};
        if (op->kind != ORR_SOP_W) {
            n = need_of(&sources[op->kind][base + op->chunk], at[op->kind], op->micro_batch);
            if (n.op != NO_NODE && n.rank == rank) {
                ORR_TRY(self_check(o, n, rank, i, err));
                n.op = NO_NODE;
            }
        }
        out->node[i] =
            (orr_node){.ref = i == first ? NO_NODE : i - 1,
                       .ref2 = n.op,
                       .duration = class_of(chunks, (orr_sched_op_kind)op->kind, base + op->chunk),
                       .lag2 = n.lag,
                       .rank = (uint16_t)rank,
                       .rank2 = n.rank};
    }
    out->first[rank] = first;
    out->count[rank] = end - first;
    return ORR_OK;
}

orr_status orr_order_nodes(orr_arena *arena, const orr_order *o, node_lists *out, orr_err *err) {
    const orr_order_view *v = &o->view;
    uint32_t pp = v->spec.pp;
    out->of_op = number_nodes(arena, o, &out->total);
    out->node = ORR_NEW_ARRAY(arena, orr_node, out->total);
    out->first = ORR_NEW_ARRAY(arena, uint32_t, pp);
    out->count = ORR_NEW_ARRAY(arena, uint32_t, pp);
    for (uint32_t r = 0; r < pp && out->of_op == NULL; r++) {
        ORR_TRY(plain_rank(o, r, out, err));
    }
    uint32_t next = 0;
    for (uint32_t r = 0; r < pp && out->of_op != NULL; r++) {
        uint16_t rank = (uint16_t)r;
        uint32_t previous = NO_NODE;
        out->first[r] = next;
        for (uint32_t i = v->op_first[r]; i < v->op_first[r + 1]; i++) {
            need n[2];
            ORR_TRY(needs_of(o, r, i, n, err));
            for (int k = 0; k < 2; k++) {
                if (n[k].op != NO_NODE) {
                    n[k].op = out->of_op[n[k].op];
                }
            }
            if (n[1].op != NO_NODE) {
                out->node[next] = (orr_node){previous, n[1].op, 0, 0, n[1].lag, rank, n[1].rank};
                previous = next++;
            }
            out->node[next] = (orr_node){.ref = previous,
                                         .ref2 = n[0].op,
                                         .duration = orr_order_class(o, r, &v->op[i]),
                                         .lag2 = n[0].lag,
                                         .rank = rank,
                                         .rank2 = n[0].rank};
            previous = next++;
        }
        out->count[r] = next - out->first[r];
    }
    return ORR_OK;
}
