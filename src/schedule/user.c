/* Orders given by their ops, and the notation of one op. */
#include <stdio.h>
#include <string.h>

#include "schedule/schedule_int.h"

/* ---- notation ------------------------------------------------------------------------------- */

static bool read_number(const char **text, uint32_t limit, uint32_t *out) {
    uint64_t value = 0;
    const char *p = *text;
    while (*p >= '0' && *p <= '9' && value <= limit) {
        value = 10 * value + (uint64_t)(*p++ - '0');
    }
    if (p == *text || value > limit) {
        return false;
    }
    *text = p;
    *out = (uint32_t)value;
    return true;
}

/* Letter, chunk, dot, micro-batch. */
static bool read_simple(const char **text, char *letter, uint32_t *chunk, uint32_t *micro_batch) {
    *letter = **text;
    if (*letter == '\0') {
        return false;
    }
    ++*text;
    if (!read_number(text, ORR_MAX_VPP - 1, chunk) || **text != '.') {
        return false;
    }
    ++*text;
    return read_number(text, ORR_MAX_MICRO_BATCHES - 1, micro_batch);
}

static bool read_pair(const char *text, orr_sched_op *out) {
    char f, b;
    uint32_t chunk, chunk2, mb, mb2;
    if (strncmp(text, "O(", 2) != 0) {
        return false;
    }
    text += 2;
    if (!read_simple(&text, &f, &chunk, &mb) || f != 'F' || *text++ != ',' ||
        !read_simple(&text, &b, &chunk2, &mb2) || b != 'B' || strcmp(text, ")") != 0) {
        return false;
    }
    *out = (orr_sched_op){.kind = ORR_SOP_PAIR,
                          .chunk = (uint16_t)chunk,
                          .chunk2 = (uint16_t)chunk2,
                          .micro_batch = mb,
                          .micro_batch2 = mb2};
    return true;
}

static bool read_one(const char *text, orr_sched_op *out) {
    static const char letters[] = "FIWB"; /* by orr_sched_op_kind */
    char letter;
    uint32_t chunk, mb;
    if (!read_simple(&text, &letter, &chunk, &mb) || *text != '\0') {
        return false;
    }
    const char *at = strchr(letters, letter);
    if (at == NULL) {
        return false;
    }
    *out = (orr_sched_op){
        .kind = (uint8_t)(at - letters), .chunk = (uint16_t)chunk, .micro_batch = mb};
    return true;
}

orr_status orr_sched_op_parse(const char *text, orr_sched_op *out, orr_err *err) {
    if (read_pair(text, out) || read_one(text, out)) {
        return ORR_OK;
    }
    return orr_fail(err, ORR_E_SYNTAX,
                    "'%.40s' is not an op; expected F0.3, B0.3, I0.3, W0.3 or O(F0.3,B1.1)", text);
}

void orr_sched_op_format(const orr_sched_op *op, char out[ORR_SCHED_OP_TEXT]) {
    static const char letters[] = "FIWB";
    if (op->kind == ORR_SOP_PAIR) {
        snprintf(out, ORR_SCHED_OP_TEXT, "O(F%u.%u,B%u.%u)", op->chunk, op->micro_batch, op->chunk2,
                 op->micro_batch2);
    } else {
        snprintf(out, ORR_SCHED_OP_TEXT, "%c%u.%u", letters[op->kind], op->chunk, op->micro_batch);
    }
}

/* ---- given orders --------------------------------------------------------------------------- */

static orr_status place_given(orr_arena *arena, orr_order *order, const orr_user_ops *given,
                              orr_err *err) {
    const orr_schedule_spec *s = &order->view.spec;
    uint32_t chunks = s->pp * s->vpp, two_way = 0;
    uint32_t *position = ORR_NEW_ARRAY(arena, uint32_t, chunks);
    uint8_t *chain = ORR_NEW_ARRAY(arena, uint8_t, chunks);
    uint32_t *owner = ORR_NEW_ARRAY(arena, uint32_t, chunks);
    memset(owner, 0xff, chunks * sizeof *owner);
    for (uint32_t i = 0; i < chunks && given->chain != NULL; i++) {
        if (given->chain[i] > 1) {
            return orr_fail(err, ORR_E_SCHEDULE,
                            "chunk %u of rank %u is in chain %u, expected 0 "
                            "or 1",
                            i % s->vpp, i / s->vpp, given->chain[i]);
        }
        chain[i] = given->chain[i];
        two_way |= chain[i];
    }
    order->chains = two_way + 1;
    if (s->micro_batches % order->chains != 0) {
        return orr_fail(err, ORR_E_SCHEDULE, "%u micro-batches do not divide over two chains",
                        s->micro_batches);
    }
    order->per_chain = s->micro_batches / order->chains;
    order->view.chain_length = chunks / order->chains;
    for (uint32_t i = 0; i < chunks; i++) {
        uint32_t p = given->position[i];
        if (p >= order->view.chain_length ||
            owner[chain[i] * order->view.chain_length + p] != NO_NODE) {
            return orr_fail(err, ORR_E_SCHEDULE,
                            "chunk %u of rank %u is at position %u, which is %s", i % s->vpp,
                            i / s->vpp, p,
                            p >= order->view.chain_length ? "beyond the chain" : "taken");
        }
        position[i] = p;
        owner[chain[i] * order->view.chain_length + p] = i;
    }
    order->view.position = position;
    order->view.chain = chain;
    order->owner = owner;
    return ORR_OK;
}

static bool splits(const orr_sched_op *op, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (op[i].kind == ORR_SOP_B || op[i].kind == ORR_SOP_W) {
            return true;
        }
    }
    return false;
}

orr_status orr_order_from_ops(orr_arena *arena, const orr_schedule_spec *spec,
                              const orr_user_ops *given, const orr_order **out, orr_err *err) {
    orr_schedule_spec s = *spec;
    s.kind = ORR_SCHEDULE_USER;
    s.ep_overlap = 0;
    s.p2p = ORR_P2P_ASYNC;
    s.vpp = orr_max_u32(1, s.vpp);
    s.group = s.group == 0 ? s.pp : s.group;
    ORR_TRY(orr_order_refuse(&s, err));
    for (uint32_t r = 0; r < s.pp; r++) {
        if (given->op_first[r] > given->op_first[r + 1] || given->op_first[0] != 0) {
            return orr_fail(err, ORR_E_SCHEDULE, "the ops of rank %u end before they begin", r);
        }
    }
    uint32_t count = given->op_first[s.pp];
    if (count > 3ull * s.pp * s.vpp * s.micro_batches) {
        return orr_fail(err, ORR_E_SCHEDULE, "%u ops, at most %llu are needed", count,
                        3ull * s.pp * s.vpp * s.micro_batches);
    }
    orr_order *order = ORR_NEW(arena, orr_order);
    order->view.spec = s;
    order->facts = *orr_schedule_facts(ORR_SCHEDULE_USER);
    ORR_TRY(place_given(arena, order, given, err));
    orr_sched_op *op = ORR_NEW_ARRAY(arena, orr_sched_op, orr_max_u32(1, count));
    uint32_t *first = ORR_NEW_ARRAY(arena, uint32_t, s.pp + 1);
    memcpy(op, given->op, count * sizeof *op);
    memcpy(first, given->op_first, (s.pp + 1) * sizeof *first);
    order->view.op = op;
    order->view.op_first = first;
    order->view.split_backward = splits(op, count);
    ORR_TRY(orr_order_finish(arena, order, err));
    *out = order;
    return ORR_OK;
}
