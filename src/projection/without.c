/* Effects that a study leaves out of every projection of an engine. */
#include "base/num.h"
#include "projection/projection_int.h"

void orr_engine_without(orr_engine *engine, uint32_t effects) {
    engine->without = effects;
}

/* The effects that an op belongs to. */
static uint32_t effects_of(const orr_object *object, const orr_op *op) {
    static const uint32_t of_stream[ORR_STREAM_COUNT] = {[ORR_STREAM_TP] = ORR_WITHOUT_TP,
                                                         [ORR_STREAM_CP] = ORR_WITHOUT_CP,
                                                         [ORR_STREAM_EP] = ORR_WITHOUT_EP,
                                                         [ORR_STREAM_DP] = ORR_WITHOUT_DP};
    uint32_t what = object->key.what;
    uint32_t effects = of_stream[op->stream];
    if (what == ORR_OBJECT_EMBEDDING || what == ORR_OBJECT_HEAD) {
        return effects | ORR_WITHOUT_ENDS;
    }
    if (op->kind == ORR_OP_MEMORY) {
        effects |= ORR_WITHOUT_MEMORY_OPS;
        effects |= op->sub == ORR_MEMOP_CAST ? (uint32_t)ORR_WITHOUT_CASTS : 0u;
    }
    return effects;
}

/* A product at the speed of a large square one. */
static double shapeless_s(const orr_cost_table *table, const orr_op *op) {
    enum { LARGE = 8192 };
    orr_op large = *op;
    large.shape.gemm.m = large.shape.gemm.n = large.shape.gemm.k = LARGE;
    large.shape.gemm.batch = 1;
    return orr_cost_op(table, &large).time_s * op->flops / (2.0 * LARGE * LARGE * LARGE);
}

void orr_leave_out(const orr_engine *engine, const orr_cost_table *table, orr_priced *priced) {
    const orr_object *object = priced->object;
    if (engine->without == 0) {
        return;
    }
    orr_cost *cost = ORR_NEW_ARRAY(engine->prices, orr_cost, object->op_count);
    for (uint32_t i = 0; i < object->op_count; i++) {
        cost[i] = priced->op[i];
        if ((effects_of(object, &object->op[i]) & engine->without) != 0) {
            cost[i].time_s = 0;
        }
        if ((engine->without & ORR_WITHOUT_SHAPES) != 0 && object->op[i].kind == ORR_OP_GEMM) {
            cost[i].time_s = shapeless_s(table, &object->op[i]);
        }
    }
    priced->op = cost;
}

/* Embedding, head and loss: seconds of a phase in one chunk. */
static double ends_s(orr_engine *engine, const orr_cost_table *table, const orr_program *program,
                     const orr_chunk *chunk, double compute_factor, int phase) {
    orr_timeline_mode mode = orr_program_mode(program, compute_factor);
    double sum_s = 0;
    for (uint32_t i = 0; i < chunk->part_count; i++) {
        if (chunk->part[i].role == ORR_PART_END) {
            sum_s +=
                chunk->part[i].count * orr_engine_times(engine, table, program->resolved->software,
                                                        chunk->part[i].object, &mode)
                                           ->phase[phase]
                                           .total_s;
        }
    }
    return sum_s;
}

void orr_spread_ends(orr_engine *engine, const orr_cost_table *table, const orr_program *program,
                     double compute_factor, orr_stage_times *times) {
    const orr_pipe *pipe = &program->resolved->plan.pipe;
    uint32_t chunks = pipe->pp * pipe->vpp;
    int64_t *const of_phase[ORR_PHASE_COUNT] = {[ORR_PHASE_FORWARD] = times->f,
                                                [ORR_PHASE_INPUT_GRAD] = times->b,
                                                [ORR_PHASE_WEIGHT_GRAD] = times->w};
    for (int p = 0; p < ORR_PHASE_COUNT; p++) {
        int64_t all = 0;
        for (uint32_t c = 0; c < chunks; c++) {
            int64_t own =
                orr_ps(ends_s(engine, table, program, &program->chunk_kind[program->chunk[c]],
                              compute_factor, p));
            of_phase[p][c] -= own;
            all += own;
        }
        for (uint32_t c = 0; c < chunks; c++) {
            of_phase[p][c] += all / chunks;
        }
    }
}
