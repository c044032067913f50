/* nanotron's YAML. Its model_config is a Hugging Face configuration and is handed on as one.
 * Settings: src/nanotron/config of the repository. */
#include <string.h>

#include "exchange/foreign.h"

static const foreign_row rows[] = {
    FOREIGN_NUM("parallelism.tp", "tp"),
    FOREIGN_NUM("parallelism.pp", "pp"),
    FOREIGN_NUM("parallelism.dp", "dp"),
    FOREIGN_NUM("parallelism.expert_parallel_size", "ep"),
    FOREIGN_NUM("parallelism.expert_tensor_parallel_size", "etp"),
    FOREIGN_NUM("parallelism.context_parallel_size", "cp"),
    FOREIGN_SAYS("parallelism.pp_engine", "schedule", "1f1b afab=gpipe"),
    FOREIGN_SAYS("parallelism.tp_mode", "sp", "REDUCE_SCATTER=on ALL_REDUCE=off"),
    FOREIGN_WITH("parallelism.tp_linear_async_communication", NULL),
    FOREIGN_SAYS_OR("parallelism.recompute_layer", "recompute", "true=full false=none", "none"),
    FOREIGN_NOTE("parallelism.tp_recompute_allgather", "true", "the gathered input is kept"),
    FOREIGN_NOTE("parallelism.moe_layer_recompute", "false", "MoE layers recomputed"),
    FOREIGN_NUM("tokens.micro_batch_size", "mbs"),
    FOREIGN_NUM("tokens.batch_accumulation_per_replica", "micro_batches"),
    FOREIGN_NUM("tokens.sequence_length", "seq"),
    FOREIGN_SKIP("tokens.train_steps"),
    FOREIGN_SKIP("tokens.val_check_interval"),
    FOREIGN_SKIP("tokens.limit_test_batches"),
    FOREIGN_SKIP("tokens.limit_val_batches"),
    FOREIGN_SAYS("optimizer.zero_stage", "sharding", "0=none 1=zero1"),
    FOREIGN_SAYS("optimizer.accumulate_grad_in_fp32", "grad_dtype", "true=fp32 false=bf16"),
    FOREIGN_SAYS("optimizer.optimizer_factory.name", "optimizer", "adamW=adam muon"),
    FOREIGN_SKIP("optimizer.*"),
    FOREIGN_SAYS("model.dtype", "precision", "bfloat16=bf16 float16=fp16"),
    FOREIGN_WITH("model.model_config.*", NULL),
    FOREIGN_SKIP("model.ddp_bucket_cap_mb"),
    FOREIGN_SKIP("model.make_vocab_size_divisible_by"),
    FOREIGN_SKIP("model.init_method.*"),
    FOREIGN_SKIP("checkpoints.*"),
    FOREIGN_SKIP("data_stages.*"),
    FOREIGN_SKIP("general.*"),
    FOREIGN_SKIP("lighteval.*"),
    FOREIGN_SKIP("logging.*"),
    FOREIGN_SKIP("metrics_logging.*"),
    FOREIGN_SKIP("profiler.*"),
    FOREIGN_SKIP("s3_upload.*"),
    FOREIGN_SKIP("tokenizer.*"),
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
    orr_import_put_text(im, "software", "nanotron", 0);
}

/* ---- export --------------------------------------------------------------------------------- */

/* A card as a Llama or Qwen 2 configuration, where it is one. */
static void write_model(exporter *x) {
    static const char *const fields[][2] = {
        {"layers", "num_hidden_layers"},       {"hidden", "hidden_size"},
        {"ffn", "intermediate_size"},          {"heads", "num_attention_heads"},
        {"kv_heads", "num_key_value_heads"},   {"vocab", "vocab_size"},
        {"max_seq", "max_position_embeddings"}};
    const orr_tree *card = x->model;
    bool llama = card != NULL && orr_tree_get(card, "kinds") == NULL &&
                 orr_tree_int(orr_tree_get(card, "experts"), 0) == 0 &&
                 strcmp(orr_tree_text(orr_tree_get(card, "norm"), "rms"), "rms") == 0 &&
                 strcmp(orr_tree_text(orr_tree_get(card, "position"), "rope"), "rope") == 0 &&
                 orr_tree_get(card, "attention") == NULL;
    if (!llama) {
        orr_export_lose(x, "model", x->model_name, "only Llama-like models are written");
        return;
    }
    bool biased = orr_tree_bool(orr_tree_get(card, "bias_qkv"), false);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        int64_t value = orr_tree_int(orr_tree_get(card, fields[i][0]), 0);
        if (value > 0) {
            orr_export_int(x, orr_arena_format(x->arena, "model.model_config.%s", fields[i][1]),
                           value);
        }
    }
    orr_export_flag(
        x, biased ? "model.model_config.is_qwen2_config" : "model.model_config.is_llama_config",
        true);
    orr_export_flag(x, "model.model_config.tie_word_embeddings",
                    orr_tree_bool(orr_tree_get(card, "tied"), false));
}

static void nanotron_write(exporter *x) {
    int64_t tp = orr_export_number(x, "tp", 1);
    if (orr_export_node(x, "tp") == NULL) {
        orr_export_int(x, "parallelism.tp", 1);
    }
    if (orr_export_node(x, "pp") == NULL) {
        orr_export_int(x, "parallelism.pp", 1);
    }
    orr_export_flag(x, "parallelism.tp_linear_async_communication",
                    tp > 1 && orr_export_holds(x, "overlap", "tp"));
    write_model(x);
}

const foreign_format orr_foreign_nanotron = {
    "nanotron-yaml", rows, sizeof rows / sizeof *rows, is_nanotron, nanotron_joint, nanotron_write};
