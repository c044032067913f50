#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/err.h"
#include "base/num.h"
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

typedef struct machine {
    const char *name;
    uint32_t gpus;
    uint64_t rows;
    double memory_bytes, link_Bps, latency_s, efficiency, offset;
    bool fast;
    uint8_t precision;
    uint32_t overlap;
    const orr_tree *extra;
    uint32_t kept;
} machine;

static const char *const precisions[] = {"bf16", "fp8", "fp8_cs", NULL};
static const char *const overlaps[] = {"tp", "dp", "pp", "ep", NULL};
static const char *const switches[] = {"off", "on", NULL};

#define AT(member) offsetof(machine, member)
static const orr_field fields[] = {
    {.name = "name", .type = ORR_FIELD_TEXT, .offset = AT(name), .doc = "What it is called."},
    {.name = "gpus",
     .type = ORR_FIELD_U32,
     .offset = AT(gpus),
     .min = 1,
     .max = 1024,
     .fallback = "8",
     .doc = "Accelerators a node."},
    {.name = "rows", .type = ORR_FIELD_U64, .offset = AT(rows), .fallback = "1.1k"},
    {.name = "memory",
     .type = ORR_FIELD_QUANTITY,
     .offset = AT(memory_bytes),
     .min = 1,
     .fallback = "80GiB",
     .unit = "bytes",
     .doc = "Its memory."},
    {.name = "link",
     .type = ORR_FIELD_QUANTITY,
     .offset = AT(link_Bps),
     .fallback = "400Gb/s",
     .unit = "bytes/s"},
    {.name = "latency",
     .type = ORR_FIELD_QUANTITY,
     .offset = AT(latency_s),
     .max = 1,
     .fallback = "12us",
     .unit = "s"},
    {.name = "efficiency",
     .type = ORR_FIELD_REAL,
     .offset = AT(efficiency),
     .max = 1,
     .fallback = "0.5"},
    {.name = "offset",
     .type = ORR_FIELD_REAL,
     .offset = AT(offset),
     .min = -10,
     .max = 10,
     .fallback = "-1.5"},
    {.name = "fast", .type = ORR_FIELD_BOOL, .offset = AT(fast), .fallback = "on"},
    {.name = "precision",
     .type = ORR_FIELD_ENUM,
     .offset = AT(precision),
     .values = precisions,
     .fallback = "bf16"},
    {.name = "overlap",
     .type = ORR_FIELD_FLAGS,
     .offset = AT(overlap),
     .values = overlaps,
     .fallback = "tp, ep"},
    {.name = "extra", .type = ORR_FIELD_TREE, .offset = AT(extra), .fallback = "[1, {a: 2}]"},
    {.name = "kept", .type = ORR_FIELD_U32, .offset = AT(kept), .fallback = ""},
};
static const orr_schema table = {"machine file", fields, sizeof fields / sizeof *fields, false};

static const orr_tree *yaml(orr_arena *arena, const char *text) {
    orr_tree *root = NULL;
    assert_int_equal(orr_yaml_read(arena, "m.yaml", text, strlen(text), &root, NULL), ORR_OK);
    return root;
}

static void defaults_and_values(void **state) {
    orr_arena *arena = *state;
    machine m = {.kept = 42};
    uint64_t seen = 0;
    orr_err err = {0};
    assert_int_equal(orr_schema_read(&table, arena, yaml(arena, "name: x"), &m, &seen, &err), 0);
    assert_string_equal(m.name, "x");
    assert_int_equal(seen, 1);
    assert_int_equal(m.gpus, 8);
    assert_int_equal(m.rows, 1100);
    assert_true(m.memory_bytes == 80 * ORR_GIB);
    assert_true(m.link_Bps == 50e9);
    assert_true(m.latency_s == 12e-6);
    assert_true(m.efficiency == 0.5);
    assert_true(m.offset == -1.5);
    assert_true(m.fast);
    assert_int_equal(m.precision, 0);
    assert_int_equal(m.overlap, 1 | 8);
    assert_string_equal(orr_write_json(arena, m.extra, false), "[1,{\"a\":2}]");
    assert_int_equal(m.kept, 42);

    const char *text = "name: y\ngpus: 16.0\nrows: \"3M\"\nmemory: 5\nlink: 3.35TB/s\nlatency: 2\n"
                       "latency_: 1\nefficiency: 1\noffset: \"-3\"\nfast: 'no'\nprecision: FP8-CS\n"
                       "overlap: [dp, PP]\nextra: ~\nkept: 7\n";
    orr_schema open = table;
    open.open = true;
    text = orr_arena_text(arena, text);
    const orr_tree *map = yaml(arena, text);
    m = (machine){0};
    assert_int_equal(orr_schema_read(&open, arena, map, &m, &seen, &err), ORR_E_SCHEMA);
    assert_string_equal(err.message, "\"latency\" is 2; it must be between 0 and 1 s");
    assert_int_equal(err.line, 6);
    assert_int_equal(err.column, 10);
    orr_tree *fixed = orr_tree_copy(arena, map);
    orr_tree_put_real(arena, fixed, "latency", 0.25);
    assert_int_equal(orr_schema_read(&open, arena, fixed, &m, &seen, &err), ORR_OK);
    assert_int_equal(m.gpus, 16);
    assert_int_equal(m.rows, 3000000);
    assert_true(m.memory_bytes == 5);
    assert_true(m.link_Bps == 3.35e12);
    assert_true(m.latency_s == 0.25);
    assert_true(m.offset == -3);
    assert_false(m.fast);
    assert_int_equal(m.precision, 2);
    assert_int_equal(m.overlap, 2 | 4);
    assert_int_equal(orr_tree_size(m.extra), 2); /* null counts as absent */
    assert_int_equal(m.kept, 7);
    assert_int_equal(seen, 0x1fff & ~(1 << 11));
    assert_int_equal(orr_schema_read(&table, arena, fixed, &m, &seen, &err), ORR_E_SCHEMA);
    assert_string_equal(err.message, "the machine file has no field \"latency_\"");
    assert_string_equal(err.hint, "did you mean \"latency\"?");
}

static void null_map_is_all_defaults(void **state) {
    orr_arena *arena = *state;
    machine m = {0};
    orr_err err = {0};
    assert_int_equal(orr_schema_read(&table, arena, NULL, &m, NULL, &err), ORR_E_SCHEMA);
    assert_string_equal(err.message, "the machine file lacks the field \"name\"");
    orr_schema rest = table;
    rest.fields++;
    rest.count--;
    assert_int_equal(orr_schema_read(&rest, arena, NULL, &m, NULL, NULL), ORR_OK);
    assert_int_equal(m.gpus, 8);
    assert_int_equal(orr_schema_read(&rest, arena, orr_tree_null(arena), &m, NULL, NULL), ORR_OK);
    assert_int_equal(orr_schema_read(&rest, arena, yaml(arena, "[1]"), &m, NULL, &err),
                     ORR_E_SCHEMA);
    assert_string_equal(err.message, "the machine file must be a map of fields, not a list");
}

typedef struct complaint {
    const char *text;
    const char *message, *hint;
} complaint;

static void messages(void **state) {
    static const complaint rows[] = {
        {"name: 5", "\"name\" is 5; it takes text", "put quotes around it"},
        {"name: [a]", "\"name\" is a list; it takes text", ""},
        {"name: \"a\\0b\"", "\"name\" is \"a\"; it takes text without NUL characters", ""},
        {"gpus: 0", "\"gpus\" is 0; it must be between 1 and 1024", ""},
        {"gpus: 1.5", "\"gpus\" is 1.5; it takes a whole number", ""},
        {"gpus: 4096", "\"gpus\" is 4096; it must be between 1 and 1024", ""},
        {"gpus: -1", "\"gpus\" is -1; it must be between 1 and 1024", ""},
        {"gpus: true", "\"gpus\" is true; it takes a whole number", ""},
        {"gpus: 4s", "\"gpus\" is \"4s\"; it takes a whole number", ""},
        {"rows: -1", "\"rows\" is -1; it must be 0 or more", ""},
        {"rows: 1e30", "\"rows\" is 1e+30; it takes a whole number", ""},
        {"kept: 4294967296", "\"kept\" is 4294967296; it must be between 0 and 4294967295", ""},
        {"memory: 12us", "\"memory\" is \"12us\"; it takes a number of bytes, such as \"80GiB\"",
         ""},
        {"memory: 0", "\"memory\" is 0; it must be at least 1 bytes", ""},
        {"link: {}", "\"link\" is a map; it takes a number of bytes/s, such as \"3.35TB/s\"", ""},
        {"efficiency: 1.01", "\"efficiency\" is 1.01; it must be between 0 and 1", ""},
        {"efficiency: 50%", "\"efficiency\" is \"50%\"; it takes a number", ""},
        {"fast: 1", "\"fast\" is 1; it takes true or false", ""},
        {"precision: fp9", "\"precision\" has no value \"fp9\"",
         "did you mean \"fp8\"? it takes bf16, fp8, fp8_cs"},
        {"precision: something", "\"precision\" has no value \"something\"",
         "it takes bf16, fp8, fp8_cs"},
        {"precision: [bf16]", "\"precision\" is a list; it takes one of bf16, fp8, fp8_cs", ""},
        {"overlap: [tp, cp]", "\"overlap\" has no value \"cp\"",
         "did you mean \"tp\"? it takes tp, dp, pp, ep"},
        {"overlap: [tp, []]", "\"overlap\" is a list; it takes names in its list", ""},
        {"overlap: 5", "\"overlap\" is 5; it takes a list of tp, dp, pp, ep", ""},
        {"zzzzzzzzzzzzz: 5", "the machine file has no field \"zzzzzzzzzzzzz\"",
         "it has name, gpus, rows, memory, link, latency, efficiency, offset, fast, precision, "
         "overlap, extra, kept"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        machine m = {0};
        orr_err err = {0};
        assert_int_equal(
            orr_schema_read(&table, *state, yaml(*state, rows[i].text), &m, NULL, &err),
            ORR_E_SCHEMA);
        assert_string_equal(err.message, rows[i].message);
        assert_string_equal(err.hint, rows[i].hint);
        assert_string_equal(err.file, "m.yaml");
        assert_int_equal(err.line, 1);
    }
}

static void all_problems_at_once(void **state) {
    orr_arena *arena = *state;
    orr_tree *problems = orr_tree_new_list(arena);
    machine m = {0};
    orr_err err = {0};
    const orr_tree *map = yaml(arena, "gpu: 8\n"
                                      "rows: x\n"
                                      "precision: fp7\n"
                                      "memory: 1GiB\n");
    assert_int_equal(orr_schema_read_all(&table, arena, map, &m, NULL, problems, &err),
                     ORR_E_SCHEMA);
    assert_string_equal(err.message, "the machine file has no field \"gpu\"");
    assert_string_equal(orr_write_json(arena, problems, true),
                        "[\n"
                        "  {\n"
                        "    \"code\": \"unknown_field\",\n"
                        "    \"message\": \"the machine file has no field \\\"gpu\\\"\",\n"
                        "    \"hint\": \"did you mean \\\"gpus\\\"?\",\n"
                        "    \"file\": \"m.yaml\",\n"
                        "    \"line\": 1,\n"
                        "    \"column\": 1\n"
                        "  },\n"
                        "  {\n"
                        "    \"code\": \"wrong_type\",\n"
                        "    \"message\": \"\\\"rows\\\" is \\\"x\\\"; it takes a whole number\",\n"
                        "    \"hint\": null,\n"
                        "    \"file\": \"m.yaml\",\n"
                        "    \"line\": 2,\n"
                        "    \"column\": 7\n"
                        "  },\n"
                        "  {\n"
                        "    \"code\": \"unknown_value\",\n"
                        "    \"message\": \"\\\"precision\\\" has no value \\\"fp7\\\"\",\n"
                        "    \"hint\": \"did you mean \\\"fp8\\\"? it takes bf16, fp8, fp8_cs\",\n"
                        "    \"file\": \"m.yaml\",\n"
                        "    \"line\": 3,\n"
                        "    \"column\": 12\n"
                        "  },\n"
                        "  {\n"
                        "    \"code\": \"missing_field\",\n"
                        "    \"message\": \"the machine file lacks the field \\\"name\\\"\",\n"
                        "    \"hint\": \"name: What it is called.\",\n"
                        "    \"file\": \"m.yaml\",\n"
                        "    \"line\": 1,\n"
                        "    \"column\": 1\n"
                        "  }\n"
                        "]");
    assert_true(m.memory_bytes == ORR_GIB); /* what is good is read all the same */
    orr_text many = orr_text_new(arena, 1 << 16);
    for (int i = 0; i < 200; i++) {
        orr_text_format(&many, "unknown%d: 1\n", i);
    }
    assert_int_equal(
        orr_schema_read_all(&table, arena, yaml(arena, many.bytes), &m, NULL, problems, &err),
        ORR_E_SCHEMA);
    assert_int_equal(orr_tree_size(problems), ORR_MAX_PROBLEMS);
}

static void bad_tables_are_internal(void **state) {
    const orr_field wrong = {
        .name = "n", .type = ORR_FIELD_U32, .min = 1, .max = 8, .fallback = "9"};
    const orr_schema schema = {"test", &wrong, 1, false};
    uint32_t n = 0;
    orr_err err = {0};
    assert_int_equal(orr_schema_read(&schema, *state, NULL, &n, NULL, &err), ORR_E_INTERNAL);
}

static void writes_back(void **state) {
    orr_arena *arena = *state;
    machine m = {.kept = 42}, again = {0};
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_text(arena, map, "name", "x");
    orr_tree_put_text(arena, map, "overlap", "all");
    orr_tree_put_text(arena, map, "extra", "word");
    assert_int_equal(orr_schema_read(&table, arena, map, &m, NULL, NULL), ORR_OK);
    orr_tree *written = orr_schema_write(&table, arena, &m);
    assert_string_equal(
        orr_write_json(arena, written, false),
        "{\"name\":\"x\",\"gpus\":8,\"rows\":1100,\"memory\":85899345920,\"link\":50000000000,"
        "\"latency\":1.2e-05,\"efficiency\":0.5,\"offset\":-1.5,\"fast\":true,"
        "\"precision\":\"bf16\",\"overlap\":[\"tp\",\"dp\",\"pp\",\"ep\"],\"extra\":\"word\","
        "\"kept\":42}");
    assert_int_equal(orr_schema_read(&table, arena, written, &again, NULL, NULL), ORR_OK);
    assert_string_equal(orr_write_json(arena, orr_schema_write(&table, arena, &again), false),
                        orr_write_json(arena, written, false));
}

static void words_that_became_scalars(void **state) {
    const orr_field field = {
        .name = "sp", .type = ORR_FIELD_ENUM, .values = switches, .fallback = "off"};
    const orr_schema schema = {"plan", &field, 1, false};
    uint8_t value = 9;
    assert_int_equal(orr_schema_read(&schema, *state, yaml(*state, "sp: true"), &value, NULL, NULL),
                     ORR_OK);
    assert_int_equal(value, 1);
    assert_int_equal(orr_schema_read(&schema, *state, yaml(*state, "sp: Off"), &value, NULL, NULL),
                     ORR_OK);
    assert_int_equal(value, 0);
}

static void describes_itself(void **state) {
    orr_arena *arena = *state;
    const orr_tree *list = orr_schema_fields(&table, arena);
    assert_int_equal(orr_tree_size(list), table.count);
    assert_string_equal(orr_write_json(arena, orr_tree_at(list, 3), false),
                        "{\"name\":\"memory\",\"type\":\"quantity\",\"required\":false,"
                        "\"default\":\"80GiB\",\"unit\":\"bytes\",\"values\":null,"
                        "\"doc\":\"Its memory.\"}");
}

static void quantities_by_unit(void **state) {
    static const struct {
        const char *unit, *text;
        double value; /* -1: refused */
    } rows[] = {
        {"bytes", "80GiB", 80 * ORR_GIB},
        {"bytes", "1.5 kB", 1500},
        {"bytes", "8Kib", 1024},
        {"bytes", "64K", 64000},
        {"bytes", "2Mi", 2 * ORR_MIB},
        {"bytes", "1e3B", 1000},
        {"bytes", "1EB", 1e18},
        {"bytes", "12us", -1},
        {"bytes", "3B/s", -1},
        {"bytes", "GB", -1},
        {"bytes", "1 apple", -1},
        {"bytes/s", "3.35TB/s", 3.35e12},
        {"bytes/s", "400Gb/s", 50e9},
        {"bytes/s", "400Gbps", 50e9},
        {"s", "12us", 12e-6},
        {"s", "12\xc2\xb5s", 12e-6},
        {"s", "3.3ns", 3.3e-9},
        {"s", "1.5min", 90},
        {"s", "2h", 7200},
        {"s", "2m", -1},
        {"s", "2ks", -1},
        {"flop/s", "989TFLOP/s", 989e12},
        {"flop/s", "2.5PFLOPS", 2.5e15},
        {"flop/s", "1TB/s", -1},
        {"tokens", "15T", 15e12},
        {"tokens", "1B", 1e9},
        {"W", "700W", 700},
        {"Hz", "1.98GHz", 1.98e9},
        {"USD/h", "2.5 USD/h", 2.5},
        {"USD/h", "2.5 EUR/h", -1},
        {NULL, "1.5M", 1.5e6},
        {NULL, "1.5MB", -1},
        {NULL, "nan", -1},
        {NULL, "inf", -1},
        {NULL, "1e999", -1},
        {NULL, "1e99999999999999999999", -1},
        {NULL, "0x10", -1},
        {NULL, "", -1},
        {NULL, ".", -1},
        {NULL, "5.", 5},
        {NULL, "1e308T", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        orr_field field = {.name = "q", .type = ORR_FIELD_QUANTITY, .unit = rows[i].unit};
        const orr_schema schema = {"test", &field, 1, false};
        orr_tree *map = orr_tree_new_map(*state);
        orr_tree_put_text(*state, map, "q", rows[i].text);
        double value = -1;
        orr_status status = orr_schema_read(&schema, *state, map, &value, NULL, NULL);
        if (value != rows[i].value || (status == ORR_OK) != (rows[i].value >= 0)) {
            fail_msg("%s as %s: %.17g, not %.17g", rows[i].text, rows[i].unit, value,
                     rows[i].value);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(defaults_and_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(null_map_is_all_defaults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(messages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_problems_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_tables_are_internal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(writes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(words_that_became_scalars, set_up, tear_down),
        cmocka_unit_test_setup_teardown(describes_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(quantities_by_unit, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
