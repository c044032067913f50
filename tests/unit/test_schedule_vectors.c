/* Replays recorded schedules: order, makespan, spans, peaks and op times must be equal. A few
 * vectors lie in tests/data/schedules; the whole set, when it is beside the checkout, is replayed
 * too. Vectors: op orders of Megatron-LM, zero-bubble, DualPipe, PyTorch and Primus code. */
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

static void replay_folder(const char *folder) {
    orr_arena *arena = orr_arena_new();
    orr_err err = {0};
    orr_tree *result = NULL;
    orr_status status = orr_study_schedules(arena, folder, &result, &err);
    if (status == ORR_E_IO) {
        orr_arena_free(arena);
        skip();
    }
    assert_int_equal(status, ORR_OK);
    const orr_tree *failures = orr_tree_get(result, "failures");
    for (size_t i = 0; i < orr_tree_size(failures); i++) {
        const orr_tree *one = orr_tree_at(failures, i);
        print_error("%s: %s\n", orr_tree_text(orr_tree_get(one, "file"), ""),
                    orr_tree_text(orr_tree_get(one, "what"), ""));
    }
    int64_t vectors = orr_tree_int(orr_tree_path(result, "summary.vectors"), 0);
    int64_t exact = orr_tree_int(orr_tree_path(result, "summary.exact"), -1);
    print_message("%s: %lld of %lld vectors exact\n", folder, (long long)exact, (long long)vectors);
    const orr_tree *lists = orr_tree_get(result, "lists");
    for (size_t i = 0; i < orr_tree_size(lists); i++) {
        print_message("%s\n", orr_write_json(arena, orr_tree_at(lists, i), false));
    }
    assert_true(vectors > 0);
    assert_int_equal(exact, vectors);
    orr_arena_free(arena);
}

static void vectors_kept_here(void **state) {
    (void)state;
    replay_folder(ORR_TEST_DIR "/data/schedules");
}

static void vectors_beside_the_checkout(void **state) {
    (void)state;
    replay_folder(ORR_SHARED_DIR "/truth/schedules");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_kept_here),
        cmocka_unit_test(vectors_beside_the_checkout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
