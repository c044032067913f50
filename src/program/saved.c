/* What a layer keeps from forward to backward: docs/internals/program.md, proven on
 * tests/data/memory.
 *
 * Storages are counted once, by the first module that keeps them; a view keeps its whole storage
 * alive. `dropped` names the recompute modules that discard a tensor, `only` those that create it
 * (the input of a checkpoint, which without it belongs to someone else). */
#include "base/num.h"
#include "program/lower_int.h"

enum {
    CORE = ORR_MODULE_CORE_ATTN,
    NORM = ORR_MODULE_LAYERNORM,
    MLP = ORR_MODULE_MLP,
    MOE = ORR_MODULE_MOE,
    MOE_ACT = ORR_MODULE_MOE_ACT,
    SHARED = ORR_MODULE_SHARED_EXPERTS,
    UP = ORR_MODULE_MLA_UP_PROJ,
    SAC = ORR_MODULE_SAC,
    LAYER = ORR_MODULE_LAYER,
    WHOLE = LAYER | SAC /* both keep a list of their own */
};

/* Input and statistics, or the fp32 chain of an eager norm, whose input stays with its caller. */
void orr_keep_norm(orr_builder *b, uint16_t module, uint64_t tokens, uint64_t width,
                   uint32_t dropped) {
    uint64_t elements = tokens * width;
    if (b->key->variant.fused_norm) {
        orr_keep(b, module, ORR_N_T_STREAM, 2 * elements, dropped, 0);
        orr_keep(b, module, ORR_N_T_STATS, b->size.norm_stats * tokens, dropped, 0);
    } else if (b->layer_norm) { /* one op in any framework; 16-bit statistics */
        orr_keep(b, module, ORR_N_T_STREAM, 2 * elements, dropped, 0);
        orr_keep(b, module, ORR_N_T_STATS, 4 * tokens, dropped, 0);
    } else {
        orr_keep(b, module, ORR_N_T_X32, 4 * elements, dropped, 0);
        if (b->key->variant.norm_square) {
            orr_keep(b, module, ORR_N_T_SQUARE, 4 * elements, dropped, 0);
        }
        orr_keep(b, module, ORR_N_T_NORMALISED, 2 * elements, dropped, 0);
        orr_keep(b, module, ORR_N_T_STATS, 4 * tokens, dropped, 0);
    }
}

/* Which of q, k, v are views of the fused projection's output. */
typedef struct views {
    uint64_t qkv_bytes; /* of that output */
    bool qkv_kept;      /* already counted */
    bool q, k;          /* v always is, until it is copied */
} views;

static views views_of(const orr_builder *b) {
    const orr_attention *a = &b->key->layer.attention;
    const orr_sizes *z = &b->size;
    bool separate = b->key->variant.separate_projections; /* each has its own storage */
    bool fresh = a->rope || a->qk_norm || separate;
    bool grouped = z->heads != z->kv_heads;
    views v = {.qkv_bytes = 2 * z->n * (z->heads * z->d + z->kv_heads * (z->d + z->dv))};
    if (a->output_gate) {
        v.qkv_bytes += 2 * z->n * z->heads * z->dv;
    }
    if (separate) { /* v's alone */
        v.qkv_bytes = 2 * z->n * z->kv_heads * z->dv;
    }
    /* The heads of several groups cannot be laid in one row of strides: q is copied. */
    v.q = !fresh && (!grouped || z->kv_heads == 1);
    v.k = !fresh;
    return v;
}

static void keep_qkv(orr_builder *b, views *v, uint16_t module, uint32_t dropped, uint32_t only) {
    if (!v->qkv_kept) {
        orr_keep(b, module, ORR_N_T_QKV, v->qkv_bytes, dropped, only);
    }
    v->qkv_kept = !only;
}

static void keep_head_norms(orr_builder *b, views *v) {
    const orr_sizes *z = &b->size;
    if (!b->key->layer.attention.qk_norm) {
        return;
    }
    bool separate = b->key->variant.separate_projections;
    bool q_is_view = !separate && (z->heads == z->kv_heads || z->kv_heads == 1);
    if (q_is_view) {
        keep_qkv(b, v, ORR_N_Q_LN, WHOLE, 0);
    } else {
        orr_keep(b, ORR_N_Q_LN, ORR_N_T_Q, 2 * z->n * z->heads * z->d, WHOLE, 0);
    }
    bool whole = b->key->layer.attention.qk_norm == ORR_QK_NORM_ALL; /* else statistics a head */
    uint64_t q_rows = z->n * (whole ? 1 : z->heads), k_rows = z->n * (whole ? 1 : z->kv_heads);
    orr_keep(b, ORR_N_Q_LN, ORR_N_T_STATS, b->size.norm_stats * q_rows, WHOLE, 0);
    if (separate) {
        orr_keep(b, ORR_N_K_LN, ORR_N_T_K, 2 * z->n * z->kv_heads * z->d, WHOLE, 0);
    } else {
        keep_qkv(b, v, ORR_N_K_LN, WHOLE, 0);
    }
    orr_keep(b, ORR_N_K_LN, ORR_N_T_STATS, b->size.norm_stats * k_rows, WHOLE, 0);
}

/* Bytes of q, k or v as the core's backward needs them: 8 bits with one scale; with scales of 32
 * elements, once by rows and once by columns. */
static uint64_t core_bytes(const orr_builder *b, uint64_t elements) {
    if (!orr_low_attention(b, true)) {
        return 2 * elements;
    }
    return b->gemm_dtype == ORR_MXFP8 ? 2 * orr_low_bytes(b, elements) : elements;
}

/* Fused attention copies q, k, v to its own layout and keeps the logarithms of row sums. */
static void keep_fused(orr_builder *b) {
    const orr_sizes *z = &b->size;
    bool latent = b->key->layer.attention.kind == ORR_ATTENTION_MLA;
    uint32_t up = latent ? UP : 0, kv_heads = (uint32_t)(latent ? z->heads : z->kv_heads);
    orr_keep(b, ORR_N_CORE, ORR_N_T_Q, core_bytes(b, z->n * z->heads * z->d), LAYER | up, 0);
    orr_keep(b, ORR_N_CORE, ORR_N_T_K, core_bytes(b, z->n * kv_heads * z->d), WHOLE | up, 0);
    orr_keep(b, ORR_N_CORE, ORR_N_T_V, core_bytes(b, z->n * kv_heads * z->dv), LAYER | up, 0);
    if (b->key->variant.qkv_copy) {
        uint64_t widths = z->heads * z->d + z->kv_heads * (z->d + z->dv);
        orr_keep(b, ORR_N_CORE, ORR_N_T_COPY, 2 * z->n * widths, WHOLE, 0);
    }
    /* 8-bit outputs are kept as they are with delayed scales; else the kernel writes 16 bits */
    bool delayed = orr_low_attention(b, true) && b->key->numeric.precision == ORR_PRECISION_FP8;
    orr_keep(b, ORR_N_CORE, ORR_N_T_OUT, (delayed ? 1 : 2) * z->n * z->heads * z->dv, LAYER | CORE,
             0);
    if (b->key->split.cp > 1 && b->key->split.cp_kind == ORR_CP_A2A) {
        orr_keep(b, ORR_N_CORE, ORR_N_T_COPY, 2 * z->n * z->heads * z->dv, WHOLE | CORE, 0);
    }
    orr_keep(b, ORR_N_CORE, ORR_N_T_LSE, 4 * z->n * z->heads, LAYER | CORE, 0);
}

static void keep_probabilities(orr_builder *b) {
    uint64_t scores = b->size.scores;
    bool dropout = b->key->variant.attention_dropout;
    uint8_t kernel = b->key->variant.attention;
    bool separate = kernel == ORR_KERNEL_EAGER_FP32;
    if (kernel != ORR_KERNEL_UNFUSED) {
        orr_keep(b, ORR_N_CORE, ORR_N_T_SCALE, 8, WHOLE | CORE, 0);
    }
    if (separate) {
        orr_keep(b, ORR_N_CORE, ORR_N_T_PROBS32, 4 * scores, WHOLE | CORE, 0);
    }
    /* the softmax keeps its output, the product its operand: one storage without dropout */
    if (!separate || !dropout) {
        orr_keep(b, ORR_N_CORE, ORR_N_T_PROBS, 2 * scores, WHOLE | CORE, 0);
    }
    if (dropout) {
        orr_keep(b, ORR_N_CORE, ORR_N_T_MASK, scores, WHOLE | CORE, 0);
        orr_keep(b, ORR_N_CORE, ORR_N_T_DROPPED, 2 * scores, WHOLE | CORE, 0);
    }
}

/* q, k, v as operands of batched products: grouped keys and values are repeated to all heads, by an
 * index each. A checkpoint around the core keeps them as they were before. */
static void keep_operands(orr_builder *b, views v) {
    const orr_attention *a = &b->key->layer.attention;
    const orr_sizes *z = &b->size;
    bool latent = a->kind == ORR_ATTENTION_MLA;
    bool repeated = !latent && z->heads != z->kv_heads;
    uint64_t q = 2 * z->n * z->heads * z->d, k = 2 * z->n * z->kv_heads * z->d;
    uint64_t heads_k = 2 * z->n * z->heads * z->d, heads_v = 2 * z->n * z->heads * z->dv;
    if (latent) {
        orr_keep(b, ORR_N_CORE, ORR_N_T_Q, q, WHOLE | UP, 0);
        orr_keep(b, ORR_N_CORE, ORR_N_T_K, heads_k, WHOLE | UP, 0);
        orr_keep(b, ORR_N_CORE, ORR_N_T_V, heads_v, WHOLE | UP, 0);
        return;
    }
    bool q_view = v.q && !(repeated && b->key->mbs > 1); /* one more reshape, over the batch */
    views checkpointed = v;
    if (!q_view) {
        orr_keep(b, ORR_N_CORE, ORR_N_T_Q, q, WHOLE | (v.q ? CORE : 0), 0);
    }
    if (!v.k && !repeated) {
        orr_keep(b, ORR_N_CORE, ORR_N_T_K, k, WHOLE, 0);
    }
    if (repeated) {
        orr_keep(b, ORR_N_CORE, ORR_N_T_INDEX, 2 * 8 * z->heads, WHOLE | CORE, 0);
        orr_keep(b, ORR_N_CORE, ORR_N_T_K, heads_k, WHOLE | CORE, 0);
        orr_keep(b, ORR_N_CORE, ORR_N_T_V, heads_v, WHOLE | CORE, 0);
        if (!v.k) {
            orr_keep(b, ORR_N_CORE, ORR_N_T_K, k, WHOLE, CORE);
        }
        if (q_view) {
            keep_qkv(b, &v, ORR_N_CORE, WHOLE, 0);
        } else {
            keep_qkv(b, &checkpointed, ORR_N_CORE, WHOLE, CORE);
        }
    } else { /* v is a view */
        keep_qkv(b, &v, ORR_N_CORE, WHOLE, 0);
    }
}

static void keep_core(orr_builder *b, views v) {
    const orr_sizes *z = &b->size;
    uint64_t out = z->n * z->heads * z->dv;
    bool fused = b->key->variant.attention == ORR_KERNEL_FLASH;
    if (fused) {
        keep_fused(b);
    } else {
        keep_operands(b, v);
        keep_probabilities(b);
    }
    if (b->frozen && !orr_adapts(b, ORR_LORA_O)) {
        return;
    }
    if (b->low && !b->frozen) {
        orr_keep_input(b, ORR_N_PROJ, out, WHOLE);
    } else { /* the core's own output, unless that was not kept */
        orr_keep(b, ORR_N_PROJ, ORR_N_T_INPUT, 2 * out, WHOLE, fused ? CORE : 0);
    }
}

static void keep_grouped(orr_builder *b) {
    const orr_sizes *z = &b->size;
    views v = views_of(b);
    orr_keep_linear_input(b, ORR_N_QKV, z->sharded * z->h, WHOLE | NORM,
                          ORR_LORA_ATTENTION_IN | (b->one_norm ? ORR_LORA_MLP_IN : 0));
    keep_head_norms(b, &v);
    keep_core(b, v);
    if (b->key->layer.attention.output_gate) { /* both factors; the product is proj's input */
        orr_keep(b, ORR_N_GATE, ORR_N_T_GATED, 4 * z->n * z->heads * z->dv, WHOLE, 0);
    }
}

static void keep_latent(orr_builder *b) {
    const orr_attention *a = &b->key->layer.attention;
    const orr_sizes *z = &b->size;
    uint64_t input = z->sharded * z->h, q = z->sharded * a->q_lora, kv = z->sharded * a->kv_lora;
    /* both down projections read one tensor; quantised, each keeps its own copy */
    const uint32_t q_target = ORR_LORA_Q | ORR_LORA_QKV;
    const uint32_t kv_target = ORR_LORA_K | ORR_LORA_V | ORR_LORA_QKV;
    if (b->frozen) {
        orr_keep_linear_input(b, ORR_N_KV_DOWN, input, WHOLE | NORM, q_target | kv_target);
    } else if (a->q_lora) {
        orr_keep_input(b, ORR_N_Q_DOWN, input, WHOLE | NORM);
    }
    if (!b->frozen && (!a->q_lora || b->low)) {
        orr_keep_input(b, ORR_N_KV_DOWN, input, WHOLE | NORM);
    }
    if (!b->frozen && !a->q_lora && b->low) {
        orr_keep_input(b, ORR_N_Q_PROJ, input, WHOLE | NORM | UP);
    }
    if (a->q_lora) {
        orr_keep_norm(b, ORR_N_Q_NORM, z->sharded, a->q_lora, WHOLE | UP);
        orr_keep_linear_input(b, ORR_N_Q_UP, q, WHOLE | UP, q_target);
        orr_keep(b, ORR_N_ATTN, ORR_N_T_LATENT, 2 * q, WHOLE, UP);
    }
    orr_keep_norm(b, ORR_N_KV_NORM, z->sharded, a->kv_lora, WHOLE | UP);
    orr_keep_linear_input(b, ORR_N_KV_UP, kv, WHOLE | UP, kv_target);
    orr_keep(b, ORR_N_ATTN, ORR_N_T_LATENT, 2 * (kv + z->sharded * a->rope_dim), WHOLE, UP);
    keep_core(b, (views){0});
}

static void keep_attention(orr_builder *b) {
    switch ((orr_attention_kind)b->key->layer.attention.kind) {
    case ORR_ATTENTION_GQA: keep_grouped(b); break;
    case ORR_ATTENTION_MLA: keep_latent(b); break;
    case ORR_ATTENTION_LINEAR: orr_keep_linear_attention(b, WHOLE, NORM); break;
    case ORR_ATTENTION_NONE: break;
    }
}

/* Input of the activation and its output, which the down projection reads. */
static void keep_activation(orr_builder *b, uint16_t act, uint16_t fc2, uint64_t tokens,
                            uint64_t width, uint32_t dropped, uint32_t output_dropped) {
    const orr_mlp *mlp = &b->key->layer.mlp;
    uint64_t elements = tokens * width;
    /* only fused gated activations can keep it in fp8 */
    uint64_t unit = b->key->variant.activation_fp8 && mlp->gated ? 1 : 2;
    orr_keep(b, act, ORR_N_T_GATED, unit * (mlp->gated ? 2 : 1) * elements, dropped, 0);
    if (mlp->gated && !b->key->variant.fused_activation) {
        orr_keep(b, act, ORR_N_T_SILU, 2 * elements, dropped, 0);
    }
    orr_keep_linear_input(b, fc2, elements, dropped | output_dropped, ORR_LORA_DOWN);
}

static void keep_mlp(orr_builder *b) {
    const orr_sizes *z = &b->size;
    if (z->ffn == 0) {
        return;
    }
    if (!b->one_norm || (b->low && !b->frozen)) { /* else attention has it */
        orr_keep_linear_input(b, ORR_N_FC1, z->sharded * z->h, WHOLE | NORM | MLP, ORR_LORA_MLP_IN);
    }
    keep_activation(b, ORR_N_ACT, ORR_N_FC2, z->n, z->ffn, WHOLE | MLP, 0);
}

static void keep_router(orr_builder *b) {
    const orr_mlp *mlp = &b->key->layer.mlp;
    uint64_t tokens = b->size.sharded, experts = mlp->experts, topk = mlp->topk;
    uint32_t dropped = WHOLE | MOE;
    uint16_t module = ORR_N_ROUTER;
    if (!b->frozen || (mlp->shared_ffn > 0 && orr_adapts(b, ORR_LORA_MLP_IN))) {
        orr_keep(b, module, ORR_N_T_INPUT, 2 * tokens * b->size.h, dropped | NORM, 0);
    }
    orr_keep(b, module, ORR_N_T_INDEX, 8 * tokens * topk, dropped, 0);
    switch ((orr_router_kind)mlp->router) {
    case ORR_ROUTER_SOFTMAX_AFTER:
        orr_keep(b, module, ORR_N_T_SCORES, 4 * tokens * topk, dropped, 0);
        break;
    case ORR_ROUTER_SOFTMAX_BEFORE:
        orr_keep(b, module, ORR_N_T_SCORES, 4 * tokens * experts, dropped, 0);
        break;
    case ORR_ROUTER_SIGMOID:
        orr_keep(b, module, ORR_N_T_SCORES, 4 * tokens * experts, dropped, 0);
        orr_keep(b, module, ORR_N_T_NORMALISER, 4 * tokens * topk + 4 * tokens, dropped, 0);
        break;
    }
    if (mlp->aux_loss) { /* probabilities of all experts, tokens an expert, a scalar */
        orr_keep(b, module, ORR_N_T_AUX, 4 * tokens * experts + 4 * experts + 8, dropped, 0);
    }
}

static void keep_moe(orr_builder *b) {
    const orr_mlp *mlp = &b->key->layer.mlp;
    const orr_variant *variant = &b->key->variant;
    const orr_sizes *z = &b->size;
    uint32_t dropped = WHOLE | MOE;
    keep_router(b);
    if (variant->fused_permute) {
        uint64_t columns = 2 * (uint64_t)mlp->experts + 1;
        orr_keep(b, ORR_N_DISPATCH, ORR_N_T_ROW_MAP, 4 * z->sharded * columns, dropped, 0);
    } else {
        orr_keep(b, ORR_N_DISPATCH, ORR_N_T_INDEX, 16 * z->slots, dropped, 0);
    }
    if (z->expert_h != z->h && !b->frozen) {
        if (b->low) { /* else the router has it */
            orr_keep_input(b, ORR_N_LATENT_DOWN, z->sharded * z->h, dropped);
        }
        orr_keep_input(b, ORR_N_LATENT_UP, z->sharded * z->expert_h, dropped);
    }
    orr_keep_linear_input(b, ORR_N_EXPERT_FC1, z->slots * z->expert_h, dropped, ORR_LORA_MLP_IN);
    orr_keep(b, ORR_N_EXPERT_ACT, ORR_N_T_PROBS32, 4 * z->slots, dropped, 0);
    keep_activation(b, ORR_N_EXPERT_ACT, ORR_N_EXPERT_FC2, z->slots, z->expert_ffn, dropped,
                    MOE_ACT);
    /* Weighted after fc2: its output and 16-bit weights. Fused dispatch weights on its own. */
    if (!variant->probs_in_activation && variant->dispatch < ORR_DISPATCH_DEEPEP) {
        orr_keep(b, ORR_N_COMBINE, ORR_N_T_ROWS, 2 * z->slots * z->expert_h + 2 * z->slots, dropped,
                 0);
    }
    if (z->shared_ffn > 0) {
        if (b->low && !b->frozen) {
            orr_keep_input(b, ORR_N_SHARED_FC1, z->sharded * z->h, dropped | SHARED);
        }
        keep_activation(b, ORR_N_SHARED_ACT, ORR_N_SHARED_FC2, z->n, z->shared_ffn,
                        dropped | SHARED, 0);
        if (mlp->shared_gate) { /* the shared output that the gate scales */
            orr_keep(b, ORR_N_SHARED_GATE, ORR_N_T_OUT, 2 * z->sharded * (z->h + 1),
                     dropped | SHARED, 0);
        }
    }
}

/* Per-operator checkpointing keeps the output of every second product besides q, v, the attention
 * output and its row sums, which are in their modules (torchtitan, activation_checkpoint.py). */
static void keep_sac(orr_builder *b) {
    const orr_sizes *z = &b->size;
    orr_keep(b, ORR_N_FC1, ORR_N_T_W1, 2 * z->n * z->ffn, LAYER, SAC);
    if (!b->key->variant.fused_activation) { /* a compiler drops what nobody reads */
        orr_keep(b, ORR_N_FC2, ORR_N_T_W2, 2 * z->sharded * z->h, LAYER, SAC);
    }
}

static void keep_dropout(orr_builder *b, uint16_t module, uint32_t dropped) {
    if (b->key->variant.hidden_dropout) {
        orr_keep(b, module, ORR_N_T_MASK, b->size.sharded * b->size.h, dropped, 0);
    }
}

/* In a parallel block it reads what the first norm keeps already. */
static void keep_second_norm(orr_builder *b, uint32_t dropped) {
    bool shares = b->key->layer.parallel_block && (b->key->variant.fused_norm || b->layer_norm);
    uint64_t stats = b->key->variant.fused_norm ? b->size.norm_stats : 4;
    if (shares) {
        orr_keep(b, ORR_N_LN2, ORR_N_T_STATS, stats * b->size.sharded, dropped, 0);
    } else {
        orr_keep_norm(b, ORR_N_LN2, b->size.sharded, b->size.h, dropped);
    }
}

void orr_keep_layer(orr_builder *b) {
    const orr_layer *layer = &b->key->layer;
    uint64_t tokens = b->size.sharded, h = b->size.h;
    bool experts = layer->mlp.experts > 0;
    bool feeds = experts || b->size.ffn > 0;
    uint32_t second = experts ? 0 : MLP; /* the second norm is inside an MLP's checkpoint */
    orr_keep(b, ORR_N_NONE, ORR_N_T_STREAM, 2 * tokens * h, 0, WHOLE);
    orr_keep_norm(b, ORR_N_LN1, tokens, h, WHOLE);
    keep_attention(b);
    if (layer->norms == 4) {
        orr_keep_norm(b, ORR_N_POST_ATTN_NORM, tokens, h, WHOLE);
    }
    keep_dropout(b, ORR_N_BDA1, WHOLE);
    if (feeds && !experts && !layer->parallel_block) { /* what the checkpoint of an MLP keeps */
        orr_keep(b, ORR_N_NONE, ORR_N_T_STREAM, 2 * tokens * h, WHOLE, MLP);
    }
    if (feeds && layer->norms >= 2) {
        keep_second_norm(b, WHOLE | second);
    }
    if (experts) {
        orr_keep(b, ORR_N_NONE, ORR_N_T_INPUT, 2 * tokens * h, WHOLE | NORM, MOE);
        keep_moe(b);
    } else {
        keep_mlp(b);
    }
    if (layer->norms == 4 && feeds) {
        orr_keep_norm(b, ORR_N_POST_MLP_NORM, tokens, h, WHOLE | second);
    }
    if (feeds) {
        keep_dropout(b, ORR_N_BDA2, WHOLE);
    }
    keep_sac(b);
}

void orr_keep_loss(orr_builder *b) {
    const orr_variant *variant = &b->key->variant;
    uint64_t n = b->size.n, v = variant->loss_gathered ? b->key->vocab : b->size.vocab;
    uint16_t module = ORR_N_LOSS;
    b->loss_first = b->saved_count;
    switch ((orr_loss_kernel)variant->loss) {
    case ORR_LOSS_NATIVE: /* softmax; a flag and a target a token */
        orr_keep(b, module, ORR_N_T_SOFTMAX, 4 * n * v, 0, 0);
        orr_keep(b, module, ORR_N_T_TARGETS, 9 * n, 0, 0);
        break;
    case ORR_LOSS_TE: orr_keep(b, module, ORR_N_T_GRADIENT, 2 * n * v, 0, 0); break;
    case ORR_LOSS_FUSED: /* gradients of its input and weight, made in the forward */
        orr_keep(b, module, ORR_N_T_GRADIENT,
                 2 * n * b->size.h + (b->frozen ? 0 : 2 * v * b->size.h), 0, 0);
        break;
    case ORR_LOSS_EAGER:
        orr_keep(b, module, ORR_N_T_SOFTMAX, 4 * n * v, 0, 0);
        orr_keep(b, module, ORR_N_T_TARGETS, 8 * n + 4, 0, 0);
        break;
    case ORR_LOSS_EAGER_BF16:
        orr_keep(b, module, ORR_N_T_SOFTMAX, 2 * n * v, 0, 0);
        orr_keep(b, module, ORR_N_T_TARGETS, 8 * n + 2, 0, 0);
        break;
    }
}
