/* Every file of tests/data/scripts and its neighbours, written afresh from what public recipes do,
 * against the keys that it means (NAME.expect.json beside it). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "doc/doc.h"
#include "exchange/exchange.h"
#include "exchange/exchange_int.h"
#include "exchange/foreign.h"

static const char *json(orr_arena *arena, const orr_tree *node) {
    orr_text text = orr_text_new(arena, 1 << 20);
    orr_json_write(&text, node, true);
    return orr_text_done(&text);
}

/* The import as expectations state it: names where prose may change, everything else whole. */
static orr_tree *summary(orr_arena *arena, const orr_import *import) {
    orr_tree *out = orr_tree_new_map(arena);
    orr_tree_put_text(arena, out, "format", import->format);
    orr_tree *keys = orr_tree_put(arena, out, "keys", orr_tree_new_map(arena));
    for (size_t i = 0; i < orr_tree_size(import->keys); i++) {
        orr_tree_put(arena, keys, orr_tree_key(import->keys, i),
                     orr_tree_copy(arena, orr_tree_at(import->keys, i)));
    }
    orr_tree *assumed = orr_tree_put(arena, out, "assumed", orr_tree_new_list(arena));
    for (size_t i = 0; i < orr_tree_size(import->assumed); i++) {
        const orr_tree *entry = orr_tree_at(import->assumed, i);
        const char *text =
            orr_arena_format(arena, "%s=%s", orr_tree_text(orr_tree_get(entry, "key"), ""),
                             orr_tree_text(orr_tree_get(entry, "value"), ""));
        orr_tree_push(arena, assumed, orr_tree_new_text(arena, text));
    }
    orr_tree *unknown = orr_tree_put(arena, out, "unknown", orr_tree_new_list(arena));
    for (size_t i = 0; i < orr_tree_size(import->unknown); i++) {
        const orr_tree *entry = orr_tree_at(import->unknown, i);
        const char *text = orr_arena_format(
            arena, "%lld %s%s", (long long)orr_tree_int(orr_tree_get(entry, "line"), -1),
            orr_tree_text(orr_tree_get(entry, "name"), ""),
            orr_tree_bool(orr_tree_get(entry, "matters"), false) ? "" : " (harmless)");
        orr_tree_push(arena, unknown, orr_tree_new_text(arena, text));
    }
    orr_tree *warnings = orr_tree_put(arena, out, "warnings", orr_tree_new_list(arena));
    for (size_t i = 0; i < orr_tree_size(import->warnings); i++) {
        const orr_tree *line = orr_tree_get(orr_tree_at(import->warnings, i), "line");
        orr_tree_push(arena, warnings, orr_tree_new_int(arena, orr_tree_int(line, -1)));
    }
    return out;
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Compares one file with what stands beside it; rewrites that when asked to. */
static bool check_file(const char *path) {
    orr_arena *arena = orr_arena_new();
    orr_import import;
    orr_err err = {0};
    if (orr_import_file(arena, path, &import, &err) != ORR_OK) {
        fail_msg("%s: %s", path, err.message);
    }
    const char *got = json(arena, summary(arena, &import));
    const char *where = orr_arena_format(arena, "%s.expect.json", path);
    bool rewrite = getenv("ORR_UPDATE_EXPECTED") != NULL; /* then read the difference */
    if (rewrite) {
        FILE *file = fopen(where, "w");
        assert_non_null(file);
        (void)fprintf(file, "%s\n", got);
        (void)fclose(file);
    }
    char *expected = NULL;
    size_t length;
    if (orr_file_read(arena, where, &expected, &length, &err) != ORR_OK) {
        fail_msg("%s: %s", where, err.message);
    }
    expected[length > 0 ? length - 1 : 0] = '\0';
    if (strcmp(got, expected) != 0) {
        print_error("%s means\n%s\n", path, got);
    }
    assert_string_equal(got, expected);
    orr_arena_free(arena);
    return !rewrite;
}

static void check_folder(const char *folder, size_t least) {
    struct dirent **entries;
    char path[1024];
    (void)snprintf(path, sizeof path, ORR_TEST_DIR "/data/%s", folder);
    int count = scandir(path, &entries, NULL, alphasort);
    assert_true(count > 0);
    size_t checked = 0;
    bool compared = true;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (strchr(name, '.') > name && !ends_with(name, ".expect.json")) {
            (void)snprintf(path, sizeof path, ORR_TEST_DIR "/data/%s/%s", folder, name);
            compared = check_file(path) && compared;
            checked++;
        }
        free(entries[i]);
    }
    free(entries);
    assert_true(checked >= least);
    assert_true(compared);
}

static void scripts_mean_what_is_expected(void **state) {
    (void)state;
    check_folder("scripts", 23);
}

static void primus_files_mean_what_is_expected(void **state) {
    (void)state;
    check_folder("primus", 5);
}

static void other_formats_mean_what_is_expected(void **state) {
    (void)state;
    check_folder("foreign", 54);
}

/* Files of a folder whose expectation is of a format, or of formats joined by "+" with it. */
static size_t count_format(const char *folder, const char *format) {
    struct dirent **entries;
    char path[1024];
    size_t found = 0;
    (void)snprintf(path, sizeof path, ORR_TEST_DIR "/data/%s", folder);
    int count = scandir(path, &entries, NULL, alphasort);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (ends_with(name, ".expect.json")) {
            orr_arena *arena = orr_arena_new();
            orr_tree *tree;
            (void)snprintf(path, sizeof path, ORR_TEST_DIR "/data/%s/%s", folder, name);
            assert_int_equal(orr_doc_read_file(arena, path, &tree, NULL), ORR_OK);
            const char *own = orr_tree_text(orr_tree_get(tree, "format"), "");
            found += strstr(own, format) != NULL;
            orr_arena_free(arena);
        }
        free(entries[i]);
    }
    free(entries);
    return found;
}

static void every_format_has_five_files(void **state) {
    (void)state;
    static const char *const formats[] = {
        "megatron-script", "megatron-yaml", "primus",         "megatron-bridge", "nemo2",
        "nemo1",           "torchtitan",    "deepspeed-json", "accelerate-yaml", "trl-yaml",
        "axolotl-yaml",    "llamafactory",  "nanotron-yaml",  "llm-foundry",     "maxtext"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        size_t found = count_format("scripts", formats[i]) + count_format("primus", formats[i]) +
                       count_format("foreign", formats[i]);
        if (found < 5) {
            fail_msg("%s: %zu files", formats[i], found);
        }
    }
}

static orr_import import_of(orr_arena *arena, const char *name, const char *text) {
    orr_import import;
    orr_err err = {0};
    if (orr_import_text(arena, name, text, strlen(text), &import, &err) != ORR_OK) {
        fail_msg("%s", err.message);
    }
    return import;
}

static const char *key(const orr_import *import, const char *path) {
    return orr_tree_text(orr_tree_path(import->keys, path), "");
}

static int64_t number(const orr_import *import, const char *path) {
    return orr_tree_int(orr_tree_path(import->keys, path), -1);
}

#define BASE                                                                                       \
    "torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "   \
    "--num-attention-heads 32 --vocab-size 32000 --seq-length 4096 --micro-batch-size 1 --bf16 "

static void recompute_follows_its_three_arguments(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"", "none"},
        {"--recompute-activations", "selective:core_attn"},
        {"--recompute-granularity selective --recompute-modules core_attn moe_act",
         "selective:core_attn+moe_act"},
        {"--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
         "full"},
        {"--recompute-granularity full --recompute-method uniform --recompute-num-layers 4",
         "uniform:4"},
        {"--recompute-granularity full --recompute-method block --recompute-num-layers 3",
         "block:3"},
        {"--recompute-granularity full --recompute-method block --recompute-num-layers 0", "none"},
        {"--recompute-granularity $HOW", "unknown"},
        {"--recompute-granularity full --recompute-num-layers $N", "unknown"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        orr_arena *arena = orr_arena_new();
        orr_import import =
            import_of(arena, "t.sh", orr_arena_format(arena, BASE "%s\n", rows[i][0]));
        assert_string_equal(key(&import, "recompute"), rows[i][1]);
        orr_arena_free(arena);
    }
}

static void numbers_follow_their_flags(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {"", "precision", "bf16"},
        {"--fp8-format hybrid", "precision", "fp8"},
        {"--fp8-format e4m3 --fp8-recipe mxfp8", "precision", "fp8_mx"},
        {"--fp8-hybrid --fp8-recipe tensorwise", "precision", "fp8_cs"},
        {"--fp4-format e2m1", "precision", "nvfp4"},
        {"", "grad_dtype", "fp32"},
        {"--grad-reduce-in-bf16", "grad_dtype", "bf16"},
        {"--accumulate-allreduce-grads-in-fp32", "grad_dtype", "fp32"},
        {"--use-precision-aware-optimizer --main-grads-dtype bf16", "grad_dtype", "bf16"},
        {"", "sharding", "none"},
        {"--use-distributed-optimizer", "sharding", "zero1"},
        {"--use-torch-fsdp2", "sharding", "fsdp2"},
        {"--use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward", "sharding", "zero2"},
        {"--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads", "sharding", "zero2"},
        {"--use-megatron-fsdp", "sharding", "zero3"},
        {"", "attention", "flash"},
        {"--attention-backend unfused", "attention", "unfused"},
        {"--transformer-impl local", "attention", "unfused"},
        {"--transformer-impl local --use-flash-attn", "attention", "flash"},
        {"--cross-entropy-loss-fusion", "loss", "native"},
        {"--cross-entropy-loss-fusion --cross-entropy-fusion-impl te", "loss", "te"},
        {"--hidden-dropout 0", "dropout", "attention"},
        {"--optimizer muon", "optimizer", "muon"},
        {"--optimizer muon", "sharding", "none"},
        {"--optimizer dist_muon", "optimizer", "muon"},
        {"--optimizer dist_muon", "sharding", "zero1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        orr_arena *arena = orr_arena_new();
        orr_import import =
            import_of(arena, "t.sh", orr_arena_format(arena, BASE "%s\n", rows[i][0]));
        if (strcmp(key(&import, rows[i][1]), rows[i][2]) != 0) {
            print_error("%s: %s\n", rows[i][0], rows[i][1]);
        }
        assert_string_equal(key(&import, rows[i][1]), rows[i][2]);
        orr_arena_free(arena);
    }
}

static void attention_in_fp8_is_a_key(void **state) {
    (void)state;
    static const char *const rows[] = {"--fp8-format hybrid --fp8-dot-product-attention",
                                       "--fp8-format hybrid --fp8-multi-head-attention",
                                       "--fp8-format hybrid"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        orr_arena *arena = orr_arena_new();
        orr_import import = import_of(arena, "t.sh", orr_arena_format(arena, BASE "%s\n", rows[i]));
        const orr_tree *value = orr_tree_get(import.keys, "fp8_attention");
        assert_int_equal(orr_tree_bool(value, false), i < 2);
        orr_arena_free(arena);
    }
}

/* Transformer Engine's backward stays in 16 bits by its environment alone. */
static void attention_goes_back_in_16_bits(void **state) {
    (void)state;
    static const char LOW[] = "--fp8-format hybrid --fp8-dot-product-attention";
    static const struct {
        const char *before, *arguments;
        bool wide;
    } rows[] = {{"export NVTE_FP8_DPA_BWD=0\n", LOW, true},
                {"NVTE_FP8_DPA_BWD=0\nexport NVTE_FP8_DPA_BWD\n", LOW, true},
                {"export NVTE_FP8_DPA_BWD=1\n", LOW, false},
                {"", LOW, false},
                {"export NVTE_FP8_DPA_BWD=0\n", "--fp8-format hybrid", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        orr_arena *arena = orr_arena_new();
        orr_import import =
            import_of(arena, "t.sh",
                      orr_arena_format(arena, "%s" BASE "%s\n", rows[i].before, rows[i].arguments));
        const orr_tree *value = orr_tree_get(import.keys, "fp8_attention_backward");
        assert_int_equal(value != NULL && !orr_tree_bool(value, true), rows[i].wide);
        orr_arena_free(arena);
    }
}

static void virtual_stages_come_from_either_argument(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t vpp;
    } rows[] = {
        {"--pipeline-model-parallel-size 4", 1},
        {"--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2", 4},
        {"--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 8", 8},
        {"--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'Et*4|(t*4|)*6t*4L'",
         2},
        {"--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3", -1},
        {"--pipeline-model-parallel-size 2 --account-for-embedding-in-pipeline-split "
         "--account-for-loss-in-pipeline-split --num-layers-per-virtual-pipeline-stage 1",
         17},
        {"--pipeline-model-parallel-size 1", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        orr_arena *arena = orr_arena_new();
        orr_import import =
            import_of(arena, "t.sh", orr_arena_format(arena, BASE "%s\n", rows[i].text));
        assert_int_equal(number(&import, "vpp"), rows[i].vpp);
        orr_arena_free(arena);
    }
}

static void the_last_of_repeated_arguments_holds(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_import import = import_of(arena, "t.sh",
                                  BASE "--global-batch-size 8 "
                                       "--global-batch-size=16\n");
    assert_int_equal(number(&import, "gbs"), 16);
    import = import_of(arena, "t.sh", BASE "--global-batch-size 8 --global-batch-size $G\n");
    assert_int_equal(number(&import, "gbs"), -1);
    orr_arena_free(arena);
}

/* A setting that no table names is never passed over: in every format, and in every section that
 * may change speed or memory. */
static void unknown_settings_are_never_passed_over(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"a.yaml", "train: {micro_batch_size: 1}\nmodel: {seq_length: 1}\n", "zzz_size"},
        {"a.yaml", "train: {micro_batch_size: 1}\nmodel: {zzz_size: 4}\n", "model.zzz_size"},
        {"a.yaml", "train: {micro_batch_size: 1}\nddp: {zzz_size: 4}\n", "ddp.zzz_size"},
        {"a.yaml", "train: {micro_batch_size: 1}\nddp: {}\nmixed_precision: {zzz_size: 4}\n",
         "mixed_precision.zzz_size"},
        {"a.yaml", "train: {micro_batch_size: 1}\nddp: {}\ncomm_overlap: {zzz_size: 4}\n",
         "comm_overlap.zzz_size"},
        {"a.yaml", "trainer: {strategy: {tensor_model_parallel_size: 1, zzz_size: 4}}\ndata: {}\n",
         "trainer.strategy.zzz_size"},
        {"a.yaml",
         "trainer: {devices: 8}\nmodel: {micro_batch_size: 1, encoder_seq_length: 1, "
         "zzz_size: 4}\n",
         "model.zzz_size"},
        {"a.yaml", "modules: {pre_trainer: {overrides: {zzz_size: 4}}}\n", "zzz_size"},
        {"a.toml",
         "[model]\nflavor = \"8B\"\n[training]\nseq_len = 1\n[parallelism]\nzzz_size = 4\n",
         "parallelism.zzz_size"},
        {"a.json", "{\"zero_optimization\": {\"stage\": 3, \"zzz_size\": 4}}",
         "zero_optimization.zzz_size"},
        {"a.yaml", "distributed_type: FSDP\nfsdp_config: {zzz_size: 4}\n", "fsdp_config.zzz_size"},
        {"a.yaml", "tokens: {micro_batch_size: 1}\nparallelism: {tp: 1, zzz_size: 4}\n",
         "parallelism.zzz_size"},
        {"a.yaml", "model_name_or_path: a\nlearning_rate: 1\nzzz_size: 4\n", "zzz_size"},
        {"a.yaml", "base_model: a\nmicro_batch_size: 1\nzzz_size: 4\n", "zzz_size"},
        {"a.yaml", "model_name_or_path: a\nfinetuning_type: full\nzzz_size: 4\n", "zzz_size"},
        {"a.yaml", "model: {name: a, zzz_size: 4}\nglobal_train_batch_size: 1\n", "model.zzz_size"},
        {"a.yaml", "per_device_batch_size: 1\nremat_policy: full\nzzz_size: 4\n", "zzz_size"},
        {"a.yaml", "num_layers: 1\nhidden_size: 1\nseq_length: 1\nzzz_size: 4\n", "zzz_size"},
        {"a.sh", "torchrun pretrain_gpt.py --num-layers 1 --hidden-size 8 --zzz-size 4\n",
         "--zzz-size"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_arena *arena = orr_arena_new();
        const char *text =
            i == 0 ? orr_arena_format(arena, "%szzz_size: 4\n", cases[i][1]) : cases[i][1];
        orr_import import = import_of(arena, cases[i][0], text);
        bool found = false;
        for (size_t k = 0; k < orr_tree_size(import.unknown); k++) {
            const orr_tree *one = orr_tree_at(import.unknown, k);
            found =
                found || (strcmp(orr_tree_text(orr_tree_get(one, "name"), ""), cases[i][2]) == 0 &&
                          orr_tree_bool(orr_tree_get(one, "matters"), false));
        }
        if (!found) {
            fail_msg("%s of %s is passed over (%s)", cases[i][2], text, import.format);
        }
        orr_arena_free(arena);
    }
}

/* Two spellings of one setting that differ, and sizes that cannot both be: said, with both values.
 */
static void contradictions_are_said(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"a.sh",
         "torchrun pretrain_gpt.py --num-layers 1 --hidden-size 8 --seq-length 1024 "
         "--encoder-seq-length 2048\n",
         "contradicts"},
        {"a.sh", "torchrun pretrain_gpt.py --num-layers 1 --hidden-size 8 --bf16 --fp16\n",
         "bf16 and"},
        {"a.sh",
         "torchrun pretrain_gpt.py --num-layers 1 --hidden-size 8 --bf16 "
         "--grad-reduce-in-bf16 --accumulate-allreduce-grads-in-fp32\n",
         "contradict"},
        {"a.toml",
         "[model]\nflavor = \"8B\"\n[training]\nseq_len = 1\nbatch_size = 1\n"
         "local_batch_size = 2\n",
         "contradict"},
        {"a.yaml", "model_name_or_path: a\nlearning_rate: 1\nmax_length: 1\nmax_seq_length: 2\n",
         "line 3 said 1"},
        {"a.yaml", "base_model: a\nmicro_batch_size: 1\nadapter: qlora\nlora_r: 8\n", "contradict"},
        {"a.yaml",
         "base_model: a\nmicro_batch_size: 1\nadapter: lora\nlora_r: 8\nload_in_4bit: true\n"
         "load_in_8bit: true\n",
         "load_in_8bit contradict"},
        {"a.yaml",
         "base_model: a\nmicro_batch_size: 1\ndeepspeed: zero2.json\nfsdp:\n  - full_shard\n",
         "deepspeed and fsdp contradict"},
        {"a.sh",
         "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\n"
         "torchrun --nnodes 2 --nproc_per_node=4 pretrain_gpt.py --num-layers 1 --hidden-size 8\n",
         "asks for 8 GPUs"},
        {"a.yaml",
         "trainer:\n  num_nodes: 1\n  devices: 8\n  precision: 17\nmodel:\n"
         "  micro_batch_size: 1\n  tensor_model_parallel_size: 1\n  num_layers: 1\n"
         "  hidden_size: 8\n",
         "17 is not understood"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_arena *arena = orr_arena_new();
        orr_import import = import_of(arena, cases[i][0], cases[i][1]);
        bool found = false;
        for (size_t k = 0; k < orr_tree_size(import.warnings); k++) {
            const orr_tree *message = orr_tree_get(orr_tree_at(import.warnings, k), "message");
            found = found || strstr(orr_tree_text(message, ""), cases[i][2]) != NULL;
        }
        if (!found) {
            fail_msg("nothing is said of %s", cases[i][1]);
        }
        orr_arena_free(arena);
    }
}

/* The file with its lines edited as the changes say; NULL: one of them cannot be made in place. */
static const char *edited(orr_arena *arena, const char *text, const orr_tree *changes) {
    for (size_t i = 0; i < orr_tree_size(changes); i++) {
        const orr_tree *one = orr_tree_at(changes, i);
        const char *before = orr_tree_text(orr_tree_get(one, "before"), "");
        const char *now = orr_tree_text(orr_tree_get(one, "now"), "");
        const char *at = text;
        for (int64_t line = orr_tree_int(orr_tree_get(one, "line"), 0); line > 1; line--) {
            at = strchr(at, '\n') + 1;
        }
        const char *found = before[0] != '\0' ? strstr(at, before) : NULL;
        if (found == NULL || (size_t)(found - at) > strcspn(at, "\n")) {
            return NULL;
        }
        text = orr_arena_format(arena, "%.*s%s%s", (int)(found - text), text, now,
                                found + strlen(before));
    }
    return text;
}

/* Making the changes makes the file mean the plan that was asked for, and nothing else moves. */
static void changes_do_what_they_say(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"foreign/nanotron-llama.yaml", "tp", "2"},
        {"foreign/nanotron-llama.yaml", "recompute", "full"},
        {"foreign/torchtitan-405b.toml", "tp", "4"},
        {"foreign/ds-zero3.json", "sharding", "zero2"},
        {"foreign/bridge-llama3-70b-fp8.yaml", "tp", "8"},
        {"foreign/bridge-llama3-70b-fp8.yaml", "vpp", "10"},
        {"foreign/bridge-llama3-70b-fp8.yaml", "precision", "bf16"},
        {"primus/zero-bubble.yaml", "mbs", "2"},
        {"scripts/megatron-yaml-flat.yaml", "seq", "512"},
        {"scripts/megatron-yaml-mixtral.yaml", "ep", "4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_arena *arena = orr_arena_new();
        orr_import input, output;
        orr_err err = {0};
        const orr_tree *changes = NULL;
        char *text;
        size_t length;
        const char *path = orr_arena_format(arena, ORR_TEST_DIR "/data/%s", cases[i][0]);
        assert_int_equal(orr_import_file(arena, path, &input, &err), ORR_OK);
        orr_tree *keys = orr_tree_copy(arena, input.keys);
        int64_t number;
        if (orr_parse_int(cases[i][2], &number)) {
            orr_tree_put_int(arena, keys, cases[i][1], number);
        } else {
            orr_tree_put_text(arena, keys, cases[i][1], cases[i][2]);
        }
        if (orr_tree_get(keys, "gbs") != NULL) { /* from the degrees, as orr_plan_merge has it */
            orr_tree_put(arena, keys, "dp", orr_tree_null(arena));
            orr_tree_put(arena, keys, "micro_batches", orr_tree_null(arena));
        }
        assert_int_equal(orr_export_changes(arena, path, &input, keys, &changes, &err), ORR_OK);
        assert_true(orr_tree_size(changes) > 0);
        assert_int_equal(orr_file_read(arena, path, &text, &length, &err), ORR_OK);
        const char *after = edited(arena, text, changes);
        if (after == NULL) {
            fail_msg("%s: %s is not made in place: %s", cases[i][0], cases[i][1],
                     json(arena, changes));
        }
        assert_int_equal(orr_import_text(arena, path, after, strlen(after), &output, &err), ORR_OK);
        for (size_t k = 0; k < orr_tree_size(keys); k++) {
            const char *key = orr_tree_key(keys, k);
            const char *want = json(arena, orr_tree_at(keys, k));
            const char *got = json(arena, orr_tree_get(output.keys, key));
            bool kept = strcmp(want, "null") != 0 && strcmp(key, "software") != 0;
            if (kept && strcmp(want, got) != 0) {
                fail_msg("%s with %s = %s: %s is %s, not %s", cases[i][0], cases[i][1], cases[i][2],
                         key, got, want);
            }
        }
        orr_arena_free(arena);
    }
}

/* A default that changed follows the release, and is listed with the releases when none is given.
 */
static void defaults_follow_the_release(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    bool differs;
    static const char changed[] = "a<0.9 b<0.16 c";
    assert_string_equal(orr_default_of(arena, changed, "0.8.1", &differs), "a");
    assert_true(differs);
    assert_string_equal(orr_default_of(arena, changed, "core_v0.9.0", &differs), "b");
    assert_string_equal(orr_default_of(arena, changed, "0.16", &differs), "c");
    assert_string_equal(orr_default_of(arena, changed, NULL, &differs), "c");
    assert_string_equal(orr_default_of(arena, "always", "0.1", &differs), "always");
    assert_false(differs);
    orr_arena_free(arena);
}

static void unknown_arguments_are_listed(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_import import = import_of(arena, "t.sh",
                                  BASE "\\\n--fancy-kernel on --my-log-dir /x "
                                       "--tp-comm-overlap-rs-dgrad\n");
    assert_int_equal(orr_tree_size(import.unknown), 3);
    const orr_tree *first = orr_tree_at(import.unknown, 0);
    assert_string_equal(orr_tree_text(orr_tree_get(first, "name"), ""), "--fancy-kernel");
    assert_int_equal(orr_tree_int(orr_tree_get(first, "line"), 0), 2);
    assert_true(orr_tree_bool(orr_tree_get(first, "matters"), false));
    const orr_tree *second = orr_tree_at(import.unknown, 1);
    assert_false(orr_tree_bool(orr_tree_get(second, "matters"), true));
    assert_true(orr_tree_bool(orr_tree_get(orr_tree_at(import.unknown, 2), "matters"), false));
    orr_arena_free(arena);
}

static void keys_know_their_place(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_import import = import_of(arena, "dir/t.sh",
                                  "TP=2\n" BASE "\\\n"
                                  " --tensor-model-parallel-size $TP\n");
    orr_span span = orr_tree_span(orr_tree_get(import.keys, "tp"));
    assert_string_equal(span.file, "dir/t.sh");
    assert_int_equal(span.line, 3);
    assert_int_equal(orr_tree_span(orr_tree_path(import.keys, "model.hidden")).line, 2);
    orr_arena_free(arena);
}

static void launchers_give_the_number_of_gpus(void **state) {
    (void)state;
#define TAIL " pretrain_gpt.py --num-layers 2 --hidden-size 8 --num-attention-heads 2\n"
    static const struct {
        const char *text;
        int64_t nodes, gpus;
    } rows[] = {
        {"torchrun --nproc_per_node=8 --nnodes=4" TAIL, 4, 32},
        {"torchrun --nproc-per-node 4" TAIL, 1, 4},
        {"python3 -m torch.distributed.run --nnodes 2 --nproc_per_node 8" TAIL, 2, 16},
        {"python -m torch.distributed.launch --nproc_per_node 8" TAIL, 1, 8},
        {"mpirun -np 16 -x PATH python" TAIL, -1, 16},
        {"srun -N 2 --ntasks-per-node=8 python -u" TAIL, 2, 16},
        {"srun -N 4 --ntasks-per-node=1 torchrun --nnodes 4 --nproc_per_node 8" TAIL, 4, 32},
        {"deepspeed --num_nodes 2 --num_gpus 8" TAIL, 2, 16},
        {"#SBATCH -N 3\n#SBATCH --gpus-per-node=h100:8\nsrun python" TAIL, 3, 24},
        {"#SBATCH --nodes 2\n#SBATCH --gres=gpu:4\n"
         "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node $SLURM_GPUS_ON_NODE" TAIL,
         2, 8},
        {"torchrun --nproc_per_node gpu" TAIL, 1, -1},
        {"torchrun --nnodes 1:4 --nproc_per_node 8" TAIL, -1, -1},
        {"python" TAIL, -1, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        orr_arena *arena = orr_arena_new();
        orr_import import = import_of(arena, "t.sh", rows[i].text);
        if (number(&import, "nodes") != rows[i].nodes || number(&import, "gpus") != rows[i].gpus) {
            print_error("%s", rows[i].text);
        }
        assert_int_equal(number(&import, "nodes"), rows[i].nodes);
        assert_int_equal(number(&import, "gpus"), rows[i].gpus);
        assert_true(rows[i].gpus > 0 || orr_tree_size(import.warnings) > 0);
        orr_arena_free(arena);
    }
}

static void own_plans_pass_through(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_import import = import_of(arena, "p.yaml", "model: llama-3.1-8b\ntp: 2\ngpus: 8\n");
    assert_string_equal(import.format, "plan");
    assert_int_equal(number(&import, "tp"), 2);
    import = import_of(arena, NULL, "{\"model\": {\"layers\": 2}, \"pp\": 4}");
    assert_string_equal(import.format, "plan");
    assert_int_equal(number(&import, "model.layers"), 2);
    orr_arena_free(arena);
}

static void what_is_neither_is_an_error(void **state) {
    (void)state;
    static const char *const texts[] = {"#!/bin/bash\necho hello\n", "[1, 2]", "just text\n", ""};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        orr_arena *arena = orr_arena_new();
        orr_import import;
        orr_err err = {0};
        orr_status status = orr_import_text(arena, "x", texts[i], strlen(texts[i]), &import, &err);
        assert_int_not_equal(status, ORR_OK);
        assert_true(err.message[0] != '\0');
        orr_arena_free(arena);
    }
    orr_import import;
    orr_err err = {0};
    orr_arena *arena = orr_arena_new();
    assert_int_equal(orr_import_file(arena, "/no/such/file.sh", &import, &err), ORR_E_IO);
    orr_arena_free(arena);
}

static void layer_patterns_expand(void **state) {
    (void)state;
    uint8_t out[64];
    size_t count;
    assert_true(orr_pattern_expand("([0]*2+[1,1,0])*2", out, 64, &count));
    assert_int_equal(count, 10);
    static const uint8_t expected[] = {0, 0, 1, 1, 0, 0, 0, 1, 1, 0};
    assert_memory_equal(out, expected, 10);
    assert_false(orr_pattern_expand("[0]*65", out, 64, &count));
    assert_false(orr_pattern_expand("__import__('os')", out, 64, &count));
    assert_false(orr_pattern_expand("[0]*2+", out, 64, &count));
    assert_false(orr_pattern_expand("((((((((((((((((((((((", out, 64, &count));
    assert_false(orr_pattern_expand("", out, 64, &count));
}

static void the_table_of_arguments_is_sound(void **state) {
    (void)state;
    for (size_t i = 0; i < orr_megatron_arg_count; i++) {
        const megatron_arg *arg = &orr_megatron_args[i];
        assert_ptr_equal(orr_megatron_find(arg->name), arg); /* no name twice */
        if (arg->of != NULL) {
            const megatron_arg *of = orr_megatron_find(arg->of);
            assert_non_null(of);
            assert_null(of->of);
        }
        char arity;
        bool matters;
        if (orr_megatron_other(arg->name, &arity, &matters)) {
            fail_msg("--%s is in both tables", arg->name);
        }
    }
    for (size_t i = 0; i < orr_megatron_quiet_count; i++) {
        assert_non_null(strchr("01n", orr_megatron_quiet[i][0]));
        assert_non_null(strchr("!.", orr_megatron_quiet[i][1]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts_mean_what_is_expected),
        cmocka_unit_test(primus_files_mean_what_is_expected),
        cmocka_unit_test(other_formats_mean_what_is_expected),
        cmocka_unit_test(every_format_has_five_files),
        cmocka_unit_test(recompute_follows_its_three_arguments),
        cmocka_unit_test(numbers_follow_their_flags),
        cmocka_unit_test(attention_in_fp8_is_a_key),
        cmocka_unit_test(attention_goes_back_in_16_bits),
        cmocka_unit_test(virtual_stages_come_from_either_argument),
        cmocka_unit_test(the_last_of_repeated_arguments_holds),
        cmocka_unit_test(unknown_arguments_are_listed),
        cmocka_unit_test(unknown_settings_are_never_passed_over),
        cmocka_unit_test(contradictions_are_said),
        cmocka_unit_test(changes_do_what_they_say),
        cmocka_unit_test(defaults_follow_the_release),
        cmocka_unit_test(keys_know_their_place),
        cmocka_unit_test(launchers_give_the_number_of_gpus),
        cmocka_unit_test(own_plans_pass_through),
        cmocka_unit_test(what_is_neither_is_an_error),
        cmocka_unit_test(layer_patterns_expand),
        cmocka_unit_test(the_table_of_arguments_is_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
