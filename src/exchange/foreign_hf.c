/* DeepSpeed JSON, and Accelerate's YAML for DeepSpeed, FSDP, DDP and Megatron-LM. Neither says what
 * the model is or whether it recomputes. Settings: deepspeed.ai/docs/config-json, Accelerate's
 * dataclasses. */
#include <string.h>

#include "exchange/foreign.h"

static void put_recompute(importer *im, bool full, uint32_t line) {
    orr_import_put_text(im, "recompute", full ? "full" : "unknown", line);
    if (!full) {
        orr_import_assume(im, "recompute", "unknown", "this file does not say; the trainer does");
    }
}

static void put_software(importer *im, const char *software) {
    orr_import_put_text(im, "software", software, 0);
    orr_import_assume(im, "software", software, "the file does not name the training program");
}

/* ---- DeepSpeed ------------------------------------------------------------------------------ */

#define OFFLOAD "states on the host or on NVMe"
static const foreign_row deepspeed_rows[] = {
    FOREIGN_NUM("train_micro_batch_size_per_gpu", "mbs"),
    FOREIGN_NUM("train_batch_size", "gbs"),
    FOREIGN_NUM("gradient_accumulation_steps", "micro_batches"),
    FOREIGN_SAYS_OR("zero_optimization.stage", "sharding", "0=none 1=zero1 2=zero2 3=zero3",
                    "none"),
    FOREIGN_NOTE("zero_optimization.offload_optimizer.device", "none", OFFLOAD),
    FOREIGN_NOTE("zero_optimization.offload_param.device", "none", OFFLOAD),
    FOREIGN_WITH("zero_optimization.offload_optimizer.*", NULL),
    FOREIGN_WITH("zero_optimization.offload_param.*", NULL),
    FOREIGN_NOTE("zero_optimization.cpu_offload", "false", OFFLOAD),
    FOREIGN_WITH("zero_optimization.overlap_comm", NULL),
    FOREIGN_NOTE("zero_optimization.zero_hpz_partition_size", "1", "parameters kept within a node"),
    FOREIGN_WITH("zero_optimization.mics_shard_size", "shard_group"),
    FOREIGN_NOTE("zero_optimization.zero_quantized_weights", "false", "quantized gathers"),
    FOREIGN_NOTE("zero_optimization.zero_quantized_gradients", "false", "quantized reductions"),
    FOREIGN_SKIP("zero_optimization.contiguous_gradients"),
    FOREIGN_SKIP("zero_optimization.reduce_bucket_size"),
    FOREIGN_SKIP("zero_optimization.allgather_bucket_size"),
    FOREIGN_SKIP("zero_optimization.allgather_partitions"),
    FOREIGN_SKIP("zero_optimization.reduce_scatter"),
    FOREIGN_SKIP("zero_optimization.round_robin_gradients"),
    FOREIGN_SKIP("zero_optimization.sub_group_size"),
    FOREIGN_SKIP("zero_optimization.elastic_checkpoint"),
    FOREIGN_SKIP("zero_optimization.ignore_unused_parameters"),
    FOREIGN_SKIP("zero_optimization.load_from_fp32_weights"),
    FOREIGN_SKIP("zero_optimization.legacy_stage1"),
    FOREIGN_SKIP("zero_optimization.stage3_prefetch_bucket_size"),
    FOREIGN_SKIP("zero_optimization.stage3_param_persistence_threshold"),
    FOREIGN_SKIP("zero_optimization.stage3_model_persistence_threshold"),
    FOREIGN_SKIP("zero_optimization.stage3_max_live_parameters"),
    FOREIGN_SKIP("zero_optimization.stage3_max_reuse_distance"),
    FOREIGN_SKIP("zero_optimization.stage3_gather_16bit_weights_on_model_save"),
    FOREIGN_SKIP("zero_optimization.stage3_gather_fp16_weights_on_model_save"),
    FOREIGN_SKIP("zero_optimization.memory_efficient_linear"),
    FOREIGN_WITH("bf16.enabled", "precision"),
    FOREIGN_SKIP("bf16.*"),
    FOREIGN_WITH("bfloat16.enabled", "precision"),
    FOREIGN_WITH("fp16.enabled", "precision"),
    FOREIGN_SKIP("fp16.*"),
    FOREIGN_NOTE("amp.enabled", "false", "Apex mixed precision"),
    FOREIGN_SAYS("data_types.grad_accum_dtype", "grad_dtype",
                 "fp32 float32=fp32 bf16 bfloat16=bf16 fp16=bf16"),
    FOREIGN_NOTE("communication_data_type", NULL, "another format on the wire"),
    FOREIGN_SAYS("optimizer.type", "optimizer",
                 "Adam=adam AdamW=adam FusedAdam=adam CPUAdam=adam DeepSpeedCPUAdam=adam "
                 "Adam8bit=adam8bit Muon=muon"),
    FOREIGN_SKIP("optimizer.*"),
    FOREIGN_SKIP("scheduler.*"),
    FOREIGN_NOTE("activation_checkpointing.cpu_checkpointing", "false", "saved inputs on the host"),
    FOREIGN_NOTE("activation_checkpointing.partition_activations", "false",
                 "saved inputs split over tensor-parallel ranks"),
    FOREIGN_SKIP("activation_checkpointing.*"),
    FOREIGN_NUM("tensor_parallel.autotp_size", "tp"),
    FOREIGN_WITH("sequence_parallel_size", "cp"),
    FOREIGN_NOTE("compression_training.*", NULL, "compression"),
    FOREIGN_NOTE("sparse_attention.*", NULL, "sparse attention"),
    FOREIGN_SKIP("gradient_clipping"),
    FOREIGN_SKIP("prescale_gradients"),
    FOREIGN_SKIP("gradient_predivide_factor"),
    FOREIGN_SKIP("steps_per_print"),
    FOREIGN_SKIP("wall_clock_breakdown"),
    FOREIGN_SKIP("zero_allow_untested_optimizer"),
    FOREIGN_SKIP("zero_force_ds_cpu_optimizer"),
    FOREIGN_SKIP("flops_profiler.*"),
    FOREIGN_SKIP("comms_logger.*"),
    FOREIGN_SKIP("monitor_config.*"),
    FOREIGN_SKIP("checkpoint.*"),
    FOREIGN_SKIP("aio.*"),
};

static bool is_deepspeed(const orr_tree *tree) {
    return orr_tree_kind_of(orr_tree_get(tree, "zero_optimization")) == ORR_TREE_MAP ||
           orr_tree_get(tree, "train_micro_batch_size_per_gpu") != NULL;
}

static void put_precision(importer *im, const orr_tree *tree) {
    bool bf16 = orr_foreign_flag(tree, "bf16.enabled", false) ||
                orr_foreign_flag(tree, "bfloat16.enabled", false);
    bool fp16 = orr_foreign_flag(tree, "fp16.enabled", false);
    bool open = strcmp(orr_foreign_text(tree, "bf16.enabled"), "auto") == 0 ||
                strcmp(orr_foreign_text(tree, "fp16.enabled"), "auto") == 0;
    const char *value = fp16 && !bf16 ? "fp16" : "bf16";
    if (!bf16 && !fp16) {
        orr_import_assume(im, "precision", value,
                          open ? "left to the trainer" : "none is stated, and fp32 not modelled");
        if (!open) {
            orr_import_unknown(im, "fp32 training", 0, true, "neither bf16 nor fp16 is enabled");
        }
    }
    orr_import_put_text(im, "precision", value,
                        orr_foreign_line(tree, fp16 ? "fp16.enabled" : "bf16.enabled"));
}

static void deepspeed_joint(importer *im, const orr_tree *tree) {
    int64_t stage = orr_foreign_int(tree, "zero_optimization.stage", 0);
    put_precision(im, tree);
    bool overlap = orr_foreign_flag(tree, "zero_optimization.overlap_comm", stage == 3);
    orr_import_put_text(im, "overlap", overlap ? "dp" : "none",
                        orr_foreign_line(tree, "zero_optimization.overlap_comm"));
    int64_t sequence = orr_foreign_int(tree, "sequence_parallel_size", 1);
    if (sequence > 1) { /* Ulysses: heads for sequence by all-to-all */
        orr_import_put_int(im, "cp", sequence, orr_foreign_line(tree, "sequence_parallel_size"));
        orr_import_put_text(im, "cp_kind", "a2a", orr_foreign_line(tree, "sequence_parallel_size"));
    }
    int64_t group = orr_foreign_int(tree, "zero_optimization.mics_shard_size", 0);
    if (group > 0) {
        uint32_t line = orr_foreign_line(tree, "zero_optimization.mics_shard_size");
        orr_import_put_text(im, "sharding", "hsdp", line);
        orr_import_put_int(im, "shard_group", group, line);
    }
    int64_t gbs = orr_foreign_int(tree, "train_batch_size", 0);
    int64_t mbs = orr_foreign_int(tree, "train_micro_batch_size_per_gpu", 0);
    int64_t steps = orr_foreign_int(tree, "gradient_accumulation_steps", 0);
    int64_t each = orr_foreign_product((const int64_t[]){mbs, steps}, 2);
    if (each > 0 && gbs > 0 && gbs % each == 0 && gbs / each <= 1 << 20 && sequence <= 1 &&
        orr_tree_get(im->keys, "tp") == NULL) {
        orr_import_put_int(im, "gpus", gbs / each, orr_foreign_line(tree, "train_batch_size"));
        orr_import_assume(im, "gpus", orr_arena_format(im->arena, "%lld", (long long)(gbs / each)),
                          "batch / (micro-batch x accumulation), with no model parallelism");
    }
    put_recompute(im, false, 0);
    put_software(im, stage == 3 ? "hf-zero3" : "unknown");
}

static void deepspeed_write(exporter *x) {
    bool fp16 = orr_export_is(x, "precision", "fp16");
    int64_t cp = orr_export_number(x, "cp", 1), group = orr_export_number(x, "shard_group", 0);
    orr_export_flag(x, fp16 ? "fp16.enabled" : "bf16.enabled", true);
    orr_export_flag(x, "zero_optimization.overlap_comm", orr_export_holds(x, "overlap", "dp"));
    if (cp > 1 && orr_export_is(x, "cp_kind", "a2a")) {
        orr_export_int(x, "sequence_parallel_size", cp);
    }
    if (orr_export_is(x, "sharding", "hsdp") && group > 0) {
        orr_export_int(x, "zero_optimization.stage", 3);
        orr_export_int(x, "zero_optimization.mics_shard_size", group);
    } else if (orr_export_is(x, "sharding", "fsdp2")) {
        orr_export_int(x, "zero_optimization.stage", 3);
        orr_export_lose(x, "sharding", "fsdp2", "stage 3 shards the same; FSDP2 is PyTorch's");
    }
}

const foreign_format orr_foreign_deepspeed = {
    "deepspeed-json", deepspeed_rows,  sizeof deepspeed_rows / sizeof *deepspeed_rows,
    is_deepspeed,     deepspeed_joint, deepspeed_write};

/* ---- Accelerate ----------------------------------------------------------------------------- */

static const foreign_row accelerate_rows[] = {
    FOREIGN_NUM("num_processes", "gpus"),
    FOREIGN_NUM("num_machines", "nodes"),
    FOREIGN_SAYS("mixed_precision", "precision", "bf16 fp16 fp8"),
    FOREIGN_WITH("distributed_type", NULL),
    FOREIGN_NUM("gradient_accumulation_steps", "micro_batches"),
    FOREIGN_WITH("fsdp_config.fsdp_sharding_strategy", "sharding"),
    FOREIGN_WITH("fsdp_config.fsdp_reshard_after_forward", "sharding"),
    FOREIGN_WITH("fsdp_config.fsdp_version", NULL),
    FOREIGN_WITH("fsdp_config.fsdp_activation_checkpointing", NULL),
    FOREIGN_NOTE("fsdp_config.fsdp_offload_params", "false",
                 "parameters and optimizer on the host"),
    FOREIGN_NOTE("fsdp_config.fsdp_backward_prefetch", "BACKWARD_PRE 1",
                 "gathers are not prefetched in the backward pass"),
    FOREIGN_NOTE("fsdp_config.fsdp_backward_prefetch_policy", "BACKWARD_PRE 1",
                 "gathers are not prefetched in the backward pass"),
    FOREIGN_SKIP("fsdp_config.fsdp_auto_wrap_policy"),
    FOREIGN_SKIP("fsdp_config.fsdp_transformer_layer_cls_to_wrap"),
    FOREIGN_SKIP("fsdp_config.fsdp_min_num_params"),
    FOREIGN_SKIP("fsdp_config.fsdp_state_dict_type"),
    FOREIGN_SKIP("fsdp_config.fsdp_sync_module_states"),
    FOREIGN_SKIP("fsdp_config.fsdp_use_orig_params"),
    FOREIGN_SKIP("fsdp_config.fsdp_cpu_ram_efficient_loading"),
    FOREIGN_SKIP("fsdp_config.fsdp_forward_prefetch"),
    FOREIGN_SAYS("deepspeed_config.zero_stage", "sharding", "0=none 1=zero1 2=zero2 3=zero3"),
    FOREIGN_NUM("deepspeed_config.gradient_accumulation_steps", "micro_batches"),
    FOREIGN_NOTE("deepspeed_config.offload_optimizer_device", "none", OFFLOAD),
    FOREIGN_NOTE("deepspeed_config.offload_param_device", "none", OFFLOAD),
    FOREIGN_NOTE("deepspeed_config.deepspeed_config_file", NULL, "settings are in another file"),
    FOREIGN_SKIP("deepspeed_config.zero3_init_flag"),
    FOREIGN_SKIP("deepspeed_config.deepspeed_multinode_launcher"),
    FOREIGN_SKIP("deepspeed_config.deepspeed_hostfile"),
    FOREIGN_SKIP("deepspeed_config.zero3_save_16bit_model"),
    FOREIGN_SKIP("deepspeed_config.gradient_clipping"),
    FOREIGN_SKIP("deepspeed_config.offload_optimizer_nvme_path"),
    FOREIGN_SKIP("deepspeed_config.offload_param_nvme_path"),
    FOREIGN_NUM("megatron_lm_config.megatron_lm_tp_degree", "tp"),
    FOREIGN_NUM("megatron_lm_config.megatron_lm_pp_degree", "pp"),
    FOREIGN_NUM("megatron_lm_config.megatron_lm_num_micro_batches", "micro_batches"),
    FOREIGN_SAYS("megatron_lm_config.megatron_lm_sequence_parallelism", "sp", "true=on false=off"),
    FOREIGN_SAYS("megatron_lm_config.megatron_lm_use_distributed_optimizer", "sharding",
                 "true=zero1 false=none"),
    FOREIGN_WITH("megatron_lm_config.megatron_lm_recompute_activations", NULL),
    FOREIGN_SKIP("megatron_lm_config.megatron_lm_gradient_clipping"),
    FOREIGN_NUM("parallelism_config.parallelism_config_tp_size", "tp"),
    FOREIGN_NUM("parallelism_config.parallelism_config_cp_size", "cp"),
    FOREIGN_WITH("parallelism_config.parallelism_config_dp_replicate_size", NULL),
    FOREIGN_WITH("parallelism_config.parallelism_config_dp_shard_size", NULL),
    FOREIGN_SAYS("parallelism_config.parallelism_config_cp_comm_strategy", "cp_kind",
                 "allgather alltoall=ring"),
    FOREIGN_SKIP("fp8_config.*"),
    FOREIGN_SKIP("dynamo_config.*"),
    FOREIGN_SKIP("compute_environment"),
    FOREIGN_SKIP("debug"),
    FOREIGN_SKIP("downcast_bf16"),
    FOREIGN_SKIP("enable_cpu_affinity"),
    FOREIGN_SKIP("gpu_ids"),
    FOREIGN_SKIP("machine_rank"),
    FOREIGN_SKIP("main_process_ip"),
    FOREIGN_SKIP("main_process_port"),
    FOREIGN_SKIP("main_training_function"),
    FOREIGN_SKIP("rdzv_backend"),
    FOREIGN_SKIP("same_network"),
    FOREIGN_SKIP("tpu_env"),
    FOREIGN_SKIP("tpu_use_cluster"),
    FOREIGN_SKIP("tpu_use_sudo"),
    FOREIGN_NOTE("use_cpu", "false", "training on the CPU"),
};

static bool is_accelerate(const orr_tree *tree) {
    return orr_tree_get(tree, "distributed_type") != NULL &&
           (orr_tree_get(tree, "num_processes") != NULL ||
            orr_tree_get(tree, "compute_environment") != NULL ||
            orr_tree_get(tree, "fsdp_config") != NULL);
}

static void put_fsdp(importer *im, const orr_tree *tree) {
    static const char *const kinds[][3] = {{"FULL_SHARD", "1", "zero3"},
                                           {"SHARD_GRAD_OP", "2", "zero2"},
                                           {"NO_SHARD", "3", "none"},
                                           {"HYBRID_SHARD", "4", "hsdp"},
                                           {"HYBRID_SHARD_ZERO2", "5", "hsdp"}};
    const char *path = "fsdp_config.fsdp_sharding_strategy";
    bool second = orr_foreign_int(tree, "fsdp_config.fsdp_version", 1) == 2;
    const char *strategy = orr_foreign_text(tree, path);
    int64_t number = orr_foreign_int(tree, path, 0);
    const char *value = second ? "fsdp2" : "zero3";
    bool found = strategy[0] == '\0' && number == 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (orr_name_equal(strategy, kinds[i][0]) || number == (int64_t)i + 1) {
            value = second && i == 0 ? "fsdp2" : kinds[i][2];
            found = true;
        }
    }
    if (!found) {
        orr_import_unknown(im, path, orr_foreign_line(tree, path), true, "it is not known");
    }
    if (second && !orr_foreign_flag(tree, "fsdp_config.fsdp_reshard_after_forward", true)) {
        value = "zero2";
    }
    int64_t replicas =
        orr_foreign_int(tree, "parallelism_config.parallelism_config_dp_replicate_size", 1);
    int64_t shards =
        orr_foreign_int(tree, "parallelism_config.parallelism_config_dp_shard_size", 1);
    if (replicas > 1 && shards > 1 && shards <= 1 << 20) {
        value = "hsdp";
        orr_import_put_int(
            im, "shard_group", shards,
            orr_foreign_line(tree, "parallelism_config.parallelism_config_dp_shard_size"));
    }
    orr_import_put_text(im, "sharding", value, orr_foreign_line(tree, path));
    put_recompute(im, orr_foreign_flag(tree, "fsdp_config.fsdp_activation_checkpointing", false),
                  orr_foreign_line(tree, "fsdp_config.fsdp_activation_checkpointing"));
    put_software(im, "unknown");
}

static void accelerate_joint(importer *im, const orr_tree *tree) {
    const char *type = orr_foreign_text(tree, "distributed_type");
    if (orr_tree_get(im->keys, "precision") == NULL) {
        orr_import_put_text(im, "precision", "bf16", 0);
        orr_import_assume(im, "precision", "bf16", "no mixed precision is stated");
    }
    if (orr_name_equal(type, "FSDP")) {
        put_fsdp(im, tree);
    } else if (orr_name_equal(type, "MEGATRON_LM")) {
        const char *path = "megatron_lm_config.megatron_lm_recompute_activations";
        orr_import_put_text(im, "recompute",
                            orr_foreign_flag(tree, path, false) ? "selective" : "none",
                            orr_foreign_line(tree, path));
        put_software(im, "megatron-core");
    } else {
        bool deepspeed = orr_name_equal(type, "DEEPSPEED");
        if (orr_tree_get(im->keys, "sharding") == NULL && !deepspeed) {
            orr_import_put_text(im, "sharding", "none", orr_foreign_line(tree, "distributed_type"));
        }
        put_recompute(im, false, 0);
        put_software(im, deepspeed && orr_foreign_int(tree, "deepspeed_config.zero_stage", 0) == 3
                             ? "hf-zero3"
                             : "unknown");
    }
}

const foreign_format orr_foreign_accelerate = {
    "accelerate-yaml", accelerate_rows,  sizeof accelerate_rows / sizeof *accelerate_rows,
    is_accelerate,     accelerate_joint, NULL};
