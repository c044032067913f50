/* Speed of whole projections: cold (nothing memoised) and warm, after the inputs are resolved; and
 * of one evaluation inside a search: bound, memory of all ranks and step of a plan that differs
 * from the one before, in what it recomputes or in its split too. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "projection/quick.h"

static double now_us(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b) {
    const double *x = (const double *)a, *y = (const double *)b;
    return (*x > *y) - (*x < *y);
}

typedef struct bench_case {
    const char *title;
    const char *keys[32]; /* key, value, key, value ... */
} bench_case;

static const bench_case cases[] = {
    {"llama-3.1-405b, 1,024 h100, tp8 pp8 vpp8 cp2, 64 micro-batches",
     {"model",    "llama-3.1-405b",
      "hardware", "h100",
      "gpus",     "1024",
      "tp",       "8",
      "pp",       "8",
      "vpp",      "8",
      "cp",       "2",
      "mbs",      "1",
      "gbs",      "512",
      "seq",      "8192",
      "layout",   "embedding,loss",
      NULL}},
    {"llama-3.1-70b, 64 h100, tp4 pp4, 32 micro-batches",
     {"model", "llama-3.1-70b", "hardware", "h100", "gpus", "64", "tp", "4", "pp", "4", "mbs", "1",
      "gbs", "128", "seq", "8192", NULL}},
    {"deepseek-v3, 1,024 h100, pp16 ep64, 256 micro-batches",
     {"model", "deepseek-v3", "hardware", "h100", "gpus", "1024", "pp", "16", "ep", "64", "mbs",
      "1", "gbs", "16384", "seq", "4096", "recompute", "full", NULL}},
};
enum { RUNS = 201 };

static orr_tree *keys_of(orr_arena *arena, const bench_case *one) {
    orr_tree *keys = orr_tree_new_map(arena);
    for (size_t i = 0; one->keys[i] != NULL; i += 2) {
        orr_tree_put_text(arena, keys, one->keys[i], one->keys[i + 1]);
    }
    return keys;
}

/* The plans of a search near one: a few ways to recompute, and halves of its split. */
enum { NEIGHBOURS = 4, SPLITS = 2, ROUNDS = 50 };

static orr_plan neighbour(const orr_plan *plan, uint32_t recompute, uint32_t split) {
    orr_plan near = *plan;
    near.recompute = (orr_recompute){
        .kind = (uint32_t)(recompute == 0 ? ORR_RECOMPUTE_NONE : ORR_RECOMPUTE_BLOCK),
        .layers = recompute};
    if (split > 0 && plan->split.ep > 1) {
        near.split.ep /= 2;
    } else if (split > 0) {
        near.batch.mbs *= 2;
        near.batch.micro_batches /= 2;
    }
    return near;
}

static double search_us(orr_engine *engine, const orr_resolved *resolved, uint32_t splits) {
    static double each[RUNS];
    orr_quick *quick = NULL;
    orr_err err = {0};
    if (orr_quick_new(engine, resolved, 1, &quick, &err) != ORR_OK) {
        return 0;
    }
    for (int i = 0; i < RUNS; i++) {
        double start = now_us(), bound_s, need_bytes, step_s;
        for (uint32_t k = 0; k < ROUNDS; k++) {
            for (uint32_t n = 0; n < NEIGHBOURS; n++) {
                orr_plan plan = neighbour(&resolved->plan, n, (k + n) % splits);
                (void)orr_quick_bound(quick, &plan, &bound_s, &err);
                (void)orr_quick_need(quick, &plan, &need_bytes, &err);
                (void)orr_quick_step(quick, &plan, &step_s, &err);
            }
        }
        each[i] = (now_us() - start) / (ROUNDS * NEIGHBOURS);
    }
    orr_quick_free(quick);
    qsort(each, RUNS, sizeof *each, by_value);
    return each[RUNS / 2];
}

static int measure(const bench_case *one) {
    orr_arena *arena = orr_arena_new();
    orr_resolved resolved = {0};
    orr_err err = {0};
    if (orr_plan_resolve(arena, keys_of(arena, one), &resolved, &err) != ORR_OK) {
        printf("%s: %s\n", one->title, err.message);
        orr_arena_free(arena);
        return 1;
    }
    static double cold[RUNS], warm[RUNS], memory[RUNS];
    orr_projection projection;
    orr_memory verdict;
    for (int i = 0; i < RUNS; i++) {
        orr_engine *engine = orr_engine_new();
        orr_arena *result = orr_arena_new();
        (void)orr_engine_prepare(engine, &resolved, &err);
        double start = now_us();
        if (orr_project(engine, result, &resolved, NULL, &projection, &err) != ORR_OK) {
            printf("%s: %s\n", one->title, err.message);
            return 1;
        }
        cold[i] = now_us() - start;
        start = now_us();
        (void)orr_project(engine, result, &resolved, NULL, &projection, &err);
        warm[i] = now_us() - start;
        start = now_us();
        (void)orr_project_memory(engine, result, &resolved, false, &verdict, &err);
        memory[i] = now_us() - start;
        orr_arena_free(result);
        orr_engine_free(engine);
    }
    qsort(cold, RUNS, sizeof *cold, by_value);
    qsort(warm, RUNS, sizeof *warm, by_value);
    qsort(memory, RUNS, sizeof *memory, by_value);
    orr_engine *engine = orr_engine_new();
    double near_us = search_us(engine, &resolved, 1);
    double far_us = search_us(engine, &resolved, SPLITS);
    orr_engine_free(engine);
    printf("%s\n  projection: cold %.1f us, warm %.1f us; memory alone, warm %.2f us; one of a "
           "search %.2f us, of another split %.2f us (medians of %d)\n",
           one->title, cold[RUNS / 2], warm[RUNS / 2], memory[RUNS / 2], near_us, far_us, RUNS);
    orr_arena_free(arena);
    return 0;
}

int main(void) {
    int failed = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        failed += measure(&cases[i]);
    }
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    printf("largest resident set: %.1f MiB\n", (double)usage.ru_maxrss / 1024);
    return failed == 0 ? 0 : 1;
}
