/* One row of a table of runs or failures, and what was said of it. */
#ifndef ORR_STUDY_VERDICT_H
#define ORR_STUDY_VERDICT_H

#include "study/study_int.h"

typedef enum orr_outcome {
    ORR_OUTCOME_FITS = 0,
    ORR_OUTCOME_OOM,
    ORR_OUTCOME_DOES_NOT_START,
    ORR_OUTCOME_DEPENDS, /* fits with full recompute alone, and nobody says what ran */
    ORR_OUTCOME_COUNT
} orr_outcome;

typedef struct orr_verdict {
    orr_judged judged; /* of the peak: measured, projected, low, high in GiB */
    orr_memory memory; /* recompute as stated, none where unknown */
    orr_outcome outcome;
    bool failed;  /* of the table of failures */
    bool given;   /* an outcome was found */
    bool no_peak; /* what the source prints is no peak of a run */
    double p_fail;
    orr_memory_figure figure;
    const char *rank;
} orr_verdict;

/* A row that says itself what it recomputes: only those bind a verdict. */
bool orr_verdict_states_recompute(const orr_verdict *verdict);

/* Every mistake with more than 5 % of clearance: list of {index, source, failed, need_gib,
 * line_gib, clearance_frac, cause}. The cause of a run that was called out of memory is the one
 * unstated choice that makes it fit; a failure that needs little has one outside memory. */
orr_status orr_study_mistakes(orr_engine *engine, orr_arena *arena, const orr_verdict *all,
                              uint32_t count, orr_tree **out, orr_err *err);

#endif
