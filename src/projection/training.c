/* From a plan's step to the run that goodput judges. */
#include "projection/projection.h"

/* What a checkpoint holds of the model: resident parameters, main ones, both moments. */
static double state_bytes(const orr_resolved *resolved) {
    const orr_numeric *n = &resolved->plan.numeric;
    double per_param =
        (double)n->param_bytes + n->master_bytes + n->exp_avg_bytes + n->exp_avg_sq_bytes;
    return per_param * (double)orr_model_count(resolved->model).total;
}

orr_goodput_run orr_project_run(const orr_resolved *resolved, double tokens, double step_s,
                                double low, double high) {
    const orr_plan *plan = &resolved->plan;
    const orr_cluster *cluster = resolved->cluster;
    uint32_t node = cluster->gpus_per_node > 0 ? cluster->gpus_per_node : 1;
    return (orr_goodput_run){.tokens = tokens,
                             .gpus = plan->gpus,
                             .hosts = (plan->gpus + node - 1) / node,
                             .tokens_per_s = (double)plan->gbs * plan->batch.seq / step_s,
                             .low_tokens_per_s = low * plan->gpus,
                             .high_tokens_per_s = high * plan->gpus,
                             .step_s = step_s,
                             .checkpoint_bytes = state_bytes(resolved),
                             .board_w = cluster->accelerator->tdp_w};
}
