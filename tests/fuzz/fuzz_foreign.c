#include <stddef.h>
#include <stdint.h>

#include "exchange/exchange.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every importer of trees by the name that selects its reader, and the exporter on what comes out.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"fuzz.toml", "fuzz.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        orr_arena *arena = orr_arena_new();
        orr_import import;
        orr_export export;
        orr_err err = {0};
        if (orr_import_text(arena, names[i], (const char *)data, size, &import, &err) == ORR_OK) {
            if (orr_tree_kind_of(import.keys) != ORR_TREE_MAP) {
                __builtin_trap();
            }
            (void)orr_export_plan(arena, "megatron-lm", import.keys, NULL, &export, &err);
        }
        orr_arena_free(arena);
    }
    return 0;
}
