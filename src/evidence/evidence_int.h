/* Inside the module: rows as files write them, and the set while it is read. */
#ifndef ORR_EVIDENCE_INT_H
#define ORR_EVIDENCE_INT_H

#include "doc/doc.h"
#include "evidence/evidence.h"

/* One record as a file states it; every field of every kind. */
typedef struct orr_evidence_row {
    const char *device, *software, *source, *name;
    uint8_t class, op, phase, dtype, family;
    bool causal;
    double time_us, spread, samples;
    double out_bytes, m, n, k, batch;
    double heads, kv_heads, head_dim, v_dim, window, seq_q, seq_kv;
    double bytes, kernels, ranks, domains;
    double hidden, ffn, experts, topk, expert_ffn, shared_ffn, seq, mbs, tp, cp, ep, sp, gpus;
    const orr_tree *plan;
} orr_evidence_row;

extern const orr_schema orr_evidence_row_schema;
/* Words of a row's `op`, in the order of its value: the kinds of orr_op with each collective on its
 * own, then layer, unit and step. */
enum {
    ORR_ROW_COLLECTIVE = 4, /* the first of them */
    ORR_ROW_LAYER = ORR_ROW_COLLECTIVE + ORR_COLLECTIVE_COUNT,
    ORR_ROW_UNIT,
    ORR_ROW_STEP
};
extern const char *const orr_evidence_ops[];
extern const char *const orr_evidence_families[];
extern const char *const orr_evidence_phases[];

/* A row as a record. Errors: a size that the op needs is missing, negative or beyond 2^53. */
orr_status orr_evidence_row_record(const orr_evidence_row *row, orr_evidence_record *out,
                                   orr_err *err);
orr_evidence_class orr_evidence_row_class(const orr_evidence_row *row);

/* A set being read. */
typedef struct orr_evidence_draft {
    orr_arena *arena;
    const orr_evidence_want *want;
    const orr_accelerator *device; /* wanted, or that of the first record when its name is known */
    const char *device_text;       /* of the first record, when none is wanted */
    orr_evidence *set;
    orr_evidence_record *record;
    uint32_t count, capacity;
    orr_evidence_step *step;
    uint32_t step_count, step_capacity;
    const char *last_device, *last_software; /* refused, for the message */
    const char *last_kept[2];                /* names of rows */
    uint32_t known_count;                    /* names compared so far */
    struct orr_evidence_name {
        const char *text;
        bool same;
    } known[64];
} orr_evidence_draft;

orr_status orr_evidence_take(orr_evidence_draft *draft, const orr_evidence_row *row, orr_err *err);
orr_status orr_evidence_read_csv(orr_evidence_draft *draft, const char *name, const char *text,
                                 size_t length, orr_err *err);
/* sqlite.c: a database's content, as a file's tree (*own) or as the text of a CSV; the other is
 * NULL. ORR_E_SCHEMA: it cannot be read. */
bool orr_evidence_is_sqlite(const char *bytes, size_t length);
orr_status orr_evidence_read_sqlite(orr_arena *arena, const char *bytes, size_t length,
                                    orr_tree **own, char **csv, orr_err *err);
/* Merges equal keys and builds the index. */
void orr_evidence_settle(orr_evidence_draft *draft);

#endif
