#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "doc/doc.h"
#include "exchange/toml.h"

static void reads(const char *text, const char *json) {
    orr_arena *arena = orr_arena_new();
    orr_tree *tree;
    orr_err err = {0};
    if (orr_toml_read(arena, "t.toml", text, strlen(text), &tree, &err) != ORR_OK) {
        fail_msg("%s: %s", text, err.message);
    }
    orr_text out = orr_text_new(arena, 4096);
    orr_json_write(&out, tree, false);
    assert_string_equal(orr_text_done(&out), json);
    orr_arena_free(arena);
}

static void the_subset_is_read(void **state) {
    (void)state;
    reads("", "{}");
    reads("a = 1 # one\nb = -2.5\nc = true\r\nd = \"x\\ty\"\ne = 'C:\\n'\n",
          "{\"a\":1,\"b\":-2.5,\"c\":true,\"d\":\"x\\ty\",\"e\":\"C:\\\\n\"}");
    reads("a = 1_000\nb = 1e-4\nc = +3", "{\"a\":1000,\"b\":0.0001,\"c\":3}");
    reads("[t]\na = 1\n[t.u]\nb = 2\n[ v ]\n", "{\"t\":{\"a\":1,\"u\":{\"b\":2}},\"v\":{}}");
    reads("t.a = 1\nt.\"b c\" = 2", "{\"t\":{\"a\":1,\"b c\":2}}");
    reads("a = [1, 2,\n  3, # three\n]\nb = [[1], []]", "{\"a\":[1,2,3],\"b\":[[1],[]]}");
    reads("a = {x = 1, y.z = \"q\"}", "{\"a\":{\"x\":1,\"y\":{\"z\":\"q\"}}}");
}

static void refused(const char *text, uint32_t line, const char *part) {
    orr_arena *arena = orr_arena_new();
    orr_tree *tree;
    orr_err err = {0};
    orr_status status = orr_toml_read(arena, "t.toml", text, strlen(text), &tree, &err);
    assert_int_not_equal(status, ORR_OK);
    assert_int_equal(err.line, line);
    if (strstr(err.message, part) == NULL) {
        fail_msg("%s: %s", text, err.message);
    }
    orr_arena_free(arena);
}

static void the_rest_is_refused_with_its_line(void **state) {
    (void)state;
    refused("a = 1\na = 2", 2, "twice");
    refused("[a]\nb = 1\n[a.b]\n", 3, "cannot be a table");
    refused("\n[[a]]\n", 2, "arrays of tables");
    refused("a = \"\"\"x\"\"\"", 1, "several lines");
    refused("a = \"x\nb\"", 1, "ends on the line");
    refused("a = \"x", 1, "never closed");
    refused("a = 2024-01-01", 1, "no value");
    refused("a = inf", 1, "no value");
    refused("a =", 1, "no value");
    refused("a", 1, "\"=\"");
    refused("= 1", 1, "key");
    refused("a = 1 b = 2", 1, "should end");
    refused("a = [1 2]", 1, "array");
    refused("a = [1,", 1, "no value");
    refused("[a", 1, "\"]\"");
    refused("a = \"\\u0041\"", 1, "escape");
    char deep[400];
    memset(deep, '[', sizeof deep - 1);
    deep[0] = 'a';
    deep[1] = '=';
    deep[sizeof deep - 1] = '\0';
    refused(deep, 1, "too deeply");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_subset_is_read),
        cmocka_unit_test(the_rest_is_refused_with_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
