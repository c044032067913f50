/* The search of one family: pipes by their bounds, then bodies (recompute and overlap) by theirs,
 * then each plan: memory first, time only if it fits. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/num.h"
#include "tune/search_int.h"

typedef struct unit {
    tune_searching *s;
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
    return u->asked++ % SELDOM == 0 ? tune_search_is_cut(u->s) : u->keep->cut;
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
    return tune_search_answered(u->s, orr_quick_bound(u->quick, plan, &step_s, &err), &err)
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
            if (!tune_search_answered(u->s, status, &err)) {
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
    if (!tune_search_answered(u->s, orr_quick_step(u->quick, plan, &found.step_s, &err), &err)) {
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
        tune_plan_relax(u->world, &plan);
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
        bool known =
            tune_search_answered(u->s, orr_quick_states(u->quick, &plan, &need_bytes, &err), &err);
        if (!known || need_bytes <= u->fits_bytes) {
            return false;
        }
    }
    return true;
}

void tune_search_family(void *user, uint32_t thread, uint32_t own) {
    tune_searching *s = (tune_searching *)user;
    uint32_t index = tune_search_own_index(s, own), at = s->order[s->first + index];
    const tune_family *family = &s->space->family[at];
    const tune_world *world = &s->space->world[family->world];
    const tune_pipes *pipes = &s->space->pipes[family->pipes];
    unit u = {.s = s,
              .thread = thread,
              .family = family,
              .world = world,
              .quick = tune_search_quick(s, thread, family->world),
              .index = at,
              .limit = s->limit,
              .fits_bytes = tune_fits_bytes(s->space, world),
              .brute = s->space->request->brute,
              .keep = &s->unit[index]};
    if (u.quick == NULL) {
        return;
    }
    tune_ranked *pipe = (tune_ranked *)orr_alloc(pipes->count * sizeof *pipe);
    for (uint32_t p = 0; p < pipes->count; p++) {
        orr_plan plan = family->plan;
        tune_plan_pipe(&pipes->pipe[p], &plan);
        plan.recompute = (orr_recompute){0};
        tune_plan_relax(world, &plan);
        pipe[p] = (tune_ranked){u.brute ? 0 : bound_of(&u, &plan), p, 0};
    }
    qsort(pipe, pipes->count, sizeof *pipe, tune_by_bound);
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
