/* From priced ops to the times of layers: streams inside a layer, what communication hides behind
 * compute, recompute, host floors. docs/internals/program.md says which ops there are. */
#ifndef ORR_TIMELINE_H
#define ORR_TIMELINE_H

#include "cost/cost.h"

/* Seconds of one phase. Classes of communication count what is exposed. */
typedef struct orr_phase_time {
    double class_s[ORR_CLASS_COUNT];
    double recompute_s; /* forward work repeated in the backward, its communication included */
    double host_s;      /* added to reach the host's launch floor */
    double total_s;     /* sum of the above */
    double error_s[ORR_CLASS_COUNT]; /* one standard deviation by class; correlated within one */
    double provenance_s[ORR_PROVENANCE_COUNT]; /* total_s by origin */
} orr_phase_time;

typedef struct orr_part_time {
    orr_phase_time phase[ORR_PHASE_COUNT];
} orr_part_time;

/* What the times of an object depend on besides its prices. Zero-padded: part of a memo key. */
typedef struct orr_timeline_mode {
    uint32_t modules;      /* orr_module bits recomputed */
    uint32_t overlap;      /* orr_overlap_bit bits */
    uint32_t checkpointed; /* 1: the whole layer is recomputed */
    uint32_t steady_tp;    /* tp where a full pipeline over several nodes slows the host, else 0 */
    double compute_factor; /* on compute and host floors (an anchor's correction), 1: as priced */
    double more_host;      /* host floors are 1 + this as long */
} orr_timeline_mode;

/* What a host needs to launch one layer's forward and backward under a profile, graphs counted:
 * neither can be shorter. */
typedef struct orr_host_floor {
    double forward_s, backward_s;
} orr_host_floor;
orr_host_floor orr_timeline_host(const orr_software *software, bool moe);

/* Times of one object, one micro-batch. Pure. */
void orr_timeline_object(const orr_priced *priced, const orr_software *software,
                         const orr_timeline_mode *mode, orr_part_time *out);

#endif
