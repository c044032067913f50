/* TorchTitan's TOML, and the JSON that its newer Python configurations print: the same sections.
 * Settings: torchtitan/config/job_config.py, old and new spellings. */
#include <string.h>

#include "exchange/foreign.h"

static const foreign_row rows[] = {
    FOREIGN_WITH("model.name", NULL),
    FOREIGN_WITH("model.flavor", NULL),
    FOREIGN_WITH("model.converters", NULL),
    FOREIGN_SAME("model_spec.name", "model.name"),
    FOREIGN_SAME("model_spec.flavor", "model.flavor"),
    FOREIGN_SAME("model_converters.converters", "model.converters"),
    FOREIGN_SKIP("model_spec.*"),
    FOREIGN_SKIP("dataloader.*"),
    FOREIGN_SKIP("tokenizer.*"),
    FOREIGN_SKIP("hf_assets_path"),
    FOREIGN_SKIP("dump_folder"),
    FOREIGN_SKIP("debug.*"),
    FOREIGN_SKIP("model.tokenizer_path"),
    FOREIGN_SKIP("model.hf_assets_path"),
    FOREIGN_SKIP("model.norm_type"),
    FOREIGN_SKIP("model.print_after_conversion"),
    FOREIGN_WITH("training.local_batch_size", NULL),
    FOREIGN_SAME("training.batch_size", "training.local_batch_size"),
    FOREIGN_WITH("training.global_batch_size", NULL),
    FOREIGN_NUM("training.seq_len", "seq"),
    FOREIGN_SAYS("training.mixed_precision_param", "precision", "bfloat16=bf16"),
    FOREIGN_SAYS("training.mixed_precision_reduce", "grad_dtype", "float32=fp32 bfloat16=bf16"),
    FOREIGN_NOTE("training.enable_cpu_offload", "false", "states on the host"),
    FOREIGN_NOTE("training.deterministic", "false", "slower kernels"),
    FOREIGN_SAME("training.tensor_parallel_degree", "parallelism.tensor_parallel_degree"),
    FOREIGN_SAME("training.data_parallel_degree", "parallelism.data_parallel_shard_degree"),
    FOREIGN_SAME("training.data_parallel_shard_degree", "parallelism.data_parallel_shard_degree"),
    FOREIGN_SAME("training.data_parallel_replicate_degree",
                 "parallelism.data_parallel_replicate_degree"),
    FOREIGN_SKIP("training.dataset"),
    FOREIGN_SKIP("training.dataset_path"),
    FOREIGN_SKIP("training.steps"),
    FOREIGN_SKIP("training.max_norm"),
    FOREIGN_SKIP("training.seed"),
    FOREIGN_SKIP("training.gc_freq"),
    FOREIGN_SKIP("training.gc_debug"),
    FOREIGN_SKIP("training.warmup_steps"),
    FOREIGN_SKIP("training.compile"),
    FOREIGN_SKIP("training.fp8_linear"),
    FOREIGN_SKIP("training.dtype"),
    FOREIGN_NUM_OR("parallelism.tensor_parallel_degree", "tp", "1"),
    FOREIGN_NUM_OR("parallelism.pipeline_parallel_degree", "pp", "1"),
    FOREIGN_NUM_OR("parallelism.context_parallel_degree", "cp", "1"),
    FOREIGN_NUM("parallelism.expert_parallel_degree", "ep"),
    FOREIGN_NUM("parallelism.expert_tensor_parallel_degree", "etp"),
    FOREIGN_SAYS("parallelism.context_parallel_rotate_method", "cp_kind",
                 "allgather alltoall=ring"),
    FOREIGN_WITH("parallelism.pipeline_parallel_schedule", NULL),
    FOREIGN_WITH("parallelism.pipeline_parallel_microbatch_size", NULL),
    FOREIGN_NOTE("parallelism.pipeline_parallel_layers_per_stage", NULL, "layers of a stage"),
    FOREIGN_NOTE("parallelism.pipeline_parallel_split_points", NULL, "stages split by hand"),
    FOREIGN_NOTE("parallelism.module_fqns_per_model_part", NULL, "stages split by hand"),
    FOREIGN_NOTE("parallelism.pipeline_parallel_schedule_csv", "", "its own schedule"),
    FOREIGN_WITH("parallelism.data_parallel_replicate_degree", NULL),
    FOREIGN_WITH("parallelism.data_parallel_shard_degree", NULL),
    FOREIGN_WITH("parallelism.fsdp_reshard_after_forward", NULL),
    FOREIGN_WITH("parallelism.enable_async_tensor_parallel", NULL),
    FOREIGN_NOTE("parallelism.disable_loss_parallel", "false",
                 "logits are gathered over tensor-parallel ranks"),
    FOREIGN_SKIP("parallelism.enable_compiled_autograd"),
    FOREIGN_SKIP("parallelism.expert_parallel_a2a_impl"),
    FOREIGN_WITH("activation_checkpoint.mode", NULL),
    FOREIGN_WITH("activation_checkpoint.selective_ac_option", NULL),
    FOREIGN_SKIP("activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns"),
    FOREIGN_SKIP("activation_checkpoint.early_stop"),
    FOREIGN_SKIP("activation_checkpoint.preserve_rng_state"),
    FOREIGN_SKIP("activation_checkpoint.determinism_check"),
    FOREIGN_SKIP("activation_checkpoint.debug"),
    FOREIGN_NOTE("activation_checkpoint.memory_budget", NULL, "recompute chosen by a budget"),
    FOREIGN_SAYS("optimizer.name", "optimizer", "Adam=adam AdamW=adam Muon=muon"),
    FOREIGN_NOTE("optimizer.early_step_in_backward", "false",
                 "the optimizer steps within the backward pass"),
    FOREIGN_NOTE("optimizer.implementation", "fused", "an unfused optimizer"),
    FOREIGN_SKIP("optimizer.*"),
    FOREIGN_WITH("float8.recipe_name", NULL),
    FOREIGN_SKIP("float8.*"),
    FOREIGN_SKIP("quantize.*"),
    FOREIGN_SKIP("mx.*"),
    FOREIGN_NOTE("compile.enable", "true", "nothing is compiled"),
    FOREIGN_SKIP("compile.*"),
    FOREIGN_SAME("experimental.pipeline_parallel_degree", "parallelism.pipeline_parallel_degree"),
    FOREIGN_SAME("experimental.context_parallel_degree", "parallelism.context_parallel_degree"),
    FOREIGN_SAME("experimental.pipeline_parallel_schedule",
                 "parallelism.pipeline_parallel_schedule"),
    FOREIGN_SAME("experimental.enable_async_tensor_parallel",
                 "parallelism.enable_async_tensor_parallel"),
    FOREIGN_SKIP("job.*"),
    FOREIGN_SKIP("profiling.*"),
    FOREIGN_SKIP("metrics.*"),
    FOREIGN_SKIP("lr_scheduler.*"),
    FOREIGN_SKIP("checkpoint.*"),
    FOREIGN_SKIP("comm.*"),
    FOREIGN_SKIP("memory_estimation.*"),
    FOREIGN_SKIP("validation.*"),
    FOREIGN_SKIP("fault_tolerance.*"),
};

/* Flavors of its models by the catalog's names. */
static const char *const models[][3] = {
    {"llama3", "8B", "llama-3.1-8b"},
    {"llama3", "70B", "llama-3.1-70b"},
    {"llama3", "405B", "llama-3.1-405b"},
    {"llama2", "7B", "llama-2-7b"},
    {"llama2", "13B", "llama-2-13b"},
    {"llama2", "70B", "llama-2-70b"},
    {"llama4", "17bx16e", "llama-4-scout"},
    {"llama4", "17bx128e", "llama-4-maverick"},
    {"deepseek_v3", "16B", "deepseek-v2-lite"},
    {"deepseek_v3", "236B", "deepseek-v2"},
    {"deepseek_v3", "671B", "deepseek-v3"},
    {"qwen3", "0.6B", "qwen3-0.6b"},
    {"qwen3", "1.7B", "qwen3-1.7b"},
    {"qwen3", "4B", "qwen3-4b"},
    {"qwen3", "8B", "qwen3-8b"},
    {"qwen3", "14B", "qwen3-14b"},
    {"qwen3", "32B", "qwen3-32b"},
    {"qwen3", "30B-A3B", "qwen3-30b-a3b"},
    {"qwen3", "235B-A22B", "qwen3-235b-a22b"},
};

static bool is_torchtitan(const orr_tree *tree) {
    bool named = orr_tree_path(tree, "model.flavor") != NULL ||
                 orr_tree_path(tree, "model_spec.flavor") != NULL;
    bool split = orr_tree_kind_of(orr_tree_get(tree, "parallelism")) == ORR_TREE_MAP &&
                 orr_tree_kind_of(orr_tree_get(tree, "activation_checkpoint")) == ORR_TREE_MAP;
    return (named || split) && orr_tree_path(tree, "training.seq_len") != NULL;
}

static void put_model(importer *im, const orr_tree *tree) {
    const char *name = orr_foreign_text(tree, "model.name");
    const char *flavor = orr_foreign_text(tree, "model.flavor");
    uint32_t line = orr_foreign_line(tree, "model.flavor");
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (orr_name_equal(name, models[i][0]) && orr_name_equal(flavor, models[i][1])) {
            orr_import_put_text(im, "model", models[i][2], line);
            return;
        }
    }
    orr_import_unknown(
        im, "model.flavor", line, true,
        orr_arena_format(im->arena, "%.40s %.40s is not known; give --model", name, flavor));
}

static void put_sharding(importer *im, const orr_tree *tree) {
    int64_t shards = orr_foreign_int(tree, "parallelism.data_parallel_shard_degree", -1);
    int64_t replicas = orr_foreign_int(tree, "parallelism.data_parallel_replicate_degree", 1);
    int64_t tp = orr_foreign_int(tree, "parallelism.tensor_parallel_degree", 1);
    int64_t pp = orr_foreign_int(tree, "parallelism.pipeline_parallel_degree", 1);
    int64_t cp = orr_foreign_int(tree, "parallelism.context_parallel_degree", 1);
    int64_t gpus = orr_foreign_product((const int64_t[]){shards, replicas, tp, pp, cp}, 5);
    uint32_t line = orr_foreign_line(tree, "parallelism.data_parallel_shard_degree");
    if (gpus > 0 && gpus <= 1 << 20) {
        orr_import_put_int(im, "gpus", gpus, line);
    }
    const char *reshard = orr_foreign_text(tree, "parallelism.fsdp_reshard_after_forward");
    bool kept = strcmp(reshard, "never") == 0;
    const char *value = shards == 1 && cp == 1 ? "none"
                        : replicas > 1         ? "hsdp"
                        : kept                 ? "zero2"
                                               : "fsdp2";
    orr_import_put_text(im, "sharding", value, line);
    if (strcmp(value, "hsdp") == 0 && shards > 1 && shards <= 1 << 20 && cp >= 1 && cp <= 1 << 20) {
        orr_import_put_int(im, "shard_group", shards * cp, line);
    }
    if (tp > 1) { /* its tensor parallelism always splits the sequence */
        orr_import_put(im, "sp", orr_tree_new_bool(im->arena, true), 0);
    }
    orr_tree *overlap = orr_tree_new_list(im->arena);
    orr_tree_push(im->arena, overlap, orr_tree_new_text(im->arena, "dp"));
    if (orr_foreign_flag(tree, "parallelism.enable_async_tensor_parallel", false)) {
        orr_tree_push(im->arena, overlap, orr_tree_new_text(im->arena, "tp"));
    }
    orr_import_put(im, "overlap", overlap, 0);
}

/* Its schedules, ours, and the chunks of a rank. */
static const char *const schedules[][3] = {{"1F1B", "1f1b", "1"},
                                           {"GPipe", "gpipe", "1"},
                                           {"Interleaved1F1B", "interleaved", "2"},
                                           {"ZBVZeroBubble", "zbv", "2"},
                                           {"DualPipeV", "dualpipev", "2"}};

static void put_pipeline(importer *im, const orr_tree *tree) {
    if (orr_foreign_int(tree, "parallelism.pipeline_parallel_degree", 1) <= 1) {
        return;
    }
    const char *path = "parallelism.pipeline_parallel_schedule";
    const char *schedule = orr_foreign_text(tree, path);
    schedule = schedule[0] == '\0' ? "1F1B" : schedule;
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        if (orr_name_equal(schedule, schedules[i][0])) {
            orr_import_put_text(im, "schedule", schedules[i][1], orr_foreign_line(tree, path));
            orr_import_put_int(im, "vpp", schedules[i][2][0] - '0', orr_foreign_line(tree, path));
            return;
        }
    }
    orr_import_unknown(
        im, path, orr_foreign_line(tree, path), true,
        orr_arena_format(im->arena, "the schedule \"%.40s\" is not known", schedule));
}

static void put_batch(importer *im, const orr_tree *tree) {
    const char *path = "training.local_batch_size";
    int64_t local = orr_foreign_int(tree, path, 0), mbs = local;
    int64_t pp = orr_foreign_int(tree, "parallelism.pipeline_parallel_degree", 1);
    if (local < 1 || local > 1 << 20) {
        orr_import_unknown(im, path, orr_foreign_line(tree, path), true, "it is not known");
        return;
    }
    if (pp > 1) {
        mbs = orr_foreign_int(tree, "parallelism.pipeline_parallel_microbatch_size", 1);
        mbs = mbs >= 1 && local % mbs == 0 ? mbs : 1;
    }
    orr_import_put_int(im, "mbs", mbs, orr_foreign_line(tree, path));
    int64_t gbs = orr_foreign_int(tree, "training.global_batch_size", -1);
    if (gbs > 0) {
        orr_import_put_int(im, "gbs", gbs, orr_foreign_line(tree, "training.global_batch_size"));
    } else {
        orr_import_put_int(im, "micro_batches", local / mbs, orr_foreign_line(tree, path));
    }
}

static void put_recompute(importer *im, const orr_tree *tree) {
    const char *mode = orr_foreign_text(tree, "activation_checkpoint.mode");
    const char *option = orr_foreign_text(tree, "activation_checkpoint.selective_ac_option");
    uint32_t line = orr_foreign_line(tree, "activation_checkpoint.mode");
    const char *value = "unknown";
    if (strcmp(mode, "full") == 0 || strcmp(mode, "none") == 0) {
        value = mode;
    } else if (mode[0] == '\0' || strcmp(mode, "selective") == 0) {
        bool by_op = strcmp(option, "op") == 0 || (mode[0] == '\0' && option[0] == '\0');
        value = by_op ? "selective:sac" : strcmp(option, "1") == 0 ? "full" : "unknown";
        if (strcmp(value, "unknown") == 0) {
            orr_import_unknown(im, "activation_checkpoint.selective_ac_option", line, true,
                               "every n-th layer is recomputed, which is not modelled");
        }
    } else {
        orr_import_unknown(im, "activation_checkpoint.mode", line, true, "it is not known");
    }
    orr_import_put_text(im, "recompute", value, line);
}

static void put_precision(importer *im, const orr_tree *tree) {
    const orr_tree *converters = orr_tree_path(tree, "model.converters");
    for (size_t i = 0; i < orr_tree_size(converters); i++) {
        const char *one = orr_tree_text(orr_tree_at(converters, i), "");
        uint32_t line = orr_tree_span(converters).line;
        if (strstr(one, "float8") != NULL) {
            orr_import_put_text(im, "precision", "fp8_cs", line);
        } else if (strstr(one, "mx") != NULL) {
            orr_import_put_text(im, "precision", "fp8_mx", line);
        } else {
            orr_import_unknown(im, "model.converters", line, true,
                               orr_arena_format(im->arena, "\"%.40s\" is not modelled", one));
        }
    }
    if (orr_tree_get(im->keys, "precision") == NULL) {
        orr_import_put_text(im, "precision", "bf16", 0);
    }
    const char *recipe = orr_foreign_text(tree, "float8.recipe_name");
    if (strstr(recipe, "rowwise") != NULL) {
        orr_import_unknown(im, "float8.recipe_name", orr_foreign_line(tree, "float8.recipe_name"),
                           true, "scales a row; taken as scales a tensor");
    }
}

static void torchtitan_joint(importer *im, const orr_tree *tree) {
    put_model(im, tree);
    put_sharding(im, tree);
    put_pipeline(im, tree);
    put_batch(im, tree);
    put_recompute(im, tree);
    put_precision(im, tree);
    orr_import_put_text(im, "software", "torchtitan", 0);
}

/* ---- export --------------------------------------------------------------------------------- */

static void write_model(exporter *x) {
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (orr_name_equal(x->model_name, models[i][2])) {
            orr_export_text(x, "model.name", models[i][0]);
            orr_export_text(x, "model.flavor", models[i][1]);
            return;
        }
    }
    orr_export_lose(x, "model", x->model_name, "TorchTitan has no flavor of this model");
}

static void write_batch(exporter *x) {
    int64_t mbs = orr_export_number(x, "mbs", 1), pp = orr_export_number(x, "pp", 1);
    int64_t steps = orr_export_number(x, "micro_batches", 0);
    if (pp > 1 && steps > 0 && steps <= 1 << 20 && mbs <= 1 << 20) {
        orr_export_int(x, "training.local_batch_size", mbs * steps);
        orr_export_int(x, "parallelism.pipeline_parallel_microbatch_size", mbs);
    } else {
        orr_export_int(x, "training.local_batch_size", mbs);
        if (orr_export_number(x, "gbs", 0) > 0) {
            orr_export_int(x, "training.global_batch_size", orr_export_number(x, "gbs", 0));
        }
    }
}

static void write_sharding(exporter *x) {
    int64_t dp = orr_export_number(x, "dp", 0), cp = orr_export_number(x, "cp", 1);
    int64_t group = orr_export_number(x, "shard_group", 0);
    bool none = orr_export_is(x, "sharding", "none"), keep = orr_export_is(x, "sharding", "zero2");
    bool hybrid = orr_export_is(x, "sharding", "hsdp");
    int64_t shards = hybrid && group > 0 && cp > 0 && group % cp == 0 ? group / cp : dp;
    if (none && dp > 0) {
        orr_export_int(x, "parallelism.data_parallel_replicate_degree", dp);
        orr_export_int(x, "parallelism.data_parallel_shard_degree", 1);
    } else if (dp > 0 && shards > 0 && dp % shards == 0) {
        orr_export_int(x, "parallelism.data_parallel_shard_degree", shards);
        orr_export_int(x, "parallelism.data_parallel_replicate_degree", dp / shards);
    }
    if (keep) {
        orr_export_text(x, "parallelism.fsdp_reshard_after_forward", "never");
    }
    orr_export_flag(x, "parallelism.enable_async_tensor_parallel",
                    orr_export_holds(x, "overlap", "tp") && orr_export_number(x, "tp", 1) > 1);
}

static void write_pipeline(exporter *x) {
    if (orr_export_number(x, "pp", 1) <= 1) {
        return;
    }
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        if (orr_export_is(x, "schedule", schedules[i][1])) {
            orr_export_text(x, "parallelism.pipeline_parallel_schedule", schedules[i][0]);
        }
    }
}

static void write_recompute(exporter *x) {
    const char *mode = orr_export_word(x, "recompute");
    if (strcmp(mode, "none") == 0 || strcmp(mode, "full") == 0) {
        orr_export_text(x, "activation_checkpoint.mode", mode);
    } else if (strcmp(mode, "selective:sac") == 0) {
        orr_export_text(x, "activation_checkpoint.mode", "selective");
        orr_export_text(x, "activation_checkpoint.selective_ac_option", "op");
    }
}

static void torchtitan_write(exporter *x) {
    write_model(x);
    write_sharding(x);
    write_pipeline(x);
    write_batch(x);
    write_recompute(x);
    bool fp8 = orr_export_is(x, "precision", "fp8_cs");
    if (fp8 || orr_export_is(x, "precision", "fp8_mx")) {
        orr_tree *list = orr_tree_new_list(x->arena);
        orr_tree_push(x->arena, list, orr_tree_new_text(x->arena, fp8 ? "float8" : "mx"));
        orr_export_set(x, "model.converters", list);
    }
    orr_export_flag(x, "compile.enable", true);
}

const foreign_format orr_foreign_torchtitan = {
    "torchtitan",    rows, sizeof rows / sizeof *rows, is_torchtitan, torchtitan_joint,
    torchtitan_write};
