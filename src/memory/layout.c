/* Buffers of the distributed optimizer, element by element (Megatron-Core,
 * distributed/param_and_grad_buffer.py; vectors from running it: tests/data/memory).
 *
 * Parameters go into the buffer in reverse order of registration, as their gradients become ready.
 * Starts are aligned to 64 elements, bucket ends to what makes shards equal and aligned. */
#include "memory/memory_int.h"

#include "base/num.h"

enum { END_ELEMENTS = 128, BUSBW_ELEMENTS = 1 << 16 };

static uint64_t common_multiple(uint64_t a, uint64_t b) {
    uint64_t x = a, y = b;
    while (y != 0) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

uint64_t orr_buffer_divisor(uint64_t shards, bool busbw_padding) {
    uint64_t divisor = common_multiple(shards ? shards : 1, END_ELEMENTS);
    return busbw_padding ? common_multiple(divisor, BUSBW_ELEMENTS) : divisor;
}

static void close_bucket(orr_buffer_walk *w, uint64_t end) {
    uint64_t padded = orr_round_up_u64(end, w->divisor);
    uint32_t index = w->bucket_count++;
    if (w->out && w->out->bucket && index < w->out->max_buckets) {
        w->out->bucket[index][0] = w->bucket_start;
        w->out->bucket[index][1] = padded;
    }
    if (w->out && w->out->bucket_unpadded && index < w->out->max_buckets) {
        w->out->bucket_unpadded[index] = end - w->bucket_start;
    }
    w->bucket_start = w->end = padded;
    w->open = false;
}

static void place(orr_buffer_walk *w, uint64_t numel, bool alone, uint32_t index) {
    uint64_t start = orr_round_up_u64(w->end, ORR_TENSOR_ALIGN);
    if (alone && w->open) {
        close_bucket(w, start);
        start = w->end;
    }
    w->end = start + numel;
    w->open = true;
    if (w->out && w->out->range) {
        w->out->range[index][0] = start;
        w->out->range[index][1] = w->end;
    }
    if (w->out && w->out->bucket_of) {
        w->out->bucket_of[index] = w->bucket_count;
    }
    if (alone || (w->limit != 0 && w->end - w->bucket_start >= w->limit)) {
        close_bucket(w, w->end);
    }
}

void orr_buffer_begin(orr_buffer_walk *w, uint64_t shards, uint64_t bucket_elements) {
    *w = (orr_buffer_walk){.divisor = orr_buffer_divisor(shards, false), .limit = bucket_elements};
}

void orr_buffer_add(orr_buffer_walk *w, const orr_param_tensor *tensor, uint32_t count,
                    bool expert) {
    for (uint32_t i = count; i-- > 0;) {
        for (uint32_t k = 0; tensor[i].expert == expert && k < tensor[i].repeat; k++) {
            w->end = orr_round_up_u64(w->end, ORR_TENSOR_ALIGN) + tensor[i].numel;
            w->open = true;
            if (w->limit != 0 && w->end - w->bucket_start >= w->limit) {
                close_bucket(w, w->end);
            }
        }
    }
}

uint64_t orr_buffer_end(orr_buffer_walk *w) {
    if (w->open) {
        close_bucket(w, w->end);
    }
    return w->end;
}

void orr_buffer_lay_out(const orr_buffer_spec *spec, orr_buffer_layout *out) {
    orr_buffer_walk w = {.out = out,
                         .divisor = orr_buffer_divisor(spec->shards, spec->busbw_padding),
                         .limit = spec->bucket_elements};
    uint32_t index = 0;
    for (uint32_t i = 0; i < spec->tensor_count; i++) {
        index += spec->tensor[i].repeat;
    }
    for (uint32_t i = spec->tensor_count; i-- > 0;) {
        for (uint32_t k = 0; k < spec->tensor[i].repeat; k++) {
            place(&w, spec->tensor[i].numel, spec->alone && spec->alone[i], --index);
        }
    }
    out->total = orr_buffer_end(&w);
    out->bucket_count = w.bucket_count;
    out->shard = out->total / (spec->shards ? spec->shards : 1);
}
