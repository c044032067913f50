/* Plan keys as arguments of Megatron-LM: the inverse of megatron.c and megatron_model.c on what it
 * can be told. */
#include <string.h>

#include "base/err.h"
#include "exchange/exchange_int.h"

typedef struct exporter {
    orr_arena *arena;
    const orr_tree *keys;
    orr_text text;
    orr_tree *lost;
} exporter;

static void flag(exporter *x, const char *name) {
    orr_text_format(&x->text, "--%s\n", name);
}

static void option(exporter *x, const char *name, const char *value) {
    bool quote = strpbrk(value, " |()[]*'\"$&;<>") != NULL;
    const char *mark = !quote ? "" : strchr(value, '\'') != NULL ? "\"" : "'";
    orr_text_format(&x->text, "--%s %s%s%s\n", name, mark, value, mark);
}

static void option_int(exporter *x, const char *name, int64_t value) {
    orr_text_format(&x->text, "--%s %lld\n", name, (long long)value);
}

static const orr_tree *node(const exporter *x, const char *key) {
    const orr_tree *found = orr_tree_get(x->keys, key);
    return orr_tree_kind_of(found) == ORR_TREE_NULL ? NULL : found;
}
static int64_t number(const exporter *x, const char *key, int64_t otherwise) {
    return orr_tree_int(orr_tree_get(x->keys, key), otherwise);
}
static const char *word(const exporter *x, const char *key) {
    return orr_tree_text(orr_tree_get(x->keys, key), "");
}
static bool is(const exporter *x, const char *key, const char *value) {
    return orr_name_equal(word(x, key), value);
}

static void lose(exporter *x, const char *key, const char *value, const char *why) {
    orr_tree *entry = orr_tree_push(x->arena, x->lost, orr_tree_new_map(x->arena));
    orr_tree_put_text(x->arena, entry, "key", key);
    orr_tree_put_text(x->arena, entry, "value", value);
    orr_tree_put_text(x->arena, entry, "why", why);
}

/* A switch that is true, "on" or "true". */
static bool on(const exporter *x, const char *key) {
    return orr_tree_bool(orr_tree_get(x->keys, key), false) || is(x, key, "on") ||
           is(x, key, "true");
}

/* Whether a list, a comma-separated text, or "all" holds the word. */
static bool holds(const exporter *x, const char *key, const char *wanted) {
    const orr_tree *list = node(x, key);
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        if (orr_name_equal(orr_tree_text(orr_tree_at(list, i), ""), wanted)) {
            return true;
        }
    }
    const char *text = orr_tree_text(list, "");
    if (orr_name_equal(text, "all")) {
        return true;
    }
    size_t n = strlen(wanted);
    for (const char *p = text; *p != '\0';) {
        size_t length = strcspn(p, ", ");
        if (length == n && memcmp(p, wanted, n) == 0) {
            return true;
        }
        p += length + (p[length] != '\0');
    }
    return false;
}

/* ---- plan ----------------------------------------------------------------------------------- */

static void put_sizes(exporter *x) {
    static const char *const rows[][2] = {
        {"tp", "tensor-model-parallel-size"},   {"pp", "pipeline-model-parallel-size"},
        {"cp", "context-parallel-size"},        {"ep", "expert-model-parallel-size"},
        {"etp", "expert-tensor-parallel-size"}, {"mbs", "micro-batch-size"},
        {"gbs", "global-batch-size"},           {"seq", "seq-length"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (node(x, rows[i][0]) != NULL) {
            option_int(x, rows[i][1], number(x, rows[i][0], 0));
        }
    }
    if (on(x, "sp") && number(x, "tp", 1) > 1) {
        flag(x, "sequence-parallel");
    }
    static const char *const kinds[][2] = {
        {"ring", "p2p"}, {"allgather", "allgather"}, {"a2a", "a2a"}};
    for (size_t i = 0; i < 3; i++) {
        if (number(x, "cp", 1) > 1 && is(x, "cp_kind", kinds[i][0])) {
            option(x, "cp-comm-type", kinds[i][1]);
        }
    }
}

static bool is_layout_string(const char *layout) {
    return strchr(layout, '|') != NULL;
}

static void put_pipeline(exporter *x) {
    const char *layout = word(x, "layout");
    int64_t pp = number(x, "pp", 1), vpp = number(x, "vpp", 1);
    if (is_layout_string(layout)) {
        option(x, "pipeline-model-parallel-layout", layout);
    } else {
        if (holds(x, "layout", "embedding") && !is(x, "layout", "all")) {
            flag(x, "account-for-embedding-in-pipeline-split");
        }
        if (holds(x, "layout", "loss") && !is(x, "layout", "all")) {
            flag(x, "account-for-loss-in-pipeline-split");
        }
        if (pp > 1 && vpp > 1) {
            option_int(x, "num-virtual-stages-per-pipeline-rank", vpp);
        }
    }
    if (number(x, "first_layers", 0) > 0) {
        option_int(x, "decoder-first-pipeline-num-layers", number(x, "first_layers", 0));
    }
    if (number(x, "last_layers", 0) > 0) {
        option_int(x, "decoder-last-pipeline-num-layers", number(x, "last_layers", 0));
    }
    if (vpp > 1 && number(x, "group", 0) > 0) {
        option_int(x, "microbatch-group-size-per-virtual-pipeline-stage", number(x, "group", 0));
    }
    if (is(x, "p2p", "blocking") && vpp > 1) {
        flag(x, "no-overlap-p2p-communication");
    } else if (is(x, "p2p", "overlap-warmup-flush")) {
        flag(x, "overlap-p2p-communication-warmup-flush");
    } else if (is(x, "p2p", "async")) {
        lose(x, "p2p", "async", "Megatron-LM has no such mode");
    }
    const char *schedule = word(x, "schedule");
    bool usual = schedule[0] == '\0' || is(x, "schedule", "auto") ||
                 is(x, "schedule", vpp > 1 ? "interleaved" : "1f1b");
    if (!usual) {
        lose(x, "schedule", schedule, "Megatron-LM has 1f1b and interleaved only");
    }
    if (node(x, "placement") != NULL && !is(x, "placement", "even")) {
        lose(x, "placement", word(x, "placement"), "Megatron-LM splits evenly, or by a layout");
    }
}

static void put_precision(exporter *x) {
    static const char *const fp8[][2] = {{"fp8", "delayed"},
                                         {"fp8_cs", "tensorwise"},
                                         {"fp8_mx", "mxfp8"},
                                         {"fp8_blockwise", "blockwise"}};
    bool fp16 = is(x, "precision", "fp16");
    flag(x, fp16 ? "fp16" : "bf16");
    for (size_t i = 0; i < sizeof fp8 / sizeof *fp8; i++) {
        if (strcmp(word(x, "precision"), fp8[i][0]) == 0) {
            option(x, "fp8-format", "hybrid");
            option(x, "fp8-recipe", fp8[i][1]);
        }
    }
    if (is(x, "precision", "nvfp4")) {
        option(x, "fp4-format", "e2m1");
    }
    if (on(x, "fp8_params")) {
        flag(x, "fp8-param-gather");
    }
    if (fp16 && is(x, "grad_dtype", "fp32")) {
        flag(x, "accumulate-allreduce-grads-in-fp32");
    } else if (!fp16 && is(x, "grad_dtype", "bf16")) {
        flag(x, "grad-reduce-in-bf16");
    }
    static const char *const moments[][2] = {{"exp_avg_dtype", "exp-avg-dtype"},
                                             {"exp_avg_sq_dtype", "exp-avg-sq-dtype"}};
    bool aware = is(x, "master_dtype", "16bit");
    for (size_t i = 0; i < 2; i++) {
        aware = aware || (node(x, moments[i][0]) != NULL && !is(x, moments[i][0], "fp32"));
    }
    if (aware) {
        flag(x, "use-precision-aware-optimizer");
        for (size_t i = 0; i < 2; i++) {
            if (node(x, moments[i][0]) != NULL) {
                option(x, moments[i][1], word(x, moments[i][0]));
            }
        }
        if (is(x, "master_dtype", "16bit")) {
            option(x, "main-params-dtype", "fp16");
        }
    }
    if (is(x, "master_dtype", "none")) {
        lose(x, "master_dtype", "none", "Megatron-LM keeps main parameters");
    }
    if (is(x, "param_dtype", "fp32")) {
        lose(x, "param_dtype", "fp32", "Megatron-LM keeps 16-bit parameters");
    }
    if (is(x, "optimizer", "muon")) {
        option(x, "optimizer", "muon");
    } else if (is(x, "optimizer", "adam8bit")) {
        lose(x, "optimizer", "adam8bit", "Megatron-LM has no such optimizer");
    }
}

static void put_sharding(exporter *x) {
    if (is(x, "sharding", "zero1")) {
        flag(x, "use-distributed-optimizer");
    } else if (is(x, "sharding", "fsdp2")) {
        flag(x, "use-torch-fsdp2");
    } else if (is(x, "sharding", "zero2") || is(x, "sharding", "zero3") ||
               is(x, "sharding", "hsdp")) {
        flag(x, "use-megatron-fsdp");
        flag(x, "use-distributed-optimizer");
        option(x, "data-parallel-sharding-strategy",
               is(x, "sharding", "zero2") ? "optim_grads" : "optim_grads_params");
    }
    int64_t group = number(x, "shard_group", 0), gpus = number(x, "gpus", 0);
    int64_t split = number(x, "tp", 1), pp = number(x, "pp", 1);
    bool sane = group > 0 && gpus > 0 && split > 0 && pp > 0 && split <= 1 << 20 && pp <= 1 << 20;
    if (sane && gpus % (split * pp) == 0 && gpus / (split * pp) % group == 0) {
        if (gpus / (split * pp) / group > 1) {
            option_int(x, "num-distributed-optimizer-instances", gpus / (split * pp) / group);
        }
    } else if (group > 0) {
        lose(x, "shard_group", orr_arena_format(x->arena, "%lld", (long long)group),
             "it does not divide the data-parallel ranks");
    }
}

static void put_overlap(exporter *x) {
    if (holds(x, "overlap", "dp")) {
        flag(x, "overlap-grad-reduce");
        if (is(x, "sharding", "zero1") || is(x, "sharding", "zero3")) {
            flag(x, "overlap-param-gather");
        }
    }
    if (holds(x, "overlap", "tp") && number(x, "tp", 1) > 1) {
        flag(x, "tp-comm-overlap");
    }
    if (holds(x, "overlap", "ep") && number(x, "ep", 1) > 1) {
        flag(x, "overlap-moe-expert-parallel-comm");
    }
}

static void put_recompute(exporter *x) {
    const char *text = word(x, "recompute");
    const char *colon = strchr(text, ':');
    if (strncmp(text, "selective", 9) == 0) {
        option(x, "recompute-granularity", "selective");
        if (colon != NULL && colon[1] != '\0') {
            orr_text_add(&x->text, "--recompute-modules ");
            for (const char *p = colon + 1; *p != '\0'; p++) {
                orr_text_addn(&x->text, *p == '+' || *p == ',' ? " " : p, 1);
            }
            orr_text_add(&x->text, "\n");
        }
    } else if (strcmp(text, "full") == 0 || strncmp(text, "uniform:", 8) == 0 ||
               strncmp(text, "block:", 6) == 0) {
        option(x, "recompute-granularity", "full");
        option(x, "recompute-method", text[0] == 'b' ? "block" : "uniform");
        option(x, "recompute-num-layers", colon != NULL ? colon + 1 : "1");
    } else if (strcmp(text, "unknown") == 0) {
        lose(x, "recompute", text, "there is nothing to tell");
    }
}

static void option_real(exporter *x, const char *name, double value) {
    orr_text_format(&x->text, "--%s %.6g\n", name, value);
}

/* Capacity, imbalance, and what goes to host memory. */
static void put_load(exporter *x) {
    double capacity = orr_tree_real(node(x, "capacity"), 0);
    double share = orr_tree_real(node(x, "offload_optimizer"), 0);
    if (capacity > 0) {
        option_real(x, "moe-expert-capacity-factor", capacity);
        flag(x, "moe-pad-expert-input-to-capacity");
    }
    if (node(x, "imbalance") != NULL && !is(x, "imbalance", "balanced")) {
        lose(x, "imbalance", "stated", "how routing turns out is no setting");
    }
    if (number(x, "offload_layers", 0) > 0) {
        option_int(x, "cpu-offloading-num-layers", number(x, "offload_layers", 0));
    }
    if (share > 0) {
        flag(x, "optimizer-cpu-offload");
        option_real(x, "optimizer-offload-fraction", share);
    }
}

static void put_kernels(exporter *x) {
    if (is(x, "attention", "unfused")) {
        option(x, "attention-backend", "unfused");
    }
    if (is(x, "loss", "te")) {
        flag(x, "cross-entropy-loss-fusion");
        option(x, "cross-entropy-fusion-impl", "te");
    } else if (is(x, "loss", "fused") || is(x, "loss", "eager")) {
        lose(x, "loss", word(x, "loss"), "Megatron-LM has no such loss");
    }
    if (node(x, "dropout") != NULL) {
        if (!holds(x, "dropout", "hidden")) {
            option(x, "hidden-dropout", "0.0");
        }
        if (!holds(x, "dropout", "attention")) {
            option(x, "attention-dropout", "0.0");
        }
    }
    if (is(x, "dispatch", "alltoall") || is(x, "dispatch", "allgather")) {
        option(x, "moe-token-dispatcher-type", word(x, "dispatch"));
    } else if (is(x, "dispatch", "deepep")) {
        option(x, "moe-token-dispatcher-type", "flex");
        flag(x, "moe-enable-deepep");
    } else if (word(x, "dispatch")[0] != '\0') {
        lose(x, "dispatch", word(x, "dispatch"), "Megatron-LM has no such dispatch; Primus has");
    }
    put_load(x);
}

/* ---- model ---------------------------------------------------------------------------------- */

/* A card, with the layer kind whose fields go before the card's own. */
typedef struct card {
    exporter *x;
    const orr_tree *root, *kind;
} card;

static const orr_tree *field(const card *c, const char *name) {
    const orr_tree *found = orr_tree_get(c->kind, name);
    return found != NULL ? found : orr_tree_get(c->root, name);
}
static int64_t field_int(const card *c, const char *name, int64_t otherwise) {
    return orr_tree_int(field(c, name), otherwise);
}
static bool field_flag(const card *c, const char *name) {
    return orr_tree_bool(field(c, name), false);
}
static bool field_is(const card *c, const char *name, const char *value) {
    return strcmp(orr_tree_text(field(c, name), ""), value) == 0;
}
static void put_field(const card *c, const char *name, const char *option_name) {
    if (field_int(c, name, 0) > 0) {
        option_int(c->x, option_name, field_int(c, name, 0));
    }
}

static void put_attention(const card *c) {
    exporter *x = c->x;
    put_field(c, "heads", "num-attention-heads");
    if (field_is(c, "attention", "mla")) {
        int64_t rope = field_int(c, "rope_dim", 0);
        flag(x, "multi-latent-attention");
        put_field(c, "q_lora", "q-lora-rank");
        put_field(c, "kv_lora", "kv-lora-rank");
        option_int(x, "qk-head-dim", field_int(c, "head_dim", rope) - rope);
        option_int(x, "qk-pos-emb-head-dim", rope);
        put_field(c, "v_dim", "v-head-dim");
    } else if (field(c, "attention") != NULL && !field_is(c, "attention", "gqa")) {
        lose(x, "model.attention", orr_tree_text(field(c, "attention"), "?"),
             "not expressed in arguments");
    } else {
        int64_t heads = field_int(c, "heads", 0), groups = field_int(c, "kv_heads", heads);
        if (groups != heads) {
            flag(x, "group-query-attention");
            option_int(x, "num-query-groups", groups);
        }
        put_field(c, "head_dim", "kv-channels");
    }
    if (field_is(c, "qk_norm", "head")) {
        flag(x, "qk-layernorm");
    } else if (field_is(c, "qk_norm", "all")) {
        lose(x, "model.qk_norm", "all", "Megatron-LM norms each head");
    }
    if (field_flag(c, "sinks")) {
        option(x, "softmax-type", "learnable");
    }
    if (field_flag(c, "output_gate")) {
        flag(x, "attention-output-gate");
    }
}

static void put_mlp(const card *c) {
    exporter *x = c->x;
    bool gated = field_flag(c, "gated") || field(c, "gated") == NULL;
    if (gated && (field_is(c, "activation", "silu") || field(c, "activation") == NULL)) {
        flag(x, "swiglu");
    } else if (gated && field_is(c, "activation", "gelu")) {
        flag(x, "quick-geglu");
    } else if (!gated && field_is(c, "activation", "relu2")) {
        flag(x, "squared-relu");
    } else if (gated || !field_is(c, "activation", "gelu")) {
        lose(x, "model.activation", orr_tree_text(field(c, "activation"), "?"),
             "not expressed in arguments");
    }
    bool bias = field_flag(c, "bias_mlp");
    if (!bias) {
        flag(x, "disable-bias-linear");
        if (field_flag(c, "bias_qkv")) {
            flag(x, "add-qkv-bias");
        }
    }
    if (field_flag(c, "bias_out") != bias) {
        lose(x, "model.bias_out", bias ? "false" : "true", "all linear layers have biases or none");
    }
}

static void put_experts(const card *c) {
    exporter *x = c->x;
    put_field(c, "experts", "num-experts");
    put_field(c, "topk", "moe-router-topk");
    put_field(c, "expert_ffn", "moe-ffn-hidden-size");
    put_field(c, "shared_ffn", "moe-shared-expert-intermediate-size");
    put_field(c, "groups", "moe-router-num-groups");
    put_field(c, "group_topk", "moe-router-group-topk");
    put_field(c, "latent", "moe-latent-size");
    if (field_flag(c, "shared_gate")) {
        flag(x, "moe-shared-expert-gate");
    }
    if (field_is(c, "router", "sigmoid")) {
        option(x, "moe-router-score-function", "sigmoid");
    } else if (field_is(c, "router", "softmax_before")) {
        flag(x, "moe-router-pre-softmax");
    }
    if (field_flag(c, "router_bias")) {
        flag(x, "moe-router-enable-expert-bias");
    }
    flag(x, "moe-grouped-gemm");
}

static bool is_moe(const card *c, const orr_tree *kind) {
    const card one = {.x = c->x, .root = c->root, .kind = kind};
    return field_int(&one, "experts", 0) > 0;
}

static int64_t window_in(const card *c, const orr_tree *kind) {
    const card one = {.x = c->x, .root = c->root, .kind = kind};
    return field_int(&one, "window", 0);
}

/* One layer list: "([0]*3+[1]*58)". */
typedef struct layer_list {
    orr_text text;
    size_t zeros, ones;
} layer_list;

static void list_add(layer_list *list, bool one, int64_t count) {
    orr_text_format(&list->text, "%s[%d]*%lld", list->text.length > 0 ? "+" : "", one,
                    (long long)count);
    list->ones += one;
    list->zeros += !one;
}

static void put_list(const card *c, const char *name, layer_list *list) {
    if (list->zeros > 0 && list->ones > 0) {
        option(c->x, name, orr_arena_format(c->x->arena, "(%s)", orr_text_done(&list->text)));
    }
}

/* The pattern as lists of MoE and of windowed layers; false when it is not understood. */
static bool put_pattern(const card *c, const orr_tree *kinds) {
    const orr_tree *pattern = orr_tree_get(c->root, "pattern");
    layer_list moe = {.text = orr_text_new(c->x->arena, 1 << 16)};
    layer_list windowed = {.text = orr_text_new(c->x->arena, 1 << 16)};
    int64_t total = 0, layers = orr_tree_int(orr_tree_get(c->root, "layers"), 0);
    if (orr_tree_size(pattern) == 0) {
        return false;
    }
    for (size_t i = 0; total < layers && i < 4096; i++) {
        const char *run = orr_tree_text(orr_tree_at(pattern, i % orr_tree_size(pattern)), "");
        const char *star = strchr(run, '*');
        int64_t count = 1;
        if ((star != NULL && !orr_parse_int(star + 1, &count)) || count < 1 || count > layers) {
            return false;
        }
        count = count < layers - total ? count : layers - total;
        size_t length = star != NULL ? (size_t)(star - run) : strlen(run);
        const orr_tree *kind = orr_tree_get(kinds, orr_arena_copy(c->x->arena, run, length));
        list_add(&moe, is_moe(c, kind), count);
        list_add(&windowed, window_in(c, kind) > 0, count);
        total += count;
    }
    put_list(c, "moe-layer-freq", &moe);
    put_list(c, "window-attn-skip-freq", &windowed);
    return true;
}

static void put_window(const card *c, int64_t window) {
    if (window > 0) {
        option(c->x, "window-size", orr_arena_format(c->x->arena, "(%lld,0)", (long long)window));
    }
}

/* Kinds may differ in experts and in one width of window, in nothing else that is looked at. */
static void put_layers(card *c) {
    const orr_tree *kinds = orr_tree_get(c->root, "kinds");
    const orr_tree *dense = NULL, *moe = NULL;
    size_t count = orr_tree_size(kinds);
    int64_t window = count > 0 ? 0 : window_in(c, NULL);
    for (size_t i = 0; i < count; i++) {
        const orr_tree *kind = orr_tree_at(kinds, i);
        const orr_tree **slot = is_moe(c, kind) ? &moe : &dense;
        int64_t own = window_in(c, kind);
        bool other_window = own > 0 && window > 0 && own != window;
        window = own > 0 ? own : window;
        bool twin = *slot != NULL && (own > 0) != (window_in(c, *slot) > 0);
        if (other_window || (*slot != NULL && !twin)) {
            lose(c->x, "model.kinds", orr_tree_key(kinds, i),
                 "these kinds of layers are not expressed in arguments");
        }
        *slot = *slot != NULL ? *slot : kind;
    }
    c->kind = dense != NULL ? dense : moe;
    put_attention(c);
    put_mlp(c);
    put_field(c, "ffn", "ffn-hidden-size");
    put_window(c, window);
    if (count > 0 ? moe != NULL : is_moe(c, NULL)) {
        c->kind = moe;
        put_experts(c);
    }
    if (count > 1 && !put_pattern(c, kinds)) {
        lose(c->x, "model.pattern", "", "it is not understood");
    }
}

static void put_model(exporter *x) {
    const orr_tree *model = node(x, "model");
    if (orr_tree_kind_of(model) != ORR_TREE_MAP) {
        if (model != NULL) {
            lose(x, "model", orr_tree_text(model, "?"), "a name is no arguments; its card is");
        }
        return;
    }
    card c = {.x = x, .root = model};
    put_field(&c, "layers", "num-layers");
    put_field(&c, "hidden", "hidden-size");
    put_field(&c, "max_seq", "max-position-embeddings");
    put_field(&c, "vocab", "vocab-size");
    put_field(&c, "mtp_layers", "mtp-num-layers");
    if (!field_is(&c, "norm", "layer")) {
        option(x, "normalization", "RMSNorm");
    }
    if (field_is(&c, "position", "none")) {
        option(x, "position-embedding-type", "none");
    } else if (field_is(&c, "position", "alibi")) {
        lose(x, "model.position", "alibi", "Megatron-LM has no such positions");
    } else if (!field_is(&c, "position", "learned")) {
        option(x, "position-embedding-type", "rope");
    }
    if (!field_flag(&c, "tied")) {
        flag(x, "untie-embeddings-and-output-weights");
    }
    put_layers(&c);
}

static const char *launcher(const exporter *x) {
    int64_t gpus = number(x, "gpus", 0), nodes = number(x, "nodes", 0);
    int64_t each = number(x, "gpus_per_node", 0);
    if (gpus > 0 && nodes == 0) {
        nodes = each > 0 && gpus % each == 0 ? gpus / each : gpus % 8 == 0 ? gpus / 8 : 1;
    }
    if (gpus < 1 || nodes < 1 || gpus % nodes != 0) {
        return "";
    }
    return orr_arena_format(x->arena, "torchrun --nnodes %lld --nproc-per-node %lld",
                            (long long)nodes, (long long)(gpus / nodes));
}

/* Numbers where numbers are meant: nothing below checks again. */
static orr_status check_numbers(const exporter *x, orr_err *err) {
    static const char *const names[] = {"tp",    "pp",          "cp",           "ep",
                                        "etp",   "vpp",         "mbs",          "gbs",
                                        "gpus",  "nodes",       "first_layers", "last_layers",
                                        "group", "shard_group", "gpus_per_node"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const orr_tree *value = node(x, names[i]);
        if (value != NULL && orr_tree_int(value, -1) < 0) {
            return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(value),
                               "\"%s\" must be a whole number", names[i]);
        }
    }
    const orr_tree *seq = node(x, "seq");
    if (seq != NULL && orr_tree_int(seq, -1) < 1) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(seq),
                           "\"seq\" must be a whole number of tokens here");
    }
    return ORR_OK;
}

orr_status orr_export_megatron(orr_arena *arena, const orr_tree *keys, orr_export *out,
                               orr_err *err) {
    exporter x = {.arena = arena,
                  .keys = keys,
                  .text = orr_text_new(arena, 1 << 20),
                  .lost = orr_tree_new_list(arena)};
    if (orr_tree_kind_of(keys) != ORR_TREE_MAP) {
        return orr_fail(err, ORR_E_SCHEMA, "an export needs a map of plan keys");
    }
    ORR_TRY(check_numbers(&x, err));
    put_model(&x);
    put_sizes(&x);
    put_pipeline(&x);
    put_precision(&x);
    put_sharding(&x);
    put_overlap(&x);
    put_recompute(&x);
    put_kernels(&x);
    *out =
        (orr_export){.launcher = launcher(&x), .arguments = orr_text_done(&x.text), .lost = x.lost};
    return ORR_OK;
}
