/* Replays what a rank allocates and frees, in order, through the model of the caching allocator:
 * the model's parameters, the buffers that replace them, main parameters, a first step without
 * moments, then a second one. Tensors are the objects'. One stream: what others hold back is not
 * modelled, which is why ranks that do the same differ by a few percent and this does not. */
#include "memory/heap.h"
#include "memory/memory_int.h"

#include "base/num.h"

enum { MAX_SLOTS = 1 << 16, MAX_EVENTS = 4 << 20, MAX_TEMPORARIES = 16 };

typedef struct player {
    const orr_weighed *w;
    orr_heap *heap;
    const orr_static *fixed;
    uint32_t rank, vpp, micro_batches;
    uint32_t *stack;   /* [vpp * micro_batches] blocks of a micro-batch in flight, last first */
    uint32_t *waiting; /* [vpp * micro_batches] what its weight gradients wait for */
    uint32_t events;
    bool warm; /* persistent buffers exist */
} player;

static uint32_t take(player *p, double bytes) {
    p->events++;
    return orr_heap_take(p->heap, bytes < 0x1p62 ? (uint64_t)bytes : (uint64_t)1 << 62);
}

static void push(player *p, uint32_t slot, double bytes) {
    uint32_t block = take(p, bytes);
    if (block != ORR_NO_BLOCK) {
        p->heap->block[block].link = p->stack[slot];
        p->stack[slot] = block;
    }
}

static void pop(player *p, uint32_t slot) {
    uint32_t block = p->stack[slot];
    if (block != ORR_NO_BLOCK) {
        p->stack[slot] = p->heap->block[block].link;
        orr_heap_give(p->heap, block);
        p->events++;
    }
}

/* ---- a layer -------------------------------------------------------------------------------- */

static uint32_t first_loss(const orr_object *object) {
    return object->saved_count - orr_min_u32(object->saved_count, object->saved_loss_count);
}

/* Tensors kept with `modules` recomputed; those of the loss apart. Returns how many. */
static uint32_t push_saved(player *p, uint32_t slot, const orr_object *object, uint32_t modules) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < first_loss(object); i++) {
        if (orr_saved_alive(&object->saved[i], modules) && object->saved[i].bytes > 0) {
            push(p, slot, (double)object->saved[i].bytes);
            count++;
        }
    }
    return count;
}

static uint32_t saved_blocks(const orr_object *object, uint32_t modules) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < first_loss(object); i++) {
        count += orr_saved_alive(&object->saved[i], modules) && object->saved[i].bytes > 0;
    }
    return count;
}

/* Temporaries come and go together, in blocks no larger than the largest tensor that is kept. */
static void with_temporaries(player *p, const orr_object *object, double bytes) {
    uint32_t block[MAX_TEMPORARIES], count = 0;
    double largest = 0;
    for (uint32_t i = 0; i < first_loss(object); i++) {
        largest = orr_max_f64(largest, (double)object->saved[i].bytes);
    }
    while (bytes > 0 && count < MAX_TEMPORARIES) {
        double piece = count + 1 == MAX_TEMPORARIES ? bytes : orr_min_f64(bytes, largest);
        piece = piece > 0 ? piece : bytes;
        block[count++] = take(p, piece);
        bytes -= piece;
    }
    while (count > 0) {
        orr_heap_give(p->heap, block[--count]);
    }
}

static void play_loss(player *p, uint32_t slot, const orr_object_bytes *o) {
    uint32_t copies = take(p, o->loss_fwd);
    orr_heap_give(p->heap, copies);
    push(p, slot, o->loss);
}

static void forward_layer(player *p, uint32_t slot, const orr_object_bytes *o, bool checkpointed) {
    const orr_object *object = o->object;
    uint32_t modules = checkpointed ? ORR_MODULE_LAYER : p->w->program->modules;
    push_saved(p, slot, object, modules);
    with_temporaries(p, object, (double)object->transient.forward);
    if (o->loss > 0 || o->loss_fwd > 0) {
        play_loss(p, slot, o);
    }
}

/* To host memory, and back. */
static void give_layer(player *p, uint32_t slot, const orr_object_bytes *o, bool checkpointed) {
    uint32_t modules = checkpointed ? ORR_MODULE_LAYER : p->w->program->modules;
    for (uint32_t i = saved_blocks(o->object, modules); i-- > 0;) {
        pop(p, slot);
    }
}

static void take_layer(player *p, uint32_t slot, const orr_object_bytes *o, bool checkpointed) {
    push_saved(p, slot, o->object, checkpointed ? ORR_MODULE_LAYER : p->w->program->modules);
}

static void backward_layer(player *p, uint32_t slot, const orr_object_bytes *o, bool checkpointed) {
    const orr_object *object = o->object;
    uint32_t modules = checkpointed ? ORR_MODULE_LAYER : p->w->program->modules;
    if (o->loss > 0) {
        pop(p, slot);
    }
    uint32_t gradient = take(p, o->loss_bwd);
    uint32_t rebuilt = 0;
    if (checkpointed) {
        rebuilt = push_saved(p, slot, object, 0);
    } else if (o->rebuilt > 0) {
        push(p, slot, o->rebuilt);
        rebuilt = 1;
    }
    with_temporaries(p, object, (double)object->transient.backward);
    orr_heap_give(p->heap, gradient);
    for (uint32_t i = rebuilt + saved_blocks(object, modules); i-- > 0;) {
        pop(p, slot);
    }
}

/* ---- a micro-batch -------------------------------------------------------------------------- */

static const orr_kind_bytes *kind_at(const player *p, uint32_t chunk) {
    return &p->w->kind[p->w->program->chunk[p->rank * p->vpp + chunk]];
}

/* Buffers that appear at first use and stay. */
static void warm_up(player *p) {
    if (p->warm) {
        return;
    }
    p->warm = true;
    for (uint32_t i = ORR_ITEM_WORKSPACE; i < ORR_ITEM_COUNT; i++) {
        if (i != ORR_ITEM_DUMMY_WGRAD) {
            take(p, p->fixed->item[i]);
        }
    }
    double dummies = p->fixed->item[ORR_ITEM_DUMMY_WGRAD];
    const orr_kind_bytes *kind = kind_at(p, 0);
    for (uint32_t i = 0; i < kind->shape_count && dummies > 0; i++) {
        double bytes = orr_memory_rounded(2.0 * kind->shape[i].rows * kind->shape[i].cols);
        take(p, orr_min_f64(bytes, dummies));
        dummies -= orr_min_f64(bytes, dummies);
    }
    take(p, dummies); /* of shapes that only other chunks have */
}

static void play_forward(player *p, uint32_t chunk, uint32_t micro_batch) {
    const orr_kind_bytes *kind = kind_at(p, chunk);
    uint32_t slot = chunk * p->micro_batches + micro_batch;
    for (uint32_t i = 0; i < kind->chunk->part_count; i++) {
        const orr_part *part = &kind->chunk->part[i];
        for (uint32_t k = 0; k < part->count; k++) {
            forward_layer(p, slot, kind->part[i], k < part->checkpointed);
            if (k < orr_memory_kept_layers(p->w->plan, kind->chunk, i, false).away) {
                give_layer(p, slot, kind->part[i], k < part->checkpointed);
            }
        }
    }
}

static void play_backward(player *p, uint32_t chunk, uint32_t micro_batch, bool waits) {
    const orr_kind_bytes *kind = kind_at(p, chunk);
    uint32_t slot = chunk * p->micro_batches + micro_batch;
    for (uint32_t i = kind->chunk->part_count; i-- > 0;) {
        const orr_part *part = &kind->chunk->part[i];
        for (uint32_t k = part->count; k-- > 0;) {
            if (k < orr_memory_kept_layers(p->w->plan, kind->chunk, i, false).away) {
                take_layer(p, slot, kind->part[i], k < part->checkpointed);
            }
            backward_layer(p, slot, kind->part[i], k < part->checkpointed);
        }
    }
    warm_up(p);
    if (waits) {
        p->waiting[slot] = take(p, kind->pending_w);
    }
}

static void play_op(player *p, const orr_sched_op *op) {
    switch ((orr_sched_op_kind)op->kind) {
    case ORR_SOP_F: play_forward(p, op->chunk, op->micro_batch); break;
    case ORR_SOP_B: play_backward(p, op->chunk, op->micro_batch, true); break;
    case ORR_SOP_BW: play_backward(p, op->chunk, op->micro_batch, false); break;
    case ORR_SOP_PAIR:
        play_forward(p, op->chunk, op->micro_batch);
        play_backward(p, op->chunk2, op->micro_batch2, false);
        break;
    case ORR_SOP_W: {
        uint32_t slot = op->chunk * p->micro_batches + op->micro_batch;
        orr_heap_give(p->heap, p->waiting[slot]);
        p->waiting[slot] = ORR_NO_BLOCK;
        break;
    }
    }
}

/* ---- states --------------------------------------------------------------------------------- */

typedef void (*tensor_fn)(player *p, const orr_param_tensor *tensor);

static void each_tensor(player *p, tensor_fn visit) {
    for (uint32_t c = 0; c < p->vpp; c++) {
        const orr_chunk *chunk = kind_at(p, c)->chunk;
        for (uint32_t i = 0; i < chunk->part_count; i++) {
            const orr_object *object = chunk->part[i].object;
            for (uint32_t k = 0; k < chunk->part[i].count; k++) {
                for (uint32_t t = 0; t < object->tensor_count; t++) {
                    visit(p, &object->tensor[t]);
                }
            }
        }
    }
}

/* The shards of a tensor that a rank keeps: whole tensors until its share is reached would be
 * truer, equal shares are what the sum needs. */
static void visit_shard(player *p, const orr_param_tensor *tensor, double bytes) {
    double shards = p->w->plan->shard.kind == ORR_SHARD_NONE ? 1
                    : tensor->expert                         ? p->w->expert_shards
                                                             : p->w->dense_shards;
    for (uint32_t k = 0; k < tensor->repeat; k++) {
        take(p, bytes * (double)tensor->numel / shards);
    }
}

static void take_master(player *p, const orr_param_tensor *tensor) {
    visit_shard(p, tensor, p->w->plan->numeric.master_bytes);
}

static void take_moments(player *p, const orr_param_tensor *tensor) {
    visit_shard(p, tensor, p->w->plan->numeric.exp_avg_bytes);
    visit_shard(p, tensor, p->w->plan->numeric.exp_avg_sq_bytes);
}

/* The model's own tensors, pushed on a stack of their own. */
static void take_param(player *p, const orr_param_tensor *tensor) {
    for (uint32_t k = 0; k < tensor->repeat; k++) {
        push(p, 0, p->w->plan->numeric.param_bytes * (double)tensor->numel);
    }
}

static void take_states(player *p) {
    each_tensor(p, take_param);
    for (uint32_t i = 0; i < ORR_ITEM_WORKSPACE; i++) {
        orr_memory_part part = orr_item_part((orr_item)i);
        if (part == ORR_PART_PARAMS || part == ORR_PART_GRADS || part == ORR_PART_BUFFERS) {
            take(p, p->fixed->item[i]);
        }
    }
    while (p->stack[0] != ORR_NO_BLOCK) { /* the buffer holds them now */
        pop(p, 0);
    }
    each_tensor(p, take_master);
}

/* Tensors that ranks share are gathered one after another to be saved, as the main ones are. */
static double largest_tensor(const player *p) {
    const orr_shard *shard = &p->w->plan->shard;
    double most = 0;
    for (uint32_t c = 0; c < p->vpp && shard->kind != ORR_SHARD_NONE; c++) {
        const orr_chunk *chunk = kind_at(p, c)->chunk;
        for (uint32_t i = 0; i < chunk->part_count; i++) {
            const orr_object *object = chunk->part[i].object;
            for (uint32_t t = 0; t < object->tensor_count; t++) {
                most = orr_max_f64(most, 4 * (double)object->tensor[t].numel);
            }
        }
    }
    return most;
}

static void play_step(player *p) {
    const orr_order_view *order = &p->w->order;
    for (uint32_t i = order->op_first[p->rank]; i < order->op_first[p->rank + 1]; i++) {
        if (p->events > MAX_EVENTS || p->heap->failed) {
            return;
        }
        play_op(p, &order->op[i]);
    }
    orr_heap_give(p->heap, take(p, p->fixed->optimizer_temp));
}

void orr_memory_replay(const orr_program *program, orr_arena *arena, uint32_t rank,
                       bool expandable_segments, orr_replay *out) {
    orr_weighed w;
    orr_static fixed;
    orr_heap heap;
    orr_memory_weigh(program, arena, &w);
    orr_memory_static(&w, rank, &fixed);
    double capacity = orr_memory_capacity(program->resolved);
    orr_heap_init(&heap, arena, capacity < 0x1p62 ? (uint64_t)capacity : (uint64_t)1 << 62,
                  expandable_segments);
    player p = {.w = &w,
                .heap = &heap,
                .fixed = &fixed,
                .rank = rank,
                .vpp = w.plan->pipe.vpp,
                .micro_batches = w.order.spec.micro_batches};
    uint64_t slots = (uint64_t)p.vpp * p.micro_batches;
    *out = (orr_replay){0};
    if (slots == 0 || slots > MAX_SLOTS ||
        orr_order_ops(program->order, arena, &w.order, NULL) != ORR_OK) {
        return;
    }
    p.stack = ORR_NEW_ARRAY(arena, uint32_t, slots);
    p.waiting = ORR_NEW_ARRAY(arena, uint32_t, slots);
    for (uint64_t i = 0; i < slots; i++) {
        p.stack[i] = p.waiting[i] = ORR_NO_BLOCK;
    }
    out->save_bytes = fixed.total + largest_tensor(&p);
    take_states(&p);
    play_step(&p);
    out->first_step_bytes = (double)heap.allocated_peak;
    each_tensor(&p, take_moments);
    play_step(&p);
    out->allocated_bytes = (double)heap.allocated_peak;
    out->reserved_bytes = (double)heap.reserved_peak;
    out->segments = heap.segments;
    out->flushes = heap.flushes;
    out->fits = !heap.failed;
    out->complete = p.events <= MAX_EVENTS && !heap.failed;
}
