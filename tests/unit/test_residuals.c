/* Where a projection's interval comes from: the nearest class of published runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include <math.h>

#include "doc/doc.h"
#include "projection/projection_int.h"

static const char file[] =
    "classes:\n"
    "  - {software: a, kind: dense, arch: hopper, scaling: none, rows: 40, low_ratio: 0.9,"
    " high_ratio: 1.2}\n"
    "  - {software: a, kind: dense, arch: any, scaling: none, rows: 60, low_ratio: 0.8,"
    " high_ratio: 1.3}\n"
    "  - {software: a, scaling: none, rows: 90, low_ratio: 0.7, high_ratio: 1.4}\n"
    "  - {kind: dense, scaling: none, rows: 500, low_ratio: 0.1, high_ratio: 9}\n"
    "  - {scaling: weak, rows: 100, low_ratio: 0.97, high_ratio: 1.02}\n"
    "devices:\n"
    "  - {name: h100, rows: 900}\n"
    "  - {name: h200, rows: 19}\n"
    "  - {name: a100, rows: 20}\n";

static const orr_layer experts = {.mlp = {.experts = 8}};

typedef struct fixture {
    orr_arena *arena;
    orr_residuals *residuals;
    orr_software software;
    orr_accelerator accelerator;
    orr_fabric fabric;
    orr_cluster cluster;
    orr_model model;
    orr_resolved resolved;
} fixture;

static fixture *new_fixture(void) {
    orr_arena *arena = orr_arena_new();
    fixture *f = ORR_NEW(arena, fixture);
    orr_tree *tree = NULL;
    f->arena = arena;
    assert_int_equal(orr_yaml_read(arena, "given", file, sizeof file - 1, &tree, NULL), ORR_OK);
    assert_int_equal(orr_residuals_read(arena, tree, &f->residuals, NULL), ORR_OK);
    f->software.name = "a";
    f->software.interval_dense_frac = 0.25;
    f->software.interval_moe_frac = 0.5;
    f->software.interval_anchored_frac = 0.04;
    f->accelerator.name = "h100";
    f->accelerator.arch = ORR_ARCH_HOPPER;
    f->cluster.accelerator = &f->accelerator;
    f->cluster.fabric = &f->fabric;
    f->resolved.software = &f->software;
    f->resolved.cluster = &f->cluster;
    f->resolved.model = &f->model;
    return f;
}

static void expect(fixture *f, const char *scaling, double low, double high) {
    double got_low = 0, got_high = 0;
    orr_residuals_interval(f->residuals, &f->resolved, 0.01, scaling, &got_low, &got_high);
    assert_true(fabs(got_low - low) < 1e-12);
    assert_true(fabs(got_high - high) < 1e-12);
}

/* The mean of the largest of n normal values: 1.423600 of 8, 2.343733 of 64 (tables); in one node
 * nothing is added. */
static void ranks_wait_for_the_slowest(void **state) {
    (void)state;
    fixture *f = new_fixture();
    f->software.straggler_frac = 0.01;
    f->software.step_s = 1;
    f->cluster.gpus_per_node = 8;
    f->resolved.plan.gpus = 8;
    double jitter_s = 1;
    assert_true(orr_step_close(&f->resolved, 5, 2, orr_step_jitter(&f->resolved), &jitter_s) == 8 &&
                jitter_s == 0);
    f->resolved.plan.gpus = 64;
    double step_s = orr_step_close(&f->resolved, 5, 2, orr_step_jitter(&f->resolved), &jitter_s);
    assert_true(fabs(jitter_s - 8 * 0.01 * (2.343733 - 1.423600)) < 8 * 0.01 * 0.02);
    assert_true(fabs(step_s - 8 - jitter_s) < 1e-12);
    orr_arena_free(f->arena);
}

/* Steps that begin before the others have ended are as long as the longest rank. */
static void checked_optimizers_end_with_their_rank(void **state) {
    (void)state;
    fixture *f = new_fixture();
    int64_t end[2] = {90, 100}, first[4] = {0, 30, 20, 50};
    orr_play play = {.rank_end = end, .first_use = first};
    f->resolved.plan.pipe.pp = f->resolved.plan.pipe.vpp = 2;
    f->resolved.plan.pipe.schedule = ORR_SCHEDULE_ZB_2P;
    assert_int_equal(orr_rank_span(&f->resolved, &play, 1), 100);
    f->software.post_validation = 1;
    assert_int_equal(orr_rank_span(&f->resolved, &play, 0), 90);
    assert_int_equal(orr_rank_span(&f->resolved, &play, 1), 80);
    f->resolved.plan.pipe.schedule = ORR_SCHEDULE_ZB_1P;
    assert_int_equal(orr_rank_span(&f->resolved, &play, 1), 100);
    orr_arena_free(f->arena);
}

static void the_nearest_class_decides(void **state) {
    (void)state;
    fixture *f = new_fixture();
    expect(f, "none", 0.9, 1.2);
    f->accelerator.name = "a100";
    f->accelerator.arch = ORR_ARCH_AMPERE;
    expect(f, "none", 0.8, 1.3);
    f->model.kind_count = 1;
    f->model.kind = &experts;
    expect(f, "none", 0.7, 1.4);
    orr_arena_free(f->arena);
}

static void unmeasured_software_keeps_its_own_width(void **state) {
    (void)state;
    fixture *f = new_fixture();
    f->software.name = "b";
    expect(f, "none", 1 / 1.25, 1.25);
    f->model.kind_count = 1;
    f->model.kind = &experts;
    expect(f, "none", 1 / 1.5, 1.5);
    expect(f, "strong", 1 / 1.04, 1.04);
    expect(f, "weak", 0.97, 1.02); /* scaling is alike whatever the software */
    double low = 0, high = 0;
    orr_residuals_interval(f->residuals, &f->resolved, 1, "none", &low, &high);
    assert_true(fabs(high - 2.645) < 1e-12); /* never narrower than the prices admit */
    orr_arena_free(f->arena);
}

static void little_evidence_widens(void **state) {
    (void)state;
    fixture *f = new_fixture();
    f->accelerator.name = "h200"; /* 19 rows */
    expect(f, "none", 1 / 1.2, 1.2);
    f->accelerator.name = "x1"; /* none */
    expect(f, "none", 1 / 1.2, 1.2);
    f->accelerator.name = "a100"; /* 20 rows are enough */
    expect(f, "none", 0.9, 1.2);
    f->accelerator.assumed = 1;
    expect(f, "none", 1 / 1.2, 1.2);
    orr_arena_free(f->arena);
}

static void the_built_in_file_reads(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_residuals *residuals = NULL;
    orr_err err = {0};
    assert_int_equal(orr_residuals_builtin(arena, &residuals, &err), ORR_OK);
    orr_arena_free(arena);
}

static void ratios_hold_their_projection(void **state) {
    (void)state;
    static const char bad[] = "classes: [{rows: 20, low_ratio: 1.1, high_ratio: 1.2}]";
    orr_arena *arena = orr_arena_new();
    orr_tree *tree = NULL;
    orr_residuals *residuals = NULL;
    assert_int_equal(orr_yaml_read(arena, "given", bad, sizeof bad - 1, &tree, NULL), ORR_OK);
    assert_int_equal(orr_residuals_read(arena, tree, &residuals, NULL), ORR_E_SCHEMA);
    orr_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_wait_for_the_slowest),
        cmocka_unit_test(checked_optimizers_end_with_their_rank),
        cmocka_unit_test(the_nearest_class_decides),
        cmocka_unit_test(unmeasured_software_keeps_its_own_width),
        cmocka_unit_test(little_evidence_widens),
        cmocka_unit_test(the_built_in_file_reads),
        cmocka_unit_test(ratios_hold_their_projection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
