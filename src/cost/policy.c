/* Which collective algorithm runs, and its price: the choices of NCCL and RCCL, apart from the
 * algorithms themselves (collective.c).
 *
 * Inside a scale-up domain the measured curves already hold the library's choice. Across domains an
 * all-reduce takes the faster of ring and tree, other reductions and gathers the ring, an
 * all-to-all goes direct. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "cost/cost_int.h"

/* Relative error, one sd, of prices that rest on a fabric's constants. */
static const double FABRIC_RELERR = 0.12, FABRIC_ASSUMED_RELERR = 0.20;
/* What kernels that send a token once a rank add: their time by that of an all-to-all of as many
 * bytes. Combines of DeepEP with 20 and 24 units, 1,024 tokens and more: 0.11 to 0.33 on H100 and
 * H200, inside a node and across 2 or 4. */
static const double EXCHANGE_RELERR = 0.20;

double orr_bus_factor(orr_collective kind, double ranks) {
    switch (kind) {
    case ORR_ALL_REDUCE: return 2 * (ranks - 1) / ranks;
    case ORR_ALL_GATHER:
    case ORR_REDUCE_SCATTER:
    case ORR_ALL_TO_ALL: return (ranks - 1) / ranks;
    case ORR_SEND_RECV:
    case ORR_BROADCAST:
    case ORR_COLLECTIVE_COUNT: break;
    }
    return 1;
}

/* Line rate of a member's NIC towards the group's other domains: all accelerators of a host send at
 * once, so that a member has its own share of the host's NICs and no more. A tier "rail" joins
 * accelerators at the same place of their domains; others meet in the tier above it. */
static double nic_Bps(const orr_cost_table *table, orr_group group) {
    const orr_cluster *cluster = table->cluster;
    double Bps = table->accelerator->nic_Bps;
    double reach = (double)group.domains * (cluster->tier_count > 0 ? cluster->tier[0].gpus : 1);
    for (uint32_t i = 1; i < cluster->tier_count; i++) {
        double tier = cluster->tier[i].Bps;
        if (cluster->tier[i].oversubscription > 1) {
            tier /= cluster->tier[i].oversubscription;
        }
        Bps = i == 1 ? tier : orr_min_f64(Bps, tier);
        bool rail = group.off_rails && strcmp(cluster->tier[i].name, "rail") == 0;
        if (cluster->tier[i].gpus >= reach && !rail) {
            break;
        }
    }
    return Bps;
}

static double nic_efficiency(const orr_cost_table *table) {
    double own = table->software->nic_efficiency_frac;
    return own > 0 ? own : table->cluster->fabric->efficiency_frac;
}

static orr_message message_moved(const orr_message *message, const orr_sweep *sweep) {
    return (orr_message){message->start_s * sweep->start_factor, message->Bps * sweep->rate_factor,
                         message->piece_s * sweep->start_factor};
}

static orr_cost inside_domain(const orr_cost_table *table, orr_collective kind, double bytes,
                              double ranks) {
    const orr_curve *curve = &table->curve[kind];
    const orr_sweep *sweep = &table->inside[kind];
    double time = orr_curve_time_s(curve, kind, ranks, bytes);
    if (table->accelerator->topology == ORR_TORUS && curve->fit->topology != ORR_TORUS) {
        /* rings run around each dimension on all links; an all-to-all takes several hops */
        const orr_accelerator *a = table->accelerator;
        double links = a->peer_Bps > 0 ? a->link_Bps / a->peer_Bps : 4;
        time *= kind == ORR_ALL_TO_ALL ? orr_torus_hops(ranks, links / 2) : 1;
    }
    if (sweep->records > 0) {
        /* the measured shape of the curve stays: starts and bandwidths move under it */
        double wire = orr_bus_factor(kind, ranks) * bytes;
        orr_message message = orr_curve_at(curve, ranks), moved = message_moved(&message, sweep);
        time *= orr_message_time_s(&moved, wire) / orr_message_time_s(&message, wire);
        return (orr_cost){time, sweep->relerr_frac, ORR_FROM_RESTORED};
    }
    return (orr_cost){time, orr_curve_error(curve, ranks, bytes), curve->provenance};
}

/* Share of an all-to-all's bytes that leaves the domain. De-duplicated by rank, a token still
 * crosses to each domain only once. */
static double crossing_frac(orr_group group, uint32_t topk, uint32_t experts) {
    double domains = group.domains;
    double plain = (domains - 1) / domains;
    if (topk == 0 || experts < group.size || topk > experts) {
        return plain;
    }
    return plain * orr_distinct_places(domains, topk, experts) /
           orr_distinct_places(group.size, topk, experts);
}

orr_rails orr_policy_rails(const orr_cost_table *table, orr_collective kind, orr_group group) {
    const orr_fabric *fabric = table->cluster->fabric;
    const orr_sweep *sweep = &table->across[kind];
    orr_rails rails = {.ranks = group.size,
                       .inner = group.inner,
                       .domains = group.domains,
                       .nic_Bps =
                           nic_Bps(table, group) * nic_efficiency(table) * sweep->rate_factor,
                       .base_s = fabric->base_s * sweep->start_factor,
                       .hop_s = fabric->hop_s * sweep->start_factor,
                       .peer_hop_s = fabric->peer_hop_s * sweep->start_factor,
                       .tree_hop_s = fabric->tree_hop_s * sweep->start_factor,
                       .stall_ranks = fabric->ring_ranks};
    if (group.inner > 1) {
        rails.inner_Bps =
            orr_curve_at(&table->curve[kind], group.inner).Bps * table->inside[kind].rate_factor;
    }
    return rails;
}

double orr_policy_all_reduce_s(const orr_fabric *fabric, const orr_rails *rails, double bytes,
                               const char **algorithm) {
    double ring = orr_rails_ring_s(rails, bytes, true), tree = orr_rails_tree_s(rails, bytes);
    double sharp = fabric->sharp ? orr_rails_sharp_s(rails, bytes) : (double)INFINITY;
    double least = orr_min_f64(sharp, orr_min_f64(ring, tree));
    if (algorithm != NULL) {
        *algorithm = least >= sharp ? "sums in the switches" : least >= ring ? "ring" : "tree";
    }
    return least;
}

static orr_cost across_domains(const orr_cost_table *table, orr_collective kind, double bytes,
                               orr_group group, uint32_t topk, uint32_t experts) {
    const orr_fabric *fabric = table->cluster->fabric;
    const orr_sweep *sweep = &table->across[kind];
    double relerr = fabric->assumed ? FABRIC_ASSUMED_RELERR : FABRIC_RELERR;
    orr_cost cost = {0, relerr, fabric->assumed ? ORR_FROM_ASSUMPTION : ORR_FROM_MODEL};
    if (sweep->records > 0) {
        cost.relerr_frac = sweep->relerr_frac;
        cost.provenance = ORR_FROM_RESTORED;
    }
    if (kind == ORR_SEND_RECV) {
        double nic = nic_Bps(table, group) * sweep->rate_factor;
        cost.time_s =
            fabric->p2p_base_s * sweep->start_factor + bytes / (nic * fabric->p2p_efficiency_frac);
        return cost;
    }
    orr_rails rails = orr_policy_rails(table, kind, group);
    if (kind == ORR_ALL_REDUCE) {
        cost.time_s = orr_policy_all_reduce_s(fabric, &rails, bytes, NULL);
    } else if (kind == ORR_ALL_TO_ALL) {
        cost.time_s = orr_rails_all_to_all_s(&rails, bytes, crossing_frac(group, topk, experts));
    } else {
        cost.time_s = orr_rails_ring_s(&rails, bytes, false);
    }
    return cost;
}

orr_cost orr_policy_price(const orr_cost_table *table, orr_collective kind, double bytes,
                          orr_group group, uint32_t topk, uint32_t experts) {
    if (group.size <= 1 || !(bytes > 0) || table->curve[kind].count == 0) {
        return (orr_cost){0, 0, ORR_FROM_MODEL};
    }
    orr_cost cost = group.domains <= 1 ? inside_domain(table, kind, bytes, group.size)
                                       : across_domains(table, kind, bytes, group, topk, experts);
    if (topk > 0) {
        cost.relerr_frac =
            sqrt(cost.relerr_frac * cost.relerr_frac + EXCHANGE_RELERR * EXCHANGE_RELERR);
    }
    return cost;
}
