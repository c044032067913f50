/* What a run leaves behind, as evidence: training logs, tables of collective benchmarks, profiler
 * traces, allocator snapshots, topologies. Every reader takes a bounded part of a file of any size,
 * executes nothing, and says what it left out.
 *
 * A file is told by its content; what is none of these is no error but kind NONE, for whoever reads
 * configurations. */
#ifndef ORR_OBSERVE_H
#define ORR_OBSERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "orrery/status.h"
#include "orrery/tree.h"

typedef enum orr_observed {
    ORR_OBSERVED_NONE = 0,
    ORR_OBSERVED_LOG,         /* of training */
    ORR_OBSERVED_COLLECTIVES, /* nccl-tests, rccl-tests */
    ORR_OBSERVED_TRACE,       /* of kernels: PyTorch profiler, Nsight Systems */
    ORR_OBSERVED_SNAPSHOT,    /* of PyTorch's allocator */
    ORR_OBSERVED_TOPOLOGY     /* of one host */
} orr_observed;

/* Figures of a training log; 0: not printed. Which steps count: the first fifth (one to ten of
 * them) is warm-up as long as three remain; of the rest, those further than three robust standard
 * deviations (1.4826 MAD, at least 1 %) from the median are stalls. Figures are medians. */
typedef struct orr_run_log {
    uint32_t seen, warmup, stalls, used; /* steps */
    double step_s;                       /* of a step */
    double spread_frac;                  /* robust standard deviation over the median */
    double stall_frac;                   /* of all time after warm-up, lost in stalls */
    double tokens_per_s_per_gpu, tokens_per_s, samples_per_s, tflops_per_gpu;
    double gbs;
    uint32_t gpus;
    double allocated_bytes, peak_allocated_bytes, reserved_bytes, peak_reserved_bytes;
    double device_bytes, capacity_bytes; /* as the device counts them, of all processes */
    uint32_t memory_ranks;               /* that printed memory; figures are of the fullest */
    uint32_t oom_count;
    /* of the first out-of-memory message */
    int64_t oom_rank; /* -1: not said */
    double oom_tried_bytes, oom_capacity_bytes, oom_free_bytes, oom_process_bytes;
    double oom_allocated_bytes, oom_reserved_bytes; /* reserved: allocated and cached */
} orr_run_log;

typedef struct orr_observation {
    orr_observed kind;
    const char *format; /* "megatron-log" ... */
    orr_run_log log;    /* kind LOG */
    /* map: everything, as results show it */
    orr_tree *tree;
    /* kind LOG: {name: value} of an argument dump of Megatron-LM; NULL: none. kind TOPOLOGY: a
     * cluster file. kind COLLECTIVES: an evidence file. */
    orr_tree *content;
    orr_tree *warnings; /* list of texts */
} orr_observation;

orr_status orr_observe_file(orr_arena *arena, const char *path, orr_observation *out, orr_err *err);
/* The same of bytes at hand; name (may be NULL) tells what the content does not. */
orr_status orr_observe_bytes(orr_arena *arena, const char *name, const char *bytes, size_t length,
                             orr_observation *out, orr_err *err);

#endif
