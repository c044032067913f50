/* Model cards, config.json files and published parameter counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/text.h"
#include "doc/doc.h"
#include "model/model.h"
#include "orrery/orrery.h"

static int set_up(void **state) {
    *state = orr_arena_new();
    return 0;
}

static int tear_down(void **state) {
    orr_arena_free(*state);
    return 0;
}

static orr_model *find(orr_arena *arena, const char *name) {
    orr_err err = {0};
    orr_model *model = NULL;
    if (orr_model_find(arena, name, &model, &err) != ORR_OK) {
        fail_msg("%s: %s (%s)", name, err.message, err.hint);
    }
    return model;
}

static void assert_same_layers(const orr_model *a, const orr_model *b) {
    assert_int_equal(a->layers, b->layers);
    for (uint32_t i = 0; i < a->layers; i++) {
        assert_memory_equal(&a->kind[a->layer_kind[i]], &b->kind[b->layer_kind[i]],
                            sizeof(orr_layer));
    }
}

/* Counts printed by the models' own pages and by safetensors indices. */
static void totals_are_exact(void **state) {
    static const struct {
        const char *name;
        uint64_t total;
    } known[] = {
        {"llama-3.1-8b", 8030261248},
        {"llama-3.1-70b", 70553706496},
        {"llama-3.1-405b", 405853388800},
        {"mixtral-8x7b", 46702792704},
        {"mixtral-8x22b", 140630071296},
        {"qwen3-30b-a3b", 30532122624},
        {"qwen3-235b-a22b", 235093634560},
        {"deepseek-v3", 671026404352},
        {"llama-2-7b", 6738415616},
        {"qwen2.5-7b", 7615616512},
        {"gemma-2-9b", 9241705984},
        {"gemma-3-1b", 999885952},
        {"gpt-oss-120b", 116829156672},
        {"gpt-oss-20b", 20914757184},
        {"dbrx", 131596523520},
        {"bert-base", 109514298},
        {"gpt2-xl", 1557611200},
        {"falcon-180b", 179522565120},
        {"bloom-176b", 176247271424},
        {"command-r-plus-104b", 103810674688},
        {"olmoe-1b-7b", 6919161856},
        {"minimax-text-01", 456144150016}, /* published as 456 billion */
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const orr_model *model = find(*state, known[i].name);
        if (orr_model_count(model).total != known[i].total) {
            fail_msg("%s: %llu", known[i].name, (unsigned long long)orr_model_count(model).total);
        }
    }
}

static void active_parameters_leave_idle_experts_out(void **state) {
    const orr_model *model = find(*state, "mixtral-8x7b");
    orr_model_params p = orr_model_count(model);
    assert_int_equal(p.experts, (uint64_t)32 * 8 * 3 * 4096 * 14336);
    assert_int_equal(p.active, p.total - p.experts / 4 * 3);
    orr_model_params dense = orr_model_count(find(*state, "llama-3.1-8b"));
    assert_int_equal(dense.active, dense.total);
    assert_int_equal(dense.experts, 0);
    orr_model_params v3 = orr_model_count(find(*state, "deepseek-v3"));
    assert_true(v3.mtp > 11e9 && v3.mtp < 12e9);
}

static void parts_sum_to_the_total(void **state) {
    const orr_tree *names = orr_model_catalog(*state);
    assert_true(orr_tree_size(names) >= 60);
    for (size_t i = 0; i < orr_tree_size(names); i++) {
        const orr_model *model = find(*state, orr_tree_text(orr_tree_at(names, i), ""));
        orr_model_params p = orr_model_count(model);
        uint64_t sum = p.embedding + p.head;
        for (uint32_t k = 0; k < model->layers; k++) {
            sum += orr_layer_params(&model->kind[model->layer_kind[k]]);
        }
        assert_int_equal(sum, p.total);
        assert_true(p.active <= p.total && p.active > 0);
        assert_true(strlen(model->source) > 10);
    }
}

/* Every config.json says what the catalog says, layer by layer. */
static void configs_agree_with_the_catalog(void **state) {
    static const char *const names[] = {"apertus-70b",
                                        "bert-base",
                                        "bloom-7b1",
                                        "command-r-35b",
                                        "dbrx",
                                        "deepseek-v2-lite",
                                        "deepseek-v3",
                                        "ernie-4.5-21b-a3b",
                                        "falcon-40b",
                                        "falcon-7b",
                                        "gemma-2-9b",
                                        "gemma-3-1b",
                                        "gemma-7b",
                                        "glm-4-9b",
                                        "glm-4.5-air",
                                        "gpt-neox-20b",
                                        "gpt-oss-20b",
                                        "gpt2-xl",
                                        "grok-1",
                                        "kimi-k2",
                                        "llama-3.1-8b",
                                        "llama-3.2-1b",
                                        "llama-4-maverick",
                                        "llama-4-scout",
                                        "mamba2-2.7b",
                                        "minimax-m2",
                                        "minimax-text-01",
                                        "mistral-7b",
                                        "mistral-nemo-12b",
                                        "mixtral-8x22b",
                                        "mixtral-8x7b",
                                        "mpt-7b",
                                        "nemotron-4-340b",
                                        "olmo-2-7b",
                                        "olmoe-1b-7b",
                                        "opt-6.7b",
                                        "phi-3-mini",
                                        "phi-3.5-moe",
                                        "qwen1.5-moe-a2.7b",
                                        "qwen2.5-0.5b",
                                        "qwen2.5-7b",
                                        "qwen3-235b-a22b",
                                        "qwen3-30b-a3b",
                                        "qwen3-8b",
                                        "smollm3-3b",
                                        "starcoder2-15b",
                                        "starcoderbase-15b",
                                        "command-r-plus-104b",
                                        "seed-oss-36b",
                                        "qwen3-next-80b-a3b",
                                        "deepseek-moe-16b",
                                        "internlm-20b",
                                        "mistral-small-24b",
                                        "moonlight-16b-a3b",
                                        "phi-4",
                                        "nemotron-3-nano-30b-a3b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path =
            orr_arena_format(*state, "%s/data/models/%s.json", ORR_TEST_DIR, names[i]);
        const orr_model *config = find(*state, path);
        const orr_model *card = find(*state, names[i]);
        assert_same_layers(config, card);
        assert_int_equal(orr_model_count(config).total, orr_model_count(card).total);
        assert_true(config->mtp_layers <= card->mtp_layers); /* some configs keep silent */
        assert_string_equal(config->name, names[i]);
        assert_int_equal(config->assumed, card->assumed);
    }
}

/* Families that the catalog has no entry of: totals worked out by hand from the config's shapes. */
static void configs_of_other_families_have_the_published_totals(void **state) {
    static const struct {
        const char *name;
        uint64_t total;
    } known[] = {
        {"arcee-4.5b", 4619184640},
        {"baichuan2-7b", 7505973248},
        {"command-r7b", 8028033024},
        {"dots.llm1", 142774373888},
        {"exaone-3.5-7.8b", 7818448896},
        {"glm-4-9b-0414", 9400279040},
        {"gpt-j-6b", 6050882784},
        {"gpt-neo-2.7b", 2651307520},
        {"granite-3.1-8b", 8170848256},
        {"granite-3.0-3b-a800m", 3298793472},
        {"internlm2-7b", 7737708544},
        {"olmo-3-7b", 7298011136},
        {"olmo-7b", 6888095744},
        {"orion-14b", 14498703360},
        {"persimmon-8b", 9397170688},
        {"phi-2", 2779683840},
        {"qwen-7b", 7721324544},
        {"roberta-base", 124697433},
        {"stablelm-2-1.6b", 1644515328},
        {"xlm-roberta-base", 278295186},
        {"yi-6b", 6061035520},
        {"aquila-7b", 7295537152},
        {"internlm3-8b", 8804241408},
        {"ministral-8b", 8019808256},
        {"ministral-3-3b", 3429006336},
        {"exaone-4.0-32b", 32003216384},
        {"ernie-4.5-0.3b", 360748032},
        {"hunyuan-7b", 7504568320},
        {"hunyuan-a13b", 80393183232},
        {"skywork-moe", 146356130304},
        {"gemma-3-4b", 3880263168},
        /* hybrids: the mixers of Granite are counted as they are; lightning attention of MiniMax
         * has an output gate and a norm */
        {"granite-4.0-h-small", 32207337984},
        {"granite-4.0-h-micro", 3191396096},
        {"minimax-text-01-hf", 456144150016},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *path =
            orr_arena_format(*state, "%s/data/models/%s.json", ORR_TEST_DIR, known[i].name);
        uint64_t total = orr_model_count(find(*state, path)).total;
        if (total != known[i].total) {
            fail_msg("%s: %llu", known[i].name, (unsigned long long)total);
        }
    }
}

/* What a total or a step would be wrong for is refused, not read as its nearest kin. */
static void families_that_are_not_modelled_are_refused(void **state) {
    static const struct {
        const char *name, *says;
    } bad[] = {
        {"deepseek-v3.2", "an indexer that picks the keys of attention"},
        {"hunyuan-large", "unknown model_type \"hunyuan\""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        orr_model *model = NULL;
        orr_err err = {0};
        const char *path =
            orr_arena_format(*state, "%s/data/models/%s.json", ORR_TEST_DIR, bad[i].name);
        assert_int_not_equal(orr_model_find(*state, path, &model, &err), ORR_OK);
        if (strstr(err.message, bad[i].says) == NULL || err.hint[0] == '\0') {
            fail_msg("%s: %s (%s)", bad[i].name, err.message, err.hint);
        }
    }
}

static void families_have_their_traits(void **state) {
    const orr_model *oss = find(*state, ORR_TEST_DIR "/data/models/gpt-oss-20b.json");
    const orr_layer *first = &oss->kind[oss->layer_kind[0]];
    const orr_layer *second = &oss->kind[oss->layer_kind[1]];
    assert_int_equal(first->attention.window, 128);
    assert_int_equal(second->attention.window, 0);
    assert_true(first->attention.sinks && first->mlp.bias);
    const orr_model *v3 = find(*state, ORR_TEST_DIR "/data/models/deepseek-v3.json");
    const orr_layer *last = &v3->kind[v3->layer_kind[60]];
    assert_int_equal(v3->kind[v3->layer_kind[2]].mlp.experts, 0);
    assert_int_equal(last->mlp.experts, 256);
    assert_int_equal(last->attention.kind, ORR_ATTENTION_MLA);
    assert_int_equal(last->attention.head_dim, 192);
    assert_true(last->mlp.router_bias && last->mlp.router == ORR_ROUTER_SIGMOID);
    const orr_model *next = find(*state, ORR_TEST_DIR "/data/models/qwen3-next-80b-a3b.json");
    assert_true(next->assumed);
    assert_int_equal(next->kind[next->layer_kind[0]].attention.kind, ORR_ATTENTION_LINEAR);
    assert_int_equal(next->kind[next->layer_kind[3]].attention.kind, ORR_ATTENTION_GQA);
    const orr_model *exaone = find(*state, ORR_TEST_DIR "/data/models/exaone-4.0-32b.json");
    assert_int_equal(exaone->kind[exaone->layer_kind[0]].attention.window, 4096);
    assert_int_equal(exaone->kind[exaone->layer_kind[3]].attention.window, 0);
    const orr_model *granite = find(*state, ORR_TEST_DIR "/data/models/granite-4.0-h-small.json");
    assert_true(granite->assumed);
    assert_int_equal(granite->kind[granite->layer_kind[4]].attention.kind, ORR_ATTENTION_LINEAR);
    assert_int_equal(granite->kind[granite->layer_kind[5]].attention.kind, ORR_ATTENTION_GQA);
    assert_int_equal(granite->kind[granite->layer_kind[5]].mlp.experts, 72);
    const orr_model *bert = find(*state, ORR_TEST_DIR "/data/models/bert-base.json");
    assert_true(bert->encoder && !bert->kind[0].attention.causal);
    const orr_model *neox = find(*state, ORR_TEST_DIR "/data/models/gpt-neox-20b.json");
    assert_true(neox->kind[0].parallel_block);
}

static void models_survive_being_written(void **state) {
    const orr_tree *names = orr_model_catalog(*state);
    for (size_t i = 0; i < orr_tree_size(names); i++) {
        const orr_model *model = find(*state, orr_tree_text(orr_tree_at(names, i), ""));
        orr_model *again = NULL;
        orr_err err = {0};
        if (orr_model_read(*state, orr_model_write(*state, model), NULL, &again, &err) != ORR_OK) {
            fail_msg("%s: %s", model->name, err.message);
        }
        assert_same_layers(model, again);
        assert_int_equal(orr_model_count(model).total, orr_model_count(again).total);
        assert_string_equal(model->name, again->name);
        assert_int_equal(model->tied, again->tied);
    }
}

/* GF a token as published: SOURCES.md of the measured runs, "FLOPs conventions". */
static void flops_follow_the_published_conventions(void **state) {
    static const struct {
        const char *name;
        uint32_t seq;
        bool causal;
        double gflops, tolerance_frac;
    } known[] = {
        {"llama-3-70b", 8192, true, 449.2, 0.0005},   {"llama-3-70b", 8192, false, 481.4, 0.0005},
        {"deepseek-v3", 4096, true, 260.0, 0.003},    {"gpt-oss-120b", 4096, true, 32.6, 0.005},
        {"llama-3.1-405b", 8192, false, 2626, 0.002},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double flops =
            orr_model_flops_per_token(find(*state, known[i].name), known[i].seq, known[i].causal);
        double off = flops / (known[i].gflops * 1e9) - 1;
        if (off > known[i].tolerance_frac || off < -known[i].tolerance_frac) {
            fail_msg("%s: %.1f GF a token", known[i].name, flops / 1e9);
        }
    }
}

static void names_are_forgiving_but_never_guessed(void **state) {
    assert_string_equal(find(*state, "Llama_3.1-8B")->name, "llama-3.1-8b");
    assert_string_equal(find(*state, "gpt3-1.3b")->name, "gpt3-1.3b");
    assert_string_equal(find(*state, "GPT3-13B")->name, "gpt3-13b");
    assert_string_equal(find(*state, "gpt3")->name, "gpt3-175b");
    orr_model *model = NULL;
    orr_err err = {0};
    assert_int_equal(orr_model_find(*state, "lama-3.1-8b", &model, &err), ORR_E_NAME);
    assert_non_null(strstr(err.hint, "llama-3.1-8b"));
    assert_int_equal(orr_model_find(*state, "", &model, &err), ORR_E_NAME);
    assert_int_equal(orr_model_find(*state, "no/such/config.json", &model, &err), ORR_E_IO);
}

/* ---- refusals ------------------------------------------------------------------------------- */

static orr_status read_text(orr_arena *arena, const char *text, orr_err *err) {
    orr_tree *tree = NULL;
    orr_model *model = NULL;
    memset(err, 0, sizeof *err);
    assert_int_equal(orr_doc_read(arena, "bad.yaml", text, strlen(text), &tree, err), ORR_OK);
    return orr_model_read(arena, tree, "bad", &model, err);
}

static void bad_models_are_refused_with_a_reason(void **state) {
#define LLAMA(extra)                                                                               \
    "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_hidden_layers\": 32,\n"              \
    " \"intermediate_size\": 11008, \"vocab_size\": 32000, \"num_attention_heads\": 32" extra "}"
    static const struct {
        const char *text, *says;
        orr_status status;
    } bad[] = {
        {"[1]", "a map", ORR_E_SCHEMA},
        {"{\"model_type\": \"lama\"}", "unknown model_type", ORR_E_NAME},
        {"{\"model_type\": 3}", "model_type", ORR_E_SCHEMA},
        {"{\"architectures\": [\"X\"]}", "model_type", ORR_E_SCHEMA},
        {"{\"model_type\": \"llama\"}", "num_hidden_layers", ORR_E_SCHEMA},
        {LLAMA(", \"num_key_value_heads\": 5"), "evenly", ORR_E_CONFLICT},
        {LLAMA(", \"num_key_value_heads\": 64"), "key-value heads", ORR_E_LIMIT},
        {LLAMA(", \"num_key_value_heads\": 0"), "key-value heads", ORR_E_SCHEMA},
        {LLAMA(", \"num_key_value_heads\": -8"), "num_key_value_heads", ORR_E_SCHEMA},
        {LLAMA(", \"num_key_value_heads\": \"eight\""), "whole number", ORR_E_SCHEMA},
        {LLAMA(", \"num_key_value_heads\": 8.5"), "whole number", ORR_E_SCHEMA},
        {LLAMA(", \"head_dim\": 0"), "head width", ORR_E_SCHEMA},
        {LLAMA(", \"head_dim\": 99999999999"), "head_dim", ORR_E_LIMIT},
        {LLAMA(", \"hidden_act\": \"sliu\""), "unknown activation", ORR_E_NAME},
        {LLAMA(", \"attention_bias\": 1"), "true or false", ORR_E_SCHEMA},
        {LLAMA(", \"is_encoder_decoder\": true"), "not supported", ORR_E_SCHEMA},
        {LLAMA(", \"layer_types\": [\"full_attention\"]"), "layer_types", ORR_E_CONFLICT},
        {LLAMA(", \"num_local_experts\": 8"), "num_experts_per_tok", ORR_E_SCHEMA},
        {LLAMA(", \"num_local_experts\": 8, \"num_experts_per_tok\": 9"), "chooses", ORR_E_LIMIT},
        {"{model_type: llama, hidden_size: 0, num_hidden_layers: 1, vocab_size: 8}", "hidden_size",
         ORR_E_SCHEMA},
        {"{model_type: llama, num_hidden_layers: 100000}", "num_hidden_layers", ORR_E_LIMIT},
        {"{model_type: gpt2, n_layer: 2, n_embd: 100, n_head: 7, vocab_size: 10, n_positions: 8}",
         "divide", ORR_E_CONFLICT},
        {"{layers: 2, hidden: 64, heads: 4, ffn: 128, vocab: 100, fnn: 3}", "fnn", ORR_E_SCHEMA},
        {"{layers: 0, hidden: 64, heads: 4, ffn: 128, vocab: 100}", "layers", ORR_E_LIMIT},
        {"{layers: 2, hidden: 64, heads: 5, ffn: 128, vocab: 100}", "divide", ORR_E_CONFLICT},
        {"{layers: 2, hidden: 64, heads: 4, ffn: 128}", "vocabulary", ORR_E_SCHEMA},
        {"{layers: 2, hidden: 64, heads: 4, ffn: 128, vocab: 9, pattern: [a]}", "kind \"a\"",
         ORR_E_NAME},
        {"{layers: 2, hidden: 64, heads: 4, vocab: 9, kinds: {a: {}}, pattern: [a*3]}",
         "describes 3", ORR_E_CONFLICT},
        {"{layers: 2, hidden: 64, heads: 4, vocab: 9, kinds: {a: {}}, pattern: [a*-1]}", "count",
         ORR_E_SCHEMA},
        {"{layers: 2, hidden: 64, attention: none, vocab: 9}", "neither", ORR_E_CONFLICT},
        {"{layers: 4096, hidden: 16777216, heads: 4, head_dim: 64, vocab: 9, ffn: 16777216,"
         " experts: 65536, topk: 1, expert_ffn: 16777216}",
         "parameters", ORR_E_LIMIT},
        {"{layers: 2, hidden: 64, heads: 4, vocab: 9, experts: 8, topk: 2, expert_ffn: 8,"
         " groups: 3, group_topk: 1}",
         "divide", ORR_E_CONFLICT},
        {"{layers: 2, hidden: 64, heads: 4, vocab: 9, ffn: 8, like: lama-3-8b}", "unknown model",
         ORR_E_NAME},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        orr_err err;
        orr_status status = read_text(*state, bad[i].text, &err);
        if (status != bad[i].status || strstr(err.message, bad[i].says) == NULL) {
            fail_msg("%s\ngives %d: %s", bad[i].text, (int)status, err.message);
        }
    }
    orr_err err;
    (void)read_text(*state, "{\"model_type\": \"lama\"}", &err);
    assert_non_null(strstr(err.hint, "llama"));
    (void)read_text(*state, LLAMA(",\n\n \"num_key_value_heads\": \"eight\""), &err);
    assert_int_equal(err.line, 4);
}

static void derived_cards_change_only_what_they_say(void **state) {
    orr_tree *tree = NULL;
    orr_model *model = NULL;
    orr_err err = {0};
    const char *text = "{like: llama-3.1-405b, layers: 4, kv_heads: 16}";
    assert_int_equal(orr_doc_read(*state, "x.yaml", text, strlen(text), &tree, &err), ORR_OK);
    assert_int_equal(orr_model_read(*state, tree, "proxy", &model, &err), ORR_OK);
    assert_int_equal(model->layers, 4);
    assert_int_equal(model->kind[0].attention.kv_heads, 16);
    assert_int_equal(model->hidden, 16384);
}

/* ---- the shared facts ----------------------------------------------------------------------- */

/* Weights that are no matrices: norms, biases, sinks, position tables. The computed totals beside
 * the measured runs leave them out. */
static uint64_t vector_params(const orr_model *model) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < model->layers; i++) {
        const orr_layer *l = &model->kind[model->layer_kind[i]];
        const orr_attention *a = &l->attention;
        const orr_mlp *m = &l->mlp;
        uint64_t h = l->hidden;
        uint64_t norm = l->norm == ORR_NORM_RMS || l->norm_bare ? h : 2 * h;
        uint64_t q = (uint64_t)a->heads * a->head_dim;
        uint64_t kv = (uint64_t)a->kv_heads * a->head_dim;
        total += l->norms * norm + (a->bias_qkv ? q + 2 * kv : 0) + (a->bias_out ? h : 0);
        total += (a->qk_norm ? 2u * a->head_dim : 0) + (a->sinks ? a->heads : 0);
        total += a->kind == ORR_ATTENTION_MLA ? a->q_lora + a->kv_lora : 0;
        uint64_t up = m->gated ? 2 : 1;
        if (m->bias) {
            total += m->experts > 0 ? m->experts * (up * m->expert_ffn + h) + m->experts
                                    : up * m->ffn + h;
        }
        total += m->shared_gate ? h : 0;
    }
    uint64_t h = model->hidden;
    total += model->norm == ORR_NORM_RMS || model->norm_bare ? h : 2 * h;
    return total + (model->position == ORR_POSITION_LEARNED ? model->max_seq * h : 0);
}

static void measured_entries_differ_by_vectors_alone(void **state) {
    orr_tree *file = NULL;
    orr_err err = {0};
    if (orr_doc_read_file(*state, ORR_SHARED_DIR "/data/measured/models.json", &file, &err) !=
        ORR_OK) {
        skip();
    }
    size_t compared = 0;
    size_t unknown = 0;
    for (size_t i = 0; i < orr_tree_size(file); i++) {
        const orr_tree *entry = orr_tree_at(file, i);
        const char *name = orr_tree_key(file, i);
        orr_model *model = NULL;
        memset(&err, 0, sizeof err);
        if (orr_model_read_measured(*state, name, entry, &model, &err) != ORR_OK) {
            assert_non_null(strstr(err.message, "not known"));
            unknown++;
            continue;
        }
        int64_t stated = orr_tree_int(orr_tree_get(entry, "computed_params_total"), 0);
        if (stated > 0) {
            uint64_t total = orr_model_count(model).total;
            if (total - (uint64_t)stated != vector_params(model)) {
                fail_msg("%s: %llu, stated %lld, vectors %llu", name, (unsigned long long)total,
                         (long long)stated, (unsigned long long)vector_params(model));
            }
            compared++;
        }
    }
    assert_true(compared >= 100);
    assert_true(unknown <= orr_tree_size(file) / 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(totals_are_exact, set_up, tear_down),
        cmocka_unit_test_setup_teardown(active_parameters_leave_idle_experts_out, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(parts_sum_to_the_total, set_up, tear_down),
        cmocka_unit_test_setup_teardown(configs_agree_with_the_catalog, set_up, tear_down),
        cmocka_unit_test_setup_teardown(configs_of_other_families_have_the_published_totals, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(families_that_are_not_modelled_are_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(families_have_their_traits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(models_survive_being_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(flops_follow_the_published_conventions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_are_forgiving_but_never_guessed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_models_are_refused_with_a_reason, set_up, tear_down),
        cmocka_unit_test_setup_teardown(derived_cards_change_only_what_they_say, set_up, tear_down),
        cmocka_unit_test_setup_teardown(measured_entries_differ_by_vectors_alone, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
