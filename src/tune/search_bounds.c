/* Lower bounds of families: the least step of any of their plans that fits. Kept in the store, and
 * taken over from there when some, computed again, are the same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "tune/search_int.h"

enum { BOUNDS_AT_ONCE = 1024, BOUNDS_TOGETHER = 32 };

/* The least step of any plan of the family that fits: nothing or some layers recomputed,
 * everything, or some modules. Kinds of sharding are all taken for the leanest. */
static double least_step(tune_searching *s, orr_quick *quick, const tune_family *family) {
    tune_space *space = s->space;
    const tune_world *world = &space->world[family->world];
    const tune_pipe *pipe = &space->pipes[family->pipes].pipe[0];
    const tune_recomputes *recomputes = tune_recomputes_of(space, family, pipe);
    double most = tune_fits_bytes(space, world), least_s = HUGE_VAL, step_s = 0;
    orr_plan plan = family->plan;
    orr_err err = {0};
    tune_plan_pipe(pipe, &plan);
    plan.recompute = (orr_recompute){0};
    plan.shard.kind = plan.shard.kind == ORR_SHARD_NONE ? ORR_SHARD_ZERO2 : plan.shard.kind;
    tune_plan_relax(world, &plan);
    if (!tune_search_answered(s, orr_quick_share(quick, &plan, most, &least_s, &err), &err)) {
        return 0;
    }
    if (least_s < HUGE_VAL) {
        return least_s;
    }
    if (!tune_search_answered(s, orr_quick_checkpointed_share(quick, &plan, most, &least_s, &err),
                              &err)) {
        return 0;
    }
    for (uint32_t r = 0; r < recomputes->count; r++) {
        plan.recompute = recomputes->value[r];
        bool whole = plan.recompute.kind == ORR_RECOMPUTE_FULL ||
                     plan.recompute.kind == ORR_RECOMPUTE_UNIFORM;
        if (whole) {
            plan.recompute = (orr_recompute){.kind = ORR_RECOMPUTE_FULL};
        } else if (plan.recompute.kind != ORR_RECOMPUTE_SELECTIVE) {
            continue;
        }
        if (!tune_search_answered(s, orr_quick_share(quick, &plan, most, &step_s, &err), &err)) {
            return 0;
        }
        least_s = orr_min_f64(least_s, step_s);
    }
    return least_s;
}

/* A block of families in the order of what they share. */
static void bound_block(void *user, uint32_t thread, uint32_t index) {
    tune_searching *s = (tune_searching *)user;
    tune_space *space = s->space;
    uint32_t first = s->first + tune_search_own_index(s, index) * BOUNDS_TOGETHER;
    uint32_t end = orr_min_u32(first + BOUNDS_TOGETHER, space->family_count);
    for (uint32_t i = first; i < end; i++) {
        tune_family *family = &space->family[s->order[i]];
        orr_quick *quick = tune_search_quick(s, thread, family->world);
        if (quick != NULL) {
            double step_s = space->request->brute ? 0 : least_step(s, quick, family);
            family->bound = tune_cost(&space->world[family->world], step_s);
        }
    }
}

/* Families that share their layers' objects, whatever the pipeline, one after the other: a thread
 * that has priced them for one has priced them for all. */
typedef struct shared_key {
    uint32_t world, mbs;
    orr_split split;
    orr_variant variant;
    uint32_t index;
} shared_key;

static int by_shared(const void *a, const void *b) {
    return memcmp(a, b, sizeof(shared_key));
}

static const uint32_t *order_by_shared(const tune_space *space) {
    uint32_t *order = ORR_NEW_ARRAY(space->arena, uint32_t, space->family_count);
    shared_key *list = (shared_key *)orr_alloc((size_t)space->family_count * sizeof *list + 1);
    for (uint32_t f = 0; f < space->family_count; f++) {
        const tune_family *family = &space->family[f];
        memset(&list[f], 0, sizeof list[f]);
        list[f].world = family->world;
        list[f].mbs = family->plan.batch.mbs;
        list[f].split = family->plan.split;
        list[f].variant = family->plan.variant;
        list[f].index = f;
    }
    qsort(list, space->family_count, sizeof *list, by_shared);
    for (uint32_t f = 0; f < space->family_count; f++) {
        order[f] = list[f].index;
    }
    orr_release(list);
    return order;
}

/* Whether bounds of another run are those of now: some are computed again. */
static bool take_stored(tune_searching *s, const double *stored) {
    enum { SAMPLE = 64 };
    tune_space *space = s->space;
    uint32_t step = orr_max_u32(1, space->family_count / SAMPLE);
    for (uint32_t f = 0; f < space->family_count; f += step) {
        tune_family *family = &space->family[f];
        orr_quick *quick = tune_search_quick(s, 0, family->world);
        if (quick == NULL) {
            return false;
        }
        double cost = tune_cost(&space->world[family->world], least_step(s, quick, family));
        if (memcmp(&cost, &stored[f], sizeof cost) != 0) {
            return false;
        }
    }
    for (uint32_t f = 0; f < space->family_count; f++) {
        space->family[f].bound = stored[f];
    }
    return true;
}

uint32_t tune_search_bounds(tune_searching *s) {
    tune_space *space = s->space;
    orr_err err = {0};
    uint32_t flags = 0, done = 0;
    const double *stored = NULL;
    if (tune_bounds_load(space, &stored, &err) != ORR_OK) {
        tune_search_fail(s, &err);
        return TUNE_STOP_FAILURE;
    }
    if (stored != NULL && take_stored(s, stored)) {
        return 0;
    }
    s->order = order_by_shared(space);
    while (done < space->family_count && flags == 0) {
        double bound[BOUNDS_AT_ONCE];
        uint32_t count = orr_min_u32(BOUNDS_AT_ONCE, space->family_count - done);
        uint32_t blocks = (count + BOUNDS_TOGETHER - 1) / BOUNDS_TOGETHER;
        s->first = done;
        tune_pool_run(s->threads, tune_search_own_count(s, blocks), bound_block, s);
        tune_search_trim(s);
        for (uint32_t i = 0; i < count; i++) {
            bound[i] = space->family[s->order[done + i]].bound;
        }
        if (!atomic_load(&s->failed) &&
            tune_ranks_spread(space->request, bound, count, BOUNDS_TOGETHER, &err) != ORR_OK) {
            tune_search_fail(s, &err);
        }
        for (uint32_t i = 0; i < count; i++) {
            space->family[s->order[done + i]].bound = bound[i];
        }
        done += count;
        flags = tune_search_stops(s, "bounds", done, space->family_count);
    }
    for (uint32_t f = done; f < space->family_count; f++) {
        space->family[s->order[f]].bound = -1;
    }
    if (done == space->family_count && !atomic_load(&s->failed) &&
        tune_bounds_save(space, &err) != ORR_OK) {
        tune_search_fail(s, &err);
    }
    return flags;
}
