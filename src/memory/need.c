/* The need of the worst rank alone, many times over. Whole bytes in doubles add up exactly, so that
 * static and dynamic bytes may be summed apart and the answer is that of orr_memory_evaluate. */
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "memory/memory_int.h"

/* Static bytes depend on the plan's tail alone once chunks are known: by kind of sharding, overlap
 * of reductions, and way of transfer. */
enum { TAILS = 32 };

typedef struct fixed_bytes {
    double total, away, live_grads, optimizer_temp;
} fixed_bytes;

struct orr_weigher {
    orr_weigh_memo memo;
    orr_weighed weighed;
    orr_kind_bytes kind[ORR_MAX_CHUNK_KINDS];
    const orr_kind_bytes *rank_kind[ORR_MAX_VPP];
    double rank_kept[ORR_MAX_VPP];
    bool tail_known[TAILS];
    fixed_bytes *fixed[TAILS]; /* [ORR_MAX_PP] each, made when first used */
    bool kept_known, held_known;
    orr_held held[ORR_MAX_PP];
    double floor[2]; /* dynamic bytes of the first and the last rank */
};

orr_weigher *orr_weigher_new(void) {
    orr_weigher *b = (orr_weigher *)orr_alloc(sizeof *b);
    b->memo.arena = orr_arena_new();
    b->weighed = (orr_weighed){
        .memo = &b->memo, .kind = b->kind, .rank_kind = b->rank_kind, .rank_kept = b->rank_kept};
    return b;
}

void orr_weigher_free(orr_weigher *b) {
    if (b == NULL) {
        return;
    }
    for (int t = 0; t < TAILS; t++) {
        orr_release(b->fixed[t]);
    }
    orr_map_release(&b->memo.bytes);
    orr_arena_free(b->memo.arena);
    orr_release(b);
}

void orr_weigher_forget(orr_weigher *b) {
    orr_map_release(&b->memo.bytes);
    orr_arena_free(b->memo.arena);
    b->memo.arena = orr_arena_new();
}

void orr_weigher_chunks(orr_weigher *b, const orr_program *program) {
    memset(b->tail_known, 0, sizeof b->tail_known);
    orr_memory_weigh_params(&b->weighed, program);
    b->kept_known = b->held_known = false;
}

static double most_kept(orr_weigher *b, uint32_t rank) {
    const orr_weighed *w = &b->weighed;
    uint32_t vpp = w->plan->pipe.vpp;
    double most = 0;
    for (uint32_t i = w->order.live_first[rank]; i < w->order.live_first[rank + 1]; i++) {
        const orr_live *live = &w->order.live[i];
        double sum = 0;
        for (uint32_t c = 0; live->event == ORR_SOP_F && c < vpp; c++) {
            sum += live->count[c] * b->kind[w->program->chunk[rank * vpp + c]].kept;
        }
        most = orr_max_f64(most, sum);
    }
    return most;
}

void orr_weigher_recompute(orr_weigher *b, const orr_order *order) {
    orr_memory_weigh_kept(&b->weighed);
    b->held_known = false;
    b->kept_known = order != NULL;
    if (order != NULL) {
        b->weighed.order = orr_order_look(order);
        b->floor[0] = most_kept(b, 0);
        b->floor[1] = most_kept(b, b->weighed.plan->pipe.pp - 1);
    }
}

static const fixed_bytes *fixed_of(orr_weigher *b) {
    orr_weighed *w = &b->weighed;
    const orr_plan *plan = w->plan;
    uint32_t overlapped = (plan->overlap & ORR_OVERLAP_DP) != 0;
    uint32_t received = plan->pipe.p2p >= ORR_P2P_OVERLAP;
    uint32_t tail = plan->shard.kind * 4u + overlapped * 2 + received;
    if (b->tail_known[tail]) {
        return b->fixed[tail];
    }
    if (b->fixed[tail] == NULL) {
        b->fixed[tail] = (fixed_bytes *)orr_alloc(ORR_MAX_PP * sizeof *b->fixed[tail]);
    }
    orr_static all;
    for (uint32_t rank = 0; rank < plan->pipe.pp; rank++) {
        /* Only the first rank's buffers have buckets; else equal chunks weigh the same. */
        if (rank <= 1 || !orr_memory_same_chunks(w, rank, rank - 1)) {
            orr_memory_static(w, rank, &all);
        }
        b->fixed[tail][rank] =
            (fixed_bytes){all.total, all.away, all.live_grads, all.optimizer_temp};
    }
    b->tail_known[tail] = true;
    return b->fixed[tail];
}

static double dynamic_bytes(const orr_held *held, const fixed_bytes *fixed) {
    double most = orr_max_f64(held->before - fixed->away, held->held);
    most = orr_max_f64(most, fixed->optimizer_temp);
    bool grads = fixed->live_grads > 0 && held->has_backward;
    return grads ? orr_max_f64(most, held->in_backward + fixed->live_grads) : most;
}

double orr_weigher_need(orr_weigher *b) {
    const uint32_t pp = b->weighed.plan->pipe.pp;
    const fixed_bytes *fixed = fixed_of(b);
    for (uint32_t rank = 0; rank < pp && !b->held_known; rank++) {
        b->held[rank] = orr_memory_held(&b->weighed, rank);
    }
    b->held_known = true;
    double need = 0;
    for (uint32_t rank = 0; rank < pp; rank++) {
        double dynamic = dynamic_bytes(&b->held[rank], &fixed[rank]);
        double one = orr_memory_need_of(&b->weighed, fixed[rank].total, dynamic);
        need = rank == 0 ? one : orr_max_f64(need, one);
    }
    return need;
}

double orr_weigher_floor(orr_weigher *b) {
    const uint32_t last = b->weighed.plan->pipe.pp - 1;
    const fixed_bytes *fixed = fixed_of(b);
    double first = orr_max_f64(0, b->floor[0] - fixed[0].away);
    return orr_max_f64(orr_memory_need_of(&b->weighed, fixed[0].total, first),
                       orr_memory_need_of(&b->weighed, fixed[last].total,
                                          orr_max_f64(0, b->floor[1] - fixed[last].away)));
}

double orr_weigher_states(orr_weigher *b) {
    const fixed_bytes *fixed = fixed_of(b);
    double most = 0;
    for (uint32_t rank = 0; rank < b->weighed.plan->pipe.pp; rank++) {
        most = orr_max_f64(most, fixed[rank].total);
    }
    return orr_memory_need_of(&b->weighed, most, 0);
}

/* States of all ranks of one replica of the pipeline, without padding and buffers. */
static double state_bytes(const orr_weighed *w, double dense, double expert) {
    const orr_plan *plan = w->plan;
    const orr_numeric *n = &plan->numeric;
    bool whole = plan->shard.kind < ORR_SHARD_ZERO3;
    double params = n->param_bytes, grads = n->grad_bytes;
    const double here = 1 - plan->offload.optimizer_permille / 1000.0;
    double states = here * ((double)n->master_bytes + n->exp_avg_bytes + n->exp_avg_sq_bytes);
    grads *= whole ? 1 : here;
    double dense_shards = orr_plan_dense_shards(plan);
    double expert_shards = orr_plan_expert_shards(plan);
    double shared = states + (whole ? 0 : params);
    double kept = whole ? params : 0;
    *(plan->shard.kind >= ORR_SHARD_ZERO2 ? &shared : &kept) += grads;
    if (plan->shard.kind == ORR_SHARD_NONE) {
        return (kept + shared) * (dense + expert);
    }
    return kept * (dense + expert) + shared * (dense / dense_shards + expert / expert_shards);
}

typedef struct share {
    double fixed_bytes, kept_bytes, ranks;
} share;

static share share_of(orr_weigher *b) {
    const orr_weighed *w = &b->weighed;
    const orr_plan *plan = w->plan;
    double dense = 0, expert = 0, kept = 0, frozen = 0;
    bool twice = orr_schedule_two_way((orr_schedule_kind)plan->pipe.schedule);
    for (uint32_t c = 0; c < plan->pipe.pp * plan->pipe.vpp; c++) {
        const orr_kind_bytes *kind = &b->kind[w->program->chunk[c]];
        dense += kind->dense;
        expert += kind->expert;
        kept += kind->kept;
        frozen += plan->shard.kind >= ORR_SHARD_ZERO3 ? kind->frozen_dense / w->dense_shards +
                                                            kind->frozen_expert / w->expert_shards
                                                      : kind->frozen_dense + kind->frozen_expert;
    }
    double ranks = (twice ? 2.0 : 1.0) * plan->pipe.pp;
    const orr_model *model = w->program->resolved->model;
    if (plan->pipe.pp > 1 && (model->tied || model->mtp_layers > 0)) {
        /* where first and last stage share a rank, matrices that others copy are there once */
        double copied = 0, frozen_copied = 0;
        for (uint32_t k = 0; k < w->program->chunk_kind_count; k++) {
            copied = orr_max_f64(copied, b->kind[k].root_unit);
            frozen_copied = orr_max_f64(frozen_copied, b->kind[k].frozen_root_unit);
        }
        dense = orr_max_f64(0, dense - 2 * ranks / plan->pipe.pp * copied);
        frozen = orr_max_f64(0, frozen - 2 * ranks / plan->pipe.pp * frozen_copied);
    }
    return (share){(state_bytes(w, dense, expert) + frozen) / ranks, kept, ranks};
}

static const double rounding = 1 - 1e-9;

double orr_weigher_states_share(orr_weigher *b) {
    share s = share_of(b);
    return rounding * orr_memory_need_of(&b->weighed, s.fixed_bytes, 0);
}

double orr_weigher_share(orr_weigher *b) {
    share s = share_of(b);
    return rounding * orr_memory_need_of(&b->weighed, s.fixed_bytes, s.kept_bytes / s.ranks);
}

double orr_weigher_excess(orr_weigher *b, double need_bytes) {
    share s = share_of(b);
    double bare = orr_memory_need_of(&b->weighed, s.fixed_bytes, 0);
    double a_gib = orr_memory_need_of(&b->weighed, s.fixed_bytes, ORR_GIB) - bare;
    double left = orr_max_f64(0, need_bytes - rounding * bare) / a_gib * ORR_GIB;
    return rounding * s.kept_bytes - left * s.ranks;
}

double orr_weigher_saved(orr_weigher *b, const orr_object *object) {
    const orr_object_bytes *bytes = orr_memory_object(&b->weighed, object);
    return orr_max_f64(0, bytes->kept - bytes->input);
}
