/* Whatever is read can be written, read again and written to the same bytes, and every value lies
 * where its span says; nothing else may happen to any input. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doc/doc.h"
#include "orrery/orrery.h"

typedef struct source {
    const char *text, *end;
    int left; /* nodes still to check: each costs a walk through the text */
} source;

static const char *byte_at(const source *s, orr_span span) {
    const char *p = s->text;
    uint32_t line = 1, column = 1;
    for (; p < s->end && (line != span.line || column != span.column); p++) {
        column = *p == '\n' ? 1 : column + (((unsigned char)p[1] & 0xc0) != 0x80);
        line += *p == '\n';
    }
    if (p >= s->end) {
        abort();
    }
    return p;
}

static void check_places(source *s, const orr_tree *node) {
    static const char *const first[] = {"n", "tf", "-0123456789", "-0123456789", "\"", "[", "{"};
    if (s->left-- <= 0) {
        return;
    }
    if (strchr(first[orr_tree_kind_of(node)], *byte_at(s, orr_tree_span(node))) == NULL) {
        abort();
    }
    for (size_t i = 0; i < orr_tree_size(node); i++) {
        if (orr_tree_key(node, i) != NULL && *byte_at(s, orr_tree_key_span(node, i)) != '"') {
            abort();
        }
        check_places(s, orr_tree_at(node, i));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    orr_arena *arena = orr_arena_new();
    orr_tree *root, *again;
    orr_err err = {0};
    if (orr_json_read(arena, "f.json", (const char *)data, size, &root, &err) == ORR_OK) {
        bool marked = size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0;
        char *copy = orr_arena_copy(arena, (const char *)data, size);
        source s = {copy + (marked ? 3 : 0), copy + size, 100};
        check_places(&s, root);
        char *once = orr_write_json(arena, root, size % 2 == 0);
        if (orr_json_read(arena, NULL, once, strlen(once), &again, &err) != ORR_OK ||
            strcmp(orr_write_json(arena, again, size % 2 == 0), once) != 0) {
            abort();
        }
    } else if (err.status == ORR_OK || err.message[0] == '\0') {
        abort();
    }
    orr_arena_free(arena);
    return 0;
}
