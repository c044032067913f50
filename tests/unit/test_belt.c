/* The tool belt against the projection itself: what it says must be what single calls say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "belt/belt.h"
#include "doc/doc.h"

typedef struct fixture {
    orr_ctx *ctx;
    orr_arena *arena;
    uint32_t calls, cancel_after;
} fixture;

static orr_status ask(void *user, const char *command, const orr_tree *args, orr_arena *arena,
                      orr_tree **result, orr_err *err) {
    fixture *f = (fixture *)user;
    f->calls++;
    return orr_call(f->ctx, command, args, arena, result, err);
}

static bool go_on(void *user, const char *what, double done, double total) {
    fixture *f = (fixture *)user;
    (void)what;
    assert_true(done <= total);
    return f->cancel_after == 0 || f->calls < f->cancel_after;
}

static int set_up(void **state) {
    static fixture f;
    orr_err err = {0};
    f = (fixture){.arena = orr_arena_new()};
    *state = &f;
    return orr_ctx_new(NULL, &f.ctx, &err) == ORR_OK ? 0 : 1;
}

static int tear_down(void **state) {
    fixture *f = (fixture *)*state;
    orr_ctx_free(f->ctx);
    orr_arena_free(f->arena);
    return 0;
}

static const orr_tree *read(const fixture *f, const char *text) {
    orr_tree *tree = NULL;
    orr_err err = {0};
    assert_int_equal(orr_yaml_read(f->arena, "text", text, strlen(text), &tree, &err), ORR_OK);
    return tree;
}

static const char moe[] = "{model: mixtral-8x22b, hardware: mi355x, gpus: 32, pp: 4, ep: 8, gbs: "
                          "512, seq: 4096, software: megatron-core}";

static double single(fixture *f, const orr_tree *base, const orr_tree *overrides) {
    orr_tree *envelope = NULL;
    orr_err err = {0};
    assert_int_equal(orr_call(f->ctx, "project", orr_belt_merge(f->arena, base, overrides),
                              f->arena, &envelope, &err),
                     ORR_OK);
    return orr_tree_real(orr_tree_path(envelope, "result.tokens_per_s_per_gpu"), 0);
}

#define TOOL(f)                                                                                    \
    const orr_oracle oracle = {.call = ask, .progress = go_on, .user = (f)};                       \
    orr_tree *out = orr_tree_new_map((f)->arena);                                                  \
    orr_err err = {0}

static void merging_overrides_and_removes(void **state) {
    fixture *f = (fixture *)*state;
    const orr_tree *merged =
        orr_belt_merge(f->arena, read(f, "{a: 1, b: 2, c: 3}"), read(f, "{b: null, c: 4, d: 5}"));
    assert_string_equal(orr_write_json(f->arena, merged, false), "{\"a\":1,\"c\":4,\"d\":5}");
}

static void a_plan_has_one_identifier_however_it_is_spelled(void **state) {
    fixture *f = (fixture *)*state;
    TOOL(f);
    (void)out;
    const orr_tree *base = read(f, moe);
    orr_belt_plan a, b, c;
    assert_int_equal(orr_belt_project(&oracle, f->arena, base, read(f, "{vpp: 1}"), &a, &err),
                     ORR_OK);
    assert_int_equal(orr_belt_project(&oracle, f->arena, base,
                                      read(f, "{vpp: '1', schedule: 1f1b, mbs: 1}"), &b, &err),
                     ORR_OK);
    assert_int_equal(orr_belt_project(&oracle, f->arena, base, read(f, "{mbs: 2}"), &c, &err),
                     ORR_OK);
    assert_string_equal(a.id, b.id);
    assert_string_not_equal(a.id, c.id);
}

static void evaluation_says_what_single_calls_say(void **state) {
    fixture *f = (fixture *)*state;
    TOOL(f);
    const orr_tree *base = read(f, moe);
    const orr_tree *plans = read(f, "[{mbs: 2}, {vpp: 2}, {tp: 7}, {bogus: 1}, {recompute: full}]");
    assert_int_equal(orr_belt_evaluate(&oracle, f->arena, base, plans, out, &err), ORR_OK);
    const orr_tree *rows = orr_tree_get(out, "rows");
    assert_int_equal(orr_tree_size(rows), 5);
    double best = 0;
    int64_t best_at = -1;
    for (int64_t i = 0; i < 5; i++) {
        const orr_tree *row = orr_tree_at(rows, (size_t)i);
        if (i == 2 || i == 3) {
            assert_false(orr_tree_bool(orr_tree_get(row, "legal"), true));
            continue;
        }
        double own = single(f, base, orr_tree_at(plans, (size_t)i));
        double told = orr_tree_real(orr_tree_get(row, "tokens_per_s_per_gpu"), 0);
        assert_true(told > own - 0.06 && told < own + 0.06);
        best_at = own > best ? i : best_at;
        best = own > best ? own : best;
        assert_int_equal(orr_tree_size(orr_tree_get(row, "bottlenecks")), 3);
    }
    assert_int_equal(orr_tree_int(orr_tree_get(out, "best"), -1), best_at);
    assert_non_null(strstr(orr_write_json(f->arena, orr_tree_at(rows, 2), false), "PAR-TP-01"));
    assert_non_null(strstr(orr_write_json(f->arena, orr_tree_at(rows, 3), false), "bogus"));
    /* Batches are bounded, and hold maps. */
    static const char *const bad[] = {"[]", "{a: 1}", "[1]",
                                      "[{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(orr_belt_evaluate(&oracle, f->arena, base, read(f, bad[i]), out, &err),
                         ORR_E_SCHEMA);
    }
}

static void neighbors_are_legal_sorted_and_one_step_away(void **state) {
    fixture *f = (fixture *)*state;
    TOOL(f);
    const orr_tree *base = read(f, moe);
    assert_int_equal(orr_belt_neighbors(&oracle, f->arena, base, NULL, out, &err), ORR_OK);
    const orr_tree *rows = orr_tree_get(out, "rows");
    assert_true(orr_tree_size(rows) > 15);
    bool fits = true;
    double last = 1e30;
    for (size_t i = 0; i < orr_tree_size(rows); i++) {
        const orr_tree *row = orr_tree_at(rows, i);
        double now = orr_tree_real(orr_tree_get(row, "tokens_per_s_per_gpu"), 0);
        bool now_fits = orr_tree_bool(orr_tree_get(row, "fits"), false);
        assert_true(now_fits <= fits);
        assert_true(now <= last || now_fits != fits);
        last = now;
        fits = now_fits;
        if (i % 5 == 0) {
            double own = single(f, base, orr_tree_get(row, "plan"));
            assert_true(now > own - 0.06 && now < own + 0.06);
        }
        int64_t mbs = orr_tree_int(orr_tree_path(row, "plan.mbs"), 2);
        assert_int_equal(mbs, 2); /* powers of two, one step from 1 */
    }
    out = orr_tree_new_map(f->arena);
    assert_int_equal(orr_belt_neighbors(&oracle, f->arena, base, read(f, "[precision]"), out, &err),
                     ORR_OK);
    assert_non_null(orr_tree_path(out, "rows.0.plan.precision"));
    assert_int_equal(orr_belt_neighbors(&oracle, f->arena, base, read(f, "[model]"), out, &err),
                     ORR_E_NAME);
    assert_non_null(strstr(err.hint, "recompute"));
}

static void comparison_accounts_for_the_difference(void **state) {
    fixture *f = (fixture *)*state;
    TOOL(f);
    assert_int_equal(orr_belt_compare(&oracle, f->arena, read(f, moe),
                                      read(f, "{mbs: 2, recompute: full}"), out, &err),
                     ORR_OK);
    double sum = 0;
    const orr_tree *time = orr_tree_get(out, "time_s");
    for (size_t i = 0; i < orr_tree_size(time); i++) {
        sum += orr_tree_real(orr_tree_get(orr_tree_at(time, i), "more"), 0);
    }
    double more = orr_tree_real(orr_tree_path(out, "b.step_time_s"), 0) -
                  orr_tree_real(orr_tree_path(out, "a.step_time_s"), 0);
    assert_true(sum - more < 2e-3 && more - sum < 2e-3);
    assert_int_equal(orr_tree_size(orr_tree_get(out, "keys")), 2);
}

static void explanation_covers_the_step(void **state) {
    fixture *f = (fixture *)*state;
    const orr_tree *warnings = NULL;
    TOOL(f);
    assert_int_equal(orr_belt_explain(&oracle, f->arena, read(f, moe), out, &warnings, &err),
                     ORR_OK);
    double share = 0;
    const orr_tree *time = orr_tree_get(out, "time");
    for (size_t i = 0; i < orr_tree_size(time); i++) {
        share += orr_tree_real(orr_tree_get(orr_tree_at(time, i), "share"), 0);
    }
    assert_true(share > 0.99 && share < 1.01);
    assert_true(orr_tree_size(orr_tree_get(out, "levers")) > 0);
}

static void sensitivities_have_the_right_sign(void **state) {
    fixture *f = (fixture *)*state;
    TOOL(f);
    assert_int_equal(orr_belt_sensitivity(&oracle, f->arena, read(f, moe), out, &err), ORR_OK);
    const orr_tree *rows = orr_tree_get(out, "rows");
    double sum = 0;
    assert_int_equal(orr_tree_size(rows), 5);
    for (size_t i = 0; i < orr_tree_size(rows); i++) {
        double elasticity = orr_tree_real(orr_tree_get(orr_tree_at(rows, i), "elasticity"), -1);
        assert_true(elasticity >= 0);
        const orr_tree *row = orr_tree_at(rows, i);
        assert_true(orr_tree_real(orr_tree_get(row, "less_10_percent"), 1) <= 0);
        assert_true(orr_tree_real(orr_tree_get(row, "more_10_percent"), -1) >= 0);
        sum += elasticity;
    }
    /* Everything that the machine does takes part of the step; the host and waiting the rest. */
    assert_true(sum > 0.8 && sum < 1.05);
    /* A cluster's own links can be moved too, and the answer stays that of the cluster. */
    const orr_tree *with_cluster =
        orr_belt_merge(f->arena, read(f, moe), read(f, "{cluster: mi355x-node}"));
    out = orr_tree_new_map(f->arena);
    assert_int_equal(orr_belt_sensitivity(&oracle, f->arena, with_cluster, out, &err), ORR_OK);
    double own = single(f, with_cluster, NULL);
    double told = orr_tree_real(orr_tree_path(out, "plan.tokens_per_s_per_gpu"), 0);
    assert_true(told > own * 0.999 && told < own * 1.001);
}

static void cancelling_ends_a_tool(void **state) {
    fixture *f = (fixture *)*state;
    TOOL(f);
    f->cancel_after = 4;
    assert_int_equal(orr_belt_neighbors(&oracle, f->arena, read(f, moe), NULL, out, &err),
                     ORR_E_CANCELLED);
    assert_true(f->calls < 40);
    f->cancel_after = 1;
    assert_int_equal(orr_belt_evaluate(&oracle, f->arena, read(f, moe),
                                       read(f, "[{mbs: 1}, {mbs: 2}]"), out, &err),
                     ORR_E_CANCELLED);
}

static void unreadable_bases_say_why(void **state) {
    fixture *f = (fixture *)*state;
    const orr_tree *warnings = NULL;
    TOOL(f);
    const orr_tree *bad = read(f, "{model: lama-3.1-8b, hardware: h100, gpus: 8}");
    assert_int_equal(orr_belt_explain(&oracle, f->arena, bad, out, &warnings, &err), ORR_E_NAME);
    assert_non_null(strstr(err.hint, "llama-3.1-8b"));
    assert_int_equal(orr_belt_neighbors(&oracle, f->arena, bad, NULL, out, &err), ORR_E_NAME);
    assert_int_equal(orr_belt_sensitivity(&oracle, f->arena, bad, out, &err), ORR_E_NAME);
    assert_int_equal(orr_belt_compare(&oracle, f->arena, bad, read(f, "{tp: 2}"), out, &err),
                     ORR_E_NAME);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(merging_overrides_and_removes),
        CASE(a_plan_has_one_identifier_however_it_is_spelled),
        CASE(evaluation_says_what_single_calls_say),
        CASE(neighbors_are_legal_sorted_and_one_step_away),
        CASE(comparison_accounts_for_the_difference),
        CASE(explanation_covers_the_step),
        CASE(sensitivities_have_the_right_sign),
        CASE(cancelling_ends_a_tool),
        CASE(unreadable_bases_say_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
