/* One tree for everything that goes in and out: parsed JSON, YAML and CSV, call arguments, results.
 *
 * Nodes live in an arena and are immutable to readers. A map keeps the order of insertion, so that
 * output is the same bytes for the same inputs. Numbers remember whether they were integers.
 * Every node may carry the place it was read from. */
#ifndef ORRERY_TREE_H
#define ORRERY_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "orrery/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct orr_arena orr_arena;
typedef struct orr_tree orr_tree;

typedef enum orr_tree_kind {
    ORR_TREE_NULL = 0,
    ORR_TREE_BOOL = 1,
    ORR_TREE_INT = 2,  /* fits int64_t */
    ORR_TREE_REAL = 3, /* finite double */
    ORR_TREE_TEXT = 4, /* UTF-8, may hold NUL */
    ORR_TREE_LIST = 5,
    ORR_TREE_MAP = 6
} orr_tree_kind;

/* An arena owns every tree built in it; freeing it frees them all. */
ORR_API orr_arena *orr_arena_new(void);
ORR_API void orr_arena_free(orr_arena *arena); /* NULL is fine */

/* Reading. A NULL node reads as null: size 0, no children, the given default. */
ORR_API orr_tree_kind orr_tree_kind_of(const orr_tree *node);
ORR_API orr_span orr_tree_span(const orr_tree *node);
ORR_API size_t orr_tree_size(const orr_tree *node); /* children of list or map */
ORR_API const orr_tree *orr_tree_at(const orr_tree *node, size_t index); /* NULL outside */
ORR_API const char *orr_tree_key(const orr_tree *map, size_t index);     /* NULL outside */
/* Where the key was read; for a key that was put, and outside, the map's own place. */
ORR_API orr_span orr_tree_key_span(const orr_tree *map, size_t index);
ORR_API const orr_tree *orr_tree_get(const orr_tree *map, const char *key); /* NULL when absent */
ORR_API const orr_tree *orr_tree_path(const orr_tree *map, const char *dotted); /* "a.b.0.c" */
ORR_API bool orr_tree_bool(const orr_tree *node, bool otherwise);
ORR_API int64_t orr_tree_int(const orr_tree *node, int64_t otherwise); /* integral reals too */
ORR_API double orr_tree_real(const orr_tree *node, double otherwise);  /* integers too */
ORR_API const char *orr_tree_text(const orr_tree *node, const char *otherwise); /* terminated */
ORR_API size_t orr_tree_text_length(const orr_tree *node); /* bytes of a text node */

/* Building. Never fails: sizes are bounded by the caller's inputs. Text is copied.
 * A non-finite real becomes null, since JSON has no word for it. */
ORR_API orr_tree *orr_tree_null(orr_arena *arena);
ORR_API orr_tree *orr_tree_new_bool(orr_arena *arena, bool value);
ORR_API orr_tree *orr_tree_new_int(orr_arena *arena, int64_t value);
ORR_API orr_tree *orr_tree_new_real(orr_arena *arena, double value);
ORR_API orr_tree *orr_tree_new_text(orr_arena *arena, const char *text);
ORR_API orr_tree *orr_tree_new_textn(orr_arena *arena, const char *text, size_t length);
ORR_API orr_tree *orr_tree_new_list(orr_arena *arena);
ORR_API orr_tree *orr_tree_new_map(orr_arena *arena);
ORR_API void orr_tree_set_span(orr_tree *node, orr_span span); /* span.file is borrowed */

/* Append to a list; set in a map (a key set twice keeps its place and takes the new value).
 * The child must live in the same arena or outlive it. Both return the child. */
ORR_API orr_tree *orr_tree_push(orr_arena *arena, orr_tree *list, orr_tree *child);
ORR_API orr_tree *orr_tree_put(orr_arena *arena, orr_tree *map, const char *key, orr_tree *child);

/* A deep copy that shares nothing with the original; spans keep line and column, not the file. */
ORR_API orr_tree *orr_tree_copy(orr_arena *arena, const orr_tree *node);

/* Shorthands of orr_tree_put for scalars; a NULL text is null. */
ORR_API void orr_tree_put_bool(orr_arena *arena, orr_tree *map, const char *key, bool value);
ORR_API void orr_tree_put_int(orr_arena *arena, orr_tree *map, const char *key, int64_t value);
ORR_API void orr_tree_put_real(orr_arena *arena, orr_tree *map, const char *key, double value);
ORR_API void orr_tree_put_text(orr_arena *arena, orr_tree *map, const char *key, const char *value);

#ifdef __cplusplus
}
#endif
#endif
