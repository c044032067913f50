/* Drafts: layers gathered into kinds, and the checks that every model passes. */
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "model/model_int.h"

enum { MAX_HEADS = 1 << 16, MAX_HEAD_DIM = 1 << 16 };
static const double MAX_PARAMS = 1e15;

orr_layer orr_layer_default(uint32_t hidden) {
    orr_layer layer;
    memset(&layer, 0, sizeof layer); /* padding too: the bytes are memo keys */
    layer.hidden = hidden;
    layer.norms = 2;
    layer.attention.causal = 1;
    layer.attention.rope = 1;
    layer.mlp.gated = 1;
    return layer;
}

orr_status orr_draft_start(orr_draft *draft, orr_arena *arena, const orr_tree *file,
                           uint64_t layers, orr_err *err) {
    memset(draft, 0, sizeof *draft);
    draft->arena = arena;
    draft->span = orr_tree_span(file);
    if (layers == 0 || layers > ORR_MAX_LAYERS) {
        return orr_fail_at(err, ORR_E_LIMIT, draft->span,
                           "the model has %llu layers, expected 1 to %d",
                           (unsigned long long)layers, ORR_MAX_LAYERS);
    }
    draft->model.layers = (uint32_t)layers;
    draft->kind = ORR_NEW_ARRAY(arena, orr_layer, ORR_MAX_LAYER_KINDS);
    draft->layer_kind = ORR_NEW_ARRAY(arena, uint8_t, layers);
    return ORR_OK;
}

orr_status orr_draft_add(orr_draft *draft, const orr_layer *layer, orr_err *err) {
    orr_model *model = &draft->model;
    if (draft->added >= model->layers) {
        return orr_fail_at(err, ORR_E_CONFLICT, draft->span,
                           "more layers are described than the %u stated", model->layers);
    }
    uint32_t kind = 0;
    while (kind < model->kind_count && memcmp(&draft->kind[kind], layer, sizeof *layer) != 0) {
        kind++;
    }
    if (kind == model->kind_count) {
        if (kind == ORR_MAX_LAYER_KINDS) {
            return orr_fail_at(err, ORR_E_LIMIT, draft->span,
                               "the model has more than %d kinds of layers", ORR_MAX_LAYER_KINDS);
        }
        draft->kind[kind] = *layer;
        model->kind_count++;
    }
    draft->layer_kind[draft->added++] = (uint8_t)kind;
    return ORR_OK;
}

/* ---- checks --------------------------------------------------------------------------------- */

typedef struct bound {
    const char *what;
    uint64_t value, min, max;
} bound;

static orr_status check_bounds(const orr_draft *draft, const bound *bounds, size_t count,
                               orr_err *err) {
    for (size_t i = 0; i < count; i++) {
        const bound *b = &bounds[i];
        if (b->value < b->min || b->value > b->max) {
            return orr_fail_at(err, b->value > b->max ? ORR_E_LIMIT : ORR_E_SCHEMA, draft->span,
                               "%s is %llu, expected %llu to %llu", b->what,
                               (unsigned long long)b->value, (unsigned long long)b->min,
                               (unsigned long long)b->max);
        }
    }
    return ORR_OK;
}
#define CHECK_BOUNDS(draft, bounds, err)                                                           \
    check_bounds((draft), (bounds), sizeof(bounds) / sizeof *(bounds), (err))

static orr_status check_attention(const orr_draft *draft, const orr_attention *a, orr_err *err) {
    if (a->kind == ORR_ATTENTION_NONE) {
        return ORR_OK;
    }
    const bound bounds[] = {
        {"the number of attention heads", a->heads, 1, MAX_HEADS},
        {"the number of key-value heads", a->kv_heads, 1, a->heads},
        {"the head width", a->head_dim, 1, MAX_HEAD_DIM},
        {"the value head width", a->v_dim, 1, MAX_HEAD_DIM},
        {"heads times head width", (uint64_t)a->heads * a->head_dim, 1, ORR_MAX_WIDTH},
        {"heads times value width", (uint64_t)a->heads * a->v_dim, 1, ORR_MAX_WIDTH},
        {"the attention window", a->window, 0, ORR_MAX_SEQ},
        {"the rank of the query compression", a->q_lora, 0, ORR_MAX_WIDTH},
        {"the rank of the key-value compression", a->kv_lora, a->kind == ORR_ATTENTION_MLA,
         ORR_MAX_WIDTH},
        {"the rotary part of a latent head", a->rope_dim, 0, a->head_dim},
    };
    ORR_TRY(CHECK_BOUNDS(draft, bounds, err));
    if (a->heads % a->kv_heads != 0) {
        return orr_fail_at(err, ORR_E_CONFLICT, draft->span,
                           "%u attention heads cannot share %u key-value heads evenly", a->heads,
                           a->kv_heads);
    }
    return ORR_OK;
}

static orr_status check_moe(const orr_draft *draft, const orr_mlp *m, orr_err *err) {
    const bound bounds[] = {
        {"the number of experts", m->experts, 1, ORR_MAX_EXPERTS},
        {"the number of experts a token chooses", m->topk, 1, m->experts},
        {"the width of an expert", m->expert_ffn, 1, ORR_MAX_WIDTH},
        {"the width of the shared experts", m->shared_ffn, 0, ORR_MAX_WIDTH},
        {"the latent width of the experts", m->latent, 0, ORR_MAX_WIDTH},
        {"the number of expert groups", m->groups, 0, m->experts},
        {"the number of groups a token chooses", m->group_topk, m->groups > 0, m->groups},
    };
    ORR_TRY(CHECK_BOUNDS(draft, bounds, err));
    if (m->groups > 0 && m->experts % m->groups != 0) {
        return orr_fail_at(err, ORR_E_CONFLICT, draft->span,
                           "%u experts do not divide into %u groups", m->experts, m->groups);
    }
    if (m->groups > 0 && m->topk > m->experts / m->groups * m->group_topk) {
        return orr_fail_at(err, ORR_E_CONFLICT, draft->span,
                           "a token chooses %u experts, but %u groups hold only %u", m->topk,
                           m->group_topk, m->experts / m->groups * m->group_topk);
    }
    return ORR_OK;
}

static orr_status check_layer(const orr_draft *draft, const orr_layer *layer, orr_err *err) {
    ORR_TRY(check_attention(draft, &layer->attention, err));
    const orr_mlp *m = &layer->mlp;
    if (m->experts > 0) {
        ORR_TRY(check_moe(draft, m, err));
    } else if (m->topk > 0 || m->expert_ffn > 0 || m->shared_ffn > 0) {
        return orr_fail_at(err, ORR_E_CONFLICT, draft->span,
                           "a layer without experts has a top-k, an expert or a shared width");
    }
    const bound bounds[] = {
        {"the MLP width", m->ffn, 0, ORR_MAX_WIDTH},
        {"the number of norms of a layer", layer->norms, 0, 8},
    };
    ORR_TRY(CHECK_BOUNDS(draft, bounds, err));
    if (layer->attention.kind == ORR_ATTENTION_NONE && m->ffn == 0 && m->experts == 0) {
        return orr_fail_at(err, ORR_E_CONFLICT, draft->span,
                           "a layer has neither attention nor an MLP");
    }
    /* All factors are bounded, so the real product cannot overflow. */
    double width = m->latent > 0 ? m->latent : layer->hidden;
    double experts = 3.0 * width * m->expert_ffn * m->experts;
    double rest = (double)layer->hidden * (3.0 * m->ffn + 3.0 * m->shared_ffn);
    if ((experts + rest) * draft->model.layers > MAX_PARAMS) {
        return orr_fail_at(err, ORR_E_LIMIT, draft->span,
                           "the model would have more than %g parameters", MAX_PARAMS);
    }
    return ORR_OK;
}

static orr_status check_model(const orr_draft *draft, orr_err *err) {
    const orr_model *m = &draft->model;
    const bound bounds[] = {
        {"the hidden width", m->hidden, 1, ORR_MAX_WIDTH},
        {"the vocabulary", m->vocab, 1, ORR_MAX_VOCAB},
        {"the longest sequence", m->max_seq, 0, ORR_MAX_SEQ},
    };
    ORR_TRY(CHECK_BOUNDS(draft, bounds, err));
    if (draft->added != m->layers) {
        return orr_fail_at(err, ORR_E_CONFLICT, draft->span,
                           "%u layers are described, but %u are stated", draft->added, m->layers);
    }
    for (uint32_t i = 0; i < m->kind_count; i++) {
        ORR_TRY(check_layer(draft, &draft->kind[i], err));
    }
    return ORR_OK;
}

orr_status orr_draft_finish(orr_draft *draft, const char *name, const char *source, orr_model **out,
                            orr_err *err) {
    ORR_TRY(check_model(draft, err));
    orr_model *model = ORR_NEW(draft->arena, orr_model);
    *model = draft->model;
    model->name = orr_arena_text(draft->arena, name);
    model->source = orr_arena_text(draft->arena, source);
    model->kind = draft->kind;
    model->layer_kind = draft->layer_kind;
    for (uint32_t i = 0; i < model->kind_count; i++) {
        model->assumed |= draft->kind[i].attention.kind == ORR_ATTENTION_LINEAR;
    }
    *out = model;
    return ORR_OK;
}

/* ---- foreign keys --------------------------------------------------------------------------- */

const orr_tree *orr_key_find(const orr_tree *map, const char *const *keys, const char **key) {
    for (; *keys != NULL; keys++) {
        const orr_tree *node = orr_tree_get(map, *keys);
        if (orr_tree_kind_of(node) != ORR_TREE_NULL) {
            if (key != NULL) {
                *key = *keys;
            }
            return node;
        }
    }
    return NULL;
}

/* A whole number, or a list that says the same one for each layer; else INT64_MIN. */
static int64_t one_number(const orr_tree *node) {
    if (orr_tree_kind_of(node) != ORR_TREE_LIST || orr_tree_size(node) == 0) {
        return orr_tree_int(node, INT64_MIN);
    }
    int64_t first = orr_tree_int(orr_tree_at(node, 0), INT64_MIN);
    for (size_t i = 1; i < orr_tree_size(node); i++) {
        if (orr_tree_int(orr_tree_at(node, i), INT64_MIN) != first) {
            return INT64_MIN;
        }
    }
    return first;
}

orr_status orr_key_u32(const orr_tree *map, const char *const *keys, uint32_t max, uint32_t *value,
                       orr_err *err) {
    const char *key = NULL;
    const orr_tree *node = orr_key_find(map, keys, &key);
    if (node == NULL) {
        return ORR_OK;
    }
    int64_t number = one_number(node);
    if (number == INT64_MIN) {
        bool list = orr_tree_kind_of(node) == ORR_TREE_LIST;
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(node), "\"%s\" must be %s", key,
                           list ? "one whole number for all layers" : "a whole number");
    }
    if (number < 0 || number > max) {
        return orr_fail_at(err, number < 0 ? ORR_E_SCHEMA : ORR_E_LIMIT, orr_tree_span(node),
                           "\"%s\" is %lld, expected 0 to %u", key, (long long)number, max);
    }
    *value = (uint32_t)number;
    return ORR_OK;
}

orr_status orr_key_flag(const orr_tree *map, const char *const *keys, uint8_t *value,
                        orr_err *err) {
    const char *key = NULL;
    const orr_tree *node = orr_key_find(map, keys, &key);
    if (node == NULL) {
        return ORR_OK;
    }
    if (orr_tree_kind_of(node) != ORR_TREE_BOOL) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(node), "\"%s\" must be true or false",
                           key);
    }
    *value = orr_tree_bool(node, false);
    return ORR_OK;
}

orr_status orr_activation_parse(const orr_tree *node, uint8_t *activation, uint8_t *gated,
                                orr_err *err) {
    static const struct {
        const char *name;
        uint8_t activation, gated;
    } words[] = {
        {"silu", ORR_ACT_SILU, 0},
        {"swish", ORR_ACT_SILU, 0},
        {"swiglu", ORR_ACT_SILU, 1},
        {"gelu", ORR_ACT_GELU, 0},
        {"gelu_new", ORR_ACT_GELU, 0},
        {"gelu_fast", ORR_ACT_GELU, 0},
        {"gelu_pytorch_tanh", ORR_ACT_GELU, 0},
        {"quick_gelu", ORR_ACT_GELU, 0},
        {"geglu", ORR_ACT_GELU, 1},
        {"gegelu", ORR_ACT_GELU, 1},
        {"relu", ORR_ACT_RELU, 0},
        {"relu2", ORR_ACT_RELU2, 0},
        {"squared_relu", ORR_ACT_RELU2, 0},
        {"xielu", ORR_ACT_RELU2, 0}, /* a square and an exponential: costs as ReLU2 */
    };
    enum { COUNT = sizeof words / sizeof *words };
    const char *text = orr_tree_text(node, NULL);
    const char *names[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        names[i] = words[i].name;
        if (text != NULL && orr_name_equal(text, words[i].name)) {
            *activation = words[i].activation;
            *gated |= words[i].gated;
            return ORR_OK;
        }
    }
    if (text == NULL) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(node),
                           "an activation must be a word such as \"silu\"");
    }
    orr_status status =
        orr_fail_at(err, ORR_E_NAME, orr_tree_span(node), "unknown activation \"%.60s\"", text);
    int nearest = orr_name_nearest(text, names, COUNT);
    orr_hint(err, "did you mean \"%s\"?", names[nearest < 0 ? 0 : nearest]);
    return status;
}
