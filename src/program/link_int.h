/* Inside linking. */
#ifndef ORR_PROGRAM_LINK_INT_H
#define ORR_PROGRAM_LINK_INT_H

#include "base/err.h"
#include "program/program.h"

/* The order of a schedule: memoised. */
orr_status orr_linker_order(orr_linker *linker, orr_arena *scratch, const orr_schedule_spec *spec,
                            const orr_durations *d, const orr_order **out, orr_err *err);

static inline int64_t orr_max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

#endif
