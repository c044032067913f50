#include <stddef.h>
#include <stdint.h>

#include "exchange/exchange.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    orr_arena *arena = orr_arena_new();
    orr_import import;
    orr_err err = {0};
    const char *names[] = {"fuzz.sh", "fuzz.yaml", NULL};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (orr_import_text(arena, names[i], (const char *)data, size, &import, &err) == ORR_OK &&
            orr_tree_kind_of(import.keys) != ORR_TREE_MAP) {
            __builtin_trap();
        }
    }
    orr_arena_free(arena);
    return 0;
}
