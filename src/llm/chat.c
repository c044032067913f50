/* OpenAI Chat Completions, and what imitates it.
 * (platform.openai.com/docs/api-reference/chat). */
#include <string.h>

#include "base/err.h"
#include "llm/llm_int.h"

/* ---- request -------------------------------------------------------------------------------- */

static void add_message(orr_arena *arena, orr_tree *messages, const char *role, const char *text) {
    orr_tree *message = orr_tree_push(arena, messages, orr_tree_new_map(arena));
    orr_tree_put_text(arena, message, "role", role);
    orr_tree_put_text(arena, message, "content", text);
}

/* The assistant's message as it came, but for arguments that are no JSON: servers that parse them
 * again would refuse the whole conversation. */
static orr_tree *kept_message(orr_arena *arena, const orr_tree *raw) {
    orr_tree *message = orr_tree_copy(arena, raw);
    const orr_tree *calls = orr_tree_get(raw, "tool_calls");
    if (orr_tree_size(calls) == 0) {
        return message;
    }
    orr_tree *mended = orr_tree_new_list(arena);
    for (size_t i = 0; i < orr_tree_size(calls); i++) {
        orr_tree *call = orr_tree_push(arena, mended, orr_tree_copy(arena, orr_tree_at(calls, i)));
        const char *args = orr_tree_text(orr_tree_path(call, "function.arguments"), NULL);
        if (args != NULL && (args[0] == '\0' || llm_args(arena, args) == NULL)) {
            orr_tree *function = orr_tree_copy(arena, orr_tree_get(call, "function"));
            orr_tree_put_text(arena, function, "arguments", "{}");
            (void)orr_tree_put(arena, call, "function", function);
        }
    }
    (void)orr_tree_put(arena, message, "tool_calls", mended);
    return message;
}

static void add_turn(orr_arena *arena, const orr_llm_endpoint *endpoint, orr_tree *messages,
                     const orr_llm_turn *turn) {
    if (turn->role == ORR_LLM_ASSISTANT) {
        (void)orr_tree_push(arena, messages, kept_message(arena, turn->raw));
        return;
    }
    for (uint32_t i = 0; i < turn->result_count; i++) {
        if (endpoint->calls == ORR_LLM_CALLS_SCHEMA) { /* the server knows of no calls */
            add_message(arena, messages, "user",
                        orr_arena_format(arena, "Result: %s", turn->result[i].content));
            continue;
        }
        orr_tree *message = orr_tree_push(arena, messages, orr_tree_new_map(arena));
        orr_tree_put_text(arena, message, "role", "tool");
        orr_tree_put_text(arena, message, "tool_call_id", turn->result[i].call_id);
        orr_tree_put_text(arena, message, "content", turn->result[i].content);
    }
    if (turn->text != NULL) {
        add_message(arena, messages, "user", turn->text);
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
        orr_tree *function = orr_tree_put(arena, one, "function", orr_tree_new_map(arena));
        llm_add_tool(arena, endpoint, tool, function);
        if (strict) {
            orr_tree_put_bool(arena, function, "strict", true);
        }
    }
    llm_add_choice(arena, endpoint, request, body);
}

orr_tree *llm_chat_body(orr_arena *arena, const orr_llm_endpoint *endpoint,
                        const orr_llm_request *request) {
    orr_tree *body = orr_tree_new_map(arena);
    orr_tree_put_text(arena, body, "model", endpoint->model);
    orr_tree *messages = orr_tree_put(arena, body, "messages", orr_tree_new_list(arena));
    bool by_schema = endpoint->calls == ORR_LLM_CALLS_SCHEMA && request->tool_count > 0;
    const char *instructions =
        by_schema ? llm_schema_prompt(arena, request) : request->instructions;
    if (instructions != NULL) {
        add_message(arena, messages, endpoint->quirks.developer_role ? "developer" : "system",
                    instructions);
    }
    for (uint32_t i = 0; i < request->turn_count; i++) {
        add_turn(arena, endpoint, messages, &request->turn[i]);
    }
    if (by_schema) {
        (void)orr_tree_put(arena, body, "response_format", llm_schema_format(arena, request));
    } else if (request->tool_count > 0) {
        add_tools(arena, endpoint, request, body);
    }
    if (request->max_out_tok > 0) {
        orr_tree_put_int(arena, body,
                         endpoint->quirks.old_max_tokens ? "max_tokens" : "max_completion_tokens",
                         request->max_out_tok);
    }
    if (endpoint->temperature >= 0) {
        orr_tree_put_real(arena, body, "temperature", endpoint->temperature);
    }
    if (endpoint->stream) {
        orr_tree_put_bool(arena, body, "stream", true);
        if (!endpoint->quirks.no_stream_usage) {
            orr_tree *options =
                orr_tree_put(arena, body, "stream_options", orr_tree_new_map(arena));
            orr_tree_put_bool(arena, options, "include_usage", true);
        }
    }
    return body;
}

/* ---- answer --------------------------------------------------------------------------------- */

static orr_llm_stop stop_of(const char *reason) {
    return strcmp(reason, "tool_calls") == 0 || strcmp(reason, "function_call") == 0 ? ORR_LLM_TOOLS
           : strcmp(reason, "length") == 0         ? ORR_LLM_LENGTH
           : strcmp(reason, "content_filter") == 0 ? ORR_LLM_REFUSAL
                                                   : ORR_LLM_END;
}

orr_status llm_chat_read(orr_arena *arena, const orr_tree *body, orr_llm_reply *out, orr_err *err) {
    const orr_tree *choice = orr_tree_path(body, "choices.0");
    const orr_tree *message = orr_tree_get(choice, "message");
    if (orr_tree_kind_of(message) != ORR_TREE_MAP) {
        return orr_fail(err, ORR_E_SCHEMA, "the answer has no choices[0].message");
    }
    out->raw = message;
    out->text = orr_tree_text(orr_tree_get(message, "content"), "");
    out->stop = stop_of(orr_tree_text(orr_tree_get(choice, "finish_reason"), ""));
    const char *refusal = orr_tree_text(orr_tree_get(message, "refusal"), "");
    if (refusal[0] != '\0') {
        out->text = refusal;
        out->stop = ORR_LLM_REFUSAL;
    }
    const orr_tree *calls = orr_tree_get(message, "tool_calls");
    for (size_t i = 0; i < orr_tree_size(calls); i++) {
        const orr_tree *call = orr_tree_at(calls, i);
        llm_add_call(arena, out, orr_tree_text(orr_tree_get(call, "id"), ""),
                     orr_tree_text(orr_tree_path(call, "function.name"), ""),
                     orr_tree_path(call, "function.arguments"));
    }
    const orr_tree *usage = orr_tree_get(body, "usage");
    out->usage =
        (orr_llm_usage){.in = llm_int(usage, "prompt_tokens"),
                        .cached_in = llm_int(usage, "prompt_tokens_details.cached_tokens"),
                        .out = llm_int(usage, "completion_tokens"),
                        .reasoning = llm_int(usage, "completion_tokens_details.reasoning_tokens"),
                        .known = orr_tree_kind_of(usage) == ORR_TREE_MAP};
    return ORR_OK;
}

/* ---- stream --------------------------------------------------------------------------------- */

static void fold_call(orr_llm_fold *fold, const orr_tree *delta, size_t position) {
    int64_t index = orr_tree_int(orr_tree_get(delta, "index"), (int64_t)position);
    llm_piece *piece = llm_fold_piece(fold, index);
    if (piece == NULL) {
        return;
    }
    const char *id = orr_tree_text(orr_tree_get(delta, "id"), "");
    const char *name = orr_tree_text(orr_tree_path(delta, "function.name"), "");
    const orr_tree *args = orr_tree_path(delta, "function.arguments");
    piece->id = id[0] != '\0' ? id : piece->id;
    piece->name = name[0] != '\0' ? name : piece->name;
    if (orr_tree_kind_of(args) == ORR_TREE_MAP) {
        orr_text_add(&piece->text, orr_write_json(fold->arena, args, false));
    } else {
        orr_text_add(&piece->text, orr_tree_text(args, ""));
    }
}

bool llm_chat_event(orr_llm_fold *fold, const orr_tree *data) {
    if (orr_tree_get(data, "error") != NULL &&
        orr_tree_kind_of(orr_tree_get(data, "error")) != ORR_TREE_NULL) {
        fold->error = llm_error(fold->arena, data);
        return false;
    }
    if (fold->head == NULL) {
        fold->head = data;
    }
    if (orr_tree_kind_of(orr_tree_get(data, "usage")) == ORR_TREE_MAP) {
        fold->usage = orr_tree_get(data, "usage");
    }
    const orr_tree *choice = orr_tree_path(data, "choices.0");
    const orr_tree *delta = orr_tree_get(choice, "delta");
    if (orr_tree_kind_of(orr_tree_get(choice, "finish_reason")) == ORR_TREE_TEXT) {
        fold->stop = orr_tree_get(choice, "finish_reason");
    }
    orr_text_add(&fold->content, orr_tree_text(orr_tree_get(delta, "content"), ""));
    orr_text_add(&fold->refusal, orr_tree_text(orr_tree_get(delta, "refusal"), ""));
    static const char *const thoughts[] = {"reasoning_content", "reasoning"};
    for (size_t i = 0; i < 2; i++) {
        const char *text = orr_tree_text(orr_tree_get(delta, thoughts[i]), NULL);
        if (text != NULL) {
            fold->reasoning_key = thoughts[i];
            orr_text_add(&fold->reasoning, text);
        }
    }
    const orr_tree *calls = orr_tree_get(delta, "tool_calls");
    for (size_t i = 0; i < orr_tree_size(calls); i++) {
        fold_call(fold, orr_tree_at(calls, i), i);
    }
    return true;
}

static void put_calls(orr_llm_fold *fold, orr_tree *message) {
    orr_arena *arena = fold->arena;
    orr_tree *calls = orr_tree_put(arena, message, "tool_calls", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < fold->piece_count; i++) {
        llm_piece *piece = &fold->piece[i];
        orr_tree *call = orr_tree_push(arena, calls, orr_tree_new_map(arena));
        orr_tree_put_text(arena, call, "id", piece->id);
        orr_tree_put_text(arena, call, "type", "function");
        orr_tree *function = orr_tree_put(arena, call, "function", orr_tree_new_map(arena));
        orr_tree_put_text(arena, function, "name", piece->name);
        orr_tree_put_text(arena, function, "arguments", orr_text_done(&piece->text));
    }
}

const orr_tree *llm_chat_whole(orr_llm_fold *fold) {
    orr_arena *arena = fold->arena;
    orr_tree *body = orr_tree_new_map(arena);
    static const char *const keys[] = {"id", "model"};
    for (size_t i = 0; i < 2; i++) {
        orr_tree_put_text(arena, body, keys[i],
                          orr_tree_text(orr_tree_get(fold->head, keys[i]), NULL));
    }
    orr_tree *choices = orr_tree_put(arena, body, "choices", orr_tree_new_list(arena));
    orr_tree *choice = orr_tree_push(arena, choices, orr_tree_new_map(arena));
    orr_tree_put_text(arena, choice, "finish_reason", orr_tree_text(fold->stop, NULL));
    orr_tree *message = orr_tree_put(arena, choice, "message", orr_tree_new_map(arena));
    orr_tree_put_text(arena, message, "role", "assistant");
    orr_tree_put_text(arena, message, "content", orr_text_done(&fold->content));
    if (fold->refusal.length > 0) {
        orr_tree_put_text(arena, message, "refusal", orr_text_done(&fold->refusal));
    }
    if (fold->reasoning.length > 0) {
        orr_tree_put_text(arena, message, fold->reasoning_key, orr_text_done(&fold->reasoning));
    }
    if (fold->piece_count > 0) {
        put_calls(fold, message);
    }
    if (fold->usage != NULL) {
        (void)orr_tree_put(arena, body, "usage", orr_tree_copy(arena, fold->usage));
    }
    return body;
}
