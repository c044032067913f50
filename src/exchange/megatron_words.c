/* A Megatron-LM command line taken apart as argparse would. */
#include <string.h>

#include "exchange/exchange_int.h"

static bool is_option(const char *word) {
    return word[0] == '-' && word[1] == '-' && word[2] != '\0';
}

/* How many values an option takes: 0, 1 or n; '?' when nobody knows. */
static char arity_of(const char *name) {
    const megatron_arg *arg = orr_megatron_find(name);
    if (arg != NULL) {
        return arg->kind == MEGATRON_FLAG ? '0' : arg->kind == MEGATRON_LIST ? 'n' : '1';
    }
    char arity = '?';
    bool matters;
    (void)orr_megatron_other(name, &arity, &matters);
    return arity;
}

/* A word that is nothing but unknown: behind a first value it may as well hold options. */
static bool is_open(const orr_shell_word *word) {
    return word->unknown != NULL && strcmp(word->text, word->unknown) == 0;
}

static void join(orr_text *text, setting *one, const orr_shell_word *word) {
    orr_text_add(text, text->length > 0 ? " " : "");
    orr_text_add(text, word->text);
    one->unknown = one->unknown != NULL ? one->unknown : word->unknown;
    one->assumed = one->assumed != NULL ? one->assumed : word->assumed;
}

void orr_megatron_words(importer *im, const launch *found, settings *out) {
    const orr_shell_command *command = found->command;
    for (size_t i = found->script; i < command->count;) {
        const orr_shell_word *word = &command->word[i++];
        if (!is_option(word->text)) {
            if (word->unknown != NULL) {
                orr_import_unknown(im, word->unknown, word->line, true,
                                   "it may hold further arguments");
            }
            continue;
        }
        const char *equals = strchr(word->text, '=');
        size_t length = equals != NULL ? (size_t)(equals - word->text) : strlen(word->text);
        setting one = {.name = orr_arena_copy(im->arena, word->text + 2, length - 2),
                       .line = word->line,
                       .unknown = equals != NULL ? word->unknown : NULL,
                       .assumed = word->assumed};
        char arity = arity_of(one.name);
        orr_text value = orr_text_new(im->arena, 1 << 16);
        if (equals != NULL) {
            one.value = equals + 1;
        } else if (arity != '0') {
            size_t taken = 0;
            while (i < command->count && !is_option(command->word[i].text) &&
                   (taken == 0 || (arity != '1' && !is_open(&command->word[i])))) {
                join(&value, &one, &command->word[i++]);
                taken++;
            }
            one.value = taken > 0 ? orr_text_done(&value) : NULL;
        }
        orr_settings_add(im->arena, out, one);
    }
}
