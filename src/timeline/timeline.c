/* A layer's phase is one compute stream with communication beside it. Per phase and kind of
 * communication the profile says how much hides:
 *   TP  a share of it (pipelined GEMM overlap);
 *   CP  all but what attention does not cover, and never less than a minimum share;
 *   EP  a share of it, when the plan overlaps experts, and never more than there is compute;
 *   DP  (gathers and scatters of sharded layers) max(compute slowed by it, communication itself).
 * What it ignores: contention between two kinds of communication in one phase. */
#include "timeline/timeline.h"

#include <string.h>

#include "base/num.h"

/* Sums of a selection of ops before anything hides. */
typedef struct raw {
    double class_s[ORR_CLASS_COUNT];
    double error_s[ORR_CLASS_COUNT];
    double provenance_s[ORR_PROVENANCE_COUNT];
} raw;

static bool is_compute(uint8_t class) {
    return class <= ORR_CLASS_LOSS;
}

static void add_op(raw *sum, const orr_op *op, const orr_cost *cost, double compute_factor) {
    double time_s = cost->time_s * (is_compute(op->class) ? compute_factor : 1.0);
    sum->class_s[op->class] += time_s;
    sum->error_s[op->class] += time_s * cost->relerr_frac;
    sum->provenance_s[cost->provenance] += time_s;
}

static double exposed_tp(const raw *sum, const orr_software *software,
                         const orr_timeline_mode *mode, bool forward) {
    double hidden_frac = (mode->overlap & ORR_OVERLAP_TP) == 0 ? 0.0
                         : forward                             ? software->tp_overlap_fwd_frac
                                                               : software->tp_overlap_bwd_frac;
    return sum->class_s[ORR_CLASS_TP] * (1.0 - orr_min_f64(1.0, hidden_frac));
}

static double exposed_cp(const raw *sum, const orr_software *software) {
    double comm_s = sum->class_s[ORR_CLASS_CP];
    return orr_max_f64(software->cp_exposed_min_frac * comm_s,
                       comm_s - sum->class_s[ORR_CLASS_ATTENTION]);
}

static double exposed_ep(const raw *sum, const orr_software *software,
                         const orr_timeline_mode *mode, double compute_s) {
    double comm_s = sum->class_s[ORR_CLASS_EP];
    if ((mode->overlap & ORR_OVERLAP_EP) == 0) {
        return comm_s;
    }
    return comm_s - orr_min_f64(software->ep_overlap_frac * comm_s, compute_s);
}

static double exposed_dp(const raw *sum, const orr_software *software, double compute_s) {
    double comm_s = sum->class_s[ORR_CLASS_DP];
    double slow_frac = software->fsdp_slowdown_frac;
    if (slow_frac >= 1) {
        return comm_s; /* compute stands still: in turn, however short it is */
    }
    double slowed_s = compute_s + slow_frac * orr_min_f64(comm_s, compute_s);
    return orr_max_f64(slowed_s, comm_s) - compute_s;
}

/* Turns raw sums into a phase: communication shrinks to what is exposed, and what is reported as
 * error and provenance shrinks with it. */
static void settle(raw *sum, const orr_software *software, const orr_timeline_mode *mode,
                   bool forward) {
    double compute_s = 0;
    for (int c = 0; c <= ORR_CLASS_LOSS; c++) {
        compute_s += sum->class_s[c];
    }
    double exposed_s[ORR_CLASS_COUNT] = {0};
    exposed_s[ORR_CLASS_TP] = exposed_tp(sum, software, mode, forward);
    exposed_s[ORR_CLASS_CP] = exposed_cp(sum, software);
    exposed_s[ORR_CLASS_EP] = exposed_ep(sum, software, mode, compute_s);
    exposed_s[ORR_CLASS_DP] = exposed_dp(sum, software, compute_s);
    double before_s = 0, after_s = 0;
    for (int c = 0; c < ORR_CLASS_COUNT; c++) {
        before_s += sum->class_s[c];
        if (c > ORR_CLASS_LOSS && sum->class_s[c] > 0) {
            sum->error_s[c] *= exposed_s[c] / sum->class_s[c];
            sum->class_s[c] = exposed_s[c];
        }
        after_s += sum->class_s[c];
    }
    for (int p = 0; before_s > 0 && p < ORR_PROVENANCE_COUNT; p++) {
        sum->provenance_s[p] *= after_s / before_s;
    }
}

static double total(const raw *sum) {
    double total_s = 0;
    for (int c = 0; c < ORR_CLASS_COUNT; c++) {
        total_s += sum->class_s[c];
    }
    return total_s;
}

static void add_phase(orr_phase_time *out, const raw *sum) {
    for (int c = 0; c < ORR_CLASS_COUNT; c++) {
        out->class_s[c] += sum->class_s[c];
        out->error_s[c] += sum->error_s[c];
    }
    for (int p = 0; p < ORR_PROVENANCE_COUNT; p++) {
        out->provenance_s[p] += sum->provenance_s[p];
    }
    out->total_s += total(sum);
}

/* Forward ops that run again in the backward: all of a checkpointed layer, else those of the
 * recomputed modules. */
static void add_recompute(orr_phase_time *out, const orr_priced *priced,
                          const orr_software *software, const orr_timeline_mode *mode) {
    raw again = {0};
    const orr_object *object = priced->object;
    for (uint32_t i = 0; i < object->op_count; i++) {
        const orr_op *op = &object->op[i];
        uint32_t wanted = mode->checkpointed != 0 ? ORR_MODULE_LAYER : mode->modules;
        if (op->phase == ORR_PHASE_FORWARD && (op->modules & wanted) != 0) {
            add_op(&again, op, &priced->op[i], mode->compute_factor);
        }
    }
    settle(&again, software, mode, true);
    out->recompute_s += total(&again);
    out->total_s += total(&again);
    for (int c = 0; c < ORR_CLASS_COUNT; c++) {
        out->error_s[c] += again.error_s[c];
    }
    for (int p = 0; p < ORR_PROVENANCE_COUNT; p++) {
        out->provenance_s[p] += again.provenance_s[p];
    }
}

/* A phase cannot be shorter than the host needs to launch it. */
static void raise_to_floor(orr_phase_time *phase, double already_s, double floor_s) {
    double missing_s = floor_s - already_s - phase->total_s;
    if (missing_s > 0) {
        phase->host_s += missing_s;
        phase->total_s += missing_s;
        phase->provenance_s[ORR_FROM_MODEL] += missing_s;
    }
}

orr_host_floor orr_timeline_host(const orr_software *software, bool moe) {
    orr_host_floor floor = {moe ? software->host_moe_fwd_s : software->host_fwd_s,
                            moe ? software->host_moe_bwd_s : software->host_bwd_s};
    double left = software->graphs == ORR_GRAPHS_FULL      ? 0
                  : software->graphs == ORR_GRAPHS_PARTIAL ? software->graph_partial_frac
                                                           : 1;
    floor.forward_s *= left;
    floor.backward_s *= left;
    return floor;
}

static void apply_host_floor(const orr_object *object, const orr_software *software,
                             const orr_timeline_mode *mode, orr_part_time *out) {
    if (object->key.what != ORR_OBJECT_LAYER || software->graphs == ORR_GRAPHS_FULL) {
        return;
    }
    orr_host_floor floor = orr_timeline_host(software, object->key.layer.mlp.experts > 0);
    double fwd_s = floor.forward_s + software->host_pp_tp_fwd_s * mode->steady_tp;
    double bwd_s = floor.backward_s + software->host_pp_tp_bwd_s * mode->steady_tp;
    /* an anchor that is bound by its host says how fast that is */
    fwd_s *= mode->compute_factor * (1 + mode->more_host);
    bwd_s *= mode->compute_factor * (1 + mode->more_host);
    if (mode->checkpointed != 0) {
        bwd_s += fwd_s;
    }
    raise_to_floor(&out->phase[ORR_PHASE_FORWARD], 0, fwd_s);
    raise_to_floor(&out->phase[ORR_PHASE_INPUT_GRAD], out->phase[ORR_PHASE_WEIGHT_GRAD].total_s,
                   bwd_s);
}

void orr_timeline_object(const orr_priced *priced, const orr_software *software,
                         const orr_timeline_mode *mode, orr_part_time *out) {
    memset(out, 0, sizeof *out);
    raw sum[ORR_PHASE_COUNT] = {{{0}, {0}, {0}}};
    for (uint32_t i = 0; i < priced->object->op_count; i++) {
        const orr_op *op = &priced->object->op[i];
        add_op(&sum[op->phase], op, &priced->op[i], mode->compute_factor);
    }
    for (int p = 0; p < ORR_PHASE_COUNT; p++) {
        settle(&sum[p], software, mode, p == ORR_PHASE_FORWARD);
        add_phase(&out->phase[p], &sum[p]);
    }
    add_recompute(&out->phase[ORR_PHASE_INPUT_GRAD], priced, software, mode);
    apply_host_floor(priced->object, software, mode, out);
}
