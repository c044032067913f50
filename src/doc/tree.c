/* The tree: nodes in an arena, maps in order of insertion.
 *
 * A small map is searched in order, which beats hashing up to about a dozen keys; a larger one
 * carries an index that is kept as keys are put, so that readers never change a node and may share
 * it between threads. */
#include <math.h>
#include <string.h>

#include "base/map.h"
#include "doc/doc_int.h"

enum { INDEX_FROM = 12, INITIAL_CAPACITY = 4 };

/* ---- reading -------------------------------------------------------------------------------- */

orr_tree_kind orr_tree_kind_of(const orr_tree *node) {
    return node == NULL ? ORR_TREE_NULL : node->kind;
}

orr_span orr_tree_span(const orr_tree *node) {
    return node == NULL ? (orr_span){0} : (orr_span){node->file, node->line, node->column};
}

size_t orr_tree_size(const orr_tree *node) {
    return node == NULL ? 0 : node->count;
}

const orr_tree *orr_tree_at(const orr_tree *node, size_t index) {
    if (node == NULL || index >= node->count) {
        return NULL;
    }
    return node->kind == ORR_TREE_LIST ? node->as.list.items[index]
                                       : node->as.map.entries[index].child;
}

const char *orr_tree_key(const orr_tree *map, size_t index) {
    if (map == NULL || map->kind != ORR_TREE_MAP || index >= map->count) {
        return NULL;
    }
    return map->as.map.entries[index].key;
}

orr_span orr_tree_key_span(const orr_tree *map, size_t index) {
    orr_span span = orr_tree_span(map);
    if (orr_tree_key(map, index) != NULL && map->as.map.entries[index].line > 0) {
        span.line = map->as.map.entries[index].line;
        span.column = map->as.map.entries[index].column;
    }
    return span.line > 0 ? span : (orr_span){0}; /* a key from nowhere is in no file */
}

static bool key_is(const tree_entry *entry, const char *key, size_t length) {
    return strncmp(entry->key, key, length) == 0 && entry->key[length] == '\0';
}

/* Slots of the index of a map with that many keys: a power of two, at most half full. */
static uint32_t index_slots(uint32_t count) {
    uint32_t slots = 32;
    while (slots < 2 * count) {
        slots *= 2;
    }
    return slots;
}

/* The slot that holds the key, or the empty one where it belongs. */
static uint32_t *index_slot(const orr_tree *map, uint32_t slots, const char *key, size_t length) {
    uint32_t i = (uint32_t)orr_hash(key, length) & (slots - 1);
    while (map->as.map.index[i] != 0 &&
           !key_is(&map->as.map.entries[map->as.map.index[i] - 1], key, length)) {
        i = (i + 1) & (slots - 1);
    }
    return &map->as.map.index[i];
}

static tree_entry *find_entry(const orr_tree *map, const char *key, size_t length) {
    if (map->as.map.index != NULL) {
        uint32_t number = *index_slot(map, index_slots(map->count), key, length);
        return number == 0 ? NULL : &map->as.map.entries[number - 1];
    }
    for (uint32_t i = 0; i < map->count; i++) {
        if (key_is(&map->as.map.entries[i], key, length)) {
            return &map->as.map.entries[i];
        }
    }
    return NULL;
}

/* The same as orr_tree_get with a key that need not be terminated. */
static orr_tree *find(const orr_tree *map, const char *key, size_t length) {
    if (map == NULL || map->kind != ORR_TREE_MAP || memchr(key, 0, length) != NULL) {
        return NULL;
    }
    const tree_entry *entry = find_entry(map, key, length);
    return entry == NULL ? NULL : entry->child;
}

const orr_tree *orr_tree_get(const orr_tree *map, const char *key) {
    return find(map, key, strlen(key));
}

/* An item of a list by a decimal number: the step "3" of "stages.3.bytes". */
static const orr_tree *item_at(const orr_tree *list, const char *digits, size_t length) {
    size_t index = 0;
    for (size_t i = 0; i < length; i++) {
        if (digits[i] < '0' || digits[i] > '9' || index > UINT32_MAX) {
            return NULL;
        }
        index = index * 10 + (size_t)(digits[i] - '0');
    }
    return length == 0 ? NULL : orr_tree_at(list, index);
}

const orr_tree *orr_tree_path(const orr_tree *map, const char *dotted) {
    const orr_tree *node = map;
    for (const char *step = dotted;;) {
        size_t length = strcspn(step, ".");
        node = orr_tree_kind_of(node) == ORR_TREE_LIST ? item_at(node, step, length)
                                                       : find(node, step, length);
        if (node == NULL || step[length] == '\0') {
            return node;
        }
        step += length + 1;
    }
}

bool orr_tree_bool(const orr_tree *node, bool otherwise) {
    return node != NULL && node->kind == ORR_TREE_BOOL ? node->as.boolean : otherwise;
}

int64_t orr_tree_int(const orr_tree *node, int64_t otherwise) {
    if (node != NULL && node->kind == ORR_TREE_INT) {
        return node->as.integer;
    }
    if (node != NULL && node->kind == ORR_TREE_REAL && node->as.real == floor(node->as.real) &&
        node->as.real >= -0x1p63 && node->as.real < 0x1p63) {
        return (int64_t)node->as.real;
    }
    return otherwise;
}

double orr_tree_real(const orr_tree *node, double otherwise) {
    if (node != NULL && node->kind == ORR_TREE_REAL) {
        return node->as.real;
    }
    return node != NULL && node->kind == ORR_TREE_INT ? (double)node->as.integer : otherwise;
}

const char *orr_tree_text(const orr_tree *node, const char *otherwise) {
    return node != NULL && node->kind == ORR_TREE_TEXT ? node->as.text.bytes : otherwise;
}

size_t orr_tree_text_length(const orr_tree *node) {
    return node != NULL && node->kind == ORR_TREE_TEXT ? node->as.text.length : 0;
}

/* ---- building ------------------------------------------------------------------------------- */

static orr_tree *new_node(orr_arena *arena, orr_tree_kind kind) {
    orr_tree *node = ORR_NEW(arena, orr_tree);
    node->kind = kind;
    return node;
}

orr_tree *orr_tree_null(orr_arena *arena) {
    return new_node(arena, ORR_TREE_NULL);
}

orr_tree *orr_tree_new_bool(orr_arena *arena, bool value) {
    orr_tree *node = new_node(arena, ORR_TREE_BOOL);
    node->as.boolean = value;
    return node;
}

orr_tree *orr_tree_new_int(orr_arena *arena, int64_t value) {
    orr_tree *node = new_node(arena, ORR_TREE_INT);
    node->as.integer = value;
    return node;
}

orr_tree *orr_tree_new_real(orr_arena *arena, double value) {
    if (!isfinite(value)) {
        return orr_tree_null(arena);
    }
    orr_tree *node = new_node(arena, ORR_TREE_REAL);
    node->as.real = value;
    return node;
}

orr_tree *orr_tree_new_textn(orr_arena *arena, const char *text, size_t length) {
    orr_tree *node = new_node(arena, ORR_TREE_TEXT);
    node->as.text.bytes = orr_arena_copy(arena, text, length);
    node->as.text.length = length;
    return node;
}

orr_tree *orr_tree_new_text(orr_arena *arena, const char *text) {
    return orr_tree_new_textn(arena, text, strlen(text));
}

orr_tree *orr_tree_new_list(orr_arena *arena) {
    return new_node(arena, ORR_TREE_LIST);
}

orr_tree *orr_tree_new_map(orr_arena *arena) {
    return new_node(arena, ORR_TREE_MAP);
}

void orr_tree_set_span(orr_tree *node, orr_span span) {
    node->file = span.file;
    node->line = span.line;
    node->column = span.column;
}

orr_tree *orr_tree_push(orr_arena *arena, orr_tree *list, orr_tree *child) {
    if (list->count == list->as.list.capacity) {
        size_t capacity = list->count == 0 ? INITIAL_CAPACITY : 2 * (size_t)list->count;
        orr_tree **items = ORR_NEW_ARRAY(arena, orr_tree *, capacity);
        if (list->count > 0) {
            memcpy(items, list->as.list.items, list->count * sizeof *items);
        }
        list->as.list.items = items;
        list->as.list.capacity = capacity;
    }
    list->as.list.items[list->count++] = child;
    return child;
}

static void build_index(orr_arena *arena, orr_tree *map, uint32_t slots) {
    map->as.map.index = ORR_NEW_ARRAY(arena, uint32_t, slots);
    for (uint32_t i = 0; i < map->count; i++) {
        const char *key = map->as.map.entries[i].key;
        *index_slot(map, slots, key, strlen(key)) = i + 1;
    }
}

/* Appends an entry whose key is not there yet; the key is in the arena already. */
static void append_entry(orr_arena *arena, orr_tree *map, tree_entry entry) {
    uint32_t count = map->count;
    /* Full exactly at powers of two (and empty), so that no capacity need be kept. */
    if (count == 0 || (count >= INITIAL_CAPACITY && (count & (count - 1)) == 0)) {
        size_t capacity = count == 0 ? INITIAL_CAPACITY : 2 * (size_t)count;
        tree_entry *entries = ORR_NEW_ARRAY(arena, tree_entry, capacity);
        if (count > 0) {
            memcpy(entries, map->as.map.entries, count * sizeof *entries);
        }
        map->as.map.entries = entries;
    }
    map->as.map.entries[count] = entry;
    map->count = count + 1;
    uint32_t slots = index_slots(map->count);
    if (map->count == INDEX_FROM ||
        (map->count > INDEX_FROM && slots != index_slots(map->count - 1))) {
        build_index(arena, map, slots);
    } else if (map->as.map.index != NULL) {
        *index_slot(map, slots, entry.key, strlen(entry.key)) = map->count;
    }
}

void orr_tree_put_at(orr_arena *arena, orr_tree *map, const char *key, orr_span at,
                     orr_tree *child) {
    size_t length = strlen(key);
    tree_entry *entry = find_entry(map, key, length);
    if (entry != NULL) {
        entry->child = child;
    } else {
        const char *copy = orr_arena_copy(arena, key, length);
        append_entry(arena, map, (tree_entry){copy, child, at.line, at.column});
    }
}

orr_tree *orr_tree_put(orr_arena *arena, orr_tree *map, const char *key, orr_tree *child) {
    orr_tree_put_at(arena, map, key, (orr_span){0}, child);
    return child;
}

void orr_tree_put_bool(orr_arena *arena, orr_tree *map, const char *key, bool value) {
    orr_tree_put(arena, map, key, orr_tree_new_bool(arena, value));
}

void orr_tree_put_int(orr_arena *arena, orr_tree *map, const char *key, int64_t value) {
    orr_tree_put(arena, map, key, orr_tree_new_int(arena, value));
}

void orr_tree_put_real(orr_arena *arena, orr_tree *map, const char *key, double value) {
    orr_tree_put(arena, map, key, orr_tree_new_real(arena, value));
}

void orr_tree_put_text(orr_arena *arena, orr_tree *map, const char *key, const char *value) {
    orr_tree_put(arena, map, key,
                 value == NULL ? orr_tree_null(arena) : orr_tree_new_text(arena, value));
}

orr_tree *orr_tree_copy(orr_arena *arena, const orr_tree *node) {
    if (node == NULL) {
        return orr_tree_null(arena);
    }
    orr_tree *copy = ORR_NEW(arena, orr_tree);
    *copy = *node;
    copy->file = NULL; /* borrowed from whoever read the original, who may be gone first */
    switch (node->kind) {
    case ORR_TREE_TEXT:
        copy->as.text.bytes = orr_arena_copy(arena, node->as.text.bytes, node->as.text.length);
        break;
    case ORR_TREE_LIST:
        copy->as.list.capacity = node->count;
        copy->as.list.items = ORR_NEW_ARRAY(arena, orr_tree *, node->count);
        for (uint32_t i = 0; i < node->count; i++) {
            copy->as.list.items[i] = orr_tree_copy(arena, node->as.list.items[i]);
        }
        break;
    case ORR_TREE_MAP:
        copy->count = 0;
        copy->as.map.entries = NULL;
        copy->as.map.index = NULL;
        for (uint32_t i = 0; i < node->count; i++) {
            tree_entry entry = node->as.map.entries[i];
            entry.key = orr_arena_text(arena, entry.key);
            entry.child = orr_tree_copy(arena, entry.child);
            append_entry(arena, copy, entry);
        }
        break;
    case ORR_TREE_NULL:
    case ORR_TREE_BOOL:
    case ORR_TREE_INT:
    case ORR_TREE_REAL: break;
    }
    return copy;
}
