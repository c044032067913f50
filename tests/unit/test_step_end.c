/* What the end of a step costs: gradients in buckets, copies around a gather. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/arena.h"
#include "orrery/orrery.h"

#include <math.h>

/* A profile that differs from nanotron's in one line; a path to it. */
static void write_profile(const char *path, const char *line) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "like: nanotron\nsource: a test\ntime:\n  %s\n", line) > 0);
    assert_int_equal(fclose(file), 0);
}

static double slice_with(const char *line, const char *key, const char *value, const char *sharding,
                         const char *name) {
    static const char *const path = "test_step_end.yaml";
    static const char *const keys[][2] = {{"model", "llama-3.1-8b"},
                                          {"hardware", "h100"},
                                          {"fabric", "efa-congested"},
                                          {"gpus", "64"},
                                          {"tp", "4"},
                                          {"gbs", "64"},
                                          {"seq", "4096"},
                                          {"mbs", "1"},
                                          {"software", path}};
    orr_arena *arena = orr_arena_new();
    orr_ctx *ctx = NULL; /* a new one: contexts read a file once */
    assert_int_equal(orr_ctx_new(NULL, &ctx, NULL), ORR_OK);
    write_profile(path, line);
    orr_tree *args = orr_tree_new_map(arena), *envelope = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        orr_tree_put_text(arena, args, keys[i][0], keys[i][1]);
    }
    orr_tree_put_text(arena, args, "sharding", sharding);
    if (key != NULL) {
        orr_tree_put_text(arena, args, key, value);
    }
    assert_int_equal(orr_call(ctx, "project", args, arena, &envelope, NULL), ORR_OK);
    assert_int_equal(remove(path), 0);
    const orr_tree *result = orr_tree_get(envelope, "result");
    const orr_tree *interval = orr_tree_get(result, "interval_90");
    double time_s = strcmp(name, "low") == 0
                        ? orr_tree_real(orr_tree_at(interval, 0), NAN)
                        : orr_tree_real(orr_tree_get(orr_tree_get(result, "breakdown"), name), NAN);
    orr_ctx_free(ctx);
    orr_arena_free(arena);
    return time_s;
}

static double slice(const char *line, const char *sharding, const char *name) {
    return slice_with(line, NULL, NULL, sharding, name);
}

static void buckets_pay_latency_each(void **state) {
    (void)state;
    double before = 0;
    static const char *const lines[] = {"reduce_bucket_bytes: 0", "reduce_bucket_bytes: 100MiB",
                                        "reduce_bucket_bytes: 25MiB"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        double dp = slice(lines[i], "none", "dp_s");
        assert_true(dp > before);
        before = dp;
    }
    /* sharded gradients go at once */
    assert_true(slice(lines[0], "zero1", "dp_s") == slice(lines[2], "zero1", "dp_s"));
}

static void gathers_of_lists_are_copied(void **state) {
    (void)state;
    static const char *const without = "gather_copy_bytes: 0", *const with =
                                                                   "gather_copy_bytes: 80";
    assert_true(slice(with, "zero1", "optimizer_s") > 2 * slice(without, "zero1", "optimizer_s"));
    assert_true(slice(with, "none", "optimizer_s") == slice(without, "none", "optimizer_s"));
}

/* Smaller states take less traffic. */
static void a_step_follows_its_formats(void **state) {
    (void)state;
    static const char *const bytes = "optimizer_local_bytes: 0";
    double usual = slice(bytes, "none", "optimizer_s");
    double half = slice_with(bytes, "exp_avg_dtype", "bf16", "none", "optimizer_s");
    assert_true(half < usual && half > 26. / 30 * usual * 0.99);
    assert_true(slice_with(bytes, "optimizer", "adam8bit", "none", "optimizer_s") < half);
}

static double muon_of(const char *sharding, const char *what, double *optimizer_s) {
    static const char *const keys[][2] = {
        {"model", "llama-3.1-8b"}, {"hardware", "h100"}, {"gpus", "64"}, {"tp", "2"}, {"gbs", "64"},
        {"seq", "4096"},           {"optimizer", "muon"}};
    orr_arena *arena = orr_arena_new();
    orr_ctx *ctx = NULL;
    assert_int_equal(orr_ctx_new(NULL, &ctx, NULL), ORR_OK);
    orr_tree *args = orr_tree_new_map(arena), *envelope = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        orr_tree_put_text(arena, args, keys[i][0], keys[i][1]);
    }
    orr_tree_put_text(arena, args, "sharding", sharding);
    assert_int_equal(orr_call(ctx, "project", args, arena, &envelope, NULL), ORR_OK);
    const orr_tree *result = orr_tree_get(envelope, "result");
    *optimizer_s = orr_tree_real(orr_tree_path(result, "breakdown.optimizer_s"), NAN);
    double value = orr_tree_real(orr_tree_get(orr_tree_get(result, "muon"), what), NAN);
    orr_ctx_free(ctx);
    orr_arena_free(arena);
    return value;
}

/* By hand, of one of two tensor-parallel ranks, m x n being short x long: 5 (4 m m n + 2 m m m). */
static double orthogonalised(double m, double n) {
    return 5 * (4 * m * m * n + 2 * m * m * m);
}

static void muon_multiplies_matrices(void **state) {
    (void)state;
    double all_s, some_s, shards_s, adam_s = slice("gather_copy_bytes: 0", "none", "optimizer_s");
    double layer = orthogonalised(2048, 4096) + 2 * orthogonalised(512, 4096) +
                   orthogonalised(2048, 4096) + orthogonalised(4096, 14336) +
                   orthogonalised(4096, 7168);
    double flops = muon_of("none", "flops", &all_s);
    assert_true(fabs(flops / (32 * layer) - 1) < 1e-12);
    assert_true(all_s > 10 * adam_s);
    assert_true(muon_of("none", "matrices", &all_s) == 32 * 6);
    double products_s = muon_of("none", "time_s", &all_s);
    assert_true(products_s > 0.8 * all_s && products_s < all_s);
    /* 192 matrices are dealt to 32 ranks, to and fro by size: the busiest has six, one of each */
    assert_true(muon_of("zero1", "matrices", &some_s) == 6);
    assert_true(fabs(muon_of("zero1", "flops", &some_s) / layer - 1) < 1e-12);
    assert_true(some_s < all_s / 20);
    /* shards of parameters meet first */
    assert_true(muon_of("zero1", "exchange_s", &some_s) == 0);
    assert_true(muon_of("fsdp2", "exchange_s", &shards_s) > 0);
}

/* Where nothing is known of a host, tokens/s may be fewer, but only where it can come to bind. */
static void unknown_hosts_may_be_slower(void **state) {
    (void)state;
    double usual = slice("interval_host_frac: 0", "none", "low");
    assert_true(slice("interval_host_frac: 3", "none", "low") < 0.8 * usual);
    assert_true(slice("interval_host_frac: 0.001", "none", "low") == usual);
}

/* 16 micro-batches of the longest stage wait for launches, filling and draining do not. */
static void only_a_full_pipeline_waits_for_launches(void **state) {
    (void)state;
    static const char *const some = "host_pp_tp_bwd_s: 10ms", *const more =
                                                                  "host_pp_tp_bwd_s: 20ms";
    double waits = slice_with(more, "pp", "4", "zero1", "host_s") -
                   slice_with(some, "pp", "4", "zero1", "host_s");
    double layers = waits / (16 * 4 * 0.01);
    assert_true(fabs(layers - round(layers)) < 1e-6 && layers > 7 && layers < 10);
    assert_true(slice_with(more, "pp", "4", "zero1", "bubble_s") ==
                slice_with(some, "pp", "4", "zero1", "bubble_s"));
}

/* Lags that are a rank's own stay in proportion; those of single micro-batches average out. */
static void lags_of_micro_batches_average(void **state) {
    (void)state;
    static const char *const own = "straggler_frac: 0.07\n  straggler_each_frac: 0",
                             *const each = "straggler_frac: 0\n  straggler_each_frac: 0.07";
    double own_4 = slice(own, "zero1", "jitter_s"), each_4 = slice(each, "zero1", "jitter_s");
    assert_true(own_4 > 0 && fabs(own_4 / each_4 - 2) < 1e-6); /* four micro-batches */
    double each_16 = slice_with(each, "gbs", "256", "zero1", "jitter_s");
    double own_16 = slice_with(own, "gbs", "256", "zero1", "jitter_s");
    assert_true(fabs(own_16 / each_16 - 4) < 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_pay_latency_each),
        cmocka_unit_test(gathers_of_lists_are_copied),
        cmocka_unit_test(a_step_follows_its_formats),
        cmocka_unit_test(muon_multiplies_matrices),
        cmocka_unit_test(unknown_hosts_may_be_slower),
        cmocka_unit_test(lags_of_micro_batches_average),
        cmocka_unit_test(only_a_full_pipeline_waits_for_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
