/* Reading calibration files, and what is said of all fits once they are read. */
#include <string.h>

#include "base/embedded.h"
#include "base/err.h"
#include "base/num.h"
#include "base/text.h"
#include "cost/calibration_int.h"
#include "doc/doc.h"

static void *place_of(const orr_fit_list *list, orr_calibration *into, uint32_t index) {
    return (char *)into + list->at + index * list->record_bytes;
}

static void set_count(const orr_fit_list *list, orr_calibration *into, uint32_t count) {
    memcpy((char *)into + list->count_at, &count, sizeof count);
}

static orr_status add_fit(orr_arena *arena, const orr_fit_list *list, const orr_tree *record,
                          orr_calibration *into, orr_err *err) {
    uint32_t count = orr_fit_count(list, into);
    if (count == ORR_MAX_FITS) {
        return orr_fail_at(err, ORR_E_LIMIT, orr_tree_span(record), "more than %d of %s",
                           (int)ORR_MAX_FITS, list->schema->title);
    }
    orr_fit *fit = place_of(list, into, count);
    ORR_TRY(orr_schema_read(list->schema, arena, record, fit, NULL, err));
    set_count(list, into, count + 1);
    if (fit->surface_text != NULL) {
        orr_surface *surface = NULL;
        orr_span at = orr_tree_span(orr_tree_get(record, "surface"));
        ORR_TRY(orr_surface_read(arena, fit->surface_text, at, &surface, err));
        fit->surface = surface;
    }
    if (fit->spread_text != NULL) {
        orr_surface *spread = NULL;
        orr_span at = orr_tree_span(orr_tree_get(record, "spread"));
        ORR_TRY(orr_surface_read(arena, fit->spread_text, at, &spread, err));
        fit->spread = spread;
    }
    if (fit->cover_text != NULL) {
        orr_span at = orr_tree_span(orr_tree_get(record, "covers"));
        ORR_TRY(orr_cover_read(fit->cover_text, at, &fit->cover, err));
    }
    return ORR_OK;
}

static orr_status add_arch(orr_arena *arena, const orr_tree *record, orr_calibration *into,
                           orr_err *err) {
    if (into->arch_count == ORR_ARCH_COUNT) {
        return orr_fail_at(err, ORR_E_LIMIT, orr_tree_span(record),
                           "more than one record an architecture");
    }
    orr_arch_fit *fit = &into->arch[into->arch_count];
    ORR_TRY(orr_schema_read(&orr_arch_schema, arena, record, fit, NULL, err));
    for (uint32_t i = 0; i < into->arch_count; i++) {
        if (into->arch[i].arch == fit->arch) {
            return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(record),
                               "architecture %s is described twice",
                               orr_arch_name((orr_arch)fit->arch));
        }
    }
    into->arch_count++;
    return ORR_OK;
}

static orr_status add_left_out(orr_arena *arena, const orr_tree *record, orr_calibration *into,
                               orr_err *err) {
    if (into->left_out_count == ORR_MOST_LEFT_OUT) {
        return orr_fail_at(err, ORR_E_LIMIT, orr_tree_span(record), "more than %d devices left out",
                           (int)ORR_MOST_LEFT_OUT);
    }
    return orr_schema_read(&orr_left_out_schema, arena, record,
                           &into->left_out[into->left_out_count++], NULL, err);
}

static orr_status add_likeness(orr_arena *arena, const orr_tree *record, orr_calibration *into,
                               orr_err *err) {
    orr_likeness_fit fit = {0};
    ORR_TRY(orr_schema_read(&orr_likeness_schema, arena, record, &fit, NULL, err));
    const orr_likeness *l = &fit.likeness;
    if (l->level + l->smooth + l->rough > 1) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(record),
                           "the shares of a likeness add up to more than 1");
    }
    into->likeness[fit.kind] = fit.likeness;
    return ORR_OK;
}

static orr_status add_transfer(orr_arena *arena, const orr_tree *record, orr_calibration *into,
                               orr_err *err) {
    if (into->transfer.source != NULL) {
        return orr_fail_at(err, ORR_E_LIMIT, orr_tree_span(record), "more than one transfer");
    }
    return orr_schema_read(&orr_transfer_schema, arena, record, &into->transfer, NULL, err);
}

typedef orr_status record_reader(orr_arena *, const orr_tree *, orr_calibration *, orr_err *);

/* Of records that are no fits; NULL: of no class. */
static record_reader *reader_of(const char *class) {
    static const struct {
        const char *class;
        record_reader *add;
    } readers[] = {{"architecture", add_arch},
                   {"transfer", add_transfer},
                   {"likeness", add_likeness},
                   {"left_out", add_left_out}};
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        if (strcmp(class, readers[i].class) == 0) {
            return readers[i].add;
        }
    }
    return NULL;
}

orr_status orr_calibration_add(orr_arena *arena, const orr_tree *file, orr_calibration *into,
                               orr_err *err) {
    const orr_tree *name = orr_tree_get(file, "class");
    const char *class = orr_tree_text(name, "");
    if (strcmp(class, "devices") == 0) {
        return orr_devices_add(arena, file, into, err);
    }
    const orr_tree *fits = orr_tree_get(file, "fits");
    if (orr_tree_kind_of(fits) != ORR_TREE_LIST) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(file),
                           "a calibration file needs a list \"fits\"");
    }
    const orr_fit_list *list = orr_fit_list_of(class);
    record_reader *add = reader_of(class);
    if (list == NULL && add == NULL) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(name ? name : file),
                           "unknown class \"%s\" of a calibration file, expected gemm, attention, "
                           "memops, grouped_gemm, moe_fused, ep_alltoall, collectives, "
                           "architecture, transfer, likeness, left_out or devices",
                           class);
    }
    for (size_t r = 0; r < orr_tree_size(fits); r++) {
        const orr_tree *record = orr_tree_at(fits, r);
        ORR_TRY(list != NULL ? add_fit(arena, list, record, into, err)
                             : add(arena, record, into, err));
    }
    return ORR_OK;
}

/* Adds the built-in files of a folder of data/ (not of folders inside it). */
static orr_status add_folder(orr_arena *arena, const char *folder, orr_calibration *into,
                             orr_err *err) {
    size_t length = strlen(folder);
    for (size_t i = 0; i < orr_embedded_count; i++) {
        const orr_embedded *file = &orr_embedded_files[i];
        if (strncmp(file->path, folder, length) == 0 && !strchr(file->path + length, '/')) {
            orr_tree *tree = NULL;
            ORR_TRY(orr_doc_read(arena, file->path, file->bytes, file->length, &tree, err));
            ORR_TRY(orr_calibration_add(arena, tree, into, err));
        }
    }
    return ORR_OK;
}

/* Measurements of a device over all fits of a list. */
static uint32_t rows_of(const orr_fit_list *list, const orr_calibration *calibration,
                        const char *device) {
    uint32_t rows = 0, count = orr_fit_count(list, calibration);
    for (uint32_t i = 0; i < count; i++) {
        const orr_fit *fit = orr_fit_at(list, calibration, i);
        rows += strcmp(fit->device, device) == 0 ? fit->rows : 0;
    }
    return rows;
}

/* whole: all files are read; else attention's is a part, which tells nothing of its rows. */
static void mark_thin(orr_calibration *into, bool whole) {
    for (size_t l = 0; l < ORR_FIT_LISTS; l++) {
        const orr_fit_list *list = &orr_fit_lists[l];
        if (!whole && strcmp(list->class[0], "attention") == 0) {
            continue;
        }
        for (uint32_t i = 0; i < orr_fit_count(list, into); i++) {
            orr_fit *fit = place_of(list, into, i);
            if (rows_of(list, into, fit->device) < ORR_THIN_ROWS) {
                fit->assumed = 1;
                fit->error_small_frac = orr_max_f64(fit->error_small_frac, ORR_THIN_RELERR);
                fit->error_training_frac = orr_max_f64(fit->error_training_frac, ORR_THIN_RELERR);
            }
        }
    }
}

orr_status orr_calibration_builtin(orr_arena *arena, orr_calibration **out, orr_err *err) {
    orr_calibration *calibration = ORR_NEW(arena, orr_calibration);
    ORR_TRY(add_folder(arena, "calibration/", calibration, err));
    mark_thin(calibration, false);
    *out = calibration;
    return ORR_OK;
}

/* Each device once: a file holds dozens of fits of it. */
typedef struct sheets {
    uint32_t count;
    struct {
        const char *device;
        const orr_accelerator *accelerator; /* NULL: not in the catalog */
    } of[64];
} sheets;

static const orr_accelerator *sheet_of(orr_arena *arena, sheets *known, const char *device) {
    for (uint32_t i = 0; i < known->count; i++) {
        if (strcmp(known->of[i].device, device) == 0) {
            return known->of[i].accelerator;
        }
    }
    orr_accelerator *found = NULL;
    (void)orr_accelerator_find(arena, device, &found, NULL);
    if (known->count < sizeof known->of / sizeof *known->of) {
        known->of[known->count].device = device;
        known->of[known->count++].accelerator = found;
    }
    return found;
}

static void look_up_sheet(orr_arena *arena, sheets *known, orr_fit *fit) {
    const orr_accelerator *sheet = sheet_of(arena, known, fit->device);
    if (sheet != NULL) {
        fit->fp4_flops = sheet->peak_flops[ORR_NVFP4];
        fit->bf16_flops = sheet->peak_flops[ORR_BF16];
        fit->clock_hz = sheet->clock_hz;
        fit->l2_bytes = sheet->l2_bytes;
        fit->scale_up_Bps = sheet->link_Bps;
        fit->domain = sheet->domain;
        fit->node = sheet->node;
        fit->exp_per_clock = sheet->exp_per_clock;
    }
}

static void look_up_sheets(orr_arena *arena, orr_calibration *into) {
    sheets known = {0};
    for (size_t l = 0; l < ORR_FIT_LISTS; l++) {
        const orr_fit_list *list = &orr_fit_lists[l];
        for (uint32_t i = 0; list->on_sheet && i < orr_fit_count(list, into); i++) {
            look_up_sheet(arena, &known, place_of(list, into, i));
        }
    }
}

orr_status orr_calibration_kernels(orr_arena *arena, orr_calibration *into, orr_err *err) {
    ORR_TRY(add_folder(arena, "calibration/kernels/", into, err));
    mark_thin(into, true);
    look_up_sheets(arena, into);
    return ORR_OK;
}

orr_status orr_calibration_folder(orr_arena *arena, const char *folder, orr_calibration **out,
                                  orr_err *err) {
    static const char HERE[] = "calibration/";
    orr_calibration *calibration = ORR_NEW(arena, orr_calibration);
    for (size_t i = 0; i < orr_embedded_count; i++) {
        const char *path = orr_embedded_files[i].path;
        if (strncmp(path, HERE, sizeof HERE - 1) == 0) {
            const char *file = orr_arena_format(arena, "%s/%s", folder, path + sizeof HERE - 1);
            orr_tree *tree = NULL;
            ORR_TRY(orr_doc_read_file(arena, file, &tree, err));
            ORR_TRY(orr_calibration_add(arena, tree, calibration, err));
        }
    }
    mark_thin(calibration, true);
    look_up_sheets(arena, calibration);
    *out = calibration;
    return ORR_OK;
}

orr_calibration *orr_calibration_without(orr_arena *arena, const orr_calibration *from,
                                         const char *device) {
    orr_calibration *out = ORR_NEW(arena, orr_calibration);
    *out = *from;
    for (size_t l = 0; l < ORR_FIT_LISTS; l++) {
        const orr_fit_list *list = &orr_fit_lists[l];
        uint32_t kept = 0;
        for (uint32_t i = 0; i < orr_fit_count(list, from); i++) {
            const orr_fit *fit = orr_fit_at(list, from, i);
            if (!orr_name_equal(fit->device, device)) {
                memcpy(place_of(list, out, kept++), fit, list->record_bytes);
            }
        }
        set_count(list, out, kept);
    }
    return out;
}
