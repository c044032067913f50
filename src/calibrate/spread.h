/* How sure a fit is, over the space of shapes, from rows left out of it. */
#ifndef ORR_CALIBRATE_SPREAD_H
#define ORR_CALIBRATE_SPREAD_H

#include <stdbool.h>
#include <stddef.h>

#include "calibrate/surface.h"
#include "cost/calibration.h"

/* A row that a fit has not seen: (fitted - measured) / measured, and where it lies. */
typedef struct orr_left {
    double error;
    const double *place; /* [ORR_SURFACE_DIMS] */
    uint32_t block;      /* rows of one block are left out together */
    bool training;
} orr_left;
typedef struct orr_spread {
    double small_frac, training_frac; /* one sd, at a factor of 1; 0: no such rows */
    bool has_surface;
    orr_surface surface; /* ln of the factor */
    orr_cover cover;
} orr_spread;
/* dims and the coarsest steps as of the class's surface plan: cells are twice as large. */
void orr_spread_fit(orr_arena *arena, const orr_left *left, size_t count, uint32_t dims,
                    const double *step, orr_spread *out);

#endif
