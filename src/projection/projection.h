/* The projection of one plan: time, memory, interval, provenance, explanation. Composes the modules
 * below it and adds nothing of its own but the end of the step. ARCHITECTURE.md. */
#ifndef ORR_PROJECTION_H
#define ORR_PROJECTION_H

#include <stddef.h>

#include "goodput/goodput.h"
#include "memory/memory.h"
#include "timeline/timeline.h"

/* Keys of the breakdown, in waterfall order. */
typedef enum orr_slice {
    ORR_SLICE_GEMM = 0,
    ORR_SLICE_ATTENTION,
    ORR_SLICE_ELEMENTWISE,
    ORR_SLICE_LOSS,
    ORR_SLICE_TP,
    ORR_SLICE_CP,
    ORR_SLICE_EP,
    ORR_SLICE_PP, /* exposed p2p */
    ORR_SLICE_BUBBLE,
    ORR_SLICE_DP,
    ORR_SLICE_RECOMPUTE,
    ORR_SLICE_OPTIMIZER,
    ORR_SLICE_HOST,
    ORR_SLICE_JITTER,
    ORR_SLICE_COUNT
} orr_slice;
const char *orr_slice_name(orr_slice slice); /* "gemm" ... */

/* Newton-Schulz iterations of a step's end, on the rank that has most to do. */
typedef struct orr_muon_step {
    double time_s, error_s; /* part of the optimizer's */
    double exchange_s;      /* of that: shards meet and part again */
    double flops, matrices;
    uint8_t provenance;
} orr_muon_step;

typedef struct orr_projection {
    const orr_resolved *resolved;
    double step_s;
    double slice_s[ORR_SLICE_COUNT]; /* of the busiest rank; sums to step_s */
    double tokens_per_s, tokens_per_s_per_gpu;
    double low, high;                 /* 90 % interval of tokens_per_s_per_gpu */
    double price_error_frac;          /* one standard deviation, relative, that the prices admit */
    double model_flops_per_s_per_gpu; /* model_causal convention */
    double mfu_frac;
    double provenance_s[ORR_PROVENANCE_COUNT];
    double anchor_factor; /* on compute and launches; 1 without an anchor */
    uint32_t slowest_rank;
    orr_muon_step muon;
    orr_memory memory;
} orr_projection;

/* Caches between projections: objects, prices, orders, cost tables. One per thread. */
typedef struct orr_engine orr_engine;
orr_engine *orr_engine_new(void);
/* With constants other than the built-in ones; they must outlive the engine. */
struct orr_calibration;
orr_engine *orr_engine_with(const struct orr_calibration *calibration);
void orr_engine_free(orr_engine *engine);
/* Another engine with the same constants and evidence, for another thread; must not outlive it. */
orr_engine *orr_engine_twin(const orr_engine *engine);

/* Forgets memoised orders when they take more bytes than this, and objects with their prices. */
void orr_engine_trim(orr_engine *engine, size_t most_bytes);
/* The same, and price lists too: for servers. No orr_quick of the engine may be alive. */
void orr_engine_forget(orr_engine *engine, size_t most_bytes);

/* Reads the calibrations of a machine and a software profile, which the first projection would
 * otherwise do: inputs are then parsed, and what follows is computing. */
orr_status orr_engine_prepare(orr_engine *engine, const orr_resolved *resolved, orr_err *err);
/* What the plan's prices rest on beside its accelerator's own measurements: orr_cost_reliance. */
orr_status orr_engine_reliance(orr_engine *engine, orr_arena *arena, const orr_resolved *resolved,
                               orr_tree **out, orr_err *err);

/* Measurements that projections of this engine prefer to models, from now on; NULL: none. A set
 * that orr_engine_read_evidence read lives as long as the engine. */
orr_status orr_engine_read_evidence(orr_engine *engine, const char *paths,
                                    const orr_evidence_want *want, const orr_evidence **out,
                                    orr_err *err);
void orr_engine_use_evidence(orr_engine *engine, const orr_evidence *evidence);

/* Effects that a study leaves out, to see what each is worth; bits. */
typedef enum orr_ablation {
    ORR_WITHOUT_BUBBLE = 1 << 0,
    ORR_WITHOUT_MEMORY_OPS = 1 << 1, /* of layers: norms, elementwise, quantisation */
    ORR_WITHOUT_CASTS = 1 << 2,      /* quantisation alone */
    ORR_WITHOUT_ENDS = 1 << 3,       /* embedding, head, loss */
    ORR_WITHOUT_TP = 1 << 4,
    ORR_WITHOUT_CP = 1 << 5,
    ORR_WITHOUT_EP = 1 << 6,
    ORR_WITHOUT_DP = 1 << 7,
    ORR_WITHOUT_P2P = 1 << 8,
    ORR_WITHOUT_SHAPES = 1 << 9,     /* of products: all at the speed of a large square one */
    ORR_WITHOUT_END_STAGES = 1 << 10 /* embedding, head and loss are spread over all stages */
} orr_ablation;
/* For all projections of an engine that has made none yet. */
void orr_engine_without(orr_engine *engine, uint32_t effects);

/* A measured run that corrects its neighbours by one factor on compute and host floors. All zero
 * means none. */
typedef struct orr_anchor {
    double tokens_per_s_per_gpu;
    uint32_t gpus;            /* of the measured run */
    const orr_resolved *plan; /* what ran; NULL: the plan projected, at `gpus` with gbs/dp kept */
    double factor;            /* on compute, fitted before; then nothing else counts. 0: none */
} orr_anchor;

/* A factor beyond this, or below its inverse, is no correction but another cause: such an anchor
 * narrows no interval. */
static const double ORR_FAR_ANCHOR = 1.4;

/* Projects a legal plan. Everything it returns lives in arena or in the engine. */
orr_status orr_project(orr_engine *engine, orr_arena *arena, const orr_resolved *resolved,
                       const orr_anchor *anchor, orr_projection *out, orr_err *err);
/* The times that the schedule of a legal plan is played with, picoseconds; they live in arena. */
orr_status orr_project_stages(orr_engine *engine, orr_arena *arena, const orr_resolved *resolved,
                              orr_durations *out, orr_err *err);
/* A layer split that balances stage times, exactly, as a layout string. `resolved` is the plan with
 * any other split that links. cap_bytes bounds a rule of thumb for the bytes of a rank (0: none);
 * whether the split fits says the projection of it. ORR_E_INFEASIBLE when nothing is below the cap.
 */
typedef struct orr_balanced {
    const char *layout;
    double longest_s;    /* forward and backward of the longest stage, one micro-batch */
    uint64_t most_bytes; /* of a rank, by the same rule */
} orr_balanced;
orr_status orr_project_layout(orr_engine *engine, orr_arena *arena, const orr_resolved *resolved,
                              uint64_t cap_bytes, orr_balanced *out, orr_err *err);
/* Memory alone: no prices. */
orr_status orr_project_memory(orr_engine *engine, orr_arena *arena, const orr_resolved *resolved,
                              bool all_ranks, orr_memory *out, orr_err *err);
/* The ledger of one pipeline rank. */
orr_status orr_project_ledger(orr_engine *engine, orr_arena *arena, const orr_resolved *resolved,
                              uint32_t rank, orr_ledger *out, orr_err *err);
/* Its bytes op by op, and a replay of its allocations; expandable: with expandable segments. */
orr_status orr_project_memory_trace(orr_engine *engine, orr_arena *arena,
                                    const orr_resolved *resolved, uint32_t rank,
                                    orr_memory_timeline *out, orr_err *err);
orr_status orr_project_replay(orr_engine *engine, orr_arena *arena, const orr_resolved *resolved,
                              uint32_t rank, bool expandable, orr_replay *out, orr_err *err);
/* What a plan takes from the engine's evidence: {files, distinct, hash, shapes, ops, findings};
 * NULL when there is none for its accelerator. */
orr_status orr_project_evidence(orr_engine *engine, orr_arena *arena, const orr_resolved *resolved,
                                orr_tree **out, orr_err *err);
/* From what the data sheet's peak would take to the step, cause by cause; sums to step_s. */
typedef enum orr_fall {
    ORR_FALL_PEAK = 0,  /* model FLOPs, causal, at the peak of the plan's format */
    ORR_FALL_FORMATS,   /* products in slower formats, padding, what model FLOPs leave out */
    ORR_FALL_CLOCK,     /* the clock that training sustains */
    ORR_FALL_SHAPES,    /* matrix products: tiles, waves, depth, grouping */
    ORR_FALL_ATTENTION, /* attention kernels beyond peak */
    ORR_FALL_MEMORY,    /* memory-bound ops, loss included */
    ORR_FALL_IMBALANCE, /* uneven routing to experts; compute of the slowest rank over the mean's */
    ORR_FALL_RECOMPUTE,
    ORR_FALL_HOST,
    ORR_FALL_TP, /* exposed communication from here */
    ORR_FALL_CP,
    ORR_FALL_EP,
    ORR_FALL_PP,
    ORR_FALL_DP,
    ORR_FALL_BUBBLE,
    ORR_FALL_OPTIMIZER,
    ORR_FALL_JITTER,
    ORR_FALL_COUNT
} orr_fall;
typedef struct orr_waterfall {
    double fall_s[ORR_FALL_COUNT];
} orr_waterfall;
orr_status orr_project_waterfall(orr_engine *engine, orr_arena *arena,
                                 const orr_projection *projection, orr_waterfall *out,
                                 orr_err *err);
/* List of {what, time_s, until_s, tflops_per_gpu, is}: until_s and the rate after each cause. */
orr_tree *orr_waterfall_write(orr_arena *arena, const orr_projection *projection,
                              const orr_waterfall *waterfall);

/* The run that trains on so many tokens with steps of this plan, for orr_goodput_find; low and
 * high: 90 % interval of tokens/s/GPU, 0 without. */
orr_goodput_run orr_project_run(const orr_resolved *resolved, double tokens, double step_s,
                                double low, double high);
/* `result` of the envelope without its verdict, and its `memory`. */
orr_tree *orr_memory_write(orr_arena *arena, const orr_memory *memory, uint32_t pp);
orr_tree *orr_projection_write(orr_arena *arena, const orr_projection *projection);

#endif
