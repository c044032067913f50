/* What the fits of other devices say of an accelerator that has none.
 *
 * Siblings of an architecture agree on shape and differ in level: each alone is off by its own
 * luck, their mean by less. Between boards of one chip power decides how much of the peak is
 * reached. docs/kernels.md says how far each device is off when priced so. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "cost/calibration_int.h"

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

static double siblings_apart(const orr_transfer *transfer, double nearest) {
    return hypot(transfer->sibling_frac, transfer->distance_frac * nearest);
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
    out->apart_frac = siblings_apart(transfer, distance[0]);
}

/* Siblings' surfaces hold for the same kernel; apart_frac is what differs beside the device. */
static void settle_siblings(const orr_transfer *transfer, bool same, double nearest,
                            orr_relatives *out) {
    out->apart_frac = same ? hypot(out->apart_frac, siblings_apart(transfer, nearest))
                           : out->apart_frac + transfer->device_frac;
    for (uint32_t i = 0; i < out->count; i++) {
        out->of[i].surface_frac *= same ? 1 : 0;
    }
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

/* Another width of elements runs at another rate, of which kernels gain about half: cuDNN in 8
 * bits 1.5 of 2 times, and nothing in some backwards. */
static double scheme_apart(const orr_transfer *transfer, const char *a, const char *b) {
    orr_dtype of_a = ORR_BF16, of_b = ORR_BF16;
    if (strcmp(a, b) == 0) {
        return 0;
    }
    if (!orr_scheme_dtype(a, &of_a) || !orr_scheme_dtype(b, &of_b)) {
        return transfer->scheme_frac;
    }
    double widths = ratio(orr_dtype_bytes(of_a), orr_dtype_bytes(of_b));
    return transfer->scheme_frac + fabs(log(widths)) / 2;
}

static double flash_apart(const orr_calibration *calibration, const orr_accelerator *accelerator,
                          const orr_flash_fit *fit, const char *kernel, const char *scheme,
                          const orr_attention_shape *shape) {
    const orr_transfer *t = &calibration->transfer;
    bool wide =
        fit->constants.efficiency[orr_flash_width((shape->head_dim + shape->v_dim) / 2)] > 0;
    bool knows = shape->causal ? fit->causal_share > 0 : fit->causal_share < 1;
    return orr_device_apart(t, accelerator, &fit->fit) +
           (same_kernel(fit->kernel, kernel) ? 0 : t->kernel_frac) +
           scheme_apart(t, fit->scheme, scheme) +
           ((fit->backward != 0) == shape->backward ? 0 : t->direction_frac) +
           (knows ? 0 : t->mask_frac) + (wide ? 0 : t->width_frac);
}

/* Whether another device's fit is of the same kernel. */
static bool is_same_flash(const orr_flash_fit *a, const orr_flash_fit *b) {
    return a->fit.arch == b->fit.arch && a->backward == b->backward &&
           strcmp(a->kernel, b->kernel) == 0 && strcmp(a->scheme, b->scheme) == 0;
}

static bool is_kernel(const orr_flash_fit *fit, const char *kernel, const char *scheme,
                      const orr_attention_shape *shape) {
    return same_kernel(fit->kernel, kernel) && strcmp(fit->scheme, scheme) == 0 &&
           (fit->backward != 0) == shape->backward;
}

/* A fit that is far off by itself, or of a few rows, says little of other devices. */
static double fit_doubt(const orr_fit *fit) {
    static const double ROW = 0.5; /* what a single row would leave open */
    return hypot(fit->error_training_frac, ROW / sqrt(1.0 + fit->rows));
}

static bool is_own(const orr_accelerator *accelerator, const orr_flash_fit *fit, const char *kernel,
                   const char *scheme, const orr_attention_shape *shape) {
    return orr_name_equal(fit->fit.device, accelerator->name) &&
           is_kernel(fit, kernel, scheme, shape);
}

double orr_flash_doubt(const orr_calibration *calibration, const orr_accelerator *accelerator,
                       const orr_flash_fit *fit, const char *scheme,
                       const orr_attention_shape *shape) {
    double apart = flash_apart(calibration, accelerator, fit, fit->kernel, scheme, shape);
    return hypot(apart, fit_doubt(&fit->fit));
}

/* The fit that stands for a kernel, which siblings' fits of the same are asked beside. */
static void flash_relatives_of(const orr_calibration *calibration,
                               const orr_accelerator *accelerator, const orr_flash_fit *fit,
                               const char *kernel, const char *scheme,
                               const orr_attention_shape *shape, orr_relatives *out) {
    double apart_frac = flash_apart(calibration, accelerator, fit, kernel, scheme, shape);
    bool own = orr_name_equal(fit->fit.device, accelerator->name);
    bool same = is_kernel(fit, kernel, scheme, shape);
    if (own || fit->fit.arch != accelerator->arch) {
        only(out, (uint32_t)(fit - calibration->flash), own ? ORR_KIN_SAME : ORR_KIN_OTHER,
             own && same ? 0 : apart_frac, own && same ? 1 : 0);
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
    /* what else differs than the device */
    out->apart_frac = apart_frac - orr_device_apart(&calibration->transfer, accelerator, &fit->fit);
    settle_siblings(&calibration->transfer, same, distance[0], out);
}

void orr_relatives_flash(const orr_calibration *calibration, const orr_accelerator *accelerator,
                         const char *kernel, const char *scheme, const orr_attention_shape *shape,
                         orr_relatives *out) {
    const orr_flash_fit *fit = NULL;
    double least = INFINITY;
    *out = (orr_relatives){.kin = ORR_KIN_OTHER};
    for (uint32_t i = 0; i < calibration->flash_count; i++) {
        const orr_flash_fit *one = &calibration->flash[i];
        double apart = flash_apart(calibration, accelerator, one, kernel, scheme, shape);
        double doubt = is_own(accelerator, one, kernel, scheme, shape)
                           ? apart
                           : hypot(apart, fit_doubt(&one->fit));
        if (doubt < least) {
            least = doubt;
            fit = one;
        }
    }
    if (fit != NULL) {
        flash_relatives_of(calibration, accelerator, fit, kernel, scheme, shape, out);
    }
}

void orr_relatives_flash_of(const orr_calibration *calibration, const orr_accelerator *accelerator,
                            uint32_t index, const char *scheme, const orr_attention_shape *shape,
                            orr_relatives *out) {
    const orr_flash_fit *fit = &calibration->flash[index];
    *out = (orr_relatives){.kin = ORR_KIN_OTHER};
    flash_relatives_of(calibration, accelerator, fit, fit->kernel, scheme, shape, out);
}

/* ---- kernels that differ by library and scheme alone ---------------------------------------- */

typedef struct candidate {
    const orr_fit *fit;
    const char *kernel, *scheme; /* scheme NULL: none */
} candidate;

static candidate candidate_at(const orr_fit_list *list, const orr_calibration *calibration,
                              uint32_t index) {
    const orr_fit *fit = orr_fit_at(list, calibration, index);
    if (fit == (const void *)&calibration->experts[index]) {
        return (candidate){fit, calibration->experts[index].kernel,
                           calibration->experts[index].scheme};
    }
    if (fit == (const void *)&calibration->exchange[index]) {
        return (candidate){fit, calibration->exchange[index].kernel,
                           calibration->exchange[index].scheme};
    }
    return (candidate){fit, calibration->stream[index].kernel, NULL};
}

/* What streams goes through caches too; what moves tokens are links and how many they join. */
static double kernel_distance(const char *class, const orr_accelerator *accelerator,
                              const orr_fit *fit) {
    if (strcmp(class, "memops") == 0) {
        return orr_sheet_distance(accelerator, fit) +
               fabs(log(ratio(accelerator->l2_bytes, fit->l2_bytes)));
    }
    if (strcmp(class, "ep_alltoall") != 0) {
        return orr_sheet_distance(accelerator, fit);
    }
    return fabs(log(ratio(accelerator->link_Bps, fit->scale_up_Bps))) +
           fabs(log(ratio(accelerator->domain, fit->domain)));
}

/* Whether tokens take NICs: between hosts that no rack's links join. */
static bool takes_nics(const char *scheme, double domain, double node) {
    return scheme != NULL && strcmp(scheme, "across") == 0 && domain <= node;
}

static bool same_text(const char *a, const char *b) {
    return a == NULL || b == NULL || strcmp(a, b) == 0;
}

void orr_relatives_kernel(const orr_calibration *calibration, const orr_accelerator *accelerator,
                          const char *class, const char *kernel, const char *scheme,
                          orr_relatives *out) {
    const orr_transfer *t = &calibration->transfer;
    const orr_fit_list *list = orr_fit_list_of(class);
    uint32_t count = orr_fit_count(list, calibration);
    /* kernels of a list without schemes do different things */
    double kernel_frac = scheme == NULL ? 2 * t->kernel_frac : t->kernel_frac;
    bool nics = takes_nics(scheme, accelerator->domain, accelerator->node);
    uint32_t nearest = 0;
    double least = INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        candidate c = candidate_at(list, calibration, i);
        double apart =
            orr_device_apart(t, accelerator, c.fit) +
            (same_text(c.kernel, kernel) ? 0 : kernel_frac) +
            (same_text(c.scheme, scheme) ? 0 : t->scheme_frac) +
            (takes_nics(c.scheme, c.fit->domain, c.fit->node) == nics ? 0 : t->arch_frac);
        if (apart < least) {
            least = apart;
            nearest = i;
        }
    }
    *out = (orr_relatives){.kin = ORR_KIN_OTHER};
    if (count == 0) {
        return;
    }
    candidate best = candidate_at(list, calibration, nearest);
    bool own = orr_name_equal(best.fit->device, accelerator->name);
    if (own || best.fit->arch != accelerator->arch) {
        only(out, nearest, own ? ORR_KIN_SAME : ORR_KIN_OTHER, least, least > 0 ? 0 : 1);
        return;
    }
    double distance[ORR_MOST_RELATIVES] = {0};
    for (uint32_t i = 0; i < count; i++) {
        candidate c = candidate_at(list, calibration, i);
        if (c.fit->arch == accelerator->arch && same_text(c.kernel, best.kernel) &&
            same_text(c.scheme, best.scheme)) {
            keep(out, distance, i, kernel_distance(class, accelerator, c.fit));
        }
    }
    share_out(out, distance);
    out->kin = ORR_KIN_ARCH;
    out->apart_frac = least - orr_device_apart(t, accelerator, best.fit);
    settle_siblings(t, same_text(best.kernel, kernel) && same_text(best.scheme, scheme),
                    distance[0], out);
}

/* ---- what carries over ---------------------------------------------------------------------- */

/* Arithmetic of a board by that of a fit's. Units of one architecture do a power of two in a clock,
 * so where stated peaks lie nearer than that, clocks tell and the rest is how products are rounded
 * (B200: 2250 Tflop/s at 1.96 GHz, GB200: 2500 at 2.06). */
static double rate_ratio(const orr_fit *fit, const orr_accelerator *accelerator,
                         double peak_flops) {
    double peaks = ratio(peak_flops, fit->peak_flops);
    double clocks = ratio(accelerator->units * accelerator->clock_hz, fit->units * fit->clock_hz);
    return fabs(log2(clocks / peaks)) < 0.5 ? clocks : peaks;
}

/* How much more of its peak a board reaches by its clock, and by its power. */
static double peak_gain(const orr_transfer *transfer, const orr_fit *fit,
                        const orr_accelerator *accelerator, double peak_flops) {
    double rate = rate_ratio(fit, accelerator, peak_flops);
    double watts = ratio(accelerator->tdp_w, fit->tdp_w);
    return rate / ratio(peak_flops, fit->peak_flops) * pow(watts / rate, transfer->power);
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
        c.efficiency *= peak_gain(transfer, &fit->fit, accelerator, machine.peak_flops);
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
    double gain = peak_gain(transfer, &fit->fit, accelerator, peak);
    for (int i = 0; i < ORR_FLASH_WIDTHS; i++) {
        c.efficiency[i] *= gain;
    }
    return c;
}

orr_experts_constants orr_experts_borrow(const orr_transfer *transfer, const orr_experts_fit *fit,
                                         const orr_accelerator *accelerator, double peak_flops) {
    orr_experts_constants c = fit->constants;
    if (fit->fit.arch == accelerator->arch && !orr_name_equal(fit->fit.device, accelerator->name)) {
        c.efficiency *= peak_gain(transfer, &fit->fit, accelerator, peak_flops);
    }
    return c;
}
