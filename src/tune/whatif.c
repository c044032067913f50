/* Which figure of the machine matters most: the best plan projected with one figure a tenth larger
 * at a time, as change of throughput per change of the figure; and the search done again with a
 * tenth more memory, since memory buys other plans. */
#include <math.h>

#include "base/num.h"
#include "tune/tune_int.h"

typedef enum figure { FIGURE_NONE = 0, FIGURE_FLOPS, FIGURE_HBM, FIGURE_LINK, FIGURE_NIC } figure;
static const struct {
    figure figure;
    const char *name;
} figures[] = {{FIGURE_FLOPS, "peak_flops"},
               {FIGURE_HBM, "hbm_bandwidth"},
               {FIGURE_LINK, "scale_up_bandwidth"},
               {FIGURE_NIC, "network_bandwidth"}};
enum { FIGURES = sizeof figures / sizeof *figures };
static const double MORE = 1.1;

/* Under a name of its own, since measurements of the real device do not hold for it. */
static const orr_cluster *changed(orr_arena *arena, const orr_cluster *from, figure which) {
    orr_cluster *cluster = ORR_NEW(arena, orr_cluster);
    orr_accelerator *a = ORR_NEW(arena, orr_accelerator);
    *cluster = *from;
    *a = *from->accelerator;
    a->name = orr_arena_format(arena, "%s-what-if", a->name);
    cluster->accelerator = a;
    for (int d = 0; d < ORR_DTYPE_COUNT && which == FIGURE_FLOPS; d++) {
        a->peak_flops[d] *= MORE;
    }
    a->hbm_Bps *= which == FIGURE_HBM ? MORE : 1;
    if (which == FIGURE_LINK) {
        a->link_Bps *= MORE;
        a->peer_Bps *= MORE;
        cluster->tier[0].Bps *= MORE;
    }
    if (which == FIGURE_NIC) {
        a->nic_Bps *= MORE;
        for (uint32_t t = 1; t < cluster->tier_count; t++) {
            cluster->tier[t].Bps *= MORE;
        }
    }
    return cluster;
}

static orr_status step_with(tune_space *space, orr_engine *engine, const tune_found *best,
                            figure which, double *step_s, orr_err *err) {
    const tune_world *world = &space->world[best->world];
    orr_resolved *r = ORR_NEW(space->arena, orr_resolved);
    orr_quick *quick = NULL;
    *r = world->base;
    r->cluster = changed(space->arena, world->base.cluster, which);
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

orr_status tune_what_if(tune_space *space, orr_engine *engine, const tune_found *best,
                        orr_tree **out, orr_err *err) {
    orr_arena *arena = space->arena;
    orr_tree *list = orr_tree_new_list(arena);
    double plain_s = 0, step_s = 0, cost = 0;
    ORR_TRY(step_with(space, engine, best, FIGURE_NONE, &plain_s, err));
    for (int f = 0; f < FIGURES; f++) {
        ORR_TRY(step_with(space, engine, best, figures[f].figure, &step_s, err));
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
