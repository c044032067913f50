/* Whatever an importer makes of the test files is a plan once what they leave open is stated: its
 * keys and values are the plan module's own. */
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

#include "exchange/exchange.h"
#include "plan/plan.h"

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* States a key that the import does not. */
static void fill_text(orr_arena *arena, orr_tree *over, const orr_import *import, const char *key,
                      const char *value) {
    if (orr_tree_get(import->keys, key) == NULL) {
        orr_tree_put_text(arena, over, key, value);
    }
}

static void fill_int(orr_arena *arena, orr_tree *over, const orr_import *import, const char *key,
                     int64_t value) {
    if (orr_tree_get(import->keys, key) == NULL) {
        orr_tree_put_int(arena, over, key, value);
    }
}

static int64_t number(const orr_import *import, const char *key) {
    int64_t value = orr_tree_int(orr_tree_get(import->keys, key), 1);
    return value > 0 ? value : 1;
}

static void check_file(const char *path) {
    orr_arena *arena = orr_arena_new();
    orr_import import;
    orr_err err = {0};
    if (orr_import_file(arena, path, &import, &err) != ORR_OK) {
        fail_msg("%s: %s", path, err.message);
    }
    orr_tree *over = orr_tree_new_map(arena);
    orr_tree_put_text(arena, over, "hardware", "h100");
    fill_text(arena, over, &import, "model", "llama-3.1-8b");
    fill_int(arena, over, &import, "seq", 4096);
    fill_int(arena, over, &import, "mbs", 1);
    int64_t each = number(&import, "tp") * number(&import, "pp") * number(&import, "cp");
    int64_t shards = number(&import, "shard_group") * number(&import, "ep");
    fill_int(arena, over, &import, "gpus", each * shards * 8);
    if (orr_tree_get(import.keys, "micro_batches") == NULL) {
        fill_int(arena, over, &import, "gbs", 4096);
    }
    orr_resolved resolved;
    memset(&resolved, 0, sizeof resolved);
    if (orr_plan_resolve(arena, orr_plan_merge(arena, import.keys, over), &resolved, &err) !=
        ORR_OK) {
        fail_msg("%s:%u: %s (%s)", path, err.line, err.message, err.hint);
    }
    assert_true(resolved.plan.gpus > 0);
    orr_arena_free(arena);
}

static void imports_resolve(void **state) {
    (void)state;
    static const char *const folders[] = {"scripts", "primus", "foreign"};
    size_t checked = 0;
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
        char path[1024];
        (void)snprintf(path, sizeof path, ORR_TEST_DIR "/data/%s", folders[f]);
        struct dirent **entries;
        int count = scandir(path, &entries, NULL, alphasort);
        assert_true(count > 0);
        for (int i = 0; i < count; i++) {
            const char *name = entries[i]->d_name;
            if (strchr(name, '.') > name && !ends_with(name, ".expect.json")) {
                (void)snprintf(path, sizeof path, ORR_TEST_DIR "/data/%s/%s", folders[f], name);
                check_file(path);
                checked++;
            }
            free(entries[i]);
        }
        free(entries);
    }
    assert_true(checked >= 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(imports_resolve)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
