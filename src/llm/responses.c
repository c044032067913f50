/* OpenAI Responses, used without state on the server
 * (platform.openai.com/docs/api-reference/responses). */
#include <string.h>

#include "base/err.h"
#include "llm/llm_int.h"

static void add_message(orr_arena *arena, orr_tree *input, const char *text) {
    orr_tree *item = orr_tree_push(arena, input, orr_tree_new_map(arena));
    orr_tree_put_text(arena, item, "type", "message");
    orr_tree_put_text(arena, item, "role", "user");
    orr_tree_put_text(arena, item, "content", text);
}

static void add_turn(orr_arena *arena, orr_tree *input, const orr_llm_turn *turn) {
    /* All items of the output, thoughts too, in their order: dropping one is refused. */
    for (size_t i = 0; turn->role == ORR_LLM_ASSISTANT && i < orr_tree_size(turn->raw); i++) {
        (void)orr_tree_push(arena, input, orr_tree_copy(arena, orr_tree_at(turn->raw, i)));
    }
    for (uint32_t i = 0; i < turn->result_count; i++) {
        orr_tree *item = orr_tree_push(arena, input, orr_tree_new_map(arena));
        orr_tree_put_text(arena, item, "type", "function_call_output");
        orr_tree_put_text(arena, item, "call_id", turn->result[i].call_id);
        orr_tree_put_text(arena, item, "output", turn->result[i].content);
    }
    if (turn->role != ORR_LLM_ASSISTANT && turn->text != NULL) {
        add_message(arena, input, turn->text);
    }
}

static void add_tools(orr_arena *arena, const orr_llm_endpoint *endpoint,
                      const orr_llm_request *request, orr_tree *body) {
    bool strict = !endpoint->quirks.no_strict;
    orr_tree *tools = orr_tree_put(arena, body, "tools", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < request->tool_count; i++) {
        const orr_llm_tool *tool = &request->tool[i];
        orr_tree *one = orr_tree_push(arena, tools, orr_tree_new_map(arena));
        orr_tree_put_text(arena, one, "type", "function");
        llm_add_tool(arena, endpoint, tool, one);
        orr_tree_put_bool(arena, one, "strict", strict);
    }
    llm_add_choice(arena, endpoint, request, body);
}

orr_tree *llm_responses_body(orr_arena *arena, const orr_llm_endpoint *endpoint,
                             const orr_llm_request *request) {
    orr_tree *body = orr_tree_new_map(arena);
    orr_tree_put_text(arena, body, "model", endpoint->model);
    if (request->instructions != NULL) {
        orr_tree_put_text(arena, body, "instructions", request->instructions);
    }
    orr_tree *input = orr_tree_put(arena, body, "input", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < request->turn_count; i++) {
        add_turn(arena, input, &request->turn[i]);
    }
    if (request->tool_count > 0) {
        add_tools(arena, endpoint, request, body);
    }
    orr_tree_put_bool(arena, body, "store", false);
    orr_tree *include = orr_tree_put(arena, body, "include", orr_tree_new_list(arena));
    (void)orr_tree_push(arena, include, orr_tree_new_text(arena, "reasoning.encrypted_content"));
    if (request->max_out_tok > 0) {
        orr_tree_put_int(arena, body, "max_output_tokens", request->max_out_tok);
    }
    if (endpoint->temperature >= 0) {
        orr_tree_put_real(arena, body, "temperature", endpoint->temperature);
    }
    if (endpoint->stream) {
        orr_tree_put_bool(arena, body, "stream", true);
    }
    return body;
}

/* ---- answer --------------------------------------------------------------------------------- */

static void read_item(orr_arena *arena, const orr_tree *item, orr_text *text, orr_llm_reply *out) {
    const char *type = orr_tree_text(orr_tree_get(item, "type"), "");
    if (strcmp(type, "function_call") == 0) {
        llm_add_call(arena, out, orr_tree_text(orr_tree_get(item, "call_id"), ""),
                     orr_tree_text(orr_tree_get(item, "name"), ""),
                     orr_tree_get(item, "arguments"));
    }
    const orr_tree *content = orr_tree_get(item, "content");
    for (size_t i = 0; strcmp(type, "message") == 0 && i < orr_tree_size(content); i++) {
        const orr_tree *part = orr_tree_at(content, i);
        const char *kind = orr_tree_text(orr_tree_get(part, "type"), "");
        if (strcmp(kind, "refusal") == 0) {
            out->stop = ORR_LLM_REFUSAL;
            orr_text_add(text, orr_tree_text(orr_tree_get(part, "refusal"), ""));
        } else if (strcmp(kind, "output_text") == 0) {
            orr_text_add(text, orr_tree_text(orr_tree_get(part, "text"), ""));
        }
    }
}

orr_status llm_responses_read(orr_arena *arena, const orr_tree *body, orr_llm_reply *out,
                              orr_err *err) {
    const orr_tree *output = orr_tree_get(body, "output");
    const char *status = orr_tree_text(orr_tree_get(body, "status"), "completed");
    if (orr_tree_kind_of(output) != ORR_TREE_LIST) {
        return orr_fail(err, ORR_E_SCHEMA, "the answer has no output");
    }
    if (strcmp(status, "failed") == 0 || strcmp(status, "cancelled") == 0) {
        return orr_fail(err, ORR_E_SCHEMA, "the answer is %s: %.200s", status,
                        orr_tree_text(orr_tree_path(body, "error.message"), "no reason given"));
    }
    orr_text text = orr_text_new(arena, ORR_LLM_MAX_TEXT);
    out->raw = output;
    for (size_t i = 0; i < orr_tree_size(output); i++) {
        read_item(arena, orr_tree_at(output, i), &text, out);
    }
    out->text = orr_text_done(&text);
    if (strcmp(status, "incomplete") == 0) {
        const char *why = orr_tree_text(orr_tree_path(body, "incomplete_details.reason"), "");
        out->stop = strcmp(why, "content_filter") == 0 ? ORR_LLM_REFUSAL : ORR_LLM_LENGTH;
    } else if (out->call_count > 0) {
        out->stop = ORR_LLM_TOOLS;
    }
    const orr_tree *usage = orr_tree_get(body, "usage");
    out->usage =
        (orr_llm_usage){.in = llm_int(usage, "input_tokens"),
                        .cached_in = llm_int(usage, "input_tokens_details.cached_tokens"),
                        .out = llm_int(usage, "output_tokens"),
                        .reasoning = llm_int(usage, "output_tokens_details.reasoning_tokens"),
                        .known = orr_tree_kind_of(usage) == ORR_TREE_MAP};
    return ORR_OK;
}

/* The last event carries the whole answer; what came before is for people to watch. */
bool llm_responses_event(orr_llm_fold *fold, const orr_tree *data) {
    const char *type = orr_tree_text(orr_tree_get(data, "type"), "");
    if (strcmp(type, "error") == 0) {
        fold->error = llm_error(fold->arena, data);
        return false;
    }
    if (strcmp(type, "response.failed") == 0) {
        fold->error = llm_error(fold->arena, orr_tree_get(data, "response"));
        return false;
    }
    if (strcmp(type, "response.completed") == 0 || strcmp(type, "response.incomplete") == 0) {
        fold->final = orr_tree_get(data, "response");
        fold->done = true;
    }
    return true;
}
