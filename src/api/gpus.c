/* How many GPUs one split needs. More replicas share out what is sharded and nothing else; when
 * that is not enough, the bytes that stay are the reason. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/num.h"

enum { MAX_SCANNED = 64 };

typedef struct probe {
    orr_job *job;
    const orr_tree *keys; /* of the plan, micro-batches stated, batch and size left out */
    uint32_t unit;        /* GPUs of one replica */
    orr_memory memory;    /* of the last that was legal */
    uint32_t legal_gpus;  /* its size; 0: none was */
} probe;

static const orr_tree *keys_without_size(orr_arena *arena, const orr_resolved *resolved) {
    const orr_tree *all = orr_plan_write(arena, resolved);
    orr_tree *keys = orr_tree_new_map(arena);
    static const char *const left_out[] = {"gbs", "dp", "nodes", "gpus"};
    for (size_t i = 0; i < orr_tree_size(all); i++) {
        const char *key = orr_tree_key(all, i);
        bool skip = false;
        for (size_t k = 0; k < sizeof left_out / sizeof *left_out; k++) {
            skip = skip || strcmp(key, left_out[k]) == 0;
        }
        if (!skip) {
            (void)orr_tree_put(arena, keys, key, orr_tree_copy(arena, orr_tree_at(all, i)));
        }
    }
    orr_tree_put_int(arena, keys, "micro_batches", resolved->plan.batch.micro_batches);
    return keys;
}

static bool fits_on(probe *p, uint64_t gpus) {
    orr_arena *arena = p->job->arena;
    orr_tree *keys = orr_tree_copy(arena, p->keys);
    orr_resolved *resolved = ORR_NEW(arena, orr_resolved);
    orr_memory memory;
    orr_tree_put_int(arena, keys, "gpus", (int64_t)gpus);
    if (gpus > ORR_MAX_GPUS || orr_plan_resolve(arena, keys, resolved, NULL) != ORR_OK ||
        !orr_plan_legal(resolved) ||
        orr_project_memory(p->job->ctx->engine, arena, resolved, false, &memory, NULL) != ORR_OK) {
        return false;
    }
    p->memory = memory;
    p->legal_gpus = (uint32_t)gpus;
    return memory.fit <= ORR_TIGHT;
}

/* The smallest multiple of a replica that fits; 0: none up to the most there can be. */
static uint64_t smallest(probe *p) {
    uint64_t replicas = 1;
    while (!fits_on(p, replicas * p->unit)) {
        replicas *= 2;
        if (replicas * p->unit > ORR_MAX_GPUS) {
            return 0;
        }
    }
    uint64_t best = replicas, from = replicas / 2 + 1;
    for (uint64_t k = from, n = 0; k < replicas && n < MAX_SCANNED; k++, n++) {
        if (fits_on(p, k * p->unit)) {
            best = k;
            break;
        }
    }
    return best * p->unit;
}

/* "parameters 39.0 GiB, activations 60.1 GiB": what is left however many replicas share the rest.
 */
static const char *what_stays(orr_arena *arena, const orr_memory *memory) {
    const double *part = memory->worst.part_bytes;
    const char *text = "";
    for (int p = 0; p < ORR_PART_COUNT; p++) {
        if (part[p] >= 0.03 * memory->capacity_bytes) {
            text = orr_arena_format(arena, "%s%s%s %.1f GiB", text, text[0] == '\0' ? "" : ", ",
                                    orr_memory_part_name((orr_memory_part)p), part[p] / ORR_GIB);
        }
    }
    return text;
}

void orr_job_put_gpus(orr_job *job, const orr_resolved *resolved, orr_tree *map) {
    orr_arena *arena = job->arena;
    const orr_plan *plan = &resolved->plan;
    probe p = {.job = job,
               .keys = keys_without_size(arena, resolved),
               .unit = plan->split.tp * plan->split.cp * plan->pipe.pp};
    uint64_t gpus = smallest(&p);
    if (gpus > 0) {
        uint64_t batch = gpus / p.unit * plan->batch.mbs * plan->batch.micro_batches;
        orr_tree_put_int(arena, map, "fits_from_gpus", (int64_t)gpus);
        orr_tree_put_int(arena, map, "with_gbs", (int64_t)batch);
        return;
    }
    if (p.legal_gpus == 0) {
        orr_tree_put_text(arena, map, "never", "no number of GPUs makes this split legal");
        return;
    }
    orr_tree_put_int(arena, map, "never_up_to_gpus", p.legal_gpus);
    orr_tree_put_text(arena, map, "never",
                      orr_arena_format(arena,
                                       "on %u GPUs a rank still holds %s of %.1f GiB usable, and "
                                       "more replicas share none of it",
                                       p.legal_gpus, what_stays(arena, &p.memory),
                                       p.memory.capacity_bytes / ORR_GIB));
}
