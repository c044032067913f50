/* Commands about one plan: project, memory, check, import. */
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/num.h"
#include "base/text.h"
#include "doc/doc.h"

/* ---- input ---------------------------------------------------------------------------------- */

/* The call states the key that an import could not. */
static bool is_settled(const orr_job *job, const orr_tree *entry) {
    const char *key = orr_tree_text(orr_tree_get(entry, "key"), "");
    return orr_tree_get(job->args, key) != NULL;
}

static bool is_on(const orr_tree *node) {
    const char *text = orr_tree_text(node, "");
    return orr_tree_bool(node, strcmp(text, "true") == 0 || strcmp(text, "on") == 0 ||
                                   strcmp(text, "yes") == 0);
}

static const char *place(const orr_job *job, const orr_tree *entry) {
    int64_t line = orr_tree_int(orr_tree_get(entry, "line"), 0);
    return line > 0 ? orr_arena_format(job->arena, "line %lld: ", (long long)line) : "";
}

void orr_job_report_import(orr_job *job, const orr_import *import) {
    for (size_t i = 0; i < orr_tree_size(import->assumed); i++) {
        const orr_tree *one = orr_tree_at(import->assumed, i);
        orr_tree *copy = orr_tree_push(job->arena, job->assumptions, orr_tree_new_map(job->arena));
        static const char *const keys[] = {"key", "value", "why"};
        for (size_t k = 0; k < 3; k++) {
            orr_tree_put_text(job->arena, copy, keys[k],
                              orr_tree_text(orr_tree_get(one, keys[k]), ""));
        }
    }
    for (size_t i = 0; i < orr_tree_size(import->unknown); i++) {
        const orr_tree *one = orr_tree_at(import->unknown, i);
        if (orr_tree_bool(orr_tree_get(one, "matters"), true) && !is_settled(job, one)) {
            const char *name = orr_tree_text(orr_tree_get(one, "name"), "?");
            orr_job_warn(job, "unknown-setting", name, "%s'%s' may change the answer: %s",
                         place(job, one), name,
                         orr_tree_text(orr_tree_get(one, "why"), "not understood"));
        }
    }
    for (size_t i = 0; i < orr_tree_size(import->warnings); i++) {
        const orr_tree *one = orr_tree_at(import->warnings, i);
        if (!is_settled(job, one)) {
            bool refused = orr_tree_bool(orr_tree_get(one, "refused"), false);
            orr_job_warn(job, refused ? "refused" : "import",
                         orr_tree_text(orr_tree_get(one, "key"), ""), "%s%s", place(job, one),
                         orr_tree_text(orr_tree_get(one, "message"), ""));
        }
    }
}

static bool is_plan_key(const char *key) {
    static const char *const others[] = {"file",         "anchor",   "rank",     "timeline",
                                         "replay",       "min_gpus", "evidence", "evidence_accept",
                                         "evidence_use", "plans",    "axes",     "with",
                                         "measured",     "log"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(key, others[i]) == 0) {
            return false;
        }
    }
    return !orr_is_export_argument(key) && strcmp(key, "strict") != 0 &&
           !orr_is_tune_argument(key) && !orr_is_schedule_argument(key) &&
           !orr_is_llm_argument(key) && !orr_is_training_argument(key);
}

/* A configuration, or the log of a run that lists what it ran. */
static orr_status import_any(orr_job *job, const char *file, const char *release,
                             orr_import *import, orr_err *err) {
    orr_observation seen;
    ORR_TRY(orr_job_observe(job, file, &seen, err));
    if (seen.kind == ORR_OBSERVED_NONE) {
        return orr_import_file_of(job->arena, file, release, import, err);
    }
    if (seen.kind == ORR_OBSERVED_LOG && seen.content != NULL) {
        return orr_import_arguments(job->arena, file, seen.content, import, err);
    }
    orr_status status =
        orr_fail(err, ORR_E_SCHEMA, "%s (%s) does not say what ran", file, seen.format);
    orr_hint(err, "give the plan, and the file as --anchor or --log; 'orrery import' shows what it "
                  "holds");
    return status;
}

/* Plan keys: those of the file, overridden by those of the call. */
orr_status orr_job_keys(orr_job *job, const orr_tree **out, orr_err *err) {
    const orr_tree *keys = NULL;
    const char *file = orr_tree_text(orr_tree_get(job->args, "file"), NULL);
    if (file != NULL) {
        orr_import import = {0};
        const char *release = orr_tree_text(orr_tree_get(job->args, "release"), NULL);
        ORR_TRY(import_any(job, file, release, &import, err));
        orr_job_report_import(job, &import);
        keys = import.keys;
        job->file_format = orr_export_format_of(import.format);
    }
    orr_tree *own = orr_tree_new_map(job->arena);
    for (size_t i = 0; i < orr_tree_size(job->args); i++) {
        const char *key = orr_tree_key(job->args, i);
        if (is_plan_key(key)) {
            (void)orr_tree_put(job->arena, own, key,
                               orr_tree_copy(job->arena, orr_tree_at(job->args, i)));
        }
    }
    *out = orr_plan_merge(job->arena, keys, own);
    job->keys = *out;
    return orr_layout_is_auto(*out) ? orr_layout_auto(job, *out, out, err) : ORR_OK;
}

orr_status orr_job_resolve(orr_job *job, const orr_tree *keys, orr_resolved *resolved,
                           orr_err *err) {
    ORR_TRY(orr_plan_resolve(job->arena, keys, resolved, err));
    for (uint32_t i = 0; i < resolved->assumption_count; i++) {
        const orr_assumption *a = &resolved->assumption[i];
        orr_tree *map = orr_tree_push(job->arena, job->assumptions, orr_tree_new_map(job->arena));
        orr_tree_put_text(job->arena, map, "key", a->key);
        orr_tree_put_text(job->arena, map, "value", a->value);
        orr_tree_put_text(job->arena, map, "why", a->why);
    }
    job->inputs = orr_plan_write(job->arena, resolved);
    return ORR_OK;
}

static orr_status resolve(orr_job *job, orr_resolved *resolved, orr_err *err) {
    const orr_tree *keys = NULL;
    ORR_TRY(orr_job_keys(job, &keys, err));
    return orr_job_resolve(job, keys, resolved, err);
}

/* ---- verdict -------------------------------------------------------------------------------- */

typedef struct legality {
    bool legal, starts;
} legality;

static legality check_rules(orr_job *job, const orr_resolved *resolved, orr_tree *verdict) {
    orr_violation violation[ORR_MAX_VIOLATIONS];
    uint32_t count = orr_plan_check(job->arena, resolved, violation);
    static const char *const effects[] = {"illegal", "does_not_start", "warning"};
    legality answer = {true, true};
    orr_tree *rules = orr_tree_new_list(job->arena);
    for (uint32_t i = 0; i < count && i < ORR_MAX_VIOLATIONS; i++) {
        const orr_violation *v = &violation[i];
        orr_tree *rule = orr_tree_push(job->arena, rules, orr_tree_new_map(job->arena));
        orr_tree_put_text(job->arena, rule, "id", v->rule);
        orr_tree_put_text(job->arena, rule, "effect", effects[v->effect]);
        orr_tree_put_text(job->arena, rule, "message", v->message);
        orr_tree_put_text(job->arena, rule, "hint", v->hint == NULL ? "" : v->hint);
        answer.legal = answer.legal && v->effect != ORR_RULE_ILLEGAL;
        answer.starts = answer.starts && v->effect == ORR_RULE_WARNING;
    }
    orr_tree_put_bool(job->arena, verdict, "legal", answer.legal);
    orr_tree_put_bool(job->arena, verdict, "starts", answer.starts);
    (void)orr_tree_put(job->arena, verdict, "rules", rules);
    return answer;
}

/* A plan that says nothing of recompute fits only when it fits with none of it, and is out of
 * memory only when it is so with all of it; in between the word says so, and a check does not pass.
 */
static void put_fit(orr_arena *arena, orr_tree *verdict, const orr_memory *none,
                    const orr_memory *full) {
    bool unknown = full != NULL;
    bool fits = none->fit <= ORR_TIGHT;
    const char *word = orr_fit_name((orr_fit_band)none->fit);
    double p_oom = none->p_oom;
    if (unknown && !fits) {
        bool full_fits = full->fit <= ORR_TIGHT;
        word = full_fits ? "depends_on_recompute" : orr_fit_name((orr_fit_band)full->fit);
        p_oom = full_fits ? none->p_oom : full->p_oom;
    }
    orr_tree_put_bool(arena, verdict, "fits", fits);
    orr_tree_put_text(arena, verdict, "fit", word);
    orr_tree_put_real(arena, verdict, "p_oom", p_oom);
}

static orr_resolved with_recompute(const orr_resolved *resolved, orr_recompute_kind kind) {
    orr_resolved copy = *resolved;
    copy.plan.recompute.kind = (uint8_t)kind;
    return copy;
}

/* ---- commands ------------------------------------------------------------------------------- */

/* When recompute is not stated the interval reaches from all of it to none of it. */
static orr_status project_unknown(orr_job *job, const orr_resolved *resolved,
                                  const orr_anchor *anchor, orr_tree *verdict, orr_err *err) {
    orr_resolved *none = ORR_NEW(job->arena, orr_resolved);
    orr_resolved *full = ORR_NEW(job->arena, orr_resolved);
    *none = with_recompute(resolved, ORR_RECOMPUTE_NONE);
    *full = with_recompute(resolved, ORR_RECOMPUTE_FULL);
    orr_projection fast, slow;
    ORR_TRY(orr_project(job->ctx->engine, job->arena, none, anchor, &fast, err));
    ORR_TRY(orr_project(job->ctx->engine, job->arena, full, anchor, &slow, err));
    fast.low = orr_min_f64(fast.low, slow.low);
    job->result = orr_projection_write(job->arena, &fast);
    (void)orr_tree_put(job->arena, job->result, "with_full_recompute",
                       orr_projection_write(job->arena, &slow));
    put_fit(job->arena, verdict, &fast.memory, &slow.memory);
    ORR_TRY(orr_job_put_waterfall(job, &fast, err));
    ORR_TRY(orr_job_put_training(job, &fast, err));
    orr_job_warn(job, "recompute-unknown", "recompute",
                 "recompute is not stated: the figures are for none, the interval reaches to full");
    return ORR_OK;
}

/* What the step's prices borrow or assume is a warning each, with what that cost elsewhere. */
static orr_status put_reliance(orr_job *job, const orr_resolved *resolved, orr_err *err) {
    orr_tree *list = NULL;
    ORR_TRY(orr_engine_reliance(job->ctx->engine, job->arena, resolved, &list, err));
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        bool borrowed = strcmp(orr_tree_text(orr_tree_get(one, "how"), ""), "borrowed") == 0;
        orr_job_warn(job, borrowed ? "borrowed-prices" : "assumed-prices", "hardware", "%s",
                     orr_tree_text(orr_tree_get(one, "message"), ""));
    }
    if (orr_tree_size(list) > 0) {
        (void)orr_tree_put(job->arena, job->result, "relies_on", list);
    }
    return ORR_OK;
}

orr_status orr_command_project(orr_job *job, orr_err *err) {
    orr_resolved resolved = {0};
    orr_anchor anchor;
    const orr_tree *keys = NULL;
    ORR_TRY(orr_job_keys(job, &keys, err));
    ORR_TRY(orr_job_resolve(job, keys, &resolved, err));
    ORR_TRY(orr_job_use_evidence(job, resolved.cluster->accelerator, resolved.software->name, err));
    ORR_TRY(orr_job_anchor(job, keys, &resolved, &anchor, err));
    ORR_TRY(orr_job_step_anchor(job, &anchor, err));
    orr_tree *verdict = orr_tree_new_map(job->arena);
    legality answer = check_rules(job, &resolved, verdict);
    if (answer.legal && resolved.plan.recompute.kind == ORR_RECOMPUTE_UNKNOWN) {
        ORR_TRY(project_unknown(job, &resolved, &anchor, verdict, err));
        ORR_TRY(orr_job_put_evidence(job, &resolved, err));
    } else if (answer.legal) {
        orr_projection projection;
        ORR_TRY(orr_project(job->ctx->engine, job->arena, &resolved, &anchor, &projection, err));
        job->result = orr_projection_write(job->arena, &projection);
        put_fit(job->arena, verdict, &projection.memory, NULL);
        ORR_TRY(orr_job_put_anchor(job, &resolved, &anchor, &projection, err));
        ORR_TRY(orr_job_put_waterfall(job, &projection, err));
        ORR_TRY(orr_job_put_training(job, &projection, err));
        ORR_TRY(orr_job_put_evidence(job, &resolved, err));
        ORR_TRY(put_reliance(job, &resolved, err));
        ORR_TRY(orr_job_advise(job, &resolved, err));
    } else {
        orr_tree_put_bool(job->arena, verdict, "fits", false);
    }
    (void)orr_tree_put(job->arena, job->result, "verdict", verdict);
    return orr_job_put_against(job, keys, &resolved, err);
}

static orr_status memory_and_verdict(orr_job *job, orr_resolved *resolved, orr_err *err) {
    ORR_TRY(resolve(job, resolved, err));
    orr_tree *verdict = orr_tree_new_map(job->arena);
    legality answer = check_rules(job, resolved, verdict);
    if (!answer.legal) {
        orr_tree_put_bool(job->arena, verdict, "fits", false);
        (void)orr_tree_put(job->arena, job->result, "verdict", verdict);
        return ORR_OK;
    }
    bool unknown = resolved->plan.recompute.kind == ORR_RECOMPUTE_UNKNOWN;
    orr_resolved none = unknown ? with_recompute(resolved, ORR_RECOMPUTE_NONE) : *resolved;
    orr_memory memory, least;
    ORR_TRY(orr_project_memory(job->ctx->engine, job->arena, &none, true, &memory, err));
    uint32_t pp = resolved->plan.pipe.pp;
    (void)orr_tree_put(job->arena, job->result, "memory",
                       orr_memory_write(job->arena, &memory, pp));
    if (unknown) {
        orr_resolved full = with_recompute(resolved, ORR_RECOMPUTE_FULL);
        ORR_TRY(orr_project_memory(job->ctx->engine, job->arena, &full, true, &least, err));
        orr_tree *with_full = orr_tree_put(job->arena, job->result, "with_full_recompute",
                                           orr_tree_new_map(job->arena));
        (void)orr_tree_put(job->arena, with_full, "memory",
                           orr_memory_write(job->arena, &least, pp));
        orr_job_warn(job, "recompute-unknown", "recompute",
                     "recompute is not stated: the figures are for none");
    }
    put_fit(job->arena, verdict, &memory, unknown ? &least : NULL);
    (void)orr_tree_put(job->arena, job->result, "verdict", verdict);
    *resolved = none;
    ORR_TRY(orr_job_advise(job, resolved, err));
    return orr_job_put_memory_detail(job, resolved, memory.worst_rank, err);
}

orr_status orr_command_memory(orr_job *job, orr_err *err) {
    orr_resolved resolved = {0};
    return memory_and_verdict(job, &resolved, err);
}

/* What the file's framework stops at, though the plan made of it is sound. */
static void refuse(orr_job *job) {
    orr_tree *verdict = orr_tree_copy(job->arena, orr_tree_get(job->result, "verdict"));
    orr_tree *rules = orr_tree_copy(job->arena, orr_tree_get(verdict, "rules"));
    size_t before = orr_tree_size(rules);
    for (size_t i = 0; i < orr_tree_size(job->warnings); i++) {
        const orr_tree *warning = orr_tree_at(job->warnings, i);
        if (strcmp(orr_tree_text(orr_tree_get(warning, "code"), ""), "refused") == 0) {
            orr_tree *rule = orr_tree_push(job->arena, rules, orr_tree_new_map(job->arena));
            orr_tree_put_text(job->arena, rule, "id", "LAUNCH");
            orr_tree_put_text(job->arena, rule, "effect", "does_not_start");
            orr_tree_put_text(job->arena, rule, "message",
                              orr_tree_text(orr_tree_get(warning, "message"), ""));
            orr_tree_put_text(job->arena, rule, "hint", "");
        }
    }
    if (orr_tree_size(rules) > before) {
        orr_tree_put_bool(job->arena, verdict, "starts", false);
        (void)orr_tree_put(job->arena, verdict, "rules", rules);
        (void)orr_tree_put(job->arena, job->result, "verdict", verdict);
    }
}

/* A linter: the verdict, every rule, what the file left open, and what slows the plan down. Without
 * `strict` it passes whatever can run. */
orr_status orr_command_check(orr_job *job, orr_err *err) {
    orr_resolved resolved = {0};
    ORR_TRY(memory_and_verdict(job, &resolved, err));
    refuse(job);
    const orr_tree *verdict = orr_tree_get(job->result, "verdict");
    bool runs = orr_tree_bool(orr_tree_get(verdict, "legal"), false) &&
                orr_tree_bool(orr_tree_get(verdict, "starts"), false);
    orr_tree *findings = orr_job_lint(job, runs ? &resolved : NULL);
    (void)orr_tree_put(job->arena, job->result, "findings", findings);
    ORR_TRY(orr_job_put_against(job, job->keys, &resolved, err));
    const orr_tree *of_log = orr_tree_path(job->result, "against.findings");
    for (size_t i = 0; i < orr_tree_size(of_log); i++) {
        const orr_tree *from = orr_tree_at(of_log, i);
        orr_tree *one = orr_tree_push(job->arena, findings, orr_tree_new_map(job->arena));
        orr_tree_put_text(job->arena, one, "id", orr_tree_text(orr_tree_get(from, "code"), ""));
        orr_tree_put_text(job->arena, one, "level", "log");
        orr_tree_put_text(job->arena, one, "message",
                          orr_tree_text(orr_tree_get(from, "message"), ""));
    }
    bool strict = is_on(orr_tree_get(job->args, "strict"));
    bool clean = orr_tree_size(findings) == 0 && orr_tree_size(orr_tree_get(verdict, "rules")) == 0;
    orr_tree_put_bool(job->arena, job->result, "passed", !strict || clean);
    return ORR_OK;
}

/* Keys of a plan file that no plan has: named, with the nearest. */
static orr_tree *unknown_keys(orr_job *job, const orr_import *import) {
    orr_tree *list = orr_tree_copy(job->arena, import->unknown);
    orr_tree *fields = orr_plan_fields(job->arena);
    size_t count = orr_tree_size(fields);
    const char **names = ORR_NEW_ARRAY(job->arena, const char *, count + 1);
    for (size_t i = 0; i < count; i++) {
        names[i] = orr_tree_text(orr_tree_get(orr_tree_at(fields, i), "name"), "");
    }
    for (size_t k = 0; k < orr_tree_size(import->keys); k++) {
        const char *key = orr_tree_key(import->keys, k);
        size_t i = 0;
        while (i < count && !orr_name_equal(names[i], key)) {
            i++;
        }
        if (i < count) {
            continue;
        }
        uint32_t line = orr_tree_key_span(import->keys, k).line;
        int near = orr_name_nearest(key, names, count);
        const char *why =
            near < 0 ? "no plan has this key"
                     : orr_arena_format(job->arena, "no plan has this key; did you mean '%s'?",
                                        names[near]);
        orr_tree *one = orr_tree_push(job->arena, list, orr_tree_new_map(job->arena));
        orr_tree_put_text(job->arena, one, "name", key);
        orr_tree_put_int(job->arena, one, "line", (int64_t)line);
        orr_tree_put_bool(job->arena, one, "matters", true);
        orr_tree_put_text(job->arena, one, "why", why);
        orr_job_warn(job, "unknown-setting", key, "line %u: '%s' is not understood: %s",
                     (unsigned)line, key, why);
    }
    return list;
}

orr_status orr_command_import(orr_job *job, orr_err *err) {
    const char *file = orr_tree_text(orr_tree_get(job->args, "file"), NULL);
    if (file == NULL) {
        return orr_fail(err, ORR_E_USAGE, "import needs a FILE");
    }
    orr_observation seen;
    ORR_TRY(orr_job_observe(job, file, &seen, err));
    if (seen.kind != ORR_OBSERVED_NONE) {
        return orr_job_put_observation(job, file, &seen, err);
    }
    orr_import import = {0};
    const char *release = orr_tree_text(orr_tree_get(job->args, "release"), NULL);
    ORR_TRY(orr_import_file_of(job->arena, file, release, &import, err));
    orr_job_report_import(job, &import);
    orr_tree_put_text(job->arena, job->result, "format", import.format);
    (void)orr_tree_put(job->arena, job->result, "plan", orr_tree_copy(job->arena, import.keys));
    (void)orr_tree_put(job->arena, job->result, "assumed",
                       orr_tree_copy(job->arena, import.assumed));
    (void)orr_tree_put(job->arena, job->result, "unknown",
                       strcmp(import.format, "plan") == 0
                           ? unknown_keys(job, &import)
                           : orr_tree_copy(job->arena, import.unknown));
    return ORR_OK;
}
