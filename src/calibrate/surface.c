#include "calibrate/surface.h"

#include <math.h>

#include "base/num.h"

enum { ROUNDS = 10 };

/* The cells that samples touch. */
static void size_level(orr_surface_level *level, const orr_surface_plan *plan, uint32_t which,
                       const double (*place)[ORR_SURFACE_DIMS], size_t count) {
    for (uint32_t d = 0; d < plan->dims; d++) {
        double low = INFINITY, high = -INFINITY;
        for (size_t i = 0; i < count; i++) {
            low = orr_min_f64(low, place[i][d]);
            high = orr_max_f64(high, place[i][d]);
        }
        level->step[d] = plan->step[which][d];
        double first = floor(low / level->step[d]);
        level->low[d] = (int32_t)first;
        level->extent[d] = (uint32_t)(ceil(high / level->step[d]) - first) + 1;
    }
}

static size_t cells_of(const orr_surface_level *level, uint32_t dims) {
    size_t cells = 1;
    for (uint32_t d = 0; d < dims; d++) {
        cells *= level->extent[d];
        if (cells > ORR_SURFACE_MOST_CELLS) {
            return 0;
        }
    }
    return cells;
}

typedef struct sums {
    double value, weight;
} sums;

/* One pass: every cell moves by the weighted mean of what is left around it. */
static void pass(const orr_surface_level *level, uint32_t dims, double pull, size_t cells,
                 const double (*place)[ORR_SURFACE_DIMS], const double *weight, size_t count,
                 double *left, double *table, sums *sum) {
    uint32_t cell[1 << ORR_SURFACE_DIMS];
    double share[1 << ORR_SURFACE_DIMS];
    for (size_t c = 0; c < cells; c++) {
        sum[c] = (sums){0, 0};
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t corners = orr_surface_corners(level, dims, place[i], cell, share);
        for (uint32_t j = 0; j < corners; j++) {
            double w = weight[i] * share[j];
            sum[cell[j]].value += w * left[i];
            sum[cell[j]].weight += w;
        }
    }
    for (size_t c = 0; c < cells; c++) {
        double move = (sum[c].value - pull * table[c]) / orr_max_f64(1e-9, sum[c].weight + pull);
        sum[c].value = move;
        table[c] += move;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t corners = orr_surface_corners(level, dims, place[i], cell, share);
        for (uint32_t j = 0; j < corners; j++) {
            left[i] -= share[j] * sum[cell[j]].value;
        }
    }
}

void orr_surface_fit(orr_arena *arena, const orr_surface_plan *plan,
                     const double (*place)[ORR_SURFACE_DIMS], const double *residual,
                     const double *weight, size_t count, orr_surface *out) {
    *out = (orr_surface){.dims = plan->dims};
    if (count == 0) {
        return;
    }
    orr_arena *scratch = orr_arena_new();
    double *left = ORR_NEW_ARRAY(scratch, double, count);
    for (size_t i = 0; i < count; i++) {
        left[i] = residual[i];
    }
    for (uint32_t l = 0; l < ORR_SURFACE_LEVELS && plan->step[l][0] > 0; l++) {
        orr_surface_level *level = &out->level[out->levels];
        size_level(level, plan, l, place, count);
        size_t cells = cells_of(level, plan->dims);
        if (cells == 0) {
            break; /* finer ones are larger still */
        }
        double *table = ORR_NEW_ARRAY(scratch, double, cells);
        sums *sum = ORR_NEW_ARRAY(scratch, sums, cells);
        for (int round = 0; round < ROUNDS; round++) {
            pass(level, plan->dims, plan->pull[l], cells, place, weight, count, left, table, sum);
        }
        level->cell = ORR_NEW_ARRAY(arena, float, cells);
        for (size_t c = 0; c < cells; c++) { /* as a file will hold it */
            level->cell[c] = (float)(floor(table[c] * ORR_SURFACE_UNIT + 0.5) / ORR_SURFACE_UNIT);
        }
        out->levels++;
    }
    orr_arena_free(scratch);
}
