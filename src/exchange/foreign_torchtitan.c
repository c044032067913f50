/* TorchTitan's TOML. Settings: torchtitan/config/job_config.py, old and new spellings. */
#include <string.h>

#include "exchange/foreign.h"

static const foreign_row rows[] = {
    {"model.name", FOREIGN_JOINT, NULL, NULL, NULL},
    {"model.flavor", FOREIGN_JOINT, NULL, NULL, NULL},
    {"model.converters", FOREIGN_JOINT, NULL, NULL, NULL},
    {"model.tokenizer_path", FOREIGN_QUIET, NULL, NULL, NULL},
    {"model.hf_assets_path", FOREIGN_QUIET, NULL, NULL, NULL},
    {"model.norm_type", FOREIGN_QUIET, NULL, NULL, NULL},
    {"model.print_after_conversion", FOREIGN_QUIET, NULL, NULL, NULL},
    {"training.local_batch_size", FOREIGN_JOINT, NULL, NULL, NULL},
    {"training.batch_size", FOREIGN_JOINT, NULL, NULL, NULL},
    {"training.global_batch_size", FOREIGN_JOINT, NULL, NULL, NULL},
    {"training.seq_len", FOREIGN_INT, "seq", NULL, NULL},
    {"training.mixed_precision_param", FOREIGN_WORD, "precision", "bfloat16=bf16", NULL},
    {"training.mixed_precision_reduce", FOREIGN_WORD, "grad_dtype", "float32=fp32 bfloat16=bf16",
     NULL},
    {"training.enable_cpu_offload", FOREIGN_MATTERS, NULL, "false", "states on the host"},
    {"training.deterministic", FOREIGN_MATTERS, NULL, "false", "slower kernels"},
    {"training.tensor_parallel_degree", FOREIGN_INT, "tp", NULL, NULL},
    {"training.data_parallel_degree", FOREIGN_JOINT, NULL, NULL, NULL},
    {"training.data_parallel_shard_degree", FOREIGN_JOINT, NULL, NULL, NULL},
    {"training.data_parallel_replicate_degree", FOREIGN_JOINT, NULL, NULL, NULL},
    {"training.dataset", FOREIGN_QUIET, NULL, NULL, NULL},
    {"training.dataset_path", FOREIGN_QUIET, NULL, NULL, NULL},
    {"training.steps", FOREIGN_QUIET, NULL, NULL, NULL},
    {"training.max_norm", FOREIGN_QUIET, NULL, NULL, NULL},
    {"training.seed", FOREIGN_QUIET, NULL, NULL, NULL},
    {"training.gc_freq", FOREIGN_QUIET, NULL, NULL, NULL},
    {"training.gc_debug", FOREIGN_QUIET, NULL, NULL, NULL},
    {"training.warmup_steps", FOREIGN_QUIET, NULL, NULL, NULL},
    {"training.compile", FOREIGN_QUIET, NULL, NULL, NULL},
    {"training.fp8_linear", FOREIGN_QUIET, NULL, NULL, NULL},
    {"training.dtype", FOREIGN_QUIET, NULL, NULL, NULL},
    {"parallelism.tensor_parallel_degree", FOREIGN_INT, "tp", NULL, NULL},
    {"parallelism.pipeline_parallel_degree", FOREIGN_INT, "pp", NULL, NULL},
    {"parallelism.context_parallel_degree", FOREIGN_INT, "cp", NULL, NULL},
    {"parallelism.expert_parallel_degree", FOREIGN_INT, "ep", NULL, NULL},
    {"parallelism.expert_tensor_parallel_degree", FOREIGN_INT, "etp", NULL, NULL},
    {"parallelism.context_parallel_rotate_method", FOREIGN_WORD, "cp_kind",
     "allgather alltoall=ring", NULL},
    {"parallelism.pipeline_parallel_schedule", FOREIGN_JOINT, NULL, NULL, NULL},
    {"parallelism.pipeline_parallel_microbatch_size", FOREIGN_JOINT, NULL, NULL, NULL},
    {"parallelism.pipeline_parallel_layers_per_stage", FOREIGN_MATTERS, NULL, NULL,
     "layers of a stage"},
    {"parallelism.pipeline_parallel_split_points", FOREIGN_MATTERS, NULL, NULL,
     "stages split by hand"},
    {"parallelism.module_fqns_per_model_part", FOREIGN_MATTERS, NULL, NULL, "stages split by hand"},
    {"parallelism.pipeline_parallel_schedule_csv", FOREIGN_MATTERS, NULL, "", "its own schedule"},
    {"parallelism.data_parallel_replicate_degree", FOREIGN_JOINT, NULL, NULL, NULL},
    {"parallelism.data_parallel_shard_degree", FOREIGN_JOINT, NULL, NULL, NULL},
    {"parallelism.fsdp_reshard_after_forward", FOREIGN_JOINT, NULL, NULL, NULL},
    {"parallelism.enable_async_tensor_parallel", FOREIGN_JOINT, NULL, NULL, NULL},
    {"parallelism.disable_loss_parallel", FOREIGN_MATTERS, NULL, "false",
     "logits are gathered over tensor-parallel ranks"},
    {"parallelism.enable_compiled_autograd", FOREIGN_QUIET, NULL, NULL, NULL},
    {"parallelism.expert_parallel_a2a_impl", FOREIGN_QUIET, NULL, NULL, NULL},
    {"activation_checkpoint.mode", FOREIGN_JOINT, NULL, NULL, NULL},
    {"activation_checkpoint.selective_ac_option", FOREIGN_JOINT, NULL, NULL, NULL},
    {"activation_checkpoint.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"optimizer.name", FOREIGN_WORD, "optimizer", "Adam=adam AdamW=adam Muon=muon", NULL},
    {"optimizer.early_step_in_backward", FOREIGN_MATTERS, NULL, "false",
     "the optimizer steps within the backward pass"},
    {"optimizer.implementation", FOREIGN_MATTERS, NULL, "fused", "an unfused optimizer"},
    {"optimizer.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"float8.recipe_name", FOREIGN_JOINT, NULL, NULL, NULL},
    {"float8.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"quantize.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"mx.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"compile.enable", FOREIGN_MATTERS, NULL, "true", "nothing is compiled"},
    {"compile.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"experimental.pipeline_parallel_degree", FOREIGN_INT, "pp", NULL, NULL},
    {"experimental.context_parallel_degree", FOREIGN_INT, "cp", NULL, NULL},
    {"experimental.pipeline_parallel_schedule", FOREIGN_JOINT, NULL, NULL, NULL},
    {"experimental.enable_async_tensor_parallel", FOREIGN_JOINT, NULL, NULL, NULL},
    {"job.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"profiling.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"metrics.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"lr_scheduler.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"checkpoint.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"comm.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"memory_estimation.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"validation.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"fault_tolerance.*", FOREIGN_QUIET, NULL, NULL, NULL},
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
    return orr_tree_path(tree, "model.flavor") != NULL &&
           orr_tree_path(tree, "training.seq_len") != NULL;
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

/* The first of the three places where a setting has lived. */
static int64_t degree(const orr_tree *tree, const char *name, int64_t otherwise, orr_arena *arena) {
    static const char *const places[] = {"parallelism", "experimental", "training"};
    for (size_t i = 0; i < 3; i++) {
        const char *path = orr_arena_format(arena, "%s.%s", places[i], name);
        if (orr_tree_path(tree, path) != NULL) {
            return orr_foreign_int(tree, path, otherwise);
        }
    }
    return otherwise;
}

static void put_sharding(importer *im, const orr_tree *tree) {
    int64_t old = degree(tree, "data_parallel_degree", -1, im->arena);
    int64_t shards = degree(tree, "data_parallel_shard_degree", old, im->arena);
    int64_t replicas = degree(tree, "data_parallel_replicate_degree", 1, im->arena);
    int64_t tp = degree(tree, "tensor_parallel_degree", 1, im->arena);
    int64_t pp = degree(tree, "pipeline_parallel_degree", 1, im->arena);
    int64_t cp = degree(tree, "context_parallel_degree", 1, im->arena);
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
    if (orr_foreign_flag(tree, "parallelism.enable_async_tensor_parallel", false) ||
        orr_foreign_flag(tree, "experimental.enable_async_tensor_parallel", false)) {
        orr_tree_push(im->arena, overlap, orr_tree_new_text(im->arena, "tp"));
    }
    orr_import_put(im, "overlap", overlap, 0);
}

static void put_pipeline(importer *im, const orr_tree *tree) {
    static const char *const kinds[][3] = {{"1F1B", "1f1b", "1"},
                                           {"GPipe", "gpipe", "1"},
                                           {"Interleaved1F1B", "interleaved", "2"},
                                           {"ZBVZeroBubble", "zbv", "2"},
                                           {"DualPipeV", "dualpipev", "2"}};
    if (degree(tree, "pipeline_parallel_degree", 1, im->arena) <= 1) {
        return;
    }
    const char *path = orr_tree_path(tree, "experimental.pipeline_parallel_schedule") != NULL
                           ? "experimental.pipeline_parallel_schedule"
                           : "parallelism.pipeline_parallel_schedule";
    const char *schedule = orr_foreign_text(tree, path);
    schedule = schedule[0] == '\0' ? "1F1B" : schedule;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (orr_name_equal(schedule, kinds[i][0])) {
            orr_import_put_text(im, "schedule", kinds[i][1], orr_foreign_line(tree, path));
            orr_import_put_int(im, "vpp", kinds[i][2][0] - '0', orr_foreign_line(tree, path));
            return;
        }
    }
    orr_import_unknown(
        im, path, orr_foreign_line(tree, path), true,
        orr_arena_format(im->arena, "the schedule \"%.40s\" is not known", schedule));
}

static void put_batch(importer *im, const orr_tree *tree) {
    const char *path = orr_tree_path(tree, "training.local_batch_size") != NULL
                           ? "training.local_batch_size"
                           : "training.batch_size";
    int64_t local = orr_foreign_int(tree, path, 0), mbs = local;
    int64_t pp = degree(tree, "pipeline_parallel_degree", 1, im->arena);
    if (local < 1 || local > 1 << 20) {
        orr_import_unknown(im, path, orr_foreign_line(tree, path), true, "it is not known");
        return;
    }
    if (pp > 1) {
        mbs = degree(tree, "pipeline_parallel_microbatch_size", 1, im->arena);
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

const foreign_format orr_foreign_torchtitan = {"torchtitan-toml", rows, sizeof rows / sizeof *rows,
                                               is_torchtitan, torchtitan_joint};
