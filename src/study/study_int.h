/* Shared by the files of this module. */
#ifndef ORR_STUDY_INT_H
#define ORR_STUDY_INT_H

#include "base/map.h"
#include "study/study.h"

/* One published run as its row says; 0 and "" mean not stated. */
typedef struct orr_run {
    uint32_t index; /* row of the file, from 0 */
    const char *source, *model, *gpu, *precision, *sharding, *recompute, *seq_parallel, *schedule,
        *framework, *notes, *tier, *profile;
    double num_gpus, gpus_per_node, seq_len, mbs, gbs, tp, pp, vpp, ep, etp, cp, dp;
    double tokens_per_s_per_gpu, step_time_s, mem_gb;
} orr_run;

typedef struct orr_run_table {
    uint32_t count;
    orr_run *run;
} orr_run_table;

/* Reads runs.csv (or oom.csv), and tiers.csv beside it when given. Columns are found by name; a
 * cell that should be a number and is not is ORR_E_SCHEMA with its line. */
orr_status orr_runs_read(orr_arena *arena, const char *runs, const char *tiers, orr_run_table *out,
                         orr_err *err);
/* Measured tokens/s/GPU of a row, from the step time where only that is stated; 0: none. */
double orr_run_throughput(const orr_run *run);

/* How rows become plans: models by name, and the rules of data/study/rules.yaml. */
typedef struct orr_curator {
    orr_arena *arena;
    const orr_tree *models; /* of models.json */
    const orr_tree *rules;
    orr_map cards; /* model name to its card */
} orr_curator;
orr_status orr_curator_new(orr_arena *arena, const char *models, orr_curator *out, orr_err *err);
/* The plan keys of a row. *skipped gets the reason when the row cannot be expressed. */
orr_status orr_curate(orr_curator *curator, orr_arena *arena, const orr_run *run,
                      const orr_tree **keys, const char **skipped, orr_err *err);

/* One row as judged. */
typedef struct orr_judged {
    const orr_run *run;
    const char *skipped; /* NULL when projected */
    const char *gpu, *vendor, *kind, *software;
    const orr_resolved *resolved; /* NULL when skipped */
    double measured, projected, low, high;
    bool counts; /* by its tier */
} orr_judged;

static inline double orr_judged_error(const orr_judged *row) {
    return row->projected / row->measured - 1;
}

/* stats.c: summaries {rows, projected, median_abs_err ...} of the rows that count. A skipped row
 * among tiers A and B is an error of 1. */
orr_tree *orr_summarise(orr_arena *arena, const orr_judged *const *rows, uint32_t count);
double orr_median(double *values, uint32_t count);                /* sorts; 0 of none */
double orr_quantile(double *values, uint32_t count, double frac); /* sorts */
/* Mean over sources with ten rows or more of their median absolute error. */
double orr_macro_median(orr_arena *arena, const orr_judged *rows, uint32_t count);

orr_tree *orr_judge_series(orr_arena *arena, const orr_judged *rows, uint32_t count);
orr_status orr_judge_anchored(orr_engine *engine, orr_arena *arena, const orr_judged *rows,
                              uint32_t count, orr_tree **out, orr_err *err);

#endif
