/* Building models inside this module: all three readers fill a draft layer by layer. */
#ifndef ORR_MODEL_INT_H
#define ORR_MODEL_INT_H

#include "model/model.h"

/* A model under construction: `model` holds the scalars; layers are added in order. */
typedef struct orr_draft {
    orr_arena *arena;
    orr_span span; /* of the file, for messages */
    orr_model model;
    orr_layer *kind;
    uint8_t *layer_kind;
    uint32_t added;
} orr_draft;

/* `layers` is checked here, before anything of its size is allocated. */
orr_status orr_draft_start(orr_draft *draft, orr_arena *arena, const orr_tree *file,
                           uint64_t layers, orr_err *err);
/* Appends one layer; equal layers share a kind. */
orr_status orr_draft_add(orr_draft *draft, const orr_layer *layer, orr_err *err);
/* Checks everything and hands out the model. */
orr_status orr_draft_finish(orr_draft *draft, const char *name, const char *source, orr_model **out,
                            orr_err *err);

/* A plain pre-norm decoder layer that callers then change: RMSNorm, causal rope attention, SiLU
 * gated MLP. */
orr_layer orr_layer_default(uint32_t hidden);

/* Foreign keys: the first of the NULL-terminated `keys` that is present and not null. */
const orr_tree *orr_key_find(const orr_tree *map, const char *const *keys, const char **key);
/* Readers of optional values: absent leaves *value. Wrong types and ranges are errors that name the
 * key. */
orr_status orr_key_u32(const orr_tree *map, const char *const *keys, uint32_t max, uint32_t *value,
                       orr_err *err);
orr_status orr_key_flag(const orr_tree *map, const char *const *keys, uint8_t *value, orr_err *err);
#define ORR_KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* "silu", "gelu_new", "relu2" ... to orr_activation; *gated is set where the word itself says so
 * (swiglu, geglu). */
orr_status orr_activation_parse(const orr_tree *node, uint8_t *activation, uint8_t *gated,
                                orr_err *err);

orr_status orr_model_read_hf(orr_arena *arena, const orr_tree *file, const char *fallback_name,
                             orr_model **out, orr_err *err);

#endif
