/* Composition of one step: link, price, play the schedule, close the step.
 *
 *   step = (end of the slowest rank + what reduction and gather leave exposed + optimizer
 *           + host cost of a step) x straggler factor
 *
 * The breakdown is that of the rank that ends last: its own compute and exposed communication, then
 * hops (difference to a play with free hops), then what is left of its time as bubble. */
#include "projection/projection.h"

#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "projection/projection_int.h"

typedef orr_stage_times stage_times;

static void add_scaled(orr_phase_time *sum, const orr_phase_time *part, double n) {
    for (int c = 0; c < ORR_CLASS_COUNT; c++) {
        sum->class_s[c] += n * part->class_s[c];
        sum->error_s[c] += n * part->error_s[c];
    }
    for (int p = 0; p < ORR_PROVENANCE_COUNT; p++) {
        sum->provenance_s[p] += n * part->provenance_s[p];
    }
    sum->recompute_s += n * part->recompute_s;
    sum->host_s += n * part->host_s;
    sum->total_s += n * part->total_s;
}

orr_timeline_mode orr_program_mode(const orr_program *program, double compute_factor) {
    const orr_resolved *resolved = program->resolved;
    const orr_plan *plan = &resolved->plan;
    orr_timeline_mode mode;
    memset(&mode, 0, sizeof mode);
    mode.modules = program->modules;
    mode.overlap = plan->overlap;
    mode.compute_factor = compute_factor;
    return mode;
}

uint32_t orr_steady_tp(const orr_resolved *resolved) {
    const orr_software *software = resolved->software;
    const orr_plan *plan = &resolved->plan;
    bool several_nodes = plan->gpus > resolved->cluster->gpus_per_node;
    bool slower = software->host_pp_tp_fwd_s + software->host_pp_tp_bwd_s > 0;
    return slower && plan->pipe.pp > 1 && several_nodes && plan->split.tp > 1 ? plan->split.tp : 0;
}

double orr_slowest_rank_s(const orr_program *program, const orr_chunk_time *kind) {
    const orr_pipe *pipe = &program->resolved->plan.pipe;
    double slowest_s = 0;
    for (uint32_t r = 0; r < pipe->pp; r++) {
        double rank_s = 0;
        for (uint32_t c = 0; c < pipe->vpp; c++) {
            for (int p = 0; p < ORR_PHASE_COUNT; p++) {
                rank_s += kind[program->chunk[r * pipe->vpp + c]].phase[p].total_s;
            }
        }
        slowest_s = orr_max_f64(slowest_s, rank_s);
    }
    return slowest_s;
}

/* Gradients that the GEMM does not add itself are read, added and written by a kernel of their own.
 */
void orr_add_accumulation(const orr_resolved *resolved, const orr_cost_table *table,
                          const orr_chunk *chunk, orr_chunk_time *time) {
    double bytes =
        resolved->software->accumulate_bytes * (double)(chunk->params.dense + chunk->params.expert);
    if (bytes <= 0) {
        return;
    }
    orr_cost cost = orr_cost_memory(table, ORR_MEMOP_BULK, bytes, 1);
    orr_phase_time *phase = &time->phase[ORR_PHASE_WEIGHT_GRAD];
    time->accumulate_s = cost.time_s;
    phase->class_s[ORR_CLASS_ELEMENTWISE] += cost.time_s;
    phase->error_s[ORR_CLASS_ELEMENTWISE] += cost.time_s * cost.relerr_frac;
    phase->provenance_s[cost.provenance] += cost.time_s;
    phase->total_s += cost.time_s;
}

static void time_chunk_kinds(orr_engine *engine, const orr_program *program,
                             const orr_cost_table *table, orr_timeline_mode mode,
                             orr_chunk_time *kind) {
    const orr_software *software = program->resolved->software;
    for (uint32_t k = 0; k < program->chunk_kind_count; k++) {
        const orr_chunk *chunk = &program->chunk_kind[k];
        for (uint32_t i = 0; i < chunk->part_count; i++) {
            const orr_part *part = &chunk->part[i];
            for (uint32_t checkpointed = 0; checkpointed < 2; checkpointed++) {
                uint32_t n = checkpointed ? part->checkpointed : part->count - part->checkpointed;
                if (n == 0) {
                    continue;
                }
                mode.checkpointed = checkpointed;
                const orr_part_time *time =
                    orr_engine_times(engine, table, software, part->object, &mode);
                for (int p = 0; p < ORR_PHASE_COUNT; p++) {
                    add_scaled(&kind[k].phase[p], &time->phase[p], n);
                }
            }
        }
        orr_add_accumulation(program->resolved, table, chunk, &kind[k]);
    }
}

/* Hops between neighbouring stages: the activation of one micro-batch as the stage holds it. */
void orr_time_hops(const orr_program *program, const orr_cost_table *table,
                   orr_stage_times *times) {
    const orr_resolved *resolved = program->resolved;
    const orr_plan *plan = &resolved->plan;
    uint32_t pp = plan->pipe.pp, stride = orr_plan_stage_stride(plan);
    uint32_t domain = resolved->cluster->tier[0].gpus;
    double whole = 2.0 * (double)orr_plan_tokens(plan) * resolved->model->hidden;
    bool gathers = !plan->split.sp && resolved->software->p2p_scatter && plan->split.tp > 1;
    double bytes = plan->split.sp || gathers ? whole / plan->split.tp : whole;
    double gather_s = 0;
    if (gathers) {
        orr_group tp = orr_cluster_group(resolved->cluster, plan->split.tp, 1);
        gather_s = orr_cost_collective(table, ORR_ALL_GATHER, whole, tp).time_s;
    }
    double factor = resolved->software->p2p_factor > 0 ? resolved->software->p2p_factor : 1.0;
    orr_cost cost[2]; /* across and inside a domain */
    bool priced[2] = {false, false};
    for (uint32_t r = 0; r < pp && pp > 1; r++) {
        uint32_t from = r * stride, to = (r + 1) % pp * stride;
        bool inside = from / domain == to / domain;
        if (!priced[inside]) {
            orr_group group = {.size = 2,
                               .inner = inside ? 2 : 1,
                               .domains = inside ? 1 : 2,
                               .rivals = orr_min_u32(domain, stride),
                               .off_rails = !inside && stride % domain != 0};
            cost[inside] = orr_cost_collective(table, ORR_SEND_RECV, bytes, group);
            priced[inside] = true;
        }
        times->hop[r] = orr_ps(cost[inside].time_s * factor + gather_s);
        times->hop_provenance = cost[inside].provenance;
        times->hop_error_frac = orr_max_f64(times->hop_error_frac, cost[inside].relerr_frac);
    }
}

orr_durations orr_stage_durations(const orr_stage_times *times) {
    return (orr_durations){.f = times->f, .b = times->b, .w = times->w, .hop = times->hop};
}

void orr_time_stages(orr_engine *engine, orr_arena *arena, const orr_program *program,
                     const orr_cost_table *table, double compute_factor, stage_times *times) {
    const orr_pipe *pipe = &program->resolved->plan.pipe;
    uint32_t chunks = pipe->pp * pipe->vpp;
    times->kind = ORR_NEW_ARRAY(arena, orr_chunk_time, program->chunk_kind_count);
    times->f = ORR_NEW_ARRAY(arena, int64_t, chunks);
    times->b = ORR_NEW_ARRAY(arena, int64_t, chunks);
    times->w = ORR_NEW_ARRAY(arena, int64_t, chunks);
    times->hop = ORR_NEW_ARRAY(arena, int64_t, pipe->pp);
    orr_timeline_mode mode = orr_program_mode(program, compute_factor);
    mode.more_host = engine->more_host;
    time_chunk_kinds(engine, program, table, mode, times->kind);
    mode.steady_tp = orr_steady_tp(program->resolved);
    if (mode.steady_tp > 0) {
        orr_chunk_time *steady = ORR_NEW_ARRAY(arena, orr_chunk_time, program->chunk_kind_count);
        time_chunk_kinds(engine, program, table, mode, steady);
        times->steady_s =
            program->resolved->plan.batch.micro_batches *
            (orr_slowest_rank_s(program, steady) - orr_slowest_rank_s(program, times->kind));
    }
    for (uint32_t c = 0; c < chunks; c++) {
        const orr_chunk_time *kind = &times->kind[program->chunk[c]];
        times->f[c] = orr_ps(kind->phase[ORR_PHASE_FORWARD].total_s);
        times->b[c] = orr_ps(kind->phase[ORR_PHASE_INPUT_GRAD].total_s);
        times->w[c] = orr_ps(kind->phase[ORR_PHASE_WEIGHT_GRAD].total_s);
    }
    if ((engine->without & ORR_WITHOUT_END_STAGES) != 0) {
        orr_spread_ends(engine, table, program, compute_factor, times);
    }
    if ((engine->without & ORR_WITHOUT_P2P) == 0) {
        orr_time_hops(program, table, times);
    }
}

static orr_play new_play(orr_arena *arena, const orr_pipe *pipe) {
    uint32_t chunks = pipe->pp * pipe->vpp;
    return (orr_play){.rank_end = ORR_NEW_ARRAY(arena, int64_t, pipe->pp),
                      .rank_busy = ORR_NEW_ARRAY(arena, int64_t, pipe->pp),
                      .grads_ready = ORR_NEW_ARRAY(arena, int64_t, chunks),
                      .first_use = ORR_NEW_ARRAY(arena, int64_t, chunks)};
}

static const orr_slice slice_of_class[ORR_CLASS_COUNT] = {
    [ORR_CLASS_GEMM] = ORR_SLICE_GEMM,
    [ORR_CLASS_ATTENTION] = ORR_SLICE_ATTENTION,
    [ORR_CLASS_ELEMENTWISE] = ORR_SLICE_ELEMENTWISE,
    [ORR_CLASS_LOSS] = ORR_SLICE_LOSS,
    [ORR_CLASS_TP] = ORR_SLICE_TP,
    [ORR_CLASS_CP] = ORR_SLICE_CP,
    [ORR_CLASS_EP] = ORR_SLICE_EP,
    [ORR_CLASS_DP] = ORR_SLICE_DP,
};

/* Compute and exposed communication of a rank over the whole step; returns the error's variance. */
static double add_rank_compute(const orr_program *program, const stage_times *times, uint32_t rank,
                               orr_projection *out) {
    const orr_plan *plan = &program->resolved->plan;
    double n = plan->batch.micro_batches, error_s[ORR_CLASS_COUNT] = {0};
    for (uint32_t c = 0; c < plan->pipe.vpp; c++) {
        const orr_chunk_time *kind = &times->kind[program->chunk[rank * plan->pipe.vpp + c]];
        for (int p = 0; p < ORR_PHASE_COUNT; p++) {
            const orr_phase_time *phase = &kind->phase[p];
            for (int k = 0; k < ORR_CLASS_COUNT; k++) {
                out->slice_s[slice_of_class[k]] += n * phase->class_s[k];
                error_s[k] += n * phase->error_s[k];
            }
            for (int k = 0; k < ORR_PROVENANCE_COUNT; k++) {
                out->provenance_s[k] += n * phase->provenance_s[k];
            }
            out->slice_s[ORR_SLICE_RECOMPUTE] += n * phase->recompute_s;
            out->slice_s[ORR_SLICE_HOST] += n * phase->host_s;
        }
    }
    double variance = 0;
    for (int k = 0; k < ORR_CLASS_COUNT; k++) {
        variance += error_s[k] * error_s[k];
    }
    return variance;
}

static double sum_slices(const orr_projection *projection) {
    double sum_s = 0;
    for (int s = 0; s < ORR_SLICE_COUNT; s++) {
        sum_s += projection->slice_s[s];
    }
    return sum_s;
}

static orr_dtype precision_dtype(uint8_t precision) {
    static const orr_dtype dtype[ORR_PRECISION_COUNT] = {
        [ORR_PRECISION_BF16] = ORR_BF16,    [ORR_PRECISION_FP16] = ORR_FP16,
        [ORR_PRECISION_FP8] = ORR_FP8,      [ORR_PRECISION_FP8_CS] = ORR_FP8,
        [ORR_PRECISION_FP8_MX] = ORR_MXFP8, [ORR_PRECISION_FP8_BLOCKWISE] = ORR_FP8_BLOCK,
        [ORR_PRECISION_NVFP4] = ORR_NVFP4,
    };
    return dtype[precision];
}

/* A token's: adapters add six for each of their parameters, frozen weights lack their gradients. */
static double model_flops(const orr_resolved *resolved) {
    const orr_plan *plan = &resolved->plan;
    if (plan->lora.rank == 0) {
        return orr_model_flops_per_token(resolved->model, plan->batch.seq, true);
    }
    return orr_model_frozen_flops_per_token(resolved->model, plan->batch.seq, true) +
           6 * (double)orr_plan_adapter_params(resolved->model, &plan->lora);
}

static void finish(const orr_resolved *resolved, double variance, orr_projection *out) {
    const orr_plan *plan = &resolved->plan;
    double accounted_s = 0;
    for (int p = 0; p < ORR_PROVENANCE_COUNT; p++) {
        accounted_s += out->provenance_s[p];
    }
    out->provenance_s[ORR_FROM_MODEL] += out->step_s - accounted_s;

    double tokens = (double)plan->gbs * plan->batch.seq;
    out->tokens_per_s = tokens / out->step_s;
    out->tokens_per_s_per_gpu = out->tokens_per_s / plan->gpus;
    out->model_flops_per_s_per_gpu = out->tokens_per_s_per_gpu * model_flops(resolved);
    const double *peaks = resolved->cluster->accelerator->peak_flops;
    double peak = peaks[precision_dtype(plan->numeric.precision)];
    peak = peak > 0 ? peak : peaks[ORR_BF16]; /* what a device without the format falls back to */
    out->mfu_frac = peak > 0 ? out->model_flops_per_s_per_gpu / peak : 0;
    out->price_error_frac = sqrt(variance) / out->step_s;
}

static orr_status play_order(orr_engine *engine, const orr_plan *plan, const orr_order *order,
                             const orr_durations *d, orr_play *play, orr_err *err) {
    orr_arena_reset(engine->played);
    orr_status status = orr_order_play(order, d, false, engine->played, play, err);
    if (status == ORR_E_LIMIT) {
        status = orr_fail(err, ORR_E_LIMIT,
                          "seq %u with mbs %u is out of range: a step of this model would take "
                          "longer than can be simulated",
                          plan->batch.seq, plan->batch.mbs);
    }
    return status;
}

static bool same_times(const orr_free_play *kept, const orr_schedule_spec *spec,
                       const orr_durations *d, uint32_t chunks) {
    size_t bytes = chunks * sizeof(int64_t);
    return kept->known && memcmp(&kept->spec, spec, sizeof *spec) == 0 &&
           memcmp(kept->time, d->f, bytes) == 0 && memcmp(kept->time + chunks, d->b, bytes) == 0 &&
           memcmp(kept->time + 2 * (size_t)chunks, d->w, bytes) == 0;
}

static void keep_times(orr_engine *engine, const orr_schedule_spec *spec, const orr_durations *d,
                       uint32_t chunks) {
    orr_free_play *kept = &engine->free_play;
    size_t bytes = chunks * sizeof(int64_t);
    kept->known = false;
    if (chunks > kept->capacity) {
        kept->capacity = 2 * chunks;
        kept->time = ORR_NEW_ARRAY(engine->arena, int64_t, 3 * (size_t)kept->capacity);
        kept->rank_end = ORR_NEW_ARRAY(engine->arena, int64_t, kept->capacity);
        kept->rank_begin = ORR_NEW_ARRAY(engine->arena, int64_t, kept->capacity);
    }
    memcpy(&kept->spec, spec, sizeof *spec);
    memcpy(kept->time, d->f, bytes);
    memcpy(kept->time + chunks, d->b, bytes);
    memcpy(kept->time + 2 * (size_t)chunks, d->w, bytes);
}

/* The play were hops free. An order follows from its spec and times, so these decide. */
static orr_status play_free(orr_engine *engine, const orr_plan *plan, const orr_order *order,
                            const orr_durations *d, const orr_free_play **out, orr_err *err) {
    orr_free_play *kept = &engine->free_play;
    orr_schedule_spec spec = orr_plan_schedule(plan);
    uint32_t chunks = plan->pipe.pp * plan->pipe.vpp;
    if (!same_times(kept, &spec, d, chunks)) {
        orr_play free_hops = new_play(engine->scratch, &plan->pipe);
        orr_durations no_hops = *d;
        no_hops.hop = ORR_NEW_ARRAY(engine->scratch, int64_t, plan->pipe.pp);
        keep_times(engine, &spec, d, chunks);
        ORR_TRY(play_order(engine, plan, order, &no_hops, &free_hops, err));
        for (uint32_t r = 0; r < plan->pipe.pp; r++) {
            kept->rank_end[r] = free_hops.rank_end[r];
            kept->rank_begin[r] = orr_rank_begin(&free_hops, plan->pipe.vpp, r);
        }
        kept->known = true;
    }
    *out = kept;
    return ORR_OK;
}

/* What a step is played from. */
typedef struct staged {
    const orr_resolved *resolved;
    const orr_cost_table *table;
    stage_times times; /* lie in the engine's scratch arena */
    orr_durations d;
} staged;

static void time_stages(orr_engine *engine, const orr_program *program, double compute_factor,
                        staged *out) {
    orr_time_stages(engine, engine->scratch, program, out->table, compute_factor, &out->times);
    out->d = orr_stage_durations(&out->times);
}

static orr_status stage(orr_engine *engine, const orr_resolved *resolved, double compute_factor,
                        staged *out, orr_program *program, orr_err *err) {
    *out = (staged){.resolved = resolved};
    ORR_TRY(orr_engine_table(engine, resolved->cluster, resolved->software, &out->table, err));
    ORR_TRY(orr_link(engine->linker, engine->scratch, resolved, NULL, program, err));
    time_stages(engine, program, compute_factor, out);
    return ORR_OK;
}

/* Everything but memory and interval. */
static orr_status play_step(orr_engine *engine, const staged *from, double compute_factor,
                            orr_projection *out, orr_program *program, orr_err *err) {
    orr_arena *scratch = engine->scratch;
    const orr_resolved *resolved = from->resolved;
    const orr_cost_table *table = from->table;
    const stage_times times = from->times;
    const orr_durations d = from->d;
    const orr_pipe *pipe = &resolved->plan.pipe;
    if (orr_schedule_needs_durations((orr_schedule_kind)pipe->schedule)) {
        ORR_TRY(orr_link(engine->linker, scratch, resolved, &d, program, err));
    }
    orr_play play = new_play(scratch, pipe);
    ORR_TRY(play_order(engine, &resolved->plan, program->order, &d, &play, err));

    orr_exchanges *exchanges = ORR_NEW(scratch, orr_exchanges);
    orr_step_exchanges(program, table, exchanges);
    uint8_t *ready = ORR_NEW_ARRAY(scratch, uint8_t, (size_t)pipe->pp * pipe->vpp);
    orr_step_ready(pipe, &play, ready);
    uint32_t last = 0;
    double last_s = -1;
    orr_exchange closing = {0};
    for (uint32_t r = 0; r < pipe->pp; r++) {
        orr_exchange exposed = orr_step_exposed(program, exchanges, r, times.kind, &play, ready);
        if ((engine->without & ORR_WITHOUT_DP) != 0) {
            exposed.time_s = exposed.error_s = 0;
        }
        double end_s = (double)orr_rank_span(resolved, &play, r) * ORR_PS + exposed.time_s;
        if (end_s > last_s) {
            last_s = end_s;
            last = r;
            closing = exposed;
        }
    }
    const orr_exchange *optimizer = &exchanges->optimizer;
    last_s += times.steady_s;

    *out = (orr_projection){
        .resolved = resolved, .anchor_factor = compute_factor, .slowest_rank = last};
    double variance = add_rank_compute(program, &times, last, out);
    double busy_s = sum_slices(out), hops_s = 0;
    double end_s = (double)orr_rank_span(resolved, &play, last) * ORR_PS;
    if (pipe->pp > 1) {
        const orr_free_play *free_play = NULL;
        ORR_TRY(play_free(engine, &resolved->plan, program->order, &d, &free_play, err));
        int64_t begin = orr_ranks_run_on(resolved) ? free_play->rank_begin[last] : 0;
        hops_s = orr_max_f64(0, end_s - (double)(free_play->rank_end[last] - begin) * ORR_PS);
    }
    out->slice_s[ORR_SLICE_PP] = hops_s;
    double rest_s = end_s - busy_s - hops_s;
    out->slice_s[ORR_SLICE_BUBBLE] = orr_max_f64(0, rest_s);
    /* the schedule counts whole picoseconds: a rank that never waits is off by some */
    out->slice_s[ORR_SLICE_GEMM] += orr_min_f64(0, rest_s);
    if ((engine->without & ORR_WITHOUT_BUBBLE) != 0) {
        last_s -= out->slice_s[ORR_SLICE_BUBBLE];
        out->slice_s[ORR_SLICE_BUBBLE] = 0;
    }
    out->slice_s[ORR_SLICE_DP] += closing.time_s;
    out->slice_s[ORR_SLICE_OPTIMIZER] = optimizer->time_s;
    out->muon = exchanges->muon;
    out->slice_s[ORR_SLICE_HOST] += times.steady_s + resolved->software->step_s;
    double hop_error_s = hops_s * times.hop_error_frac;
    variance += closing.error_s * closing.error_s + optimizer->error_s * optimizer->error_s +
                hop_error_s * hop_error_s;
    /* a bubble is other ranks' compute */
    for (int p = 0; busy_s > 0 && p < ORR_PROVENANCE_COUNT; p++) {
        out->provenance_s[p] *= 1 + out->slice_s[ORR_SLICE_BUBBLE] / busy_s;
    }
    out->provenance_s[times.hop_provenance] += hops_s;
    out->provenance_s[closing.provenance] += closing.time_s;
    out->provenance_s[optimizer->provenance] += optimizer->time_s;
    out->step_s = orr_step_close(resolved, last_s, optimizer->time_s, orr_step_jitter(resolved),
                                 &out->slice_s[ORR_SLICE_JITTER]);
    finish(resolved, variance, out);
    return ORR_OK;
}

static orr_status time_step(orr_engine *engine, const orr_resolved *resolved, double compute_factor,
                            orr_projection *out, orr_program *program, orr_err *err) {
    staged from;
    ORR_TRY(stage(engine, resolved, compute_factor, &from, program, err));
    return play_step(engine, &from, compute_factor, out, program, err);
}

/* The plan of the anchor's run: same split and batch per replica, another number of replicas. */
static orr_status anchor_plan(const orr_resolved *resolved, const orr_anchor *anchor,
                              orr_resolved *at, orr_err *err) {
    const orr_plan *plan = &resolved->plan;
    uint32_t ranks = plan->gpus / plan->shard.dp;
    if (anchor->gpus % ranks != 0) {
        return orr_fail(err, ORR_E_CONFLICT,
                        "the anchor's %u GPUs are no multiple of tp x pp x cp = %u", anchor->gpus,
                        ranks);
    }
    *at = *resolved;
    at->plan.gpus = anchor->gpus;
    at->plan.shard.dp = anchor->gpus / ranks;
    at->plan.gbs = at->plan.shard.dp * plan->batch.mbs * plan->batch.micro_batches;
    return ORR_OK;
}

enum { ANCHOR_STEPS = 48 };

/* The factor on compute that makes the projection of the anchor's run equal its measurement.
 * Throughput falls as the factor grows, so bisection finds it. */
static orr_status fit_anchor(orr_engine *engine, const orr_resolved *resolved,
                             const orr_anchor *anchor, double *factor, orr_err *err) {
    orr_resolved at;
    if (anchor->plan != NULL) {
        at = *anchor->plan;
    } else {
        ORR_TRY(anchor_plan(resolved, anchor, &at, err));
    }
    double low = 0.2, high = 5.0;
    for (int i = 0; i < ANCHOR_STEPS; i++) {
        double middle = 0.5 * (low + high);
        orr_projection projection;
        orr_program program;
        orr_arena_reset(engine->scratch);
        ORR_TRY(time_step(engine, &at, middle, &projection, &program, err));
        *(projection.tokens_per_s_per_gpu > anchor->tokens_per_s_per_gpu ? &low : &high) = middle;
    }
    *factor = 0.5 * (low + high);
    if (low <= 0.2 || high >= 5.0) {
        return orr_fail(err, ORR_E_CONFLICT,
                        "no correction of compute between 0.2x and 5x explains the anchor's %g "
                        "tokens/s/GPU on %u GPUs",
                        anchor->tokens_per_s_per_gpu, anchor->gpus);
    }
    return ORR_OK;
}

/* How the anchor is scaled to the plan: its batch per GPU kept, or not. A factor that is no
 * correction makes nothing surer: what it stands for is unknown. */
static const char *scaling_of(const orr_resolved *resolved, const orr_anchor *anchor,
                              double factor) {
    bool far = factor > ORR_FAR_ANCHOR || factor < 1 / ORR_FAR_ANCHOR;
    if (anchor == NULL || far) {
        return "none";
    }
    if (anchor->plan == NULL) {
        return "weak";
    }
    const orr_plan *to = &resolved->plan, *from = &anchor->plan->plan;
    bool kept = (uint64_t)to->gbs * from->gpus == (uint64_t)from->gbs * to->gpus;
    return kept ? "weak" : "strong";
}

/* Residuals of published runs say how far the models are off, and to which side; a step that is
 * mostly measured keeps their width but not their side. */
static bool rests_on_measurements(const orr_projection *projection) {
    double known_s =
        projection->provenance_s[ORR_FROM_MEASURED] + projection->provenance_s[ORR_FROM_RESTORED];
    return known_s > 0.5 * projection->step_s;
}

/* Near the device's capacity allocators return and fetch memory in every step: runs that need 92 %
 * and more are up to 1.2 to 1.7 times slower than others (Hagemann 2023), most are not. */
static double memory_pressure(const orr_memory *memory) {
    static const double FROM = 0.92, MOST = 0.3;
    double need =
        memory->capacity_bytes > 0 ? memory->worst.need_bytes / memory->capacity_bytes : 0;
    return 1 + MOST * orr_max_f64(0, orr_min_f64(1, (need - FROM) / (1 - FROM)));
}

static orr_status set_interval(orr_engine *engine, const char *scaling, orr_projection *out,
                               orr_err *err) {
    ORR_TRY(orr_engine_read_residuals(engine, err));
    double low_ratio = 0, high_ratio = 0;
    orr_residuals_interval(engine->residuals, out->resolved, out->price_error_frac, scaling,
                           &low_ratio, &high_ratio);
    if (rests_on_measurements(out)) {
        double half = 0.5 * (high_ratio - low_ratio);
        low_ratio = 1 / (1 + half);
        high_ratio = 1 + half;
    }
    out->low = out->tokens_per_s_per_gpu * low_ratio / memory_pressure(&out->memory);
    out->high = out->tokens_per_s_per_gpu * high_ratio;
    return ORR_OK;
}

static bool same_stages(const orr_pipe *pipe, const staged *a, const staged *b) {
    size_t bytes = (size_t)pipe->pp * pipe->vpp * sizeof(int64_t);
    return memcmp(a->d.f, b->d.f, bytes) == 0 && memcmp(a->d.b, b->d.b, bytes) == 0 &&
           memcmp(a->d.w, b->d.w, bytes) == 0 && a->times.steady_s == b->times.steady_s;
}

/* Where nothing is known of a host, the lower end allows one that is slower. */
static orr_status allow_slower_host(orr_engine *engine, orr_program *program, const staged *usual,
                                    orr_projection *out, orr_err *err) {
    staged from = {.resolved = usual->resolved, .table = usual->table};
    engine->more_host = out->resolved->software->interval_host_frac;
    time_stages(engine, program, 1.0, &from);
    engine->more_host = 0;
    if (same_stages(&out->resolved->plan.pipe, usual, &from)) {
        return ORR_OK;
    }
    orr_projection slower;
    ORR_TRY(play_step(engine, &from, 1.0, &slower, program, err));
    out->low = orr_min_f64(out->low, slower.tokens_per_s_per_gpu);
    return ORR_OK;
}

orr_status orr_project(orr_engine *engine, orr_arena *arena, const orr_resolved *resolved,
                       const orr_anchor *anchor, orr_projection *out, orr_err *err) {
    double factor = 1.0;
    bool fitted = anchor != NULL && anchor->factor > 0;
    bool anchored = anchor != NULL && (fitted || anchor->gpus > 0 || anchor->plan != NULL);
    if (fitted) {
        factor = anchor->factor;
    } else if (anchored) {
        ORR_TRY(fit_anchor(engine, resolved, anchor, &factor, err));
    }
    orr_arena_reset(engine->scratch);
    orr_program program;
    staged from;
    ORR_TRY(stage(engine, resolved, factor, &from, &program, err));
    ORR_TRY(play_step(engine, &from, factor, out, &program, err));
    orr_memory_evaluate(&program, arena, true, &out->memory);
    ORR_TRY(set_interval(engine, scaling_of(resolved, anchored ? anchor : NULL, factor), out, err));
    return resolved->software->interval_host_frac > 0 && !anchored
               ? allow_slower_host(engine, &program, &from, out, err)
               : ORR_OK;
}

orr_status orr_project_stages(orr_engine *engine, orr_arena *arena, const orr_resolved *resolved,
                              orr_durations *out, orr_err *err) {
    const orr_cost_table *table = NULL;
    orr_program program;
    orr_stage_times times = {0};
    ORR_TRY(orr_engine_table(engine, resolved->cluster, resolved->software, &table, err));
    ORR_TRY(orr_link(engine->linker, arena, resolved, NULL, &program, err));
    orr_time_stages(engine, arena, &program, table, 1.0, &times);
    *out = orr_stage_durations(&times);
    return ORR_OK;
}

orr_status orr_project_memory(orr_engine *engine, orr_arena *arena, const orr_resolved *resolved,
                              bool all_ranks, orr_memory *out, orr_err *err) {
    orr_arena_reset(engine->scratch);
    orr_program program;
    ORR_TRY(orr_link(engine->linker, engine->scratch, resolved, NULL, &program, err));
    orr_memory_evaluate(&program, arena, all_ranks, out);
    return ORR_OK;
}

orr_status orr_project_ledger(orr_engine *engine, orr_arena *arena, const orr_resolved *resolved,
                              uint32_t rank, orr_ledger *out, orr_err *err) {
    orr_arena_reset(engine->scratch);
    orr_program program;
    ORR_TRY(orr_link(engine->linker, engine->scratch, resolved, NULL, &program, err));
    orr_memory_ledger(&program, arena, rank, out);
    return ORR_OK;
}

orr_status orr_project_memory_trace(orr_engine *engine, orr_arena *arena,
                                    const orr_resolved *resolved, uint32_t rank,
                                    orr_memory_timeline *out, orr_err *err) {
    orr_arena_reset(engine->scratch);
    orr_program program;
    ORR_TRY(orr_link(engine->linker, engine->scratch, resolved, NULL, &program, err));
    return orr_memory_trace(&program, arena, rank, out, err);
}

orr_status orr_project_replay(orr_engine *engine, orr_arena *arena, const orr_resolved *resolved,
                              uint32_t rank, bool expandable, orr_replay *out, orr_err *err) {
    orr_arena_reset(engine->scratch);
    orr_program program;
    ORR_TRY(orr_link(engine->linker, engine->scratch, resolved, NULL, &program, err));
    orr_memory_replay(&program, arena, rank, expandable, out);
    return ORR_OK;
}
