/* What the files that turn keys into a plan share: resolve.c (split, batch, the order of it all),
 * resolve_inputs.c (model, software, machine), resolve_pipe.c (pipeline, overlap),
 * resolve_numbers.c (sharding, number formats, variants). */
#ifndef ORR_PLAN_RESOLVE_INT_H
#define ORR_PLAN_RESOLVE_INT_H

#include <string.h>

#include "base/map.h"
#include "plan/plan_int.h"

typedef struct resolver {
    orr_arena *arena;
    orr_plan_cache *cache; /* NULL: nothing is kept */
    const orr_tree *map;
    plan_keys keys;
    uint64_t seen;
    orr_resolved *out;
    orr_tree *problems;
    orr_status first_status;
    orr_err first;
    const orr_fabric *fabric;
    uint32_t gpus, gpus_per_node;
    bool schedule_known; /* stated, and not "auto" */
} resolver;

bool orr_resolve_stated(const resolver *r, plan_key key);
/* Problems are collected, placed at their key. */
void orr_resolve_problem(resolver *r, orr_status status, plan_key key, const char *hint,
                         const char *format, ...) __attribute__((format(printf, 5, 6)));
/* A failure of another module: its place, if it has none, is the key's. */
void orr_resolve_foreign(resolver *r, plan_key key, orr_err *err);
/* Defaults are written down; `value` and `why` are kept. */
void orr_resolve_assume(resolver *r, plan_key key, const char *value, const char *why);
void orr_resolve_assume_count(resolver *r, plan_key key, uint64_t value, const char *why);

void orr_resolve_inputs(resolver *r);
void orr_resolve_pipe(resolver *r, orr_plan *plan);
void orr_resolve_numbers(resolver *r, orr_plan *plan);
void orr_resolve_overlap(resolver *r, orr_plan *plan);
orr_sureness orr_resolve_sureness(const resolver *r, const orr_plan *plan);

#endif
