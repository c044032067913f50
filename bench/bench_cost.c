/* Speed of prices: a GEMM shape cold and from the memo, a collective, a table; all ops of a
 * DeepSeek-V3 plan; a shape found in evidence. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "base/text.h"
#include "cost/cost.h"
#include "program/program.h"

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

/* Every distinct object of a plan, priced by a table that has seen nothing. */
static int measure_plan(void) {
    static const char *const keys[] = {"model", "deepseek-v3", "hardware", "h100", "gpus", "1024",
                                       "pp",    "16",          "ep",       "64",   "mbs",  "1",
                                       "gbs",   "16384",       "seq",      "4096"};
    orr_arena *arena = orr_arena_new();
    orr_linker *linker = orr_linker_new();
    orr_tree *tree = orr_tree_new_map(arena);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i += 2) {
        orr_tree_put_text(arena, tree, keys[i], keys[i + 1]);
    }
    orr_resolved resolved = {0};
    orr_program program;
    orr_err err = {0};
    if (orr_plan_resolve(arena, tree, &resolved, &err) != ORR_OK ||
        orr_link(linker, arena, &resolved, NULL, &program, &err) != ORR_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    enum { MOST_OBJECTS = 64 };
    const orr_object *object[MOST_OBJECTS];
    uint32_t objects = 0, ops = 0;
    for (uint32_t c = 0; c < program.chunk_kind_count; c++) {
        const orr_chunk *chunk = &program.chunk_kind[c];
        for (uint32_t p = 0; p < chunk->part_count; p++) {
            uint32_t known = 0;
            while (known < objects && object[known] != chunk->part[p].object) {
                known++;
            }
            if (known == objects && objects < MOST_OBJECTS) {
                object[objects++] = chunk->part[p].object;
                ops += chunk->part[p].object->op_count;
            }
        }
    }
    double cold = 1e9, warm = 1e9;
    for (int r = 0; r < REPEATS; r++) {
        const orr_cost_table *table = NULL;
        orr_priced priced;
        if (orr_cost_table_new(arena, resolved.cluster, resolved.software, &table, &err) !=
            ORR_OK) {
            return 1;
        }
        for (int pass = 0; pass < 2; pass++) {
            double start = now_us();
            for (uint32_t o = 0; o < objects; o++) {
                orr_cost_price(table, arena, object[o], &priced);
            }
            double t = now_us() - start;
            double *least = pass == 0 ? &cold : &warm;
            *least = t < *least ? t : *least;
        }
    }
    (void)printf(
        "deepseek-v3 %u ops of %u objects: cold %.1f us, memoised %.1f us, %.3f us an op\n", ops,
        objects, cold, warm, warm / ops);
    orr_linker_free(linker);
    orr_arena_free(arena);
    return 0;
}

/* Shapes that evidence holds exactly. */
static int measure_evidence(void) {
    orr_arena *arena = orr_arena_new();
    orr_text csv = orr_text_new(arena, 1 << 20);
    orr_text_add(&csv, "op,dtype,phase,m,n,k,out_bytes,time_us,device\n");
    orr_op *op = ORR_NEW_ARRAY(arena, orr_op, SHAPES);
    for (uint32_t i = 0; i < SHAPES; i++) {
        op[i] = (orr_op){.kind = ORR_OP_GEMM, .out_bytes = 2};
        op[i].shape.gemm.m = 128u + i;
        op[i].shape.gemm.n = op[i].shape.gemm.k = 4096;
        op[i].shape.gemm.batch = 1;
        orr_text_format(&csv, "gemm,bf16,forward,%u,4096,4096,2,%u,h100\n", 128 + i, 50 + i);
    }
    orr_err err = {0};
    orr_accelerator *accelerator = NULL;
    orr_cluster *cluster = NULL;
    orr_software *software = NULL;
    orr_evidence *evidence = NULL;
    const orr_cost_table *table = NULL;
    const char *text = orr_text_done(&csv);
    if (orr_accelerator_find(arena, "h100", &accelerator, &err) != ORR_OK ||
        orr_cluster_usual(arena, accelerator, 8, 0, NULL, &cluster, &err) != ORR_OK ||
        orr_software_find(arena, "megatron-core", &software, &err) != ORR_OK ||
        orr_cost_table_new(arena, cluster, software, &table, &err) != ORR_OK ||
        orr_evidence_parse(
            arena, "bench.csv", text, strlen(text),
            &(orr_evidence_want){.device = accelerator, .classes = ORR_CLASS_BIT_ALL}, &evidence,
            &err) != ORR_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    table = orr_cost_table_measured(arena, table, evidence);
    double sum = 0, least = 1e9;
    (void)price_all(table, op, &sum); /* the memo behind it */
    for (int r = 0; r < REPEATS; r++) {
        double t = price_all(table, op, &sum);
        least = t < least ? t : least;
    }
    (void)printf("evidence of %u shapes: exact match %.3f us an op (sum %.3g s)\n", evidence->count,
                 least, sum);
    orr_arena_free(arena);
    return 0;
}

int main(void) {
    return measure_plan() | measure_evidence() | measure("a100-80g") | measure("h100") |
           measure("b200") | measure("mi355x");
}
