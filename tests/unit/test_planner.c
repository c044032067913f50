/* Worlds that contradict the projection: a device replays measurements that the planner cannot
 * know, and the planner must find the better plan in fewer of them than chance does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "../ctx_fixture.h"
#include "agent/planner.h"
#include "base/rng.h"
#include "doc/doc.h"

static orr_status ask(void *user, const char *command, const orr_tree *args, orr_arena *into,
                      orr_tree **result, orr_err *err) {
    (void)user;
    return orr_call(ctx, command, args, into, result, err);
}
static const orr_oracle oracle = {.call = ask};

static orr_tree *read(const char *text) {
    orr_tree *tree = NULL;
    orr_err err = {0};
    assert_int_equal(orr_yaml_read(arena, "text", text, strlen(text), &tree, &err), ORR_OK);
    return tree;
}

/* Two workloads, each with plans whose projections lie close together for different reasons. */
static const char moe_base[] = "{model: mixtral-8x22b, hardware: mi355x, gpus: 32, gbs: 512, "
                               "seq: 4096, software: megatron-core}";
static const char moe_plans[] =
    "[{pp: 4, ep: 8}, {pp: 4, ep: 8, mbs: 2}, {pp: 4, vpp: 2, ep: 8}, {pp: 4, vpp: 7, ep: 8}, "
    "{pp: 2, ep: 8}, {pp: 2, vpp: 2, ep: 8, schedule: zbv}, {pp: 4, vpp: 2, ep: 8, schedule: zbv}, "
    "{pp: 4, ep: 8, schedule: zb-h1}, {pp: 4, ep: 4}, {pp: 4, tp: 2, ep: 4, overlap: 'tp,dp'}, "
    "{pp: 8, ep: 4}, {pp: 8, vpp: 7, ep: 4}]";
/* Few micro-batches: waiting in the pipeline matters. */
static const char few_base[] = "{model: mixtral-8x22b, hardware: mi355x, gpus: 32, gbs: 96, "
                               "seq: 4096, software: megatron-core}";
static const char dense_base[] = "{model: llama-3.1-70b, hardware: h100, gpus: 128, gbs: 512, "
                                 "seq: 8192, software: megatron-core}";
static const char dense_plans[] =
    "[{tp: 8, pp: 4, overlap: 'tp,dp'}, {tp: 8, pp: 4, vpp: 5, overlap: 'tp,dp'}, "
    "{tp: 8, pp: 2, overlap: 'tp,dp'}, {tp: 4, pp: 8, overlap: 'tp,dp'}, "
    "{tp: 4, pp: 8, vpp: 5, overlap: 'tp,dp'}, {tp: 4, pp: 4, overlap: 'tp,dp', recompute: full}, "
    "{tp: 4, pp: 4, vpp: 5, overlap: 'tp,dp', recompute: 'block:2'}, "
    "{tp: 2, pp: 8, vpp: 5, recompute: full, overlap: 'tp,dp'}, {tp: 4, pp: 8, mbs: 2, "
    "recompute: full, overlap: 'tp,dp'}, {tp: 8, pp: 8, vpp: 5, overlap: 'tp,dp'}]";

typedef struct scenario {
    const char *name, *base, *plans;
    const char *truth;   /* what the device really is: overrides of every plan */
    const char *lost;    /* an overlap that does not happen */
    bool plain_schedule; /* a schedule that falls back */
    int64_t slow_mbs;    /* micro-batches of this size run slower by */
    double slow_frac;
} scenario;

static const scenario scenarios[] = {
    {"tensor-parallel overlap does not happen", dense_base, dense_plans, "{}", "tp", false, 0, 0},
    {"links inside a node fall back to PCIe", dense_base, dense_plans,
     "{hardware: {like: h100, link_Bps: 40e9}}", NULL, false, 0, 0},
    {"the network falls back to Ethernet", dense_base, dense_plans, "{nic: 2e9}", NULL, false, 0,
     0},
    {"the bidirectional schedule falls back", few_base, moe_plans, "{}", NULL, true, 0, 0},
    {"small products are a third slower", moe_base, moe_plans, "{}", NULL, false, 1, 0.33},
    {"links and small products together", moe_base, moe_plans,
     "{hardware: {like: mi355x, link_Bps: 180e9}}", NULL, false, 1, 0.1},
};
enum { SCENARIOS = sizeof scenarios / sizeof *scenarios };

/* What the device would show for a plan, with a measurement's noise. */
static double truth(const scenario *s, const orr_tree *base, const orr_tree *plan) {
    orr_belt_plan own, real;
    orr_err err = {0};
    assert_int_equal(orr_belt_project(&oracle, arena, base, plan, &own, &err), ORR_OK);
    assert_true(own.legal);
    const orr_tree *inputs = orr_tree_get(own.envelope, "inputs");
    orr_tree *changed = orr_belt_merge(arena, plan, read(s->truth));
    if (s->lost != NULL) {
        orr_tree_put_text(arena, changed, "overlap", "dp");
    }
    if (s->plain_schedule &&
        strcmp(orr_tree_text(orr_tree_get(inputs, "schedule"), ""), "zbv") == 0) {
        orr_tree_put_text(arena, changed, "schedule", "interleaved");
    }
    assert_int_equal(orr_belt_project(&oracle, arena, base, changed, &real, &err), ORR_OK);
    assert_true(real.legal);
    double factor = s->slow_mbs > 0 && orr_tree_int(orr_tree_get(inputs, "mbs"), 0) == s->slow_mbs
                        ? 1 + s->slow_frac
                        : 1;
    orr_rng noise = {(uint64_t)own.id[0] * 256 + (uint64_t)own.id[1]};
    return real.tokens_per_s_per_gpu / factor * (1 + 0.01 * (orr_rng_unit(&noise) - 0.5));
}

typedef struct world {
    orr_planner *planner;
    double real[ORR_PLANNER_MAX], best;
} world;

static world open_world(const scenario *s) {
    world w = {.planner = (orr_planner *)orr_arena_alloc(arena, sizeof(orr_planner))};
    orr_err err = {0};
    const orr_tree *base = read(s->base);
    assert_int_equal(orr_planner_open(&oracle, arena, base, read(s->plans), 7, w.planner, &err),
                     ORR_OK);
    assert_true(w.planner->count >= 6);
    for (uint32_t c = 0; c < w.planner->count; c++) {
        w.real[c] = truth(s, base, w.planner->overrides[c]);
        w.best = w.real[c] > w.best ? w.real[c] : w.best;
    }
    return w;
}

static double regret(const world *w, const orr_planner *planner) {
    orr_planner_view view;
    orr_planner_look(planner, &view);
    return 1 - w->real[view.best] / w->best;
}

enum { MEASUREMENTS = 3, RANDOM_RUNS = 12 };

static double with_planner(const world *w, uint32_t *measured) {
    orr_planner planner = *w->planner;
    *measured = 0;
    while (*measured < MEASUREMENTS) {
        orr_planner_choice choice = orr_planner_next(&planner, 0);
        if (choice.candidate == UINT32_MAX) {
            break;
        }
        assert_true(choice.gain_frac > 0 && choice.per_s > 0);
        orr_planner_observe(&planner, choice.candidate, w->real[choice.candidate]);
        (*measured)++;
    }
    return regret(w, &planner);
}

static double at_random(const world *w) {
    double sum = 0;
    for (uint64_t run = 0; run < RANDOM_RUNS; run++) {
        orr_planner planner = *w->planner;
        orr_rng rng = {run + 1};
        for (uint32_t n = 0; n < MEASUREMENTS;) {
            uint32_t c = orr_rng_below(&rng, planner.count);
            if (!planner.measured[c]) {
                orr_planner_observe(&planner, c, w->real[c]);
                n++;
            }
        }
        sum += regret(w, &planner);
    }
    return sum / RANDOM_RUNS;
}

static void the_planner_finds_what_the_projection_got_wrong(void **state) {
    (void)state;
    double planned_sum = 0, random_sum = 0, blind_sum = 0;
    uint32_t found = 0, flips = 0;
    for (size_t i = 0; i < SCENARIOS; i++) {
        world w = open_world(&scenarios[i]);
        uint32_t measured = 0;
        double blind = regret(&w, w.planner);
        double planned = with_planner(&w, &measured), by_chance = at_random(&w);
        printf("%-42s regret %5.2f %% unmeasured, %5.2f %% after %u chosen, %5.2f %% after %d at "
               "random\n",
               scenarios[i].name, 100 * blind, 100 * planned, measured, 100 * by_chance,
               MEASUREMENTS);
        planned_sum += planned;
        random_sum += by_chance;
        blind_sum += blind;
        found += planned < 0.01;
        flips += blind > 0.01;
    }
    assert_true(flips >= 5); /* these worlds do contradict the projection */
    assert_true(planned_sum < random_sum);
    assert_true(planned_sum < 0.5 * blind_sum);
    assert_true(found >= 5);
}

static void nothing_is_worth_measuring_when_all_is_known(void **state) {
    (void)state;
    world w = open_world(&scenarios[3]);
    for (uint32_t c = 0; c < w.planner->count; c++) {
        orr_planner_observe(w.planner, c, w.real[c]);
    }
    assert_int_equal(orr_planner_next(w.planner, 0).candidate, UINT32_MAX);
    orr_planner_view view;
    orr_planner_look(w.planner, &view);
    assert_true(1 - w.real[view.best] / w.best < 0.01);
    assert_true(view.regret_frac < 0.01);
    /* What was measured is what is expected, but for noise. */
    for (uint32_t c = 0; c < w.planner->count; c++) {
        double ratio = view.expected[c] / w.real[c];
        assert_true(ratio > 0.9 && ratio < 1.1);
    }
}

static void beliefs_follow_what_was_seen(void **state) {
    (void)state;
    world w = open_world(&scenarios[0]);
    orr_planner_view before, after;
    orr_planner_look(w.planner, &before);
    uint32_t doubt = 0;
    while (strcmp(w.planner->doubt_name[doubt], "tp-overlap") != 0) {
        doubt++;
    }
    for (uint32_t c = 0; c < 4; c++) {
        orr_planner_observe(w.planner, c, w.real[c]);
    }
    orr_planner_look(w.planner, &after);
    assert_true(after.belief[doubt] > before.belief[doubt]);
    double sum = 0;
    for (uint32_t c = 0; c < w.planner->count; c++) {
        sum += after.p_best[c];
    }
    assert_true(sum > 0.999 && sum < 1.001);
}

static void budgets_and_failures_count(void **state) {
    (void)state;
    world w = open_world(&scenarios[4]);
    assert_int_equal(orr_planner_next(w.planner, 1).candidate, UINT32_MAX); /* one second */
    orr_planner_view view;
    orr_planner_look(w.planner, &view);
    uint32_t best = view.best;
    orr_planner_observe(w.planner, best, 0); /* out of memory */
    orr_planner_look(w.planner, &view);
    assert_int_not_equal(view.best, best);
    assert_true(view.expected[best] <= 0);
    /* The same seed, the same worlds. */
    orr_planner *again = (orr_planner *)orr_arena_alloc(arena, sizeof *again);
    orr_err err = {0};
    assert_int_equal(
        orr_planner_open(&oracle, arena, read(moe_base), read(moe_plans), 7, again, &err), ORR_OK);
    assert_memory_equal(again->mean, w.planner->mean, sizeof again->mean);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_planner_finds_what_the_projection_got_wrong),
        cmocka_unit_test(nothing_is_worth_measuring_when_all_is_known),
        cmocka_unit_test(beliefs_follow_what_was_seen),
        cmocka_unit_test(budgets_and_failures_count),
    };
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
