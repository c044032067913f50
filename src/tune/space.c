/* The legal plans of a space, counted without being listed: families x pipes x tails. Rules are
 * asked of one representative where they cannot tell members apart; a property test compares with
 * asking for every combination. */
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "tune/tune_int.h"

static bool is_moe(const orr_model *model) {
    for (uint32_t k = 0; k < model->kind_count; k++) {
        if (model->kind[k].mlp.experts > 0) {
            return true;
        }
    }
    return false;
}

/* ---- plans ----------------------------------------------------------------------------------- */

void tune_plan_pipe(const tune_pipe *pipe, orr_plan *plan) {
    uint8_t p2p = plan->pipe.p2p;
    plan->pipe = pipe->pipe;
    plan->pipe.p2p = p2p;
    plan->layout = pipe->layout;
}

void tune_plan_overlap(const tune_world *world, uint32_t overlap, orr_plan *plan) {
    plan->overlap = overlap;
    if (world->p2p_stated) {
        plan->pipe.p2p = world->base.plan.pipe.p2p;
    } else if (plan->pipe.schedule == ORR_SCHEDULE_INTERLEAVED) {
        plan->pipe.p2p = (overlap & ORR_OVERLAP_PP) != 0 ? ORR_P2P_OVERLAP : ORR_P2P_BLOCKING;
    } else {
        plan->pipe.p2p = (uint8_t)orr_schedule_default_p2p((orr_schedule_kind)plan->pipe.schedule);
    }
}

/* Whether anything is shared out or reduced among replicas. */
static bool has_replicas(const tune_world *world, const orr_plan *plan) {
    bool experts = is_moe(world->base.model) &&
                   (uint64_t)plan->split.etp * plan->split.ep * plan->pipe.pp < plan->gpus;
    return plan->shard.dp * plan->split.cp > 1 || experts;
}

uint32_t tune_overlap_mask(const tune_world *world, const orr_plan *plan) {
    const orr_software *s = world->base.software;
    uint32_t mask = 0;
    bool loops = plan->pipe.schedule == ORR_SCHEDULE_INTERLEAVED && plan->pipe.pp > 1;
    if (plan->split.tp > 1 && (s->tp_overlap_fwd_frac > 0 || s->tp_overlap_bwd_frac > 0)) {
        mask |= ORR_OVERLAP_TP;
    }
    if (has_replicas(world, plan) && plan->shard.kind < ORR_SHARD_ZERO3 &&
        (s->dp_overlap_grads || s->dp_overlap_params)) {
        mask |= ORR_OVERLAP_DP;
    }
    if (loops && !world->p2p_stated) {
        mask |= ORR_OVERLAP_PP;
    }
    if (is_moe(world->base.model) && plan->split.ep > 1 && s->ep_overlap_frac > 0) {
        mask |= ORR_OVERLAP_EP;
    }
    return mask;
}

/* Overlap that offends no rule: the rest of the plan is on trial. */
static void put_neutral_tail(const tune_world *world, orr_plan *plan) {
    plan->recompute = (orr_recompute){0};
    bool loops = plan->pipe.schedule == ORR_SCHEDULE_INTERLEAVED && plan->pipe.pp > 1;
    tune_plan_overlap(world, loops ? ORR_OVERLAP_PP : 0, plan);
}

static bool is_legal(const tune_world *world, const orr_plan *plan) {
    orr_resolved r = world->base;
    r.plan = *plan;
    return orr_plan_legal(&r);
}

/* ---- pipes ----------------------------------------------------------------------------------- */

enum { MAX_LAYOUTS = 96, MAX_PIPES = 4096 };

typedef struct pipe_list {
    tune_space *space;
    const tune_world *world;
    uint32_t micro_batches;
    tune_pipe *pipe;
    uint32_t count, capacity;
    uint32_t *seen; /* layer counts of the layouts so far, of one schedule and vpp */
    uint32_t seen_count, chunks;
    uint32_t *layers, *offset;
} pipe_list;

/* A plan in which only the pipe can offend: one replica, nothing split. */
static orr_plan bare_plan(const pipe_list *l, const orr_pipe *pipe, const orr_layout *layout) {
    orr_plan plan = l->world->base.plan;
    plan.pipe = *pipe;
    plan.layout = layout;
    plan.gpus = pipe->pp;
    plan.shard = (orr_shard){.dp = 1};
    plan.split.tp = plan.split.cp = plan.split.ep = plan.split.etp = 1;
    plan.split.sp = 0;
    plan.variant.dispatch = ORR_DISPATCH_ALLTOALL;
    plan.batch.mbs = 1;
    plan.batch.micro_batches = plan.gbs = l->micro_batches;
    put_neutral_tail(l->world, &plan);
    return plan;
}

/* Layouts that put the same layers on the same chunks are one. */
static void try_layout(pipe_list *l, const orr_pipe *pipe, const orr_layout *layout) {
    orr_plan plan = bare_plan(l, pipe, layout);
    uint32_t chunks = pipe->pp * pipe->vpp;
    if (orr_plan_layers(l->world->base.model, &plan, l->layers, l->offset, NULL) != ORR_OK) {
        return;
    }
    for (uint32_t i = 0; i < l->seen_count; i++) {
        if (memcmp(&l->seen[i * chunks], l->layers, chunks * sizeof *l->layers) == 0) {
            return;
        }
    }
    if (l->seen_count == MAX_LAYOUTS || l->count == MAX_PIPES) {
        return;
    }
    memcpy(&l->seen[l->seen_count++ * chunks], l->layers, chunks * sizeof *l->layers);
    if (!is_legal(l->world, &plan)) {
        return;
    }
    if (l->count == l->capacity) {
        uint32_t capacity = orr_max_u32(16, 2 * l->capacity);
        tune_pipe *bigger = ORR_NEW_ARRAY(l->space->arena, tune_pipe, capacity);
        if (l->count > 0) {
            memcpy(bigger, l->pipe, l->count * sizeof *bigger);
        }
        l->pipe = bigger;
        l->capacity = capacity;
    }
    tune_pipe *out = &l->pipe[l->count++];
    *out = (tune_pipe){.pipe = *pipe, .layout = layout};
    for (uint32_t c = 0; c < chunks; c++) {
        out->deepest = orr_max_u32(out->deepest, l->layers[c]);
    }
}

/* First and last rank with a few layers less or more than the others. */
static void try_counts(pipe_list *l, const orr_pipe *usual) {
    enum { FEWER = 3, MORE = 1 };
    uint32_t layers = l->world->base.model->layers, mean = layers / usual->pp;
    uint32_t low = mean > FEWER ? mean - FEWER : 1;
    for (uint32_t first = low; first <= mean + MORE && usual->pp > 2; first++) {
        for (uint32_t last = low; last <= mean + MORE; last++) {
            orr_pipe pipe = *usual;
            pipe.split_flags = ORR_SPLIT_COUNTS;
            pipe.first_layers = first;
            pipe.last_layers = last;
            try_layout(l, &pipe, NULL);
        }
    }
}

/* Those that a framework is told in fewest words come first. */
static void try_layouts(pipe_list *l, uint32_t schedule, uint32_t pp, uint32_t vpp) {
    const tune_world *w = l->world;
    orr_pipe pipe = w->base.plan.pipe;
    pipe.pp = pp;
    pipe.vpp = vpp;
    pipe.schedule = (uint8_t)schedule;
    pipe.split_flags = 0;
    pipe.first_layers = pipe.last_layers = 0;
    pipe.layout_hash = 0;
    l->seen_count = 0;
    if (w->limit[AXIS_LAYOUT].count > 0) {
        for (uint32_t i = 0; i < w->layout_count; i++) {
            pipe.placement = w->layout[i].placement;
            pipe.split_flags = w->layout[i].split_flags;
            pipe.layout_hash = w->layout[i].layout_hash;
            try_layout(l, &pipe, w->layout_text[i]);
        }
        return;
    }
    if (pp == 1) {
        try_layout(l, &pipe, NULL);
        return;
    }
    static const uint8_t placements[] = {ORR_PLACE_BALANCED, ORR_PLACE_SPREAD, ORR_PLACE_COST_WALK,
                                         ORR_PLACE_SLOTS};
    pipe.placement = ORR_PLACE_EVEN;
    try_layout(l, &pipe, NULL);
    for (uint8_t flags = ORR_SPLIT_EMBEDDING; flags <= (ORR_SPLIT_EMBEDDING | ORR_SPLIT_LOSS);
         flags++) {
        orr_pipe slots = pipe;
        slots.split_flags = flags;
        try_layout(l, &slots, NULL);
    }
    try_counts(l, &pipe);
    for (size_t i = 0; i < sizeof placements; i++) {
        pipe.placement = placements[i];
        try_layout(l, &pipe, NULL);
    }
}

static void try_schedule(pipe_list *l, uint32_t schedule, uint32_t pp) {
    const tune_world *w = l->world;
    uint32_t fixed = orr_schedule_fixed_vpp((orr_schedule_kind)schedule);
    uint32_t most = orr_min_u32(ORR_MAX_VPP, (w->base.model->layers + 2) / pp);
    uint32_t low = fixed > 0 ? fixed : 2, high = fixed > 0 ? fixed : most;
    for (uint32_t vpp = low; vpp <= high; vpp++) {
        if (tune_limit_takes(&w->limit[AXIS_VPP], vpp)) {
            try_layouts(l, schedule, pp, vpp);
        }
    }
}

/* Whether to leave the making of the space. */
static bool is_interrupted(tune_space *space) {
    const orr_tune_request *request = space->request;
    space->interrupted = space->interrupted || (request->progress != NULL &&
                                                !request->progress(request->progress_user, "space",
                                                                   space->family_count, 0));
    return space->interrupted;
}

typedef struct pipe_key {
    uint32_t world, pp, micro_batches;
} pipe_key;

static uint32_t pipes_of(tune_space *space, uint32_t world, uint32_t pp, uint32_t micro_batches) {
    pipe_key key = {world, pp, micro_batches};
    const uint32_t *known = (const uint32_t *)orr_map_get(&space->pipe_map, &key, sizeof key);
    if (known != NULL) {
        return *known;
    }
    orr_arena *work = orr_arena_new();
    const tune_world *w = &space->world[world];
    uint32_t chunks = orr_max_u32(2 * pp, w->base.model->layers + 2 + pp);
    pipe_list l = {.space = space,
                   .world = w,
                   .micro_batches = micro_batches,
                   .seen = ORR_NEW_ARRAY(work, uint32_t, (size_t)MAX_LAYOUTS * chunks),
                   .layers = ORR_NEW_ARRAY(work, uint32_t, chunks),
                   .offset = ORR_NEW_ARRAY(work, uint32_t, chunks)};
    if (pp == 1) {
        bool usual = (w->schedules >> ORR_SCHEDULE_1F1B & 1) != 0;
        if (usual && tune_limit_takes(&w->limit[AXIS_VPP], 1)) {
            try_layouts(&l, ORR_SCHEDULE_1F1B, 1, 1);
        }
    }
    for (uint32_t k = 0; k < ORR_SCHEDULE_USER && pp > 1 && !is_interrupted(space); k++) {
        if (w->schedules >> k & 1) {
            try_schedule(&l, k, pp);
        }
    }
    orr_arena_free(work);
    if (space->pipes_count == space->pipes_capacity) {
        uint32_t capacity = orr_max_u32(64, 2 * space->pipes_capacity);
        tune_pipes *bigger = ORR_NEW_ARRAY(space->arena, tune_pipes, capacity);
        if (space->pipes_count > 0) {
            memcpy(bigger, space->pipes, space->pipes_count * sizeof *bigger);
        }
        space->pipes = bigger;
        space->pipes_capacity = capacity;
    }
    uint32_t *index = ORR_NEW(space->arena, uint32_t);
    *index = space->pipes_count++;
    space->pipes[*index] = (tune_pipes){l.count, l.pipe};
    orr_map_put(&space->pipe_map, space->arena, &key, sizeof key, index);
    return *index;
}

/* ---- recompute ------------------------------------------------------------------------------- */

uint32_t tune_recompute_class(const orr_recompute *recompute) {
    switch ((orr_recompute_kind)recompute->kind) {
    case ORR_RECOMPUTE_FULL: return 1;
    case ORR_RECOMPUTE_BLOCK: return 2;
    case ORR_RECOMPUTE_UNIFORM: return 3;
    case ORR_RECOMPUTE_SELECTIVE: return (recompute->modules & ORR_MODULE_MOE) == 0 ? 4 : 5;
    case ORR_RECOMPUTE_NONE:
    case ORR_RECOMPUTE_UNKNOWN: break;
    }
    return 0;
}

static void add_recompute(tune_recomputes *out, orr_recompute value) {
    for (uint32_t i = 0; i < out->count; i++) {
        if (memcmp(&out->value[i], &value, sizeof value) == 0) {
            return;
        }
    }
    if (out->count < TUNE_MAX_RECOMPUTE) {
        out->value[out->count++] = value;
        out->of_class[tune_recompute_class(&value)]++;
    }
}

/* Modules that the model has. Recomputed experts recompute their activation too. */
uint32_t tune_modules(const orr_model *model) {
    uint32_t bits = ORR_MODULE_LAYERNORM;
    for (uint32_t k = 0; k < model->kind_count; k++) {
        const orr_layer *layer = &model->kind[k];
        bits |= layer->attention.kind != ORR_ATTENTION_NONE ? ORR_MODULE_CORE_ATTN : 0u;
        bits |= layer->attention.kind == ORR_ATTENTION_MLA ? ORR_MODULE_MLA_UP_PROJ : 0u;
        bits |= layer->mlp.ffn > 0 ? ORR_MODULE_MLP : 0u;
        bits |= layer->mlp.experts > 0 ? ORR_MODULE_MOE | ORR_MODULE_MOE_ACT : 0u;
        bits |= layer->mlp.shared_ffn > 0 ? ORR_MODULE_SHARED_EXPERTS : 0u;
    }
    return bits;
}

static void default_recomputes(const orr_model *model, uint32_t deepest, tune_recomputes *out) {
    const uint32_t both = ORR_MODULE_MOE | ORR_MODULE_MOE_ACT;
    uint32_t bits = tune_modules(model);
    add_recompute(out, (orr_recompute){.kind = ORR_RECOMPUTE_NONE});
    for (uint32_t m = bits & -bits; m != 0; m = (m - bits) & bits) { /* subsets, rising */
        if ((m & both) != both) {
            add_recompute(out, (orr_recompute){.kind = ORR_RECOMPUTE_SELECTIVE, .modules = m});
        }
    }
    for (uint32_t n = 1; n < deepest; n++) {
        add_recompute(out, (orr_recompute){.kind = ORR_RECOMPUTE_BLOCK, .layers = n});
    }
    add_recompute(out, (orr_recompute){.kind = ORR_RECOMPUTE_FULL});
    for (uint32_t n = 2; n <= deepest; n++) {
        add_recompute(out, (orr_recompute){.kind = ORR_RECOMPUTE_UNIFORM, .layers = n});
    }
}

const tune_recomputes *tune_recomputes_of(tune_space *space, const tune_family *family,
                                          const tune_pipe *pipe) {
    uint32_t key[2] = {family->world, pipe->deepest};
    tune_recomputes *known = (tune_recomputes *)orr_map_get(&space->recompute_map, key, sizeof key);
    if (known != NULL) {
        return known;
    }
    const tune_world *w = &space->world[family->world];
    known = ORR_NEW(space->arena, tune_recomputes);
    if (w->limit[AXIS_RECOMPUTE].count == 0) {
        default_recomputes(w->base.model, pipe->deepest, known);
    }
    for (uint32_t i = 0; i < w->recompute_count; i++) {
        if (w->recompute[i].layers <= pipe->deepest) {
            add_recompute(known, w->recompute[i]);
        }
    }
    orr_map_put(&space->recompute_map, space->arena, key, sizeof key, known);
    return known;
}

/* ---- tails ----------------------------------------------------------------------------------- */

/* All that rules about recompute, overlap and sharding read of the rest of a plan. */
typedef struct tail_key {
    uint32_t world;
    uint8_t stages, loops, schedule, experts, expert_group, contexts, replicas, tensors;
    uint8_t dispatch, shard, one_micro_batch, mask;
} tail_key;

static tail_key key_of(const tune_space *space, const tune_family *family, const orr_plan *plan) {
    tail_key key;
    memset(&key, 0, sizeof key);
    key.world = family->world;
    key.stages = (uint8_t)orr_min_u32(plan->pipe.pp, 3);
    key.loops = plan->pipe.vpp > 1;
    key.schedule = plan->pipe.schedule;
    key.experts = plan->split.ep > 1;
    key.expert_group = plan->split.ep * plan->split.etp > 1;
    key.contexts = plan->split.cp > 1;
    key.replicas = has_replicas(&space->world[family->world], plan);
    key.tensors = plan->split.tp > 1;
    key.dispatch = plan->variant.dispatch;
    key.shard = plan->shard.kind;
    key.one_micro_batch = plan->batch.micro_batches == 1;
    key.mask = (uint8_t)tune_overlap_mask(&space->world[family->world], plan);
    return key;
}

/* What the limit on overlap leaves of a mask, as a set. */
static uint16_t overlaps_wanted(const tune_world *world, uint32_t mask, uint32_t fixed) {
    uint16_t set = 0;
    for (uint32_t o = 0; o < TUNE_OVERLAPS; o++) {
        bool wanted = world->overlap_count == 0 && (o & ~mask) == 0;
        for (uint32_t i = 0; i < world->overlap_count; i++) {
            wanted = wanted || (world->overlap[i] & mask) == o;
        }
        if (wanted) {
            set = (uint16_t)(set | 1u << (o | fixed));
        }
    }
    return set;
}

static bool shard_wanted(const tune_world *world, uint8_t kind) {
    for (uint32_t i = 0; i < world->shard_count; i++) {
        if (world->shard[i].kind == kind) {
            return true;
        }
    }
    return false;
}

static void find_shards(const tune_world *world, orr_plan plan, tune_tails *out) {
    put_neutral_tail(world, &plan);
    if (plan.shard.kind >= ORR_SHARD_ZERO3) {
        out->shard[out->shard_count++] = plan.shard.kind;
        return;
    }
    uint8_t most = has_replicas(world, &plan) ? ORR_SHARD_ZERO2 : ORR_SHARD_NONE;
    for (uint8_t kind = ORR_SHARD_NONE; kind <= most; kind++) {
        plan.shard.kind = kind;
        /* without replicas all kinds are one: none */
        bool wanted = most == ORR_SHARD_NONE || shard_wanted(world, kind);
        if (wanted && is_legal(world, &plan)) {
            out->shard[out->shard_count++] = plan.shard.kind;
        }
    }
}

static const orr_recompute class_example[TUNE_CLASSES] = {
    {.kind = ORR_RECOMPUTE_NONE},
    {.kind = ORR_RECOMPUTE_FULL},
    {.kind = ORR_RECOMPUTE_BLOCK, .layers = 1},
    {.kind = ORR_RECOMPUTE_UNIFORM, .layers = 2},
    {.kind = ORR_RECOMPUTE_SELECTIVE, .modules = ORR_MODULE_LAYERNORM},
    {.kind = ORR_RECOMPUTE_SELECTIVE, .modules = ORR_MODULE_MOE},
};

const tune_tails *tune_tails_of(tune_space *space, const tune_family *family,
                                const tune_pipe *pipe) {
    const tune_world *w = &space->world[family->world];
    orr_plan plan = family->plan;
    tune_plan_pipe(pipe, &plan);
    tail_key key = key_of(space, family, &plan);
    tune_tails *known = (tune_tails *)orr_map_get(&space->tail_map, &key, sizeof key);
    if (known != NULL) {
        return known;
    }
    known = ORR_NEW(space->arena, tune_tails);
    find_shards(w, plan, known);
    /* Bits without effect are as the software sets them. */
    bool replicas = has_replicas(w, &plan);
    uint32_t fixed =
        replicas && plan.shard.kind >= ORR_SHARD_ZERO3 && w->base.software->dp_overlap_grads
            ? ORR_OVERLAP_DP
            : 0;
    uint16_t wanted = overlaps_wanted(w, key.mask, fixed);
    for (int c = 0; c < TUNE_CLASSES; c++) {
        for (uint32_t o = 0; o < TUNE_OVERLAPS; o++) {
            if ((wanted >> o & 1) == 0) {
                continue;
            }
            plan.recompute = class_example[c];
            tune_plan_overlap(w, o, &plan);
            if (is_legal(w, &plan)) {
                known->overlaps[c] = (uint16_t)(known->overlaps[c] | 1u << o);
            }
        }
    }
    orr_map_put(&space->tail_map, space->arena, &key, sizeof key, known);
    return known;
}

uint64_t tune_count(const tune_recomputes *recomputes, const tune_tails *tails) {
    uint64_t count = 0;
    for (int c = 0; c < TUNE_CLASSES; c++) {
        count +=
            (uint64_t)recomputes->of_class[c] * (uint64_t)__builtin_popcount(tails->overlaps[c]);
    }
    return count * tails->shard_count;
}

/* ---- families -------------------------------------------------------------------------------- */

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
    if (is_interrupted(space)) {
        return;
    }
    uint32_t pipes = pipes_of(space, f->index, f->plan.pipe.pp, f->plan.batch.micro_batches);
    if (space->pipes[pipes].count == 0) {
        return;
    }
    tune_family family = {.world = f->index, .pipes = pipes, .plan = f->plan};
    tune_plan_pipe(&space->pipes[pipes].pipe[0], &family.plan);
    put_neutral_tail(f->world, &family.plan);
    if (!is_legal(f->world, &family.plan)) {
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
    for (uint8_t kind = ORR_SHARD_ZERO3; kind < ORR_SHARD_COUNT && has_replicas(w, plan); kind++) {
        if (!shard_wanted(w, kind)) {
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
