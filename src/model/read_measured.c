/* Entries of models.json beside the measured runs: one flat description a model, partly spelt two
 * ways, with nulls where a source was silent (format: data/measured/README.md of the shared facts).
 * What only the notes state (qk-norm, windows, sinks, parallel blocks) is taken from there. */
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "model/hf_int.h"

enum { GUESSED_VOCAB = 50304 };

typedef struct entry {
    const orr_tree *map, *moe, *hybrid;
    const char *notes, *position;
    uint32_t dense_ffn, first_dense, every;
    orr_layer base;
    orr_attention linear;
} entry;

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Finds a lower-case word in the notes, whatever case they have. */
static const char *mention(const entry *e, const char *word) {
    for (const char *p = e->notes; *p != '\0'; p++) {
        size_t i = 0;
        while (word[i] != '\0' && lower(p[i]) == word[i]) {
            i++;
        }
        if (word[i] == '\0') {
            return p + i;
        }
    }
    return NULL;
}

static bool starts_with(const char *text, const char *head) {
    return strncmp(text, head, strlen(head)) == 0;
}

static orr_status need(const entry *e, const char *key, uint32_t max, uint32_t *value,
                       orr_err *err) {
    ORR_TRY(orr_key_u32(e->map, ORR_KEYS(key), max, value, err));
    return *value > 0 ? ORR_OK
                      : orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(e->map),
                                    "the architecture is not known: \"%s\" is not stated", key);
}

static orr_status read_mla(const entry *e, orr_attention *a, orr_err *err) {
    const orr_tree *mla = orr_tree_get(e->map, "mla");
    if (orr_tree_kind_of(mla) != ORR_TREE_MAP) {
        return ORR_OK;
    }
    uint32_t nope = 0;
    a->kind = ORR_ATTENTION_MLA;
    a->kv_heads = a->heads;
    a->qk_norm = 0;
    ORR_TRY(orr_key_u32(mla, ORR_KEYS("kv_lora_rank"), ORR_MAX_WIDTH, &a->kv_lora, err));
    ORR_TRY(orr_key_u32(mla, ORR_KEYS("q_lora_rank"), ORR_MAX_WIDTH, &a->q_lora, err));
    ORR_TRY(orr_key_u32(mla, ORR_KEYS("qk_nope_head_dim"), UINT16_MAX, &nope, err));
    ORR_TRY(orr_key_u32(mla, ORR_KEYS("qk_rope_head_dim"), UINT16_MAX, &a->rope_dim, err));
    ORR_TRY(orr_key_u32(mla, ORR_KEYS("v_head_dim"), UINT16_MAX, &a->v_dim, err));
    a->head_dim = nope + a->rope_dim;
    return ORR_OK;
}

static orr_status read_attention(entry *e, orr_err *err) {
    orr_attention *a = &e->base.attention;
    ORR_TRY(need(e, "num_attention_heads", UINT16_MAX, &a->heads, err));
    a->kv_heads = a->heads;
    ORR_TRY(orr_key_u32(e->map, ORR_KEYS("num_kv_heads"), UINT16_MAX, &a->kv_heads, err));
    a->head_dim = e->base.hidden / a->heads;
    ORR_TRY(orr_key_u32(e->map, ORR_KEYS("head_dim"), UINT16_MAX, &a->head_dim, err));
    a->v_dim = a->head_dim;
    a->rope = starts_with(e->position, "rope");
    bool normed = mention(e, "qk-norm") != NULL || mention(e, "qk layernorm") != NULL;
    a->qk_norm = normed ? ORR_QK_NORM_HEAD : ORR_QK_NORM_NONE;
    a->sinks = mention(e, "softmax offset") != NULL;
    a->output_gate = mention(e, "attention output gate") != NULL;
    return read_mla(e, a, err);
}

static orr_status read_moe(entry *e, orr_err *err) {
    const orr_tree *moe = e->moe;
    orr_mlp *m = &e->base.mlp;
    e->every = 1;
    ORR_TRY(orr_key_u32(moe, ORR_KEYS("num_experts"), ORR_MAX_EXPERTS, &m->experts, err));
    ORR_TRY(orr_key_u32(moe, ORR_KEYS("topk", "top_k"), ORR_MAX_EXPERTS, &m->topk, err));
    if (m->experts == 0 || m->topk == 0) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(moe),
                           "the architecture is not known: the experts, or how many a token "
                           "chooses, are not stated");
    }
    m->expert_ffn = e->dense_ffn;
    ORR_TRY(orr_key_u32(moe, ORR_KEYS("moe_ffn_hidden", "moe_ffn_hidden_size"), ORR_MAX_WIDTH,
                        &m->expert_ffn, err));
    uint32_t shared = 0;
    uint32_t width = 0;
    ORR_TRY(orr_key_u32(moe, ORR_KEYS("num_shared_experts"), ORR_MAX_EXPERTS, &shared, err));
    ORR_TRY(orr_key_u32(moe, ORR_KEYS("shared_expert_ffn", "shared_ffn_hidden_size"), ORR_MAX_WIDTH,
                        &width, err));
    uint64_t total = width > 0 ? width : (uint64_t)shared * m->expert_ffn;
    m->shared_ffn = total > ORR_MAX_WIDTH ? ORR_MAX_WIDTH : (uint32_t)total;
    m->shared_gate = mention(e, "with gate") != NULL || mention(e, "shared expert gate") != NULL;
    ORR_TRY(orr_key_u32(moe, ORR_KEYS("first_dense_layers", "first_k_dense"), ORR_MAX_LAYERS,
                        &e->first_dense, err));
    ORR_TRY(orr_key_u32(moe, ORR_KEYS("moe_layer_every", "moe_layer_freq"), ORR_MAX_LAYERS,
                        &e->every, err));
    ORR_TRY(orr_key_u32(moe, ORR_KEYS("groups", "n_group"), ORR_MAX_EXPERTS, &m->groups, err));
    ORR_TRY(orr_key_u32(moe, ORR_KEYS("group_topk", "topk_group"), ORR_MAX_EXPERTS, &m->group_topk,
                        err));
    if (m->groups <= 1) {
        m->groups = m->group_topk = 0;
    }
    return orr_key_u32(moe, ORR_KEYS("latent_size"), ORR_MAX_WIDTH, &m->latent, err);
}

/* Old GPTs have biases everywhere and LayerNorm; gated models have neither. */
static orr_status read_style(entry *e, orr_err *err) {
    orr_layer *layer = &e->base;
    layer->mlp.gated = 0;
    layer->mlp.activation = ORR_ACT_SILU;
    ORR_TRY(orr_key_flag(e->map, ORR_KEYS("gated_mlp"), &layer->mlp.gated, err));
    const char *word = orr_tree_text(orr_tree_get(e->map, "activation"), NULL);
    bool squared = mention(e, "xielu") != NULL;
    if (word == NULL) {
        layer->mlp.activation = layer->mlp.gated ? ORR_ACT_SILU
                                : squared        ? ORR_ACT_RELU2
                                                 : ORR_ACT_GELU;
    } else if (starts_with(word, "gelu")) { /* "gelu (not stated)" */
        layer->mlp.activation = ORR_ACT_GELU;
    } else {
        ORR_TRY(orr_activation_parse(orr_tree_get(e->map, "activation"), &layer->mlp.activation,
                                     &layer->mlp.gated, err));
    }
    bool old = !layer->mlp.gated && layer->mlp.activation == ORR_ACT_GELU;
    uint8_t bias = old && strcmp(e->position, "rope") != 0;
    ORR_TRY(orr_key_flag(e->map, ORR_KEYS("linear_bias"), &bias, err));
    layer->attention.bias_qkv = layer->attention.bias_out = layer->mlp.bias = bias;
    layer->attention.bias_qkv |= mention(e, "qkv bias") != NULL;
    layer->norm = layer->mlp.gated || squared ? ORR_NORM_RMS : ORR_NORM_LAYER;
    layer->norm_bare = layer->norm == ORR_NORM_LAYER && old && !bias;
    layer->parallel_block = mention(e, "parallel attn") != NULL;
    return ORR_OK;
}

static orr_status read_model(const entry *e, orr_model *model, orr_err *err) {
    model->hidden = e->base.hidden;
    model->norm = e->base.norm;
    model->norm_bare = e->base.norm_bare;
    model->embedding_norm = mention(e, "embed layernorm") != NULL;
    model->position = starts_with(e->position, "rope")      ? ORR_POSITION_ROPE
                      : starts_with(e->position, "learned") ? ORR_POSITION_LEARNED
                      : starts_with(e->position, "alibi")   ? ORR_POSITION_ALIBI
                      : starts_with(e->position, "none")    ? ORR_POSITION_NONE
                                                            : ORR_POSITION_ROPE;
    /* Tables of learned positions are as long as the training sequence, which is not stated. */
    model->max_seq = 0; /* not stated there */
    ORR_TRY(orr_key_flag(e->map, ORR_KEYS("tied_embeddings"), &model->tied, err));
    uint32_t mtp = 0;
    ORR_TRY(orr_key_u32(e->map, ORR_KEYS("mtp_layers"), 16, &mtp, err));
    model->mtp_layers = (uint8_t)mtp;
    if (orr_tree_int(orr_tree_get(e->map, "vocab_size"), 0) <= 0) {
        model->vocab = GUESSED_VOCAB;
        model->assumed = 1;
        return ORR_OK;
    }
    return orr_key_u32(e->map, ORR_KEYS("vocab_size"), ORR_MAX_VOCAB, &model->vocab, err);
}

static orr_status read_linear(entry *e, uint32_t layers, const char **mixers, orr_err *err) {
    const char *kind = orr_tree_text(orr_tree_get(e->hybrid, "kind"), "");
    orr_attention *a = &e->linear;
    const orr_tree *h = e->hybrid;
    uint32_t conv = 4;
    a->kind = ORR_ATTENTION_LINEAR;
    a->causal = 1;
    ORR_TRY(orr_key_u32(h, ORR_KEYS("conv_kernel"), UINT8_MAX, &conv, err));
    a->conv = (uint8_t)conv;
    if (strcmp(kind, "gated_delta_net") == 0) {
        a->linear = ORR_LINEAR_DELTA;
        ORR_TRY(orr_key_u32(h, ORR_KEYS("linear_value_heads"), UINT16_MAX, &a->heads, err));
        ORR_TRY(orr_key_u32(h, ORR_KEYS("linear_key_heads"), UINT16_MAX, &a->kv_heads, err));
        ORR_TRY(orr_key_u32(h, ORR_KEYS("linear_key_head_dim"), UINT16_MAX, &a->head_dim, err));
        return orr_key_u32(h, ORR_KEYS("linear_value_head_dim"), UINT16_MAX, &a->v_dim, err);
    }
    a->linear = ORR_LINEAR_MAMBA2;
    ORR_TRY(orr_key_u32(h, ORR_KEYS("mamba_heads"), UINT16_MAX, &a->heads, err));
    ORR_TRY(orr_key_u32(h, ORR_KEYS("mamba_head_dim"), UINT16_MAX, &a->v_dim, err));
    ORR_TRY(orr_key_u32(h, ORR_KEYS("mamba_groups"), UINT16_MAX, &a->kv_heads, err));
    ORR_TRY(orr_key_u32(h, ORR_KEYS("mamba_state"), UINT16_MAX, &a->head_dim, err));
    const char *pattern = orr_tree_text(orr_tree_get(h, "pattern"), "");
    if (strspn(pattern, "ME-*") != layers) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(h),
                           "the architecture is not known: the order of its layers is not stated");
    }
    *mixers = pattern;
    return ORR_OK;
}

static void make_half(const entry *e, char letter, orr_layer *layer) {
    orr_mlp dense;
    memset(&dense, 0, sizeof dense);
    dense.activation = layer->mlp.activation;
    dense.gated = layer->mlp.gated;
    dense.bias = layer->mlp.bias;
    dense.ffn = letter == '-' ? e->dense_ffn : 0;
    layer->norms = 1;
    if (letter == 'M') {
        layer->attention = e->linear;
    } else if (letter != '*') {
        memset(&layer->attention, 0, sizeof layer->attention);
        layer->attention.kind = ORR_ATTENTION_NONE;
    }
    if (letter != 'E') {
        layer->mlp = dense;
    }
}

static orr_status add_layers(orr_draft *draft, entry *e, orr_err *err) {
    const char *mixers = NULL;
    uint32_t full_every = 0;
    uint32_t window = 0;
    if (orr_tree_kind_of(e->hybrid) == ORR_TREE_MAP) {
        ORR_TRY(read_linear(e, draft->model.layers, &mixers, err));
        ORR_TRY(orr_key_u32(e->hybrid, ORR_KEYS("full_attention_every"), ORR_MAX_LAYERS,
                            &full_every, err));
    }
    const char *windowed = mention(e, "sliding window ");
    if (windowed != NULL && mention(e, "every other layer") != NULL) {
        for (; *windowed >= '0' && *windowed <= '9' && window < ORR_MAX_SEQ / 10; windowed++) {
            window = window * 10 + (uint32_t)(*windowed - '0');
        }
    }
    for (uint32_t i = 0; i < draft->model.layers; i++) {
        orr_layer layer = e->base;
        bool moe =
            layer.mlp.experts > 0 && i >= e->first_dense && e->every > 0 && (i + 1) % e->every == 0;
        layer.attention.window = i % 2 == 0 ? window : 0;
        if (mixers != NULL) {
            make_half(e, mixers[i], &layer);
        } else if (!moe) {
            make_half(e, '-', &layer);
            layer.norms = e->base.norms;
            layer.attention = e->base.attention;
            layer.attention.window = i % 2 == 0 ? window : 0;
        }
        if (full_every > 0 && (i + 1) % full_every != 0) {
            layer.attention = e->linear;
        }
        ORR_TRY(orr_draft_add(draft, &layer, err));
    }
    return ORR_OK;
}

orr_status orr_model_read_measured(orr_arena *arena, const char *name, const orr_tree *file,
                                   orr_model **out, orr_err *err) {
    entry e = {.map = file,
               .moe = orr_tree_get(file, "moe"),
               .hybrid = orr_tree_get(file, "hybrid"),
               .notes = orr_tree_text(orr_tree_get(file, "notes"), ""),
               .position = orr_tree_text(orr_tree_get(file, "position_embedding"), "rope"),
               .every = 1};
    uint32_t layers = 0;
    uint32_t hidden = 0;
    ORR_TRY(need(&e, "num_layers", ORR_MAX_LAYERS, &layers, err));
    ORR_TRY(need(&e, "hidden_size", ORR_MAX_WIDTH, &hidden, err));
    e.base = orr_layer_default(hidden);
    ORR_TRY(orr_key_u32(file, ORR_KEYS("ffn_hidden_size"), ORR_MAX_WIDTH, &e.dense_ffn, err));
    ORR_TRY(read_attention(&e, err));
    ORR_TRY(read_style(&e, err));
    if (orr_tree_kind_of(e.moe) == ORR_TREE_MAP) {
        ORR_TRY(read_moe(&e, err));
    } else {
        e.base.mlp.ffn = e.dense_ffn;
        ORR_TRY(need(&e, "ffn_hidden_size", ORR_MAX_WIDTH, &e.base.mlp.ffn, err));
    }
    orr_draft draft;
    ORR_TRY(orr_draft_start(&draft, arena, file, layers, err));
    ORR_TRY(read_model(&e, &draft.model, err));
    ORR_TRY(add_layers(&draft, &e, err));
    return orr_draft_finish(&draft, name,
                            orr_tree_text(orr_tree_get(file, "source"), "models.json"), out, err);
}
