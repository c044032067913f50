/* What the model is told: the problem, and what was tried. */
#include <string.h>

#include "agent/agent_int.h"
#include "base/num.h"

enum { CARD_BYTES = 12 << 10, TABLE_ROWS = 12, FAILED_ROWS = 5 };

static void add_workload(const agent *a, orr_arena *arena, orr_text *out) {
    static const char *const keys[] = {"model", "hardware",      "cluster", "software",
                                       "gpus",  "gpus_per_node", "gbs",     "seq"};
    const orr_tree *inputs = orr_tree_get(a->trial[0].plan.envelope, "inputs");
    orr_text_add(out, "Workload:");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const orr_tree *value = orr_tree_get(inputs, keys[i]);
        if (orr_tree_kind_of(value) == ORR_TREE_MAP) {
            const char *name = orr_tree_text(orr_tree_get(value, "name"),
                                             orr_tree_text(orr_tree_get(value, "like"), "own"));
            orr_text_format(out, " %s %s;", keys[i], agent_clean(arena, name, 80));
        } else if (orr_tree_kind_of(value) == ORR_TREE_TEXT) {
            orr_text_format(out, " %s %s;", keys[i],
                            agent_clean(arena, orr_tree_text(value, ""), 80));
        } else if (value != NULL) {
            orr_text_format(out, " %s %lld;", keys[i], (long long)orr_tree_int(value, 0));
        }
    }
    orr_text_add(out, "\n");
}

static void add_axes(const agent *a, orr_arena *arena, orr_text *out) {
    orr_text_add(out, "Open keys and their values (rules decide on combinations):\n");
    for (uint32_t i = 0; i < a->axis_count; i++) {
        orr_text_format(out, "- %s:", a->axis[i].key);
        for (size_t v = 0; v < orr_tree_size(a->axis[i].values); v++) {
            const orr_tree *value = orr_tree_at(a->axis[i].values, v);
            orr_text_format(out, " %s", orr_tree_text(value, orr_write_json(arena, value, false)));
        }
        orr_text_add(out, "\n");
    }
}

static void add_search(const agent *a, orr_text *out) {
    const orr_tree *certificate = orr_tree_get(a->task->search, "certificate");
    if (certificate == NULL) {
        orr_text_add(out, "No search has been run.\n");
        return;
    }
    bool complete = orr_tree_bool(orr_tree_get(certificate, "complete"), false);
    orr_text_format(
        out, "An exact search %s: %lld plans, %lld within the model's own error of the best.%s\n",
        complete ? "covered its whole space" : "was stopped early",
        (long long)orr_tree_int(orr_tree_get(certificate, "space"), 0),
        (long long)orr_tree_int(orr_tree_get(certificate, "within_model_error"), 0),
        a->task->blind ? " Its winner is kept from you." : "");
}

static void add_assumptions(const agent *a, orr_arena *arena, orr_text *out) {
    const orr_tree *list = orr_tree_get(a->trial[0].plan.envelope, "assumptions");
    orr_text_add(out, "Assumed, since nobody said:");
    for (size_t i = 0; i < orr_tree_size(list) && i < 24; i++) {
        const orr_tree *one = orr_tree_at(list, i);
        orr_text_format(out, " %s=%s;", orr_tree_text(orr_tree_get(one, "key"), ""),
                        agent_clean(arena, orr_tree_text(orr_tree_get(one, "value"), ""), 60));
    }
    orr_text_add(out, "\n");
}

const char *agent_card(const agent *a, orr_arena *arena) {
    orr_text out = orr_text_new(arena, CARD_BYTES);
    add_workload(a, arena, &out);
    add_axes(a, arena, &out);
    add_assumptions(a, arena, &out);
    orr_text_format(&out, "Trial 0, the baseline: %s\n",
                    orr_write_json(arena, agent_row(a, arena, 0), false));
    add_search(a, &out);
    if (a->task->guidance != NULL) {
        orr_text_format(&out, "The engineer says: %s\n",
                        agent_clean(arena, a->task->guidance, 1000));
    }
    return orr_text_done(&out);
}

/* ---- history -------------------------------------------------------------------------------- */

static bool is_hidden(const agent *a, uint32_t trial) {
    return a->task->blind && strcmp(a->trial[trial].source, "search") == 0;
}

/* Trials that fit, by throughput, and the last ones that do not. */
static void add_table(const agent *a, orr_arena *arena, orr_text *out) {
    bool shown[AGENT_MAX_TRIALS] = {false};
    orr_text_add(out, "trial | tokens/s/GPU | 90 % | memory | P(OOM) | plan\n");
    for (uint32_t row = 0; row < TABLE_ROWS; row++) {
        uint32_t most = UINT32_MAX;
        for (uint32_t i = 0; i < a->trial_count; i++) {
            if (!shown[i] && !is_hidden(a, i) && a->trial[i].plan.fits &&
                (most == UINT32_MAX || a->trial[i].plan.tokens_per_s_per_gpu >
                                           a->trial[most].plan.tokens_per_s_per_gpu)) {
                most = i;
            }
        }
        if (most == UINT32_MAX) {
            break;
        }
        shown[most] = true;
        const orr_belt_plan *p = &a->trial[most].plan;
        orr_text_format(out, "%u | %.0f | %.0f-%.0f | %.0f %% | %.0f %% | %s\n", most,
                        p->tokens_per_s_per_gpu, p->low, p->high, 100 * p->need_frac,
                        100 * p->p_oom, agent_plan_text(a, arena, most));
    }
    uint32_t failed = 0;
    for (uint32_t i = a->trial_count; i-- > 0 && failed < FAILED_ROWS;) {
        const orr_belt_plan *p = &a->trial[i].plan;
        if (p->readable && !p->fits) {
            const orr_tree *rule = orr_tree_path(p->envelope, "result.verdict.rules.0");
            orr_text_format(out, "%u | %s | %s\n", i,
                            p->legal ? "does not fit"
                                     : orr_tree_text(orr_tree_get(rule, "id"), "illegal"),
                            agent_plan_text(a, arena, i));
            failed++;
        }
    }
}

static void add_measured(const agent *a, orr_text *out) {
    for (uint32_t i = 0; i < a->measured_count; i++) {
        const agent_measurement *m = &a->measured[i];
        if (m->run && m->tokens_per_s_per_gpu > 0) {
            orr_text_format(out, "measured: trial %u ran at %.1f tokens/s/GPU (projected %.1f)\n",
                            m->trial, m->tokens_per_s_per_gpu,
                            a->trial[m->trial].plan.tokens_per_s_per_gpu);
        } else {
            orr_text_format(out, "%s: trial %u\n",
                            m->run ? "measured, ran out of memory" : "proposed, not run", m->trial);
        }
    }
}

const char *agent_history(const agent *a, orr_arena *arena) {
    const orr_agent_limits *limits = &a->task->limits;
    orr_text out = orr_text_new(arena, CARD_BYTES);
    add_table(a, arena, &out);
    add_measured(a, &out);
    for (uint32_t i = 0; i < a->note_count; i++) {
        orr_text_format(&out, "note: %s\n", a->note[i]);
    }
    orr_text_format(
        &out,
        "Left: %u of %u evaluations, %u of %u tool calls, %u questions to experts, %u measurements "
        "in %.0f s of device.\n",
        limits->evaluations - orr_min_u32(limits->evaluations, a->evaluations), limits->evaluations,
        limits->tool_calls - orr_min_u32(limits->tool_calls, a->tool_calls), limits->tool_calls,
        limits->expert_calls - orr_min_u32(limits->expert_calls, a->expert_calls),
        a->device_count > 0
            ? limits->device_trials - orr_min_u32(limits->device_trials, a->device_trials)
            : 0,
        orr_max_f64(0, (a->device_count > 0 ? limits->device_s : 0) - a->device_s));
    return orr_text_done(&out);
}
