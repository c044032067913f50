/* Any text is an accelerator or an error; what is read can be written and read again. */
#include <stdint.h>
#include <stdlib.h>

#include "doc/doc.h"
#include "hardware/hardware.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    orr_arena *arena = orr_arena_new();
    orr_err err = {0};
    orr_tree *tree = NULL;
    orr_accelerator *read = NULL;
    orr_accelerator *again = NULL;
    if (orr_doc_read(arena, "fuzz.yaml", (const char *)data, size, &tree, &err) == ORR_OK &&
        orr_accelerator_read(arena, tree, "fuzz", &read, &err) == ORR_OK) {
        if (orr_accelerator_read(arena, orr_accelerator_write(arena, read), "fuzz", &again, &err) !=
            ORR_OK) {
            abort();
        }
    }
    orr_arena_free(arena);
    return 0;
}
