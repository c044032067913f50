/* Anthropic Messages (docs.anthropic.com, "Messages API"). */
#include <string.h>

#include "base/err.h"
#include "doc/doc.h"
#include "llm/llm_int.h"

enum { DEFAULT_OUT_TOK = 4096 }; /* max_tokens is required */

static void add_text(orr_arena *arena, orr_tree *content, const char *text) {
    orr_tree *block = orr_tree_push(arena, content, orr_tree_new_map(arena));
    orr_tree_put_text(arena, block, "type", "text");
    orr_tree_put_text(arena, block, "text", text);
}

/* A block as it came, but for what the provider itself would refuse: empty texts, and arguments
 * that were no JSON object. */
static void add_kept(orr_arena *arena, orr_tree *content, const orr_tree *block) {
    const char *type = orr_tree_text(orr_tree_get(block, "type"), "");
    if (strcmp(type, "text") == 0 && orr_tree_text_length(orr_tree_get(block, "text")) == 0) {
        return;
    }
    orr_tree *copy = orr_tree_push(arena, content, orr_tree_copy(arena, block));
    if (strcmp(type, "tool_use") == 0 &&
        orr_tree_kind_of(orr_tree_get(block, "input")) != ORR_TREE_MAP) {
        (void)orr_tree_put(arena, copy, "input", orr_tree_new_map(arena));
    }
}

/* Results first, then text, in one message. */
static void add_turn(orr_arena *arena, orr_tree *messages, const orr_llm_turn *turn) {
    orr_tree *message = orr_tree_push(arena, messages, orr_tree_new_map(arena));
    if (turn->role == ORR_LLM_ASSISTANT) {
        orr_tree_put_text(arena, message, "role", "assistant");
        orr_tree *kept = orr_tree_put(arena, message, "content", orr_tree_new_list(arena));
        for (size_t i = 0; i < orr_tree_size(turn->raw); i++) {
            add_kept(arena, kept, orr_tree_at(turn->raw, i));
        }
        return;
    }
    orr_tree_put_text(arena, message, "role", "user");
    orr_tree *content = orr_tree_put(arena, message, "content", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < turn->result_count; i++) {
        orr_tree *block = orr_tree_push(arena, content, orr_tree_new_map(arena));
        orr_tree_put_text(arena, block, "type", "tool_result");
        orr_tree_put_text(arena, block, "tool_use_id", turn->result[i].call_id);
        orr_tree_put_text(arena, block, "content", turn->result[i].content);
        if (turn->result[i].is_error) {
            orr_tree_put_bool(arena, block, "is_error", true);
        }
    }
    if (turn->text != NULL) {
        add_text(arena, content, turn->text);
    }
}

static void add_tools(orr_arena *arena, const orr_llm_endpoint *endpoint,
                      const orr_llm_request *request, orr_tree *body) {
    orr_tree *tools = orr_tree_put(arena, body, "tools", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < request->tool_count; i++) {
        const orr_llm_tool *tool = &request->tool[i];
        orr_tree *one = orr_tree_push(arena, tools, orr_tree_new_map(arena));
        orr_tree_put_text(arena, one, "name", tool->name);
        orr_tree_put_text(arena, one, "description", tool->description);
        (void)orr_tree_put(arena, one, "input_schema", orr_tree_copy(arena, tool->schema));
    }
    if (!endpoint->quirks.no_tool_choice) {
        orr_tree *choice = orr_tree_put(arena, body, "tool_choice", orr_tree_new_map(arena));
        bool must = request->must_call || endpoint->calls == ORR_LLM_CALLS_REQUIRED;
        orr_tree_put_text(arena, choice, "type", must ? "any" : "auto");
    }
}

orr_tree *llm_anthropic_body(orr_arena *arena, const orr_llm_endpoint *endpoint,
                             const orr_llm_request *request) {
    orr_tree *body = orr_tree_new_map(arena);
    orr_tree_put_text(arena, body, "model", endpoint->model);
    orr_tree_put_int(arena, body, "max_tokens",
                     request->max_out_tok > 0 ? request->max_out_tok : DEFAULT_OUT_TOK);
    if (request->instructions != NULL) {
        orr_tree_put_text(arena, body, "system", request->instructions);
    }
    orr_tree *messages = orr_tree_put(arena, body, "messages", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < request->turn_count; i++) {
        add_turn(arena, messages, &request->turn[i]);
    }
    if (request->tool_count > 0) {
        add_tools(arena, endpoint, request, body);
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

static orr_llm_stop stop_of(const char *reason) {
    static const struct {
        const char *word;
        orr_llm_stop stop;
    } words[] = {{"tool_use", ORR_LLM_TOOLS},
                 {"max_tokens", ORR_LLM_LENGTH},
                 {"pause_turn", ORR_LLM_PAUSE},
                 {"refusal", ORR_LLM_REFUSAL},
                 {"model_context_window_exceeded", ORR_LLM_LENGTH}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(reason, words[i].word) == 0) {
            return words[i].stop;
        }
    }
    return ORR_LLM_END;
}

orr_status llm_anthropic_read(orr_arena *arena, const orr_tree *body, orr_llm_reply *out,
                              orr_err *err) {
    const orr_tree *content = orr_tree_get(body, "content");
    if (orr_tree_kind_of(content) != ORR_TREE_LIST) {
        return orr_fail(err, ORR_E_SCHEMA, "the answer has no content");
    }
    orr_text text = orr_text_new(arena, ORR_LLM_MAX_TEXT);
    out->raw = content;
    for (size_t i = 0; i < orr_tree_size(content); i++) {
        const orr_tree *block = orr_tree_at(content, i);
        const char *type = orr_tree_text(orr_tree_get(block, "type"), "");
        if (strcmp(type, "text") == 0) {
            orr_text_add(&text, orr_tree_text(orr_tree_get(block, "text"), ""));
        } else if (strcmp(type, "tool_use") == 0) {
            llm_add_call(arena, out, orr_tree_text(orr_tree_get(block, "id"), ""),
                         orr_tree_text(orr_tree_get(block, "name"), ""),
                         orr_tree_get(block, "input"));
        }
    }
    out->text = orr_text_done(&text);
    out->stop = stop_of(orr_tree_text(orr_tree_get(body, "stop_reason"), ""));
    const orr_tree *usage = orr_tree_get(body, "usage");
    int64_t cached = llm_int(usage, "cache_read_input_tokens");
    out->usage = (orr_llm_usage){.in = llm_int(usage, "input_tokens") + cached +
                                       llm_int(usage, "cache_creation_input_tokens"),
                                 .cached_in = cached,
                                 .out = llm_int(usage, "output_tokens"),
                                 .known = orr_tree_kind_of(usage) == ORR_TREE_MAP};
    return ORR_OK;
}

/* ---- stream --------------------------------------------------------------------------------- */

static void fold_delta(orr_llm_fold *fold, const orr_tree *data) {
    llm_piece *piece = llm_fold_piece(fold, orr_tree_int(orr_tree_get(data, "index"), 0));
    const orr_tree *delta = orr_tree_get(data, "delta");
    static const char *const parts[] = {"text", "partial_json", "thinking"};
    for (size_t i = 0; piece != NULL && i < 3; i++) {
        orr_text_add(&piece->text, orr_tree_text(orr_tree_get(delta, parts[i]), ""));
    }
    if (piece != NULL) {
        orr_text_add(&piece->signature, orr_tree_text(orr_tree_get(delta, "signature"), ""));
    }
}

/* Counters of the last message_delta win over those of message_start. */
static void fold_usage(orr_llm_fold *fold, const orr_tree *usage) {
    if (orr_tree_kind_of(usage) != ORR_TREE_MAP) {
        return;
    }
    orr_tree *sum = fold->usage == NULL ? orr_tree_new_map(fold->arena)
                                        : orr_tree_copy(fold->arena, fold->usage);
    for (size_t i = 0; i < orr_tree_size(usage); i++) {
        if (orr_tree_kind_of(orr_tree_at(usage, i)) == ORR_TREE_INT) {
            (void)orr_tree_put(fold->arena, sum, orr_tree_key(usage, i),
                               orr_tree_copy(fold->arena, orr_tree_at(usage, i)));
        }
    }
    fold->usage = sum;
}

bool llm_anthropic_event(orr_llm_fold *fold, const orr_tree *data) {
    const char *type = orr_tree_text(orr_tree_get(data, "type"), "");
    if (strcmp(type, "error") == 0) {
        fold->error = llm_error(fold->arena, data);
        return false;
    }
    if (strcmp(type, "message_start") == 0) {
        fold->head = orr_tree_get(data, "message");
        fold_usage(fold, orr_tree_get(fold->head, "usage"));
    } else if (strcmp(type, "content_block_start") == 0) {
        llm_piece *piece = llm_fold_piece(fold, orr_tree_int(orr_tree_get(data, "index"), 0));
        if (piece != NULL) {
            piece->base = orr_tree_get(data, "content_block");
        }
    } else if (strcmp(type, "content_block_delta") == 0) {
        fold_delta(fold, data);
    } else if (strcmp(type, "message_delta") == 0) {
        fold->stop = orr_tree_path(data, "delta.stop_reason");
        fold_usage(fold, orr_tree_get(data, "usage"));
    } else if (strcmp(type, "message_stop") == 0) {
        fold->done = true;
    }
    return true;
}

static void append(orr_arena *arena, orr_tree *block, const char *key, orr_text *more) {
    const char *start = orr_tree_text(orr_tree_get(block, key), "");
    orr_tree_put_text(arena, block, key,
                      start[0] == '\0'
                          ? orr_text_done(more)
                          : orr_arena_format(arena, "%s%s", start, orr_text_done(more)));
}

static orr_tree *whole_block(orr_llm_fold *fold, llm_piece *piece) {
    orr_arena *arena = fold->arena;
    orr_tree *block = orr_tree_kind_of(piece->base) == ORR_TREE_MAP
                          ? orr_tree_copy(arena, piece->base)
                          : orr_tree_new_map(arena);
    const char *type = orr_tree_text(orr_tree_get(block, "type"), "");
    if (strcmp(type, "text") == 0) {
        append(arena, block, "text", &piece->text);
    } else if (strcmp(type, "thinking") == 0) {
        append(arena, block, "thinking", &piece->text);
        append(arena, block, "signature", &piece->signature);
    } else if (strcmp(type, "tool_use") == 0 && piece->text.length > 0) {
        /* What is no JSON stays a text, which the caller then refuses by name. */
        const orr_tree *input = llm_args(arena, orr_text_done(&piece->text));
        (void)orr_tree_put(arena, block, "input",
                           input != NULL ? orr_tree_copy(arena, input)
                                         : orr_tree_new_text(arena, orr_text_done(&piece->text)));
    }
    return block;
}

const orr_tree *llm_anthropic_whole(orr_llm_fold *fold) {
    orr_arena *arena = fold->arena;
    orr_tree *body = orr_tree_new_map(arena);
    static const char *const keys[] = {"id", "model", "role"};
    for (size_t i = 0; i < 3; i++) {
        orr_tree_put_text(arena, body, keys[i],
                          orr_tree_text(orr_tree_get(fold->head, keys[i]), NULL));
    }
    orr_tree *content = orr_tree_put(arena, body, "content", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < fold->piece_count; i++) {
        (void)orr_tree_push(arena, content, whole_block(fold, &fold->piece[i]));
    }
    orr_tree_put_text(arena, body, "stop_reason", orr_tree_text(fold->stop, NULL));
    if (fold->usage != NULL) {
        (void)orr_tree_put(arena, body, "usage", orr_tree_copy(arena, fold->usage));
    }
    return body;
}
