/* The legal plans of a space, counted without being listed: families x pipes x tails. Rules are
 * asked of one representative where they cannot tell members apart; a property test compares with
 * asking for every combination. */
#include "base/mem.h"
#include "base/num.h"
#include "tune/tune_int.h"

bool tune_space_interrupted(tune_space *space) {
    const orr_tune_request *request = space->request;
    space->interrupted = space->interrupted || (request->progress != NULL &&
                                                !request->progress(request->progress_user, "space",
                                                                   space->family_count, 0));
    return space->interrupted;
}

typedef struct family_walk {
    tune_space *space;
    const tune_world *world;
    uint32_t index; /* of the world */
    orr_plan plan;
} family_walk;

static bool takes(const family_walk *f, tune_axis axis, uint32_t value, bool usual) {
    const tune_limit *limit = &f->world->limit[axis];
    return limit->count == 0 ? usual : tune_limit_takes(limit, value);
}

static void add_family(family_walk *f) {
    tune_space *space = f->space;
    if (tune_space_interrupted(space)) {
        return;
    }
    uint32_t pipes = tune_pipes_of(space, f->index, f->plan.pipe.pp, f->plan.batch.micro_batches);
    if (space->pipes[pipes].count == 0) {
        return;
    }
    tune_family family = {.world = f->index, .pipes = pipes, .plan = f->plan};
    tune_plan_pipe(&space->pipes[pipes].pipe[0], &family.plan);
    tune_plan_neutral(f->world, &family.plan);
    if (!tune_is_legal(f->world, &family.plan)) {
        return;
    }
    for (uint32_t p = 0; p < space->pipes[pipes].count; p++) {
        const tune_pipe *pipe = &space->pipes[pipes].pipe[p];
        family.count += tune_count(tune_recomputes_of(space, &family, pipe),
                                   tune_tails_of(space, &family, pipe));
    }
    if (family.count == 0) {
        return;
    }
    if (space->family_count == space->family_capacity) {
        space->family_capacity = orr_max_u32(1024, 2 * space->family_capacity);
        space->family = (tune_family *)orr_realloc(space->family,
                                                   space->family_capacity * sizeof *space->family);
    }
    space->family[space->family_count++] = family;
    space->count += family.count;
}

/* Kinds of sharding whose layers gather their parameters are families of their own. */
static void walk_shards(family_walk *f) {
    const tune_world *w = f->world;
    orr_plan *plan = &f->plan;
    plan->shard.kind = ORR_SHARD_NONE;
    plan->shard.group = 0;
    add_family(f);
    uint32_t ranks = plan->shard.dp * plan->split.cp;
    for (uint8_t kind = ORR_SHARD_ZERO3; kind < ORR_SHARD_COUNT && tune_has_replicas(w, plan);
         kind++) {
        if (!tune_wants_shard(w, kind)) {
            continue;
        }
        plan->shard.kind = kind;
        plan->shard.group = 0;
        if (kind == ORR_SHARD_HSDP) {
            uint32_t node = orr_max_u32(1, w->base.cluster->gpus_per_node / plan->split.tp);
            if (ranks % node != 0 || node >= ranks) {
                continue; /* one group of all: fsdp2 */
            }
            plan->shard.group = node;
        }
        add_family(f);
    }
    plan->shard.kind = ORR_SHARD_NONE;
    plan->shard.group = 0;
}

static void walk_dispatches(family_walk *f) {
    const tune_world *w = f->world;
    bool spread = f->plan.split.ep * f->plan.split.etp > 1;
    for (uint32_t i = 0; i < w->dispatch_count; i++) {
        bool plain = w->dispatch[i] == ORR_DISPATCH_ALLTOALL;
        if (spread || plain) {
            f->plan.variant.dispatch = (uint8_t)w->dispatch[i];
            walk_shards(f);
        }
    }
}

static uint32_t fewest_experts(const orr_model *model) {
    uint32_t fewest = 0;
    for (uint32_t k = 0; k < model->kind_count; k++) {
        uint32_t experts = model->kind[k].mlp.experts;
        fewest = experts > 0 && (fewest == 0 || experts < fewest) ? experts : fewest;
    }
    return fewest;
}

static void walk_experts(family_walk *f) {
    orr_split *split = &f->plan.split;
    uint32_t experts = fewest_experts(f->world->base.model);
    uint32_t ranks = f->plan.gpus / f->plan.pipe.pp;
    for (uint32_t ep = 1; ep <= orr_max_u32(1, experts) && ep <= ranks; ep++) {
        if ((experts > 0 && experts % ep != 0) || ranks % ep != 0 || !takes(f, AXIS_EP, ep, true)) {
            continue;
        }
        uint32_t most = f->world->limit[AXIS_ETP].count > 0 ? ranks / ep : split->tp;
        for (uint32_t etp = 1; etp <= most && (experts > 0 || etp == 1); etp++) {
            if (ranks % ((uint64_t)ep * etp) == 0 &&
                takes(f, AXIS_ETP, etp, split->tp % etp == 0)) {
                split->ep = ep;
                split->etp = etp;
                walk_dispatches(f);
            }
        }
    }
}

static void walk_batches(family_walk *f) {
    enum { USUAL_MBS = 16 };
    orr_plan *plan = &f->plan;
    if (plan->gbs % plan->shard.dp != 0) {
        return;
    }
    uint32_t each = plan->gbs / plan->shard.dp;
    for (uint32_t mbs = 1; mbs <= each; mbs++) {
        if (each % mbs != 0 || !takes(f, AXIS_MBS, mbs, mbs <= USUAL_MBS) ||
            each / mbs > ORR_MAX_MICRO_BATCHES) {
            continue;
        }
        plan->batch.mbs = mbs;
        plan->batch.micro_batches = each / mbs;
        for (uint8_t sp = 0; sp <= (plan->split.tp > 1 ? 1 : 0); sp++) {
            if (plan->split.tp == 1 || (f->world->sp >> sp & 1) != 0) {
                plan->split.sp = sp;
                walk_experts(f);
            }
        }
    }
}

static void walk_stages(family_walk *f) {
    orr_plan *plan = &f->plan;
    uint32_t ranks = plan->gpus / (plan->split.tp * plan->split.cp);
    uint32_t most = orr_min_u32(ORR_MAX_PP, f->world->base.model->layers + 2);
    for (uint32_t pp = 1; pp <= orr_min_u32(ranks, most); pp++) {
        if (ranks % pp == 0 && takes(f, AXIS_PP, pp, true) && !f->space->interrupted) {
            plan->pipe.pp = pp;
            plan->shard.dp = ranks / pp;
            walk_batches(f);
        }
    }
}

/* Context parallelism is worth trying down to a few tokens a rank. */
enum { USUAL_LOCAL_TOKENS = 1024 };

static void walk_world(family_walk *f) {
    const tune_world *w = f->world;
    f->plan = w->base.plan;
    f->plan.pipe.split_flags = 0;
    uint32_t gpus = f->plan.gpus, domain = orr_max_u32(1, w->base.cluster->tier[0].gpus);
    for (uint32_t tp = 1; tp <= gpus; tp++) {
        if (gpus % tp != 0 || !takes(f, AXIS_TP, tp, domain % tp == 0)) {
            continue;
        }
        for (uint32_t cp = 1; cp <= gpus / tp; cp++) {
            bool usual = cp == 1 || f->plan.batch.seq / cp >= USUAL_LOCAL_TOKENS;
            if (gpus / tp % cp == 0 && takes(f, AXIS_CP, cp, usual)) {
                f->plan.split.tp = tp;
                f->plan.split.cp = cp;
                walk_stages(f);
            }
        }
    }
}

orr_status tune_space_make(orr_arena *arena, const orr_tune_request *request, tune_space *out,
                           orr_err *err) {
    *out = (tune_space){
        .arena = arena, .request = request, .compute_factor = 1, .start_s = tune_clock_s()};
    ORR_TRY(tune_limits_read(arena, request, &out->limits, err));
    ORR_TRY(tune_worlds_make(out, err));
    for (uint32_t w = 0; w < out->world_count; w++) {
        family_walk f = {.space = out, .world = &out->world[w], .index = w};
        walk_world(&f);
    }
    return ORR_OK;
}

void tune_space_release(tune_space *space) {
    orr_map_release(&space->pipe_map);
    orr_map_release(&space->tail_map);
    orr_map_release(&space->recompute_map);
    orr_release(space->family);
    space->family = NULL;
}
