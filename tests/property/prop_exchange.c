/* What Megatron-LM can be told comes back as it went out; what is random never breaks the reader.
 */
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

#include "base/rng.h"
#include "doc/doc.h"
#include "exchange/exchange.h"

enum { ROUNDS = 3000 };

static orr_arena *arena;
static orr_rng rng;

static bool chance(void) {
    return orr_rng_below(&rng, 2) != 0;
}
static int64_t power(uint32_t most) {
    return (int64_t)1 << orr_rng_below(&rng, most + 1);
}
static const char *pick(const char *const *words, size_t count) {
    return words[orr_rng_below(&rng, (uint32_t)count)];
}
#define PICK(...)                                                                                  \
    pick((const char *const[]){__VA_ARGS__},                                                       \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void put_text(orr_tree *map, const char *key, const char *value) {
    orr_tree_put_text(arena, map, key, value);
}
static void put_int(orr_tree *map, const char *key, int64_t value) {
    orr_tree_put_int(arena, map, key, value);
}
static void put_flag(orr_tree *map, const char *key, bool value) {
    orr_tree_put_bool(arena, map, key, value);
}

static orr_tree *random_model(bool moe) {
    orr_tree *m = orr_tree_new_map(arena);
    int64_t heads = 16 * power(2);
    put_int(m, "layers", 32);
    put_int(m, "hidden", 1024 * power(3));
    put_int(m, "heads", heads);
    put_int(m, "vocab", 32000 + (int64_t)orr_rng_below(&rng, 100000));
    put_text(m, "norm", PICK("rms", "layer"));
    put_text(m, "position", PICK("rope", "learned", "none"));
    put_flag(m, "tied", chance());
    put_int(m, "max_seq", 8192);
    if (chance()) {
        put_text(m, "attention", "mla");
        put_int(m, "q_lora", 1536);
        put_int(m, "kv_lora", 512);
        put_int(m, "head_dim", 192);
        put_int(m, "rope_dim", 64);
        put_int(m, "v_dim", 128);
        put_text(m, "position", "rope");
    } else {
        put_int(m, "kv_heads", chance() ? heads : 8);
        put_int(m, "head_dim", 64 * power(1));
    }
    if (chance()) {
        put_text(m, "qk_norm", "head");
    }
    bool bias = chance();
    put_flag(m, "bias_qkv", bias || chance());
    put_flag(m, "bias_out", bias);
    put_flag(m, "bias_mlp", bias);
    const char *activation = PICK("silu", "gelu", "relu2");
    put_text(m, "activation", activation);
    put_flag(m, "gated",
             strcmp(activation, "silu") == 0 || (strcmp(activation, "gelu") == 0 && chance()));
    put_int(m, "ffn", 4096 + 128 * (int64_t)orr_rng_below(&rng, 100));
    if (moe) {
        put_int(m, "experts", 8 * power(4));
        put_int(m, "topk", power(3));
        put_int(m, "expert_ffn", 512 * power(3));
        put_text(m, "router", PICK("softmax_after", "softmax_before", "sigmoid"));
        if (chance()) {
            put_int(m, "shared_ffn", 2048);
            put_flag(m, "shared_gate", chance());
        }
    }
    static const char *const patterns[][4] = {
        {"dense*3", "moe*29", NULL, NULL},
        {"moe-windowed*30", "moe*2", NULL, NULL},
        {"dense-windowed*2", "dense*1", "moe*28", "moe-windowed*1"},
        {"dense-windowed*16", "dense*16", NULL, NULL},
    };
    size_t which = orr_rng_below(&rng, 6);
    if (which == 4) {
        put_int(m, "window", 1024);
    }
    if (which < 4 && moe == (which != 3)) {
        orr_tree *kinds = orr_tree_put(arena, m, "kinds", orr_tree_new_map(arena));
        orr_tree *pattern = orr_tree_put(arena, m, "pattern", orr_tree_new_list(arena));
        for (size_t i = 0; i < 4 && patterns[which][i] != NULL; i++) {
            const char *run = patterns[which][i];
            const char *name = orr_arena_copy(arena, run, strcspn(run, "*"));
            orr_tree *kind = orr_tree_put(arena, kinds, name, orr_tree_new_map(arena));
            if (moe && strncmp(name, "dense", 5) == 0) {
                put_int(kind, "experts", 0);
            }
            if (strstr(name, "windowed") != NULL) {
                put_int(kind, "window", 512);
            }
            orr_tree_push(arena, pattern, orr_tree_new_text(arena, run));
        }
    }
    return m;
}

static orr_tree *random_keys(void) {
    orr_tree *k = orr_tree_new_map(arena);
    bool moe = chance();
    int64_t tp = power(3), pp = power(3), cp = power(1);
    int64_t vpp = pp > 1 ? power(2) : 1;
    orr_tree_put(arena, k, "model", random_model(moe));
    put_int(k, "tp", tp);
    put_int(k, "pp", pp);
    put_int(k, "cp", cp);
    put_int(k, "gpus", 1024);
    put_int(k, "nodes", 128);
    put_int(k, "mbs", power(3));
    put_int(k, "gbs", 1024);
    put_int(k, "seq", 4096);
    put_flag(k, "sp", tp > 1 && chance());
    if (pp > 1) {
        put_int(k, "vpp", vpp);
        put_text(k, "schedule", vpp > 1 ? "interleaved" : "1f1b");
    }
    bool blocking = vpp > 1 && chance();
    if (blocking) {
        put_text(k, "p2p", "blocking");
    }
    if (cp > 1) {
        put_text(k, "cp_kind", PICK("ring", "allgather", "a2a"));
    }
    if (moe) {
        put_int(k, "ep", power(3));
        put_int(k, "etp", power(1));
        put_text(k, "dispatch", PICK("alltoall", "allgather", "deepep"));
    }
    const char *precision =
        PICK("bf16", "fp16", "fp8", "fp8_cs", "fp8_mx", "fp8_blockwise", "nvfp4");
    put_text(k, "precision", precision);
    put_text(k, "grad_dtype", PICK("fp32", "bf16"));
    put_text(k, "optimizer", PICK("adam", "muon"));
    put_text(k, "sharding", PICK("none", "zero1", "zero2", "zero3", "fsdp2"));
    orr_tree *overlap = orr_tree_new_list(arena);
    static const char *const kinds[] = {"tp", "dp", "ep"};
    for (size_t i = 0; i < 3; i++) {
        bool there = i == 1 || (i == 0 ? tp > 1 : orr_tree_int(orr_tree_get(k, "ep"), 1) > 1);
        if (there && chance()) {
            orr_tree_push(arena, overlap, orr_tree_new_text(arena, kinds[i]));
        }
    }
    if (vpp > 1 && !blocking) {
        orr_tree_push(arena, overlap, orr_tree_new_text(arena, "pp"));
    }
    if (orr_tree_size(overlap) > 0) {
        orr_tree_put(arena, k, "overlap", overlap);
    } else {
        put_text(k, "overlap", "none");
    }
    put_text(k, "recompute",
             PICK("none", "full", "selective:core_attn", "block:2", "uniform:4",
                  "selective:core_attn+moe_act"));
    put_text(k, "attention", PICK("flash", "unfused"));
    put_text(k, "loss", PICK("native", "te"));
    put_text(k, "dropout", PICK("none", "hidden", "attention", "all"));
    return k;
}

static const char *json(const orr_tree *node) {
    orr_text text = orr_text_new(arena, 1 << 18);
    orr_json_write(&text, node, false);
    return orr_text_done(&text);
}

static void same(const orr_tree *out, const orr_tree *back, const char *where, const char *text) {
    for (size_t i = 0; i < orr_tree_size(out); i++) {
        const char *key = orr_tree_key(out, i);
        const orr_tree *x = orr_tree_at(out, i), *y = orr_tree_get(back, key);
        if (strcmp(key, "model") == 0) {
            same(x, y, "model.", text);
        } else if (strcmp(json(x), json(y)) != 0) {
            fail_msg("%s%s: %s came back as %s\n%s", where, key, json(x), json(y), text);
        }
    }
}

/* Where a plan runs, and what other keys imply: no file holds it. */
static bool is_outside(const char *key) {
    static const char *const names[] = {"gpus", "nodes", "dp", "micro_batches", "gbs"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(key, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Out and back gives the same keys, loses nothing, and a second time the same text. */
static void comes_back(const char *format, const char *file, const orr_tree *keys) {
    orr_export export, again;
    orr_import import;
    orr_err err = {0};
    assert_int_equal(orr_export_plan(arena, format, keys, NULL, &export, &err), ORR_OK);
    if (orr_tree_size(export.lost) > 0) {
        fail_msg("%s lost %s of %s", format, json(export.lost), json(keys));
    }
    orr_text text = orr_text_new(arena, 1 << 18);
    bool script = strcmp(format, "megatron-lm") == 0;
    if (script) {
        orr_text_format(&text, "ARGS=(\n%s)\n%s pretrain_gpt.py \"${ARGS[@]}\"\n", export.text,
                        export.launcher);
    } else {
        orr_text_add(&text, export.text);
    }
    const char *whole = orr_text_done(&text);
    if (orr_import_text(arena, file, whole, strlen(whole), &import, &err) != ORR_OK) {
        fail_msg("%s\n%s", err.message, whole);
    }
    orr_tree *inside = orr_tree_new_map(arena);
    for (size_t i = 0; i < orr_tree_size(keys); i++) {
        if (script || !is_outside(orr_tree_key(keys, i))) {
            orr_tree_put(arena, inside, orr_tree_key(keys, i),
                         orr_tree_copy(arena, orr_tree_at(keys, i)));
        }
    }
    same(inside, import.keys, "", whole);
    /* the import's own keys are a fixed point, once they are told where they run */
    static const char *const kept[] = {"gpus", "nodes"};
    orr_tree *back = orr_tree_copy(arena, import.keys);
    for (size_t i = 0; i < 2; i++) {
        orr_tree_put(arena, back, kept[i], orr_tree_copy(arena, orr_tree_get(keys, kept[i])));
    }
    assert_int_equal(orr_export_plan(arena, format, back, NULL, &again, &err), ORR_OK);
    assert_string_equal(again.text, export.text);
}

static void exports_come_back(void **state) {
    (void)state;
    rng.state = 7;
    for (int i = 0; i < ROUNDS; i++) {
        arena = orr_arena_new();
        comes_back("megatron-lm", "t.sh", random_keys());
        orr_arena_free(arena);
    }
}

static void dialects_come_back(void **state) {
    (void)state;
    rng.state = 8;
    for (int i = 0; i < ROUNDS / 4; i++) {
        arena = orr_arena_new();
        comes_back("primus", "t.yaml", random_keys());
        comes_back("megatron-bridge", "t.yaml", random_keys());
        orr_arena_free(arena);
    }
}

/* Degrees that 64 devices hold, and a batch for them. */
static orr_tree *small_split(bool context) {
    orr_tree *k = orr_tree_new_map(arena);
    int64_t tp = power(2), pp = power(1), cp = context ? power(1) : 1;
    int64_t dp = 64 / (tp * pp * cp), mbs = power(2), steps = power(3);
    put_int(k, "gpus", 64);
    put_int(k, "nodes", 8);
    put_int(k, "tp", tp);
    put_int(k, "pp", pp);
    put_int(k, "cp", cp);
    put_int(k, "mbs", mbs);
    put_int(k, "micro_batches", steps);
    put_int(k, "gbs", dp * mbs * steps);
    put_int(k, "seq", 1024 * power(4));
    put_text(k, "grad_dtype", PICK("fp32", "bf16"));
    return k;
}

static void put_overlap(orr_tree *k, bool async) {
    orr_tree *list = orr_tree_put(arena, k, "overlap", orr_tree_new_list(arena));
    orr_tree_push(arena, list, orr_tree_new_text(arena, "dp"));
    if (async) {
        orr_tree_push(arena, list, orr_tree_new_text(arena, "tp"));
    }
}

static orr_tree *titan_keys(void) {
    orr_tree *k = small_split(true);
    int64_t tp = orr_tree_int(orr_tree_get(k, "tp"), 1),
            pp = orr_tree_int(orr_tree_get(k, "pp"), 1);
    int64_t cp = orr_tree_int(orr_tree_get(k, "cp"), 1), dp = 64 / (tp * pp * cp);
    put_text(k, "model", PICK("llama-3.1-8b", "llama-3.1-70b", "qwen3-32b", "deepseek-v3"));
    bool hybrid = dp >= 4 && chance();
    const char *kind = hybrid   ? "hsdp"
                       : cp > 1 ? PICK("fsdp2", "zero2")
                                : PICK("fsdp2", "zero2", "none");
    put_text(k, "sharding", kind);
    if (hybrid) {
        put_int(k, "shard_group", dp / 2 * cp);
    }
    if (tp > 1) {
        put_flag(k, "sp", true);
    }
    if (cp > 1) {
        put_text(k, "cp_kind", PICK("allgather", "ring"));
    }
    if (pp > 1) {
        static const char *const schedules[][2] = {
            {"1f1b", "1"}, {"gpipe", "1"}, {"interleaved", "2"}, {"zbv", "2"}, {"dualpipev", "2"}};
        size_t which = orr_rng_below(&rng, 5);
        put_text(k, "schedule", schedules[which][0]);
        put_int(k, "vpp", schedules[which][1][0] - '0');
    }
    put_text(k, "precision", PICK("bf16", "fp8_cs", "fp8_mx"));
    put_text(k, "optimizer", PICK("adam", "muon"));
    put_text(k, "recompute", PICK("none", "full", "selective:sac"));
    put_overlap(k, tp > 1 && chance());
    return k;
}

static orr_tree *nanotron_keys(void) {
    orr_tree *k = small_split(true);
    orr_tree *m = orr_tree_put(arena, k, "model", orr_tree_new_map(arena));
    static const char *const sizes[][2] = {
        {"layers", "num_hidden_layers"},       {"hidden", "hidden_size"},
        {"ffn", "intermediate_size"},          {"heads", "num_attention_heads"},
        {"kv_heads", "num_key_value_heads"},   {"vocab", "vocab_size"},
        {"max_seq", "max_position_embeddings"}};
    static const int64_t values[] = {32, 4096, 14336, 32, 8, 128256, 8192};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        put_int(m, sizes[i][0], values[i]);
    }
    put_text(k, "precision", PICK("bf16", "fp16"));
    put_text(k, "optimizer", PICK("adam", "muon"));
    put_text(k, "sharding", PICK("none", "zero1"));
    put_text(k, "schedule", PICK("1f1b", "gpipe"));
    put_text(k, "sp", PICK("on", "off"));
    put_text(k, "recompute", PICK("none", "full"));
    put_overlap(k, orr_tree_int(orr_tree_get(k, "tp"), 1) > 1 && chance());
    return k;
}

static orr_tree *deepspeed_keys(void) {
    orr_tree *k = small_split(false);
    put_int(k, "pp", 1);
    orr_tree_put(arena, k, "cp", orr_tree_null(arena));
    orr_tree_put(arena, k, "seq", orr_tree_null(arena));
    int64_t dp = 64 / orr_tree_int(orr_tree_get(k, "tp"), 1);
    put_int(k, "gbs",
            dp * orr_tree_int(orr_tree_get(k, "mbs"), 1) *
                orr_tree_int(orr_tree_get(k, "micro_batches"), 1));
    put_text(k, "precision", PICK("bf16", "fp16"));
    put_text(k, "optimizer", PICK("adam", "adam8bit", "muon"));
    put_text(k, "sharding", PICK("none", "zero1", "zero2", "zero3"));
    put_text(k, "overlap", PICK("dp", "none"));
    put_text(k, "recompute", "unknown");
    return k;
}

/* Keys that are null or of the model are another matter (a card is written as a configuration). */
static orr_tree *without(const orr_tree *keys, const char *name) {
    orr_tree *out = orr_tree_new_map(arena);
    for (size_t i = 0; i < orr_tree_size(keys); i++) {
        const orr_tree *value = orr_tree_at(keys, i);
        if (orr_tree_kind_of(value) != ORR_TREE_NULL && strcmp(orr_tree_key(keys, i), name) != 0) {
            orr_tree_put(arena, out, orr_tree_key(keys, i), orr_tree_copy(arena, value));
        }
    }
    return out;
}

static void trees_come_back(void **state) {
    (void)state;
    rng.state = 9;
    for (int i = 0; i < ROUNDS / 4; i++) {
        arena = orr_arena_new();
        comes_back("torchtitan", "t.toml", titan_keys());
        comes_back("deepspeed", "t.json", without(deepspeed_keys(), "pp"));
        orr_arena_free(arena);
    }
}

static void nanotron_comes_back(void **state) {
    (void)state;
    rng.state = 10;
    for (int i = 0; i < ROUNDS / 4; i++) {
        arena = orr_arena_new();
        orr_tree *keys = nanotron_keys();
        orr_export export;
        orr_import import;
        orr_err err = {0};
        assert_int_equal(orr_export_plan(arena, "nanotron", keys, NULL, &export, &err), ORR_OK);
        if (orr_tree_size(export.lost) > 0) {
            fail_msg("lost %s of %s", json(export.lost), json(keys));
        }
        assert_int_equal(
            orr_import_text(arena, "t.yaml", export.text, strlen(export.text), &import, &err),
            ORR_OK);
        orr_tree *plain = without(keys, "model");
        orr_tree_put(arena, plain, "nodes", orr_tree_null(arena));
        same(without(plain, "model"), import.keys, "", export.text);
        const orr_tree *config = orr_tree_get(import.keys, "model");
        const orr_tree *model = orr_tree_get(keys, "model");
        assert_int_equal(orr_tree_int(orr_tree_get(config, "num_hidden_layers"), 0),
                         orr_tree_int(orr_tree_get(model, "layers"), -1));
        assert_int_equal(orr_tree_int(orr_tree_get(config, "vocab_size"), 0),
                         orr_tree_int(orr_tree_get(model, "vocab"), -1));
        orr_arena_free(arena);
    }
}

static void check_file(const char *path) {
    orr_import import;
    orr_export export;
    orr_err err = {0};
    assert_int_equal(orr_import_file(arena, path, &import, &err), ORR_OK);
    const char *format = orr_export_format_of(import.format);
    if (format == NULL) {
        return;
    }
    if (orr_export_plan(arena, format, import.keys, NULL, &export, &err) != ORR_OK) {
        fail_msg("%s: %s", path, err.message);
    }
    for (size_t i = 0; i < orr_tree_size(export.lost); i++) {
        const orr_tree *one = orr_tree_at(export.lost, i);
        const char *key = orr_tree_text(orr_tree_get(one, "key"), "");
        bool open = strcmp(orr_tree_text(orr_tree_get(one, "value"), ""), "unknown") == 0;
        if (strcmp(key, "model") != 0 && !open) { /* a name is no sizes */
            fail_msg("%s: %s lost %s", path, format, json(one));
        }
    }
}

static void files_come_back(void **state) {
    (void)state;
    static const char *const folders[] = {"scripts", "primus", "foreign"};
    size_t checked = 0;
    for (size_t f = 0; f < 3; f++) {
        char path[1024];
        struct dirent **entries;
        (void)snprintf(path, sizeof path, ORR_TEST_DIR "/data/%s", folders[f]);
        int count = scandir(path, &entries, NULL, alphasort);
        assert_true(count > 0);
        for (int i = 0; i < count; i++) {
            const char *name = entries[i]->d_name;
            if (strchr(name, '.') > name && strstr(name, ".expect.json") == NULL) {
                arena = orr_arena_new();
                (void)snprintf(path, sizeof path, ORR_TEST_DIR "/data/%s/%s", folders[f], name);
                check_file(path);
                checked++;
                orr_arena_free(arena);
            }
            free(entries[i]);
        }
        free(entries);
    }
    assert_true(checked > 70);
}

static void what_cannot_be_told_is_named(void **state) {
    (void)state;
    arena = orr_arena_new();
    orr_tree *keys = orr_tree_new_map(arena);
    put_text(keys, "model", "llama-3.1-8b");
    put_text(keys, "schedule", "zbv");
    put_text(keys, "loss", "fused");
    put_text(keys, "optimizer", "adam8bit");
    put_text(keys, "dispatch", "sync-free-2");
    put_int(keys, "ep", 2);
    orr_export export;
    assert_int_equal(orr_export_plan(arena, "megatron-lm", keys, NULL, &export, NULL), ORR_OK);
    assert_int_equal(orr_tree_size(export.lost), 5);
    orr_err err = {0};
    put_text(keys, "tp", "two");
    assert_int_equal(orr_export_plan(arena, "megatron-lm", keys, NULL, &export, &err),
                     ORR_E_SCHEMA);
    assert_non_null(strstr(err.message, "tp"));
    orr_arena_free(arena);
}

/* Pieces that a reader might trip over, thrown together. */
static void random_scripts_never_break_it(void **state) {
    (void)state;
    static const char *const pieces[] = {
        "if ",       "then ",
        "fi ",       "[[ ",
        "]] ",       "case x in ",
        "esac ",     ";;",
        "\"",        "'",
        "$(",        ")",
        "((",        "))",
        "${A",       ":-",
        "}",         "A=",
        "A+=(",      "$A ",
        "\\\n",      "\n",
        "<<E\n",     "E\n",
        "for ",      "in ",
        "do ",       "done ",
        "&& ",       "|| ",
        "| ",        "> ",
        "`",         "[ ",
        "] ",        "$((1+",
        "--tp ",     "--num-layers ",
        "torchrun ", "x.py ",
        "eval ",     "bash -c ",
        "#",         " ",
        "1 ",        "${A[@]}",
        "${#A}",     "function f ",
    };
    rng.state = 11;
    for (int i = 0; i < 20000; i++) {
        arena = orr_arena_new();
        orr_text text = orr_text_new(arena, 1 << 16);
        for (uint32_t k = 1 + orr_rng_below(&rng, 40); k > 0; k--) {
            orr_text_add(&text, pick(pieces, sizeof pieces / sizeof *pieces));
        }
        orr_import import;
        orr_err err = {0};
        const char *script = orr_text_done(&text);
        orr_status status = orr_import_text(arena, "t.sh", script, text.length, &import, &err);
        assert_true(status == ORR_OK || err.message[0] != '\0');
        orr_arena_free(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exports_come_back),
        cmocka_unit_test(dialects_come_back),
        cmocka_unit_test(trees_come_back),
        cmocka_unit_test(nanotron_comes_back),
        cmocka_unit_test(files_come_back),
        cmocka_unit_test(what_cannot_be_told_is_named),
        cmocka_unit_test(random_scripts_never_break_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
