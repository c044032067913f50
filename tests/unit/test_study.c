/* The judge itself: statistics on numbers worked out by hand, then a few published rows through
 * every form of the validation. Data: tests/data/study/README.md. */
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
#include "orrery/orrery.h"
#include "orrery/report.h"
#include "study/study_int.h"

#define STUDY_DIR ORR_TEST_DIR "/data/study"

static bool close_to(double a, double b) {
    return fabs(a - b) <= 1e-9 * fmax(1, fabs(b));
}

static double real(const orr_tree *node, const char *path) {
    return orr_tree_real(orr_tree_path(node, path), NAN);
}

/* ---- statistics ----------------------------------------------------------------------------- */

static void quantiles_interpolate(void **state) {
    (void)state;
    double values[] = {4, 1, 3, 2};
    assert_true(close_to(orr_median(values, 4), 2.5));
    assert_true(close_to(orr_quantile(values, 4, 0.9), 3.7));
    assert_true(close_to(orr_quantile(values, 4, 0), 1));
    assert_true(close_to(orr_quantile(values, 4, 1), 4));
    assert_true(close_to(orr_median(values, 0), 0));
}

static const orr_run plain_run = {.source = "s",
                                  .model = "m",
                                  .gpu = "g",
                                  .precision = "bf16",
                                  .sharding = "",
                                  .recompute = "",
                                  .seq_parallel = "",
                                  .schedule = "",
                                  .framework = "",
                                  .notes = "",
                                  .tier = "A",
                                  .profile = "",
                                  .num_gpus = 8,
                                  .seq_len = 4096,
                                  .gbs = 64};

static void fill_rows(orr_judged *rows, orr_run *runs, uint32_t count, const double *measured,
                      const double *projected) {
    for (uint32_t i = 0; i < count; i++) {
        runs[i] = plain_run;
        runs[i].index = i;
        rows[i] = (orr_judged){.run = &runs[i],
                               .gpu = "g",
                               .vendor = "nvidia",
                               .kind = "dense",
                               .software = "x",
                               .measured = measured[i],
                               .projected = projected[i],
                               .low = projected[i] * 0.9,
                               .high = projected[i] * 1.1,
                               .counts = true};
    }
}

static void summaries_count_what_is_missing_as_an_error_of_one(void **state) {
    (void)state;
    enum { N = 4 };
    static const double measured[N] = {100, 100, 100, 100}, projected[N] = {110, 95, 160, 0};
    orr_judged rows[N];
    orr_run runs[N];
    fill_rows(rows, runs, N, measured, projected);
    rows[3].skipped = "not expressed";
    const orr_judged *all[N] = {&rows[0], &rows[1], &rows[2], &rows[3]};
    orr_arena *arena = orr_arena_new();
    const orr_tree *s = orr_summarise(arena, all, N);
    assert_int_equal(orr_tree_int(orr_tree_get(s, "rows"), 0), 4);
    assert_int_equal(orr_tree_int(orr_tree_get(s, "projected"), 0), 3);
    assert_true(close_to(real(s, "median_abs_err"), 0.35)); /* .05 .1 .6 1 */
    assert_true(close_to(real(s, "mean_abs_err"), 1.75 / 4));
    assert_true(close_to(real(s, "bias"), 0.10));
    assert_true(close_to(real(s, "coverage_90"), 2.0 / 3));
    assert_true(close_to(real(s, "width_90"), 0.2));
    orr_arena_free(arena);
}

static void ranking_is_by_pairs_and_ties_count_as_equal(void **state) {
    (void)state;
    enum { N = 4 };
    /* 100 and 101 are a tie; the projection swaps 120 and 140, so it takes 120: regret 1/7. */
    static const double measured[N] = {100, 101, 120, 140}, projected[N] = {50, 50, 80, 70};
    orr_judged rows[N];
    orr_run runs[N];
    fill_rows(rows, runs, N, measured, projected);
    orr_arena *arena = orr_arena_new();
    const orr_tree *s = orr_judge_series(arena, rows, N);
    assert_int_equal(orr_tree_int(orr_tree_get(s, "count"), 0), 1);
    assert_true(close_to(real(s, "mean_kendall_tau"), (4.0 - 1) / 5));
    assert_true(close_to(real(s, "mean_regret"), 1 - 120.0 / 140));
    assert_true(close_to(real(s, "top3_regret"), 0));
    runs[3].gbs = 128; /* three rows are no series */
    s = orr_judge_series(arena, rows, N);
    assert_int_equal(orr_tree_int(orr_tree_get(s, "count"), -1), 0);
    orr_arena_free(arena);
}

/* A gain of 20 % projected as 10 %, a loss projected as a gain, a change within noise. */
static void changes_are_judged_by_their_sign(void **state) {
    (void)state;
    enum { N = 6 };
    static const double measured[N] = {100, 120, 90, 90.5, 99, 50},
                        projected[N] = {100, 110, 115, 100, 100, 50};
    static const char *const notes[N] = {"cumulative: base; x",     "cumulative: +a; x",
                                         "cumulative: +b",          "cumulative: +c",
                                         "cumulative: +launch-opt", "no step"};
    orr_judged rows[N];
    orr_run runs[N];
    fill_rows(rows, runs, N, measured, projected);
    orr_resolved resolved = {.plan = {.gpus = 8}};
    for (int i = 0; i < N; i++) {
        runs[i].notes = notes[i];
        rows[i].resolved = &resolved;
    }
    orr_arena *arena = orr_arena_new();
    orr_curator curator;
    orr_err err = {0};
    assert_int_equal(orr_curator_of(arena, orr_tree_new_map(arena), &curator, &err), ORR_OK);
    const orr_tree *all = orr_judge_ladders(&curator, arena, rows, N);
    assert_int_equal(orr_tree_size(all), 1);
    const orr_tree *one = orr_tree_at(all, 0), *steps = orr_tree_get(one, "steps");
    assert_int_equal(orr_tree_size(steps), 5);
    assert_int_equal(orr_tree_int(orr_tree_get(one, "signs_told"), 0), 2);
    assert_int_equal(orr_tree_int(orr_tree_get(one, "not_in_plan"), 0), 1);
    assert_int_equal(orr_tree_int(orr_tree_get(one, "signs_right"), 0), 1);
    assert_string_equal(orr_tree_text(orr_tree_get(orr_tree_at(steps, 1), "lever"), ""), "+a");
    assert_true(close_to(real(orr_tree_at(steps, 1), "projected_gain"), 0.1));
    assert_string_equal(orr_tree_text(orr_tree_get(orr_tree_at(steps, 2), "sign"), ""), "wrong");
    assert_string_equal(orr_tree_text(orr_tree_get(orr_tree_at(steps, 3), "sign"), ""),
                        "within noise");
    assert_string_equal(orr_tree_text(orr_tree_get(orr_tree_at(steps, 4), "sign"), ""),
                        "not in a plan");
    orr_curator_release(&curator);
    orr_arena_free(arena);
}

static void more_gpus_cannot_be_faster_each(void **state) {
    (void)state;
    enum { N = 4 };
    static const double rate[N] = {100, 130, 90, 126};
    orr_run runs[N];
    for (uint32_t i = 0; i < N; i++) {
        runs[i] = plain_run;
        runs[i].index = i;
        runs[i].num_gpus = 8 << (i < 2 ? i : 0);
        runs[i].tokens_per_s_per_gpu = rate[i];
        runs[i].sharding = i == 3 ? "zero1" : "none";
    }
    orr_run_table table = {N, runs};
    orr_arena *arena = orr_arena_new();
    const orr_run **found = NULL;
    /* Row 0 by row 1 (16 GPUs) and row 3 (sharding alone); row 2 likewise; a repeat says nothing.
     */
    assert_int_equal(orr_disturbed_find(arena, &table, &found), 2);
    assert_int_equal(found[0]->index, 0);
    assert_int_equal(found[1]->index, 2);
    table.count = 1;
    assert_int_equal(orr_disturbed_find(arena, &table, &found), 0);
    orr_arena_free(arena);
}

/* ---- published rows ------------------------------------------------------------------------- */

static orr_study_request request_of(void) {
    return (orr_study_request){.runs = STUDY_DIR "/runs.csv",
                               .models = STUDY_DIR "/models.json",
                               .tiers = STUDY_DIR "/tiers.csv",
                               .oom = STUDY_DIR "/oom.csv",
                               .anchored = true};
}

static const orr_tree *judge_runs(orr_arena *arena) {
    orr_study_request request = request_of();
    orr_engine *engine = orr_engine_new();
    orr_tree *result = NULL;
    orr_err err = {0};
    if (orr_study_runs(engine, arena, &request, &result, &err) != ORR_OK) {
        fail_msg("%s", err.message);
    }
    orr_engine_free(engine);
    return result;
}

static void every_row_is_projected_or_counted(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    const orr_tree *result = judge_runs(arena);
    const orr_tree *rows = orr_tree_get(result, "rows"), *skipped = orr_tree_get(result, "skipped");
    int64_t projected = 0, left_out = 0, counting = 0;
    assert_int_equal(orr_tree_size(rows), 30);
    for (size_t i = 0; i < orr_tree_size(rows); i++) {
        const orr_tree *row = orr_tree_at(rows, i);
        bool done = orr_tree_get(row, "error") != NULL;
        assert_int_equal(orr_tree_int(orr_tree_get(row, "index"), -1), (int64_t)i);
        assert_int_equal(done, orr_tree_text(orr_tree_get(row, "skipped"), NULL) == NULL);
        bool counts = orr_tree_bool(orr_tree_get(row, "counts"), false);
        projected += done && counts;
        counting += counts;
        if (done) {
            assert_true(
                close_to(real(row, "error"), real(row, "projected") / real(row, "measured") - 1));
            assert_true(real(row, "low") < real(row, "projected"));
            assert_true(real(row, "high") > real(row, "projected"));
        }
    }
    for (size_t i = 0; i < orr_tree_size(skipped); i++) {
        left_out += orr_tree_int(orr_tree_get(orr_tree_at(skipped, i), "count"), 0);
    }
    assert_int_equal(orr_tree_int(orr_tree_path(result, "summary.rows"), -1), counting);
    assert_int_equal(orr_tree_int(orr_tree_path(result, "summary.projected"), -1), projected);
    assert_true(left_out >= 1);
    assert_true(projected >= 25);
    assert_true(real(result, "summary.median_abs_err") < 0.25);
    orr_arena_free(arena);
}

static void groups_add_up(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    const orr_tree *result = judge_runs(arena), *by = orr_tree_get(result, "by");
    int64_t rows = orr_tree_int(orr_tree_path(result, "summary.rows"), 0);
    assert_int_equal(orr_tree_size(by), 5);
    for (size_t i = 0; i < orr_tree_size(by); i++) {
        const orr_tree *group = orr_tree_at(by, i);
        int64_t sum = 0;
        for (size_t k = 0; k < orr_tree_size(group); k++) {
            sum += orr_tree_int(orr_tree_get(orr_tree_at(group, k), "rows"), 0);
        }
        assert_int_equal(sum, rows);
    }
    assert_int_equal(orr_tree_size(orr_tree_get(by, "vendor")), 2);
    orr_arena_free(arena);
}

static void anchors_are_not_scored(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    const orr_tree *result = judge_runs(arena);
    /* Four more scales of one configuration with the batch per GPU kept, in five rows. */
    assert_true(real(result, "anchored.weak.pairs") >= 3);
    assert_true(real(result, "anchored.weak.median_abs_err") < 0.05);
    double error = real(result, "anchored.weak.median_abs_err");
    double null = real(result, "anchored.weak.null_median_abs_err");
    assert_true(close_to(real(result, "anchored.weak.skill"), 1 - error / null));
    const orr_tree *pairs = orr_tree_path(result, "anchored.weak.rows");
    assert_int_equal(orr_tree_size(pairs), (size_t)real(result, "anchored.weak.pairs"));
    const orr_tree *pair = orr_tree_at(pairs, 0);
    assert_true(real(pair, "gpus") > real(pair, "anchor_gpus"));
    assert_true(
        close_to(real(pair, "error"), real(pair, "projected") / real(pair, "measured") - 1));
    orr_arena_free(arena);
}

static void disturbed_rows_are_found(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    const orr_tree *list = orr_tree_get(judge_runs(arena), "disturbed");
    assert_int_equal(orr_tree_size(list), 1);
    orr_arena_free(arena);
}

/* What was projected before must not change what comes after: rows alone and rows together. */
static void order_does_not_matter(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_study_request request = request_of();
    orr_run_table table;
    orr_curator together, alone;
    orr_err err = {0};
    assert_int_equal(orr_runs_read(arena, request.runs, request.tiers, &table, &err), ORR_OK);
    assert_int_equal(orr_curator_new(arena, request.models, &together, &err), ORR_OK);
    orr_engine *engine = orr_engine_new();
    orr_judged *rows = NULL;
    assert_int_equal(orr_judge_rows(engine, &together, arena, &request, &table, &rows, &err),
                     ORR_OK);
    uint32_t compared = 0;
    for (uint32_t i = table.count; i-- > 0;) {
        orr_run_table one = {1, &table.run[i]};
        orr_judged *single = NULL;
        orr_engine *fresh = orr_engine_new();
        assert_int_equal(orr_curator_new(arena, request.models, &alone, &err), ORR_OK);
        assert_int_equal(orr_judge_rows(fresh, &alone, arena, &request, &one, &single, &err),
                         ORR_OK);
        if (rows[i].skipped == NULL) {
            assert_true(single->skipped == NULL);
            assert_memory_equal(&single->projected, &rows[i].projected, sizeof(double));
            assert_memory_equal(&single->high, &rows[i].high, sizeof(double));
            compared++;
        }
        orr_curator_release(&alone);
        orr_engine_free(fresh);
    }
    assert_true(compared >= 25);
    orr_curator_release(&together);
    orr_engine_free(engine);
    orr_arena_free(arena);
}

static bool stop_at_once(void *user, double done, double total) {
    (void)total;
    *(double *)user = done;
    return false;
}

static void a_caller_may_stop_it(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_study_request request = request_of();
    double done = 0;
    request.progress = stop_at_once;
    request.progress_user = &done;
    orr_engine *engine = orr_engine_new();
    orr_tree *result = NULL;
    orr_err err = {0};
    assert_int_equal(orr_study_runs(engine, arena, &request, &result, &err), ORR_E_CANCELLED);
    assert_true(close_to(done, 1));
    orr_engine_free(engine);
    orr_arena_free(arena);
}

/* ---- memory --------------------------------------------------------------------------------- */

static const orr_tree *find_row(const orr_tree *result, const orr_run_table *table,
                                const char *source) {
    const orr_tree *rows = orr_tree_get(result, "rows");
    for (size_t i = 0; i < orr_tree_size(rows); i++) {
        const orr_tree *row = orr_tree_at(rows, i);
        int64_t index = orr_tree_int(orr_tree_get(row, "index"), -1);
        if (strstr(table->run[index].source, source) != NULL && table->run[index].pp > 1) {
            return row;
        }
    }
    fail_msg("no row of %s", source);
    return NULL;
}

static bool says(const orr_tree *row, const char *key, const char *word) {
    return strcmp(orr_tree_text(orr_tree_get(row, key), ""), word) == 0;
}

static void like_is_compared_with_like(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_study_request request = request_of();
    orr_engine *engine = orr_engine_new();
    orr_run_table table;
    orr_tree *result = NULL;
    orr_err err = {0};
    assert_int_equal(orr_runs_read(arena, request.runs, NULL, &table, &err), ORR_OK);
    assert_int_equal(orr_study_memory(engine, arena, &request, &result, &err), ORR_OK);
    const orr_tree *paper = find_row(result, &table, "Zero Bubble");
    const orr_tree *mlperf = find_row(result, &table, "MLPerf");
    assert_true(says(paper, "figure", "allocated") && says(paper, "rank", "max"));
    assert_true(close_to(real(paper, "projected"), real(paper, "allocated")));
    assert_true(says(mlperf, "rank", "first"));
    assert_true(real(mlperf, "projected") <= real(mlperf, "allocated") * (1 + 1e-12));
    assert_true(real(result, "summary.median_abs_err") < 0.2);
    assert_true(real(result, "summary.projected") >= 20);
    orr_engine_free(engine);
    orr_arena_free(arena);
}

static void verdicts_add_up(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_study_request request = request_of();
    orr_engine *engine = orr_engine_new();
    orr_tree *result = NULL;
    orr_err err = {0};
    assert_int_equal(orr_study_memory(engine, arena, &request, &result, &err), ORR_OK);
    const orr_tree *verdict = orr_tree_get(result, "verdict");
    static const char *const outcomes[] = {"fits", "oom", "does_not_start", "depends"};
    const orr_tree *by = orr_tree_path(verdict, "by.source");
    double failed = 0;
    for (size_t o = 0; o < 4; o++) {
        const char *ran = orr_arena_format(arena, "ran_%s", outcomes[o]);
        const char *fell = orr_arena_format(arena, "failed_%s", outcomes[o]);
        double sum = 0;
        for (size_t i = 0; i < orr_tree_size(by); i++) {
            sum += real(orr_tree_at(by, i), ran);
        }
        assert_true(close_to(sum, real(verdict, ran)));
        failed += real(verdict, fell);
    }
    assert_true(close_to(failed, 14));
    assert_int_equal(orr_tree_size(orr_tree_get(result, "failed_rows")), 14);
    double right = real(verdict, "failed_oom") + real(verdict, "failed_does_not_start");
    assert_true(right >= 12);
    assert_true(real(verdict, "balanced_accuracy") > 0.9);
    assert_true(real(verdict, "brier") < 0.1);
    orr_engine_free(engine);
    orr_arena_free(arena);
}

/* ---- beside the tables ---------------------------------------------------------------------- */

static const orr_tree *read_json(orr_arena *arena, const char *text) {
    orr_tree *tree = NULL;
    assert_int_equal(orr_json_read(arena, "given", text, strlen(text), &tree, NULL), ORR_OK);
    return tree;
}

static void a_headline_fails_when_it_gets_worse(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_tree *check = NULL;
    orr_err err = {0};
    const char *path = STUDY_DIR "/headline.json";
    const orr_tree *good = read_json(arena, "{\"summary\":{\"median_abs_err\":0.1004,"
                                            "\"projected\":31},\"series\":{\"count\":2}}");
    const orr_tree *bad = read_json(arena, "{\"summary\":{\"median_abs_err\":0.1006,"
                                           "\"projected\":29},\"series\":{}}");
    assert_int_equal(orr_study_expect(arena, good, path, &check, &err), ORR_OK);
    assert_true(orr_tree_bool(orr_tree_get(check, "passed"), false));
    assert_int_equal(orr_study_expect(arena, bad, path, &check, &err), ORR_OK);
    assert_false(orr_tree_bool(orr_tree_get(check, "passed"), true));
    assert_int_equal(orr_tree_size(orr_tree_get(check, "failures")), 3);
    assert_int_equal(orr_study_expect(arena, good, STUDY_DIR "/models.json", &check, &err),
                     ORR_E_SCHEMA);
    orr_arena_free(arena);
}

static void rows_become_csv(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    const orr_tree *result = read_json(
        arena, "{\"rows\":[{\"a\":1,\"b\":\"x,\\\"y\\\"\"},{\"a\":0.5,\"c\":true,\"b\":null}]}");
    assert_string_equal(orr_study_rows_csv(arena, result),
                        "a,b,c\n1,\"x,\"\"y\"\"\",\n0.5,,true\n");
    orr_arena_free(arena);
}

static uint32_t count_of(const char *text, const char *part) {
    uint32_t n = 0;
    for (const char *p = text; (p = strstr(p, part)) != NULL; p++) {
        n++;
    }
    return n;
}

static void add_point(orr_arena *arena, orr_tree *rows, const char *model, const char *gpu,
                      const char *precision, double error, bool counts) {
    orr_tree *row = orr_tree_push(arena, rows, orr_tree_new_map(arena));
    orr_tree_put_text(arena, row, "model", model);
    orr_tree_put_text(arena, row, "gpu", gpu);
    orr_tree_put_text(arena, row, "precision", precision);
    orr_tree_put_bool(arena, row, "counts", counts);
    orr_tree_put_real(arena, row, "error", error);
}

static void the_heat_map_has_a_signed_cell_for_each_pair(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_tree *result = orr_tree_new_map(arena);
    orr_tree *rows = orr_tree_put(arena, result, "rows", orr_tree_new_list(arena));
    static const double errors[] = {0.07, 0.09, 0.0, 0.5};
    for (int i = 0; i < 4; i++) { /* median 8 %; formats that differ in scaling share a column */
        add_point(arena, rows, "A&B", "h100", i % 2 == 0 ? "fp8" : "fp8_cs", errors[i], true);
    }
    add_point(arena, rows, "C", "b200", "bf16", -0.3, true);
    add_point(arena, rows, "C", "b200", "bf16", 9, false); /* its tier does not count */
    add_point(arena, rows, "E", "b200", "fp16", -0.3, true);
    const char *svg = orr_report_heatmap(arena, result);
    assert_int_equal(count_of(svg, "<g>"), 2);
    assert_int_equal(count_of(svg, "</g>"), 2);
    assert_non_null(strstr(svg, ">A&amp;B<"));
    assert_non_null(strstr(svg, ">+8<"));
    assert_non_null(strstr(svg, ">\u221230<"));
    assert_null(strstr(svg, ">C<")); /* few runs: C and E share a line */
    assert_non_null(strstr(svg, ">models with fewer runs<"));
    assert_non_null(strstr(svg, ">h100 fp8<"));
    assert_non_null(strstr(svg, "</svg>"));
    orr_arena_free(arena);
}

/* An interval is the residuals' of the nearest class that has twenty rows. */
static void residuals_give_the_interval_of_the_next_run(void **state) {
    (void)state;
    enum { N = 39 };
    double measured[N], projected[N];
    for (int i = 0; i < N; i++) {
        projected[i] = 100;
        measured[i] = 81 + i; /* 81 .. 119 */
    }
    orr_judged rows[N];
    orr_run runs[N];
    orr_accelerator accelerator = {.arch = ORR_ARCH_HOPPER};
    orr_cluster cluster = {.accelerator = &accelerator};
    static orr_resolved resolved;
    resolved.cluster = &cluster;
    orr_residual residuals[N];
    fill_rows(rows, runs, N, measured, projected);
    for (int i = 0; i < N; i++) {
        rows[i].resolved = &resolved;
        residuals[i] = (orr_residual){&rows[i], "none", log(measured[i] / projected[i])};
    }
    orr_arena *arena = orr_arena_new();
    const orr_tree *out = orr_residuals_write(arena, residuals, N);
    const orr_tree *one = orr_tree_at(orr_tree_get(out, "classes"), 0);
    assert_string_equal(orr_tree_text(orr_tree_get(one, "software"), ""), "x");
    assert_string_equal(orr_tree_text(orr_tree_get(one, "arch"), ""), "hopper");
    assert_true(close_to(real(one, "low_ratio"), 0.82)); /* the second of 39: 40 x 5 % */
    assert_true(close_to(real(one, "high_ratio"), 1.18));
    assert_true(close_to(real(orr_tree_at(orr_tree_get(out, "devices"), 0), "rows"), N));
    out = orr_residuals_write(arena, residuals, 19);
    assert_int_equal(orr_tree_size(orr_tree_get(out, "classes")), 0);
    orr_arena_free(arena);
}

/* Every effect changes the table, and without none it is the table. */
static void ablation_starts_from_the_table(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_study_request request = request_of();
    orr_engine *engine = orr_engine_new();
    orr_tree *result = NULL;
    orr_err err = {0};
    request.ablate = true;
    assert_int_equal(orr_study_runs(engine, arena, &request, &result, &err), ORR_OK);
    const orr_tree *list = orr_tree_get(result, "ablations");
    assert_string_equal(orr_tree_text(orr_tree_path(list, "0.effect"), ""), "nothing");
    assert_true(
        close_to(real(list, "0.summary.mean_abs_err"), real(result, "summary.mean_abs_err")));
    uint32_t changed = 0;
    for (size_t i = 1; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        changed +=
            fabs(real(one, "summary.mean_abs_err") - real(result, "summary.mean_abs_err")) > 1e-9;
    }
    assert_true(orr_tree_size(list) > 25);
    assert_int_equal(orr_tree_size(orr_tree_path(list, "0.group_medians")), 5);
    assert_true(real(list, "2.group_medians.nvidia_dense") >
                real(list, "0.group_medians.nvidia_dense"));
    assert_true(changed >= 18);
    /* Work taken away makes projections faster. */
    assert_true(real(list, "1.summary.bias") >= real(list, "0.summary.bias"));
    assert_true(real(list, "2.summary.bias") > real(list, "0.summary.bias"));
    orr_engine_free(engine);
    orr_arena_free(arena);
}

static void call_with(const char *const *pairs, orr_status want) {
    orr_arena *arena = orr_arena_new();
    orr_ctx *ctx = NULL;
    orr_err err = {0};
    assert_int_equal(orr_ctx_new(NULL, &ctx, &err), ORR_OK);
    orr_tree *args = orr_tree_new_map(arena), *envelope = NULL;
    for (; *pairs != NULL; pairs += 2) {
        orr_tree_put_text(arena, args, pairs[0], pairs[1]);
    }
    assert_int_equal(orr_call(ctx, "validate", args, arena, &envelope, &err), want);
    if (want == ORR_OK) {
        orr_report_options options = {.width = 100};
        const char *text = orr_report_text(arena, envelope, &options);
        assert_non_null(orr_tree_get(envelope, "summary"));
        assert_non_null(strstr(text, "rows"));
    }
    orr_ctx_free(ctx);
    orr_arena_free(arena);
}

static void one_form_a_call(void **state) {
    (void)state;
    call_with((const char *const[]){NULL}, ORR_E_USAGE);
    call_with((const char *const[]){"runs", STUDY_DIR "/runs.csv", NULL}, ORR_E_USAGE);
    call_with((const char *const[]){"runs", STUDY_DIR "/runs.csv", "schedules", STUDY_DIR, NULL},
              ORR_E_USAGE);
    call_with((const char *const[]){"runs", STUDY_DIR "/no.csv", "models", STUDY_DIR "/models.json",
                                    NULL},
              ORR_E_IO);
    call_with((const char *const[]){"runs", STUDY_DIR "/models.json", "models",
                                    STUDY_DIR "/models.json", NULL},
              ORR_E_SCHEMA);
    call_with((const char *const[]){"runs", STUDY_DIR "/runs.csv", "models",
                                    STUDY_DIR "/models.json", NULL},
              ORR_OK);
    call_with((const char *const[]){"runs", STUDY_DIR "/runs.csv", "models",
                                    STUDY_DIR "/models.json", "memory", "on", NULL},
              ORR_OK);
    call_with((const char *const[]){"kernels", STUDY_DIR "/runs.csv", NULL}, ORR_E_SCHEMA);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_interpolate),
        cmocka_unit_test(summaries_count_what_is_missing_as_an_error_of_one),
        cmocka_unit_test(ranking_is_by_pairs_and_ties_count_as_equal),
        cmocka_unit_test(changes_are_judged_by_their_sign),
        cmocka_unit_test(more_gpus_cannot_be_faster_each),
        cmocka_unit_test(every_row_is_projected_or_counted),
        cmocka_unit_test(groups_add_up),
        cmocka_unit_test(anchors_are_not_scored),
        cmocka_unit_test(disturbed_rows_are_found),
        cmocka_unit_test(order_does_not_matter),
        cmocka_unit_test(a_caller_may_stop_it),
        cmocka_unit_test(like_is_compared_with_like),
        cmocka_unit_test(verdicts_add_up),
        cmocka_unit_test(a_headline_fails_when_it_gets_worse),
        cmocka_unit_test(rows_become_csv),
        cmocka_unit_test(the_heat_map_has_a_signed_cell_for_each_pair),
        cmocka_unit_test(residuals_give_the_interval_of_the_next_run),
        cmocka_unit_test(ablation_starts_from_the_table),
        cmocka_unit_test(one_form_a_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
