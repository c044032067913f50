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

enum { GPU_LIBRARIES = 3, GPU_ENTRIES = sizeof(gpu_api) / sizeof(void (*)(void)) };

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
} gpu_vendor;
extern const gpu_vendor gpu_this_vendor;

#endif
