/* Rows that a rule without any model shows disturbed: the same configuration and global batch on
 * more GPUs cannot be much faster per GPU, so then the slower run was disturbed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/study_int.h"

static const double FASTER = 1.25;

/* Parameters are whole on every rank, or sharded. */
static int sharded(const orr_run *run) {
    return strcmp(run->sharding, "") != 0 && strcmp(run->sharding, "none") != 0 &&
           strncmp(run->sharding, "zero1", 5) != 0;
}

/* Everything but the number of replicas: those differ, the batch of the step does not. */
static int compare_config(const orr_run *x, const orr_run *y) {
    const char *const tx[] = {x->source,    x->model,        x->gpu,      x->precision,
                              x->recompute, x->seq_parallel, x->schedule, x->framework};
    const char *const ty[] = {y->source,    y->model,        y->gpu,      y->precision,
                              y->recompute, y->seq_parallel, y->schedule, y->framework};
    for (size_t i = 0; i < sizeof tx / sizeof *tx; i++) {
        int order = strcmp(tx[i], ty[i]);
        if (order != 0) {
            return order;
        }
    }
    const double nx[] = {x->seq_len, x->mbs, x->gbs, x->tp, x->pp, x->vpp, x->ep, x->cp};
    const double ny[] = {y->seq_len, y->mbs, y->gbs, y->tp, y->pp, y->vpp, y->ep, y->cp};
    for (size_t i = 0; i < sizeof nx / sizeof *nx; i++) {
        if (nx[i] < ny[i] || nx[i] > ny[i]) {
            return nx[i] < ny[i] ? -1 : 1;
        }
    }
    return sharded(x) - sharded(y);
}

static int by_config(const void *a, const void *b) {
    const orr_run *const *x = (const orr_run *const *)a, *const *y = (const orr_run *const *)b;
    int order = compare_config(*x, *y);
    if (order == 0) {
        order = ((*x)->num_gpus > (*y)->num_gpus) - ((*x)->num_gpus < (*y)->num_gpus);
    }
    return order != 0 ? order : ((*x)->index > (*y)->index) - ((*x)->index < (*y)->index);
}

static int by_index(const void *a, const void *b) {
    const orr_run *const *x = (const orr_run *const *)a, *const *y = (const orr_run *const *)b;
    return ((*x)->index > (*y)->index) - ((*x)->index < (*y)->index);
}

/* Two runs on equal GPUs count when their sharding differs: settings that only notes tell do not.
 */
static bool comparable(const orr_run *slow, const orr_run *fast) {
    return fast->num_gpus > slow->num_gpus ||
           (fast->num_gpus == slow->num_gpus && slow->sharding[0] != '\0' &&
            fast->sharding[0] != '\0' && strcmp(slow->sharding, fast->sharding) != 0);
}

static bool dominated(const orr_run *const *run, uint32_t first, uint32_t i, uint32_t end) {
    for (uint32_t k = first; k < end; k++) {
        if (comparable(run[i], run[k]) &&
            orr_run_throughput(run[k]) > FASTER * orr_run_throughput(run[i])) {
            return true;
        }
    }
    return false;
}

uint32_t orr_disturbed_find(orr_arena *arena, const orr_run_table *table, const orr_run ***out) {
    const orr_run **sorted = ORR_NEW_ARRAY(arena, const orr_run *, table->count);
    const orr_run **found = ORR_NEW_ARRAY(arena, const orr_run *, table->count);
    uint32_t n = 0, count = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        const orr_run *run = &table->run[i];
        if (run->num_gpus > 0 && run->gbs > 0 && orr_run_throughput(run) > 0) {
            sorted[n++] = run;
        }
    }
    if (n > 0) {
        qsort(sorted, n, sizeof *sorted, by_config);
    }
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && compare_config(sorted[i], sorted[end]) == 0; end++) {
        }
        for (uint32_t k = i; k < end; k++) {
            if (dominated(sorted, i, k, end)) {
                found[count++] = sorted[k];
            }
        }
    }
    if (count > 0) {
        qsort(found, count, sizeof *found, by_index);
    }
    *out = found;
    return count;
}

orr_tree *orr_disturbed_write(orr_arena *arena, const orr_run_table *table) {
    const orr_run **found = NULL;
    uint32_t count = orr_disturbed_find(arena, table, &found);
    orr_tree *list = orr_tree_new_list(arena);
    for (uint32_t i = 0; i < count; i++) {
        orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
        orr_tree_put_int(arena, one, "index", found[i]->index);
        orr_tree_put_text(arena, one, "source", found[i]->source);
        orr_tree_put_text(arena, one, "tier", found[i]->tier);
    }
    return list;
}
