/* The engine of foreign.h: walks a file and asks the format's table about every setting. */
#include "exchange/foreign.h"

#include <string.h>

enum { MAX_LARGE = 1000000 };

static const foreign_format *const formats[] = {&orr_foreign_torchtitan, &orr_foreign_nanotron,
                                                &orr_foreign_accelerate, &orr_foreign_deepspeed};

const foreign_format *orr_foreign_find(const orr_tree *tree) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (formats[i]->is(tree)) {
            return formats[i];
        }
    }
    return NULL;
}

int64_t orr_foreign_int(const orr_tree *tree, const char *path, int64_t otherwise) {
    const orr_tree *node = orr_tree_path(tree, path);
    int64_t value;
    if (orr_tree_kind_of(node) == ORR_TREE_TEXT) {
        return orr_parse_int(orr_tree_text(node, ""), &value) ? value : otherwise;
    }
    return orr_tree_int(node, otherwise);
}

const char *orr_foreign_text(const orr_tree *tree, const char *path) {
    return orr_tree_text(orr_tree_path(tree, path), "");
}

bool orr_foreign_flag(const orr_tree *tree, const char *path, bool otherwise) {
    const orr_tree *node = orr_tree_path(tree, path);
    const char *text = orr_tree_text(node, "");
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        return text[0] == 't';
    }
    return orr_tree_bool(node, otherwise);
}

uint32_t orr_foreign_line(const orr_tree *tree, const char *path) {
    return orr_tree_span(orr_tree_path(tree, path)).line;
}

int64_t orr_foreign_product(const int64_t *factors, size_t count) {
    int64_t product = 1;
    for (size_t i = 0; i < count; i++) {
        if (factors[i] < 1 || factors[i] > MAX_LARGE || product > INT64_MAX / factors[i]) {
            return 0;
        }
        product *= factors[i];
    }
    return product <= 1 << 30 ? product : 0;
}

static bool is_wild(const char *row) {
    size_t n = strlen(row);
    return n >= 2 && strcmp(row + n - 2, ".*") == 0;
}

/* A leaf goes to the first row that names it or the part of the tree it is in. */
static const foreign_row *find_row(const foreign_format *format, const char *path) {
    for (size_t i = 0; i < format->count; i++) {
        const char *row = format->rows[i].path;
        if (is_wild(row) ? strncmp(path, row, strlen(row) - 1) == 0 : strcmp(row, path) == 0) {
            return &format->rows[i];
        }
    }
    return NULL;
}

/* A map is taken whole when one row alone speaks of all that is in it, and looked into otherwise.
 */
static const foreign_row *find_whole(const foreign_format *format, const char *path) {
    const foreign_row *found = NULL;
    size_t length = strlen(path);
    for (size_t i = 0; i < format->count; i++) {
        const char *row = format->rows[i].path;
        if (strncmp(row, path, length) == 0 && row[length] == '.') {
            if (found != NULL || !is_wild(row) || strlen(row) != length + 2) {
                return NULL;
            }
            found = &format->rows[i];
        }
    }
    return found;
}

/* A scalar as text; "" for lists and maps. */
static const char *scalar(importer *im, const orr_tree *node) {
    switch (orr_tree_kind_of(node)) {
    case ORR_TREE_BOOL: return orr_tree_bool(node, false) ? "true" : "false";
    case ORR_TREE_INT: return orr_arena_format(im->arena, "%lld", (long long)orr_tree_int(node, 0));
    case ORR_TREE_REAL: {
        char number[32];
        orr_format_real(orr_tree_real(node, 0), number);
        return orr_arena_text(im->arena, number);
    }
    case ORR_TREE_TEXT: return orr_tree_text(node, "");
    case ORR_TREE_NULL:
    case ORR_TREE_LIST:
    case ORR_TREE_MAP: break;
    }
    return "";
}

/* Our word for theirs in "theirs=ours theirs=ours"; a word without "=" stands for itself. */
static const char *translate(importer *im, const char *words, const char *theirs) {
    for (const char *p = words; *p != '\0';) {
        size_t length = strcspn(p, " ");
        size_t split = strcspn(p, "= ");
        const char *left = orr_arena_copy(im->arena, p, split);
        if (orr_name_equal(left, theirs)) {
            return split < length ? orr_arena_copy(im->arena, p + split + 1, length - split - 1)
                                  : left;
        }
        p += length + (p[length] != '\0');
    }
    return NULL;
}

static void apply(importer *im, const foreign_row *row, const char *path, const orr_tree *node) {
    uint32_t line = orr_tree_span(node).line;
    const char *value = scalar(im, node);
    bool silent = row->kind == FOREIGN_QUIET || row->kind == FOREIGN_MATTERS;
    if (!silent && orr_name_equal(value, "auto")) {
        orr_import_depends(im, path, line, row->key, "the trainer, which fills \"auto\" in");
        return;
    }
    const char *ours;
    int64_t number;
    switch ((foreign_kind)row->kind) {
    case FOREIGN_INT:
        number = orr_tree_kind_of(node) == ORR_TREE_TEXT ? 0 : orr_tree_int(node, 0);
        if (number < 1) {
            orr_import_unknown(im, path, line, true, "it is not a positive whole number");
        } else {
            orr_import_put_int(im, row->key, number, line);
        }
        break;
    case FOREIGN_WORD:
        ours = translate(im, row->words, value);
        if (ours == NULL) {
            orr_import_unknown(im, path, line, true,
                               orr_arena_format(im->arena, "\"%.60s\" is not known", value));
        } else {
            orr_import_put_text(im, row->key, ours, line);
        }
        break;
    case FOREIGN_MATTERS:
        if (row->words == NULL || translate(im, row->words, value) == NULL) {
            orr_import_unknown(im, path, line, true,
                               orr_arena_format(im->arena, "not modelled: %s", row->note));
        }
        break;
    case FOREIGN_JOINT:
    case FOREIGN_QUIET: break;
    }
}

static void walk(importer *im, const foreign_format *format, const char *prefix,
                 const orr_tree *map) {
    for (size_t i = 0; i < orr_tree_size(map); i++) {
        const orr_tree *node = orr_tree_at(map, i);
        const char *key = orr_tree_key(map, i);
        const char *path = prefix[0] == '\0' ? orr_arena_text(im->arena, key)
                                             : orr_arena_format(im->arena, "%s.%s", prefix, key);
        bool map_node = orr_tree_kind_of(node) == ORR_TREE_MAP;
        const foreign_row *row = map_node ? find_whole(format, path) : find_row(format, path);
        if (orr_tree_kind_of(node) == ORR_TREE_NULL || strlen(path) > 400) {
            continue;
        }
        if (row != NULL) {
            apply(im, row, path, node);
        } else if (map_node) {
            walk(im, format, path, node);
        } else {
            orr_import_unknown(im, path, orr_tree_span(node).line, orr_import_name_matters(path),
                               NULL);
        }
    }
}

void orr_foreign_import(importer *im, const foreign_format *format, const orr_tree *tree) {
    walk(im, format, "", tree);
    format->joint(im, tree);
    static const char *const needed[] = {"model", "gpus", "seq", "gbs"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        bool batch =
            strcmp(needed[i], "gbs") == 0 && orr_tree_get(im->keys, "micro_batches") != NULL;
        if (orr_tree_get(im->keys, needed[i]) == NULL && !batch) {
            orr_import_ask(im, 0, needed[i], "this file does not say \"%s\"; give --%s", needed[i],
                           needed[i]);
        }
    }
}
