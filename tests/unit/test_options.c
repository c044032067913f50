/* Each option of splits, shards and formats changes what it should: none is read and ignored. */
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
#include "memory/memory.h"
#include "orrery/orrery.h"
#include "program/program.h"

enum { MOST_STAGES = 64 };

/* What a plan comes to, as far as options can change it. */
typedef struct facts {
    double need_bytes;
    uint64_t ops; /* digest */
    uint32_t layers[MOST_STAGES];
    uint32_t dense_shards, expert_shards, stage_stride;
} facts;

static uint64_t mix(uint64_t digest, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (digest ^ bits) * UINT64_C(0x9E3779B97F4A7C15) + (digest >> 29);
}

static uint64_t digest_op(uint64_t digest, const orr_op *op) {
    digest = mix(mix(digest, op->flops), op->bytes);
    digest = mix(digest, op->kind * 65536.0 + op->dtype * 256.0 + op->sub);
    if (op->kind == ORR_OP_COLLECTIVE) {
        digest = mix(digest, (double)op->shape.comm.rank_bytes);
        digest = mix(digest, op->shape.comm.size * 1e6 + op->shape.comm.stride);
        digest = mix(digest, op->shape.comm.count);
        digest = mix(digest, op->shape.comm.routing.topk * 1e6 + op->shape.comm.routing.experts);
    }
    return digest;
}

/* An option wins over what the base says. */
static facts facts_of(const char *keys, const char *option) {
    orr_tree *tree = read_keys(keys);
    orr_resolved r;
    orr_program program;
    orr_err err = {0};
    if (option != NULL) {
        tree = orr_plan_merge(arena, tree, read_keys(option));
    }
    if (orr_plan_resolve(arena, tree, &r, &err) != ORR_OK ||
        orr_link(linker, arena, &r, NULL, &program, &err) != ORR_OK) {
        fail_msg("%s%s\n%s (%s)", keys, option == NULL ? "" : option, err.message, err.hint);
    }
    orr_violation broken[ORR_MAX_VIOLATIONS];
    if (!orr_plan_legal(&r) && orr_plan_check(arena, &r, broken) > 0) {
        fail_msg("%s%s\n%s: %s", keys, option == NULL ? "" : option, broken[0].rule,
                 broken[0].message);
    }
    facts f = {0};
    orr_memory memory;
    orr_memory_evaluate(&program, arena, false, &memory);
    f.need_bytes = memory.worst.need_bytes;
    f.dense_shards = orr_plan_dense_shards(&r.plan);
    f.expert_shards = orr_plan_expert_shards(&r.plan);
    f.stage_stride = orr_plan_stage_stride(&r.plan);
    for (uint32_t i = 0; i < r.plan.pipe.pp * r.plan.pipe.vpp && i < MOST_STAGES; i++) {
        f.layers[i] = program.chunk_kind[program.chunk[i]].layers;
    }
    for (uint32_t c = 0; c < program.chunk_kind_count; c++) {
        const orr_chunk *chunk = &program.chunk_kind[c];
        for (uint32_t p = 0; p < chunk->part_count; p++) {
            const orr_object *object = chunk->part[p].object;
            for (uint32_t i = 0; i < object->op_count; i++) {
                f.ops = digest_op(f.ops, &object->op[i]);
            }
        }
    }
    return f;
}

/* ---- the table ------------------------------------------------------------------------------ */

#define DENSE "model: llama-3.1-8b\nhardware: h100\nseq: 8192\nsoftware: megatron-core\n"
#define MOE "model: mixtral-8x7b\nhardware: h100\nseq: 4096\nsoftware: megatron-core\n"
#define MLA "model: deepseek-v2-lite\nhardware: h100\nseq: 4096\nsoftware: megatron-core\n"
#define B200 "model: llama-3.1-8b\nhardware: b200\nseq: 8192\nsoftware: megatron-core\n"
#define FSDP "model: llama-3.1-8b\nhardware: h100\nseq: 8192\nsoftware: torchtitan\n"

/* `must`: what changes from `base` to `base` with `option`. '-' less memory, '+' more, 'O' ops,
 * 'L' layers of stages, 'D' ranks that share dense states, 'E' expert states, 'S' distance of
 * stages. */
static const struct {
    const char *base, *option, *must;
} table[] = {
    /* groups */
    {MOE "gpus: 16\ntp: 2\n", "ep: 8", "-OE"},
    {MOE "gpus: 16\ntp: 2\nep: 4\n", "etp: 1", "OE"},
    {DENSE "gpus: 16\ntp: 2\n", "cp: 2", "-O"},
    {DENSE "gpus: 16\ntp: 2\ncp: 4\ncp_kind: ring\n", "cp_kind: allgather", "O"},
    {DENSE "gpus: 16\ntp: 2\ncp: 4\ncp_kind: ring\n", "cp_kind: a2a", "O"},
    {DENSE "gpus: 16\ntp: 2\npp: 2\n", "rank_order: tp-cp-ep-pp-dp", "S"},
    /* shards */
    {DENSE "gpus: 16\nsharding: none\n", "sharding: zero1", "-"},
    {FSDP "gpus: 16\nsharding: zero1\n", "sharding: zero2", "-"},
    {FSDP "gpus: 16\nsharding: zero2\n", "sharding: zero3", "-O"},
    {FSDP "gpus: 16\nsharding: zero1\n", "sharding: fsdp2", "-O"},
    {FSDP "gpus: 16\nsharding: fsdp2\n", "sharding: hsdp", "+OD"},
    {FSDP "gpus: 16\nsharding: hsdp\n", "shard_group: 4", "+OD"},
    {DENSE "gpus: 16\nsharding: zero1\n", "sharding: zero3", "-O"},
    {DENSE "gpus: 16\nsharding: zero1\n", "sharding: megatron-fsdp", "-O"},
    {DENSE "gpus: 16\nsharding: zero1\n", "shard_group: 4", "+D"},
    {DENSE "gpus: 16\nsharding: zero1\ngrad_dtype: fp32\n", "grad_dtype: bf16", "-"},
    {DENSE "gpus: 16\nsharding: zero1\n", "master_dtype: 16bit", "-"},
    {DENSE "gpus: 16\nsharding: zero1\n", "exp_avg_dtype: bf16", "-"},
    {DENSE "gpus: 16\nsharding: zero1\n", "exp_avg_sq_dtype: bf16", "-"},
    {DENSE "gpus: 16\nsharding: zero1\n", "offload_optimizer: 0.5", "-"},
    /* layouts */
    {DENSE "gpus: 16\npp: 4\nlayout: even\n", "first_layers: 5\nlast_layers: 7", "L"},
    {DENSE "gpus: 16\npp: 2\nplacement: even\n", "placement: cost-walk", "L"},
    /* experts */
    {MOE "gpus: 16\nep: 8\ndispatch: alltoall\n", "dispatch: allgather", "O"},
    {MOE "gpus: 16\nep: 8\ndispatch: alltoall\n", "dispatch: deepep", "O"},
    /* formats */
    {DENSE "gpus: 16\n", "precision: fp8_cs", "O"},
    {DENSE "gpus: 16\n", "precision: fp8", "O"},
    {DENSE "gpus: 16\n", "precision: fp8_blockwise", "O"},
    {B200 "gpus: 16\n", "precision: fp8_mx", "O"},
    {B200 "gpus: 16\n", "precision: nvfp4", "O"},
    {DENSE "gpus: 16\nprecision: fp8_cs\nfp8_params: off\n", "fp8_params: on", "-"},
    {DENSE "gpus: 16\nprecision: fp8_cs\n", "fp8_attention: on", "-O"},
    {DENSE "gpus: 16\nprecision: fp8\n", "fp8_attention: on", "-O"},
    {B200 "gpus: 16\nprecision: fp8_mx\n", "fp8_attention: on", "O"},
    {DENSE "gpus: 16\nprecision: fp8\nfp8_attention: on\n", "fp8_attention_backward: off", "+O"},
    {B200 "gpus: 16\nprecision: nvfp4\n", "fp8_attention: on", "-O"},
    /* recompute and offload */
    {DENSE "gpus: 16\n", "recompute: full", "-"},
    {DENSE "gpus: 16\n", "recompute: 'block:8'", "-"},
    {DENSE "gpus: 16\n", "recompute: 'uniform:4'", "-"},
    {DENSE "gpus: 16\nattention: unfused\n", "recompute: 'selective:core_attn'", "-"},
    {DENSE "gpus: 16\n", "recompute: 'selective:layernorm'", "-"},
    {DENSE "gpus: 16\n", "recompute: 'selective:mlp'", "-"},
    {MOE "gpus: 16\nep: 8\n", "recompute: 'selective:moe'", "-"},
    {MOE "gpus: 16\nep: 8\n", "recompute: 'selective:moe_act'", "-"},
    {MLA "gpus: 16\nep: 8\n", "recompute: 'selective:shared_experts'", "-"},
    {MLA "gpus: 16\nep: 8\n", "recompute: 'selective:mla_up_proj'", "-"},
    {FSDP "gpus: 16\nsharding: fsdp2\n", "recompute: 'selective:sac'", "-"},
    {DENSE "gpus: 16\n", "offload_layers: 8", "-"},
    /* adapters */
    {DENSE "gpus: 16\n", "lora: 16", "-O"},
    {DENSE "gpus: 16\nlora: 16\n", "base_dtype: nf4", "-O"},
    /* other ways to lay out */
    {DENSE "gpus: 16\npp: 4\nlayout: even\n", "layout: 'Et*5|t*9|t*9|t*9L'", "L"},
    {DENSE "gpus: 16\npp: 4\nlayout: 'Et*5|t*9|t*9|t*9L'\n",
     "model: {like: llama-3.1-8b, layers: "
     "30}\nlayout: embedding,loss",
     "L"},
};

static void each_option_changes_what_it_should(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        facts a = facts_of(table[i].base, NULL);
        facts b = facts_of(table[i].base, table[i].option);
        assert_true(table[i].must[0] != '\0');
        for (const char *must = table[i].must; *must != '\0'; must++) {
            bool holds = *must == '-'   ? b.need_bytes < a.need_bytes
                         : *must == '+' ? b.need_bytes > a.need_bytes
                         : *must == 'O' ? b.ops != a.ops
                         : *must == 'L' ? memcmp(a.layers, b.layers, sizeof a.layers) != 0
                         : *must == 'D' ? b.dense_shards != a.dense_shards
                         : *must == 'E' ? b.expert_shards != a.expert_shards
                         : *must == 'S' ? b.stage_stride != a.stage_stride
                                        : false;
            if (!holds) {
                fail_msg("%s on\n%sdoes not do '%c'", table[i].option, table[i].base, *must);
            }
        }
    }
}

static void a_second_word_means_the_same(void **state) {
    (void)state;
    facts a = facts_of(DENSE "gpus: 16\n", "sharding: zero3");
    facts b = facts_of(DENSE "gpus: 16\n", "sharding: megatron-fsdp");
    assert_memory_equal(&a.need_bytes, &b.need_bytes, sizeof a.need_bytes);
    assert_int_equal(a.ops, b.ops);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_option_changes_what_it_should),
        cmocka_unit_test(a_second_word_means_the_same),
    };
    return cmocka_run_group_tests(tests, open_linker, close_linker);
}
