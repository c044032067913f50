/* Four levels, each kept while what it depends on stays: the frame (objects and chunks: splits,
 * batch, formats, pipe), its recompute, the body (order, times and play: overlap too), and the tail
 * (sharding among none, zero1 and zero2; overlap of reductions). */
#include "projection/quick.h"

#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "projection/projection_int.h"

typedef struct frame_key {
    uint32_t gpus, reserved;
    orr_split split;
    orr_pipe pipe; /* without p2p */
    orr_batch batch;
    orr_numeric numeric;
    orr_variant variant;
    orr_lora lora;
    orr_shard shard; /* of sharded parameters, else zero */
    const orr_layout *layout;
} frame_key;
typedef struct body_key {
    uint32_t overlap; /* without dp */
    uint8_t p2p;
} body_key;

enum { TIME_SLOTS = 1024, SHARD_KINDS = 3, MAX_ORDER_BYTES = 256 << 20 };

/* Times of an object, found by what changes inside a search. */
typedef struct time_slot {
    const orr_object *object;
    uint32_t modules, overlap, checkpointed, steady_tp;
    const orr_part_time *time;
} time_slot;

struct orr_quick {
    orr_engine *engine;
    const orr_cost_table *table;
    double compute_factor;
    orr_arena *frame; /* of what lives as long as a frame */
    orr_arena *work;  /* of one call */
    orr_resolved now; /* inputs of `base`, the plan asked for */
    frame_key frame_key;
    orr_recompute recompute;
    body_key body_key;
    bool framed, fitted, timed, ordered, folded, weighed, played;
    uint32_t orders;     /* generation of the linker's */
    uint32_t trims;      /* of the engine */
    orr_program program; /* its chunk kinds are `kind` */
    orr_chunk kind[ORR_MAX_CHUNK_KINDS];
    orr_chunk_time accumulation[ORR_MAX_CHUNK_KINDS];
    orr_chunk_time kind_time[ORR_MAX_CHUNK_KINDS];
    orr_stage_times times;
    double jitter_frac;
    orr_play play;
    uint8_t *ready; /* orr_step_ready of it */
    orr_weigher *weigher;
    bool exchanged[SHARD_KINDS];
    orr_exchanges exchanges[SHARD_KINDS];
    time_slot slot[TIME_SLOTS];
};

orr_status orr_quick_new(orr_engine *engine, const orr_resolved *base, double compute_factor,
                         orr_quick **out, orr_err *err) {
    const orr_cost_table *table = NULL;
    ORR_TRY(orr_engine_table(engine, base->cluster, base->software, &table, err));
    orr_quick *quick = (orr_quick *)orr_alloc(sizeof *quick);
    quick->engine = engine;
    quick->trims = engine->trims;
    quick->table = table;
    quick->compute_factor = compute_factor;
    quick->frame = orr_arena_new();
    quick->work = orr_arena_new();
    quick->weigher = orr_weigher_new();
    quick->now = *base;
    *out = quick;
    return ORR_OK;
}

void orr_quick_free(orr_quick *quick) {
    if (quick != NULL) {
        orr_weigher_free(quick->weigher);
        orr_arena_free(quick->frame);
        orr_arena_free(quick->work);
        orr_release(quick);
    }
}

/* ---- what changed ---------------------------------------------------------------------------- */

static void make_frame_key(const orr_plan *plan, frame_key *key) {
    memset(key, 0, sizeof *key);
    key->gpus = plan->gpus;
    key->split = plan->split;
    key->pipe = plan->pipe;
    key->pipe.p2p = 0;
    key->batch = plan->batch;
    key->numeric = plan->numeric;
    key->variant = plan->variant;
    key->lora = plan->lora;
    if (plan->shard.kind >= ORR_SHARD_ZERO3) {
        key->shard = plan->shard;
    }
    key->layout = plan->layout;
}

/* Objects and times are dead. */
static void forget(orr_quick *quick) {
    memset(quick->slot, 0, sizeof quick->slot);
    orr_weigher_forget(quick->weigher);
    quick->trims = quick->engine->trims;
}

static void take(orr_quick *quick, const orr_plan *plan) {
    frame_key frame;
    body_key body;
    make_frame_key(plan, &frame);
    memset(&body, 0, sizeof body);
    body.overlap = plan->overlap & ~(uint32_t)ORR_OVERLAP_DP;
    body.p2p = plan->pipe.p2p;
    bool other_frame = memcmp(&frame, &quick->frame_key, sizeof frame) != 0;
    bool other_recompute = memcmp(&plan->recompute, &quick->recompute, sizeof plan->recompute) != 0;
    bool other_body = memcmp(&body, &quick->body_key, sizeof body) != 0;
    quick->now.plan = *plan;
    if (quick->trims != quick->engine->trims) {
        forget(quick);
        other_frame = true;
    }
    if (other_frame) {
        quick->framed = false;
        quick->frame_key = frame;
    }
    if (other_frame || other_recompute) {
        quick->fitted = false;
        quick->recompute = plan->recompute;
    }
    if (other_frame || other_recompute || other_body) {
        quick->timed = quick->ordered = quick->weighed = quick->played = false;
        quick->body_key = body;
    }
}

/* ---- frame ----------------------------------------------------------------------------------- */

static orr_status set_frame(orr_quick *quick, orr_err *err) {
    const orr_pipe *pipe = &quick->now.plan.pipe;
    uint32_t chunks = pipe->pp * pipe->vpp;
    orr_arena_reset(quick->frame);
    quick->fitted = quick->timed = quick->ordered = quick->weighed = quick->played = false;
    quick->folded = false;
    memset(quick->exchanged, 0, sizeof quick->exchanged);
    ORR_TRY(
        orr_link_chunks(quick->engine->linker, quick->frame, &quick->now, &quick->program, err));
    uint32_t count = quick->program.chunk_kind_count;
    memcpy(quick->kind, quick->program.chunk_kind, count * sizeof *quick->kind);
    quick->program.chunk_kind = quick->kind;
    orr_weigher_chunks(quick->weigher, &quick->program);
    for (uint32_t k = 0; k < count; k++) {
        quick->accumulation[k] = (orr_chunk_time){0};
        orr_add_accumulation(&quick->now, quick->table, &quick->kind[k], &quick->accumulation[k]);
    }
    quick->times = (orr_stage_times){.kind = quick->kind_time,
                                     .f = ORR_NEW_ARRAY(quick->frame, int64_t, chunks),
                                     .b = ORR_NEW_ARRAY(quick->frame, int64_t, chunks),
                                     .w = ORR_NEW_ARRAY(quick->frame, int64_t, chunks),
                                     .hop = ORR_NEW_ARRAY(quick->frame, int64_t, pipe->pp)};
    orr_time_hops(&quick->program, quick->table, &quick->times);
    quick->play = (orr_play){.rank_end = ORR_NEW_ARRAY(quick->frame, int64_t, pipe->pp),
                             .grads_ready = ORR_NEW_ARRAY(quick->frame, int64_t, chunks),
                             .first_use = ORR_NEW_ARRAY(quick->frame, int64_t, chunks)};
    quick->jitter_frac = orr_step_jitter(&quick->now);
    quick->ready = ORR_NEW_ARRAY(quick->frame, uint8_t, chunks);
    quick->framed = true;
    return ORR_OK;
}

static orr_status fit_recompute(orr_quick *quick, orr_err *err) {
    if (!quick->framed) {
        ORR_TRY(set_frame(quick, err));
    }
    if (!quick->fitted) {
        quick->program.modules =
            orr_link_recompute(&quick->now, quick->kind, quick->program.chunk_kind_count);
        quick->fitted = true;
    }
    return ORR_OK;
}

/* ---- times ----------------------------------------------------------------------------------- */

static const orr_part_time *times_of(orr_quick *quick, const orr_object *object,
                                     const orr_timeline_mode *mode) {
    uint64_t mixed = ((uint64_t)(uintptr_t)object >> 4) * 0x9e3779b97f4a7c15u;
    mixed ^= (mode->modules * 4u + mode->checkpointed) * 0xff51afd7ed558ccdu;
    mixed ^= mode->overlap * 0xc4ceb9fe1a85ec53u;
    time_slot *slot = &quick->slot[(mixed >> 32) % TIME_SLOTS];
    if (slot->object != object || slot->modules != mode->modules ||
        slot->overlap != mode->overlap || slot->checkpointed != mode->checkpointed ||
        slot->steady_tp != mode->steady_tp) {
        *slot = (time_slot){
            object,
            mode->modules,
            mode->overlap,
            mode->checkpointed,
            mode->steady_tp,
            orr_engine_times(quick->engine, quick->table, quick->now.software, object, mode)};
    }
    return slot->time;
}

/* The totals alone, added up as orr_time_stages does. */
static void time_kind(orr_quick *quick, uint32_t k, orr_timeline_mode *mode) {
    const orr_chunk *chunk = &quick->kind[k];
    double total_s[ORR_PHASE_COUNT] = {0};
    for (uint32_t i = 0; i < chunk->part_count; i++) {
        const orr_part *part = &chunk->part[i];
        for (uint32_t checkpointed = 0; checkpointed < 2; checkpointed++) {
            uint32_t n = checkpointed ? part->checkpointed : part->count - part->checkpointed;
            if (n == 0) {
                continue;
            }
            mode->checkpointed = checkpointed;
            const orr_part_time *time = times_of(quick, part->object, mode);
            for (int p = 0; p < ORR_PHASE_COUNT; p++) {
                total_s[p] += (double)n * time->phase[p].total_s;
            }
        }
    }
    const orr_chunk_time *more = &quick->accumulation[k];
    total_s[ORR_PHASE_WEIGHT_GRAD] += more->phase[ORR_PHASE_WEIGHT_GRAD].total_s;
    for (int p = 0; p < ORR_PHASE_COUNT; p++) {
        quick->kind_time[k].phase[p].total_s = total_s[p];
    }
}

static double slowest(orr_quick *quick, orr_timeline_mode mode) {
    for (uint32_t k = 0; k < quick->program.chunk_kind_count; k++) {
        time_kind(quick, k, &mode);
    }
    return orr_slowest_rank_s(&quick->program, quick->kind_time);
}

static double steady_time(orr_quick *quick, orr_timeline_mode mode) {
    uint32_t tp = orr_steady_tp(&quick->now);
    if (tp == 0) {
        return 0;
    }
    double fill_s = slowest(quick, mode);
    mode.steady_tp = tp;
    return quick->now.plan.batch.micro_batches * (slowest(quick, mode) - fill_s);
}

static orr_status set_times(orr_quick *quick, orr_err *err) {
    ORR_TRY(fit_recompute(quick, err));
    if (quick->timed) {
        return ORR_OK;
    }
    const orr_program *program = &quick->program;
    const orr_pipe *pipe = &quick->now.plan.pipe;
    orr_timeline_mode mode = orr_program_mode(program, quick->compute_factor);
    /* reductions at the end of the step change no layer */
    mode.overlap |= ORR_OVERLAP_DP;
    int64_t ps[ORR_MAX_CHUNK_KINDS][ORR_PHASE_COUNT];
    quick->times.steady_s = steady_time(quick, mode);
    for (uint32_t k = 0; k < program->chunk_kind_count; k++) {
        time_kind(quick, k, &mode);
        for (int p = 0; p < ORR_PHASE_COUNT; p++) {
            ps[k][p] = orr_ps(quick->kind_time[k].phase[p].total_s);
        }
    }
    for (uint32_t c = 0; c < pipe->pp * pipe->vpp; c++) {
        const int64_t *times = ps[program->chunk[c]];
        quick->times.f[c] = times[ORR_PHASE_FORWARD];
        quick->times.b[c] = times[ORR_PHASE_INPUT_GRAD];
        quick->times.w[c] = times[ORR_PHASE_WEIGHT_GRAD];
    }
    quick->timed = true;
    return ORR_OK;
}

static orr_status find_order(orr_quick *quick, orr_err *err) {
    ORR_TRY(fit_recompute(quick, err));
    if (quick->ordered && orr_linker_trim(quick->engine->linker, SIZE_MAX) == quick->orders) {
        return ORR_OK;
    }
    const orr_order *before = quick->program.order;
    uint32_t orders = orr_linker_trim(quick->engine->linker, MAX_ORDER_BYTES);
    quick->played = false;
    orr_durations d = {0};
    const orr_plan *plan = &quick->now.plan;
    bool by_time = orr_schedule_needs_durations((orr_schedule_kind)plan->pipe.schedule);
    if (by_time) {
        ORR_TRY(set_times(quick, err));
        d = orr_stage_durations(&quick->times);
    }
    orr_arena_reset(quick->work);
    ORR_TRY(orr_link_order(quick->engine->linker, quick->work, plan, &quick->program,
                           by_time ? &d : NULL, &quick->program.order, err));
    quick->folded = quick->folded && orders == quick->orders && before == quick->program.order;
    quick->orders = orders;
    quick->ordered = true;
    return ORR_OK;
}

/* ---- answers --------------------------------------------------------------------------------- */

static orr_status weigh(orr_quick *quick, orr_err *err) {
    ORR_TRY(find_order(quick, err));
    if (!quick->folded) {
        orr_weigher_order(quick->weigher, quick->program.order, quick->orders);
        quick->folded = true;
    }
    if (!quick->weighed) {
        orr_weigher_recompute(quick->weigher);
        quick->weighed = true;
    }
    return ORR_OK;
}

orr_status orr_quick_need(orr_quick *quick, const orr_plan *plan, double *need_bytes,
                          orr_err *err) {
    take(quick, plan);
    ORR_TRY(weigh(quick, err));
    *need_bytes = orr_weigher_need(quick->weigher);
    return ORR_OK;
}

orr_status orr_quick_floor(orr_quick *quick, const orr_plan *plan, double *need_bytes,
                           orr_err *err) {
    take(quick, plan);
    ORR_TRY(weigh(quick, err));
    *need_bytes = orr_weigher_floor(quick->weigher);
    return ORR_OK;
}

orr_status orr_quick_states(orr_quick *quick, const orr_plan *plan, double *need_bytes,
                            orr_err *err) {
    take(quick, plan);
    if (!quick->framed) {
        ORR_TRY(set_frame(quick, err));
    }
    *need_bytes = orr_weigher_states(quick->weigher);
    return ORR_OK;
}

static const orr_exchanges *exchanges_of(orr_quick *quick) {
    uint32_t kind = quick->now.plan.shard.kind;
    kind = kind < SHARD_KINDS ? kind : 0; /* sharded parameters exchange nothing here */
    if (!quick->exchanged[kind]) {
        orr_step_exchanges(&quick->program, quick->table, &quick->exchanges[kind]);
        quick->exchanged[kind] = true;
    }
    return &quick->exchanges[kind];
}

orr_status orr_quick_step(orr_quick *quick, const orr_plan *plan, double *step_s, orr_err *err) {
    take(quick, plan);
    ORR_TRY(set_times(quick, err));
    ORR_TRY(find_order(quick, err));
    if (!quick->played) {
        orr_durations d = orr_stage_durations(&quick->times);
        orr_arena_reset(quick->work);
        ORR_TRY(orr_order_play(quick->program.order, &d, false, quick->work, &quick->play, err));
        orr_step_ready(&quick->now.plan.pipe, &quick->play, quick->ready);
        quick->played = true;
    }
    const orr_exchanges *exchanges = exchanges_of(quick);
    double last_s = -1, jitter_s;
    for (uint32_t r = 0; r < plan->pipe.pp; r++) {
        orr_exchange exposed = orr_step_exposed(&quick->program, exchanges, r, quick->kind_time,
                                                &quick->play, quick->ready);
        double span_s = (double)orr_rank_span(&quick->now, &quick->play, r) * ORR_PS;
        last_s = orr_max_f64(last_s, span_s + exposed.time_s);
    }
    last_s += quick->times.steady_s;
    *step_s = orr_step_close(&quick->now, last_s, exchanges->optimizer.time_s, quick->jitter_frac,
                             &jitter_s);
    return ORR_OK;
}

/* Work of one micro-batch on all ranks. */
static double work_of(const orr_quick *quick) {
    const orr_pipe *pipe = &quick->now.plan.pipe;
    double work_s = 0;
    for (uint32_t c = 0; c < pipe->pp * pipe->vpp; c++) {
        const orr_chunk_time *kind = &quick->kind_time[quick->program.chunk[c]];
        for (int p = 0; p < ORR_PHASE_COUNT; p++) {
            work_s += kind->phase[p].total_s;
        }
    }
    return work_s;
}

/* The step of a rank that does its share of the work and never waits. */
static double even_step(const orr_quick *quick, double work_s) {
    static const double rounding = 1 - 1e-6; /* of picoseconds, and of sums in another order */
    const orr_plan *plan = &quick->now.plan;
    bool twice = orr_schedule_two_way((orr_schedule_kind)plan->pipe.schedule);
    double each_s = work_s / (twice ? 2 : 1) / plan->pipe.pp, jitter_s;
    double end_s = each_s * plan->batch.micro_batches + quick->times.steady_s;
    return orr_step_close(&quick->now, rounding * end_s, 0, quick->jitter_frac, &jitter_s);
}

orr_status orr_quick_bound(orr_quick *quick, const orr_plan *plan, double *step_s, orr_err *err) {
    take(quick, plan);
    ORR_TRY(set_times(quick, err));
    if (orr_ranks_run_on(&quick->now)) { /* the schedule's bound is of its end */
        *step_s = even_step(quick, work_of(quick));
        return ORR_OK;
    }
    orr_schedule_spec spec = orr_plan_schedule(plan);
    orr_durations d = orr_stage_durations(&quick->times);
    double end_s = (double)orr_schedule_bound(&spec, &d) * ORR_PS + quick->times.steady_s, jitter_s;
    *step_s = orr_step_close(&quick->now, end_s, 0, quick->jitter_frac, &jitter_s);
    return ORR_OK;
}

static orr_status share_out(orr_quick *quick, const orr_plan *plan, orr_err *err) {
    take(quick, plan);
    ORR_TRY(set_times(quick, err));
    if (!quick->weighed) {
        orr_weigher_recompute(quick->weigher);
        quick->weighed = true;
    }
    return ORR_OK;
}

orr_status orr_quick_share(orr_quick *quick, const orr_plan *plan, double fits_bytes,
                           double *step_s, orr_err *err) {
    ORR_TRY(share_out(quick, plan, err));
    bool whole = plan->recompute.kind == ORR_RECOMPUTE_FULL;
    double share_bytes =
        whole ? orr_weigher_states_share(quick->weigher) : orr_weigher_share(quick->weigher);
    bool fits = share_bytes <= fits_bytes;
    *step_s = fits ? even_step(quick, work_of(quick)) : HUGE_VAL;
    return ORR_OK;
}

/* Layers of one object: what recomputing one costs and saves. */
typedef struct layer_choice {
    const orr_object *object;
    double count, cost_s, saved_bytes;
} layer_choice;

static double recompute_cost(orr_quick *quick, const orr_object *object) {
    orr_timeline_mode mode = orr_program_mode(&quick->program, quick->compute_factor);
    mode.overlap |= ORR_OVERLAP_DP;
    double cost_s = 0;
    for (uint32_t checkpointed = 0; checkpointed < 2; checkpointed++) {
        mode.checkpointed = checkpointed;
        const orr_part_time *time = times_of(quick, object, &mode);
        for (int p = 0; p < ORR_PHASE_COUNT; p++) {
            cost_s += (checkpointed ? 1 : -1) * time->phase[p].total_s;
        }
    }
    return orr_max_f64(0, cost_s);
}

static uint32_t list_choices(orr_quick *quick, layer_choice *list, uint32_t most) {
    const orr_pipe *pipe = &quick->now.plan.pipe;
    uint32_t count = 0;
    for (uint32_t c = 0; c < pipe->pp * pipe->vpp; c++) {
        const orr_chunk *chunk = &quick->kind[quick->program.chunk[c]];
        for (uint32_t i = 0; i < chunk->part_count; i++) {
            const orr_part *part = &chunk->part[i];
            uint32_t k = 0;
            while (k < count && list[k].object != part->object) {
                k++;
            }
            if (part->role != ORR_PART_LAYER || (k == count && count == most)) {
                continue;
            }
            if (k == count) {
                list[count++] = (layer_choice){part->object, 0, recompute_cost(quick, part->object),
                                               orr_weigher_saved(quick->weigher, part->object)};
            }
            list[k].count += part->count;
        }
    }
    return count;
}

/* A knapsack in fractions: the layers that save most for their time go first. */
orr_status orr_quick_checkpointed_share(orr_quick *quick, const orr_plan *plan, double fits_bytes,
                                        double *step_s, orr_err *err) {
    ORR_TRY(share_out(quick, plan, err));
    layer_choice list[ORR_MAX_LAYER_KINDS];
    uint32_t count = list_choices(quick, list, ORR_MAX_LAYER_KINDS);
    double excess = orr_weigher_excess(quick->weigher, fits_bytes), work_s = work_of(quick);
    if (orr_weigher_states_share(quick->weigher) > fits_bytes) {
        *step_s = HUGE_VAL;
        return ORR_OK;
    }
    while (excess > 0) {
        layer_choice *best = NULL;
        for (uint32_t k = 0; k < count; k++) {
            bool useful = list[k].count > 0 && list[k].saved_bytes > 0;
            if (useful && (best == NULL || list[k].cost_s * best->saved_bytes <
                                               best->cost_s * list[k].saved_bytes)) {
                best = &list[k];
            }
        }
        if (best == NULL) {
            *step_s = HUGE_VAL;
            return ORR_OK;
        }
        double layers = orr_min_f64(best->count, excess / best->saved_bytes);
        work_s += layers * best->cost_s;
        excess = layers < best->count ? 0 : excess - layers * best->saved_bytes;
        best->count = 0;
    }
    *step_s = even_step(quick, work_s);
    return ORR_OK;
}
