/* Inside the cuda and hip back ends: entry points of the vendor's libraries, found at run time.
 *
 * The two vendors' libraries mirror each other, so there is one source for both; names and the few
 * values that differ are in vendor.c. Own declarations: neither vendor's headers are needed to
 * build, and the program runs where neither is installed. */
#ifndef ORR_MODULE_GPU_H
#define ORR_MODULE_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "orrery/backend.h"

typedef void *gpu_handle; /* contexts, modules, functions, events, descriptors */

/* Entry points. Status 0 is success everywhere. */
typedef struct gpu_api {
    /* driver */
    int (*init)(unsigned flags);
    int (*version)(int *version);
    int (*device_count)(int *count);
    int (*device_get)(int *device, int ordinal);
    int (*device_name)(char *name, int length, int device);
    int (*context_retain)(gpu_handle *context, int device);
    int (*context_set)(gpu_handle context);
    int (*context_release)(int device);
    int (*memory_info)(size_t *free_bytes, size_t *total_bytes);
    int (*allocate)(uintptr_t *pointer, size_t bytes);
    int (*release)(uintptr_t pointer);
    int (*fill)(uintptr_t pointer, unsigned char value, size_t bytes);
    int (*synchronize)(void);
    int (*event_create)(gpu_handle *event, unsigned flags);
    int (*event_record)(gpu_handle event, gpu_handle stream);
    int (*event_wait)(gpu_handle event);
    int (*event_elapsed)(float *milliseconds, gpu_handle start, gpu_handle end);
    int (*event_destroy)(gpu_handle event);
    int (*module_load)(gpu_handle *module, const void *image);
    int (*module_function)(gpu_handle *function, gpu_handle module, const char *name);
    int (*module_unload)(gpu_handle module);
    int (*launch)(gpu_handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                  unsigned by, unsigned bz, unsigned shared_bytes, gpu_handle stream,
                  void **arguments, void **extra);
    /* run-time compiler */
    int (*program_create)(gpu_handle *program, const char *source, const char *name, int headers,
                          const char *const *header, const char *const *include);
    int (*program_compile)(gpu_handle program, int options, const char *const *option);
    int (*program_size)(gpu_handle program, size_t *bytes);
    int (*program_code)(gpu_handle program, char *code);
    int (*program_destroy)(gpu_handle *program);
    /* matrix products */
    int (*lt_create)(gpu_handle *lt);
    int (*lt_destroy)(gpu_handle lt);
    int (*desc_create)(gpu_handle *desc, int compute, int scale);
    int (*desc_set)(gpu_handle desc, int attribute, const void *value, size_t bytes);
    int (*desc_destroy)(gpu_handle desc);
    int (*layout_create)(gpu_handle *layout, int type, uint64_t rows, uint64_t columns, int64_t ld);
    int (*layout_set)(gpu_handle layout, int attribute, const void *value, size_t bytes);
    int (*layout_destroy)(gpu_handle layout);
    int (*preference_create)(gpu_handle *preference);
    int (*preference_set)(gpu_handle preference, int attribute, const void *value, size_t bytes);
    int (*preference_destroy)(gpu_handle preference);
    int (*heuristic)(gpu_handle lt, gpu_handle desc, gpu_handle a, gpu_handle b, gpu_handle c,
                     gpu_handle d, gpu_handle preference, int wanted, void *results, int *found);
    int (*matmul)(gpu_handle lt, gpu_handle desc, const void *alpha, uintptr_t a, gpu_handle la,
                  uintptr_t b, gpu_handle lb, const void *beta, uintptr_t c, gpu_handle lc,
                  uintptr_t d, gpu_handle ld, const void *algorithm, uintptr_t workspace,
                  size_t workspace_bytes, gpu_handle stream);
} gpu_api;

/* NCCL, which RCCL mirrors by name. Element type and operation as nccl.h numbers them. */
typedef struct gpu_comm_api {
    int (*version)(int *version);
    int (*init_all)(gpu_handle *comm, int count, const int *devices);
    int (*destroy)(gpu_handle comm);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*all_reduce)(uintptr_t in, uintptr_t out, size_t count, int type, int op, gpu_handle comm,
                      gpu_handle stream);
    int (*all_gather)(uintptr_t in, uintptr_t out, size_t each, int type, gpu_handle comm,
                      gpu_handle stream);
    int (*reduce_scatter)(uintptr_t in, uintptr_t out, size_t each, int type, int op,
                          gpu_handle comm, gpu_handle stream);
    int (*broadcast)(uintptr_t in, uintptr_t out, size_t count, int type, int root, gpu_handle comm,
                     gpu_handle stream);
    int (*send)(uintptr_t in, size_t count, int type, int peer, gpu_handle comm, gpu_handle stream);
    int (*receive)(uintptr_t out, size_t count, int type, int peer, gpu_handle comm,
                   gpu_handle stream);
} gpu_comm_api;

typedef struct gpu_nv_clock_api {
    int (*init)(void);
    int (*shutdown)(void);
    int (*device)(unsigned index, gpu_handle *device);
    int (*clock)(gpu_handle device, int type, unsigned *mhz);
    int (*reasons)(gpu_handle device, unsigned long long *reasons);
} gpu_nv_clock_api;
typedef struct gpu_amd_clock_api {
    int (*init)(uint64_t flags);
    int (*shutdown)(void);
    int (*clock)(uint32_t device, int type, void *frequencies);
} gpu_amd_clock_api;

enum { GPU_LIBRARIES = 3, GPU_ENTRIES = sizeof(gpu_api) / sizeof(void (*)(void)) };
enum { GPU_MAX_DEVICES = 16, GPU_BUFFERS = 2 * GPU_MAX_DEVICES, GPU_HEURISTIC_BYTES = 512 };
/* GPU_FILL twice is a bf16 of 0.011 and an fp16 of 1.06, once an e4m3 of 1.5: neither zero nor
 * large. Behind the workspace lies a scale. */
enum { GPU_WORKSPACE_BYTES = 64 << 20, GPU_SCALE_BYTES = 256, GPU_FILL = 0x3c };
/* In the order of kernels.inc. */
enum { GPU_STREAM = 0, GPU_ATTEND, GPU_ATTEND_DQ, GPU_ATTEND_DKV, GPU_KERNELS };

/* What differs between vendors. */
typedef struct gpu_vendor {
    const char *name;
    const char *library[GPU_LIBRARIES][3]; /* driver, compiler, products: names to try */
    int least_version;                     /* of the driver, as it says itself */
    const char *entry[GPU_ENTRIES];        /* in the order of gpu_api */
    uint8_t from[GPU_ENTRIES];             /* library of each */
    int out_of_memory;                     /* status of an allocation that does not fit */
    int compute_f32, type_f32, type_f16, type_bf16;
    int transpose_a, transpose_b, op_none, op_transpose; /* of a product's description */
    int batch_count, batch_stride;                       /* of a matrix's layout */
    int workspace;                                       /* of a preference */
    int type_f8[2], type_f4; /* e4m3, e4m3 as older devices have it or 0; e2m1 */
    int scale_a, scale_b;    /* where a product finds its scales, and how they lie */
    int scale_mode_a, scale_mode_b;
    const char *comm_library[3], *clock_library[3], *clock_entry[5];
    bool counts_reasons; /* NVML; else ROCm SMI */
} gpu_vendor;
extern const gpu_vendor gpu_this_vendor;

typedef struct gpu {
    gpu_api api;
    void *library[GPU_LIBRARIES], *comm_library, *clock_library;
    int device, version, comm_version, ranks;
    gpu_handle context, lt, start, end;
    gpu_handle module[GPU_KERNELS], kernel[GPU_KERNELS];
    gpu_handle peer[GPU_MAX_DEVICES], comm[GPU_MAX_DEVICES]; /* contexts, communicators */
    gpu_comm_api comm_api;
    union {
        gpu_nv_clock_api nv;
        gpu_amd_clock_api amd;
    } clock_api;
    uintptr_t workspace;
    bool retained, has_clock, slowed;
    bool own_attention; /* asked for: see kernels.inc */
} gpu;

typedef struct gpu_job {
    orr_backend_op op;
    uintptr_t buffer[GPU_BUFFERS];
    gpu_handle desc, layout[3];
    unsigned char heuristic[GPU_HEURISTIC_BYTES]; /* its algorithm comes first */
    uint64_t vectors;                             /* of sixteen bytes, each way */
    uint64_t elements;                            /* of a collective, on every rank */
} gpu_job;

/* Leaves "... failed with status N" and returns the status. */
int gpu_say(orr_backend_message *message, int status, const char *what, int code);
/* A failing call leaves the device in a state that only its end clears. */
#define LOSE(self_call, what)                                                                      \
    do {                                                                                           \
        int code_ = (self_call);                                                                   \
        if (code_ != 0) {                                                                          \
            return gpu_say(message, ORR_BACKEND_LOST, (what), code_);                              \
        }                                                                                          \
    } while (0)

/* 0 or a status that is not OK; filled with GPU_FILL. */
int gpu_allocate(gpu *self, uintptr_t *pointer, uint64_t bytes, orr_backend_message *message);
int gpu_compile(gpu *self, orr_backend_message *message);

/* Buffers, descriptions and algorithm of a product; what describes it is given back apart. */
int gpu_plan_product(gpu *self, gpu_job *job, orr_backend_message *message);
void gpu_forget_product(gpu *self, gpu_job *job);

int gpu_plan_attention(gpu *self, gpu_job *job, orr_backend_message *message);
int gpu_attention(gpu *self, gpu_job *job);

/* Not an error when the library or a second device is missing: one rank. */
int gpu_comm_open(gpu *self, const char *options, int devices, orr_backend_message *message);
void gpu_comm_close(gpu *self);
int gpu_plan_collective(gpu *self, gpu_job *job, orr_backend_message *message);
int gpu_collective(gpu *self, const gpu_job *job);

void gpu_clock_open(gpu *self, const char *options);
void gpu_clock_close(gpu *self);
/* 0: not known. slowed: below what was asked for, by power, heat or the board. */
void gpu_clock_read(gpu *self, double *clock_hz, bool *slowed);

#endif
