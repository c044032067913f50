/* `orrery cost`: the price of one op, and why; or of every row of a table. */
#include <math.h>
#include <string.h>

#include "api/cost_args.h"
#include "base/err.h"
#include "base/num.h"
#include "base/os_file.h"
#include "base/text.h"
#include "program/traffic.h"

/* ---- the op --------------------------------------------------------------------------------- */

static orr_status need(const char *op, const char *name, double value, orr_err *err) {
    return value > 0 ? ORR_OK : orr_fail(err, ORR_E_USAGE, "cost %s needs --%s", op, name);
}

static void put_size(orr_job *job, orr_tree *row, const char *key, double value) {
    if (value > 0) {
        orr_tree_put_real(job->arena, row, key, value);
    }
}

/* The op as a record of evidence would describe it. */
static orr_status kernel_row(orr_job *job, const orr_cost_args *args, int which, orr_tree *row,
                             orr_err *err) {
    double batch = 1;
    ORR_TRY(orr_cost_batch(args, &batch, err));
    bool memory = which >= ORR_COST_FAMILY && which < ORR_COST_COLLECTIVE;
    orr_tree_put_text(job->arena, row, "op", memory ? "memory" : orr_cost_ops[which]);
    if (memory) {
        double bytes = args->bytes;
        if (bytes > 0 && (args->rows > 0 || args->cols > 0)) {
            return orr_fail(err, ORR_E_CONFLICT,
                            "cost %s takes --bytes, or --rows and --cols, not both",
                            orr_cost_ops[which]);
        }
        if (!(bytes > 0) && args->rows > 0 && args->cols > 0) {
            static const double ELEMENT_BYTES = 2, PASSES = 2;
            double element = which == ORR_COST_FAMILY + ORR_MEMOP_NORM_BWD
                                 ? orr_traffic_norm(true).backward_bytes
                                 : PASSES * ELEMENT_BYTES;
            bytes = element * args->rows * args->cols;
        }
        ORR_TRY(need(orr_cost_ops[which], "bytes (or --rows and --cols)", bytes, err));
        ORR_TRY(orr_cost_check_count(orr_cost_ops[which], "the traffic", bytes, err));
        orr_tree_put_text(job->arena, row, "family", orr_cost_ops[which]);
        put_size(job, row, "bytes", bytes);
        put_size(job, row, "kernels", args->kernels);
        return ORR_OK;
    }
    ORR_TRY(orr_cost_check_phase(args, which, err));
    ORR_TRY(which == ORR_COST_ATTENTION ? orr_cost_check_attention(args, batch, err)
                                        : orr_cost_check_product(args, which, batch, err));
    if (args->dtype != NULL) {
        orr_tree_put_text(job->arena, row, "dtype", args->dtype);
    }
    orr_tree_put_text(job->arena, row, "phase", args->phase != NULL ? args->phase : "forward");
    orr_tree_put_bool(job->arena, row, "causal", args->causal);
    put_size(job, row, "batch", which == ORR_COST_GROUPED ? args->groups : batch);
    put_size(job, row, "out_bytes", args->out_bytes);
    const char *name;
    for (uint32_t i = 0; (name = orr_evidence_size((uint8_t)which, i)) != NULL; i++) {
        put_size(job, row, name, orr_cost_size(args, name));
    }
    return ORR_OK;
}

static orr_status read_routing(const orr_cost_args *args, int which, orr_routing *out,
                               orr_err *err) {
    const char *op = orr_cost_ops[which];
    if (args->topk > args->experts || args->experts < args->ranks) {
        return orr_fail(err, ORR_E_USAGE,
                        "%s among %g ranks needs at least as many experts, and "
                        "no more than %g a token",
                        op, args->ranks, args->experts);
    }
    double groups = args->groups, chosen = args->group_topk;
    if ((groups > 0) != (chosen > 0)) {
        return orr_fail(err, ORR_E_USAGE, "%s takes --groups and --group-topk together", op);
    }
    if (groups > 0 && (chosen > groups || fmod(args->experts, groups) != 0 ||
                       args->topk > args->experts / groups * chosen)) {
        return orr_fail(err, ORR_E_USAGE,
                        "%s: %g of %g groups must hold the %g experts of a token, and groups be "
                        "equal parts of %g",
                        op, chosen, groups, args->topk, args->experts);
    }
    *out = (orr_routing){(uint32_t)args->topk, (uint32_t)args->experts, (uint32_t)groups,
                         (uint32_t)chosen};
    return ORR_OK;
}

/* A token goes once to each rank that holds one of its experts; the fullest rank decides. */
static orr_status exchange_op(const orr_cost_args *args, int which, orr_op *op, orr_err *err) {
    *op = (orr_op){.kind = ORR_OP_COLLECTIVE, .sub = ORR_ALL_TO_ALL, .stream = ORR_STREAM_EP};
    orr_routing *routing = &op->shape.comm.routing;
    ORR_TRY(read_routing(args, which, routing, err));
    bool small = args->dtype != NULL && orr_name_equal(args->dtype, "fp8");
    double element = small ? 1 : 2;
    double copies = orr_routing_places(routing, args->ranks);
    double bytes = args->tokens * copies * args->hidden * element * args->imbalance;
    ORR_TRY(orr_cost_check_count(orr_cost_ops[which], "what a rank sends", bytes, err));
    op->shape.comm.rank_bytes = (uint64_t)(bytes + 0.5);
    return ORR_OK;
}

/* Each operator on its own: by the option, else by the profile. */
static bool is_eager(const orr_cost_args *args, int which, const orr_software *software) {
    const orr_variant *variant = &software->variant;
    return args->eager_stated             ? args->eager
           : which == ORR_COST_ROTARY     ? !variant->fused_rope
           : which == ORR_COST_ACTIVATION ? !variant->fused_activation
           : which == ORR_COST_NORM       ? !variant->fused_norm
                                          : args->eager;
}

static orr_traffic traffic_of(const orr_cost_args *args, int which, bool eager) {
    switch (which) {
    case ORR_COST_ADAM: return orr_traffic_adam(!eager);
    case ORR_COST_CROSS_ENTROPY: return orr_traffic_loss(eager ? ORR_LOSS_EAGER : ORR_LOSS_TE);
    case ORR_COST_ROUTER: return orr_traffic_router();
    case ORR_COST_ROTARY: return orr_traffic_rotary(!eager);
    case ORR_COST_ACTIVATION: return orr_traffic_activation(args->gated, !eager, false);
    case ORR_COST_NORM: return orr_traffic_norm(!eager);
    case ORR_COST_RESIDUAL: return orr_traffic_residual(args->dropout);
    default: return orr_traffic_dropout();
    }
}

static bool is_backward(const orr_cost_args *args) {
    return args->phase != NULL && !orr_name_equal(args->phase, "forward");
}

/* Memory-bound ops that are known by what they are over: as a step counts them. */
static orr_status counted_op(const orr_cost_args *args, int which, const orr_software *software,
                             orr_op *op, orr_err *err) {
    ORR_TRY(orr_cost_check_phase(args, which, err));
    orr_traffic traffic = traffic_of(args, which, is_eager(args, which, software));
    double elements = which == ORR_COST_ADAM     ? args->elements
                      : which == ORR_COST_ROUTER ? args->tokens * args->experts
                                                 : args->rows * args->cols;
    bool backward = is_backward(args);
    double bytes = elements * (backward ? traffic.backward_bytes : traffic.forward_bytes);
    ORR_TRY(orr_cost_check_count(orr_cost_ops[which], "the traffic", bytes, err));
    orr_memop family = backward ? traffic.backward_family : traffic.family;
    *op = (orr_op){.kind = ORR_OP_MEMORY,
                   .sub = (uint8_t)family,
                   .phase = backward ? ORR_PHASE_INPUT_GRAD : ORR_PHASE_FORWARD,
                   .bytes = bytes};
    op->shape.memory.kernels = backward ? traffic.backward_kernels : traffic.kernels;
    return ORR_OK;
}

static orr_status make_op(orr_job *job, const orr_cost_args *args, int which,
                          const orr_software *software, orr_op *op, orr_err *err) {
    if (which >= ORR_COST_MUON) {
        return ORR_OK;
    }
    if (which >= ORR_COST_ADAM) {
        return counted_op(args, which, software, op, err);
    }
    if (which >= ORR_COST_COLLECTIVE) {
        if (args->ranks * args->stride > ORR_MAX_GPUS) {
            return orr_fail(err, ORR_E_USAGE, "%g ranks, %g apart, are more than %d accelerators",
                            args->ranks, args->stride, (int)ORR_MAX_GPUS);
        }
        if (which >= ORR_COST_DISPATCH) {
            ORR_TRY(exchange_op(args, which, op, err));
        } else {
            *op =
                (orr_op){.kind = ORR_OP_COLLECTIVE, .sub = (uint8_t)(which - ORR_COST_COLLECTIVE)};
            double bytes = args->bytes * args->imbalance;
            ORR_TRY(orr_cost_check_count(orr_cost_ops[which], "what a rank sends", bytes, err));
            op->shape.comm.rank_bytes = (uint64_t)(bytes + 0.5);
        }
        op->shape.comm.size = (uint32_t)args->ranks;
        op->shape.comm.stride = (uint32_t)args->stride;
        op->shape.comm.count = 1;
        return ORR_OK;
    }
    orr_tree *row = orr_tree_new_map(job->arena);
    ORR_TRY(kernel_row(job, args, which, row, err));
    orr_evidence_key key;
    ORR_TRY(orr_evidence_key_read(job->arena, row, &key, err));
    orr_evidence_op_of(&key, op);
    return ORR_OK;
}

static orr_status find_cluster(orr_job *job, const orr_cost_args *args, orr_cluster **out,
                               orr_err *err) {
    orr_fabric *fabric = NULL;
    if (args->fabric != NULL) {
        ORR_TRY(orr_fabric_find(job->arena, args->fabric, &fabric, err));
    }
    double span = orr_max_f64(1, args->ranks * args->stride);
    uint32_t gpus = (uint32_t)orr_min_f64(orr_max_f64(span, args->gpus), ORR_MAX_GPUS);
    if (args->gpus > 0 && args->gpus < span) {
        return orr_fail(err, ORR_E_CONFLICT, "%.0f ranks, %.0f apart, do not fit --gpus %.0f",
                        args->ranks, args->stride, args->gpus);
    }
    if (args->gpus > ORR_MAX_GPUS) {
        return orr_fail(err, ORR_E_USAGE, "a cluster holds at most %d accelerators",
                        (int)ORR_MAX_GPUS);
    }
    if (args->cluster != NULL) {
        ORR_TRY(orr_cluster_find(job->arena, args->cluster, out, err));
        (*out)->fabric = fabric != NULL ? fabric : (*out)->fabric;
        if (args->hardware != NULL && !orr_name_equal(args->hardware, (*out)->accelerator->name)) {
            return orr_fail(err, ORR_E_CONFLICT, "cluster %s holds %s, not %s", args->cluster,
                            (*out)->accelerator->name, args->hardware);
        }
        orr_cluster_resize(*out, gpus);
        return ORR_OK;
    }
    if (args->hardware == NULL) {
        return orr_fail(err, ORR_E_USAGE, "cost needs --hardware or --cluster");
    }
    orr_accelerator *accelerator = NULL;
    ORR_TRY(orr_accelerator_find(job->arena, args->hardware, &accelerator, err));
    return orr_cluster_usual(job->arena, accelerator, gpus, 0, fabric, out, err);
}

/* Packed sequences: the rest of the op is that of the longest. */
static orr_status set_lengths(orr_job *job, const orr_cost_args **args, orr_cost_ask *ask,
                              orr_err *err) {
    double *length = NULL;
    if ((*args)->lengths == NULL) {
        return ORR_OK;
    }
    ORR_TRY(orr_cost_lengths(job, *args, &length, &ask->lengths, err));
    ask->length = length;
    orr_cost_args *longest = ORR_NEW(job->arena, orr_cost_args);
    *longest = **args;
    double tokens = 0;
    for (uint32_t i = 0; i < ask->lengths; i++) {
        longest->seq_q = orr_max_f64(longest->seq_q, length[i]);
        tokens += length[i];
    }
    *args = longest;
    double width = orr_max_f64(longest->head_dim, longest->v_dim);
    return orr_cost_check_count("attention", "tokens x heads x head_dim",
                                tokens * longest->heads * width, err);
}

/* A memory-bound op as tables of kernels count it: every tensor once, whatever the op moves. */
static orr_status set_library(const orr_cost_args *args, int which, orr_cost_ask *ask,
                              orr_err *err) {
    bool memory = which >= ORR_COST_FAMILY && args->library != NULL;
    if (!memory) {
        return ORR_OK;
    }
    if (!(args->rows > 0 && args->cols > 0)) {
        return orr_fail(err, ORR_E_USAGE, "cost %s --library needs --rows and --cols",
                        orr_cost_ops[which]);
    }
    bool backward = which == ORR_COST_FAMILY + ORR_MEMOP_NORM_BWD || is_backward(args);
    orr_traffic traffic = {.forward_bytes = 4};
    if (which != ORR_COST_FAMILY + ORR_MEMOP_SOFTMAX) {
        traffic = which == ORR_COST_ACTIVATION ? orr_traffic_activation(args->gated, true, false)
                                               : orr_traffic_norm(true);
    }
    ask->operation = which == ORR_COST_NORM         ? (backward ? "norm_bwd" : "norm_fwd")
                     : which == ORR_COST_ACTIVATION ? (backward      ? "activation_bwd"
                                                       : args->gated ? "activation_gated"
                                                                     : "activation")
                                                    : orr_cost_ops[which];
    ask->rows = args->rows;
    ask->bytes =
        args->rows * args->cols * (backward ? traffic.backward_bytes : traffic.forward_bytes);
    return ORR_OK;
}

/* "norm, eager, backward, 3.2e+08 bytes, 10 kernels" */
static const char *counted_text(orr_job *job, const orr_cost_args *args, int which,
                                const orr_cost_table *table, const orr_software *software,
                                const orr_op *op) {
    orr_evidence_key key;
    double bytes = orr_cost_key(table, op, &key) ? (double)key.dim[0] : op->bytes;
    return orr_arena_format(job->arena, "%s%s%s, %.6g bytes, %u kernels", orr_cost_ops[which],
                            is_eager(args, which, software) ? ", eager" : "",
                            is_backward(args) ? ", backward" : "", bytes, op->shape.memory.kernels);
}

static orr_status price_op(orr_job *job, const orr_cost_args *args, uint64_t seen, orr_err *err) {
    int which = 0;
    orr_dtype dtype = ORR_BF16;
    orr_op op = {0};
    orr_cluster *cluster = NULL;
    orr_software *software = NULL;
    orr_cost_ask ask = {.library = args->library};
    ORR_TRY(orr_cost_find_op(args->op, &which, err));
    ORR_TRY(orr_cost_check_options(job, args, which, seen, err));
    ORR_TRY(orr_cost_find_dtype(args, &dtype, err));
    const char *profile = args->software != NULL ? args->software : "unknown";
    ORR_TRY(orr_software_find(job->arena, profile, &software, err));
    ORR_TRY(set_lengths(job, &args, &ask, err));
    ORR_TRY(set_library(args, which, &ask, err));
    ORR_TRY(make_op(job, args, which, software, &op, err));
    ORR_TRY(find_cluster(job, args, &cluster, err));
    if (which < ORR_COST_FAMILY) {
        ORR_TRY(orr_cost_check_dtype(job, cluster->accelerator, dtype, err));
    }
    const orr_cost_table *table = NULL;
    ORR_TRY(orr_cost_table_new(job->arena, cluster, software, &table, err));
    ORR_TRY(orr_job_use_evidence(job, cluster->accelerator, software->name, err));
    if (job->evidence != NULL) {
        table = orr_cost_table_measured(job->arena, table, job->evidence);
    }
    if (which >= ORR_COST_MUON) {
        return orr_cost_special(job, args, which, table, software, err);
    }
    bool fused = software->variant.attention == ORR_KERNEL_FLASH;
    if (which == ORR_COST_ATTENTION && (args->unfused_stated ? args->unfused : !fused)) {
        ORR_TRY(orr_cost_unfused(job, args, table, dtype, software, err));
        orr_tree_put_text(job->arena, job->result, "software", software->name);
        return ORR_OK;
    }
    ORR_TRY(orr_cost_op_write(job->arena, table, &op, &ask, &job->result, err));
    const char *provenance = orr_tree_text(orr_tree_get(job->result, "provenance"), "");
    if (op.kind == ORR_OP_ATTENTION && orr_dtype_bytes(dtype) != 2 &&
        strcmp(provenance, "measured") != 0 && orr_tree_get(job->result, "low_precision") == NULL) {
        orr_job_warn(job, "dtype_not_modelled", "dtype",
                     "attention in %s is priced as in 16 bits: no table measures it on this "
                     "architecture",
                     orr_dtype_name(dtype));
    }
    if (which == ORR_COST_DISPATCH || which == ORR_COST_COMBINE) {
        const orr_exchange_ask exchange = {.routing = op.shape.comm.routing,
                                           .ranks = (uint32_t)args->ranks,
                                           .stride = (uint32_t)args->stride,
                                           .units = (uint32_t)args->units,
                                           .tokens = args->tokens,
                                           .hidden = args->hidden,
                                           .imbalance = args->imbalance};
        ORR_TRY(orr_cost_exchange_write(job->arena, table, &exchange, job->result, err));
        orr_tree_put_text(job->arena, job->result, "op",
                          orr_arena_format(job->arena,
                                           "%s of %.0f tokens of %.0f to %.0f of %.0f "
                                           "experts on %.0f ranks",
                                           orr_cost_ops[which], args->tokens, args->hidden,
                                           args->topk, args->experts, args->ranks));
    }
    if (which >= ORR_COST_ADAM) {
        orr_tree_put_text(job->arena, job->result, "op",
                          counted_text(job, args, which, table, software, &op));
    }
    orr_tree_put_text(job->arena, job->result, "software", software->name);
    return ORR_OK;
}

/* ---- a table -------------------------------------------------------------------------------- */

static orr_status price_table(orr_job *job, const orr_cost_args *args, uint64_t seen,
                              orr_err *err) {
    char *csv = NULL;
    ORR_TRY(orr_cost_check_options(job, args, ORR_COST_TABLE, seen, err));
    ORR_TRY(orr_cost_kernels_batch(job->arena, args->batch,
                                   args->class > 0 ? orr_cost_classes[args->class] : NULL, &csv,
                                   &job->result, err));
    const orr_tree *unpriced = orr_tree_at(orr_tree_get(job->result, "unpriced"), 0);
    int64_t rows = orr_tree_int(orr_tree_get(job->result, "rows"), 0);
    int64_t left = rows - orr_tree_int(orr_tree_get(job->result, "priced"), 0);
    if (rows == 0) {
        orr_job_warn(job, "no_rows", "batch", "%s has a header and no rows", args->batch);
    }
    if (left > 0) {
        orr_job_warn(job, "unpriced_rows", "batch",
                     "%lld of %lld rows have no price; the first, line %lld: %s", (long long)left,
                     (long long)rows, (long long)orr_tree_int(orr_tree_get(unpriced, "line"), 0),
                     orr_tree_text(orr_tree_get(unpriced, "why"), ""));
    }
    if (args->write != NULL) {
        ORR_TRY(orr_os_write_file(args->write, csv, strlen(csv), err));
        orr_tree_put_text(job->arena, job->result, "written", args->write);
    } else {
        orr_tree_put_text(job->arena, job->result, "csv", csv);
    }
    return ORR_OK;
}

/* ---- the command --------------------------------------------------------------------------- */

orr_status orr_command_cost(orr_job *job, orr_err *err) {
    orr_cost_args args = {0};
    uint64_t seen = 0;
    ORR_TRY(orr_cost_args_read(job, &args, &seen, err));
    job->inputs = orr_tree_copy(job->arena, job->args);
    if (args.op != NULL) {
        return price_op(job, &args, seen, err);
    }
    if (args.batch == NULL) {
        orr_status status = orr_fail(err, ORR_E_USAGE, "cost needs an op, or --batch FILE");
        orr_hint(err,
                 "one op:  orrery cost gemm --m 8192 --n 8192 --k 8192 --hardware h100\n"
                 "               orrery cost attention --heads 32 --head-dim 128 --seq-q 8192 "
                 "--hardware h100\n"
                 "               orrery cost all-reduce --ranks 8 --bytes 64MB --hardware h100\n"
                 "      a table: orrery cost --batch kernels.csv, whose header is such as "
                 "gpu,dtype,m,n,k\n"
                 "      all ops and options: orrery help cost");
        return status;
    }
    return price_table(job, &args, seen, err);
}
