/* A sharp peak or a broad basin: what one step on each axis costs, and what the machine's figures
 * being off by a tenth would change about the plan. */
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "tune/tune_int.h"

bool tune_settle(const tune_world *world, orr_plan *plan) {
    uint64_t ranks = (uint64_t)plan->split.tp * plan->split.cp * plan->pipe.pp;
    if (ranks == 0 || plan->gpus % ranks != 0) {
        return false;
    }
    plan->shard.dp = (uint32_t)(plan->gpus / ranks);
    uint64_t step = (uint64_t)plan->shard.dp * plan->batch.mbs;
    if (plan->gbs % step != 0) {
        return false;
    }
    plan->batch.micro_batches = (uint32_t)(plan->gbs / step);
    tune_plan_overlap(world, plan->overlap, plan);
    return true;
}

static uint32_t *number_of(orr_plan *plan, tune_axis axis) {
    switch (axis) {
    case AXIS_TP: return &plan->split.tp;
    case AXIS_CP: return &plan->split.cp;
    case AXIS_PP: return &plan->pipe.pp;
    case AXIS_EP: return &plan->split.ep;
    case AXIS_ETP: return &plan->split.etp;
    case AXIS_MBS: return &plan->batch.mbs;
    case AXIS_VPP: return &plan->pipe.vpp;
    case AXIS_SP:
    case AXIS_DISPATCH:
    case AXIS_SHARDING:
    case AXIS_SCHEDULE:
    case AXIS_LAYOUT:
    case AXIS_RECOMPUTE:
    case AXIS_OVERLAP:
    case AXIS_COUNT: break;
    }
    return NULL;
}

/* What follows from a step: regions and kinds that the new degrees rule out. */
static void follow(const orr_plan *best, tune_axis axis, orr_plan *plan) {
    plan->split.sp = plan->split.tp > 1 && (best->split.sp || best->split.tp == 1);
    if (axis == AXIS_TP && best->split.etp == best->split.tp) {
        plan->split.etp = plan->split.tp;
    }
    if (plan->pipe.pp == 1) {
        plan->pipe.vpp = 1;
        plan->pipe.schedule = ORR_SCHEDULE_1F1B;
    } else if (plan->pipe.vpp > 1 && plan->pipe.schedule == ORR_SCHEDULE_1F1B) {
        plan->pipe.schedule = ORR_SCHEDULE_INTERLEAVED;
    } else if (plan->pipe.vpp == 1 && plan->pipe.schedule == ORR_SCHEDULE_INTERLEAVED) {
        plan->pipe.schedule = ORR_SCHEDULE_1F1B;
    }
    plan->pipe.split_flags = plan->pipe.pp == best->pipe.pp ? plan->pipe.split_flags : 0;
    if (plan->pipe.schedule == ORR_SCHEDULE_INTERLEAVED) {
        plan->overlap |= ORR_OVERLAP_PP;
    }
}

static void write_step(orr_arena *arena, const tune_world *world, orr_quick *quick,
                       double fits_bytes, double best_s, tune_axis axis, orr_plan *plan,
                       orr_tree *list) {
    orr_resolved r = world->base;
    orr_err err = {0};
    double need_bytes = 0, step_s = 0;
    orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
    bool divides = tune_settle(world, plan);
    r.plan = *plan;
    orr_tree_put_text(arena, one, "key", tune_axis_name(axis));
    orr_tree_put_int(arena, one, "value", *number_of(plan, axis));
    if (!divides || !orr_plan_legal(&r)) {
        orr_violation broken[ORR_MAX_VIOLATIONS];
        bool known = divides && orr_plan_check(arena, &r, broken) > 0;
        orr_tree_put_text(arena, one, "verdict", "illegal");
        orr_tree_put_text(arena, one, "why", known ? broken[0].message : "does not divide");
        return;
    }
    if (orr_quick_need(quick, plan, &need_bytes, &err) != ORR_OK ||
        orr_quick_step(quick, plan, &step_s, &err) != ORR_OK) {
        orr_tree_put_text(arena, one, "verdict", "unknown");
        orr_tree_put_text(arena, one, "why", err.message);
        return;
    }
    orr_tree_put_text(arena, one, "verdict", need_bytes <= fits_bytes ? "fits" : "does_not_fit");
    orr_tree_put_real(arena, one, "change_frac", best_s / step_s - 1);
}

orr_status tune_neighbours(orr_arena *arena, orr_engine *engine, const tune_world *world,
                           double compute_factor, double fits_bytes, const orr_plan *best,
                           orr_tree **out, orr_err *err) {
    orr_quick *quick = NULL;
    double best_s = 0;
    orr_tree *list = orr_tree_new_list(arena);
    ORR_TRY(orr_quick_new(engine, &world->base, compute_factor, &quick, err));
    orr_status status = orr_quick_step(quick, best, &best_s, err);
    for (int a = 0; a < AXIS_NUMBERS && status == ORR_OK; a++) {
        for (int up = 0; up < 2; up++) {
            orr_plan plan = *best;
            uint32_t *value = number_of(&plan, (tune_axis)a);
            uint32_t was = *value;
            *value = up ? 2 * was : was / 2;
            bool dense = (a == AXIS_EP || a == AXIS_ETP) && world->dispatch_count == 1 &&
                         best->split.ep * best->split.etp == 1;
            bool alone = a == AXIS_VPP && best->pipe.pp == 1;
            if (*value == 0 || (!up && was % 2 != 0) || dense || alone) {
                continue;
            }
            follow(best, (tune_axis)a, &plan);
            write_step(arena, world, quick, fits_bytes, best_s, (tune_axis)a, &plan, list);
        }
    }
    orr_quick_free(quick);
    *out = list;
    return status;
}
