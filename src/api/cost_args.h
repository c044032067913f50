/* What `orrery cost` is asked: its options, which op takes which, and what is refused. */
#ifndef ORR_API_COST_ARGS_H
#define ORR_API_COST_ARGS_H

#include "api/api.h"
#include "cost/cost.h"

typedef struct orr_cost_args {
    const char *op, *batch, *write, *hardware, *cluster, *fabric, *software, *dtype, *phase,
        *lengths, *library;
    double gpus, stride;
    double m, n, k, groups, out_bytes;
    double heads, kv_heads, head_dim, v_dim, window, seq_q, seq_kv;
    double bytes, rows, cols, kernels, ranks;
    double tokens, hidden, topk, experts, group_topk, elements, layers;
    double imbalance, units;
    uint8_t class, graphs;
    bool causal, eager, moe, gated, dropout, unfused;
    bool eager_stated, unfused_stated; /* else the software profile says */
} orr_cost_args;

/* Ops by number: products and attention, families of memory-bound kernels in the order of
 * orr_memop, collectives in that of orr_collective, then what is made of those. */
enum {
    ORR_COST_GEMM = 0,
    ORR_COST_GROUPED,
    ORR_COST_ATTENTION,
    ORR_COST_FAMILY,
    ORR_COST_COLLECTIVE = ORR_COST_FAMILY + ORR_MEMOP_COUNT,
    ORR_COST_DISPATCH = ORR_COST_COLLECTIVE + ORR_COLLECTIVE_COUNT,
    ORR_COST_COMBINE,
    ORR_COST_ADAM, /* from here on: counted by elements, program/traffic.h */
    ORR_COST_CROSS_ENTROPY,
    ORR_COST_ROUTER,
    ORR_COST_DROPOUT,
    ORR_COST_ROTARY, /* these four: as a profile's variant has them */
    ORR_COST_ACTIVATION,
    ORR_COST_NORM,
    ORR_COST_RESIDUAL,
    ORR_COST_MUON, /* from here on: each its own */
    ORR_COST_LAUNCH,
    ORR_COST_OPS,
    ORR_COST_TABLE = -1
};
#define ORR_COST_MOST 9007199254740992.0 /* 2^53: larger counts are not exact in a double */

extern const char *const orr_cost_ops[ORR_COST_OPS];
/* Words of --class, the first stands for any. */
extern const char *const orr_cost_classes[];
/* Words of --graphs: the profile's, then those of orr_graphs. */
extern const char *const orr_cost_graphs[];

/* seen: bits of the fields that are stated. */
orr_status orr_cost_args_read(orr_job *job, orr_cost_args *out, uint64_t *seen, orr_err *err);
/* A size by its name; 0: not stated, or no option has the name. */
double orr_cost_size(const orr_cost_args *args, const char *name);
orr_status orr_cost_find_op(const char *name, int *out, orr_err *err);
/* Every option that is stated is one of the op (ORR_COST_TABLE: of a table), in its range, and none
 * is missing. */
orr_status orr_cost_check_options(orr_job *job, const orr_cost_args *args, int which, uint64_t seen,
                                  orr_err *err);
/* A product of sizes that is counted: it must be exact as a double, and fit an integer. */
orr_status orr_cost_check_count(const char *op, const char *what, double count, orr_err *err);
orr_status orr_cost_check_product(const orr_cost_args *args, int which, double batch, orr_err *err);
orr_status orr_cost_check_attention(const orr_cost_args *args, double batch, orr_err *err);
orr_status orr_cost_check_phase(const orr_cost_args *args, int which, orr_err *err);
orr_status orr_cost_find_dtype(const orr_cost_args *args, orr_dtype *out, orr_err *err);
/* --lengths: positive whole numbers. */
orr_status orr_cost_lengths(orr_job *job, const orr_cost_args *args, double **out, uint32_t *count,
                            orr_err *err);
/* --batch of an op: how many; 1 where not stated. */
orr_status orr_cost_batch(const orr_cost_args *args, double *out, orr_err *err);
/* cost_special.c: ops that are made of several prices, or of none. */
/* Attention whose kernels are not fused. */
orr_status orr_cost_unfused(orr_job *job, const orr_cost_args *args, const orr_cost_table *table,
                            orr_dtype dtype, const orr_software *software, orr_err *err);
orr_status orr_cost_special(orr_job *job, const orr_cost_args *args, int which,
                            const orr_cost_table *table, const orr_software *software,
                            orr_err *err);
/* As rule NUM-01 of plans. */
orr_status orr_cost_check_dtype(orr_job *job, const orr_accelerator *a, orr_dtype dtype,
                                orr_err *err);

#endif
