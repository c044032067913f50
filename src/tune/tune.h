/* Search over plans: every knob of a plan, every legal value, the best one, and a certificate that
 * nothing better was left out. An evaluation is the exact step time and the exact need of the worst
 * rank of one legal plan; what a bound rules out is counted apart. docs/internals/tune.md. */
#ifndef ORR_TUNE_H
#define ORR_TUNE_H

#include "orrery/ranks.h"
#include "projection/projection.h"
#include "store/store.h"

typedef enum orr_objective {
    ORR_OBJECTIVE_THROUGHPUT = 0,  /* tokens/s/GPU */
    ORR_OBJECTIVE_STEP,            /* shortest step */
    ORR_OBJECTIVE_TIME,            /* tokens/s of all GPUs; with tokens: days to train */
    ORR_OBJECTIVE_GPUS,            /* fewest GPUs, then throughput */
    ORR_OBJECTIVE_COST,            /* money of a run; takes prices */
    ORR_OBJECTIVE_ENERGY,          /* of a run */
    ORR_OBJECTIVE_CHEAPEST_CLUSTER /* least money an hour, then throughput */
} orr_objective;

/* done and total of `what`; false stops the search, which then ends with its best so far. */
typedef bool (*orr_tune_progress)(void *user, const char *what, double done, double total);

/* This process among those that share the search. Each is asked for the same, only the first has
 * the store and is told of progress; all get the same result. */
typedef struct orr_tune_ranks {
    const orr_ranks *table;
    void *self;
    uint32_t rank, count;
} orr_tune_ranks;

typedef struct orr_tune_request {
    const orr_tree *keys;          /* plan keys: the workload, and a plan to start from */
    const orr_tree *baseline;      /* keys of a plan to compare with, or NULL */
    const orr_tree *measured;      /* list of {plan: keys, tokens_per_s_per_gpu}, or NULL */
    const orr_tree *pins, *ranges; /* lists of texts "KEY=VALUE", "KEY=A..B" or "KEY=A,B" */
    uint8_t objective;             /* orr_objective */
    double margin_frac;            /* of usable memory that stays free; 0: what the verdict takes */
    double p_oom;                  /* most P(OOM) that a plan may have; 0: any */
    double tokens;                 /* of a run; 0: only ratios matter */
    const orr_tree *prices;        /* as orr_prices_find takes them, or NULL */
    double max_days, max_cost, max_kwh; /* of the run; 0: any */
    const char *front;           /* objectives of a front over worlds, "cost,time-to-train" */
    double budget_s;             /* stop after so long; 0: when done */
    double within_frac;          /* plans this near the best are all counted; 0: the model's own
                                    error in comparing two plans */
    orr_store *store;            /* trials and state go here; NULL: nowhere */
    bool resume;                 /* from the state of the same search in the store */
    uint64_t key;                /* out: of the search in the store */
    uint32_t threads;            /* 0: one */
    const orr_tune_ranks *ranks; /* NULL: this process alone */
    uint32_t seed_budget;        /* evaluations of the seed planner; 0: none */
    bool what_if;                /* which figure of the machine matters most */
    bool brute;                  /* no bounds */
    bool count;                  /* the size of the space only */
    orr_tune_progress progress;
    void *progress_user;
} orr_tune_request;

/* The result tree of `orrery tune` lives in arena. ORR_E_INFEASIBLE when
 * no plan is legal or fits: the message names what empties the space. */
orr_status orr_tune(orr_engine *engine, orr_arena *arena, orr_tune_request *request,
                    orr_tree **result, orr_err *err);

#endif
