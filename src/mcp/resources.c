/* What is known by name, as resources: orrery://model/mixtral-8x22b. */
#include <stdio.h>
#include <string.h>

#include "mcp/mcp_int.h"

static const char scheme[] = "orrery://";
static const char *const nouns[] = {"model", "hardware", "cluster", "software", "fabric"};
enum { NOUN_COUNT = sizeof nouns / sizeof *nouns, URI_BYTES = 256 };

static orr_status ask(mcp_session *session, const char *noun, const char *verb, const char *name,
                      orr_tree **envelope, orr_err *err) {
    char command[64];
    orr_tree *args = orr_tree_new_map(session->arena);
    (void)snprintf(command, sizeof command, "%s %s", noun, verb);
    if (name != NULL) {
        orr_tree_put_text(session->arena, args, "name", name);
    }
    return orr_call(session->ctx, command, args, session->arena, envelope, err);
}

mcp_answer mcp_list_resources(mcp_session *session) {
    orr_arena *arena = session->arena;
    orr_tree *result = orr_tree_new_map(arena);
    orr_tree *list = orr_tree_put(arena, result, "resources", orr_tree_new_list(arena));
    for (size_t n = 0; n < NOUN_COUNT; n++) {
        orr_tree *envelope = NULL;
        orr_err err = {0};
        if (ask(session, nouns[n], "list", NULL, &envelope, &err) != ORR_OK) {
            continue;
        }
        const orr_tree *entries = orr_tree_path(envelope, "result.entries");
        for (size_t i = 0; i < orr_tree_size(entries); i++) {
            const orr_tree *entry = orr_tree_at(entries, i);
            const char *name = orr_tree_text(orr_tree_get(entry, "name"), "");
            char uri[URI_BYTES];
            (void)snprintf(uri, sizeof uri, "%s%s/%s", scheme, nouns[n], name);
            orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
            orr_tree_put_text(arena, one, "uri", uri);
            orr_tree_put_text(arena, one, "name", name);
            const char *title = orr_tree_text(orr_tree_get(entry, "title"), NULL);
            if (title != NULL) {
                orr_tree_put_text(arena, one, "title", title);
            }
            orr_tree_put_text(arena, one, "mimeType", "application/json");
        }
    }
    mcp_put_cache(session, result);
    return (mcp_answer){.result = result};
}

mcp_answer mcp_list_templates(mcp_session *session) {
    orr_arena *arena = session->arena;
    orr_tree *result = orr_tree_new_map(arena);
    orr_tree *list = orr_tree_put(arena, result, "resourceTemplates", orr_tree_new_list(arena));
    for (size_t n = 0; n < NOUN_COUNT; n++) {
        char uri[URI_BYTES];
        (void)snprintf(uri, sizeof uri, "%s%s/{name}", scheme, nouns[n]);
        orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
        orr_tree_put_text(arena, one, "uriTemplate", uri);
        orr_tree_put_text(arena, one, "name", nouns[n]);
        orr_tree_put_text(arena, one, "mimeType", "application/json");
    }
    mcp_put_cache(session, result);
    return (mcp_answer){.result = result};
}

/* orrery://NOUN/NAME into its parts; NULL when it is none. A name is no path. */
static const char *split_uri(const char *uri, const char **noun) {
    if (strncmp(uri, scheme, sizeof scheme - 1) != 0) {
        return NULL;
    }
    const char *rest = uri + sizeof scheme - 1;
    for (size_t n = 0; n < NOUN_COUNT; n++) {
        size_t length = strlen(nouns[n]);
        if (strncmp(rest, nouns[n], length) == 0 && rest[length] == '/') {
            *noun = nouns[n];
            const char *name = rest + length + 1;
            bool path = strchr(name, '/') != NULL || strstr(name, "..") != NULL;
            return name[0] == '\0' || path ? NULL : name;
        }
    }
    return NULL;
}

mcp_answer mcp_read_resource(mcp_session *session, const orr_tree *params) {
    const char *uri = orr_tree_text(orr_tree_get(params, "uri"), NULL), *noun = NULL;
    const char *name = uri == NULL ? NULL : split_uri(uri, &noun);
    orr_tree *envelope = NULL;
    orr_err err = {0};
    if (uri == NULL) {
        return mcp_fail(MCP_INVALID_PARAMS, "resources/read needs a uri");
    }
    if (name == NULL || ask(session, noun, "show", name, &envelope, &err) != ORR_OK) {
        return mcp_fail(session->modern ? MCP_INVALID_PARAMS : MCP_RESOURCE_NOT_FOUND,
                        mcp_quote(session, "no such resource:", uri));
    }
    orr_arena *arena = session->arena;
    orr_tree *result = orr_tree_new_map(arena);
    orr_tree *contents = orr_tree_put(arena, result, "contents", orr_tree_new_list(arena));
    orr_tree *one = orr_tree_push(arena, contents, orr_tree_new_map(arena));
    orr_tree_put_text(arena, one, "uri", uri);
    orr_tree_put_text(arena, one, "mimeType", "application/json");
    orr_tree_put_text(arena, one, "text",
                      orr_write_json(arena, orr_tree_get(envelope, "result"), false));
    mcp_put_cache(session, result);
    return (mcp_answer){.result = result};
}
