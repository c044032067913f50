/* Cost tables: constants chosen once for an accelerator, cluster and software, then ops priced. */
#include <math.h>

#include "base/err.h"
#include "base/num.h"
#include "cost/cost_int.h"
#include "cost/models.h"

/* What another device of the architecture, or another architecture, adds to a fit's error; one sd.
 * docs/kernels.md, "Devices left out". */
static const double GEMM_KIN_RELERR[] = {0, 0.06, 0.20};
static const double TRAINING_SIDE = 512; /* training sizes: docs/kernels.md */

static double root_sum(double a, double b) {
    return sqrt(a * a + b * b);
}

/* Of the tiles: an architecture's low-precision efficiency is that of its best tile. */
static double best_gain(const orr_gemm_fit *fit) {
    double best = 0;
    for (int i = 0; i < ORR_GEMM_TILES; i++) {
        double m = ORR_GEMM_TILE[i][0], n = ORR_GEMM_TILE[i][1];
        if (m * n >= 128 * 128) {
            best = orr_max_f64(best, fit->constants.tile_gain[i]);
        }
    }
    return best;
}

static orr_status init_gemm(struct orr_prices_table *table, orr_dtype dtype, orr_err *err) {
    orr_gemm_prices *prices = &table->gemm[dtype];
    orr_kin kin = ORR_KIN_OTHER;
    const orr_gemm_fit *fit =
        orr_calibration_gemm(table->calibration, table->accelerator, "bf16", &kin);
    if (fit == NULL) {
        return orr_fail(err, ORR_E_CONFLICT, "the calibration holds no GEMM fit");
    }
    const orr_arch_fit *arch = table->arch;
    *prices = (orr_gemm_prices){.fit = fit,
                                .constants = orr_gemm_transfer(fit, table->accelerator),
                                .machine = orr_machine_of(table->accelerator, dtype),
                                .in_bytes = orr_stored_bytes(dtype),
                                .kin = (uint8_t)kin};
    double extra = GEMM_KIN_RELERR[kin];
    bool native = table->accelerator->peak_flops[dtype] > 0;
    if (native && (dtype == ORR_FP8 || dtype == ORR_MXFP8 || dtype == ORR_FP8_BLOCK)) {
        prices->constants.efficiency = arch->fp8_efficiency / best_gain(fit);
        extra = root_sum(extra, 0.08);
    } else if (native && dtype == ORR_INT8) {
        prices->constants.efficiency = arch->fp8_efficiency / best_gain(fit);
        extra = root_sum(extra, ORR_THIN_RELERR); /* as products in fp8: nothing trains in it */
    } else if (native && dtype == ORR_NVFP4) {
        prices->constants.efficiency = arch->fp4_efficiency / best_gain(fit);
        extra = root_sum(extra, 0.10);
    }
    extra = root_sum(extra, arch->gemm_error_frac);
    prices->apart_frac = extra;
    bool own = kin == ORR_KIN_SAME && (dtype == ORR_BF16 || dtype == ORR_FP16);
    prices->surface = own ? fit->fit.surface : NULL;
    bool measured = kin != ORR_KIN_OTHER && !fit->fit.assumed;
    prices->provenance = measured && dtype != ORR_INT8 ? ORR_FROM_MODEL : ORR_FROM_ASSUMPTION;
    return ORR_OK;
}

/* Generations of tensor cores after Ampere's, or another vendor's: what a kernel written for those
 * leaves unused, each time as much again. */
static uint32_t after_ampere(uint8_t arch) {
    static const uint8_t generations[ORR_ARCH_COUNT] = {
        [ORR_ARCH_HOPPER] = 1, [ORR_ARCH_BLACKWELL] = 2, [ORR_ARCH_CDNA2] = 1,
        [ORR_ARCH_CDNA3] = 1,  [ORR_ARCH_CDNA4] = 1,
    };
    return arch < ORR_ARCH_COUNT ? generations[arch] : 0;
}

static void init_attention(struct orr_prices_table *table) {
    table->attention = table->arch->attention;
    table->attention.grouped_backward_frac = table->software->attention_grouped_backward_frac;
    table->attention_machine = orr_machine_of(table->accelerator, ORR_BF16);
    if (table->software->attention_efficiency_frac > 0) {
        uint32_t later = after_ampere(table->accelerator->arch);
        table->attention.efficiency = table->software->attention_efficiency_frac;
        if (table->software->attention_narrow_frac > 0) {
            table->attention.narrow_frac = table->software->attention_narrow_frac;
        }
        for (uint32_t i = 0; i < later; i++) {
            table->attention.efficiency *= table->software->attention_new_arch_frac;
        }
    }
}

static void init_memory(struct orr_prices_table *table) {
    double stated = table->software->memop_efficiency_frac;
    for (int family = 0; family < ORR_MEMOP_COUNT; family++) {
        bool own = stated > 0 && family != ORR_MEMOP_BULK;
        double usual = table->arch->memory_frac[family] * table->arch->memory_scale;
        double efficiency = own ? stated : usual;
        table->memory_Bps[family] = table->accelerator->hbm_Bps * efficiency;
    }
}

orr_status orr_cost_table_of(orr_arena *arena, const orr_calibration *calibration,
                             const orr_cluster *cluster, const orr_software *software,
                             const orr_cost_table **out, orr_err *err) {
    struct orr_prices_table *table = ORR_NEW(arena, struct orr_prices_table);
    table->cluster = cluster;
    table->software = software;
    table->accelerator = cluster->accelerator;
    table->calibration = calibration;
    table->arch = orr_calibration_arch(calibration, table->accelerator, &table->arch_kin);
    if (table->arch == NULL) {
        return orr_fail(err, ORR_E_CONFLICT, "the calibration describes no architecture");
    }
    for (int dtype = 0; dtype < ORR_DTYPE_COUNT; dtype++) {
        ORR_TRY(init_gemm(table, (orr_dtype)dtype, err));
    }
    init_attention(table);
    orr_low_attention_init(table);
    init_memory(table);
    for (int op = 0; op < ORR_COLLECTIVE_COUNT; op++) {
        orr_curve_init(&table->curve[op], calibration, table->accelerator, (orr_collective)op);
        if (table->curve[op].count == 0) {
            return orr_fail(err, ORR_E_CONFLICT, "the calibration holds no fit of %s",
                            orr_collective_name((orr_collective)op));
        }
    }
    for (int op = 0; op < ORR_COLLECTIVE_COUNT; op++) {
        table->inside[op] = table->across[op] = (orr_sweep){0, 1, 1, 0};
    }
    table->memo = orr_memo_new(arena);
    *out = table;
    return ORR_OK;
}

orr_status orr_cost_table_new(orr_arena *arena, const orr_cluster *cluster,
                              const orr_software *software, const orr_cost_table **out,
                              orr_err *err) {
    orr_calibration *calibration = NULL;
    ORR_TRY(orr_calibration_builtin(arena, &calibration, err));
    return orr_cost_table_of(arena, calibration, cluster, software, out, err);
}

/* ---- ops ------------------------------------------------------------------------------------ */

/* Tensor cores are fed 16 bytes of a row at a time; rows of another multiple take slow kernels.
 * Rows run along k in a forward and input gradient, along the output in a weight gradient. */
static double misalignment(const orr_cost_table *table, const orr_op *op, double element_bytes) {
    uint64_t row = op->phase == ORR_PHASE_WEIGHT_GRAD ? op->shape.gemm.m : op->shape.gemm.k;
    uint64_t elements = element_bytes >= 2 ? 8 : element_bytes >= 1 ? 16 : 32; /* scales apart */
    bool aligned = row % elements == 0 && op->shape.gemm.n % elements == 0;
    return aligned ? 1 : table->arch->misaligned;
}

static orr_gemm_shape gemm_shape(const orr_cost_table *table, const orr_op *op) {
    return (orr_gemm_shape){.m = (double)op->shape.gemm.m,
                            .n = (double)op->shape.gemm.n,
                            .k = (double)op->shape.gemm.k,
                            .batch = (double)op->shape.gemm.batch,
                            .in_bytes = table->gemm[op->dtype].in_bytes,
                            .out_bytes = op->out_bytes};
}

orr_gemm_factors orr_cost_gemm_factors(const orr_cost_table *table, const orr_op *op) {
    const orr_gemm_prices *prices = &table->gemm[op->dtype];
    orr_gemm_shape shape = gemm_shape(table, op);
    double place[ORR_SURFACE_DIMS];
    orr_gemm_place(&shape, place);
    orr_gemm_factors x = {.runs = table->arch->gemm_factor * table->arch->gemm_sustained,
                          .software = orr_max_f64(0.1, table->software->gemm_factor),
                          .surface = orr_surface_factor(prices->surface, place),
                          .misaligned = 1,
                          .grouped_share = 1};
    /* Frameworks hand a single group to the library of plain products. Several are launched one by
     * one: where they are shorter than their launches, those decide. */
    if (op->kind == ORR_OP_GROUPED_GEMM && shape.batch > 1) {
        bool launches = table->software->graphs != ORR_GRAPHS_FULL;
        x.grouped_share = table->arch->grouped_frac;
        x.launches_s = launches ? table->arch->group_s * shape.batch : 0;
    } else {
        x.misaligned = misalignment(table, op, prices->in_bytes);
    }
    return x;
}

static orr_cost price_gemm(const orr_cost_table *table, const orr_op *op) {
    const orr_gemm_prices *prices = &table->gemm[op->dtype];
    orr_gemm_shape shape = gemm_shape(table, op);
    orr_gemm_factors x = orr_cost_gemm_factors(table, op);
    double time =
        x.runs * x.software * x.surface *
        orr_gemm_time_s(&prices->constants, &prices->machine, &shape, ORR_POWER_SUSTAINED);
    time = time * x.misaligned / x.grouped_share;
    double place[ORR_SURFACE_DIMS];
    orr_gemm_place(&shape, place);
    bool training = orr_min_f64(shape.m, orr_min_f64(shape.n, shape.k)) >= TRAINING_SIDE;
    bool grouped = op->kind == ORR_OP_GROUPED_GEMM && shape.batch > 1;
    double own = orr_fit_error(&prices->fit->fit, &table->calibration->transfer, place, training);
    double relerr = root_sum(own, prices->apart_frac);
    return (orr_cost){orr_max_f64(time, x.launches_s),
                      grouped ? root_sum(relerr, table->arch->grouped_error_frac) : relerr,
                      prices->provenance};
}

double orr_cost_peak_flops(const orr_cost_table *table, orr_dtype dtype) {
    return table->gemm[dtype].machine.peak_flops;
}

double orr_cost_sustained(const orr_cost_table *table, orr_dtype dtype) {
    return (1 + table->gemm[dtype].constants.throttle) * table->arch->gemm_sustained;
}

static orr_cost price_gemm_once(const orr_cost_table *table, const orr_op *op) {
    const orr_memo_key key = {.m = op->shape.gemm.m,
                              .n = op->shape.gemm.n,
                              .k = op->shape.gemm.k,
                              .batch = op->shape.gemm.batch,
                              .kind = op->kind,
                              .dtype = op->dtype,
                              .phase = op->phase,
                              .out_bytes = op->out_bytes};
    orr_cost cost;
    if (!orr_memo_get(table->memo, &key, &cost)) {
        cost = price_gemm(table, op);
        orr_memo_put(table->memo, &key, &cost);
    }
    return cost;
}

orr_attention_shape orr_attention_shape_of(const orr_op *op) {
    return (orr_attention_shape){.batch = op->shape.attention.batch,
                                 .heads = op->shape.attention.heads,
                                 .kv_heads = op->shape.attention.kv_heads,
                                 .head_dim = op->shape.attention.head_dim,
                                 .v_dim = op->shape.attention.v_dim,
                                 .seq_q = (double)op->shape.attention.seq_q,
                                 .seq_kv = (double)op->shape.attention.seq_kv,
                                 .window = op->shape.attention.window,
                                 .causal = op->causal != 0,
                                 .backward = op->phase != ORR_PHASE_FORWARD};
}

/* Short kernels are as unsure as their launch. */
static double start_error(const orr_cost_table *table, double start_s, double time_s) {
    return time_s > 0 ? table->calibration->transfer.start_frac * start_s / time_s : 0;
}

orr_cost orr_cost_attention(const orr_cost_table *table, const orr_op *op,
                            const orr_packed *packed) {
    orr_attention_shape shape = orr_attention_shape_of(op);
    shape.packed = packed;
    bool assumed = table->arch->assumed || table->arch_kin == ORR_KIN_OTHER;
    const orr_low_attention *low = NULL;
    double gain = orr_low_attention_gain(table, op, &shape, &low);
    double time = orr_attention_time_s(&table->attention, &table->attention_machine, &shape);
    double error = root_sum(table->arch->attention_error_frac,
                            start_error(table, table->attention.start_s, time));
    if (low != NULL) {
        error = root_sum(error, orr_low_attention_error(low));
        assumed = assumed || low->low->fit.rows < ORR_THIN_ROWS;
    }
    return (orr_cost){time / gain, error, assumed ? ORR_FROM_ASSUMPTION : ORR_FROM_MODEL};
}

static orr_cost model_memory(const orr_cost_table *table, orr_memop family, double bytes,
                             uint32_t kernels) {
    bool assumed = table->arch->assumed || table->arch_kin == ORR_KIN_OTHER;
    double start = kernels * table->arch->memory_start_s;
    double time = start + bytes / table->memory_Bps[family];
    return (orr_cost){time,
                      root_sum(table->arch->memory_error_frac, start_error(table, start, time)),
                      assumed ? ORR_FROM_ASSUMPTION : ORR_FROM_MODEL};
}

static orr_evidence_key memory_key(orr_memop family, double bytes, uint32_t kernels) {
    orr_evidence_key key = {.kind = ORR_OP_MEMORY, .sub = (uint8_t)family};
    key.dim[0] = (uint64_t)(bytes + 0.5);
    key.dim[1] = kernels;
    return key;
}

orr_cost orr_cost_memory(const orr_cost_table *table, orr_memop family, double bytes,
                         uint32_t kernels) {
    orr_evidence_key key = memory_key(family, bytes, kernels);
    return orr_cost_best(table, &key, model_memory(table, family, bytes, kernels));
}

static orr_evidence_key collective_key(orr_collective kind, double rank_bytes, orr_group group) {
    orr_evidence_key key = {.kind = ORR_OP_COLLECTIVE, .sub = (uint8_t)kind};
    key.dim[0] = (uint64_t)(rank_bytes + 0.5);
    key.dim[1] = group.size;
    key.dim[2] = orr_max_u32(1, group.domains);
    return key;
}

static orr_cost collective(const orr_cost_table *table, orr_collective kind, double rank_bytes,
                           orr_group group, const orr_routing *routing) {
    orr_cost model = orr_policy_price(table, kind, rank_bytes, group, routing);
    /* Tokens that cross to a domain once are not a plain exchange between domains. */
    if (group.size <= 1 || (routing->topk > 0 && group.domains > 1)) {
        return model;
    }
    orr_evidence_key key = collective_key(kind, rank_bytes, group);
    return orr_cost_best(table, &key, model);
}

orr_cost orr_cost_collective(const orr_cost_table *table, orr_collective kind, double rank_bytes,
                             orr_group group) {
    static const orr_routing none = {0, 0, 0, 0};
    return collective(table, kind, rank_bytes, group, &none);
}

static orr_cost price_collective(const orr_cost_table *table, const orr_op *op) {
    orr_group group = orr_cluster_group(table->cluster, op->shape.comm.size, op->shape.comm.stride);
    orr_cost cost = collective(table, (orr_collective)op->sub, (double)op->shape.comm.rank_bytes,
                               group, &op->shape.comm.routing);
    if (op->stream == ORR_STREAM_TP && group.size > 1) {
        cost.time_s += table->software->tp_fixed_s;
    }
    cost.time_s *= orr_max_u32(1, op->shape.comm.count);
    return cost;
}

/* Bytes of a memory op; an eager norm counts elements, which the software turns into bytes. */
double orr_cost_memory_bytes(const orr_cost_table *table, const orr_op *op) {
    if (op->sub != ORR_MEMOP_EAGER) {
        return op->bytes;
    }
    static const double USUAL_FWD = 35, BWD_BY_FWD = 1.4; /* docs/internals/program.md */
    double forward = table->software->norm_eager_fwd_bytes;
    double backward = table->software->norm_eager_bwd_bytes;
    forward = forward > 0 ? forward : USUAL_FWD;
    backward = backward > 0 ? backward : BWD_BY_FWD * forward;
    return op->bytes * (op->phase == ORR_PHASE_FORWARD ? forward : backward);
}

bool orr_cost_key(const orr_cost_table *table, const orr_op *op, orr_evidence_key *key) {
    if (op->kind == ORR_OP_MEMORY) {
        *key = memory_key((orr_memop)op->sub, orr_cost_memory_bytes(table, op),
                          op->shape.memory.kernels);
        return true;
    }
    if (op->kind == ORR_OP_COLLECTIVE) {
        orr_group group =
            orr_cluster_group(table->cluster, op->shape.comm.size, op->shape.comm.stride);
        *key = collective_key((orr_collective)op->sub, (double)op->shape.comm.rank_bytes, group);
        return group.size > 1 && (op->shape.comm.routing.topk == 0 || group.domains <= 1);
    }
    return orr_evidence_key_of(op, key);
}

/* GEMMs and attention: evidence of the op itself before the model. */
static orr_cost best_of_op(const orr_cost_table *table, const orr_op *op, orr_cost model) {
    orr_evidence_key key;
    if (table->evidence == NULL || !orr_evidence_key_of(op, &key)) {
        return model;
    }
    return orr_cost_best(table, &key, model);
}

orr_cost orr_cost_op(const orr_cost_table *table, const orr_op *op) {
    switch ((orr_op_kind)op->kind) {
    case ORR_OP_GEMM:
    case ORR_OP_GROUPED_GEMM: return best_of_op(table, op, price_gemm_once(table, op));
    case ORR_OP_ATTENTION: return best_of_op(table, op, orr_cost_attention(table, op, NULL));
    case ORR_OP_MEMORY:
        return orr_cost_memory(table, (orr_memop)op->sub, orr_cost_memory_bytes(table, op),
                               op->shape.memory.kernels);
    case ORR_OP_COLLECTIVE: return price_collective(table, op);
    }
    return (orr_cost){0, 0, ORR_FROM_ASSUMPTION};
}

void orr_cost_price(const orr_cost_table *table, orr_arena *arena, const orr_object *object,
                    orr_priced *out) {
    orr_cost *cost = ORR_NEW_ARRAY(arena, orr_cost, object->op_count);
    for (uint32_t i = 0; i < object->op_count; i++) {
        cost[i] = orr_cost_op(table, &object->op[i]);
    }
    *out = (orr_priced){.object = object, .op = cost};
}
