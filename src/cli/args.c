#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static orr_status usage(orr_err *err, const char *what, const char *problem, const char *hint) {
    err->status = ORR_E_USAGE;
    (void)snprintf(err->message, sizeof err->message, "'%s' %s", what, problem);
    (void)snprintf(err->hint, sizeof err->hint, "%s", hint);
    return ORR_E_USAGE;
}

/* What is wrong with a flag, by the name that a command line writes. */
static orr_status usage_of(orr_err *err, const char *key, const char *problem, const char *hint) {
    char name[68] = "--";
    size_t n = 2;
    for (; *key != '\0' && n + 1 < sizeof name; key++) {
        name[n++] = *key == '_' ? '-' : *key;
    }
    name[n] = '\0';
    return usage(err, name, problem, hint);
}

const orr_tree *cli_find_command(const cli *self, const char *name) {
    for (size_t i = 0; i < orr_tree_size(self->commands); i++) {
        const orr_tree *command = orr_tree_at(self->commands, i);
        if (strcmp(orr_tree_text(orr_tree_get(command, "name"), ""), name) == 0) {
            return command;
        }
    }
    return NULL;
}

/* The command's name: two words where they make one ("model show"), else the first. */
static int command_words(const cli *self, int argc, char **argv, char *name, size_t size) {
    if (argc >= 2) {
        (void)snprintf(name, size, "%s %s", argv[0], argv[1]);
        if (cli_find_command(self, name) != NULL) {
            return 2;
        }
    }
    (void)snprintf(name, size, "%s", argv[0]);
    return 1;
}

static const orr_tree *find_field(const orr_tree *command, const char *key) {
    const orr_tree *fields = orr_tree_get(command, "fields");
    for (size_t i = 0; i < orr_tree_size(fields); i++) {
        const orr_tree *field = orr_tree_at(fields, i);
        if (strcmp(orr_tree_text(orr_tree_get(field, "name"), ""), key) == 0) {
            return field;
        }
    }
    return NULL;
}

static const char *next_positional(const orr_tree *command, const orr_tree *args) {
    const orr_tree *fields = orr_tree_get(command, "fields");
    for (size_t i = 0; i < orr_tree_size(fields); i++) {
        const orr_tree *field = orr_tree_at(fields, i);
        const char *name = orr_tree_text(orr_tree_get(field, "name"), "");
        if (orr_tree_bool(orr_tree_get(field, "positional"), false) &&
            (orr_tree_get(args, name) == NULL ||
             orr_tree_bool(orr_tree_get(field, "repeat"), false))) {
            return name;
        }
    }
    return NULL;
}

typedef struct flag {
    char key[64];      /* with '_' for '-' */
    const char *value; /* after '=', or NULL */
} flag;

static bool split_flag(const char *text, flag *out) {
    const char *equals = strchr(text, '=');
    size_t length = equals == NULL ? strlen(text) : (size_t)(equals - text);
    if (length == 0 || length >= sizeof out->key) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        out->key[i] = text[i] == '-' ? '_' : text[i];
    }
    out->key[length] = '\0';
    out->value = equals == NULL ? NULL : equals + 1;
    return true;
}

static bool read_color(const char *value, cli_color *out) {
    static const char *const names[] = {"auto", "always", "never"};
    for (int i = 0; i < 3; i++) {
        if (value != NULL && strcmp(value, names[i]) == 0) {
            *out = (cli_color)i;
            return true;
        }
    }
    return false;
}

enum { LEAST_WIDTH = 40, MOST_WIDTH = 400 };

static bool read_width(const char *value, uint32_t *out) {
    char *end = NULL;
    long width = value == NULL ? 0 : strtol(value, &end, 10);
    if (value == NULL || value[0] < '0' || value[0] > '9' || *end != '\0') {
        return false;
    }
    *out = width < LEAST_WIDTH ? LEAST_WIDTH : width > MOST_WIDTH ? MOST_WIDTH : (uint32_t)width;
    return true;
}

/* Options of the front end itself; true when the flag was one. *wrong: what its value should be. */
static bool global_flag(cli_options *options, const flag *f, const char *value, bool *used_value,
                        const char **wrong) {
    *used_value = false;
    *wrong = NULL;
    if (strcmp(f->key, "json") == 0) {
        options->json = true;
    } else if (strcmp(f->key, "ascii") == 0) {
        options->ascii = true;
    } else if (strcmp(f->key, "quiet") == 0) {
        options->quiet = true;
    } else if (strcmp(f->key, "verbose") == 0) {
        options->verbose = true;
    } else if (strcmp(f->key, "help") == 0) {
        options->help = true;
    } else if (strcmp(f->key, "version") == 0) {
        options->version = true;
    } else if (strcmp(f->key, "color") == 0) {
        *used_value = true;
        if (!read_color(value, &options->color)) {
            *wrong = "takes auto, always or never";
        }
    } else if (strcmp(f->key, "width") == 0) {
        *used_value = true;
        if (!read_width(value, &options->width)) {
            *wrong = "takes a number of columns, such as --width 120";
        }
    } else if (strcmp(f->key, "output") == 0) {
        *used_value = true;
        options->output = value;
        if (value == NULL || value[0] == '\0') {
            *wrong = "takes the path of a file";
        }
    } else {
        return false;
    }
    return true;
}

static bool short_flag(cli_options *options, char letter) {
    switch (letter) {
    case 'h': options->help = true; return true;
    case 'q': options->quiet = true; return true;
    case 'v': options->verbose = true; return true;
    case 'V': options->version = true; return true;
    default: return false;
    }
}

static bool is_switch(const orr_tree *field) {
    return field != NULL && strcmp(orr_tree_text(orr_tree_get(field, "type"), ""), "bool") == 0;
}

/* A switch takes the next word only when that says on or off. */
static bool is_switch_value(const char *text) {
    static const char *const words[] = {"on", "off", "true", "false", "yes", "no"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Values of an option that may be given several times become a list. */
static void repeat_argument(cli *self, orr_tree *args, const char *key, const char *value) {
    const orr_tree *before = orr_tree_get(args, key);
    orr_tree *list =
        before == NULL ? orr_tree_new_list(self->arena) : orr_tree_copy(self->arena, before);
    orr_tree_push(self->arena, list, orr_tree_new_text(self->arena, value));
    orr_tree_put(self->arena, args, key, list);
}

static orr_status put_argument(cli *self, orr_tree *args, const char *key, const char *value,
                               orr_err *err) {
    if (orr_tree_get(args, key) != NULL) {
        return usage_of(err, key, "is given twice",
                        "where it takes several values, they are joined by commas");
    }
    orr_tree_put_text(self->arena, args, key, value);
    return ORR_OK;
}

/* One flag of the command; *index moves past the value it takes. */
static orr_status command_flag(cli *self, const orr_tree *command, orr_tree *args, const flag *f,
                               int argc, char **argv, int *index, orr_err *err) {
    const char *key = f->key, *value = f->value;
    const orr_tree *field = find_field(command, key);
    if (field == NULL && strncmp(key, "no_", 3) == 0 && is_switch(find_field(command, key + 3))) {
        return put_argument(self, args, key + 3, "false", err);
    }
    if (value == NULL && is_switch(field) &&
        (*index + 1 >= argc || !is_switch_value(argv[*index + 1]))) {
        value = "true";
    }
    if (value == NULL) {
        if (*index + 1 >= argc) {
            /* An unknown flag is the better message: the call knows the nearest name. */
            if (field == NULL) {
                return put_argument(self, args, key, "", err);
            }
            return usage_of(err, key, "needs a value", "give it as --flag VALUE or --flag=VALUE");
        }
        value = argv[++*index];
    }
    if (orr_tree_bool(orr_tree_get(field, "repeat"), false)) {
        repeat_argument(self, args, key, value);
        return ORR_OK;
    }
    return put_argument(self, args, key, value, err);
}

static orr_status positional(cli *self, const orr_tree *command, orr_tree *args, const char *text,
                             orr_err *err) {
    const char *key = next_positional(command, args);
    if (key == NULL) {
        return usage(err, text, "is one argument too many",
                     "options start with --; a file or name is given once; several files of one "
                     "option are joined by commas");
    }
    if (orr_tree_bool(orr_tree_get(find_field(command, key), "repeat"), false)) {
        repeat_argument(self, args, key, text);
        return ORR_OK;
    }
    orr_tree_put_text(self->arena, args, key, text);
    return ORR_OK;
}

static orr_status parse_one(cli *self, const orr_tree *command, orr_tree *args, int argc,
                            char **argv, int *index, orr_err *err) {
    const char *text = argv[*index];
    if (text[0] != '-' || text[1] == '\0') {
        return positional(self, command, args, text, err);
    }
    if (text[1] != '-') {
        if (text[1] == 'o' && *index + 1 < argc && text[2] == '\0') {
            self->options.output = argv[++*index];
            return ORR_OK;
        }
        if (text[2] != '\0' || !short_flag(&self->options, text[1])) {
            return usage(err, text, "is no option", "see --help");
        }
        return ORR_OK;
    }
    flag f;
    if (!split_flag(text + 2, &f)) {
        return usage(err, text, "is no option", "see --help");
    }
    const char *value = f.value != NULL ? f.value : *index + 1 < argc ? argv[*index + 1] : NULL;
    bool used_value;
    const char *wrong;
    if (global_flag(&self->options, &f, value, &used_value, &wrong)) {
        *index += used_value && f.value == NULL ? 1 : 0;
        return wrong == NULL ? ORR_OK : usage(err, text, wrong, "see --help");
    }
    return command_flag(self, command, args, &f, argc, argv, index, err);
}

/* For help and mcp: options of the front end, and for help a topic of one or two words. */
static orr_status parse_words(cli *self, int argc, char **argv, orr_tree *args, orr_err *err) {
    char *word[2] = {NULL, NULL};
    int words = 0;
    for (int i = 0; i < argc; i++) {
        if (argv[i][0] == '-') {
            orr_status status = parse_one(self, NULL, args, argc, argv, &i, err);
            if (status != ORR_OK) {
                return status;
            }
            if (orr_tree_size(args) > 0) {
                return usage(err, argv[i], "is no option here", "see 'orrery help'");
            }
        } else if (words == 2) {
            return usage(err, argv[i], "is one argument too many", "help takes one topic");
        } else {
            word[words++] = argv[i];
        }
    }
    if (words > 0) {
        char topic[128];
        if (command_words(self, words, word, topic, sizeof topic) < words) {
            return usage(err, word[1], "is one argument too many", "help takes one topic");
        }
        orr_tree_put_text(self->arena, args, "topic", topic);
    }
    return ORR_OK;
}

orr_status cli_parse(cli *self, int argc, char **argv, const char **command, orr_tree **args,
                     orr_err *err) {
    static char name[128];
    *command = NULL;
    *args = orr_tree_new_map(self->arena);
    int index = 1;
    const orr_tree *entry = NULL;
    if (index < argc && argv[index][0] != '-') {
        index += command_words(self, argc - index, argv + index, name, sizeof name);
        *command = name;
        entry = cli_find_command(self, name);
    }
    if (*command != NULL && entry == NULL) { /* an unknown one is reported by the call */
        bool own = strcmp(name, "help") == 0 || strcmp(name, "mcp") == 0;
        return own ? parse_words(self, argc - index, argv + index, *args, err) : ORR_OK;
    }
    bool literal = false;
    for (; index < argc; index++) {
        if (!literal && strcmp(argv[index], "--") == 0) {
            literal = true;
            continue;
        }
        orr_status status = literal ? positional(self, entry, *args, argv[index], err)
                                    : parse_one(self, entry, *args, argc, argv, &index, err);
        if (status != ORR_OK) {
            return status;
        }
    }
    return ORR_OK;
}
