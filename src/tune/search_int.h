/* Inside the search: what its bounds, its families and its rounds share. */
#ifndef ORR_TUNE_SEARCH_INT_H
#define ORR_TUNE_SEARCH_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "tune/tune_int.h"

enum { TUNE_MAX_ROUND = 256 }; /* families */

typedef struct tune_searching {
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
} tune_searching;

/* Something to look at, in the order of its bound. */
typedef struct tune_ranked {
    double bound;
    uint32_t index;
    uint32_t first; /* comes before the bound */
} tune_ranked;
int tune_by_bound(const void *a, const void *b);

/* ---- search_state.c -------------------------------------------------------------------------- */

void tune_search_open(tune_searching *s, orr_engine *engine);
void tune_search_close(tune_searching *s);
/* Ends the search: a bug, not a result. */
void tune_search_fail(tune_searching *s, const orr_err *err);
/* TUNE_STOP bits that any of the ranks knows: they go on together, or stop together. */
uint32_t tune_search_stops(tune_searching *s, const char *what, double done, double total);
/* From inside a family, by whichever thread comes first. */
bool tune_search_is_cut(tune_searching *s);
orr_quick *tune_search_quick(tune_searching *s, uint32_t thread, uint32_t world);
/* A plan that the projection does not take bounds nothing; another failure ends the search. */
bool tune_search_answered(tune_searching *s, orr_status status, const orr_err *err);
/* The index of this rank's `index`th piece of work, and how many of `count` are its own. */
uint32_t tune_search_own_index(const tune_searching *s, uint32_t index);
uint32_t tune_search_own_count(const tune_searching *s, uint32_t count);
/* Between the work of the pool. What the next families share with those before is little. */
void tune_search_trim(tune_searching *s);

/* ---- search_bounds.c ------------------------------------------------------------------------- */

/* Bounds of all families, or of as many as there is time for; the others' are -1: not known.
 * Returns TUNE_STOP bits. */
uint32_t tune_search_bounds(tune_searching *s);

/* ---- search_family.c ------------------------------------------------------------------------- */

/* A job of the pool: one family of the round, into its own keep. */
void tune_search_family(void *user, uint32_t thread, uint32_t own);

#endif
