/* Libraries that may be missing: collectives between the devices of this machine (NCCL, RCCL), and
 * clocks (NVML, ROCm SMI). Without them there is one rank, or no clock in the identity. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "gpu.h"

static void *find(const char *options, const char *const names[3]) {
    void *library = NULL;
    for (int n = 0; n < 3 && library == NULL; n++) {
        const char *name = options != NULL ? options : names[n];
        library = name == NULL ? NULL : dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

/* Entry points in the order of a table of functions; false: one is missing. */
static bool fill(void *library, const char *const *entry, size_t count, void *table) {
    for (size_t i = 0; i < count; i++) {
        void *symbol = library == NULL ? NULL : dlsym(library, entry[i]);
        if (symbol == NULL) {
            return false;
        }
        memcpy((char *)table + i * sizeof symbol, &symbol, sizeof symbol);
    }
    return true;
}

/* ---- collectives ---------------------------------------------------------------------------- */

static const char *const comm_entries[] = {"ncclGetVersion", "ncclCommInitAll",   "ncclCommDestroy",
                                           "ncclGroupStart", "ncclGroupEnd",      "ncclAllReduce",
                                           "ncclAllGather",  "ncclReduceScatter", "ncclBroadcast",
                                           "ncclSend",       "ncclRecv"};
_Static_assert(sizeof comm_entries / sizeof *comm_entries ==
                   sizeof(gpu_comm_api) / sizeof(void (*)(void)),
               "one name an entry");

int gpu_comm_open(gpu *self, const char *options, int devices, orr_backend_message *message) {
    const gpu_api *api = &self->api;
    self->ranks = 1;
    self->comm_library = find(options, gpu_this_vendor.comm_library);
    if (devices < 2 || !fill(self->comm_library, comm_entries,
                             sizeof comm_entries / sizeof *comm_entries, &self->comm_api)) {
        return ORR_BACKEND_OK;
    }
    int list[GPU_MAX_DEVICES];
    self->ranks = devices < GPU_MAX_DEVICES ? devices : GPU_MAX_DEVICES;
    self->peer[0] = self->context;
    for (int d = 0; d < self->ranks; d++) {
        list[d] = d;
        if (d > 0 && api->context_retain(&self->peer[d], d) != 0) {
            (void)snprintf(message->text, sizeof message->text, "device %d cannot be opened", d);
            self->ranks = d;
            return ORR_BACKEND_LOST;
        }
    }
    int code = self->comm_api.version(&self->comm_version);
    code = code == 0 ? self->comm_api.init_all(self->comm, self->ranks, list) : code;
    (void)api->context_set(self->context);
    if (code != 0) {
        (void)snprintf(message->text, sizeof message->text,
                       "connecting %d devices failed with status %d", self->ranks, code);
        return ORR_BACKEND_LOST;
    }
    return ORR_BACKEND_OK;
}

void gpu_comm_close(gpu *self) {
    for (int d = 0; d < self->ranks; d++) {
        if (self->comm[d] != NULL) {
            (void)self->comm_api.destroy(self->comm[d]);
        }
    }
    for (int d = 1; d < self->ranks; d++) {
        (void)self->api.context_release(d);
    }
    if (self->comm_library != NULL) {
        (void)dlclose(self->comm_library);
    }
}

int gpu_plan_collective(gpu *self, gpu_job *job, orr_backend_message *message) {
    uint64_t ranks = job->op.dim[1], bytes = job->op.dim[0];
    if (ranks < 2 || ranks > (uint64_t)self->ranks) {
        (void)snprintf(message->text, sizeof message->text, "needs %llu devices, there are %d",
                       (unsigned long long)ranks, self->ranks);
        return ORR_BACKEND_UNSUPPORTED;
    }
    if (ranks != (uint64_t)self->ranks) {
        (void)snprintf(message->text, sizeof message->text,
                       "collectives run between all %d devices", self->ranks);
        return ORR_BACKEND_UNSUPPORTED;
    }
    /* whole elements for every rank */
    job->elements = (bytes / 2 + ranks - 1) / ranks * ranks;
    int status = ORR_BACKEND_OK;
    for (int d = 0; d < self->ranks && status == ORR_BACKEND_OK; d++) {
        (void)self->api.context_set(self->peer[d]);
        status = gpu_allocate(self, &job->buffer[2 * d], 2 * job->elements, message);
        if (status == ORR_BACKEND_OK) {
            status = gpu_allocate(self, &job->buffer[2 * d + 1], 2 * job->elements, message);
        }
    }
    (void)self->api.context_set(self->context);
    return status;
}

/* One rank's part of a collective; buffers hold the whole of it. */
static int part(gpu *self, const gpu_job *job, int rank) {
    enum { SUM = 0, BF16 = 9, LEAST_PART = 1 };
    const gpu_comm_api *api = &self->comm_api;
    uintptr_t in = job->buffer[2 * rank], out = job->buffer[2 * rank + 1];
    uint64_t all = job->elements, each = all / (uint64_t)self->ranks;
    gpu_handle comm = self->comm[rank];
    int code = 0;
    switch (job->op.sub) {
    case 0: return api->all_reduce(in, out, all, BF16, SUM, comm, NULL);
    case 1: return api->all_gather(in, out, each, BF16, comm, NULL);
    case 2: return api->reduce_scatter(in, out, each, BF16, SUM, comm, NULL);
    case 3:
        for (int to = 0; to < self->ranks && code == 0; to++) {
            uint64_t at = 2 * each * (uint64_t)to;
            code = api->send(in + at, each, BF16, to, comm, NULL);
            code = code == 0 ? api->receive(out + at, each, BF16, to, comm, NULL) : code;
        }
        return code;
    case 4:
        code = api->send(in, all, BF16, (rank + 1) % self->ranks, comm, NULL);
        return code == 0 ? api->receive(out, all, BF16, (rank + self->ranks - 1) % self->ranks,
                                        comm, NULL)
                         : code;
    default: return api->broadcast(in, out, all, BF16, 0, comm, NULL);
    }
}

int gpu_collective(gpu *self, const gpu_job *job) {
    int code = self->comm_api.group_start();
    for (int rank = 0; rank < self->ranks && code == 0; rank++) {
        code = self->api.context_set(self->peer[rank]);
        code = code == 0 ? part(self, job, rank) : code;
    }
    int end = self->comm_api.group_end();
    (void)self->api.context_set(self->context);
    return code != 0 ? code : end;
}

/* ---- clocks --------------------------------------------------------------------------------- */

/* Reasons of NVML that mean slower than asked for: power cap, hardware slowdown, thermal, brake. */
enum { SLOW_REASONS = 0x4 | 0x8 | 0x20 | 0x40 | 0x80, SM_CLOCK = 1 };

void gpu_clock_open(gpu *self, const char *options) {
    const gpu_vendor *vendor = &gpu_this_vendor;
    self->clock_library = find(options, vendor->clock_library);
    self->has_clock = fill(self->clock_library, vendor->clock_entry, vendor->counts_reasons ? 5 : 3,
                           &self->clock_api);
    if (self->has_clock) {
        int code = vendor->counts_reasons ? self->clock_api.nv.init() : self->clock_api.amd.init(0);
        self->has_clock = code == 0;
    }
}

void gpu_clock_close(gpu *self) {
    if (self->has_clock) {
        (void)(gpu_this_vendor.counts_reasons ? self->clock_api.nv.shutdown()
                                              : self->clock_api.amd.shutdown());
    }
    if (self->clock_library != NULL) {
        (void)dlclose(self->clock_library);
    }
}

/* rsmi_frequencies_t of ROCm 6, with room for longer ones. */
typedef struct frequencies {
    bool has_deep_sleep;
    uint32_t count, current;
    uint64_t hz[128];
} frequencies;

void gpu_clock_read(gpu *self, double *clock_hz, bool *slowed) {
    *clock_hz = 0;
    *slowed = false;
    if (!self->has_clock) {
        return;
    }
    if (gpu_this_vendor.counts_reasons) {
        gpu_handle device = NULL;
        unsigned mhz = 0;
        unsigned long long reasons = 0;
        const gpu_nv_clock_api *api = &self->clock_api.nv;
        if (api->device(0, &device) == 0 && api->clock(device, SM_CLOCK, &mhz) == 0) {
            *clock_hz = 1e6 * mhz;
        }
        *slowed =
            device != NULL && api->reasons(device, &reasons) == 0 && (reasons & SLOW_REASONS) != 0;
        return;
    }
    frequencies f;
    memset(&f, 0, sizeof f);
    if (self->clock_api.amd.clock(0, 0, &f) == 0 && f.current < 33) {
        *clock_hz = (double)f.hz[f.current];
    }
}
