/* Buffers of the distributed optimizer against those that a framework's own function laid out:
 * every tensor's range and bucket, every bucket, the totals. Format:
 * tests/data/memory/distopt_layout.json. */
#include <string.h>

#include "base/err.h"
#include "doc/doc.h"
#include "memory/memory.h"
#include "study/study_int.h"

enum { MAX_TENSORS = 1 << 20 };

static uint64_t count_at(const orr_tree *node) {
    int64_t value = orr_tree_int(node, -1);
    return value >= 0 ? (uint64_t)value : UINT64_MAX;
}

static uint64_t cell(const orr_tree *rows, size_t row, size_t column) {
    return count_at(orr_tree_at(orr_tree_at(rows, row), column));
}

static orr_status read_spec(orr_arena *arena, const orr_tree *layout, orr_buffer_spec *spec,
                            orr_err *err) {
    const orr_tree *numels = orr_tree_get(layout, "param_numels");
    size_t count = orr_tree_size(numels);
    if (count == 0 || count > MAX_TENSORS || orr_tree_get(layout, "param_ranges") == NULL) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(layout),
                           "a layout {param_numels, dp, bucket_size, param_ranges, buckets, "
                           "total_numel} of up to %d tensors is expected",
                           MAX_TENSORS);
    }
    orr_param_tensor *tensor = ORR_NEW_ARRAY(arena, orr_param_tensor, count);
    uint8_t *alone = ORR_NEW_ARRAY(arena, uint8_t, count);
    for (size_t i = 0; i < count; i++) {
        tensor[i] = (orr_param_tensor){.numel = count_at(orr_tree_at(numels, i)), .repeat = 1};
        if (tensor[i].numel == 0 || tensor[i].numel >> 40 != 0) {
            return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(orr_tree_at(numels, i)),
                               "a tensor has 1 to 2^40 elements");
        }
    }
    const orr_tree *shared = orr_tree_get(layout, "shared_embedding_indices");
    for (size_t i = 0; i < orr_tree_size(shared); i++) {
        uint64_t at = count_at(orr_tree_at(shared, i));
        if (at < count) {
            alone[at] = 1;
        }
    }
    uint64_t dp = count_at(orr_tree_get(layout, "dp"));
    if (dp == 0 || dp > 1 << 24) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(layout), "dp is 1 to 2^24");
    }
    int64_t bucket = orr_tree_int(orr_tree_get(layout, "bucket_size"), 0);
    *spec = (orr_buffer_spec){.tensor = tensor,
                              .tensor_count = (uint32_t)count,
                              .shards = dp,
                              .bucket_elements = bucket > 0 ? (uint64_t)bucket : 0,
                              .busbw_padding = orr_tree_bool(
                                  orr_tree_get(layout, "pad_buckets_for_high_nccl_busbw"), false),
                              .alone = alone};
    return ORR_OK;
}

/* The first thing that differs, or NULL. */
static const char *differs(orr_arena *arena, const orr_tree *layout, const orr_buffer_layout *got,
                           uint32_t tensor_count) {
    const orr_tree *buckets = orr_tree_get(layout, "buckets");
    const orr_tree *unpadded = orr_tree_get(layout, "per_bucket_unpadded");
    const orr_tree *ranges = orr_tree_get(layout, "param_ranges");
    if (got->bucket_count != orr_tree_size(buckets)) {
        return orr_arena_format(arena, "%u buckets, not %zu", got->bucket_count,
                                orr_tree_size(buckets));
    }
    for (uint32_t i = 0; i < got->bucket_count; i++) {
        if (got->bucket[i][0] != cell(buckets, i, 0) || got->bucket[i][1] != cell(buckets, i, 1) ||
            (unpadded != NULL && got->bucket_unpadded[i] != count_at(orr_tree_at(unpadded, i)))) {
            return orr_arena_format(arena, "bucket %u lies elsewhere", i);
        }
    }
    for (uint32_t i = 0; i < tensor_count; i++) {
        if (got->range[i][0] != cell(ranges, i, 0) || got->range[i][1] != cell(ranges, i, 1) ||
            got->bucket_of[i] != cell(ranges, i, 2)) {
            return orr_arena_format(arena, "tensor %u lies elsewhere", i);
        }
    }
    bool totals = got->total == count_at(orr_tree_get(layout, "total_numel")) &&
                  got->shard == count_at(orr_tree_get(layout, "shard_numel"));
    return totals ? NULL : "the totals differ";
}

static orr_status judge(orr_arena *arena, const orr_tree *layout, const char **what, orr_err *err) {
    orr_buffer_spec spec;
    ORR_TRY(read_spec(arena, layout, &spec, err));
    uint32_t count = spec.tensor_count;
    orr_buffer_layout got = {
        .range = (uint64_t(*)[2])orr_arena_array(arena, count, 2 * sizeof(uint64_t)),
        .bucket_of = ORR_NEW_ARRAY(arena, uint32_t, count),
        .bucket = (uint64_t(*)[2])orr_arena_array(arena, count, 2 * sizeof(uint64_t)),
        .bucket_unpadded = ORR_NEW_ARRAY(arena, uint64_t, count),
        .max_buckets = count};
    orr_buffer_lay_out(&spec, &got);
    *what = differs(arena, layout, &got, count);
    return ORR_OK;
}

orr_status orr_study_layouts(orr_arena *arena, const char *path, orr_tree **result, orr_err *err) {
    orr_tree *layouts = NULL;
    ORR_TRY(orr_doc_read_file(arena, path, &layouts, err));
    size_t count = orr_tree_kind_of(layouts) == ORR_TREE_LIST ? orr_tree_size(layouts) : 0;
    if (count == 0) {
        return orr_fail_at(err, ORR_E_SCHEMA, orr_tree_span(layouts),
                           "a list of layouts {param_numels, dp, param_ranges, ...} is expected");
    }
    orr_tree *map = orr_tree_new_map(arena);
    orr_tree *summary = orr_tree_put(arena, map, "summary", orr_tree_new_map(arena));
    orr_tree *failures = orr_tree_put(arena, map, "failures", orr_tree_new_list(arena));
    uint32_t identical = 0;
    for (size_t i = 0; i < count; i++) {
        const char *what = NULL;
        ORR_TRY(judge(arena, orr_tree_at(layouts, i), &what, err));
        identical += what == NULL;
        if (what != NULL) {
            orr_tree *one = orr_tree_push(arena, failures, orr_tree_new_map(arena));
            orr_tree_put_int(arena, one, "layout", (int64_t)i);
            orr_tree_put_text(arena, one, "what", what);
        }
    }
    orr_tree_put_int(arena, summary, "layouts", (int64_t)count);
    orr_tree_put_int(arena, summary, "identical", identical);
    *result = map;
    return ORR_OK;
}
