/* Commands as tools: names, schemas, calls. */
#include <stdio.h>
#include <string.h>

#include "mcp/mcp_int.h"

enum { TOOL_NAME = 64 };

/* "model show" is the tool model_show. */
static void tool_name(const orr_tree *command, char out[TOOL_NAME]) {
    (void)snprintf(out, TOOL_NAME, "%s", orr_tree_text(orr_tree_get(command, "name"), ""));
    for (char *p = out; *p != '\0'; p++) {
        *p = *p == ' ' ? '_' : *p;
    }
}

/* Whoever calls has a language model of its own. That this server reaches none, and so opens no
 * connection and reads no key, holds for every call, whatever its arguments say. */
static bool reaches_out(const char *name) {
    return strncmp(name, "llm", 3) == 0;
}

static const orr_tree *find_tool(const mcp_session *session, const char *name) {
    for (size_t i = 0; i < orr_tree_size(session->commands); i++) {
        char own[TOOL_NAME];
        tool_name(orr_tree_at(session->commands, i), own);
        if (strcmp(own, name) == 0 && !reaches_out(own)) {
            return orr_tree_at(session->commands, i);
        }
    }
    return NULL;
}

static orr_tree *input_schema(mcp_session *session, const char *command) {
    orr_tree *args = orr_tree_new_map(session->arena), *envelope = NULL;
    orr_err err = {0};
    orr_tree_put_text(session->arena, args, "name", command);
    if (orr_call(session->ctx, "schema", args, session->arena, &envelope, &err) != ORR_OK) {
        return orr_tree_new_map(session->arena);
    }
    orr_tree *schema = orr_tree_copy(session->arena, orr_tree_get(envelope, "result"));
    const orr_tree *properties = orr_tree_get(schema, "properties");
    orr_tree *kept = orr_tree_new_map(session->arena);
    for (size_t i = 0; i < orr_tree_size(properties); i++) {
        if (!reaches_out(orr_tree_key(properties, i))) {
            (void)orr_tree_put(session->arena, kept, orr_tree_key(properties, i),
                               orr_tree_copy(session->arena, orr_tree_at(properties, i)));
        }
    }
    (void)orr_tree_put(session->arena, schema, "properties", kept);
    return schema;
}

/* Every command answers with the same envelope. */
static orr_tree *output_schema(orr_arena *arena) {
    static const char *const keys[][2] = {{"schema", "string"}, {"tool", "object"},
                                          {"inputs", "object"}, {"assumptions", "array"},
                                          {"result", "object"}, {"warnings", "array"}};
    orr_tree *schema = orr_tree_new_map(arena);
    orr_tree_put_text(arena, schema, "type", "object");
    orr_tree *properties = orr_tree_put(arena, schema, "properties", orr_tree_new_map(arena));
    orr_tree *required = orr_tree_put(arena, schema, "required", orr_tree_new_list(arena));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        orr_tree *one = orr_tree_put(arena, properties, keys[i][0], orr_tree_new_map(arena));
        orr_tree_put_text(arena, one, "type", keys[i][1]);
        if (strcmp(keys[i][0], "result") != 0) { /* validate's own keys stand beside the others */
            (void)orr_tree_push(arena, required, orr_tree_new_text(arena, keys[i][0]));
        }
    }
    return schema;
}

static bool writes_files(const orr_tree *command) {
    static const char *const writers[] = {"write",  "svg",        "store",
                                          "trials", "transcript", "heatmap"};
    const orr_tree *fields = orr_tree_get(command, "fields");
    for (size_t i = 0; i < orr_tree_size(fields); i++) {
        const char *name = orr_tree_text(orr_tree_get(orr_tree_at(fields, i), "name"), "");
        for (size_t k = 0; k < sizeof writers / sizeof *writers; k++) {
            if (strcmp(name, writers[k]) == 0) {
                return true;
            }
        }
    }
    return false;
}

mcp_answer mcp_list_tools(mcp_session *session) {
    orr_arena *arena = session->arena;
    orr_tree *result = orr_tree_new_map(arena);
    orr_tree *tools = orr_tree_put(arena, result, "tools", orr_tree_new_list(arena));
    for (size_t i = 0; i < orr_tree_size(session->commands); i++) {
        const orr_tree *command = orr_tree_at(session->commands, i);
        char name[TOOL_NAME];
        tool_name(command, name);
        if (reaches_out(name)) {
            continue;
        }
        orr_tree *tool = orr_tree_push(arena, tools, orr_tree_new_map(arena));
        orr_tree_put_text(arena, tool, "name", name);
        orr_tree_put_text(arena, tool, "description",
                          orr_tree_text(orr_tree_get(command, "summary"), ""));
        (void)orr_tree_put(arena, tool, "inputSchema",
                           input_schema(session, orr_tree_text(orr_tree_get(command, "name"), "")));
        (void)orr_tree_put(arena, tool, "outputSchema", output_schema(arena));
        orr_tree *notes = orr_tree_put(arena, tool, "annotations", orr_tree_new_map(arena));
        orr_tree_put_bool(arena, notes, "readOnlyHint", !writes_files(command));
        orr_tree_put_bool(arena, notes, "idempotentHint", true);
        orr_tree_put_bool(arena, notes, "openWorldHint", false);
    }
    mcp_put_cache(session, result);
    return (mcp_answer){.result = result};
}

static void put_text_content(orr_arena *arena, orr_tree *result, const char *text) {
    orr_tree *content = orr_tree_put(arena, result, "content", orr_tree_new_list(arena));
    orr_tree *block = orr_tree_push(arena, content, orr_tree_new_map(arena));
    orr_tree_put_text(arena, block, "type", "text");
    orr_tree_put_text(arena, block, "text", text);
}

/* What went wrong, and what would be right: the caller can mend it. */
static mcp_answer tool_error(mcp_session *session, const orr_err *err) {
    char text[sizeof err->message + sizeof err->hint + 64];
    orr_tree *result = orr_tree_new_map(session->arena);
    (void)snprintf(text, sizeof text, "%s error: %s%s%s", orr_status_name(err->status),
                   err->message, err->hint[0] == '\0' ? "" : "\nhint: ", err->hint);
    put_text_content(session->arena, result, text);
    orr_tree_put_bool(session->arena, result, "isError", true);
    return (mcp_answer){.result = result};
}

mcp_answer mcp_call_tool(mcp_session *session, const orr_tree *params) {
    const char *name = orr_tree_text(orr_tree_get(params, "name"), NULL);
    const orr_tree *given = orr_tree_get(params, "arguments");
    const orr_tree *command = name == NULL ? NULL : find_tool(session, name);
    orr_tree_kind kind = orr_tree_kind_of(given);
    if (command == NULL) {
        return mcp_fail(MCP_INVALID_PARAMS,
                        mcp_quote(session, "unknown tool", name == NULL ? "" : name));
    }
    if (given != NULL && kind != ORR_TREE_MAP) {
        return mcp_fail(MCP_INVALID_PARAMS, "arguments must be an object");
    }
    const orr_tree *args = given != NULL ? given : orr_tree_new_map(session->arena);
    orr_tree *envelope = NULL;
    orr_err err = {0};
    for (size_t i = 0; i < orr_tree_size(args); i++) {
        if (reaches_out(orr_tree_key(args, i))) {
            err.status = ORR_E_USAGE;
            (void)snprintf(err.message, sizeof err.message,
                           "this server reaches no language model");
            return tool_error(session, &err);
        }
    }
    if (orr_call(session->ctx, orr_tree_text(orr_tree_get(command, "name"), ""), args,
                 session->arena, &envelope, &err) != ORR_OK) {
        return tool_error(session, &err);
    }
    orr_tree *result = orr_tree_new_map(session->arena);
    put_text_content(session->arena, result, orr_write_json(session->arena, envelope, false));
    (void)orr_tree_put(session->arena, result, "structuredContent", envelope);
    orr_tree_put_bool(session->arena, result, "isError",
                      !orr_tree_bool(orr_tree_path(envelope, "result.verdict.legal"), true));
    return (mcp_answer){.result = result};
}
