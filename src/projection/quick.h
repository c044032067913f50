/* Step time and memory of many plans of one model on one machine: the figures of orr_project, equal
 * to the last bit, without breakdown, interval and ledger. What a plan shares with the one asked
 * before is not done again: ask for plans that differ in sharding and overlap dp one after the
 * other, then for those that differ in overlap and recompute. One per thread; of an engine that
 * leaves no effects out. */
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

/* Lower bounds. Of the step, without building an order or playing it. */
orr_status orr_quick_bound(orr_quick *quick, const orr_plan *plan, double *step_s, orr_err *err);
/* Of the need, quicker than itself. */
orr_status orr_quick_floor(orr_quick *quick, const orr_plan *plan, double *need_bytes,
                           orr_err *err);
/* Of what stays all the time alone, whatever is recomputed and overlapped but reductions. */
orr_status orr_quick_states(orr_quick *quick, const orr_plan *plan, double *need_bytes,
                            orr_err *err);
/* Of the step of all plans that fit into `fits_bytes` and differ from this in schedule, chunks
 * and layout: every rank has its share of the work, and some rank its share of the bytes. HUGE_VAL:
 * none fits. Where every layer is recomputed the bytes are those of states, since checkpoints may
 * span layers. */
orr_status orr_quick_share(orr_quick *quick, const orr_plan *plan, double fits_bytes,
                           double *step_s, orr_err *err);
/* The same for plans that may also recompute whole layers, any number of them. */
orr_status orr_quick_checkpointed_share(orr_quick *quick, const orr_plan *plan, double fits_bytes,
                                        double *step_s, orr_err *err);

#endif
