#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "doc/doc.h"
#include "orrery/orrery.h"

static int set_up(void **state) {
    *state = orr_arena_new();
    return 0;
}

static int tear_down(void **state) {
    orr_arena_free(*state);
    return 0;
}

/* ---- the tree ------------------------------------------------------------------------------- */

static void map_keeps_order_and_finds_keys(void **state) {
    orr_arena *arena = *state;
    orr_tree *map = orr_tree_new_map(arena);
    for (int i = 0; i < 5000; i++) {
        orr_tree_put_int(arena, map, orr_arena_format(arena, "key%d", i * 7919 % 5000), i);
        assert_int_equal(orr_tree_size(map), i + 1);
        assert_int_equal(orr_tree_int(orr_tree_get(map, "key0"), -1), 0);
    }
    for (int i = 0; i < 5000; i++) {
        const char *key = orr_arena_format(arena, "key%d", i * 7919 % 5000);
        assert_string_equal(orr_tree_key(map, (size_t)i), key);
        assert_int_equal(orr_tree_int(orr_tree_get(map, key), -1), i);
    }
    assert_null(orr_tree_get(map, "key5000"));
    assert_null(orr_tree_get(map, "key"));
    assert_null(orr_tree_key(map, 5000));
    orr_tree_put_text(arena, map, "key3", "again");
    assert_int_equal(orr_tree_size(map), 5000);
    assert_string_equal(orr_tree_text(orr_tree_get(map, "key3"), ""), "again");
}

static void null_reads_as_null(void **state) {
    (void)state;
    assert_int_equal(orr_tree_kind_of(NULL), ORR_TREE_NULL);
    assert_int_equal(orr_tree_size(NULL), 0);
    assert_null(orr_tree_at(NULL, 0));
    assert_null(orr_tree_get(NULL, "a"));
    assert_null(orr_tree_path(NULL, "a.b"));
    assert_int_equal(orr_tree_int(NULL, 7), 7);
    assert_true(orr_tree_bool(NULL, true));
    assert_string_equal(orr_tree_text(NULL, "x"), "x");
    assert_int_equal(orr_tree_span(NULL).line, 0);
}

static void numbers_convert_when_exact(void **state) {
    orr_arena *arena = *state;
    assert_int_equal(orr_tree_int(orr_tree_new_real(arena, 3.0), -1), 3);
    assert_int_equal(orr_tree_int(orr_tree_new_real(arena, 3.5), -1), -1);
    assert_int_equal(orr_tree_int(orr_tree_new_real(arena, 1e300), -1), -1);
    assert_int_equal(orr_tree_int(orr_tree_new_real(arena, -0x1p63), -1), INT64_MIN);
    assert_true(orr_tree_real(orr_tree_new_int(arena, 5), 0) == 5.0);
    assert_int_equal(orr_tree_kind_of(orr_tree_new_real(arena, 1.0 / 0.0)), ORR_TREE_NULL);
    assert_string_equal(orr_tree_text(orr_tree_new_int(arena, 5), "no"), "no");
}

/* ---- readers -------------------------------------------------------------------------------- */

static const orr_tree *read_ok(orr_arena *arena, const char *text) {
    orr_tree *root = NULL;
    orr_err err = {0};
    orr_status status = orr_doc_read(arena, "in", text, strlen(text), &root, &err);
    if (status != ORR_OK) {
        fail_msg("%s\n%u:%u: %s", text, err.line, err.column, err.message);
    }
    return root;
}

static void assert_reads(orr_arena *arena, const char *text, const char *json) {
    assert_string_equal(orr_write_json(arena, read_ok(arena, text), false), json);
}

typedef struct refusal {
    const char *text;
    orr_status status;
    uint32_t line, column;
    const char *message; /* a part of it */
} refusal;

typedef orr_status (*reader_fn)(orr_arena *arena, const char *name, const char *text, size_t length,
                                orr_tree **out, orr_err *err);

static void assert_refused(orr_arena *arena, reader_fn read, const refusal *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        orr_tree *root = NULL;
        orr_err err = {0};
        orr_status status = read(arena, "in", rows[i].text, strlen(rows[i].text), &root, &err);
        if (status != rows[i].status || err.line != rows[i].line || err.column != rows[i].column ||
            strstr(err.message, rows[i].message) == NULL || strcmp(err.file, "in") != 0) {
            fail_msg("%s\ngave %d at %s:%u:%u: %s", rows[i].text, (int)status, err.file, err.line,
                     err.column, err.message);
        }
        assert_null(root);
    }
}

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

static void json_values(void **state) {
    orr_arena *arena = *state;
    assert_reads(arena, "{\"b\":[1,-2.5,1e3,true,false,null],\"a\":{\"x\":\"y\"}}",
                 "{\"b\":[1,-2.5,1000,true,false,null],\"a\":{\"x\":\"y\"}}");
    assert_reads(arena, "\xef\xbb\xbf [ ] ", "[]");
    assert_reads(arena, "[9223372036854775807,-9223372036854775808]",
                 "[9223372036854775807,-9223372036854775808]");
    assert_reads(arena, "[\"\\ud83d\\ude00\\u0000\\n\\\"\"]",
                 "[\"\xf0\x9f\x98\x80\\u0000\\n\\\"\"]");
    assert_int_equal(orr_tree_text_length(orr_tree_at(read_ok(arena, "[\"a\\u0000b\"]"), 0)), 3);
}

static void assert_place(const orr_tree *root, const char *path, uint32_t line, uint32_t column) {
    const orr_tree *node = orr_tree_path(root, path);
    assert_non_null(node);
    orr_span span = orr_tree_span(node);
    assert_string_equal(span.file, "in");
    assert_int_equal(span.line, line);
    assert_int_equal(span.column, column);
}

static void json_places(void **state) {
    const orr_tree *root = read_ok(*state, "{\n"
                                           "  \"a\": [1, \"x\\\"]\xc3\xa9\", {\"k}\": null}],\n"
                                           "  \"\xc3\xa9\": 2 , \"e\":{},\"t\":true,\n"
                                           "\t\"z\" : -1.5e3}");
    assert_int_equal(orr_tree_span(root).line, 1);
    assert_place(root, "a", 2, 8);
    assert_place(root, "a.0", 2, 9);
    assert_place(root, "a.1", 2, 12);
    assert_place(root, "a.2", 2, 21);
    assert_place(root, "a.2.k}", 2, 28);
    assert_place(root, "\xc3\xa9", 3, 8);
    assert_place(root, "e", 3, 16);
    assert_place(root, "t", 3, 23);
    assert_place(root, "z", 4, 8);
    assert_int_equal(orr_tree_key_span(root, 1).line, 3);
    assert_int_equal(orr_tree_key_span(root, 1).column, 3);
    assert_int_equal(orr_tree_key_span(root, 4).column, 2);
}

static void json_refusals(void **state) {
    static const refusal rows[] = {
        {"{\"a\":1,\n \"a\":2}", ORR_E_SYNTAX, 2, 2, "\"a\" is given twice"},
        {"{\"a key longer than twenty characters\":1,\"a key longer than twenty characters\":2}",
         ORR_E_SYNTAX, 1, 42, "given twice"},
        {"[NaN]", ORR_E_SYNTAX, 1, 2, "NaN and infinity"},
        {"[-Infinity]", ORR_E_SYNTAX, 1, 2, "NaN and infinity"},
        {"[1e999]", ORR_E_SYNTAX, 1, 2, "too large for a double"},
        {"[1,\n9223372036854775808]", ORR_E_SYNTAX, 2, 1, "does not fit 64 bits"},
        {"[123456789012345678901234567890]", ORR_E_SYNTAX, 1, 2, "does not fit 64 bits"},
        {"[1] x", ORR_E_SYNTAX, 1, 5, "more text"},
        {"[1,]", ORR_E_SYNTAX, 1, 4, "not JSON"},
        {"{\"a\":", ORR_E_SYNTAX, 1, 6, "ends before"},
        {"", ORR_E_SYNTAX, 1, 1, "ends before"},
        {"[\"\xff\"]", ORR_E_SYNTAX, 1, 3, "0xff is not UTF-8"},
        {"[\"\\ud800\"]", ORR_E_SYNTAX, 1, 2, "not JSON"},
        {"{\"a\\u0000\":1}", ORR_E_SYNTAX, 1, 2, "NUL"},
        {"[1] // why", ORR_E_SYNTAX, 1, 5, "more text"},
        {"[01]", ORR_E_SYNTAX, 1, 2, "not JSON"},
    };
    assert_refused(*state, orr_json_read, rows, COUNT(rows));
}

/* A NUL between values, which jansson skips, is refused in every format. */
static void nul_bytes_are_refused(void **state) {
    orr_err err = {0};
    orr_tree *root = NULL;
    assert_int_equal(orr_json_read(*state, NULL, "[1\0,2]", 6, &root, &err), ORR_E_SYNTAX);
    assert_string_equal(err.message, "the text holds a NUL character");
    assert_int_equal(err.column, 3);
    assert_int_equal(orr_yaml_read(*state, NULL, "a: \0", 4, &root, &err), ORR_E_SYNTAX);
    assert_int_equal(err.column, 4);
}

static void yaml_values(void **state) {
    orr_arena *arena = *state;
    assert_reads(arena,
                 "a: [1, +2, -3, 0x1F, 0o17, 007]\n"
                 "b: [1.5, .5, 1., 1e3, -2E-1]\n"
                 "c: [true, False, NULL, ~, null, ]\n"
                 "d: [yes, no, on, off, 1_000, 1:30, '1', \"true\", 1e, 0x, .]\n"
                 "e:\n",
                 "{\"a\":[1,2,-3,31,15,7],\"b\":[1.5,0.5,1,1000,-0.2],"
                 "\"c\":[true,false,null,null,null],"
                 "\"d\":[\"yes\",\"no\",\"on\",\"off\",\"1_000\",\"1:30\",\"1\",\"true\",\"1e\","
                 "\"0x\",\".\"],\"e\":null}");
    assert_reads(arena, "", "null");
    assert_reads(arena, "# nothing\n", "null");
    assert_reads(arena, "--- 5\n...\n", "5");
    assert_reads(arena, "1: x\ntrue: y\n", "{\"1\":\"x\",\"true\":\"y\"}");
    assert_reads(arena, "a: !!str 5\nb: !!float 5\nc: !!int '5'\nd: ! 5\n",
                 "{\"a\":\"5\",\"b\":5,\"c\":5,\"d\":\"5\"}");
    assert_reads(arena, "a: |\n  x\n  y\nb: >-\n  x\n  y\n", "{\"a\":\"x\\ny\\n\",\"b\":\"x y\"}");
}

static void yaml_aliases_and_merges(void **state) {
    orr_arena *arena = *state;
    assert_reads(arena, "a: &x {k: 1, l: 2}\nb: *x\n",
                 "{\"a\":{\"k\":1,\"l\":2},\"b\":{\"k\":1,\"l\":2}}");
    assert_reads(arena, "a: &x {k: 1, l: 2}\nb: {<<: *x, k: 9, m: 3}\n",
                 "{\"a\":{\"k\":1,\"l\":2},\"b\":{\"k\":9,\"m\":3,\"l\":2}}");
    assert_reads(arena, "- &x {k: 1}\n- &y {k: 2, l: 2}\n- <<: [*x, *y]\n",
                 "[{\"k\":1},{\"k\":2,\"l\":2},{\"k\":1,\"l\":2}]");
    assert_reads(arena, "'<<': 1\n", "{\"<<\":1}");
    assert_reads(arena, "&k a: *k\n", "{\"a\":\"a\"}");
    assert_reads(arena, "- &x 1\n- &x 2\n- *x\n", "[1,2,2]");
}

static void yaml_places(void **state) {
    const orr_tree *root = read_ok(*state, "a: 1\n"
                                           "b:\n"
                                           "  - x\n"
                                           "  - {\xc3\xa9: 2, f: 'q'}\n"
                                           "c: # nothing\n");
    assert_place(root, "a", 1, 4);
    assert_place(root, "b", 3, 3);
    assert_place(root, "b.0", 3, 5);
    assert_place(root, "b.1", 4, 5);
    assert_place(root, "b.1.\xc3\xa9", 4, 9);
    assert_place(root, "b.1.f", 4, 15);
    assert_int_equal(orr_tree_key_span(root, 1).line, 2);
    assert_int_equal(orr_tree_key_span(orr_tree_path(root, "b.1"), 1).column, 12);
}

static void yaml_refusals(void **state) {
    static const refusal rows[] = {
        {"a: 1\na: 2\n", ORR_E_SYNTAX, 2, 1, "\"a\" is given twice"},
        {"a: .nan\n", ORR_E_SYNTAX, 1, 4, "not finite"},
        {"a: -.INF\n", ORR_E_SYNTAX, 1, 4, "not finite"},
        {"a: 1e999\n", ORR_E_SYNTAX, 1, 4, "too large"},
        {"a: 9223372036854775808\n", ORR_E_SYNTAX, 1, 4, "does not fit 64 bits"},
        {"a: 0xffffffffffffffff\n", ORR_E_SYNTAX, 1, 4, "does not fit 64 bits"},
        {"a: 1\n---\nb: 2\n", ORR_E_SYNTAX, 2, 1, "second YAML document"},
        {"? [1, 2]\n: x\n", ORR_E_SYNTAX, 1, 3, "plain name"},
        {"? {a: 1}\n: x\n", ORR_E_SYNTAX, 1, 3, "plain name"},
        {"a: &x 1\n*x : 2\n", ORR_E_SYNTAX, 2, 1, "plain name"},
        {"?\n: x\n", ORR_E_SYNTAX, 1, 2, "without a key"},
        {"\"a\\0b\": x\n", ORR_E_SYNTAX, 1, 1, "NUL"},
        {"a: *x\n", ORR_E_SYNTAX, 1, 4, "names no anchor"},
        {"a: &x [*x]\n", ORR_E_SYNTAX, 1, 8, "inside its own anchor"},
        {"a: !ruby/object {}\n", ORR_E_SYNTAX, 1, 4, "tag"},
        {"a: !!int x\n", ORR_E_SYNTAX, 1, 4, "not of the type"},
        {"a: {<<: 5}\n", ORR_E_SYNTAX, 1, 9, "merge key"},
        {"a: {<<: {}, <<: {}}\n", ORR_E_SYNTAX, 1, 13, "given twice"},
        {"a: [1\n", ORR_E_SYNTAX, 2, 1, "not YAML"},
        {"a:\n\tb: 1\n", ORR_E_SYNTAX, 2, 1, "not YAML"},
        {"a: \x01\n", ORR_E_SYNTAX, 1, 4, "not YAML"},
        {"a: \xc0\x80\n", ORR_E_SYNTAX, 1, 4, "0xc0 is not UTF-8"},
    };
    assert_refused(*state, orr_yaml_read, rows, COUNT(rows));
}

static void read_by_content(void **state) {
    orr_arena *arena = *state;
    static const char text[] = "{tp: 8}";
    orr_tree *root = NULL;
    assert_int_equal(orr_read_text(arena, "a.json", text, sizeof text - 1, &root, NULL),
                     ORR_E_SYNTAX);
    assert_int_equal(orr_read_text(arena, "a.yaml", text, sizeof text - 1, &root, NULL), ORR_OK);
    assert_int_equal(orr_tree_int(orr_tree_get(root, "tp"), 0), 8);
    assert_int_equal(orr_read_text(arena, NULL, "tp: 4", 5, &root, NULL), ORR_OK);
    assert_int_equal(orr_tree_int(orr_tree_get(root, "tp"), 0), 4);
    assert_null(orr_tree_span(root).file);
}

/* ---- limits --------------------------------------------------------------------------------- */

static char *repeat(orr_arena *arena, const char *a, size_t n, const char *middle, const char *b) {
    orr_text text = orr_text_new(arena, (size_t)1 << 30);
    for (size_t i = 0; i < n; i++) {
        orr_text_add(&text, a);
    }
    orr_text_add(&text, middle);
    for (size_t i = 0; i < n; i++) {
        orr_text_add(&text, b);
    }
    return orr_text_done(&text);
}

static void depth_is_limited(void **state) {
    orr_arena *arena = *state;
    orr_err err = {0};
    orr_tree *root = NULL;
    const reader_fn readers[] = {orr_json_read, orr_yaml_read};
    for (size_t i = 0; i < COUNT(readers); i++) {
        const char *good = repeat(arena, "[", ORR_DOC_MAX_DEPTH, "1", "]");
        assert_int_equal(readers[i](arena, NULL, good, strlen(good), &root, &err), ORR_OK);
        const char *bad = repeat(arena, "[", ORR_DOC_MAX_DEPTH + 1, "1", "]");
        assert_int_equal(readers[i](arena, NULL, bad, strlen(bad), &root, &err), ORR_E_LIMIT);
        const char *hostile = repeat(arena, "[", 1000000, "", "");
        assert_int_equal(readers[i](arena, NULL, hostile, strlen(hostile), &root, &err),
                         ORR_E_LIMIT);
        assert_int_equal(err.column, ORR_DOC_MAX_DEPTH + 1);
    }
}

static void nodes_are_limited(void **state) {
    orr_arena *arena = *state;
    orr_err err = {0};
    orr_tree *root = NULL;
    const char *many = repeat(arena, "0,", ORR_DOC_MAX_NODES + 1, "", "");
    const char *list = orr_arena_format(arena, "[%s0]", many);
    assert_int_equal(orr_json_read(arena, NULL, list, strlen(list), &root, &err), ORR_E_LIMIT);
    assert_int_equal(orr_yaml_read(arena, NULL, list, strlen(list), &root, &err), ORR_E_LIMIT);
    static char large[ORR_DOC_MAX_BYTES + 1];
    memset(large, ' ', sizeof large);
    assert_int_equal(orr_json_read(arena, NULL, large, sizeof large, &root, &err), ORR_E_LIMIT);
    assert_int_equal(orr_yaml_read(arena, NULL, large, sizeof large, &root, &err), ORR_E_LIMIT);
}

static void aliases_are_limited(void **state) {
    orr_arena *arena = *state;
    orr_err err = {0};
    orr_tree *root = NULL;
    orr_text laughs = orr_text_new(arena, 1 << 20);
    orr_text_add(&laughs, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 12; i++) {
        orr_text_format(&laughs, "a%d: &a%d [", i, i);
        for (int k = 0; k < 10; k++) {
            orr_text_format(&laughs, "*a%d, ", i - 1);
        }
        orr_text_add(&laughs, "]\n");
    }
    assert_int_equal(orr_yaml_read(arena, NULL, laughs.bytes, laughs.length, &root, &err),
                     ORR_E_LIMIT);
    assert_non_null(strstr(err.message, "values"));
    orr_text deep = orr_text_new(arena, 1 << 20);
    orr_text_add(&deep, "- &a0 [x]\n");
    for (int i = 1; i < 100; i++) {
        orr_text_format(&deep, "- &a%d [*a%d]\n", i, i - 1);
    }
    assert_int_equal(orr_yaml_read(arena, NULL, deep.bytes, deep.length, &root, &err), ORR_E_LIMIT);
    assert_non_null(strstr(err.message, "deep"));
    orr_text many = orr_text_new(arena, 1 << 20);
    orr_text_add(&many, "- &a x\n");
    for (int i = 0; i <= ORR_DOC_MAX_ALIASES; i++) {
        orr_text_add(&many, "- *a\n");
    }
    assert_int_equal(orr_yaml_read(arena, NULL, many.bytes, many.length, &root, &err), ORR_E_LIMIT);
    assert_non_null(strstr(err.message, "aliases"));
}

/* ---- CSV ------------------------------------------------------------------------------------ */

static void csv_rows(void **state) {
    static const char text[] = "\xef\xbb\xbf"
                               "model,gpu,\"a, b\"\r\n"
                               "x,,1\r\n"
                               "\r\n"
                               "\"two\nlines\",\"say \"\"hi\"\"\",\"\"\n"
                               ",,\n"
                               "last,row,3";
    static const char *const rows[][3] = {
        {"x", "", "1"}, {"two\nlines", "say \"hi\"", ""}, {"", "", ""}, {"last", "row", "3"}};
    static const uint32_t lines[] = {2, 4, 6, 7};
    orr_csv *csv;
    assert_int_equal(orr_csv_open(*state, "t.csv", text, sizeof text - 1, &csv, NULL), ORR_OK);
    assert_int_equal(orr_csv_columns(csv), 3);
    assert_string_equal(orr_csv_column(csv, 2), "a, b");
    assert_null(orr_csv_column(csv, 3));
    assert_int_equal(orr_csv_find(csv, "gpu"), 1);
    assert_int_equal(orr_csv_find(csv, "gp"), -1);
    const char *const *cells;
    bool more;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(orr_csv_next(csv, &cells, &more, NULL), ORR_OK);
        assert_true(more);
        assert_int_equal(orr_csv_line(csv), lines[i]);
        for (size_t k = 0; k < 3; k++) {
            assert_string_equal(cells[k], rows[i][k]);
        }
    }
    assert_int_equal(orr_csv_next(csv, &cells, &more, NULL), ORR_OK);
    assert_false(more);
}

static orr_status read_csv(orr_arena *arena, const char *name, const char *text, size_t length,
                           orr_tree **out, orr_err *err) {
    (void)out;
    orr_csv *csv;
    orr_status status = orr_csv_open(arena, name, text, length, &csv, err);
    for (bool more = true; status == ORR_OK && more;) {
        const char *const *cells;
        status = orr_csv_next(csv, &cells, &more, err);
    }
    return status;
}

static void csv_refusals(void **state) {
    static const refusal rows[] = {
        {"", ORR_E_SYNTAX, 1, 1, "header"},
        {"a,b\n1\n", ORR_E_SYNTAX, 2, 0, "1 cells"},
        {"a,b\n1,2\n1,2,3\n", ORR_E_SYNTAX, 3, 0, "more cells"},
        {"a,b\n\"1\",2,3\n", ORR_E_SYNTAX, 2, 0, "more cells"},
        {"a,a\n", ORR_E_SYNTAX, 1, 0, "twice"},
        {"a\n\n\"x\n", ORR_E_SYNTAX, 3, 0, "never closed"},
        {"a\nx\"y\"\n", ORR_E_SYNTAX, 2, 0, "quote stands inside"},
        {"a\n\"x\"y\n", ORR_E_SYNTAX, 2, 0, "quote stands inside"},
        {"a\n\xe9\n", ORR_E_SYNTAX, 2, 1, "not UTF-8"},
    };
    assert_refused(*state, read_csv, rows, COUNT(rows));
    orr_err err = {0};
    assert_int_equal(read_csv(*state, NULL, "a\n\0", 3, NULL, &err), ORR_E_SYNTAX);
    assert_non_null(strstr(err.message, "NUL"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(map_keeps_order_and_finds_keys, set_up, tear_down),
        cmocka_unit_test(null_reads_as_null),
        cmocka_unit_test_setup_teardown(numbers_convert_when_exact, set_up, tear_down),
        cmocka_unit_test_setup_teardown(json_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(json_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(json_refusals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nul_bytes_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(yaml_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(yaml_aliases_and_merges, set_up, tear_down),
        cmocka_unit_test_setup_teardown(yaml_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(yaml_refusals, set_up, tear_down),
        cmocka_unit_test_setup_teardown(read_by_content, set_up, tear_down),
        cmocka_unit_test_setup_teardown(depth_is_limited, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nodes_are_limited, set_up, tear_down),
        cmocka_unit_test_setup_teardown(aliases_are_limited, set_up, tear_down),
        cmocka_unit_test_setup_teardown(csv_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(csv_refusals, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
