/* What a plan of the space is made of, and what of it matters. */
#include "tune/tune_int.h"

static bool is_moe(const orr_model *model) {
    for (uint32_t k = 0; k < model->kind_count; k++) {
        if (model->kind[k].mlp.experts > 0) {
            return true;
        }
    }
    return false;
}

void tune_plan_pipe(const tune_pipe *pipe, orr_plan *plan) {
    uint8_t p2p = plan->pipe.p2p;
    plan->pipe = pipe->pipe;
    plan->pipe.p2p = p2p;
    plan->layout = pipe->layout;
}

void tune_plan_overlap(const tune_world *world, uint32_t overlap, orr_plan *plan) {
    plan->overlap = overlap;
    if (world->p2p_stated) {
        plan->pipe.p2p = world->base.plan.pipe.p2p;
    } else if (plan->pipe.schedule == ORR_SCHEDULE_INTERLEAVED) {
        plan->pipe.p2p = (overlap & ORR_OVERLAP_PP) != 0 ? ORR_P2P_OVERLAP : ORR_P2P_BLOCKING;
    } else {
        plan->pipe.p2p = (uint8_t)orr_schedule_default_p2p((orr_schedule_kind)plan->pipe.schedule);
    }
}

bool tune_has_replicas(const tune_world *world, const orr_plan *plan) {
    bool experts = is_moe(world->base.model) &&
                   (uint64_t)plan->split.etp * plan->split.ep * plan->pipe.pp < plan->gpus;
    return plan->shard.dp * plan->split.cp > 1 || experts;
}

uint32_t tune_overlap_mask(const tune_world *world, const orr_plan *plan) {
    const orr_software *s = world->base.software;
    uint32_t mask = 0;
    bool loops = plan->pipe.schedule == ORR_SCHEDULE_INTERLEAVED && plan->pipe.pp > 1;
    if (plan->split.tp > 1 && (s->tp_overlap_fwd_frac > 0 || s->tp_overlap_bwd_frac > 0)) {
        mask |= ORR_OVERLAP_TP;
    }
    if (tune_has_replicas(world, plan) && plan->shard.kind < ORR_SHARD_ZERO3 &&
        (s->dp_overlap_grads || s->dp_overlap_params)) {
        mask |= ORR_OVERLAP_DP;
    }
    if (loops && !world->p2p_stated) {
        mask |= ORR_OVERLAP_PP;
    }
    if (is_moe(world->base.model) && plan->split.ep > 1 && s->ep_overlap_frac > 0) {
        mask |= ORR_OVERLAP_EP;
    }
    return mask;
}

void tune_plan_neutral(const tune_world *world, orr_plan *plan) {
    plan->recompute = (orr_recompute){0};
    bool loops = plan->pipe.schedule == ORR_SCHEDULE_INTERLEAVED && plan->pipe.pp > 1;
    tune_plan_overlap(world, loops ? ORR_OVERLAP_PP : 0, plan);
}

bool tune_is_legal(const tune_world *world, const orr_plan *plan) {
    orr_resolved r = world->base;
    r.plan = *plan;
    return orr_plan_legal(&r);
}

bool tune_wants_shard(const tune_world *world, uint8_t kind) {
    for (uint32_t i = 0; i < world->shard_count; i++) {
        if (world->shard[i].kind == kind) {
            return true;
        }
    }
    return false;
}

void tune_plan_relax(const tune_world *world, orr_plan *plan) {
    tune_plan_overlap(world, tune_overlap_mask(world, plan), plan);
}
