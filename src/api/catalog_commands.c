/* Commands that list and show what is known by name, and what the tool itself is made of. */
#include <string.h>

#include "api/api.h"
#include "base/err.h"

static orr_status show_model(orr_arena *arena, const char *name, orr_tree **out, orr_err *err) {
    orr_model *model = NULL;
    ORR_TRY(orr_model_find(arena, name, &model, err));
    orr_model_params params = orr_model_count(model);
    *out = orr_model_write(arena, model);
    orr_tree_put_int(arena, *out, "parameters_total", (int64_t)params.total);
    orr_tree_put_int(arena, *out, "parameters_active", (int64_t)params.active);
    orr_tree_put_int(arena, *out, "parameters_embedding", (int64_t)params.embedding);
    orr_tree_put_int(arena, *out, "parameters_head", (int64_t)params.head);
    orr_tree_put_int(arena, *out, "parameters_experts", (int64_t)params.experts);
    orr_tree_put_int(arena, *out, "parameters_mtp", (int64_t)params.mtp);
    return ORR_OK;
}

static orr_status show_hardware(orr_arena *arena, const char *name, orr_tree **out, orr_err *err) {
    orr_accelerator *accelerator = NULL;
    ORR_TRY(orr_accelerator_find(arena, name, &accelerator, err));
    *out = orr_accelerator_write(arena, accelerator);
    return ORR_OK;
}

static orr_status show_cluster(orr_arena *arena, const char *name, orr_tree **out, orr_err *err) {
    orr_cluster *cluster = NULL;
    ORR_TRY(orr_cluster_find(arena, name, &cluster, err));
    *out = orr_cluster_write(arena, cluster);
    return ORR_OK;
}

static orr_status show_software(orr_arena *arena, const char *name, orr_tree **out, orr_err *err) {
    orr_software *software = NULL;
    ORR_TRY(orr_software_find(arena, name, &software, err));
    *out = orr_software_write(arena, software);
    return ORR_OK;
}

static orr_status show_fabric(orr_arena *arena, const char *name, orr_tree **out, orr_err *err) {
    orr_fabric *fabric = NULL;
    ORR_TRY(orr_fabric_find(arena, name, &fabric, err));
    *out = orr_fabric_write(arena, fabric);
    return ORR_OK;
}

const orr_catalog orr_catalog_models = {"model", orr_model_catalog, show_model};
const orr_catalog orr_catalog_hardware = {"hardware", orr_accelerator_catalog, show_hardware};
const orr_catalog orr_catalog_clusters = {"cluster", orr_cluster_catalog, show_cluster};
const orr_catalog orr_catalog_software = {"software", orr_software_catalog, show_software};
const orr_catalog orr_catalog_fabrics = {"fabric", orr_fabric_catalog, show_fabric};

orr_status orr_command_list(orr_job *job, orr_err *err) {
    const orr_catalog *catalog = (const orr_catalog *)job->command->detail;
    orr_tree *names = catalog->names(job->arena);
    orr_tree *rows =
        orr_tree_put(job->arena, job->result, "entries", orr_tree_new_list(job->arena));
    for (size_t i = 0; i < orr_tree_size(names); i++) {
        orr_tree *entry = NULL;
        ORR_TRY(catalog->show(job->arena, orr_tree_text(orr_tree_at(names, i), ""), &entry, err));
        (void)orr_tree_push(job->arena, rows, entry);
    }
    return ORR_OK;
}

orr_status orr_command_show(orr_job *job, orr_err *err) {
    const orr_catalog *catalog = (const orr_catalog *)job->command->detail;
    const char *name = orr_tree_text(orr_tree_get(job->args, "name"), NULL);
    if (name == NULL) {
        return orr_fail(err, ORR_E_USAGE, "%s needs a NAME; '%s list' prints those known",
                        job->command->name, catalog->noun);
    }
    orr_tree_put_text(job->arena, job->inputs, "name", name);
    return catalog->show(job->arena, name, &job->result, err);
}

orr_status orr_command_rules(orr_job *job, orr_err *err) {
    (void)err;
    (void)orr_tree_put(job->arena, job->result, "rules", orr_plan_rules(job->arena));
    return ORR_OK;
}
