/* Collective algorithms. Which of them a library would use is decided in policy.c.
 *
 * Inside a scale-up domain a measured message and its surface stand for all protocols of a library;
 * across domains rings and trees are limited by the NICs of the members (docs/internals/cost.md,
 * "Collectives across nodes"). Ignored: contention with other jobs on shared links. */
#include <math.h>

#include "base/num.h"
#include "cost/models.h"

double orr_message_time_s(const orr_message *message, double wire_bytes) {
    double flow = wire_bytes / message->Bps;
    return message->start_s + flow + 2 * sqrt(message->piece_s * flow);
}

/* A ring through all ranks enters and leaves every domain once per step of the ring; its domain's
 * NICs share the crossing. */
double orr_rails_ring_s(const orr_rails *rails, double bytes, bool all_reduce) {
    double rounds = all_reduce ? 2 : 1; /* reduce-scatter, then all-gather */
    double nic = rails->nic_Bps * rails->inner;
    double bus_Bps = rails->inner > 1 ? orr_min_f64(rails->inner_Bps, nic) : nic;
    if (rails->stall_ranks > 0) {
        bus_Bps /= 1 + rails->ranks / rails->stall_ranks;
    }
    double wire = rounds * (rails->ranks - 1) / rails->ranks * bytes;
    double hops =
        (rails->domains - 1) * rails->hop_s + (rails->ranks - rails->domains) * rails->peer_hop_s;
    return rails->base_s + rounds * hops + wire / bus_Bps;
}

/* A double binary tree over domains, rings inside. */
double orr_rails_tree_s(const orr_rails *rails, double bytes) {
    static const double HOP_FACTOR = 1.5,
                        BUS_FRAC = 0.85;                 /* the share: NCCL, src/graph/tuning.cc */
    double ends = 2 * (rails->ranks - 1) / rails->ranks; /* of the bus, when data crosses once */
    double nic = rails->nic_Bps * rails->inner * (rails->domains <= 2 ? ends : 1);
    double bus_Bps = rails->inner > 1 ? orr_min_f64(rails->inner_Bps, nic) : nic;
    double depth = orr_ceil_log2_u64((uint64_t)rails->domains);
    double wire = 2 * (rails->ranks - 1) / rails->ranks * bytes;
    double level = rails->tree_hop_s > 0 ? rails->tree_hop_s : HOP_FACTOR * rails->hop_s;
    double hops = 2 * depth * level + 2 * (rails->inner - 1) * rails->peer_hop_s;
    return rails->base_s + hops + wire / (BUS_FRAC * bus_Bps);
}

/* Switches add up: each domain's data goes in once and comes out once, and small messages wait for
 * the depth of the switches, not of a tree of hosts. */
double orr_rails_sharp_s(const orr_rails *rails, double bytes) {
    static const double LEVELS = 2; /* leaf and spine */
    double wire = 2 * (rails->ranks - 1) / rails->ranks * bytes;
    double nic = rails->nic_Bps * rails->inner * wire / bytes;
    double bus_Bps = rails->inner > 1 ? orr_min_f64(rails->inner_Bps, nic) : nic;
    double hops = 2 * LEVELS * rails->hop_s + 2 * (rails->inner - 1) * rails->peer_hop_s;
    return rails->base_s + hops + wire / bus_Bps;
}

double orr_torus_hops(double ranks, double dimensions) {
    /* around a ring of s a byte goes s/4 on average, either way */
    double side = pow(ranks, 1 / orr_max_f64(1, dimensions));
    return orr_max_f64(1, dimensions * side / 4);
}

/* Every rank sends what leaves its domain through its own NIC; the rest, and what arrives for its
 * neighbours, goes over the scale-up links meanwhile. */
double orr_rails_all_to_all_s(const orr_rails *rails, double bytes, double crossing_frac) {
    double outside = bytes * crossing_frac / rails->nic_Bps;
    double inside =
        rails->inner > 1 ? bytes * (rails->inner - 1) / rails->inner / rails->inner_Bps : 0;
    double hops =
        (rails->domains - 1) * rails->hop_s + (rails->ranks - rails->domains) * rails->peer_hop_s;
    return rails->base_s + hops + orr_max_f64(outside, inside);
}

double orr_distinct_places(double places, double topk, double experts) {
    double here = experts / places; /* experts of one place */
    double missed = 1;              /* no choice falls on it: C(E - E/P, k) / C(E, k) */
    for (double i = 0; i < topk; i++) {
        missed *= orr_max_f64(0, (experts - here - i) / (experts - i));
    }
    return places * (1 - missed);
}
