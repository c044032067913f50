/* Field tables: a map into a struct, with every problem said well; and the table as data. */
#include <string.h>

#include "doc/doc_int.h"

enum { SHOWN_NAME = 60 };

/* ---- reading -------------------------------------------------------------------------------- */

typedef struct collector {
    orr_arena *arena;
    orr_tree *problems; /* NULL: stop at the first */
    orr_err *err;
    orr_status first;
} collector;

void orr_problem_add(orr_arena *arena, orr_tree *problems, const char *code, const orr_err *err) {
    if (orr_tree_size(problems) >= ORR_MAX_PROBLEMS) {
        return;
    }
    orr_tree *problem = orr_tree_push(arena, problems, orr_tree_new_map(arena));
    orr_tree_put_text(arena, problem, "code", code);
    orr_tree_put_text(arena, problem, "message", err->message);
    orr_tree_put_text(arena, problem, "hint", err->hint[0] == '\0' ? NULL : err->hint);
    orr_tree_put_text(arena, problem, "file", err->file[0] == '\0' ? NULL : err->file);
    orr_tree_put_int(arena, problem, "line", err->line);
    orr_tree_put_int(arena, problem, "column", err->column);
}

static void report(collector *c, const char *code, const orr_err *problem) {
    if (c->first == ORR_OK) {
        c->first = problem->status;
        if (c->err != NULL) {
            *c->err = *problem;
        }
    }
    if (c->problems != NULL) {
        orr_problem_add(c->arena, c->problems, code, problem);
    }
}

static bool is_finished(const collector *c) {
    return c->first != ORR_OK && (c->problems == NULL || c->first == ORR_E_INTERNAL);
}

static int find_field(const orr_schema *schema, const char *name) {
    for (size_t i = 0; i < schema->count; i++) {
        if (strcmp(schema->fields[i].name, name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static void report_unknown(collector *c, const orr_schema *schema, const char *name,
                           orr_span span) {
    const char **names = ORR_NEW_ARRAY(c->arena, const char *, schema->count);
    orr_text all = orr_text_new(c->arena, 400);
    for (size_t i = 0; i < schema->count; i++) {
        names[i] = schema->fields[i].name;
        orr_text_format(&all, "%s%s", i == 0 ? "" : ", ", names[i]);
    }
    orr_err problem = {0};
    (void)orr_fail_at(&problem, ORR_E_SCHEMA, span, "the %s has no field \"%.*s\"", schema->title,
                      SHOWN_NAME, name);
    int nearest = orr_name_nearest(name, names, schema->count);
    if (nearest >= 0) {
        orr_hint(&problem, "did you mean \"%s\"?", names[nearest]);
    } else {
        orr_hint(&problem, "it has %s%s", orr_text_done(&all), all.truncated ? " ..." : "");
    }
    report(c, "unknown_field", &problem);
}

static void read_given(collector *c, const orr_schema *schema, const orr_tree *map, void *target,
                       uint64_t *seen) {
    for (size_t i = 0; i < orr_tree_size(map) && !is_finished(c); i++) {
        const char *name = orr_tree_key(map, i);
        const orr_tree *value = orr_tree_at(map, i);
        int index = find_field(schema, name);
        if (index < 0 && !schema->open) {
            report_unknown(c, schema, name, orr_tree_key_span(map, i));
        }
        if (index < 0 || orr_tree_kind_of(value) == ORR_TREE_NULL) {
            continue;
        }
        *seen |= (uint64_t)1 << index;
        orr_err problem = {0};
        const char *code =
            orr_field_store(&schema->fields[index], c->arena, value, target, &problem);
        if (code != NULL) {
            report(c, code, &problem);
        }
    }
}

static void read_absent(collector *c, const orr_schema *schema, const orr_tree *map, void *target,
                        uint64_t seen) {
    for (size_t i = 0; i < schema->count && !is_finished(c); i++) {
        const orr_field *field = &schema->fields[i];
        if (seen >> i & 1) {
            continue;
        }
        orr_err problem = {0};
        if (field->fallback == NULL) {
            (void)orr_fail_at(&problem, ORR_E_SCHEMA, orr_tree_span(map),
                              "the %s lacks the field \"%s\"", schema->title, field->name);
            if (field->doc != NULL) {
                orr_hint(&problem, "%s: %s", field->name, field->doc);
            }
            report(c, "missing_field", &problem);
        } else if (!orr_field_store_default(field, c->arena, target)) {
            (void)orr_fail(&problem, ORR_E_INTERNAL, "the default \"%s\" of \"%s\" does not fit it",
                           field->fallback, field->name);
            report(c, "internal", &problem);
        }
    }
}

static orr_status read_map(collector *c, const orr_schema *schema, const orr_tree *map,
                           void *target, uint64_t *seen) {
    uint64_t given = 0;
    orr_tree_kind kind = orr_tree_kind_of(map);
    orr_err problem = {0};
    if (schema->count > 64) {
        return orr_fail(c->err, ORR_E_INTERNAL, "the table of the %s has more than 64 fields",
                        schema->title);
    }
    if (kind != ORR_TREE_MAP && kind != ORR_TREE_NULL) {
        (void)orr_fail_at(&problem, ORR_E_SCHEMA, orr_tree_span(map),
                          "the %s must be a map of fields, not %s", schema->title,
                          kind == ORR_TREE_LIST ? "a list" : "a single value");
        report(c, "wrong_type", &problem);
        return c->first;
    }
    if (kind == ORR_TREE_MAP) {
        read_given(c, schema, map, target, &given);
    }
    read_absent(c, schema, map, target, given);
    if (seen != NULL) {
        *seen = given;
    }
    return c->first;
}

orr_status orr_schema_read(const orr_schema *schema, orr_arena *arena, const orr_tree *map,
                           void *target, uint64_t *seen, orr_err *err) {
    collector c = {.arena = arena, .err = err};
    return read_map(&c, schema, map, target, seen);
}

orr_status orr_schema_read_all(const orr_schema *schema, orr_arena *arena, const orr_tree *map,
                               void *target, uint64_t *seen, orr_tree *problems, orr_err *err) {
    collector c = {.arena = arena, .problems = problems, .err = err};
    return read_map(&c, schema, map, target, seen);
}

/* ---- describing ----------------------------------------------------------------------------- */

static orr_tree *list_values(const orr_field *field, orr_arena *arena) {
    orr_tree *list = orr_tree_new_list(arena);
    for (size_t i = 0; i < orr_field_value_count(field); i++) {
        orr_tree_push(arena, list, orr_tree_new_text(arena, field->values[i]));
    }
    return list;
}

static const char *type_name(orr_field_type type) {
    switch (type) {
    case ORR_FIELD_BOOL: return "bool";
    case ORR_FIELD_U32:
    case ORR_FIELD_U64: return "integer";
    case ORR_FIELD_REAL: return "number";
    case ORR_FIELD_QUANTITY: return "quantity";
    case ORR_FIELD_TEXT: return "text";
    case ORR_FIELD_ENUM: return "choice";
    case ORR_FIELD_FLAGS: return "choices";
    case ORR_FIELD_TREE: return "any";
    }
    return "any";
}

orr_tree *orr_schema_fields(const orr_schema *schema, orr_arena *arena) {
    orr_tree *list = orr_tree_new_list(arena);
    for (size_t i = 0; i < schema->count; i++) {
        const orr_field *field = &schema->fields[i];
        bool has_default = field->fallback != NULL && *field->fallback != '\0';
        orr_tree *item = orr_tree_push(arena, list, orr_tree_new_map(arena));
        orr_tree_put_text(arena, item, "name", field->name);
        orr_tree_put_text(arena, item, "type", type_name(field->type));
        orr_tree_put_bool(arena, item, "required", field->fallback == NULL);
        orr_tree_put_text(arena, item, "default", has_default ? field->fallback : NULL);
        orr_tree_put_text(arena, item, "unit", field->unit);
        orr_tree_put(arena, item, "values",
                     field->values == NULL ? orr_tree_null(arena) : list_values(field, arena));
        orr_tree_put_text(arena, item, "doc", field->doc);
    }
    return list;
}

orr_tree *orr_schema_write(const orr_schema *schema, orr_arena *arena, const void *source) {
    orr_tree *map = orr_tree_new_map(arena);
    for (size_t i = 0; i < schema->count; i++) {
        const orr_field *field = &schema->fields[i];
        orr_tree_put(arena, map, field->name, orr_field_load(field, arena, source));
    }
    return map;
}

double *orr_schema_number(const orr_schema *schema, void *target, const char *name) {
    for (size_t i = 0; i < schema->count; i++) {
        const orr_field *field = &schema->fields[i];
        bool number = field->type == ORR_FIELD_REAL || field->type == ORR_FIELD_QUANTITY;
        if (number && strcmp(field->name, name) == 0) {
            return (double *)(void *)((char *)target + field->offset);
        }
    }
    return NULL;
}
