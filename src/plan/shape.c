/* What follows from a plan's numbers alone. */
#include "plan/plan_int.h"

uint32_t orr_plan_dense_shards(const orr_plan *plan) {
    return plan->shard.group != 0 ? plan->shard.group : plan->shard.dp * plan->split.cp;
}

uint32_t orr_plan_expert_shards(const orr_plan *plan) {
    uint64_t ranks = (uint64_t)plan->split.etp * plan->split.ep * plan->pipe.pp;
    uint32_t all = ranks == 0 ? 1 : (uint32_t)orr_max_u64(1, plan->gpus / ranks);
    return plan->shard.group != 0 ? orr_min_u32(all, plan->shard.group) : all;
}

uint32_t orr_plan_replica_stretch(const orr_plan *plan) {
    return plan->pipe.order == ORR_ORDER_DP_LAST ? orr_max_u32(1, plan->pipe.pp) : 1;
}

uint32_t orr_plan_stage_stride(const orr_plan *plan) {
    return plan->pipe.order == ORR_ORDER_DP_LAST ? plan->split.tp * plan->split.cp
                                                 : plan->gpus / orr_max_u32(1, plan->pipe.pp);
}

uint64_t orr_plan_tokens(const orr_plan *plan) {
    return (uint64_t)plan->batch.seq * plan->batch.mbs / orr_max_u32(1, plan->split.cp);
}

/* Merged expert passes run in the interleaved order, also where one stage holds everything; kinds
 * that pair passes anyway need no flag. */
orr_schedule_spec orr_plan_schedule(const orr_plan *plan) {
    const orr_pipe *pipe = &plan->pipe;
    bool merges = (plan->overlap & ORR_OVERLAP_EP) != 0 && plan->split.ep > 1;
    bool single = merges && pipe->pp == 1 && pipe->schedule == ORR_SCHEDULE_1F1B;
    uint8_t kind = single ? ORR_SCHEDULE_INTERLEAVED : pipe->schedule;
    return (orr_schedule_spec){
        .kind = kind,
        .p2p = single ? ORR_P2P_OVERLAP : pipe->p2p,
        .ep_overlap = merges && kind == ORR_SCHEDULE_INTERLEAVED,
        .pp = pipe->pp,
        .vpp = pipe->vpp,
        .micro_batches = plan->batch.micro_batches,
        .group = pipe->group,
        .memory_limit = pipe->memory_limit,
    };
}

static orr_schedule_kind kind_of(const orr_plan *plan) {
    return (orr_schedule_kind)plan->pipe.schedule;
}

uint32_t orr_plan_stages(const orr_plan *plan) {
    return orr_schedule_two_way(kind_of(plan)) ? plan->pipe.pp : plan->pipe.pp * plan->pipe.vpp;
}

uint32_t orr_plan_stage(const orr_plan *plan, uint32_t rank, uint32_t chunk, bool *second) {
    return orr_schedule_position(kind_of(plan), plan->pipe.pp, rank, chunk, second);
}

uint32_t orr_plan_mtp_stage(const orr_plan *plan) {
    return plan->layout != NULL ? plan->layout->mtp_stage : orr_plan_stages(plan) - 1;
}
