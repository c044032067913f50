/* Speed of whole projections: cold (nothing memoised) and warm, after the inputs are resolved. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "projection/projection.h"

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
    printf("%s\n  projection: cold %.1f us, warm %.1f us; memory alone, warm %.2f us (medians of "
           "%d)\n",
           one->title, cold[RUNS / 2], warm[RUNS / 2], memory[RUNS / 2], RUNS);
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
