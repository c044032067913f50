#include "doc/catalog.h"

#include <string.h>

#include "base/embedded.h"
#include "base/err.h"
#include "base/text.h"
#include "doc/doc.h"

enum { MAX_NAME = 256, MAX_ANCESTORS = 8 };

static bool ends_with(const char *text, const char *tail) {
    size_t a = strlen(text);
    size_t b = strlen(tail);
    return a >= b && strcmp(text + a - b, tail) == 0;
}

/* A name that is meant as a file: contains '/' or ends in .json, .yaml or .yml. */
static bool is_path(const char *name) {
    return strchr(name, '/') != NULL || ends_with(name, ".json") || ends_with(name, ".yaml") ||
           ends_with(name, ".yml");
}

/* File name without folder and ending. */
static const char *stem_of(orr_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    const char *start = slash == NULL ? path : slash + 1;
    const char *dot = strrchr(start, '.');
    size_t length = dot == NULL || dot == start ? strlen(start) : (size_t)(dot - start);
    return orr_arena_copy(arena, start, length);
}

/* "config.json" says nothing: the folder that holds it does. */
static const char *path_stem(orr_arena *arena, const char *path) {
    const char *stem = stem_of(arena, path);
    const char *slash = strrchr(path, '/');
    if (!orr_name_equal(stem, "config") || slash == NULL || slash == path) {
        return stem;
    }
    const char *start = slash;
    while (start > path && start[-1] != '/') {
        start--;
    }
    size_t length = (size_t)(slash - start);
    bool dots = (length == 1 && start[0] == '.') || (length == 2 && memcmp(start, "..", 2) == 0);
    return length == 0 || dots ? stem : orr_arena_copy(arena, start, length);
}

/* Next embedded file of the folder from *index on, or NULL. */
static const orr_embedded *next_file(const orr_catalog *catalog, size_t *index) {
    size_t length = strlen(catalog->folder);
    while (*index < orr_embedded_count) {
        const orr_embedded *file = &orr_embedded_files[(*index)++];
        if (strncmp(file->path, catalog->folder, length) == 0 && file->path[length] == '/') {
            return file;
        }
    }
    return NULL;
}

static bool is_alias_file(const orr_embedded *file) {
    return ends_with(file->path, "/aliases.yaml");
}

static orr_status read_embedded(orr_arena *arena, const orr_embedded *file, orr_tree **out,
                                orr_err *err) {
    const char *name = orr_arena_format(arena, "data/%s", file->path);
    return orr_doc_read(arena, name, file->bytes, file->length, out, err);
}

/* How well two names agree: "gpt3-1.3b" and "gpt3-13b" are one without their separators. */
static int likeness(const char *a, const char *b) {
    if (!orr_name_equal(a, b)) {
        return 0;
    }
    return strcmp(a, b) == 0 ? 3 : strlen(a) == strlen(b) ? 2 : 1;
}

/* The file called `name`; also yields the alias file, when there is one. */
static const orr_embedded *find_file(orr_arena *arena, const orr_catalog *catalog, const char *name,
                                     const orr_embedded **aliases) {
    size_t index = 0;
    int best = 0;
    const orr_embedded *found = NULL;
    for (const orr_embedded *file; (file = next_file(catalog, &index)) != NULL;) {
        int likely = is_alias_file(file) ? 0 : likeness(stem_of(arena, file->path), name);
        if (is_alias_file(file)) {
            *aliases = file;
        } else if (likely > best) {
            best = likely;
            found = file;
        }
    }
    return found;
}

static orr_status fail_unknown(orr_arena *arena, const orr_catalog *catalog, const char *name,
                               const orr_tree *aliases, orr_err *err) {
    orr_tree *list = orr_catalog_names(arena, catalog);
    size_t count = orr_tree_size(list);
    size_t alias_count = orr_tree_size(aliases);
    const char **names = ORR_NEW_ARRAY(arena, const char *, count + alias_count);
    for (size_t i = 0; i < count; i++) {
        names[i] = orr_tree_text(orr_tree_at(list, i), "");
    }
    for (size_t i = 0; i < alias_count; i++) {
        names[count + i] = orr_tree_key(aliases, i);
    }
    orr_status status = orr_fail(err, ORR_E_NAME, "unknown %s \"%.100s\"", catalog->what, name);
    int nearest = orr_name_nearest(name, names, count + alias_count);
    if (nearest >= 0) {
        orr_hint(err, "did you mean \"%s\"? A path to a file works too", names[nearest]);
    } else {
        orr_hint(err, "expected one of the %zu names of the catalog, or a path to a file", count);
    }
    return status;
}

orr_status orr_catalog_find(orr_arena *arena, const orr_catalog *catalog, const char *name,
                            orr_tree **file, const char **stem, orr_err *err) {
    if (is_path(name)) {
        *stem = path_stem(arena, name);
        return orr_doc_read_file(arena, name, file, err);
    }
    if (name[0] == '\0' || strlen(name) > MAX_NAME) {
        return orr_fail(err, ORR_E_NAME, "a %s name has 1 to %d characters", catalog->what,
                        MAX_NAME);
    }
    const orr_embedded *alias_file = NULL;
    const orr_embedded *found = find_file(arena, catalog, name, &alias_file);
    orr_tree *aliases = NULL;
    if (found == NULL && alias_file != NULL) {
        ORR_TRY(read_embedded(arena, alias_file, &aliases, err));
        for (size_t i = 0; found == NULL && i < orr_tree_size(aliases); i++) {
            if (orr_name_equal(orr_tree_key(aliases, i), name)) {
                const char *target = orr_tree_text(orr_tree_at(aliases, i), "");
                found = find_file(arena, catalog, target, &alias_file);
            }
        }
    }
    if (found == NULL) {
        return fail_unknown(arena, catalog, name, aliases, err);
    }
    *stem = stem_of(arena, found->path);
    return read_embedded(arena, found, file, err);
}

orr_tree *orr_catalog_names(orr_arena *arena, const orr_catalog *catalog) {
    orr_tree *list = orr_tree_new_list(arena);
    size_t index = 0;
    for (const orr_embedded *file; (file = next_file(catalog, &index)) != NULL;) {
        if (!is_alias_file(file)) {
            orr_tree_push(arena, list, orr_tree_new_text(arena, stem_of(arena, file->path)));
        }
    }
    return list;
}

/* ---- derivation ----------------------------------------------------------------------------- */

/* "x2" over a number, or over a quantity such as "80GB". */
static bool scale(orr_arena *arena, const orr_tree *under, const orr_tree *over, orr_tree **out) {
    const char *text = orr_tree_text(over, "");
    double factor = 0;
    double value = 0;
    if (text[0] != 'x' || !orr_parse_real(text + 1, &factor)) {
        return false;
    }
    if (orr_tree_kind_of(under) == ORR_TREE_INT || orr_tree_kind_of(under) == ORR_TREE_REAL) {
        value = orr_tree_real(under, 0);
    } else if (!orr_parse_quantity(orr_tree_text(under, ""), &value)) {
        return false;
    }
    *out = orr_tree_new_real(arena, value * factor);
    orr_tree_set_span(*out, orr_tree_span(over));
    return true;
}

static orr_tree *merge(orr_arena *arena, const orr_tree *under, const orr_tree *over, int depth) {
    orr_tree *out = orr_tree_copy(arena, under);
    orr_tree_set_span(out, orr_tree_span(over));
    for (size_t i = 0; i < orr_tree_size(over); i++) {
        const char *key = orr_tree_key(over, i);
        const orr_tree *value = orr_tree_at(over, i);
        const orr_tree *old = orr_tree_get(under, key);
        orr_tree *child = NULL;
        if (depth < ORR_DOC_MAX_DEPTH && orr_tree_kind_of(value) == ORR_TREE_MAP &&
            orr_tree_kind_of(old) == ORR_TREE_MAP && orr_tree_get(value, "value") == NULL) {
            child = merge(arena, old, value, depth + 1);
        } else if (!scale(arena, old, value, &child)) {
            child = orr_tree_copy(arena, value);
            orr_tree_set_span(child, orr_tree_span(value));
        }
        orr_tree_put(arena, out, key, child);
    }
    return out;
}

static orr_status derive(orr_arena *arena, const orr_catalog *catalog, const orr_tree *map,
                         int ancestors, const orr_tree **out, orr_err *err) {
    const orr_tree *like = orr_tree_get(map, "like");
    *out = map;
    if (orr_tree_kind_of(like) == ORR_TREE_NULL) {
        return ORR_OK;
    }
    const char *name = orr_tree_text(like, NULL);
    if (name == NULL || ancestors >= MAX_ANCESTORS) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(like),
                           name == NULL
                               ? "\"like\" must name a %s"
                               : "\"like\" leads through too many %ss, perhaps in a circle",
                           catalog->what);
    }
    orr_tree *base = NULL;
    const char *stem = NULL;
    orr_status status = orr_catalog_find(arena, catalog, name, &base, &stem, err);
    if (status != ORR_OK) {
        orr_span span = orr_tree_span(like);
        if (status == ORR_E_NAME && err != NULL) {
            err->line = span.line;
            err->column = span.column;
        }
        return status;
    }
    const orr_tree *whole = NULL;
    ORR_TRY(derive(arena, catalog, base, ancestors + 1, &whole, err));
    if (orr_tree_kind_of(whole) != ORR_TREE_MAP) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(like), "\"%.100s\" is no map", name);
    }
    orr_tree *merged = merge(arena, whole, map, 0);
    orr_tree_put(arena, merged, "like", orr_tree_null(arena));
    *out = merged;
    return ORR_OK;
}

orr_status orr_catalog_derive(orr_arena *arena, const orr_catalog *catalog, const orr_tree *map,
                              const orr_tree **out, orr_err *err) {
    return derive(arena, catalog, map, 0, out, err);
}
