#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <zlib.h>

#include "base/os_file.h"
#include "base/rng.h"
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

static const char *scratch(orr_arena *arena, const char *name) {
    return orr_arena_format(arena, "test_doc_file.%ld.%s", (long)getpid(), name);
}

static const char *save(orr_arena *arena, const char *name, const char *bytes, size_t length) {
    const char *path = scratch(arena, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    return path;
}

/* One gzip member of the bytes. */
static size_t pack(const char *bytes, size_t length, unsigned char *out, size_t capacity) {
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (z_const Bytef *)(uintptr_t)bytes;
    z.avail_in = (uInt)length;
    z.next_out = out;
    z.avail_out = (uInt)capacity;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t packed = capacity - z.avail_out;
    assert_int_equal(deflateEnd(&z), Z_OK);
    return packed;
}

static void reads_files(void **state) {
    orr_arena *arena = *state;
    const char *path = save(arena, "plain.yaml", "a: [1, 2]\n", 10);
    char *text;
    size_t length;
    assert_int_equal(orr_file_read(arena, path, &text, &length, NULL), ORR_OK);
    assert_int_equal(length, 10);
    assert_string_equal(text, "a: [1, 2]\n");
    orr_tree *root;
    assert_int_equal(orr_read_file(arena, path, &root, NULL), ORR_OK);
    assert_int_equal(orr_tree_int(orr_tree_path(root, "a.1"), 0), 2);
    assert_string_equal(orr_tree_span(root).file, path);
    unlink(path);
    path = save(arena, "empty", "", 0);
    assert_int_equal(orr_file_read(arena, path, &text, &length, NULL), ORR_OK);
    assert_int_equal(length, 0);
    assert_string_equal(text, "");
    unlink(path);
}

static void refuses_what_is_no_file(void **state) {
    orr_arena *arena = *state;
    char *text;
    size_t length;
    orr_err err = {0};
    assert_int_equal(orr_file_read(arena, "/", &text, &length, &err), ORR_E_IO);
    assert_string_equal(err.message, "cannot read /: it is a directory");
    assert_int_equal(orr_file_read(arena, "/dev/zero", &text, &length, &err), ORR_E_IO);
    assert_string_equal(err.message, "cannot read /dev/zero: it is not a regular file");
    assert_int_equal(orr_file_read(arena, "no/such/file", &text, &length, &err), ORR_E_IO);
    assert_string_equal(err.message, "cannot read no/such/file: there is no such file");
    assert_int_equal(orr_file_read(arena, "", &text, &length, &err), ORR_E_IO);
    const char *path = save(arena, "large", "", 0);
    assert_int_equal(truncate(path, (off_t)ORR_DOC_MAX_BYTES + 1), 0);
    assert_int_equal(orr_file_read(arena, path, &text, &length, &err), ORR_E_LIMIT);
    unlink(path);
}

static void reads_pipes(void **state) {
    orr_arena *arena = *state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    char bytes[20000];
    memset(bytes, 'x', sizeof bytes);
    assert_int_equal(write(ends[1], bytes, sizeof bytes), sizeof bytes);
    close(ends[1]);
    char *text;
    size_t length;
    const char *path = orr_arena_format(arena, "/dev/fd/%d", ends[0]);
    assert_int_equal(orr_file_read(arena, path, &text, &length, NULL), ORR_OK);
    assert_int_equal(length, sizeof bytes);
    assert_memory_equal(text, bytes, sizeof bytes);
    close(ends[0]);
}

static void unpacks_gzip(void **state) {
    orr_arena *arena = *state;
    static char bytes[300000];
    static unsigned char packed[400000];
    orr_rng rng = {1};
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)('a' + orr_rng_below(&rng, 4));
    }
    size_t one = pack(bytes, 100000, packed, sizeof packed);
    size_t two = pack(bytes + 100000, 200000, packed + one, sizeof packed - one);
    const char *path = save(arena, "two.gz", (char *)packed, one + two);
    char *text;
    size_t length;
    orr_err err = {0};
    assert_int_equal(orr_file_read(arena, path, &text, &length, &err), ORR_OK);
    assert_int_equal(length, sizeof bytes);
    assert_memory_equal(text, bytes, sizeof bytes);
    assert_int_equal(text[length], 0);
    for (size_t cut = 18; cut < one; cut += 997) {
        save(arena, "two.gz", (char *)packed, cut);
        assert_int_equal(orr_file_read(arena, path, &text, &length, &err), ORR_E_SYNTAX);
        assert_non_null(strstr(err.message, "cut short"));
    }
    packed[one / 2] ^= 0x55;
    save(arena, "two.gz", (char *)packed, one);
    assert_int_equal(orr_file_read(arena, path, &text, &length, &err), ORR_E_SYNTAX);
    unlink(path);
}

static void bounds_what_gzip_unpacks(void **state) {
    orr_arena *arena = *state;
    static char zeros[8 << 20];
    static unsigned char packed[16 << 10];
    orr_text bomb = orr_text_new(arena, 1 << 20);
    size_t size = pack(zeros, sizeof zeros, packed, sizeof packed);
    for (int i = 0; i < 9; i++) { /* 72 MiB of zeros in 72 KiB */
        orr_text_addn(&bomb, (char *)packed, size);
    }
    const char *path = save(arena, "bomb.gz", bomb.bytes, bomb.length);
    char *text;
    size_t length;
    assert_int_equal(orr_file_read(arena, path, &text, &length, NULL), ORR_E_LIMIT);
    unlink(path);
}

/* The shared tables, where they lie beside the checkout. */
static void reads_shared_tables(void **state) {
    orr_arena *arena = *state;
    const char *path = ORR_SHARED_DIR "/data/kernels/collectives.csv.gz";
    if (access(path, R_OK) != 0) {
        skip();
    }
    char *text;
    size_t length;
    orr_csv *csv;
    assert_int_equal(orr_file_read(arena, path, &text, &length, NULL), ORR_OK);
    assert_int_equal(orr_csv_open(arena, path, text, length, &csv, NULL), ORR_OK);
    size_t rows = 0, lines = 0;
    for (bool more = true; more; rows += more) {
        const char *const *cells;
        assert_int_equal(orr_csv_next(csv, &cells, &more, NULL), ORR_OK);
    }
    for (size_t i = 0; i < length; i++) {
        lines += text[i] == '\n';
    }
    assert_int_equal(rows + 1, lines);
    orr_tree *root;
    assert_int_equal(orr_read_file(arena, ORR_SHARED_DIR "/data/measured/models.json", &root, NULL),
                     ORR_OK);
    /* Read, written, read again: the same bytes. */
    char *once = orr_write_json(arena, root, true);
    orr_tree *again;
    assert_int_equal(orr_read_text(arena, NULL, once, strlen(once), &again, NULL), ORR_OK);
    assert_string_equal(orr_write_json(arena, again, true), once);
}

static void makes_folders(void **state) {
    orr_arena *arena = *state;
    orr_err err = {0};
    const char *path = scratch(arena, "folder"), *file = save(arena, "no-folder", "x", 1);
    struct stat about;
    assert_int_equal(orr_os_make_folder(path, &err), ORR_OK);
    assert_int_equal(stat(path, &about), 0);
    assert_true(S_ISDIR(about.st_mode));
    assert_int_equal(orr_os_make_folder(path, &err), ORR_OK); /* is there */
    assert_int_equal(orr_os_make_folder(file, &err), ORR_E_WRITE);
    const char *deep = orr_arena_format(arena, "%s/a/b", path);
    assert_int_equal(orr_os_make_folder(deep, &err), ORR_E_WRITE);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(unlink(file), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_what_is_no_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reads_pipes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unpacks_gzip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bounds_what_gzip_unpacks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reads_shared_tables, set_up, tear_down),
        cmocka_unit_test_setup_teardown(makes_folders, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
