/* Low-rank adapters: counts that libraries print, what frozen weights save, and nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "../linker_fixture.h"
#include "doc/doc.h"
#include "orrery/orrery.h"
#include "program/program.h"

static orr_status try(const char *text, orr_resolved *out, orr_err *err) {
    return orr_plan_resolve(arena, read_keys(text), out, err);
}

static orr_resolved resolve(const char *model, const char *more) {
    orr_resolved r;
    orr_err err = {0};
    const char *text = orr_arena_format(
        arena, "model: %s\nhardware: h100\ngpus: 8\nseq: 4096\nsoftware: unknown\n%s", model, more);
    if (try(text, &r, &err) != ORR_OK) {
        fail_msg("%s\n%s (%s)", text, err.message, err.hint);
    }
    return r;
}

/* ---- counts -----------------------------------------------------------------------------------
 */

/* The first three are what print_trainable_parameters of PEFT says of these models. */
static void counts_are_those_that_libraries_print(void **state) {
    (void)state;
    static const struct {
        const char *model, *lora;
        uint64_t count;
    } cases[] = {
        {"llama-2-7b", "lora: 8:q_proj+v_proj", 4194304},
        {"llama-3.1-8b", "lora: 16:q,v", 6815744},
        {"llama-3.1-8b", "lora: 16", 41943040},
        /* 32 layers x 16 x (h + q + 2 kv): one adapter on the fused product */
        {"llama-3.1-8b", "lora: {rank: 16, targets: [linear_qkv]}", 32 * 16 * (4096 + 6144)},
        {"llama-3.1-8b", "lora: '{rank: 16, targets: [q, v]}'", 6815744},
        {"llama-3.1-8b", "lora: '{\"rank\": 16, \"targets\": [\"q\", \"v\"]}'", 6815744},
        {"llama-3.1-8b", "lora: {rank: 16, targets: linear_fc1}", 32 * 16 * (4096 + 28672)},
        /* an adapter an expert: 8 x 3 x (4096 + 14336) a layer */
        {"mixtral-8x7b", "lora: 4:mlp", 32ull * 4 * 8 * 3 * (4096 + 14336)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_resolved r = resolve(cases[i].model, cases[i].lora);
        assert_int_equal(orr_plan_adapter_params(r.model, &r.plan.lora), cases[i].count);
    }
}

/* Everything that chunks own, summed over the ranks of a replica. */
static orr_params owned(const orr_resolved *r) {
    orr_program program;
    orr_err err = {0};
    if (orr_link(linker, arena, r, NULL, &program, &err) != ORR_OK) {
        fail_msg("%s", err.message);
    }
    orr_params sum = {0};
    for (uint32_t i = 0; i < r->plan.pipe.pp * r->plan.pipe.vpp; i++) {
        const orr_params *p = &program.chunk_kind[program.chunk[i]].params;
        sum.dense += p->dense;
        sum.expert += p->expert;
        sum.frozen_dense += p->frozen_dense;
        sum.frozen_expert += p->frozen_expert;
        sum.frozen_linear_dense += p->frozen_linear_dense;
        sum.frozen_linear_expert += p->frozen_linear_expert;
    }
    return sum;
}

static void ranks_own_what_is_counted(void **state) {
    (void)state;
    static const struct {
        const char *model, *plan;
        uint32_t tp, ep;
    } cases[] = {
        {"llama-3.1-8b", "", 1, 1},
        {"llama-3.1-8b", "tp: 4\n", 4, 1},
        {"llama-3.1-8b", "pp: 4\nlayout: even\n", 1, 1},
        {"mixtral-8x7b", "ep: 8\n", 1, 8},
    };
    static const char *const targets[] = {"q", "k+v", "o", "mlp", "all-linear", "qkv+fc1+fc2"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
            orr_resolved r = resolve(cases[i].model, orr_arena_format(arena, "%slora: 16:%s\n",
                                                                      cases[i].plan, targets[t]));
            orr_params p = owned(&r);
            uint64_t all = p.dense * cases[i].tp + p.expert * cases[i].ep;
            assert_int_equal(all, orr_plan_adapter_params(r.model, &r.plan.lora));
        }
    }
}

/* Every weight of the model rests on some rank, and nothing but adapters trains. */
static void the_rest_is_frozen(void **state) {
    (void)state;
    orr_resolved r = resolve("llama-3.1-8b", "lora: 16\n");
    orr_params p = owned(&r);
    assert_int_equal(p.frozen_dense, orr_model_count(r.model).total);
    assert_int_equal(p.frozen_linear_dense, 32ull * 4096 * (4096 + 1024 + 1024 + 4096 + 3 * 14336));
    r = resolve("llama-3.1-8b", "");
    p = owned(&r);
    assert_int_equal(p.frozen_dense, 0);
    assert_int_equal(p.dense, orr_model_count(r.model).total);
}

/* ---- ops and what is kept ----------------------------------------------------------------------
 */

static const orr_object *layer_of(const orr_resolved *r) {
    orr_object_key key;
    const orr_object *object = NULL;
    orr_err err = {0};
    orr_link_layer_key(&r->plan, &r->model->kind[0], &key);
    if (orr_linker_object(linker, &key, &object, &err) != ORR_OK) {
        fail_msg("%s", err.message);
    }
    return object;
}

static double flops_of(const orr_object *object, orr_phase phase) {
    double sum = 0;
    for (uint32_t i = 0; i < object->op_count; i++) {
        sum += object->op[i].phase == phase ? object->op[i].flops : 0;
    }
    return sum;
}

/* Sums of whole numbers below 2^53. */
static void near(double is, double wanted, double off) {
    assert_true(is - wanted <= off && wanted - is <= off);
}

static void frozen_weights_have_no_gradients(void **state) {
    (void)state;
    orr_resolved plain = resolve("llama-3.1-8b", ""), lora = resolve("llama-3.1-8b", "lora: 16\n");
    const orr_object *whole = layer_of(&plain), *frozen = layer_of(&lora);
    double adapters = 2.0 * 4096 * 41943040 / 32; /* a token's multiply-adds with them */
    near(flops_of(frozen, ORR_PHASE_WEIGHT_GRAD), adapters, 1);
    near(flops_of(frozen, ORR_PHASE_FORWARD), flops_of(whole, ORR_PHASE_FORWARD) + adapters, 1);
    near(flops_of(frozen, ORR_PHASE_INPUT_GRAD), flops_of(whole, ORR_PHASE_INPUT_GRAD) + adapters,
         1);
}

/* A linear's input is kept for its weight gradient alone: without one only norms, attention and
 * the activation keep theirs. */
static void inputs_are_kept_for_adapters_alone(void **state) {
    (void)state;
    const uint64_t n = 4096, h = 4096, ffn = 14336;
    orr_resolved plain = resolve("llama-3.1-8b", ""), all = resolve("llama-3.1-8b", "lora: 16\n");
    orr_resolved some = resolve("llama-3.1-8b", "lora: 16:q+v\n");
    uint64_t narrow = 2 * n * 16; /* between an adapter's two matrices */
    assert_int_equal(layer_of(&all)->saved_all, layer_of(&plain)->saved_all + 7 * narrow);
    assert_int_equal(layer_of(&some)->saved_all,
                     layer_of(&plain)->saved_all + 2 * narrow - 2 * n * (h + ffn));
}

static void quantised_weights_are_written_out_before_use(void **state) {
    (void)state;
    orr_resolved wide = resolve("llama-3.1-8b", "lora: 16\n");
    orr_resolved low = resolve("llama-3.1-8b", "lora: 16\nbase_dtype: nf4\n");
    const orr_object *a = layer_of(&wide), *b = layer_of(&low);
    double bytes = 0;
    for (uint32_t i = 0; i < b->op_count; i++) {
        bool cast = b->op[i].kind == ORR_OP_MEMORY && b->op[i].sub == ORR_MEMOP_CAST;
        bytes += cast ? b->op[i].bytes : 0;
    }
    double weights = 4096.0 * (4096 + 1024 + 1024 + 4096 + 3 * 14336);
    near(bytes, 2 * weights * (2 + 0.5625), 1); /* forward and input gradient */
    assert_int_equal(b->transient.forward - a->transient.forward, 2 * 2 * 14336 * 4096);
    assert_int_equal(b->saved_all, a->saved_all);
}

/* ---- words --------------------------------------------------------------------------------------
 */

static void nonsense_is_said_to_be(void **state) {
    (void)state;
    static const struct {
        const char *lora, *message;
    } cases[] = {
        {"lora: 0", "rank between"},
        {"lora: -3", "rank between"},
        {"lora: 1.5", "rank between"},
        {"lora: x", "rank between"},
        {"lora: 16:qq", "no target \"qq\""},
        {"lora: {rnk: 3}", "no key \"rnk\""},
        {"lora: {alpha: 3}", "rank between"},
        {"lora: [1]", "rank between"},
        {"lora: {rank: 8, alpha: no}", "alpha"},
        {"lora: 16\nbase_dtype: int4", "base_dtype"},
        {"lora: 99999999", "rank between"},
        {"lora: {rank: 8, targets: [1]}", "name nothing"},
        {"lora: {rank: 8, targets: []}", "name nothing"},
        {"lora: {rank: 8, targets: ''}", "name nothing"},
        {"lora: '16:'", "name nothing"},
        {"lora: '16: +,'", "name nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_resolved r;
        orr_err err = {0};
        const char *text = orr_arena_format(
            arena, "model: llama-3.1-8b\nhardware: h100\ngpus: 8\n%s\n", cases[i].lora);
        orr_status status = try(text, &r, &err);
        assert_int_not_equal(status, ORR_OK);
        if (strstr(err.message, cases[i].message) == NULL) {
            fail_msg("%s: %s", cases[i].lora, err.message);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_that_libraries_print),
        cmocka_unit_test(ranks_own_what_is_counted),
        cmocka_unit_test(the_rest_is_frozen),
        cmocka_unit_test(frozen_weights_have_no_gradients),
        cmocka_unit_test(inputs_are_kept_for_adapters_alone),
        cmocka_unit_test(quantised_weights_are_written_out_before_use),
        cmocka_unit_test(nonsense_is_said_to_be),
    };
    return cmocka_run_group_tests(tests, open_linker, close_linker);
}
