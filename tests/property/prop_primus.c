/* Every configuration shape of the shared table, written as a Primus file, imports to its plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include <stdio.h>

#include "doc/doc.h"
#include "exchange/exchange.h"

typedef struct row {
    const orr_csv *csv;
    const char *const *cells;
} row;

static const char *cell(row r, const char *column) {
    int index = orr_csv_find(r.csv, column);
    assert_true(index >= 0);
    return r.cells[index];
}

static bool yes(row r, const char *column) {
    return strcmp(cell(r, column), "True") == 0;
}

static void add(orr_text *out, row r, const char *column, const char *name) {
    if (cell(r, column)[0] != '\0') {
        orr_text_format(out, "      %s: %s\n", name, cell(r, column));
    }
}

static const char *write_file(orr_arena *arena, row r) {
    orr_text out = orr_text_new(arena, 1 << 16);
    orr_text_add(&out, "modules:\n  pre_trainer:\n    framework: megatron\n"
                       "    model: llama3.1_8B.yaml\n    overrides:\n");
    add(&out, r, "mbs", "micro_batch_size");
    add(&out, r, "gbs", "global_batch_size");
    add(&out, r, "seq", "seq_length");
    add(&out, r, "tp", "tensor_model_parallel_size");
    add(&out, r, "pp", "pipeline_model_parallel_size");
    const char *stages = strstr(cell(r, "vpp"), "(layout "); /* "2(layout 32)" */
    if (stages == NULL) {
        add(&out, r, "vpp", "num_virtual_stages_per_pipeline_rank");
    } else {
        int64_t count;
        const char *digits = orr_arena_copy(arena, stages + 8, strcspn(stages + 8, ")"));
        assert_true(orr_parse_int(digits, &count));
        orr_text_format(&out, "      pipeline_model_parallel_layout: \"Et|(t|)*%dtL\"\n",
                        (int)count - 2);
    }
    add(&out, r, "ep", "expert_model_parallel_size");
    add(&out, r, "cp", "context_parallel_size");
    add(&out, r, "fsdp2", "use_torch_fsdp2");
    add(&out, r, "do", "use_distributed_optimizer");
    add(&out, r, "rg", "recompute_granularity");
    add(&out, r, "rm", "recompute_method");
    add(&out, r, "rn", "recompute_num_layers");
    add(&out, r, "fp8", "fp8");
    add(&out, r, "fp8r", "fp8_recipe");
    add(&out, r, "turbo", "enable_primus_turbo");
    add(&out, r, "deepep", "use_turbo_deepep");
    add(&out, r, "sf", "turbo_sync_free_moe_stage");
    add(&out, r, "ogr", "overlap_grad_reduce");
    add(&out, r, "opg", "overlap_param_gather");
    add(&out, r, "pao", "use_precision_aware_optimizer");
    add(&out, r, "gd", "main_grads_dtype");
    if (cell(r, "rl")[0] != '\0') {
        orr_text_format(&out, "      recompute_layer_ids: [%s]\n", cell(r, "rl"));
    }
    return orr_text_done(&out);
}

static void equal_number(const orr_import *import, row r, const char *column, const char *key) {
    int64_t value = 1;
    char digits[16] = "";
    (void)snprintf(digits, sizeof digits, "%s", cell(r, column));
    digits[strcspn(digits, "(")] = '\0';
    assert_true(digits[0] == '\0' || orr_parse_int(digits, &value));
    assert_int_equal(orr_tree_int(orr_tree_get(import->keys, key), 1), value);
}

static void equal_text(const orr_import *import, const char *key, const char *value) {
    assert_string_equal(orr_tree_text(orr_tree_get(import->keys, key), ""), value);
}

static void check_row(row r) {
    orr_arena *arena = orr_arena_new();
    const char *text = write_file(arena, r);
    orr_import import;
    orr_err err = {0};
    if (orr_import_text(arena, "x.yaml", text, strlen(text), &import, &err) != ORR_OK) {
        fail_msg("%s: %s", cell(r, "cfg"), err.message);
    }
    assert_string_equal(import.format, "primus");
    equal_number(&import, r, "mbs", "mbs");
    equal_number(&import, r, "gbs", "gbs");
    equal_number(&import, r, "seq", "seq");
    equal_number(&import, r, "tp", "tp");
    equal_number(&import, r, "pp", "pp");
    equal_number(&import, r, "ep", "ep");
    equal_number(&import, r, "cp", "cp");
    int64_t pp = 1;
    (void)orr_parse_int(cell(r, "pp"), &pp);
    if (pp > 1) {
        equal_number(&import, r, "vpp", "vpp");
    }
    equal_text(&import, "sharding", yes(r, "fsdp2") ? "fsdp2" : yes(r, "do") ? "zero1" : "none");
    const char *fp8 = cell(r, "fp8"), *recipe = cell(r, "fp8r");
    equal_text(&import, "precision",
               fp8[0] == '\0'                     ? "bf16"
               : strcmp(recipe, "delayed") == 0   ? "fp8"
               : strcmp(recipe, "mxfp8") == 0     ? "fp8_mx"
               : strcmp(recipe, "blockwise") == 0 ? "fp8_blockwise"
                                                  : "fp8_cs");
    equal_text(&import, "grad_dtype",
               yes(r, "pao") && strcmp(cell(r, "gd"), "bf16") == 0 ? "bf16" : "fp32");
    const char *recompute = orr_tree_text(orr_tree_get(import.keys, "recompute"), "");
    if (cell(r, "rl")[0] != '\0') {
        assert_int_equal(strncmp(recompute, "block:", 6), 0);
    } else if (cell(r, "rg")[0] == '\0' || strcmp(cell(r, "rn"), "0") == 0) {
        assert_string_equal(recompute, "none");
    } else if (strcmp(cell(r, "rm"), "block") == 0) {
        assert_string_equal(recompute, orr_arena_format(arena, "block:%s", cell(r, "rn")));
    } else {
        assert_string_equal(recompute, "full");
    }
    int64_t ep = 1;
    (void)orr_parse_int(cell(r, "ep"), &ep);
    if (ep > 1) {
        bool free_moe = strcmp(cell(r, "sf"), "0") != 0 && yes(r, "turbo");
        equal_text(&import, "dispatch",
                   free_moe ? orr_arena_format(arena, "sync-free-%s", cell(r, "sf"))
                   : yes(r, "turbo") && yes(r, "deepep") ? "deepep"
                                                         : "alltoall");
    }
    orr_arena_free(arena);
}

static void every_shape_imports_to_its_plan(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    char *text;
    size_t length;
    orr_err err = {0};
    if (orr_file_read(arena, ORR_SHARED_DIR "/data/primus_configs.csv", &text, &length, &err) !=
        ORR_OK) {
        orr_arena_free(arena);
        skip();
    }
    orr_csv *csv;
    assert_int_equal(orr_csv_open(arena, "primus_configs.csv", text, length, &csv, &err), ORR_OK);
    size_t rows = 0;
    for (;;) {
        const char *const *cells;
        bool more;
        assert_int_equal(orr_csv_next(csv, &cells, &more, &err), ORR_OK);
        if (!more) {
            break;
        }
        check_row((row){.csv = csv, .cells = cells});
        rows++;
    }
    assert_true(rows > 100);
    orr_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_shape_imports_to_its_plan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
