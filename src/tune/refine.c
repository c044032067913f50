/* Layers placed freely: for the plans at the top, the split that balances their stages exactly (a
 * dynamic program over stages, projection.h). The space holds the placements that frameworks have
 * words for; this says what a layout string would gain on top, outside the certificate. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "tune/tune_int.h"

enum { TRIED = 10, CAPS = 8 };

/* The plan's keys with a layout of its own. */
static orr_status with_layout(const tune_space *space, const tune_world *world,
                              const orr_plan *plan, const char *layout, orr_resolved *out,
                              orr_err *err) {
    orr_resolved r = world->base;
    orr_tree *over = orr_tree_new_map(space->arena);
    r.plan = *plan;
    orr_tree_put_text(space->arena, over, "layout", layout);
    const orr_tree *keys = orr_plan_merge(space->arena, orr_plan_write(space->arena, &r), over);
    return orr_plan_resolve(space->arena, keys, out, err);
}

/* The fastest balanced layout that fits; step_s stays HUGE_VAL without one. */
static void balance(tune_space *space, orr_engine *engine, const tune_found *found,
                    orr_resolved *out, const char **layout, double *step_s, double *need_bytes) {
    const tune_world *world = &space->world[found->world];
    orr_resolved r = world->base;
    orr_balanced split;
    orr_err ignored = {0};
    uint64_t cap = 0;
    r.plan = found->plan;
    *step_s = HUGE_VAL;
    for (int i = 0; i < CAPS; i++) {
        orr_projection projection;
        orr_anchor anchor = {.factor = space->compute_factor};
        bool anchored = space->request->measured != NULL;
        bool known =
            orr_project_layout(engine, space->arena, &r, cap, &split, &ignored) == ORR_OK &&
            with_layout(space, world, &found->plan, split.layout, out, &ignored) == ORR_OK &&
            orr_plan_legal(out) &&
            orr_project(engine, space->arena, out, anchored ? &anchor : NULL, &projection,
                        &ignored) == ORR_OK;
        if (!known) {
            return;
        }
        *need_bytes = projection.memory.worst.need_bytes;
        if (*need_bytes <= tune_fits_bytes(space, world)) {
            *layout = split.layout;
            *step_s = projection.step_s;
            return;
        }
        cap = split.most_bytes - split.most_bytes / 32; /* evener in bytes, slower */
    }
}

orr_status tune_refine(tune_space *space, orr_engine *engine, const tune_keep *keep,
                       orr_tree **out) {
    double best = HUGE_VAL;
    orr_arena *arena = space->arena;
    *out = NULL;
    for (uint32_t i = 0; i < keep->top_count && i < TRIED; i++) {
        const tune_found *found = &keep->top[i];
        const char *layout = NULL;
        double step_s, need_bytes = 0;
        orr_resolved *r = ORR_NEW(arena, orr_resolved);
        if (found->plan.pipe.pp == 1 || space->world[found->world].limit[AXIS_LAYOUT].count > 0) {
            continue;
        }
        balance(space, engine, found, r, &layout, &step_s, &need_bytes);
        double cost = tune_cost(&space->world[found->world], step_s);
        if (!(step_s < found->step_s) || cost >= best) {
            continue;
        }
        best = cost;
        *out = orr_tree_new_map(arena);
        orr_tree_put_text(arena, *out, "layout", layout);
        (void)orr_tree_put(arena, *out, "plan", orr_plan_write(arena, r));
        orr_tree_put_real(arena, *out, "tokens_per_s_per_gpu",
                          (double)r->plan.gbs * r->plan.batch.seq / step_s / r->plan.gpus);
        orr_tree_put_real(arena, *out, "need_bytes", need_bytes);
        orr_tree_put_real(arena, *out, "gain_frac", found->step_s / step_s - 1);
        orr_tree_put_real(arena, *out, "against_best_frac", keep->top[0].cost / cost - 1);
    }
    return ORR_OK;
}
