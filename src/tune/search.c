/* Exhaustive branch and bound.
 *
 * Families are sorted by a lower bound (search_bounds.c) and searched (search_family.c) in rounds.
 * All of a round are judged by what was known when it began, and their finds are merged in order,
 * so that neither the winner nor a single count depends on the number of threads or of ranks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "tune/search_int.h"

enum { FIRST_ROUND = 4 };

/* Where fewer GPUs or less money are better, all that they can do comes first. */
static uint32_t group_of(const tune_space *space, uint32_t family) {
    bool known = !(space->family[family].bound < 0);
    return known ? space->world[space->family[family].world].group : UINT32_MAX;
}

static bool is_grouped(const tune_space *space) {
    return space->request->objective == ORR_OBJECTIVE_GPUS ||
           space->request->objective == ORR_OBJECTIVE_CHEAPEST_CLUSTER;
}

static uint32_t *sort_families(tune_space *space) {
    tune_ranked *list = (tune_ranked *)orr_alloc((size_t)space->family_count * sizeof *list + 1);
    uint32_t *order = ORR_NEW_ARRAY(space->arena, uint32_t, space->family_count);
    for (uint32_t f = 0; f < space->family_count; f++) {
        /* without bounds the largest come first, so that no thread ends with one */
        double bound =
            space->request->brute ? -(double)space->family[f].count : space->family[f].bound;
        list[f] = (tune_ranked){bound, f, group_of(space, f)};
    }
    qsort(list, space->family_count, sizeof *list, tune_by_bound);
    for (uint32_t f = 0; f < space->family_count; f++) {
        order[f] = list[f].index;
    }
    orr_release(list);
    return order;
}

/* What two plans of one model on one machine may differ by without the model being able to say
 * which is faster: its error in scaling a run it has been anchored on. */
static double within_of(const tune_space *space) {
    double within = space->request->within_frac;
    for (uint32_t w = 0; w < space->world_count && space->request->within_frac <= 0; w++) {
        within = orr_max_f64(within, space->world[w].base.software->interval_anchored_frac);
    }
    return within;
}

/* Once a second; a new best as soon as its round is done. */
static bool note_round(tune_searching *s, const tune_outcome *out, uint32_t next, uint32_t round,
                       double best_before, double *saved_s) {
    const tune_space *space = s->space;
    double now_s = tune_clock_s();
    orr_err err = {0};
    orr_status status = ORR_OK;
    if (space->request->store == NULL || !out->complete) { /* what was cut must be done again */
        return true;
    }
    if (tune_keep_best(s->keep) < best_before) {
        status = tune_store_found(space, out->key, "incumbent", &s->keep->top[0],
                                  now_s - space->start_s, &err);
    }
    if (status == ORR_OK && now_s - *saved_s >= 1) {
        *saved_s = now_s;
        status = tune_checkpoint_save(space, out->key, s->keep, next, round, &err);
    }
    if (status != ORR_OK) {
        tune_search_fail(s, &err);
    }
    return status == ORR_OK;
}

/* Families from `next` on were not looked at, or not to the end. */
static void leave_open(tune_searching *s, tune_outcome *out, uint32_t next, uint32_t flags) {
    const tune_space *space = s->space;
    out->complete = false;
    out->interrupted = (flags & TUNE_STOP_INTERRUPT) != 0;
    for (uint32_t f = next; f < space->family_count; f++) {
        const tune_family *family = &space->family[s->order[f]];
        out->open += family->count;
        out->least_open = orr_min_f64(out->least_open, orr_max_f64(0, family->bound));
    }
}

/* Families of the next round: none when no bound is low enough. */
static uint32_t gather_round(const tune_searching *s, uint32_t next, uint32_t round) {
    const tune_space *space = s->space;
    uint32_t count = 0, group = group_of(space, s->order[next]);
    if (s->keep->top_count > 0 && group_of(space, s->keep->top[0].family) < group) {
        return 0;
    }
    while (count < round && next + count < space->family_count &&
           group_of(space, s->order[next + count]) == group &&
           space->family[s->order[next + count]].bound < s->limit) {
        count++;
    }
    return count;
}

/* By its bound alone. */
static void prune_family(tune_searching *s, const tune_family *family) {
    bool never = family->bound >= HUGE_VAL;
    *(never ? &s->keep->pruned_memory : &s->keep->pruned_time) += family->count;
}

/* Nothing of this group is left to look at, and nothing was found in it: on to the next. */
static uint32_t skip_group(tune_searching *s, uint32_t next) {
    const tune_space *space = s->space;
    uint32_t group = group_of(space, s->order[next]);
    if (!is_grouped(space) || s->keep->top_count > 0) {
        return next;
    }
    for (; next < space->family_count && group_of(space, s->order[next]) == group; next++) {
        prune_family(s, &space->family[s->order[next]]);
    }
    return next;
}

/* What a family cut short has found counts; which of its plans were left does not: all of them
 * are open. */
static void merge_unit(tune_searching *s, tune_outcome *out, tune_keep *part,
                       const tune_family *family) {
    if (part->cut) {
        part->evaluated = part->pruned_time = part->pruned_memory = part->unanswered = 0;
        out->complete = false;
        out->open += family->count;
        out->least_open = orr_min_f64(out->least_open, family->bound);
    }
    tune_keep_merge(s->keep, part);
    tune_keep_release(part);
}

static void run_round(tune_searching *s, tune_outcome *out, uint32_t next, uint32_t count) {
    const tune_space *space = s->space;
    orr_err err = {0};
    for (uint32_t i = 0; i < count; i++) {
        tune_keep_init(&s->unit[i], s->keep->within_frac, TUNE_UNIT_TOP);
    }
    tune_pool_run(s->threads, tune_search_own_count(s, count), tune_search_family, s);
    tune_search_trim(s);
    if (!atomic_load(&s->failed) && tune_ranks_exchange(space, s->unit, count, &err) != ORR_OK) {
        tune_search_fail(s, &err);
    }
    for (uint32_t i = 0; i < count; i++) {
        merge_unit(s, out, &s->unit[i], &space->family[s->order[next + i]]);
    }
}

static void close_rest(tune_searching *s, uint32_t next) {
    const tune_space *space = s->space;
    for (; next < space->family_count; next++) {
        prune_family(s, &space->family[s->order[next]]);
    }
}

/* Families that bounds do not rule out yet, those before `next` included. */
static uint32_t count_wanted(tune_searching *s, uint32_t next) {
    const tune_space *space = s->space;
    double limit =
        space->request->brute ? HUGE_VAL : orr_min_f64(s->seed_limit, tune_keep_limit(s->keep));
    s->upto = next;
    while (s->upto < space->family_count && space->family[s->order[s->upto]].bound < limit) {
        s->upto++;
    }
    return s->upto;
}

/* flags: what the bounds were stopped by. Some families are looked at in any case. */
static void run_rounds(tune_searching *s, tune_outcome *out, uint32_t next, uint32_t round,
                       uint32_t flags) {
    tune_space *space = s->space;
    double saved_s = tune_clock_s();
    while (next < space->family_count) {
        flags |= tune_search_stops(s, "families", next, count_wanted(s, next));
        bool enough = s->cuttable || s->keep->top_count > 0;
        if ((flags & ~(uint32_t)(enough ? 0 : TUNE_STOP_BUDGET)) != 0) {
            leave_open(s, out, next, flags);
            return;
        }
        s->first = next;
        s->limit =
            space->request->brute ? HUGE_VAL : orr_min_f64(s->seed_limit, tune_keep_limit(s->keep));
        uint32_t count = gather_round(s, next, round);
        if (count == 0) {
            uint32_t more = skip_group(s, next);
            if (more == next) {
                break;
            }
            next = more;
            continue;
        }
        double best_before = tune_keep_best(s->keep);
        run_round(s, out, next, count);
        next += count;
        s->cuttable = true;
        round = orr_min_u32(TUNE_MAX_ROUND, 2 * round);
        if (!note_round(s, out, next, round, best_before, &saved_s)) {
            continue; /* the others are told before this rank leaves */
        }
    }
    flags |= tune_search_stops(s, "families", next, count_wanted(s, next));
    out->interrupted = !out->complete && (flags & TUNE_STOP_INTERRUPT) != 0;
    close_rest(s, next);
}

static orr_status find_start(tune_searching *s, tune_outcome *out, uint32_t *next, uint32_t *round,
                             orr_err *err) {
    const orr_tune_request *request = s->space->request;
    bool found = false;
    *next = 0;
    *round = request->brute ? TUNE_MAX_ROUND : FIRST_ROUND;
    if (request->store == NULL && !request->resume) {
        return ORR_OK;
    }
    out->key = tune_search_key(s->space);
    if (!request->resume) {
        ORR_TRY(orr_store_forget(request->store, out->key, err));
        return tune_store_seeds(s->space, out->key, err);
    }
    ORR_TRY(tune_checkpoint_load(s->space, out->key, s->keep, next, round, &found, err));
    if (!found) {
        ORR_TRY(tune_store_seeds(s->space, out->key, err));
    }
    out->resumed_at = *next;
    out->evaluated_before = s->keep->evaluated;
    return ORR_OK;
}

/* Where the search did not come to it. */
static void keep_seed(tune_keep *keep, const tune_found *seed) {
    for (uint32_t i = 0; i < keep->top_count; i++) {
        if (memcmp(&keep->top[i].plan, &seed->plan, sizeof seed->plan) == 0) {
            return;
        }
    }
    tune_keep_add(keep, seed);
}

orr_status tune_search(tune_space *space, orr_engine *engine, const tune_found *seed,
                       tune_outcome *out, orr_err *err) {
    double start_s = tune_clock_s();
    *out = (tune_outcome){.complete = true, .least_open = HUGE_VAL};
    tune_keep_init(&out->keep, within_of(space), TUNE_TOP);
    tune_searching s = {.space = space, .threads = orr_max_u32(1, space->request->threads)};
    s.keep = &out->keep;
    /* costs of other groups say nothing */
    bool bounds = seed != NULL && !is_grouped(space);
    s.cuttable = space->request->brute; /* whose families may be large */
    s.seed_limit = bounds ? seed->cost * (1 + out->keep.within_frac) : HUGE_VAL;
    (void)pthread_mutex_init(&s.asking, NULL);
    out->threads = s.threads;
    ORR_TRY(orr_engine_prepare(engine, &space->world[0].base, err));
    tune_search_open(&s, engine);
    uint32_t flags = tune_search_bounds(&s);
    orr_status status = atomic_load(&s.failed) ? s.err.status : ORR_OK;
    if (status == ORR_OK) {
        uint32_t next, round;
        s.order = sort_families(space);
        status = find_start(&s, out, &next, &round, &s.err);
        if (status == ORR_OK) {
            run_rounds(&s, out, next, round, flags);
            status = atomic_load(&s.failed) ? s.err.status : ORR_OK;
        }
    }
    if (status == ORR_OK && seed != NULL && !out->complete) {
        keep_seed(&out->keep, seed);
    }
    tune_search_close(&s);
    (void)pthread_mutex_destroy(&s.asking);
    out->wall_s = tune_clock_s() - start_s;
    if (status != ORR_OK && err != NULL) {
        *err = s.err;
    }
    return status;
}
