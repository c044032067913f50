/* An arena for a group of tests, or for each. */
#ifndef ORR_TESTS_ARENA_FIXTURE_H
#define ORR_TESTS_ARENA_FIXTURE_H

#include "base/arena.h"

static orr_arena *arena;

static inline int open_arena(void **state) {
    (void)state;
    arena = orr_arena_new();
    return 0;
}

static inline int close_arena(void **state) {
    (void)state;
    orr_arena_free(arena);
    return 0;
}

#endif
