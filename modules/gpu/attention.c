/* Attention by own kernels: buffers and launches. */
#include <math.h>
#include <stdio.h>

#include "gpu.h"

enum { THREADS = 128, MAX_DIM = 256 };
enum { Q = 0, K, V, OUT, LSE, DOUT, DELTA, DQ, DK, DV };

/* As the kernels have it. */
typedef struct attention_shape {
    uint32_t heads, kv_heads, dim, v_dim, window, seq_q, seq_kv, causal;
    float scale;
} attention_shape;

static int launch(gpu *self, int kernel, uint64_t rows, uint64_t columns, void **arguments) {
    return self->api.launch(self->kernel[kernel], (unsigned)rows, (unsigned)columns, 1, THREADS, 1,
                            1, 0, NULL, arguments, NULL);
}

static attention_shape shape_of(const gpu_job *job) {
    const uint64_t *dim = job->op.dim;
    return (attention_shape){.heads = (uint32_t)dim[1],
                             .kv_heads = (uint32_t)dim[2],
                             .dim = (uint32_t)dim[3],
                             .v_dim = (uint32_t)dim[4],
                             .window = (uint32_t)dim[5],
                             .seq_q = (uint32_t)dim[6],
                             .seq_kv = (uint32_t)dim[7],
                             .causal = job->op.causal,
                             .scale = 1.0f / sqrtf((float)dim[3])};
}

static int forward(gpu *self, gpu_job *job) {
    attention_shape s = shape_of(job);
    uintptr_t *b = job->buffer;
    void *arguments[] = {&b[Q], &b[K], &b[V], &b[OUT], &b[LSE], &s};
    return launch(self, GPU_ATTEND, s.seq_q, job->op.dim[0] * s.heads, arguments);
}

int gpu_plan_attention(gpu *self, gpu_job *job, orr_backend_message *message) {
    enum { MAX_GRID_Y = 65535, MAX_SEQ = 1 << 24 };
    const uint64_t *dim = job->op.dim;
    uint64_t batch = dim[0], heads = dim[1], kv_heads = dim[2], seq_q = dim[6], seq_kv = dim[7];
    bool fits = job->op.dtype <= 1 && batch > 0 && kv_heads > 0 && heads % kv_heads == 0 &&
                batch <= MAX_GRID_Y && heads <= MAX_GRID_Y && batch * heads <= MAX_GRID_Y &&
                dim[3] > 0 && dim[3] <= MAX_DIM && dim[4] > 0 && dim[4] <= MAX_DIM &&
                dim[5] <= MAX_SEQ && seq_q > 0 && seq_q <= seq_kv && seq_kv <= MAX_SEQ;
    if (!fits) {
        (void)snprintf(message->text, sizeof message->text,
                       "own attention does not run this shape or format");
        return ORR_BACKEND_UNSUPPORTED;
    }
    uint64_t rows = batch * heads * seq_q, keys = batch * kv_heads * seq_kv;
    const uint64_t bytes[] = {2 * rows * dim[3], 2 * keys * dim[3], 2 * keys * dim[4],
                              2 * rows * dim[4], 4 * rows,          2 * rows * dim[4],
                              4 * rows,          2 * rows * dim[3], 2 * keys * dim[3],
                              2 * keys * dim[4]};
    int count = job->op.phase == 0 ? DOUT : DV + 1, status = ORR_BACKEND_OK;
    for (int i = 0; i < count && status == ORR_BACKEND_OK; i++) {
        status = gpu_allocate(self, &job->buffer[i], bytes[i], message);
    }
    if (status == ORR_BACKEND_OK && job->op.phase != 0) { /* what the backward reads */
        int code = forward(self, job);
        if (code != 0) {
            (void)snprintf(message->text, sizeof message->text,
                           "running an op failed with status %d", code);
            return ORR_BACKEND_LOST;
        }
    }
    return status;
}

int gpu_attention(gpu *self, gpu_job *job) {
    if (job->op.phase == 0) {
        return forward(self, job);
    }
    attention_shape s = shape_of(job);
    uintptr_t *b = job->buffer;
    void *of_queries[] = {&b[Q], &b[K], &b[V], &b[OUT], &b[DOUT], &b[LSE], &b[DELTA], &b[DQ], &s};
    void *of_keys[] = {&b[Q], &b[K], &b[V], &b[DOUT], &b[LSE], &b[DELTA], &b[DK], &b[DV], &s};
    int code = launch(self, GPU_ATTEND_DQ, s.seq_q, job->op.dim[0] * s.heads, of_queries);
    return code != 0 ? code
                     : launch(self, GPU_ATTEND_DKV, s.seq_kv, job->op.dim[0] * s.kv_heads, of_keys);
}
