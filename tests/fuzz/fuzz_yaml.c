/* Whatever YAML is read can be written as JSON, and means the same when that is read again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "doc/doc.h"
#include "orrery/orrery.h"

/* Shared nodes expand when written, so only trees of a sane size are. */
static size_t count_nodes(const orr_tree *node, size_t limit) {
    size_t count = 1;
    for (size_t i = 0; i < orr_tree_size(node) && count < limit; i++) {
        count += count_nodes(orr_tree_at(node, i), limit - count);
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    orr_arena *arena = orr_arena_new();
    orr_tree *root, *again;
    orr_err err = {0};
    orr_status status = orr_yaml_read(arena, "f.yaml", (const char *)data, size, &root, &err);
    if (status == ORR_OK && count_nodes(root, 20000) < 20000) {
        char *once = orr_write_json(arena, root, true);
        if (orr_json_read(arena, NULL, once, strlen(once), &again, &err) != ORR_OK ||
            strcmp(orr_write_json(arena, again, true), once) != 0) {
            abort();
        }
    } else if (status != ORR_OK && err.message[0] == '\0') {
        abort();
    }
    orr_arena_free(arena);
    return 0;
}
