/* The order of a tuning run: space, search, result. */
#include "tune/tune.h"

#include <math.h>

#include "base/num.h"
#include "base/text.h"
#include "tune/tune_int.h"

/* ---- an empty space -------------------------------------------------------------------------- */

/* The limits but one. */
static orr_tree *without(orr_arena *arena, const orr_tree *list, size_t left_out) {
    orr_tree *out = orr_tree_new_list(arena);
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        if (i != left_out) {
            (void)orr_tree_push(arena, out, orr_tree_copy(arena, orr_tree_at(list, i)));
        }
    }
    return out;
}

static uint64_t count_without(orr_arena *arena, const orr_tune_request *request, size_t pin,
                              size_t range) {
    orr_tune_request trial = *request;
    tune_space space;
    orr_err ignored = {0};
    trial.pins = without(arena, request->pins, pin);
    trial.ranges = without(arena, request->ranges, range);
    orr_status status = tune_space_make(arena, &trial, &space, &ignored);
    uint64_t count = status == ORR_OK ? space.count : 0;
    tune_space_release(&space);
    return count;
}

static void add_relaxation(orr_text *text, const char *limit, uint64_t count) {
    if (count > 0) {
        orr_text_format(text, "%swithout %s there are %llu legal plans",
                        text->length > 0 ? "; " : "", limit, (unsigned long long)count);
    }
}

/* A plan that takes the first value of every limit, to ask the rules what they have against it. */
static void put_first(const tune_limits *limits, orr_plan *plan) {
    const struct {
        tune_axis axis;
        uint32_t *value;
    } numbers[] = {{AXIS_TP, &plan->split.tp},   {AXIS_CP, &plan->split.cp},
                   {AXIS_PP, &plan->pipe.pp},    {AXIS_EP, &plan->split.ep},
                   {AXIS_ETP, &plan->split.etp}, {AXIS_MBS, &plan->batch.mbs},
                   {AXIS_VPP, &plan->pipe.vpp}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const tune_limit *limit = &limits->axis[numbers[i].axis];
        *numbers[i].value = limit->count > 0 ? limit->interval[0].low : 1;
    }
    plan->pipe.schedule = plan->pipe.vpp > 1 ? ORR_SCHEDULE_INTERLEAVED : ORR_SCHEDULE_1F1B;
}

static orr_status nothing_legal(const tune_space *space, orr_err *err) {
    orr_arena *arena = space->arena;
    const orr_tune_request *request = space->request;
    const tune_world *world = &space->world[0];
    orr_resolved r = world->base;
    orr_violation broken[ORR_MAX_VIOLATIONS];
    put_first(&space->limits, &r.plan);
    bool divides = tune_settle(world, &r.plan);
    uint32_t count = orr_plan_check(arena, &r, broken);
    const char *why = count > 0 && broken[0].effect != ORR_RULE_WARNING ? broken[0].message : NULL;
    if (why == NULL) {
        why = divides ? "the limits exclude each other"
                      : "degrees and micro-batches do not divide gpus and gbs";
    }
    orr_status status = orr_fail(err, ORR_E_INFEASIBLE, "no plan of the space is legal: %s", why);
    orr_text hint = orr_text_new(arena, 400);
    size_t pins = orr_tree_size(request->pins), ranges = orr_tree_size(request->ranges);
    for (size_t i = 0; i < pins; i++) {
        add_relaxation(&hint, orr_tree_text(orr_tree_at(request->pins, i), ""),
                       count_without(arena, request, i, ranges));
    }
    for (size_t i = 0; i < ranges; i++) {
        add_relaxation(&hint, orr_tree_text(orr_tree_at(request->ranges, i), ""),
                       count_without(arena, request, pins, i));
    }
    orr_hint(err, "%s",
             hint.length > 0 ? orr_text_done(&hint)
                             : "no single pin or range is to blame: take back several");
    return status;
}

/* Of the local search where a budget ended the exhaustive one. */
enum { LOCAL_EVALUATIONS = 6000 };

/* ---- the order ------------------------------------------------------------------------------- */

/* Seeds, search, and, where a budget ended it, what a local search adds. */
static orr_status look(tune_space *space, orr_engine *engine, tune_outcome *outcome,
                       orr_tree **seeds, orr_tree **local, orr_err *err) {
    tune_found found = {.cost = HUGE_VAL};
    uint32_t budget = space->request->seed_budget;
    if (budget > 0) {
        ORR_TRY(tune_seed(space, engine, budget, &found, seeds, err));
    }
    bool known = found.cost < HUGE_VAL && !space->request->brute;
    ORR_TRY(tune_search(space, engine, known ? &found : NULL, outcome, err));
    if (!outcome->complete && !outcome->interrupted) {
        ORR_TRY(tune_descend(space, engine, LOCAL_EVALUATIONS, &outcome->keep, local, err));
    }
    return ORR_OK;
}

static orr_status add_what_if(tune_space *space, orr_engine *engine, tune_outcome *outcome,
                              orr_tree *result, orr_err *err) {
    orr_tree *figures = NULL;
    bool wanted = space->request->what_if && outcome->keep.top_count > 0 && !outcome->interrupted;
    if (wanted) {
        ORR_TRY(tune_what_if(space, engine, &outcome->keep.top[0], &figures, err));
        (void)orr_tree_put(space->arena, result, "what_if", figures);
    }
    return ORR_OK;
}

static orr_status tune_space_through(tune_space *space, orr_engine *engine, tune_outcome *outcome,
                                     orr_tree **result, orr_err *err) {
    orr_tune_request *request = space->asked;
    orr_arena *arena = space->arena;
    orr_tree *measured = NULL, *local = NULL, *seeds = NULL;
    uint32_t flags = space->interrupted ? TUNE_STOP_INTERRUPT : 0;
    ORR_TRY(tune_ranks_agree(request, &flags, err));
    space->interrupted = flags != 0;
    if (space->interrupted) {
        *outcome = (tune_outcome){.interrupted = true, .open = space->count};
        return tune_write(space, engine, outcome, result, err);
    }
    if (space->count == 0) {
        return nothing_legal(space, err);
    }
    if (request->measured != NULL) {
        ORR_TRY(tune_anchor(space, engine, &measured, err));
    }
    ORR_TRY(look(space, engine, outcome, &seeds, &local, err));
    ORR_TRY(tune_write(space, engine, outcome, result, err));
    const struct {
        const char *key;
        orr_tree *value;
    } parts[] = {{"local_search", local}, {"seed", seeds}, {"measured", measured}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].value != NULL) {
            (void)orr_tree_put(arena, *result, parts[i].key, parts[i].value);
        }
    }
    if (measured != NULL) {
        orr_tree_put_real(arena, *result, "compute_factor", space->compute_factor);
    }
    ORR_TRY(add_what_if(space, engine, outcome, *result, err));
    if (request->front != NULL && !outcome->interrupted) {
        orr_tree *front = NULL;
        ORR_TRY(tune_front(space, engine, &front, err));
        (void)orr_tree_put(arena, *result, "fronts", front);
    }
    request->key = outcome->key;
    return ORR_OK;
}

orr_status orr_tune(orr_engine *engine, orr_arena *arena, orr_tune_request *request,
                    orr_tree **result, orr_err *err) {
    tune_space space;
    tune_outcome outcome = {0};
    orr_status status = tune_space_make(arena, request, &space, err);
    if (status == ORR_OK) {
        space.asked = request;
        status = tune_space_through(&space, engine, &outcome, result, err);
    }
    tune_keep_release(&outcome.keep);
    tune_space_release(&space);
    return status;
}
