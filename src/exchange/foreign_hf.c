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
    {"train_micro_batch_size_per_gpu", FOREIGN_INT, "mbs", NULL, NULL},
    {"train_batch_size", FOREIGN_INT, "gbs", NULL, NULL},
    {"gradient_accumulation_steps", FOREIGN_INT, "micro_batches", NULL, NULL},
    {"zero_optimization.stage", FOREIGN_WORD, "sharding", "0=none 1=zero1 2=zero2 3=zero3", NULL},
    {"zero_optimization.offload_optimizer.device", FOREIGN_MATTERS, NULL, "none", OFFLOAD},
    {"zero_optimization.offload_param.device", FOREIGN_MATTERS, NULL, "none", OFFLOAD},
    {"zero_optimization.offload_optimizer.*", FOREIGN_JOINT, NULL, NULL, NULL},
    {"zero_optimization.offload_param.*", FOREIGN_JOINT, NULL, NULL, NULL},
    {"zero_optimization.cpu_offload", FOREIGN_MATTERS, NULL, "false", OFFLOAD},
    {"zero_optimization.overlap_comm", FOREIGN_JOINT, NULL, NULL, NULL},
    {"zero_optimization.zero_hpz_partition_size", FOREIGN_MATTERS, NULL, "1",
     "parameters kept within a node"},
    {"zero_optimization.mics_shard_size", FOREIGN_INT, "shard_group", NULL, NULL},
    {"zero_optimization.zero_quantized_weights", FOREIGN_MATTERS, NULL, "false",
     "quantized gathers"},
    {"zero_optimization.zero_quantized_gradients", FOREIGN_MATTERS, NULL, "false",
     "quantized reductions"},
    {"zero_optimization.contiguous_gradients", FOREIGN_QUIET, NULL, NULL, NULL},
    {"zero_optimization.reduce_bucket_size", FOREIGN_QUIET, NULL, NULL, NULL},
    {"zero_optimization.allgather_bucket_size", FOREIGN_QUIET, NULL, NULL, NULL},
    {"zero_optimization.allgather_partitions", FOREIGN_QUIET, NULL, NULL, NULL},
    {"zero_optimization.reduce_scatter", FOREIGN_QUIET, NULL, NULL, NULL},
    {"zero_optimization.round_robin_gradients", FOREIGN_QUIET, NULL, NULL, NULL},
    {"zero_optimization.sub_group_size", FOREIGN_QUIET, NULL, NULL, NULL},
    {"zero_optimization.elastic_checkpoint", FOREIGN_QUIET, NULL, NULL, NULL},
    {"zero_optimization.ignore_unused_parameters", FOREIGN_QUIET, NULL, NULL, NULL},
    {"zero_optimization.load_from_fp32_weights", FOREIGN_QUIET, NULL, NULL, NULL},
    {"zero_optimization.legacy_stage1", FOREIGN_QUIET, NULL, NULL, NULL},
    {"zero_optimization.stage3_prefetch_bucket_size", FOREIGN_QUIET, NULL, NULL, NULL},
    {"zero_optimization.stage3_param_persistence_threshold", FOREIGN_QUIET, NULL, NULL, NULL},
    {"zero_optimization.stage3_model_persistence_threshold", FOREIGN_QUIET, NULL, NULL, NULL},
    {"zero_optimization.stage3_max_live_parameters", FOREIGN_QUIET, NULL, NULL, NULL},
    {"zero_optimization.stage3_max_reuse_distance", FOREIGN_QUIET, NULL, NULL, NULL},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", FOREIGN_QUIET, NULL, NULL,
     NULL},
    {"zero_optimization.stage3_gather_fp16_weights_on_model_save", FOREIGN_QUIET, NULL, NULL, NULL},
    {"zero_optimization.memory_efficient_linear", FOREIGN_QUIET, NULL, NULL, NULL},
    {"bf16.enabled", FOREIGN_JOINT, "precision", NULL, NULL},
    {"bf16.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"bfloat16.enabled", FOREIGN_JOINT, "precision", NULL, NULL},
    {"fp16.enabled", FOREIGN_JOINT, "precision", NULL, NULL},
    {"fp16.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"amp.enabled", FOREIGN_MATTERS, NULL, "false", "Apex mixed precision"},
    {"data_types.grad_accum_dtype", FOREIGN_WORD, "grad_dtype",
     "fp32 float32=fp32 bf16 bfloat16=bf16 fp16=bf16", NULL},
    {"communication_data_type", FOREIGN_MATTERS, NULL, NULL, "another format on the wire"},
    {"optimizer.type", FOREIGN_WORD, "optimizer",
     "Adam=adam AdamW=adam FusedAdam=adam CPUAdam=adam DeepSpeedCPUAdam=adam Adam8bit=adam8bit "
     "Muon=muon",
     NULL},
    {"optimizer.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"scheduler.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"activation_checkpointing.cpu_checkpointing", FOREIGN_MATTERS, NULL, "false",
     "saved inputs on the host"},
    {"activation_checkpointing.partition_activations", FOREIGN_MATTERS, NULL, "false",
     "saved inputs split over tensor-parallel ranks"},
    {"activation_checkpointing.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"tensor_parallel.autotp_size", FOREIGN_INT, "tp", NULL, NULL},
    {"sequence_parallel_size", FOREIGN_JOINT, "cp", NULL, NULL},
    {"compression_training.*", FOREIGN_MATTERS, NULL, NULL, "compression"},
    {"sparse_attention.*", FOREIGN_MATTERS, NULL, NULL, "sparse attention"},
    {"gradient_clipping", FOREIGN_QUIET, NULL, NULL, NULL},
    {"prescale_gradients", FOREIGN_QUIET, NULL, NULL, NULL},
    {"gradient_predivide_factor", FOREIGN_QUIET, NULL, NULL, NULL},
    {"steps_per_print", FOREIGN_QUIET, NULL, NULL, NULL},
    {"wall_clock_breakdown", FOREIGN_QUIET, NULL, NULL, NULL},
    {"zero_allow_untested_optimizer", FOREIGN_QUIET, NULL, NULL, NULL},
    {"zero_force_ds_cpu_optimizer", FOREIGN_QUIET, NULL, NULL, NULL},
    {"flops_profiler.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"comms_logger.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"monitor_config.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"checkpoint.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"aio.*", FOREIGN_QUIET, NULL, NULL, NULL},
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
    if (orr_tree_get(im->keys, "sharding") == NULL) {
        orr_import_put_text(im, "sharding", "none", 0);
    }
    put_precision(im, tree);
    bool overlap = orr_foreign_flag(tree, "zero_optimization.overlap_comm", stage == 3);
    orr_import_put_text(im, "overlap", overlap ? "dp" : "none",
                        orr_foreign_line(tree, "zero_optimization.overlap_comm"));
    int64_t sequence = orr_foreign_int(tree, "sequence_parallel_size", 1);
    if (sequence > 1) { /* Ulysses: heads for sequence by all-to-all */
        orr_import_put_int(im, "cp", sequence, orr_foreign_line(tree, "sequence_parallel_size"));
        orr_import_put_text(im, "cp_kind", "a2a", orr_foreign_line(tree, "sequence_parallel_size"));
    }
    if (orr_foreign_int(tree, "zero_optimization.mics_shard_size", 0) > 0) {
        orr_import_put_text(im, "sharding", "hsdp",
                            orr_foreign_line(tree, "zero_optimization.mics_shard_size"));
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

const foreign_format orr_foreign_deepspeed = {"deepspeed-json", deepspeed_rows,
                                              sizeof deepspeed_rows / sizeof *deepspeed_rows,
                                              is_deepspeed, deepspeed_joint};

/* ---- Accelerate ----------------------------------------------------------------------------- */

static const foreign_row accelerate_rows[] = {
    {"num_processes", FOREIGN_INT, "gpus", NULL, NULL},
    {"num_machines", FOREIGN_INT, "nodes", NULL, NULL},
    {"mixed_precision", FOREIGN_WORD, "precision", "bf16 fp16 fp8", NULL},
    {"distributed_type", FOREIGN_JOINT, NULL, NULL, NULL},
    {"gradient_accumulation_steps", FOREIGN_INT, "micro_batches", NULL, NULL},
    {"fsdp_config.fsdp_sharding_strategy", FOREIGN_JOINT, "sharding", NULL, NULL},
    {"fsdp_config.fsdp_reshard_after_forward", FOREIGN_JOINT, "sharding", NULL, NULL},
    {"fsdp_config.fsdp_version", FOREIGN_JOINT, NULL, NULL, NULL},
    {"fsdp_config.fsdp_activation_checkpointing", FOREIGN_JOINT, NULL, NULL, NULL},
    {"fsdp_config.fsdp_offload_params", FOREIGN_MATTERS, NULL, "false",
     "parameters and optimizer on the host"},
    {"fsdp_config.fsdp_backward_prefetch", FOREIGN_MATTERS, NULL, "BACKWARD_PRE 1",
     "gathers are not prefetched in the backward pass"},
    {"fsdp_config.fsdp_backward_prefetch_policy", FOREIGN_MATTERS, NULL, "BACKWARD_PRE 1",
     "gathers are not prefetched in the backward pass"},
    {"fsdp_config.fsdp_auto_wrap_policy", FOREIGN_QUIET, NULL, NULL, NULL},
    {"fsdp_config.fsdp_transformer_layer_cls_to_wrap", FOREIGN_QUIET, NULL, NULL, NULL},
    {"fsdp_config.fsdp_min_num_params", FOREIGN_QUIET, NULL, NULL, NULL},
    {"fsdp_config.fsdp_state_dict_type", FOREIGN_QUIET, NULL, NULL, NULL},
    {"fsdp_config.fsdp_sync_module_states", FOREIGN_QUIET, NULL, NULL, NULL},
    {"fsdp_config.fsdp_use_orig_params", FOREIGN_QUIET, NULL, NULL, NULL},
    {"fsdp_config.fsdp_cpu_ram_efficient_loading", FOREIGN_QUIET, NULL, NULL, NULL},
    {"fsdp_config.fsdp_forward_prefetch", FOREIGN_QUIET, NULL, NULL, NULL},
    {"deepspeed_config.zero_stage", FOREIGN_WORD, "sharding", "0=none 1=zero1 2=zero2 3=zero3",
     NULL},
    {"deepspeed_config.gradient_accumulation_steps", FOREIGN_INT, "micro_batches", NULL, NULL},
    {"deepspeed_config.offload_optimizer_device", FOREIGN_MATTERS, NULL, "none", OFFLOAD},
    {"deepspeed_config.offload_param_device", FOREIGN_MATTERS, NULL, "none", OFFLOAD},
    {"deepspeed_config.deepspeed_config_file", FOREIGN_MATTERS, NULL, NULL,
     "settings are in another file"},
    {"deepspeed_config.zero3_init_flag", FOREIGN_QUIET, NULL, NULL, NULL},
    {"deepspeed_config.deepspeed_multinode_launcher", FOREIGN_QUIET, NULL, NULL, NULL},
    {"deepspeed_config.deepspeed_hostfile", FOREIGN_QUIET, NULL, NULL, NULL},
    {"deepspeed_config.zero3_save_16bit_model", FOREIGN_QUIET, NULL, NULL, NULL},
    {"deepspeed_config.gradient_clipping", FOREIGN_QUIET, NULL, NULL, NULL},
    {"deepspeed_config.offload_optimizer_nvme_path", FOREIGN_QUIET, NULL, NULL, NULL},
    {"deepspeed_config.offload_param_nvme_path", FOREIGN_QUIET, NULL, NULL, NULL},
    {"megatron_lm_config.megatron_lm_tp_degree", FOREIGN_INT, "tp", NULL, NULL},
    {"megatron_lm_config.megatron_lm_pp_degree", FOREIGN_INT, "pp", NULL, NULL},
    {"megatron_lm_config.megatron_lm_num_micro_batches", FOREIGN_INT, "micro_batches", NULL, NULL},
    {"megatron_lm_config.megatron_lm_sequence_parallelism", FOREIGN_WORD, "sp", "true=on false=off",
     NULL},
    {"megatron_lm_config.megatron_lm_use_distributed_optimizer", FOREIGN_WORD, "sharding",
     "true=zero1 false=none", NULL},
    {"megatron_lm_config.megatron_lm_recompute_activations", FOREIGN_JOINT, NULL, NULL, NULL},
    {"megatron_lm_config.megatron_lm_gradient_clipping", FOREIGN_QUIET, NULL, NULL, NULL},
    {"parallelism_config.parallelism_config_tp_size", FOREIGN_INT, "tp", NULL, NULL},
    {"parallelism_config.parallelism_config_cp_size", FOREIGN_INT, "cp", NULL, NULL},
    {"parallelism_config.parallelism_config_dp_replicate_size", FOREIGN_JOINT, NULL, NULL, NULL},
    {"parallelism_config.parallelism_config_dp_shard_size", FOREIGN_JOINT, NULL, NULL, NULL},
    {"parallelism_config.parallelism_config_cp_comm_strategy", FOREIGN_WORD, "cp_kind",
     "allgather alltoall=ring", NULL},
    {"fp8_config.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"dynamo_config.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"compute_environment", FOREIGN_QUIET, NULL, NULL, NULL},
    {"debug", FOREIGN_QUIET, NULL, NULL, NULL},
    {"downcast_bf16", FOREIGN_QUIET, NULL, NULL, NULL},
    {"enable_cpu_affinity", FOREIGN_QUIET, NULL, NULL, NULL},
    {"gpu_ids", FOREIGN_QUIET, NULL, NULL, NULL},
    {"machine_rank", FOREIGN_QUIET, NULL, NULL, NULL},
    {"main_process_ip", FOREIGN_QUIET, NULL, NULL, NULL},
    {"main_process_port", FOREIGN_QUIET, NULL, NULL, NULL},
    {"main_training_function", FOREIGN_QUIET, NULL, NULL, NULL},
    {"rdzv_backend", FOREIGN_QUIET, NULL, NULL, NULL},
    {"same_network", FOREIGN_QUIET, NULL, NULL, NULL},
    {"tpu_env", FOREIGN_QUIET, NULL, NULL, NULL},
    {"tpu_use_cluster", FOREIGN_QUIET, NULL, NULL, NULL},
    {"tpu_use_sudo", FOREIGN_QUIET, NULL, NULL, NULL},
    {"use_cpu", FOREIGN_MATTERS, NULL, "false", "training on the CPU"},
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

const foreign_format orr_foreign_accelerate = {"accelerate-yaml", accelerate_rows,
                                               sizeof accelerate_rows / sizeof *accelerate_rows,
                                               is_accelerate, accelerate_joint};
