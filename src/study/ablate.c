/* The error table once more with one effect of the model switched off at a time: what each is
 * worth. Nothing is fitted anew. Some effects are numbers of a software profile, a calibration or a
 * fabric, and are taken out of a copy; the rest the engine leaves out. docs/internals/study.md. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "cost/calibration.h"
#include "study/study_int.h"

/* Copies that an effect may change; the plan's variant is its own. */
typedef struct settings {
    orr_plan *plan;
    orr_software *software;
    orr_cluster *cluster;
    orr_fabric *fabric;
    const orr_fabric *usual_fabric;
} settings;

typedef struct effect {
    const char *name;
    uint32_t without;                           /* orr_ablation bits of the engine */
    void (*settings)(settings *s);              /* NULL: none changes */
    void (*calibration)(orr_calibration *into); /* likewise */
} effect;

static void no_recompute(settings *s) {
    memset(&s->plan->recompute, 0, sizeof s->plan->recompute);
}
static void fused_everywhere(settings *s) {
    orr_variant *v = &s->plan->variant;
    v->fused_norm = v->fused_activation = v->fused_rope = v->fused_permute = 1;
    v->qkv_copy = 0;
    s->software->accumulate_bytes = 0;
}
static void tp_exposed(settings *s) {
    s->software->tp_overlap_fwd_frac = s->software->tp_overlap_bwd_frac = 0;
}
static void ep_exposed(settings *s) {
    s->software->ep_overlap_frac = 0;
}
static void dp_hidden(settings *s) {
    s->software->dp_overlap_grads = s->software->dp_overlap_params = 1;
    s->software->dp_window_frac = 1e6;
    s->software->dp_exposed_min_frac = 0;
    s->plan->overlap |= ORR_OVERLAP_DP;
}
static void usual_fabric(settings *s) {
    *s->fabric = *s->usual_fabric;
    s->software->nic_efficiency_frac = 0;
}
static void one_attention(settings *s) {
    s->software->attention_efficiency_frac = 0.6;
}
static void no_host_floor(settings *s) {
    s->software->host_fwd_s = s->software->host_bwd_s = 0;
    s->software->host_moe_fwd_s = s->software->host_moe_bwd_s = 0;
    s->software->host_pp_tp_fwd_s = s->software->host_pp_tp_bwd_s = 0;
}
static void no_slowdown(settings *s) {
    s->software->fsdp_slowdown_frac = 0;
}
static void no_optimizer(settings *s) {
    s->software->optimizer_shard_bytes = s->software->optimizer_local_bytes = 0;
}
static void no_accumulation(settings *s) {
    s->software->accumulate_bytes = 0;
}
static void no_step_constant(settings *s) {
    s->software->step_s = 0;
}
static void no_stragglers(settings *s) {
    s->software->straggler_frac = s->software->straggler_each_frac = 0;
}

static void burst_power(orr_calibration *c) {
    for (uint32_t i = 0; i < c->gemm_count; i++) {
        c->gemm[i].constants.throttle = 0;
    }
}
static void no_waves(orr_calibration *c) {
    for (uint32_t i = 0; i < c->gemm_count; i++) {
        c->gemm[i].constants.quantisation = 0;
    }
}
static void plain_groups(orr_calibration *c) {
    for (uint32_t i = 0; i < c->arch_count; i++) {
        c->arch[i].grouped_frac = 1;
        c->arch[i].group_s = 0;
    }
}

static void aligned_heads(orr_calibration *c) {
    for (uint32_t i = 0; i < c->arch_count; i++) {
        c->arch[i].misaligned = 1;
    }
}

static const effect effects[] = {
    {"pipeline bubble", ORR_WITHOUT_BUBBLE, NULL, NULL},
    {"norms, elementwise, quantisation", ORR_WITHOUT_MEMORY_OPS, NULL, NULL},
    {"recompute", 0, no_recompute, NULL},
    {"sustained power (burst GEMM)", 0, NULL, burst_power},
    {"embedding, head and loss", ORR_WITHOUT_ENDS, NULL, NULL},
    {"unfused kernels (fused everywhere)", 0, fused_everywhere, NULL},
    {"TP communication", ORR_WITHOUT_TP, NULL, NULL},
    {"TP overlap (all exposed)", 0, tp_exposed, NULL},
    {"shape dependence of GEMM (one speed)", ORR_WITHOUT_SHAPES, NULL, NULL},
    {"DP and FSDP communication", ORR_WITHOUT_DP, NULL, NULL},
    {"DP overlap limits (all hidden)", 0, dp_hidden, NULL},
    {"fabric data (one fabric for all)", 0, usual_fabric, NULL},
    {"attention generation (one for all)", 0, one_attention, NULL},
    {"head on its own stage (spread evenly)", ORR_WITHOUT_END_STAGES, NULL, NULL},
    {"host floor", 0, no_host_floor, NULL},
    {"wave quantisation", 0, NULL, no_waves},
    {"FP8 quantise traffic", ORR_WITHOUT_CASTS, NULL, NULL},
    {"MoE all-to-all", ORR_WITHOUT_EP, NULL, NULL},
    {"MoE all-to-all overlap", 0, ep_exposed, NULL},
    {"grouped GEMM efficiency", 0, NULL, plain_groups},
    {"head_dim alignment", 0, NULL, aligned_heads},
    {"CP communication", ORR_WITHOUT_CP, NULL, NULL},
    {"pipeline transfers", ORR_WITHOUT_P2P, NULL, NULL},
    {"slow-down under FSDP collectives", 0, no_slowdown, NULL},
    {"optimizer step", 0, no_optimizer, NULL},
    {"fp32 accumulation", 0, no_accumulation, NULL},
    {"constant per step", 0, no_step_constant, NULL},
    {"stragglers", 0, no_stragglers, NULL},
};
enum { EFFECTS = sizeof effects / sizeof *effects };

/* The row's plan under the effect; everything that changes is copied. */
static const orr_resolved *plan_without(orr_arena *arena, const orr_resolved *resolved,
                                        const orr_fabric *fabric, const effect *one) {
    if (one->settings == NULL) {
        return resolved;
    }
    orr_resolved *copy = ORR_NEW(arena, orr_resolved);
    settings s = {.plan = &copy->plan,
                  .software = ORR_NEW(arena, orr_software),
                  .cluster = ORR_NEW(arena, orr_cluster),
                  .fabric = ORR_NEW(arena, orr_fabric),
                  .usual_fabric = fabric};
    *copy = *resolved;
    *s.software = *resolved->software;
    *s.cluster = *resolved->cluster;
    *s.fabric = *resolved->cluster->fabric;
    s.cluster->fabric = s.fabric;
    copy->software = s.software;
    copy->cluster = s.cluster;
    one->settings(&s);
    return copy;
}

/* The groups of rows that the table of ablations tells apart. */
static const char *group_of(const orr_judged *row) {
    const char *source = row->run->source;
    bool moe = strcmp(row->kind, "moe") == 0;
    if (strstr(source, "nanotron") != NULL) {
        return "nanotron";
    }
    if (row->resolved == NULL) {
        return NULL;
    }
    if (row->resolved->plan.shard.kind >= ORR_SHARD_ZERO3) {
        return "fsdp";
    }
    const char *const nvidia = "megatron-core";
    if (strncmp(row->software, nvidia, strlen(nvidia)) == 0) {
        return moe ? "nvidia_moe" : "nvidia_dense";
    }
    return strncmp(row->gpu, "a100", 4) == 0 ? "a100_papers" : NULL;
}

static orr_tree *group_medians(orr_arena *arena, const orr_judged *rows, uint32_t count) {
    static const char *const names[] = {"nanotron", "a100_papers", "fsdp", "nvidia_dense",
                                        "nvidia_moe"};
    orr_tree *map = orr_tree_new_map(arena);
    double *errors = ORR_NEW_ARRAY(arena, double, count);
    for (size_t g = 0; g < sizeof names / sizeof *names; g++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < count; i++) {
            const char *group =
                rows[i].counts && rows[i].skipped == NULL ? group_of(&rows[i]) : NULL;
            if (group != NULL && strcmp(group, names[g]) == 0) {
                errors[n++] = fabs(orr_judged_error(&rows[i]));
            }
        }
        orr_tree_put_real(arena, map, names[g], orr_median(errors, n));
    }
    return map;
}

static orr_status judge_without(orr_arena *arena, const effect *one, const orr_fabric *fabric,
                                const orr_judged *rows, uint32_t count, orr_tree *map,
                                orr_err *err) {
    orr_calibration *calibration = NULL;
    ORR_TRY(orr_calibration_builtin(arena, &calibration, err));
    if (one->calibration != NULL) {
        one->calibration(calibration);
    }
    orr_judged *changed = ORR_NEW_ARRAY(arena, orr_judged, count);
    const orr_judged **all = ORR_NEW_ARRAY(arena, const orr_judged *, count);
    orr_engine *engine = orr_engine_with(calibration);
    orr_status status = ORR_OK;
    orr_engine_without(engine, one->without);
    for (uint32_t i = 0; i < count && status == ORR_OK; i++) {
        changed[i] = rows[i];
        all[i] = &changed[i];
        if (rows[i].skipped == NULL && rows[i].counts) {
            orr_projection projection;
            status = orr_project(engine, arena, plan_without(arena, rows[i].resolved, fabric, one),
                                 NULL, &projection, err);
            changed[i].projected = projection.tokens_per_s_per_gpu;
            changed[i].low = projection.low;
            changed[i].high = projection.high;
        }
    }
    orr_engine_free(engine);
    ORR_TRY(status);
    orr_tree_put_text(arena, map, "effect", one->name);
    (void)orr_tree_put(arena, map, "summary", orr_summarise(arena, all, count));
    (void)orr_tree_put(arena, map, "group_medians", group_medians(arena, changed, count));
    (void)orr_tree_put(arena, map, "series", orr_judge_series(arena, changed, count));
    return ORR_OK;
}

orr_status orr_study_ablate(orr_arena *arena, const orr_judged *rows, uint32_t count,
                            orr_tree **out, orr_err *err) {
    static const effect nothing = {"nothing", 0, NULL, NULL};
    orr_fabric *fabric = NULL;
    ORR_TRY(orr_fabric_find(arena, orr_cluster_usual_fabric, &fabric, err));
    *out = orr_tree_new_list(arena);
    for (int i = -1; i < EFFECTS; i++) {
        orr_arena *own = orr_arena_new();
        orr_tree *map = orr_tree_new_map(own);
        orr_status status =
            judge_without(own, i < 0 ? &nothing : &effects[i], fabric, rows, count, map, err);
        if (status == ORR_OK) {
            (void)orr_tree_push(arena, *out, orr_tree_copy(arena, map));
        }
        orr_arena_free(own);
        ORR_TRY(status);
    }
    return ORR_OK;
}
