/* Placement of layers: Megatron's splits and layouts, the walk by cost, min-max. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "doc/doc.h"
#include "plan/plan.h"

enum { MAX_CHUNKS = 512 };

static uint8_t all_first[ORR_MAX_LAYERS]; /* every layer is of kind 0 */

typedef struct placed {
    uint32_t count[MAX_CHUNKS], offset[MAX_CHUNKS];
} placed;

static orr_layer plain_layer(uint32_t hidden, uint32_t ffn) {
    uint32_t heads = hidden / 64;
    return (orr_layer){
        .hidden = hidden,
        .attention = {.heads = heads, .kv_heads = heads, .head_dim = 64, .v_dim = 64},
        .mlp = {.gated = 1, .ffn = ffn}};
}

static orr_model model_of(const orr_layer *layer, uint32_t layers, uint32_t vocab) {
    return (orr_model){.layers = layers,
                       .hidden = layer->hidden,
                       .vocab = vocab,
                       .kind_count = 1,
                       .kind = layer,
                       .layer_kind = all_first};
}

static uint32_t number(const orr_tree *map, const char *key, uint32_t otherwise) {
    return (uint32_t)orr_tree_int(orr_tree_get(map, key), otherwise);
}

/* ---- Megatron's vectors --------------------------------------------------------------------- */

static void check_split(const orr_tree *vector) {
    const orr_tree *config = orr_tree_get(vector, "config");
    orr_layer layer = plain_layer(1024, 4096);
    orr_model model = model_of(&layer, number(config, "num_layers", 0), 32000);
    orr_plan plan = {.pipe = {.pp = number(config, "pipeline_model_parallel_size", 1),
                              .vpp = number(config, "virtual_pipeline_model_parallel_size", 1)}};
    plan.pipe.schedule = plan.pipe.vpp > 1 ? ORR_SCHEDULE_INTERLEAVED : ORR_SCHEDULE_1F1B;
    plan.pipe.first_layers = number(config, "num_layers_in_first_pipeline_stage", 0);
    plan.pipe.last_layers = number(config, "num_layers_in_last_pipeline_stage", 0);
    bool embedding =
        orr_tree_bool(orr_tree_get(config, "account_for_embedding_in_pipeline_split"), false);
    bool loss = orr_tree_bool(orr_tree_get(config, "account_for_loss_in_pipeline_split"), false);
    bool counts = plan.pipe.first_layers > 0 || plan.pipe.last_layers > 0;
    plan.pipe.split_flags =
        (uint8_t)((embedding ? ORR_SPLIT_EMBEDDING : 0) | (loss ? ORR_SPLIT_LOSS : 0) |
                  (counts ? ORR_SPLIT_COUNTS : 0));
    placed got;
    assert_int_equal(orr_plan_layers(&model, &plan, got.count, got.offset, NULL), ORR_OK);
    for (uint32_t r = 0; r < plan.pipe.pp; r++) {
        const orr_tree *layers = orr_tree_at(orr_tree_get(vector, "layers"), r);
        const orr_tree *offsets = orr_tree_at(orr_tree_get(vector, "offset"), r);
        assert_int_equal(orr_tree_size(layers), plan.pipe.vpp);
        for (uint32_t k = 0; k < plan.pipe.vpp; k++) {
            uint32_t chunk = r * plan.pipe.vpp + k;
            assert_int_equal(got.count[chunk], orr_tree_int(orr_tree_at(layers, k), -1));
            if (got.count[chunk] > 0) {
                assert_int_equal(got.offset[chunk], orr_tree_int(orr_tree_at(offsets, k), -1));
            }
        }
    }
}

static uint32_t letters(const char *text, char letter) {
    uint32_t n = 0;
    for (; *text != '\0'; text++) {
        n += *text == letter;
    }
    return n;
}

static void check_layout(orr_arena *arena, const orr_tree *vector) {
    orr_layout *layout;
    const char *text = orr_tree_text(orr_tree_get(vector, "layout"), "");
    assert_int_equal(orr_layout_read(arena, text, &layout, NULL), ORR_OK);
    const orr_tree *stages = orr_tree_get(vector, "stages");
    assert_int_equal(layout->stages, orr_tree_size(stages));
    orr_layer layer = plain_layer(1024, 4096);
    orr_model model = model_of(&layer, 0, 32000);
    for (uint32_t i = 0; i < layout->stages; i++) {
        const char *stage = orr_tree_text(orr_tree_at(stages, i), "");
        assert_int_equal(layout->layers[i], letters(stage, 't'));
        if (letters(stage, 'm') > 0) {
            assert_int_equal(layout->mtp_stage, i);
            assert_int_equal(layout->mtp_layers, letters(stage, 'm'));
        }
        model.layers += layout->layers[i];
    }
    orr_plan plan = {.pipe = {.pp = number(vector, "pp", 0), .vpp = number(vector, "vpp", 0)},
                     .layout = layout};
    plan.pipe.schedule = plan.pipe.vpp > 1 ? ORR_SCHEDULE_INTERLEAVED : ORR_SCHEDULE_1F1B;
    placed got;
    assert_int_equal(orr_plan_layers(&model, &plan, got.count, got.offset, NULL), ORR_OK);
    for (uint32_t r = 0; r < plan.pipe.pp; r++) {
        const orr_tree *chunks = orr_tree_at(orr_tree_get(vector, "rank_chunks"), r);
        for (uint32_t k = 0; k < plan.pipe.vpp; k++) {
            const char *chunk = orr_tree_text(orr_tree_at(chunks, k), "");
            assert_int_equal(got.count[r * plan.pipe.vpp + k], letters(chunk, 't'));
        }
    }
}

static void megatron_vectors(void **state) {
    (void)state;
    orr_arena *arena = orr_arena_new();
    orr_tree *vectors;
    const char *path = ORR_TEST_DIR "/data/plan/layer_split.json";
    assert_int_equal(orr_doc_read_file(arena, path, &vectors, NULL), ORR_OK);
    assert_int_equal(orr_tree_size(vectors), 16);
    for (size_t i = 0; i < orr_tree_size(vectors); i++) {
        const orr_tree *vector = orr_tree_at(vectors, i);
        if (orr_tree_get(vector, "config") != NULL) {
            check_split(vector);
        } else {
            check_layout(arena, vector);
        }
    }
    orr_arena_free(arena);
}

static void layouts_that_are_none(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",
        "t|tL",
        "Et|t",
        "tE|tL",
        "EtL|t",
        "Emt|L",
        "E|tm|mL",
        "E(t|(t|)*2)L",
        "E(t|*2L",
        "Et|x|L",
        "EtL*999999999999999999999",
        "E(t|)*99999L",
        "Et*99999|L",
        "E*2t|L",
        "EtE|L",
    };
    orr_arena *arena = orr_arena_new();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        orr_layout *layout;
        orr_err err = {0};
        if (orr_layout_read(arena, texts[i], &layout, &err) == ORR_OK) {
            fail_msg("\"%s\" was read", texts[i]);
        }
        assert_true(strlen(err.message) > 10);
    }
    orr_arena_free(arena);
}

/* ---- by cost -------------------------------------------------------------------------------- */

/* The published sweep's 1.34B model, whose costs tie with the thresholds: a head is four layers. */
static void cost_walk_of_the_sweep(void **state) {
    (void)state;
    orr_layer layer = plain_layer(2048, 8192);
    orr_model model = model_of(&layer, 16, 131072);
    static const uint32_t two[] = {10, 6}, four[] = {5, 5, 5, 1};
    placed got;
    orr_plan plan = {.pipe = {.pp = 2, .vpp = 1, .placement = ORR_PLACE_COST_WALK}};
    assert_int_equal(orr_plan_layers(&model, &plan, got.count, got.offset, NULL), ORR_OK);
    assert_memory_equal(got.count, two, sizeof two);
    plan.pipe.pp = 4;
    assert_int_equal(orr_plan_layers(&model, &plan, got.count, got.offset, NULL), ORR_OK);
    assert_memory_equal(got.count, four, sizeof four);
    assert_int_equal(got.offset[3], 15);
    static const uint32_t no_tie[] = {6, 5, 5, 0};
    model.vocab += 2048; /* a threshold now lies behind the fifth layer */
    assert_int_equal(orr_plan_layers(&model, &plan, got.count, got.offset, NULL), ORR_OK);
    assert_memory_equal(got.count, no_tie, sizeof no_tie);
}

/* A head worth several layers takes room on the last stage. */
static void balanced_makes_room_for_the_head(void **state) {
    (void)state;
    orr_layer layer = plain_layer(4096, 14336);
    orr_model model = model_of(&layer, 29, 3 * (4 * 4096 + 3 * 14336)); /* a head of three layers */
    static const uint32_t even[] = {8, 8, 8, 8};
    placed got;
    orr_plan plan = {.pipe = {.pp = 4, .vpp = 1, .placement = ORR_PLACE_BALANCED}};
    assert_int_equal(orr_plan_layers(&model, &plan, got.count, got.offset, NULL), ORR_OK);
    uint32_t sum = 0, most = 0;
    for (int i = 0; i < 4; i++) {
        sum += got.count[i];
        most = got.count[i] > most ? got.count[i] : most;
    }
    assert_int_equal(sum, 29);
    assert_int_equal(most, 8); /* 32 layers' worth over 4 */
    assert_int_equal(got.count[3], 5);
    model.layers = 30; /* 32 with the ends as layers */
    assert_int_equal(orr_plan_layers(&model, &plan, got.count, got.offset, NULL), ORR_OK);
    assert_int_equal(got.count[0], 7);
    assert_int_equal(got.count[3], 7);
    model.layers = 32; /* divides: even */
    assert_int_equal(orr_plan_layers(&model, &plan, got.count, got.offset, NULL), ORR_OK);
    assert_memory_equal(got.count, even, sizeof even);
}

/* 27 layers and two ends over four stages: the remainder goes first. */
static void spread_counts_the_ends(void **state) {
    (void)state;
    orr_layer layer = plain_layer(1024, 4096);
    orr_model model = model_of(&layer, 27, 32000);
    static const uint32_t four[] = {7, 7, 7, 6};
    placed got;
    orr_plan plan = {.pipe = {.pp = 4, .vpp = 1, .placement = ORR_PLACE_SPREAD}};
    assert_int_equal(orr_plan_layers(&model, &plan, got.count, got.offset, NULL), ORR_OK);
    assert_memory_equal(got.count, four, sizeof four);
    plan.pipe.pp = 1;
    assert_int_equal(orr_plan_layers(&model, &plan, got.count, got.offset, NULL), ORR_OK);
    assert_int_equal(got.count[0], 27);
    plan.pipe.pp = 30;
    assert_int_equal(orr_plan_layers(&model, &plan, got.count, got.offset, NULL), ORR_E_INFEASIBLE);
}

static void slots_only_where_layers_do_not_divide(void **state) {
    (void)state;
    orr_layer layer = plain_layer(1024, 4096);
    orr_model model = model_of(&layer, 30, 32000);
    static const uint32_t slots[] = {7, 8, 8, 7};
    placed got;
    orr_plan plan = {.pipe = {.pp = 4, .vpp = 1, .placement = ORR_PLACE_SLOTS}};
    assert_int_equal(orr_plan_layers(&model, &plan, got.count, got.offset, NULL), ORR_OK);
    assert_memory_equal(got.count, slots, sizeof slots);
    model.layers = 31;
    assert_int_equal(orr_plan_layers(&model, &plan, got.count, got.offset, NULL), ORR_E_INFEASIBLE);
    plan.pipe.placement = ORR_PLACE_EVEN;
    model.layers = 30;
    assert_int_equal(orr_plan_layers(&model, &plan, got.count, got.offset, NULL), ORR_E_INFEASIBLE);
}

/* A wave's second chunk comes back; the second direction holds everything once more. */
static void waves_and_two_ways(void **state) {
    (void)state;
    orr_layer layer = plain_layer(1024, 4096);
    orr_model model = model_of(&layer, 32, 32000);
    static const uint32_t wave[] = {0, 28, 4, 24, 8, 20, 12, 16};
    static const uint32_t two_way[] = {0, 24, 8, 16, 16, 8, 24, 0};
    placed got;
    orr_plan plan = {.pipe = {.pp = 4, .vpp = 2, .schedule = ORR_SCHEDULE_ZBV}};
    assert_int_equal(orr_plan_layers(&model, &plan, got.count, got.offset, NULL), ORR_OK);
    assert_memory_equal(got.offset, wave, sizeof wave);
    assert_int_equal(got.count[7], 4);
    plan.pipe.schedule = ORR_SCHEDULE_DUALPIPE;
    assert_int_equal(orr_plan_layers(&model, &plan, got.count, got.offset, NULL), ORR_OK);
    assert_memory_equal(got.offset, two_way, sizeof two_way);
    assert_int_equal(got.count[7], 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(megatron_vectors),
        cmocka_unit_test(layouts_that_are_none),
        cmocka_unit_test(cost_walk_of_the_sweep),
        cmocka_unit_test(balanced_makes_room_for_the_head),
        cmocka_unit_test(spread_counts_the_ends),
        cmocka_unit_test(slots_only_where_layers_do_not_divide),
        cmocka_unit_test(waves_and_two_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
