/* layout auto against every split there is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/arena.h"
#include "orrery/orrery.h"

#include <math.h>

/* Llama-3.1-8B (32 layers) on two pipeline ranks; layouts NULL: not stated. */
static const orr_tree *project(orr_ctx *ctx, orr_arena *arena, const char *mbs,
                               const char *layout) {
    static const char *const keys[][2] = {{"model", "llama-3.1-8b"},
                                          {"hardware", "h100"},
                                          {"gpus", "8"},
                                          {"pp", "2"},
                                          {"tp", "4"},
                                          {"gbs", "64"},
                                          {"seq", "8192"},
                                          {"recompute", "none"}};
    orr_tree *args = orr_tree_new_map(arena), *envelope = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        orr_tree_put_text(arena, args, keys[i][0], keys[i][1]);
    }
    orr_tree_put_text(arena, args, "mbs", mbs);
    orr_tree_put_text(arena, args, "layout", layout);
    assert_int_equal(orr_call(ctx, "project", args, arena, &envelope, NULL), ORR_OK);
    return envelope;
}

static double step_of(const orr_tree *envelope) {
    return orr_tree_real(orr_tree_path(envelope, "result.step_time_s"), NAN);
}

static bool fits(const orr_tree *envelope) {
    return orr_tree_bool(orr_tree_path(envelope, "result.verdict.fits"), false);
}

/* The best of all 31 splits, of those that fit if any does. */
static double best_of_all(orr_ctx *ctx, orr_arena *arena, const char *mbs, bool *some_fit) {
    double best = HUGE_VAL;
    *some_fit = false;
    for (int first = 1; first < 32; first++) {
        char layout[40];
        (void)snprintf(layout, sizeof layout, "Et*%d|t*%dL", first, 32 - first);
        const orr_tree *envelope = project(ctx, arena, mbs, layout);
        if (fits(envelope) && !*some_fit) {
            *some_fit = true;
            best = HUGE_VAL;
        }
        if (fits(envelope) == *some_fit) {
            best = fmin(best, step_of(envelope));
        }
    }
    return best;
}

static void auto_is_best(void **state) {
    (void)state;
    orr_ctx *ctx = NULL;
    assert_int_equal(orr_ctx_new(NULL, &ctx, NULL), ORR_OK);
    static const char *const sizes[] = {"1", "2", "4"};
    bool gained = false;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        orr_arena *arena = orr_arena_new();
        bool some_fit = false;
        const orr_tree *chosen = project(ctx, arena, sizes[i], "auto");
        double best = best_of_all(ctx, arena, sizes[i], &some_fit);
        assert_true(fits(chosen) || !some_fit);
        /* the objective is the longest stage, and the step more than that */
        assert_true(step_of(chosen) <= 1.002 * best);
        gained = gained || step_of(chosen) < step_of(project(ctx, arena, sizes[i], "even"));
        assert_non_null(orr_tree_get(orr_tree_at(orr_tree_get(chosen, "assumptions"), 0), "why"));
        orr_arena_free(arena);
    }
    assert_true(gained);
    orr_ctx_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(auto_is_best)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
