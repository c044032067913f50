/* What the parts of a search share: what it prices with, who ends it, whose work is whose. */
#include "tune/search_int.h"

#include "base/mem.h"
#include "base/num.h"

void tune_search_open(tune_searching *s, orr_engine *engine) {
    s->engine = (orr_engine **)orr_alloc(s->threads * sizeof *s->engine);
    s->quick = (orr_quick ***)orr_alloc(s->threads * sizeof *s->quick);
    s->unit = (tune_keep *)orr_alloc(TUNE_MAX_ROUND * sizeof *s->unit);
    for (uint32_t t = 0; t < s->threads; t++) {
        s->engine[t] = t == 0 ? engine : orr_engine_twin(engine);
        s->quick[t] = (orr_quick **)orr_alloc(s->space->world_count * sizeof **s->quick);
    }
}

void tune_search_close(tune_searching *s) {
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

void tune_search_fail(tune_searching *s, const orr_err *err) {
    s->err = *err; /* any one of several: they are bugs, not results */
    atomic_store(&s->failed, true);
}

/* What this process knows. */
static uint32_t own_stops(tune_searching *s, const char *what, double done, double total) {
    const orr_tune_request *request = s->space->request;
    uint32_t flags = atomic_load(&s->failed) ? TUNE_STOP_FAILURE : 0;
    bool more =
        request->progress == NULL || request->progress(request->progress_user, what, done, total);
    flags |= more ? 0 : TUNE_STOP_INTERRUPT;
    bool late = request->budget_s > 0 && tune_clock_s() - s->space->start_s >= request->budget_s;
    return flags | (late ? TUNE_STOP_BUDGET : 0);
}

uint32_t tune_search_stops(tune_searching *s, const char *what, double done, double total) {
    orr_err err = {0};
    uint32_t own = own_stops(s, what, done, total), flags = own | atomic_load(&s->cut);
    if (tune_ranks_agree(s->space->request, &flags, &err) != ORR_OK) {
        tune_search_fail(s, &err);
        return own | TUNE_STOP_FAILURE;
    }
    if ((flags & TUNE_STOP_FAILURE) != 0 && !atomic_load(&s->failed)) {
        (void)orr_fail(&err, ORR_E_IO, "another rank of the search failed");
        tune_search_fail(s, &err);
    }
    return flags;
}

bool tune_search_is_cut(tune_searching *s) {
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

orr_quick *tune_search_quick(tune_searching *s, uint32_t thread, uint32_t world) {
    orr_err err = {0};
    orr_quick **slot = &s->quick[thread][world];
    if (*slot == NULL && orr_quick_new(s->engine[thread], &s->space->world[world].base,
                                       s->space->compute_factor, slot, &err) != ORR_OK) {
        tune_search_fail(s, &err);
    }
    return *slot;
}

bool tune_search_answered(tune_searching *s, orr_status status, const orr_err *err) {
    if (status != ORR_OK && !is_limit(status)) {
        tune_search_fail(s, err);
    }
    return status == ORR_OK;
}

uint32_t tune_search_own_index(const tune_searching *s, uint32_t index) {
    const orr_tune_request *request = s->space->request;
    return index * tune_rank_count(request) + tune_rank(request);
}
uint32_t tune_search_own_count(const tune_searching *s, uint32_t count) {
    uint32_t ranks = tune_rank_count(s->space->request), own = tune_rank(s->space->request);
    return (count + ranks - 1 - own) / ranks;
}

void tune_search_trim(tune_searching *s) {
    enum { MOST_BYTES = 128 << 20 };
    for (uint32_t t = 0; t < s->threads; t++) {
        orr_engine_trim(s->engine[t], MOST_BYTES);
    }
}

int tune_by_bound(const void *a, const void *b) {
    const tune_ranked *x = (const tune_ranked *)a, *y = (const tune_ranked *)b;
    return x->first < y->first   ? -1
           : x->first > y->first ? 1
           : x->bound < y->bound ? -1
           : x->bound > y->bound ? 1
           : x->index < y->index ? -1
                                 : x->index > y->index;
}
