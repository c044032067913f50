/* Lowering: from a key to an object. The parts are in lower_*.c and saved.c. */
#include <string.h>

#include <math.h>

#include "base/err.h"
#include "base/num.h"
#include "program/lower_int.h"

const char *orr_op_name(uint16_t index) {
    static const char *const NAME[] = {
#define ORR_NAME_TEXT(id, text) text,
        ORR_NAMES(ORR_NAME_TEXT)
#undef ORR_NAME_TEXT
    };
    return index < ORR_N_COUNT ? NAME[index] : "";
}

static orr_dtype gemm_dtype(uint8_t precision) {
    switch ((orr_precision)precision) {
    case ORR_PRECISION_FP16: return ORR_FP16;
    case ORR_PRECISION_FP8:
    case ORR_PRECISION_FP8_CS: return ORR_FP8;
    case ORR_PRECISION_FP8_MX: return ORR_MXFP8;
    case ORR_PRECISION_FP8_BLOCKWISE: return ORR_FP8_BLOCK;
    case ORR_PRECISION_NVFP4: return ORR_NVFP4;
    case ORR_PRECISION_BF16:
    case ORR_PRECISION_COUNT: break;
    }
    return ORR_BF16;
}

/* ---- checks --------------------------------------------------------------------------------- */

static orr_status check_divides(const char *what, uint64_t value, uint32_t parts, const char *by,
                                orr_err *err) {
    if (value % parts != 0) {
        return orr_fail(err, ORR_E_INFEASIBLE,
                        "%s = %llu cannot be split over %s = %u, expected a multiple", what,
                        (unsigned long long)value, by, parts);
    }
    return ORR_OK;
}

static orr_status check_layer(const orr_object_key *key, orr_err *err) {
    const orr_attention *a = &key->layer.attention;
    const orr_mlp *mlp = &key->layer.mlp;
    const orr_split *split = &key->split;
    if (a->kind > ORR_ATTENTION_NONE || mlp->router > ORR_ROUTER_SIGMOID) {
        return orr_fail(err, ORR_E_INTERNAL, "unknown kind of attention or router in a layer");
    }
    if (a->kind != ORR_ATTENTION_NONE) {
        if (a->heads == 0 || a->head_dim == 0 || a->v_dim == 0) {
            return orr_fail(err, ORR_E_SCHEMA, "attention has no heads or no head width");
        }
        ORR_TRY(check_divides("heads", a->heads, split->tp, "tp", err));
        if (a->kind != ORR_ATTENTION_MLA && a->kv_heads == 0) {
            return orr_fail(err, ORR_E_SCHEMA, "attention has no key-value heads");
        }
        if (a->kind == ORR_ATTENTION_MLA && (a->kv_lora == 0 || a->rope_dim >= a->head_dim)) {
            return orr_fail(err, ORR_E_SCHEMA,
                            "latent attention needs kv_lora > 0 and rope_dim < head_dim");
        }
    }
    ORR_TRY(check_divides("ffn", mlp->ffn, split->tp, "tp", err));
    if (mlp->experts > 0) {
        ORR_TRY(check_divides("experts", mlp->experts, split->ep, "ep", err));
        ORR_TRY(check_divides("expert ffn", mlp->expert_ffn, split->etp, "etp", err));
        ORR_TRY(check_divides("shared ffn", mlp->shared_ffn, split->tp, "tp", err));
        if (mlp->topk == 0 || mlp->topk > mlp->experts || mlp->expert_ffn == 0) {
            return orr_fail(err, ORR_E_SCHEMA,
                            "a mixture needs 1 <= topk <= experts and an expert width");
        }
    }
    return ORR_OK;
}

/* Every byte count is a small multiple of one of these products; with them far below 2^63, nothing
 * overflows. */
static orr_status check_sizes(const orr_object_key *key, orr_err *err) {
    static const double LIMIT = 1125899906842624.0; /* 2^50 elements */
    const orr_layer *l = &key->layer;
    double tokens = (double)key->seq * key->mbs;
    double heads = l->attention.heads;
    double dims = (double)l->attention.head_dim + l->attention.v_dim;
    double copies = l->mlp.topk + 1.0;
    double widest = copies * l->hidden;
    widest = orr_max_f64(widest, 3 * heads * dims);
    widest = orr_max_f64(widest, 3.0 * l->mlp.ffn);
    widest = orr_max_f64(widest, copies * 3 * l->mlp.expert_ffn);
    widest = orr_max_f64(widest, 3.0 * l->mlp.shared_ffn);
    widest = orr_max_f64(widest, orr_max_f64(3.0 * l->mlp.experts, key->vocab));
    widest = orr_max_f64(widest, (double)l->attention.q_lora + l->attention.kv_lora);
    double elements = tokens * widest * orr_max_u32(1, key->split.etp) *
                      (key->variant.static_rows ? key->split.ep : 1);
    bool whole_rows = key->variant.attention != ORR_KERNEL_FLASH;
    double scores = whole_rows ? heads * tokens * key->seq : 0;
    double weights =
        (double)l->hidden * orr_max_f64(widest, key->max_seq) * orr_max_u32(1, l->mlp.experts);
    if (!(elements < LIMIT) || !(scores < LIMIT) || !(weights < LIMIT)) {
        return orr_fail(err, ORR_E_LIMIT,
                        "a layer with %.3g tokens, width %.3g and %.3g weights is beyond the limit "
                        "of 2^50 elements a tensor",
                        tokens, widest, weights);
    }
    return ORR_OK;
}

static orr_status check(const orr_object_key *key, orr_err *err) {
    const orr_split *split = &key->split;
    if (split->tp == 0 || split->cp == 0 || split->ep == 0 || split->etp == 0 || key->mbs == 0 ||
        key->seq == 0 || key->layer.hidden == 0) {
        return orr_fail(err, ORR_E_INTERNAL, "a degree, a batch or a width of a layer is zero");
    }
    if (key->variant.attention > ORR_KERNEL_EAGER_FP32 || key->variant.loss > ORR_LOSS_EAGER_BF16 ||
        split->cp_kind > ORR_CP_A2A) {
        return orr_fail(err, ORR_E_INTERNAL, "an unknown op variant");
    }
    ORR_TRY(check_sizes(key, err));
    ORR_TRY(check_divides("seq", key->seq, split->cp, "cp", err));
    switch (key->what) {
    case ORR_OBJECT_LAYER: return check_layer(key, err);
    case ORR_OBJECT_EMBEDDING:
    case ORR_OBJECT_HEAD:
    case ORR_OBJECT_MTP:
        ORR_TRY(check_divides("hidden", key->layer.hidden,
                              key->what == ORR_OBJECT_MTP ? split->tp : 1, "tp", err));
        return check_divides("vocab", key->vocab, split->tp, "tp", err);
    default: return orr_fail(err, ORR_E_INTERNAL, "unknown kind of object %u", key->what);
    }
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* Token copies that the experts of the fullest rank work on, for `tokens` of each rank: the mean
 * times the load. A capacity pads every expert to whole rows. */
static uint64_t rows_of(const orr_object_key *key, uint64_t tokens) {
    const orr_mlp *mlp = &key->layer.mlp;
    double rows = (double)(tokens * mlp->topk) * orr_split_load(&key->split);
    if (key->variant.capacity) {
        return mlp->experts * (uint64_t)ceil(rows / mlp->experts);
    }
    return (uint64_t)ceil(rows);
}

/* A program whose shapes are fixed when it is compiled keeps room for every token of the group on
 * one rank, or for as many as its experts can be chosen by. Products skip the empty slots, passes
 * over memory do not. */
static uint64_t slots_of(const orr_object_key *key, uint64_t rows) {
    const orr_mlp *mlp = &key->layer.mlp;
    if (!key->variant.static_rows || key->variant.capacity || key->split.ep <= 1) {
        return rows;
    }
    double worst = orr_min_f64(key->split.ep, (double)mlp->experts / mlp->topk);
    return orr_max_u64(rows, (uint64_t)((double)rows / orr_split_load(&key->split) * worst));
}

static orr_sizes sizes_of(const orr_object_key *key) {
    const orr_layer *l = &key->layer;
    const orr_attention *a = &l->attention;
    const orr_mlp *mlp = &l->mlp;
    const orr_split *split = &key->split;
    uint32_t t = split->tp;
    orr_sizes z = {.n = (uint64_t)key->seq / split->cp * key->mbs, .h = l->hidden};
    z.sharded = split->sp && t > 1 ? orr_div_up_u64(z.n, t) : z.n;
    z.heads = a->heads / t;
    z.kv_heads = a->kind == ORR_ATTENTION_MLA ? z.heads : orr_max_u32(1, (a->kv_heads + t - 1) / t);
    z.d = a->head_dim;
    z.dv = a->v_dim;
    z.ffn = mlp->experts > 0 ? 0 : mlp->ffn / t;
    z.vocab = key->vocab / t;
    if (mlp->experts > 0) {
        z.copies = rows_of(key, z.sharded);
        z.rows = z.copies * split->etp;
        z.slots = slots_of(key, z.rows);
        z.experts = mlp->experts / split->ep;
        z.expert_h = mlp->latent > 0 ? mlp->latent : z.h;
        z.expert_ffn = mlp->expert_ffn / split->etp;
        z.shared_ffn = mlp->shared_ffn / t;
    }
    z.scores = z.heads * key->mbs * (key->seq / split->cp) * key->seq;
    bool layer_norm = (key->what == ORR_OBJECT_LAYER ? l->norm : key->norm) == ORR_NORM_LAYER;
    z.norm_stats = layer_norm ? 8 : 4;
    return z;
}

static void begin(orr_builder *b, const orr_object_key *key) {
    b->key = key;
    b->size = sizes_of(key);
    b->layer_norm = b->size.norm_stats == 8;
    uint8_t bare = key->what == ORR_OBJECT_LAYER ? key->layer.norm_bare : key->norm_bare;
    b->norm_tensors = !b->layer_norm ? 1 : bare < 2 ? 2u - bare : 0;

    b->one_norm = key->layer.parallel_block && key->layer.norms < 2;
    b->tensor = key->split.tp > 1;
    b->sequence = b->tensor && key->split.sp;
    b->gemm_dtype = (uint8_t)gemm_dtype(key->numeric.precision);
    b->wide_dtype = key->numeric.precision == ORR_PRECISION_FP16 ? ORR_FP16 : ORR_BF16;
    b->frozen = key->lora.rank > 0;
    b->low = b->gemm_dtype != b->wide_dtype;
    b->element_bytes = !b->low ? 2 : b->gemm_dtype == ORR_NVFP4 ? 0.5 : 1;
    b->modules = key->what == ORR_OBJECT_LAYER ? ORR_MODULE_LAYER : 0;
    b->forward.tail = b->forward.join = -1;
    b->backward.tail = b->backward.join = -1;
    b->weight.tail = b->weight.join = -1;
    b->loss_first = UINT32_MAX;
}

/* ---- a layer -------------------------------------------------------------------------------- */

static void add_layer_norm(orr_builder *b, uint16_t name, uint16_t modules) {
    uint16_t outer = b->modules;
    b->modules |= modules;
    orr_add_norm(b, name, (double)b->size.sharded * (double)b->size.h);
    orr_own_norm(b, b->size.h, 1);
    b->modules = outer;
}

static void lower_layer(orr_builder *b) {
    const orr_layer *layer = &b->key->layer;
    bool attends = layer->attention.kind != ORR_ATTENTION_NONE;
    bool experts = layer->mlp.experts > 0, feeds = experts || b->size.ffn > 0;
    uint16_t second = (uint16_t)(experts ? 0 : ORR_MODULE_MLP);
    add_layer_norm(b, ORR_N_LN1, ORR_MODULE_LAYERNORM);
    orr_lower_attention(b);
    if (layer->norms == 4) {
        add_layer_norm(b, ORR_N_POST_ATTN_NORM, 0);
    }
    if (attends && feeds && !layer->parallel_block) {
        orr_add_residual(b, ORR_N_BDA1);
    }
    if (attends && feeds && layer->norms >= 2) {
        add_layer_norm(b, ORR_N_LN2, (uint16_t)(second | ORR_MODULE_LAYERNORM));
    }
    if (experts) {
        orr_lower_moe(b);
    } else {
        orr_lower_mlp(b);
    }
    if (layer->norms == 4) {
        add_layer_norm(b, ORR_N_POST_MLP_NORM, second);
    }
    orr_add_residual(b, ORR_N_BDA2);
    orr_keep_layer(b);
}

/* ---- parameters ----------------------------------------------------------------------------- */

static orr_tensor_sums sums_of(const orr_param_tensor *tensor, uint32_t count) {
    orr_tensor_sums sums = {0};
    for (uint32_t i = 0; i < count; i++) {
        bool expert = tensor[i].expert;
        sums.aligned[expert] +=
            tensor[i].repeat * orr_round_up_u64(tensor[i].numel, ORR_TENSOR_ALIGN);
        sums.linear[expert] += tensor[i].linear ? tensor[i].repeat * tensor[i].numel : 0;
        sums.largest = orr_max_u64(sums.largest, tensor[i].numel);
    }
    return sums;
}

/* ---- ordering ------------------------------------------------------------------------------- */

static void add_dep(orr_op *op, int16_t on) {
    if (op->dep[0] == on || op->dep[1] == on) {
        return;
    }
    if (op->dep[0] < 0) {
        op->dep[0] = on;
    } else if (op->dep[1] < 0) {
        op->dep[1] = on;
    } else if (op->dep[1] < on) { /* the latest matter */
        op->dep[1] = on;
    }
}

/* Appends a lane that was pushed in forward order, last first; who waited is now waited for. */
static void append_reversed(orr_op *all, uint32_t first, const orr_lane *lane) {
    uint32_t count = lane->count;
    if (count == 0) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        orr_op *op = &all[first + count - 1 - i];
        *op = lane->op[i];
        op->dep[0] = op->dep[1] = -1;
    }
    orr_op *last = &all[first + count - 1];
    for (uint32_t i = count; i-- > 0;) {
        for (int d = 0; d < 2; d++) {
            int before = lane->op[i].dep[d];
            if (before >= 0) {
                add_dep(last - before, (int16_t)(first + count - 1 - i));
            }
        }
    }
}

/* A weight gradient starts with the input gradient of the same linear. */
static void link_weight_grads(orr_op *all, uint32_t backward, uint32_t weight,
                              const orr_builder *b) {
    for (uint32_t i = 0; i < b->weight.count; i++) {
        int16_t mark = b->weight.op[i].dep[0];
        if (mark <= -2) {
            uint32_t twin = (uint32_t)(-2 - mark);
            orr_op *op = &all[weight + b->weight.count - 1 - i];
            const orr_op *same = &all[backward + b->backward.count - 1 - twin];
            for (int d = 0; d < 2; d++) {
                if (same->dep[d] >= 0) {
                    add_dep(op, same->dep[d]);
                }
            }
        }
    }
}

/* FSDP ops run beside the layer: gathers ahead of it, scatters behind. They wait for nothing. */
static void detach_shards(orr_op *all, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        for (int d = 0; d < 2; d++) {
            int16_t on = all[i].dep[d];
            if (all[i].stream == ORR_STREAM_DP || (on >= 0 && all[on].stream == ORR_STREAM_DP)) {
                all[i].dep[d] = -1;
            }
        }
    }
}

/* Per-operator checkpointing runs elementwise work again, gathers, and every second product: the k
 * projection (left out: small), the output projection, one of the gated MLP's two up projections,
 * which costs what the down projection does, and grouped products. torchtitan,
 * activation_checkpoint.py */
static bool runs_again(const orr_op *op) {
    switch ((orr_op_kind)op->kind) {
    case ORR_OP_MEMORY:
    case ORR_OP_GROUPED_GEMM: return true;
    case ORR_OP_GEMM:
        return op->name == ORR_N_PROJ || op->name == ORR_N_FC2 || op->name == ORR_N_LORA;
    case ORR_OP_COLLECTIVE: return op->sub == ORR_ALL_GATHER && op->stream == ORR_STREAM_TP;
    case ORR_OP_ATTENTION: break;
    }
    return false;
}

static void mark_per_operator(orr_op *op, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if ((op[i].modules & ORR_MODULE_LAYER) && runs_again(&op[i])) {
            op[i].modules |= ORR_MODULE_SAC;
        }
    }
}

/* What adds to the residual stream is not needed again, unless a norm comes between. */
static void stop_recomputing(const orr_builder *b, orr_op *op) {
    if (!b->key->variant.recompute_stops || b->key->layer.norms == 4) {
        return;
    }
    for (uint32_t i = b->tail; i < b->tail_end; i++) {
        op[i].modules &= ORR_MODULE_SAC; /* per operator, others run in its stead */
    }
}

static void *copy_of(orr_arena *arena, const void *from, size_t count, size_t bytes) {
    void *to = orr_arena_array(arena, count > 0 ? count : 1, bytes);
    memcpy(to, from, count * bytes);
    return to;
}

static uint64_t saved_bytes(const orr_object *object, uint32_t modules) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < object->saved_count; i++) {
        bytes += orr_saved_alive(&object->saved[i], modules) ? object->saved[i].bytes : 0;
    }
    return bytes;
}

static void finish(const orr_builder *b, orr_arena *arena, orr_object *object) {
    uint32_t backward = b->forward.count, weight = backward + b->backward.count;
    object->op_count = weight + b->weight.count;
    orr_op *op = ORR_NEW_ARRAY(arena, orr_op, object->op_count > 0 ? object->op_count : 1);
    memcpy(op, b->forward.op, b->forward.count * sizeof *op);
    append_reversed(op, backward, &b->backward);
    append_reversed(op, weight, &b->weight);
    link_weight_grads(op, backward, weight, b);
    detach_shards(op, object->op_count);
    mark_per_operator(op, b->forward.count);
    stop_recomputing(b, op);
    object->op = op;
    object->saved_count = b->saved_count;
    object->saved = copy_of(arena, b->saved, b->saved_count, sizeof *b->saved);
    object->tensor_count = b->tensor_count;
    object->tensor = copy_of(arena, b->param, b->tensor_count, sizeof *b->param);
    object->sums = sums_of(b->param, b->tensor_count);
    object->matrix_count = b->matrix_count;
    object->matrix = copy_of(arena, b->matrix, b->matrix_count, sizeof *b->matrix);
    object->weight_count = b->weight_count;
    memcpy(object->weight, b->weight_shape, sizeof object->weight);
    for (uint32_t i = b->loss_first; i < b->saved_count; i++) {
        object->saved_loss += b->saved[i].bytes;
        object->saved_loss_count++;
    }
    object->params = b->params;
    object->host_ops = b->host_ops;
    object->transient = orr_transient_of(b);
    object->saved_all = saved_bytes(object, 0);
    object->saved_input = saved_bytes(object, ORR_MODULE_LAYER);
}

uint64_t orr_object_saved(const orr_object *object, uint32_t modules) {
    return modules == 0 ? object->saved_all : saved_bytes(object, modules);
}

orr_status orr_lower(orr_arena *arena, const orr_object_key *key, orr_object **out, orr_err *err) {
    ORR_TRY(check(key, err));
    orr_object *object = ORR_NEW(arena, orr_object);
    object->key = *key;
    orr_builder builder;
    orr_builder *b = &builder;
    memset(b, 0, sizeof *b);
    begin(b, &object->key);
    switch (key->what) {
    case ORR_OBJECT_LAYER: lower_layer(b); break;
    case ORR_OBJECT_EMBEDDING: orr_lower_embedding(b); break;
    case ORR_OBJECT_HEAD: orr_lower_head(b); break;
    default: orr_lower_mtp(b); break;
    }
    orr_lower_shards(b);
    if (b->overflow || b->forward.count + b->backward.count + b->weight.count > ORR_MAX_OPS) {
        return orr_fail(err, ORR_E_INTERNAL, "a layer needs more ops or tensors than a table has");
    }
    finish(b, arena, object);
    *out = object;
    return ORR_OK;
}
