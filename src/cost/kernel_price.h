/* Prices of single measured kernels, in the state that benchmarks run them in. */
#ifndef ORR_COST_KERNEL_PRICE_H
#define ORR_COST_KERNEL_PRICE_H

#include "cost/calibration.h"
#include "cost/cost.h"
#include "cost/kernel_rows.h"

/* Accelerators by name, looked up once. */
typedef struct orr_kernel_pricer {
    orr_arena *arena;
    const orr_calibration *calibration;
    bool leave_out; /* price each device without its own fits */
    bool systems;   /* names are of systems, which say more than the accelerator */
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

/* Why a row has no price. */
typedef enum orr_kernel_gap {
    ORR_GAP_NONE = 0,
    ORR_GAP_SHAPE,  /* the row does not say what is needed */
    ORR_GAP_DEVICE, /* unknown */
    ORR_GAP_FORMAT, /* no fit of this numeric format there, or on a sibling */
    ORR_GAP_FABRIC, /* between nodes of a system without a fit */
    ORR_GAP_MODEL,  /* nothing was fitted to this kind of kernel */
    ORR_GAP_RANGE,  /* beyond what numbers hold */
    ORR_GAP_TIME,   /* priced, but the row states no time to compare with */
    ORR_GAP_COUNT
} orr_kernel_gap;
const char *orr_kernel_gap_text(orr_kernel_gap gap);

/* exchange_steps.c: measured combines beside what a step would pay for them. */
typedef struct orr_exchange_steps orr_exchange_steps;
orr_exchange_steps *orr_exchange_steps_new(orr_arena *arena);
void orr_exchange_steps_add(orr_exchange_steps *steps, orr_kernel_pricer *pricer,
                            const orr_kernel_row *row);
/* A list of {device, ranks, nodes, few_choices, rows, log_mean, log_rms}: of measured time over
 * price. */
orr_tree *orr_exchange_steps_write(const orr_exchange_steps *steps);

/* library.c: the kernel that a row is priced by, attention's or a memory-bound op's: of the library
 * that is asked for, else of the usual one. fit NULL: no table measures it on this accelerator or a
 * sibling. */
typedef struct orr_library_fit {
    const char *kernel;
    const orr_fit *fit;
    double start_s; /* the host's floor of every call */
    bool turned;    /* of the other direction */
} orr_library_fit;
orr_status orr_library_choose(orr_arena *arena, const orr_calibration *calibration,
                              const orr_accelerator *accelerator, orr_kernel_class class,
                              const orr_cost_ask *ask, orr_kernel_row *row, orr_library_fit *out,
                              orr_err *err);

/* ORR_GAP_NONE when priced: a positive time. relerr: one sd, relative. */
orr_kernel_gap orr_kernel_price(orr_kernel_pricer *pricer, orr_kernel_class class,
                                const orr_kernel_row *row, double *time_s, double *relerr_frac);

#endif
