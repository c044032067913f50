/* Choosing the fit that speaks for an accelerator: its own, or the nearest of another. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "cost/calibration_int.h"

static bool is_sibling(orr_arena *arena, const orr_accelerator *accelerator, const char *device) {
    orr_accelerator *other = NULL;
    return !orr_name_equal(device, accelerator->name) &&
           orr_accelerator_find(arena, device, &other, NULL) == ORR_OK &&
           other->arch == accelerator->arch;
}

/* Of the same architecture and laid out alike, with links of about the same bandwidth. */
static const double NEAR_LINKS = 0.7; /* ln; a factor of two */
static bool has_linked_sibling(orr_arena *arena, const orr_calibration *calibration,
                               const orr_accelerator *accelerator) {
    for (uint32_t i = 0; i < calibration->collective_count; i++) {
        const orr_collective_fit *fit = &calibration->collective[i];
        bool links = fabs(log(fit->link_Bps / accelerator->link_Bps)) < NEAR_LINKS;
        if (links && fit->nodes <= 1 && fit->topology == accelerator->topology &&
            is_sibling(arena, accelerator, fit->fit.device)) {
            return true;
        }
    }
    return false;
}

bool orr_calibration_has_sibling(orr_arena *arena, const orr_calibration *calibration,
                                 const char *class, const orr_accelerator *accelerator) {
    if (strcmp(class, "collectives") == 0) {
        return has_linked_sibling(arena, calibration, accelerator);
    }
    const orr_fit_list *list = orr_fit_list_of(class);
    for (uint32_t i = 0; list != NULL && i < orr_fit_count(list, calibration); i++) {
        if (is_sibling(arena, accelerator, orr_fit_at(list, calibration, i)->device)) {
            return true;
        }
    }
    return false;
}

static orr_kin kin_of(double distance, bool same) {
    return same ? ORR_KIN_SAME : distance < 100 ? ORR_KIN_ARCH : ORR_KIN_OTHER;
}

const orr_gemm_fit *orr_calibration_gemm(const orr_calibration *calibration,
                                         const orr_accelerator *accelerator, const char *scheme,
                                         orr_kin *kin) {
    const orr_gemm_fit *best = NULL;
    double least = INFINITY;
    for (uint32_t i = 0; i < calibration->gemm_count; i++) {
        const orr_gemm_fit *fit = &calibration->gemm[i];
        if (strcmp(fit->scheme, scheme) != 0) {
            continue;
        }
        bool same = orr_name_equal(fit->fit.device, accelerator->name);
        double arch = orr_arch_distance(accelerator, fit->fit.arch);
        double distance = same ? -1 : arch + orr_sheet_distance(accelerator, &fit->fit);
        if (distance < least) {
            least = distance;
            best = fit;
            *kin = kin_of(arch, same);
        }
    }
    return best;
}

orr_gemm_constants orr_gemm_transfer(const orr_gemm_fit *fit, const orr_accelerator *accelerator) {
    orr_gemm_constants c = fit->constants;
    double peak = orr_scheme_machine(accelerator, fit->scheme, (orr_dtype)fit->dtype).peak_flops /
                  fit->fit.peak_flops;
    c.unit_Bps *= peak * fit->fit.units / accelerator->units;
    double power = fit->fit.tdp_w > 0 ? accelerator->tdp_w / fit->fit.tdp_w : 1;
    if (accelerator->arch == fit->fit.arch && power > peak) {
        /* sustained arithmetic is what the power limit feeds */
        c.throttle = orr_max_f64(0, (1 + c.throttle) * peak / power - 1);
    }
    return c;
}

const orr_arch_fit *orr_calibration_arch(const orr_calibration *calibration,
                                         const orr_accelerator *accelerator, orr_kin *kin) {
    const orr_arch_fit *best = NULL;
    double least = INFINITY;
    for (uint32_t i = 0; i < calibration->arch_count; i++) {
        double distance = orr_arch_distance(accelerator, calibration->arch[i].arch);
        if (distance < least) {
            least = distance;
            best = &calibration->arch[i];
            *kin = kin_of(distance, false);
        }
    }
    return best;
}

/* What training uses. */
static bool serves_training(const orr_collective_fit *fit, orr_collective op) {
    bool library = strncmp(fit->library, "NCCL", 4) == 0 || strncmp(fit->library, "RCCL", 4) == 0;
    return library && fit->op == op && fit->nodes <= 1;
}

/* The device whose collectives stand for an accelerator's. */
static const orr_collective_fit *collective_donor(const orr_calibration *calibration,
                                                  const orr_accelerator *accelerator,
                                                  orr_collective op, orr_kin *kin) {
    const orr_collective_fit *best = NULL;
    double least = INFINITY;
    for (uint32_t i = 0; i < calibration->collective_count; i++) {
        const orr_collective_fit *fit = &calibration->collective[i];
        if (!serves_training(fit, op)) {
            continue;
        }
        bool same = orr_name_equal(fit->fit.device, accelerator->name);
        double topology = fit->topology == accelerator->topology ? 0 : 1000;
        double link = fabs(log(accelerator->link_Bps / fit->link_Bps));
        double distance = same ? -1 : topology + link;
        if (distance < least) {
            least = distance;
            best = fit;
            *kin = same ? ORR_KIN_SAME : distance < NEAR_LINKS ? ORR_KIN_ARCH : ORR_KIN_OTHER;
        }
    }
    return best;
}

uint32_t orr_calibration_collective(const orr_calibration *calibration,
                                    const orr_accelerator *accelerator, orr_collective op,
                                    const orr_collective_fit *out[ORR_MAX_RANK_POINTS],
                                    orr_kin *kin) {
    const orr_collective_fit *donor = collective_donor(calibration, accelerator, op, kin);
    uint32_t count = 0;
    for (uint32_t i = 0; donor != NULL && i < calibration->collective_count; i++) {
        const orr_collective_fit *fit = &calibration->collective[i];
        if (!serves_training(fit, op) || strcmp(fit->fit.device, donor->fit.device) != 0) {
            continue;
        }
        /* a record of a newer library comes later and replaces the older one */
        uint32_t at = 0;
        while (at < count && out[at]->ranks < fit->ranks) {
            at++;
        }
        if (at < count && out[at]->ranks == fit->ranks) {
            out[at] = fit;
        } else if (count < ORR_MAX_RANK_POINTS) {
            for (uint32_t j = count; j > at; j--) {
                out[j] = out[j - 1];
            }
            out[at] = fit;
            count++;
        }
    }
    return count;
}
