/* A plan written in a framework's words, or as changes to a file in them. */
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/text.h"
#include "exchange/exchange.h"

void orr_export_arguments(orr_arena *arena, orr_tree *fields) {
    orr_tree *to = orr_tree_push(arena, fields, orr_tree_new_map(arena));
    orr_tree_put_text(arena, to, "name", "to");
    orr_tree_put_text(arena, to, "type", "text");
    orr_tree_put_text(arena, to, "doc",
                      "megatron-lm, primus, megatron-bridge, torchtitan, deepspeed or nanotron; "
                      "default: that of the file, else megatron-lm");
    orr_tree *against = orr_tree_push(arena, fields, orr_tree_new_map(arena));
    orr_tree_put_text(arena, against, "name", "against");
    orr_tree_put_text(arena, against, "type", "text");
    orr_tree_put_text(arena, against, "doc",
                      "a file that is launched today: say which of its lines to change, in its own "
                      "language");
}

bool orr_is_export_argument(const char *key) {
    return strcmp(key, "to") == 0 || strcmp(key, "against") == 0 || strcmp(key, "release") == 0;
}

/* The card of a model that is known by name; NULL: it is not, or is one itself. */
static const orr_tree *card_of(orr_job *job, const orr_tree *keys) {
    const orr_tree *model = orr_tree_get(keys, "model");
    orr_model *found = NULL;
    if (orr_tree_kind_of(model) != ORR_TREE_TEXT ||
        orr_model_find(job->arena, orr_tree_text(model, ""), &found, NULL) != ORR_OK) {
        return NULL;
    }
    return orr_model_write(job->arena, found);
}

/* ---- the plan in full ------------------------------------------------------------------------ */

/* What resolving fills in though it changes nothing: there is one stage, one rank of context. */
static bool is_idle(const orr_resolved *resolved, const char *key) {
    const orr_plan *plan = &resolved->plan;
    uint64_t chunks = (uint64_t)plan->pipe.pp * plan->pipe.vpp;
    bool even = chunks > 0 && resolved->model->layers % chunks == 0;
    return (strcmp(key, "cp_kind") == 0 && plan->split.cp <= 1) ||
           (strcmp(key, "schedule") == 0 && plan->pipe.pp <= 1) ||
           (strcmp(key, "placement") == 0 && even);
}

/* Keys that were stated over all that the plan resolves to; "auto" states nothing. */
static const orr_tree *in_full(orr_arena *arena, const orr_tree *keys,
                               const orr_resolved *resolved) {
    const orr_tree *all = orr_plan_write(arena, resolved);
    orr_tree *full = orr_tree_new_map(arena);
    for (size_t i = 0; i < orr_tree_size(all); i++) {
        if (!is_idle(resolved, orr_tree_key(all, i))) {
            (void)orr_tree_put(arena, full, orr_tree_key(all, i),
                               orr_tree_copy(arena, orr_tree_at(all, i)));
        }
    }
    for (size_t i = 0; i < orr_tree_size(keys); i++) {
        const orr_tree *value = orr_tree_at(keys, i);
        bool says = orr_tree_kind_of(value) != ORR_TREE_NULL &&
                    !orr_name_equal(orr_tree_text(value, ""), "auto");
        if (says) {
            (void)orr_tree_put(arena, full, orr_tree_key(keys, i), orr_tree_copy(arena, value));
        }
    }
    return full;
}

/* Nothing is written of a plan that would not run. */
static orr_status refuse_illegal(orr_job *job, const orr_resolved *resolved, orr_err *err) {
    orr_violation violation[ORR_MAX_VIOLATIONS];
    uint32_t count = orr_plan_check(job->arena, resolved, violation);
    orr_text rules = orr_text_new(job->arena, 1 << 16);
    const char *hint = NULL;
    for (uint32_t i = 0; i < count && i < ORR_MAX_VIOLATIONS; i++) {
        const orr_violation *v = &violation[i];
        if (v->effect != ORR_RULE_WARNING) {
            orr_text_format(&rules, "%s[%s] %s", rules.length > 0 ? "; " : "", v->rule, v->message);
            hint = hint != NULL ? hint : v->hint;
        }
    }
    if (rules.length == 0) {
        return ORR_OK;
    }
    (void)orr_fail(err, ORR_E_INFEASIBLE, "the plan is not written, it would not run: %s",
                   orr_text_done(&rules));
    if (hint != NULL && hint[0] != '\0') {
        orr_hint(err, "%s", hint);
    }
    return ORR_E_INFEASIBLE;
}

/* What a plan needs to be read and nobody said: software that has the format's defaults, where it
 * has its own, and a machine that runs every format of numbers, as no framework is told which. */
static const orr_tree *with_machine(orr_arena *arena, const orr_tree *keys, const char *to) {
    static const char *const own[] = {"torchtitan", "nanotron"};
    static const char any_machine[] = "b200";
    orr_tree *under = orr_tree_new_map(arena);
    for (size_t i = 0; to != NULL && i < sizeof own / sizeof *own; i++) {
        if (orr_name_equal(to, own[i])) {
            orr_tree_put_text(arena, under, "software", own[i]);
        }
    }
    if (orr_tree_get(keys, "hardware") == NULL && orr_tree_get(keys, "cluster") == NULL) {
        orr_tree_put_text(arena, under, "hardware", any_machine);
    }
    return orr_plan_merge(arena, under, keys);
}

/* The plan that keys resolve to; `tell`: the result says so, with what was assumed. */
static orr_status complete(orr_job *job, const orr_tree *keys, const char *to, bool tell,
                           const orr_tree **full, orr_err *err) {
    orr_resolved *resolved = ORR_NEW(job->arena, orr_resolved);
    const orr_tree *whole = with_machine(job->arena, keys, to);
    if (tell) {
        ORR_TRY(orr_job_resolve(job, whole, resolved, err));
    } else {
        ORR_TRY(orr_plan_resolve(job->arena, whole, resolved, err));
    }
    ORR_TRY(refuse_illegal(job, resolved, err));
    *full = in_full(job->arena, whole, resolved);
    const char *machine = orr_tree_text(orr_tree_get(whole, "hardware"), NULL);
    if (tell && machine != NULL && orr_tree_get(keys, "hardware") == NULL) {
        orr_tree *map = orr_tree_push(job->arena, job->assumptions, orr_tree_new_map(job->arena));
        orr_tree_put_text(job->arena, map, "key", "hardware");
        orr_tree_put_text(job->arena, map, "value", machine);
        orr_tree_put_text(job->arena, map, "why", "none is stated; no framework is told it");
    }
    return ORR_OK;
}

/* What a file resolves to by itself, on the machine and with the model that the call names; its own
 * keys where that is not enough. False: not enough. */
static bool file_in_full(orr_job *job, const orr_tree *keys, const orr_tree *of_call,
                         const orr_tree **full) {
    static const char *const around[] = {"model",    "hardware", "cluster", "fabric",        "nic",
                                         "software", "gpus",     "nodes",   "gpus_per_node", "seq"};
    orr_resolved *resolved = ORR_NEW(job->arena, orr_resolved);
    orr_tree *under = orr_tree_new_map(job->arena);
    for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
        const orr_tree *value = orr_tree_get(of_call, around[i]);
        if (value != NULL && orr_tree_get(keys, around[i]) == NULL) {
            (void)orr_tree_put(job->arena, under, around[i], orr_tree_copy(job->arena, value));
        }
    }
    *full = keys;
    const orr_tree *whole = with_machine(job->arena, orr_plan_merge(job->arena, under, keys), NULL);
    if (orr_plan_resolve(job->arena, whole, resolved, NULL) != ORR_OK) {
        return false;
    }
    *full = in_full(job->arena, keys, resolved);
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

orr_status orr_job_export(orr_job *job, const char *to, const orr_tree *keys, const orr_tree *card,
                          orr_tree *into, orr_err *err) {
    orr_export out = {0};
    ORR_TRY(orr_export_plan(job->arena, to, keys, card, &out, err));
    orr_tree_put_text(job->arena, into, "format", out.format);
    orr_tree_put_text(job->arena, into, "launcher", out.launcher);
    orr_tree_put_text(job->arena, into, "text", out.text);
    orr_tree_put_text(job->arena, into, "overrides", out.overrides);
    orr_tree_put_text(job->arena, into, "env", out.env);
    (void)orr_tree_put(job->arena, into, "lost", orr_tree_copy(job->arena, out.lost));
    return ORR_OK;
}

/* Keys that have no setting in one sentence, others each with its reason. */
static void warn_lost(orr_job *job, const orr_tree *lost, const char *format) {
    orr_text plain = orr_text_new(job->arena, 1 << 16);
    for (size_t i = 0; i < orr_tree_size(lost); i++) {
        const orr_tree *one = orr_tree_at(lost, i);
        const char *key = orr_tree_text(orr_tree_get(one, "key"), "");
        const char *value = orr_tree_text(orr_tree_get(one, "value"), "");
        const char *why = orr_tree_text(orr_tree_get(one, "why"), "");
        if (strcmp(why, "no setting says it") == 0) {
            orr_text_format(&plain, "%s%s = %s", plain.length > 0 ? ", " : "", key, value);
        } else {
            orr_job_warn(job, "not-expressed", key, "%s cannot be told %s = %s: %s", format, key,
                         value, why);
        }
    }
    if (plain.length > 0) {
        orr_job_warn(job, "not-expressed", NULL, "%s has no settings for %s", format,
                     orr_text_done(&plain));
    }
}

orr_status orr_job_changes(orr_job *job, const char *path, const orr_tree *keys, orr_tree *into,
                           orr_err *err) {
    orr_import input = {0};
    const orr_tree *changes = NULL;
    ORR_TRY(orr_import_file(job->arena, path, &input, err));
    const orr_tree *merged = orr_plan_merge(job->arena, input.keys, keys);
    if (file_in_full(job, input.keys, keys, &input.keys)) {
        ORR_TRY(complete(job, merged, NULL, false, &merged, err));
    }
    ORR_TRY(orr_export_changes(job->arena, path, &input, merged, &changes, err));
    orr_tree_put_text(job->arena, into, "against", path);
    (void)orr_tree_put(job->arena, into, "changes", orr_tree_copy(job->arena, changes));
    return ORR_OK;
}

static orr_status write_changes(orr_job *job, const char *path, const orr_tree *keys,
                                const char **to, const orr_tree **merged, orr_err *err) {
    orr_import input = {0};
    ORR_TRY(orr_import_file(job->arena, path, &input, err));
    *merged = orr_plan_merge(job->arena, input.keys, keys);
    *to = *to != NULL ? *to : orr_export_format_of(input.format);
    const char *own = orr_export_format_of(input.format);
    if (own != NULL && *to != NULL && !orr_name_equal(own, *to)) {
        return orr_fail(err, ORR_E_USAGE, "%s is of %s: changes to it are not written as %s", path,
                        own, *to);
    }
    return orr_job_changes(job, path, keys, job->result, err);
}

orr_status orr_command_export(orr_job *job, orr_err *err) {
    const char *to = orr_tree_text(orr_tree_get(job->args, "to"), NULL);
    const char *against = orr_tree_text(orr_tree_get(job->args, "against"), NULL);
    const orr_tree *keys = NULL;
    ORR_TRY(orr_job_keys(job, &keys, err));
    if (against == NULL && orr_tree_size(keys) == 0) {
        (void)orr_fail(err, ORR_E_USAGE, "export needs a plan: none is given");
        orr_hint(err, "give a FILE, or options such as --model NAME --gpus N --gbs N --seq N");
        return ORR_E_USAGE;
    }
    if (against != NULL) {
        ORR_TRY(write_changes(job, against, keys, &to, &keys, err));
    }
    to = to != NULL ? to : job->file_format;
    to = to != NULL ? to : "megatron-lm";
    if (against == NULL) {
        ORR_TRY(complete(job, keys, to, true, &keys, err));
    }
    ORR_TRY(orr_job_export(job, to, keys, card_of(job, keys), job->result, err));
    warn_lost(job, orr_tree_get(job->result, "lost"), to);
    return ORR_OK;
}
