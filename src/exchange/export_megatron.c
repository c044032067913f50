/* Plan keys as arguments of Megatron-LM: the inverse of megatron.c and megatron_model.c on what it
 * can be told. */
#include <string.h>

#include "base/err.h"
#include "exchange/exchange_int.h"
#include "exchange/export.h"

/* ---- plan ----------------------------------------------------------------------------------- */

static void put_sizes(exporter *x) {
    static const char *const rows[][2] = {
        {"tp", "tensor-model-parallel-size"},   {"pp", "pipeline-model-parallel-size"},
        {"cp", "context-parallel-size"},        {"ep", "expert-model-parallel-size"},
        {"etp", "expert-tensor-parallel-size"}, {"mbs", "micro-batch-size"},
        {"gbs", "global-batch-size"},           {"seq", "seq-length"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool expert = rows[i][0][0] == 'e';
        if (orr_export_node(x, rows[i][0]) != NULL && (!expert || orr_export_has_experts(x))) {
            orr_export_int(x, rows[i][1], orr_export_number(x, rows[i][0], 0));
        }
    }
    if (orr_export_on(x, "sp") && orr_export_number(x, "tp", 1) > 1) {
        orr_export_flag(x, "sequence-parallel", true);
    }
    static const char *const kinds[][2] = {
        {"ring", "p2p"}, {"allgather", "allgather"}, {"a2a", "a2a"}};
    for (size_t i = 0; i < 3; i++) {
        if (orr_export_number(x, "cp", 1) > 1 && orr_export_is(x, "cp_kind", kinds[i][0])) {
            orr_export_text(x, "cp-comm-type", kinds[i][1]);
        }
    }
}

static bool is_layout_string(const char *layout) {
    return strchr(layout, '|') != NULL;
}

static void put_pipeline(exporter *x) {
    if (orr_export_is(x, "rank_order", "tp-cp-ep-pp-dp")) {
        orr_export_flag(x, "use-tp-pp-dp-mapping", true);
    }
    const char *layout = orr_export_word(x, "layout");
    int64_t pp = orr_export_number(x, "pp", 1), vpp = orr_export_number(x, "vpp", 1);
    if (is_layout_string(layout)) {
        orr_export_text(x, "pipeline-model-parallel-layout", layout);
    } else {
        if (orr_export_holds(x, "layout", "embedding") && !orr_export_is(x, "layout", "all")) {
            orr_export_flag(x, "account-for-embedding-in-pipeline-split", true);
        }
        if (orr_export_holds(x, "layout", "loss") && !orr_export_is(x, "layout", "all")) {
            orr_export_flag(x, "account-for-loss-in-pipeline-split", true);
        }
        if (pp > 1 && vpp > 1) {
            orr_export_int(x, "num-virtual-stages-per-pipeline-rank", vpp);
        }
    }
    if (orr_export_number(x, "first_layers", 0) > 0) {
        orr_export_int(x, "decoder-first-pipeline-num-layers",
                       orr_export_number(x, "first_layers", 0));
    }
    if (orr_export_number(x, "last_layers", 0) > 0) {
        orr_export_int(x, "decoder-last-pipeline-num-layers",
                       orr_export_number(x, "last_layers", 0));
    }
    if (vpp > 1 && orr_export_number(x, "group", 0) > 0) {
        orr_export_int(x, "microbatch-group-size-per-virtual-pipeline-stage",
                       orr_export_number(x, "group", 0));
    }
    if (orr_export_is(x, "p2p", "blocking") && vpp > 1) {
        orr_export_flag(x, "overlap-p2p-comm", false);
    } else if (orr_export_is(x, "p2p", "overlap-warmup-flush")) {
        orr_export_flag(x, "overlap-p2p-communication-warmup-flush", true);
    } else if (orr_export_is(x, "p2p", "async")) {
        orr_export_lose(x, "p2p", "async", "Megatron-LM has no such mode");
    }
    const char *schedule = orr_export_word(x, "schedule");
    bool usual = schedule[0] == '\0' || orr_export_is(x, "schedule", "auto") ||
                 orr_export_is(x, "schedule", vpp > 1 ? "interleaved" : "1f1b");
    const char *algorithm = x->primus ? orr_primus_algorithm(schedule) : NULL;
    if (!usual && algorithm != NULL) {
        orr_export_flag(x, "patch-primus-pipeline", true);
        orr_export_text(x, "pp-algorithm", algorithm);
    } else if (!usual) {
        orr_export_lose(x, "schedule", schedule, "Megatron-LM has 1f1b and interleaved only");
    }
    if (orr_export_node(x, "placement") != NULL && !orr_export_is(x, "placement", "even")) {
        orr_export_lose(x, "placement", orr_export_word(x, "placement"),
                        "Megatron-LM splits evenly, or by a layout");
    }
}

static void put_precision(exporter *x) {
    static const char *const fp8[][2] = {{"fp8", "delayed"},
                                         {"fp8_cs", "tensorwise"},
                                         {"fp8_mx", "mxfp8"},
                                         {"fp8_blockwise", "blockwise"}};
    bool fp16 = orr_export_is(x, "precision", "fp16");
    orr_export_flag(x, fp16 ? "fp16" : "bf16", true);
    for (size_t i = 0; i < sizeof fp8 / sizeof *fp8; i++) {
        if (strcmp(orr_export_word(x, "precision"), fp8[i][0]) == 0) {
            orr_export_text(x, "fp8-format", "hybrid");
            orr_export_text(x, "fp8-recipe", fp8[i][1]);
        }
    }
    if (orr_export_is(x, "precision", "nvfp4")) {
        orr_export_text(x, "fp4-format", "e2m1");
    }
    if (orr_export_on(x, "fp8_params")) {
        orr_export_flag(x, "fp8-param-gather", true);
    }
    if (orr_export_on(x, "fp8_attention")) {
        orr_export_flag(x, "fp8-dot-product-attention", true);
    }
    if (orr_export_node(x, "fp8_attention_backward") != NULL &&
        !orr_export_on(x, "fp8_attention_backward")) {
        orr_export_lose(x, "fp8_attention_backward", "off",
                        "no argument says it: export NVTE_FP8_DPA_BWD=0");
    }
    if (fp16 && orr_export_is(x, "grad_dtype", "fp32")) {
        orr_export_flag(x, "accumulate-allreduce-grads-in-fp32", true);
    } else if (!fp16 && orr_export_is(x, "grad_dtype", "bf16")) {
        orr_export_flag(x, "grad-reduce-in-bf16", true);
    }
    static const char *const moments[][2] = {{"exp_avg_dtype", "exp-avg-dtype"},
                                             {"exp_avg_sq_dtype", "exp-avg-sq-dtype"}};
    bool aware = orr_export_is(x, "master_dtype", "16bit");
    for (size_t i = 0; i < 2; i++) {
        aware = aware || (orr_export_node(x, moments[i][0]) != NULL &&
                          !orr_export_is(x, moments[i][0], "fp32"));
    }
    if (aware) {
        orr_export_flag(x, "use-precision-aware-optimizer", true);
        for (size_t i = 0; i < 2; i++) {
            if (orr_export_node(x, moments[i][0]) != NULL) {
                orr_export_text(x, moments[i][1], orr_export_word(x, moments[i][0]));
            }
        }
        if (orr_export_is(x, "master_dtype", "16bit")) {
            orr_export_text(x, "main-params-dtype", "fp16");
        }
    }
    if (orr_export_is(x, "master_dtype", "none")) {
        orr_export_lose(x, "master_dtype", "none", "Megatron-LM keeps main parameters");
    }
    if (orr_export_is(x, "param_dtype", "fp32")) {
        orr_export_lose(x, "param_dtype", "fp32", "Megatron-LM keeps 16-bit parameters");
    }
    if (orr_export_is(x, "optimizer", "muon")) {
        /* without Megatron's distributed optimizer, which muon refuses */
        orr_export_text(x, "optimizer",
                        orr_export_is(x, "sharding", "zero1") ? "dist_muon" : "muon");
    } else if (orr_export_is(x, "optimizer", "adam8bit")) {
        orr_export_lose(x, "optimizer", "adam8bit", "Megatron-LM has no such optimizer");
    }
}

static void put_sharding(exporter *x) {
    if (orr_export_is(x, "sharding", "zero1")) {
        orr_export_flag(x, "use-distributed-optimizer", !orr_export_is(x, "optimizer", "muon"));
    } else if (orr_export_is(x, "sharding", "fsdp2")) {
        orr_export_flag(x, "use-torch-fsdp2", true);
    } else if (orr_export_is(x, "sharding", "zero2") || orr_export_is(x, "sharding", "zero3") ||
               orr_export_is(x, "sharding", "hsdp")) {
        orr_export_flag(x, "use-megatron-fsdp", true);
        orr_export_flag(x, "use-distributed-optimizer", true);
        orr_export_text(x, "data-parallel-sharding-strategy",
                        orr_export_is(x, "sharding", "zero2") ? "optim_grads"
                                                              : "optim_grads_params");
    }
    int64_t group = orr_export_number(x, "shard_group", 0), gpus = orr_export_number(x, "gpus", 0);
    int64_t split = orr_export_number(x, "tp", 1), pp = orr_export_number(x, "pp", 1);
    bool sane = group > 0 && gpus > 0 && split > 0 && pp > 0 && split <= 1 << 20 && pp <= 1 << 20;
    if (sane && gpus % (split * pp) == 0 && gpus / (split * pp) % group == 0) {
        if (gpus / (split * pp) / group > 1) {
            orr_export_int(x, "num-distributed-optimizer-instances", gpus / (split * pp) / group);
        }
    } else if (group > 0) {
        orr_export_lose(x, "shard_group", orr_arena_format(x->arena, "%lld", (long long)group),
                        "it does not divide the data-parallel ranks");
    }
}

static void put_overlap(exporter *x) {
    if (orr_export_holds(x, "overlap", "dp")) {
        orr_export_flag(x, "overlap-grad-reduce", true);
        if (orr_export_is(x, "sharding", "zero1") || orr_export_is(x, "sharding", "zero3")) {
            orr_export_flag(x, "overlap-param-gather", true);
        }
    }
    if (orr_export_holds(x, "overlap", "tp") && orr_export_number(x, "tp", 1) > 1) {
        orr_export_flag(x, "tp-comm-overlap", true);
    }
    if (orr_export_holds(x, "overlap", "ep") && orr_export_number(x, "ep", 1) > 1) {
        orr_export_flag(x, "overlap-moe-expert-parallel-comm", true);
    }
}

/* "a+b" or "a,b" as a list. */
static orr_tree *words_of(orr_arena *arena, const char *text) {
    orr_tree *list = orr_tree_new_list(arena);
    while (*text != '\0') {
        size_t length = strcspn(text, "+, ");
        if (length > 0) {
            orr_tree_push(arena, list, orr_tree_new_textn(arena, text, length));
        }
        text += length + (text[length] != '\0');
    }
    return list;
}

static void put_recompute(exporter *x) {
    const char *text = orr_export_word(x, "recompute");
    const char *colon = strchr(text, ':');
    if (strncmp(text, "selective", 9) == 0) {
        orr_export_text(x, "recompute-granularity", "selective");
        if (colon != NULL && colon[1] != '\0') {
            orr_export_set(x, "recompute-modules", words_of(x->arena, colon + 1));
        }
    } else if (strcmp(text, "full") == 0 || strncmp(text, "uniform:", 8) == 0 ||
               strncmp(text, "block:", 6) == 0) {
        orr_export_text(x, "recompute-granularity", "full");
        orr_export_text(x, "recompute-method", text[0] == 'b' ? "block" : "uniform");
        int64_t count = 1;
        (void)orr_parse_int(colon != NULL ? colon + 1 : "1", &count);
        orr_export_int(x, "recompute-num-layers", count);
    } else if (strcmp(text, "unknown") == 0) {
        orr_export_lose(x, "recompute", text, "there is nothing to tell");
    }
}

static void option_real(exporter *x, const char *name, double value) {
    orr_export_set(x, name, orr_tree_new_real(x->arena, value));
}

/* Capacity, imbalance, and what goes to host memory. */
static void put_load(exporter *x) {
    double capacity = orr_tree_real(orr_export_node(x, "capacity"), 0);
    double share = orr_tree_real(orr_export_node(x, "offload_optimizer"), 0);
    if (capacity > 0) {
        option_real(x, "moe-expert-capacity-factor", capacity);
        orr_export_flag(x, "moe-pad-expert-input-to-capacity", true);
    }
    if (orr_export_node(x, "imbalance") != NULL && !orr_export_is(x, "imbalance", "balanced")) {
        orr_export_lose(x, "imbalance", "stated", "how routing turns out is no setting");
    }
    if (orr_export_number(x, "offload_layers", 0) > 0) {
        orr_export_int(x, "cpu-offloading-num-layers", orr_export_number(x, "offload_layers", 0));
    }
    if (share > 0) {
        orr_export_flag(x, "optimizer-cpu-offload", true);
        option_real(x, "optimizer-offload-fraction", share);
    }
}

static void put_kernels(exporter *x) {
    if (orr_export_is(x, "attention", "unfused")) {
        orr_export_text(x, "attention-backend", "unfused");
    }
    if (orr_export_is(x, "loss", "te")) {
        orr_export_flag(x, "cross-entropy-loss-fusion", true);
        orr_export_text(x, "cross-entropy-fusion-impl", "te");
    } else if (orr_export_is(x, "loss", "fused") || orr_export_is(x, "loss", "eager")) {
        orr_export_lose(x, "loss", orr_export_word(x, "loss"), "Megatron-LM has no such loss");
    }
    if (orr_export_node(x, "dropout") != NULL) {
        if (!orr_export_holds(x, "dropout", "hidden")) {
            orr_export_set(x, "hidden-dropout", orr_tree_new_real(x->arena, 0));
        }
        if (!orr_export_holds(x, "dropout", "attention")) {
            orr_export_set(x, "attention-dropout", orr_tree_new_real(x->arena, 0));
        }
    }
    if (!orr_export_has_experts(x)) {
        put_load(x);
        return;
    }
    if (orr_export_is(x, "dispatch", "alltoall") || orr_export_is(x, "dispatch", "allgather")) {
        orr_export_text(x, "moe-token-dispatcher-type", orr_export_word(x, "dispatch"));
    } else if (orr_export_is(x, "dispatch", "deepep")) {
        orr_export_text(x, "moe-token-dispatcher-type", "flex");
        orr_export_flag(x, "moe-enable-deepep", true);
    } else if (x->primus && strncmp(orr_export_word(x, "dispatch"), "sync-free-", 10) == 0) {
        orr_export_text(x, "moe-token-dispatcher-type", "flex");
        orr_export_flag(x, "enable-primus-turbo", true);
        orr_export_flag(x, "use-turbo-deepep", true);
        orr_export_int(x, "turbo-sync-free-moe-stage", orr_export_word(x, "dispatch")[10] - '0');
    } else if (orr_export_word(x, "dispatch")[0] != '\0') {
        orr_export_lose(x, "dispatch", orr_export_word(x, "dispatch"),
                        "Megatron-LM has no such dispatch; Primus has");
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
        orr_export_int(c->x, option_name, field_int(c, name, 0));
    }
}

static void put_attention(const card *c) {
    exporter *x = c->x;
    put_field(c, "heads", "num-attention-heads");
    if (field_is(c, "attention", "mla")) {
        int64_t rope = field_int(c, "rope_dim", 0);
        orr_export_flag(x, "multi-latent-attention", true);
        put_field(c, "q_lora", "q-lora-rank");
        put_field(c, "kv_lora", "kv-lora-rank");
        orr_export_int(x, "qk-head-dim", field_int(c, "head_dim", rope) - rope);
        orr_export_int(x, "qk-pos-emb-head-dim", rope);
        put_field(c, "v_dim", "v-head-dim");
    } else if (field(c, "attention") != NULL && !field_is(c, "attention", "gqa")) {
        orr_export_lose(x, "model.attention", orr_tree_text(field(c, "attention"), "?"),
                        "not expressed in arguments");
    } else {
        int64_t heads = field_int(c, "heads", 0), groups = field_int(c, "kv_heads", heads);
        if (groups != heads) {
            orr_export_flag(x, "group-query-attention", true);
            orr_export_int(x, "num-query-groups", groups);
        }
        put_field(c, "head_dim", "kv-channels");
    }
    if (field_is(c, "qk_norm", "head")) {
        orr_export_flag(x, "qk-layernorm", true);
    } else if (field_is(c, "qk_norm", "all")) {
        orr_export_lose(x, "model.qk_norm", "all", "Megatron-LM norms each head");
    }
    if (field_flag(c, "sinks")) {
        orr_export_text(x, "softmax-type", "learnable");
    }
    if (field_flag(c, "output_gate")) {
        orr_export_flag(x, "attention-output-gate", true);
    }
}

static void put_mlp(const card *c) {
    exporter *x = c->x;
    bool gated = field_flag(c, "gated") || field(c, "gated") == NULL;
    if (gated && (field_is(c, "activation", "silu") || field(c, "activation") == NULL)) {
        orr_export_flag(x, "swiglu", true);
    } else if (gated && field_is(c, "activation", "gelu")) {
        orr_export_flag(x, "quick-geglu", true);
    } else if (!gated && field_is(c, "activation", "relu2")) {
        orr_export_flag(x, "squared-relu", true);
    } else if (gated || !field_is(c, "activation", "gelu")) {
        orr_export_lose(x, "model.activation", orr_tree_text(field(c, "activation"), "?"),
                        "not expressed in arguments");
    }
    bool bias = field_flag(c, "bias_mlp");
    if (!bias) {
        orr_export_flag(x, "add-bias-linear", false);
        if (field_flag(c, "bias_qkv")) {
            orr_export_flag(x, "add-qkv-bias", true);
        }
    }
    if (field_flag(c, "bias_out") != bias) {
        orr_export_lose(x, "model.bias_out", bias ? "false" : "true",
                        "all linear layers have biases or none");
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
        orr_export_flag(x, "moe-shared-expert-gate", true);
    }
    if (field_is(c, "router", "sigmoid")) {
        orr_export_text(x, "moe-router-score-function", "sigmoid");
    } else if (field_is(c, "router", "softmax_before")) {
        orr_export_flag(x, "moe-router-pre-softmax", true);
    }
    if (field_flag(c, "router_bias")) {
        orr_export_flag(x, "moe-router-enable-expert-bias", true);
    }
    orr_export_flag(x, "moe-grouped-gemm", true);
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
        orr_export_text(c->x, name,
                        orr_arena_format(c->x->arena, "(%s)", orr_text_done(&list->text)));
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
        orr_export_text(c->x, "window-size",
                        orr_arena_format(c->x->arena, "(%lld,0)", (long long)window));
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
            orr_export_lose(c->x, "model.kinds", orr_tree_key(kinds, i),
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
        orr_export_lose(c->x, "model.pattern", "", "it is not understood");
    }
}

static void put_model(exporter *x) {
    const orr_tree *model = x->model;
    if (model == NULL) {
        if (x->model_name[0] != '\0') {
            orr_export_lose(x, "model", x->model_name, "a name is no arguments; its card is");
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
        orr_export_text(x, "normalization", "RMSNorm");
    }
    if (field_is(&c, "position", "none")) {
        orr_export_text(x, "position-embedding-type", "none");
    } else if (field_is(&c, "position", "alibi")) {
        orr_export_lose(x, "model.position", "alibi", "Megatron-LM has no such positions");
    } else if (!field_is(&c, "position", "learned")) {
        orr_export_text(x, "position-embedding-type", "rope");
    }
    if (!field_flag(&c, "tied")) {
        orr_export_flag(x, "untie-embeddings-and-output-weights", true);
    }
    put_layers(&c);
}

void orr_export_fill_megatron(exporter *x) {
    put_model(x);
    put_sizes(x);
    put_pipeline(x);
    put_precision(x);
    put_sharding(x);
    put_overlap(x);
    put_recompute(x);
    put_kernels(x);
}
