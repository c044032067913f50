/* A lock-free memo of GEMM prices.
 *
 * Layers of one model repeat a dozen shapes, and plans of a search repeat each other's. Slots are
 * claimed once and never change, so a reader needs no lock; a price is a pure function of its key,
 * so it does not matter which thread stored it. When the table is full, prices are computed. */
#include <stdatomic.h>
#include <string.h>

#include "base/map.h"
#include "cost/cost_int.h"

enum { SLOTS = 4096, PROBES = 8 };
enum { EMPTY = 0, CLAIMED = 1, READY = 2 };

struct slot {
    atomic_uint state;
    orr_memo_key key;
    orr_cost cost;
};
struct orr_memo {
    struct slot slot[SLOTS];
};

struct orr_memo *orr_memo_new(orr_arena *arena) {
    struct orr_memo *memo = ORR_NEW(arena, struct orr_memo);
    memset(memo, 0, sizeof *memo); /* its pages are there before the first price */
    return memo;
}

bool orr_memo_get(const struct orr_memo *memo, const orr_memo_key *key, orr_cost *out) {
    uint64_t hash = orr_hash(key, sizeof *key);
    for (uint64_t i = 0; i < PROBES; i++) {
        const struct slot *slot = &memo->slot[(hash + i) % SLOTS];
        if (atomic_load_explicit(&slot->state, memory_order_acquire) != READY) {
            return false;
        }
        if (memcmp(&slot->key, key, sizeof *key) == 0) {
            *out = slot->cost;
            return true;
        }
    }
    return false;
}

void orr_memo_put(struct orr_memo *memo, const orr_memo_key *key, const orr_cost *cost) {
    uint64_t hash = orr_hash(key, sizeof *key);
    for (uint64_t i = 0; i < PROBES; i++) {
        struct slot *slot = &memo->slot[(hash + i) % SLOTS];
        unsigned expected = EMPTY;
        if (atomic_compare_exchange_strong(&slot->state, &expected, CLAIMED)) {
            slot->key = *key;
            slot->cost = *cost;
            atomic_store_explicit(&slot->state, READY, memory_order_release);
            return;
        }
    }
}
