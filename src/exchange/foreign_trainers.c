/* Fine-tuning front ends over Hugging Face models: TRL, Axolotl, LLaMA-Factory. They share the
 * names of transformers' TrainingArguments; a command line of those is read by the same table.
 * Settings: trl/trainer/sft_config.py and model_config.py, axolotl's docs/config-reference,
 * LLaMA-Factory's hparams. */
#include <string.h>

#include "exchange/foreign.h"

#define OPTIMIZERS                                                                                 \
    "adamw_torch=adam adamw_torch_fused=adam adamw_hf=adam adamw_apex_fused=adam adamw=adam "      \
    "paged_adamw=adam paged_adamw_32bit=adam adamw_8bit=adam8bit adamw_bnb_8bit=adam8bit "         \
    "paged_adamw_8bit=adam8bit adamw_torch_8bit=adam8bit muon"

/* ---- shared --------------------------------------------------------------------------------- */

void orr_foreign_lora(importer *im, const orr_tree *rank, const orr_tree *targets, uint32_t line) {
    orr_tree *lora = orr_tree_new_map(im->arena);
    int64_t number = orr_tree_int(rank, 0);
    if (number < 1 && orr_tree_kind_of(rank) == ORR_TREE_TEXT) {
        (void)orr_parse_int(orr_tree_text(rank, ""), &number);
    }
    if (number < 1 || number > 1 << 16) {
        orr_import_ask(im, line, "lora", "the rank of the adapters is not known; give --lora");
        return;
    }
    orr_tree_put_int(im->arena, lora, "rank", number);
    const char *text = orr_tree_text(targets, "");
    if (orr_tree_kind_of(targets) == ORR_TREE_LIST) {
        orr_tree *list = orr_tree_put(im->arena, lora, "targets", orr_tree_new_list(im->arena));
        for (size_t i = 0; i < orr_tree_size(targets); i++) {
            const char *one = orr_tree_text(orr_tree_at(targets, i), "");
            bool known = orr_lora_target_known(one);
            if (known) {
                orr_tree_push(im->arena, list, orr_tree_new_text(im->arena, one));
            } else {
                orr_import_unknown(im, one, line, true, "no adapter of this name is modelled");
            }
        }
    } else if (text[0] != '\0') {
        orr_tree_put_text(im->arena, lora, "targets",
                          strcmp(text, "all") == 0 ? "all-linear" : text);
    }
    orr_import_put(im, "lora", lora, line);
}

bool orr_lora_target_known(const char *name) {
    static const char *const names[] = {"q",
                                        "k",
                                        "v",
                                        "o",
                                        "gate",
                                        "up",
                                        "down",
                                        "qkv",
                                        "fc1",
                                        "fc2",
                                        "proj",
                                        "attention",
                                        "mlp",
                                        "all-linear",
                                        "all",
                                        "q_proj",
                                        "q_a_proj",
                                        "q_b_proj",
                                        "k_proj",
                                        "v_proj",
                                        "o_proj",
                                        "out_proj",
                                        "gate_proj",
                                        "up_proj",
                                        "down_proj",
                                        "w1",
                                        "w2",
                                        "w3",
                                        "gate_up_proj",
                                        "qkv_proj",
                                        "c_attn",
                                        "linear_qkv",
                                        "linear_proj",
                                        "linear_fc1",
                                        "linear_fc2",
                                        "query_key_value",
                                        "kv_b_proj",
                                        "kv_a_proj_with_mqa",
                                        "linear_q_proj"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (orr_name_equal(name, names[i])) {
            return true;
        }
    }
    return false;
}

/* Adapters in words "q_proj,v_proj" as a list. */
static orr_tree *as_list(importer *im, const char *text) {
    orr_tree *list = orr_tree_new_list(im->arena);
    while (*text != '\0') {
        size_t length = strcspn(text, ", ");
        if (length > 0) {
            orr_tree_push(im->arena, list, orr_tree_new_textn(im->arena, text, length));
        }
        text += length + (text[length] != '\0');
    }
    return list;
}

static void put_lora(importer *im, const orr_tree *tree, const char *rank, int64_t rank_default,
                     const char *targets, const char *targets_default) {
    const orr_tree *node = orr_tree_get(tree, rank), *words = orr_tree_get(tree, targets);
    uint32_t line = orr_tree_span(node).line;
    if (orr_tree_kind_of(node) == ORR_TREE_NULL) {
        node = orr_tree_new_int(im->arena, rank_default);
        orr_import_assume(im, "lora.rank", orr_tree_scalar(im->arena, node),
                          "the trainer's own default");
    }
    if (orr_tree_kind_of(words) == ORR_TREE_NULL) {
        words = orr_tree_new_text(im->arena, targets_default);
        orr_import_assume(im, "lora.targets", targets_default, "the trainer's own default");
    }
    const char *text = orr_tree_text(words, "");
    orr_foreign_lora(im, node, strchr(text, ',') != NULL ? as_list(im, text) : words, line);
}

static void put_base(importer *im, const orr_tree *tree, bool four, bool eight,
                     const char *double_) {
    if (four) {
        bool twice = orr_foreign_flag(tree, double_, strcmp(double_, "double_quantization") == 0);
        orr_import_put_text(im, "base_dtype", twice ? "nf4_double" : "nf4", 0);
    } else if (eight) {
        orr_import_put_text(im, "base_dtype", "int8", 0);
    }
}

/* "ds_z3_config.json", "configs/zero2.json": the stage that a file's name tells. */
static int64_t stage_of(const char *path) {
    static const char *const marks[] = {"zero", "z", "stage"};
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        for (const char *p = base; (p = strstr(p, marks[i])) != NULL; p++) {
            const char *digit = p + strlen(marks[i]);
            digit += *digit == '_' || *digit == '-';
            if (*digit >= '0' && *digit <= '3') {
                return *digit - '0';
            }
        }
    }
    return -1;
}

static void put_stage(importer *im, int64_t stage, const char *file, uint32_t line) {
    static const char *const kinds[] = {"none", "zero1", "zero2", "zero3"};
    if (stage < 0 || stage > 3) {
        orr_import_depends(im, "deepspeed", line, "sharding", file);
        return;
    }
    orr_import_put_text(im, "sharding", kinds[stage], line);
    orr_import_assume(im, "sharding", kinds[stage],
                      orr_arena_format(im->arena, "the name of %s; import that file too", file));
    if (strstr(file, "offload") != NULL) {
        orr_import_unknown(im, "deepspeed", line, true, "states on the host, by the file's name");
    }
}

/* deepspeed: a path or a map; fsdp: a switch, words or a list. */
static void put_sharding(importer *im, const orr_tree *tree) {
    const orr_tree *ds = orr_tree_get(tree, "deepspeed"), *fsdp = orr_tree_get(tree, "fsdp");
    uint32_t line = orr_tree_span(ds).line;
    bool both = orr_tree_kind_of(ds) != ORR_TREE_NULL &&
                (orr_tree_size(fsdp) > 0 || orr_tree_text(fsdp, "")[0] != '\0' ||
                 orr_tree_size(orr_tree_get(tree, "fsdp_config")) > 0);
    if (both) {
        orr_import_warn(im, line, "deepspeed and fsdp contradict; deepspeed is taken");
    }
    if (orr_tree_kind_of(ds) == ORR_TREE_TEXT) {
        const char *file = orr_tree_text(ds, "");
        put_stage(im, stage_of(file), file, line);
    } else if (orr_tree_kind_of(ds) == ORR_TREE_MAP) {
        orr_foreign_import(im, &orr_foreign_deepspeed, ds);
    } else if (orr_tree_kind_of(fsdp) != ORR_TREE_NULL ||
               orr_tree_kind_of(orr_tree_get(tree, "fsdp_config")) == ORR_TREE_MAP) {
        const char *words = orr_tree_text(fsdp, orr_tree_text(orr_tree_at(fsdp, 0), ""));
        int64_t version = orr_foreign_int(tree, "fsdp_config.fsdp_version",
                                          orr_foreign_int(tree, "fsdp_version", 1));
        bool grads = strstr(words, "grad_op") != NULL;
        bool hybrid = strstr(words, "hybrid") != NULL;
        const char *kind = hybrid ? "hsdp" : grads ? "zero2" : version == 2 ? "fsdp2" : "zero3";
        orr_import_put_text(im, "sharding", kind, orr_tree_span(fsdp).line);
        if (strstr(words, "offload") != NULL ||
            orr_foreign_flag(tree, "fsdp_config.offload_params", false)) {
            orr_import_unknown(im, "fsdp", orr_tree_span(fsdp).line, true,
                               "parameters and optimizer on the host, not modelled");
        }
    } else if (orr_tree_get(im->keys, "sharding") == NULL) {
        orr_import_put_text(im, "sharding", "none", 0);
        orr_import_assume(
            im, "sharding", "none",
            "neither deepspeed nor fsdp is stated: plain data parallelism; a launcher "
            "may say otherwise");
    }
    orr_import_put_text(im, "overlap", "dp", 0);
}

/* by_default: bf16 when neither is stated. */
static void put_precision(importer *im, const orr_tree *tree, bool by_default) {
    const char *bf16 = orr_tree_scalar(im->arena, orr_tree_get(tree, "bf16"));
    bool half = orr_foreign_flag(tree, "fp16", false) || orr_foreign_flag(tree, "float16", false);
    bool open = strcmp(bf16, "auto") == 0 && !half;
    bool brain = orr_name_equal(bf16, "true") || strcmp(bf16, "full") == 0 ||
                 orr_foreign_flag(tree, "bfloat16", false) || open ||
                 (bf16[0] == '\0' && !half && by_default);
    uint32_t line = orr_foreign_line(tree, half && !brain ? "fp16" : "bf16");
    if (half && brain) {
        orr_import_warn(im, orr_foreign_line(tree, "fp16"),
                        "bf16 and fp16 are both on, which contradict: bf16 is taken");
    }
    if (!half && !brain && !orr_foreign_flag(tree, "pure_bf16", false)) {
        orr_import_unknown(im, "fp32 training", 0, true, "neither bf16 nor fp16 is on");
    }
    if (open || (line == 0 && by_default)) {
        orr_import_assume(im, "precision", "bf16",
                          open ? "bf16: auto, on where the device has it"
                               : "the trainer's own default");
    }
    orr_import_put_text(im, "precision", half && !brain ? "fp16" : "bf16", line);
}

/* Formats of weights and states where no engine keeps fp32 copies: weights that are loaded in 16
 * bits train in them, others stay fp32 under autocast. FSDP of accelerate keeps fp32 shards. */
static void put_weights(importer *im, const orr_tree *tree, bool loaded16) {
    const char *sharding = orr_tree_text(orr_tree_get(im->keys, "sharding"), "");
    bool engine = orr_tree_get(tree, "deepspeed") != NULL || strncmp(sharding, "zero", 4) == 0;
    bool fsdp = orr_tree_get(tree, "fsdp") != NULL || orr_tree_get(tree, "fsdp_config") != NULL ||
                strcmp(sharding, "fsdp2") == 0 || strcmp(sharding, "hsdp") == 0;
    if ((engine && !fsdp) || orr_tree_get(im->keys, "lora") != NULL) {
        return;
    }
    bool narrow = loaded16 && !fsdp;
    static const char *const keys[] = {"param_dtype", "grad_dtype", "exp_avg_dtype",
                                       "exp_avg_sq_dtype"};
    bool eight = strcmp(orr_tree_text(orr_tree_get(im->keys, "optimizer"), ""), "adam8bit") == 0;
    for (size_t i = 0; i < (eight ? 2u : 4u); i++) {
        orr_import_put_text(im, keys[i], narrow ? "bf16" : "fp32", 0);
    }
    orr_import_put_text(im, "master_dtype", "none", 0);
    orr_import_assume(im, "param_dtype", narrow ? "bf16" : "fp32",
                      fsdp     ? "FSDP keeps its shards in fp32"
                      : narrow ? "weights are loaded in 16 bits and train in them"
                               : "weights are loaded in fp32 and cast in each layer");
}

static void put_kernels(importer *im, const orr_tree *tree) {
    bool liger = orr_foreign_flag(tree, "use_liger_kernel", false) ||
                 orr_foreign_flag(tree, "use_liger", false) ||
                 orr_foreign_flag(tree, "enable_liger_kernel", false) ||
                 orr_foreign_flag(tree, "liger_fused_linear_cross_entropy", false);
    if (liger || strncmp(orr_foreign_text(tree, "loss_type"), "chunked", 7) == 0) {
        orr_import_put_text(im, "loss", "fused", 0);
    }
    const char *attention = orr_foreign_text(tree, "attn_implementation");
    if (strcmp(attention, "eager") == 0) {
        orr_import_put_text(im, "attention", "unfused",
                            orr_foreign_line(tree, "attn_implementation"));
    }
}

static void put_recompute(importer *im, const orr_tree *tree, const char *path, bool by_default) {
    const orr_tree *node = orr_tree_path(tree, path);
    const char *word = orr_tree_scalar(im->arena, node);
    bool offload = strncmp(word, "offload", 7) == 0;
    bool on = word[0] != '\0' ? strcmp(word, "false") != 0 : by_default;
    bool decided = word[0] == '\0' &&
                   strcmp(orr_tree_text(orr_tree_get(im->keys, "recompute"), ""), "full") == 0;
    if (decided) {
        return; /* the launcher's file */
    }
    orr_import_put_text(im, "recompute", on ? "full" : "none", orr_tree_span(node).line);
    if (word[0] == '\0') {
        orr_import_assume(im, "recompute", on ? "full" : "none", "the trainer's own default");
    }
    if (offload) {
        orr_import_unknown(im, path, orr_tree_span(node).line, true,
                           "saved inputs on the host, not modelled");
    }
}

static void finish(importer *im, const orr_tree *tree, const char *packing) {
    orr_import_put_text(im, "software", "hf-zero3", 0);
    orr_import_assume(im, "software", "hf-zero3",
                      "the layers of transformers, as measured under ZeRO-3");
    if (!orr_foreign_flag(tree, packing, false)) {
        orr_import_warn(im, orr_foreign_line(tree, packing),
                        "sequences are not packed: figures are for full ones, shorter ones take "
                        "less");
    }
}

/* ---- TRL ------------------------------------------------------------------------------------ */

#define TRAINING_ARGUMENTS                                                                         \
    FOREIGN_NUM_OR("per_device_train_batch_size", "mbs", "8"),                                     \
        FOREIGN_NUM_OR("gradient_accumulation_steps", "micro_batches", "1"), FOREIGN_SKIP("bf16"), \
        FOREIGN_SKIP("fp16"), FOREIGN_WITH("gradient_checkpointing", "recompute"),                 \
        FOREIGN_SKIP("gradient_checkpointing_kwargs.*"),                                           \
        FOREIGN_SAYS("optim", "optimizer", OPTIMIZERS), FOREIGN_WITH("deepspeed", "sharding"),     \
        FOREIGN_WITH("fsdp", "sharding"), FOREIGN_WITH("fsdp_config.fsdp_version", NULL),          \
        FOREIGN_SKIP("fsdp_config.*"), FOREIGN_WITH("use_liger_kernel", "loss"),                   \
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
    put_precision(im, tree, modern);
    put_sharding(im, tree);
    put_recompute(im, tree, "gradient_checkpointing", modern);
    put_kernels(im, tree);
    bool four = orr_foreign_flag(tree, "load_in_4bit", false);
    bool eight = orr_foreign_flag(tree, "load_in_8bit", false);
    if (orr_foreign_flag(tree, "use_peft", false)) {
        put_lora(im, tree, "lora_r", 16, "lora_target_modules", "q_proj,v_proj");
        put_base(im, tree, four, eight, "use_bnb_nested_quant");
    } else if (four || eight) {
        orr_import_warn(im, orr_foreign_line(tree, four ? "load_in_4bit" : "load_in_8bit"),
                        "a quantized model without adapters (use_peft) cannot be trained");
    }
    const char *type = orr_foreign_text(tree, "dtype");
    put_weights(im, tree, strstr(type, "16") != NULL || strcmp(type, "auto") == 0);
    if (orr_tree_get(im->keys, "seq") == NULL && orr_tree_get(tree, "max_length") == NULL) {
        orr_import_put_int(im, "seq", 1024, 0);
        orr_import_assume(im, "seq", "1024", "max_length is not stated: the default of SFTConfig");
    }
    finish(im, tree, "packing");
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
    put_precision(im, tree, false);
    put_sharding(im, tree);
    bool off = orr_foreign_flag(tree, "disable_gradient_checkpointing", false);
    uint32_t line = orr_foreign_line(tree, "disable_gradient_checkpointing");
    orr_import_put_text(im, "recompute", off ? "none" : "full", line);
    if (line == 0) {
        orr_import_assume(im, "recompute", "full",
                          "gradient checkpointing is on unless disable_gradient_checkpointing");
    }
    put_kernels(im, tree);
    const char *type = orr_foreign_text(tree, "finetuning_type");
    int64_t bits = orr_foreign_int(tree, "quantization_bit", 0);
    if (type[0] == '\0' || strcmp(type, "lora") == 0) {
        put_lora(im, tree, "lora_rank", 8, "lora_target", "all-linear");
        put_base(im, tree, bits == 4, bits == 8, "double_quantization");
        if (bits != 0 && bits != 4 && bits != 8) {
            orr_import_unknown(im, "quantization_bit", orr_foreign_line(tree, "quantization_bit"),
                               true, "only 4 and 8 bits are modelled");
        }
    } else if (strcmp(type, "full") == 0) {
        put_weights(im, tree, orr_foreign_flag(tree, "pure_bf16", false));
    } else {
        orr_import_unknown(im, "finetuning_type", orr_foreign_line(tree, "finetuning_type"), true,
                           "full and lora are modelled");
    }
    finish(im, tree, orr_foreign_flag(tree, "neat_packing", false) ? "neat_packing" : "packing");
}

const foreign_format orr_foreign_llamafactory = {
    "llamafactory-yaml", factory_rows,  sizeof factory_rows / sizeof *factory_rows,
    is_factory,          factory_joint, NULL};

/* ---- Axolotl -------------------------------------------------------------------------------- */

static const foreign_row axolotl_rows[] = {
    FOREIGN_WITH("base_model", "model"),
    FOREIGN_NUM("sequence_len", "seq"),
    FOREIGN_NUM("micro_batch_size", "mbs"),
    FOREIGN_NUM_OR("gradient_accumulation_steps", "micro_batches", "1"),
    FOREIGN_SAYS("optimizer", "optimizer", OPTIMIZERS),
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
        put_lora(im, tree, "lora_r", 8, "lora_target_modules", "q_proj,v_proj");
    }
    put_base(im, tree, four, eight, "bnb_config_kwargs.bnb_4bit_use_double_quant");
}

static void axolotl_joint(importer *im, const orr_tree *tree) {
    orr_foreign_model_id(im, orr_foreign_text(tree, "base_model"),
                         orr_foreign_line(tree, "base_model"));
    put_precision(im, tree, false);
    put_sharding(im, tree);
    bool inside = orr_foreign_flag(tree, "fsdp_config.activation_checkpointing", false);
    put_recompute(im, tree,
                  inside ? "fsdp_config.activation_checkpointing" : "gradient_checkpointing",
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
    put_kernels(im, tree);
    if (orr_foreign_flag(tree, "cut_cross_entropy", false)) {
        orr_import_put_text(im, "loss", "fused", orr_foreign_line(tree, "cut_cross_entropy"));
    }
    axolotl_lora(im, tree);
    put_weights(im, tree, true);
    finish(im, tree, "sample_packing");
}

const foreign_format orr_foreign_axolotl = {
    "axolotl-yaml", axolotl_rows,  sizeof axolotl_rows / sizeof *axolotl_rows,
    is_axolotl,     axolotl_joint, NULL};
