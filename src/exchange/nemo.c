/* Classes, precision recipes and other words of Megatron-Bridge and NeMo. */
#include "exchange/nemo.h"

#include <string.h>

const char *const orr_nemo_defaults[ORR_NEMO_DEFAULTS][2] = {
    {"use-distributed-optimizer", "true"},
    {"overlap-grad-reduce", "true"},
    {"overlap-param-gather", "true"},
    {"hidden-dropout", "0"},
    {"attention-dropout", "0"},
    {"moe-token-dispatcher-type", "alltoall"},
};

/* Model classes of NeMo 2 and Bridge by the catalog's names: what is between the family's name and
 * "Config" or "ModelProvider" is left out ("Llama31Config70B", "Llama31ModelProvider70B"). */
static const char *const classes[][2] = {
    {"Llama27B", "llama-2-7b"},
    {"Llama213B", "llama-2-13b"},
    {"Llama270B", "llama-2-70b"},
    {"Llama38B", "llama-3-8b"},
    {"Llama370B", "llama-3-70b"},
    {"Llama318B", "llama-3.1-8b"},
    {"Llama3170B", "llama-3.1-70b"},
    {"Llama31405B", "llama-3.1-405b"},
    {"Llama321B", "llama-3.2-1b"},
    {"Llama323B", "llama-3.2-3b"},
    {"Llama4Experts16", "llama-4-scout"},
    {"Llama4Experts128", "llama-4-maverick"},
    {"Mistral7B", "mistral-7b"},
    {"MistralNeMo12B", "mistral-nemo-12b"},
    {"Mixtral8x7B", "mixtral-8x7b"},
    {"Mixtral8x22B", "mixtral-8x22b"},
    {"DeepSeekV2", "deepseek-v2"},
    {"DeepSeekV2Lite", "deepseek-v2-lite"},
    {"DeepSeekV3", "deepseek-v3"},
    {"Moonlight16B", "moonlight-16b-a3b"},
    {"KimiK2", "kimi-k2"},
    {"Qwen257B", "qwen2.5-7b"},
    {"Qwen2514B", "qwen2.5-14b"},
    {"Qwen2532B", "qwen2.5-32b"},
    {"Qwen2572B", "qwen2.5-72b"},
    {"Qwen3600M", "qwen3-0.6b"},
    {"Qwen31P7B", "qwen3-1.7b"},
    {"Qwen34B", "qwen3-4b"},
    {"Qwen38B", "qwen3-8b"},
    {"Qwen314B", "qwen3-14b"},
    {"Qwen332B", "qwen3-32b"},
    {"Qwen330B_A3B", "qwen3-30b-a3b"},
    {"Qwen3MoE30B_A3B", "qwen3-30b-a3b"},
    {"Qwen3235B_A22B", "qwen3-235b-a22b"},
    {"Qwen3MoE235B_A22B", "qwen3-235b-a22b"},
    {"Qwen3NextNext80B_A3B", "qwen3-next-80b-a3b"},
    {"GPTOSS20B", "gpt-oss-20b"},
    {"GPTOSS120B", "gpt-oss-120b"},
    {"Nemotron38B", "nemotron-3-8b"},
    {"Nemotron415B", "nemotron-4-15b"},
    {"Nemotron4340B", "nemotron-4-340b"},
    {"Gemma2B", "gemma-2b"},
    {"Gemma7B", "gemma-7b"},
    {"Gemma22B", "gemma-2-2b"},
    {"Gemma29B", "gemma-2-9b"},
    {"Gemma227B", "gemma-2-27b"},
    {"Starcoder215B", "starcoder2-15b"},
    {"Starcoder27B", "starcoder2-7b"},
    {"GPT126M", "gpt3-125m"},
    {"GPT5B", NULL},
    {"GPT7B", NULL},
    {"GPT20B", NULL},
    {"GPT40B", NULL},
    {"GPT175B", "gpt3-175b"},
};

const char *orr_nemo_class(orr_arena *arena, const char *target) {
    const char *dot = strrchr(target, '.'), *name = dot != NULL ? dot + 1 : target;
    static const char *const middles[] = {"ModelProvider", "Provider", "Config", "Model"};
    for (size_t i = 0; i < sizeof middles / sizeof *middles; i++) {
        const char *at = strstr(name, middles[i]);
        if (at != NULL) {
            return orr_arena_format(arena, "%.*s%s", (int)(at - name), name,
                                    at + strlen(middles[i]));
        }
    }
    return name;
}

bool orr_nemo_model(importer *im, const orr_tree *node, megatron_ground *ground) {
    const char *target = orr_tree_text(node, "");
    const char *stem = orr_nemo_class(im->arena, target);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (orr_name_equal(stem, classes[i][0]) && classes[i][1] != NULL) {
            ground->model_name = classes[i][1];
            ground->by_name = true;
            return true;
        }
    }
    return false;
}

void orr_nemo_add(importer *im, settings *list, const char *name, const char *value,
                  uint32_t line) {
    setting one = {.name = name, .value = value, .line = line, .typed = true};
    orr_settings_add(im->arena, list, one);
}

bool orr_nemo_has(const orr_tree *tree, const char *path) {
    return orr_tree_kind_of(orr_tree_path(tree, path)) != ORR_TREE_NULL;
}

void orr_nemo_precision(importer *im, const char *words, uint32_t line, settings *list) {
    static const char *const recipes[][2] = {
        {"delayed", "delayed"}, {"current", "tensorwise"},   {"tensorwise", "tensorwise"},
        {"mxfp8", "mxfp8"},     {"subchannel", "blockwise"}, {"blockwise", "blockwise"}};
    bool brain = strstr(words, "bf16") != NULL || strstr(words, "16") == NULL;
    if (strstr(words, "16") == NULL && strstr(words, "fp8") == NULL &&
        strstr(words, "fp4") == NULL) {
        orr_import_ask(im, line, "precision", "no precision recipe '%.40s' is known, bf16 is taken",
                       words);
    }
    orr_nemo_add(im, list, brain ? "bf16" : "fp16", "true", line);
    if (strstr(words, "nvfp4") != NULL || strstr(words, "fp4") != NULL) {
        orr_nemo_add(im, list, "fp4-format", "e2m1", line);
    } else if (strstr(words, "fp8") != NULL) {
        orr_nemo_add(im, list, "fp8-format", "hybrid", line);
        for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
            if (strstr(words, recipes[i][0]) != NULL) {
                orr_nemo_add(im, list, "fp8-recipe", recipes[i][1], line);
                return;
            }
        }
    }
}

void orr_nemo_activation(importer *im, const orr_tree *model, settings *list) {
    const orr_tree *node = orr_tree_get(model, "activation_func");
    const char *name = orr_tree_text(node, orr_tree_text(orr_tree_get(node, "_target_"), ""));
    bool gated = orr_tree_bool(orr_tree_get(model, "gated_linear_unit"), false);
    uint32_t line = orr_tree_span(orr_tree_get(model, "gated_linear_unit")).line;
    if (gated && (strstr(name, "silu") != NULL || name[0] == '\0')) {
        orr_nemo_add(im, list, "swiglu", "true", line);
    } else if (gated) {
        orr_nemo_add(im, list, "quick-geglu", "true", line);
    } else if (strstr(name, "squared_relu") != NULL) {
        orr_nemo_add(im, list, "squared-relu", "true", orr_tree_span(node).line);
    }
}

void orr_nemo_peft(importer *im, const orr_tree *node) {
    if (orr_tree_kind_of(node) != ORR_TREE_NULL) {
        orr_foreign_lora(im, orr_tree_get(node, "dim"), orr_tree_get(node, "target_modules"),
                         orr_tree_span(node).line);
    }
}

void orr_nemo_gpus(importer *im, const orr_tree *tree) {
    int64_t nodes = orr_foreign_int(tree, "trainer.num_nodes", 1);
    int64_t devices = orr_foreign_int(tree, "trainer.devices", 0);
    int64_t gpus = orr_foreign_product((const int64_t[]){nodes, devices}, 2);
    if (gpus > 0 && gpus <= 1 << 20) {
        orr_import_put_int(im, "gpus", gpus, orr_foreign_line(tree, "trainer.devices"));
        orr_import_put_int(im, "nodes", nodes, orr_foreign_line(tree, "trainer.num_nodes"));
    } else if (orr_nemo_has(tree, "trainer.devices")) {
        orr_import_unknown(im, "trainer.devices", orr_foreign_line(tree, "trainer.devices"), true,
                           "the number of GPUs is not a number here");
    }
}
