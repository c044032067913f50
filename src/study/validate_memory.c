/* Peak memory against what logs printed, and verdicts against what ran and what failed. Which
 * figure a source prints, and of which rank, is a fact of data/study/rules.yaml (heading `memory`);
 * like is compared with like. docs/internals/study.md. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/text.h"
#include "study/verdict.h"

/* Quantile of the logistic curve: 90 % lie between -ln 19 and ln 19 of its slope. */
static const double LOGISTIC_95 = 2.9444389791664403;

static const char *const outcome_names[] = {"fits", "oom", "does_not_start", "depends"};

/* ---- what the source says ------------------------------------------------------------------- */

typedef struct facts {
    const char *figure; /* allocated, reserved, device, none; NULL: the software's own */
    const char *rank;   /* max, first, last */
    const char *unit;   /* gib, gb */
    bool ran;           /* no: a failure listed among runs */
    double crash_frac;  /* share of failures that have nothing to do with memory */
} facts;

static facts facts_of(const orr_curator *curator, orr_arena *arena, const orr_run *run) {
    const orr_tree *said = orr_curate_facts(curator, arena, run, "memory");
    return (facts){.figure = orr_tree_text(orr_tree_get(said, "figure"), NULL),
                   .rank = orr_tree_text(orr_tree_get(said, "rank"), "max"),
                   .unit = orr_tree_text(orr_tree_get(said, "unit"), "gib"),
                   .ran = orr_tree_bool(orr_tree_get(said, "ran"), true),
                   .crash_frac = orr_tree_real(orr_tree_get(said, "crash_frac"), 0)};
}

static orr_memory_figure figure_of(const facts *said, const orr_software *software) {
    static const char *const names[] = {"allocated", "reserved", "device"};
    for (int i = 0; i < 3 && said->figure != NULL; i++) {
        if (strcmp(said->figure, names[i]) == 0) {
            return (orr_memory_figure)i;
        }
    }
    return (orr_memory_figure)software->figure;
}

static double figure_bytes(const orr_rank_memory *rank, orr_memory_figure figure) {
    return figure == ORR_DEVICE     ? rank->device_bytes
           : figure == ORR_RESERVED ? rank->reserved_bytes
                                    : rank->allocated_bytes;
}

/* The figure of the rank that printed it. */
static double figure_of_rank(const orr_verdict *v) {
    uint32_t pp = v->judged.resolved->plan.pipe.pp;
    const orr_rank_memory *rank = v->memory.rank;
    if (strcmp(v->rank, "first") == 0 || strcmp(v->rank, "last") == 0) {
        return figure_bytes(&rank[v->rank[0] == 'f' ? 0 : pp - 1], v->figure);
    }
    double most = 0;
    for (uint32_t r = 0; r < pp; r++) {
        most = orr_max_f64(most, figure_bytes(&rank[r], v->figure));
    }
    return most;
}

/* ---- one row -------------------------------------------------------------------------------- */

static bool fits(const orr_memory *memory) {
    return memory->fit == ORR_FITS || memory->fit == ORR_TIGHT;
}

/* With recompute not stated: fits if it does without, fails if it does with all of it. */
static orr_status evaluate(orr_engine *engine, orr_arena *arena, orr_verdict *v, orr_err *err) {
    orr_resolved *plan = ORR_NEW(arena, orr_resolved);
    *plan = *v->judged.resolved;
    bool unknown = plan->plan.recompute.kind == ORR_RECOMPUTE_UNKNOWN;
    if (unknown) {
        plan->plan.recompute.kind = ORR_RECOMPUTE_NONE;
    }
    ORR_TRY(orr_project_memory(engine, arena, plan, true, &v->memory, err));
    v->outcome = fits(&v->memory) ? ORR_OUTCOME_FITS : ORR_OUTCOME_OOM;
    v->p_fail = v->memory.p_oom;
    if (unknown && v->outcome == ORR_OUTCOME_OOM) {
        orr_memory least;
        plan->plan.recompute.kind = ORR_RECOMPUTE_FULL;
        ORR_TRY(orr_project_memory(engine, arena, plan, false, &least, err));
        v->outcome = fits(&least) ? ORR_OUTCOME_DEPENDS : ORR_OUTCOME_OOM;
        v->p_fail = v->outcome == ORR_OUTCOME_DEPENDS ? 0.5 * (v->p_fail + least.p_oom) : v->p_fail;
    }
    return ORR_OK;
}

static void compare_peak(orr_verdict *v, const facts *said) {
    orr_judged *row = &v->judged;
    const orr_software *software = row->resolved->software;
    double unit = strcmp(said->unit, "gb") == 0 ? 1e9 : ORR_GIB;
    row->measured = row->run->mem_gb * unit / ORR_GIB;
    row->projected = figure_of_rank(v) / ORR_GIB;
    double half = software->oom_slope > 0 ? LOGISTIC_95 / software->oom_slope : 0;
    row->low = row->projected * exp(-half);
    row->high = row->projected * exp(half);
}

static orr_status judge_row(orr_engine *engine, orr_curator *curator, orr_arena *arena,
                            orr_verdict *v, orr_err *err) {
    orr_judged *row = &v->judged;
    orr_err problem = {0};
    ORR_TRY(orr_judged_resolve(curator, arena, row, err));
    facts said = facts_of(curator, arena, row->run);
    row->measured = row->run->mem_gb;
    v->failed = v->failed || !said.ran;
    v->rank = said.rank;
    if (row->refused) {
        v->given = true;
        v->outcome = ORR_OUTCOME_DOES_NOT_START;
        v->p_fail = 1;
    }
    if (row->skipped != NULL) {
        return ORR_OK;
    }
    v->figure = figure_of(&said, row->resolved->software);
    if (evaluate(engine, arena, v, &problem) != ORR_OK) {
        row->skipped = orr_arena_text(arena, problem.message);
        return ORR_OK;
    }
    v->given = true;
    v->p_fail = said.crash_frac + (1 - said.crash_frac) * v->p_fail;
    if (said.figure != NULL && strcmp(said.figure, "none") == 0) {
        v->no_peak = true;
        row->skipped = "the source prints no peak of a run";
    } else if (row->run->mem_gb > 0) {
        compare_peak(v, &said);
    }
    return ORR_OK;
}

/* ---- tables --------------------------------------------------------------------------------- */

typedef struct confusion {
    uint32_t count[2][ORR_OUTCOME_COUNT]; /* ran, failed */
    double squares;
    uint32_t judged;
    uint32_t stated, stated_oom; /* that ran and say what they recompute; called out of memory */
} confusion;

static void count_verdict(confusion *c, const orr_verdict *v) {
    if (v->given) {
        double off = v->p_fail - (v->failed ? 1 : 0);
        c->count[v->failed][v->outcome]++;
        c->squares += off * off;
        c->judged++;
        if (!v->failed && orr_verdict_states_recompute(v)) {
            c->stated++;
            c->stated_oom += v->outcome == ORR_OUTCOME_OOM;
        }
    }
}

static orr_tree *write_confusion(orr_arena *arena, const confusion *c) {
    orr_tree *map = orr_tree_new_map(arena);
    static const char *const what[] = {"ran", "failed"};
    for (int f = 0; f < 2; f++) {
        for (int o = 0; o < ORR_OUTCOME_COUNT; o++) {
            orr_tree_put_int(arena, map,
                             orr_arena_format(arena, "%s_%s", what[f], outcome_names[o]),
                             c->count[f][o]);
        }
    }
    orr_tree_put_int(arena, map, "ran_stated", c->stated);
    orr_tree_put_int(arena, map, "ran_stated_oom", c->stated_oom);
    const uint32_t *ran = c->count[0], *failed = c->count[1];
    double foreseen = failed[ORR_OUTCOME_OOM] + failed[ORR_OUTCOME_DOES_NOT_START];
    double failures = foreseen + failed[ORR_OUTCOME_FITS];
    double runs = ran[ORR_OUTCOME_FITS] + ran[ORR_OUTCOME_OOM] + ran[ORR_OUTCOME_DOES_NOT_START];
    if (failures > 0 && runs > 0) {
        orr_tree_put_real(arena, map, "balanced_accuracy",
                          0.5 * (foreseen / failures + ran[ORR_OUTCOME_FITS] / runs));
    } else { /* one class alone: its own accuracy */
        orr_tree_put_real(arena, map, "balanced_accuracy",
                          failures > 0 ? foreseen / failures
                          : runs > 0   ? ran[ORR_OUTCOME_FITS] / runs
                                       : 0);
    }
    orr_tree_put_real(arena, map, "brier", c->judged == 0 ? 0 : c->squares / c->judged);
    return map;
}

static orr_tree *write_verdicts(orr_arena *arena, const orr_verdict *all, uint32_t count) {
    confusion whole = {0};
    bool *done = ORR_NEW_ARRAY(arena, bool, count);
    orr_tree *by = orr_tree_new_map(arena);
    for (uint32_t i = 0; i < count; i++) {
        count_verdict(&whole, &all[i]);
        if (done[i] || !all[i].given) {
            continue;
        }
        confusion one = {0};
        const char *source = all[i].judged.run->source;
        for (uint32_t k = i; k < count; k++) {
            if (strcmp(all[k].judged.run->source, source) == 0) {
                done[k] = true;
                count_verdict(&one, &all[k]);
            }
        }
        (void)orr_tree_put(arena, by, source, write_confusion(arena, &one));
    }
    orr_tree *map = write_confusion(arena, &whole);
    orr_tree *wrap = orr_tree_put(arena, map, "by", orr_tree_new_map(arena));
    (void)orr_tree_put(arena, wrap, "source", by);
    return map;
}

static orr_tree *row_tree(orr_arena *arena, const orr_verdict *v) {
    static const char *const figures[] = {"allocated", "reserved", "device"};
    orr_tree *map = orr_tree_new_map(arena);
    const orr_judged *row = &v->judged;
    orr_tree_put_int(arena, map, "index", row->run->index);
    if (!v->failed) {
        orr_tree_put_real(arena, map, "measured_gib", row->measured);
    }
    if (v->memory.capacity_bytes > 0) { /* was evaluated */
        const orr_rank_memory *worst = &v->memory.worst;
        orr_tree_put_real(arena, map, "live", worst->live_bytes / ORR_GIB);
        orr_tree_put_real(arena, map, "allocated", worst->allocated_bytes / ORR_GIB);
        orr_tree_put_real(arena, map, "reserved", worst->reserved_bytes / ORR_GIB);
        orr_tree_put_real(arena, map, "device", worst->device_bytes / ORR_GIB);
        orr_tree_put_real(arena, map, "need", worst->need_bytes / ORR_GIB);
    }
    if (!v->failed && row->skipped == NULL) {
        orr_tree_put_text(arena, map, "figure", figures[v->figure]);
        orr_tree_put_text(arena, map, "rank", v->rank);
        orr_tree_put_real(arena, map, "projected", row->projected);
        orr_tree_put_real(arena, map, "low", row->low);
        orr_tree_put_real(arena, map, "high", row->high);
        orr_tree_put_real(arena, map, "error", orr_judged_error(row));
    }
    if (v->given) {
        orr_tree_put_text(arena, map, "verdict", outcome_names[v->outcome]);
        orr_tree_put_real(arena, map, "p_fail", v->p_fail);
    }
    orr_tree_put_text(arena, map, "skipped", row->skipped);
    return map;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static orr_status judge_table(orr_engine *engine, orr_curator *curator, orr_arena *arena,
                              const orr_study_request *request, const orr_run_table *table,
                              bool failed, orr_verdict *out, orr_err *err) {
    for (uint32_t i = 0; i < table->count; i++) {
        orr_verdict *v = &out[i];
        v->failed = failed;
        v->judged.run = &table->run[i];
        ORR_TRY(judge_row(engine, curator, arena, v, err));
        /* Rows that the tiers leave out say nothing about verdicts either. */
        v->given = v->given && (failed || orr_judged_tier(request, v->judged.run));
        v->judged.counts = !failed && !v->no_peak && table->run[i].mem_gb > 0 &&
                           orr_judged_tier(request, v->judged.run) &&
                           (request->tiers != NULL || v->judged.skipped == NULL);
        if (request->progress != NULL &&
            !request->progress(request->progress_user, i + 1, table->count)) {
            return orr_fail(err, ORR_E_CANCELLED, "stopped after %u of %u rows", i + 1,
                            table->count);
        }
    }
    return ORR_OK;
}

/* The rows that state a figure, as judged. */
static uint32_t stated(const orr_verdict *all, uint32_t count, orr_judged *out) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!all[i].failed && all[i].judged.run->mem_gb > 0) {
            out[n++] = all[i].judged;
        }
    }
    return n;
}

/* Indices count the rows of their own table, the first `ran` those of the runs. */
static void write_rows(orr_arena *arena, orr_tree *map, const orr_verdict *all, uint32_t ran,
                       uint32_t count) {
    orr_tree *rows = orr_tree_put(arena, map, "rows", orr_tree_new_list(arena));
    orr_tree *failures = orr_tree_put(arena, map, "failed_rows", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < count; i++) {
        if (i >= ran) {
            (void)orr_tree_push(arena, failures, row_tree(arena, &all[i]));
        } else if (all[i].judged.run->mem_gb > 0) {
            (void)orr_tree_push(arena, rows, row_tree(arena, &all[i]));
        }
    }
}

static orr_status write_result(orr_engine *engine, orr_arena *arena, const orr_verdict *all,
                               uint32_t ran, uint32_t count, orr_tree *map, orr_err *err) {
    orr_judged *rows = ORR_NEW_ARRAY(arena, orr_judged, count);
    uint32_t n = stated(all, count, rows);
    const orr_judged **some = ORR_NEW_ARRAY(arena, const orr_judged *, n);
    for (uint32_t i = 0; i < n; i++) {
        some[i] = &rows[i];
    }
    orr_tree *summary = orr_tree_put(arena, map, "summary", orr_summarise(arena, some, n));
    orr_tree_put_real(arena, summary, "macro_median", orr_macro_median(arena, rows, n));
    (void)orr_tree_put(arena, map, "skipped", orr_judged_skipped(arena, rows, n));
    orr_tree *by = orr_tree_put(arena, map, "by", orr_tree_new_map(arena));
    (void)orr_tree_put(arena, by, "source", orr_judged_group(arena, rows, n, orr_judged_source));
    orr_tree *verdict = orr_tree_put(arena, map, "verdict", write_verdicts(arena, all, count));
    orr_tree *mistakes = NULL;
    ORR_TRY(orr_study_mistakes(engine, arena, all, count, &mistakes, err));
    (void)orr_tree_put(arena, verdict, "mistakes", mistakes);
    write_rows(arena, map, all, ran, count);
    return ORR_OK;
}

orr_status orr_study_memory(orr_engine *engine, orr_arena *arena, const orr_study_request *request,
                            orr_tree **result, orr_err *err) {
    orr_run_table ran = {0}, failed = {0};
    orr_curator curator;
    ORR_TRY(orr_runs_read(arena, request->runs, request->tiers, &ran, err));
    if (request->oom != NULL) {
        ORR_TRY(orr_runs_read(arena, request->oom, NULL, &failed, err));
    }
    ORR_TRY(orr_curator_new(arena, request->models, &curator, err));
    uint32_t count = ran.count + failed.count;
    orr_verdict *all = ORR_NEW_ARRAY(arena, orr_verdict, count);
    *result = orr_tree_new_map(arena);
    orr_status status = judge_table(engine, &curator, arena, request, &ran, false, all, err);
    if (status == ORR_OK) {
        status = judge_table(engine, &curator, arena, request, &failed, true, all + ran.count, err);
    }
    if (status == ORR_OK) {
        status = write_result(engine, arena, all, ran.count, count, *result, err);
    }
    orr_curator_release(&curator);
    return status;
}
