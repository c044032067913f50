/* Keys: from ops and layers to what evidence is found by, and back. */
#include <string.h>

#include "base/num.h"
#include "evidence/evidence_int.h"

static void gemm_key(const orr_op *op, orr_evidence_key *key) {
    key->out_bytes = op->out_bytes;
    key->dim[0] = op->shape.gemm.m;
    key->dim[1] = op->shape.gemm.n;
    key->dim[2] = op->shape.gemm.k;
    key->dim[3] = op->shape.gemm.batch;
}

static void attention_key(const orr_op *op, orr_evidence_key *key) {
    key->causal = op->causal;
    key->dim[0] = op->shape.attention.batch;
    key->dim[1] = op->shape.attention.heads;
    key->dim[2] = op->shape.attention.kv_heads;
    key->dim[3] = op->shape.attention.head_dim;
    key->dim[4] = op->shape.attention.v_dim;
    key->dim[5] = op->shape.attention.window;
    key->dim[6] = op->shape.attention.seq_q;
    key->dim[7] = op->shape.attention.seq_kv;
}

bool orr_evidence_key_of(const orr_op *op, orr_evidence_key *key) {
    memset(key, 0, sizeof *key);
    key->kind = op->kind;
    key->phase = op->phase;
    key->dtype = op->dtype;
    switch ((orr_op_kind)op->kind) {
    case ORR_OP_GEMM:
    case ORR_OP_GROUPED_GEMM: gemm_key(op, key); return true;
    case ORR_OP_ATTENTION: attention_key(op, key); return true;
    case ORR_OP_MEMORY:
        key->phase = key->dtype = 0;
        key->sub = op->sub;
        key->dim[0] = (uint64_t)(op->bytes + 0.5);
        key->dim[1] = op->shape.memory.kernels;
        return true;
    case ORR_OP_COLLECTIVE: break; /* its group decides: the caller knows the cluster */
    }
    return false;
}

void orr_evidence_op_of(const orr_evidence_key *key, orr_op *op) {
    memset(op, 0, sizeof *op);
    op->kind = key->kind;
    op->phase = key->phase == ORR_EVIDENCE_ANY ? ORR_PHASE_FORWARD : key->phase;
    op->dtype = key->dtype;
    op->sub = key->sub;
    op->causal = key->causal;
    op->dep[0] = op->dep[1] = -1;
    const uint64_t *dim = key->dim;
    switch ((orr_op_kind)key->kind) {
    case ORR_OP_GEMM:
    case ORR_OP_GROUPED_GEMM:
        op->out_bytes = key->out_bytes > 0 ? key->out_bytes : 2;
        op->shape.gemm.m = dim[0];
        op->shape.gemm.n = dim[1];
        op->shape.gemm.k = dim[2];
        op->shape.gemm.batch = dim[3];
        op->flops = 2.0 * (double)dim[0] * (double)dim[1] * (double)dim[2] * (double)dim[3];
        break;
    case ORR_OP_ATTENTION:
        op->shape.attention.batch = (uint32_t)dim[0];
        op->shape.attention.heads = (uint32_t)dim[1];
        op->shape.attention.kv_heads = (uint32_t)dim[2];
        op->shape.attention.head_dim = (uint32_t)dim[3];
        op->shape.attention.v_dim = (uint32_t)dim[4];
        op->shape.attention.window = (uint32_t)dim[5];
        op->shape.attention.seq_q = dim[6];
        op->shape.attention.seq_kv = dim[7];
        break;
    case ORR_OP_MEMORY:
        op->bytes = (double)dim[0];
        op->shape.memory.kernels = (uint32_t)dim[1];
        break;
    case ORR_OP_COLLECTIVE:
        op->shape.comm.rank_bytes = dim[0];
        op->shape.comm.size = (uint32_t)dim[1];
        op->shape.comm.count = 1;
        break;
    }
}

void orr_evidence_key_of_layer(const orr_object_key *object, orr_phase phase,
                               orr_evidence_key *key) {
    memset(key, 0, sizeof *key);
    key->kind = ORR_EVIDENCE_LAYER;
    key->phase = (uint8_t)phase;
    const orr_layer *layer = &object->layer;
    const orr_mlp *mlp = &layer->mlp;
    const uint64_t dim[ORR_EVIDENCE_DIMS] = {layer->hidden,
                                             layer->attention.heads,
                                             layer->attention.kv_heads,
                                             layer->attention.head_dim,
                                             layer->attention.v_dim,
                                             mlp->experts > 0 ? 0 : mlp->ffn,
                                             mlp->experts,
                                             mlp->experts > 0 ? mlp->topk : 0,
                                             mlp->experts > 0 ? mlp->expert_ffn : 0,
                                             mlp->experts > 0 ? mlp->shared_ffn : 0,
                                             object->seq,
                                             object->mbs,
                                             object->split.tp,
                                             object->split.cp,
                                             object->split.ep,
                                             object->split.sp && object->split.tp > 1};
    memcpy(key->dim, dim, sizeof dim);
}

const char *orr_evidence_kind_name(uint8_t kind) {
    static const char *const names[] = {"gemm",       "grouped_gemm", "attention", "memory",
                                        "collective", "layer",        "unit"};
    return kind < ORR_EVIDENCE_KIND_COUNT ? names[kind] : "unknown";
}

/* The op's word with what tells its kind apart: "gemm bf16 forward m=8192 n=4096 k=4096". */
const char *orr_evidence_shape_text(orr_arena *arena, const orr_evidence_key *key) {
    orr_text text = orr_text_new(arena, 512);
    bool collective = key->kind == ORR_OP_COLLECTIVE, memory = key->kind == ORR_OP_MEMORY;
    orr_text_add(&text, collective ? orr_evidence_ops[ORR_ROW_COLLECTIVE + key->sub]
                        : memory   ? orr_evidence_families[key->sub]
                                   : orr_evidence_kind_name(key->kind));
    if (!collective && !memory) {
        if (key->kind < ORR_EVIDENCE_LAYER) {
            orr_text_format(&text, " %s", orr_dtype_name((orr_dtype)key->dtype));
        }
        bool product = key->kind == ORR_OP_GEMM || key->kind == ORR_OP_GROUPED_GEMM;
        orr_text_format(&text, " %s",
                        key->phase == ORR_EVIDENCE_ANY ? orr_evidence_phases[0]
                        : key->phase == ORR_PHASE_INPUT_GRAD && !product
                            ? "backward"
                            : orr_evidence_phases[key->phase + 1]);
    }
    const char *name;
    for (uint32_t d = 0; (name = orr_evidence_size(key->kind, d)) != NULL; d++) {
        bool plain = d > 2 && key->dim[d] <= (key->kind == ORR_OP_ATTENTION ? 0 : 1);
        if (!plain) {
            orr_text_format(&text, " %s=%llu", name, (unsigned long long)key->dim[d]);
        }
    }
    return orr_text_done(&text);
}
