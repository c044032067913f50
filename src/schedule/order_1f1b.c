/* One-forward-one-backward and its relatives with fused backward on linear and loop placements.
 * Sources: Megatron-LM's schedules (warm-up counts and the virtual micro-batch table), GPipe
 * (arXiv 1811.06965), breadth-first pipelines (arXiv 2211.05953), PyTorch's interleaved zero
 * bubble. */
#include "schedule/schedule_int.h"

void orr_order_gpipe(const orr_schedule_spec *s, op_writer *w) {
    for (uint32_t r = 0; r < s->pp; r++) {
        for (uint32_t i = 0; i < s->micro_batches; i++) {
            put_op(w, ORR_SOP_F, 0, i);
        }
        for (uint32_t i = 0; i < s->micro_batches; i++) {
            put_op(w, ORR_SOP_BW, 0, i);
        }
        end_rank(w);
    }
}

void orr_order_looped_bfs(const orr_schedule_spec *s, op_writer *w) {
    for (uint32_t r = 0; r < s->pp; r++) {
        for (uint32_t c = 0; c < s->vpp; c++) {
            for (uint32_t i = 0; i < s->micro_batches; i++) {
                put_op(w, ORR_SOP_F, c, i);
            }
        }
        for (uint32_t c = s->vpp; c-- > 0;) {
            for (uint32_t i = s->micro_batches; i-- > 0;) {
                put_op(w, ORR_SOP_BW, c, i);
            }
        }
        end_rank(w);
    }
}

uint32_t orr_order_warm_up(const orr_schedule_spec *s, uint32_t rank) {
    uint32_t later = s->pp - rank - 1;
    if (s->kind == ORR_SCHEDULE_1F1B) {
        return orr_min_u32(later, s->micro_batches);
    }
    uint64_t want = 2ull * later + (uint64_t)(s->vpp - 1) * s->group + s->ep_overlap;
    return (uint32_t)orr_min_u64(want, (uint64_t)s->micro_batches * s->vpp);
}

void orr_order_1f1b(const orr_schedule_spec *s, op_writer *w) {
    uint32_t m = s->micro_batches;
    for (uint32_t r = 0; r < s->pp; r++) {
        uint32_t warm = orr_order_warm_up(s, r);
        for (uint32_t i = 0; i < warm; i++) {
            put_op(w, ORR_SOP_F, 0, i);
        }
        for (uint32_t i = warm; i < m; i++) {
            put_op(w, ORR_SOP_F, 0, i);
            put_op(w, ORR_SOP_BW, 0, i - warm);
        }
        for (uint32_t i = m - warm; i < m; i++) {
            put_op(w, ORR_SOP_BW, 0, i);
        }
        end_rank(w);
    }
}

/* Walks the virtual micro-batches: groups of micro-batches, in each all chunks in turn. */
typedef struct table_cursor {
    uint32_t micro_batches, vpp, group;
    uint32_t first, size; /* of the current group */
    uint32_t chunk, offset;
} table_cursor;

static table_cursor table_start(const orr_schedule_spec *s) {
    return (table_cursor){.micro_batches = s->micro_batches,
                          .vpp = s->vpp,
                          .group = s->group,
                          .size = orr_min_u32(s->group, s->micro_batches)};
}

static void table_next(table_cursor *t) {
    if (++t->offset < t->size) {
        return;
    }
    t->offset = 0;
    if (++t->chunk < t->vpp) {
        return;
    }
    t->chunk = 0;
    t->first += t->size;
    t->size = orr_min_u32(t->group, t->micro_batches - t->first);
}

static void put_forward(op_writer *w, table_cursor *f) {
    put_op(w, ORR_SOP_F, f->chunk, f->first + f->offset);
    table_next(f);
}

static void put_backward(op_writer *w, orr_sched_op_kind kind, table_cursor *b) {
    put_op(w, kind, b->vpp - 1 - b->chunk, b->first + b->offset);
    table_next(b);
}

void orr_order_interleaved(const orr_schedule_spec *s, op_writer *w) {
    uint32_t total = s->micro_batches * s->vpp;
    for (uint32_t r = 0; r < s->pp; r++) {
        uint32_t warm = orr_order_warm_up(s, r);
        table_cursor f = table_start(s), b = f;
        for (uint32_t k = 0; k < warm; k++) {
            put_forward(w, &f);
        }
        for (uint32_t k = warm; k < total; k++) {
            if (s->ep_overlap) {
                put_pair(w, f.chunk, f.first + f.offset, b.vpp - 1 - b.chunk, b.first + b.offset);
                table_next(&f);
                table_next(&b);
            } else {
                put_forward(w, &f);
                put_backward(w, ORR_SOP_BW, &b);
            }
        }
        for (uint32_t k = total - warm; k < total; k++) {
            put_backward(w, ORR_SOP_BW, &b);
        }
        end_rank(w);
    }
}

/* One warm-up forward a hop; W follows its B by as many backward ops as the rank counts. */
void orr_order_interleaved_zb(const orr_schedule_spec *s, op_writer *w) {
    uint32_t total = s->micro_batches * s->vpp;
    for (uint32_t r = 0; r < s->pp; r++) {
        uint64_t want = (uint64_t)(s->vpp - 1) * s->group + (s->pp - r - 1);
        uint32_t warm = (uint32_t)orr_min_u64(want, total);
        table_cursor f = table_start(s), b = f, d = f;
        for (uint32_t k = 0; k < warm; k++) {
            put_forward(w, &f);
        }
        for (uint32_t k = 0; k < total; k++) {
            if (k + warm < total) {
                put_forward(w, &f);
            }
            put_backward(w, ORR_SOP_B, &b);
            if (k >= r) {
                put_backward(w, ORR_SOP_W, &d);
            }
        }
        for (uint32_t k = total - orr_min_u32(total, r); k < total; k++) {
            put_backward(w, ORR_SOP_W, &d);
        }
        end_rank(w);
    }
}
