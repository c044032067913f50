/* YAML 1.2 (core schema) from libyaml's events, one document, with the mark of every node.
 *
 * libyaml speaks YAML 1.1 only about syntax; which plain word is a number is decided here, so that
 * "no" and "on" stay text. Aliases share the node they name: they cost no memory, but whoever walks
 * the tree pays for each, so what they reach is counted against the limits of nodes and depth. */
#include <string.h>
#include <yaml.h>

#include "doc/doc_int.h"

enum { MAX_SCALAR_SHOWN = 40 };

typedef struct anchor {
    const char *name;
    orr_tree *node; /* NULL while the node is still being read */
    size_t nodes;   /* in its subtree */
    uint32_t height;
} anchor;

typedef struct reader {
    orr_arena *arena;
    const char *name, *text;
    size_t length;
    yaml_parser_t parser;
    orr_err *err;
    anchor *anchors;
    uint32_t anchor_count, alias_count;
    size_t nodes;
} reader;

static orr_span place(const reader *r, yaml_mark_t mark) {
    return (orr_span){r->name, (uint32_t)mark.line + 1, (uint32_t)mark.column + 1};
}

static orr_status parser_error(reader *r, orr_err *err) {
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR) {
        return orr_fail(err, ORR_E_LIMIT, "the YAML text needs too much memory");
    }
    if (p->error == YAML_READER_ERROR) {
        return orr_fail_at(
            err, ORR_E_SYNTAX, orr_doc_locate(r->name, r->text, r->length, p->problem_offset),
            "not YAML: %s (character 0x%02x)", p->problem, (unsigned)p->problem_value);
    }
    const char *problem = p->problem == NULL ? "syntax error" : p->problem;
    (void)orr_fail_at(err, ORR_E_SYNTAX, place(r, p->problem_mark), "not YAML: %s%s%s", problem,
                      p->context == NULL ? "" : ", ", p->context == NULL ? "" : p->context);
    if (strstr(problem, "cannot start any token") != NULL) {
        orr_hint(err, "indent with spaces, and quote text that begins with one of @ ` %%");
    }
    return ORR_E_SYNTAX;
}

/* The caller deletes the event. */
static orr_status next_event(reader *r, yaml_event_t *event) {
    return yaml_parser_parse(&r->parser, event) ? ORR_OK : parser_error(r, r->err);
}

/* ---- scalars of the core schema ------------------------------------------------------------- */

static bool is_one_of(const char *text, const char *const *words) {
    for (; *words != NULL; words++) {
        if (strcmp(text, *words) == 0) {
            return true;
        }
    }
    return false;
}

static const char *const null_words[] = {"", "~", "null", "Null", "NULL", NULL};
static const char *const true_words[] = {"true", "True", "TRUE", NULL};
static const char *const false_words[] = {"false", "False", "FALSE", NULL};
static const char *const not_finite[] = {".inf",  ".Inf",  ".INF",  "+.inf", "+.Inf",
                                         "+.INF", "-.inf", "-.Inf", "-.INF", ".nan",
                                         ".NaN",  ".NAN",  NULL};

static size_t count_digits(const char *text) {
    return strspn(text, "0123456789");
}

static bool is_decimal(const char *text) {
    text += *text == '+' || *text == '-';
    return *text != '\0' && text[count_digits(text)] == '\0';
}

/* [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )? */
static bool is_float(const char *text) {
    text += *text == '+' || *text == '-';
    size_t before = count_digits(text), after = 0;
    text += before;
    if (*text == '.') {
        after = count_digits(text + 1);
        text += 1 + after;
    }
    if (before + after == 0) {
        return false;
    }
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '+' || *text == '-';
        size_t exponent = count_digits(text);
        if (exponent == 0) {
            return false;
        }
        text += exponent;
    }
    return *text == '\0';
}

/* 0x1F and 0o17. false: not of that form. *fits says whether the value is an int64_t. */
static bool parse_radix(const char *text, int64_t *value, bool *fits) {
    unsigned shift = strncmp(text, "0x", 2) == 0 ? 4 : strncmp(text, "0o", 2) == 0 ? 3 : 0;
    const char *digits = shift == 4 ? "0123456789abcdefABCDEF" : "01234567";
    if (shift == 0 || text[2] == '\0' || text[2 + strspn(text + 2, digits)] != '\0') {
        return false;
    }
    uint64_t sum = 0;
    *fits = true;
    for (text += 2; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a' + 10);
        *fits = *fits && (sum >> (63 - shift)) == 0;
        sum = sum << shift | digit;
    }
    *value = (int64_t)(sum & INT64_MAX);
    return true;
}

static orr_status refuse_number(reader *r, orr_span at, const char *text, const char *what) {
    return orr_fail_at(r->err, ORR_E_SYNTAX, at, "the number %.*s %s", MAX_SCALAR_SHOWN, text,
                       what);
}

/* A plain scalar by the core schema; *out stays NULL when it is text. */
static orr_status resolve_plain(reader *r, orr_span at, const char *text, orr_tree **out) {
    int64_t integer;
    double real;
    bool fits;
    if (is_one_of(text, null_words)) {
        *out = orr_tree_null(r->arena);
    } else if (is_one_of(text, true_words)) {
        *out = orr_tree_new_bool(r->arena, true);
    } else if (is_one_of(text, false_words)) {
        *out = orr_tree_new_bool(r->arena, false);
    } else if (is_decimal(text)) {
        if (!orr_parse_int(text, &integer)) {
            return refuse_number(r, at, text, "does not fit 64 bits");
        }
        *out = orr_tree_new_int(r->arena, integer);
    } else if (parse_radix(text, &integer, &fits)) {
        if (!fits) {
            return refuse_number(r, at, text, "does not fit 64 bits");
        }
        *out = orr_tree_new_int(r->arena, integer);
    } else if (is_float(text)) {
        if (!orr_parse_real(text, &real)) {
            return refuse_number(r, at, text, "is too large for a double");
        }
        *out = orr_tree_new_real(r->arena, real);
    } else if (is_one_of(text, not_finite)) {
        return refuse_number(r, at, text, "is not finite");
    }
    return ORR_OK;
}

static const char *core_tag(const char *tag) {
    static const char prefix[] = "tag:yaml.org,2002:";
    return strncmp(tag, prefix, sizeof prefix - 1) == 0 ? tag + sizeof prefix - 1 : tag;
}

/* A scalar with one of the core tags, such as !!str 5 or !!float 5. */
static orr_status resolve_tagged(reader *r, orr_span at, const char *tag, const char *text,
                                 orr_tree **out) {
    const char *type = core_tag(tag);
    if (strcmp(type, "!") == 0 || strcmp(type, "str") == 0) {
        return ORR_OK;
    }
    static const char *const types[] = {"null", "bool", "int", "float"};
    static const orr_tree_kind kinds[] = {ORR_TREE_NULL, ORR_TREE_BOOL, ORR_TREE_INT,
                                          ORR_TREE_REAL};
    for (size_t i = 0; i < 4; i++) {
        if (strcmp(type, types[i]) == 0) {
            ORR_TRY(resolve_plain(r, at, text, out));
            if (kinds[i] == ORR_TREE_REAL && orr_tree_kind_of(*out) == ORR_TREE_INT) {
                *out = orr_tree_new_real(r->arena, orr_tree_real(*out, 0));
            }
            if (*out == NULL || orr_tree_kind_of(*out) != kinds[i]) {
                return orr_fail_at(r->err, ORR_E_SYNTAX, at, "%.*s is not of the type !!%s",
                                   MAX_SCALAR_SHOWN, text, type);
            }
            return ORR_OK;
        }
    }
    (void)orr_fail_at(r->err, ORR_E_SYNTAX, at, "the tag %.*s is not supported", MAX_SCALAR_SHOWN,
                      tag);
    orr_hint(r->err, "only !!str, !!int, !!float, !!bool, !!null, !!seq and !!map have a meaning");
    return ORR_E_SYNTAX;
}

static orr_status read_scalar(reader *r, const yaml_event_t *event, orr_tree **out) {
    const char *text = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    const char *tag = (const char *)event->data.scalar.tag;
    orr_span at = place(r, event->start_mark);
    orr_tree *node = NULL;
    if (tag != NULL) {
        ORR_TRY(resolve_tagged(r, at, tag, text, &node));
    } else if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
        ORR_TRY(resolve_plain(r, at, text, &node));
    }
    if (node == NULL) {
        node = orr_tree_new_textn(r->arena, text, length);
    }
    orr_tree_set_span(node, at);
    *out = node;
    return ORR_OK;
}

/* ---- anchors, aliases, limits --------------------------------------------------------------- */

static orr_status count_nodes(reader *r, orr_span at, size_t nodes) {
    r->nodes += nodes;
    if (r->nodes > ORR_DOC_MAX_NODES) {
        return orr_fail_at(r->err, ORR_E_LIMIT, at, "the text has more than %d values",
                           ORR_DOC_MAX_NODES);
    }
    return ORR_OK;
}

static orr_status check_depth(reader *r, orr_span at, uint32_t depth) {
    if (depth > ORR_DOC_MAX_DEPTH) {
        return orr_fail_at(r->err, ORR_E_LIMIT, at, "lists and maps are nested more than %d deep",
                           ORR_DOC_MAX_DEPTH);
    }
    return ORR_OK;
}

static anchor *find_anchor(reader *r, const char *name) {
    for (uint32_t i = r->anchor_count; i > 0; i--) {
        if (strcmp(r->anchors[i - 1].name, name) == 0) {
            return &r->anchors[i - 1];
        }
    }
    return NULL;
}

/* Announces an anchor before its node is read, so that an alias inside finds it unfinished. */
static orr_status open_anchor(reader *r, orr_span at, const yaml_char_t *name, anchor **out) {
    *out = NULL;
    if (name == NULL) {
        return ORR_OK;
    }
    if (r->anchor_count == ORR_DOC_MAX_ALIASES) {
        return orr_fail_at(r->err, ORR_E_LIMIT, at, "the text has more than %d anchors",
                           ORR_DOC_MAX_ALIASES);
    }
    if (r->anchors == NULL) {
        r->anchors = ORR_NEW_ARRAY(r->arena, anchor, ORR_DOC_MAX_ALIASES);
    }
    *out = &r->anchors[r->anchor_count++];
    (*out)->name = orr_arena_text(r->arena, (const char *)name);
    return ORR_OK;
}

static orr_status read_alias(reader *r, const yaml_event_t *event, uint32_t depth, orr_tree **out,
                             uint32_t *height) {
    const char *name = (const char *)event->data.alias.anchor;
    orr_span at = place(r, event->start_mark);
    const anchor *found = find_anchor(r, name);
    if (found == NULL) {
        return orr_fail_at(r->err, ORR_E_SYNTAX, at, "the alias *%.*s names no anchor before it",
                           MAX_SCALAR_SHOWN, name);
    }
    if (found->node == NULL) {
        return orr_fail_at(r->err, ORR_E_SYNTAX, at, "the alias *%.*s lies inside its own anchor",
                           MAX_SCALAR_SHOWN, name);
    }
    if (++r->alias_count > ORR_DOC_MAX_ALIASES) {
        return orr_fail_at(r->err, ORR_E_LIMIT, at, "the text has more than %d aliases",
                           ORR_DOC_MAX_ALIASES);
    }
    ORR_TRY(check_depth(r, at, depth + found->height));
    ORR_TRY(count_nodes(r, at, found->nodes));
    *out = found->node;
    *height = found->height;
    return ORR_OK;
}

/* ---- collections ---------------------------------------------------------------------------- */

/* Depth counts the collections around a node; height those from it down (0 for a scalar). */
static orr_status read_node(reader *r, yaml_event_t *event, uint32_t depth, orr_tree **out,
                            uint32_t *height);

static orr_status read_sequence(reader *r, uint32_t depth, orr_tree **out, uint32_t *height) {
    orr_tree *list = orr_tree_new_list(r->arena);
    for (bool more = true; more;) {
        yaml_event_t event;
        ORR_TRY(next_event(r, &event));
        orr_status status = ORR_OK;
        if (event.type == YAML_SEQUENCE_END_EVENT) {
            more = false;
        } else {
            orr_tree *child = NULL;
            uint32_t below = 0;
            status = read_node(r, &event, depth, &child, &below);
            if (status == ORR_OK) {
                orr_tree_push(r->arena, list, child);
                *height = below + 1 > *height ? below + 1 : *height;
            }
        }
        yaml_event_delete(&event);
        ORR_TRY(status);
    }
    *out = list;
    return ORR_OK;
}

static orr_status check_key(reader *r, const yaml_event_t *event) {
    orr_span at = place(r, event->start_mark);
    if (event->type != YAML_SCALAR_EVENT) {
        (void)orr_fail_at(r->err, ORR_E_SYNTAX, at, "a key of a map must be a plain name");
        orr_hint(r->err, "quote a value that begins with one of { [ * &");
        return ORR_E_SYNTAX;
    }
    const char *key = (const char *)event->data.scalar.value;
    if (strlen(key) != event->data.scalar.length) {
        return orr_fail_at(r->err, ORR_E_SYNTAX, at, "a key holds a NUL character");
    }
    if (*key == '\0' && event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
        return orr_fail_at(r->err, ORR_E_SYNTAX, at, "a map has a value without a key");
    }
    return ORR_OK;
}

static bool is_merge_key(const yaml_event_t *event) {
    return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           strcmp((const char *)event->data.scalar.value, "<<") == 0;
}

static orr_status read_entry(reader *r, const yaml_event_t *key_event, uint32_t depth,
                             orr_tree *map, orr_tree **merge, uint32_t *height) {
    ORR_TRY(check_key(r, key_event));
    orr_span at = place(r, key_event->start_mark);
    const char *key = (const char *)key_event->data.scalar.value;
    bool merging = is_merge_key(key_event);
    if (merging ? *merge != NULL : orr_tree_get(map, key) != NULL) {
        return orr_fail_at(r->err, ORR_E_SYNTAX, at, "the key \"%.*s\" is given twice in one map",
                           MAX_SCALAR_SHOWN, key);
    }
    anchor *named;
    ORR_TRY(open_anchor(r, at, key_event->data.scalar.anchor, &named));
    if (named != NULL) {
        named->node = orr_tree_new_text(r->arena, key);
        named->nodes = 1;
        orr_tree_set_span(named->node, at);
    }
    yaml_event_t event;
    ORR_TRY(next_event(r, &event));
    orr_tree *child = NULL;
    uint32_t below = 0;
    orr_status status = read_node(r, &event, depth, &child, &below);
    yaml_event_delete(&event);
    ORR_TRY(status);
    if (merging) {
        *merge = child;
    } else {
        orr_tree_put_at(r->arena, map, key, at, child);
    }
    *height = below + 1 > *height ? below + 1 : *height;
    return ORR_OK;
}

static orr_status merge_one(reader *r, orr_tree *map, const orr_tree *from) {
    if (orr_tree_kind_of(from) != ORR_TREE_MAP) {
        return orr_fail_at(r->err, ORR_E_SYNTAX, orr_tree_span(from),
                           "a merge key << takes a map or a list of maps");
    }
    ORR_TRY(count_nodes(r, orr_tree_span(from), from->count));
    for (uint32_t i = 0; i < from->count; i++) {
        const tree_entry *entry = &from->as.map.entries[i];
        if (orr_tree_get(map, entry->key) == NULL) {
            orr_span at = {r->name, entry->line, entry->column};
            orr_tree_put_at(r->arena, map, entry->key, at, entry->child);
        }
    }
    return ORR_OK;
}

/* Keys of the map itself win, then those of the earlier map; merged ones come last. */
static orr_status apply_merge(reader *r, orr_tree *map, const orr_tree *merge) {
    if (merge->kind != ORR_TREE_LIST) {
        return merge_one(r, map, merge);
    }
    for (size_t i = 0; i < merge->count; i++) {
        ORR_TRY(merge_one(r, map, orr_tree_at(merge, i)));
    }
    return ORR_OK;
}

static orr_status read_mapping(reader *r, uint32_t depth, orr_tree **out, uint32_t *height) {
    orr_tree *map = orr_tree_new_map(r->arena);
    orr_tree *merge = NULL;
    for (bool more = true; more;) {
        yaml_event_t event;
        ORR_TRY(next_event(r, &event));
        orr_status status = ORR_OK;
        if (event.type == YAML_MAPPING_END_EVENT) {
            more = false;
        } else {
            status = read_entry(r, &event, depth, map, &merge, height);
        }
        yaml_event_delete(&event);
        ORR_TRY(status);
    }
    if (merge != NULL) {
        ORR_TRY(apply_merge(r, map, merge));
    }
    *out = map;
    return ORR_OK;
}

static orr_status check_collection_tag(reader *r, orr_span at, const yaml_char_t *tag,
                                       const char *type) {
    if (tag == NULL || strcmp(core_tag((const char *)tag), type) == 0) {
        return ORR_OK;
    }
    return orr_fail_at(r->err, ORR_E_SYNTAX, at, "the tag %.*s is not supported", MAX_SCALAR_SHOWN,
                       (const char *)tag);
}

static orr_status read_collection(reader *r, const yaml_event_t *event, uint32_t depth,
                                  orr_tree **out, uint32_t *height) {
    orr_span at = place(r, event->start_mark);
    bool map = event->type == YAML_MAPPING_START_EVENT;
    ORR_TRY(check_depth(r, at, depth + 1));
    ORR_TRY(check_collection_tag(
        r, at, map ? event->data.mapping_start.tag : event->data.sequence_start.tag,
        map ? "map" : "seq"));
    *height = 1;
    ORR_TRY(map ? read_mapping(r, depth + 1, out, height)
                : read_sequence(r, depth + 1, out, height));
    orr_tree_set_span(*out, at);
    return ORR_OK;
}

static orr_status read_node(reader *r, yaml_event_t *event, uint32_t depth, orr_tree **out,
                            uint32_t *height) {
    if (event->type == YAML_ALIAS_EVENT) {
        return read_alias(r, event, depth, out, height);
    }
    bool scalar = event->type == YAML_SCALAR_EVENT;
    const yaml_char_t *name = scalar ? event->data.scalar.anchor
                              : event->type == YAML_MAPPING_START_EVENT
                                  ? event->data.mapping_start.anchor
                                  : event->data.sequence_start.anchor;
    orr_span at = place(r, event->start_mark);
    size_t before = r->nodes;
    anchor *named;
    ORR_TRY(open_anchor(r, at, name, &named));
    ORR_TRY(count_nodes(r, at, 1));
    *height = 0;
    ORR_TRY(scalar ? read_scalar(r, event, out) : read_collection(r, event, depth, out, height));
    if (named != NULL) {
        named->node = *out;
        named->nodes = r->nodes - before;
        named->height = *height;
    }
    return ORR_OK;
}

/* ---- the document --------------------------------------------------------------------------- */

static orr_status read_stream(reader *r, orr_tree **out) {
    *out = NULL;
    for (bool more = true; more;) {
        yaml_event_t event;
        ORR_TRY(next_event(r, &event));
        orr_status status = ORR_OK;
        switch (event.type) {
        case YAML_STREAM_END_EVENT: more = false; break;
        case YAML_DOCUMENT_START_EVENT:
            if (*out != NULL) {
                status = orr_fail_at(r->err, ORR_E_SYNTAX, place(r, event.start_mark),
                                     "the text holds a second YAML document; one was expected");
            }
            break;
        case YAML_ALIAS_EVENT:
        case YAML_SCALAR_EVENT:
        case YAML_SEQUENCE_START_EVENT:
        case YAML_MAPPING_START_EVENT: {
            uint32_t height = 0;
            status = read_node(r, &event, 0, out, &height);
            break;
        }
        case YAML_NO_EVENT:
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT:
        case YAML_SEQUENCE_END_EVENT:
        case YAML_MAPPING_END_EVENT: break;
        }
        yaml_event_delete(&event);
        ORR_TRY(status);
    }
    if (*out == NULL) { /* nothing but comments */
        *out = orr_tree_null(r->arena);
        orr_tree_set_span(*out, (orr_span){r->name, 1, 1});
    }
    return ORR_OK;
}

orr_status orr_yaml_read(orr_arena *arena, const char *name, const char *text, size_t length,
                         orr_tree **out, orr_err *err) {
    ORR_TRY(orr_doc_check_text(name, &text, &length, err));
    reader r = {.arena = arena, .text = text, .length = length, .err = err};
    r.name = name == NULL ? NULL : orr_arena_text(arena, name);
    if (!yaml_parser_initialize(&r.parser)) {
        return orr_fail(err, ORR_E_LIMIT, "the YAML text needs too much memory");
    }
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, length);
    orr_tree *root = NULL;
    orr_status status = read_stream(&r, &root);
    yaml_parser_delete(&r.parser);
    if (status == ORR_OK) {
        *out = root;
    }
    return status;
}
