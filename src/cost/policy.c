/* Which collective algorithm runs, and its price: the choices of NCCL and RCCL, apart from the
 * algorithms themselves (collective.c).
 *
 * Inside a scale-up domain the measured curves already hold the library's choice. Across domains a
 * library estimates each algorithm that it has for an operation and takes the fastest; so do we, by
 * our own estimates. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "cost/cost_int.h"

/* Relative error, one sd, of prices that rest on a fabric's constants. */
static const double FABRIC_RELERR = 0.12, FABRIC_ASSUMED_RELERR = 0.20;
/* DeepEP takes no less than about two copies a token, however few it sends. */
enum { ENOUGH_CHOICES = 4 };

bool orr_policy_few_choices(uint32_t topk) {
    return topk < ENOUGH_CHOICES;
}

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
double orr_policy_line_Bps(const orr_cost_table *table, orr_group group) {
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

/* De-duplicated by rank, a token still crosses to each domain only once. */
double orr_crossing_frac(orr_group group, const orr_routing *routing) {
    double domains = group.domains;
    double plain = (domains - 1) / domains;
    if (routing->topk == 0 || routing->experts < group.size || routing->topk > routing->experts) {
        return plain;
    }
    return plain * orr_routing_places(routing, domains) / orr_routing_places(routing, group.size);
}

/* ---- what the library has ------------------------------------------------------------------- */

enum { NVLS_TREE_SINCE = 18, PAT_SINCE = 23 }; /* minor versions of NCCL 2 */

/* NCCL ties domains into a tree of their switches. */
bool orr_policy_has_nvls(const orr_cost_table *table) {
    uint32_t nccl = table->software->nccl_minor;
    return orr_switches_add_up(table->accelerator) && (nccl == 0 || nccl >= NVLS_TREE_SINCE);
}

/* NCCL takes it for groups of one rank a host, and RCCL, which has it too, for none (both:
 * NCCL_PAT_ENABLE, src/graph/tuning.cc). */
static bool has_pat(const orr_cost_table *table) {
    return table->accelerator->vendor == ORR_NVIDIA && table->software->nccl_minor >= PAT_SINCE;
}

orr_rails orr_policy_rails(const orr_cost_table *table, orr_collective kind, orr_group group) {
    const orr_fabric *fabric = table->cluster->fabric;
    const orr_sweep *sweep = &table->across[kind];
    orr_rails rails = {.ranks = group.size,
                       .inner = group.inner,
                       .domains = group.domains,
                       .nic_Bps = orr_policy_line_Bps(table, group) * nic_efficiency(table) *
                                  sweep->rate_factor,
                       .base_s = fabric->base_s * sweep->start_factor,
                       .hop_s = fabric->hop_s * sweep->start_factor,
                       .peer_hop_s = fabric->peer_hop_s * sweep->start_factor,
                       .tree_hop_s = fabric->tree_hop_s * sweep->start_factor,
                       .stall_ranks = fabric->ring_ranks};
    rails.site_Bps = rails.nic_Bps * orr_group_fewest(group);
    if (group.inner > 1) {
        orr_message inner = orr_curve_at(&table->curve[kind], group.inner);
        rails.inner_Bps = inner.Bps * table->inside[kind].rate_factor;
        if (kind == ORR_ALL_REDUCE && orr_policy_has_nvls(table)) {
            rails.switch_Bps = rails.inner_Bps;
            rails.switch_s = inner.start_s * table->inside[kind].start_factor;
            /* gathers run in rings, without sums in switches */
            rails.inner_Bps = orr_min_f64(
                rails.inner_Bps, orr_curve_at(&table->curve[ORR_ALL_GATHER], group.inner).Bps *
                                     table->inside[ORR_ALL_GATHER].rate_factor);
        }
    }
    return rails;
}

/* ---- across domains ------------------------------------------------------------------------- */

static const char *const ALGORITHMS[ORR_ALGORITHM_COUNT] = {
    "one message", "ring", "tree", "NVLS tree", "sums in the switches", "PAT", "direct"};

const char *orr_algorithm_name(orr_algorithm algorithm) {
    return ALGORITHMS[algorithm];
}

static void offer(orr_routes *routes, orr_algorithm algorithm, double time_s) {
    routes->time_s[algorithm] = time_s;
    if (!routes->offered || time_s < routes->time_s[routes->best]) {
        routes->best = algorithm;
    }
    routes->offered |= 1u << algorithm;
}

orr_routes orr_policy_routes(const orr_cost_table *table, orr_collective kind, double bytes,
                             orr_group group, const orr_routing *routing) {
    const orr_fabric *fabric = table->cluster->fabric;
    const orr_sweep *sweep = &table->across[kind];
    orr_rails rails = orr_policy_rails(table, kind, group);
    orr_routes routes = {.offered = 0};
    switch (kind) {
    case ORR_SEND_RECV:
        offer(&routes, ORR_BY_MESSAGE,
              fabric->p2p_base_s * sweep->start_factor +
                  bytes / (orr_policy_line_Bps(table, group) * sweep->rate_factor *
                           fabric->p2p_efficiency_frac));
        break;
    case ORR_ALL_TO_ALL:
        offer(&routes, ORR_BY_DIRECT,
              orr_rails_all_to_all_s(&rails, bytes, orr_crossing_frac(group, routing)));
        break;
    case ORR_ALL_REDUCE:
        offer(&routes, ORR_BY_RING, orr_rails_ring_s(&rails, bytes, true));
        offer(&routes, ORR_BY_TREE, orr_rails_tree_s(&rails, bytes));
        if (rails.switch_Bps > 0) {
            offer(&routes, ORR_BY_NVLS_TREE, orr_rails_nvls_tree_s(&rails, bytes));
        }
        if (fabric->sharp) {
            offer(&routes, ORR_BY_SHARP, orr_rails_sharp_s(&rails, bytes));
        }
        break;
    case ORR_ALL_GATHER:
    case ORR_REDUCE_SCATTER:
        offer(&routes, ORR_BY_RING, orr_rails_ring_s(&rails, bytes, false));
        if (group.inner == 1 && has_pat(table)) {
            offer(&routes, ORR_BY_PAT, orr_rails_pat_s(&rails, bytes));
        }
        break;
    case ORR_BROADCAST:
    case ORR_COLLECTIVE_COUNT:
        offer(&routes, ORR_BY_RING, orr_rails_ring_s(&rails, bytes, false));
        break;
    }
    return routes;
}

static orr_cost across_domains(const orr_cost_table *table, orr_collective kind, double bytes,
                               orr_group group, const orr_routing *routing) {
    const orr_fabric *fabric = table->cluster->fabric;
    const orr_sweep *sweep = &table->across[kind];
    orr_routes routes = orr_policy_routes(table, kind, bytes, group, routing);
    double relerr = fabric->assumed ? FABRIC_ASSUMED_RELERR : FABRIC_RELERR;
    orr_cost cost = {routes.time_s[routes.best], relerr,
                     fabric->assumed ? ORR_FROM_ASSUMPTION : ORR_FROM_MODEL};
    if (sweep->records > 0) {
        cost.relerr_frac = sweep->relerr_frac;
        cost.provenance = ORR_FROM_RESTORED;
    }
    return cost;
}

orr_cost orr_policy_price(const orr_cost_table *table, orr_collective kind, double bytes,
                          orr_group group, const orr_routing *routing) {
    if (group.size <= 1 || !(bytes > 0) || table->curve[kind].count == 0) {
        return (orr_cost){0, 0, ORR_FROM_MODEL};
    }
    orr_cost cost = group.domains <= 1 ? inside_domain(table, kind, bytes, group.size)
                                       : across_domains(table, kind, bytes, group, routing);
    if (routing->topk > 0) { /* kernels that send a token once a rank are no plain exchange */
        const orr_transfer *transfer = &table->calibration->transfer;
        double apart = orr_policy_few_choices(routing->topk) ? transfer->exchange_few_frac
                                                             : transfer->exchange_frac;
        cost.relerr_frac = sqrt(cost.relerr_frac * cost.relerr_frac + apart * apart);
    }
    return cost;
}
