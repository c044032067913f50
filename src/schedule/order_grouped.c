/* Grouped building blocks on the loop placement: the micro-batches of a group run chunk by chunk,
 * each op in a unit slot of its own, groups every 3 x group x chunks slots. Source: the zero-bubble
 * authors' group_interleaved_1f1b.py. */
#include <string.h>

#include "schedule/schedule_int.h"

static uint32_t gcd(uint32_t a, uint32_t b) {
    return b == 0 ? a : gcd(b, a % b);
}

typedef struct block {
    uint32_t pp, vpp, group, stride, turn; /* stride: slots from one chunk to the next */
} block;

/* Slot of the forward of chunk c (backwards likewise from their first slot). */
static uint32_t offset_of(const block *b, uint32_t c, uint32_t member) {
    return b->stride * c + 3 * member + 3 * b->group * (c / b->turn);
}

static uint32_t forward_slot(const block *b, uint32_t rank, uint32_t c, uint32_t member) {
    return offset_of(b, c, member) + rank;
}

static uint32_t backward_slot(const block *b, uint32_t rank, uint32_t c, uint32_t member) {
    uint32_t last = forward_slot(b, rank, b->vpp - 1, 0);
    return last + 3 * (b->pp - 1 - rank) + 1 + offset_of(b, c, member);
}

static bool claim(orr_sched_op *slot, uint32_t at, orr_sched_op_kind kind, uint32_t chunk,
                  uint32_t micro_batch) {
    if (slot[at].reserved != 0) {
        return false;
    }
    slot[at] = (orr_sched_op){
        .kind = (uint8_t)kind, .reserved = 1, .chunk = (uint16_t)chunk, .micro_batch = micro_batch};
    return true;
}

static bool fill_rank(const block *b, uint32_t rank, uint32_t micro_batches, orr_sched_op *slot) {
    uint32_t length = 3 * b->group * b->vpp;
    bool free_slots = true;
    for (uint32_t mb = 0; mb < micro_batches; mb++) {
        uint32_t shift = mb / b->group * length, member = mb % b->group;
        for (uint32_t c = 0; c < b->vpp; c++) {
            uint32_t f = shift + forward_slot(b, rank, c, member);
            uint32_t back = shift + backward_slot(b, rank, c, member);
            free_slots = claim(slot, f, ORR_SOP_F, c, mb) && free_slots;
            free_slots = claim(slot, back, ORR_SOP_B, b->vpp - 1 - c, mb) && free_slots;
            free_slots = claim(slot, back + 1, ORR_SOP_W, b->vpp - 1 - c, mb) && free_slots;
        }
    }
    return free_slots;
}

orr_status orr_order_grouped(orr_arena *work, const orr_schedule_spec *s, op_writer *w,
                             orr_err *err) {
    uint32_t least = s->least_group != 0 ? s->least_group : (s->pp + 1) / 2;
    uint32_t groups = (least + s->group - 1) / s->group;
    block b = {.pp = s->pp, .vpp = s->vpp, .group = s->group, .stride = 3 * groups * s->group};
    b.turn = s->vpp / gcd(s->vpp, groups);
    uint32_t rounds = (s->micro_batches + s->group - 1) / s->group;
    size_t length =
        (size_t)3 * s->group * s->vpp * rounds + backward_slot(&b, 0, s->vpp - 1, s->group - 1) + 2;
    orr_sched_op *slot = ORR_NEW_ARRAY(work, orr_sched_op, length);
    for (uint32_t r = 0; r < s->pp; r++) {
        memset(slot, 0, length * sizeof *slot);
        if (!fill_rank(&b, r, s->micro_batches, slot)) {
            return orr_fail(err, ORR_E_INFEASIBLE,
                            "grouped building blocks of %u micro-batches collide on %u ranks of "
                            "%u chunks (rule SCH-GROUPED-COLLISION)",
                            s->group, s->pp, s->vpp);
        }
        for (size_t t = 0; t < length; t++) {
            if (slot[t].reserved != 0) {
                slot[t].reserved = 0;
                w->op[w->count++] = slot[t];
            }
        }
        end_rank(w);
    }
    return ORR_OK;
}
