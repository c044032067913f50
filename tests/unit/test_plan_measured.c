/* The rules against published runs: what ran is legal, what the sweep could not launch does not
 * start. Over the shared measurements; skipped where they are absent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/text.h"
#include "doc/doc.h"
#include "plan/plan.h"

#define MEASURED ORR_SHARED_DIR "/data/measured/"

/* Columns that are plan keys, by their own names or others. */
static const char *const columns[][2] = {
    {"gpu", "hardware"},
    {"num_gpus", "gpus"},
    {"gpus_per_node", "gpus_per_node"},
    {"seq_len", "seq"},
    {"mbs", "mbs"},
    {"gbs", "gbs"},
    {"tp", "tp"},
    {"pp", "pp"},
    {"vpp", "vpp"},
    {"ep", "ep"},
    {"etp", "etp"},
    {"cp", "cp"},
    {"precision", "precision"},
    {"sharding", "sharding"},
};

/* Words of the table that are not values of ours (data/measured/README.md). */
static const char *const words[][2] = {
    {"fp16_or_bf16", "bf16"},     {"mxfp8", "fp8_mx"},     {"fp8-rowwise", "fp8_cs"},
    {"zero1?", "zero1"},          {"zero3_fsdp", "zero3"}, {"fsdp", "zero3"},
    {"fp8-tensorwise", "fp8_cs"},
};

typedef struct table {
    orr_csv *csv;
    const char *const *cells;
} table;

static bool open_table(orr_arena *arena, const char *path, table *out) {
    char *text;
    size_t length;
    if (orr_file_read(arena, path, &text, &length, NULL) != ORR_OK) {
        return false;
    }
    assert_int_equal(orr_csv_open(arena, path, text, length, &out->csv, NULL), ORR_OK);
    return true;
}

static bool next_row(table *t) {
    bool more;
    assert_int_equal(orr_csv_next(t->csv, &t->cells, &more, NULL), ORR_OK);
    return more;
}

static const char *cell(const table *t, const char *column) {
    int index = orr_csv_find(t->csv, column);
    assert_true(index >= 0);
    return t->cells[index];
}

static orr_tree *keys_of(orr_arena *arena, const table *t, const orr_tree *models,
                         const char *software) {
    orr_tree *keys = orr_tree_new_map(arena);
    orr_model *model;
    const char *name = cell(t, "model");
    const orr_tree *entry = orr_tree_get(models, name);
    if (entry == NULL || orr_model_read_measured(arena, name, entry, &model, NULL) != ORR_OK) {
        return NULL;
    }
    orr_tree_put(arena, keys, "model", orr_model_write(arena, model));
    orr_tree_put_text(arena, keys, "software", software);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        const char *value = cell(t, columns[i][0]);
        for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
            value = strcmp(value, words[w][0]) == 0 ? words[w][1] : value;
        }
        if (*value != '\0' && strcmp(value, "0") != 0) {
            orr_tree_put_text(arena, keys, columns[i][1], value);
        }
    }
    orr_schedule_kind kind;
    const char *schedule = cell(t, "schedule");
    if (*schedule != '\0' && orr_schedule_find(schedule, &kind)) {
        orr_tree_put_text(arena, keys, "schedule", orr_schedule_name(kind));
        if (orr_schedule_fixed_vpp(kind) == 2) { /* the table says 1 of V shapes */
            orr_tree_put(arena, keys, "vpp", orr_tree_null(arena));
        }
    }
    return keys;
}

/* ORR_RULE_WARNING for "nothing worse"; -1 when the row is not a plan. */
static int worst_of(orr_arena *arena, const orr_tree *keys, orr_violation *worst) {
    orr_resolved r;
    orr_err err = {0};
    orr_violation found[ORR_MAX_VIOLATIONS];
    if (keys == NULL || orr_plan_resolve(arena, keys, &r, &err) != ORR_OK) {
        *worst = (orr_violation){.rule = "input", .message = orr_arena_text(arena, err.message)};
        return -1;
    }
    if (orr_plan_check(arena, &r, found) == 0) {
        return ORR_RULE_WARNING;
    }
    *worst = found[0];
    return (int)found[0].effect;
}

static orr_tree *read_models(orr_arena *arena) {
    orr_tree *models;
    if (orr_doc_read_file(arena, MEASURED "models.json", &models, NULL) != ORR_OK) {
        return NULL;
    }
    return models;
}

/* Rows of quality A and B with a published throughput. One launched although a rank held nothing,
 * one contradicts itself (64-way experts over 32 ranks). */
static void what_ran_is_legal(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new(), *scratch = orr_arena_new();
    table runs, tiers;
    orr_tree *models = read_models(arena);
    if (models == NULL || !open_table(arena, MEASURED "runs.csv", &runs) ||
        !open_table(arena, MEASURED "tiers.csv", &tiers)) {
        orr_arena_free(arena);
        orr_arena_free(scratch);
        skip();
    }
    uint32_t legal = 0, broken = 0, row = 0;
    for (; next_row(&runs); row++) {
        assert_true(next_row(&tiers));
        int64_t index;
        assert_true(orr_parse_int(cell(&tiers, "row"), &index) && index == row);
        const char *tier = cell(&tiers, "tier");
        if (strcmp(cell(&tiers, "flag"), "use") != 0 || strpbrk(tier, "AB") == NULL) {
            continue;
        }
        orr_violation worst = {0};
        orr_tree *keys = keys_of(scratch, &runs, models, cell(&tiers, "prof"));
        if (keys != NULL) {
            bool fine = worst_of(scratch, keys, &worst) == ORR_RULE_WARNING;
            legal += fine;
            broken += !fine;
            if (!fine) {
                print_message("row %u: %s: %s\n", row, worst.rule, worst.message);
            }
        }
        orr_arena_reset(scratch);
    }
    print_message("%u rows legal, %u not\n", legal, broken);
    assert_true(legal > 2200);
    assert_true(broken <= 2);
    orr_arena_free(arena);
    orr_arena_free(scratch);
}

/* Of the sweep's 871 failures, 123 have fewer micro-batches than stages less one, and 73 further
 * ones leave a rank without a block. */
static void what_did_not_launch_does_not_start(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new(), *scratch = orr_arena_new();
    table failed;
    orr_tree *models = read_models(arena);
    if (models == NULL || !open_table(arena, MEASURED "oom.csv", &failed)) {
        orr_arena_free(arena);
        orr_arena_free(scratch);
        skip();
    }
    uint32_t few = 0, empty = 0;
    while (next_row(&failed)) {
        if (strncmp(cell(&failed, "model"), "nanotron", 8) != 0) {
            continue;
        }
        orr_violation worst = {0};
        orr_tree *keys = keys_of(scratch, &failed, models, "nanotron");
        int effect = worst_of(scratch, keys, &worst);
        assert_true(effect == ORR_RULE_WARNING || effect == ORR_RULE_DOES_NOT_START);
        int64_t pp, mbs, gbs, dp;
        assert_true(orr_parse_int(cell(&failed, "pp"), &pp) &&
                    orr_parse_int(cell(&failed, "mbs"), &mbs));
        assert_true(orr_parse_int(cell(&failed, "gbs"), &gbs) &&
                    orr_parse_int(cell(&failed, "dp"), &dp));
        bool is_few = gbs / (mbs * dp) < pp - 1;
        few += is_few;
        empty += !is_few && effect == ORR_RULE_DOES_NOT_START;
        assert_true(!is_few || effect == ORR_RULE_DOES_NOT_START);
        orr_arena_reset(scratch);
    }
    assert_int_equal(few, 123);
    assert_int_equal(empty, 73);
    orr_arena_free(arena);
    orr_arena_free(scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ran_is_legal),
        cmocka_unit_test(what_did_not_launch_does_not_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
