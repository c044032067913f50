/* Rules, names, given orders and their errors, layer splits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/arena.h"
#include "schedule/schedule.h"

static void names_are_found_and_stable(void **state) {
    (void)state;
    orr_schedule_kind kind;
    for (int k = 0; k < ORR_SCHEDULE_COUNT; k++) {
        assert_true(orr_schedule_find(orr_schedule_name((orr_schedule_kind)k), &kind));
        assert_int_equal(kind, k);
    }
    assert_true(orr_schedule_find("ZB_Auto_2p", &kind));
    assert_int_equal(kind, ORR_SCHEDULE_ZB_2P);
    assert_true(orr_schedule_find("interleaved_1f1b_ep_overlap", &kind));
    assert_int_equal(kind, ORR_SCHEDULE_INTERLEAVED);
    assert_false(orr_schedule_find("zb", &kind));
    assert_string_equal(orr_schedule_name(ORR_SCHEDULE_ZB_H1), "zb-h1");
    assert_int_equal(orr_schedule_default_p2p(ORR_SCHEDULE_1F1B), ORR_P2P_BLOCKING);
    assert_int_equal(orr_schedule_default_p2p(ORR_SCHEDULE_INTERLEAVED), ORR_P2P_OVERLAP);
    assert_int_equal(orr_schedule_default_p2p(ORR_SCHEDULE_ZBV), ORR_P2P_ASYNC);
    assert_int_equal(orr_schedule_fixed_vpp(ORR_SCHEDULE_V_MIN), 2);
    assert_int_equal(orr_schedule_fixed_vpp(ORR_SCHEDULE_INTERLEAVED), 0);
}

static void rules_name_what_is_wrong(void **state) {
    (void)state;
    static const struct {
        orr_schedule_spec spec;
        const char *rule; /* NULL: legal */
    } cases[] = {
        {{.kind = ORR_SCHEDULE_1F1B, .pp = 8, .vpp = 1, .micro_batches = 2}, NULL},
        {{.kind = ORR_SCHEDULE_1F1B, .pp = 8, .vpp = 2, .micro_batches = 8}, "SCH-CHUNKS"},
        {{.kind = ORR_SCHEDULE_1F1B, .pp = 0, .vpp = 1, .micro_batches = 8}, "SCH-PP"},
        {{.kind = ORR_SCHEDULE_1F1B, .pp = 8, .vpp = 1}, "SCH-MICRO-BATCHES"},
        {{.kind = ORR_SCHEDULE_1F1B, .p2p = ORR_P2P_OVERLAP, .pp = 8, .vpp = 1, .micro_batches = 8},
         "SCH-P2P-OVERLAP"},
        {{.kind = ORR_SCHEDULE_INTERLEAVED, .pp = 4, .vpp = 2, .micro_batches = 4}, NULL},
        {{.kind = ORR_SCHEDULE_INTERLEAVED, .pp = 4, .vpp = 2, .micro_batches = 3},
         "SCH-INTERLEAVED-FEW"},
        {{.kind = ORR_SCHEDULE_INTERLEAVED, .pp = 4, .vpp = 2, .micro_batches = 6},
         "SCH-INTERLEAVED-LAST-GROUP"},
        {{.kind = ORR_SCHEDULE_INTERLEAVED, .pp = 4, .vpp = 2, .micro_batches = 9, .group = 5},
         NULL},
        {{.kind = ORR_SCHEDULE_INTERLEAVED, .pp = 4, .vpp = 2, .micro_batches = 9, .group = 3},
         "SCH-INTERLEAVED-GROUP"},
        {{.kind = ORR_SCHEDULE_INTERLEAVED, .pp = 4, .vpp = 2, .micro_batches = 8, .group = 9},
         "SCH-INTERLEAVED-GROUP-LONG"},
        {{.kind = ORR_SCHEDULE_INTERLEAVED, .ep_overlap = 1, .pp = 4, .vpp = 1, .micro_batches = 8},
         "SCH-EP-OVERLAP-VPP"},
        {{.kind = ORR_SCHEDULE_ZB_H2, .pp = 8, .vpp = 1, .micro_batches = 14},
         "SCH-FEW-MICRO-BATCHES"},
        {{.kind = ORR_SCHEDULE_DUALPIPE, .pp = 6, .micro_batches = 13}, "SCH-TWO-WAY"},
        {{.kind = ORR_SCHEDULE_DUALPIPE, .pp = 8, .micro_batches = 14}, "SCH-FEW-MICRO-BATCHES"},
        {{.kind = ORR_SCHEDULE_HANAYO, .pp = 8, .vpp = 3, .micro_batches = 8}, "SCH-WAVES"},
        {{.kind = ORR_SCHEDULE_ZBV, .pp = 4, .micro_batches = 2}, NULL},
        {{.kind = ORR_SCHEDULE_V_HALF, .p2p = ORR_P2P_BLOCKING, .pp = 4, .micro_batches = 8},
         "SCH-P2P-BLOCKING"},
        {{.kind = ORR_SCHEDULE_COUNT, .pp = 4, .micro_batches = 8}, "SCH-KIND"},
        {{.kind = ORR_SCHEDULE_INTERLEAVED, .pp = 1024, .vpp = 128, .micro_batches = 1 << 20},
         "SCH-SIZE"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_schedule_rule rule[4];
        uint32_t count = orr_schedule_check(&cases[i].spec, rule, 4);
        if (cases[i].rule == NULL) {
            assert_int_equal(count, 0);
        } else {
            assert_true(count > 0);
            assert_string_equal(rule[0].id, cases[i].rule);
            assert_true(strlen(rule[0].message) > 10 && strlen(rule[0].hint) > 10);
        }
    }
}

static void illegal_orders_are_refused_with_the_rule(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_schedule_spec s = {.kind = ORR_SCHEDULE_INTERLEAVED, .pp = 4, .vpp = 2, .micro_batches = 6};
    const orr_order *order;
    orr_err err = {0};
    assert_int_equal(orr_order_build(arena, &s, NULL, &order, &err), ORR_E_INFEASIBLE);
    assert_non_null(strstr(err.message, "SCH-INTERLEAVED-LAST-GROUP"));
    s = (orr_schedule_spec){.kind = ORR_SCHEDULE_ZB_2P, .pp = 4, .micro_batches = 8};
    assert_int_equal(orr_order_build(arena, &s, NULL, &order, &err), ORR_E_USAGE);
    int64_t t[4] = {10, 10, 10, 10}, hop[4] = {0};
    orr_durations d = {.f = t, .b = t, .w = t, .hop = hop};
    s.kind = ORR_SCHEDULE_ZB_AUTO;
    s.memory_f = 10;
    s.memory_w = 10;
    s.memory_limit = 5;
    assert_int_equal(orr_order_build(arena, &s, &d, &order, &err), ORR_E_INFEASIBLE);
    assert_non_null(strstr(err.message, "SCH-MEMORY"));
    orr_arena_free(arena);
}

/* Bubble rates that the zero-bubble authors' program prints for their two measured models on 8
 * ranks with 24 micro-batches: times in microseconds, memory of a layer as 34 h + 5 a s and 32 h.
 */
static void automatic_orders_reach_the_published_bubbles(void **state) {
    (void)state;
    static const struct {
        int64_t f, b, w, hop;
        uint32_t memory_f, memory_b, memory_w, limit;
        double bubble;
    } cases[] = {
        {18522, 18086, 9337, 601, 201216, 127488, 73728, 8 * 201216, 0.158520},
        {18522, 18086, 9337, 601, 201216, 127488, 73728, 16 * 201216, 0.043310},
        {29718, 29444, 19927, 527, 303104, 172032, 131072, 8 * 303104, 0.132295},
        {29718, 29444, 19927, 527, 303104, 172032, 131072, 16 * 303104, 0.0029},
    };
    enum { PP = 8, M = 24 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t f[PP], b[PP], w[PP], hop[PP];
        for (int r = 0; r < PP; r++) {
            f[r] = cases[i].f;
            b[r] = cases[i].b;
            w[r] = cases[i].w;
            hop[r] = cases[i].hop;
        }
        orr_arena *arena = orr_arena_new();
        orr_durations d = {.f = f, .b = b, .w = w, .hop = hop};
        orr_schedule_spec s = {.kind = ORR_SCHEDULE_ZB_AUTO,
                               .pp = PP,
                               .micro_batches = M,
                               .memory_limit = cases[i].limit,
                               .memory_f = cases[i].memory_f,
                               .memory_b = cases[i].memory_b,
                               .memory_w = cases[i].memory_w};
        const orr_order *order;
        orr_play play = {0};
        assert_int_equal(orr_order_build(arena, &s, &d, &order, NULL), ORR_OK);
        assert_int_equal(orr_order_play(order, &d, false, arena, &play, NULL), ORR_OK);
        double work = (double)(M * (cases[i].f + cases[i].b + cases[i].w));
        double bubble = 1 - work / (double)play.max_span;
        assert_true(bubble > cases[i].bubble - 5e-5 && bubble < cases[i].bubble + 5e-5);
        orr_arena_free(arena);
    }
}

static void impossible_times_are_refused(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_schedule_spec s = {.kind = ORR_SCHEDULE_1F1B, .pp = 2, .vpp = 1, .micro_batches = 4};
    const orr_order *order;
    assert_int_equal(orr_order_build(arena, &s, NULL, &order, NULL), ORR_OK);
    int64_t good[2] = {5, 5}, bad[2] = {5, -1}, huge[2] = {INT64_MAX, 5};
    orr_durations d = {.f = good, .b = bad};
    orr_play play = {0};
    orr_err err = {0};
    assert_int_equal(orr_order_play(order, &d, false, arena, &play, &err), ORR_E_LIMIT);
    d.b = huge;
    assert_int_equal(orr_order_play(order, &d, false, arena, &play, &err), ORR_E_LIMIT);
    d.b = good; /* w and hop left out: nothing */
    assert_int_equal(orr_order_play(order, &d, false, arena, &play, &err), ORR_OK);
    assert_int_equal(play.makespan, (4 + 2 - 1) * 10);
    orr_arena_free(arena);
}

/* ---- given orders -----------------------------------------------------------------------------
 */

enum { MOST_OPS = 64 };

/* Ranks separated by '|', ops by blanks. */
static orr_status build_given(orr_arena *arena, orr_schedule_spec s, const uint32_t *position,
                              const char *text, const orr_order **order, orr_err *err) {
    orr_sched_op op[MOST_OPS];
    uint32_t first[8] = {0}, rank = 0, count = 0;
    char *copy = orr_arena_text(arena, text);
    while (*copy != '\0') {
        size_t length = strcspn(copy, " |");
        char end = copy[length];
        copy[length] = '\0';
        if (length > 0) {
            assert_int_equal(orr_sched_op_parse(copy, &op[count++], err), ORR_OK);
        }
        if (end == '|' || end == '\0') {
            first[++rank] = count;
        }
        copy += length + (end != '\0');
    }
    orr_user_ops given = {.position = position, .op_first = first, .op = op};
    return orr_order_from_ops(arena, &s, &given, order, err);
}

static void given_orders_are_proven(void **state) {
    (void)state;
    static const uint32_t line[] = {0, 1};
    static const orr_schedule_spec two = {.pp = 2, .vpp = 1, .micro_batches = 2};
    static const struct {
        const char *text, *message; /* NULL: fine */
    } cases[] = {
        {"F0.0 F0.1 B0.0 B0.1|F0.0 B0.0 F0.1 B0.1", NULL},
        {"F0.0 F0.1 I0.0 I0.1 W0.1 W0.0|F0.0 B0.0 F0.1 I0.1 W0.1", NULL},
        {"F0.0 F0.1 B0.0 B0.1|F0.0 B0.0 F0.1", "rank 1 never runs B0.1"},
        {"F0.0 F0.1 B0.0 B0.1|F0.0 B0.0 B0.0 F0.1", "rank 1 runs B0.0 twice"},
        {"F0.0 F0.1 B0.0 B0.1|F0.0 B0.1 F0.1 B0.0", "before its forward"},
        {"F0.0 F0.1 I0.0 B0.1|F0.0 B0.0 F0.1 B0.1", "rank 0 never runs W0.0"},
        {"F0.0 F0.1 W0.0 I0.0 B0.1|F0.0 B0.0 F0.1 B0.1", "before its input gradient"},
        {"F0.0 F0.2 B0.0 B0.1|F0.0 B0.0 F0.1 B0.1", "there are 1 chunks and 2 micro-batches"},
        {"F0.0 B0.0 F0.1 B0.1|F0.0 F0.1 B0.0 B0.1",
         "the order deadlocks: rank 0 at B0.0, rank 1 at F0.1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_arena *arena = orr_arena_new();
        const orr_order *order = NULL;
        orr_err err = {0};
        orr_status status = build_given(arena, two, line, cases[i].text, &order, &err);
        if (cases[i].message == NULL) {
            assert_int_equal(status, ORR_OK);
        } else {
            assert_int_equal(status, ORR_E_SCHEDULE);
            assert_non_null(strstr(err.message, cases[i].message));
        }
        orr_arena_free(arena);
    }
}

static void given_placements_are_checked(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    static const uint32_t same[] = {0, 0}, far[] = {0, 2};
    static const orr_schedule_spec two = {.pp = 2, .vpp = 1, .micro_batches = 1};
    const orr_order *order = NULL;
    orr_err err = {0};
    assert_int_equal(build_given(arena, two, same, "F0.0 B0.0|F0.0 B0.0", &order, &err),
                     ORR_E_SCHEDULE);
    assert_non_null(strstr(err.message, "taken"));
    assert_int_equal(build_given(arena, two, far, "F0.0 B0.0|F0.0 B0.0", &order, &err),
                     ORR_E_SCHEDULE);
    assert_non_null(strstr(err.message, "beyond the chain"));
    orr_arena_free(arena);
}

static void ops_are_read_and_written(void **state) {
    (void)state;
    static const char *const good[] = {"F0.0", "B3.17", "I127.2", "W1.0", "O(F1.2,B0.31)"};
    static const char *const bad[] = {
        "",       "F",     "F0",          "F0.",    "X0.1", "F0.1 ",        "f0.1",
        "F128.0", "F0.-1", "F0.99999999", "O(F0.1", "O(,)", "O(B0.1,F0.1)", "O(F0.1,B0.1)x"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        orr_sched_op op;
        char text[ORR_SCHED_OP_TEXT];
        assert_int_equal(orr_sched_op_parse(good[i], &op, NULL), ORR_OK);
        orr_sched_op_format(&op, text);
        assert_string_equal(text, good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        orr_sched_op op;
        assert_int_equal(orr_sched_op_parse(bad[i], &op, NULL), ORR_E_SYNTAX);
    }
}

/* ---- layer splits ------------------------------------------------------------------------------
 */

static void layers_split_as_megatron_does(void **state) {
    (void)state;
    static const struct {
        orr_split_spec spec;
        uint32_t count[4], offset[4]; /* of the first two and the last two chunks */
        const char *wrong;
    } cases[] = {
        {{.layers = 32, .pp = 4, .vpp = 1}, {8, 8, 8, 8}, {0, 8, 16, 24}, NULL},
        {{.layers = 32, .pp = 4, .vpp = 4}, {2, 2, 2, 2}, {0, 8, 22, 30}, NULL},
        {{.flags = ORR_SPLIT_EMBEDDING | ORR_SPLIT_LOSS, .layers = 30, .pp = 4, .vpp = 1},
         {7, 8, 8, 7},
         {0, 7, 15, 23},
         NULL},
        {{.flags = ORR_SPLIT_EMBEDDING | ORR_SPLIT_LOSS, .layers = 126, .pp = 16, .vpp = 8},
         {0, 1, 1, 0},
         {0, 15, 110, 126},
         NULL},
        {{.flags = ORR_SPLIT_COUNTS, .layers = 62, .pp = 8, .vpp = 2, .first = 8, .last = 6},
         {4, 4, 3, 3},
         {0, 31, 28, 59},
         NULL},
        {{.flags = ORR_SPLIT_COUNTS, .layers = 61, .pp = 16, .vpp = 1, .last = 1},
         {4, 4, 4, 1},
         {0, 4, 56, 60},
         NULL},
        {{.layers = 30, .pp = 4, .vpp = 1}, {0}, {0}, "30 layers do not divide by 4"},
        {{.layers = 32, .pp = 4, .vpp = 3}, {0}, {0}, "8 layers of a rank do not divide by 3"},
        {{.flags = ORR_SPLIT_COUNTS, .layers = 61, .pp = 8, .vpp = 1, .first = 8, .last = 8},
         {0},
         {0},
         "45 remaining layers do not divide by 6"},
        {{.flags = ORR_SPLIT_COUNTS | ORR_SPLIT_LOSS, .layers = 8, .pp = 2, .vpp = 1, .first = 5},
         {0},
         {0},
         "do not combine"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t count[128], offset[128], all = cases[i].spec.pp * cases[i].spec.vpp;
        orr_err err = {0};
        orr_status status = orr_split_layers(&cases[i].spec, count, offset, &err);
        if (cases[i].wrong != NULL) {
            assert_int_equal(status, ORR_E_INFEASIBLE);
            assert_non_null(strstr(err.message, cases[i].wrong));
            continue;
        }
        assert_int_equal(status, ORR_OK);
        const uint32_t at[4] = {0, 1, all - 2, all - 1};
        for (int k = 0; k < 4; k++) {
            assert_int_equal(count[at[k]], cases[i].count[k]);
            assert_int_equal(offset[at[k]], cases[i].offset[k]);
        }
    }
}

/* Heavy ends: the balanced split gives them fewer layers, and the pipeline runs faster than with
 * the even one. */
static void balance_pays(void **state) {
    (void)state;
    enum { LAYERS = 32, PP = 4 };
    int64_t time[LAYERS], worst;
    for (int i = 0; i < LAYERS; i++) {
        time[i] = 1000;
    }
    orr_balance b = {
        .layers = LAYERS, .pp = PP, .vpp = 1, .time_ps = time, .first_ps = 300, .last_ps = 2500};
    uint32_t count[PP], offset[PP];
    assert_int_equal(orr_split_balance(&b, count, offset, &worst, NULL), ORR_OK);
    assert_int_equal(worst, 9000);
    assert_int_equal(count[3], 6);
    assert_int_equal(offset[3], 26);
    b.cap_bytes = 1;
    b.first_bytes = 2;
    assert_int_equal(orr_split_balance(&b, count, offset, &worst, NULL), ORR_E_INFEASIBLE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found_and_stable),
        cmocka_unit_test(rules_name_what_is_wrong),
        cmocka_unit_test(illegal_orders_are_refused_with_the_rule),
        cmocka_unit_test(automatic_orders_reach_the_published_bubbles),
        cmocka_unit_test(impossible_times_are_refused),
        cmocka_unit_test(given_orders_are_proven),
        cmocka_unit_test(given_placements_are_checked),
        cmocka_unit_test(ops_are_read_and_written),
        cmocka_unit_test(layers_split_as_megatron_does),
        cmocka_unit_test(balance_pays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
