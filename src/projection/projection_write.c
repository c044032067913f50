/* A projection as the `result` of an envelope. */
#include <stdio.h>

#include "projection/projection.h"

static const char *const slice_names[ORR_SLICE_COUNT] = {
    [ORR_SLICE_GEMM] = "gemm",     [ORR_SLICE_ATTENTION] = "attention",
    [ORR_SLICE_LOSS] = "loss",     [ORR_SLICE_ELEMENTWISE] = "elementwise",
    [ORR_SLICE_TP] = "tp",         [ORR_SLICE_CP] = "cp",
    [ORR_SLICE_EP] = "ep",         [ORR_SLICE_PP] = "pp",
    [ORR_SLICE_BUBBLE] = "bubble", [ORR_SLICE_DP] = "dp",
    [ORR_SLICE_HOST] = "host",     [ORR_SLICE_RECOMPUTE] = "recompute",
    [ORR_SLICE_JITTER] = "jitter", [ORR_SLICE_OPTIMIZER] = "optimizer",
};

const char *orr_slice_name(orr_slice slice) {
    return slice < ORR_SLICE_COUNT ? slice_names[slice] : "unknown";
}

static void put_seconds(orr_arena *arena, orr_tree *map, const char *name, double value_s) {
    char key[48];
    (void)snprintf(key, sizeof key, "%s_s", name);
    orr_tree_put_real(arena, map, key, value_s);
}

static orr_tree *rank_tree(orr_arena *arena, const orr_rank_memory *rank, uint32_t index) {
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_int(arena, map, "rank", index);
    orr_tree_put_text(arena, map, "moment", orr_moment_name((orr_moment)rank->moment));
    orr_tree_put_real(arena, map, "live_bytes", rank->live_bytes);
    orr_tree_put_real(arena, map, "allocated_bytes", rank->allocated_bytes);
    orr_tree_put_real(arena, map, "reserved_bytes", rank->reserved_bytes);
    orr_tree_put_real(arena, map, "device_bytes", rank->device_bytes);
    orr_tree_put_real(arena, map, "need_bytes", rank->need_bytes);
    orr_tree *parts = orr_tree_put(arena, map, "parts", orr_tree_new_map(arena));
    for (int p = 0; p < ORR_PART_COUNT; p++) {
        char key[48];
        (void)snprintf(key, sizeof key, "%s_bytes", orr_memory_part_name((orr_memory_part)p));
        orr_tree_put_real(arena, parts, key, rank->part_bytes[p]);
    }
    return map;
}

orr_tree *orr_memory_write(orr_arena *arena, const orr_memory *memory, uint32_t pp) {
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_real(arena, map, "live_bytes", memory->worst.live_bytes);
    orr_tree_put_real(arena, map, "allocated_bytes", memory->worst.allocated_bytes);
    orr_tree_put_real(arena, map, "reserved_bytes", memory->worst.reserved_bytes);
    orr_tree_put_real(arena, map, "device_bytes", memory->worst.device_bytes);
    orr_tree_put_real(arena, map, "need_bytes", memory->worst.need_bytes);
    orr_tree_put_real(arena, map, "capacity_bytes", memory->capacity_bytes);
    orr_tree_put_int(arena, map, "worst_rank", memory->worst_rank);
    orr_tree_put_text(arena, map, "moment", orr_moment_name((orr_moment)memory->worst.moment));
    if (memory->rank != NULL) {
        orr_tree *ranks = orr_tree_put(arena, map, "ranks", orr_tree_new_list(arena));
        for (uint32_t r = 0; r < pp; r++) {
            (void)orr_tree_push(arena, ranks, rank_tree(arena, &memory->rank[r], r));
        }
    }
    return map;
}

orr_tree *orr_projection_write(orr_arena *arena, const orr_projection *projection) {
    static const char *const provenance[ORR_PROVENANCE_COUNT] = {
        [ORR_FROM_MEASURED] = "measured",
        [ORR_FROM_RESTORED] = "restored",
        [ORR_FROM_MODEL] = "modelled",
        [ORR_FROM_ASSUMPTION] = "assumed",
    };
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_real(arena, map, "tokens_per_s_per_gpu", projection->tokens_per_s_per_gpu);
    orr_tree_put_real(arena, map, "tokens_per_s", projection->tokens_per_s);
    orr_tree_put_real(arena, map, "step_time_s", projection->step_s);
    orr_tree_put_real(arena, map, "tflops_per_gpu", projection->model_flops_per_s_per_gpu / 1e12);
    orr_tree_put_real(arena, map, "mfu", projection->mfu_frac);
    orr_tree_put_text(arena, map, "flops_convention", "model_causal");
    orr_tree *interval = orr_tree_put(arena, map, "interval_90", orr_tree_new_list(arena));
    (void)orr_tree_push(arena, interval, orr_tree_new_real(arena, projection->low));
    (void)orr_tree_push(arena, interval, orr_tree_new_real(arena, projection->high));
    orr_tree *breakdown = orr_tree_put(arena, map, "breakdown", orr_tree_new_map(arena));
    for (int s = 0; s < ORR_SLICE_COUNT; s++) {
        put_seconds(arena, breakdown, slice_names[s], projection->slice_s[s]);
    }
    orr_tree *origin = orr_tree_put(arena, map, "provenance", orr_tree_new_map(arena));
    for (int p = 0; p < ORR_PROVENANCE_COUNT; p++) {
        put_seconds(arena, origin, provenance[p], projection->provenance_s[p]);
    }
    const orr_resolved *resolved = projection->resolved;
    if (resolved->plan.lora.rank > 0) {
        uint64_t train = orr_plan_adapter_params(resolved->model, &resolved->plan.lora);
        orr_tree_put_int(arena, map, "parameters_trainable", (int64_t)train);
        orr_tree_put_int(arena, map, "parameters_frozen",
                         (int64_t)orr_model_count(resolved->model).total);
    }
    if (projection->muon.matrices > 0) {
        const orr_muon_step *muon = &projection->muon;
        orr_tree *part = orr_tree_put(arena, map, "muon", orr_tree_new_map(arena));
        put_seconds(arena, part, "time", muon->time_s);
        put_seconds(arena, part, "exchange", muon->exchange_s);
        orr_tree_put_int(arena, part, "matrices", (int64_t)muon->matrices);
        orr_tree_put_real(arena, part, "flops", muon->flops);
    }
    orr_tree_put_int(arena, map, "slowest_rank", projection->slowest_rank);
    if (projection->anchor_factor != 1.0) {
        orr_tree_put_real(arena, map, "anchor_compute_factor", projection->anchor_factor);
    }
    (void)orr_tree_put(
        arena, map, "memory",
        orr_memory_write(arena, &projection->memory, projection->resolved->plan.pipe.pp));
    return map;
}
