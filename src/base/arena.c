#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* KEPT_BYTES: how much an arena that was reset holds on to, besides its newest block. */
enum { BLOCK_BYTES = 32 * 1024, KEPT_BYTES = 4 << 20, ALIGNMENT = alignof(max_align_t) };

typedef struct block {
    struct block *previous;
    size_t used, capacity;
    alignas(max_align_t) unsigned char bytes[];
} block;

struct orr_arena {
    block *top;
    block *spare; /* of before the last reset, zeroed, oldest first */
    size_t used;
};

static block *block_new(block *previous, size_t capacity) {
    block *b = (block *)orr_alloc(sizeof(block) + capacity);
    b->previous = previous;
    b->capacity = capacity;
    return b;
}

orr_arena *orr_arena_new(void) {
    return (orr_arena *)orr_alloc(sizeof(orr_arena));
}

static void free_blocks(block *top) {
    while (top != NULL) {
        block *previous = top->previous;
        orr_release(top);
        top = previous;
    }
}

void orr_arena_free(orr_arena *arena) {
    if (arena != NULL) {
        free_blocks(arena->top);
        free_blocks(arena->spare);
        orr_release(arena);
    }
}

/* Blocks are kept for the next round, which as a rule asks for the same again; those that this
 * round had no use for are not. */
void orr_arena_reset(orr_arena *arena) {
    if (arena->top == NULL) {
        return; /* no round */
    }
    size_t kept = 0;
    free_blocks(arena->spare);
    arena->spare = NULL;
    for (block *b = arena->top; b != NULL;) {
        block *previous = b->previous;
        if (b == arena->top || kept + b->capacity <= KEPT_BYTES) {
            kept += b == arena->top ? 0 : b->capacity;
            memset(b->bytes, 0, b->used);
            b->used = 0;
            b->previous = arena->spare;
            arena->spare = b;
        } else {
            orr_release(b);
        }
        b = previous;
    }
    arena->top = NULL;
    arena->used = 0;
}

static block *take_spare(orr_arena *arena, size_t bytes) {
    block **link = &arena->spare;
    while (*link != NULL && (*link)->capacity < bytes) {
        link = &(*link)->previous;
    }
    block *found = *link;
    if (found != NULL) {
        *link = found->previous;
        found->previous = arena->top;
        arena->top = found;
    }
    return found;
}

size_t orr_arena_used(const orr_arena *arena) {
    return arena->used;
}

void *orr_arena_alloc(orr_arena *arena, size_t bytes) {
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    block *top = arena->top;
    if (top == NULL || top->capacity - top->used < rounded) {
        top = take_spare(arena, rounded);
    }
    if (top == NULL) {
        /* Blocks grow with the arena so that a large result costs few calls to the allocator. */
        size_t capacity = BLOCK_BYTES + arena->used / 2;
        top = arena->top = block_new(arena->top, rounded > capacity ? rounded : capacity);
    }
    void *memory = top->bytes + top->used;
    top->used += rounded;
    arena->used += rounded;
    return memory;
}

void *orr_arena_array(orr_arena *arena, size_t count, size_t element_bytes) {
    size_t bytes;
    if (__builtin_mul_overflow(count, element_bytes, &bytes)) {
        bytes = SIZE_MAX / 2; /* cannot be had: ends in the out-of-memory handler */
    }
    return orr_arena_alloc(arena, bytes);
}

char *orr_arena_copy(orr_arena *arena, const char *text, size_t length) {
    char *copy = (char *)orr_arena_alloc(arena, length + 1);
    if (length > 0) {
        memcpy(copy, text, length);
    }
    return copy;
}

char *orr_arena_text(orr_arena *arena, const char *text) {
    return orr_arena_copy(arena, text, strlen(text));
}

char *orr_arena_vformat(orr_arena *arena, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    size_t size = length < 0 ? 0 : (size_t)length;
    char *text = (char *)orr_arena_alloc(arena, size + 1);
    (void)vsnprintf(text, size + 1, format, again);
    va_end(again);
    return text;
}

char *orr_arena_format(orr_arena *arena, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = orr_arena_vformat(arena, format, args);
    va_end(args);
    return text;
}
