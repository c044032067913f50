/* Questions to an endpoint, each of one request: what works, and what to do where it does not. */
#include <string.h>

#include "agent/agent.h"
#include "base/arena.h"

static const char *advice(const orr_llm_client *client, orr_llm_failure failure) {
    return failure == ORR_LLM_UNREACHED
               ? "is the server running, and is the URL its base (such as http://host:8080/v1)?"
           : client->endpoint.key == NULL
               ? "no key was found: --llm-key-file, ORRERY_API_KEY_FILE, or the provider's variable"
               : "see the message; for tools, llama.cpp needs --jinja, vLLM "
                 "--enable-auto-tool-choice";
}

static void put_check(orr_arena *arena, orr_tree *checks, const char *name, bool good,
                      const char *said, const char *hint) {
    orr_tree *row = orr_tree_push(arena, checks, orr_tree_new_map(arena));
    orr_tree_put_text(arena, row, "check", name);
    orr_tree_put_bool(arena, row, "good", good);
    orr_tree_put_text(arena, row, "said", said);
    if (!good) {
        orr_tree_put_text(arena, row, "hint", hint);
    }
}

static orr_tree *one_tool_schema(orr_arena *arena) {
    orr_tree *schema = orr_tree_new_map(arena);
    orr_tree_put_text(arena, schema, "type", "object");
    orr_tree_put_bool(arena, schema, "additionalProperties", false);
    orr_tree *properties = orr_tree_put(arena, schema, "properties", orr_tree_new_map(arena));
    orr_tree *tp = orr_tree_put(arena, properties, "tp", orr_tree_new_map(arena));
    orr_tree_put_text(arena, tp, "type", "integer");
    orr_tree *required = orr_tree_put(arena, schema, "required", orr_tree_new_list(arena));
    (void)orr_tree_push(arena, required, orr_tree_new_text(arena, "tp"));
    return schema;
}

static orr_llm_failure ask_for_a_call(orr_llm_client *client, orr_arena *arena,
                                      orr_llm_reply *reply) {
    orr_llm_tool tool = {"set_tp", "Sets the tensor-parallel degree.", one_tool_schema(arena)};
    orr_llm_turn turn = {.role = ORR_LLM_USER, .text = "Call the tool set_tp with tp 8."};
    orr_llm_request request = {
        .turn = &turn, .turn_count = 1, .tool = &tool, .tool_count = 1, .max_out_tok = 256};
    return orr_llm_send(client, arena, &request, reply);
}

/* Tries the ways to a call from the freest on; true when one works, which then is the client's. */
static bool try_calls(orr_llm_client *client, orr_arena *arena, orr_tree *checks) {
    static const char *const titles[] = {"calls tools", "calls tools when required",
                                         "calls tools by schema"};
    for (int way = (int)client->endpoint.calls; way <= ORR_LLM_CALLS_SCHEMA; way++) {
        if (way == ORR_LLM_CALLS_SCHEMA && client->endpoint.api != ORR_LLM_CHAT) {
            break;
        }
        orr_llm_reply reply;
        client->endpoint.calls = (orr_llm_calls)way;
        orr_llm_failure failure = ask_for_a_call(client, arena, &reply);
        bool called = failure == ORR_LLM_FINE && reply.call_count > 0;
        bool usable =
            called && reply.call[0].args != NULL && strcmp(reply.call[0].name, "set_tp") == 0;
        put_check(arena, checks, titles[way], usable,
                  failure != ORR_LLM_FINE ? orr_arena_text(arena, client->why)
                  : called ? orr_arena_format(arena, "%.40s(%.120s)", reply.call[0].name,
                                              reply.call[0].args_text)
                           : "answered without a call",
                  failure != ORR_LLM_FINE ? advice(client, failure)
                                          : "the next way is tried, if there is one");
        if (usable) {
            return true;
        }
    }
    return false;
}

static void put_quirks(const orr_llm_client *client, orr_arena *arena, orr_tree *out) {
    const orr_llm_quirks *q = &client->endpoint.quirks;
    const struct {
        const char *name;
        bool is;
    } all[] = {{"no_tool_choice", q->no_tool_choice},    {"no_parallel", q->no_parallel},
               {"no_stream_usage", q->no_stream_usage},  {"no_strict", q->no_strict},
               {"old_max_tokens", q->old_max_tokens},    {"developer_role", q->developer_role},
               {"args_are_objects", q->args_are_objects}};
    orr_tree *list = orr_tree_put(arena, out, "quirks", orr_tree_new_list(arena));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].is) {
            (void)orr_tree_push(arena, list, orr_tree_new_text(arena, all[i].name));
        }
    }
}

orr_tree *orr_agent_doctor(orr_llm_client *client, orr_arena *arena) {
    orr_tree *out = orr_tree_new_map(arena);
    orr_tree *checks = orr_tree_put(arena, out, "checks", orr_tree_new_list(arena));
    put_quirks(client, arena, out);
    put_check(arena, checks, "key", true,
              client->endpoint.key != NULL
                  ? orr_arena_format(arena, "found in %s", client->endpoint.key_from)
                  : "none; local servers need none",
              "");
    orr_llm_turn turn = {.role = ORR_LLM_USER, .text = "Answer with the word ready."};
    orr_llm_request request = {.turn = &turn, .turn_count = 1, .max_out_tok = 256};
    orr_llm_reply reply;
    orr_llm_failure failure = orr_llm_send(client, arena, &request, &reply);
    bool answers = failure == ORR_LLM_FINE && reply.stop != ORR_LLM_REFUSAL;
    const char *said = failure != ORR_LLM_FINE ? orr_arena_text(arena, client->why)
                                               : orr_arena_format(arena, "%.80s", reply.text);
    put_check(arena, checks, client->endpoint.stream ? "answers, streaming" : "answers", answers,
              said,
              failure == ORR_LLM_FINE ? "the model refused to answer" : advice(client, failure));
    bool calls = false;
    if (answers) {
        put_check(arena, checks, "counts tokens", reply.usage.known,
                  reply.usage.known
                      ? orr_arena_format(arena, "%lld in, %lld out", (long long)reply.usage.in,
                                         (long long)reply.usage.out)
                      : "no usage in the answer",
                  "budgets of tokens and dollars cannot be kept; those of requests and time can");
        orr_tree_put_text(arena, out, "model", reply.model == NULL ? "" : reply.model);
        calls = try_calls(client, arena, checks);
    }
    orr_tree_put_bool(arena, out, "usable", calls);
    orr_tree_put_text(arena, out, "llm_calls",
                      calls ? orr_llm_calls_name(client->endpoint.calls) : NULL);
    if (!calls) {
        orr_tree_put_text(arena, out, "failed", "network");
    }
    orr_tree_put_text(arena, out, "why",
                      calls     ? NULL
                      : answers ? "it answers, but calls no tool in any way"
                                : orr_arena_format(arena, "it does not answer: %s", said));
    return out;
}
