/* Where the peak of the data sheet goes. Compute is the mean of all pipeline ranks, since so are
 * model FLOPs; what the busiest has more of is imbalance. All else is that of the rank that ends
 * last, as in the breakdown; what it waits for the busiest one is imbalance too, no bubble. */
#include "base/err.h"
#include "base/num.h"
#include "projection/projection_int.h"

/* Sums over what a rank computes in a step, recomputation left out. */
typedef struct work {
    double peak_s;      /* FLOPs at the peak of each op's own format */
    double attention_s; /* of them, attention */
    double clock_s;     /* what the sustained clock adds to products */
    double routing_s;   /* uneven routing: what the fullest rank of experts does over the mean */
    double class_s[ORR_CLASS_COUNT];
} work;

static void add_op(work *sum, const orr_cost_table *table, const orr_op *op, double n,
                   double load) {
    bool product = op->class == ORR_CLASS_GEMM;
    if (op->kind > ORR_OP_ATTENTION || (!product && op->class != ORR_CLASS_ATTENTION)) {
        return;
    }
    double flops = op->kind == ORR_OP_GROUPED_GEMM ? op->flops / load : op->flops;
    orr_dtype dtype = (orr_dtype)op->dtype;
    double peak_s = n * flops / orr_cost_peak_flops(table, dtype);
    sum->peak_s += peak_s;
    if (product) {
        sum->clock_s += peak_s * (orr_cost_sustained(table, dtype) - 1);
    } else {
        sum->attention_s += peak_s;
    }
}

/* Grouped products take time in proportion to the rows of the fullest rank. */
static double routing_s(const orr_cost_table *table, const orr_op *op, double n, double load) {
    return op->kind == ORR_OP_GROUPED_GEMM ? n * orr_cost_op(table, op).time_s * (1 - 1 / load) : 0;
}

static void add_work(work *sum, const work *own, double share) {
    sum->peak_s += share * own->peak_s;
    sum->attention_s += share * own->attention_s;
    sum->clock_s += share * own->clock_s;
    sum->routing_s += share * own->routing_s;
    for (int c = 0; c < ORR_CLASS_COUNT; c++) {
        sum->class_s[c] += share * own->class_s[c];
    }
}

static void add_chunk(work *sum, const orr_program *program, const orr_cost_table *table,
                      const orr_stage_times *times, uint32_t kind) {
    const orr_resolved *resolved = program->resolved;
    const orr_chunk *chunk = &program->chunk_kind[kind];
    double n = resolved->plan.batch.micro_batches;
    double load = orr_split_load(&resolved->plan.split);
    for (uint32_t i = 0; i < chunk->part_count; i++) {
        const orr_part *part = &chunk->part[i];
        for (uint32_t o = 0; o < part->object->op_count; o++) {
            const orr_op *op = &part->object->op[o];
            add_op(sum, table, op, n * part->count, load);
            sum->routing_s += load > 1 ? routing_s(table, op, n * part->count, load) : 0;
        }
    }
    for (int p = 0; p < ORR_PHASE_COUNT; p++) {
        for (int c = 0; c <= ORR_CLASS_LOSS; c++) {
            sum->class_s[c] += n * times->kind[kind].phase[p].class_s[c];
        }
    }
}

static const orr_slice slice_of[ORR_FALL_COUNT] = {
    [ORR_FALL_RECOMPUTE] = ORR_SLICE_RECOMPUTE,
    [ORR_FALL_HOST] = ORR_SLICE_HOST,
    [ORR_FALL_TP] = ORR_SLICE_TP,
    [ORR_FALL_CP] = ORR_SLICE_CP,
    [ORR_FALL_EP] = ORR_SLICE_EP,
    [ORR_FALL_PP] = ORR_SLICE_PP,
    [ORR_FALL_DP] = ORR_SLICE_DP,
    [ORR_FALL_BUBBLE] = ORR_SLICE_BUBBLE,
    [ORR_FALL_OPTIMIZER] = ORR_SLICE_OPTIMIZER,
    [ORR_FALL_JITTER] = ORR_SLICE_JITTER,
};

static double compute_s(const work *sum) {
    double all_s = 0;
    for (int c = 0; c <= ORR_CLASS_LOSS; c++) {
        all_s += sum->class_s[c];
    }
    return all_s;
}

static void fall(const orr_projection *p, const work *mean, double busiest_s, orr_waterfall *out) {
    double *s = out->fall_s;
    double gemm_s = mean->class_s[ORR_CLASS_GEMM], attention_s = mean->class_s[ORR_CLASS_ATTENTION];
    double memory_s = mean->class_s[ORR_CLASS_ELEMENTWISE] + mean->class_s[ORR_CLASS_LOSS];
    s[ORR_FALL_PEAK] = p->mfu_frac * p->step_s;
    s[ORR_FALL_FORMATS] = mean->peak_s - s[ORR_FALL_PEAK];
    s[ORR_FALL_CLOCK] = mean->clock_s;
    s[ORR_FALL_SHAPES] =
        gemm_s - mean->routing_s - (mean->peak_s - mean->attention_s) - mean->clock_s;
    s[ORR_FALL_ATTENTION] = attention_s - mean->attention_s;
    s[ORR_FALL_MEMORY] = memory_s;
    for (int f = ORR_FALL_RECOMPUTE; f < ORR_FALL_COUNT; f++) {
        s[f] = p->slice_s[slice_of[f]];
    }
    double last_s = p->slice_s[ORR_SLICE_GEMM] + p->slice_s[ORR_SLICE_ATTENTION] +
                    p->slice_s[ORR_SLICE_ELEMENTWISE] + p->slice_s[ORR_SLICE_LOSS];
    double waited_s = orr_min_f64(orr_max_f64(0, busiest_s - last_s), s[ORR_FALL_BUBBLE]);
    s[ORR_FALL_BUBBLE] -= waited_s;
    s[ORR_FALL_IMBALANCE] = mean->routing_s + last_s + waited_s - gemm_s - attention_s - memory_s;
}

orr_status orr_project_waterfall(orr_engine *engine, orr_arena *arena,
                                 const orr_projection *projection, orr_waterfall *out,
                                 orr_err *err) {
    const orr_resolved *resolved = projection->resolved;
    const orr_cost_table *table = NULL;
    orr_program program;
    orr_stage_times times = {0};
    ORR_TRY(orr_engine_table(engine, resolved->cluster, resolved->software, &table, err));
    ORR_TRY(orr_link(engine->linker, arena, resolved, NULL, &program, err));
    orr_time_stages(engine, arena, &program, table, projection->anchor_factor, &times);
    uint32_t ranks = resolved->plan.pipe.pp, vpp = resolved->plan.pipe.vpp;
    double busiest_s = 0;
    work mean = {0};
    for (uint32_t r = 0; r < ranks; r++) {
        work own = {0};
        for (uint32_t c = r * vpp; c < (r + 1) * vpp; c++) {
            add_chunk(&own, &program, table, &times, program.chunk[c]);
        }
        add_work(&mean, &own, 1.0 / ranks);
        busiest_s = orr_max_f64(busiest_s, compute_s(&own));
    }
    mean.routing_s *= projection->anchor_factor;
    fall(projection, &mean, busiest_s, out);
    return ORR_OK;
}

static const struct {
    const char *what, *is;
} names[ORR_FALL_COUNT] = {
    [ORR_FALL_PEAK] = {"peak", "model FLOPs at the data sheet's peak of the plan's format"},
    [ORR_FALL_FORMATS] = {"formats", "products in slower formats, padding, uncounted products"},
    [ORR_FALL_CLOCK] = {"clock", "the clock that training sustains, below the data sheet's"},
    [ORR_FALL_SHAPES] = {"shapes", "matrix products: tiles, waves, depth, grouping"},
    [ORR_FALL_ATTENTION] = {"attention", "attention kernels below peak"},
    [ORR_FALL_MEMORY] = {"memory_bound", "norms, activations, residuals, casts, loss"},
    [ORR_FALL_IMBALANCE] = {"imbalance",
                            "the busiest rank's compute over the mean; uneven routing"},
    [ORR_FALL_RECOMPUTE] = {"recompute", "forward work done again"},
    [ORR_FALL_HOST] = {"host", "launches that the device waits for, per-step host work"},
    [ORR_FALL_TP] = {"tp", "exposed tensor-parallel communication"},
    [ORR_FALL_CP] = {"cp", "exposed context-parallel communication"},
    [ORR_FALL_EP] = {"ep", "exposed expert exchange"},
    [ORR_FALL_PP] = {"pp", "exposed hops between stages"},
    [ORR_FALL_DP] = {"dp", "exposed gradient reduction and parameter gathers"},
    [ORR_FALL_BUBBLE] = {"bubble", "waiting for other stages"},
    [ORR_FALL_OPTIMIZER] = {"optimizer", "the optimizer's step"},
    [ORR_FALL_JITTER] = {"jitter", "waiting for the slowest of many nodes"},
};

orr_tree *orr_waterfall_write(orr_arena *arena, const orr_projection *projection,
                              const orr_waterfall *waterfall) {
    orr_tree *list = orr_tree_new_list(arena);
    double until_s = 0, flops = projection->model_flops_per_s_per_gpu * projection->step_s;
    for (int f = 0; f < ORR_FALL_COUNT; f++) {
        until_s += waterfall->fall_s[f];
        orr_tree *one = orr_tree_push(arena, list, orr_tree_new_map(arena));
        orr_tree_put_text(arena, one, "what", names[f].what);
        orr_tree_put_real(arena, one, "time_s", waterfall->fall_s[f]);
        orr_tree_put_real(arena, one, "until_s", until_s);
        orr_tree_put_real(arena, one, "tflops_per_gpu", until_s > 0 ? flops / until_s / 1e12 : 0);
        const char *is = names[f].is;
        const orr_muon_step *muon = &projection->muon;
        if (f == ORR_FALL_OPTIMIZER && muon->matrices > 0) {
            is = orr_arena_format(arena, "%s; Muon's products %.3g ms, %.0f matrices, %.3g TFLOP",
                                  is, 1e3 * muon->time_s, muon->matrices, muon->flops / 1e12);
        }
        orr_tree_put_text(arena, one, "is", is);
    }
    return list;
}
