/* What Megatron-Bridge, NeMo 2 and NeMo 1 have in common. */
#ifndef ORR_EXCHANGE_NEMO_H
#define ORR_EXCHANGE_NEMO_H

#include "exchange/dialect.h"
#include "exchange/foreign.h"

#define INVERSE "true=false false=true"
/* Fields of a mixed-precision plugin. */
#define PRECISION(at)                                                                              \
    IS(at ".fp8", "fp8-format"), IS(at ".fp8_recipe", "fp8-recipe"),                               \
        IS(at ".fp8_param_gather", "fp8-param-gather"),                                            \
        WORDS(at ".grad_reduce_in_fp32", "grad-reduce-in-bf16", INVERSE),                          \
        QUIET(at ".params_dtype"), QUIET(at ".params_dtype.*"), QUIET(at ".pipeline_dtype"),       \
        QUIET(at ".pipeline_dtype.*"), QUIET(at ".autocast_dtype"), QUIET(at ".autocast_dtype.*"), \
        QUIET(at ".autocast_enabled"), QUIET(at ".loss_scale"), QUIET(at ".initial_loss_scale"),   \
        QUIET(at ".min_loss_scale"), QUIET(at ".loss_scale_window"), QUIET(at ".hysteresis"),      \
        QUIET(at ".num_layers_at_start_in_bf16"), QUIET(at ".num_layers_at_end_in_bf16"),          \
        QUIET(at ".fp8_margin"), QUIET(at ".fp8_interval"), QUIET(at ".fp8_amax_history_len"),     \
        QUIET(at ".fp8_amax_compute_algo"), QUIET(at ".fp8_wgrad"),                                \
        IS(at ".fp8_dot_product_attention", "fp8-dot-product-attention"),                          \
        IS(at ".fp8_multi_head_attention", "fp8-multi-head-attention")

/* Recipes of both: recipes/, get_mixed_precision_config, DistributedDataParallelConfig. */
enum { ORR_NEMO_DEFAULTS = 6 };
extern const char *const orr_nemo_defaults[ORR_NEMO_DEFAULTS][2];

bool orr_nemo_has(const orr_tree *tree, const char *path);
void orr_nemo_add(importer *im, settings *list, const char *name, const char *value, uint32_t line);
/* "pkg.mod.Llama31Config70B" as "Llama3170B". */
const char *orr_nemo_class(orr_arena *arena, const char *target);
/* A model that its class names; false: the class is not known. */
bool orr_nemo_model(importer *im, const orr_tree *node, megatron_ground *ground);
/* Words that both generations use for what Megatron calls precision. `words` is a recipe's name. */
void orr_nemo_precision(importer *im, const char *words, uint32_t line, settings *list);
/* gated_linear_unit with activation_func, which is a function's name. */
void orr_nemo_activation(importer *im, const orr_tree *model, settings *list);
void orr_nemo_peft(importer *im, const orr_tree *node);
/* trainer.num_nodes x trainer.devices. */
void orr_nemo_gpus(importer *im, const orr_tree *tree);

#endif
