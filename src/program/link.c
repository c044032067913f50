/* Linking: which layers each chunk runs, from memoised objects, and the schedule's order.
 *
 * Chunks that hold the same layers in the same order are one kind; a plan has few. Anything that
 * varies per layer (recompute) enters as counts. */
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "program/link_int.h"

typedef struct linking {
    orr_linker *linker;
    const orr_model *model;
    const orr_plan *plan;
    uint32_t modules;
    uint32_t chunks;                             /* pp * vpp */
    uint32_t *layers, *offset;                   /* per chunk */
    uint8_t *ends;                               /* per chunk: what it has besides layers */
    const orr_object *kind[ORR_MAX_LAYER_KINDS]; /* NULL: not looked up yet */
} linking;

enum {
    END_EMBEDDING = 1,
    END_HEAD = 2,
    END_MTP = 4,
    END_EMBEDDING_ON_RANK = 8, /* the rank holds the embedding's matrix, in this chunk or another */
    END_HEAD_ON_RANK = 16
};

/* ---- keys ----------------------------------------------------------------------------------- */

static uint32_t shards_of(const orr_plan *plan) {
    switch ((orr_sharding)plan->shard.kind) {
    case ORR_SHARD_ZERO3:
    case ORR_SHARD_FSDP2:
    case ORR_SHARD_HSDP: return orr_max_u32(1, orr_plan_dense_shards(plan));
    case ORR_SHARD_NONE:
    case ORR_SHARD_ZERO1:
    case ORR_SHARD_ZERO2:
    case ORR_SHARD_COUNT: break;
    }
    return 1;
}

/* What every object of the plan depends on. Fields that an object does not read are left out, so
 * that plans that differ only there share it. */
static void common_key(const orr_plan *plan, orr_object_key *key) {
    memset(key, 0, sizeof *key);
    key->split.tp = plan->split.tp;
    key->split.cp = plan->split.cp;
    key->split.ep = key->split.etp = 1;
    key->split.sp = plan->split.tp > 1 && plan->split.sp;
    key->mbs = plan->batch.mbs;
    key->seq = plan->batch.seq;
    key->dp_shards = shards_of(plan);
    key->replica_stretch = key->dp_shards > 1 ? orr_plan_replica_stretch(plan) : 1;
    key->numeric.precision = plan->numeric.precision;
    if (key->dp_shards > 1) { /* what a reduce-scatter carries */
        const orr_numeric *n = &plan->numeric;
        key->numeric.grad_bytes = n->wire_bytes > 0 ? n->wire_bytes : n->grad_bytes;
    }
    key->variant = plan->variant;
    key->variant.vocab_unpadded = 0;
    key->variant.fp8_copies = 0; /* static, not an object's */
}

void orr_link_layer_key(const orr_plan *plan, const orr_layer *layer, orr_object_key *key) {
    common_key(plan, key);
    key->what = ORR_OBJECT_LAYER;
    key->layer = *layer;
    key->split.cp_kind = plan->split.cp > 1 ? plan->split.cp_kind : 0;
    key->lora = plan->lora;
    key->lora.alpha = 0;
    key->variant.loss = key->variant.loss_gathered = 0;
    if (layer->mlp.experts > 0) {
        key->split.ep = plan->split.ep;
        key->split.etp = plan->split.etp;
        key->split.load = plan->split.load;
    } else {
        key->variant.capacity = 0;
        key->variant.dispatch = key->variant.fused_permute = key->variant.probs_in_activation = 0;
        key->variant.expert_tp_by_width = key->variant.eager_expert_bias = 0;
        key->variant.scattered_sums = 0;
    }
}

uint32_t orr_link_vocab(const orr_model *model, const orr_plan *plan) {
    uint32_t multiple = plan->variant.vocab_unpadded ? 1 : 128;
    return (uint32_t)orr_round_up_u64(model->vocab, (uint64_t)multiple * plan->split.tp);
}

static void end_key(const linking *l, orr_object_what what, orr_object_key *key) {
    const orr_model *model = l->model;
    common_key(l->plan, key);
    key->what = (uint32_t)what;
    key->vocab = orr_link_vocab(model, l->plan);
    key->norm = model->norm;
    key->norm_bare = model->norm_bare;

    key->layer.hidden = model->hidden;
    orr_variant own = {.fused_norm = key->variant.fused_norm,
                       .norm_square = key->variant.norm_square,
                       .hidden_dropout = key->variant.hidden_dropout,
                       .grad_fp32 = key->variant.grad_fp32,
                       .fused_grad_accumulation = key->variant.fused_grad_accumulation,
                       .dummy_wgrad = key->variant.dummy_wgrad};
    if (what != ORR_OBJECT_EMBEDDING) {
        own.loss = key->variant.loss;
        own.loss_gathered = key->variant.loss_gathered;
        own.hidden_dropout = 0;
    }
    key->variant = own;
    key->lora.rank = l->plan->lora.rank > 0; /* frozen or not is all that counts */
}

static orr_status embedding(linking *l, const orr_object **out, orr_err *err) {
    orr_object_key key;
    end_key(l, ORR_OBJECT_EMBEDDING, &key);
    if (l->model->position == ORR_POSITION_LEARNED) {
        /* A table of unstated length is as long as the sequence that runs. */
        key.max_seq = l->model->max_seq > 0 ? l->model->max_seq : l->plan->batch.seq;
    }
    key.embedding_norm = l->model->embedding_norm;
    key.token_types = l->model->token_types;

    return orr_linker_object(l->linker, &key, out, err);
}

static orr_status head(linking *l, uint8_t ends, const orr_object **out, orr_err *err) {
    orr_object_key key;
    end_key(l, ORR_OBJECT_HEAD, &key);
    key.tied_first_use = l->model->tied && (ends & END_EMBEDDING_ON_RANK);
    key.head_bias = l->model->head_bias;
    key.encoder = l->model->encoder;

    return orr_linker_object(l->linker, &key, out, err);
}

/* A depth re-uses embedding and head: the first one on a rank that lacks them brings copies. */
static orr_status mtp(linking *l, uint8_t ends, bool first, const orr_object **out, orr_err *err) {
    orr_object_key key;
    end_key(l, ORR_OBJECT_MTP, &key);
    bool embeds = ends & END_EMBEDDING_ON_RANK, heads = ends & END_HEAD_ON_RANK;
    if (l->model->tied) {
        embeds = heads = embeds || heads;
    }
    key.tied_first_use = !first || (embeds && heads)         ? 1
                         : embeds || heads || l->model->tied ? 0
                                                             : 2;
    return orr_linker_object(l->linker, &key, out, err);
}

static orr_status layer_object(linking *l, uint32_t kind, const orr_object **out, orr_err *err) {
    if (l->kind[kind] == NULL) {
        orr_object_key key;
        orr_link_layer_key(l->plan, &l->model->kind[kind], &key);
        ORR_TRY(orr_linker_object(l->linker, &key, &l->kind[kind], err));
    }
    *out = l->kind[kind];
    return ORR_OK;
}

/* ---- chunks --------------------------------------------------------------------------------- */

static orr_status add_part(orr_chunk *chunk, const orr_object *object, uint32_t count,
                           uint32_t checkpointed, orr_err *err) {
    if (chunk->part_count == ORR_MAX_PARTS) {
        return orr_fail(err, ORR_E_LIMIT, "a pipeline chunk has more than %d kinds of layers",
                        ORR_MAX_PARTS - 4);
    }
    chunk->part[chunk->part_count++] = (orr_part){
        .object = object, .count = count, .checkpointed = checkpointed, .role = ORR_PART_END};
    return ORR_OK;
}

/* How many layers at the front of a chunk are checkpointed whole. */
static uint32_t checkpointed_layers(const orr_plan *plan, uint32_t layers) {
    switch ((orr_recompute_kind)plan->recompute.kind) {
    case ORR_RECOMPUTE_FULL:
    case ORR_RECOMPUTE_UNIFORM: return layers;
    case ORR_RECOMPUTE_BLOCK: return orr_min_u32(layers, plan->recompute.layers);
    case ORR_RECOMPUTE_NONE:
    case ORR_RECOMPUTE_SELECTIVE:
    case ORR_RECOMPUTE_UNKNOWN: break;
    }
    return 0;
}

/* Equal layers side by side become one part. Layers of a kind that come again later join it: bytes
 * and times are sums. */
static orr_status add_layers(linking *l, uint32_t at, orr_chunk *chunk, orr_err *err) {
    uint32_t whole = checkpointed_layers(l->plan, l->layers[at]);
    uint32_t first = chunk->part_count;
    for (uint32_t i = 0; i < l->layers[at]; i++) {
        const orr_object *object = NULL;
        uint32_t kind = l->model->layer_kind[l->offset[at] + i];
        ORR_TRY(layer_object(l, kind, &object, err));
        uint32_t p = first;
        while (p < chunk->part_count && chunk->part[p].object != object) {
            p++;
        }
        if (p == chunk->part_count) {
            ORR_TRY(add_part(chunk, object, 0, 0, err));
            chunk->part[p].role = ORR_PART_LAYER;
            chunk->part[p].layer_kind = (uint8_t)kind;
        }
        chunk->part[p].count++;
        chunk->part[p].checkpointed += i < whole;
    }
    return ORR_OK;
}

/* A depth is checkpointed with its layer where every layer is. */
static orr_status add_mtp(linking *l, uint8_t ends, orr_chunk *chunk, orr_err *err) {
    const orr_model *model = l->model;
    const orr_object *object = NULL;
    bool whole = l->plan->recompute.kind == ORR_RECOMPUTE_FULL ||
                 l->plan->recompute.kind == ORR_RECOMPUTE_UNIFORM;
    ORR_TRY(layer_object(l, model->layer_kind[model->layers - 1], &object, err));
    ORR_TRY(add_part(chunk, object, model->mtp_layers, whole ? model->mtp_layers : 0, err));
    chunk->part[chunk->part_count - 1].role = ORR_PART_MTP_LAYER;
    ORR_TRY(mtp(l, ends, true, &object, err));
    ORR_TRY(add_part(chunk, object, 1, 0, err));
    if (model->mtp_layers > 1) {
        ORR_TRY(mtp(l, ends, false, &object, err));
        ORR_TRY(add_part(chunk, object, model->mtp_layers - 1u, 0, err));
    }
    return ORR_OK;
}

/* Inputs of checkpoints that a part keeps: uniform ones span several layers. */
static uint64_t checkpoints(const orr_plan *plan, uint32_t layers) {
    bool spans = plan->recompute.kind == ORR_RECOMPUTE_UNIFORM && plan->recompute.layers > 1;
    return spans ? orr_div_up_u64(layers, plan->recompute.layers) : layers;
}

/* The largest set that one recomputation brings back. */
static uint64_t rebuilt_bytes(const orr_plan *plan, uint32_t modules, const orr_part *part) {
    const orr_object *object = part->object;
    uint64_t worst = 0;
    if (part->checkpointed > 0) {
        uint32_t span = plan->recompute.kind == ORR_RECOMPUTE_UNIFORM
                            ? orr_max_u32(1, orr_min_u32(plan->recompute.layers, part->count))
                            : 1;
        return span * object->saved_all - object->saved_input;
    }
    for (uint32_t bits = modules; bits != 0; bits &= bits - 1) {
        uint64_t kept = orr_object_saved(object, bits & -bits);
        worst = orr_max_u64(worst, object->saved_all > kept ? object->saved_all - kept : 0);
    }
    return worst;
}

static void sum_chunk(const linking *l, orr_chunk *chunk) {
    for (uint32_t i = 0; i < chunk->part_count; i++) {
        const orr_part *part = &chunk->part[i];
        const orr_object *object = part->object;
        uint64_t plain = orr_object_saved(object, l->modules) - object->saved_loss;
        chunk->saved_bytes += (part->count - part->checkpointed) * plain;
        chunk->saved_bytes += checkpoints(l->plan, part->checkpointed) * object->saved_input;
        chunk->recompute_bytes =
            orr_max_u64(chunk->recompute_bytes, rebuilt_bytes(l->plan, l->modules, part));
        chunk->params.dense += part->count * object->params.dense;
        chunk->params.expert += part->count * object->params.expert;
        chunk->params.norms += part->count * object->params.norms;
        chunk->params.frozen_dense += part->count * object->params.frozen_dense;
        chunk->params.frozen_expert += part->count * object->params.frozen_expert;
        chunk->params.frozen_linear_dense += part->count * object->params.frozen_linear_dense;
        chunk->params.frozen_linear_expert += part->count * object->params.frozen_linear_expert;
    }
}

static orr_status fill_chunk(linking *l, uint32_t at, orr_chunk *chunk, orr_err *err) {
    uint8_t ends = l->ends[at];
    const orr_object *object = NULL;
    chunk->layers = l->layers[at];
    chunk->first_layer = l->offset[at];
    chunk->has_embedding = ends & END_EMBEDDING;
    chunk->has_head = ends & END_HEAD;
    if (chunk->has_embedding) {
        ORR_TRY(embedding(l, &object, err));
        ORR_TRY(add_part(chunk, object, 1, 0, err));
    }
    ORR_TRY(add_layers(l, at, chunk, err));
    if (ends & END_MTP) {
        ORR_TRY(add_mtp(l, ends, chunk, err));
    }
    if (chunk->has_head) {
        ORR_TRY(head(l, ends, &object, err));
        ORR_TRY(add_part(chunk, object, 1, 0, err));
    }
    sum_chunk(l, chunk);
    return ORR_OK;
}

static uint32_t modules_everywhere(const orr_plan *plan) {
    return plan->recompute.kind == ORR_RECOMPUTE_SELECTIVE
               ? plan->recompute.modules & ~(uint32_t)ORR_MODULE_LAYER
               : 0;
}

/* Layers of a kind among the first `whole` of a chunk. */
static uint32_t layers_among(const orr_model *model, const orr_chunk *chunk, uint32_t whole,
                             const orr_part *part) {
    if (whole == 0 || part->count == chunk->layers) {
        return whole;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < whole; i++) {
        count += model->layer_kind[chunk->first_layer + i] == part->layer_kind;
    }
    return count;
}

uint32_t orr_link_recompute(const orr_resolved *resolved, orr_chunk *kind, uint32_t kind_count) {
    const orr_plan *plan = &resolved->plan;
    uint32_t modules = modules_everywhere(plan);
    for (uint32_t k = 0; k < kind_count; k++) {
        orr_chunk *chunk = &kind[k];
        uint32_t whole = checkpointed_layers(plan, chunk->layers);
        bool mtp = plan->recompute.kind == ORR_RECOMPUTE_FULL ||
                   plan->recompute.kind == ORR_RECOMPUTE_UNIFORM;
        chunk->recompute_bytes = 0;
        for (uint32_t i = 0; i < chunk->part_count; i++) {
            orr_part *part = &chunk->part[i];
            if (part->role == ORR_PART_LAYER) {
                part->checkpointed = layers_among(resolved->model, chunk, whole, part);
            } else if (part->role == ORR_PART_MTP_LAYER) {
                part->checkpointed = mtp ? part->count : 0;
            }
            if (part->checkpointed > 0) {
                chunk->recompute_bytes =
                    orr_max_u64(chunk->recompute_bytes, rebuilt_bytes(plan, modules, part));
            }
        }
    }
    return modules;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void find_ends(linking *l) {
    const orr_plan *plan = l->plan;
    uint32_t vpp = plan->pipe.vpp, last = orr_plan_stages(plan) - 1;
    uint32_t mtp_stage = l->model->mtp_layers > 0 ? orr_plan_mtp_stage(plan) : UINT32_MAX;
    for (uint32_t rank = 0; rank < plan->pipe.pp; rank++) {
        uint8_t shared = 0;
        for (uint32_t chunk = 0; chunk < vpp; chunk++) {
            uint32_t stage = orr_plan_stage(plan, rank, chunk, NULL);
            uint8_t ends = 0;
            ends |= stage == 0 ? END_EMBEDDING : 0;
            ends |= stage == last ? END_HEAD : 0;
            ends |= stage == mtp_stage ? END_MTP : 0;
            l->ends[rank * vpp + chunk] = ends;
            shared |= ends & END_EMBEDDING ? END_EMBEDDING_ON_RANK : 0;
            shared |= ends & END_HEAD ? END_HEAD_ON_RANK : 0;
        }
        for (uint32_t chunk = 0; chunk < vpp && shared != 0; chunk++) {
            uint8_t *ends = &l->ends[rank * vpp + chunk];
            *ends |= *ends & (END_HEAD | END_MTP) ? shared : 0;
        }
    }
}

static bool same_chunk(const linking *l, uint32_t a, uint32_t b) {
    const uint8_t *kind = l->model->layer_kind;
    return l->layers[a] == l->layers[b] && l->ends[a] == l->ends[b] &&
           memcmp(kind + l->offset[a], kind + l->offset[b], l->layers[a]) == 0;
}

/* Sorts chunks into kinds; `first` is a chunk of each. */
static orr_status find_kinds(const linking *l, uint8_t *kind_of, uint32_t *first, uint32_t *count,
                             orr_err *err) {
    *count = 0;
    for (uint32_t c = 0; c < l->chunks; c++) {
        uint32_t k = 0;
        while (k < *count && !same_chunk(l, first[k], c)) {
            k++;
        }
        if (k == *count) {
            if (k == ORR_MAX_CHUNK_KINDS) {
                return orr_fail(err, ORR_E_LIMIT, "the plan has more than %d kinds of chunks",
                                ORR_MAX_CHUNK_KINDS);
            }
            first[(*count)++] = c;
        }
        kind_of[c] = (uint8_t)k;
    }
    return ORR_OK;
}

static orr_status check_link(const orr_resolved *resolved, orr_err *err) {
    const orr_plan *plan = &resolved->plan;
    const orr_model *model = resolved->model;
    if (model->layers == 0 || model->layers > ORR_MAX_LAYERS ||
        model->kind_count > ORR_MAX_LAYER_KINDS) {
        return orr_fail(err, ORR_E_LIMIT, "a model has 1 to %d layers of at most %d kinds",
                        ORR_MAX_LAYERS, ORR_MAX_LAYER_KINDS);
    }
    if (plan->pipe.pp == 0 || plan->pipe.vpp == 0 || plan->pipe.pp > ORR_MAX_PP ||
        plan->pipe.vpp > ORR_MAX_VPP || plan->split.tp == 0) {
        return orr_fail(err, ORR_E_LIMIT, "pp is 1 to %d, vpp 1 to %d, tp at least 1", ORR_MAX_PP,
                        ORR_MAX_VPP);
    }
    return ORR_OK;
}

/* Orders under a memory budget count in this share of what a micro-batch keeps. */
enum { MEMORY_STEPS = 256 };

static bool budgets_memory(uint8_t kind) {
    return kind == ORR_SCHEDULE_ZB_1P || kind == ORR_SCHEDULE_ZB_2P || kind == ORR_SCHEDULE_ZB_AUTO;
}

/* What a backward leaves for the weight gradients, of what a forward keeps, in the chunk with the
 * most layers: their programs count so too. */
static void budget_memory(const orr_program *program, orr_schedule_spec *spec) {
    const orr_chunk *chunk = &program->chunk_kind[0];
    for (uint32_t k = 1; k < program->chunk_kind_count; k++) {
        bool more = program->chunk_kind[k].layers > chunk->layers;
        chunk = more ? &program->chunk_kind[k] : chunk;
    }
    double kept = 0, waits = 0;
    for (uint32_t i = 0; i < chunk->part_count; i++) {
        const orr_part *part = &chunk->part[i];
        const orr_object *object = part->object;
        if (object->key.what != ORR_OBJECT_LAYER) {
            continue;
        }
        double plain = (double)(orr_object_saved(object, program->modules) - object->saved_loss);
        kept += (part->count - part->checkpointed) * plain;
        kept += part->checkpointed * (double)object->saved_input;
        waits += part->count * (double)object->transient.pending_w;
    }
    double left = kept > 0 ? orr_min_f64(1, waits / kept) : 1;
    spec->memory_f = MEMORY_STEPS;
    spec->memory_w = (uint32_t)(left * MEMORY_STEPS + 0.5);
    spec->memory_b = MEMORY_STEPS - spec->memory_w;
    spec->memory_limit *= MEMORY_STEPS;
}

orr_status orr_link_order(orr_linker *linker, orr_arena *arena, const orr_plan *plan,
                          const orr_program *program, const orr_durations *d, const orr_order **out,
                          orr_err *err) {
    orr_schedule_spec spec = orr_plan_schedule(plan);
    if (budgets_memory(spec.kind)) {
        budget_memory(program, &spec);
    }
    return orr_linker_order(linker, arena, &spec, d, out, err);
}

orr_status orr_link_chunks(orr_linker *linker, orr_arena *arena, const orr_resolved *resolved,
                           orr_program *out, orr_err *err) {
    const orr_plan *plan = &resolved->plan;
    ORR_TRY(check_link(resolved, err));
    linking l = {.linker = linker,
                 .model = resolved->model,
                 .plan = plan,
                 .modules = modules_everywhere(plan),
                 .chunks = plan->pipe.pp * plan->pipe.vpp};
    l.layers = ORR_NEW_ARRAY(arena, uint32_t, l.chunks);
    l.offset = ORR_NEW_ARRAY(arena, uint32_t, l.chunks);
    l.ends = ORR_NEW_ARRAY(arena, uint8_t, l.chunks);
    uint8_t *kind_of = ORR_NEW_ARRAY(arena, uint8_t, l.chunks);
    ORR_UNSET uint32_t first[ORR_MAX_CHUNK_KINDS];
    *out = (orr_program){.resolved = resolved, .chunk = kind_of, .modules = l.modules};
    ORR_TRY(orr_plan_layers(resolved->model, plan, l.layers, l.offset, err));
    find_ends(&l);
    ORR_TRY(find_kinds(&l, kind_of, first, &out->chunk_kind_count, err));
    orr_chunk *kind = ORR_NEW_ARRAY(arena, orr_chunk, out->chunk_kind_count);
    for (uint32_t k = 0; k < out->chunk_kind_count; k++) {
        ORR_TRY(fill_chunk(&l, first[k], &kind[k], err));
    }
    out->chunk_kind = kind;
    return ORR_OK;
}

orr_status orr_link(orr_linker *linker, orr_arena *arena, const orr_resolved *resolved,
                    const orr_durations *d, orr_program *out, orr_err *err) {
    const orr_order *order = NULL;
    ORR_TRY(orr_link_chunks(linker, arena, resolved, out, err));
    ORR_TRY(orr_link_order(linker, arena, &resolved->plan, out, d, &order, err));
    out->order = order;
    return ORR_OK;
}
