/* Fixed orders on the V placement: ZBV and DualPipeV, and DualPipe on two directions.
 * Sources: PyTorch's ZBV and DualPipeV schedules, DeepSeek's DualPipe step(). */
#include <string.h>

#include "schedule/schedule_int.h"

/* ---- ZBV ------------------------------------------------------------------------------------ */

typedef struct zbv_rank {
    op_writer *w;
    uint32_t micro_batches;
    uint32_t count[3][2]; /* per kind and chunk */
} zbv_rank;

/* The schedule is made for at least 2 pp - 1 micro-batches; those beyond the real ones are dropped.
 */
static void zbv_put(zbv_rank *z, orr_sched_op_kind kind, uint32_t chunk) {
    uint32_t mb = z->count[kind][chunk]++;
    if (mb < z->micro_batches) {
        put_op(z->w, kind, chunk, mb);
    }
}

static void zbv_backward(zbv_rank *z, uint32_t chunk) {
    zbv_put(z, ORR_SOP_B, chunk);
    zbv_put(z, ORR_SOP_W, chunk);
}

static void zbv_cool_down(zbv_rank *z, uint32_t pp, uint32_t rank) {
    for (uint32_t i = 0; i < rank; i++) {
        zbv_put(z, ORR_SOP_B, 0);
        zbv_put(z, ORR_SOP_B, 1);
    }
    for (uint32_t i = rank; i < pp; i++) {
        zbv_backward(z, 0);
    }
    while (z->count[ORR_SOP_W][1] < z->count[ORR_SOP_B][1]) {
        zbv_put(z, ORR_SOP_W, 1);
    }
    while (z->count[ORR_SOP_W][0] < z->count[ORR_SOP_B][0]) {
        zbv_put(z, ORR_SOP_W, 0);
    }
}

void orr_order_zbv(const orr_schedule_spec *s, op_writer *w) {
    uint32_t n = orr_max_u32(2 * s->pp - 1, s->micro_batches);
    for (uint32_t r = 0; r < s->pp; r++) {
        zbv_rank z = {.w = w, .micro_batches = s->micro_batches};
        const uint32_t *forward = z.count[ORR_SOP_F];
        for (uint32_t i = 0; i < 2 * (s->pp - r) - 1; i++) {
            zbv_put(&z, ORR_SOP_F, 0);
        }
        for (uint32_t i = 0; i < r; i++) {
            zbv_put(&z, ORR_SOP_F, 1);
            zbv_put(&z, ORR_SOP_F, 0);
        }
        for (uint32_t i = r; i < s->pp; i++) {
            zbv_put(&z, ORR_SOP_F, 1);
            zbv_backward(&z, 1);
        }
        while (forward[1] < forward[0] || forward[0] < n) {
            if (forward[0] < n) {
                zbv_put(&z, ORR_SOP_F, 0);
            }
            zbv_backward(&z, 0);
            zbv_put(&z, ORR_SOP_F, 1);
            zbv_backward(&z, 1);
        }
        zbv_cool_down(&z, s->pp, r);
        end_rank(w);
    }
}

/* ---- DualPipe ------------------------------------------------------------------------------- */

/* One rank; `phase` 0 is the direction that starts here, `swap` makes it chunk 1. */
typedef struct dual_rank {
    op_writer *w;
    uint32_t swap;
    uint32_t forward[2], backward[2]; /* per phase, done so far */
    uint32_t queue_head, queue_tail;  /* weight gradients put off, oldest first */
    orr_sched_op *queue;
} dual_rank;

static void dual_forward(dual_rank *d, uint32_t phase) {
    put_op(d->w, ORR_SOP_F, phase ^ d->swap, d->forward[phase]++);
}

static void dual_full(dual_rank *d, uint32_t phase) {
    put_op(d->w, ORR_SOP_BW, phase ^ d->swap, d->backward[phase]++);
}

static void dual_input(dual_rank *d, uint32_t phase) {
    uint32_t chunk = phase ^ d->swap, mb = d->backward[phase]++;
    put_op(d->w, ORR_SOP_B, chunk, mb);
    d->queue[d->queue_tail++] = (orr_sched_op){.chunk = (uint16_t)chunk, .micro_batch = mb};
}

static void dual_weight(dual_rank *d) {
    const orr_sched_op *op = &d->queue[d->queue_head++];
    put_op(d->w, ORR_SOP_W, op->chunk, op->micro_batch);
}

static void dual_pair(dual_rank *d, uint32_t forward, uint32_t backward) {
    put_pair(d->w, forward ^ d->swap, d->forward[forward]++, backward ^ d->swap,
             d->backward[backward]++);
}

/* Both phases' last backward passes; from some point on only their input gradients. */
static void dual_drain(dual_rank *d, uint32_t q) {
    bool inputs_only = false;
    for (uint32_t i = 0; i <= q; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            if (i == (q + 1) / 2 && k == (q % 2 == 0 ? 1u : 0u)) {
                inputs_only = true;
            }
            if (inputs_only) {
                dual_input(d, 1 - k);
            } else {
                dual_full(d, 1 - k);
            }
        }
    }
}

/* Half rank q of `half`, `m` micro-batches a phase; steps 1 to 8 of the published code. */
static void dual_write(dual_rank *d, uint32_t q, uint32_t half, uint32_t m) {
    for (uint32_t i = 0; i < 2 * (half - q - 1); i++) {
        dual_forward(d, 0);
    }
    for (uint32_t i = 0; i <= q; i++) {
        dual_forward(d, 0);
        dual_forward(d, 1);
    }
    for (uint32_t i = q + 1; i < half; i++) {
        dual_input(d, 1);
        dual_weight(d);
        dual_forward(d, 1);
    }
    for (uint32_t i = 0; i < m + q + 1 - 2 * half; i++) {
        if (i == 0 && q + 1 == half) {
            dual_forward(d, 0);
            dual_full(d, 1);
        } else {
            dual_pair(d, 0, 1);
        }
        dual_pair(d, 1, 0);
    }
    for (uint32_t i = q + 1; i < half; i++) {
        dual_full(d, 1);
        dual_pair(d, 1, 0);
    }
    dual_drain(d, q);
    for (uint32_t i = q + 1; i < half; i++) {
        dual_weight(d);
        dual_input(d, 0);
    }
    while (d->queue_head < d->queue_tail) {
        dual_weight(d);
    }
    end_rank(d->w);
}

void orr_order_dualpipe(orr_arena *work, const orr_schedule_spec *s, op_writer *w) {
    uint32_t half = s->pp / 2, m = s->micro_batches / 2;
    orr_sched_op *queue = ORR_NEW_ARRAY(work, orr_sched_op, 2 * (size_t)m);
    for (uint32_t r = 0; r < s->pp; r++) {
        dual_rank d = {.w = w, .swap = r >= half, .queue = queue};
        dual_write(&d, r < half ? r : s->pp - 1 - r, half, m);
    }
}

void orr_order_dualpipev(orr_arena *work, const orr_schedule_spec *s, op_writer *w) {
    orr_sched_op *queue = ORR_NEW_ARRAY(work, orr_sched_op, 2 * (size_t)s->micro_batches);
    for (uint32_t r = 0; r < s->pp; r++) {
        dual_rank d = {.w = w, .queue = queue};
        dual_write(&d, r, s->pp, s->micro_batches);
    }
}
