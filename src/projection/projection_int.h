/* Shared by the files of this module only. */
#ifndef ORR_PROJECTION_INT_H
#define ORR_PROJECTION_INT_H

#include "base/map.h"
#include "cost/calibration.h"
#include "projection/projection.h"

/* What published runs left as residuals, by class: where intervals come from. Large. */
typedef struct orr_residuals orr_residuals;
orr_status orr_residuals_read(orr_arena *arena, const orr_tree *file, orr_residuals **out,
                              orr_err *err);
orr_status orr_residuals_builtin(orr_arena *arena, orr_residuals **out, orr_err *err);
/* The 90 % interval as ratios to the projection. model_frac: relative error that the prices admit;
 * scaling: "none", or how an anchor is scaled: "weak" (batch per GPU kept), "strong". */
void orr_residuals_interval(const orr_residuals *residuals, const orr_resolved *resolved,
                            double model_frac, const char *scaling, double *low_ratio,
                            double *high_ratio);

/* The last play without hops: what a plan that differs in them alone, or not at all, needs again.
 */
typedef struct orr_free_play {
    orr_schedule_spec spec;
    uint32_t capacity; /* chunks */
    bool known;
    int64_t *time;                  /* f, b, w of each chunk */
    int64_t *rank_end, *rank_begin; /* [pp] */
} orr_free_play;

struct orr_engine {
    orr_arena *arena;    /* what is cached for good */
    orr_arena *machines; /* price lists and their inputs */
    orr_arena *prices;   /* of objects, and their times */
    uint32_t trims;      /* how often objects and prices were forgotten */
    orr_linker *linker;
    const orr_calibration *calibration; /* NULL until the first price list */
    const orr_residuals *residuals;     /* NULL until the first projection */
    orr_map tables;                     /* price lists by the content of cluster and software */
    orr_map priced;                     /* priced objects by object and price list */
    orr_map times;                      /* their times by mode */
    orr_arena *scratch;                 /* reset by each projection */
    orr_arena *played;                  /* reset by each play of a schedule */
    orr_free_play free_play;
    const orr_evidence *evidence; /* preferred to models; NULL: none */
    struct orr_kept_set *kept;    /* sets read so far */
    uint32_t without;             /* orr_ablation bits */
    double more_host;             /* host floors are 1 + this as long */
};

/* The price list of a cluster and a software profile, by content: memoised. */
orr_status orr_engine_table(orr_engine *engine, const orr_cluster *cluster,
                            const orr_software *software, const orr_cost_table **out, orr_err *err);
/* Reads the residuals unless that is done. */
orr_status orr_engine_read_residuals(orr_engine *engine, orr_err *err);
/* Times of an object under a mode: memoised. */
const orr_part_time *orr_engine_times(orr_engine *engine, const orr_cost_table *table,
                                      const orr_software *software, const orr_object *object,
                                      const orr_timeline_mode *mode);

/* The evidence in use when it is of the cluster's accelerator, else NULL. */
const orr_evidence *orr_engine_evidence_for(const orr_engine *engine, const orr_cluster *cluster);
void orr_engine_release_evidence(orr_engine *engine);
/* The prices of an object corrected by its layer measured as a whole, or as they are. */
const orr_priced *orr_engine_in_situ(orr_engine *engine, const orr_cost_table *table,
                                     const orr_software *software, const orr_priced *priced);

/* Sums over the layers of one chunk, one micro-batch. */
typedef struct orr_chunk_time {
    orr_phase_time phase[ORR_PHASE_COUNT];
    double accumulate_s; /* of the weight gradients into fp32, in phase[WEIGHT_GRAD].total_s too */
} orr_chunk_time;

/* A part of a step's end: reducing or gathering parameters, the optimizer. */
typedef struct orr_exchange {
    double time_s, error_s;
    uint8_t provenance; /* the least sure of its parts */
} orr_exchange;
/* What the end of a step takes, whatever the play. */
typedef struct orr_exchanges {
    orr_exchange reduce[ORR_MAX_CHUNK_KINDS], gather[ORR_MAX_CHUNK_KINDS]; /* by chunk kind */
    orr_exchange optimizer; /* step, norm, zeroing: of the rank that it takes longest */
    orr_muon_step muon;     /* Muon's part of that */
} orr_exchanges;
/* Ranks that reduce and gather parameters together. */
typedef struct orr_dp_groups {
    orr_group dense, expert;
    orr_group replicas; /* shard groups that hold the same shard: an all-reduce across them */
} orr_dp_groups;
orr_dp_groups orr_step_groups(const orr_resolved *resolved);
/* Of the rank that it takes longest, as if one rank had both most dense and most expert matrices.
 */
orr_exchange orr_step_optimizer(const orr_program *program, const orr_cost_table *table,
                                orr_muon_step *muon);
void orr_step_exchanges(const orr_program *program, const orr_cost_table *table,
                        orr_exchanges *out);

/* For each rank its chunks in the order in which their gradients are ready; order: [pp * vpp]. */
void orr_step_ready(const orr_pipe *pipe, const orr_play *play, uint8_t *order);
/* What reduction and gather leave exposed on a rank. rank_end, grads_ready and first_use (per
 * chunk, of all ranks) come from the play, in picoseconds, and `ready` from orr_step_ready. */
orr_exchange orr_step_exposed(const orr_program *program, const orr_exchanges *prices,
                              uint32_t rank, const orr_chunk_time *chunk_time, const orr_play *play,
                              const uint8_t *ready);
/* Picoseconds that a rank's part of the step takes: until its end, or from its own beginning where
 * the next step does not wait for the others. */
bool orr_ranks_run_on(const orr_resolved *resolved);                       /* whether the latter */
int64_t orr_rank_begin(const orr_play *play, uint32_t vpp, uint32_t rank); /* its first forward */
int64_t orr_rank_span(const orr_resolved *resolved, const orr_play *play, uint32_t rank);
/* What stragglers add to a step, of it. */
double orr_step_jitter(const orr_resolved *resolved);
/* The step from the end of the last rank (its exposed exchanges included) and the longest
 * optimizer. */
double orr_step_close(const orr_resolved *resolved, double end_s, double optimizer_s,
                      double jitter_frac, double *jitter_s);

/* Stage times of a linked program. */
typedef struct orr_stage_times {
    orr_chunk_time *kind; /* [chunk_kind_count] */
    int64_t *f, *b, *w;   /* per chunk, picoseconds */
    int64_t *hop;         /* [pp] */
    double steady_s;      /* what all micro-batches take longer between filling and draining */
    double hop_error_frac;
    uint8_t hop_provenance;
} orr_stage_times;
void orr_time_stages(orr_engine *engine, orr_arena *arena, const orr_program *program,
                     const orr_cost_table *table, double compute_factor, orr_stage_times *out);
orr_durations orr_stage_durations(const orr_stage_times *times);
orr_timeline_mode orr_program_mode(const orr_program *program, double compute_factor);
/* While a pipeline is full, sends both ways slow the launches of tensor parallelism on several
 * nodes; filling and draining run as fast as one stage. steady_tp of a mode that counts it, or 0.
 */
uint32_t orr_steady_tp(const orr_resolved *resolved);
/* One micro-batch on the rank that takes longest. */
double orr_slowest_rank_s(const orr_program *program, const orr_chunk_time *kind);
void orr_add_accumulation(const orr_resolved *resolved, const orr_cost_table *table,
                          const orr_chunk *chunk, orr_chunk_time *time);
/* without.c: what the engine leaves out of an object's prices, and ends spread over all stages. */
void orr_leave_out(const orr_engine *engine, const orr_cost_table *table, orr_priced *priced);
void orr_spread_ends(orr_engine *engine, const orr_cost_table *table, const orr_program *program,
                     double compute_factor, orr_stage_times *times);
void orr_time_hops(const orr_program *program, const orr_cost_table *table, orr_stage_times *times);

#endif
