/* Shared by the files of the schedule command only. */
#ifndef ORR_API_SCHEDULE_INT_H
#define ORR_API_SCHEDULE_INT_H

#include "api/api.h"

/* What is scheduled: a shape and times, from options, a plan or a file of ops. */
typedef struct scene {
    orr_job *job;
    orr_schedule_spec spec;
    orr_durations d;
    double scale;         /* picoseconds, or integer steps, of one unit of the answer */
    bool seconds;         /* that unit is the second; else that of the plain numbers given */
    bool mode_given;      /* how transfers work was said, not taken from the kind */
    const orr_tree *keys; /* of the plan; NULL: there is none */
    const orr_resolved *resolved;
} scene;

/* Keys of an answer that one built order and its play give: makespan, bubble, lower_bound,
 * peak_in_flight and others. */
orr_status orr_scene_describe(const scene *s, const orr_order *order, orr_tree *into, orr_err *err);
/* Start and end of ops, up to `most`: {ranks: [[{op, start, end}]], complete}. */
orr_status orr_scene_timeline(const scene *s, const orr_order *order, uint32_t most, orr_tree **out,
                              orr_err *err);
/* All kinds on the same work: `compare`, those that are legal, the Pareto-optimal ones marked, and
 * `excluded`, the others with the reason. */
void orr_scene_compare(const scene *s, orr_tree *result);

#endif
