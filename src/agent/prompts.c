/* Prompts and tools from data/prompts. */
#include <string.h>

#include "agent/agent.h"
#include "base/embedded.h"
#include "base/err.h"
#include "doc/doc.h"

static const orr_embedded *find_file(orr_arena *arena, const char *name) {
    const char *path = orr_arena_format(arena, "prompts/%s", name);
    for (const orr_embedded *file = orr_embedded_files; file->path != NULL; file++) {
        if (strcmp(file->path, path) == 0) {
            return file;
        }
    }
    return NULL;
}

const char *orr_agent_prompt(orr_arena *arena, const char *name) {
    const orr_embedded *file = find_file(arena, name);
    if (file == NULL || strncmp(file->bytes, "version: ", 9) != 0) {
        return NULL;
    }
    const char *body = strchr(file->bytes, '\n');
    return body == NULL ? NULL : orr_arena_text(arena, body + 1 + strspn(body + 1, "\n"));
}

static orr_tree *typed(orr_arena *arena, const char *type, const char *description) {
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_text(arena, map, "type", type);
    if (description != NULL) {
        orr_tree_put_text(arena, map, "description", description);
    }
    return map;
}

/* A plan: the open keys with their legal values, and the trial that it starts from. */
static orr_tree *plan_schema(orr_arena *arena, const orr_belt_axis *axis, uint32_t count) {
    orr_tree *schema = typed(arena, "object", "keys that differ from the trial in `from`");
    orr_tree_put_bool(arena, schema, "additionalProperties", false);
    orr_tree *properties = orr_tree_put(arena, schema, "properties", orr_tree_new_map(arena));
    (void)orr_tree_put(arena, properties, "from",
                       typed(arena, "integer", "trial to start from; 0, the baseline, if absent"));
    for (uint32_t i = 0; i < count; i++) {
        orr_tree_kind kind = orr_tree_kind_of(orr_tree_at(axis[i].values, 0));
        const char *type = kind == ORR_TREE_INT    ? "integer"
                           : kind == ORR_TREE_BOOL ? "boolean"
                                                   : "string";
        orr_tree *one = orr_tree_put(arena, properties, axis[i].key, typed(arena, type, NULL));
        bool closed = strcmp(axis[i].key, "recompute") != 0;
        if ((kind == ORR_TREE_TEXT || kind == ORR_TREE_INT) && closed) {
            (void)orr_tree_put(arena, one, "enum", orr_tree_copy(arena, axis[i].values));
        } else if (kind == ORR_TREE_TEXT) {
            orr_tree_put_text(arena, one, "description",
                              "none, selective, full, or block:N layers of each chunk");
        }
    }
    return schema;
}

static orr_tree *parameter(orr_arena *arena, const orr_tree *from, const orr_belt_axis *axis,
                           uint32_t axis_count) {
    const char *type = orr_tree_text(orr_tree_get(from, "type"), "string");
    const char *description = orr_tree_text(orr_tree_get(from, "description"), NULL);
    if (strcmp(type, "trial") == 0) {
        return typed(arena, "integer", "number of a trial");
    }
    if (strcmp(type, "plans") == 0) {
        orr_tree *list = typed(arena, "array", description);
        (void)orr_tree_put(arena, list, "items", plan_schema(arena, axis, axis_count));
        return list;
    }
    if (strcmp(type, "strings") == 0) {
        orr_tree *list = typed(arena, "array", description);
        (void)orr_tree_put(arena, list, "items", typed(arena, "string", NULL));
        return list;
    }
    if (strcmp(type, "role") == 0) {
        static const char *const roles[] = {"memory", "communication", "pipeline"};
        orr_tree *role = typed(arena, "string", description);
        orr_tree *words = orr_tree_put(arena, role, "enum", orr_tree_new_list(arena));
        for (size_t i = 0; i < 3; i++) {
            (void)orr_tree_push(arena, words, orr_tree_new_text(arena, roles[i]));
        }
        return role;
    }
    return typed(arena, type, description);
}

static const orr_tree *tool_schema(orr_arena *arena, const orr_tree *parameters,
                                   const orr_belt_axis *axis, uint32_t axis_count) {
    orr_tree *schema = typed(arena, "object", NULL);
    orr_tree_put_bool(arena, schema, "additionalProperties", false);
    orr_tree *properties = orr_tree_put(arena, schema, "properties", orr_tree_new_map(arena));
    orr_tree *required = orr_tree_put(arena, schema, "required", orr_tree_new_list(arena));
    for (size_t i = 0; i < orr_tree_size(parameters); i++) {
        const orr_tree *one = orr_tree_at(parameters, i);
        const char *key = orr_tree_key(parameters, i);
        (void)orr_tree_put(arena, properties, key, parameter(arena, one, axis, axis_count));
        if (orr_tree_bool(orr_tree_get(one, "required"), false)) {
            (void)orr_tree_push(arena, required, orr_tree_new_text(arena, key));
        }
    }
    return schema;
}

orr_status orr_agent_tools(orr_arena *arena, const orr_belt_axis *axis, uint32_t axis_count,
                           const orr_llm_tool **out, uint32_t *count, orr_err *err) {
    const orr_embedded *file = find_file(arena, "tools.yaml");
    orr_tree *tree = NULL;
    if (file == NULL) {
        return orr_fail(err, ORR_E_INTERNAL, "prompts/tools.yaml is missing");
    }
    ORR_TRY(orr_yaml_read(arena, file->path, file->bytes, file->length, &tree, err));
    const orr_tree *list = orr_tree_get(tree, "tools");
    *count = (uint32_t)orr_tree_size(list);
    orr_llm_tool *tools = ORR_NEW_ARRAY(arena, orr_llm_tool, *count + 1u);
    for (uint32_t i = 0; i < *count; i++) {
        const orr_tree *one = orr_tree_at(list, i);
        tools[i] = (orr_llm_tool){
            .name = orr_tree_text(orr_tree_get(one, "name"), ""),
            .description = orr_tree_text(orr_tree_get(one, "description"), ""),
            .schema = tool_schema(arena, orr_tree_get(one, "parameters"), axis, axis_count)};
    }
    *out = tools;
    return ORR_OK;
}
