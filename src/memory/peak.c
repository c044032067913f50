/* The worst moment of a rank: over the order's live vectors, what the micro-batches in flight hold
 * plus what the running one holds at the worst instant of its forward, loss or backward; then the
 * end of a backward and the optimizer step. docs/internals/memory.md. */
#include "memory/memory_int.h"

#include "base/num.h"

typedef struct rank_view {
    const orr_weighed *w;
    const orr_kind_bytes **kind; /* [vpp] */
    double *kept;                /* [vpp] of each, in flight */
    uint32_t vpp;
    double pending_w; /* of the chunk whose weight gradients hold most */
} rank_view;

static void keep(const orr_static *fixed, orr_peak *out, orr_moment moment, double bytes,
                 uint32_t live) {
    bytes -= orr_memory_away(fixed, moment);
    if (bytes > out->moment[moment]) {
        out->moment[moment] = bytes;
        out->live[moment] = live;
    }
}

/* Bytes in flight besides the running micro-batch of `live->chunk`. */
static double others(const rank_view *view, const orr_live *live) {
    double even = live->pending_w * view->pending_w, odd = -view->kept[live->chunk];
    uint32_t c = 0;
    for (; c + 1 < view->vpp; c += 2) { /* whole numbers: the order of adding does not matter */
        even += live->count[c] * view->kept[c];
        odd += live->count[c + 1] * view->kept[c + 1];
    }
    return even + odd + (c < view->vpp ? live->count[c] * view->kept[c] : 0);
}

/* Tries one live vector. Its running micro-batch is at the worst instant of what it does; a running
 * weight gradient holds no more than what is counted as waiting for it. */
static void look_at(const rank_view *view, const orr_static *fixed, uint32_t index, orr_peak *out) {
    const orr_live *live = &view->w->order.live[index];
    const orr_instant *instant = view->kind[live->chunk]->instant;
    const double base = fixed->total + others(view, live);
    if (live->event == ORR_SOP_F) {
        keep(fixed, out, ORR_MOMENT_FORWARD_END, base + instant[ORR_INSTANT_FORWARD].bytes, index);
        return;
    }
    if (live->event == ORR_SOP_W) {
        keep(fixed, out, ORR_MOMENT_LAYER_BACKWARD, base + view->kept[live->chunk], index);
        return;
    }
    if (instant[ORR_INSTANT_LOSS].occurs) {
        keep(fixed, out, ORR_MOMENT_LOSS_BACKWARD, base + instant[ORR_INSTANT_LOSS].bytes, index);
    }
    if (instant[ORR_INSTANT_BACKWARD].occurs) {
        keep(fixed, out, ORR_MOMENT_LAYER_BACKWARD, base + instant[ORR_INSTANT_BACKWARD].bytes,
             index);
    }
    if (fixed->live_grads > 0) {
        keep(fixed, out, ORR_MOMENT_BACKWARD_END, base + fixed->live_grads, index);
    }
}

static const orr_instant *instant_of(const orr_kind_bytes *kind, orr_moment moment) {
    switch (moment) {
    case ORR_MOMENT_FORWARD_END: return &kind->instant[ORR_INSTANT_FORWARD];
    case ORR_MOMENT_LOSS_BACKWARD: return &kind->instant[ORR_INSTANT_LOSS];
    case ORR_MOMENT_LAYER_BACKWARD: return &kind->instant[ORR_INSTANT_BACKWARD];
    case ORR_MOMENT_BACKWARD_END:
    case ORR_MOMENT_OPTIMIZER:
    case ORR_MOMENT_COUNT: break;
    }
    return NULL;
}

/* Splits the worst moment's dynamic bytes, and counts what rounding adds. */
static void split_worst(const rank_view *view, const orr_static *fixed, orr_peak *out) {
    out->dynamic = out->moment[out->worst] - fixed->total;
    if (out->worst == ORR_MOMENT_OPTIMIZER) {
        out->transient = out->dynamic;
        return;
    }
    const orr_live *live = &view->w->order.live[out->live[out->worst]];
    for (uint32_t c = 0; c < view->vpp; c++) {
        bool running = c == live->chunk && live->event != ORR_SOP_W;
        double count = (double)live->count[c] - running;
        out->slack += count * view->kind[c]->kept_slack;
        out->logits += count * view->kind[c]->loss;
        out->in_flight += (double)live->count[c] / view->vpp;
    }
    const orr_instant *at = instant_of(view->kind[live->chunk], out->worst);
    if (at && live->event != ORR_SOP_W) {
        out->slack += at->slack;
        out->logits += at->loss + at->loss_held;
        out->transient += at->rebuilt + at->temporary;
    } else if (out->worst == ORR_MOMENT_BACKWARD_END) {
        out->transient += fixed->live_grads;
    }
    out->activations =
        out->dynamic + orr_memory_away(fixed, out->worst) - out->logits - out->transient;
}

static rank_view view_of(const orr_weighed *w, uint32_t rank) {
    rank_view view = {.w = w, .kind = w->rank_kind, .kept = w->rank_kept, .vpp = w->plan->pipe.vpp};
    for (uint32_t c = 0; c < view.vpp; c++) {
        view.kind[c] = &w->kind[w->program->chunk[rank * view.vpp + c]];
        view.kept[c] = view.kind[c]->kept;
        view.pending_w = orr_max_f64(view.pending_w, view.kind[c]->pending_w);
    }
    return view;
}

void orr_memory_peak(const orr_weighed *w, uint32_t rank, const orr_static *fixed, orr_peak *out) {
    rank_view view = view_of(w, rank);
    *out = (orr_peak){0};
    for (uint32_t i = w->order.live_first[rank]; i < w->order.live_first[rank + 1]; i++) {
        look_at(&view, fixed, i, out);
    }
    out->moment[ORR_MOMENT_OPTIMIZER] = fixed->total + fixed->optimizer_temp;
    out->worst = ORR_MOMENT_OPTIMIZER;
    for (uint32_t m = 0; m < ORR_MOMENT_COUNT; m++) {
        if (out->moment[m] > out->moment[out->worst]) {
            out->worst = (orr_moment)m;
        }
    }
    split_worst(&view, fixed, out);
}
