/* Which figure of the machine matters most: the best plan projected with one figure a tenth larger
 * at a time, as change of throughput per change of the figure; and the search done again with a
 * tenth more memory, since memory buys other plans. */
#include <math.h>

#include "base/num.h"
#include "tune/tune_int.h"

typedef enum figure {
    FIGURE_NONE = 0,
    FIGURE_FLOPS,
    FIGURE_HBM,
    FIGURE_LINK,
    FIGURE_NIC,
    FIGURE_LATENCY
} figure;
static const struct {
    figure figure;
    const char *name;
} figures[] = {{FIGURE_FLOPS, "peak_flops"},
               {FIGURE_HBM, "hbm_bandwidth"},
               {FIGURE_LINK, "scale_up_bandwidth"},
               {FIGURE_NIC, "network_bandwidth"},
               {FIGURE_LATENCY, "network_latency"}};
enum { FIGURES = sizeof figures / sizeof *figures };
static const double MORE = 1.1;

/* Under a name of its own, since measurements of the real device do not hold for it. */
static const orr_cluster *changed(orr_arena *arena, const orr_cluster *from, figure which,
                                  double factor) {
    orr_cluster *cluster = ORR_NEW(arena, orr_cluster);
    orr_accelerator *a = ORR_NEW(arena, orr_accelerator);
    *cluster = *from;
    *a = *from->accelerator;
    a->name = orr_arena_format(arena, "%s-what-if", a->name);
    cluster->accelerator = a;
    for (int d = 0; d < ORR_DTYPE_COUNT && which == FIGURE_FLOPS; d++) {
        a->peak_flops[d] *= factor;
    }
    a->hbm_Bps *= which == FIGURE_HBM ? factor : 1;
    if (which == FIGURE_LINK) {
        a->link_Bps *= factor;
        a->peer_Bps *= factor;
        cluster->tier[0].Bps *= factor;
    }
    if (which == FIGURE_NIC) {
        a->nic_Bps *= factor;
        for (uint32_t t = 1; t < cluster->tier_count; t++) {
            cluster->tier[t].Bps *= factor;
        }
    }
    if (which == FIGURE_LATENCY && from->fabric != NULL) {
        orr_fabric *fabric = ORR_NEW(arena, orr_fabric);
        *fabric = *from->fabric;
        fabric->base_s *= factor;
        fabric->hop_s *= factor;
        fabric->peer_hop_s *= factor;
        fabric->tree_hop_s *= factor;
        fabric->p2p_base_s *= factor;
        cluster->fabric = fabric;
    }
    return cluster;
}

static orr_status step_with(const tune_space *space, orr_engine *engine, const tune_found *best,
                            figure which, double factor, double *step_s, orr_err *err) {
    const tune_world *world = &space->world[best->world];
    orr_resolved *r = ORR_NEW(space->arena, orr_resolved);
    orr_quick *quick = NULL;
    *r = world->base;
    r->cluster = changed(space->arena, world->base.cluster, which, factor);
    ORR_TRY(orr_quick_new(engine, r, space->compute_factor, &quick, err));
    orr_status status = orr_quick_step(quick, &best->plan, step_s, err);
    orr_quick_free(quick);
    return status;
}

static orr_status with_memory(tune_space *space, orr_engine *engine, double *gain, orr_err *err) {
    tune_outcome outcome;
    orr_tune_request quiet = *space->request;
    const orr_tune_request *before = space->request;
    quiet.store = NULL; /* what is kept is the search that was asked for */
    quiet.resume = false;
    space->request = &quiet;
    for (uint32_t w = 0; w < space->world_count; w++) {
        space->world[w].capacity_bytes *= MORE;
    }
    orr_status status = tune_search(space, engine, NULL, &outcome, err);
    *gain = status == ORR_OK ? tune_keep_best(&outcome.keep) : HUGE_VAL;
    tune_keep_release(&outcome.keep);
    for (uint32_t w = 0; w < space->world_count; w++) {
        space->world[w].capacity_bytes /= MORE;
    }
    space->request = before;
    return status;
}

/* One figure a tenth less and more: what becomes of the best plan, and whether it stays the fastest
 * of those near it. */
orr_status tune_shaken_figures(const tune_space *space, orr_engine *engine,
                               const tune_found *const *found, uint32_t count, orr_tree *out,
                               orr_err *err) {
    static const struct {
        double factor;
        const char *change, *stays;
    } sides[] = {{0.9, "less_frac", "stays_with_less"}, {1.1, "more_frac", "stays_with_more"}};
    orr_tree *list = orr_tree_put(space->arena, out, "figures", orr_tree_new_list(space->arena));
    double plain_s = 0;
    ORR_TRY(step_with(space, engine, found[0], FIGURE_NONE, 1, &plain_s, err));
    for (int f = 0; f < FIGURES; f++) {
        orr_tree *one = orr_tree_push(space->arena, list, orr_tree_new_map(space->arena));
        orr_tree_put_text(space->arena, one, "figure", figures[f].name);
        for (int side = 0; side < 2; side++) {
            double best_s = 0, step_s = 0;
            bool stays = true;
            for (uint32_t i = 0; i < count; i++) {
                ORR_TRY(step_with(space, engine, found[i], figures[f].figure, sides[side].factor,
                                  &step_s, err));
                best_s = i == 0 ? step_s : best_s;
                stays = stays && tune_cost(&space->world[found[i]->world], step_s) >=
                                     tune_cost(&space->world[found[0]->world], best_s);
            }
            orr_tree_put_real(space->arena, one, sides[side].change, plain_s / best_s - 1);
            orr_tree_put_bool(space->arena, one, sides[side].stays, stays);
        }
    }
    return ORR_OK;
}

orr_status tune_what_if(tune_space *space, orr_engine *engine, const tune_found *best,
                        orr_tree **out, orr_err *err) {
    orr_arena *arena = space->arena;
    orr_tree *list = orr_tree_new_list(arena);
    double plain_s = 0, step_s = 0, cost = 0;
    ORR_TRY(step_with(space, engine, best, FIGURE_NONE, 1, &plain_s, err));
    for (int f = 0; f < FIGURES; f++) {
        ORR_TRY(step_with(space, engine, best, figures[f].figure, MORE, &step_s, err));
        orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
        orr_tree_put_text(arena, one, "figure", figures[f].name);
        orr_tree_put_real(arena, one, "throughput_per_percent", log(plain_s / step_s) / log(MORE));
    }
    ORR_TRY(with_memory(space, engine, &cost, err));
    orr_tree *memory = orr_tree_push(arena, list, orr_tree_new_map(arena));
    orr_tree_put_text(arena, memory, "figure", "memory_capacity");
    orr_tree_put_real(arena, memory, "throughput_per_percent", log(best->cost / cost) / log(MORE));
    *out = list;
    return ORR_OK;
}
