/* Inside the cpu back end: OpenBLAS with one thread, MPI between ranks. */
#ifndef ORR_MODULE_CPU_H
#define ORR_MODULE_CPU_H

#include <mpi.h>
#include <stdbool.h>

#include "orrery/backend.h"

enum { CPU_MAX_GROUPS = 64, CPU_MAX_BUFFERS = 8 };

typedef struct cpu_group {
    uint64_t size, stride;
    MPI_Comm comm;
} cpu_group;

typedef struct cpu {
    int rank, ranks;
    bool own_mpi; /* started here, to be ended here */
    uint32_t group_count;
    cpu_group group[CPU_MAX_GROUPS];
} cpu;

typedef struct cpu_job cpu_job;
struct cpu_job {
    orr_backend_op op;
    int (*run)(cpu *self, cpu_job *job);
    float *buffer[CPU_MAX_BUFFERS];
    uint64_t floats[CPU_MAX_BUFFERS];
    MPI_Comm comm;
    int ranks, peer;
    MPI_Request sent; /* of the last send, still in flight */
};

/* Row-major products; C is added to when `add`. */
void cpu_gemm_nt(uint64_t m, uint64_t n, uint64_t k, const float *a, const float *b, float *c,
                 bool add); /* A[m,k] B[n,k]^T */
void cpu_gemm_nn(uint64_t m, uint64_t n, uint64_t k, const float *a, const float *b, float *c,
                 bool add); /* A[m,k] B[k,n] */
void cpu_gemm_tn(uint64_t m, uint64_t n, uint64_t k, const float *a, const float *b, float *c,
                 bool add); /* A[k,m]^T B[k,n] */

/* One head: q [sq,d], k [sk,d], v [sk,dv], out [sq,dv], p [sq,sk] is left for the backward. */
typedef struct cpu_head {
    uint64_t sq, sk, d, dv;
    uint64_t first; /* place of the first query among the keys, for the causal mask */
    uint64_t window;
    bool causal;
} cpu_head;
void cpu_attend(const cpu_head *h, const float *q, const float *k, const float *v, float *p,
                float *out);
/* dq [sq,d], dk [sk,d] and dv_ [sk,dv] are written; dp [sq,sk] is scratch. */
void cpu_attend_back(const cpu_head *h, const float *q, const float *k, const float *v,
                     const float *p, const float *dout, float *dp, float *dq, float *dk,
                     float *dv_);

/* NULL when there is no memory; filled with small reproducible numbers. */
float *cpu_floats(uint64_t count, uint64_t seed);
int cpu_check(cpu *self, uint32_t index, const char **name, double *difference,
              orr_backend_message *message);

#endif
