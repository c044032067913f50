/* How unlike two accelerators are. */
#include <math.h>

#include "base/num.h"
#include "base/text.h"
#include "cost/calibration.h"

static bool is_amd(uint8_t arch) {
    return arch == ORR_ARCH_CDNA2 || arch == ORR_ARCH_CDNA3 || arch == ORR_ARCH_CDNA4;
}

/* Where an architecture stands among those of its vendor. */
static double generation(uint8_t arch) {
    static const double GENERATION[ORR_ARCH_COUNT] = {
        [ORR_ARCH_PASCAL] = 0,          [ORR_ARCH_VOLTA] = 0.4,   [ORR_ARCH_TURING] = 0.6,
        [ORR_ARCH_AMPERE] = 1,          [ORR_ARCH_ADA] = 2,       [ORR_ARCH_HOPPER] = 3,
        [ORR_ARCH_BLACKWELL_RTX] = 3.6, [ORR_ARCH_BLACKWELL] = 4, [ORR_ARCH_CDNA2] = 5,
        [ORR_ARCH_CDNA3] = 6,           [ORR_ARCH_CDNA4] = 7,     [ORR_ARCH_OTHER] = 8,
    };
    return arch < ORR_ARCH_COUNT ? GENERATION[arch] : 0;
}

double orr_arch_distance(const orr_accelerator *accelerator, uint8_t arch) {
    if (accelerator->arch == arch) {
        return 0;
    }
    bool amd = accelerator->vendor == ORR_AMD;
    return (amd == is_amd(arch) ? 100 : 1000) +
           fabs(generation(accelerator->arch) - generation(arch));
}

double orr_sheet_distance(const orr_accelerator *accelerator, const orr_fit *fit) {
    if (accelerator->like != NULL && orr_name_equal(fit->device, accelerator->like)) {
        return 0;
    }
    double own = accelerator->peak_flops[ORR_NVFP4];
    double refresh = own > 0 && fit->fp4_flops > 0 ? fabs(log(own / fit->fp4_flops)) : 0;
    return fabs(log(accelerator->units / fit->units)) +
           fabs(log(accelerator->hbm_Bps / fit->hbm_Bps)) + refresh;
}

double orr_device_apart(const orr_transfer *transfer, const orr_accelerator *accelerator,
                        const orr_fit *fit) {
    if (orr_name_equal(fit->device, accelerator->name)) {
        return 0;
    }
    double arch = orr_arch_distance(accelerator, fit->arch);
    return (arch < 100 ? transfer->device_frac : transfer->arch_frac) +
           1e-3 * (orr_sheet_distance(accelerator, fit) + orr_min_f64(arch, 1e4) * 1e-2);
}
