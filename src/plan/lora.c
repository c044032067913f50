/* Low-rank adapters beside frozen weights: how a plan states them, and what they hold. A linear of
 * `in` inputs and `out` outputs gets two matrices, rank x in and out x rank (LoRA, arXiv
 * 2106.09685); frozen weights may rest in 8 or 4 bits (QLoRA, arXiv 2305.14314). */
#include <string.h>

#include "plan/plan_int.h"

/* Words of targets: short ones, and the module names of the usual model code. */
static const struct {
    const char *name;
    uint16_t bits;
} targets[] = {
    {"q", ORR_LORA_Q},
    {"k", ORR_LORA_K},
    {"v", ORR_LORA_V},
    {"o", ORR_LORA_O},
    {"gate", ORR_LORA_GATE},
    {"up", ORR_LORA_UP},
    {"down", ORR_LORA_DOWN},
    {"qkv", ORR_LORA_QKV},
    {"fc1", ORR_LORA_FC1},
    {"fc2", ORR_LORA_DOWN},
    {"proj", ORR_LORA_O},
    {"attention", ORR_LORA_Q | ORR_LORA_K | ORR_LORA_V | ORR_LORA_O},
    {"mlp", ORR_LORA_GATE | ORR_LORA_UP | ORR_LORA_DOWN},
    {"all-linear", ORR_LORA_ALL_LINEAR},
    {"all", ORR_LORA_ALL_LINEAR},
    {"q_proj", ORR_LORA_Q},
    {"q_a_proj", ORR_LORA_Q},
    {"q_b_proj", ORR_LORA_Q},
    {"k_proj", ORR_LORA_K},
    {"v_proj", ORR_LORA_V},
    {"kv_a_proj_with_mqa", ORR_LORA_K | ORR_LORA_V},
    {"kv_b_proj", ORR_LORA_K | ORR_LORA_V},
    {"o_proj", ORR_LORA_O},
    {"out_proj", ORR_LORA_O},
    {"gate_proj", ORR_LORA_GATE},
    {"up_proj", ORR_LORA_UP},
    {"down_proj", ORR_LORA_DOWN},
    {"w1", ORR_LORA_GATE},
    {"w2", ORR_LORA_DOWN},
    {"w3", ORR_LORA_UP},
    {"gate_up_proj", ORR_LORA_FC1},
    {"qkv_proj", ORR_LORA_QKV},
    {"query_key_value", ORR_LORA_QKV},
    {"c_attn", ORR_LORA_QKV},
    {"linear_qkv", ORR_LORA_QKV},
    {"linear_q_proj", ORR_LORA_Q},
    {"linear_q_down_proj", ORR_LORA_Q},
    {"linear_q_up_proj", ORR_LORA_Q},
    {"linear_kv_down_proj", ORR_LORA_K | ORR_LORA_V},
    {"linear_kv_up_proj", ORR_LORA_K | ORR_LORA_V},
    {"linear_proj", ORR_LORA_O},
    {"linear_fc1", ORR_LORA_FC1},
    {"linear_fc2", ORR_LORA_DOWN},
};
enum { TARGETS = sizeof targets / sizeof *targets, WORDS = 9, WORD_MAX = 48, MAX_RANK = 1 << 16 };

static orr_status bad_target(const char *word, orr_err *err) {
    const char *names[TARGETS];
    for (int i = 0; i < TARGETS; i++) {
        names[i] = targets[i].name;
    }
    int near = orr_name_nearest(word, names, TARGETS);
    (void)orr_fail(err, ORR_E_SCHEMA, "\"lora\" has no target \"%.40s\"", word);
    orr_hint(err,
             "%s%s%sits targets are all-linear, attention, mlp, q, k, v, o, gate, up, down, qkv, "
             "fc1, or a module's name such as q_proj",
             near < 0 ? "" : "did you mean \"", near < 0 ? "" : names[near],
             near < 0 ? "" : "\"? ");
    return ORR_E_SCHEMA;
}

static orr_status read_word(const char *word, uint16_t *bits, orr_err *err) {
    for (int i = 0; i < TARGETS; i++) {
        if (orr_name_equal(word, targets[i].name)) {
            *bits |= targets[i].bits;
            return ORR_OK;
        }
    }
    return bad_target(word, err);
}

static orr_status read_words(const char *text, uint16_t *bits, orr_err *err) {
    char word[WORD_MAX];
    for (const char *at = text; *at != '\0';) {
        size_t length = strcspn(at, "+, ");
        if (length >= WORD_MAX) {
            return bad_target(at, err);
        }
        memcpy(word, at, length);
        word[length] = '\0';
        at += length + (at[length] != '\0');
        if (length > 0) {
            ORR_TRY(read_word(word, bits, err));
        }
    }
    return ORR_OK;
}

static orr_status read_targets(const orr_tree *node, uint16_t *bits, orr_err *err) {
    for (size_t i = 0; i < orr_tree_size(node); i++) {
        ORR_TRY(read_words(orr_tree_text(orr_tree_at(node, i), ""), bits, err));
    }
    return orr_tree_kind_of(node) == ORR_TREE_TEXT ? read_words(orr_tree_text(node, ""), bits, err)
                                                   : ORR_OK;
}

static orr_status bad_lora(orr_err *err) {
    (void)orr_fail(err, ORR_E_SCHEMA, "\"lora\" must be a rank between 1 and %d, with targets",
                   MAX_RANK);
    orr_hint(err, "it may be written as 16, 16:q+v, or {rank: 16, alpha: 32, targets: [q, v]}");
    return ORR_E_SCHEMA;
}

static orr_status read_map(const orr_tree *node, int64_t *rank, orr_lora *out, orr_err *err) {
    static const char *const keys[] = {"rank", "alpha", "targets"};
    enum { KEYS = sizeof keys / sizeof *keys };
    for (size_t i = 0; i < orr_tree_size(node); i++) {
        const char *key = orr_tree_key(node, i);
        const orr_tree *value = orr_tree_at(node, i);
        if (key != NULL && strcmp(key, "rank") == 0) {
            *rank = orr_tree_int(value, -1);
        } else if (key != NULL && strcmp(key, "alpha") == 0) {
            double alpha = orr_tree_real(value, -1);
            if (!(alpha >= 0 && alpha <= 1e9)) {
                return orr_fail(err, ORR_E_SCHEMA, "the alpha of \"lora\" must be 0 to 1e9");
            }
            out->alpha = (uint32_t)alpha;
        } else if (key != NULL && strcmp(key, "targets") == 0) {
            ORR_TRY(read_targets(value, &out->targets, err));
        } else {
            (void)orr_fail(err, ORR_E_SCHEMA, "\"lora\" has no key \"%.40s\"", key ? key : "");
            int near = orr_name_nearest(key ? key : "", keys, KEYS);
            orr_hint(err, "%s%s%sit takes rank, alpha and targets",
                     near < 0 ? "" : "did you mean \"", near < 0 ? "" : keys[near],
                     near < 0 ? "" : "\"? ");
            return ORR_E_SCHEMA;
        }
    }
    return ORR_OK;
}

static orr_status read_text(const char *text, int64_t *rank, orr_lora *out, orr_err *err) {
    char digits[16] = "";
    size_t length = strcspn(text, ":");
    if (length == 0 || length >= sizeof digits) {
        return bad_lora(err);
    }
    memcpy(digits, text, length);
    if (!orr_parse_int(digits, rank)) {
        return bad_lora(err);
    }
    return text[length] == ':' ? read_words(text + length + 1, &out->targets, err) : ORR_OK;
}

/* A list of targets that names none would otherwise mean all of them. */
static bool names_nothing(const orr_tree *node, const orr_lora *lora) {
    const char *text = orr_tree_text(node, "");
    bool stated = strchr(text, ':') != NULL || orr_tree_get(node, "targets") != NULL;
    return stated && lora->targets == 0;
}

orr_status orr_lora_read(const orr_tree *node, orr_lora *out, orr_err *err) {
    *out = (orr_lora){0};
    int64_t rank = -1;
    orr_tree_kind kind = orr_tree_kind_of(node);
    if (kind == ORR_TREE_TEXT && orr_name_equal(orr_tree_text(node, ""), "none")) {
        return ORR_OK;
    }
    if (kind == ORR_TREE_INT) {
        rank = orr_tree_int(node, -1);
    } else if (kind == ORR_TREE_MAP) {
        ORR_TRY(read_map(node, &rank, out, err));
    } else if (kind == ORR_TREE_TEXT) {
        ORR_TRY(read_text(orr_tree_text(node, ""), &rank, out, err));
    }
    if (rank < 1 || rank > MAX_RANK) {
        return bad_lora(err);
    }
    if (names_nothing(node, out)) {
        (void)orr_fail(err, ORR_E_SCHEMA, "\"lora\" has targets that name nothing");
        orr_hint(err, "leave them out for all-linear, or name some, as in 16:q+v");
        return ORR_E_SCHEMA;
    }
    out->rank = (uint32_t)rank;
    out->targets = out->targets == 0 ? ORR_LORA_ALL_LINEAR : out->targets;
    return ORR_OK;
}

orr_tree *orr_lora_write(orr_arena *arena, const orr_lora *lora) {
    if (lora->rank == 0) {
        return NULL;
    }
    orr_tree *map = orr_tree_new_map(arena), *list = orr_tree_new_list(arena);
    orr_tree_put_int(arena, map, "rank", lora->rank);
    if (lora->alpha > 0) {
        orr_tree_put_int(arena, map, "alpha", lora->alpha);
    }
    for (int i = 0; i < WORDS; i++) {
        if (lora->targets & targets[i].bits) {
            orr_tree_push(arena, list, orr_tree_new_text(arena, targets[i].name));
        }
    }
    orr_tree_put(arena, map, "targets", list);
    return map;
}

double orr_base_bytes(uint8_t base) {
    switch ((orr_base_format)base) {
    case ORR_BASE_INT8: return 1;
    case ORR_BASE_NF4: return 0.5 + 4.0 / 64;
    case ORR_BASE_NF4_DOUBLE: return 0.5 + 1.0 / 64 + 4.0 / (64 * 256);
    case ORR_BASE_16BIT: break;
    }
    return 2;
}

/* ---- counting ---------------------------------------------------------------------------------
 */

static uint64_t attention_widths(const orr_layer *layer, uint16_t bits) {
    const orr_attention *a = &layer->attention;
    uint64_t h = layer->hidden, q = (uint64_t)a->heads * a->head_dim;
    uint64_t k = (uint64_t)a->kv_heads * a->head_dim, v = (uint64_t)a->kv_heads * a->v_dim;
    uint64_t out = (uint64_t)a->heads * a->v_dim, gate = a->output_gate ? out : 0, sum = 0;
    if (a->kind == ORR_ATTENTION_NONE) {
        return 0;
    }
    sum += bits & ORR_LORA_O ? out + h : 0;
    if (a->kind == ORR_ATTENTION_MLA) {
        uint64_t latent = (uint64_t)a->kv_lora + a->rope_dim;
        uint64_t up = (uint64_t)a->heads * (a->head_dim - a->rope_dim + a->v_dim);
        if (bits & (ORR_LORA_Q | ORR_LORA_QKV)) {
            sum += a->q_lora > 0 ? h + 2ull * a->q_lora + q : h + q;
        }
        if (bits & (ORR_LORA_K | ORR_LORA_V | ORR_LORA_QKV)) {
            sum += h + latent + a->kv_lora + up;
        }
        return sum;
    }
    if (a->kind == ORR_ATTENTION_LINEAR) { /* one product makes everything */
        uint64_t scalars = (a->linear == ORR_LINEAR_MAMBA2 ? 1ull : 2ull) * a->heads;
        uint64_t width = 2 * k + 2 * out + scalars;
        return sum + (bits & ORR_LORA_ATTENTION_IN ? h + width : 0);
    }
    sum += bits & ORR_LORA_QKV ? h + q + k + v + gate : 0;
    sum += bits & ORR_LORA_Q ? h + q + gate : 0;
    sum += bits & ORR_LORA_K ? h + k : 0;
    return sum + (bits & ORR_LORA_V ? h + v : 0);
}

static uint64_t mlp_widths(uint64_t h, uint64_t ffn, bool gated, uint16_t bits) {
    uint64_t sum = bits & ORR_LORA_DOWN ? ffn + h : 0;
    if (ffn == 0) {
        return 0;
    }
    if (!gated) {
        return sum + (bits & (ORR_LORA_FC1 | ORR_LORA_UP) ? h + ffn : 0);
    }
    sum += bits & ORR_LORA_FC1 ? h + 2 * ffn : 0;
    sum += bits & ORR_LORA_UP ? h + ffn : 0;
    return sum + (bits & ORR_LORA_GATE ? h + ffn : 0);
}

uint64_t orr_plan_adapter_params(const orr_model *model, const orr_lora *lora) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < model->layers + model->mtp_layers; i++) {
        uint32_t at = orr_min_u32(i, model->layers - 1);
        const orr_layer *layer = &model->kind[model->layer_kind[at]];
        const orr_mlp *m = &layer->mlp;
        uint64_t width = m->latent > 0 ? m->latent : layer->hidden;
        sum += attention_widths(layer, lora->targets);
        if (m->experts > 0) {
            sum += m->experts * mlp_widths(width, m->expert_ffn, m->gated, lora->targets);
            sum += mlp_widths(layer->hidden, m->shared_ffn, m->gated, lora->targets);
        } else {
            sum += mlp_widths(layer->hidden, m->ffn, m->gated, lora->targets);
        }
    }
    return sum * lora->rank;
}
