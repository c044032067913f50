/* Speed of prices: a GEMM shape cold and from the memo, a collective, a memory op, and a table. */
#include <stdio.h>
#include <time.h>

#include "base/rng.h"
#include "cost/cost.h"

enum { SHAPES = 2000, REPEATS = 20 };

static double now_us(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static double price_all(const orr_cost_table *table, const orr_op *op, double *sum) {
    double start = now_us();
    for (int i = 0; i < SHAPES; i++) {
        *sum += orr_cost_op(table, &op[i]).time_s;
    }
    return (now_us() - start) / SHAPES;
}

static int measure(const char *name) {
    orr_arena *arena = orr_arena_new();
    orr_err err = {0};
    orr_accelerator *accelerator = NULL;
    orr_cluster *cluster = NULL;
    orr_software *software = NULL;
    const orr_cost_table *table = NULL;
    if (orr_accelerator_find(arena, name, &accelerator, &err) != ORR_OK ||
        orr_cluster_usual(arena, accelerator, 64, 0, NULL, &cluster, &err) != ORR_OK ||
        orr_software_find(arena, "megatron-core", &software, &err) != ORR_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    orr_rng rng = {7};
    orr_op *gemm = ORR_NEW_ARRAY(arena, orr_op, SHAPES);
    orr_op *comm = ORR_NEW_ARRAY(arena, orr_op, SHAPES);
    for (int i = 0; i < SHAPES; i++) {
        gemm[i] = (orr_op){.kind = ORR_OP_GEMM, .out_bytes = 2};
        gemm[i].shape.gemm.m = 128u * (1 + orr_rng_below(&rng, 128));
        gemm[i].shape.gemm.n = 128u * (1 + orr_rng_below(&rng, 128));
        gemm[i].shape.gemm.k = 128u * (1 + orr_rng_below(&rng, 128));
        gemm[i].shape.gemm.batch = 1;
        comm[i] = (orr_op){.kind = ORR_OP_COLLECTIVE, .sub = ORR_ALL_REDUCE};
        comm[i].shape.comm.rank_bytes = 1 + orr_rng_below(&rng, 1u << 30);
        comm[i].shape.comm.size = 2u << orr_rng_below(&rng, 5);
        comm[i].shape.comm.stride = 1;
        comm[i].shape.comm.count = 1;
    }
    double cold = 1e9, warm = 1e9, collective = 1e9, made = 1e9, sum = 0;
    for (int r = 0; r < REPEATS; r++) {
        double start = now_us(), t;
        if (orr_cost_table_new(arena, cluster, software, &table, &err) != ORR_OK) {
            (void)fprintf(stderr, "%s\n", err.message);
            return 1;
        }
        made = (t = now_us() - start) < made ? t : made;
        cold = (t = price_all(table, gemm, &sum)) < cold ? t : cold;
        warm = (t = price_all(table, gemm, &sum)) < warm ? t : warm;
        collective = (t = price_all(table, comm, &sum)) < collective ? t : collective;
    }
    (void)printf("%-8s table %.0f us; GEMM cold %.2f us, memoised %.3f us; collective %.3f us "
                 "(sum %.3g s)\n",
                 name, made, cold, warm, collective, sum);
    orr_arena_free(arena);
    return 0;
}

int main(void) {
    return measure("a100-80g") | measure("h100") | measure("b200") | measure("mi355x");
}
