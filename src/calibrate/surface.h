/* Fitting surfaces: see cost/surface.h. */
#ifndef ORR_CALIBRATE_SURFACE_H
#define ORR_CALIBRATE_SURFACE_H

#include "cost/surface.h"

/* What a class gives its surfaces. */
typedef struct orr_surface_plan {
    uint32_t dims;
    /* octaves between cells, whole numbers; 0: no such level, nor further ones */
    double step[ORR_SURFACE_LEVELS][ORR_SURFACE_DIMS];
    double pull[ORR_SURFACE_LEVELS]; /* rows that speak for no correction, in every cell */
    uint32_t least_rows;
} orr_surface_plan;

/* Fits the levels one after another, each to what those before leave, by damped averages around
 * each cell. place: [count][ORR_SURFACE_DIMS]. */
void orr_surface_fit(orr_arena *arena, const orr_surface_plan *plan,
                     const double (*place)[ORR_SURFACE_DIMS], const double *residual,
                     const double *weight, size_t count, orr_surface *out);

#endif
