/* Constants of the GEMM model, per device and numeric scheme. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/map.h"
#include "base/num.h"
#include "base/text.h"
#include "calibrate/calibrate_int.h"

enum { FIRST_SAMPLES = 1200, MOST_SAMPLES = 3000, FOLD_SAMPLES = 1500, FOLDS = 5 };
static const double TRAINING_WEIGHT = 1.5; /* what a projection prices are large products */
static const orr_surface_plan SURFACE = {.dims = 3, /* m n k */
                                         .step = {{4, 4, 4}, {2, 2, 2}, {8, 1, 1}, {1, 1, 1}},
                                         .pull = {1, 1, 0.3, 1},
                                         .least_rows = 200};

typedef struct gemm_sample {
    orr_sample head;
    orr_gemm_shape shape;
} gemm_sample;

#define PARAMETER(key, member, way, from, least, most, weight)                                     \
    {.name = (key),                                                                                \
     .offset = offsetof(orr_gemm_constants, member),                                               \
     .scale = (way),                                                                               \
     .start = (from),                                                                              \
     .low = (least),                                                                               \
     .high = (most),                                                                               \
     .pull = (weight)}
enum { UNIT_RATE = 4, QUANTISE = 14, TILES_FROM = 15, PARAMETERS = TILES_FROM + 10 };

static void set_parameters(orr_parameter out[PARAMETERS], const orr_machine *machine,
                           orr_dtype dtype, double quantisation) {
    /* a unit is fed about 0.015 bytes a flop in every architecture of the tables */
    double unit_Bps = 0.0075 * orr_stored_bytes(dtype) * machine->peak_flops / machine->units;
    const orr_parameter fixed[TILES_FROM] = {
        PARAMETER("start_s", start_s, ORR_SCALE_LOG, 2e-6, 1e-7, 1e-3, 0.05),
        PARAMETER("efficiency", efficiency, ORR_SCALE_LOG, 0.8, 0.02, 5, 0.05),
        PARAMETER("hbm_frac", hbm_frac, ORR_SCALE_LOG, 0.75, 0.05, 5, 0.05),
        PARAMETER("tile_s", tile_s, ORR_SCALE_LOG, 1e-7, 1e-10, 1e-4, 0.05),
        PARAMETER("unit_rate_Bps", unit_Bps, ORR_SCALE_LOG, unit_Bps, 1e8, 1e14, 0.05),
        PARAMETER("occupancy", occupancy, ORR_SCALE_LOG, 4, 0.2, 1e3, 0.05),
        PARAMETER("serial_output", serial_output, ORR_SCALE_SHARE, 0.5, 0, 1, 0.05),
        PARAMETER("norm", norm, ORR_SCALE_LOG, 4, 0.7, 60, 0.05),
        PARAMETER("split_s", split_s, ORR_SCALE_LOG, 2e-6, 1e-8, 1e-3, 0.05),
        PARAMETER("quantisation", quantisation, ORR_SCALE_SHARE, quantisation, 0, 1, 0.05),
        PARAMETER("fill", fill, ORR_SCALE_SHARE, 0.9, 0, 1, 0.05),
        PARAMETER("depth", depth, ORR_SCALE_SHARE, 0.01, 0, 0.03, 0.1),
        PARAMETER("throttle", throttle, ORR_SCALE_SHARE, 0.15, 0, 0.4, 0.1),
        PARAMETER("throttle_half_s", throttle_half_s, ORR_SCALE_LOG, 1e-3, 1e-4, 5e-3, 0.5),
        PARAMETER("quantise_frac", quantise_frac, ORR_SCALE_LOG, 0.7, 0.05, 5, 0.3),
    };
    memcpy(out, fixed, sizeof fixed);
    static const char *const names[ORR_GEMM_TILES] = {
        "tile_256x128", "tile_128x256", "tile_128x128", "tile_256x64", "tile_64x256", "tile_128x64",
        "tile_64x128",  "tile_64x64",   "tile_256x256", "tile_128x32", "tile_64x32"};
    uint32_t used = TILES_FROM;
    for (uint32_t i = 0; i < ORR_GEMM_TILES; i++) {
        bool reference = ORR_GEMM_TILE[i][0] == 128 && ORR_GEMM_TILE[i][1] == 128;
        if (!reference) {
            out[used++] = (orr_parameter){.name = names[i],
                                          .offset = offsetof(orr_gemm_constants, tile_gain) +
                                                    i * sizeof(double),
                                          .scale = ORR_SCALE_LOG,
                                          .start = 1,
                                          .low = 0.1,
                                          .high = 10,
                                          .pull = 1};
        }
    }
}

static double gemm_model(const void *constants, const void *sample, const void *machine) {
    return orr_gemm_time_s((const orr_gemm_constants *)constants, (const orr_machine *)machine,
                           &((const gemm_sample *)sample)->shape, ORR_POWER_BENCHMARK);
}

/* Parameters of a bin; without a quantising kernel in the time, its parameter is left out. NVIDIA's
 * tables time it with every low-precision product, AMD's tuners do not. */
static uint32_t bin_parameters(orr_parameter out[PARAMETERS], const orr_bin *bin,
                               const orr_machine *machine, double quantisation) {
    set_parameters(out, machine, (orr_dtype)bin->flag, quantisation);
    bool block = strstr(bin->scheme, "block") != NULL && bin->accelerator->vendor == ORR_NVIDIA;
    if (block || strstr(bin->scheme, "dynquant") != NULL) {
        return PARAMETERS;
    }
    memmove(&out[QUANTISE], &out[TILES_FROM], (PARAMETERS - TILES_FROM) * sizeof *out);
    return PARAMETERS - 1;
}

static void fit_bin(orr_bins *bins, const orr_bin *bin, orr_tree *fits) {
    orr_arena *arena = bins->arena;
    /* libraries either cut work into whole waves or hardly at all: begin at both ends */
    static const double QUANTISATION[] = {0.05, 0.95};
    orr_machine machine = orr_scheme_machine(bin->accelerator, bin->scheme, (orr_dtype)bin->flag);
    orr_parameter parameter[PARAMETERS];
    orr_fit_task task = {.parameter = parameter,
                         .constants_bytes = sizeof(orr_gemm_constants),
                         .sample = bin->sample,
                         .sample_bytes = sizeof(gemm_sample),
                         .count = bin->count,
                         .model = gemm_model,
                         .go_on = orr_bins_go_on,
                         .watcher = bins,
                         .user = &machine,
                         .surface = &SURFACE};
    orr_gemm_constants best = {0};
    double least = INFINITY, start = QUANTISATION[0];
    for (int i = 0; i < 2; i++) {
        orr_gemm_constants trial = {0};
        for (int t = 0; t < ORR_GEMM_TILES; t++) {
            trial.tile_gain[t] = 1;
        }
        task.parameter_count = bin_parameters(parameter, bin, &machine, QUANTISATION[i]);
        double cost = orr_robust_fit_most(&task, FIRST_SAMPLES, &trial);
        if (cost < least) {
            least = cost;
            best = trial;
            start = QUANTISATION[i];
        }
    }
    task.parameter_count = bin_parameters(parameter, bin, &machine, start);
    (void)orr_robust_refit_most(&task, MOST_SAMPLES, &best);
    orr_validated validated;
    orr_robust_validate(arena, &task, FOLD_SAMPLES, FOLDS, &best, &validated);
    orr_tree *record = orr_put_head(arena, bin, &machine, &validated);
    orr_tree_put_text(arena, record, "dtype", orr_dtype_name((orr_dtype)bin->flag));
    orr_tree_put_text(arena, record, "scheme", bin->scheme);
    orr_put_parameters(arena, record, &task, &best);
    orr_put_surface(arena, record, &task, &best);
    orr_put_spread(arena, record, &validated);
    orr_tree_push(arena, fits, record);
}

/* The richest source of a device and scheme speaks for it. */
static bool is_richest(const orr_bins *bins, const orr_bin *bin) {
    for (uint32_t i = 0; i < bins->count; i++) {
        const orr_bin *other = &bins->bin[i];
        if (other->accelerator != NULL && other != bin &&
            strcmp(other->accelerator->name, bin->accelerator->name) == 0 &&
            strcmp(other->scheme, bin->scheme) == 0 &&
            (other->count > bin->count || (other->count == bin->count && other < bin))) {
            return false;
        }
    }
    return true;
}

static void add_row(orr_bins *bins, orr_kernel_class class, const orr_kernel_row *row) {
    (void)class;
    orr_dtype dtype;
    if (!orr_scheme_dtype(row->dtype, &dtype)) {
        return;
    }
    orr_bin *bin = orr_bin_of(bins, row->device, "", row->dtype,
                              orr_source_stem(bins->arena, row->source), (uint32_t)dtype);
    double m = row->shape.gemm.m, n = row->shape.gemm.n, k = row->shape.gemm.k;
    double flops = 2 * m * n * k * row->shape.gemm.batch;
    /* faster than the sheet allows: a broken measurement */
    if (bin == NULL ||
        flops / row->time_s > orr_scheme_machine(bin->accelerator, row->dtype, dtype).peak_flops) {
        return;
    }
    gemm_sample *sample = (gemm_sample *)orr_bin_add(bins, bin);
    *sample = (gemm_sample){.head = {.time_s = row->time_s,
                                     .weight = row->training ? TRAINING_WEIGHT : 1,
                                     /* neighbours in M stay on one side of a fold */
                                     .block = orr_block_of(floor(m / 16), n, 0),
                                     .training = row->training},
                            .shape = {.m = m,
                                      .n = n,
                                      .k = k,
                                      .batch = row->shape.gemm.batch,
                                      .in_bytes = orr_stored_bytes(dtype),
                                      .out_bytes = row->shape.gemm.accumulates ? 8 : 2}};
    orr_gemm_place(&sample->shape, sample->head.place);
}

static void fit_richest(orr_bins *bins, const orr_bin *bin, orr_tree *fits) {
    if (is_richest(bins, bin)) {
        fit_bin(bins, bin, fits);
    }
}

const orr_fit_class orr_fit_gemm = {
    .sample_bytes = sizeof(gemm_sample), .least_rows = 100, .add = add_row, .fit = fit_richest};
