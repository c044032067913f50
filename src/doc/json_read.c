/* JSON by jansson, with the place of every value.
 *
 * jansson keeps no positions of values, so they are found again: its tree is walked in lock-step
 * with the text, which by then is known to be well-formed and needs only its tokens skipped. What
 * jansson does not bound (nodes, our depth) is counted before it may allocate for it. */
#include <jansson.h>
#include <string.h>

#include "doc/doc_int.h"

/* Counts values and depth from brackets and commas outside strings; text that is not JSON may be
 * counted wrongly but never below what jansson would build before it finds out. */
static orr_status check_bounds(const char *name, const char *text, size_t length, orr_err *err) {
    size_t nodes = 1, depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (quoted) {
            i += c == '\\';
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '[' || c == '{') {
            nodes++;
            if (++depth > ORR_DOC_MAX_DEPTH) {
                return orr_fail_at(err, ORR_E_LIMIT, orr_doc_locate(name, text, length, i),
                                   "lists and maps are nested more than %d deep",
                                   ORR_DOC_MAX_DEPTH);
            }
        } else if (c == ']' || c == '}') {
            depth -= depth > 0;
        } else if (c == ',') {
            nodes++;
        }
        if (nodes > ORR_DOC_MAX_NODES) {
            return orr_fail_at(err, ORR_E_LIMIT, orr_doc_locate(name, text, length, i),
                               "the text has more than %d values", ORR_DOC_MAX_NODES);
        }
    }
    return ORR_OK;
}

/* ---- syntax errors -------------------------------------------------------------------------- */

static bool in_number(char c) {
    return (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E';
}

/* jansson reports where the offending token ends; people want to see where it starts. */
static size_t token_start(const char *text, size_t end, enum json_error_code code,
                          const char *message) {
    size_t start = end;
    if (code == json_error_numeric_overflow) {
        while (start > 0 && in_number(text[start - 1])) {
            start--;
        }
    } else if (code == json_error_duplicate_key && start > 0) {
        start--;
        while (start > 0) {
            size_t slashes = 0;
            start--;
            while (slashes < start && text[start - 1 - slashes] == '\\') {
                slashes++;
            }
            if (text[start] == '"' && slashes % 2 == 0) {
                break;
            }
        }
    } else {
        const char *near = strstr(message, " near '");
        size_t size = near == NULL ? 0 : strlen(near + 7);
        if (size > 1 && size - 1 <= end &&
            memcmp(text + end - (size - 1), near + 7, size - 1) == 0) {
            start = end - (size - 1);
        }
    }
    return start;
}

static bool begins_with(const char *text, size_t length, const char *word) {
    size_t size = strlen(word);
    return size <= length && memcmp(text, word, size) == 0;
}

static bool is_not_finite(const char *text, size_t length) {
    if (length > 0 && text[0] == '-') {
        text++;
        length--;
    }
    return begins_with(text, length, "NaN") || begins_with(text, length, "nan") ||
           begins_with(text, length, "Infinity") || begins_with(text, length, "inf");
}

static orr_status syntax_error(const char *name, const char *text, size_t length,
                               const json_error_t *error, orr_err *err) {
    enum json_error_code code = json_error_code(error);
    size_t end = error->position < 0 ? 0 : (size_t)error->position;
    end = end > length ? length : end;
    size_t start = token_start(text, end, code, error->text);
    orr_span at = orr_doc_locate(name, text, length, start);
    int size = end - start > 60 ? 60 : (int)(end - start);
    const char *token = text + start;
    if (code == json_error_out_of_memory || code == json_error_stack_overflow) {
        return orr_fail_at(err, ORR_E_LIMIT, at, "the JSON text needs too much memory");
    }
    if (code == json_error_numeric_overflow) {
        bool real = memchr(token, '.', end - start) != NULL ||
                    memchr(token, 'e', end - start) != NULL ||
                    memchr(token, 'E', end - start) != NULL;
        return orr_fail_at(err, ORR_E_SYNTAX, at,
                           real ? "the number %.*s is too large for a double"
                                : "the integer %.*s does not fit 64 bits",
                           size, token);
    }
    if (code == json_error_duplicate_key) {
        return orr_fail_at(err, ORR_E_SYNTAX, at, "the key %.*s is given twice in one map", size,
                           token);
    }
    if (code == json_error_premature_end_of_input) {
        return orr_fail_at(err, ORR_E_SYNTAX, at, "the JSON text ends before its value does");
    }
    if (code == json_error_end_of_input_expected) {
        return orr_fail_at(err, ORR_E_SYNTAX, at, "there is more text after the JSON value");
    }
    if (code == json_error_null_byte_in_key || code == json_error_null_character) {
        return orr_fail_at(err, ORR_E_SYNTAX, at, "a key holds a NUL character");
    }
    if (is_not_finite(token, length - start)) {
        (void)orr_fail_at(err, ORR_E_SYNTAX, at, "NaN and infinity are not numbers in JSON");
        orr_hint(err, "give a finite number, or null where there is none");
        return ORR_E_SYNTAX;
    }
    (void)orr_fail_at(err, ORR_E_SYNTAX, at, "not JSON: %s", error->text);
    if (begins_with(token, length - start, "/") || begins_with(token, length - start, "#")) {
        orr_hint(err, "JSON has no comments; write YAML to use them");
    }
    return ORR_E_SYNTAX;
}

/* ---- from jansson's tree to ours ------------------------------------------------------------ */

typedef struct walker {
    orr_arena *arena;
    const char *name;
    const char *p, *end;
    uint32_t line, column;
} walker;

static void step(walker *w) {
    if (w->p >= w->end) {
        return;
    }
    if (*w->p == '\n') {
        w->line++;
        w->column = 1;
    } else if (((unsigned char)*w->p & 0xc0) != 0x80) {
        w->column++;
    }
    w->p++;
}

static void skip_space(walker *w) {
    while (w->p < w->end && (*w->p == ' ' || *w->p == '\t' || *w->p == '\n' || *w->p == '\r')) {
        step(w);
    }
}

static void skip_mark(walker *w, char mark) {
    skip_space(w);
    if (w->p < w->end && *w->p == mark) {
        step(w);
    }
}

static void skip_string(walker *w) {
    skip_mark(w, '"');
    while (w->p < w->end && *w->p != '"') {
        if (*w->p == '\\') {
            step(w);
        }
        step(w);
    }
    step(w);
}

static void skip_word(walker *w) {
    while (w->p < w->end && strchr(" \t\r\n,]}", *w->p) == NULL) {
        step(w);
    }
}

static orr_tree *walk(walker *w, json_t *value);

/* jansson iterates an object in the order of its text. */
static orr_tree *walk_object(walker *w, json_t *value) {
    orr_tree *map = orr_tree_new_map(w->arena);
    skip_mark(w, '{');
    for (void *i = json_object_iter(value); i != NULL; i = json_object_iter_next(value, i)) {
        skip_space(w);
        orr_span at = {w->name, w->line, w->column};
        skip_string(w);
        skip_mark(w, ':');
        orr_tree *child = walk(w, json_object_iter_value(i));
        orr_tree_put_at(w->arena, map, json_object_iter_key(i), at, child);
        skip_mark(w, ',');
    }
    skip_mark(w, '}');
    return map;
}

static orr_tree *walk_array(walker *w, json_t *value) {
    orr_tree *list = orr_tree_new_list(w->arena);
    skip_mark(w, '[');
    for (size_t i = 0; i < json_array_size(value); i++) {
        orr_tree_push(w->arena, list, walk(w, json_array_get(value, i)));
        skip_mark(w, ',');
    }
    skip_mark(w, ']');
    return list;
}

static orr_tree *walk(walker *w, json_t *value) {
    skip_space(w);
    orr_span span = {w->name, w->line, w->column};
    orr_tree *node = NULL;
    switch (json_typeof(value)) {
    case JSON_OBJECT: node = walk_object(w, value); break;
    case JSON_ARRAY: node = walk_array(w, value); break;
    case JSON_STRING:
        skip_string(w);
        node = orr_tree_new_textn(w->arena, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER: node = orr_tree_new_int(w->arena, json_integer_value(value)); break;
    case JSON_REAL: node = orr_tree_new_real(w->arena, json_real_value(value)); break;
    case JSON_TRUE:
    case JSON_FALSE: node = orr_tree_new_bool(w->arena, json_is_true(value)); break;
    case JSON_NULL: node = orr_tree_null(w->arena); break;
    }
    if (!json_is_object(value) && !json_is_array(value) && !json_is_string(value)) {
        skip_word(w);
    }
    orr_tree_set_span(node, span);
    return node;
}

orr_status orr_json_read(orr_arena *arena, const char *name, const char *text, size_t length,
                         orr_tree **out, orr_err *err) {
    ORR_TRY(orr_doc_check_text(name, &text, &length, err));
    ORR_TRY(check_bounds(name, text, length, err));
    json_error_t error;
    json_t *root =
        json_loadb(text, length, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (root == NULL) {
        return syntax_error(name, text, length, &error, err);
    }
    walker w = {arena, name == NULL ? NULL : orr_arena_text(arena, name), text, text + length, 1,
                1};
    *out = walk(&w, root);
    json_decref(root);
    return ORR_OK;
}
