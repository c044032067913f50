/* The schedule command as a call: recorded orders in, exact figures out; units; the chart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/arena.h"
#include "base/os_file.h"
#include "orrery/orrery.h"

#include <dirent.h>
#include <math.h>

typedef struct bench {
    orr_ctx *ctx;
    orr_arena *arena;
    orr_tree *args;
} bench;

static bench bench_new(void) {
    bench b = {.arena = orr_arena_new()};
    assert_int_equal(orr_ctx_new(NULL, &b.ctx, NULL), ORR_OK);
    b.args = orr_tree_new_map(b.arena);
    return b;
}

static void bench_free(bench *b) {
    orr_ctx_free(b->ctx);
    orr_arena_free(b->arena);
}

static void put(bench *b, const char *key, const char *value) {
    orr_tree_put_text(b->arena, b->args, key, value);
}

static const orr_tree *run(bench *b) {
    orr_tree *envelope = NULL;
    orr_err err = {0};
    if (orr_call(b->ctx, "schedule", b->args, b->arena, &envelope, &err) != ORR_OK) {
        print_message("%s\n", err.message);
        fail();
    }
    return orr_tree_get(envelope, "result");
}

static double figure(const orr_tree *result, const char *path) {
    return orr_tree_real(orr_tree_path(result, path), NAN);
}

static void near(double got, double want) {
    assert_true(fabs(got - want) <= 1e-9 * fmax(1, fabs(want)));
}

static void recorded_orders_are_exact(void **state) {
    (void)state;
    DIR *folder = opendir(ORR_TEST_DIR "/data/schedules");
    assert_non_null(folder);
    uint32_t checked = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (strstr(entry->d_name, ".json") == NULL) {
            continue;
        }
        bench b = bench_new();
        char path[512];
        (void)snprintf(path, sizeof path, ORR_TEST_DIR "/data/schedules/%s", entry->d_name);
        orr_tree *vector = NULL;
        assert_int_equal(orr_read_file(b.arena, path, &vector, NULL), ORR_OK);
        const char *mode = orr_tree_text(orr_tree_path(vector, "p2p.mode"), "");
        if (orr_tree_get(vector, "order") != NULL && strcmp(mode, "async") == 0) {
            put(&b, "order", path);
            const orr_tree *result = run(&b);
            near(figure(result, "makespan"), figure(vector, "expected.makespan"));
            near(figure(result, "bubble"), figure(vector, "expected.idle_fraction"));
            assert_true(figure(result, "lower_bound") <= figure(result, "makespan") * (1 + 1e-9));
            const orr_tree *peak = orr_tree_get(result, "peak_in_flight");
            const orr_tree *want = orr_tree_path(vector, "peak_in_flight.until_W");
            for (size_t r = 0; r < orr_tree_size(want); r++) {
                assert_int_equal(orr_tree_int(orr_tree_at(peak, r), -1),
                                 orr_tree_int(orr_tree_at(want, r), -2));
            }
            checked++;
        }
        bench_free(&b);
    }
    (void)closedir(folder);
    assert_true(checked >= 5);
}

static void units_and_plain_numbers_agree(void **state) {
    (void)state;
    static const char *const kinds[] = {"1f1b", "zb-h1", "zbv", "gpipe"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        double got[2];
        for (int k = 0; k < 2; k++) {
            bench b = bench_new();
            put(&b, "schedule", kinds[i]);
            put(&b, "pp", "4");
            put(&b, "microbatches", "8");
            put(&b, "f", k ? "1.5ms" : "1.5");
            put(&b, "b", k ? "1700 us" : "1.7");
            put(&b, "w", k ? "1e-3s" : "1");
            put(&b, "p2p", k ? "100us" : "0.1");
            const orr_tree *result = run(&b);
            got[k] = figure(result, "makespan");
            assert_string_equal(orr_tree_text(orr_tree_get(result, "unit"), "?"), k ? "s" : "");
            bench_free(&b);
        }
        near(got[1] * 1000, got[0]);
    }
}

/* Every kind in the list does the same work, the list is sorted, and the Pareto marks are right. */
static void comparison_is_of_equal_work(void **state) {
    (void)state;
    bench b = bench_new();
    put(&b, "schedule", "interleaved");
    put(&b, "pp", "4");
    put(&b, "vpp", "2");
    put(&b, "microbatches", "16");
    put(&b, "f", "1,1,1,1,1,1,1,2");
    put(&b, "b", "2");
    const orr_tree *list = orr_tree_get(run(&b), "compare");
    double before = 0, least = HUGE_VAL;
    assert_true(orr_tree_size(list) > 10);
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        double busy = figure(one, "makespan") * (1 - figure(one, "bubble")) * 4;
        near(busy, 16 * (9 + 16));
        assert_true(figure(one, "makespan") >= before);
        before = figure(one, "makespan");
        assert_int_equal(orr_tree_bool(orr_tree_get(one, "pareto"), false),
                         figure(one, "peak_stages") < least);
        least = fmin(least, figure(one, "peak_stages"));
    }
    bench_free(&b);
}

static void chart_has_every_op(void **state) {
    (void)state;
    bench b = bench_new();
    char path[] = "/tmp/orr-gantt-XXXXXX", *text = NULL;
    size_t length = 0, boxes = 0;
    int file = mkstemp(path);
    assert_true(file >= 0);
    put(&b, "pp", "3");
    put(&b, "microbatches", "5");
    put(&b, "svg", path);
    (void)run(&b);
    assert_int_equal(orr_os_read_file(b.arena, path, 1 << 20, &text, &length, NULL), ORR_OK);
    for (const char *p = text; (p = strstr(p, "<title>")) != NULL; p++) {
        boxes++;
    }
    assert_int_equal(boxes, 2 * 3 * 5);
    assert_non_null(strstr(text, "</svg>"));
    (void)remove(path);
    bench_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_orders_are_exact),
        cmocka_unit_test(units_and_plain_numbers_agree),
        cmocka_unit_test(comparison_is_of_equal_work),
        cmocka_unit_test(chart_has_every_op),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
