/* Launch scripts: Megatron-LM's arguments in them, or the configuration files that they name with
 * the settings that they give beside those. Parsed, never executed (shell.h). */
#include <string.h>

#include "base/err.h"
#include "doc/doc.h"
#include "exchange/dialect.h"
#include "exchange/exchange_int.h"
#include "exchange/foreign.h"

enum { MAX_DOCUMENTS = 8, MAX_UP = 3 };

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

/* ---- configuration files that a script names ------------------------------------------------- */

typedef struct documents {
    const char *name[MAX_DOCUMENTS]; /* as the script has it */
    const char *path[MAX_DOCUMENTS];
    orr_tree *tree[MAX_DOCUMENTS];
    uint32_t line[MAX_DOCUMENTS];
    size_t count;
} documents;

/* A file that the script names, looked for beside it and in the folders above; never elsewhere. */
static orr_tree *find_document(const import_request *r, orr_arena *arena, const char *name,
                               const char **path) {
    if (!r->follow || name[0] == '/' || strstr(name, "..") != NULL || strlen(name) > 200) {
        return NULL;
    }
    const char *slash = r->name != NULL ? strrchr(r->name, '/') : NULL;
    const char *folder =
        slash == NULL ? "." : orr_arena_copy(arena, r->name, (size_t)(slash - r->name));
    for (int up = 0; up <= MAX_UP; up++) {
        char *text;
        size_t length;
        orr_tree *tree;
        orr_err ignored = {0};
        *path = orr_arena_format(arena, "%s/%s", folder, name);
        if (orr_file_read(arena, *path, &text, &length, &ignored) == ORR_OK) {
            bool read = orr_format_read(arena, *path, text, length, &tree, &ignored) == ORR_OK;
            return read && orr_tree_kind_of(tree) == ORR_TREE_MAP ? tree : NULL;
        }
        folder = orr_arena_format(arena, "%s/..", folder);
    }
    return NULL;
}

static orr_tree *value_of(orr_arena *arena, const char *text, uint32_t line) {
    int64_t number;
    double real;
    orr_tree *node = orr_name_equal(text, "true") || orr_name_equal(text, "false")
                         ? orr_tree_new_bool(arena, text[0] == 't' || text[0] == 'T')
                     : orr_parse_int(text, &number) ? orr_tree_new_int(arena, number)
                     : orr_parse_real(text, &real)  ? orr_tree_new_real(arena, real)
                                                    : orr_tree_new_text(arena, text);
    orr_tree_set_span(node, (orr_span){.line = line});
    return node;
}

/* A file that was read, or one that was named and is not at hand: no setting of its own. */
static bool is_found(const documents *found, const char *value) {
    for (size_t i = 0; found != NULL && i < found->count; i++) {
        if (strcmp(found->name[i], value) == 0) {
            return true;
        }
    }
    return false;
}

/* A name of a setting: letters, digits, "_", "-" and dots between them. */
static bool is_name(const char *text, size_t length) {
    bool dot = true;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || c == '-';
        if (!word && (c != '.' || dot)) {
            return false;
        }
        dot = c == '.';
    }
    return length > 0 && length < 100 && !dot;
}

static const char *underscored(orr_arena *arena, const char *text, size_t length) {
    char *copy = orr_arena_copy(arena, text, length);
    for (char *p = copy; *p != '\0'; p++) {
        *p = *p == '-' ? '_' : *p;
    }
    return copy;
}

/* "--name value", "--name=value", "--name" and Hydra's "a.b=value" as a tree. */
static orr_tree *settings_of(importer *im, const orr_shell_command *command, size_t from,
                             const documents *found) {
    orr_tree *map = orr_tree_new_map(im->arena);
    for (size_t i = from; i < command->count; i++) {
        const orr_shell_word *word = &command->word[i];
        const char *text = word->text;
        bool option = text[0] == '-' && text[1] == '-';
        text += option ? 2 : 0;
        size_t length = strcspn(text, "=");
        bool equals = text[length] == '=';
        if (!is_name(text, length) || (!option && !equals)) {
            continue;
        }
        const char *name = underscored(im->arena, text, length);
        const char *unknown = word->unknown, *value = equals ? text + length + 1 : "true";
        if (option && !equals && i + 1 < command->count && command->word[i + 1].text[0] != '-') {
            value = command->word[++i].text;
            unknown = command->word[i].unknown;
        }
        if (unknown != NULL) {
            orr_import_depends(im, name, word->line, NULL, unknown);
            continue;
        }
        if (!is_found(found, value)) {
            orr_tree_set_path(im->arena, map, name, value_of(im->arena, value, word->line));
        }
    }
    return map;
}

static orr_tree *over(orr_arena *arena, const orr_tree *under, const orr_tree *map) {
    orr_tree *out = orr_tree_copy(arena, under);
    for (size_t i = 0; i < orr_tree_size(map); i++) {
        const char *key = orr_tree_key(map, i);
        const orr_tree *own = orr_tree_at(map, i), *old = orr_tree_get(out, key);
        bool both = orr_tree_kind_of(own) == ORR_TREE_MAP && orr_tree_kind_of(old) == ORR_TREE_MAP;
        orr_tree_put(arena, out, key, both ? over(arena, old, own) : orr_tree_copy(arena, own));
    }
    return out;
}

static void gather(importer *im, const import_request *r, const orr_shell_command *command,
                   documents *found) {
    for (size_t i = 0; i < command->count; i++) {
        const orr_shell_word *word = &command->word[i];
        const char *equals = strchr(word->text, '=');
        const char *name = equals != NULL ? equals + 1 : word->text;
        const char *path;
        if (!orr_format_is_document(name) || found->count == MAX_DOCUMENTS) {
            continue;
        }
        if (word->unknown != NULL) {
            orr_import_unknown(im, name, word->line, true,
                               "the file's name is known to a run only");
            continue;
        }
        orr_tree *tree = find_document(r, im->arena, name, &path);
        if (tree == NULL) {
            orr_import_unknown(im, name, word->line, true,
                               "this configuration file is not at hand; import it beside the "
                               "script");
            continue;
        }
        found->name[found->count] = name;
        found->path[found->count] = path;
        found->tree[found->count] = tree;
        found->line[found->count++] = word->line;
    }
}

/* A trainer's file speaks last: launchers' leave more open. */
static bool is_of_launcher(const orr_tree *tree) {
    const foreign_format *format = orr_foreign_find(tree);
    return format == &orr_foreign_accelerate || format == &orr_foreign_deepspeed;
}

/* What one file left open and another says is settled. */
static orr_tree *still_open(importer *im, const orr_tree *list) {
    orr_tree *out = orr_tree_new_list(im->arena);
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const char *key = orr_tree_text(orr_tree_get(orr_tree_at(list, i), "key"), "");
        if (key[0] == '\0' || orr_tree_get(im->keys, key) == NULL) {
            orr_tree_push(im->arena, out, orr_tree_copy(im->arena, orr_tree_at(list, i)));
        }
    }
    return out;
}

/* What one file assumed and another says otherwise is not assumed. */
static orr_tree *still_true(importer *im, const orr_tree *list) {
    orr_tree *out = orr_tree_new_list(im->arena);
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        const orr_tree *now = orr_tree_get(im->keys, orr_tree_text(orr_tree_get(one, "key"), ""));
        const char *value = orr_tree_scalar(im->arena, now);
        if (value[0] == '\0' || strcmp(value, orr_tree_text(orr_tree_get(one, "value"), "")) == 0) {
            orr_tree_push(im->arena, out, orr_tree_copy(im->arena, one));
        }
    }
    return out;
}

static void add_format(orr_text *names, const char *format) {
    orr_text_format(names, "%s%s", names->length > 0 ? "+" : "", format);
}

static orr_status import_documents(importer *im, const import_request *r, const documents *found,
                                   const orr_tree *own, orr_text *names, orr_err *err) {
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < found->count; i++) {
            if (is_of_launcher(found->tree[i]) != (pass == 0)) {
                continue;
            }
            const orr_tree *tree =
                pass == 0 ? found->tree[i] : over(im->arena, found->tree[i], own);
            const char *format;
            import_request one = {.name = found->path[i], .release = r->release, .follow = true};
            im->file = found->path[i];
            ORR_TRY(orr_format_import(im, &one, tree, &format, err));
            if (format != NULL) {
                add_format(names, format);
            } else {
                orr_import_unknown(im, found->path[i], found->line[i], true,
                                   "this file is of no format that is known");
            }
        }
    }
    return ORR_OK;
}

static bool is_known(const orr_tree *tree) {
    return orr_foreign_find(tree) != NULL || orr_dialect_find(tree) != NULL;
}

/* The first word behind the program. */
static size_t first_of(importer *im, const orr_shell_command *command) {
    launch found = orr_launch_of(im, command);
    return found.script > 0 ? found.script : 1;
}

/* The command that names most files, or whose options are settings of a known format. */
static const orr_shell_command *pick(importer *im, const orr_shell *shell) {
    const orr_shell_command *best = NULL;
    size_t most = 0;
    for (size_t i = 0; i < shell->command_count; i++) {
        const orr_shell_command *command = &shell->command[i];
        size_t score = 0;
        for (size_t k = 1; k < command->count; k++) {
            const char *text = command->word[k].text, *equals = strchr(text, '=');
            score += 4 * orr_format_is_document(equals != NULL ? equals + 1 : text);
        }
        score += is_known(settings_of(im, command, first_of(im, command), NULL)) ? 8 : 0;
        if (score > most && !orr_launch_prints(command)) {
            most = score;
            best = command;
        }
    }
    return best;
}

static orr_status no_training(const import_request *r, orr_err *err) {
    (void)orr_fail_at(err, ORR_E_SYNTAX, (orr_span){.file = r->name},
                      "this script starts no training that is known: no Megatron-LM arguments, and "
                      "no configuration file beside it");
    orr_hint(err, "a script that runs pretrain_gpt.py with its arguments is expected, one that "
                  "names a configuration file, or a plan file (docs/importing.md)");
    return ORR_E_SYNTAX;
}

static orr_status by_documents(importer *im, const import_request *r, const orr_shell *shell,
                               const slurm_header *header, orr_import *out, orr_err *err) {
    importer scratch = orr_import_start(im->arena, NULL);
    const orr_shell_command *command = pick(&scratch, shell);
    if (command == NULL) {
        return no_training(r, err);
    }
    documents found = {0};
    launch started = orr_launch_of(im, command);
    orr_text names = orr_text_new(im->arena, 256);
    gather(im, r, command, &found);
    const orr_tree *own = settings_of(im, command, started.script > 0 ? started.script : 1, &found);
    if (found.count == 0 && !is_known(own)) {
        return no_training(r, err);
    }
    ORR_TRY(import_documents(im, r, &found, own, &names, err));
    if (is_known(own)) {
        const char *format;
        im->file = r->name;
        ORR_TRY(orr_format_import(im, r, own, &format, err));
        add_format(&names, format != NULL ? format : "script");
    }
    im->file = r->name;
    for (size_t i = 0; i < shell->note_count; i++) {
        orr_import_warn(im, shell->note[i].line, "%s", shell->note[i].text);
    }
    if (started.launcher || header->line > 0) {
        const orr_tree *before = orr_tree_get(im->keys, "gpus");
        int64_t stated = orr_tree_int(before, 0);
        orr_launch_keys(im, &started, header);
        int64_t now = orr_tree_int(orr_tree_get(im->keys, "gpus"), 0);
        if (stated > 0 && now > 0 && stated != now) {
            orr_import_warn(im, command->line,
                            "a configuration file is for %lld GPUs, the launcher starts %lld",
                            (long long)stated, (long long)now);
        }
    }
    orr_foreign_ask(im);
    im->assumed = still_true(im, im->assumed);
    im->unknown = still_open(im, im->unknown);
    im->warnings = still_open(im, im->warnings);
    orr_import_finish(im, names.length > 0 ? orr_text_done(&names) : "script", out);
    return ORR_OK;
}

/* ---- scripts -------------------------------------------------------------------------------- */

/* What Transformer Engine reads from its environment (its envvars.rst). */
static void take_environment(importer *im, const orr_shell *shell) {
    for (size_t i = 0; i < shell->variable_count; i++) {
        const orr_shell_variable *v = &shell->variable[i];
        if (strcmp(v->name, "NVTE_FP8_DPA_BWD") == 0 && v->count == 1 &&
            strcmp(v->word[0].text, "0") == 0 && orr_tree_get(im->keys, "fp8_attention") != NULL) {
            orr_import_put(im, "fp8_attention_backward", orr_tree_new_bool(im->arena, false),
                           v->word[0].line);
        }
    }
}

orr_status orr_script_import(orr_arena *arena, const import_request *r, const char *text,
                             size_t length, orr_import *out, orr_err *err) {
    const char *name = r->name;
    importer im = orr_import_begin(arena, r);
    slurm_header header = orr_slurm_read(arena, text, length);
    orr_shell_given given[8];
    const char *slash = name != NULL ? strrchr(name, '/') : NULL;
    neighbours beside = {
        .arena = arena,
        .folder = slash == NULL ? "." : orr_arena_copy(arena, name, (size_t)(slash - name))};
    orr_shell_options options = {.name = im.file,
                                 .given = given,
                                 .given_count = orr_slurm_variables(arena, &header, given),
                                 .load = r->follow ? load_neighbour : NULL,
                                 .user = &beside};
    orr_shell shell;
    ORR_TRY(orr_shell_read(arena, &options, text, length, &shell, err));
    launch found = orr_launch_find(&im, &shell, orr_megatron_knows, 2);
    if (found.command == NULL) {
        return by_documents(&im, r, &shell, &header, out, err);
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
    take_environment(&im, &shell);
    orr_import_finish(&im, "megatron-script", out);
    return ORR_OK;
}
