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

/* What the command's exit code says. */
static void put_failure(orr_arena *arena, orr_tree *out) {
    const orr_tree *checks = orr_tree_get(out, "checks");
    for (size_t i = 0; i < orr_tree_size(checks); i++) {
        if (!orr_tree_bool(orr_tree_get(orr_tree_at(checks, i), "good"), false)) {
            orr_tree_put_text(arena, out, "failed", "network");
        }
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

orr_tree *orr_agent_doctor(orr_llm_client *client, orr_arena *arena) {
    orr_tree *out = orr_tree_new_map(arena);
    orr_tree *checks = orr_tree_put(arena, out, "checks", orr_tree_new_list(arena));
    put_check(arena, checks, "key", true,
              client->endpoint.key != NULL
                  ? orr_arena_format(arena, "found in %s", client->endpoint.key_from)
                  : "none; local servers need none",
              "");
    orr_llm_turn turn = {.role = ORR_LLM_USER, .text = "Answer with the word ready."};
    orr_llm_request request = {.turn = &turn, .turn_count = 1, .max_out_tok = 256};
    orr_llm_reply reply;
    orr_llm_failure failure = orr_llm_send(client, arena, &request, &reply);
    bool answers = failure == ORR_LLM_FINE;
    put_check(arena, checks, client->endpoint.stream ? "answers, streaming" : "answers", answers,
              answers ? orr_arena_format(arena, "%.80s", reply.text) : client->why,
              advice(client, failure));
    if (!answers) {
        put_failure(arena, out);
        return out;
    }
    put_check(arena, checks, "counts tokens", reply.usage.known,
              reply.usage.known
                  ? orr_arena_format(arena, "%lld in, %lld out", (long long)reply.usage.in,
                                     (long long)reply.usage.out)
                  : "no usage in the answer",
              "budgets of tokens and dollars cannot be kept; those of requests and time can");
    orr_llm_tool tool = {"set_tp", "Sets the tensor-parallel degree.", one_tool_schema(arena)};
    turn.text = "Call the tool set_tp with tp 8.";
    request.tool = &tool;
    request.tool_count = 1;
    request.must_call = true;
    failure = orr_llm_send(client, arena, &request, &reply);
    bool called = failure == ORR_LLM_FINE && reply.call_count > 0;
    bool usable = called && reply.call[0].args != NULL && strcmp(reply.call[0].name, "set_tp") == 0;
    put_check(arena, checks, "calls tools", usable,
              failure != ORR_LLM_FINE ? client->why
              : called                ? orr_arena_format(arena, "%.40s(%.120s)", reply.call[0].name,
                                                         reply.call[0].args_text)
                                      : "answered without a call",
              advice(client, failure));
    orr_tree_put_text(arena, out, "model", reply.model == NULL ? "" : reply.model);
    put_failure(arena, out);
    return out;
}
