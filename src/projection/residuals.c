/* The 90 % interval of a projection: what published runs of the nearest class left as residuals.
 *
 * data/residuals/published.yaml is made by `orrery validate` on the shipped runs
 * (scripts/accuracy). A class says at which ratio to the projection 5 % and 95 % of its measured
 * runs lie; the nearest is of the same software, kind of model and architecture, then without the
 * architecture, then without the software. Software that nobody has measured keeps its profile's
 * own width. */
#include <math.h>
#include <string.h>

#include "base/embedded.h"
#include "base/err.h"
#include "base/num.h"
#include "doc/doc.h"
#include "projection/projection_int.h"

enum { MAX_CLASSES = 1024, MAX_DEVICES = 256, FEW_ROWS = 20 };
/* Devices with little evidence promise no more than this. */
static const double FEW_HALF_FRAC = 0.20;

typedef struct residual_class {
    const char *software, *kind, *arch, *scaling; /* "any" where it does not matter */
    uint32_t rows;
    double low_ratio, high_ratio;
    uint64_t words; /* hash of the four */
} residual_class;

typedef struct device_rows {
    const char *name;
    uint32_t rows;
} device_rows;

struct orr_residuals {
    uint32_t class_count, device_count;
    residual_class class[MAX_CLASSES];
    device_rows device[MAX_DEVICES];
};

#define CLASS_AT(member_) offsetof(residual_class, member_)
#define WORD(name_, text)                                                                          \
    {.name = #name_,                                                                               \
     .type = ORR_FIELD_TEXT,                                                                       \
     .offset = CLASS_AT(name_),                                                                    \
     .fallback = "any",                                                                            \
     .doc = text}
static const orr_field class_fields[] = {
    WORD(software, "Name of the software profile."),
    WORD(kind, "dense or moe."),
    WORD(arch, "Architecture of the accelerator."),
    WORD(scaling, "none, or how a measured run is scaled: weak, strong."),
    {.name = "rows",
     .type = ORR_FIELD_U32,
     .offset = CLASS_AT(rows),
     .doc = "Published runs in the class."},
    {.name = "low_ratio",
     .type = ORR_FIELD_REAL,
     .offset = CLASS_AT(low_ratio),
     .min = 1e-3,
     .max = 1,
     .doc = "Measured by projected below which 5 % of them lie."},
    {.name = "high_ratio",
     .type = ORR_FIELD_REAL,
     .offset = CLASS_AT(high_ratio),
     .min = 1,
     .max = 1e3,
     .doc = "Measured by projected above which 5 % of them lie."},
};
static const orr_schema class_schema = {"class of residuals", class_fields,
                                        sizeof class_fields / sizeof *class_fields, false};

static const orr_field device_fields[] = {
    {.name = "name",
     .type = ORR_FIELD_TEXT,
     .offset = offsetof(device_rows, name),
     .doc = "Catalog name of the accelerator."},
    {.name = "rows",
     .type = ORR_FIELD_U32,
     .offset = offsetof(device_rows, rows),
     .doc = "Published runs on it."},
};
static const orr_schema device_schema = {"device", device_fields,
                                         sizeof device_fields / sizeof *device_fields, false};

/* So that looking for a class compares no text but that of the one found. */
static uint64_t hash_words(const char *software, const char *kind, const char *arch,
                           const char *scaling) {
    const char *const word[] = {software, kind, arch, scaling};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
        hash = hash * 0x9e3779b97f4a7c15u + orr_hash(word[i], strlen(word[i]));
    }
    return hash;
}

orr_status orr_residuals_read(orr_arena *arena, const orr_tree *file, orr_residuals **out,
                              orr_err *err) {
    const orr_tree *classes = orr_tree_get(file, "classes");
    const orr_tree *devices = orr_tree_get(file, "devices");
    orr_residuals *residuals = ORR_NEW(arena, orr_residuals);
    if (orr_tree_size(classes) > MAX_CLASSES || orr_tree_size(devices) > MAX_DEVICES) {
        return orr_fail_at(err, ORR_E_LIMIT, orr_tree_span(file),
                           "residuals have at most %d classes and %d devices", MAX_CLASSES,
                           MAX_DEVICES);
    }
    for (size_t i = 0; i < orr_tree_size(classes); i++) {
        residual_class *one = &residuals->class[residuals->class_count++];
        ORR_TRY(orr_schema_read(&class_schema, arena, orr_tree_at(classes, i), one, NULL, err));
        one->words = hash_words(one->software, one->kind, one->arch, one->scaling);
    }
    for (size_t i = 0; i < orr_tree_size(devices); i++) {
        ORR_TRY(orr_schema_read(&device_schema, arena, orr_tree_at(devices, i),
                                &residuals->device[residuals->device_count++], NULL, err));
    }
    *out = residuals;
    return ORR_OK;
}

orr_status orr_residuals_builtin(orr_arena *arena, orr_residuals **out, orr_err *err) {
    for (const orr_embedded *file = orr_embedded_files; file->path != NULL; file++) {
        if (strcmp(file->path, "residuals/published.yaml") == 0) {
            orr_tree *root = NULL;
            ORR_TRY(orr_yaml_read(arena, file->path, file->bytes, file->length, &root, err));
            return orr_residuals_read(arena, root, out, err);
        }
    }
    return orr_fail(err, ORR_E_INTERNAL, "residuals/published.yaml is not built in");
}

static const residual_class *find_class(const orr_residuals *residuals, const char *software,
                                        const char *kind, const char *arch, const char *scaling) {
    uint64_t words = hash_words(software, kind, arch, scaling);
    for (uint32_t i = 0; i < residuals->class_count; i++) {
        const residual_class *one = &residuals->class[i];
        if (one->words == words && strcmp(one->software, software) == 0 &&
            strcmp(one->kind, kind) == 0 && strcmp(one->arch, arch) == 0 &&
            strcmp(one->scaling, scaling) == 0) {
            return one;
        }
    }
    return NULL;
}

static const residual_class *nearest_class(const orr_residuals *residuals, const char *software,
                                           const char *kind, const char *arch,
                                           const char *scaling) {
    const residual_class *one = find_class(residuals, software, kind, arch, scaling);
    one = one != NULL ? one : find_class(residuals, software, kind, "any", scaling);
    one = one != NULL ? one : find_class(residuals, software, "any", "any", scaling);
    if (one == NULL && strcmp(scaling, "none") != 0) {
        one = find_class(residuals, "any", kind, "any", scaling);
        one = one != NULL ? one : find_class(residuals, "any", "any", "any", scaling);
    }
    return one;
}

static bool few_rows(const orr_residuals *residuals, const char *device) {
    for (uint32_t i = 0; i < residuals->device_count; i++) {
        if (strcmp(residuals->device[i].name, device) == 0) {
            return residuals->device[i].rows < FEW_ROWS;
        }
    }
    return true;
}

static const char *kind_of(const orr_model *model) {
    for (uint32_t k = 0; k < model->kind_count; k++) {
        if (model->kind[k].mlp.experts > 0) {
            return "moe";
        }
    }
    return "dense";
}

/* What the profile itself says, no narrower than what the prices admit. */
static residual_class class_of_profile(const orr_software *software, const char *kind,
                                       const char *scaling, double model_frac) {
    double half = strcmp(scaling, "none") != 0 ? software->interval_anchored_frac
                  : strcmp(kind, "moe") == 0   ? software->interval_moe_frac
                                               : software->interval_dense_frac;
    half = strcmp(scaling, "none") != 0 ? half : orr_max_f64(half, ORR_HALF_90_SD * model_frac);
    return (residual_class){.low_ratio = 1 / (1 + half), .high_ratio = 1 + half};
}

void orr_residuals_interval(const orr_residuals *residuals, const orr_resolved *resolved,
                            double model_frac, const char *scaling, double *low_ratio,
                            double *high_ratio) {
    const orr_accelerator *accelerator = resolved->cluster->accelerator;
    const char *kind = kind_of(resolved->model);
    const residual_class *found =
        nearest_class(residuals, resolved->software->name, kind,
                      orr_arch_name((orr_arch)accelerator->arch), scaling);
    residual_class class =
        found != NULL ? *found : class_of_profile(resolved->software, kind, scaling, model_frac);
    /* A class has lived with the fabrics and models that its rows assume. */
    bool unproven = resolved->cluster->fabric->assumed || resolved->model->assumed;
    bool little = accelerator->assumed || few_rows(residuals, accelerator->name) ||
                  (found == NULL && unproven);
    if (little && strcmp(scaling, "none") == 0) {
        class.low_ratio = orr_min_f64(class.low_ratio, 1 / (1 + FEW_HALF_FRAC));
        class.high_ratio = orr_max_f64(class.high_ratio, 1 + FEW_HALF_FRAC);
    }
    *low_ratio = class.low_ratio;
    *high_ratio = class.high_ratio;
}
