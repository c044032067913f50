/* What measured times say beyond a model along one size, from the rows of one set and of its
 * relatives: regression by a Gaussian process (kriging).
 *
 * Libraries switch protocols and channels at sizes of their own, and take them alike on relatives:
 * the same version on another device of the architecture, another version on the same device. A
 * size that one set lacks is filled from those that have it, as far as they are alike elsewhere. */
#ifndef ORR_CALIBRATE_KRIGING_H
#define ORR_CALIBRATE_KRIGING_H

#include "base/arena.h"
#include "cost/surface.h"

/* Standard deviations of ln(measured / modelled), and the octaves over which they fade. */
typedef struct orr_kriging {
    double smooth, smooth_octaves; /* shared with relatives */
    double rough, rough_octaves;   /* shared with relatives: a switch of protocol */
    double own, own_octaves;       /* of one set alone */
    double level;                  /* of one set alone, at all sizes */
    double noise;
} orr_kriging;

typedef struct orr_krige_row {
    double octaves;  /* log2 of the size */
    double residual; /* ln(measured / modelled) */
    uint32_t set;
} orr_krige_row;

enum { ORR_KRIGE_MOST_ROWS = 400 };

/* A table over half octaves of what is expected of set `own`, between the least and the greatest
 * size of any row. alike: likeness of two sets, 1 for the same one, 0: nothing in common. Rows
 * beyond ORR_KRIGE_MOST_ROWS are not looked at. */
void orr_krige(orr_arena *arena, const orr_kriging *plan, const orr_krige_row *row, size_t count,
               uint32_t own, double (*alike)(const void *user, uint32_t a, uint32_t b),
               const void *user, orr_surface *out);

#endif
