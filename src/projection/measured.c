/* Projections from measurements: sets of evidence kept by an engine, layers measured as a whole,
 * and what of a set a plan used.
 *
 * A layer measured as a whole says more than its kernels alone: how they run in situ. Its time,
 * less the communication that was in it, corrects the compute of the layer's ops by one factor,
 * forward and backward apart. At the split that was measured the layer then takes the measured
 * time; at another one the factor stays and communication is restored. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "projection/projection_int.h"

/* ---- sets ----------------------------------------------------------------------------------- */

struct orr_kept_set {
    struct orr_kept_set *next;
    orr_arena *arena;
    const orr_evidence *set;
};

void orr_engine_release_evidence(orr_engine *engine) {
    for (struct orr_kept_set *one = engine->kept, *next; one != NULL; one = next) {
        next = one->next;
        orr_arena_free(one->arena);
        orr_release(one);
    }
    engine->kept = NULL;
}

/* What a set says does not depend on when it was read: the same content is the same set. */
static const orr_evidence *keep(orr_engine *engine, orr_arena *arena, const orr_evidence *set) {
    for (const struct orr_kept_set *one = engine->kept; one != NULL; one = one->next) {
        bool same = one->set->hash == set->hash && one->set->count == set->count &&
                    one->set->file_count == set->file_count;
        for (uint32_t i = 0; same && i < set->file_count; i++) {
            same = strcmp(one->set->file[i].path, set->file[i].path) == 0;
        }
        if (same) {
            orr_arena_free(arena);
            return one->set;
        }
    }
    struct orr_kept_set *one = (struct orr_kept_set *)orr_alloc(sizeof *one);
    *one = (struct orr_kept_set){engine->kept, arena, set};
    engine->kept = one;
    return set;
}

orr_status orr_engine_read_evidence(orr_engine *engine, const char *paths,
                                    const orr_evidence_want *want, const orr_evidence **out,
                                    orr_err *err) {
    orr_arena *arena = orr_arena_new();
    orr_evidence *set = NULL;
    orr_status status = orr_evidence_read(arena, paths, want, &set, err);
    if (status != ORR_OK) {
        orr_arena_free(arena);
        return status;
    }
    *out = keep(engine, arena, set);
    return ORR_OK;
}

void orr_engine_use_evidence(orr_engine *engine, const orr_evidence *evidence) {
    engine->evidence = evidence;
}

const orr_evidence *orr_engine_evidence_for(const orr_engine *engine, const orr_cluster *cluster) {
    const orr_evidence *set = engine->evidence;
    return set != NULL && strcmp(set->device, cluster->accelerator->name) == 0 ? set : NULL;
}

/* ---- layers --------------------------------------------------------------------------------- */

enum { LAYER_WIDTHS = 12, DIM_TP = 12, DIM_CP, DIM_EP, DIM_SP };
static const double IN_SITU_RELERR = 0.03, OTHER_SPLIT_RELERR = 0.06;

/* The record of this layer, at this split or at the largest other one. */
static const orr_evidence_record *layer_record(const orr_evidence *evidence,
                                               const orr_evidence_key *key) {
    const orr_evidence_record *best = orr_evidence_find(evidence, key);
    if (best != NULL) {
        return best;
    }
    for (uint32_t i = 0; i < evidence->count; i++) {
        const orr_evidence_record *one = &evidence->record[i];
        if (one->key.kind == key->kind && one->key.phase == key->phase &&
            memcmp(one->key.dim, key->dim, LAYER_WIDTHS * sizeof *key->dim) == 0) {
            best = one; /* sorted: the last has the widest split */
        }
    }
    return best;
}

/* Compute and the rest (exposed communication) of a phase as priced. */
static void sum_phase(const orr_phase_time *time, double *compute_s, double *rest_s) {
    double compute = 0;
    for (int c = 0; c <= ORR_CLASS_LOSS; c++) {
        compute += time->class_s[c];
    }
    *compute_s += compute;
    *rest_s += time->total_s - time->host_s - compute;
}

typedef struct correction {
    double factor, relerr_frac;
    uint8_t provenance;
} correction;

static bool correct(const orr_evidence *evidence, const orr_cost_table *table,
                    const orr_software *software, const orr_object *object, orr_phase phase,
                    correction *out) {
    orr_evidence_key key;
    orr_evidence_key_of_layer(&object->key, phase, &key);
    const orr_evidence_record *record = layer_record(evidence, &key);
    if (record == NULL) {
        return false;
    }
    orr_object_key at = object->key;
    at.split.tp = (uint32_t)record->key.dim[DIM_TP];
    at.split.cp = (uint32_t)record->key.dim[DIM_CP];
    at.split.ep = (uint32_t)record->key.dim[DIM_EP];
    at.split.sp = record->key.dim[DIM_SP] != 0;
    at.dp_shards = 1;
    orr_object *measured = NULL;
    orr_arena *scratch = orr_arena_new();
    bool done = orr_lower(scratch, &at, &measured, NULL) == ORR_OK;
    if (done) {
        orr_priced priced;
        orr_part_time time;
        orr_timeline_mode mode;
        memset(&mode, 0, sizeof mode);
        mode.compute_factor = 1;
        orr_cost_price(table, scratch, measured, &priced);
        orr_timeline_object(&priced, software, &mode, &time);
        double compute_s = 0, rest_s = 0;
        sum_phase(&time.phase[phase], &compute_s, &rest_s);
        if (phase == ORR_PHASE_INPUT_GRAD) {
            sum_phase(&time.phase[ORR_PHASE_WEIGHT_GRAD], &compute_s, &rest_s);
        }
        bool same = memcmp(record->key.dim, key.dim, sizeof key.dim) == 0;
        done = compute_s > 0 && record->time_s > rest_s;
        out->factor = done ? (record->time_s - rest_s) / compute_s : 1;
        out->relerr_frac =
            orr_max_f64(same ? IN_SITU_RELERR : OTHER_SPLIT_RELERR, record->spread_frac);
        out->provenance = same ? ORR_FROM_MEASURED : ORR_FROM_RESTORED;
    }
    orr_arena_free(scratch);
    return done;
}

/* ---- sharded units -------------------------------------------------------------------------- */

/* The first exchange of a kind: that of dense parameters, whose unit holds the experts too. */
static const orr_op *first_exchange(const orr_object *object, orr_collective kind) {
    for (uint32_t i = 0; i < object->op_count; i++) {
        const orr_op *op = &object->op[i];
        if (op->kind == ORR_OP_COLLECTIVE && op->class == ORR_CLASS_DP && op->sub == kind) {
            return op;
        }
    }
    return NULL;
}

static bool lengthen(orr_cost *exchange, const orr_evidence_record *unit) {
    static const double LEAST_RELERR = 0.05;
    if (unit == NULL) {
        return false;
    }
    double error_s = exchange->time_s * exchange->relerr_frac +
                     unit->time_s * orr_max_f64(LEAST_RELERR, unit->spread_frac);
    exchange->time_s += unit->time_s;
    exchange->relerr_frac = error_s / exchange->time_s;
    return true;
}

/* What the framework does on the host around a unit lengthens the exchanges that it belongs to: the
 * gather ahead of the forward, the scatter of the backward. */
static bool add_unit(const orr_evidence *evidence, const orr_object *object, orr_cost *cost) {
    const orr_op *gather = first_exchange(object, ORR_ALL_GATHER);
    const orr_op *scatter = first_exchange(object, ORR_REDUCE_SCATTER);
    if (gather == NULL || scatter == NULL) {
        return false;
    }
    double bytes = (double)gather->shape.comm.rank_bytes;
    bool ahead =
        lengthen(&cost[gather - object->op], orr_evidence_unit(evidence, ORR_PHASE_FORWARD, bytes));
    bool back = lengthen(&cost[scatter - object->op],
                         orr_evidence_unit(evidence, ORR_PHASE_INPUT_GRAD, bytes));
    return ahead || back;
}

/* ---- layers and units in place -------------------------------------------------------------- */

static bool correct_layer(const orr_evidence *evidence, const orr_cost_table *table,
                          const orr_software *software, const orr_object *object, orr_cost *cost) {
    correction forward, backward;
    if (object->key.what != ORR_OBJECT_LAYER) {
        return false;
    }
    bool has_forward = correct(evidence, table, software, object, ORR_PHASE_FORWARD, &forward);
    bool has_backward = correct(evidence, table, software, object, ORR_PHASE_INPUT_GRAD, &backward);
    for (uint32_t i = 0; i < object->op_count; i++) {
        const orr_op *op = &object->op[i];
        bool ahead = op->phase == ORR_PHASE_FORWARD;
        if (op->class <= ORR_CLASS_LOSS && (ahead ? has_forward : has_backward)) {
            const correction *c = ahead ? &forward : &backward;
            cost[i] = (orr_cost){cost[i].time_s * c->factor, c->relerr_frac, c->provenance};
        }
    }
    return has_forward || has_backward;
}

const orr_priced *orr_engine_in_situ(orr_engine *engine, const orr_cost_table *table,
                                     const orr_software *software, const orr_priced *priced) {
    const orr_object *object = priced->object;
    const orr_evidence *evidence = orr_cost_table_evidence(table);
    if (evidence == NULL || object->op_count == 0) {
        return priced;
    }
    orr_cost *cost = ORR_NEW_ARRAY(engine->prices, orr_cost, object->op_count);
    memcpy(cost, priced->op, object->op_count * sizeof *cost);
    bool layer = correct_layer(evidence, table, software, object, cost);
    if (!add_unit(evidence, object, cost) && !layer) {
        return priced;
    }
    orr_priced *out = ORR_NEW(engine->prices, orr_priced);
    *out = (orr_priced){.object = object, .op = cost};
    return out;
}

/* ---- what was used -------------------------------------------------------------------------- */

enum { MAX_USES = 512 };
static const double FINDING_LEAST = 0.15; /* below, a model and a kernel agree */

typedef struct use {
    orr_evidence_key key;
    orr_measured found;
    uint16_t name;
    uint32_t count;
} use;
typedef struct uses {
    uint32_t count;
    use use[MAX_USES];
} uses;

static void add_use(uses *all, const orr_cost_table *table, const orr_op *op, uint32_t times) {
    orr_evidence_key key;
    if (!orr_cost_key(table, op, &key)) {
        return;
    }
    for (uint32_t i = 0; i < all->count; i++) {
        if (memcmp(&all->use[i].key, &key, sizeof key) == 0) {
            all->use[i].count += times;
            return;
        }
    }
    if (all->count < MAX_USES) {
        all->use[all->count++] = (use){key, orr_cost_explain(table, op), op->name, times};
    }
}

static orr_tree *write_use(orr_arena *arena, const use *one) {
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_text(arena, map, "name", orr_op_name(one->name));
    orr_tree_put_text(arena, map, "shape", orr_evidence_shape_text(arena, &one->key));
    orr_tree_put_text(arena, map, "how", orr_cost_how_name((orr_cost_how)one->found.how));
    orr_tree_put_int(arena, map, "count", one->count);
    orr_tree_put_real(arena, map, "time_us", one->found.cost.time_s * 1e6);
    orr_tree_put_real(arena, map, "model_us", one->found.model_s * 1e6);
    if (one->found.how != ORR_BY_MODEL && one->found.model_s > 0) {
        orr_tree_put_real(arena, map, "ratio", one->found.cost.time_s / one->found.model_s);
    }
    if (one->found.how != ORR_BY_MODEL && one->found.how != ORR_BY_EXACT) {
        orr_tree_put_real(arena, map, "octaves", one->found.octaves);
        orr_tree_put_int(arena, map, "near", one->found.near);
    }
    return map;
}

/* Of measured to modelled time: of the shape itself, or of the record nearest to it. */
static double ratio_of(const use *one) {
    if (one->found.how != ORR_BY_EXACT) {
        return one->found.record_ratio;
    }
    return one->found.model_s > 0 ? one->found.cost.time_s / one->found.model_s : 1;
}

/* Measured and modelled time of one kind, weighted by how often it runs, and its worst shape: of
 * shapes that were measured (exact), or of those near them. False where there are none. */
static bool find_disagreement(orr_arena *arena, const uses *all, uint8_t kind, bool exact,
                              orr_tree *findings) {
    double measured_s = 0, model_s = 0, relerr = 0;
    uint32_t shapes = 0;
    const use *worst = NULL;
    for (uint32_t i = 0; i < all->count; i++) {
        const use *one = &all->use[i];
        bool beside = one->found.how == ORR_BY_NEAR || one->found.how == ORR_BY_BETWEEN;
        if (one->key.kind != kind || (exact ? one->found.how != ORR_BY_EXACT : !beside)) {
            continue;
        }
        measured_s += one->count * one->found.model_s * ratio_of(one);
        model_s += one->count * one->found.model_s;
        /* what is taken from a contradiction is unsure itself */
        relerr =
            orr_max_f64(relerr, exact ? one->found.cost.relerr_frac : one->found.model_relerr_frac);
        shapes++;
        if (worst == NULL || fabs(log(ratio_of(one))) > fabs(log(ratio_of(worst)))) {
            worst = one;
        }
    }
    if (worst == NULL || !(model_s > 0)) {
        return false;
    }
    double ratio = measured_s / model_s;
    if (fabs(log(ratio)) <= orr_max_f64(FINDING_LEAST, 2 * relerr)) {
        return true;
    }
    orr_tree *map = orr_tree_push(arena, findings, orr_tree_new_map(arena));
    orr_tree_put_text(arena, map, "kind", orr_evidence_kind_name(kind));
    orr_tree_put_real(arena, map, "ratio", ratio);
    orr_tree_put_int(arena, map, "shapes", shapes);
    orr_tree_put_text(arena, map, "worst", orr_evidence_shape_text(arena, &worst->key));
    orr_tree_put_real(arena, map, "worst_ratio", ratio_of(worst));
    orr_tree_put_text(arena, map, "how", exact ? "measured" : "nearby");
    return true;
}

static void collect(const orr_program *program, const orr_cost_table *table, uses *all) {
    for (uint32_t k = 0; k < program->chunk_kind_count; k++) {
        const orr_chunk *chunk = &program->chunk_kind[k];
        for (uint32_t p = 0; p < chunk->part_count; p++) {
            const orr_object *object = chunk->part[p].object;
            for (uint32_t i = 0; i < object->op_count; i++) {
                add_use(all, table, &object->op[i], chunk->part[p].count);
            }
        }
    }
}

orr_status orr_project_evidence(orr_engine *engine, orr_arena *arena, const orr_resolved *resolved,
                                orr_tree **out, orr_err *err) {
    const orr_cost_table *table = NULL;
    orr_program program;
    orr_arena_reset(engine->scratch);
    ORR_TRY(orr_engine_table(engine, resolved->cluster, resolved->software, &table, err));
    ORR_TRY(orr_link(engine->linker, engine->scratch, resolved, NULL, &program, err));
    uses *all = ORR_NEW(engine->scratch, uses);
    collect(&program, table, all);
    const orr_evidence *evidence = orr_cost_table_evidence(table);
    if (evidence == NULL) {
        *out = NULL;
        return ORR_OK;
    }
    orr_tree *map = orr_evidence_describe(arena, evidence);
    uint32_t counts[ORR_HOW_COUNT] = {0};
    for (uint32_t i = 0; i < all->count; i++) {
        counts[all->use[i].found.how]++;
    }
    orr_tree *used = orr_tree_put(arena, map, "shapes", orr_tree_new_map(arena));
    for (int how = ORR_HOW_COUNT - 1; how >= 0; how--) {
        orr_tree_put_int(arena, used, orr_cost_how_name((orr_cost_how)how), counts[how]);
    }
    orr_tree *ops = orr_tree_put(arena, map, "ops", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < all->count; i++) {
        (void)orr_tree_push(arena, ops, write_use(arena, &all->use[i]));
    }
    orr_tree *findings = orr_tree_put(arena, map, "findings", orr_tree_new_list(arena));
    for (uint8_t kind = 0; kind <= ORR_OP_COLLECTIVE; kind++) {
        if (!find_disagreement(arena, all, kind, true, findings)) {
            (void)find_disagreement(arena, all, kind, false, findings);
        }
    }
    *out = map;
    return ORR_OK;
}
