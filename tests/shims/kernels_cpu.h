/* The text of the GPU kernels as code for the CPU: one thread a block, since barriers do nothing.
 */
#ifndef KERNELS_CPU_H
#define KERNELS_CPU_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wfloat-conversion"

typedef struct kernel_index {
    unsigned x, y;
} kernel_index;
typedef struct float4 {
    float x, y, z, w;
} float4;
typedef struct attention_shape {
    unsigned heads, kv_heads, dim, v_dim, window, seq_q, seq_kv, causal;
    float scale;
} attention_shape;
static kernel_index blockIdx, threadIdx, blockDim;

static float kernel_wide(unsigned short bits) {
    uint32_t whole = (uint32_t)bits << 16;
    float value = 0;
    memcpy(&value, &whole, sizeof value);
    return value;
}
static unsigned short kernel_narrow(float value) {
    uint32_t whole = 0;
    memcpy(&whole, &value, sizeof whole);
    return (unsigned short)(whole >> 16);
}
static float kernel_dot(const unsigned short *a, const unsigned short *b, unsigned n) {
    float sum = 0;
    for (unsigned i = 0; i < n; i++) {
        sum += kernel_wide(a[i]) * kernel_wide(b[i]);
    }
    return sum;
}
#define KERNEL static inline
#define SHARED static
#define BARRIER (void)0
#define TILE 16u
#define OWN 256
#define EXP(x) expf(x)
#define LOG(x) logf(x)
#define WIDE(x) kernel_wide(x)
#define NARROW(x) kernel_narrow(x)
#define DOT(a, b, n) kernel_dot(a, b, n)
#define KERNEL_TEXT(name, ...) __VA_ARGS__
#include "../../modules/gpu/kernels.inc"
#undef KERNEL_TEXT

#endif
