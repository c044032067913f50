/* Bytes needed for a while, besides what is saved: spec/memory.md §5, memory_verdict.md §3. */
#include "base/num.h"
#include "program/lower_int.h"

/* Gradients of the residual stream: what comes in and what goes out. */
static uint64_t stream_gradients(const orr_builder *b) {
    return 2 * 2 * b->size.sharded * b->size.h;
}

static uint64_t mlp_backward(const orr_builder *b) {
    uint64_t up = b->key->layer.mlp.gated ? 4 : 2;
    return (2 + up) * b->size.n * b->size.ffn;
}

static uint64_t moe_backward(const orr_builder *b) {
    const orr_sizes *z = &b->size;
    const orr_split *split = &b->key->split;
    uint64_t rows = z->rows * z->h;
    uint64_t exchange = split->ep > 1 || split->etp > 1 ? 2 * rows : 0;
    uint64_t shared = 6 * z->n * z->shared_ffn;
    return orr_max_u64(6 * z->rows * z->expert_ffn + 2 * rows + exchange, shared);
}

/* Gradients of q, k, v; an fp32 accumulator of q's and row sums where fused; scores where not. */
static uint64_t attention_backward(const orr_builder *b) {
    const orr_attention *a = &b->key->layer.attention;
    const orr_sizes *z = &b->size;
    const orr_split *split = &b->key->split;
    if (a->kind == ORR_ATTENTION_NONE) {
        return 0;
    }
    uint64_t q = z->n * z->heads * z->d, kv = z->n * z->kv_heads * (z->d + z->dv);
    uint64_t out = z->n * z->heads * z->dv;
    uint64_t bytes = 2 * (q + kv) + 2 * out;
    if (a->kind == ORR_ATTENTION_LINEAR) {
        return bytes;
    }
    if (b->key->variant.attention == ORR_KERNEL_FLASH) {
        bytes += 4 * q + 4 * z->n * z->heads;
    } else {
        bytes += 2 * 2 * z->scores;
    }
    if (split->cp > 1 && split->cp_kind == ORR_CP_RING) {
        bytes += 2 * 2 * kv; /* keys and values of two ranks */
    } else if (split->cp > 1 && split->cp_kind == ORR_CP_ALLGATHER) {
        bytes += 2 * kv * split->cp;
    }
    return bytes;
}

/* What the forward holds beyond saved tensors: an output before it is scattered, expert outputs on
 * their way back. */
static uint64_t forward_peak(const orr_builder *b) {
    const orr_sizes *z = &b->size;
    uint64_t stream = 2 * z->n * z->h;
    uint64_t rows = z->rows > 0 ? 2 * 2 * z->rows * z->h : 0;
    return orr_max_u64(stream, rows);
}

/* Inputs of the weight gradients are saved tensors; the output gradients are not. */
static uint64_t pending_weight_gradients(const orr_builder *b) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < b->weight.count; i++) {
        const orr_op *op = &b->weight.op[i];
        if (op->kind == ORR_OP_GEMM) { /* k tokens x (m outputs, n inputs) */
            bool gathers =
                i + 1 < b->weight.count && b->weight.op[i + 1].kind == ORR_OP_COLLECTIVE;
            uint64_t kept = gathers ? b->size.sharded : op->shape.gemm.k;
            bytes += 2 * (op->shape.gemm.k * op->shape.gemm.m + kept * op->shape.gemm.n);
        } else if (op->kind == ORR_OP_GROUPED_GEMM) {
            bytes += 2 * b->size.rows * (op->shape.gemm.m + op->shape.gemm.n);
        }
    }
    return bytes;
}

/* Copies of the logits at the end of the forward and while the loss is differentiated. */
static void loss_moments(const orr_builder *b, orr_transient *t) {
    const orr_variant *variant = &b->key->variant;
    const orr_sizes *z = &b->size;
    uint64_t n = z->n, v = variant->loss_gathered ? b->key->vocab : z->vocab;
    uint64_t logits = n * v, local = n * z->vocab;
    uint64_t gathered = variant->loss_gathered && b->tensor ? 2 * local : 0;
    uint64_t input_gradient = 2 * n * z->h;
    switch ((orr_loss_kernel)variant->loss) {
    case ORR_LOSS_NATIVE: /* bf16 and fp32; fp32 in place and a bf16 gradient */
        t->loss_fwd = 6 * logits + gathered;
        t->loss_bwd = 6 * logits + gathered + input_gradient;
        break;
    case ORR_LOSS_TE:
        t->loss_fwd = 2 * logits + gathered;
        t->loss_bwd = 2 * logits + gathered + input_gradient;
        break;
    case ORR_LOSS_FUSED: /* gradients of input and weight, logits of a chunk are small */
        t->loss_fwd = t->loss_bwd = input_gradient + 2 * v * z->h;
        break;
    case ORR_LOSS_EAGER: /* bf16, fp32, log-softmax; then the fp32 gradient */
        t->loss_fwd = 10 * logits + gathered;
        t->loss_bwd = 14 * logits + gathered + input_gradient;
        break;
    case ORR_LOSS_EAGER_BF16:
        t->loss_fwd = 4 * logits + gathered;
        t->loss_bwd = 6 * logits + gathered + input_gradient;
        break;
    }
}

orr_transient orr_transient_of(const orr_builder *b) {
    orr_transient t = {0};
    uint32_t what = b->key->what;
    if (b->sequence) {
        t.gather = 2 * b->size.n * b->size.h;
    }
    if (b->key->variant.dummy_wgrad) {
        for (uint32_t i = 0; i < b->weight_count; i++) {
            t.dummy_wgrad += 2 * (uint64_t)b->weight_shape[i].rows * b->weight_shape[i].cols;
        }
    }
    t.pending_w = pending_weight_gradients(b);
    if (what == ORR_OBJECT_LAYER) {
        uint64_t feed = b->size.rows > 0 ? moe_backward(b) : mlp_backward(b);
        t.backward = stream_gradients(b) + orr_max_u64(feed, attention_backward(b));
        t.forward = forward_peak(b);
    } else if (what == ORR_OBJECT_EMBEDDING) {
        t.forward = 2 * b->size.n * b->size.h;
        t.backward = 2 * b->size.n * b->size.h;
    } else {
        loss_moments(b, &t);
    }
    return t;
}
