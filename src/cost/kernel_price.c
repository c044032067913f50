#include "cost/kernel_price.h"

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "cost/cost_int.h"

static double root_sum(double a, double b) {
    return sqrt(a * a + b * b);
}

orr_accelerator *orr_kernel_accelerator(orr_kernel_pricer *pricer, const char *name) {
    for (uint32_t i = 0; i < pricer->count; i++) {
        if (strcmp(pricer->device[i].name, name) == 0) {
            pricer->now = pricer->device[i].calibration;
            return pricer->device[i].accelerator;
        }
    }
    orr_accelerator *found = orr_calibration_device(pricer->arena, pricer->calibration, name);
    pricer->now = pricer->calibration;
    if (pricer->leave_out && found != NULL) {
        pricer->now = orr_calibration_without(pricer->arena, pricer->calibration, found->name);
    }
    if (pricer->count < sizeof pricer->device / sizeof *pricer->device) {
        pricer->device[pricer->count].name = orr_arena_text(pricer->arena, name);
        pricer->device[pricer->count].calibration = pricer->now;
        pricer->device[pricer->count++].accelerator = found;
    }
    return found;
}

/* A GEMM's constants for an accelerator, and how far to trust them. */
static const orr_gemm_fit *gemm_fit(const orr_kernel_pricer *pricer, const orr_accelerator *a,
                                    const char *scheme, bool training, orr_gemm_constants *c,
                                    double *relerr) {
    static const double KIN[] = {0, 0.06, 0.30};
    orr_kin kin = ORR_KIN_OTHER;
    const orr_gemm_fit *fit = orr_calibration_gemm(pricer->now, a, scheme, &kin);
    if (strcmp(scheme, "fp16") == 0) { /* the same units: a nearer bf16 fit is better */
        orr_kin other = ORR_KIN_OTHER;
        const orr_gemm_fit *bf16 = orr_calibration_gemm(pricer->now, a, "bf16", &other);
        if (fit == NULL || other < kin) {
            fit = bf16;
            kin = other;
        }
    } else if (strcmp(scheme, "bf16") != 0 && kin == ORR_KIN_OTHER) {
        return NULL; /* another architecture's low precision says nothing */
    }
    if (fit != NULL) {
        *c = orr_gemm_transfer(fit, a);
        double own = training ? fit->fit.error_training_frac : fit->fit.error_small_frac;
        *relerr = root_sum(own, KIN[kin]);
    }
    return fit;
}

static bool price_gemm(orr_kernel_pricer *pricer, const orr_accelerator *a,
                       const orr_kernel_row *row, double *time, double *relerr) {
    orr_gemm_constants c;
    const orr_gemm_fit *fit = gemm_fit(pricer, a, row->dtype, row->training, &c, relerr);
    if (fit == NULL) {
        return false;
    }
    orr_machine machine = orr_scheme_machine(a, fit->scheme, (orr_dtype)fit->dtype);
    orr_gemm_shape shape = {.m = row->shape.gemm.m,
                            .n = row->shape.gemm.n,
                            .k = row->shape.gemm.k,
                            .batch = row->shape.gemm.batch,
                            .in_bytes = orr_stored_bytes((orr_dtype)fit->dtype),
                            .out_bytes = row->shape.gemm.accumulates ? 8 : 2};
    double place[ORR_SURFACE_DIMS];
    orr_gemm_place(&shape, place);
    bool own = orr_name_equal(fit->fit.device, a->name);
    *time = orr_gemm_time_s(&c, &machine, &shape, ORR_POWER_BENCHMARK) *
            orr_surface_factor(own ? fit->fit.surface : NULL, place);
    return true;
}

static bool price_experts(orr_kernel_pricer *pricer, orr_kernel_class class,
                          const orr_accelerator *a, const orr_kernel_row *row, double *time,
                          double *relerr) {
    double apart = 0;
    orr_dtype dtype = ORR_BF16;
    const orr_experts_fit *fit =
        orr_calibration_experts(pricer->now, a, row->kernel, row->dtype, &apart);
    if (fit == NULL || !orr_scheme_dtype(row->dtype, &dtype)) {
        return false;
    }
    orr_machine machine = orr_scheme_machine(a, row->dtype, dtype);
    orr_experts_shape shape = orr_kernel_experts(row, class, orr_stored_bytes(dtype));
    double place[ORR_SURFACE_DIMS];
    orr_experts_place(&shape, place);
    *time = orr_experts_time_s(&fit->constants, &machine, &shape) *
            orr_surface_factor(apart > 0 ? NULL : fit->fit.surface, place);
    *relerr =
        root_sum(row->training ? fit->fit.error_training_frac : fit->fit.error_small_frac, apart);
    return true;
}

static bool price_exchange(orr_kernel_pricer *pricer, const orr_accelerator *a,
                           const orr_kernel_row *row, double *time, double *relerr) {
    double apart = 0;
    orr_exchange_shape shape = orr_kernel_exchange(row);
    const orr_exchange_fit *fit = orr_calibration_exchange(
        pricer->now, a, row->kernel, shape.nodes > 1 ? "across" : "inside", &apart);
    if (fit == NULL) {
        return false;
    }
    double place[ORR_SURFACE_DIMS];
    orr_exchange_place(&shape, place);
    *time = orr_exchange_time_s(&fit->constants, &shape) *
            orr_surface_factor(apart > 0 ? NULL : fit->fit.surface, place);
    *relerr =
        root_sum(row->training ? fit->fit.error_training_frac : fit->fit.error_small_frac, apart);
    return true;
}

static bool price_one_attention(orr_kernel_pricer *pricer, const orr_accelerator *a,
                                const orr_kernel_row *row, bool backward, double *time,
                                double *relerr) {
    double apart = 0;
    const orr_flash_fit *fit =
        orr_calibration_flash(pricer->now, a, row->kernel, row->dtype, backward, &apart);
    if (fit == NULL) {
        return false;
    }
    orr_attention_shape shape = row->shape.attention;
    shape.backward = backward;
    orr_machine machine = orr_machine_of(a, ORR_BF16);
    double place[ORR_SURFACE_DIMS];
    orr_attention_place(&shape, place);
    *time = orr_flash_time_s(&fit->constants, &machine, &shape) *
            orr_surface_factor(apart > 0 ? NULL : fit->fit.surface, place);
    if (backward && !fit->backward) {
        static const double BACKWARD_FRAC = 0.85; /* efficiency of a backward by its forward */
        *time /= BACKWARD_FRAC;
    }
    *relerr =
        root_sum(row->training ? fit->fit.error_training_frac : fit->fit.error_small_frac, apart);
    return true;
}

static bool price_attention(orr_kernel_pricer *pricer, const orr_accelerator *a,
                            const orr_kernel_row *row, double *time, double *relerr) {
    if (row->stage != ORR_STAGE_BOTH) {
        return price_one_attention(pricer, a, row, row->stage == ORR_STAGE_BACKWARD, time, relerr);
    }
    double backward = 0;
    bool good = price_one_attention(pricer, a, row, false, time, relerr) &&
                price_one_attention(pricer, a, row, true, &backward, relerr);
    *time += backward;
    return good;
}

static bool price_memop(orr_kernel_pricer *pricer, const orr_accelerator *a,
                        const orr_kernel_row *row, double *time, double *relerr) {
    double apart = 0;
    const orr_stream_fit *fit = orr_calibration_stream(pricer->now, a, row->kernel, &apart);
    if (fit == NULL) {
        return false;
    }
    orr_machine machine = orr_machine_of(a, ORR_BF16);
    double bytes = row->shape.memop.bytes, rows = row->shape.memop.rows;
    double place[ORR_SURFACE_DIMS];
    orr_stream_place(bytes, rows, place);
    *time = orr_stream_time_s(&fit->constants, &machine, bytes, rows) *
            orr_surface_factor(apart > 0 ? NULL : fit->fit.surface, place);
    *relerr =
        root_sum(row->training ? fit->fit.error_training_frac : fit->fit.error_small_frac, apart);
    return true;
}

static bool price_collective(orr_kernel_pricer *pricer, const orr_accelerator *a,
                             const orr_kernel_row *row, double *time, double *relerr) {
    const orr_collective_ask ask = {.accelerator = a,
                                    .site = row->device,
                                    .library = row->kernel,
                                    .op = (orr_collective)row->shape.collective.op,
                                    .ranks = row->shape.collective.ranks,
                                    .nodes = row->shape.collective.nodes};
    return orr_collective_price(pricer->now, &ask, row->shape.collective.bytes, time, relerr);
}

bool orr_kernel_price(orr_kernel_pricer *pricer, orr_kernel_class class, const orr_kernel_row *row,
                      double *time_s, double *relerr_frac) {
    const orr_accelerator *a = orr_kernel_accelerator(pricer, row->device);
    if (a == NULL) {
        return false;
    }
    switch (class) {
    case ORR_KERNELS_GEMM: return price_gemm(pricer, a, row, time_s, relerr_frac);
    case ORR_KERNELS_GROUPED_GEMM:
    case ORR_KERNELS_MOE_FUSED: return price_experts(pricer, class, a, row, time_s, relerr_frac);
    case ORR_KERNELS_ATTENTION: return price_attention(pricer, a, row, time_s, relerr_frac);
    case ORR_KERNELS_MEMOPS: return price_memop(pricer, a, row, time_s, relerr_frac);
    case ORR_KERNELS_COLLECTIVES: return price_collective(pricer, a, row, time_s, relerr_frac);
    case ORR_KERNELS_EP_ALLTOALL: return price_exchange(pricer, a, row, time_s, relerr_frac);
    case ORR_KERNELS_COUNT: break;
    }
    return false;
}
