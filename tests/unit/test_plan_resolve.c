/* Keys to plan: what is derived, what is assumed, what contradicts itself, and back to keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "../linker_fixture.h"
#include "doc/doc.h"
#include "orrery/orrery.h"
#include "plan/plan.h"

static orr_resolved resolve(const char *text) {
    orr_resolved r;
    orr_err err = {0};
    if (orr_plan_resolve(arena, read_keys(text), &r, &err) != ORR_OK) {
        fail_msg("%s\n%s (%s)", text, err.message, err.hint);
    }
    return r;
}

static const char *assumed(const orr_resolved *r, const char *key) {
    for (uint32_t i = 0; i < r->assumption_count; i++) {
        if (strcmp(r->assumption[i].key, key) == 0) {
            assert_true(strlen(r->assumption[i].why) > 3);
            return r->assumption[i].value;
        }
    }
    return NULL;
}

#define BASE "model: llama-3.1-8b\nhardware: h100\n"

/* ---- derived and assumed --------------------------------------------------------------------- */

static void counts_follow_from_each_other(void **state) {
    (void)state;
    orr_resolved r = resolve(BASE "nodes: 4\ntp: 2\ncp: 2\npp: 2\ngbs: 64\nmbs: 2\nseq: 8k\n");
    assert_int_equal(r.plan.gpus, 32);
    assert_int_equal(r.plan.shard.dp, 4);
    assert_int_equal(r.plan.batch.micro_batches, 8);
    assert_int_equal(r.plan.batch.seq, 8192);
    assert_int_equal(r.cluster->gpus, 32);
    assert_int_equal(r.cluster->gpus_per_node, 8);
    assert_null(assumed(&r, "gbs"));
    assert_null(assumed(&r, "tp"));
    r = resolve(BASE "gpus: 32\ngpus_per_node: 4\ntp: 4\nmicro_batches: 5\nmbs: 3\n");
    assert_int_equal(r.plan.gbs, 5 * 3 * 8);
    assert_int_equal(r.cluster->gpus_per_node, 4);
    r = resolve(BASE "nodes: 8\ngpus: 32\n");
    assert_int_equal(r.cluster->gpus_per_node, 4);
}

/* Which neighbours a group has follows from the order of ranks. */
static void rank_orders_move_stages_and_replicas(void **state) {
    (void)state;
    orr_resolved r = resolve(BASE "gpus: 64\ntp: 2\npp: 4\ncp: 2\n");
    assert_int_equal(orr_plan_stage_stride(&r.plan), 16);
    assert_int_equal(orr_plan_replica_stretch(&r.plan), 1);
    r = resolve(BASE "gpus: 64\ntp: 2\npp: 4\ncp: 2\nrank_order: tp-cp-ep-pp-dp\n");
    assert_int_equal(orr_plan_stage_stride(&r.plan), 4);
    assert_int_equal(orr_plan_replica_stretch(&r.plan), 4);
    orr_tree *keys = orr_plan_write(arena, &r);
    assert_string_equal(orr_tree_text(orr_tree_get(keys, "rank_order"), ""), "tp-cp-ep-pp-dp");
}

static void every_default_is_written_down(void **state) {
    (void)state;
    static const char *const keys[] = {
        "software",
        "cluster",
        "tp",
        "pp",
        "cp",
        "mbs",
        "seq",
        "gbs",
        "vpp",
        "schedule",
        "sharding",
        "precision",
        "optimizer",
        "loss",
        "attention",
        "grad_dtype",
        "param_dtype",
        "master_dtype",
        "overlap",
        "recompute",
        "dropout",
        "exp_avg_dtype",
        "exp_avg_sq_dtype",
    };
    orr_resolved r = resolve(BASE "gpus: 8\n");
    assert_true(r.assumption_count < ORR_MAX_ASSUMPTIONS);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (assumed(&r, keys[i]) == NULL) {
            fail_msg("no assumption for %s", keys[i]);
        }
    }
    assert_string_equal(assumed(&r, "seq"), "8192");
    assert_string_equal(assumed(&r, "schedule"), "1f1b");
    r = resolve("model: mixtral-8x7b\nhardware: h100\ngpus: 64\ntp: 2\npp: 4\n");
    assert_string_equal(assumed(&r, "ep"), "1");
    assert_string_equal(assumed(&r, "etp"), "2");
    assert_non_null(assumed(&r, "sp"));
    assert_non_null(assumed(&r, "p2p"));
    assert_non_null(assumed(&r, "placement"));
    assert_true(r.assumption_count <= ORR_MAX_ASSUMPTIONS);
}

static void what_is_stated_wins(void **state) {
    (void)state;
    orr_resolved r = resolve(
        BASE "gpus: 64\ntp: 4\npp: 4\nvpp: 2\nsp: off\ngbs: 128\nprecision: fp8_cs\n"
             "sharding: hsdp\nrecompute: selective:layernorm+mlp\nattention: unfused\nloss: fused\n"
             "grad_dtype: bf16\noptimizer: adam8bit\noverlap: tp, pp\ndropout: hidden\n"
             "param_dtype: fp32\nlayout: embedding,loss\ncp_kind: a2a\np2p: blocking\n");
    assert_int_equal(r.plan.split.sp, 0);
    assert_int_equal(r.plan.pipe.schedule, ORR_SCHEDULE_INTERLEAVED);
    assert_int_equal(r.plan.pipe.split_flags, ORR_SPLIT_EMBEDDING | ORR_SPLIT_LOSS);
    assert_int_equal(r.plan.pipe.p2p, ORR_P2P_BLOCKING);
    assert_int_equal(r.plan.numeric.precision, ORR_PRECISION_FP8_CS);
    assert_int_equal(r.plan.numeric.param_bytes, 4);
    assert_int_equal(r.plan.numeric.master_bytes, 0);
    assert_int_equal(r.plan.numeric.grad_bytes, 2);
    assert_int_equal(r.plan.numeric.exp_avg_bytes, 1);
    assert_int_equal(r.plan.variant.grad_fp32, 0);
    assert_int_equal(r.plan.variant.hidden_dropout, 1);
    assert_int_equal(r.plan.variant.attention_dropout, 0);
    assert_int_equal(r.plan.variant.loss, ORR_LOSS_FUSED);
    assert_int_equal(r.plan.recompute.modules, ORR_MODULE_LAYERNORM | ORR_MODULE_MLP);
    assert_int_equal(r.plan.shard.kind, ORR_SHARD_HSDP);
    assert_int_equal(r.plan.shard.group, 2);
    assert_int_equal(r.plan.overlap, ORR_OVERLAP_TP | ORR_OVERLAP_PP);
}

static void schedules_imply_chunks(void **state) {
    (void)state;
    orr_resolved r = resolve(BASE "gpus: 64\npp: 4\nschedule: zbv\ngbs: 512\n");
    assert_int_equal(r.plan.pipe.vpp, 2);
    assert_int_equal(r.plan.pipe.p2p, ORR_P2P_ASYNC);
    r = resolve(BASE "gpus: 64\npp: 4\nschedule: auto\nvpp: 4\n");
    assert_int_equal(r.plan.pipe.schedule, ORR_SCHEDULE_INTERLEAVED);
    r = resolve(BASE "gpus: 64\npp: 2\nlayout: Et*8|t*8|t*8|t*8L\n");
    assert_int_equal(r.plan.pipe.vpp, 2);
    assert_true(r.plan.pipe.layout_hash != 0);
    uint32_t count[4], offset[4];
    assert_int_equal(orr_plan_layers(r.model, &r.plan, count, offset, NULL), ORR_OK);
    assert_int_equal(count[3], 8);
}

/* The acceptance case of the speed figure, and a plan of a mixture of experts. */
static void known_plans_are_legal(void **state) {
    (void)state;
    static const char *const plans[] = {
        "model: llama-3.1-405b\nhardware: h100\ngpus: 1024\ntp: 8\npp: 8\nvpp: 8\ncp: 2\n"
        "layout: embedding,loss\nmicro_batches: 64\nseq: 8k\n",
        "model: llama-3.1-8b\nhardware: h100\ngpus: 8\ncp: 2\ndp: 4\ngbs: 128\nseq: 8192\n",
        "model: mixtral-8x22b\nhardware: mi355x\ngpus: 64\npp: 4\nvpp: 2\nep: 8\nmbs: 2\ngbs: 128\n"
        "seq: 8192\n",
    };
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        orr_violation found[ORR_MAX_VIOLATIONS];
        orr_resolved r = resolve(plans[i]);
        uint32_t count = orr_plan_check(arena, &r, found);
        if (count > 0 && found[0].effect != ORR_RULE_WARNING) {
            fail_msg("%s: %s: %s", plans[i], found[0].rule, found[0].message);
        }
        assert_true(orr_plan_legal(&r));
    }
}

/* ---- errors --------------------------------------------------------------------------------- */

typedef struct bad_case {
    const char *keys;
    orr_status status;
    uint32_t line; /* 0: any */
    const char *message, *hint;
} bad_case;

static const bad_case bad[] = {
    {"hardware: h100\ngpus: 8\n", ORR_E_SCHEMA, 0, "lacks a model", "--model"},
    {"model: llama-3.1-8b\ngpus: 8\n", ORR_E_SCHEMA, 0, "lacks hardware", "--hardware"},
    {BASE, ORR_E_SCHEMA, 0, "lacks gpus", "--gpus"},
    {"model: lama-3.1-8b\nhardware: h100\ngpus: 8\n", ORR_E_NAME, 1, "lama-3.1-8b", "llama-3.1-8b"},
    {"model: llama-3.1-8b\nhardware: h10O\ngpus: 8\n", ORR_E_NAME, 2, "h10O", "h100"},
    {BASE "gpus: 8\nsoftware: megatron-cor\n", ORR_E_NAME, 4, "megatron-cor", "megatron-core"},
    {"model: 8\nhardware: h100\ngpus: 8\n", ORR_E_SCHEMA, 1, "name, a path or a map", ""},
    {BASE "gpus: 8\npt: 2\n", ORR_E_SCHEMA, 4, "\"pt\"", "p"},
    {BASE "gpus: 8\ntp: 0\n", ORR_E_SCHEMA, 4, "\"tp\" is 0", ""},
    {BASE "gpus: 8\ntp: -4\n", ORR_E_SCHEMA, 4, "\"tp\" is -4", ""},
    {BASE "gpus: 8\ntp: 2.5\n", ORR_E_SCHEMA, 4, "whole number", ""},
    {BASE "gpus: 8\ntp: [2]\n", ORR_E_SCHEMA, 4, "whole number", ""},
    {BASE "gpus: 9999999999999999\n", ORR_E_SCHEMA, 3, "gpus", ""},
    {BASE "gpus: 1e300\n", ORR_E_SCHEMA, 3, "gpus", ""},
    {BASE "gpus: 8\nseq: -1\n", ORR_E_SCHEMA, 4, "seq", "8k"},
    {BASE "gpus: 8\nseq: 8q\n", ORR_E_SCHEMA, 4, "seq", "8k"},
    {BASE "gpus: 8\nseq: 1e12\n", ORR_E_SCHEMA, 4, "seq", "8k"},
    {BASE "gpus: 8\nprecision: bf6\n", ORR_E_SCHEMA, 4, "bf6", "bf16"},
    {BASE "gpus: 8\nschedule: 1f2b\n", ORR_E_SCHEMA, 4, "1f2b", "1f1b"},
    {BASE "gpus: 8\nrecompute: selectiv\n", ORR_E_SCHEMA, 4, "selectiv", "selective"},
    {BASE "gpus: 8\nrecompute: selective:layrnorm\n", ORR_E_SCHEMA, 4, "layrnorm", "layernorm"},
    {BASE "gpus: 8\nrecompute: block:x\n", ORR_E_SCHEMA, 4, "block:x", "block:N"},
    {BASE "gpus: 8\nlayout: blanced\n", ORR_E_SCHEMA, 4, "blanced", "balanced"},
    {BASE "gpus: 8\nlayout: E(t|L\n", ORR_E_SYNTAX, 4, "not closed", ""},
    {BASE "gpus: 8\nlayout: balanced\nplacement: even\n", ORR_E_CONFLICT, 4, "placement is even",
     ""},
    {BASE "gpus: 64\nnodes: 3\n", ORR_E_CONFLICT, 3, "3 nodes of 8 are 24", "24"},
    {BASE "gpus: 64\nnodes: 8\ngpus_per_node: 4\n", ORR_E_CONFLICT, 3, "8 nodes of 4", "32"},
    {BASE "gpus: 64\ntp: 8\ndp: 4\n", ORR_E_CONFLICT, 5, "dp is 4", "leave dp out"},
    {BASE "gpus: 8\ngbs: 64\nmicro_batches: 4\n", ORR_E_CONFLICT, 4, "gbs is 64", ""},
    {BASE "nodes: 1000000\ngpus_per_node: 4000\n", ORR_E_LIMIT, 3, "more than 1048576", ""},
    {BASE "gpus: 1048576\nmicro_batches: 1048576\n", ORR_E_LIMIT, 4, "sequences a step", ""},
    {"just text\n", ORR_E_SCHEMA, 1, "map of fields", ""},
};

/* Recipes with scales of a tensor or of 32 in a row keep fp8 weights; block scales, 16-bit ones. */
static void recipes_keep_fp8_weights(void **state) {
    (void)state;
    static const struct {
        const char *precision;
        uint32_t bytes;
    } rows[] = {{"bf16", 2},   {"fp8", 1},           {"fp8_cs", 1},
                {"fp8_mx", 1}, {"fp8_blockwise", 2}, {"nvfp4", 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        (void)snprintf(text, sizeof text,
                       "model: llama-3-8b\nhardware: b200\nnodes: 1\ngbs: 16\nseq: 8192\n"
                       "software: megatron-core-2026\nprecision: %s\n",
                       rows[i].precision);
        assert_int_equal(resolve(text).plan.numeric.param_bytes, rows[i].bytes);
    }
}

static void bad_keys_are_explained(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        orr_resolved r;
        orr_err err = {0};
        orr_status status = orr_plan_resolve(arena, read_keys(bad[i].keys), &r, &err);
        if (status != bad[i].status || strstr(err.message, bad[i].message) == NULL ||
            strstr(err.hint, bad[i].hint) == NULL ||
            (bad[i].line != 0 && err.line != bad[i].line)) {
            fail_msg("case %zu gives %s at line %u: %s (%s)", i, orr_status_name(status), err.line,
                     err.message, err.hint);
        }
        assert_true(status == err.status);
        assert_true(orr_tree_size(orr_plan_problems(arena, read_keys(bad[i].keys))) > 0);
    }
}

static void all_problems_come_at_once(void **state) {
    (void)state;
    const char *keys = "model: lama-3.1-8b\nhardware: h10O\nsoftware: megatron-cor\n";
    orr_tree *problems = orr_plan_problems(arena, read_keys(keys));
    assert_int_equal(orr_tree_size(problems), 4); /* and gpus */
    problems = orr_plan_problems(arena, read_keys("tp: 0\npp: x\nprecison: bf16\n"));
    assert_int_equal(orr_tree_size(problems), 3);
    assert_int_equal(orr_tree_int(orr_tree_get(orr_tree_at(problems, 1), "line"), 0), 2);
    problems = orr_plan_problems(arena, read_keys(BASE "gpus: 64\ntp: 8\ndp: 4\nlayout: foo\n"));
    assert_int_equal(orr_tree_size(problems), 2);
    problems = orr_plan_problems(arena, read_keys(BASE "gpus: 8\n"));
    assert_int_equal(orr_tree_size(problems), 0);
    orr_resolved r;
    orr_err err = {0};
    (void)orr_plan_resolve(arena, read_keys("tp: 0\npp: x\nprecison: bf16\n"), &r, &err);
    assert_non_null(strstr(err.hint, "also: "));
}

static void a_null_err_is_fine(void **state) {
    (void)state;
    orr_resolved r;
    assert_int_equal(orr_plan_resolve(arena, read_keys("tp: 0\n"), &r, NULL), ORR_E_SCHEMA);
    assert_int_equal(orr_plan_resolve(arena, NULL, &r, NULL), ORR_E_SCHEMA);
}

/* ---- and back ------------------------------------------------------------------------------- */

static void assert_same_plan(const orr_plan *a, const orr_plan *b) {
    assert_int_equal(a->gpus, b->gpus);
    assert_int_equal(a->gbs, b->gbs);
    assert_int_equal(a->overlap, b->overlap);
    assert_memory_equal(&a->split, &b->split, sizeof a->split);
    assert_memory_equal(&a->pipe, &b->pipe, sizeof a->pipe);
    assert_memory_equal(&a->batch, &b->batch, sizeof a->batch);
    assert_memory_equal(&a->numeric, &b->numeric, sizeof a->numeric);
    assert_memory_equal(&a->variant, &b->variant, sizeof a->variant);
    assert_memory_equal(&a->recompute, &b->recompute, sizeof a->recompute);
    assert_memory_equal(&a->shard, &b->shard, sizeof a->shard);
}

static void written_plans_resolve_to_the_same(void **state) {
    (void)state;
    static const char *const plans[] = {
        BASE "gpus: 8\n",
        BASE "nodes: 8\ntp: 4\npp: 4\nvpp: 2\nsp: off\ngbs: 128\nprecision: fp8\nfp8_params: on\n",
        BASE "gpus: 64\nnic: 400Gb/s\n",
        BASE "gpus: 64\npp: 4\nschedule: zb-2p\nmemory_limit: 9\nrecompute: block:3\n",
        BASE "gpus: 64\npp: 2\nlayout: \"Et*8|t*8|t*8|t*8L\"\n",
        BASE "gpus: 64\npp: 4\nfirst_layers: 7\nlast_layers: 9\nsharding: hsdp\ndropout: all\n",
        BASE "gpus: 64\npp: 4\nlayout: loss\nrecompute: selective:mlp+sac\noverlap: none\n",
        BASE "gpus: 64\nsharding: fsdp2\nparam_dtype: fp32\noptimizer: muon\nloss: eager\n",
        "model: mixtral-8x7b\nhardware: mi355x\ngpus: 64\nep: 8\ndispatch: sync-free-2\ncp: 2\n"
        "cp_kind: a2a\nexp_avg_dtype: bf16\nexp_avg_sq_dtype: fp8\nmaster_dtype: 16bit\n",
        "model: mixtral-8x7b\nhardware: h100\ngpus: 64\npp: 4\nvpp: 2\nep: 8\noverlap: all\n"
        "micro_batches: 16\np2p: overlap-warmup-flush\ngroup: 8\n",
        "model: mixtral-8x7b\nhardware: h100\ngpus: 64\nep: 8\ngraphs: full_iteration\n",
    };
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        orr_resolved first = resolve(plans[i]), second;
        orr_tree *written = orr_plan_write(arena, &first);
        orr_err err = {0};
        if (orr_plan_resolve(arena, written, &second, &err) != ORR_OK) {
            fail_msg("%s\n%s", orr_write_json(arena, written, true), err.message);
        }
        assert_same_plan(&first.plan, &second.plan);
        assert_int_equal(first.software->graphs, second.software->graphs);
        assert_int_equal(first.graphs_stated, second.graphs_stated);
        assert_string_equal(first.cluster->name, second.cluster->name);
        assert_memory_equal(first.cluster->tier, second.cluster->tier, sizeof first.cluster->tier);
        assert_string_equal(first.software->name, second.software->name);
        assert_string_equal(orr_write_json(arena, written, false),
                            orr_write_json(arena, orr_plan_write(arena, &second), false));
    }
}

static void merged_keys_do_not_contradict(void **state) {
    (void)state;
    orr_tree *file = read_keys(BASE "nodes: 8\ntp: 2\ndp: 32\ngbs: 256\nmicro_batches: 8\n");
    orr_resolved r;
    orr_tree *merged = orr_plan_merge(arena, file, read_keys("gpus: 128\ntp: 4\n"));
    assert_int_equal(orr_plan_resolve(arena, merged, &r, NULL), ORR_OK);
    assert_int_equal(r.plan.gpus, 128);
    assert_int_equal(r.plan.shard.dp, 32);
    assert_int_equal(r.plan.gbs, 256);
    assert_int_equal(orr_tree_span(orr_tree_get(merged, "model")).line, 1);
    merged = orr_plan_merge(arena, file, read_keys("micro_batches: 4\n"));
    assert_int_equal(orr_plan_resolve(arena, merged, &r, NULL), ORR_OK);
    assert_int_equal(r.plan.gbs, 128);
    merged = orr_plan_merge(arena, NULL, file);
    assert_int_equal(orr_plan_resolve(arena, merged, &r, NULL), ORR_OK);
    file = read_keys(BASE "gpus: 64\nmicro_batches: 8\n");
    merged = orr_plan_merge(arena, file, read_keys("gpus: 32\n"));
    assert_int_equal(orr_plan_resolve(arena, merged, &r, NULL), ORR_OK);
    assert_int_equal(r.plan.batch.micro_batches, 8);
}

/* Keys wider than values had no fused backward on Blackwell for a while. */
static void attention_falls_back_where_no_kernel_is(void **state) {
    (void)state;
    static const struct {
        const char *model, *hardware, *software;
        uint8_t kernel;
    } cases[] = {
        {"deepseek-v3", "gb200", "megatron-core-2025-early", ORR_KERNEL_UNFUSED},
        {"deepseek-v3", "h100", "megatron-core-2025-early", ORR_KERNEL_FLASH},
        {"deepseek-v3", "gb200", "megatron-core-2025", ORR_KERNEL_FLASH},
        {"llama-3-8b", "gb200", "megatron-core-2025-early", ORR_KERNEL_FLASH},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        (void)snprintf(text, sizeof text,
                       "model: %s\nhardware: %s\nsoftware: %s\ngpus: 64\ngbs: 64\n", cases[i].model,
                       cases[i].hardware, cases[i].software);
        orr_resolved r = resolve(text);
        assert_int_equal(r.plan.variant.attention, cases[i].kernel);
        assert_string_equal(assumed(&r, "attention"),
                            cases[i].kernel == ORR_KERNEL_FLASH ? "flash" : "unfused");
        (void)strncat(text, "attention: flash\n", sizeof text - strlen(text) - 1);
        assert_int_equal(resolve(text).plan.variant.attention, ORR_KERNEL_FLASH);
    }
}

static void every_key_is_described(void **state) {
    (void)state;
    orr_tree *fields = orr_plan_fields(arena);
    assert_true(orr_tree_size(fields) > 40);
    for (size_t i = 0; i < orr_tree_size(fields); i++) {
        const orr_tree *field = orr_tree_at(fields, i);
        assert_true(strlen(orr_tree_text(orr_tree_get(field, "name"), "")) > 0);
        assert_true(strlen(orr_tree_text(orr_tree_get(field, "doc"), "")) > 10);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(counts_follow_from_each_other, open_linker, close_linker),
        cmocka_unit_test_setup_teardown(rank_orders_move_stages_and_replicas, open_linker,
                                        close_linker),
        cmocka_unit_test_setup_teardown(every_default_is_written_down, open_linker, close_linker),
        cmocka_unit_test_setup_teardown(what_is_stated_wins, open_linker, close_linker),
        cmocka_unit_test_setup_teardown(schedules_imply_chunks, open_linker, close_linker),
        cmocka_unit_test_setup_teardown(known_plans_are_legal, open_linker, close_linker),
        cmocka_unit_test_setup_teardown(recipes_keep_fp8_weights, open_linker, close_linker),
        cmocka_unit_test_setup_teardown(bad_keys_are_explained, open_linker, close_linker),
        cmocka_unit_test_setup_teardown(all_problems_come_at_once, open_linker, close_linker),
        cmocka_unit_test_setup_teardown(a_null_err_is_fine, open_linker, close_linker),
        cmocka_unit_test_setup_teardown(written_plans_resolve_to_the_same, open_linker,
                                        close_linker),
        cmocka_unit_test_setup_teardown(merged_keys_do_not_contradict, open_linker, close_linker),
        cmocka_unit_test_setup_teardown(attention_falls_back_where_no_kernel_is, open_linker,
                                        close_linker),
        cmocka_unit_test_setup_teardown(every_key_is_described, open_linker, close_linker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
