/* Objects against independent counts: parameters and flops of every model of the catalog, bytes
 * under recomputation, equality of ranks' sums whatever the split. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "../unit/program_fixtures.h"
#include "base/rng.h"

static void take_model(fixture *f, const orr_model *model) {
    orr_layer none;
    memset(&none, 0, sizeof none);
    fixture_init(f, none, 1, 1);
    f->resolved.model = model;
    f->resolved.plan.variant.vocab_unpadded = 1;
    f->resolved.plan.batch.seq = 2048;
}

typedef struct sums {
    uint64_t params;
    double forward_flops, backward_flops;
} sums;

static sums sum_of(const orr_program *program) {
    sums s = {0};
    const orr_chunk *chunk = orr_program_chunk(program, 0, 0);
    s.params = chunk->params.dense + chunk->params.expert;
    for (uint32_t p = 0; p < chunk->part_count; p++) {
        const orr_object *object = chunk->part[p].object;
        for (uint32_t i = 0; i < object->op_count; i++) {
            double flops = chunk->part[p].count * object->op[i].flops;
            *(object->op[i].phase == ORR_PHASE_FORWARD ? &s.forward_flops : &s.backward_flops) +=
                flops;
        }
    }
    return s;
}

static bool has_linear_attention(const orr_model *model) {
    for (uint32_t k = 0; k < model->kind_count; k++) {
        if (model->kind[k].attention.kind == ORR_ATTENTION_LINEAR) {
            return true;
        }
    }
    return false;
}

/* On one rank: parameters are the model's own count, forward flops a third of its three-fold
 * convention. That convention counts biases, norms and gates as if they were matrices, a state's
 * recurrence instead of its chunks. */
static void catalog_models_agree(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_linker *linker = orr_linker_new();
    const orr_tree *names = orr_model_catalog(arena);
    assert_true(orr_tree_size(names) >= 60);
    for (size_t i = 0; i < orr_tree_size(names); i++) {
        orr_err err = {0};
        orr_model *model = NULL;
        const char *name = orr_tree_text(orr_tree_at(names, i), "");
        assert_int_equal(orr_model_find(arena, name, &model, &err), ORR_OK);
        fixture f;
        take_model(&f, model);
        orr_program program;
        if (orr_link(linker, arena, &f.resolved, NULL, &program, &err) != ORR_OK) {
            fail_msg("%s: %s", name, err.message);
        }
        sums s = sum_of(&program);
        orr_model_params want = orr_model_count(model);
        if (s.params != want.total + want.mtp) {
            print_error("%s: %llu parameters in objects, %llu in the model\n", name,
                        (unsigned long long)s.params, (unsigned long long)(want.total + want.mtp));
        }
        assert_true(s.params == want.total + want.mtp);
        double tokens = f.resolved.plan.batch.seq;
        double flops = orr_model_flops_per_token(model, f.resolved.plan.batch.seq, true) * tokens;
        double off = s.forward_flops * 3 / flops - 1;
        double most = has_linear_attention(model) ? 0.05 : 0.001;
        if (off > most || off < -most) {
            print_error("%s: %.4f of the model's flops\n", name, 1 + off);
        }
        assert_true(off <= most && off >= -most);
        assert_true(s.backward_flops >= 2 * s.forward_flops * 0.999);
    }
    orr_linker_free(linker);
    orr_arena_free(arena);
}

/* ---- random layers and splits --------------------------------------------------------------- */

static uint32_t pick(orr_rng *rng, uint32_t count) {
    return orr_rng_below(rng, count);
}

static orr_layer random_layer(orr_rng *rng) {
    uint32_t heads = 8u << pick(rng, 3), kv_heads = 8u << pick(rng, 2);
    kv_heads = kv_heads < heads ? kv_heads : heads;
    orr_layer l = fixture_layer(64 * heads, heads, kv_heads, 128 * heads);
    l.norm = (uint8_t)pick(rng, 2);
    l.norms = pick(rng, 4) == 0 ? 4 : 2;
    l.mlp.gated = (uint8_t)pick(rng, 2);
    l.mlp.bias = (uint8_t)pick(rng, 2);
    l.attention.bias_qkv = (uint8_t)pick(rng, 2);
    l.attention.bias_out = (uint8_t)pick(rng, 2);
    l.attention.qk_norm = (uint8_t)pick(rng, 3);
    l.attention.rope = (uint8_t)pick(rng, 2);
    l.attention.sinks = (uint8_t)pick(rng, 2);
    l.attention.output_gate = pick(rng, 4) == 0;
    if (pick(rng, 3) == 0) {
        l.attention.kind = ORR_ATTENTION_MLA;
        l.attention.qk_norm = l.attention.sinks = l.attention.output_gate = 0;
        l.attention.bias_qkv = 0;
        l.attention.q_lora = pick(rng, 2) ? 96 : 0;
        l.attention.kv_lora = 64;
        l.attention.rope_dim = 16;
    }
    if (pick(rng, 2)) {
        l.mlp.experts = 16u << pick(rng, 3);
        l.mlp.topk = 1 + pick(rng, 8);
        l.mlp.expert_ffn = 128;
        l.mlp.shared_ffn = pick(rng, 2) ? 256 : 0;
        l.mlp.shared_gate = l.mlp.shared_ffn > 0 && pick(rng, 2);
        l.mlp.router = (uint8_t)pick(rng, 3);
        l.mlp.aux_loss = (uint8_t)pick(rng, 2);
        l.mlp.ffn = 0;
    }
    return l;
}

static void random_plan(orr_rng *rng, orr_plan *plan) {
    plan->split.tp = 1u << pick(rng, 4);
    plan->split.sp = plan->split.tp > 1 && pick(rng, 2);
    plan->split.cp = 1u << pick(rng, 2);
    plan->split.cp_kind = (uint8_t)pick(rng, 3);
    plan->split.ep = 1u << pick(rng, 4);
    plan->split.etp = 1u << pick(rng, 2);
    plan->batch.seq = 1024u << pick(rng, 3);
    plan->batch.mbs = 1 + pick(rng, 2);
    plan->numeric.precision = (uint8_t)pick(rng, ORR_PRECISION_COUNT);
    orr_variant *v = &plan->variant;
    v->attention = (uint8_t)pick(rng, 4);
    v->fused_norm = (uint8_t)pick(rng, 2);
    v->fused_activation = (uint8_t)pick(rng, 2);
    v->fused_permute = (uint8_t)pick(rng, 2);
    v->probs_in_activation = (uint8_t)pick(rng, 2);
    v->separate_projections = (uint8_t)pick(rng, 2);
    v->hidden_dropout = (uint8_t)pick(rng, 2);
    v->attention_dropout = v->attention != ORR_KERNEL_FLASH && pick(rng, 2);
    v->dispatch = (uint8_t)pick(rng, 4);
    plan->lora = (orr_lora){0};
    if (pick(rng, 4) == 0) {
        plan->lora.rank = 16;
        plan->lora.targets = (uint16_t)(1 + pick(rng, 511));
        plan->lora.base = (uint8_t)pick(rng, 4);
    }
    plan->shard.kind = pick(rng, 3) == 0 ? ORR_SHARD_FSDP2 : ORR_SHARD_NONE;
    plan->shard.dp = 32;
}

/* A rank's sharded parameters times the ranks they are sharded over, and replicated ones once, are
 * the layer's. Its ops point backwards and its tensors add up. */
static void check_object(const orr_object *object, const orr_layer *layer, const orr_plan *plan) {
    const orr_params *p = &object->params;
    uint64_t whole = (p->dense - p->norms) * plan->split.tp + p->norms +
                     p->expert * object->key.split.ep * object->key.split.etp;
    uint64_t repeated =
        layer->mlp.bias && object->key.split.etp > 1
            ? (object->key.split.etp - 1) * (uint64_t)layer->mlp.experts * layer->hidden
            : 0; /* expert output biases are on every expert-TP rank */
    if (plan->lora.rank == 0) {
        assert_int_equal(whole - repeated, orr_layer_params(layer));
    } else { /* the layer's own are frozen */
        uint64_t frozen = p->frozen_dense + p->frozen_expert * object->key.split.ep;
        uint64_t ranks = (uint64_t)plan->split.tp * object->key.split.etp;
        assert_true(frozen > 0 && frozen <= orr_layer_params(layer));
        assert_true(frozen * ranks >= orr_layer_params(layer));
        assert_true(ranks > 1 || frozen == orr_layer_params(layer));
        assert_true(p->frozen_linear_dense <= p->frozen_dense);
        assert_true(p->frozen_linear_expert <= p->frozen_expert);
    }
    uint64_t tensors = 0;
    for (uint32_t i = 0; i < object->tensor_count; i++) {
        tensors += object->tensor[i].numel * object->tensor[i].repeat;
    }
    assert_int_equal(tensors, p->dense + p->expert);
    assert_true(object->op_count <= ORR_MAX_OPS && object->saved_count <= ORR_MAX_SAVED);
    uint8_t phase = ORR_PHASE_FORWARD;
    for (uint32_t i = 0; i < object->op_count; i++) {
        const orr_op *op = &object->op[i];
        assert_true(op->phase >= phase);
        phase = op->phase;
        for (int d = 0; d < 2; d++) {
            assert_true(op->dep[d] >= -1 && op->dep[d] < (int)i);
        }
        assert_true(op->flops >= 0 && op->bytes >= 0);
        assert_true(op->kind != ORR_OP_COLLECTIVE || op->shape.comm.size > 1);
        assert_true(orr_op_name(op->name)[0] != '\0');
        bool again = op->phase == ORR_PHASE_FORWARD && op->stream != ORR_STREAM_DP;
        assert_int_equal((op->modules & ORR_MODULE_LAYER) != 0, again);
    }
}

/* More recomputation never keeps more, as long as one module is not within another's checkpoint
 * (its input would be kept in the place of what it replaces). */
static void check_recompute(const orr_object *object) {
    static const uint32_t MODULE[] = {
        ORR_MODULE_CORE_ATTN, ORR_MODULE_LAYERNORM,      ORR_MODULE_MLP,        ORR_MODULE_MOE,
        ORR_MODULE_MOE_ACT,   ORR_MODULE_SHARED_EXPERTS, ORR_MODULE_MLA_UP_PROJ};
    uint64_t all = orr_object_saved(object, 0);
    assert_int_equal(all, object->saved_all);
    for (size_t i = 0; i < sizeof MODULE / sizeof *MODULE; i++) {
        uint64_t one = orr_object_saved(object, MODULE[i]);
        bool small_core = MODULE[i] == ORR_MODULE_CORE_ATTN || MODULE[i] == ORR_MODULE_MLA_UP_PROJ;
        /* keeps operands before they were repeated, or an input that frozen weights do not need */
        assert_true(one <= all || small_core || object->key.lora.rank > 0);
        assert_true(one >= object->saved_input);
        assert_true(orr_object_saved(object, MODULE[i] | ORR_MODULE_LAYER) == object->saved_input);
    }
    assert_true(object->saved_input < all || object->key.lora.rank > 0);
    assert_int_equal(object->saved_loss, 0);
}

static void random_layers_hold(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_linker *linker = orr_linker_new();
    orr_rng rng = {7};
    uint32_t lowered = 0;
    for (int i = 0; i < 20000; i++) {
        orr_err err = {0};
        fixture f;
        orr_layer layer = random_layer(&rng);
        fixture_init(&f, layer, 2, 32000);
        random_plan(&rng, &f.resolved.plan);
        orr_object_key key;
        orr_link_layer_key(&f.resolved.plan, &layer, &key);
        const orr_object *object = NULL;
        orr_status status = orr_linker_object(linker, &key, &object, &err);
        if (status == ORR_E_INFEASIBLE) { /* more ranks than experts or heads */
            continue;
        }
        if (status != ORR_OK) {
            print_error("%s\n", err.message);
        }
        assert_int_equal(status, ORR_OK);
        lowered++;
        bool replicated = layer.attention.kv_heads < f.resolved.plan.split.tp;
        if (!replicated) {
            check_object(object, &layer, &f.resolved.plan);
        }
        check_recompute(object);
        const orr_object *twin = NULL;
        assert_int_equal(orr_linker_object(linker, &key, &twin, &err), ORR_OK);
        assert_ptr_equal(twin, object);
    }
    assert_true(lowered > 15000);
    orr_linker_free(linker);
    orr_arena_free(arena);
}

/* Whatever a key holds, lowering ends with an object or a reason. */
static void any_key_is_answered(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_rng rng = {3};
    uint32_t lowered = 0, refused = 0;
    for (int i = 0; i < 20000; i++) {
        fixture f;
        orr_layer layer = random_layer(&rng);
        fixture_init(&f, layer, 2, 32000);
        random_plan(&rng, &f.resolved.plan);
        orr_object_key key;
        orr_link_layer_key(&f.resolved.plan, &layer, &key);
        unsigned char bytes[sizeof key];
        memcpy(bytes, &key, sizeof key);
        for (uint32_t n = pick(&rng, 4); n > 0; n--) {
            bytes[pick(&rng, sizeof key)] = (unsigned char)pick(&rng, 256);
        }
        memcpy(&key, bytes, sizeof key);
        orr_object *object = NULL;
        orr_err err = {0};
        if (orr_lower(arena, &key, &object, &err) == ORR_OK) {
            lowered++;
            assert_true(object->saved_input <= object->saved_all);
        } else {
            refused++;
            assert_true(err.message[0] != '\0');
        }
        orr_arena_reset(arena);
    }
    assert_true(lowered > 1000 && refused > 1000);
    orr_arena_free(arena);
}

/* Splitting a layer over TP ranks divides its matrix flops exactly. */
static void flops_divide_over_ranks(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_rng rng = {11};
    for (int i = 0; i < 300; i++) {
        fixture f;
        orr_layer layer = random_layer(&rng);
        if (layer.attention.kind == ORR_ATTENTION_MLA || layer.mlp.experts > 0) {
            continue; /* latents and routers are computed by every rank */
        }
        double flops[2] = {0, 0};
        for (int k = 0; k < 2; k++) {
            fixture_init(&f, layer, 2, 32000);
            orr_plan *plan = &f.resolved.plan;
            plan->split.tp = k ? 8 : 1;
            plan->split.sp = (uint8_t)k;
            orr_object_key key;
            orr_link_layer_key(plan, &layer, &key);
            orr_object *object = NULL;
            assert_int_equal(orr_lower(arena, &key, &object, NULL), ORR_OK);
            for (uint32_t o = 0; o < object->op_count; o++) {
                flops[k] += object->op[o].flops;
            }
        }
        assert_true(flops[0] == 8 * flops[1]);
    }
    orr_arena_free(arena);
}

/* Whatever the schedule and the split, the chunks of a chain together are the model: parameters,
 * and saved bytes of everything but the ends' own tensors. */
static void pipelines_hold_the_model(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_linker *linker = orr_linker_new();
    orr_rng rng = {5};
    uint32_t linked = 0;
    for (int i = 0; i < 3000; i++) {
        fixture f;
        uint32_t pp = 1u << pick(&rng, 4), vpp = 1 + pick(&rng, 4);
        uint8_t kind = (uint8_t)pick(&rng, ORR_SCHEDULE_DUALPIPEV + 1);
        uint32_t fixed = orr_schedule_fixed_vpp((orr_schedule_kind)kind);
        vpp = fixed != 0 ? fixed : vpp;
        fixture_init(&f, fixture_layer(512, 8, 4, 1024), 32 + pick(&rng, 9), 32000);
        f.kind[1] = fixture_moe_layer(512, 8, 4, 8, 2, 256);
        f.model.kind_count = 2;
        for (uint32_t l = 0; l < f.model.layers; l++) {
            f.layer_kind[l] = (uint8_t)pick(&rng, 2);
        }
        orr_plan *plan = &f.resolved.plan;
        plan->gpus = pp;
        plan->pipe = (orr_pipe){.pp = pp, .vpp = vpp, .schedule = kind};
        plan->pipe.placement = ORR_PLACE_BALANCED;
        plan->batch.micro_batches = 2 * pp;
        plan->variant.vocab_unpadded = 1;
        orr_program program;
        orr_err err = {0};
        if (orr_link(linker, arena, &f.resolved, NULL, &program, &err) != ORR_OK) {
            assert_int_equal(err.status, ORR_E_INFEASIBLE);
            continue;
        }
        linked++;
        uint64_t params = 0;
        uint32_t layers = 0, heads = 0, embeddings = 0;
        for (uint32_t c = 0; c < pp * vpp; c++) {
            const orr_chunk *chunk = orr_program_chunk(&program, c / vpp, c % vpp);
            uint64_t saved = 0;
            for (uint32_t p = 0; p < chunk->part_count; p++) {
                const orr_part *part = &chunk->part[p];
                saved += part->count * (part->object->saved_all - part->object->saved_loss);
            }
            assert_int_equal(chunk->saved_bytes, saved);
            params += chunk->params.dense + chunk->params.expert;
            layers += chunk->layers;
            heads += chunk->has_head;
            embeddings += chunk->has_embedding;
        }
        uint32_t chains = orr_schedule_two_way((orr_schedule_kind)kind) ? 2 : 1;
        assert_int_equal(params, chains * orr_model_count(&f.model).total);
        assert_int_equal(layers, chains * f.model.layers);
        assert_int_equal(heads, chains);
        assert_int_equal(embeddings, chains);
        orr_arena_reset(arena);
    }
    assert_true(linked > 500);
    orr_linker_free(linker);
    orr_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(catalog_models_agree),     cmocka_unit_test(random_layers_hold),
        cmocka_unit_test(any_key_is_answered),      cmocka_unit_test(flops_divide_over_ranks),
        cmocka_unit_test(pipelines_hold_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
