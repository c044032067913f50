/* Search: size of the space, time to certificate, and evaluations a second where nothing is ruled
 * out; on one thread and on two. Each in a process of its own, whose largest resident set is
 * shown. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tune/tune.h"

typedef struct bench_case {
    const char *title, *model, *hardware, *software;
    int gpus, gbs, seq;
    const char *range;  /* what a key may be besides the default, or NULL */
    const char *pin[6]; /* brute force where there are any */
} bench_case;

static const char all_schedules[] = "schedule=auto"; /* also those the software does not have */
static const bench_case cases[] = {
    {"mixtral-8x22b, 32 mi355x",
     "mixtral-8x22b",
     "mi355x",
     "primus-rocm",
     32,
     256,
     4096,
     all_schedules,
     {NULL}},
    {"deepseek-v3, 1,024 h100",
     "deepseek-v3",
     "h100",
     "megatron-core",
     1024,
     8192,
     4096,
     all_schedules,
     {NULL}},
    {"llama-3.1-405b, 16,384 h100",
     "llama-3.1-405b",
     "h100",
     "megatron-core",
     16384,
     2048,
     8192,
     all_schedules,
     {NULL}},
    {"the same, gbs 16,384",
     "llama-3.1-405b",
     "h100",
     "megatron-core",
     16384,
     16384,
     8192,
     all_schedules,
     {NULL}},
    {"llama-3.1-70b, 32 h100, brute force",
     "llama-3.1-70b",
     "h100",
     "megatron-core",
     32,
     256,
     8192,
     NULL,
     {"cp=1", "sp=on", "schedule=interleaved", NULL}},
    {"mixtral-8x22b, 32 mi355x, brute force",
     "mixtral-8x22b",
     "mi355x",
     "primus-rocm",
     32,
     256,
     4096,
     NULL,
     {"ep=8", "cp=1", "schedule=interleaved", NULL}},
};

static double real(const orr_tree *node, const char *path) {
    return orr_tree_real(orr_tree_path(node, path), 0);
}

typedef struct figures {
    double space, evaluated, wall_s, cpu_s, most_bytes;
} figures;

static int run(const bench_case *one, uint32_t threads, figures *out) {
    orr_arena *arena = orr_arena_new();
    orr_engine *engine = orr_engine_new();
    orr_tree *keys = orr_tree_new_map(arena), *pins = orr_tree_new_list(arena), *result = NULL;
    orr_tree *ranges = orr_tree_new_list(arena);
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
    if (one->range != NULL) {
        orr_tree_push(arena, ranges, orr_tree_new_text(arena, one->range));
    }
    orr_tune_request request = {.keys = keys,
                                .pins = pins,
                                .ranges = ranges,
                                .threads = threads,
                                .seed_budget = 60,
                                .brute = one->pin[0] != NULL};
    if (orr_tune(engine, arena, &request, &result, &err) != ORR_OK) {
        printf("tune     %-40s %s\n", one->title, err.message);
        return 1;
    }
    *out = (figures){real(result, "certificate.space"), real(result, "certificate.evaluated"),
                     real(result, "wall_s"), 0, 0};
    orr_engine_free(engine);
    orr_arena_free(arena);
    return 0;
}

/* In a child, so that its memory is its own. */
static int run_apart(const bench_case *one, uint32_t threads, figures *out) {
    int channel[2], status = 0;
    (void)fflush(stdout);
    if (pipe(channel) != 0) {
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        struct rusage usage;
        int failed = run(one, threads, out);
        (void)getrusage(RUSAGE_SELF, &usage);
        out->cpu_s = (double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec +
                     (double)usage.ru_stime.tv_sec + 1e-6 * (double)usage.ru_stime.tv_usec;
        out->most_bytes = 1024.0 * (double)usage.ru_maxrss;
        (void)fflush(stdout);
        _exit(failed || write(channel[1], out, sizeof *out) != (ssize_t)sizeof *out);
    }
    (void)close(channel[1]);
    bool told = read(channel[0], out, sizeof *out) == (ssize_t)sizeof *out;
    (void)close(channel[0]);
    (void)waitpid(child, &status, 0);
    return !told;
}

int main(void) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        figures one = {0}, two = {0};
        if (run_apart(&cases[i], 1, &one) != 0 || run_apart(&cases[i], 2, &two) != 0) {
            continue;
        }
        printf("tune     %-37s %10.0f plans %7.0f evaluated; one thread %6.2f s (%6.2f s of "
               "processor, %7.0f/s of it) %5.0f MiB; two %6.2f s (%4.2fx) %5.0f MiB\n",
               cases[i].title, one.space, one.evaluated, one.wall_s, one.cpu_s,
               one.evaluated / one.cpu_s, one.most_bytes / (1 << 20), two.wall_s,
               one.wall_s / two.wall_s, two.most_bytes / (1 << 20));
    }
    return 0;
}
