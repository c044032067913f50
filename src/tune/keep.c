/* What is remembered of the plans found: the best, the front of time against memory, and the costs
 * of those that the model cannot tell from the best. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "tune/tune_int.h"

void tune_keep_init(tune_keep *keep, double within_frac, uint32_t top) {
    memset(keep, 0, sizeof *keep);
    keep->within_frac = within_frac;
    keep->limit = orr_min_u32(top, TUNE_TOP);
}

void tune_keep_release(tune_keep *keep) {
    orr_release(keep->near);
    keep->near = NULL;
    keep->near_count = keep->near_capacity = 0;
}

double tune_keep_best(const tune_keep *keep) {
    return keep->top_count > 0 ? keep->top[0].cost : HUGE_VAL;
}

double tune_keep_limit(const tune_keep *keep) {
    return tune_keep_best(keep) * (1 + keep->within_frac);
}

/* Of two plans that cost the same the one that needs less memory. */
static bool is_before(const tune_found *a, const tune_found *b) {
    return a->cost < b->cost || (!(a->cost > b->cost) && a->need_bytes < b->need_bytes);
}

/* Found later, or equal: behind. Plans come in an order of their own, whatever the threads. */
static void add_top(tune_keep *keep, const tune_found *found) {
    uint32_t at = keep->top_count;
    while (at > 0 && is_before(found, &keep->top[at - 1])) {
        at--;
    }
    if (at >= keep->limit) {
        return;
    }
    uint32_t kept = orr_min_u32(keep->top_count, keep->limit - 1);
    memmove(&keep->top[at + 1], &keep->top[at], (kept - at) * sizeof *found);
    keep->top[at] = *found;
    keep->top_count = kept + 1;
}

/* Neither slower nor needing more than another. */
static void add_front(tune_keep *keep, const tune_found *found) {
    uint32_t at = 0;
    while (at < keep->front_count && keep->front[at].cost < found->cost) {
        at++;
    }
    if (at > 0 && keep->front[at - 1].need_bytes <= found->need_bytes) {
        return;
    }
    if (at < keep->front_count && !(keep->front[at].cost > found->cost) &&
        keep->front[at].need_bytes <= found->need_bytes) {
        return;
    }
    uint32_t end = at;
    while (end < keep->front_count && keep->front[end].need_bytes >= found->need_bytes) {
        end++;
    }
    uint32_t rest = keep->front_count - end;
    if (at == end && keep->front_count == TUNE_FRONT) {
        return; /* full: a front this fine has neighbours enough */
    }
    memmove(&keep->front[at + 1], &keep->front[end], rest * sizeof *found);
    keep->front[at] = *found;
    keep->front_count = at + 1 + rest;
}

static void compact(tune_keep *keep) {
    double limit = tune_keep_limit(keep);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < keep->near_count; i++) {
        if (keep->near[i] <= limit) {
            keep->near[kept++] = keep->near[i];
        }
    }
    keep->near_count = kept;
}

static void add_near(tune_keep *keep, double cost) {
    if (keep->near_count == keep->near_capacity) {
        compact(keep);
    }
    if (keep->near_count == keep->near_capacity || keep->near_capacity / 2 < keep->near_count) {
        keep->near_capacity = orr_max_u32(256, 2 * keep->near_capacity);
        keep->near = (double *)orr_realloc(keep->near, keep->near_capacity * sizeof *keep->near);
    }
    keep->near[keep->near_count++] = cost;
}

void tune_keep_add(tune_keep *keep, const tune_found *found) {
    bool full = keep->top_count == keep->limit;
    if (!full || is_before(found, &keep->top[keep->top_count - 1])) {
        add_top(keep, found);
    }
    add_front(keep, found);
    if (found->cost <= tune_keep_limit(keep)) {
        add_near(keep, found->cost);
    }
}

void tune_keep_refuse(tune_keep *keep, double need_bytes) {
    bool less = !(keep->least_need_bytes > 0) || need_bytes < keep->least_need_bytes;
    keep->least_need_bytes = need_bytes > 0 && less ? need_bytes : keep->least_need_bytes;
}

void tune_keep_merge(tune_keep *keep, const tune_keep *other) {
    for (uint32_t i = 0; i < other->top_count; i++) {
        add_top(keep, &other->top[i]);
    }
    for (uint32_t i = 0; i < other->front_count; i++) {
        add_front(keep, &other->front[i]);
    }
    for (uint32_t i = 0; i < other->near_count; i++) {
        if (other->near[i] <= tune_keep_limit(keep)) {
            add_near(keep, other->near[i]);
        }
    }
    keep->evaluated += other->evaluated;
    keep->pruned_time += other->pruned_time;
    keep->pruned_memory += other->pruned_memory;
    keep->unanswered += other->unanswered;
    tune_keep_refuse(keep, other->least_need_bytes);
}

uint64_t tune_keep_near(tune_keep *keep) {
    compact(keep);
    return keep->near_count;
}
