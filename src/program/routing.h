/* Where a token's experts lie: what decides how often it is sent. */
#ifndef ORR_PROGRAM_ROUTING_H
#define ORR_PROGRAM_ROUTING_H

#include <stdint.h>

/* A token chooses `topk` of `experts`; with groups, all of them in `group_topk` of the groups
 * (node-limited routing). Zeros: not routed, no groups. */
typedef struct orr_routing {
    uint32_t topk, experts, groups, group_topk;
} orr_routing;

/* Distinct places among `places` that a token's top-k experts out of `experts` lie on, on average,
 * chosen without replacement. A fraction of a choice counts as one that is made as often. */
double orr_distinct_places(double places, double topk, double experts);
/* The same under a routing, each place holding as many experts in their order. */
double orr_routing_places(const orr_routing *routing, double places);

#endif
