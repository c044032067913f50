/* Prices are pure: the same op costs the same whatever was priced before, on any table of the same
 * inputs, and whether or not the memo has room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/arena.h"
#include "base/rng.h"
#include "cost/cost.h"

enum { OPS = 6000 }; /* more shapes than the memo holds */

static const orr_cost_table *new_table(orr_arena *arena) {
    orr_err err = {0};
    orr_accelerator *accelerator = NULL;
    orr_cluster *cluster = NULL;
    orr_software *software = NULL;
    const orr_cost_table *table = NULL;
    assert_int_equal(orr_accelerator_find(arena, "b200", &accelerator, &err), ORR_OK);
    assert_int_equal(orr_cluster_usual(arena, accelerator, 64, 0, NULL, &cluster, &err), ORR_OK);
    assert_int_equal(orr_software_find(arena, "megatron-core", &software, &err), ORR_OK);
    assert_int_equal(orr_cost_table_new(arena, cluster, software, &table, &err), ORR_OK);
    return table;
}

static orr_op random_op(orr_rng *rng) {
    orr_op op = {.dep = {-1, -1}};
    op.kind = (uint8_t)orr_rng_below(rng, ORR_OP_COLLECTIVE + 1);
    op.phase = (uint8_t)orr_rng_below(rng, ORR_PHASE_COUNT);
    op.dtype = (uint8_t)orr_rng_below(rng, ORR_DTYPE_COUNT);
    if (op.kind == ORR_OP_GEMM || op.kind == ORR_OP_GROUPED_GEMM) {
        op.out_bytes = orr_rng_below(rng, 2) ? 8 : 2;
        op.shape.gemm.m = 1 + orr_rng_below(rng, 20000);
        op.shape.gemm.n = 1 + orr_rng_below(rng, 20000);
        op.shape.gemm.k = 1 + orr_rng_below(rng, 20000);
        op.shape.gemm.batch = 1 + orr_rng_below(rng, 8);
    } else if (op.kind == ORR_OP_ATTENTION) {
        op.causal = (uint8_t)orr_rng_below(rng, 2);
        op.shape.attention.batch = 1 + orr_rng_below(rng, 4);
        op.shape.attention.heads = op.shape.attention.kv_heads = 1 + orr_rng_below(rng, 64);
        op.shape.attention.head_dim = op.shape.attention.v_dim = 32 * (1 + orr_rng_below(rng, 8));
        op.shape.attention.seq_q = op.shape.attention.seq_kv = 1 + orr_rng_below(rng, 100000);
    } else if (op.kind == ORR_OP_MEMORY) {
        op.sub = (uint8_t)orr_rng_below(rng, ORR_MEMOP_COUNT);
        op.bytes = 1 + orr_rng_below(rng, 1u << 30);
        op.shape.memory.kernels = 1;
    } else {
        op.sub = (uint8_t)orr_rng_below(rng, ORR_COLLECTIVE_COUNT);
        op.shape.comm.rank_bytes = 1 + orr_rng_below(rng, 1u << 30);
        op.shape.comm.size = 1u << orr_rng_below(rng, 7);
        op.shape.comm.stride = 1;
        op.shape.comm.count = 1;
    }
    return op;
}

static void prices_do_not_depend_on_order(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_rng rng = {42};
    orr_op *op = ORR_NEW_ARRAY(arena, orr_op, OPS);
    orr_cost *first = ORR_NEW_ARRAY(arena, orr_cost, OPS);
    const orr_cost_table *forward = new_table(arena), *backward = new_table(arena);
    for (int i = 0; i < OPS; i++) {
        op[i] = random_op(&rng);
        first[i] = orr_cost_op(forward, &op[i]);
        assert_true(first[i].time_s >= 0 && first[i].time_s < 1e6);
    }
    for (int i = OPS - 1; i >= 0; i--) {
        orr_cost again = orr_cost_op(backward, &op[i]), warm = orr_cost_op(forward, &op[i]);
        assert_true(again.time_s == first[i].time_s && warm.time_s == first[i].time_s);
        assert_true(again.relerr_frac == first[i].relerr_frac);
        assert_int_equal(again.provenance, first[i].provenance);
    }
    orr_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prices_do_not_depend_on_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
