#include "base/map.h"

#include <string.h>
#include <xxhash.h>

#include "base/mem.h"

struct orr_map_slot {
    uint64_t hash;
    const void *key;
    size_t key_bytes;
    void *value;
};

uint64_t orr_hash(const void *bytes, size_t length) {
    return XXH3_64bits(bytes, length);
}

static struct orr_map_slot *find(const orr_map *map, uint64_t hash, const void *key,
                                 size_t key_bytes) {
    uint32_t mask = map->capacity - 1;
    for (uint32_t i = (uint32_t)hash & mask;; i = (i + 1) & mask) {
        struct orr_map_slot *slot = &map->slots[i];
        if (slot->value == NULL) {
            return slot;
        }
        if (slot->hash == hash && slot->key_bytes == key_bytes &&
            memcmp(slot->key, key, key_bytes) == 0) {
            return slot;
        }
    }
}

void *orr_map_get(const orr_map *map, const void *key, size_t key_bytes) {
    if (map->capacity == 0) {
        return NULL;
    }
    return find(map, orr_hash(key, key_bytes), key, key_bytes)->value;
}

static void grow(orr_map *map) {
    orr_map bigger = {.capacity = map->capacity == 0 ? 64 : map->capacity * 2, .used = map->used};
    bigger.slots = (struct orr_map_slot *)orr_alloc(bigger.capacity * sizeof(struct orr_map_slot));
    for (uint32_t i = 0; i < map->capacity; i++) {
        const struct orr_map_slot *old = &map->slots[i];
        if (old->value != NULL) {
            *find(&bigger, old->hash, old->key, old->key_bytes) = *old;
        }
    }
    orr_release(map->slots);
    *map = bigger;
}

void orr_map_put(orr_map *map, orr_arena *arena, const void *key, size_t key_bytes, void *value) {
    if (map->used * 4 >= map->capacity * 3) {
        grow(map);
    }
    uint64_t hash = orr_hash(key, key_bytes);
    struct orr_map_slot *slot = find(map, hash, key, key_bytes);
    if (slot->value == NULL) {
        map->used++;
    }
    *slot = (struct orr_map_slot){hash, orr_arena_copy(arena, (const char *)key, key_bytes),
                                  key_bytes, value};
}

void orr_map_release(orr_map *map) {
    orr_release(map->slots);
    *map = (orr_map){0};
}
