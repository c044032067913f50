/* From bytes to an answer. One and the same function serves projection, search and validation.
 * docs/internals/memory.md, "Four figures". */
#include "memory/memory_int.h"

#include <math.h>

#include "base/num.h"

const char *orr_moment_name(orr_moment moment) {
    static const char *const names[ORR_MOMENT_COUNT] = {
        [ORR_MOMENT_FORWARD_END] = "forward_end",
        [ORR_MOMENT_LOSS_BACKWARD] = "loss_backward",
        [ORR_MOMENT_LAYER_BACKWARD] = "layer_backward",
        [ORR_MOMENT_BACKWARD_END] = "backward_end",
        [ORR_MOMENT_OPTIMIZER] = "optimizer",
    };
    return moment < ORR_MOMENT_COUNT ? names[moment] : "?";
}

const char *orr_memory_part_name(orr_memory_part part) {
    static const char *const names[ORR_PART_COUNT] = {
        [ORR_PART_PARAMS] = "params",           [ORR_PART_GRADS] = "grads",
        [ORR_PART_MASTER] = "master",           [ORR_PART_MOMENTS] = "moments",
        [ORR_PART_BUFFERS] = "buffers",         [ORR_PART_PERSISTENT] = "persistent",
        [ORR_PART_ACTIVATIONS] = "activations", [ORR_PART_TRANSIENT] = "transient",
        [ORR_PART_LOGITS] = "logits",
    };
    return part < ORR_PART_COUNT ? names[part] : "?";
}

const char *orr_fit_name(orr_fit_band fit) {
    switch (fit) {
    case ORR_FITS: return "fits";
    case ORR_TIGHT: return "tight";
    case ORR_LIKELY_OOM: return "likely-oom";
    case ORR_OOM: return "oom";
    }
    return "?";
}

double orr_memory_capacity(const orr_resolved *resolved) {
    const orr_accelerator *accelerator = resolved->cluster->accelerator;
    return accelerator->usable_bytes > 0 ? accelerator->usable_bytes : accelerator->hbm_bytes;
}

double orr_memory_oom_slope(const orr_software *software, orr_sureness sureness) {
    return sureness == ORR_SURE_STATED
               ? orr_max_f64(software->oom_slope, software->oom_slope_stated)
           : sureness == ORR_SURE_GUESSED
               ? orr_min_f64(software->oom_slope, software->oom_slope_guessed)
               : software->oom_slope;
}

double orr_memory_p_oom(const orr_software *software, orr_sureness sureness, double need_bytes,
                        double capacity_bytes) {
    if (!(need_bytes > 0)) {
        return 0;
    }
    if (!(capacity_bytes > 0)) {
        return 1;
    }
    double distance = log(need_bytes / capacity_bytes) - log(software->oom_half_frac);
    return 1 / (1 + exp(-orr_memory_oom_slope(software, sureness) * distance));
}

/* The bands are the questions a user asks, not a fit: in the middle ones P(OOM) says more. */
orr_fit_band orr_memory_band(double need_bytes, double capacity_bytes) {
    static const double tight_frac = 0.80, likely_frac = 0.96, oom_frac = 1.07;
    return need_bytes < tight_frac * capacity_bytes     ? ORR_FITS
           : need_bytes <= likely_frac * capacity_bytes ? ORR_TIGHT
           : need_bytes <= oom_frac * capacity_bytes    ? ORR_LIKELY_OOM
                                                        : ORR_OOM;
}

/* Tensors that TP should have cut but that linger whole, per byte of width (asynchronous gathers);
 * with several stages at most one bf16 copy for each micro-batch in flight. */
static double lingering(const orr_weighed *w, double nh_bytes, double in_flight) {
    const orr_plan *plan = w->plan;
    const double t = orr_max_u32(1, plan->split.tp), bf16 = 2;
    if (plan->pipe.pp > 1) {
        nh_bytes = orr_min_f64(nh_bytes, bf16 * in_flight);
    }
    if (nh_bytes <= 0) {
        return 0;
    }
    double tokens = (double)orr_plan_tokens(plan);
    return nh_bytes * tokens * w->program->resolved->model->hidden * (1 - 1 / t);
}

static double factor(double stated) {
    return stated > 0 ? stated : 1;
}

double orr_memory_need_uncut(const orr_program *program) {
    const orr_plan *plan = &program->resolved->plan;
    const double t = orr_max_u32(1, plan->split.tp);
    const double width = (double)orr_plan_tokens(plan) * program->resolved->model->hidden;
    return program->resolved->software->need_unsharded_nh_bytes * width * (1 - 1 / t);
}

double orr_memory_need_of(const orr_weighed *w, double fixed_bytes, double dynamic_bytes) {
    return fixed_bytes + factor(w->software->need_factor) * dynamic_bytes + w->need_uncut;
}

void orr_memory_judge(const orr_weighed *w, const orr_static *fixed, const orr_peak *peak,
                      double capacity_bytes, orr_rank_memory *out) {
    const orr_software *software = w->software;
    *out = (orr_rank_memory){.moment = peak->worst};
    for (uint32_t m = 0; m < ORR_MOMENT_COUNT; m++) {
        out->moment_bytes[m] = peak->moment[m];
    }
    for (uint32_t p = 0; p < ORR_PART_COUNT; p++) {
        out->part_bytes[p] = fixed->part[p];
    }
    out->part_bytes[ORR_PART_BUFFERS] -= orr_memory_away(fixed, peak->worst);
    out->part_bytes[ORR_PART_ACTIVATIONS] += peak->activations;
    out->part_bytes[ORR_PART_TRANSIENT] += peak->transient;
    out->part_bytes[ORR_PART_LOGITS] += peak->logits;
    out->allocated_bytes = peak->moment[peak->worst];
    out->live_bytes = out->allocated_bytes - peak->slack;
    double reserved = fixed->total + factor(software->dynamic_factor) * peak->dynamic +
                      lingering(w, software->unsharded_nh_bytes, peak->in_flight);
    /* Near the limit the allocator gives its cache back before it fails. */
    out->reserved_bytes = orr_max_f64(out->allocated_bytes, orr_min_f64(reserved, capacity_bytes));
    out->device_bytes = out->reserved_bytes + software->device_overhead_bytes;
    out->need_bytes = orr_memory_need_of(w, fixed->total, peak->dynamic);
}
