#include "projection/projection_int.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"

orr_engine *orr_engine_new(void) {
    orr_engine *engine = (orr_engine *)orr_alloc(sizeof *engine);
    engine->arena = orr_arena_new();
    engine->prices = orr_arena_new();
    engine->machines = orr_arena_new();
    engine->scratch = orr_arena_new();
    engine->played = orr_arena_new();
    engine->linker = orr_linker_new();
    return engine;
}

orr_engine *orr_engine_with(const orr_calibration *calibration) {
    orr_engine *engine = orr_engine_new();
    engine->calibration = calibration;
    return engine;
}

void orr_engine_trim(orr_engine *engine, size_t most_bytes) {
    bool many_prices = orr_arena_used(engine->prices) > most_bytes;
    (void)orr_linker_trim(engine->linker, most_bytes);
    if (orr_linker_trim_objects(engine->linker, many_prices ? 0 : most_bytes)) {
        orr_map_release(&engine->priced);
        orr_map_release(&engine->times);
        orr_arena_free(engine->prices);
        engine->prices = orr_arena_new();
        engine->trims++;
    }
}

void orr_engine_forget(orr_engine *engine, size_t most_bytes) {
    bool many_machines = orr_arena_used(engine->machines) > most_bytes;
    orr_engine_trim(engine, many_machines ? 0 : most_bytes);
    if (many_machines) {
        orr_map_release(&engine->tables);
        orr_arena_free(engine->machines);
        engine->machines = orr_arena_new();
    }
}

orr_engine *orr_engine_twin(const orr_engine *engine) {
    orr_engine *twin = orr_engine_with(engine->calibration);
    twin->evidence = engine->evidence;
    return twin;
}

void orr_engine_free(orr_engine *engine) {
    if (engine == NULL) {
        return;
    }
    orr_map_release(&engine->tables);
    orr_map_release(&engine->priced);
    orr_map_release(&engine->times);
    orr_linker_free(engine->linker);
    orr_engine_release_evidence(engine);
    orr_arena_free(engine->scratch);
    orr_arena_free(engine->played);
    orr_arena_free(engine->prices);
    orr_arena_free(engine->machines);
    orr_arena_free(engine->arena);
    orr_release(engine);
}

/* Content of everything that prices depend on; pointers are cleared and names hashed, so that two
 * readings of one file are one key. */
typedef struct table_key {
    orr_accelerator accelerator;
    orr_fabric fabric;
    orr_software software;
    orr_tier tier[ORR_MAX_TIERS];
    const orr_evidence *evidence;
    uint64_t names;
    uint32_t tier_count, gpus_per_node;
    uint32_t domain; /* accelerators that are there in one: groups depend on it */
    uint32_t reserved;
} table_key;

static void make_table_key(const orr_cluster *cluster, const orr_software *software,
                           table_key *key) {
    memset(key, 0, sizeof *key);
    memcpy(&key->accelerator, cluster->accelerator, sizeof key->accelerator);
    memcpy(&key->fabric, cluster->fabric, sizeof key->fabric);
    memcpy(&key->software, software, sizeof key->software);
    memcpy(key->tier, cluster->tier, sizeof key->tier);
    key->accelerator.name = key->accelerator.title = key->accelerator.source = NULL;
    key->accelerator.sources = NULL;
    key->fabric.name = key->fabric.source = NULL;
    key->software.name = key->software.source = NULL;
    key->software.evidence = NULL;
    for (uint32_t i = 0; i < ORR_MAX_TIERS; i++) {
        key->tier[i].name = NULL;
    }
    /* Calibrations are found by the accelerator's name. */
    key->names = orr_hash(cluster->accelerator->name, strlen(cluster->accelerator->name));
    key->tier_count = cluster->tier_count;
    key->gpus_per_node = cluster->gpus_per_node;
    key->domain = orr_min_u32(cluster->tier[0].gpus, cluster->gpus);
}

/* Clusters and profiles read by the caller may live shorter than the engine: a table keeps its own.
 */
static const orr_cluster *keep_cluster(orr_arena *arena, const orr_cluster *cluster) {
    orr_cluster *copy = ORR_NEW(arena, orr_cluster);
    orr_accelerator *accelerator = ORR_NEW(arena, orr_accelerator);
    orr_fabric *fabric = ORR_NEW(arena, orr_fabric);
    *copy = *cluster;
    *accelerator = *cluster->accelerator;
    *fabric = *cluster->fabric;
    accelerator->name = orr_arena_text(arena, accelerator->name);
    accelerator->title = accelerator->source = "";
    accelerator->sources = NULL;
    fabric->name = orr_arena_text(arena, fabric->name);
    fabric->source = "";
    for (uint32_t i = 0; i < copy->tier_count; i++) {
        copy->tier[i].name = orr_arena_text(arena, copy->tier[i].name);
    }
    copy->name = copy->source = "";
    copy->accelerator = accelerator;
    copy->fabric = fabric;
    return copy;
}

orr_status orr_engine_table(orr_engine *engine, const orr_cluster *cluster,
                            const orr_software *software, const orr_cost_table **out,
                            orr_err *err) {
    table_key key;
    make_table_key(cluster, software, &key);
    key.evidence = orr_engine_evidence_for(engine, cluster);
    void *known = orr_map_get(&engine->tables, &key, sizeof key);
    if (known == NULL) {
        orr_software *profile = ORR_NEW(engine->machines, orr_software);
        *profile = *software;
        profile->name = orr_arena_text(engine->machines, software->name);
        profile->source = "";
        profile->evidence = NULL;
        const orr_cost_table *made = NULL;
        if (engine->calibration == NULL) {
            orr_calibration *builtin = NULL;
            ORR_TRY(orr_calibration_builtin(engine->arena, &builtin, err));
            engine->calibration = builtin;
        }
        ORR_TRY(orr_cost_table_of(engine->machines, engine->calibration,
                                  keep_cluster(engine->machines, cluster), profile, &made, err));
        if (key.evidence != NULL) {
            made = orr_cost_table_measured(engine->machines, made, key.evidence);
        }
        const orr_cost_table **slot = ORR_NEW(engine->machines, const orr_cost_table *);
        *slot = made;
        orr_map_put(&engine->tables, engine->machines, &key, sizeof key, slot);
        known = slot;
    }
    *out = *(const orr_cost_table *const *)known;
    return ORR_OK;
}

orr_status orr_engine_read_residuals(orr_engine *engine, orr_err *err) {
    if (engine->residuals == NULL) {
        orr_residuals *builtin = NULL;
        ORR_TRY(orr_residuals_builtin(engine->arena, &builtin, err));
        engine->residuals = builtin;
    }
    return ORR_OK;
}

orr_status orr_engine_prepare(orr_engine *engine, const orr_resolved *resolved, orr_err *err) {
    const orr_cost_table *table = NULL;
    ORR_TRY(orr_engine_read_residuals(engine, err));
    return orr_engine_table(engine, resolved->cluster, resolved->software, &table, err);
}

orr_status orr_engine_reliance(orr_engine *engine, orr_arena *arena, const orr_resolved *resolved,
                               orr_tree **out, orr_err *err) {
    const orr_cost_table *table = NULL;
    ORR_TRY(orr_engine_table(engine, resolved->cluster, resolved->software, &table, err));
    *out = orr_cost_reliance(arena, table);
    return ORR_OK;
}

typedef struct priced_key {
    const orr_cost_table *table;
    const orr_object *object;
} priced_key;

static const orr_priced *priced_object(orr_engine *engine, const orr_cost_table *table,
                                       const orr_object *object) {
    priced_key key = {table, object};
    orr_priced *known = (orr_priced *)orr_map_get(&engine->priced, &key, sizeof key);
    if (known == NULL) {
        known = ORR_NEW(engine->prices, orr_priced);
        orr_cost_price(table, engine->prices, object, known);
        orr_leave_out(engine, table, known);
        orr_map_put(&engine->priced, engine->prices, &key, sizeof key, known);
    }
    return known;
}

typedef struct times_key {
    const orr_cost_table *table;
    const orr_object *object;
    orr_timeline_mode mode;
} times_key;

const orr_part_time *orr_engine_times(orr_engine *engine, const orr_cost_table *table,
                                      const orr_software *software, const orr_object *object,
                                      const orr_timeline_mode *mode) {
    times_key key;
    memset(&key, 0, sizeof key);
    key.table = table;
    key.object = object;
    key.mode = *mode;
    orr_part_time *known = (orr_part_time *)orr_map_get(&engine->times, &key, sizeof key);
    if (known == NULL) {
        known = ORR_NEW(engine->prices, orr_part_time);
        const orr_priced *priced =
            orr_engine_in_situ(engine, table, software, priced_object(engine, table, object));
        orr_timeline_object(priced, software, mode, known);
        orr_map_put(&engine->times, engine->prices, &key, sizeof key, known);
    }
    return known;
}
