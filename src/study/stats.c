#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/study_int.h"

static int by_value(const void *a, const void *b) {
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

double orr_quantile(double *values, uint32_t count, double frac) {
    if (count == 0) {
        return 0;
    }
    qsort(values, count, sizeof *values, by_value);
    double at = frac * (count - 1);
    uint32_t low = (uint32_t)at, high = low + 1 < count ? low + 1 : low;
    return values[low] + (at - low) * (values[high] - values[low]);
}

double orr_median(double *values, uint32_t count) {
    return orr_quantile(values, count, 0.5);
}

/* Absolute error of a row; one that was skipped though its tier counts is an error of 1. */
static double absolute_error(const orr_judged *row) {
    return row->skipped != NULL ? 1.0 : fabs(orr_judged_error(row));
}

orr_tree *orr_summarise(orr_arena *arena, const orr_judged *const *rows, uint32_t count) {
    double *absolute = ORR_NEW_ARRAY(arena, double, count);
    double *error = ORR_NEW_ARRAY(arena, double, count);
    double *width = ORR_NEW_ARRAY(arena, double, count);
    uint32_t judged = 0, projected = 0, covered = 0;
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        const orr_judged *row = rows[i];
        if (!row->counts) {
            continue;
        }
        absolute[judged] = absolute_error(row);
        sum += absolute[judged++];
        if (row->skipped == NULL) {
            error[projected] = orr_judged_error(row);
            width[projected++] = (row->high - row->low) / row->projected;
            covered += row->measured >= row->low && row->measured <= row->high;
        }
    }
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_int(arena, map, "rows", judged);
    orr_tree_put_int(arena, map, "projected", projected);
    orr_tree_put_real(arena, map, "median_abs_err", orr_median(absolute, judged));
    orr_tree_put_real(arena, map, "mean_abs_err", judged == 0 ? 0 : sum / judged);
    orr_tree_put_real(arena, map, "p90_abs_err", orr_quantile(absolute, judged, 0.9));
    orr_tree_put_real(arena, map, "bias", orr_median(error, projected));
    orr_tree_put_real(arena, map, "coverage_90", projected == 0 ? 0 : (double)covered / projected);
    orr_tree_put_real(arena, map, "width_90", orr_median(width, projected));
    return map;
}

double orr_macro_median(orr_arena *arena, const orr_judged *rows, uint32_t count) {
    enum { MIN_ROWS = 10 };
    double *errors = ORR_NEW_ARRAY(arena, double, count), sum = 0;
    bool *done = ORR_NEW_ARRAY(arena, bool, count);
    uint32_t sources = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (done[i] || !rows[i].counts) {
            continue;
        }
        uint32_t n = 0;
        for (uint32_t k = i; k < count; k++) {
            if (rows[k].counts && strcmp(rows[k].run->source, rows[i].run->source) == 0) {
                done[k] = true;
                errors[n++] = absolute_error(&rows[k]);
            }
        }
        if (n >= MIN_ROWS) {
            sum += orr_median(errors, n);
            sources++;
        }
    }
    return sources == 0 ? 0 : sum / sources;
}
