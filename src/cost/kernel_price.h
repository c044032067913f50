/* Prices of single measured kernels, in the state that benchmarks run them in. */
#ifndef ORR_COST_KERNEL_PRICE_H
#define ORR_COST_KERNEL_PRICE_H

#include "cost/calibration.h"
#include "cost/kernel_rows.h"

/* Accelerators by name, looked up once. */
typedef struct orr_kernel_pricer {
    orr_arena *arena;
    const orr_calibration *calibration;
    bool leave_out; /* price each device without its own fits */
    uint32_t count;
    struct {
        const char *name;
        orr_accelerator *accelerator; /* NULL: unknown */
        const orr_calibration *calibration;
    } device[256];
    const orr_calibration *now; /* of the device being priced */
} orr_kernel_pricer;

/* The accelerator that a name in a table stands for; NULL: unknown. Its calibration becomes `now`.
 */
orr_accelerator *orr_kernel_accelerator(orr_kernel_pricer *pricer, const char *name);

/* False when the device or the kind of kernel is unknown. relerr: one sd, relative. */
bool orr_kernel_price(orr_kernel_pricer *pricer, orr_kernel_class class, const orr_kernel_row *row,
                      double *time_s, double *relerr_frac);

#endif
