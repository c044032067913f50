/* The TOML subset of toml.h: one pass, straight into a tree. */
#include "exchange/toml.h"

#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "doc/doc.h"

enum { MAX_TOML_BYTES = 1 << 20, MAX_KEY_PARTS = 16 };

typedef struct toml {
    orr_arena *arena;
    const char *name, *p, *end;
    uint32_t line;
    int depth;
    orr_err *err;
} toml;

static orr_status value_read(toml *t, orr_tree **out);

static orr_span here(const toml *t) {
    return (orr_span){.file = t->name, .line = t->line};
}

static orr_status refuse(toml *t, const char *what) {
    return orr_fail_at(t->err, ORR_E_SYNTAX, here(t), "%s", what);
}

static char look(const toml *t) {
    return t->p < t->end ? *t->p : '\0';
}

static void step(toml *t) {
    if (t->p < t->end) {
        t->line += *t->p == '\n';
        t->p++;
    }
}

static void blanks(toml *t) {
    while (look(t) == ' ' || look(t) == '\t') {
        t->p++;
    }
}

/* Blanks, comments and line ends, as inside of arrays. */
static void lines(toml *t) {
    for (;;) {
        blanks(t);
        if (look(t) == '#') {
            while (t->p < t->end && *t->p != '\n') {
                t->p++;
            }
        } else if (look(t) == '\n' || look(t) == '\r') {
            step(t);
        } else {
            return;
        }
    }
}

static bool is_bare(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

static orr_status string_read(toml *t, const char **out, size_t *length) {
    char quote = look(t);
    orr_text text = orr_text_new(t->arena, MAX_TOML_BYTES);
    t->p++;
    if (look(t) == quote && t->p + 1 < t->end && t->p[1] == quote) {
        return refuse(t, "strings over several lines are not read here");
    }
    while (t->p < t->end && *t->p != quote) {
        char c = *t->p++;
        if ((unsigned char)c < 32 && c != '\t') {
            return refuse(t, "a string ends on the line where it starts");
        }
        if (c == '\\' && quote == '"') {
            static const char from[] = "nt\"\\rb", to[] = "\n\t\"\\\r\b";
            const char *found = look(t) != '\0' ? strchr(from, look(t)) : NULL;
            if (found == NULL) {
                return refuse(t, "this escape is not read here; \\n \\t \\r \\b \\\" \\\\ are");
            }
            c = to[found - from];
            t->p++;
        }
        orr_text_addn(&text, &c, 1);
    }
    if (look(t) != quote) {
        return refuse(t, "a string is never closed");
    }
    t->p++;
    *length = text.length;
    *out = orr_text_done(&text);
    return ORR_OK;
}

static orr_status key_read(toml *t, const char **out) {
    size_t length;
    if (look(t) == '"' || look(t) == '\'') {
        return string_read(t, out, &length);
    }
    const char *start = t->p;
    while (is_bare(look(t))) {
        t->p++;
    }
    if (t->p == start) {
        return refuse(t, "a key is expected here");
    }
    *out = orr_arena_copy(t->arena, start, (size_t)(t->p - start));
    return ORR_OK;
}

/* "a.b.c": parts, at most MAX_KEY_PARTS. */
static orr_status path_read(toml *t, const char *parts[MAX_KEY_PARTS], size_t *count) {
    *count = 0;
    for (;;) {
        blanks(t);
        if (*count == MAX_KEY_PARTS) {
            return refuse(t, "a key has too many parts");
        }
        ORR_TRY(key_read(t, &parts[(*count)++]));
        blanks(t);
        if (look(t) != '.') {
            return ORR_OK;
        }
        t->p++;
    }
}

/* The map under `key`, made when absent. The tree is ours, so that writing to it is fine. */
static orr_status enter(toml *t, orr_tree *map, const char *key, orr_tree **out) {
    for (size_t i = 0; i < orr_tree_size(map); i++) {
        if (strcmp(orr_tree_key(map, i), key) == 0) {
            union {
                const orr_tree *read;
                orr_tree *write;
            } child = {.read = orr_tree_at(map, i)};
            if (orr_tree_kind_of(child.read) != ORR_TREE_MAP) {
                return refuse(t, "this key has a value already and cannot be a table");
            }
            *out = child.write;
            return ORR_OK;
        }
    }
    *out = orr_tree_new_map(t->arena);
    orr_tree_set_span(*out, here(t));
    orr_tree_put(t->arena, map, key, *out);
    return ORR_OK;
}

static orr_status pair_read(toml *t, orr_tree *map) {
    const char *parts[MAX_KEY_PARTS];
    size_t count;
    ORR_TRY(path_read(t, parts, &count));
    if (look(t) != '=') {
        return refuse(t, "\"=\" is expected behind a key");
    }
    t->p++;
    blanks(t);
    orr_tree *value;
    ORR_TRY(value_read(t, &value));
    for (size_t i = 0; i + 1 < count; i++) {
        ORR_TRY(enter(t, map, parts[i], &map));
    }
    if (orr_tree_get(map, parts[count - 1]) != NULL) {
        return orr_fail_at(t->err, ORR_E_SYNTAX, here(t), "\"%.60s\" is given twice",
                           parts[count - 1]);
    }
    orr_tree_put(t->arena, map, parts[count - 1], value);
    return ORR_OK;
}

static orr_status array_read(toml *t, orr_tree **out) {
    *out = orr_tree_new_list(t->arena);
    t->p++;
    for (lines(t); look(t) != ']'; lines(t)) {
        orr_tree *item;
        ORR_TRY(value_read(t, &item));
        orr_tree_push(t->arena, *out, item);
        lines(t);
        if (look(t) == ',') {
            t->p++;
        } else if (look(t) != ']') {
            return refuse(t, "\",\" or \"]\" is expected in an array");
        }
    }
    t->p++;
    return ORR_OK;
}

static orr_status inline_table_read(toml *t, orr_tree **out) {
    *out = orr_tree_new_map(t->arena);
    t->p++;
    for (blanks(t); look(t) != '}'; blanks(t)) {
        ORR_TRY(pair_read(t, *out));
        blanks(t);
        if (look(t) == ',') {
            t->p++;
        } else if (look(t) != '}') {
            return refuse(t, "\",\" or \"}\" is expected in an inline table");
        }
    }
    t->p++;
    return ORR_OK;
}

static orr_status scalar_read(toml *t, orr_tree **out) {
    char word[64];
    size_t n = 0;
    while (t->p < t->end && strchr(" \t\r\n,]}#", *t->p) == NULL && n + 1 < sizeof word) {
        if (*t->p != '_') {
            word[n++] = *t->p;
        }
        t->p++;
    }
    word[n] = '\0';
    int64_t integer;
    double real;
    const char *digits = word[0] == '+' ? word + 1 : word;
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) {
        *out = orr_tree_new_bool(t->arena, word[0] == 't');
    } else if (orr_parse_int(digits, &integer)) {
        *out = orr_tree_new_int(t->arena, integer);
    } else if (orr_parse_real(digits, &real)) {
        *out = orr_tree_new_real(t->arena, real);
    } else {
        return orr_fail_at(t->err, ORR_E_SYNTAX, here(t),
                           "\"%s\" is no value that is read here: a string, a number, true or "
                           "false is expected",
                           word);
    }
    return ORR_OK;
}

static orr_status value_read(toml *t, orr_tree **out) {
    orr_span span = here(t);
    if (++t->depth > ORR_DOC_MAX_DEPTH) {
        return orr_fail_at(t->err, ORR_E_LIMIT, span, "values are nested too deeply");
    }
    const char *text;
    size_t length;
    orr_status status;
    switch (look(t)) {
    case '"':
    case '\'':
        status = string_read(t, &text, &length);
        *out = status == ORR_OK ? orr_tree_new_textn(t->arena, text, length) : NULL;
        break;
    case '[': status = array_read(t, out); break;
    case '{': status = inline_table_read(t, out); break;
    default: status = scalar_read(t, out); break;
    }
    t->depth--;
    if (status == ORR_OK) {
        orr_tree_set_span(*out, span);
    }
    return status;
}

static orr_status header_read(toml *t, orr_tree *root, orr_tree **table) {
    t->p++;
    if (look(t) == '[') {
        return refuse(t, "arrays of tables are not read here");
    }
    const char *parts[MAX_KEY_PARTS];
    size_t count;
    ORR_TRY(path_read(t, parts, &count));
    if (look(t) != ']') {
        return refuse(t, "\"]\" is expected behind the name of a table");
    }
    t->p++;
    *table = root;
    for (size_t i = 0; i < count; i++) {
        ORR_TRY(enter(t, *table, parts[i], table));
    }
    return ORR_OK;
}

orr_status orr_toml_read(orr_arena *arena, const char *name, const char *text, size_t length,
                         orr_tree **out, orr_err *err) {
    if (length > MAX_TOML_BYTES) {
        return orr_fail(err, ORR_E_LIMIT, "a TOML text of %zu bytes is too large: at most %d",
                        length, (int)MAX_TOML_BYTES);
    }
    toml t = {.arena = arena,
              .name = name != NULL ? orr_arena_text(arena, name) : NULL,
              .p = text,
              .end = text + length,
              .line = 1,
              .err = err};
    orr_tree *root = orr_tree_new_map(arena), *table = root;
    for (lines(&t); t.p < t.end; lines(&t)) {
        if (*t.p == '[') {
            ORR_TRY(header_read(&t, root, &table));
        } else {
            ORR_TRY(pair_read(&t, table));
        }
        blanks(&t);
        if (t.p < t.end && *t.p != '\n' && *t.p != '\r' && *t.p != '#') {
            return refuse(&t, "the line should end here");
        }
    }
    *out = root;
    return ORR_OK;
}
