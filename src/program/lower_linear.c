/* Linear attention and state-space layers, approximately: chunked scans as batched products. Costs
 * and bytes are assumed, not measured. */
#include "base/num.h"
#include "program/lower_int.h"

static const uint64_t CHUNK_TOKENS = 64;

static void add_chunks(orr_builder *b, orr_phase phase, uint16_t name, uint64_t m, uint64_t n,
                       uint64_t k, uint64_t products) {
    uint64_t chunks = orr_div_up_u64(b->size.n, CHUNK_TOKENS);
    orr_add_gemm(b, phase,
                 (orr_product){.name = name,
                               .class = ORR_CLASS_ATTENTION,
                               .dtype = b->wide_dtype,
                               .m = m,
                               .n = n,
                               .k = k,
                               .batch = products * b->size.heads * chunks});
}

static bool is_mamba(const orr_builder *b) {
    return b->key->layer.attention.linear == ORR_LINEAR_MAMBA2;
}

/* In a chunk: scores and their product with v; between chunks: the state's update and read-out; the
 * delta rule corrects v in a chunk first. Each product has two gradients. */
static void add_scan(orr_builder *b) {
    uint64_t c = CHUNK_TOKENS, d = b->size.d, dv = b->size.dv;
    for (int back = 0; back < 2; back++) {
        orr_phase phase = back ? ORR_PHASE_INPUT_GRAD : ORR_PHASE_FORWARD;
        uint64_t times = back ? 2 : 1;
        if (!is_mamba(b)) {
            add_chunks(b, phase, ORR_N_SCAN, c, c, d, times);
            add_chunks(b, phase, ORR_N_SCAN, c, dv, c, times);
        }
        add_chunks(b, phase, ORR_N_SCAN, c, c, d, times);
        add_chunks(b, phase, ORR_N_SCAN, c, dv, c, times);
        add_chunks(b, phase, ORR_N_SCAN_STATE, d, dv, c, times);
        add_chunks(b, phase, ORR_N_SCAN_STATE, c, dv, d, times);
    }
}

/* What the convolution mixes: q, k, v (Mamba: B, C, x). */
static uint64_t mixed_width(const orr_builder *b) {
    return 2 * b->size.kv_heads * b->size.d + b->size.heads * b->size.dv;
}

/* That, the output's gate, and one or two scalars a head. */
static uint64_t input_width(const orr_builder *b) {
    uint64_t scalars = (is_mamba(b) ? 1 : 2) * b->size.heads;
    return mixed_width(b) + b->size.heads * b->size.dv + scalars;
}

/* Convolution, decay and step of every head, the norm of the output. */
static void own_small(orr_builder *b) {
    const orr_sizes *z = &b->size;
    uint64_t taps = b->key->layer.attention.conv + (is_mamba(b) ? 1u : 0u);
    orr_own(b, ORR_OWN_SHARDED, mixed_width(b) * taps, 1);
    orr_own(b, ORR_OWN_SHARDED, z->heads, is_mamba(b) ? 3 : 2);
    if (is_mamba(b)) {
        orr_own(b, ORR_OWN_SHARDED, z->heads * z->dv, 1);
    } else {
        orr_own(b, ORR_OWN_REPLICATED, z->dv, 1);
    }
}

void orr_lower_linear_attention(orr_builder *b) {
    const orr_sizes *z = &b->size;
    uint64_t width = input_width(b);
    orr_add_column(b, (orr_linear){.name = ORR_N_QKV, .tokens = z->n, .out = width, .in = z->h});
    orr_own_linear(b, ORR_OWN_SHARDED, width, z->h, 0, ORR_OWN_SHARDED, 1);
    orr_add_adapter(b, ORR_LORA_ATTENTION_IN, ORR_ADAPTER_COLUMN,
                    (orr_linear){.tokens = z->n, .out = width, .in = z->h});
    own_small(b);
    orr_add_elementwise(b, ORR_N_CONV, (double)(z->n * mixed_width(b)), 4, 8, 1);
    uint16_t outer = b->modules;
    b->modules |= ORR_MODULE_CORE_ATTN;
    add_scan(b);
    b->modules = outer;
    orr_add_norm(b, ORR_N_GATE, (double)(z->n * z->heads * z->dv)); /* gated norm of the output */
}

void orr_keep_linear_attention(orr_builder *b, uint32_t dropped, uint32_t norm) {
    const orr_sizes *z = &b->size;
    uint64_t chunks = orr_div_up_u64(z->n, CHUNK_TOKENS);
    uint32_t core = dropped | ORR_MODULE_CORE_ATTN;
    orr_keep_linear_input(b, ORR_N_QKV, z->sharded * z->h, dropped | norm, ORR_LORA_ATTENTION_IN);
    orr_keep(b, ORR_N_CONV, ORR_N_T_QKV, 2 * z->n * input_width(b), dropped, 0);
    orr_keep(b, ORR_N_SCAN, ORR_N_T_QKV, 2 * z->n * mixed_width(b), dropped, 0);
    orr_keep(b, ORR_N_SCAN, ORR_N_T_STATE, 2 * chunks * z->heads * z->d * z->dv, core, 0);
    orr_keep(b, ORR_N_SCAN, ORR_N_T_OUT, 2 * z->n * z->heads * z->dv, core, 0);
    orr_keep_linear_input(b, ORR_N_PROJ, z->n * z->heads * z->dv, dropped, ORR_LORA_O);
}
