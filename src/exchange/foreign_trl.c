/* TRL (trl/trainer/sft_config.py and model_config.py) and LLaMA-Factory (its hparams), both over
 * transformers' TrainingArguments; a command line of those is read by the same table. */
#include <string.h>

#include "exchange/trainers.h"

/* ---- TRL ------------------------------------------------------------------------------------ */

#define TRAINING_ARGUMENTS                                                                         \
    FOREIGN_NUM_OR("per_device_train_batch_size", "mbs", "8"),                                     \
        FOREIGN_NUM_OR("gradient_accumulation_steps", "micro_batches", "1"), FOREIGN_SKIP("bf16"), \
        FOREIGN_SKIP("fp16"), FOREIGN_WITH("gradient_checkpointing", "recompute"),                 \
        FOREIGN_SKIP("gradient_checkpointing_kwargs.*"),                                           \
        FOREIGN_SAYS("optim", "optimizer", TRAINER_OPTIMIZERS),                                    \
        FOREIGN_WITH("deepspeed", "sharding"), FOREIGN_WITH("fsdp", "sharding"),                   \
        FOREIGN_WITH("fsdp_config.fsdp_version", NULL), FOREIGN_SKIP("fsdp_config.*"),             \
        FOREIGN_WITH("use_liger_kernel", "loss"),                                                  \
        FOREIGN_WITH("attn_implementation", "attention"),                                          \
        FOREIGN_NOTE("torch_compile", "false", "the model is compiled"),                           \
        FOREIGN_NOTE("auto_find_batch_size", "false", "the batch is found by trying"),             \
        FOREIGN_NOTE("neftune_noise_alpha", NULL, "noise on embeddings"), FOREIGN_SKIP("tf32"),    \
        FOREIGN_SKIP("learning_rate"), FOREIGN_SKIP("lr_scheduler_type"),                          \
        FOREIGN_SKIP("lr_scheduler_kwargs.*"), FOREIGN_SKIP("num_train_epochs"),                   \
        FOREIGN_SKIP("max_steps"), FOREIGN_SKIP("warmup_ratio"), FOREIGN_SKIP("warmup_steps"),     \
        FOREIGN_SKIP("weight_decay"), FOREIGN_SKIP("max_grad_norm"), FOREIGN_SKIP("adam_beta1"),   \
        FOREIGN_SKIP("adam_beta2"), FOREIGN_SKIP("adam_epsilon"), FOREIGN_SKIP("logging_steps"),   \
        FOREIGN_SKIP("logging_strategy"), FOREIGN_SKIP("report_to"), FOREIGN_SKIP("save_steps"),   \
        FOREIGN_SKIP("save_strategy"), FOREIGN_SKIP("save_total_limit"),                           \
        FOREIGN_SKIP("output_dir"), FOREIGN_SKIP("overwrite_output_dir"), FOREIGN_SKIP("seed"),    \
        FOREIGN_SKIP("push_to_hub"), FOREIGN_SKIP("hub_model_id"), FOREIGN_SKIP("hub_strategy"),   \
        FOREIGN_SKIP("do_eval"), FOREIGN_SKIP("do_train"), FOREIGN_SKIP("eval_strategy"),          \
        FOREIGN_SKIP("eval_steps"), FOREIGN_SKIP("per_device_eval_batch_size"),                    \
        FOREIGN_SKIP("evaluation_strategy"), FOREIGN_SKIP("ddp_timeout"),                          \
        FOREIGN_SKIP("run_name"), FOREIGN_SKIP("dataloader_num_workers"),                          \
        FOREIGN_SKIP("preprocessing_num_workers"), FOREIGN_SKIP("overwrite_cache"),                \
        FOREIGN_SKIP("remove_unused_columns"), FOREIGN_SKIP("resume_from_checkpoint"),             \
        FOREIGN_SKIP("log_level"), FOREIGN_SKIP("group_by_length"),                                \
        FOREIGN_SKIP("trust_remote_code"), FOREIGN_SKIP("ddp_find_unused_parameters"),             \
        FOREIGN_SKIP("local_rank")

static const foreign_row trl_rows[] = {
    TRAINING_ARGUMENTS,
    FOREIGN_WITH("model_name_or_path", "model"),
    FOREIGN_NUM("max_length", "seq"),
    FOREIGN_SAME("max_seq_length", "max_length"),
    FOREIGN_SAME("model_max_length", "max_length"),
    FOREIGN_NUM("cp_size", "cp"),
    FOREIGN_WITH("packing", NULL),
    FOREIGN_SKIP("packing_strategy"),
    FOREIGN_WITH("use_peft", "lora"),
    FOREIGN_WITH("lora_r", "lora"),
    FOREIGN_WITH("lora_target_modules", "lora"),
    FOREIGN_SKIP("lora_alpha"),
    FOREIGN_SKIP("lora_dropout"),
    FOREIGN_SKIP("lora_task_type"),
    FOREIGN_NOTE("lora_modules_to_save", NULL, "modules trained whole beside adapters"),
    FOREIGN_NOTE("use_dora", "false", "DoRA"),
    FOREIGN_SKIP("use_rslora"),
    FOREIGN_WITH("load_in_4bit", "base_dtype"),
    FOREIGN_WITH("load_in_8bit", "base_dtype"),
    FOREIGN_SKIP("bnb_4bit_quant_type"),
    FOREIGN_WITH("use_bnb_nested_quant", NULL),
    FOREIGN_SKIP("model_revision"),
    FOREIGN_SKIP("dtype"),
    FOREIGN_SAME("torch_dtype", "dtype"),
    FOREIGN_WITH("loss_type", "loss"),
    FOREIGN_SKIP("assistant_only_loss"),
    FOREIGN_SKIP("completion_only_loss"),
    FOREIGN_SKIP("dataset_name"),
    FOREIGN_SKIP("dataset_config"),
    FOREIGN_SKIP("dataset_text_field"),
    FOREIGN_SKIP("dataset_num_proc"),
    FOREIGN_SKIP("dataset_kwargs.*"),
    FOREIGN_SKIP("dataset_mixer.*"),
    FOREIGN_SKIP("dataset_splits"),
    FOREIGN_SKIP("dataset_train_split"),
    FOREIGN_SKIP("dataset_test_split"),
    FOREIGN_SKIP("chat_template"),
    FOREIGN_SKIP("eos_token"),
    FOREIGN_NOTE("padding_free", "false", "batches without padding"),
    FOREIGN_NOTE("beta", NULL, "a preference loss with a reference model"),
    FOREIGN_NOTE("num_generations", NULL, "generation within the step"),
    FOREIGN_NOTE("max_prompt_length", NULL, "a preference loss"),
    FOREIGN_NOTE("use_vllm", "false", "generation within the step"),
};

static bool is_trl(const orr_tree *tree) {
    return orr_tree_get(tree, "model_name_or_path") != NULL &&
           (orr_tree_get(tree, "per_device_train_batch_size") != NULL ||
            orr_tree_get(tree, "gradient_accumulation_steps") != NULL ||
            orr_tree_get(tree, "learning_rate") != NULL);
}

static void trl_joint(importer *im, const orr_tree *tree) {
    orr_foreign_model_id(im, orr_foreign_text(tree, "model_name_or_path"),
                         orr_foreign_line(tree, "model_name_or_path"));
    bool differs;
    bool modern = orr_default_of(im->arena, "old<0.20 new", im->release, &differs)[0] == 'n';
    orr_trainer_precision(im, tree, modern);
    orr_trainer_sharding(im, tree);
    orr_trainer_recompute(im, tree, "gradient_checkpointing", modern);
    orr_trainer_kernels(im, tree);
    bool four = orr_foreign_flag(tree, "load_in_4bit", false);
    bool eight = orr_foreign_flag(tree, "load_in_8bit", false);
    if (orr_foreign_flag(tree, "use_peft", false)) {
        orr_trainer_lora(im, tree, "lora_r", 16, "lora_target_modules", "q_proj,v_proj");
        orr_trainer_base(im, tree, four, eight, "use_bnb_nested_quant");
    } else if (four || eight) {
        orr_import_warn(im, orr_foreign_line(tree, four ? "load_in_4bit" : "load_in_8bit"),
                        "a quantized model without adapters (use_peft) cannot be trained");
    }
    const char *type = orr_foreign_text(tree, "dtype");
    orr_trainer_weights(im, tree, strstr(type, "16") != NULL || strcmp(type, "auto") == 0);
    if (orr_tree_get(im->keys, "seq") == NULL && orr_tree_get(tree, "max_length") == NULL) {
        orr_import_put_int(im, "seq", 1024, 0);
        orr_import_assume(im, "seq", "1024", "max_length is not stated: the default of SFTConfig");
    }
    orr_trainer_finish(im, tree, "packing");
}

const foreign_format orr_foreign_trl = {"trl-yaml", trl_rows,  sizeof trl_rows / sizeof *trl_rows,
                                        is_trl,     trl_joint, NULL};

/* ---- LLaMA-Factory -------------------------------------------------------------------------- */

static const foreign_row factory_rows[] = {
    TRAINING_ARGUMENTS,
    FOREIGN_WITH("model_name_or_path", "model"),
    FOREIGN_NUM_OR("cutoff_len", "seq", "2048"),
    FOREIGN_WITH("finetuning_type", "lora"),
    FOREIGN_WITH("lora_rank", "lora"),
    FOREIGN_WITH("lora_target", "lora"),
    FOREIGN_SKIP("lora_alpha"),
    FOREIGN_SKIP("lora_dropout"),
    FOREIGN_NOTE("additional_target", NULL, "modules trained whole beside adapters"),
    FOREIGN_NOTE("use_dora", "false", "DoRA"),
    FOREIGN_NOTE("use_galore", "false", "GaLore"),
    FOREIGN_NOTE("use_badam", "false", "BAdam"),
    FOREIGN_NOTE("use_apollo", "false", "APOLLO"),
    FOREIGN_NOTE("use_unsloth", "false", "Unsloth's kernels"),
    FOREIGN_NOTE("freeze_trainable_layers", NULL, "some layers are frozen"),
    FOREIGN_WITH("quantization_bit", "base_dtype"),
    FOREIGN_SAME("quantization_method", "quantization"),
    FOREIGN_SKIP("quantization"),
    FOREIGN_WITH("double_quantization", NULL),
    FOREIGN_WITH("pure_bf16", NULL),
    FOREIGN_WITH("disable_gradient_checkpointing", "recompute"),
    FOREIGN_WITH("enable_liger_kernel", "loss"),
    FOREIGN_WITH("flash_attn", "attention"),
    FOREIGN_WITH("packing", NULL),
    FOREIGN_WITH("neat_packing", NULL),
    FOREIGN_NUM("sequence_parallel_size", "cp"),
    FOREIGN_WITH("stage", NULL),
    FOREIGN_SKIP("template"),
    FOREIGN_SKIP("dataset"),
    FOREIGN_SKIP("dataset_dir"),
    FOREIGN_SKIP("max_samples"),
    FOREIGN_SKIP("val_size"),
    FOREIGN_SKIP("plot_loss"),
    FOREIGN_SKIP("save_only_model"),
    FOREIGN_SKIP("include_num_input_tokens_seen"),
    FOREIGN_SKIP("rope_scaling"),
    FOREIGN_SKIP("mask_history"),
    FOREIGN_SKIP("train_on_prompt"),
    FOREIGN_NOTE("pref_beta", NULL, "a preference loss with a reference model"),
};

static bool is_factory(const orr_tree *tree) {
    return orr_tree_get(tree, "model_name_or_path") != NULL &&
           (orr_tree_get(tree, "finetuning_type") != NULL ||
            (orr_tree_get(tree, "stage") != NULL && orr_tree_get(tree, "template") != NULL));
}

static void factory_joint(importer *im, const orr_tree *tree) {
    const char *stage = orr_foreign_text(tree, "stage");
    orr_foreign_model_id(im, orr_foreign_text(tree, "model_name_or_path"),
                         orr_foreign_line(tree, "model_name_or_path"));
    if (stage[0] != '\0' && strcmp(stage, "sft") != 0 && strcmp(stage, "pt") != 0) {
        orr_import_unknown(im, "stage", orr_foreign_line(tree, "stage"), true,
                           "only pt and sft are modelled: this stage runs more than one model");
    }
    orr_trainer_precision(im, tree, false);
    orr_trainer_sharding(im, tree);
    bool off = orr_foreign_flag(tree, "disable_gradient_checkpointing", false);
    uint32_t line = orr_foreign_line(tree, "disable_gradient_checkpointing");
    orr_import_put_text(im, "recompute", off ? "none" : "full", line);
    if (line == 0) {
        orr_import_assume(im, "recompute", "full",
                          "gradient checkpointing is on unless disable_gradient_checkpointing");
    }
    orr_trainer_kernels(im, tree);
    const char *type = orr_foreign_text(tree, "finetuning_type");
    int64_t bits = orr_foreign_int(tree, "quantization_bit", 0);
    if (type[0] == '\0' || strcmp(type, "lora") == 0) {
        orr_trainer_lora(im, tree, "lora_rank", 8, "lora_target", "all-linear");
        orr_trainer_base(im, tree, bits == 4, bits == 8, "double_quantization");
        if (bits != 0 && bits != 4 && bits != 8) {
            orr_import_unknown(im, "quantization_bit", orr_foreign_line(tree, "quantization_bit"),
                               true, "only 4 and 8 bits are modelled");
        }
    } else if (strcmp(type, "full") == 0) {
        orr_trainer_weights(im, tree, orr_foreign_flag(tree, "pure_bf16", false));
    } else {
        orr_import_unknown(im, "finetuning_type", orr_foreign_line(tree, "finetuning_type"), true,
                           "full and lora are modelled");
    }
    orr_trainer_finish(im, tree,
                       orr_foreign_flag(tree, "neat_packing", false) ? "neat_packing" : "packing");
}

const foreign_format orr_foreign_llamafactory = {
    "llamafactory-yaml", factory_rows,  sizeof factory_rows / sizeof *factory_rows,
    is_factory,          factory_joint, NULL};
