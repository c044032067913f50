/* The built-in calibration, that of kernels included, for a group of tests. */
#ifndef ORR_TESTS_CALIBRATION_FIXTURE_H
#define ORR_TESTS_CALIBRATION_FIXTURE_H

#include "base/arena.h"
#include "cost/calibration.h"

static orr_arena *arena;
static orr_calibration *builtin;

static inline int setup(void **state) {
    (void)state;
    arena = orr_arena_new();
    orr_status status = orr_calibration_builtin(arena, &builtin, NULL);
    status = status == ORR_OK ? orr_calibration_kernels(arena, builtin, NULL) : status;
    return status == ORR_OK ? 0 : -1;
}

static inline int teardown(void **state) {
    (void)state;
    orr_arena_free(arena);
    return 0;
}

#endif
