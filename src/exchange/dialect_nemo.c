/* NeMo 2: a recipe as nemo_run exports it (nemo/collections/llm/recipes). NeMo 1: the Hydra files
 * of examples/nlp/language_modeling/conf. */
#include <string.h>

#include "exchange/nemo.h"

/* ---- NeMo 2 --------------------------------------------------------------------------------- */

#define STRATEGY "trainer.strategy"
static const dialect_row nemo2_rows[] = {
    IS("data.micro_batch_size", "micro-batch-size"),
    IS("data.global_batch_size", "global-batch-size"),
    IS("data.seq_length", "seq-length"),
    QUIET("data.*"),
    IS("model.config.seq_length", "seq-length"),
    WORDS("model.config.share_embeddings_and_output_weights", "untie-embeddings-and-output-weights",
          INVERSE),
    IS("model.config.num_moe_experts", "num-experts"),
    QUIET("model.config.gated_linear_unit"),
    QUIET("model.config.activation_func"),
    QUIET("model.config.activation_func.*"),
    QUIET("model.config.bias_activation_fusion"),
    QUIET("model.tokenizer.*"),
    QUIET("model.optim.*"),
    QUIET("trainer.num_nodes"),
    QUIET("trainer.devices"),
    QUIET("trainer.plugins.precision"),
    PRECISION("trainer.plugins"),
    IS("trainer.plugins.fp8_params", "fp8-param-gather"),
    QUIET("trainer.plugins.first_last_layers_bf16"),
    IS(STRATEGY ".virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank"),
    IS(STRATEGY ".num_layers_in_first_pipeline_stage", "decoder-first-pipeline-num-layers"),
    IS(STRATEGY ".num_layers_in_last_pipeline_stage", "decoder-last-pipeline-num-layers"),
    WORDS(STRATEGY ".ddp.grad_reduce_in_fp32", "grad-reduce-in-bf16", INVERSE),
    IS(STRATEGY ".ddp.use_megatron_fsdp", "use-megatron-fsdp"),
    IS(STRATEGY ".ddp.use_custom_fsdp", "use-megatron-fsdp"),
    WORDS(STRATEGY ".fsdp", "use-megatron-fsdp", "megatron=true pytorch=false"),
    QUIET(STRATEGY ".ddp.average_in_collective"),
    QUIET(STRATEGY ".ddp.check_for_nan_in_grad"),
    QUIET(STRATEGY ".pipeline_dtype.*"),
    QUIET(STRATEGY ".pipeline_dtype"),
    QUIET(STRATEGY ".gradient_as_bucket_view"),
    QUIET(STRATEGY ".ckpt_async_save"),
    QUIET(STRATEGY ".ckpt_parallel_load"),
    QUIET(STRATEGY ".ckpt_include_optimizer"),
    QUIET("trainer.callbacks"),
    QUIET("trainer.accumulate_grad_batches"),
    QUIET("trainer.*"),
    IS("optim.config.use_distributed_optimizer", "use-distributed-optimizer"),
    IS("optim.config.optimizer", "optimizer"),
    IS("optim.config.use_precision_aware_optimizer", "use-precision-aware-optimizer"),
    WORDS("optim.config.main_grads_dtype", "main-grads-dtype",
          "torch.float32=fp32 torch.bfloat16=bf16 fp32 bf16"),
    WORDS("optim.config.exp_avg_dtype", "exp-avg-dtype",
          "torch.float32=fp32 torch.bfloat16=bf16 torch.uint8=fp8 fp32 bf16 fp8"),
    WORDS("optim.config.exp_avg_sq_dtype", "exp-avg-sq-dtype",
          "torch.float32=fp32 torch.bfloat16=bf16 torch.uint8=fp8 fp32 bf16 fp8"),
    QUIET("optim.*"),
    QUIET("peft.*"),
    QUIET("log.*"),
    QUIET("resume.*"),
};

static const char *const nemo2_sections[] = {"model.config", STRATEGY, STRATEGY ".ddp", NULL};

static bool is_nemo2(const orr_tree *tree) {
    const char *target = orr_foreign_text(tree, "trainer.strategy._target_");
    return strstr(target, "MegatronStrategy") != NULL ||
           (orr_nemo_has(tree, "trainer.strategy.tensor_model_parallel_size") &&
            orr_nemo_has(tree, "data"));
}

/* The callbacks that change what a step does. */
static void nemo2_callbacks(importer *im, const orr_tree *list, settings *out) {
    static const char *const flags[] = {"tp_comm_overlap", "overlap_grad_reduce",
                                        "overlap_param_gather", "overlap_p2p_comm",
                                        "defer_embedding_wgrad_compute"};
    for (size_t i = 0; i < orr_tree_size(list); i++) {
        const orr_tree *one = orr_tree_at(list, i);
        const char *target = orr_tree_text(orr_tree_get(one, "_target_"), "");
        bool known = strstr(target, "CommOverlap") != NULL;
        bool quiet = strstr(target, "Garbage") != NULL || strstr(target, "Timing") != NULL ||
                     strstr(target, "Checkpoint") != NULL || strstr(target, "Monitor") != NULL ||
                     strstr(target, "FLOPs") != NULL || strstr(target, "Logger") != NULL ||
                     strstr(target, "Transform") != NULL || strstr(target, "Progress") != NULL;
        if (!known && !quiet) {
            orr_import_unknown(im, orr_arena_format(im->arena, "trainer.callbacks %.80s", target),
                               orr_tree_span(one).line, true,
                               "what this callback does is not read");
        }
        for (size_t k = 0; known && k < sizeof flags / sizeof *flags; k++) {
            const orr_tree *flag = orr_tree_get(one, flags[k]);
            if (orr_tree_kind_of(flag) != ORR_TREE_NULL) {
                orr_nemo_add(im, out, flags[k], orr_tree_bool(flag, false) ? "true" : "false",
                             orr_tree_span(flag).line);
            }
        }
    }
}

static void nemo2_joint(importer *im, const orr_tree *tree, settings *list,
                        megatron_ground *ground) {
    const orr_tree *model = orr_tree_path(tree, "model.config");
    const orr_tree *plugins = orr_tree_path(tree, "trainer.plugins");
    const orr_tree *precision = orr_tree_get(plugins, "precision");
    orr_nemo_activation(im, model, list);
    if (orr_tree_kind_of(precision) == ORR_TREE_TEXT) {
        orr_nemo_precision(im, orr_tree_text(precision, ""), orr_tree_span(precision).line, list);
    } else {
        orr_nemo_add(im, list, "bf16", "true", 0);
        orr_import_assume(im, "precision", "bf16", "trainer.plugins does not say");
    }
    if (!orr_nemo_has(plugins, "grad_reduce_in_fp32") &&
        !orr_nemo_has(tree, "trainer.strategy.ddp.grad_reduce_in_fp32")) {
        orr_import_assume(im, "grad_dtype", "fp32",
                          "grad_reduce_in_fp32 is not stated: bf16_mixed and its kin set it");
    }
    if (!orr_nemo_has(model, "num_layers") &&
        !orr_nemo_model(im, orr_tree_get(model, "_target_"), ground)) {
        orr_import_unknown(im, "model.config._target_",
                           orr_foreign_line(tree, "model.config._target_"), true,
                           "this class is not known; give --model");
    }
    nemo2_callbacks(im, orr_tree_path(tree, "trainer.callbacks"), list);
    orr_nemo_gpus(im, tree);
    orr_nemo_peft(im, orr_tree_get(tree, "peft"));
    ground->gpus = (uint32_t)orr_tree_int(orr_tree_get(im->keys, "gpus"), 0);
    ground->software = "megatron-core-2025";
}

const dialect orr_dialect_nemo2 = {.name = "nemo2",
                                   .rows = nemo2_rows,
                                   .count = sizeof nemo2_rows / sizeof *nemo2_rows,
                                   .sections = nemo2_sections,
                                   .defaults = orr_nemo_defaults,
                                   .default_count = ORR_NEMO_DEFAULTS,
                                   .is = is_nemo2,
                                   .joint = nemo2_joint};

/* ---- NeMo 1 --------------------------------------------------------------------------------- */

static const dialect_row nemo1_rows[] = {
    QUIET("trainer.num_nodes"),
    QUIET("trainer.devices"),
    QUIET("trainer.precision"),
    QUIET("trainer.*"),
    QUIET("exp_manager.*"),
    QUIET("run.*"),
    IS("model.encoder_seq_length", "seq-length"),
    IS("model.data.seq_length", "seq-length"),
    QUIET("model.data.*"),
    IS("model.virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank"),
    IS("model.bias", "add-bias-linear"),
    IS("model.qkv_bias", "add-qkv-bias"),
    QUIET("model.activation"),
    WORDS("model.normalization", "normalization",
          "rmsnorm=RMSNorm layernorm=LayerNorm layernorm1p=LayerNorm RMSNorm LayerNorm"),
    WORDS("model.position_embedding_type", "position-embedding-type",
          "rope learned_absolute none alibi=none"),
    WORDS("model.share_embeddings_and_output_weights", "untie-embeddings-and-output-weights",
          INVERSE),
    IS("model.num_moe_experts", "num-experts"),
    IS("model.activations_checkpoint_granularity", "recompute-granularity"),
    IS("model.activations_checkpoint_method", "recompute-method"),
    IS("model.activations_checkpoint_num_layers", "recompute-num-layers"),
    LOST("model.activations_checkpoint_layers_per_pipeline",
         "fewer layers recomputed on later stages"),
    LOST("model.num_micro_batches_with_partial_activation_checkpoints",
         "recompute of some micro-batches"),
    IS("model.ub_tp_comm_overlap", "tp-comm-overlap"),
    IS("model.overlap_p2p_comm", "overlap-p2p-comm"),
    IS("model.use_flash_attention", "use-flash-attn"),
    QUIET("model.fp8"),
    WORDS("model.fp8_e4m3", "fp8-format", "true=e4m3 false="),
    WORDS("model.fp8_hybrid", "fp8-format", "true=hybrid false="),
    IS("model.fp8_params", "fp8-param-gather"),
    QUIET("model.megatron_amp_O2"),
    QUIET("model.grad_allreduce_chunk_size_mb"),
    QUIET("model.optim.name"),
    IS("model.optim.overlap_grad_sync", "overlap-grad-reduce"),
    IS("model.optim.overlap_param_sync", "overlap-param-gather"),
    WORDS("model.optim.grad_sync_dtype", "grad-reduce-in-bf16",
          "bf16=true bfloat16=true fp32=false float32=false"),
    QUIET("model.optim.*"),
    QUIET("model.precision"),
    QUIET("model.tokenizer.*"),
    QUIET("model.mcore_gpt"),
    QUIET("model.transformer_engine"),
    QUIET("model.nsys_profile.*"),
    QUIET("model.peft.*"),
    QUIET("model.gc_interval"),
    LOST("model.fsdp", "PyTorch's FSDP"),
    QUIET("model.batch_p2p_comm"),
    QUIET("model.ffn_dropout"),
    QUIET("model.headscale"),
    QUIET("model.pre_process"),
    QUIET("model.post_process"),
};
static const char *const nemo1_sections[] = {"model", NULL};
/* examples/nlp/language_modeling/conf/megatron_gpt_config.yaml; alltoall of its MoE recipes. */
static const char *const nemo1_defaults[][2] = {
    {"moe-token-dispatcher-type", "alltoall"},
};

static bool is_nemo1(const orr_tree *tree) {
    return orr_nemo_has(tree, "trainer.devices") && orr_nemo_has(tree, "model.micro_batch_size") &&
           (orr_nemo_has(tree, "model.encoder_seq_length") ||
            orr_nemo_has(tree, "model.tensor_model_parallel_size"));
}

static void nemo1_joint(importer *im, const orr_tree *tree, settings *list,
                        megatron_ground *ground) {
    const char *activation = orr_foreign_text(tree, "model.activation");
    uint32_t line = orr_foreign_line(tree, "model.activation");
    if (strstr(activation, "swiglu") != NULL) {
        orr_nemo_add(im, list, "swiglu", "true", line);
    } else if (strstr(activation, "geglu") != NULL) {
        orr_nemo_add(im, list, "quick-geglu", "true", line);
    } else if (strcmp(activation, "squared-relu") == 0) {
        orr_nemo_add(im, list, "squared-relu", "true", line);
    } else if (activation[0] != '\0' && strcmp(activation, "gelu") != 0) {
        orr_import_unknown(im, "model.activation", line, true, "it is not modelled");
    }
    const orr_tree *precision = orr_tree_path(tree, "trainer.precision");
    const char *word = orr_tree_scalar(im->arena, precision);
    bool half = strncmp(word, "16", 2) == 0;
    bool wide = strncmp(word, "32", 2) == 0;
    bool brain = strncmp(word, "bf16", 4) == 0;
    if (precision != NULL && !half && !wide && !brain) {
        orr_import_ask(im, orr_tree_span(precision).line, "precision",
                       "trainer.precision: %.40s is not understood, bf16 is taken", word);
    }
    if (!wide) {
        orr_nemo_add(im, list, half ? "fp16" : "bf16", "true", orr_tree_span(precision).line);
    }
    if (orr_foreign_flag(tree, "model.fp8", false) && !orr_nemo_has(tree, "model.fp8_hybrid") &&
        !orr_nemo_has(tree, "model.fp8_e4m3")) {
        orr_nemo_add(im, list, "fp8-format", "hybrid", orr_foreign_line(tree, "model.fp8"));
    }
    const char *optim = orr_foreign_text(tree, "model.optim.name");
    if (strcmp(optim, "distributed_fused_adam") == 0 ||
        strcmp(optim, "mcore_distributed_optim") == 0) {
        orr_nemo_add(im, list, "use-distributed-optimizer", "true",
                     orr_foreign_line(tree, "model.optim.name"));
    } else if (optim[0] != '\0' && strstr(optim, "adam") == NULL) {
        orr_import_unknown(im, "model.optim.name", orr_foreign_line(tree, "model.optim.name"), true,
                           "this optimizer is not modelled");
    }
    if (!orr_foreign_flag(tree, "model.megatron_amp_O2", false)) {
        orr_import_unknown(im, "model.megatron_amp_O2",
                           orr_foreign_line(tree, "model.megatron_amp_O2"), true,
                           "without it parameters stay in fp32 and are cast in every layer, which "
                           "is not modelled");
    }
    if (!orr_nemo_has(tree, "model.optim.grad_sync_dtype")) {
        orr_nemo_add(im, list, "grad-reduce-in-bf16",
                     strcmp(optim, "distributed_fused_adam") == 0 ? "false" : "true", 0);
        orr_import_assume(im, "grad_dtype",
                          strcmp(optim, "distributed_fused_adam") == 0 ? "fp32" : "bf16",
                          "model.optim.grad_sync_dtype is not stated");
    }
    const orr_tree *peft = orr_tree_path(tree, "model.peft.lora_tuning");
    if (strcmp(orr_foreign_text(tree, "model.peft.peft_scheme"), "lora") == 0) {
        orr_foreign_lora(im, orr_tree_get(peft, "adapter_dim"),
                         orr_tree_get(peft, "target_modules"),
                         orr_foreign_line(tree, "model.peft.peft_scheme"));
    }
    orr_nemo_gpus(im, tree);
    ground->gpus = (uint32_t)orr_tree_int(orr_tree_get(im->keys, "gpus"), 0);
    ground->software = "megatron-core-2024";
}

const dialect orr_dialect_nemo1 = {.name = "nemo1",
                                   .rows = nemo1_rows,
                                   .count = sizeof nemo1_rows / sizeof *nemo1_rows,
                                   .sections = nemo1_sections,
                                   .defaults = nemo1_defaults,
                                   .default_count = sizeof nemo1_defaults / sizeof *nemo1_defaults,
                                   .is = is_nemo1,
                                   .joint = nemo1_joint};
