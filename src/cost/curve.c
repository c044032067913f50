/* Measured collectives as curves over bytes, one for every number of ranks, and which of them stand
 * for a device, or for a row of a table, that has none of its own. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "cost/cost_int.h"

/* Relative error, one sd, of prices that no measurement of this device backs. */
static const double KIN_RELERR[] = {0, 0.10, 0.20};
static const double OTHER_RANKS = 0.05;  /* an octave from the nearest measured group */
static const double LEAST_RELERR = 0.02; /* of the same on another day: docs/kernels.md */

static double root_sum(double a, double b) {
    return sqrt(a * a + b * b);
}

/* ---- curves --------------------------------------------------------------------------------- */

static void fill(orr_curve *curve, const orr_collective_fit *const *fits, uint32_t count,
                 double scale, bool own) {
    curve->count = count;
    for (uint32_t i = 0; i < count; i++) {
        curve->point[i].ranks = fits[i]->ranks;
        curve->point[i].fit = &fits[i]->fit;
        curve->point[i].message = fits[i]->message;
        curve->point[i].message.Bps *= scale;
        curve->point[i].surface = own ? fits[i]->fit.surface : NULL;
    }
    curve->fit = count > 0 ? fits[count - 1] : NULL;
}

bool orr_switches_add_up(const orr_accelerator *a) {
    return a->vendor == ORR_NVIDIA && a->topology == ORR_SWITCHED &&
           (a->arch == ORR_ARCH_HOPPER || a->arch == ORR_ARCH_BLACKWELL);
}

/* An all-reduce lent by a device whose switches add up, to one that must pass everything on: no
 * faster than the gathers of the same device. */
static void without_switches(orr_curve *curve, const orr_calibration *calibration,
                             const orr_accelerator *accelerator) {
    orr_curve gather;
    orr_curve_init(&gather, calibration, accelerator, ORR_ALL_GATHER);
    for (uint32_t i = 0; gather.count > 0 && i < curve->count; i++) {
        double Bps = orr_curve_at(&gather, curve->point[i].ranks).Bps;
        curve->point[i].message.Bps = orr_min_f64(curve->point[i].message.Bps, Bps);
    }
}

void orr_curve_init(orr_curve *curve, const orr_calibration *calibration,
                    const orr_accelerator *accelerator, orr_collective op) {
    const orr_collective_fit *fits[ORR_MAX_RANK_POINTS];
    orr_kin kin = ORR_KIN_OTHER;
    /* a broadcast pipelines around the same ring as a gather */
    orr_collective measured = op == ORR_BROADCAST ? ORR_ALL_GATHER : op;
    uint32_t count = orr_calibration_collective(calibration, accelerator, measured, fits, &kin);
    *curve = (orr_curve){.mesh = accelerator->topology == ORR_MESH,
                         .provenance = ORR_FROM_ASSUMPTION,
                         .transfer = &calibration->transfer,
                         .apart_frac = KIN_RELERR[kin],
                         .kin = (uint8_t)kin};
    if (count > 0) {
        bool same = kin == ORR_KIN_SAME;
        fill(curve, fits, count, same ? 1 : accelerator->link_Bps / fits[0]->link_Bps, same);
        bool measured_kin = kin != ORR_KIN_OTHER && !curve->fit->fit.assumed;
        curve->provenance = measured_kin ? ORR_FROM_MODEL : ORR_FROM_ASSUMPTION;
        if (op == ORR_ALL_REDUCE && kin == ORR_KIN_OTHER && !orr_switches_add_up(accelerator)) {
            without_switches(curve, calibration, accelerator);
        }
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
    orr_message message = orr_curve_at(curve, ranks);
    int at = at_ranks(curve, ranks);
    double place[ORR_SURFACE_DIMS];
    orr_message_place(bytes, place);
    return orr_message_time_s(&message, orr_bus_factor(op, ranks) * bytes) *
           orr_surface_factor(at < 0 ? NULL : curve->point[at].surface, place);
}

static double between(double low, double high, double share) {
    return low + (high - low) * share;
}

orr_message orr_curve_at(const orr_curve *curve, double ranks) {
    uint32_t last = curve->count - 1;
    orr_message top = curve->point[last].message;
    bool known = at_ranks(curve, ranks) >= 0;
    if (curve->fit->op == ORR_SEND_RECV) {
        return curve->point[0].message; /* from one rank to one other, however many stand by */
    }
    if (curve->mesh && curve->fit->topology == ORR_MESH && !known) {
        /* a rank reaches each peer over its own link: fewer peers, fewer links */
        top.Bps *= (ranks - 1) / (curve->point[last].ranks - 1);
        return top;
    }
    if (last == 0 || ranks <= curve->point[0].ranks) {
        return curve->point[0].message;
    }
    uint32_t high = 1;
    while (high < last && curve->point[high].ranks < ranks) {
        high++;
    }
    const orr_message *a = &curve->point[high - 1].message, *b = &curve->point[high].message;
    double from = curve->point[high - 1].ranks, to = curve->point[high].ranks;
    double share = (ranks - from) / (to - from); /* above 1 beyond the last */
    double inside = orr_min_f64(share, 1);
    /* starts grow with the ring; bandwidths stay at the largest group's */
    return (orr_message){between(a->start_s, orr_max_f64(a->start_s, b->start_s), share),
                         between(a->Bps, b->Bps, inside), between(a->piece_s, b->piece_s, inside)};
}

double orr_curve_error(const orr_curve *curve, double ranks, double bytes) {
    uint32_t at = 0;
    double apart = INFINITY;
    for (uint32_t i = 0; i < curve->count; i++) {
        double octaves = fabs(log2(curve->point[i].ranks / ranks));
        if (octaves < apart) {
            apart = octaves;
            at = i;
        }
    }
    double own = orr_message_error(curve->point[at].fit, curve->transfer, bytes);
    own = root_sum(orr_max_f64(own, LEAST_RELERR), curve->apart_frac);
    return root_sum(own, OTHER_RANKS * apart);
}

/* ---- nearest to a row of a table ------------------------------------------------------------ */

/* What a difference adds to a fit's error, one sd, and how much it counts in the choice. */
static const double OTHER_SITE = 0.10, OTHER_DEVICE = 0.05, OTHER_TOPOLOGY = 0.5,
                    OTHER_VERSION = 0.02, OTHER_PORT = 0.05, OTHER_LIBRARY = 0.10,
                    OTHER_OCTAVE = 0.05, OTHER_FABRIC = 0.20, OTHER_NIC = 0.10;
/* On the error alone: ways through a host's PCIe, where boxes of one board differ. */
static const double OTHER_HOST = 0.4;

bool orr_same_library(const char *a, const char *b) {
    size_t length = strcspn(a, " ");
    return length == strcspn(b, " ") && strncmp(a, b, length) == 0;
}

/* NCCL, its port RCCL, and runs that do not name theirs are nearer to each other than to the
 * kernels that serving frameworks bring along. */
static double library_apart(const char *a, const char *b) {
    if (strcmp(a, b) == 0) {
        return 0;
    }
    bool custom = strncmp(a, "custom", 6) == 0 || strncmp(b, "custom", 6) == 0;
    return orr_same_library(a, b) ? OTHER_VERSION : custom ? OTHER_LIBRARY : OTHER_PORT;
}

static double device_apart(const orr_collective_ask *ask, const orr_collective_fit *fit) {
    const orr_accelerator *a = ask->accelerator;
    if (fit->site != NULL && strcmp(fit->site, ask->site) == 0) {
        return 0;
    }
    bool same = orr_name_equal(fit->fit.device, a->name);
    double links = fabs(log(a->link_Bps / fit->link_Bps));
    return (same ? OTHER_SITE : OTHER_DEVICE + 0.3 * orr_min_f64(1, links)) +
           (fit->topology == a->topology ? 0 : OTHER_TOPOLOGY);
}

/* Records of one site and library, by rank count. */
static uint32_t gather(const orr_calibration *calibration, const orr_collective_fit *donor,
                       const orr_collective_fit *out[ORR_MAX_RANK_POINTS]) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < calibration->collective_count; i++) {
        const orr_collective_fit *fit = &calibration->collective[i];
        bool same_site =
            donor->site == NULL
                ? fit->site == NULL && orr_name_equal(fit->fit.device, donor->fit.device)
                : fit->site != NULL && strcmp(fit->site, donor->site) == 0;
        if (!same_site || fit->op != donor->op || fit->nodes > 1 ||
            strcmp(fit->library, donor->library) != 0) {
            continue;
        }
        uint32_t at = 0;
        while (at < count && out[at]->ranks < fit->ranks) {
            at++;
        }
        if ((at < count && out[at]->ranks == fit->ranks) || count == ORR_MAX_RANK_POINTS) {
            continue;
        }
        memmove(&out[at + 1], &out[at], (count - at) * sizeof *out);
        out[at] = fit;
        count++;
    }
    return count;
}

static double octaves_apart(double a, double b) {
    return fabs(log2(a / b));
}

/* What a record's site, library and group differ by from what is asked for. */
static double inside_apart(const orr_collective_ask *ask, const orr_collective_fit *fit) {
    if (fit->op != ask->op || fit->nodes > 1) {
        return INFINITY;
    }
    /* to choose among equals: the nearest group */
    double group = 1e-3 * octaves_apart(fit->ranks, ask->ranks);
    return device_apart(ask, fit) + library_apart(fit->library, ask->library) + group;
}

/* One site's curve at the ranks and bytes asked for. */
static double site_time_s(const orr_calibration *calibration, const orr_collective_ask *ask,
                          const orr_collective_fit *donor, double apart_frac, double bytes,
                          double *relerr_frac) {
    const orr_collective_fit *fits[ORR_MAX_RANK_POINTS + 1];
    uint32_t count = gather(calibration, donor, fits);
    double links = ask->accelerator->link_Bps / donor->link_Bps;
    bool same = orr_name_equal(donor->fit.device, ask->accelerator->name);
    /* what a library does beyond the constants it does over the same links anywhere */
    bool alike = same || (links == 1 && donor->topology == ask->accelerator->topology);
    orr_curve curve = {.mesh = ask->accelerator->topology == ORR_MESH,
                       .transfer = &calibration->transfer,
                       .apart_frac = apart_frac};
    fill(&curve, fits, count, same ? 1 : links, alike);
    bool host = ask->accelerator->topology == ORR_HOST && !same;
    *relerr_frac = root_sum(orr_curve_error(&curve, ask->ranks, bytes), host ? OTHER_HOST : 0);
    return orr_curve_time_s(&curve, ask->op, ask->ranks, bytes);
}

/* Inside a domain: curves of the nearest sites and library, their mean where several lie as near.
 */
static bool inside(const orr_calibration *calibration, const orr_collective_ask *ask, double bytes,
                   double *time_s, double *relerr_frac) {
    double least = INFINITY;
    for (uint32_t i = 0; i < calibration->collective_count; i++) {
        least = orr_min_f64(least, inside_apart(ask, &calibration->collective[i]));
    }
    double log_time = 0, relerr = 0;
    uint32_t sites = 0;
    for (uint32_t i = 0; i < calibration->collective_count; i++) {
        const orr_collective_fit *donor = &calibration->collective[i];
        double one_relerr;
        if (inside_apart(ask, donor) <= least) {
            log_time += log(site_time_s(calibration, ask, donor, least, bytes, &one_relerr));
            relerr += one_relerr;
            sites++;
        }
    }
    if (sites == 0) {
        return false;
    }
    *time_s = exp(log_time / sites);
    *relerr_frac = relerr / sites;
    return true;
}

/* ---- across domains ------------------------------------------------------------------------- */

double orr_across_bus_Bps(orr_collective op, double ranks, double domains, double nic_Bps,
                          double link_Bps) {
    if (domains <= 1) {
        return link_Bps;
    }
    double inner = ranks / domains, site_Bps = nic_Bps * inner;
    switch (op) {
    case ORR_ALL_REDUCE:
        /* a ring crosses each domain's NICs with all of its bus traffic; trees send the data in and
         * out once between two domains, twice through a domain with children and a parent */
        return orr_min_f64(link_Bps,
                           domains <= 2 ? orr_bus_factor(op, ranks) * site_Bps : site_Bps);
    case ORR_ALL_TO_ALL: return ranks > inner ? nic_Bps * (ranks - 1) / (ranks - inner) : link_Bps;
    case ORR_SEND_RECV: return nic_Bps;
    case ORR_ALL_GATHER:
    case ORR_REDUCE_SCATTER:
    case ORR_BROADCAST:
    case ORR_COLLECTIVE_COUNT: break;
    }
    return orr_min_f64(link_Bps, site_Bps);
}

/* Hops that a small message takes, in units of one. */
static double depth(double domains) {
    return 1 + orr_ceil_log2_u64((uint64_t)orr_max_f64(1, domains));
}

double orr_collective_domains(const orr_accelerator *accelerator, double ranks, double nodes) {
    double domain = accelerator->domain, node = ranks / orr_max_f64(1, nodes);
    return domain > node ? ceil(ranks / domain) : nodes;
}

/* Across nodes: the nearest record, with bandwidth and start moved by what domains and NICs say. */
static bool across(const orr_calibration *calibration, const orr_collective_ask *ask, double bytes,
                   double *time_s, double *relerr_frac) {
    const orr_accelerator *a = ask->accelerator;
    const orr_collective_fit *best = NULL;
    double least = INFINITY;
    double domains = orr_collective_domains(a, ask->ranks, ask->nodes);
    for (uint32_t i = 0; i < calibration->collective_count; i++) {
        const orr_collective_fit *fit = &calibration->collective[i];
        if (fit->op != ask->op || fit->nodes <= 1) {
            continue;
        }
        bool here = fit->site != NULL && strcmp(fit->site, ask->site) == 0;
        double nics = fabs(log(a->nic_Bps / fit->nic_Bps));
        double apart = (here ? 0 : device_apart(ask, fit) + OTHER_FABRIC + OTHER_NIC * nics) +
                       library_apart(fit->library, ask->library) +
                       OTHER_OCTAVE * (octaves_apart(fit->domains, domains) +
                                       octaves_apart(fit->ranks, ask->ranks));
        if (apart < least) {
            least = apart;
            best = fit;
        }
    }
    if (best == NULL) {
        return false;
    }
    bool here = best->site != NULL && strcmp(best->site, ask->site) == 0;
    bool same = here && best->ranks == ask->ranks && best->nodes == ask->nodes;
    orr_message message = best->message;
    if (!same) {
        message.Bps *=
            orr_across_bus_Bps(ask->op, ask->ranks, domains, a->nic_Bps, a->link_Bps) /
            orr_across_bus_Bps(ask->op, best->ranks, best->domains, best->nic_Bps, best->link_Bps);
        message.start_s *= depth(domains) / depth(best->domains);
        message.piece_s *= depth(domains) / depth(best->domains);
    }
    double place[ORR_SURFACE_DIMS];
    orr_message_place(bytes, place);
    *time_s = orr_message_time_s(&message, orr_bus_factor(ask->op, ask->ranks) * bytes) *
              orr_surface_factor(same ? best->fit.surface : NULL, place);
    double own = orr_message_error(&best->fit, &calibration->transfer, bytes);
    *relerr_frac = root_sum(orr_max_f64(own, LEAST_RELERR), least);
    return true;
}

bool orr_collective_price(const orr_calibration *calibration, const orr_collective_ask *ask,
                          double bytes, double *time_s, double *relerr_frac) {
    return ask->nodes > 1 ? across(calibration, ask, bytes, time_s, relerr_frac)
                          : inside(calibration, ask, bytes, time_s, relerr_frac);
}
