/* Failures, checkpoints, power and prices: closed forms against direct simulation and by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "doc/doc.h"
#include "goodput/goodput.h"

static void near(double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance * fabs(want))) {
        print_error("%.12g is not %.12g\n", got, want);
        fail();
    }
}

/* One run, second by failure: exponential gaps, progress kept at each checkpoint, failures while
 * restarting too. */
static double simulate(orr_rng *rng, double work_s, double every_s, double save_s, double restart_s,
                       double mtbf_s) {
    double clock_s = 0, done_s = 0, next_s = -mtbf_s * log(1 - orr_rng_unit(rng));
    while (done_s < work_s) {
        double end_s = clock_s + every_s + save_s;
        if (next_s >= end_s) {
            clock_s = end_s;
            done_s += every_s;
            continue;
        }
        for (;;) {
            clock_s = next_s;
            next_s = clock_s - mtbf_s * log(1 - orr_rng_unit(rng));
            if (next_s >= clock_s + restart_s) {
                clock_s += restart_s;
                break;
            }
        }
    }
    return clock_s;
}

static void test_slowdown_is_the_mean_of_runs(void **state) {
    (void)state;
    orr_rng rng = {7};
    double every_s = 900, save_s = 30, restart_s = 400, mtbf_s = 5000, sum_s = 0;
    enum { RUNS = 400 };
    double work_s = 900.0 * 300;
    for (int i = 0; i < RUNS; i++) {
        sum_s += simulate(&rng, work_s, every_s, save_s, restart_s, mtbf_s);
    }
    near(sum_s / RUNS / work_s, orr_goodput_slowdown(every_s, save_s, restart_s, mtbf_s), 0.005);
}

static void test_daly_is_the_best_interval(void **state) {
    (void)state;
    static const double cases[][2] = {{30, 5000}, {1.4, 11000}, {120, 86400}, {600, 7200}};
    for (size_t i = 0; i < 4; i++) {
        double save_s = cases[i][0], mtbf_s = cases[i][1];
        double daly_s = orr_goodput_daly(save_s, mtbf_s), best = INFINITY;
        for (double t = daly_s / 8; t < daly_s * 8; t *= 1.001) {
            best = fmin(best, orr_goodput_slowdown(t, save_s, 300, mtbf_s));
        }
        near(orr_goodput_slowdown(daly_s, save_s, 300, mtbf_s), best, 1e-4);
        assert_true(daly_s < orr_goodput_young(save_s, mtbf_s));
    }
    near(orr_goodput_young(50, 10000), 1000, 1e-12);
    near(orr_goodput_daly(500, 100), 100, 1e-12);
}

static orr_prices prices_of(orr_arena *arena, const char *text, const char *device) {
    orr_tree *map = NULL;
    orr_prices prices;
    orr_err err = {0};
    assert_int_equal(orr_yaml_read(arena, "p", text, strlen(text), &map, &err), ORR_OK);
    assert_int_equal(orr_prices_read(arena, map, device, &prices, &err), ORR_OK);
    return prices;
}

static const orr_goodput_run week = {.tokens = 1e12,
                                     .gpus = 1024,
                                     .hosts = 128,
                                     .tokens_per_s = 1e6,
                                     .low_tokens_per_s = 0.9e6,
                                     .high_tokens_per_s = 1.1e6,
                                     .step_s = 5,
                                     .checkpoint_bytes = 1e12,
                                     .board_w = 700};

static void test_without_failures_only_throughput_counts(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_prices prices = prices_of(arena, "{gpu_mtbf_s: 0, host_mtbf_s: 0}", "h100");
    orr_goodput g;
    orr_goodput_find(&prices, &week, &g);
    assert_true(g.finishes);
    near(g.train_s, 1e6, 1e-12);
    near(g.low_s, 1e6 / 1.1, 1e-9);
    near(g.high_s, 1e6 / 0.9, 1e-9);
    near(g.goodput_frac, 1, 1e-12);
    assert_true(g.every_s == 0 && g.failures == 0 && g.half_mtbf_s == g.train_s);
    near(g.power_w, 1024 * 700, 1e-12);
    near(g.energy_J, 1024 * 700 * 1e6, 1e-12);
    assert_true(g.cost == 0);
    orr_arena_free(arena);
}

static void test_losses_and_bill_add_up(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_prices prices = prices_of(arena,
                                  "{gpu_hour: {h100: 2, b200: 4}, kwh: 0.1, host_w: 1000, pue: 1.2,"
                                  " currency: USD, gpu_mtbf_s: 50000h, host_mtbf_s: 20000h,"
                                  " restart_s: 900, checkpoint_s: 20, carbon_kg_per_kwh: 0.4}",
                                  "H100");
    orr_goodput g;
    orr_goodput_find(&prices, &week, &g);
    near(g.mtbf_s, 3600 / (1024 / 50000.0 + 128 / 20000.0), 1e-12);
    near(g.lost_checkpoint_s + g.lost_rework_s + g.lost_restart_s, g.train_s - g.ideal_s, 1e-9);
    near(g.train_s, 1e6 * orr_goodput_slowdown(g.every_s, 20, 900, g.mtbf_s), 1e-12);
    near(g.power_w, 1.2 * (1024 * 700 + 128 * 1000), 1e-12);
    near(g.gpu_cost, 2 * 1024 * g.train_s / 3600, 1e-12);
    near(g.energy_cost, 0.1 * g.energy_J / 3.6e6, 1e-12);
    near(g.cost, g.gpu_cost + g.energy_cost, 1e-12);
    near(g.cost_per_mtok, g.cost / 1e6, 1e-12);
    near(g.carbon_kg, 0.4 * g.energy_J / 3.6e6, 1e-12);
    assert_true(g.low_s < g.train_s && g.train_s < g.high_s && g.half_mtbf_s > g.train_s);
    orr_arena_free(arena);
}

static void test_checkpoint_time_follows_bytes_and_steps(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_prices prices = prices_of(arena, "{storage_Bps: 1GB/s}", "h100");
    orr_goodput g;
    orr_goodput_find(&prices, &week, &g);
    near(g.checkpoint_s, 1e12 / 1e9 / 128, 1e-12);
    prices = prices_of(arena, "{checkpoint_every_s: 1}", "h100");
    orr_goodput_find(&prices, &week, &g);
    near(g.every_s, week.step_s, 1e-12); /* no sooner than a step is done */
    orr_arena_free(arena);
}

static void test_a_run_that_cannot_finish_says_so(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_prices prices = prices_of(arena, "{gpu_mtbf_s: 10h, restart_s: 10min}", "h100");
    orr_goodput g;
    orr_goodput_find(&prices, &week, &g);
    assert_false(g.finishes);
    assert_true(g.train_s == 0 && g.cost == 0 && g.mtbf_s > 0);
    orr_arena_free(arena);
}

/* Shorter than any interval: one step at least, one checkpoint, next to no failures. */
static void test_a_short_run_takes_a_step_and_a_checkpoint(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_prices prices = prices_of(arena, "{gpu_hour: 2, checkpoint_s: 24}", "h100");
    orr_goodput_run run = week;
    orr_goodput g;
    for (double tokens = 1; tokens < 1e9; tokens *= 10) {
        run.tokens = tokens;
        orr_goodput_find(&prices, &run, &g);
        assert_true(g.finishes);
        near(g.ideal_s, fmax(tokens / run.tokens_per_s, run.step_s), 1e-12);
        near(g.train_s, g.ideal_s + 24, 0.02);
        near(g.low_cost / g.cost, g.low_s / g.train_s, 1e-12);
        near(g.high_cost / g.cost, g.high_s / g.train_s, 1e-12);
    }
    orr_arena_free(arena);
}

static void test_figures_of_other_accelerators_are_listed(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_prices prices = prices_of(arena, "{gpu_hour: {mi300x: 2}, gpu_w: {h100: 600}}", "h100");
    assert_int_equal(orr_tree_size(prices.elsewhere), 1);
    assert_string_equal(orr_tree_text(orr_tree_at(prices.elsewhere, 0), ""), "gpu_hour");
    prices = prices_of(arena, "{gpu_hour: {mi300x: 2, default: 3}}", "h100");
    assert_int_equal(orr_tree_size(prices.elsewhere), 0);
    orr_err err = {0};
    orr_tree *empty = orr_tree_new_text(arena, "{}");
    assert_int_equal(orr_prices_find(arena, empty, "h100", &prices, &err), ORR_E_SCHEMA);
    orr_arena_free(arena);
}

/* Llama 3 405B: 16,384 H100, 54 days, 419 unexpected interruptions, more than 90 % of the time
 * training (arXiv 2407.21783, section 3.3.4). */
static void test_assumptions_give_back_the_run_they_come_from(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_prices prices;
    orr_err err = {0};
    assert_int_equal(orr_prices_read(arena, NULL, "h100", &prices, &err), ORR_OK);
    orr_goodput_run run = {.gpus = 16384,
                           .hosts = 2048,
                           .tokens_per_s = 1.8e6,
                           .step_s = 10,
                           .checkpoint_bytes = 5.7e12,
                           .board_w = 700};
    run.tokens = 54 * 86400.0 * 0.93 * run.tokens_per_s;
    orr_goodput g;
    orr_goodput_find(&prices, &run, &g);
    near(g.failures, 419, 0.02);
    assert_true(g.goodput_frac > 0.90 && g.goodput_frac < 0.96);
    orr_arena_free(arena);
}

static void test_bad_files_are_refused(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    static const char *const bad[] = {
        "{gpu_hours: 2}", "{pue: 0.5}",         "{gpu_hour: -1}",    "{gpu_mtbf_s: 3GB}", "[1]",
        "{sources: 7}",   "{gpu_hour: [1, 2]}", "{restart_s: soon}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        orr_tree *map = NULL;
        orr_prices prices;
        orr_err err = {0};
        assert_int_equal(orr_yaml_read(arena, "p", bad[i], strlen(bad[i]), &map, &err), ORR_OK);
        assert_int_not_equal(orr_prices_read(arena, map, "h100", &prices, &err), ORR_OK);
        assert_true(err.message[0] != '\0');
    }
    orr_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slowdown_is_the_mean_of_runs),
        cmocka_unit_test(test_daly_is_the_best_interval),
        cmocka_unit_test(test_without_failures_only_throughput_counts),
        cmocka_unit_test(test_losses_and_bill_add_up),
        cmocka_unit_test(test_checkpoint_time_follows_bytes_and_steps),
        cmocka_unit_test(test_a_run_that_cannot_finish_says_so),
        cmocka_unit_test(test_a_short_run_takes_a_step_and_a_checkpoint),
        cmocka_unit_test(test_figures_of_other_accelerators_are_listed),
        cmocka_unit_test(test_assumptions_give_back_the_run_they_come_from),
        cmocka_unit_test(test_bad_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
