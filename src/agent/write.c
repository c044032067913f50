/* What the run found, and what that is worth. */
#include <string.h>

#include "agent/agent_int.h"
#include "base/err.h"

enum { BASELINE_SEEDS = 5 };

void agent_record(const agent *a, const char *kind, orr_tree *entry) {
    if (a->client->world.record == NULL) {
        return;
    }
    orr_arena *arena = orr_arena_new();
    orr_tree *line = orr_tree_new_map(arena);
    orr_tree_put_text(arena, line, "kind", kind);
    for (size_t i = 0; i < orr_tree_size(entry); i++) {
        (void)orr_tree_put(arena, line, orr_tree_key(entry, i),
                           orr_tree_copy(arena, orr_tree_at(entry, i)));
    }
    a->client->world.record(a->client->world.user, line);
    orr_arena_free(arena);
}

void agent_record_plan(const agent *a, const char *kind, uint32_t trial, orr_tree *entry) {
    const orr_tree *envelope = a->trial[trial].plan.envelope;
    const orr_tree *inputs = orr_tree_get(envelope, "inputs");
    (void)orr_tree_put(a->arena, entry, "keys",
                       inputs != NULL ? orr_tree_copy(a->arena, inputs)
                                      : orr_tree_copy(a->arena, a->trial[trial].overrides));
    orr_tree_put_real(a->arena, entry, "need_bytes",
                      orr_tree_real(orr_tree_path(envelope, "result.memory.need_bytes"), 0));
    agent_record(a, kind, entry);
}

/* ---- decision ------------------------------------------------------------------------------- */

static bool has_measured(const agent *a) {
    for (uint32_t i = 0; i < a->measured_count; i++) {
        if (a->measured[i].run) {
            return true;
        }
    }
    return false;
}

/* The best by projection, or, when something was measured, by what is to be expected since. The
 * model's own choice does not decide: it is told beside it. */
static orr_status decide(agent *a, orr_tree *out, uint32_t *best, orr_err *err) {
    *best = a->best;
    if (!has_measured(a)) {
        return ORR_OK;
    }
    orr_arena *arena = orr_arena_new();
    uint32_t of[ORR_PLANNER_MAX];
    orr_planner *planner = ORR_NEW(arena, orr_planner);
    orr_status status = agent_plan_measurements(a, arena, planner, of, err);
    if (status == ORR_OK && planner->count > 0) {
        orr_planner_view view;
        orr_planner_look(planner, &view);
        *best = of[view.best];
        (void)orr_tree_put(a->arena, out, "planner", orr_planner_write(a->arena, planner));
    }
    orr_arena_free(arena);
    return status;
}

/* ---- parts ---------------------------------------------------------------------------------- */

static void put_trials(agent *a, orr_tree *out) {
    orr_tree *rows = orr_tree_put(a->arena, out, "trials", orr_tree_new_list(a->arena));
    for (uint32_t i = 0; i < a->trial_count; i++) {
        orr_tree *row = orr_tree_push(a->arena, rows, agent_row(a, a->arena, i));
        orr_tree_put_text(a->arena, row, "source", a->trial[i].source);
        orr_tree_put_int(a->arena, row, "round", a->trial[i].round);
        if (a->trial[i].why[0] != '\0') {
            orr_tree_put_text(a->arena, row, "why", a->trial[i].why);
        }
    }
}

static void put_measurements(agent *a, orr_tree *out) {
    orr_tree *rows = orr_tree_put(a->arena, out, "measurements", orr_tree_new_list(a->arena));
    for (uint32_t i = 0; i < a->measured_count; i++) {
        const agent_measurement *m = &a->measured[i];
        orr_tree *row = orr_tree_push(a->arena, rows, orr_tree_new_map(a->arena));
        orr_tree_put_int(a->arena, row, "trial", m->trial);
        orr_tree_put_bool(a->arena, row, "run", m->run);
        orr_tree_put_real(a->arena, row, "projected", a->trial[m->trial].plan.tokens_per_s_per_gpu);
        if (m->run) {
            orr_tree_put_real(a->arena, row, "measured", m->tokens_per_s_per_gpu);
            orr_tree_put_real(a->arena, row, "device_s", m->device_s);
        }
        orr_tree_put_text(a->arena, row, "why", m->why);
    }
}

static void put_spent(agent *a, orr_tree *out) {
    const orr_llm_spent *s = &a->client->spent;
    orr_tree *spent = orr_tree_put(a->arena, out, "spent", orr_tree_new_map(a->arena));
    orr_tree_put_int(a->arena, spent, "rounds", a->rounds);
    orr_tree_put_int(a->arena, spent, "requests", s->requests);
    orr_tree_put_int(a->arena, spent, "retries", s->retries);
    orr_tree_put_int(a->arena, spent, "in_tok", s->usage.in);
    orr_tree_put_int(a->arena, spent, "cached_in_tok", s->usage.cached_in);
    orr_tree_put_int(a->arena, spent, "out_tok", s->usage.out);
    (void)orr_tree_put(a->arena, spent, "dollars",
                       s->dollars_known ? orr_tree_new_real(a->arena, s->dollars)
                                        : orr_tree_null(a->arena));
    orr_tree_put_int(a->arena, spent, "tool_calls", a->tool_calls);
    orr_tree_put_int(a->arena, spent, "refused_calls", a->refused_calls);
    orr_tree_put_int(a->arena, spent, "evaluations", a->evaluations);
    orr_tree_put_int(a->arena, spent, "duplicates", a->duplicates);
    orr_tree_put_real(a->arena, spent, "device_s", a->device_s);
    orr_tree_put_int(a->arena, spent, "device_trials", a->device_trials);
    orr_tree_put_int(a->arena, spent, "expert_calls", a->expert_calls);
}

/* ---- fairness ------------------------------------------------------------------------------- */

static void put_method(agent *a, orr_tree *rows, const char *name, uint32_t evaluations,
                       double value, double most) {
    orr_tree *row = orr_tree_push(a->arena, rows, orr_tree_new_map(a->arena));
    orr_tree_put_text(a->arena, row, "method", name);
    orr_tree_put_int(a->arena, row, "evaluations", evaluations);
    orr_tree_put_real(a->arena, row, "best", value);
    if (most > 0) {
        orr_tree_put_real(a->arena, row, "regret_frac", 1 - value / most);
    }
}

static void put_curve(agent *a, orr_tree *curves, const char *name, const double *so_far,
                      uint32_t count) {
    orr_tree *list = orr_tree_put(a->arena, curves, name, orr_tree_new_list(a->arena));
    for (uint32_t i = 0; i < count; i++) {
        (void)orr_tree_push(a->arena, list, orr_tree_new_real(a->arena, so_far[i]));
    }
}

/* The model's own trials in their order: what it would have found alone. */
static uint32_t own_curve(agent *a, double *so_far) {
    double best = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < a->trial_count; i++) {
        const agent_trial *t = &a->trial[i];
        if (strcmp(t->source, "model") == 0 && t->plan.legal) {
            best = t->plan.fits && t->plan.tokens_per_s_per_gpu > best
                       ? t->plan.tokens_per_s_per_gpu
                       : best;
            so_far[count++] = best;
        }
    }
    return count;
}

typedef orr_status (*baseline_fn)(const orr_oracle *, orr_arena *, const orr_tree *,
                                  const orr_tree *, uint32_t, uint64_t, orr_agent_trace *,
                                  orr_err *);

/* One seed is luck: of some, the run whose end is in the middle. */
static orr_status run_baseline(agent *a, baseline_fn method, orr_agent_trace *out, orr_err *err) {
    orr_agent_trace runs[BASELINE_SEEDS];
    for (uint32_t s = 0; s < BASELINE_SEEDS; s++) {
        orr_agent_trace now;
        ORR_TRY(method(a->task->oracle, a->arena, a->task->base, a->task->search_args,
                       a->task->limits.evaluations, s + 1, &now, err));
        uint32_t at = s;
        for (; at > 0 && runs[at - 1].best > now.best; at--) {
            runs[at] = runs[at - 1];
        }
        runs[at] = now;
    }
    *out = runs[BASELINE_SEEDS / 2];
    return ORR_OK;
}

/* As many evaluations for each method as the model had. */
static orr_status put_fairness(agent *a, orr_tree *out, orr_err *err) {
    uint32_t budget = a->task->limits.evaluations;
    orr_agent_trace random, climb;
    ORR_TRY(run_baseline(a, orr_agent_random, &random, err));
    ORR_TRY(run_baseline(a, orr_agent_hill_climb, &climb, err));
    double *own = ORR_NEW_ARRAY(a->arena, double, AGENT_MAX_TRIALS);
    uint32_t own_count = own_curve(a, own);
    double own_best = own_count > 0 ? own[own_count - 1] : 0;
    double certified =
        orr_tree_real(orr_tree_path(a->task->search, "best.tokens_per_s_per_gpu"), 0);
    const double values[] = {own_best, random.best, climb.best, certified};
    double most = 0;
    for (size_t i = 0; i < 4; i++) {
        most = values[i] > most ? values[i] : most;
    }
    orr_tree *fairness = orr_tree_put(a->arena, out, "fairness", orr_tree_new_map(a->arena));
    orr_tree_put_int(a->arena, fairness, "budget_evaluations", budget);
    orr_tree_put_int(a->arena, fairness, "seeds", BASELINE_SEEDS);
    orr_tree *rows = orr_tree_put(a->arena, fairness, "rows", orr_tree_new_list(a->arena));
    put_method(a, rows, "model", own_count, own_best, most);
    put_method(a, rows, "random", random.count, random.best, most);
    put_method(a, rows, "hill-climb", climb.count, climb.best, most);
    if (certified > 0) {
        put_method(
            a, rows, "branch-and-bound",
            (uint32_t)orr_tree_int(orr_tree_path(a->task->search, "certificate.evaluated"), 0),
            certified, most);
    }
    bool won = own_best > random.best && own_best > climb.best && own_best > certified;
    orr_tree_put_text(a->arena, fairness, "verdict",
                      won ? "the model found a plan that no other method found"
                          : "the model found nothing that another method had not");
    orr_tree *curves = orr_tree_put(a->arena, fairness, "best_so_far", orr_tree_new_map(a->arena));
    put_curve(a, curves, "model", own, own_count);
    put_curve(a, curves, "random", random.so_far, random.count);
    put_curve(a, curves, "hill-climb", climb.so_far, climb.count);
    return ORR_OK;
}

/* ---- whole ---------------------------------------------------------------------------------- */

static orr_tree *chosen_row(agent *a, uint32_t trial) {
    orr_tree *row = agent_row(a, a->arena, trial);
    orr_tree_put_text(a->arena, row, "source", a->trial[trial].source);
    /* In full: it is compared with the search's. */
    orr_tree_put_real(a->arena, row, "tokens_per_s_per_gpu",
                      a->trial[trial].plan.tokens_per_s_per_gpu);
    (void)orr_tree_put(
        a->arena, row, "keys",
        orr_tree_copy(a->arena, orr_tree_get(a->trial[trial].plan.envelope, "inputs")));
    return row;
}

orr_status agent_write(agent *a, orr_tree *out, orr_err *err) {
    orr_arena *arena = a->arena;
    uint32_t best = UINT32_MAX;
    orr_tree_put_text(arena, out, "provider", a->client->endpoint.name);
    orr_tree_put_text(arena, out, "model", a->client->endpoint.model);
    orr_tree_put_bool(arena, out, "replayed", a->client->replay != NULL);
    orr_tree_put_text(arena, out, "stopped", a->stopped);
    ORR_TRY(decide(a, out, &best, err));
    (void)orr_tree_put(arena, out, "best",
                       best == UINT32_MAX ? orr_tree_null(arena) : chosen_row(a, best));
    (void)orr_tree_put(arena, out, "submitted",
                       a->submitted == UINT32_MAX ? orr_tree_null(arena)
                                                  : orr_tree_new_int(arena, (int64_t)a->submitted));
    orr_tree_put_text(arena, out, "rationale", a->rationale);
    put_trials(a, out);
    put_measurements(a, out);
    orr_tree *notes = orr_tree_put(arena, out, "notes", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < a->note_count; i++) {
        (void)orr_tree_push(arena, notes, orr_tree_new_text(arena, a->note[i]));
    }
    if (a->task->fairness) {
        ORR_TRY(put_fairness(a, out, err));
    }
    put_spent(a, out);
    agent_record(a, "end", orr_tree_copy(arena, orr_tree_get(out, "spent")));
    return ORR_OK;
}
