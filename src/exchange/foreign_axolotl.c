/* Axolotl: settings by its docs/config-reference. */
#include <string.h>

#include "exchange/trainers.h"

static const foreign_row axolotl_rows[] = {
    FOREIGN_WITH("base_model", "model"),
    FOREIGN_NUM("sequence_len", "seq"),
    FOREIGN_NUM("micro_batch_size", "mbs"),
    FOREIGN_NUM_OR("gradient_accumulation_steps", "micro_batches", "1"),
    FOREIGN_SAYS("optimizer", "optimizer", TRAINER_OPTIMIZERS),
    FOREIGN_SKIP("bf16"),
    FOREIGN_SKIP("bfloat16"),
    FOREIGN_SKIP("fp16"),
    FOREIGN_SKIP("float16"),
    FOREIGN_NOTE("fp8", "false", "fp8 matmuls of this trainer"),
    FOREIGN_SKIP("tf32"),
    FOREIGN_WITH("adapter", "lora"),
    FOREIGN_WITH("lora_r", "lora"),
    FOREIGN_WITH("lora_target_modules", "lora"),
    FOREIGN_WITH("lora_target_linear", "lora"),
    FOREIGN_NOTE("lora_modules_to_save", NULL, "modules trained whole beside adapters"),
    FOREIGN_SKIP("lora_alpha"),
    FOREIGN_SKIP("lora_dropout"),
    FOREIGN_SKIP("lora_fan_in_fan_out"),
    FOREIGN_SKIP("lora_mlp_kernel"),
    FOREIGN_SKIP("lora_qkv_kernel"),
    FOREIGN_SKIP("lora_o_kernel"),
    FOREIGN_NOTE("peft_use_dora", "false", "DoRA"),
    FOREIGN_NOTE("unfrozen_parameters", NULL, "some parameters are frozen"),
    FOREIGN_WITH("load_in_4bit", "base_dtype"),
    FOREIGN_WITH("load_in_8bit", "base_dtype"),
    FOREIGN_WITH("bnb_config_kwargs.bnb_4bit_use_double_quant", NULL),
    FOREIGN_WITH("gradient_checkpointing", "recompute"),
    FOREIGN_SKIP("gradient_checkpointing_kwargs.*"),
    FOREIGN_WITH("deepspeed", "sharding"),
    FOREIGN_WITH("fsdp", "sharding"),
    FOREIGN_WITH("fsdp_version", NULL),
    FOREIGN_WITH("fsdp_config.offload_params", NULL),
    FOREIGN_WITH("fsdp_config.activation_checkpointing", NULL),
    FOREIGN_WITH("fsdp_config.reshard_after_forward", NULL),
    FOREIGN_SAME("fsdp_config.fsdp_offload_params", "fsdp_config.offload_params"),
    FOREIGN_SAME("fsdp_config.fsdp_activation_checkpointing",
                 "fsdp_config.activation_checkpointing"),
    FOREIGN_SKIP("fsdp_config.*"),
    FOREIGN_NUM("tensor_parallel_size", "tp"),
    FOREIGN_NUM("context_parallel_size", "cp"),
    FOREIGN_SAME("sequence_parallel_degree", "context_parallel_size"),
    FOREIGN_WITH("dp_shard_size", NULL),
    FOREIGN_WITH("dp_replicate_size", NULL),
    FOREIGN_WITH("sample_packing", NULL),
    FOREIGN_SKIP("eval_sample_packing"),
    FOREIGN_SKIP("pad_to_sequence_len"),
    FOREIGN_SKIP("flash_attention"),
    FOREIGN_SKIP("sdp_attention"),
    FOREIGN_SKIP("flex_attention"),
    FOREIGN_NOTE("xformers_attention", "false", "another attention"),
    FOREIGN_NOTE("eager_attention", "false", "unfused attention"),
    FOREIGN_SKIP("plugins"),
    FOREIGN_WITH("liger_fused_linear_cross_entropy", "loss"),
    FOREIGN_SKIP("liger_rope"),
    FOREIGN_SKIP("liger_rms_norm"),
    FOREIGN_SKIP("liger_glu_activation"),
    FOREIGN_SKIP("liger_layer_norm"),
    FOREIGN_WITH("cut_cross_entropy", "loss"),
    FOREIGN_NOTE("torch_compile", "false auto", "the model is compiled"),
    FOREIGN_NOTE("rl", NULL, "a preference or reinforcement loss"),
    FOREIGN_SKIP("datasets"),
    FOREIGN_SKIP("test_datasets"),
    FOREIGN_SKIP("dataset_prepared_path"),
    FOREIGN_SKIP("val_set_size"),
    FOREIGN_SKIP("num_epochs"),
    FOREIGN_SKIP("max_steps"),
    FOREIGN_SKIP("learning_rate"),
    FOREIGN_SKIP("lr_scheduler"),
    FOREIGN_SKIP("warmup_steps"),
    FOREIGN_SKIP("warmup_ratio"),
    FOREIGN_SKIP("weight_decay"),
    FOREIGN_SKIP("special_tokens.*"),
    FOREIGN_SKIP("model_type"),
    FOREIGN_SKIP("tokenizer_type"),
    FOREIGN_SKIP("tokenizer_config"),
    FOREIGN_SKIP("is_llama_derived_model"),
    FOREIGN_SKIP("chat_template"),
    FOREIGN_SKIP("train_on_inputs"),
    FOREIGN_SKIP("group_by_length"),
    FOREIGN_SKIP("strict"),
    FOREIGN_SKIP("hub_model_id"),
    FOREIGN_SKIP("evals_per_epoch"),
    FOREIGN_SKIP("saves_per_epoch"),
    FOREIGN_SKIP("trust_remote_code"),
    FOREIGN_SKIP("shuffle_merged_datasets"),
    FOREIGN_SKIP("early_stopping_patience"),
    FOREIGN_SKIP("low_cpu_mem_usage"),
};

static bool is_axolotl(const orr_tree *tree) {
    return orr_tree_get(tree, "base_model") != NULL &&
           (orr_tree_get(tree, "micro_batch_size") != NULL ||
            orr_tree_get(tree, "sequence_len") != NULL);
}

static void axolotl_lora(importer *im, const orr_tree *tree) {
    const char *adapter = orr_foreign_text(tree, "adapter");
    bool four = orr_foreign_flag(tree, "load_in_4bit", false);
    bool eight = orr_foreign_flag(tree, "load_in_8bit", false);
    uint32_t line = orr_foreign_line(tree, "adapter");
    if (four && eight) {
        orr_import_warn(im, orr_foreign_line(tree, "load_in_8bit"),
                        "load_in_4bit and load_in_8bit contradict; 4 bits are taken");
    }
    if (adapter[0] == '\0') {
        if (four || eight) {
            orr_import_warn(im, orr_foreign_line(tree, four ? "load_in_4bit" : "load_in_8bit"),
                            "a quantized model without an adapter cannot be trained");
        }
        return;
    }
    if (strcmp(adapter, "lora") != 0 && strcmp(adapter, "qlora") != 0) {
        orr_import_unknown(im, "adapter", line, true, "lora and qlora are modelled");
        return;
    }
    if (strcmp(adapter, "qlora") == 0 && !four) {
        orr_import_warn(im, line,
                        "adapter: qlora without load_in_4bit contradict; 4 bits are taken");
        four = true;
    }
    if (orr_foreign_flag(tree, "lora_target_linear", false)) {
        orr_foreign_lora(im, orr_tree_get(tree, "lora_r"),
                         orr_tree_new_text(im->arena, "all-linear"),
                         orr_foreign_line(tree, "lora_r"));
    } else {
        orr_trainer_lora(im, tree, "lora_r", 8, "lora_target_modules", "q_proj,v_proj");
    }
    orr_trainer_base(im, tree, four, eight, "bnb_config_kwargs.bnb_4bit_use_double_quant");
}

static void axolotl_joint(importer *im, const orr_tree *tree) {
    orr_foreign_model_id(im, orr_foreign_text(tree, "base_model"),
                         orr_foreign_line(tree, "base_model"));
    orr_trainer_precision(im, tree, false);
    orr_trainer_sharding(im, tree);
    bool inside = orr_foreign_flag(tree, "fsdp_config.activation_checkpointing", false);
    orr_trainer_recompute(
        im, tree, inside ? "fsdp_config.activation_checkpointing" : "gradient_checkpointing",
        false);
    int64_t shard = orr_foreign_int(tree, "dp_shard_size", 0);
    int64_t replicas = orr_foreign_int(tree, "dp_replicate_size", 1);
    int64_t gpus = orr_foreign_product(
        (const int64_t[]){shard, replicas, orr_foreign_int(tree, "tensor_parallel_size", 1),
                          orr_foreign_int(tree, "context_parallel_size", 1)},
        4);
    if (gpus > 0 && gpus <= 1 << 20) {
        orr_import_put_int(im, "gpus", gpus, orr_foreign_line(tree, "dp_shard_size"));
        if (replicas > 1) {
            orr_import_put_text(im, "sharding", "hsdp",
                                orr_foreign_line(tree, "dp_replicate_size"));
            orr_import_put_int(im, "shard_group", shard, orr_foreign_line(tree, "dp_shard_size"));
        }
    }
    orr_trainer_kernels(im, tree);
    if (orr_foreign_flag(tree, "cut_cross_entropy", false)) {
        orr_import_put_text(im, "loss", "fused", orr_foreign_line(tree, "cut_cross_entropy"));
    }
    axolotl_lora(im, tree);
    orr_trainer_weights(im, tree, true);
    orr_trainer_finish(im, tree, "sample_packing");
}

const foreign_format orr_foreign_axolotl = {
    "axolotl-yaml", axolotl_rows,  sizeof axolotl_rows / sizeof *axolotl_rows,
    is_axolotl,     axolotl_joint, NULL};
