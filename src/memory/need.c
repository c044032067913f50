/* The need of the worst rank alone, many times over. Whole bytes in doubles add up exactly, so that
 * static and dynamic bytes may be summed apart and the answer is that of orr_memory_evaluate. */
#include <string.h>

#include "base/num.h"
#include "memory/memory_int.h"

struct orr_needs {
    orr_weighed weighed;
    orr_held *held; /* [pp] */
};

static bool same_chunks(const orr_weighed *w, uint32_t a, uint32_t b) {
    uint32_t vpp = w->plan->pipe.vpp;
    return memcmp(&w->program->chunk[a * vpp], &w->program->chunk[b * vpp], vpp) == 0;
}

orr_needs *orr_memory_needs(const orr_program *program, orr_arena *arena) {
    orr_needs *needs = ORR_NEW(arena, orr_needs);
    uint32_t pp = program->resolved->plan.pipe.pp;
    orr_memory_weigh(program, arena, &needs->weighed);
    needs->held = ORR_NEW_ARRAY(arena, orr_held, pp);
    for (uint32_t rank = 0; rank < pp; rank++) {
        needs->held[rank] = orr_memory_held(&needs->weighed, rank);
    }
    return needs;
}

static double dynamic_bytes(const orr_held *held, const orr_static *fixed) {
    double most = orr_max_f64(held->held, fixed->optimizer_temp);
    bool grads = fixed->live_grads > 0 && held->has_backward;
    return grads ? orr_max_f64(most, held->in_backward + fixed->live_grads) : most;
}

double orr_memory_need(orr_needs *needs) {
    orr_weighed *w = &needs->weighed;
    w->dense_shards = orr_plan_dense_shards(w->plan);
    w->expert_shards = orr_plan_expert_shards(w->plan);
    const uint32_t pp = w->plan->pipe.pp;
    orr_static fixed;
    double need = 0;
    for (uint32_t rank = 0; rank < pp; rank++) {
        if (rank <= 1 || !same_chunks(w, rank, rank - 1)) {
            orr_memory_static(w, rank, &fixed);
        }
        double dynamic = dynamic_bytes(&needs->held[rank], &fixed);
        double one = orr_memory_need_of(w, fixed.total, dynamic);
        need = rank == 0 ? one : orr_max_f64(need, one);
    }
    return need;
}
