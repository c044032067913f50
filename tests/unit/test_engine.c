#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include <stdio.h>

#include "base/os_run.h"
#include "doc/doc.h"
#include "engine/engine.h"

static orr_resolved *resolve(orr_arena *arena, const char *keys) {
    orr_tree *tree = NULL;
    orr_err err = {0};
    orr_resolved *out = ORR_NEW(arena, orr_resolved);
    if (orr_yaml_read(arena, "plan", keys, strlen(keys), &tree, &err) != ORR_OK ||
        orr_plan_resolve(arena, tree, out, &err) != ORR_OK) {
        fail_msg("%s", err.message);
    }
    return out;
}

/* ---- scope ---------------------------------------------------------------------------------- */

static void the_part_in_scope_shrinks_pipeline_experts_context_tensor(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    const orr_resolved *target =
        resolve(arena, "{model: deepseek-v3, hardware: h100, gpus: 256, tp: 4, pp: 8, ep: 32, "
                       "mbs: 1, gbs: 256, seq: 4096}");
    static const struct {
        uint32_t gpus, used, tp, ep, dp, experts;
    } cases[] = {
        {256, 32, 4, 32, 8, 256}, {64, 32, 4, 32, 8, 256}, {16, 16, 4, 16, 4, 128},
        {8, 8, 4, 8, 2, 64},      {5, 4, 4, 4, 1, 32},     {3, 2, 2, 2, 1, 16},
        {1, 1, 1, 1, 1, 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_scope scope;
        orr_scope_of(arena, target, cases[i].gpus, &scope);
        const orr_plan *plan = &scope.reduced->plan;
        assert_int_equal(scope.gpus, cases[i].used);
        assert_int_equal(plan->split.tp, cases[i].tp);
        assert_int_equal(plan->split.ep, cases[i].ep);
        assert_int_equal(plan->shard.dp, cases[i].dp);
        assert_int_equal(plan->pipe.pp, 1);
        uint32_t experts = 0;
        for (uint32_t k = 0; k < scope.reduced->model->kind_count; k++) {
            experts = scope.reduced->model->kind[k].mlp.experts > experts
                          ? scope.reduced->model->kind[k].mlp.experts
                          : experts;
        }
        assert_int_equal(experts, cases[i].experts);
    }
    orr_arena_free(arena);
}

/* Replicas are not kept, but what runs between them can be measured. */
static void collectives_between_replicas_at_hand_are_measured(void **state) {
    (void)state;
    static const struct {
        const char *sharding;
        orr_collective kind;
    } cases[] = {{"none", ORR_ALL_REDUCE},
                 {"zero1", ORR_REDUCE_SCATTER},
                 {"zero1", ORR_ALL_GATHER},
                 {"fsdp2", ORR_REDUCE_SCATTER},
                 {"fsdp2", ORR_ALL_GATHER}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_arena *arena = orr_arena_new();
        const orr_resolved *target = resolve(
            arena, orr_arena_format(arena,
                                    "{model: llama-3.1-8b, hardware: h100, gpus: 2, mbs: 1, "
                                    "gbs: 2, seq: 4096, sharding: %s}",
                                    cases[i].sharding));
        for (uint32_t at_hand = 1; at_hand <= 2; at_hand++) {
            orr_scope scope;
            orr_work work;
            orr_linker *linker = orr_linker_new();
            orr_scope_of(arena, target, at_hand, &scope);
            assert_int_equal(scope.gpus, 1);
            assert_int_equal(orr_scope_work(linker, arena, &scope, &work, NULL), ORR_OK);
            bool found = false;
            for (uint32_t w = 0; w < work.count; w++) {
                found = found ||
                        (work.op[w].kind == ORR_OP_COLLECTIVE && work.op[w].sub == cases[i].kind);
            }
            assert_int_equal(found, at_hand == 2);
            orr_linker_free(linker);
        }
        orr_arena_free(arena);
    }
}

static void experts_never_fall_below_the_top_k(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    const orr_resolved *target =
        resolve(arena, "{model: qwen3-30b-a3b, hardware: h100, gpus: 64, ep: 64, mbs: 1, gbs: 64, "
                       "seq: 4096}");
    orr_scope scope;
    orr_scope_of(arena, target, 1, &scope);
    /* two experts a rank, eight chosen by a token */
    assert_int_equal(scope.reduced->model->kind[0].mlp.experts, 8);
    orr_linker *linker = orr_linker_new();
    orr_work work;
    assert_int_equal(orr_scope_work(linker, arena, &scope, &work, NULL), ORR_OK);
    assert_true(work.count > 20);
    for (uint32_t i = 0; i < work.count; i++) { /* each once */
        for (uint32_t k = i + 1; k < work.count; k++) {
            assert_false(
                work.op[i].kind == work.op[k].kind && work.op[i].phase == work.op[k].phase &&
                work.op[i].sub == work.op[k].sub && work.op[i].dtype == work.op[k].dtype &&
                work.op[i].bytes == work.op[k].bytes &&
                work.op[i].out_bytes == work.op[k].out_bytes &&
                memcmp(&work.op[i].shape, &work.op[k].shape, sizeof work.op[i].shape) == 0);
        }
    }
    orr_linker_free(linker);
    orr_arena_free(arena);
}

/* ---- back ends ------------------------------------------------------------------------------ */

static void wrong_tables_are_refused(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    const orr_backend *backend = NULL;
    orr_err err = {0};
    assert_int_equal(orr_backend_find(arena, "null", &backend, &err), ORR_OK);
    assert_int_equal(orr_backend_find(arena, ORR_FAULTY_ABI_MODULE, &backend, &err),
                     ORR_E_CONFLICT);
    assert_non_null(strstr(err.message, "another version"));
    assert_int_equal(orr_backend_find(arena, ORR_FAULTY_HOLE_MODULE, &backend, &err),
                     ORR_E_CONFLICT);
    assert_non_null(strstr(err.message, "lacks a function"));
    assert_int_equal(orr_backend_find(arena, "no-such-thing", &backend, &err), ORR_E_IO);
    assert_non_null(strstr(err.message, "orrery-no-such-thing.so"));
    orr_arena_free(arena);
}

static orr_measure_result measure(orr_arena *arena, const orr_backend *backend, const char *options,
                                  double limit_s) {
    orr_measure_request request = {.backend = backend,
                                   .options = options,
                                   .parts = ORR_MEASURE_KERNELS,
                                   .repeats = 5,
                                   .limit_s = limit_s,
                                   .sweep_bytes = 1 << 20};
    const orr_resolved *target =
        resolve(arena, "{model: llama-3.1-8b, hardware: h100, gpus: 8, tp: 1, mbs: 1, gbs: 8, "
                       "seq: 4096}");
    orr_scope_of(arena, target, 1, &request.scope);
    orr_measure_result result;
    orr_err err = {0};
    if (orr_measure(arena, &request, &result, &err) != ORR_OK) {
        fail_msg("%s", err.message);
    }
    return result;
}

static const orr_backend *faulty(orr_arena *arena) {
    const orr_backend *backend = NULL;
    orr_err err = {0};
    if (orr_backend_find(arena, ORR_FAULTY_MODULE, &backend, &err) != ORR_OK) {
        fail_msg("%s", err.message);
    }
    return backend;
}

static void a_sound_back_end_measures_everything(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    const orr_measure_result r = measure(arena, faulty(arena), "", 20);
    uint32_t whole = r.evidence->count;
    assert_true(whole > 20);
    for (uint32_t i = 0; i < whole; i++) {
        assert_true(r.evidence->record[i].time_s == 1e-3);
        assert_int_equal(r.evidence->record[i].samples, 5);
    }
    /* the reduction over eight replicas does not fit one device */
    for (size_t i = 0; i < orr_tree_size(r.gaps); i++) {
        assert_non_null(strstr(orr_tree_text(orr_tree_get(orr_tree_at(r.gaps, i), "why"), ""),
                               "needs 8 ranks"));
    }
    orr_arena_free(arena);
}

static void whatever_ends_the_child_leaves_what_was_measured(void **state) {
    (void)state;
    static const struct {
        const char *mode, *why;
        bool records;
    } cases[] = {
        {"hang", "nothing happened for 1 s", true},
        {"crash", "signal 11", true},
        {"exit", "exit code 3", true},
        {"lost", "fell off the bus", true},
        {"no-device", "driver 470", false},
        {"asked", "asked to stop", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_arena *arena = orr_arena_new();
        double start_s = orr_os_clock_s();
        const orr_measure_result r = measure(arena, faulty(arena), cases[i].mode, 1);
        assert_true(orr_os_clock_s() - start_s < 30);
        bool said = false;
        for (size_t g = 0; g < orr_tree_size(r.gaps); g++) {
            const orr_tree *gap = orr_tree_at(r.gaps, g);
            said = said || strstr(orr_tree_text(orr_tree_get(gap, "why"), ""), cases[i].why);
        }
        if (!said) {
            fail_msg("%s: no gap says '%s'", cases[i].mode, cases[i].why);
        }
        assert_true((r.evidence->count > 0) == cases[i].records);
        orr_arena_free(arena);
    }
}

static void a_noisy_neighbour_is_said_in_the_evidence(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    const orr_backend *waits = NULL;
    assert_int_equal(orr_backend_find(arena, ORR_FAULTY_WAITS_MODULE, &waits, NULL), ORR_OK);
    const orr_measure_result r = measure(arena, waits, "", 20);
    assert_true(r.own_frac > 0 && r.own_frac < ORR_QUIET_FRAC);
    assert_true(r.evidence->count > 0);
    bool said = false;
    for (size_t g = 0; g < orr_tree_size(r.gaps); g++) {
        const char *what = orr_tree_text(orr_tree_get(orr_tree_at(r.gaps, g), "what"), "");
        said = said || strcmp(what, "times on a quiet machine") == 0;
    }
    assert_true(said);
    orr_arena_free(arena);
}

static void an_op_without_memory_is_a_gap_and_the_rest_goes_on(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    const orr_measure_result r = measure(arena, faulty(arena), "no-memory", 20);
    assert_true(r.evidence->count > 5);
    for (uint32_t i = 0; i < r.evidence->count; i++) {
        assert_int_not_equal(r.evidence->record[i].key.kind, ORR_OP_GEMM);
    }
    bool said = false;
    for (size_t g = 0; g < orr_tree_size(r.gaps); g++) {
        const orr_tree *gap = orr_tree_at(r.gaps, g);
        said = said || (strstr(orr_tree_text(orr_tree_get(gap, "what"), ""), "gemm") &&
                        strstr(orr_tree_text(orr_tree_get(gap, "why"), ""), "no memory"));
    }
    assert_true(said);
    orr_arena_free(arena);
}

enum { WARM_UP_ROUNDS = 2 };

static void the_null_back_end_shows_the_harness(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    const orr_measure_result r = measure(arena, &orr_backend_null, NULL, 20);
    assert_true(r.evidence->count > 20);
    for (uint32_t i = 0; i < r.evidence->count; i++) {
        assert_true(r.evidence->record[i].time_s < 1e-2);
    }
    /* what measuring adds, by counts: two readings of the clock an op that is run, and a handful of
     * messages an op that is listed (begin, prepare, first and last report) besides a few in all */
    uint32_t listed = r.evidence->count;
    assert_true(r.runs >= listed * (WARM_UP_ROUNDS + 3));
    assert_int_equal(r.readings, 2 * r.runs);
    assert_true(r.messages <= 4 * listed + 8);
    orr_arena_free(arena);
}

/* Long schedules are linked without their ops, which a step needs written out. */
static void a_step_of_many_micro_batches_is_run_whole(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_measure_request request = {
        .parts = ORR_MEASURE_STEP, .repeats = 3, .limit_s = 20, .sweep_bytes = 1 << 20};
    assert_int_equal(orr_backend_find(arena, "null", &request.backend, NULL), ORR_OK);
    const orr_resolved *target =
        resolve(arena, "{model: llama-3.1-8b, hardware: h100, software: executor, gpus: 1, mbs: 1, "
                       "gbs: 64, seq: 4096}");
    orr_scope_of(arena, target, 1, &request.scope);
    orr_measure_result r;
    assert_int_equal(orr_measure(arena, &request, &r, NULL), ORR_OK);
    assert_int_equal(r.step_samples, 3);
    assert_int_equal(orr_tree_size(r.gaps), 0);
    orr_arena_free(arena);
}

static void what_was_recorded_is_replayed(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    static const char path[] = "replayed.json";
    const char *text =
        "{\"schema\": \"orrery.evidence/1\", \"device\": \"h100\", \"records\": ["
        "{\"op\": \"gemm\", \"phase\": \"forward\", \"m\": 4096, \"n\": 6144, \"k\": 4096, "
        "\"time_us\": 321}]}";
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    const orr_measure_result r = measure(arena, &orr_backend_replay, path, 20);
    assert_int_equal(remove(path), 0);
    assert_int_equal(r.evidence->count, 1);
    assert_true(r.evidence->record[0].time_s == 321e-6);
    assert_string_equal(r.identity.device, "h100");
    assert_true(orr_tree_size(r.gaps) > 10);
    orr_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_part_in_scope_shrinks_pipeline_experts_context_tensor),
        cmocka_unit_test(collectives_between_replicas_at_hand_are_measured),
        cmocka_unit_test(experts_never_fall_below_the_top_k),
        cmocka_unit_test(wrong_tables_are_refused),
        cmocka_unit_test(a_sound_back_end_measures_everything),
        cmocka_unit_test(whatever_ends_the_child_leaves_what_was_measured),
        cmocka_unit_test(a_noisy_neighbour_is_said_in_the_evidence),
        cmocka_unit_test(an_op_without_memory_is_a_gap_and_the_rest_goes_on),
        cmocka_unit_test(the_null_back_end_shows_the_harness),
        cmocka_unit_test(what_was_recorded_is_replayed),
        cmocka_unit_test(a_step_of_many_micro_batches_is_run_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
