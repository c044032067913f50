/* Building imports, and telling formats apart. */
#include <string.h>

#include "base/err.h"
#include "doc/doc.h"
#include "exchange/exchange_int.h"
#include "exchange/foreign.h"
#include "exchange/toml.h"

importer orr_import_start(orr_arena *arena, const char *file) {
    return (importer){.arena = arena,
                      .file = file != NULL ? orr_arena_text(arena, file) : NULL,
                      .keys = orr_tree_new_map(arena),
                      .assumed = orr_tree_new_list(arena),
                      .unknown = orr_tree_new_list(arena),
                      .warnings = orr_tree_new_list(arena)};
}

void orr_import_finish(const importer *im, const char *format, orr_import *out) {
    *out = (orr_import){.format = format,
                        .keys = im->keys,
                        .assumed = im->assumed,
                        .unknown = im->unknown,
                        .warnings = im->warnings};
}

void orr_import_put(importer *im, const char *key, orr_tree *value, uint32_t line) {
    orr_tree_set_span(value, (orr_span){.file = im->file, .line = line});
    orr_tree_put(im->arena, im->keys, key, value);
}

void orr_import_put_text(importer *im, const char *key, const char *value, uint32_t line) {
    orr_import_put(im, key, orr_tree_new_text(im->arena, value), line);
}

void orr_import_put_int(importer *im, const char *key, int64_t value, uint32_t line) {
    orr_import_put(im, key, orr_tree_new_int(im->arena, value), line);
}

void orr_import_put_real(importer *im, const char *key, double value, uint32_t line) {
    orr_import_put(im, key, orr_tree_new_real(im->arena, value), line);
}

void orr_import_assume(importer *im, const char *key, const char *value, const char *why) {
    orr_tree *entry = orr_tree_push(im->arena, im->assumed, orr_tree_new_map(im->arena));
    orr_tree_put_text(im->arena, entry, "key", key);
    orr_tree_put_text(im->arena, entry, "value", value);
    orr_tree_put_text(im->arena, entry, "why", why);
}

static orr_tree *add_unknown(importer *im, const char *name, uint32_t line, bool matters,
                             const char *why) {
    orr_tree *entry = orr_tree_push(im->arena, im->unknown, orr_tree_new_map(im->arena));
    orr_tree_put_text(im->arena, entry, "name", name);
    orr_tree_put_int(im->arena, entry, "line", (int64_t)line);
    orr_tree_put_bool(im->arena, entry, "matters", matters);
    if (why != NULL) {
        orr_tree_put_text(im->arena, entry, "why", why);
    }
    return entry;
}

void orr_import_unknown(importer *im, const char *name, uint32_t line, bool matters,
                        const char *why) {
    (void)add_unknown(im, name, line, matters, why);
}

void orr_import_depends(importer *im, const char *name, uint32_t line, const char *key,
                        const char *on) {
    const char *why = orr_arena_format(im->arena, "its value depends on %s", on);
    orr_tree *entry = add_unknown(im, name, line, true, why);
    if (key != NULL) {
        orr_tree_put_text(im->arena, entry, "key", key);
    }
}

static void add_warning(importer *im, uint32_t line, const char *key, const char *message) {
    orr_tree *entry = orr_tree_push(im->arena, im->warnings, orr_tree_new_map(im->arena));
    orr_tree_put_int(im->arena, entry, "line", (int64_t)line);
    orr_tree_put_text(im->arena, entry, "message", message);
    if (key != NULL) {
        orr_tree_put_text(im->arena, entry, "key", key);
    }
}

void orr_import_warn(importer *im, uint32_t line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_warning(im, line, NULL, orr_arena_vformat(im->arena, format, args));
    va_end(args);
}

void orr_import_ask(importer *im, uint32_t line, const char *key, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add_warning(im, line, key, orr_arena_vformat(im->arena, format, args));
    va_end(args);
}

/* Whether `word` stands in `name` between separators. */
static bool has_word(const char *name, const char *word) {
    size_t n = strlen(word);
    for (const char *p = name; (p = strstr(p, word)) != NULL; p++) {
        bool starts = p == name || p[-1] == '-' || p[-1] == '_' || p[-1] == '.';
        if (starts && (p[n] == '\0' || p[n] == '-' || p[n] == '_' || p[n] == '.')) {
            return true;
        }
    }
    return false;
}

bool orr_import_name_matters(const char *name) {
    static const char *const harmless[] = {
        "path",        "dir",       "save",       "load",       "log",        "logging", "wandb",
        "tensorboard", "tokenizer", "data",       "dataset",    "seed",       "name",    "project",
        "lr",          "warmup",    "decay",      "ckpt",       "checkpoint", "eval",    "exit",
        "interval",    "iters",     "vocab-file", "merge-file", "port",       "addr",    "url",
        "timeout",     "epsilon",   "eps",        "init",       "loss-scale", "rank",    "job",
        "output",      "trace",     "profile",    "inference",  "dump",       "debug",
    };
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        if (has_word(name, harmless[i])) {
            return false;
        }
    }
    return true;
}

const char *orr_import_stem(orr_arena *arena, const char *name) {
    if (name == NULL) {
        return "imported";
    }
    const char *slash = strrchr(name, '/');
    const char *base = slash != NULL ? slash + 1 : name;
    const char *dot = strrchr(base, '.');
    size_t length = dot != NULL && dot > base ? (size_t)(dot - base) : strlen(base);
    return length > 0 ? orr_arena_copy(arena, base, length) : "imported";
}

void orr_settings_add(orr_arena *arena, settings *list, setting one) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 64 : list->capacity * 2;
        setting *at = ORR_NEW_ARRAY(arena, setting, capacity);
        if (list->count > 0) {
            memcpy(at, list->at, list->count * sizeof *at);
        }
        list->at = at;
        list->capacity = capacity;
    }
    list->at[list->count++] = one;
}

void orr_settings_add_node(orr_arena *arena, settings *list, const char *key,
                           const orr_tree *node) {
    setting one = {.name = key, .line = orr_tree_span(node).line, .typed = true};
    orr_text text = orr_text_new(arena, 1 << 16);
    switch (orr_tree_kind_of(node)) {
    case ORR_TREE_NULL: return;
    case ORR_TREE_BOOL: one.value = orr_tree_bool(node, false) ? "true" : "false"; break;
    case ORR_TREE_INT:
        one.value = orr_arena_format(arena, "%lld", (long long)orr_tree_int(node, 0));
        break;
    case ORR_TREE_REAL: {
        char number[32];
        orr_format_real(orr_tree_real(node, 0), number);
        one.value = orr_arena_text(arena, number);
        break;
    }
    case ORR_TREE_TEXT: one.value = orr_tree_text(node, ""); break;
    case ORR_TREE_LIST:
        for (size_t i = 0; i < orr_tree_size(node); i++) {
            const orr_tree *item = orr_tree_at(node, i);
            orr_text_add(&text, i > 0 ? " " : "");
            if (orr_tree_kind_of(item) == ORR_TREE_INT) {
                orr_text_format(&text, "%lld", (long long)orr_tree_int(item, 0));
            } else {
                orr_text_add(&text, orr_tree_text(item, "?"));
            }
        }
        one.value = orr_text_done(&text);
        break;
    case ORR_TREE_MAP: return;
    }
    orr_settings_add(arena, list, one);
}

/* ---- formats -------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Files that a script sources, looked for beside it and nowhere else. */
typedef struct neighbours {
    orr_arena *arena;
    const char *folder;
} neighbours;

static const char *load_neighbour(void *user, const char *name, bool complete, size_t *length) {
    const neighbours *n = (const neighbours *)user;
    (void)complete;
    char *text;
    orr_err ignored = {0};
    if (name[0] == '/' || strstr(name, "..") != NULL || strlen(name) > 200) {
        return NULL;
    }
    const char *path = orr_arena_format(n->arena, "%s/%s", n->folder, name);
    return orr_file_read(n->arena, path, &text, length, &ignored) == ORR_OK ? text : NULL;
}

static orr_status import_shell(orr_arena *arena, const char *name, bool follow, const char *text,
                               size_t length, orr_import *out, orr_err *err) {
    importer im = orr_import_start(arena, name);
    slurm_header header = orr_slurm_read(arena, text, length);
    orr_shell_given given[8];
    const char *slash = name != NULL ? strrchr(name, '/') : NULL;
    neighbours beside = {
        .arena = arena,
        .folder = slash == NULL ? "." : orr_arena_copy(arena, name, (size_t)(slash - name))};
    orr_shell_options options = {.name = im.file,
                                 .given = given,
                                 .given_count = orr_slurm_variables(arena, &header, given),
                                 .load = follow ? load_neighbour : NULL,
                                 .user = &beside};
    orr_shell shell;
    ORR_TRY(orr_shell_read(arena, &options, text, length, &shell, err));
    launch found = orr_launch_find(&im, &shell, orr_megatron_knows, 2);
    if (found.command == NULL) {
        (void)orr_fail_at(err, ORR_E_SYNTAX, (orr_span){.file = name},
                          "no command with Megatron-LM arguments was found in this script");
        orr_hint(err, "a plan file (YAML or JSON of plan keys), or a script that runs "
                      "pretrain_gpt.py with its arguments, is expected");
        return ORR_E_SYNTAX;
    }
    for (size_t i = 0; i < shell.note_count; i++) {
        orr_import_warn(&im, shell.note[i].line, "%s", shell.note[i].text);
    }
    if (found.command->undecided) {
        orr_import_warn(&im, found.command->line,
                        "the launch stands in a branch that the script alone does not decide");
    }
    orr_launch_keys(&im, &found, &header);
    settings list = {0};
    orr_megatron_words(&im, &found, &list);
    megatron_ground ground = {.model_name = orr_import_stem(arena, name),
                              .program = found.program,
                              .program_line = found.command->line,
                              .gpus = (uint32_t)orr_tree_int(orr_tree_get(im.keys, "gpus"), 0)};
    orr_megatron_keys(&im, &list, &ground);
    orr_import_finish(&im, "megatron-script", out);
    return ORR_OK;
}

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

static orr_status import_megatron_file(orr_arena *arena, const char *name, const orr_tree *tree,
                                       orr_import *out) {
    importer im = orr_import_start(arena, name);
    settings list = {0};
    for (size_t i = 0; i < orr_tree_size(tree); i++) {
        const orr_tree *node = orr_tree_at(tree, i);
        if (orr_tree_kind_of(node) == ORR_TREE_MAP) {
            for (size_t k = 0; k < orr_tree_size(node); k++) { /* sections of a YAML file */
                orr_settings_add_node(arena, &list, orr_tree_key(node, k), orr_tree_at(node, k));
            }
        } else {
            orr_settings_add_node(arena, &list, orr_tree_key(tree, i), node);
        }
    }
    orr_megatron_keys(&im, &list, &(megatron_ground){.model_name = orr_import_stem(arena, name)});
    orr_import_finish(&im, "megatron-yaml", out);
    return ORR_OK;
}

static bool looks_like_shell(const char *name, const char *text, size_t length) {
    if (name != NULL && (ends_with(name, ".sh") || ends_with(name, ".bash") ||
                         ends_with(name, ".slurm") || ends_with(name, ".sbatch"))) {
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

/* follow: files that this one names may be read. */
static orr_status import_any(orr_arena *arena, const char *name, bool follow, const char *text,
                             size_t length, orr_import *out, orr_err *err) {
    if (length > ORR_DOC_MAX_BYTES) {
        return orr_fail(err, ORR_E_LIMIT, "an input of %zu bytes is too large: at most %d", length,
                        (int)ORR_DOC_MAX_BYTES);
    }
    char *copy = orr_arena_copy(arena, text, length); /* terminated */
    bool document = name != NULL && (ends_with(name, ".yaml") || ends_with(name, ".yml") ||
                                     ends_with(name, ".json") || ends_with(name, ".toml"));
    if (!document && looks_like_shell(name, copy, length)) {
        return import_shell(arena, name, follow, copy, length, out, err);
    }
    orr_tree *tree;
    bool toml = name != NULL && ends_with(name, ".toml");
    ORR_TRY(toml ? orr_toml_read(arena, name, copy, length, &tree, err)
                 : orr_doc_read(arena, name, copy, length, &tree, err));
    if (orr_tree_kind_of(tree) != ORR_TREE_MAP) {
        (void)orr_fail_at(err, ORR_E_SYNTAX, (orr_span){.file = name, .line = 1, .column = 1},
                          "this is neither a map of plan keys nor a launch script");
        orr_hint(err, "a plan file (YAML or JSON of plan keys) or a shell script that runs "
                      "Megatron-LM is expected");
        return ORR_E_SYNTAX;
    }
    if (orr_primus_is(tree)) {
        importer im = orr_import_start(arena, name);
        ORR_TRY(orr_primus_import(&im, tree, follow ? name : NULL, err));
        orr_import_finish(&im, "primus", out);
        return ORR_OK;
    }
    const foreign_format *foreign = orr_foreign_find(tree);
    if (foreign != NULL) {
        importer im = orr_import_start(arena, name);
        orr_foreign_import(&im, foreign, tree);
        orr_import_finish(&im, foreign->name, out);
        return ORR_OK;
    }
    if (is_megatron_file(tree)) {
        return import_megatron_file(arena, name, tree, out);
    }
    if (toml) {
        (void)orr_fail_at(err, ORR_E_SCHEMA, (orr_span){.file = name, .line = 1},
                          "this TOML file is not a TorchTitan configuration, the only kind that is "
                          "read");
        return ORR_E_SCHEMA;
    }
    return import_plan(arena, name, tree, out);
}

orr_status orr_import_text(orr_arena *arena, const char *name, const char *text, size_t length,
                           orr_import *out, orr_err *err) {
    return import_any(arena, name, false, text, length, out, err);
}

orr_status orr_import_file(orr_arena *arena, const char *path, orr_import *out, orr_err *err) {
    char *text;
    size_t length;
    ORR_TRY(orr_file_read(arena, path, &text, &length, err));
    return import_any(arena, path, true, text, length, out, err);
}
