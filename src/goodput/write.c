/* A goodput as part of a result. */
#include "base/num.h"
#include "goodput/goodput.h"

static void put_known(orr_arena *arena, orr_tree *map, const char *key, double value) {
    if (value > 0) {
        orr_tree_put_real(arena, map, key, value);
    }
}

static void put_interval(orr_arena *arena, orr_tree *map, const char *key, double low,
                         double high) {
    orr_tree *interval = orr_tree_put(arena, map, key, orr_tree_new_list(arena));
    (void)orr_tree_push(arena, interval, orr_tree_new_real(arena, low));
    (void)orr_tree_push(arena, interval, orr_tree_new_real(arena, high));
}

static void put_bill(orr_arena *arena, orr_tree *map, const orr_prices *prices,
                     const orr_goodput *g) {
    put_known(arena, map, "power_w", g->power_w);
    put_known(arena, map, "energy_kwh", g->energy_J / 3.6e6);
    put_known(arena, map, "tokens_per_J", g->tokens_per_J);
    if (g->cost > 0) {
        orr_tree_put_text(arena, map, "currency", prices->currency);
        orr_tree_put_real(arena, map, "cost", g->cost);
        put_interval(arena, map, "cost_interval_90", g->low_cost, g->high_cost);
        put_known(arena, map, "gpu_cost", g->gpu_cost);
        put_known(arena, map, "energy_cost", g->energy_cost);
        orr_tree_put_real(arena, map, "cost_per_million_tokens", g->cost_per_mtok);
    }
    put_known(arena, map, "carbon_kg", g->carbon_kg);
}

orr_tree *orr_goodput_write(orr_arena *arena, const orr_prices *prices, const orr_goodput_run *run,
                            const orr_goodput *g) {
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_real(arena, map, "tokens", run->tokens);
    orr_tree_put_bool(arena, map, "finishes", g->finishes);
    put_known(arena, map, "mtbf_s", g->mtbf_s);
    orr_tree_put_real(arena, map, "ideal_s", g->ideal_s);
    if (g->finishes) {
        orr_tree_put_real(arena, map, "time_s", g->train_s);
        put_interval(arena, map, "interval_90_s", g->low_s, g->high_s);
        orr_tree_put_real(arena, map, "days", g->train_s / 86400);
        orr_tree_put_real(arena, map, "goodput", g->goodput_frac);
        orr_tree_put_real(arena, map, "failures", g->failures);
        orr_tree_put_real(arena, map, "checkpoint_bytes", run->checkpoint_bytes);
        orr_tree_put_real(arena, map, "checkpoint_s", g->checkpoint_s);
        orr_tree_put_real(arena, map, "checkpoint_every_s", g->every_s);
        put_known(arena, map, "young_s", g->young_s);
        put_known(arena, map, "daly_s", g->daly_s);
        orr_tree *lost = orr_tree_put(arena, map, "lost", orr_tree_new_map(arena));
        orr_tree_put_real(arena, lost, "checkpoints_s", g->lost_checkpoint_s);
        orr_tree_put_real(arena, lost, "rework_s", g->lost_rework_s);
        orr_tree_put_real(arena, lost, "restarts_s", g->lost_restart_s);
        put_known(arena, map, "time_with_twice_the_failures_s", g->half_mtbf_s);
        put_bill(arena, map, prices, g);
    }
    (void)orr_tree_put(arena, map, "figures", orr_prices_write(arena, prices));
    return map;
}
