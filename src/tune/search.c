/* Exhaustive branch and bound.
 *
 * Families are sorted by a lower bound and searched in rounds. All of a round are judged by what
 * was known when it began, and their finds are merged in order, so that neither the winner nor a
 * single count depends on the number of threads or of ranks. Inside a family: pipes by their
 * bounds, then bodies (recompute and overlap) by theirs, then each plan: memory first, time only if
 * it fits. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "tune/tune_int.h"

enum { FIRST_ROUND = 4, MAX_ROUND = 256, BOUNDS_AT_ONCE = 1024, BOUNDS_TOGETHER = 32 };

typedef struct search {
    tune_space *space;
    uint32_t threads;
    orr_engine **engine;   /* [threads] */
    orr_quick ***quick;    /* [threads][worlds] */
    tune_keep *keep;       /* of all rounds before */
    tune_keep *unit;       /* [round] */
    const uint32_t *order; /* families by what they share, later by bound */
    uint32_t first;        /* of the round, in order; of the bounds, as they come */
    double limit;          /* of the round */
    double seed_limit;     /* what costs more than the seed and is of no interest */
    uint32_t upto;         /* families in order that are to be looked at, by what is known */
    bool cuttable;         /* the budget may end a family before it is done with */
    atomic_uint cut;       /* TUNE_STOP bits that end families right away */
    pthread_mutex_t asking;
    atomic_bool failed;
    orr_err err;
} search;

static void fail(search *s, const orr_err *err) {
    s->err = *err; /* any one of several: they are bugs, not results */
    atomic_store(&s->failed, true);
}

/* What this process knows. */
static uint32_t own_stops(search *s, const char *what, double done, double total) {
    const orr_tune_request *request = s->space->request;
    uint32_t flags = atomic_load(&s->failed) ? TUNE_STOP_FAILURE : 0;
    bool more =
        request->progress == NULL || request->progress(request->progress_user, what, done, total);
    flags |= more ? 0 : TUNE_STOP_INTERRUPT;
    bool late = request->budget_s > 0 && tune_clock_s() - s->space->start_s >= request->budget_s;
    return flags | (late ? TUNE_STOP_BUDGET : 0);
}

/* What any of the ranks knows: they go on together, or stop together. */
static uint32_t stops(search *s, const char *what, double done, double total) {
    orr_err err = {0};
    uint32_t own = own_stops(s, what, done, total), flags = own | atomic_load(&s->cut);
    if (tune_ranks_agree(s->space->request, &flags, &err) != ORR_OK) {
        fail(s, &err);
        return own | TUNE_STOP_FAILURE;
    }
    if ((flags & TUNE_STOP_FAILURE) != 0 && !atomic_load(&s->failed)) {
        (void)orr_fail(&err, ORR_E_IO, "another rank of the search failed");
        fail(s, &err);
    }
    return flags;
}

/* From inside a family, by whichever thread comes first. */
static bool is_cut(search *s) {
    if (pthread_mutex_trylock(&s->asking) == 0) {
        uint32_t flags = own_stops(s, "families", s->first, s->upto);
        flags &= s->cuttable ? TUNE_STOP_BUDGET | TUNE_STOP_INTERRUPT : TUNE_STOP_INTERRUPT;
        (void)atomic_fetch_or(&s->cut, flags);
        (void)pthread_mutex_unlock(&s->asking);
    }
    return atomic_load(&s->cut) != 0 || atomic_load(&s->failed);
}

/* A plan that the projection does not take is none of the space's, and is counted apart. */
static bool is_limit(orr_status status) {
    return status == ORR_E_LIMIT || status == ORR_E_INFEASIBLE || status == ORR_E_SCHEDULE;
}

static orr_quick *quick_of(search *s, uint32_t thread, uint32_t world) {
    orr_err err = {0};
    orr_quick **slot = &s->quick[thread][world];
    if (*slot == NULL && orr_quick_new(s->engine[thread], &s->space->world[world].base,
                                       s->space->compute_factor, slot, &err) != ORR_OK) {
        fail(s, &err);
    }
    return *slot;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* A plan that the projection does not take bounds nothing; another failure ends the search. */
static bool answered(search *s, orr_status status, const orr_err *err) {
    if (status != ORR_OK && !is_limit(status)) {
        fail(s, err);
    }
    return status == ORR_OK;
}

/* All hidden that can be. */
static void relax_overlap(const tune_world *world, orr_plan *plan) {
    tune_plan_overlap(world, tune_overlap_mask(world, plan), plan);
}

double tune_fits_bytes(const tune_space *space, const tune_world *world) {
    static const double tight_frac = 0.96; /* the verdict's own: orr_memory_band */
    const orr_tune_request *request = space->request;
    double share = request->margin_frac > 0 ? 1 - request->margin_frac : tight_frac;
    double most = share * world->capacity_bytes;
    if (request->p_oom > 0) {
        const orr_software *software = world->base.software;
        double slope = orr_memory_oom_slope(software, (orr_sureness)world->base.sureness);
        double distance = log(1 / request->p_oom - 1) / slope;
        most = orr_min_f64(most, world->capacity_bytes * software->oom_half_frac * exp(-distance));
    }
    return most;
}

/* The least step of any plan of the family that fits: nothing or some layers recomputed,
 * everything, or some modules. Kinds of sharding are all taken for the leanest. */
static double least_step(search *s, orr_quick *quick, const tune_family *family) {
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
    relax_overlap(world, &plan);
    if (!answered(s, orr_quick_share(quick, &plan, most, &least_s, &err), &err)) {
        return 0;
    }
    if (least_s < HUGE_VAL) {
        return least_s;
    }
    if (!answered(s, orr_quick_checkpointed_share(quick, &plan, most, &least_s, &err), &err)) {
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
        if (!answered(s, orr_quick_share(quick, &plan, most, &step_s, &err), &err)) {
            return 0;
        }
        least_s = orr_min_f64(least_s, step_s);
    }
    return least_s;
}

/* The index of this rank's `index`th piece of work. */
static uint32_t own_index(const search *s, uint32_t index) {
    const orr_tune_request *request = s->space->request;
    return index * tune_rank_count(request) + tune_rank(request);
}
static uint32_t own_count(const search *s, uint32_t count) {
    uint32_t ranks = tune_rank_count(s->space->request), own = tune_rank(s->space->request);
    return (count + ranks - 1 - own) / ranks;
}

/* A block of families in the order of what they share. */
static void bound_block(void *user, uint32_t thread, uint32_t index) {
    search *s = (search *)user;
    tune_space *space = s->space;
    uint32_t first = s->first + own_index(s, index) * BOUNDS_TOGETHER;
    uint32_t end = orr_min_u32(first + BOUNDS_TOGETHER, space->family_count);
    for (uint32_t i = first; i < end; i++) {
        tune_family *family = &space->family[s->order[i]];
        orr_quick *quick = quick_of(s, thread, family->world);
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
static bool take_stored(search *s, const double *stored) {
    enum { SAMPLE = 64 };
    tune_space *space = s->space;
    uint32_t step = orr_max_u32(1, space->family_count / SAMPLE);
    for (uint32_t f = 0; f < space->family_count; f += step) {
        tune_family *family = &space->family[f];
        orr_quick *quick = quick_of(s, 0, family->world);
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

/* Between the work of the pool. What the next families share with those before is little. */
static void trim_engines(search *s) {
    enum { MOST_BYTES = 128 << 20 };
    for (uint32_t t = 0; t < s->threads; t++) {
        orr_engine_trim(s->engine[t], MOST_BYTES);
    }
}

/* Bounds of all families, or of as many as there is time for; the others' are -1: not known. */
static uint32_t bound_families(search *s) {
    tune_space *space = s->space;
    orr_err err = {0};
    uint32_t flags = 0, done = 0;
    const double *stored = NULL;
    if (tune_bounds_load(space, &stored, &err) != ORR_OK) {
        fail(s, &err);
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
        tune_pool_run(s->threads, own_count(s, blocks), bound_block, s);
        trim_engines(s);
        for (uint32_t i = 0; i < count; i++) {
            bound[i] = space->family[s->order[done + i]].bound;
        }
        if (!atomic_load(&s->failed) &&
            tune_ranks_spread(space->request, bound, count, BOUNDS_TOGETHER, &err) != ORR_OK) {
            fail(s, &err);
        }
        for (uint32_t i = 0; i < count; i++) {
            space->family[s->order[done + i]].bound = bound[i];
        }
        done += count;
        flags = stops(s, "bounds", done, space->family_count);
    }
    for (uint32_t f = done; f < space->family_count; f++) {
        space->family[s->order[f]].bound = -1;
    }
    if (done == space->family_count && !atomic_load(&s->failed) &&
        tune_bounds_save(space, &err) != ORR_OK) {
        fail(s, &err);
    }
    return flags;
}

/* ---- one family ------------------------------------------------------------------------------ */

typedef struct unit {
    search *s;
    uint32_t thread;
    const tune_family *family;
    const tune_world *world;
    orr_quick *quick;
    uint32_t index; /* of the family */
    double limit;   /* of the round; the unit's own may be lower */
    double fits_bytes;
    bool brute;
    uint32_t asked; /* calls of is_left */
    tune_keep *keep;
} unit;

/* Whether to leave the family where it is. */
static bool is_left(unit *u) {
    enum { SELDOM = 32 };
    return u->asked++ % SELDOM == 0 ? is_cut(u->s) : u->keep->cut;
}

static double limit_of(const unit *u) {
    double run = tune_cost(u->world, u->world->most_step_s); /* one that meets it counts */
    return u->brute ? HUGE_VAL
                    : orr_min_f64(nextafter(run, HUGE_VAL),
                                  orr_min_f64(u->limit, tune_keep_limit(u->keep)));
}

/* A lower bound of the cost; 0 when there is none. */
static double bound_of(const unit *u, const orr_plan *plan) {
    orr_err err = {0};
    double step_s = 0;
    return answered(u->s, orr_quick_bound(u->quick, plan, &step_s, &err), &err)
               ? tune_cost(u->world, step_s)
               : 0;
}

/* Kinds of sharding and overlap of reductions that go with one body. */
enum { MAX_TAILS = 8 };
typedef struct body {
    const tune_tails *tails;
    uint16_t overlaps; /* sets of overlap bits that are legal */
    uint32_t count;    /* tails that fit, or, in brute force, all */
    struct {
        uint8_t shard;
        uint32_t dp;
        double need_bytes;
    } tail[MAX_TAILS];
} body;

/* Overlap of tensor parallelism changes no memory: how many legal sets have these other bits. */
static uint32_t variants(uint16_t overlaps, uint32_t bits) {
    return (uint32_t)(overlaps >> bits & 1) + (uint32_t)(overlaps >> (bits | ORR_OVERLAP_TP) & 1);
}

static void put_tail(const unit *u, const body *b, uint32_t i, uint32_t overlap, orr_plan *plan) {
    plan->shard.kind = b->tail[i].shard;
    tune_plan_overlap(u->world, overlap | b->tail[i].dp, plan);
}

/* Memory of the tails; overlap: without tp and dp. */
static void weigh_body(unit *u, body *b, uint32_t overlap, orr_plan *plan) {
    static const uint32_t dp[] = {0, ORR_OVERLAP_DP};
    orr_err err = {0};
    b->count = 0;
    for (uint32_t k = 0; k < b->tails->shard_count; k++) {
        for (int d = 0; d < 2; d++) {
            uint32_t plans = variants(b->overlaps, overlap | dp[d]);
            double need_bytes = 0;
            if (plans == 0) {
                continue;
            }
            plan->shard.kind = b->tails->shard[k];
            tune_plan_overlap(u->world, overlap | dp[d], plan);
            orr_status status =
                u->brute ? ORR_OK : orr_quick_floor(u->quick, plan, &need_bytes, &err);
            if (status == ORR_OK && need_bytes <= u->fits_bytes) {
                status = orr_quick_need(u->quick, plan, &need_bytes, &err);
            }
            if (!answered(u->s, status, &err)) {
                u->keep->unanswered += plans;
            } else if (need_bytes > u->fits_bytes && !u->brute) {
                u->keep->pruned_memory += plans;
                tune_keep_refuse(u->keep, need_bytes);
            } else {
                b->tail[b->count].shard = b->tails->shard[k];
                b->tail[b->count].dp = dp[d];
                b->tail[b->count++].need_bytes = need_bytes;
            }
        }
    }
}

static void time_plan(unit *u, const body *b, uint32_t i, const orr_plan *plan) {
    orr_err err = {0};
    tune_found found = {.world = u->family->world,
                        .family = u->index,
                        .need_bytes = b->tail[i].need_bytes,
                        .plan = *plan};
    if (!answered(u->s, orr_quick_step(u->quick, plan, &found.step_s, &err), &err)) {
        u->keep->unanswered++;
        return;
    }
    u->keep->evaluated++;
    found.cost = tune_cost(u->world, found.step_s);
    if (found.need_bytes <= u->fits_bytes && found.step_s <= u->world->most_step_s) {
        tune_keep_add(u->keep, &found);
    }
}

/* All plans with one recompute and one set of overlap bits, those of tp and dp aside. */
static void judge_body(unit *u, body *b, uint32_t overlap, orr_plan *plan) {
    static const uint32_t tp[] = {ORR_OVERLAP_TP, 0};
    weigh_body(u, b, overlap, plan);
    for (int t = 0; t < 2 && b->count > 0; t++) {
        bool bounded = false, far = false;
        for (uint32_t i = 0; i < b->count; i++) {
            if ((b->overlaps >> (overlap | tp[t] | b->tail[i].dp) & 1) == 0) {
                continue;
            }
            put_tail(u, b, i, overlap | tp[t], plan);
            if (!bounded && !u->brute) {
                far = bound_of(u, plan) >= limit_of(u);
                bounded = true;
            }
            if (far) {
                u->keep->pruned_time++;
            } else {
                time_plan(u, b, i, plan);
            }
        }
    }
}

static void search_pipe(unit *u, const tune_pipe *pipe) {
    tune_space *space = u->s->space;
    const tune_recomputes *recomputes = tune_recomputes_of(space, u->family, pipe);
    body b = {.tails = tune_tails_of(space, u->family, pipe)};
    orr_plan plan = u->family->plan;
    tune_plan_pipe(pipe, &plan);
    for (uint32_t r = 0; r < recomputes->count && !u->keep->cut; r++) {
        u->keep->cut = is_left(u);
        b.overlaps = b.tails->overlaps[tune_recompute_class(&recomputes->value[r])];
        plan.recompute = recomputes->value[r];
        relax_overlap(u->world, &plan);
        if (b.overlaps == 0) {
            continue;
        }
        if (!u->brute && bound_of(u, &plan) >= limit_of(u)) {
            u->keep->pruned_time += (uint64_t)__builtin_popcount(b.overlaps) * b.tails->shard_count;
            continue;
        }
        for (uint32_t o = 0; o < TUNE_OVERLAPS; o++) {
            if ((o & (ORR_OVERLAP_DP | ORR_OVERLAP_TP)) == 0 &&
                variants(b.overlaps, o) + variants(b.overlaps, o | ORR_OVERLAP_DP) > 0) {
                judge_body(u, &b, o, &plan);
            }
        }
    }
}

/* Whether states alone are too much under every kind of sharding. */
static bool never_fits(unit *u, const tune_pipe *pipe) {
    const tune_tails *tails = tune_tails_of(u->s->space, u->family, pipe);
    orr_plan plan = u->family->plan;
    orr_err err = {0};
    tune_plan_pipe(pipe, &plan);
    plan.recompute = (orr_recompute){0};
    tune_plan_overlap(u->world, 0, &plan);
    for (uint32_t k = 0; k < tails->shard_count; k++) {
        double need_bytes = 0;
        plan.shard.kind = tails->shard[k];
        bool known = answered(u->s, orr_quick_states(u->quick, &plan, &need_bytes, &err), &err);
        if (!known || need_bytes <= u->fits_bytes) {
            return false;
        }
    }
    return true;
}

typedef struct ranked {
    double bound;
    uint32_t index;
    uint32_t first; /* comes before the bound */
} ranked;

static int by_bound(const void *a, const void *b) {
    const ranked *x = (const ranked *)a, *y = (const ranked *)b;
    return x->first < y->first   ? -1
           : x->first > y->first ? 1
           : x->bound < y->bound ? -1
           : x->bound > y->bound ? 1
           : x->index < y->index ? -1
                                 : x->index > y->index;
}

static void search_family(void *user, uint32_t thread, uint32_t own) {
    search *s = (search *)user;
    uint32_t index = own_index(s, own), at = s->order[s->first + index];
    const tune_family *family = &s->space->family[at];
    const tune_world *world = &s->space->world[family->world];
    const tune_pipes *pipes = &s->space->pipes[family->pipes];
    unit u = {.s = s,
              .thread = thread,
              .family = family,
              .world = world,
              .quick = quick_of(s, thread, family->world),
              .index = at,
              .limit = s->limit,
              .fits_bytes = tune_fits_bytes(s->space, world),
              .brute = s->space->request->brute,
              .keep = &s->unit[index]};
    if (u.quick == NULL) {
        return;
    }
    ranked *pipe = (ranked *)orr_alloc(pipes->count * sizeof *pipe);
    for (uint32_t p = 0; p < pipes->count; p++) {
        orr_plan plan = family->plan;
        tune_plan_pipe(&pipes->pipe[p], &plan);
        plan.recompute = (orr_recompute){0};
        relax_overlap(world, &plan);
        pipe[p] = (ranked){u.brute ? 0 : bound_of(&u, &plan), p, 0};
    }
    qsort(pipe, pipes->count, sizeof *pipe, by_bound);
    for (uint32_t i = 0; i < pipes->count && !u.keep->cut; i++) {
        const tune_pipe *one = &pipes->pipe[pipe[i].index];
        uint64_t plans = tune_count(tune_recomputes_of(s->space, family, one),
                                    tune_tails_of(s->space, family, one));
        if (pipe[i].bound >= limit_of(&u)) {
            u.keep->pruned_time += plans;
        } else if (!u.brute && never_fits(&u, one)) {
            u.keep->pruned_memory += plans;
        } else {
            search_pipe(&u, one);
        }
    }
    orr_release(pipe);
}

/* ---- all of them ----------------------------------------------------------------------------- */

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
    ranked *list = (ranked *)orr_alloc((size_t)space->family_count * sizeof *list + 1);
    uint32_t *order = ORR_NEW_ARRAY(space->arena, uint32_t, space->family_count);
    for (uint32_t f = 0; f < space->family_count; f++) {
        /* without bounds the largest come first, so that no thread ends with one */
        double bound =
            space->request->brute ? -(double)space->family[f].count : space->family[f].bound;
        list[f] = (ranked){bound, f, group_of(space, f)};
    }
    qsort(list, space->family_count, sizeof *list, by_bound);
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
static bool note_round(search *s, const tune_outcome *out, uint32_t next, uint32_t round,
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
        fail(s, &err);
    }
    return status == ORR_OK;
}

/* Families from `next` on were not looked at, or not to the end. */
static void leave_open(search *s, tune_outcome *out, uint32_t next, uint32_t flags) {
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
static uint32_t gather_round(const search *s, uint32_t next, uint32_t round) {
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

/* Nothing of this group is left to look at, and nothing was found in it: on to the next. */
static uint32_t skip_group(search *s, uint32_t next) {
    const tune_space *space = s->space;
    uint32_t group = group_of(space, s->order[next]);
    if (!is_grouped(space) || s->keep->top_count > 0) {
        return next;
    }
    for (; next < space->family_count && group_of(space, s->order[next]) == group; next++) {
        const tune_family *family = &space->family[s->order[next]];
        bool never = family->bound >= HUGE_VAL;
        *(never ? &s->keep->pruned_memory : &s->keep->pruned_time) += family->count;
    }
    return next;
}

/* What a family cut short has found counts; which of its plans were left does not: all of them
 * are open. */
static void merge_unit(search *s, tune_outcome *out, tune_keep *part, const tune_family *family) {
    if (part->cut) {
        part->evaluated = part->pruned_time = part->pruned_memory = part->unanswered = 0;
        out->complete = false;
        out->open += family->count;
        out->least_open = orr_min_f64(out->least_open, family->bound);
    }
    tune_keep_merge(s->keep, part);
    tune_keep_release(part);
}

static void run_round(search *s, tune_outcome *out, uint32_t next, uint32_t count) {
    const tune_space *space = s->space;
    orr_err err = {0};
    for (uint32_t i = 0; i < count; i++) {
        tune_keep_init(&s->unit[i], s->keep->within_frac, TUNE_UNIT_TOP);
    }
    tune_pool_run(s->threads, own_count(s, count), search_family, s);
    trim_engines(s);
    if (!atomic_load(&s->failed) && tune_ranks_exchange(space, s->unit, count, &err) != ORR_OK) {
        fail(s, &err);
    }
    for (uint32_t i = 0; i < count; i++) {
        merge_unit(s, out, &s->unit[i], &space->family[s->order[next + i]]);
    }
}

static void close_rest(search *s, uint32_t next) {
    const tune_space *space = s->space;
    for (; next < space->family_count; next++) {
        const tune_family *family = &space->family[s->order[next]];
        bool never = family->bound >= HUGE_VAL;
        *(never ? &s->keep->pruned_memory : &s->keep->pruned_time) += family->count;
    }
}

/* Families that bounds do not rule out yet, those before `next` included. */
static uint32_t count_wanted(search *s, uint32_t next) {
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
static void run_rounds(search *s, tune_outcome *out, uint32_t next, uint32_t round,
                       uint32_t flags) {
    tune_space *space = s->space;
    double saved_s = tune_clock_s();
    while (next < space->family_count) {
        flags |= stops(s, "families", next, count_wanted(s, next));
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
        round = orr_min_u32(MAX_ROUND, 2 * round);
        if (!note_round(s, out, next, round, best_before, &saved_s)) {
            continue; /* the others are told before this rank leaves */
        }
    }
    flags |= stops(s, "families", next, count_wanted(s, next));
    out->interrupted = !out->complete && (flags & TUNE_STOP_INTERRUPT) != 0;
    close_rest(s, next);
}

static orr_status find_start(search *s, tune_outcome *out, uint32_t *next, uint32_t *round,
                             orr_err *err) {
    const orr_tune_request *request = s->space->request;
    bool found = false;
    *next = 0;
    *round = request->brute ? MAX_ROUND : FIRST_ROUND;
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

static void open_search(search *s, orr_engine *engine) {
    s->engine = (orr_engine **)orr_alloc(s->threads * sizeof *s->engine);
    s->quick = (orr_quick ***)orr_alloc(s->threads * sizeof *s->quick);
    s->unit = (tune_keep *)orr_alloc(MAX_ROUND * sizeof *s->unit);
    for (uint32_t t = 0; t < s->threads; t++) {
        s->engine[t] = t == 0 ? engine : orr_engine_twin(engine);
        s->quick[t] = (orr_quick **)orr_alloc(s->space->world_count * sizeof **s->quick);
    }
}

static void close_search(search *s) {
    for (uint32_t t = 0; t < s->threads; t++) {
        for (uint32_t w = 0; w < s->space->world_count; w++) {
            orr_quick_free(s->quick[t][w]);
        }
        orr_release(s->quick[t]);
        if (t > 0) {
            orr_engine_free(s->engine[t]);
        }
    }
    orr_release(s->engine);
    orr_release(s->quick);
    orr_release(s->unit);
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
    search s = {.space = space, .threads = orr_max_u32(1, space->request->threads)};
    s.keep = &out->keep;
    /* costs of other groups say nothing */
    bool bounds = seed != NULL && !is_grouped(space);
    s.cuttable = space->request->brute; /* whose families may be large */
    s.seed_limit = bounds ? seed->cost * (1 + out->keep.within_frac) : HUGE_VAL;
    (void)pthread_mutex_init(&s.asking, NULL);
    out->threads = s.threads;
    ORR_TRY(orr_engine_prepare(engine, &space->world[0].base, err));
    open_search(&s, engine);
    uint32_t flags = bound_families(&s);
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
    close_search(&s);
    (void)pthread_mutex_destroy(&s.asking);
    out->wall_s = tune_clock_s() - start_s;
    if (status != ORR_OK) {
        *err = s.err;
    }
    return status;
}
