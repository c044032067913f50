/* Hugging Face config.json. Families share most keys under two or three spellings; what a family
 * leaves unsaid stands in hf_family.c, what differs between layers in hf_layers.c. */
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "model/hf_family.h"
#include "model/hf_int.h"

/* Some configs nest the text model, some nest attention and MLP: one flat map for all. */
static const orr_tree *flatten(orr_arena *arena, const orr_tree *file) {
    const orr_tree *text = orr_tree_get(file, "text_config");
    const orr_tree *base = orr_tree_kind_of(text) == ORR_TREE_MAP ? text : file;
    static const char *const nested[] = {"attn_config", "ffn_config"};
    const orr_tree *flat = base;
    for (size_t n = 0; n < sizeof nested / sizeof *nested; n++) {
        const orr_tree *inner = orr_tree_get(base, nested[n]);
        if (orr_tree_kind_of(inner) != ORR_TREE_MAP) {
            continue;
        }
        orr_tree *merged = orr_tree_new_map(arena);
        orr_tree_set_span(merged, orr_tree_span(base));
        for (size_t i = 0; i < orr_tree_size(inner); i++) {
            orr_tree_put(arena, merged, orr_tree_key(inner, i),
                         orr_tree_copy(arena, orr_tree_at(inner, i)));
        }
        for (size_t i = 0; i < orr_tree_size(flat); i++) {
            orr_tree_put(arena, merged, orr_tree_key(flat, i),
                         orr_tree_copy(arena, orr_tree_at(flat, i)));
        }
        flat = merged;
    }
    return flat;
}

static orr_status read_type(const orr_tree *file, const orr_tree *map, const orr_hf_family **family,
                            orr_err *err) {
    const orr_tree *node = orr_tree_get(map, "model_type");
    node = node == NULL ? orr_tree_get(file, "model_type") : node;
    const char *type = orr_tree_text(node, NULL);
    if (type == NULL) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(node == NULL ? file : node),
                           "the config lacks \"model_type\", which says how to read it");
    }
    *family = orr_hf_family_find(type, orr_tree_span(node), err);
    return *family == NULL ? ORR_E_NAME : ORR_OK;
}

static orr_status require(const orr_tree *map, const char *const *keys, uint32_t max,
                          uint32_t *value, orr_err *err) {
    if (orr_key_find(map, keys, NULL) == NULL) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(map), "the config lacks \"%s\"",
                           keys[0]);
    }
    ORR_TRY(orr_key_u32(map, keys, max, value, err));
    if (*value == 0) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(orr_key_find(map, keys, NULL)),
                           "\"%s\" is 0, expected at least 1", keys[0]);
    }
    return ORR_OK;
}

static bool has(const orr_hf_family *family, uint32_t flag) {
    return (family->flags & flag) != 0;
}

/* ---- attention ------------------------------------------------------------------------------ */

static orr_status read_kv_heads(const orr_tree *map, orr_attention *a, orr_err *err) {
    uint8_t multi_query = 0;
    uint8_t grouped = 0;
    a->kv_heads = a->heads;
    ORR_TRY(orr_key_flag(map, ORR_KEYS("multi_query"), &multi_query, err));
    /* Falcon: multi_query counts only in the old architecture; the new one states its groups. */
    ORR_TRY(orr_key_flag(map, ORR_KEYS("new_decoder_architecture"), &grouped, err));
    if (multi_query && !grouped) {
        a->kv_heads = 1;
        return ORR_OK;
    }
    return orr_key_u32(map,
                       ORR_KEYS("num_key_value_heads", "num_kv_heads", "multi_query_group_num",
                                "kv_n_heads", "num_attention_groups"),
                       UINT16_MAX, &a->kv_heads, err);
}

static orr_status read_bias(const orr_tree *map, const orr_hf_family *family, orr_layer *layer,
                            orr_err *err) {
    orr_attention *a = &layer->attention;
    a->bias_qkv = has(family, ORR_HF_BIAS_QKV);
    a->bias_out = has(family, ORR_HF_BIAS_OUT);
    layer->mlp.bias = has(family, ORR_HF_BIAS_MLP);
    uint8_t all = 2;
    ORR_TRY(orr_key_flag(map, ORR_KEYS("use_bias", "bias", "add_bias_linear"), &all, err));
    if (all != 2) {
        a->bias_qkv = a->bias_out = layer->mlp.bias = all;
    }
    uint8_t attention = 2;
    ORR_TRY(orr_key_flag(map, ORR_KEYS("attention_bias"), &attention, err));
    if (attention != 2) {
        a->bias_qkv = attention;
        a->bias_out = has(family, ORR_HF_OUT_NO_BIAS) ? 0 : attention;
    }
    ORR_TRY(
        orr_key_flag(map, ORR_KEYS("qkv_bias", "use_qkv_bias", "add_qkv_bias"), &a->bias_qkv, err));
    ORR_TRY(orr_key_flag(map, ORR_KEYS("attention_out_bias"), &a->bias_out, err));
    return orr_key_flag(map, ORR_KEYS("mlp_bias"), &layer->mlp.bias, err);
}

static orr_status read_qk_norm(const orr_tree *map, const orr_hf_family *family, orr_attention *a,
                               orr_err *err) {
    uint8_t wanted = has(family, ORR_HF_QK_NORM | ORR_HF_QK_NORM_ALL);
    ORR_TRY(orr_key_flag(map, ORR_KEYS("use_qk_norm", "qk_layernorm", "qk_norm"), &wanted, err));
    bool whole = has(family, ORR_HF_QK_NORM_ALL | ORR_HF_QK_PER_HEAD);
    a->qk_norm = !wanted || has(family, ORR_HF_QK_BARE) ? ORR_QK_NORM_NONE
                 : whole                                ? ORR_QK_NORM_ALL
                                                        : ORR_QK_NORM_HEAD;
    return ORR_OK;
}

static orr_status read_mla(const orr_tree *map, orr_attention *a, orr_err *err) {
    uint32_t nope = 0;
    a->kind = ORR_ATTENTION_MLA;
    a->kv_heads = a->heads;
    ORR_TRY(require(map, ORR_KEYS("kv_lora_rank"), ORR_MAX_WIDTH, &a->kv_lora, err));
    ORR_TRY(orr_key_u32(map, ORR_KEYS("q_lora_rank"), ORR_MAX_WIDTH, &a->q_lora, err));
    ORR_TRY(require(map, ORR_KEYS("qk_nope_head_dim"), UINT16_MAX, &nope, err));
    ORR_TRY(require(map, ORR_KEYS("qk_rope_head_dim"), UINT16_MAX, &a->rope_dim, err));
    ORR_TRY(require(map, ORR_KEYS("v_head_dim"), UINT16_MAX, &a->v_dim, err));
    a->head_dim = nope + a->rope_dim;
    return ORR_OK;
}

static orr_status read_attention(const orr_tree *map, const orr_hf_family *family, orr_layer *layer,
                                 orr_err *err) {
    orr_attention *a = &layer->attention;
    a->causal = !has(family, ORR_HF_ENCODER);
    a->rope = family->position == ORR_POSITION_ROPE;
    a->sinks = has(family, ORR_HF_SINKS);
    a->output_gate = has(family, ORR_HF_OUTPUT_GATE);
    ORR_TRY(require(map, ORR_KEYS("num_attention_heads", "n_head", "n_heads", "num_heads"),
                    UINT16_MAX, &a->heads, err));
    if (orr_key_find(map, ORR_KEYS("kv_lora_rank"), NULL) != NULL) {
        return read_mla(map, a, err);
    }
    ORR_TRY(read_kv_heads(map, a, err));
    ORR_TRY(read_qk_norm(map, family, a, err));
    const char *const *keys = ORR_KEYS("head_dim", "kv_channels", "attention_head_dim");
    if (orr_key_find(map, keys, NULL) == NULL && layer->hidden % a->heads != 0) {
        return orr_fail_at(err, ORR_E_CONFLICT, orr_tree_span(map),
                           "hidden width %u does not divide into %u heads, and no \"head_dim\" is "
                           "given",
                           layer->hidden, a->heads);
    }
    a->head_dim = layer->hidden / a->heads;
    ORR_TRY(orr_key_u32(map, keys, UINT16_MAX, &a->head_dim, err));
    a->v_dim = a->head_dim;
    return orr_key_u32(map, ORR_KEYS("v_head_dim"), UINT16_MAX, &a->v_dim, err);
}

/* ---- MLP ------------------------------------------------------------------------------------ */

static orr_status read_ffn(const orr_tree *map, const orr_hf_family *family, uint32_t hidden,
                           uint32_t *ffn, orr_err *err) {
    const char *const *keys =
        ORR_KEYS("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "inner_hidden_size");
    const orr_tree *ratio = orr_tree_get(map, "expansion_ratio");
    if (orr_key_find(map, keys, NULL) != NULL) {
        ORR_TRY(orr_key_u32(map, keys, ORR_MAX_WIDTH, ffn, err));
    } else if (orr_tree_int(ratio, 0) > 0 && orr_tree_int(ratio, 0) <= 64) {
        *ffn = (uint32_t)orr_tree_int(ratio, 0) * hidden;
    } else if (has(family, ORR_HF_FFN_4H)) {
        *ffn = 4 * hidden;
    }
    *ffn /= has(family, ORR_HF_HALF_FFN) ? 2 : 1;
    return ORR_OK;
}

static orr_status read_router(const orr_tree *map, const orr_hf_family *family, orr_mlp *m,
                              orr_err *err) {
    m->router = family->router;
    m->router_bias = has(family, ORR_HF_ROUTER_BIAS);
    m->shared_gate = has(family, ORR_HF_SHARED_GATE);
    const char *scoring = orr_tree_text(orr_tree_get(map, "scoring_func"), "");
    if (orr_name_equal(scoring, "sigmoid")) {
        m->router = ORR_ROUTER_SIGMOID;
    } else if (orr_name_equal(scoring, "softmax")) {
        m->router = ORR_ROUTER_SOFTMAX_BEFORE;
    }
    const char *method = orr_tree_text(orr_tree_get(map, "topk_method"), NULL);
    if (method != NULL) {
        m->router_bias = orr_name_equal(method, "noaux_tc");
    }
    ORR_TRY(orr_key_flag(map, ORR_KEYS("use_routing_bias"), &m->router_bias, err));
    m->aux_loss = !m->router_bias;
    ORR_TRY(orr_key_u32(map, ORR_KEYS("n_group"), ORR_MAX_EXPERTS, &m->groups, err));
    ORR_TRY(orr_key_u32(map, ORR_KEYS("topk_group"), ORR_MAX_EXPERTS, &m->group_topk, err));
    if (m->groups <= 1) {
        m->groups = m->group_topk = 0;
    }
    return ORR_OK;
}

static orr_status read_shared(const orr_tree *map, const orr_hf_family *family, orr_mlp *m,
                              orr_err *err) {
    uint32_t count = has(family, ORR_HF_SHARED_ONE) ? 1 : 0;
    uint32_t width = 0;
    ORR_TRY(orr_key_u32(map,
                        ORR_KEYS("n_shared_experts", "num_shared_experts", "num_shared_expert",
                                 "moe_num_shared_experts"),
                        ORR_MAX_EXPERTS, &count, err));
    ORR_TRY(orr_key_u32(map,
                        ORR_KEYS("shared_expert_intermediate_size", "shared_intermediate_size",
                                 "moe_shared_expert_intermediate_size"),
                        ORR_MAX_WIDTH, &width, err));
    uint64_t total = width > 0 ? width : (uint64_t)count * m->expert_ffn;
    if (total > ORR_MAX_WIDTH) {
        return orr_fail_at(err, ORR_E_LIMIT, orr_tree_span(map),
                           "the shared experts are %llu wide in all, expected at most %d",
                           (unsigned long long)total, ORR_MAX_WIDTH);
    }
    m->shared_ffn = (uint32_t)total;
    m->shared_gate = m->shared_gate && m->shared_ffn > 0;
    return ORR_OK;
}

static orr_status read_mlp(const orr_tree *map, const orr_hf_family *family, orr_layer *layer,
                           uint32_t *dense_ffn, orr_err *err) {
    orr_mlp *m = &layer->mlp;
    m->gated = has(family, ORR_HF_GATED);
    m->activation = family->activation;
    const orr_tree *word = orr_key_find(
        map, ORR_KEYS("hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act"),
        NULL);
    if (word != NULL) {
        ORR_TRY(orr_activation_parse(word, &m->activation, &m->gated, err));
    }
    ORR_TRY(read_ffn(map, family, layer->hidden, dense_ffn, err));
    uint32_t experts = 0;
    ORR_TRY(orr_key_u32(map,
                        ORR_KEYS("num_local_experts", "n_routed_experts", "num_experts",
                                 "moe_num_experts", "num_moe_experts"),
                        ORR_MAX_EXPERTS, &experts, err));
    if (experts <= 1) {
        m->ffn = *dense_ffn;
        return ORR_OK;
    }
    m->experts = experts;
    const char *const *topk =
        ORR_KEYS("num_experts_per_tok", "num_experts_per_token", "moe_top_k", "moe_topk", "moe_k",
                 "top_k_experts", "num_selected_experts");
    m->topk = family->topk;
    if (m->topk == 0 || orr_key_find(map, topk, NULL) != NULL) {
        ORR_TRY(require(map, topk, ORR_MAX_EXPERTS, &m->topk, err));
    }
    m->expert_ffn = *dense_ffn;
    ORR_TRY(orr_key_u32(map, ORR_KEYS("moe_intermediate_size", "expert_ffn_hidden_size"),
                        ORR_MAX_WIDTH, &m->expert_ffn, err));
    ORR_TRY(orr_key_u32(map, ORR_KEYS("intermediate_size_mlp"), ORR_MAX_WIDTH, dense_ffn, err));
    ORR_TRY(orr_key_u32(map, ORR_KEYS("moe_latent_size"), ORR_MAX_WIDTH, &m->latent, err));
    ORR_TRY(read_router(map, family, m, err));
    return read_shared(map, family, m, err);
}

/* ---- the model ------------------------------------------------------------------------------ */

static orr_status read_positions(const orr_tree *map, const orr_hf_family *family, orr_model *model,
                                 orr_err *err) {
    model->position = family->position;
    ORR_TRY(orr_key_u32(map,
                        ORR_KEYS("max_position_embeddings", "n_positions", "max_seq_len",
                                 "max_sequence_length", "seq_length", "n_ctx"),
                        ORR_MAX_SEQ, &model->max_seq, err));
    uint8_t alibi = 0;
    ORR_TRY(orr_key_flag(map, ORR_KEYS("alibi"), &alibi, err));
    if (alibi) {
        model->position = ORR_POSITION_ALIBI;
    } else if (orr_tree_get(map, "alibi") != NULL && model->position == ORR_POSITION_ALIBI) {
        model->position = ORR_POSITION_LEARNED;
    }
    if (model->position == ORR_POSITION_LEARNED) {
        model->max_seq += family->extra_positions;
    }
    return ORR_OK;
}

static orr_status read_scalars(const orr_tree *file, const orr_tree *map,
                               const orr_hf_family *family, orr_model *model, orr_err *err) {
    model->norm = family->norm;
    model->norm_bare = family->norm_bare;
    model->embedding_norm = has(family, ORR_HF_EMBED_NORM);
    model->head_bias = has(family, ORR_HF_HEAD_BIAS);
    model->encoder = has(family, ORR_HF_ENCODER);
    model->token_types = family->token_types;
    model->tied = has(family, ORR_HF_TIED);
    ORR_TRY(require(map, ORR_KEYS("hidden_size", "n_embd", "d_model", "n_embed"), ORR_MAX_WIDTH,
                    &model->hidden, err));
    ORR_TRY(require(map, ORR_KEYS("vocab_size", "padded_vocab_size"), ORR_MAX_VOCAB, &model->vocab,
                    err));
    ORR_TRY(orr_key_flag(file, ORR_KEYS("tie_word_embeddings"), &model->tied, err));
    ORR_TRY(orr_key_flag(map, ORR_KEYS("tie_word_embeddings"), &model->tied, err));
    ORR_TRY(orr_key_flag(map, ORR_KEYS("lm_head_bias"), &model->head_bias, err));
    uint32_t mtp = 0;
    ORR_TRY(
        orr_key_u32(map, ORR_KEYS("num_nextn_predict_layers", "num_mtp_modules"), 16, &mtp, err));
    model->mtp_layers = (uint8_t)mtp;
    return read_positions(map, family, model, err);
}

static orr_status read_layer(const orr_tree *map, const orr_hf_family *family, orr_layer *layer,
                             uint32_t *dense_ffn, orr_err *err) {
    layer->norm = family->norm;
    layer->norm_bare = family->norm_bare;
    layer->parallel_block = has(family, ORR_HF_PARALLEL);
    layer->norms = has(family, ORR_HF_NORMS_4) ? 4 : has(family, ORR_HF_NORMS_1) ? 1 : 2;
    uint8_t flag = layer->parallel_block;
    ORR_TRY(orr_key_flag(map, ORR_KEYS("parallel_attn", "use_parallel_residual"), &flag, err));
    if (flag != layer->parallel_block) {
        layer->parallel_block = flag;
        layer->norms = 2;
    }
    uint8_t grouped = 0;
    ORR_TRY(orr_key_flag(map, ORR_KEYS("new_decoder_architecture"), &grouped, err));
    if (grouped) {
        layer->norms = 2; /* Falcon 40B and 180B norm the two branches apart */
    }
    ORR_TRY(read_attention(map, family, layer, err));
    ORR_TRY(read_bias(map, family, layer, err));
    return read_mlp(map, family, layer, dense_ffn, err);
}

/* Keys that change what the model is and that nothing here knows. */
static orr_status refuse_unknown_shapes(const orr_tree *map, orr_err *err) {
    static const struct {
        const char *key, *what;
    } foreign[] = {
        {"encoder_layers", "an encoder and a decoder"},
        {"num_decoder_layers", "an encoder and a decoder"},
        {"is_encoder_decoder", "an encoder and a decoder"},
        {"index_topk", "an indexer that picks the keys of attention"},
        {"use_cla", "keys and values shared between layers"},
    };
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        const orr_tree *node = orr_tree_get(map, foreign[i].key);
        if (orr_tree_kind_of(node) == ORR_TREE_INT || orr_tree_bool(node, false)) {
            (void)orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(node),
                              "\"%s\": models with %s are not supported", foreign[i].key,
                              foreign[i].what);
            orr_hint(err, "an own model card (docs/model-card.md) may come near");
            return ORR_E_SCHEMA;
        }
    }
    return ORR_OK;
}

static const char *name_of(orr_arena *arena, const orr_tree *file, const char *fallback_name) {
    const char *path = orr_tree_text(orr_tree_get(file, "_name_or_path"), "");
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    if (fallback_name != NULL && !orr_name_equal(fallback_name, "config")) {
        return fallback_name;
    }
    return name[0] == '\0' ? "model" : orr_arena_text(arena, name);
}

orr_status orr_model_read_hf(orr_arena *arena, const orr_tree *file, const char *fallback_name,
                             orr_model **out, orr_err *err) {
    const orr_tree *map = flatten(arena, file);
    const orr_hf_family *family = NULL;
    ORR_TRY(read_type(file, map, &family, err));
    ORR_TRY(refuse_unknown_shapes(map, err));
    uint32_t layers = 0;
    ORR_TRY(require(map, ORR_KEYS("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
                    ORR_MAX_LAYERS, &layers, err));
    orr_draft draft;
    ORR_TRY(orr_draft_start(&draft, arena, map, layers, err));
    ORR_TRY(read_scalars(file, map, family, &draft.model, err));
    orr_layer layer = orr_layer_default(draft.model.hidden);
    uint32_t dense_ffn = 0;
    if (has(family, ORR_HF_MIXERS)) {
        ORR_TRY(orr_hf_read_mamba(map, &layer.attention, err));
    } else {
        ORR_TRY(read_layer(map, family, &layer, &dense_ffn, err));
    }
    ORR_TRY(orr_hf_add_layers(&draft, map, family, &layer, dense_ffn, err));
    const char *source = orr_tree_span(file).file;
    return orr_draft_finish(&draft, name_of(arena, file, fallback_name),
                            source == NULL ? "config.json" : source, out, err);
}
