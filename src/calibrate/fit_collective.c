/* Constants of every system, library, operation and number of ranks and hosts, and what kriging
 * over its rows and those of its relatives says beyond. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "calibrate/calibrate_int.h"
#include "calibrate/kriging.h"

enum { FOLDS = 6, LEAST_ROWS = 4, LEAST_ROWS_ACROSS = 2, MOST_SAMPLES = 1000, LEAST_SAME = 6 };
/* Chosen once, by the errors of rows left out of all fits together. */
static const orr_kriging KRIGING = {.smooth = 0.3,
                                    .smooth_octaves = 2,
                                    .rough = 0.2,
                                    .rough_octaves = 0.8,
                                    .own = 0.04,
                                    .own_octaves = 4,
                                    .level = 0.05,
                                    .noise = 0.01};
static const double ALIKE_DEVICE = 0.99, ALIKE_VERSION = 0.7, ALIKE_LIBRARY = 0.4,
                    ALIKE_OP = 0.8;     /* a gather and a scatter run around the same ring */
static const double ALIKE_TWIN = 0.999; /* below 1: a matrix of covariances is to be solved */
static const double LEAST_BPS = 1e6;
static const double ALIKE_LINKS = 1.1; /* bandwidths further apart are of other devices */

typedef struct collective_sample {
    orr_sample head;
    double wire_bytes, nodes;
} collective_sample;
static const char ONE_NODE[] = "1"; /* a bin's scheme: on how many hosts */

/* A bin as kriging sees it: its place among all, whose rows are its relatives'. */
typedef struct member {
    orr_bins *bins;
    const orr_message *message; /* [bins->count], fitted */
    const uint32_t *first;      /* [bins->count]: of those that hold the same measurements */
    uint32_t own;
} member;

/* Two systems of one source whose times are the same to the digit, wherever both have a size: one
 * measurement, published under two names. */
static bool same_measurements(const orr_bin *a, const orr_bin *b) {
    const collective_sample *x = (const collective_sample *)a->sample,
                            *y = (const collective_sample *)b->sample;
    size_t same = 0;
    if (a->flag != b->flag || strcmp(a->scheme, b->scheme) != 0 ||
        strcmp(a->source, b->source) != 0 || strcmp(a->device, b->device) == 0) {
        return false;
    }
    for (size_t i = 0; i < a->count; i++) {
        for (size_t k = 0; k < b->count; k++) {
            if (x[i].wire_bytes == y[k].wire_bytes) {
                if (x[i].head.time_s != y[k].head.time_s) {
                    return false;
                }
                same++;
            }
        }
    }
    return same >= LEAST_SAME;
}

#define PARAMETER(key, member_name, from, least, most)                                             \
    {.name = (key),                                                                                \
     .offset = offsetof(orr_message, member_name),                                                 \
     .scale = ORR_SCALE_LOG,                                                                       \
     .start = (from),                                                                              \
     .low = (least),                                                                               \
     .high = (most),                                                                               \
     .pull = 0.02}

static double collective_model(const void *constants, const void *sample, const void *unused) {
    (void)unused;
    return orr_message_time_s((const orr_message *)constants,
                              ((const collective_sample *)sample)->wire_bytes);
}

static bool rings_alike(orr_collective a, orr_collective b) {
    return (a == ORR_ALL_GATHER && b == ORR_REDUCE_SCATTER) ||
           (a == ORR_REDUCE_SCATTER && b == ORR_ALL_GATHER);
}

static double alike(const void *user, uint32_t a, uint32_t b) {
    const member *m = (const member *)user;
    const orr_bin *x = &m->bins->bin[a], *y = &m->bins->bin[b];
    const orr_accelerator *p = x->accelerator, *q = y->accelerator;
    if (a == b) {
        return 1;
    }
    if (m->first[a] == m->first[b]) {
        return ALIKE_TWIN;
    }
    orr_collective op = (orr_collective)(x->flag & 255), other = (orr_collective)(y->flag & 255);
    bool group = x->flag >> 8 == y->flag >> 8 && strcmp(x->scheme, y->scheme) == 0;
    double links = fabs(log(p->link_Bps / q->link_Bps));
    bool across = strcmp(x->scheme, ONE_NODE) != 0; /* no two networks are alike */
    if (!group || (op != other && !rings_alike(op, other)) ||
        (across && strcmp(x->device, y->device) != 0) || p->arch != q->arch ||
        p->topology != q->topology || links > log(ALIKE_LINKS)) {
        return 0;
    }
    return (op == other ? 1 : ALIKE_OP) * (strcmp(x->device, y->device) == 0 ? 1 : ALIKE_DEVICE) *
           (strcmp(x->kernel, y->kernel) == 0        ? 1
            : orr_same_library(x->kernel, y->kernel) ? ALIKE_VERSION
                                                     : ALIKE_LIBRARY);
}

static bool is_fitted(const orr_bin *bin) {
    bool across = strcmp(bin->scheme, ONE_NODE) != 0;
    return bin->accelerator != NULL && bin->count >= (across ? LEAST_ROWS_ACROSS : LEAST_ROWS);
}

static void add_rows(const member *m, uint32_t index, orr_krige_row *row, size_t *count) {
    const orr_bin *bin = &m->bins->bin[index];
    const collective_sample *sample = (const collective_sample *)bin->sample;
    for (size_t i = 0; i < bin->count && *count < ORR_KRIGE_MOST_ROWS; i++) {
        double model = orr_message_time_s(&m->message[index], sample[i].wire_bytes);
        row[(*count)++] = (orr_krige_row){sample[i].head.place[0] / ORR_MESSAGE_CELLS,
                                          log(sample[i].head.time_s / model), index};
    }
}

/* The remainder of a bin's own rows, which may be a part of them, together with its relatives'. */
static void remain(orr_arena *arena, const orr_fit_task *task,
                   const double (*place)[ORR_SURFACE_DIMS], const double *residual, size_t count,
                   orr_surface *out) {
    const member *m = (const member *)task->user;
    orr_krige_row *row = ORR_NEW_ARRAY(arena, orr_krige_row, ORR_KRIGE_MOST_ROWS);
    size_t used = 0;
    for (size_t i = 0; i < count && used < ORR_KRIGE_MOST_ROWS; i++) {
        row[used++] = (orr_krige_row){0.5 * place[i][0], residual[i], m->own};
    }
    for (uint32_t i = 0; i < m->bins->count; i++) {
        const orr_bin *bin = &m->bins->bin[i];
        if (i != m->own && is_fitted(bin) && alike(m, i, m->own) > 0) {
            add_rows(m, i, row, &used);
        }
    }
    orr_krige(arena, &KRIGING, row, used, m->own, alike, m, out);
}

/* op in the low byte of a bin's flag, ranks above. */
static void put_record(orr_arena *arena, const member *m, const orr_fit_task *task,
                       orr_tree *fits) {
    const orr_bin *bin = &m->bins->bin[m->own];
    const orr_message *message = &m->message[m->own];
    orr_validated validated;
    orr_robust_validate(arena, task, MOST_SAMPLES, FOLDS, message, &validated);
    orr_tree *record = orr_tree_new_map(arena);
    orr_tree_put_text(arena, record, "device", bin->accelerator->name);
    orr_tree_put_text(arena, record, "system", bin->device);
    orr_tree_put_text(arena, record, "library", bin->kernel);
    orr_tree_put_text(arena, record, "source", bin->source);
    orr_tree_put_text(arena, record, "op", orr_collective_name((orr_collective)(bin->flag & 255)));
    orr_tree_put_text(arena, record, "topology",
                      orr_topology_name((orr_topology)bin->accelerator->topology));
    const orr_accelerator *a = bin->accelerator;
    double ranks = bin->flag >> 8, nodes = ((const collective_sample *)bin->sample)->nodes;
    orr_tree_put_int(arena, record, "ranks", (int64_t)ranks);
    if (nodes > 1) {
        orr_tree_put_int(arena, record, "nodes", (int64_t)nodes);
        orr_tree_put_int(arena, record, "domains",
                         (int64_t)orr_collective_domains(a, ranks, nodes));
        orr_put_rate(arena, record, "nic", a->nic_Bps);
    }
    orr_tree_put_int(arena, record, "rows", (int64_t)bin->count);
    orr_put_rate(arena, record, "link", a->link_Bps);
    orr_put_errors(arena, record, &validated);
    orr_put_parameters(arena, record, task, message);
    orr_put_surface(arena, record, task, message);
    orr_put_spread(arena, record, &validated);
    orr_tree_push(arena, fits, record);
}

/* Twice: first the constants of all bins, then what remains of each beside its relatives. */
static void fit_bins(orr_bins *bins, orr_tree *fits) {
    orr_message *message = ORR_NEW_ARRAY(bins->arena, orr_message, bins->count + 1);
    uint32_t *first = ORR_NEW_ARRAY(bins->arena, uint32_t, bins->count + 1);
    for (uint32_t i = 0; i < bins->count; i++) {
        first[i] = i;
        for (uint32_t k = 0; k < i && first[i] == i; k++) {
            first[i] = same_measurements(&bins->bin[k], &bins->bin[i]) ? first[k] : i;
        }
    }
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < bins->count; i++) {
            const orr_bin *bin = &bins->bin[i];
            if (!is_fitted(bin)) {
                continue;
            }
            const orr_accelerator *a = bin->accelerator;
            double ranks = bin->flag >> 8;
            double nodes = ((const collective_sample *)bin->sample)->nodes;
            double bus_Bps = orr_across_bus_Bps((orr_collective)(bin->flag & 255), ranks,
                                                orr_collective_domains(a, ranks, nodes), a->nic_Bps,
                                                a->link_Bps);
            const orr_parameter parameter[] = {
                PARAMETER("start_s", start_s, 12e-6, 1e-7, 1),
                PARAMETER("rate_Bps", Bps, orr_max_f64(LEAST_BPS, 0.8 * bus_Bps), LEAST_BPS, 1e14),
                PARAMETER("piece_s", piece_s, 5e-6, 1e-10, 1),
            };
            const member m = {bins, message, first, i};
            const orr_fit_task task = {.parameter = parameter,
                                       .parameter_count = sizeof parameter / sizeof *parameter,
                                       .constants_bytes = sizeof(orr_message),
                                       .sample = bin->sample,
                                       .sample_bytes = sizeof(collective_sample),
                                       .count = bin->count,
                                       .model = collective_model,
                                       .go_on = orr_bins_go_on,
                                       .watcher = bins,
                                       .user = &m,
                                       .remain = remain};
            if (pass == 0) {
                (void)orr_robust_fit_most(&task, MOST_SAMPLES, &message[i]);
            } else {
                put_record(bins->arena, &m, &task, fits);
            }
        }
    }
}

static void add_row(orr_bins *bins, orr_kernel_class class, const orr_kernel_row *row) {
    (void)class;
    uint32_t op = row->shape.collective.op, ranks = (uint32_t)row->shape.collective.ranks;
    double nodes = row->shape.collective.nodes;
    const char *hosts = orr_arena_format(bins->arena, "%.0f", nodes);
    orr_bin *bin = orr_bin_of(bins, row->device, row->kernel, hosts, row->source, op | ranks << 8);
    if (bin != NULL) {
        collective_sample *sample = (collective_sample *)orr_bin_add(bins, bin);
        *sample = (collective_sample){
            .head = {.time_s = row->time_s,
                     .weight = 1,
                     .block = orr_block_of(row->shape.collective.bytes, 0, 0),
                     .training = row->training},
            .wire_bytes = orr_bus_factor((orr_collective)op, ranks) * row->shape.collective.bytes,
            .nodes = nodes};
        orr_message_place(row->shape.collective.bytes, sample->head.place);
    }
}

const orr_fit_class orr_fit_collectives = {
    .sample_bytes = sizeof(collective_sample), .add = add_row, .fit_all = fit_bins};
