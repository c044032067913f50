#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include <math.h>

#include "base/arena.h"
#include "base/cholesky.h"
#include "base/err.h"
#include "base/map.h"
#include "base/num.h"
#include "base/text.h"

static void arena_survives_large_and_small(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    char *small = orr_arena_text(arena, "small");
    unsigned char *large = orr_arena_alloc(arena, 1 << 20);
    for (size_t i = 0; i < (1 << 20); i++) {
        assert_int_equal(large[i], 0);
    }
    assert_string_equal(small, "small");
    memset(large, 1, 1 << 20);
    orr_arena_reset(arena);
    assert_int_equal(orr_arena_used(arena), 0);
    unsigned char *again = orr_arena_alloc(arena, 4096);
    for (size_t i = 0; i < 4096; i++) {
        assert_int_equal(again[i], 0);
    }
    assert_string_equal(orr_arena_format(arena, "%d-%s", 7, "x"), "7-x");
    orr_arena_free(arena);
}

static void map_finds_what_was_put(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_map map = {0};
    static int values[1000];
    for (uint32_t i = 0; i < 1000; i++) {
        assert_null(orr_map_get(&map, &i, sizeof i));
        orr_map_put(&map, arena, &i, sizeof i, &values[i]);
    }
    for (uint32_t i = 0; i < 1000; i++) {
        assert_ptr_equal(orr_map_get(&map, &i, sizeof i), &values[i]);
    }
    assert_int_equal(map.used, 1000);
    orr_map_release(&map);
    orr_arena_free(arena);
}

static void names_and_suggestions(void **state) {
    (void)state;
    assert_true(orr_name_equal("Llama-3.1_8B", "llama 31 8b"));
    assert_false(orr_name_equal("h100", "h1000"));
    const char *const names[] = {"a100-80g", "h100", "mi300x"};
    assert_int_equal(orr_name_nearest("H10O", names, 3), 1);
    assert_int_equal(orr_name_nearest("completely-different", names, 3), -1);
}

static void quantities(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {{"80GiB", 80 * ORR_GIB}, {"3.35TB/s", 3.35e12}, {"400Gb/s", 50e9}, {"2k", 2000},
                {"1.5M", 1.5e6},         {"12us", 12e-6},       {"-3", -3},        {"7 GB", 7e9}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        double value = 0;
        assert_true(orr_parse_quantity(good[i].text, &value));
        assert_true(value > good[i].value - 1e-9 * 1e12 && value < good[i].value + 1e-3 * 1e12);
        assert_float_equal((float)(value / good[i].value), 1.0F, 1e-6F);
    }
    static const char *const bad[] = {"", "nan", "inf", "1e999", "0x10", "3 apples", "GiB", "1..2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double value = 0;
        assert_false(orr_parse_quantity(bad[i], &value));
    }
    int64_t n;
    assert_true(orr_parse_int("-12", &n));
    assert_int_equal(n, -12);
    assert_false(orr_parse_int("99999999999999999999", &n));
    assert_false(orr_parse_int("12x", &n));
}

static void reals_print_short_and_exact(void **state) {
    (void)state;
    char out[32];
    orr_format_real(0.05, out);
    assert_string_equal(out, "0.05");
    orr_format_real(-0.0, out);
    assert_string_equal(out, "0");
    orr_format_real(1e15, out);
    assert_string_equal(out, "1000000000000000");
    orr_format_real(1.0 / 3, out);
    double back;
    assert_true(orr_parse_real(out, &back));
    assert_true(back == 1.0 / 3);
}

static void exact_arithmetic(void **state) {
    (void)state;
    uint64_t out;
    assert_false(orr_mul_u64(UINT64_MAX, 2, &out));
    assert_true(orr_mul_u64(1u << 31, 4, &out));
    assert_int_equal(orr_ceil_log2_u64(1), 0);
    assert_int_equal(orr_ceil_log2_u64(8), 3);
    assert_int_equal(orr_ceil_log2_u64(9), 4);
    assert_int_equal(orr_round_up_u64(129, 128), 256);
    assert_int_equal(orr_ps(1e-12), 1);
    assert_int_equal(orr_ps(-1), 0);
}

static void errors_carry_place_and_hint(void **state) {
    (void)state;
    orr_err err = {0};
    orr_status status = orr_fail_at(&err, ORR_E_SCHEMA, (orr_span){"a.yaml", 3, 7}, "bad %s", "x");
    orr_hint(&err, "try %s", "y");
    assert_int_equal(status, ORR_E_SCHEMA);
    assert_int_equal(err.line, 3);
    assert_string_equal(err.file, "a.yaml");
    assert_string_equal(err.message, "bad x");
    assert_string_equal(err.hint, "try y");
    assert_int_equal(orr_fail(NULL, ORR_E_IO, "unseen"), ORR_E_IO);
}

static void positive_definite_systems_are_solved(void **state) {
    (void)state;
    const double of[9] = {4, 2, 1, 2, 5, 3, 1, 3, 6}, want[3] = {1, -2, 3};
    double l[9], b[3] = {0};
    memcpy(l, of, sizeof l);
    for (int i = 0; i < 9; i++) {
        b[i / 3] += of[i] * want[i % 3];
    }
    orr_cholesky(l, 3);
    orr_cholesky_forward(l, 3, b);
    orr_cholesky_back(l, 3, b);
    for (int i = 0; i < 3; i++) {
        assert_true(fabs(b[i] - want[i]) < 1e-12);
    }
    double singular[4] = {1, 1, 1, 1};
    orr_cholesky(singular, 2);
    assert_true(singular[3] > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_survives_large_and_small),
        cmocka_unit_test(map_finds_what_was_put),
        cmocka_unit_test(names_and_suggestions),
        cmocka_unit_test(quantities),
        cmocka_unit_test(reals_print_short_and_exact),
        cmocka_unit_test(exact_arithmetic),
        cmocka_unit_test(errors_carry_place_and_hint),
        cmocka_unit_test(positive_definite_systems_are_solved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
