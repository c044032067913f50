/* Clusters: how many accelerators, and the tiers of network between them, innermost first.
 * Data-sheet figures and topology; what a fabric attains of them is in the fabric profile. */
#ifndef ORR_CLUSTER_H
#define ORR_CLUSTER_H

#include "hardware/hardware.h"

enum { ORR_MAX_TIERS = 6, ORR_MAX_GPUS = 1 << 20 };

/* Attained figures of a kind of fabric (InfiniBand, EFA, xGMI ...), from data/fabrics. */
typedef struct orr_fabric {
    const char *name;
    const char *source;
    double efficiency_frac; /* of the NIC line rate, large messages */
    double base_s;          /* start of a collective that leaves the scale-up domain */
    double hop_s;           /* each further domain in it */
    double peer_hop_s;      /* each further rank inside a domain in it */
    double tree_hop_s;      /* each level of a tree of domains, up or down; 0: 1.5 x hop_s */
    double ring_ranks; /* ring length at which half of the bandwidth is left; 0: does not fall */
    double p2p_efficiency_frac, p2p_base_s; /* send/receive across domains */
    uint8_t assumed;
    uint8_t sharp; /* switches add up all-reduces */
} orr_fabric;

typedef struct orr_tier {
    const char *name;        /* "domain", "rail", "pod", "spine" */
    uint32_t gpus;           /* accelerators that one unit of this tier holds */
    uint32_t topology;       /* orr_topology */
    double Bps;              /* per accelerator, one direction, at this tier */
    double oversubscription; /* 1: none */
} orr_tier;

typedef struct orr_cluster {
    const char *name;
    const char *source;
    const orr_accelerator *accelerator;
    const orr_fabric *fabric;
    uint32_t domain;        /* accelerators of a scale-up domain as built; tier[0] as filled */
    uint32_t gpus;          /* total */
    uint32_t gpus_per_node; /* accelerators that share a host */
    uint32_t tier_count;    /* tier[0] is the scale-up domain, tier[1] what the NICs reach */
    orr_tier tier[ORR_MAX_TIERS];
} orr_cluster;

orr_status orr_fabric_read(orr_arena *arena, const orr_tree *file, const char *fallback_name,
                           orr_fabric **out, orr_err *err);
orr_status orr_fabric_find(orr_arena *arena, const char *name, orr_fabric **out, orr_err *err);
/* A number of a fabric by its name in the file, for fitting; NULL when there is none. */
double *orr_fabric_number(orr_fabric *fabric, const char *name);
orr_tree *orr_fabric_catalog(orr_arena *arena);
orr_tree *orr_fabric_write(orr_arena *arena, const orr_fabric *fabric);

/* A cluster file (docs/hardware-file.md), or the reference tuner's target_cluster with its
 * hardware_config. */
orr_status orr_cluster_read(orr_arena *arena, const orr_tree *file, const char *fallback_name,
                            orr_cluster **out, orr_err *err);
/* Catalog name or path. A catalog cluster is a node type; `gpus` is set by the caller. */
orr_status orr_cluster_find(orr_arena *arena, const char *name, orr_cluster **out, orr_err *err);
orr_tree *orr_cluster_catalog(orr_arena *arena);
extern const char orr_cluster_usual_fabric[]; /* name of the fabric when none is stated */
/* The usual cluster of an accelerator: its domain, one NIC a GPU. gpus_per_node 0 and fabric NULL
 * take the usual ones. */
orr_status orr_cluster_usual(orr_arena *arena, const orr_accelerator *accelerator, uint32_t gpus,
                             uint32_t gpus_per_node, const orr_fabric *fabric, orr_cluster **out,
                             orr_err *err);
orr_tree *orr_cluster_write(orr_arena *arena, const orr_cluster *cluster);
/* Takes a cluster to another number of accelerators. Domains larger than a host are filled evenly:
 * 256 accelerators of 72-wide domains are 4 x 64. */
void orr_cluster_resize(orr_cluster *cluster, uint32_t gpus);

/* Where a group of ranks lies: `size` ranks, `stride` apart in rank order. */
typedef struct orr_group {
    uint32_t size;      /* ranks */
    uint32_t inner;     /* of them in one scale-up domain */
    uint32_t domains;   /* scale-up domains it touches */
    uint32_t rivals;    /* equal groups of one domain that use the NICs at once */
    uint32_t off_rails; /* 1: members sit at other places in other domains, no rail joins them */
} orr_group;
orr_group orr_cluster_group(const orr_cluster *cluster, uint32_t size, uint32_t stride);
/* Ranks in the domain that has fewest of the group: the last one takes what the others leave. */
uint32_t orr_group_fewest(orr_group group);

#endif
