/* Megatron-Bridge, NeMo 2 and NeMo 1.
 *
 * Bridge: a ConfigContainer as its to_yaml writes it, or an override file of its recipes (names:
 * docs/megatron-lm-to-megatron-bridge.md of the repository,
 * src/megatron/bridge/training/config.py). NeMo 2: a recipe as nemo_run exports it
 * (nemo/collections/llm/recipes). NeMo 1: the Hydra files of examples/nlp/language_modeling/conf.
 */
#include <string.h>

#include "exchange/dialect.h"
#include "exchange/foreign.h"

/* ---- shared --------------------------------------------------------------------------------- */

/* Model classes of NeMo 2 and Bridge by the catalog's names: what is between the family's name and
 * "Config" or "ModelProvider" is left out ("Llama31Config70B", "Llama31ModelProvider70B"). */
static const char *const classes[][2] = {
    {"Llama27B", "llama-2-7b"},
    {"Llama213B", "llama-2-13b"},
    {"Llama270B", "llama-2-70b"},
    {"Llama38B", "llama-3-8b"},
    {"Llama370B", "llama-3-70b"},
    {"Llama318B", "llama-3.1-8b"},
    {"Llama3170B", "llama-3.1-70b"},
    {"Llama31405B", "llama-3.1-405b"},
    {"Llama321B", "llama-3.2-1b"},
    {"Llama323B", "llama-3.2-3b"},
    {"Llama4Experts16", "llama-4-scout"},
    {"Llama4Experts128", "llama-4-maverick"},
    {"Mistral7B", "mistral-7b"},
    {"MistralNeMo12B", "mistral-nemo-12b"},
    {"Mixtral8x7B", "mixtral-8x7b"},
    {"Mixtral8x22B", "mixtral-8x22b"},
    {"DeepSeekV2", "deepseek-v2"},
    {"DeepSeekV2Lite", "deepseek-v2-lite"},
    {"DeepSeekV3", "deepseek-v3"},
    {"Moonlight16B", "moonlight-16b-a3b"},
    {"KimiK2", "kimi-k2"},
    {"Qwen257B", "qwen2.5-7b"},
    {"Qwen2514B", "qwen2.5-14b"},
    {"Qwen2532B", "qwen2.5-32b"},
    {"Qwen2572B", "qwen2.5-72b"},
    {"Qwen3600M", "qwen3-0.6b"},
    {"Qwen31P7B", "qwen3-1.7b"},
    {"Qwen34B", "qwen3-4b"},
    {"Qwen38B", "qwen3-8b"},
    {"Qwen314B", "qwen3-14b"},
    {"Qwen332B", "qwen3-32b"},
    {"Qwen330B_A3B", "qwen3-30b-a3b"},
    {"Qwen3MoE30B_A3B", "qwen3-30b-a3b"},
    {"Qwen3235B_A22B", "qwen3-235b-a22b"},
    {"Qwen3MoE235B_A22B", "qwen3-235b-a22b"},
    {"Qwen3NextNext80B_A3B", "qwen3-next-80b-a3b"},
    {"GPTOSS20B", "gpt-oss-20b"},
    {"GPTOSS120B", "gpt-oss-120b"},
    {"Nemotron38B", "nemotron-3-8b"},
    {"Nemotron415B", "nemotron-4-15b"},
    {"Nemotron4340B", "nemotron-4-340b"},
    {"Gemma2B", "gemma-2b"},
    {"Gemma7B", "gemma-7b"},
    {"Gemma22B", "gemma-2-2b"},
    {"Gemma29B", "gemma-2-9b"},
    {"Gemma227B", "gemma-2-27b"},
    {"Starcoder215B", "starcoder2-15b"},
    {"Starcoder27B", "starcoder2-7b"},
    {"GPT126M", "gpt3-125m"},
    {"GPT5B", NULL},
    {"GPT7B", NULL},
    {"GPT20B", NULL},
    {"GPT40B", NULL},
    {"GPT175B", "gpt3-175b"},
};

/* "pkg.mod.Llama31Config70B" as "Llama3170B". */
static const char *class_stem(orr_arena *arena, const char *target) {
    const char *dot = strrchr(target, '.'), *name = dot != NULL ? dot + 1 : target;
    static const char *const middles[] = {"ModelProvider", "Provider", "Config", "Model"};
    for (size_t i = 0; i < sizeof middles / sizeof *middles; i++) {
        const char *at = strstr(name, middles[i]);
        if (at != NULL) {
            return orr_arena_format(arena, "%.*s%s", (int)(at - name), name,
                                    at + strlen(middles[i]));
        }
    }
    return name;
}

/* A model that its class names; false: the class is not known. */
static bool model_of_class(importer *im, const orr_tree *node, megatron_ground *ground) {
    const char *target = orr_tree_text(node, "");
    const char *stem = class_stem(im->arena, target);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (orr_name_equal(stem, classes[i][0]) && classes[i][1] != NULL) {
            ground->model_name = classes[i][1];
            ground->by_name = true;
            return true;
        }
    }
    return false;
}

static void add(importer *im, settings *list, const char *name, const char *value, uint32_t line) {
    setting one = {.name = name, .value = value, .line = line, .typed = true};
    orr_settings_add(im->arena, list, one);
}

static bool has(const orr_tree *tree, const char *path) {
    return orr_tree_kind_of(orr_tree_path(tree, path)) != ORR_TREE_NULL;
}

/* Words that both generations use for what Megatron calls precision. `words` is a recipe's name. */
static void add_precision(importer *im, const char *words, uint32_t line, settings *list) {
    static const char *const recipes[][2] = {
        {"delayed", "delayed"}, {"current", "tensorwise"},   {"tensorwise", "tensorwise"},
        {"mxfp8", "mxfp8"},     {"subchannel", "blockwise"}, {"blockwise", "blockwise"}};
    bool brain = strstr(words, "bf16") != NULL || strstr(words, "16") == NULL;
    if (strstr(words, "16") == NULL && strstr(words, "fp8") == NULL &&
        strstr(words, "fp4") == NULL) {
        orr_import_ask(im, line, "precision", "no precision recipe '%.40s' is known, bf16 is taken",
                       words);
    }
    add(im, list, brain ? "bf16" : "fp16", "true", line);
    if (strstr(words, "nvfp4") != NULL || strstr(words, "fp4") != NULL) {
        add(im, list, "fp4-format", "e2m1", line);
    } else if (strstr(words, "fp8") != NULL) {
        add(im, list, "fp8-format", "hybrid", line);
        for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
            if (strstr(words, recipes[i][0]) != NULL) {
                add(im, list, "fp8-recipe", recipes[i][1], line);
                return;
            }
        }
    }
}

/* gated_linear_unit with activation_func, which is a function's name. */
static void add_activation(importer *im, const orr_tree *model, settings *list) {
    const orr_tree *node = orr_tree_get(model, "activation_func");
    const char *name = orr_tree_text(node, orr_tree_text(orr_tree_get(node, "_target_"), ""));
    bool gated = orr_tree_bool(orr_tree_get(model, "gated_linear_unit"), false);
    uint32_t line = orr_tree_span(orr_tree_get(model, "gated_linear_unit")).line;
    if (gated && (strstr(name, "silu") != NULL || name[0] == '\0')) {
        add(im, list, "swiglu", "true", line);
    } else if (gated) {
        add(im, list, "quick-geglu", "true", line);
    } else if (strstr(name, "squared_relu") != NULL) {
        add(im, list, "squared-relu", "true", orr_tree_span(node).line);
    }
}

/* ---- Megatron-Bridge ------------------------------------------------------------------------ */

#define INVERSE "true=false false=true"
static const dialect_row bridge_rows[] = {
    {"train.micro_batch_size", "micro-batch-size", NULL, NULL},
    {"train.global_batch_size", "global-batch-size", NULL, NULL},
    {"train.rampup_batch_size", "rampup-batch-size", NULL, NULL},
    {"train.*", NULL, NULL, NULL},
    {"dataset.sequence_length", "seq-length", NULL, NULL},
    {"dataset.seq_length", "seq-length", NULL, NULL},
    {"dataset.packed_sequence_specs.*", NULL, NULL, "packed sequences of different length"},
    {"dataset.*", NULL, NULL, NULL},
    {"model.seq_length", "seq-length", NULL, NULL},
    {"model.share_embeddings_and_output_weights", "untie-embeddings-and-output-weights", INVERSE,
     NULL},
    {"model.num_moe_experts", "num-experts", NULL, NULL},
    {"model.virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank", NULL,
     NULL},
    {"model.num_layers_in_first_pipeline_stage", "decoder-first-pipeline-num-layers", NULL, NULL},
    {"model.num_layers_in_last_pipeline_stage", "decoder-last-pipeline-num-layers", NULL, NULL},
    {"model.microbatch_group_size_per_vp_stage", "microbatch-group-size-per-virtual-pipeline-stage",
     NULL, NULL},
    {"model.gated_linear_unit", NULL, NULL, NULL},
    {"model.activation_func", NULL, NULL, NULL},
    {"model.activation_func.*", NULL, NULL, NULL},
    {"", "swiglu", NULL, NULL},
    {"", "quick-geglu", NULL, NULL},
    {"", "squared-relu", NULL, NULL},
    {"", "group-query-attention", NULL, NULL},
    {"", "bf16", NULL, NULL},
    {"", "fp16", NULL, NULL},
    {"", "fp8-format", NULL, NULL},
    {"", "fp8-recipe", NULL, NULL},
    {"", "fp4-format", NULL, NULL},
    {"model.should_pad_vocab", NULL, NULL, NULL},
    {"model.fp8", "fp8-format", NULL, NULL},
    {"model.fp4", "fp4-format", NULL, NULL},
    {"model.overlap_p2p_comm_warmup_flush", "overlap-p2p-communication-warmup-flush", NULL, NULL},
    {"model.cpu_offloading_num_layers", "cpu-offloading-num-layers", NULL, NULL},
    {"model.cpu_offloading", NULL, NULL, NULL},
    {"model.moe_layer_recompute", "moe-layer-recompute", NULL, NULL},
    {"model.batch_p2p_comm", NULL, NULL, NULL},
    {"model.overlap_p2p_comm", "overlap-p2p-comm", NULL, NULL},
    {"model.use_transformer_engine_full_layer_spec", NULL, NULL, NULL},
    {"model.transformer_layer_spec.*", NULL, NULL, NULL},
    {"model.init_method.*", NULL, NULL, NULL},
    {"model.output_layer_init_method.*", NULL, NULL, NULL},
    {"ddp.use_distributed_optimizer", "use-distributed-optimizer", NULL, NULL},
    {"ddp.overlap_grad_reduce", "overlap-grad-reduce", NULL, NULL},
    {"ddp.overlap_param_gather", "overlap-param-gather", NULL, NULL},
    {"ddp.use_megatron_fsdp", "use-megatron-fsdp", NULL, NULL},
    {"ddp.data_parallel_sharding_strategy", "data-parallel-sharding-strategy", NULL, NULL},
    {"ddp.num_distributed_optimizer_instances", "num-distributed-optimizer-instances", NULL, NULL},
    {"ddp.grad_reduce_in_fp32", "grad-reduce-in-bf16", INVERSE, NULL},
    {"ddp.fp8_param_gather", NULL, NULL, NULL},
    {"ddp.average_in_collective", NULL, NULL, NULL},
    {"ddp.check_for_nan_in_grad", NULL, NULL, NULL},
    {"ddp.check_for_large_grads", NULL, NULL, NULL},
    {"ddp.pad_buckets_for_high_nccl_busbw", NULL, NULL, NULL},
    {"ddp.align_param_gather", NULL, NULL, NULL},
    {"ddp.gradient_reduce_div_fusion", NULL, NULL, NULL},
    {"ddp.preserve_fp32_weights", NULL, NULL, NULL},
    {"ddp.keep_fp8_transpose_cache", NULL, NULL, NULL},
    {"ddp.keep_fp8_transpose_cache_when_using_custom_fsdp", NULL, NULL, NULL},
    {"ddp.reuse_grad_buf_for_mxfp8_param_ag", NULL, NULL, NULL},
    {"ddp.bucket_size", NULL, NULL, NULL},
    {"ddp.fsdp_double_buffer", "fsdp-double-buffer", NULL, NULL},
    {"ddp.nccl_ub", "use-nccl-ub", NULL, NULL},
    {"dist.use_torch_fsdp2", "use-torch-fsdp2", NULL, NULL},
    {"dist.use_tp_pp_dp_mapping", "use-tp-pp-dp-mapping", NULL, NULL},
    {"dist.distributed_backend", NULL, NULL, NULL},
    {"dist.distributed_timeout_minutes", NULL, NULL, NULL},
    {"dist.align_grad_reduce", NULL, NULL, NULL},
    {"dist.use_gloo_process_groups", NULL, NULL, NULL},
    {"dist.local_rank", NULL, NULL, NULL},
    {"dist.lazy_init", NULL, NULL, NULL},
    {"dist.use_megatron_fsdp", NULL, NULL, NULL},
    {"dist.nccl_communicator_config_path", NULL, NULL, NULL},
    {"dist.use_decentralized_pg", NULL, NULL, NULL},
    {"dist.high_priority_stream_groups", NULL, NULL, NULL},
    {"dist.enable_megatron_core_experimental", NULL, NULL, NULL},
    {"dist.distributed_timeout_seconds_after_init", NULL, NULL, NULL},
    {"dist.disable_jit_fuser", NULL, NULL, NULL},
    {"dist.external_gpu_device_mapping", NULL, NULL, NULL},
    {"dist.sharp_enabled_group", NULL, NULL, NULL},
    {"dist.use_sharp", "use-sharp", NULL, NULL},
    {"optimizer.optimizer", "optimizer", NULL, NULL},
    {"optimizer.use_distributed_optimizer", "use-distributed-optimizer", NULL, NULL},
    {"optimizer.use_precision_aware_optimizer", "use-precision-aware-optimizer", NULL, NULL},
    {"optimizer.main_grads_dtype", "main-grads-dtype",
     "torch.float32=fp32 torch.bfloat16=bf16 fp32 bf16", NULL},
    {"optimizer.main_params_dtype", "main-params-dtype",
     "torch.float32=fp32 torch.float16=fp16 fp32 fp16", NULL},
    {"optimizer.exp_avg_dtype", "exp-avg-dtype",
     "torch.float32=fp32 torch.bfloat16=bf16 torch.float16=fp16 torch.uint8=fp8 fp32 bf16 fp16 fp8",
     NULL},
    {"optimizer.exp_avg_sq_dtype", "exp-avg-sq-dtype",
     "torch.float32=fp32 torch.bfloat16=bf16 torch.float16=fp16 torch.uint8=fp8 fp32 bf16 fp16 fp8",
     NULL},
    {"optimizer.optimizer_cpu_offload", "optimizer-cpu-offload", NULL, NULL},
    {"optimizer.optimizer_offload_fraction", "optimizer-offload-fraction", NULL, NULL},
    {"optimizer.lr", NULL, NULL, NULL},
    {"optimizer.min_lr", NULL, NULL, NULL},
    {"optimizer.decoupled_lr", NULL, NULL, NULL},
    {"optimizer.decoupled_min_lr", NULL, NULL, NULL},
    {"optimizer.weight_decay", NULL, NULL, NULL},
    {"optimizer.adam_beta1", NULL, NULL, NULL},
    {"optimizer.adam_beta2", NULL, NULL, NULL},
    {"optimizer.adam_eps", NULL, NULL, NULL},
    {"optimizer.sgd_momentum", NULL, NULL, NULL},
    {"optimizer.clip_grad", NULL, NULL, NULL},
    {"optimizer.log_num_zeros_in_grad", NULL, NULL, NULL},
    {"optimizer.barrier_with_L1_time", NULL, NULL, NULL},
    {"optimizer.bf16", NULL, NULL, NULL},
    {"optimizer.fp16", NULL, NULL, NULL},
    {"optimizer.params_dtype", NULL, NULL, NULL},
    {"optimizer.loss_scale", NULL, NULL, NULL},
    {"optimizer.initial_loss_scale", NULL, NULL, NULL},
    {"optimizer.min_loss_scale", NULL, NULL, NULL},
    {"optimizer.loss_scale_window", NULL, NULL, NULL},
    {"optimizer.hysteresis", NULL, NULL, NULL},
    {"optimizer.store_param_remainders", NULL, NULL, NULL},
    {"optimizer.overlap_param_gather", NULL, NULL, NULL},
    {"optimizer.use_torch_optimizer_for_cpu_offload", NULL, NULL, NULL},
    {"optimizer.pin_cpu_grads", NULL, NULL, NULL},
    {"optimizer.pin_cpu_params", NULL, NULL, NULL},
    {"optimizer.decoupled_weight_decay", NULL, NULL, NULL},
    {"optimizer.fp8_recipe", NULL, NULL, NULL},
    {"optimizer.reuse_grad_buf_for_mxfp8_param_ag", NULL, NULL, NULL},
    {"optimizer.timers", NULL, NULL, NULL},
    {"optimizer.config_logger_dir", NULL, NULL, NULL},
    {"optimizer.use_layer_wise_distributed_optimizer", NULL, NULL, NULL},
    {"optimizer.muon_momentum", NULL, NULL, NULL},
    {"optimizer.muon_use_nesterov", NULL, NULL, NULL},
    {"optimizer.muon_num_ns_steps", NULL, NULL, NULL},
    {"optimizer.muon_scale_mode", NULL, NULL, NULL},
    {"optimizer.muon_extra_scale_factor", NULL, NULL, NULL},
    {"optimizer.muon_split_qkv", NULL, NULL, NULL},
    {"optimizer.muon_fp32_matmul_prec", NULL, NULL, NULL},
    {"optimizer.muon_tp_mode", NULL, NULL, NULL},
    {"optimizer.overlap_cpu_optimizer_d2h_h2d", NULL, NULL, NULL},
    {"optimizer.overlap_param_gather_with_optimizer_step",
     "overlap-param-gather-with-optimizer-step", NULL, NULL},
    {"mixed_precision", NULL, NULL, NULL},
    {"mixed_precision.bf16", "bf16", NULL, NULL},
    {"mixed_precision.fp16", "fp16", NULL, NULL},
    {"mixed_precision.fp8", "fp8-format", NULL, NULL},
    {"mixed_precision.fp8_recipe", "fp8-recipe", NULL, NULL},
    {"mixed_precision.fp8_param_gather", "fp8-param-gather", NULL, NULL},
    {"mixed_precision.fp8_param", "fp8-param-gather", NULL, NULL},
    {"mixed_precision.fp4", "fp4-format", NULL, NULL},
    {"mixed_precision.grad_reduce_in_fp32", "grad-reduce-in-bf16", INVERSE, NULL},
    {"mixed_precision.first_last_layers_bf16", "first-last-layers-bf16", NULL, NULL},
    {"mixed_precision.params_dtype", NULL, NULL, NULL},
    {"mixed_precision.pipeline_dtype", NULL, NULL, NULL},
    {"mixed_precision.autocast_dtype", NULL, NULL, NULL},
    {"mixed_precision.autocast_enabled", NULL, NULL, NULL},
    {"mixed_precision.enable_autocast", NULL, NULL, NULL},
    {"mixed_precision.fp32", NULL, NULL, NULL},
    {"mixed_precision.loss_scale", NULL, NULL, NULL},
    {"mixed_precision.initial_loss_scale", NULL, NULL, NULL},
    {"mixed_precision.min_loss_scale", NULL, NULL, NULL},
    {"mixed_precision.loss_scale_window", NULL, NULL, NULL},
    {"mixed_precision.hysteresis", NULL, NULL, NULL},
    {"mixed_precision.num_layers_at_start_in_bf16", NULL, NULL, NULL},
    {"mixed_precision.num_layers_at_end_in_bf16", NULL, NULL, NULL},
    {"mixed_precision.fp8_margin", NULL, NULL, NULL},
    {"mixed_precision.fp8_interval", NULL, NULL, NULL},
    {"mixed_precision.fp8_amax_history_len", NULL, NULL, NULL},
    {"mixed_precision.fp8_amax_compute_algo", NULL, NULL, NULL},
    {"mixed_precision.fp8_wgrad", NULL, NULL, NULL},
    {"mixed_precision.reuse_grad_buf_for_mxfp8_param_ag", NULL, NULL, NULL},
    {"mixed_precision.fp8_recipe_dtype", NULL, NULL, NULL},
    {"mixed_precision.params_dtype.*", NULL, NULL, NULL},
    {"mixed_precision.pipeline_dtype.*", NULL, NULL, NULL},
    {"mixed_precision.autocast_dtype.*", NULL, NULL, NULL},
    {"mixed_precision.fp8_dot_product_attention", NULL, NULL, "attention in fp8"},
    {"mixed_precision.fp8_multi_head_attention", NULL, NULL, "attention in fp8"},
    {"comm_overlap.tp_comm_overlap", "tp-comm-overlap", NULL, NULL},
    {"comm_overlap.overlap_p2p_comm", "overlap-p2p-comm", NULL, NULL},
    {"comm_overlap.overlap_grad_reduce", "overlap-grad-reduce", NULL, NULL},
    {"comm_overlap.overlap_param_gather", "overlap-param-gather", NULL, NULL},
    {"comm_overlap.overlap_moe_expert_parallel_comm", "overlap-moe-expert-parallel-comm", NULL,
     NULL},
    {"comm_overlap.delay_wgrad_compute", "delay-wgrad-compute", NULL, NULL},
    {"comm_overlap.defer_embedding_wgrad_compute", "defer-embedding-wgrad-compute", NULL, NULL},
    {"comm_overlap.tp_comm_overlap_cfg.*", NULL, NULL, NULL},
    {"comm_overlap.tp_comm_bootstrap_backend", NULL, NULL, NULL},
    {"comm_overlap.batch_p2p_comm", NULL, NULL, NULL},
    {"comm_overlap.wgrad_deferral_limit", NULL, NULL, NULL},
    {"comm_overlap.bucket_size", NULL, NULL, NULL},
    {"comm_overlap.data_parallel_size", NULL, NULL, NULL},
    {"comm_overlap.align_param_gather", NULL, NULL, NULL},
    {"comm_overlap.overlap_param_gather_with_optimizer_step",
     "overlap-param-gather-with-optimizer-step", NULL, NULL},
    {"peft.*", NULL, NULL, NULL},
    {"tokenizer.vocab_size", NULL, NULL, NULL},
    {"scheduler.*", NULL, NULL, NULL},
    {"tokenizer.*", NULL, NULL, NULL},
    {"checkpoint.*", NULL, NULL, NULL},
    {"logger.*", NULL, NULL, NULL},
    {"rng.*", NULL, NULL, NULL},
    {"profiling.*", NULL, NULL, NULL},
    {"ft.*", NULL, NULL, NULL},
    {"straggler.*", NULL, NULL, NULL},
    {"nvrx_straggler.*", NULL, NULL, NULL},
    {"inprocess_restart.*", NULL, NULL, NULL},
    {"rerun_state_machine.*", NULL, NULL, NULL},
    {"tensor_inspect.*", NULL, NULL, NULL},
    {"validation.*", NULL, NULL, NULL},
};

static const char *const bridge_sections[] = {"model", NULL};
/* Recipes of both: recipes/, get_mixed_precision_config, DistributedDataParallelConfig. */
static const char *const bridge_defaults[][2] = {
    {"use-distributed-optimizer", "true"},
    {"overlap-grad-reduce", "true"},
    {"overlap-param-gather", "true"},
    {"hidden-dropout", "0"},
    {"attention-dropout", "0"},
    {"moe-token-dispatcher-type", "alltoall"},
};

static bool is_bridge(const orr_tree *tree) {
    bool train = has(tree, "train.micro_batch_size") || has(tree, "train.global_batch_size");
    return train && (has(tree, "model") || has(tree, "mixed_precision") || has(tree, "ddp") ||
                     has(tree, "dataset"));
}

static void peft_of(importer *im, const orr_tree *node) {
    if (orr_tree_kind_of(node) != ORR_TREE_NULL) {
        orr_foreign_lora(im, orr_tree_get(node, "dim"), orr_tree_get(node, "target_modules"),
                         orr_tree_span(node).line);
    }
}

static void bridge_joint(importer *im, const orr_tree *tree, settings *list,
                         megatron_ground *ground) {
    const orr_tree *model = orr_tree_get(tree, "model");
    const orr_tree *mixed = orr_tree_get(tree, "mixed_precision");
    add_activation(im, model, list);
    if (orr_tree_kind_of(mixed) == ORR_TREE_TEXT) {
        add_precision(im, orr_tree_text(mixed, ""), orr_tree_span(mixed).line, list);
    } else if (mixed == NULL && !has(model, "bf16") && !has(model, "fp16")) {
        add(im, list, "bf16", "true", 0);
        orr_import_assume(im, "precision", "bf16", "recipes take bf16_mixed unless told otherwise");
    }
    if (!has(model, "num_layers") && !model_of_class(im, orr_tree_get(model, "_target_"), ground)) {
        const char *target = orr_tree_text(orr_tree_get(model, "_target_"), NULL);
        if (target != NULL) {
            orr_import_unknown(im, "model._target_", orr_foreign_line(model, "_target_"), true,
                               "this class is not known; give --model");
        }
    }
    if (has(model, "num_layers") && has(model, "_target_")) {
        ground->model_name = class_stem(im->arena, orr_foreign_text(model, "_target_"));
    }
    if (!has(tree, "mixed_precision.grad_reduce_in_fp32") &&
        !has(tree, "ddp.grad_reduce_in_fp32") && !has(tree, "optimizer.main_grads_dtype")) {
        orr_import_assume(im, "grad_dtype", "fp32",
                          "grad_reduce_in_fp32 is not stated: bf16_mixed and its kin set it");
    }
    peft_of(im, orr_tree_get(tree, "peft"));
    ground->software = "megatron-core-2026";
    ground->asks = true;
}

/* Precision by its preset, and the gate with its function. */
static void bridge_write(exporter *x) {
    static const char *const presets[][2] = {
        {"bf16", "bf16_mixed"},
        {"fp16", "fp16_mixed"},
        {"fp8", "bf16_with_fp8_delayed_scaling_mixed"},
        {"fp8_cs", "bf16_with_fp8_current_scaling_mixed"},
        {"fp8_mx", "bf16_with_mxfp8_mixed"},
        {"fp8_blockwise", "bf16_with_fp8_subchannel_scaling_mixed"},
        {"nvfp4", "bf16_with_nvfp4_mixed"}};
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        if (strcmp(orr_export_word(x, "precision"), presets[i][0]) == 0) {
            orr_export_text(x, "mixed_precision", presets[i][1]);
        }
    }
    const orr_tree *lora = orr_export_node(x, "lora");
    if (orr_tree_kind_of(lora) == ORR_TREE_MAP) {
        const orr_tree *targets = orr_tree_get(lora, "targets");
        orr_export_int(x, "peft.dim", orr_tree_int(orr_tree_get(lora, "rank"), 0));
        if (targets != NULL) {
            orr_export_set(x, "peft.target_modules", orr_tree_copy(x->arena, targets));
        }
    }
    const orr_tree *card = x->model;
    if (card == NULL) {
        return;
    }
    const char *activation = orr_tree_text(orr_tree_get(card, "activation"), "silu");
    bool gated = orr_tree_bool(orr_tree_get(card, "gated"), true);
    orr_export_flag(x, "model.gated_linear_unit", gated);
    orr_export_text(x, "model.activation_func._target_",
                    strcmp(activation, "relu2") == 0
                        ? "megatron.core.activations.squared_relu"
                        : orr_arena_format(x->arena, "torch.nn.functional.%s", activation));
    orr_export_flag(x, "model.activation_func._call_", false);
}

const dialect orr_dialect_bridge = {.name = "megatron-bridge",
                                    .rows = bridge_rows,
                                    .count = sizeof bridge_rows / sizeof *bridge_rows,
                                    .sections = bridge_sections,
                                    .defaults = bridge_defaults,
                                    .default_count =
                                        sizeof bridge_defaults / sizeof *bridge_defaults,
                                    .is = is_bridge,
                                    .joint = bridge_joint,
                                    .write = bridge_write};

/* ---- NeMo 2 --------------------------------------------------------------------------------- */

#define STRATEGY "trainer.strategy"
static const dialect_row nemo2_rows[] = {
    {"data.micro_batch_size", "micro-batch-size", NULL, NULL},
    {"data.global_batch_size", "global-batch-size", NULL, NULL},
    {"data.seq_length", "seq-length", NULL, NULL},
    {"data.*", NULL, NULL, NULL},
    {"model.config.seq_length", "seq-length", NULL, NULL},
    {"model.config.share_embeddings_and_output_weights", "untie-embeddings-and-output-weights",
     INVERSE, NULL},
    {"model.config.num_moe_experts", "num-experts", NULL, NULL},
    {"model.config.gated_linear_unit", NULL, NULL, NULL},
    {"model.config.activation_func", NULL, NULL, NULL},
    {"model.config.activation_func.*", NULL, NULL, NULL},
    {"model.config.bias_activation_fusion", NULL, NULL, NULL},
    {"model.tokenizer.*", NULL, NULL, NULL},
    {"model.optim.*", NULL, NULL, NULL},
    {"trainer.num_nodes", NULL, NULL, NULL},
    {"trainer.devices", NULL, NULL, NULL},
    {"trainer.plugins.precision", NULL, NULL, NULL},
    {"trainer.plugins.fp8", "fp8-format", NULL, NULL},
    {"trainer.plugins.fp8_recipe", "fp8-recipe", NULL, NULL},
    {"trainer.plugins.fp8_params", "fp8-param-gather", NULL, NULL},
    {"trainer.plugins.fp8_param_gather", "fp8-param-gather", NULL, NULL},
    {"trainer.plugins.grad_reduce_in_fp32", "grad-reduce-in-bf16", INVERSE, NULL},
    {"trainer.plugins.params_dtype.*", NULL, NULL, NULL},
    {"trainer.plugins.params_dtype", NULL, NULL, NULL},
    {"trainer.plugins.pipeline_dtype.*", NULL, NULL, NULL},
    {"trainer.plugins.pipeline_dtype", NULL, NULL, NULL},
    {"trainer.plugins.autocast_dtype.*", NULL, NULL, NULL},
    {"trainer.plugins.autocast_dtype", NULL, NULL, NULL},
    {"trainer.plugins.autocast_enabled", NULL, NULL, NULL},
    {"trainer.plugins.fp8_margin", NULL, NULL, NULL},
    {"trainer.plugins.fp8_interval", NULL, NULL, NULL},
    {"trainer.plugins.fp8_amax_history_len", NULL, NULL, NULL},
    {"trainer.plugins.fp8_amax_compute_algo", NULL, NULL, NULL},
    {"trainer.plugins.fp8_wgrad", NULL, NULL, NULL},
    {"trainer.plugins.loss_scale", NULL, NULL, NULL},
    {"trainer.plugins.initial_loss_scale", NULL, NULL, NULL},
    {"trainer.plugins.min_loss_scale", NULL, NULL, NULL},
    {"trainer.plugins.loss_scale_window", NULL, NULL, NULL},
    {"trainer.plugins.hysteresis", NULL, NULL, NULL},
    {"trainer.plugins.num_layers_at_start_in_bf16", NULL, NULL, NULL},
    {"trainer.plugins.num_layers_at_end_in_bf16", NULL, NULL, NULL},
    {"trainer.plugins.first_last_layers_bf16", NULL, NULL, NULL},
    {"trainer.plugins.fp8_dot_product_attention", NULL, NULL, "attention in fp8"},
    {"trainer.plugins.fp8_multi_head_attention", NULL, NULL, "attention in fp8"},
    {STRATEGY ".virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank", NULL,
     NULL},
    {STRATEGY ".num_layers_in_first_pipeline_stage", "decoder-first-pipeline-num-layers", NULL,
     NULL},
    {STRATEGY ".num_layers_in_last_pipeline_stage", "decoder-last-pipeline-num-layers", NULL, NULL},
    {STRATEGY ".ddp.grad_reduce_in_fp32", "grad-reduce-in-bf16", INVERSE, NULL},
    {STRATEGY ".ddp.use_megatron_fsdp", "use-megatron-fsdp", NULL, NULL},
    {STRATEGY ".ddp.use_custom_fsdp", "use-megatron-fsdp", NULL, NULL},
    {STRATEGY ".fsdp", "use-megatron-fsdp", "megatron=true pytorch=false", NULL},
    {STRATEGY ".ddp.average_in_collective", NULL, NULL, NULL},
    {STRATEGY ".ddp.check_for_nan_in_grad", NULL, NULL, NULL},
    {STRATEGY ".pipeline_dtype.*", NULL, NULL, NULL},
    {STRATEGY ".pipeline_dtype", NULL, NULL, NULL},
    {STRATEGY ".gradient_as_bucket_view", NULL, NULL, NULL},
    {STRATEGY ".ckpt_async_save", NULL, NULL, NULL},
    {STRATEGY ".ckpt_parallel_load", NULL, NULL, NULL},
    {STRATEGY ".ckpt_include_optimizer", NULL, NULL, NULL},
    {"trainer.callbacks", NULL, NULL, NULL},
    {"trainer.accumulate_grad_batches", NULL, NULL, NULL},
    {"trainer.*", NULL, NULL, NULL},
    {"optim.config.use_distributed_optimizer", "use-distributed-optimizer", NULL, NULL},
    {"optim.config.optimizer", "optimizer", NULL, NULL},
    {"optim.config.use_precision_aware_optimizer", "use-precision-aware-optimizer", NULL, NULL},
    {"optim.config.main_grads_dtype", "main-grads-dtype",
     "torch.float32=fp32 torch.bfloat16=bf16 fp32 bf16", NULL},
    {"optim.config.exp_avg_dtype", "exp-avg-dtype",
     "torch.float32=fp32 torch.bfloat16=bf16 torch.uint8=fp8 fp32 bf16 fp8", NULL},
    {"optim.config.exp_avg_sq_dtype", "exp-avg-sq-dtype",
     "torch.float32=fp32 torch.bfloat16=bf16 torch.uint8=fp8 fp32 bf16 fp8", NULL},
    {"optim.*", NULL, NULL, NULL},
    {"peft.*", NULL, NULL, NULL},
    {"log.*", NULL, NULL, NULL},
    {"resume.*", NULL, NULL, NULL},
};

static const char *const nemo2_sections[] = {"model.config", STRATEGY, STRATEGY ".ddp", NULL};

static bool is_nemo2(const orr_tree *tree) {
    const char *target = orr_foreign_text(tree, "trainer.strategy._target_");
    return strstr(target, "MegatronStrategy") != NULL ||
           (has(tree, "trainer.strategy.tensor_model_parallel_size") && has(tree, "data"));
}

static void put_gpus(importer *im, const orr_tree *tree) {
    int64_t nodes = orr_foreign_int(tree, "trainer.num_nodes", 1);
    int64_t devices = orr_foreign_int(tree, "trainer.devices", 0);
    int64_t gpus = orr_foreign_product((const int64_t[]){nodes, devices}, 2);
    if (gpus > 0 && gpus <= 1 << 20) {
        orr_import_put_int(im, "gpus", gpus, orr_foreign_line(tree, "trainer.devices"));
        orr_import_put_int(im, "nodes", nodes, orr_foreign_line(tree, "trainer.num_nodes"));
    } else if (has(tree, "trainer.devices")) {
        orr_import_unknown(im, "trainer.devices", orr_foreign_line(tree, "trainer.devices"), true,
                           "the number of GPUs is not a number here");
    }
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
                add(im, out, flags[k], orr_tree_bool(flag, false) ? "true" : "false",
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
    add_activation(im, model, list);
    if (orr_tree_kind_of(precision) == ORR_TREE_TEXT) {
        add_precision(im, orr_tree_text(precision, ""), orr_tree_span(precision).line, list);
    } else {
        add(im, list, "bf16", "true", 0);
        orr_import_assume(im, "precision", "bf16", "trainer.plugins does not say");
    }
    if (!has(plugins, "grad_reduce_in_fp32") &&
        !has(tree, "trainer.strategy.ddp.grad_reduce_in_fp32")) {
        orr_import_assume(im, "grad_dtype", "fp32",
                          "grad_reduce_in_fp32 is not stated: bf16_mixed and its kin set it");
    }
    if (!has(model, "num_layers") && !model_of_class(im, orr_tree_get(model, "_target_"), ground)) {
        orr_import_unknown(im, "model.config._target_",
                           orr_foreign_line(tree, "model.config._target_"), true,
                           "this class is not known; give --model");
    }
    nemo2_callbacks(im, orr_tree_path(tree, "trainer.callbacks"), list);
    put_gpus(im, tree);
    peft_of(im, orr_tree_get(tree, "peft"));
    ground->gpus = (uint32_t)orr_tree_int(orr_tree_get(im->keys, "gpus"), 0);
    ground->software = "megatron-core-2025";
    ground->asks = true;
}

const dialect orr_dialect_nemo2 = {.name = "nemo2",
                                   .rows = nemo2_rows,
                                   .count = sizeof nemo2_rows / sizeof *nemo2_rows,
                                   .sections = nemo2_sections,
                                   .defaults = bridge_defaults,
                                   .default_count =
                                       sizeof bridge_defaults / sizeof *bridge_defaults,
                                   .is = is_nemo2,
                                   .joint = nemo2_joint};

/* ---- NeMo 1 --------------------------------------------------------------------------------- */

static const dialect_row nemo1_rows[] = {
    {"trainer.num_nodes", NULL, NULL, NULL},
    {"trainer.devices", NULL, NULL, NULL},
    {"trainer.precision", NULL, NULL, NULL},
    {"trainer.*", NULL, NULL, NULL},
    {"exp_manager.*", NULL, NULL, NULL},
    {"run.*", NULL, NULL, NULL},
    {"model.encoder_seq_length", "seq-length", NULL, NULL},
    {"model.data.seq_length", "seq-length", NULL, NULL},
    {"model.data.*", NULL, NULL, NULL},
    {"model.virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank", NULL,
     NULL},
    {"model.bias", "add-bias-linear", NULL, NULL},
    {"model.qkv_bias", "add-qkv-bias", NULL, NULL},
    {"model.activation", NULL, NULL, NULL},
    {"model.normalization", "normalization",
     "rmsnorm=RMSNorm layernorm=LayerNorm layernorm1p=LayerNorm RMSNorm LayerNorm", NULL},
    {"model.position_embedding_type", "position-embedding-type",
     "rope learned_absolute none alibi=none", NULL},
    {"model.share_embeddings_and_output_weights", "untie-embeddings-and-output-weights", INVERSE,
     NULL},
    {"model.num_moe_experts", "num-experts", NULL, NULL},
    {"model.activations_checkpoint_granularity", "recompute-granularity", NULL, NULL},
    {"model.activations_checkpoint_method", "recompute-method", NULL, NULL},
    {"model.activations_checkpoint_num_layers", "recompute-num-layers", NULL, NULL},
    {"model.activations_checkpoint_layers_per_pipeline", NULL, NULL,
     "fewer layers recomputed on later stages"},
    {"model.num_micro_batches_with_partial_activation_checkpoints", NULL, NULL,
     "recompute of some micro-batches"},
    {"model.ub_tp_comm_overlap", "tp-comm-overlap", NULL, NULL},
    {"model.overlap_p2p_comm", "overlap-p2p-comm", NULL, NULL},
    {"model.use_flash_attention", "use-flash-attn", NULL, NULL},
    {"model.fp8", NULL, NULL, NULL},
    {"model.fp8_e4m3", "fp8-format", "true=e4m3 false=", NULL},
    {"model.fp8_hybrid", "fp8-format", "true=hybrid false=", NULL},
    {"model.fp8_params", "fp8-param-gather", NULL, NULL},
    {"model.megatron_amp_O2", NULL, NULL, NULL},
    {"model.grad_allreduce_chunk_size_mb", NULL, NULL, NULL},
    {"model.optim.name", NULL, NULL, NULL},
    {"model.optim.overlap_grad_sync", "overlap-grad-reduce", NULL, NULL},
    {"model.optim.overlap_param_sync", "overlap-param-gather", NULL, NULL},
    {"model.optim.grad_sync_dtype", "grad-reduce-in-bf16",
     "bf16=true bfloat16=true fp32=false float32=false", NULL},
    {"model.optim.*", NULL, NULL, NULL},
    {"model.precision", NULL, NULL, NULL},
    {"model.tokenizer.*", NULL, NULL, NULL},
    {"model.mcore_gpt", NULL, NULL, NULL},
    {"model.transformer_engine", NULL, NULL, NULL},
    {"model.nsys_profile.*", NULL, NULL, NULL},
    {"model.peft.*", NULL, NULL, NULL},
    {"model.gc_interval", NULL, NULL, NULL},
    {"model.fsdp", NULL, NULL, "PyTorch's FSDP"},
    {"model.batch_p2p_comm", NULL, NULL, NULL},
    {"model.ffn_dropout", NULL, NULL, NULL},
    {"model.headscale", NULL, NULL, NULL},
    {"model.pre_process", NULL, NULL, NULL},
    {"model.post_process", NULL, NULL, NULL},
};
static const char *const nemo1_sections[] = {"model", NULL};
/* examples/nlp/language_modeling/conf/megatron_gpt_config.yaml; alltoall of its MoE recipes. */
static const char *const nemo1_defaults[][2] = {
    {"moe-token-dispatcher-type", "alltoall"},
};

static bool is_nemo1(const orr_tree *tree) {
    return has(tree, "trainer.devices") && has(tree, "model.micro_batch_size") &&
           (has(tree, "model.encoder_seq_length") || has(tree, "model.tensor_model_parallel_size"));
}

static void nemo1_joint(importer *im, const orr_tree *tree, settings *list,
                        megatron_ground *ground) {
    const char *activation = orr_foreign_text(tree, "model.activation");
    uint32_t line = orr_foreign_line(tree, "model.activation");
    if (strstr(activation, "swiglu") != NULL) {
        add(im, list, "swiglu", "true", line);
    } else if (strstr(activation, "geglu") != NULL) {
        add(im, list, "quick-geglu", "true", line);
    } else if (strcmp(activation, "squared-relu") == 0) {
        add(im, list, "squared-relu", "true", line);
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
        add(im, list, half ? "fp16" : "bf16", "true", orr_tree_span(precision).line);
    }
    if (orr_foreign_flag(tree, "model.fp8", false) && !has(tree, "model.fp8_hybrid") &&
        !has(tree, "model.fp8_e4m3")) {
        add(im, list, "fp8-format", "hybrid", orr_foreign_line(tree, "model.fp8"));
    }
    const char *optim = orr_foreign_text(tree, "model.optim.name");
    if (strcmp(optim, "distributed_fused_adam") == 0 ||
        strcmp(optim, "mcore_distributed_optim") == 0) {
        add(im, list, "use-distributed-optimizer", "true",
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
    if (!has(tree, "model.optim.grad_sync_dtype")) {
        add(im, list, "grad-reduce-in-bf16",
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
    put_gpus(im, tree);
    ground->gpus = (uint32_t)orr_tree_int(orr_tree_get(im->keys, "gpus"), 0);
    ground->software = "megatron-core-2024";
    ground->asks = true;
}

const dialect orr_dialect_nemo1 = {.name = "nemo1",
                                   .rows = nemo1_rows,
                                   .count = sizeof nemo1_rows / sizeof *nemo1_rows,
                                   .sections = nemo1_sections,
                                   .defaults = nemo1_defaults,
                                   .default_count = sizeof nemo1_defaults / sizeof *nemo1_defaults,
                                   .is = is_nemo1,
                                   .joint = nemo1_joint};

/* ---- Primus --------------------------------------------------------------------------------- */

/* Its names are those of Megatron-LM's own variables (its reader: primus.c). */
static const dialect_row primus_rows[] = {
    {"modules.pre_trainer.overrides.fp8", "fp8-format", NULL, NULL},
    {"modules.pre_trainer.overrides.fp4", "fp4-format", NULL, NULL},
    {"", "use-flash-attn", NULL, NULL},
};
static const char *const primus_sections[] = {"modules.pre_trainer.overrides", NULL};

/* primus/configs: modules/megatron/pre_trainer.yaml and trainer_base.yaml, models/megatron/
 * language_model.yaml, where they differ from Megatron-LM's defaults. */
static const char *const primus_defaults[][2] = {
    {"bf16", "true"},
    {"use-distributed-optimizer", "true"},
    {"use-flash-attn", "true"},
    {"sequence-parallel", "true"},
    {"data-parallel-sharding-strategy", "no_shard"},
};

const dialect orr_dialect_primus = {.name = "primus",
                                    .rows = primus_rows,
                                    .count = sizeof primus_rows / sizeof *primus_rows,
                                    .sections = primus_sections,
                                    .defaults = primus_defaults,
                                    .default_count =
                                        sizeof primus_defaults / sizeof *primus_defaults};
