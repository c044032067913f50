/* A table reads any tree or says why not; what it read it can write and read again. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doc/doc.h"
#include "orrery/orrery.h"

typedef struct target {
    bool flag;
    uint32_t count;
    uint64_t rows;
    double share, bytes, seconds;
    const char *text;
    uint8_t choice;
    uint32_t set;
    const orr_tree *any;
} target;

static const char *const values[] = {"none", "zero-1", "fp8", "on", "8", NULL};

#define AT(member) offsetof(target, member)
static const orr_field fields[] = {
    {.name = "flag",
     .type = ORR_FIELD_BOOL,
     .offset = AT(flag),
     .fallback = "off",
     .doc = "A switch."},
    {.name = "count",
     .type = ORR_FIELD_U32,
     .offset = AT(count),
     .min = 1,
     .max = 4096,
     .fallback = "1",
     .doc = "A number."},
    {.name = "rows", .type = ORR_FIELD_U64, .offset = AT(rows), .fallback = "2k", .unit = "tokens"},
    {.name = "share",
     .type = ORR_FIELD_REAL,
     .offset = AT(share),
     .min = -1,
     .max = 1,
     .fallback = "0.5"},
    {.name = "bytes",
     .type = ORR_FIELD_QUANTITY,
     .offset = AT(bytes),
     .fallback = "80GiB",
     .unit = "bytes"},
    {.name = "seconds",
     .type = ORR_FIELD_QUANTITY,
     .offset = AT(seconds),
     .fallback = "1us",
     .unit = "s"},
    {.name = "text", .type = ORR_FIELD_TEXT, .offset = AT(text), .fallback = ""},
    {.name = "choice",
     .type = ORR_FIELD_ENUM,
     .offset = AT(choice),
     .values = values,
     .fallback = "fp8"},
    {.name = "set",
     .type = ORR_FIELD_FLAGS,
     .offset = AT(set),
     .values = values,
     .fallback = "all"},
    {.name = "any", .type = ORR_FIELD_TREE, .offset = AT(any), .fallback = "{}"},
};
static const orr_schema schema = {"fuzzed file", fields, sizeof fields / sizeof *fields, false};

static void check(orr_arena *arena, const orr_tree *root) {
    target first = {0}, second = {0}, third = {0};
    orr_tree *problems = orr_tree_new_list(arena);
    orr_err err = {0}, other = {0};
    orr_status status = orr_schema_read(&schema, arena, root, &first, NULL, &err);
    orr_status all = orr_schema_read_all(&schema, arena, root, &second, NULL, problems, &other);
    if (status != all || (status == ORR_OK) != (orr_tree_size(problems) == 0) ||
        strcmp(err.message, other.message) != 0 || orr_tree_size(problems) > ORR_MAX_PROBLEMS) {
        abort();
    }
    if (status == ORR_OK) {
        orr_tree *written = orr_schema_write(&schema, arena, &first);
        if (orr_schema_read(&schema, arena, written, &third, NULL, &err) != ORR_OK ||
            strcmp(orr_write_json(arena, written, false),
                   orr_write_json(arena, orr_schema_write(&schema, arena, &third), false)) != 0) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    orr_arena *arena = orr_arena_new();
    orr_tree *root;
    if (size < 1 << 16 &&
        orr_doc_read(arena, "f.yaml", (const char *)data, size, &root, NULL) == ORR_OK) {
        check(arena, root);
    }
    orr_arena_free(arena);
    return 0;
}
