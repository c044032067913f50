/* Fitted numbers go back into their files token by token. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/os_file.h"
#include "doc/doc.h"
#include "study/study.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/stat.h>

static const char PROFILE[] = "# kept\n"
                              "time:\n"
                              "  host_fwd_s: {value: 1.6ms, evidence: fitted, note: 'a, b'}\n"
                              "  straggler_frac: 0.008 # also kept\n";

static orr_tree *result_of(orr_arena *arena, const char *in, const char *field, double after) {
    orr_tree *result = orr_tree_new_map(arena);
    orr_tree *stages = orr_tree_put(arena, result, "stages", orr_tree_new_list(arena));
    orr_tree *stage = orr_tree_push(arena, stages, orr_tree_new_map(arena));
    orr_tree *list = orr_tree_put(arena, stage, "parameters", orr_tree_new_list(arena));
    orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
    orr_tree_put_text(arena, one, "in", in);
    orr_tree_put_text(arena, one, "field", field);
    orr_tree_put_real(arena, one, "after", after);
    return result;
}

static void write_and_compare(const char *field, double after, orr_status expected,
                              const char *line) {
    orr_arena *arena = orr_arena_new();
    orr_err err = {0};
    char folder[64], sub[96], path[128];
    (void)snprintf(folder, sizeof folder, "/tmp/orrery-fit-%ld", (long)getpid());
    assert_int_equal(mkdir(folder, 0700), 0);
    (void)snprintf(sub, sizeof sub, "%s/software", folder);
    (void)snprintf(path, sizeof path, "%s/own.yaml", sub);
    assert_int_equal(mkdir(sub, 0700), 0);
    assert_int_equal(orr_os_write_file(path, PROFILE, strlen(PROFILE), &err), ORR_OK);
    orr_tree *result = result_of(arena, "software/own.yaml", field, after);
    assert_int_equal(orr_study_fit_write(arena, result, folder, &err), expected);
    char *text = NULL;
    size_t length = 0;
    assert_int_equal(orr_file_read(arena, path, &text, &length, &err), ORR_OK);
    assert_non_null(strstr(text, line));
    assert_non_null(strstr(text, "# kept\ntime:\n"));
    assert_non_null(strstr(text, " # also kept\n"));
    (void)unlink(path);
    (void)rmdir(sub);
    (void)rmdir(folder);
    orr_arena_free(arena);
}

static void test_replaces_the_token(void **state) {
    (void)state;
    write_and_compare("host_fwd_s", 0.00123456, ORR_OK,
                      "  host_fwd_s: {value: 1.23ms, evidence: fitted, note: 'a, b'}\n");
    write_and_compare("host_fwd_s", 4.5e-5, ORR_OK, "{value: 45us, evidence: fitted, note");
    write_and_compare("straggler_frac", 0.0123456, ORR_OK,
                      "  straggler_frac: 0.0123 # also kept\n");
}

static void test_refuses_what_is_not_stated(void **state) {
    (void)state;
    write_and_compare("host_bwd_s", 0.001, ORR_E_NAME, "{value: 1.6ms, evidence: fitted");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replaces_the_token),
        cmocka_unit_test(test_refuses_what_is_not_stated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
