/* What any byte of a rank is, at its worst moment. Built tensor by tensor from the objects, apart
 * from the sums of the fast path, which it must reproduce exactly (property test). */
#include "memory/memory_int.h"

#include "base/num.h"

typedef struct writer {
    const orr_weighed *w;
    orr_arena *arena;
    orr_ledger *out;
    orr_ledger_row *row;
    uint32_t capacity;
} writer;

static void add(writer *to, const char *what, orr_memory_part part, uint32_t chunk, double bytes,
                double count) {
    if (!(bytes > 0) || !(count > 0)) {
        return;
    }
    if (to->out->row_count == to->capacity) {
        uint32_t capacity = to->capacity ? 2 * to->capacity : 64;
        orr_ledger_row *row = ORR_NEW_ARRAY(to->arena, orr_ledger_row, capacity);
        for (uint32_t i = 0; i < to->out->row_count; i++) {
            row[i] = to->row[i];
        }
        to->row = row;
        to->capacity = capacity;
    }
    uint64_t whole = bytes < 0x1p63 ? (uint64_t)bytes : UINT64_MAX;
    to->row[to->out->row_count++] = (orr_ledger_row){
        .what = what, .part = part, .chunk = chunk, .bytes = whole, .count = count};
    to->out->total_bytes += bytes * count;
}

static const char *tensor_name(writer *to, const orr_saved *saved, const char *after) {
    return orr_arena_format(to->arena, "%s: %s%s", orr_op_name(saved->module),
                            orr_op_name(saved->name), after);
}

/* Kept tensors of `plain` layers and the inputs of checkpointed ones, `count` micro-batches. */
static void add_layers(writer *to, const orr_object *object, uint32_t chunk, double plain,
                       double inputs, double losses) {
    uint32_t first_loss =
        object->saved_count - orr_min_u32(object->saved_count, object->saved_loss_count);
    for (uint32_t i = 0; i < object->saved_count; i++) {
        const orr_saved *saved = &object->saved[i];
        bool loss = i >= first_loss;
        if (!loss && !orr_saved_alive(saved, to->w->program->modules)) {
            continue;
        }
        add(to, tensor_name(to, saved, ""), loss ? ORR_PART_LOGITS : ORR_PART_ACTIVATIONS, chunk,
            orr_memory_rounded((double)saved->bytes), loss ? losses : plain);
    }
    add(to, "checkpoint: layer input", ORR_PART_ACTIVATIONS, chunk,
        orr_memory_rounded((double)object->saved_input), inputs);
}

/* Parts [0, end) of a chunk whole, `count` micro-batches. */
static void add_parts(writer *to, const orr_chunk *kind, uint32_t end, uint32_t chunk, double count,
                      bool moving) {
    for (uint32_t p = 0; p < end; p++) {
        const orr_part *part = &kind->part[p];
        orr_kept_layers held = orr_memory_kept_layers(to->w->plan, kind, p, moving);
        add_layers(to, part->object, chunk, count * held.plain, count * held.inputs,
                   count * part->count);
    }
}

/* What selective recompute rebuilds of one layer, tensor by tensor. */
static void add_rebuilt(writer *to, const orr_object *object, uint32_t chunk) {
    uint32_t modules = to->w->program->modules;
    uint32_t plain =
        object->saved_count - orr_min_u32(object->saved_count, object->saved_loss_count);
    for (uint32_t i = 0; i < plain; i++) {
        const orr_saved *saved = &object->saved[i];
        if (!orr_saved_alive(saved, modules) && orr_saved_alive(saved, 0)) {
            add(to, tensor_name(to, saved, " (rebuilt)"), ORR_PART_TRANSIENT, chunk,
                orr_memory_rounded((double)saved->bytes), 1);
        }
    }
}

static void add_instant(writer *to, const orr_kind_bytes *kind, const orr_instant *at,
                        uint32_t chunk, bool forward) {
    const orr_chunk *chunk_kind = kind->chunk;
    add_parts(to, chunk_kind, at->part, chunk, 1, at->moving);
    if (at->part >= chunk_kind->part_count) {
        return;
    }
    const orr_object *object = chunk_kind->part[at->part].object;
    add_layers(to, object, chunk, at->plain, at->inputs, at->whole_loss);
    if (at->rebuilt > 0 && at->plain > 0) {
        add_rebuilt(to, object, chunk);
    } else {
        add(to, "recompute: rebuilt layers", ORR_PART_TRANSIENT, chunk, at->rebuilt, 1);
    }
    add(to, forward ? "forward temporaries" : "backward temporaries", ORR_PART_TRANSIENT, chunk,
        at->temporary, 1);
    add(to, forward ? "loss: logits and their copies" : "loss: logits gradient and copies",
        ORR_PART_LOGITS, chunk, at->loss, 1);
}

static void add_moment(writer *to, uint32_t rank, const orr_static *fixed, const orr_peak *peak) {
    const orr_weighed *w = to->w;
    const uint32_t vpp = w->plan->pipe.vpp;
    if (peak->worst == ORR_MOMENT_OPTIMIZER) {
        add(to, "optimizer temporaries", ORR_PART_TRANSIENT, UINT32_MAX, fixed->optimizer_temp, 1);
        return;
    }
    const orr_live *live = &w->order.live[peak->live[peak->worst]];
    const bool running = live->event != ORR_SOP_W;
    double pending = 0;
    for (uint32_t c = 0; c < vpp; c++) {
        const orr_kind_bytes *kind = &w->kind[w->program->chunk[rank * vpp + c]];
        double count = (double)live->count[c] - (running && c == live->chunk);
        pending = orr_max_f64(pending, kind->pending_w);
        add_parts(to, kind->chunk, kind->chunk->part_count, c, count, false);
    }
    add(to, "weight gradients to come: inputs and output gradients", ORR_PART_ACTIVATIONS,
        UINT32_MAX, pending, live->pending_w);
    if (peak->worst == ORR_MOMENT_BACKWARD_END) {
        add(to, "gradients in the parameters' format", ORR_PART_TRANSIENT, UINT32_MAX,
            fixed->live_grads, 1);
    } else if (running) {
        const orr_kind_bytes *kind = &w->kind[w->program->chunk[rank * vpp + live->chunk]];
        uint32_t instant = peak->worst == ORR_MOMENT_FORWARD_END     ? ORR_INSTANT_FORWARD
                           : peak->worst == ORR_MOMENT_LOSS_BACKWARD ? ORR_INSTANT_LOSS
                                                                     : ORR_INSTANT_BACKWARD;
        add_instant(to, kind, &kind->instant[instant], live->chunk, instant == ORR_INSTANT_FORWARD);
    }
}

void orr_memory_ledger(const orr_program *program, orr_arena *arena, uint32_t rank,
                       orr_ledger *out) {
    orr_weighed w;
    orr_static fixed;
    orr_peak peak;
    orr_memory_weigh(program, arena, &w);
    orr_memory_static(&w, rank, &fixed);
    orr_memory_peak(&w, rank, &fixed, &peak);
    *out = (orr_ledger){.rank = rank, .moment = peak.worst};
    writer to = {.w = &w, .arena = arena, .out = out};
    fixed.item[ORR_ITEM_FSDP_UNIT] -= orr_memory_away(&fixed, peak.worst);
    for (uint32_t i = 0; i < ORR_ITEM_COUNT; i++) {
        add(&to, orr_item_name((orr_item)i), orr_item_part((orr_item)i), UINT32_MAX, fixed.item[i],
            1);
    }
    add_moment(&to, rank, &fixed, &peak);
    out->row = to.row;
}
