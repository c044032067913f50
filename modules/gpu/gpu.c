/* The cuda and hip back ends: products by the vendor's library, memory-bound ops by one streaming
 * kernel compiled at run time, both timed by the device's events.
 *
 * What it does not run, and says so: attention (a kernel of its own would say little about those
 * that frameworks use), collectives (sweeps of nccl-tests and rccl-tests are evidence as they are),
 * 8-bit and 4-bit products. The framework probe measures these. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

enum { WORKSPACE_BYTES = 64 << 20, HEURISTIC_BYTES = 512, BLOCK = 256 };

/* Half of the traffic read, half written, sixteen bytes at a time. */
static const char STREAM_SOURCE[] =
    "extern \"C\" __global__ void stream(const float4 *x, float4 *y, unsigned long long n) {\n"
    "    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
    "    if (i < n) {\n"
    "        float4 v = x[i];\n"
    "        v.x *= 0.5f; v.y *= 0.5f; v.z *= 0.5f; v.w *= 0.5f;\n"
    "        y[i] = v;\n"
    "    }\n"
    "}\n";

typedef struct gpu {
    gpu_api api;
    void *library[GPU_LIBRARIES];
    int device, version;
    gpu_handle context, module, stream_kernel, lt, start, end;
    uintptr_t workspace;
    bool retained;
} gpu;

typedef struct gpu_job {
    orr_backend_op op;
    uintptr_t buffer[3];
    gpu_handle desc, layout[3];
    unsigned char heuristic[HEURISTIC_BYTES]; /* its algorithm comes first */
    uint64_t vectors;                         /* of sixteen bytes, each way */
} gpu_job;

static int say(orr_backend_message *message, int status, const char *what, int code) {
    (void)snprintf(message->text, sizeof message->text, "%s failed with status %d", what, code);
    return status;
}

/* A failing call leaves the device in a state that only its end clears. */
#define LOSE(self_call, what)                                                                      \
    do {                                                                                           \
        int code_ = (self_call);                                                                   \
        if (code_ != 0) {                                                                          \
            return say(message, ORR_BACKEND_LOST, (what), code_);                                  \
        }                                                                                          \
    } while (0)

/* ---- libraries ------------------------------------------------------------------------------ */

/* options: one file that holds all libraries, for tests; NULL: those of the system. */
static int load(gpu *self, const char *options, orr_backend_message *message) {
    const gpu_vendor *vendor = &gpu_this_vendor;
    for (int l = 0; l < GPU_LIBRARIES; l++) {
        for (int n = 0; n < 3 && self->library[l] == NULL; n++) {
            const char *name = options != NULL ? options : vendor->library[l][n];
            self->library[l] = name == NULL ? NULL : dlopen(name, RTLD_NOW | RTLD_LOCAL);
        }
        if (self->library[l] == NULL) {
            (void)snprintf(message->text, sizeof message->text, "%s is not installed",
                           options != NULL ? options : vendor->library[l][0]);
            return ORR_BACKEND_NO_DEVICE;
        }
    }
    for (int e = 0; e < (int)GPU_ENTRIES; e++) {
        void *symbol = dlsym(self->library[vendor->from[e]], vendor->entry[e]);
        if (symbol == NULL) {
            (void)snprintf(message->text, sizeof message->text,
                           "the library has no '%s': another version than is known here",
                           vendor->entry[e]);
            return ORR_BACKEND_NO_DEVICE;
        }
        memcpy((char *)&self->api + (size_t)e * sizeof symbol, &symbol, sizeof symbol);
    }
    return ORR_BACKEND_OK;
}

static int check_driver(gpu *self, orr_backend_message *message) {
    const gpu_vendor *vendor = &gpu_this_vendor;
    int code = self->api.init(0), count = 0;
    if (code == 0) {
        code = self->api.version(&self->version);
    }
    if (code != 0) {
        return say(message, ORR_BACKEND_NO_DEVICE, "starting the driver", code);
    }
    if (self->version < vendor->least_version) {
        (void)snprintf(message->text, sizeof message->text,
                       "the driver is of version %d, at least %d is needed", self->version,
                       vendor->least_version);
        return ORR_BACKEND_NO_DEVICE;
    }
    code = self->api.device_count(&count);
    if (code != 0 || count == 0) {
        (void)snprintf(message->text, sizeof message->text, "the driver sees no device");
        return ORR_BACKEND_NO_DEVICE;
    }
    return ORR_BACKEND_OK;
}

/* ---- open, close ---------------------------------------------------------------------------- */

static void close_gpu(void *pointer) {
    gpu *self = (gpu *)pointer;
    const gpu_api *api = &self->api;
    if (self->retained) {
        if (self->lt != NULL) {
            (void)api->lt_destroy(self->lt);
        }
        if (self->module != NULL) {
            (void)api->module_unload(self->module);
        }
        if (self->workspace != 0) {
            (void)api->release(self->workspace);
        }
        gpu_handle *const events[] = {&self->start, &self->end};
        for (int i = 0; i < 2; i++) {
            if (*events[i] != NULL) {
                (void)api->event_destroy(*events[i]);
            }
        }
        (void)api->context_release(self->device);
    }
    for (int l = 0; l < GPU_LIBRARIES; l++) {
        if (self->library[l] != NULL) {
            (void)dlclose(self->library[l]);
        }
    }
    free(self);
}

static int compile_stream(gpu *self, orr_backend_message *message) {
    const gpu_api *api = &self->api;
    gpu_handle program = NULL;
    size_t bytes = 0;
    char *code = NULL;
    int status = api->program_create(&program, STREAM_SOURCE, "stream", 0, NULL, NULL);
    if (status == 0) {
        status = api->program_compile(program, 0, NULL);
    }
    if (status == 0) {
        status = api->program_size(program, &bytes);
    }
    if (status == 0) {
        code = (char *)calloc(1, bytes + 1);
        status = code == NULL ? -1 : api->program_code(program, code);
    }
    if (status == 0) {
        status = api->module_load(&self->module, code);
    }
    if (status == 0) {
        status = api->module_function(&self->stream_kernel, self->module, "stream");
    }
    free(code);
    if (program != NULL) {
        (void)api->program_destroy(&program);
    }
    return status == 0 ? ORR_BACKEND_OK
                       : say(message, ORR_BACKEND_NO_DEVICE, "compiling a kernel", status);
}

static int start(gpu *self, orr_backend_message *message) {
    const gpu_api *api = &self->api;
    int status = check_driver(self, message);
    if (status != ORR_BACKEND_OK) {
        return status;
    }
    LOSE(api->device_get(&self->device, 0), "finding the device");
    LOSE(api->context_retain(&self->context, self->device), "opening the device");
    self->retained = true;
    LOSE(api->context_set(self->context), "opening the device");
    LOSE(api->event_create(&self->start, 0), "creating an event");
    LOSE(api->event_create(&self->end, 0), "creating an event");
    LOSE(api->lt_create(&self->lt), "opening the library of products");
    if (api->allocate(&self->workspace, WORKSPACE_BYTES) != 0) {
        (void)snprintf(message->text, sizeof message->text, "the device has no %d MiB left",
                       WORKSPACE_BYTES >> 20);
        return ORR_BACKEND_NO_MEMORY;
    }
    return compile_stream(self, message);
}

static int open_gpu(const char *options, void **out, orr_backend_message *message) {
    gpu *self = (gpu *)calloc(1, sizeof *self);
    if (self == NULL) {
        return ORR_BACKEND_NO_MEMORY;
    }
    int status = load(self, options, message);
    if (status == ORR_BACKEND_OK) {
        status = start(self, message);
    }
    if (status != ORR_BACKEND_OK) {
        close_gpu(self);
        return status;
    }
    *out = self;
    return ORR_BACKEND_OK;
}

static int identify(void *pointer, orr_backend_identity *out, orr_backend_message *message) {
    gpu *self = (gpu *)pointer;
    size_t free_bytes = 0, total_bytes = 0;
    *out = (orr_backend_identity){.ranks = 1};
    LOSE(self->api.device_name(out->device, (int)sizeof out->device, self->device),
         "naming the device");
    LOSE(self->api.memory_info(&free_bytes, &total_bytes), "asking for memory");
    out->memory_bytes = (double)total_bytes;
    (void)snprintf(out->software, sizeof out->software, "executor %s, driver %d",
                   gpu_this_vendor.name, self->version);
    return ORR_BACKEND_OK;
}

/* ---- ops ------------------------------------------------------------------------------------ */

static void drop(void *pointer, void *job) {
    gpu *self = (gpu *)pointer;
    gpu_job *own = (gpu_job *)job;
    for (int i = 0; own != NULL && i < 3; i++) {
        if (own->layout[i] != NULL) {
            (void)self->api.layout_destroy(own->layout[i]);
        }
        if (own->buffer[i] != 0) {
            (void)self->api.release(own->buffer[i]);
        }
    }
    if (own != NULL && own->desc != NULL) {
        (void)self->api.desc_destroy(own->desc);
    }
    free(own);
}

static int allocate(gpu *self, gpu_job *job, int index, uint64_t bytes,
                    orr_backend_message *message) {
    int code = self->api.allocate(&job->buffer[index], bytes > 0 ? bytes : 16);
    if (code == gpu_this_vendor.out_of_memory) {
        return ORR_BACKEND_NO_MEMORY;
    }
    if (code != 0) {
        return say(message, ORR_BACKEND_LOST, "allocating", code);
    }
    /* 0x3c3c is a bf16 of 0.011 and an fp16 of 1.06: neither zero nor large */
    LOSE(self->api.fill(job->buffer[index], 0x3c, bytes > 0 ? bytes : 16), "filling memory");
    return ORR_BACKEND_OK;
}

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

/* Row-major C[m,n] is column-major C^T[n,m] = B' A': the library's first operand is B. Forward
 * B[n,k] and A[m,k]: T, N. Input gradient B[k,n], A[m,k]: N, N. Weight gradient B[k,n], A[k,m]: N,
 * T. */
static int plan_gemm(gpu *self, gpu_job *job, orr_backend_message *message) {
    const gpu_vendor *vendor = &gpu_this_vendor;
    const uint64_t *dim = job->op.dim;
    uint64_t m = dim[0], n = dim[1], k = dim[2], batch = dim[3];
    if (job->op.dtype > 1 || batch > INT32_MAX) {
        return ORR_BACKEND_UNSUPPORTED;
    }
    bool forward = job->op.phase == 0, weight = job->op.phase == 2;
    int type = job->op.dtype == 0 ? vendor->type_bf16 : vendor->type_f16;
    int out_type = job->op.out_bytes >= 4 ? vendor->type_f32 : type;
    int op_b = forward ? vendor->op_transpose : vendor->op_none;
    int op_a = weight ? vendor->op_transpose : vendor->op_none;
    matrix b = forward ? (matrix){k, n} : (matrix){n, k};
    matrix a = weight ? (matrix){m, k} : (matrix){k, m};
    const uint64_t bytes[] = {2 * n * k * batch, 2 * m * k * batch,
                              (job->op.out_bytes >= 4 ? 4u : 2u) * m * n * batch};
    int status = ORR_BACKEND_OK;
    for (int i = 0; i < 3 && status == ORR_BACKEND_OK; i++) {
        status = allocate(self, job, i, bytes[i], message);
    }
    const matrix shapes[] = {b, a, {n, m}};
    for (int i = 0; i < 3 && status == ORR_BACKEND_OK; i++) {
        status = make_layout(self, job, i, i < 2 ? type : out_type, shapes[i], message);
    }
    if (status != ORR_BACKEND_OK) {
        return status;
    }
    LOSE(self->api.desc_create(&job->desc, vendor->compute_f32, vendor->type_f32),
         "describing a product");
    LOSE(self->api.desc_set(job->desc, vendor->transpose_a, &op_b, sizeof op_b),
         "describing a product");
    LOSE(self->api.desc_set(job->desc, vendor->transpose_b, &op_a, sizeof op_a),
         "describing a product");
    gpu_handle preference = NULL;
    uint64_t workspace = WORKSPACE_BYTES;
    int found = 0;
    LOSE(self->api.preference_create(&preference), "choosing an algorithm");
    int code =
        self->api.preference_set(preference, vendor->workspace, &workspace, sizeof workspace);
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

static int plan_memory(gpu *self, gpu_job *job, orr_backend_message *message) {
    job->vectors = job->op.dim[0] / 32;
    if (job->vectors / BLOCK > UINT32_MAX / 2) {
        return ORR_BACKEND_UNSUPPORTED;
    }
    int status = allocate(self, job, 0, 16 * job->vectors, message);
    return status == ORR_BACKEND_OK ? allocate(self, job, 1, 16 * job->vectors, message) : status;
}

static int prepare(void *pointer, const orr_backend_op *op, void **out,
                   orr_backend_message *message) {
    gpu *self = (gpu *)pointer;
    gpu_job *job = (gpu_job *)calloc(1, sizeof *job);
    if (job == NULL) {
        return ORR_BACKEND_NO_MEMORY;
    }
    job->op = *op;
    int status = ORR_BACKEND_UNSUPPORTED;
    if (op->kind == ORR_BACKEND_GEMM || op->kind == ORR_BACKEND_GROUPED_GEMM) {
        status = plan_gemm(self, job, message);
    } else if (op->kind == ORR_BACKEND_MEMORY) {
        status = plan_memory(self, job, message);
    } else {
        (void)snprintf(message->text, sizeof message->text,
                       "the %s back end does not run it: the framework probe does",
                       gpu_this_vendor.name);
    }
    if (status != ORR_BACKEND_OK) {
        drop(self, job);
        return status;
    }
    *out = job;
    return ORR_BACKEND_OK;
}

static int enqueue(gpu *self, gpu_job *job) {
    if (job->op.kind != ORR_BACKEND_MEMORY) {
        static const float ONE = 1, NONE = 0;
        const float *beta = job->op.out_bytes == 8 ? &ONE : &NONE;
        return self->api.matmul(self->lt, job->desc, &ONE, job->buffer[0], job->layout[0],
                                job->buffer[1], job->layout[1], beta, job->buffer[2],
                                job->layout[2], job->buffer[2], job->layout[2], job->heuristic,
                                self->workspace, WORKSPACE_BYTES, NULL);
    }
    uint64_t kernels = job->op.dim[1] > 0 ? job->op.dim[1] : 1, each = job->vectors / kernels;
    int code = 0;
    for (uint64_t i = 0; i < kernels && each > 0 && code == 0; i++) {
        uintptr_t x = job->buffer[0] + 16 * i * each, y = job->buffer[1] + 16 * i * each;
        void *arguments[] = {&x, &y, &each};
        code = self->api.launch(self->stream_kernel, (unsigned)((each + BLOCK - 1) / BLOCK), 1, 1,
                                BLOCK, 1, 1, 0, NULL, arguments, NULL);
    }
    return code;
}

static int run(void *pointer, void *job, double *seconds, orr_backend_message *message) {
    gpu *self = (gpu *)pointer;
    float milliseconds = 0;
    LOSE(self->api.event_record(self->start, NULL), "recording an event");
    LOSE(enqueue(self, (gpu_job *)job), "running an op");
    LOSE(self->api.event_record(self->end, NULL), "recording an event");
    LOSE(self->api.event_wait(self->end), "waiting for the device");
    LOSE(self->api.event_elapsed(&milliseconds, self->start, self->end), "reading the clock");
    *seconds = 1e-3 * (double)milliseconds;
    return ORR_BACKEND_OK;
}

static int meet(void *pointer, orr_backend_message *message) {
    LOSE(((gpu *)pointer)->api.synchronize(), "waiting for the device");
    return ORR_BACKEND_OK;
}

static orr_backend table = {.abi = ORR_BACKEND_ABI,
                            .capabilities = ORR_BACKEND_HAS_CLOCK,
                            .open = open_gpu,
                            .identify = identify,
                            .prepare = prepare,
                            .run = run,
                            .drop = drop,
                            .meet = meet,
                            .close = close_gpu};

__attribute__((visibility("default"))) const orr_backend *orr_backend_entry(void);
const orr_backend *orr_backend_entry(void) {
    table.name = gpu_this_vendor.name;
    return &table;
}
