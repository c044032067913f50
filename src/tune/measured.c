/* Finalists that were measured correct the model: one factor on compute that makes their
 * projections, on the whole, equal what was measured. */
#include <math.h>

#include "base/text.h"
#include "tune/tune_int.h"

static orr_status anchor_one(tune_space *space, orr_engine *engine, const orr_tree *entry,
                             orr_tree *list, double *log_factor, orr_err *err) {
    orr_arena *arena = space->arena;
    double measured = orr_tree_real(orr_tree_get(entry, "tokens_per_s_per_gpu"), 0);
    const orr_tree *keys = orr_tree_get(entry, "plan");
    if (!(measured > 0) || orr_tree_kind_of(keys) != ORR_TREE_MAP) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(entry),
                           "a measured plan has plan (its keys) and tokens_per_s_per_gpu");
    }
    orr_resolved *r = ORR_NEW(arena, orr_resolved);
    orr_projection before, after;
    keys = orr_plan_merge(arena, space->world[0].keys, keys);
    ORR_TRY(orr_plan_resolve(arena, keys, r, err));
    if (!orr_plan_legal(r)) {
        return orr_fail_at(err, ORR_E_INFEASIBLE, orr_tree_span(entry),
                           "a measured plan breaks rules of legality");
    }
    orr_anchor anchor = {.tokens_per_s_per_gpu = measured, .gpus = r->plan.gpus, .plan = r};
    ORR_TRY(orr_project(engine, arena, r, NULL, &before, err));
    ORR_TRY(orr_project(engine, arena, r, &anchor, &after, err));
    *log_factor = log(after.anchor_factor);
    space->measured[space->measured_count].plan = r->plan;
    space->measured[space->measured_count++].step_s =
        (double)r->plan.gbs * r->plan.batch.seq / measured / r->plan.gpus;
    orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
    (void)orr_tree_put(arena, one, "plan", orr_plan_write(arena, r));
    orr_tree_put_real(arena, one, "measured", measured);
    orr_tree_put_real(arena, one, "projected", before.tokens_per_s_per_gpu);
    orr_tree_put_real(arena, one, "error", before.tokens_per_s_per_gpu / measured - 1);
    orr_tree_put_real(arena, one, "factor", after.anchor_factor);
    return ORR_OK;
}

orr_status tune_anchor(tune_space *space, orr_engine *engine, orr_tree **out, orr_err *err) {
    const orr_tree *measured = space->request->measured;
    size_t count = orr_tree_size(measured);
    orr_tree *list = orr_tree_new_list(space->arena);
    double sum = 0;
    if (count > TUNE_MAX_MEASURED) {
        return orr_fail(err, ORR_E_LIMIT, "more than %d measured plans", TUNE_MAX_MEASURED);
    }
    for (size_t i = 0; i < count; i++) {
        double one = 0;
        ORR_TRY(anchor_one(space, engine, orr_tree_at(measured, i), list, &one, err));
        sum += one;
    }
    space->compute_factor = count > 0 ? exp(sum / (double)count) : 1;
    *out = list;
    return ORR_OK;
}
