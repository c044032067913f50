/* Inside the config.json reader: which layer stands where. */
#ifndef ORR_MODEL_HF_INT_H
#define ORR_MODEL_HF_INT_H

#include "model/hf_family.h"

/* Adds all layers to a draft. `base` holds what they share: an MoE layer when the model has
 * experts, full attention; dense_ffn is the MLP width of its dense layers. */
orr_status orr_hf_add_layers(orr_draft *draft, const orr_tree *map, const orr_hf_family *family,
                             const orr_layer *base, uint32_t dense_ffn, orr_err *err);

/* The state-space mixer that the config describes, as the attention half of a layer. */
orr_status orr_hf_read_mamba(const orr_tree *map, orr_attention *a, orr_err *err);

#endif
