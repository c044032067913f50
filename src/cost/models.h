/* Kernel models: closed forms from a shape, an accelerator's data sheet and fitted constants to
 * seconds. Pure functions of their arguments; no files, no plans. The calibration fits the
 * constants of exactly these functions. Spec: kernels.md §2.5 (GEMM), §3 (grouped), §4 (attention),
 * §5 (memory), §6 (collectives); steptime.md §2. */
#ifndef ORR_COST_MODELS_H
#define ORR_COST_MODELS_H

#include <stdbool.h>
#include <stdint.h>

#include "hardware/hardware.h"

/* What a kernel model needs of an accelerator. */
typedef struct orr_machine {
    double units;      /* SMs or CUs */
    double peak_flops; /* dense, of the kernel's dtype */
    double hbm_Bps;
    double l2_bytes;
} orr_machine;
/* The figures of an accelerator for a dtype; where the sheet has no peak for it, bf16's. */
orr_machine orr_machine_of(const orr_accelerator *accelerator, orr_dtype dtype);

/* Clocks fall when a chip computes for long at its power limit. Benchmarks run a kernel for
 * milliseconds, training for days. */
typedef enum orr_power {
    ORR_POWER_BENCHMARK = 0, /* grows with the kernel's own duration, kernels.md §2.5 */
    ORR_POWER_SUSTAINED = 1  /* fully throttled, steptime.md §2.1 */
} orr_power;

/* ---- GEMM ----------------------------------------------------------------------------------- */

typedef struct orr_gemm_shape {
    double m, n, k, batch;
    double in_bytes;  /* of an input element, block scales included */
    double out_bytes; /* moved per output element; 8: an fp32 accumulator is read and written */
} orr_gemm_shape;

/* t = start + T (1 + throttle·decades), T the least over tiles and K splits of
 * (tc^q + tl^q + (td + (1-a) to)^q)^(1/q) + a·to + waves·tile + split. kernels.md §2.5 */
typedef struct orr_gemm_constants {
    double start_s;       /* launch and drain */
    double efficiency;    /* of peak, inside a tile's main loop */
    double hbm_frac;      /* of HBM bandwidth */
    double tile_s;        /* prologue and epilogue of one wave */
    double unit_Bps;      /* operand bytes into one unit from L2 */
    double occupancy;     /* HBM share reached grows as this times the busy units */
    double serial_output; /* a: part of the output write that nothing hides, 0..1 */
    double throttle;      /* per decade of duration above 1 ms */
    double norm;          /* q: how sharply the slowest resource decides */
    double split_s;       /* a reduction over K splits */
    double quantisation;  /* 1: whole waves of tiles, 0: none */
} orr_gemm_constants;

double orr_gemm_time_s(const orr_gemm_constants *c, const orr_machine *machine,
                       const orr_gemm_shape *shape, orr_power power);

/* ---- attention ------------------------------------------------------------------------------ */

typedef struct orr_attention_shape {
    double batch, heads, kv_heads, head_dim, v_dim;
    double seq_q, seq_kv;
    double window; /* 0: none */
    bool causal, backward;
} orr_attention_shape;

typedef struct orr_attention_constants {
    double start_s;
    double efficiency;     /* of peak at head_dim >= 120, forward */
    double medium_frac;    /* of it at head_dim < 120 */
    double narrow_frac;    /* of it at head_dim < 80 */
    double tile_s;         /* ramp of one tile */
    double backward_flops; /* arithmetic of the backward by that of the forward */
    double backward_frac;  /* its efficiency by that of the forward */
} orr_attention_constants;

double orr_attention_time_s(const orr_attention_constants *c, const orr_machine *machine,
                            const orr_attention_shape *shape);
/* Keys an average query sees, whole tiles on the diagonal counted. */
double orr_attention_keys(const orr_attention_shape *shape);

/* ---- collectives ---------------------------------------------------------------------------- */

/* Two protocols, the faster wins: t = min over both of start + busfactor·bytes/Bps. */
typedef struct orr_segments {
    double small_start_s, small_Bps;
    double large_start_s, large_Bps;
} orr_segments;

double orr_segments_time_s(const orr_segments *segments, double wire_bytes);

/* A hierarchy of scale-up domains behind NICs, as one collective sees it. */
typedef struct orr_rails {
    double ranks, inner, domains;
    double inner_Bps; /* bus bandwidth inside a domain */
    double nic_Bps;   /* attained, per rank, one direction */
    double base_s, hop_s, peer_hop_s;
    double stall_ranks; /* ring length at which stalls halve the bandwidth; 0: none */
} orr_rails;

double orr_rails_ring_s(const orr_rails *rails, double bytes, bool all_reduce);
double orr_rails_tree_s(const orr_rails *rails, double bytes); /* all-reduce */
/* `crossing`: share of a rank's bytes that leaves its domain; (ranks - inner) / ranks unless tokens
 * bound for several ranks of a domain cross once. */
double orr_rails_all_to_all_s(const orr_rails *rails, double bytes, double crossing_frac);
/* Distinct places among `places` that a token's top-k experts out of `experts` lie on, on average,
 * chosen without replacement. kernels.md §6.4 */
double orr_distinct_places(double places, double topk, double experts);

#endif
