#include "cluster/cluster.h"

#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "cluster/cluster_int.h"
#include "doc/catalog.h"
#include "doc/doc.h"

static const orr_catalog catalog = {"clusters", "cluster"};
const char orr_cluster_usual_fabric[] = "infiniband";

static const char *const topology_words[] = {ORR_TOPOLOGY_WORDS, NULL};

typedef struct sheet {
    const char *name, *like, *source, *notes, *accelerator, *fabric;
    const orr_tree *tiers;
    uint32_t gpus, gpus_per_node, domain;
    double nic_Bps;
} sheet;

#define AT(member_) offsetof(sheet, member_)
#define TEXT(name_, doc_)                                                                          \
    {.name = #name_, .type = ORR_FIELD_TEXT, .offset = AT(name_), .fallback = "", .doc = doc_}
#define COUNT(name_, doc_)                                                                         \
    {.name = #name_,                                                                               \
     .type = ORR_FIELD_U32,                                                                        \
     .offset = AT(name_),                                                                          \
     .min = 1,                                                                                     \
     .max = ORR_MAX_GPUS,                                                                          \
     .fallback = "",                                                                               \
     .doc = doc_}

static const orr_field fields[] = {
    TEXT(name, "Catalog name."),
    TEXT(like, "Cluster that this one starts from."),
    TEXT(source, "Where the figures were read."),
    TEXT(notes, "Remarks."),
    {.name = "accelerator",
     .type = ORR_FIELD_TEXT,
     .offset = AT(accelerator),
     .doc = "Catalog name or path of the accelerator."},
    TEXT(fabric, "Catalog name or path of the network's fabric; infiniband when not given."),
    COUNT(gpus, "Accelerators in all; a host's when not given."),
    COUNT(gpus_per_node, "Accelerators of a host."),
    COUNT(domain, "Accelerators of a scale-up domain."),
    {.name = "nic_Bps",
     .type = ORR_FIELD_QUANTITY,
     .offset = AT(nic_Bps),
     .min = 1e6,
     .max = 1e13,
     .unit = "bytes/s",
     .fallback = "",
     .doc = "Network per accelerator, one direction."},
    {.name = "tiers",
     .type = ORR_FIELD_TREE,
     .offset = AT(tiers),
     .fallback = "",
     .doc = "Tiers of network, innermost first: maps of name, gpus, topology, Bps, "
            "oversubscription."},
};
static const orr_schema schema = {"cluster file", fields, sizeof fields / sizeof *fields, false};

#define TIER_AT(member_) offsetof(tier_sheet, member_)
typedef struct tier_sheet {
    const char *name;
    uint32_t gpus;
    uint8_t topology;
    double Bps, oversubscription;
} tier_sheet;
static const orr_field tier_fields[] = {
    {.name = "name", .type = ORR_FIELD_TEXT, .offset = TIER_AT(name), .doc = "Name of the tier."},
    {.name = "gpus",
     .type = ORR_FIELD_U32,
     .offset = TIER_AT(gpus),
     .min = 1,
     .max = ORR_MAX_GPUS,
     .fallback = "1048576",
     .doc = "Accelerators that one unit of the tier holds."},
    {.name = "topology",
     .type = ORR_FIELD_ENUM,
     .offset = TIER_AT(topology),
     .values = topology_words,
     .fallback = "switched",
     .doc = "Shape of its links."},
    {.name = "Bps",
     .type = ORR_FIELD_QUANTITY,
     .offset = TIER_AT(Bps),
     .min = 1e6,
     .max = 1e15,
     .unit = "bytes/s",
     .doc = "Per accelerator, one direction."},
    {.name = "oversubscription",
     .type = ORR_FIELD_REAL,
     .offset = TIER_AT(oversubscription),
     .min = 1,
     .max = 1000,
     .fallback = "1",
     .doc = "Of the tier's uplinks; 1: none."},
};
static const orr_schema tier_schema = {"tier", tier_fields,
                                       sizeof tier_fields / sizeof *tier_fields, false};

/* ---- building ------------------------------------------------------------------------------- */

void orr_cluster_resize(orr_cluster *cluster, uint32_t gpus) {
    uint32_t domain = cluster->domain;
    cluster->gpus = gpus;
    cluster->tier[0].gpus = domain;
    if (domain <= cluster->gpus_per_node || gpus <= domain) {
        return;
    }
    uint32_t domains = (uint32_t)orr_div_up_u64(gpus, domain);
    /* Twice the fewest domains at most: beyond that, some domain is simply partly used. */
    for (uint32_t d = domains; d <= 2 * domains; d++) {
        if (gpus % d == 0) {
            cluster->tier[0].gpus = gpus / d;
            return;
        }
    }
}

static uint32_t default_domain(const orr_accelerator *accelerator, uint32_t gpus_per_node) {
    bool host_bound = accelerator->domain == accelerator->node;
    return host_bound ? gpus_per_node : accelerator->domain;
}

static void set_usual_tiers(orr_cluster *cluster, double nic_Bps) {
    const orr_accelerator *a = cluster->accelerator;
    cluster->tier_count = 2;
    cluster->tier[0] = (orr_tier){.name = "domain",
                                  .gpus = cluster->domain,
                                  .topology = a->topology,
                                  .Bps = a->link_Bps,
                                  .oversubscription = 1};
    cluster->tier[1] = (orr_tier){.name = "network",
                                  .gpus = ORR_MAX_GPUS,
                                  .topology = ORR_SWITCHED,
                                  .Bps = nic_Bps > 0 ? nic_Bps : a->nic_Bps,
                                  .oversubscription = 1};
}

orr_status orr_cluster_usual(orr_arena *arena, const orr_accelerator *accelerator, uint32_t gpus,
                             uint32_t gpus_per_node, const orr_fabric *fabric, orr_cluster **out,
                             orr_err *err) {
    if (gpus == 0 || gpus > ORR_MAX_GPUS || gpus_per_node > ORR_MAX_GPUS) {
        return orr_fail(err, ORR_E_LIMIT, "a cluster has 1 to %d accelerators, not %u",
                        ORR_MAX_GPUS, gpus);
    }
    orr_cluster *cluster = ORR_NEW(arena, orr_cluster);
    cluster->name = orr_arena_format(arena, "%s-usual", accelerator->name);
    cluster->source = accelerator->source;
    cluster->accelerator = accelerator;
    cluster->fabric = fabric;
    if (fabric == NULL) {
        orr_fabric *usual = NULL;
        ORR_TRY(orr_fabric_find(arena, orr_cluster_usual_fabric, &usual, err));
        cluster->fabric = usual;
    }
    cluster->gpus_per_node = gpus_per_node > 0 ? gpus_per_node : accelerator->node;
    cluster->domain = default_domain(accelerator, cluster->gpus_per_node);
    set_usual_tiers(cluster, 0);
    orr_cluster_resize(cluster, gpus);
    *out = cluster;
    return ORR_OK;
}

/* ---- reading -------------------------------------------------------------------------------- */

static orr_status read_tiers(orr_arena *arena, const orr_tree *tiers, orr_cluster *cluster,
                             orr_err *err) {
    size_t count = orr_tree_size(tiers);
    if (orr_tree_kind_of(tiers) != ORR_TREE_LIST || count < 2 || count > ORR_MAX_TIERS) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(tiers),
                           "\"tiers\" must list 2 to %d tiers, innermost first", ORR_MAX_TIERS);
    }
    cluster->tier_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        const orr_tree *node = orr_tree_at(tiers, i);
        tier_sheet t;
        memset(&t, 0, sizeof t);
        ORR_TRY(orr_schema_read(&tier_schema, arena, node, &t, NULL, err));
        if (i > 0 && t.gpus < cluster->tier[i - 1].gpus) {
            return orr_fail_at(
                err, ORR_E_CONFLICT, orr_tree_span(node),
                "tier \"%.60s\" holds %u accelerators, fewer than the %u of the tier "
                "inside it",
                t.name, t.gpus, cluster->tier[i - 1].gpus);
        }
        cluster->tier[i] = (orr_tier){.name = t.name,
                                      .gpus = t.gpus,
                                      .topology = t.topology,
                                      .Bps = t.Bps,
                                      .oversubscription = t.oversubscription};
    }
    cluster->domain = cluster->tier[0].gpus;
    return ORR_OK;
}

orr_status orr_cluster_read(orr_arena *arena, const orr_tree *file, const char *fallback_name,
                            orr_cluster **out, orr_err *err) {
    if (orr_tree_get(file, "target_cluster") != NULL ||
        orr_tree_get(file, "hardware_config") != NULL) {
        return orr_cluster_read_target(arena, file, fallback_name, out, err);
    }
    const orr_tree *map = NULL;
    ORR_TRY(orr_catalog_derive(arena, &catalog, file, &map, err));
    sheet s;
    memset(&s, 0, sizeof s);
    ORR_TRY(orr_schema_read(&schema, arena, map, &s, NULL, err));
    orr_accelerator *accelerator = NULL;
    orr_fabric *fabric = NULL;
    ORR_TRY(orr_accelerator_find(arena, s.accelerator, &accelerator, err));
    ORR_TRY(orr_fabric_find(arena, s.fabric != NULL ? s.fabric : orr_cluster_usual_fabric, &fabric,
                            err));
    orr_cluster *cluster = ORR_NEW(arena, orr_cluster);
    cluster->name = s.name != NULL ? s.name : fallback_name != NULL ? fallback_name : "cluster";
    cluster->source = s.source != NULL ? s.source : "given";
    cluster->accelerator = accelerator;
    cluster->fabric = fabric;
    cluster->gpus_per_node = s.gpus_per_node > 0 ? s.gpus_per_node : accelerator->node;
    cluster->domain = s.domain > 0 ? s.domain : default_domain(accelerator, cluster->gpus_per_node);
    set_usual_tiers(cluster, s.nic_Bps);
    if (s.tiers != NULL) {
        ORR_TRY(read_tiers(arena, s.tiers, cluster, err));
    }
    orr_cluster_resize(cluster, s.gpus > 0 ? s.gpus : cluster->gpus_per_node);
    *out = cluster;
    return ORR_OK;
}

/* "h100-usual", as plans that state no cluster are told: made of the accelerator, not of a file. */
static const char usual_suffix[] = "-usual";

static bool is_usual(const char *name) {
    size_t length = strlen(name), suffix = sizeof usual_suffix - 1;
    return length > suffix && strcmp(name + length - suffix, usual_suffix) == 0;
}

static orr_status find_usual(orr_arena *arena, const char *name, orr_cluster **out, orr_err *err) {
    char *stem = orr_arena_text(arena, name);
    stem[strlen(name) - (sizeof usual_suffix - 1)] = '\0';
    orr_accelerator *accelerator = NULL;
    ORR_TRY(orr_accelerator_find(arena, stem, &accelerator, err));
    return orr_cluster_usual(arena, accelerator, accelerator->node, 0, NULL, out, err);
}

orr_status orr_cluster_find(orr_arena *arena, const char *name, orr_cluster **out, orr_err *err) {
    orr_tree *file = NULL;
    const char *stem = NULL;
    if (is_usual(name)) {
        return find_usual(arena, name, out, err);
    }
    ORR_TRY(orr_catalog_find(arena, &catalog, name, &file, &stem, err));
    return orr_cluster_read(arena, file, stem, out, err);
}

orr_tree *orr_cluster_catalog(orr_arena *arena) {
    return orr_catalog_names(arena, &catalog);
}

orr_tree *orr_cluster_write(orr_arena *arena, const orr_cluster *cluster) {
    orr_tree *out = orr_tree_new_map(arena);
    orr_tree_put_text(arena, out, "name", cluster->name);
    orr_tree_put_text(arena, out, "source", cluster->source);
    orr_tree_put_text(arena, out, "accelerator", cluster->accelerator->name);
    orr_tree_put_text(arena, out, "fabric", cluster->fabric->name);
    orr_tree_put_int(arena, out, "gpus", cluster->gpus);
    orr_tree_put_int(arena, out, "gpus_per_node", cluster->gpus_per_node);
    orr_tree *tiers = orr_tree_put(arena, out, "tiers", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < cluster->tier_count; i++) {
        const orr_tier *tier = &cluster->tier[i];
        orr_tree *row = orr_tree_push(arena, tiers, orr_tree_new_map(arena));
        orr_tree_put_text(arena, row, "name", tier->name);
        orr_tree_put_int(arena, row, "gpus", i == 0 ? cluster->domain : tier->gpus);
        orr_tree_put_text(arena, row, "topology", orr_topology_name((orr_topology)tier->topology));
        orr_tree_put_real(arena, row, "Bps", tier->Bps);
        orr_tree_put_real(arena, row, "oversubscription", tier->oversubscription);
    }
    return out;
}

/* ---- groups --------------------------------------------------------------------------------- */

orr_group orr_cluster_group(const orr_cluster *cluster, uint32_t size, uint32_t stride) {
    uint32_t domain = orr_max_u32(1, orr_min_u32(cluster->tier[0].gpus, cluster->gpus));
    uint32_t step = orr_max_u32(1, stride);
    orr_group group = {.size = orr_max_u32(1, size)};
    /* The ranks of one group that fall into one domain: every `step`-th place. */
    uint32_t places = orr_max_u32(1, domain / step);
    group.inner = orr_min_u32(group.size, places);
    group.domains = (uint32_t)orr_div_up_u64(group.size, group.inner);
    group.rivals = orr_max_u32(1, domain / group.inner);
    /* at the same places of every domain: one place each, or the same number of all places */
    bool even = step % domain == 0 || (domain % step == 0 && group.size % places == 0);
    group.off_rails = group.domains > 1 && !even;
    return group;
}

uint32_t orr_group_fewest(orr_group group) {
    uint64_t others = (uint64_t)group.inner * (orr_max_u32(1, group.domains) - 1);
    return others < group.size ? orr_min_u32(group.inner, group.size - (uint32_t)others)
                               : group.inner;
}
