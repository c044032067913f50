/* What the best plan gains on another one, lever by lever: Shapley values.
 *
 * A coalition of levers is the baseline with those fields taken from the best plan. Since many such
 * mixtures are illegal or do not fit, a coalition is worth the fastest of its legal subsets that
 * fit (the baseline itself always counts). Then no lever is worth less than nothing, and all of
 * them together are worth the whole gain. */
#include <string.h>

#include "base/num.h"
#include "tune/tune_int.h"

typedef enum lever {
    LEVER_TP = 0,
    LEVER_CP,
    LEVER_PP,
    LEVER_SCHEDULE, /* with chunks and layout */
    LEVER_EP,
    LEVER_MBS,
    LEVER_DISPATCH,
    LEVER_SHARDING,
    LEVER_RECOMPUTE,
    LEVER_OVERLAP,
    LEVER_NUMERIC, /* formats and kernels */
    LEVER_COUNT
} lever;
static const char *const lever_names[LEVER_COUNT] = {
    [LEVER_TP] = "tensor parallelism",   [LEVER_CP] = "context parallelism",
    [LEVER_PP] = "pipeline stages",      [LEVER_SCHEDULE] = "schedule and layout",
    [LEVER_EP] = "expert parallelism",   [LEVER_MBS] = "micro-batch",
    [LEVER_DISPATCH] = "dispatch",       [LEVER_SHARDING] = "sharding",
    [LEVER_RECOMPUTE] = "recompute",     [LEVER_OVERLAP] = "overlap",
    [LEVER_NUMERIC] = "formats, kernels"};

static void take_lever(lever which, const orr_plan *from, orr_plan *plan) {
    switch (which) {
    case LEVER_TP:
        plan->split.tp = from->split.tp;
        plan->split.sp = from->split.sp;
        break;
    case LEVER_CP:
        plan->split.cp = from->split.cp;
        plan->split.cp_kind = from->split.cp_kind;
        break;
    case LEVER_PP: plan->pipe.pp = from->pipe.pp; break;
    case LEVER_SCHEDULE: {
        uint32_t pp = plan->pipe.pp;
        plan->pipe = from->pipe;
        plan->pipe.pp = pp;
        plan->layout = from->layout;
        break;
    }
    case LEVER_EP:
        plan->split.ep = from->split.ep;
        plan->split.etp = from->split.etp;
        break;
    case LEVER_MBS: plan->batch.mbs = from->batch.mbs; break;
    case LEVER_DISPATCH: plan->variant.dispatch = from->variant.dispatch; break;
    case LEVER_SHARDING: plan->shard = from->shard; break;
    case LEVER_RECOMPUTE: plan->recompute = from->recompute; break;
    case LEVER_OVERLAP: plan->overlap = from->overlap; break;
    case LEVER_NUMERIC: {
        uint8_t dispatch = plan->variant.dispatch;
        plan->numeric = from->numeric;
        plan->lora = from->lora;
        plan->variant = from->variant;
        plan->variant.dispatch = dispatch;
        break;
    }
    case LEVER_COUNT: break;
    }
}

static bool differs(lever which, const orr_plan *a, const orr_plan *b) {
    orr_plan with = *a;
    take_lever(which, b, &with);
    if (which == LEVER_SHARDING) { /* dp follows from the others */
        return a->shard.kind != b->shard.kind || a->shard.group != b->shard.group;
    }
    with.pipe.p2p = a->pipe.p2p;
    return memcmp(&with, a, sizeof with) != 0;
}

enum { MAX_PLAYERS = LEVER_COUNT };

typedef struct game {
    const tune_world *world;
    orr_quick *quick;
    double fits_bytes;
    const orr_plan *start, *best;
    uint32_t players;
    lever player[MAX_PLAYERS];
    double value[1 << MAX_PLAYERS]; /* tokens/s/GPU */
} game;

static double worth(game *g, uint32_t coalition) {
    orr_resolved r = g->world->base;
    orr_err err = {0};
    double need_bytes = 0, step_s = 0;
    r.plan = *g->start;
    for (uint32_t i = 0; i < g->players; i++) {
        if (coalition >> i & 1) {
            take_lever(g->player[i], g->best, &r.plan);
        }
    }
    bool own = coalition == 0 || coalition == (1u << g->players) - 1;
    if (!tune_settle(g->world, &r.plan) || (!own && !orr_plan_legal(&r)) ||
        orr_quick_need(g->quick, &r.plan, &need_bytes, &err) != ORR_OK ||
        (!own && need_bytes > g->fits_bytes) ||
        orr_quick_step(g->quick, &r.plan, &step_s, &err) != ORR_OK) {
        return 0;
    }
    return (double)r.plan.gbs * r.plan.batch.seq / step_s / r.plan.gpus;
}

static void play_all(game *g) {
    for (uint32_t c = 0; c < 1u << g->players; c++) {
        g->value[c] = worth(g, c);
        for (uint32_t i = 0; i < g->players; i++) {
            if (c >> i & 1) {
                g->value[c] = orr_max_f64(g->value[c], g->value[c & ~(1u << i)]);
            }
        }
    }
}

static double shapley(const game *g, uint32_t player) {
    double sum = 0;
    for (uint32_t c = 0; c < 1u << g->players; c++) {
        if (c >> player & 1) {
            continue;
        }
        /* |c|! (n - |c| - 1)! / n! */
        double weight = 1.0 / g->players;
        uint32_t size = (uint32_t)__builtin_popcount(c);
        for (uint32_t i = 0; i < size; i++) {
            weight *= (double)(i + 1) / (g->players - 1 - i);
        }
        sum += weight * (g->value[c | 1u << player] - g->value[c]);
    }
    return sum;
}

orr_status tune_attribute(orr_arena *arena, orr_engine *engine, const tune_world *world,
                          double compute_factor, double fits_bytes, const orr_plan *start,
                          const orr_plan *best, orr_tree **out, orr_err *err) {
    game *g = ORR_NEW(arena, game);
    orr_tree *list = orr_tree_new_list(arena);
    *out = list;
    g->world = world;
    g->fits_bytes = fits_bytes;
    g->start = start;
    g->best = best;
    for (int l = 0; l < LEVER_COUNT; l++) {
        if (differs((lever)l, start, best)) {
            g->player[g->players++] = (lever)l;
        }
    }
    ORR_TRY(orr_quick_new(engine, &world->base, compute_factor, &g->quick, err));
    play_all(g);
    orr_quick_free(g->quick);
    double first = g->value[0];
    for (uint32_t i = 0; i < g->players; i++) {
        double gain = shapley(g, i);
        orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
        orr_tree_put_text(arena, one, "lever", lever_names[g->player[i]]);
        orr_tree_put_real(arena, one, "tokens_per_s_per_gpu", gain);
        orr_tree_put_real(arena, one, "gain_frac", first > 0 ? gain / first : 0);
    }
    return ORR_OK;
}
