/* The balanced split against trying every cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/rng.h"
#include "schedule/schedule.h"

enum { LAYERS = 10, CHUNKS = 6 };

typedef struct trial {
    orr_balance b;
    int64_t time[LAYERS];
    uint64_t fixed[LAYERS], live[LAYERS];
    uint32_t in_flight[CHUNKS];
    int64_t best;      /* longest chunk */
    int64_t deviation; /* of the most even cut that reaches it */
} trial;

static void make_trial(trial *t, orr_rng *rng) {
    memset(t, 0, sizeof *t);
    t->b.layers = 1 + orr_rng_below(rng, LAYERS);
    t->b.vpp = 1 + orr_rng_below(rng, 2);
    t->b.pp = 1 + orr_rng_below(rng, CHUNKS / t->b.vpp);
    t->b.least = orr_rng_below(rng, 2);
    t->b.first_ps = orr_rng_below(rng, 30);
    t->b.last_ps = orr_rng_below(rng, 60);
    t->b.cap_bytes = orr_rng_below(rng, 2) ? 40 + orr_rng_below(rng, 300) : 0;
    for (uint32_t i = 0; i < LAYERS; i++) {
        t->time[i] = orr_rng_below(rng, 40);
        t->fixed[i] = orr_rng_below(rng, 20);
        t->live[i] = orr_rng_below(rng, 10);
    }
    for (uint32_t i = 0; i < CHUNKS; i++) {
        t->in_flight[i] = orr_rng_below(rng, 6);
    }
    t->b.first_bytes = orr_rng_below(rng, 20);
    t->b.time_ps = t->time;
    t->b.static_bytes = t->fixed;
    t->b.live_bytes = t->live;
    t->b.in_flight = t->in_flight;
}

/* Time of layers from..end as chunk k of the chain; -1: too large. */
static int64_t chunk_time(const trial *t, uint32_t k, uint32_t from, uint32_t end) {
    uint32_t last = t->b.pp * t->b.vpp - 1;
    uint64_t bytes = (k == 0 ? t->b.first_bytes : 0) + (k == last ? t->b.last_bytes : 0);
    int64_t time = (k == 0 ? t->b.first_ps : 0) + (k == last ? t->b.last_ps : 0);
    for (uint32_t i = from; i < end; i++) {
        time += t->time[i];
        bytes += t->fixed[i] + t->live[i] * t->in_flight[k % t->b.pp * t->b.vpp + k / t->b.pp];
    }
    return t->b.cap_bytes != 0 && bytes > t->b.cap_bytes / t->b.vpp ? -1 : time;
}

static void try_cuts(trial *t, uint32_t k, uint32_t from, int64_t longest, int64_t deviation) {
    uint32_t chunks = t->b.pp * t->b.vpp;
    int64_t total = t->b.first_ps + t->b.last_ps;
    for (uint32_t i = 0; i < t->b.layers; i++) {
        total += t->time[i];
    }
    if (k == chunks) {
        if (from == t->b.layers &&
            (longest < t->best || (longest == t->best && deviation < t->deviation))) {
            t->best = longest;
            t->deviation = deviation;
        }
        return;
    }
    for (uint32_t end = from + t->b.least; end <= t->b.layers; end++) {
        int64_t time = chunk_time(t, k, from, end);
        if (time >= 0) {
            int64_t off = time * chunks - total;
            try_cuts(t, k + 1, end, time > longest ? time : longest,
                     deviation + (off < 0 ? -off : off));
        }
    }
}

static void judge(trial *t, const uint32_t *count, const uint32_t *offset, int64_t worst) {
    uint32_t chunks = t->b.pp * t->b.vpp, next = 0;
    int64_t total = t->b.first_ps + t->b.last_ps, deviation = 0, longest = 0;
    for (uint32_t i = 0; i < t->b.layers; i++) {
        total += t->time[i];
    }
    for (uint32_t k = 0; k < chunks; k++) {
        uint32_t at = k % t->b.pp * t->b.vpp + k / t->b.pp;
        assert_int_equal(offset[at], next);
        assert_true(count[at] >= t->b.least);
        next += count[at];
        int64_t time = chunk_time(t, k, offset[at], next);
        assert_true(time >= 0);
        longest = time > longest ? time : longest;
        int64_t off = time * chunks - total;
        deviation += off < 0 ? -off : off;
    }
    assert_int_equal(next, t->b.layers);
    assert_int_equal(longest, worst);
    assert_int_equal(longest, t->best);
    assert_int_equal(deviation, t->deviation);
}

static void balance_is_best(void **state) {
    (void)state;
    orr_rng rng = {5};
    uint32_t solved = 0, refused = 0;
    for (uint32_t n = 0; n < 1500; n++) {
        trial t;
        make_trial(&t, &rng);
        t.best = t.deviation = INT64_MAX;
        try_cuts(&t, 0, 0, 0, 0);
        uint32_t count[CHUNKS], offset[CHUNKS];
        int64_t worst = 0;
        orr_status status = orr_split_balance(&t.b, count, offset, &worst, NULL);
        if (t.best == INT64_MAX) {
            assert_int_equal(status, ORR_E_INFEASIBLE);
            refused++;
        } else {
            assert_int_equal(status, ORR_OK);
            judge(&t, count, offset, worst);
            solved++;
        }
    }
    assert_true(solved > 500);
    assert_true(refused > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(balance_is_best)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
