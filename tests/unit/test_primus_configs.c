/* Every configuration that the reference system ships (tests/data/primus_configs.csv: a row a file
 * of AMD-AGI/Primus at fd1eeabb, columns: see the header), written as an experiment file
 * here and read back: the plan is what the row says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include <stdlib.h>

#include "doc/doc.h"
#include "exchange/exchange.h"

enum { ROWS = 236 };

static orr_arena *arena;

typedef struct row {
    const orr_csv *csv;
    const char *const *cells;
} row;

static const char *cell(const row *r, const char *column) {
    int index = orr_csv_find(r->csv, column);
    assert_true(index >= 0);
    return r->cells[index];
}
static bool is(const row *r, const char *column, const char *value) {
    return strcmp(cell(r, column), value) == 0;
}
static bool has(const row *r, const char *column) {
    return cell(r, column)[0] != '\0';
}
/* Leading digits; 0 when there are none ("2(layout 32)" is 2). */
static int number(const row *r, const char *column) {
    return atoi(cell(r, column));
}

/* ---- the file ------------------------------------------------------------------------------- */

static void line(orr_text *text, const char *name, const char *value) {
    orr_text_format(text, "      %s: %s\n", name, value);
}
static void line_int(orr_text *text, const char *name, int value) {
    orr_text_format(text, "      %s: %d\n", name, value);
}
static void line_flag(orr_text *text, const row *r, const char *name, const char *column) {
    if (has(r, column)) {
        line(text, name, is(r, column, "True") ? "true" : "false");
    }
}

static const char *model_of(const row *r) {
    const char *name = cell(r, "cfg"), *end = strrchr(name, '-');
    return orr_arena_copy(arena, name, end != NULL ? (size_t)(end - name) : strlen(name));
}

static const char *write_file(const row *r) {
    orr_text text = orr_text_new(arena, 1 << 16);
    orr_text_format(&text,
                    "workspace: ${PRIMUS_WORKSPACE:./output}\n"
                    "exp_name: ${PRIMUS_EXP_NAME:%s}\n"
                    "modules:\n  pre_trainer:\n    framework: megatron\n"
                    "    config: pre_trainer.yaml\n    model: %s.yaml\n    overrides:\n",
                    cell(r, "cfg"), model_of(r));
    orr_text_format(&text, "      tensor_model_parallel_size: ${PRIMUS_TP:%s}\n", cell(r, "tp"));
    orr_text_format(&text, "      pipeline_model_parallel_size: ${PRIMUS_PP:%s}\n", cell(r, "pp"));
    orr_text_format(&text, "      expert_model_parallel_size: ${PRIMUS_EP:%s}\n", cell(r, "ep"));
    if (has(r, "cp")) {
        line(&text, "context_parallel_size", cell(r, "cp"));
    }
    if (has(r, "vpp")) {
        line_int(&text, "num_virtual_stages_per_pipeline_rank", number(r, "vpp"));
    }
    line(&text, "micro_batch_size", cell(r, "mbs"));
    line(&text, "global_batch_size", cell(r, "gbs"));
    line(&text, "seq_length", cell(r, "seq"));
    line(&text, "max_position_embeddings", cell(r, "seq"));
    line_flag(&text, r, "use_torch_fsdp2", "fsdp2");
    line_flag(&text, r, "use_distributed_optimizer", "do");
    line_flag(&text, r, "overlap_grad_reduce", "ogr");
    line_flag(&text, r, "overlap_param_gather", "opg");
    line(&text, "recompute_granularity", has(r, "rg") ? cell(r, "rg") : "null");
    line(&text, "recompute_method", has(r, "rm") ? cell(r, "rm") : "null");
    line(&text, "recompute_num_layers", has(r, "rn") ? cell(r, "rn") : "null");
    if (has(r, "rl")) {
        orr_text_format(&text, "      recompute_layer_ids: [%s]\n", cell(r, "rl"));
    }
    if (has(r, "fp8")) {
        line(&text, "fp8", cell(r, "fp8"));
        line(&text, "fp8_recipe", cell(r, "fp8r"));
    }
    line_flag(&text, r, "enable_primus_turbo", "turbo");
    line_flag(&text, r, "use_turbo_deepep", "deepep");
    line(&text, "turbo_sync_free_moe_stage", cell(r, "sf"));
    line_flag(&text, r, "use_precision_aware_optimizer", "pao");
    line(&text, "main_grads_dtype", cell(r, "gd"));
    if (is(r, "ced", "True")) {
        line(&text, "cross_entropy_loss_fusion", "true");
        line(&text, "cross_entropy_fusion_impl", "te");
    }
    line(&text, "pp_algorithm", cell(r, "sched"));
    line_flag(&text, r, "patch_zero_bubble", "patchz");
    line(&text, "train_iters", "50");
    return orr_text_done(&text);
}

/* ---- what the row says ---------------------------------------------------------------------- */

static int virtual_stages(const row *r) {
    return number(r, "pp") > 1 && number(r, "vpp") > 1 ? number(r, "vpp") : 1;
}

static const char *recompute_of(const row *r) {
    if (has(r, "rl")) {
        int count = 1, chunks = number(r, "pp") * virtual_stages(r);
        for (const char *p = cell(r, "rl"); *p != '\0'; p++) {
            count += *p == ',';
        }
        return orr_arena_format(arena, "block:%d", (count + chunks - 1) / chunks);
    }
    if (!is(r, "rg", "full") || is(r, "rn", "0")) {
        return "none";
    }
    return is(r, "rm", "block") ? orr_arena_format(arena, "block:%s", cell(r, "rn")) : "full";
}

static const char *precision_of(const row *r) {
    return !has(r, "fp8")                ? "bf16"
           : is(r, "fp8r", "tensorwise") ? "fp8_cs"
           : is(r, "fp8r", "mxfp8")      ? "fp8_mx"
                                         : "fp8";
}

static const char *dispatch_of(const row *r) {
    bool turbo = is(r, "turbo", "True");
    if (turbo && number(r, "sf") > 0) {
        return orr_arena_format(arena, "sync-free-%d", number(r, "sf"));
    }
    return turbo && is(r, "deepep", "True") ? "deepep" : "alltoall";
}

static void want_text(const orr_tree *keys, const char *key, const char *value, const char *file) {
    const char *got = orr_tree_text(orr_tree_get(keys, key), "(absent)");
    if (strcmp(got, value) != 0) {
        fail_msg("%s is %s, not %s:\n%s", key, got, value, file);
    }
}
static void want_int(const orr_tree *keys, const char *key, int value, const char *file) {
    int64_t got = orr_tree_int(orr_tree_get(keys, key), -1);
    if (got != value) {
        fail_msg("%s is %lld, not %d:\n%s", key, (long long)got, value, file);
    }
}

static bool overlaps(const orr_tree *keys, const char *word) {
    const orr_tree *list = orr_tree_get(keys, "overlap");
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        if (strcmp(orr_tree_text(orr_tree_at(list, i), ""), word) == 0) {
            return true;
        }
    }
    return false;
}

static void check_row(const row *r) {
    orr_import import;
    orr_err err = {0};
    const char *file = write_file(r);
    if (orr_import_text(arena, "experiment.yaml", file, strlen(file), &import, &err) != ORR_OK) {
        fail_msg("%s:\n%s", err.message, file);
    }
    assert_string_equal(import.format, "primus");
    const orr_tree *keys = import.keys;
    want_text(keys, "model", model_of(r), file);
    static const char *const same[] = {"tp", "pp", "mbs", "gbs", "seq"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        want_int(keys, same[i], number(r, same[i]), file);
    }
    want_int(keys, "cp", has(r, "cp") ? number(r, "cp") : 1, file);
    if (number(r, "pp") > 1) {
        want_int(keys, "vpp", virtual_stages(r), file);
        want_text(keys, "schedule", virtual_stages(r) > 1 ? "interleaved" : "1f1b", file);
    }
    if (number(r, "ep") > 1) {
        want_int(keys, "ep", number(r, "ep"), file);
        want_text(keys, "dispatch", dispatch_of(r), file);
    }
    want_text(keys, "sharding",
              is(r, "fsdp2", "True") ? "fsdp2"
              : is(r, "do", "True")  ? "zero1"
                                     : "none",
              file);
    want_text(keys, "recompute", recompute_of(r), file);
    want_text(keys, "precision", precision_of(r), file);
    bool half = is(r, "pao", "True") && is(r, "gd", "bf16");
    want_text(keys, "grad_dtype", half ? "bf16" : "fp32", file);
    want_text(keys, "loss", is(r, "ced", "True") ? "te" : "native", file);
    assert_int_equal(overlaps(keys, "dp"), is(r, "ogr", "True"));
    want_text(keys, "software", "primus-rocm", file);
    /* every value that hangs on the environment says so */
    assert_true(orr_tree_size(import.assumed) >= 3);
}

static void shipped_configurations_are_read(void **state) {
    (void)state;
    orr_arena *whole = orr_arena_new();
    char *text;
    size_t length, count = 0;
    orr_csv *csv;
    orr_err err = {0};
    const char *path = ORR_TEST_DIR "/data/primus_configs.csv";
    assert_int_equal(orr_file_read(whole, path, &text, &length, &err), ORR_OK);
    assert_int_equal(orr_csv_open(whole, path, text, length, &csv, &err), ORR_OK);
    for (bool more = true;;) {
        row r = {.csv = csv};
        assert_int_equal(orr_csv_next(csv, &r.cells, &more, &err), ORR_OK);
        if (!more) {
            break;
        }
        arena = orr_arena_new();
        check_row(&r);
        orr_arena_free(arena);
        count++;
    }
    assert_int_equal(count, ROWS);
    orr_arena_free(whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_configurations_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
