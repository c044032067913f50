/* Products and attention in fp32. */
#include <cblas.h>
#include <math.h>
#include <stdlib.h>

#include "cpu.h"

void cpu_gemm_nt(uint64_t m, uint64_t n, uint64_t k, const float *a, const float *b, float *c,
                 bool add) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)m, (int)n, (int)k, 1.0f, a, (int)k, b,
                (int)k, add ? 1.0f : 0.0f, c, (int)n);
}

void cpu_gemm_nn(uint64_t m, uint64_t n, uint64_t k, const float *a, const float *b, float *c,
                 bool add) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1.0f, a, (int)k,
                b, (int)n, add ? 1.0f : 0.0f, c, (int)n);
}

void cpu_gemm_tn(uint64_t m, uint64_t n, uint64_t k, const float *a, const float *b, float *c,
                 bool add) {
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1.0f, a, (int)m, b,
                (int)n, add ? 1.0f : 0.0f, c, (int)n);
}

static bool sees(const cpu_head *h, uint64_t row, uint64_t key) {
    uint64_t at = h->first + row;
    if (h->causal && key > at) {
        return false;
    }
    return h->window == 0 || at < key + h->window;
}

static void soften_row(const cpu_head *h, uint64_t row, float *p) {
    float top = -INFINITY, sum = 0;
    for (uint64_t j = 0; j < h->sk; j++) {
        p[j] = sees(h, row, j) ? p[j] : -INFINITY;
        top = p[j] > top ? p[j] : top;
    }
    for (uint64_t j = 0; j < h->sk; j++) {
        p[j] = p[j] > -INFINITY ? expf(p[j] - top) : 0;
        sum += p[j];
    }
    for (uint64_t j = 0; j < h->sk; j++) {
        p[j] /= sum;
    }
}

void cpu_attend(const cpu_head *h, const float *q, const float *k, const float *v, float *p,
                float *out) {
    float scale = 1.0f / sqrtf((float)h->d);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)h->sq, (int)h->sk, (int)h->d, scale,
                q, (int)h->d, k, (int)h->d, 0.0f, p, (int)h->sk);
    for (uint64_t i = 0; i < h->sq; i++) {
        soften_row(h, i, p + i * h->sk);
    }
    cpu_gemm_nn(h->sq, h->dv, h->sk, p, v, out, false);
}

void cpu_attend_back(const cpu_head *h, const float *q, const float *k, const float *v,
                     const float *p, const float *dout, float *dp, float *dq, float *dk,
                     float *dv_) {
    float scale = 1.0f / sqrtf((float)h->d);
    cpu_gemm_tn(h->sk, h->dv, h->sq, p, dout, dv_, false);
    cpu_gemm_nt(h->sq, h->sk, h->dv, dout, v, dp, false);
    for (uint64_t i = 0; i < h->sq; i++) {
        const float *row = p + i * h->sk;
        float *gradient = dp + i * h->sk, dot = 0;
        for (uint64_t j = 0; j < h->sk; j++) {
            dot += row[j] * gradient[j];
        }
        for (uint64_t j = 0; j < h->sk; j++) {
            gradient[j] = scale * row[j] * (gradient[j] - dot);
        }
    }
    cpu_gemm_nn(h->sq, h->d, h->sk, dp, k, dq, false);
    cpu_gemm_tn(h->sk, h->d, h->sq, dp, q, dk, false);
}

float *cpu_floats(uint64_t count, uint64_t seed) {
    if (count > (uint64_t)1 << 36) {
        return NULL;
    }
    size_t bytes = ((count > 0 ? count : 1) * sizeof(float) + 63) / 64 * 64;
    float *out = (float *)aligned_alloc(64, bytes);
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (uint64_t i = 0; out != NULL && i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        out[i] = (float)((double)(state >> 40) / (1 << 24) - 0.5);
    }
    return out;
}
