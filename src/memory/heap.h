/* A model of PyTorch's caching allocator: rounding, pools, segments, best fit, splitting, merging.
 * Source: PyTorch, c10/cuda/CUDACachingAllocator.cpp (constants and split rule). Addresses are
 * made up; nothing is allocated. */
#ifndef ORR_MEMORY_HEAP_H
#define ORR_MEMORY_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

enum { ORR_NO_BLOCK = UINT32_MAX };

/* A block of a segment, or a free slot of the table. */
typedef struct orr_block {
    uint64_t address, bytes;
    uint32_t before, after; /* neighbours in the segment */
    uint32_t left, right;   /* in the tree of free blocks */
    uint32_t link;          /* the user's, while it is taken */
    uint8_t small, taken;
} orr_block;

typedef struct orr_heap {
    orr_arena *arena;
    bool expandable; /* one growing segment a pool */
    uint64_t limit_bytes;
    uint64_t allocated, reserved, allocated_peak, reserved_peak;
    uint64_t next_address;
    uint32_t segments, flushes;
    uint32_t free_root[2], last[2]; /* per pool: large, small */
    orr_block *block;
    uint32_t block_count, block_capacity, spare;
    bool failed; /* a request did not fit under the limit */
} orr_heap;

void orr_heap_init(orr_heap *heap, orr_arena *arena, uint64_t limit_bytes, bool expandable);
/* Returns a block, or ORR_NO_BLOCK for nothing or when it does not fit (then `failed` is set). */
uint32_t orr_heap_take(orr_heap *heap, uint64_t bytes);
void orr_heap_give(orr_heap *heap, uint32_t block); /* ORR_NO_BLOCK is fine */

#endif
