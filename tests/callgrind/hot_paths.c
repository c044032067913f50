/* Runs one hot path once inside `counted`, for tests/callgrind/run to count its instructions. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "projection/quick.h"
#include "schedule/schedule.h"

typedef struct path {
    const char *name;
    orr_schedule_spec spec;
    enum { BUILD, PLAY_FULL, PLAY_CUT, WORKLIST, PROJECT_COLD, PROJECT_WARM, SEARCH } what;
    const char *const (*keys)[2]; /* of the plan; NULL, NULL ends them */
} path;

static const char *const llama[][2] = {{"model", "llama-3.1-405b"},
                                       {"hardware", "h100"},
                                       {"gpus", "1024"},
                                       {"tp", "8"},
                                       {"pp", "8"},
                                       {"vpp", "8"},
                                       {"cp", "2"},
                                       {"mbs", "1"},
                                       {"gbs", "512"},
                                       {"seq", "8192"},
                                       {"layout", "embedding,loss"},
                                       {NULL, NULL}};
static const char *const deepseek[][2] = {{"model", "deepseek-v3"},
                                          {"hardware", "h100"},
                                          {"gpus", "1024"},
                                          {"pp", "16"},
                                          {"ep", "64"},
                                          {"mbs", "1"},
                                          {"gbs", "16384"},
                                          {"seq", "4096"},
                                          {"recompute", "full"},
                                          {NULL, NULL}};

#define PIPE(kind_, p2p_, pp_, vpp_, m_)                                                           \
    {.kind = (kind_), .p2p = (p2p_), .pp = (pp_), .vpp = (vpp_), .micro_batches = (m_)}
static const path paths[] = {
    {"build_1f1b_p16_m256_blocking", PIPE(ORR_SCHEDULE_1F1B, ORR_P2P_BLOCKING, 16, 1, 256), BUILD,
     NULL},
    {"build_interleaved_p8_v8_m64_overlap",
     PIPE(ORR_SCHEDULE_INTERLEAVED, ORR_P2P_OVERLAP, 8, 8, 64), BUILD, NULL},
    {"full_1f1b_p16_m256", PIPE(ORR_SCHEDULE_1F1B, ORR_P2P_ASYNC, 16, 1, 256), PLAY_FULL, NULL},
    {"cut_1f1b_p16_m256", PIPE(ORR_SCHEDULE_1F1B, ORR_P2P_ASYNC, 16, 1, 256), PLAY_CUT, NULL},
    {"worklist_1f1b_p16_m256", PIPE(ORR_SCHEDULE_1F1B, ORR_P2P_ASYNC, 16, 1, 256), WORKLIST, NULL},
    {"full_interleaved_p16_v4_m256", PIPE(ORR_SCHEDULE_INTERLEAVED, ORR_P2P_ASYNC, 16, 4, 256),
     PLAY_FULL, NULL},
    {"cut_interleaved_p16_v4_m256", PIPE(ORR_SCHEDULE_INTERLEAVED, ORR_P2P_ASYNC, 16, 4, 256),
     PLAY_CUT, NULL},
    {"project_cold_405b_1024_gpus", {0}, PROJECT_COLD, llama},
    {"project_warm_405b_1024_gpus", {0}, PROJECT_WARM, llama},
    {"project_cold_deepseek_1024_gpus", {0}, PROJECT_COLD, deepseek},
    {"project_warm_deepseek_1024_gpus", {0}, PROJECT_WARM, deepseek},
    {"search_405b_1024_gpus", {0}, SEARCH, llama},
    {"search_deepseek_1024_gpus", {0}, SEARCH, deepseek},
};

typedef struct scene {
    const path *path;
    orr_arena *arena, *scratch;
    orr_durations d;
    const orr_order *order;
    orr_engine *engine;
    orr_resolved resolved;
    orr_quick *quick;
    orr_status status;
} scene;

/* What a search asks of a plan that nothing rules out. */
static orr_status evaluate(scene *s) {
    double bound_s, need_bytes, step_s;
    const orr_plan *plan = &s->resolved.plan;
    ORR_TRY(orr_quick_bound(s->quick, plan, &bound_s, NULL));
    ORR_TRY(orr_quick_need(s->quick, plan, &need_bytes, NULL));
    return orr_quick_step(s->quick, plan, &step_s, NULL);
}

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
    case SEARCH: s->status = evaluate(s); break;
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
    orr_tree *map = orr_tree_new_map(s->arena);
    for (const char *const(*key)[2] = s->path->keys; (*key)[0] != NULL; key++) {
        orr_tree_put_text(s->arena, map, (*key)[0], (*key)[1]);
    }
    s->engine = orr_engine_new();
    orr_status status = orr_plan_resolve(s->arena, map, &s->resolved, err);
    status = status != ORR_OK ? status : orr_engine_prepare(s->engine, &s->resolved, err);
    if (status == ORR_OK && s->path->what == PROJECT_WARM) {
        counted(s);
    }
    if (status == ORR_OK && s->path->what == SEARCH) {
        status = orr_quick_new(s->engine, &s->resolved, 1, &s->quick, err);
        /* it and a neighbour in turn, each known when it comes again */
        const orr_recompute own = s->resolved.plan.recompute;
        const orr_recompute near[] = {own, {.kind = ORR_RECOMPUTE_BLOCK, .layers = 1}};
        for (uint32_t i = 0; i < 4 && status == ORR_OK; i++) {
            s->resolved.plan.recompute = near[i % 2];
            counted(s);
            status = s->status;
        }
        s->resolved.plan.recompute = own;
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
    orr_quick_free(s.quick);
    orr_engine_free(s.engine);
    orr_arena_free(s.scratch);
    orr_arena_free(s.arena);
    return s.status == ORR_OK ? 0 : 1;
}
