/* Benchmarks of collectives, traces of kernels, allocator snapshots, topologies. Samples under
 * tests/data/logs are written from the formats' public facts; the truth is how they were written.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/cluster.h"
#include "doc/doc.h"
#include "evidence/evidence.h"
#include "observe/observe.h"

static orr_status observe(orr_arena *arena, const char *name, orr_observation *seen, orr_err *err) {
    return orr_observe_file(arena, orr_arena_format(arena, "%s/data/logs/%s", ORR_TEST_DIR, name),
                            seen, err);
}

static orr_observation read(orr_arena *arena, const char *name, orr_observed kind) {
    orr_observation seen;
    orr_err err = {0};
    if (observe(arena, name, &seen, &err) != ORR_OK) {
        fail_msg("%s: %s", name, err.message);
    }
    assert_int_equal(seen.kind, kind);
    return seen;
}

static double real(const orr_tree *node, const char *path) {
    return orr_tree_real(orr_tree_path(node, path), NAN);
}

static void near(double got, double want) {
    if (!(fabs(got - want) <= 1e-6 * fabs(want) + 1e-15)) {
        fail_msg("%.12g is not %.12g", got, want);
    }
}

static void test_tables_of_collectives_are_evidence(void **state) {
    (void)state;
    static const struct {
        const char *file, *op, *device;
        double ranks, domains;
    } cases[] = {{"nccl-8xh100.out", "all_reduce", "H100", 8, 1},
                 {"all_gather-2x8.out", "all_gather", "H100", 16, 2},
                 {"rccl-mi300x.out", "reduce_scatter", "MI300X", 8, 1}};
    for (size_t i = 0; i < 3; i++) {
        orr_arena *arena = orr_arena_new();
        orr_observation seen = read(arena, cases[i].file, ORR_OBSERVED_COLLECTIVES);
        const orr_tree *first = orr_tree_path(seen.content, "records.0");
        assert_int_equal(orr_tree_size(orr_tree_get(seen.content, "records")), 6);
        assert_string_equal(orr_tree_text(orr_tree_get(first, "op"), ""), cases[i].op);
        assert_string_equal(orr_tree_text(orr_tree_get(seen.content, "device"), ""),
                            cases[i].device);
        near(real(first, "bytes"), 1 << 20);
        near(real(first, "ranks"), cases[i].ranks);
        near(real(first, "domains"), cases[i].domains);
        assert_int_equal(orr_tree_size(seen.warnings), 0);
        orr_arena_free(arena);
    }
}

static void test_evidence_takes_a_table_as_it_is(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_accelerator *h100 = NULL;
    orr_evidence *set = NULL;
    orr_err err = {0};
    assert_int_equal(orr_accelerator_find(arena, "h100", &h100, NULL), ORR_OK);
    orr_evidence_want want = {.device = h100, .classes = UINT32_MAX};
    const char *path = ORR_TEST_DIR "/data/logs/nccl-8xh100.out";
    assert_int_equal(orr_evidence_read(arena, path, &want, &set, &err), ORR_OK);
    assert_int_equal(set->count, 6);
    orr_arena_free(arena);
}

/* A gather and an exchange of all with all look alike: without a name neither is taken. */
static void test_an_unnamed_table_is_left_out(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_observation seen = read(arena, "unnamed.out", ORR_OBSERVED_COLLECTIVES);
    assert_int_equal(orr_tree_size(orr_tree_get(seen.content, "records")), 0);
    assert_int_equal(orr_tree_size(seen.warnings), 1);
    orr_arena_free(arena);
}

static void test_kineto_traces_are_read_as_they_stream(void **state) {
    (void)state;
    static const char *const files[] = {"kineto.json", "kineto.json.gz"};
    for (size_t i = 0; i < 2; i++) {
        orr_arena *arena = orr_arena_new();
        orr_observation seen = read(arena, files[i], ORR_OBSERVED_TRACE);
        near(real(seen.tree, "steps"), 3);
        near(real(seen.tree, "step_time_s"), 5200e-6);
        near(real(seen.tree, "classes.gemm_s"), 4 * 780e-6);
        near(real(seen.tree, "classes.attention_s"), 4 * 200e-6);
        near(real(seen.tree, "classes.elementwise_s"), 4 * 60e-6);
        near(real(seen.tree, "classes.optimizer_s"), 300e-6);
        near(real(seen.tree, "communication.all_gather_s"), 4 * 200e-6);
        near(real(seen.tree, "exposed_communication_s"), 4 * 100e-6); /* half hides */
        near(real(seen.tree, "idle_s"), 320e-6);
        near(real(seen.tree, "rank"), 3);
        near(real(seen.tree, "gpus"), 8);
        orr_arena_free(arena);
    }
}

static void test_a_trace_cut_short_counts_up_to_there(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    char *text;
    size_t length;
    orr_observation seen;
    assert_int_equal(
        orr_file_read(arena, ORR_TEST_DIR "/data/logs/kineto.json", &text, &length, NULL), ORR_OK);
    assert_int_equal(orr_observe_bytes(arena, NULL, text, length * 2 / 3, &seen, NULL), ORR_OK);
    assert_int_equal(seen.kind, ORR_OBSERVED_TRACE);
    assert_int_equal(orr_tree_size(seen.warnings), 1);
    orr_arena_free(arena);
}

static void test_databases_of_nsight_systems(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_observation seen = read(arena, "nsys.sqlite", ORR_OBSERVED_TRACE);
    near(real(seen.tree, "steps"), 3);
    near(real(seen.tree, "kernels"), 12); /* of the first device, copies included */
    near(real(seen.tree, "step_time_s"), 1e-3);
    near(real(seen.tree, "classes.gemm_s"), 500e-6);
    near(real(seen.tree, "exposed_communication_s"), 200e-6);
    char *text;
    size_t length;
    assert_int_equal(
        orr_file_read(arena, ORR_TEST_DIR "/data/logs/nsys.sqlite", &text, &length, NULL), ORR_OK);
    assert_int_equal(orr_observe_bytes(arena, NULL, text, length, &seen, NULL), ORR_OK);
    near(real(seen.tree, "classes.gemm_s"), 500e-6);
    assert_int_not_equal(orr_observe_bytes(arena, NULL, text, length / 4, &seen, NULL), ORR_OK);
    orr_arena_free(arena);
}

static void test_snapshots_of_both_protocols(void **state) {
    (void)state;
    static const char *const files[] = {"snapshot-p2.pickle", "snapshot-p4.pickle"};
    static const double mib = 1 << 20;
    for (size_t i = 0; i < 2; i++) {
        orr_arena *arena = orr_arena_new();
        orr_observation seen = read(arena, files[i], ORR_OBSERVED_SNAPSHOT);
        near(real(seen.tree, "allocated_bytes"), 50 * mib);
        near(real(seen.tree, "requested_bytes"), 49 * mib);
        near(real(seen.tree, "reserved_bytes"), 66 * mib);
        near(real(seen.tree, "peak_allocated_bytes"), 58 * mib); /* before ten were freed */
        near(real(seen.tree, "largest_free_bytes"), 14 * mib);
        near(real(seen.tree, "out_of_memory_bytes"), 3.0 * (1 << 30));
        assert_string_equal(orr_tree_text(orr_tree_path(seen.tree, "largest.0.where"), ""),
                            "/work/model.py:88 forward");
        orr_arena_free(arena);
    }
}

static void test_a_pickle_that_could_run_code_is_refused(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_observation seen;
    orr_err err = {0};
    assert_int_equal(observe(arena, "snapshot-evil.pickle", &seen, &err), ORR_E_SYNTAX);
    assert_non_null(strstr(err.message, "could run code"));
    /* cut at every byte, and with every opcode in place of the last */
    char *text;
    size_t length;
    assert_int_equal(
        orr_file_read(arena, ORR_TEST_DIR "/data/logs/snapshot-p4.pickle", &text, &length, NULL),
        ORR_OK);
    for (size_t cut = 2; cut + 1 < length; cut += 7) {
        assert_int_not_equal(orr_observe_bytes(arena, NULL, text, cut, &seen, NULL), ORR_OK);
    }
    orr_arena_free(arena);
}

static void test_topologies_are_cluster_files(void **state) {
    (void)state;
    static const struct {
        const char *file, *accelerator;
        double nics, nic_Bps;
    } cases[] = {{"topo-h100.txt", "h100", 8, NAN},
                 {"showtopo.txt", "mi300x", 0, NAN},
                 {"nccl-topo.xml", "h100", 8, 50e9}};
    for (size_t i = 0; i < 3; i++) {
        orr_arena *arena = orr_arena_new();
        orr_observation seen = read(arena, cases[i].file, ORR_OBSERVED_TOPOLOGY);
        assert_string_equal(orr_tree_text(orr_tree_get(seen.content, "accelerator"), ""),
                            cases[i].accelerator);
        near(real(seen.tree, "gpus"), 8);
        near(real(seen.tree, "nics"), cases[i].nics);
        orr_cluster *cluster = NULL;
        orr_err err = {0};
        if (orr_cluster_read(arena, seen.content, NULL, &cluster, &err) != ORR_OK) {
            fail_msg("%s", err.message);
        }
        assert_int_equal(cluster->gpus_per_node, 8);
        assert_int_equal(cluster->tier[0].gpus, 8);
        if (!isnan(cases[i].nic_Bps)) {
            near(cluster->tier[1].Bps, cases[i].nic_Bps);
        }
        orr_arena_free(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_of_collectives_are_evidence),
        cmocka_unit_test(test_evidence_takes_a_table_as_it_is),
        cmocka_unit_test(test_an_unnamed_table_is_left_out),
        cmocka_unit_test(test_kineto_traces_are_read_as_they_stream),
        cmocka_unit_test(test_a_trace_cut_short_counts_up_to_there),
        cmocka_unit_test(test_databases_of_nsight_systems),
        cmocka_unit_test(test_snapshots_of_both_protocols),
        cmocka_unit_test(test_a_pickle_that_could_run_code_is_refused),
        cmocka_unit_test(test_topologies_are_cluster_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
