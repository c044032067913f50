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
    /* List of {line, message, key}: what was not followed, is not known, or contradicts; key as
     * above. */
    const orr_tree *warnings;
} orr_import;

/* Detects the format by content and name and reads it: an own plan file (YAML or JSON of plan keys)
 * or a Megatron-LM launch script. */
orr_status orr_import_text(orr_arena *arena, const char *name, const char *text, size_t length,
                           orr_import *out, orr_err *err);
orr_status orr_import_file(orr_arena *arena, const char *path, orr_import *out, orr_err *err);

/* A plan in a framework's own words. */
typedef struct orr_export {
    const char *launcher;  /* "torchrun --nnodes 4 --nproc-per-node 8", or "" when gpus is absent */
    const char *arguments; /* one option with its values a line */
    const orr_tree *lost;  /* list of {key, value, why}: what the framework cannot be told */
} orr_export;

/* Arguments of Megatron-LM for plan keys. A "model" that is a card (docs/model-card.md, one layer
 * kind, or dense and MoE layers) becomes arguments too; a name does not. Importing the result gives
 * the same keys but for `lost`. ORR_E_SCHEMA: a key has a value of a wrong type. */
orr_status orr_export_megatron(orr_arena *arena, const orr_tree *keys, orr_export *out,
                               orr_err *err);

#endif
