/* Model cards: what a transformer is, without any plan.
 *
 * A model is a few distinct layers and a list saying which layer stands where. Everything further
 * (parameters, ops, saved tensors) follows from a layer's description, so that a mixture of dense,
 * MoE, windowed or latent-attention layers needs no special case. Descriptions are plain
 * zero-padded data: their bytes are part of memo keys. */
#ifndef ORR_MODEL_H
#define ORR_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "orrery/status.h"
#include "orrery/tree.h"

enum {
    ORR_MAX_LAYERS = 4096,
    ORR_MAX_LAYER_KINDS = 32,
    ORR_MAX_WIDTH = 1 << 24, /* hidden, ffn, heads * head_dim ... */
    ORR_MAX_VOCAB = 1 << 26,
    ORR_MAX_EXPERTS = 1 << 16,
    ORR_MAX_SEQ = 1 << 27
};

typedef enum orr_norm_kind { ORR_NORM_RMS = 0, ORR_NORM_LAYER = 1 } orr_norm_kind;
typedef enum orr_activation {
    ORR_ACT_SILU = 0,
    ORR_ACT_GELU = 1,
    ORR_ACT_RELU = 2,
    ORR_ACT_RELU2 = 3
} orr_activation;
typedef enum orr_attention_kind {
    ORR_ATTENTION_GQA = 0,    /* multi-head (kv_heads = heads), grouped and multi-query */
    ORR_ATTENTION_MLA = 1,    /* multi-head latent attention */
    ORR_ATTENTION_LINEAR = 2, /* linear attention or state space: costs are assumed */
    ORR_ATTENTION_NONE = 3
} orr_attention_kind;
typedef enum orr_linear_kind {
    ORR_LINEAR_DELTA = 0, /* gated delta net: q, k, v, gate, two scalars a head */
    ORR_LINEAR_MAMBA2 = 1 /* Mamba-2: x, z, B, C, one scalar a head */
} orr_linear_kind;
typedef enum orr_qk_norm {
    ORR_QK_NORM_NONE = 0,
    ORR_QK_NORM_HEAD = 1, /* over a head's width, weights shared by all heads */
    ORR_QK_NORM_ALL = 2   /* over the whole width of q and of k (OLMo-2) */
} orr_qk_norm;
typedef enum orr_position_kind {
    ORR_POSITION_ROPE = 0,
    ORR_POSITION_LEARNED = 1,
    ORR_POSITION_ALIBI = 2,
    ORR_POSITION_NONE = 3
} orr_position_kind;
typedef enum orr_router_kind {
    ORR_ROUTER_SOFTMAX_AFTER = 0,  /* softmax over the chosen k (Mixtral) */
    ORR_ROUTER_SOFTMAX_BEFORE = 1, /* softmax over all experts, then top-k (Qwen) */
    ORR_ROUTER_SIGMOID = 2         /* sigmoid scores, normalised over the chosen (DeepSeek-V3) */
} orr_router_kind;

typedef struct orr_attention {
    uint8_t kind; /* orr_attention_kind */
    uint8_t causal;
    uint8_t qk_norm; /* orr_qk_norm */
    uint8_t bias_qkv, bias_out;
    uint8_t rope;
    uint8_t sinks;       /* learned attention sinks, one a head */
    uint8_t output_gate; /* elementwise gate on the attention output */
    uint8_t linear;      /* orr_linear_kind, of ORR_ATTENTION_LINEAR */
    uint8_t conv;        /* width of its depthwise convolution */
    uint8_t reserved[2];
    uint32_t heads, kv_heads;           /* linear: value heads; key heads (Mamba: groups) */
    uint32_t head_dim;                  /* of q and k; MLA: nope + rope; linear: key, state */
    uint32_t v_dim;                     /* of v and the output; head_dim unless MLA */
    uint32_t window;                    /* tokens seen; 0: all */
    uint32_t q_lora, kv_lora, rope_dim; /* MLA; q_lora 0: no query compression */
} orr_attention;

typedef struct orr_mlp {
    uint8_t activation; /* orr_activation */
    uint8_t gated;
    uint8_t bias;
    uint8_t router;      /* orr_router_kind */
    uint8_t router_bias; /* aux-loss-free expert bias: a buffer without gradient */
    uint8_t aux_loss;
    uint8_t shared_gate; /* a learned gate on the shared expert */
    uint8_t reserved;
    uint32_t ffn;           /* dense width; 0 in an MoE layer */
    uint32_t experts, topk; /* 0 experts: dense */
    uint32_t expert_ffn;
    uint32_t shared_ffn;         /* total width of the shared experts */
    uint32_t groups, group_topk; /* group-limited routing; 0: none */
    uint32_t latent;             /* routed experts work in this width; 0: hidden */
} orr_mlp;

/* One kind of transformer layer. One half may be absent (hybrid stacks): ORR_ATTENTION_NONE, or an
 * MLP with neither ffn nor experts. */
typedef struct orr_layer {
    uint32_t hidden;
    uint8_t norm;           /* orr_norm_kind */
    uint8_t norms;          /* 2; 4 with norms after attention and MLP too; 1 when both halves
                               share one or one half is absent */
    uint8_t parallel_block; /* attention and MLP read the same normalised input */
    uint8_t norm_bare;      /* LayerNorm: 1 without bias, 2 without any parameter */
    orr_attention attention;
    orr_mlp mlp;
} orr_layer;

typedef struct orr_model {
    const char *name;   /* "llama-3.1-8b" */
    const char *source; /* where the architecture was read */
    uint32_t layers;
    uint32_t hidden;
    uint32_t vocab;         /* unpadded */
    uint32_t max_seq;       /* rows of a learned position table, or informative; 0: not stated */
    uint8_t position;       /* orr_position_kind */
    uint8_t norm;           /* of the final norm */
    uint8_t tied;           /* embedding and head share one matrix */
    uint8_t embedding_norm; /* a norm after the embedding (BLOOM) */
    uint8_t head_bias;
    uint8_t encoder;     /* bidirectional, BERT-class */
    uint8_t mtp_layers;  /* multi-token-prediction depths */
    uint8_t assumed;     /* holds parts that are priced approximately (linear attention) */
    uint8_t norm_bare;   /* of the final norm, as in a layer */
    uint8_t token_types; /* rows of a token-type table (BERT) */
    uint8_t reserved[2];
    uint32_t kind_count;
    const orr_layer *kind;     /* [kind_count] distinct layers */
    const uint8_t *layer_kind; /* [layers] index into kind */
} orr_model;

/* Exact parameter counts, unpadded vocabulary, without MTP and router bias buffers. */
typedef struct orr_model_params {
    uint64_t total, active; /* active: per token, top-k experts only */
    uint64_t embedding, head, experts;
    uint64_t mtp; /* of all MTP depths, not in total */
} orr_model_params;
orr_model_params orr_model_count(const orr_model *model);
uint64_t orr_layer_params(const orr_layer *layer); /* one layer, all experts */

/* Model FLOPs a token, forward and backward (3x forward, 2 flop a multiply-add, no recompute; the
 * head's matmul counts, the embedding's look-up does not). causal: lower triangle of attention
 * only. */
double orr_model_flops_per_token(const orr_model *model, uint32_t seq, bool causal);
/* The same where the weights are frozen: they have no gradients of their own. */
double orr_model_frozen_flops_per_token(const orr_model *model, uint32_t seq, bool causal);

/* From a parsed file: a Hugging Face config.json (has "model_type" or "architectures"), or an own
 * card (docs/model-card.md). fallback_name is used when the file names none. */
orr_status orr_model_read(orr_arena *arena, const orr_tree *file, const char *fallback_name,
                          orr_model **out, orr_err *err);
/* From an entry of a models.json, such as data/validation/models.json. */
orr_status orr_model_read_measured(orr_arena *arena, const char *name, const orr_tree *entry,
                                   orr_model **out, orr_err *err);
orr_tree *orr_model_write(orr_arena *arena, const orr_model *model);

/* name: of the built-in catalog (data/models; case and separators ignored), or a path (contains '/'
 * or ends in .json, .yaml, .yml). Unknown: ORR_E_NAME with the nearest. */
orr_status orr_model_find(orr_arena *arena, const char *name, orr_model **out, orr_err *err);
/* Names of the catalog, sorted, as a list of texts. */
orr_tree *orr_model_catalog(orr_arena *arena);

#endif
