/* Search: size of the space, time to certificate, and evaluations a second where nothing is ruled
 * out. One thread. */
#include <stdio.h>
#include <sys/resource.h>

#include "tune/tune.h"

typedef struct bench_case {
    const char *title, *model, *hardware, *software;
    int gpus, gbs, seq;
    const char *pin[6]; /* brute force where there are any */
} bench_case;

static const bench_case cases[] = {
    {"mixtral-8x22b, 32 mi355x", "mixtral-8x22b", "mi355x", "primus-rocm", 32, 256, 4096, {NULL}},
    {"llama-3.1-405b, 16,384 h100",
     "llama-3.1-405b",
     "h100",
     "megatron-core",
     16384,
     2048,
     8192,
     {NULL}},
    {"deepseek-v3, 1,024 h100", "deepseek-v3", "h100", "megatron-core", 1024, 8192, 4096, {NULL}},
    {"llama-3.1-70b, 32 h100, brute force",
     "llama-3.1-70b",
     "h100",
     "megatron-core",
     32,
     256,
     8192,
     {"pp=4", "cp=1", "sp=on", "schedule=interleaved", NULL}},
    {"mixtral-8x22b, 32 mi355x, brute force",
     "mixtral-8x22b",
     "mi355x",
     "primus-rocm",
     32,
     256,
     4096,
     {"pp=4", "ep=8", "tp=1", "cp=1", "schedule=interleaved", NULL}},
};

static double real(const orr_tree *node, const char *path) {
    return orr_tree_real(orr_tree_path(node, path), 0);
}

static void run(const bench_case *one) {
    orr_arena *arena = orr_arena_new();
    orr_engine *engine = orr_engine_new();
    orr_tree *keys = orr_tree_new_map(arena), *pins = orr_tree_new_list(arena), *result = NULL;
    orr_err err = {0};
    orr_tree_put_text(arena, keys, "model", one->model);
    orr_tree_put_text(arena, keys, "hardware", one->hardware);
    orr_tree_put_text(arena, keys, "software", one->software);
    orr_tree_put_int(arena, keys, "gpus", one->gpus);
    orr_tree_put_int(arena, keys, "gbs", one->gbs);
    orr_tree_put_int(arena, keys, "seq", one->seq);
    for (int i = 0; one->pin[i] != NULL; i++) {
        orr_tree_push(arena, pins, orr_tree_new_text(arena, one->pin[i]));
    }
    orr_tune_request request = {
        .keys = keys, .pins = pins, .threads = 1, .brute = one->pin[0] != NULL};
    if (orr_tune(engine, arena, &request, &result, &err) != ORR_OK) {
        printf("tune     %-40s %s\n", one->title, err.message);
    } else {
        printf("tune     %-40s %14.0f plans  %9.0f evaluated  %7.2f s  %9.0f/s\n", one->title,
               real(result, "certificate.space"), real(result, "certificate.evaluated"),
               real(result, "wall_s"), real(result, "rate_per_s"));
    }
    orr_engine_free(engine);
    orr_arena_free(arena);
}

int main(void) {
    struct rusage usage;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run(&cases[i]);
    }
    (void)getrusage(RUSAGE_SELF, &usage);
    printf("tune     most memory %.0f MiB\n", (double)usage.ru_maxrss / 1024);
    return 0;
}
