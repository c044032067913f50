/* Own model cards: the fields of a layer once, variations under `kinds`, their order in `pattern`
 * (docs/model-card.md). One table reads and writes both levels. */
#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "doc/catalog.h"
#include "doc/doc.h"
#include "model/model_int.h"

static const orr_catalog catalog = {"models", "model"};

/* A card as it is read: numbers that a model holds in a byte are wider here. */
typedef struct card {
    orr_layer layer;
    uint32_t norms, conv;
    const char *name, *source, *notes, *like;
    uint32_t layers, vocab, max_seq, mtp_layers, token_types;
    uint8_t position, tied, embedding_norm, head_bias, encoder, assumed;
    const orr_tree *kinds, *pattern;
} card;

static const char *const attention_words[] = {"gqa", "mla", "linear", "none", NULL};
static const char *const qk_norm_words[] = {"none", "head", "all", NULL};
static const char *const linear_words[] = {"delta", "mamba2", NULL};
static const char *const norm_words[] = {"rms", "layer", NULL};
static const char *const bare_words[] = {"weight_and_bias", "weight", "none", NULL};
static const char *const activation_words[] = {"silu", "gelu", "relu", "relu2", NULL};
static const char *const router_words[] = {"softmax_after", "softmax_before", "sigmoid", NULL};
static const char *const position_words[] = {"rope", "learned", "alibi", "none", NULL};

/* "" keeps what the struct holds: the defaults set below, or the layer that a kind starts from. */
#define FIELD(name_, type_, member_, max_, doc_)                                                   \
    {.name = name_,                                                                                \
     .type = type_,                                                                                \
     .offset = offsetof(card, member_),                                                            \
     .max = max_,                                                                                  \
     .fallback = "",                                                                               \
     .doc = doc_}
#define WORD(name_, member_, values_, doc_)                                                        \
    {.name = name_,                                                                                \
     .type = ORR_FIELD_ENUM,                                                                       \
     .offset = offsetof(card, member_),                                                            \
     .values = values_,                                                                            \
     .fallback = "",                                                                               \
     .doc = doc_}
#define FLAG(name_, member_, doc_) FIELD(name_, ORR_FIELD_BOOL, member_, 0, doc_)
#define COUNT(name_, member_, max_, doc_) FIELD(name_, ORR_FIELD_U32, member_, max_, doc_)

static const orr_field fields[] = {
    WORD("attention", layer.attention.kind, attention_words, "Kind of attention."),
    COUNT("heads", layer.attention.heads, UINT16_MAX, "Query heads (linear: value heads)."),
    COUNT("kv_heads", layer.attention.kv_heads, UINT16_MAX,
          "Key-value heads; as many as heads when not given (Mamba: groups)."),
    COUNT("head_dim", layer.attention.head_dim, UINT16_MAX,
          "Width of a query or key head; hidden / heads when not given (linear: key width)."),
    COUNT("v_dim", layer.attention.v_dim, UINT16_MAX, "Width of a value head; else head_dim."),
    COUNT("window", layer.attention.window, ORR_MAX_SEQ, "Tokens that a query sees; 0: all."),
    COUNT("q_lora", layer.attention.q_lora, ORR_MAX_WIDTH, "MLA: rank of queries; 0: none."),
    COUNT("kv_lora", layer.attention.kv_lora, ORR_MAX_WIDTH, "MLA: rank of keys and values."),
    COUNT("rope_dim", layer.attention.rope_dim, UINT16_MAX, "MLA: rotary part of a head."),
    FLAG("causal", layer.attention.causal, "Tokens see only earlier ones."),
    FLAG("rope", layer.attention.rope, "Rotary positions are applied to queries and keys."),
    WORD("qk_norm", layer.attention.qk_norm, qk_norm_words, "Norm of queries and keys."),
    FLAG("bias_qkv", layer.attention.bias_qkv, "The query, key and value projections have biases."),
    FLAG("bias_out", layer.attention.bias_out, "The output projection has a bias."),
    FLAG("sinks", layer.attention.sinks, "Learned attention sinks, one a head."),
    FLAG("output_gate", layer.attention.output_gate, "An elementwise gate on attention's output."),
    WORD("linear", layer.attention.linear, linear_words, "Kind of linear attention."),
    COUNT("conv", conv, UINT8_MAX, "Linear: width of the depthwise convolution."),
    WORD("norm", layer.norm, norm_words, "Kind of norm."),
    WORD("norm_parameters", layer.norm_bare, bare_words, "What a LayerNorm learns."),
    COUNT("norms", norms, 8, "Norms of a layer."),
    FLAG("parallel_block", layer.parallel_block, "Attention and MLP read the same input."),
    WORD("activation", layer.mlp.activation, activation_words, "Activation of the MLP."),
    FLAG("gated", layer.mlp.gated, "The MLP has a gate beside its up projection."),
    FLAG("bias_mlp", layer.mlp.bias, "The MLP's projections have biases."),
    COUNT("ffn", layer.mlp.ffn, ORR_MAX_WIDTH, "Width of the dense MLP."),
    COUNT("experts", layer.mlp.experts, ORR_MAX_EXPERTS, "Routed experts; 0: dense."),
    COUNT("topk", layer.mlp.topk, ORR_MAX_EXPERTS, "Experts that a token chooses."),
    COUNT("expert_ffn", layer.mlp.expert_ffn, ORR_MAX_WIDTH, "Width of one routed expert."),
    COUNT("shared_ffn", layer.mlp.shared_ffn, ORR_MAX_WIDTH, "Width of all shared experts."),
    COUNT("groups", layer.mlp.groups, ORR_MAX_EXPERTS, "Expert groups; 0: none."),
    COUNT("group_topk", layer.mlp.group_topk, ORR_MAX_EXPERTS, "Groups that a token chooses."),
    COUNT("latent", layer.mlp.latent, ORR_MAX_WIDTH, "Width that routed experts work in."),
    WORD("router", layer.mlp.router, router_words, "How scores become weights."),
    FLAG("router_bias", layer.mlp.router_bias, "Aux-loss-free bias, a buffer without gradient."),
    FLAG("aux_loss", layer.mlp.aux_loss, "A balancing loss is computed."),
    FLAG("shared_gate", layer.mlp.shared_gate, "A learned gate on the shared expert."),
    /* from here on of the model, not of a layer */
    FIELD("name", ORR_FIELD_TEXT, name, 0, "Name of the model."),
    FIELD("source", ORR_FIELD_TEXT, source, 0, "Where the architecture was read."),
    FIELD("notes", ORR_FIELD_TEXT, notes, 0, "Remarks."),
    FIELD("like", ORR_FIELD_TEXT, like, 0, "Model that this one starts from."),
    COUNT("layers", layers, 0, "Layers."),
    COUNT("hidden", layer.hidden, ORR_MAX_WIDTH, "Hidden width."),
    COUNT("vocab", vocab, ORR_MAX_VOCAB, "Vocabulary, unpadded."),
    COUNT("max_seq", max_seq, ORR_MAX_SEQ, "Rows of a learned position table."),
    WORD("position", position, position_words, "How positions enter."),
    FLAG("tied", tied, "Embedding and head share one matrix."),
    FLAG("embedding_norm", embedding_norm, "A norm after the embedding."),
    FLAG("head_bias", head_bias, "The head has a bias."),
    FLAG("encoder", encoder, "Bidirectional, with a masked-language-model head."),
    COUNT("mtp_layers", mtp_layers, 16, "Multi-token-prediction depths."),
    COUNT("token_types", token_types, 255, "Rows of a token-type table."),
    FLAG("assumed", assumed, "Parts of it are not known for certain."),
    FIELD("kinds", ORR_FIELD_TREE, kinds, 0, "Variations of the layer, by name."),
    FIELD("pattern", ORR_FIELD_TREE, pattern, 0,
          "Order of the kinds, such as [dense*3, moe*58]; repeated to the number of layers."),
};
enum { LAYER_FIELDS = 37, FIELDS = sizeof fields / sizeof *fields };

static const orr_schema layer_schema = {"layer kind", fields, LAYER_FIELDS, false};
static const orr_schema card_schema = {"model card", fields, FIELDS, false};
static const orr_schema model_schema = {"model card", fields + LAYER_FIELDS, FIELDS - LAYER_FIELDS,
                                        false};

/* ---- reading -------------------------------------------------------------------------------- */

/* Fills what was not given and blanks what does not apply, so that equal layers are equal bytes. */
static orr_status settle_attention(const card *c, orr_span span, orr_attention *a, orr_err *err) {
    if (a->kind == ORR_ATTENTION_NONE) {
        memset(a, 0, sizeof *a);
        a->kind = ORR_ATTENTION_NONE;
        return ORR_OK;
    }
    if (a->head_dim == 0 && (a->heads == 0 || c->layer.hidden % a->heads != 0)) {
        return orr_fail_at(err, ORR_E_CONFLICT, span,
                           "hidden width %u does not divide into %u heads, and no head_dim is "
                           "given",
                           c->layer.hidden, a->heads);
    }
    a->head_dim = a->head_dim == 0 ? c->layer.hidden / a->heads : a->head_dim;
    a->kv_heads = a->kv_heads == 0 || a->kind == ORR_ATTENTION_MLA ? a->heads : a->kv_heads;
    a->v_dim = a->v_dim == 0 ? a->head_dim : a->v_dim;
    if (a->kind != ORR_ATTENTION_MLA) {
        a->q_lora = a->kv_lora = a->rope_dim = 0;
    }
    if (a->kind == ORR_ATTENTION_LINEAR) {
        a->conv = (uint8_t)c->conv;
        a->rope = a->qk_norm = a->sinks = a->output_gate = 0;
        a->window = 0;
    } else {
        a->linear = a->conv = 0;
    }
    return ORR_OK;
}

static void settle_mlp(orr_mlp *m) {
    if (m->experts > 0) {
        m->ffn = 0;
        return;
    }
    orr_mlp dense;
    memset(&dense, 0, sizeof dense);
    dense.activation = m->activation;
    dense.gated = m->gated;
    dense.bias = m->bias;
    dense.ffn = m->ffn;
    *m = dense;
}

static orr_status settle(const card *c, orr_span span, orr_layer *layer, orr_err *err) {
    *layer = c->layer;
    layer->norms = (uint8_t)c->norms;
    settle_mlp(&layer->mlp);
    return settle_attention(c, span, &layer->attention, err);
}

typedef struct run {
    const orr_tree *where;
    orr_layer layer;
    uint32_t count;
} run;

/* "name" or "name*count". */
static orr_status read_run(orr_arena *arena, const card *base, const orr_tree *node, run *out,
                           orr_err *err) {
    const char *text = orr_tree_text(node, NULL);
    if (text == NULL) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(node),
                           "a pattern lists names of kinds, such as \"moe\" or \"moe*58\"");
    }
    const char *star = strchr(text, '*');
    int64_t count = 1;
    if (star != NULL && (!orr_parse_int(star + 1, &count) || count < 1 || count > ORR_MAX_LAYERS)) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(node),
                           "\"%.60s\": expected a count from 1 to %d after '*'", text,
                           ORR_MAX_LAYERS);
    }
    size_t length = star == NULL ? strlen(text) : (size_t)(star - text);
    const char *name = orr_arena_copy(arena, text, length);
    const orr_tree *kind = orr_tree_get(base->kinds, name);
    if (orr_tree_kind_of(kind) != ORR_TREE_MAP) {
        return orr_fail_at(
            err, ORR_E_NAME, orr_tree_span(node),
            "the pattern names the kind \"%.60s\", which \"kinds\" does not describe", name);
    }
    card varied = *base;
    ORR_TRY(orr_schema_read(&layer_schema, arena, kind, &varied, NULL, err));
    out->where = node;
    out->count = (uint32_t)count;
    return settle(&varied, orr_tree_span(kind), &out->layer, err);
}

static orr_status add_pattern(orr_draft *draft, const card *c, orr_err *err) {
    size_t size = orr_tree_size(c->pattern);
    if (orr_tree_kind_of(c->pattern) != ORR_TREE_LIST || size == 0 || size > ORR_MAX_LAYERS) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(c->pattern),
                           "\"pattern\" must be a list of 1 to %d names of kinds", ORR_MAX_LAYERS);
    }
    run *runs = ORR_NEW_ARRAY(draft->arena, run, size);
    uint64_t total = 0;
    for (size_t i = 0; i < size; i++) {
        ORR_TRY(read_run(draft->arena, c, orr_tree_at(c->pattern, i), &runs[i], err));
        total += runs[i].count;
    }
    if (total > c->layers) {
        return orr_fail_at(err, ORR_E_CONFLICT, orr_tree_span(c->pattern),
                           "the pattern describes %llu layers, but the model has %u",
                           (unsigned long long)total, c->layers);
    }
    for (size_t i = 0; draft->added < c->layers; i = (i + 1) % size) {
        for (uint32_t k = 0; k < runs[i].count && draft->added < c->layers; k++) {
            ORR_TRY(orr_draft_add(draft, &runs[i].layer, err));
        }
    }
    return ORR_OK;
}

static orr_status add_layers(orr_draft *draft, const card *c, orr_err *err) {
    if (c->pattern != NULL) {
        return add_pattern(draft, c, err);
    }
    orr_layer layer;
    ORR_TRY(settle(c, draft->span, &layer, err));
    for (uint32_t i = 0; i < c->layers; i++) {
        ORR_TRY(orr_draft_add(draft, &layer, err));
    }
    return ORR_OK;
}

static void copy_scalars(const card *c, orr_model *model) {
    model->hidden = c->layer.hidden;
    model->vocab = c->vocab;
    model->max_seq = c->max_seq;
    model->position = c->position;
    model->norm = c->layer.norm;
    model->norm_bare = c->layer.norm_bare;
    model->tied = c->tied;
    model->embedding_norm = c->embedding_norm;
    model->head_bias = c->head_bias;
    model->encoder = c->encoder;
    model->mtp_layers = (uint8_t)c->mtp_layers;
    model->token_types = (uint8_t)c->token_types;
    model->assumed = c->assumed;
}

static orr_status read_card(orr_arena *arena, const orr_tree *file, const char *fallback_name,
                            orr_model **out, orr_err *err) {
    const orr_tree *map = NULL;
    ORR_TRY(orr_catalog_derive(arena, &catalog, file, &map, err));
    card c;
    memset(&c, 0, sizeof c);
    c.layer = orr_layer_default(0);
    c.norms = 2;
    c.conv = 4;
    ORR_TRY(orr_schema_read(&card_schema, arena, map, &c, NULL, err));
    if (orr_tree_get(map, "rope") == NULL && c.position != ORR_POSITION_ROPE) {
        c.layer.attention.rope = 0;
    }
    orr_draft draft;
    ORR_TRY(orr_draft_start(&draft, arena, map, c.layers, err));
    copy_scalars(&c, &draft.model);
    ORR_TRY(add_layers(&draft, &c, err));
    const char *name = c.name != NULL ? c.name : fallback_name;
    const char *file_name = orr_tree_span(file).file;
    const char *source = c.source != NULL ? c.source : file_name != NULL ? file_name : "given";
    return orr_draft_finish(&draft, name == NULL ? "model" : name, source, out, err);
}

/* ---- writing -------------------------------------------------------------------------------- */

static const char *name_kind(orr_arena *arena, const orr_model *model, uint32_t index) {
    const orr_layer *layer = &model->kind[index];
    const char *attention = layer->attention.kind == ORR_ATTENTION_NONE     ? "mlp-only"
                            : layer->attention.kind == ORR_ATTENTION_LINEAR ? "linear"
                            : layer->attention.window > 0                   ? "windowed"
                                                                            : "full";
    const char *mlp = layer->mlp.experts > 0 ? "moe" : layer->mlp.ffn > 0 ? "dense" : "bare";
    return orr_arena_format(arena, "%s-%s-%u", attention, mlp, index);
}

static orr_tree *write_pattern(orr_arena *arena, const orr_model *model) {
    orr_tree *pattern = orr_tree_new_list(arena);
    for (uint32_t i = 0; i < model->layers;) {
        uint32_t end = i;
        while (end < model->layers && model->layer_kind[end] == model->layer_kind[i]) {
            end++;
        }
        const char *name = name_kind(arena, model, model->layer_kind[i]);
        orr_tree_push(arena, pattern,
                      orr_tree_new_text(arena, orr_arena_format(arena, "%s*%u", name, end - i)));
        i = end;
    }
    return pattern;
}

/* All but nulls, and but `without` (NULL: nothing more). */
static void put_all(orr_arena *arena, orr_tree *map, const orr_tree *entries, const char *without) {
    for (size_t i = 0; i < orr_tree_size(entries); i++) {
        bool left_out = without != NULL && strcmp(orr_tree_key(entries, i), without) == 0;
        if (!left_out && orr_tree_kind_of(orr_tree_at(entries, i)) != ORR_TREE_NULL) {
            orr_tree_put(arena, map, orr_tree_key(entries, i),
                         orr_tree_copy(arena, orr_tree_at(entries, i)));
        }
    }
}

static card card_of(const orr_model *model) {
    card c;
    memset(&c, 0, sizeof c);
    c.name = model->name;
    c.source = model->source;
    c.layers = model->layers;
    c.layer.hidden = model->hidden;
    c.vocab = model->vocab;
    c.max_seq = model->max_seq;
    c.position = model->position;
    c.tied = model->tied;
    c.embedding_norm = model->embedding_norm;
    c.head_bias = model->head_bias;
    c.encoder = model->encoder;
    c.mtp_layers = model->mtp_layers;
    c.token_types = model->token_types;
    c.assumed = model->assumed;
    return c;
}

orr_tree *orr_model_write(orr_arena *arena, const orr_model *model) {
    card c = card_of(model);
    orr_tree *out = orr_tree_new_map(arena);
    /* a length of 0 is one that was not stated */
    put_all(arena, out, orr_schema_write(&model_schema, arena, &c),
            model->max_seq == 0 ? "max_seq" : NULL);
    orr_tree_put_text(arena, out, "norm", norm_words[model->norm]);
    if (model->norm == ORR_NORM_LAYER) {
        orr_tree_put_text(arena, out, "norm_parameters", bare_words[model->norm_bare]);
    }
    orr_tree *kinds = orr_tree_put(arena, out, "kinds", orr_tree_new_map(arena));
    for (uint32_t i = 0; i < model->kind_count; i++) {
        c.layer = model->kind[i];
        c.norms = c.layer.norms;
        c.conv = c.layer.attention.conv;
        orr_tree *kind =
            orr_tree_put(arena, kinds, name_kind(arena, model, i), orr_tree_new_map(arena));
        /* a root-mean-square norm has nothing but its weight to learn */
        put_all(arena, kind, orr_schema_write(&layer_schema, arena, &c),
                c.layer.norm != ORR_NORM_LAYER ? "norm_parameters" : NULL);
    }
    orr_tree_put(arena, out, "pattern", write_pattern(arena, model));
    return out;
}

/* ---- entry points --------------------------------------------------------------------------- */

orr_status orr_model_read(orr_arena *arena, const orr_tree *file, const char *fallback_name,
                          orr_model **out, orr_err *err) {
    if (orr_tree_kind_of(file) != ORR_TREE_MAP) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(file),
                           "a model is a map: a config.json or a model card");
    }
    bool hf =
        orr_tree_get(file, "model_type") != NULL || orr_tree_get(file, "architectures") != NULL;
    return hf ? orr_model_read_hf(arena, file, fallback_name, out, err)
              : read_card(arena, file, fallback_name, out, err);
}

orr_status orr_model_find(orr_arena *arena, const char *name, orr_model **out, orr_err *err) {
    orr_tree *file = NULL;
    const char *stem = NULL;
    ORR_TRY(orr_catalog_find(arena, &catalog, name, &file, &stem, err));
    return orr_model_read(arena, file, stem, out, err);
}

orr_tree *orr_model_catalog(orr_arena *arena) {
    return orr_catalog_names(arena, &catalog);
}
