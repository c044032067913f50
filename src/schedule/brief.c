/* Long runs from short ones.
 *
 * Schedules whose ranks repeat a period of ops, with micro-batches counted up, make of some more
 * micro-batches so many more periods in the middle, and change nothing else. So a run that is long
 * enough to show one period is built, and the period repeated; compile.c refuses when the short run
 * does not show it. prop_schedule compares such orders with the ones built in full. */
#include "schedule/schedule_int.h"

enum { TRIES = 2 };

/* Micro-batches of a period, for the kinds of which the above is known; else 0. */
static uint32_t period_of(const orr_schedule_spec *s) {
    switch ((orr_schedule_kind)s->kind) {
    case ORR_SCHEDULE_1F1B:
    case ORR_SCHEDULE_ZB_H1:
    case ORR_SCHEDULE_ZB_H2:
    case ORR_SCHEDULE_ZBV: return 1;
    case ORR_SCHEDULE_INTERLEAVED:
    case ORR_SCHEDULE_INTERLEAVED_ZB: return s->group;
    case ORR_SCHEDULE_GPIPE:
    case ORR_SCHEDULE_ZB_1P:
    case ORR_SCHEDULE_ZB_2P:
    case ORR_SCHEDULE_V_HALF:
    case ORR_SCHEDULE_V_MIN:
    case ORR_SCHEDULE_DUALPIPE:
    case ORR_SCHEDULE_DUALPIPEV:
    case ORR_SCHEDULE_LOOPED_BFS:
    case ORR_SCHEDULE_ZBV_AUTO:
    case ORR_SCHEDULE_V_ADAPTIVE:
    case ORR_SCHEDULE_V_HALF_PRIMUS:
    case ORR_SCHEDULE_V_MIN_PRIMUS:
    case ORR_SCHEDULE_V_1F1B:
    case ORR_SCHEDULE_HANAYO:
    case ORR_SCHEDULE_CHIMERA:
    case ORR_SCHEDULE_GROUPED:
    case ORR_SCHEDULE_ZB_AUTO:
    case ORR_SCHEDULE_ZB_H1_PRIMUS:
    case ORR_SCHEDULE_USER:
    case ORR_SCHEDULE_COUNT: break;
    }
    return 0;
}

/* Periods of the short run: more than warm-up has, since below that the orders are others; those in
 * which ranks fall into step; and the ones to fold. */
static uint32_t periods_needed(const orr_schedule_spec *s, uint32_t period) {
    if (s->kind == ORR_SCHEDULE_ZBV || s->kind == ORR_SCHEDULE_ZB_H2) {
        return 2 * s->pp + 4;
    }
    if (s->kind == ORR_SCHEDULE_1F1B || s->kind == ORR_SCHEDULE_ZB_H1) {
        return s->pp + 4;
    }
    uint64_t warm = 2ull * (s->pp - 1) + (uint64_t)(s->vpp - 1) * s->group + s->ep_overlap;
    bool calls = s->p2p != ORR_P2P_ASYNC && s->pp > 1 && s->vpp > 1; /* folded leg by leg */
    return (uint32_t)(warm / ((uint64_t)period * s->vpp)) + (calls ? 2 : 3);
}

orr_status orr_order_build_brief(orr_arena *arena, const orr_schedule_spec *spec,
                                 const orr_durations *d, const orr_order **out, orr_err *err) {
    ORR_TRY(orr_order_refuse(spec, err));
    orr_schedule_spec s = orr_order_resolve(spec);
    uint32_t period = period_of(&s), periods = period == 0 ? 0 : s.micro_batches / period;
    uint32_t needed = period == 0 ? 0 : periods_needed(&s, period);
    for (uint32_t more = 0; more < TRIES && needed + more < periods && needed != 0; more++) {
        uint32_t left_out = (periods - needed - more) * period;
        if (orr_order_build_run(arena, spec, left_out, d, out, NULL) == ORR_OK) {
            return ORR_OK;
        }
    }
    return orr_order_build(arena, spec, d, out, err);
}

orr_status orr_order_whole(const orr_order *order, orr_arena *arena, const orr_order **out,
                           orr_err *err) {
    *out = order;
    if (order->left_out == 0) {
        return ORR_OK;
    }
    orr_schedule_spec spec = orr_order_look(order).spec;
    return orr_order_build(arena, &spec, NULL, out, err);
}

orr_status orr_order_ops(const orr_order *order, orr_arena *arena, orr_order_view *out,
                         orr_err *err) {
    const orr_order *whole = NULL;
    ORR_TRY(orr_order_whole(order, arena, &whole, err));
    *out = whole->view;
    return ORR_OK;
}
