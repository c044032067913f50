/* What `check` finds beside rules: settings that cost speed and could be switched at once. Each
 * switch is tried: the same plan with the other value, resolved, checked and projected. It is named
 * only where that plan is legal, fits, and is faster. */
#include <string.h>

#include "api/api.h"
#include "base/err.h"

typedef struct trial {
    const char *id, *key, *value;
    const char *what; /* is the case now */
} trial;

/* None changes the numbers that training computes, nor how the model is split. */
static const trial trials[] = {
    {"SLOW-ATTENTION", "attention", "flash", "attention keeps its scores in memory"},
    {"SLOW-RECOMPUTE", "recompute", "none", "layers are recomputed although they fit without"},
    {"SLOW-RECOMPUTE", "recompute", "selective",
     "layers are recomputed although attention's scores would do"},
    {"SLOW-OVERLAP", "overlap", "all", "communication that could hide behind compute does not"},
    {"SLOW-OVERLAP", "overlap", "dp,tp,pp",
     "communication that could hide behind compute does not"},
    {"SLOW-OVERLAP", "overlap", "dp,tp", "communication that could hide behind compute does not"},
    {"SLOW-OVERLAP", "overlap", "dp", "gradients and parameters move while nothing computes"},
    {"SLOW-SEQUENCE", "sp", "on", "tensor-parallel ranks repeat norms and dropout"},
    {"SLOW-DISPATCH", "dispatch", "alltoall", "every rank receives every token"},
    {"SLOW-DISPATCH", "dispatch", "deepep", "tokens go out once an expert, not once a rank"},
    {"SLOW-P2P", "p2p", "overlap", "hops between stages wait for one another"},
    {"SLOW-LOSS", "loss", "te", "the loss passes over its logits many times"},
    {"SLOW-SHARDING", "sharding", "zero1", "parameters are gathered in every pass"},
};
enum { LEAST_PERMILLE = 10 };

static bool run(orr_job *job, const orr_tree *keys, const trial *t, double *tokens) {
    orr_arena *arena = job->arena;
    orr_tree *over = orr_tree_new_map(arena);
    orr_resolved *resolved = ORR_NEW(arena, orr_resolved);
    orr_projection projection;
    if (t != NULL) {
        orr_tree_put_text(arena, over, t->key, t->value);
    }
    const orr_tree *merged = orr_plan_merge(arena, keys, over);
    if (orr_plan_resolve(arena, merged, resolved, NULL) != ORR_OK || !orr_plan_legal(resolved) ||
        orr_project(job->ctx->engine, arena, resolved, NULL, &projection, NULL) != ORR_OK ||
        (t != NULL && projection.memory.fit > ORR_TIGHT)) {
        return false;
    }
    *tokens = projection.tokens_per_s_per_gpu;
    return *tokens > 0;
}

static bool found_before(const orr_tree *list, const char *id) {
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        if (strcmp(orr_tree_text(orr_tree_get(orr_tree_at(list, i), "id"), ""), id) == 0) {
            return true;
        }
    }
    return false;
}

static orr_tree *add(orr_job *job, orr_tree *list, const char *id, const char *level,
                     const char *message) {
    orr_tree *one = orr_tree_push(job->arena, list, orr_tree_new_map(job->arena));
    orr_tree_put_text(job->arena, one, "id", id);
    orr_tree_put_text(job->arena, one, "level", level);
    orr_tree_put_text(job->arena, one, "message", message);
    return one;
}

static void add_slow(orr_job *job, orr_tree *list) {
    double now, then;
    const orr_tree *keys = job->inputs;
    if (!run(job, keys, NULL, &now)) {
        return;
    }
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        const trial *t = &trials[i];
        if (found_before(list, t->id) || !run(job, keys, t, &then) ||
            then < now * (1 + LEAST_PERMILLE / 1000.0)) {
            continue;
        }
        orr_tree *one = add(job, list, t->id, "slow",
                            orr_arena_format(job->arena, "%s: %.1f %% faster with %s = %s", t->what,
                                             100 * (then / now - 1), t->key, t->value));
        orr_tree_put_text(job->arena, one, "key", t->key);
        orr_tree_put_text(job->arena, one, "value", t->value);
        orr_tree_put_real(job->arena, one, "gain_frac", then / now - 1);
    }
}

orr_tree *orr_job_lint(orr_job *job, const orr_resolved *resolved) {
    orr_tree *list = orr_tree_new_list(job->arena);
    for (size_t i = 0; i < orr_tree_size(job->warnings); i++) {
        const orr_tree *warning = orr_tree_at(job->warnings, i);
        (void)add(job, list, orr_tree_text(orr_tree_get(warning, "code"), ""), "warning",
                  orr_tree_text(orr_tree_get(warning, "message"), ""));
    }
    if (resolved != NULL) {
        add_slow(job, list);
    }
    return list;
}
