/* Evidence as files that are shared: merging keeps whose each record is, and no edit goes unseen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include <stdio.h>

#include "doc/doc.h"
#include "evidence/evidence.h"
#include "orrery/orrery.h"

#define GEMM(m, us)                                                                                \
    "{\"op\": \"gemm\", \"phase\": \"forward\", \"m\": " #m                                        \
    ", \"n\": 64, \"k\": 64, \"out_bytes\": 2, \"time_us\": " #us "}"
#define GAP(what) "{\"what\": \"" what "\", \"why\": \"no memory left\"}"
#define FILE_OF(device, detail, software, missing, records)                                        \
    "{\"schema\": \"orrery.evidence/1\", \"device\": {\"name\": \"" device                         \
    "\", \"detail\": \"" detail "\"}, \"software\": \"" software "\", \"missing\": [" missing      \
    "], \"records\": [" records "]}"

typedef struct bench {
    orr_ctx *ctx;
    orr_arena *arena;
} bench;

static int begin(void **state) {
    static bench b;
    b = (bench){.arena = orr_arena_new()};
    *state = &b;
    return orr_ctx_new(NULL, &b.ctx, NULL) == ORR_OK ? 0 : -1;
}

static int end(void **state) {
    bench *b = (bench *)*state;
    static const char *const files[] = {"merge-a.json", "merge-b.json", "merge-out.json"};
    for (size_t i = 0; i < 3; i++) {
        (void)remove(files[i]);
    }
    orr_ctx_free(b->ctx);
    orr_arena_free(b->arena);
    return 0;
}

static void put(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static orr_status merge(bench *b, const char *files, const char *accept, orr_tree **out,
                        orr_err *err) {
    orr_tree *args = NULL;
    const char *told = accept[0] != '\0'
                           ? orr_arena_format(b->arena, ", \"evidence_accept\": \"%s\"", accept)
                           : "";
    const char *text = orr_arena_format(
        b->arena, "{\"file\": \"%s\", \"write\": \"merge-out.json\"%s}", files, told);
    memset(err, 0, sizeof *err);
    assert_int_equal(orr_read_text(b->arena, "args", text, strlen(text), &args, err), ORR_OK);
    return orr_call(b->ctx, "evidence merge", args, b->arena, out, err);
}

static orr_tree *merged(bench *b, const char *files, const char *accept) {
    orr_tree *out = NULL, *written = NULL;
    orr_err err;
    if (merge(b, files, accept, &out, &err) != ORR_OK) {
        fail_msg("%s", err.message);
    }
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(orr_file_read(b->arena, "merge-out.json", &text, &bytes, &err), ORR_OK);
    assert_int_equal(orr_json_read(b->arena, "merged", text, bytes, &written, &err), ORR_OK);
    return written;
}

static const char *text_at(const orr_tree *tree, const char *path) {
    return orr_tree_text(orr_tree_path(tree, path), "");
}

/* What a plan on a device under some software finds in the merged file. */
static uint32_t found(bench *b, const char *device, const char *software) {
    orr_accelerator *a = NULL;
    assert_int_equal(orr_accelerator_find(b->arena, device, &a, NULL), ORR_OK);
    const orr_evidence_want want = {
        .device = a, .software = software, .classes = ORR_CLASS_BIT_ALL};
    orr_evidence *set = NULL;
    orr_err err = {0};
    return orr_evidence_read(b->arena, "merge-out.json", &want, &set, &err) == ORR_OK ? set->count
                                                                                      : 0;
}

static void the_order_of_files_does_not_matter(void **state) {
    bench *b = (bench *)*state;
    put("merge-a.json",
        FILE_OF("b200", "1000 W", "megatron-core", "", GEMM(64, 10) "," GEMM(128, 20)));
    put("merge-b.json", FILE_OF("b200", "driver 580", "megatron-core", "", GEMM(64, 14)));
    const orr_tree *one = merged(b, "merge-a.json,merge-b.json", "");
    const orr_tree *other = merged(b, "merge-b.json,merge-a.json", "");
    assert_string_equal(text_at(one, "hash"), text_at(other, "hash"));
    assert_int_equal(orr_tree_size(orr_tree_get(one, "records")), 2);
    assert_string_equal(text_at(one, "device.detail"), "1000 W; driver 580");
    assert_string_equal(text_at(one, "software"), "megatron-core");
    assert_int_equal(found(b, "b200", "megatron-core"), 2);
}

/* Kernels run alone stay what they are: not the framework's, whatever they are merged with. */
static void who_ran_a_record_stays_with_it(void **state) {
    bench *b = (bench *)*state;
    put("merge-a.json", FILE_OF("b200", "", "", "", GEMM(64, 10) "," GEMM(128, 20)));
    put("merge-b.json", FILE_OF("b200", "", "megatron-core", "", GEMM(64, 14)));
    orr_tree *out = NULL;
    orr_err err;
    assert_int_equal(merge(b, "merge-a.json,merge-b.json", "", &out, &err), ORR_OK);
    assert_int_equal(orr_tree_int(orr_tree_path(out, "result.files.0.superseded"), 0), 1);
    const orr_tree *file = merged(b, "merge-a.json,merge-b.json", "");
    assert_string_equal(text_at(file, "software"), "");
    for (size_t i = 0; i < 2; i++) {
        const orr_tree *one = orr_tree_at(orr_tree_get(file, "records"), i);
        bool shared = orr_tree_int(orr_tree_get(one, "m"), 0) == 64;
        assert_string_equal(text_at(one, "software"), shared ? "megatron-core" : "");
        assert_true(orr_tree_real(orr_tree_get(one, "time_us"), 0) == (shared ? 14 : 20));
    }
    assert_int_equal(found(b, "b200", "megatron-core"), 2);
    assert_int_equal(found(b, "b200", "torchtitan"), 1);
}

static void two_stacks_and_two_devices_are_refused_unless_told(void **state) {
    bench *b = (bench *)*state;
    orr_tree *out = NULL;
    orr_err err;
    put("merge-a.json", FILE_OF("b200", "", "megatron-core", "", GEMM(64, 10)));
    put("merge-b.json", FILE_OF("b200", "", "torchtitan", "", GEMM(128, 14)));
    assert_int_equal(merge(b, "merge-a.json,merge-b.json", "", &out, &err), ORR_E_CONFLICT);
    assert_non_null(strstr(err.message, "measured under 'megatron-core'"));
    (void)merged(b, "merge-a.json,merge-b.json", "software");
    assert_int_equal(found(b, "b200", "megatron-core"), 1);
    assert_int_equal(found(b, "b200", "torchtitan"), 1);
    put("merge-b.json", FILE_OF("h100", "", "megatron-core", "", GEMM(64, 30) "," GEMM(128, 40)));
    assert_int_equal(merge(b, "merge-a.json,merge-b.json", "", &out, &err), ORR_E_CONFLICT);
    assert_non_null(strstr(err.message, "is not of b200"));
    const orr_tree *file = merged(b, "merge-a.json,merge-b.json", "device");
    assert_int_equal(orr_tree_size(orr_tree_get(file, "records")), 2);
    assert_int_equal(found(b, "b200", "megatron-core"), 1); /* and never h100's */
    assert_int_equal(found(b, "h100", "megatron-core"), 1);
}

static void an_edited_identity_is_noticed(void **state) {
    bench *b = (bench *)*state;
    put("merge-a.json", FILE_OF("b200", "", "megatron-core", "", GEMM(64, 10)));
    const orr_tree *file = merged(b, "merge-a.json", "");
    static const char *const edits[][2] = {{"device", "h100"}, {"software", "torchtitan"}};
    for (size_t i = 0; i < 2; i++) {
        orr_tree *changed = orr_tree_copy(b->arena, file), *out = NULL;
        orr_tree_put_text(b->arena, changed, edits[i][0], edits[i][1]);
        put("merge-b.json", orr_write_json(b->arena, changed, true));
        orr_err err;
        assert_int_equal(merge(b, "merge-b.json", "", &out, &err), ORR_E_CONFLICT);
        assert_non_null(strstr(err.message, "they were changed"));
    }
}

static void what_another_file_has_is_no_gap(void **state) {
    bench *b = (bench *)*state;
    put("merge-a.json",
        FILE_OF("b200", "", "", GAP("gemm bf16 forward m=128 n=64 k=64") "," GAP("x"),
                GEMM(64, 10)));
    put("merge-b.json", FILE_OF("b200", "", "", GAP("x"), GEMM(128, 14)));
    const orr_tree *gaps = orr_tree_get(merged(b, "merge-a.json,merge-b.json", ""), "missing");
    assert_int_equal(orr_tree_size(gaps), 1);
    assert_string_equal(text_at(orr_tree_at(gaps, 0), "what"), "x");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_order_of_files_does_not_matter, begin, end),
        cmocka_unit_test_setup_teardown(who_ran_a_record_stays_with_it, begin, end),
        cmocka_unit_test_setup_teardown(two_stacks_and_two_devices_are_refused_unless_told, begin,
                                        end),
        cmocka_unit_test_setup_teardown(an_edited_identity_is_noticed, begin, end),
        cmocka_unit_test_setup_teardown(what_another_file_has_is_no_gap, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
