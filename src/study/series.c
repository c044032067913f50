/* How well projections rank the configurations of one series: same source, model, GPUs, sequence,
 * batch and precision, four or more. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/study_int.h"

enum { SERIES_MIN = 4, TOP = 3 };
static const double TIE_FRAC = 0.02;

static int compare_series(const orr_judged *a, const orr_judged *b) {
    int order = strcmp(a->run->source, b->run->source);
    order = order != 0 ? order : strcmp(a->run->model, b->run->model);
    order = order != 0 ? order : strcmp(a->run->gpu, b->run->gpu);
    order = order != 0 ? order : strcmp(a->run->precision, b->run->precision);
    double da[] = {a->run->num_gpus, a->run->seq_len, a->run->gbs};
    double db[] = {b->run->num_gpus, b->run->seq_len, b->run->gbs};
    for (size_t i = 0; i < 3 && order == 0; i++) {
        order = (da[i] > db[i]) - (da[i] < db[i]);
    }
    return order;
}

static int by_series(const void *a, const void *b) {
    const orr_judged *const *x = (const orr_judged *const *)a;
    const orr_judged *const *y = (const orr_judged *const *)b;
    int order = compare_series(*x, *y);
    return order != 0
               ? order
               : ((*x)->run->index > (*y)->run->index) - ((*x)->run->index < (*y)->run->index);
}

static int sign_with_ties(double a, double b) {
    return fabs(a - b) <= TIE_FRAC * fmax(a, b) ? 0 : a > b ? 1 : -1;
}

double orr_kendall(const orr_judged *const *rows, uint32_t n) {
    double same = 0, pairs_measured = 0, pairs_projected = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = i + 1; k < n; k++) {
            int m = sign_with_ties(rows[i]->measured, rows[k]->measured);
            int p = sign_with_ties(rows[i]->projected, rows[k]->projected);
            same += m * p;
            pairs_measured += m != 0;
            pairs_projected += p != 0;
        }
    }
    double scale = sqrt(pairs_measured * pairs_projected);
    return scale > 0 ? same / scale : 1;
}

/* Measured loss of taking the best measured of the first `top` ranked, against the truly best. */
static double regret(const orr_judged *const *rows, uint32_t n, uint32_t top) {
    double best = 0, taken = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t ahead = 0;
        for (uint32_t k = 0; k < n; k++) {
            ahead += rows[k]->projected > rows[i]->projected ||
                     (k < i && rows[k]->projected >= rows[i]->projected);
        }
        best = fmax(best, rows[i]->measured);
        if (ahead < top) {
            taken = fmax(taken, rows[i]->measured);
        }
    }
    return 1 - taken / best;
}

static double mean(const double *values, uint32_t n) {
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += values[i];
    }
    return n == 0 ? 0 : sum / n;
}

orr_tree *orr_judge_series(orr_arena *arena, const orr_judged *rows, uint32_t count) {
    const orr_judged **sorted = ORR_NEW_ARRAY(arena, const orr_judged *, count);
    uint32_t n = 0, series = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].counts && rows[i].skipped == NULL) {
            sorted[n++] = &rows[i];
        }
    }
    if (n > 0) {
        qsort(sorted, n, sizeof(const orr_judged *), by_series);
    }
    double *tau = ORR_NEW_ARRAY(arena, double, n);
    double *first = ORR_NEW_ARRAY(arena, double, n), *top = ORR_NEW_ARRAY(arena, double, n);
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && compare_series(sorted[i], sorted[end]) == 0; end++) {
        }
        if (end - i >= SERIES_MIN) {
            tau[series] = orr_kendall(&sorted[i], end - i);
            first[series] = regret(&sorted[i], end - i, 1);
            top[series++] = regret(&sorted[i], end - i, TOP);
        }
    }
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_int(arena, map, "count", series);
    orr_tree_put_real(arena, map, "mean_kendall_tau", mean(tau, series));
    orr_tree_put_real(arena, map, "median_kendall_tau", orr_median(tau, series));
    orr_tree_put_real(arena, map, "mean_regret", mean(first, series));
    orr_tree_put_real(arena, map, "median_regret", orr_median(first, series));
    orr_tree_put_real(arena, map, "p90_regret", orr_quantile(first, series, 0.9));
    orr_tree_put_real(arena, map, "top3_regret", mean(top, series));
    return map;
}
