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
    double nic = rails->site_Bps;
    double bus_Bps = rails->inner > 1 ? orr_min_f64(rails->inner_Bps, nic) : nic;
    if (rails->stall_ranks > 0) {
        bus_Bps /= 1 + rails->ranks / rails->stall_ranks;
    }
    double wire = rounds * (rails->ranks - 1) / rails->ranks * bytes;
    double hops =
        (rails->domains - 1) * rails->hop_s + (rails->ranks - rails->domains) * rails->peer_hop_s;
    return rails->base_s + rounds * hops + wire / bus_Bps;
}

static const double TREE_BUS_FRAC = 0.85; /* NCCL, src/graph/tuning.cc */

/* A double binary tree over domains: up and down its levels, beside what happens inside a domain.
 */
static double tree_s(const orr_rails *rails, double bytes, double inside_s, double inside_Bps) {
    static const double HOP_FACTOR = 1.5;
    double ends = 2 * (rails->ranks - 1) / rails->ranks; /* of the bus, when data crosses once */
    double nic = rails->site_Bps * (rails->domains <= 2 ? ends : 1) * TREE_BUS_FRAC;
    double bus_Bps = rails->inner > 1 ? orr_min_f64(inside_Bps, nic) : nic;
    double depth = orr_ceil_log2_u64((uint64_t)rails->domains);
    double level = rails->tree_hop_s > 0 ? rails->tree_hop_s : HOP_FACTOR * rails->hop_s;
    double wire = 2 * (rails->ranks - 1) / rails->ranks * bytes;
    return rails->base_s + 2 * depth * level + inside_s + wire / bus_Bps;
}

/* Inside a domain ranks pass pieces on, one after another. */
double orr_rails_tree_s(const orr_rails *rails, double bytes) {
    double chain_s = 2 * (rails->inner - 1) * rails->peer_hop_s;
    return tree_s(rails, bytes, chain_s, TREE_BUS_FRAC * rails->inner_Bps);
}

/* Inside a domain switches add up and hand out (NVLSTree): no chain, and their bandwidth, which was
 * measured, not modelled. */
double orr_rails_nvls_tree_s(const orr_rails *rails, double bytes) {
    return tree_s(rails, bytes, rails->switch_s, rails->switch_Bps);
}

/* Switches add up: each domain's data goes in once and comes out once, and small messages wait for
 * the depth of the switches, not of a tree of hosts. */
double orr_rails_sharp_s(const orr_rails *rails, double bytes) {
    static const double LEVELS = 2; /* leaf and spine */
    double wire = 2 * (rails->ranks - 1) / rails->ranks * bytes;
    double nic = rails->site_Bps * wire / bytes;
    double bus_Bps = rails->inner > 1 ? orr_min_f64(rails->inner_Bps, nic) : nic;
    double hops = 2 * LEVELS * rails->hop_s + 2 * (rails->inner - 1) * rails->peer_hop_s;
    return rails->base_s + hops + wire / bus_Bps;
}

/* Parallel aggregated trees: log2 steps, in each of which more blocks travel together. The three
 * numbers are NCCL's own (src/graph/tuning.cc): a step by a ring's, what packing costs each rank,
 * and the bandwidth that is left. */
double orr_rails_pat_s(const orr_rails *rails, double bytes) {
    static const double STEP_FRAC = 1 / 3.5, RANK_S = 2.8e-6, BUS_FRAC = 0.75;
    double depth = orr_ceil_log2_u64((uint64_t)rails->domains);
    double wire = (rails->ranks - 1) / rails->ranks * bytes;
    return rails->base_s + depth * STEP_FRAC * rails->hop_s + RANK_S * rails->ranks +
           wire / (BUS_FRAC * rails->nic_Bps);
}

double orr_switch_wire_frac(double ranks) {
    return (ranks + 1) / ranks;
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
