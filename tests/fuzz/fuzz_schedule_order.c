/* Given orders: three bytes for ranks, chunks and micro-batches, then ops, ranks separated by '|'.
 * What is accepted must play, whole and cut, to one makespan, not below the work of any rank. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "schedule/schedule.h"

enum { MOST_OPS = 4096, MOST_RANKS = 9, MOST_CHUNKS = 32 };

static void play(orr_arena *arena, const orr_order *order, uint32_t chunks) {
    int64_t f[MOST_CHUNKS], b[MOST_CHUNKS], w[MOST_CHUNKS], hop[MOST_RANKS], busy[MOST_RANKS];
    for (uint32_t i = 0; i < MOST_CHUNKS; i++) {
        f[i] = 3 + i % 5;
        b[i] = 4 + i % 3;
        w[i] = 1 + i % 2;
    }
    for (uint32_t i = 0; i < MOST_RANKS; i++) {
        hop[i] = i % 2;
    }
    orr_durations d = {.f = f, .b = b, .w = w, .hop = hop};
    orr_play full = {.rank_busy = busy}, cut = {0};
    uint32_t pp = orr_order_look(order).spec.pp;
    int64_t end[MOST_RANKS];
    if (chunks > MOST_CHUNKS || orr_order_play(order, &d, true, arena, &full, NULL) != ORR_OK ||
        orr_order_play(order, &d, false, arena, &cut, NULL) != ORR_OK ||
        orr_order_times(order, &d, arena, NULL, NULL, end, NULL) != ORR_OK) {
        abort();
    }
    int64_t latest = 0;
    for (uint32_t r = 0; r < pp; r++) {
        latest = end[r] > latest ? end[r] : latest;
        if (busy[r] > full.makespan) {
            abort();
        }
    }
    if (full.makespan != cut.makespan || full.makespan != latest) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3) {
        return 0;
    }
    orr_schedule_spec s = {
        .pp = data[0] % 8u + 1, .vpp = data[1] % 4u + 1, .micro_batches = data[2] % 32u + 1};
    orr_arena *arena = orr_arena_new();
    char *text = orr_arena_copy(arena, (const char *)data + 3, size - 3);
    orr_sched_op *op = ORR_NEW_ARRAY(arena, orr_sched_op, MOST_OPS);
    uint32_t first[MOST_RANKS] = {0}, position[MOST_CHUNKS], rank = 0, count = 0;
    for (uint32_t i = 0; i < s.pp * s.vpp; i++) {
        position[i] = i % s.vpp * s.pp + i / s.vpp;
    }
    while (*text != '\0' && rank < s.pp && count < MOST_OPS) {
        size_t length = strcspn(text, " |");
        char stop = text[length];
        text[length] = '\0';
        if (length > 0 && orr_sched_op_parse(text, &op[count], NULL) == ORR_OK) {
            count++;
        }
        if (stop == '|') {
            first[++rank] = count;
        }
        text += length + (stop != '\0');
    }
    while (rank < s.pp) {
        first[++rank] = count;
    }
    const orr_order *order;
    orr_err err;
    orr_user_ops given = {.position = position, .op_first = first, .op = op};
    if (orr_order_from_ops(arena, &s, &given, &order, &err) == ORR_OK) {
        play(arena, order, s.pp * s.vpp);
    }
    orr_arena_free(arena);
    return 0;
}
