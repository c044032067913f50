/* Saved-for-backward bytes against counts made in PyTorch with saved-tensor hooks: every module and
 * the total, 0 bytes of difference. Data: tests/data/memory/README.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "doc/doc.h"
#include "program/program.h"

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

static uint32_t compare_modules(const char *name, const orr_object *object, uint32_t modules,
                                bool fused, const orr_tree *expected) {
    uint32_t wrong = 0;
    uint64_t seen = 0;
    for (size_t i = 0; i < orr_tree_size(expected); i++) {
        const char *module = orr_tree_key(expected, i);
        uint64_t bytes = 0, want = (uint64_t)orr_tree_int(orr_tree_at(expected, i), 0);
        for (uint32_t s = 0; s < object->saved_count; s++) {
            const orr_saved *saved = &object->saved[s];
            bool here = strcmp(module_name(saved, fused), module) == 0;
            bytes += here && orr_saved_alive(saved, modules) ? saved->bytes : 0;
        }
        if (bytes != want) {
            print_error("%s: %s has %llu bytes, counted %llu\n", name, module,
                        (unsigned long long)bytes, (unsigned long long)want);
            wrong++;
        }
        seen += bytes;
    }
    uint64_t total = orr_object_saved(object, modules);
    if (seen != total) {
        print_error("%s: %llu bytes in modules that the count does not have\n", name,
                    (unsigned long long)(total - seen));
        wrong++;
    }
    return wrong;
}

static void compare_file(const char *path, uint32_t at_least) {
    orr_arena *arena = orr_arena_new();
    orr_err err = {0};
    orr_tree *cases = NULL;
    assert_int_equal(orr_doc_read_file(arena, path, &cases, &err), ORR_OK);
    uint32_t wrong = 0;
    for (size_t i = 0; i < orr_tree_size(cases); i++) {
        const orr_tree *one = orr_tree_at(cases, i);
        const orr_tree *config = orr_tree_get(one, "config");
        const char *name = orr_tree_text(orr_tree_get(one, "name"), "?");
        orr_object_key key = read_key(config);
        uint32_t modules = read_modules(config);
        bool fused = flag(config, "fused_qkv", true);
        orr_object *object = NULL;
        if (orr_lower(arena, &key, &object, &err) != ORR_OK) {
            print_error("%s: %s\n", name, err.message);
            wrong++;
            continue;
        }
        wrong += compare_modules(name, object, modules, fused, orr_tree_get(one, "modules"));
        uint64_t total = (uint64_t)orr_tree_int(orr_tree_get(one, "total_bytes"), 0);
        if (total != orr_object_saved(object, modules)) {
            wrong++;
        }
    }
    assert_true(orr_tree_size(cases) >= at_least);
    assert_int_equal(wrong, 0);
    orr_arena_free(arena);
}

static void published_cases(void **state) {
    (void)state;
    compare_file(ORR_TEST_DIR "/data/memory/cases.json", 55);
}

/* Further configurations, drawn at random and counted by the same script. */
static void drawn_cases(void **state) {
    (void)state;
    compare_file(ORR_TEST_DIR "/data/memory/more_cases.json", 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_cases),
        cmocka_unit_test(drawn_cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
