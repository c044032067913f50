/* What a search needs of an order's live vectors. Bytes depend on the kinds of the chunks in flight
 * and on nothing else of them, and of ranks with equal chunks the fullest counts: a few vectors by
 * kind stand for all those by chunk and rank. */
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "memory/memory_int.h"

/* ---- classes of ranks ------------------------------------------------------------------------ */

/* Kinds of the class's chunks. */
static void find_kinds(orr_rank_class *class, const uint8_t *chunks, uint32_t vpp) {
    class->kinds = 0;
    for (uint32_t c = 0; c < vpp; c++) {
        uint32_t k = 0;
        while (k < class->kinds && class->kind[k] != chunks[c]) {
            k++;
        }
        class->kind[k] = chunks[c];
        class->kinds = orr_max_u32(class->kinds, k + 1);
        class->slot[c] = (uint8_t)k;
    }
}

/* Only the first rank's buffers have buckets, and it receives no input: it stays alone. */
void orr_rank_classes_find(orr_rank_classes *all, const orr_program *program) {
    const orr_pipe *pipe = &program->resolved->plan.pipe;
    const uint32_t vpp = pipe->vpp;
    all->ranks = pipe->pp;
    all->vpp = vpp;
    all->count = 0;
    for (uint32_t rank = 0; rank < pipe->pp; rank++) {
        const uint8_t *chunks = &program->chunk[rank * vpp];
        uint32_t c = rank > 0 ? 1 : 0;
        while (c < all->count &&
               memcmp(chunks, &program->chunk[all->class[c].rank * vpp], vpp) != 0) {
            c++;
        }
        if (c == all->count) {
            all->class[all->count++].rank = rank;
            find_kinds(&all->class[c], chunks, vpp);
        }
        all->of_rank[rank] = (uint16_t)c;
    }
}

/* ---- vectors --------------------------------------------------------------------------------- */

void orr_fold_begin(orr_fold *fold, const orr_rank_classes *classes) {
    fold->vectors = fold->counts = 0;
    for (uint32_t c = 0; c < classes->count; c++) {
        fold->of_class[c].known = false;
    }
}

void orr_fold_release(orr_fold *fold) {
    orr_release(fold->vector);
    orr_release(fold->count);
}

static void reserve(orr_fold *fold, uint32_t kinds) {
    if (fold->vectors == fold->vector_capacity) {
        fold->vector_capacity = 2 * fold->vector_capacity + 64;
        fold->vector =
            (orr_live_sum *)orr_realloc(fold->vector, fold->vector_capacity * sizeof *fold->vector);
    }
    if (fold->counts + kinds > fold->count_capacity) {
        fold->count_capacity = 2 * fold->count_capacity + ORR_MAX_VPP;
        fold->count =
            (double *)orr_realloc(fold->count, fold->count_capacity * sizeof *fold->count);
    }
}

static bool covers(const orr_live_sum *a, const double *a_count, const orr_live_sum *b,
                   const double *b_count, uint32_t kinds) {
    bool covered = a->pending_w >= b->pending_w;
    for (uint32_t k = 0; k < kinds && covered; k++) {
        covered = a_count[k] >= b_count[k];
    }
    return covered;
}

/* Looks at the last few of the class only: what it misses costs time alone. */
static void add(orr_fold *fold, uint32_t class, uint32_t kinds, const orr_live_sum *sum,
                const double *count) {
    enum { LOOKS = 8 };
    uint32_t begin = fold->of_class[class].first, end = fold->vectors;
    uint32_t first = end - begin > LOOKS ? end - LOOKS : begin;
    for (uint32_t i = end; i-- > first;) {
        orr_live_sum *old = &fold->vector[i];
        double *old_count = &fold->count[fold->of_class[class].number + (i - begin) * kinds];
        if (old->event != sum->event || old->running != sum->running) {
            continue;
        }
        if (covers(old, old_count, sum, count, kinds)) {
            return;
        }
        if (covers(sum, count, old, old_count, kinds)) {
            *old = *sum;
            memcpy(old_count, count, kinds * sizeof *count);
            return;
        }
    }
    reserve(fold, kinds);
    fold->vector[fold->vectors++] = *sum;
    memcpy(&fold->count[fold->counts], count, kinds * sizeof *count);
    fold->counts += kinds;
}

static void fold_rank(orr_fold *fold, const orr_rank_classes *classes, uint32_t index,
                      uint32_t rank, const orr_order_view *order) {
    const orr_rank_class *class = &classes->class[index];
    ORR_UNSET double count[ORR_MAX_CHUNK_KINDS];
    for (uint32_t i = order->live_first[rank]; i < order->live_first[rank + 1]; i++) {
        const orr_live *live = &order->live[i];
        for (uint32_t k = 0; k < class->kinds; k++) {
            count[k] = 0;
        }
        for (uint32_t c = 0; c < classes->vpp; c++) {
            count[class->slot[c]] += live->count[c];
        }
        orr_live_sum sum = {.event = live->event == ORR_SOP_BW ? ORR_SOP_B : live->event,
                            .running = class->slot[live->chunk],
                            .pending_w = live->pending_w};
        add(fold, index, class->kinds, &sum, count);
    }
}

void orr_fold_class(orr_fold *fold, const orr_rank_classes *classes, uint32_t class,
                    const orr_order_view *order) {
    if (fold->of_class[class].known) {
        return;
    }
    fold->of_class[class].known = true;
    fold->of_class[class].first = fold->vectors;
    fold->of_class[class].number = fold->counts;
    for (uint32_t rank = classes->class[class].rank; rank < classes->ranks; rank++) {
        if (classes->of_rank[rank] == class) {
            fold_rank(fold, classes, class, rank, order);
        }
    }
    fold->of_class[class].vectors = fold->vectors - fold->of_class[class].first;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static double kept_of(const orr_kind_bytes *kinds, const orr_rank_class *class,
                      const double *count) {
    double sum = 0; /* whole numbers: the order of adding does not matter */
    for (uint32_t k = 0; k < class->kinds; k++) {
        sum += count[k] * kinds[class->kind[k]].kept;
    }
    return sum;
}

double orr_fold_kept(const orr_fold *fold, const orr_rank_classes *classes, uint32_t index,
                     const orr_kind_bytes *kinds) {
    const orr_rank_class *class = &classes->class[index];
    const orr_live_sum *live = fold->vector + fold->of_class[index].first;
    const double *count = fold->count + fold->of_class[index].number;
    double most = 0;
    for (uint32_t i = 0; i < fold->of_class[index].vectors; i++, live++, count += class->kinds) {
        if (live->event == ORR_SOP_F) {
            most = orr_max_f64(most, kept_of(kinds, class, count));
        }
    }
    return most;
}

orr_held orr_fold_held(const orr_fold *fold, const orr_rank_classes *classes, uint32_t index,
                       const orr_kind_bytes *kinds) {
    const orr_rank_class *class = &classes->class[index];
    const orr_live_sum *live = fold->vector + fold->of_class[index].first;
    const double *count = fold->count + fold->of_class[index].number;
    double pending_w = 0; /* of the chunk whose weight gradients hold most */
    orr_held sum = {0};
    for (uint32_t k = 0; k < class->kinds; k++) {
        pending_w = orr_max_f64(pending_w, kinds[class->kind[k]].pending_w);
    }
    for (uint32_t i = 0; i < fold->of_class[index].vectors; i++, live++, count += class->kinds) {
        const orr_kind_bytes *running = &kinds[class->kind[live->running]];
        const orr_instant *instant = running->instant;
        double all = kept_of(kinds, class, count) + live->pending_w * pending_w;
        double base = all - running->kept;
        if (live->event == ORR_SOP_F) {
            sum.before = orr_max_f64(sum.before, base + instant[ORR_INSTANT_FORWARD].bytes);
        } else if (live->event == ORR_SOP_W) {
            sum.held = orr_max_f64(sum.held, all);
        } else {
            if (instant[ORR_INSTANT_LOSS].occurs) {
                sum.before = orr_max_f64(sum.before, base + instant[ORR_INSTANT_LOSS].bytes);
            }
            if (instant[ORR_INSTANT_BACKWARD].occurs) {
                sum.held = orr_max_f64(sum.held, base + instant[ORR_INSTANT_BACKWARD].bytes);
            }
            sum.in_backward = sum.has_backward ? orr_max_f64(sum.in_backward, base) : base;
            sum.has_backward = true;
        }
    }
    return sum;
}
