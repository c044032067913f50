/* The model that Megatron-LM's arguments describe, as a card (docs/model-card.md). */
#include <string.h>

#include "exchange/megatron_int.h"

typedef struct card {
    megatron *m;
    orr_arena *arena;
    orr_tree *map;
} card;

static void put(card *c, orr_tree *map, const char *key, orr_tree *node, const char *from) {
    orr_span span = {.file = c->m->im->file,
                     .line = from != NULL ? orr_megatron_line(c->m, from) : 0};
    orr_tree_set_span(node, span);
    orr_tree_put(c->arena, map, key, node);
}

static void put_int(card *c, const char *key, int64_t value, const char *from) {
    put(c, c->map, key, orr_tree_new_int(c->arena, value), from);
}

static void put_text(card *c, const char *key, const char *value, const char *from) {
    put(c, c->map, key, orr_tree_new_text(c->arena, value), from);
}

static void put_flag(card *c, const char *key, bool value, const char *from) {
    put(c, c->map, key, orr_tree_new_bool(c->arena, value), from);
}

/* ---- vocabulary ----------------------------------------------------------------------------- */

/* Tokenizers whose vocabulary is public; `model`: part of the name of a tokenizer's file. */
typedef struct tokenizer {
    const char *type, *model;
    int64_t vocab;
} tokenizer;

/* GPT-2: 50,257 byte pairs; Llama 2 and Mistral v1: 32,000 pieces; Llama 3: 128,000 and 256
 * specials; Qwen 2.5 and 3: config.json says 151,936 rows (152,064 in the larger 2.5 models);
 * DeepSeek-V2 102,400, V3 129,280 rows. */
static const tokenizer tokenizers[] = {
    {"GPT2BPETokenizer", NULL, 50257},
    {"Llama2Tokenizer", NULL, 32000},
    {"Llama3Tokenizer", NULL, 128256},
    {NULL, "llama-3", 128256},
    {NULL, "llama3", 128256},
    {NULL, "llama-2", 32000},
    {NULL, "llama2", 32000},
    {NULL, "mixtral-8x7b", 32000},
    {NULL, "mistral-7b-v0.1", 32000},
    {NULL, "qwen3", 151936},
    {NULL, "deepseek-v2", 102400},
    {NULL, "deepseek-v3", 129280},
    {NULL, "gpt2", 50257},
};

/* Whether `part` stands in `text`, without case. */
static bool contains(const char *text, const char *part) {
    size_t n = strlen(part);
    for (; *text != '\0'; text++) {
        size_t i = 0;
        while (i < n && text[i] != '\0' &&
               (text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]) == part[i]) {
            i++;
        }
        if (i == n) {
            return true;
        }
    }
    return false;
}

static void assume_vocab(card *c, int64_t vocab, const char *why) {
    put_int(c, "vocab", vocab, NULL);
    orr_import_assume(c->m->im, "model.vocab", orr_arena_format(c->arena, "%lld", (long long)vocab),
                      why);
}

static void put_vocab(card *c) {
    const megatron *m = c->m;
    if (orr_megatron_int(m, "padded-vocab-size") > 0) {
        put_int(c, "vocab", orr_megatron_int(m, "padded-vocab-size"), "padded-vocab-size");
        orr_import_assume(m->im, "model.vocab", orr_megatron_text(m, "padded-vocab-size"),
                          "--padded-vocab-size counts the padding too");
        return;
    }
    if (orr_megatron_int(m, "vocab-size") > 0) {
        put_int(c, "vocab", orr_megatron_int(m, "vocab-size"), "vocab-size");
        return;
    }
    const char *type = orr_megatron_text(m, "tokenizer-type");
    const char *model = orr_megatron_text(m, "tokenizer-model");
    for (size_t i = 0; i < sizeof tokenizers / sizeof *tokenizers; i++) {
        const tokenizer *t = &tokenizers[i];
        if (t->type != NULL ? strcmp(type, t->type) == 0 : contains(model, t->model)) {
            assume_vocab(c, t->vocab,
                         orr_arena_format(c->arena, "the vocabulary of %s%.60s%s",
                                          t->type != NULL ? "--tokenizer-type "
                                                          : "--tokenizer-model (its name holds \"",
                                          t->type != NULL ? t->type : t->model,
                                          t->type != NULL ? "" : "\")"));
            return;
        }
    }
    orr_import_warn(
        m->im, orr_megatron_line(m, "tokenizer-type"),
        "the vocabulary is not known from this file: 50257 is assumed; give --vocab-size "
        "in the script, or --model");
    assume_vocab(c, 50257, "no vocabulary size is stated: that of GPT-2");
}

/* ---- layers --------------------------------------------------------------------------------- */

static void put_attention(card *c) {
    const megatron *m = c->m;
    int64_t heads = orr_megatron_int(m, "num-attention-heads");
    bool biases = orr_megatron_flag(m, "add-bias-linear");
    if (orr_megatron_flag(m, "multi-latent-attention")) {
        int64_t nope = orr_megatron_int(m, "qk-head-dim"),
                rope = orr_megatron_int(m, "qk-pos-emb-head-dim");
        put_text(c, "attention", "mla", "multi-latent-attention");
        if (orr_megatron_int(m, "q-lora-rank") > 0) {
            put_int(c, "q_lora", orr_megatron_int(m, "q-lora-rank"), "q-lora-rank");
        }
        put_int(c, "kv_lora", orr_megatron_int(m, "kv-lora-rank"), "kv-lora-rank");
        if (nope >= 0 && rope >= 0 && nope <= 1 << 16 && rope <= 1 << 16) {
            put_int(c, "head_dim", nope + rope, "qk-head-dim");
        }
        put_int(c, "rope_dim", rope, "qk-pos-emb-head-dim");
        put_int(c, "v_dim", orr_megatron_int(m, "v-head-dim"), "v-head-dim");
    } else {
        const setting *groups = orr_megatron_given(m, "num-query-groups");
        /* The flag is of the command line; configuration classes have the number alone. */
        bool grouped = orr_megatron_flag(m, "group-query-attention") ||
                       (groups != NULL && groups->typed &&
                        orr_megatron_given(m, "group-query-attention") == NULL);
        if (groups != NULL && !grouped) {
            orr_import_warn(m->im, groups->line,
                            "--num-query-groups has no effect without --group-query-attention");
        }
        put_int(c, "kv_heads", grouped ? orr_megatron_int(m, "num-query-groups") : heads,
                grouped ? "num-query-groups" : NULL);
        if (orr_megatron_has(m, "kv-channels")) {
            put_int(c, "head_dim", orr_megatron_int(m, "kv-channels"), "kv-channels");
        }
    }
    if (orr_megatron_flag(m, "qk-layernorm")) {
        put_text(c, "qk_norm", "head", "qk-layernorm");
    }
    put_flag(c, "bias_qkv", biases || orr_megatron_flag(m, "add-qkv-bias"), "add-qkv-bias");
    put_flag(c, "bias_out", biases, "add-bias-linear");
    if (orr_megatron_is(m, "softmax-type", "learnable") ||
        orr_megatron_flag(m, "use-sink-attention")) {
        put_flag(c, "sinks", true, "softmax-type");
    }
    if (orr_megatron_flag(m, "attention-output-gate")) {
        put_flag(c, "output_gate", true, "attention-output-gate");
    }
}

static void put_mlp(card *c) {
    const megatron *m = c->m;
    const char *word = orr_megatron_text(m, "activation-func");
    bool swiglu = orr_megatron_flag(m, "swiglu") || strcmp(word, "swiglu") == 0;
    bool geglu = orr_megatron_flag(m, "quick-geglu");
    bool squared = orr_megatron_flag(m, "squared-relu") || strcmp(word, "squaredrelu") == 0;
    int64_t hidden = orr_megatron_int(m, "hidden-size");
    put_text(c, "activation", swiglu ? "silu" : squared ? "relu2" : "gelu", "swiglu");
    put_flag(c, "gated", swiglu || geglu, "swiglu");
    put_flag(c, "bias_mlp", orr_megatron_flag(m, "add-bias-linear"), "add-bias-linear");
    if (orr_megatron_has(m, "ffn-hidden-size")) {
        put_int(c, "ffn", orr_megatron_int(m, "ffn-hidden-size"), "ffn-hidden-size");
    } else if (hidden > 0 && hidden <= 1 << 24) {
        int64_t ffn = swiglu ? hidden * 8 / 3 / 64 * 64 : hidden * 4;
        put_int(c, "ffn", ffn, NULL);
        orr_import_assume(m->im, "model.ffn", orr_arena_format(c->arena, "%lld", (long long)ffn),
                          "no --ffn-hidden-size: Megatron-LM's default");
    }
}

/* A list of 0 and 1 by layer; false: not understood, or not as long as the model. */
static bool layer_list(const card *c, const char *freq, int64_t layers, uint8_t *out) {
    size_t count;
    orr_text brackets = orr_text_new(c->arena, 1 << 16);
    if (freq[0] == '0' || freq[0] == '1') { /* a list of a typed file */
        orr_text_add(&brackets, "[");
        for (const char *p = freq; *p != '\0'; p++) {
            orr_text_addn(&brackets, *p == ' ' ? "," : p, 1);
        }
        orr_text_add(&brackets, "]");
        freq = orr_text_done(&brackets);
    }
    return orr_pattern_expand(freq, out, MEGATRON_MAX_LAYERS, &count) && count == (size_t)layers;
}

/* Which layers hold experts: every N-th from the first, or a list. */
static bool moe_layers(const card *c, int64_t layers, uint8_t *out) {
    const char *freq = orr_megatron_text(c->m, "moe-layer-freq");
    int64_t every;
    if (!orr_parse_int(freq, &every)) {
        return layer_list(c, freq, layers, out);
    }
    for (int64_t i = 0; every > 0 && i < layers; i++) {
        out[i] = i % every == 0;
    }
    return every > 0;
}

/* Which layers see a window only: all but every N-th, counted from 1, or a list. */
static bool windowed_layers(const card *c, int64_t layers, uint8_t *out) {
    const char *freq = orr_megatron_text(c->m, "window-attn-skip-freq");
    int64_t every;
    if (freq[0] != '\0' && !orr_parse_int(freq, &every)) {
        return layer_list(c, freq, layers, out);
    }
    every = freq[0] == '\0' ? 0 : every;
    for (int64_t i = 0; every >= 0 && i < layers; i++) {
        out[i] = every == 0 || (i + 1) % every != 0;
    }
    return every >= 0;
}

/* Tokens to the left that a query sees, of "(128,0)"; 0: no window. */
static int64_t window_of(const card *c) {
    const char *text = orr_megatron_text(c->m, "window-size");
    text += strspn(text, "([ ");
    int64_t left;
    const char *digits = orr_arena_copy(c->arena, text, strcspn(text, ", )]"));
    return orr_parse_int(digits, &left) && left > 0 && left <= 1 << 27 ? left : 0;
}

static const char *kind_name(bool moe, bool windowed) {
    return moe ? (windowed ? "moe-windowed" : "moe") : windowed ? "dense-windowed" : "dense";
}

/* Kinds and their order, where layers differ in experts or windows; what all share stays in the
 * card itself. */
static void put_pattern(card *c, const uint8_t *moe, const uint8_t *windowed, int64_t window) {
    size_t count = (size_t)orr_megatron_int(c->m, "num-layers");
    bool same = true;
    for (size_t i = 1; i < count; i++) {
        same = same && moe[i] == moe[0] && windowed[i] == windowed[0];
    }
    if (same) {
        if (windowed[0]) {
            put_int(c, "window", window, "window-size");
        }
        if (!moe[0] && orr_tree_get(c->map, "experts") != NULL) {
            put_int(c, "experts", 0, "moe-layer-freq"); /* a list without any */
        }
        return;
    }
    orr_tree *kinds = orr_tree_new_map(c->arena), *pattern = orr_tree_new_list(c->arena);
    for (size_t i = 0; i < count;) {
        size_t end = i;
        while (end < count && moe[end] == moe[i] && windowed[end] == windowed[i]) {
            end++;
        }
        const char *name = kind_name(moe[i], windowed[i]);
        if (orr_tree_get(kinds, name) == NULL) {
            orr_tree *kind = orr_tree_put(c->arena, kinds, name, orr_tree_new_map(c->arena));
            if (!moe[i] && orr_tree_get(c->map, "experts") != NULL) {
                orr_tree_put_int(c->arena, kind, "experts", 0);
            }
            if (windowed[i]) {
                orr_tree_put_int(c->arena, kind, "window", window);
            }
        }
        const char *run = orr_arena_format(c->arena, "%s*%zu", name, end - i);
        orr_tree_push(c->arena, pattern, orr_tree_new_text(c->arena, run));
        i = end;
    }
    put(c, c->map, "kinds", kinds, "moe-layer-freq");
    put(c, c->map, "pattern", pattern, "moe-layer-freq");
}

static const char *router(const megatron *m) {
    return orr_megatron_is(m, "moe-router-score-function", "sigmoid") ? "sigmoid"
           : orr_megatron_flag(m, "moe-router-pre-softmax")           ? "softmax_before"
                                                                      : "softmax_after";
}

static void put_experts(card *c) {
    const megatron *m = c->m;
    put_int(c, "experts", orr_megatron_int(m, "num-experts"), "num-experts");
    put_int(c, "topk", orr_megatron_int(m, "moe-router-topk"), "moe-router-topk");
    if (orr_megatron_has(m, "moe-ffn-hidden-size")) {
        put_int(c, "expert_ffn", orr_megatron_int(m, "moe-ffn-hidden-size"), "moe-ffn-hidden-size");
    } else {
        put_int(c, "expert_ffn", orr_tree_int(orr_tree_get(c->map, "ffn"), 0), "ffn-hidden-size");
    }
    if (orr_megatron_int(m, "moe-shared-expert-intermediate-size") > 0) {
        put_int(c, "shared_ffn", orr_megatron_int(m, "moe-shared-expert-intermediate-size"),
                "moe-shared-expert-intermediate-size");
        put_flag(c, "shared_gate", orr_megatron_flag(m, "moe-shared-expert-gate"),
                 "moe-shared-expert-gate");
    }
    put_text(c, "router", router(m), "moe-router-score-function");
    if (orr_megatron_flag(m, "moe-router-enable-expert-bias")) {
        put_flag(c, "router_bias", true, "moe-router-enable-expert-bias");
    }
    if (orr_megatron_int(m, "moe-router-num-groups") > 1) {
        put_int(c, "groups", orr_megatron_int(m, "moe-router-num-groups"), "moe-router-num-groups");
        put_int(c, "group_topk", orr_megatron_int(m, "moe-router-group-topk"),
                "moe-router-group-topk");
    }
    if (orr_megatron_int(m, "moe-latent-size") > 0) {
        put_int(c, "latent", orr_megatron_int(m, "moe-latent-size"), "moe-latent-size");
    }
}

/* Where experts and windows are; false when a list of them is not understood. */
static bool put_kinds(card *c) {
    const megatron *m = c->m;
    int64_t layers = orr_megatron_int(m, "num-layers"), window = window_of(c);
    uint8_t *moe = ORR_NEW_ARRAY(c->arena, uint8_t, MEGATRON_MAX_LAYERS);
    uint8_t *windowed = ORR_NEW_ARRAY(c->arena, uint8_t, MEGATRON_MAX_LAYERS);
    const char *failed = NULL;
    if (orr_megatron_int(m, "num-experts") > 0 && !moe_layers(c, layers, moe)) {
        failed = "moe-layer-freq";
    } else if (window > 0 && !windowed_layers(c, layers, windowed)) {
        failed = "window-attn-skip-freq";
    }
    if (failed != NULL) {
        orr_import_unknown(m->im, orr_arena_format(c->arena, "--%s", failed),
                           orr_megatron_line(m, failed), true,
                           "the list of layers is not understood, or not as long as the model");
        return false;
    }
    put_pattern(c, moe, windowed, window);
    return true;
}

static const char *position(megatron *m) {
    const char *kind = orr_megatron_text(m, "position-embedding-type");
    if (strcmp(kind, "learned_absolute") == 0) {
        return orr_megatron_flag(m, "multi-latent-attention") ? "rope" : "learned";
    }
    if (strcmp(kind, "rope") == 0 || strcmp(kind, "yarn") == 0 || strcmp(kind, "mrope") == 0) {
        return "rope";
    }
    if (strcmp(kind, "none") != 0) {
        orr_import_unknown(m->im, "--position-embedding-type",
                           orr_megatron_line(m, "position-embedding-type"), true,
                           "these positions are not modelled; none are assumed");
    }
    return "none";
}

static void put_targets(card *c) {
    for (size_t i = 0; i < orr_megatron_arg_count; i++) {
        const megatron_arg *arg = &orr_megatron_args[i];
        if (arg->target != NULL && strncmp(arg->target, "model.", 6) == 0 &&
            orr_megatron_has(c->m, arg->name)) {
            put_int(c, arg->target + 6, orr_megatron_int(c->m, arg->name), arg->name);
        }
    }
}

/* Without these there is no model; one that was given but is unknown was reported. */
static bool complete(const megatron *m) {
    static const char *const needed[] = {"num-layers", "hidden-size", "num-attention-heads"};
    bool all = true;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const char *name = needed[i];
        if (orr_megatron_given(m, name) == NULL) {
            orr_import_unknown(m->im, orr_arena_format(m->im->arena, "--%s", name), 0, true,
                               "it is not given");
        }
        int64_t value = orr_megatron_int(m, name);
        bool usable = value > 0 && value <= (i == 0 ? MEGATRON_MAX_LAYERS : 1 << 24);
        if (!usable && orr_megatron_has(m, name)) {
            orr_import_unknown(m->im, orr_arena_format(m->im->arena, "--%s", name),
                               orr_megatron_line(m, name), true, "it is out of range");
        }
        all = all && usable;
    }
    static const char *const optional[] = {
        "ffn-hidden-size", "kv-channels",         "num-query-groups", "num-experts",
        "vocab-size",      "moe-ffn-hidden-size", "moe-router-topk",  "mtp-num-layers"};
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
        const setting *s = orr_megatron_given(m, optional[i]);
        all = all && (s == NULL || s->unknown == NULL);
    }
    return all && orr_megatron_given(m, "hybrid-layer-pattern") == NULL;
}

/* The catalog's model; sizes that the file gives beside its name are not applied. */
static void model_by_name(megatron *m) {
    orr_import_put_text(m->im, "model", m->ground->model_name, 0);
    orr_import_assume(
        m->im, "model", m->ground->model_name,
        "the file that describes the model is not at hand: the catalog's of this name");
    static const char *const sizes[] = {
        "num-layers",  "hidden-size",     "ffn-hidden-size",     "num-attention-heads",
        "num-experts", "moe-router-topk", "moe-ffn-hidden-size", "num-query-groups",
        "vocab-size",  "kv-channels",     "mtp-num-layers",      "moe-layer-freq"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (orr_megatron_given(m, sizes[i]) != NULL) {
            orr_import_unknown(m->im, sizes[i], orr_megatron_line(m, sizes[i]), true,
                               "it changes the model, which is known by name only");
        }
    }
}

/* What pretrain_bert.py and other programs build beside decoder layers. */
static void put_program(card *c) {
    static const char *const others[] = {"t5",  "ict",   "vision", "vit",  "retro",  "mamba",
                                         "vlm", "realm", "dino",   "mimo", "hybrid", "retriever"};
    const char *program = c->m->ground->program;
    uint32_t line = c->m->ground->program_line;
    if (program == NULL) {
        return;
    }
    if (contains(program, "bert")) {
        put_flag(c, "encoder", true, NULL);
        put_int(c, "token_types", 2, NULL);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (contains(program, others[i])) {
            orr_import_unknown(
                c->m->im, program, line, true,
                "it trains more than the decoder layers that its arguments describe");
            return;
        }
    }
}

void orr_megatron_model(megatron *m) {
    if (m->ground->by_name) {
        model_by_name(m);
        return;
    }
    if (!complete(m)) {
        orr_import_ask(m->im, 0, "model", "the model is not known from this file; give --model");
        return;
    }
    orr_arena *arena = m->im->arena;
    card c = {.m = m, .arena = arena, .map = orr_tree_new_map(arena)};
    put_text(&c, "name", m->ground->model_name, NULL);
    put_targets(&c);
    put_vocab(&c);
    bool rms = orr_megatron_is(m, "normalization", "RMSNorm");
    put_text(&c, "norm", rms ? "rms" : "layer", "normalization");
    put_text(&c, "position", position(m), "position-embedding-type");
    put_flag(&c, "tied", !orr_megatron_flag(m, "untie-embeddings-and-output-weights"),
             "untie-embeddings-and-output-weights");
    put_attention(&c);
    put_mlp(&c);
    if (orr_megatron_int(m, "num-experts") > 0) {
        put_experts(&c);
    }
    if (!put_kinds(&c)) {
        orr_import_ask(m->im, 0, "model", "the model is not known from this file; give --model");
        return;
    }
    put_program(&c);
    orr_import_put(m->im, "model", c.map, orr_megatron_line(m, "num-layers"));
}
