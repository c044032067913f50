/* Training logs: what each framework prints, warm-up and stalls, ranks between each other, and
 * out-of-memory messages. Samples: tests/data/logs, written from the formats' public facts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/num.h"
#include "observe/observe.h"

static orr_observation observe(orr_arena *arena, const char *name) {
    orr_observation seen;
    orr_err err = {0};
    const char *path = orr_arena_format(arena, "%s/data/logs/%s", ORR_TEST_DIR, name);
    assert_int_equal(orr_observe_file(arena, path, &seen, &err), ORR_OK);
    assert_int_equal(seen.kind, ORR_OBSERVED_LOG);
    return seen;
}

static orr_observation observe_text(orr_arena *arena, const char *text) {
    orr_observation seen;
    orr_err err = {0};
    assert_int_equal(orr_observe_bytes(arena, "run.log", text, strlen(text), &seen, &err), ORR_OK);
    return seen;
}

static void near(double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance * fabs(want))) {
        print_error("%.9g is not %.9g\n", got, want);
        fail();
    }
}

static void test_every_framework_is_read(void **state) {
    (void)state;
    static const struct {
        const char *file, *format;
        uint32_t used;
        double step_s, rate, samples, tflops, gbs;
        uint32_t gpus;
    } cases[] = {
        {"megatron-8b.log", "megatron-log", 48, 8.192, 0, 0, 412, 128, 16},
        {"primus.log", "primus-log", 24, 13.37, 9803, 0, 567, 128, 0},
        {"bridge.log", "megatron-bridge-log", 20, 9.09, 0, 0, 663.5, 512, 0},
        {"torchtitan.log", "torchtitan-log", 32, 0, 7210, 0, 416.7, 0, 0},
        {"nemo.log", "nemo-log", 32, 12.78, 0, 0, 0, 128, 8},
        {"nemo1.log", "nemo-log", 40, 5.9, 0, 0, 0, 0, 0},
        {"nanotron.log", "nanotron-log", 24, 5.12, 3200, 0, 145, 256, 0},
        {"deepspeed.log", "deepspeed-log", 24, 0, 0, 12.5, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_arena *arena = orr_arena_new();
        orr_observation seen = observe(arena, cases[i].file);
        assert_string_equal(seen.format, cases[i].format);
        assert_int_equal(seen.log.used, cases[i].used);
        near(seen.log.step_s, cases[i].step_s, 0.003);
        near(seen.log.tokens_per_s_per_gpu, cases[i].rate, 0.003);
        near(seen.log.samples_per_s, cases[i].samples, 0.003);
        near(seen.log.tflops_per_gpu, cases[i].tflops, 0.003);
        near(seen.log.gbs, cases[i].gbs, 0);
        assert_int_equal(seen.log.gpus, cases[i].gpus);
        orr_arena_free(arena);
    }
}

static void test_memory_is_of_the_fullest_rank(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_observation seen = observe(arena, "megatron-8b.log");
    near(seen.log.peak_allocated_bytes, 52311.7 * ORR_MIB, 1e-9);
    near(seen.log.allocated_bytes, 31044.1 * ORR_MIB, 1e-9);
    near(seen.log.peak_reserved_bytes, 54521.7 * ORR_MIB, 1e-9);
    assert_int_equal(seen.log.memory_ranks, 4);
    near(observe(arena, "torchtitan.log").log.peak_reserved_bytes, 45.06 * ORR_GIB, 1e-9);
    near(observe(arena, "primus.log").log.device_bytes, 153.81 * ORR_GIB, 1e-9);
    near(observe(arena, "deepspeed.log").log.peak_allocated_bytes, 39.52 * ORR_GIB, 1e-9);
    near(observe(arena, "nanotron.log").log.peak_allocated_bytes, 38912.25 * ORR_MIB, 1e-9);
    orr_arena_free(arena);
}

static void test_timers_and_arguments_come_along(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_observation seen = observe(arena, "megatron-8b.log");
    const orr_tree *parts = orr_tree_get(seen.tree, "parts");
    assert_int_equal(orr_tree_size(parts), 10);
    assert_string_equal(orr_tree_text(orr_tree_path(parts, "0.name"), ""), "forward-backward");
    near(orr_tree_real(orr_tree_path(parts, "0.max_s"), 0), 7.95381, 1e-9);
    assert_string_equal(orr_tree_text(orr_tree_get(seen.content, "tensor_model_parallel_size"), ""),
                        "2");
    orr_arena_free(arena);
}

/* Two ranks log each step; one line is torn by another process. */
static void test_ranks_between_each_other_are_one_run(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_observation seen = observe(arena, "interleaved.log");
    assert_int_equal(seen.log.seen, 41); /* 40 steps and the torn line */
    assert_int_equal(seen.log.stalls, 1);
    near(seen.log.step_s, 5.1102, 1e-9); /* the slower rank's */
    orr_arena_free(arena);
}

static char *steps(orr_arena *arena, const double *ms, size_t count) {
    char *text = orr_arena_text(arena, "");
    for (size_t i = 0; i < count; i++) {
        text = orr_arena_format(arena,
                                "%s iteration %zu/ 99 | elapsed time per iteration (ms): %.1f |\n",
                                text, i + 1, ms[i]);
    }
    return text;
}

static void test_warm_up_and_stalls_are_left_out(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    /* ten steps: two warm up, one stalls */
    static const double ms[] = {9000, 1500, 1000, 1001, 999, 3000, 1000, 1002, 998, 1000};
    orr_observation seen = observe_text(arena, steps(arena, ms, 10));
    assert_int_equal(seen.log.warmup, 2);
    assert_int_equal(seen.log.stalls, 1);
    assert_int_equal(seen.log.used, 7);
    near(seen.log.step_s, 1.0, 1e-9);
    near(seen.log.stall_frac, 2000.0 / 10000.0, 1e-6);
    /* too few for a warm-up */
    seen = observe_text(arena, steps(arena, ms + 2, 3));
    assert_int_equal(seen.log.warmup, 0);
    assert_int_equal(seen.log.used, 3);
    seen = observe_text(arena, steps(arena, ms + 2, 1));
    assert_int_equal(seen.log.used, 1);
    assert_int_equal(orr_tree_size(seen.warnings), 1);
    orr_arena_free(arena);
}

static void test_out_of_memory_messages(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_run_log log = observe(arena, "oom.log").log;
    assert_int_equal(log.oom_count, 2);
    assert_int_equal(log.oom_rank, 3);
    near(log.oom_tried_bytes, 2 * ORR_GIB, 1e-9);
    near(log.oom_capacity_bytes, 79.11 * ORR_GIB, 1e-9);
    near(log.oom_free_bytes, 1.25 * ORR_GIB, 1e-9);
    near(log.oom_process_bytes, 77.84 * ORR_GIB, 1e-9);
    near(log.oom_allocated_bytes, 70.12 * ORR_GIB, 1e-9);
    near(log.oom_reserved_bytes, 75.46 * ORR_GIB, 1e-9);
    log = observe(arena, "oom-old.log").log;
    assert_int_equal(log.oom_rank, -1);
    near(log.oom_tried_bytes, 20 * ORR_MIB, 1e-9);
    near(log.oom_allocated_bytes, 37.10 * ORR_GIB, 1e-9);
    near(log.oom_reserved_bytes, 38.50 * ORR_GIB, 1e-9);
    near(log.oom_free_bytes, 12.31 * ORR_MIB, 1e-9);
    orr_arena_free(arena);
}

static void test_what_is_no_log_is_none(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    static const char *const texts[] = {
        "",
        "\n\n",
        "model: llama-3.1-8b\ngpus: 8\n",
        "elapsed time per iteration (ms):\n",
        "iteration x/ elapsed time per iteration (ms): fast |\n",
        "step: tps:",
        "#!/bin/bash\necho iteration 1/2 elapsed time per iteration (ms): 5.0\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(observe_text(arena, texts[i]).kind, ORR_OBSERVED_NONE);
    }
    orr_arena_free(arena);
}

static void test_long_lines_and_odd_bytes_pass(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    enum { LONG = 300000 };
    char *text = (char *)orr_arena_alloc(arena, LONG + 512);
    memset(text, 'x', LONG);
    text[7] = '\0';
    (void)snprintf(text + LONG, 512,
                   "\n\x1b[31m iteration 1/ 9 |\x1b[0m elapsed time per iteration (ms): 5,120.5 |\r"
                   " iteration 2/ 9 | elapsed time per iteration (ms): 5.1205E+03 |");
    orr_observation seen;
    assert_int_equal(orr_observe_bytes(arena, NULL, text, LONG + strlen(text + LONG), &seen, NULL),
                     ORR_OK);
    assert_int_equal(seen.log.seen, 2);
    near(seen.log.step_s, 5.1205, 1e-9);
    orr_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_framework_is_read),
        cmocka_unit_test(test_memory_is_of_the_fullest_rank),
        cmocka_unit_test(test_timers_and_arguments_come_along),
        cmocka_unit_test(test_ranks_between_each_other_are_one_run),
        cmocka_unit_test(test_warm_up_and_stalls_are_left_out),
        cmocka_unit_test(test_out_of_memory_messages),
        cmocka_unit_test(test_what_is_no_log_is_none),
        cmocka_unit_test(test_long_lines_and_odd_bytes_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
