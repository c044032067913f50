/* Matrix products: 16 bits, fp8 with one scale a matrix, and formats whose scales belong to blocks
 * of the depth. Which of them a device has, its library says: no algorithm is a gap. */
#include <stdio.h>

#include "gpu.h"

/* The interface's numbers of formats, and both libraries' of how scales lie. */
enum { FP16 = 1, FP8 = 3, MXFP8 = 4, FP8_BLOCK = 5, NVFP4 = 6 };
enum { SCALAR_32F = 0, VEC16_UE4M3 = 1, VEC32_UE8M0 = 2, VEC128_32F = 4, BLK128_32F = 5 };
enum { SCALES = 3, MX_ONE = 0x7f }; /* where a job keeps scales; 2^0 as an exponent alone */

typedef struct matrix {
    uint64_t rows, columns; /* as the library sees them: column by column */
} matrix;

static int make_layout(gpu *self, gpu_job *job, int index, int type, matrix shape,
                       orr_backend_message *message) {
    const gpu_vendor *vendor = &gpu_this_vendor;
    int batch = (int)job->op.dim[3];
    int64_t stride = (int64_t)(shape.rows * shape.columns);
    LOSE(self->api.layout_create(&job->layout[index], type, shape.rows, shape.columns,
                                 (int64_t)shape.rows),
         "describing a matrix");
    LOSE(self->api.layout_set(job->layout[index], vendor->batch_count, &batch, sizeof batch),
         "describing a matrix");
    LOSE(self->api.layout_set(job->layout[index], vendor->batch_stride, &stride, sizeof stride),
         "describing a matrix");
    return ORR_BACKEND_OK;
}

/* ---- scales --------------------------------------------------------------------------------- */

static uint64_t blocks(uint64_t count, uint64_t block, uint64_t of) {
    uint64_t whole = (count + block - 1) / block;
    return (whole + of - 1) / of * of;
}

/* Bytes of the scales of a matrix of `depth` x `width`, padded as the libraries want them: tiles of
 * 128 x 4 for scales of one byte, columns of a multiple of four for the others. */
static uint64_t scale_bytes(int mode, uint64_t depth, uint64_t width) {
    switch (mode) {
    case VEC16_UE4M3: return blocks(depth, 16, 4) * blocks(width, 1, 128);
    case VEC32_UE8M0: return blocks(depth, 32, 4) * blocks(width, 1, 128);
    case VEC128_32F: return 4 * blocks(depth, 128, 1) * blocks(width, 1, 4);
    default: return 4 * blocks(depth, 128, 4) * blocks(width, 128, 1);
    }
}

/* How scales of an operand lie; index 0: the library's first, which holds the weights. */
static int scale_mode(const orr_backend_op *op, int index) {
    bool weights = index == 0 && op->phase != 2;
    return op->dtype == MXFP8   ? VEC32_UE8M0
           : op->dtype == NVFP4 ? VEC16_UE4M3
           : op->dtype == FP8   ? SCALAR_32F
           : weights            ? BLK128_32F
                                : VEC128_32F;
}

static int set_scales(gpu *self, gpu_job *job, orr_backend_message *message) {
    const gpu_vendor *vendor = &gpu_this_vendor;
    const uint64_t *dim = job->op.dim, width[] = {dim[1], dim[0]};
    const int pointer_of[] = {vendor->scale_a, vendor->scale_b};
    const int mode_of[] = {vendor->scale_mode_a, vendor->scale_mode_b};
    for (int i = 0; i < 2; i++) {
        int mode = scale_mode(&job->op, i);
        uintptr_t scale = self->workspace + GPU_WORKSPACE_BYTES;
        if (mode != SCALAR_32F) {
            uint64_t bytes = dim[3] * scale_bytes(mode, dim[2], width[i]);
            if (job->buffer[SCALES + i] == 0) {
                int status = gpu_allocate(self, &job->buffer[SCALES + i], bytes, message);
                if (status != ORR_BACKEND_OK) {
                    return status;
                }
            }
            scale = job->buffer[SCALES + i];
            if (mode == VEC32_UE8M0) {
                LOSE(self->api.fill(scale, MX_ONE, bytes), "filling memory");
            }
            if (self->api.desc_set(job->desc, mode_of[i], &mode, sizeof mode) != 0) {
                (void)snprintf(message->text, sizeof message->text,
                               "this version of the library knows no scales by block");
                return ORR_BACKEND_UNSUPPORTED;
            }
        }
        LOSE(self->api.desc_set(job->desc, pointer_of[i], &scale, sizeof scale), "setting scales");
    }
    return ORR_BACKEND_OK;
}

/* ---- a product ------------------------------------------------------------------------------ */

/* How an op's operands are stored. */
typedef struct storage {
    int type, out_type;
    uint64_t bits; /* an element of an operand */
    bool narrow;   /* 8 bits or 4, with scales */
} storage;

static storage storage_of(const orr_backend_op *op, int attempt) {
    const gpu_vendor *vendor = &gpu_this_vendor;
    int half = op->dtype == FP16 ? vendor->type_f16 : vendor->type_bf16;
    storage s = {.narrow = op->dtype >= FP8, .bits = 16, .type = half};
    if (s.narrow) {
        s.bits = op->dtype == NVFP4 ? 4 : 8;
        s.type = op->dtype == NVFP4 ? vendor->type_f4 : vendor->type_f8[attempt];
    }
    s.out_type = op->out_bytes >= 4 ? vendor->type_f32 : half;
    return s;
}

static int choose(gpu *self, gpu_job *job, orr_backend_message *message) {
    gpu_handle preference = NULL;
    uint64_t workspace = GPU_WORKSPACE_BYTES;
    int found = 0;
    LOSE(self->api.preference_create(&preference), "choosing an algorithm");
    int code = self->api.preference_set(preference, gpu_this_vendor.workspace, &workspace,
                                        sizeof workspace);
    if (code == 0) {
        code =
            self->api.heuristic(self->lt, job->desc, job->layout[0], job->layout[1], job->layout[2],
                                job->layout[2], preference, 1, job->heuristic, &found);
    }
    (void)self->api.preference_destroy(preference);
    if (code != 0 || found == 0) {
        (void)snprintf(message->text, sizeof message->text,
                       "the library has no algorithm for this product (status %d)", code);
        return ORR_BACKEND_UNSUPPORTED;
    }
    return ORR_BACKEND_OK;
}

/* Row-major C[m,n] is column-major C^T[n,m] = B' A': the library's first operand is B. Forward
 * B[n,k] and A[m,k]: T, N. Input gradient B[k,n], A[m,k]: N, N. Weight gradient B[k,n], A[k,m]: N,
 * T. Narrow operands have their depth innermost in every phase: frameworks keep transposed copies.
 */
static int describe(gpu *self, gpu_job *job, const storage *s, orr_backend_message *message) {
    const gpu_vendor *vendor = &gpu_this_vendor;
    uint64_t m = job->op.dim[0], n = job->op.dim[1], k = job->op.dim[2];
    bool forward = job->op.phase == 0 || s->narrow, weight = job->op.phase == 2 && !s->narrow;
    int op_b = forward ? vendor->op_transpose : vendor->op_none;
    int op_a = weight ? vendor->op_transpose : vendor->op_none;
    const matrix shapes[] = {forward ? (matrix){k, n} : (matrix){n, k},
                             weight ? (matrix){m, k} : (matrix){k, m},
                             {n, m}};
    for (int i = 0; i < 3; i++) {
        int status = make_layout(self, job, i, i < 2 ? s->type : s->out_type, shapes[i], message);
        if (status != ORR_BACKEND_OK) {
            return status;
        }
    }
    LOSE(self->api.desc_create(&job->desc, vendor->compute_f32, vendor->type_f32),
         "describing a product");
    LOSE(self->api.desc_set(job->desc, vendor->transpose_a, &op_b, sizeof op_b),
         "describing a product");
    LOSE(self->api.desc_set(job->desc, vendor->transpose_b, &op_a, sizeof op_a),
         "describing a product");
    int status = s->narrow ? set_scales(self, job, message) : ORR_BACKEND_OK;
    return status == ORR_BACKEND_OK ? choose(self, job, message) : status;
}

void gpu_forget_product(gpu *self, gpu_job *job) {
    for (int i = 0; i < 3; i++) {
        if (job->layout[i] != NULL) {
            (void)self->api.layout_destroy(job->layout[i]);
            job->layout[i] = NULL;
        }
    }
    if (job->desc != NULL) {
        (void)self->api.desc_destroy(job->desc);
        job->desc = NULL;
    }
}

int gpu_plan_product(gpu *self, gpu_job *job, orr_backend_message *message) {
    const uint64_t *dim = job->op.dim;
    uint64_t m = dim[0], n = dim[1], k = dim[2], batch = dim[3];
    storage s = storage_of(&job->op, 0);
    if (job->op.dtype == 2 || job->op.dtype > NVFP4 || batch > INT32_MAX) {
        return ORR_BACKEND_UNSUPPORTED;
    }
    const uint64_t bytes[] = {(s.bits * n * k * batch + 7) / 8, (s.bits * m * k * batch + 7) / 8,
                              (job->op.out_bytes >= 4 ? 4u : 2u) * m * n * batch};
    for (int i = 0; i < 3; i++) {
        int status = gpu_allocate(self, &job->buffer[i], bytes[i], message);
        if (status != ORR_BACKEND_OK) {
            return status;
        }
    }
    int status = describe(self, job, &s, message);
    bool other = s.bits == 8 && gpu_this_vendor.type_f8[1] != 0;
    if (status == ORR_BACKEND_UNSUPPORTED && other) { /* devices have one of two 8-bit formats */
        gpu_forget_product(self, job);
        s = storage_of(&job->op, 1);
        status = describe(self, job, &s, message);
    }
    return status;
}
