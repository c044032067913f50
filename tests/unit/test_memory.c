#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include <math.h>

#include "../memory_fixture.h"
#include "base/num.h"

/* A plan of a small dense model, or of a mixture, linked and evaluated. */
typedef struct bed {
    fixture_model model;
    orr_software software;
    orr_accelerator accelerator;
    orr_cluster cluster;
    orr_resolved resolved;
    orr_program program;
    orr_memory memory;
    orr_arena *arena;
    orr_linker *linker;
} bed;

static void set_up(bed *b, bool mixture, uint32_t gpus, uint32_t tp, uint32_t pp, uint32_t ep) {
    memset(b, 0, sizeof *b);
    if (mixture) {
        fixture_deepseek(&b->model, 8, true);
    } else {
        fixture_llama(&b->model, 32, 4096, 32, 8, 14336);
    }
    b->software = fixture_software();
    b->accelerator = fixture_accelerator(79.6 * ORR_GIB);
    b->cluster = (orr_cluster){.accelerator = &b->accelerator, .gpus = gpus, .gpus_per_node = 8};
    b->resolved =
        (orr_resolved){.model = &b->model.model, .cluster = &b->cluster, .software = &b->software};
    b->resolved.plan = fixture_plan(&b->software, gpus, tp, pp, 1, ep);
    b->arena = orr_arena_new();
    b->linker = orr_linker_new();
}

static void evaluate(bed *b) {
    orr_err err = {0};
    b->resolved.plan.variant = b->software.variant;
    if (orr_link(b->linker, b->arena, &b->resolved, NULL, &b->program, &err) != ORR_OK) {
        fail_msg("%s", err.message);
    }
    orr_memory_evaluate(&b->program, b->arena, true, &b->memory);
}

static void tear_down(bed *b) {
    orr_linker_free(b->linker);
    orr_arena_free(b->arena);
}

static double part(const bed *b, uint32_t rank, orr_memory_part which) {
    return b->memory.rank[rank].part_bytes[which];
}

static double states(const bed *b, uint32_t rank) {
    return part(b, rank, ORR_PART_PARAMS) + part(b, rank, ORR_PART_GRADS) +
           part(b, rank, ORR_PART_MASTER) + part(b, rank, ORR_PART_MOMENTS);
}

/* Rows of routed experts grow with the load; nothing else of the layer does. */
static void fuller_experts_hold_more(void **state) {
    (void)state;
    static bed b;
    double activations[3];
    static const uint16_t loads[] = {2 * ORR_LOAD_ONE, 3 * ORR_LOAD_ONE, 4 * ORR_LOAD_ONE};
    for (size_t i = 0; i < 3; i++) {
        set_up(&b, true, 64, 1, 1, 8);
        b.resolved.plan.split.load = loads[i];
        evaluate(&b);
        activations[i] = part(&b, 0, ORR_PART_ACTIVATIONS);
        tear_down(&b);
    }
    assert_true(activations[1] > 1.05 * activations[0]);
    double first = activations[1] - activations[0], second = activations[2] - activations[1];
    assert_true(fabs(second - first) < 1e-3 * first); /* linear */
}

/* Offloaded layers are gone at the loss and leave one on its way while layers run; optimizer states
 * leave their share. */
static void the_host_takes_what_is_sent(void **state) {
    (void)state;
    static bed b;
    set_up(&b, false, 8, 1, 1, 1);
    evaluate(&b);
    double all = part(&b, 0, ORR_PART_ACTIVATIONS), states_all = states(&b, 0);
    double kept = part(&b, 0, ORR_PART_MASTER) + part(&b, 0, ORR_PART_MOMENTS);
    b.resolved.plan.offload = (orr_offload){.layers = 16, .optimizer_permille = 500};
    evaluate(&b);
    assert_true(fabs(part(&b, 0, ORR_PART_ACTIVATIONS) / all - 0.5) < 0.02); /* 16 of 32 */
    assert_true(fabs(states_all - states(&b, 0) - kept / 2) < 8);
    b.resolved.plan.recompute.kind = ORR_RECOMPUTE_FULL;
    evaluate(&b);
    double half = part(&b, 0, ORR_PART_ACTIVATIONS);
    b.resolved.plan.offload.layers = 32;
    evaluate(&b);
    assert_true(part(&b, 0, ORR_PART_ACTIVATIONS) < half / 4);
    tear_down(&b);
}

/* Gradients of a gathered unit are there while layers run backward, not at the loss; one that is
 * gathered weight by weight is smaller. */
static void units_come_and_go(void **state) {
    (void)state;
    static bed b;
    set_up(&b, false, 8, 1, 1, 1);
    b.resolved.plan.shard.kind = ORR_SHARD_FSDP2;
    evaluate(&b);
    const double *moment = b.memory.rank[0].moment_bytes;
    double loss = moment[ORR_MOMENT_LOSS_BACKWARD], layer = moment[ORR_MOMENT_LAYER_BACKWARD];
    b.software.fsdp_unit_bytes = 20;
    evaluate(&b);
    moment = b.memory.rank[0].moment_bytes;
    assert_true(moment[ORR_MOMENT_LAYER_BACKWARD] > layer);
    assert_true(moment[ORR_MOMENT_LOSS_BACKWARD] < layer && loss > 0);
    layer = moment[ORR_MOMENT_LAYER_BACKWARD];
    b.software.gathers_matrices = 1;
    evaluate(&b);
    assert_true(b.memory.rank[0].moment_bytes[ORR_MOMENT_LAYER_BACKWARD] < layer);
    tear_down(&b);
}

/* Bytes a parameter, for each way of keeping states. */
static void states_follow_the_table(void **state) {
    (void)state;
    static const struct {
        uint8_t sharding, param, grad, master, moment;
        double whole, shared; /* bytes a parameter, and divided by the shards */
    } rows[] = {
        {ORR_SHARD_NONE, 2, 4, 4, 4, 18, 0},  {ORR_SHARD_NONE, 2, 2, 4, 4, 16, 0},
        {ORR_SHARD_ZERO1, 2, 4, 4, 4, 6, 12}, {ORR_SHARD_ZERO1, 2, 2, 4, 4, 4, 12},
        {ORR_SHARD_ZERO1, 2, 2, 2, 2, 4, 6},  {ORR_SHARD_ZERO1, 4, 4, 0, 4, 8, 8},
        {ORR_SHARD_ZERO2, 2, 4, 4, 4, 2, 16}, {ORR_SHARD_ZERO3, 2, 4, 4, 4, 0, 18},
        {ORR_SHARD_FSDP2, 4, 4, 0, 4, 0, 16},
    };
    static bed b;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        set_up(&b, false, 8, 1, 1, 1);
        b.resolved.plan.shard.kind = rows[i].sharding;
        b.resolved.plan.numeric = (orr_numeric){.param_bytes = rows[i].param,
                                                .grad_bytes = rows[i].grad,
                                                .master_bytes = rows[i].master,
                                                .exp_avg_bytes = rows[i].moment,
                                                .exp_avg_sq_bytes = rows[i].moment};
        evaluate(&b);
        double params = (double)b.program.chunk_kind[0].params.dense;
        double expected = params * (rows[i].whole + rows[i].shared / 8);
        /* padding to 1,024 elements, and shards rounded up */
        assert_true(fabs(states(&b, 0) - expected) <= 18 * 1024);
        assert_true(params == 8030261248.0);
        tear_down(&b);
    }
}

static void experts_have_their_own_shards(void **state) {
    (void)state;
    static bed b;
    set_up(&b, true, 8, 1, 1, 4);
    evaluate(&b);
    orr_params params = b.program.chunk_kind[0].params;
    double expected =
        (double)params.dense * (6 + 12.0 / 8) + (double)params.expert * (6 + 12.0 / 2);
    assert_true(params.expert > params.dense);
    assert_true(fabs(states(&b, 0) - expected) <= 18 * 4096);
    tear_down(&b);
}

/* 1F1B holds min(pp - rank, micro-batches) of each rank's own layers. */
static void in_flight_follows_the_schedule(void **state) {
    (void)state;
    static bed b;
    for (uint32_t m = 1; m <= 6; m++) {
        set_up(&b, false, 8, 1, 4, 1);
        b.resolved.plan.batch.micro_batches = m;
        b.software.optimizer_foreach = 0;
        evaluate(&b);
        for (uint32_t rank = 1; rank < 3; rank++) {
            const orr_chunk *chunk = orr_program_chunk(&b.program, rank, 0);
            double held = (double)chunk->saved_bytes * orr_min_u32(4 - rank, m);
            assert_true(part(&b, rank, ORR_PART_ACTIVATIONS) == held);
        }
        tear_down(&b);
    }
}

/* Breadth first, the last stage keeps the loss of every micro-batch. */
static void gpipe_keeps_every_loss(void **state) {
    (void)state;
    static bed b;
    double logits[2];
    for (uint32_t i = 0; i < 2; i++) {
        set_up(&b, false, 8, 1, 4, 1);
        b.resolved.plan.pipe.schedule = i ? ORR_SCHEDULE_GPIPE : ORR_SCHEDULE_1F1B;
        b.resolved.plan.pipe.p2p = ORR_P2P_ASYNC;
        b.resolved.plan.batch.micro_batches = 6;
        evaluate(&b);
        logits[i] = part(&b, 3, ORR_PART_LOGITS);
        tear_down(&b);
    }
    /* five more softmaxes in fp32, a flag and a target a token */
    double tokens = 4096, more = logits[1] - logits[0];
    assert_true(fabs(more - 5 * tokens * (4.0 * 128256 + 9)) < 5 * 512);
}

static void recompute_keeps_less(void **state) {
    (void)state;
    static const struct {
        uint8_t kind;
        uint32_t modules, layers;
    } kinds[] = {{ORR_RECOMPUTE_FULL, 0, 0},
                 {ORR_RECOMPUTE_SELECTIVE, ORR_MODULE_MLP, 0},
                 {ORR_RECOMPUTE_BLOCK, 0, 16},
                 {ORR_RECOMPUTE_SELECTIVE, ORR_MODULE_CORE_ATTN, 0},
                 {ORR_RECOMPUTE_NONE, 0, 0}};
    static bed b;
    double before = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        set_up(&b, false, 8, 1, 1, 1);
        b.resolved.plan.recompute = (orr_recompute){
            .kind = kinds[i].kind, .modules = kinds[i].modules, .layers = kinds[i].layers};
        evaluate(&b);
        assert_true(b.memory.worst.allocated_bytes >= before);
        before = b.memory.worst.allocated_bytes;
        tear_down(&b);
    }
}

/* Selective recompute of fused attention rebuilds what it dropped: only the row sums. */
static void selective_rebuilds_what_it_dropped(void **state) {
    (void)state;
    static bed b;
    set_up(&b, false, 8, 1, 1, 1);
    b.resolved.plan.recompute =
        (orr_recompute){.kind = ORR_RECOMPUTE_SELECTIVE, .modules = ORR_MODULE_MLP};
    evaluate(&b);
    double selective = b.memory.worst.moment_bytes[ORR_MOMENT_LAYER_BACKWARD];
    const orr_chunk *chunk = &b.program.chunk_kind[0];
    const orr_object *layer = chunk->part[1].object;
    double dropped = (double)(layer->saved_all - orr_object_saved(layer, ORR_MODULE_MLP));
    b.resolved.plan.recompute = (orr_recompute){0};
    evaluate(&b);
    double plain = b.memory.worst.moment_bytes[ORR_MOMENT_LAYER_BACKWARD];
    assert_true(dropped > 0);
    /* all layers but the one at work have dropped theirs; it holds its checkpoint beside them */
    double checkpoint = 2.0 * 4096 * 4096;
    assert_true(plain - selective >= 31 * dropped - checkpoint);
    assert_true(plain - selective <= 31 * dropped);
    tear_down(&b);
}

/* A split backward holds inputs and output gradients of the linears until their W. */
static void waiting_weight_gradients_are_held(void **state) {
    (void)state;
    static bed b;
    set_up(&b, false, 8, 1, 4, 1);
    b.resolved.plan.pipe.schedule = ORR_SCHEDULE_ZB_H2;
    b.resolved.plan.pipe.p2p = ORR_P2P_ASYNC;
    b.resolved.plan.batch.micro_batches = 16;
    evaluate(&b);
    orr_order_view order = orr_order_look(b.program.order);
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < order.live_first[4]; i++) {
        waiting = orr_max_u32(waiting, order.live[i].pending_w);
    }
    assert_true(waiting > 0);
    orr_ledger ledger;
    bool found = false;
    for (uint32_t rank = 0; rank < 4; rank++) {
        orr_memory_ledger(&b.program, b.arena, rank, &ledger);
        for (uint32_t i = 0; i < ledger.row_count; i++) {
            found |= strstr(ledger.row[i].what, "weight gradients to come") != NULL;
        }
    }
    assert_true(found);
    tear_down(&b);
}

static void a_gradient_copy_takes_the_step(void **state) {
    (void)state;
    static bed b;
    set_up(&b, false, 8, 1, 1, 1);
    b.resolved.plan.numeric.grad_bytes = 2;
    evaluate(&b);
    const orr_rank_memory *rank = &b.memory.rank[0];
    double fixed = rank->allocated_bytes - rank->part_bytes[ORR_PART_ACTIVATIONS] -
                   rank->part_bytes[ORR_PART_TRANSIENT] - rank->part_bytes[ORR_PART_LOGITS];
    double copy = rank->moment_bytes[ORR_MOMENT_OPTIMIZER] - fixed;
    assert_true(fabs(copy - 4 * 8030261248.0 / 8) <= 4 * 1024);
    tear_down(&b);
}

/* Ran on 8 H100 with 62.6 GiB: bf16 gradients, native loss. */
static void llama_8b_on_eight_h100_fits(void **state) {
    (void)state;
    static bed b;
    set_up(&b, false, 8, 1, 1, 1);
    b.resolved.plan.split.cp = 2;
    b.resolved.plan.shard.dp = 4;
    b.resolved.plan.batch.seq = 8192;
    b.resolved.plan.batch.micro_batches = 32;
    b.resolved.plan.numeric.grad_bytes = 2;
    evaluate(&b);
    assert_true(fabs(b.memory.worst.allocated_bytes / ORR_GIB - 62.6) < 0.15);
    assert_int_equal(b.memory.fit, ORR_FITS);
    assert_true(b.memory.p_oom < 0.05);
    b.resolved.plan.numeric.grad_bytes = 4; /* as plain scripts would have it */
    evaluate(&b);
    assert_true(b.memory.worst.allocated_bytes > 75 * ORR_GIB);
    assert_int_not_equal(b.memory.fit, ORR_FITS);
    tear_down(&b);
}

static void figures_keep_their_order(void **state) {
    (void)state;
    static bed b;
    set_up(&b, true, 16, 2, 2, 4);
    b.software.dynamic_factor = 1.16;
    b.software.need_factor = 1.3;
    b.software.need_unsharded_nh_bytes = 30;
    b.software.device_overhead_bytes = 3 * ORR_GIB;
    evaluate(&b);
    for (uint32_t rank = 0; rank < 2; rank++) {
        const orr_rank_memory *m = &b.memory.rank[rank];
        assert_true(m->live_bytes <= m->allocated_bytes);
        assert_true(m->allocated_bytes <= m->reserved_bytes);
        assert_true(m->reserved_bytes + 3 * ORR_GIB == m->device_bytes);
        double dynamic = m->part_bytes[ORR_PART_ACTIVATIONS] + m->part_bytes[ORR_PART_TRANSIENT] +
                         m->part_bytes[ORR_PART_LOGITS];
        double unsharded = 30 * 4096.0 * 7168 * 0.5;
        assert_true(fabs(m->need_bytes - m->allocated_bytes - 0.3 * dynamic - unsharded) < 1);
    }
    tear_down(&b);
}

/* The replay sees the same peak, and segments that grow waste less than fixed ones. */
static void the_replay_agrees(void **state) {
    (void)state;
    static bed b;
    for (uint32_t mixture = 0; mixture < 2; mixture++) {
        set_up(&b, mixture, 16, 2, 2, mixture ? 4 : 1);
        b.accelerator.usable_bytes = 400 * ORR_GIB;
        evaluate(&b);
        for (uint32_t rank = 0; rank < 2; rank++) {
            orr_replay fixed, growing;
            double allocated = b.memory.rank[rank].allocated_bytes;
            orr_memory_replay(&b.program, b.arena, rank, false, &fixed);
            orr_memory_replay(&b.program, b.arena, rank, true, &growing);
            assert_true(fixed.complete && growing.complete && fixed.fits);
            assert_true(fabs(fixed.allocated_bytes / allocated - 1) < 0.01);
            assert_true(fixed.first_step_bytes < fixed.allocated_bytes);
            assert_true(growing.reserved_bytes >= growing.allocated_bytes);
            assert_true(growing.reserved_bytes <= fixed.reserved_bytes);
            assert_int_equal(growing.segments, 2);
        }
        tear_down(&b);
    }
}

static void the_replay_says_what_does_not_fit(void **state) {
    (void)state;
    static bed b;
    set_up(&b, false, 8, 1, 1, 1);
    b.accelerator.usable_bytes = 60 * ORR_GIB;
    evaluate(&b);
    orr_replay replay;
    orr_memory_replay(&b.program, b.arena, 0, false, &replay);
    assert_false(replay.fits);
    assert_true(replay.flushes > 0);
    assert_int_equal(b.memory.fit, ORR_OOM);
    tear_down(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_follow_the_table),
        cmocka_unit_test(fuller_experts_hold_more),
        cmocka_unit_test(the_host_takes_what_is_sent),
        cmocka_unit_test(units_come_and_go),
        cmocka_unit_test(experts_have_their_own_shards),
        cmocka_unit_test(in_flight_follows_the_schedule),
        cmocka_unit_test(gpipe_keeps_every_loss),
        cmocka_unit_test(recompute_keeps_less),
        cmocka_unit_test(selective_rebuilds_what_it_dropped),
        cmocka_unit_test(waiting_weight_gradients_are_held),
        cmocka_unit_test(a_gradient_copy_takes_the_step),
        cmocka_unit_test(llama_8b_on_eight_h100_fits),
        cmocka_unit_test(figures_keep_their_order),
        cmocka_unit_test(the_replay_agrees),
        cmocka_unit_test(the_replay_says_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
