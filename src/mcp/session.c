/* Requests, eras, errors, progress and cancellation. */
#include <stdio.h>
#include <string.h>

#include "mcp/mcp_int.h"

static const char modern_version[] = "2026-07-28";
static const char *const legacy_versions[] = {"2025-11-25", "2025-06-18", "2024-11-05"};
enum { LEGACY_COUNT = sizeof legacy_versions / sizeof *legacy_versions };

static const char instructions[] =
    "Orrery projects distributed LLM training: whether a plan fits, how fast it runs, why, and how "
    "sure that is. Figures come from its tools alone. Start with project or check; evaluate takes "
    "up to 16 variants of one plan; neighbors and explain say what to change; a plan that breaks "
    "rules comes back with their ids and legal alternatives. Models, accelerators and clusters "
    "known by name are resources.";

/* ---- writing -------------------------------------------------------------------------------- */

static void send(mcp_session *session, orr_arena *arena, const orr_tree *message) {
    session->write(session->user, orr_write_json(arena, message, false));
}

static orr_tree *new_message(orr_arena *arena) {
    orr_tree *message = orr_tree_new_map(arena);
    orr_tree_put_text(arena, message, "jsonrpc", "2.0");
    return message;
}

mcp_answer mcp_fail(int code, const char *message) {
    return (mcp_answer){.code = code, .message = message};
}

const char *mcp_quote(mcp_session *session, const char *text, const char *what) {
    char buffer[256];
    (void)snprintf(buffer, sizeof buffer, "%s '%.120s'", text, what);
    return orr_tree_text(orr_tree_new_text(session->arena, buffer), "");
}

static void reply(mcp_session *session, const orr_tree *id, mcp_answer answer) {
    orr_arena *arena = session->arena;
    orr_tree *message = new_message(arena);
    (void)orr_tree_put(arena, message, "id", orr_tree_copy(arena, id));
    if (answer.result != NULL) {
        if (session->modern) {
            orr_tree_put_text(arena, answer.result, "resultType", "complete");
        }
        (void)orr_tree_put(arena, message, "result", answer.result);
    } else {
        orr_tree *error = orr_tree_put(arena, message, "error", orr_tree_new_map(arena));
        orr_tree_put_int(arena, error, "code", answer.code);
        orr_tree_put_text(arena, error, "message", answer.message);
        if (answer.data != NULL) {
            (void)orr_tree_put(arena, error, "data", answer.data);
        }
    }
    send(session, arena, message);
}

/* ---- progress and cancellation -------------------------------------------------------------- */

static bool on_progress(void *user, const char *what, double done, double total) {
    mcp_session *session = (mcp_session *)user;
    if (session->poll != NULL) {
        session->poll(session->user);
    }
    /* The protocol wants progress to grow; a tool may count several things one after another. */
    if (session->progress_token != NULL && done > session->progress && !session->cancelled) {
        orr_arena *arena = orr_arena_new();
        orr_tree *message = new_message(arena);
        orr_tree_put_text(arena, message, "method", "notifications/progress");
        orr_tree *params = orr_tree_put(arena, message, "params", orr_tree_new_map(arena));
        (void)orr_tree_put(arena, params, "progressToken",
                           orr_tree_copy(arena, session->progress_token));
        orr_tree_put_real(arena, params, "progress", done);
        if (total > 0) {
            orr_tree_put_real(arena, params, "total", total);
        }
        orr_tree_put_text(arena, params, "message", what);
        session->progress = done;
        send(session, arena, message);
        orr_arena_free(arena);
    }
    return !session->cancelled;
}

static bool is_same_id(const orr_tree *a, const orr_tree *b) {
    if (a == NULL || b == NULL || orr_tree_kind_of(a) != orr_tree_kind_of(b)) {
        return false;
    }
    return orr_tree_kind_of(a) == ORR_TREE_TEXT
               ? strcmp(orr_tree_text(a, ""), orr_tree_text(b, "")) == 0
               : orr_tree_int(a, 0) == orr_tree_int(b, 1);
}

void mcp_glance(mcp_session *session, const char *line, size_t length) {
    static const char method[] = "notifications/cancelled";
    if (session->id == NULL || length > MCP_MAX_LINE || memchr(line, '{', length) == NULL) {
        return;
    }
    orr_arena *arena = orr_arena_new();
    orr_tree *message = NULL;
    orr_err ignored = {0};
    if (orr_read_text(arena, NULL, line, length, &message, &ignored) == ORR_OK &&
        strcmp(orr_tree_text(orr_tree_get(message, "method"), ""), method) == 0 &&
        is_same_id(orr_tree_path(message, "params.requestId"), session->id)) {
        session->cancelled = true;
    }
    orr_arena_free(arena);
}

/* ---- handshake ------------------------------------------------------------------------------ */

static void put_capabilities(mcp_session *session, orr_tree *result) {
    orr_arena *arena = session->arena;
    orr_tree *all = orr_tree_put(arena, result, "capabilities", orr_tree_new_map(arena));
    orr_tree *tools = orr_tree_put(arena, all, "tools", orr_tree_new_map(arena));
    orr_tree *resources = orr_tree_put(arena, all, "resources", orr_tree_new_map(arena));
    if (!session->modern) {
        orr_tree_put_bool(arena, tools, "listChanged", false);
        orr_tree_put_bool(arena, resources, "listChanged", false);
        orr_tree_put_bool(arena, resources, "subscribe", false);
    }
}

static orr_tree *server_info(orr_arena *arena) {
    orr_tree *info = orr_tree_new_map(arena);
    orr_tree_put_text(arena, info, "name", "orrery");
    orr_tree_put_text(arena, info, "title", "Orrery");
    orr_tree_put_text(arena, info, "version", orr_version());
    return info;
}

static mcp_answer initialize(mcp_session *session, const orr_tree *params) {
    const char *asked = orr_tree_text(orr_tree_get(params, "protocolVersion"), NULL);
    const char *spoken = legacy_versions[0];
    if (asked == NULL) {
        return mcp_fail(MCP_INVALID_PARAMS, "initialize needs protocolVersion");
    }
    for (size_t i = 0; i < LEGACY_COUNT; i++) {
        if (strcmp(asked, legacy_versions[i]) == 0) {
            spoken = legacy_versions[i];
        }
    }
    orr_arena *arena = session->arena;
    orr_tree *result = orr_tree_new_map(arena);
    orr_tree_put_text(arena, result, "protocolVersion", spoken);
    put_capabilities(session, result);
    (void)orr_tree_put(arena, result, "serverInfo", server_info(arena));
    orr_tree_put_text(arena, result, "instructions", instructions);
    return (mcp_answer){.result = result};
}

static orr_tree *supported_versions(orr_arena *arena) {
    orr_tree *list = orr_tree_new_list(arena);
    (void)orr_tree_push(arena, list, orr_tree_new_text(arena, modern_version));
    for (size_t i = 0; i < LEGACY_COUNT; i++) {
        (void)orr_tree_push(arena, list, orr_tree_new_text(arena, legacy_versions[i]));
    }
    return list;
}

static mcp_answer discover(mcp_session *session) {
    orr_arena *arena = session->arena;
    orr_tree *result = orr_tree_new_map(arena);
    (void)orr_tree_put(arena, result, "supportedVersions", supported_versions(arena));
    put_capabilities(session, result);
    orr_tree_put_text(arena, result, "instructions", instructions);
    mcp_put_cache(session, result);
    orr_tree *meta = orr_tree_put(arena, result, "_meta", orr_tree_new_map(arena));
    (void)orr_tree_put(arena, meta, "io.modelcontextprotocol/serverInfo", server_info(arena));
    return (mcp_answer){.result = result};
}

void mcp_put_cache(mcp_session *session, orr_tree *result) {
    if (session->modern) {
        /* What is built in changes with the binary only. */
        orr_tree_put_int(session->arena, result, "ttlMs", 3600 * 1000);
        orr_tree_put_text(session->arena, result, "cacheScope", "public");
    }
}

/* ---- requests ------------------------------------------------------------------------------- */

static const orr_tree *meta_of(const orr_tree *params, const char *name) {
    char key[96];
    (void)snprintf(key, sizeof key, "io.modelcontextprotocol/%s", name);
    return orr_tree_get(orr_tree_get(params, "_meta"), key);
}

/* The stateless era names its version in every request. True when the request may go on. */
static bool check_era(mcp_session *session, const char *method, const orr_tree *params,
                      mcp_answer *answer) {
    const orr_tree *version = meta_of(params, "protocolVersion");
    bool discovers = strcmp(method, "server/discover") == 0;
    session->modern = version != NULL || discovers;
    if (!session->modern) {
        return true;
    }
    const char *asked = orr_tree_text(version, NULL);
    if (asked == NULL || orr_tree_kind_of(meta_of(params, "clientCapabilities")) != ORR_TREE_MAP) {
        *answer =
            mcp_fail(MCP_INVALID_PARAMS, "_meta needs io.modelcontextprotocol/protocolVersion and "
                                         "io.modelcontextprotocol/clientCapabilities");
        return false;
    }
    if (strcmp(asked, modern_version) != 0) {
        *answer = mcp_fail(MCP_UNSUPPORTED_VERSION, "unsupported protocol version");
        answer->data = orr_tree_new_map(session->arena);
        (void)orr_tree_put(session->arena, answer->data, "supported",
                           supported_versions(session->arena));
        orr_tree_put_text(session->arena, answer->data, "requested", asked);
        return false;
    }
    return true;
}

static mcp_answer dispatch(mcp_session *session, const char *method, const orr_tree *params) {
    mcp_answer answer = {0};
    if (!check_era(session, method, params, &answer)) {
        return answer;
    }
    if (strcmp(method, "server/discover") == 0) {
        return discover(session);
    }
    if (!session->modern && strcmp(method, "initialize") == 0) {
        return initialize(session, params);
    }
    if (!session->modern && strcmp(method, "ping") == 0) {
        return (mcp_answer){.result = orr_tree_new_map(session->arena)};
    }
    if (orr_tree_get(params, "cursor") != NULL) { /* every list is one page */
        return mcp_fail(MCP_INVALID_PARAMS, "there is no further page");
    }
    if (strcmp(method, "tools/list") == 0) {
        return mcp_list_tools(session);
    }
    if (strcmp(method, "tools/call") == 0) {
        return mcp_call_tool(session, params);
    }
    if (strcmp(method, "resources/list") == 0) {
        return mcp_list_resources(session);
    }
    if (strcmp(method, "resources/templates/list") == 0) {
        return mcp_list_templates(session);
    }
    if (strcmp(method, "resources/read") == 0) {
        return mcp_read_resource(session, params);
    }
    return mcp_fail(MCP_UNKNOWN_METHOD, mcp_quote(session, "unknown method", method));
}

static const orr_tree *progress_token(const orr_tree *params) {
    const orr_tree *token = orr_tree_get(orr_tree_get(params, "_meta"), "progressToken");
    orr_tree_kind kind = orr_tree_kind_of(token);
    return kind == ORR_TREE_TEXT || kind == ORR_TREE_INT ? token : NULL;
}

static void handle(mcp_session *session, const orr_tree *message) {
    const orr_tree *id = orr_tree_get(message, "id"), *params = orr_tree_get(message, "params");
    const char *method = orr_tree_text(orr_tree_get(message, "method"), NULL);
    orr_tree_kind id_kind = orr_tree_kind_of(id);
    bool usable_id = id_kind == ORR_TREE_TEXT || id_kind == ORR_TREE_INT;
    session->modern = false;
    if (method == NULL &&
        (orr_tree_get(message, "result") != NULL || orr_tree_get(message, "error") != NULL)) {
        return; /* an answer, though nothing was asked */
    }
    if (strcmp(orr_tree_text(orr_tree_get(message, "jsonrpc"), ""), "2.0") != 0 || method == NULL ||
        (id != NULL && !usable_id) ||
        (params != NULL && orr_tree_kind_of(params) != ORR_TREE_MAP)) {
        reply(
            session, usable_id ? id : NULL,
            mcp_fail(MCP_INVALID_REQUEST, "not a JSON-RPC 2.0 request with a text or integer id"));
        return;
    }
    if (id == NULL) {
        return; /* notifications: initialized needs nothing, cancelled comes too late */
    }
    session->id = id;
    session->progress_token = progress_token(params);
    session->progress = 0;
    session->cancelled = false;
    mcp_answer answer = dispatch(session, method, params);
    if (!session->cancelled) {
        reply(session, id, answer);
    }
    session->id = NULL;
}

void mcp_line(mcp_session *session, const char *line, size_t length) {
    size_t start = 0;
    while (start < length && (line[start] == ' ' || line[start] == '\t' || line[start] == '\r')) {
        start++;
    }
    if (start == length) {
        return;
    }
    if (length > MCP_MAX_LINE) {
        mcp_too_long(session);
        return;
    }
    session->arena = orr_arena_new();
    session->modern = false;
    orr_tree *message = NULL;
    orr_err err = {0};
    /* Only an object is JSON-RPC here; anything else would be tried as YAML. */
    if (line[start] != '{' ||
        orr_read_text(session->arena, NULL, line, length, &message, &err) != ORR_OK) {
        bool batch = line[start] == '[';
        reply(session, NULL,
              batch ? mcp_fail(MCP_INVALID_REQUEST, "batches are not supported")
                    : mcp_fail(MCP_PARSE_ERROR,
                               mcp_quote(session, "no JSON object:",
                                         err.message[0] == '\0' ? "it must start with {"
                                                                : err.message)));
    } else {
        handle(session, message);
    }
    orr_arena_free(session->arena);
    session->arena = NULL;
}

void mcp_too_long(mcp_session *session) {
    session->arena = orr_arena_new();
    session->modern = false;
    reply(session, NULL, mcp_fail(MCP_INVALID_REQUEST, "a request may have 1 MiB"));
    orr_arena_free(session->arena);
    session->arena = NULL;
}

void mcp_open(mcp_session *session, orr_ctx *ctx, mcp_write_fn write, mcp_poll_fn poll,
              void *user) {
    *session = (mcp_session){
        .ctx = ctx, .write = write, .poll = poll, .user = user, .kept = orr_arena_new()};
    session->commands = orr_commands(ctx, session->kept);
    orr_ctx_on_progress(ctx, on_progress, session);
}

void mcp_close(mcp_session *session) {
    orr_ctx_on_progress(session->ctx, NULL, NULL);
    orr_arena_free(session->kept);
}
