/* `validate --kernels`: how far prices of measured kernels are off, and how honest their error. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "cost/cost.h"
#include "cost/kernel_price.h"

enum { MOST_NAMES = 1024, MOST_ROWS = 4 << 20 };

typedef struct judged {
    float error, half; /* (priced - measured) / measured; half width of the interval over price */
    uint16_t device, dtype, device_dtype;
    uint8_t training, priced, covered, across;
    uint8_t gap; /* orr_kernel_gap */
} judged;

/* Names in order of appearance. */
typedef struct names {
    uint32_t count;
    const char *name[MOST_NAMES];
} names;

typedef struct tally {
    orr_arena *arena;
    names devices, dtypes, pairs;
    judged *row;
    size_t count, capacity;
} tally;

static uint16_t index_of(orr_arena *arena, names *list, const char *name) {
    for (uint32_t i = 0; i < list->count; i++) {
        if (strcmp(list->name[i], name) == 0) {
            return (uint16_t)i;
        }
    }
    if (list->count == MOST_NAMES) {
        return MOST_NAMES - 1; /* the rest counts together */
    }
    list->name[list->count] = orr_arena_text(arena, name);
    return (uint16_t)list->count++;
}

static judged *add_row(tally *t) {
    if (t->count == t->capacity) {
        size_t capacity = t->capacity == 0 ? 1024 : 2 * t->capacity;
        judged *larger = ORR_NEW_ARRAY(t->arena, judged, capacity);
        if (t->count > 0) {
            memcpy(larger, t->row, t->count * sizeof *larger);
        }
        t->row = larger;
        t->capacity = capacity;
    }
    return &t->row[t->count++];
}

static void judge(tally *t, orr_kernel_pricer *pricer, orr_kernel_class class,
                  const orr_kernel_row *row) {
    judged *j = add_row(t);
    char pair[256];
    (void)snprintf(pair, sizeof pair, "%s %s", row->device, row->dtype);
    j->device = index_of(t->arena, &t->devices, row->device);
    j->dtype = index_of(t->arena, &t->dtypes, row->dtype);
    j->device_dtype = index_of(t->arena, &t->pairs, pair);

    j->training = row->training;
    j->across = class == ORR_KERNELS_COLLECTIVES && row->shape.collective.nodes > 1;
    double time = 0, relerr = 0;
    orr_kernel_gap gap = orr_kernel_price(pricer, class, row, &time, &relerr);
    if (gap == ORR_GAP_NONE && !(row->time_s > 0)) {
        gap = ORR_GAP_TIME;
    }
    float error = (float)(time / row->time_s - 1);
    if (gap == ORR_GAP_NONE && !isfinite(error)) {
        gap = ORR_GAP_RANGE;
    }
    j->gap = (uint8_t)gap;
    if (gap != ORR_GAP_NONE) {
        return;
    }
    double half = ORR_HALF_90_SD * relerr;
    j->priced = 1;
    j->error = error;
    j->half = (float)half;
    j->covered = row->time_s >= time * (1 - half) && row->time_s <= time * (1 + half);
}

/* ---- summaries ------------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double quantile(const float *sorted, size_t count, double share) {
    if (count == 0) {
        return 0;
    }
    double at = share * (double)(count - 1);
    size_t low = (size_t)at, high = low + 1 < count ? low + 1 : low;
    return (double)sorted[low] + (at - (double)low) * ((double)sorted[high] - (double)sorted[low]);
}

static double rounded(double value) {
    return floor(value * 1e5 + 0.5) / 1e5;
}

/* Errors over the rows for which `take` says yes. */
typedef bool (*take_fn)(const judged *row, uint32_t which);

static orr_tree *summarise(const tally *t, take_fn take, uint32_t which, float *scratch) {
    size_t rows = 0, priced = 0, covered = 0;
    double sum = 0;
    for (size_t i = 0; i < t->count; i++) {
        const judged *j = &t->row[i];
        if (take(j, which)) {
            rows++;
            if (j->priced) {
                scratch[priced++] = j->error;
                covered += j->covered;
                sum += fabs((double)j->error);
            }
        }
    }
    orr_tree *map = orr_tree_new_map(t->arena);
    orr_tree_put_int(t->arena, map, "rows", (int64_t)rows);
    orr_tree_put_int(t->arena, map, "priced", (int64_t)priced);
    if (priced == 0) {
        return map;
    }
    qsort(scratch, priced, sizeof *scratch, by_value);
    double bias = quantile(scratch, priced, 0.5);
    for (size_t i = 0; i < priced; i++) {
        scratch[i] = fabsf(scratch[i]);
    }
    qsort(scratch, priced, sizeof *scratch, by_value);
    orr_tree_put_real(t->arena, map, "mape", rounded(sum / (double)priced));
    orr_tree_put_real(t->arena, map, "median_ape", rounded(quantile(scratch, priced, 0.5)));
    orr_tree_put_real(t->arena, map, "p90_ape", rounded(quantile(scratch, priced, 0.9)));
    orr_tree_put_real(t->arena, map, "bias", rounded(bias));
    orr_tree_put_real(t->arena, map, "coverage_90", rounded((double)covered / (double)priced));
    size_t used = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (t->row[i].priced && take(&t->row[i], which)) {
            scratch[used++] = 2 * t->row[i].half;
        }
    }
    qsort(scratch, used, sizeof *scratch, by_value);
    orr_tree_put_real(t->arena, map, "width_90", rounded(quantile(scratch, used, 0.5)));
    return map;
}

static bool take_all(const judged *row, uint32_t which) {
    (void)row;
    (void)which;
    return true;
}
static bool take_device(const judged *row, uint32_t which) {
    return row->device == which;
}
static bool take_dtype(const judged *row, uint32_t which) {
    return row->dtype == which;
}
static bool take_pair(const judged *row, uint32_t which) {
    return row->device_dtype == which;
}
static bool take_size(const judged *row, uint32_t which) {
    return row->training == which;
}
static bool take_reach(const judged *row, uint32_t which) {
    return row->across == which;
}
static bool take_inside_device(const judged *row, uint32_t which) {
    return row->training && row->device == which && !row->across;
}
static bool take_across_device(const judged *row, uint32_t which) {
    return row->training && row->device == which && row->across;
}
/* Training sizes of one device, with one dtype: what acceptance tables are read on. */
static bool take_training_device(const judged *row, uint32_t which) {
    return row->training && row->device == which;
}
static bool take_training_pair(const judged *row, uint32_t which) {
    return row->training && row->device_dtype == which;
}

static orr_tree *by_names(const tally *t, const names *list, take_fn take, float *scratch) {
    orr_tree *map = orr_tree_new_map(t->arena);
    for (uint32_t i = 0; i < list->count; i++) {
        orr_tree_put(t->arena, map, list->name[i], summarise(t, take, i, scratch));
    }
    return map;
}

/* Rows without a price, by device and dtype and by the reason. */
static orr_tree *unpriced(const tally *t) {
    orr_tree *list = orr_tree_new_list(t->arena);
    int64_t(*count)[ORR_GAP_COUNT] =
        (int64_t(*)[ORR_GAP_COUNT])orr_arena_array(t->arena, t->pairs.count + 1, sizeof *count);
    for (size_t r = 0; r < t->count; r++) {
        count[t->row[r].device_dtype][t->row[r].gap]++;
    }
    for (uint32_t i = 0; i < t->pairs.count; i++) {
        for (int gap = ORR_GAP_NONE + 1; gap < ORR_GAP_COUNT; gap++) {
            if (count[i][gap] > 0) {
                orr_tree *entry = orr_tree_push(t->arena, list, orr_tree_new_map(t->arena));
                orr_tree_put_text(t->arena, entry, "device_dtype", t->pairs.name[i]);
                orr_tree_put_int(t->arena, entry, "count", count[i][gap]);
                orr_tree_put_text(t->arena, entry, "why", orr_kernel_gap_text((orr_kernel_gap)gap));
            }
        }
    }
    return list;
}

/* Left out, a device has only its relatives to go by: whether it has any is said then. */
static orr_tree *by_device(const tally *t, orr_kernel_pricer *pricer, const char *class,
                           take_fn take, float *scratch) {
    orr_tree *map = orr_tree_new_map(t->arena);
    for (uint32_t i = 0; i < t->devices.count; i++) {
        const char *name = t->devices.name[i];
        orr_tree *entry = orr_tree_put(t->arena, map, name, summarise(t, take, i, scratch));
        const orr_accelerator *a = orr_kernel_accelerator(pricer, name);
        if (pricer->leave_out && a != NULL) {
            bool sibling = orr_calibration_has_sibling(t->arena, pricer->calibration, class, a);
            orr_tree_put_bool(t->arena, entry, "sibling", sibling);
            orr_tree_put_text(t->arena, entry, "hardware", a->name);
            orr_tree_put_text(t->arena, entry, "arch", orr_arch_name((orr_arch)a->arch));
        }
    }
    return map;
}

static orr_tree *report(const tally *t, orr_kernel_pricer *pricer, orr_kernel_class class) {
    float *scratch = ORR_NEW_ARRAY(t->arena, float, t->count + 1);
    orr_tree *out = orr_tree_new_map(t->arena);
    orr_tree_put_text(t->arena, out, "class", orr_kernel_class_name(class));
    orr_tree_put(t->arena, out, "summary", summarise(t, take_all, 0, scratch));
    orr_tree *by = orr_tree_put(t->arena, out, "by", orr_tree_new_map(t->arena));
    const char *name = orr_kernel_class_name(class);
    orr_tree_put(t->arena, by, "device", by_device(t, pricer, name, take_device, scratch));
    orr_tree_put(t->arena, by, "device_training",
                 by_device(t, pricer, name, take_training_device, scratch));
    orr_tree_put(t->arena, by, "dtype", by_names(t, &t->dtypes, take_dtype, scratch));
    orr_tree_put(t->arena, by, "device_dtype", by_names(t, &t->pairs, take_pair, scratch));
    orr_tree_put(t->arena, by, "device_dtype_training",
                 by_names(t, &t->pairs, take_training_pair, scratch));

    if (class == ORR_KERNELS_COLLECTIVES) {
        orr_tree *reach = orr_tree_put(t->arena, by, "reach", orr_tree_new_map(t->arena));
        orr_tree_put(t->arena, reach, "inside", summarise(t, take_reach, 0, scratch));
        orr_tree_put(t->arena, reach, "across", summarise(t, take_reach, 1, scratch));
        orr_tree_put(t->arena, by, "inside_training",
                     by_device(t, pricer, name, take_inside_device, scratch));
        orr_tree_put(t->arena, by, "across_training",
                     by_device(t, pricer, name, take_across_device, scratch));
    }
    orr_tree *size = orr_tree_put(t->arena, by, "size", orr_tree_new_map(t->arena));
    orr_tree_put(t->arena, size, "small", summarise(t, take_size, 0, scratch));
    orr_tree_put(t->arena, size, "training", summarise(t, take_size, 1, scratch));
    orr_tree_put(t->arena, out, "unpriced", unpriced(t));
    return out;
}

orr_status orr_cost_kernels_validate(orr_arena *arena, const orr_kernels_request *request,
                                     orr_tree **out, orr_err *err) {
    orr_kernel_rows rows;
    ORR_TRY(orr_kernel_rows_open(arena, request->path, request->class, true, &rows, err));
    orr_calibration *calibration = NULL;
    if (request->calibration != NULL) {
        ORR_TRY(orr_calibration_folder(arena, request->calibration, &calibration, err));
    } else {
        ORR_TRY(orr_calibration_builtin(arena, &calibration, err));
        ORR_TRY(orr_calibration_kernels(arena, calibration, err));
    }
    orr_kernel_pricer *pricer = ORR_NEW(arena, orr_kernel_pricer);
    pricer->arena = arena;
    pricer->calibration = calibration;
    pricer->leave_out = request->leave_out;
    tally *t = ORR_NEW(arena, tally);
    t->arena = arena;
    orr_exchange_steps *steps = orr_exchange_steps_new(arena);
    orr_kernel_row row;
    bool more = true;
    while (more) {
        ORR_TRY(orr_kernel_rows_next(&rows, &row, &more, err));
        if (more) {
            if (t->count == MOST_ROWS) {
                return orr_fail(err, ORR_E_LIMIT, "%s holds more than %d rows", request->path,
                                (int)MOST_ROWS);
            }
            judge(t, pricer, rows.class, &row);
            if (rows.class == ORR_KERNELS_EP_ALLTOALL) {
                orr_exchange_steps_add(steps, pricer, &row);
            }
        }
    }
    *out = report(t, pricer, rows.class);
    if (rows.class == ORR_KERNELS_EP_ALLTOALL) {
        orr_tree_put(arena, *out, "combines_as_steps", orr_exchange_steps_write(steps));
    }
    return ORR_OK;
}
