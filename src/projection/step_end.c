/* The end of a step on one rank: gradients are reduced, the optimizer steps, parameters come back.
 *
 * A chunk's gradients are ready when its last weight gradient ends; from then, and for the
 * overlapped share of that last backward, the reduction runs behind what the rank still computes.
 * Chunks are reduced one after the other in the order in which they become ready. What outlasts the
 * rank's last op is exposed. docs/internals/cost.md prices the collectives. */
#include <math.h>

#include "base/num.h"
#include "projection/projection_int.h"

typedef orr_exchange exchange;

static exchange joined(exchange a, exchange b) {
    uint8_t provenance = a.provenance > b.provenance ? a.provenance : b.provenance;
    return (exchange){a.time_s + b.time_s, a.error_s + b.error_s, provenance};
}

static exchange collective(const orr_cost_table *table, orr_collective kind, double bytes,
                           orr_group group) {
    if (group.size <= 1 || bytes <= 0) {
        return (exchange){0, 0, 0};
    }
    orr_cost cost = orr_cost_collective(table, kind, bytes, group);
    return (exchange){cost.time_s, cost.time_s * cost.relerr_frac, cost.provenance};
}

/* Context-parallel neighbours times replicas. With stages in between, the two are apart. */
static orr_group dense_group(const orr_resolved *resolved, uint32_t size) {
    const orr_plan *plan = &resolved->plan;
    uint32_t apart = orr_plan_replica_stretch(plan), cp = plan->split.cp;
    if (apart == 1 || cp == 1 || size % cp != 0) {
        return orr_cluster_group(resolved->cluster, size, plan->split.tp * apart);
    }
    orr_group near = orr_cluster_group(resolved->cluster, cp, plan->split.tp);
    orr_group far = orr_cluster_group(resolved->cluster, size / cp, plan->split.tp * cp * apart);
    orr_group both = {.size = size, .inner = near.inner * far.inner};
    both.domains = (uint32_t)orr_div_up_u64(size, both.inner);
    both.rivals = orr_max_u32(1, far.rivals / near.inner);
    both.off_rails = near.off_rails | far.off_rails;
    return both;
}

orr_dp_groups orr_step_groups(const orr_resolved *resolved) {
    const orr_plan *plan = &resolved->plan;
    uint32_t replicas = plan->shard.dp * plan->split.cp;
    uint32_t shards = orr_plan_dense_shards(plan);
    uint32_t expert_shards = orr_plan_expert_shards(plan);
    bool sharded = plan->shard.kind != ORR_SHARD_NONE;
    uint32_t inner = sharded ? shards : replicas;
    uint32_t apart = orr_plan_replica_stretch(plan);
    orr_dp_groups g;
    g.dense = dense_group(resolved, inner);
    g.expert = orr_cluster_group(resolved->cluster, expert_shards,
                                 plan->split.etp * plan->split.ep * apart);
    g.replicas = orr_cluster_group(resolved->cluster, inner == 0 ? 1 : replicas / inner,
                                   plan->split.tp * inner * apart);
    return g;
}

/* Bytes a gradient has on the wire. */
static double wire_bytes(const orr_resolved *resolved) {
    double stated = resolved->software->grad_wire_bytes;
    return stated > 0 ? stated : (double)resolved->plan.numeric.grad_bytes;
}

/* Gradients of so many parameters, bucket by bucket: each pays the latency of a collective. */
static exchange reduce_buckets(const orr_resolved *resolved, const orr_cost_table *table,
                               orr_collective kind, double params, orr_group group) {
    double bucket = resolved->software->reduce_bucket_bytes, count = 1;
    if (bucket > 0 && resolved->plan.shard.kind == ORR_SHARD_NONE) {
        count = orr_max_f64(1, ceil(2 * params / bucket));
    }
    exchange one = collective(table, kind, wire_bytes(resolved) * params / count, group);
    return (exchange){count * one.time_s, count * one.error_s, one.provenance};
}

static exchange reduce_params(const orr_resolved *resolved, const orr_cost_table *table,
                              const orr_dp_groups *g, const orr_params *params) {
    bool scatter = resolved->plan.shard.kind != ORR_SHARD_NONE;
    orr_collective kind = scatter ? ORR_REDUCE_SCATTER : ORR_ALL_REDUCE;
    double bytes = wire_bytes(resolved);
    exchange dense = reduce_buckets(resolved, table, kind, (double)params->dense, g->dense);
    exchange expert = reduce_buckets(resolved, table, kind, (double)params->expert, g->expert);
    exchange across = collective(
        table, ORR_ALL_REDUCE,
        g->dense.size == 0 ? 0 : bytes * (double)params->dense / g->dense.size, g->replicas);
    return joined(joined(dense, expert), across);
}

static exchange gather_params(const orr_resolved *resolved, const orr_cost_table *table,
                              const orr_dp_groups *g, const orr_params *params) {
    if (resolved->plan.shard.kind == ORR_SHARD_NONE) {
        return (exchange){0, 0, 0};
    }
    double bytes = resolved->plan.numeric.param_bytes == 1 ? 1.0 : 2.0;
    exchange dense = collective(table, ORR_ALL_GATHER, bytes * (double)params->dense, g->dense);
    exchange expert = collective(table, ORR_ALL_GATHER, bytes * (double)params->expert, g->expert);
    return joined(dense, expert);
}

/* Local chunks of a rank in the order in which their gradients become ready. */
static void order_by_ready(const orr_play *play, uint32_t rank, uint32_t vpp, uint8_t *order) {
    const int64_t *ready = &play->grads_ready[rank * vpp];
    for (uint32_t c = 0; c < vpp; c++) {
        uint32_t at = c;
        while (at > 0 && ready[order[at - 1]] > ready[c]) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = (uint8_t)c;
    }
}

void orr_step_ready(const orr_pipe *pipe, const orr_play *play, uint8_t *order) {
    for (uint32_t rank = 0; rank < pipe->pp; rank++) {
        order_by_ready(play, rank, pipe->vpp, &order[rank * pipe->vpp]);
    }
}

static double expose(double total_s, double late_s, double min_frac) {
    return orr_max_f64(orr_max_f64(late_s, min_frac * total_s), 0);
}

static exchange exposed_reduction(const orr_program *program, const orr_exchanges *prices,
                                  uint32_t rank, const orr_chunk_time *chunk_time,
                                  const orr_play *play, const uint8_t *order) {
    const orr_resolved *resolved = program->resolved;
    const orr_software *software = resolved->software;
    const uint32_t vpp = resolved->plan.pipe.vpp;
    bool plain = software->dp_overlap_unsharded && resolved->plan.shard.kind == ORR_SHARD_NONE;
    bool overlapped =
        (software->dp_overlap_grads || plain) && (resolved->plan.overlap & ORR_OVERLAP_DP) != 0;
    double end_s = (double)play->rank_end[rank] * ORR_PS, clock_s = 0;
    exchange sum = {0, 0, 0};
    for (uint32_t i = 0; i < vpp; i++) {
        uint32_t c = order[rank * vpp + i];
        uint32_t kind = program->chunk[rank * vpp + c];
        const orr_chunk_time *time = &chunk_time[kind];
        double backward_s =
            time->phase[ORR_PHASE_INPUT_GRAD].total_s + time->phase[ORR_PHASE_WEIGHT_GRAD].total_s;
        exchange one = prices->reduce[kind];
        double start_s = (double)play->grads_ready[rank * vpp + c] * ORR_PS -
                         software->dp_window_frac * backward_s;
        clock_s = orr_max_f64(clock_s, start_s) + one.time_s;
        sum = joined(sum, one);
    }
    if (!overlapped || sum.time_s <= 0) {
        return sum;
    }
    double exposed_s =
        orr_min_f64(sum.time_s, expose(sum.time_s, clock_s - end_s, software->dp_exposed_min_frac));
    return (exchange){exposed_s, sum.error_s * exposed_s / sum.time_s, sum.provenance};
}

/* Gathers run ahead of the first forward of each chunk, one after the other. */
static exchange exposed_gather(const orr_program *program, const orr_exchanges *prices,
                               uint32_t rank, const orr_chunk_time *chunk_time,
                               const orr_play *play) {
    const orr_resolved *resolved = program->resolved;
    const orr_software *software = resolved->software;
    uint32_t vpp = resolved->plan.pipe.vpp;
    bool overlapped = software->dp_overlap_params && (resolved->plan.overlap & ORR_OVERLAP_DP) != 0;
    double clock_s = 0, late_s = 0;
    exchange sum = {0, 0, 0};
    for (uint32_t c = 0; c < vpp; c++) {
        uint32_t kind = program->chunk[rank * vpp + c];
        const orr_chunk_time *time = &chunk_time[kind];
        exchange one = prices->gather[kind];
        double use_s = (double)play->first_use[rank * vpp + c] * ORR_PS +
                       software->dp_window_frac * time->phase[ORR_PHASE_FORWARD].total_s;
        clock_s += one.time_s;
        late_s = orr_max_f64(late_s, clock_s - use_s);
        sum = joined(sum, one);
    }
    if (!overlapped || sum.time_s <= 0) {
        return sum;
    }
    double exposed_s =
        orr_min_f64(sum.time_s, expose(sum.time_s, late_s, software->dp_exposed_min_frac));
    return (exchange){exposed_s, sum.error_s * exposed_s / sum.time_s, sum.provenance};
}

/* Fully sharded layers exchange inside their own forward and backward. */
static bool exchanges_per_layer(const orr_plan *plan) {
    return plan->shard.kind >= ORR_SHARD_ZERO3;
}

void orr_step_exchanges(const orr_program *program, const orr_cost_table *table,
                        orr_exchanges *out) {
    const orr_resolved *resolved = program->resolved;
    out->optimizer = orr_step_optimizer(program, table, &out->muon);
    if (exchanges_per_layer(&resolved->plan)) {
        return;
    }
    orr_dp_groups g = orr_step_groups(resolved);
    for (uint32_t k = 0; k < program->chunk_kind_count; k++) {
        const orr_params *params = &program->chunk_kind[k].params;
        out->reduce[k] = reduce_params(resolved, table, &g, params);
        out->gather[k] = gather_params(resolved, table, &g, params);
    }
}

exchange orr_step_exposed(const orr_program *program, const orr_exchanges *prices, uint32_t rank,
                          const orr_chunk_time *chunk_time, const orr_play *play,
                          const uint8_t *order) {
    if (exchanges_per_layer(&program->resolved->plan)) {
        return (exchange){0, 0, 0};
    }
    exchange reduction = exposed_reduction(program, prices, rank, chunk_time, play, order);
    exchange gather = exposed_gather(program, prices, rank, chunk_time, play);
    return joined(reduction, gather);
}

/* Schedules with 1f1b's memory let all ranks end together: nothing to run on into. */
bool orr_ranks_run_on(const orr_resolved *resolved) {
    orr_schedule_kind kind = (orr_schedule_kind)resolved->plan.pipe.schedule;
    return resolved->software->post_validation &&
           (kind == ORR_SCHEDULE_ZB_H2 || kind == ORR_SCHEDULE_ZB_2P);
}

int64_t orr_rank_begin(const orr_play *play, uint32_t vpp, uint32_t rank) {
    int64_t begin = play->first_use[rank * vpp];
    for (uint32_t c = 1; c < vpp; c++) {
        int64_t use = play->first_use[rank * vpp + c];
        begin = use < begin ? use : begin;
    }
    return begin;
}

int64_t orr_rank_span(const orr_resolved *resolved, const orr_play *play, uint32_t rank) {
    int64_t begin =
        orr_ranks_run_on(resolved) ? orr_rank_begin(play, resolved->plan.pipe.vpp, rank) : 0;
    return play->rank_end[rank] - begin;
}

/* Quantile of the standard normal, Abramowitz and Stegun 26.2.23: 5e-4 off at most. */
static double normal_quantile(double p) {
    double t = sqrt(-2 * log(1 - p));
    return t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                   (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

/* Mean of the largest of n standard normal values (Blom 1958), 1 % off. */
static double expected_maximum(double n) {
    return n > 1 ? normal_quantile((n - 0.375) / (n + 0.25)) : 0;
}

/* Stragglers: all ranks wait for the slowest, whose lag grows with their number. What it is in one
 * node is part of every kernel's time. */
double orr_step_jitter(const orr_resolved *resolved) {
    double ranks = resolved->plan.gpus, node = resolved->cluster->gpus_per_node;
    /* what lags in one micro-batch and not in the next averages over a step's */
    double each = resolved->software->straggler_each_frac /
                  sqrt((double)orr_max_u32(1, resolved->plan.batch.micro_batches));
    return ranks > node ? (resolved->software->straggler_frac + each) *
                              (expected_maximum(ranks) - expected_maximum(node))
                        : 0;
}

double orr_step_close(const orr_resolved *resolved, double end_s, double optimizer_s,
                      double jitter_frac, double *jitter_s) {
    double even_s = end_s + optimizer_s + resolved->software->step_s;
    *jitter_s = jitter_frac * even_s;
    return even_s + *jitter_s;
}
