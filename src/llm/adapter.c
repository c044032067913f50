/* What the three adapters share, and which of them is meant. */
#include <string.h>

#include "base/err.h"
#include "doc/doc.h"
#include "llm/llm_int.h"

const char *orr_llm_api_name(orr_llm_api api) {
    static const char *const names[] = {"chat", "responses", "anthropic"};
    return names[api];
}

const char *orr_llm_path(orr_llm_api api) {
    static const char *const paths[] = {"/chat/completions", "/responses", "/v1/messages"};
    return paths[api];
}

orr_tree *orr_llm_body(orr_arena *arena, const orr_llm_endpoint *endpoint,
                       const orr_llm_request *request) {
    return endpoint->api == ORR_LLM_CHAT        ? llm_chat_body(arena, endpoint, request)
           : endpoint->api == ORR_LLM_RESPONSES ? llm_responses_body(arena, endpoint, request)
                                                : llm_anthropic_body(arena, endpoint, request);
}

orr_status orr_llm_read(orr_arena *arena, orr_llm_api api, const orr_tree *body, orr_llm_reply *out,
                        orr_err *err) {
    *out = (orr_llm_reply){.text = "", .body = body};
    out->call = ORR_NEW_ARRAY(arena, orr_llm_call, ORR_LLM_MAX_CALLS);
    if (orr_tree_kind_of(body) != ORR_TREE_MAP) {
        return orr_fail(err, ORR_E_SCHEMA, "the model's answer is no JSON object");
    }
    ORR_TRY(api == ORR_LLM_CHAT        ? llm_chat_read(arena, body, out, err)
            : api == ORR_LLM_RESPONSES ? llm_responses_read(arena, body, out, err)
                                       : llm_anthropic_read(arena, body, out, err));
    out->model = orr_tree_text(orr_tree_get(body, "model"), "");
    if (out->call_count > 0 && out->stop == ORR_LLM_END) {
        out->stop = ORR_LLM_TOOLS; /* some servers forget to say so */
    }
    return ORR_OK;
}

int64_t llm_int(const orr_tree *map, const char *path) {
    int64_t value = orr_tree_int(orr_tree_path(map, path), 0);
    return value > 0 ? value : 0;
}

const orr_tree *llm_args(orr_arena *arena, const char *text) {
    orr_tree *tree = NULL;
    orr_err ignored = {0};
    if (text[strspn(text, " \t\r\n")] == '\0') {
        return orr_tree_new_map(arena);
    }
    return orr_json_read(arena, NULL, text, strlen(text), &tree, &ignored) == ORR_OK &&
                   orr_tree_kind_of(tree) == ORR_TREE_MAP
               ? tree
               : NULL;
}

void llm_add_tool(orr_arena *arena, const orr_llm_endpoint *endpoint, const orr_llm_tool *tool,
                  orr_tree *out) {
    orr_tree_put_text(arena, out, "name", tool->name);
    orr_tree_put_text(arena, out, "description", tool->description);
    (void)orr_tree_put(arena, out, "parameters",
                       endpoint->quirks.no_strict ? orr_tree_copy(arena, tool->schema)
                                                  : orr_llm_strict(arena, tool->schema));
}

void llm_add_choice(orr_arena *arena, const orr_llm_endpoint *endpoint,
                    const orr_llm_request *request, orr_tree *body) {
    if (!endpoint->quirks.no_tool_choice) {
        bool must = request->must_call || endpoint->calls == ORR_LLM_CALLS_REQUIRED;
        orr_tree_put_text(arena, body, "tool_choice", must ? "required" : "auto");
    }
    if (!endpoint->quirks.no_parallel) {
        orr_tree_put_bool(arena, body, "parallel_tool_calls", true);
    }
}

void llm_add_call(orr_arena *arena, orr_llm_reply *out, const char *id, const char *name,
                  const orr_tree *args) {
    if (out->call_count == ORR_LLM_MAX_CALLS) {
        return;
    }
    orr_llm_call *call = &out->call[out->call_count++];
    call->id = id;
    call->name = name;
    if (orr_tree_kind_of(args) == ORR_TREE_TEXT) {
        call->args_text = orr_tree_text(args, "");
        bool fits = strlen(call->args_text) <= ORR_LLM_MAX_ARGS;
        call->args = fits ? llm_args(arena, call->args_text) : NULL;
    } else {
        call->args = args != NULL ? args : orr_tree_new_map(arena);
        call->args_text = orr_write_json(arena, call->args, false);
        call->args = orr_tree_kind_of(call->args) == ORR_TREE_MAP ? call->args : NULL;
    }
}

const orr_tree *llm_error(orr_arena *arena, const orr_tree *from) {
    const orr_tree *inner = orr_tree_get(from, "error");
    orr_tree *out = orr_tree_new_map(arena);
    if (orr_tree_kind_of(inner) == ORR_TREE_TEXT) { /* Ollama: {"error": "text"} */
        orr_tree_put_text(arena, out, "message", orr_tree_text(inner, ""));
        return out;
    }
    if (orr_tree_kind_of(inner) != ORR_TREE_MAP) {
        inner = from;
    }
    static const char *const keys[] = {"type", "code", "message"};
    for (size_t i = 0; i < 3; i++) {
        const orr_tree *value = orr_tree_get(inner, keys[i]);
        if (orr_tree_kind_of(value) == ORR_TREE_TEXT) {
            orr_tree_put_text(arena, out, keys[i], orr_tree_text(value, ""));
        } else if (orr_tree_kind_of(value) == ORR_TREE_INT) {
            orr_tree_put_int(arena, out, keys[i], orr_tree_int(value, 0));
        }
    }
    return out;
}

/* ---- strict schemas ------------------------------------------------------------------------- */

static bool is_required(const orr_tree *schema, const char *key) {
    const orr_tree *required = orr_tree_get(schema, "required");
    for (size_t i = 0; i < orr_tree_size(required); i++) {
        if (strcmp(orr_tree_text(orr_tree_at(required, i), ""), key) == 0) {
            return true;
        }
    }
    return false;
}

/* The property with null allowed beside what it is. */
static void add_null(orr_arena *arena, orr_tree *property) {
    const orr_tree *type = orr_tree_get(property, "type"), *words = orr_tree_get(property, "enum");
    orr_tree *types = orr_tree_new_list(arena);
    if (orr_tree_kind_of(type) == ORR_TREE_TEXT) {
        (void)orr_tree_push(arena, types, orr_tree_copy(arena, type));
    }
    for (size_t i = 0; i < orr_tree_size(type); i++) {
        (void)orr_tree_push(arena, types, orr_tree_copy(arena, orr_tree_at(type, i)));
    }
    (void)orr_tree_push(arena, types, orr_tree_new_text(arena, "null"));
    (void)orr_tree_put(arena, property, "type", types);
    if (words != NULL) {
        orr_tree *more = orr_tree_copy(arena, words);
        (void)orr_tree_push(arena, more, orr_tree_null(arena));
        (void)orr_tree_put(arena, property, "enum", more);
    }
}

orr_tree *orr_llm_strict(orr_arena *arena, const orr_tree *schema) {
    orr_tree *out = orr_tree_copy(arena, schema);
    const orr_tree *items = orr_tree_get(schema, "items");
    const orr_tree *properties = orr_tree_get(schema, "properties");
    if (items != NULL) {
        (void)orr_tree_put(arena, out, "items", orr_llm_strict(arena, items));
    }
    if (properties == NULL) {
        return out;
    }
    orr_tree *strict = orr_tree_new_map(arena), *required = orr_tree_new_list(arena);
    for (size_t i = 0; i < orr_tree_size(properties); i++) {
        const char *key = orr_tree_key(properties, i);
        orr_tree *one = orr_llm_strict(arena, orr_tree_at(properties, i));
        if (!is_required(schema, key)) {
            add_null(arena, one);
        }
        (void)orr_tree_put(arena, strict, key, one);
        (void)orr_tree_push(arena, required, orr_tree_new_text(arena, key));
    }
    (void)orr_tree_put(arena, out, "properties", strict);
    (void)orr_tree_put(arena, out, "required", required);
    orr_tree_put_bool(arena, out, "additionalProperties", false);
    return out;
}

/* ---- streams -------------------------------------------------------------------------------- */

orr_llm_fold *orr_llm_fold_new(orr_arena *arena, orr_llm_api api) {
    orr_llm_fold *fold = ORR_NEW(arena, orr_llm_fold);
    fold->arena = arena;
    fold->api = api;
    fold->content = orr_text_new(arena, ORR_LLM_MAX_TEXT);
    fold->reasoning = orr_text_new(arena, ORR_LLM_MAX_TEXT);
    fold->refusal = orr_text_new(arena, ORR_LLM_MAX_TEXT);
    return fold;
}

llm_piece *llm_fold_piece(orr_llm_fold *fold, int64_t index) {
    for (uint32_t i = 0; i < fold->piece_count; i++) {
        if (fold->piece[i].index == index) {
            return &fold->piece[i];
        }
    }
    if (fold->piece_count == LLM_MAX_BLOCKS) {
        return NULL;
    }
    llm_piece *piece = &fold->piece[fold->piece_count++];
    piece->index = index;
    piece->id = piece->name = "";
    piece->text = orr_text_new(fold->arena, ORR_LLM_MAX_TEXT);
    piece->signature = orr_text_new(fold->arena, ORR_LLM_MAX_TEXT);
    return piece;
}

bool orr_llm_fold_event(orr_llm_fold *fold, const char *name, const char *data, size_t length) {
    orr_tree *tree = NULL;
    orr_err problem = {0};
    (void)name; /* every event repeats its type inside */
    if (fold->done) {
        return true;
    }
    if (fold->api == ORR_LLM_CHAT && length == 6 && memcmp(data, "[DONE]", 6) == 0) {
        fold->done = true;
        return true;
    }
    if (orr_json_read(fold->arena, NULL, data, length, &tree, &problem) != ORR_OK ||
        orr_tree_kind_of(tree) != ORR_TREE_MAP) {
        orr_tree *error = orr_tree_new_map(fold->arena);
        orr_tree_put_text(fold->arena, error, "type", "malformed");
        orr_tree_put_text(fold->arena, error, "message",
                          "an event of the stream is no JSON object");
        fold->error = error;
        return false;
    }
    return fold->api == ORR_LLM_CHAT        ? llm_chat_event(fold, tree)
           : fold->api == ORR_LLM_RESPONSES ? llm_responses_event(fold, tree)
                                            : llm_anthropic_event(fold, tree);
}

bool orr_llm_fold_done(const orr_llm_fold *fold) {
    return fold->done && fold->error == NULL;
}

const orr_tree *orr_llm_fold_error(const orr_llm_fold *fold) {
    return fold->error;
}

const orr_tree *orr_llm_fold_body(orr_llm_fold *fold) {
    return fold->api == ORR_LLM_CHAT        ? llm_chat_whole(fold)
           : fold->api == ORR_LLM_RESPONSES ? fold->final
                                            : llm_anthropic_whole(fold);
}
