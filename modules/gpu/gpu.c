/* The cuda and hip back ends: products by the vendor's library (product.c), memory-bound ops and,
 * when asked for, attention by kernels compiled at run time, collectives between this machine's
 * devices by NCCL or RCCL; timed by the device's events.
 *
 * Own attention has no matrix units, so frameworks are several times faster: without the option
 * `attention` it is a gap, which the framework probe fills. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

enum { BLOCK = 256, OPTION_BYTES = 4096 };

int gpu_say(orr_backend_message *message, int status, const char *what, int code) {
    (void)snprintf(message->text, sizeof message->text, "%s failed with status %d", what, code);
    return status;
}

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

static int check_driver(gpu *self, int *devices, orr_backend_message *message) {
    const gpu_vendor *vendor = &gpu_this_vendor;
    int code = self->api.init(0), count = 0;
    if (code == 0) {
        code = self->api.version(&self->version);
    }
    if (code != 0) {
        return gpu_say(message, ORR_BACKEND_NO_DEVICE, "starting the driver", code);
    }
    if (self->version < vendor->least_version) {
        (void)snprintf(message->text, sizeof message->text,
                       "the driver is of version %d, at least %d is needed", self->version,
                       vendor->least_version);
        return ORR_BACKEND_NO_DEVICE;
    }
    code = self->api.device_count(&count);
    *devices = count;
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
    gpu_comm_close(self);
    gpu_clock_close(self);
    if (self->retained) {
        if (self->lt != NULL) {
            (void)api->lt_destroy(self->lt);
        }
        for (int i = 0; i < GPU_KERNELS; i++) {
            if (self->module[i] != NULL) {
                (void)api->module_unload(self->module[i]);
            }
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

static int start(gpu *self, const char *options, orr_backend_message *message) {
    const gpu_api *api = &self->api;
    int devices = 0, status = check_driver(self, &devices, message);
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
    if (api->allocate(&self->workspace, GPU_WORKSPACE_BYTES + GPU_SCALE_BYTES) != 0) {
        (void)snprintf(message->text, sizeof message->text, "the device has no %d MiB left",
                       GPU_WORKSPACE_BYTES >> 20);
        return ORR_BACKEND_NO_MEMORY;
    }
    LOSE(api->fill(self->workspace + GPU_WORKSPACE_BYTES, GPU_FILL, GPU_SCALE_BYTES),
         "filling memory");
    int compiled = gpu_compile(self, message);
    if (compiled != ORR_BACKEND_OK) {
        return compiled;
    }
    gpu_clock_open(self, options);
    return gpu_comm_open(self, options, devices, message);
}

/* `attention`, or one file that holds all libraries (for tests), or both with a comma. */
static void read_options(gpu *self, const char *options, char library[OPTION_BYTES]) {
    static const char OWN[] = "attention";
    library[0] = '\0';
    while (options != NULL && *options != '\0') {
        size_t bytes = strcspn(options, ",");
        if (bytes == sizeof OWN - 1 && memcmp(options, OWN, bytes) == 0) {
            self->own_attention = true;
        } else {
            (void)snprintf(library, OPTION_BYTES, "%.*s", (int)bytes, options);
        }
        options += bytes + (options[bytes] == ',');
    }
}

static int open_gpu(const char *options, void **out, orr_backend_message *message) {
    gpu *self = (gpu *)calloc(1, sizeof *self);
    if (self == NULL) {
        return ORR_BACKEND_NO_MEMORY;
    }
    char library[OPTION_BYTES];
    read_options(self, options, library);
    int status = load(self, library[0] != '\0' ? library : NULL, message);
    if (status == ORR_BACKEND_OK) {
        status = start(self, library[0] != '\0' ? library : NULL, message);
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
    *out = (orr_backend_identity){.ranks = (uint32_t)self->ranks};
    LOSE(self->api.device_name(out->device, (int)sizeof out->device, self->device),
         "naming the device");
    LOSE(self->api.memory_info(&free_bytes, &total_bytes), "asking for memory");
    out->memory_bytes = (double)total_bytes;
    char comm[32] = "", clock[32] = "";
    if (self->ranks > 1) {
        (void)snprintf(comm, sizeof comm, ", collectives %d", self->comm_version);
    }
    gpu_clock_read(self, &out->clock_hz, &self->slowed);
    out->slowed = self->slowed;
    if (out->clock_hz > 0) {
        (void)snprintf(clock, sizeof clock, ", %.0f MHz", 1e-6 * out->clock_hz);
    }
    (void)snprintf(out->software, sizeof out->software, "executor %s, driver %d%s%s%s",
                   gpu_this_vendor.name, self->version, comm, clock,
                   self->own_attention ? ", own attention" : "");
    return ORR_BACKEND_OK;
}

/* ---- ops ------------------------------------------------------------------------------------ */

static void drop(void *pointer, void *job) {
    gpu *self = (gpu *)pointer;
    gpu_job *own = (gpu_job *)job;
    if (own != NULL) {
        gpu_forget_product(self, own);
    }
    for (int i = 0; own != NULL && i < GPU_BUFFERS; i++) {
        if (own->buffer[i] != 0) {
            (void)self->api.release(own->buffer[i]);
        }
    }
    free(own);
}

int gpu_allocate(gpu *self, uintptr_t *pointer, uint64_t bytes, orr_backend_message *message) {
    bytes = bytes > 0 ? bytes : 16;
    int code = self->api.allocate(pointer, bytes);
    if (code == gpu_this_vendor.out_of_memory) {
        return ORR_BACKEND_NO_MEMORY;
    }
    if (code != 0) {
        return gpu_say(message, ORR_BACKEND_LOST, "allocating", code);
    }
    LOSE(self->api.fill(*pointer, GPU_FILL, bytes), "filling memory");
    return ORR_BACKEND_OK;
}

static int plan_memory(gpu *self, gpu_job *job, orr_backend_message *message) {
    job->vectors = job->op.dim[0] / 32;
    if (job->vectors / BLOCK > UINT32_MAX / 2) {
        return ORR_BACKEND_UNSUPPORTED;
    }
    int status = gpu_allocate(self, &job->buffer[0], 16 * job->vectors, message);
    return status == ORR_BACKEND_OK
               ? gpu_allocate(self, &job->buffer[1], 16 * job->vectors, message)
               : status;
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
        status = gpu_plan_product(self, job, message);
    } else if (op->kind == ORR_BACKEND_MEMORY) {
        status = plan_memory(self, job, message);
    } else if (op->kind == ORR_BACKEND_COLLECTIVE) {
        status = gpu_plan_collective(self, job, message);
    } else if (op->kind == ORR_BACKEND_ATTENTION && self->own_attention) {
        status = gpu_plan_attention(self, job, message);
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
    if (job->op.kind == ORR_BACKEND_COLLECTIVE) {
        return gpu_collective(self, job);
    }
    if (job->op.kind == ORR_BACKEND_ATTENTION) {
        return gpu_attention(self, job);
    }
    if (job->op.kind != ORR_BACKEND_MEMORY) {
        static const float ONE = 1, NONE = 0;
        const float *beta = job->op.out_bytes == 8 ? &ONE : &NONE;
        return self->api.matmul(self->lt, job->desc, &ONE, job->buffer[0], job->layout[0],
                                job->buffer[1], job->layout[1], beta, job->buffer[2],
                                job->layout[2], job->buffer[2], job->layout[2], job->heuristic,
                                self->workspace, GPU_WORKSPACE_BYTES, NULL);
    }
    uint64_t kernels = job->op.dim[1] > 0 ? job->op.dim[1] : 1, each = job->vectors / kernels;
    int code = 0;
    for (uint64_t i = 0; i < kernels && each > 0 && code == 0; i++) {
        uintptr_t x = job->buffer[0] + 16 * i * each, y = job->buffer[1] + 16 * i * each;
        void *arguments[] = {&x, &y, &each};
        code = self->api.launch(self->kernel[GPU_STREAM], (unsigned)((each + BLOCK - 1) / BLOCK), 1,
                                1, BLOCK, 1, 1, 0, NULL, arguments, NULL);
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
                            .capabilities = ORR_BACKEND_HAS_CLOCK | ORR_BACKEND_HAS_RANKS,
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
