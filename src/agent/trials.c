/* The table of trials: plans by what they resolve to. */
#include <string.h>

#include "agent/agent_int.h"
#include "base/err.h"

/* What a plan is projected for, and figures of the machine: not the plan's to change. */
static const char *const workload[] = {
    "model", "hardware",      "cluster",  "software", "fabric",        "nodes",
    "gpus",  "gpus_per_node", "nic",      "dp",       "micro_batches", "gbs",
    "seq",   "file",          "evidence", "anchor",   "from"};

static bool is_workload(const char *key) {
    for (size_t i = 0; i < sizeof workload / sizeof *workload; i++) {
        if (strcmp(key, workload[i]) == 0) {
            return true;
        }
    }
    return false;
}

orr_tree *agent_overrides(const agent *a, const orr_tree *plan) {
    orr_tree *out = orr_tree_new_map(a->arena);
    for (size_t i = 0; i < orr_tree_size(plan); i++) {
        const char *key = orr_tree_key(plan, i);
        if (!is_workload(key)) {
            (void)orr_tree_put(a->arena, out, key, orr_tree_copy(a->arena, orr_tree_at(plan, i)));
        }
    }
    return out;
}

orr_status agent_try(agent *a, const orr_tree *overrides, const char *source, const char *why,
                     uint32_t *trial, bool *again, orr_err *err) {
    orr_belt_plan plan;
    *again = false;
    ORR_TRY(orr_belt_project(a->task->oracle, a->arena, a->task->base, overrides, &plan, err));
    for (uint32_t i = 0; i < a->trial_count && plan.readable; i++) {
        if (strcmp(a->trial[i].plan.id, plan.id) == 0) {
            *again = true;
            *trial = i;
            a->duplicates++;
            return ORR_OK;
        }
    }
    /* The table is full: the last place is used over, the best is never there. */
    uint32_t n = a->trial_count < AGENT_MAX_TRIALS ? a->trial_count++ : AGENT_MAX_TRIALS - 1;
    a->trial[n] = (agent_trial){
        .overrides = overrides, .plan = plan, .source = source, .why = why, .round = a->rounds};
    *trial = n;
    bool better =
        plan.fits && (a->best == UINT32_MAX ||
                      plan.tokens_per_s_per_gpu > a->trial[a->best].plan.tokens_per_s_per_gpu);
    if (better && (n < AGENT_MAX_TRIALS - 1 || a->best == UINT32_MAX)) {
        a->best = n;
    }
    orr_tree *entry = agent_row(a, a->arena, n);
    orr_tree_put_text(a->arena, entry, "source", source);
    orr_tree_put_text(a->arena, entry, "why", why);
    agent_record_plan(a, "trial", n, entry);
    return ORR_OK;
}

orr_tree *agent_row(const agent *a, orr_arena *arena, uint32_t trial) {
    const agent_trial *t = &a->trial[trial];
    orr_tree *row = orr_tree_new_map(arena);
    orr_tree_put_int(arena, row, "trial", trial);
    const orr_tree *rest = orr_belt_row(arena, t->overrides, &t->plan);
    for (size_t i = 0; i < orr_tree_size(rest); i++) {
        (void)orr_tree_put(arena, row, orr_tree_key(rest, i),
                           orr_tree_copy(arena, orr_tree_at(rest, i)));
    }
    if (t->plan.readable) {
        orr_tree_put_text(arena, row, "plan", agent_plan_text(a, arena, trial));
    }
    return row;
}

static void add_value(orr_text *out, const orr_tree *value) {
    if (orr_tree_kind_of(value) == ORR_TREE_TEXT) {
        orr_text_add(out, orr_tree_text(value, ""));
    } else if (orr_tree_kind_of(value) == ORR_TREE_BOOL) {
        orr_text_add(out, orr_tree_bool(value, false) ? "on" : "off");
    } else if (orr_tree_kind_of(value) == ORR_TREE_LIST) {
        for (size_t i = 0; i < orr_tree_size(value); i++) {
            orr_text_format(out, "%s%s", i == 0 ? "" : ",",
                            orr_tree_text(orr_tree_at(value, i), ""));
        }
        orr_text_add(out, orr_tree_size(value) == 0 ? "none" : "");
    } else {
        orr_text_format(out, "%lld", (long long)orr_tree_int(value, 0));
    }
}

const char *agent_plan_text(const agent *a, orr_arena *arena, uint32_t trial) {
    const orr_tree *inputs = orr_tree_get(a->trial[trial].plan.envelope, "inputs");
    orr_text out = orr_text_new(arena, 512);
    for (uint32_t i = 0; i < a->axis_count; i++) {
        const orr_tree *value = orr_tree_get(inputs, a->axis[i].key);
        if (value != NULL) {
            orr_text_format(&out, "%s%s ", out.length == 0 ? "" : " ", a->axis[i].key);
            add_value(&out, value);
        }
    }
    return orr_text_done(&out);
}

const char *agent_clean(orr_arena *arena, const char *text, size_t most) {
    orr_text out = orr_text_new(arena, most);
    for (const char *p = text; *p != '\0' && out.length < most; p++) {
        char c = (unsigned char)*p < ' ' || *p == 127 ? ' ' : *p;
        orr_text_addn(&out, &c, 1);
    }
    /* A cut may not halve a character. */
    while (out.length > 0 && text[out.length] != '\0' &&
           ((unsigned char)text[out.length] & 0xc0) == 0x80) {
        out.length--;
    }
    return orr_text_done(&out);
}
