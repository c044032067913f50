#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "tune/tune_int.h"

static orr_tree *texts(orr_arena *arena, const char *const *list) {
    orr_tree *out = orr_tree_new_list(arena);
    for (size_t i = 0; list[i] != NULL; i++) {
        orr_tree_push(arena, out, orr_tree_new_text(arena, list[i]));
    }
    return out;
}

static orr_tree *workload(orr_arena *arena) {
    orr_tree *keys = orr_tree_new_map(arena);
    orr_tree_put_text(arena, keys, "model", "mixtral-8x7b");
    orr_tree_put_text(arena, keys, "hardware", "h100");
    orr_tree_put_text(arena, keys, "software", "megatron-core");
    orr_tree_put_int(arena, keys, "gpus", 16);
    orr_tree_put_int(arena, keys, "gbs", 64);
    orr_tree_put_int(arena, keys, "seq", 4096);
    return keys;
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void limits_read_pins_and_ranges(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_err err = {0};
    tune_limits limits;
    orr_tune_request request = {
        .pins = texts(arena, (const char *const[]){"tp=8", "overlap=tp,dp", NULL}),
        .ranges = texts(arena, (const char *const[]){"mbs=1..4,8", "schedule=1f1b,zbv",
                                                     "gpus=8..64", "precision=bf16,fp8", NULL})};
    assert_int_equal(tune_limits_read(arena, &request, &limits, &err), ORR_OK);
    assert_true(tune_limit_takes(&limits.axis[AXIS_TP], 8));
    assert_false(tune_limit_takes(&limits.axis[AXIS_TP], 4));
    assert_true(tune_limit_takes(&limits.axis[AXIS_PP], 4)); /* no limit */
    assert_true(tune_limit_takes(&limits.axis[AXIS_MBS], 3));
    assert_true(tune_limit_takes(&limits.axis[AXIS_MBS], 8));
    assert_false(tune_limit_takes(&limits.axis[AXIS_MBS], 5));
    assert_string_equal(limits.axis[AXIS_OVERLAP].word[0], "tp,dp");
    assert_int_equal(limits.axis[AXIS_SCHEDULE].count, 2);
    assert_int_equal(limits.other_count, 2);
    assert_int_equal(limits.other[0].count, 4); /* doubling */
    assert_string_equal(limits.other[0].value[3], "64");
    orr_arena_free(arena);
}

static void bad_limits_are_named(void **state) {
    (void)state;
    static const struct {
        const char *text[3];
        orr_status status;
        const char *word;
    } cases[] = {
        {{"tp"}, ORR_E_SCHEMA, "KEY=VALUE"},
        {{"tp="}, ORR_E_SCHEMA, "KEY=VALUE"},
        {{"tp=eight"}, ORR_E_SCHEMA, "no number"},
        {{"tp=8..4"}, ORR_E_SCHEMA, "no number"},
        {{"tpp=8"}, ORR_E_NAME, "tpp"},
        {{"tp=8", "tp=4"}, ORR_E_CONFLICT, "twice"},
        {{"gpus=8", "gpus=16"}, ORR_E_CONFLICT, "twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_arena *arena = orr_arena_new();
        orr_err err = {0};
        tune_limits limits;
        orr_tune_request request = {.pins = texts(arena, cases[i].text)};
        assert_int_equal(tune_limits_read(arena, &request, &limits, &err), cases[i].status);
        assert_non_null(strstr(err.message, cases[i].word));
        orr_arena_free(arena);
    }
}

static void limits_shape_the_space(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_err err = {0};
    tune_space all, some, worlds;
    orr_tune_request request = {.keys = workload(arena)};
    assert_int_equal(tune_space_make(arena, &request, &all, &err), ORR_OK);
    request.pins = texts(arena, (const char *const[]){"tp=2", "layout=even", NULL});
    request.ranges = texts(
        arena, (const char *const[]){"recompute=block:1..3,full", "overlap=none,dp+pp", NULL});
    assert_int_equal(tune_space_make(arena, &request, &some, &err), ORR_OK);
    assert_true(some.count > 0 && some.count < all.count);
    for (uint32_t f = 0; f < some.family_count; f++) {
        assert_int_equal(some.family[f].plan.split.tp, 2);
    }
    request.pins = NULL;
    request.ranges = texts(arena, (const char *const[]){"precision=bf16,fp8", NULL});
    assert_int_equal(tune_space_make(arena, &request, &worlds, &err), ORR_OK);
    assert_int_equal(worlds.world_count, 2);
    assert_true(worlds.count > all.count);
    tune_space_release(&all);
    tune_space_release(&some);
    tune_space_release(&worlds);
    orr_arena_free(arena);
}

/* ---- what is kept ---------------------------------------------------------------------------- */

static void add(tune_keep *keep, double cost, double need) {
    tune_found found = {.cost = cost, .step_s = cost, .need_bytes = need};
    tune_keep_add(keep, &found);
}

static void the_front_holds_what_nothing_beats(void **state) {
    (void)state;
    static const double points[][2] = {{5, 5}, {4, 6}, {6, 4}, {5, 4}, {7, 7},
                                       {4, 8}, {3, 9}, {5, 4}, {2, 9}, {9, 1}};
    tune_keep keep;
    tune_keep_init(&keep, 0.5, 4);
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        add(&keep, points[i][0], points[i][1]);
    }
    assert_int_equal(keep.front_count, 4); /* (2,9) (4,6) (5,4) (9,1) */
    for (uint32_t i = 0; i < keep.front_count; i++) {
        for (size_t k = 0; k < sizeof points / sizeof *points; k++) {
            bool beaten =
                points[k][0] <= keep.front[i].cost && points[k][1] <= keep.front[i].need_bytes &&
                (points[k][0] < keep.front[i].cost || points[k][1] < keep.front[i].need_bytes);
            assert_false(beaten);
        }
    }
    assert_int_equal(keep.top_count, 4);
    assert_true(keep.top[0].cost <= 2 && keep.top[3].cost <= 4);
    assert_int_equal(tune_keep_near(&keep), 2); /* 2 and 3, within a half of 2 */
    tune_keep_release(&keep);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static orr_tree *tune(orr_arena *arena, orr_tune_request *request) {
    orr_engine *engine = orr_engine_new();
    orr_tree *result = NULL;
    orr_err err = {0};
    if (orr_tune(engine, arena, request, &result, &err) != ORR_OK) {
        fail_msg("%s", err.message);
    }
    orr_engine_free(engine);
    return result;
}

static double real(const orr_tree *node, const char *path) {
    return orr_tree_real(orr_tree_path(node, path), 0);
}

static void levers_sum_to_the_gain(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_tree *baseline = workload(arena);
    orr_tree_put_int(arena, baseline, "tp", 2);
    orr_tree_put_int(arena, baseline, "pp", 2);
    orr_tree_put_int(arena, baseline, "ep", 4);
    orr_tree_put_text(arena, baseline, "recompute", "full");
    orr_tune_request request = {.keys = workload(arena), .baseline = baseline, .seed_budget = 40};
    const orr_tree *result = tune(arena, &request);
    const orr_tree *levers = orr_tree_path(result, "baseline.attribution");
    double sum = 0;
    assert_true(orr_tree_size(levers) > 0);
    for (size_t i = 0; i < orr_tree_size(levers); i++) {
        double gain = real(orr_tree_at(levers, i), "tokens_per_s_per_gpu");
        assert_true(gain >= 0);
        sum += gain;
    }
    double gain =
        real(result, "best.tokens_per_s_per_gpu") - real(result, "baseline.tokens_per_s_per_gpu");
    assert_true(fabs(sum - gain) < 1e-6 * gain);
    /* no seed beats what is certified, and none costs more than its budget */
    assert_true(real(result, "seed.tokens_per_s_per_gpu") <=
                real(result, "best.tokens_per_s_per_gpu") * (1 + 1e-12));
    assert_true(real(result, "seed.evaluations") <= 40);
    assert_true(orr_tree_bool(orr_tree_path(result, "certificate.complete"), false));
    assert_int_equal(orr_tree_size(orr_tree_get(result, "finalists")), 3);
    orr_arena_free(arena);
}

static void measurements_move_the_projection(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_tune_request request = {
        .keys = workload(arena),
        .pins = texts(arena, (const char *const[]){"tp=1", "pp=2", "recompute=none", NULL})};
    const orr_tree *before = tune(arena, &request);
    double projected = real(before, "best.tokens_per_s_per_gpu");
    orr_tree *measured = orr_tree_new_list(arena);
    orr_tree *one = orr_tree_push(arena, measured, orr_tree_new_map(arena));
    orr_tree_put(arena, one, "plan", orr_tree_copy(arena, orr_tree_path(before, "best.plan")));
    orr_tree_put_real(arena, one, "tokens_per_s_per_gpu", 0.9 * projected);
    request.measured = measured;
    const orr_tree *after = tune(arena, &request);
    assert_true(real(after, "compute_factor") > 1.05);
    /* the measured plan is among those searched: the best is at least what it measured */
    assert_true(real(after, "best.tokens_per_s_per_gpu") > 0.8999 * projected);
    assert_true(real(after, "best.tokens_per_s_per_gpu") < projected);
    orr_arena_free(arena);
}

static void fewest_gpus_are_found(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_tune_request request = {.keys = workload(arena), .objective = ORR_OBJECTIVE_GPUS};
    const orr_tree *result = tune(arena, &request);
    uint32_t gpus = (uint32_t)orr_tree_int(orr_tree_path(result, "best.plan.gpus"), 0);
    assert_in_range(gpus, 2, 16);
    /* half of them hold no plan */
    orr_tree *half = workload(arena);
    orr_tree_put_int(arena, half, "gpus", gpus / 2);
    orr_tune_request fewer = {.keys = half};
    assert_int_equal(orr_tree_kind_of(orr_tree_get(tune(arena, &fewer), "best")), ORR_TREE_NULL);
    orr_arena_free(arena);
}

/* Stops at the first word of `at` with something done. */
typedef struct stopper {
    const char *at;
    double done;
} stopper;

static bool stop(void *user, const char *what, double done, double total) {
    stopper *s = (stopper *)user;
    (void)total;
    if (strcmp(what, s->at) == 0) {
        s->done = done;
    }
    return !(s->done > 0);
}

static const orr_tree *interrupted(orr_arena *arena, stopper *s, uint32_t seed_budget) {
    orr_tune_request request = {
        .keys = workload(arena), .progress = stop, .progress_user = s, .seed_budget = seed_budget};
    const orr_tree *result = tune(arena, &request);
    assert_true(s->done > 0);
    assert_true(orr_tree_bool(orr_tree_get(result, "interrupted"), false));
    assert_false(orr_tree_bool(orr_tree_path(result, "certificate.complete"), true));
    assert_true(real(result, "certificate.space") == real(result, "certificate.evaluated") +
                                                         real(result, "certificate.pruned") +
                                                         real(result, "certificate.open"));
    assert_true(real(result, "certificate.gap") >= 0);
    return result;
}

static void an_interrupt_leaves_the_best_so_far(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    stopper plans = {.at = "families"}, bounds = {.at = "bounds"}, families = {.at = "space"};
    const orr_tree *result = interrupted(arena, &plans, 0);
    assert_int_equal(orr_tree_kind_of(orr_tree_get(result, "best")), ORR_TREE_MAP);
    /* while bounds are computed the seed planner's best is known */
    result = interrupted(arena, &bounds, 60);
    assert_int_equal(orr_tree_kind_of(orr_tree_get(result, "best")), ORR_TREE_MAP);
    /* and while the space is set up nothing is */
    result = interrupted(arena, &families, 60);
    assert_int_equal(orr_tree_kind_of(orr_tree_get(result, "best")), ORR_TREE_NULL);
    assert_true(orr_tree_bool(orr_tree_get(result, "nothing_looked_at"), false));
    orr_arena_free(arena);
}

/* ---- objectives ------------------------------------------------------------------------------ */

static const orr_tree *prices_of(orr_arena *arena) {
    orr_tree *prices = orr_tree_new_map(arena);
    orr_tree_put_real(arena, prices, "gpu_hour", 2.0);
    orr_tree_put_real(arena, prices, "gpu_w", 700);
    return prices;
}

/* Two machine sizes; money and days follow from the steps that the search itself reports. */
static void money_and_days_follow_from_the_step(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_tree *ranges = orr_tree_new_list(arena);
    orr_tree_push(arena, ranges, orr_tree_new_text(arena, "gpus=8,16"));
    orr_tune_request request = {.keys = workload(arena),
                                .ranges = ranges,
                                .tokens = 1e12,
                                .prices = prices_of(arena),
                                .objective = ORR_OBJECTIVE_COST,
                                .front = "cost,time-to-train"};
    const orr_tree *cheap = tune(arena, &request);
    request.objective = ORR_OBJECTIVE_TIME;
    const orr_tree *fast = tune(arena, &request);
    double cost = real(cheap, "best.cost"), days = real(fast, "best.train_days");
    assert_true(cost > 0 && days > 0);
    assert_true(cost <= real(fast, "best.cost"));
    assert_true(days <= real(cheap, "best.train_days"));
    /* accelerator hours at their price, and their power */
    double hours = real(cheap, "best.train_days") * 24 * real(cheap, "best.plan.gpus");
    assert_true(cost > 1.9999 * hours && cost < 2.0001 * hours);
    assert_true(real(cheap, "best.energy_kwh") > 0.6999 * hours);
    /* the front's ends are the two winners */
    const orr_tree *points = orr_tree_path(cheap, "fronts.points");
    double least = HUGE_VAL, soonest = HUGE_VAL;
    assert_true(orr_tree_size(points) > 0);
    for (size_t i = 0; i < orr_tree_size(points); i++) {
        least = fmin(least, real(orr_tree_at(points, i), "cost"));
        soonest = fmin(soonest, real(orr_tree_at(points, i), "train_days"));
    }
    assert_true(fabs(least / cost - 1) < 1e-9 && fabs(soonest / days - 1) < 1e-9);
    /* the fastest under a budget keeps it, and a budget below the least leaves nothing */
    request.max_cost = 1.0001 * cost;
    assert_true(real(tune(arena, &request), "best.cost") <= request.max_cost);
    request.max_cost = 0.99 * cost;
    orr_engine *engine = orr_engine_new();
    orr_tree *none = NULL;
    orr_err err = {0};
    assert_int_equal(orr_tune(engine, arena, &request, &none, &err), ORR_E_INFEASIBLE);
    assert_non_null(strstr(err.message, "--max-cost"));
    orr_engine_free(engine);
    orr_arena_free(arena);
}

static void the_cheapest_cluster_is_found(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_tune_request request = {.keys = workload(arena),
                                .prices = prices_of(arena),
                                .objective = ORR_OBJECTIVE_CHEAPEST_CLUSTER};
    const orr_tree *result = tune(arena, &request);
    orr_tune_request fewest = {.keys = workload(arena), .objective = ORR_OBJECTIVE_GPUS};
    /* of one kind of accelerator: as many as the fewest */
    assert_true(real(result, "best.plan.gpus") == real(tune(arena, &fewest), "best.plan.gpus"));
    orr_arena_free(arena);
}

static void robustness_shakes_everything(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_tune_request request = {.keys = workload(arena)};
    const orr_tree *result = tune(arena, &request);
    const orr_tree *figures = orr_tree_path(result, "robustness.figures");
    assert_int_equal(orr_tree_size(figures), 5);
    for (size_t i = 0; i < 4; i++) { /* the fifth is latency: less is better */
        assert_true(real(orr_tree_at(figures, i), "less_frac") <= 0);
        assert_true(real(orr_tree_at(figures, i), "more_frac") >= 0);
    }
    const orr_tree *axes = orr_tree_path(result, "robustness.axes");
    assert_true(orr_tree_size(axes) > 10);
    for (size_t i = 0; i < orr_tree_size(axes); i++) {
        const orr_tree *one = orr_tree_at(axes, i);
        bool fits = strcmp(orr_tree_text(orr_tree_get(one, "verdict"), ""), "fits") == 0;
        /* nothing is faster than the certified best */
        assert_true(!fits || real(one, "change_frac") <= 1e-12);
    }
    assert_true(orr_tree_size(orr_tree_path(result, "robustness.calibration")) > 1);
    orr_arena_free(arena);
}

static void limits_that_exclude_each_other_are_named(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_engine *engine = orr_engine_new();
    orr_tree *pins = orr_tree_new_list(arena), *result = NULL;
    orr_tree_push(arena, pins, orr_tree_new_text(arena, "tp=8"));
    orr_tree_push(arena, pins, orr_tree_new_text(arena, "mbs=1"));
    orr_tree_push(arena, pins, orr_tree_new_text(arena, "pp=4"));
    orr_err err = {0};
    orr_tune_request request = {.keys = workload(arena), .pins = pins};
    assert_int_equal(orr_tune(engine, arena, &request, &result, &err), ORR_E_INFEASIBLE);
    assert_non_null(strstr(err.message, "tp=8, pp=4 contradict each other"));
    assert_null(strstr(err.message, "mbs"));
    assert_non_null(strstr(err.hint, "without tp=8"));
    orr_engine_free(engine);
    orr_arena_free(arena);
}

/* The nearest value is what the search without the limit finds, and it is met. */
static void limits_on_the_run_name_the_nearest(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_engine *engine = orr_engine_new();
    orr_tree *result = NULL;
    orr_err err = {0};
    orr_tune_request request = {.keys = workload(arena), .tokens = 1e12};
    double days = real(tune(arena, &request), "best.train_days"), nearest = 0;
    assert_true(days > 0);
    request.max_days = days / 2;
    assert_int_equal(orr_tune(engine, arena, &request, &result, &err), ORR_E_INFEASIBLE);
    assert_non_null(strstr(err.message, "--max-days"));
    const char *value = strstr(err.hint, "--max-days ");
    assert_non_null(value);
    assert_int_equal(sscanf(value, "--max-days %lf", &nearest), 1);
    assert_true(nearest >= days && nearest < days * 1.001);
    request.max_days = nearest;
    assert_true(real(tune(arena, &request), "best.train_days") <= nearest);
    orr_engine_free(engine);
    orr_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_read_pins_and_ranges),
        cmocka_unit_test(bad_limits_are_named),
        cmocka_unit_test(limits_shape_the_space),
        cmocka_unit_test(the_front_holds_what_nothing_beats),
        cmocka_unit_test(levers_sum_to_the_gain),
        cmocka_unit_test(measurements_move_the_projection),
        cmocka_unit_test(fewest_gpus_are_found),
        cmocka_unit_test(an_interrupt_leaves_the_best_so_far),
        cmocka_unit_test(money_and_days_follow_from_the_step),
        cmocka_unit_test(the_cheapest_cluster_is_found),
        cmocka_unit_test(robustness_shakes_everything),
        cmocka_unit_test(limits_that_exclude_each_other_are_named),
        cmocka_unit_test(limits_on_the_run_name_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
