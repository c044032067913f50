/* Foreign configurations in and out. An importer is a table from foreign names to plan keys;
 * nothing is ever executed. */
#ifndef ORR_EXCHANGE_H
#define ORR_EXCHANGE_H

#include "base/arena.h"
#include "orrery/status.h"
#include "orrery/tree.h"

/* What an importer understood. */
typedef struct orr_import {
    const char *format;      /* "megatron-script", "plan" ... */
    const orr_tree *keys;    /* plan keys, with spans into the file; "model" may be an inline map */
    const orr_tree *assumed; /* list of {key, value, why} */
    /* List of {name, line, matters, why, key}: matters when it may change speed or memory; why is
     * absent for a name that is simply not known; key, if there, is the plan key that it would have
     * decided, and that settles it when stated elsewhere. */
    const orr_tree *unknown;
    /* List of {line, message, key, refused}: what was not followed, is not known, or contradicts;
     * key as above; refused, if there: the framework stops at launch because of it. */
    const orr_tree *warnings;
    const orr_tree *stated; /* list of {name, canonical, value, line}: settings as they stand */
} orr_import;

/* Detects the format by content and name and reads it: an own plan file (YAML or JSON of plan
 * keys), a launch script, or a framework's configuration (docs/importing.md). `release` is that of
 * the framework, for defaults that changed; NULL: the newest. */
orr_status orr_import_text(orr_arena *arena, const char *name, const char *text, size_t length,
                           orr_import *out, orr_err *err);
orr_status orr_import_file(orr_arena *arena, const char *path, orr_import *out, orr_err *err);
orr_status orr_import_file_of(orr_arena *arena, const char *path, const char *release,
                              orr_import *out, orr_err *err);

/* A plan in a framework's own words. */
typedef struct orr_export {
    const char *format;    /* as it was asked for */
    const char *launcher;  /* "torchrun --nnodes 4 --nproc-per-node 8", or "" when gpus is absent */
    const char *text;      /* a file; for megatron-lm one option with its values a line */
    const char *overrides; /* the same for the framework's command line, a line each; or "" */
    const char *env;       /* the same as environment variables, a line each; or "" */
    const orr_tree *lost;  /* list of {key, value, why}: what the framework cannot be told */
} orr_export;

/* Names of the formats that plans are written in, NULL-terminated. */
const char *const *orr_export_formats(void);
/* The one that an import of `format` is written back in, NULL: none. */
const char *orr_export_format_of(const char *format);

/* Plan keys in a framework's words. A "model" that is a card (docs/model-card.md) becomes settings
 * where the framework takes sizes; for a name, `card` (may be NULL) is the card of that name.
 * Reading the text back gives the same keys but for `lost`, which is checked. ORR_E_NAME: no such
 * format; ORR_E_SCHEMA: a key has a value of a wrong type. */
orr_status orr_export_plan(orr_arena *arena, const char *format, const orr_tree *keys,
                           const orr_tree *card, orr_export *out, orr_err *err);

/* What to change in a file that was read for it to mean other keys: a list of {line, name, from,
 * to, was, before, now}. line 0: the setting is to be added; was: the line as it stands; before,
 * now: the setting in the file's own syntax; now "": it is to be taken out. */
orr_status orr_export_changes(orr_arena *arena, const char *path, const orr_import *input,
                              const orr_tree *keys, const orr_tree **changes, orr_err *err);

/* Arguments of Megatron-LM as a training log lists them, a map from name to the text of a Python
 * value; names that are no arguments of the command line are derived ones and left out. */
orr_status orr_import_arguments(orr_arena *arena, const char *name, const orr_tree *arguments,
                                orr_import *out, orr_err *err);

#endif
