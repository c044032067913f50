/* Keys to plan: finds the inputs, checks what is stated against itself, derives the rest and writes
 * down every default. Problems are collected; what only breaks a rule is left to rules.c. */
#include <stdarg.h>
#include <string.h>

#include "base/map.h"
#include "plan/plan_int.h"

/* The profile of software that nobody named. */
static const char default_software[] = "unknown";

typedef struct resolver {
    orr_arena *arena;
    orr_plan_cache *cache; /* NULL: nothing is kept */
    const orr_tree *map;
    plan_keys keys;
    uint64_t seen;
    orr_resolved *out;
    orr_tree *problems;
    orr_status first_status;
    orr_err first;
    const orr_fabric *fabric;
    uint32_t gpus, gpus_per_node;
    bool schedule_known; /* stated, and not "auto" */
} resolver;

static bool is_stated(const resolver *r, plan_key key) {
    return (r->seen >> key & 1) != 0;
}

static orr_span span_of(const resolver *r, plan_key key) {
    const orr_tree *node = orr_tree_get(r->map, orr_plan_key_name(key));
    return orr_tree_span(node != NULL ? node : r->map);
}

static void keep_problem(resolver *r, const char *code, const orr_err *err) {
    if (r->first_status == ORR_OK) {
        r->first_status = err->status;
        r->first = *err;
    }
    orr_problem_add(r->arena, r->problems, code, err);
}

static void problem(resolver *r, orr_status status, plan_key key, const char *hint,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));

static void problem(resolver *r, orr_status status, plan_key key, const char *hint,
                    const char *format, ...) {
    va_list args;
    va_start(args, format);
    orr_err err = {0};
    (void)orr_fail_at(&err, status, span_of(r, key), "%s",
                      orr_arena_vformat(r->arena, format, args));
    va_end(args);
    if (hint != NULL) {
        orr_hint(&err, "%s", hint);
    }
    keep_problem(r, orr_status_name(status), &err);
}

/* A failure of another module: its place, if it has none, is the key's. */
static void foreign_problem(resolver *r, plan_key key, orr_err *err) {
    orr_span span = span_of(r, key);
    if (err->line == 0 && err->file[0] == '\0' && span.line != 0) {
        orr_err placed = {0};
        (void)orr_fail_at(&placed, err->status, span, "%s", err->message);
        orr_hint(&placed, "%s", err->hint);
        *err = placed;
    }
    keep_problem(r, orr_status_name(err->status), err);
}

static void assume(resolver *r, plan_key key, const char *value, const char *why) {
    orr_resolved *out = r->out;
    if (out->assumption_count < ORR_MAX_ASSUMPTIONS) {
        out->assumption[out->assumption_count++] =
            (orr_assumption){.key = orr_plan_key_name(key), .value = value, .why = why};
    }
}

static void assume_count(resolver *r, plan_key key, uint64_t value, const char *why) {
    assume(r, key, orr_arena_format(r->arena, "%llu", (unsigned long long)value), why);
}

/* ---- inputs --------------------------------------------------------------------------------- */

/* A key that names an input holds its name or path, or the input itself as a map. */
static bool is_name(resolver *r, plan_key key, const orr_tree *node, const char **name) {
    orr_tree_kind kind = orr_tree_kind_of(node);
    *name = orr_tree_text(node, NULL);
    if (kind == ORR_TREE_TEXT && strlen(*name) != orr_tree_text_length(node)) {
        problem(r, ORR_E_SCHEMA, key, NULL, "\"%s\" is text with a NUL character",
                orr_plan_key_name(key));
        return false;
    }
    if (kind != ORR_TREE_TEXT && kind != ORR_TREE_MAP) {
        problem(r, ORR_E_SCHEMA, key, NULL, "\"%s\" must be a name, a path or a map",
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
    if (!is_stated(r, KEY_MODEL)) {
        problem(r, ORR_E_SCHEMA, KEY_MODEL, "--model takes a catalog name or a config.json",
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
            foreign_problem(r, KEY_MODEL, &err);
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
    bool stated = is_stated(r, KEY_SOFTWARE);
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
            foreign_problem(r, KEY_SOFTWARE, &err);
            return;
        }
        keep_input(r, KEY_SOFTWARE, r->keys.software, name, software);
    }
    if (!stated) {
        assume(r, KEY_SOFTWARE, software->name, "no software stated");
    }
    if (is_stated(r, KEY_GRAPHS) && r->keys.graphs != software->graphs) {
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
    if (!is_stated(r, KEY_FABRIC) || !is_name(r, KEY_FABRIC, r->keys.fabric, &name)) {
        return;
    }
    orr_fabric *fabric = (orr_fabric *)found_before(r, KEY_FABRIC, r->keys.fabric, name);
    if (fabric == NULL) {
        orr_arena *arena = input_arena(r);
        orr_status status = name != NULL
                                ? orr_fabric_find(arena, name, &fabric, &err)
                                : orr_fabric_read(arena, r->keys.fabric, "inline", &fabric, &err);
        if (status != ORR_OK) {
            foreign_problem(r, KEY_FABRIC, &err);
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
    if (!is_stated(r, KEY_HARDWARE) || !is_name(r, KEY_HARDWARE, r->keys.hardware, &name)) {
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
            foreign_problem(r, KEY_HARDWARE, &err);
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
    if (!is_stated(r, KEY_CLUSTER) || !is_name(r, KEY_CLUSTER, r->keys.cluster, &name)) {
        return NULL;
    }
    orr_cluster *cluster = (orr_cluster *)found_before(r, KEY_CLUSTER, r->keys.cluster, name);
    if (cluster == NULL) {
        orr_arena *arena = input_arena(r);
        orr_status status =
            name != NULL ? orr_cluster_find(arena, name, &cluster, &err)
                         : orr_cluster_read(arena, r->keys.cluster, "inline", &cluster, &err);
        if (status != ORR_OK) {
            foreign_problem(r, KEY_CLUSTER, &err);
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
    r->gpus_per_node = is_stated(r, KEY_GPUS_PER_NODE) ? k->gpus_per_node : usual_node;
    uint64_t product = (uint64_t)k->nodes * orr_max_u32(1, r->gpus_per_node);
    r->gpus = k->gpus;
    if (is_stated(r, KEY_NODES) && is_stated(r, KEY_GPUS)) {
        if (!is_stated(r, KEY_GPUS_PER_NODE) && k->gpus % k->nodes == 0) {
            r->gpus_per_node = k->gpus / k->nodes;
        } else if (product != k->gpus) {
            problem(r, ORR_E_CONFLICT, KEY_GPUS,
                    orr_arena_format(r->arena, "state gpus %llu, or leave one of them out",
                                     (unsigned long long)product),
                    "gpus is %u, but %u nodes of %u are %llu", k->gpus, k->nodes, r->gpus_per_node,
                    (unsigned long long)product);
            r->gpus = 0;
        }
    } else if (is_stated(r, KEY_NODES)) {
        if (product > ORR_MAX_GPUS) {
            problem(r, ORR_E_LIMIT, KEY_NODES, NULL, "%u nodes of %u are more than %d accelerators",
                    k->nodes, r->gpus_per_node, ORR_MAX_GPUS);
            product = 0;
        }
        r->gpus = (uint32_t)product;
    } else if (!is_stated(r, KEY_GPUS)) {
        r->gpus = cluster_gpus;
        if (cluster_gpus > 0) {
            assume_count(r, KEY_GPUS, cluster_gpus, "all that the cluster holds");
        } else {
            problem(r, ORR_E_SCHEMA, KEY_GPUS, "--gpus takes the total, as in --gpus 64",
                    "the plan lacks gpus (or nodes)");
        }
    }
}

/* A network that was stated replaces the line rate beyond the scale-up domain. */
static const orr_cluster *with_nic(resolver *r, const orr_cluster *found) {
    if (!is_stated(r, KEY_NIC) || !(r->keys.nic_Bps > 0)) {
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
    if (is_stated(r, KEY_GPUS_PER_NODE) && r->keys.gpus_per_node != cluster->gpus_per_node) {
        problem(r, ORR_E_CONFLICT, KEY_GPUS_PER_NODE,
                "leave gpus_per_node out, or describe the cluster by hardware",
                "gpus_per_node is %u, but a node of cluster %s has %u", r->keys.gpus_per_node,
                cluster->name, cluster->gpus_per_node);
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
            problem(r, ORR_E_CONFLICT, KEY_HARDWARE, "leave one of them out",
                    "hardware is %s, but cluster %s has %s", accelerator->name, found->name,
                    found->accelerator->name);
        }
        count_gpus(r, found->gpus_per_node, found->gpus);
        fit_cluster(r, found);
        return;
    }
    if (!is_stated(r, KEY_HARDWARE) && !is_stated(r, KEY_CLUSTER)) {
        problem(r, ORR_E_SCHEMA, KEY_HARDWARE,
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
        foreign_problem(r, KEY_HARDWARE, &err);
        return;
    }
    assume(r, KEY_CLUSTER, usual->name, "the accelerator's usual node and network");
    r->out->cluster = with_nic(r, usual);
}

/* ---- splits --------------------------------------------------------------------------------- */

static uint32_t degree(resolver *r, plan_key key, uint32_t stated) {
    if (is_stated(r, key)) {
        return stated;
    }
    assume(r, key, "1", "not stated");
    return 1;
}

static bool has_windows(const orr_model *model) {
    for (uint32_t i = 0; i < model->kind_count; i++) {
        if (model->kind[i].attention.window > 0) {
            return true;
        }
    }
    return false;
}

static bool experts_divide_by(const orr_model *model, uint32_t etp) {
    for (uint32_t i = 0; i < model->kind_count; i++) {
        if (model->kind[i].mlp.experts > 0 && model->kind[i].mlp.expert_ffn % etp != 0) {
            return false;
        }
    }
    return true;
}

static void resolve_experts(resolver *r, orr_plan *plan) {
    orr_split *split = &plan->split;
    const plan_keys *k = &r->keys;
    bool moe = is_moe(r->out->model);
    split->ep = is_stated(r, KEY_EP) ? k->ep : 1;
    split->etp = is_stated(r, KEY_ETP) ? k->etp : 1;
    if (moe && !is_stated(r, KEY_EP)) {
        assume(r, KEY_EP, "1", "not stated");
    }
    if (moe && !is_stated(r, KEY_ETP)) {
        uint64_t group = (uint64_t)split->ep * split->tp;
        bool fits = experts_divide_by(r->out->model, split->tp) &&
                    divides(group, plan->gpus / orr_max_u32(1, plan->pipe.pp));
        split->etp = fits ? split->tp : 1;
        assume_count(r, KEY_ETP, split->etp,
                     fits ? "experts are split as tp" : "a split as tp does not fit");
    }
}

/* Both words come down to how many rows the fullest rank of experts works on. */
static void resolve_load(resolver *r, orr_plan *plan) {
    double load = 1;
    orr_err err = {0};
    if (is_stated(r, KEY_IMBALANCE) &&
        !orr_imbalance_read(r->arena, r->keys.imbalance, r->out->model, plan->split.ep, &load,
                            &err)) {
        foreign_problem(r, KEY_IMBALANCE, &err);
    }
    if (!is_moe(r->out->model)) {
        return;
    }
    plan->variant.capacity = is_stated(r, KEY_CAPACITY) && r->keys.capacity > 0;
    if (plan->variant.capacity) {
        load = r->keys.capacity;
    }
    plan->split.load =
        plan->variant.capacity || load > 1 ? (uint16_t)(load * ORR_LOAD_ONE + 0.5) : 0;
}

static void resolve_split(resolver *r, orr_plan *plan) {
    const plan_keys *k = &r->keys;
    orr_split *split = &plan->split;
    plan->gpus = r->gpus;
    split->tp = degree(r, KEY_TP, k->tp);
    plan->pipe.pp = degree(r, KEY_PP, k->pp);
    split->cp = degree(r, KEY_CP, k->cp);
    uint64_t ranks = (uint64_t)split->tp * plan->pipe.pp * split->cp;
    plan->shard.dp = (uint32_t)orr_max_u64(1, ranks > plan->gpus ? 1 : plan->gpus / ranks);
    if (is_stated(r, KEY_DP) && ranks * k->dp != plan->gpus) {
        problem(r, ORR_E_CONFLICT, KEY_DP, "leave dp out: it follows from the others",
                "dp is %u, but tp %u x pp %u x cp %u x dp %u is %llu, not gpus %u", k->dp,
                split->tp, plan->pipe.pp, split->cp, k->dp, (unsigned long long)(ranks * k->dp),
                plan->gpus);
    }
    resolve_experts(r, plan);
    split->sp = is_stated(r, KEY_SP) ? k->sp : r->out->software->sequence_parallel && split->tp > 1;
    if (!is_stated(r, KEY_SP) && split->tp > 1) {
        assume(r, KEY_SP, split->sp ? "on" : "off", "the software's default where tp > 1");
    }
    bool windows = has_windows(r->out->model);
    split->cp_kind = is_stated(r, KEY_CP_KIND) ? k->cp_kind
                     : windows                 ? ORR_CP_ALLGATHER
                                               : ORR_CP_RING;
    if (!is_stated(r, KEY_CP_KIND) && split->cp > 1) {
        assume(r, KEY_CP_KIND, orr_plan_value_name(KEY_CP_KIND, split->cp_kind),
               windows ? "a ring passes whole sequences through windowed attention"
                       : "the usual kind");
    }
}

/* ---- batch ---------------------------------------------------------------------------------- */

enum { USUAL_STEP_TOKENS = 4 << 20, USUAL_SEQ = 8192, MAX_GBS = 1 << 30 };

static void resolve_seq(resolver *r, orr_plan *plan) {
    uint32_t most = r->out->model->max_seq;
    if (!is_stated(r, KEY_SEQ)) {
        plan->batch.seq = most == 0 ? USUAL_SEQ : orr_min_u32(USUAL_SEQ, most);
        assume_count(r, KEY_SEQ, plan->batch.seq, "a usual length, within the model's");
    } else if (!orr_seq_read(r->keys.seq, &plan->batch.seq)) {
        problem(r, ORR_E_SCHEMA, KEY_SEQ, "it may be written as 8192 or \"8k\"",
                "\"seq\" must be a whole number of tokens between 1 and %d", ORR_MAX_SEQ);
        plan->batch.seq = 1;
    }
}

/* Micro-batches that make a step of about the usual size, in whole pipelines. */
static uint32_t usual_micro_batches(const orr_plan *plan) {
    uint64_t tokens = (uint64_t)plan->batch.seq * plan->batch.mbs * plan->shard.dp;
    uint64_t pp = plan->pipe.pp, count = USUAL_STEP_TOKENS / orr_max_u64(1, tokens);
    uint64_t whole = orr_max_u64(1, (count + pp / 2) / pp) * pp;
    return (uint32_t)orr_min_u64(whole, ORR_MAX_MICRO_BATCHES);
}

static void resolve_batch(resolver *r, orr_plan *plan) {
    const plan_keys *k = &r->keys;
    orr_batch *batch = &plan->batch;
    batch->mbs = degree(r, KEY_MBS, k->mbs);
    resolve_seq(r, plan);
    uint64_t replicas = (uint64_t)batch->mbs * plan->shard.dp;
    bool gbs = is_stated(r, KEY_GBS), count = is_stated(r, KEY_MICRO_BATCHES);
    if (gbs) {
        plan->gbs = k->gbs;
        uint64_t micro_batches = orr_max_u64(1, k->gbs / replicas);
        if (micro_batches > ORR_MAX_MICRO_BATCHES) {
            problem(r, ORR_E_LIMIT, KEY_GBS, NULL, "gbs %u needs %llu micro-batches, more than %d",
                    k->gbs, (unsigned long long)micro_batches, ORR_MAX_MICRO_BATCHES);
        }
        batch->micro_batches = (uint32_t)micro_batches;
        if (count && k->micro_batches * replicas != k->gbs) {
            problem(r, ORR_E_CONFLICT, KEY_GBS, "leave one of them out",
                    "gbs is %u, but %u micro-batches x mbs %u x dp %u are %llu", k->gbs,
                    k->micro_batches, batch->mbs, plan->shard.dp,
                    (unsigned long long)(k->micro_batches * replicas));
        }
        return;
    }
    batch->micro_batches = count ? k->micro_batches : usual_micro_batches(plan);
    uint64_t total = batch->micro_batches * replicas;
    if (total > MAX_GBS) {
        problem(r, ORR_E_LIMIT, count ? KEY_MICRO_BATCHES : KEY_MBS, NULL,
                "%u micro-batches x mbs %u x dp %u are %llu sequences a step, more than %d",
                batch->micro_batches, batch->mbs, plan->shard.dp, (unsigned long long)total,
                MAX_GBS);
        return;
    }
    plan->gbs = (uint32_t)total;
    if (!count) {
        assume_count(r, KEY_GBS, total, "a step of about four million tokens");
    }
}

/* ---- pipeline ------------------------------------------------------------------------------- */

typedef struct layout_word {
    const char *name;
    uint8_t placement, flags; /* flags 0: a placement */
} layout_word;

static void resolve_layout_word(resolver *r, orr_plan *plan, const char *text) {
    static const layout_word words[] = {
        {"even", ORR_PLACE_EVEN, 0},
        {"slots", ORR_PLACE_SLOTS, 0},
        {"cost-walk", ORR_PLACE_COST_WALK, 0},
        {"balanced", ORR_PLACE_BALANCED, 0},
        {"spread", ORR_PLACE_SPREAD, 0},
        {"embedding", 0, ORR_SPLIT_EMBEDDING},
        {"loss", 0, ORR_SPLIT_LOSS},
        {"embedding,loss", 0, ORR_SPLIT_EMBEDDING | ORR_SPLIT_LOSS},
        {"loss,embedding", 0, ORR_SPLIT_EMBEDDING | ORR_SPLIT_LOSS},
    };
    enum { WORDS = sizeof words / sizeof *words };
    const char *names[WORDS];
    for (int i = 0; i < WORDS; i++) {
        names[i] = words[i].name;
        if (!orr_name_equal(text, words[i].name)) {
            continue;
        }
        if (words[i].flags != 0) {
            plan->pipe.split_flags |= words[i].flags;
        } else if (is_stated(r, KEY_PLACEMENT) && r->keys.placement != words[i].placement) {
            problem(r, ORR_E_CONFLICT, KEY_LAYOUT, "leave one of them out",
                    "layout is %s, but placement is %s", words[i].name,
                    orr_plan_value_name(KEY_PLACEMENT, r->keys.placement));
        } else {
            plan->pipe.placement = words[i].placement;
        }
        return;
    }
    int near = orr_name_nearest(text, names, WORDS);
    problem(r, ORR_E_SCHEMA, KEY_LAYOUT,
            orr_arena_format(
                r->arena,
                "%s%s%sit takes auto, even, slots, cost-walk, balanced, spread, embedding, "
                "loss, \"embedding,loss\", or a string such as \"Et*3|(tt|)*29m|L\"",
                near < 0 ? "" : "did you mean \"", near < 0 ? "" : names[near],
                near < 0 ? "" : "\"? "),
            "\"layout\" has no value \"%.60s\"", text);
}

static void resolve_layout(resolver *r, orr_plan *plan) {
    plan->pipe.placement =
        is_stated(r, KEY_PLACEMENT) ? r->keys.placement : r->out->software->placement;
    if (r->keys.first_layers > 0 || r->keys.last_layers > 0) {
        plan->pipe.split_flags |= ORR_SPLIT_COUNTS;
        plan->pipe.first_layers = r->keys.first_layers;
        plan->pipe.last_layers = r->keys.last_layers;
    }
    const char *text = r->keys.layout;
    if (!is_stated(r, KEY_LAYOUT)) {
        return;
    }
    if (*text == '\0' || strspn(text, "EtmL|,()*0123456789 ") != strlen(text)) {
        resolve_layout_word(r, plan, text);
        return;
    }
    orr_layout *layout = NULL;
    orr_err err = {0};
    if (orr_layout_read(r->arena, text, &layout, &err) != ORR_OK) {
        foreign_problem(r, KEY_LAYOUT, &err);
        return;
    }
    plan->layout = layout;
    uint64_t parts[3] = {layout->mtp_stage, layout->mtp_layers,
                         orr_hash(layout->layers, layout->stages * sizeof *layout->layers)};
    plan->pipe.layout_hash = orr_hash(parts, sizeof parts);
}

/* Chunks of one layer each: what leaving vpp blank means to some software. 0 where it does not
 * work out. */
static uint32_t one_layer_chunks(const orr_model *model, orr_plan *plan) {
    uint32_t pp = plan->pipe.pp;
    orr_plan trial = *plan;
    trial.pipe.schedule = ORR_SCHEDULE_INTERLEAVED;
    if (model->layers % pp == 0) {
        trial.pipe.vpp = model->layers / pp;
    } else if ((model->layers + 2) % pp == 0 && plan->pipe.split_flags == 0) {
        trial.pipe.vpp = (model->layers + 2) / pp;
        trial.pipe.split_flags = ORR_SPLIT_EMBEDDING | ORR_SPLIT_LOSS;
    } else {
        return 0;
    }
    orr_schedule_spec spec = orr_plan_schedule(&trial);
    if (trial.pipe.vpp > ORR_MAX_VPP || trial.pipe.vpp < 2 || plan->layout != NULL ||
        !orr_plan_placeable(model, &trial) || orr_schedule_check(&spec, NULL, 0) != 0) {
        return 0;
    }
    plan->pipe.split_flags = trial.pipe.split_flags;
    return trial.pipe.vpp;
}

static void resolve_vpp(resolver *r, orr_plan *plan) {
    orr_pipe *pipe = &plan->pipe;
    if (is_stated(r, KEY_VPP)) {
        pipe->vpp = r->keys.vpp;
        return;
    }
    const char *why = "not stated";
    uint32_t fixed =
        r->schedule_known ? orr_schedule_fixed_vpp((orr_schedule_kind)r->keys.schedule) : 0;
    bool interleaves = r->schedule_known && r->keys.schedule == ORR_SCHEDULE_INTERLEAVED;
    pipe->vpp = 1;
    if (fixed > 0) {
        pipe->vpp = fixed;
        why = "the schedule's";
    } else if (plan->layout != NULL && plan->layout->stages % pipe->pp == 0 &&
               plan->layout->stages / pipe->pp <= ORR_MAX_VPP) {
        pipe->vpp = plan->layout->stages / pipe->pp;
        why = "the layout's";
    } else if (pipe->pp > 1 &&
               (interleaves || (!r->schedule_known && r->out->software->interleaved_default))) {
        uint32_t chunks = one_layer_chunks(r->out->model, plan);
        pipe->vpp = chunks > 0 ? chunks : interleaves ? 2 : 1;
        why = chunks > 0 ? "the software's: one layer a chunk" : why;
    }
    assume_count(r, KEY_VPP, pipe->vpp, why);
}

static void resolve_pipe(resolver *r, orr_plan *plan) {
    const plan_keys *k = &r->keys;
    orr_pipe *pipe = &plan->pipe;
    r->schedule_known = is_stated(r, KEY_SCHEDULE) && k->schedule != SCHEDULE_AUTO;
    resolve_layout(r, plan);
    pipe->group = k->group;
    pipe->memory_limit = k->memory_limit;
    pipe->order = is_stated(r, KEY_ORDER) ? k->order : ORR_ORDER_PP_LAST;
    resolve_vpp(r, plan);
    if (r->schedule_known) {
        pipe->schedule = k->schedule;
    } else {
        pipe->schedule = pipe->vpp > 1 ? ORR_SCHEDULE_INTERLEAVED : ORR_SCHEDULE_1F1B;
        assume(r, KEY_SCHEDULE, orr_plan_value_name(KEY_SCHEDULE, pipe->schedule),
               pipe->vpp > 1 ? "the usual one where vpp > 1" : "the usual one");
    }
    if (pipe->pp > 1 && plan->layout == NULL && pipe->split_flags == 0 &&
        !is_stated(r, KEY_PLACEMENT) && !is_stated(r, KEY_LAYOUT)) {
        assume(r, KEY_PLACEMENT, orr_plan_value_name(KEY_PLACEMENT, pipe->placement),
               "the software's default");
    }
}

/* ---- sharding, numbers, variants ------------------------------------------------------------- */

static uint32_t usual_shard_group(const orr_plan *plan, uint32_t gpus_per_node) {
    uint32_t ranks = plan->shard.dp * plan->split.cp;
    uint32_t group = orr_max_u32(1, gpus_per_node / orr_max_u32(1, plan->split.tp));
    return ranks % group == 0 && group < ranks ? group : ranks;
}

static void resolve_shard(resolver *r, orr_plan *plan) {
    plan->shard.kind =
        is_stated(r, KEY_SHARDING) ? r->keys.sharding : r->out->software->default_sharding;
    if (plan->shard.kind == ORR_SHARD_COUNT) { /* "megatron-fsdp": another word */
        plan->shard.kind = ORR_SHARD_ZERO3;
    }
    plan->shard.group = r->keys.shard_group;
    if (!is_stated(r, KEY_SHARDING)) {
        assume(r, KEY_SHARDING, orr_plan_value_name(KEY_SHARDING, plan->shard.kind),
               "the software's default");
    }
    if (plan->shard.kind == ORR_SHARD_HSDP && plan->shard.group == 0) {
        plan->shard.group = usual_shard_group(plan, r->out->cluster->gpus_per_node);
        assume_count(r, KEY_SHARD_GROUP, plan->shard.group, "the ranks of a node");
    }
}

/* A dtype key's bytes: stated, or the default with an assumption. */
static uint8_t bytes_of(resolver *r, plan_key key, uint8_t stated, uint8_t otherwise,
                        const char *why) {
    if (is_stated(r, key)) {
        return orr_plan_dtype_bytes(key, stated);
    }
    assume(r, key, orr_plan_value_name(key, orr_plan_dtype_index(key, otherwise)), why);
    return otherwise;
}

static uint8_t enumerated(resolver *r, plan_key key, uint8_t stated, uint8_t otherwise,
                          const char *why) {
    if (is_stated(r, key)) {
        return stated;
    }
    assume(r, key, orr_plan_value_name(key, otherwise), why);
    return otherwise;
}

/* Recipes with scales of a tensor, or of 32 elements in a row, keep weights in fp8; those with
 * scales of blocks, and 4-bit ones, keep 16-bit weights (Megatron-Bridge, mixed_precision.py). */
static bool keeps_fp8_params(uint8_t precision) {
    return precision == ORR_PRECISION_FP8 || precision == ORR_PRECISION_FP8_CS ||
           precision == ORR_PRECISION_FP8_MX;
}

static void resolve_numeric(resolver *r, orr_plan *plan) {
    const plan_keys *k = &r->keys;
    const orr_software *software = r->out->software;
    orr_numeric *n = &plan->numeric;
    n->precision = enumerated(r, KEY_PRECISION, k->precision, ORR_PRECISION_BF16, "not stated");
    n->optimizer = enumerated(r, KEY_OPTIMIZER, k->optimizer, ORR_ADAM, "not stated");
    uint8_t resident = software->param_bytes >= 4 ? 4 : 2;
    n->param_bytes = bytes_of(r, KEY_PARAM_DTYPE, k->param_dtype, resident, "the software's");
    bool fp8 = software->param_bytes == 1 && keeps_fp8_params(n->precision) &&
               !is_stated(r, KEY_PARAM_DTYPE);
    if (is_stated(r, KEY_FP8_PARAMS)) {
        fp8 = k->fp8_params;
    } else if (fp8) {
        assume(r, KEY_FP8_PARAMS, "on", "the software's");
    }
    n->param_bytes = fp8 ? 1 : n->param_bytes;
    n->grad_bytes = bytes_of(r, KEY_GRAD_DTYPE, k->grad_dtype, software->variant.grad_fp32 ? 4 : 2,
                             "the software's");
    n->wire_bytes = (uint8_t)orr_min_f64(software->grad_wire_bytes, 4);
    bool own_master = n->param_bytes == 4;
    n->master_bytes = bytes_of(r, KEY_MASTER_DTYPE, k->master_dtype, own_master ? 0 : 4,
                               own_master ? "fp32 parameters are their own" : "the usual one");
    uint8_t moment = n->optimizer == ORR_ADAM8BIT ? 1 : 4;
    n->exp_avg_bytes = bytes_of(r, KEY_EXP_AVG_DTYPE, k->exp_avg_dtype, moment, "the optimizer's");
    n->exp_avg_sq_bytes = bytes_of(r, KEY_EXP_AVG_SQ_DTYPE, k->exp_avg_sq_dtype,
                                   n->optimizer == ORR_MUON ? 0 : moment, "the optimizer's");
}

static void resolve_variant(resolver *r, orr_plan *plan) {
    const plan_keys *k = &r->keys;
    orr_variant *v = &plan->variant;
    *v = r->out->software->variant;
    v->grad_fp32 = plan->numeric.grad_bytes == 4;
    v->attention =
        enumerated(r, KEY_ATTENTION, k->attention, v->attention, "the software's default");
    v->loss = enumerated(r, KEY_LOSS, k->loss, v->loss, "the software's default");
    if (is_stated(r, KEY_DISPATCH)) {
        v->dispatch = k->dispatch;
    } else if (!is_moe(r->out->model)) {
        v->dispatch = ORR_DISPATCH_ALLTOALL;
    } else {
        v->dispatch = plan->split.ep > 1 ? v->dispatch : ORR_DISPATCH_ALLTOALL;
        assume(r, KEY_DISPATCH, orr_plan_value_name(KEY_DISPATCH, v->dispatch),
               plan->split.ep > 1 ? "the software's default" : "no expert parallelism");
    }
    if (is_stated(r, KEY_DROPOUT)) {
        v->hidden_dropout = (k->dropout & DROPOUT_HIDDEN) != 0;
        v->attention_dropout = (k->dropout & DROPOUT_ATTENTION) != 0;
    } else {
        const char *what = v->hidden_dropout && v->attention_dropout ? "hidden, attention"
                           : v->hidden_dropout                       ? "hidden"
                           : v->attention_dropout                    ? "attention"
                                                                     : "none";
        assume(r, KEY_DROPOUT, what, "the software's default");
    }
    v->fp8_copies = is_fp8(plan->numeric.precision) ? v->fp8_copies : 0;
    resolve_load(r, plan);
    plan->offload =
        (orr_offload){.layers = is_stated(r, KEY_OFFLOAD_LAYERS) ? k->offload_layers : 0,
                      .optimizer_permille = is_stated(r, KEY_OFFLOAD_OPTIMIZER)
                                                ? (uint32_t)(1000 * k->offload_optimizer + 0.5)
                                                : 0};
}

/* A command line gives a map as text. */
static orr_status read_lora(resolver *r, orr_plan *plan, orr_err *err) {
    const char *text = orr_tree_text(r->keys.lora, "");
    orr_tree *map = NULL;
    if (text[0] != '{') {
        return orr_lora_read(r->keys.lora, &plan->lora, err);
    }
    ORR_TRY(orr_yaml_read(r->arena, "lora", text, strlen(text), &map, err));
    return orr_lora_read(map, &plan->lora, err);
}

static void resolve_lora(resolver *r, orr_plan *plan) {
    orr_err err = {0};
    if (is_stated(r, KEY_LORA) && read_lora(r, plan, &err) != ORR_OK) {
        foreign_problem(r, KEY_LORA, &err);
    }
    if (plan->lora.rank > 0) {
        plan->lora.base = enumerated(r, KEY_BASE_DTYPE, r->keys.base_dtype, ORR_BASE_16BIT,
                                     "frozen weights stay as they are");
    } else if (is_stated(r, KEY_BASE_DTYPE)) {
        plan->lora.base = r->keys.base_dtype;
    }
}

static void resolve_recompute(resolver *r, orr_plan *plan) {
    orr_err err = {0};
    if (!is_stated(r, KEY_RECOMPUTE)) {
        assume(r, KEY_RECOMPUTE, "none", "not stated");
    } else if (!orr_recompute_read(r->keys.recompute, &plan->recompute, &err)) {
        foreign_problem(r, KEY_RECOMPUTE, &err);
    }
}

/* ---- overlap and transfers ------------------------------------------------------------------- */

static const char *overlap_text(resolver *r, uint32_t bits) {
    orr_text text = orr_text_new(r->arena, 64);
    for (uint32_t i = 0, n = 0; i < 4; i++) {
        if (bits >> i & 1) {
            orr_text_format(&text, "%s%s", n++ == 0 ? "" : ", ",
                            orr_plan_value_name(KEY_OVERLAP, i));
        }
    }
    return bits == 0 ? "none" : orr_text_done(&text);
}

/* "all" means all that there is: expert overlap merges forward and backward passes, which takes
 * experts, and virtual stages where there is a pipeline. */
static bool may_overlap_experts(const resolver *r, const orr_plan *plan) {
    return is_moe(r->out->model) && plan->split.ep > 1 &&
           (plan->pipe.pp == 1 ? plan->pipe.schedule == ORR_SCHEDULE_1F1B
                               : plan->pipe.schedule == ORR_SCHEDULE_INTERLEAVED);
}

static orr_sureness sureness_of(const resolver *r, const orr_plan *plan) {
    static const plan_key decisive[] = {KEY_RECOMPUTE, KEY_SOFTWARE, KEY_ATTENTION,  KEY_LOSS,
                                        KEY_PRECISION, KEY_SHARDING, KEY_GRAD_DTYPE, KEY_SEQ};
    if (!is_stated(r, KEY_RECOMPUTE) || plan->recompute.kind == ORR_RECOMPUTE_UNKNOWN ||
        (!is_stated(r, KEY_SOFTWARE) && !is_stated(r, KEY_ATTENTION))) {
        return ORR_SURE_GUESSED;
    }
    for (size_t i = 0; i < sizeof decisive / sizeof *decisive; i++) {
        if (!is_stated(r, decisive[i])) {
            return ORR_SURE_PARTLY;
        }
    }
    return ORR_SURE_STATED;
}

static void resolve_overlap(resolver *r, orr_plan *plan) {
    enum { ALL = ORR_OVERLAP_TP | ORR_OVERLAP_DP | ORR_OVERLAP_PP | ORR_OVERLAP_EP };
    const orr_software *software = r->out->software;
    bool loops = plan->pipe.schedule == ORR_SCHEDULE_INTERLEAVED;
    if (is_stated(r, KEY_OVERLAP)) {
        plan->overlap = r->keys.overlap;
        if (plan->overlap == ALL && !may_overlap_experts(r, plan)) {
            plan->overlap &= ~(uint32_t)ORR_OVERLAP_EP;
        }
    } else {
        bool tp = software->tp_overlap_fwd_frac > 0 || software->tp_overlap_bwd_frac > 0;
        bool plain = software->dp_overlap_unsharded && plan->shard.kind == ORR_SHARD_NONE;
        plan->overlap = (tp && plan->split.tp > 1 ? ORR_OVERLAP_TP : 0u) |
                        (software->dp_overlap_grads || plain ? ORR_OVERLAP_DP : 0u) |
                        (software->p2p_overlap && loops ? ORR_OVERLAP_PP : 0u);
        assume(r, KEY_OVERLAP, overlap_text(r, plan->overlap), "the software's default");
    }
    if (is_stated(r, KEY_P2P)) {
        plan->pipe.p2p = r->keys.p2p;
        return;
    }
    plan->pipe.p2p = (uint8_t)orr_schedule_default_p2p((orr_schedule_kind)plan->pipe.schedule);
    if (loops) {
        plan->pipe.p2p = (plan->overlap & ORR_OVERLAP_PP) != 0 ? ORR_P2P_OVERLAP : ORR_P2P_BLOCKING;
    }
    if (plan->pipe.pp > 1) {
        assume(r, KEY_P2P, orr_plan_value_name(KEY_P2P, plan->pipe.p2p), "the schedule's");
    }
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void resolve_plan(resolver *r) {
    orr_plan *plan = &r->out->plan;
    resolve_split(r, plan);
    resolve_batch(r, plan);
    resolve_pipe(r, plan);
    resolve_shard(r, plan);
    resolve_numeric(r, plan);
    resolve_variant(r, plan);
    resolve_lora(r, plan);
    resolve_recompute(r, plan);
    resolve_overlap(r, plan);
    r->out->sureness = (uint32_t)sureness_of(r, plan);
}

static void run(resolver *r) {
    orr_schema schema = orr_plan_schema(r->arena);
    orr_err err = {0};
    orr_status status =
        orr_schema_read_all(&schema, r->arena, r->map, &r->keys, &r->seen, r->problems, &err);
    if (status != ORR_OK) {
        r->first_status = status;
        r->first = err;
        return; /* what was not read would only raise echoes */
    }
    find_model(r);
    find_software(r);
    find_fabric(r);
    find_machine(r);
    if (r->first_status == ORR_OK) {
        resolve_plan(r);
    }
}

/* The first problem is the error; the others follow in its hint. */
static orr_status report(const resolver *r, orr_err *err) {
    size_t more = orr_tree_size(r->problems);
    if (r->first_status == ORR_OK || err == NULL) {
        return r->first_status;
    }
    *err = r->first;
    orr_text hint = orr_text_new(r->arena, ORR_ERR_TEXT - 1);
    orr_text_add(&hint, r->first.hint);
    for (size_t i = 1; i < more; i++) {
        const orr_tree *other = orr_tree_at(r->problems, i);
        orr_text_format(&hint, "%salso: %s", hint.length > 0 ? "; " : "",
                        orr_tree_text(orr_tree_get(other, "message"), ""));
    }
    orr_hint(err, "%s", orr_text_done(&hint));
    return r->first_status;
}

orr_status orr_plan_resolve(orr_arena *arena, const orr_tree *keys, orr_resolved *out,
                            orr_err *err) {
    return orr_plan_resolve_cached(NULL, arena, keys, out, err);
}

orr_status orr_plan_resolve_cached(orr_plan_cache *cache, orr_arena *arena, const orr_tree *keys,
                                   orr_resolved *out, orr_err *err) {
    *out = (orr_resolved){0};
    resolver r = {.arena = arena,
                  .cache = cache,
                  .map = keys,
                  .out = out,
                  .problems = orr_tree_new_list(arena)};
    run(&r);
    return report(&r, err);
}

orr_plan_cache *orr_plan_cache_new(void) {
    orr_arena *arena = orr_arena_new();
    orr_plan_cache *cache = ORR_NEW(arena, orr_plan_cache);
    cache->arena = arena;
    return cache;
}

void orr_plan_cache_free(orr_plan_cache *cache) {
    if (cache == NULL) {
        return;
    }
    for (int k = 0; k < KEY_COUNT; k++) {
        orr_map_release(&cache->named[k]);
    }
    orr_map_release(&cache->given);
    orr_arena_free(cache->arena);
}

orr_tree *orr_plan_problems(orr_arena *arena, const orr_tree *keys) {
    orr_resolved out = {0};
    resolver r = {.arena = arena, .map = keys, .out = &out, .problems = orr_tree_new_list(arena)};
    run(&r);
    return r.problems;
}
