/* The inputs a plan names: model, software, fabric, machine; read once where a cache keeps them. */
#include "plan/resolve_int.h"

/* The profile of software that nobody named. */
static const char default_software[] = "unknown";

/* A key that names an input holds its name or path, or the input itself as a map. */
static bool is_name(resolver *r, plan_key key, const orr_tree *node, const char **name) {
    orr_tree_kind kind = orr_tree_kind_of(node);
    *name = orr_tree_text(node, NULL);
    if (kind == ORR_TREE_TEXT && strlen(*name) != orr_tree_text_length(node)) {
        orr_resolve_problem(r, ORR_E_SCHEMA, key, NULL, "\"%s\" is text with a NUL character",
                            orr_plan_key_name(key));
        return false;
    }
    if (kind != ORR_TREE_TEXT && kind != ORR_TREE_MAP) {
        orr_resolve_problem(r, ORR_E_SCHEMA, key, NULL, "\"%s\" must be a name, a path or a map",
                            orr_plan_key_name(key));
        return false;
    }
    return true;
}

/* Inputs found before, by their name; a map, by where it lies. */
typedef struct input_key {
    uint32_t key; /* plan_key */
    uint32_t reserved;
    const void *map;
} input_key;

static void *found_before(const resolver *r, plan_key key, const orr_tree *node, const char *name) {
    if (r->cache == NULL) {
        return NULL;
    }
    input_key by_map = {.key = key, .map = node};
    return name != NULL ? orr_map_get(&r->cache->named[key], name, strlen(name) + 1)
                        : orr_map_get(&r->cache->given, &by_map, sizeof by_map);
}

/* Where an input is to be read into. */
static orr_arena *input_arena(const resolver *r) {
    return r->cache == NULL ? r->arena : r->cache->arena;
}

static void keep_input(const resolver *r, plan_key key, const orr_tree *node, const char *name,
                       void *input) {
    if (r->cache == NULL || input == NULL) {
        return;
    }
    input_key by_map = {.key = key, .map = node};
    if (name != NULL) {
        orr_map_put(&r->cache->named[key], r->cache->arena, name, strlen(name) + 1, input);
    } else {
        orr_map_put(&r->cache->given, r->cache->arena, &by_map, sizeof by_map, input);
    }
}

static void find_model(resolver *r) {
    const char *name;
    orr_err err = {0};
    if (!orr_resolve_stated(r, KEY_MODEL)) {
        orr_resolve_problem(r, ORR_E_SCHEMA, KEY_MODEL,
                            "--model takes a catalog name or a config.json",
                            "the plan lacks a model");
        return;
    }
    if (!is_name(r, KEY_MODEL, r->keys.model, &name)) {
        return;
    }
    orr_model *model = (orr_model *)found_before(r, KEY_MODEL, r->keys.model, name);
    if (model == NULL) {
        orr_arena *arena = input_arena(r);
        orr_status status = name != NULL
                                ? orr_model_find(arena, name, &model, &err)
                                : orr_model_read(arena, r->keys.model, "inline", &model, &err);
        if (status != ORR_OK) {
            orr_resolve_foreign(r, KEY_MODEL, &err);
        } else {
            keep_input(r, KEY_MODEL, r->keys.model, name, model);
        }
    }
    r->out->model = model;
    r->out->model_key = r->keys.model;
}

static void find_software(resolver *r) {
    const char *name = default_software;
    orr_err err = {0};
    bool stated = orr_resolve_stated(r, KEY_SOFTWARE);
    if (stated && !is_name(r, KEY_SOFTWARE, r->keys.software, &name)) {
        return;
    }
    orr_software *software = (orr_software *)found_before(r, KEY_SOFTWARE, r->keys.software, name);
    if (software == NULL) {
        orr_arena *arena = input_arena(r);
        orr_status status =
            name != NULL ? orr_software_find(arena, name, &software, &err)
                         : orr_software_read(arena, r->keys.software, "inline", &software, &err);
        if (status != ORR_OK) {
            orr_resolve_foreign(r, KEY_SOFTWARE, &err);
            return;
        }
        keep_input(r, KEY_SOFTWARE, r->keys.software, name, software);
    }
    if (!stated) {
        orr_resolve_assume(r, KEY_SOFTWARE, software->name, "no software stated");
    }
    if (orr_resolve_stated(r, KEY_GRAPHS) && r->keys.graphs != software->graphs) {
        orr_software *copy = ORR_NEW(r->arena, orr_software);
        *copy = *software;
        copy->graphs = r->keys.graphs;
        software = copy;
        r->out->graphs_stated = true;
    }
    r->out->software = software;
    r->out->software_key = stated ? r->keys.software : NULL;
}

static void find_fabric(resolver *r) {
    const char *name;
    orr_err err = {0};
    if (!orr_resolve_stated(r, KEY_FABRIC) || !is_name(r, KEY_FABRIC, r->keys.fabric, &name)) {
        return;
    }
    orr_fabric *fabric = (orr_fabric *)found_before(r, KEY_FABRIC, r->keys.fabric, name);
    if (fabric == NULL) {
        orr_arena *arena = input_arena(r);
        orr_status status = name != NULL
                                ? orr_fabric_find(arena, name, &fabric, &err)
                                : orr_fabric_read(arena, r->keys.fabric, "inline", &fabric, &err);
        if (status != ORR_OK) {
            orr_resolve_foreign(r, KEY_FABRIC, &err);
        } else {
            keep_input(r, KEY_FABRIC, r->keys.fabric, name, fabric);
        }
    }
    r->fabric = fabric;
    r->out->fabric_key = r->keys.fabric;
}

static orr_accelerator *find_accelerator(resolver *r) {
    const char *name;
    orr_err err = {0};
    if (!orr_resolve_stated(r, KEY_HARDWARE) ||
        !is_name(r, KEY_HARDWARE, r->keys.hardware, &name)) {
        return NULL;
    }
    orr_accelerator *accelerator =
        (orr_accelerator *)found_before(r, KEY_HARDWARE, r->keys.hardware, name);
    if (accelerator == NULL) {
        orr_arena *arena = input_arena(r);
        orr_status status = name != NULL ? orr_accelerator_find(arena, name, &accelerator, &err)
                                         : orr_accelerator_read(arena, r->keys.hardware, "inline",
                                                                &accelerator, &err);
        if (status != ORR_OK) {
            orr_resolve_foreign(r, KEY_HARDWARE, &err);
            return NULL;
        }
        keep_input(r, KEY_HARDWARE, r->keys.hardware, name, accelerator);
    }
    r->out->hardware_key = r->keys.hardware;
    return accelerator;
}

static orr_cluster *find_cluster(resolver *r) {
    const char *name;
    orr_err err = {0};
    if (!orr_resolve_stated(r, KEY_CLUSTER) || !is_name(r, KEY_CLUSTER, r->keys.cluster, &name)) {
        return NULL;
    }
    orr_cluster *cluster = (orr_cluster *)found_before(r, KEY_CLUSTER, r->keys.cluster, name);
    if (cluster == NULL) {
        orr_arena *arena = input_arena(r);
        orr_status status =
            name != NULL ? orr_cluster_find(arena, name, &cluster, &err)
                         : orr_cluster_read(arena, r->keys.cluster, "inline", &cluster, &err);
        if (status != ORR_OK) {
            orr_resolve_foreign(r, KEY_CLUSTER, &err);
            return NULL;
        }
        keep_input(r, KEY_CLUSTER, r->keys.cluster, name, cluster);
    }
    r->out->cluster_key = r->keys.cluster;
    return cluster;
}

/* gpus, from gpus, or nodes x gpus_per_node, or the cluster's own size. 0 after a problem. */
static void count_gpus(resolver *r, uint32_t usual_node, uint32_t cluster_gpus) {
    const plan_keys *k = &r->keys;
    r->gpus_per_node = orr_resolve_stated(r, KEY_GPUS_PER_NODE) ? k->gpus_per_node : usual_node;
    uint64_t product = (uint64_t)k->nodes * orr_max_u32(1, r->gpus_per_node);
    r->gpus = k->gpus;
    if (orr_resolve_stated(r, KEY_NODES) && orr_resolve_stated(r, KEY_GPUS)) {
        if (!orr_resolve_stated(r, KEY_GPUS_PER_NODE) && k->gpus % k->nodes == 0) {
            r->gpus_per_node = k->gpus / k->nodes;
        } else if (product != k->gpus) {
            orr_resolve_problem(r, ORR_E_CONFLICT, KEY_GPUS,
                                orr_arena_format(r->arena,
                                                 "state gpus %llu, or leave one of them out",
                                                 (unsigned long long)product),
                                "gpus is %u, but %u nodes of %u are %llu", k->gpus, k->nodes,
                                r->gpus_per_node, (unsigned long long)product);
            r->gpus = 0;
        }
    } else if (orr_resolve_stated(r, KEY_NODES)) {
        if (product > ORR_MAX_GPUS) {
            orr_resolve_problem(r, ORR_E_LIMIT, KEY_NODES, NULL,
                                "%u nodes of %u are more than %d accelerators", k->nodes,
                                r->gpus_per_node, ORR_MAX_GPUS);
            product = 0;
        }
        r->gpus = (uint32_t)product;
    } else if (!orr_resolve_stated(r, KEY_GPUS)) {
        r->gpus = cluster_gpus;
        if (cluster_gpus > 0) {
            orr_resolve_assume_count(r, KEY_GPUS, cluster_gpus, "all that the cluster holds");
        } else {
            orr_resolve_problem(r, ORR_E_SCHEMA, KEY_GPUS,
                                "--gpus takes the total, as in --gpus 64",
                                "the plan lacks gpus (or nodes)");
        }
    }
}

/* A network that was stated replaces the line rate beyond the scale-up domain. */
static const orr_cluster *with_nic(resolver *r, const orr_cluster *found) {
    if (!orr_resolve_stated(r, KEY_NIC) || !(r->keys.nic_Bps > 0)) {
        return found;
    }
    r->out->nic_Bps = r->keys.nic_Bps;
    orr_cluster *cluster = ORR_NEW(r->arena, orr_cluster);
    *cluster = *found;
    for (uint32_t i = 1; i < cluster->tier_count; i++) {
        cluster->tier[i].Bps = r->keys.nic_Bps;
    }
    return cluster;
}

/* A catalog cluster is a kind of node and grows with gpus; a cluster of the user's has the size
 * that it states. */
static void fit_cluster(resolver *r, const orr_cluster *found) {
    const char *name = orr_tree_text(r->keys.cluster, NULL);
    bool own = name == NULL || strpbrk(name, "/.") != NULL;
    orr_cluster *cluster = ORR_NEW(r->arena, orr_cluster);
    *cluster = *found;
    if (r->gpus > 0 && (!own || cluster->gpus == 0)) {
        orr_cluster_resize(cluster, r->gpus);
    }
    if (r->fabric != NULL) {
        cluster->fabric = r->fabric;
    }
    if (orr_resolve_stated(r, KEY_GPUS_PER_NODE) &&
        r->keys.gpus_per_node != cluster->gpus_per_node) {
        orr_resolve_problem(r, ORR_E_CONFLICT, KEY_GPUS_PER_NODE,
                            "leave gpus_per_node out, or describe the cluster by hardware",
                            "gpus_per_node is %u, but a node of cluster %s has %u",
                            r->keys.gpus_per_node, cluster->name, cluster->gpus_per_node);
    }
    r->out->cluster = with_nic(r, cluster);
}

/* The fabric that orr_cluster_usual would take, found once; NULL leaves it to find it. */
static const orr_fabric *usual_fabric(resolver *r) {
    orr_fabric *fabric = (orr_fabric *)found_before(r, KEY_FABRIC, NULL, orr_cluster_usual_fabric);
    if (fabric == NULL && r->cache != NULL &&
        orr_fabric_find(r->cache->arena, orr_cluster_usual_fabric, &fabric, NULL) == ORR_OK) {
        keep_input(r, KEY_FABRIC, NULL, orr_cluster_usual_fabric, fabric);
    }
    return fabric;
}

static void find_machine(resolver *r) {
    orr_accelerator *accelerator = find_accelerator(r);
    orr_cluster *found = find_cluster(r);
    if (found != NULL) {
        if (accelerator != NULL && strcmp(accelerator->name, found->accelerator->name) != 0) {
            orr_resolve_problem(r, ORR_E_CONFLICT, KEY_HARDWARE, "leave one of them out",
                                "hardware is %s, but cluster %s has %s", accelerator->name,
                                found->name, found->accelerator->name);
        }
        count_gpus(r, found->gpus_per_node, found->gpus);
        fit_cluster(r, found);
        return;
    }
    if (!orr_resolve_stated(r, KEY_HARDWARE) && !orr_resolve_stated(r, KEY_CLUSTER)) {
        orr_resolve_problem(r, ORR_E_SCHEMA, KEY_HARDWARE,
                            "--hardware takes an accelerator, --cluster a kind of node",
                            "the plan lacks hardware (or a cluster)");
    }
    count_gpus(r, accelerator != NULL ? accelerator->node : 8, 0);
    if (accelerator == NULL || r->gpus == 0) {
        return;
    }
    orr_cluster *usual = NULL;
    orr_err err = {0};
    const orr_fabric *fabric = r->fabric != NULL ? r->fabric : usual_fabric(r);
    if (orr_cluster_usual(r->arena, accelerator, r->gpus, r->gpus_per_node, fabric, &usual, &err) !=
        ORR_OK) {
        orr_resolve_foreign(r, KEY_HARDWARE, &err);
        return;
    }
    orr_resolve_assume(r, KEY_CLUSTER, usual->name, "the accelerator's usual node and network");
    r->out->cluster = with_nic(r, usual);
}

void orr_resolve_inputs(resolver *r) {
    find_model(r);
    find_software(r);
    find_fabric(r);
    find_machine(r);
}
