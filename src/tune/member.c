/* Whether a plan is one of a space's, and in which family. */
#include <string.h>

#include "base/num.h"
#include "tune/tune_int.h"

static bool same_family(const tune_family *family, const orr_plan *plan) {
    const orr_plan *own = &family->plan;
    bool gathers = plan->shard.kind >= ORR_SHARD_ZERO3 || own->shard.kind >= ORR_SHARD_ZERO3;
    return own->gpus == plan->gpus && own->gbs == plan->gbs && own->pipe.pp == plan->pipe.pp &&
           memcmp(&own->split, &plan->split, sizeof plan->split) == 0 &&
           memcmp(&own->batch, &plan->batch, sizeof plan->batch) == 0 &&
           memcmp(&own->numeric, &plan->numeric, sizeof plan->numeric) == 0 &&
           memcmp(&own->variant, &plan->variant, sizeof plan->variant) == 0 &&
           own->shard.dp == plan->shard.dp &&
           (!gathers ||
            (own->shard.kind == plan->shard.kind && own->shard.group == plan->shard.group));
}

static const tune_pipe *find_pipe(const tune_space *space, const tune_family *family,
                                  const orr_plan *plan) {
    const tune_pipes *pipes = &space->pipes[family->pipes];
    orr_pipe wanted = plan->pipe;
    for (uint32_t p = 0; p < pipes->count; p++) {
        wanted.p2p = pipes->pipe[p].pipe.p2p;
        if (memcmp(&wanted, &pipes->pipe[p].pipe, sizeof wanted) == 0) {
            return &pipes->pipe[p];
        }
    }
    return NULL;
}

static bool has_tail(tune_space *space, const tune_family *family, const tune_pipe *pipe,
                     orr_plan *plan) {
    const tune_world *world = &space->world[family->world];
    const tune_tails *tails = tune_tails_of(space, family, pipe);
    const tune_recomputes *recomputes = tune_recomputes_of(space, family, pipe);
    bool recompute = false, shard = false;
    for (uint32_t r = 0; r < recomputes->count; r++) {
        recompute = recompute ||
                    memcmp(&recomputes->value[r], &plan->recompute, sizeof plan->recompute) == 0;
    }
    for (uint32_t k = 0; k < tails->shard_count; k++) {
        shard = shard || tails->shard[k] == plan->shard.kind;
    }
    uint32_t class = tune_recompute_class(&plan->recompute);
    uint32_t mask = tune_overlap_mask(world, plan), bits = plan->overlap & mask;
    for (uint32_t o = 0; o < TUNE_OVERLAPS && recompute && shard; o++) {
        if ((o & mask) == bits && (tails->overlaps[class] >> o & 1) != 0) {
            tune_plan_overlap(world, o, plan); /* bits without effect are as in the space */
            return true;
        }
    }
    return false;
}

bool tune_space_holds(tune_space *space, uint32_t world, orr_plan *plan, uint32_t *family) {
    for (uint32_t f = 0; f < space->family_count; f++) {
        const tune_family *one = &space->family[f];
        if (one->world != world || !same_family(one, plan)) {
            continue;
        }
        const tune_pipe *pipe = find_pipe(space, one, plan);
        if (pipe != NULL && has_tail(space, one, pipe, plan)) {
            *family = f;
            return true;
        }
    }
    return false;
}
