/* Sharding, number formats and variants of kernels and modules. */
#include "plan/resolve_int.h"

static uint32_t usual_shard_group(const orr_plan *plan, uint32_t gpus_per_node) {
    uint32_t ranks = plan->shard.dp * plan->split.cp;
    uint32_t group = orr_max_u32(1, gpus_per_node / orr_max_u32(1, plan->split.tp));
    return ranks % group == 0 && group < ranks ? group : ranks;
}

static void resolve_shard(resolver *r, orr_plan *plan) {
    plan->shard.kind =
        orr_resolve_stated(r, KEY_SHARDING) ? r->keys.sharding : r->out->software->default_sharding;
    if (plan->shard.kind == ORR_SHARD_COUNT) { /* "megatron-fsdp": another word */
        plan->shard.kind = ORR_SHARD_ZERO3;
    }
    plan->shard.group = r->keys.shard_group;
    if (!orr_resolve_stated(r, KEY_SHARDING)) {
        orr_resolve_assume(r, KEY_SHARDING, orr_plan_value_name(KEY_SHARDING, plan->shard.kind),
                           "the software's default");
    }
    if (plan->shard.kind == ORR_SHARD_HSDP && plan->shard.group == 0) {
        plan->shard.group = usual_shard_group(plan, r->out->cluster->gpus_per_node);
        orr_resolve_assume_count(r, KEY_SHARD_GROUP, plan->shard.group, "the ranks of a node");
    }
}

/* A dtype key's bytes: stated, or the default with an assumption. */
static uint8_t bytes_of(resolver *r, plan_key key, uint8_t stated, uint8_t otherwise,
                        const char *why) {
    if (orr_resolve_stated(r, key)) {
        return orr_plan_dtype_bytes(key, stated);
    }
    orr_resolve_assume(r, key, orr_plan_value_name(key, orr_plan_dtype_index(key, otherwise)), why);
    return otherwise;
}

static uint8_t enumerated(resolver *r, plan_key key, uint8_t stated, uint8_t otherwise,
                          const char *why) {
    if (orr_resolve_stated(r, key)) {
        return stated;
    }
    orr_resolve_assume(r, key, orr_plan_value_name(key, otherwise), why);
    return otherwise;
}

/* Recipes with scales of a tensor, or of 32 elements in a row, keep weights in fp8; those with
 * scales of blocks, and 4-bit ones, keep 16-bit weights (Megatron-Bridge, mixed_precision.py). */
static bool keeps_fp8_params(uint8_t precision) {
    return precision == ORR_PRECISION_FP8 || precision == ORR_PRECISION_FP8_CS ||
           precision == ORR_PRECISION_FP8_MX;
}

static void resolve_numeric(resolver *r, orr_plan *plan) {
    const plan_keys *k = &r->keys;
    const orr_software *software = r->out->software;
    orr_numeric *n = &plan->numeric;
    n->precision = enumerated(r, KEY_PRECISION, k->precision, ORR_PRECISION_BF16, "not stated");
    n->optimizer = enumerated(r, KEY_OPTIMIZER, k->optimizer, ORR_ADAM, "not stated");
    uint8_t resident = software->param_bytes >= 4 ? 4 : 2;
    n->param_bytes = bytes_of(r, KEY_PARAM_DTYPE, k->param_dtype, resident, "the software's");
    bool fp8 = software->param_bytes == 1 && keeps_fp8_params(n->precision) &&
               !orr_resolve_stated(r, KEY_PARAM_DTYPE);
    if (orr_resolve_stated(r, KEY_FP8_PARAMS)) {
        fp8 = k->fp8_params;
    } else if (fp8) {
        orr_resolve_assume(r, KEY_FP8_PARAMS, "on", "the software's");
    }
    n->param_bytes = fp8 ? 1 : n->param_bytes;
    n->grad_bytes = bytes_of(r, KEY_GRAD_DTYPE, k->grad_dtype, software->variant.grad_fp32 ? 4 : 2,
                             "the software's");
    n->wire_bytes = (uint8_t)orr_min_f64(software->grad_wire_bytes, 4);
    bool own_master = n->param_bytes == 4;
    n->master_bytes = bytes_of(r, KEY_MASTER_DTYPE, k->master_dtype, own_master ? 0 : 4,
                               own_master ? "fp32 parameters are their own" : "the usual one");
    uint8_t moment = n->optimizer == ORR_ADAM8BIT ? 1 : 4;
    n->exp_avg_bytes = bytes_of(r, KEY_EXP_AVG_DTYPE, k->exp_avg_dtype, moment, "the optimizer's");
    n->exp_avg_sq_bytes = bytes_of(r, KEY_EXP_AVG_SQ_DTYPE, k->exp_avg_sq_dtype,
                                   n->optimizer == ORR_MUON ? 0 : moment, "the optimizer's");
}

/* Both words come down to how many rows the fullest rank of experts works on. */
static void resolve_load(resolver *r, orr_plan *plan) {
    double load = 1;
    orr_err err = {0};
    if (orr_resolve_stated(r, KEY_IMBALANCE) &&
        !orr_imbalance_read(r->arena, r->keys.imbalance, r->out->model, plan->split.ep, &load,
                            &err)) {
        orr_resolve_foreign(r, KEY_IMBALANCE, &err);
    }
    if (!is_moe(r->out->model)) {
        return;
    }
    plan->variant.capacity = orr_resolve_stated(r, KEY_CAPACITY) && r->keys.capacity > 0;
    if (plan->variant.capacity) {
        load = r->keys.capacity;
    }
    plan->split.load =
        plan->variant.capacity || load > 1 ? (uint16_t)(load * ORR_LOAD_ONE + 0.5) : 0;
}

/* Has the software no fused attention for this model on this device? */
static bool lacks_fused_attention(const orr_resolved *r) {
    if (!r->software->blackwell_unfused_mla ||
        r->cluster->accelerator->arch != ORR_ARCH_BLACKWELL) {
        return false;
    }
    for (uint32_t i = 0; i < r->model->kind_count; i++) {
        const orr_attention *a = &r->model->kind[i].attention;
        if (a->kind == ORR_ATTENTION_MLA && a->head_dim != a->v_dim) {
            return true;
        }
    }
    return false;
}

static void resolve_attention(resolver *r, orr_variant *v) {
    bool lacks = v->attention == ORR_KERNEL_FLASH && lacks_fused_attention(r->out);
    v->attention = enumerated(r, KEY_ATTENTION, r->keys.attention,
                              lacks ? (uint8_t)ORR_KERNEL_UNFUSED : v->attention,
                              lacks ? "no fused attention of the software's trains keys wider than "
                                      "values on this device"
                                    : "the software's default");
    v->fp8_attention = orr_resolve_stated(r, KEY_FP8_ATTENTION) && r->keys.fp8_attention;
    bool wide =
        orr_resolve_stated(r, KEY_FP8_ATTENTION_BACKWARD) && !r->keys.fp8_attention_backward;
    v->fp8_attention = v->fp8_attention && wide ? ORR_LOW_FORWARD : v->fp8_attention;
}

static void resolve_variant(resolver *r, orr_plan *plan) {
    const plan_keys *k = &r->keys;
    orr_variant *v = &plan->variant;
    *v = r->out->software->variant;
    v->grad_fp32 = plan->numeric.grad_bytes == 4;
    resolve_attention(r, v);
    v->loss = enumerated(r, KEY_LOSS, k->loss, v->loss, "the software's default");
    if (orr_resolve_stated(r, KEY_DISPATCH)) {
        v->dispatch = k->dispatch;
    } else if (!is_moe(r->out->model)) {
        v->dispatch = ORR_DISPATCH_ALLTOALL;
    } else {
        v->dispatch = plan->split.ep > 1 ? v->dispatch : ORR_DISPATCH_ALLTOALL;
        orr_resolve_assume(r, KEY_DISPATCH, orr_plan_value_name(KEY_DISPATCH, v->dispatch),
                           plan->split.ep > 1 ? "the software's default" : "no expert parallelism");
    }
    if (orr_resolve_stated(r, KEY_DROPOUT)) {
        v->hidden_dropout = (k->dropout & DROPOUT_HIDDEN) != 0;
        v->attention_dropout = (k->dropout & DROPOUT_ATTENTION) != 0;
    } else {
        const char *what = v->hidden_dropout && v->attention_dropout ? "hidden, attention"
                           : v->hidden_dropout                       ? "hidden"
                           : v->attention_dropout                    ? "attention"
                                                                     : "none";
        orr_resolve_assume(r, KEY_DROPOUT, what, "the software's default");
    }
    v->fp8_copies = is_fp8(plan->numeric.precision) ? v->fp8_copies : 0;
    resolve_load(r, plan);
    plan->offload =
        (orr_offload){.layers = orr_resolve_stated(r, KEY_OFFLOAD_LAYERS) ? k->offload_layers : 0,
                      .optimizer_permille = orr_resolve_stated(r, KEY_OFFLOAD_OPTIMIZER)
                                                ? (uint32_t)(1000 * k->offload_optimizer + 0.5)
                                                : 0};
}

/* A command line gives a map as text. */
static orr_status read_lora(resolver *r, orr_plan *plan, orr_err *err) {
    const char *text = orr_tree_text(r->keys.lora, "");
    orr_tree *map = NULL;
    if (text[0] != '{') {
        return orr_lora_read(r->keys.lora, &plan->lora, err);
    }
    ORR_TRY(orr_yaml_read(r->arena, "lora", text, strlen(text), &map, err));
    return orr_lora_read(map, &plan->lora, err);
}

static void resolve_lora(resolver *r, orr_plan *plan) {
    orr_err err = {0};
    if (orr_resolve_stated(r, KEY_LORA) && read_lora(r, plan, &err) != ORR_OK) {
        orr_resolve_foreign(r, KEY_LORA, &err);
    }
    if (plan->lora.rank > 0) {
        plan->lora.base = enumerated(r, KEY_BASE_DTYPE, r->keys.base_dtype, ORR_BASE_16BIT,
                                     "frozen weights stay as they are");
    } else if (orr_resolve_stated(r, KEY_BASE_DTYPE)) {
        plan->lora.base = r->keys.base_dtype;
    }
}

static void resolve_recompute(resolver *r, orr_plan *plan) {
    orr_err err = {0};
    if (!orr_resolve_stated(r, KEY_RECOMPUTE)) {
        orr_resolve_assume(r, KEY_RECOMPUTE, "none", "not stated");
    } else if (!orr_recompute_read(r->keys.recompute, &plan->recompute, &err)) {
        orr_resolve_foreign(r, KEY_RECOMPUTE, &err);
    }
}

void orr_resolve_numbers(resolver *r, orr_plan *plan) {
    resolve_shard(r, plan);
    resolve_numeric(r, plan);
    resolve_variant(r, plan);
    resolve_lora(r, plan);
    resolve_recompute(r, plan);
}
