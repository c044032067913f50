/* Embedding, head with loss, and what a multi-token-prediction depth adds to its layer. */
#include "program/lower_int.h"
#include "program/traffic.h"

/* Every TP rank looks up the ids of its own rows; the sum over ranks is the embedding. */
static void add_lookup(orr_builder *b) {
    const orr_traffic traffic = orr_traffic_embedding();
    const orr_sizes *z = &b->size;
    double elements = (double)z->n * (double)z->h;
    uint64_t whole = 2 * z->n * z->h;
    orr_add_memory(b, ORR_PHASE_FORWARD, ORR_N_EMBEDDING, ORR_CLASS_ELEMENTWISE, traffic.family,
                   traffic.forward_bytes * elements, traffic.kernels);
    b->weight.tail = -1;
    orr_add_memory(b, ORR_PHASE_WEIGHT_GRAD, ORR_N_EMBEDDING, ORR_CLASS_ELEMENTWISE, traffic.family,
                   b->frozen ? 0 : traffic.backward_bytes * elements, traffic.kernels);
    if (b->tensor) {
        orr_add_tp(b, ORR_PHASE_FORWARD, ORR_N_EMBEDDING,
                   b->sequence ? ORR_REDUCE_SCATTER : ORR_ALL_REDUCE, whole);
    }
    if (b->sequence && !b->frozen) {
        orr_add_tp(b, ORR_PHASE_INPUT_GRAD, ORR_N_EMBEDDING, ORR_ALL_GATHER, whole);
    }
}

void orr_lower_embedding(orr_builder *b) {
    const orr_sizes *z = &b->size;
    double stream = (double)z->sharded * (double)z->h;
    add_lookup(b);
    orr_own(b, ORR_OWN_SHARDED, z->vocab * z->h, 1);
    orr_keep(b, ORR_N_EMBEDDING, ORR_N_T_IDS, 8 * z->n, 0, 0);
    if (b->key->max_seq > 0) {
        orr_own(b, ORR_OWN_REPLICATED, (uint64_t)b->key->max_seq * z->h, 1);
        orr_add_elementwise(b, ORR_N_POSITION, stream, 6, 4, 1);
        orr_keep(b, ORR_N_POSITION, ORR_N_T_IDS, 8 * z->n, 0, 0);
    }
    if (b->key->token_types > 0) {
        orr_own(b, ORR_OWN_REPLICATED, (uint64_t)b->key->token_types * z->h, 1);
        orr_add_elementwise(b, ORR_N_TOKEN_TYPE, stream, 6, 4, 1);
        orr_keep(b, ORR_N_TOKEN_TYPE, ORR_N_T_IDS, 8 * z->n, 0, 0);
    }
    if (b->key->embedding_norm) {
        orr_own_norm(b, z->h, 1);
        orr_add_norm(b, ORR_N_EMBEDDING_NORM, stream);
        orr_keep_norm(b, ORR_N_EMBEDDING_NORM, z->sharded, z->h, 0);
    }
    if (b->key->variant.hidden_dropout) {
        const orr_traffic dropout = orr_traffic_dropout();
        orr_add_elementwise(b, ORR_N_EMBEDDING_DROPOUT, stream, dropout.forward_bytes,
                            dropout.backward_bytes, dropout.kernels);
        orr_keep(b, ORR_N_EMBEDDING_DROPOUT, ORR_N_T_MASK, z->sharded * z->h, 0, 0);
    }
}

/* Vocabulary-parallel cross-entropy reduces the maximum, the target's logit and the sum of
 * exponents: three fp32 values a token. */
static void add_loss(orr_builder *b) {
    const orr_sizes *z = &b->size;
    const orr_traffic cost = orr_traffic_loss((orr_loss_kernel)b->key->variant.loss);
    double logits = (double)z->n * (double)z->vocab;
    if (b->tensor && b->key->variant.loss_gathered) {
        logits = (double)z->n * b->key->vocab;
        orr_add_tp(b, ORR_PHASE_FORWARD, ORR_N_LOSS, ORR_ALL_GATHER, 2 * (uint64_t)logits);
    }
    orr_add_memory(b, ORR_PHASE_FORWARD, ORR_N_LOSS, ORR_CLASS_LOSS, cost.family,
                   cost.forward_bytes * logits, cost.kernels);
    orr_add_memory(b, ORR_PHASE_INPUT_GRAD, ORR_N_LOSS, ORR_CLASS_LOSS, cost.family,
                   cost.backward_bytes * logits, cost.kernels);
    for (int i = 0; i < 3 && !b->key->variant.loss_gathered; i++) {
        orr_add_tp(b, ORR_PHASE_FORWARD, ORR_N_LOSS, ORR_ALL_REDUCE, 4 * z->n);
    }
}

/* An encoder's head begins with a projection and an activation of its own, on every TP rank. */
static void add_transform(orr_builder *b) {
    const orr_sizes *z = &b->size;
    uint64_t elements = z->sharded * z->h;
    orr_add_linear(
        b, (orr_linear){
               .name = ORR_N_TRANSFORM, .tokens = z->sharded, .out = z->h, .in = z->h, .wide = 1});
    orr_own(b, ORR_OWN_REPLICATED, z->h * z->h, 1);
    orr_note_matrix(b, ORR_OWN_REPLICATED, z->h, z->h, 1);
    orr_own(b, ORR_OWN_REPLICATED, z->h, 1);
    orr_keep(b, ORR_N_TRANSFORM, ORR_N_T_INPUT, 2 * elements, 0, 0);
    orr_add_elementwise(b, ORR_N_TRANSFORM, (double)elements, 4, 6, 1);
    orr_keep(b, ORR_N_TRANSFORM, ORR_N_T_GATED, 2 * elements, 0, 0);
}

/* Final norm, logits, loss. */
static void add_head(orr_builder *b) {
    const orr_sizes *z = &b->size;
    if (b->key->encoder) {
        add_transform(b);
    }

    orr_add_norm(b, ORR_N_FINAL_NORM, (double)z->sharded * (double)z->h);
    orr_own_norm(b, z->h, 1);
    orr_keep_norm(b, ORR_N_FINAL_NORM, z->sharded, z->h, 0);
    orr_add_column(
        b,
        (orr_linear){.name = ORR_N_OUTPUT, .tokens = z->n, .out = z->vocab, .in = z->h, .wide = 1});
    if (b->key->variant.loss != ORR_LOSS_FUSED && !b->frozen) { /* which keeps gradients instead */
        orr_keep(b, ORR_N_OUTPUT, ORR_N_T_INPUT, 2 * z->sharded * z->h, 0, 0);
    }
    orr_note_weight(b, z->vocab, z->h);
    add_loss(b);
    orr_keep_loss(b);
}

void orr_lower_head(orr_builder *b) {
    const orr_sizes *z = &b->size;
    add_head(b);
    if (!b->key->tied_first_use) {
        orr_own(b, ORR_OWN_SHARDED, z->vocab * z->h, 1);
    }
    orr_own(b, ORR_OWN_SHARDED, b->key->head_bias ? z->vocab : 0, 1);
}

/* Norms of the hidden state and of the next token's embedding, their projection, and the model's
 * own embedding and head once more. */
void orr_lower_mtp(orr_builder *b) {
    const orr_sizes *z = &b->size;
    double stream = (double)z->sharded * (double)z->h;
    add_lookup(b);
    orr_keep(b, ORR_N_EMBEDDING, ORR_N_T_IDS, 8 * z->n, 0, 0);
    uint32_t copies = b->key->tied_first_use == 0 ? 1 : b->key->tied_first_use == 2 ? 2 : 0;
    orr_own(b, ORR_OWN_SHARDED, z->vocab * z->h, copies);
    orr_own_norm(b, z->h, 2);
    orr_add_norm(b, ORR_N_MTP_ENORM, stream);
    orr_keep_norm(b, ORR_N_MTP_ENORM, z->sharded, z->h, 0);
    orr_add_norm(b, ORR_N_MTP_HNORM, stream);
    orr_keep_norm(b, ORR_N_MTP_HNORM, z->sharded, z->h, 0);
    uint64_t out = z->h / b->key->split.tp;
    orr_add_column(
        b, (orr_linear){.name = ORR_N_MTP_PROJ, .tokens = z->n, .out = out, .in = 2 * z->h});
    orr_own_linear(b, ORR_OWN_SHARDED, out, 2 * z->h, 0, ORR_OWN_SHARDED, 1);
    orr_keep_linear_input(b, ORR_N_MTP_PROJ, 2 * z->sharded * z->h, 0, 0);
    if (b->tensor) { /* column-parallel output, gathered along the width, scattered along tokens */
        orr_add_tp(b, ORR_PHASE_FORWARD, ORR_N_MTP_PROJ, ORR_ALL_GATHER, 2 * z->n * z->h);
    }
    add_head(b);
}
