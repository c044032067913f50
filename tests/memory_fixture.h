/* Models and plans for the memory tests, built in C so that no input file can change them. */
#ifndef ORR_TESTS_MEMORY_FIXTURE_H
#define ORR_TESTS_MEMORY_FIXTURE_H

#include <string.h>

#include "memory/memory.h"

typedef struct fixture_model {
    orr_model model;
    orr_layer kind[2];
    uint8_t layer_kind[ORR_MAX_LAYERS];
} fixture_model;

static inline orr_layer fixture_dense(uint32_t hidden, uint32_t heads, uint32_t kv_heads,
                                      uint32_t ffn) {
    orr_layer layer = {.hidden = hidden, .norm = ORR_NORM_RMS, .norms = 2};
    layer.attention = (orr_attention){.kind = ORR_ATTENTION_GQA,
                                      .causal = 1,
                                      .rope = 1,
                                      .heads = heads,
                                      .kv_heads = kv_heads,
                                      .head_dim = 128,
                                      .v_dim = 128};
    layer.mlp = (orr_mlp){.activation = ORR_ACT_SILU, .gated = 1, .ffn = ffn};
    return layer;
}

static inline orr_attention fixture_latent(uint32_t heads) {
    return (orr_attention){.kind = ORR_ATTENTION_MLA,
                           .causal = 1,
                           .rope = 1,
                           .heads = heads,
                           .kv_heads = heads,
                           .head_dim = 192,
                           .v_dim = 128,
                           .q_lora = 1536,
                           .kv_lora = 512,
                           .rope_dim = 64};
}

static inline void fixture_fill(fixture_model *m, uint32_t layers, uint32_t vocab,
                                uint32_t dense_layers) {
    m->model = (orr_model){.name = "fixture",
                           .layers = layers,
                           .hidden = m->kind[0].hidden,
                           .vocab = vocab,
                           .position = ORR_POSITION_ROPE,
                           .norm = ORR_NORM_RMS,
                           .kind_count = dense_layers < layers ? 2 : 1,
                           .kind = m->kind,
                           .layer_kind = m->layer_kind};
    for (uint32_t i = 0; i < layers; i++) {
        m->layer_kind[i] = i >= dense_layers;
    }
}

static inline void fixture_llama(fixture_model *m, uint32_t layers, uint32_t hidden, uint32_t heads,
                                 uint32_t kv_heads, uint32_t ffn) {
    m->kind[0] = fixture_dense(hidden, heads, kv_heads, ffn);
    fixture_fill(m, layers, 128256, layers);
}

/* One dense layer, then experts, as the measured runs had them. */
static inline void fixture_deepseek(fixture_model *m, uint32_t layers, bool v3) {
    uint32_t hidden = v3 ? 7168 : 5120;
    m->kind[0] = fixture_dense(hidden, 128, 128, v3 ? 18432 : 12288);
    m->kind[0].attention = fixture_latent(128);
    m->kind[1] = m->kind[0];
    m->kind[1].mlp = (orr_mlp){.activation = ORR_ACT_SILU,
                               .gated = 1,
                               .router = ORR_ROUTER_SOFTMAX_BEFORE,
                               .aux_loss = 1,
                               .experts = v3 ? 256 : 160,
                               .topk = v3 ? 8 : 6,
                               .expert_ffn = v3 ? 2048 : 1536,
                               .shared_ffn = v3 ? 2048 : 3072};
    fixture_fill(m, layers, v3 ? 129280 : 102400, 1);
}

/* Fused kernels throughout, native loss. */
static inline orr_software fixture_software(void) {
    return (orr_software){.name = "fixture",
                          .variant = {.fused_norm = 1,
                                      .fused_activation = 1,
                                      .fused_rope = 1,
                                      .fused_permute = 1,
                                      .probs_in_activation = 1,
                                      .grad_fp32 = 1,
                                      .fused_grad_accumulation = 1,
                                      .dummy_wgrad = 1},
                          .gemm_workspace_bytes = 33555456,
                          .oom_slope = 30,
                          .oom_half_frac = 0.94};
}

/* Computes in every format. */
static inline orr_accelerator fixture_accelerator(double usable_bytes) {
    orr_accelerator a = {.name = "fixture",
                         .vendor = ORR_NVIDIA,
                         .arch = ORR_ARCH_BLACKWELL,
                         .usable_bytes = usable_bytes};
    for (int i = 0; i < ORR_DTYPE_COUNT; i++) {
        a.peak_flops[i] = 1e15;
    }
    return a;
}

/* A plan with its parts filled in; dp follows. */
static inline orr_plan fixture_plan(const orr_software *software, uint32_t gpus, uint32_t tp,
                                    uint32_t pp, uint32_t cp, uint32_t ep) {
    orr_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.gpus = gpus;
    plan.split = (orr_split){.tp = tp, .cp = cp, .ep = ep, .etp = 1, .sp = tp > 1};
    plan.pipe =
        (orr_pipe){.pp = pp, .vpp = 1, .schedule = ORR_SCHEDULE_1F1B, .p2p = ORR_P2P_BLOCKING};
    plan.batch = (orr_batch){.mbs = 1, .micro_batches = 8, .seq = 4096};
    plan.numeric = (orr_numeric){.param_bytes = 2,
                                 .grad_bytes = 4,
                                 .master_bytes = 4,
                                 .exp_avg_bytes = 4,
                                 .exp_avg_sq_bytes = 4};
    plan.variant = software->variant;
    plan.shard = (orr_shard){.dp = gpus / (tp * pp * cp), .kind = ORR_SHARD_ZERO1};
    plan.gbs = plan.batch.micro_batches * plan.batch.mbs * plan.shard.dp;
    return plan;
}

#endif
