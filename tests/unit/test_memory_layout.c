#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/num.h"
#include "base/rng.h"
#include "doc/doc.h"
#include "memory/memory_int.h"

enum { MAX_TENSORS = 64, MAX_BUCKETS = 64 };

static void read_spec(const orr_tree *layout, orr_param_tensor *tensor, uint8_t *alone,
                      orr_buffer_spec *spec) {
    const orr_tree *numels = orr_tree_get(layout, "param_numels");
    spec->tensor = tensor;
    spec->tensor_count = (uint32_t)orr_tree_size(numels);
    assert_in_range(spec->tensor_count, 1, MAX_TENSORS);
    for (uint32_t i = 0; i < spec->tensor_count; i++) {
        tensor[i].numel = (uint64_t)orr_tree_int(orr_tree_at(numels, i), 0);
        tensor[i].repeat = 1;
    }
    spec->shards = (uint64_t)orr_tree_int(orr_tree_get(layout, "dp"), 0);
    spec->bucket_elements = (uint64_t)orr_tree_int(orr_tree_get(layout, "bucket_size"), 0);
    spec->busbw_padding =
        orr_tree_bool(orr_tree_get(layout, "pad_buckets_for_high_nccl_busbw"), false);
    const orr_tree *shared = orr_tree_get(layout, "shared_embedding_indices");
    for (size_t i = 0; i < orr_tree_size(shared); i++) {
        alone[orr_tree_int(orr_tree_at(shared, i), 0)] = 1;
    }
    spec->alone = alone;
}

static uint64_t cell(const orr_tree *rows, uint32_t row, size_t column) {
    return (uint64_t)orr_tree_int(orr_tree_at(orr_tree_at(rows, row), column), -1);
}

static void check_layout(const orr_tree *layout) {
    orr_param_tensor tensor[MAX_TENSORS] = {{0}};
    uint8_t alone[MAX_TENSORS] = {0};
    orr_buffer_spec spec = {0};
    read_spec(layout, tensor, alone, &spec);
    uint64_t range[MAX_TENSORS][2], bucket[MAX_BUCKETS][2], unpadded[MAX_BUCKETS];
    uint32_t bucket_of[MAX_TENSORS];
    orr_buffer_layout got = {.range = range,
                             .bucket_of = bucket_of,
                             .bucket = bucket,
                             .bucket_unpadded = unpadded,
                             .max_buckets = MAX_BUCKETS};
    orr_buffer_lay_out(&spec, &got);

    const orr_tree *buckets = orr_tree_get(layout, "buckets");
    assert_int_equal(got.bucket_count, orr_tree_size(buckets));
    for (uint32_t i = 0; i < got.bucket_count; i++) {
        assert_int_equal(bucket[i][0], cell(buckets, i, 0));
        assert_int_equal(bucket[i][1], cell(buckets, i, 1));
        assert_int_equal(
            unpadded[i],
            orr_tree_int(orr_tree_at(orr_tree_get(layout, "per_bucket_unpadded"), i), -1));
    }
    const orr_tree *ranges = orr_tree_get(layout, "param_ranges");
    for (uint32_t i = 0; i < spec.tensor_count; i++) {
        assert_int_equal(range[i][0], cell(ranges, i, 0));
        assert_int_equal(range[i][1], cell(ranges, i, 1));
        assert_int_equal(bucket_of[i], cell(ranges, i, 2));
    }
    assert_int_equal(got.total, orr_tree_int(orr_tree_get(layout, "total_numel"), -1));
    assert_int_equal(got.shard, orr_tree_int(orr_tree_get(layout, "shard_numel"), -1));
}

static void check_file(const char *path, size_t least) {
    orr_arena *arena = orr_arena_new();
    orr_tree *layouts = NULL;
    orr_err err = {0};
    assert_int_equal(orr_doc_read_file(arena, path, &layouts, &err), ORR_OK);
    assert_true(orr_tree_size(layouts) >= least);
    for (size_t i = 0; i < orr_tree_size(layouts); i++) {
        check_layout(orr_tree_at(layouts, i));
    }
    orr_arena_free(arena);
}

static void layouts_are_megatrons(void **state) {
    (void)state;
    check_file(ORR_TEST_DIR "/data/memory/distopt_layout.json", 12);
}

static void layouts_of_the_shared_truth(void **state) {
    (void)state;
    const char *path = ORR_SHARED_DIR "/truth/memory/distopt_layout.json";
    FILE *file = fopen(path, "r");
    if (!file) {
        skip();
    }
    fclose(file);
    check_file(path, 1);
}

/* The evaluation's closed form for one bucket is the walk's result. */
static void one_bucket_has_a_closed_form(void **state) {
    (void)state;
    orr_rng rng = {7};
    for (uint32_t round = 0; round < 2000; round++) {
        orr_param_tensor tensor[MAX_TENSORS] = {{0}};
        uint32_t count = 1 + orr_rng_below(&rng, MAX_TENSORS);
        uint64_t aligned = 0;
        for (uint32_t i = 0; i < count; i++) {
            tensor[i].numel = 1 + orr_rng_below(&rng, 100000);
            tensor[i].repeat = 1 + orr_rng_below(&rng, 3);
            aligned += tensor[i].repeat * orr_round_up_u64(tensor[i].numel, ORR_TENSOR_ALIGN);
        }
        orr_buffer_spec spec = {.tensor = tensor,
                                .tensor_count = count,
                                .shards = 1 + orr_rng_below(&rng, 600),
                                .busbw_padding = orr_rng_below(&rng, 2)};
        orr_buffer_layout got = {0};
        orr_buffer_lay_out(&spec, &got);
        uint64_t divisor = orr_buffer_divisor(spec.shards, spec.busbw_padding);
        assert_int_equal(got.bucket_count, 1);
        assert_int_equal(got.total, orr_round_up_u64(aligned, divisor));
        assert_int_equal(got.shard * spec.shards, got.total);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_are_megatrons),
        cmocka_unit_test(layouts_of_the_shared_truth),
        cmocka_unit_test(one_bucket_has_a_closed_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
