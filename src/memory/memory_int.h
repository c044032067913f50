/* Inside the memory module. Everything is counted in whole bytes (uint64_t, or doubles that hold
 * integers below 2^53), so that the ledger's sum equals the fast path exactly. */
#ifndef ORR_MEMORY_INT_H
#define ORR_MEMORY_INT_H

#include "memory/memory.h"

/* ---- layout.c: buffers of the distributed optimizer ------------------------------------------ */

/* Tensors of one buffer in registration order; the walk goes over them from the back. */
typedef struct orr_buffer_spec {
    const orr_param_tensor *tensor;
    uint32_t tensor_count;
    uint64_t shards;          /* data-parallel ranks that share it */
    uint64_t bucket_elements; /* a bucket closes once it holds so many; 0: one bucket */
    bool busbw_padding;       /* buckets padded for large collectives too */
    const uint8_t *alone; /* per tensor: takes a bucket of its own (shared embedding), or NULL */
} orr_buffer_spec;

/* Where things lie, in elements. The arrays are the caller's or NULL: range of each tensor (repeats
 * counted one by one) and its bucket, and the buckets, of which at most max_buckets are written. */
typedef struct orr_buffer_layout {
    uint64_t total; /* padded */
    uint64_t shard; /* of one rank */
    uint32_t bucket_count;
    uint64_t (*range)[2];
    uint32_t *bucket_of;
    uint64_t (*bucket)[2];
    uint64_t *bucket_unpadded;
    uint32_t max_buckets;
} orr_buffer_layout;

void orr_buffer_lay_out(const orr_buffer_spec *spec, orr_buffer_layout *out);
/* Multiple that buckets are padded to. */
uint64_t orr_buffer_divisor(uint64_t shards, bool busbw_padding);
/* Elements of a tensor with the gap up to the next start. */
uint64_t orr_buffer_aligned(uint64_t numel);

#endif
