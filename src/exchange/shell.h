/* Reads a shell script for what it would launch, and runs nothing.
 *
 * Variables, arrays, quotes, arithmetic and the usual expansions are followed in the order of the
 * text; conditions are decided where the script alone decides them. What only a run could tell (a
 * command's output, the environment, an argument) is an unknown value: it is carried with its
 * source, and whatever depends on it is unknown too, never a number. A value that hangs on a
 * fallback (${X:-8}) or on a branch that the text does not decide says so. Loop and function bodies
 * are read once, where they stand. Not read: other files, here-documents. */
#ifndef ORR_EXCHANGE_SHELL_H
#define ORR_EXCHANGE_SHELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "orrery/status.h"

enum {
    ORR_SHELL_MAX_BYTES = 1 << 20,     /* one script */
    ORR_SHELL_MAX_EXPANSION = 8 << 20, /* bytes of all expansions together */
    ORR_SHELL_MAX_DEPTH = 48,          /* nested constructs */
    ORR_SHELL_MAX_WORDS = 1 << 18      /* of all commands together */
};

typedef struct orr_shell_word {
    const char *text;    /* expanded; an unknown part stands as its source */
    const char *unknown; /* the source it depends on that only a run could tell, or NULL */
    const char *assumed; /* the fallback or undecided branch it depends on, or NULL */
    uint32_t line;
} orr_shell_word;

typedef struct orr_shell_command {
    const orr_shell_word *word;
    size_t count; /* at least 1 */
    uint32_t line;
    bool undecided; /* stands in a branch that the text does not decide */
} orr_shell_command;

typedef struct orr_shell_note {
    uint32_t line;
    const char *text; /* one sentence: what was not followed */
} orr_shell_note;

/* A variable that is set before the first line. */
typedef struct orr_shell_given {
    const char *name, *value;
} orr_shell_given;

/* A variable at the end of the script. */
typedef struct orr_shell_variable {
    const char *name;
    const orr_shell_word *word; /* split at blanks, as an unquoted use would be */
    size_t count;
} orr_shell_variable;

/* Text of a file that the script sources, NULL when it cannot be had. complete: the name is known
 * whole, else it is what follows a part that only a run could tell. */
typedef const char *(*orr_shell_load_fn)(void *user, const char *name, bool complete,
                                         size_t *length);

/* Everything but the text; zero-initialised: nothing given, no files. */
typedef struct orr_shell_options {
    const char *name; /* serves messages; may be NULL */
    const orr_shell_given *given;
    size_t given_count;
    orr_shell_load_fn load; /* NULL: no file is read */
    void *user;
} orr_shell_options;

typedef struct orr_shell {
    const orr_shell_command *command; /* in order; assignments and tests are not among them */
    size_t command_count;
    const orr_shell_note *note;
    size_t note_count;
    const orr_shell_variable *variable; /* in order of their first assignment */
    size_t variable_count;
} orr_shell;

/* options may be NULL. ORR_E_SYNTAX: a quote or bracket that is never closed;
 * ORR_E_LIMIT: see above. */
orr_status orr_shell_read(orr_arena *arena, const orr_shell_options *options, const char *text,
                          size_t length, orr_shell *out, orr_err *err);

/* Shell pattern (* ? and [sets]) against a whole text; bounded work. */
bool orr_shell_match(const char *pattern, const char *text);

#endif
