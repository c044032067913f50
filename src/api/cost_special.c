/* `orrery cost muon` and `orrery cost launch`: ops made of several prices, or of a host's time. */
#include "api/cost_args.h"
#include "base/err.h"
#include "base/num.h"
#include "base/text.h"
#include "timeline/timeline.h"

static orr_status muon(orr_job *job, const orr_cost_args *args, const orr_cost_table *table,
                       orr_err *err) {
    double matrices = 1, side = orr_min_f64(args->rows, args->cols);
    ORR_TRY(orr_cost_batch(args, &matrices, err));
    ORR_TRY(orr_cost_check_count("muon", "rows x cols x batch", args->rows * args->cols * matrices,
                                 err));
    ORR_TRY(orr_cost_check_count("muon", "the square of the shorter side", side * side, err));
    job->result = orr_cost_muon_write(job->arena, table, (uint64_t)args->rows, (uint64_t)args->cols,
                                      matrices);
    return ORR_OK;
}

/* The profile's own words on a figure: {value, evidence, note}, or that it states none. */
static void put_stated(orr_job *job, orr_tree *into, const orr_software *software,
                       const char *field) {
    const orr_tree *stated = orr_tree_get(software->evidence, field);
    orr_tree *map = orr_tree_put(job->arena, into, field, orr_tree_new_map(job->arena));
    const orr_tree *evidence = orr_tree_get(stated, "evidence");
    const orr_tree *note = orr_tree_get(stated, "note");
    orr_tree_put_text(job->arena, map, "evidence",
                      stated == NULL ? "not stated" : orr_tree_text(evidence, "stated"));
    if (note != NULL) {
        orr_tree_put_text(job->arena, map, "note", orr_tree_text(note, ""));
    }
}

static const char *word_of(const orr_software *software, const char *field) {
    const orr_tree *stated = orr_tree_get(software->evidence, field);
    return orr_tree_text(orr_tree_get(stated, "evidence"), "assumed");
}

static void put_host(orr_job *job, orr_tree *into, const char *key, double time_s) {
    orr_tree_put_real(job->arena, into, key, time_s);
}

/* Layers launched one after the other by a host, and the starts of their kernels on the device: the
 * longer one. The same floors as a step's (timeline.h). */
static orr_status launch(orr_job *job, const orr_cost_args *args, const orr_cost_table *table,
                         const orr_software *profile, orr_err *err) {
    static const char *const FIELDS[2][2] = {{"host_fwd_s", "host_bwd_s"},
                                             {"host_moe_fwd_s", "host_moe_bwd_s"}};
    ORR_TRY(orr_cost_check_phase(args, ORR_COST_LAUNCH, err));
    double layers = orr_max_f64(1, args->layers), kernels = args->kernels;
    ORR_TRY(orr_cost_check_count("launch", "layers x kernels", layers * kernels, err));
    orr_software software = *profile;
    software.graphs = args->graphs > 0 ? (uint8_t)(args->graphs - 1) : software.graphs;
    bool backward = args->phase != NULL && !orr_name_equal(args->phase, "forward");
    const char *field = FIELDS[args->moe][backward];
    static const char *const WORDS[] = {"none", "partial", "full_iteration"};
    double by_graphs[3];
    for (uint8_t g = ORR_GRAPHS_NONE; g <= ORR_GRAPHS_FULL; g++) {
        orr_software other = software;
        other.graphs = g;
        orr_host_floor floor = orr_timeline_host(&other, args->moe);
        by_graphs[g] = layers * (backward ? floor.backward_s : floor.forward_s);
    }
    double host_s = by_graphs[software.graphs];
    orr_cost starts = orr_cost_memory(table, ORR_MEMOP_ELEMENTWISE, 0,
                                      (uint32_t)orr_min_f64(layers * kernels, UINT32_MAX));
    double device_s = kernels > 0 ? starts.time_s : 0;
    orr_tree *map = job->result = orr_tree_new_map(job->arena);
    orr_tree_put_text(
        job->arena, map, "op",
        orr_arena_format(job->arena, "launch of %.0f %slayer%s%s, %s, graphs: %s", layers,
                         args->moe ? "MoE " : "", layers > 1 ? "s" : "",
                         kernels > 0 ? orr_arena_format(job->arena, " of %.0f kernels", kernels)
                                     : "",
                         backward ? "backward" : "forward", WORDS[software.graphs]));
    orr_tree_put_text(job->arena, map, "software", software.name);
    orr_tree_put_real(job->arena, map, "time_s", orr_max_f64(host_s, device_s));
    put_host(job, map, "host_s", host_s);
    put_host(job, map, "device_s", device_s);
    if (kernels > 0) {
        put_host(job, map, "host_per_kernel_s", host_s / (layers * kernels));
    }
    orr_tree *graphs =
        orr_tree_put(job->arena, map, "host_by_graphs", orr_tree_new_map(job->arena));
    for (int g = 0; g < 3; g++) {
        orr_tree_put_real(job->arena, graphs, orr_arena_format(job->arena, "%s_s", WORDS[g]),
                          by_graphs[g]);
    }
    orr_tree_put_text(job->arena, map, "provenance", word_of(profile, field));
    orr_tree *from = orr_tree_put(job->arena, map, "from", orr_tree_new_map(job->arena));
    put_stated(job, from, profile, field);
    if (software.graphs == ORR_GRAPHS_PARTIAL) {
        put_stated(job, from, profile, "graph_partial_frac");
    }
    if (args->graphs == 0) {
        put_stated(job, from, profile, "graphs");
    }
    if (orr_tree_get(profile->evidence, field) == NULL) {
        orr_job_warn(job, "host_not_stated", field,
                     "profile %s states no %s: its host is taken as never in the way",
                     profile->name, field);
    }
    return ORR_OK;
}

/* What products of whole rows in 16 bits have no place for. */
static orr_status check_unfused(const orr_cost_args *args, orr_dtype dtype,
                                const orr_software *software, orr_err *err) {
    orr_status status = ORR_OK;
    if (args->lengths != NULL || args->library != NULL) {
        status = orr_fail(err, ORR_E_CONFLICT,
                          "unfused attention takes no --%s: its products are of whole rows",
                          args->lengths != NULL ? "lengths" : "library");
    } else if (orr_dtype_bytes(dtype) != 2) {
        status = orr_fail(err, ORR_E_CONFLICT, "unfused attention runs in bf16 or fp16, not in %s",
                          orr_dtype_name(dtype));
    }
    if (status != ORR_OK && !args->unfused_stated) {
        orr_hint(err, "profile %s does not fuse attention; --no-unfused prices a fused kernel",
                 software->name);
    }
    return status;
}

orr_status orr_cost_unfused(orr_job *job, const orr_cost_args *args, const orr_cost_table *table,
                            orr_dtype dtype, const orr_software *software, orr_err *err) {
    double batch = 1;
    ORR_TRY(check_unfused(args, dtype, software, err));
    ORR_TRY(orr_cost_batch(args, &batch, err));
    double keys = args->seq_kv > 0 ? args->seq_kv : args->seq_q;
    static const double MOST_BYTES = 35; /* a score */
    ORR_TRY(orr_cost_check_count("attention", "traffic of batch x heads x seq_q x seq_kv scores",
                                 MOST_BYTES * batch * args->heads * args->seq_q * keys, err));
    bool plain = software->variant.attention == ORR_KERNEL_EAGER ||
                 software->variant.attention == ORR_KERNEL_EAGER_FP32;
    const orr_unfused core = {.batch = (uint64_t)(batch * args->heads),
                              .seq_q = (uint64_t)args->seq_q,
                              .seq_kv = (uint64_t)keys,
                              .head_dim = (uint64_t)args->head_dim,
                              .v_dim = (uint64_t)(args->v_dim > 0 ? args->v_dim : args->head_dim),
                              .fused_softmax = args->eager_stated ? !args->eager : !plain};
    bool backward = args->phase != NULL && !orr_name_equal(args->phase, "forward");
    job->result = orr_cost_unfused_write(job->arena, table, &core, dtype, backward);
    return ORR_OK;
}

orr_status orr_cost_special(orr_job *job, const orr_cost_args *args, int which,
                            const orr_cost_table *table, const orr_software *software,
                            orr_err *err) {
    if (which == ORR_COST_LAUNCH) {
        return launch(job, args, table, software, err);
    }
    ORR_TRY(muon(job, args, table, err));
    orr_tree_put_text(job->arena, job->result, "software", software->name);
    return ORR_OK;
}
