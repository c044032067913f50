/* What outlives a process: trials of searches, and how far a search has come. One SQLite file;
 * every change is a transaction, so that a kill at any moment leaves a file that opens and resumes.
 */
#ifndef ORR_STORE_H
#define ORR_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "orrery/status.h"

typedef struct orr_store orr_store;

/* Creates the file when there is none. ORR_E_IO: it cannot be opened or is in use too long;
 * ORR_E_SCHEMA: it is something else, or of a newer orrery. */
orr_status orr_store_open(const char *path, orr_store **out, orr_err *err);
void orr_store_close(orr_store *store); /* NULL is fine */

/* One plan that was looked at for a reason. */
typedef struct orr_trial {
    const char *kind; /* "seed", "incumbent", "finalist", "proposal" (of a language model),
                         "device" (measured) */
    const char *plan; /* its keys as JSON */
    double tokens_per_s_per_gpu, step_s, need_bytes;
    double at_s;               /* since the search began */
    const char *verdict, *why; /* "fits", rules broken ...; the reason given. NULL: none */
} orr_trial;
/* `search` is the key of a search: a hash of all it depends on. */
orr_status orr_store_add_trial(orr_store *store, uint64_t search, const orr_trial *trial,
                               orr_err *err);
/* All trials of a search as JSON lines, in the order of adding. */
orr_status orr_store_trials(orr_store *store, orr_arena *arena, uint64_t search, char **jsonl,
                            orr_err *err);

/* The state of a search; replaces the one before. */
orr_status orr_store_put_state(orr_store *store, uint64_t search, const void *bytes, size_t length,
                               orr_err *err);
/* *bytes is NULL when there is none; else a copy in arena. */
orr_status orr_store_get_state(orr_store *store, orr_arena *arena, uint64_t search, void **bytes,
                               size_t *length, orr_err *err);
/* Forgets state and trials of a search. */
orr_status orr_store_forget(orr_store *store, uint64_t search, orr_err *err);

#endif
