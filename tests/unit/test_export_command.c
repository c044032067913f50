/* `export` writes the plan in full: what few options resolve to is read back as the same plan; what
 * would not run is not written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../ctx_fixture.h"

enum { MOST_KEYS = 9 };

static orr_tree *plan_of(const char *const (*keys)[2]) {
    orr_tree *args = orr_tree_new_map(arena);
    for (size_t i = 0; i < MOST_KEYS && keys[i][0] != NULL; i++) {
        orr_tree_put_text(arena, args, keys[i][0], keys[i][1]);
    }
    return args;
}

static const char *at(const orr_tree *result, const char *path) {
    const orr_tree *node = orr_tree_path(result, path);
    return node == NULL ? "none" : orr_write_json(arena, node, false);
}

static void write_script(const char *path, const orr_tree *exported) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file, "ARGS=(\n%s)\n%s pretrain_gpt.py \"${ARGS[@]}\"\n",
                  orr_tree_text(orr_tree_path(exported, "result.text"), ""),
                  orr_tree_text(orr_tree_path(exported, "result.launcher"), ""));
    assert_int_equal(fclose(file), 0);
}

static const char *const plans[][MOST_KEYS][2] = {
    {{"model", "llama-3.1-70b"}, {"gpus", "256"}, {"tp", "8"}, {"gbs", "512"}, {"seq", "8192"}},
    {{"model", "llama-3.1-8b"}, {"gpus", "16"}, {"gbs", "128"}, {"seq", "8192"}, {"cp", "2"}},
    {{"model", "llama-3.1-70b"},
     {"gpus", "64"},
     {"tp", "4"},
     {"pp", "4"},
     {"vpp", "5"},
     {"gbs", "128"},
     {"seq", "4096"},
     {"recompute", "full"}},
    {{"model", "mixtral-8x7b"}, {"gpus", "64"}, {"ep", "8"}, {"gbs", "256"}, {"seq", "4096"}},
    {{"model", "llama-3.1-8b"},
     {"gpus", "8"},
     {"tp", "2"},
     {"gbs", "64"},
     {"seq", "8192"},
     {"overlap", "none"},
     {"sharding", "none"},
     {"sp", "off"}},
};

static void few_options_come_back_as_the_same_plan(void **state) {
    (void)state;
    static const char *const same[] = {
        "inputs.sharding", "inputs.sp",        "inputs.mbs",         "inputs.overlap",
        "inputs.tp",       "inputs.recompute", "result.verdict.fit", "result.verdict.legal"};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        char path[] = "/tmp/orr-export-XXXXXX";
        int file = mkstemp(path);
        assert_true(file >= 0);
        (void)close(file);
        orr_tree *args = plan_of(plans[i]);
        orr_tree_put_text(arena, args, "hardware", "h100");
        orr_tree_put_text(arena, args, "software", "megatron-core");
        const orr_tree *asked = call("memory", args);
        write_script(path, call("export", args));
        orr_tree *again = orr_tree_new_map(arena);
        orr_tree_put_text(arena, again, "file", path);
        orr_tree_put_text(arena, again, "hardware", "h100");
        orr_tree_put_text(arena, again, "software", "megatron-core");
        const orr_tree *back = call("memory", again);
        (void)unlink(path);
        for (size_t k = 0; k < sizeof same / sizeof *same; k++) {
            if (strcmp(at(asked, same[k]), at(back, same[k])) != 0) {
                fail_msg("plan %zu: %s was %s, is %s", i, same[k], at(asked, same[k]),
                         at(back, same[k]));
            }
        }
    }
}

static void refused(orr_tree *args, orr_status status, const char *part) {
    orr_tree *result = NULL;
    orr_err err = {0};
    assert_int_equal(orr_call(ctx, "export", args, arena, &result, &err), status);
    assert_non_null(strstr(err.message, part));
}

static void what_would_not_run_is_not_written(void **state) {
    (void)state;
    orr_tree *args = plan_of(plans[0]);
    orr_tree_put_text(arena, args, "tp", "3");
    refused(args, ORR_E_INFEASIBLE, "PAR-TP-01");
    refused(orr_tree_new_map(arena), ORR_E_USAGE, "plan");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_options_come_back_as_the_same_plan),
        cmocka_unit_test(what_would_not_run_is_not_written),
    };
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
