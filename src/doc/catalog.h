/* Catalogs: the files of data/<folder>/, built into the library and found by name. A folder may
 * hold aliases.yaml, a map from other names to names of the catalog. */
#ifndef ORR_CATALOG_H
#define ORR_CATALOG_H

#include <stdbool.h>

#include "base/arena.h"
#include "orrery/status.h"
#include "orrery/tree.h"

typedef struct orr_catalog {
    const char *folder; /* under data/, such as "models" */
    const char *what;   /* in messages, such as "model" */
} orr_catalog;

/* The parsed file of a catalog name, an alias (case and separators ignored in both) or a path.
 * *stem is the canonical name: the file's without folder and ending. Unknown names are ORR_E_NAME
 * with the nearest one. */
orr_status orr_catalog_find(orr_arena *arena, const orr_catalog *catalog, const char *name,
                            orr_tree **file, const char **stem, orr_err *err);

/* Resolves `like: NAME` in a map: the file of that name with the map's own entries over it, maps
 * merged key by key (but {value: ...} replaces as a whole). A number may be given as a factor of
 * the one below it: "x2". A map without `like` comes back as it is. */
orr_status orr_catalog_derive(orr_arena *arena, const orr_catalog *catalog, const orr_tree *map,
                              const orr_tree **out, orr_err *err);

/* Canonical names, sorted, as a list of texts. */
orr_tree *orr_catalog_names(orr_arena *arena, const orr_catalog *catalog);

#endif
