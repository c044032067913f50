/* What a Hugging Face model_type means beyond the keys of its config.json: defaults of the classes
 * in transformers, read in their configuration and modelling code. */
#ifndef ORR_MODEL_HF_FAMILY_H
#define ORR_MODEL_HF_FAMILY_H

#include "model/model_int.h"

typedef enum orr_hf_flag {
    ORR_HF_GATED = 1 << 0,
    ORR_HF_TIED = 1 << 1,     /* tie_word_embeddings when not stated */
    ORR_HF_BIAS_QKV = 1 << 2, /* bias where no key says otherwise */
    ORR_HF_BIAS_OUT = 1 << 3,
    ORR_HF_BIAS_MLP = 1 << 4,
    ORR_HF_OUT_NO_BIAS = 1 << 5, /* attention_bias does not cover the output projection */
    ORR_HF_QK_NORM = 1 << 6,     /* per head */
    ORR_HF_QK_NORM_ALL = 1 << 7, /* over the whole width */
    ORR_HF_NORMS_4 = 1 << 8,     /* norms after attention and MLP too */
    ORR_HF_PARALLEL = 1 << 9,    /* attention and MLP side by side */
    ORR_HF_NORMS_1 = 1 << 10,    /* and one norm for both */
    ORR_HF_EMBED_NORM = 1 << 11,
    ORR_HF_HEAD_BIAS = 1 << 12,
    ORR_HF_SHARED_GATE = 1 << 13,
    ORR_HF_SINKS = 1 << 14,
    ORR_HF_OUTPUT_GATE = 1 << 15,
    ORR_HF_ENCODER = 1 << 16,
    ORR_HF_FFN_4H = 1 << 17,      /* MLP width 4 x hidden when not stated */
    ORR_HF_SHARED_ONE = 1 << 18,  /* one shared expert beside the routed ones (Llama 4) */
    ORR_HF_HALF_FFN = 1 << 19,    /* intermediate_size counts gate and up together */
    ORR_HF_WINDOWED = 1 << 20,    /* sliding_window alone switches every layer */
    ORR_HF_ROUTER_BIAS = 1 << 21, /* aux-loss-free */
    ORR_HF_MIXERS = 1 << 22,      /* state-space mixers and nothing else */
    ORR_HF_QK_PER_HEAD = 1 << 23, /* a norm that is asked for has weights of its own in each head */
    ORR_HF_QK_BARE = 1 << 24      /* a norm that is asked for has no parameters: not counted */
} orr_hf_flag;

typedef struct orr_hf_family {
    const char *type; /* model_type */
    uint32_t flags;
    uint8_t norm, norm_bare; /* orr_norm_kind */
    uint8_t activation;      /* when not stated */
    uint8_t position;        /* orr_position_kind */
    uint8_t router;          /* orr_router_kind */
    uint8_t window_every;    /* every n-th layer sees everything, the others a window; 0: none */
    uint8_t extra_positions; /* rows of the position table beyond the stated */
    uint8_t token_types;
    uint8_t topk; /* experts of a token when not stated; 0: they must be */
} orr_hf_family;

/* NULL for an unknown type; then err names the nearest. */
const orr_hf_family *orr_hf_family_find(const char *type, orr_span span, orr_err *err);

#endif
