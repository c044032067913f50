/* How Megatron-LM's settings spread a model: pipeline, splits, batch. */
#include <string.h>

#include "exchange/megatron_int.h"

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
                orr_megatron_put_int(m, ends[i][1], ends[i][0]);
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

void orr_megatron_pipeline(megatron *m) {
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
        orr_megatron_put_int(m, "group", group);
    }
}

void orr_megatron_split(megatron *m) {
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
    if (!orr_megatron_has_experts(m)) {
        return;
    }
    if (orr_megatron_has(m, "expert-model-parallel-size")) {
        orr_megatron_put_int(m, "ep", "expert-model-parallel-size");
    }
    if (orr_megatron_has(m, "expert-tensor-parallel-size")) {
        orr_megatron_put_int(m, "etp", "expert-tensor-parallel-size");
    } else if (orr_megatron_given(m, "expert-tensor-parallel-size") == NULL &&
               orr_megatron_has(m, "tensor-model-parallel-size")) {
        orr_megatron_put_int(m, "etp", "tensor-model-parallel-size");
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

void orr_megatron_batch(megatron *m) {
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
