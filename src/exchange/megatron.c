/* What Megatron-LM settings mean together, as plan keys. Follows validate_args of
 * megatron/training/arguments.py (core_v0.12 to main of August 2026). */
#include "exchange/megatron_int.h"

#include <string.h>

/* ---- parallelism ---------------------------------------------------------------------------- */

static void put_targets(megatron *m) {
    for (size_t i = 0; i < orr_megatron_arg_count; i++) {
        const megatron_arg *arg = &orr_megatron_args[i];
        if (arg->target == NULL || strncmp(arg->target, "model.", 6) == 0 ||
            !orr_megatron_has(m, arg->name)) {
            continue;
        }
        orr_import_put_int(m->im, arg->target, orr_megatron_int(m, arg->name),
                           orr_megatron_line(m, arg->name));
    }
}

/* Stages of a layout string, "E|(t|)*3,m|L": bars, with repeated parts; 0 when malformed. */
static uint64_t layout_bars(const char **p, int depth) {
    uint64_t bars = 0;
    while (**p != '\0' && **p != ')') {
        uint64_t here = 0;
        if (**p == '(' && depth < 16) {
            (*p)++;
            here = layout_bars(p, depth + 1);
            if (**p != ')') {
                return 0;
            }
        } else {
            here = **p == '|';
        }
        (*p)++;
        if (**p == '*') {
            uint64_t times = 0;
            for ((*p)++; **p >= '0' && **p <= '9' && times < 100000; (*p)++) {
                times = times * 10 + (uint64_t)(**p - '0');
            }
            here *= times;
        }
        bars += here;
        if (bars > 100000) {
            return 0;
        }
    }
    return bars;
}

static void layers_of_stages(megatron *m, int64_t pp) {
    const char *layout = orr_megatron_text(m, "pipeline-model-parallel-layout");
    bool embedding = orr_megatron_flag(m, "account-for-embedding-in-pipeline-split");
    bool loss = orr_megatron_flag(m, "account-for-loss-in-pipeline-split");
    if (layout[0] != '\0') {
        orr_import_put_text(m->im, "layout", layout,
                            orr_megatron_line(m, "pipeline-model-parallel-layout"));
    } else if (embedding || loss) {
        orr_import_put_text(m->im, "layout",
                            embedding && loss ? "embedding,loss"
                            : loss            ? "loss"
                                              : "embedding",
                            orr_megatron_line(m, embedding
                                                     ? "account-for-embedding-in-pipeline-split"
                                                     : "account-for-loss-in-pipeline-split"));
    }
    if (orr_megatron_flag(m, "use-tp-pp-dp-mapping")) {
        orr_import_put_text(m->im, "rank_order", "tp-cp-ep-pp-dp",
                            orr_megatron_line(m, "use-tp-pp-dp-mapping"));
    }
    if (pp > 1) {
        static const char *const ends[][2] = {{"decoder-first-pipeline-num-layers", "first_layers"},
                                              {"decoder-last-pipeline-num-layers", "last_layers"}};
        for (size_t i = 0; i < 2; i++) {
            if (orr_megatron_int(m, ends[i][0]) > 0) {
                orr_import_put_int(m->im, ends[i][1], orr_megatron_int(m, ends[i][0]),
                                   orr_megatron_line(m, ends[i][0]));
            }
        }
    }
}

/* Virtual stages of a rank; 0 when that depends on something unknown. */
static int64_t virtual_stages(megatron *m, int64_t pp, uint32_t *line) {
    const char *per_stage = "num-layers-per-virtual-pipeline-stage";
    const char *per_rank = "num-virtual-stages-per-pipeline-rank";
    const char *layout = orr_megatron_text(m, "pipeline-model-parallel-layout");
    *line = 0;
    if (pp == 0) {
        return 0;
    }
    if (layout[0] != '\0') {
        *line = orr_megatron_line(m, "pipeline-model-parallel-layout");
        const char *p = layout;
        uint64_t stages = layout_bars(&p, 0) + 1;
        if (*p != '\0' || stages % (uint64_t)pp != 0) {
            orr_import_warn(m->im, *line, "the layout's stages are not a multiple of pp %lld",
                            (long long)pp);
            return 0;
        }
        return (int64_t)(stages / (uint64_t)pp);
    }
    if (orr_megatron_given(m, per_rank) != NULL) {
        *line = orr_megatron_line(m, per_rank);
        return orr_megatron_int(m, per_rank);
    }
    if (orr_megatron_given(m, per_stage) == NULL) {
        return 1;
    }
    *line = orr_megatron_line(m, per_stage);
    int64_t layers = orr_megatron_int(m, "num-layers"), each = orr_megatron_int(m, per_stage);
    if (!orr_megatron_has(m, "num-layers") || each <= 0 || layers <= 0 ||
        layers > MEGATRON_MAX_LAYERS) {
        return 0;
    }
    layers += orr_megatron_flag(m, "account-for-embedding-in-pipeline-split");
    layers += orr_megatron_flag(m, "account-for-loss-in-pipeline-split");
    if (layers % pp != 0 || layers / pp % each != 0) {
        orr_import_warn(
            m->im, *line,
            "%lld layers do not divide into pp %lld stages of chunks of %lld: Megatron-LM "
            "refuses this",
            (long long)layers, (long long)pp, (long long)each);
        return 0;
    }
    return layers / pp / each;
}

/* Primus's pp_algorithm, and ours. */
static const char *const algorithms[][2] = {
    {"1f1b", "1f1b"},         {"zero-bubble", "zb-1p"},      {"zerobubble", "zb-1p"},
    {"zbv-formatted", "zbv"}, {"zbv-greedy-half", "v-half"}, {"zbv-greedy-min", "v-min"}};

const char *orr_primus_algorithm(const char *schedule) {
    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
        if (strcmp(schedule, algorithms[i][1]) == 0) {
            return algorithms[i][0];
        }
    }
    return NULL;
}

/* The schedule's name, NULL after reporting one that is not known. Primus has more than Megatron.
 */
static const char *schedule(megatron *m, int64_t vpp) {
    const char *usual = vpp > 1 ? "interleaved" : "1f1b";
    if (orr_megatron_flag(m, "patch-primus-pipeline")) {
        const char *algorithm = orr_megatron_text(m, "pp-algorithm");
        for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
            if (strcmp(algorithm, algorithms[i][0]) == 0) {
                return algorithms[i][1];
            }
        }
        if (strcmp(algorithm, "1f1b-interleaved") == 0) {
            return usual;
        }
        orr_import_unknown(m->im, "pp_algorithm", orr_megatron_line(m, "pp-algorithm"), true,
                           "this schedule is not known");
        return NULL;
    }
    if (orr_megatron_flag(m, "patch-zero-bubble") && orr_megatron_flag(m, "enable-zero-bubble")) {
        if (!orr_megatron_flag(m, "zero-bubble-v-schedule")) {
            return "zb-1p";
        }
        const char *memory = orr_megatron_text(m, "zero-bubble-v-schedule-mem-setup");
        return strcmp(memory, "half") == 0  ? "v-half"
               : strcmp(memory, "min") == 0 ? "v-min"
                                            : "zbv";
    }
    return usual;
}

static void pipeline_keys(megatron *m) {
    int64_t pp = orr_megatron_int(m, "pipeline-model-parallel-size");
    if (pp < 1) {
        return;
    }
    layers_of_stages(m, pp);
    uint32_t line;
    int64_t vpp = pp > 1 ? virtual_stages(m, pp, &line) : 1;
    if (pp > 1 && vpp > 0) {
        orr_import_put_int(m->im, "vpp", vpp, line);
        const char *kind = schedule(m, vpp);
        if (kind != NULL) {
            orr_import_put_text(m->im, "schedule", kind, line);
        }
        if (vpp > 1 && !orr_megatron_flag(m, "overlap-p2p-comm")) {
            orr_import_put_text(m->im, "p2p", "blocking", orr_megatron_line(m, "overlap-p2p-comm"));
        } else if (vpp > 1 && orr_megatron_flag(m, "overlap-p2p-communication-warmup-flush")) {
            orr_import_put_text(m->im, "p2p", "overlap-warmup-flush",
                                orr_megatron_line(m, "overlap-p2p-communication-warmup-flush"));
        }
    } else if (pp > 1 && line > 0) {
        orr_import_unknown(m->im, "virtual pipeline stages", line, true,
                           "their number cannot be derived");
    }
    const char *group = "microbatch-group-size-per-virtual-pipeline-stage";
    if (vpp > 1 && orr_megatron_int(m, group) > 0) {
        orr_import_put_int(m->im, "group", orr_megatron_int(m, group), orr_megatron_line(m, group));
    }
}

/* A model that the file does not describe may have them: what it says of them is kept. */
static bool has_experts(const megatron *m) {
    return orr_megatron_int(m, "num-experts") > 0 ||
           (orr_megatron_given(m, "num-layers") == NULL &&
            orr_megatron_int(m, "expert-model-parallel-size") > 1);
}

static void split_keys(megatron *m) {
    importer *im = m->im;
    /* Megatron-LM turns it off where there is nothing to split over. */
    bool sp = orr_megatron_flag(m, "sequence-parallel") &&
              orr_megatron_int(m, "tensor-model-parallel-size") != 1;
    orr_tree *node = orr_tree_new_bool(im->arena, sp);
    orr_import_put(im, "sp", node, orr_megatron_line(m, "sequence-parallel"));
    const char *comm = orr_megatron_text(m, "cp-comm-type");
    if (orr_megatron_int(m, "context-parallel-size") > 1) {
        const char *kind = strcmp(comm, "p2p") == 0         ? "ring"
                           : strcmp(comm, "allgather") == 0 ? "allgather"
                           : strcmp(comm, "a2a") == 0       ? "a2a"
                                                            : NULL;
        if (kind != NULL) {
            orr_import_put_text(im, "cp_kind", kind, orr_megatron_line(m, "cp-comm-type"));
        } else {
            orr_import_unknown(im, "--cp-comm-type", orr_megatron_line(m, "cp-comm-type"), true,
                               "mixed kinds are not modelled");
        }
    }
    if (!has_experts(m)) {
        return;
    }
    if (orr_megatron_has(m, "expert-model-parallel-size")) {
        orr_import_put_int(im, "ep", orr_megatron_int(m, "expert-model-parallel-size"),
                           orr_megatron_line(m, "expert-model-parallel-size"));
    }
    if (orr_megatron_has(m, "expert-tensor-parallel-size")) {
        orr_import_put_int(im, "etp", orr_megatron_int(m, "expert-tensor-parallel-size"),
                           orr_megatron_line(m, "expert-tensor-parallel-size"));
    } else if (orr_megatron_given(m, "expert-tensor-parallel-size") == NULL &&
               orr_megatron_has(m, "tensor-model-parallel-size")) {
        orr_import_put_int(im, "etp", orr_megatron_int(m, "tensor-model-parallel-size"),
                           orr_megatron_line(m, "tensor-model-parallel-size"));
    }
    if (orr_megatron_has(m, "moe-expert-capacity-factor") &&
        orr_megatron_flag(m, "moe-pad-expert-input-to-capacity")) {
        double capacity = orr_megatron_real(m, "moe-expert-capacity-factor");
        orr_import_put_real(im, "capacity", capacity,
                            orr_megatron_line(m, "moe-expert-capacity-factor"));
    }
    const char *dispatcher = orr_megatron_text(m, "moe-token-dispatcher-type");
    uint32_t line = orr_megatron_line(m, "moe-token-dispatcher-type");
    bool flex = strcmp(dispatcher, "flex") == 0;
    bool turbo = orr_megatron_flag(m, "enable-primus-turbo");
    int64_t sync_free = turbo ? orr_megatron_int(m, "turbo-sync-free-moe-stage") : 0;
    if (sync_free >= 1 && sync_free <= 3) {
        orr_import_put_text(im, "dispatch",
                            orr_arena_format(im->arena, "sync-free-%d", (int)sync_free),
                            orr_megatron_line(m, "turbo-sync-free-moe-stage"));
    } else if (turbo && orr_megatron_flag(m, "use-turbo-deepep")) {
        orr_import_put_text(im, "dispatch", "deepep", orr_megatron_line(m, "use-turbo-deepep"));
    } else if (orr_megatron_flag(m, "moe-enable-deepep") ||
               (flex && orr_megatron_is(m, "moe-flex-dispatcher-backend", "deepep"))) {
        orr_import_put_text(im, "dispatch", "deepep", line);
    } else if (flex) {
        orr_import_unknown(im, "--moe-flex-dispatcher-backend", line, true, "not modelled");
    } else if (dispatcher[0] != '\0') {
        orr_import_put_text(im, "dispatch", dispatcher, line);
    }
}

static void batch_keys(megatron *m) {
    importer *im = m->im;
    if (orr_megatron_given(m, "global-batch-size") != NULL) {
        return;
    }
    int64_t tp = orr_megatron_int(m, "tensor-model-parallel-size");
    int64_t pp = orr_megatron_int(m, "pipeline-model-parallel-size");
    int64_t cp = orr_megatron_int(m, "context-parallel-size");
    int64_t mbs = orr_megatron_int(m, "micro-batch-size");
    bool sane = tp > 0 && pp > 0 && cp > 0 && mbs > 0 && tp <= 1 << 20 && pp <= 1 << 20 &&
                cp <= 1 << 20 && mbs <= 1 << 20;
    if (sane && m->ground->gpus > 0 && tp * pp <= 1 << 20 &&
        (int64_t)m->ground->gpus % (tp * pp * cp) == 0) {
        int64_t gbs = mbs * ((int64_t)m->ground->gpus / (tp * pp * cp));
        orr_import_put_int(im, "gbs", gbs, 0);
        orr_import_assume(
            im, "gbs", orr_arena_format(im->arena, "%lld", (long long)gbs),
            "no --global-batch-size: Megatron-LM takes micro-batch x data-parallel size");
    } else {
        orr_import_ask(im, 0, "gbs",
                       "the global batch size is not known from this file; give --gbs");
    }
}

/* ---- numbers, sharding, overlap, recompute, kernels ------------------------------------------ */

static void precision_keys(megatron *m) {
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

static void sharding_keys(megatron *m) {
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

static void overlap_keys(megatron *m) {
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
static void offload_keys(megatron *m) {
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

static void recompute_keys(megatron *m) {
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

static void kernel_keys(megatron *m) {
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
    bool fused = has_experts(m) && orr_megatron_flag(m, "moe-permute-fusion");
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

/* ---- what contradicts ------------------------------------------------------------------------ */

static bool more_than(const megatron *m, const char *name, int64_t value) {
    return orr_megatron_given(m, name) != NULL && orr_megatron_int(m, name) > value;
}

/* The commonest mistakes with sizes, where a plan would not show them: Megatron-LM stops at these,
 * or drops a setting without a word. The rest are rules of plans. */
static void warn_contradictions(megatron *m) {
    bool tp = orr_megatron_int(m, "tensor-model-parallel-size") != 1;
    bool pp = orr_megatron_int(m, "pipeline-model-parallel-size") != 1;
    bool bf16 = orr_megatron_flag(m, "bf16"), fp16 = orr_megatron_flag(m, "fp16");
    bool experts = has_experts(m);
    bool optimizer = orr_megatron_flag(m, "use-distributed-optimizer") ||
                     orr_megatron_flag(m, "use-megatron-fsdp");
    bool selective = orr_megatron_is(m, "recompute-granularity", "selective");
    const struct {
        bool is, refused;
        const char *at, *what;
    } rows[] = {
        {bf16 && fp16, true, "fp16", "bf16 and fp16 are both on: only one may be"},
        {!bf16 && !fp16 && pp, false, "pipeline-model-parallel-size",
         "a pipeline needs a number format for its transfers: neither bf16 nor fp16 is on"},
        {orr_megatron_flag(m, "sequence-parallel") && !tp &&
             orr_megatron_line(m, "sequence-parallel") > 0,
         false, "sequence-parallel",
         "sequence parallelism without tensor parallelism has no effect"},
        {more_than(m, "num-virtual-stages-per-pipeline-rank", 1) && !pp, true,
         "num-virtual-stages-per-pipeline-rank",
         "virtual stages need a pipeline: pipeline-model-parallel-size is 1"},
        {more_than(m, "num-layers-per-virtual-pipeline-stage", 0) && !pp, true,
         "num-layers-per-virtual-pipeline-stage",
         "virtual stages need a pipeline: pipeline-model-parallel-size is 1"},
        {more_than(m, "num-layers-per-virtual-pipeline-stage", 0) &&
             more_than(m, "num-virtual-stages-per-pipeline-rank", 0),
         true, "num-virtual-stages-per-pipeline-rank",
         "layers of a virtual stage and stages of a rank are both given: only one may be"},
        {more_than(m, "expert-model-parallel-size", 1) && !experts, true,
         "expert-model-parallel-size",
         "expert parallelism without experts: num-experts is not given"},
        {orr_megatron_flag(m, "grad-reduce-in-bf16") &&
             orr_megatron_flag(m, "accumulate-allreduce-grads-in-fp32"),
         false, "grad-reduce-in-bf16",
         "grad-reduce-in-bf16 and accumulate-allreduce-grads-in-fp32 contradict: bf16 is taken"},
        {orr_megatron_flag(m, "overlap-param-gather") && !optimizer &&
             orr_megatron_line(m, "overlap-param-gather") > 0,
         true, "overlap-param-gather",
         "overlap-param-gather needs the distributed optimizer, which is off"},
        {orr_megatron_flag(m, "use-torch-fsdp2") && orr_megatron_flag(m, "use-megatron-fsdp"), true,
         "use-torch-fsdp2", "two kinds of FSDP are on: only one may be"},
        {selective && orr_megatron_given(m, "recompute-method") != NULL, false, "recompute-method",
         "recompute-method is of full recompute: it means nothing beside selective"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].is) {
            orr_import_refuse(m->im, orr_megatron_line(m, rows[i].at), rows[i].refused,
                              rows[i].what);
        }
    }
}

void orr_megatron_keys(importer *im, const settings *list, const megatron_ground *ground) {
    megatron m = {.im = im, .ground = ground};
    m.given = ORR_NEW_ARRAY(im->arena, const setting *, orr_megatron_arg_count);
    for (size_t i = 0; i < list->count; i++) {
        orr_megatron_gather(&m, &list->at[i]);
    }
    warn_contradictions(&m);
    orr_megatron_model(&m);
    put_targets(&m);
    pipeline_keys(&m);
    split_keys(&m);
    batch_keys(&m);
    precision_keys(&m);
    sharding_keys(&m);
    overlap_keys(&m);
    recompute_keys(&m);
    offload_keys(&m);
    kernel_keys(&m);
}
