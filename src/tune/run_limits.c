/* Limits on the run (days, money, energy) that leave nothing: which of them, and how far each is
 * from the nearest plan. Inside a world all of them rise with the step, so its fastest plan says
 * what it can do at best. */
#include <math.h>

#include "base/err.h"
#include "base/text.h"
#include "tune/tune_int.h"

enum { RUN_LIMITS = 3 };

typedef struct run_limits {
    tune_space *space;
    const double *fastest_s; /* of each world; HUGE_VAL: nothing fits */
    bool complete;           /* the searches went to their end */
} run_limits;

static const char *const option[RUN_LIMITS] = {"--max-days", "--max-cost", "--max-kwh"};
static const char *const takes[RUN_LIMITS] = {"days", "of money", "kWh"};

/* 0: no limit. */
static double most_of(const tune_space *space, uint32_t which) {
    const double most[RUN_LIMITS] = {space->request->max_days, space->request->max_cost,
                                     space->request->max_kwh};
    return most[which];
}

static double taken_by(const run_limits *l, uint32_t world, uint32_t which) {
    const tune_world *w = &l->space->world[world];
    const double of_a_second[RUN_LIMITS] = {w->days, w->money, w->kwh};
    return of_a_second[which] * l->fastest_s[world];
}

static bool meets_others(const run_limits *l, uint32_t world, uint32_t which) {
    for (uint32_t i = 0; i < RUN_LIMITS; i++) {
        double most = most_of(l->space, i);
        if (i != which && most > 0 && taken_by(l, world, i) > most) {
            return false;
        }
    }
    return true;
}

/* The least that a run takes, in worlds that meet the other limits or in any; HUGE_VAL: none. */
static double least(const run_limits *l, uint32_t which, bool others) {
    double best = HUGE_VAL;
    for (uint32_t w = 0; w < l->space->world_count; w++) {
        bool counts = l->fastest_s[w] < HUGE_VAL && (!others || meets_others(l, w, which));
        best = counts ? fmin(best, taken_by(l, w, which)) : best;
    }
    return best;
}

/* Five digits, upwards: a limit of so much is met. */
static double round_up(double value) {
    double unit = pow(10, floor(log10(value)) - 4);
    return ceil(value / unit) * unit;
}

static orr_status refuse(const run_limits *l, orr_err *err) {
    orr_arena *arena = l->space->arena;
    orr_text names = orr_text_new(arena, 400), hint = orr_text_new(arena, 800);
    bool alone = false; /* one of them excludes all plans by itself */
    uint32_t named = 0;
    for (uint32_t i = 0; i < RUN_LIMITS; i++) {
        double most = most_of(l->space, i);
        alone = alone || (most > 0 && least(l, i, false) > most);
    }
    for (uint32_t i = 0; i < RUN_LIMITS; i++) {
        double most = most_of(l->space, i), any = least(l, i, false), near = least(l, i, true);
        if (!(most > 0) || (alone && any <= most)) {
            continue;
        }
        orr_text_format(&names, "%s%s %.10g", named++ > 0 ? " and " : "", option[i], most);
        bool joint = near < HUGE_VAL;
        orr_text_format(&hint, "%sthe least that a plan%s takes%s is %.8g %s: %s %.8g is met",
                        hint.length > 0 ? "; " : "", joint ? "" : ", whatever the other limits,",
                        l->complete ? "" : " of those looked at", round_up(joint ? near : any),
                        takes[i], option[i], round_up(joint ? near : any));
    }
    orr_status status = orr_fail(err, ORR_E_INFEASIBLE, "no plan that fits meets %s%s",
                                 orr_text_done(&names), named > 1 ? " together" : "");
    orr_hint(err, "%s", orr_text_done(&hint));
    return status;
}

/* The fastest plan of every world, whatever its run takes. */
static orr_status find_fastest(tune_space *space, orr_engine *engine, double *fastest_s, bool *any,
                               bool *complete, orr_err *err) {
    const orr_tune_request *before = space->request;
    orr_tune_request quiet = *before;
    quiet.store = NULL;
    quiet.resume = false;
    quiet.objective = ORR_OBJECTIVE_STEP; /* of one world: all the same */
    space->request = &quiet;
    orr_status status = ORR_OK;
    for (uint32_t w = 0; w < space->world_count && status == ORR_OK; w++) {
        tune_world *world = &space->world[w];
        double gain = world->gain;
        tune_outcome outcome = {0};
        world->gain = 1;
        world->most_step_s = HUGE_VAL;
        status = tune_search_world(space, engine, w, &outcome, err);
        world->gain = gain;
        bool found = status == ORR_OK && outcome.keep.top_count > 0;
        fastest_s[w] = found ? outcome.keep.top[0].step_s : HUGE_VAL;
        *any = *any || found;
        *complete = *complete && outcome.complete;
        tune_keep_release(&outcome.keep);
    }
    space->request = before;
    return status;
}

bool tune_run_is_limited(const tune_space *space) {
    return most_of(space, 0) > 0 || most_of(space, 1) > 0 || most_of(space, 2) > 0;
}

orr_status tune_run_limits_lift(tune_space *space, orr_engine *engine, orr_err *err) {
    double *fastest_s = ORR_NEW_ARRAY(space->arena, double, space->world_count);
    bool any = false, complete = true;
    ORR_TRY(find_fastest(space, engine, fastest_s, &any, &complete, err));
    run_limits l = {.space = space, .fastest_s = fastest_s, .complete = complete};
    return any ? refuse(&l, err) : ORR_OK;
}
