#include "program/routing.h"

#include "base/num.h"

double orr_distinct_places(double places, double topk, double experts) {
    double here = experts / places; /* experts of one place */
    double missed = 1;              /* no choice falls on it: C(E - E/P, k) / C(E, k) */
    for (double i = 0; i < topk; i++) {
        double miss = orr_max_f64(0, (experts - here - i) / (experts - i));
        double made = orr_min_f64(1, topk - i);
        missed *= made < 1 ? 1 - made * (1 - miss) : miss;
    }
    return places * (1 - missed);
}

double orr_routing_places(const orr_routing *routing, double places) {
    double topk = routing->topk, experts = routing->experts;
    double groups = routing->groups, chosen = routing->group_topk;
    if (!(chosen > 0) || chosen >= groups) {
        return orr_distinct_places(places, topk, experts);
    }
    double candidates = experts * chosen / groups;
    if (places >= groups) { /* those of the chosen groups alone */
        return orr_distinct_places(places * chosen / groups, topk, candidates);
    }
    /* several groups a place: chosen groups that get an expert at all, then the places of those */
    return orr_distinct_places(places, orr_distinct_places(chosen, topk, candidates), groups);
}
