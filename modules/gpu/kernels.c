/* Text of the kernels, compiled when the back end is opened. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

static const char PREAMBLE[] =
    "#define KERNEL extern \"C\" __global__\n"
    "#define SHARED __shared__\n"
    "#define BARRIER __syncthreads()\n"
    "#define TILE 1024u\n"
    "#define OWN 2\n"
    "#define EXP(x) __expf(x)\n"
    "#define LOG(x) __logf(x)\n"
    "#define WIDE(x) __uint_as_float((unsigned)(x) << 16)\n"
    "#define NARROW(x) (unsigned short)(__float_as_uint(x) >> 16)\n"
    "#define DOT(a, b, n) dot(a, b, n)\n"
    "typedef struct { unsigned heads, kv_heads, dim, v_dim, window, seq_q, seq_kv, causal;"
    " float scale; } attention_shape;\n"
    "static __device__ float dot(const unsigned short *a, const unsigned short *b, unsigned n) {\n"
    "    float sum = 0.0f;\n"
    "    for (unsigned i = 0; i < n; i++) sum += WIDE(a[i]) * WIDE(b[i]);\n"
    "    return sum;\n"
    "}\n";

/* Each line of text is short enough for any compiler; a kernel's is one literal. */
#define KERNEL_TEXT(name, ...) #name, #__VA_ARGS__,
static const char *const texts[] = {
#include "kernels.inc"
};

static int compile(const gpu_api *api, const char *name, const char *text, gpu_handle *module,
                   gpu_handle *function) {
    gpu_handle program = NULL;
    size_t bytes = sizeof PREAMBLE + strlen(text);
    char *source = (char *)calloc(1, bytes), *code = NULL;
    int status = source == NULL ? -1 : 0;
    if (status == 0) {
        (void)snprintf(source, bytes, "%s%s", PREAMBLE, text);
        status = api->program_create(&program, source, name, 0, NULL, NULL);
    }
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
        status = api->module_load(module, code);
    }
    if (status == 0) {
        status = api->module_function(function, *module, name);
    }
    free(source);
    free(code);
    if (program != NULL) {
        (void)api->program_destroy(&program);
    }
    return status;
}

int gpu_compile(gpu *self, orr_backend_message *message) {
    for (int i = 0; i < GPU_KERNELS; i++) {
        int status =
            compile(&self->api, texts[2 * i], texts[2 * i + 1], &self->module[i], &self->kernel[i]);
        if (status != 0) {
            (void)snprintf(message->text, sizeof message->text,
                           "compiling the kernel '%s' failed with status %d", texts[2 * i], status);
            return ORR_BACKEND_NO_DEVICE;
        }
    }
    return ORR_BACKEND_OK;
}
