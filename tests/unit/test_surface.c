/* Surfaces over shapes: text and back, what they are far from rows, what a fit recovers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../arena_fixture.h"
#include "base/arena.h"
#include "base/rng.h"
#include "calibrate/surface.h"

static bool near(double a, double b, double by) {
    return fabs(a - b) <= by;
}

static const orr_surface_plan PLAN = {
    .dims = 2, .step = {{4, 4}, {2, 2}, {1, 1}}, .pull = {0.5, 0.5, 0.5}, .least_rows = 1};

/* Measured over modelled time, as it were: a bump of one octave. */
static double truth(const double *place) {
    return 0.2 * exp(-pow(place[0] - 6, 2)) - 0.01 * place[1];
}

static orr_surface *fitted(double (*place)[ORR_SURFACE_DIMS], size_t count) {
    double *residual = ORR_NEW_ARRAY(arena, double, count);
    double *weight = ORR_NEW_ARRAY(arena, double, count);
    orr_rng rng = {7};
    for (size_t i = 0; i < count; i++) {
        place[i][0] = 2 + 8 * orr_rng_unit(&rng);
        place[i][1] = 1 + 5 * orr_rng_unit(&rng);
        residual[i] = truth(place[i]);
        weight[i] = 1;
    }
    orr_surface *surface = ORR_NEW(arena, orr_surface);
    orr_surface_fit(arena, &PLAN, (const double(*)[ORR_SURFACE_DIMS])place, residual, weight, count,
                    surface);
    return surface;
}

static void a_fit_recovers_what_is_smooth(void **state) {
    (void)state;
    enum { COUNT = 4000 };
    double(*place)[ORR_SURFACE_DIMS] =
        (double(*)[ORR_SURFACE_DIMS])orr_arena_array(arena, COUNT, sizeof *place);
    const orr_surface *surface = fitted(place, COUNT);
    double worst = 0;
    for (size_t i = 0; i < COUNT; i++) {
        worst = fmax(worst, fabs(orr_surface_log(surface, place[i]) - truth(place[i])));
    }
    assert_true(worst < 0.05);
    assert_true(near(orr_surface_log(surface, place[0]), truth(place[0]), 0.03));
    /* constant beyond the coarsest cells */
    const double edge[ORR_SURFACE_DIMS] = {0, 3}, beyond[ORR_SURFACE_DIMS] = {-40, 3};
    assert_true(near(orr_surface_log(surface, beyond), orr_surface_log(surface, edge), 1e-9));
    assert_true(near(orr_surface_factor(NULL, edge), 1, 0));
}

/* One of seven layers is twice as slow at every load: a level that is coarse over loads alone says
 * so of a load that was not measured, and nothing of its neighbours. */
static void a_level_holds_what_a_whole_series_shares(void **state) {
    (void)state;
    static const orr_surface_plan plan = {
        .dims = 2, .step = {{4, 4}, {2, 2}, {8, 1}}, .pull = {1, 0.3, 0.1}, .least_rows = 1};
    enum { LAYERS = 7, LOADS = 5, SLOW = 3 };
    double place[LAYERS * LOADS][ORR_SURFACE_DIMS] = {{0}};
    double residual[LAYERS * LOADS], weight[LAYERS * LOADS];
    for (int i = 0; i < LAYERS * LOADS; i++) {
        place[i][0] = 4 + (i % LOADS) * (i % LOADS < 2 ? 1.0 : 1.5); /* none at 6.5 */
        place[i][1] = i / LOADS;
        residual[i] = i / LOADS == SLOW ? 0.7 : 0;
        weight[i] = 0.3;
    }
    orr_surface surface;
    orr_surface_fit(arena, &plan, (const double(*)[ORR_SURFACE_DIMS])place, residual, weight,
                    LAYERS * LOADS, &surface);
    const double slow[ORR_SURFACE_DIMS] = {6.5, SLOW}, beside[ORR_SURFACE_DIMS] = {6.5, SLOW + 1};
    assert_true(near(orr_surface_log(&surface, slow), 0.7, 0.15));
    assert_true(near(orr_surface_log(&surface, beside), 0, 0.15));
}

/* Levels end where a plan has no step; up to four count, each by what those before leave. */
static void a_plan_says_how_many_levels(void **state) {
    (void)state;
    orr_surface_plan plan = {
        .dims = 1, .step = {{8}, {4}, {2}, {1}}, .pull = {1, 1, 1, 0.1}, .least_rows = 1};
    enum { COUNT = 32 };
    double place[COUNT][ORR_SURFACE_DIMS] = {{0}}, residual[COUNT], weight[COUNT];
    for (int i = 0; i < COUNT; i++) { /* every other octave is slow: the finest alone tells */
        place[i][0] = i % 16;
        residual[i] = i % 2 == 0 ? 0.4 : -0.4;
        weight[i] = 1;
    }
    orr_surface fine, coarse;
    const double(*at)[ORR_SURFACE_DIMS] = (const double(*)[ORR_SURFACE_DIMS])place;
    orr_surface_fit(arena, &plan, at, residual, weight, COUNT, &fine);
    plan.step[3][0] = 0;
    orr_surface_fit(arena, &plan, at, residual, weight, COUNT, &coarse);
    assert_int_equal(fine.levels, 4);
    assert_int_equal(coarse.levels, 3);
    assert_true(near(orr_surface_log(&fine, place[6]), 0.4, 0.1));
    assert_true(orr_surface_log(&coarse, place[6]) < 0.35);
}

static void text_comes_back(void **state) {
    (void)state;
    enum { COUNT = 300 };
    double(*place)[ORR_SURFACE_DIMS] =
        (double(*)[ORR_SURFACE_DIMS])orr_arena_array(arena, COUNT, sizeof *place);
    const orr_surface *surface = fitted(place, COUNT);
    orr_text text = orr_text_new(arena, 1 << 20), again = orr_text_new(arena, 1 << 20);
    orr_surface_write(&text, surface);
    const char *line = orr_text_done(&text);
    orr_surface *back = NULL;
    orr_err err = {0};
    const orr_span at = {0};
    assert_int_equal(orr_surface_read(arena, line, at, &back, &err), ORR_OK);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(
            near(orr_surface_log(back, place[i]), orr_surface_log(surface, place[i]), 1e-6));
    }
    orr_surface_write(&again, back);
    assert_string_equal(orr_text_done(&again), line);
}

static void nonsense_is_refused(void **state) {
    (void)state;
    static const char *const lines[] = {
        "",
        "1",
        "6 1",
        "1 1 0 0 1 5",                   /* a step of nothing */
        "1 1 1 0 2 5",                   /* a cell short */
        "1 1 1 0 2 5 6 7",               /* one too many */
        "1 1 1 0 2 ~3",                  /* a run too long */
        "1 1 1 0 2 ~-1 5",               /* a run backwards */
        "1 1 1 0 2 5 x",                 /* not a number */
        "3 1 1 1 1 0 0 0 4000 4000 4000" /* too many cells */
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        orr_surface *out = NULL;
        orr_err err = {0};
        const orr_span at = {"x.yaml", 3, 5};
        assert_int_equal(orr_surface_read(arena, lines[i], at, &out, &err), ORR_E_SCHEMA);
    }
    orr_surface *good = NULL;
    const orr_span at = {0};
    assert_int_equal(orr_surface_read(arena, "1 1 1 -2 3 50 ~1 -100", at, &good, NULL), ORR_OK);
    const double place[ORR_SURFACE_DIMS] = {-2}, between[ORR_SURFACE_DIMS] = {-0.5};
    assert_true(near(orr_surface_log(good, place), 0.1, 1e-6));
    assert_true(near(orr_surface_log(good, between), -0.1, 1e-6));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_fit_recovers_what_is_smooth, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(a_level_holds_what_a_whole_series_shares, open_arena,
                                        close_arena),
        cmocka_unit_test_setup_teardown(a_plan_says_how_many_levels, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(text_comes_back, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(nonsense_is_refused, open_arena, close_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
