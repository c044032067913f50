/* The tool belt: questions about plans that need many projections, each answered by one call.
 *
 * Everything is asked of an oracle, which answers commands as orr_call does, trees in and trees
 * out. The belt never looks behind it, so a device that replays measurements, or a test's world,
 * can stand in its place. Plans are given as a base (the arguments of `project`) and overrides. */
#ifndef ORR_BELT_H
#define ORR_BELT_H

#include "orrery/orrery.h"

typedef struct orr_oracle {
    /* As orr_call: a plan that breaks rules is a result, inputs that cannot be read are errors. */
    orr_status (*call)(void *user, const char *command, const orr_tree *args, orr_arena *arena,
                       orr_tree **result, orr_err *err);
    /* May be NULL; false cancels, and the tool returns ORR_E_CANCELLED. */
    bool (*progress)(void *user, const char *what, double done, double total);
    void *user;
} orr_oracle;

enum {
    ORR_BELT_MAX_PLANS = 16,      /* of one evaluation */
    ORR_BELT_ID_BYTES = 16 + 1,   /* of a plan's identifier, terminated */
    ORR_BELT_MAX_NEIGHBORS = 128, /* plans one step away */
    ORR_BELT_MAX_AXES = 24
};

/* One plan, as short as a reader can use it; see orr_belt_row. */
typedef struct orr_belt_plan {
    char id[ORR_BELT_ID_BYTES]; /* of the resolved plan: spelled differently, the same */
    bool readable, legal, fits;
    double tokens_per_s_per_gpu; /* 0 unless legal */
    double low, high;            /* 90 % */
    double step_s;
    double need_frac;         /* memory needed of what is usable */
    double p_oom;             /* probability */
    const orr_tree *envelope; /* of `project`; NULL unless readable */
    orr_err why;              /* unless readable */
} orr_belt_plan;

/* base with overrides on top; a null override removes a key. */
orr_tree *orr_belt_merge(orr_arena *arena, const orr_tree *base, const orr_tree *overrides);
/* The same, but nulls stay: overrides of overrides. */
orr_tree *orr_belt_merge_nulls(orr_arena *arena, const orr_tree *under, const orr_tree *over);
/* Projects one plan. Only a cancelled or broken oracle is an error. */
orr_status orr_belt_project(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                            const orr_tree *overrides, orr_belt_plan *out, orr_err *err);
/* {id, plan, legal, fits, tokens_per_s_per_gpu, interval_90, step_time_s, memory, p_oom,
 * bottlenecks[3], rules, error}, what does not apply left out. */
orr_tree *orr_belt_row(orr_arena *arena, const orr_tree *overrides, const orr_belt_plan *plan);

/* ---- tools; each fills `out`, a map ----------------------------------------------------------
 */

/* plans: a list of up to ORR_BELT_MAX_PLANS overrides. rows in the same order, and `best`. */
orr_status orr_belt_evaluate(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                             const orr_tree *plans, orr_tree *out, orr_err *err);
/* Where the step's time and the fullest rank's bytes go, and which keys act on each. *warnings: the
 * list of the projection, or NULL. */
orr_status orr_belt_explain(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                            orr_tree *out, const orr_tree **warnings, orr_err *err);
/* All legal plans one step away along the axes, the fastest first, and what rules refuse. */
orr_status orr_belt_neighbors(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                              const orr_tree *only_axes, orr_tree *out, orr_err *err);
/* Two plans side by side: keys that differ, time and bytes by cause. */
orr_status orr_belt_compare(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                            const orr_tree *overrides, orr_tree *out, orr_err *err);
/* How much tokens/s/GPU moves when a figure of the machine does: per cent for one per cent. */
orr_status orr_belt_sensitivity(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                                orr_tree *out, orr_err *err);

/* ---- axes ------------------------------------------------------------------------------------
 */

/* A plan key with the values that a search may give it, in order where there is one. */
typedef struct orr_belt_axis {
    const char *key;
    const orr_tree *values; /* a list; null is "not stated" */
    uint32_t at;            /* of the base plan; UINT32_MAX when it has another value */
    bool asked_only;        /* changes what is computed: left alone unless named */
} orr_belt_axis;

/* The axes of a base plan: what the model, the machine and the values of the keys allow one by one.
 * Combinations are the rules' business. */
orr_status orr_belt_axes(const orr_oracle *oracle, orr_arena *arena, const orr_tree *base,
                         orr_belt_axis axis[ORR_BELT_MAX_AXES], uint32_t *count, orr_err *err);
/* Overrides that move the base plan to values[at] of an axis: the key, and those that must go
 * along. */
orr_tree *orr_belt_step(orr_arena *arena, const orr_belt_axis *axis, uint32_t at);

#endif
