/* Zero-bubble orders of fixed shape on the linear placement: B frees the critical path, W fills.
 * Sources: Zero Bubble Pipeline Parallelism (arXiv 2401.10241); Primus' zero bubble for fewer
 * micro-batches than ranks. */
#include "schedule/schedule_int.h"

/* `warm` forwards; then B in turn, each followed by the W that lies `lag` behind and a forward. */
static void write_rank(op_writer *w, uint32_t micro_batches, uint32_t warm, uint32_t lag) {
    uint32_t f = 0, d = 0;
    while (f < warm) {
        put_op(w, ORR_SOP_F, 0, f++);
    }
    for (uint32_t i = 0; i < micro_batches; i++) {
        put_op(w, ORR_SOP_B, 0, i);
        if (i >= lag) {
            put_op(w, ORR_SOP_W, 0, d++);
        }
        if (f < micro_batches) {
            put_op(w, ORR_SOP_F, 0, f++);
        }
    }
    while (d < micro_batches) {
        put_op(w, ORR_SOP_W, 0, d++);
    }
    end_rank(w);
}

void orr_order_zb_h1(const orr_schedule_spec *s, op_writer *w) {
    for (uint32_t r = 0; r < s->pp; r++) {
        write_rank(w, s->micro_batches, orr_min_u32(s->micro_batches, s->pp - r), r);
    }
}

void orr_order_zb_h2(const orr_schedule_spec *s, op_writer *w) {
    for (uint32_t r = 0; r < s->pp; r++) {
        write_rank(w, s->micro_batches, orr_min_u32(s->micro_batches, 2 * (s->pp - r) - 1), 2 * r);
    }
}

/* With fewer micro-batches than ranks: all forwards, then B and W together; on the last rank B
 * right after F and the W at the end. */
void orr_order_zb_h1_primus(const orr_schedule_spec *s, op_writer *w) {
    if (s->micro_batches >= s->pp) {
        orr_order_zb_h1(s, w);
        return;
    }
    for (uint32_t r = 0; r < s->pp; r++) {
        bool last = r + 1 == s->pp;
        write_rank(w, s->micro_batches, last ? 1 : s->micro_batches, last ? s->micro_batches : 0);
    }
}
