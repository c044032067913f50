/* The field table of a record, and what a record becomes. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "evidence/evidence_int.h"

const char *const orr_evidence_ops[] = {
    "gemm",  "grouped_gemm", "attention", "memory", ORR_COLLECTIVE_WORDS,
    "layer", "unit",         "step",      NULL};
const char *const orr_evidence_families[] = {ORR_MEMOP_WORDS, NULL};
const char *const orr_evidence_phases[] = {"any",         "forward",  "input_grad",
                                           "weight_grad", "backward", NULL};
static const char *const classes[] = {"any", "kernel", "layer", "collective", "step", NULL};
static const char *const dtypes[] = {ORR_DTYPE_WORDS, NULL};
_Static_assert(sizeof orr_evidence_ops / sizeof *orr_evidence_ops == ORR_ROW_STEP + 2,
               "an op each");
_Static_assert(sizeof orr_evidence_families / sizeof *orr_evidence_families == ORR_MEMOP_COUNT + 1,
               "a name a family");

#define TEXT(member, text)                                                                         \
    {.name = #member,                                                                              \
     .type = ORR_FIELD_TEXT,                                                                       \
     .offset = offsetof(orr_evidence_row, member),                                                 \
     .fallback = "",                                                                               \
     .doc = text}
#define WORD(member, list, usual, text)                                                            \
    {.name = #member,                                                                              \
     .type = ORR_FIELD_ENUM,                                                                       \
     .offset = offsetof(orr_evidence_row, member),                                                 \
     .values = list,                                                                               \
     .fallback = usual,                                                                            \
     .doc = text}
#define SIZE(member, text)                                                                         \
    {.name = #member,                                                                              \
     .type = ORR_FIELD_REAL,                                                                       \
     .offset = offsetof(orr_evidence_row, member),                                                 \
     .max = 9007199254740992.0,                                                                    \
     .fallback = "0",                                                                              \
     .doc = text}

static const orr_field fields[] = {
    WORD(class, classes, "any", "kernel, layer, collective or step; told by the op"),
    WORD(op, orr_evidence_ops, NULL, "what ran"),
    WORD(phase, orr_evidence_phases, "any", "backward: of attention and layers as a whole"),
    WORD(dtype, dtypes, "bf16", "of the inputs"),
    WORD(family, orr_evidence_families, "elementwise", "kind of memory-bound kernel"),
    TEXT(device, "accelerator; the file's when not stated"),
    TEXT(software, "profile or stack; the file's when not stated"),
    TEXT(source, "who measured it; the file's when not stated"),
    TEXT(name, "what the measuring program calls it"),
    {.name = "time_us",
     .type = ORR_FIELD_REAL,
     .offset = offsetof(orr_evidence_row, time_us),
     .min = 1e-6,
     .max = 1e12,
     .unit = "us",
     .doc = "median of the repetitions, or their mean without stalls, microseconds"},
    SIZE(spread, "one standard deviation of the repetitions, relative"),
    SIZE(samples, "repetitions"),
    {.name = "causal",
     .type = ORR_FIELD_BOOL,
     .offset = offsetof(orr_evidence_row, causal),
     .fallback = "yes",
     .doc = "attention"},
    SIZE(out_bytes, "GEMM: bytes moved per output element; 8: an fp32 sum is read and written"),
    SIZE(m, "GEMM rows; grouped: of one group"),
    SIZE(n, "GEMM columns"),
    SIZE(k, "GEMM depth"),
    SIZE(batch, "products; groups of a grouped GEMM; sequences of attention"),
    SIZE(heads, "query heads; of a layer: of the whole model"),
    SIZE(kv_heads, "key-value heads"),
    SIZE(head_dim, "width of a query head"),
    SIZE(v_dim, "width of a value head; the query's when not stated"),
    SIZE(window, "tokens of a sliding window; 0: none"),
    SIZE(seq_q, "queries of a sequence on this rank"),
    SIZE(seq_kv, "keys of a sequence"),
    SIZE(bytes, "memory: traffic; collective: of a rank, as nccl-tests counts; unit: its gather's"),
    SIZE(kernels, "memory: launches"),
    SIZE(ranks, "of the group"),
    SIZE(domains, "scale-up domains that the group touches"),
    SIZE(hidden, "layer"),
    SIZE(ffn, "layer, dense"),
    SIZE(experts, "layer, routed experts of the whole model"),
    SIZE(topk, "layer, experts a token"),
    SIZE(expert_ffn, "layer, width of an expert"),
    SIZE(shared_ffn, "layer, width of the shared experts"),
    SIZE(seq, "layer, tokens of a sequence"),
    SIZE(mbs, "layer, sequences"),
    SIZE(tp, "layer, as it ran"),
    SIZE(cp, "layer, as it ran"),
    SIZE(ep, "layer, as it ran"),
    SIZE(sp, "layer, 1: sequence parallel"),
    SIZE(gpus, "step, accelerators that ran it"),
    {.name = "plan",
     .type = ORR_FIELD_TREE,
     .offset = offsetof(orr_evidence_row, plan),
     .fallback = "",
     .doc = "step, keys of the plan as for the command line"},
};
const orr_schema orr_evidence_row_schema = {"evidence record", fields,
                                            sizeof fields / sizeof *fields, false};

orr_evidence_class orr_evidence_row_class(const orr_evidence_row *row) {
    return row->op == ORR_ROW_STEP         ? ORR_CLASS_BIT_STEP
           : row->op >= ORR_ROW_LAYER      ? ORR_CLASS_BIT_LAYER
           : row->op >= ORR_ROW_COLLECTIVE ? ORR_CLASS_BIT_COLLECTIVE
                                           : ORR_CLASS_BIT_KERNEL;
}

/* ---- from a row to a record ----------------------------------------------------------------- */

/* One size of a key: the field that states it, and what it is where the row does not. */
typedef struct dim {
    const char *name;
    size_t field; /* of orr_evidence_row */
    size_t like;  /* another of its fields; 0: none */
    double usual; /* -1: it must be stated */
} dim;
#define NEEDED(member) {#member, offsetof(orr_evidence_row, member), 0, -1}
#define USUAL(member, value) {#member, offsetof(orr_evidence_row, member), 0, value}
#define LIKE(member, other)                                                                        \
    {#member, offsetof(orr_evidence_row, member), offsetof(orr_evidence_row, other), 0}
static const dim dims[ORR_EVIDENCE_KIND_COUNT][ORR_EVIDENCE_DIMS + 1] = {
    [ORR_OP_GEMM] = {NEEDED(m), NEEDED(n), NEEDED(k), USUAL(batch, 1)},
    [ORR_OP_GROUPED_GEMM] = {NEEDED(m), NEEDED(n), NEEDED(k), USUAL(batch, 1)},
    [ORR_OP_ATTENTION] = {USUAL(batch, 1), NEEDED(heads), LIKE(kv_heads, heads), NEEDED(head_dim),
                          LIKE(v_dim, head_dim), USUAL(window, 0), NEEDED(seq_q),
                          LIKE(seq_kv, seq_q)},
    [ORR_OP_MEMORY] = {NEEDED(bytes), USUAL(kernels, 1)},
    [ORR_OP_COLLECTIVE] = {NEEDED(bytes), NEEDED(ranks), USUAL(domains, 1)},
    [ORR_EVIDENCE_LAYER] = {NEEDED(hidden), USUAL(heads, 0), LIKE(kv_heads, heads),
                            USUAL(head_dim, 0), LIKE(v_dim, head_dim), USUAL(ffn, 0),
                            USUAL(experts, 0), USUAL(topk, 0), USUAL(expert_ffn, 0),
                            USUAL(shared_ffn, 0), NEEDED(seq), USUAL(mbs, 1), USUAL(tp, 1),
                            USUAL(cp, 1), USUAL(ep, 1), USUAL(sp, 0)},
    [ORR_EVIDENCE_UNIT] = {NEEDED(bytes)},
};

const char *orr_evidence_size(uint8_t kind, uint32_t index) {
    return dims[kind][index].name;
}

static double size_of(const orr_evidence_row *row, size_t field) {
    double size;
    memcpy(&size, (const char *)row + field, sizeof size);
    return size;
}

static orr_status put_sizes(const orr_evidence_row *row, orr_evidence_key *key, orr_err *err) {
    const dim *of = dims[key->kind];
    for (uint32_t i = 0; of[i].name != NULL; i++) {
        double size = size_of(row, of[i].field);
        if (!(size > 0)) {
            size = of[i].like > 0 ? size_of(row, of[i].like) : of[i].usual;
        }
        if (size < 0) {
            return orr_fail(err, ORR_E_SCHEMA, "a record of op '%s' needs '%s'",
                            orr_evidence_ops[row->op], of[i].name);
        }
        key->dim[i] = (uint64_t)(size + 0.5);
    }
    return ORR_OK;
}

/* Which kind of key a row's op has, and what its kind alone has. */
static orr_status put_kind(const orr_evidence_row *row, orr_evidence_key *key, orr_err *err) {
    if (row->op >= ORR_ROW_LAYER) { /* layers and units run forward and backward as a whole */
        key->kind = row->op == ORR_ROW_LAYER ? ORR_EVIDENCE_LAYER : ORR_EVIDENCE_UNIT;
        key->dtype = 0;
        if (key->phase != ORR_PHASE_FORWARD && key->phase != ORR_PHASE_INPUT_GRAD) {
            return orr_fail(err, ORR_E_SCHEMA, "a %s's phase is 'forward' or 'backward'",
                            orr_evidence_ops[row->op]);
        }
    } else if (row->op >= ORR_ROW_COLLECTIVE) {
        key->kind = ORR_OP_COLLECTIVE;
        key->sub = (uint8_t)(row->op - ORR_ROW_COLLECTIVE);
        key->phase = key->dtype = 0;
    } else if (row->op == ORR_OP_MEMORY) {
        key->kind = ORR_OP_MEMORY;
        key->sub = row->family;
        key->phase = key->dtype = 0;
    } else if (row->op == ORR_OP_ATTENTION) {
        key->kind = ORR_OP_ATTENTION;
        key->causal = row->causal;
    } else {
        key->kind = row->op;
        if (row->out_bytes > 8) {
            return orr_fail(err, ORR_E_SCHEMA, "out_bytes is %g, at most 8 are moved an element",
                            row->out_bytes);
        }
        key->out_bytes = (uint8_t)row->out_bytes;
    }
    return ORR_OK;
}

orr_status orr_evidence_row_record(const orr_evidence_row *row, orr_evidence_record *out,
                                   orr_err *err) {
    static const uint8_t phases[] = {ORR_EVIDENCE_ANY, ORR_PHASE_FORWARD, ORR_PHASE_INPUT_GRAD,
                                     ORR_PHASE_WEIGHT_GRAD, ORR_PHASE_INPUT_GRAD};
    *out = (orr_evidence_record){.time_s = row->time_us * 1e-6,
                                 .spread_frac = row->spread,
                                 .samples = row->samples > 1 ? (uint32_t)row->samples : 1};
    out->key.phase = phases[row->phase];
    out->key.dtype = row->dtype;
    ORR_TRY(put_kind(row, &out->key, err));
    return put_sizes(row, &out->key, err);
}

orr_status orr_evidence_key_read(orr_arena *arena, const orr_tree *map, orr_evidence_key *key,
                                 orr_err *err) {
    orr_evidence_row row = {0};
    orr_evidence_record record;
    orr_tree *whole = orr_tree_copy(arena, map);
    orr_tree_put_real(arena, whole, "time_us", 1);
    ORR_TRY(orr_schema_read(&orr_evidence_row_schema, arena, whole, &row, NULL, err));
    if (row.op >= ORR_ROW_LAYER) {
        return orr_fail(err, ORR_E_SCHEMA, "'%s' is neither a kernel nor a collective",
                        orr_evidence_ops[row.op]);
    }
    ORR_TRY(orr_evidence_row_record(&row, &record, err));
    *key = record.key;
    return ORR_OK;
}
