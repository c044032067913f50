/* Primus experiment files: Megatron-LM arguments by name under modules.pre_trainer.overrides, over
 * a model file and a module file that extend others. Files are looked for beside the experiment
 * and in primus/configs of the folders above it; a model file that is not there is taken for the
 * catalog's model of its name, a module file for the defaults below. The environment is not read:
 * ${VAR:default} means its default, and says so. */
#include <string.h>

#include "base/err.h"
#include "doc/doc.h"
#include "exchange/dialect.h"

enum { MAX_EXTENDS = 16, MAX_ANCESTORS = 8 };

/* Of a model that is known by name only: what its file would say. */
static const char *const model_defaults[][2] = {
    {"hidden-dropout", "0"},
    {"attention-dropout", "0"},
    {"moe-token-dispatcher-type", "alltoall"},
};

/* Its names are those of Megatron-LM's own variables. */
static const dialect_row primus_rows[] = {
    IS("modules.pre_trainer.overrides.fp8", "fp8-format"),
    IS("modules.pre_trainer.overrides.fp4", "fp4-format"),
    IMPLIED("use-flash-attn"),
};
static const char *const primus_sections[] = {"modules.pre_trainer.overrides", NULL};

/* primus/configs: modules/megatron/pre_trainer.yaml and trainer_base.yaml, models/megatron/
 * language_model.yaml, where they differ from Megatron-LM's defaults. */
static const char *const primus_defaults[][2] = {
    {"bf16", "true"},
    {"use-distributed-optimizer", "true"},
    {"use-flash-attn", "true"},
    {"sequence-parallel", "true"},
    {"data-parallel-sharding-strategy", "no_shard"},
};

const dialect orr_dialect_primus = {.name = "primus",
                                    .rows = primus_rows,
                                    .count = sizeof primus_rows / sizeof *primus_rows,
                                    .sections = primus_sections,
                                    .defaults = primus_defaults,
                                    .default_count =
                                        sizeof primus_defaults / sizeof *primus_defaults};

static const char *const trainers[] = {"pre_trainer", "sft_trainer", "post_trainer"};

static const orr_tree *trainer_of(const orr_tree *tree) {
    const orr_tree *modules = orr_tree_get(tree, "modules");
    for (size_t i = 0; i < sizeof trainers / sizeof *trainers; i++) {
        const orr_tree *trainer = orr_tree_get(modules, trainers[i]);
        if (orr_tree_kind_of(trainer) == ORR_TREE_MAP) {
            return trainer;
        }
    }
    return NULL;
}

bool orr_primus_is(const orr_tree *tree) {
    const orr_tree *trainer = trainer_of(tree);
    return trainer != NULL && (orr_tree_get(trainer, "overrides") != NULL ||
                               orr_tree_get(trainer, "framework") != NULL);
}

/* ---- ${VAR:default} ------------------------------------------------------------------------- */

/* The text with its variables replaced; *unknown or *assumed name one, if any. */
static const char *substitute(orr_arena *arena, const char *text, const char **unknown,
                              const char **assumed) {
    if (strstr(text, "${") == NULL) {
        return text;
    }
    orr_text out = orr_text_new(arena, 1 << 16);
    while (*text != '\0') {
        const char *end = text[0] == '$' && text[1] == '{' ? strchr(text, '}') : NULL;
        if (end == NULL) {
            orr_text_addn(&out, text++, 1);
            continue;
        }
        const char *colon = memchr(text, ':', (size_t)(end - text));
        const char *shown = orr_arena_copy(arena, text, (size_t)(end + 1 - text));
        if (colon == NULL) {
            *unknown = shown;
            orr_text_add(&out, shown);
        } else {
            *assumed = orr_arena_format(arena, "the default in %s; the environment may set another",
                                        shown);
            orr_text_addn(&out, colon + 1, (size_t)(end - colon - 1));
        }
        text = end + 1;
    }
    return orr_text_done(&out);
}

static void add_settings(importer *im, settings *list, const orr_tree *map) {
    for (size_t i = 0; i < orr_tree_size(map); i++) {
        const char *name = orr_tree_key(map, i);
        if (strcmp(name, "extends") == 0 || strcmp(name, "includes") == 0) {
            continue;
        }
        size_t before = list->count;
        const orr_tree *node = orr_tree_at(map, i);
        if (orr_tree_kind_of(node) == ORR_TREE_MAP) {
            orr_import_unknown(im, name, orr_tree_span(node).line, orr_import_name_matters(name),
                               NULL);
        }
        orr_settings_add_node(im->arena, list, name, node);
        if (list->count > before && list->at[before].value != NULL) {
            setting *one = &list->at[before];
            one->value = substitute(im->arena, one->value, &one->unknown, &one->assumed);
        }
    }
}

/* ---- files ---------------------------------------------------------------------------------- */

static const char *folder_of(orr_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? "." : orr_arena_copy(arena, path, (size_t)(slash - path));
}

/* Reads `name` beside the experiment or in primus/configs/`kind` above it; NULL: not there. */
static orr_tree *find_file(orr_arena *arena, const char *path, const char *kind, const char *name,
                           const char **found) {
    if (path == NULL || strchr(name, '/') != NULL) {
        return NULL;
    }
    const char *up = folder_of(arena, path);
    for (int i = 0; i <= MAX_ANCESTORS; i++) {
        const char *candidate =
            i == 0 ? orr_arena_format(arena, "%s/%s", up, name)
                   : orr_arena_format(arena, "%s/primus/configs/%s/megatron/%s", up, kind, name);
        orr_tree *tree;
        orr_err ignored = {0};
        if (orr_doc_read_file(arena, candidate, &tree, &ignored) == ORR_OK &&
            orr_tree_kind_of(tree) == ORR_TREE_MAP) {
            *found = candidate;
            return tree;
        }
        if (i > 0) {
            up = orr_arena_format(arena, "%s/..", up);
        }
    }
    return NULL;
}

/* A file's settings below those that extend it: parents first. */
static orr_status add_chain(importer *im, settings *list, const orr_tree *tree, const char *path,
                            int depth, orr_err *err) {
    if (depth > MAX_EXTENDS) {
        return orr_fail_at(err, ORR_E_LIMIT, (orr_span){.file = path, .line = 1},
                           "files extend one another more than %d deep", (int)MAX_EXTENDS);
    }
    static const char *const words[] = {"extends", "includes"};
    for (size_t w = 0; w < 2; w++) {
        const orr_tree *parents = orr_tree_get(tree, words[w]);
        size_t count = orr_tree_kind_of(parents) == ORR_TREE_LIST ? orr_tree_size(parents) : 0;
        for (size_t i = 0; i < count && i < MAX_EXTENDS; i++) {
            const char *name = orr_tree_text(orr_tree_at(parents, i), "");
            const char *parent =
                orr_arena_format(im->arena, "%s/%s", folder_of(im->arena, path), name);
            orr_tree *below;
            orr_err ignored = {0};
            if (orr_doc_read_file(im->arena, parent, &below, &ignored) != ORR_OK) {
                orr_import_warn(im, orr_tree_span(orr_tree_at(parents, i)).line,
                                "%s extends %s, which cannot be read", path, name);
                continue;
            }
            ORR_TRY(add_chain(im, list, below, parent, depth + 1, err));
        }
    }
    add_settings(im, list, tree);
    return ORR_OK;
}

/* "qwen3_30B_A3B.yaml" to its stem. */
static const char *without_suffix(orr_arena *arena, const char *name) {
    size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, ".yaml") == 0 ? orr_arena_copy(arena, name, n - 5) : name;
}

static void add_defaults(importer *im, settings *list, const char *const rows[][2], size_t count) {
    for (size_t i = 0; i < count; i++) {
        setting one = {.name = rows[i][0], .value = rows[i][1], .typed = true};
        orr_settings_add(im->arena, list, one);
    }
}

/* Sizes enough for a model of their own. */
static bool is_complete(const orr_tree *overrides) {
    static const char *const needed[] = {"num_layers", "hidden_size", "num_attention_heads"};
    bool all = true;
    for (size_t i = 0; i < 3; i++) {
        all = all && orr_tree_kind_of(orr_tree_get(overrides, needed[i])) != ORR_TREE_NULL;
    }
    return all;
}

orr_status orr_primus_import(importer *im, const orr_tree *tree, const char *path, orr_err *err) {
    const orr_tree *trainer = trainer_of(tree);
    const char *framework = orr_tree_text(orr_tree_get(trainer, "framework"), "megatron");
    if (strcmp(framework, "megatron") != 0) {
        return orr_fail_at(err, ORR_E_NAME, orr_tree_span(orr_tree_get(trainer, "framework")),
                           "Primus files for \"%.40s\" are not read, only those for megatron",
                           framework);
    }
    settings list = {0};
    add_defaults(im, &list, orr_dialect_primus.defaults, orr_dialect_primus.default_count);
    const char *found = NULL;
    const char *config = orr_tree_text(orr_tree_get(trainer, "config"), "");
    orr_tree *module = find_file(im->arena, path, "modules", config, &found);
    if (module != NULL) {
        ORR_TRY(add_chain(im, &list, module, found, 0, err));
    }
    const char *unknown = NULL, *assumed = NULL;
    const orr_tree *model_node = orr_tree_get(trainer, "model");
    const char *model = substitute(im->arena, orr_tree_text(model_node, ""), &unknown, &assumed);
    if (model[0] == '\0' || unknown != NULL) {
        orr_import_unknown(im, "model", orr_tree_span(model_node).line, true,
                           unknown != NULL ? "its name is not known" : "no model is named");
    }
    orr_tree *card = find_file(im->arena, path, "models", model, &found);
    const orr_tree *overrides = orr_tree_get(trainer, "overrides");
    if (card != NULL) {
        ORR_TRY(add_chain(im, &list, card, found, 0, err));
    }
    megatron_ground ground = {.model_name = without_suffix(im->arena, model),
                              .by_name = card == NULL && model[0] != '\0' && unknown == NULL &&
                                         !is_complete(overrides),
                              .software = "primus-rocm"};
    if (ground.by_name) {
        add_defaults(im, &list, model_defaults, sizeof model_defaults / sizeof *model_defaults);
    }
    add_settings(im, &list, overrides);
    orr_megatron_keys(im, &list, &ground);
    orr_import_ask(im, 0, "gpus",
                   "a Primus file does not say how many GPUs there are; give --gpus");
    return ORR_OK;
}
