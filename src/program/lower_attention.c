/* Attention: grouped (multi-head, multi-query) and latent, fused and not, with context parallelism.
 */
#include "base/num.h"
#include "program/lower_int.h"
#include "program/unfused.h"

/* Query-key pairs that count for flops: whole matrix, lower triangle, or a band. */
static double pairs(const orr_builder *b) {
    const orr_attention *a = &b->key->layer.attention;
    double s = b->key->seq, window = a->window;
    double seen = window > 0 && window < s ? window : s;
    double all = a->causal ? seen * s - seen * seen / 2 : seen * s;
    return all * b->key->mbs / b->key->split.cp;
}

static void add_cp(orr_builder *b, orr_phase phase, orr_collective kind, uint64_t bytes,
                   uint32_t count) {
    const orr_split *split = &b->key->split;
    orr_add_comm(b, phase,
                 (orr_comm){.name = ORR_N_CP_EXCHANGE,
                            .stream = ORR_STREAM_CP,
                            .class = ORR_CLASS_CP,
                            .kind = (uint8_t)kind,
                            .bytes = bytes,
                            .size = split->cp,
                            .stride = split->tp,
                            .count = count});
}

/* Bytes of this rank's keys and values. */
static uint64_t kv_bytes(const orr_builder *b) {
    return 2 * b->size.n * b->size.kv_heads * (b->size.d + b->size.dv);
}

/* Exchange before the core. Backward ops are in forward order: they run last. */
static void cp_before(orr_builder *b) {
    const orr_split *split = &b->key->split;
    uint64_t kv = kv_bytes(b), q = 2 * b->size.n * b->size.heads * b->size.d;
    if (split->cp_kind == ORR_CP_RING) { /* gradients of keys and values travel with them */
        add_cp(b, ORR_PHASE_FORWARD, ORR_SEND_RECV, kv, split->cp - 1);
        add_cp(b, ORR_PHASE_INPUT_GRAD, ORR_SEND_RECV, 2 * kv, split->cp - 1);
    } else if (split->cp_kind == ORR_CP_ALLGATHER) {
        add_cp(b, ORR_PHASE_FORWARD, ORR_ALL_GATHER, kv * split->cp, 1);
        add_cp(b, ORR_PHASE_INPUT_GRAD, ORR_REDUCE_SCATTER, kv * split->cp, 1);
    } else {
        add_cp(b, ORR_PHASE_FORWARD, ORR_ALL_TO_ALL, q + kv, 1);
        add_cp(b, ORR_PHASE_INPUT_GRAD, ORR_ALL_TO_ALL, q + kv, 1);
    }
}

static void cp_after(orr_builder *b) {
    const orr_split *split = &b->key->split;
    uint64_t out = 2 * b->size.n * b->size.heads * b->size.dv;
    if (split->cp_kind == ORR_CP_A2A) {
        add_cp(b, ORR_PHASE_FORWARD, ORR_ALL_TO_ALL, out, 1);
        add_cp(b, ORR_PHASE_INPUT_GRAD, ORR_ALL_TO_ALL, out, 1);
    } else if (split->cp_kind == ORR_CP_ALLGATHER) { /* the keys again, for the backward */
        add_cp(b, ORR_PHASE_INPUT_GRAD, ORR_ALL_GATHER, kv_bytes(b) * split->cp, 1);
    }
}

bool orr_low_attention(const orr_builder *b, bool backward) {
    const orr_attention *a = &b->key->layer.attention;
    bool windowed = a->window > 0 && a->window < b->key->seq;
    bool stays_wide = backward && b->key->variant.fp8_attention == ORR_LOW_FORWARD;
    return b->key->variant.fp8_attention && !stays_wide && b->low && !windowed &&
           b->key->variant.attention == ORR_KERNEL_FLASH;
}

/* 4-bit recipes have 8-bit attention, as block-scaled ones have tensor-wide scales there. */
static uint8_t core_dtype(const orr_builder *b, orr_phase phase) {
    return !orr_low_attention(b, phase != ORR_PHASE_FORWARD) ? b->wide_dtype
           : b->gemm_dtype == ORR_MXFP8                      ? (uint8_t)ORR_MXFP8
                                                             : (uint8_t)ORR_FP8;
}

/* q, k, v are quantised before the core, the output's gradient before its backward; the output and
 * the gradients of q, k, v come back to 16 bits. */
static void add_core_casts(orr_builder *b) {
    static const double BYTES = 3; /* 2 read and 1 written, or the other way round */
    const orr_sizes *z = &b->size;
    uint64_t kv_heads = b->key->layer.attention.kind == ORR_ATTENTION_MLA ? z->heads : z->kv_heads;
    double qkv = (double)(z->n * (z->heads * z->d + kv_heads * (z->d + z->dv)));
    double out = (double)(z->n * z->heads * z->dv);
    if (orr_low_attention(b, false)) {
        orr_add_memory(b, ORR_PHASE_FORWARD, ORR_N_CORE, ORR_CLASS_ATTENTION, ORR_MEMOP_CAST,
                       BYTES * (qkv + out), 2);
    }
    if (orr_low_attention(b, true)) {
        orr_add_memory(b, ORR_PHASE_INPUT_GRAD, ORR_N_CORE, ORR_CLASS_ATTENTION, ORR_MEMOP_CAST,
                       BYTES * (qkv + out), 2);
    }
}

static void push_fused(orr_builder *b, orr_phase phase) {
    static const double BACKWARD_FLOPS = 2.5; /* five products for two */
    const orr_attention *a = &b->key->layer.attention;
    const orr_split *split = &b->key->split;
    bool by_heads = split->cp_kind == ORR_CP_A2A;
    uint32_t heads = (uint32_t)b->size.heads, kv_heads = (uint32_t)b->size.kv_heads;
    orr_op op = {.kind = ORR_OP_ATTENTION,
                 .class = ORR_CLASS_ATTENTION,
                 .dtype = core_dtype(b, phase),
                 .causal = a->causal,
                 .name = ORR_N_CORE};
    op.shape.attention.batch = b->key->mbs;
    op.shape.attention.heads = by_heads ? orr_max_u32(1, heads / split->cp) : heads;
    op.shape.attention.kv_heads = by_heads ? orr_max_u32(1, kv_heads / split->cp) : kv_heads;
    op.shape.attention.head_dim = (uint32_t)b->size.d;
    op.shape.attention.v_dim = (uint32_t)b->size.dv;
    op.shape.attention.window = a->window < b->key->seq ? a->window : 0;
    op.shape.attention.seq_q = by_heads ? b->key->seq : b->key->seq / split->cp;
    op.shape.attention.seq_kv = b->key->seq;
    op.flops = 2 * pairs(b) * (double)b->size.heads * (double)(b->size.d + b->size.dv);
    if (phase == ORR_PHASE_INPUT_GRAD) {
        op.flops *= BACKWARD_FLOPS;
    }
    orr_add_op(b, phase, op);
}

static void add_unfused(orr_builder *b) {
    static const uint16_t NAMES[] = {[ORR_UNFUSED_SCORES] = ORR_N_SCORES,
                                     [ORR_UNFUSED_SOFTMAX] = ORR_N_SOFTMAX,
                                     [ORR_UNFUSED_CONTEXT] = ORR_N_CONTEXT};
    const orr_unfused core = {.batch = b->size.heads * b->key->mbs,
                              .seq_q = b->key->seq / b->key->split.cp,
                              .seq_kv = b->key->seq,
                              .head_dim = b->size.d,
                              .v_dim = b->size.dv,
                              .fused_softmax = b->key->variant.attention == ORR_KERNEL_UNFUSED};
    for (int backward = 0; backward < 2; backward++) {
        orr_phase phase = backward ? ORR_PHASE_INPUT_GRAD : ORR_PHASE_FORWARD;
        orr_unfused_part part[ORR_UNFUSED_PARTS];
        uint32_t count = orr_unfused_parts(&core, backward != 0, part);
        for (uint32_t i = 0; i < count; i++) {
            uint16_t name = NAMES[part[i].of];
            if (part[i].of == ORR_UNFUSED_SOFTMAX) {
                orr_add_memory(b, phase, name, ORR_CLASS_ATTENTION, ORR_MEMOP_SOFTMAX,
                               part[i].bytes, part[i].kernels);
            } else {
                orr_add_gemm(b, phase,
                             (orr_product){.name = name,
                                           .class = ORR_CLASS_ATTENTION,
                                           .dtype = b->wide_dtype,
                                           .m = part[i].m,
                                           .n = part[i].n,
                                           .k = part[i].k,
                                           .batch = core.batch});
            }
        }
    }
}

static void add_core(orr_builder *b) {
    uint16_t outer = b->modules;
    b->modules |= ORR_MODULE_CORE_ATTN;
    cp_before(b);
    if (b->key->variant.attention == ORR_KERNEL_FLASH) {
        add_core_casts(b);
        push_fused(b, ORR_PHASE_FORWARD);
        push_fused(b, ORR_PHASE_INPUT_GRAD);
    } else {
        add_unfused(b);
    }
    cp_after(b);
    b->modules = outer;
}

static void add_rope(orr_builder *b, double elements) {
    if (!b->key->layer.attention.rope) {
        return;
    }
    const orr_traffic traffic = orr_traffic_rotary(b->key->variant.fused_rope);
    orr_add_traffic(b, ORR_N_ROPE, elements, &traffic);
}

static void own_head_norms(orr_builder *b) {
    uint8_t norm = b->key->layer.attention.qk_norm;
    if (norm == ORR_QK_NORM_HEAD) {
        orr_own(b, ORR_OWN_REPLICATED, b->size.d, 2);
    } else if (norm == ORR_QK_NORM_ALL) {
        orr_own(b, ORR_OWN_SHARDED, b->size.heads * b->size.d, 1);
        orr_own(b, ORR_OWN_SHARDED, b->size.kv_heads * b->size.d, 1);
    }

    if (b->key->layer.attention.sinks) {
        orr_own(b, ORR_OWN_SHARDED, b->size.heads, 1);
    }
}

/* q, k, v (and a gate) from one product, or from one each after a common gather. */
static void add_projections(orr_builder *b, uint64_t width, uint64_t gate) {
    const orr_sizes *z = &b->size;
    const orr_attention *a = &b->key->layer.attention;
    bool separate = b->key->variant.separate_projections;
    uint64_t k = z->kv_heads * z->d, v = z->kv_heads * z->dv;
    uint64_t out[3] = {separate ? width - k - v : width, separate ? k : 0, separate ? v : 0};
    for (int i = 0; i < 3 && out[i] > 0; i++) {
        orr_add_column(
            b, (orr_linear){
                   .name = ORR_N_QKV, .tokens = z->n, .out = out[i], .in = z->h, .lone = i > 0});
        uint64_t bias = a->bias_qkv ? out[i] - (i == 0 ? gate : 0) : 0;
        orr_own_fused(b, ORR_OWN_SHARDED, out[i], z->h, bias, ORR_OWN_SHARDED, 1);
    }
    orr_note_matrix(b, ORR_OWN_SHARDED, width - k - v, z->h, 1);
    orr_note_matrix(b, ORR_OWN_SHARDED, k, z->h, 1);
    orr_note_matrix(b, ORR_OWN_SHARDED, v, z->h, 1);
    const struct {
        uint32_t target;
        uint64_t out;
    } adapters[] = {
        {ORR_LORA_QKV, width}, {ORR_LORA_Q, width - k - v}, {ORR_LORA_K, k}, {ORR_LORA_V, v}};
    for (size_t i = 0; i < sizeof adapters / sizeof *adapters; i++) {
        orr_add_adapter(b, adapters[i].target, ORR_ADAPTER_COLUMN,
                        (orr_linear){.tokens = z->n, .out = adapters[i].out, .in = z->h});
    }
}

static void lower_grouped(orr_builder *b) {
    const orr_attention *a = &b->key->layer.attention;
    const orr_sizes *z = &b->size;
    uint64_t gate = a->output_gate ? z->heads * z->dv : 0;
    uint64_t width = z->heads * z->d + z->kv_heads * (z->d + z->dv) + gate;
    double n = (double)z->n, q_and_k = n * (double)((z->heads + z->kv_heads) * z->d);
    add_projections(b, width, gate);
    own_head_norms(b);
    if (a->qk_norm) {
        orr_add_norm(b, ORR_N_Q_LN, q_and_k);
    }
    add_rope(b, q_and_k);
    add_core(b);
}

/* Latents are computed on every rank from its own tokens, then gathered for the up projections.
 * DeepSeek-V2 (arXiv 2405.04434). */
static void lower_latent(orr_builder *b) {
    const orr_attention *a = &b->key->layer.attention;
    const orr_sizes *z = &b->size;
    uint64_t q_width = z->heads * z->d, nope = z->d - a->rope_dim;
    uint64_t kv_width = z->heads * (nope + z->dv), down = a->kv_lora + a->rope_dim;
    const uint32_t q_target = ORR_LORA_Q | ORR_LORA_QKV;
    const uint32_t kv_target = ORR_LORA_K | ORR_LORA_V | ORR_LORA_QKV;
    uint16_t outer = b->modules;
    if (a->q_lora) {
        orr_add_adapter(b, q_target, ORR_ADAPTER_LONE,
                        (orr_linear){.tokens = z->sharded, .out = a->q_lora, .in = z->h});
        orr_add_linear(
            b,
            (orr_linear){.name = ORR_N_Q_DOWN, .tokens = z->sharded, .out = a->q_lora, .in = z->h});
        orr_own_linear(b, ORR_OWN_REPLICATED, a->q_lora, z->h, a->bias_qkv ? a->q_lora : 0,
                       ORR_OWN_REPLICATED, 1);
    }
    orr_add_linear(
        b, (orr_linear){.name = ORR_N_KV_DOWN, .tokens = z->sharded, .out = down, .in = z->h});
    orr_own_linear(b, ORR_OWN_REPLICATED, down, z->h, a->bias_qkv ? down : 0, ORR_OWN_REPLICATED,
                   1);
    orr_add_adapter(b, kv_target, ORR_ADAPTER_LONE,
                    (orr_linear){.tokens = z->sharded, .out = down, .in = z->h});
    b->modules |= ORR_MODULE_MLA_UP_PROJ;
    if (a->q_lora) {
        orr_add_norm(b, ORR_N_Q_NORM, (double)(z->sharded * a->q_lora));
        orr_own(b, ORR_OWN_REPLICATED, a->q_lora, 1);
    }
    orr_add_column(b, (orr_linear){.name = a->q_lora ? ORR_N_Q_UP : ORR_N_Q_PROJ,
                                   .tokens = z->n,
                                   .out = q_width,
                                   .in = a->q_lora ? a->q_lora : z->h});
    orr_own_linear(b, ORR_OWN_SHARDED, q_width, a->q_lora ? a->q_lora : z->h, 0, ORR_OWN_SHARDED,
                   1);
    orr_add_adapter(
        b, q_target, ORR_ADAPTER_COLUMN,
        (orr_linear){.tokens = z->n, .out = q_width, .in = a->q_lora ? a->q_lora : z->h});
    orr_add_norm(b, ORR_N_KV_NORM, (double)(z->sharded * a->kv_lora));
    orr_own(b, ORR_OWN_REPLICATED, a->kv_lora, 1);
    orr_add_column(
        b, (orr_linear){.name = ORR_N_KV_UP, .tokens = z->n, .out = kv_width, .in = a->kv_lora});
    orr_own_linear(b, ORR_OWN_SHARDED, kv_width, a->kv_lora, 0, ORR_OWN_SHARDED, 1);
    orr_add_adapter(b, kv_target, ORR_ADAPTER_COLUMN,
                    (orr_linear){.tokens = z->n, .out = kv_width, .in = a->kv_lora});
    if (b->sequence) { /* the shared rope key is gathered beside the latent */
        uint64_t key_bytes = 2 * z->n * a->rope_dim;
        orr_add_tp(b, ORR_PHASE_FORWARD, ORR_N_ROPE, ORR_ALL_GATHER, key_bytes);
        orr_add_tp(b, ORR_PHASE_INPUT_GRAD, ORR_N_ROPE, ORR_REDUCE_SCATTER, key_bytes);
    }
    add_rope(b, (double)(z->n * (z->heads + 1) * a->rope_dim));
    /* q and k are put together from their two parts, v made contiguous */
    orr_add_elementwise(b, ORR_N_ASSEMBLE, (double)(z->n * z->heads * (2 * z->d + z->dv)), 4, 4, 3);
    b->modules = outer;
    add_core(b);
}

void orr_lower_attention(orr_builder *b) {
    const orr_attention *a = &b->key->layer.attention;
    const orr_sizes *z = &b->size;
    if (a->kind == ORR_ATTENTION_NONE) {
        return;
    }
    if (a->kind == ORR_ATTENTION_LINEAR) {
        orr_lower_linear_attention(b);
    } else if (a->kind == ORR_ATTENTION_MLA) {
        lower_latent(b);
    } else {
        lower_grouped(b);
    }
    uint64_t out_width = z->heads * z->dv;
    if (a->output_gate) { /* sigmoid and product */
        orr_add_elementwise(b, ORR_N_GATE, (double)(z->n * out_width), 6, 10, 1);
    }
    orr_add_row(b, (orr_linear){.name = ORR_N_PROJ,
                                .tokens = z->n,
                                .out = z->h,
                                .in = out_width,
                                .lone = b->key->layer.parallel_block});
    orr_own_linear(b, ORR_OWN_SHARDED, z->h, out_width, a->bias_out ? z->h : 0, ORR_OWN_REPLICATED,
                   1);
    orr_add_adapter(b, ORR_LORA_O, ORR_ADAPTER_ROW,
                    (orr_linear){.tokens = z->n, .out = z->h, .in = out_width});
}
