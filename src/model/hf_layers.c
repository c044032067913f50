/* Which layer of a config.json stands where: dense or MoE, windowed, without rope, linear. Rules
 * are keyed by the key that states them, whatever family it comes from. */
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "model/hf_int.h"

typedef struct pattern {
    const orr_tree *map;
    const orr_hf_family *family;
    const orr_layer *base;
    uint32_t dense_ffn, layers;
    /* MLP */
    uint32_t first_dense, every, from, to;
    const orr_tree *moe_list; /* flags or indices of the MoE layers */
    const orr_tree *dense_list;
    bool moe_listed_by_index;
    /* attention */
    uint32_t window, chunk, full_every, window_from, nope_every, linear_but_every;
    const orr_tree *types, *nope_list, *linear_list;
    const char *mixers; /* one letter a layer */
    orr_attention linear;
} pattern;

static orr_status check_list(const orr_tree *list, const char *what, uint32_t layers,
                             orr_err *err) {
    if (list != NULL && (orr_tree_kind_of(list) != ORR_TREE_LIST || orr_tree_size(list) < layers)) {
        return orr_fail_at(err, ORR_E_CONFLICT, orr_tree_span(list),
                           "\"%s\" must list one entry for each of the %u layers", what, layers);
    }
    return ORR_OK;
}

static const orr_tree *find_list(const orr_tree *map, const char *key) {
    const orr_tree *node = orr_tree_get(map, key);
    return orr_tree_kind_of(node) == ORR_TREE_LIST ? node : NULL;
}

static bool holds_index(const orr_tree *list, uint32_t index) {
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        if (orr_tree_int(orr_tree_at(list, i), -1) == index) {
            return true;
        }
    }
    return false;
}

/* ---- reading the rules ---------------------------------------------------------------------- */

static orr_status read_mlp_rules(pattern *p, orr_err *err) {
    const orr_tree *map = p->map;
    p->every = 1;
    p->to = p->layers;
    ORR_TRY(orr_key_u32(map, ORR_KEYS("first_k_dense_replace", "moe_layer_start_index"),
                        ORR_MAX_LAYERS, &p->first_dense, err));
    const orr_tree *freq = orr_tree_get(map, "moe_layer_freq");
    if (orr_tree_kind_of(freq) == ORR_TREE_LIST) {
        ORR_TRY(check_list(freq, "moe_layer_freq", p->layers, err));
        p->moe_list = freq;
    } else {
        ORR_TRY(orr_key_u32(map,
                            ORR_KEYS("decoder_sparse_step", "interleave_moe_layer_step",
                                     "moe_layer_interval", "moe_layer_freq"),
                            ORR_MAX_LAYERS, &p->every, err));
    }
    if (find_list(map, "moe_layers") != NULL) {
        p->moe_list = find_list(map, "moe_layers");
        p->moe_listed_by_index = true;
    }
    p->dense_list = find_list(map, "mlp_only_layers");
    const orr_tree *last = orr_tree_get(map, "moe_layer_end_index");
    if (orr_tree_int(last, -1) >= 0) {
        uint32_t end = p->layers;
        ORR_TRY(orr_key_u32(map, ORR_KEYS("moe_layer_end_index"), ORR_MAX_LAYERS, &end, err));
        p->to = end < p->layers ? end + 1 : p->layers;
    }
    return ORR_OK;
}

/* A count, or its letters: "LLLG" is three local layers and a global one. */
static orr_status read_window_pattern(const orr_tree *map, uint32_t *every, orr_err *err) {
    const orr_tree *node = orr_tree_get(map, "sliding_window_pattern");
    const char *letters = orr_tree_text(node, NULL);
    if (letters == NULL) {
        return orr_key_u32(map, ORR_KEYS("sliding_window_pattern", "_sliding_window_pattern"),
                           ORR_MAX_LAYERS, every, err);
    }
    size_t local = strspn(letters, "L");
    if (local >= ORR_MAX_LAYERS || strcmp(letters + local, "G") != 0) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(node),
                           "\"sliding_window_pattern\" must be a count or letters such as LLLG");
    }
    *every = (uint32_t)local + 1;
    return ORR_OK;
}

static orr_status read_window_rules(pattern *p, orr_err *err) {
    const orr_tree *map = p->map;
    uint8_t wanted = 1;
    ORR_TRY(orr_key_flag(map, ORR_KEYS("use_sliding_window"), &wanted, err));
    ORR_TRY(orr_key_u32(map, ORR_KEYS("sliding_window"), ORR_MAX_SEQ, &p->window, err));
    ORR_TRY(orr_key_u32(map, ORR_KEYS("attention_chunk_size"), ORR_MAX_SEQ, &p->chunk, err));
    p->full_every = p->family->window_every;
    ORR_TRY(read_window_pattern(map, &p->full_every, err));
    bool stated = orr_tree_bool(orr_tree_get(map, "use_sliding_window"), false);
    ORR_TRY(orr_key_u32(map, ORR_KEYS("max_window_layers"), ORR_MAX_LAYERS, &p->window_from, err));
    if (!wanted || (p->full_every == 0 && !stated && (p->family->flags & ORR_HF_WINDOWED) == 0 &&
                    orr_tree_get(map, "layer_types") == NULL)) {
        p->window = 0;
    }
    p->nope_list = find_list(map, "no_rope_layers");
    ORR_TRY(check_list(p->nope_list, "no_rope_layers",
                       orr_tree_size(p->nope_list) == 0 ? 0 : p->layers, err));
    if (orr_tree_size(p->nope_list) == 0) {
        p->nope_list = NULL;
        p->nope_every = p->chunk > 0 ? 4 : 0;
        return orr_key_u32(map, ORR_KEYS("no_rope_layer_interval"), ORR_MAX_LAYERS, &p->nope_every,
                           err);
    }
    return ORR_OK;
}

orr_status orr_hf_read_mamba(const orr_tree *map, orr_attention *a, orr_err *err) {
    memset(a, 0, sizeof *a);
    a->kind = ORR_ATTENTION_LINEAR;
    a->linear = ORR_LINEAR_MAMBA2;
    a->causal = 1;
    a->kv_heads = 1;
    uint32_t conv = 4;
    ORR_TRY(orr_key_u32(map, ORR_KEYS("mamba_num_heads", "mamba_n_heads", "num_heads"), UINT16_MAX,
                        &a->heads, err));
    ORR_TRY(orr_key_u32(map, ORR_KEYS("mamba_head_dim", "mamba_d_head", "head_dim"), UINT16_MAX,
                        &a->v_dim, err));
    ORR_TRY(
        orr_key_u32(map, ORR_KEYS("n_groups", "mamba_n_groups"), UINT16_MAX, &a->kv_heads, err));
    ORR_TRY(orr_key_u32(map, ORR_KEYS("ssm_state_size", "mamba_d_state", "state_size"), UINT16_MAX,
                        &a->head_dim, err));
    ORR_TRY(orr_key_u32(map, ORR_KEYS("conv_kernel", "mamba_d_conv"), UINT8_MAX, &conv, err));
    a->conv = (uint8_t)conv;
    return ORR_OK;
}

static orr_status read_delta(const pattern *p, orr_attention *a, orr_err *err) {
    memset(a, 0, sizeof *a);
    a->kind = ORR_ATTENTION_LINEAR;
    a->linear = ORR_LINEAR_DELTA;
    a->causal = 1;
    a->heads = p->base->attention.heads; /* lightning attention: as wide as the softmax layers */
    a->kv_heads = a->heads;
    a->head_dim = a->v_dim = p->base->attention.head_dim;
    uint32_t conv = 0;
    ORR_TRY(orr_key_u32(p->map, ORR_KEYS("linear_num_value_heads"), UINT16_MAX, &a->heads, err));
    ORR_TRY(orr_key_u32(p->map, ORR_KEYS("linear_num_key_heads"), UINT16_MAX, &a->kv_heads, err));
    ORR_TRY(orr_key_u32(p->map, ORR_KEYS("linear_key_head_dim"), UINT16_MAX, &a->head_dim, err));
    ORR_TRY(orr_key_u32(p->map, ORR_KEYS("linear_value_head_dim"), UINT16_MAX, &a->v_dim, err));
    ORR_TRY(orr_key_u32(p->map, ORR_KEYS("linear_conv_kernel_dim"), UINT8_MAX, &conv, err));
    a->conv = (uint8_t)conv;
    return ORR_OK;
}

static orr_status read_linear_rules(pattern *p, orr_err *err) {
    const orr_tree *map = p->map;
    p->types = find_list(map, "layer_types");
    ORR_TRY(check_list(p->types, "layer_types", p->layers, err));
    p->linear_list = find_list(map, "attn_type_list");
    ORR_TRY(check_list(p->linear_list, "attn_type_list", p->layers, err));
    ORR_TRY(orr_key_u32(map, ORR_KEYS("full_attention_interval"), ORR_MAX_LAYERS,
                        &p->linear_but_every, err));
    p->mixers = orr_tree_text(orr_tree_get(map, "hybrid_override_pattern"), NULL);
    bool mamba = p->mixers != NULL || orr_tree_get(map, "mamba_n_heads") != NULL;
    ORR_TRY(mamba ? orr_hf_read_mamba(map, &p->linear, err) : read_delta(p, &p->linear, err));
    if (p->mixers != NULL && strlen(p->mixers) != p->layers) {
        return orr_fail_at(err, ORR_E_CONFLICT,
                           orr_tree_span(orr_tree_get(map, "hybrid_override_pattern")),
                           "\"hybrid_override_pattern\" has %zu letters for %u layers",
                           strlen(p->mixers), p->layers);
    }
    return ORR_OK;
}

/* ---- applying them -------------------------------------------------------------------------- */

static bool is_moe(const pattern *p, uint32_t i) {
    if (p->base->mlp.experts == 0 || i < p->first_dense || i >= p->to ||
        holds_index(p->dense_list, i)) {
        return false;
    }
    if (p->moe_list != NULL && p->moe_listed_by_index) {
        return holds_index(p->moe_list, i);
    }
    if (p->moe_list != NULL) {
        return orr_tree_int(orr_tree_at(p->moe_list, i), 0) != 0;
    }
    return p->every > 0 && (i + 1) % p->every == 0;
}

static void make_dense(orr_mlp *m, uint32_t ffn) {
    orr_mlp dense;
    memset(&dense, 0, sizeof dense);
    dense.activation = m->activation;
    dense.gated = m->gated;
    dense.bias = m->bias;
    dense.ffn = ffn;
    *m = dense;
}

static void make_no_attention(orr_attention *a) {
    memset(a, 0, sizeof *a);
    a->kind = ORR_ATTENTION_NONE;
}

static orr_status apply_type(const pattern *p, uint32_t i, orr_attention *a, orr_err *err) {
    const orr_tree *node = orr_tree_at(p->types, i);
    const char *type = orr_tree_text(node, "");
    if (strcmp(type, "sliding_attention") == 0 || strcmp(type, "local_attention") == 0) {
        a->window = p->window;
    } else if (strcmp(type, "chunked_attention") == 0) {
        a->window = p->chunk;
    } else if (strcmp(type, "linear_attention") == 0 || strcmp(type, "mamba") == 0) {
        *a = p->linear;
    } else if (strcmp(type, "full_attention") != 0 && strcmp(type, "attention") != 0 &&
               strcmp(type, "global_attention") != 0) {
        return orr_fail_at(err, ORR_E_NAME, orr_tree_span(node),
                           "unknown layer type \"%.60s\", expected full_attention, "
                           "sliding_attention, chunked_attention, linear_attention or mamba",
                           type);
    }
    return ORR_OK;
}

static orr_status apply_attention(const pattern *p, uint32_t i, orr_attention *a, orr_err *err) {
    bool nope = p->nope_list != NULL ? orr_tree_int(orr_tree_at(p->nope_list, i), 1) == 0
                                     : p->nope_every > 0 && (i + 1) % p->nope_every == 0;
    if (nope) {
        a->rope = 0;
    }
    if (p->types != NULL) {
        return apply_type(p, i, a, err);
    }
    bool listed = p->linear_list != NULL && orr_tree_int(orr_tree_at(p->linear_list, i), 1) == 0;
    bool counted = p->linear_but_every > 0 && (i + 1) % p->linear_but_every != 0;
    if (listed || counted) {
        *a = p->linear;
    } else if (p->chunk > 0) {
        a->window = nope ? 0 : p->chunk;
    } else if (p->full_every > 0) {
        a->window = (i + 1) % p->full_every == 0 ? 0 : p->window;
    } else {
        a->window = i >= p->window_from ? p->window : 0;
    }
    return ORR_OK;
}

/* One letter a layer, each layer one half. */
static orr_status apply_mixer(const pattern *p, uint32_t i, orr_layer *layer, orr_err *err) {
    layer->norms = 1;
    switch (p->mixers[i]) {
    case 'M':
        layer->attention = p->linear;
        make_dense(&layer->mlp, 0);
        return ORR_OK;
    case '*': make_dense(&layer->mlp, 0); return ORR_OK;
    case '-':
        make_no_attention(&layer->attention);
        make_dense(&layer->mlp, p->dense_ffn);
        return ORR_OK;
    case 'E': make_no_attention(&layer->attention); return ORR_OK;
    default:
        return orr_fail_at(
            err, ORR_E_SCHEMA, orr_tree_span(orr_tree_get(p->map, "hybrid_override_pattern")),
            "\"hybrid_override_pattern\" holds '%c', expected M, E, - or *", p->mixers[i]);
    }
}

static orr_status make_layer(const pattern *p, uint32_t i, orr_layer *layer, orr_err *err) {
    *layer = *p->base;
    if (p->mixers != NULL) {
        return apply_mixer(p, i, layer, err);
    }
    if (!is_moe(p, i)) {
        make_dense(&layer->mlp, p->dense_ffn);
    }
    if (layer->attention.kind == ORR_ATTENTION_LINEAR) { /* nothing but mixers */
        layer->norms = 1;
        return ORR_OK;
    }
    return apply_attention(p, i, &layer->attention, err);
}

orr_status orr_hf_add_layers(orr_draft *draft, const orr_tree *map, const orr_hf_family *family,
                             const orr_layer *base, uint32_t dense_ffn, orr_err *err) {
    pattern p = {.map = map,
                 .family = family,
                 .base = base,
                 .dense_ffn = dense_ffn,
                 .layers = draft->model.layers};
    ORR_TRY(read_mlp_rules(&p, err));
    ORR_TRY(read_window_rules(&p, err));
    ORR_TRY(read_linear_rules(&p, err));
    for (uint32_t i = 0; i < p.layers; i++) {
        orr_layer layer;
        ORR_TRY(make_layer(&p, i, &layer, err));
        ORR_TRY(orr_draft_add(draft, &layer, err));
    }
    return ORR_OK;
}
