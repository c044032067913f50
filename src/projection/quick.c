#include "projection/quick.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "projection/projection_int.h"

/* What chunks, times, order and play depend on: all of a plan but what only its end reads. */
typedef struct body_key {
    uint32_t gpus, overlap;
    orr_split split;
    orr_pipe pipe;
    orr_batch batch;
    orr_numeric numeric;
    orr_variant variant;
    orr_recompute recompute;
    orr_shard shard; /* of sharded parameters, else zero */
    const orr_layout *layout;
} body_key;

struct orr_quick {
    orr_engine *engine;
    const orr_cost_table *table;
    double compute_factor;
    orr_arena *body;  /* of what follows; reset when the body changes */
    orr_arena *work;  /* of one call */
    orr_resolved now; /* inputs of `base`, the plan asked for */
    body_key key;
    bool linked, timed, ordered, played;
    orr_program program;
    orr_stage_times times;
    orr_play play;
    orr_needs *needs;
    orr_exchanges exchanges;
};

orr_status orr_quick_new(orr_engine *engine, const orr_resolved *base, double compute_factor,
                         orr_quick **out, orr_err *err) {
    const orr_cost_table *table = NULL;
    ORR_TRY(orr_engine_table(engine, base->cluster, base->software, &table, err));
    orr_quick *quick = (orr_quick *)orr_alloc(sizeof *quick);
    quick->engine = engine;
    quick->table = table;
    quick->compute_factor = compute_factor;
    quick->body = orr_arena_new();
    quick->work = orr_arena_new();
    quick->now = *base;
    *out = quick;
    return ORR_OK;
}

void orr_quick_free(orr_quick *quick) {
    if (quick != NULL) {
        orr_arena_free(quick->body);
        orr_arena_free(quick->work);
        orr_release(quick);
    }
}

static void make_key(const orr_plan *plan, body_key *key) {
    memset(key, 0, sizeof *key);
    key->gpus = plan->gpus;
    key->overlap = plan->overlap & ~(uint32_t)ORR_OVERLAP_DP;
    key->split = plan->split;
    key->pipe = plan->pipe;
    key->batch = plan->batch;
    key->numeric = plan->numeric;
    key->variant = plan->variant;
    key->recompute = plan->recompute;
    if (plan->shard.kind >= ORR_SHARD_ZERO3) {
        key->shard = plan->shard;
    }
    key->layout = plan->layout;
}

static void take(orr_quick *quick, const orr_plan *plan) {
    body_key key;
    make_key(plan, &key);
    quick->now.plan = *plan;
    if (memcmp(&key, &quick->key, sizeof key) != 0) {
        quick->key = key;
        quick->linked = quick->timed = quick->ordered = quick->played = false;
        quick->needs = NULL;
    }
}

static orr_status link_and_time(orr_quick *quick, orr_err *err) {
    if (!quick->linked) {
        orr_arena_reset(quick->body);
        ORR_TRY(
            orr_link_chunks(quick->engine->linker, quick->body, &quick->now, &quick->program, err));
        quick->linked = true;
    }
    if (!quick->timed) {
        quick->times = (orr_stage_times){0};
        orr_time_stages(quick->engine, quick->body, &quick->program, quick->table,
                        quick->compute_factor, &quick->times);
        quick->timed = true;
    }
    return ORR_OK;
}

static orr_status find_order(orr_quick *quick, orr_err *err) {
    ORR_TRY(link_and_time(quick, err));
    if (!quick->ordered) {
        orr_durations d = orr_stage_durations(&quick->times);
        ORR_TRY(orr_link_order(quick->engine->linker, quick->body, &quick->now.plan, &d,
                               &quick->program.order, err));
        quick->ordered = true;
    }
    return ORR_OK;
}

orr_status orr_quick_need(orr_quick *quick, const orr_plan *plan, double *need_bytes,
                          orr_err *err) {
    take(quick, plan);
    ORR_TRY(find_order(quick, err));
    if (quick->needs == NULL) {
        quick->needs = orr_memory_needs(&quick->program, quick->body);
    }
    *need_bytes = orr_memory_need(quick->needs);
    return ORR_OK;
}

static orr_status play(orr_quick *quick, orr_err *err) {
    ORR_TRY(find_order(quick, err));
    if (quick->played) {
        return ORR_OK;
    }
    const orr_pipe *pipe = &quick->now.plan.pipe;
    uint32_t chunks = pipe->pp * pipe->vpp;
    orr_durations d = orr_stage_durations(&quick->times);
    quick->play = (orr_play){.rank_end = ORR_NEW_ARRAY(quick->body, int64_t, pipe->pp),
                             .grads_ready = ORR_NEW_ARRAY(quick->body, int64_t, chunks),
                             .first_use = ORR_NEW_ARRAY(quick->body, int64_t, chunks)};
    orr_arena_reset(quick->work);
    ORR_TRY(orr_order_play(quick->program.order, &d, false, quick->work, &quick->play, err));
    quick->played = true;
    return ORR_OK;
}

orr_status orr_quick_step(orr_quick *quick, const orr_plan *plan, double *step_s, orr_err *err) {
    take(quick, plan);
    ORR_TRY(play(quick, err));
    orr_step_exchanges(&quick->program, quick->table, &quick->exchanges);
    double last_s = -1, optimizer_s = 0, jitter_s;
    for (uint32_t r = 0; r < plan->pipe.pp; r++) {
        orr_step_end end = orr_step_end_cost(&quick->program, quick->table, &quick->exchanges, r,
                                             quick->times.kind, &quick->play);
        last_s = orr_max_f64(last_s, (double)quick->play.rank_end[r] * ORR_PS + end.dp_s);
        optimizer_s = orr_max_f64(optimizer_s, end.optimizer_s);
    }
    *step_s = orr_step_close(&quick->now, last_s, optimizer_s, &jitter_s);
    return ORR_OK;
}

orr_status orr_quick_bound(orr_quick *quick, const orr_plan *plan, double *step_s, orr_err *err) {
    take(quick, plan);
    ORR_TRY(link_and_time(quick, err));
    orr_schedule_spec spec = orr_plan_schedule(plan);
    orr_durations d = orr_stage_durations(&quick->times);
    double end_s = (double)orr_schedule_bound(&spec, &d) * ORR_PS, jitter_s;
    *step_s = orr_step_close(&quick->now, end_s, 0, &jitter_s);
    return ORR_OK;
}

orr_status orr_quick_work_bound(orr_quick *quick, const orr_plan *plan, double *step_s,
                                orr_err *err) {
    static const double rounding = 1 - 1e-6; /* of picoseconds, and of sums in another order */
    take(quick, plan);
    ORR_TRY(link_and_time(quick, err));
    double work_s = 0, jitter_s;
    uint32_t chunks = plan->pipe.pp * plan->pipe.vpp;
    for (uint32_t c = 0; c < chunks; c++) {
        const orr_chunk_time *kind = &quick->times.kind[quick->program.chunk[c]];
        for (int p = 0; p < ORR_PHASE_COUNT; p++) {
            work_s += kind->phase[p].total_s;
        }
    }
    bool twice = orr_schedule_two_way((orr_schedule_kind)plan->pipe.schedule);
    double each_s = work_s / (twice ? 2 : 1) / plan->pipe.pp;
    *step_s =
        orr_step_close(&quick->now, rounding * each_s * plan->batch.micro_batches, 0, &jitter_s);
    return ORR_OK;
}
