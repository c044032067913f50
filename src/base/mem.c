#include "base/mem.h"

#include <stdlib.h>

static orr_oom_fn oom_handler;

void orr_oom_handler(orr_oom_fn fn) {
    oom_handler = fn;
}

static _Noreturn void orr_oom(size_t bytes) {
    if (oom_handler != NULL) {
        oom_handler(bytes);
    }
    abort();
}

void *orr_alloc(size_t bytes) {
    void *memory = calloc(1, bytes == 0 ? 1 : bytes);
    if (memory == NULL) {
        orr_oom(bytes);
    }
    return memory;
}

void *orr_realloc(void *old, size_t bytes) {
    void *memory = realloc(old, bytes == 0 ? 1 : bytes);
    if (memory == NULL) {
        orr_oom(bytes);
    }
    return memory;
}

void orr_release(void *memory) {
    free(memory);
}
