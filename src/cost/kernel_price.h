/* Prices of single measured kernels, in the state that benchmarks run them in. */
#ifndef ORR_COST_KERNEL_PRICE_H
#define ORR_COST_KERNEL_PRICE_H

#include "cost/calibration.h"
#include "cost/kernel_rows.h"

/* Accelerators by name, looked up once. */
typedef struct orr_kernel_pricer {
    orr_arena *arena;
    const orr_calibration *calibration;
    uint32_t count;
    struct {
        const char *name;
        orr_accelerator *accelerator; /* NULL: unknown */
    } device[256];
} orr_kernel_pricer;

/* False when the device or the kind of kernel is unknown. relerr: one sd, relative. */
bool orr_kernel_price(orr_kernel_pricer *pricer, orr_kernel_class class, const orr_kernel_row *row,
                      double *time_s, double *relerr_frac);

#endif
