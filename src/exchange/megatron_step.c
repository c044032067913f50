/* What Megatron-LM's settings say of a step beside its split: numbers, sharding, overlap,
 * recompute, kernels. */
#include <string.h>

#include "exchange/megatron_int.h"

void orr_megatron_precision(megatron *m) {
    importer *im = m->im;
    bool fp16 = orr_megatron_flag(m, "fp16"), bf16 = orr_megatron_flag(m, "bf16");
    const char *value = fp16 ? "fp16" : "bf16";
    uint32_t line = orr_megatron_line(m, fp16 ? "fp16" : "bf16");
    if (!fp16 && !bf16) {
        orr_import_assume(
            im, "precision", "bf16",
            "neither --bf16 nor --fp16: Megatron-LM would train in fp32, which is not "
            "modelled");
        orr_import_unknown(im, "fp32 training", 0, true, "neither --bf16 nor --fp16 is given");
    }
    const char *fp8 = orr_megatron_text(m, "fp8-format");
    if (fp8[0] != '\0') {
        static const char *const recipes[][2] = {{"delayed", "fp8"},
                                                 {"tensorwise", "fp8_cs"},
                                                 {"mxfp8", "fp8_mx"},
                                                 {"blockwise", "fp8_blockwise"}};
        const char *recipe = orr_megatron_text(m, "fp8-recipe"), *found = NULL;
        for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
            found = strcmp(recipe, recipes[i][0]) == 0 ? recipes[i][1] : found;
        }
        line = orr_megatron_line(m, "fp8-format");
        if (found == NULL) {
            orr_import_unknown(im, "--fp8-recipe", orr_megatron_line(m, "fp8-recipe"), true,
                               "this recipe is not modelled");
        }
        value = found != NULL ? found : "fp8";
    } else if (orr_megatron_text(m, "fp4-format")[0] != '\0') {
        value = "nvfp4";
        line = orr_megatron_line(m, "fp4-format");
    }
    orr_import_put_text(im, "precision", value, line);
    if (fp8[0] != '\0' && orr_megatron_flag(m, "fp8-param-gather")) {
        orr_import_put(im, "fp8_params", orr_tree_new_bool(im->arena, true),
                       orr_megatron_line(m, "fp8-param-gather"));
    }
    const char *attention = orr_megatron_flag(m, "fp8-dot-product-attention")
                                ? "fp8-dot-product-attention"
                                : "fp8-multi-head-attention";
    if (orr_megatron_flag(m, attention)) {
        orr_import_put(im, "fp8_attention", orr_tree_new_bool(im->arena, true),
                       orr_megatron_line(m, attention));
    }
    /* bf16 accumulates in fp32 unless told otherwise, fp16 only when told. */
    bool aware = orr_megatron_flag(m, "use-precision-aware-optimizer");
    bool half = orr_megatron_flag(m, "grad-reduce-in-bf16") ||
                (fp16 && !orr_megatron_flag(m, "accumulate-allreduce-grads-in-fp32")) ||
                (aware && !orr_megatron_is(m, "main-grads-dtype", "fp32"));
    orr_import_put_text(
        im, "grad_dtype", half ? "bf16" : "fp32",
        orr_megatron_line(m, half ? "grad-reduce-in-bf16" : "accumulate-allreduce-grads-in-fp32"));
    if (aware) {
        static const char *const rows[][2] = {{"exp-avg-dtype", "exp_avg_dtype"},
                                              {"exp-avg-sq-dtype", "exp_avg_sq_dtype"}};
        for (size_t i = 0; i < 2; i++) {
            orr_import_put_text(im, rows[i][1], orr_megatron_text(m, rows[i][0]),
                                orr_megatron_line(m, rows[i][0]));
        }
        bool main16 = orr_megatron_is(m, "main-params-dtype", "fp16");
        orr_import_put_text(im, "master_dtype", main16 ? "16bit" : "fp32",
                            orr_megatron_line(m, "main-params-dtype"));
    }
    const char *optimizer = orr_megatron_text(m, "optimizer");
    line = orr_megatron_line(m, "optimizer");
    if (strcmp(optimizer, "adam") == 0) {
        orr_import_put_text(im, "optimizer", "adam", line);
    } else if (strcmp(optimizer, "muon") == 0 || strcmp(optimizer, "dist_muon") == 0) {
        orr_import_put_text(im, "optimizer", "muon", line);
    } else {
        orr_import_unknown(im, "--optimizer", line, true,
                           orr_arena_format(im->arena, "\"%.40s\" is not modelled", optimizer));
    }
}

void orr_megatron_sharding(megatron *m) {
    importer *im = m->im;
    const char *value = "none", *from = "use-distributed-optimizer";
    if (orr_megatron_flag(m, "use-torch-fsdp2")) {
        from = "use-torch-fsdp2";
        value = orr_megatron_flag(m, "torch-fsdp2-reshard-after-forward") ? "fsdp2" : "zero2";
    } else if (orr_megatron_flag(m, "use-megatron-fsdp")) {
        static const char *const kinds[][2] = {{"no_shard", "none"},
                                               {"optim", "zero1"},
                                               {"optim_grads", "zero2"},
                                               {"optim_grads_params", "zero3"}};
        from = "data-parallel-sharding-strategy";
        const char *strategy = orr_megatron_text(m, from);
        value = NULL;
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            value = strcmp(strategy, kinds[i][0]) == 0 ? kinds[i][1] : value;
        }
        if (value == NULL) {
            orr_import_unknown(im, "--data-parallel-sharding-strategy", orr_megatron_line(m, from),
                               true, "its value is not known");
            return;
        }
        if (orr_megatron_given(m, from) == NULL) {
            orr_import_assume(
                im, "sharding", value,
                "--use-megatron-fsdp without a strategy: the default since core_v0.16");
        }
    } else if (orr_megatron_flag(m, from)) {
        value = "zero1";
    } else if (strcmp(orr_megatron_text(m, "optimizer"), "dist_muon") == 0) {
        from = "optimizer"; /* whole matrices and their states are dealt out */
        value = "zero1";
    }
    orr_import_put_text(im, "sharding", value, orr_megatron_line(m, from));
    int64_t copies = orr_megatron_int(m, "num-distributed-optimizer-instances");
    uint32_t line = orr_megatron_line(m, "num-distributed-optimizer-instances");
    int64_t tp = orr_megatron_int(m, "tensor-model-parallel-size");
    int64_t pp = orr_megatron_int(m, "pipeline-model-parallel-size");
    if (copies <= 1 || copies > 1 << 20) {
        return;
    }
    if (m->ground->gpus == 0 || tp < 1 || pp < 1 || tp > 1 << 10 || pp > 1 << 10 ||
        m->ground->gpus / (tp * pp) % copies != 0) {
        orr_import_unknown(im, "--num-distributed-optimizer-instances", line, true,
                           "the ranks that share the optimizer cannot be counted");
        return;
    }
    orr_import_put_int(im, "shard_group", m->ground->gpus / (tp * pp) / copies, line);
    if (strcmp(value, "zero3") == 0) {
        orr_import_put_text(im, "sharding", "hsdp", line);
    }
}

void orr_megatron_overlap(megatron *m) {
    importer *im = m->im;
    static const char *const rows[][2] = {{"tp-comm-overlap", "tp"},
                                          {"overlap-grad-reduce", "dp"},
                                          {"overlap-moe-expert-parallel-comm", "ep"}};
    orr_tree *list = orr_tree_new_list(im->arena);
    uint32_t line = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (orr_megatron_flag(m, rows[i][0])) {
            orr_tree_push(im->arena, list, orr_tree_new_text(im->arena, rows[i][1]));
            line = line == 0 ? orr_megatron_line(m, rows[i][0]) : line;
        }
    }
    const orr_tree *vpp = orr_tree_get(im->keys, "vpp");
    if (orr_tree_int(vpp, 1) > 1 && orr_megatron_flag(m, "overlap-p2p-comm")) {
        orr_tree_push(im->arena, list, orr_tree_new_text(im->arena, "pp"));
    }
    if (orr_tree_size(list) == 0) {
        orr_import_put_text(im, "overlap", "none", line);
    } else {
        orr_import_put(im, "overlap", list, line);
    }
    if (orr_megatron_flag(m, "overlap-grad-reduce") &&
        orr_megatron_flag(m, "use-distributed-optimizer") &&
        !orr_megatron_flag(m, "overlap-param-gather")) {
        orr_import_unknown(
            im, "--overlap-param-gather", 0, true,
            "it is absent: the gather of parameters is exposed, and not told apart from "
            "the overlapped reduction");
    }
}

/* Layers recomputed by number, as so many of each chunk. */
static void recompute_ids(megatron *m) {
    importer *im = m->im;
    const char *ids = orr_megatron_text(m, "recompute-layer-ids");
    uint32_t line = orr_megatron_line(m, "recompute-layer-ids");
    int64_t count = ids[0] != '\0', pp = orr_megatron_int(m, "pipeline-model-parallel-size");
    for (; *ids != '\0'; ids++) {
        count += *ids == ' ' || *ids == ',';
    }
    int64_t vpp = orr_tree_int(orr_tree_get(im->keys, "vpp"), 1);
    int64_t chunks = pp >= 1 && pp <= 1 << 16 && vpp >= 1 && vpp <= 1 << 16 ? pp * vpp : 1;
    int64_t each = (count + chunks - 1) / chunks;
    const char *value = orr_arena_format(im->arena, "block:%lld", (long long)each);
    orr_import_put_text(im, "recompute", value, line);
    orr_import_assume(im, "recompute", value,
                      orr_arena_format(im->arena,
                                       "%lld layers are recomputed by number; they are "
                                       "spread evenly over the stages here",
                                       (long long)count));
}

/* What goes to host memory. */
void orr_megatron_offload(megatron *m) {
    int64_t layers = orr_megatron_int(m, "cpu-offloading-num-layers");
    if (layers > 0) {
        orr_import_put_int(m->im, "offload_layers", layers,
                           orr_megatron_line(m, "cpu-offloading-num-layers"));
    }
    if (orr_megatron_flag(m, "optimizer-cpu-offload")) {
        orr_import_put_real(m->im, "offload_optimizer",
                            orr_megatron_real(m, "optimizer-offload-fraction"),
                            orr_megatron_line(m, "optimizer-cpu-offload"));
    }
}

void orr_megatron_recompute(megatron *m) {
    importer *im = m->im;
    if (orr_megatron_text(m, "recompute-layer-ids")[0] != '\0') {
        recompute_ids(m);
        return;
    }
    const setting *given = orr_megatron_given(m, "recompute-granularity");
    const char *granularity = orr_megatron_text(m, "recompute-granularity");
    uint32_t line = orr_megatron_line(m, "recompute-granularity");
    const char *method = orr_megatron_text(m, "recompute-method");
    /* Megatron-LM of 2021 had the method alone. */
    bool method_alone = given == NULL && method[0] != '\0';
    if (given != NULL && given->unknown != NULL) {
        orr_import_put_text(im, "recompute", "unknown", line);
        return;
    }
    if (strcmp(granularity, "selective") == 0) {
        orr_text text = orr_text_new(im->arena, 512);
        orr_text_add(&text, "selective:");
        for (const char *p = orr_megatron_text(m, "recompute-modules"); *p != '\0'; p++) {
            orr_text_addn(&text, *p == ' ' || *p == ',' ? "+" : p, 1);
        }
        if (orr_megatron_flag(m, "moe-layer-recompute")) {
            orr_text_add(&text, "+moe");
        }
        orr_import_put_text(im, "recompute", orr_text_done(&text), line);
        return;
    }
    if (strcmp(granularity, "full") == 0 || method_alone) {
        bool stated = orr_megatron_has(m, "recompute-num-layers");
        int64_t n = stated ? orr_megatron_int(m, "recompute-num-layers") : 1;
        bool block = strcmp(method, "block") == 0;
        line = line > 0 ? line : orr_megatron_line(m, "recompute-method");
        if (orr_megatron_given(m, "recompute-num-layers") != NULL && !stated) {
            orr_import_put_text(im, "recompute", "unknown", line);
        } else if (n <= 0) {
            orr_import_put_text(im, "recompute", "none", line);
        } else if (block) {
            orr_import_put_text(im, "recompute",
                                orr_arena_format(im->arena, "block:%lld", (long long)n), line);
        } else if (n == 1) {
            orr_import_put_text(im, "recompute", "full", line);
        } else {
            orr_import_put_text(im, "recompute",
                                orr_arena_format(im->arena, "uniform:%lld", (long long)n), line);
        }
        return;
    }
    orr_import_put_text(im, "recompute",
                        orr_megatron_flag(m, "moe-layer-recompute") ? "selective:moe" : "none",
                        line);
}

/* Layers from before Megatron-Core: their own attention kernels unless flash is asked for. */
static bool legacy_layers(const megatron *m) {
    return orr_megatron_flag(m, "use-legacy-models") || orr_megatron_given(m, "DDP-impl") != NULL ||
           orr_megatron_is(m, "transformer-impl", "local");
}

void orr_megatron_kernels(megatron *m) {
    importer *im = m->im;
    const char *backend = orr_megatron_text(m, "attention-backend");
    bool unfused = strcmp(backend, "unfused") == 0 || strcmp(backend, "local") == 0 ||
                   (strcmp(backend, "auto") == 0 && legacy_layers(m) &&
                    !orr_megatron_flag(m, "use-flash-attn"));
    orr_import_put_text(im, "attention", unfused ? "unfused" : "flash",
                        orr_megatron_line(m, "attention-backend"));
    bool te = orr_megatron_flag(m, "cross-entropy-loss-fusion") &&
              orr_megatron_is(m, "cross-entropy-fusion-impl", "te");
    orr_import_put_text(im, "loss", te ? "te" : "native",
                        orr_megatron_line(m, "cross-entropy-loss-fusion"));
    bool hidden = orr_megatron_real(m, "hidden-dropout") > 0;
    bool attention = orr_megatron_real(m, "attention-dropout") > 0;
    orr_import_put_text(im, "dropout",
                        hidden && attention ? "all"
                        : hidden            ? "hidden"
                        : attention         ? "attention"
                                            : "none",
                        orr_megatron_line(m, hidden ? "hidden-dropout" : "attention-dropout"));
    if ((hidden && orr_megatron_given(m, "hidden-dropout") == NULL) ||
        (attention && orr_megatron_given(m, "attention-dropout") == NULL)) {
        orr_import_assume(im, "dropout", "0.1", "not given: Megatron-LM's default is 0.1");
    }
    bool old = orr_megatron_given(m, "DDP-impl") != NULL;
    bool fused = orr_megatron_has_experts(m) && orr_megatron_flag(m, "moe-permute-fusion");
    const char *software = m->ground->software != NULL ? m->ground->software
                           : old                       ? "megatron-2021"
                           : fused                     ? "megatron-core"
                                                       : "megatron-lm";
    orr_import_put_text(im, "software", software, orr_megatron_line(m, "DDP-impl"));
    orr_import_assume(im, "software", software, "the file does not say which release it is for");
    static const char *const fusions[] = {"bias-gelu-fusion",     "bias-swiglu-fusion",
                                          "bias-dropout-fusion",  "apply-rope-fusion",
                                          "persist-layer-norm",   "gradient-accumulation-fusion",
                                          "masked-softmax-fusion"};
    for (size_t i = 0; i < sizeof fusions / sizeof *fusions; i++) {
        bool relevant = strcmp(fusions[i], "masked-softmax-fusion") != 0 || unfused;
        relevant = relevant &&
                   (strcmp(fusions[i], "bias-gelu-fusion") != 0 || !orr_megatron_flag(m, "swiglu"));
        if (relevant && orr_megatron_given(m, fusions[i]) != NULL &&
            !orr_megatron_flag(m, fusions[i])) {
            orr_import_unknown(im, orr_arena_format(im->arena, "no %s", fusions[i]),
                               orr_megatron_line(m, fusions[i]), true,
                               "not modelled: a fusion is off");
        }
    }
}
