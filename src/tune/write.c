/* The outcome as a result tree. What is shown of a plan comes from a projection in full. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "tune/tune_int.h"

typedef struct writer {
    tune_space *space;
    orr_engine *engine;
    orr_arena *arena;
    tune_outcome *outcome;
} writer;

static orr_status write_plan(writer *w, const tune_world *world, const orr_plan *plan,
                             orr_tree **out, orr_projection *projection, orr_err *err) {
    orr_resolved *r = ORR_NEW(w->arena, orr_resolved);
    *r = world->base;
    r->plan = *plan;
    ORR_TRY(orr_project(w->engine, w->arena, r, NULL, projection, err));
    orr_tree *map = orr_tree_new_map(w->arena);
    (void)orr_tree_put(w->arena, map, "plan", orr_plan_write(w->arena, r));
    const orr_tree *all = orr_projection_write(w->arena, projection);
    static const char *const keys[] = {"tokens_per_s_per_gpu", "tokens_per_s", "step_time_s",
                                       "interval_90",          "mfu",          "memory"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const orr_tree *value = orr_tree_get(all, keys[i]);
        if (value != NULL) {
            (void)orr_tree_put(w->arena, map, keys[i], orr_tree_copy(w->arena, value));
        }
    }
    orr_tree *verdict = orr_tree_put(w->arena, map, "verdict", orr_tree_new_map(w->arena));
    orr_tree_put_bool(w->arena, verdict, "fits", projection->memory.fit <= ORR_TIGHT);
    orr_tree_put_real(w->arena, verdict, "p_oom", projection->memory.p_oom);
    orr_tree_put_real(w->arena, map, "headroom_frac",
                      1 - projection->memory.worst.need_bytes / projection->memory.capacity_bytes);
    *out = map;
    return ORR_OK;
}

static orr_status write_found(writer *w, const tune_found *found, orr_tree **out, orr_err *err) {
    orr_projection projection;
    return write_plan(w, &w->space->world[found->world], &found->plan, out, &projection, err);
}

/* ---- choices --------------------------------------------------------------------------------- */

/* Two plans are much the same when their splits and schedule are. */
static bool alike(const tune_found *a, const tune_found *b) {
    return a->world == b->world &&
           memcmp(&a->plan.split, &b->plan.split, sizeof a->plan.split) == 0 &&
           a->plan.pipe.pp == b->plan.pipe.pp && a->plan.pipe.vpp == b->plan.pipe.vpp &&
           a->plan.pipe.schedule == b->plan.pipe.schedule &&
           a->plan.batch.mbs == b->plan.batch.mbs && a->plan.shard.kind == b->plan.shard.kind;
}

enum { SHOWN = 10 };

static orr_status write_top(writer *w, orr_tree *result, orr_err *err) {
    const tune_keep *keep = &w->outcome->keep;
    orr_tree *list = orr_tree_put(w->arena, result, "top", orr_tree_new_list(w->arena));
    uint32_t chosen[SHOWN], count = 0;
    for (uint32_t i = 0; i < keep->top_count && count < SHOWN; i++) {
        bool known = false;
        for (uint32_t k = 0; k < count && !known; k++) {
            known = alike(&keep->top[i], &keep->top[chosen[k]]);
        }
        if (known) {
            continue;
        }
        chosen[count++] = i;
        orr_tree *one = NULL;
        ORR_TRY(write_found(w, &keep->top[i], &one, err));
        (void)orr_tree_push(w->arena, list, one);
    }
    return ORR_OK;
}

static orr_status write_front(writer *w, orr_tree *result, orr_err *err) {
    const tune_keep *keep = &w->outcome->keep;
    orr_tree *list = orr_tree_put(w->arena, result, "pareto", orr_tree_new_list(w->arena));
    uint32_t step = keep->front_count > SHOWN ? keep->front_count / SHOWN : 1;
    for (uint32_t i = 0; i < keep->front_count; i += step) {
        orr_tree *one = NULL;
        ORR_TRY(write_found(w, &keep->front[i], &one, err));
        (void)orr_tree_push(w->arena, list, one);
    }
    return ORR_OK;
}

static void write_certificate(writer *w, orr_tree *result) {
    tune_outcome *o = w->outcome;
    tune_keep *keep = &o->keep;
    orr_tree *map = orr_tree_put(w->arena, result, "certificate", orr_tree_new_map(w->arena));
    uint64_t pruned = keep->pruned_time + keep->pruned_memory + keep->unanswered;
    double gap = o->complete || !isfinite(tune_keep_best(keep))
                     ? 0
                     : orr_max_f64(0, 1 - o->least_open / tune_keep_best(keep));
    orr_tree_put_int(w->arena, map, "space", (int64_t)w->space->count);
    orr_tree_put_int(w->arena, map, "evaluated", (int64_t)keep->evaluated);
    orr_tree_put_int(w->arena, map, "pruned", (int64_t)pruned);
    orr_tree *by = orr_tree_put(w->arena, map, "pruned_by", orr_tree_new_map(w->arena));
    orr_tree_put_int(w->arena, by, "time_bound", (int64_t)keep->pruned_time);
    orr_tree_put_int(w->arena, by, "memory", (int64_t)keep->pruned_memory);
    orr_tree_put_int(w->arena, by, "limit", (int64_t)keep->unanswered);
    orr_tree_put_int(w->arena, map, "open", (int64_t)o->open);
    orr_tree_put_bool(w->arena, map, "complete", o->complete);
    orr_tree_put_real(w->arena, map, "gap", gap);
    orr_tree_put_int(w->arena, map, "within_model_error", (int64_t)tune_keep_near(keep));
    orr_tree_put_real(w->arena, map, "model_error", keep->within_frac);
    orr_tree_put_int(w->arena, map, "families", w->space->family_count);
}

orr_status tune_write(tune_space *space, orr_engine *engine, tune_outcome *outcome,
                      orr_tree **result, orr_err *err) {
    writer w = {.space = space, .engine = engine, .arena = space->arena, .outcome = outcome};
    const tune_keep *keep = &outcome->keep;
    orr_tree *map = orr_tree_new_map(w.arena), *best = NULL;
    if (keep->top_count > 0) {
        ORR_TRY(write_found(&w, &keep->top[0], &best, err));
    }
    (void)orr_tree_put(w.arena, map, "best", best != NULL ? best : orr_tree_null(w.arena));
    write_certificate(&w, map);
    orr_tree_put_real(w.arena, map, "rate_per_s",
                      outcome->wall_s > 0 ? (double)keep->evaluated / outcome->wall_s : 0);
    orr_tree_put_real(w.arena, map, "wall_s", outcome->wall_s);
    orr_tree_put_int(w.arena, map, "threads", outcome->threads);
    ORR_TRY(write_top(&w, map, err));
    ORR_TRY(write_front(&w, map, err));
    *result = map;
    return ORR_OK;
}
