/* Mixture of experts: router, exchange of tokens, grouped GEMMs, shared experts.
 *
 * Everything is the fullest rank's: its experts get `rows` token copies in all, which are the mean
 * times the plan's imbalance, or what a capacity pads to. */
#include "base/num.h"
#include "program/lower_int.h"
#include "program/traffic.h"

static bool sends_once(const orr_builder *b) {
    return b->key->variant.dispatch >= ORR_DISPATCH_DEEPEP;
}

/* The first stage of sync-free dispatch brings the fused kernels with it. */
static bool fuses_permute(const orr_builder *b) {
    return b->key->variant.fused_permute || b->key->variant.dispatch >= ORR_DISPATCH_SYNC_FREE_1;
}

/* An exchange lasts as long as its fullest rank. */
static uint64_t loaded(const orr_split *split, uint64_t bytes) {
    return split->load > 0 ? (uint64_t)((double)bytes * orr_split_load(split) + 0.5) : bytes;
}

/* Moves tokens to their experts (out) or back; the backward mirrors it. */
static void add_exchange(orr_builder *b, uint16_t name, bool out) {
    const orr_split *split = &b->key->split;
    const orr_mlp *mlp = &b->key->layer.mlp;
    const orr_sizes *z = &b->size;
    orr_comm comm = {.name = name,
                     .stream = ORR_STREAM_EP,
                     .class = ORR_CLASS_EP,
                     .kind = ORR_ALL_TO_ALL,
                     .size = split->ep,
                     .stride = split->etp};
    orr_comm back = comm;
    if (b->key->variant.dispatch == ORR_DISPATCH_ALLGATHER) { /* of every rank's tokens */
        comm.size = back.size = split->ep * split->etp;
        comm.stride = back.stride = 1;
        comm.bytes = back.bytes = 2 * z->sharded * z->expert_h * comm.size;
        comm.kind = out ? ORR_ALL_GATHER : ORR_REDUCE_SCATTER;
        back.kind = out ? ORR_REDUCE_SCATTER : ORR_ALL_GATHER;
    } else if (sends_once(b)) {
        comm.routing = (orr_routing){mlp->topk, mlp->experts, mlp->groups, mlp->group_topk};
        double copies = orr_routing_places(&comm.routing, split->ep);
        comm.bytes = (uint64_t)(2 * (double)(z->sharded * z->expert_h) * copies + 0.5);
        back = comm;
    } else {
        comm.bytes = back.bytes = 2 * z->sharded * mlp->topk * z->expert_h;
    }
    comm.bytes = loaded(split, comm.bytes);
    back.bytes = loaded(split, back.bytes);
    orr_add_comm(b, ORR_PHASE_FORWARD, comm);
    orr_add_comm(b, ORR_PHASE_INPUT_GRAD, back);
}

/* Expert TP: every rank of the group works on all rows of the group. */
static void add_expert_tp(orr_builder *b, bool out) {
    const orr_split *split = &b->key->split;
    if (b->key->variant.dispatch == ORR_DISPATCH_ALLGATHER) {
        return; /* part of the exchange */
    }
    orr_comm comm = {.name = ORR_N_EXPERT_TP,
                     .stream = ORR_STREAM_TP,
                     .class = ORR_CLASS_TP,
                     .kind = out ? ORR_ALL_GATHER : ORR_REDUCE_SCATTER,
                     .bytes = 2 * b->size.rows * b->size.expert_h,
                     .size = split->etp,
                     .stride = 1};
    orr_add_comm(b, ORR_PHASE_FORWARD, comm);
    comm.kind = out ? ORR_REDUCE_SCATTER : ORR_ALL_GATHER;
    orr_add_comm(b, ORR_PHASE_INPUT_GRAD, comm);
    if (split->etp > 1 && b->key->variant.expert_tp_by_width) { /* read and written once each way */
        double bytes = 4 * (double)(b->size.rows * b->size.expert_h);
        orr_add_memory(b, ORR_PHASE_FORWARD, ORR_N_EXPERT_TP, ORR_CLASS_ELEMENTWISE,
                       ORR_MEMOP_PERMUTE, bytes, 1);
        orr_add_memory(b, ORR_PHASE_INPUT_GRAD, ORR_N_EXPERT_TP, ORR_CLASS_ELEMENTWISE,
                       ORR_MEMOP_PERMUTE, bytes, 1);
    }
}

static void add_router(orr_builder *b) {
    const orr_traffic scores = orr_traffic_router();
    const orr_mlp *mlp = &b->key->layer.mlp;
    const orr_sizes *z = &b->size;
    orr_linear router = {
        .name = ORR_N_ROUTER, .tokens = z->sharded, .out = mlp->experts, .in = z->h, .wide = 1};
    orr_add_linear(b, router);
    orr_own(b, ORR_OWN_REPLICATED, (uint64_t)mlp->experts * z->h, 1);
    orr_note_matrix(b, ORR_OWN_REPLICATED, mlp->experts, z->h, 1);
    orr_own(b, ORR_OWN_REPLICATED, mlp->bias ? mlp->experts : 0, 1);
    orr_add_elementwise(b, ORR_N_ROUTER, (double)(z->sharded * mlp->experts), scores.forward_bytes,
                        scores.backward_bytes, scores.kernels);
}

/* Padded experts fed by one-hot masks: per sequence, slots x tokens x width. The way back weighs by
 * the gates, whose gradient is a third product. */
static void add_mask_products(orr_builder *b, bool out) {
    const orr_sizes *z = &b->size;
    uint64_t tokens = b->key->seq / b->key->split.cp, sequences = b->key->mbs;
    uint64_t slots = z->copies / orr_max_u64(1, sequences);
    orr_product p = {.name = out ? ORR_N_PERMUTE : ORR_N_UNPERMUTE,
                     .class = ORR_CLASS_GEMM,
                     .dtype = b->wide_dtype,
                     .m = out ? slots : tokens,
                     .n = z->expert_h,
                     .k = out ? tokens : slots,
                     .batch = sequences};
    orr_add_gemm(b, ORR_PHASE_FORWARD, p);
    p.m = out ? tokens : slots;
    p.k = out ? slots : tokens;
    orr_add_gemm(b, ORR_PHASE_INPUT_GRAD, p);
    if (!out) {
        p.m = tokens;
        p.n = slots;
        p.k = z->expert_h;
        orr_add_gemm(b, ORR_PHASE_INPUT_GRAD, p);
    }
}

/* Copies of tokens into the order of experts and back. Permuting and unpermuting together move
 * 2 (2kNh + Nh) bytes each way; after an exchange, rows are sorted once more
 * when a rank has several experts. */
static void add_permute(orr_builder *b, bool out) {
    const orr_sizes *z = &b->size;
    if (b->key->variant.einsum_dispatch && b->key->variant.capacity > 0) {
        add_mask_products(b, out);
        return;
    }
    double tokens = (double)(z->sharded * z->expert_h);
    /* copies are made where they are sent from, or out of what arrived once */
    double copies = (double)((sends_once(b) ? z->slots : z->copies) * z->expert_h);
    uint32_t kernels = fuses_permute(b) ? 1 : 4;
    double forward_bytes = out ? 2 * (copies + tokens) : 2 * copies, backward_bytes = forward_bytes;
    if (!fuses_permute(b)) {
        /* Gathers read and write a row a copy; sums read it and add to memory. Without fusion, and
         * where activations do not weigh, so does a product with its two gradients. */
        double weigh = b->key->variant.probs_in_activation ? 0 : 4;
        forward_bytes = (out ? 4 : 6 + weigh) * copies;
        backward_bytes = (out ? 6 : 4 + 2 * weigh) * copies;
    }
    uint16_t name = out ? ORR_N_PERMUTE : ORR_N_UNPERMUTE;
    orr_add_memory(b, ORR_PHASE_FORWARD, name, ORR_CLASS_ELEMENTWISE, ORR_MEMOP_PERMUTE,
                   forward_bytes, kernels);
    orr_add_memory(b, ORR_PHASE_INPUT_GRAD, name, ORR_CLASS_ELEMENTWISE, ORR_MEMOP_PERMUTE,
                   backward_bytes, kernels);
}

/* The gradient of a gather that repeats rows, as atomic sums of 4-byte words: read, and both ways.
 */
static void add_scattered_sums(orr_builder *b) {
    static const double BYTES = 10;
    const orr_sizes *z = &b->size;
    if (sends_once(b) && b->key->variant.scattered_sums > 0) {
        orr_add_memory(
            b, ORR_PHASE_INPUT_GRAD, ORR_N_PERMUTE, ORR_CLASS_ELEMENTWISE, ORR_MEMOP_PERMUTE,
            BYTES * b->key->variant.scattered_sums * (double)(z->slots * z->expert_h), 1);
    }
}

static void add_sort(orr_builder *b, bool out) {
    const orr_sizes *z = &b->size;
    bool exchanges =
        b->key->split.ep > 1 && b->key->variant.dispatch == ORR_DISPATCH_ALLTOALL && z->experts > 1;
    if (exchanges) {
        double bytes = 4 * (double)(z->slots * z->expert_h);
        uint16_t name = out ? ORR_N_SORT : ORR_N_UNSORT;
        orr_add_memory(b, ORR_PHASE_FORWARD, name, ORR_CLASS_ELEMENTWISE, ORR_MEMOP_PERMUTE, bytes,
                       1);
        orr_add_memory(b, ORR_PHASE_INPUT_GRAD, name, ORR_CLASS_ELEMENTWISE, ORR_MEMOP_PERMUTE,
                       bytes, 1);
    }
}

static void add_experts(orr_builder *b) {
    const orr_mlp *mlp = &b->key->layer.mlp;
    const orr_sizes *z = &b->size;
    uint64_t up = mlp->gated ? 2 * z->expert_ffn : z->expert_ffn;
    uint32_t experts = (uint32_t)z->experts;
    orr_add_linear(b, (orr_linear){.name = ORR_N_EXPERT_FC1,
                                   .tokens = z->rows,
                                   .out = up,
                                   .in = z->expert_h,
                                   .expert = 1});
    orr_own_linear(b, ORR_OWN_EXPERT, up, z->expert_h, mlp->bias ? up : 0, ORR_OWN_EXPERT, experts);
    orr_add_mlp_adapters(
        b, ORR_ADAPTER_LONE,
        (orr_linear){.tokens = z->rows, .out = up, .in = z->expert_h, .expert = 1});
    uint16_t outer = b->modules;
    b->modules |= ORR_MODULE_MOE_ACT;
    orr_add_activation(b, ORR_N_EXPERT_ACT, (double)z->slots * (double)z->expert_ffn);
    b->modules = outer;
    b->tail = b->forward.count;
    orr_add_linear(b, (orr_linear){.name = ORR_N_EXPERT_FC2,
                                   .tokens = z->rows,
                                   .out = z->expert_h,
                                   .in = z->expert_ffn,
                                   .expert = 1});
    orr_own_linear(b, ORR_OWN_EXPERT, z->expert_h, z->expert_ffn, mlp->bias ? z->expert_h : 0,
                   ORR_OWN_EXPERT, experts);
    orr_add_adapter(
        b, ORR_LORA_DOWN, ORR_ADAPTER_LONE,
        (orr_linear){.tokens = z->rows, .out = z->expert_h, .in = z->expert_ffn, .expert = 1});
}

/* Biases that routing weighs: a product, a sum, a concatenation in fp32 and a cast; back through
 * them, with a product and a sum for each of bias and weight. */
static void add_expert_bias(orr_builder *b) {
    static const double FORWARD = 28, BACKWARD = 40; /* bytes an element */
    const orr_sizes *z = &b->size;
    if (!b->key->variant.eager_expert_bias || !b->key->layer.mlp.bias) {
        return;
    }
    orr_add_elementwise(b, ORR_N_EXPERT_BIAS, (double)z->slots * (double)z->expert_h, FORWARD,
                        BACKWARD, 2 * (uint32_t)z->experts + 2);
}

/* Routed experts may work in a narrower width than the stream. */
static void add_latent(orr_builder *b, bool down) {
    const orr_sizes *z = &b->size;
    if (z->expert_h == z->h) {
        return;
    }
    uint64_t out = down ? z->expert_h : z->h, in = down ? z->h : z->expert_h;
    orr_add_linear(b, (orr_linear){.name = down ? ORR_N_LATENT_DOWN : ORR_N_LATENT_UP,
                                   .tokens = z->sharded,
                                   .out = out,
                                   .in = in});
    orr_own_linear(b, ORR_OWN_REPLICATED, out, in, 0, ORR_OWN_REPLICATED, 1);
}

static void add_shared(orr_builder *b) {
    const orr_mlp *mlp = &b->key->layer.mlp;
    const orr_sizes *z = &b->size;
    uint64_t up = mlp->gated ? 2 * z->shared_ffn : z->shared_ffn;
    uint16_t outer = b->modules;
    b->modules |= ORR_MODULE_SHARED_EXPERTS;
    orr_add_column(b,
                   (orr_linear){.name = ORR_N_SHARED_FC1, .tokens = z->n, .out = up, .in = z->h});
    orr_own_linear(b, ORR_OWN_SHARDED, up, z->h, mlp->bias ? up : 0, ORR_OWN_SHARDED, 1);
    orr_add_mlp_adapters(b, ORR_ADAPTER_COLUMN,
                         (orr_linear){.tokens = z->n, .out = up, .in = z->h});
    orr_add_activation(b, ORR_N_SHARED_ACT, (double)z->n * (double)z->shared_ffn);
    orr_add_row(b, (orr_linear){
                       .name = ORR_N_SHARED_FC2, .tokens = z->n, .out = z->h, .in = z->shared_ffn});
    orr_own_linear(b, ORR_OWN_SHARDED, z->h, z->shared_ffn, mlp->bias ? z->h : 0,
                   ORR_OWN_REPLICATED, 1);
    orr_add_adapter(b, ORR_LORA_DOWN, ORR_ADAPTER_ROW,
                    (orr_linear){.tokens = z->n, .out = z->h, .in = z->shared_ffn});
    if (mlp->shared_gate) { /* a dot product a token, a sigmoid, a scaling */
        orr_add_elementwise(b, ORR_N_SHARED_GATE, (double)(z->sharded * z->h), 6, 8, 3);
        orr_own(b, ORR_OWN_REPLICATED, z->h, 1);
    }
    b->modules = outer;
}

void orr_lower_moe(orr_builder *b) {
    uint16_t outer = b->modules;
    b->modules |= ORR_MODULE_MOE;
    orr_fork start = orr_fork_here(b);
    add_router(b);
    add_latent(b, true);
    add_permute(b, true);
    add_exchange(b, ORR_N_DISPATCH, true);
    add_expert_tp(b, true);
    add_scattered_sums(b);
    add_sort(b, true);
    add_experts(b);
    add_expert_bias(b);
    add_sort(b, false);
    add_expert_tp(b, false);
    add_exchange(b, ORR_N_COMBINE, false);
    add_permute(b, false);
    add_latent(b, false);
    /* weights applied to what experts put out have its values in their gradient; so has a product
     */
    bool read = !b->key->variant.probs_in_activation || b->size.expert_h != b->size.h;
    b->tail_end = read ? b->tail : b->forward.count;
    if (b->size.shared_ffn > 0) {
        orr_fork routed = orr_fork_switch(b, start);
        add_shared(b);
        orr_fork shared = orr_fork_switch(b, routed);
        orr_fork_join(b, shared);
    }
    b->modules = outer;
}
