/* What the objects and chunk kinds of a program weigh, made once an evaluation: everything after it
 * is sums over live vectors. */
#include "memory/memory_int.h"

#include <math.h>

#include "base/num.h"

enum { ROUND_BYTES = 512 /* of a block of PyTorch's allocator */ };

double orr_memory_rounded(double bytes) {
    /* Beyond 2^53 a double has no finer grain than the multiple itself. */
    return bytes < 0x1p53 ? (double)orr_round_up_u64((uint64_t)bytes, ROUND_BYTES) : bytes;
}

/* Checkpoint inputs that `layers` checkpointed layers keep: one a layer, or one a unit. */
static uint32_t checkpoint_inputs(const orr_plan *plan, uint32_t layers) {
    bool units = plan->recompute.kind == ORR_RECOMPUTE_UNIFORM && plan->recompute.layers > 1;
    return units ? (uint32_t)orr_div_up_u64(layers, plan->recompute.layers) : layers;
}

orr_kept_layers orr_memory_kept_layers(const orr_plan *plan, const orr_chunk *chunk, uint32_t part,
                                       bool moving) {
    const orr_part *p = &chunk->part[part];
    uint32_t left = plan->offload.layers, layer = p->object->key.what == ORR_OBJECT_LAYER;
    for (uint32_t i = 0; i < part && left > 0; i++) {
        if (chunk->part[i].object->key.what == ORR_OBJECT_LAYER) {
            left -= orr_min_u32(left, chunk->part[i].count);
        }
    }
    uint32_t away = layer ? orr_min_u32(left, p->count) : 0;
    away -= moving && away > 0;
    uint32_t whole = orr_min_u32(away, p->checkpointed);
    return (orr_kept_layers){.plain = p->count - p->checkpointed - (away - whole),
                             .inputs = checkpoint_inputs(plan, p->checkpointed - whole),
                             .away = away};
}

/* Loss tensors are listed last. */
static uint32_t plain_count(const orr_object *object) {
    return object->saved_count - orr_min_u32(object->saved_count, object->saved_loss_count);
}

/* Bytes per logit that the software states instead of its loss kernel's. */
static double logit_bytes(const orr_weighed *w, double per_logit, const orr_object *object) {
    double tokens = (double)orr_plan_tokens(w->plan);
    uint32_t t = w->plan->variant.loss_gathered ? 1 : orr_max_u32(1, w->plan->split.tp);
    double logits = tokens * (double)orr_div_up_u64(object->key.vocab, t);
    return (double)(uint64_t)(per_logit * logits);
}

static void weigh_loss(const orr_weighed *w, const orr_object *object, orr_object_bytes *out) {
    for (uint32_t i = plain_count(object); i < object->saved_count; i++) {
        double bytes = (double)object->saved[i].bytes;
        out->loss += orr_memory_rounded(bytes);
        out->loss_slack += orr_memory_rounded(bytes) - bytes;
    }
    out->loss_fwd = orr_memory_rounded((double)object->transient.loss_fwd);
    out->loss_bwd = orr_memory_rounded((double)object->transient.loss_bwd);
    if (object->key.what != ORR_OBJECT_HEAD && object->key.what != ORR_OBJECT_MTP) {
        return;
    }
    const orr_software *software = w->software;
    if (w->plan->variant.loss != software->variant.loss) {
        return; /* the plan's kernel is not the one whose copies the software states */
    }
    const bool cut = w->plan->split.tp > 1 && !w->plan->variant.loss_gathered;
    const double more = cut ? software->loss_cut_bytes : 0;
    if (software->loss_fwd_bytes > 0) {
        out->loss_fwd = orr_memory_rounded(logit_bytes(w, software->loss_fwd_bytes + more, object));
    }
    if (software->loss_bwd_bytes > 0) {
        out->loss_bwd = orr_memory_rounded(logit_bytes(w, software->loss_bwd_bytes + more, object));
    }
    if (software->loss_previous_bytes > 0 && w->plan->batch.micro_batches > 1) {
        out->loss_bwd += orr_memory_rounded(logit_bytes(w, software->loss_previous_bytes, object));
    }
}

static void weigh_object(const orr_weighed *w, const orr_object *object, orr_object_bytes *out) {
    uint32_t modules = w->program->modules;
    double rebuilt = 0;
    *out = (orr_object_bytes){.object = object};
    for (uint32_t i = 0; i < plain_count(object); i++) {
        double bytes = (double)object->saved[i].bytes;
        double held = orr_memory_rounded(bytes);
        if (orr_saved_alive(&object->saved[i], modules)) {
            out->kept += held;
            out->kept_slack += held - bytes;
        } else if (orr_saved_alive(&object->saved[i], 0)) {
            rebuilt += held;
        }
    }
    out->rebuilt = rebuilt;
    out->input = orr_memory_rounded((double)object->saved_input);
    out->input_slack = out->input - (double)object->saved_input;
    weigh_loss(w, object, out);
}

/* All that weigh_object reads besides the inputs of a search. */
typedef struct object_memo_key {
    const orr_object *object;
    uint32_t modules;
    uint32_t several; /* micro-batches */
} object_memo_key;

const orr_object_bytes *orr_memory_object(const orr_weighed *w, const orr_object *object) {
    object_memo_key key = {object, w->program->modules, w->plan->batch.micro_batches > 1};
    orr_object_bytes *known = orr_map_get(&w->memo->bytes, &key, sizeof key);
    if (known == NULL) {
        known = ORR_NEW(w->memo->arena, orr_object_bytes);
        weigh_object(w, object, known);
        orr_map_put(&w->memo->bytes, w->memo->arena, &key, sizeof key, known);
    }
    return known;
}

static const orr_object_bytes *object_bytes(orr_weighed *w, const orr_object *object) {
    if (w->memo != NULL) {
        return orr_memory_object(w, object);
    }
    for (uint32_t i = 0; i < w->object_count; i++) {
        if (w->object[i].object == object) {
            return &w->object[i];
        }
    }
    weigh_object(w, object, &w->object[w->object_count]);
    return &w->object[w->object_count++];
}

/* What the parts before `part` hold of one micro-batch. */
static orr_instant before(const orr_weighed *w, const orr_kind_bytes *kind, uint32_t part,
                          bool moving) {
    orr_instant at = {.part = part, .occurs = true, .moving = moving};
    for (uint32_t p = 0; p < part; p++) {
        const orr_part *q = &kind->chunk->part[p];
        const orr_object_bytes *o = kind->part[p];
        orr_kept_layers held = orr_memory_kept_layers(w->plan, kind->chunk, p, moving);
        at.bytes += held.plain * o->kept + held.inputs * o->input;
        at.bytes += q->count * o->loss;
        at.loss_held += q->count * o->loss;
        at.slack += held.plain * o->kept_slack + held.inputs * o->input_slack;
        at.slack += q->count * o->loss_slack;
    }
    return at;
}

/* `at` with what its part itself holds, and temporaries, if that is worse than the worst. */
static void consider(const orr_kind_bytes *kind, const orr_instant *at, uint32_t plain,
                     uint32_t inputs, uint32_t whole_loss, orr_instant *worst) {
    const orr_object_bytes *o = kind->part[at->part];
    double bytes = at->bytes + plain * o->kept + inputs * o->input + whole_loss * o->loss +
                   at->rebuilt + at->temporary + at->loss;
    if (worst->occurs && bytes <= worst->bytes) {
        return;
    }
    *worst = *at;
    worst->bytes = bytes;
    worst->plain = plain;
    worst->inputs = inputs;
    worst->whole_loss = whole_loss;
    worst->loss_held += whole_loss * o->loss;
    worst->slack += plain * o->kept_slack + inputs * o->input_slack + whole_loss * o->loss_slack;
}

/* The instants that can be a chunk's worst. In the forward: a part's last layer at work, or the
 * loss. In the backward: a part's last layer, or its last checkpointed one, after all behind it
 * are done with. */
static void find_instants(const orr_weighed *w, orr_kind_bytes *kind) {
    const orr_chunk *chunk = kind->chunk;
    for (uint32_t p = 0; p < chunk->part_count; p++) {
        const orr_part *part = &chunk->part[p];
        const orr_object_bytes *o = kind->part[p];
        const orr_transient *t = &o->object->transient;
        bool has_loss = o->loss_fwd > 0 || o->loss_bwd > 0 || o->loss > 0;
        orr_kept_layers held = orr_memory_kept_layers(w->plan, chunk, p, !has_loss);
        uint32_t plain = held.plain, inputs = held.inputs;
        orr_instant at = before(w, kind, p, !has_loss);

        at.temporary = orr_memory_rounded((double)t->forward);
        at.loss = has_loss ? o->loss_fwd : 0;
        consider(kind, &at, plain, inputs, has_loss ? part->count - 1 : 0,
                 &kind->instant[ORR_INSTANT_FORWARD]);

        at.temporary = orr_memory_rounded((double)t->backward);
        at.loss = 0;
        if (has_loss) {
            at.loss = o->loss_bwd;
            consider(kind, &at, plain, inputs, part->count - 1, &kind->instant[ORR_INSTANT_LOSS]);
            continue;
        }
        if (plain > 0) {
            at.rebuilt = o->rebuilt;
            consider(kind, &at, plain, inputs, 0, &kind->instant[ORR_INSTANT_BACKWARD]);
        }
        if (part->checkpointed > 0) {
            at.rebuilt = orr_memory_rounded((double)chunk->recompute_bytes);
            consider(kind, &at, 0, inputs, 0, &kind->instant[ORR_INSTANT_BACKWARD]);
        }
    }
    orr_instant *worst = &kind->instant[ORR_INSTANT_FORWARD];
    if (!worst->occurs || kind->kept > worst->bytes) {
        *worst = (orr_instant){.part = chunk->part_count,
                               .occurs = true,
                               .bytes = kind->kept,
                               .slack = kind->kept_slack,
                               .loss_held = kind->loss};
    }
}

static void add_shapes(orr_kind_bytes *kind, const orr_object *object) {
    for (uint32_t i = 0; i < object->weight_count; i++) {
        bool known = false;
        for (uint32_t k = 0; k < kind->shape_count && !known; k++) {
            known = kind->shape[k].rows == object->weight[i].rows &&
                    kind->shape[k].cols == object->weight[i].cols;
        }
        if (!known && kind->shape_count < ORR_MAX_KIND_SHAPES) {
            kind->shape[kind->shape_count++] = object->weight[i];
        }
    }
}

/* Bytes that frozen weights rest in: linears in their own format. */
static double frozen_bytes(const orr_plan *plan, uint64_t all, uint64_t linear) {
    double low = plan->numeric.param_bytes == 1 ? 1 : orr_base_bytes(plan->lora.base);
    return ceil(low * (double)linear) + 2 * (double)(all - linear);
}

static void add_frozen(const orr_weighed *w, orr_kind_bytes *kind, const orr_object *object,
                       double count) {
    const orr_params *p = &object->params;
    double dense = frozen_bytes(w->plan, p->frozen_dense, p->frozen_linear_dense);
    double expert = frozen_bytes(w->plan, p->frozen_expert, p->frozen_linear_expert);
    kind->frozen_dense += count * dense;
    kind->frozen_expert += count * expert;
    if (object->key.what == ORR_OBJECT_EMBEDDING || object->key.what == ORR_OBJECT_HEAD) {
        kind->frozen_root += count * (dense + expert);
        kind->frozen_root_unit = orr_max_f64(kind->frozen_root_unit, dense + expert);
    } else {
        kind->frozen_unit = orr_max_f64(kind->frozen_unit, dense + expert);
    }
}

static void add_params(orr_kind_bytes *kind, const orr_object *object, double count) {
    const orr_tensor_sums *sums = &object->sums;
    double dense = (double)object->params.dense, expert = (double)object->params.expert;
    kind->dense += count * dense;
    kind->expert += count * expert;
    kind->dense_aligned += count * (double)sums->aligned[0];
    kind->expert_aligned += count * (double)sums->aligned[1];
    kind->linear_dense += count * (double)sums->linear[0];
    kind->linear_expert += count * (double)sums->linear[1];
    if (object->key.what == ORR_OBJECT_EMBEDDING || object->key.what == ORR_OBJECT_HEAD) {
        kind->root += count * (dense + expert);
        kind->root_unit = orr_max_f64(kind->root_unit, dense + expert);
    } else {
        kind->unit = orr_max_f64(kind->unit, dense + expert);
        kind->matrix = orr_max_f64(kind->matrix, (double)sums->largest);
    }
}

/* What does not depend on recompute. */
static void weigh_params(const orr_weighed *w, orr_kind_bytes *kind, const orr_chunk *chunk) {
    kind->chunk = chunk;
    for (uint32_t p = 0; p < chunk->part_count; p++) {
        const orr_object *object = chunk->part[p].object;
        kind->pending_w +=
            chunk->part[p].count * orr_memory_rounded((double)object->transient.pending_w);
        kind->gather =
            orr_max_f64(kind->gather, orr_memory_rounded((double)object->transient.gather));
        if (object->key.what == ORR_OBJECT_LAYER) {
            kind->stage_input =
                orr_max_f64(kind->stage_input, orr_memory_rounded((double)object->saved_input));
        }
        if (w->plan->variant.dummy_wgrad) {
            add_shapes(kind, object);
        }
        add_params(kind, object, chunk->part[p].count);
        if (w->plan->lora.rank > 0) {
            add_frozen(w, kind, object, chunk->part[p].count);
        }
    }
}

static void weigh_kept(orr_weighed *w, orr_kind_bytes *kind) {
    for (uint32_t p = 0; p < kind->chunk->part_count; p++) {
        kind->part[p] = object_bytes(w, kind->chunk->part[p].object);
    }
    orr_instant all = before(w, kind, kind->chunk->part_count, false);
    kind->kept = all.bytes;
    kind->kept_slack = all.slack;
    kind->loss = all.loss_held;
}

void orr_memory_weigh_params(orr_weighed *w, const orr_program *program) {
    const orr_plan *plan = &program->resolved->plan;
    w->program = program;
    w->plan = plan;
    w->software = program->resolved->software;
    w->dense_shards = orr_plan_dense_shards(plan);
    w->expert_shards = orr_plan_expert_shards(plan);
    w->need_uncut = orr_memory_need_uncut(program);
    for (uint32_t k = 0; k < program->chunk_kind_count; k++) {
        w->kind[k] = (orr_kind_bytes){0};
        weigh_params(w, &w->kind[k], &program->chunk_kind[k]);
    }
}

void orr_memory_weigh_kept(orr_weighed *w) {
    for (uint32_t k = 0; k < w->program->chunk_kind_count; k++) {
        weigh_kept(w, &w->kind[k]);
    }
}

void orr_memory_weigh_instants(const orr_weighed *w) {
    for (uint32_t k = 0; k < w->program->chunk_kind_count; k++) {
        for (int i = 0; i < ORR_INSTANT_COUNT; i++) {
            w->kind[k].instant[i] = (orr_instant){0};
        }
        find_instants(w, &w->kind[k]);
    }
}

void orr_memory_weigh(const orr_program *program, orr_arena *arena, orr_weighed *out) {
    const uint32_t vpp = program->resolved->plan.pipe.vpp;
    uint32_t parts = 0;
    for (uint32_t k = 0; k < program->chunk_kind_count; k++) {
        parts += program->chunk_kind[k].part_count;
    }
    *out = (orr_weighed){.order = orr_order_look(program->order),
                         .object = ORR_NEW_ARRAY(arena, orr_object_bytes, parts),
                         .kind = ORR_NEW_ARRAY(arena, orr_kind_bytes, program->chunk_kind_count),
                         .rank_kind = ORR_NEW_ARRAY(arena, const orr_kind_bytes *, vpp),
                         .rank_kept = ORR_NEW_ARRAY(arena, double, vpp)};
    orr_memory_weigh_params(out, program);
    orr_memory_weigh_kept(out);
    orr_memory_weigh_instants(out);
}
