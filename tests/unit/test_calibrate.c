#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "../calibration_fixture.h"

#include "base/arena.h"
#include "base/rng.h"
#include "calibrate/calibrate.h"
#include "calibrate/kriging.h"
#include "calibrate/robust.h"
#include "cost/cost.h"

/* ---- the solver ----------------------------------------------------------------------------- */

typedef struct line {
    double start, rate, share;
} line;
typedef struct line_sample {
    orr_sample head;
    double x;
} line_sample;

static double line_model(const void *constants, const void *sample, const void *user) {
    (void)user;
    const line *l = (const line *)constants;
    double x = ((const line_sample *)sample)->x;
    return l->start + x / l->rate * (1 - 0.5 * l->share * (x > 100 ? 1 : 0));
}

static void robust_fit_survives_outliers(void **state) {
    (void)state;
    static const orr_parameter parameters[] = {
        {"start", offsetof(line, start), 1, 0.01, 100, 0.001, ORR_SCALE_LOG, 0},
        {"rate", offsetof(line, rate), 1, 0.01, 100, 0.001, ORR_SCALE_LOG, 0},
        {"share", offsetof(line, share), 0.5, 0, 1, 0.001, ORR_SCALE_SHARE, 0},
    };
    const line truth = {3, 7, 0.25};
    enum { ROWS = 300 };
    line_sample *sample = ORR_NEW_ARRAY(arena, line_sample, ROWS);
    orr_rng rng = {5};
    for (uint32_t i = 0; i < ROWS; i++) {
        sample[i] = (line_sample){.head = {.weight = 1, .block = i / 3, .training = i % 2 == 0},
                                  .x = 1 + 400 * orr_rng_unit(&rng)};
        sample[i].head.time_s = line_model(&truth, &sample[i], NULL);
        if (i % 10 == 0) {
            sample[i].head.time_s *= 3; /* a tenth of the rows is wrong */
        }
    }
    const orr_fit_task task = {.parameter = parameters,
                               .parameter_count = 3,
                               .constants_bytes = sizeof(line),
                               .sample = sample,
                               .sample_bytes = sizeof *sample,
                               .count = ROWS,
                               .model = line_model};
    line found = {0};
    (void)orr_robust_fit_most(&task, ROWS, &found);
    assert_true(fabs(found.start / truth.start - 1) < 0.05);
    assert_true(fabs(found.rate / truth.rate - 1) < 0.05);
    assert_true(fabs(found.share - truth.share) < 0.08);
    orr_validated judged;
    orr_robust_validate(arena, &task, ROWS, 3, &found, &judged);
    assert_int_equal(judged.all.rows, ROWS);
    assert_int_equal(judged.training.rows + judged.small.rows, ROWS);
    assert_true(judged.all.median < 0.03);
    line again = {0};
    (void)orr_robust_fit_most(&task, ROWS, &again);
    assert_memory_equal(&again, &found, sizeof found);
}

static double floor_model(const void *constants, const void *sample, const void *user) {
    (void)user;
    const line *l = (const line *)constants;
    return fmax(l->start, ((const line_sample *)sample)->x / l->rate);
}

/* A floor that starts below all samples moves none of them: only another start finds it. */
static void another_start_finds_what_the_first_hides(void **state) {
    (void)state;
    orr_parameter parameters[] = {
        {"start", offsetof(line, start), 1e-3, 1e-4, 1e3, 0.001, ORR_SCALE_LOG, 0},
        {"rate", offsetof(line, rate), 1, 0.01, 100, 0.001, ORR_SCALE_LOG, 0},
    };
    const line truth = {50, 2, 0};
    enum { ROWS = 60 };
    line_sample *sample = ORR_NEW_ARRAY(arena, line_sample, ROWS);
    for (uint32_t i = 0; i < ROWS; i++) {
        sample[i] = (line_sample){.head = {.weight = 1, .block = i}, .x = 10 + 5.0 * i};
        sample[i].head.time_s = floor_model(&truth, &sample[i], NULL);
    }
    const orr_fit_task task = {.parameter = parameters,
                               .parameter_count = 2,
                               .constants_bytes = sizeof(line),
                               .sample = sample,
                               .sample_bytes = sizeof *sample,
                               .count = ROWS,
                               .model = floor_model};
    line hidden = {0}, found = {0};
    (void)orr_robust_fit_most(&task, ROWS, &hidden);
    parameters[0].other_start = 10;
    (void)orr_robust_fit_most(&task, ROWS, &found);
    assert_true(hidden.start < 1);
    assert_true(fabs(found.start / truth.start - 1) < 0.02);
    assert_true(fabs(found.rate / truth.rate - 1) < 0.02);
}

/* A relative measured sizes that a fit has no rows of: its surface takes their word there. */
static void surfaces_learn_from_relatives(void **state) {
    (void)state;
    static const orr_surface_plan plan = {
        .dims = 1, .step = {{4}, {2}, {1}}, .pull = {1, 1, 1}, .least_rows = 10};
    enum { ROWS = 40 };
    const line constants = {1, 1, 0};
    line_sample *sample = ORR_NEW_ARRAY(arena, line_sample, ROWS);
    orr_remainder *kin = ORR_NEW_ARRAY(arena, orr_remainder, ROWS);
    for (uint32_t i = 0; i < ROWS; i++) {
        sample[i].head.weight = 1;
        sample[i].x = 10;
        sample[i].head.time_s = 11;
        sample[i].head.place[0] = i % 5;
        kin[i] = (orr_remainder){.place = {10 + i % 5}, .residual = 0.4, .weight = 0.7};
    }
    orr_fit_task task = {.constants_bytes = sizeof(line),
                         .sample = sample,
                         .sample_bytes = sizeof *sample,
                         .count = ROWS,
                         .model = line_model,
                         .surface = &plan};
    const double here[ORR_SURFACE_DIMS] = {2}, there[ORR_SURFACE_DIMS] = {12};
    orr_surface alone, together;
    assert_true(orr_robust_surface(arena, &task, &constants, &alone));
    task.kin = kin;
    task.kin_count = ROWS;
    assert_true(orr_robust_surface(arena, &task, &constants, &together));
    assert_true(fabs(orr_surface_log(&alone, there)) < 0.01);
    assert_true(orr_surface_log(&together, there) > 0.3);
    assert_true(fabs(orr_surface_log(&together, here)) < 0.02);
}

/* ---- how sure ------------------------------------------------------------------------------- */

/* Errors three times as large at one end of the space of shapes; every row its own block. */
static orr_spread spread_of(size_t count, uint32_t rows_of_a_block) {
    static const double STEP[] = {4};
    double(*place)[ORR_SURFACE_DIMS] =
        (double(*)[ORR_SURFACE_DIMS])orr_arena_array(arena, count, sizeof *place);
    orr_left *left = ORR_NEW_ARRAY(arena, orr_left, count);
    orr_rng rng = {11};
    for (size_t i = 0; i < count; i++) {
        place[i][0] = 16 * orr_rng_unit(&rng);
        double normal = -6;
        for (int j = 0; j < 12; j++) {
            normal += orr_rng_unit(&rng);
        }
        left[i] = (orr_left){.error = normal * (place[i][0] < 8 ? 0.15 : 0.05),
                             .place = place[i],
                             .block = (uint32_t)i / rows_of_a_block,
                             .training = true};
    }
    orr_spread spread;
    orr_spread_fit(arena, left, count, 1, STEP, &spread);
    return spread;
}

static double error_at(const orr_spread *spread, double octaves) {
    static const orr_transfer transfer = {.octave_frac = 0.05};
    orr_fit fit = {.error_training_frac = spread->training_frac,
                   .spread = spread->has_surface ? &spread->surface : NULL,
                   .cover = spread->cover};
    const double place[ORR_SURFACE_DIMS] = {octaves};
    return orr_fit_error(&fit, &transfer, place, true);
}

static void errors_follow_the_shape(void **state) {
    (void)state;
    orr_spread many = spread_of(4000, 1), few = spread_of(50, 1), blocks = spread_of(4000, 100);
    assert_true(fabs(error_at(&many, 3) / 0.15 - 1) < 0.2);
    assert_true(fabs(error_at(&many, 13) / 0.05 - 1) < 0.2);
    /* outside: further off with each octave, by what the file says */
    assert_true(fabs(error_at(&many, 20) - hypot(error_at(&many, 16), 0.05 * 4)) < 0.01);
    assert_true(error_at(&many, 40) > 1);
    /* too few rows say nothing of places, and less of the whole */
    assert_false(few.has_surface);
    assert_true(fabs(error_at(&few, 3) - error_at(&few, 13)) < 1e-12);
    /* a hundred rows of one block are hardly more than one */
    assert_true(blocks.training_frac > 1.05 * many.training_frac);
}

static void messages_beyond_all_sizes_are_less_sure(void **state) {
    (void)state;
    static const orr_transfer transfer = {.octave_frac = 0.05};
    orr_fit fit = {.error_training_frac = 0.03, .cover = {.dims = 1}};
    orr_message_place(1 << 10, fit.cover.low);
    orr_message_place(1 << 29, fit.cover.high);
    assert_true(fabs(orr_message_error(&fit, &transfer, 1 << 29) - 0.03) < 1e-12);
    assert_true(fabs(orr_message_error(&fit, &transfer, 0x1p33) - hypot(0.03, 4 * 0.05)) < 1e-12);
}

static void covers_are_read_as_written(void **state) {
    (void)state;
    const orr_span here = {0};
    orr_cover cover = {.dims = 2, .low = {0, -1.5}, .high = {16.2, 7}}, back;
    orr_text text = orr_text_new(arena, 256);
    orr_cover_write(&text, &cover);
    const char *written = orr_text_done(&text);
    assert_string_equal(written, "0.0 16.2 -1.5 7.0");
    assert_int_equal(orr_cover_read(written, here, &back, NULL), ORR_OK);
    assert_int_equal(back.dims, 2);
    const double inside[] = {5, 0}, outside[] = {19.2, -5.5};
    assert_true(orr_cover_octaves(&back, inside) == 0);
    assert_true(fabs(orr_cover_octaves(&back, outside) - 5) < 1e-9);
    static const char *const bad[] = {"",     "1", "2 1", "1 2 3", "a b", "1 2 1 2 1 2 1 2 1 2 1 2",
                                      "1 nan"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(orr_cover_read(bad[i], here, &back, NULL), ORR_E_SCHEMA);
    }
}

/* ---- kriging -------------------------------------------------------------------------------- */

static double likeness(const void *user, uint32_t a, uint32_t b) {
    return a == b ? 1 : *(const double *)user;
}

/* Two sets that jump at the same size; one of them was not measured there. */
static void relatives_fill_what_a_set_lacks(void **state) {
    (void)state;
    static const orr_kriging plan = {0.3, 2, 0.2, 0.8, 0.05, 4, 0.05, 0.01};
    enum { SIZES = 20, JUMP = 12, MISSING = 13 };
    orr_krige_row row[2 * SIZES];
    size_t count = 0;
    for (uint32_t set = 0; set < 2; set++) {
        for (uint32_t i = 0; i < SIZES; i++) {
            if (set == 1 || i != MISSING) { /* set 1 is slower by a fixed 3 % */
                double residual = (i == JUMP || i == MISSING ? 0.5 : 0) + 0.03 * set;
                row[count++] = (orr_krige_row){10 + i, residual, set};
            }
        }
    }
    double place[ORR_SURFACE_DIMS] = {2.0 * (10 + MISSING)};
    orr_surface with, alone;
    double close = 0.95, none = 0;
    orr_krige(arena, &plan, row, count, 0, likeness, &close, &with);
    orr_krige(arena, &plan, row, count, 0, likeness, &none, &alone);
    double filled = orr_surface_log(&with, place), guessed = orr_surface_log(&alone, place);
    assert_true(fabs(filled - 0.5) < 0.08);
    assert_true(fabs(filled - 0.5) < fabs(guessed - 0.5));
    /* its own rows it keeps */
    place[0] = 2.0 * (10 + JUMP);
    assert_true(fabs(orr_surface_log(&with, place) - 0.5) < 0.03);
    /* what has nothing in common adds nothing: the same as without those rows */
    orr_surface own;
    orr_krige(arena, &plan, row, SIZES - 1, 0, likeness, &close, &own);
    place[0] = 2.0 * (10 + MISSING);
    assert_true(fabs(orr_surface_log(&own, place) - guessed) < 0.003);
}

/* ---- files ---------------------------------------------------------------------------------- */

static const char *sample_path(const char *name) {
    return orr_arena_format(arena, ORR_TEST_DIR "/data/kernels/%s.csv", name);
}

/* What calibrate writes is what the reader takes, and the same bytes each time. */
static void files_read_back(void **state) {
    (void)state;
    static const char *const classes[] = {"memops", "collectives"};
    for (size_t i = 0; i < 2; i++) {
        orr_tree *file = NULL, *again = NULL, *parsed = NULL;
        orr_err err = {0};
        const char *path = sample_path(classes[i]);
        assert_int_equal(orr_calibrate(arena, path, NULL, builtin, NULL, &file, &err), ORR_OK);
        assert_int_equal(orr_calibrate(arena, path, classes[i], builtin, NULL, &again, &err),
                         ORR_OK);
        const char *text = orr_calibrate_yaml(arena, file);
        assert_string_equal(text, orr_calibrate_yaml(arena, again));
        assert_int_equal(orr_yaml_read(arena, "x.yaml", text, strlen(text), &parsed, &err), ORR_OK);
        orr_calibration *into = ORR_NEW(arena, orr_calibration);
        assert_int_equal(orr_calibration_add(arena, parsed, into, &err), ORR_OK);
        assert_int_equal(into->stream_count + into->collective_count,
                         orr_tree_size(orr_tree_get(file, "fits")));
    }
    orr_tree *file = NULL;
    orr_err err = {0};
    assert_int_equal(orr_calibrate(arena, sample_path("gemm"), "gems", builtin, NULL, &file, &err),
                     ORR_E_NAME);
    assert_int_equal(orr_calibrate(arena, "/nonexistent.csv", NULL, builtin, NULL, &file, &err),
                     ORR_E_IO);
}

/* Lines of a table after its head, last first. */
static const char *reversed(const char *path) {
    char *text = NULL;
    size_t length = 0;
    orr_err err = {0};
    assert_int_equal(orr_file_read(arena, path, &text, &length, &err), ORR_OK);
    static const char out_path[] = "/tmp/orr_reversed.csv";
    FILE *out = fopen(out_path, "w");
    assert_non_null(out);
    size_t head = strcspn(text, "\n") + 1, end = length;
    (void)fwrite(text, 1, head, out);
    while (end > head) {
        size_t start = end - 1;
        while (start > head && text[start - 1] != '\n') {
            start--;
        }
        (void)fwrite(text + start, 1, end - start, out);
        end = start;
    }
    (void)fclose(out);
    return out_path;
}

static void the_order_of_rows_changes_nothing(void **state) {
    (void)state;
    static const char *const classes[] = {"memops", "collectives", "gemm"};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        orr_tree *file = NULL, *again = NULL;
        orr_err err = {0};
        const char *path = sample_path(classes[i]);
        assert_int_equal(orr_calibrate(arena, path, classes[i], builtin, NULL, &file, &err),
                         ORR_OK);
        assert_int_equal(
            orr_calibrate(arena, reversed(path), classes[i], builtin, NULL, &again, &err), ORR_OK);
        assert_string_equal(strstr(orr_calibrate_yaml(arena, file), "fits:"),
                            strstr(orr_calibrate_yaml(arena, again), "fits:"));
    }
    (void)remove("/tmp/orr_reversed.csv");
}

static bool stop_after(void *user, const char *what, double done, double total) {
    (void)what;
    int *calls = (int *)user;
    assert_true(done <= total);
    return --*calls > 0;
}

static void a_fit_can_be_ended(void **state) {
    (void)state;
    orr_tree *file = NULL;
    orr_err err = {0};
    int calls = 40;
    orr_watch watch = {.progress = stop_after, .user = &calls};
    assert_int_equal(
        orr_calibrate(arena, sample_path("memops"), NULL, builtin, &watch, &file, &err),
        ORR_E_CANCELLED);
    assert_true(calls > -100); /* it ends soon */
    calls = 1 << 30;
    watch = (orr_watch){.progress = stop_after, .user = &calls};
    assert_int_equal(
        orr_calibrate(arena, sample_path("memops"), NULL, builtin, &watch, &file, &err), ORR_OK);
    assert_true(watch.rows > 0 && watch.timeless == 0);
}

static void likeness_is_found(void **state) {
    (void)state;
    orr_tree *file = NULL, *parsed = NULL;
    orr_err err = {0};
    const char *path = ORR_TEST_DIR "/data/evidence/b200-gemm.csv";
    assert_int_equal(orr_calibrate_likeness(arena, path, NULL, &file, &err), ORR_OK);
    const char *text = orr_calibrate_yaml(arena, file);
    assert_int_equal(orr_yaml_read(arena, "x.yaml", text, strlen(text), &parsed, &err), ORR_OK);
    orr_calibration *into = ORR_NEW(arena, orr_calibration);
    assert_int_equal(orr_calibration_add(arena, parsed, into, &err), ORR_OK);
    for (int kind = 0; kind < ORR_EVIDENCE_LAYER; kind++) {
        const orr_likeness *l = &into->likeness[kind];
        assert_true(l->dof >= 1 && l->level >= 0 && l->level + l->smooth + l->rough <= 1);
    }
    assert_int_not_equal(orr_calibrate_likeness(arena, sample_path("memops"), NULL, &file, &err),
                         ORR_OK); /* evidence does not read such tables */
}

/* What a test suite accepts is in the table and is neither fitted nor judged. */
static void thresholds_are_no_measurements(void **state) {
    (void)state;
    static const char text[] =
        "system,op,num_gpus,nodes,bytes,time_us,source,note\n"
        "h100,all_reduce,8,1,1048576,30,mine,\n"
        "h100,all_reduce,16,2,1048576,100,mine,\n"
        "h100,all_reduce,16,2,2097152,130,mine,\n"
        "h100,all_reduce,16,2,1048576,1,suite,\"acceptance threshold, not a measurement\"\n"
        "h100,all_reduce,16,32,1048576,1,more hosts than ranks,\n"
        "h100,all_reduce,1e300,1e300,1048576,1,more than there are,\n"
        "\"H100 (in training, overlapped)\",all_reduce,8,1,1048576,30,mine,\n";
    static const char path[] = "/tmp/orr_thresholds.csv";
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    (void)fputs(text, out);
    (void)fclose(out);
    orr_tree *tree = NULL, *file = NULL;
    orr_err err = {0};
    assert_int_equal(
        orr_cost_kernels_validate(arena, &(orr_kernels_request){.path = path}, &tree, &err),
        ORR_OK);
    assert_int_equal(orr_tree_int(orr_tree_path(tree, "summary.rows"), 0), 7);
    assert_int_equal(orr_tree_int(orr_tree_path(tree, "summary.priced"), 0), 3);
    assert_int_equal(orr_tree_int(orr_tree_path(tree, "by.reach.across.priced"), 0), 2);
    assert_int_equal(orr_calibrate(arena, path, NULL, builtin, NULL, &file, &err), ORR_OK);
    const orr_tree *fits = orr_tree_get(file, "fits");
    assert_int_equal(orr_tree_size(fits), 1); /* two rows across two hosts, and no others */
    assert_int_equal(orr_tree_int(orr_tree_get(orr_tree_at(fits, 0), "nodes"), 0), 2);
    assert_int_equal(orr_tree_int(orr_tree_get(orr_tree_at(fits, 0), "rows"), 0), 2);
    (void)remove(path);
}

/* Sends between two hosts that fall off a cliff at 4 MB, by two systems; what the second's fit says
 * of 8 MB, which it was not measured at. off_us: what its other times differ by. */
static double priced_beyond_us(double off_us) {
    enum { SIZES = 9, MISSING = 6 };
    static const double us[SIZES] = {40, 50, 70, 140, 280, 840, 3100, 8400, 16300};
    static const char path[] = "/tmp/orr_twins.csv";
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    (void)fputs("system,op,num_gpus,nodes,bytes,time_us,source,note\n", out);
    for (int i = 0; i < SIZES; i++) {
        double bytes = (double)(1u << 17) * pow(2, i);
        (void)fprintf(out, "a100_pairwise_nvlink,p2p,2,2,%.0f,%g,x,\n", bytes, us[i]);
        if (i != MISSING) {
            (void)fprintf(out, "h100_pairwise_nvlink,p2p,2,2,%.0f,%g,x,\n", bytes, us[i] + off_us);
        }
    }
    (void)fclose(out);
    orr_tree *file = NULL, *parsed = NULL;
    orr_err err = {0};
    assert_int_equal(orr_calibrate(arena, path, NULL, builtin, NULL, &file, &err), ORR_OK);
    (void)remove(path);
    const char *text = orr_calibrate_yaml(arena, file);
    assert_int_equal(orr_yaml_read(arena, "x.yaml", text, strlen(text), &parsed, &err), ORR_OK);
    orr_calibration *into = ORR_NEW(arena, orr_calibration);
    assert_int_equal(orr_calibration_add(arena, parsed, into, &err), ORR_OK);
    assert_int_equal(into->collective_count, 2);
    const orr_collective_fit *fit = &into->collective[1];
    assert_string_equal(fit->site, "h100_pairwise_nvlink");
    double bytes = (double)(1u << 17) * pow(2, MISSING), place[ORR_SURFACE_DIMS];
    orr_message_place(bytes, place);
    return 1e6 * orr_message_time_s(&fit->message, bytes) *
           orr_surface_factor(fit->fit.surface, place);
}

/* One measurement under two names is known under both. */
static void twins_know_what_one_of_them_lacks(void **state) {
    (void)state;
    assert_true(fabs(priced_beyond_us(0) / 3100 - 1) < 0.03);
    assert_true(fabs(priced_beyond_us(1) / 3100 - 1) > 0.06); /* another machine's: guessed */
}

/* ---- regression bounds ---------------------------------------------------------------------- */

/* The committed rows stay priced within these: a fifth above what the calibration reaches. */
static void prices_stay_near_measurements(void **state) {
    (void)state;
    static const struct {
        const char *table;
        double mape, training;
    } bounds[] = {{"gemm", 0.11, 0.08},       {"attention", 0.14, 0.12},
                  {"memops", 0.10, 0.09},     {"grouped_gemm", 0.11, 0.11},
                  {"moe_fused", 0.17, 0.20},  {"ep_alltoall", 0.12, 0.14},
                  {"collectives", 0.10, 0.08}};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        orr_tree *out = NULL;
        orr_err err = {0};
        assert_int_equal(
            orr_cost_kernels_validate(
                arena, &(orr_kernels_request){.path = sample_path(bounds[i].table)}, &out, &err),
            ORR_OK);
        assert_string_equal(orr_tree_text(orr_tree_get(out, "class"), ""), bounds[i].table);
        double rows = orr_tree_real(orr_tree_path(out, "summary.rows"), 0);
        double priced = orr_tree_real(orr_tree_path(out, "summary.priced"), 0);
        double mape = orr_tree_real(orr_tree_path(out, "summary.mape"), 9);
        double training = orr_tree_real(orr_tree_path(out, "by.size.training.mape"), 9);
        double coverage = orr_tree_real(orr_tree_path(out, "summary.coverage_90"), 0);
        if (!(mape < bounds[i].mape && training < bounds[i].training)) {
            print_error("%s: %g, training %g\n", bounds[i].table, mape, training);
        }
        assert_true(rows > 100 && priced == rows);
        assert_true(mape < bounds[i].mape && training < bounds[i].training);
        assert_true(coverage > 0.8);
    }
}

/* What steps pay for exchanges is near what combines take, but where tokens choose few experts;
 * both are in the errors of their prices. */
static void steps_pay_for_combines(void **state) {
    (void)state;
    orr_tree *out = NULL;
    orr_err err = {0};
    assert_int_equal(
        orr_cost_kernels_validate(arena, &(orr_kernels_request){.path = sample_path("ep_alltoall")},
                                  &out, &err),
        ORR_OK);
    const orr_tree *list = orr_tree_get(out, "combines_as_steps");
    bool many = false;
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        const char *device = orr_tree_text(orr_tree_get(one, "device"), "");
        bool few = orr_tree_bool(orr_tree_get(one, "few_choices"), false);
        double rms = orr_tree_real(orr_tree_get(one, "log_rms"), 9);
        if (strncmp(device, "H", 1) == 0 && orr_tree_int(orr_tree_get(one, "nodes"), 0) == 1) {
            assert_true(few ? rms < 1 : rms < 0.2);
            many = many || !few;
        }
    }
    assert_true(many);
    assert_true(builtin->transfer.exchange_frac > 0.1 && builtin->transfer.exchange_frac < 0.2);
    assert_true(builtin->transfer.exchange_few_frac > 0.5);
}

static void bad_tables_are_named(void **state) {
    (void)state;
    static const char *const texts[] = {"", "a,b\n1,2\n",
                                        "gpu,dtype,m,n,k,layout\nh100,bf16,1,2,3,TN\n"};
    for (size_t i = 0; i < 3; i++) {
        char path[] = "/tmp/orr_kernels_XXXXXX.csv";
        (void)snprintf(path, sizeof path, "/tmp/orr_kernels_%u.csv", (unsigned)i);
        FILE *out = fopen(path, "w");
        assert_non_null(out);
        (void)fputs(texts[i], out);
        (void)fclose(out);
        orr_tree *tree = NULL;
        orr_err err = {0};
        assert_int_not_equal(
            orr_cost_kernels_validate(arena, &(orr_kernels_request){.path = path}, &tree, &err),
            ORR_OK);
        assert_true(err.message[0] != '\0');
        (void)remove(path);
    }
}

/* Every row is priced, or counted with the reason why it is not. */
static void rows_without_a_price_say_why(void **state) {
    (void)state;
    static const char TEXT[] = "gpu,dtype,m,n,k,layout,source,time_us\n"
                               "h100,bf16,4096,4096,4096,TN,x,200\n"
                               "h100,bf16,4096,4096,4096,TN,x,inf\n"
                               "h100,bf16,4096,,4096,TN,x,200\n"
                               "h100,tf32,4096,4096,4096,TN,x,200\n"
                               "z9000,bf16,4096,4096,4096,TN,x,200\n"
                               "mi300x,fp8,4096,4096,4096,TN,x,200\n";
    static const char *const whys[] = {
        "the row states no time", "the row does not say what is needed",
        "no fit of this numeric format on this device or a sibling", "unknown device"};
    char path[] = "/tmp/orr_kernels_why.csv";
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(TEXT, file);
    (void)fclose(file);
    orr_tree *out = NULL;
    orr_err err = {0};
    assert_int_equal(
        orr_cost_kernels_validate(arena, &(orr_kernels_request){.path = path}, &out, &err), ORR_OK);
    (void)remove(path);
    assert_int_equal(orr_tree_int(orr_tree_path(out, "summary.rows"), 0), 6);
    assert_int_equal(orr_tree_int(orr_tree_path(out, "summary.priced"), 0), 2);
    assert_true(orr_tree_real(orr_tree_path(out, "summary.mape"), 9) < 1);
    const orr_tree *list = orr_tree_get(out, "unpriced");
    assert_int_equal(orr_tree_size(list), 4);
    for (size_t w = 0; w < 4; w++) {
        bool said = false;
        for (size_t i = 0; i < orr_tree_size(list); i++) {
            const orr_tree *one = orr_tree_at(list, i);
            said = said || (strcmp(orr_tree_text(orr_tree_get(one, "why"), ""), whys[w]) == 0 &&
                            orr_tree_int(orr_tree_get(one, "count"), 0) == 1);
        }
        assert_true(said);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(robust_fit_survives_outliers),
        cmocka_unit_test(another_start_finds_what_the_first_hides),
        cmocka_unit_test(surfaces_learn_from_relatives),
        cmocka_unit_test(relatives_fill_what_a_set_lacks),
        cmocka_unit_test(twins_know_what_one_of_them_lacks),
        cmocka_unit_test(steps_pay_for_combines),
        cmocka_unit_test(files_read_back),
        cmocka_unit_test(errors_follow_the_shape),
        cmocka_unit_test(messages_beyond_all_sizes_are_less_sure),
        cmocka_unit_test(covers_are_read_as_written),
        cmocka_unit_test(the_order_of_rows_changes_nothing),
        cmocka_unit_test(a_fit_can_be_ended),
        cmocka_unit_test(likeness_is_found),
        cmocka_unit_test(thresholds_are_no_measurements),
        cmocka_unit_test(prices_stay_near_measurements),
        cmocka_unit_test(bad_tables_are_named),
        cmocka_unit_test(rows_without_a_price_say_why),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
