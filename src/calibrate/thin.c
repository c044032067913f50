#include "calibrate/thin.h"

#include <math.h>
#include <string.h>

static const double FEW_ROWS = 200;     /* with fewer a bin looks at its relatives */
static const double HALF_TRUST = 50;    /* rows of a relative that count half */
static const double START_WEIGHT = 0.1; /* of the textbook start beside relatives */

static double value_of(const void *constants, const orr_parameter *parameter) {
    return *(const double *)(const void *)((const char *)constants + parameter->offset);
}

/* Falls by e with each of device, architecture and scheme that differs. */
static double trust(const orr_bin *bin, const orr_bin *other) {
    const orr_accelerator *a = bin->accelerator, *b = other->accelerator;
    if (a->vendor != b->vendor || strcmp(bin->kernel, other->kernel) != 0) {
        return 0;
    }
    int apart = (a != b) + (a->arch != b->arch) + (strcmp(bin->scheme, other->scheme) != 0);
    double rows = (double)other->count;
    return rows / (rows + HALF_TRUST) * exp(-apart);
}

/* Starts of bin `own` from the fits that the others have alone. */
static void start_from_relatives(const orr_bins *bins, const orr_bin_fit *fit, void *const *alone,
                                 uint32_t own, orr_parameter *out) {
    const orr_bin_fit *f = &fit[own];
    for (uint32_t p = 0; p < f->task.parameter_count; p++) {
        double weight = START_WEIGHT, sum = START_WEIGHT * log(f->parameter[p].start);
        for (uint32_t i = 0; i < bins->count; i++) {
            if (i != own && fit[i].task.count > 0) {
                double w = trust(&bins->bin[own], &bins->bin[i]);
                sum += w * log(value_of(alone[i], &f->parameter[p]));
                weight += w;
            }
        }
        out[p] = f->parameter[p];
        out[p].start = exp(sum / weight);
        out[p].other_start = 0; /* relatives have chosen */
    }
}

/* From where the bin stands alone and from its relatives; the better stands. */
static void fit_anew(orr_bin_fit *fit, size_t most, const void *alone, void *trial) {
    const size_t bytes = fit->task.constants_bytes;
    memcpy(trial, alone, bytes);
    memcpy(fit->constants, alone, bytes);
    double from_alone = orr_robust_refit_most(&fit->task, most, trial);
    double from_relatives = orr_robust_fit_most(&fit->task, most, fit->constants);
    if (from_alone < from_relatives) {
        memcpy(fit->constants, trial, bytes);
    }
}

void orr_fit_with_relatives(const orr_bins *bins, orr_bin_fit *fit, size_t most) {
    void **alone = ORR_NEW_ARRAY(bins->arena, void *, bins->count + 1);
    for (uint32_t i = 0; i < bins->count; i++) {
        if (fit[i].task.count > 0) {
            (void)orr_robust_fit_most(&fit[i].task, most, fit[i].constants);
            alone[i] = orr_arena_alloc(bins->arena, fit[i].task.constants_bytes);
            memcpy(alone[i], fit[i].constants, fit[i].task.constants_bytes);
        }
    }
    for (uint32_t i = 0; i < bins->count; i++) {
        if (fit[i].task.count > 0 && (double)fit[i].task.count < FEW_ROWS) {
            orr_parameter started[ORR_MAX_PARAMETERS];
            start_from_relatives(bins, fit, alone, i, started);
            memcpy(fit[i].parameter, started, fit[i].task.parameter_count * sizeof *started);
            fit_anew(&fit[i], most, alone[i],
                     orr_arena_alloc(bins->arena, fit[i].task.constants_bytes));
        }
    }
}
