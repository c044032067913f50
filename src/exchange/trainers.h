/* What fine-tuning front ends over Hugging Face models have in common: TRL, Axolotl, LLaMA-Factory.
 * Each function puts the keys of one matter, from a trainer's settings. */
#ifndef ORR_EXCHANGE_TRAINERS_H
#define ORR_EXCHANGE_TRAINERS_H

#include "exchange/foreign.h"

#define TRAINER_OPTIMIZERS                                                                         \
    "adamw_torch=adam adamw_torch_fused=adam adamw_hf=adam adamw_apex_fused=adam adamw=adam "      \
    "paged_adamw=adam paged_adamw_32bit=adam adamw_8bit=adam8bit adamw_bnb_8bit=adam8bit "         \
    "paged_adamw_8bit=adam8bit adamw_torch_8bit=adam8bit muon"

/* Adapters: the settings that hold their rank and targets, and the trainer's defaults. */
void orr_trainer_lora(importer *im, const orr_tree *tree, const char *rank, int64_t rank_default,
                      const char *targets, const char *targets_default);
/* A quantized base; double_: the setting that quantizes its scales too. */
void orr_trainer_base(importer *im, const orr_tree *tree, bool four, bool eight,
                      const char *double_);
/* deepspeed: a path or a map; fsdp: a switch, words or a list. */
void orr_trainer_sharding(importer *im, const orr_tree *tree);
/* by_default: bf16 when neither is stated. */
void orr_trainer_precision(importer *im, const orr_tree *tree, bool by_default);
/* Formats of weights and states where no engine keeps fp32 copies: weights that are loaded in 16
 * bits train in them, others stay fp32 under autocast. FSDP of accelerate keeps fp32 shards. */
void orr_trainer_weights(importer *im, const orr_tree *tree, bool loaded16);
void orr_trainer_kernels(importer *im, const orr_tree *tree);
void orr_trainer_recompute(importer *im, const orr_tree *tree, const char *path, bool by_default);
/* What all of them end with; packing: the setting that packs sequences. */
void orr_trainer_finish(importer *im, const orr_tree *tree, const char *packing);

#endif
