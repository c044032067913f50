/* nanotron's YAML. Its model_config is a Hugging Face configuration and is handed on as one.
 * Settings: src/nanotron/config of the repository. */
#include <string.h>

#include "exchange/foreign.h"

static const foreign_row rows[] = {
    {"parallelism.tp", FOREIGN_INT, "tp", NULL, NULL},
    {"parallelism.pp", FOREIGN_INT, "pp", NULL, NULL},
    {"parallelism.dp", FOREIGN_INT, "dp", NULL, NULL},
    {"parallelism.expert_parallel_size", FOREIGN_INT, "ep", NULL, NULL},
    {"parallelism.expert_tensor_parallel_size", FOREIGN_INT, "etp", NULL, NULL},
    {"parallelism.context_parallel_size", FOREIGN_INT, "cp", NULL, NULL},
    {"parallelism.pp_engine", FOREIGN_WORD, "schedule", "1f1b afab=gpipe", NULL},
    {"parallelism.tp_mode", FOREIGN_WORD, "sp", "REDUCE_SCATTER=on ALL_REDUCE=off", NULL},
    {"parallelism.tp_linear_async_communication", FOREIGN_JOINT, NULL, NULL, NULL},
    {"parallelism.recompute_layer", FOREIGN_WORD, "recompute", "true=full false=none", NULL},
    {"parallelism.tp_recompute_allgather", FOREIGN_MATTERS, NULL, "true",
     "the gathered input is kept"},
    {"parallelism.moe_layer_recompute", FOREIGN_MATTERS, NULL, "false", "MoE layers recomputed"},
    {"tokens.micro_batch_size", FOREIGN_INT, "mbs", NULL, NULL},
    {"tokens.batch_accumulation_per_replica", FOREIGN_INT, "micro_batches", NULL, NULL},
    {"tokens.sequence_length", FOREIGN_INT, "seq", NULL, NULL},
    {"tokens.train_steps", FOREIGN_QUIET, NULL, NULL, NULL},
    {"tokens.val_check_interval", FOREIGN_QUIET, NULL, NULL, NULL},
    {"tokens.limit_test_batches", FOREIGN_QUIET, NULL, NULL, NULL},
    {"tokens.limit_val_batches", FOREIGN_QUIET, NULL, NULL, NULL},
    {"optimizer.zero_stage", FOREIGN_WORD, "sharding", "0=none 1=zero1", NULL},
    {"optimizer.accumulate_grad_in_fp32", FOREIGN_WORD, "grad_dtype", "true=fp32 false=bf16", NULL},
    {"optimizer.optimizer_factory.name", FOREIGN_WORD, "optimizer", "adamW=adam muon", NULL},
    {"optimizer.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"model.dtype", FOREIGN_WORD, "precision", "bfloat16=bf16 float16=fp16", NULL},
    {"model.model_config.*", FOREIGN_JOINT, NULL, NULL, NULL},
    {"model.ddp_bucket_cap_mb", FOREIGN_QUIET, NULL, NULL, NULL},
    {"model.make_vocab_size_divisible_by", FOREIGN_QUIET, NULL, NULL, NULL},
    {"model.init_method.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"checkpoints.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"data_stages.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"general.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"lighteval.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"logging.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"metrics_logging.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"profiler.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"s3_upload.*", FOREIGN_QUIET, NULL, NULL, NULL},
    {"tokenizer.*", FOREIGN_QUIET, NULL, NULL, NULL},
};

static bool is_nanotron(const orr_tree *tree) {
    return orr_tree_path(tree, "tokens.micro_batch_size") != NULL &&
           orr_tree_path(tree, "parallelism.tp") != NULL;
}

static void put_model(importer *im, const orr_tree *tree) {
    const orr_tree *config = orr_tree_path(tree, "model.model_config");
    if (orr_tree_kind_of(config) != ORR_TREE_MAP) {
        return;
    }
    bool qwen = orr_tree_get(config, "is_qwen2_config") != NULL;
    if (orr_tree_kind_of(orr_tree_get(config, "moe_config")) == ORR_TREE_MAP) {
        orr_import_unknown(im, "model.model_config.moe_config",
                           orr_tree_span(orr_tree_get(config, "moe_config")).line, true,
                           "its experts are not read; give --model");
        return;
    }
    orr_tree *model = orr_tree_new_map(im->arena);
    orr_tree_put_text(im->arena, model, "model_type", qwen ? "qwen2" : "llama");
    orr_tree_put_text(im->arena, model, "_name_or_path", orr_import_stem(im->arena, im->file));
    for (size_t i = 0; i < orr_tree_size(config); i++) {
        const orr_tree *node = orr_tree_at(config, i);
        if (orr_tree_kind_of(node) != ORR_TREE_NULL) {
            orr_tree *copy = orr_tree_copy(im->arena, node);
            orr_tree_set_span(copy, orr_tree_span(node));
            orr_tree_put(im->arena, model, orr_tree_key(config, i), copy);
        }
    }
    orr_import_put(im, "model", model, orr_tree_span(config).line);
}

static void nanotron_joint(importer *im, const orr_tree *tree) {
    put_model(im, tree);
    int64_t dp = orr_foreign_int(tree, "parallelism.dp", 0);
    int64_t gpus = orr_foreign_product(
        (const int64_t[]){dp, orr_foreign_int(tree, "parallelism.tp", 0),
                          orr_foreign_int(tree, "parallelism.pp", 0),
                          orr_foreign_int(tree, "parallelism.context_parallel_size", 1)},
        4);
    if (gpus > 0 && gpus <= 1 << 20) {
        orr_import_put_int(im, "gpus", gpus, orr_foreign_line(tree, "parallelism.dp"));
    }
    int64_t gbs = orr_foreign_product(
        (const int64_t[]){dp, orr_foreign_int(tree, "tokens.micro_batch_size", 0),
                          orr_foreign_int(tree, "tokens.batch_accumulation_per_replica", 1)},
        3);
    if (gbs > 0) {
        orr_import_put_int(im, "gbs", gbs, orr_foreign_line(tree, "tokens.micro_batch_size"));
    }
    const char *async = "parallelism.tp_linear_async_communication";
    orr_tree *overlap = orr_tree_new_list(im->arena);
    orr_tree_push(im->arena, overlap, orr_tree_new_text(im->arena, "dp"));
    if (orr_foreign_flag(tree, async, false)) {
        orr_tree_push(im->arena, overlap, orr_tree_new_text(im->arena, "tp"));
    }
    orr_import_put(im, "overlap", overlap, orr_foreign_line(tree, async));
    if (orr_tree_get(im->keys, "recompute") == NULL) {
        orr_import_put_text(im, "recompute", "none", 0);
    }
    orr_import_put_text(im, "software", "nanotron", 0);
}

const foreign_format orr_foreign_nanotron = {"nanotron-yaml", rows, sizeof rows / sizeof *rows,
                                             is_nanotron, nanotron_joint};
