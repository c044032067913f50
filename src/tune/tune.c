/* The order of a tuning run: space, search, result. */
#include "tune/tune.h"

#include <math.h>

#include "base/num.h"
#include "base/text.h"
#include "tune/tune_int.h"

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
    orr_tree *measured = NULL, *local = NULL, *seeds = NULL, *free_layers = NULL;
    uint32_t flags = space->interrupted ? TUNE_STOP_INTERRUPT : 0;
    ORR_TRY(tune_front_check(space, err));
    ORR_TRY(tune_ranks_agree(request, &flags, err));
    space->interrupted = flags != 0;
    if (space->interrupted) {
        *outcome = (tune_outcome){.interrupted = true, .open = space->count};
        return tune_write(space, engine, outcome, result, err);
    }
    if (space->count == 0) {
        return tune_nothing_legal(space, err);
    }
    if (request->measured != NULL) {
        ORR_TRY(tune_anchor(space, engine, &measured, err));
    }
    ORR_TRY(look(space, engine, outcome, &seeds, &local, err));
    if (outcome->complete && outcome->keep.top_count == 0 && tune_run_is_limited(space)) {
        ORR_TRY(tune_run_limits_lift(space, engine, err));
        tune_keep_release(&outcome->keep);
        ORR_TRY(look(space, engine, outcome, &seeds, &local, err)); /* what memory is short of */
    }
    ORR_TRY(tune_write(space, engine, outcome, result, err));
    if (!outcome->interrupted) {
        ORR_TRY(tune_refine(space, engine, &outcome->keep, &free_layers));
    }
    const struct {
        const char *key;
        orr_tree *value;
    } parts[] = {{"local_search", local},
                 {"seed", seeds},
                 {"measured", measured},
                 {"free_layout", free_layers}};
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
