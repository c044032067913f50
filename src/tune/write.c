/* The outcome as a result tree. What is shown of a plan comes from a projection in full. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "tune/tune_int.h"

enum { MAX_ORDER_BYTES = 256 << 20 };

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
    orr_anchor anchor = {.factor = w->space->compute_factor};
    bool anchored = w->space->request->measured != NULL;
    orr_engine_trim(w->engine, MAX_ORDER_BYTES);
    ORR_TRY(orr_project(w->engine, w->arena, r, anchored ? &anchor : NULL, projection, err));
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
    orr_tree_put_text(w->arena, verdict, "fit",
                      projection->memory.fit == ORR_TIGHT  ? "tight"
                      : projection->memory.fit < ORR_TIGHT ? "fits"
                                                           : "does_not_fit");
    orr_tree_put_real(w->arena, verdict, "p_oom", projection->memory.p_oom);
    orr_tree_put_real(w->arena, map, "headroom_frac",
                      1 - projection->memory.worst.need_bytes / projection->memory.capacity_bytes);
    tune_write_run(w->arena, world, projection->step_s, map);
    *out = map;
    return ORR_OK;
}

/* ---- choices --------------------------------------------------------------------------------- */

/* Kinds that gather parameters are names of one thing. */
static uint8_t shard_class(const tune_found *found) {
    return (uint8_t)orr_min_u32(found->plan.shard.kind, ORR_SHARD_ZERO3);
}

/* Two plans are much the same when their splits and schedule are. */
static bool alike(const tune_found *a, const tune_found *b) {
    return a->world == b->world &&
           memcmp(&a->plan.split, &b->plan.split, sizeof a->plan.split) == 0 &&
           a->plan.pipe.pp == b->plan.pipe.pp && a->plan.pipe.vpp == b->plan.pipe.vpp &&
           a->plan.pipe.schedule == b->plan.pipe.schedule &&
           a->plan.batch.mbs == b->plan.batch.mbs && shard_class(a) == shard_class(b);
}

enum { SHOWN = 10, CANDIDATES = 24, FINALISTS = 3 };

typedef struct candidates {
    uint32_t count, found[CANDIDATES]; /* index into keep.top */
    orr_projection projection[CANDIDATES];
    orr_tree *entry[CANDIDATES];
    double chance[CANDIDATES];
} candidates;

static orr_status write_found(writer *w, const tune_found *found, orr_tree **out,
                              orr_projection *projection, orr_err *err) {
    return write_plan(w, &w->space->world[found->world], &found->plan, out, projection, err);
}

/* What was measured of the plan; 0: nothing. */
static double measured_step(const tune_space *space, const tune_found *found) {
    for (uint32_t i = 0; i < space->measured_count; i++) {
        if (memcmp(&space->measured[i].plan, &found->plan, sizeof found->plan) == 0) {
            return space->measured[i].step_s;
        }
    }
    return 0;
}

/* The best, each of another kind, and those that were measured. */
static orr_status choose(writer *w, candidates *c, orr_err *err) {
    const tune_keep *keep = &w->outcome->keep;
    for (uint32_t i = 0; i < keep->top_count && c->count < CANDIDATES; i++) {
        bool known = false, own = measured_step(w->space, &keep->top[i]) > 0;
        for (uint32_t k = 0; k < c->count && !known && !own; k++) {
            known = alike(&keep->top[i], &keep->top[c->found[k]]);
        }
        if (!known) {
            c->found[c->count] = i;
            ORR_TRY(
                write_found(w, &keep->top[i], &c->entry[c->count], &c->projection[c->count], err));
            c->count++;
        }
    }
    double cost[CANDIDATES];
    bool sure[CANDIDATES] = {false};
    for (uint32_t i = 0; i < c->count; i++) {
        const tune_found *found = &keep->top[c->found[i]];
        double step_s = measured_step(w->space, found);
        sure[i] = step_s > 0;
        cost[i] = sure[i] ? tune_cost(&w->space->world[found->world], step_s) : found->cost;
        if (sure[i]) {
            orr_tree_put_real(w->arena, c->entry[i], "measured_tokens_per_s_per_gpu",
                              (double)found->plan.gbs * found->plan.batch.seq / step_s /
                                  found->plan.gpus);
        }
    }
    tune_win_chances(c->projection, cost, sure, c->count, c->chance);
    return ORR_OK;
}

static void write_top(writer *w, const candidates *c, orr_tree *result) {
    orr_tree *list = orr_tree_put(w->arena, result, "top", orr_tree_new_list(w->arena));
    for (uint32_t i = 0; i < c->count && i < SHOWN; i++) {
        (void)orr_tree_push(w->arena, list, orr_tree_copy(w->arena, c->entry[i]));
    }
}

static orr_status write_finalists(writer *w, const candidates *c, orr_tree *result, orr_err *err) {
    orr_tree *list = orr_tree_put(w->arena, result, "finalists", orr_tree_new_list(w->arena));
    bool taken[CANDIDATES] = {false};
    double together = 0;
    for (uint32_t n = 0; n < FINALISTS && n < c->count; n++) {
        uint32_t best = CANDIDATES;
        for (uint32_t i = 0; i < c->count; i++) {
            if (!taken[i] && (best == CANDIDATES || c->chance[i] > c->chance[best])) {
                best = i;
            }
        }
        taken[best] = true;
        together += c->chance[best];
        orr_tree *one = orr_tree_push(w->arena, list, orr_tree_copy(w->arena, c->entry[best]));
        orr_tree_put_real(w->arena, one, "p_best", c->chance[best]);
        if (w->space->request->store != NULL) {
            ORR_TRY(tune_store_found(w->space, w->outcome->key, "finalist",
                                     &w->outcome->keep.top[c->found[best]], w->outcome->wall_s,
                                     err));
        }
    }
    orr_tree_put_real(w->arena, result, "finalists_p_best", together);
    return ORR_OK;
}

static orr_status write_front(writer *w, orr_tree *result, orr_err *err) {
    const tune_keep *keep = &w->outcome->keep;
    orr_tree *list = orr_tree_put(w->arena, result, "pareto", orr_tree_new_list(w->arena));
    uint32_t step = keep->front_count > SHOWN ? keep->front_count / SHOWN : 1;
    for (uint32_t i = 0; i < keep->front_count; i += step) {
        orr_projection projection;
        orr_tree *one = NULL;
        ORR_TRY(write_found(w, &keep->front[i], &one, &projection, err));
        (void)orr_tree_push(w->arena, list, one);
    }
    return ORR_OK;
}

/* ---- against another plan -------------------------------------------------------------------- */

static bool same_work(const orr_resolved *a, const orr_resolved *b) {
    return strcmp(a->model->name, b->model->name) == 0 &&
           strcmp(a->cluster->accelerator->name, b->cluster->accelerator->name) == 0 &&
           strcmp(a->software->name, b->software->name) == 0 && a->plan.gpus == b->plan.gpus &&
           a->plan.gbs == b->plan.gbs && a->plan.batch.seq == b->plan.batch.seq;
}

static orr_status write_baseline(writer *w, orr_tree *result, orr_err *err) {
    const tune_keep *keep = &w->outcome->keep;
    orr_resolved *start = ORR_NEW(w->arena, orr_resolved);
    orr_violation broken[ORR_MAX_VIOLATIONS];
    if (w->space->request->baseline == NULL || w->outcome->interrupted) {
        (void)orr_tree_put(w->arena, result, "baseline", orr_tree_null(w->arena));
        return ORR_OK;
    }
    ORR_TRY(orr_plan_resolve(w->arena, w->space->request->baseline, start, err));
    bool legal = orr_plan_legal(start);
    orr_tree *entry = NULL;
    if (legal) {
        tune_world alone = {.base = *start};
        orr_projection projection;
        ORR_TRY(write_plan(w, &alone, &start->plan, &entry, &projection, err));
        orr_tree_put_bool(w->arena, entry, "legal", true);
        const tune_found *best = keep->top_count > 0 ? &keep->top[0] : NULL;
        const tune_world *world = best != NULL ? &w->space->world[best->world] : NULL;
        if (best != NULL && same_work(&world->base, start)) {
            orr_tree *levers = NULL;
            ORR_TRY(tune_attribute(w->arena, w->engine, world, w->space->compute_factor,
                                   tune_fits_bytes(w->space, world), &start->plan, &best->plan,
                                   &levers, err));
            (void)orr_tree_put(w->arena, entry, "attribution", levers);
            orr_tree_put_real(w->arena, entry, "gain_frac", projection.step_s / best->step_s - 1);
        }
    } else {
        entry = orr_tree_new_map(w->arena);
        (void)orr_tree_put(w->arena, entry, "plan", orr_plan_write(w->arena, start));
        orr_tree_put_bool(w->arena, entry, "legal", false);
        uint32_t count = orr_plan_check(w->arena, start, broken);
        orr_tree *rules = orr_tree_put(w->arena, entry, "rules", orr_tree_new_list(w->arena));
        for (uint32_t i = 0; i < count && i < ORR_MAX_VIOLATIONS; i++) {
            orr_tree *rule = orr_tree_push(w->arena, rules, orr_tree_new_map(w->arena));
            orr_tree_put_text(w->arena, rule, "id", broken[i].rule);
            orr_tree_put_text(w->arena, rule, "message", broken[i].message);
        }
    }
    (void)orr_tree_put(w->arena, result, "baseline", entry);
    return ORR_OK;
}

static orr_status write_robustness(writer *w, const candidates *c, orr_tree *result, orr_err *err) {
    const tune_keep *keep = &w->outcome->keep;
    const tune_found *found[SHOWN] = {NULL};
    uint32_t count = orr_min_u32(c->count, SHOWN);
    orr_tree *map = NULL;
    if (count == 0 || w->outcome->interrupted) {
        return ORR_OK;
    }
    for (uint32_t i = 0; i < count; i++) {
        found[i] = &keep->top[c->found[i]];
    }
    ORR_TRY(tune_robustness(w->space, w->engine, found, c->projection, count, keep->within_frac,
                            &map, err));
    (void)orr_tree_put(w->arena, result, "robustness", map);
    return ORR_OK;
}

static void write_certificate(writer *w, orr_tree *result) {
    tune_outcome *o = w->outcome;
    tune_keep *keep = &o->keep;
    orr_tree *map = orr_tree_put(w->arena, result, "certificate", orr_tree_new_map(w->arena));
    uint64_t pruned = keep->pruned_time + keep->pruned_memory + keep->unanswered;
    bool found = keep->top_count > 0;
    double gap = o->complete ? 0
                 : found     ? orr_max_f64(0, 1 - o->least_open / tune_keep_best(keep))
                             : 1;
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
    orr_tree *map = orr_tree_new_map(w.arena);
    candidates *c = ORR_NEW(w.arena, candidates);
    ORR_TRY(choose(&w, c, err));
    (void)orr_tree_put(w.arena, map, "best",
                       c->count > 0 ? orr_tree_copy(w.arena, c->entry[0]) : orr_tree_null(w.arena));
    write_certificate(&w, map);
    orr_tree_put_real(w.arena, map, "rate_per_s",
                      outcome->wall_s > 0
                          ? (double)(keep->evaluated - outcome->evaluated_before) / outcome->wall_s
                          : 0);
    orr_tree_put_real(w.arena, map, "wall_s", outcome->wall_s);
    orr_tree_put_int(w.arena, map, "threads", outcome->threads);
    if (tune_rank_count(space->request) > 1) {
        orr_tree_put_int(w.arena, map, "ranks", tune_rank_count(space->request));
    }
    if (outcome->resumed_at > 0) {
        orr_tree_put_int(w.arena, map, "resumed_at_family", outcome->resumed_at);
    }
    if (outcome->interrupted) {
        orr_tree_put_bool(w.arena, map, "interrupted", true);
    }
    bool looked = outcome->complete || keep->evaluated + keep->pruned_memory > 0;
    if (c->count == 0 && !looked) {
        orr_tree_put_bool(w.arena, map, "nothing_looked_at", true);
    } else if (c->count == 0) {
        orr_tree *verdict = orr_tree_put(w.arena, map, "verdict", orr_tree_new_map(w.arena));
        orr_tree_put_bool(w.arena, verdict, "fits", false);
        if (keep->least_need_bytes > 0) {
            orr_tree_put_real(w.arena, map, "least_need_bytes", keep->least_need_bytes);
        }
    }
    write_top(&w, c, map);
    ORR_TRY(write_front(&w, map, err));
    ORR_TRY(write_finalists(&w, c, map, err));
    ORR_TRY(write_baseline(&w, map, err));
    ORR_TRY(write_robustness(&w, c, map, err));
    *result = map;
    return ORR_OK;
}
