/* Shared by the files of this module only. */
#ifndef ORR_PROJECTION_INT_H
#define ORR_PROJECTION_INT_H

#include "base/map.h"
#include "cost/calibration.h"
#include "projection/projection.h"

struct orr_engine {
    orr_arena *arena; /* everything cached lives here */
    orr_linker *linker;
    const orr_calibration *calibration; /* NULL until the first price list */
    orr_map tables;                     /* price lists by the content of cluster and software */
    orr_map priced;                     /* priced objects by object and price list */
    orr_map times;                      /* their times by mode */
    orr_arena *scratch;                 /* reset by each projection */
};

/* The price list of a cluster and a software profile, by content: memoised. */
orr_status orr_engine_table(orr_engine *engine, const orr_cluster *cluster,
                            const orr_software *software, const orr_cost_table **out, orr_err *err);
/* Times of an object under a mode: memoised. */
const orr_part_time *orr_engine_times(orr_engine *engine, const orr_cost_table *table,
                                      const orr_software *software, const orr_object *object,
                                      const orr_timeline_mode *mode);

/* Sums over the layers of one chunk, one micro-batch. */
typedef struct orr_chunk_time {
    orr_phase_time phase[ORR_PHASE_COUNT];
    double accumulate_s; /* of the weight gradients into fp32, in phase[WEIGHT_GRAD].total_s too */
} orr_chunk_time;

/* What the end of a step costs one rank. */
typedef struct orr_step_end {
    double dp_s; /* gradient reduction and parameter gather that nothing hides */
    double dp_error_s;
    double optimizer_s; /* step, norm, zeroing */
    double optimizer_error_s;
} orr_step_end;

/* rank_end and grads_ready (per chunk, of all ranks) come from the play, in picoseconds. */
orr_step_end orr_step_end_cost(const orr_program *program, const orr_cost_table *table,
                               uint32_t rank, const orr_chunk_time *chunk_time,
                               const orr_play *play);

#endif
