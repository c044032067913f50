/* A plan back to keys that resolve to it. */
#include <string.h>

#include "plan/plan_int.h"

static const char *layout_text(const orr_plan *plan) {
    bool embedding = (plan->pipe.split_flags & ORR_SPLIT_EMBEDDING) != 0;
    bool loss = (plan->pipe.split_flags & ORR_SPLIT_LOSS) != 0;
    return plan->layout != NULL ? plan->layout->text
           : embedding && loss  ? "embedding,loss"
           : embedding          ? "embedding"
           : loss               ? "loss"
                                : NULL;
}

static plan_keys keys_of(orr_arena *arena, const orr_resolved *r) {
    const orr_plan *p = &r->plan;
    bool fp8_params = p->numeric.param_bytes == 1;
    return (plan_keys){
        .model = r->model_key,
        .hardware = r->hardware_key,
        .cluster = r->cluster_key,
        .software = r->software_key,
        .fabric = r->fabric_key,
        .seq = orr_tree_new_int(arena, p->batch.seq),
        .layout = layout_text(p),
        .recompute = orr_recompute_name(arena, &p->recompute),
        .gpus = p->gpus,
        .gpus_per_node = r->cluster == NULL ? 0 : r->cluster->gpus_per_node,
        .nic_Bps = r->nic_Bps,
        .tp = p->split.tp,
        .pp = p->pipe.pp,
        .vpp = p->pipe.vpp,
        .first_layers = p->pipe.first_layers,
        .last_layers = p->pipe.last_layers,
        .ep = p->split.ep,
        .etp = p->split.etp,
        .cp = p->split.cp,
        .mbs = p->batch.mbs,
        .gbs = p->gbs,
        .shard_group = p->shard.group,
        .group = p->pipe.group,
        .memory_limit = p->pipe.memory_limit,
        .overlap = p->overlap,
        .dropout = (p->variant.hidden_dropout ? DROPOUT_HIDDEN : 0u) |
                   (p->variant.attention_dropout ? DROPOUT_ATTENTION : 0u),
        .sp = p->split.sp != 0,
        .fp8_params = fp8_params,
        .fp8_attention = p->variant.fp8_attention != 0,
        .fp8_attention_backward = p->variant.fp8_attention != ORR_LOW_FORWARD,
        .placement = p->pipe.placement,
        .cp_kind = p->split.cp_kind,
        .precision = p->numeric.precision,
        .sharding = p->shard.kind,
        .schedule = p->pipe.schedule,
        .p2p = p->pipe.p2p,
        .attention = p->variant.attention,
        .loss = p->variant.loss,
        .dispatch = p->variant.dispatch,
        .graphs = r->software == NULL ? 0 : r->software->graphs,
        .imbalance = p->split.load > 0 && !p->variant.capacity
                         ? orr_tree_new_real(arena, orr_split_load(&p->split))
                         : NULL,
        .capacity = p->variant.capacity ? orr_split_load(&p->split) : 0,
        .offload_layers = p->offload.layers,
        .offload_optimizer = p->offload.optimizer_permille / 1000.0,
        .optimizer = p->numeric.optimizer,
        .lora = orr_lora_write(arena, &p->lora),
        .base_dtype = p->lora.base,
        .order = (uint8_t)p->pipe.order,
        .grad_dtype = orr_plan_dtype_index(KEY_GRAD_DTYPE, p->numeric.grad_bytes),
        .param_dtype =
            orr_plan_dtype_index(KEY_PARAM_DTYPE, fp8_params ? 2 : p->numeric.param_bytes),
        .master_dtype = orr_plan_dtype_index(KEY_MASTER_DTYPE, p->numeric.master_bytes),
        .exp_avg_dtype = orr_plan_dtype_index(KEY_EXP_AVG_DTYPE, p->numeric.exp_avg_bytes),
        .exp_avg_sq_dtype = orr_plan_dtype_index(KEY_EXP_AVG_SQ_DTYPE, p->numeric.exp_avg_sq_bytes),
    };
}

/* Inputs that came by default are named; those that were built and not read are written in full. */
static void fill_inputs(orr_arena *arena, const orr_resolved *r, plan_keys *keys) {
    if (keys->model == NULL && r->model != NULL) {
        keys->model = orr_model_write(arena, r->model);
    }
    if (keys->software == NULL && r->software != NULL) {
        keys->software = orr_tree_new_text(arena, r->software->name);
    }
    if (keys->hardware == NULL && keys->cluster == NULL && r->cluster != NULL) {
        keys->cluster = orr_cluster_write(arena, r->cluster);
    }
}

static bool says_nothing(const orr_tree *value) {
    orr_tree_kind kind = orr_tree_kind_of(value);
    bool number = kind == ORR_TREE_INT || kind == ORR_TREE_REAL;
    return kind == ORR_TREE_NULL || (number && !(orr_tree_real(value, 0) > 0));
}

orr_tree *orr_plan_write(orr_arena *arena, const orr_resolved *resolved) {
    plan_keys keys = keys_of(arena, resolved);
    fill_inputs(arena, resolved, &keys);
    orr_schema schema = orr_plan_schema(arena);
    orr_tree *all = orr_schema_write(&schema, arena, &keys);
    orr_tree *out = orr_tree_new_map(arena);
    for (size_t i = 0; i < orr_tree_size(all); i++) {
        const char *key = orr_tree_key(all, i);
        bool idle = resolved->plan.lora.rank == 0 && resolved->plan.lora.base == ORR_BASE_16BIT &&
                    strcmp(key, orr_plan_key_name(KEY_BASE_DTYPE)) == 0;
        bool usual = resolved->plan.pipe.order == ORR_ORDER_PP_LAST &&
                     strcmp(key, orr_plan_key_name(KEY_ORDER)) == 0;
        bool wide = !resolved->plan.variant.fp8_attention &&
                    strcmp(key, orr_plan_key_name(KEY_FP8_ATTENTION)) == 0;
        bool both = resolved->plan.variant.fp8_attention != ORR_LOW_FORWARD &&
                    strcmp(key, orr_plan_key_name(KEY_FP8_ATTENTION_BACKWARD)) == 0;
        bool own = strcmp(key, orr_plan_key_name(KEY_GRAPHS)) == 0 && !resolved->graphs_stated;
        if (!idle && !usual && !wide && !both && !own && !says_nothing(orr_tree_at(all, i))) {
            orr_tree_put(arena, out, key, orr_tree_copy(arena, orr_tree_at(all, i)));
        }
    }
    return out;
}
