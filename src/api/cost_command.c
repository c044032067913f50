/* `orrery cost`: the price of one op, and why; or of every row of a table. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/num.h"
#include "base/os_file.h"
#include "base/text.h"
#include "cost/cost.h"
#include "doc/doc.h"

typedef struct cost_args {
    const char *op, *batch, *write, *hardware, *cluster, *fabric, *software, *dtype, *phase;
    double gpus, stride;
    double m, n, k, groups, out_bytes;
    double heads, kv_heads, head_dim, v_dim, window, seq_q, seq_kv;
    double bytes, rows, cols, kernels, ranks;
    double tokens, hidden, topk, experts;
    uint8_t class;
    bool causal;
} cost_args;

static const char *const classes[] = {"any",         "gemm",        "grouped_gemm",
                                      "moe_fused",   "attention",   "memops",
                                      "collectives", "ep_alltoall", NULL};

#define TEXT(member, text)                                                                         \
    {.name = #member,                                                                              \
     .type = ORR_FIELD_TEXT,                                                                       \
     .offset = offsetof(cost_args, member),                                                        \
     .fallback = "",                                                                               \
     .doc = text}
#define SIZE(member, text)                                                                         \
    {.name = #member,                                                                              \
     .type = ORR_FIELD_REAL,                                                                       \
     .offset = offsetof(cost_args, member),                                                        \
     .max = 9007199254740992.0,                                                                    \
     .fallback = "0",                                                                              \
     .doc = text}

static const orr_field fields[] = {
    TEXT(op, "gemm, grouped-gemm, attention; elementwise, norm-fwd, norm-bwd, softmax, permute, "
             "loss, embedding, cast, bulk (optimizers); all-reduce, all-gather, reduce-scatter, "
             "all-to-all, send-recv, broadcast; dispatch, combine"),
    TEXT(hardware, "accelerator: a catalog name or a hardware file"),
    TEXT(cluster, "node type that it stands in; default: the accelerator's usual one"),
    TEXT(fabric, "what connects the domains; default: the cluster's"),
    TEXT(software, "profile under which it runs in training; default: unknown"),
    SIZE(gpus, "accelerators of the cluster; default: what the group needs"),
    TEXT(dtype, "bf16, fp16, fp32, fp8, mxfp8, fp8_block or nvfp4; default: bf16"),
    TEXT(phase, "forward, input_grad, weight_grad or backward; default: forward"),
    SIZE(m, "rows of a product; grouped: of one group"),
    SIZE(n, "columns of a product"),
    SIZE(k, "depth of a product"),
    SIZE(groups, "of a grouped product"),
    SIZE(out_bytes, "moved an element of a product's output; 8: an fp32 sum is read and written"),
    TEXT(batch, "with an op: products, or sequences of attention. Alone: a table of kernels "
                "(.csv or .csv.gz; columns as for validate --kernels, times not needed), every row "
                "priced as a benchmark runs it"),
    SIZE(heads, "query heads"),
    SIZE(kv_heads, "key-value heads; default: heads"),
    SIZE(head_dim, "width of a query head"),
    SIZE(v_dim, "width of a value head; default: head_dim"),
    SIZE(window, "tokens of a sliding window; 0: none"),
    SIZE(seq_q, "queries of a sequence on this rank"),
    SIZE(seq_kv, "keys of a sequence; default: seq_q"),
    {.name = "causal",
     .type = ORR_FIELD_BOOL,
     .offset = offsetof(cost_args, causal),
     .fallback = "yes",
     .doc = "of attention"},
    SIZE(bytes, "traffic of a memory-bound op; of a collective as nccl-tests counts them (gather: "
                "whole output; scatter: whole input)"),
    SIZE(rows, "of a memory-bound op, instead of bytes: one read and one write of rows x cols"),
    SIZE(cols, "see rows"),
    SIZE(kernels, "launches of a memory-bound op; default: 1"),
    SIZE(ranks, "members of a collective"),
    {.name = "stride",
     .type = ORR_FIELD_REAL,
     .offset = offsetof(cost_args, stride),
     .min = 1,
     .max = ORR_MAX_GPUS,
     .fallback = "1",
     .doc = "distance of its members in rank order"},
    SIZE(tokens, "of dispatch and combine: of one rank"),
    SIZE(hidden, "of dispatch and combine"),
    SIZE(topk, "of dispatch and combine: experts a token"),
    SIZE(experts, "of dispatch and combine: of the whole layer"),
    {.name = "class",
     .type = ORR_FIELD_ENUM,
     .offset = offsetof(cost_args, class),
     .values = classes,
     .fallback = "any",
     .doc = "kind of the table of --batch; 'any' takes it from the columns"},
    TEXT(write, "write the table with its predictions to this path instead of into the answer"),
};
static const orr_schema schema = {
    .title = "cost", .fields = fields, .count = sizeof fields / sizeof *fields, .open = true};

orr_tree *orr_cost_fields(orr_arena *arena) {
    const orr_tree *list = orr_schema_fields(&schema, arena);
    orr_tree *out = orr_tree_new_list(arena);
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        orr_tree *field = orr_tree_push(arena, out, orr_tree_copy(arena, orr_tree_at(list, i)));
        if (i == 0) {
            orr_tree_put_bool(arena, field, "positional", true);
        }
    }
    return out;
}

/* ---- a table -------------------------------------------------------------------------------- */

static orr_status price_table(orr_job *job, const cost_args *args, orr_err *err) {
    char *csv = NULL;
    ORR_TRY(orr_cost_kernels_batch(job->arena, args->batch,
                                   args->class > 0 ? classes[args->class] : NULL, &csv,
                                   &job->result, err));
    if (args->write != NULL) {
        ORR_TRY(orr_os_write_file(args->write, csv, strlen(csv), err));
        orr_tree_put_text(job->arena, job->result, "written", args->write);
    } else {
        orr_tree_put_text(job->arena, job->result, "csv", csv);
    }
    return ORR_OK;
}

/* ---- one op --------------------------------------------------------------------------------- */

static const char *const ops[] = {"gemm",       "grouped_gemm", "attention",      "elementwise",
                                  "norm_fwd",   "norm_bwd",     "softmax",        "permute",
                                  "loss",       "embedding",    "cast",           "bulk",
                                  "all_reduce", "all_gather",   "reduce_scatter", "all_to_all",
                                  "send_recv",  "broadcast",    "dispatch",       "combine"};
enum { OPS = sizeof ops / sizeof *ops, FIRST_FAMILY = 3, FIRST_COLLECTIVE = 12, DISPATCH = 18 };

static orr_status find_op(const char *name, int *out, orr_err *err) {
    for (int i = 0; i < OPS; i++) {
        if (orr_name_equal(name, ops[i])) {
            *out = i;
            return ORR_OK;
        }
    }
    orr_status status = orr_fail(err, ORR_E_NAME, "unknown op '%s'", name);
    int nearest = orr_name_nearest(name, ops, OPS);
    if (nearest >= 0) {
        orr_hint(err, "did you mean '%s'?", ops[nearest]);
    }
    return status;
}

static orr_status need(const char *op, const char *name, double value, orr_err *err) {
    return value > 0 ? ORR_OK : orr_fail(err, ORR_E_USAGE, "cost %s needs --%s", op, name);
}

static void put_size(orr_job *job, orr_tree *row, const char *key, double value) {
    if (value > 0) {
        orr_tree_put_real(job->arena, row, key, value);
    }
}

/* The op as a record of evidence would describe it. */
static orr_status kernel_row(orr_job *job, const cost_args *args, int which, orr_tree *row,
                             orr_err *err) {
    double batch = 0;
    if (args->batch != NULL && !orr_parse_real(args->batch, &batch)) {
        return orr_fail(err, ORR_E_USAGE, "--batch of an op is a number, not '%s'", args->batch);
    }
    bool memory = which >= FIRST_FAMILY && which < FIRST_COLLECTIVE;
    orr_tree_put_text(job->arena, row, "op", memory ? "memory" : ops[which]);
    if (memory) {
        double bytes = args->bytes;
        if (!(bytes > 0) && args->rows > 0 && args->cols > 0) {
            static const double ELEMENT_BYTES = 2, PASSES = 2;
            bytes = PASSES * ELEMENT_BYTES * args->rows * args->cols;
        }
        ORR_TRY(need(ops[which], "bytes (or --rows and --cols)", bytes, err));
        orr_tree_put_text(job->arena, row, "family", ops[which]);
        put_size(job, row, "bytes", bytes);
        put_size(job, row, "kernels", args->kernels);
        return ORR_OK;
    }
    if (args->dtype != NULL) {
        orr_tree_put_text(job->arena, row, "dtype", args->dtype);
    }
    orr_tree_put_text(job->arena, row, "phase", args->phase != NULL ? args->phase : "forward");
    orr_tree_put_bool(job->arena, row, "causal", args->causal);
    put_size(job, row, "batch", which == 1 ? args->groups : batch);
    const struct {
        const char *name;
        double value;
    } sizes[] = {{"m", args->m},
                 {"n", args->n},
                 {"k", args->k},
                 {"out_bytes", args->out_bytes},
                 {"heads", args->heads},
                 {"kv_heads", args->kv_heads},
                 {"head_dim", args->head_dim},
                 {"v_dim", args->v_dim},
                 {"window", args->window},
                 {"seq_q", args->seq_q},
                 {"seq_kv", args->seq_kv}};
    static const uint32_t needed[] = {0x7, 0x7, 0x250}; /* bits of sizes; of the first three ops */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (needed[which] >> i & 1) {
            ORR_TRY(need(ops[which], sizes[i].name, sizes[i].value, err));
        }
        put_size(job, row, sizes[i].name, sizes[i].value);
    }
    return which == 1 ? need(ops[which], "groups", args->groups, err) : ORR_OK;
}

/* A token goes once to each rank that holds one of its experts. */
static orr_status exchange_op(const cost_args *args, int which, orr_op *op, orr_err *err) {
    ORR_TRY(need(ops[which], "ranks", args->ranks, err));
    ORR_TRY(need(ops[which], "tokens", args->tokens, err));
    ORR_TRY(need(ops[which], "hidden", args->hidden, err));
    ORR_TRY(need(ops[which], "topk", args->topk, err));
    ORR_TRY(need(ops[which], "experts", args->experts, err));
    if (args->topk > args->experts || args->experts < args->ranks) {
        return orr_fail(err, ORR_E_USAGE,
                        "%s among %g ranks needs at least as many experts, and "
                        "no more than %g a token",
                        ops[which], args->ranks, args->experts);
    }
    bool small = args->dtype != NULL && orr_name_equal(args->dtype, "fp8");
    double element = small ? 1 : 2;
    double copies = orr_cost_token_copies(args->ranks, args->topk, args->experts);
    double bytes = args->tokens * copies * args->hidden * element * args->ranks / (args->ranks - 1);
    *op = (orr_op){.kind = ORR_OP_COLLECTIVE, .sub = ORR_ALL_TO_ALL, .stream = ORR_STREAM_EP};
    op->shape.comm.rank_bytes = (uint64_t)(bytes + 0.5);
    op->shape.comm.topk = (uint32_t)args->topk;
    op->shape.comm.experts = (uint32_t)args->experts;
    return ORR_OK;
}

static orr_status make_op(orr_job *job, const cost_args *args, int which, orr_op *op,
                          orr_err *err) {
    if (which >= FIRST_COLLECTIVE) {
        ORR_TRY(need(ops[which], "ranks", args->ranks > 1 ? args->ranks : 0, err));
        if (args->ranks * args->stride > ORR_MAX_GPUS) {
            return orr_fail(err, ORR_E_USAGE, "%g ranks, %g apart, are more than %d accelerators",
                            args->ranks, args->stride, (int)ORR_MAX_GPUS);
        }
        if (which >= DISPATCH) {
            ORR_TRY(exchange_op(args, which, op, err));
        } else {
            ORR_TRY(need(ops[which], "bytes", args->bytes, err));
            *op = (orr_op){.kind = ORR_OP_COLLECTIVE, .sub = (uint8_t)(which - FIRST_COLLECTIVE)};
            op->shape.comm.rank_bytes = (uint64_t)(args->bytes + 0.5);
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

static orr_status find_cluster(orr_job *job, const cost_args *args, orr_cluster **out,
                               orr_err *err) {
    orr_fabric *fabric = NULL;
    if (args->fabric != NULL) {
        ORR_TRY(orr_fabric_find(job->arena, args->fabric, &fabric, err));
    }
    double span = orr_max_f64(1, args->ranks * args->stride);
    uint32_t gpus = (uint32_t)orr_max_f64(span, args->gpus);
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

static orr_status price_op(orr_job *job, const cost_args *args, orr_err *err) {
    int which = 0;
    orr_op op = {0};
    orr_cluster *cluster = NULL;
    orr_software *software = NULL;
    ORR_TRY(find_op(args->op, &which, err));
    ORR_TRY(make_op(job, args, which, &op, err));
    ORR_TRY(find_cluster(job, args, &cluster, err));
    const char *profile = args->software != NULL ? args->software : "unknown";
    ORR_TRY(orr_software_find(job->arena, profile, &software, err));
    const orr_cost_table *table = NULL;
    ORR_TRY(orr_cost_table_new(job->arena, cluster, software, &table, err));
    ORR_TRY(orr_job_use_evidence(job, cluster->accelerator, software->name, err));
    if (job->evidence != NULL) {
        table = orr_cost_table_measured(job->arena, table, job->evidence);
    }
    ORR_TRY(orr_cost_op_write(job->arena, table, &op, &job->result, err));
    if (which >= DISPATCH) {
        orr_tree_put_text(job->arena, job->result, "op",
                          orr_arena_format(job->arena,
                                           "%s of %.0f tokens of %.0f to %.0f of %.0f "
                                           "experts on %.0f ranks",
                                           ops[which], args->tokens, args->hidden, args->topk,
                                           args->experts, args->ranks));
    }
    orr_tree_put_text(job->arena, job->result, "software", software->name);
    return ORR_OK;
}

orr_status orr_command_cost(orr_job *job, orr_err *err) {
    cost_args args = {0};
    ORR_TRY(orr_schema_read(&schema, job->arena, job->args, &args, NULL, err));
    job->inputs = orr_tree_copy(job->arena, job->args);
    if (args.op != NULL) {
        return price_op(job, &args, err);
    }
    if (args.batch == NULL) {
        orr_status status = orr_fail(err, ORR_E_USAGE, "cost needs an op, or --batch FILE");
        orr_hint(err, "orrery cost gemm --m 8192 --n 8192 --k 8192 --hardware h100");
        return status;
    }
    return price_table(job, &args, err);
}
