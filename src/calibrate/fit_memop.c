/* Constants of memory-bound kernels, per device and kind of kernel. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "calibrate/thin.h"

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

static void put_bin(orr_bins *bins, const orr_bin *bin, const orr_fit_task *task,
                    const void *constants, const orr_machine *machine, orr_tree *fits) {
    orr_arena *arena = bins->arena;
    orr_validated validated;
    orr_robust_validate(arena, task, MOST_SAMPLES, FOLDS, constants, &validated);
    orr_tree *record = orr_put_head(arena, bin, machine, &validated);
    orr_tree_put_text(arena, record, "kernel", bin->kernel);
    orr_put_parameters(arena, record, task, constants);
    orr_put_surface(arena, record, task, constants);
    orr_put_spread(arena, record, &validated);
    orr_tree_push(arena, fits, record);
}

static void fit_all(orr_bins *bins, orr_tree *fits) {
    orr_bin_fit *fit = ORR_NEW_ARRAY(bins->arena, orr_bin_fit, bins->count + 1);
    orr_machine *machine = ORR_NEW_ARRAY(bins->arena, orr_machine, bins->count + 1);
    for (uint32_t i = 0; i < bins->count; i++) {
        const orr_bin *bin = &bins->bin[i];
        if (bin->accelerator != NULL && bin->count >= LEAST_ROWS) {
            memcpy(fit[i].parameter, PARAMETERS, sizeof PARAMETERS);
            machine[i] = orr_machine_of(bin->accelerator, ORR_BF16);
            fit[i].constants = ORR_NEW(bins->arena, orr_stream_constants);
            fit[i].task = (orr_fit_task){.parameter = fit[i].parameter,
                                         .parameter_count = sizeof PARAMETERS / sizeof *PARAMETERS,
                                         .constants_bytes = sizeof(orr_stream_constants),
                                         .sample = bin->sample,
                                         .sample_bytes = sizeof(memop_sample),
                                         .count = bin->count,
                                         .model = memop_model,
                                         .go_on = orr_bins_go_on,
                                         .watcher = bins,
                                         .user = &machine[i],
                                         .surface = &SURFACE};
        }
    }
    orr_fit_with_relatives(bins, fit, MOST_SAMPLES);
    for (uint32_t i = 0; i < bins->count; i++) {
        if (fit[i].task.count > 0) {
            put_bin(bins, &bins->bin[i], &fit[i].task, fit[i].constants, &machine[i], fits);
        }
    }
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

const orr_fit_class orr_fit_memops = {.sample_bytes = sizeof(memop_sample),
                                      .least_rows = LEAST_ROWS,
                                      .add = add_row,
                                      .fit_all = fit_all};
