/* Constants of grouped products, whole MoE layers and the token exchange, per device and library.
 */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "calibrate/thin.h"

enum { MOST_SAMPLES = 3000, FOLDS = 3, LEAST_ROWS = 9 };
static const double TRAINING_WEIGHT = 1.5;
static const double KIN_WEIGHT = 0.7; /* of a sibling's row */
/* The last level is of one layer under one split, whatever its load: a library's tuner takes one of
 * its kernels for all of that, now and then a slow one. Tables of grouped products come from many
 * releases of a library, which contradict one another: a row weighs less there. */
static const orr_surface_plan LAYERS_SURFACE = {
    .dims = 5,
    .step = {{4, 4, 4, 4, 4}, {2, 2, 2, 2, 2}, {8, 1, 1, 1, 1}},
    .pull = {1, 0.3, 0.1},
    .least_rows = 40};
static const orr_surface_plan GROUPED_SURFACE = {
    .dims = 5,
    .step = {{4, 4, 4, 4, 4}, {2, 2, 2, 2, 2}, {8, 1, 1, 1, 1}},
    .pull = {1, 1, 1},
    .least_rows = 40};
static const orr_surface_plan EXCHANGE_SURFACE = {
    .dims = 5,
    .step = {{4, 4, 4, 4, 4}, {2, 2, 2, 2, 2}, {1, 1, 1, 1, 1}},
    .pull = {1, 1, 1},
    .least_rows = 100};

typedef struct experts_sample {
    orr_sample head;
    orr_experts_shape shape;
} experts_sample;
typedef struct exchange_sample {
    orr_sample head;
    orr_exchange_shape shape;
} exchange_sample;

#define PARAMETER(T, key, member, way, from, least, most)                                          \
    {.name = (key),                                                                                \
     .offset = offsetof(T, member),                                                                \
     .scale = (way),                                                                               \
     .start = (from),                                                                              \
     .low = (least),                                                                               \
     .high = (most),                                                                               \
     .pull = 0.1}
#define EXPERTS(key, member, from, least, most)                                                    \
    PARAMETER(orr_experts_constants, key, member, ORR_SCALE_LOG, from, least, most)
#define EXCHANGE(key, member, from, least, most)                                                   \
    PARAMETER(orr_exchange_constants, key, member, ORR_SCALE_LOG, from, least, most)

static const orr_parameter EXPERTS_PARAMETERS[] = {
    EXPERTS("start_s", start_s, 1e-5, 1e-7, 1e-2),
    EXPERTS("efficiency", efficiency, 0.6, 1e-3, 10),
    EXPERTS("hbm_frac", hbm_frac, 0.7, 0.02, 20),
    EXPERTS("pad_rows", pad_rows, 30, 0.01, 1e3),
    {.name = "group_s", /* by the device inside one kernel, or by the host, launch after launch */
     .offset = offsetof(orr_experts_constants, group_s),
     .scale = ORR_SCALE_LOG,
     .start = 5e-8,
     .other_start = 5e-6,
     .low = 1e-10,
     .high = 1e-3,
     .pull = 0.03},
    EXPERTS("norm", norm, 3, 0.5, 40),
    EXPERTS("skew", skew, 0.3, 0.01, 1),
    EXPERTS("read_bytes", read_bytes, 2, 0.01, 100),
    EXPERTS("write_bytes", write_bytes, 2, 0.01, 100),
    EXPERTS("depth", depth, 100, 1, 5e3),
    EXPERTS("token_s", token_s, 1e-10, 1e-13, 1e-6),
    EXPERTS("wave", wave, 0.3, 1e-3, 20),
};
enum { EXPERTS_COUNT = sizeof EXPERTS_PARAMETERS / sizeof *EXPERTS_PARAMETERS };
static const orr_parameter EXCHANGE_PARAMETERS[] = {
    EXCHANGE("start_s", start_s, 5e-5, 1e-6, 1e-2),
    EXCHANGE("rank_s", rank_s, 5e-7, 1e-10, 1e-4),
    EXCHANGE("node_s", node_s, 1e-6, 1e-9, 1e-3),
    EXCHANGE("link_rate_Bps", link_Bps, 4e11, 1e9, 1e14),
    EXCHANGE("unit_rate_Bps", unit_Bps, 2e10, 1e8, 1e13),
    EXCHANGE("nic_rate_Bps", nic_Bps, 4e10, 1e9, 1e13),
    EXCHANGE("norm", norm, 4, 0.5, 40),
    EXCHANGE("token_bytes", token_bytes, 500, 1, 1e5),
    EXCHANGE("own_copies", own_copies, 1, 0.01, 50),
};

static double experts_model(const void *constants, const void *sample, const void *machine) {
    return orr_experts_time_s((const orr_experts_constants *)constants,
                              (const orr_machine *)machine,
                              &((const experts_sample *)sample)->shape);
}

static double exchange_model(const void *constants, const void *sample, const void *unused) {
    (void)unused;
    return orr_exchange_time_s((const orr_exchange_constants *)constants,
                               &((const exchange_sample *)sample)->shape);
}

static void put_bin(orr_arena *arena, const orr_bin *bin, const orr_fit_task *task,
                    const void *constants, const orr_machine *machine, orr_tree *fits) {
    orr_validated validated;
    orr_robust_validate(arena, task, MOST_SAMPLES, FOLDS, constants, &validated);
    orr_tree *record = orr_put_head(arena, bin, machine, &validated);
    orr_tree_put_text(arena, record, "kernel", bin->kernel);
    orr_tree_put_text(arena, record, "scheme", bin->scheme);
    orr_put_parameters(arena, record, task, constants);
    orr_put_surface(arena, record, task, constants);
    orr_put_spread(arena, record, &validated);
    orr_tree_push(arena, fits, record);
}

static void add_experts(orr_bins *bins, orr_kernel_class class, const orr_kernel_row *row) {
    orr_dtype dtype;
    if (!orr_scheme_dtype(row->dtype, &dtype)) {
        return;
    }
    orr_bin *bin = orr_bin_of(bins, row->device, row->kernel, row->dtype,
                              orr_source_stem(bins->arena, row->source), (uint32_t)dtype);
    if (bin == NULL) {
        return;
    }
    orr_experts_shape shape = orr_kernel_experts(row, class, orr_stored_bytes(dtype));
    experts_sample *sample = (experts_sample *)orr_bin_add(bins, bin);
    *sample = (experts_sample){
        .head = {.time_s = row->time_s,
                 .weight = row->training ? TRAINING_WEIGHT : 1,
                 .block = orr_block_of(shape.group_bytes, shape.groups, shape.ranks),
                 .training = row->training},
        .shape = shape};
    orr_experts_place(&shape, sample->head.place);
}

static bool is_fitted(const orr_bin *bin) {
    return bin->accelerator != NULL && bin->count >= LEAST_ROWS;
}

/* Siblings run the same library, which chooses among its kernels by the same rules. */
static bool is_kin(const orr_bin *bin, const orr_bin *other) {
    return bin != other && is_fitted(other) && other->accelerator->arch == bin->accelerator->arch &&
           strcmp(other->kernel, bin->kernel) == 0 && strcmp(other->scheme, bin->scheme) == 0;
}

static void find_kin(const orr_bins *bins, orr_bin_fit *fit, uint32_t own) {
    size_t count = 0;
    for (uint32_t i = 0; i < bins->count; i++) {
        count += is_kin(&bins->bin[own], &bins->bin[i]) ? bins->bin[i].count : 0;
    }
    orr_remainder *kin = ORR_NEW_ARRAY(bins->arena, orr_remainder, count + 1);
    count = 0;
    for (uint32_t i = 0; i < bins->count; i++) {
        for (uint32_t j = 0; is_kin(&bins->bin[own], &bins->bin[i]) && j < bins->bin[i].count;
             j++) {
            kin[count] = orr_robust_remainder(&fit[i].task, fit[i].constants, j);
            kin[count++].weight *= KIN_WEIGHT;
        }
    }
    fit[own].task.kin = kin;
    fit[own].task.kin_count = count;
}

static void fit_experts(orr_bins *bins, const orr_surface_plan *surface, orr_tree *fits) {
    orr_bin_fit *fit = ORR_NEW_ARRAY(bins->arena, orr_bin_fit, bins->count + 1);
    orr_machine *machine = ORR_NEW_ARRAY(bins->arena, orr_machine, bins->count + 1);
    for (uint32_t i = 0; i < bins->count; i++) {
        const orr_bin *bin = &bins->bin[i];
        if (is_fitted(bin)) {
            memcpy(fit[i].parameter, EXPERTS_PARAMETERS, sizeof EXPERTS_PARAMETERS);
            machine[i] = orr_scheme_machine(bin->accelerator, bin->scheme, (orr_dtype)bin->flag);
            fit[i].constants = ORR_NEW(bins->arena, orr_experts_constants);
            fit[i].task = (orr_fit_task){.parameter = fit[i].parameter,
                                         .parameter_count = EXPERTS_COUNT,
                                         .constants_bytes = sizeof(orr_experts_constants),
                                         .sample = bin->sample,
                                         .sample_bytes = sizeof(experts_sample),
                                         .count = bin->count,
                                         .model = experts_model,
                                         .go_on = orr_bins_go_on,
                                         .watcher = bins,
                                         .user = &machine[i],
                                         .surface = surface};
        }
    }
    orr_fit_with_relatives(bins, fit, MOST_SAMPLES);
    for (uint32_t i = 0; i < bins->count; i++) {
        if (is_fitted(&bins->bin[i])) {
            find_kin(bins, fit, i);
            put_bin(bins->arena, &bins->bin[i], &fit[i].task, fit[i].constants, &machine[i], fits);
        }
    }
}

static void fit_grouped(orr_bins *bins, orr_tree *fits) {
    fit_experts(bins, &GROUPED_SURFACE, fits);
}

static void fit_layers(orr_bins *bins, orr_tree *fits) {
    fit_experts(bins, &LAYERS_SURFACE, fits);
}

const orr_fit_class orr_fit_grouped = {.sample_bytes = sizeof(experts_sample),
                                       .least_rows = LEAST_ROWS,
                                       .add = add_experts,
                                       .fit_all = fit_grouped};
const orr_fit_class orr_fit_layers = {.sample_bytes = sizeof(experts_sample),
                                      .least_rows = LEAST_ROWS,
                                      .add = add_experts,
                                      .fit_all = fit_layers};

static void add_exchange(orr_bins *bins, orr_kernel_class class, const orr_kernel_row *row) {
    (void)class;
    /* a row with one leg alone is a figure of another kind */
    if (!(row->shape.exchange.dispatch_s > 0 && row->shape.exchange.combine_s > 0)) {
        return;
    }
    orr_exchange_shape shape = orr_kernel_exchange(row);
    orr_bin *bin = orr_bin_of(bins, row->device, row->kernel, shape.nodes > 1 ? "across" : "inside",
                              row->source, 0);
    if (bin == NULL) {
        return;
    }
    exchange_sample *sample = (exchange_sample *)orr_bin_add(bins, bin);
    *sample = (exchange_sample){
        .head = {.time_s = row->time_s,
                 .weight = row->training ? TRAINING_WEIGHT : 1,
                 .block = orr_block_of(orr_block_of(shape.hidden, shape.topk, shape.tokens),
                                       orr_block_of(shape.ranks, shape.nodes, shape.units),
                                       shape.experts),
                 .training = row->training},
        .shape = shape};
    orr_exchange_place(&shape, sample->head.place);
}

static void fit_exchange(orr_bins *bins, const orr_bin *bin, orr_tree *fits) {
    orr_machine machine = orr_machine_of(bin->accelerator, ORR_BF16);
    orr_exchange_constants constants = {0};
    orr_fit_task task = {.parameter = EXCHANGE_PARAMETERS,
                         .parameter_count =
                             sizeof EXCHANGE_PARAMETERS / sizeof *EXCHANGE_PARAMETERS,
                         .constants_bytes = sizeof constants,
                         .sample = bin->sample,
                         .sample_bytes = sizeof(exchange_sample),
                         .count = bin->count,
                         .model = exchange_model,
                         .go_on = orr_bins_go_on,
                         .watcher = bins,
                         .surface = &EXCHANGE_SURFACE};
    (void)orr_robust_fit_most(&task, MOST_SAMPLES, &constants);
    put_bin(bins->arena, bin, &task, &constants, &machine, fits);
}

const orr_fit_class orr_fit_exchange = {.sample_bytes = sizeof(exchange_sample),
                                        .least_rows = LEAST_ROWS,
                                        .add = add_exchange,
                                        .fit = fit_exchange};
