/* Robust least squares of a kernel model on measured times, and its error on rows left out.
 *
 * Residuals are ln(model / measured), softened so that outliers pull linearly (soft L1). Parameters
 * are transformed to the real line, so that cminpack's Levenberg-Marquardt needs no bounds, and are
 * pulled weakly towards their starts, so that what the data does not decide stays sensible. */
#ifndef ORR_CALIBRATE_ROBUST_H
#define ORR_CALIBRATE_ROBUST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "calibrate/spread.h"
#include "calibrate/surface.h"

typedef enum orr_scale {
    ORR_SCALE_LOG = 0, /* positive; its logarithm is free */
    ORR_SCALE_SHARE    /* between low and high, through a logistic curve */
} orr_scale;

typedef struct orr_parameter {
    const char *name;
    size_t offset; /* of its double in the constants */
    double start, low, high;
    double pull; /* weight of (value - start) among the residuals, in transformed units */
    orr_scale scale;
    double other_start; /* tried as well where not 0; the better fit stands */
} orr_parameter;

/* Head of every class's sample. */
typedef struct orr_sample {
    double time_s;
    double weight;
    uint32_t block; /* rows of one block are left out together */
    bool training;
    double place[ORR_SURFACE_DIMS]; /* for a surface; see cost/surface.h */
} orr_sample;

/* ln(measured / modelled) of a row under a fit of its own. */
typedef struct orr_remainder {
    double place[ORR_SURFACE_DIMS];
    double residual, weight;
} orr_remainder;

enum { ORR_MAX_PARAMETERS = 48 };

typedef struct orr_fit_task {
    const orr_parameter *parameter;
    uint32_t parameter_count;
    size_t constants_bytes;
    const void *sample; /* count of sample_bytes, each beginning with orr_sample */
    size_t sample_bytes, count;
    /* time of a sample under constants */
    double (*model)(const void *constants, const void *sample, const void *user);
    const void *user;
    bool (*go_on)(const void *watcher); /* asked often; false: end, with whatever there is */
    const void *watcher;
    const orr_surface_plan *surface; /* NULL: none is fitted, places are of one dimension */
    const orr_remainder *kin;        /* of relatives, for the surface to learn from as well */
    size_t kin_count;
    /* In place of a surface by that plan: what the model leaves of some samples. NULL: as planned
     */
    void (*remain)(orr_arena *arena, const struct orr_fit_task *task,
                   const double (*place)[ORR_SURFACE_DIMS], const double *residual, size_t count,
                   orr_surface *out);
} orr_fit_task;

typedef struct orr_errors {
    uint32_t rows;
    double mape, median, p90, bias;
} orr_errors;

/* Fits a seeded choice of at most `most` of all samples, a quarter of them first. `constants` holds
 * values of fixed members on entry and everything on return; parameters begin at their starts.
 * Returns the mean softened cost. */
double orr_robust_fit_most(const orr_fit_task *task, size_t most, void *constants);
/* Goes on from where the constants stand. */
double orr_robust_refit_most(const orr_fit_task *task, size_t most, void *constants);
/* What constants leave of sample `index`. */
orr_remainder orr_robust_remainder(const orr_fit_task *task, const void *constants, uint32_t index);
/* The surface that remains after constants; false where the task wants none or has too few rows. */
bool orr_robust_surface(orr_arena *arena, const orr_fit_task *task, const void *constants,
                        orr_surface *out);

/* Judges the task by leaving out blocks, `folds` times: errors are of rows that the fit behind them
 * (constants, begun at those given, and surface) did not see. */
typedef struct orr_validated {
    orr_errors all, training, small;
    orr_spread spread;
} orr_validated;
void orr_robust_validate(orr_arena *arena, const orr_fit_task *task, size_t most, uint32_t folds,
                         const void *constants, orr_validated *out);

#endif
