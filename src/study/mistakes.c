/* Why a verdict went wrong. A run that was called out of memory is projected again with each choice
 * that its row leaves open; the first that makes it fit is the likely cause. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "study/verdict.h"

static const double LINE_FRAC = 0.96; /* of the usable bytes: the border between fits and not */
static const double CLEARANCE_FRAC = 0.05;

typedef struct choice {
    const char *key, *value;
} choice;

/* What rows leave open, the commonest first. */
static const choice choices[] = {
    {"recompute", "selective:sac"},
    {"recompute", "full"},
    {"attention", "flash"},
    {"loss", "te"},
    {"loss", "fused"},
    {"grad_dtype", "bf16"},
    {"sp", "on"},
    {"sharding", "zero1"},
    {"sharding", "fsdp2"},
    {"optimizer", "adam8bit"},
    {"placement", "slots"},
};

bool orr_verdict_states_recompute(const orr_verdict *verdict) {
    const orr_judged *row = &verdict->judged;
    return row->run->recompute[0] != '\0' && row->resolved != NULL &&
           row->resolved->plan.recompute.kind != ORR_RECOMPUTE_UNKNOWN;
}

/* A run called out of memory, or a failure called fitting. */
static bool is_wrong(const orr_verdict *verdict) {
    return verdict->given && (verdict->failed ? verdict->outcome == ORR_OUTCOME_FITS
                                              : verdict->outcome == ORR_OUTCOME_OOM);
}

/* How far need lies on the wrong side of the line, as a share of the line. */
static double clearance_of(const orr_verdict *verdict) {
    double line = LINE_FRAC * verdict->memory.capacity_bytes;
    return line > 0 ? fabs(verdict->memory.worst.need_bytes / line - 1) : 0;
}

static bool is_stated(const orr_run *run, const char *key) {
    return (strcmp(key, "recompute") == 0 && run->recompute[0] != '\0') ||
           (strcmp(key, "sp") == 0 && run->seq_parallel[0] != '\0') ||
           (strcmp(key, "sharding") == 0 && run->sharding[0] != '\0');
}

static bool fits_with(orr_engine *engine, orr_arena *arena, const orr_judged *row, choice made) {
    orr_tree *keys = orr_plan_write(arena, row->resolved);
    orr_resolved *changed = ORR_NEW(arena, orr_resolved);
    orr_memory memory;
    orr_tree_put_text(arena, keys, made.key, made.value);
    return orr_plan_resolve(arena, keys, changed, NULL) == ORR_OK && orr_plan_legal(changed) &&
           orr_project_memory(engine, arena, changed, false, &memory, NULL) == ORR_OK &&
           memory.fit <= ORR_TIGHT;
}

static const char *cause_of_alarm(orr_engine *engine, orr_arena *arena, const orr_verdict *v) {
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        if (!is_stated(v->judged.run, choices[i].key) &&
            fits_with(engine, arena, &v->judged, choices[i])) {
            return orr_arena_format(arena, "fits with %s=%s, which the row leaves open",
                                    choices[i].key, choices[i].value);
        }
    }
    const orr_run *run = v->judged.run;
    if (run->recompute[0] != '\0' && !orr_verdict_states_recompute(v)) {
        return "recompute is stated in words that say too little";
    }
    const char *split = run->tp > 0 && run->pp > 0   ? NULL
                        : run->tp > 0 || run->pp > 0 ? "half of its split"
                                                     : "its split";
    if (split != NULL || run->sharding[0] == '\0' || !(run->mbs > 0)) {
        return orr_arena_format(arena, "the row does not state %s",
                                split != NULL              ? split
                                : run->sharding[0] == '\0' ? "its sharding"
                                                           : "its micro-batch");
    }
    return "no single open choice explains it";
}

static const char *cause_of_miss(orr_arena *arena, const orr_verdict *v) {
    double used = v->memory.worst.need_bytes / v->memory.capacity_bytes;
    if (used < 0.5) {
        return orr_arena_format(arena, "needs %.0f %% of the device: a fault other than memory",
                                100 * used);
    }
    return "fragmentation near the limit, or a fault other than memory";
}

orr_status orr_study_mistakes(orr_engine *engine, orr_arena *arena, const orr_verdict *all,
                              uint32_t count, orr_tree **out, orr_err *err) {
    (void)err;
    *out = orr_tree_new_list(arena);
    for (uint32_t i = 0; i < count; i++) {
        const orr_verdict *v = &all[i];
        if (!is_wrong(v) || clearance_of(v) <= CLEARANCE_FRAC) {
            continue;
        }
        orr_tree *map = orr_tree_push(arena, *out, orr_tree_new_map(arena));
        orr_tree_put_int(arena, map, "index", v->judged.run->index);
        orr_tree_put_text(arena, map, "source", v->judged.run->source);
        orr_tree_put_bool(arena, map, "failed", v->failed);
        orr_tree_put_bool(arena, map, "states_recompute", orr_verdict_states_recompute(v));
        orr_tree_put_real(arena, map, "need_gib", v->memory.worst.need_bytes / ORR_GIB);
        orr_tree_put_real(arena, map, "line_gib", LINE_FRAC * v->memory.capacity_bytes / ORR_GIB);
        orr_tree_put_real(arena, map, "clearance_frac", clearance_of(v));
        orr_tree_put_text(arena, map, "cause",
                          v->failed ? cause_of_miss(arena, v) : cause_of_alarm(engine, arena, v));
    }
    return ORR_OK;
}
