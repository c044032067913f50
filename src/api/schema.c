/* JSON Schema of a command's arguments, from the fields that help and parsing read too. */
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "belt/belt.h"

/* Type words of fields and what JSON may hold for them. A quantity takes "80GiB" as well as a
 * number of its base unit; `any` takes what its document says. */
static const struct {
    const char *type, *json[4];
} types[] = {{"bool", {"boolean"}},
             {"integer", {"integer"}},
             {"number", {"number"}},
             {"quantity", {"number", "string"}},
             {"text", {"string"}},
             {"choice", {"string"}},
             {"choices", {"string", "array"}},
             {"any", {"string", "integer", "object", "array"}},
             {"texts", {"string", "array"}},
             {"map", {"object", "string"}},
             {"maps", {"array", "string"}}};

static void put_type(orr_arena *arena, orr_tree *map, const char *type) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(type, types[i].type) != 0) {
            continue;
        }
        if (types[i].json[1] == NULL) {
            orr_tree_put_text(arena, map, "type", types[i].json[0]);
            return;
        }
        orr_tree *list = orr_tree_put(arena, map, "type", orr_tree_new_list(arena));
        for (size_t k = 0; k < 4 && types[i].json[k] != NULL; k++) {
            (void)orr_tree_push(arena, list, orr_tree_new_text(arena, types[i].json[k]));
        }
    }
}

/* One field of a command as a property. */
static orr_tree *field_schema(orr_arena *arena, const orr_tree *field) {
    orr_tree *map = orr_tree_new_map(arena);
    const char *type = orr_tree_text(orr_tree_get(field, "type"), "text");
    const char *unit = orr_tree_text(orr_tree_get(field, "unit"), NULL);
    const char *doc = orr_tree_text(orr_tree_get(field, "doc"), "");
    const orr_tree *values = orr_tree_get(field, "values");
    put_type(arena, map, type);
    if (orr_tree_size(values) > 0 && strcmp(type, "choice") == 0) {
        (void)orr_tree_put(arena, map, "enum", orr_tree_copy(arena, values));
    }
    if (strcmp(type, "choices") == 0 || strcmp(type, "texts") == 0 || strcmp(type, "maps") == 0) {
        bool maps = strcmp(type, "maps") == 0;
        orr_tree *items = orr_tree_put(arena, map, "items", orr_tree_new_map(arena));
        orr_tree_put_text(arena, items, "type", maps ? "object" : "string");
        if (orr_tree_size(values) > 0) {
            (void)orr_tree_put(arena, items, "enum", orr_tree_copy(arena, values));
        }
        if (maps) {
            orr_tree_put_int(arena, map, "maxItems", ORR_BELT_MAX_PLANS);
        }
    }
    orr_tree_put_text(arena, map, "description",
                      unit == NULL ? doc : orr_arena_format(arena, "%s Unit: %s.", doc, unit));
    return map;
}

orr_tree *orr_command_json_schema(orr_arena *arena, const orr_command *command) {
    orr_tree *schema = orr_tree_new_map(arena);
    orr_tree_put_text(arena, schema, "$schema", "https://json-schema.org/draft/2020-12/schema");
    orr_tree_put_text(arena, schema, "title", command->name);
    orr_tree_put_text(arena, schema, "description", command->summary);
    orr_tree_put_text(arena, schema, "type", "object");
    orr_tree_put_bool(arena, schema, "additionalProperties", false);
    orr_tree *properties = orr_tree_put(arena, schema, "properties", orr_tree_new_map(arena));
    orr_tree *required = orr_tree_new_list(arena);
    const orr_tree *fields = orr_command_fields(arena, command);
    for (size_t i = 0; i < orr_tree_size(fields); i++) {
        const orr_tree *field = orr_tree_at(fields, i);
        const char *name = orr_tree_text(orr_tree_get(field, "name"), "");
        (void)orr_tree_put(arena, properties, name, field_schema(arena, field));
        if (orr_tree_bool(orr_tree_get(field, "required"), false)) {
            (void)orr_tree_push(arena, required, orr_tree_new_text(arena, name));
        }
    }
    if (orr_tree_size(required) > 0) {
        (void)orr_tree_put(arena, schema, "required", required);
    }
    return schema;
}

orr_status orr_command_schema(orr_job *job, orr_err *err) {
    const char *name = orr_tree_text(orr_tree_get(job->args, "name"), NULL);
    const orr_command *command = name == NULL ? NULL : orr_command_find(name);
    if (command == NULL) {
        return orr_fail(err, ORR_E_NAME, "schema needs the NAME of a command, such as 'project'");
    }
    job->result = orr_command_json_schema(job->arena, command);
    return ORR_OK;
}
