#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "study/study_int.h"

static void skip_illegal(orr_arena *arena, orr_judged *row) {
    orr_violation violation[ORR_MAX_VIOLATIONS] = {0};
    if (orr_plan_check(arena, row->resolved, violation) == 0) {
        return;
    }
    row->refused = violation[0].effect == ORR_RULE_DOES_NOT_START;
    row->reason = orr_arena_format(arena, "%s: %s", row->refused ? "does not start" : "illegal",
                                   violation[0].rule);
    row->skipped = orr_arena_format(arena, "%s %s", row->reason, violation[0].message);
}

static const char *kind_of(const orr_model *model) {
    for (uint32_t k = 0; k < model->kind_count; k++) {
        if (model->kind[k].mlp.experts > 0) {
            return "moe";
        }
    }
    return "dense";
}

orr_status orr_judged_resolve(orr_curator *curator, orr_arena *arena, orr_judged *row,
                              orr_err *err) {
    static const char *const vendors[] = {"nvidia", "amd", "other"};
    const orr_tree *keys = NULL;
    row->gpu = row->run->gpu;
    row->vendor = row->kind = row->software = "unknown";
    ORR_TRY(orr_curate(curator, arena, row->run, &keys, &row->skipped, err));
    if (row->run->unread != NULL) {
        row->reason = orr_arena_format(arena, "column %s holds no number", row->run->unread);
    }
    if (row->skipped != NULL) {
        return ORR_OK;
    }
    orr_resolved *resolved = ORR_NEW(arena, orr_resolved);
    orr_err problem = {0};
    if (orr_plan_resolve_cached(curator->cache, arena, keys, resolved, &problem) != ORR_OK) {
        row->skipped = orr_arena_text(arena, problem.message);
        return ORR_OK;
    }
    row->gpu = resolved->cluster->accelerator->name;
    row->vendor = vendors[resolved->cluster->accelerator->vendor];
    row->software = resolved->software->name;
    row->kind = kind_of(resolved->model);
    row->resolved = resolved;
    if (!orr_plan_legal(resolved)) {
        skip_illegal(arena, row);
    }
    return ORR_OK;
}

/* The row's own path through the tool: keys, plan, rules, projection. */
static orr_status judge_row(orr_engine *engine, orr_curator *curator, orr_arena *arena,
                            orr_judged *row, orr_err *err) {
    row->measured = orr_run_throughput(row->run);
    ORR_TRY(orr_judged_resolve(curator, arena, row, err));
    if (!(row->measured > 0) && row->run->problem == NULL) {
        row->skipped = row->reason = "no throughput is stated";
    }
    if (row->skipped != NULL) {
        return ORR_OK;
    }
    orr_resolved plan = *row->resolved;
    if (plan.plan.recompute.kind == ORR_RECOMPUTE_UNKNOWN) {
        plan.plan.recompute.kind = ORR_RECOMPUTE_NONE;
    }
    orr_resolved *kept = ORR_NEW(arena, orr_resolved);
    *kept = plan;
    row->resolved = kept;
    orr_projection projection;
    orr_err problem = {0};
    if (orr_project(engine, arena, kept, NULL, &projection, &problem) != ORR_OK) {
        row->skipped = orr_arena_text(arena, problem.message);
        return ORR_OK;
    }
    row->projected = projection.tokens_per_s_per_gpu;
    row->low = projection.low;
    row->high = projection.high;
    row->need_frac = projection.memory.worst.need_bytes / projection.memory.capacity_bytes;
    return ORR_OK;
}

static orr_tree *row_tree(orr_arena *arena, const orr_judged *row) {
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_int(arena, map, "index", row->run->index);
    orr_tree_put_text(arena, map, "source", row->run->source);
    orr_tree_put_text(arena, map, "model", row->run->model);
    orr_tree_put_text(arena, map, "gpu", row->gpu);
    orr_tree_put_real(arena, map, "gpus", row->run->num_gpus);
    orr_tree_put_text(arena, map, "precision", row->run->precision);
    orr_tree_put_text(arena, map, "software", row->software);
    orr_tree_put_bool(arena, map, "counts", row->counts);
    orr_tree_put_real(arena, map, "measured", row->measured);
    if (row->skipped == NULL) {
        orr_tree_put_real(arena, map, "projected", row->projected);
        orr_tree_put_real(arena, map, "low", row->low);
        orr_tree_put_real(arena, map, "high", row->high);
        orr_tree_put_real(arena, map, "error", orr_judged_error(row));
        orr_tree_put_real(arena, map, "memory_frac", row->need_frac);
    }
    orr_tree_put_text(arena, map, "skipped", row->skipped);
    return map;
}

/* ---- tables --------------------------------------------------------------------------------- */

const char *orr_judged_source(const orr_judged *row) {
    return row->run->source;
}
static const char *name_gpu(const orr_judged *row) {
    return row->gpu;
}
static const char *name_vendor(const orr_judged *row) {
    return row->vendor;
}
static const char *name_kind(const orr_judged *row) {
    return row->kind;
}
static const char *name_software(const orr_judged *row) {
    return row->software;
}

orr_tree *orr_judged_group(orr_arena *arena, const orr_judged *rows, uint32_t count,
                           orr_judged_name name) {
    orr_tree *map = orr_tree_new_map(arena);
    const orr_judged **some = ORR_NEW_ARRAY(arena, const orr_judged *, count);
    bool *done = ORR_NEW_ARRAY(arena, bool, count);
    for (uint32_t i = 0; i < count; i++) {
        if (done[i] || !rows[i].counts) {
            continue;
        }
        uint32_t n = 0;
        for (uint32_t k = i; k < count; k++) {
            if (!done[k] && rows[k].counts && strcmp(name(&rows[k]), name(&rows[i])) == 0) {
                done[k] = true;
                some[n++] = &rows[k];
            }
        }
        (void)orr_tree_put(arena, map, name(&rows[i]), orr_summarise(arena, some, n));
    }
    return map;
}

static const char *reason_of(const orr_judged *row) {
    return row->reason != NULL ? row->reason : row->skipped;
}

orr_tree *orr_judged_skipped(orr_arena *arena, const orr_judged *rows, uint32_t count) {
    orr_tree *list = orr_tree_new_list(arena);
    bool *done = ORR_NEW_ARRAY(arena, bool, count);
    for (uint32_t i = 0; i < count; i++) {
        if (done[i] || rows[i].skipped == NULL) {
            continue;
        }
        uint32_t n = 0, counting = 0;
        for (uint32_t k = i; k < count; k++) {
            if (!done[k] && rows[k].skipped != NULL &&
                strcmp(reason_of(&rows[k]), reason_of(&rows[i])) == 0) {
                done[k] = true;
                n++;
                counting += rows[k].counts;
            }
        }
        orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
        orr_tree_put_text(arena, one, "reason", reason_of(&rows[i]));
        orr_tree_put_int(arena, one, "count", n);
        orr_tree_put_int(arena, one, "counting", counting);
        if (rows[i].reason != NULL) {
            orr_tree_put_text(arena, one, "example", rows[i].skipped);
        }
    }
    return list;
}

typedef struct free_number {
    const char *name;
    double value;
} free_number;

enum { MAX_FREE = 1024 };

/* Adds the free numbers of a profile that are not there: one that several profiles share counts
 * once. */
static uint32_t add_free(const orr_software *software, free_number *all, uint32_t count) {
    for (size_t i = 0; i < orr_tree_size(software->evidence) && count < MAX_FREE; i++) {
        free_number one = {orr_tree_key(software->evidence, i), 0};
        bool known = !orr_software_is_free(software, one.name, &one.value);
        for (uint32_t k = 0; k < count && !known; k++) {
            known = strcmp(all[k].name, one.name) == 0 && !(all[k].value < one.value) &&
                    !(all[k].value > one.value);
        }
        if (!known) {
            all[count++] = one;
        }
    }
    return count;
}

/* Free numbers of the profiles that were used, and those of architectures and fabrics. */
static uint32_t fitted_parameters(orr_arena *arena, const orr_judged *rows, uint32_t count) {
    free_number *all = ORR_NEW_ARRAY(arena, free_number, MAX_FREE);
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool first = rows[i].skipped == NULL;
        for (uint32_t k = 0; k < i && first; k++) {
            first = rows[k].skipped != NULL || strcmp(rows[k].software, rows[i].software) != 0;
        }
        sum = first ? add_free(rows[i].resolved->software, all, sum) : sum;
    }
    return sum + orr_fit_machine_parameters(arena);
}

static orr_tree *tables(orr_arena *arena, const orr_judged *rows, uint32_t count) {
    static const struct {
        const char *key;
        orr_judged_name name;
    } groups[] = {{"source", orr_judged_source},
                  {"gpu", name_gpu},
                  {"vendor", name_vendor},
                  {"kind", name_kind},
                  {"software", name_software}};
    orr_tree *map = orr_tree_new_map(arena);
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        (void)orr_tree_put(arena, map, groups[g].key,
                           orr_judged_group(arena, rows, count, groups[g].name));
    }
    return map;
}

bool orr_judged_tier(const orr_study_request *request, const orr_run *run) {
    return request->tiers == NULL || strcmp(run->tier, "A") == 0 || strcmp(run->tier, "B") == 0;
}

orr_status orr_judge_rows(orr_engine *engine, orr_curator *curator, orr_arena *arena,
                          const orr_study_request *request, const orr_run_table *table,
                          orr_judged **out, orr_err *err) {
    orr_judged *rows = ORR_NEW_ARRAY(arena, orr_judged, table->count);
    for (uint32_t i = 0; i < table->count; i++) {
        rows[i].run = &table->run[i];
        ORR_TRY(judge_row(engine, curator, arena, &rows[i], err));
        /* Without tiers a row that cannot be expressed is reported, not judged. */
        rows[i].counts = orr_judged_tier(request, rows[i].run) &&
                         (request->tiers != NULL || rows[i].skipped == NULL);
        if (request->progress != NULL &&
            !request->progress(request->progress_user, i + 1, table->count)) {
            return orr_fail(err, ORR_E_CANCELLED, "stopped after %u of %u rows", i + 1,
                            table->count);
        }
    }
    *out = rows;
    return ORR_OK;
}

static orr_tree *summary_of(orr_arena *arena, const orr_judged *rows, uint32_t count) {
    const orr_judged **all = ORR_NEW_ARRAY(arena, const orr_judged *, count);
    for (uint32_t i = 0; i < count; i++) {
        all[i] = &rows[i];
    }
    orr_tree *summary = orr_summarise(arena, all, count);
    orr_tree_put_real(arena, summary, "macro_median", orr_macro_median(arena, rows, count));
    orr_tree_put_int(arena, summary, "fitted_parameters", fitted_parameters(arena, rows, count));
    return summary;
}

static uint32_t collect_residuals(const orr_judged *rows, uint32_t count, orr_residual *out) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].counts && rows[i].skipped == NULL) {
            out[n++] = (orr_residual){&rows[i], "none", -log1p(orr_judged_error(&rows[i]))};
        }
    }
    return n;
}

static orr_status write_result(orr_engine *engine, const orr_curator *curator, orr_arena *arena,
                               const orr_study_request *request, const orr_run_table *table,
                               const orr_judged *rows, orr_tree *map, orr_err *err) {
    uint32_t count = table->count;
    (void)orr_tree_put(arena, map, "summary", summary_of(arena, rows, count));
    (void)orr_tree_put(arena, map, "skipped", orr_judged_skipped(arena, rows, count));
    (void)orr_tree_put(arena, map, "by", tables(arena, rows, count));
    (void)orr_tree_put(arena, map, "series", orr_judge_series(arena, rows, count));
    (void)orr_tree_put(arena, map, "ladders", orr_judge_ladders(curator, arena, rows, count));
    orr_residual *residuals = ORR_NEW_ARRAY(arena, orr_residual, 3 * (size_t)count);
    uint32_t residual_count = collect_residuals(rows, count, residuals);
    if (request->anchored) {
        orr_tree *anchored = NULL;
        ORR_TRY(orr_judge_anchored(engine, arena, rows, count, residuals, &residual_count,
                                   &anchored, err));
        (void)orr_tree_put(arena, map, "anchored", anchored);
    }
    (void)orr_tree_put(arena, map, "residuals",
                       orr_residuals_write(arena, residuals, residual_count));
    if (request->ablate) {
        orr_tree *ablations = NULL;
        ORR_TRY(orr_study_ablate(arena, rows, count, &ablations, err));
        (void)orr_tree_put(arena, map, "ablations", ablations);
    }
    (void)orr_tree_put(arena, map, "disturbed", orr_disturbed_write(arena, table));
    orr_tree *list = orr_tree_put(arena, map, "rows", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < count; i++) {
        (void)orr_tree_push(arena, list, row_tree(arena, &rows[i]));
    }
    return ORR_OK;
}

orr_status orr_study_runs(orr_engine *engine, orr_arena *arena, const orr_study_request *request,
                          orr_tree **result, orr_err *err) {
    orr_run_table table;
    orr_curator curator;
    orr_judged *rows = NULL;
    ORR_TRY(orr_runs_read(arena, request->runs, request->tiers, &table, err));
    ORR_TRY(orr_curator_new(arena, request->models, &curator, err));
    *result = orr_tree_new_map(arena);
    orr_status status = orr_judge_rows(engine, &curator, arena, request, &table, &rows, err);
    if (status == ORR_OK) {
        status = write_result(engine, &curator, arena, request, &table, rows, *result, err);
    }
    orr_curator_release(&curator);
    return status;
}
