/* The waterfall from the data sheet's peak sums to the step, for random plans of every kind. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "projection/projection.h"

static const char *pick(orr_rng *rng, const char *const *of, uint32_t count) {
    return of[orr_rng_below(rng, count)];
}

static const orr_tree *random_keys(orr_arena *arena, orr_rng *rng) {
    static const char *const models[] = {"llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b",
                                         "qwen3-30b-a3b", "deepseek-v2-lite"};
    static const char *const devices[] = {"h100", "a100-80g", "b200", "mi300x"};
    static const char *const precisions[] = {"bf16", "bf16", "fp8"};
    static const char *const recompute[] = {"none", "full", "selective"};
    static const char *const software[] = {"megatron-core", "torchtitan", "unknown", "nanotron"};
    static const char *const imbalance[] = {"balanced", "1.5", "power:0.5"};
    static const uint32_t twos[] = {1, 2, 4};
    orr_tree *keys = orr_tree_new_map(arena);
    uint32_t tp = twos[orr_rng_below(rng, 3)], pp = twos[orr_rng_below(rng, 3)];
    orr_tree_put_text(arena, keys, "model", pick(rng, models, 5));
    orr_tree_put_text(arena, keys, "hardware", pick(rng, devices, 4));
    orr_tree_put_text(arena, keys, "precision", pick(rng, precisions, 3));
    orr_tree_put_text(arena, keys, "recompute", pick(rng, recompute, 3));
    orr_tree_put_text(arena, keys, "software", pick(rng, software, 4));
    orr_tree_put_text(arena, keys, "imbalance", pick(rng, imbalance, 3));
    orr_tree_put_int(arena, keys, "gpus", 64);
    orr_tree_put_int(arena, keys, "tp", tp);
    orr_tree_put_int(arena, keys, "pp", pp);
    orr_tree_put_int(arena, keys, "ep", twos[orr_rng_below(rng, 3)]);
    orr_tree_put_int(arena, keys, "vpp", pp > 1 ? 1 + orr_rng_below(rng, 2) : 1);
    orr_tree_put_int(arena, keys, "cp", 1 + orr_rng_below(rng, 2));
    orr_tree_put_int(arena, keys, "gbs", 64 * (1 + orr_rng_below(rng, 4)));
    orr_tree_put_int(arena, keys, "seq", 4096);
    return keys;
}

static void test_waterfall_sums_to_the_step(void **state) {
    (void)state;
    enum { PLANS = 400 };
    orr_rng rng = {20260301};
    orr_engine *engine = orr_engine_new();
    uint32_t judged = 0;
    for (int i = 0; i < PLANS; i++) {
        orr_arena *arena = orr_arena_new();
        orr_resolved *resolved = ORR_NEW(arena, orr_resolved);
        orr_projection p;
        orr_waterfall w;
        const orr_tree *keys = random_keys(arena, &rng);
        if (orr_plan_resolve(arena, keys, resolved, NULL) == ORR_OK && orr_plan_legal(resolved)) {
            orr_anchor anchor = {.factor = 1 + 0.1 * orr_rng_below(&rng, 3)};
            assert_int_equal(orr_project(engine, arena, resolved, &anchor, &p, NULL), ORR_OK);
            assert_int_equal(orr_project_waterfall(engine, arena, &p, &w, NULL), ORR_OK);
            double sum_s = 0;
            for (int f = 0; f < ORR_FALL_COUNT; f++) {
                assert_true(isfinite(w.fall_s[f]));
                sum_s += w.fall_s[f];
            }
            assert_true(fabs(sum_s - p.step_s) <= 1e-9 * p.step_s);
            assert_true(w.fall_s[ORR_FALL_PEAK] > 0 && w.fall_s[ORR_FALL_CLOCK] >= 0);
            assert_true(w.fall_s[ORR_FALL_BUBBLE] >= 0);
            assert_true(w.fall_s[ORR_FALL_IMBALANCE] > -0.01 * p.step_s);
            assert_true(w.fall_s[ORR_FALL_MEMORY] > 0);
            judged++;
        }
        orr_arena_free(arena);
    }
    assert_true(judged >= PLANS / 4);
    orr_engine_free(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_waterfall_sums_to_the_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
