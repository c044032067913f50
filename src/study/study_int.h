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
    const char *problem, *unread; /* a cell that is no number, and its column; NULL: none */
} orr_run;

typedef struct orr_run_table {
    uint32_t count;
    orr_run *run;
} orr_run_table;

/* Reads runs.csv (or oom.csv), and tiers.csv beside it when given. Columns are found by name; a row
 * with a cell that should be a number and is not says so in `problem`. */
orr_status orr_runs_read(orr_arena *arena, const char *runs, const char *tiers, orr_run_table *out,
                         orr_err *err);
/* The rows of one text. */
orr_status orr_runs_parse(orr_arena *arena, const char *name, const char *text, size_t length,
                          orr_run_table *out, orr_err *err);
/* Measured tokens/s/GPU of a row, from the step time where only that is stated; 0: none. */
double orr_run_throughput(const orr_run *run);

/* How rows become plans: models by name, and the rules of data/study/rules.yaml. */
typedef struct orr_curator {
    orr_arena *arena;
    const orr_tree *models; /* of models.json */
    const orr_tree *rules;
    orr_map cards;         /* model name to its card */
    orr_plan_cache *cache; /* inputs that rows name */
} orr_curator;
orr_status orr_curator_new(orr_arena *arena, const char *models, orr_curator *out, orr_err *err);
orr_status orr_curator_of(orr_arena *arena, const orr_tree *models, orr_curator *out,
                          orr_err *err);        /* models.json as read */
void orr_curator_release(orr_curator *curator); /* plans of its rows go too */
/* The plan keys of a row. *skipped gets the reason when the row cannot be expressed. */
orr_status orr_curate(orr_curator *curator, orr_arena *arena, const orr_run *run,
                      const orr_tree **keys, const char **skipped, orr_err *err);

/* What all rules that match a row say under a heading ("set", "blank", "words", "memory"); later
 * ones win. */
orr_tree *orr_curate_facts(const orr_curator *curator, orr_arena *arena, const orr_run *run,
                           const char *heading);

/* One row as judged. */
typedef struct orr_judged {
    const orr_run *run;
    const char *skipped; /* why it was not projected; NULL when it was */
    const char *reason;  /* the same without its numbers, for counting; NULL: as skipped */
    const char *gpu, *vendor, *kind, *software;
    const orr_resolved *resolved; /* NULL when skipped */
    bool refused;                 /* legal, but the framework would not start it; then resolved */
    double measured, projected, low, high;
    double need_frac; /* memory needed of the device's */
    bool counts;      /* by its tier */
} orr_judged;

static inline double orr_judged_error(const orr_judged *row) {
    return row->projected / row->measured - 1;
}

/* Judges each row of a table; the curator owns the plans that rows point to. */
orr_status orr_judge_rows(orr_engine *engine, orr_curator *curator, orr_arena *arena,
                          const orr_study_request *request, const orr_run_table *table,
                          orr_judged **rows, orr_err *err);
/* Finds the plan of a row: keys, plan, rules; no projection. `skipped` or `resolved` is set. */
orr_status orr_judged_resolve(orr_curator *curator, orr_arena *arena, orr_judged *row,
                              orr_err *err);
/* Whether the tier of a row counts: A and B where tiers are given, else all. */
bool orr_judged_tier(const orr_study_request *request, const orr_run *run);
/* Skipped rows by reason: list of {reason, count, counting}. */
orr_tree *orr_judged_skipped(orr_arena *arena, const orr_judged *rows, uint32_t count);
/* Summaries by the name that a row has, in order of first appearance. */
typedef const char *(*orr_judged_name)(const orr_judged *row);
orr_tree *orr_judged_group(orr_arena *arena, const orr_judged *rows, uint32_t count,
                           orr_judged_name name);
const char *orr_judged_source(const orr_judged *row);

/* stats.c: summaries {rows, projected, median_abs_err ...} of the rows that count. A skipped row
 * among tiers A and B is an error of 1. */
orr_tree *orr_summarise(orr_arena *arena, const orr_judged *const *rows, uint32_t count);
double orr_median(double *values, uint32_t count);                /* sorts; 0 of none */
double orr_quantile(double *values, uint32_t count, double frac); /* sorts */
/* Mean over sources with ten rows or more of their median absolute error. */
double orr_macro_median(orr_arena *arena, const orr_judged *rows, uint32_t count);

/* Rows that the same configuration and batch on more GPUs beats by more than 1.25 per GPU, in the
 * order of the file, and their list of {index, source, tier}. */
uint32_t orr_disturbed_find(orr_arena *arena, const orr_run_table *table, const orr_run ***out);
orr_tree *orr_disturbed_write(orr_arena *arena, const orr_run_table *table);

/* Parameters of architectures and fabrics that data/study/fit.yaml fits. */
uint32_t orr_fit_machine_parameters(orr_arena *arena);

orr_tree *orr_judge_series(orr_arena *arena, const orr_judged *rows, uint32_t count);
/* Kendall's tau-b of projected and measured throughput; ties are within 2 %. */
double orr_kendall(const orr_judged *const *rows, uint32_t n);
/* Changes added one after the other: list of {source, model, gpu, gpus, signs_told, signs_right,
 * not_in_plan, kendall_tau, steps: [{index, lever, measured, projected, error, measured_gain,
 * projected_gain, sign}]}. */
orr_tree *orr_judge_ladders(const orr_curator *curator, orr_arena *arena, const orr_judged *rows,
                            uint32_t count);
/* ablate.c: list of {effect, summary, group_medians, series}, "nothing" first. */
orr_status orr_study_ablate(orr_arena *arena, const orr_judged *rows, uint32_t count,
                            orr_tree **out, orr_err *err);

/* residuals.c: what a projection left, for the intervals of others. */
typedef struct orr_residual {
    const orr_judged *row;
    const char *scaling; /* "none", "weak", "strong" */
    double log_ratio;    /* ln(measured / projected) */
} orr_residual;
/* {classes, devices} in the shape of data/residuals. */
orr_tree *orr_residuals_write(orr_arena *arena, const orr_residual *all, uint32_t count);

/* Appends what its pairs leave to `residuals` (2 x count more at most). */
orr_status orr_judge_anchored(orr_engine *engine, orr_arena *arena, const orr_judged *rows,
                              uint32_t count, orr_residual *residuals, uint32_t *residual_count,
                              orr_tree **out, orr_err *err);

#endif
