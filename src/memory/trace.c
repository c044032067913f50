/* A rank's bytes along its order: what each op adds and gives back. */
#include "base/err.h"
#include "base/num.h"
#include "memory/memory_int.h"

typedef struct walk {
    const orr_weighed *w;
    uint32_t rank;
    double held; /* between ops: without what only backwards gather */
    double away;
} walk;

static const orr_kind_bytes *kind_of(const walk *at, uint32_t chunk) {
    return &at->w->kind[at->w->program->chunk[at->rank * at->w->plan->pipe.vpp + chunk]];
}

/* What waits for weight gradients is counted alike for all chunks of a rank, as peak.c does. */
static double waiting(const walk *at) {
    double most = 0;
    for (uint32_t c = 0; c < at->w->plan->pipe.vpp; c++) {
        most = orr_max_f64(most, kind_of(at, c)->pending_w);
    }
    return most;
}

static double forward(walk *at, uint32_t chunk) {
    const orr_kind_bytes *kind = kind_of(at, chunk);
    double peak = at->held + kind->instant[ORR_INSTANT_FORWARD].bytes;
    at->held += kind->kept;
    return peak;
}

static double backward(walk *at, uint32_t chunk, double live_grads, bool waits) {
    const orr_kind_bytes *kind = kind_of(at, chunk);
    const orr_instant *loss = &kind->instant[ORR_INSTANT_LOSS];
    const orr_instant *layer = &kind->instant[ORR_INSTANT_BACKWARD];
    at->held -= kind->kept;
    double most = live_grads + at->away;
    most = orr_max_f64(most, loss->occurs ? loss->bytes : 0);
    most = orr_max_f64(most, layer->occurs ? layer->bytes + at->away : 0);
    double peak = at->held + most;
    at->held += waits ? waiting(at) : 0;
    return peak;
}

static double run(walk *at, const orr_sched_op *op, double live_grads, bool split) {
    switch ((orr_sched_op_kind)op->kind) {
    case ORR_SOP_F: return forward(at, op->chunk);
    case ORR_SOP_B: return backward(at, op->chunk, live_grads, split);
    case ORR_SOP_BW: return backward(at, op->chunk, live_grads, false);
    case ORR_SOP_PAIR: {
        double first = forward(at, op->chunk);
        return orr_max_f64(first, backward(at, op->chunk2, live_grads, false));
    }
    case ORR_SOP_W: {
        double peak = at->held + at->away;
        at->held -= waiting(at);
        return peak;
    }
    }
    return at->held;
}

orr_status orr_memory_trace(const orr_program *program, orr_arena *arena, uint32_t rank,
                            orr_memory_timeline *out, orr_err *err) {
    orr_weighed w;
    orr_static fixed;
    orr_order_view order;
    ORR_TRY(orr_order_ops(program->order, arena, &order, err));
    orr_memory_weigh(program, arena, &w);
    orr_memory_static(&w, rank, &fixed);
    walk at = {.w = &w, .rank = rank, .held = fixed.total - fixed.away, .away = fixed.away};
    uint32_t first = order.op_first[rank], count = order.op_first[rank + 1] - first;
    orr_memory_point *point = ORR_NEW_ARRAY(arena, orr_memory_point, count);
    for (uint32_t i = 0; i < count; i++) {
        const orr_sched_op *op = &order.op[first + i];
        double peak = run(&at, op, fixed.live_grads, order.split_backward);
        point[i] = (orr_memory_point){.op = op->kind,
                                      .chunk = op->chunk,
                                      .micro_batch = op->micro_batch,
                                      .peak_bytes = peak,
                                      .held_bytes = at.held};
    }
    *out = (orr_memory_timeline){.rank = rank,
                                 .count = count,
                                 .static_bytes = fixed.total - fixed.away,
                                 .step_bytes = fixed.total + fixed.optimizer_temp,
                                 .point = point};
    return ORR_OK;
}
