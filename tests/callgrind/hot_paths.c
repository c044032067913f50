/* Runs one hot path once inside `counted`, for tests/callgrind/run to count its instructions. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "projection/projection.h"
#include "schedule/schedule.h"

typedef struct path {
    const char *name;
    orr_schedule_spec spec;
    enum { BUILD, PLAY_FULL, PLAY_CUT, WORKLIST, PROJECT_COLD, PROJECT_WARM } what;
} path;

#define PIPE(kind_, p2p_, pp_, vpp_, m_)                                                           \
    {.kind = (kind_), .p2p = (p2p_), .pp = (pp_), .vpp = (vpp_), .micro_batches = (m_)}
static const path paths[] = {
    {"build_1f1b_p16_m256_blocking", PIPE(ORR_SCHEDULE_1F1B, ORR_P2P_BLOCKING, 16, 1, 256), BUILD},
    {"build_interleaved_p8_v8_m64_overlap",
     PIPE(ORR_SCHEDULE_INTERLEAVED, ORR_P2P_OVERLAP, 8, 8, 64), BUILD},
    {"full_1f1b_p16_m256", PIPE(ORR_SCHEDULE_1F1B, ORR_P2P_ASYNC, 16, 1, 256), PLAY_FULL},
    {"cut_1f1b_p16_m256", PIPE(ORR_SCHEDULE_1F1B, ORR_P2P_ASYNC, 16, 1, 256), PLAY_CUT},
    {"worklist_1f1b_p16_m256", PIPE(ORR_SCHEDULE_1F1B, ORR_P2P_ASYNC, 16, 1, 256), WORKLIST},
    {"full_interleaved_p16_v4_m256", PIPE(ORR_SCHEDULE_INTERLEAVED, ORR_P2P_ASYNC, 16, 4, 256),
     PLAY_FULL},
    {"cut_interleaved_p16_v4_m256", PIPE(ORR_SCHEDULE_INTERLEAVED, ORR_P2P_ASYNC, 16, 4, 256),
     PLAY_CUT},
    {"project_cold_405b_1024_gpus", {0}, PROJECT_COLD},
    {"project_warm_405b_1024_gpus", {0}, PROJECT_WARM},
};

typedef struct scene {
    const path *path;
    orr_arena *arena, *scratch;
    orr_durations d;
    const orr_order *order;
    orr_engine *engine;
    orr_resolved resolved;
    orr_status status;
} scene;

__attribute__((noinline)) void counted(scene *s);
__attribute__((noinline)) void counted(scene *s) {
    orr_play play = {0};
    orr_projection projection;
    switch (s->path->what) {
    case BUILD:
        s->status = orr_order_build_brief(s->arena, &s->path->spec, &s->d, &s->order, NULL);
        break;
    case PLAY_FULL:
    case PLAY_CUT:
        s->status =
            orr_order_play(s->order, &s->d, s->path->what == PLAY_FULL, s->scratch, &play, NULL);
        break;
    case WORKLIST:
        s->status = orr_order_times(s->order, &s->d, s->scratch, NULL, NULL, NULL, NULL);
        break;
    case PROJECT_COLD:
    case PROJECT_WARM:
        s->status = orr_project(s->engine, s->arena, &s->resolved, NULL, &projection, NULL);
        break;
    }
}

static void make_times(scene *s) {
    uint32_t pp = s->path->spec.pp, chunks = pp * s->path->spec.vpp;
    int64_t *f = ORR_NEW_ARRAY(s->arena, int64_t, chunks);
    int64_t *b = ORR_NEW_ARRAY(s->arena, int64_t, chunks);
    int64_t *hop = ORR_NEW_ARRAY(s->arena, int64_t, pp);
    for (uint32_t i = 0; i < chunks; i++) {
        bool end = i == 0 || i == chunks - 1;
        f[i] = 1000000 + (end ? 137003 : 0);
        b[i] = 2000000 + (end ? 91001 : 0);
    }
    for (uint32_t r = 0; r < pp; r++) {
        hop[r] = r % 8 == 7 ? 40007 : 11003;
    }
    s->d = (orr_durations){.f = f, .b = b, .hop = hop};
}

static orr_status prepare_plan(scene *s, orr_err *err) {
    static const char *const keys[][2] = {{"model", "llama-3.1-405b"},
                                          {"hardware", "h100"},
                                          {"gpus", "1024"},
                                          {"tp", "8"},
                                          {"pp", "8"},
                                          {"vpp", "8"},
                                          {"cp", "2"},
                                          {"mbs", "1"},
                                          {"gbs", "512"},
                                          {"seq", "8192"},
                                          {"layout", "embedding,loss"}};
    orr_tree *map = orr_tree_new_map(s->arena);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        orr_tree_put_text(s->arena, map, keys[i][0], keys[i][1]);
    }
    s->engine = orr_engine_new();
    orr_status status = orr_plan_resolve(s->arena, map, &s->resolved, err);
    status = status != ORR_OK ? status : orr_engine_prepare(s->engine, &s->resolved, err);
    if (status == ORR_OK && s->path->what == PROJECT_WARM) {
        counted(s);
    }
    return status;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
            puts(paths[i].name);
        }
        return 0;
    }
    size_t i = 0;
    while (i < sizeof paths / sizeof *paths && strcmp(paths[i].name, argv[1]) != 0) {
        i++;
    }
    if (i == sizeof paths / sizeof *paths) {
        return 2;
    }
    scene s = {.path = &paths[i], .arena = orr_arena_new(), .scratch = orr_arena_new()};
    orr_err err = {0};
    orr_status status = ORR_OK;
    if (s.path->what >= PROJECT_COLD) {
        status = prepare_plan(&s, &err);
    } else {
        make_times(&s);
        status = s.path->what == BUILD
                     ? ORR_OK
                     : orr_order_build(s.arena, &s.path->spec, &s.d, &s.order, &err);
    }
    if (status != ORR_OK) {
        (void)fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    counted(&s);
    orr_engine_free(s.engine);
    orr_arena_free(s.scratch);
    orr_arena_free(s.arena);
    return s.status == ORR_OK ? 0 : 1;
}
