#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include <math.h>

#include "base/num.h"
#include "memory/memory_int.h"

static void the_half_point_is_one_half(void **state) {
    (void)state;
    orr_software software = {.oom_slope = 17, .oom_half_frac = 0.94};
    double capacity = 79.15 * ORR_GIB;
    assert_true(
        fabs(orr_memory_p_oom(&software, ORR_SURE_PARTLY, 0.94 * capacity, capacity) - 0.5) < 1e-9);
    assert_true(orr_memory_p_oom(&software, ORR_SURE_PARTLY, 0, capacity) == 0);
    assert_true(orr_memory_p_oom(&software, ORR_SURE_PARTLY, capacity, 0) == 1);
    /* 10 % at 0.83, 90 % at 1.07 of the capacity */
    assert_true(fabs(orr_memory_p_oom(&software, ORR_SURE_PARTLY, 0.83 * capacity, capacity) -
                     0.10) < 0.02);
    assert_true(fabs(orr_memory_p_oom(&software, ORR_SURE_PARTLY, 1.07 * capacity, capacity) -
                     0.90) < 0.02);
}

static void guesses_flatten_the_slope(void **state) {
    (void)state;
    orr_software software = {
        .oom_slope = 17, .oom_slope_stated = 30, .oom_slope_guessed = 8, .oom_half_frac = 0.94};
    double below[3];
    static const orr_sureness order[] = {ORR_SURE_STATED, ORR_SURE_PARTLY, ORR_SURE_GUESSED};
    for (int i = 0; i < 3; i++) {
        below[i] = orr_memory_p_oom(&software, order[i], 0.85, 1);
        assert_true(orr_memory_p_oom(&software, order[i], 1.05, 1) > 0.5);
    }
    assert_true(below[0] < below[1] && below[1] < below[2] && below[2] < 0.5);
    assert_true(fabs(below[0] - 1 / (1 + pow(0.94 / 0.85, 30))) < 1e-9);
}

static void p_oom_rises_with_need(void **state) {
    (void)state;
    orr_software software = {.oom_slope = 30, .oom_half_frac = 0.94};
    double before = -1;
    for (int i = 0; i <= 200; i++) {
        double p = orr_memory_p_oom(&software, ORR_SURE_PARTLY, i * 0.01 * ORR_GIB, ORR_GIB);
        assert_true(p >= before && p >= 0 && p <= 1);
        before = p;
    }
}

static void bands_have_their_edges(void **state) {
    (void)state;
    assert_int_equal(orr_memory_band(79, 100), ORR_FITS);
    assert_int_equal(orr_memory_band(80, 100), ORR_TIGHT);
    assert_int_equal(orr_memory_band(96, 100), ORR_TIGHT);
    assert_int_equal(orr_memory_band(96.1, 100), ORR_LIKELY_OOM);
    assert_int_equal(orr_memory_band(107, 100), ORR_LIKELY_OOM);
    assert_int_equal(orr_memory_band(107.1, 100), ORR_OOM);
}

static void everything_has_a_name(void **state) {
    (void)state;
    for (int i = 0; i < ORR_MOMENT_COUNT; i++) {
        assert_string_not_equal(orr_moment_name((orr_moment)i), "?");
    }
    for (int i = 0; i < ORR_PART_COUNT; i++) {
        assert_string_not_equal(orr_memory_part_name((orr_memory_part)i), "?");
    }
    for (int i = 0; i < ORR_ITEM_COUNT; i++) {
        assert_string_not_equal(orr_item_name((orr_item)i), "?");
        assert_true(orr_item_part((orr_item)i) < ORR_PART_COUNT);
    }
    for (int i = ORR_FITS; i <= ORR_OOM; i++) {
        assert_string_not_equal(orr_fit_name((orr_fit_band)i), "?");
    }
}

static void tensors_are_rounded_up(void **state) {
    (void)state;
    assert_true(orr_memory_rounded(0) == 0);
    assert_true(orr_memory_rounded(1) == 512);
    assert_true(orr_memory_rounded(512) == 512);
    assert_true(orr_memory_rounded(513) == 1024);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_half_point_is_one_half), cmocka_unit_test(p_oom_rises_with_need),
        cmocka_unit_test(guesses_flatten_the_slope),  cmocka_unit_test(bands_have_their_edges),
        cmocka_unit_test(everything_has_a_name),      cmocka_unit_test(tensors_are_rounded_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
