/* A context and an arena for a group of tests that call commands. */
#ifndef ORR_TESTS_CTX_FIXTURE_H
#define ORR_TESTS_CTX_FIXTURE_H

#include "orrery/orrery.h"

static orr_ctx *ctx;
static orr_arena *arena;

static inline int open_ctx(void **state) {
    (void)state;
    orr_err err = {0};
    arena = orr_arena_new();
    return orr_ctx_new(NULL, &ctx, &err) == ORR_OK ? 0 : 1;
}

static inline int close_ctx(void **state) {
    (void)state;
    orr_ctx_free(ctx);
    orr_arena_free(arena);
    return 0;
}

#endif
