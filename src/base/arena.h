/* Bump allocation with one free for everything. Memory is zeroed and aligned for any object. */
#ifndef ORR_BASE_ARENA_H
#define ORR_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

#include "orrery/tree.h" /* orr_arena, orr_arena_new, orr_arena_free */

void *orr_arena_alloc(orr_arena *arena, size_t bytes) __attribute__((returns_nonnull));
void *orr_arena_array(orr_arena *arena, size_t count, size_t element_bytes); /* overflow is fatal */
char *orr_arena_copy(orr_arena *arena, const char *text, size_t length);     /* adds a terminator */
char *orr_arena_text(orr_arena *arena, const char *text);
char *orr_arena_format(orr_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
char *orr_arena_vformat(orr_arena *arena, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* Forgets everything allocated so far; memory is kept for reuse, some MiB at most. */
void orr_arena_reset(orr_arena *arena);
size_t orr_arena_used(const orr_arena *arena); /* bytes handed out since the last reset */

#define ORR_NEW(arena, type) ((type *)orr_arena_alloc((arena), sizeof(type)))
#define ORR_NEW_ARRAY(arena, type, count) ((type *)orr_arena_array((arena), (count), sizeof(type)))

#endif
