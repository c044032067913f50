#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/num.h"
#include "base/rng.h"
#include "memory/heap.h"

#define MIB ((uint64_t)1 << 20)

enum { STEPS = 20000, HELD = 300 };

/* The smallest free block that is large enough, lowest address first, by looking at all of them. */
static uint32_t naive_best(const orr_heap *heap, uint64_t bytes, bool small) {
    uint32_t best = ORR_NO_BLOCK;
    for (uint32_t i = 0; i < heap->block_count; i++) {
        const orr_block *b = &heap->block[i];
        if (b->bytes < bytes || b->taken || b->small != small) {
            continue;
        }
        bool better =
            best == ORR_NO_BLOCK || b->bytes < heap->block[best].bytes ||
            (b->bytes == heap->block[best].bytes && b->address < heap->block[best].address);
        best = better ? i : best;
    }
    return best;
}

/* Taken and free blocks tile the segments; neighbours are never both free. */
static void check_blocks(const orr_heap *heap) {
    uint64_t taken = 0, all = 0;
    for (uint32_t i = 0; i < heap->block_count; i++) {
        const orr_block *b = &heap->block[i];
        if (b->bytes == 0) {
            continue;
        }
        all += b->bytes;
        taken += b->taken ? b->bytes : 0;
        if (b->after != ORR_NO_BLOCK) {
            const orr_block *next = &heap->block[b->after];
            assert_int_equal(next->before, i);
            assert_int_equal(next->address, b->address + b->bytes);
            assert_true(b->taken || next->taken);
        }
    }
    assert_int_equal(all, heap->reserved);
    assert_int_equal(taken, heap->allocated);
}

static uint64_t random_bytes(orr_rng *rng) {
    switch (orr_rng_below(rng, 3)) {
    case 0: return 1 + orr_rng_below(rng, 1 << 20);
    case 1: return 1 + orr_rng_below(rng, 10 << 20);
    default: return 1 + orr_rng_below(rng, 200 << 20);
    }
}

static void run(bool expandable, uint64_t limit, uint64_t seed) {
    orr_arena *arena = orr_arena_new();
    orr_heap heap;
    orr_heap_init(&heap, arena, limit, expandable);
    orr_rng rng = {seed};
    uint32_t held[HELD], count = 0;
    for (uint32_t i = 0; i < STEPS; i++) {
        if (count < HELD && (count == 0 || orr_rng_below(&rng, 2))) {
            uint64_t bytes = random_bytes(&rng);
            bool small = bytes <= MIB;
            uint32_t expected = naive_best(&heap, orr_round_up_u64(bytes, 512), small);
            uint32_t id = orr_heap_take(&heap, bytes);
            if (expected != ORR_NO_BLOCK) {
                assert_int_equal(id, expected);
            }
            if (id != ORR_NO_BLOCK) {
                assert_true(heap.block[id].bytes >= bytes);
                held[count++] = id;
            }
        } else {
            uint32_t k = orr_rng_below(&rng, count);
            orr_heap_give(&heap, held[k]);
            held[k] = held[--count];
        }
        assert_true(heap.reserved <= limit);
        if (i % 64 == 0) {
            check_blocks(&heap);
        }
    }
    while (count > 0) {
        orr_heap_give(&heap, held[--count]);
    }
    check_blocks(&heap);
    assert_int_equal(heap.allocated, 0);
    orr_arena_free(arena);
}

static void blocks_tile_their_segments(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        run(false, UINT64_MAX / 2, seed);
        run(true, UINT64_MAX / 2, seed);
        run(false, 4096 * MIB, seed);
    }
}

static void segments_follow_the_constants(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_heap heap;
    orr_heap_init(&heap, arena, UINT64_MAX / 2, false);
    uint32_t small = orr_heap_take(&heap, 1);
    assert_int_equal(heap.reserved, 2 * MIB);
    assert_int_equal(heap.allocated, 512);
    orr_heap_take(&heap, 2 * MIB);
    assert_int_equal(heap.reserved, 22 * MIB);
    orr_heap_take(&heap, 11 * MIB); /* fits what is left of the 20 */
    assert_int_equal(heap.reserved, 22 * MIB);
    orr_heap_take(&heap, 33 * MIB);
    assert_int_equal(heap.reserved, 56 * MIB);
    orr_heap_give(&heap, small);
    assert_int_equal(heap.reserved, 56 * MIB);
    orr_arena_free(arena);
}

static void pressure_gives_the_cache_back(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_heap heap;
    orr_heap_init(&heap, arena, 100 * MIB, false);
    uint32_t a = orr_heap_take(&heap, 60 * MIB);
    orr_heap_give(&heap, a);
    assert_true(orr_heap_take(&heap, 80 * MIB) != ORR_NO_BLOCK);
    assert_int_equal(heap.flushes, 1);
    assert_int_equal(heap.reserved, 80 * MIB);
    assert_int_equal(orr_heap_take(&heap, 40 * MIB), ORR_NO_BLOCK);
    assert_true(heap.failed);
    orr_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_tile_their_segments),
        cmocka_unit_test(segments_follow_the_constants),
        cmocka_unit_test(pressure_gives_the_cache_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
