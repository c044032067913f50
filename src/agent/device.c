/* A device that replays measurements, and what to measure on it. */
#include <stdio.h>
#include <string.h>

#include "agent/agent_int.h"
#include "base/err.h"

/* Measured plans by what they resolve to, so that any spelling finds them. */
orr_status agent_open_device(agent *a, orr_err *err) {
    const orr_tree *list = a->task->measured;
    if (list != NULL &&
        (orr_tree_kind_of(list) != ORR_TREE_LIST || orr_tree_size(list) > AGENT_MAX_MEASURED)) {
        return orr_fail(err, ORR_E_SCHEMA, "measured must be a list of at most %d maps",
                        AGENT_MAX_MEASURED);
    }
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        orr_belt_plan plan;
        const orr_tree *one = orr_tree_at(list, i);
        ORR_TRY(orr_belt_project(a->task->oracle, a->arena, a->task->base,
                                 orr_tree_get(one, "plan"), &plan, err));
        (void)snprintf(a->device_id[a->device_count++], ORR_BELT_ID_BYTES, "%s", plan.id);
        if (!plan.readable || orr_tree_get(one, "tokens_per_s_per_gpu") == NULL) {
            return orr_fail(err, ORR_E_SCHEMA,
                            "measurement %zu is no {plan, tokens_per_s_per_gpu}%s%s", i,
                            plan.readable ? "" : ": ", plan.readable ? "" : plan.why.message);
        }
    }
    return ORR_OK;
}

bool agent_measure(agent *a, uint32_t trial, double *tokens_per_s_per_gpu) {
    for (uint32_t i = 0; i < a->device_count; i++) {
        if (strcmp(a->device_id[i], a->trial[trial].plan.id) == 0) {
            const orr_tree *one = orr_tree_at(a->task->measured, i);
            *tokens_per_s_per_gpu = orr_tree_real(orr_tree_get(one, "tokens_per_s_per_gpu"), 0);
            return true;
        }
    }
    return false;
}

/* The best trials that fit, and every one that was measured. */
static uint32_t choose_candidates(const agent *a, uint32_t chosen[ORR_PLANNER_MAX]) {
    bool taken[AGENT_MAX_TRIALS] = {false};
    uint32_t count = 0;
    for (uint32_t i = 0; i < a->measured_count && count < ORR_PLANNER_MAX; i++) {
        if (a->measured[i].run && !taken[a->measured[i].trial]) {
            taken[a->measured[i].trial] = true;
            chosen[count++] = a->measured[i].trial;
        }
    }
    while (count < ORR_PLANNER_MAX) {
        uint32_t most = UINT32_MAX;
        for (uint32_t i = 0; i < a->trial_count; i++) {
            if (!taken[i] && a->trial[i].plan.fits &&
                (most == UINT32_MAX || a->trial[i].plan.tokens_per_s_per_gpu >
                                           a->trial[most].plan.tokens_per_s_per_gpu)) {
                most = i;
            }
        }
        if (most == UINT32_MAX) {
            break;
        }
        taken[most] = true;
        chosen[count++] = most;
    }
    return count;
}

orr_status agent_plan_measurements(agent *a, orr_arena *arena, orr_planner *planner,
                                   uint32_t *candidate_trial, orr_err *err) {
    uint32_t chosen[ORR_PLANNER_MAX], count = choose_candidates(a, chosen);
    orr_tree *list = orr_tree_new_list(arena);
    for (uint32_t i = 0; i < count; i++) {
        (void)orr_tree_push(arena, list, orr_tree_copy(arena, a->trial[chosen[i]].overrides));
    }
    ORR_TRY(orr_planner_open(a->task->oracle, arena, a->task->base, list, 1, planner, err));
    for (uint32_t c = 0; c < planner->count; c++) {
        candidate_trial[c] = UINT32_MAX;
        for (uint32_t i = 0; i < count; i++) {
            if (strcmp(planner->plan[c].id, a->trial[chosen[i]].plan.id) == 0) {
                candidate_trial[c] = chosen[i];
            }
        }
        for (uint32_t m = 0; m < a->measured_count; m++) {
            if (a->measured[m].run && a->measured[m].trial == candidate_trial[c]) {
                orr_planner_observe(planner, c, a->measured[m].tokens_per_s_per_gpu);
            }
        }
    }
    return ORR_OK;
}
