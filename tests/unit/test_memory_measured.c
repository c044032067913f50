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
static double predict(const orr_tree *row, orr_linker *linker, orr_arena *arena) {
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
    return memory.rank[whole(row, "stage")].allocated_bytes / ORR_GIB;
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
    double sum = 0, worst = 0;
    for (size_t i = 0; i < orr_tree_size(rows); i++) {
        const orr_tree *row = orr_tree_at(rows, i);
        double measured = orr_tree_real(orr_tree_get(row, "allocated_gib"), 0);
        double predicted = predict(row, linker, arena);
        double error = predicted / measured - 1;
        print_message("%-52s stage %u: measured %7.3f GiB, predicted %7.3f, %+.2f %%\n",
                      orr_tree_text(orr_tree_get(row, "case"), ""), whole(row, "stage"), measured,
                      predicted, 100 * error);
        sum += fabs(error);
        worst = orr_max_f64(worst, fabs(error));
    }
    double mean = sum / (double)orr_tree_size(rows);
    print_message("mean error %.3f %%, worst %.3f %%\n", 100 * mean, 100 * worst);
    assert_true(orr_tree_size(rows) >= 23);
    assert_true(worst <= EACH_FRAC);
    assert_true(mean <= MEAN_FRAC);
    orr_linker_free(linker);
    orr_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(peaks_are_as_measured)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
