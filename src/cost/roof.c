/* The least time that links and NICs allow a collective, by its algorithm: what each of them moves
 * at least. Starts, hops and what libraries lose are left out. */
#include "base/num.h"
#include "cost/cost_int.h"

/* Line rate of a member's links towards the others of its domain. */
static double links_Bps(const orr_accelerator *a, orr_collective kind, double inner) {
    if (a->topology != ORR_MESH || !(a->peer_Bps > 0)) {
        return a->link_Bps;
    }
    double peers = kind == ORR_SEND_RECV ? 1 : orr_max_f64(1, inner - 1);
    return orr_min_f64(a->link_Bps, peers * a->peer_Bps);
}

static double inside_s(const orr_cost_table *table, orr_collective kind, double bytes, double ranks,
                       const char **of) {
    double crossing = orr_bus_factor(kind, ranks), added = orr_switch_wire_frac(ranks);
    *of = kind == ORR_ALL_REDUCE ? "2(n-1)/n of the bytes over a rank's links" : "";
    if (kind == ORR_ALL_REDUCE && orr_policy_has_nvls(table) && added < crossing) {
        crossing = added;
        *of = "NVLS: (n+1)/n of the bytes over a rank's links";
    }
    return crossing * bytes / links_Bps(table->accelerator, kind, ranks);
}

double orr_collective_roof_s(const orr_cost_table *table, orr_collective kind, double bytes,
                             orr_group group, const orr_routing *routing, orr_algorithm algorithm,
                             const char **of) {
    if (group.domains <= 1) {
        return inside_s(table, kind, bytes, group.size, of);
    }
    double line_Bps = orr_policy_line_Bps(table, group), bus = orr_bus_factor(kind, group.size);
    double links = links_Bps(table->accelerator, kind, group.inner);
    double site_Bps = line_Bps * orr_group_fewest(group); /* NICs of the group in one domain */
    double over_links = group.inner > 1 ? bus * bytes / links : 0;
    double over_nics = bus * bytes / site_Bps;
    switch (algorithm) {
    case ORR_BY_MESSAGE: *of = "the bytes over one NIC"; return bytes / line_Bps;
    case ORR_BY_DIRECT:
        *of = "what leaves the domain over each rank's NIC";
        over_nics = orr_crossing_frac(group, routing) * bytes / line_Bps;
        over_links = group.inner > 1 ? bytes * (group.inner - 1) / group.inner / links : 0;
        break;
    case ORR_BY_RING: *of = "all of a ring's traffic over a domain's NICs"; break;
    case ORR_BY_PAT: *of = "all of a rank's traffic over its NIC"; break;
    case ORR_BY_NVLS_TREE:
    case ORR_BY_TREE:
        over_links = algorithm == ORR_BY_TREE ? over_links
                                              : orr_switch_wire_frac(group.inner) * bytes / links;
        *of = group.domains > 2 ? "the bytes twice over a domain's NICs"
                                : "the bytes once over a domain's NICs";
        over_nics = group.domains > 2 ? over_nics : bytes / site_Bps;
        break;
    case ORR_BY_SHARP:
        *of = "the bytes once over a domain's NICs";
        over_nics = bytes / site_Bps;
        if (group.inner > 1 && orr_policy_has_nvls(table)) {
            over_links = orr_min_f64(over_links, orr_switch_wire_frac(group.inner) * bytes / links);
        }
        break;
    case ORR_ALGORITHM_COUNT: break;
    }
    if (over_links > over_nics) {
        *of = algorithm == ORR_BY_NVLS_TREE ? "NVLS: (n+1)/n of the bytes over a rank's links"
                                            : "the links inside a domain";
    }
    return orr_max_f64(over_links, over_nics);
}
