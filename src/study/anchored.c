/* One measured run, its neighbours at other scales projected: the run with the fewest GPUs of each
 * group anchors the rest. Weak scaling keeps the batch per GPU, strong scaling the batch. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "study/study_int.h"

typedef enum scaling { WEAK = 0, STRONG = 1 } scaling;

typedef struct entry {
    const orr_judged *row;
    double batch; /* gbs / GPUs, or gbs */
} entry;

/* What a run is apart from its scale: by the words of its row, so that whoever reads the same table
 * forms the same pairs. */
static int compare_group(const entry *a, const entry *b) {
    const orr_run *x = a->row->run, *y = b->row->run;
    const char *const tx[] = {x->source, x->model, x->gpu, x->sharding, x->recompute, x->precision};
    const char *const ty[] = {y->source, y->model, y->gpu, y->sharding, y->recompute, y->precision};
    for (size_t i = 0; i < sizeof tx / sizeof *tx; i++) {
        int order = strcmp(tx[i], ty[i]);
        if (order != 0) {
            return order;
        }
    }
    const double nx[] = {x->seq_len, x->mbs, a->batch, x->tp, x->pp, x->vpp, x->ep, x->cp};
    const double ny[] = {y->seq_len, y->mbs, b->batch, y->tp, y->pp, y->vpp, y->ep, y->cp};
    for (size_t i = 0; i < sizeof nx / sizeof *nx; i++) {
        if (fabs(nx[i] - ny[i]) > 1e-9 * fmax(fabs(nx[i]), fabs(ny[i]))) {
            return nx[i] < ny[i] ? -1 : 1;
        }
    }
    return 0;
}

static int by_group(const void *a, const void *b) {
    const entry *x = (const entry *)a, *y = (const entry *)b;
    int order = compare_group(x, y);
    if (order == 0) {
        order = (x->row->run->num_gpus > y->row->run->num_gpus) -
                (x->row->run->num_gpus < y->row->run->num_gpus);
    }
    return order != 0 ? order
                      : (x->row->run->index > y->row->run->index) -
                            (x->row->run->index < y->row->run->index);
}

typedef struct pairs {
    double *error, *null; /* absolute errors, ours and of constant throughput */
    double *width;
    uint32_t count, covered;
    const char *scaling;
    orr_residual *residual;
    orr_tree *list;
} pairs;

static void write_pair(orr_arena *arena, const orr_judged *anchor, const orr_judged *row,
                       const orr_projection *projection, orr_tree *list) {
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree_put_int(arena, map, "index", row->run->index);
    orr_tree_put_int(arena, map, "anchor", anchor->run->index);
    orr_tree_put_text(arena, map, "source", row->run->source);
    orr_tree_put_text(arena, map, "model", row->run->model);
    orr_tree_put_int(arena, map, "gpus", (int64_t)row->run->num_gpus);
    orr_tree_put_int(arena, map, "anchor_gpus", (int64_t)anchor->run->num_gpus);
    orr_tree_put_real(arena, map, "measured", row->measured);
    orr_tree_put_real(arena, map, "anchor_measured", anchor->measured);
    orr_tree_put_real(arena, map, "projected", projection->tokens_per_s_per_gpu);
    orr_tree_put_real(arena, map, "error", projection->tokens_per_s_per_gpu / row->measured - 1);
    orr_tree_put_real(arena, map, "compute_factor", projection->anchor_factor);
    (void)orr_tree_push(arena, list, map);
}

static orr_status judge_pair(orr_engine *engine, orr_arena *arena, const orr_judged *anchor,
                             const orr_judged *row, pairs *out, orr_err *err) {
    orr_anchor with = {anchor->measured, anchor->resolved->plan.gpus, anchor->resolved, 0};
    orr_projection projection;
    orr_status status = orr_project(engine, arena, row->resolved, &with, &projection, err);
    if (status == ORR_E_CONFLICT) {
        return ORR_OK; /* no factor explains the anchor: it cannot serve as one */
    }
    ORR_TRY(status);
    uint32_t i = out->count++;
    out->error[i] = fabs(projection.tokens_per_s_per_gpu / row->measured - 1);
    out->residual[i] =
        (orr_residual){row, out->scaling, log(row->measured / projection.tokens_per_s_per_gpu)};
    out->null[i] = fabs(anchor->measured / row->measured - 1);
    out->width[i] = (projection.high - projection.low) / projection.tokens_per_s_per_gpu;
    out->covered += row->measured >= projection.low && row->measured <= projection.high;
    write_pair(arena, anchor, row, &projection, out->list);
    return ORR_OK;
}

static orr_tree *write_pairs(orr_arena *arena, pairs *p) {
    orr_tree *map = orr_tree_new_map(arena);
    double error = orr_median(p->error, p->count), null = orr_median(p->null, p->count);
    orr_tree_put_int(arena, map, "pairs", p->count);
    orr_tree_put_real(arena, map, "median_abs_err", error);
    orr_tree_put_real(arena, map, "p90_abs_err", orr_quantile(p->error, p->count, 0.9));
    orr_tree_put_real(arena, map, "null_median_abs_err", null);
    orr_tree_put_real(arena, map, "skill", null > 0 ? 1 - error / null : 0);
    orr_tree_put_real(arena, map, "coverage_90", p->count == 0 ? 0 : (double)p->covered / p->count);
    orr_tree_put_real(arena, map, "width_90", orr_median(p->width, p->count));
    (void)orr_tree_put(arena, map, "rows", p->list);
    return map;
}

static orr_status judge(orr_engine *engine, orr_arena *arena, const orr_judged *rows,
                        uint32_t count, scaling kind, orr_residual *residuals,
                        uint32_t *residual_count, orr_tree **out, orr_err *err) {
    entry *sorted = ORR_NEW_ARRAY(arena, entry, count);
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++) {
        const orr_run *run = rows[i].run;
        if (rows[i].counts && rows[i].skipped == NULL && run->num_gpus > 0 && run->gbs > 0) {
            sorted[n++] = (entry){&rows[i], kind == WEAK ? run->gbs / run->num_gpus : run->gbs};
        }
    }
    if (n > 0) {
        qsort(sorted, n, sizeof *sorted, by_group);
    }
    pairs p = {.error = ORR_NEW_ARRAY(arena, double, n),
               .null = ORR_NEW_ARRAY(arena, double, n),
               .width = ORR_NEW_ARRAY(arena, double, n),
               .scaling = kind == WEAK ? "weak" : "strong",
               .residual = residuals + *residual_count,
               .list = orr_tree_new_list(arena)};
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && compare_group(&sorted[i], &sorted[end]) == 0; end++) {
            if (sorted[end].row->run->num_gpus > sorted[i].row->run->num_gpus) {
                ORR_TRY(judge_pair(engine, arena, sorted[i].row, sorted[end].row, &p, err));
            }
        }
    }
    *residual_count += p.count;
    *out = write_pairs(arena, &p);
    return ORR_OK;
}

orr_status orr_judge_anchored(orr_engine *engine, orr_arena *arena, const orr_judged *rows,
                              uint32_t count, orr_residual *residuals, uint32_t *residual_count,
                              orr_tree **out, orr_err *err) {
    orr_tree *weak = NULL, *strong = NULL;
    ORR_TRY(judge(engine, arena, rows, count, WEAK, residuals, residual_count, &weak, err));
    ORR_TRY(judge(engine, arena, rows, count, STRONG, residuals, residual_count, &strong, err));
    *out = orr_tree_new_map(arena);
    (void)orr_tree_put(arena, *out, "weak", weak);
    (void)orr_tree_put(arena, *out, "strong", strong);
    return ORR_OK;
}
