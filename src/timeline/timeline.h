/* From priced ops to the times of chunks: streams inside a layer, what communication hides behind
 * compute, recompute, host floors. Spec: steptime.md §2.5, §2.7, §2.11. */
#ifndef ORR_TIMELINE_H
#define ORR_TIMELINE_H

#include "cost/cost.h"

/* Seconds of one phase by class of the breakdown; communication counts what is exposed. */
typedef struct orr_phase_time {
    double class_s[ORR_CLASS_COUNT];
    double recompute_s; /* forward work repeated in the backward */
    double host_s;      /* added to reach the host floor */
    double total_s;     /* sum of the above */
    double error_s;     /* one standard deviation: errors within a class are fully correlated */
    double provenance_s[ORR_PROVENANCE_COUNT]; /* total_s by origin */
} orr_phase_time;

typedef struct orr_part_time {
    orr_phase_time forward, input_grad, weight_grad;
} orr_part_time;

/* Times of one layer (or embedding, head) under a plan's recompute and overlap. checkpointed: the
 * layer is fully recomputed. multi_domain: the job spans several scale-up domains. */
void orr_timeline_layer(const orr_priced *priced, const orr_resolved *resolved, bool checkpointed,
                        orr_part_time *out);

#endif
