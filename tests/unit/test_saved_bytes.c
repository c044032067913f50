/* Saved-for-backward bytes against counts made in PyTorch with saved-tensor hooks: every module and
 * the total, 0 bytes of difference. Data: tests/data/memory/README.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "orrery/orrery.h"
#include "study/study.h"

static void compare_file(const char *path, int64_t at_least) {
    orr_arena *arena = orr_arena_new();
    orr_err err = {0};
    orr_tree *result = NULL;
    assert_int_equal(orr_study_saved_bytes(arena, path, &result, &err), ORR_OK);
    const orr_tree *cases = orr_tree_get(result, "cases");
    for (size_t i = 0; i < orr_tree_size(cases); i++) {
        const orr_tree *one = orr_tree_at(cases, i);
        if (orr_tree_get(one, "failed") != NULL ||
            orr_tree_size(orr_tree_get(one, "modules")) > 0) {
            print_error("%s\n", orr_write_json(arena, one, true));
        }
    }
    int64_t count = orr_tree_int(orr_tree_path(result, "summary.cases"), 0);
    assert_true(count >= at_least);
    assert_int_equal(orr_tree_int(orr_tree_path(result, "summary.exact"), -1), count);
    assert_true(orr_tree_real(orr_tree_path(result, "summary.worst_difference_bytes"), 1) == 0);
    orr_arena_free(arena);
}

static void published_cases(void **state) {
    (void)state;
    compare_file(ORR_TEST_DIR "/data/memory/cases.json", 55);
}

/* Further configurations, drawn at random and counted by the same script. */
static void drawn_cases(void **state) {
    (void)state;
    compare_file(ORR_TEST_DIR "/data/memory/more_cases.json", 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_cases),
        cmocka_unit_test(drawn_cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
