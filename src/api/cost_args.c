/* The options of `orrery cost`. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/cost_args.h"
#include "base/err.h"
#include "base/num.h"
#include "base/text.h"
#include "doc/doc.h"

const char *const orr_cost_classes[] = {"any",         "gemm",        "grouped_gemm",
                                        "moe_fused",   "attention",   "memops",
                                        "collectives", "ep_alltoall", NULL};

/* Kinds of ops, by the options that they take. */
enum {
    PRODUCT = 1,
    GROUPED = 2,
    ATTENTION = 4,
    MEMORY = 8,
    COLLECTIVE = 16,
    EXCHANGE = 32,
    TABLE = 64,
    OPTIMIZER = 128,
    MATRIX = 256, /* rows and columns */
    ROUTER = 512,
    LOSS = 1024, /* rows and columns too */
    MUON = 2048,
    LAUNCH = 4096,
    UNEVEN = 8192,      /* may load ranks differently */
    VARIANT = 1 << 14,  /* rows and columns; fused or eager as the profile has it */
    GATED = 1 << 15,    /* an activation */
    MASKED = 1 << 16,   /* a sum that may drop out */
    STREAMED = 1 << 17, /* that libraries have kernels of */
    COUNTED = OPTIMIZER | MATRIX | ROUTER | LOSS | VARIANT | MASKED,
    SHAPED = MATRIX | LOSS | MUON | VARIANT | MASKED,
    MATMULS = PRODUCT | GROUPED,
    COMPUTE = MATMULS | ATTENTION,
    GROUP = COLLECTIVE | EXCHANGE,
    OPS_ALL = COMPUTE | MEMORY | GROUP | COUNTED | MUON | LAUNCH,
    EVERYTHING = OPS_ALL | TABLE
};

const char *const orr_cost_graphs[] = {"profile", "none", "partial", "full_iteration", NULL};

#define TEXT(member, ops, text)                                                                    \
    {.name = #member,                                                                              \
     .type = ORR_FIELD_TEXT,                                                                       \
     .offset = offsetof(orr_cost_args, member),                                                    \
     .fallback = "",                                                                               \
     .of = (ops),                                                                                  \
     .doc = text}
#define SIZE(member, ops, needing, text)                                                           \
    {.name = #member,                                                                              \
     .type = ORR_FIELD_REAL,                                                                       \
     .offset = offsetof(orr_cost_args, member),                                                    \
     .max = UINT32_MAX,                                                                            \
     .fallback = "0",                                                                              \
     .of = (ops),                                                                                  \
     .needed_by = (needing),                                                                       \
     .doc = text}

static const orr_field fields[] = {
    TEXT(op, EVERYTHING,
         "gemm, grouped-gemm, attention; elementwise, norm-fwd, norm-bwd, softmax, permute, "
         "loss, embedding, cast, bulk (optimizers); all-reduce, all-gather, reduce-scatter, "
         "all-to-all, send-recv, broadcast; dispatch, combine; adam, cross-entropy, router, "
         "dropout, rotary, activation, norm, residual; muon; launch"),
    TEXT(hardware, OPS_ALL, "accelerator: a catalog name or a hardware file"),
    TEXT(cluster, OPS_ALL, "node type that it stands in; default: the accelerator's usual one"),
    TEXT(fabric, OPS_ALL, "what connects the domains; default: the cluster's"),
    TEXT(software, OPS_ALL, "profile under which it runs in training; default: unknown"),
    SIZE(gpus, OPS_ALL, 0, "accelerators of the cluster; default: what the group needs"),
    TEXT(dtype, COMPUTE | EXCHANGE,
         "bf16, fp16, fp32, fp8, mxfp8, fp8_block, nvfp4 or int8; default: bf16"),
    TEXT(phase, COMPUTE | MATRIX | ROUTER | LOSS | VARIANT | MASKED | LAUNCH,
         "of a product: forward, input_grad or weight_grad; of attention: forward or "
         "backward; default: forward"),
    SIZE(m, MATMULS, MATMULS, "rows of a product; grouped: of one group"),
    SIZE(n, MATMULS, MATMULS, "columns of a product"),
    SIZE(k, MATMULS, MATMULS, "depth of a product"),
    SIZE(groups, GROUPED | EXCHANGE, GROUPED,
         "of a grouped product; of dispatch and combine: of experts, all of a token's choices in "
         "--group-topk of them (node-limited routing)"),
    SIZE(out_bytes, MATMULS, 0,
         "moved an element of a product's output; 8: an fp32 sum is read and written"),
    TEXT(batch, PRODUCT | ATTENTION | MUON | TABLE,
         "with an op: products, sequences of attention, or muon's matrices. Alone: a table of "
         "kernels "
         "(.csv or .csv.gz; columns as for validate --kernels, times not needed), every row "
         "priced as a benchmark runs it"),
    SIZE(heads, ATTENTION, ATTENTION, "query heads"),
    SIZE(kv_heads, ATTENTION, 0, "key-value heads; default: heads"),
    SIZE(head_dim, ATTENTION, ATTENTION, "width of a query head"),
    SIZE(v_dim, ATTENTION, 0, "width of a value head; default: head_dim"),
    SIZE(window, ATTENTION, 0, "tokens of a sliding window; 0: none"),
    SIZE(seq_q, ATTENTION, ATTENTION, "queries of a sequence on this rank"),
    SIZE(seq_kv, ATTENTION, 0, "keys of a sequence; default: seq_q"),
    TEXT(lengths, ATTENTION,
         "sequences of one call, packed and masked against each other, instead of seq_q: "
         "4096,1024,512"),
    {.name = "unfused",
     .type = ORR_FIELD_BOOL,
     .of = ATTENTION,
     .offset = offsetof(orr_cost_args, unfused),
     .fallback = "no",
     .doc = "two products around a softmax, each kernel on its own; default: as the software "
            "profile has it"},
    TEXT(library, ATTENTION | STREAMED,
         "whose kernel the price of a benchmark is of: fa2, fa3, fa4, cudnn, trtllm, te, aiter, "
         "hipkittens; of norms, softmax and activation cudnn, pytorch, compile, vllm"),
    {.name = "gated",
     .type = ORR_FIELD_BOOL,
     .of = GATED,
     .offset = offsetof(orr_cost_args, gated),
     .fallback = "yes",
     .doc = "of an activation: two inputs an output"},
    {.name = "dropout",
     .type = ORR_FIELD_BOOL,
     .of = MASKED,
     .offset = offsetof(orr_cost_args, dropout),
     .fallback = "no",
     .doc = "of residual: a mask is kept"},
    {.name = "causal",
     .type = ORR_FIELD_BOOL,
     .of = ATTENTION,
     .offset = offsetof(orr_cost_args, causal),
     .fallback = "yes",
     .doc = "of attention"},
    {.name = "bytes",
     .type = ORR_FIELD_QUANTITY,
     .of = MEMORY | COLLECTIVE,
     .needed_by = COLLECTIVE,
     .offset = offsetof(orr_cost_args, bytes),
     .max = ORR_COST_MOST,
     .fallback = "0",
     .unit = "bytes",
     .doc = "traffic of a memory-bound op; of a collective as nccl-tests counts them (gather: "
            "whole output; scatter: whole input); 1e9, 1GB or 1GiB"},
    SIZE(rows, MEMORY | SHAPED, SHAPED,
         "of a memory-bound op, instead of bytes: one read and one write of rows x cols "
         "(norm-bwd: two reads); of a "
         "matrix that muon updates; of norm, activation (its output), residual and rotary (query "
         "and key heads together): tokens"),
    SIZE(cols, MEMORY | SHAPED, SHAPED, "see rows"),
    SIZE(kernels, MEMORY | LAUNCH, 0,
         "launches of a memory-bound op, default: 1; of launch: those of a layer's phase"),
    SIZE(ranks, GROUP, GROUP, "members of a collective"),
    {.name = "stride",
     .type = ORR_FIELD_REAL,
     .of = GROUP,
     .offset = offsetof(orr_cost_args, stride),
     .min = 1,
     .max = ORR_MAX_GPUS,
     .fallback = "1",
     .doc = "distance of its members in rank order"},
    SIZE(tokens, EXCHANGE | ROUTER, EXCHANGE | ROUTER,
         "of dispatch, combine and router: of one rank"),
    SIZE(hidden, EXCHANGE, EXCHANGE, "of dispatch and combine"),
    SIZE(topk, EXCHANGE, EXCHANGE, "of dispatch and combine: experts a token"),
    SIZE(experts, EXCHANGE | ROUTER, EXCHANGE | ROUTER,
         "of dispatch, combine and router: of the whole layer"),
    SIZE(group_topk, EXCHANGE, 0,
         "of dispatch and combine: groups of experts that a token chooses; see groups"),
    {.name = "imbalance",
     .type = ORR_FIELD_REAL,
     .of = UNEVEN,
     .offset = offsetof(orr_cost_args, imbalance),
     .min = 1,
     .max = ORR_MAX_GPUS,
     .fallback = "1",
     .doc = "of all-to-all, dispatch and combine: bytes of the fullest rank by the mean"},
    {.name = "units",
     .type = ORR_FIELD_REAL,
     .of = EXCHANGE,
     .offset = offsetof(orr_cost_args, units),
     .min = 1,
     .max = 1024,
     .fallback = "20",
     .doc = "of dispatch and combine: SMs given to the kernel, as a benchmark of it runs"},
    {.name = "elements",
     .type = ORR_FIELD_REAL,
     .of = OPTIMIZER,
     .needed_by = OPTIMIZER,
     .offset = offsetof(orr_cost_args, elements),
     .max = ORR_COST_MOST,
     .fallback = "0",
     .doc = "of an optimizer: parameters that this rank updates"},
    {.name = "eager",
     .type = ORR_FIELD_BOOL,
     .of = OPTIMIZER | LOSS | VARIANT | ATTENTION,
     .offset = offsetof(orr_cost_args, eager),
     .fallback = "no",
     .doc = "of adam: PyTorch's foreach passes instead of one kernel; of cross-entropy: logits in "
            "fp32; of norm, activation, rotary and unfused attention: each operator on its own, "
            "default: as the software profile has it"},
    SIZE(layers, LAUNCH, 0, "of launch: how many, one after the other; default: 1"),
    {.name = "moe",
     .type = ORR_FIELD_BOOL,
     .of = LAUNCH,
     .offset = offsetof(orr_cost_args, moe),
     .fallback = "no",
     .doc = "of launch: layers with experts, which take the host longer"},
    {.name = "graphs",
     .type = ORR_FIELD_ENUM,
     .of = LAUNCH,
     .offset = offsetof(orr_cost_args, graphs),
     .values = orr_cost_graphs,
     .fallback = "profile",
     .doc = "of launch: what is captured as a CUDA graph; 'profile' leaves it to the software"},
    {.name = "class",
     .type = ORR_FIELD_ENUM,
     .of = TABLE,
     .offset = offsetof(orr_cost_args, class),
     .values = orr_cost_classes,
     .fallback = "any",
     .doc = "kind of the table of --batch; 'any' takes it from the columns"},
    TEXT(write, TABLE,
         "write the table with its predictions to this path instead of into the answer"),
};
enum { FIELDS = sizeof fields / sizeof *fields };
static const orr_schema schema = {.title = "cost", .fields = fields, .count = FIELDS, .open = true};

double orr_cost_size(const orr_cost_args *args, const char *name) {
    orr_cost_args copy = *args;
    const double *size = orr_schema_number(&schema, &copy, name);
    return size == NULL ? 0 : *size;
}

orr_status orr_cost_args_read(orr_job *job, orr_cost_args *out, uint64_t *seen, orr_err *err) {
    ORR_TRY(orr_schema_read(&schema, job->arena, job->args, out, seen, err));
    for (size_t f = 0; f < FIELDS; f++) {
        bool stated = *seen >> f & 1;
        out->eager_stated = strcmp(fields[f].name, "eager") == 0 ? stated : out->eager_stated;
        out->unfused_stated = strcmp(fields[f].name, "unfused") == 0 ? stated : out->unfused_stated;
    }
    return ORR_OK;
}

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

const char *const orr_cost_ops[ORR_COST_OPS] = {
    "gemm",     "grouped_gemm", "attention",  ORR_MEMOP_WORDS, ORR_COLLECTIVE_WORDS,
    "dispatch", "combine",      "adam",       "cross_entropy", "router",
    "dropout",  "rotary",       "activation", "norm",          "residual",
    "muon",     "launch"};

orr_status orr_cost_find_op(const char *name, int *out, orr_err *err) {
    for (int i = 0; i < ORR_COST_OPS; i++) {
        /* bytes of an eager norm are elements: norm_fwd is what is meant */
        if (i != ORR_COST_FAMILY + ORR_MEMOP_EAGER && orr_name_equal(name, orr_cost_ops[i])) {
            *out = i;
            return ORR_OK;
        }
    }
    orr_status status = orr_fail(err, ORR_E_NAME, "unknown op '%s'", name);
    int nearest = orr_name_nearest(name, orr_cost_ops, ORR_COST_OPS);
    if (nearest == ORR_COST_FAMILY + ORR_MEMOP_EAGER) {
        orr_hint(err, "an eager norm is a norm_fwd or norm_bwd of its own bytes");
    } else if (nearest >= 0) {
        orr_hint(err, "did you mean '%s'?", orr_cost_ops[nearest]);
    } else {
        orr_hint(err, "it may be %s", fields[0].doc);
    }
    return status;
}

static uint32_t family_of(int which) {
    static const uint32_t kernels[ORR_COST_FAMILY] = {PRODUCT, GROUPED, ATTENTION};
    static const uint32_t counted[] = {
        OPTIMIZER,          LOSS,   ROUTER, MATRIX, VARIANT, VARIANT | GATED | STREAMED,
        VARIANT | STREAMED, MASKED, MUON,   LAUNCH};
    bool streamed = which >= ORR_COST_FAMILY + ORR_MEMOP_NORM_FWD &&
                    which <= ORR_COST_FAMILY + ORR_MEMOP_SOFTMAX;
    return which < 0                                       ? TABLE
           : which < ORR_COST_FAMILY                       ? kernels[which]
           : which < ORR_COST_COLLECTIVE                   ? MEMORY | (streamed ? STREAMED : 0u)
           : which == ORR_COST_COLLECTIVE + ORR_ALL_TO_ALL ? COLLECTIVE | UNEVEN
           : which < ORR_COST_DISPATCH                     ? COLLECTIVE
           : which < ORR_COST_ADAM                         ? EXCHANGE | UNEVEN
                                                           : counted[which - ORR_COST_ADAM];
}

/* An option's name as a command line writes it. */
static const char *option_name(orr_arena *arena, const char *name) {
    char *text = orr_arena_text(arena, name);
    for (char *p = text; *p != '\0'; p++) {
        *p = *p == '_' ? '-' : *p;
    }
    return text;
}

static orr_status not_taken(orr_job *job, const char *op, const char *name, uint32_t family,
                            orr_err *err) {
    orr_status status =
        orr_fail(err, ORR_E_USAGE, "cost %s does not take --%s", op, option_name(job->arena, name));
    orr_text text = orr_text_new(job->arena, 1024);
    for (int common = 0; common < 2; common++) { /* what all ops take comes last */
        for (size_t i = 0; i < FIELDS; i++) {
            const orr_field *field = &fields[i];
            if (field->of & family && field->of != EVERYTHING &&
                (field->of == OPS_ALL) == (common == 1)) {
                orr_text_format(&text, " --%s", option_name(job->arena, field->name));
            }
        }
    }
    if (family != TABLE) {
        orr_text_add(&text, " --evidence --evidence-use --evidence-accept");
    }
    orr_hint(err, "it takes%s", orr_text_done(&text));
    return status;
}

/* A size that is stated: whole, and not 0 where the op needs it. */
static orr_status check_size(orr_job *job, const orr_field *field, double value, bool needed,
                             orr_err *err) {
    double least = !needed ? 0 : strcmp(field->name, "ranks") == 0 ? 2 : 1;
    double most = strcmp(field->name, "ranks") == 0 ? ORR_MAX_GPUS : field->max;
    bool whole = field->type == ORR_FIELD_QUANTITY || strcmp(field->name, "imbalance") == 0 ||
                 value == floor(value);
    if (whole && value >= least && value <= most) {
        return ORR_OK;
    }
    return orr_fail(err, ORR_E_USAGE, "--%s must be %s between %.0f and %.0f, not %.17g",
                    option_name(job->arena, field->name),
                    field->type == ORR_FIELD_QUANTITY ? "a number" : "a whole number", least, most,
                    value);
}

/* All that the op needs and nobody said, at once. */
static orr_status missing(orr_job *job, const orr_cost_args *args, const char *op, uint32_t family,
                          uint64_t seen, orr_err *err) {
    orr_text text = orr_text_new(job->arena, 1024);
    for (size_t f = 0; f < FIELDS; f++) {
        bool packed = args->lengths != NULL && strcmp(fields[f].name, "seq_q") == 0;
        if (fields[f].needed_by & family && !(seen >> f & 1) && !packed) {
            orr_text_format(&text, " --%s", option_name(job->arena, fields[f].name));
        }
    }
    if (args->hardware == NULL && args->cluster == NULL) {
        orr_text_add(&text, " --hardware");
    }
    orr_status status = orr_fail(err, ORR_E_USAGE, "cost %s needs%s", op, orr_text_done(&text));
    orr_hint(err, "orrery help cost says what each of them is");
    return status;
}

/* Every option that is stated is one of the op (-1: of a table), in its range, and none is missing.
 */
orr_status orr_cost_check_options(orr_job *job, const orr_cost_args *args, int which, uint64_t seen,
                                  orr_err *err) {
    uint32_t family = family_of(which);
    const char *what = which < 0 ? "of a table" : orr_cost_ops[which];
    for (size_t f = 0; f < FIELDS; f++) {
        const orr_field *field = &fields[f];
        bool needed = (field->needed_by & family) != 0 &&
                      !(args->lengths != NULL && strcmp(field->name, "seq_q") == 0);
        if (!(seen >> f & 1)) {
            if (needed) {
                return missing(job, args, what, family, seen, err);
            }
            continue;
        }
        if (!(field->of & family)) {
            return not_taken(job, what, field->name, family, err);
        }
        if (field->type == ORR_FIELD_REAL || field->type == ORR_FIELD_QUANTITY) {
            double value = *(const double *)(const void *)((const char *)args + field->offset);
            ORR_TRY(check_size(job, field, value, needed, err));
        }
    }
    return ORR_OK;
}

/* A product of sizes that is counted: it must be exact as a double, and fit an integer. */
orr_status orr_cost_check_count(const char *op, const char *what, double count, orr_err *err) {
    return count <= ORR_COST_MOST
               ? ORR_OK
               : orr_fail(err, ORR_E_USAGE,
                          "cost %s: %s is %.3g, more than %.0f (2^53) cannot be priced", op, what,
                          count, ORR_COST_MOST);
}

orr_status orr_cost_check_product(const orr_cost_args *args, int which, double batch,
                                  orr_err *err) {
    double count = which == ORR_COST_GROUPED ? args->groups : batch;
    const char *op = orr_cost_ops[which], *times = which == ORR_COST_GROUPED ? "groups" : "batch";
    char what[64];
    const struct {
        const char *name;
        double elements;
    } parts[] = {
        {"m x n", args->m * args->n}, {"m x k", args->m * args->k}, {"n x k", args->n * args->k}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        (void)snprintf(what, sizeof what, "%s x %s", parts[i].name, times);
        ORR_TRY(orr_cost_check_count(op, what, parts[i].elements * count, err));
    }
    return ORR_OK;
}

orr_status orr_cost_check_attention(const orr_cost_args *args, double batch, orr_err *err) {
    double kv_heads = args->kv_heads > 0 ? args->kv_heads : args->heads;
    double width = orr_max_f64(args->head_dim, args->v_dim);
    double keys = args->seq_kv > 0 ? args->seq_kv : args->seq_q;
    if (fmod(args->heads, kv_heads) != 0) {
        return orr_fail(err, ORR_E_CONFLICT, "--kv-heads %.0f does not divide --heads %.0f",
                        kv_heads, args->heads);
    }
    ORR_TRY(orr_cost_check_count("attention", "batch x heads x seq_q x head_dim",
                                 batch * args->heads * args->seq_q * width, err));
    ORR_TRY(orr_cost_check_count("attention", "batch x kv_heads x seq_kv x head_dim",
                                 batch * kv_heads * keys * width, err));
    return orr_cost_check_count("attention", "seq_q x seq_kv", args->seq_q * keys, err);
}

/* m, n and k are those of the product itself, which a phase only says the role of: the two products
 * of a backward have other ones. Attention's backward is one kernel. */
orr_status orr_cost_check_phase(const orr_cost_args *args, int which, orr_err *err) {
    static const char *const product[] = {"forward", "input_grad", "weight_grad"};
    static const char *const whole[] = {"forward", "backward", "input_grad"};
    bool one = which > ORR_COST_GROUPED; /* kernel for all gradients */
    const char *const *list = one ? whole : product;
    for (int i = 0; i < 3 && args->phase != NULL; i++) {
        if (orr_name_equal(args->phase, list[i])) {
            return ORR_OK;
        }
    }
    if (args->phase == NULL) {
        return ORR_OK;
    }
    orr_status status =
        orr_fail(err, ORR_E_USAGE, "cost %s has no phase '%s'", orr_cost_ops[which], args->phase);
    if (one) {
        orr_hint(err, "its phases are forward and backward: one kernel gives all gradients");
    } else {
        orr_hint(err, "its phases are forward, input_grad and weight_grad: a backward is the last "
                      "two, each with its own m, n and k");
    }
    return status;
}

orr_status orr_cost_find_dtype(const orr_cost_args *args, orr_dtype *out, orr_err *err) {
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
    orr_hint(err, "%s%s%s it may be bf16, fp16, fp32, fp8, mxfp8, fp8_block, nvfp4 or int8",
             nearest < 0 ? "" : "did you mean '", nearest < 0 ? "" : names[nearest],
             nearest < 0 ? "" : "'?");
    return status;
}

orr_status orr_cost_lengths(orr_job *job, const orr_cost_args *args, double **out, uint32_t *count,
                            orr_err *err) {
    enum { MOST = 65536 };
    const char *at = args->lengths;
    uint32_t n = 1;
    for (const char *p = at; *p != '\0'; p++) {
        n += *p == ',';
    }
    if (args->seq_q > 0 || args->seq_kv > 0 || args->batch != NULL) {
        return orr_fail(err, ORR_E_CONFLICT,
                        "--lengths says all of --batch, --seq-q and --seq-kv: leave those out");
    }
    if (n > MOST) {
        return orr_fail(err, ORR_E_LIMIT, "--lengths holds more than %d sequences", (int)MOST);
    }
    *out = ORR_NEW_ARRAY(job->arena, double, n);
    *count = n;
    for (uint32_t i = 0; i < n; i++) {
        size_t length = strcspn(at, ",");
        const char *word = orr_arena_format(job->arena, "%.*s", (int)orr_min_u64(length, 40), at);
        double *value = &(*out)[i];
        if (!orr_parse_real(word, value) || !(*value >= 1 && *value <= UINT32_MAX) ||
            *value != floor(*value)) {
            return orr_fail(err, ORR_E_USAGE,
                            "--lengths is a list of whole numbers between 1 and %u, not '%s'",
                            UINT32_MAX, word);
        }
        at += length + (at[length] == ',');
    }
    return ORR_OK;
}

orr_status orr_cost_batch(const orr_cost_args *args, double *out, orr_err *err) {
    *out = 1;
    if (args->batch != NULL && (!orr_parse_real(args->batch, out) || *out < 1 ||
                                *out > UINT32_MAX || *out != floor(*out))) {
        return orr_fail(err, ORR_E_USAGE,
                        "--batch of an op must be a whole number between 1 and %u, not '%s'",
                        UINT32_MAX, args->batch);
    }
    return ORR_OK;
}

static bool has_rate(const orr_accelerator *a, orr_dtype dtype) {
    return a->peak_flops[dtype] > 0 || (dtype == ORR_FP8_BLOCK && a->peak_flops[ORR_FP8] > 0);
}

/* As rule NUM-01 of plans. */
orr_status orr_cost_check_dtype(orr_job *job, const orr_accelerator *a, orr_dtype dtype,
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
