/* Fits of bins with few rows, which begin at what their relatives found. */
#ifndef ORR_CALIBRATE_THIN_H
#define ORR_CALIBRATE_THIN_H

#include "calibrate/calibrate_int.h"

/* The fit of one bin; its task points into it. */
typedef struct orr_bin_fit {
    orr_parameter parameter[ORR_MAX_PARAMETERS];
    orr_fit_task task; /* no samples: the bin has too few rows for a fit */
    void *constants;
} orr_bin_fit;

/* Fits each bin alone, then those with few rows anew: their parameters start at, and are pulled
 * towards, the mean of what the same kernel has on other devices and under other schemes, the
 * textbook start among them. fit: one for each bin, tasks of the same parameters. */
void orr_fit_with_relatives(const orr_bins *bins, orr_bin_fit *fit, size_t most);

#endif
