/* Constants of memory-bound kernels, per device and kind of kernel. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "calibrate/calibrate_int.h"

enum { MOST_SAMPLES = 3000, FOLDS = 3, LEAST_ROWS = 8 };
static const double TRAINING_WEIGHT = 1.5;
static const orr_surface_plan SURFACE = {
    .dims = 2, .step = {{4, 4}, {2, 2}, {1, 1}}, .pull = {1, 1, 1}, .least_rows = 40};

typedef struct memop_sample {
    orr_sample head;
    double bytes, rows;
} memop_sample;

#define PARAMETER(key, member, way, from, least, most, weight)                                     \
    {.name = (key),                                                                                \
     .offset = offsetof(orr_stream_constants, member),                                             \
     .scale = (way),                                                                               \
     .start = (from),                                                                              \
     .low = (least),                                                                               \
     .high = (most),                                                                               \
     .pull = (weight)}
static const orr_parameter PARAMETERS[] = {
    PARAMETER("start_s", start_s, ORR_SCALE_LOG, 3e-6, 1e-7, 1e-3, 0.05),
    PARAMETER("row_s", row_s, ORR_SCALE_LOG, 1e-8, 1e-13, 1e-4, 0.1),
    PARAMETER("hbm_frac", hbm_frac, ORR_SCALE_LOG, 0.7, 0.02, 5, 0.05),
    PARAMETER("cached", cached, ORR_SCALE_LOG, 0.5, 0.01, 5, 0.1),
    PARAMETER("speedup", speedup, ORR_SCALE_LOG, 1.2, 0.3, 20, 0.1),
};

static double memop_model(const void *constants, const void *sample, const void *machine) {
    const memop_sample *s = (const memop_sample *)sample;
    return orr_stream_time_s((const orr_stream_constants *)constants, (const orr_machine *)machine,
                             s->bytes, s->rows);
}

static void fit_bin(orr_bins *bins, const orr_bin *bin, orr_tree *fits) {
    orr_arena *arena = bins->arena;
    orr_machine machine = orr_machine_of(bin->accelerator, ORR_BF16);
    orr_fit_task task = {.parameter = PARAMETERS,
                         .parameter_count = sizeof PARAMETERS / sizeof *PARAMETERS,
                         .constants_bytes = sizeof(orr_stream_constants),
                         .sample = bin->sample,
                         .sample_bytes = sizeof(memop_sample),
                         .count = bin->count,
                         .model = memop_model,
                         .go_on = orr_bins_go_on,
                         .watcher = bins,
                         .user = &machine,
                         .surface = &SURFACE};
    orr_stream_constants best = {0};
    (void)orr_robust_fit_most(&task, MOST_SAMPLES, &best);
    orr_validated validated;
    orr_robust_validate(arena, &task, MOST_SAMPLES, FOLDS, &best, &validated);
    orr_tree *record = orr_put_head(arena, bin, &machine, &validated);
    orr_tree_put_text(arena, record, "kernel", bin->kernel);
    orr_put_parameters(arena, record, &task, &best);
    orr_put_surface(arena, record, &task, &best);
    orr_put_spread(arena, record, &validated);
    orr_tree_push(arena, fits, record);
}

static void add_row(orr_bins *bins, orr_kernel_class class, const orr_kernel_row *row) {
    (void)class;
    orr_bin *bin = orr_bin_of(bins, row->device, row->kernel, "",
                              orr_source_stem(bins->arena, row->source), 0);
    if (bin == NULL) {
        return;
    }
    memop_sample *sample = (memop_sample *)orr_bin_add(bins, bin);
    *sample = (memop_sample){
        .head = {.time_s = row->time_s,
                 .weight = row->training ? TRAINING_WEIGHT : 1,
                 .block = orr_block_of(row->shape.memop.rows, row->shape.memop.columns, 0),
                 .training = row->training},
        .bytes = row->shape.memop.bytes,
        .rows = row->shape.memop.rows};
    orr_stream_place(sample->bytes, sample->rows, sample->head.place);
}

const orr_fit_class orr_fit_memops = {
    .sample_bytes = sizeof(memop_sample), .least_rows = LEAST_ROWS, .add = add_row, .fit = fit_bin};
