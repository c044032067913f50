/* The cluster description of another tuner, read as it is: `target_cluster` (nodes, accelerators,
 * an optional network file) and `hardware_config` (bandwidths in GB/s of one accelerator or NIC,
 * pods between node and cluster). Latencies there are constants of that tool's own collective
 * model and are not taken over; its keys that mean nothing here are skipped, as it does itself. */
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "cluster/cluster_int.h"
#include "doc/doc.h"

static const double GBps = 1e9;

static orr_status read_count(const orr_tree *map, const char *key, uint32_t otherwise,
                             uint32_t *out, orr_err *err) {
    const orr_tree *node = orr_tree_get(map, key);
    *out = otherwise;
    if (orr_tree_kind_of(node) == ORR_TREE_NULL) {
        return ORR_OK;
    }
    int64_t value = orr_tree_int(node, 0);
    if (value < 1 || value > ORR_MAX_GPUS) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(node),
                           "\"%s\" must be a whole number from 1 to %d", key, ORR_MAX_GPUS);
    }
    *out = (uint32_t)value;
    return ORR_OK;
}

static orr_status read_rate(const orr_tree *map, const char *key, double *Bps, orr_err *err) {
    const orr_tree *node = orr_tree_get(map, key);
    if (orr_tree_kind_of(node) == ORR_TREE_NULL) {
        return ORR_OK;
    }
    double value = orr_tree_real(node, -1);
    if (value < 1e-3 || value > 1e6) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(node),
                           "\"%s\" must be a bandwidth in GB/s, from 0.001 to 1000000", key);
    }
    *Bps = value * GBps;
    return ORR_OK;
}

/* A path in the file counts from the file's own folder. */
static const char *beside(orr_arena *arena, const orr_tree *file, const char *path) {
    const char *base = orr_tree_span(file).file;
    const char *slash = base == NULL ? NULL : strrchr(base, '/');
    if (path[0] == '/' || slash == NULL) {
        return path;
    }
    return orr_arena_format(arena, "%.*s/%s", (int)(slash - base), base, path);
}

static orr_status find_network(orr_arena *arena, const orr_tree *file, const orr_tree **network,
                               orr_err *err) {
    const orr_tree *node = orr_tree_path(file, "target_cluster.hardware_config");
    node = node == NULL ? orr_tree_get(file, "hardware_config") : node;
    *network = node;
    const char *path = orr_tree_text(node, NULL);
    if (path == NULL) {
        return ORR_OK;
    }
    orr_tree *other = NULL;
    ORR_TRY(orr_doc_read_file(arena, beside(arena, file, path), &other, err));
    const orr_tree *inner = orr_tree_get(other, "hardware_config");
    *network = orr_tree_kind_of(inner) == ORR_TREE_MAP ? inner : other;
    return ORR_OK;
}

static void read_topology(const orr_tree *network, orr_cluster *cluster) {
    const char *word = orr_tree_text(orr_tree_get(network, "node_topology"), NULL);
    if (word != NULL) {
        cluster->tier[0].topology = orr_name_equal(word, "mesh") ? ORR_MESH : ORR_SWITCHED;
    }
}

static orr_status read_fabric(orr_arena *arena, const orr_tree *network, orr_cluster *cluster,
                              orr_err *err) {
    const orr_tree *node = orr_tree_get(network, "bw_eff");
    if (orr_tree_kind_of(node) == ORR_TREE_NULL) {
        return ORR_OK;
    }
    double share = orr_tree_real(node, -1);
    if (share < 0.001 || share > 2) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(node),
                           "\"bw_eff\" must be a share from 0.001 to 2");
    }
    orr_fabric *fabric = ORR_NEW(arena, orr_fabric);
    *fabric = *cluster->fabric;
    fabric->efficiency_frac = share;
    fabric->name = "given";
    fabric->source = "bw_eff of the cluster file";
    cluster->fabric = fabric;
    return ORR_OK;
}

static orr_status apply_network(orr_arena *arena, const orr_tree *network, orr_cluster *cluster,
                                orr_err *err) {
    uint32_t nics = 0;
    uint32_t pod = 0;
    orr_tier *node_tier = &cluster->tier[0];
    orr_tier *pod_tier = &cluster->tier[1];
    ORR_TRY(read_rate(network, "node_bw", &node_tier->Bps, err));
    ORR_TRY(read_rate(network, "pod_bw", &pod_tier->Bps, err));
    ORR_TRY(read_count(network, "nics_per_node", cluster->gpus_per_node, &nics, err));
    ORR_TRY(read_count(network, "node_size", cluster->domain, &cluster->domain, err));
    ORR_TRY(read_count(network, "pod_size", ORR_MAX_GPUS, &pod, err));
    pod_tier->Bps *= (double)nics / cluster->gpus_per_node;
    read_topology(network, cluster);
    double beyond = 0;
    ORR_TRY(read_rate(network, "cluster_bw", &beyond, err));
    if (pod < ORR_MAX_GPUS && pod >= cluster->domain && beyond > 0) {
        pod_tier->name = "pod";
        pod_tier->gpus = pod;
        cluster->tier_count = 3;
        cluster->tier[2] = (orr_tier){.name = "cluster",
                                      .gpus = ORR_MAX_GPUS,
                                      .topology = ORR_SWITCHED,
                                      .Bps = beyond,
                                      .oversubscription = 1};
    }
    return read_fabric(arena, network, cluster, err);
}

orr_status orr_cluster_read_target(orr_arena *arena, const orr_tree *file,
                                   const char *fallback_name, orr_cluster **out, orr_err *err) {
    const orr_tree *target = orr_tree_get(file, "target_cluster");
    const orr_tree *arch = orr_tree_get(target, "gpu_arch");
    if (orr_tree_text(arch, NULL) == NULL) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(target == NULL ? file : target),
                           "the cluster file does not name an accelerator: expected "
                           "target_cluster.gpu_arch");
    }
    orr_accelerator *accelerator = NULL;
    ORR_TRY(orr_accelerator_find(arena, orr_tree_text(arch, ""), &accelerator, err));
    uint32_t nodes = 1;
    uint32_t per_node = 0;
    ORR_TRY(read_count(target, "num_nodes", 1, &nodes, err));
    ORR_TRY(read_count(target, "gpus_per_node", accelerator->node, &per_node, err));
    if ((uint64_t)nodes * per_node > ORR_MAX_GPUS) {
        return orr_fail_at(err, ORR_E_LIMIT, orr_tree_span(target),
                           "%u nodes of %u accelerators are more than %d", nodes, per_node,
                           ORR_MAX_GPUS);
    }
    orr_cluster *cluster = NULL;
    ORR_TRY(orr_cluster_usual(arena, accelerator, nodes * per_node, per_node, NULL, &cluster, err));
    const char *name = orr_tree_text(orr_tree_get(target, "name"), fallback_name);
    cluster->name = name == NULL ? "cluster" : name;
    cluster->source = "target_cluster of the given file";
    const orr_tree *network = NULL;
    ORR_TRY(find_network(arena, file, &network, err));
    if (orr_tree_kind_of(network) == ORR_TREE_MAP) {
        ORR_TRY(apply_network(arena, network, cluster, err));
    }
    orr_cluster_resize(cluster, nodes * per_node);
    *out = cluster;
    return ORR_OK;
}
