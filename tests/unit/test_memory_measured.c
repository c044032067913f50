#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include <math.h>

#include "../memory_fixture.h"
#include "base/num.h"
#include "doc/doc.h"

/* Asked for are 1 % each and 0.5 % in the mean; these keep what was reached. */
static const double EACH_FRAC = 0.0025, MEAN_FRAC = 0.001;
/* Ranks that do the same differ by up to 5 % in what the allocator holds. */
static const double RESERVED_EACH_FRAC = 0.06, RESERVED_MEAN_FRAC = 0.015,
                    RESERVED_MEDIAN_FRAC = 0.01;

typedef struct figures {
    double allocated, reserved; /* GiB, the latter replayed */
} figures;

static uint32_t whole(const orr_tree *row, const char *key) {
    return (uint32_t)orr_tree_int(orr_tree_get(row, key), 0);
}

static void model_of(const char *name, uint32_t layers, fixture_model *out) {
    if (strcmp(name, "llama3-70b") == 0) {
        fixture_llama(out, layers, 8192, 64, 8, 28672);
    } else if (strcmp(name, "llama3-405b") == 0) {
        fixture_llama(out, layers, 16384, 128, 16, 53248); /* as measured: not the model's 8 */
    } else {
        fixture_deepseek(out, layers, strcmp(name, "deepseek-v3") == 0);
    }
}

/* What the rank of one row holds, as PyTorch counts it. */
static figures predict(const orr_tree *row, orr_linker *linker, orr_arena *arena) {
    fixture_model model;
    model_of(orr_tree_text(orr_tree_get(row, "model"), ""), whole(row, "layers"), &model);
    orr_software software = fixture_software();
    software.variant.loss = ORR_LOSS_TE;
    orr_accelerator accelerator = fixture_accelerator(180 * ORR_GIB);
    orr_cluster cluster = {.accelerator = &accelerator, .gpus = 8, .gpus_per_node = 8};
    orr_resolved resolved = {.model = &model.model, .cluster = &cluster, .software = &software};
    resolved.plan = fixture_plan(&software, whole(row, "gpus"), whole(row, "tp"), whole(row, "pp"),
                                 whole(row, "cp"), whole(row, "ep"));
    resolved.plan.batch.seq = whole(row, "seq");
    resolved.plan.split.cp_kind = ORR_CP_A2A;
    orr_program program;
    orr_err err = {0};
    if (orr_link(linker, arena, &resolved, NULL, &program, &err) != ORR_OK) {
        fail_msg("%s", err.message);
    }
    orr_memory memory;
    orr_memory_evaluate(&program, arena, true, &memory);
    orr_replay replay;
    orr_memory_replay(&program, arena, whole(row, "stage"), false, &replay);
    figures out = {memory.rank[whole(row, "stage")].allocated_bytes / ORR_GIB,
                   replay.reserved_bytes / ORR_GIB};
    assert_true(replay.complete && replay.fits);
    assert_true(fabs(replay.allocated_bytes / ORR_GIB / out.allocated - 1) < 0.002);
    return out;
}

static void peaks_are_as_measured(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_linker *linker = orr_linker_new();
    orr_tree *file = NULL;
    orr_err err = {0};
    assert_int_equal(
        orr_doc_read_file(arena, ORR_TEST_DIR "/data/memory/measured_b200.json", &file, &err),
        ORR_OK);
    const orr_tree *rows = orr_tree_get(file, "cases");
    double sum = 0, worst = 0, reserved_sum = 0, reserved_worst = 0, median_sum = 0;
    const double count = (double)orr_tree_size(rows);
    assert_true(count >= 23);
    for (size_t i = 0; i < orr_tree_size(rows); i++) {
        const orr_tree *row = orr_tree_at(rows, i);
        double measured = orr_tree_real(orr_tree_get(row, "allocated_gib"), 0);
        double reserved = orr_tree_real(orr_tree_get(row, "reserved_gib"), 0);
        double median = orr_tree_real(orr_tree_get(row, "reserved_median_gib"), 0);
        figures predicted = predict(row, linker, arena);
        double error = predicted.allocated / measured - 1;
        double reserved_error = predicted.reserved / reserved - 1;
        print_message("%-49s stage %u: allocated %7.3f GiB, predicted %7.3f, %+.2f %%; "
                      "reserved %7.3f, replayed %7.3f, %+.2f %%\n",
                      orr_tree_text(orr_tree_get(row, "case"), ""), whole(row, "stage"), measured,
                      predicted.allocated, 100 * error, reserved, predicted.reserved,
                      100 * reserved_error);
        sum += fabs(error) / count;
        worst = orr_max_f64(worst, fabs(error));
        reserved_sum += fabs(reserved_error) / count;
        reserved_worst = orr_max_f64(reserved_worst, fabs(reserved_error));
        median_sum += fabs(predicted.reserved / median - 1) / count;
    }
    print_message("allocated: mean error %.3f %%, worst %.3f %%; reserved: %.2f %% of the largest "
                  "rank, worst %.2f %%, %.2f %% of the median rank\n",
                  100 * sum, 100 * worst, 100 * reserved_sum, 100 * reserved_worst,
                  100 * median_sum);
    assert_true(worst <= EACH_FRAC);
    assert_true(sum <= MEAN_FRAC);
    assert_true(reserved_worst <= RESERVED_EACH_FRAC);
    assert_true(reserved_sum <= RESERVED_MEAN_FRAC);
    assert_true(median_sum <= RESERVED_MEDIAN_FRAC);
    orr_linker_free(linker);
    orr_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(peaks_are_as_measured)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
