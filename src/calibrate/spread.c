/* How the errors of rows left out depend on the shape, and what bounds the next row's.
 *
 * Some places of the space of shapes are harder than others: short kernels, odd widths, tiles that
 * a library chooses oddly. A table of the logarithm of the error over a few octaves, pulled towards
 * nothing by the weight of PULL rows, says so; then the error of a size class is that which bounds
 * nine tenths of its rows, each by its place. The k-th of n values bounds the next with k / (n +
 * 1); rows of one block are hardly more than one row, so n counts blocks. */
#include "calibrate/spread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

/* Mean of ln |x| below ln of the mean of |x|, for a normal x. */
static const double LOG_OF_MEAN = 0.409;
static const double LEAST_ERROR = 0.002; /* below is chance */
static const double COARSER = 2, PULL = 25;
enum { LEAST_ROWS = 60 };

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static int by_block(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static size_t blocks_of(orr_arena *arena, const orr_left *left, size_t count, int which) {
    uint32_t *block = ORR_NEW_ARRAY(arena, uint32_t, count + 1);
    size_t used = 0, distinct = 0;
    for (size_t i = 0; i < count; i++) {
        if (which < 0 || left[i].training == (which == 1)) {
            block[used++] = left[i].block;
        }
    }
    qsort(block, used, sizeof *block, by_block);
    for (size_t i = 0; i < used; i++) {
        distinct += i == 0 || block[i] != block[i - 1];
    }
    return distinct;
}

/* The error, one sd, of rows of a size class (0 small, 1 training); 0: there are none. */
static double bound_of(orr_arena *arena, const orr_surface *spread, const orr_left *left,
                       size_t count, int which) {
    double *value = ORR_NEW_ARRAY(arena, double, count + 1);
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (left[i].training == (which == 1)) {
            value[used++] = fabs(left[i].error) / orr_surface_factor(spread, left[i].place);
        }
    }
    if (used == 0) {
        return 0;
    }
    qsort(value, used, sizeof *value, by_value);
    double blocks = (double)blocks_of(arena, left, count, which);
    double level = orr_min_f64(1, 0.9 * (blocks + 1) / blocks);
    size_t rank = (size_t)ceil(level * (double)used);
    return value[orr_max_u64(rank, 1) - 1] / ORR_HALF_90_SD;
}

static double mean_of(const orr_left *left, size_t count, int which) {
    double sum = 0, rows = 0;
    for (size_t i = 0; i < count; i++) {
        if (left[i].training == (which == 1)) {
            sum += orr_max_f64(LEAST_ERROR, fabs(left[i].error));
            rows++;
        }
    }
    return rows > 0 ? sum / rows : 1;
}

static bool fit_surface(orr_arena *arena, orr_arena *scratch, const orr_left *left, size_t count,
                        uint32_t dims, const double *step, orr_surface *out) {
    if (count < LEAST_ROWS) {
        return false;
    }
    double(*place)[ORR_SURFACE_DIMS] =
        (double(*)[ORR_SURFACE_DIMS])orr_arena_array(scratch, count, sizeof *place);
    double *residual = ORR_NEW_ARRAY(scratch, double, count);
    double *weight = ORR_NEW_ARRAY(scratch, double, count);
    const double mean[2] = {mean_of(left, count, 0), mean_of(left, count, 1)};
    for (size_t i = 0; i < count; i++) {
        memcpy(place[i], left[i].place, sizeof *place);
        double error = orr_max_f64(LEAST_ERROR, fabs(left[i].error));
        residual[i] = log(error / mean[left[i].training]) + LOG_OF_MEAN;
        weight[i] = 1;
    }
    orr_surface_plan plan = {.dims = dims, .least_rows = LEAST_ROWS};
    for (uint32_t l = 0; l < ORR_SURFACE_LEVELS; l++) {
        plan.pull[l] = PULL;
        for (uint32_t d = 0; d < dims; d++) {
            plan.step[l][d] = COARSER * step[d] / (1u << l);
        }
    }
    orr_surface_fit(arena, &plan, (const double(*)[ORR_SURFACE_DIMS])place, residual, weight, count,
                    out);
    return out->levels > 0;
}

void orr_spread_fit(orr_arena *arena, const orr_left *left, size_t count, uint32_t dims,
                    const double *step, orr_spread *out) {
    orr_arena *scratch = orr_arena_new();
    *out = (orr_spread){.cover = {.dims = count > 0 ? dims : 0}};
    out->has_surface = fit_surface(arena, scratch, left, count, dims, step, &out->surface);
    const orr_surface *surface = out->has_surface ? &out->surface : NULL;
    out->small_frac = bound_of(scratch, surface, left, count, 0);
    out->training_frac = bound_of(scratch, surface, left, count, 1);
    for (uint32_t d = 0; d < out->cover.dims; d++) {
        out->cover.low[d] = INFINITY;
        out->cover.high[d] = -INFINITY;
        for (size_t i = 0; i < count; i++) {
            out->cover.low[d] = orr_min_f64(out->cover.low[d], left[i].place[d]);
            out->cover.high[d] = orr_max_f64(out->cover.high[d], left[i].place[d]);
        }
    }
    orr_arena_free(scratch);
}
