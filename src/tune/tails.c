/* What may follow a family and a pipe: recompute, and tails (overlap and sharding), memoised by
 * what rules about them read. */
#include <string.h>

#include "base/num.h"
#include "tune/tune_int.h"

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
    key.replicas = tune_has_replicas(&space->world[family->world], plan);
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

static void find_shards(const tune_world *world, orr_plan plan, tune_tails *out) {
    tune_plan_neutral(world, &plan);
    if (plan.shard.kind >= ORR_SHARD_ZERO3) {
        out->shard[out->shard_count++] = plan.shard.kind;
        return;
    }
    uint8_t most = tune_has_replicas(world, &plan) ? ORR_SHARD_ZERO2 : ORR_SHARD_NONE;
    for (uint8_t kind = ORR_SHARD_NONE; kind <= most; kind++) {
        plan.shard.kind = kind;
        /* without replicas all kinds are one: none */
        bool wanted = most == ORR_SHARD_NONE || tune_wants_shard(world, kind);
        if (wanted && tune_is_legal(world, &plan)) {
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
    bool replicas = tune_has_replicas(w, &plan);
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
            if (tune_is_legal(w, &plan)) {
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
