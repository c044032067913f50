/* Bytes needed for a while, besides what is saved: docs/internals/memory.md. */
#include "base/num.h"
#include "program/lower_int.h"

/* The gradient of the residual stream, and of what dropout left of it. */
static uint64_t stream_gradients(const orr_builder *b) {
    return (b->key->variant.hidden_dropout ? 4 : 2) * b->size.sharded * b->size.h;
}

/* Output gradients that sequence parallelism gathers for a linear's two gradients. */
static uint64_t gathered_gradient(const orr_builder *b) {
    return b->sequence ? 2 * b->size.n * b->size.h : 0;
}

/* A down projection's input gradient appears while its saved input is still held; the activation's
 * gradients after that was freed. */
static uint64_t feed_backward(uint64_t elements, bool gated, uint64_t output_gradient) {
    uint64_t up = (gated ? 4 : 2) * elements;
    return orr_max_u64(2 * elements + output_gradient, up);
}

static uint64_t mlp_backward(const orr_builder *b) {
    const orr_sizes *z = &b->size;
    return feed_backward(z->n * z->ffn, b->key->layer.mlp.gated, gathered_gradient(b));
}

/* Expert outputs' gradients on their way out and in, then as for an MLP. */
static uint64_t moe_backward(const orr_builder *b) {
    const orr_sizes *z = &b->size;
    const orr_split *split = &b->key->split;
    bool gated = b->key->layer.mlp.gated;
    uint64_t rows = 2 * z->slots * z->expert_h;
    uint64_t exchange = split->ep > 1 || split->etp > 1 ? 2 * rows : rows;
    uint64_t routed = feed_backward(z->slots * z->expert_ffn, gated, rows);
    uint64_t shared = feed_backward(z->n * z->shared_ffn, gated, gathered_gradient(b));
    return orr_max_u64(orr_max_u64(exchange, routed), shared);
}

/* What the backward has freed when it comes to attention. */
static uint64_t feed_saved(const orr_builder *b) {
    const uint32_t feed = ORR_MODULE_MLP | ORR_MODULE_MOE;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < b->saved_count; i++) {
        bool inside = (b->saved[i].dropped & feed) && b->saved[i].only == 0;
        bytes += inside ? b->saved[i].bytes : 0;
    }
    return bytes;
}

/* Where weight gradients are not added in place, one exists before it is. */
static uint64_t lone_weight_gradient(const orr_builder *b) {
    uint64_t largest = 0;
    if (!b->key->variant.fused_grad_accumulation && b->key->dp_shards < 2) {
        for (uint32_t i = 0; i < b->weight_count; i++) {
            uint64_t numel = (uint64_t)b->weight_shape[i].rows * b->weight_shape[i].cols;
            largest = orr_max_u64(largest, numel);
        }
    }
    return 2 * largest;
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

/* What the forward of a mixture holds while expert outputs travel back: permuted and dispatched
 * tokens, outputs before and after the exchange; beside them the shared experts' output and the
 * stream. Measured: docs/internals/memory.md. */
static uint64_t moe_forward(const orr_builder *b) {
    const orr_sizes *z = &b->size;
    const orr_split *split = &b->key->split;
    uint64_t rows = 2 * z->slots * z->expert_h, stream = 2 * z->sharded * z->h;
    uint64_t group = split->ep * split->etp, received = rows;
    if (b->key->variant.dispatch == ORR_DISPATCH_ALLGATHER) {
        return rows + 2 * group * stream + 3 * stream;
    }
    if (b->key->variant.dispatch >= ORR_DISPATCH_DEEPEP) { /* a token once a rank it goes to */
        uint32_t copies = orr_min_u32(b->key->layer.mlp.topk, split->ep);
        received = orr_min_u64(rows, copies * stream);
        return rows + 2 * received + 3 * stream;
    }
    return (group > 1 ? 4 : 2) * rows + 3 * stream;
}

/* An output before it is scattered. */
static uint64_t forward_peak(const orr_builder *b) {
    return b->size.rows > 0 ? moe_forward(b) : 2 * b->size.n * b->size.h;
}

/* Inputs of the weight gradients are saved tensors; the output gradients are not. */
static uint64_t pending_weight_gradients(const orr_builder *b) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < b->weight.count; i++) {
        const orr_op *op = &b->weight.op[i];
        if (op->kind == ORR_OP_GEMM) { /* k tokens x (m outputs, n inputs) */
            bool gathers = i + 1 < b->weight.count && b->weight.op[i + 1].stream == ORR_STREAM_TP;
            uint64_t kept = gathers ? b->size.sharded : op->shape.gemm.k;
            bytes += 2 * (op->shape.gemm.k * op->shape.gemm.m + kept * op->shape.gemm.n);
        } else if (op->kind == ORR_OP_GROUPED_GEMM) {
            bytes += 2 * b->size.slots * (op->shape.gemm.m + op->shape.gemm.n);
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
    /* whole, and its shard once scattered; after the softmax's copies are gone */
    uint64_t input_gradient = 2 * n * z->h + (b->sequence ? 2 * z->sharded * z->h : 0);
    if (!variant->fused_grad_accumulation && b->key->dp_shards < 2 && !b->frozen) {
        input_gradient += 2 * z->vocab * z->h; /* the head's weight gradient */
    }
    switch ((orr_loss_kernel)variant->loss) {
    case ORR_LOSS_NATIVE: /* bf16 and fp32; fp32 in place and a bf16 gradient */
        t->loss_fwd = 6 * logits + gathered;
        t->loss_bwd = gathered + orr_max_u64(6 * logits, 2 * logits + input_gradient);
        break;
    case ORR_LOSS_TE:
        t->loss_fwd = 2 * logits + gathered;
        t->loss_bwd = 2 * logits + gathered + input_gradient;
        break;
    case ORR_LOSS_FUSED: /* gradients of input and weight, logits of a chunk are small */
        t->loss_fwd = t->loss_bwd = 2 * n * z->h + (b->frozen ? 0 : 2 * v * z->h);
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
    /* The head keeps one buffer to gather into; so do layers without a library of their own. */
    if (b->sequence && (what != ORR_OBJECT_LAYER || !b->key->variant.dummy_wgrad)) {
        t.gather = what == ORR_OBJECT_EMBEDDING ? 0 : 2 * b->size.n * b->size.h;
    }
    if (b->key->variant.dummy_wgrad) {
        for (uint32_t i = 0; i < b->weight_count; i++) {
            t.dummy_wgrad += 2 * (uint64_t)b->weight_shape[i].rows * b->weight_shape[i].cols;
        }
    }
    t.pending_w = pending_weight_gradients(b);
    if (what == ORR_OBJECT_LAYER) {
        uint64_t feed = b->size.rows > 0 ? moe_backward(b) : mlp_backward(b);
        uint64_t attention = attention_backward(b), freed = feed_saved(b);
        attention = attention > freed ? attention - freed : 0;
        t.backward = stream_gradients(b) + orr_max_u64(feed, attention) + lone_weight_gradient(b);
        /* an adapter's output and the sum, beside the linear's; a weight written out in 16 bits */
        uint64_t beside = 4 * b->adapter_out + 2 * b->unpacked;
        t.backward += beside;
        t.forward = forward_peak(b) + beside;
    } else if (what == ORR_OBJECT_EMBEDDING) {
        /* a dense gradient of the table, which no kernel adds in place */
        t.forward = 2 * b->size.n * b->size.h;
        t.backward = b->frozen ? 0 : 2 * b->size.n * b->size.h + 2 * b->size.vocab * b->size.h;
    } else {
        loss_moments(b, &t);
    }
    return t;
}
