/* Which collective algorithm runs, and its price: the choices of NCCL and RCCL, apart from the
 * algorithms themselves (collective.c).
 *
 * Inside a scale-up domain the measured curves already hold the library's choice. Across domains an
 * all-reduce takes the faster of ring and tree, other reductions and gathers the ring, an
 * all-to-all goes direct. */
#include <math.h>

#include "base/num.h"
#include "cost/cost_int.h"

/* Relative error, one sd, of prices that no measurement of this device backs. */
static const double KIN_RELERR[] = {0, 0.10, 0.20};
static const double FABRIC_RELERR = 0.12, FABRIC_ASSUMED_RELERR = 0.20;

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

void orr_curve_init(orr_curve *curve, const orr_calibration *calibration,
                    const orr_accelerator *accelerator, orr_collective op, const char *library) {
    const orr_collective_fit *fits[ORR_MAX_RANK_POINTS];
    orr_kin kin = ORR_KIN_OTHER;
    /* a broadcast pipelines around the same ring as a gather */
    orr_collective measured = op == ORR_BROADCAST ? ORR_ALL_GATHER : op;
    uint32_t count =
        orr_calibration_collective(calibration, accelerator, measured, library, fits, &kin);
    *curve = (orr_curve){.count = count,
                         .mesh = accelerator->topology == ORR_MESH,
                         .provenance = ORR_FROM_ASSUMPTION,
                         .kin = (uint8_t)kin};
    double worst = 0;
    for (uint32_t i = 0; i < count; i++) {
        double scale = kin == ORR_KIN_SAME ? 1 : accelerator->link_Bps / fits[i]->link_Bps;
        curve->point[i].ranks = fits[i]->ranks;
        curve->point[i].error_small_frac = fits[i]->error_small_frac;
        curve->point[i].error_training_frac = fits[i]->error_training_frac;
        curve->point[i].pipe = fits[i]->pipe;
        curve->point[i].pipe.Bps *= scale;
        curve->point[i].surface = kin == ORR_KIN_SAME ? fits[i]->surface : NULL;
        worst = orr_max_f64(worst, fits[i]->error_training_frac);
    }
    if (count > 0) {
        curve->fit = fits[count - 1];
        bool measured_kin = kin != ORR_KIN_OTHER && !curve->fit->assumed;
        curve->provenance = measured_kin ? ORR_FROM_MODEL : ORR_FROM_ASSUMPTION;
        curve->relerr_frac = sqrt(worst * worst + KIN_RELERR[kin] * KIN_RELERR[kin]);
    }
}

/* The point of exactly so many ranks, or -1. */
static int at_ranks(const orr_curve *curve, double ranks) {
    for (uint32_t i = 0; i < curve->count; i++) {
        if (fabs(curve->point[i].ranks - ranks) < 0.5) {
            return (int)i;
        }
    }
    return -1;
}

double orr_curve_time_s(const orr_curve *curve, orr_collective op, double ranks, double bytes) {
    orr_message pipe = orr_curve_at(curve, ranks);
    int at = at_ranks(curve, ranks);
    double place[ORR_SURFACE_DIMS];
    orr_message_place(bytes, place);
    return orr_message_time_s(&pipe, orr_bus_factor(op, ranks) * bytes) *
           orr_surface_factor(at < 0 ? NULL : curve->point[at].surface, place);
}

static double between(double low, double high, double share) {
    return low + (high - low) * share;
}

orr_message orr_curve_at(const orr_curve *curve, double ranks) {
    uint32_t last = curve->count - 1;
    orr_message top = curve->point[last].pipe;
    bool known = at_ranks(curve, ranks) >= 0;
    if (curve->mesh && curve->fit->topology == ORR_MESH && !known) {
        /* a rank reaches each peer over its own link: fewer peers, fewer links */
        top.Bps *= (ranks - 1) / (curve->point[last].ranks - 1);
        return top;
    }
    if (last == 0 || ranks <= curve->point[0].ranks) {
        return curve->point[0].pipe;
    }
    uint32_t high = 1;
    while (high < last && curve->point[high].ranks < ranks) {
        high++;
    }
    const orr_message *a = &curve->point[high - 1].pipe, *b = &curve->point[high].pipe;
    double from = curve->point[high - 1].ranks, to = curve->point[high].ranks;
    double share = (ranks - from) / (to - from); /* above 1 beyond the last */
    double inside = orr_min_f64(share, 1);
    /* starts grow with the ring; bandwidths stay at the largest group's */
    return (orr_message){between(a->start_s, orr_max_f64(a->start_s, b->start_s), share),
                         between(a->Bps, b->Bps, inside), between(a->piece_s, b->piece_s, inside)};
}

double orr_curve_error(const orr_curve *curve, double ranks, double bytes) {
    uint32_t at = 0;
    while (at + 1 < curve->count && curve->point[at].ranks < ranks) {
        at++;
    }
    double own =
        bytes < ORR_MIB ? curve->point[at].error_small_frac : curve->point[at].error_training_frac;
    double kin = KIN_RELERR[curve->kin];
    return sqrt(own * own + kin * kin);
}

/* Attained bandwidth of a member's NIC towards `domains` domains. */
static double nic_Bps(const orr_cost_table *table, uint32_t domains) {
    const orr_cluster *cluster = table->cluster;
    double Bps = table->accelerator->nic_Bps;
    double reach = (double)domains * (cluster->tier_count > 0 ? cluster->tier[0].gpus : 1);
    for (uint32_t i = 1; i < cluster->tier_count; i++) {
        double tier = cluster->tier[i].Bps;
        if (cluster->tier[i].oversubscription > 1) {
            tier /= cluster->tier[i].oversubscription;
        }
        Bps = i == 1 ? tier : orr_min_f64(Bps, tier);
        if (cluster->tier[i].gpus >= reach) {
            break;
        }
    }
    return Bps;
}

static double nic_efficiency(const orr_cost_table *table) {
    double own = table->software->nic_efficiency_frac;
    return own > 0 ? own : table->cluster->fabric->efficiency_frac;
}

static orr_message pipe_moved(const orr_message *pipe, const orr_sweep *sweep) {
    return (orr_message){pipe->start_s * sweep->start_factor, pipe->Bps * sweep->rate_factor,
                         pipe->piece_s * sweep->start_factor};
}

static orr_cost inside_domain(const orr_cost_table *table, orr_collective kind, double bytes,
                              double ranks) {
    const orr_curve *curve = &table->curve[kind];
    const orr_sweep *sweep = &table->inside[kind];
    double time = orr_curve_time_s(curve, kind, ranks, bytes);
    if (sweep->records > 0) {
        /* the measured shape of the curve stays: starts and bandwidths move under it */
        double wire = orr_bus_factor(kind, ranks) * bytes;
        orr_message pipe = orr_curve_at(curve, ranks), moved = pipe_moved(&pipe, sweep);
        time *= orr_message_time_s(&moved, wire) / orr_message_time_s(&pipe, wire);
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
                       .nic_Bps = nic_Bps(table, group.domains) * nic_efficiency(table) *
                                  sweep->rate_factor,
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
        double nic = nic_Bps(table, group.domains) * sweep->rate_factor;
        cost.time_s =
            fabric->p2p_base_s * sweep->start_factor + bytes / (nic * fabric->p2p_efficiency_frac);
        return cost;
    }
    orr_rails rails = orr_policy_rails(table, kind, group);
    if (kind == ORR_ALL_REDUCE) {
        cost.time_s =
            orr_min_f64(orr_rails_ring_s(&rails, bytes, true), orr_rails_tree_s(&rails, bytes));
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
    if (group.domains <= 1) {
        return inside_domain(table, kind, bytes, group.size);
    }
    return across_domains(table, kind, bytes, group, topk, experts);
}
