/* Telling formats apart. */
#include <string.h>

#include "base/err.h"
#include "doc/doc.h"
#include "exchange/dialect.h"
#include "exchange/exchange_int.h"
#include "exchange/foreign.h"
#include "exchange/toml.h"

static orr_status import_plan(orr_arena *arena, const char *name, orr_tree *tree, orr_import *out) {
    importer im = orr_import_start(arena, name);
    im.keys = tree;
    orr_import_finish(&im, "plan", out);
    return ORR_OK;
}

/* Keys that only Megatron's argument names have, so that a YAML of them is told from a plan. */
static bool is_megatron_file(const orr_tree *tree) {
    size_t known = 0;
    for (size_t i = 0; i < orr_tree_size(tree); i++) {
        known += orr_megatron_knows(orr_tree_key(tree, i)) && strlen(orr_tree_key(tree, i)) > 4;
    }
    return known >= 3;
}

static void import_megatron_file(importer *im, const orr_tree *tree) {
    settings list = {0};
    for (size_t i = 0; i < orr_tree_size(tree); i++) {
        const orr_tree *node = orr_tree_at(tree, i);
        if (orr_tree_kind_of(node) == ORR_TREE_MAP) {
            for (size_t k = 0; k < orr_tree_size(node); k++) { /* sections of a YAML file */
                orr_settings_add_node(im->arena, &list, orr_tree_key(node, k),
                                      orr_tree_at(node, k));
            }
        } else {
            orr_settings_add_node(im->arena, &list, orr_tree_key(tree, i), node);
        }
    }
    orr_megatron_keys(im, &list,
                      &(megatron_ground){.model_name = orr_import_stem(im->arena, im->file)});
}

static bool looks_like_shell(const char *name, const char *text, size_t length) {
    if (name != NULL && (orr_ends_with(name, ".sh") || orr_ends_with(name, ".bash") ||
                         orr_ends_with(name, ".slurm") || orr_ends_with(name, ".sbatch"))) {
        return true;
    }
    if (length >= 2 && text[0] == '#' && text[1] == '!') {
        return true;
    }
    static const char *const signs[] = {
        "torchrun",     "torch.distributed", "--tensor-model-parallel",
        "--num-layers", "#SBATCH",           "pretrain_gpt.py"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (strstr(text, signs[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* ---- ${references} of OmegaConf ---------------------------------------------------------------
 */

enum { MAX_REFERENCES = 4096 };

/* "${a.b.c}" as the path a.b.c; NULL: no plain reference. */
static const char *reference(orr_arena *arena, const char *text) {
    size_t n = strlen(text);
    if (n < 4 || n > 200 || text[0] != '$' || text[1] != '{' || text[n - 1] != '}') {
        return NULL;
    }
    for (size_t i = 2; i + 1 < n; i++) {
        char c = text[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || c == '.';
        if (!word) {
            return NULL;
        }
    }
    return orr_arena_copy(arena, text + 2, n - 3);
}

/* A copy in which a value that is a plain reference to a scalar is that scalar. References to
 * references are followed one step a pass. */
static orr_tree *referenced(orr_arena *arena, const orr_tree *root, const orr_tree *node,
                            const orr_tree *parent, size_t *budget) {
    orr_tree *out;
    size_t count = orr_tree_size(node);
    switch (orr_tree_kind_of(node)) {
    case ORR_TREE_MAP:
        out = orr_tree_new_map(arena);
        for (size_t i = 0; i < count; i++) {
            orr_tree_put(arena, out, orr_tree_key(node, i),
                         referenced(arena, root, orr_tree_at(node, i), node, budget));
        }
        break;
    case ORR_TREE_LIST:
        out = orr_tree_new_list(arena);
        for (size_t i = 0; i < count; i++) {
            orr_tree_push(arena, out,
                          referenced(arena, root, orr_tree_at(node, i), parent, budget));
        }
        break;
    case ORR_TREE_NULL:
    case ORR_TREE_BOOL:
    case ORR_TREE_INT:
    case ORR_TREE_REAL:
    case ORR_TREE_TEXT:
    default: {
        const char *path = reference(arena, orr_tree_text(node, ""));
        const orr_tree *found = NULL;
        if (path != NULL && *budget > 0) {
            --*budget;
            found = path[0] == '.' ? orr_tree_path(parent, path + 1) : orr_tree_path(root, path);
        }
        bool scalar = found != NULL && orr_tree_size(found) == 0;
        out = orr_tree_copy(arena, scalar ? found : node);
        break;
    }
    }
    orr_tree_set_span(out, orr_tree_span(node));
    return out;
}

static orr_tree *follow_references(orr_arena *arena, const char *text, orr_tree *tree) {
    size_t budget = MAX_REFERENCES;
    if (strstr(text, "${") == NULL) {
        return tree;
    }
    for (int pass = 0; pass < 3; pass++) {
        tree = referenced(arena, tree, tree, tree, &budget);
    }
    return tree;
}

/* ---- telling formats apart ------------------------------------------------------------------ */

orr_status orr_format_import(importer *im, const import_request *r, const orr_tree *tree,
                             const char **format, orr_err *err) {
    const foreign_format *foreign = orr_foreign_find(tree);
    const dialect *words = orr_dialect_find(tree);
    *format = NULL;
    if (orr_primus_is(tree)) {
        *format = "primus";
        return orr_primus_import(im, tree, r->follow ? r->name : NULL, err);
    }
    if (words != NULL) {
        *format = words->name;
        orr_dialect_import(im, words, tree);
    } else if (foreign != NULL) {
        *format = foreign->name;
        orr_foreign_import(im, foreign, tree);
    } else if (is_megatron_file(tree)) {
        *format = "megatron-yaml";
        import_megatron_file(im, tree);
    }
    return ORR_OK;
}

bool orr_format_is_document(const char *name) {
    return name != NULL && (orr_ends_with(name, ".yaml") || orr_ends_with(name, ".yml") ||
                            orr_ends_with(name, ".json") || orr_ends_with(name, ".toml"));
}

orr_status orr_format_read(orr_arena *arena, const char *name, const char *text, size_t length,
                           orr_tree **tree, orr_err *err) {
    if (name != NULL && orr_ends_with(name, ".toml")) {
        return orr_toml_read(arena, name, text, length, tree, err);
    }
    ORR_TRY(orr_doc_read(arena, name, text, length, tree, err));
    *tree = follow_references(arena, text, *tree);
    return ORR_OK;
}

static orr_status import_any(orr_arena *arena, const import_request *r, const char *text,
                             size_t length, orr_import *out, orr_err *err) {
    const char *name = r->name;
    if (length > ORR_DOC_MAX_BYTES) {
        return orr_fail(err, ORR_E_LIMIT, "an input of %zu bytes is too large: at most %d", length,
                        (int)ORR_DOC_MAX_BYTES);
    }
    char *copy = orr_arena_copy(arena, text, length); /* terminated */
    if (!orr_format_is_document(name) && looks_like_shell(name, copy, length)) {
        return orr_script_import(arena, r, copy, length, out, err);
    }
    orr_tree *tree;
    ORR_TRY(orr_format_read(arena, name, copy, length, &tree, err));
    if (orr_tree_kind_of(tree) != ORR_TREE_MAP) {
        (void)orr_fail_at(err, ORR_E_SYNTAX, (orr_span){.file = name, .line = 1, .column = 1},
                          "this is neither a map of plan keys nor a launch script");
        orr_hint(err, "a plan file (YAML or JSON of plan keys), a launch script or a framework's "
                      "configuration is expected (docs/importing.md)");
        return ORR_E_SYNTAX;
    }
    importer im = orr_import_begin(arena, r);
    const char *format;
    ORR_TRY(orr_format_import(&im, r, tree, &format, err));
    if (format != NULL) {
        if (strcmp(format, "primus") != 0 && strcmp(format, "megatron-yaml") != 0) {
            orr_foreign_ask(&im);
        }
        orr_import_finish(&im, format, out);
        return ORR_OK;
    }
    if (name != NULL && orr_ends_with(name, ".toml")) {
        (void)orr_fail_at(err, ORR_E_SCHEMA, (orr_span){.file = name, .line = 1},
                          "this TOML file is not a TorchTitan configuration, the only kind that is "
                          "read");
        return ORR_E_SCHEMA;
    }
    return import_plan(arena, name, tree, out);
}

orr_status orr_import_text(orr_arena *arena, const char *name, const char *text, size_t length,
                           orr_import *out, orr_err *err) {
    return import_any(arena, &(import_request){.name = name}, text, length, out, err);
}

orr_status orr_import_file_of(orr_arena *arena, const char *path, const char *release,
                              orr_import *out, orr_err *err) {
    char *text;
    size_t length;
    ORR_TRY(orr_file_read(arena, path, &text, &length, err));
    return import_any(arena, &(import_request){.name = path, .release = release, .follow = true},
                      text, length, out, err);
}

orr_status orr_import_file(orr_arena *arena, const char *path, orr_import *out, orr_err *err) {
    return orr_import_file_of(arena, path, NULL, out, err);
}
