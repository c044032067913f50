/* One price with its reasons, as a tree: roofs, how the work is cut, which fit, which evidence. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "cost/cost_int.h"
#include "cost/kernel_price.h"

static const char *const KIN[] = {"this device", "same architecture", "another architecture"};
static const char *const PROVENANCE[] = {"measured", "restored", "model", "assumed"};

static void put_cost(orr_arena *arena, orr_tree *map, double time_s, double relerr_frac) {
    double half = ORR_HALF_90_SD * relerr_frac;
    orr_tree_put_real(arena, map, "time_s", time_s);
    orr_tree_put_real(arena, map, "relerr", relerr_frac);
    orr_tree *interval = orr_tree_put(arena, map, "interval_90", orr_tree_new_list(arena));
    orr_tree_push(arena, interval, orr_tree_new_real(arena, time_s * orr_max_f64(0, 1 - half)));
    orr_tree_push(arena, interval, orr_tree_new_real(arena, time_s * (1 + half)));
}

static orr_tree *put_map(orr_arena *arena, orr_tree *into, const char *key) {
    return orr_tree_put(arena, into, key, orr_tree_new_map(arena));
}

/* The least times that the data sheet allows; wire_s 0: nothing crosses links. */
static orr_tree *put_roof(orr_arena *arena, orr_tree *out, double time_s, double compute_s,
                          double memory_s, double wire_s) {
    orr_tree *roof = put_map(arena, out, "roof");
    double roof_s = orr_max_f64(compute_s, orr_max_f64(memory_s, wire_s));
    orr_tree_put_real(arena, roof, "compute_s", compute_s);
    orr_tree_put_real(arena, roof, "memory_s", memory_s);
    orr_tree_put_real(arena, roof, "wire_s", wire_s);
    orr_tree_put_text(arena, roof, "bound",
                      wire_s >= roof_s     ? "links"
                      : memory_s >= roof_s ? "memory"
                                           : "arithmetic");
    orr_tree_put_real(arena, roof, "frac", time_s > 0 ? roof_s / time_s : 0);
    return roof;
}

static void put_part(orr_arena *arena, orr_tree *parts, const char *name, double time_s) {
    if (time_s > 0) {
        orr_tree_put_real(arena, parts, name, time_s);
    }
}

static void put_fit(orr_arena *arena, orr_tree *out, const orr_fit *fit, uint8_t kin) {
    orr_tree *map = put_map(arena, out, "fit");
    orr_tree_put_text(arena, map, "device", fit->device);
    orr_tree_put_text(arena, map, "kin", KIN[kin]);
    orr_tree_put_text(arena, map, "source", fit->source);
    orr_tree_put_int(arena, map, "rows", fit->rows);
    orr_tree_put_real(arena, map, "mape_training", fit->mape_training_frac);
    orr_tree_put_real(arena, map, "mape_all", fit->mape_all_frac);
    orr_tree_put_bool(arena, map, "assumed", fit->assumed != 0);
}

/* ---- classes -------------------------------------------------------------------------------- */

static void put_factor(orr_arena *arena, orr_tree *factors, const char *name, double factor) {
    if (factor != 1) {
        orr_tree_put_real(arena, factors, name, factor);
    }
}

static void put_factors(orr_arena *arena, const orr_cost_table *table, const orr_op *op,
                        orr_tree *out) {
    orr_gemm_factors x = orr_cost_gemm_factors(table, op);
    orr_tree *factors = put_map(arena, out, "factors");
    put_factor(arena, factors, "training_runs", x.runs);
    put_factor(arena, factors, "software", x.software);
    put_factor(arena, factors, "measured_nearby", x.surface);
    put_factor(arena, factors, "misaligned_rows", x.misaligned);
    put_factor(arena, factors, "grouped", 1 / x.grouped_share);
    if (x.launches_s > 0) {
        orr_tree_put_real(arena, out, "launches_s", x.launches_s);
    }
}

static void put_gemm(orr_arena *arena, const orr_cost_table *table, const orr_op *op, double time_s,
                     orr_tree *out) {
    const orr_gemm_prices *prices = &table->gemm[op->dtype];
    const orr_machine *machine = &prices->machine;
    orr_gemm_shape shape = {.m = (double)op->shape.gemm.m,
                            .n = (double)op->shape.gemm.n,
                            .k = (double)op->shape.gemm.k,
                            .batch = (double)op->shape.gemm.batch,
                            .in_bytes = prices->in_bytes,
                            .out_bytes = op->out_bytes};
    double flops = 2 * shape.m * shape.n * shape.k * shape.batch;
    double bytes = shape.batch * ((shape.m + shape.n) * shape.k * shape.in_bytes +
                                  shape.m * shape.n * shape.out_bytes);
    (void)put_roof(arena, out, time_s, flops / machine->peak_flops, bytes / machine->hbm_Bps, 0);
    orr_tree_put_real(arena, out, "flops_per_s", flops / time_s);
    orr_gemm_parts x = orr_gemm_explain(&prices->constants, machine, &shape, ORR_POWER_SUSTAINED);
    put_factors(arena, table, op, out);
    orr_tree *cut = put_map(arena, out, "cut");
    orr_tree_put_int(arena, cut, "tile_m", (int64_t)x.tile_m);
    orr_tree_put_int(arena, cut, "tile_n", (int64_t)x.tile_n);
    orr_tree_put_int(arena, cut, "split_k", (int64_t)x.split);
    orr_tree_put_int(arena, cut, "tiles", (int64_t)x.tiles);
    orr_tree_put_real(arena, cut, "waves", x.waves);
    orr_tree_put_int(arena, cut, "units", (int64_t)machine->units);
    orr_tree *overlap = put_map(arena, out, "at_once");
    put_part(arena, overlap, "arithmetic_s", x.compute_s);
    put_part(arena, overlap, "operands_s", x.operands_s);
    put_part(arena, overlap, "memory_s", x.hbm_s);
    orr_tree *after = put_map(arena, out, "besides");
    put_part(arena, after, "start_s", x.start_s);
    put_part(arena, after, "ramps_s", x.ramp_s);
    put_part(arena, after, "output_s", x.output_s);
    put_part(arena, after, "split_sums_s", x.reduce_s);
    put_part(arena, after, "power_limit_s", x.throttle_s);
    put_fit(arena, out, &prices->fit->fit, prices->kin);
}

static void put_attention(orr_arena *arena, const orr_cost_table *table, const orr_op *op,
                          const orr_packed *packed, double time_s, orr_tree *out) {
    orr_attention_shape shape = orr_attention_shape_of(op);
    shape.packed = packed;
    const orr_machine *machine = &table->attention_machine;
    const orr_attention_work work = orr_attention_work_of(&shape);
    double width = shape.head_dim + shape.v_dim;
    double passes = shape.backward ? table->attention.backward_flops : 1;
    double flops = passes * 2 * shape.heads * work.pairs * width;
    double bytes = orr_attention_bytes(&shape) * orr_stored_bytes((orr_dtype)op->dtype) /
                   orr_stored_bytes(ORR_BF16);
    const orr_low_attention *low = NULL;
    double gain = orr_low_attention_gain(table, op, &shape, &low);
    orr_machine units = orr_machine_of(table->accelerator, (orr_dtype)op->dtype);
    (void)put_roof(arena, out, time_s, flops / units.peak_flops, bytes / machine->hbm_Bps, 0);
    orr_tree_put_real(arena, out, "flops_per_s", flops / time_s);
    if (low != NULL) {
        orr_tree *map = put_map(arena, out, "low_precision");
        orr_tree_put_real(arena, map, "gain", gain);
        orr_tree_put_text(arena, map, "kernel", low->low->kernel);
        orr_tree_put_text(arena, map, "scheme", low->low->scheme);
        orr_tree_put_text(arena, map, "device", low->low->fit.device);
        orr_tree_put_int(arena, map, "rows", low->low->fit.rows);
        orr_tree_put_real(arena, map, "error", orr_low_attention_error(low));
    }
    orr_tree *cut = put_map(arena, out, "cut");
    orr_tree_put_int(arena, cut, "tiles", (int64_t)work.tiles);
    orr_tree_put_real(arena, cut, "waves", work.tiles / machine->units);
    orr_tree_put_int(arena, cut, "units", (int64_t)machine->units);
    orr_tree_put_real(arena, cut, "keys_a_query", work.pairs / work.queries);
    if (packed != NULL) {
        orr_tree_put_int(arena, cut, "sequences", packed->count);
    }
    orr_tree *fit = put_map(arena, out, "fit");
    orr_tree_put_text(arena, fit, "architecture", orr_arch_name((orr_arch)table->arch->arch));
    orr_tree_put_real(arena, fit, "efficiency", table->attention.efficiency);
    orr_tree_put_text(arena, fit, "source", table->arch->source);
}

static void put_memory(orr_arena *arena, const orr_cost_table *table, const orr_op *op,
                       double time_s, orr_tree *out) {
    double bytes = orr_cost_memory_bytes(table, op);
    (void)put_roof(arena, out, time_s, 0, bytes / table->accelerator->hbm_Bps, 0);
    orr_tree_put_real(arena, out, "bytes_per_s", bytes / time_s);
    orr_tree *besides = put_map(arena, out, "besides");
    put_part(arena, besides, "start_s", op->shape.memory.kernels * table->arch->memory_start_s);
    orr_tree *fit = put_map(arena, out, "fit");
    orr_tree_put_text(arena, fit, "architecture", orr_arch_name((orr_arch)table->arch->arch));
    orr_tree_put_real(arena, fit, "efficiency",
                      table->memory_Bps[op->sub] / table->accelerator->hbm_Bps);
    orr_tree_put_text(arena, fit, "source", table->arch->source);
}

static void put_inside(orr_arena *arena, const orr_cost_table *table, orr_collective kind,
                       double ranks, double wire, orr_tree *out) {
    const orr_curve *curve = &table->curve[kind];
    orr_message message = orr_curve_at(curve, ranks);
    double flow = wire / message.Bps;
    orr_tree_put_text(arena, out, "algorithm",
                      curve->mesh                                 ? "direct links, measured curve"
                      : table->accelerator->topology == ORR_TORUS ? "torus, measured curve"
                                                                  : "measured curve");
    orr_tree *besides = put_map(arena, out, "besides");
    put_part(arena, besides, "start_s", message.start_s);
    put_part(arena, besides, "pieces_s",
             orr_message_time_s(&message, wire) - message.start_s - flow);
    orr_tree *fit = put_map(arena, out, "fit");
    orr_tree_put_text(arena, fit, "device", curve->fit->fit.device);
    orr_tree_put_text(arena, fit, "kin", KIN[curve->kin]);
    orr_tree_put_text(arena, fit, "library", curve->fit->library);
    orr_tree_put_text(arena, fit, "source", curve->fit->fit.source);
}

static void put_across(orr_arena *arena, const orr_cost_table *table, orr_collective kind,
                       orr_group group, const orr_routes *routes, orr_tree *out) {
    const orr_fabric *fabric = table->cluster->fabric;
    orr_tree_put_text(arena, out, "algorithm", orr_algorithm_name(routes->best));
    orr_tree *times = orr_tree_put(arena, out, "algorithms", orr_tree_new_list(arena));
    for (int i = 0; i < ORR_ALGORITHM_COUNT; i++) {
        if (routes->offered >> i & 1) {
            orr_tree *one = orr_tree_push(arena, times, orr_tree_new_map(arena));
            orr_tree_put_text(arena, one, "name", orr_algorithm_name((orr_algorithm)i));
            orr_tree_put_real(arena, one, "time_s", routes->time_s[i]);
        }
    }
    orr_tree *fit = put_map(arena, out, "fit");
    orr_tree_put_text(arena, fit, "fabric", fabric->name);
    orr_tree_put_real(arena, fit, "nic_bytes_per_s", orr_policy_rails(table, kind, group).nic_Bps);
    orr_tree_put_bool(arena, fit, "assumed", fabric->assumed != 0);
    orr_tree_put_text(arena, fit, "source", fabric->source);
}

static void put_collective(orr_arena *arena, const orr_cost_table *table, const orr_op *op,
                           double time_s, orr_tree *out) {
    orr_collective kind = (orr_collective)op->sub;
    const orr_routing *routing = &op->shape.comm.routing;
    orr_group group = orr_cluster_group(table->cluster, op->shape.comm.size, op->shape.comm.stride);
    double bytes = (double)op->shape.comm.rank_bytes;
    double wire = orr_bus_factor(kind, group.size) * bytes;
    orr_routes routes = {.offered = 0};
    if (group.domains > 1) {
        routes = orr_policy_routes(table, kind, bytes, group, routing);
    }
    const char *of = "";
    double roof_s = orr_collective_roof_s(table, kind, bytes, group, routing, routes.best, &of);
    orr_tree *roof = put_roof(arena, out, time_s, 0, 0, roof_s);
    if (of[0] != '\0') {
        orr_tree_put_text(arena, roof, "of", of);
    }
    orr_tree_put_real(arena, out, "bus_bytes_per_s", wire / time_s);
    orr_tree *where = put_map(arena, out, "group");
    orr_tree_put_int(arena, where, "ranks", group.size);
    orr_tree_put_int(arena, where, "domains", group.domains);
    orr_tree_put_int(arena, where, "ranks_in_a_domain", group.inner);
    if (group.domains > 1) {
        orr_tree_put_int(arena, where, "groups_at_once", group.rivals);
        orr_tree_put_bool(arena, where, "on_rails", !group.off_rails);
    }
    const orr_sweep *sweep = group.domains <= 1 ? &table->inside[kind] : &table->across[kind];
    if (sweep->records > 0) {
        orr_tree *map = put_map(arena, out, "sweep");
        orr_tree_put_int(arena, map, "records", sweep->records);
        orr_tree_put_real(arena, map, "start_factor", sweep->start_factor);
        orr_tree_put_real(arena, map, "rate_factor", sweep->rate_factor);
    }
    if (group.domains <= 1) {
        put_inside(arena, table, kind, group.size, wire, out);
    } else {
        put_across(arena, table, kind, group, &routes, out);
    }
}

/* ---- evidence and benchmarks ---------------------------------------------------------------- */

static void put_evidence(orr_arena *arena, const orr_cost_table *table, const orr_measured *found,
                         orr_tree *out) {
    orr_tree *map = put_map(arena, out, "evidence");
    orr_tree_put_text(arena, map, "how", orr_cost_how_name((orr_cost_how)found->how));
    if (table->evidence == NULL) {
        return;
    }
    orr_tree_put_real(arena, map, "model_s", found->model_s);
    if (found->record != NULL) {
        const orr_evidence_file *file = &table->evidence->file[found->record->file];
        orr_tree_put_text(arena, map, "file", file->path);
        orr_tree_put_int(arena, map, "samples", found->record->samples);
    } else if (found->how != ORR_BY_MODEL) {
        orr_tree_put_real(arena, map, "octaves", found->octaves);
        orr_tree_put_int(arena, map, "near", found->near);
    }
}

static orr_status new_pricer(orr_arena *arena, orr_kernel_pricer **out, orr_err *err) {
    orr_calibration *calibration = NULL;
    ORR_TRY(orr_calibration_builtin(arena, &calibration, err));
    ORR_TRY(orr_calibration_kernels(arena, calibration, err));
    *out = ORR_NEW(arena, orr_kernel_pricer);
    (*out)->arena = arena;
    (*out)->calibration = calibration;
    return ORR_OK;
}

/* Whose kernel a benchmark's price is of, and how far its fit is off. */
static void put_library(orr_arena *arena, const orr_library_fit *by, orr_tree *out) {
    orr_tree_put_text(arena, out, "kernel", by->kernel);
    orr_tree_put_text(arena, out, "device", by->fit->device);
    orr_tree_put_real(arena, out, "start_s", by->start_s);
    orr_tree_put_int(arena, out, "rows", by->fit->rows);
    orr_tree_put_real(arena, out, "mape_training", by->fit->mape_training_frac);
    orr_tree_put_bool(arena, out, "other_direction", by->turned);
}

static orr_kernel_class class_of(const orr_op *op) {
    return op->kind == ORR_OP_GEMM        ? ORR_KERNELS_GEMM
           : op->kind == ORR_OP_ATTENTION ? ORR_KERNELS_ATTENTION
           : op->kind == ORR_OP_MEMORY    ? ORR_KERNELS_MEMOPS
                                          : ORR_KERNELS_COUNT;
}

/* The op as a row of a table of kernels. */
static orr_kernel_row row_of(const orr_cost_table *table, const orr_op *op,
                             const orr_packed *packed, const orr_cost_ask *ask) {
    static const char *const SCHEMES[ORR_DTYPE_COUNT] = {
        "bf16", "fp16", "fp32", "fp8_dynquant", "mxfp8", "fp8_block128", "nvfp4_dynquant", "int8"};
    orr_kernel_row row = {.device = table->accelerator->name,
                          .dtype = SCHEMES[op->dtype],
                          .source = "",
                          .kernel = "",
                          .whole = true};
    if (op->kind == ORR_OP_GEMM) {
        row.shape.gemm.m = (double)op->shape.gemm.m;
        row.shape.gemm.n = (double)op->shape.gemm.n;
        row.shape.gemm.k = (double)op->shape.gemm.k;
        row.shape.gemm.batch = (double)op->shape.gemm.batch;
        row.shape.gemm.accumulates = op->out_bytes == 8;
        row.training =
            orr_min_f64(row.shape.gemm.m, orr_min_f64(row.shape.gemm.n, row.shape.gemm.k)) >= 512;
    } else if (op->kind == ORR_OP_ATTENTION) {
        row.kernel = table->accelerator->vendor == ORR_AMD ? "aiter" : "cudnn";
        row.dtype = op->dtype == ORR_FP8 || op->dtype == ORR_FP8_BLOCK ? "fp8" : row.dtype;
        row.shape.attention = orr_attention_shape_of(op);
        row.shape.attention.packed = packed;
        row.stage = row.shape.attention.backward ? ORR_STAGE_BACKWARD : ORR_STAGE_FORWARD;
        row.training = op->shape.attention.seq_q >= 2048;
    } else {
        row.shape.memop.bytes = ask->bytes;
        row.shape.memop.rows = ask->rows;
        row.training = ask->bytes >= 16 * ORR_MIB;
    }
    return row;
}

/* The same op as a benchmark runs it, where a table of kernels says; attention by the library that
 * training uses, memory-bound ops by the one that is asked for. */
static orr_status put_benchmark(orr_arena *arena, const orr_cost_table *table, const orr_op *op,
                                const orr_packed *packed, const orr_cost_ask *ask, orr_tree *out,
                                orr_err *err) {
    orr_kernel_class class = class_of(op);
    if (class == ORR_KERNELS_COUNT ||
        (class == ORR_KERNELS_MEMOPS && (ask == NULL || ask->library == NULL))) {
        return ORR_OK;
    }
    orr_kernel_pricer *pricer = NULL;
    ORR_TRY(new_pricer(arena, &pricer, err));
    orr_kernel_row row = row_of(table, op, packed, ask);
    orr_library_fit by = {NULL, NULL, 0, false};
    bool known = true;
    if (class != ORR_KERNELS_GEMM) {
        ORR_TRY(orr_library_choose(arena, pricer->calibration, table->accelerator, class, ask, &row,
                                   &by, err));
        known = by.fit != NULL;
    }
    double time = 0, relerr = 0;
    if (known && orr_kernel_price(pricer, class, &row, &time, &relerr) == ORR_GAP_NONE) {
        orr_tree *benchmark = put_map(arena, out, "benchmark");
        put_cost(arena, benchmark, time, relerr);
        if (by.fit != NULL) {
            put_library(arena, &by, benchmark);
        }
    }
    return ORR_OK;
}

orr_status orr_cost_exchange_write(orr_arena *arena, const orr_cost_table *table,
                                   const orr_exchange_ask *ask, orr_tree *into, orr_err *err) {
    orr_kernel_pricer *pricer = NULL;
    orr_group group = orr_cluster_group(table->cluster, ask->ranks, ask->stride);
    uint64_t reach = (uint64_t)(group.inner - 1) * ask->stride;
    bool beyond_host = reach >= table->cluster->gpus_per_node;
    if (table->accelerator->vendor != ORR_NVIDIA || beyond_host) {
        return ORR_OK; /* no such kernels, or measured inside one host of a rack alone */
    }
    ORR_TRY(new_pricer(arena, &pricer, err));
    orr_kernel_row row = {
        .device = table->accelerator->name, .dtype = "", .source = "", .kernel = "deepep_normal"};
    row.whole = true;
    row.training = ask->tokens >= 1024;
    row.shape.exchange.nodes = group.domains;
    row.shape.exchange.ep = ask->ranks;
    row.shape.exchange.tokens = ask->tokens * ask->imbalance; /* of the fullest rank */
    row.shape.exchange.hidden = ask->hidden;
    row.shape.exchange.topk = ask->routing.topk;
    row.shape.exchange.experts = ask->routing.experts;
    row.shape.exchange.sms = ask->units;
    double time = 0, relerr = 0;
    if (orr_kernel_price(pricer, ORR_KERNELS_EP_ALLTOALL, &row, &time, &relerr) == ORR_GAP_NONE) {
        orr_tree *benchmark = put_map(arena, into, "benchmark");
        put_cost(arena, benchmark, time, relerr);
        orr_tree *states =
            orr_tree_put(arena, into, "states", orr_tree_copy(arena, orr_tree_get(into, "states")));
        orr_tree_put_text(arena, states, "benchmark",
                          orr_arena_format(arena,
                                           "a dispatch in fp8 and its combine in bf16 "
                                           "together, by DeepEP with %u units",
                                           ask->units));
        orr_tree_put_int(arena, benchmark, "units", ask->units);
    }
    return ORR_OK;
}

/* "attention bf16 forward ... on sequences packed: 3 of 5632 tokens, the longest 4096" */
static const char *op_text(orr_arena *arena, const orr_evidence_key *key,
                           const orr_packed *packed) {
    const char *shape = orr_evidence_shape_text(arena, key);
    if (packed == NULL) {
        return shape;
    }
    double tokens = 0;
    for (uint32_t i = 0; i < packed->count; i++) {
        tokens += packed->length[i];
    }
    return orr_arena_format(arena, "%s, the longest of %u packed sequences, %.0f tokens,", shape,
                            packed->count, tokens);
}

orr_status orr_cost_op_write(orr_arena *arena, const orr_cost_table *table, const orr_op *op,
                             const orr_cost_ask *ask, orr_tree **out, orr_err *err) {
    const orr_packed some = {ask != NULL ? ask->length : NULL, ask != NULL ? ask->lengths : 0};
    const orr_packed *packed = some.count > 0 ? &some : NULL;
    orr_measured found = packed != NULL
                             ? (orr_measured){.cost = orr_cost_attention(table, op, packed)}
                             : orr_cost_explain(table, op);
    orr_tree *map = orr_tree_new_map(arena);
    orr_evidence_key key;
    if (orr_cost_key(table, op, &key)) {
        orr_tree_put_text(arena, map, "op", op_text(arena, &key, packed));
    }
    orr_tree_put_text(arena, map, "hardware", table->accelerator->name);
    put_cost(arena, map, found.cost.time_s, found.cost.relerr_frac);
    orr_tree_put_text(arena, map, "provenance", PROVENANCE[found.cost.provenance]);
    if (packed == NULL) { /* records are of sequences that are alike */
        put_evidence(arena, table, &found, map);
    }
    switch ((orr_op_kind)op->kind) {
    case ORR_OP_GEMM:
    case ORR_OP_GROUPED_GEMM: put_gemm(arena, table, op, found.cost.time_s, map); break;
    case ORR_OP_ATTENTION: put_attention(arena, table, op, packed, found.cost.time_s, map); break;
    case ORR_OP_MEMORY: put_memory(arena, table, op, found.cost.time_s, map); break;
    case ORR_OP_COLLECTIVE: put_collective(arena, table, op, found.cost.time_s, map); break;
    }
    ORR_TRY(put_benchmark(arena, table, op, packed, ask, map, err));
    orr_cost_put_states(arena, table, op, (uint8_t)found.how, ask != NULL ? ask->library : NULL,
                        orr_tree_get(map, "benchmark"), map);
    *out = map;
    return ORR_OK;
}

/* ---- prices of several ops ------------------------------------------------------------------ */

void orr_explain_price(orr_arena *arena, const orr_cost *cost, orr_tree *out) {
    put_cost(arena, out, cost->time_s, cost->relerr_frac);
    orr_tree_put_text(arena, out, "provenance", PROVENANCE[cost->provenance]);
}

void orr_explain_products(orr_arena *arena, const orr_cost_table *table, orr_dtype dtype,
                          double time_s, double flops, double bytes, orr_tree *out) {
    const orr_gemm_prices *prices = &table->gemm[dtype];
    put_roof(arena, out, time_s, flops / prices->machine.peak_flops,
             bytes / prices->machine.hbm_Bps, 0);
    orr_tree_put_real(arena, out, "flops", flops);
    orr_tree_put_real(arena, out, "flops_per_s", flops / time_s);
    put_fit(arena, out, &prices->fit->fit, prices->kin);
}
