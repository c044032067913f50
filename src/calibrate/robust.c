#include "calibrate/robust.h"

#include <cminpack.h>
#include <math.h>
#include <string.h>

#include "base/map.h"
#include "base/num.h"
#include "base/rng.h"

static const double SOFT = 0.05; /* residuals beyond this pull linearly */
static const double EDGE = 1e-3; /* shares start at least this far from their bounds */
enum { MOST_ROUNDS = 30, RESTARTS = 6, FOLD_RESTARTS = 2 };
static const double ENOUGH = 0.998; /* a restart must gain more than this */
/* Unknowns are counted from ORIGIN at their starts: finite differences step relative to that. The
 * model has kinks where another tile wins; wide steps see over them, narrow ones settle. */
static const double ORIGIN = 4, WIDE_STEP = 3e-3, NARROW_STEP = 3e-4;

static double *member(const orr_parameter *parameter, void *constants) {
    return (double *)(void *)((char *)constants + parameter->offset);
}

static double to_line(const orr_parameter *p, double value) {
    if (p->scale == ORR_SCALE_LOG) {
        return log(value);
    }
    double share = (value - p->low) / (p->high - p->low);
    share = orr_min_f64(1 - EDGE, orr_max_f64(EDGE, share));
    return log(share / (1 - share));
}

static double from_line(const orr_parameter *p, double x) {
    if (p->scale == ORR_SCALE_LOG) {
        return orr_min_f64(p->high, orr_max_f64(p->low, exp(x)));
    }
    return p->low + (p->high - p->low) / (1 + exp(-orr_min_f64(30, orr_max_f64(-30, x))));
}

static double value_at(const orr_parameter *p, double x) {
    return from_line(p, to_line(p, p->start) + x - ORIGIN);
}

/* sign(r) sqrt(2 (sqrt(1 + (r/s)^2) - 1)) s: its square is the soft-L1 cost of r. */
static double soften(double residual) {
    double scaled = residual / SOFT;
    double cost = 2 * (sqrt(1 + scaled * scaled) - 1);
    return copysign(SOFT * sqrt(cost), residual);
}

typedef struct search {
    const orr_fit_task *task;
    const uint32_t *pick;
    size_t count;
    void *constants;
} search;

static const orr_sample *sample_at(const orr_fit_task *task, uint32_t index) {
    return (const orr_sample *)(const void *)((const char *)task->sample +
                                              task->sample_bytes * index);
}

static double log_ratio(const orr_fit_task *task, const void *constants, uint32_t index) {
    const orr_sample *sample = sample_at(task, index);
    double time = task->model(constants, sample, task->user);
    return time > 0 ? log(time / sample->time_s) : 10;
}

static bool goes_on(const orr_fit_task *task) {
    return task->go_on == NULL || task->go_on(task->watcher);
}

static int residuals(void *user, int m, int n, const double *x, double *out, int flag) {
    (void)m;
    (void)flag;
    search *s = (search *)user;
    const orr_fit_task *task = s->task;
    if (!goes_on(task)) {
        return -1; /* ends lmdif */
    }
    for (int i = 0; i < n; i++) {
        *member(&task->parameter[i], s->constants) = value_at(&task->parameter[i], x[i]);
    }
    for (size_t i = 0; i < s->count; i++) {
        out[i] =
            sample_at(task, s->pick[i])->weight * soften(log_ratio(task, s->constants, s->pick[i]));
    }
    for (int i = 0; i < n; i++) {
        const orr_parameter *p = &task->parameter[i];
        out[s->count + (size_t)i] = p->pull * (x[i] - ORIGIN);
    }
    return 0;
}

static double square_sum(const double *value, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += value[i] * value[i];
    }
    return sum;
}

/* warm: from where the constants stand, else from the starts. */
static double fit(orr_arena *arena, const orr_fit_task *task, const uint32_t *pick, size_t count,
                  uint32_t restarts, bool warm, void *constants) {
    int n = (int)task->parameter_count, m = (int)count + n;
    size_t rows = (size_t)m, columns = (size_t)n;
    double *x = ORR_NEW_ARRAY(arena, double, columns);
    double *value = ORR_NEW_ARRAY(arena, double, rows);
    double *jacobian = ORR_NEW_ARRAY(arena, double, rows *columns);
    double *work = ORR_NEW_ARRAY(arena, double, 5 * columns + rows);
    int *order = ORR_NEW_ARRAY(arena, int, columns);
    for (int i = 0; i < n; i++) {
        const orr_parameter *p = &task->parameter[i];
        x[i] = ORIGIN;
        if (warm) {
            x[i] += to_line(p, *member(p, constants)) - to_line(p, p->start);
        }
    }
    search s = {task, pick, count, constants};
    double cost = INFINITY;
    for (int restart = 0; restart < (int)restarts; restart++) {
        double step = restart % 2 == 0 ? WIDE_STEP : NARROW_STEP;
        int calls = 0;
        (void)lmdif(residuals, &s, m, n, x, value, 1e-5, 1e-6, 0, MOST_ROUNDS * (n + 1),
                    step * step, work, 1, 1, 0, &calls, jacobian, m, order, work + n, work + 2 * n,
                    work + 3 * n, work + 4 * n, work + 5 * n);
        (void)residuals(&s, m, n, x, value, 1);
        double now = square_sum(value, rows);
        if ((restart > 0 && now > ENOUGH * cost) || !goes_on(task)) {
            break;
        }
        cost = now;
    }
    return count > 0 ? cost / (double)count : 0;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const double *sorted, size_t count, double share) {
    return count == 0 ? 0 : sorted[(size_t)(share * (double)(count - 1) + 0.5)];
}

/* Of signed relative errors; sorts them. */
static orr_errors summarise(double *signed_error, size_t count) {
    orr_errors e = {.rows = (uint32_t)count};
    qsort(signed_error, count, sizeof *signed_error, by_value);
    e.bias = quantile(signed_error, count, 0.5);
    for (size_t i = 0; i < count; i++) {
        signed_error[i] = fabs(signed_error[i]);
        e.mape += signed_error[i] / (double)count;
    }
    qsort(signed_error, count, sizeof *signed_error, by_value);
    e.median = quantile(signed_error, count, 0.5);
    e.p90 = quantile(signed_error, count, 0.9);
    return e;
}

/* A seeded order of all samples. */
static uint32_t *shuffled(orr_arena *arena, size_t count) {
    uint32_t *pick = ORR_NEW_ARRAY(arena, uint32_t, count + 1);
    orr_rng rng = {20240131};
    for (size_t i = 0; i < count; i++) {
        size_t j = orr_rng_below(&rng, (uint32_t)i + 1);
        pick[i] = pick[j];
        pick[j] = (uint32_t)i;
    }
    return pick;
}

static size_t keep(const orr_fit_task *task, const uint32_t *from, size_t count, uint32_t folds,
                   uint32_t fold, bool inside, size_t most, uint32_t *out) {
    size_t used = 0;
    for (size_t i = 0; i < count && used < most; i++) {
        uint32_t block = sample_at(task, from[i])->block;
        bool here = orr_hash(&block, sizeof block) % folds == fold;
        if (here == inside) {
            out[used++] = from[i];
        }
    }
    return used;
}

/* From the starts, and from the other starts where a parameter has one: some effects are invisible
 * from where they are absent. */
static double fit_first(orr_arena *arena, const orr_fit_task *task, const uint32_t *order,
                        size_t count, void *constants) {
    void *other = orr_arena_alloc(arena, task->constants_bytes);
    memcpy(other, constants, task->constants_bytes);
    bool both = false;
    for (uint32_t i = 0; i < task->parameter_count; i++) {
        const orr_parameter *p = &task->parameter[i];
        *member(p, other) = p->other_start > 0 ? p->other_start : p->start;
        both = both || p->other_start > 0;
    }
    double cost = fit(arena, task, order, count, RESTARTS, false, constants);
    double other_cost = both ? fit(arena, task, order, count, RESTARTS, true, other) : cost;
    if (other_cost < ENOUGH * cost) {
        memcpy(constants, other, task->constants_bytes);
        return other_cost;
    }
    return cost;
}

double orr_robust_fit_most(const orr_fit_task *task, size_t most, void *constants) {
    static const size_t LEAST_FIRST = 200;
    orr_arena *scratch = orr_arena_new();
    const uint32_t *order = shuffled(scratch, task->count);
    size_t all = orr_min_u64(most, task->count);
    size_t first = orr_max_u64(LEAST_FIRST, all / 4);
    double cost = fit_first(scratch, task, order, orr_min_u64(first, all), constants);
    if (first < all) {
        cost = fit(scratch, task, order, all, RESTARTS, true, constants);
    }
    orr_arena_free(scratch);
    return cost;
}

double orr_robust_refit_most(const orr_fit_task *task, size_t most, void *constants) {
    orr_arena *scratch = orr_arena_new();
    const uint32_t *order = shuffled(scratch, task->count);
    double cost =
        fit(scratch, task, order, orr_min_u64(most, task->count), RESTARTS, true, constants);
    orr_arena_free(scratch);
    return cost;
}

orr_remainder orr_robust_remainder(const orr_fit_task *task, const void *constants,
                                   uint32_t index) {
    const orr_sample *sample = sample_at(task, index);
    double r = -log_ratio(task, constants, index) / (2 * SOFT);
    orr_remainder out = {.residual = r * (2 * SOFT),
                         .weight = sample->weight / sqrt(1 + r * r)}; /* outliers pull linearly */
    memcpy(out.place, sample->place, sizeof out.place);
    return out;
}

/* What a model leaves of the picked samples, as a surface; false: too few. */
static bool leave(orr_arena *arena, const orr_fit_task *task, const void *constants,
                  const uint32_t *pick, size_t count, orr_surface *out) {
    bool planned = task->surface != NULL && count >= task->surface->least_rows;
    if (!planned && task->remain == NULL) {
        return false;
    }
    orr_arena *scratch = orr_arena_new();
    size_t rows = count + (task->remain == NULL ? task->kin_count : 0);
    double(*place)[ORR_SURFACE_DIMS] =
        (double(*)[ORR_SURFACE_DIMS])orr_arena_array(scratch, rows, sizeof *place);
    double *residual = ORR_NEW_ARRAY(scratch, double, rows);
    double *weight = ORR_NEW_ARRAY(scratch, double, rows);
    for (size_t i = 0; i < rows; i++) {
        orr_remainder r =
            i < count ? orr_robust_remainder(task, constants, pick[i]) : task->kin[i - count];
        memcpy(place[i], r.place, sizeof *place);
        residual[i] = r.residual;
        weight[i] = r.weight;
    }
    if (task->remain != NULL) {
        task->remain(arena, task, (const double(*)[ORR_SURFACE_DIMS])place, residual, count, out);
    } else {
        orr_surface_fit(arena, task->surface, (const double(*)[ORR_SURFACE_DIMS])place, residual,
                        weight, rows, out);
    }
    orr_arena_free(scratch);
    return true;
}

bool orr_robust_surface(orr_arena *arena, const orr_fit_task *task, const void *constants,
                        orr_surface *out) {
    orr_arena *scratch = orr_arena_new();
    bool made = leave(arena, task, constants, shuffled(scratch, task->count), task->count, out);
    orr_arena_free(scratch);
    return made;
}

void orr_robust_validate(orr_arena *arena, const orr_fit_task *task, size_t most, uint32_t folds,
                         const void *constants, orr_validated *out) {
    uint32_t *order = shuffled(arena, task->count);
    uint32_t *pick = ORR_NEW_ARRAY(arena, uint32_t, task->count + 1);
    orr_left *row = ORR_NEW_ARRAY(arena, orr_left, task->count + 1);
    double *part = ORR_NEW_ARRAY(arena, double, task->count + 1);
    void *trial = orr_arena_alloc(arena, task->constants_bytes);
    orr_arena *scratch = orr_arena_new();
    size_t judged = 0;
    for (uint32_t fold = 0; fold < folds && goes_on(task); fold++) {
        memcpy(trial, constants, task->constants_bytes);
        size_t seen = keep(task, order, task->count, folds, fold, false, task->count, pick);
        (void)fit(scratch, task, pick, orr_min_u64(seen, most), FOLD_RESTARTS, true, trial);
        orr_surface surface;
        bool corrected = leave(scratch, task, trial, pick, seen, &surface);
        size_t left = keep(task, order, task->count, folds, fold, true, task->count, pick);
        for (size_t i = 0; i < left; i++) {
            const orr_sample *sample = sample_at(task, pick[i]);
            double more = corrected ? orr_surface_log(&surface, sample->place) : 0;
            row[judged++] = (orr_left){.error = exp(log_ratio(task, trial, pick[i]) + more) - 1,
                                       .place = sample->place,
                                       .block = sample->block,
                                       .training = sample->training};
        }
        orr_arena_reset(scratch);
    }
    memset(out, 0, sizeof *out);
    for (int which = 0; which < 3; which++) { /* all, training, small */
        size_t count = 0;
        for (size_t i = 0; i < judged; i++) {
            if (which == 0 || row[i].training == (which == 1)) {
                part[count++] = row[i].error;
            }
        }
        *(which == 0   ? &out->all
          : which == 1 ? &out->training
                       : &out->small) = summarise(part, count);
    }
    static const double ONE_DIMENSION[] = {8}; /* half octaves */
    bool planned = task->surface != NULL;
    orr_spread_fit(arena, row, judged, planned ? task->surface->dims : 1,
                   planned ? task->surface->step[0] : ONE_DIMENSION, &out->spread);
    orr_arena_free(scratch);
}
