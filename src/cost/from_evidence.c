/* Measured times before modelled ones.
 *
 * An exact record is taken as it is, when it was measured under the software of the plan. One that
 * names no software is of a kernel run alone, over and over: in training it takes longer, by what
 * the calibration found for the architecture (gemm_factor), and then counts as restored. Other
 * shapes take the model's time, moved by what the records say of it there (orr_evidence_between):
 * hardly where they are few or far, to their own word where they are many and near. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cost/cost_int.h"

static const double LEAST_RELERR = 0.02; /* two runs of one kernel: docs/kernels.md */

/* What training adds to a record. */
static double training_factor(const orr_cost_table *table, const orr_evidence *evidence,
                              const orr_evidence_record *record) {
    const char *software =
        record->software != NULL ? record->software : evidence->file[record->file].software;
    bool alone = software[0] == '\0';
    bool gemm = record->key.kind <= ORR_OP_GROUPED_GEMM;
    return alone && gemm ? table->arch->gemm_factor : 1;
}

/* What a table's model says of a record's collective. */
static orr_cost collective_model(const orr_cost_table *table, const orr_evidence_key *key) {
    uint32_t ranks = (uint32_t)key->dim[1], domains = orr_max_u32(1, (uint32_t)key->dim[2]);
    orr_group group = {
        .size = ranks, .inner = orr_max_u32(1, ranks / domains), .domains = domains, .rivals = 1};
    static const orr_routing none = {0, 0, 0, 0};
    return orr_policy_price(table, (orr_collective)key->sub, (double)key->dim[0], group, &none);
}

/* ---- sweeps --------------------------------------------------------------------------------- */

enum { LEAST_SWEEP = 4, MOST_SWEEP = 256 };
static const double LEAST_SPAN = 8; /* largest by smallest message of a sweep */

typedef struct message {
    double bytes, ratio; /* measured by modelled time */
} message;

static int by_bytes(const void *a, const void *b) {
    const message *x = (const message *)a, *y = (const message *)b;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int by_ratio(const void *a, const void *b) {
    const message *x = (const message *)a, *y = (const message *)b;
    return (x->ratio > y->ratio) - (x->ratio < y->ratio);
}

static double median_ratio(message *m, uint32_t count) {
    qsort(m, count, sizeof *m, by_ratio);
    return m[count / 2].ratio;
}

/* Small messages say what starts cost, large ones what bandwidth there is: the lower and the upper
 * third of a sweep, by size. */
static orr_sweep sweep_of(message *m, uint32_t count) {
    orr_sweep sweep = {0, 1, 1, 0};
    qsort(m, count, sizeof *m, by_bytes);
    if (count < LEAST_SWEEP || m[count - 1].bytes < LEAST_SPAN * m[0].bytes) {
        return sweep;
    }
    uint32_t third = (count + 2) / 3;
    double start = median_ratio(m, third), rate = median_ratio(m + count - third, third);
    double off = 0;
    for (uint32_t i = 0; i < count; i++) { /* how far records lie from the nearer of both */
        double least = orr_min_f64(fabs(log(m[i].ratio / start)), fabs(log(m[i].ratio / rate)));
        off += least * least / count;
    }
    static const double RUN_RELERR = 0.05;
    return (orr_sweep){count, start, 1 / rate, orr_max_f64(RUN_RELERR, sqrt(off))};
}

/* A machine's own sweeps replace the constants of its fabric and links (nccl-tests, rccl-tests). An
 * operation that crosses domains and was not swept takes what all others that do say of it. */
static void take_sweeps(struct orr_prices_table *table, const orr_cost_table *base,
                        const orr_evidence *evidence) {
    message *all = (message *)orr_alloc(2 * (size_t)MOST_SWEEP * sizeof *all);
    message *one = all + MOST_SWEEP;
    uint32_t known = 0;
    for (int across = 0; across < 2; across++) {
        for (int kind = 0; kind < ORR_COLLECTIVE_COUNT; kind++) {
            uint32_t count = 0;
            for (uint32_t i = 0; i < evidence->count && count < MOST_SWEEP; i++) {
                const orr_evidence_key *key = &evidence->record[i].key;
                bool fits = key->kind == ORR_OP_COLLECTIVE && key->sub == kind &&
                            (key->dim[2] > 1) == (across == 1);
                if (!fits) {
                    continue;
                }
                double model = collective_model(base, key).time_s;
                if (model > 0) {
                    one[count++] =
                        (message){(double)key->dim[0], evidence->record[i].time_s / model};
                }
            }
            orr_sweep sweep = sweep_of(one, count);
            *(across ? &table->across[kind] : &table->inside[kind]) = sweep;
            for (uint32_t i = 0; across && sweep.records > 0 && i < count && known < MOST_SWEEP;
                 i++) {
                all[known++] = one[i];
            }
        }
    }
    orr_sweep together = sweep_of(all, known);
    for (int kind = 0; kind < ORR_COLLECTIVE_COUNT; kind++) {
        if (table->across[kind].records == 0 && together.records > 0) {
            table->across[kind] = together;
        }
    }
    orr_release(all);
}

orr_modelled orr_cost_model_of(const orr_cost_table *table, const orr_evidence *evidence,
                               const orr_evidence_record *record) {
    const orr_evidence_key *key = &record->key;
    orr_cost cost = {0};
    if (key->kind == ORR_OP_COLLECTIVE) {
        cost = collective_model(table, key);
    } else if (key->kind == ORR_OP_MEMORY) {
        cost =
            orr_cost_memory(table, (orr_memop)key->sub, (double)key->dim[0], (uint32_t)key->dim[1]);
    } else if (key->kind < ORR_OP_COLLECTIVE) {
        orr_op op;
        orr_evidence_op_of(key, &op);
        cost = orr_cost_op(table, &op);
    }
    return (orr_modelled){cost.time_s / training_factor(table, evidence, record), cost.relerr_frac};
}

const orr_cost_table *orr_cost_table_measured(orr_arena *arena, const orr_cost_table *base,
                                              const orr_evidence *evidence) {
    struct orr_prices_table *table = ORR_NEW(arena, struct orr_prices_table);
    *table = *base;
    take_sweeps(table, base, evidence);
    orr_modelled *model = ORR_NEW_ARRAY(arena, orr_modelled, evidence->count + 1);
    for (uint32_t i = 0; i < evidence->count; i++) {
        model[i] = orr_cost_model_of(table, evidence, &evidence->record[i]);
    }
    table->evidence = evidence;
    table->field = orr_evidence_field_new(arena, evidence, model, table->calibration->likeness);
    return table;
}

const orr_evidence *orr_cost_table_evidence(const orr_cost_table *table) {
    return table->evidence;
}

orr_measured orr_measured_of(const orr_cost_table *table, const orr_evidence_key *key,
                             orr_cost model) {
    orr_measured out = {
        .cost = model, .model_s = model.time_s, .model_relerr_frac = model.relerr_frac};
    const orr_evidence_record *record = orr_evidence_find(table->evidence, key);
    if (record != NULL) {
        double factor = training_factor(table, table->evidence, record);
        double relerr_frac = orr_max_f64(LEAST_RELERR, record->spread_frac);
        out.how = ORR_BY_EXACT;
        out.record = record;
        out.cost = (orr_cost){record->time_s, relerr_frac, ORR_FROM_MEASURED};
        if (factor != 1) {
            out.cost.time_s *= factor;
            out.cost.relerr_frac = hypot(relerr_frac, table->arch->gemm_error_frac);
            out.cost.provenance = ORR_FROM_RESTORED;
        }
        return out;
    }
    orr_evidence_near near = orr_evidence_between(table->field, key, model.relerr_frac);
    if (near.records > 0 && model.time_s > 0) {
        bool restored = near.neighbours > 0;
        out.how = near.inside ? ORR_BY_BETWEEN : restored ? ORR_BY_NEAR : ORR_BY_FAR;
        out.octaves = near.octaves;
        out.record_ratio = near.record_ratio;
        out.near = near.neighbours;
        out.cost = (orr_cost){model.time_s * near.ratio, near.relerr_frac,
                              restored ? ORR_FROM_RESTORED : model.provenance};
    }
    return out;
}

const char *orr_cost_how_name(orr_cost_how how) {
    static const char *const NAMES[ORR_HOW_COUNT] = {"model", "far", "near", "between", "exact"};
    return how < ORR_HOW_COUNT ? NAMES[how] : "unknown";
}

orr_cost orr_cost_best(const orr_cost_table *table, const orr_evidence_key *key, orr_cost model) {
    return table->evidence == NULL ? model : orr_measured_of(table, key, model).cost;
}

orr_measured orr_cost_explain(const orr_cost_table *table, const orr_op *op) {
    orr_cost_table bare = *table;
    bare.evidence = NULL;
    orr_cost model = orr_cost_op(&bare, op);
    orr_evidence_key key;
    orr_measured out = {
        .cost = model, .model_s = model.time_s, .model_relerr_frac = model.relerr_frac};
    if (table->evidence == NULL || !orr_cost_key(table, op, &key)) {
        return out;
    }
    orr_measured found = orr_measured_of(table, &key, model);
    found.cost = orr_cost_op(table, op); /* with what the software adds, and repeats */
    return found;
}
