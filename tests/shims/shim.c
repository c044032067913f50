/* The entry points that the cuda and hip back ends use, on the CPU, with faults; for tests only.
 *
 * Memory is the host's, an event is a reading of the clock, products are computed in double and
 * checked for shapes that fit. ORR_SHIM_FAULT names what goes wrong; shim_live() counts what was
 * created and not destroyed, so that the back ends are checked for leaks through errors too. Built
 * with SHIM_CUDA or SHIM_HIP; with SHIM_HOLE one entry point is missing. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef SHIM_CUDA
#define N(cuda, hip) cuda
enum { OP_T = 1, TRANSPOSE_A = 3, TRANSPOSE_B = 4, BATCH = 5, STRIDE = 6, VERSION = 13000 };
#else
#define N(cuda, hip) hip
enum { OP_T = 112, TRANSPOSE_A = 0, TRANSPOSE_B = 1, BATCH = 0, STRIDE = 1, VERSION = 60443484 };
#endif
#define API __attribute__((visibility("default")))
enum { NO_MEMORY = 2, INVALID = 1, MISALIGNED = 7, LAUNCH_FAILED = 719, LOST = 999 };

typedef struct shape {
    int type;
    uint64_t rows, columns;
    int64_t ld, stride;
    int batch;
} shape;
typedef struct product {
    int compute, transpose_a, transpose_b;
} product;

static int live, sticky, launches;

API int shim_live(void);
int shim_live(void) {
    return live;
}

static int fault(const char *name) {
    const char *wanted = getenv("ORR_SHIM_FAULT");
    return wanted != NULL && strcmp(wanted, name) == 0;
}

static int make(void **out, size_t bytes) {
    *out = calloc(1, bytes);
    live++;
    return sticky;
}

static int unmake(void *pointer) {
    free(pointer);
    live--;
    return 0;
}

/* ---- driver --------------------------------------------------------------------------------- */

#define ENTRY(cuda, hip, arguments)                                                                \
    API int N(cuda, hip) arguments;                                                                \
    int N(cuda, hip)                                                                               \
    arguments

ENTRY(cuInit, hipInit, (unsigned flags)) {
    return (int)flags;
}
ENTRY(cuDriverGetVersion, hipDriverGetVersion, (int *version)) {
    *version = fault("version") ? 1 : VERSION;
    return 0;
}
ENTRY(cuDeviceGetCount, hipGetDeviceCount, (int *count)) {
    *count = fault("no-device") ? 0 : 1;
    return 0;
}
ENTRY(cuDeviceGet, hipDeviceGet, (int *device, int ordinal)) {
    *device = ordinal;
    return 0;
}
ENTRY(cuDeviceGetName, hipDeviceGetName, (char *name, int length, int device)) {
    (void)snprintf(name, (size_t)length, "shim %d", device);
    return 0;
}
ENTRY(cuDevicePrimaryCtxRetain, hipDevicePrimaryCtxRetain, (void **context, int device)) {
    static int only;
    *context = &only;
    live++;
    sticky = launches = 0;
    return device;
}
ENTRY(cuCtxSetCurrent, hipCtxSetCurrent, (void *context)) {
    return context == NULL ? INVALID : 0;
}
ENTRY(cuDevicePrimaryCtxRelease_v2, hipDevicePrimaryCtxRelease, (int device)) {
    live--;
    return device;
}
ENTRY(cuMemGetInfo_v2, hipMemGetInfo, (size_t * free_bytes, size_t *total_bytes)) {
    *free_bytes = *total_bytes = (size_t)1 << 30;
    return sticky;
}
ENTRY(cuMemAlloc_v2, hipMalloc, (uintptr_t * pointer, size_t bytes)) {
    void *memory = NULL;
    /* the workspace is had, a large operand is not */
    if (sticky || (fault("alloc") && bytes > 60000 && bytes < 1 << 26)) {
        return sticky ? sticky : NO_MEMORY;
    }
    if (posix_memalign(&memory, 256, bytes) != 0) {
        return NO_MEMORY;
    }
    live++;
    *pointer = (uintptr_t)memory;
    return 0;
}
ENTRY(cuMemFree_v2, hipFree, (uintptr_t pointer)) {
    (void)unmake((void *)pointer);
    return sticky;
}
ENTRY(cuMemsetD8_v2, hipMemsetD8, (uintptr_t pointer, unsigned char value, size_t bytes)) {
    memset((void *)pointer, value, bytes);
    return sticky;
}
ENTRY(cuCtxSynchronize, hipDeviceSynchronize, (void)) {
    return sticky;
}

/* ---- events --------------------------------------------------------------------------------- */

static double now_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}
ENTRY(cuEventCreate, hipEventCreateWithFlags, (void **event, unsigned flags)) {
    (void)flags;
    return make(event, sizeof(double));
}
ENTRY(cuEventRecord, hipEventRecord, (void *event, void *stream)) {
    (void)stream;
    *(double *)event = now_ms();
    return sticky;
}
ENTRY(cuEventSynchronize, hipEventSynchronize, (void *event)) {
    (void)event;
    if (fault("hang") && launches > 20) {
        for (;;) {
            (void)pause();
        }
    }
    if (fault("lost") && launches > 20) {
        sticky = LOST;
    }
    return sticky;
}
ENTRY(cuEventElapsedTime, hipEventElapsedTime, (float *ms, void *start, void *end)) {
    *ms = (float)(*(double *)end - *(double *)start);
    return sticky;
}
ENTRY(cuEventDestroy_v2, hipEventDestroy, (void *event)) {
    return unmake(event);
}

/* ---- kernels -------------------------------------------------------------------------------- */

static int streaming; /* the one kernel */

ENTRY(cuModuleLoadData, hipModuleLoadData, (void **module, const void *image)) {
    return strstr((const char *)image, "void stream(") == NULL ? INVALID : make(module, 1);
}
ENTRY(cuModuleGetFunction, hipModuleGetFunction,
      (void **function, void *module, const char *name)) {
    (void)module;
    *function = &streaming;
    return strcmp(name, "stream") == 0 ? 0 : INVALID;
}
ENTRY(cuModuleUnload, hipModuleUnload, (void *module)) {
    return unmake(module);
}
ENTRY(cuLaunchKernel, hipModuleLaunchKernel,
      (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
       unsigned shared_bytes, void *stream, void **arguments, void **extra)) {
    (void)shared_bytes;
    (void)stream;
    uint64_t n = *(uint64_t *)arguments[2];
    const float *x = *(const float *const *)arguments[0];
    float *y = *(float **)arguments[1];
    if (function != &streaming || extra != NULL || gy * gz * by * bz != 1 ||
        (uint64_t)gx * bx < n || (uint64_t)(gx - 1) * bx >= n) {
        return INVALID;
    }
    if (((uintptr_t)x | (uintptr_t)y) % 16 != 0) {
        return MISALIGNED;
    }
    launches++;
    if (fault("sticky") && launches > 20) {
        sticky = LAUNCH_FAILED;
        return sticky;
    }
    for (uint64_t i = 0; i < 4 * n; i++) {
        y[i] = 0.5f * x[i];
    }
    return sticky;
}

/* ---- compiler ------------------------------------------------------------------------------- */

typedef struct program {
    char source[4096];
} program;
ENTRY(nvrtcCreateProgram, hiprtcCreateProgram,
      (void **out, const char *source, const char *name, int headers, const char *const *header,
       const char *const *include)) {
    (void)name;
    (void)header;
    (void)include;
    if (headers != 0 || make(out, sizeof(program)) != 0) {
        return INVALID;
    }
    (void)snprintf(((program *)*out)->source, sizeof(program), "%s", source);
    return 0;
}
ENTRY(nvrtcCompileProgram, hiprtcCompileProgram,
      (void *p, int options, const char *const *option)) {
    (void)p;
    (void)option;
    return fault("compile") ? 6 : options;
}
ENTRY(nvrtcGetPTXSize, hiprtcGetCodeSize, (void *p, size_t *bytes)) {
    *bytes = strlen(((program *)p)->source) + 1;
    return 0;
}
ENTRY(nvrtcGetPTX, hiprtcGetCode, (void *p, char *code)) {
    memcpy(code, ((program *)p)->source, strlen(((program *)p)->source) + 1);
    return 0;
}
ENTRY(nvrtcDestroyProgram, hiprtcDestroyProgram, (void **p)) {
    return unmake(*p);
}

/* ---- products ------------------------------------------------------------------------------- */

ENTRY(cublasLtCreate, hipblasLtCreate, (void **lt)) {
    return make(lt, 1);
}
ENTRY(cublasLtDestroy, hipblasLtDestroy, (void *lt)) {
    return unmake(lt);
}
ENTRY(cublasLtMatmulDescCreate, hipblasLtMatmulDescCreate, (void **desc, int compute, int scale)) {
    int status = make(desc, sizeof(product));
    ((product *)*desc)->compute = compute;
    return status != 0 ? status : scale;
}
ENTRY(cublasLtMatmulDescSetAttribute, hipblasLtMatmulDescSetAttribute,
      (void *desc, int attribute, const void *value, size_t bytes)) {
    product *own = (product *)desc;
    int *member = attribute == TRANSPOSE_A   ? &own->transpose_a
                  : attribute == TRANSPOSE_B ? &own->transpose_b
                                             : NULL;
    if (member == NULL || bytes != sizeof *member) {
        return MISALIGNED;
    }
    memcpy(member, value, bytes);
    return 0;
}
ENTRY(cublasLtMatmulDescDestroy, hipblasLtMatmulDescDestroy, (void *desc)) {
    return unmake(desc);
}
ENTRY(cublasLtMatrixLayoutCreate, hipblasLtMatrixLayoutCreate,
      (void **layout, int type, uint64_t rows, uint64_t columns, int64_t ld)) {
    int status = make(layout, sizeof(shape));
    *(shape *)*layout = (shape){type, rows, columns, ld, 0, 1};
    return ld < (int64_t)rows ? MISALIGNED : status;
}
ENTRY(cublasLtMatrixLayoutSetAttribute, hipblasLtMatrixLayoutSetAttribute,
      (void *layout, int attribute, const void *value, size_t bytes)) {
    shape *own = (shape *)layout;
    if (attribute == BATCH && bytes == sizeof own->batch) {
        memcpy(&own->batch, value, bytes);
        return 0;
    }
    if (attribute == STRIDE && bytes == sizeof own->stride) {
        memcpy(&own->stride, value, bytes);
        return 0;
    }
    return MISALIGNED;
}
ENTRY(cublasLtMatrixLayoutDestroy, hipblasLtMatrixLayoutDestroy, (void *layout)) {
    return unmake(layout);
}
ENTRY(cublasLtMatmulPreferenceCreate, hipblasLtMatmulPreferenceCreate, (void **preference)) {
    return make(preference, 1);
}
ENTRY(cublasLtMatmulPreferenceSetAttribute, hipblasLtMatmulPreferenceSetAttribute,
      (void *preference, int attribute, const void *value, size_t bytes)) {
    (void)preference;
    (void)value;
    return attribute == 1 && bytes == sizeof(uint64_t) ? 0 : MISALIGNED;
}
ENTRY(cublasLtMatmulPreferenceDestroy, hipblasLtMatmulPreferenceDestroy, (void *preference)) {
    return unmake(preference);
}
ENTRY(cublasLtMatmulAlgoGetHeuristic, hipblasLtMatmulAlgoGetHeuristic,
      (void *lt, void *desc, void *a, void *b, void *c, void *d, void *preference, int wanted,
       void *results, int *found)) {
    if (lt == NULL || desc == NULL || a == NULL || b == NULL || c != d || preference == NULL) {
        return MISALIGNED;
    }
    memset(results, 0x5a, 16);
    *found = fault("algorithm") ? 0 : wanted;
    return 0;
}

#ifndef SHIM_HOLE
/* An element of 2 or 4 bytes; the 16 bits are read as the upper half of an fp32. */
static double element(uintptr_t base, const shape *s, uint64_t row, uint64_t column) {
    uint64_t at = row + column * (uint64_t)s->ld;
    float value = 0;
    if (s->type == 0) {
        memcpy(&value, (const char *)base + 4 * at, 4);
    } else {
        uint16_t half = 0;
        memcpy(&half, (const char *)base + 2 * at, 2);
        uint32_t whole = (uint32_t)half << 16;
        memcpy(&value, &whole, 4);
    }
    return (double)value;
}

ENTRY(cublasLtMatmul, hipblasLtMatmul,
      (void *lt, void *desc, const void *alpha, uintptr_t a, void *la, uintptr_t b, void *lb,
       const void *beta, uintptr_t c, void *lc, uintptr_t d, void *ld, const void *algorithm,
       uintptr_t workspace, size_t workspace_bytes, void *stream)) {
    const product *own = (const product *)desc;
    const shape *sa = (const shape *)la, *sb = (const shape *)lb, *sc = (const shape *)lc;
    int ta = own->transpose_a == OP_T, tb = own->transpose_b == OP_T;
    uint64_t m = ta ? sa->columns : sa->rows, k = ta ? sa->rows : sa->columns;
    uint64_t kb = tb ? sb->columns : sb->rows, n = tb ? sb->rows : sb->columns;
    (void)stream;
    if (lt == NULL || c != d || lc != ld || k != kb || sc->rows != m || sc->columns != n ||
        sa->batch != sb->batch || sa->batch != sc->batch || workspace == 0 ||
        workspace_bytes == 0 || ((const unsigned char *)algorithm)[0] != 0x5a ||
        (sa->batch > 1 && sc->stride != (int64_t)(m * n))) {
        return MISALIGNED;
    }
    launches++;
    if (fault("sticky") && launches > 20) {
        sticky = LAUNCH_FAILED;
        return sticky;
    }
    float by = *(const float *)alpha, keep = *(const float *)beta;
    /* the corners: whether operands and result are as large as they are said to be */
    const uint64_t rows[] = {0, m - 1}, columns[] = {0, n - 1};
    for (int corner = 0; corner < 4; corner++) {
        uint64_t i = rows[corner & 1], j = columns[corner >> 1];
        double sum = 0;
        for (uint64_t p = 0; p < k; p++) {
            sum += element(a, sa, ta ? p : i, ta ? i : p) * element(b, sb, tb ? j : p, tb ? p : j);
        }
        if (sc->type == 0) {
            float *out = (float *)d + i + j * (uint64_t)sc->ld;
            *out = by * (float)sum + keep * *out;
        } else {
            float value = by * (float)sum;
            uint32_t whole = 0;
            memcpy(&whole, &value, 4);
            ((uint16_t *)d)[i + j * (uint64_t)sc->ld] = (uint16_t)(whole >> 16);
        }
    }
    return sticky;
}
#endif
