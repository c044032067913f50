/* Dense MLP, and the byte counts of activations that experts share. */
#include "program/lower_int.h"

/* Bytes an element of the activation's output moves: docs/internals/program.md. */
void orr_add_activation(orr_builder *b, uint16_t name, double elements) {
    const orr_mlp *mlp = &b->key->layer.mlp;
    const orr_traffic traffic = orr_traffic_activation(mlp->gated, b->key->variant.fused_activation,
                                                       mlp->experts > 0 && mlp->bias && mlp->gated);
    orr_add_traffic(b, name, elements, &traffic);
}

void orr_add_mlp_adapters(orr_builder *b, orr_adapter_kind kind, orr_linear up) {
    if (!b->key->layer.mlp.gated) {
        orr_add_adapter(b, ORR_LORA_FC1 | ORR_LORA_UP, kind, up);
        return;
    }
    orr_add_adapter(b, ORR_LORA_FC1, kind, up);
    up.out /= 2;
    orr_add_adapter(b, ORR_LORA_GATE, kind, up);
    orr_add_adapter(b, ORR_LORA_UP, kind, up);
}

void orr_lower_mlp(orr_builder *b) {
    const orr_layer *layer = &b->key->layer;
    const orr_sizes *z = &b->size;
    if (z->ffn == 0) {
        return;
    }
    uint64_t up = layer->mlp.gated ? 2 * z->ffn : z->ffn;
    uint16_t outer = b->modules;
    b->modules |= ORR_MODULE_MLP;
    /* A parallel block is reduced together with attention, and may read its gathered input. */
    uint32_t products = layer->mlp.gated && b->key->variant.separate_projections ? 2 : 1;
    for (uint32_t i = 0; i < products; i++) {
        orr_add_column(b, (orr_linear){.name = ORR_N_FC1,
                                       .tokens = z->n,
                                       .out = up / products,
                                       .in = z->h,
                                       .lone = b->one_norm || i > 0});
    }
    orr_own_linear(b, ORR_OWN_SHARDED, up / products, z->h, layer->mlp.bias ? up / products : 0,
                   ORR_OWN_SHARDED, products);
    orr_add_mlp_adapters(b, ORR_ADAPTER_COLUMN,
                         (orr_linear){.tokens = z->n, .out = up, .in = z->h});
    orr_add_activation(b, ORR_N_ACT, (double)z->n * (double)z->ffn);
    b->tail = b->forward.count;
    orr_add_row(b, (orr_linear){.name = ORR_N_FC2, .tokens = z->n, .out = z->h, .in = z->ffn});
    orr_own_linear(b, ORR_OWN_SHARDED, z->h, z->ffn, layer->mlp.bias ? z->h : 0, ORR_OWN_REPLICATED,
                   1);
    uint32_t end = b->forward.count;
    orr_add_adapter(b, ORR_LORA_DOWN, ORR_ADAPTER_ROW,
                    (orr_linear){.tokens = z->n, .out = z->h, .in = z->ffn});
    b->tail_end = b->forward.count == end ? end : b->tail; /* an adapter's gradient reads on */
    b->modules = outer;
}
