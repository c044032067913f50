/* How a fit does on what it has not seen.
 *
 * Series: runs of one source, model, accelerator, count, sequence, batch and precision are left out
 * together, a fifth of all series at a time; the rest is fitted, starting from the files' numbers.
 * Profiles: one at a time keeps its switches, and each of its free numbers becomes that of unknown
 * software. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "study/fit_int.h"

enum { FOLDS = 5, LEAST_ROWS = 10 };

/* ---- numbers as they were ------------------------------------------------------------------- */

typedef struct snapshot {
    orr_software profile[ORR_FIT_MAX_PROFILES];
    orr_fabric fabric[ORR_FIT_MAX_FABRICS];
    orr_arch_fit arch[ORR_ARCH_COUNT];
} snapshot;

static void save(const orr_fitting *f, snapshot *s) {
    for (uint32_t i = 0; i < f->profile_count; i++) {
        s->profile[i] = *f->profile[i].profile;
    }
    for (uint32_t i = 0; i < f->fabric_count; i++) {
        s->fabric[i] = *f->fabric[i].fabric;
    }
    memcpy(s->arch, f->calibration->arch, sizeof s->arch);
}

static void restore(orr_fitting *f, const snapshot *s) {
    for (uint32_t i = 0; i < f->profile_count; i++) {
        *f->profile[i].profile = s->profile[i];
    }
    for (uint32_t i = 0; i < f->fabric_count; i++) {
        *f->fabric[i].fabric = s->fabric[i];
    }
    memcpy(f->calibration->arch, s->arch, sizeof s->arch);
}

/* ---- series --------------------------------------------------------------------------------- */

static uint32_t fold_of(const orr_run *run) {
    uint64_t hash = orr_hash(run->source, strlen(run->source));
    const char *const texts[] = {run->model, run->gpu, run->precision};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        hash = hash * 31 + orr_hash(texts[i], strlen(texts[i]));
    }
    const double numbers[] = {run->num_gpus, run->seq_len, run->gbs};
    hash = hash * 31 + orr_hash(numbers, sizeof numbers);
    return (uint32_t)(hash % FOLDS);
}

static void choose_held(orr_fitting *f, orr_judged *rows, uint32_t count) {
    f->row_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (f->held[i] && rows[i].counts && rows[i].skipped == NULL) {
            f->row[f->row_count++] = &rows[i];
        }
    }
}

/* What is held against a set of rows. */
typedef struct sample {
    double *error, *width;
    uint32_t count, covered;
} sample;

static sample new_sample(orr_arena *arena, uint32_t most) {
    return (sample){ORR_NEW_ARRAY(arena, double, most), ORR_NEW_ARRAY(arena, double, most), 0, 0};
}

static void write_sample(orr_arena *arena, orr_tree *map, const sample *s) {
    orr_tree_put_int(arena, map, "rows", s->count);
    orr_tree_put_real(arena, map, "median_abs_err", orr_median(s->error, s->count));
    orr_tree_put_real(arena, map, "p90_abs_err", orr_quantile(s->error, s->count, 0.9));
    orr_tree_put_real(arena, map, "coverage_90", s->count > 0 ? (double)s->covered / s->count : 0);
    orr_tree_put_real(arena, map, "width_90", orr_median(s->width, s->count));
}

static void add_rows(const orr_fitting *f, const char *kind, sample *s) {
    for (uint32_t i = 0; i < f->row_count; i++) {
        const orr_judged *row = f->row[i];
        if (kind != NULL && strcmp(row->kind, kind) != 0) {
            continue;
        }
        s->error[s->count] = fabs(orr_judged_error(row));
        s->width[s->count++] = (row->high - row->low) / row->projected;
        s->covered += row->low <= row->measured && row->measured <= row->high;
    }
}

static orr_status leave_series(orr_fitting *f, const orr_tree *stages,
                               const orr_study_request *request, orr_judged *rows, uint32_t count,
                               orr_tree *map, orr_err *err) {
    snapshot *before = ORR_NEW(f->arena, snapshot);
    bool *held = ORR_NEW_ARRAY(f->arena, bool, count);
    sample seen = new_sample(f->arena, count);
    save(f, before);
    for (uint32_t fold = 0; fold < FOLDS; fold++) {
        for (uint32_t i = 0; i < count; i++) {
            held[i] = fold_of(rows[i].run) == fold;
        }
        f->held = held;
        ORR_TRY(orr_fit_stages(f, stages, request, rows, count, orr_tree_new_list(f->arena), err));
        choose_held(f, rows, count);
        ORR_TRY(orr_fit_project(f));
        add_rows(f, NULL, &seen);
        restore(f, before);
    }
    f->held = NULL;
    write_sample(f->arena, map, &seen);
    return ORR_OK;
}

/* ---- profiles ------------------------------------------------------------------------------- */

static void default_numbers(orr_software *profile, orr_software *usual) {
    for (size_t i = 0; i < orr_tree_size(profile->evidence); i++) {
        const char *name = orr_tree_key(profile->evidence, i);
        double value = 0;
        if (orr_software_is_free(profile, name, &value)) {
            *orr_software_number(profile, name) = *orr_software_number(usual, name);
        }
    }
    /* and its intervals */
    profile->name = usual->name;
    profile->known = usual->known;
    profile->interval_dense_frac = usual->interval_dense_frac;
    profile->interval_moe_frac = usual->interval_moe_frac;
    profile->interval_host_frac = usual->interval_host_frac;
}

static orr_status leave_profiles(orr_fitting *f, orr_judged *rows, uint32_t count, orr_tree *map,
                                 orr_err *err) {
    snapshot *before = ORR_NEW(f->arena, snapshot);
    static const char *const kinds[] = {NULL, "dense", "moe"};
    sample all[3];
    for (int k = 0; k < 3; k++) {
        all[k] = new_sample(f->arena, count);
    }
    orr_software *usual = NULL;
    ORR_TRY(orr_software_find(f->arena, "unknown", &usual, err));
    save(f, before);
    orr_tree *by = orr_tree_new_map(f->arena);
    for (uint32_t p = 0; p < f->profile_count; p++) {
        f->row_count = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (rows[i].counts && rows[i].skipped == NULL &&
                rows[i].resolved->software == f->profile[p].profile) {
                f->row[f->row_count++] = &rows[i];
            }
        }
        if (f->row_count < LEAST_ROWS) {
            continue;
        }
        default_numbers(f->profile[p].profile, usual);
        ORR_TRY(orr_fit_project(f));
        sample own = new_sample(f->arena, f->row_count);
        add_rows(f, NULL, &own);
        for (int k = 0; k < 3; k++) {
            add_rows(f, kinds[k], &all[k]);
        }
        orr_tree *one = orr_tree_put(f->arena, by, f->profile[p].name, orr_tree_new_map(f->arena));
        write_sample(f->arena, one, &own);
        restore(f, before);
    }
    write_sample(f->arena, map, &all[0]);
    for (int k = 1; k < 3; k++) {
        write_sample(f->arena, orr_tree_put(f->arena, map, kinds[k], orr_tree_new_map(f->arena)),
                     &all[k]);
    }
    (void)orr_tree_put(f->arena, map, "by", by);
    return ORR_OK;
}

orr_status orr_fit_check(orr_fitting *f, const orr_tree *stages, const orr_study_request *request,
                         orr_judged *rows, uint32_t count, orr_tree *map, orr_err *err) {
    orr_tree *left = orr_tree_put(f->arena, map, "left_out", orr_tree_new_map(f->arena));
    orr_tree *series = orr_tree_put(f->arena, left, "series", orr_tree_new_map(f->arena));
    orr_tree *profiles = orr_tree_put(f->arena, left, "profiles", orr_tree_new_map(f->arena));
    ORR_TRY(leave_profiles(f, rows, count, profiles, err));
    return leave_series(f, stages, request, rows, count, series, err);
}
