#include <stddef.h>
#include <stdint.h>

#include "observe/observe.h"
#include "orrery/orrery.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every reader of what runs leave behind, by content: logs, benchmark tables, traces, databases,
 * snapshots, topologies. What is read can be written as JSON. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    orr_arena *arena = orr_arena_new();
    orr_observation seen;
    orr_err err = {0};
    if (orr_observe_bytes(arena, NULL, (const char *)data, size, &seen, &err) == ORR_OK &&
        seen.kind != ORR_OBSERVED_NONE) {
        if (seen.tree == NULL || seen.format == NULL) {
            __builtin_trap();
        }
        (void)orr_write_json(arena, seen.tree, false);
        (void)orr_write_json(arena, seen.content, false);
    }
    orr_arena_free(arena);
    return 0;
}
