/* Names of ops, modules and tensors: one table, indexed by orr_op.name and orr_saved. */
#ifndef ORR_PROGRAM_NAMES_INT_H
#define ORR_PROGRAM_NAMES_INT_H

/* clang-format off */
#define ORR_NAMES(X)                                                                               \
    X(NONE, "")                                                                                    \
    /* modules; also names of the ops in them */                                                   \
    X(LN1, "ln1") X(LN2, "ln2") X(POST_ATTN_NORM, "post_attn_norm")                                \
    X(POST_MLP_NORM, "post_mlp_norm")                                                              \
    X(ATTN, "attn") X(QKV, "attn.qkv") X(Q_LN, "attn.q_ln") X(K_LN, "attn.k_ln")                   \
    X(ROPE, "attn.rope") X(CORE, "attn.core") X(PROJ, "attn.proj") X(GATE, "attn.gate")            \
    X(Q_DOWN, "attn.q_down") X(Q_NORM, "attn.q_norm") X(Q_UP, "attn.q_up")                         \
    X(Q_PROJ, "attn.q_proj") X(KV_DOWN, "attn.kv_down") X(KV_NORM, "attn.kv_norm")                 \
    X(KV_UP, "attn.kv_up") X(ASSEMBLE, "attn.assemble") X(SCAN, "attn.scan") X(CONV, "attn.conv")  \
    X(BDA1, "bda1") X(BDA2, "bda2")                                                                \
    X(FC1, "mlp.fc1") X(ACT, "mlp.act") X(FC2, "mlp.fc2")                                          \
    X(ROUTER, "moe.router") X(DISPATCH, "moe.dispatch") X(COMBINE, "moe.combine")                  \
    X(EXPERT_FC1, "moe.experts.fc1") X(EXPERT_ACT, "moe.experts.act")                              \
    X(EXPERT_FC2, "moe.experts.fc2")                                                               \
    X(LATENT_DOWN, "moe.latent_down") X(LATENT_UP, "moe.latent_up")                                \
    X(SHARED_FC1, "moe.shared.fc1") X(SHARED_ACT, "moe.shared.act")                                \
    X(SHARED_FC2, "moe.shared.fc2") X(SHARED_GATE, "moe.shared.gate")                              \
    X(EMBEDDING, "embedding") X(POSITION, "embedding.position") X(EMBEDDING_NORM, "embedding.norm")\
    X(EMBEDDING_DROPOUT, "emb_dropout")                                                            \
    X(FINAL_NORM, "final_norm") X(OUTPUT, "output") X(LOSS, "loss")                                \
    X(TOKEN_TYPE, "embedding.token_type") X(TRANSFORM, "output.transform")                          \
    X(MTP_ENORM, "mtp.enorm") X(MTP_HNORM, "mtp.hnorm") X(MTP_PROJ, "mtp.eh_proj")                 \
    /* ops only */                                                                                 \
    X(SCORES, "attn.core.scores") X(CONTEXT, "attn.core.context") X(SOFTMAX, "attn.core.softmax")  \
    X(CP_EXCHANGE, "attn.core.cp") X(SCAN_STATE, "attn.scan.state")                                \
    X(PERMUTE, "moe.dispatch.permute") X(SORT, "moe.dispatch.sort")                                \
    X(UNSORT, "moe.combine.sort") X(UNPERMUTE, "moe.combine.unpermute")                            \
    X(EXPERT_TP, "moe.experts.tp") X(EXPERT_BIAS, "moe.experts.bias")                                                                 \
    X(LORA, "lora") X(FSDP_DENSE, "fsdp.dense") X(FSDP_EXPERT, "fsdp.experts")                                     \
    /* tensors */                                                                                  \
    X(T_INPUT, "input") X(T_INPUT_LOW, "input (low precision)") X(T_STATS, "statistics")           \
    X(T_STREAM, "residual stream") X(T_X32, "fp32 input") X(T_SQUARE, "fp32 square")               \
    X(T_NORMALISED, "normalised") X(T_QKV, "qkv") X(T_Q, "q") X(T_K, "k") X(T_V, "v")              \
    X(T_OUT, "out") X(T_LSE, "log-sum-exp") X(T_COPY, "contiguous copy")                           \
    X(T_PROBS, "probabilities") X(T_PROBS32, "fp32 probabilities")                                 \
    X(T_DROPPED, "dropped probabilities") X(T_MASK, "mask") X(T_INDEX, "indices")                  \
    X(T_SCALE, "scale") X(T_GATED, "activation input") X(T_SILU, "activated gate")                 \
    X(T_LATENT, "latent") X(T_SCORES, "router scores") X(T_NORMALISER, "normaliser")               \
    X(T_AUX, "auxiliary loss") X(T_ROW_MAP, "row map") X(T_ROWS, "expert output")                  \
    X(T_IDS, "ids") X(T_LOGITS, "logits") X(T_SOFTMAX, "softmax") X(T_TARGETS, "targets")          \
    X(T_GRADIENT, "gradients") X(T_STATE, "scan state") X(T_W1, "gate projection")                 \
    X(T_W2, "down projection") X(T_ADAPTER, "adapter")
/* clang-format on */

enum {
#define ORR_NAME_ENUM(id, text) ORR_N_##id,
    ORR_NAMES(ORR_NAME_ENUM)
#undef ORR_NAME_ENUM
        ORR_N_COUNT
};

#endif
