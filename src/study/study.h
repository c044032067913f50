/* The judge in the house: projections against what was published. Every row that cannot be
 * expressed is counted with its reason, never dropped. docs/internals/study.md. */
#ifndef ORR_STUDY_H
#define ORR_STUDY_H

#include "projection/projection.h"

/* Called with rows done and in all; false stops (ORR_E_CANCELLED). */
typedef bool (*orr_study_progress)(void *user, double done, double total);

typedef struct orr_study_request {
    const char *runs;   /* path of runs.csv */
    const char *models; /* path of models.json */
    const char *tiers;  /* path of tiers.csv or NULL: every row counts */
    const char *oom;    /* path of oom.csv or NULL (memory) */
    bool anchored;
    bool ablate;       /* the table once more without each effect */
    const char *stage; /* fit: this one alone; NULL: all */
    bool check;        /* fit: errors on series and profiles left out instead */
    orr_study_progress progress;
    void *progress_user;
} orr_study_request;

/* A committed headline {checks: [{path, value, better: lower|higher|equal, rounding}]} against a
 * result: {passed, failures: [{path, value, expected}]}. */
orr_status orr_study_expect(orr_arena *arena, const orr_tree *result, const char *path,
                            orr_tree **check, orr_err *err);

/* Result trees of `orrery validate` in its forms; all live in arena. */
orr_status orr_study_runs(orr_engine *engine, orr_arena *arena, const orr_study_request *request,
                          orr_tree **result, orr_err *err);
/* Peak memory of rows that state it, and verdicts on rows that ran and on those of oom. */
orr_status orr_study_memory(orr_engine *engine, orr_arena *arena, const orr_study_request *request,
                            orr_tree **result, orr_err *err);
/* Fits the numbers of profiles and architectures (data/study/fit.yaml) to the runs: {stages:
 * [{stage, before, after, parameters: [{in, field, before, after, low, high}]}], before, after};
 * with check {before, left_out: {series, profiles}}. */
orr_status orr_study_fit(orr_arena *arena, const orr_study_request *request, orr_tree **result,
                         orr_err *err);
/* Puts what a fit found into the files of a data folder, number by number where each stands; adds
 * `written`, the files changed. A field that its file does not state is ORR_E_NAME. */
orr_status orr_study_fit_write(orr_arena *arena, orr_tree *result, const char *folder,
                               orr_err *err);
/* The rows of a result as CSV, one column a key. */
const char *orr_study_rows_csv(orr_arena *arena, const orr_tree *result);
/* Bytes kept for backward, case by case, against counts of saved-tensor hooks (truth: cases.json).
 */
orr_status orr_study_saved_bytes(orr_arena *arena, const char *path, orr_tree **result,
                                 orr_err *err);
/* Buffers of the distributed optimizer, as a framework's own function laid them out: {summary:
 * {layouts, identical}, failures: [{layout, what}]} (tests/data/memory/distopt_layout.json). */
orr_status orr_study_layouts(orr_arena *arena, const char *path, orr_tree **result, orr_err *err);
/* Recorded schedules in a folder of vectors (as in tests/data/schedules); files that hold a list
 * are further tests, reported under `lists`. */
orr_status orr_study_schedules(orr_arena *arena, const char *folder, orr_tree **result,
                               orr_err *err);

#endif
