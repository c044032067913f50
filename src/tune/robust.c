/* A sharp peak or a broad basin: what one step on each axis costs, and what the machine's figures
 * being off by a tenth would change about the plan. */
#include <math.h>
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

/* ---- the calibration ------------------------------------------------------------------------- */

/* One class of work off by a standard deviation either way, for all plans alike. */
static void shake_calibration(orr_arena *arena, const orr_projection *plan, const double *cost,
                              uint32_t count, orr_tree *out) {
    static const double sd_of_90 = 1.0 / ORR_HALF_90_SD, seen = 1e-3;
    orr_tree *list = orr_tree_put(arena, out, "calibration", orr_tree_new_list(arena));
    double sigma = 0.5 * log(plan[0].high / plan[0].low) * sd_of_90;
    for (int s = 0; s < ORR_SLICE_COUNT; s++) {
        double share = plan[0].slice_s[s] / plan[0].step_s;
        if (share < seen) {
            continue;
        }
        orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
        orr_tree_put_text(arena, one, "what", orr_slice_name((orr_slice)s));
        orr_tree_put_real(arena, one, "sigma_frac", sigma);
        for (int side = 0; side < 2; side++) {
            double factor = exp(side == 0 ? -sigma : sigma) - 1;
            double best = cost[0] * (1 + factor * share);
            bool stays = true;
            for (uint32_t i = 1; i < count; i++) {
                double other = cost[i] * (1 + factor * plan[i].slice_s[s] / plan[i].step_s);
                stays = stays && other >= best;
            }
            orr_tree_put_real(arena, one, side == 0 ? "less_frac" : "more_frac",
                              cost[0] / best - 1);
            orr_tree_put_bool(arena, one, side == 0 ? "stays_with_less" : "stays_with_more", stays);
        }
    }
}

orr_status tune_robustness(const tune_space *space, orr_engine *engine,
                           const tune_found *const *found, const orr_projection *plan,
                           uint32_t count, double within_frac, orr_tree **out, orr_err *err) {
    orr_tree *map = orr_tree_new_map(space->arena);
    double *cost = ORR_NEW_ARRAY(space->arena, double, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        cost[i] = found[i]->cost;
    }
    ORR_TRY(tune_aside(space, engine, found[0], within_frac, map, err));
    shake_calibration(space->arena, plan, cost, count, map);
    ORR_TRY(tune_shaken_figures(space, engine, found, count, map, err));
    *out = map;
    return ORR_OK;
}
