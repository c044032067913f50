/* The need of the worst rank alone, many times over. Whole bytes in doubles add up exactly, so that
 * static and dynamic bytes may be summed apart and the answer is that of orr_memory_evaluate. */
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "memory/memory_int.h"

/* Static bytes depend on the plan's tail alone once chunks are known: by kind of sharding, overlap
 * of reductions, and way of transfer. */
enum { TAILS = 32 };
/* Orders that a body's neighbours change to and fro between. */
enum { FOLDS = 4 };

typedef struct fixed_bytes {
    double total, away, live_grads, optimizer_temp;
} fixed_bytes;

struct orr_weigher {
    orr_weigh_memo memo;
    orr_weighed weighed;
    orr_kind_bytes kind[ORR_MAX_CHUNK_KINDS];
    bool tail_known[TAILS];
    fixed_bytes *fixed[TAILS]; /* [ORR_MAX_PP] by class of ranks, made when first used */
    orr_rank_classes classes;
    uint8_t *chunk; /* kinds of the chunks that the classes and the folds are of */
    uint32_t chunk_capacity;
    struct {
        const orr_order *order; /* NULL: none */
        uint32_t generation;
        orr_fold fold;
    } folded[FOLDS];
    uint32_t oldest, now; /* of them: the next to go, the one in use */
    bool held_known, floor_known;
    orr_held held[ORR_MAX_PP]; /* by class */
    double floor[2];           /* dynamic bytes of the first and the last rank */
};

orr_weigher *orr_weigher_new(void) {
    orr_weigher *b = (orr_weigher *)orr_alloc(sizeof *b);
    b->memo.arena = orr_arena_new();
    b->weighed = (orr_weighed){.memo = &b->memo, .kind = b->kind};
    return b;
}

void orr_weigher_free(orr_weigher *b) {
    if (b == NULL) {
        return;
    }
    for (int t = 0; t < TAILS; t++) {
        orr_release(b->fixed[t]);
    }
    for (int i = 0; i < FOLDS; i++) {
        orr_fold_release(&b->folded[i].fold);
    }
    orr_release(b->chunk);
    orr_map_release(&b->memo.bytes);
    orr_arena_free(b->memo.arena);
    orr_release(b);
}

void orr_weigher_forget(orr_weigher *b) {
    orr_map_release(&b->memo.bytes);
    orr_arena_free(b->memo.arena);
    b->memo.arena = orr_arena_new();
}

/* Plans that differ in their split alone have the same kinds in the same places. */
static void place_chunks(orr_weigher *b, const orr_program *program) {
    const orr_pipe *pipe = &program->resolved->plan.pipe;
    uint32_t chunks = pipe->pp * pipe->vpp;
    if (b->classes.ranks == pipe->pp && b->classes.vpp == pipe->vpp &&
        memcmp(b->chunk, program->chunk, chunks) == 0) {
        return;
    }
    if (chunks > b->chunk_capacity) {
        b->chunk = (uint8_t *)orr_realloc(b->chunk, chunks);
        b->chunk_capacity = chunks;
    }
    memcpy(b->chunk, program->chunk, chunks);
    orr_rank_classes_find(&b->classes, program);
    for (int i = 0; i < FOLDS; i++) {
        b->folded[i].order = NULL;
    }
}

void orr_weigher_chunks(orr_weigher *b, const orr_program *program) {
    memset(b->tail_known, 0, sizeof b->tail_known);
    orr_memory_weigh_params(&b->weighed, program);
    place_chunks(b, program);
    b->held_known = b->floor_known = false;
}

void orr_weigher_order(orr_weigher *b, const orr_order *order, uint32_t generation) {
    uint32_t i = 0;
    while (i < FOLDS && (b->folded[i].order != order || b->folded[i].generation != generation)) {
        i++;
    }
    if (i == FOLDS) {
        i = b->oldest++ % FOLDS;
        b->folded[i].order = order;
        b->folded[i].generation = generation;
        orr_fold_begin(&b->folded[i].fold, &b->classes);
    }
    b->now = i;
    b->weighed.order = orr_order_look(order);
    b->held_known = b->floor_known = false;
}

static const orr_fold *fold_of(orr_weigher *b, uint32_t class) {
    orr_fold *fold = &b->folded[b->now].fold;
    orr_fold_class(fold, &b->classes, class, &b->weighed.order);
    return fold;
}

void orr_weigher_recompute(orr_weigher *b) {
    orr_memory_weigh_kept(&b->weighed);
    b->held_known = b->floor_known = false;
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
    for (uint32_t c = 0; c < b->classes.count; c++) {
        orr_memory_static(w, b->classes.class[c].rank, &all);
        b->fixed[tail][c] = (fixed_bytes){all.total, all.away, all.live_grads, all.optimizer_temp};
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
    const fixed_bytes *fixed = fixed_of(b);
    if (!b->held_known) {
        orr_memory_weigh_instants(&b->weighed);
        for (uint32_t c = 0; c < b->classes.count; c++) {
            b->held[c] = orr_fold_held(fold_of(b, c), &b->classes, c, b->kind);
        }
        b->held_known = true;
    }
    double need = 0;
    for (uint32_t c = 0; c < b->classes.count; c++) {
        double dynamic = dynamic_bytes(&b->held[c], &fixed[c]);
        double one = orr_memory_need_of(&b->weighed, fixed[c].total, dynamic);
        need = c == 0 ? one : orr_max_f64(need, one);
    }
    return need;
}

double orr_weigher_floor(orr_weigher *b) {
    const uint32_t class[2] = {0, b->classes.of_rank[b->weighed.plan->pipe.pp - 1]};
    const fixed_bytes *fixed = fixed_of(b);
    double need = 0;
    for (int i = 0; i < 2; i++) {
        const fixed_bytes *own = &fixed[class[i]];
        if (!b->floor_known) {
            b->floor[i] = orr_fold_kept(fold_of(b, class[i]), &b->classes, class[i], b->kind);
        }
        double dynamic = orr_max_f64(0, b->floor[i] - own->away);
        need = orr_max_f64(need, orr_memory_need_of(&b->weighed, own->total, dynamic));
    }
    b->floor_known = true;
    return need;
}

double orr_weigher_states(orr_weigher *b) {
    const fixed_bytes *fixed = fixed_of(b);
    double most = 0;
    for (uint32_t c = 0; c < b->classes.count; c++) {
        most = orr_max_f64(most, fixed[c].total);
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
