/* What the fits of other devices say of an accelerator that has none.
 *
 * Siblings of an architecture agree on shape and differ in level: each alone is off by its own
 * luck, their mean by less. Between boards of one chip power decides how much of the peak is
 * reached. docs/kernels.md says how far each device is off when priced so. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "cost/calibration.h"

/* Distance between sheets that counts as none when weights are shared out. */
static const double NEAR = 0.1;

/* a/b, 1 where either is not stated */
static double ratio(double a, double b) {
    return a > 0 && b > 0 ? a / b : 1;
}

/* Inserts a relative in the order of its distance; the farthest falls out. */
static void keep(orr_relatives *out, double distance[ORR_MOST_RELATIVES], uint32_t index,
                 double far) {
    uint32_t at = out->count;
    while (at > 0 && far < distance[at - 1]) {
        at--;
    }
    if (at == ORR_MOST_RELATIVES) {
        return;
    }
    out->count += out->count < ORR_MOST_RELATIVES;
    for (uint32_t i = out->count - 1; i > at; i--) {
        out->of[i] = out->of[i - 1];
        distance[i] = distance[i - 1];
    }
    out->of[at].index = index;
    distance[at] = far;
}

/* Weights fall with the square of the distance; a surface fades out over one e-fold. */
static void share_out(orr_relatives *out, const double distance[ORR_MOST_RELATIVES]) {
    double sum = 0;
    for (uint32_t i = 0; i < out->count; i++) {
        out->of[i].weight = 1 / ((NEAR + distance[i]) * (NEAR + distance[i]));
        out->of[i].surface_frac = orr_max_f64(0, 1 - distance[i]);
        sum += out->of[i].weight;
    }
    for (uint32_t i = 0; i < out->count; i++) {
        out->of[i].weight /= sum;
    }
}

static void only(orr_relatives *out, uint32_t index, orr_kin kin, double apart_frac,
                 double surface_frac) {
    out->count = 1;
    out->kin = (uint8_t)kin;
    out->apart_frac = apart_frac;
    out->of[0].index = index;
    out->of[0].weight = 1;
    out->of[0].surface_frac = surface_frac;
}

void orr_relatives_gemm(const orr_calibration *calibration, const orr_accelerator *accelerator,
                        const char *scheme, orr_relatives *out) {
    const orr_transfer *transfer = &calibration->transfer;
    orr_kin kin = ORR_KIN_OTHER;
    const orr_gemm_fit *nearest = orr_calibration_gemm(calibration, accelerator, scheme, &kin);
    *out = (orr_relatives){.kin = (uint8_t)kin};
    if (nearest == NULL) {
        return;
    }
    if (kin != ORR_KIN_ARCH) {
        bool own = kin == ORR_KIN_SAME;
        only(out, (uint32_t)(nearest - calibration->gemm), kin,
             own ? 0 : transfer->gemm_stranger_frac, own ? 1 : 0);
        return;
    }
    double distance[ORR_MOST_RELATIVES] = {0};
    for (uint32_t i = 0; i < calibration->gemm_count; i++) {
        const orr_fit *fit = &calibration->gemm[i].fit;
        bool fits = fit->arch == accelerator->arch &&
                    strcmp(calibration->gemm[i].scheme, scheme) == 0 &&
                    (fit->rows > 0 || fit == &nearest->fit);
        if (fits) {
            keep(out, distance, i, orr_sheet_distance(accelerator, fit));
        }
    }
    share_out(out, distance);
    out->apart_frac =
        hypot(transfer->gemm_sibling_frac, transfer->gemm_distance_frac * distance[0]);
}

/* The first word: "cudnn det llama3.1" is cuDNN. */
static bool same_kernel(const char *a, const char *b) {
    size_t length = strcspn(a, " ");
    bool same = length == strcspn(b, " ");
    for (size_t i = 0; same && i < length; i++) {
        same = (a[i] | 0x20) == (b[i] | 0x20); /* letters of either case */
    }
    return same;
}

/* Of two fits that lie as near, the one with more rows. */
static double flash_apart(const orr_calibration *calibration, const orr_accelerator *accelerator,
                          const orr_flash_fit *fit, const char *kernel, const char *scheme,
                          const orr_attention_shape *shape) {
    static const double FEW_ROWS = 1e-4;
    const orr_transfer *t = &calibration->transfer;
    bool knows = shape->causal ? fit->causal_share > 0 : fit->causal_share < 1;
    return orr_device_apart(t, accelerator, &fit->fit) +
           (same_kernel(fit->kernel, kernel) ? 0 : t->kernel_frac) +
           (strcmp(fit->scheme, scheme) == 0 ? 0 : t->scheme_frac) +
           ((fit->backward != 0) == shape->backward ? 0 : t->direction_frac) +
           (knows ? 0 : t->mask_frac) + FEW_ROWS / (1 + fit->fit.rows);
}

/* Whether another device's fit is of the same kernel. */
static bool is_same_flash(const orr_flash_fit *a, const orr_flash_fit *b) {
    return a->fit.arch == b->fit.arch && a->backward == b->backward &&
           strcmp(a->kernel, b->kernel) == 0 && strcmp(a->scheme, b->scheme) == 0;
}

void orr_relatives_flash(const orr_calibration *calibration, const orr_accelerator *accelerator,
                         const char *kernel, const char *scheme, const orr_attention_shape *shape,
                         orr_relatives *out) {
    uint32_t nearest = 0;
    double least = INFINITY;
    *out = (orr_relatives){.kin = ORR_KIN_OTHER};
    for (uint32_t i = 0; i < calibration->flash_count; i++) {
        double apart =
            flash_apart(calibration, accelerator, &calibration->flash[i], kernel, scheme, shape);
        if (apart < least) {
            least = apart;
            nearest = i;
        }
    }
    if (calibration->flash_count == 0) {
        return;
    }
    const orr_flash_fit *fit = &calibration->flash[nearest];
    bool own = orr_name_equal(fit->fit.device, accelerator->name);
    bool sibling = !own && fit->fit.arch == accelerator->arch;
    bool same = same_kernel(fit->kernel, kernel) && strcmp(fit->scheme, scheme) == 0 &&
                (fit->backward != 0) == shape->backward;
    if (!sibling || !same) {
        double apart = own && same ? 0 : least;
        only(out, nearest,
             own       ? ORR_KIN_SAME
             : sibling ? ORR_KIN_ARCH
                       : ORR_KIN_OTHER,
             apart, own && same ? 1 : 0);
        return;
    }
    double distance[ORR_MOST_RELATIVES] = {0};
    for (uint32_t i = 0; i < calibration->flash_count; i++) {
        if (is_same_flash(&calibration->flash[i], fit)) {
            keep(out, distance, i, orr_sheet_distance(accelerator, &calibration->flash[i].fit));
        }
    }
    share_out(out, distance);
    out->kin = ORR_KIN_ARCH;
    out->apart_frac = least;
}

/* How much more of its peak a board reaches that has more power for it. */
static double power_gain(const orr_transfer *transfer, const orr_fit *fit,
                         const orr_accelerator *accelerator, double peak_flops) {
    double watts = ratio(accelerator->tdp_w, fit->tdp_w);
    return pow(watts / ratio(peak_flops, fit->peak_flops), transfer->power);
}

orr_gemm_constants orr_gemm_borrow(const orr_transfer *transfer, const orr_gemm_fit *fit,
                                   const orr_accelerator *accelerator) {
    if (orr_name_equal(fit->fit.device, accelerator->name)) {
        return fit->constants;
    }
    orr_machine machine = orr_scheme_machine(accelerator, fit->scheme, (orr_dtype)fit->dtype);
    orr_gemm_constants c = orr_gemm_transfer(fit, accelerator);
    if (fit->fit.arch == accelerator->arch) {
        double own = fit->dtype == ORR_BF16 ? fit->fit.peak_flops : fit->fit.bf16_flops;
        double bf16 = ratio(accelerator->peak_flops[ORR_BF16], own);
        c.unit_Bps = fit->constants.unit_Bps * bf16 * fit->fit.units / accelerator->units;
        c.efficiency *= power_gain(transfer, &fit->fit, accelerator, machine.peak_flops);
    }
    return c;
}

orr_flash_constants orr_flash_borrow(const orr_transfer *transfer, const orr_flash_fit *fit,
                                     const orr_accelerator *accelerator) {
    orr_flash_constants c = fit->constants;
    if (orr_name_equal(fit->fit.device, accelerator->name)) {
        return c;
    }
    c.block_s /= ratio(accelerator->exp_per_clock, fit->fit.exp_per_clock);
    double peak = orr_machine_of(accelerator, ORR_BF16).peak_flops;
    double gain = power_gain(transfer, &fit->fit, accelerator, peak);
    for (int i = 0; i < ORR_FLASH_WIDTHS; i++) {
        c.efficiency[i] *= gain;
    }
    return c;
}
