/* Linking: chunk composition, recompute counts, memo keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "program_fixtures.h"

typedef struct linked {
    orr_linker *linker;
    orr_arena *arena;
    orr_program program;
    orr_err err;
} linked;

static void start(linked *l) {
    memset(l, 0, sizeof *l);
    l->linker = orr_linker_new();
    l->arena = orr_arena_new();
}

static void stop(linked *l) {
    orr_arena_free(l->arena);
    orr_linker_free(l->linker);
}

static void link_fixture(linked *l, const fixture *f) {
    orr_status status = orr_link(l->linker, l->arena, &f->resolved, NULL, &l->program, &l->err);
    if (status != ORR_OK) {
        print_error("%s\n", l->err.message);
    }
    assert_int_equal(status, ORR_OK);
}

static uint64_t params_of(const orr_program *program, uint32_t pp, uint32_t vpp) {
    uint64_t total = 0;
    for (uint32_t r = 0; r < pp; r++) {
        for (uint32_t c = 0; c < vpp; c++) {
            const orr_chunk *chunk = orr_program_chunk(program, r, c);
            total += chunk->params.dense + chunk->params.expert;
        }
    }
    return total;
}

static void one_stage_holds_everything(void **state) {
    (void)state;
    fixture f;
    linked l;
    start(&l);
    fixture_init(&f, fixture_layer(4096, 32, 8, 14336), 32, 128256);
    link_fixture(&l, &f);
    const orr_chunk *chunk = orr_program_chunk(&l.program, 0, 0);
    assert_int_equal(l.program.chunk_kind_count, 1);
    assert_int_equal(chunk->part_count, 3);
    assert_int_equal(chunk->part[1].count, 32);
    assert_true(chunk->has_embedding && chunk->has_head);
    assert_int_equal(params_of(&l.program, 1, 1), 8030261248);
    /* per layer 8Nh + 8N + 2n(A+2G)d + 2nAd + 4nA + 6nF; head 4Nh + 4N; ids 8n */
    uint64_t n = 4096, h = 4096;
    uint64_t layer = 8 * n * h + 8 * n + 2 * n * 48 * 128 + 2 * n * h + 4 * n * 32 + 6 * n * 14336;
    assert_int_equal(chunk->saved_bytes, 32 * layer + 4 * n * h + 4 * n + 8 * n);
    stop(&l);
}

static void equal_plans_share_objects(void **state) {
    (void)state;
    fixture f;
    linked l;
    start(&l);
    fixture_init(&f, fixture_layer(4096, 32, 8, 14336), 32, 128256);
    link_fixture(&l, &f);
    orr_program first = l.program;
    fixture other;
    fixture_init(&other, fixture_layer(4096, 32, 8, 14336), 32, 128256);
    other.resolved.plan.split.load = 512;         /* experts that a dense layer has not */
    other.resolved.plan.numeric.master_bytes = 2; /* nor what an object does not read */
    other.resolved.plan.shard.dp = 16;
    other.resolved.plan.split.ep = 1;
    link_fixture(&l, &other);
    assert_ptr_equal(first.order, l.program.order);
    for (int p = 0; p < 3; p++) {
        assert_ptr_equal(first.chunk_kind[0].part[p].object,
                         l.program.chunk_kind[0].part[p].object);
    }
    other.resolved.plan.batch.seq = 2048;
    link_fixture(&l, &other);
    assert_ptr_not_equal(first.chunk_kind[0].part[1].object,
                         l.program.chunk_kind[0].part[1].object);
    stop(&l);
}

static void recompute_counts_per_chunk(void **state) {
    (void)state;
    fixture f;
    linked l;
    start(&l);
    fixture_init(&f, fixture_layer(2048, 16, 16, 8192), 32, 32000);
    orr_plan *plan = &f.resolved.plan;
    plan->gpus = 4;
    plan->pipe = (orr_pipe){.pp = 4, .vpp = 2, .schedule = ORR_SCHEDULE_INTERLEAVED, .p2p = 2};
    plan->recompute = (orr_recompute){.kind = ORR_RECOMPUTE_BLOCK, .layers = 3};
    link_fixture(&l, &f);
    assert_int_equal(l.program.chunk_kind_count, 3);
    for (uint32_t c = 0; c < 8; c++) {
        const orr_chunk *chunk = orr_program_chunk(&l.program, c / 2, c % 2);
        const orr_part *layers = &chunk->part[chunk->has_embedding ? 1 : 0];
        assert_int_equal(layers->count, 4);
        assert_int_equal(layers->checkpointed, 3);
        assert_int_equal(chunk->has_embedding, c == 0);
        assert_int_equal(chunk->has_head, c == 7);
    }
    const orr_chunk *middle = orr_program_chunk(&l.program, 1, 0);
    const orr_object *layer = middle->part[0].object;
    assert_int_equal(middle->saved_bytes, layer->saved_all + 3 * layer->saved_input);
    assert_int_equal(layer->saved_input, 2 * 4096 * 2048);
    assert_int_equal(middle->recompute_bytes, layer->saved_all - layer->saved_input);

    plan->recompute = (orr_recompute){.kind = ORR_RECOMPUTE_UNIFORM, .layers = 2};
    link_fixture(&l, &f);
    middle = orr_program_chunk(&l.program, 1, 0);
    assert_int_equal(middle->saved_bytes, 2 * layer->saved_input);
    assert_int_equal(middle->recompute_bytes, 2 * layer->saved_all - layer->saved_input);

    plan->recompute = (orr_recompute){.kind = ORR_RECOMPUTE_SELECTIVE, .modules = ORR_MODULE_MLP};
    link_fixture(&l, &f);
    middle = orr_program_chunk(&l.program, 1, 0);
    assert_int_equal(l.program.modules, ORR_MODULE_MLP);
    assert_int_equal(middle->part[0].checkpointed, 0);
    assert_int_equal(middle->saved_bytes, 4 * orr_object_saved(layer, ORR_MODULE_MLP));
    stop(&l);
}

static void tied_matrices_are_copied_where_missing(void **state) {
    (void)state;
    fixture f;
    linked l;
    start(&l);
    fixture_init(&f, fixture_layer(1024, 16, 16, 4096), 8, 50257);
    f.model.tied = 1;
    assert_int_equal(orr_link_vocab(&f.model, &f.resolved.plan), 50304);
    link_fixture(&l, &f);
    uint64_t matrix = 50304ull * 1024;
    uint64_t one = params_of(&l.program, 1, 1);
    f.resolved.plan.gpus = 2;
    f.resolved.plan.pipe.pp = 2;
    link_fixture(&l, &f);
    assert_int_equal(params_of(&l.program, 2, 1), one + matrix);
    f.model.tied = 0;
    link_fixture(&l, &f);
    assert_int_equal(params_of(&l.program, 2, 1), one + matrix);
    f.resolved.plan.variant.vocab_unpadded = 1;
    assert_int_equal(orr_link_vocab(&f.model, &f.resolved.plan), 50257);
    stop(&l);
}

static void prediction_depths_bring_copies(void **state) {
    (void)state;
    fixture f;
    linked l;
    start(&l);
    fixture_init(&f, fixture_layer(1024, 16, 16, 4096), 8, 32000);
    link_fixture(&l, &f);
    uint64_t without = params_of(&l.program, 1, 1);
    uint64_t layer = l.program.chunk_kind[0].part[1].object->params.dense;
    f.model.mtp_layers = 1;
    link_fixture(&l, &f);
    uint64_t depth = layer + 2ull * 1024 * 1024 + 3 * 1024;
    assert_int_equal(params_of(&l.program, 1, 1), without + depth);
    f.resolved.plan.gpus = 2;
    f.resolved.plan.pipe.pp = 2;
    link_fixture(&l, &f); /* the last stage lacks the embedding */
    assert_int_equal(params_of(&l.program, 2, 1), without + depth + 32000ull * 1024);
    assert_true(orr_program_chunk(&l.program, 1, 0)->part_count == 4);
    stop(&l);
}

static void mixed_layers_become_parts(void **state) {
    (void)state;
    fixture f;
    linked l;
    start(&l);
    fixture_init(&f, fixture_layer(1024, 16, 4, 4096), 8, 32000);
    f.kind[1] = fixture_moe_layer(1024, 16, 4, 16, 2, 512);
    f.model.kind_count = 2;
    for (int i = 2; i < 8; i++) {
        f.layer_kind[i] = 1;
    }
    f.resolved.plan.gpus = 8;
    f.resolved.plan.shard.dp = 4;
    f.resolved.plan.split.ep = 4;
    f.resolved.plan.pipe.pp = 2;
    link_fixture(&l, &f);
    const orr_chunk *first = orr_program_chunk(&l.program, 0, 0);
    assert_int_equal(first->part_count, 3);
    assert_int_equal(first->part[1].count, 2);
    assert_int_equal(first->part[2].count, 2);
    assert_int_equal(first->part[2].object->params.expert, 4ull * 3 * 1024 * 512);
    assert_int_equal(first->part[1].object->key.split.ep, 1); /* a dense layer does not read it */
    stop(&l);
}

static void bad_splits_are_refused(void **state) {
    (void)state;
    fixture f;
    linked l;
    start(&l);
    fixture_init(&f, fixture_layer(1024, 16, 4, 4096), 8, 32000);
    f.resolved.plan.split.tp = 3;
    f.resolved.plan.gpus = 3;
    assert_int_equal(orr_link(l.linker, l.arena, &f.resolved, NULL, &l.program, &l.err),
                     ORR_E_INFEASIBLE);
    assert_non_null(strstr(l.err.message, "heads"));
    fixture_init(&f, fixture_layer(1 << 24, 1 << 10, 1, 1 << 24), 8, 32000);
    f.resolved.plan.batch.seq = 1 << 27;
    assert_int_equal(orr_link(l.linker, l.arena, &f.resolved, NULL, &l.program, &l.err),
                     ORR_E_LIMIT);
    stop(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stage_holds_everything),
        cmocka_unit_test(equal_plans_share_objects),
        cmocka_unit_test(recompute_counts_per_chunk),
        cmocka_unit_test(tied_matrices_are_copied_where_missing),
        cmocka_unit_test(prediction_depths_bring_copies),
        cmocka_unit_test(mixed_layers_become_parts),
        cmocka_unit_test(bad_splits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
