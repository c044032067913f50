/* Calls for models and servers that know no tools, but constrain what is written to a schema: the
 * whole answer is one JSON object {tool, arguments}. A grammar makes it well formed; only its
 * length can cut it off. Bounds keep small models from rambling inside a string or a list. */
#include <string.h>

#include "doc/doc.h"
#include "llm/llm_int.h"

enum { MOST_TEXT = 160, MOST_ITEMS = 4, PROMPT_BYTES = 16 << 10 };

const char *orr_llm_calls_name(orr_llm_calls calls) {
    static const char *const names[] = {"native", "required", "schema"};
    return names[calls];
}

/* ---- request -------------------------------------------------------------------------------- */

static void add_arguments(orr_arena *arena, orr_text *out, const orr_tree *schema) {
    const orr_tree *properties = orr_tree_get(schema, "properties");
    for (size_t i = 0; i < orr_tree_size(properties); i++) {
        const orr_tree *one = orr_tree_at(properties, i);
        bool list = strcmp(orr_tree_text(orr_tree_get(one, "type"), ""), "array") == 0;
        orr_text_format(
            out, "%s%s: %s%s", i == 0 ? "" : ", ", orr_tree_key(properties, i),
            list ? "list of " : "",
            orr_tree_text(list ? orr_tree_path(one, "items.type") : orr_tree_get(one, "type"), ""));
        const orr_tree *words = orr_tree_get(one, "enum");
        if (words != NULL) {
            orr_text_format(out, " of %s", orr_write_json(arena, words, false));
        }
    }
}

const char *llm_schema_prompt(orr_arena *arena, const orr_llm_request *request) {
    orr_text out = orr_text_new(arena, PROMPT_BYTES);
    orr_text_format(&out,
                    "%s\nAnswer with one JSON object and nothing else: {\"tool\": NAME, "
                    "\"arguments\": {...}}. The tools:\n",
                    request->instructions == NULL ? "" : request->instructions);
    for (uint32_t i = 0; i < request->tool_count; i++) {
        const orr_llm_tool *tool = &request->tool[i];
        orr_text_format(&out, "- %s(", tool->name);
        add_arguments(arena, &out, tool->schema);
        orr_text_format(&out, "): %s\n", tool->description);
    }
    return orr_text_done(&out);
}

/* The schema with bounds on texts and lists. */
static orr_tree *bounded(orr_arena *arena, const orr_tree *schema) {
    orr_tree *out = orr_tree_copy(arena, schema);
    const char *type = orr_tree_text(orr_tree_get(schema, "type"), "");
    const orr_tree *properties = orr_tree_get(schema, "properties");
    if (strcmp(type, "string") == 0 && orr_tree_get(schema, "enum") == NULL) {
        orr_tree_put_int(arena, out, "maxLength", MOST_TEXT);
    } else if (strcmp(type, "array") == 0) {
        orr_tree_put_int(arena, out, "minItems", 1);
        orr_tree_put_int(arena, out, "maxItems", MOST_ITEMS);
        (void)orr_tree_put(arena, out, "items", bounded(arena, orr_tree_get(schema, "items")));
    }
    if (properties != NULL) {
        orr_tree *own = orr_tree_put(arena, out, "properties", orr_tree_new_map(arena));
        for (size_t i = 0; i < orr_tree_size(properties); i++) {
            (void)orr_tree_put(arena, own, orr_tree_key(properties, i),
                               bounded(arena, orr_tree_at(properties, i)));
        }
    }
    return out;
}

static orr_tree *call_schema(orr_arena *arena, const orr_llm_tool *tool) {
    orr_tree *schema = orr_tree_new_map(arena);
    orr_tree_put_text(arena, schema, "type", "object");
    orr_tree *properties = orr_tree_put(arena, schema, "properties", orr_tree_new_map(arena));
    orr_tree *name = orr_tree_put(arena, properties, "tool", orr_tree_new_map(arena));
    orr_tree_put_text(arena, name, "const", tool->name);
    (void)orr_tree_put(arena, properties, "arguments", bounded(arena, tool->schema));
    orr_tree *required = orr_tree_put(arena, schema, "required", orr_tree_new_list(arena));
    (void)orr_tree_push(arena, required, orr_tree_new_text(arena, "tool"));
    (void)orr_tree_push(arena, required, orr_tree_new_text(arena, "arguments"));
    orr_tree_put_bool(arena, schema, "additionalProperties", false);
    return schema;
}

orr_tree *llm_schema_format(orr_arena *arena, const orr_llm_request *request) {
    orr_tree *format = orr_tree_new_map(arena);
    orr_tree_put_text(arena, format, "type", "json_schema");
    orr_tree *named = orr_tree_put(arena, format, "json_schema", orr_tree_new_map(arena));
    orr_tree_put_text(arena, named, "name", "call");
    orr_tree *schema = orr_tree_put(arena, named, "schema", orr_tree_new_map(arena));
    orr_tree *any = orr_tree_put(arena, schema, "anyOf", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < request->tool_count; i++) {
        (void)orr_tree_push(arena, any, call_schema(arena, &request->tool[i]));
    }
    return format;
}

/* ---- answer --------------------------------------------------------------------------------- */

/* What was cut off, or is no such object, is a call without a name: it is answered, not dropped. */
void llm_schema_read(orr_arena *arena, orr_llm_reply *reply) {
    const char *text = reply->text;
    if (reply->call_count > 0 || text[strspn(text, " \t\r\n")] == '\0') {
        return;
    }
    const orr_tree *whole = llm_args(arena, text);
    const orr_tree *arguments = orr_tree_get(whole, "arguments");
    llm_add_call(arena, reply, "call_0", orr_tree_text(orr_tree_get(whole, "tool"), ""),
                 arguments != NULL ? arguments : orr_tree_new_text(arena, text));
    reply->stop = reply->stop == ORR_LLM_END ? ORR_LLM_TOOLS : reply->stop;
}
