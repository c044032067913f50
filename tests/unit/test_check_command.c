/* `check` as a linter: the commonest mistakes with parallel sizes (tests/data/mistakes; the list of
 * NVIDIA/Megatron-LM#5768), settings that cost speed, and when it passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "../ctx_fixture.h"

static orr_tree *check_file(const char *path, const char *key, const char *value) {
    orr_tree *args = orr_tree_new_map(arena);
    orr_tree_put_text(arena, args, "file", path);
    orr_tree_put_text(arena, args, "hardware", "h100");
    if (key != NULL) {
        orr_tree_put_text(arena, args, key, value);
    }
    return call("check", args);
}

static bool names(const orr_tree *list, const char *key, const char *part) {
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        if (strstr(orr_tree_text(orr_tree_get(orr_tree_at(list, i), key), ""), part) != NULL) {
            return true;
        }
    }
    return false;
}

/* The first line of a file of mistakes: "# finds: WHAT", the id of a rule or words of a message. */
static void check_mistake(const char *path) {
    char line[256];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    (void)fclose(file);
    line[strcspn(line, "\n")] = '\0';
    const char *wanted = line + strlen("# finds: ");
    const orr_tree *result = check_file(path, NULL, NULL);
    const orr_tree *rules = orr_tree_path(result, "result.verdict.rules");
    const orr_tree *findings = orr_tree_path(result, "result.findings");
    if (!names(rules, "id", wanted) && !names(findings, "message", wanted)) {
        fail_msg("%s is not found in %s", wanted, path);
    }
    /* and a linter that is strict does not pass it */
    const orr_tree *strict = check_file(path, "strict", "true");
    assert_false(orr_tree_bool(orr_tree_path(strict, "result.passed"), true));
}

static void the_common_mistakes_are_found(void **state) {
    (void)state;
    struct dirent **entries;
    int count = scandir(ORR_TEST_DIR "/data/mistakes", &entries, NULL, alphasort);
    size_t checked = 0;
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        if (strstr(entries[i]->d_name, ".sh") != NULL) {
            char path[1024];
            (void)snprintf(path, sizeof path, ORR_TEST_DIR "/data/mistakes/%s", entries[i]->d_name);
            check_mistake(path);
            checked++;
        }
        free(entries[i]);
    }
    free(entries);
    assert_int_equal(checked, 8);
}

/* What a framework stops at is no start, though the plan that was made of it is sound. */
static void a_refused_launch_does_not_start(void **state) {
    (void)state;
    const char *path = ORR_TEST_DIR "/data/mistakes/7-two-formats.sh";
    const orr_tree *result = check_file(path, NULL, NULL);
    assert_true(orr_tree_bool(orr_tree_path(result, "result.verdict.legal"), false));
    assert_false(orr_tree_bool(orr_tree_path(result, "result.verdict.starts"), true));
    assert_true(names(orr_tree_path(result, "result.verdict.rules"), "id", "LAUNCH"));
}

static orr_tree *good_plan(void) {
    static const char *const keys[][2] = {{"model", "llama-3.1-8b"},
                                          {"hardware", "h100"},
                                          {"gpus", "8"},
                                          {"cp", "2"},
                                          {"mbs", "1"},
                                          {"gbs", "128"},
                                          {"seq", "8192"},
                                          {"software", "megatron-core"}};
    orr_tree *args = orr_tree_new_map(arena);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        orr_tree_put_text(arena, args, keys[i][0], keys[i][1]);
    }
    return args;
}

static const orr_tree *finding(const orr_tree *result, const char *id) {
    const orr_tree *list = orr_tree_path(result, "result.findings");
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        if (strcmp(orr_tree_text(orr_tree_get(one, "id"), ""), id) == 0) {
            return one;
        }
    }
    return NULL;
}

static void slow_settings_are_found_by_trying(void **state) {
    (void)state;
    orr_tree *args = good_plan();
    orr_tree_put_text(arena, args, "overlap", "none");
    orr_tree_put_text(arena, args, "gbs", "4"); /* a step that is short beside its reductions */
    orr_tree_put_text(arena, args, "strict", "true");
    const orr_tree *slow = call("check", args);
    const orr_tree *one = finding(slow, "SLOW-OVERLAP");
    assert_non_null(one);
    assert_true(orr_tree_real(orr_tree_get(one, "gain_frac"), 0) >= 0.01);
    assert_false(orr_tree_bool(orr_tree_path(slow, "result.passed"), true));
    /* the switch that it names does what it says */
    orr_tree_put_text(arena, args, "overlap", orr_tree_text(orr_tree_get(one, "value"), ""));
    assert_null(finding(call("check", args), "SLOW-OVERLAP"));
}

static void recompute_that_is_not_needed_is_slow(void **state) {
    (void)state;
    orr_tree *args = good_plan();
    orr_tree_put_text(arena, args, "recompute", "full");
    const orr_tree *one = finding(call("check", args), "SLOW-RECOMPUTE");
    assert_non_null(one);
    assert_string_equal(orr_tree_text(orr_tree_get(one, "key"), ""), "recompute");
}

static void without_strict_whatever_runs_passes(void **state) {
    (void)state;
    orr_tree *args = good_plan();
    orr_tree_put_text(arena, args, "overlap", "none");
    assert_true(orr_tree_bool(orr_tree_path(call("check", args), "result.passed"), false));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_common_mistakes_are_found),
        cmocka_unit_test(a_refused_launch_does_not_start),
        cmocka_unit_test(slow_settings_are_found_by_trying),
        cmocka_unit_test(recompute_that_is_not_needed_is_slow),
        cmocka_unit_test(without_strict_whatever_runs_passes),
    };
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
