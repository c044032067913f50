/* Closed forms of the schedules (docs/internals/schedules.md) against the engine, for random sizes
 * and times: makespan or longest rank span, and the peaks in flight of every rank. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/rng.h"
#include "schedule/schedule.h"

enum { MAX_PP = 12, MAX_CHUNKS = MAX_PP * 4 };

/* Sizes and uniform times of one trial: per chunk f, b, w; c a hop. */
typedef struct trial {
    orr_schedule_spec s;
    int64_t p, v, m, g, f, b, w, c;
    int64_t makespan, span;
    uint32_t until_w[MAX_PP], until_b[MAX_PP];
} trial;

static void play(trial *t) {
    int64_t f[MAX_CHUNKS], b[MAX_CHUNKS], w[MAX_CHUNKS], hop[MAX_PP];
    for (int i = 0; i < MAX_CHUNKS; i++) {
        f[i] = t->f;
        b[i] = t->b;
        w[i] = t->w;
    }
    for (int i = 0; i < MAX_PP; i++) {
        hop[i] = t->c;
    }
    t->s.pp = (uint32_t)t->p;
    t->s.vpp = (uint32_t)t->v;
    t->s.micro_batches = (uint32_t)t->m;
    t->s.group = (uint32_t)t->g;
    orr_arena *arena = orr_arena_new();
    orr_durations d = {.f = f, .b = b, .w = w, .hop = hop};
    const orr_order *order;
    orr_play result = {0};
    orr_err err = {0};
    if (orr_order_build(arena, &t->s, &d, &order, &err) != ORR_OK) {
        fail_msg("%s pp %u vpp %u m %u: %s", orr_schedule_name((orr_schedule_kind)t->s.kind),
                 t->s.pp, t->s.vpp, t->s.micro_batches, err.message);
    }
    assert_int_equal(orr_order_play(order, &d, false, arena, &result, NULL), ORR_OK);
    t->makespan = result.makespan;
    t->span = result.max_span;
    orr_order_peaks(order, &(orr_peaks){t->until_w, t->until_b, NULL});
    orr_arena_free(arena);
}

static int64_t below(orr_rng *rng, int64_t low, int64_t high) {
    return low + orr_rng_below(rng, (uint32_t)(high - low + 1));
}

static trial random_trial(orr_rng *rng, orr_schedule_kind kind, orr_p2p_mode p2p) {
    trial t = {.s = {.kind = (uint8_t)kind, .p2p = (uint8_t)p2p}};
    t.p = below(rng, 2, 8);
    t.v = 1;
    t.f = below(rng, 1000, 2000);
    t.b = below(rng, 1000, 2000);
    t.w = below(rng, 500, 1000);
    return t;
}

static int64_t sum(const trial *t) {
    return t->f + t->b + t->w;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

enum { TRIALS = 60 };

static void gpipe(void **state) {
    (void)state;
    orr_rng rng = {1};
    for (int i = 0; i < TRIALS; i++) {
        trial t = random_trial(&rng, ORR_SCHEDULE_GPIPE, ORR_P2P_ASYNC);
        t.m = below(&rng, 1, 30);
        t.c = below(&rng, 0, 90);
        play(&t);
        assert_int_equal(t.makespan, (t.m + t.p - 1) * sum(&t) + 2 * (t.p - 1) * t.c);
        assert_int_equal(t.until_w[t.p - 1], t.m);
    }
}

static void one_f_one_b(void **state) {
    (void)state;
    orr_rng rng = {2};
    for (int i = 0; i < TRIALS; i++) {
        trial t = random_trial(&rng, ORR_SCHEDULE_1F1B, (orr_p2p_mode)(i % 2));
        t.m = below(&rng, 1, 40);
        play(&t);
        assert_int_equal(t.makespan, (t.m + t.p - 1) * sum(&t));
        for (int64_t r = 0; r < t.p; r++) {
            assert_int_equal(t.until_w[r], least(t.p - r, t.m));
        }
    }
}

static void one_f_one_b_with_hops(void **state) {
    (void)state;
    orr_rng rng = {3};
    for (int i = 0; i < TRIALS; i++) {
        trial t = random_trial(&rng, ORR_SCHEDULE_1F1B, (orr_p2p_mode)(i % 2));
        bool blocking = t.s.p2p == ORR_P2P_BLOCKING;
        t.p = below(&rng, blocking ? 3 : 2, 8);
        t.m = blocking ? below(&rng, t.p, 40) : t.p * below(&rng, 1, 6);
        t.c = below(&rng, 0, 3);
        play(&t);
        int64_t hops =
            blocking ? 2 * t.m + 2 * t.p - 5 : 2 * (t.p - 1) * (t.m / t.p) + 2 * (t.p - 2);
        assert_int_equal(t.makespan, (t.m + t.p - 1) * sum(&t) + hops * t.c);
    }
}

static void interleaved(void **state) {
    (void)state;
    orr_rng rng = {4};
    for (int i = 0; i < TRIALS; i++) {
        trial t = random_trial(&rng, ORR_SCHEDULE_INTERLEAVED, (orr_p2p_mode)(i % 4));
        t.v = below(&rng, 2, 4);
        t.m = t.p * below(&rng, 1, 5);
        t.c = below(&rng, 0, 3);
        play(&t);
        int64_t hops =
            t.s.p2p == ORR_P2P_BLOCKING ? t.v * t.m + t.p * t.v + t.p - 3 : 2 * (t.p * t.v - 1);
        assert_int_equal(t.makespan, (t.v * t.m + t.p - 1) * sum(&t) + hops * t.c);
        for (int64_t r = 0; r < t.p; r++) {
            int64_t warm = 2 * (t.p - r - 1) + (t.v - 1) * t.p;
            assert_int_equal(t.until_w[r], least(t.m * t.v, warm + 1));
        }
    }
}

static void looped_bfs(void **state) {
    (void)state;
    orr_rng rng = {5};
    for (int i = 0; i < TRIALS; i++) {
        trial t = random_trial(&rng, ORR_SCHEDULE_LOOPED_BFS, ORR_P2P_ASYNC);
        t.v = below(&rng, 1, 4);
        t.m = below(&rng, t.p, 24);
        play(&t);
        assert_int_equal(t.makespan, (t.v * t.m + t.p - 1) * sum(&t));
        assert_int_equal(t.until_w[0], t.m * t.v);
    }
}

static void zero_bubble(void **state) {
    (void)state;
    orr_rng rng = {6};
    for (int i = 0; i < TRIALS; i++) {
        bool second = i % 2 != 0;
        trial t =
            random_trial(&rng, second ? ORR_SCHEDULE_ZB_H2 : ORR_SCHEDULE_ZB_H1, ORR_P2P_ASYNC);
        t.m = below(&rng, 2 * t.p, 40);
        play(&t);
        assert_int_equal(t.span, t.m * sum(&t) + (t.p - 1) * (t.f + t.b - (second ? 2 : 1) * t.w));
        for (int64_t r = 0; r < t.p; r++) {
            assert_int_equal(t.until_w[r], second ? 2 * t.p - 1 : t.p);
            assert_int_equal(t.until_b[r], second ? 2 * (t.p - r) - 1 : t.p - r);
        }
    }
}

static void interleaved_zb(void **state) {
    (void)state;
    orr_rng rng = {7};
    for (int i = 0; i < TRIALS; i++) {
        trial t = random_trial(&rng, ORR_SCHEDULE_INTERLEAVED_ZB, ORR_P2P_ASYNC);
        t.v = below(&rng, 2, 4);
        t.m = t.p * below(&rng, 1, 4);
        play(&t);
        assert_int_equal(t.makespan, t.v * t.m * sum(&t) + (t.p - 1) * (t.f + t.b - t.w));
        for (int64_t r = 0; r < t.p; r++) {
            assert_int_equal(t.until_w[r], t.v * t.p);
            assert_int_equal(t.until_b[r], t.v * t.p - r);
        }
    }
}

static void zbv(void **state) {
    (void)state;
    orr_rng rng = {8};
    for (int i = 0; i < TRIALS; i++) {
        trial t = random_trial(&rng, ORR_SCHEDULE_ZBV, ORR_P2P_ASYNC);
        t.v = 2;
        t.m = below(&rng, 2 * t.p, 40);
        t.b = below(&rng, t.f, 2 * t.f);
        t.w = below(&rng, 1, t.f);
        if (i % 3 == 0) {
            t.b = t.w = t.f;
        }
        play(&t);
        int64_t hop = t.b > 2 * (t.b - t.w) ? t.b : 2 * (t.b - t.w);
        assert_int_equal(t.makespan, 2 * t.m * sum(&t) + (t.p - 1) * hop);
        if (i % 3 == 0) {
            assert_int_equal(t.span, 6 * t.m * t.f);
        }
        for (int64_t r = 0; r < t.p; r++) {
            assert_int_equal(t.until_w[r], 2 * t.p);
        }
    }
}

static void v_half_and_v_min(void **state) {
    (void)state;
    orr_rng rng = {9};
    for (int i = 0; i < TRIALS; i++) {
        bool minimum = i % 2 != 0;
        trial t =
            random_trial(&rng, minimum ? ORR_SCHEDULE_V_MIN : ORR_SCHEDULE_V_HALF, ORR_P2P_ASYNC);
        t.v = 2;
        t.m = below(&rng, 2 * t.p, 40);
        t.b = t.w = t.f;
        t.p = below(&rng, 4, 8);
        play(&t);
        int64_t extra = minimum ? (t.p % 3 == 0 ? 4 * t.p - 7 : 4 * t.p - 5)
                                : (t.p % 2 == 0 ? 3 * t.p - 7 : 3 * t.p - 4);
        int64_t peak = minimum ? 2 * ((t.p + 2 + 2) / 3) : t.p % 2 == 0 ? t.p + 2 : t.p + 1;
        uint32_t most = 0;
        for (int64_t r = 0; r < t.p; r++) {
            most = t.until_w[r] > most ? t.until_w[r] : most;
        }
        if (t.m >= 2 * t.p) {
            assert_int_equal(t.span, (6 * t.m + extra) * t.f);
            assert_int_equal(most, peak);
        }
    }
}

static void v_adaptive(void **state) {
    (void)state;
    for (int64_t p = 3; p <= 5; p++) {
        for (int64_t limit = 2 * ((p + 2 + 2) / 3); limit <= 2 * p; limit++) {
            trial t = {.s = {.kind = ORR_SCHEDULE_V_ADAPTIVE, .memory_limit = (uint32_t)limit}};
            t.p = p;
            t.v = 2;
            t.m = 2 * p;
            t.f = t.b = t.w = 1000;
            play(&t);
            int64_t half = 3 * p, turn = p - 1 + 2 * (1 + (limit + 1) / 2);
            int64_t bubble = 3 * p - 1 - 3 * limit + (half > turn ? half : turn);
            assert_true(t.span <= 1000 * (6 * t.m + bubble));
            for (int64_t r = 0; r < p; r++) {
                assert_true(t.until_w[r] <= limit);
            }
        }
    }
}

static void dualpipe(void **state) {
    (void)state;
    orr_rng rng = {10};
    for (int i = 0; i < TRIALS; i++) {
        trial t = random_trial(&rng, ORR_SCHEDULE_DUALPIPE, ORR_P2P_ASYNC);
        t.v = 2;
        t.p = i % 2 != 0 ? 4 : 8;
        t.m = 2 * below(&rng, t.p, 24);
        t.b = below(&rng, t.f, 2 * t.f);
        t.w = below(&rng, 1, t.f);
        play(&t);
        /* on 8 ranks a long backward shows: past 4/3 of a forward it is on the critical path */
        int64_t late = 3 * t.b > 4 * t.f ? 3 * t.b - 4 * t.f : 0;
        int64_t pair = sum(&t);
        int64_t form = t.p == 4 ? (t.m - 4) * pair + 6 * t.f + 5 * t.b + 3 * t.w
                                : (t.m - 6) * pair + 12 * t.f + 9 * t.b + 3 * t.w + late;
        assert_int_equal(t.makespan, form);
        for (int64_t r = 0; r < t.p; r++) {
            assert_int_equal(t.until_w[r], t.p + 1);
        }
    }
}

/* DualPipeV on P ranks takes as long as DualPipe on 2 P with twice the micro-batches. */
static void dualpipev(void **state) {
    (void)state;
    orr_rng rng = {11};
    for (int i = 0; i < TRIALS; i++) {
        trial v = random_trial(&rng, ORR_SCHEDULE_DUALPIPEV, ORR_P2P_ASYNC);
        v.v = 2;
        v.p = below(&rng, 2, 5);
        v.m = below(&rng, 2 * v.p, 24);
        trial two = v;
        two.s.kind = ORR_SCHEDULE_DUALPIPE;
        two.p = 2 * v.p;
        two.m = 2 * v.m;
        play(&v);
        play(&two);
        assert_int_equal(v.makespan, two.makespan);
        assert_int_equal(v.until_w[0], 2 * v.p + 1);
    }
}

static void chimera(void **state) {
    (void)state;
    orr_rng rng = {12};
    for (int i = 0; i < TRIALS; i++) {
        trial t = random_trial(&rng, ORR_SCHEDULE_CHIMERA, ORR_P2P_ASYNC);
        t.v = 2;
        t.p = 2 * below(&rng, 1, 4);
        t.m = t.p * below(&rng, 1, 4);
        t.b = t.f / 3;
        t.w = t.f - t.b;
        play(&t);
        assert_int_equal(t.makespan, t.m * 2 * t.f + (t.p - 2) * t.f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpipe),
        cmocka_unit_test(one_f_one_b),
        cmocka_unit_test(one_f_one_b_with_hops),
        cmocka_unit_test(interleaved),
        cmocka_unit_test(looped_bfs),
        cmocka_unit_test(zero_bubble),
        cmocka_unit_test(interleaved_zb),
        cmocka_unit_test(zbv),
        cmocka_unit_test(v_half_and_v_min),
        cmocka_unit_test(v_adaptive),
        cmocka_unit_test(dualpipe),
        cmocka_unit_test(dualpipev),
        cmocka_unit_test(chimera),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
