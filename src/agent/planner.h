/* What to measure next, without a language model.
 *
 * Candidates are plans with projected times. A doubt (data/agent/doubts.yaml) says how each
 * candidate's time would move if something were otherwise; that move is projected. Worlds are drawn
 * over the doubts; inside a world log times are Gaussian with one error shared by all candidates
 * (it never changes a ranking) and one of each. Measurements weigh worlds by Bayes and correct the
 * rest by Gaussian conditioning.
 *
 *   value of measuring j = E over its outcomes of [best expected throughput then]
 *                          - best expected throughput now
 *
 * relative to the best now, and divided by the seconds of device time that it takes. A candidate
 * that may run out of memory counts with the probability that it does not; measuring tells. */
#ifndef ORR_AGENT_PLANNER_H
#define ORR_AGENT_PLANNER_H

#include "belt/belt.h"

enum { ORR_PLANNER_MAX = 16, ORR_PLANNER_WORLDS = 160, ORR_PLANNER_DOUBTS = 24 };

typedef struct orr_planner {
    const orr_oracle *oracle;
    orr_arena *arena;
    const orr_tree *base;
    uint32_t count;
    const orr_tree *overrides[ORR_PLANNER_MAX];
    orr_belt_plan plan[ORR_PLANNER_MAX];
    double cost_s[ORR_PLANNER_MAX]; /* of device time, for one measurement */

    uint32_t doubt_count;
    const char *doubt_name[ORR_PLANNER_DOUBTS], *doubt_says[ORR_PLANNER_DOUBTS];
    double chance[ORR_PLANNER_DOUBTS];                 /* 0: a spread */
    double shift[ORR_PLANNER_DOUBTS][ORR_PLANNER_MAX]; /* of log time, when it holds */

    double noise_frac, residual_frac, shared_frac, setup_s, steps;
    double strength[ORR_PLANNER_WORLDS][ORR_PLANNER_DOUBTS];
    double mean[ORR_PLANNER_WORLDS][ORR_PLANNER_MAX]; /* log time, before measurements */

    bool measured[ORR_PLANNER_MAX], failed[ORR_PLANNER_MAX]; /* failed: out of memory */
    double seen[ORR_PLANNER_MAX];                            /* log time */
} orr_planner;

/* candidates: a list of overrides of base; those that are not legal or do not fit are left out, so
 * count may be less. seed draws the worlds. */
orr_status orr_planner_open(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                            const orr_tree *candidates, uint64_t seed, orr_planner *out,
                            orr_err *err);
/* A measured candidate; 0: it ran out of memory. */
void orr_planner_observe(orr_planner *planner, uint32_t candidate, double tokens_per_s_per_gpu);

typedef struct orr_planner_choice {
    uint32_t candidate; /* UINT32_MAX: nothing is worth measuring */
    double gain_frac;   /* expected, of the decision's throughput */
    double per_s;       /* gain per second of device time */
    double cost_s;
} orr_planner_choice;
/* The best thing to measure within so many seconds (0: any), none when no outcome changes the
 * decision. */
orr_planner_choice orr_planner_next(const orr_planner *planner, double within_s);

typedef struct orr_planner_view {
    uint32_t best;
    double expected[ORR_PLANNER_MAX]; /* tokens/s/GPU, with the chance of running out of memory */
    double p_best[ORR_PLANNER_MAX];
    double regret_frac;                /* expected, of choosing best */
    double belief[ORR_PLANNER_DOUBTS]; /* that the doubt holds; of a spread, its mean strength */
} orr_planner_view;
void orr_planner_look(const orr_planner *planner, orr_planner_view *out);

/* What the planner knows, for reports: candidates, doubts, decision. */
orr_tree *orr_planner_write(orr_arena *arena, const orr_planner *planner);

#endif
