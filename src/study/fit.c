/* Fits the numbers of software profiles, architectures and fabrics that no document states to
 * published runs.
 *
 * data/study/fit.yaml lists stages: which rows, which parameters, and between what bounds. A stage
 * minimises a robust norm of ln(projected/measured) over its rows (pseudo-Huber, 4 %), with a weak
 * pull to the values the files hold, by MINPACK's Levenberg-Marquardt; bounds are kept by a
 * logistic map. Parameters are global to a profile, an architecture or a fabric; none belongs to a
 * model, row or source. The same inputs give the same bytes. */
#include <cminpack.h>
#include <math.h>
#include <string.h>

#include "base/embedded.h"
#include "base/err.h"
#include "base/text.h"
#include "cost/calibration.h"
#include "doc/doc.h"
#include "software/software.h"
#include "study/fit_int.h"

enum { EVALUATIONS = 400 };
static const double HUBER = 0.04, PULL = 0.05;

/* ---- parameters ----------------------------------------------------------------------------- */

static double logistic(const orr_fit_parameter *p, double u) {
    return p->low + (p->high - p->low) / (1 + exp(-u));
}

static double logit(const orr_fit_parameter *p, double value) {
    double share = (value - p->low) / (p->high - p->low);
    share = share < 0.01 ? 0.01 : share > 0.99 ? 0.99 : share;
    return log(share / (1 - share));
}

static void assign(const orr_fit_parameter *p, double value) {
    for (uint32_t i = 0; i < p->target_count; i++) {
        *p->target[i] = value;
    }
}

/* ---- residuals ------------------------------------------------------------------------------ */

static double robust(double r) {
    double size = sqrt(2 * (sqrt(1 + (r / HUBER) * (r / HUBER)) - 1)) * HUBER;
    return r < 0 ? -size : size;
}

orr_status orr_fit_project(orr_fitting *f) {
    orr_engine *engine = orr_engine_with(f->calibration);
    orr_arena *arena = orr_arena_new();
    orr_status status = ORR_OK;
    for (uint32_t i = 0; i < f->row_count && status == ORR_OK; i++) {
        orr_projection projection;
        orr_arena_reset(arena);
        status = orr_project(engine, arena, f->row[i]->resolved, NULL, &projection, f->err);
        f->row[i]->projected = projection.tokens_per_s_per_gpu;
        f->row[i]->low = projection.low;
        f->row[i]->high = projection.high;
    }
    orr_arena_free(arena);
    orr_engine_free(engine);
    return status;
}

static int residuals(void *user, int count, int n, const double *u, double *out, int flag) {
    (void)flag;
    orr_fitting *f = (orr_fitting *)user;
    for (int k = 0; k < n; k++) {
        assign(&f->parameter[k], logistic(&f->parameter[k], u[k]));
    }
    f->status = orr_fit_project(f);
    if (f->status != ORR_OK) {
        return -1;
    }
    for (uint32_t i = 0; i < f->row_count; i++) {
        out[i] = robust(log(f->row[i]->projected / f->row[i]->measured));
    }
    for (int k = 0; k < n; k++) {
        out[count - n + k] = PULL * (u[k] - logit(&f->parameter[k], f->parameter[k].start));
    }
    return 0;
}

static orr_status minimise(orr_fitting *f) {
    int n = (int)f->parameter_count, m = (int)(f->row_count + f->parameter_count);
    double *u = ORR_NEW_ARRAY(f->arena, double, (size_t)n);
    double *out = ORR_NEW_ARRAY(f->arena, double, (size_t)m);
    double *diag = ORR_NEW_ARRAY(f->arena, double, (size_t)n);
    double *jacobian = ORR_NEW_ARRAY(f->arena, double, (size_t)n *(size_t)m);
    double *qtf = ORR_NEW_ARRAY(f->arena, double, (size_t)n);
    double *work = ORR_NEW_ARRAY(f->arena, double, 3 * (size_t)n + (size_t)m);
    int *pivot = ORR_NEW_ARRAY(f->arena, int, (size_t)n), evaluations = 0;
    for (int k = 0; k < n; k++) {
        u[k] = logit(&f->parameter[k], f->parameter[k].start);
    }
    /* Prices are continuous but kinked (floors, best tiles): a coarse step sees the slope. */
    (void)lmdif(residuals, f, m, n, u, out, 1e-5, 1e-5, 0, EVALUATIONS, 1e-4, diag, 1, 10, 0,
                &evaluations, jacobian, m, pivot, qtf, work, work + n, work + 2 * n, work + 3 * n);
    if (f->status != ORR_OK) {
        return f->status;
    }
    for (int k = 0; k < n; k++) {
        f->parameter[k].value = logistic(&f->parameter[k], u[k]);
        assign(&f->parameter[k], f->parameter[k].value);
    }
    return orr_fit_project(f);
}

/* ---- stages --------------------------------------------------------------------------------- */

static bool listed(const orr_tree *list, const char *name) {
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        if (strcmp(orr_tree_text(orr_tree_at(list, i), ""), name) == 0) {
            return true;
        }
    }
    return false;
}

static orr_software *profile_of(orr_fitting *f, const orr_software *software) {
    for (uint32_t i = 0; i < f->profile_count; i++) {
        if (strcmp(f->profile[i].name, software->name) == 0 &&
            f->profile[i].profile->graphs == software->graphs) {
            return f->profile[i].profile;
        }
    }
    if (f->profile_count == ORR_FIT_MAX_PROFILES) {
        return NULL;
    }
    orr_software *copy = ORR_NEW(f->arena, orr_software);
    *copy = *software;
    f->profile[f->profile_count].name = software->name;
    f->profile[f->profile_count++].profile = copy;
    return copy;
}

static orr_fabric *fabric_of(orr_fitting *f, const orr_fabric *fabric) {
    for (uint32_t i = 0; i < f->fabric_count; i++) {
        if (strcmp(f->fabric[i].name, fabric->name) == 0) {
            return f->fabric[i].fabric;
        }
    }
    if (f->fabric_count == ORR_FIT_MAX_FABRICS) {
        return NULL;
    }
    orr_fabric *copy = ORR_NEW(f->arena, orr_fabric);
    *copy = *fabric;
    f->fabric[f->fabric_count].name = fabric->name;
    f->fabric[f->fabric_count++].fabric = copy;
    return copy;
}

/* Rows whose profile (and, if named, kind and architecture) the stage lists. */
static void choose_rows(orr_fitting *f, const orr_tree *stage, orr_judged *rows, uint32_t count) {
    const orr_tree *profiles = orr_tree_path(stage, "rows.software");
    const orr_tree *archs = orr_tree_path(stage, "rows.arch");
    const char *kind = orr_tree_text(orr_tree_path(stage, "rows.kind"), NULL);
    f->row_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].skipped != NULL || !rows[i].counts || (f->held != NULL && f->held[i])) {
            continue;
        }
        const char *arch = orr_arch_name((orr_arch)rows[i].resolved->cluster->accelerator->arch);
        if (listed(profiles, rows[i].software) && (archs == NULL || listed(archs, arch)) &&
            (kind == NULL || strcmp(kind, rows[i].kind) == 0)) {
            f->row[f->row_count++] = &rows[i];
        }
    }
}

static orr_status bad_stage(const orr_tree *node, const char *what, orr_err *err) {
    return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(node), "%s", what);
}

static orr_status add_profile_targets(orr_fitting *f, const orr_tree *node, orr_fit_parameter *p,
                                      orr_err *err) {
    const orr_tree *profiles = orr_tree_get(node, "profiles");
    p->file = orr_arena_format(f->arena, "software/%s.yaml",
                               orr_tree_text(orr_tree_get(node, "in"), "?"));
    for (uint32_t i = 0; i < f->profile_count; i++) {
        if (listed(profiles, f->profile[i].name)) {
            p->target[p->target_count++] = orr_software_number(f->profile[i].profile, p->field);
        }
    }
    for (uint32_t i = 0; i < p->target_count; i++) {
        if (p->target[i] == NULL) {
            return bad_stage(node, "no such number in a software profile", err);
        }
    }
    return ORR_OK;
}

static orr_status add_fabric_target(orr_fitting *f, const orr_tree *node, orr_fit_parameter *p,
                                    orr_err *err) {
    const char *name = orr_tree_text(orr_tree_get(node, "fabric"), "?");
    p->file = orr_arena_format(f->arena, "fabrics/%s.yaml", name);
    for (uint32_t i = 0; i < f->fabric_count; i++) {
        if (strcmp(f->fabric[i].name, name) == 0) {
            p->target[p->target_count++] = orr_fabric_number(f->fabric[i].fabric, p->field);
        }
    }
    return p->target_count == 0 || p->target[0] != NULL
               ? ORR_OK
               : bad_stage(node, "no such number of a fabric", err);
}

static orr_status add_arch_target(orr_fitting *f, const orr_tree *node, orr_fit_parameter *p,
                                  orr_err *err) {
    p->file = orr_tree_text(orr_tree_get(node, "arch"), "?");
    for (uint32_t i = 0; i < f->calibration->arch_count; i++) {
        orr_arch_fit *arch = &f->calibration->arch[i];
        if (strcmp(orr_arch_name((orr_arch)arch->arch), p->file) == 0) {
            p->target[p->target_count++] = orr_arch_number(arch, p->field);
        }
    }
    return p->target_count == 1 && p->target[0] != NULL
               ? ORR_OK
               : bad_stage(node, "no such number of an architecture", err);
}

static orr_status add_target(orr_fitting *f, const orr_tree *node, orr_fit_parameter *p,
                             orr_err *err) {
    if (orr_tree_get(node, "arch") != NULL) {
        return add_arch_target(f, node, p, err);
    }
    return orr_tree_get(node, "fabric") != NULL ? add_fabric_target(f, node, p, err)
                                                : add_profile_targets(f, node, p, err);
}

static orr_status read_parameters(orr_fitting *f, const orr_tree *stage, orr_err *err) {
    const orr_tree *list = orr_tree_get(stage, "parameters");
    f->parameter = ORR_NEW_ARRAY(f->arena, orr_fit_parameter, ORR_FIT_MAX_PARAMETERS);
    f->parameter_count = 0;
    if (orr_tree_size(list) > ORR_FIT_MAX_PARAMETERS) {
        return bad_stage(list, "too many parameters in one stage", err);
    }
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *node = orr_tree_at(list, i);
        orr_fit_parameter *p = &f->parameter[f->parameter_count];
        p->field = orr_tree_text(orr_tree_get(node, "field"), "?");
        p->low = orr_tree_real(orr_tree_get(node, "low"), 0);
        p->high = orr_tree_real(orr_tree_get(node, "high"), 1);
        ORR_TRY(add_target(f, node, p, err));
        if (p->target_count > 0) {
            p->start = *p->target[0];
            f->parameter_count++;
        }
    }
    return ORR_OK;
}

static orr_tree *errors_of(orr_fitting *f) {
    const orr_judged **rows = ORR_NEW_ARRAY(f->arena, const orr_judged *, f->row_count + 1);
    for (uint32_t i = 0; i < f->row_count; i++) {
        rows[i] = f->row[i];
    }
    return orr_summarise(f->arena, rows, f->row_count);
}

static orr_status run_stage(orr_fitting *f, const orr_tree *stage, orr_judged *rows, uint32_t count,
                            orr_tree *out, orr_err *err) {
    choose_rows(f, stage, rows, count);
    ORR_TRY(read_parameters(f, stage, err));
    orr_tree *map = orr_tree_push(f->arena, out, orr_tree_new_map(f->arena));
    orr_tree_put_text(f->arena, map, "stage", orr_tree_text(orr_tree_get(stage, "name"), "?"));
    if (f->row_count == 0 || f->parameter_count == 0) {
        orr_tree_put_int(f->arena, map, "rows", f->row_count);
        return ORR_OK;
    }
    ORR_TRY(orr_fit_project(f));
    (void)orr_tree_put(f->arena, map, "before", errors_of(f));
    ORR_TRY(minimise(f));
    (void)orr_tree_put(f->arena, map, "after", errors_of(f));
    orr_tree *list = orr_tree_put(f->arena, map, "parameters", orr_tree_new_list(f->arena));
    for (uint32_t k = 0; k < f->parameter_count; k++) {
        const orr_fit_parameter *p = &f->parameter[k];
        orr_tree *one = orr_tree_push(f->arena, list, orr_tree_new_map(f->arena));
        char digits[32];
        double rounded = 0;
        (void)snprintf(digits, sizeof digits, "%.3g", p->value);
        (void)orr_parse_real(digits, &rounded); /* three digits are more than the data can tell */
        assign(p, rounded);
        orr_tree_put_text(f->arena, one, "in", p->file);
        orr_tree_put_text(f->arena, one, "field", p->field);
        orr_tree_put_real(f->arena, one, "before", p->start);
        orr_tree_put_real(f->arena, one, "after", rounded);
        orr_tree_put_real(f->arena, one, "low", p->low);
        orr_tree_put_real(f->arena, one, "high", p->high);
    }
    return ORR_OK;
}

static orr_status read_stages(orr_arena *arena, const orr_tree **out, orr_err *err) {
    for (const orr_embedded *file = orr_embedded_files; file->path != NULL; file++) {
        if (strcmp(file->path, "study/fit.yaml") == 0) {
            orr_tree *root = NULL;
            ORR_TRY(orr_yaml_read(arena, file->path, file->bytes, file->length, &root, err));
            *out = orr_tree_get(root, "stages");
            return ORR_OK;
        }
    }
    return orr_fail(err, ORR_E_INTERNAL, "study/fit.yaml is not built in");
}

uint32_t orr_fit_machine_parameters(orr_arena *arena) {
    const orr_tree *stages = NULL;
    orr_err err = {0};
    uint32_t count = 0;
    if (read_stages(arena, &stages, &err) != ORR_OK) {
        return 0;
    }
    for (size_t s = 0; s < orr_tree_size(stages); s++) {
        const orr_tree *list = orr_tree_get(orr_tree_at(stages, s), "parameters");
        for (size_t i = 0; i < orr_tree_size(list); i++) {
            count += orr_tree_get(orr_tree_at(list, i), "profiles") == NULL;
        }
    }
    return count;
}

/* Rows get profiles and fabrics that the fit may change. */
static orr_status own_profiles(orr_fitting *f, orr_judged *rows, uint32_t count, orr_err *err) {
    f->row = ORR_NEW_ARRAY(f->arena, orr_judged *, count);
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].skipped == NULL) {
            orr_resolved *own = ORR_NEW(f->arena, orr_resolved);
            *own = *rows[i].resolved;
            own->software = profile_of(f, own->software);
            orr_cluster *cluster = ORR_NEW(f->arena, orr_cluster);
            *cluster = *own->cluster;
            cluster->fabric = fabric_of(f, cluster->fabric);
            own->cluster = cluster;
            if (own->software == NULL || cluster->fabric == NULL) {
                return orr_fail(err, ORR_E_LIMIT, "more than %d software profiles or %d fabrics",
                                ORR_FIT_MAX_PROFILES, ORR_FIT_MAX_FABRICS);
            }
            rows[i].resolved = own;
        }
    }
    return ORR_OK;
}

/* Errors of all rows that count, as the numbers stand. */
static orr_status put_overall(orr_fitting *f, orr_judged *rows, uint32_t count, orr_tree *map,
                              const char *key) {
    f->row_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].counts && rows[i].skipped == NULL) {
            f->row[f->row_count++] = &rows[i];
        }
    }
    ORR_TRY(orr_fit_project(f));
    orr_tree *summary = orr_tree_put(f->arena, map, key, errors_of(f));
    orr_tree_put_real(f->arena, summary, "macro_median", orr_macro_median(f->arena, rows, count));
    return ORR_OK;
}

static bool wanted(const orr_study_request *request, const orr_tree *stage) {
    const char *name = orr_tree_text(orr_tree_get(stage, "name"), "?");
    return request->stage == NULL || strcmp(request->stage, name) == 0;
}

orr_status orr_fit_stages(orr_fitting *f, const orr_tree *stages, const orr_study_request *request,
                          orr_judged *rows, uint32_t count, orr_tree *list, orr_err *err) {
    for (size_t i = 0; i < orr_tree_size(stages); i++) {
        if (wanted(request, orr_tree_at(stages, i))) {
            ORR_TRY(run_stage(f, orr_tree_at(stages, i), rows, count, list, err));
        }
    }
    return ORR_OK;
}

static orr_status check_stage(const orr_tree *stages, const orr_study_request *request,
                              orr_err *err) {
    enum { MOST = 64 };
    const char *names[MOST];
    size_t count = 0;
    for (size_t i = 0; i < orr_tree_size(stages); i++) {
        if (wanted(request, orr_tree_at(stages, i))) {
            return ORR_OK;
        }
        if (count < MOST) {
            names[count++] = orr_tree_text(orr_tree_get(orr_tree_at(stages, i), "name"), "?");
        }
    }
    orr_status status =
        orr_fail(err, ORR_E_NAME, "data/study/fit.yaml has no stage '%s'", request->stage);
    int nearest = orr_name_nearest(request->stage, names, count);
    if (nearest >= 0) {
        orr_hint(err, "did you mean '%s'?", names[nearest]);
    }
    return status;
}

static orr_status fit_all(orr_fitting *f, const orr_tree *stages, orr_curator *curator,
                          const orr_study_request *request, const orr_run_table *table,
                          orr_tree *map, orr_err *err) {
    orr_judged *rows = NULL;
    uint32_t count = table->count;
    orr_engine *engine = orr_engine_with(f->calibration);
    orr_status status = orr_judge_rows(engine, curator, f->arena, request, table, &rows, err);
    orr_engine_free(engine);
    ORR_TRY(status);
    ORR_TRY(own_profiles(f, rows, count, err));
    ORR_TRY(put_overall(f, rows, count, map, "before"));
    if (request->check) {
        return orr_fit_check(f, stages, request, rows, count, map, err);
    }
    (void)orr_tree_put(f->arena, map, "after", orr_tree_null(f->arena)); /* its place */
    orr_tree *list = orr_tree_put(f->arena, map, "stages", orr_tree_new_list(f->arena));
    ORR_TRY(orr_fit_stages(f, stages, request, rows, count, list, err));
    return put_overall(f, rows, count, map, "after");
}

orr_status orr_study_fit(orr_arena *arena, const orr_study_request *request, orr_tree **result,
                         orr_err *err) {
    orr_fitting f = {.arena = arena, .err = err};
    orr_run_table table;
    orr_curator curator;
    const orr_tree *stages = NULL;
    ORR_TRY(read_stages(arena, &stages, err));
    ORR_TRY(check_stage(stages, request, err));
    ORR_TRY(orr_calibration_builtin(arena, &f.calibration, err));
    ORR_TRY(orr_runs_read(arena, request->runs, request->tiers, &table, err));
    ORR_TRY(orr_curator_new(arena, request->models, &curator, err));
    orr_tree *map = orr_tree_new_map(arena);
    orr_status status = fit_all(&f, stages, &curator, request, &table, map, err);
    orr_curator_release(&curator);
    *result = map;
    return status;
}
