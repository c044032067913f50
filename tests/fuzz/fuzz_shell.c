#include <stddef.h>
#include <stdint.h>

#include "exchange/shell.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    orr_arena *arena = orr_arena_new();
    orr_shell shell;
    orr_err err = {0};
    if (orr_shell_read(arena, NULL, (const char *)data, size, &shell, &err) == ORR_OK) {
        for (size_t i = 0; i < shell.command_count; i++) {
            if (shell.command[i].count == 0) {
                __builtin_trap();
            }
        }
    }
    orr_arena_free(arena);
    return 0;
}
