/* Measured times before modelled ones.
 *
 * An exact record is taken as it is, when it was measured under the software of the plan. One that
 * names no software is of a kernel run alone, over and over: in training it takes longer, by what
 * the calibration found for the architecture (gemm_factor), and then counts as restored. Between
 * records the model's time is scaled by what its
 * neighbours say (orr_evidence_between), where that is surer than the model alone, or where the
 * neighbours contradict the model by more than they differ. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "cost/cost_int.h"

static const double LEAST_RELERR = 0.02; /* two runs of one kernel differ by 3 %, kernels.md §1 */

/* What training adds to a record. */
static double training_factor(const orr_cost_table *table, const orr_evidence *evidence,
                              const orr_evidence_record *record) {
    bool alone = evidence->file[record->file].software[0] == '\0';
    bool gemm = record->key.kind <= ORR_OP_GROUPED_GEMM;
    return alone && gemm ? table->arch->gemm_factor : 1;
}

const orr_cost_table *orr_cost_table_measured(orr_arena *arena, const orr_cost_table *base,
                                              const orr_evidence *evidence) {
    struct orr_prices_table *table = ORR_NEW(arena, struct orr_prices_table);
    *table = *base;
    double *model_s = ORR_NEW_ARRAY(arena, double, evidence->count + 1);
    for (uint32_t i = 0; i < evidence->count; i++) {
        const orr_evidence_key *key = &evidence->record[i].key;
        if (key->kind == ORR_OP_COLLECTIVE) {
            uint32_t ranks = (uint32_t)key->dim[1], domains = orr_max_u32(1, (uint32_t)key->dim[2]);
            orr_group group = {ranks, orr_max_u32(1, ranks / domains), domains, 1};
            model_s[i] =
                orr_policy_price(base, (orr_collective)key->sub, (double)key->dim[0], group, 0, 0)
                    .time_s;
        } else if (key->kind == ORR_OP_MEMORY) {
            model_s[i] = orr_cost_memory(base, (orr_memop)key->sub, (double)key->dim[0],
                                         (uint32_t)key->dim[1])
                             .time_s;
        } else if (key->kind < ORR_OP_COLLECTIVE) {
            orr_op op;
            orr_evidence_op_of(key, &op);
            model_s[i] = orr_cost_op(base, &op).time_s;
        }
        model_s[i] /= training_factor(base, evidence, &evidence->record[i]);
    }
    table->evidence = evidence;
    table->evidence_model_s = model_s;
    return table;
}

const orr_evidence *orr_cost_table_evidence(const orr_cost_table *table) {
    return table->evidence;
}

orr_measured orr_measured_of(const orr_cost_table *table, const orr_evidence_key *key,
                             orr_cost model) {
    orr_measured out = {.cost = model, .model_s = model.time_s, .how = ORR_BY_MODEL};
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
    orr_evidence_near near = orr_evidence_between(table->evidence, table->evidence_model_s, key);
    double contradiction = fabs(log(near.ratio));
    if (near.neighbours > 0 && model.time_s > 0 &&
        near.relerr_frac <= orr_max_f64(model.relerr_frac, contradiction)) {
        out.how = ORR_BY_NEIGHBOURS;
        out.octaves = near.octaves;
        out.cost = (orr_cost){model.time_s * near.ratio, near.relerr_frac, ORR_FROM_RESTORED};
    }
    return out;
}

orr_cost orr_cost_best(const orr_cost_table *table, const orr_evidence_key *key, orr_cost model) {
    return table->evidence == NULL ? model : orr_measured_of(table, key, model).cost;
}

orr_measured orr_cost_explain(const orr_cost_table *table, const orr_op *op) {
    orr_cost_table bare = *table;
    bare.evidence = NULL;
    orr_cost model = orr_cost_op(&bare, op);
    orr_evidence_key key;
    orr_measured out = {.cost = model, .model_s = model.time_s, .how = ORR_BY_MODEL};
    if (table->evidence == NULL || !orr_cost_key(table, op, &key)) {
        return out;
    }
    orr_measured found = orr_measured_of(table, &key, model);
    found.cost = orr_cost_op(table, op); /* with what the software adds, and repeats */
    return found;
}
