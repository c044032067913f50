/* All ranks of a program, and the verdict of the worst. */
#include "memory/memory_int.h"

#include <string.h>

static bool same_chunks(const orr_weighed *w, uint32_t a, uint32_t b) {
    uint32_t vpp = w->plan->pipe.vpp;
    return memcmp(&w->program->chunk[a * vpp], &w->program->chunk[b * vpp], vpp) == 0;
}

void orr_memory_evaluate(const orr_program *program, orr_arena *arena, bool all_ranks,
                         orr_memory *out) {
    orr_weighed w;
    orr_memory_weigh(program, arena, &w);
    const uint32_t pp = w.plan->pipe.pp;
    const double capacity = orr_memory_capacity(program->resolved);
    *out = (orr_memory){.capacity_bytes = capacity};
    orr_rank_memory *ranks = all_ranks ? ORR_NEW_ARRAY(arena, orr_rank_memory, pp) : NULL;
    orr_static fixed;
    for (uint32_t rank = 0; rank < pp; rank++) {
        /* Only the first rank's buffers have buckets; else equal chunks weigh the same. */
        if (rank <= 1 || !same_chunks(&w, rank, rank - 1)) {
            orr_memory_static(&w, rank, &fixed);
        }
        orr_peak peak;
        orr_rank_memory here, *memory = ranks ? &ranks[rank] : &here;
        orr_memory_peak(&w, rank, &fixed, &peak);
        orr_memory_judge(&w, &fixed, &peak, capacity, memory);
        if (rank == 0 || memory->need_bytes > out->worst.need_bytes) {
            out->worst = *memory;
            out->worst_rank = rank;
        }
    }
    out->rank = ranks;
    out->p_oom =
        orr_memory_p_oom(program->resolved->software, (orr_sureness)program->resolved->sureness,
                         out->worst.need_bytes, capacity);
    out->fit = orr_memory_band(out->worst.need_bytes, capacity);
}
