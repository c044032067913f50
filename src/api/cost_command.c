/* `orrery cost`: the price of one op, and why; or of every row of a table. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
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

#define MOST 9007199254740992.0 /* 2^53: larger counts are not exact in a double */

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
     .max = UINT32_MAX,                                                                            \
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
    TEXT(phase, "of a product: forward, input_grad or weight_grad; of attention: forward or "
                "backward; default: forward"),
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
    {.name = "bytes",
     .type = ORR_FIELD_QUANTITY,
     .offset = offsetof(cost_args, bytes),
     .max = MOST,
     .fallback = "0",
     .unit = "bytes",
     .doc = "traffic of a memory-bound op; of a collective as nccl-tests counts them (gather: "
            "whole output; scatter: whole input); 1e9, 1GB or 1GiB"},
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

/* ---- which op takes which option ------------------------------------------------------------ */

enum {
    PRODUCT = 1,
    GROUPED = 2,
    ATTENTION = 4,
    MEMORY = 8,
    COLLECTIVE = 16,
    EXCHANGE = 32,
    TABLE = 64,
    MATMULS = PRODUCT | GROUPED,
    COMPUTE = MATMULS | ATTENTION,
    GROUP = COLLECTIVE | EXCHANGE,
    OPS_ALL = COMPUTE | MEMORY | GROUP
};

/* What is not listed goes with everything. */
static const struct {
    const char *name;
    uint8_t of, needed;
} options[] = {{"dtype", COMPUTE | EXCHANGE, 0},
               {"phase", COMPUTE, 0},
               {"m", MATMULS, MATMULS},
               {"n", MATMULS, MATMULS},
               {"k", MATMULS, MATMULS},
               {"groups", GROUPED, GROUPED},
               {"out_bytes", MATMULS, 0},
               {"batch", PRODUCT | ATTENTION | TABLE, 0},
               {"heads", ATTENTION, ATTENTION},
               {"kv_heads", ATTENTION, 0},
               {"head_dim", ATTENTION, ATTENTION},
               {"v_dim", ATTENTION, 0},
               {"window", ATTENTION, 0},
               {"seq_q", ATTENTION, ATTENTION},
               {"seq_kv", ATTENTION, 0},
               {"causal", ATTENTION, 0},
               {"bytes", MEMORY | COLLECTIVE, COLLECTIVE},
               {"rows", MEMORY, 0},
               {"cols", MEMORY, 0},
               {"kernels", MEMORY, 0},
               {"ranks", GROUP, GROUP},
               {"stride", GROUP, 0},
               {"tokens", EXCHANGE, EXCHANGE},
               {"hidden", EXCHANGE, EXCHANGE},
               {"topk", EXCHANGE, EXCHANGE},
               {"experts", EXCHANGE, EXCHANGE},
               {"class", TABLE, 0},
               {"write", TABLE, 0},
               {"hardware", OPS_ALL, 0},
               {"cluster", OPS_ALL, 0},
               {"fabric", OPS_ALL, 0},
               {"software", OPS_ALL, 0},
               {"gpus", OPS_ALL, 0}};
enum { OPTIONS = sizeof options / sizeof *options };

static uint8_t family_of(int which) {
    static const uint8_t kernels[FIRST_FAMILY] = {PRODUCT, GROUPED, ATTENTION};
    return which < 0                  ? TABLE
           : which < FIRST_FAMILY     ? kernels[which]
           : which < FIRST_COLLECTIVE ? MEMORY
           : which < DISPATCH         ? COLLECTIVE
                                      : EXCHANGE;
}

static orr_status not_taken(orr_job *job, const char *op, const char *name, uint8_t family,
                            orr_err *err) {
    orr_status status = orr_fail(err, ORR_E_USAGE, "cost %s does not take --%s", op, name);
    orr_text text = orr_text_new(job->arena, 1024);
    for (int i = 0; i < OPTIONS; i++) {
        if (options[i].of & family) {
            orr_text_format(&text, " --%s", options[i].name);
        }
    }
    orr_hint(err, "it takes%s", orr_text_done(&text));
    return status;
}

/* A size that is stated: whole, and not 0 where the op needs it. */
static orr_status check_size(const orr_field *field, double value, bool needed, orr_err *err) {
    double least = !needed ? 0 : strcmp(field->name, "ranks") == 0 ? 2 : 1;
    double most = strcmp(field->name, "ranks") == 0 ? ORR_MAX_GPUS : field->max;
    bool whole = field->type == ORR_FIELD_QUANTITY || value == floor(value);
    if (whole && value >= least && value <= most) {
        return ORR_OK;
    }
    return orr_fail(err, ORR_E_USAGE, "--%s must be %s between %.0f and %.0f, not %.17g",
                    field->name, field->type == ORR_FIELD_QUANTITY ? "a number" : "a whole number",
                    least, most, value);
}

/* Every option that is stated is one of the op (-1: of a table), in its range, and none is missing.
 */
static orr_status check_options(orr_job *job, const cost_args *args, int which, uint64_t seen,
                                orr_err *err) {
    uint8_t family = family_of(which);
    const char *what = which < 0 ? "of a table" : ops[which];
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
        const orr_field *field = &fields[f];
        uint8_t of = family, needed = 0;
        for (int i = 0; i < OPTIONS; i++) {
            if (strcmp(options[i].name, field->name) == 0) {
                of = options[i].of & family;
                needed = options[i].needed & family;
            }
        }
        if (!(seen >> f & 1)) {
            if (needed) {
                return orr_fail(err, ORR_E_USAGE, "cost %s needs --%s", what, field->name);
            }
            continue;
        }
        if (!of) {
            return not_taken(job, what, field->name, family, err);
        }
        if (field->type == ORR_FIELD_REAL || field->type == ORR_FIELD_QUANTITY) {
            double value = *(const double *)(const void *)((const char *)args + field->offset);
            ORR_TRY(check_size(field, value, needed != 0, err));
        }
    }
    return ORR_OK;
}

/* A product of sizes that is counted: it must be exact as a double, and fit an integer. */
static orr_status check_count(const char *op, const char *what, double count, orr_err *err) {
    return count <= MOST ? ORR_OK
                         : orr_fail(err, ORR_E_USAGE,
                                    "cost %s: %s is %.3g, more than %.0f (2^53) cannot be priced",
                                    op, what, count, MOST);
}

static orr_status check_product(const cost_args *args, int which, double batch, orr_err *err) {
    double count = which == 1 ? args->groups : batch;
    const char *op = ops[which], *times = which == 1 ? "groups" : "batch";
    char what[64];
    const struct {
        const char *name;
        double elements;
    } parts[] = {
        {"m x n", args->m * args->n}, {"m x k", args->m * args->k}, {"n x k", args->n * args->k}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        (void)snprintf(what, sizeof what, "%s x %s", parts[i].name, times);
        ORR_TRY(check_count(op, what, parts[i].elements * count, err));
    }
    return ORR_OK;
}

static orr_status check_attention(const cost_args *args, double batch, orr_err *err) {
    double kv_heads = args->kv_heads > 0 ? args->kv_heads : args->heads;
    double width = orr_max_f64(args->head_dim, args->v_dim);
    double keys = args->seq_kv > 0 ? args->seq_kv : args->seq_q;
    if (fmod(args->heads, kv_heads) != 0) {
        return orr_fail(err, ORR_E_CONFLICT, "--kv_heads %.0f does not divide --heads %.0f",
                        kv_heads, args->heads);
    }
    ORR_TRY(check_count("attention", "batch x heads x seq_q x head_dim",
                        batch * args->heads * args->seq_q * width, err));
    ORR_TRY(check_count("attention", "batch x kv_heads x seq_kv x head_dim",
                        batch * kv_heads * keys * width, err));
    return check_count("attention", "seq_q x seq_kv", args->seq_q * keys, err);
}

/* m, n and k are those of the product itself, which a phase only says the role of: the two products
 * of a backward have other ones. Attention's backward is one kernel. */
static orr_status check_phase(const cost_args *args, int which, orr_err *err) {
    static const char *const product[] = {"forward", "input_grad", "weight_grad"};
    static const char *const attention[] = {"forward", "backward", "input_grad"};
    const char *const *list = which == 2 ? attention : product;
    for (int i = 0; i < 3 && args->phase != NULL; i++) {
        if (orr_name_equal(args->phase, list[i])) {
            return ORR_OK;
        }
    }
    if (args->phase == NULL) {
        return ORR_OK;
    }
    orr_status status =
        orr_fail(err, ORR_E_USAGE, "cost %s has no phase '%s'", ops[which], args->phase);
    if (which == 2) {
        orr_hint(err, "its phases are forward and backward: one kernel gives all gradients");
    } else {
        orr_hint(err, "its phases are forward, input_grad and weight_grad: a backward is the last "
                      "two, each with its own m, n and k");
    }
    return status;
}

static orr_status find_dtype(const cost_args *args, orr_dtype *out, orr_err *err) {
    const char *names[ORR_DTYPE_COUNT];
    *out = ORR_BF16;
    for (int i = 0; i < ORR_DTYPE_COUNT; i++) {
        names[i] = orr_dtype_name((orr_dtype)i);
        if (args->dtype != NULL && orr_name_equal(args->dtype, names[i])) {
            *out = (orr_dtype)i;
            return ORR_OK;
        }
    }
    if (args->dtype == NULL) {
        return ORR_OK;
    }
    orr_status status = orr_fail(err, ORR_E_NAME, "unknown dtype '%s'", args->dtype);
    int nearest = orr_name_nearest(args->dtype, names, ORR_DTYPE_COUNT);
    orr_hint(err, "%s%s%s it may be bf16, fp16, fp32, fp8, mxfp8, fp8_block or nvfp4",
             nearest < 0 ? "" : "did you mean '", nearest < 0 ? "" : names[nearest],
             nearest < 0 ? "" : "'?");
    return status;
}

static bool has_rate(const orr_accelerator *a, orr_dtype dtype) {
    return a->peak_flops[dtype] > 0 || (dtype == ORR_FP8_BLOCK && a->peak_flops[ORR_FP8] > 0);
}

/* As rule NUM-01 of plans. */
static orr_status check_dtype(orr_job *job, const orr_accelerator *a, orr_dtype dtype,
                              orr_err *err) {
    if (has_rate(a, dtype)) {
        return ORR_OK;
    }
    orr_status status =
        orr_fail(err, ORR_E_INFEASIBLE, "%s has no matmuls in %s", a->name, orr_dtype_name(dtype));
    orr_text text = orr_text_new(job->arena, 200);
    for (int i = 0, n = 0; i < ORR_DTYPE_COUNT; i++) {
        if (has_rate(a, (orr_dtype)i)) {
            orr_text_format(&text, "%s%s", n++ == 0 ? "" : ", ", orr_dtype_name((orr_dtype)i));
        }
    }
    orr_hint(err, "it has %s", orr_text_done(&text));
    return status;
}

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
static orr_status kernel_row(orr_job *job, const cost_args *args, int which, orr_tree *row,
                             orr_err *err) {
    double batch = 1;
    if (args->batch != NULL && (!orr_parse_real(args->batch, &batch) || batch < 1 ||
                                batch > UINT32_MAX || batch != floor(batch))) {
        return orr_fail(err, ORR_E_USAGE,
                        "--batch of an op must be a whole number between 1 and %u, not '%s'",
                        UINT32_MAX, args->batch);
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
        ORR_TRY(check_count(ops[which], "the traffic", bytes, err));
        orr_tree_put_text(job->arena, row, "family", ops[which]);
        put_size(job, row, "bytes", bytes);
        put_size(job, row, "kernels", args->kernels);
        return ORR_OK;
    }
    ORR_TRY(check_phase(args, which, err));
    ORR_TRY(which == 2 ? check_attention(args, batch, err)
                       : check_product(args, which, batch, err));
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
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        put_size(job, row, sizes[i].name, sizes[i].value);
    }
    return ORR_OK;
}

/* A token goes once to each rank that holds one of its experts. */
static orr_status exchange_op(const cost_args *args, int which, orr_op *op, orr_err *err) {
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
    ORR_TRY(check_count(ops[which], "what a rank sends", bytes, err));
    *op = (orr_op){.kind = ORR_OP_COLLECTIVE, .sub = ORR_ALL_TO_ALL, .stream = ORR_STREAM_EP};
    op->shape.comm.rank_bytes = (uint64_t)(bytes + 0.5);
    op->shape.comm.topk = (uint32_t)args->topk;
    op->shape.comm.experts = (uint32_t)args->experts;
    return ORR_OK;
}

static orr_status make_op(orr_job *job, const cost_args *args, int which, orr_op *op,
                          orr_err *err) {
    if (which >= FIRST_COLLECTIVE) {
        if (args->ranks * args->stride > ORR_MAX_GPUS) {
            return orr_fail(err, ORR_E_USAGE, "%g ranks, %g apart, are more than %d accelerators",
                            args->ranks, args->stride, (int)ORR_MAX_GPUS);
        }
        if (which >= DISPATCH) {
            ORR_TRY(exchange_op(args, which, op, err));
        } else {
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

static orr_status price_op(orr_job *job, const cost_args *args, uint64_t seen, orr_err *err) {
    int which = 0;
    orr_dtype dtype = ORR_BF16;
    orr_op op = {0};
    orr_cluster *cluster = NULL;
    orr_software *software = NULL;
    ORR_TRY(find_op(args->op, &which, err));
    ORR_TRY(check_options(job, args, which, seen, err));
    ORR_TRY(find_dtype(args, &dtype, err));
    ORR_TRY(make_op(job, args, which, &op, err));
    ORR_TRY(find_cluster(job, args, &cluster, err));
    if (which < FIRST_FAMILY) {
        ORR_TRY(check_dtype(job, cluster->accelerator, dtype, err));
    }
    const char *profile = args->software != NULL ? args->software : "unknown";
    ORR_TRY(orr_software_find(job->arena, profile, &software, err));
    const orr_cost_table *table = NULL;
    ORR_TRY(orr_cost_table_new(job->arena, cluster, software, &table, err));
    ORR_TRY(orr_job_use_evidence(job, cluster->accelerator, software->name, err));
    if (job->evidence != NULL) {
        table = orr_cost_table_measured(job->arena, table, job->evidence);
    }
    ORR_TRY(orr_cost_op_write(job->arena, table, &op, &job->result, err));
    const char *provenance = orr_tree_text(orr_tree_get(job->result, "provenance"), "");
    if (op.kind == ORR_OP_ATTENTION && orr_dtype_bytes(dtype) != 2 &&
        strcmp(provenance, "measured") != 0) {
        orr_job_warn(job, "dtype_not_modelled", "dtype",
                     "attention in %s is priced as in 16 bits: there is no model of it",
                     orr_dtype_name(dtype));
    }
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

/* ---- a table -------------------------------------------------------------------------------- */

static orr_status price_table(orr_job *job, const cost_args *args, uint64_t seen, orr_err *err) {
    char *csv = NULL;
    ORR_TRY(check_options(job, args, -1, seen, err));
    ORR_TRY(orr_cost_kernels_batch(job->arena, args->batch,
                                   args->class > 0 ? classes[args->class] : NULL, &csv,
                                   &job->result, err));
    const orr_tree *unpriced = orr_tree_at(orr_tree_get(job->result, "unpriced"), 0);
    int64_t rows = orr_tree_int(orr_tree_get(job->result, "rows"), 0);
    int64_t left = rows - orr_tree_int(orr_tree_get(job->result, "priced"), 0);
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
    cost_args args = {0};
    uint64_t seen = 0;
    ORR_TRY(orr_schema_read(&schema, job->arena, job->args, &args, &seen, err));
    job->inputs = orr_tree_copy(job->arena, job->args);
    if (args.op != NULL) {
        return price_op(job, &args, seen, err);
    }
    if (args.batch == NULL) {
        orr_status status = orr_fail(err, ORR_E_USAGE, "cost needs an op, or --batch FILE");
        orr_hint(err, "orrery cost gemm --m 8192 --n 8192 --k 8192 --hardware h100");
        return status;
    }
    return price_table(job, &args, seen, err);
}
