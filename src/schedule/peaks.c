/* Scalar in-flight peaks, as published tables and the test vectors count them. */
#include "schedule/schedule_int.h"

void orr_order_peaks(const orr_order *order, orr_peaks *peaks) {
    const orr_order_view *v = &order->view;
    for (uint32_t r = 0; r < v->spec.pp; r++) {
        uint32_t until_w = 0, until_b = 0, pending = 0, most_w = 0, most_b = 0, most_pending = 0;
        for (uint32_t i = v->op_first[r]; i < v->op_first[r + 1]; i++) {
            orr_sched_op_kind kind = (orr_sched_op_kind)v->op[i].kind;
            if (kind == ORR_SOP_F || kind == ORR_SOP_PAIR) {
                most_w = orr_max_u32(most_w, ++until_w);
                most_b = orr_max_u32(most_b, ++until_b);
            }
            if (kind == ORR_SOP_B) {
                until_b--;
                most_pending = orr_max_u32(most_pending, ++pending);
            } else if (kind == ORR_SOP_W) {
                until_w--;
                pending--;
            } else if (kind == ORR_SOP_BW || kind == ORR_SOP_PAIR) {
                until_b--;
                until_w--;
            }
        }
        if (peaks->until_w != NULL) {
            peaks->until_w[r] = most_w;
        }
        if (peaks->until_b != NULL) {
            peaks->until_b[r] = most_b;
        }
        if (peaks->pending_w != NULL) {
            peaks->pending_w[r] = most_pending;
        }
    }
}
