/* Commands that ask many projections: the tool belt over orr_call itself. */
#include <string.h>

#include "agent/planner.h"
#include "api/api.h"
#include "base/err.h"
#include "belt/belt.h"
#include "doc/doc.h"

static orr_status ask(void *user, const char *command, const orr_tree *args, orr_arena *arena,
                      orr_tree **result, orr_err *err) {
    return orr_call((orr_ctx *)user, command, args, arena, result, err);
}

static bool tell(void *user, const char *what, double done, double total) {
    const orr_ctx *ctx = (const orr_ctx *)user;
    return ctx->progress == NULL || ctx->progress(ctx->progress_user, what, done, total);
}

static orr_oracle oracle_of(const orr_job *job) {
    return (orr_oracle){.call = ask, .progress = tell, .user = job->ctx};
}

/* Plan keys without those that follow from others and would hold them fast, and what project takes
 * beside them. */
const orr_tree *orr_job_base(orr_job *job, const orr_tree *keys) {
    orr_tree *free_keys = orr_tree_new_map(job->arena);
    orr_tree_put_text(job->arena, free_keys, "dp", NULL);
    if (orr_tree_get(keys, "gbs") != NULL) {
        orr_tree_put_text(job->arena, free_keys, "micro_batches", NULL);
    }
    static const char *const others[] = {"anchor", "evidence", "evidence_accept", "evidence_use"};
    orr_tree *with_it = orr_tree_new_map(job->arena);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const orr_tree *value = orr_tree_get(job->args, others[i]);
        if (value != NULL) {
            (void)orr_tree_put(job->arena, with_it, others[i], orr_tree_copy(job->arena, value));
        }
    }
    return orr_belt_merge(job->arena, orr_belt_merge(job->arena, keys, free_keys), with_it);
}

static orr_status base_of(orr_job *job, const orr_tree **out, orr_err *err) {
    const orr_tree *keys = NULL;
    ORR_TRY(orr_job_keys(job, &keys, err));
    job->inputs = orr_belt_merge(job->arena, keys, NULL);
    *out = orr_job_base(job, keys);
    return ORR_OK;
}

/* YAML reads {tp:2} as one word without a value. */
static orr_status check_words(const orr_tree *tree, orr_err *err) {
    for (size_t i = 0; i < orr_tree_size(tree); i++) {
        const char *key = orr_tree_kind_of(tree) == ORR_TREE_MAP ? orr_tree_key(tree, i) : "";
        const char *colon = strchr(key, ':');
        if (colon != NULL && orr_tree_kind_of(orr_tree_at(tree, i)) == ORR_TREE_NULL) {
            orr_status status = orr_fail(err, ORR_E_SCHEMA, "'%s' is a key without a value", key);
            orr_hint(err, "a blank goes after the colon: %.*s: %s", (int)(colon - key), key,
                     colon + 1);
            return status;
        }
        ORR_TRY(check_words(orr_tree_at(tree, i), err));
    }
    return ORR_OK;
}

/* An argument that is a tree, or text that holds one, or the path of a file that does. */
static orr_status tree_argument(orr_job *job, const char *name, const orr_tree **out,
                                orr_err *err) {
    const orr_tree *value = orr_tree_get(job->args, name);
    const char *text = orr_tree_text(value, NULL);
    *out = value;
    if (text == NULL) {
        return value != NULL
                   ? ORR_OK
                   : orr_fail(err, ORR_E_USAGE, "%s needs --%s", job->command->name, name);
    }
    orr_tree *read = NULL;
    bool inlined = strpbrk(text, "{[:") != NULL;
    ORR_TRY(inlined ? orr_yaml_read(job->arena, name, text, strlen(text), &read, err)
                    : orr_doc_read_file(job->arena, text, &read, err));
    *out = read;
    return check_words(read, err);
}

/* "tp,vpp" as well as a list. */
static const orr_tree *words_argument(const orr_job *job, const char *name) {
    const orr_tree *value = orr_tree_get(job->args, name);
    const char *text = orr_tree_text(value, NULL);
    if (text == NULL) {
        return value;
    }
    orr_tree *list = orr_tree_new_list(job->arena);
    for (const char *p = text; *p != '\0';) {
        size_t length = strcspn(p, ", ");
        if (length > 0) {
            (void)orr_tree_push(job->arena, list, orr_tree_new_textn(job->arena, p, length));
        }
        p += length + (p[length] != '\0');
    }
    return list;
}

orr_status orr_command_evaluate(orr_job *job, orr_err *err) {
    const orr_tree *base = NULL, *plans = NULL;
    orr_oracle oracle = oracle_of(job);
    ORR_TRY(base_of(job, &base, err));
    ORR_TRY(tree_argument(job, "plans", &plans, err));
    return orr_belt_evaluate(&oracle, job->arena, base, plans, job->result, err);
}

orr_status orr_command_explain(orr_job *job, orr_err *err) {
    const orr_tree *base = NULL;
    orr_oracle oracle = oracle_of(job);
    ORR_TRY(base_of(job, &base, err));
    const orr_tree *warnings = NULL;
    ORR_TRY(orr_belt_explain(&oracle, job->arena, base, job->result, &warnings, err));
    for (size_t i = 0; i < orr_tree_size(warnings); i++) {
        (void)orr_tree_push(job->arena, job->warnings,
                            orr_tree_copy(job->arena, orr_tree_at(warnings, i)));
    }
    return ORR_OK;
}

orr_status orr_command_neighbors(orr_job *job, orr_err *err) {
    const orr_tree *base = NULL;
    orr_oracle oracle = oracle_of(job);
    ORR_TRY(base_of(job, &base, err));
    return orr_belt_neighbors(&oracle, job->arena, base, words_argument(job, "axes"), job->result,
                              err);
}

orr_status orr_command_compare(orr_job *job, orr_err *err) {
    const orr_tree *base = NULL, *with = NULL;
    orr_oracle oracle = oracle_of(job);
    ORR_TRY(base_of(job, &base, err));
    ORR_TRY(tree_argument(job, "with", &with, err));
    return orr_belt_compare(&oracle, job->arena, base, with, job->result, err);
}

orr_status orr_command_sensitivity(orr_job *job, orr_err *err) {
    const orr_tree *base = NULL;
    orr_oracle oracle = oracle_of(job);
    ORR_TRY(base_of(job, &base, err));
    return orr_belt_sensitivity(&oracle, job->arena, base, job->result, err);
}

/* ---- what to measure next ------------------------------------------------------------------- */

/* Measured plans are found among the candidates by what they resolve to. */
static orr_status observe(orr_job *job, const orr_tree *base, const orr_tree *measured,
                          orr_planner *planner, orr_err *err) {
    for (size_t i = 0; i < orr_tree_size(measured); i++) {
        const orr_tree *one = orr_tree_at(measured, i);
        const orr_tree *figure = orr_tree_get(one, "tokens_per_s_per_gpu");
        orr_belt_plan plan;
        ORR_TRY(orr_belt_project(planner->oracle, job->arena, base, orr_tree_get(one, "plan"),
                                 &plan, err));
        uint32_t c = 0;
        while (c < planner->count && strcmp(planner->plan[c].id, plan.id) != 0) {
            c++;
        }
        double tokens_per_s_per_gpu = orr_tree_real(figure, -1);
        if (figure == NULL || tokens_per_s_per_gpu < 0) {
            return orr_fail(err, ORR_E_SCHEMA,
                            "measurement %zu lacks tokens_per_s_per_gpu (0: out of memory)", i);
        }
        if (c == planner->count) {
            orr_job_warn(job, "measured-elsewhere", NULL,
                         "measurement %zu is of no candidate, and tells nothing", i);
        } else {
            orr_planner_observe(planner, c, tokens_per_s_per_gpu);
        }
    }
    return ORR_OK;
}

/* Plans that are no candidates, and why. */
static orr_status put_refused(orr_job *job, const orr_tree *base, const orr_tree *plans,
                              const orr_planner *planner, orr_err *err) {
    orr_tree *list =
        orr_tree_put(job->arena, job->result, "refused", orr_tree_new_list(job->arena));
    for (size_t i = 0; i < orr_tree_size(plans); i++) {
        const orr_tree *overrides = orr_tree_at(plans, i);
        orr_belt_plan plan;
        bool taken = false;
        for (uint32_t c = 0; c < planner->count; c++) {
            taken = taken || planner->overrides[c] == overrides;
        }
        if (taken) {
            continue;
        }
        ORR_TRY(orr_belt_project(planner->oracle, job->arena, base, overrides, &plan, err));
        const orr_tree *rule = orr_tree_at(orr_tree_path(plan.envelope, "result.verdict.rules"), 0);
        const char *why = !plan.readable ? plan.why.message
                          : !plan.legal  ? orr_tree_text(orr_tree_get(rule, "message"), "illegal")
                          : !plan.fits   ? orr_arena_format(job->arena, "needs %.0f %% of memory",
                                                            100 * plan.need_frac)
                                         : "the same plan as one before";
        orr_tree *one = orr_tree_push(job->arena, list, orr_tree_new_map(job->arena));
        orr_tree_put_int(job->arena, one, "index", (int64_t)i);
        (void)orr_tree_put(job->arena, one, "plan", orr_tree_copy(job->arena, overrides));
        orr_tree_put_text(job->arena, one, "why", why);
        orr_job_warn(job, "no-candidate", "plans", "plan %zu is no candidate: %s", i, why);
    }
    if (planner->count == 0) {
        orr_tree *verdict =
            orr_tree_put(job->arena, job->result, "verdict", orr_tree_new_map(job->arena));
        orr_tree_put_bool(job->arena, verdict, "fits", false);
    }
    return ORR_OK;
}

orr_status orr_command_next(orr_job *job, orr_err *err) {
    const orr_tree *base = NULL, *plans = NULL, *measured = NULL;
    orr_oracle oracle = oracle_of(job);
    orr_planner *planner = ORR_NEW(job->arena, orr_planner);
    ORR_TRY(base_of(job, &base, err));
    ORR_TRY(tree_argument(job, "plans", &plans, err));
    if (orr_tree_get(job->args, "measured") != NULL) {
        ORR_TRY(tree_argument(job, "measured", &measured, err));
    }
    if (orr_tree_kind_of(plans) != ORR_TREE_LIST || orr_tree_size(plans) > ORR_PLANNER_MAX) {
        return orr_fail(err, ORR_E_SCHEMA, "plans must be a list of 1 to %d maps", ORR_PLANNER_MAX);
    }
    ORR_TRY(orr_planner_open(&oracle, job->arena, base, plans, 1, planner, err));
    ORR_TRY(observe(job, base, measured, planner, err));
    job->result = orr_planner_write(job->arena, planner);
    ORR_TRY(put_refused(job, base, plans, planner, err));
    orr_planner_choice choice = orr_planner_next(planner, 0);
    if (choice.candidate == UINT32_MAX) {
        (void)orr_tree_put(job->arena, job->result, "next", orr_tree_null(job->arena));
        return ORR_OK;
    }
    orr_tree *next = orr_tree_put(job->arena, job->result, "next", orr_tree_new_map(job->arena));
    orr_tree_put_int(job->arena, next, "candidate", choice.candidate);
    (void)orr_tree_put(job->arena, next, "plan",
                       orr_tree_copy(job->arena, planner->overrides[choice.candidate]));
    orr_tree_put_real(job->arena, next, "expected_gain_frac", choice.gain_frac);
    orr_tree_put_real(job->arena, next, "gain_frac_per_s", choice.per_s);
    orr_tree_put_real(job->arena, next, "measure_s", choice.cost_s);
    return ORR_OK;
}
