/* What follows from a plan's numbers alone. */
#include "plan/plan_int.h"

uint32_t orr_plan_dense_shards(const orr_plan *plan) {
    return plan->shard.group != 0 ? plan->shard.group : plan->shard.dp * plan->split.cp;
}

/* Gradient read, main parameter and moments read and written, resident parameter written. */
static double step_bytes(const orr_numeric *n) {
    bool own_master = n->master_bytes == 0;
    double main = own_master ? n->param_bytes : n->master_bytes;
    double written = own_master ? 0 : n->param_bytes;
    return n->grad_bytes + 2 * (main + n->exp_avg_bytes + n->exp_avg_sq_bytes) + written;
}

double orr_plan_optimizer_bytes(const orr_plan *plan, const orr_software *software, double shard,
                                double local) {
    static const double USUAL_BYTES = 30;
    double per_shard = software->optimizer_shard_bytes * step_bytes(&plan->numeric) / USUAL_BYTES;
    bool gathers = plan->shard.kind != ORR_SHARD_NONE && plan->shard.dp > 1;
    double per_local =
        software->optimizer_local_bytes + (gathers ? software->gather_copy_bytes : 0);
    return per_shard * shard + per_local * local;
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
