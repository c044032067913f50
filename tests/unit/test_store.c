#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/err.h"
#include "store/store.h"

static char folder[] = "/tmp/orrery-store-XXXXXX", path[64];

static int make_folder(void **state) {
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(path, sizeof path, "%s/store.db", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++) {
        char file[80];
        (void)snprintf(file, sizeof file, "%s%s", path, suffixes[i]);
        (void)unlink(file);
    }
    return rmdir(folder);
}

static orr_store *open_store(void) {
    orr_store *store = NULL;
    orr_err err = {0};
    assert_int_equal(orr_store_open(path, &store, &err), ORR_OK);
    return store;
}

static void state_survives_and_is_replaced(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_err err = {0};
    void *bytes = NULL;
    size_t length = 0;
    orr_store *store = open_store();
    assert_int_equal(orr_store_get_state(store, arena, 7, &bytes, &length, &err), ORR_OK);
    assert_null(bytes);
    assert_int_equal(orr_store_put_state(store, 7, "first", 5, &err), ORR_OK);
    assert_int_equal(orr_store_put_state(store, 7, "second", 6, &err), ORR_OK);
    assert_int_equal(orr_store_put_state(store, 8, "other", 5, &err), ORR_OK);
    orr_store_close(store);
    store = open_store();
    assert_int_equal(orr_store_get_state(store, arena, 7, &bytes, &length, &err), ORR_OK);
    assert_int_equal(length, 6);
    assert_memory_equal(bytes, "second", 6);
    assert_int_equal(orr_store_forget(store, 7, &err), ORR_OK);
    assert_int_equal(orr_store_get_state(store, arena, 7, &bytes, &length, &err), ORR_OK);
    assert_null(bytes);
    assert_int_equal(orr_store_get_state(store, arena, 8, &bytes, &length, &err), ORR_OK);
    assert_int_equal(length, 5);
    orr_store_close(store);
    orr_arena_free(arena);
}

static void trials_come_back_in_order(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_err err = {0};
    char *text = NULL;
    orr_store *store = open_store();
    orr_trial one = {"incumbent", "{\"tp\":8}", 100, 2, 1024, 0.5, NULL, NULL};
    orr_trial two = {"llm", "{\"tp\":4}", 120.5, 1.5, 2048, 1, "fits", "say \"so\"\n\\"};
    assert_int_equal(orr_store_add_trial(store, 9, &one, &err), ORR_OK);
    assert_int_equal(orr_store_add_trial(store, 10, &one, &err), ORR_OK);
    assert_int_equal(orr_store_add_trial(store, 9, &two, &err), ORR_OK);
    assert_int_equal(orr_store_trials(store, arena, 9, &text, &err), ORR_OK);
    assert_string_equal(text,
                        "{\"kind\":\"incumbent\",\"plan\":{\"tp\":8},\"tokens_per_s_per_gpu\":100,"
                        "\"step_time_s\":2,\"need_bytes\":1024,\"at_s\":0.5}\n"
                        "{\"kind\":\"llm\",\"plan\":{\"tp\":4},\"tokens_per_s_per_gpu\":120.5,"
                        "\"step_time_s\":1.5,\"need_bytes\":2048,\"at_s\":1,"
                        "\"verdict\":\"fits\",\"why\":\"say \\\"so\\\"\\u000a\\\\\"}\n");
    orr_store_close(store);
    orr_arena_free(arena);
}

static void foreign_files_are_refused(void **state) {
    (void)state;
    char other[80];
    orr_store *store = NULL;
    orr_err err = {0};
    (void)snprintf(other, sizeof other, "%s/other", folder);
    FILE *file = fopen(other, "w");
    assert_non_null(file);
    for (int i = 0; i < 200; i++) {
        fputs("no database at all\n", file);
    }
    fclose(file);
    assert_int_equal(orr_store_open(other, &store, &err), ORR_E_SCHEMA);
    assert_non_null(strstr(err.message, "is no store"));
    assert_int_equal(unlink(other), 0);
    assert_int_equal(orr_store_open("/no/such/folder/store.db", &store, &err), ORR_E_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_survives_and_is_replaced),
        cmocka_unit_test(trials_come_back_in_order),
        cmocka_unit_test(foreign_files_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
