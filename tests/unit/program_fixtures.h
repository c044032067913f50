/* Models and plans that the tests of program build by hand. */
#ifndef ORR_TEST_PROGRAM_FIXTURES_H
#define ORR_TEST_PROGRAM_FIXTURES_H

#include <string.h>

#include "program/program.h"

enum { FIXTURE_LAYERS = 256 };

typedef struct fixture {
    orr_layer kind[2];
    uint8_t layer_kind[FIXTURE_LAYERS];
    orr_model model;
    orr_resolved resolved;
} fixture;

static inline orr_layer fixture_layer(uint32_t hidden, uint32_t heads, uint32_t kv_heads,
                                      uint32_t ffn) {
    orr_layer layer;
    memset(&layer, 0, sizeof layer);
    layer.hidden = hidden;
    layer.norms = 2;
    layer.attention.causal = layer.attention.rope = 1;
    layer.attention.heads = heads;
    layer.attention.kv_heads = kv_heads;
    layer.attention.head_dim = layer.attention.v_dim = hidden / heads;
    layer.mlp.gated = 1;
    layer.mlp.ffn = ffn;
    return layer;
}

static inline orr_layer fixture_moe_layer(uint32_t hidden, uint32_t heads, uint32_t kv_heads,
                                          uint32_t experts, uint32_t topk, uint32_t ffn) {
    orr_layer layer = fixture_layer(hidden, heads, kv_heads, 0);
    layer.mlp.experts = experts;
    layer.mlp.topk = topk;
    layer.mlp.expert_ffn = ffn;
    return layer;
}

static inline orr_variant fixture_variant(void) {
    return (orr_variant){.fused_norm = 1,
                         .fused_activation = 1,
                         .fused_rope = 1,
                         .fused_permute = 1,
                         .probs_in_activation = 1,
                         .grad_fp32 = 1,
                         .fused_grad_accumulation = 1,
                         .dummy_wgrad = 1};
}

/* One kind of layer, untied, tp = pp = 1; change what a test needs. */
static inline void fixture_init(fixture *f, orr_layer layer, uint32_t layers, uint32_t vocab) {
    memset(f, 0, sizeof *f);
    f->kind[0] = layer;
    f->model = (orr_model){.name = "fixture",
                           .source = "a test",
                           .layers = layers,
                           .hidden = layer.hidden,
                           .vocab = vocab,
                           .norm = layer.norm,
                           .kind_count = 1,
                           .kind = f->kind,
                           .layer_kind = f->layer_kind};
    orr_plan *plan = &f->resolved.plan;
    f->resolved.model = &f->model;
    plan->gpus = 1;
    plan->split = (orr_split){.tp = 1, .cp = 1, .ep = 1, .etp = 1};
    plan->pipe = (orr_pipe){.pp = 1, .vpp = 1};
    plan->batch = (orr_batch){.mbs = 1, .micro_batches = 8, .seq = 4096};
    plan->numeric = (orr_numeric){.param_bytes = 2,
                                  .grad_bytes = 4,
                                  .master_bytes = 4,
                                  .exp_avg_bytes = 4,
                                  .exp_avg_sq_bytes = 4};
    plan->shard = (orr_shard){.dp = 1};
    plan->variant = fixture_variant();
}

#endif
