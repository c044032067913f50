/* The order of a tuning run: space, search, result. */
#include "tune/tune.h"

#include "base/num.h"
#include "tune/tune_int.h"

static orr_status nothing_legal(const tune_space *space, orr_err *err) {
    (void)space;
    orr_status status = orr_fail(err, ORR_E_INFEASIBLE, "no plan of the space is legal");
    orr_hint(err, "take back a pin or widen a range");
    return status;
}

orr_status orr_tune(orr_engine *engine, orr_arena *arena, const orr_tune_request *request,
                    orr_tree **result, orr_err *err) {
    tune_space space;
    tune_outcome outcome = {0};
    orr_status status = tune_space_make(arena, request, &space, err);
    if (status == ORR_OK && space.count == 0) {
        status = nothing_legal(&space, err);
    }
    if (status == ORR_OK) {
        status = tune_search(&space, engine, &outcome, err);
    }
    if (status == ORR_OK) {
        status = tune_write(&space, engine, &outcome, result, err);
    }
    tune_keep_release(&outcome.keep);
    tune_space_release(&space);
    return status;
}
