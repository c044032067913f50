/* See heap.h. Free blocks of a pool are kept in a treap ordered by (bytes, address), so that best
 * fit with the lowest address is a lower bound. Priorities are hashes of the block's number: the
 * shape, and so the time, is the same on every run. */
#include "memory/heap.h"

#include "base/num.h"

#define MIB ((uint64_t)1 << 20)

enum { ROUND = 512, LARGE = 0, SMALL = 1 };

static uint64_t small_limit(void) {
    return MIB;
}

/* Bytes that the driver is asked for. */
static uint64_t segment_bytes(const orr_heap *heap, uint64_t bytes, bool small) {
    if (heap->expandable) {
        return orr_round_up_u64(bytes, small ? 2 * MIB : 20 * MIB);
    }
    if (small) {
        return 2 * MIB;
    }
    return bytes < 10 * MIB ? 20 * MIB : orr_round_up_u64(bytes, 2 * MIB);
}

/* ---- free blocks ---------------------------------------------------------------------------- */

static bool less(const orr_block *a, const orr_block *b) {
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
}

static uint32_t priority(uint32_t id) {
    uint32_t x = id * 0x9e3779b9u;
    x ^= x >> 15;
    x *= 0x85ebca6bu;
    return x ^ x >> 13;
}

/* Splits a tree into what comes before `pivot` and the rest. */
static void split(orr_heap *h, uint32_t tree, const orr_block *pivot, uint32_t *low,
                  uint32_t *high) {
    while (tree != ORR_NO_BLOCK) {
        if (less(&h->block[tree], pivot)) {
            *low = tree;
            low = &h->block[tree].right;
            tree = *low;
        } else {
            *high = tree;
            high = &h->block[tree].left;
            tree = *high;
        }
    }
    *low = *high = ORR_NO_BLOCK;
}

static void merge(orr_heap *h, uint32_t low, uint32_t high, uint32_t *out) {
    while (low != ORR_NO_BLOCK && high != ORR_NO_BLOCK) {
        if (priority(low) > priority(high)) {
            *out = low;
            out = &h->block[low].right;
            low = *out;
        } else {
            *out = high;
            out = &h->block[high].left;
            high = *out;
        }
    }
    *out = low != ORR_NO_BLOCK ? low : high;
}

static void insert_free(orr_heap *h, uint32_t id) {
    uint32_t *at = &h->free_root[h->block[id].small];
    while (*at != ORR_NO_BLOCK && priority(*at) >= priority(id)) {
        at = less(&h->block[id], &h->block[*at]) ? &h->block[*at].left : &h->block[*at].right;
    }
    split(h, *at, &h->block[id], &h->block[id].left, &h->block[id].right);
    *at = id;
}

static void remove_free(orr_heap *h, uint32_t id) {
    uint32_t *at = &h->free_root[h->block[id].small];
    while (*at != id) {
        at = less(&h->block[id], &h->block[*at]) ? &h->block[*at].left : &h->block[*at].right;
    }
    merge(h, h->block[id].left, h->block[id].right, at);
}

static uint32_t best_fit(const orr_heap *h, uint64_t bytes, bool small) {
    uint32_t best = ORR_NO_BLOCK;
    for (uint32_t at = h->free_root[small]; at != ORR_NO_BLOCK;) {
        if (h->block[at].bytes >= bytes) {
            best = at;
            at = h->block[at].left;
        } else {
            at = h->block[at].right;
        }
    }
    return best;
}

/* ---- blocks --------------------------------------------------------------------------------- */

static uint32_t new_block(orr_heap *h) {
    if (h->spare != ORR_NO_BLOCK) {
        uint32_t id = h->spare;
        h->spare = h->block[id].link;
        return id;
    }
    if (h->block_count == h->block_capacity) {
        uint32_t capacity = h->block_capacity ? 2 * h->block_capacity : 1024;
        orr_block *block = ORR_NEW_ARRAY(h->arena, orr_block, capacity);
        for (uint32_t i = 0; i < h->block_count; i++) {
            block[i] = h->block[i];
        }
        h->block = block;
        h->block_capacity = capacity;
    }
    return h->block_count++;
}

static void drop_block(orr_heap *h, uint32_t id) {
    h->block[id].link = h->spare;
    h->spare = id;
}

void orr_heap_init(orr_heap *h, orr_arena *arena, uint64_t limit_bytes, bool expandable) {
    *h = (orr_heap){.arena = arena,
                    .expandable = expandable,
                    .limit_bytes = limit_bytes,
                    .free_root = {ORR_NO_BLOCK, ORR_NO_BLOCK},
                    .last = {ORR_NO_BLOCK, ORR_NO_BLOCK},
                    .spare = ORR_NO_BLOCK};
}

/* Under pressure, segments that are free as a whole go back to the driver. */
static void flush(orr_heap *h) {
    h->flushes++;
    for (uint32_t id = 0; id < h->block_count && !h->expandable; id++) {
        orr_block *b = &h->block[id];
        bool whole =
            b->bytes > 0 && !b->taken && b->before == ORR_NO_BLOCK && b->after == ORR_NO_BLOCK;
        if (whole) {
            remove_free(h, id);
            h->reserved -= b->bytes;
            h->segments--;
            b->bytes = 0;
            drop_block(h, id);
        }
    }
}

static bool reserve(orr_heap *h, uint64_t bytes) {
    if (h->reserved + bytes > h->limit_bytes) {
        flush(h);
        if (h->reserved + bytes > h->limit_bytes) {
            h->failed = true;
            return false;
        }
    }
    h->reserved += bytes;
    h->reserved_peak = orr_max_u64(h->reserved_peak, h->reserved);
    return true;
}

/* A new free block (not in the tree): a segment, or more pages at the end of the growing one. */
static uint32_t grow(orr_heap *h, uint64_t bytes, bool small) {
    uint32_t end = h->expandable ? h->last[small] : ORR_NO_BLOCK;
    bool joins = end != ORR_NO_BLOCK && !h->block[end].taken;
    uint64_t more = segment_bytes(h, joins ? bytes - h->block[end].bytes : bytes, small);
    if (!reserve(h, more)) {
        return ORR_NO_BLOCK;
    }
    if (joins) {
        remove_free(h, end);
        h->block[end].bytes += more;
        return end;
    }
    uint32_t id = new_block(h);
    uint64_t gap = (uint64_t)1 << 44; /* room for a growing segment's addresses */
    bool first = h->expandable && end == ORR_NO_BLOCK;
    uint64_t address = end != ORR_NO_BLOCK ? h->block[end].address + h->block[end].bytes
                       : first             ? gap * (1 + small)
                                           : h->next_address;
    h->block[id] = (orr_block){
        .address = address, .bytes = more, .before = end, .after = ORR_NO_BLOCK, .small = small};
    if (end != ORR_NO_BLOCK) {
        h->block[end].after = id;
    } else {
        h->segments++;
        h->next_address += more;
    }
    h->last[small] = id;
    return id;
}

uint32_t orr_heap_take(orr_heap *h, uint64_t bytes) {
    if (bytes == 0) {
        return ORR_NO_BLOCK;
    }
    bytes = orr_round_up_u64(bytes, ROUND);
    bool small = bytes <= small_limit();
    uint32_t id = best_fit(h, bytes, small);
    if (id != ORR_NO_BLOCK) {
        remove_free(h, id);
    } else {
        id = grow(h, bytes, small);
        if (id == ORR_NO_BLOCK) {
            return id;
        }
    }
    uint64_t rest = h->block[id].bytes - bytes;
    bool splits = small || h->expandable ? rest >= ROUND : rest > small_limit();
    if (splits) {
        uint32_t tail = new_block(h), after = h->block[id].after;
        h->block[tail] = (orr_block){.address = h->block[id].address + bytes,
                                     .bytes = rest,
                                     .before = id,
                                     .after = after,
                                     .small = small};
        if (after != ORR_NO_BLOCK) {
            h->block[after].before = tail;
        }
        if (h->last[small] == id) {
            h->last[small] = tail;
        }
        h->block[id].bytes = bytes;
        h->block[id].after = tail;
        insert_free(h, tail);
    }
    h->block[id].taken = 1;
    h->allocated += h->block[id].bytes;
    h->allocated_peak = orr_max_u64(h->allocated_peak, h->allocated);
    return id;
}

/* Joins `id` with its free neighbour `other` behind it. */
static void absorb(orr_heap *h, uint32_t id, uint32_t other) {
    uint32_t after = h->block[other].after;
    h->block[id].bytes += h->block[other].bytes;
    h->block[id].after = after;
    if (after != ORR_NO_BLOCK) {
        h->block[after].before = id;
    }
    if (h->last[h->block[id].small] == other) {
        h->last[h->block[id].small] = id;
    }
    h->block[other].bytes = 0;
    drop_block(h, other);
}

void orr_heap_give(orr_heap *h, uint32_t id) {
    if (id == ORR_NO_BLOCK) {
        return;
    }
    h->allocated -= h->block[id].bytes;
    h->block[id].taken = 0;
    uint32_t after = h->block[id].after, before = h->block[id].before;
    if (after != ORR_NO_BLOCK && !h->block[after].taken) {
        remove_free(h, after);
        absorb(h, id, after);
    }
    if (before != ORR_NO_BLOCK && !h->block[before].taken) {
        remove_free(h, before);
        absorb(h, before, id);
        id = before;
    }
    insert_free(h, id);
}
