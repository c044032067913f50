/* Rounds of a conversation, and when to end. */
#include <stdio.h>
#include <string.h>

#include "agent/agent_int.h"
#include "base/err.h"

enum { MAX_TURNS = 256 };

orr_agent_limits orr_agent_limits_default(void) {
    return (orr_agent_limits){.rounds = 4,
                              .turns = 12,
                              .patience = 2,
                              .tool_calls = 60,
                              .evaluations = 64,
                              .device_s = 3600,
                              .device_trials = 16,
                              .expert_calls = 8,
                              .max_out_tok = 2048};
}

static bool is_spent(const agent *a) {
    return a->tool_calls >= a->task->limits.tool_calls ||
           a->evaluations >= a->task->limits.evaluations;
}

/* Every call is answered, whatever the budget: a conversation with a hole is refused. */
static orr_status answer_calls(agent *a, const orr_llm_reply *reply, orr_llm_turn *turn,
                               orr_err *err) {
    orr_llm_result *results = ORR_NEW_ARRAY(a->arena, orr_llm_result, reply->call_count);
    for (uint32_t i = 0; i < reply->call_count; i++) {
        const orr_llm_call *call = &reply->call[i];
        results[i].call_id = call->id;
        bool submits = strcmp(call->name, "submit") == 0;
        if (a->tool_calls >= a->task->limits.tool_calls && !submits) {
            results[i].content = "{\"error\":\"no tool calls are left: submit the best trial\"}";
            results[i].is_error = true;
            continue;
        }
        ORR_TRY(agent_act(a, call, &results[i].content, &results[i].is_error, err));
    }
    *turn = (orr_llm_turn){
        .role = ORR_LLM_RESULTS, .result = results, .result_count = reply->call_count};
    return ORR_OK;
}

static const char *opening(const agent *a, uint32_t round) {
    return orr_arena_format(
        a->arena, "%s\n%s\nRound %u of %u.%s", agent_card(a, a->arena), agent_history(a, a->arena),
        round + 1, a->task->limits.rounds,
        round + 1 == a->task->limits.rounds ? " It is the last: end it with submit." : "");
}

static void stop_for(agent *a, orr_llm_failure failure) {
    char why[sizeof a->client->why + 32];
    (void)snprintf(why, sizeof why, "%s: %s", orr_llm_failure_name(failure), a->client->why);
    a->stopped = orr_arena_text(a->arena, why);
}

/* One conversation. Sets a->stopped when the whole run is over. */
static orr_status run_round(agent *a, uint32_t round, orr_err *err) {
    orr_llm_turn *turns = ORR_NEW_ARRAY(a->arena, orr_llm_turn, MAX_TURNS);
    const orr_agent_limits *limits = &a->task->limits;
    uint32_t count = 0, silent = 0, last_chance = 0;
    a->last_call = NULL;
    turns[count++] = (orr_llm_turn){.role = ORR_LLM_USER, .text = opening(a, round)};
    for (uint32_t n = 0; n < limits->turns && count + 2 < MAX_TURNS; n++) {
        orr_llm_reply reply;
        orr_llm_request request = {.instructions = a->instructions,
                                   .turn = turns,
                                   .turn_count = count,
                                   .tool = a->tool,
                                   .tool_count = a->tool_count,
                                   .max_out_tok = limits->max_out_tok};
        orr_llm_failure failure = orr_llm_send(a->client, a->arena, &request, &reply);
        if (failure != ORR_LLM_FINE) {
            stop_for(a, failure);
            return ORR_OK;
        }
        turns[count++] = (orr_llm_turn){.role = ORR_LLM_ASSISTANT, .raw = reply.raw};
        if (reply.stop == ORR_LLM_REFUSAL) {
            a->stopped = "the model refused";
            return ORR_OK;
        }
        if (reply.stop == ORR_LLM_PAUSE && reply.call_count == 0) {
            continue; /* goes back as it is */
        }
        if (reply.call_count > 0) {
            ORR_TRY(answer_calls(a, &reply, &turns[count], err));
            count++;
            silent = 0;
        } else if (silent++ == 0) {
            turns[count++] = (orr_llm_turn){
                .role = ORR_LLM_USER,
                .text = "Go on with a tool call, or end with submit and your reason."};
        } else {
            return ORR_OK; /* nothing more to say this round */
        }
        if (a->submitted != UINT32_MAX) {
            a->stopped = "submitted";
            return ORR_OK;
        }
        if (is_spent(a) && last_chance++ == 2) {
            a->stopped =
                a->tool_calls >= limits->tool_calls ? "budget: tool calls" : "budget: evaluations";
            return ORR_OK;
        }
        if (limits->context_tok > 0 &&
            10 * (reply.usage.in + reply.usage.out) > 7 * (int64_t)limits->context_tok) {
            return ORR_OK; /* the next round starts from the table */
        }
    }
    return ORR_OK;
}

static double best_now(const agent *a) {
    return a->best == UINT32_MAX ? 0 : a->trial[a->best].plan.tokens_per_s_per_gpu;
}

static orr_status run_rounds(agent *a, orr_err *err) {
    uint32_t idle = 0;
    for (uint32_t round = 0; round < a->task->limits.rounds && a->stopped == NULL; round++) {
        double before = best_now(a);
        uint32_t measured = a->measured_count;
        a->rounds = round + 1;
        ORR_TRY(run_round(a, round, err));
        idle = best_now(a) > before || a->measured_count > measured ? 0 : idle + 1;
        if (idle >= a->task->limits.patience && a->stopped == NULL) {
            a->stopped = "no gain";
        }
    }
    if (a->stopped == NULL) {
        a->stopped = "rounds";
    }
    return ORR_OK;
}

/* Trial 0 is the plan that the engineer starts from; then what the search found. */
static orr_status take_what_is_known(agent *a, orr_err *err) {
    uint32_t trial = 0;
    bool again = false;
    ORR_TRY(agent_try(a, orr_tree_new_map(a->arena), "baseline", "", &trial, &again, err));
    if (!a->trial[0].plan.readable) {
        if (err != NULL) {
            *err = a->trial[0].plan.why;
        }
        return a->trial[0].plan.why.status;
    }
    const orr_tree *best = orr_tree_path(a->task->search, "best.plan");
    if (best != NULL) {
        ORR_TRY(agent_try(a, agent_overrides(a, best), "search", "", &trial, &again, err));
    }
    const orr_tree *top = orr_tree_get(a->task->search, "top");
    for (size_t i = 0; i < orr_tree_size(top) && i < 8; i++) {
        ORR_TRY(agent_try(a, agent_overrides(a, orr_tree_get(orr_tree_at(top, i), "plan")),
                          "search", "", &trial, &again, err));
    }
    a->duplicates = 0;
    return ORR_OK;
}

/* Small models do better with few tools. */
static orr_status keep_tools(agent *a, const char *names, orr_err *err) {
    if (names == NULL) {
        return ORR_OK;
    }
    orr_llm_tool *kept = ORR_NEW_ARRAY(a->arena, orr_llm_tool, a->tool_count);
    uint32_t count = 0, found = 0, asked = 0;
    for (uint32_t i = 0; i < a->tool_count; i++) {
        bool named = false;
        asked = 0;
        for (const char *p = names; *p != '\0'; p += strspn(p, ",")) {
            size_t length = strcspn(p, ",");
            named = named ||
                    (length == strlen(a->tool[i].name) && strncmp(p, a->tool[i].name, length) == 0);
            p += length;
            asked++;
        }
        found += named;
        if (named) {
            kept[count++] = a->tool[i];
        }
    }
    if (found != asked) {
        return orr_fail(err, ORR_E_NAME, "llm_tools '%s' names something that is no tool", names);
    }
    a->tool = kept;
    a->tool_count = count;
    return ORR_OK;
}

orr_status orr_agent_investigate(const orr_agent_task *task, orr_llm_client *client,
                                 orr_arena *arena, orr_tree *out, orr_err *err) {
    agent *a = ORR_NEW(arena, agent);
    a->task = task;
    a->client = client;
    a->arena = arena;
    a->best = a->submitted = UINT32_MAX;
    a->rationale = "";
    a->instructions = orr_agent_prompt(arena, "investigator.md");
    if (a->instructions == NULL) {
        return orr_fail(err, ORR_E_INTERNAL, "prompts/investigator.md is missing");
    }
    ORR_TRY(orr_belt_axes(task->oracle, arena, task->base, a->axis, &a->axis_count, err));
    orr_agent_close_axes(a->axis, &a->axis_count, task->search_args);
    ORR_TRY(orr_agent_tools(arena, a->axis, a->axis_count, &a->tool, &a->tool_count, err));
    ORR_TRY(keep_tools(a, task->tools, err));
    ORR_TRY(agent_open_device(a, err));
    ORR_TRY(take_what_is_known(a, err));
    ORR_TRY(run_rounds(a, err));
    return agent_write(a, out, err);
}
