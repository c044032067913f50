/* Evidence files, JSON and tables, for an accelerator and for whoever is named first. */
#include <stddef.h>
#include <stdint.h>

#include "evidence/evidence.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    orr_arena *arena = orr_arena_new();
    orr_accelerator *device = NULL;
    if (orr_accelerator_find(arena, "b200", &device, NULL) == ORR_OK) {
        const orr_evidence_want wants[] = {
            {.classes = ORR_CLASS_BIT_ALL},
            {.device = device, .software = "megatron-core", .classes = ORR_CLASS_BIT_ALL}};
        for (size_t w = 0; w < 2; w++) {
            orr_evidence *set = NULL;
            if (orr_evidence_parse(arena, "fuzz", (const char *)data, size, &wants[w], &set,
                                   NULL) != ORR_OK) {
                continue;
            }
            for (uint32_t i = 0; i < set->count; i++) { /* what was read is found */
                if (orr_evidence_find(set, &set->record[i].key) == NULL) {
                    __builtin_trap();
                }
            }
            orr_evidence_identity identity = {.device = set->device};
            (void)orr_evidence_write(arena, set, &identity);
        }
    }
    orr_arena_free(arena);
    return 0;
}
