/* What the model's calls do. A wrong call is answered with what would be right; only a cancelled or
 * broken oracle ends the run. */
#include <string.h>

#include "agent/agent_int.h"
#include "base/err.h"
#include "base/num.h"

/* One call on its way: what it says back, in an arena that is gone after it. */
typedef struct action {
    agent *a;
    const orr_tree *args;
    orr_arena *arena;
    orr_tree *out;
    bool is_error;
} action;

typedef orr_status (*action_fn)(action *x, orr_err *err);

static orr_status refuse(action *x, const char *message) {
    x->is_error = true;
    orr_tree_put_text(x->arena, x->out, "error", message);
    return ORR_OK;
}

/* What the oracle refuses is an answer; a cancellation is not. */
static orr_status answer_error(action *x, orr_status status, const orr_err *problem, orr_err *err) {
    if (status == ORR_E_CANCELLED || status == ORR_E_INTERNAL) {
        if (err != NULL) {
            *err = *problem;
        }
        return status;
    }
    orr_tree_put_text(x->arena, x->out, "hint", problem->hint);
    return refuse(x, orr_arena_text(x->arena, problem->message));
}

/* The trial that an argument names; false, and refused, when there is none. */
static bool trial_of(action *x, const char *key, uint32_t *trial) {
    const orr_tree *value = orr_tree_get(x->args, key);
    int64_t n = orr_tree_int(value, -1);
    const char *text = orr_tree_text(value, NULL); /* small models write "3" */
    if (text != NULL && !orr_parse_int(text, &n)) {
        n = -1;
    }
    if (n < 0 || n >= (int64_t)x->a->trial_count) {
        (void)refuse(x, orr_arena_format(x->arena, "%s must be the number of a trial, 0 to %u", key,
                                         x->a->trial_count - 1));
        return false;
    }
    *trial = (uint32_t)n;
    return true;
}

static const orr_tree *whole_plan(action *x, uint32_t trial) {
    return orr_belt_merge(x->arena, x->a->task->base, x->a->trial[trial].overrides);
}

/* ---- telling -------------------------------------------------------------------------------- */

static orr_status describe_problem(action *x, orr_err *err) {
    (void)err;
    orr_tree_put_text(x->arena, x->out, "card", agent_card(x->a, x->arena));
    orr_tree_put_text(x->arena, x->out, "history", agent_history(x->a, x->arena));
    return ORR_OK;
}

static orr_status list_rules(action *x, orr_err *err) {
    orr_tree *envelope = NULL;
    const char *filter = orr_tree_text(orr_tree_get(x->args, "filter"), "");
    const orr_oracle *oracle = x->a->task->oracle;
    ORR_TRY(
        oracle->call(oracle->user, "rules", orr_tree_new_map(x->arena), x->arena, &envelope, err));
    const orr_tree *rules = orr_tree_path(envelope, "result.rules");
    orr_tree *list = orr_tree_put(x->arena, x->out, "rules", orr_tree_new_list(x->arena));
    for (size_t i = 0; i < orr_tree_size(rules); i++) {
        const orr_tree *rule = orr_tree_at(rules, i);
        const char *id = orr_tree_text(orr_tree_get(rule, "id"), "");
        const char *summary = orr_tree_text(orr_tree_get(rule, "summary"), "");
        if (filter[0] == '\0') {
            (void)orr_tree_push(x->arena, list, orr_tree_new_text(x->arena, id));
        } else if (strstr(id, filter) != NULL || strstr(summary, filter) != NULL) {
            (void)orr_tree_push(x->arena, list, orr_tree_copy(x->arena, rule));
        }
    }
    return ORR_OK;
}

/* ---- trying --------------------------------------------------------------------------------- */

static bool is_open_key(const agent *a, const char *key) {
    for (uint32_t i = 0; i < a->axis_count; i++) {
        if (strcmp(a->axis[i].key, key) == 0) {
            return true;
        }
    }
    return false;
}

/* The model's map to overrides of the base: those of the trial it starts from, its own over them,
 * and without what follows from a key that moved. NULL when it names a key that is not open. */
static orr_tree *read_plan(action *x, const orr_tree *plan, const char **problem) {
    agent *a = x->a;
    int64_t from = orr_tree_int(orr_tree_get(plan, "from"), 0);
    if (orr_tree_kind_of(plan) != ORR_TREE_MAP || from < 0 || from >= (int64_t)a->trial_count) {
        *problem = orr_arena_format(
            x->arena, "a plan is a map of plan keys; from is a trial, 0 to %u", a->trial_count - 1);
        return NULL;
    }
    orr_tree *own = orr_tree_new_map(a->arena), *along = orr_tree_new_map(a->arena);
    for (size_t i = 0; i < orr_tree_size(plan); i++) {
        const char *key = orr_tree_key(plan, i);
        const orr_tree *value = orr_tree_at(plan, i);
        if (strcmp(key, "from") == 0 || orr_tree_kind_of(value) == ORR_TREE_NULL) {
            continue;
        }
        if (!is_open_key(a, key)) {
            *problem = orr_arena_format(x->arena, "'%s' is no open key of this problem",
                                        agent_clean(x->arena, key, 60));
            return NULL;
        }
        for (uint32_t k = 0; k < a->axis_count; k++) {
            if (strcmp(a->axis[k].key, key) == 0) {
                along =
                    orr_belt_merge_nulls(a->arena, along, orr_belt_step(a->arena, &a->axis[k], 0));
            }
        }
        (void)orr_tree_put(a->arena, own, key, orr_tree_copy(a->arena, value));
    }
    const orr_tree *start = a->trial[from].overrides;
    return orr_belt_merge_nulls(a->arena, orr_belt_merge_nulls(a->arena, start, along), own);
}

static orr_status evaluate(action *x, orr_err *err) {
    agent *a = x->a;
    const orr_tree *plans = orr_tree_get(x->args, "plans");
    orr_tree *alone = orr_tree_new_list(x->arena);
    if (orr_tree_kind_of(plans) == ORR_TREE_MAP) { /* one plan, not in a list */
        (void)orr_tree_push(x->arena, alone, orr_tree_copy(x->arena, plans));
        plans = alone;
    }
    if (orr_tree_kind_of(plans) != ORR_TREE_LIST || orr_tree_size(plans) == 0 ||
        orr_tree_size(plans) > ORR_BELT_MAX_PLANS) {
        return refuse(x, "plans must be a list of 1 to 16 maps of plan keys");
    }
    const char *why =
        agent_clean(a->arena, orr_tree_text(orr_tree_get(x->args, "why"), ""), AGENT_WHY_BYTES);
    orr_tree *rows = orr_tree_put(x->arena, x->out, "trials", orr_tree_new_list(x->arena));
    for (size_t i = 0; i < orr_tree_size(plans); i++) {
        const char *problem = NULL;
        uint32_t trial = 0;
        bool again = false;
        orr_tree *overrides = read_plan(x, orr_tree_at(plans, i), &problem);
        if (overrides == NULL) {
            orr_tree *row = orr_tree_push(x->arena, rows, orr_tree_new_map(x->arena));
            orr_tree_put_text(x->arena, row, "error", problem);
            continue;
        }
        if (a->evaluations >= a->task->limits.evaluations) {
            orr_tree_put_text(x->arena, x->out, "stopped", "no evaluations are left");
            break;
        }
        ORR_TRY(agent_try(a, overrides, "model", why, &trial, &again, err));
        a->evaluations += again ? 0 : 1;
        orr_tree *row = orr_tree_push(x->arena, rows, agent_row(a, x->arena, trial));
        if (again) {
            orr_tree_put_bool(x->arena, row, "duplicate", true);
        }
    }
    orr_tree_put_int(x->arena, x->out, "evaluations_left",
                     (int64_t)a->task->limits.evaluations - (int64_t)a->evaluations);
    return ORR_OK;
}

static orr_tree *texts(action *x, const char *key, const char *also) {
    const orr_tree *own = orr_tree_get(x->args, key);
    const orr_tree *given = orr_tree_get(x->a->task->search_args, also);
    orr_tree *list = orr_tree_new_list(x->arena);
    for (int side = 0; side < 2; side++) {
        const orr_tree *from = side == 0 ? given : own;
        if (orr_tree_kind_of(from) == ORR_TREE_TEXT) {
            (void)orr_tree_push(x->arena, list, orr_tree_copy(x->arena, from));
        }
        for (size_t i = 0; i < orr_tree_size(from) && i < 32; i++) {
            (void)orr_tree_push(x->arena, list, orr_tree_copy(x->arena, orr_tree_at(from, i)));
        }
    }
    return list;
}

/* Pins and ranges may only name open keys: the workload is not the model's to change. */
static const char *closed_key(action *x, const orr_tree *list) {
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const char *text = orr_tree_text(orr_tree_at(list, i), "");
        const char *key = orr_arena_copy(x->arena, text, strcspn(text, "="));
        if (!is_open_key(x->a, key)) {
            return key;
        }
    }
    return NULL;
}

static orr_status search_subspace(action *x, orr_err *err) {
    agent *a = x->a;
    const orr_oracle *oracle = a->task->oracle;
    const char *closed = closed_key(x, orr_tree_get(x->args, "pin"));
    closed = closed != NULL ? closed : closed_key(x, orr_tree_get(x->args, "range"));
    if (closed != NULL) {
        return refuse(x, orr_arena_format(x->arena, "'%s' is no open key of this problem",
                                          agent_clean(x->arena, closed, 60)));
    }
    /* The baseline's own values of open keys would be taken for pins. */
    orr_tree *open_keys = orr_tree_new_map(x->arena);
    for (uint32_t i = 0; i < a->axis_count; i++) {
        orr_tree_put_text(x->arena, open_keys, a->axis[i].key, NULL);
    }
    orr_tree *args = orr_belt_merge(x->arena, orr_belt_merge(x->arena, a->task->base, open_keys),
                                    a->task->search_args);
    double seconds = orr_tree_real(orr_tree_get(x->args, "seconds"), 3);
    (void)orr_tree_put(x->arena, args, "pin", texts(x, "pin", "pin"));
    (void)orr_tree_put(x->arena, args, "range", texts(x, "range", "range"));
    orr_tree_put_real(x->arena, args, "budget", orr_max_f64(1, orr_min_f64(seconds, 10)));
    orr_tree *envelope = NULL;
    orr_err problem = {0};
    orr_status status = oracle->call(oracle->user, "tune", args, x->arena, &envelope, &problem);
    if (status != ORR_OK) {
        return answer_error(x, status, &problem, err);
    }
    const orr_tree *result = orr_tree_get(envelope, "result");
    uint32_t trial = 0;
    bool again = false;
    ORR_TRY(agent_try(a, agent_overrides(a, orr_tree_path(result, "best.plan")), "model's search",
                      "", &trial, &again, err));
    (void)orr_tree_put(x->arena, x->out, "best", agent_row(a, x->arena, trial));
    (void)orr_tree_put(x->arena, x->out, "certificate",
                       orr_tree_copy(x->arena, orr_tree_get(result, "certificate")));
    return ORR_OK;
}

/* ---- asking about trials -------------------------------------------------------------------- */

static orr_status explain(action *x, orr_err *err) {
    uint32_t trial;
    orr_err problem = {0};
    if (!trial_of(x, "trial", &trial)) {
        return ORR_OK;
    }
    const orr_tree *warnings = NULL;
    orr_status status = orr_belt_explain(x->a->task->oracle, x->arena, whole_plan(x, trial), x->out,
                                         &warnings, &problem);
    return status == ORR_OK ? ORR_OK : answer_error(x, status, &problem, err);
}

static orr_status neighbors(action *x, orr_err *err) {
    uint32_t trial;
    orr_err problem = {0};
    if (!trial_of(x, "trial", &trial)) {
        return ORR_OK;
    }
    orr_status status = orr_belt_neighbors(x->a->task->oracle, x->arena, whole_plan(x, trial),
                                           orr_tree_get(x->args, "axes"), x->out, &problem);
    return status == ORR_OK ? ORR_OK : answer_error(x, status, &problem, err);
}

static orr_status sensitivity(action *x, orr_err *err) {
    uint32_t trial;
    orr_err problem = {0};
    if (!trial_of(x, "trial", &trial)) {
        return ORR_OK;
    }
    orr_status status =
        orr_belt_sensitivity(x->a->task->oracle, x->arena, whole_plan(x, trial), x->out, &problem);
    return status == ORR_OK ? ORR_OK : answer_error(x, status, &problem, err);
}

static orr_status compare(action *x, orr_err *err) {
    uint32_t first, second;
    orr_err problem = {0};
    if (!trial_of(x, "a", &first) || !trial_of(x, "b", &second)) {
        return ORR_OK;
    }
    const orr_tree *base = whole_plan(x, first), *other = whole_plan(x, second);
    /* What the first states and the second does not must go. */
    orr_tree *overrides = orr_tree_copy(x->arena, other);
    for (size_t i = 0; i < orr_tree_size(base); i++) {
        if (orr_tree_get(other, orr_tree_key(base, i)) == NULL) {
            orr_tree_put_text(x->arena, overrides, orr_tree_key(base, i), NULL);
        }
    }
    orr_status status =
        orr_belt_compare(x->a->task->oracle, x->arena, base, overrides, x->out, &problem);
    return status == ORR_OK ? ORR_OK : answer_error(x, status, &problem, err);
}

/* ---- measuring ------------------------------------------------------------------------------ */

static orr_status put_planner(action *x, orr_err *err) {
    agent *a = x->a;
    uint32_t of[ORR_PLANNER_MAX];
    orr_planner *planner = ORR_NEW(x->arena, orr_planner);
    ORR_TRY(agent_plan_measurements(a, x->arena, planner, of, err));
    orr_planner_choice choice = orr_planner_next(planner, 0);
    orr_planner_view view;
    orr_planner_look(planner, &view);
    orr_tree *out = orr_tree_put(x->arena, x->out, "planner", orr_tree_new_map(x->arena));
    if (planner->count > 0) {
        orr_tree_put_int(x->arena, out, "best_trial_so_far", of[view.best]);
        orr_tree_put_real(x->arena, out, "expected_regret_frac", view.regret_frac);
    }
    if (choice.candidate != UINT32_MAX) {
        orr_tree_put_int(x->arena, out, "would_measure_trial", of[choice.candidate]);
        orr_tree_put_real(x->arena, out, "expected_gain_frac", choice.gain_frac);
    } else {
        orr_tree_put_text(x->arena, out, "would_measure_trial", NULL);
    }
    return ORR_OK;
}

static double device_cost_s(action *x, uint32_t trial, orr_err *err) {
    orr_planner *planner = ORR_NEW(x->arena, orr_planner);
    orr_tree *one = orr_tree_new_list(x->arena);
    (void)orr_tree_push(x->arena, one, orr_tree_copy(x->arena, x->a->trial[trial].overrides));
    if (orr_planner_open(x->a->task->oracle, x->arena, x->a->task->base, one, 1, planner, err) !=
            ORR_OK ||
        planner->count == 0) {
        return 0;
    }
    return planner->cost_s[0];
}

static void record_measurement(agent *a, const agent_measurement *m) {
    orr_tree *entry = orr_tree_new_map(a->arena);
    const orr_belt_plan *plan = &a->trial[m->trial].plan;
    double projected = plan->tokens_per_s_per_gpu, seen = m->tokens_per_s_per_gpu;
    orr_tree_put_text(a->arena, entry, "source", "device");
    orr_tree_put_int(a->arena, entry, "trial", m->trial);
    orr_tree_put_bool(a->arena, entry, "legal", true);
    orr_tree_put_bool(a->arena, entry, "fits", seen > 0); /* 0: it ran out of memory */
    orr_tree_put_real(a->arena, entry, "tokens_per_s_per_gpu", seen);
    orr_tree_put_real(a->arena, entry, "step_time_s",
                      seen > 0 ? plan->step_s * projected / seen : 0);
    orr_tree_put_real(a->arena, entry, "device_s", m->device_s);
    orr_tree_put_text(a->arena, entry, "why", m->why);
    agent_record_plan(a, "measurement", m->trial, entry);
}

static orr_status propose_measurement(action *x, orr_err *err) {
    agent *a = x->a;
    uint32_t trial;
    if (!trial_of(x, "trial", &trial)) {
        return ORR_OK;
    }
    if (!a->trial[trial].plan.fits) {
        return refuse(x, "that trial is illegal or does not fit: no device time is spent on it");
    }
    for (uint32_t i = 0; i < a->measured_count; i++) {
        if (a->measured[i].trial == trial) {
            return refuse(x, "that trial was measured or proposed before");
        }
    }
    if (a->measured_count == AGENT_MAX_MEASURED) {
        return refuse(x, "enough has been proposed");
    }
    agent_measurement m = {.trial = trial,
                           .why = agent_clean(a->arena,
                                              orr_tree_text(orr_tree_get(x->args, "why"), ""),
                                              AGENT_WHY_BYTES)};
    double cost_s = device_cost_s(x, trial, err);
    bool affordable = a->device_s + cost_s <= a->task->limits.device_s &&
                      a->device_trials < a->task->limits.device_trials;
    if (affordable && agent_measure(a, trial, &m.tokens_per_s_per_gpu)) {
        m.run = true;
        m.device_s = cost_s;
        a->device_s += cost_s;
        a->device_trials++;
        record_measurement(a, &m);
        orr_tree_put_real(x->arena, x->out, "measured_tokens_per_s_per_gpu",
                          m.tokens_per_s_per_gpu);
        orr_tree_put_real(x->arena, x->out, "projected_tokens_per_s_per_gpu",
                          a->trial[trial].plan.tokens_per_s_per_gpu);
    } else {
        orr_tree_put_text(x->arena, x->out, "status",
                          a->device_count == 0 ? "noted for the engineer: there is no device"
                          : affordable
                              ? "noted for the engineer: not recorded on this device"
                              : "noted for the engineer: the budget of the device is spent");
    }
    a->measured[a->measured_count++] = m;
    return put_planner(x, err);
}

/* ---- experts and notes ---------------------------------------------------------------------- */

static orr_status ask_expert(action *x, orr_err *err) {
    agent *a = x->a;
    (void)err;
    const char *role = orr_tree_text(orr_tree_get(x->args, "role"), "");
    const char *question = orr_tree_text(orr_tree_get(x->args, "question"), "");
    static const char *const roles[] = {"memory", "communication", "pipeline"};
    const char *instructions = NULL;
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(role, roles[i]) == 0) {
            instructions =
                orr_agent_prompt(x->arena, orr_arena_format(x->arena, "expert_%s.md", role));
        }
    }
    if (instructions == NULL || question[0] == '\0') {
        return refuse(x, "role is memory, communication or pipeline, and question is not empty");
    }
    if (a->expert_calls >= a->task->limits.expert_calls) {
        return refuse(x, "no questions to experts are left");
    }
    a->expert_calls++;
    orr_llm_turn turn = {.role = ORR_LLM_USER,
                         .text = orr_arena_format(
                             x->arena, "%s\n%s\nQuestion: %s", agent_card(a, x->arena),
                             agent_history(a, x->arena), agent_clean(x->arena, question, 2000))};
    orr_llm_request request = {.instructions = instructions,
                               .turn = &turn,
                               .turn_count = 1,
                               .max_out_tok = a->task->limits.max_out_tok};
    orr_llm_reply reply;
    orr_llm_failure failure = orr_llm_send(a->client, x->arena, &request, &reply);
    if (failure != ORR_LLM_FINE) {
        return refuse(x,
                      orr_arena_format(x->arena, "the expert does not answer: %s", a->client->why));
    }
    orr_tree_put_text(x->arena, x->out, "opinion", agent_clean(x->arena, reply.text, 4000));
    return ORR_OK;
}

static orr_status note(action *x, orr_err *err) {
    agent *a = x->a;
    (void)err;
    const char *text = orr_tree_text(orr_tree_get(x->args, "text"), "");
    if (text[0] == '\0') {
        return refuse(x, "text is empty");
    }
    if (a->note_count == AGENT_MAX_NOTES) {
        return refuse(x, "32 notes are kept; no more");
    }
    a->note[a->note_count++] = agent_clean(a->arena, text, AGENT_NOTE_BYTES);
    orr_tree_put_int(x->arena, x->out, "notes", a->note_count);
    return ORR_OK;
}

static orr_status read_notes(action *x, orr_err *err) {
    (void)err;
    orr_tree *list = orr_tree_put(x->arena, x->out, "notes", orr_tree_new_list(x->arena));
    for (uint32_t i = 0; i < x->a->note_count; i++) {
        (void)orr_tree_push(x->arena, list, orr_tree_new_text(x->arena, x->a->note[i]));
    }
    return ORR_OK;
}

static orr_status submit(action *x, orr_err *err) {
    agent *a = x->a;
    uint32_t trial;
    (void)err;
    if (!trial_of(x, "trial", &trial)) {
        return ORR_OK;
    }
    if (!a->trial[trial].plan.fits) {
        return refuse(x, "that trial is illegal or does not fit; submit one that does");
    }
    a->submitted = trial;
    a->rationale =
        agent_clean(a->arena, orr_tree_text(orr_tree_get(x->args, "rationale"), ""), 4000);
    orr_tree_put_text(x->arena, x->out, "status", "submitted");
    return ORR_OK;
}

/* ---- dispatch ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    action_fn run;
} actions[] = {{"describe_problem", describe_problem},
               {"list_rules", list_rules},
               {"evaluate", evaluate},
               {"explain", explain},
               {"neighbors", neighbors},
               {"search_subspace", search_subspace},
               {"compare", compare},
               {"sensitivity", sensitivity},
               {"propose_measurement", propose_measurement},
               {"ask_expert", ask_expert},
               {"note", note},
               {"read_notes", read_notes},
               {"submit", submit}};

static bool is_offered(const agent *a, const char *name) {
    for (uint32_t i = 0; i < a->tool_count; i++) {
        if (strcmp(a->tool[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static const char *no_such_tool(action *x, const char *name) {
    orr_text known = orr_text_new(x->arena, 512);
    for (uint32_t i = 0; i < x->a->tool_count; i++) {
        orr_text_format(&known, "%s%s", i == 0 ? "" : ", ", x->a->tool[i].name);
    }
    return orr_arena_format(x->arena, "there is no tool '%s'; there are %s",
                            agent_clean(x->arena, name, 60), orr_text_done(&known));
}

/* Word for word the call before it: small models get stuck so. */
static bool is_repeated(agent *a, const orr_llm_call *call) {
    const char *now = orr_arena_format(a->arena, "%s %s", call->name, call->args_text);
    bool again = a->last_call != NULL && strcmp(now, a->last_call) == 0;
    a->last_call = now;
    return again;
}

static orr_status run(action *x, const orr_llm_call *call, orr_err *err) {
    if (call->args == NULL) {
        return refuse(x, "the arguments are no JSON object");
    }
    if (!is_offered(x->a, call->name)) {
        return refuse(x, no_such_tool(x, call->name));
    }
    if (is_repeated(x->a, call)) {
        return refuse(x, "the same call was answered just now; its answer stands: ask or try "
                         "something else, or submit");
    }
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(actions[i].name, call->name) == 0) {
            return actions[i].run(x, err);
        }
    }
    return refuse(x, no_such_tool(x, call->name));
}

/* Bounded: what is cut off is said, and stays valid text. */
static const char *bounded(agent *a, const char *text) {
    size_t length = strlen(text);
    if (length <= AGENT_RESULT_BYTES) {
        return orr_arena_text(a->arena, text);
    }
    return orr_arena_format(a->arena, "%s ... (%zu more bytes)",
                            agent_clean(a->arena, text, AGENT_RESULT_BYTES - 40),
                            length - (AGENT_RESULT_BYTES - 40));
}

orr_status agent_act(agent *a, const orr_llm_call *call, const char **content, bool *is_error,
                     orr_err *err) {
    action x = {.a = a, .args = call->args, .arena = orr_arena_new()};
    x.out = orr_tree_new_map(x.arena);
    a->tool_calls++;
    orr_status status = run(&x, call, err);
    if (status == ORR_OK) {
        *content = bounded(a, orr_write_json(x.arena, x.out, false));
        *is_error = x.is_error;
        a->refused_calls += x.is_error;
        orr_tree *entry = orr_tree_new_map(x.arena);
        orr_tree_put_text(x.arena, entry, "name", agent_clean(x.arena, call->name, 80));
        orr_tree_put_text(x.arena, entry, "arguments", agent_clean(x.arena, call->args_text, 2000));
        orr_tree_put_bool(x.arena, entry, "is_error", x.is_error);
        orr_tree_put_text(x.arena, entry, "result", *content);
        agent_record(a, "tool", entry);
    }
    orr_arena_free(x.arena);
    return status;
}
