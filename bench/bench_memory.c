/* How long a memory evaluation takes once the program is linked: a 61-layer mixture on 16 stages,
 * and dense plans beside it. */
#include <stdio.h>
#include <time.h>

#include "../tests/memory_fixture.h"
#include "base/num.h"

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct bench_case {
    const char *name;
    bool mixture;
    uint32_t layers, gpus, tp, pp, vpp, ep, micro_batches;
    uint8_t schedule;
} bench_case;

static int run(const bench_case *c) {
    enum { BATCH = 2000, BATCHES = 9 };
    static fixture_model model;
    if (c->mixture) {
        fixture_deepseek(&model, c->layers, true);
    } else {
        fixture_llama(&model, c->layers, 16384, 128, 8, 53248);
    }
    orr_software software = fixture_software();
    orr_accelerator accelerator = fixture_accelerator(80 * ORR_GIB);
    orr_cluster cluster = {.accelerator = &accelerator, .gpus = c->gpus, .gpus_per_node = 8};
    orr_resolved resolved = {.model = &model.model, .cluster = &cluster, .software = &software};
    resolved.plan = fixture_plan(&software, c->gpus, c->tp, c->pp, 1, c->ep);
    resolved.plan.pipe.vpp = c->vpp;
    resolved.plan.pipe.schedule = c->schedule;
    resolved.plan.pipe.p2p = (uint8_t)orr_schedule_default_p2p((orr_schedule_kind)c->schedule);
    resolved.plan.pipe.placement = ORR_PLACE_BALANCED;
    resolved.plan.batch.micro_batches = c->micro_batches;
    orr_arena *arena = orr_arena_new(), *scratch = orr_arena_new();
    orr_linker *linker = orr_linker_new();
    orr_program program;
    orr_err err = {0};
    if (orr_link(linker, arena, &resolved, NULL, &program, &err) != ORR_OK) {
        fprintf(stderr, "%s: %s\n", c->name, err.message);
        return 1;
    }
    double best_s = 1e9, need = 0;
    for (int b = 0; b < BATCHES; b++) {
        double start = now_s();
        for (int i = 0; i < BATCH; i++) {
            orr_memory memory;
            orr_arena_reset(scratch);
            orr_memory_evaluate(&program, scratch, false, &memory);
            need += memory.worst.need_bytes;
        }
        best_s = orr_min_f64(best_s, (now_s() - start) / BATCH);
    }
    printf("memory %-34s %6.2f us (need %.1f GiB)\n", c->name, best_s / ORR_US,
           need / BATCH / BATCHES / ORR_GIB);
    orr_linker_free(linker);
    orr_arena_free(arena);
    orr_arena_free(scratch);
    return 0;
}

int main(void) {
    static const bench_case cases[] = {
        {"deepseek-v3 pp16 ep64", true, 61, 2048, 1, 16, 1, 64, 64, ORR_SCHEDULE_1F1B},
        {"deepseek-v3 pp16 dualpipev", true, 61, 2048, 1, 16, 2, 64, 64, ORR_SCHEDULE_DUALPIPEV},
        {"llama 405b pp8 vpp8", false, 128, 1024, 8, 8, 8, 1, 64, ORR_SCHEDULE_INTERLEAVED},
        {"llama 405b pp16", false, 128, 1024, 8, 16, 1, 1, 64, ORR_SCHEDULE_1F1B},
        {"llama 405b pp1", false, 126, 1024, 8, 1, 1, 1, 8, ORR_SCHEDULE_1F1B},
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        failed |= run(&cases[i]);
    }
    return failed;
}
