/* Megatron-Bridge: a ConfigContainer as its to_yaml writes it, or an override file of its recipes
 * (names: docs/megatron-lm-to-megatron-bridge.md of the repository,
 * src/megatron/bridge/training/config.py). */
#include <string.h>

#include "exchange/nemo.h"

static const dialect_row bridge_rows[] = {
    IS("train.micro_batch_size", "micro-batch-size"),
    IS("train.global_batch_size", "global-batch-size"),
    IS("train.rampup_batch_size", "rampup-batch-size"),
    QUIET("train.*"),
    IS("dataset.sequence_length", "seq-length"),
    IS("dataset.seq_length", "seq-length"),
    LOST("dataset.packed_sequence_specs.*", "packed sequences of different length"),
    QUIET("dataset.*"),
    IS("model.seq_length", "seq-length"),
    WORDS("model.share_embeddings_and_output_weights", "untie-embeddings-and-output-weights",
          INVERSE),
    IS("model.num_moe_experts", "num-experts"),
    IS("model.virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank"),
    IS("model.num_layers_in_first_pipeline_stage", "decoder-first-pipeline-num-layers"),
    IS("model.num_layers_in_last_pipeline_stage", "decoder-last-pipeline-num-layers"),
    IS("model.microbatch_group_size_per_vp_stage",
       "microbatch-group-size-per-virtual-pipeline-stage"),
    QUIET("model.gated_linear_unit"),
    QUIET("model.activation_func"),
    QUIET("model.activation_func.*"),
    IMPLIED("swiglu"),
    IMPLIED("quick-geglu"),
    IMPLIED("squared-relu"),
    IMPLIED("group-query-attention"),
    IMPLIED("bf16"),
    IMPLIED("fp16"),
    IMPLIED("fp8-format"),
    IMPLIED("fp8-recipe"),
    IMPLIED("fp4-format"),
    QUIET("model.should_pad_vocab"),
    IS("model.fp8", "fp8-format"),
    IS("model.fp4", "fp4-format"),
    IS("model.overlap_p2p_comm_warmup_flush", "overlap-p2p-communication-warmup-flush"),
    IS("model.cpu_offloading_num_layers", "cpu-offloading-num-layers"),
    QUIET("model.cpu_offloading"),
    IS("model.moe_layer_recompute", "moe-layer-recompute"),
    QUIET("model.batch_p2p_comm"),
    IS("model.overlap_p2p_comm", "overlap-p2p-comm"),
    QUIET("model.use_transformer_engine_full_layer_spec"),
    QUIET("model.transformer_layer_spec.*"),
    QUIET("model.init_method.*"),
    QUIET("model.output_layer_init_method.*"),
    IS("ddp.use_distributed_optimizer", "use-distributed-optimizer"),
    IS("ddp.overlap_grad_reduce", "overlap-grad-reduce"),
    IS("ddp.overlap_param_gather", "overlap-param-gather"),
    IS("ddp.use_megatron_fsdp", "use-megatron-fsdp"),
    IS("ddp.data_parallel_sharding_strategy", "data-parallel-sharding-strategy"),
    IS("ddp.num_distributed_optimizer_instances", "num-distributed-optimizer-instances"),
    WORDS("ddp.grad_reduce_in_fp32", "grad-reduce-in-bf16", INVERSE),
    QUIET("ddp.fp8_param_gather"),
    QUIET("ddp.average_in_collective"),
    QUIET("ddp.check_for_nan_in_grad"),
    QUIET("ddp.check_for_large_grads"),
    QUIET("ddp.pad_buckets_for_high_nccl_busbw"),
    QUIET("ddp.align_param_gather"),
    QUIET("ddp.gradient_reduce_div_fusion"),
    QUIET("ddp.preserve_fp32_weights"),
    QUIET("ddp.keep_fp8_transpose_cache"),
    QUIET("ddp.keep_fp8_transpose_cache_when_using_custom_fsdp"),
    QUIET("ddp.reuse_grad_buf_for_mxfp8_param_ag"),
    QUIET("ddp.bucket_size"),
    IS("ddp.fsdp_double_buffer", "fsdp-double-buffer"),
    IS("ddp.nccl_ub", "use-nccl-ub"),
    IS("dist.use_torch_fsdp2", "use-torch-fsdp2"),
    IS("dist.use_tp_pp_dp_mapping", "use-tp-pp-dp-mapping"),
    QUIET("dist.distributed_backend"),
    QUIET("dist.distributed_timeout_minutes"),
    QUIET("dist.align_grad_reduce"),
    QUIET("dist.use_gloo_process_groups"),
    QUIET("dist.local_rank"),
    QUIET("dist.lazy_init"),
    QUIET("dist.use_megatron_fsdp"),
    QUIET("dist.nccl_communicator_config_path"),
    QUIET("dist.use_decentralized_pg"),
    QUIET("dist.high_priority_stream_groups"),
    QUIET("dist.enable_megatron_core_experimental"),
    QUIET("dist.distributed_timeout_seconds_after_init"),
    QUIET("dist.disable_jit_fuser"),
    QUIET("dist.external_gpu_device_mapping"),
    QUIET("dist.sharp_enabled_group"),
    IS("dist.use_sharp", "use-sharp"),
    IS("optimizer.optimizer", "optimizer"),
    IS("optimizer.use_distributed_optimizer", "use-distributed-optimizer"),
    IS("optimizer.use_precision_aware_optimizer", "use-precision-aware-optimizer"),
    WORDS("optimizer.main_grads_dtype", "main-grads-dtype",
          "torch.float32=fp32 torch.bfloat16=bf16 fp32 bf16"),
    WORDS("optimizer.main_params_dtype", "main-params-dtype",
          "torch.float32=fp32 torch.float16=fp16 fp32 fp16"),
    WORDS("optimizer.exp_avg_dtype", "exp-avg-dtype",
          "torch.float32=fp32 torch.bfloat16=bf16 torch.float16=fp16 torch.uint8=fp8 fp32 bf16 "
          "fp16 fp8"),
    WORDS("optimizer.exp_avg_sq_dtype", "exp-avg-sq-dtype",
          "torch.float32=fp32 torch.bfloat16=bf16 torch.float16=fp16 torch.uint8=fp8 fp32 bf16 "
          "fp16 fp8"),
    IS("optimizer.optimizer_cpu_offload", "optimizer-cpu-offload"),
    IS("optimizer.optimizer_offload_fraction", "optimizer-offload-fraction"),
    QUIET("optimizer.lr"),
    QUIET("optimizer.min_lr"),
    QUIET("optimizer.decoupled_lr"),
    QUIET("optimizer.decoupled_min_lr"),
    QUIET("optimizer.weight_decay"),
    QUIET("optimizer.adam_beta1"),
    QUIET("optimizer.adam_beta2"),
    QUIET("optimizer.adam_eps"),
    QUIET("optimizer.sgd_momentum"),
    QUIET("optimizer.clip_grad"),
    QUIET("optimizer.log_num_zeros_in_grad"),
    QUIET("optimizer.barrier_with_L1_time"),
    QUIET("optimizer.bf16"),
    QUIET("optimizer.fp16"),
    QUIET("optimizer.params_dtype"),
    QUIET("optimizer.loss_scale"),
    QUIET("optimizer.initial_loss_scale"),
    QUIET("optimizer.min_loss_scale"),
    QUIET("optimizer.loss_scale_window"),
    QUIET("optimizer.hysteresis"),
    QUIET("optimizer.store_param_remainders"),
    QUIET("optimizer.overlap_param_gather"),
    QUIET("optimizer.use_torch_optimizer_for_cpu_offload"),
    QUIET("optimizer.pin_cpu_grads"),
    QUIET("optimizer.pin_cpu_params"),
    QUIET("optimizer.decoupled_weight_decay"),
    QUIET("optimizer.fp8_recipe"),
    QUIET("optimizer.reuse_grad_buf_for_mxfp8_param_ag"),
    QUIET("optimizer.timers"),
    QUIET("optimizer.config_logger_dir"),
    QUIET("optimizer.use_layer_wise_distributed_optimizer"),
    QUIET("optimizer.muon_momentum"),
    QUIET("optimizer.muon_use_nesterov"),
    QUIET("optimizer.muon_num_ns_steps"),
    QUIET("optimizer.muon_scale_mode"),
    QUIET("optimizer.muon_extra_scale_factor"),
    QUIET("optimizer.muon_split_qkv"),
    QUIET("optimizer.muon_fp32_matmul_prec"),
    QUIET("optimizer.muon_tp_mode"),
    QUIET("optimizer.overlap_cpu_optimizer_d2h_h2d"),
    IS("optimizer.overlap_param_gather_with_optimizer_step",
       "overlap-param-gather-with-optimizer-step"),
    QUIET("mixed_precision"),
    IS("mixed_precision.bf16", "bf16"),
    IS("mixed_precision.fp16", "fp16"),
    PRECISION("mixed_precision"),
    IS("mixed_precision.fp8_param", "fp8-param-gather"),
    IS("mixed_precision.fp4", "fp4-format"),
    IS("mixed_precision.first_last_layers_bf16", "first-last-layers-bf16"),
    QUIET("mixed_precision.enable_autocast"),
    QUIET("mixed_precision.fp32"),
    QUIET("mixed_precision.reuse_grad_buf_for_mxfp8_param_ag"),
    QUIET("mixed_precision.fp8_recipe_dtype"),
    IS("comm_overlap.tp_comm_overlap", "tp-comm-overlap"),
    IS("comm_overlap.overlap_p2p_comm", "overlap-p2p-comm"),
    IS("comm_overlap.overlap_grad_reduce", "overlap-grad-reduce"),
    IS("comm_overlap.overlap_param_gather", "overlap-param-gather"),
    IS("comm_overlap.overlap_moe_expert_parallel_comm", "overlap-moe-expert-parallel-comm"),
    IS("comm_overlap.delay_wgrad_compute", "delay-wgrad-compute"),
    IS("comm_overlap.defer_embedding_wgrad_compute", "defer-embedding-wgrad-compute"),
    QUIET("comm_overlap.tp_comm_overlap_cfg.*"),
    QUIET("comm_overlap.tp_comm_bootstrap_backend"),
    QUIET("comm_overlap.batch_p2p_comm"),
    QUIET("comm_overlap.wgrad_deferral_limit"),
    QUIET("comm_overlap.bucket_size"),
    QUIET("comm_overlap.data_parallel_size"),
    QUIET("comm_overlap.align_param_gather"),
    IS("comm_overlap.overlap_param_gather_with_optimizer_step",
       "overlap-param-gather-with-optimizer-step"),
    QUIET("peft.*"),
    QUIET("tokenizer.vocab_size"),
    QUIET("scheduler.*"),
    QUIET("tokenizer.*"),
    QUIET("checkpoint.*"),
    QUIET("logger.*"),
    QUIET("rng.*"),
    QUIET("profiling.*"),
    QUIET("ft.*"),
    QUIET("straggler.*"),
    QUIET("nvrx_straggler.*"),
    QUIET("inprocess_restart.*"),
    QUIET("rerun_state_machine.*"),
    QUIET("tensor_inspect.*"),
    QUIET("validation.*"),
};

static const char *const bridge_sections[] = {"model", NULL};

static bool is_bridge(const orr_tree *tree) {
    bool train = orr_nemo_has(tree, "train.micro_batch_size") ||
                 orr_nemo_has(tree, "train.global_batch_size");
    return train && (orr_nemo_has(tree, "model") || orr_nemo_has(tree, "mixed_precision") ||
                     orr_nemo_has(tree, "ddp") || orr_nemo_has(tree, "dataset"));
}

static void bridge_joint(importer *im, const orr_tree *tree, settings *list,
                         megatron_ground *ground) {
    const orr_tree *model = orr_tree_get(tree, "model");
    const orr_tree *mixed = orr_tree_get(tree, "mixed_precision");
    orr_nemo_activation(im, model, list);
    if (orr_tree_kind_of(mixed) == ORR_TREE_TEXT) {
        orr_nemo_precision(im, orr_tree_text(mixed, ""), orr_tree_span(mixed).line, list);
    } else if (mixed == NULL && !orr_nemo_has(model, "bf16") && !orr_nemo_has(model, "fp16")) {
        orr_nemo_add(im, list, "bf16", "true", 0);
        orr_import_assume(im, "precision", "bf16", "recipes take bf16_mixed unless told otherwise");
    }
    if (!orr_nemo_has(model, "num_layers") &&
        !orr_nemo_model(im, orr_tree_get(model, "_target_"), ground)) {
        const char *target = orr_tree_text(orr_tree_get(model, "_target_"), NULL);
        if (target != NULL) {
            orr_import_unknown(im, "model._target_", orr_foreign_line(model, "_target_"), true,
                               "this class is not known; give --model");
        }
    }
    if (orr_nemo_has(model, "num_layers") && orr_nemo_has(model, "_target_")) {
        ground->model_name = orr_nemo_class(im->arena, orr_foreign_text(model, "_target_"));
    }
    if (!orr_nemo_has(tree, "mixed_precision.grad_reduce_in_fp32") &&
        !orr_nemo_has(tree, "ddp.grad_reduce_in_fp32") &&
        !orr_nemo_has(tree, "optimizer.main_grads_dtype")) {
        orr_import_assume(im, "grad_dtype", "fp32",
                          "grad_reduce_in_fp32 is not stated: bf16_mixed and its kin set it");
    }
    orr_nemo_peft(im, orr_tree_get(tree, "peft"));
    ground->software = "megatron-core-2026";
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
                                    .defaults = orr_nemo_defaults,
                                    .default_count = ORR_NEMO_DEFAULTS,
                                    .is = is_bridge,
                                    .joint = bridge_joint,
                                    .write = bridge_write};
