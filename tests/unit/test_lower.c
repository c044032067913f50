/* The ops of a layer: shapes, collectives and their bytes, what is run again, what waits for what.
 * Expected values are worked out by hand from the formulas of docs/internals/program.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "program/muon.h"
#include "program_fixtures.h"

typedef struct lowered {
    orr_arena *arena;
    orr_object *object;
} lowered;

static lowered lower_key(const orr_object_key *key) {
    orr_err err = {0};
    lowered l = {.arena = orr_arena_new()};
    if (orr_lower(l.arena, key, &l.object, &err) != ORR_OK) {
        fail_msg("%s", err.message);
    }
    return l;
}

static lowered lower_layer(const orr_plan *plan, const orr_layer *layer) {
    orr_object_key key;
    orr_link_layer_key(plan, layer, &key);
    return lower_key(&key);
}

static uint32_t count_comm(const orr_object *object, orr_phase phase, orr_stream stream,
                           orr_collective kind, uint64_t bytes) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < object->op_count; i++) {
        const orr_op *op = &object->op[i];
        count += op->kind == ORR_OP_COLLECTIVE && op->phase == phase && op->stream == stream &&
                 op->sub == kind && (bytes == 0 || op->shape.comm.rank_bytes == bytes);
    }
    return count;
}

static const orr_op *find_op(const orr_object *object, orr_phase phase, orr_op_kind kind,
                             const char *name) {
    for (uint32_t i = 0; i < object->op_count; i++) {
        const orr_op *op = &object->op[i];
        if (op->phase == phase && op->kind == kind && strcmp(orr_op_name(op->name), name) == 0) {
            return op;
        }
    }
    return NULL;
}

static void assert_gemm(const orr_object *object, orr_phase phase, const char *name, uint64_t m,
                        uint64_t n, uint64_t k, uint32_t out_bytes) {
    const orr_op *op = find_op(object, phase, ORR_OP_GEMM, name);
    assert_non_null(op);
    assert_int_equal(op->shape.gemm.m, m);
    assert_int_equal(op->shape.gemm.n, n);
    assert_int_equal(op->shape.gemm.k, k);
    assert_int_equal(op->shape.gemm.batch, 1);
    assert_int_equal(op->out_bytes, out_bytes);
    assert_true(op->flops == 2.0 * (double)m * (double)n * (double)k);
}

/* 8B over TP 4 with sequence-parallel regions. */
static void dense_layer_over_tp(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f, fixture_layer(4096, 32, 8, 14336), 2, 128256);
    orr_plan *plan = &f.resolved.plan;
    plan->split.tp = 4;
    plan->split.sp = 1;
    lowered l = lower_layer(plan, &f.kind[0]);
    const orr_object *o = l.object;
    uint64_t n = 4096, whole = 2 * n * 4096;
    assert_gemm(o, ORR_PHASE_FORWARD, "attn.qkv", n, 1536, 4096, 2);
    assert_gemm(o, ORR_PHASE_INPUT_GRAD, "attn.qkv", n, 4096, 1536, 2);
    assert_gemm(o, ORR_PHASE_WEIGHT_GRAD, "attn.qkv", 1536, 4096, n, 8);
    assert_gemm(o, ORR_PHASE_FORWARD, "mlp.fc2", n, 4096, 3584, 2);
    assert_gemm(o, ORR_PHASE_INPUT_GRAD, "mlp.fc2", n, 3584, 4096, 2);
    assert_gemm(o, ORR_PHASE_WEIGHT_GRAD, "mlp.fc2", 4096, 3584, n, 8);
    assert_int_equal(count_comm(o, 0, ORR_STREAM_TP, ORR_ALL_GATHER, whole), 2);
    assert_int_equal(count_comm(o, 0, ORR_STREAM_TP, ORR_REDUCE_SCATTER, whole), 2);
    assert_int_equal(count_comm(o, 1, ORR_STREAM_TP, ORR_ALL_GATHER, whole), 2);
    assert_int_equal(count_comm(o, 1, ORR_STREAM_TP, ORR_REDUCE_SCATTER, whole), 2);
    assert_int_equal(count_comm(o, 2, ORR_STREAM_TP, ORR_ALL_GATHER, whole), 2);
    const orr_op *norm = find_op(o, 0, ORR_OP_MEMORY, "ln1");
    assert_true(norm->bytes == 4.0 * 1024 * 4096); /* a quarter of the tokens */
    const orr_op *attention = find_op(o, 0, ORR_OP_ATTENTION, "attn.core");
    assert_int_equal(attention->shape.attention.heads, 8);
    assert_int_equal(attention->shape.attention.kv_heads, 2);
    assert_true(attention->flops == 2.0 * 4096 * 4096 / 2 * 8 * 256);
    assert_int_equal(attention->modules, ORR_MODULE_LAYER | ORR_MODULE_CORE_ATTN);
    orr_arena_free(l.arena);

    plan->split.sp = 0;
    plan->variant.grad_fp32 = 0;
    l = lower_layer(plan, &f.kind[0]);
    o = l.object;
    assert_int_equal(count_comm(o, 0, ORR_STREAM_TP, ORR_ALL_REDUCE, whole), 2);
    assert_int_equal(count_comm(o, 1, ORR_STREAM_TP, ORR_ALL_REDUCE, whole), 2);
    assert_int_equal(count_comm(o, 2, ORR_STREAM_TP, ORR_ALL_REDUCE, 0), 0);
    assert_gemm(o, ORR_PHASE_WEIGHT_GRAD, "attn.qkv", 1536, 4096, n, 2);
    orr_arena_free(l.arena);
}

static uint32_t count_matrix(const orr_object *o, uint32_t rows, uint32_t cols, bool expert) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < o->matrix_count; i++) {
        const orr_matrix *m = &o->matrix[i];
        bool same = m->rows == rows && m->cols == cols && (m->expert != 0) == expert;
        count += same ? m->count : 0;
    }
    return count;
}

/* Pieces of a rank; q, k and v apart; norms, embeddings and the head are none. */
static void hidden_matrices_are_known(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f, fixture_layer(4096, 32, 8, 14336), 2, 128256);
    orr_plan *plan = &f.resolved.plan;
    plan->split.tp = 4;
    for (uint8_t separate = 0; separate < 2; separate++) {
        plan->variant.separate_projections = separate;
        lowered l = lower_layer(plan, &f.kind[0]);
        assert_int_equal(count_matrix(l.object, 1024, 4096, false), 1);             /* q */
        assert_int_equal(count_matrix(l.object, 256, 4096, false), 2);              /* k, v */
        assert_int_equal(count_matrix(l.object, 4096, 1024, false), 1);             /* output */
        assert_int_equal(count_matrix(l.object, 4096, 3584, false), 1);             /* down */
        assert_int_equal(count_matrix(l.object, 7168, 4096, false), separate == 0); /* gate, up */
        assert_int_equal(count_matrix(l.object, 3584, 4096, false), 2 * separate);
        orr_arena_free(l.arena);
    }
    fixture_init(&f, fixture_moe_layer(2048, 16, 4, 64, 8, 1024), 2, 128256);
    plan->gpus = 8;
    plan->split.ep = 8;
    lowered l = lower_layer(plan, &f.kind[0]);
    assert_int_equal(count_matrix(l.object, 2048, 2048, true), 8); /* gate, up */
    assert_int_equal(count_matrix(l.object, 2048, 1024, true), 8);
    assert_int_equal(count_matrix(l.object, 64, 2048, false), 1); /* router */
    uint64_t elements = 0;
    for (uint32_t i = 0; i < l.object->matrix_count; i++) {
        const orr_matrix *m = &l.object->matrix[i];
        elements += (uint64_t)m->rows * m->cols * m->count;
    }
    assert_int_equal(elements, l.object->params.dense + l.object->params.expert - 2 * 2048);
    orr_arena_free(l.arena);
    orr_object_key head = {.what = ORR_OBJECT_HEAD, .vocab = 1024, .layer = f.kind[0]};
    head.split = plan->split;
    head.mbs = 1;
    head.seq = 128;
    head.dp_shards = head.replica_stretch = 1;
    l = lower_key(&head);
    assert_int_equal(l.object->matrix_count, 0);
    orr_arena_free(l.arena);
}

/* 4 x 6: 2*4*4*6 + 2*4*4*4 + 2*4*6*4 = 512, five times; the shorter side is orthogonalised. */
static void newton_schulz_takes_three_products(void **state) {
    (void)state;
    assert_true(orr_muon_flops(4, 6) == 2560 && orr_muon_flops(6, 4) == 2560);
    orr_op op[ORR_MUON_PRODUCTS];
    orr_muon_products(6, 4, op);
    assert_int_equal(op[0].shape.gemm.k, 6);
    assert_int_equal(op[1].shape.gemm.k, 4);
    assert_int_equal(op[2].shape.gemm.n, 6);
    assert_true(op[0].out_bytes == 2 && op[2].out_bytes == 4);
}

static void context_parallel_exchanges(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f, fixture_layer(4096, 32, 8, 14336), 2, 128256);
    orr_plan *plan = &f.resolved.plan;
    plan->split.cp = 4;
    plan->split.cp_kind = ORR_CP_RING;
    lowered l = lower_layer(plan, &f.kind[0]);
    uint64_t n = 1024, kv = 4 * n * 8 * 128, q = 2 * n * 32 * 128;
    const orr_op *hop = find_op(l.object, 0, ORR_OP_COLLECTIVE, "attn.core.cp");
    assert_int_equal(hop->shape.comm.count, 3);
    assert_int_equal(hop->shape.comm.rank_bytes, kv);
    hop = find_op(l.object, 1, ORR_OP_COLLECTIVE, "attn.core.cp");
    assert_int_equal(hop->shape.comm.rank_bytes, 2 * kv);
    const orr_op *core = find_op(l.object, 0, ORR_OP_ATTENTION, "attn.core");
    assert_int_equal(core->shape.attention.seq_q, 1024);
    assert_int_equal(core->shape.attention.seq_kv, 4096);
    double flops = core->flops;
    orr_arena_free(l.arena);
    plan->split.cp_kind = ORR_CP_ALLGATHER;
    l = lower_layer(plan, &f.kind[0]);
    assert_int_equal(count_comm(l.object, 0, ORR_STREAM_CP, ORR_ALL_GATHER, 4 * kv), 1);
    assert_int_equal(count_comm(l.object, 1, ORR_STREAM_CP, ORR_ALL_GATHER, 4 * kv), 1);
    assert_int_equal(count_comm(l.object, 1, ORR_STREAM_CP, ORR_REDUCE_SCATTER, 4 * kv), 1);
    orr_arena_free(l.arena);
    plan->split.cp_kind = ORR_CP_A2A;
    l = lower_layer(plan, &f.kind[0]);
    assert_int_equal(count_comm(l.object, 0, ORR_STREAM_CP, ORR_ALL_TO_ALL, q + kv), 1);
    assert_int_equal(count_comm(l.object, 0, ORR_STREAM_CP, ORR_ALL_TO_ALL, q), 1);
    assert_int_equal(count_comm(l.object, 1, ORR_STREAM_CP, ORR_ALL_TO_ALL, 0), 2);
    core = find_op(l.object, 0, ORR_OP_ATTENTION, "attn.core");
    assert_int_equal(core->shape.attention.heads, 8);
    assert_int_equal(core->shape.attention.seq_q, 4096);
    assert_true(core->flops == flops);
    orr_arena_free(l.arena);
}

static void experts_exchange_tokens(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f, fixture_moe_layer(4096, 32, 8, 8, 2, 14336), 2, 32000);
    orr_plan *plan = &f.resolved.plan;
    plan->split.ep = 8;
    lowered l = lower_layer(plan, &f.kind[0]);
    uint64_t n = 4096, plain = 2 * n * 2 * 4096;
    assert_int_equal(count_comm(l.object, 0, ORR_STREAM_EP, ORR_ALL_TO_ALL, plain), 2);
    assert_int_equal(count_comm(l.object, 1, ORR_STREAM_EP, ORR_ALL_TO_ALL, plain), 2);
    const orr_op *fc1 = find_op(l.object, 0, ORR_OP_GROUPED_GEMM, "moe.experts.fc1");
    assert_int_equal(fc1->shape.gemm.batch, 1);
    assert_int_equal(fc1->shape.gemm.m, 2 * n);
    assert_int_equal(l.object->params.expert, 3ull * 4096 * 14336);
    orr_arena_free(l.arena);
    /* two distinct experts of eight on eight ranks: every copy goes elsewhere */
    plan->variant.dispatch = ORR_DISPATCH_DEEPEP;
    l = lower_layer(plan, &f.kind[0]);
    assert_int_equal(count_comm(l.object, 0, ORR_STREAM_EP, ORR_ALL_TO_ALL, plain), 2);
    const orr_op *sent = find_op(l.object, 0, ORR_OP_COLLECTIVE, "moe.dispatch");
    assert_int_equal(sent->shape.comm.routing.topk, 2);
    assert_int_equal(sent->shape.comm.routing.experts, 8);
    orr_arena_free(l.arena);
    /* on four ranks: 4 (1 - C(6,2) / C(8,2)) = 13/7 */
    plan->split.ep = 4;
    l = lower_layer(plan, &f.kind[0]);
    sent = find_op(l.object, 0, ORR_OP_COLLECTIVE, "moe.dispatch");
    assert_int_equal(sent->shape.comm.rank_bytes, (2 * n * 4096 * 13 + 3) / 7);
    fc1 = find_op(l.object, 2, ORR_OP_GROUPED_GEMM, "moe.experts.fc1");
    assert_int_equal(fc1->shape.gemm.batch, 2);
    assert_int_equal(fc1->shape.gemm.m, 28672);
    assert_int_equal(fc1->shape.gemm.n, 4096);
    assert_int_equal(fc1->shape.gemm.k, n);
    orr_arena_free(l.arena);
}

/* Compiled shapes: room for min(ep, E/k) times the mean, of which products read the mean. */
static void compiled_shapes_hold_the_worst_case(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f, fixture_moe_layer(4096, 32, 8, 16, 4, 14336), 2, 32000);
    orr_plan *plan = &f.resolved.plan;
    for (uint32_t ep = 1; ep <= 8; ep *= 2) {
        plan->split.ep = (uint16_t)ep;
        plan->variant.static_rows = 0;
        lowered exact = lower_layer(plan, &f.kind[0]);
        plan->variant.static_rows = 1;
        lowered worst = lower_layer(plan, &f.kind[0]);
        double factor = ep < 4 ? ep : 4;
        assert_true(find_op(worst.object, 0, ORR_OP_MEMORY, "moe.experts.act")->bytes ==
                    factor * find_op(exact.object, 0, ORR_OP_MEMORY, "moe.experts.act")->bytes);
        const orr_op *fc1 = find_op(worst.object, 0, ORR_OP_GROUPED_GEMM, "moe.experts.fc1");
        assert_int_equal(fc1->shape.gemm.m * fc1->shape.gemm.batch, 4 * 4096);
        orr_arena_free(worst.arena);
        plan->variant.capacity = 1; /* bounds the rows, so nothing is kept free */
        worst = lower_layer(plan, &f.kind[0]);
        assert_true(find_op(worst.object, 0, ORR_OP_MEMORY, "moe.experts.act")->bytes ==
                    find_op(exact.object, 0, ORR_OP_MEMORY, "moe.experts.act")->bytes);
        plan->variant.capacity = 0;
        orr_arena_free(worst.arena);
        orr_arena_free(exact.arena);
    }
}

static double again_bytes(const orr_object *o, const char *name) {
    const orr_op *op = find_op(o, 0, ORR_OP_MEMORY, name);
    return op != NULL && (op->modules & ORR_MODULE_LAYER) ? op->bytes : 0;
}

/* The last product of a layer, and what brings it back, feed a sum: no gradient reads them. */
static void recomputations_stop_where_nothing_reads(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f, fixture_layer(4096, 32, 8, 14336), 2, 128256);
    orr_plan *plan = &f.resolved.plan;
    for (uint8_t stops = 0; stops < 2; stops++) {
        plan->variant.recompute_stops = stops;
        lowered l = lower_layer(plan, &f.kind[0]);
        const orr_op *fc1 = find_op(l.object, 0, ORR_OP_GEMM, "mlp.fc1");
        const orr_op *fc2 = find_op(l.object, 0, ORR_OP_GEMM, "mlp.fc2");
        assert_true((fc1->modules & ORR_MODULE_LAYER) != 0);
        assert_int_equal((fc2->modules & ORR_MODULE_LAYER) != 0, !stops);
        assert_true((fc2->modules & ORR_MODULE_SAC) != 0);
        orr_arena_free(l.arena);
    }
    fixture_init(&f, fixture_moe_layer(4096, 32, 8, 16, 4, 14336), 2, 32000);
    f.resolved.plan.variant.recompute_stops = 1;
    for (uint8_t early = 0; early < 2; early++) { /* are probabilities applied before fc2? */
        f.resolved.plan.variant.probs_in_activation = early;
        lowered l = lower_layer(&f.resolved.plan, &f.kind[0]);
        assert_int_equal(again_bytes(l.object, "moe.combine.unpermute") > 0, !early);
        orr_arena_free(l.arena);
    }
}

/* Fused kernels write each copy once; plain ones read it, weigh it, and add to memory. */
static void plain_permutations_move_more(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f, fixture_moe_layer(4096, 32, 8, 16, 4, 14336), 2, 32000);
    orr_variant *v = &f.resolved.plan.variant;
    double copies = 4.0 * 4096 * 4096, tokens = 4096.0 * 4096;
    v->fused_permute = 1;
    lowered l = lower_layer(&f.resolved.plan, &f.kind[0]);
    assert_true(find_op(l.object, 0, ORR_OP_MEMORY, "moe.dispatch.permute")->bytes ==
                2 * (copies + tokens));
    assert_true(find_op(l.object, 1, ORR_OP_MEMORY, "moe.combine.unpermute")->bytes == 2 * copies);
    orr_arena_free(l.arena);
    v->fused_permute = v->probs_in_activation = 0;
    l = lower_layer(&f.resolved.plan, &f.kind[0]);
    assert_true(find_op(l.object, 0, ORR_OP_MEMORY, "moe.dispatch.permute")->bytes == 4 * copies);
    assert_true(find_op(l.object, 1, ORR_OP_MEMORY, "moe.combine.unpermute")->bytes == 12 * copies);
    orr_arena_free(l.arena);
    v->dispatch = ORR_DISPATCH_SYNC_FREE_1; /* brings them fused */
    l = lower_layer(&f.resolved.plan, &f.kind[0]);
    assert_true(find_op(l.object, 1, ORR_OP_MEMORY, "moe.combine.unpermute")->bytes == 2 * copies);
    orr_arena_free(l.arena);
}

/* Rows cut along their width are put together after a gather and taken apart before a sum. */
static void rows_cut_by_width_are_joined(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f, fixture_moe_layer(4096, 32, 8, 16, 4, 14336), 2, 32000);
    orr_plan *plan = &f.resolved.plan;
    plan->split.tp = plan->split.etp = 2;
    plan->variant.expert_tp_by_width = 1;
    lowered l = lower_layer(plan, &f.kind[0]);
    const orr_op *fc1 = find_op(l.object, 0, ORR_OP_GROUPED_GEMM, "moe.experts.fc1");
    double rows = (double)(fc1->shape.gemm.m * fc1->shape.gemm.batch);
    for (int lane = 0; lane < 2; lane++) {
        const orr_op *pass = find_op(l.object, lane, ORR_OP_MEMORY, "moe.experts.tp");
        assert_non_null(pass);
        assert_true(pass->bytes == 4 * rows * 4096);
    }
    orr_arena_free(l.arena);
    plan->split.etp = 1;
    l = lower_layer(plan, &f.kind[0]);
    assert_null(find_op(l.object, 0, ORR_OP_MEMORY, "moe.experts.tp"));
    orr_arena_free(l.arena);
}

/* Weighed in fp32, then added: 28 bytes an element out, 40 back. */
static void biases_of_experts_are_added(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f, fixture_moe_layer(4096, 32, 8, 16, 4, 14336), 2, 32000);
    f.resolved.plan.variant.eager_expert_bias = 1;
    lowered l = lower_layer(&f.resolved.plan, &f.kind[0]);
    assert_null(find_op(l.object, 0, ORR_OP_MEMORY, "moe.experts.bias"));
    orr_arena_free(l.arena);
    f.kind[0].mlp.bias = 1;
    l = lower_layer(&f.resolved.plan, &f.kind[0]);
    double elements = 4.0 * 4096 * 4096;
    assert_true(find_op(l.object, 0, ORR_OP_MEMORY, "moe.experts.bias")->bytes == 28 * elements);
    assert_true(find_op(l.object, 1, ORR_OP_MEMORY, "moe.experts.bias")->bytes == 40 * elements);
    orr_arena_free(l.arena);
}

/* Rows that were repeated are summed in memory, once for each gather, where tokens are sent once.
 */
static void repeated_rows_are_summed(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f, fixture_moe_layer(4096, 32, 8, 16, 4, 14336), 2, 32000);
    orr_variant *v = &f.resolved.plan.variant;
    v->dispatch = ORR_DISPATCH_DEEPEP;
    double bytes[3];
    for (uint8_t gathers = 0; gathers < 3; gathers++) {
        v->scattered_sums = gathers;
        lowered l = lower_layer(&f.resolved.plan, &f.kind[0]);
        bytes[gathers] = 0;
        for (uint32_t i = 0; i < l.object->op_count; i++) {
            const orr_op *op = &l.object->op[i];
            bool counts = op->phase == ORR_PHASE_INPUT_GRAD && op->kind == ORR_OP_MEMORY &&
                          strcmp(orr_op_name(op->name), "moe.dispatch.permute") == 0;
            bytes[gathers] += counts ? op->bytes : 0;
        }
        orr_arena_free(l.arena);
    }
    double elements = 4.0 * 4096 * 4096;
    assert_true(bytes[1] - bytes[0] == 10 * elements && bytes[2] - bytes[0] == 20 * elements);
}

static void shared_experts_run_beside(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f, fixture_moe_layer(4096, 32, 8, 8, 2, 1024), 2, 32000);
    f.kind[0].mlp.shared_ffn = 2048;
    lowered l = lower_layer(&f.resolved.plan, &f.kind[0]);
    const orr_object *o = l.object;
    const orr_op *shared = find_op(o, 0, ORR_OP_GEMM, "moe.shared.fc1");
    assert_string_equal(orr_op_name(o->op[shared->dep[0]].name), "ln2");
    const orr_op *joined = find_op(o, 0, ORR_OP_MEMORY, "bda2");
    assert_string_equal(orr_op_name(o->op[joined->dep[0]].name), "moe.combine.unpermute");
    assert_string_equal(orr_op_name(o->op[joined->dep[1]].name), "moe.shared.fc2");
    const orr_op *norm = find_op(o, 1, ORR_OP_MEMORY, "ln2"); /* its gradient needs both */
    assert_string_equal(orr_op_name(o->op[norm->dep[0]].name), "moe.shared.fc1");
    assert_string_equal(orr_op_name(o->op[norm->dep[1]].name), "moe.router");
    orr_arena_free(l.arena);
}

static void weight_gradients_start_with_input_gradients(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f, fixture_layer(4096, 32, 8, 14336), 2, 128256);
    lowered l = lower_layer(&f.resolved.plan, &f.kind[0]);
    const char *const names[] = {"attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2"};
    for (int i = 0; i < 4; i++) {
        const orr_op *weight = find_op(l.object, 2, ORR_OP_GEMM, names[i]);
        const orr_op *input = find_op(l.object, 1, ORR_OP_GEMM, names[i]);
        assert_int_equal(weight->dep[0], input->dep[0]);
        assert_int_equal(weight->dep[1], -1);
    }
    orr_arena_free(l.arena);
}

static void low_precision_quantises(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f, fixture_layer(4096, 32, 8, 14336), 2, 128256);
    orr_plan *plan = &f.resolved.plan;
    plan->split.tp = 2;
    plan->split.sp = 1;
    plan->numeric.precision = ORR_PRECISION_FP8_MX;
    lowered l = lower_layer(plan, &f.kind[0]);
    uint32_t casts[ORR_PHASE_COUNT] = {0};
    for (uint32_t i = 0; i < l.object->op_count; i++) {
        const orr_op *op = &l.object->op[i];
        casts[op->phase] += op->kind == ORR_OP_MEMORY && op->sub == ORR_MEMOP_CAST;
        assert_true(op->kind != ORR_OP_GEMM || op->dtype == ORR_MXFP8);
        assert_true(op->kind != ORR_OP_ATTENTION || op->dtype == ORR_BF16);
    }
    assert_int_equal(casts[ORR_PHASE_FORWARD], 4);
    assert_int_equal(casts[ORR_PHASE_INPUT_GRAD], 4);
    /* gathered as bytes, reduced as bf16 */
    uint64_t elements = 4096ull * 4096;
    assert_int_equal(count_comm(l.object, 0, ORR_STREAM_TP, ORR_ALL_GATHER, elements), 2);
    assert_int_equal(count_comm(l.object, 0, ORR_STREAM_TP, ORR_REDUCE_SCATTER, 2 * elements), 2);
    orr_arena_free(l.arena);
}

static uint64_t kept_by(const orr_object *o, const char *what) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < o->saved_count; i++) {
        bool core = strcmp(orr_op_name(o->saved[i].module), "attn.core") == 0;
        bytes += core && strcmp(orr_op_name(o->saved[i].name), what) == 0 ? o->saved[i].bytes : 0;
    }
    return bytes;
}

/* The core runs in 8 bits where it is asked for, beside low-precision products and without window;
 * q, k, v are kept as they were quantised. */
static void attention_runs_in_eight_bits(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f, fixture_layer(4096, 32, 8, 14336), 2, 128256);
    orr_plan *plan = &f.resolved.plan;
    plan->variant.fp8_attention = 1;
    uint64_t q = 4096 * 4096, windows[] = {0, 0, 0, 1024};
    static const uint8_t precision[] = {ORR_PRECISION_BF16, ORR_PRECISION_FP8, ORR_PRECISION_FP8_MX,
                                        ORR_PRECISION_FP8};
    static const uint8_t dtype[] = {ORR_BF16, ORR_FP8, ORR_MXFP8, ORR_BF16};
    for (int i = 0; i < 4; i++) {
        plan->numeric.precision = precision[i];
        f.kind[0].attention.window = (uint32_t)windows[i];
        lowered l = lower_layer(plan, &f.kind[0]);
        for (int phase = 0; phase < 2; phase++) {
            const orr_op *core = find_op(l.object, (orr_phase)phase, ORR_OP_ATTENTION, "attn.core");
            assert_int_equal(core->dtype, dtype[i]);
            const orr_op *cast = find_op(l.object, (orr_phase)phase, ORR_OP_MEMORY, "attn.core");
            assert_true((cast != NULL) == (dtype[i] != ORR_BF16));
            assert_true(cast == NULL || cast->bytes == 3.0 * 4096 * (2 * 4096 + 2 * 1024));
        }
        assert_int_equal(kept_by(l.object, "q"), i == 1 ? q : i == 2 ? 2 * (q + q / 32) : 2 * q);
        assert_int_equal(kept_by(l.object, "out"), i == 1 ? q : 2 * q);
        orr_arena_free(l.arena);
    }
}

/* A backward in 16 bits: nothing is quantised for it, and q, k, v are kept as they were. */
static void attention_goes_back_in_sixteen_bits(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f, fixture_layer(4096, 32, 8, 14336), 2, 128256);
    orr_plan *plan = &f.resolved.plan;
    plan->variant.fp8_attention = ORR_LOW_FORWARD;
    plan->numeric.precision = ORR_PRECISION_FP8;
    lowered l = lower_layer(plan, &f.kind[0]);
    for (int phase = 0; phase < 2; phase++) {
        const orr_op *core = find_op(l.object, (orr_phase)phase, ORR_OP_ATTENTION, "attn.core");
        const orr_op *cast = find_op(l.object, (orr_phase)phase, ORR_OP_MEMORY, "attn.core");
        assert_int_equal(core->dtype, phase == 0 ? ORR_FP8 : ORR_BF16);
        assert_true((cast != NULL) == (phase == 0));
    }
    assert_int_equal(kept_by(l.object, "q"), 2 * 4096 * 4096);
    assert_int_equal(kept_by(l.object, "out"), 2 * 4096 * 4096);
    orr_arena_free(l.arena);
}

static void sharded_parameters_are_gathered(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f, fixture_moe_layer(4096, 32, 8, 16, 2, 1024), 2, 32000);
    orr_plan *plan = &f.resolved.plan;
    plan->gpus = 64;
    plan->split.tp = 2;
    plan->split.ep = 4;
    plan->shard = (orr_shard){.dp = 32, .kind = ORR_SHARD_FSDP2};
    lowered l = lower_layer(plan, &f.kind[0]);
    const orr_object *o = l.object;
    uint64_t dense = o->params.dense, expert = o->params.expert;
    assert_int_equal(count_comm(o, 0, ORR_STREAM_DP, ORR_ALL_GATHER, 2 * dense), 1);
    assert_int_equal(count_comm(o, 1, ORR_STREAM_DP, ORR_ALL_GATHER, 2 * dense), 1);
    assert_int_equal(count_comm(o, 2, ORR_STREAM_DP, ORR_REDUCE_SCATTER, 4 * dense), 1);
    assert_int_equal(count_comm(o, 0, ORR_STREAM_DP, ORR_ALL_GATHER, 2 * expert), 1);
    const orr_op *op = find_op(o, 0, ORR_OP_COLLECTIVE, "fsdp.dense");
    assert_int_equal(op->shape.comm.size, 32);
    assert_int_equal(op->shape.comm.stride, 2);
    op = find_op(o, 0, ORR_OP_COLLECTIVE, "fsdp.experts");
    assert_int_equal(op->shape.comm.size, 16); /* 64 / (etp 1 x ep 4) */
    assert_int_equal(op->shape.comm.stride, 4);
    orr_arena_free(l.arena);
}

static void head_reduces_three_values_a_token(void **state) {
    (void)state;
    orr_object_key key;
    memset(&key, 0, sizeof key);
    key.what = ORR_OBJECT_HEAD;
    key.vocab = 128256;
    key.layer.hidden = 4096;
    key.split = (orr_split){.tp = 8, .cp = 1, .ep = 1, .etp = 1, .sp = 1};
    key.mbs = 1;
    key.seq = 8192;
    key.dp_shards = 1;
    key.variant = fixture_variant();
    lowered l = lower_key(&key);
    assert_int_equal(count_comm(l.object, 0, ORR_STREAM_TP, ORR_ALL_REDUCE, 4 * 8192), 3);
    assert_gemm(l.object, ORR_PHASE_FORWARD, "output", 8192, 16032, 4096, 2);
    uint64_t logits = 8192ull * 16032;
    assert_int_equal(l.object->saved_loss, 4 * logits + 9 * 8192);
    assert_int_equal(l.object->saved_loss_count, 2);
    assert_int_equal(l.object->transient.loss_fwd, 6 * logits);
    assert_int_equal(l.object->params.dense, 16032ull * 4096 + 4096);
    const orr_op *loss = find_op(l.object, 0, ORR_OP_MEMORY, "loss");
    assert_int_equal(loss->class, ORR_CLASS_LOSS);
    assert_true(loss->bytes == 12.0 * (double)logits);
    orr_arena_free(l.arena);
}

static void unfused_attention_is_products_and_softmax(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f, fixture_layer(1024, 16, 16, 4096), 2, 32000);
    orr_plan *plan = &f.resolved.plan;
    plan->batch.mbs = 2;
    plan->batch.seq = 2048;
    plan->variant.attention = ORR_KERNEL_UNFUSED;
    lowered l = lower_layer(plan, &f.kind[0]);
    uint32_t products = 0;
    for (uint32_t i = 0; i < l.object->op_count; i++) {
        const orr_op *op = &l.object->op[i];
        if (op->class == ORR_CLASS_ATTENTION && op->kind == ORR_OP_GEMM) {
            assert_int_equal(op->shape.gemm.batch, 32);
            assert_true(op->flops == 2.0 * 32 * 2048 * 2048 * 64);
            products++;
        }
    }
    assert_int_equal(products, 6); /* two forward, four backward */
    const orr_op *softmax = find_op(l.object, 0, ORR_OP_MEMORY, "attn.core.softmax");
    assert_true(softmax->bytes == 9.0 * 32 * 2048 * 2048);
    orr_arena_free(l.arena);
}

/* One norm, one gather and one reduction for both halves; with two norms, a gather each. */
static void parallel_blocks_share(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f, fixture_layer(4096, 32, 32, 16384), 2, 50432);
    f.kind[0].parallel_block = 1;
    f.kind[0].norms = 1;
    f.kind[0].mlp.gated = 0;
    orr_plan *plan = &f.resolved.plan;
    plan->split.tp = 4;
    plan->split.sp = 1;
    uint64_t n = 4096, shard = 1024, h = 4096;
    uint64_t attention = 2 * n * 8 * 128 * 4 + 4 * n * 8, mlp = 4 * n * 4096;
    for (uint8_t norms = 1; norms <= 2; norms++) {
        f.kind[0].norms = norms;
        lowered l = lower_layer(plan, &f.kind[0]);
        assert_int_equal(count_comm(l.object, 0, ORR_STREAM_TP, ORR_ALL_GATHER, 0), norms);
        assert_int_equal(count_comm(l.object, 0, ORR_STREAM_TP, ORR_REDUCE_SCATTER, 0), 1);
        assert_int_equal(count_comm(l.object, 1, ORR_STREAM_TP, ORR_REDUCE_SCATTER, 0), norms);
        uint64_t norm = 2 * shard * h + norms * (4 * shard + 2 * shard * h);
        assert_int_equal(l.object->saved_all, norm + attention + mlp);
        orr_arena_free(l.arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_layer_over_tp),
        cmocka_unit_test(hidden_matrices_are_known),
        cmocka_unit_test(newton_schulz_takes_three_products),
        cmocka_unit_test(context_parallel_exchanges),
        cmocka_unit_test(experts_exchange_tokens),
        cmocka_unit_test(compiled_shapes_hold_the_worst_case),
        cmocka_unit_test(recomputations_stop_where_nothing_reads),
        cmocka_unit_test(plain_permutations_move_more),
        cmocka_unit_test(rows_cut_by_width_are_joined),
        cmocka_unit_test(biases_of_experts_are_added),
        cmocka_unit_test(repeated_rows_are_summed),
        cmocka_unit_test(shared_experts_run_beside),
        cmocka_unit_test(weight_gradients_start_with_input_gradients),
        cmocka_unit_test(low_precision_quantises),
        cmocka_unit_test(attention_runs_in_eight_bits),
        cmocka_unit_test(attention_goes_back_in_sixteen_bits),
        cmocka_unit_test(sharded_parameters_are_gathered),
        cmocka_unit_test(head_reduces_three_values_a_token),
        cmocka_unit_test(parallel_blocks_share),
        cmocka_unit_test(unfused_attention_is_products_and_softmax),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
