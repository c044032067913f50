/* Calibration files are user input too: any text must give a calibration or a clean error. */
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "cost/calibration.h"
#include "doc/doc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    orr_arena *arena = orr_arena_new();
    orr_tree *tree = NULL;
    orr_err err = {0};
    char *text = orr_arena_copy(arena, (const char *)data, size);
    if (orr_doc_read(arena, "fuzz.yaml", text, size, &tree, &err) == ORR_OK) {
        orr_calibration *into = ORR_NEW(arena, orr_calibration);
        (void)orr_calibration_add(arena, tree, into, &err);
    }
    orr_arena_free(arena);
    return 0;
}
