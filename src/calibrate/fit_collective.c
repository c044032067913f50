/* Two segments for every device, operation and number of ranks inside a scale-up domain. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "calibrate/calibrate_int.h"

enum { FOLDS = 6, LEAST_ROWS = 10, MOST_SAMPLES = 1000 };
static const orr_surface_plan SURFACE = {.dims = 1, .step = {1}, .pull = 0.2, .least_rows = 10};

typedef struct collective_sample {
    orr_sample head;
    double wire_bytes;
} collective_sample;

size_t orr_collective_sample_bytes(void) {
    return sizeof(collective_sample);
}

#define PARAMETER(key, member, from, least, most)                                                  \
    {.name = (key),                                                                                \
     .offset = offsetof(orr_segments, member),                                                     \
     .scale = ORR_SCALE_LOG,                                                                       \
     .start = (from),                                                                              \
     .low = (least),                                                                               \
     .high = (most),                                                                               \
     .pull = 0.02}

static double collective_model(const void *constants, const void *sample, const void *unused) {
    (void)unused;
    return orr_segments_time_s((const orr_segments *)constants,
                               ((const collective_sample *)sample)->wire_bytes);
}

static const char *const TOPOLOGIES[] = {"switched", "mesh", "torus", "host"};

/* op in the low byte of a bin's flag, ranks above. */
static void fit_bin(orr_arena *arena, const orr_bin *bin, orr_tree *fits) {
    double link = bin->accelerator->link_Bps;
    orr_parameter parameter[] = {
        PARAMETER("small_start_s", small_start_s, 12e-6, 1e-7, 1),
        PARAMETER("small_rate_Bps", small_Bps, 1, 1e7, 1e14),
        PARAMETER("large_start_s", large_start_s, 40e-6, 1e-7, 1),
        PARAMETER("large_rate_Bps", large_Bps, 0.8 * link, 1e7, 1e14),
    };
    orr_fit_task task = {.parameter = parameter,
                         .parameter_count = sizeof parameter / sizeof *parameter,
                         .constants_bytes = sizeof(orr_segments),
                         .sample = bin->sample,
                         .sample_bytes = sizeof(collective_sample),
                         .count = bin->count,
                         .model = collective_model,
                         .surface = &SURFACE};
    /* protocols for small messages reach anything from a fiftieth of the links to half */
    static const double SMALL_RATE[] = {0.02, 0.1, 0.2, 0.4};
    orr_segments best = {0};
    double least = INFINITY, start = 0;
    for (int i = 0; i < 4; i++) {
        orr_segments trial = {0};
        parameter[1].start = SMALL_RATE[i] * link;
        double cost = orr_robust_fit_most(&task, MOST_SAMPLES, &trial);
        if (cost < least) {
            least = cost;
            best = trial;
            start = parameter[1].start;
        }
    }
    parameter[1].start = start;
    orr_validated validated;
    orr_robust_validate(arena, &task, MOST_SAMPLES, FOLDS, &best, &validated);
    orr_tree *record = orr_tree_new_map(arena);
    orr_tree_put_text(arena, record, "device", bin->accelerator->name);
    orr_tree_put_text(arena, record, "library", bin->kernel);
    orr_tree_put_text(arena, record, "source", bin->source);
    orr_tree_put_text(arena, record, "op", orr_collective_name((orr_collective)(bin->flag & 255)));
    orr_tree_put_text(arena, record, "topology", TOPOLOGIES[bin->accelerator->topology]);
    orr_tree_put_int(arena, record, "ranks", bin->flag >> 8);
    orr_tree_put_int(arena, record, "rows", (int64_t)bin->count);
    orr_put_rate(arena, record, "link", link);
    orr_put_number(arena, record, "error", validated.all.p90 / 1.645);
    orr_put_number(arena, record, "mape", validated.all.mape);
    orr_put_number(arena, record, "mape_training", validated.training.mape);
    orr_put_parameters(arena, record, &task, &best);
    orr_put_surface(arena, record, &task, &best);
    orr_tree_push(arena, fits, record);
}

orr_status orr_calibrate_collectives(orr_kernel_rows *rows, orr_bins *bins, orr_tree *fits,
                                     orr_err *err) {
    orr_kernel_row row;
    for (bool more = true; more;) {
        ORR_TRY(orr_kernel_rows_next(rows, &row, &more, err));
        if (!more || !(row.time_s > 0) || row.shape.collective.nodes > 1) {
            continue;
        }
        uint32_t op = row.shape.collective.op, ranks = (uint32_t)row.shape.collective.ranks;
        orr_bin *bin = orr_bin_of(bins, row.device, row.kernel, "", row.source, op | ranks << 8);
        if (bin != NULL) {
            collective_sample *sample = (collective_sample *)orr_bin_add(bins, bin);
            *sample = (collective_sample){
                .head = {.time_s = row.time_s,
                         .weight = 1,
                         .block = orr_block_of(row.shape.collective.bytes, 0, 0),
                         .training = row.training},
                .wire_bytes =
                    orr_bus_factor((orr_collective)op, ranks) * row.shape.collective.bytes};
            orr_segments_place(sample->wire_bytes, sample->head.place);
        }
    }
    for (uint32_t i = 0; i < bins->count; i++) {
        if (bins->bin[i].accelerator != NULL && bins->bin[i].count >= LEAST_ROWS) {
            fit_bin(bins->arena, &bins->bin[i], fits);
        }
    }
    return ORR_OK;
}
