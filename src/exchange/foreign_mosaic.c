/* llm-foundry's YAML (scripts/train/yamls of the repository, Composer's FSDP settings) and
 * MaxText's (src/MaxText/configs/base.yml). Both describe the model by sizes or by a name. */
#include <string.h>

#include "exchange/foreign.h"

/* A card under construction, and the field that a setting of the file gives. */
static void field_int(importer *im, orr_tree *card, const char *key, const orr_tree *tree,
                      const char *path) {
    int64_t value = orr_foreign_int(tree, path, 0);
    if (value > 0) {
        orr_tree_put_int(im->arena, card, key, value);
    }
}

/* ---- llm-foundry ---------------------------------------------------------------------------- */

static const foreign_row foundry_rows[] = {
    FOREIGN_NUM("max_seq_len", "seq"),
    FOREIGN_SAME("variables.max_seq_len", "max_seq_len"),
    FOREIGN_NUM("global_train_batch_size", "gbs"),
    FOREIGN_NUM("device_train_microbatch_size", "mbs"),
    FOREIGN_SAYS_OR("precision", "precision",
                    "amp_bf16=bf16 amp_fp16=fp16 amp_fp8=fp8 bf16 fp16 fp8", "bf16"),
    FOREIGN_SAYS_OR("fsdp_config.sharding_strategy", "sharding",
                    "FULL_SHARD=zero3 SHARD_GRAD_OP=zero2 NO_SHARD=none HYBRID_SHARD=hsdp",
                    "zero3"),
    FOREIGN_SAYS_OR("fsdp_config.mixed_precision", "grad_dtype", "PURE=bf16 DEFAULT=fp32", "fp32"),
    FOREIGN_SAYS_OR("fsdp_config.activation_checkpointing", "recompute", "true=full false=none",
                    "none"),
    FOREIGN_NOTE("fsdp_config.activation_cpu_offload", "false", "saved inputs on the host"),
    FOREIGN_NOTE("fsdp_config.cpu_offload", "false", "parameters on the host"),
    FOREIGN_NOTE("fsdp_config.te_checkpoint_wrapper", "false", "Transformer Engine's recompute"),
    FOREIGN_NOTE("fsdp_config.activation_checkpointing_target", NULL,
                 "recompute of parts of a layer"),
    FOREIGN_SKIP("fsdp_config.*"),
    FOREIGN_NOTE("parallelism_config.tp_config.*", NULL, "tensor parallelism of Composer"),
    FOREIGN_SAYS("optimizer.name", "optimizer",
                 "decoupled_adamw=adam adamw=adam adam decoupled_lionw=adam muon"),
    FOREIGN_SKIP("optimizer.*"),
    FOREIGN_WITH("model.name", "model"),
    FOREIGN_WITH("model.pretrained_model_name_or_path", "model"),
    FOREIGN_WITH("model.d_model", "model"),
    FOREIGN_WITH("model.n_heads", "model"),
    FOREIGN_WITH("model.n_layers", "model"),
    FOREIGN_WITH("model.expansion_ratio", "model"),
    FOREIGN_WITH("model.vocab_size", "model"),
    FOREIGN_WITH("model.no_bias", "model"),
    FOREIGN_WITH("model.tie_word_embeddings", "model"),
    FOREIGN_WITH("model.learned_pos_emb", "model"),
    FOREIGN_WITH("model.norm_type", "model"),
    FOREIGN_WITH("model.ffn_config.ffn_type", "model"),
    FOREIGN_WITH("model.ffn_config.moe_num_experts", "model"),
    FOREIGN_WITH("model.ffn_config.moe_top_k", "model"),
    FOREIGN_WITH("model.ffn_config.ffn_hidden_size", "model"),
    FOREIGN_SKIP("model.ffn_config.*"),
    FOREIGN_WITH("model.max_seq_len", "seq"),
    FOREIGN_WITH("model.attn_config.attn_impl", "attention"),
    FOREIGN_WITH("model.attn_config.attn_type", "model"),
    FOREIGN_WITH("model.attn_config.kv_n_heads", "model"),
    FOREIGN_WITH("model.attn_config.alibi", "model"),
    FOREIGN_WITH("model.attn_config.rope", "model"),
    FOREIGN_WITH("model.attn_config.qk_ln", "model"),
    FOREIGN_NOTE("model.attn_config.sliding_window_size", "-1", "windowed attention"),
    FOREIGN_SKIP("model.attn_config.*"),
    FOREIGN_WITH("model.loss_fn", "loss"),
    FOREIGN_SKIP("model.init_config.*"),
    FOREIGN_SKIP("model.init_device"),
    FOREIGN_SKIP("model.use_flash_attention_2"),
    FOREIGN_SKIP("model.use_auth_token"),
    FOREIGN_SKIP("model.pretrained"),
    FOREIGN_SKIP("model.resid_pdrop"),
    FOREIGN_SKIP("model.emb_pdrop"),
    FOREIGN_SKIP("model.fc_type"),
    FOREIGN_WITH("model.peft_config.r", "lora"),
    FOREIGN_WITH("model.peft_config.target_modules", "lora"),
    FOREIGN_SKIP("model.peft_config.*"),
    FOREIGN_SKIP("variables.*"),
    FOREIGN_SKIP("tokenizer.*"),
    FOREIGN_SKIP("train_loader.*"),
    FOREIGN_SKIP("eval_loader.*"),
    FOREIGN_SKIP("scheduler.*"),
    FOREIGN_SKIP("algorithms.*"),
    FOREIGN_SKIP("callbacks.*"),
    FOREIGN_SKIP("loggers.*"),
    FOREIGN_SKIP("max_duration"),
    FOREIGN_SKIP("eval_interval"),
    FOREIGN_SKIP("eval_first"),
    FOREIGN_SKIP("eval_subset_num_batches"),
    FOREIGN_SKIP("device_eval_batch_size"),
    FOREIGN_SKIP("global_seed"),
    FOREIGN_SKIP("seed"),
    FOREIGN_SKIP("run_name"),
    FOREIGN_SKIP("data_local"),
    FOREIGN_SKIP("data_remote"),
    FOREIGN_SKIP("progress_bar"),
    FOREIGN_SKIP("log_to_console"),
    FOREIGN_SKIP("console_log_interval"),
    FOREIGN_SKIP("save_folder"),
    FOREIGN_SKIP("save_interval"),
    FOREIGN_SKIP("save_num_checkpoints_to_keep"),
    FOREIGN_SKIP("load_path"),
    FOREIGN_SKIP("dist_timeout"),
    FOREIGN_SKIP("autoresume"),
    FOREIGN_SKIP("python_log_level"),
};

static bool is_foundry(const orr_tree *tree) {
    return orr_tree_path(tree, "model.name") != NULL &&
           (orr_tree_get(tree, "device_train_microbatch_size") != NULL ||
            orr_tree_get(tree, "global_train_batch_size") != NULL);
}

/* The MPT family: layer norm, gelu, learned or alibi positions, tied embeddings. */
static void foundry_card(importer *im, const orr_tree *tree) {
    orr_tree *card = orr_tree_new_map(im->arena);
    int64_t hidden = orr_foreign_int(tree, "model.d_model", 0);
    int64_t ratio = orr_foreign_int(tree, "model.expansion_ratio", 4);
    int64_t heads = orr_foreign_int(tree, "model.n_heads", 0);
    if (hidden < 1 || heads < 1 || orr_foreign_int(tree, "model.n_layers", 0) < 1) {
        return;
    }
    orr_tree_put_text(im->arena, card, "name", orr_import_stem(im->arena, im->file));
    field_int(im, card, "layers", tree, "model.n_layers");
    orr_tree_put_int(im->arena, card, "hidden", hidden);
    orr_tree_put_int(im->arena, card, "heads", heads);
    bool one =
        strcmp(orr_foreign_text(tree, "model.attn_config.attn_type"), "multiquery_attention") == 0;
    orr_tree_put_int(im->arena, card, "kv_heads",
                     one ? 1 : orr_foreign_int(tree, "model.attn_config.kv_n_heads", heads));
    int64_t ffn = orr_foreign_int(tree, "model.ffn_config.ffn_hidden_size",
                                  orr_foreign_product((const int64_t[]){hidden, ratio}, 2));
    orr_tree_put_int(im->arena, card, "ffn", ffn);
    field_int(im, card, "vocab", tree, "model.vocab_size");
    field_int(im, card, "max_seq", tree, "max_seq_len");
    bool rms = strstr(orr_foreign_text(tree, "model.norm_type"), "rms") != NULL;
    orr_tree_put_text(im->arena, card, "norm", rms ? "rms" : "layer");
    bool alibi = orr_foreign_flag(tree, "model.attn_config.alibi", false);
    bool rope = orr_foreign_flag(tree, "model.attn_config.rope", false);
    bool learned = orr_foreign_flag(tree, "model.learned_pos_emb", !alibi && !rope);
    orr_tree_put_text(im->arena, card, "position",
                      rope      ? "rope"
                      : alibi   ? "alibi"
                      : learned ? "learned"
                                : "none");
    orr_tree_put_bool(im->arena, card, "tied",
                      orr_foreign_flag(tree, "model.tie_word_embeddings", true));
    if (orr_foreign_flag(tree, "model.attn_config.qk_ln", false)) {
        orr_tree_put_text(im->arena, card, "qk_norm", "all");
    }
    bool bias = !orr_foreign_flag(tree, "model.no_bias", false);
    orr_tree_put_bool(im->arena, card, "bias_qkv", bias);
    orr_tree_put_bool(im->arena, card, "bias_out", bias);
    orr_tree_put_bool(im->arena, card, "bias_mlp", bias);
    bool gated = strstr(orr_foreign_text(tree, "model.ffn_config.ffn_type"), "glu") != NULL;
    orr_tree_put_text(im->arena, card, "activation", gated ? "silu" : "gelu");
    orr_tree_put_bool(im->arena, card, "gated", gated);
    int64_t experts = orr_foreign_int(tree, "model.ffn_config.moe_num_experts", 0);
    if (experts > 1) {
        orr_tree_put_int(im->arena, card, "experts", experts);
        orr_tree_put_int(im->arena, card, "topk",
                         orr_foreign_int(tree, "model.ffn_config.moe_top_k", 1));
        orr_tree_put_int(im->arena, card, "expert_ffn", ffn);
    }
    if (orr_tree_get(card, "vocab") == NULL) {
        orr_tree_put_int(im->arena, card, "vocab", 50368);
        orr_import_assume(im, "model.vocab", "50368", "model.vocab_size is not stated: MPT's");
    }
    orr_import_put(im, "model", card, orr_foreign_line(tree, "model.d_model"));
}

static void foundry_joint(importer *im, const orr_tree *tree) {
    const char *id = orr_foreign_text(tree, "model.pretrained_model_name_or_path");
    if (id[0] != '\0') {
        orr_foreign_model_id(im, id, orr_foreign_line(tree, "model.pretrained_model_name_or_path"));
    } else {
        foundry_card(im, tree);
    }
    const char *attention = orr_foreign_text(tree, "model.attn_config.attn_impl");
    if (strcmp(attention, "torch") == 0) {
        orr_import_put_text(im, "attention", "unfused",
                            orr_foreign_line(tree, "model.attn_config.attn_impl"));
    }
    if (strcmp(orr_foreign_text(tree, "precision"), "fp32") == 0) {
        orr_import_warn(im, orr_foreign_line(tree, "precision"),
                        "fp32 training is not modelled: bf16 is taken");
    }
    if (orr_tree_kind_of(orr_tree_path(tree, "model.peft_config")) == ORR_TREE_MAP) {
        orr_foreign_lora(im, orr_tree_path(tree, "model.peft_config.r"),
                         orr_tree_path(tree, "model.peft_config.target_modules"),
                         orr_foreign_line(tree, "model.peft_config.r"));
    }
    if (orr_tree_get(tree, "fsdp_config") == NULL) {
        orr_import_put_text(im, "sharding", "none", 0);
        orr_import_assume(im, "sharding", "none",
                          "there is no fsdp_config: plain data parallelism");
    }
    if (orr_tree_get(im->keys, "mbs") == NULL) {
        orr_import_ask(im, orr_foreign_line(tree, "device_train_microbatch_size"), "mbs",
                       "the micro-batch is found by trying (\"auto\") or absent; give --mbs");
    }
    orr_import_put_text(im, "overlap", "dp", 0);
    orr_import_put_text(im, "software", "llm-foundry", 0);
}

const foreign_format orr_foreign_llmfoundry = {
    "llm-foundry-yaml", foundry_rows,  sizeof foundry_rows / sizeof *foundry_rows,
    is_foundry,         foundry_joint, NULL};

/* ---- MaxText -------------------------------------------------------------------------------- */

#define PARALLEL(axis)                                                                             \
    FOREIGN_WITH("ici_" axis "_parallelism", NULL), FOREIGN_WITH("dcn_" axis "_parallelism", NULL)
static const foreign_row maxtext_rows[] = {
    FOREIGN_WITH("model_name", "model"),
    FOREIGN_WITH("base_emb_dim", "model"),
    FOREIGN_WITH("base_num_query_heads", "model"),
    FOREIGN_WITH("base_num_kv_heads", "model"),
    FOREIGN_WITH("base_mlp_dim", "model"),
    FOREIGN_WITH("base_moe_mlp_dim", "model"),
    FOREIGN_WITH("base_num_decoder_layers", "model"),
    FOREIGN_WITH("head_dim", "model"),
    FOREIGN_WITH("vocab_size", "model"),
    FOREIGN_WITH("mlp_activations", "model"),
    FOREIGN_WITH("logits_via_embedding", "model"),
    FOREIGN_WITH("num_experts", "model"),
    FOREIGN_WITH("num_experts_per_tok", "model"),
    FOREIGN_WITH("shared_experts", "model"),
    FOREIGN_WITH("first_num_dense_layers", "model"),
    FOREIGN_WITH("decoder_block", "model"),
    FOREIGN_WITH("use_qk_norm", "model"),
    FOREIGN_WITH("attention_type", "model"),
    FOREIGN_NOTE("global_parameter_scale", "1", "sizes are scaled"),
    FOREIGN_WITH("per_device_batch_size", "mbs"),
    FOREIGN_NUM_OR("gradient_accumulation_steps", "micro_batches", "1"),
    FOREIGN_NUM("max_target_length", "seq"),
    PARALLEL("data"),
    PARALLEL("fsdp"),
    PARALLEL("fsdp_transpose"),
    PARALLEL("tensor"),
    PARALLEL("tensor_transpose"),
    PARALLEL("tensor_sequence"),
    PARALLEL("sequence"),
    PARALLEL("context"),
    PARALLEL("expert"),
    PARALLEL("pipeline"),
    PARALLEL("autoregressive"),
    FOREIGN_WITH("remat_policy", "recompute"),
    FOREIGN_WITH("dtype", "precision"),
    FOREIGN_WITH("quantization", "precision"),
    FOREIGN_SAYS_OR("weight_dtype", "param_dtype", "float32=fp32 bfloat16=bf16", "fp32"),
    FOREIGN_SAYS_OR("opt_type", "optimizer", "adamw=adam adam_pax=adam muon", "adam"),
    FOREIGN_SAYS("attention", "attention",
                 "autoselected=flash flash cudnn_flash_te=flash cudnn_flash_jax=flash "
                 "dot_product=unfused"),
    FOREIGN_WITH("num_pipeline_microbatches", NULL),
    FOREIGN_WITH("num_layers_per_pipeline_stage", NULL),
    FOREIGN_WITH("capacity_factor", "capacity"),
    FOREIGN_SKIP("megablox"),
    FOREIGN_SKIP("sparse_matmul"),
    FOREIGN_NOTE("optimizer_memory_host_offload", "false", "states on the host"),
    FOREIGN_NOTE("parameter_memory_host_offload", "false", "parameters on the host"),
    FOREIGN_NOTE("num_vocab_tiling", "1", "the loss in tiles"),
    FOREIGN_SKIP("scan_layers"),
    FOREIGN_SKIP("hardware"),
    FOREIGN_SKIP("base_config"),
    FOREIGN_SKIP("run_name"),
    FOREIGN_SKIP("steps"),
    FOREIGN_SKIP("base_output_directory"),
    FOREIGN_SKIP("dataset_type"),
    FOREIGN_SKIP("dataset_path"),
    FOREIGN_SKIP("dataset_name"),
    FOREIGN_SKIP("enable_checkpointing"),
    FOREIGN_SKIP("async_checkpointing"),
    FOREIGN_SKIP("tokenizer_path"),
    FOREIGN_SKIP("tokenizer_type"),
    FOREIGN_SKIP("learning_rate"),
    FOREIGN_SKIP("profiler"),
    FOREIGN_SKIP("reuse_example_batch"),
    FOREIGN_SKIP("normalization_layer_epsilon"),
    FOREIGN_SKIP("rope_max_timescale"),
    FOREIGN_SKIP("logits_dot_in_fp32"),
    FOREIGN_SKIP("enable_dropout"),
    FOREIGN_SKIP("packing"),
    FOREIGN_SKIP("sa_block_q"),
    FOREIGN_SKIP("sa_block_kv"),
};

static bool is_maxtext(const orr_tree *tree) {
    return orr_tree_get(tree, "per_device_batch_size") != NULL &&
           (orr_tree_get(tree, "max_target_length") != NULL ||
            orr_tree_get(tree, "remat_policy") != NULL ||
            orr_tree_get(tree, "base_emb_dim") != NULL);
}

/* One axis over both networks; 0: one of them is -1, the rest of the devices. */
static int64_t axis(const orr_tree *tree, importer *im, const char *name) {
    const char *near = orr_arena_format(im->arena, "ici_%s_parallelism", name);
    const char *far = orr_arena_format(im->arena, "dcn_%s_parallelism", name);
    int64_t a = orr_foreign_int(tree, near, strcmp(name, "fsdp") == 0 ? -1 : 1);
    int64_t b = orr_foreign_int(tree, far, 1);
    return a < 1 || b < 1 ? 0 : orr_foreign_product((const int64_t[]){a, b}, 2);
}

static void maxtext_model(importer *im, const orr_tree *tree) {
    static const char *const names[][2] = {
        {"deepseek3-671b", "deepseek-v3"},       {"deepseek2-236b", "deepseek-v2"},
        {"deepseek2-16b", "deepseek-v2-lite"},   {"llama4-17b-16e", "llama-4-scout"},
        {"llama4-17b-128e", "llama-4-maverick"}, {"kimi-k2-1t", "kimi-k2"}};
    const char *name = orr_foreign_text(tree, "model_name");
    uint32_t line = orr_foreign_line(tree, "model_name");
    if (name[0] != '\0' && strcmp(name, "default") != 0) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            name = strcmp(name, names[i][0]) == 0 ? names[i][1] : name;
        }
        orr_import_put_text(im, "model", name, line);
        if (orr_tree_get(tree, "base_emb_dim") != NULL) {
            orr_import_warn(im, orr_foreign_line(tree, "base_emb_dim"),
                            "sizes beside model_name are not applied: the model is known by name");
        }
        return;
    }
    orr_tree *card = orr_tree_new_map(im->arena);
    int64_t heads = orr_foreign_int(tree, "base_num_query_heads", 0);
    if (orr_foreign_int(tree, "base_emb_dim", 0) < 1 || heads < 1) {
        return;
    }
    orr_tree_put_text(im->arena, card, "name", orr_import_stem(im->arena, im->file));
    field_int(im, card, "layers", tree, "base_num_decoder_layers");
    field_int(im, card, "hidden", tree, "base_emb_dim");
    orr_tree_put_int(im->arena, card, "heads", heads);
    orr_tree_put_int(im->arena, card, "kv_heads",
                     orr_foreign_int(tree, "base_num_kv_heads", heads));
    field_int(im, card, "head_dim", tree, "head_dim");
    field_int(im, card, "ffn", tree, "base_mlp_dim");
    field_int(im, card, "vocab", tree, "vocab_size");
    orr_tree_put_text(im->arena, card, "norm", "rms");
    orr_tree_put_text(im->arena, card, "position", "rope");
    orr_tree_put_bool(im->arena, card, "tied",
                      orr_foreign_flag(tree, "logits_via_embedding", false));
    const orr_tree *activations = orr_tree_get(tree, "mlp_activations");
    const char *first = orr_tree_text(orr_tree_at(activations, 0), "silu");
    orr_tree_put_text(im->arena, card, "activation",
                      strncmp(first, "gelu", 4) == 0 ? "gelu" : "silu");
    orr_tree_put_bool(im->arena, card, "gated",
                      activations == NULL || orr_tree_size(activations) > 1);
    int64_t experts = orr_foreign_int(tree, "num_experts", 1);
    if (experts > 1) {
        orr_tree_put_int(im->arena, card, "experts", experts);
        orr_tree_put_int(im->arena, card, "topk", orr_foreign_int(tree, "num_experts_per_tok", 1));
        orr_tree_put_int(
            im->arena, card, "expert_ffn",
            orr_foreign_int(tree, "base_moe_mlp_dim", orr_foreign_int(tree, "base_mlp_dim", 0)));
    }
    if (orr_foreign_int(tree, "shared_experts", 0) > 0 ||
        orr_foreign_int(tree, "first_num_dense_layers", 0) > 0 ||
        strcmp(orr_foreign_text(tree, "attention_type"), "mla") == 0) {
        orr_import_unknown(im, "decoder_block", orr_foreign_line(tree, "decoder_block"), true,
                           "shared experts, leading dense layers and latent attention are not "
                           "read; give --model");
        return;
    }
    orr_import_put(im, "model", card, orr_foreign_line(tree, "base_emb_dim"));
}

static void maxtext_split(importer *im, const orr_tree *tree) {
    static const char *const axes[][2] = {
        {"tensor", "tp"}, {"context", "cp"}, {"expert", "ep"}, {"pipeline", "pp"}};
    int64_t data = axis(tree, im, "data"), fsdp = axis(tree, im, "fsdp");
    int64_t size[4], product = 1;
    for (size_t i = 0; i < 4; i++) {
        size[i] = axis(tree, im, axes[i][0]);
        const char *path = orr_arena_format(im->arena, "ici_%s_parallelism", axes[i][0]);
        if (size[i] < 1) {
            orr_import_depends(im, path, orr_foreign_line(tree, path), axes[i][1],
                               "the number of devices");
        } else {
            orr_import_put_int(im, axes[i][1], size[i], orr_foreign_line(tree, path));
        }
        product = product > 0 && size[i] > 0
                      ? orr_foreign_product((const int64_t[]){product, size[i]}, 2)
                      : 0;
    }
    int64_t sequence = axis(tree, im, "sequence"), along = axis(tree, im, "tensor_sequence");
    if (sequence > 1 || along > 1 || axis(tree, im, "tensor_transpose") > 1 ||
        axis(tree, im, "fsdp_transpose") > 1) {
        orr_import_unknown(im, "ici_sequence_parallelism",
                           orr_foreign_line(tree, "ici_sequence_parallelism"), true,
                           "the axes sequence, tensor_sequence and *_transpose are not modelled");
    }
    uint32_t line = orr_foreign_line(tree, "ici_fsdp_parallelism");
    bool shards = fsdp != 1;
    orr_import_put_text(im, "sharding",
                        shards && data > 1 ? "hsdp"
                        : shards           ? "zero3"
                                           : "none",
                        line);
    int64_t gpus = orr_foreign_product((const int64_t[]){data, fsdp, product}, 3);
    if (gpus > 0 && gpus <= 1 << 20) {
        orr_import_put_int(im, "gpus", gpus, line);
        if (shards && data > 1) {
            orr_import_put_int(im, "shard_group", fsdp, line);
        }
    } else {
        orr_import_ask(im, line, "gpus",
                       "an axis of -1 takes the devices that are left; give --gpus");
    }
}

static void maxtext_numbers(importer *im, const orr_tree *tree) {
    const char *quant = orr_foreign_text(tree, "quantization");
    const char *type = orr_foreign_text(tree, "dtype");
    const char *value = quant[0] == '\0' ? "bf16" : strstr(quant, "fp8") != NULL ? "fp8_cs" : NULL;
    if (value == NULL) {
        orr_import_unknown(im, "quantization", orr_foreign_line(tree, "quantization"), true,
                           "int8 and other formats are not modelled");
    }
    if (strcmp(type, "float32") == 0) {
        orr_import_unknown(im, "fp32 training", orr_foreign_line(tree, "dtype"), true,
                           "dtype float32 is not modelled");
    }
    orr_import_put_text(im, "precision", value != NULL ? value : "bf16",
                        orr_foreign_line(tree, quant[0] != '\0' ? "quantization" : "dtype"));
    const char *remat = orr_foreign_text(tree, "remat_policy");
    uint32_t line = orr_foreign_line(tree, "remat_policy");
    if (remat[0] == '\0' || strcmp(remat, "full") == 0) {
        orr_import_put_text(im, "recompute", "full", line);
    } else if (strcmp(remat, "none") == 0) {
        orr_import_put_text(im, "recompute", "none", line);
    } else {
        orr_import_put_text(im, "recompute", "unknown", line);
        orr_import_unknown(im, "remat_policy", line, true,
                           "policies that keep some products are not modelled: none to full");
    }
    double capacity = orr_tree_real(orr_tree_get(tree, "capacity_factor"), -1);
    if (capacity > 0 && capacity <= 64) {
        orr_import_put_real(im, "capacity", capacity, orr_foreign_line(tree, "capacity_factor"));
    }
}

static void maxtext_joint(importer *im, const orr_tree *tree) {
    maxtext_model(im, tree);
    maxtext_split(im, tree);
    maxtext_numbers(im, tree);
    const orr_tree *batch = orr_tree_get(tree, "per_device_batch_size");
    int64_t each = orr_tree_int(batch, 0);
    int64_t tp = orr_tree_int(orr_tree_get(im->keys, "tp"), 1);
    int64_t cp = orr_tree_int(orr_tree_get(im->keys, "cp"), 1);
    int64_t pp = orr_tree_int(orr_tree_get(im->keys, "pp"), 1);
    /* A device's share; a replica of several devices takes the sum of theirs. */
    int64_t mbs = orr_foreign_product((const int64_t[]){each, tp, cp, pp}, 4);
    double real = orr_tree_real(batch, 0);
    if (each < 1 && real > 0 && real * (double)(tp * cp * pp) >= 1) {
        mbs = (int64_t)(real * (double)(tp * cp * pp) + 0.5);
    }
    if (mbs < 1 || mbs > 1 << 20) {
        orr_import_unknown(im, "per_device_batch_size", orr_tree_span(batch).line, true,
                           "it is not a number of sequences");
        return;
    }
    int64_t steps = orr_foreign_int(tree, "num_pipeline_microbatches", pp);
    if (pp > 1 && steps > 0 && mbs % steps == 0) {
        orr_import_put_int(im, "micro_batches", steps,
                           orr_foreign_line(tree, "num_pipeline_microbatches"));
        mbs /= steps;
    }
    orr_import_put_int(im, "mbs", mbs, orr_tree_span(batch).line);
    orr_import_put_text(im, "overlap", "dp", 0);
    orr_import_put_text(im, "software", "maxtext", 0);
}

const foreign_format orr_foreign_maxtext = {
    "maxtext-yaml", maxtext_rows,  sizeof maxtext_rows / sizeof *maxtext_rows,
    is_maxtext,     maxtext_joint, NULL};
