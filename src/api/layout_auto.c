/* layout auto: the split that balances stage times and fits, and what it gains. */
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/num.h"

enum { CAP_STEPS = 16 };

bool orr_layout_is_auto(const orr_tree *keys) {
    return strcmp(orr_tree_text(orr_tree_get(keys, "layout"), ""), "auto") == 0;
}

static const orr_tree *with_layout(orr_job *job, const orr_tree *keys, const char *layout) {
    orr_tree *change = orr_tree_new_map(job->arena);
    orr_tree_put_text(job->arena, change, "layout", layout);
    return orr_plan_merge(job->arena, keys, change);
}

/* Step time of the plan with a split; negative when it is not legal. */
static double step_of(orr_job *job, const orr_resolved *resolved) {
    orr_projection projection;
    bool known = orr_plan_legal(resolved) && orr_project(job->ctx->engine, job->arena, resolved,
                                                         NULL, &projection, NULL) == ORR_OK;
    return known ? projection.step_s : -1;
}

static bool fits(orr_job *job, const orr_resolved *resolved) {
    orr_memory memory;
    return orr_plan_legal(resolved) &&
           orr_project_memory(job->ctx->engine, job->arena, resolved, false, &memory, NULL) ==
               ORR_OK &&
           memory.fit <= ORR_TIGHT;
}

static void note_gain(orr_job *job, const orr_resolved *even, const orr_resolved *nearest,
                      const orr_resolved *best, const orr_balanced *split) {
    double before = step_of(job, even), after = step_of(job, best);
    const char *against = "evenly split";
    if (before < 0) { /* the layers do not divide */
        before = step_of(job, nearest);
        against = "split as evenly as they go";
    }
    orr_tree *map = orr_tree_push(job->arena, job->assumptions, orr_tree_new_map(job->arena));
    const char *why =
        orr_arena_format(job->arena, "auto: longest stage %.3f ms", split->longest_s * 1e3);
    if (before > 0 && after > 0) {
        why = orr_arena_format(job->arena, "%s, step %.4g s; %s %.4g s (%+.2f %%)", why, after,
                               against, before, 100 * (after / before - 1));
    }
    orr_tree_put_text(job->arena, map, "key", "layout");
    orr_tree_put_text(job->arena, map, "value", split->layout);
    orr_tree_put_text(job->arena, map, "why", why);
}

/* First without a cap; when that does not fit, under ever lower ones. The first that fits is kept,
 * else the fastest. */
orr_status orr_layout_auto(orr_job *job, const orr_tree *keys, const orr_tree **out, orr_err *err) {
    orr_resolved even = {0}, loose = {0}, best = {0};
    ORR_TRY(orr_plan_resolve(job->arena, with_layout(job, keys, "even"), &even, err));
    *out = with_layout(job, keys, "even");
    if (even.plan.pipe.pp <= 1) {
        return ORR_OK;
    }
    ORR_TRY(orr_plan_resolve(job->arena, with_layout(job, keys, "balanced"), &loose, err));
    orr_balanced split, fastest = {0};
    uint64_t cap = 0;
    for (uint32_t i = 0; i < CAP_STEPS; i++) {
        orr_err why = {0};
        orr_status status =
            orr_project_layout(job->ctx->engine, job->arena, &loose, cap, &split, &why);
        if (status != ORR_OK && i == 0) {
            if (err != NULL) {
                *err = why;
            }
            return status;
        }
        if (status != ORR_OK) {
            break;
        }
        const orr_tree *with = with_layout(job, keys, split.layout);
        ORR_TRY(orr_plan_resolve(job->arena, with, &best, err));
        bool good = fits(job, &best);
        if (i == 0 || good) {
            fastest = split;
            *out = with;
        }
        if (good) {
            break;
        }
        cap = split.most_bytes - split.most_bytes / 32;
    }
    ORR_TRY(orr_plan_resolve(job->arena, *out, &best, err));
    note_gain(job, &even, &loose, &best, &fastest);
    return ORR_OK;
}
