/* Speed of the schedule engine: building orders, playing them whole and cut, and the worklist. One
 * line a figure: name, value, unit; the best of several rounds. */
#include <stdio.h>
#include <time.h>

#include "base/arena.h"
#include "schedule/schedule.h"

enum { ROUNDS = 15 };

typedef struct scene {
    const char *name;
    orr_schedule_spec spec;
    bool uneven; /* heavier end stages */
} scene;

static const scene scenes[] = {
    {"1f1b_p16_m256", {.kind = ORR_SCHEDULE_1F1B, .pp = 16, .vpp = 1, .micro_batches = 256}, true},
    {"1f1b_p16_m256_blocking",
     {.kind = ORR_SCHEDULE_1F1B, .p2p = ORR_P2P_BLOCKING, .pp = 16, .vpp = 1, .micro_batches = 256},
     true},
    {"interleaved_p16_v4_m256",
     {.kind = ORR_SCHEDULE_INTERLEAVED, .pp = 16, .vpp = 4, .micro_batches = 256},
     true},
    {"interleaved_p16_v4_m256_overlap",
     {.kind = ORR_SCHEDULE_INTERLEAVED,
      .p2p = ORR_P2P_OVERLAP,
      .pp = 16,
      .vpp = 4,
      .micro_batches = 256},
     true},
    {"interleaved_p8_v8_m64",
     {.kind = ORR_SCHEDULE_INTERLEAVED, .pp = 8, .vpp = 8, .micro_batches = 64},
     true},
    {"interleaved_p8_v8_m64_overlap",
     {.kind = ORR_SCHEDULE_INTERLEAVED,
      .p2p = ORR_P2P_OVERLAP,
      .pp = 8,
      .vpp = 8,
      .micro_batches = 64},
     true},
    {"zb_h1_p16_m256",
     {.kind = ORR_SCHEDULE_ZB_H1, .pp = 16, .vpp = 1, .micro_batches = 256},
     true},
    {"zbv_p8_m128", {.kind = ORR_SCHEDULE_ZBV, .pp = 8, .vpp = 2, .micro_batches = 128}, true},
};

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static orr_durations times_for(orr_arena *arena, const scene *s) {
    uint32_t chunks = s->spec.pp * s->spec.vpp;
    int64_t *f = orr_arena_array(arena, chunks, 8), *b = orr_arena_array(arena, chunks, 8);
    int64_t *w = orr_arena_array(arena, chunks, 8), *hop = orr_arena_array(arena, s->spec.pp, 8);
    for (uint32_t i = 0; i < chunks; i++) {
        bool end = i == 0 || i == chunks - 1;
        f[i] = 1000000 + (s->uneven && end ? 137003 : 0);
        b[i] = 1190000 + (s->uneven && end ? 91001 : 0);
        w[i] = 810000;
    }
    for (uint32_t r = 0; r < s->spec.pp; r++) {
        hop[r] = r % 8 == 7 ? 40007 : 11003;
    }
    return (orr_durations){.f = f, .b = b, .w = w, .hop = hop};
}

static void line(const scene *s, const char *what, double value, const char *unit) {
    printf("%s.%s %.3f %s\n", s->name, what, value, unit);
}

static double best_build(const scene *s, const orr_durations *d) {
    double best = 1e30;
    orr_arena *arena = orr_arena_new();
    for (int i = 0; i < ROUNDS; i++) {
        const orr_order *order;
        orr_arena_reset(arena);
        double start = now_us();
        if (orr_order_build(arena, &s->spec, d, &order, NULL) != ORR_OK) {
            return -1;
        }
        double took = now_us() - start;
        best = took < best ? took : best;
    }
    orr_arena_free(arena);
    return best;
}

static double best_play(const orr_order *order, const orr_durations *d, bool full,
                        orr_arena *scratch) {
    double best = 1e30;
    for (int i = 0; i < ROUNDS; i++) {
        enum { REPEAT = 20 };
        double start = now_us();
        for (int k = 0; k < REPEAT; k++) {
            orr_play play = {0};
            orr_arena_reset(scratch);
            if (orr_order_play(order, d, full, scratch, &play, NULL) != ORR_OK) {
                return -1;
            }
        }
        double took = (now_us() - start) / REPEAT;
        best = took < best ? took : best;
    }
    return best;
}

static double best_worklist(const orr_order *order, const orr_durations *d, orr_arena *scratch) {
    double best = 1e30;
    for (int i = 0; i < ROUNDS; i++) {
        orr_arena_reset(scratch);
        double start = now_us();
        if (orr_order_times(order, d, scratch, NULL, NULL, NULL, NULL) != ORR_OK) {
            return -1;
        }
        double took = now_us() - start;
        best = took < best ? took : best;
    }
    return best;
}

static void measure(const scene *s) {
    orr_arena *arena = orr_arena_new(), *scratch = orr_arena_new();
    orr_durations d = times_for(arena, s);
    const orr_order *order;
    if (orr_order_build(arena, &s->spec, &d, &order, NULL) == ORR_OK) {
        orr_order_view view = orr_order_look(order);
        double ops = view.op_first[view.spec.pp];
        double full = best_play(order, &d, true, scratch),
               cut = best_play(order, &d, false, scratch);
        double worklist = best_worklist(order, &d, scratch);
        line(s, "ops", ops, "ops");
        line(s, "build", best_build(s, &d), "us");
        line(s, "full", full, "us");
        line(s, "cut", cut, "us");
        line(s, "full_rate", ops / full, "Mops/s");
        line(s, "worklist", worklist, "us");
        line(s, "worklist_rate", ops / worklist, "Mops/s");
    }
    orr_arena_free(scratch);
    orr_arena_free(arena);
}

int main(void) {
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        measure(&scenes[i]);
    }
    return 0;
}
