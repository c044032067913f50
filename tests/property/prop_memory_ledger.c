#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "../memory_fixture.h"
#include "base/err.h"
#include "base/num.h"
#include "base/rng.h"

/* Random legal plans over splits, schedules, recompute kinds and shardings: the ledger, listed
 * tensor by tensor, sums to what the fast path says, for every rank. */
enum {
    PLANS = 10000,
    TRIES = 400000,
    MODELS = 4,
    DENSE_MODULES = ORR_MODULE_CORE_ATTN | ORR_MODULE_LAYERNORM | ORR_MODULE_MLP | ORR_MODULE_SAC
};

typedef struct coverage {
    uint32_t schedule[ORR_SCHEDULE_COUNT], sharding[ORR_SHARD_COUNT], moment[ORR_MOMENT_COUNT];
    uint32_t recompute[ORR_RECOMPUTE_UNKNOWN + 1], experts, losses;
} coverage;

static uint32_t power(orr_rng *rng, uint32_t below) {
    return 1u << orr_rng_below(rng, below);
}

static void random_software(orr_rng *rng, bool experts, orr_software *software) {
    *software = fixture_software();
    orr_variant *v = &software->variant;
    v->attention = orr_rng_below(rng, 5) == 0;
    v->loss = (uint8_t)orr_rng_below(rng, 4);
    v->fused_norm = orr_rng_below(rng, 4) != 0;
    v->fused_activation = orr_rng_below(rng, 4) != 0;
    v->hidden_dropout = orr_rng_below(rng, 4) == 0;
    v->loss_gathered = orr_rng_below(rng, 6) == 0;
    v->fused_permute = orr_rng_below(rng, 2) != 0;
    v->probs_in_activation = orr_rng_below(rng, 2) != 0;
    v->dummy_wgrad = orr_rng_below(rng, 2) != 0;
    v->fused_grad_accumulation = orr_rng_below(rng, 2) != 0;
    v->dispatch = (uint8_t)(experts ? orr_rng_below(rng, 3) : 0);
    v->fp8_copies = (uint8_t)orr_rng_below(rng, 3);
    v->norm_square = orr_rng_below(rng, 2) != 0;
    software->gathers_matrices = orr_rng_below(rng, 3) == 0;
    software->grads_live = orr_rng_below(rng, 4) == 0;
    software->optimizer_foreach = orr_rng_below(rng, 4) == 0;
    software->ddp_bucket_bytes = orr_rng_below(rng, 4) == 0 ? 2 : 0;
    software->fp32_accumulation_bytes = orr_rng_below(rng, 6) == 0 ? 4 : 0;
    if (orr_rng_below(rng, 4) == 0) {
        software->loss_fwd_bytes = 8;
        software->loss_bwd_bytes = 6;
        software->loss_previous_bytes = 4;
        software->loss_cut_bytes = orr_rng_below(rng, 2) ? 4 : 0;
    }
    if (orr_rng_below(rng, 3) == 0) {
        software->fsdp_unit_bytes = 8;
        software->fsdp_root_bytes = orr_rng_below(rng, 2) ? 6 : 0;
    }
}

static void random_plan(orr_rng *rng, const orr_software *software, bool experts, orr_plan *out) {
    uint32_t tp = power(rng, 3), pp = power(rng, 4), cp = power(rng, 2), ep = 1, dp = power(rng, 4);
    orr_plan plan;
    if (experts) {
        ep = power(rng, 4);
    }
    plan = fixture_plan(software, tp * pp * cp * dp, tp, pp, cp, ep);
    plan.split.sp = tp > 1 && (experts || orr_rng_below(rng, 3) != 0);
    plan.split.cp_kind = (uint8_t)orr_rng_below(rng, 3);
    plan.split.etp = experts && orr_rng_below(rng, 4) == 0 ? tp : 1;
    plan.pipe.schedule = (uint8_t)orr_rng_below(rng, ORR_SCHEDULE_USER);
    uint32_t fixed = orr_schedule_fixed_vpp((orr_schedule_kind)plan.pipe.schedule);
    plan.pipe.vpp = fixed ? fixed : orr_rng_below(rng, 2) ? power(rng, 3) : 1;
    plan.pipe.p2p = (uint8_t)orr_schedule_default_p2p((orr_schedule_kind)plan.pipe.schedule);
    plan.batch = (orr_batch){.mbs = 1 + orr_rng_below(rng, 3),
                             .micro_batches = 1 + orr_rng_below(rng, 40),
                             .seq = 512u << orr_rng_below(rng, 4)};
    plan.gbs = plan.batch.mbs * plan.batch.micro_batches * dp;
    plan.numeric.precision = (uint8_t)orr_rng_below(rng, ORR_PRECISION_COUNT);
    plan.numeric.grad_bytes = orr_rng_below(rng, 2) ? 2 : 4;
    if (orr_rng_below(rng, 4) == 0) {
        plan.numeric.exp_avg_bytes = plan.numeric.exp_avg_sq_bytes = 2;
        plan.numeric.master_bytes = 2;
    }
    if (orr_rng_below(rng, 4) == 0) {
        plan.numeric.param_bytes = plan.numeric.precision >= ORR_PRECISION_FP8 ? 1 : 4;
    }
    if (orr_rng_below(rng, 4) == 0) {
        plan.lora = (orr_lora){.rank = 16,
                               .targets = (uint16_t)(1 + orr_rng_below(rng, 511)),
                               .base = (uint8_t)orr_rng_below(rng, 4)};
    }
    plan.recompute.kind = (uint8_t)orr_rng_below(rng, ORR_RECOMPUTE_UNKNOWN);
    plan.recompute.layers = 1 + orr_rng_below(rng, 3);
    plan.offload.layers = orr_rng_below(rng, 2) ? orr_rng_below(rng, 6) : 0;
    plan.offload.optimizer_permille = orr_rng_below(rng, 2) ? orr_rng_below(rng, 1001) : 0;
    plan.split.load = orr_rng_below(rng, 2) ? (uint16_t)(256 + orr_rng_below(rng, 512)) : 0;
    plan.recompute.modules = plan.recompute.kind == ORR_RECOMPUTE_SELECTIVE
                                 ? orr_rng_below(rng, 256) & (experts ? ~0u : DENSE_MODULES)
                                 : 0;
    plan.shard.kind = (uint8_t)orr_rng_below(rng, ORR_SHARD_COUNT);
    plan.shard.group = plan.shard.kind == ORR_SHARD_HSDP ? orr_max_u32(1, dp * cp / 2) : 0;
    plan.overlap = orr_rng_below(rng, experts ? 16 : ORR_OVERLAP_EP);
    *out = plan;
}

static void check_rank(const orr_program *program, orr_arena *arena, uint32_t rank,
                       const orr_rank_memory *fast, coverage *seen) {
    orr_ledger ledger;
    orr_memory_ledger(program, arena, rank, &ledger);
    double parts[ORR_PART_COUNT] = {0}, sum = 0, part_sum = 0;
    for (uint32_t i = 0; i < ledger.row_count; i++) {
        sum += (double)ledger.row[i].bytes * ledger.row[i].count;
        parts[ledger.row[i].part] += (double)ledger.row[i].bytes * ledger.row[i].count;
    }
    assert_true(sum == fast->allocated_bytes);
    assert_true(ledger.total_bytes == fast->allocated_bytes);
    assert_int_equal(ledger.moment, fast->moment);
    for (uint32_t p = 0; p < ORR_PART_COUNT; p++) {
        assert_true(parts[p] == fast->part_bytes[p]);
        part_sum += fast->part_bytes[p];
    }
    assert_true(part_sum == fast->allocated_bytes);
    assert_true(fast->live_bytes <= fast->allocated_bytes && fast->live_bytes > 0);
    assert_true(fast->moment_bytes[fast->moment] == fast->allocated_bytes);
    orr_memory_timeline line;
    orr_err err = {0};
    if (orr_memory_trace(program, arena, rank, &line, &err) != ORR_OK) {
        fail_msg("%s", err.message);
    }
    double most = line.step_bytes;
    for (uint32_t i = 0; i < line.count; i++) {
        most = orr_max_f64(most, line.point[i].peak_bytes);
    }
    assert_true(most == fast->allocated_bytes);
    if (line.count > 0) { /* everything is given back */
        assert_true(line.point[line.count - 1].held_bytes == line.static_bytes);
    }
    seen->moment[fast->moment]++;
}

/* What a search asks gives the same answer, and its bounds hold. A weigher is of one software. */
static void check_weigher(const orr_program *program, double need) {
    orr_weigher *weigher = orr_weigher_new();
    orr_weigher_chunks(weigher, program);
    orr_weigher_order(weigher, program->order, 0);
    orr_weigher_recompute(weigher);
    assert_true(orr_weigher_need(weigher) == need);
    assert_true(orr_weigher_floor(weigher) <= need);
    assert_true(orr_weigher_states(weigher) <= need);
    assert_true(orr_weigher_share(weigher) <= need);
    assert_true(orr_weigher_states_share(weigher) <= need);
    orr_weigher_free(weigher);
}

/* Whether the plan links; then all its ranks are checked. */
static bool check_plan(orr_linker *linker, orr_arena *arena, const orr_resolved *resolved,
                       coverage *seen) {
    orr_program program;
    orr_memory memory;
    orr_err err = {0};
    if (!orr_plan_legal(resolved) ||
        orr_link(linker, arena, resolved, NULL, &program, &err) != ORR_OK) {
        return false;
    }
    orr_memory_evaluate(&program, arena, true, &memory);
    double need = 0;
    for (uint32_t rank = 0; rank < resolved->plan.pipe.pp; rank++) {
        check_rank(&program, arena, rank, &memory.rank[rank], seen);
        need = orr_max_f64(need, memory.rank[rank].need_bytes);
    }
    assert_true(need == memory.worst.need_bytes);
    assert_true(memory.rank[memory.worst_rank].need_bytes == need);
    check_weigher(&program, need);
    return true;
}

static void ledgers_sum_to_the_fast_path(void **state) {
    (void)state;
    static fixture_model model[MODELS];
    fixture_llama(&model[0], 16, 4096, 32, 8, 14336);
    fixture_llama(&model[1], 12, 1000, 8, 8, 3000); /* odd widths: padding and rounding show */
    fixture_deepseek(&model[2], 16, true);
    fixture_deepseek(&model[3], 8, false);
    model[1].kind[0].attention.head_dim = model[1].kind[0].attention.v_dim = 72;
    model[1].kind[0].mlp.gated = 0;
    model[3].model.mtp_layers = 1;
    orr_accelerator accelerator = fixture_accelerator(80 * ORR_GIB);
    orr_cluster cluster = {.accelerator = &accelerator, .gpus_per_node = 8};
    orr_rng rng = {20};
    coverage seen = {0};
    uint32_t plans = 0;
    orr_arena *arena = orr_arena_new();
    orr_linker *linker = orr_linker_new();
    for (uint32_t i = 0; i < TRIES && plans < PLANS; i++) {
        orr_software software;
        uint32_t m = orr_rng_below(&rng, MODELS);
        random_software(&rng, m >= 2, &software);
        orr_resolved resolved = {
            .model = &model[m].model, .cluster = &cluster, .software = &software};
        random_plan(&rng, &software, m >= 2, &resolved.plan);
        cluster.gpus = resolved.plan.gpus;
        if (check_plan(linker, arena, &resolved, &seen)) {
            plans++;
            seen.schedule[resolved.plan.pipe.schedule]++;
            seen.sharding[resolved.plan.shard.kind]++;
            seen.recompute[resolved.plan.recompute.kind]++;
            seen.experts += m >= 2;
        }
        orr_arena_reset(arena);
    }
    assert_int_equal(plans, PLANS);
    for (uint32_t i = 0; i < ORR_SHARD_COUNT; i++) {
        assert_true(seen.sharding[i] > 100);
    }
    for (uint32_t i = 0; i < ORR_RECOMPUTE_UNKNOWN; i++) {
        assert_true(seen.recompute[i] > 100);
    }
    for (uint32_t i = 0; i < ORR_MOMENT_COUNT; i++) {
        assert_true(seen.moment[i] > 0);
    }
    uint32_t schedules = 0;
    for (uint32_t i = 0; i < ORR_SCHEDULE_COUNT; i++) {
        schedules += seen.schedule[i] > 0;
    }
    assert_true(schedules >= 10);
    assert_true(seen.experts > 1000 && seen.experts < PLANS - 1000);
    orr_linker_free(linker);
    orr_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ledgers_sum_to_the_fast_path)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
