#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "exchange/exchange.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every key that an export lost or brought back: none may vanish unsaid, and the text must be read
 * again by the importer of its format. */
static void export_all(orr_arena *arena, const orr_import *import) {
    const char *const *formats = orr_export_formats();
    for (size_t i = 0; formats[i] != NULL; i++) {
        orr_export export;
        orr_err err = {0};
        if (orr_export_plan(arena, formats[i], import->keys, NULL, &export, &err) == ORR_OK &&
            (export.text == NULL || export.lost == NULL)) {
            __builtin_trap();
        }
    }
}

/* Every importer of trees by the name that selects its reader, and the exporters on what comes out.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"fuzz.toml", "fuzz.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        orr_arena *arena = orr_arena_new();
        orr_import import;
        orr_err err = {0};
        if (orr_import_text(arena, names[i], (const char *)data, size, &import, &err) == ORR_OK) {
            if (orr_tree_kind_of(import.keys) != ORR_TREE_MAP) {
                __builtin_trap();
            }
            export_all(arena, &import);
        }
        orr_arena_free(arena);
    }
    return 0;
}
