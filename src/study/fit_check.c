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

static void write_errors(orr_arena *arena, orr_tree *map, double *errors, uint32_t count) {
    orr_tree_put_int(arena, map, "rows", count);
    orr_tree_put_real(arena, map, "median_abs_err", orr_median(errors, count));
    orr_tree_put_real(arena, map, "p90_abs_err", orr_quantile(errors, count, 0.9));
}

static uint32_t take_errors(const orr_fitting *f, double *errors, uint32_t at) {
    for (uint32_t i = 0; i < f->row_count; i++) {
        errors[at++] = fabs(orr_judged_error(f->row[i]));
    }
    return at;
}

static orr_status leave_series(orr_fitting *f, const orr_tree *stages,
                               const orr_study_request *request, orr_judged *rows, uint32_t count,
                               orr_tree *map, orr_err *err) {
    snapshot *before = ORR_NEW(f->arena, snapshot);
    bool *held = ORR_NEW_ARRAY(f->arena, bool, count);
    double *errors = ORR_NEW_ARRAY(f->arena, double, count);
    uint32_t n = 0;
    save(f, before);
    for (uint32_t fold = 0; fold < FOLDS; fold++) {
        for (uint32_t i = 0; i < count; i++) {
            held[i] = fold_of(rows[i].run) == fold;
        }
        f->held = held;
        ORR_TRY(orr_fit_stages(f, stages, request, rows, count, orr_tree_new_list(f->arena), err));
        choose_held(f, rows, count);
        ORR_TRY(orr_fit_project(f));
        n = take_errors(f, errors, n);
        restore(f, before);
    }
    f->held = NULL;
    write_errors(f->arena, map, errors, n);
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
}

static orr_status leave_profiles(orr_fitting *f, orr_judged *rows, uint32_t count, orr_tree *map,
                                 orr_err *err) {
    snapshot *before = ORR_NEW(f->arena, snapshot);
    double *all = ORR_NEW_ARRAY(f->arena, double, count);
    double *errors = ORR_NEW_ARRAY(f->arena, double, count);
    orr_software *usual = NULL;
    uint32_t n = 0;
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
        n = take_errors(f, all, n);
        orr_tree *one = orr_tree_put(f->arena, by, f->profile[p].name, orr_tree_new_map(f->arena));
        write_errors(f->arena, one, errors, take_errors(f, errors, 0));
        restore(f, before);
    }
    write_errors(f->arena, map, all, n);
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
