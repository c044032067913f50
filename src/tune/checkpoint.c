/* A search that can be killed: at the end of a round, once a second, all that it has found goes
 * into the store; resuming goes on with the next round, so that the end is the same. */
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "tune/tune_int.h"

enum { STATE_VERSION = 2 };

/* Sizes guard against a state of another build. */
typedef struct state_head {
    uint32_t version, keep_bytes, found_bytes, family_count;
    uint64_t space;
    uint32_t next, round;
} state_head;

/* Of what was asked; not of prices. */
static uint64_t question_key(const tune_space *space) {
    const orr_tune_request *request = space->request;
    orr_arena *work = orr_arena_new();
    orr_tree *all = orr_tree_new_map(work);
    (void)orr_tree_put(work, all, "keys", orr_tree_copy(work, request->keys));
    (void)orr_tree_put(work, all, "pins", orr_tree_copy(work, request->pins));
    (void)orr_tree_put(work, all, "ranges", orr_tree_copy(work, request->ranges));
    orr_tree_put_int(work, all, "objective", request->objective);
    orr_tree_put_real(work, all, "max_days", request->max_days);
    orr_tree_put_real(work, all, "max_cost", request->max_cost);
    orr_tree_put_real(work, all, "max_kwh", request->max_kwh);
    orr_tree_put_real(work, all, "margin", request->margin_frac);
    orr_tree_put_real(work, all, "p_oom", request->p_oom);
    orr_tree_put_real(work, all, "within", request->within_frac);
    orr_tree_put_bool(work, all, "brute", request->brute);
    orr_tree_put_real(work, all, "factor", space->compute_factor);
    orr_tree_put_int(work, all, "space", (int64_t)space->count);
    orr_tree_put_text(work, all, "version", ORR_VERSION);
    char *text = orr_write_json(work, all, false);
    uint64_t key = orr_hash(text, strlen(text));
    orr_arena_free(work);
    return key;
}

uint64_t tune_search_key(const tune_space *space) {
    uint64_t key = question_key(space);
    /* Bounds and order hang on prices: another calibration is another search. */
    for (uint32_t f = 0; f < space->family_count; f++) {
        uint64_t parts[2] = {key, 0};
        memcpy(&parts[1], &space->family[f].bound, sizeof parts[1]);
        key = orr_hash(parts, sizeof parts);
    }
    return key;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* Bounds hang on model, machine, software and calibration. The first three are in the key; that the
 * prices are those of before is seen by computing some of the bounds again (search_bounds.c). */
static uint64_t bounds_key(const tune_space *space) {
    uint64_t parts[2] = {question_key(space), 0x626f756e6473u}; /* "bounds" */
    return orr_hash(parts, sizeof parts);
}

orr_status tune_bounds_save(const tune_space *space, orr_err *err) {
    if (space->request->store == NULL || space->request->brute) {
        return ORR_OK;
    }
    double *bound = (double *)orr_alloc(space->family_count * sizeof *bound);
    for (uint32_t f = 0; f < space->family_count; f++) {
        bound[f] = space->family[f].bound;
    }
    orr_status status = orr_store_put_state(space->request->store, bounds_key(space), bound,
                                            space->family_count * sizeof *bound, err);
    orr_release(bound);
    return status;
}

orr_status tune_bounds_load(const tune_space *space, const double **out, orr_err *err) {
    void *bytes = NULL;
    size_t length = 0;
    *out = NULL;
    if (space->request->brute) {
        return ORR_OK;
    }
    if (space->request->store != NULL) {
        ORR_TRY(orr_store_get_state(space->request->store, space->arena, bounds_key(space), &bytes,
                                    &length, err));
    }
    ORR_TRY(tune_ranks_share(space->request, space->arena, &bytes, &length, err));
    if (bytes != NULL && length == space->family_count * sizeof(double)) {
        double *bound = ORR_NEW_ARRAY(space->arena, double, space->family_count);
        memcpy(bound, bytes, length);
        *out = bound;
    }
    return ORR_OK;
}

/* ---- state ----------------------------------------------------------------------------------- */

orr_status tune_checkpoint_save(const tune_space *space, uint64_t key, const tune_keep *keep,
                                uint32_t next, uint32_t round, orr_err *err) {
    size_t length = sizeof(state_head) + tune_keep_pack(keep, NULL);
    char *bytes = (char *)orr_alloc(length);
    state_head head = {.version = STATE_VERSION,
                       .keep_bytes = sizeof *keep,
                       .found_bytes = sizeof(tune_found),
                       .family_count = space->family_count,
                       .space = space->count,
                       .next = next,
                       .round = round};
    memcpy(bytes, &head, sizeof head);
    (void)tune_keep_pack(keep, bytes + sizeof head);
    orr_status status = orr_store_put_state(space->request->store, key, bytes, length, err);
    orr_release(bytes);
    return status;
}

orr_status tune_checkpoint_load(const tune_space *space, uint64_t key, tune_keep *keep,
                                uint32_t *next, uint32_t *round, bool *found, orr_err *err) {
    void *bytes = NULL;
    size_t length = 0;
    state_head head;
    *found = false;
    if (space->request->store != NULL) {
        ORR_TRY(
            orr_store_get_state(space->request->store, space->arena, key, &bytes, &length, err));
    }
    ORR_TRY(tune_ranks_share(space->request, space->arena, &bytes, &length, err));
    if (bytes == NULL || length < sizeof head) {
        return ORR_OK;
    }
    memcpy(&head, bytes, sizeof head);
    bool ours = head.version == STATE_VERSION && head.keep_bytes == sizeof *keep &&
                head.found_bytes == sizeof(tune_found) && head.space == space->count &&
                head.family_count == space->family_count && head.next <= head.family_count;
    double within_frac = keep->within_frac;
    uint32_t limit = keep->limit;
    if (!ours ||
        !tune_keep_unpack(space, (const char *)bytes + sizeof head, length - sizeof head, keep)) {
        tune_keep_init(keep, within_frac, limit); /* of another build: from the start */
        return ORR_OK;
    }
    *next = head.next;
    *round = head.round;
    *found = true;
    return ORR_OK;
}

orr_status tune_store_found(const tune_space *space, uint64_t key, const char *kind,
                            const tune_found *found, double at_s, orr_err *err) {
    orr_arena *work = orr_arena_new();
    orr_resolved r = space->world[found->world].base;
    r.plan = found->plan;
    orr_trial trial = {.kind = kind,
                       .plan = orr_write_json(work, orr_plan_write(work, &r), false),
                       .tokens_per_s_per_gpu =
                           (double)r.plan.gbs * r.plan.batch.seq / found->step_s / r.plan.gpus,
                       .step_s = found->step_s,
                       .need_bytes = found->need_bytes,
                       .at_s = at_s};
    orr_status status = orr_store_add_trial(space->request->store, key, &trial, err);
    orr_arena_free(work);
    return status;
}

orr_status tune_store_seeds(const tune_space *space, uint64_t key, orr_err *err) {
    for (uint32_t i = 0; i < space->seed_count && space->request->store != NULL; i++) {
        ORR_TRY(tune_store_found(space, key, "seed", &space->seed[i], 0, err));
    }
    return ORR_OK;
}
