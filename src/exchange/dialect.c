/* The engine of dialect.h. */
#include "exchange/dialect.h"

#include <string.h>

#include "exchange/foreign.h"

static const dialect *const dialects[] = {&orr_dialect_bridge, &orr_dialect_nemo2,
                                          &orr_dialect_nemo1};

const dialect *orr_dialect_find(const orr_tree *tree) {
    for (size_t i = 0; i < sizeof dialects / sizeof *dialects; i++) {
        if (dialects[i]->is(tree)) {
            return dialects[i];
        }
    }
    return NULL;
}

/* ---- import --------------------------------------------------------------------------------- */

/* Length of the section that a path is in; 0: none. */
static size_t section_length(const dialect *d, const char *path) {
    size_t longest = 0;
    for (size_t i = 0; d->sections[i] != NULL; i++) {
        size_t n = strlen(d->sections[i]);
        bool in = n > longest && strncmp(path, d->sections[i], n) == 0 && path[n] == '.';
        longest = in ? n : longest;
    }
    return longest;
}

/* The row that names the path, else one for all below a part of it; not for more than the section.
 */
static const dialect_row *find_row(const dialect *d, const char *path) {
    const dialect_row *wide = NULL;
    size_t least = section_length(d, path);
    for (size_t i = 0; i < d->count; i++) {
        const char *row = d->rows[i].path;
        size_t n = strlen(row);
        bool wild = n >= 2 && strcmp(row + n - 2, ".*") == 0;
        if (strcmp(row, path) == 0 && n > 0) {
            return &d->rows[i];
        }
        if (wild && wide == NULL && n - 2 > least && strncmp(path, row, n - 1) == 0) {
            wide = &d->rows[i];
        }
    }
    return wide;
}

/* Whether one row alone speaks of all below a path. */
static bool is_whole(const dialect *d, const char *path) {
    size_t n = strlen(path);
    bool found = false;
    for (size_t i = 0; i < d->count; i++) {
        const char *row = d->rows[i].path;
        if (strncmp(row, path, n) == 0 && row[n] == '.') {
            if (strcmp(row + n, ".*") != 0) {
                return false;
            }
            found = true;
        }
    }
    return found;
}

/* The argument that a path in one of the sections is by its own name. */
static const char *own_name(const dialect *d, const char *path) {
    size_t n = section_length(d, path);
    const char *name = n > 0 ? path + n + 1 : path;
    return n > 0 && strchr(name, '.') == NULL && orr_megatron_knows(name) ? name : NULL;
}

/* Fiddle and Hydra write what a map becomes; it is no setting. */
static bool is_mark(const char *key) {
    static const char *const marks[] = {"_target_", "_partial_", "_call_", "_args_", "_recursive_"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (strcmp(key, marks[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void take(importer *im, const dialect *d, const char *path, const orr_tree *node,
                 settings *list) {
    const dialect_row *row = find_row(d, path);
    uint32_t line = orr_tree_span(node).line;
    const char *arg = row != NULL ? row->arg : own_name(d, path);
    const char *value = orr_tree_scalar(im->arena, node);
    if (row != NULL && arg == NULL) {
        orr_import_state(im, path, path, node);
        bool off =
            strcmp(value, "false") == 0 || strcmp(value, "0") == 0 || strcmp(value, "none") == 0;
        if (row->note != NULL && !off) {
            orr_import_unknown(im, path, line, true,
                               orr_arena_format(im->arena, "not modelled: %s", row->note));
        }
        return;
    }
    if (arg == NULL) {
        orr_import_unknown(im, path, line, orr_import_name_matters(path), NULL);
        return;
    }
    size_t before = list->count;
    orr_settings_add_node(im->arena, list, path, node);
    if (list->count == before) {
        return;
    }
    setting *one = &list->at[before];
    one->arg = arg;
    if (row != NULL && row->words != NULL) {
        const char *ours = orr_words_ours(im->arena, row->words, value);
        if (ours == NULL) {
            list->count = before;
            orr_import_unknown(im, path, line, true,
                               orr_arena_format(im->arena, "\"%.60s\" is not known", value));
            return;
        }
        one->value = ours;
        if (ours[0] == '\0') { /* says nothing */
            list->count = before;
        }
    }
}

static void walk(importer *im, const dialect *d, const char *prefix, const orr_tree *map,
                 settings *list) {
    for (size_t i = 0; i < orr_tree_size(map); i++) {
        const orr_tree *node = orr_tree_at(map, i);
        const char *key = orr_tree_key(map, i);
        if (orr_tree_kind_of(node) == ORR_TREE_NULL || is_mark(key)) {
            continue;
        }
        const char *path = prefix[0] == '\0' ? orr_arena_text(im->arena, key)
                                             : orr_arena_format(im->arena, "%s.%s", prefix, key);
        if (strlen(path) > 400) {
            continue;
        }
        bool map_node = orr_tree_kind_of(node) == ORR_TREE_MAP;
        bool whole = map_node && is_whole(d, path);
        if (map_node && !whole) {
            walk(im, d, path, node, list);
        } else {
            take(im, d, whole ? orr_arena_format(im->arena, "%s.*", path) : path, node, list);
        }
    }
}

void orr_dialect_import(importer *im, const dialect *d, const orr_tree *tree) {
    settings list = {0};
    megatron_ground ground = {.model_name = orr_import_stem(im->arena, im->file),
                              .software = "megatron-core"};
    for (size_t i = 0; i < d->default_count; i++) {
        setting one = {.name = d->defaults[i][0], .value = d->defaults[i][1], .typed = true};
        orr_settings_add(im->arena, &list, one);
    }
    walk(im, d, "", tree, &list);
    if (d->joint != NULL) {
        d->joint(im, tree, &list, &ground);
    }
    orr_megatron_keys(im, &list, &ground);
}

/* ---- export --------------------------------------------------------------------------------- */

static const dialect_row *row_of(const dialect *d, const char *arg) {
    for (size_t i = 0; i < d->count; i++) {
        if (d->rows[i].arg != NULL && strcmp(d->rows[i].arg, arg) == 0) {
            return &d->rows[i];
        }
    }
    return NULL;
}

static const char *underscored(orr_arena *arena, const char *name) {
    char *copy = orr_arena_text(arena, name);
    for (char *p = copy; *p != '\0'; p++) {
        *p = *p == '-' ? '_' : *p;
    }
    return copy;
}

const char *orr_dialect_path(orr_arena *arena, const dialect *d, const char *arg) {
    const dialect_row *row = row_of(d, arg);
    if (row != NULL) {
        return row->path;
    }
    const char *name = underscored(arena, arg), *section = d->sections[0];
    return section[0] == '\0' ? name : orr_arena_format(arena, "%s.%s", section, name);
}

void orr_dialect_spell(exporter *x, const dialect *d, const orr_tree *arguments) {
    for (size_t i = 0; i < orr_tree_size(arguments); i++) {
        const char *arg = orr_tree_key(arguments, i);
        const orr_tree *value = orr_tree_at(arguments, i);
        const dialect_row *row = row_of(d, arg);
        orr_tree *written = orr_tree_copy(x->arena, value);
        if (row != NULL && row->path[0] == '\0') {
            continue;
        }
        if (row != NULL && row->words != NULL) {
            const char *word = orr_tree_scalar(x->arena, value);
            const char *theirs = orr_words_theirs(x->arena, row->words, word);
            if (theirs == NULL) {
                orr_export_lose(x, arg, word, "the framework has no such value");
                continue;
            }
            bool flag = strcmp(theirs, "true") == 0 || strcmp(theirs, "false") == 0;
            written = flag ? orr_tree_new_bool(x->arena, theirs[0] == 't')
                           : orr_tree_new_text(x->arena, theirs);
        }
        orr_export_set(x, orr_dialect_path(x->arena, d, arg), written);
    }
    if (d->write != NULL) {
        d->write(x);
    }
}
