/* Inside the tune module. A space is a few worlds (values of keys that change the inputs: gpus,
 * precision, hardware ...), each with families of plans (splits, batch), pipes (schedule, chunks,
 * layout) and tails (recompute, overlap, sharding). */
#ifndef ORR_TUNE_INT_H
#define ORR_TUNE_INT_H

#include "base/err.h"
#include "base/map.h"
#include "orrery/orrery.h"
#include "projection/quick.h"
#include "tune/tune.h"

/* ---- limits.c: pins and ranges --------------------------------------------------------------- */

typedef enum tune_axis {
    AXIS_TP = 0,
    AXIS_CP,
    AXIS_PP,
    AXIS_EP,
    AXIS_ETP,
    AXIS_MBS,
    AXIS_VPP,
    AXIS_NUMBERS, /* those before are numbers */
    AXIS_SP = AXIS_NUMBERS,
    AXIS_DISPATCH,
    AXIS_SHARDING,
    AXIS_SCHEDULE,
    AXIS_LAYOUT,
    AXIS_RECOMPUTE,
    AXIS_OVERLAP,
    AXIS_COUNT
} tune_axis;
const char *tune_axis_name(tune_axis axis);

enum { TUNE_MAX_MEASURED = 64, TUNE_MAX_ITEMS = 64, TUNE_MAX_WORLDS = 512 };

/* What an axis may be: intervals of a number, or words. */
typedef struct tune_limit {
    uint32_t count; /* 0: the default */
    struct {
        uint32_t low, high;
    } interval[TUNE_MAX_ITEMS];
    const char *word[TUNE_MAX_ITEMS];
} tune_limit;

typedef struct tune_limits {
    tune_limit axis[AXIS_COUNT];
    /* Keys that are no axis: their values are the worlds. */
    uint32_t other_count;
    struct {
        const char *key;
        uint32_t count;
        const char *value[TUNE_MAX_ITEMS];
    } other[TUNE_MAX_ITEMS];
} tune_limits;

orr_status tune_limits_read(orr_arena *arena, const orr_tune_request *request, tune_limits *out,
                            orr_err *err);
bool tune_limit_takes(const tune_limit *limit, uint32_t value);

/* Why a search ends before it is done; bits. */
enum { TUNE_STOP_BUDGET = 1, TUNE_STOP_INTERRUPT = 2, TUNE_STOP_FAILURE = 4 };

/* ---- space.c --------------------------------------------------------------------------------- */

/* Plans whose objects are the same: `plan` has split, batch, dispatch and kind of sharding. */
typedef struct tune_family {
    uint32_t world;
    uint32_t pipes; /* index of its pipe list */
    uint64_t count; /* legal plans */
    double bound;   /* lower bound of the cost */
    orr_plan plan;
} tune_family;

typedef struct tune_pipe {
    orr_pipe pipe; /* p2p left to the overlap */
    const orr_layout *layout;
    uint32_t deepest; /* layers of the largest chunk */
} tune_pipe;
typedef struct tune_pipes {
    uint32_t count;
    const tune_pipe *pipe;
} tune_pipes;

/* Classes of recompute that legality tells apart. */
enum { TUNE_CLASSES = 6, TUNE_MAX_RECOMPUTE = 512, TUNE_OVERLAPS = 16 };
typedef struct tune_recomputes {
    uint32_t count;
    orr_recompute value[TUNE_MAX_RECOMPUTE];
    uint32_t of_class[TUNE_CLASSES];
} tune_recomputes;
/* orr_module bits that a model has. */
uint32_t tune_modules(const orr_model *model);
uint32_t tune_recompute_class(const orr_recompute *recompute);

/* What may follow a family and a pipe. */
typedef struct tune_tails {
    uint16_t overlaps[TUNE_CLASSES]; /* bit o: overlap bits o go with recompute of the class */
    uint32_t shard_count;
    uint8_t shard[4]; /* kinds among none, zero1, zero2; or the family's own */
} tune_tails;

typedef struct tune_world {
    const orr_tree *keys; /* inputs and what is not searched */
    orr_resolved base;
    double gain;             /* cost of a second of a step: see tune_cost */
    double most_step_s;      /* what limits on the run leave */
    double days, money, kwh; /* of a run, for a second of a step; 0: not asked */
    double money_per_hour;   /* 0: not known */
    uint32_t group;          /* smaller ones come first, whatever the cost */
    double capacity_bytes;
    tune_limit limit[AXIS_COUNT];
    /* values of the axes of words */
    uint32_t layout_count, recompute_count, overlap_count, dispatch_count, shard_count;
    orr_pipe *layout;
    const orr_layout **layout_text;
    orr_recompute *recompute;
    uint32_t *overlap, *dispatch;
    orr_shard *shard;
    uint64_t schedules; /* bit k: schedule kind k */
    uint8_t sp;         /* bit 0: off, bit 1: on */
    bool p2p_stated;
} tune_world;

typedef struct tune_found {
    double cost, step_s, need_bytes;
    uint32_t world, family; /* family: index in the space's order */
    orr_plan plan;
} tune_found;

typedef struct tune_space {
    orr_arena *arena;
    const orr_tune_request *request;
    orr_tune_request *asked; /* the caller's own, which takes the trials */
    tune_limits limits;
    uint32_t world_count;
    tune_world *world;
    uint32_t family_count, family_capacity;
    tune_family *family;
    uint32_t pipes_count, pipes_capacity;
    tune_pipes *pipes;
    orr_map pipe_map, tail_map, recompute_map;
    uint64_t count;      /* legal plans */
    uint32_t seed_count; /* plans that the seed planner tried and that fit, the first of them */
    tune_found *seed;
    uint32_t measured_count; /* plans whose speed was measured */
    struct {
        orr_plan plan;
        double step_s;
    } measured[TUNE_MAX_MEASURED];
    double start_s;        /* when the making began */
    bool interrupted;      /* while being made: the count is of a part */
    double compute_factor; /* from measured plans; 1: none */
} tune_space;

orr_status tune_space_make(orr_arena *arena, const orr_tune_request *request, tune_space *out,
                           orr_err *err);
void tune_space_release(tune_space *space);
/* Whether to leave the making of the space. */
bool tune_space_interrupted(tune_space *space);

/* ---- pipes.c --------------------------------------------------------------------------------- */

/* Index of the list of pipes for so many stages and micro-batches; memoised. */
uint32_t tune_pipes_of(tune_space *space, uint32_t world, uint32_t pp, uint32_t micro_batches);

/* ---- tails.c --------------------------------------------------------------------------------- */

/* Memoised; the first call for a key is not thread-safe, and tune_space_make has made them all. */
const tune_tails *tune_tails_of(tune_space *space, const tune_family *family,
                                const tune_pipe *pipe);
const tune_recomputes *tune_recomputes_of(tune_space *space, const tune_family *family,
                                          const tune_pipe *pipe);
uint64_t tune_count(const tune_recomputes *recomputes, const tune_tails *tails);

/* ---- plan.c ---------------------------------------------------------------------------------- */

/* Puts pipe, recompute, overlap (all bits) and sharding into a plan of the family. */
void tune_plan_pipe(const tune_pipe *pipe, orr_plan *plan);
void tune_plan_overlap(const tune_world *world, uint32_t overlap, orr_plan *plan);
/* Overlap that offends no rule: the rest of the plan is on trial. */
void tune_plan_neutral(const tune_world *world, orr_plan *plan);
/* All hidden that can be. */
void tune_plan_relax(const tune_world *world, orr_plan *plan);
/* Overlap bits that matter to the family under the pipe. */
uint32_t tune_overlap_mask(const tune_world *world, const orr_plan *plan);
/* Whether anything is shared out or reduced among replicas. */
bool tune_has_replicas(const tune_world *world, const orr_plan *plan);
bool tune_wants_shard(const tune_world *world, uint8_t kind);
bool tune_is_legal(const tune_world *world, const orr_plan *plan);

/* ---- member.c -------------------------------------------------------------------------------- */

/* Whether a plan is one of the space's; bits of overlap without effect become as they are there. */
bool tune_space_holds(tune_space *space, uint32_t world, orr_plan *plan, uint32_t *family);

/* ---- empty.c --------------------------------------------------------------------------------- */

/* ORR_E_INFEASIBLE: which limits exclude each other, by which rules, and what to take back. */
orr_status tune_nothing_legal(const tune_space *space, orr_err *err);

/* ---- worlds.c -------------------------------------------------------------------------------- */

orr_status tune_worlds_make(tune_space *space, orr_err *err);
/* Bytes that a plan of the world may need. */
double tune_fits_bytes(const tune_space *space, const tune_world *world);

/* ---- objectives.c ---------------------------------------------------------------------------- */

/* Sets what the objective and the limits make of the world. */
orr_status tune_world_objective(const tune_space *space, tune_world *world, orr_err *err);
void tune_worlds_group(tune_space *space);
/* Lower is better. */
double tune_cost(const tune_world *world, double step_s);
/* {objectives, complete, points}: a search of each world. */
enum { TUNE_FRONT_KEYS = 8 };
orr_status tune_front_check(const tune_space *space, orr_err *err); /* the objectives asked for */
orr_status tune_front(tune_space *space, orr_engine *engine, orr_tree **out, orr_err *err);
/* Days, money, energy of a run with such a step, where they are known. */
void tune_write_run(orr_arena *arena, const tune_world *world, double step_s, orr_tree *out);

/* ---- keep.c: what a search remembers ----------------------------------------------------------
 */

enum { TUNE_TOP = 64, TUNE_UNIT_TOP = 6, TUNE_FRONT = 96 };

typedef struct tune_keep {
    double within_frac;
    bool cut;       /* of a family: left before its end */
    uint32_t limit; /* of top */
    uint32_t top_count, front_count;
    uint64_t evaluated, pruned_time, pruned_memory;
    double least_need_bytes; /* of the plans that do not fit and were weighed; 0: none */
    uint64_t unanswered;     /* beyond a limit of the projection */
    double *near;            /* costs within the error of the best so far */
    uint32_t near_count, near_capacity;
    tune_found top[TUNE_TOP];     /* best first */
    tune_found front[TUNE_FRONT]; /* cost up, need down */
} tune_keep;

void tune_keep_init(tune_keep *keep, double within_frac, uint32_t top);
void tune_keep_release(tune_keep *keep);
double tune_keep_best(const tune_keep *keep);  /* HUGE_VAL when empty */
double tune_keep_limit(const tune_keep *keep); /* what costs more is of no interest */
void tune_keep_add(tune_keep *keep, const tune_found *found);
void tune_keep_refuse(tune_keep *keep, double need_bytes); /* does not fit */
void tune_keep_merge(tune_keep *keep, const tune_keep *other);
uint64_t tune_keep_near(tune_keep *keep); /* plans within the error of the best */

/* ---- ranks.c: processes that share a search ---------------------------------------------------
 */

uint32_t tune_rank(const orr_tune_request *request);
uint32_t tune_rank_count(const orr_tune_request *request);
/* *flags becomes the union of all ranks'. All functions below do nothing for one rank. */
orr_status tune_ranks_agree(const orr_tune_request *request, uint32_t *flags, orr_err *err);
/* Rank r computed the blocks of `block` values whose number % ranks == r: all of them to all. */
orr_status tune_ranks_spread(const orr_tune_request *request, double *value, uint32_t count,
                             uint32_t block, orr_err *err);
/* Rank r searched unit[i] for i % ranks == r: all of them to all. */
orr_status tune_ranks_exchange(const tune_space *space, tune_keep *unit, uint32_t count,
                               orr_err *err);
/* What the first rank has, in arena, to all. */
orr_status tune_ranks_share(const orr_tune_request *request, orr_arena *arena, void **bytes,
                            size_t *length, orr_err *err);
/* A keep as bytes that any process with the same space can read; out may be NULL. Returns how
 * many. */
size_t tune_keep_pack(const tune_keep *keep, char *out);
bool tune_keep_unpack(const tune_space *space, const char *bytes, size_t length, tune_keep *keep);

/* ---- checkpoint.c ---------------------------------------------------------------------------- */

/* Of all that the outcome depends on; families have their bounds. */
uint64_t tune_search_key(const tune_space *space);
orr_status tune_checkpoint_save(const tune_space *space, uint64_t key, const tune_keep *keep,
                                uint32_t next, uint32_t round, orr_err *err);
orr_status tune_checkpoint_load(const tune_space *space, uint64_t key, tune_keep *keep,
                                uint32_t *next, uint32_t *round, bool *found, orr_err *err);
/* Bounds of a search with the same inputs; *out NULL: none. */
orr_status tune_bounds_save(const tune_space *space, orr_err *err);
orr_status tune_bounds_load(const tune_space *space, const double **out, orr_err *err);
orr_status tune_store_seeds(const tune_space *space, uint64_t key, orr_err *err);
orr_status tune_store_found(const tune_space *space, uint64_t key, const char *kind,
                            const tune_found *found, double at_s, orr_err *err);

/* ---- search.c -------------------------------------------------------------------------------- */

typedef struct tune_outcome {
    tune_keep keep;
    bool complete, interrupted;
    double least_open; /* lowest bound of what was not looked at; HUGE_VAL when complete */
    uint64_t open;     /* plans not looked at */
    double wall_s;
    uint32_t threads;
    uint64_t key;        /* of the search in the store */
    uint32_t resumed_at; /* families done before */
    uint64_t evaluated_before;
} tune_outcome;
/* seed: a plan of the space that is known already, or NULL. What costs more than it is not looked
 * at, and it is the best so far until there is a better one. */
orr_status tune_search(tune_space *space, orr_engine *engine, const tune_found *seed,
                       tune_outcome *out, orr_err *err);

/* The search of one world alone; the caller releases out->keep, and has seen to space->request. */
orr_status tune_search_world(tune_space *space, orr_engine *engine, uint32_t world,
                             tune_outcome *out, orr_err *err);

/* ---- run_limits.c ---------------------------------------------------------------------------- */

bool tune_run_is_limited(const tune_space *space);
/* For limits on the run that left nothing. ORR_E_INFEASIBLE: which of them, and the nearest value
 * that a plan meets; ORR_OK where nothing fits without them either, and then they are gone. */
orr_status tune_run_limits_lift(tune_space *space, orr_engine *engine, orr_err *err);

/* ---- pool.c ---------------------------------------------------------------------------------- */

typedef void (*tune_job_fn)(void *user, uint32_t thread, uint32_t index);
/* Calls fn for every index; each index once, on one of `threads` threads, the caller's being 0. */
void tune_pool_run(uint32_t threads, uint32_t count, tune_job_fn fn, void *user);
double tune_clock_s(void);

/* ---- baseline.c, finalists.c ------------------------------------------------------------------
 */

/* List of {lever, tokens_per_s_per_gpu, gain_frac} that sums to the gain of best on start. */
orr_status tune_attribute(orr_arena *arena, orr_engine *engine, const tune_world *world,
                          double compute_factor, double fits_bytes, const orr_plan *start,
                          const orr_plan *best, orr_tree **out, orr_err *err);
/* Probability of each of `count` plans to be the best of them. sure: those whose cost is measured.
 */
void tune_win_chances(const orr_projection *plan, const double *cost, const bool *sure,
                      uint32_t count, double *chance);
/* Data-parallel degree, micro-batches and transfers from the rest; false where it does not divide.
 */
bool tune_settle(const tune_world *world, orr_plan *plan);
/* {axes, near_frac, shape, calibration, figures} of found[0] against the others. */
orr_status tune_robustness(const tune_space *space, orr_engine *engine,
                           const tune_found *const *found, const orr_projection *plan,
                           uint32_t count, double within_frac, orr_tree **out, orr_err *err);
/* Puts axes, near_frac and shape: every single change of the best plan. */
orr_status tune_aside(const tune_space *space, orr_engine *engine, const tune_found *best,
                      double within_frac, orr_tree *out, orr_err *err);
/* Puts figures: the machine's, a tenth less and more. */
orr_status tune_shaken_figures(const tune_space *space, orr_engine *engine,
                               const tune_found *const *found, uint32_t count, orr_tree *out,
                               orr_err *err);

/* ---- whatif.c -------------------------------------------------------------------------------- */

/* List of {figure, throughput_per_percent}. Searches once more. */
orr_status tune_what_if(tune_space *space, orr_engine *engine, const tune_found *best,
                        orr_tree **out, orr_err *err);

/* ---- seed.c ---------------------------------------------------------------------------------- */

/* {order, evaluations, tokens_per_s_per_gpu, plan, path: [{change, verdict, ...}]}; found: the best
 * of those that are in the space, its cost HUGE_VAL when there is none. */
orr_status tune_seed(tune_space *space, orr_engine *engine, uint32_t budget, tune_found *found,
                     orr_tree **out, orr_err *err);

/* Local search from the best of `keep`, which takes what is better: {starts, evaluations,
 * gain_frac}. */
orr_status tune_descend(const tune_space *space, orr_engine *engine, uint32_t budget,
                        tune_keep *keep, orr_tree **out, orr_err *err);

/* ---- refine.c -------------------------------------------------------------------------------- */

/* {layout, plan, tokens_per_s_per_gpu, need_bytes, gain_frac, against_best_frac} of the plan at the
 * top that a free placement of layers makes fastest; NULL: none gains. */
orr_status tune_refine(tune_space *space, orr_engine *engine, const tune_keep *keep,
                       orr_tree **out);

/* ---- measured.c ------------------------------------------------------------------------------ */

/* The factor on compute that measured plans imply, and a list of what they were projected at. */
orr_status tune_anchor(tune_space *space, orr_engine *engine, orr_tree **out, orr_err *err);

/* ---- write.c --------------------------------------------------------------------------------- */

orr_status tune_write(tune_space *space, orr_engine *engine, tune_outcome *outcome,
                      orr_tree **result, orr_err *err);

#endif
