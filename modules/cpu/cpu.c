/* The cpu back end: every op of a training step in fp32, which stands in for the 16-bit formats;
 * bytes of collectives are those of the plan. GEMMs by OpenBLAS with one thread, attention as
 * products around a softmax, memory-bound ops as passes over memory, collectives by MPI. */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"

/* ---- ops ------------------------------------------------------------------------------------ */

static int run_gemm(cpu *self, cpu_job *job) {
    const uint64_t *dim = job->op.dim;
    uint64_t m = dim[0], n = dim[1], k = dim[2];
    bool add = job->op.out_bytes == 8;
    (void)self;
    for (uint64_t i = 0; i < dim[3]; i++) {
        const float *a = job->buffer[0] + i * m * k, *b = job->buffer[1] + i * n * k;
        float *c = job->buffer[2] + i * m * n;
        if (job->op.phase == 0) {
            cpu_gemm_nt(m, n, k, a, b, c, add);
        } else if (job->op.phase == 1) {
            cpu_gemm_nn(m, n, k, a, b, c, add);
        } else {
            cpu_gemm_tn(m, n, k, a, b, c, add);
        }
    }
    return ORR_BACKEND_OK;
}

static int run_attention(cpu *self, cpu_job *job) {
    const uint64_t *dim = job->op.dim;
    cpu_head h = {.sq = dim[6],
                  .sk = dim[7],
                  .d = dim[3],
                  .dv = dim[4],
                  .first = dim[7] - dim[6],
                  .window = dim[5],
                  .causal = job->op.causal != 0};
    (void)self;
    uint64_t share = dim[1] / dim[2] > 0 ? dim[1] / dim[2] : 1;
    for (uint64_t b = 0; b < dim[0]; b++) {
        for (uint64_t head = 0; head < dim[1]; head++) {
            uint64_t own = b * dim[1] + head, kv = b * dim[2] + head / share;
            const float *q = job->buffer[0] + own * h.sq * h.d;
            const float *k = job->buffer[1] + kv * h.sk * h.d;
            const float *v = job->buffer[2] + kv * h.sk * h.dv;
            float *p = job->buffer[3], *out = job->buffer[4] + own * h.sq * h.dv;
            if (job->op.phase == 0) {
                cpu_attend(&h, q, k, v, p, out);
            } else { /* probabilities are made again, as fused kernels do */
                cpu_attend(&h, q, k, v, p, job->buffer[5]);
                cpu_attend_back(&h, q, k, v, p, out, job->buffer[6], job->buffer[5], job->buffer[7],
                                job->buffer[7] + h.sk * h.d);
            }
        }
    }
    return ORR_BACKEND_OK;
}

/* Half of the traffic is read, half written, in as many passes as there are kernels. */
static int run_memory(cpu *self, cpu_job *job) {
    uint64_t kernels = job->op.dim[1] > 0 ? job->op.dim[1] : 1, count = job->floats[0];
    (void)self;
    for (uint64_t pass = 0; pass < kernels; pass++) {
        uint64_t from = count * pass / kernels, until = count * (pass + 1) / kernels;
        const float *x = job->buffer[0];
        float *y = job->buffer[1];
        for (uint64_t i = from; i < until; i++) {
            y[i] = 0.5f * x[i] + 0.25f;
        }
    }
    return ORR_BACKEND_OK;
}

static int run_collective(cpu *self, cpu_job *job) {
    int count = (int)job->floats[0], part = count / job->ranks, status = MPI_SUCCESS;
    float *in = job->buffer[0], *out = job->buffer[1];
    (void)self;
    switch (job->op.sub) {
    case 0: status = MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, job->comm); break;
    case 1: status = MPI_Allgather(in, part, MPI_FLOAT, out, part, MPI_FLOAT, job->comm); break;
    case 2: status = MPI_Reduce_scatter_block(in, out, part, MPI_FLOAT, MPI_SUM, job->comm); break;
    case 3: status = MPI_Alltoall(in, part, MPI_FLOAT, out, part, MPI_FLOAT, job->comm); break;
    case 4: {
        int rank = 0;
        (void)MPI_Comm_rank(job->comm, &rank);
        status =
            MPI_Sendrecv(in, count, MPI_FLOAT, (rank + 1) % job->ranks, 0, out, count, MPI_FLOAT,
                         (rank + job->ranks - 1) % job->ranks, 0, job->comm, MPI_STATUS_IGNORE);
        break;
    }
    default: status = MPI_Bcast(in, count, MPI_FLOAT, 0, job->comm); break;
    }
    return status == MPI_SUCCESS ? ORR_BACKEND_OK : ORR_BACKEND_LOST;
}

/* A send returns at once; its buffer is free again when the next one of its kind starts. */
static int run_send(cpu *self, cpu_job *job) {
    (void)self;
    if (MPI_Wait(&job->sent, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        return ORR_BACKEND_LOST;
    }
    int status = MPI_Isend(job->buffer[0], (int)job->floats[0], MPI_FLOAT, job->peer, 1,
                           MPI_COMM_WORLD, &job->sent);
    return status == MPI_SUCCESS ? ORR_BACKEND_OK : ORR_BACKEND_LOST;
}

static int run_receive(cpu *self, cpu_job *job) {
    (void)self;
    int status = MPI_Recv(job->buffer[0], (int)job->floats[0], MPI_FLOAT, job->peer, 1,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return status == MPI_SUCCESS ? ORR_BACKEND_OK : ORR_BACKEND_LOST;
}

/* ---- preparing ------------------------------------------------------------------------------ */

static void drop(void *self, void *job) {
    cpu_job *own = (cpu_job *)job;
    (void)self;
    if (own == NULL) {
        return;
    }
    (void)MPI_Wait(&own->sent, MPI_STATUS_IGNORE);
    for (int i = 0; i < CPU_MAX_BUFFERS; i++) {
        free(own->buffer[i]);
    }
    free(own);
}

static void plan_attention(cpu_job *job) {
    const uint64_t *dim = job->op.dim;
    uint64_t heads = dim[0] * dim[1], kv = dim[0] * dim[2], scores = dim[6] * dim[7];
    uint64_t widest = dim[3] > dim[4] ? dim[3] : dim[4];
    const uint64_t floats[] = {heads * dim[6] * dim[3],
                               kv * dim[7] * dim[3],
                               kv * dim[7] * dim[4],
                               scores,
                               heads * dim[6] * dim[4],
                               dim[6] * widest,
                               scores,
                               dim[7] * (dim[3] + dim[4])};
    memcpy(job->floats, floats, sizeof floats);
    job->run = run_attention;
}

/* The communicator of this rank's group; only its members call. */
static int find_group(cpu *self, cpu_job *job, orr_backend_message *message) {
    uint64_t size = job->op.dim[1], stride = job->op.dim[3] > 0 ? job->op.dim[3] : 1;
    for (uint32_t i = 0; i < self->group_count; i++) {
        if (self->group[i].size == size && self->group[i].stride == stride) {
            job->comm = self->group[i].comm;
            return ORR_BACKEND_OK;
        }
    }
    if (size > (uint64_t)self->ranks || self->group_count == CPU_MAX_GROUPS || size > 1024) {
        (void)snprintf(message->text, sizeof message->text, "needs %llu ranks, there are %d",
                       (unsigned long long)size, self->ranks);
        return ORR_BACKEND_UNSUPPORTED;
    }
    uint64_t rank = (uint64_t)self->rank, block = size * stride;
    uint64_t first = rank / block * block + rank % stride;
    int member[1024];
    for (uint64_t i = 0; i < size; i++) {
        member[i] = (int)(first + i * stride);
    }
    if (member[size - 1] >= self->ranks) {
        return ORR_BACKEND_UNSUPPORTED;
    }
    MPI_Group world, group;
    MPI_Comm comm = MPI_COMM_NULL;
    (void)MPI_Comm_group(MPI_COMM_WORLD, &world);
    (void)MPI_Group_incl(world, (int)size, member, &group);
    int status = MPI_Comm_create_group(MPI_COMM_WORLD, group, 7, &comm);
    (void)MPI_Group_free(&group);
    (void)MPI_Group_free(&world);
    if (status != MPI_SUCCESS) {
        return ORR_BACKEND_LOST;
    }
    (void)MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    self->group[self->group_count++] = (cpu_group){size, stride, comm};
    job->comm = comm;
    return ORR_BACKEND_OK;
}

static int plan_job(cpu *self, cpu_job *job, orr_backend_message *message) {
    const uint64_t *dim = job->op.dim;
    switch ((orr_backend_kind)job->op.kind) {
    case ORR_BACKEND_GEMM:
    case ORR_BACKEND_GROUPED_GEMM:
        for (int i = 0; i < 3; i++) {
            if (dim[i] > INT32_MAX) {
                return ORR_BACKEND_UNSUPPORTED;
            }
        }
        job->floats[0] = dim[3] * dim[0] * dim[2];
        job->floats[1] = dim[3] * dim[1] * dim[2];
        job->floats[2] = dim[3] * dim[0] * dim[1];
        job->run = run_gemm;
        return ORR_BACKEND_OK;
    case ORR_BACKEND_ATTENTION:
        if (dim[2] == 0 || dim[1] % dim[2] != 0 || dim[6] > dim[7] || dim[7] > 1 << 15) {
            return ORR_BACKEND_UNSUPPORTED;
        }
        plan_attention(job);
        return ORR_BACKEND_OK;
    case ORR_BACKEND_MEMORY:
        job->floats[0] = job->floats[1] = dim[0] / (2 * sizeof(float));
        job->run = run_memory;
        return ORR_BACKEND_OK;
    case ORR_BACKEND_COLLECTIVE:
        if (dim[1] == 0 || dim[0] / sizeof(float) > INT32_MAX) {
            return ORR_BACKEND_UNSUPPORTED;
        }
        job->ranks = (int)dim[1];
        job->floats[0] = job->floats[1] = (dim[0] / sizeof(float) + dim[1] - 1) / dim[1] * dim[1];
        job->run = run_collective;
        return find_group(self, job, message);
    case ORR_BACKEND_SEND:
    case ORR_BACKEND_RECEIVE:
        if (dim[1] >= (uint64_t)self->ranks || dim[0] / sizeof(float) > INT32_MAX) {
            return ORR_BACKEND_UNSUPPORTED;
        }
        job->peer = (int)dim[1];
        job->floats[0] = dim[0] / sizeof(float);
        job->run = job->op.kind == ORR_BACKEND_SEND ? run_send : run_receive;
        return ORR_BACKEND_OK;
    }
    return ORR_BACKEND_UNSUPPORTED;
}

static int prepare(void *self, const orr_backend_op *op, void **out, orr_backend_message *message) {
    cpu_job *job = (cpu_job *)calloc(1, sizeof *job);
    if (job == NULL) {
        return ORR_BACKEND_NO_MEMORY;
    }
    job->op = *op;
    job->sent = MPI_REQUEST_NULL;
    int status = plan_job((cpu *)self, job, message);
    for (uint64_t i = 0; i < CPU_MAX_BUFFERS && status == ORR_BACKEND_OK; i++) {
        if (job->floats[i] > 0) {
            job->buffer[i] = cpu_floats(job->floats[i], i + 1);
            status = job->buffer[i] == NULL ? ORR_BACKEND_NO_MEMORY : ORR_BACKEND_OK;
        }
    }
    if (status != ORR_BACKEND_OK) {
        drop(self, job);
        return status;
    }
    *out = job;
    return ORR_BACKEND_OK;
}

static int run(void *self, void *job, double *seconds, orr_backend_message *message) {
    (void)seconds;
    cpu_job *own = (cpu_job *)job;
    int status = own->run((cpu *)self, own);
    if (status == ORR_BACKEND_LOST) {
        (void)snprintf(message->text, sizeof message->text, "another rank is gone");
    }
    return status;
}

/* ---- table ---------------------------------------------------------------------------------- */

static int open_cpu(const char *options, void **out, orr_backend_message *message) {
    (void)options;
    cpu *self = (cpu *)calloc(1, sizeof *self);
    int running = 0;
    if (self == NULL) {
        return ORR_BACKEND_NO_MEMORY;
    }
    (void)MPI_Initialized(&running);
    if (!running && MPI_Init(NULL, NULL) != MPI_SUCCESS) {
        (void)snprintf(message->text, sizeof message->text, "MPI does not start");
        free(self);
        return ORR_BACKEND_NO_DEVICE;
    }
    self->own_mpi = !running;
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &self->rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &self->ranks);
    openblas_set_num_threads(1);
    *out = self;
    return ORR_BACKEND_OK;
}

static int identify(void *self, orr_backend_identity *out, orr_backend_message *message) {
    const cpu *own = (const cpu *)self;
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    (void)message;
    (void)MPI_Get_library_version(mpi, &length);
    *out = (orr_backend_identity){.rank = (uint32_t)own->rank, .ranks = (uint32_t)own->ranks};
    (void)snprintf(out->device, sizeof out->device, "one core, %s", openblas_get_corename());
    (void)snprintf(out->software, sizeof out->software,
                   "executor cpu, fp32 in place of 16 bits; %.60s; %.*s", openblas_get_config(),
                   (int)strcspn(mpi, ","), mpi);
    return ORR_BACKEND_OK;
}

static int meet(void *self, orr_backend_message *message) {
    (void)self;
    if (MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS) {
        (void)snprintf(message->text, sizeof message->text, "another rank is gone");
        return ORR_BACKEND_LOST;
    }
    return ORR_BACKEND_OK;
}

static int check(void *self, uint32_t index, const char **name, double *difference,
                 orr_backend_message *message) {
    return cpu_check((cpu *)self, index, name, difference, message);
}

static void close_cpu(void *self) {
    cpu *own = (cpu *)self;
    for (uint32_t i = 0; i < own->group_count; i++) {
        (void)MPI_Comm_free(&own->group[i].comm);
    }
    if (own->own_mpi) {
        (void)MPI_Finalize();
    }
    free(own);
}

static const orr_backend table = {.abi = ORR_BACKEND_ABI,
                                  .capabilities = ORR_BACKEND_HAS_RANKS | ORR_BACKEND_HAS_CHECK,
                                  .name = "cpu",
                                  .open = open_cpu,
                                  .identify = identify,
                                  .prepare = prepare,
                                  .run = run,
                                  .drop = drop,
                                  .meet = meet,
                                  .check = check,
                                  .close = close_cpu};

__attribute__((visibility("default"))) const orr_backend *orr_backend_entry(void);
const orr_backend *orr_backend_entry(void) {
    return &table;
}
