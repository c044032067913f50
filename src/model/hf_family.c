#include "model/hf_family.h"

#include "base/err.h"
#include "base/text.h"

#define LLAMA ORR_HF_GATED
#define BIASED ORR_HF_BIAS_QKV | ORR_HF_BIAS_OUT | ORR_HF_BIAS_MLP
#define LN .norm = ORR_NORM_LAYER
#define GELU .activation = ORR_ACT_GELU
#define LEARNED .position = ORR_POSITION_LEARNED
#define ALIBI .position = ORR_POSITION_ALIBI
#define BEFORE .router = ORR_ROUTER_SOFTMAX_BEFORE
#define SIGMOID .router = ORR_ROUTER_SIGMOID

/* Sorted by nothing but kinship; a linear search is a microsecond. */
static const orr_hf_family families[] = {
    /* Llama and its kin */
    {.type = "llama", .flags = LLAMA},
    {.type = "mistral", .flags = LLAMA | ORR_HF_WINDOWED},
    {.type = "ministral", .flags = LLAMA | ORR_HF_WINDOWED},
    {.type = "ministral3", .flags = LLAMA | ORR_HF_WINDOWED},
    {.type = "yi", .flags = LLAMA},
    {.type = "aquila", .flags = LLAMA},
    {.type = "internlm", .flags = LLAMA},
    {.type = "internlm2", .flags = LLAMA},
    {.type = "internlm3", .flags = LLAMA},
    {.type = "baichuan", .flags = LLAMA},
    {.type = "exaone", .flags = LLAMA},
    {.type = "exaone4", .flags = LLAMA | ORR_HF_QK_NORM},
    {.type = "granite", .flags = LLAMA},
    {.type = "smollm3", .flags = LLAMA | ORR_HF_TIED},
    {.type = "seed_oss", .flags = LLAMA | ORR_HF_BIAS_QKV},
    {.type = "hunyuan_v1_dense", .flags = LLAMA | ORR_HF_QK_NORM},
    {.type = "ernie4_5", .flags = LLAMA | ORR_HF_TIED},
    {.type = "olmo", .flags = LLAMA, LN, .norm_bare = 2},
    {.type = "olmo2", .flags = LLAMA | ORR_HF_QK_NORM_ALL},
    {.type = "olmo3", .flags = LLAMA | ORR_HF_QK_NORM_ALL},
    {.type = "stablelm", .flags = LLAMA, LN},
    {.type = "orion", .flags = LLAMA, LN},
    {.type = "phi3", .flags = LLAMA | ORR_HF_WINDOWED},
    {.type = "arcee", .activation = ORR_ACT_RELU2},
    {.type = "apertus", .flags = ORR_HF_QK_NORM, .activation = ORR_ACT_RELU2},
    {.type = "nemotron", LN, .activation = ORR_ACT_RELU2},
    {.type = "cohere",
     .flags = LLAMA | ORR_HF_QK_PER_HEAD | ORR_HF_PARALLEL | ORR_HF_NORMS_1 | ORR_HF_TIED,
     LN,
     .norm_bare = 1},
    {.type = "cohere2",
     .flags = LLAMA | ORR_HF_QK_PER_HEAD | ORR_HF_PARALLEL | ORR_HF_NORMS_1 | ORR_HF_TIED,
     LN,
     .norm_bare = 1,
     .window_every = 4},
    {.type = "chatglm", .flags = LLAMA | ORR_HF_BIAS_QKV},
    {.type = "glm", .flags = LLAMA | ORR_HF_BIAS_QKV | ORR_HF_OUT_NO_BIAS},
    {.type = "glm4", .flags = LLAMA | ORR_HF_BIAS_QKV | ORR_HF_OUT_NO_BIAS | ORR_HF_NORMS_4},
    /* Qwen */
    {.type = "qwen", .flags = LLAMA | ORR_HF_BIAS_QKV | ORR_HF_HALF_FFN},
    {.type = "qwen2", .flags = LLAMA | ORR_HF_BIAS_QKV},
    {.type = "qwen2_moe", .flags = LLAMA | ORR_HF_BIAS_QKV | ORR_HF_SHARED_GATE, BEFORE},
    {.type = "qwen3", .flags = LLAMA | ORR_HF_QK_NORM},
    {.type = "qwen3_moe", .flags = LLAMA | ORR_HF_QK_NORM, BEFORE},
    {.type = "qwen3_next",
     .flags = LLAMA | ORR_HF_QK_NORM | ORR_HF_SHARED_GATE | ORR_HF_OUTPUT_GATE,
     BEFORE},
    /* Gemma */
    {.type = "gemma", .flags = LLAMA | ORR_HF_TIED, GELU},
    {.type = "gemma2", .flags = LLAMA | ORR_HF_TIED | ORR_HF_NORMS_4, GELU, .window_every = 2},
    {.type = "gemma3_text",
     .flags = LLAMA | ORR_HF_TIED | ORR_HF_NORMS_4 | ORR_HF_QK_NORM,
     GELU,
     .window_every = 6},
    {.type = "gemma3",
     .flags = LLAMA | ORR_HF_TIED | ORR_HF_NORMS_4 | ORR_HF_QK_NORM,
     GELU,
     .window_every = 6},
    /* mixtures of experts */
    {.type = "mixtral", .flags = LLAMA | ORR_HF_WINDOWED},
    {.type = "phimoe", .flags = LLAMA | ORR_HF_BIAS_QKV | ORR_HF_BIAS_OUT, LN},
    {.type = "granitemoe", .flags = LLAMA | ORR_HF_TIED},
    {.type = "granitemoeshared", .flags = LLAMA | ORR_HF_TIED},
    {.type = "olmoe", .flags = LLAMA | ORR_HF_QK_NORM_ALL, BEFORE},
    {.type = "dbrx", .flags = LLAMA, LN, .norm_bare = 1, BEFORE},
    {.type = "grok-1", .flags = LLAMA | ORR_HF_NORMS_4, GELU, BEFORE},
    {.type = "gpt_oss", .flags = LLAMA | BIASED | ORR_HF_SINKS, .window_every = 2},
    {.type = "llama4", .flags = LLAMA | ORR_HF_QK_BARE | ORR_HF_SHARED_ONE, SIGMOID},
    {.type = "llama4_text", .flags = LLAMA | ORR_HF_QK_BARE | ORR_HF_SHARED_ONE, SIGMOID},
    {.type = "deepseek", .flags = LLAMA, BEFORE},
    {.type = "deepseek_v2", .flags = LLAMA, BEFORE},
    {.type = "deepseek_v3", .flags = LLAMA | ORR_HF_ROUTER_BIAS, SIGMOID},
    {.type = "deepseek_v32", .flags = LLAMA | ORR_HF_ROUTER_BIAS, SIGMOID},
    {.type = "kimi_k2", .flags = LLAMA | ORR_HF_ROUTER_BIAS, SIGMOID},
    {.type = "glm4_moe", .flags = LLAMA | ORR_HF_OUT_NO_BIAS | ORR_HF_ROUTER_BIAS, SIGMOID},
    {.type = "dots1", .flags = LLAMA | ORR_HF_QK_NORM | ORR_HF_ROUTER_BIAS, SIGMOID},
    {.type = "ernie4_5_moe", .flags = LLAMA | ORR_HF_TIED | ORR_HF_ROUTER_BIAS, BEFORE},
    {.type = "hunyuan_v1_moe", .flags = LLAMA | ORR_HF_QK_NORM, BEFORE},
    {.type = "minimax", .flags = LLAMA},
    {.type = "minimax_text_01", .flags = LLAMA},
    {.type = "minimax_m2", .flags = LLAMA | ORR_HF_QK_NORM_ALL | ORR_HF_ROUTER_BIAS, SIGMOID},
    {.type = "skywork_moe", .flags = LLAMA, .topk = 2},
    /* GPT and its kin */
    {.type = "gpt2", .flags = BIASED | ORR_HF_TIED | ORR_HF_FFN_4H, LN, GELU, LEARNED},
    {.type = "gpt_neo",
     .flags = ORR_HF_BIAS_OUT | ORR_HF_BIAS_MLP | ORR_HF_TIED | ORR_HF_FFN_4H,
     LN,
     GELU,
     LEARNED},
    {.type = "gptj",
     .flags = ORR_HF_BIAS_MLP | ORR_HF_PARALLEL | ORR_HF_NORMS_1 | ORR_HF_FFN_4H | ORR_HF_HEAD_BIAS,
     LN,
     GELU},
    {.type = "gpt_neox", .flags = BIASED | ORR_HF_PARALLEL, LN, GELU},
    {.type = "gpt_bigcode", .flags = BIASED | ORR_HF_TIED | ORR_HF_FFN_4H, LN, GELU, LEARNED},
    {.type = "starcoder2", .flags = BIASED | ORR_HF_TIED | ORR_HF_WINDOWED, LN, GELU},
    {.type = "opt",
     .flags = BIASED | ORR_HF_TIED,
     LN,
     .activation = ORR_ACT_RELU,
     LEARNED,
     .extra_positions = 2},
    {.type = "bloom",
     .flags = BIASED | ORR_HF_TIED | ORR_HF_FFN_4H | ORR_HF_EMBED_NORM,
     LN,
     GELU,
     ALIBI},
    {.type = "mpt", .flags = ORR_HF_TIED | ORR_HF_FFN_4H, LN, .norm_bare = 1, GELU, ALIBI},
    {.type = "falcon",
     .flags = ORR_HF_PARALLEL | ORR_HF_NORMS_1 | ORR_HF_TIED | ORR_HF_FFN_4H,
     LN,
     GELU},
    {.type = "phi",
     .flags = BIASED | ORR_HF_PARALLEL | ORR_HF_NORMS_1 | ORR_HF_HEAD_BIAS,
     LN,
     GELU},
    {.type = "persimmon", .flags = BIASED | ORR_HF_QK_NORM, LN, .activation = ORR_ACT_RELU2},
    /* encoders */
    {.type = "bert",
     .flags = BIASED | ORR_HF_TIED | ORR_HF_EMBED_NORM | ORR_HF_HEAD_BIAS | ORR_HF_ENCODER,
     LN,
     GELU,
     LEARNED,
     .token_types = 2},
    {.type = "roberta",
     .flags = BIASED | ORR_HF_TIED | ORR_HF_EMBED_NORM | ORR_HF_HEAD_BIAS | ORR_HF_ENCODER,
     LN,
     GELU,
     LEARNED,
     .token_types = 1},
    {.type = "xlm-roberta",
     .flags = BIASED | ORR_HF_TIED | ORR_HF_EMBED_NORM | ORR_HF_HEAD_BIAS | ORR_HF_ENCODER,
     LN,
     GELU,
     LEARNED,
     .token_types = 1},
    /* hybrids with linear attention or state spaces: approximate */
    {.type = "nemotron_h",
     .flags = ORR_HF_ROUTER_BIAS,
     .activation = ORR_ACT_RELU2,
     .position = ORR_POSITION_NONE,
     SIGMOID},
    {.type = "mamba2", .flags = ORR_HF_TIED | ORR_HF_MIXERS, .position = ORR_POSITION_NONE},
    {.type = "granitemoehybrid", .flags = LLAMA | ORR_HF_TIED, .position = ORR_POSITION_NONE},
};
enum { FAMILIES = sizeof families / sizeof *families };

const orr_hf_family *orr_hf_family_find(const char *type, orr_span span, orr_err *err) {
    const char *names[FAMILIES];
    for (size_t i = 0; i < FAMILIES; i++) {
        if (orr_name_equal(families[i].type, type)) {
            return &families[i];
        }
        names[i] = families[i].type;
    }
    (void)orr_fail_at(err, ORR_E_NAME, span, "unknown model_type \"%.80s\"", type);
    int nearest = orr_name_nearest(type, names, FAMILIES);
    if (nearest >= 0) {
        orr_hint(err, "did you mean \"%s\"? An own model card can describe any decoder",
                 names[nearest]);
    } else {
        orr_hint(err, "an own model card (docs/model-card.md) can describe any decoder");
    }
    return NULL;
}
