/* Random plans: the quick answer is the long one, and a placement deals out every layer once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/rng.h"
#include "plan/plan.h"

enum { ROUNDS = 30000, MAX_CHUNKS = 8192 };

typedef struct world {
    orr_layer kind[2];
    uint8_t layer_kind[ORR_MAX_LAYERS];
    orr_model model;
    orr_accelerator accelerator;
    orr_cluster cluster;
    orr_software software;
    orr_resolved resolved;
} world;

static world w;

static uint32_t pick(orr_rng *rng, const uint32_t *values, uint32_t count) {
    return values[orr_rng_below(rng, count)];
}
#define PICK(rng, ...)                                                                             \
    pick(rng, (const uint32_t[]){__VA_ARGS__},                                                     \
         sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static orr_layer random_layer(orr_rng *rng) {
    bool moe = orr_rng_below(rng, 2) == 0;
    return (orr_layer){
        .hidden = PICK(rng, 1024, 4096, 5120),
        .attention = {.kind = (uint8_t)orr_rng_below(rng, 2),
                      .causal = 1,
                      .heads = PICK(rng, 16, 32, 40),
                      .kv_heads = PICK(rng, 2, 8, 16),
                      .head_dim = PICK(rng, 64, 128, 288),
                      .v_dim = 128,
                      .window = PICK(rng, 0, 128)},
        .mlp = {.gated = 1,
                .ffn = moe ? 0 : PICK(rng, 4096, 14336, 11008),
                .experts = moe ? PICK(rng, 8, 60, 64) : 0,
                .topk = 2,
                .expert_ffn = moe ? PICK(rng, 1408, 2048) : 0},
    };
}

static void random_world(orr_rng *rng) {
    w.kind[0] = random_layer(rng);
    w.kind[1] = random_layer(rng);
    w.kind[1].hidden = w.kind[0].hidden;
    uint32_t layers = 1 + orr_rng_below(rng, PICK(rng, 8, 64, 200)), dense = orr_rng_below(rng, 4);
    for (uint32_t i = 0; i < layers; i++) {
        w.layer_kind[i] = i >= dense;
    }
    w.model = (orr_model){.name = "random",
                          .layers = layers,
                          .hidden = w.kind[0].hidden,
                          .vocab = PICK(rng, 32000, 128256),
                          .mtp_layers = (uint8_t)PICK(rng, 0, 0, 0, 1),
                          .kind_count = 2,
                          .kind = w.kind,
                          .layer_kind = w.layer_kind};
    w.accelerator = (orr_accelerator){.name = "chip", .arch = ORR_ARCH_HOPPER};
    w.accelerator.peak_flops[ORR_BF16] = w.accelerator.peak_flops[ORR_FP8] = 1e15;
    w.cluster = (orr_cluster){.name = "cluster",
                              .accelerator = &w.accelerator,
                              .gpus = PICK(rng, 0, 4096),
                              .gpus_per_node = 8,
                              .tier_count = 1,
                              .tier = {{.gpus = 8}}};
    w.software =
        (orr_software){.name = "software",
                       .refuses = orr_rng_below(rng, 4) == 0 ? (uint32_t)orr_rng_next(rng) : 0};
    w.resolved = (orr_resolved){.model = &w.model, .cluster = &w.cluster, .software = &w.software};
}

static void random_plan(orr_rng *rng) {
    orr_plan *p = &w.resolved.plan;
    *p = (orr_plan){0};
    p->gpus = PICK(rng, 8, 16, 64, 256, 1000);
    p->split = (orr_split){.tp = PICK(rng, 1, 2, 3, 8),
                           .cp = PICK(rng, 1, 1, 2, 4),
                           .ep = PICK(rng, 1, 1, 8, 16),
                           .etp = PICK(rng, 1, 1, 2),
                           .sp = (uint8_t)orr_rng_below(rng, 2),
                           .cp_kind = (uint8_t)orr_rng_below(rng, 3)};
    p->pipe =
        (orr_pipe){.pp = PICK(rng, 1, 2, 4, 5, 8),
                   .vpp = PICK(rng, 1, 1, 2, 4),
                   .group = PICK(rng, 0, 0, 4),
                   .schedule = (uint8_t)PICK(rng, 0, 1, orr_rng_below(rng, ORR_SCHEDULE_USER)),
                   .p2p = (uint8_t)orr_rng_below(rng, 4),
                   .split_flags = (uint8_t)PICK(rng, 0, 0, orr_rng_below(rng, 8)),
                   .placement = (uint8_t)orr_rng_below(rng, 5),
                   .first_layers = PICK(rng, 0, 3, 8),
                   .last_layers = PICK(rng, 0, 2, 8)};
    uint32_t ranks = p->split.tp * p->split.cp * p->pipe.pp;
    p->shard = (orr_shard){.dp = p->gpus < ranks ? 1 : p->gpus / ranks,
                           .group = PICK(rng, 0, 0, 8),
                           .kind = (uint8_t)orr_rng_below(rng, ORR_SHARD_COUNT)};
    p->batch = (orr_batch){.mbs = PICK(rng, 1, 2), .seq = PICK(rng, 4096, 8192, 5000)};
    p->batch.micro_batches = 1 + orr_rng_below(rng, 40);
    p->gbs = p->batch.micro_batches * p->batch.mbs * p->shard.dp + PICK(rng, 0, 0, 0, 1);
    p->numeric = (orr_numeric){.precision = (uint8_t)PICK(rng, 0, 0, 2, 6),
                               .param_bytes = (uint8_t)PICK(rng, 2, 2, 1, 4),
                               .grad_bytes = 4,
                               .master_bytes = 4};
    p->recompute = (orr_recompute){.kind = (uint8_t)orr_rng_below(rng, 6),
                                   .modules = orr_rng_below(rng, 256),
                                   .layers = orr_rng_below(rng, 10)};
    p->lora = (orr_lora){.rank = PICK(rng, 0, 0, 8, 12),
                         .targets = (uint16_t)orr_rng_below(rng, 512),
                         .base = (uint8_t)PICK(rng, 0, 0, 2)};
    p->overlap = orr_rng_below(rng, 16);
    p->variant.dispatch = (uint8_t)PICK(rng, 0, 0, 2);
}

static void quick_and_full_agree(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_rng rng = {1};
    uint32_t legal = 0;
    for (int i = 0; i < ROUNDS; i++) {
        orr_violation found[ORR_MAX_VIOLATIONS];
        random_world(&rng);
        random_plan(&rng);
        if (i % 2 == 0) { /* plain choices, so that many are legal */
            w.resolved.plan.split.tp = 1;
            w.resolved.plan.pipe = (orr_pipe){.pp = 1, .vpp = 1, .p2p = ORR_P2P_BLOCKING};
            w.resolved.plan.recompute = (orr_recompute){0};
            w.resolved.plan.overlap = 0;
            w.resolved.plan.shard.dp = w.resolved.plan.gpus / w.resolved.plan.split.cp;
            w.resolved.plan.gbs = w.resolved.plan.batch.micro_batches * w.resolved.plan.batch.mbs *
                                  w.resolved.plan.shard.dp;
        }
        uint32_t count = orr_plan_check(arena, &w.resolved, found);
        bool hard = count > 0 && found[0].effect != ORR_RULE_WARNING;
        assert_int_equal(orr_plan_legal(&w.resolved), !hard);
        legal += !hard;
        for (uint32_t v = 0; v < count && v < ORR_MAX_VIOLATIONS; v++) {
            assert_true(found[v].message[0] != '\0');
        }
        orr_arena_reset(arena);
    }
    assert_true(legal > ROUNDS / 50 && legal < ROUNDS / 2);
    orr_arena_free(arena);
}

/* Both directions, or the one chain: consecutive chunks hold consecutive layers. */
static void check_placed(const uint32_t *count, const uint32_t *offset) {
    static uint32_t of_stage[2][MAX_CHUNKS], at_stage[2][MAX_CHUNKS];
    const orr_plan *p = &w.resolved.plan;
    bool two = false;
    for (uint32_t r = 0; r < p->pipe.pp; r++) {
        for (uint32_t k = 0; k < p->pipe.vpp; k++) {
            bool second;
            uint32_t stage = orr_plan_stage(p, r, k, &second);
            assert_true(stage < orr_plan_stages(p));
            of_stage[second][stage] = count[r * p->pipe.vpp + k];
            at_stage[second][stage] = offset[r * p->pipe.vpp + k];
            two = two || second;
        }
    }
    for (int way = 0; way < (two ? 2 : 1); way++) {
        uint32_t next = 0;
        for (uint32_t s = 0; s < orr_plan_stages(p); s++) {
            assert_int_equal(at_stage[way][s], next);
            next += of_stage[way][s];
        }
        assert_int_equal(next, w.model.layers);
    }
}

static bool has_rule(const orr_violation *found, uint32_t count, const char *rule) {
    for (uint32_t i = 0; i < count && i < ORR_MAX_VIOLATIONS; i++) {
        if (strcmp(found[i].rule, rule) == 0) {
            return true;
        }
    }
    return false;
}

static void placements_deal_out_every_layer(void **state) {
    (void)state;
    static uint32_t count[MAX_CHUNKS], offset[MAX_CHUNKS];
    orr_arena *arena = orr_arena_new();
    orr_rng rng = {2};
    uint32_t placed = 0;
    for (int i = 0; i < ROUNDS; i++) {
        orr_violation found[ORR_MAX_VIOLATIONS];
        random_world(&rng);
        random_plan(&rng);
        orr_plan *p = &w.resolved.plan;
        uint32_t fixed = orr_schedule_fixed_vpp((orr_schedule_kind)p->pipe.schedule);
        p->pipe.vpp = fixed > 0 ? fixed : p->pipe.vpp;
        uint32_t broken = orr_plan_check(arena, &w.resolved, found);
        bool ok = orr_plan_layers(&w.model, p, count, offset, NULL) == ORR_OK;
        assert_int_equal(ok, !has_rule(found, broken, "PIPE-LAYERS-01"));
        if (ok) {
            check_placed(count, offset);
            placed++;
        }
        orr_arena_reset(arena);
    }
    assert_true(placed > ROUNDS / 10);
    orr_arena_free(arena);
}

/* No other contiguous split of few layers over few stages has a smaller maximum. */
static double load_of(const uint32_t *count, uint32_t stages, double tail) {
    double most = 0;
    for (uint32_t s = 0; s < stages; s++) {
        double load = count[s] + (s == stages - 1 ? tail : 0);
        most = load > most ? load : most;
    }
    return most;
}

static double best_load(uint32_t layers, uint32_t stages, double tail) {
    double best = 1e9;
    for (uint32_t last = 0; last <= layers; last++) {
        uint32_t rest = layers - last;
        if (rest < stages - 1) {
            continue;
        }
        uint32_t others = (rest + stages - 2) / (stages - 1);
        double most = last + tail > others ? last + tail : others;
        best = most < best ? most : best;
    }
    return best;
}

static void balanced_is_optimal_for_equal_layers(void **state) {
    (void)state;
    orr_rng rng = {3};
    for (int i = 0; i < 3000; i++) {
        uint32_t count[64] = {0}, offset[64];
        random_world(&rng);
        w.kind[0] = (orr_layer){.hidden = 1024, .mlp = {.gated = 1, .ffn = 4096}};
        w.kind[0].attention.kind = ORR_ATTENTION_NONE;
        memset(w.layer_kind, 0, sizeof w.layer_kind);
        w.model.hidden = 1024;
        w.model.mtp_layers = 0;
        w.model.vocab = orr_rng_below(&rng, 6 * 3 * 4096);
        orr_plan p = {
            .pipe = {.pp = 2 + orr_rng_below(&rng, 14), .vpp = 1, .placement = ORR_PLACE_BALANCED}};
        if (w.model.layers < p.pipe.pp || w.model.layers % p.pipe.pp == 0 ||
            (w.model.layers + 2) % p.pipe.pp == 0) {
            continue;
        }
        double tail = w.model.vocab / (3.0 * 4096);
        assert_int_equal(orr_plan_layers(&w.model, &p, count, offset, NULL), ORR_OK);
        double got = load_of(count, p.pipe.pp, tail),
               best = best_load(w.model.layers, p.pipe.pp, tail);
        assert_true(got <= best * 1.0001);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quick_and_full_agree),
        cmocka_unit_test(placements_deal_out_every_layer),
        cmocka_unit_test(balanced_is_optimal_for_equal_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
