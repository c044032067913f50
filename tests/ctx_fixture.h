/* A context and an arena for a group of tests that call commands. */
#ifndef ORR_TESTS_CTX_FIXTURE_H
#define ORR_TESTS_CTX_FIXTURE_H

#include "arena_fixture.h"
#include "orrery/orrery.h"

static orr_ctx *ctx;

static inline int open_ctx(void **state) {
    orr_err err = {0};
    (void)open_arena(state);
    return orr_ctx_new(NULL, &ctx, &err) == ORR_OK ? 0 : 1;
}

static inline int close_ctx(void **state) {
    orr_ctx_free(ctx);
    return close_arena(state);
}

/* The answer of a command that must not fail. */
static inline orr_tree *call(const char *command, orr_tree *args) {
    orr_tree *result = NULL;
    orr_err err = {0};
    if (orr_call(ctx, command, args, arena, &result, &err) != ORR_OK) {
        fail_msg("%s: %s (%s)", command, err.message, err.hint);
    }
    return result;
}

#endif
