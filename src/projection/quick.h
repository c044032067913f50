/* Step time and memory of many plans of one model on one machine: the figures of orr_project, equal
 * to the last bit, without breakdown, interval and ledger. What a plan shares with the one asked
 * before is not done again, so ask for plans that differ in sharding and overlap dp one after the
 * other. One per thread. */
#ifndef ORR_PROJECTION_QUICK_H
#define ORR_PROJECTION_QUICK_H

#include "projection/projection.h"

typedef struct orr_quick orr_quick;

/* `base` gives model, cluster and software, and must live as long; compute_factor as in
 * orr_projection.anchor_factor. */
orr_status orr_quick_new(orr_engine *engine, const orr_resolved *base, double compute_factor,
                         orr_quick **out, orr_err *err);
void orr_quick_free(orr_quick *quick);

/* All take a legal plan. Bytes the worst rank needs: orr_memory.worst.need_bytes. */
orr_status orr_quick_need(orr_quick *quick, const orr_plan *plan, double *need_bytes, orr_err *err);
orr_status orr_quick_step(orr_quick *quick, const orr_plan *plan, double *step_s, orr_err *err);
/* A lower bound of the step that builds no order and plays nothing. */
orr_status orr_quick_bound(orr_quick *quick, const orr_plan *plan, double *step_s, orr_err *err);
/* A weaker one, of all plans that differ from this in schedule, chunks and layout: every rank does
 * at least its share of the work. */
orr_status orr_quick_work_bound(orr_quick *quick, const orr_plan *plan, double *step_s,
                                orr_err *err);

#endif
