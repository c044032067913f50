/* What trainers of Hugging Face models mean together. They share the names of transformers'
 * TrainingArguments. */
#include "exchange/trainers.h"

#include <string.h>

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

void orr_trainer_lora(importer *im, const orr_tree *tree, const char *rank, int64_t rank_default,
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

void orr_trainer_base(importer *im, const orr_tree *tree, bool four, bool eight,
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

void orr_trainer_sharding(importer *im, const orr_tree *tree) {
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

void orr_trainer_precision(importer *im, const orr_tree *tree, bool by_default) {
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

void orr_trainer_weights(importer *im, const orr_tree *tree, bool loaded16) {
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

void orr_trainer_kernels(importer *im, const orr_tree *tree) {
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

void orr_trainer_recompute(importer *im, const orr_tree *tree, const char *path, bool by_default) {
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

void orr_trainer_finish(importer *im, const orr_tree *tree, const char *packing) {
    orr_import_put_text(im, "software", "hf-zero3", 0);
    orr_import_assume(im, "software", "hf-zero3",
                      "the layers of transformers, as measured under ZeRO-3");
    if (!orr_foreign_flag(tree, packing, false)) {
        orr_import_warn(im, orr_foreign_line(tree, packing),
                        "sequences are not packed: figures are for full ones, shorter ones take "
                        "less");
    }
}
