#include "doc/catalog.h"

#include <string.h>

#include "base/embedded.h"
#include "base/err.h"
#include "base/text.h"
#include "doc/doc.h"

enum { MAX_NAME = 256 };

static bool ends_with(const char *text, const char *tail) {
    size_t a = strlen(text);
    size_t b = strlen(tail);
    return a >= b && strcmp(text + a - b, tail) == 0;
}

bool orr_catalog_is_path(const char *name) {
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

/* The file called `name`; also yields the alias file, when there is one. */
static const orr_embedded *find_file(orr_arena *arena, const orr_catalog *catalog, const char *name,
                                     const orr_embedded **aliases) {
    size_t index = 0;
    const orr_embedded *found = NULL;
    for (const orr_embedded *file; (file = next_file(catalog, &index)) != NULL;) {
        if (is_alias_file(file)) {
            *aliases = file;
        } else if (orr_name_equal(stem_of(arena, file->path), name)) {
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
    orr_status status =
        orr_fail(err, ORR_E_NAME, "unknown %s \"%.100s\"", catalog->what, name);
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
    if (orr_catalog_is_path(name)) {
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
