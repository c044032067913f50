/* A memo table: from the bytes of a key to a pointer. Iteration order is never visible, so results
 * cannot depend on it. Keys are plain zero-padded structs; their bytes are copied. */
#ifndef ORR_BASE_MAP_H
#define ORR_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* Stable 64-bit hash of bytes (XXH3). */
uint64_t orr_hash(const void *bytes, size_t length);

typedef struct orr_map {
    struct orr_map_slot *slots; /* open addressing, a power of two */
    uint32_t capacity, used;
} orr_map; /* zero-initialised is empty */

void *orr_map_get(const orr_map *map, const void *key, size_t key_bytes); /* NULL when absent */
/* Adds a key that is not there yet; value must not be NULL. The key is copied into arena, which
 * must outlive the map. */
void orr_map_put(orr_map *map, orr_arena *arena, const void *key, size_t key_bytes, void *value);
void orr_map_release(orr_map *map); /* frees the slots; values belong to their owners */

#endif
