/* Constants of the attention kernels, per device, library, dtype and direction. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "calibrate/calibrate_int.h"

enum { MOST_SAMPLES = 3000, FOLDS = 3, LEAST_ROWS = 7 };
static const double TRAINING_WEIGHT = 1.5;
static const orr_surface_plan SURFACE = {.dims = 4,
                                         .step = {{4, 4, 4, 4}, {2, 2, 2, 2}, {1, 1, 1, 1}},
                                         .pull = {1, 1, 1},
                                         .least_rows = 200};

typedef struct attention_sample {
    orr_sample head;
    orr_attention_shape shape;
} attention_sample;

#define PARAMETER(key, member, way, from, least, most, weight)                                     \
    {.name = (key),                                                                                \
     .offset = offsetof(orr_flash_constants, member),                                              \
     .scale = (way),                                                                               \
     .start = (from),                                                                              \
     .low = (least),                                                                               \
     .high = (most),                                                                               \
     .pull = (weight)}
enum { MASKED = 11 }; /* its place below */
static const orr_parameter PARAMETERS[] = {
    PARAMETER("start_s", start_s, ORR_SCALE_LOG, 8e-6, 1e-7, 1e-3, 0.1),
    PARAMETER("sequence_s", sequence_s, ORR_SCALE_LOG, 5e-8, 1e-10, 1e-4, 0.1),
    PARAMETER("width_64", efficiency[0], ORR_SCALE_LOG, 0.5, 0.02, 5, 0.1),
    PARAMETER("width_96", efficiency[1], ORR_SCALE_LOG, 0.5, 0.02, 5, 0.1),
    PARAMETER("width_128", efficiency[2], ORR_SCALE_LOG, 0.6, 0.02, 5, 0.1),
    PARAMETER("width_192", efficiency[3], ORR_SCALE_LOG, 0.6, 0.02, 5, 0.1),
    PARAMETER("width_256", efficiency[4], ORR_SCALE_LOG, 0.6, 0.02, 5, 0.1),
    PARAMETER("width_unaligned", efficiency[ORR_FLASH_UNALIGNED], ORR_SCALE_LOG, 0.5, 0.01, 5, 0.1),
    PARAMETER("causal", causal_frac, ORR_SCALE_LOG, 1, 0.1, 3, 0.3),
    PARAMETER("grouped", grouped_frac, ORR_SCALE_LOG, 1, 0.1, 3, 0.3),
    PARAMETER("deterministic", deterministic_frac, ORR_SCALE_LOG, 1, 0.1, 3, 0.3),
    PARAMETER("masked", masked_frac, ORR_SCALE_LOG, 3e-3, 1e-6, 1, 0.1),
    PARAMETER("tile_s", tile_s, ORR_SCALE_LOG, 2e-6, 1e-10, 1e-4, 0.1),
    PARAMETER("block_s", block_s, ORR_SCALE_LOG, 1e-7, 1e-11, 1e-5, 0.1),
    PARAMETER("quantisation", quantisation, ORR_SCALE_SHARE, 0.5, 0, 1, 0.1),
    PARAMETER("tail", tail, ORR_SCALE_LOG, 4, 0.5, 40, 0.1),
    PARAMETER("hbm_frac", hbm_frac, ORR_SCALE_LOG, 0.7, 0.05, 5, 0.1),
    PARAMETER("norm", norm, ORR_SCALE_LOG, 3, 0.5, 40, 0.1),
    PARAMETER("throttle", throttle, ORR_SCALE_SHARE, 0.08, 0, 0.5, 0.1),
    PARAMETER("throttle_half_s", throttle_half_s, ORR_SCALE_LOG, 1e-3, 1e-4, 1e-2, 0.3),
};

enum { PARAMETER_COUNT = sizeof PARAMETERS / sizeof *PARAMETERS };

static double attention_model(const void *constants, const void *sample, const void *machine) {
    return orr_flash_time_s((const orr_flash_constants *)constants, (const orr_machine *)machine,
                            &((const attention_sample *)sample)->shape);
}

static double causal_share(const orr_bin *bin) {
    size_t causal = 0;
    for (size_t i = 0; i < bin->count; i++) {
        causal += ((const attention_sample *)bin->sample)[i].shape.causal;
    }
    return (double)causal / (double)bin->count;
}

/* Nothing is known of head dimensions without rows. */
static void forget_widths(const orr_bin *bin, orr_flash_constants *constants) {
    bool known[ORR_FLASH_WIDTHS] = {false};
    for (size_t i = 0; i < bin->count; i++) {
        const orr_attention_shape *shape = &((const attention_sample *)bin->sample)[i].shape;
        known[orr_flash_width((shape->head_dim + shape->v_dim) / 2)] = true;
    }
    for (int i = 0; i < ORR_FLASH_WIDTHS; i++) {
        constants->efficiency[i] = known[i] ? constants->efficiency[i] : 0;
    }
}

static bool has_windows(const orr_bin *bin) {
    for (size_t i = 0; i < bin->count; i++) {
        if (((const attention_sample *)bin->sample)[i].shape.window > 0) {
            return true;
        }
    }
    return false;
}

static void fit_bin(orr_bins *bins, const orr_bin *bin, orr_tree *fits) {
    orr_arena *arena = bins->arena;
    /* kernels either leave out what a window masks or compute all of it: begin at both ends */
    static const double MASKED_STARTS[] = {3e-3, 0.9};
    orr_machine machine = orr_machine_of(bin->accelerator, ORR_BF16);
    orr_parameter parameter[PARAMETER_COUNT];
    memcpy(parameter, PARAMETERS, sizeof parameter);
    orr_fit_task task = {.parameter = parameter,
                         .parameter_count = PARAMETER_COUNT,
                         .constants_bytes = sizeof(orr_flash_constants),
                         .sample = bin->sample,
                         .sample_bytes = sizeof(attention_sample),
                         .count = bin->count,
                         .model = attention_model,
                         .go_on = orr_bins_go_on,
                         .watcher = bins,
                         .user = &machine,
                         .surface = &SURFACE};
    orr_flash_constants best = {0};
    double least = INFINITY, start = MASKED_STARTS[0];
    for (int i = 0; i < (has_windows(bin) ? 2 : 1); i++) {
        orr_flash_constants trial = {0};
        parameter[MASKED].start = MASKED_STARTS[i];
        double cost = orr_robust_fit_most(&task, MOST_SAMPLES, &trial);
        if (cost < least) {
            least = cost;
            best = trial;
            start = MASKED_STARTS[i];
        }
    }
    parameter[MASKED].start = start;
    orr_validated validated;
    orr_robust_validate(arena, &task, MOST_SAMPLES, FOLDS, &best, &validated);
    forget_widths(bin, &best);
    orr_tree *record = orr_put_head(arena, bin, &machine, &validated);
    orr_tree_put_text(arena, record, "kernel", bin->kernel);
    orr_tree_put_text(arena, record, "scheme", bin->scheme);
    orr_tree_put_bool(arena, record, "backward", bin->flag != 0);
    orr_put_number(arena, record, "causal_share", causal_share(bin));
    orr_put_parameters(arena, record, &task, &best);
    orr_put_surface(arena, record, &task, &best);
    orr_put_spread(arena, record, &validated);
    orr_tree_push(arena, fits, record);
}

static void add_row(orr_bins *bins, orr_kernel_class class, const orr_kernel_row *row) {
    (void)class;
    if (row->stage == ORR_STAGE_BOTH || row->dtype[0] == '\0') {
        return;
    }
    /* the library is the first word: "cudnn det llama3.1" */
    const char *kernel = orr_arena_copy(bins->arena, row->kernel, strcspn(row->kernel, " "));
    bool backward = row->stage == ORR_STAGE_BACKWARD;
    orr_bin *bin = orr_bin_of(bins, row->device, kernel, row->dtype,
                              orr_source_stem(bins->arena, row->source), backward);
    if (bin == NULL) {
        return;
    }
    const orr_attention_shape *shape = &row->shape.attention;
    attention_sample *sample = (attention_sample *)orr_bin_add(bins, bin);
    *sample =
        (attention_sample){.head = {.time_s = row->time_s,
                                    .weight = row->training ? TRAINING_WEIGHT : 1,
                                    .block = orr_block_of(shape->batch, shape->seq_q, shape->heads),
                                    .training = row->training},
                           .shape = *shape};
    orr_attention_place(shape, sample->head.place);
}

const orr_fit_class orr_fit_attention = {.sample_bytes = sizeof(attention_sample),
                                         .least_rows = LEAST_ROWS,
                                         .add = add_row,
                                         .fit = fit_bin};
