/* The cheapest ways out: single changes to a plan, each with the bytes it frees and what it costs
 * in time. Every candidate goes through the same resolution, rules and projection as the plan
 * itself. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/err.h"

typedef struct change {
    const char *key, *value;
} change;

typedef struct option {
    change made;
    bool fits;
    double need_bytes, tokens_per_s_per_gpu;
} option;

enum { MAX_OPTIONS = 48, SHOWN = 8, PAIRED = 12 };

typedef struct adviser {
    orr_job *job;
    const orr_tree *keys; /* of the plan */
    const orr_resolved *resolved;
    const orr_projection *now;
    uint32_t count;
    option option[MAX_OPTIONS];
} adviser;

/* The plan with one key changed, projected; false when it does not resolve or is not legal. */
static bool try_change(orr_job *job, orr_arena *arena, const orr_tree *keys, change made,
                       orr_projection *out) {
    orr_tree *over = orr_tree_new_map(arena);
    orr_resolved *resolved = ORR_NEW(arena, orr_resolved);
    orr_tree_put_text(arena, over, made.key, made.value);
    const orr_tree *merged = orr_plan_merge(arena, keys, over);
    return orr_plan_resolve(arena, merged, resolved, NULL) == ORR_OK && orr_plan_legal(resolved) &&
           orr_project(job->ctx->engine, arena, resolved, NULL, out, NULL) == ORR_OK;
}

static void consider(adviser *a, const char *key, const char *value) {
    orr_projection projection;
    change made = {key, value};
    if (a->count == MAX_OPTIONS || !try_change(a->job, a->job->arena, a->keys, made, &projection)) {
        return;
    }
    double need = projection.memory.worst.need_bytes;
    if (need < 0.995 * a->now->memory.worst.need_bytes) {
        a->option[a->count++] = (option){made, projection.memory.fit <= ORR_TIGHT, need,
                                         projection.tokens_per_s_per_gpu};
    }
}

static void consider_number(adviser *a, const char *key, uint32_t value) {
    if (value > 0) {
        consider(a, key, orr_arena_format(a->job->arena, "%u", value));
    }
}

/* More of one degree, or less of a batch, everything else kept. */
static void consider_all(adviser *a) {
    const orr_plan *plan = &a->resolved->plan;
    static const change words[] = {
        {"recompute", "selective"},
        {"recompute", "selective:layernorm"},
        {"recompute", "selective:mlp"},
        {"recompute", "selective:moe_act"},
        {"recompute", "full"},
        {"grad_dtype", "bf16"},
        {"loss", "te"},
        {"loss", "fused"},
        {"attention", "flash"},
        {"sharding", "zero1"},
        {"sharding", "zero3"},
        {"sp", "on"},
        {"layout", "embedding,loss"},
        {"exp_avg_dtype", "bf16"},
        {"schedule", "v-half"},
        {"schedule", "1f1b"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        consider(a, words[i].key, words[i].value);
    }
    consider_number(a, "mbs", plan->batch.mbs / 2);
    consider_number(a, "tp", plan->split.tp * 2);
    consider_number(a, "pp", plan->pipe.pp * 2);
    consider_number(a, "cp", plan->split.cp * 2);
    consider_number(a, "vpp", plan->pipe.vpp / 2);
    if (plan->split.ep > 1) {
        consider_number(a, "ep", plan->split.ep * 2);
    }
    uint32_t chunk = a->resolved->model->layers / (plan->pipe.pp * plan->pipe.vpp);
    for (uint32_t quarter = 1; quarter < 4 && chunk >= 4; quarter++) {
        consider(a, "recompute", orr_arena_format(a->job->arena, "block:%u", chunk * quarter / 4));
    }
}

/* Those that fit first, the fastest of them before the others; then the smallest. */
static int by_worth(const void *x, const void *y) {
    const option *a = (const option *)x, *b = (const option *)y;
    if (a->fits != b->fits) {
        return a->fits ? -1 : 1;
    }
    double ka = a->fits ? -a->tokens_per_s_per_gpu : a->need_bytes;
    double kb = b->fits ? -b->tokens_per_s_per_gpu : b->need_bytes;
    int order = (ka > kb) - (ka < kb);
    return order != 0 ? order : strcmp(a->made.key, b->made.key);
}

static void write_options(adviser *a, orr_tree *advice) {
    orr_arena *arena = a->job->arena;
    qsort(a->option, a->count, sizeof *a->option, by_worth);
    orr_tree *list = orr_tree_put(arena, advice, "changes", orr_tree_new_list(arena));
    for (uint32_t i = 0; i < a->count && i < SHOWN; i++) {
        const option *o = &a->option[i];
        orr_tree *map = orr_tree_push(arena, list, orr_tree_new_map(arena));
        orr_tree_put_text(arena, map, "key", o->made.key);
        orr_tree_put_text(arena, map, "value", o->made.value);
        orr_tree_put_bool(arena, map, "fits", o->fits);
        orr_tree_put_real(arena, map, "frees_bytes",
                          a->now->memory.worst.need_bytes - o->need_bytes);
        orr_tree_put_real(arena, map, "need_bytes", o->need_bytes);
        orr_tree_put_real(arena, map, "tokens_per_s_per_gpu", o->tokens_per_s_per_gpu);
        orr_tree_put_real(arena, map, "throughput_change_frac",
                          o->tokens_per_s_per_gpu / a->now->tokens_per_s_per_gpu - 1);
    }
}

/* Where no single change is enough: two of those that free most together, the fastest first. */
static void write_pairs(adviser *a, orr_tree *advice) {
    orr_arena *arena = a->job->arena;
    orr_tree *list = orr_tree_new_list(arena);
    uint32_t most = a->count < PAIRED ? a->count : PAIRED;
    for (uint32_t i = 0; i < most; i++) {
        for (uint32_t k = i + 1; k < most && orr_tree_size(list) < SHOWN; k++) {
            const change *first = &a->option[i].made, *second = &a->option[k].made;
            orr_projection projection;
            orr_tree *over = orr_tree_new_map(arena);
            orr_tree_put_text(arena, over, first->key, first->value);
            if (strcmp(first->key, second->key) == 0 ||
                !try_change(a->job, arena, orr_plan_merge(arena, a->keys, over), *second,
                            &projection) ||
                projection.memory.fit > ORR_TIGHT) {
                continue;
            }
            orr_tree *map = orr_tree_push(arena, list, orr_tree_new_map(arena));
            orr_tree_put_text(arena, map, "changes",
                              orr_arena_format(arena, "%s=%s %s=%s", first->key, first->value,
                                               second->key, second->value));
            orr_tree_put_real(arena, map, "need_bytes", projection.memory.worst.need_bytes);
            orr_tree_put_real(arena, map, "tokens_per_s_per_gpu", projection.tokens_per_s_per_gpu);
            orr_tree_put_real(arena, map, "throughput_change_frac",
                              projection.tokens_per_s_per_gpu / a->now->tokens_per_s_per_gpu - 1);
        }
    }
    if (orr_tree_size(list) > 0) {
        (void)orr_tree_put(arena, advice, "pairs", list);
    }
}

orr_status orr_job_advise(orr_job *job, const orr_resolved *resolved, orr_err *err) {
    orr_projection *now = ORR_NEW(job->arena, orr_projection);
    ORR_TRY(orr_project(job->ctx->engine, job->arena, resolved, NULL, now, err));
    if (now->memory.fit == ORR_FITS) {
        return ORR_OK;
    }
    adviser *a = ORR_NEW(job->arena, adviser);
    *a = (adviser){
        .job = job, .keys = orr_plan_write(job->arena, resolved), .resolved = resolved, .now = now};
    orr_tree *advice =
        orr_tree_put(job->arena, job->result, "advice", orr_tree_new_map(job->arena));
    consider_all(a);
    write_options(a, advice);
    if (now->memory.fit > ORR_TIGHT) {
        if (a->count == 0 || !a->option[0].fits) {
            write_pairs(a, advice);
        }
        orr_job_put_gpus(job, resolved, advice);
    }
    return ORR_OK;
}
