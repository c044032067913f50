/* Saved-for-backward bytes against counts of a real framework's saved-tensor hooks: each case
 * states one layer, embedding or head; its object is lowered and compared module by module. */
#include <string.h>

#include "base/err.h"
#include "doc/doc.h"
#include "study/study_int.h"

static uint32_t number(const orr_tree *map, const char *key, uint32_t otherwise) {
    return (uint32_t)orr_tree_int(orr_tree_get(map, key), otherwise);
}

static bool says(const orr_tree *map, const char *key, const char *word) {
    return strcmp(orr_tree_text(orr_tree_get(map, key), ""), word) == 0;
}

static bool flag(const orr_tree *map, const char *key, bool otherwise) {
    return orr_tree_bool(orr_tree_get(map, key), otherwise);
}

static void read_attention(const orr_tree *config, orr_attention *a) {
    const orr_tree *mla = orr_tree_get(config, "mla");
    a->causal = 1;
    a->heads = number(config, "heads", 1);
    a->kv_heads = number(config, "kv_heads", a->heads);
    a->head_dim = a->v_dim = number(config, "head_dim", 64);
    a->rope = flag(config, "rope", false);
    a->qk_norm = flag(config, "qk_norm", false);
    if (orr_tree_kind_of(mla) == ORR_TREE_MAP) {
        a->kind = ORR_ATTENTION_MLA;
        a->q_lora = number(mla, "q_lora", 0);
        a->kv_lora = number(mla, "kv_lora", 0);
        a->rope_dim = number(mla, "qk_rope", 0);
        a->head_dim = number(mla, "qk_nope", 0) + a->rope_dim;
        a->v_dim = number(mla, "v", 0);
    }
}

static void read_mlp(const orr_tree *config, orr_mlp *mlp, orr_variant *variant) {
    const orr_tree *moe = orr_tree_get(config, "moe");
    mlp->gated = says(config, "act", "swiglu");
    variant->fused_permute = 1;
    variant->probs_in_activation = 1;
    if (orr_tree_kind_of(moe) != ORR_TREE_MAP) {
        mlp->ffn = number(config, "ffn", 0);
        return;
    }
    mlp->gated = 1;
    mlp->experts = number(moe, "experts", 0);
    mlp->topk = number(moe, "topk", 0);
    mlp->expert_ffn = number(moe, "ffn", 0);
    mlp->shared_ffn = number(moe, "shared", 0);
    mlp->aux_loss = flag(moe, "aux", false);
    mlp->router = says(moe, "score", "softmax_post")  ? ORR_ROUTER_SOFTMAX_AFTER
                  : says(moe, "score", "softmax_pre") ? ORR_ROUTER_SOFTMAX_BEFORE
                                                      : ORR_ROUTER_SIGMOID;
    variant->fused_permute = flag(moe, "fused_permute", true);
    variant->probs_in_activation = !flag(moe, "probs_after", false);
}

static void read_variant(const orr_tree *config, orr_variant *variant) {
    bool eager = says(config, "impl", "eager");
    variant->fused_norm = variant->fused_activation = variant->fused_rope = !eager;
    /* Counted on PyTorch 1.13 where a case does not say. */
    const char *torch = orr_tree_text(orr_tree_get(config, "torch"), "1.13");
    variant->norm_square = strncmp(torch, "1.", 2) == 0;
    if (says(config, "attn", "flash")) {
        variant->attention = ORR_KERNEL_FLASH;
    } else if (!eager) {
        variant->attention = ORR_KERNEL_UNFUSED;
    } else {
        variant->attention =
            flag(config, "softmax_fp32", false) ? ORR_KERNEL_EAGER_FP32 : ORR_KERNEL_EAGER;
    }
    variant->hidden_dropout = orr_tree_real(orr_tree_get(config, "drop"), 0) > 0;
    variant->attention_dropout = orr_tree_real(orr_tree_get(config, "attn_drop"), 0) > 0;
    variant->separate_projections = !flag(config, "fused_qkv", true);
    variant->activation_fp8 = flag(config, "act_fp8", false);
    variant->loss = says(config, "ce", "te")           ? ORR_LOSS_TE
                    : says(config, "ce", "torch_fp32") ? ORR_LOSS_EAGER
                    : says(config, "ce", "torch_bf16") ? ORR_LOSS_EAGER_BF16
                                                       : ORR_LOSS_NATIVE;
}

static orr_object_key read_key(const orr_tree *config) {
    orr_object_key key;
    memset(&key, 0, sizeof key);
    key.layer.hidden = number(config, "h", 0);
    key.layer.norm = key.norm = says(config, "norm", "rmsnorm") ? ORR_NORM_RMS : ORR_NORM_LAYER;
    key.layer.norms = 2;
    key.split = (orr_split){.tp = number(config, "tp", 1),
                            .cp = 1,
                            .ep = 1,
                            .etp = number(config, "etp", 1),
                            .sp = flag(config, "sp", false)};
    key.mbs = number(config, "b", 1);
    key.seq = number(config, "s", 1);
    key.dp_shards = 1;
    key.vocab = number(config, "vocab", 0);
    key.numeric.precision = flag(config, "fp8", false) ? ORR_PRECISION_FP8 : ORR_PRECISION_BF16;
    read_variant(config, &key.variant);
    if (says(config, "kind", "layer")) {
        read_attention(config, &key.layer.attention);
        read_mlp(config, &key.layer.mlp, &key.variant);
    } else {
        key.what = says(config, "kind", "head") ? ORR_OBJECT_HEAD : ORR_OBJECT_EMBEDDING;
    }
    return key;
}

static uint32_t read_modules(const orr_tree *config) {
    static const struct {
        const char *name;
        uint32_t bit;
    } MODULE[] = {{"core_attn", ORR_MODULE_CORE_ATTN},
                  {"layernorm", ORR_MODULE_LAYERNORM},
                  {"mlp", ORR_MODULE_MLP},
                  {"moe", ORR_MODULE_MOE},
                  {"moe_act", ORR_MODULE_MOE_ACT},
                  {"shared_experts", ORR_MODULE_SHARED_EXPERTS},
                  {"mla_up_proj", ORR_MODULE_MLA_UP_PROJ}};
    const orr_tree *names = orr_tree_get(config, "recompute");
    uint32_t bits = flag(config, "full", false) ? ORR_MODULE_LAYER : 0;
    for (size_t i = 0; i < orr_tree_size(names); i++) {
        const char *name = orr_tree_text(orr_tree_at(names, i), "");
        for (size_t m = 0; m < sizeof MODULE / sizeof *MODULE; m++) {
            bits |= strcmp(name, MODULE[m].name) == 0 ? MODULE[m].bit : 0;
        }
    }
    return bits;
}

/* Separate eager projections keep their common input under the first of them. */
static const char *module_name(const orr_saved *saved, bool fused) {
    const char *name = orr_op_name(saved->module);
    return !fused && strcmp(name, "attn.qkv") == 0 ? "attn.q" : name;
}

static uint64_t counted(const orr_tree *node) {
    int64_t bytes = orr_tree_int(node, 0);
    return bytes > 0 ? (uint64_t)bytes : 0;
}

static double difference(uint64_t saved, uint64_t want) {
    return saved > want ? (double)(saved - want) : -(double)(want - saved);
}

static void put_difference(orr_arena *arena, orr_tree *list, const char *module, uint64_t saved,
                           uint64_t want) {
    if (saved != want) {
        orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
        orr_tree_put_text(arena, one, "module", module);
        orr_tree_put_real(arena, one, "saved_bytes", (double)saved);
        orr_tree_put_real(arena, one, "counted_bytes", (double)want);
    }
}

/* The modules that differ. Bytes in modules that the count does not have show as "elsewhere". */
static orr_tree *compare_modules(orr_arena *arena, const orr_object *object, uint32_t modules,
                                 bool fused, const orr_tree *expected) {
    orr_tree *list = orr_tree_new_list(arena);
    uint64_t seen = 0, all = orr_object_saved(object, modules);
    for (size_t i = 0; i < orr_tree_size(expected); i++) {
        const char *module = orr_tree_key(expected, i);
        uint64_t bytes = 0;
        for (uint32_t s = 0; s < object->saved_count; s++) {
            const orr_saved *saved = &object->saved[s];
            bool here = strcmp(module_name(saved, fused), module) == 0;
            bytes += here && orr_saved_alive(saved, modules) ? saved->bytes : 0;
        }
        put_difference(arena, list, module, bytes, counted(orr_tree_at(expected, i)));
        seen += bytes;
    }
    if (expected != NULL) {
        put_difference(arena, list, "elsewhere", all - seen, 0);
    }
    return list;
}

/* One case as {name, counted_bytes, saved_bytes, difference_bytes, modules}, or {name, failed}. */
static orr_tree *judge_case(orr_arena *arena, const orr_tree *one) {
    const orr_tree *config = orr_tree_get(one, "config");
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_text(arena, map, "name", orr_tree_text(orr_tree_get(one, "name"), NULL));
    orr_object_key key = read_key(config);
    uint32_t modules = read_modules(config);
    orr_object *object = NULL;
    orr_err err = {0};
    if (orr_lower(arena, &key, &object, &err) != ORR_OK) {
        orr_tree_put_text(arena, map, "failed", err.message);
        return map;
    }
    uint64_t want = counted(orr_tree_get(one, "total_bytes"));
    uint64_t saved = orr_object_saved(object, modules);
    orr_tree_put_real(arena, map, "counted_bytes", (double)want);
    orr_tree_put_real(arena, map, "saved_bytes", (double)saved);
    orr_tree_put_real(arena, map, "difference_bytes", difference(saved, want));
    (void)orr_tree_put(arena, map, "modules",
                       compare_modules(arena, object, modules, flag(config, "fused_qkv", true),
                                       orr_tree_get(one, "modules")));
    return map;
}

static orr_status check_case(const orr_tree *one, orr_err *err) {
    const orr_tree *config = orr_tree_get(one, "config"), *bytes = orr_tree_get(one, "total_bytes");
    if (orr_tree_kind_of(config) != ORR_TREE_MAP || orr_tree_int(bytes, -1) < 0) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(one),
                           "a case {name, config, total_bytes, modules} is expected");
    }
    return ORR_OK;
}

orr_status orr_study_saved_bytes(orr_arena *arena, const char *path, orr_tree **result,
                                 orr_err *err) {
    orr_tree *cases = NULL;
    ORR_TRY(orr_doc_read_file(arena, path, &cases, err));
    if (orr_tree_kind_of(cases) != ORR_TREE_LIST || orr_tree_size(cases) == 0) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(cases),
                           "a list of cases {config, total_bytes, modules} is expected");
    }
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree *summary = orr_tree_put(arena, map, "summary", orr_tree_new_map(arena));
    orr_tree *list = orr_tree_put(arena, map, "cases", orr_tree_new_list(arena));
    uint32_t exact = 0, failed = 0;
    double worst = 0;
    for (size_t i = 0; i < orr_tree_size(cases); i++) {
        ORR_TRY(check_case(orr_tree_at(cases, i), err));
        orr_tree *one = orr_tree_push(arena, list, judge_case(arena, orr_tree_at(cases, i)));
        double off = orr_tree_real(orr_tree_get(one, "difference_bytes"), 0);
        bool lowered = orr_tree_get(one, "failed") == NULL;
        failed += !lowered;
        exact += lowered && off == 0 && orr_tree_size(orr_tree_get(one, "modules")) == 0;
        worst = (off < 0 ? -off : off) > (worst < 0 ? -worst : worst) ? off : worst;
    }
    orr_tree_put_int(arena, summary, "cases", (int64_t)orr_tree_size(cases));
    orr_tree_put_int(arena, summary, "exact", exact);
    orr_tree_put_int(arena, summary, "failed", failed);
    orr_tree_put_real(arena, summary, "worst_difference_bytes", worst);
    *result = map;
    return ORR_OK;
}
