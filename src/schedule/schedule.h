/* Pipeline schedules: pure combinatorics. An order says which rank runs which chunk of which
 * micro-batch when; playing it with stage times gives the exact makespan. Nothing here knows
 * models, devices or frameworks.
 *
 * Terms: pp ranks hold vpp chunks each; `position` is a chunk's place in the chain that a
 * micro-batch crosses; F forward, B input gradient, W weight gradient. A fused backward runs B then
 * W, and its upstream gradient leaves only when both are done. Arrays "per chunk" have pp*vpp
 * entries, index rank*vpp + chunk. Time is integer picoseconds, hence exact and independent of
 * threads. Sources and closed forms: docs/internals/schedules.md. */
#ifndef ORR_SCHEDULE_H
#define ORR_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "orrery/status.h"

enum {
    ORR_MAX_PP = 1024,
    ORR_MAX_VPP = 128,
    ORR_MAX_MICRO_BATCHES = 1 << 20,
    ORR_MAX_SCHEDULE_OPS = 1 << 26 /* pp * vpp * micro-batches * kinds */
};

typedef enum orr_schedule_kind {
    ORR_SCHEDULE_1F1B = 0,
    ORR_SCHEDULE_INTERLEAVED = 1,
    ORR_SCHEDULE_GPIPE = 2,
    ORR_SCHEDULE_ZB_H1 = 3,
    ORR_SCHEDULE_ZB_H2 = 4,
    ORR_SCHEDULE_ZB_1P = 5,
    ORR_SCHEDULE_ZB_2P = 6,
    ORR_SCHEDULE_ZBV = 7,
    ORR_SCHEDULE_V_HALF = 8,
    ORR_SCHEDULE_V_MIN = 9,
    ORR_SCHEDULE_DUALPIPE = 10,
    ORR_SCHEDULE_DUALPIPEV = 11,
    ORR_SCHEDULE_INTERLEAVED_ZB = 12, /* loop placement, split backward */
    ORR_SCHEDULE_LOOPED_BFS = 13,     /* breadth first over chunks */
    ORR_SCHEDULE_ZBV_AUTO = 14,       /* time-driven greedy with a memory budget */
    ORR_SCHEDULE_V_ADAPTIVE = 15,     /* searched building block under memory_limit chunks */
    ORR_SCHEDULE_V_HALF_PRIMUS = 16,  /* as Primus reorders it */
    ORR_SCHEDULE_V_MIN_PRIMUS = 17,
    ORR_SCHEDULE_V_1F1B = 18,       /* V placement, fused backward */
    ORR_SCHEDULE_HANAYO = 19,       /* waves; vpp = 2 x waves */
    ORR_SCHEDULE_CHIMERA = 20,      /* two directions */
    ORR_SCHEDULE_GROUPED = 21,      /* grouped building blocks on the loop placement */
    ORR_SCHEDULE_ZB_AUTO = 22,      /* linear, heuristic under memory_limit */
    ORR_SCHEDULE_ZB_H1_PRIMUS = 23, /* zb-h1, with Primus' order when micro-batches < stages */
    ORR_SCHEDULE_USER = 24,         /* an order given by its ops */
    ORR_SCHEDULE_COUNT
    /* further kinds are appended; values are stable */
} orr_schedule_kind;

/* What a hop between stages costs the ranks. */
typedef enum orr_p2p_mode {
    ORR_P2P_ASYNC = 0,               /* latency on the edge only */
    ORR_P2P_BLOCKING = 1,            /* batched send/receive, both ends wait (Megatron 1F1B) */
    ORR_P2P_OVERLAP = 2,             /* posts return at once, a wait before use (interleaved) */
    ORR_P2P_OVERLAP_WARMUP_FLUSH = 3 /* the same in warm-up and cool-down too */
} orr_p2p_mode;

/* Everything an order depends on (besides, for a few kinds, the ratios of durations).
 * Plain and zero-padded: its bytes are a memo key. */
typedef struct orr_schedule_spec {
    uint8_t kind;       /* orr_schedule_kind */
    uint8_t p2p;        /* orr_p2p_mode */
    uint8_t ep_overlap; /* one more warm-up forward, forward-backward pairs merged */
    uint8_t reserved;
    uint32_t pp, vpp, micro_batches;
    uint32_t group;        /* micro-batches a virtual-stage group; 0: pp */
    uint32_t memory_limit; /* chunks in flight, for kinds with a budget; 0: the kind's own */
    /* For zb-auto, zb-1p, zb-2p: what F takes and B and W free, in one unit (then memory_limit is
     * in that unit too); all zero: 1, 0, 1. */
    uint32_t memory_f, memory_b, memory_w;
    uint32_t least_group; /* grouped kind: micro-batches between two chunks; 0: half of pp */
} orr_schedule_spec;

/* Stage times. The arrays are borrowed, per chunk; hop has pp entries: time of one transfer between
 * rank r and rank (r+1) mod pp, either way. w may be zero where the order has fused backwards (then
 * b is the whole). pair is the time of an overlapped forward-backward pair by forward chunk, or
 * NULL: the sum of its parts. */
typedef struct orr_durations {
    const int64_t *f, *b, *w, *pair, *hop;
    /* Orders that depend on durations break ties by exact arithmetic. To reproduce an order that a
     * program made in floating point, ties included: the picoseconds of its unit; else 0. */
    double unit_ps;
} orr_durations;

typedef enum orr_sched_op_kind {
    ORR_SOP_F = 0,
    ORR_SOP_B = 1,   /* input gradient alone */
    ORR_SOP_W = 2,   /* weight gradient alone */
    ORR_SOP_BW = 3,  /* fused backward */
    ORR_SOP_PAIR = 4 /* overlapped F (chunk, micro_batch) and BW (chunk2, micro_batch2) */
} orr_sched_op_kind;

typedef struct orr_sched_op {
    uint8_t kind; /* orr_sched_op_kind */
    uint8_t reserved;
    uint16_t chunk, chunk2;
    uint32_t micro_batch, micro_batch2;
} orr_sched_op;

/* How many micro-batches of each chunk a rank holds when memory is at a local maximum.
 * Only Pareto-maximal vectors are kept per (rank, event, running chunk): since chunks differ in
 * size, the worst one depends on their bytes. */
typedef struct orr_live {
    uint8_t event;         /* ORR_SOP_F: just after a forward of `chunk`; ORR_SOP_B/BW: while its
                              backward runs, that micro-batch still held; ORR_SOP_W likewise */
    uint16_t chunk;        /* the chunk that runs */
    uint16_t pending_w;    /* chunk-micro-batches whose B is done and W is not, all chunks */
    const uint16_t *count; /* [vpp] micro-batches in flight, F done (or running) until B done */
} orr_live;

/* Owned by the arena it was built in, which playing may add to: one thread at a time. */
typedef struct orr_order orr_order;

/* The order itself, for printing, validation and memory. */
typedef struct orr_order_view {
    orr_schedule_spec spec;     /* as resolved: group and vpp filled in */
    const uint32_t *position;   /* per chunk: place in its chain */
    const uint8_t *chain;       /* per chunk: 0, or 1 for the second direction */
    uint32_t chain_length;      /* positions a micro-batch crosses */
    const uint32_t *op_first;   /* [pp+1] ops of rank r are op[op_first[r] .. op_first[r+1]) */
    const orr_sched_op *op;     /* op and op_first are NULL in a brief order: see orr_order_ops */
    const uint32_t *live_first; /* [pp+1] likewise for live */
    const orr_live *live;
    bool split_backward; /* B and W are separate ops */
} orr_order_view;

/* Builds the order of a schedule and compiles it for playing. ORR_E_INFEASIBLE when the combination
 * breaks a rule of the schedule; the message names rule and numbers. `d` is needed by kinds whose
 * order depends on durations (see orr_schedule_needs_durations), else may be NULL. */
orr_status orr_order_build(orr_arena *arena, const orr_schedule_spec *spec, const orr_durations *d,
                           const orr_order **out, orr_err *err);
orr_order_view orr_order_look(const orr_order *order);

/* The same for playing and for memory only. A long run of a schedule with a steady state is built
 * from a short run whose periodic part is repeated more often, when that is provably the same; the
 * view then has no ops. */
orr_status orr_order_build_brief(orr_arena *arena, const orr_schedule_spec *spec,
                                 const orr_durations *d, const orr_order **out, orr_err *err);
/* The view with its ops, which a brief order writes into `arena` first. */
orr_status orr_order_ops(const orr_order *order, orr_arena *arena, orr_order_view *out,
                         orr_err *err);

/* An order given by its ops: those of rank r are op[op_first[r] .. op_first[r+1]). `position` and
 * `chain` place the chunks (chain may be NULL: one chain); micro-batches count per chain. spec.kind
 * is ORR_SCHEDULE_USER, p2p asynchronous. The arrays are copied. ORR_E_SCHEDULE when an op is
 * missing, doubled or out of range, or when the order deadlocks: then the head op of every rank is
 * named. */
typedef struct orr_user_ops {
    const uint32_t *position, *op_first;
    const uint8_t *chain;
    const orr_sched_op *op;
} orr_user_ops;
orr_status orr_order_from_ops(orr_arena *arena, const orr_schedule_spec *spec,
                              const orr_user_ops *given, const orr_order **out, orr_err *err);

/* "F0.3" (kind, chunk, micro-batch), "B1.2" (fused backward), "I1.2", "W1.2", "O(F0.3,B1.1)". */
enum { ORR_SCHED_OP_TEXT = 48 };
orr_status orr_sched_op_parse(const char *text, orr_sched_op *out, orr_err *err);
void orr_sched_op_format(const orr_sched_op *op, char out[ORR_SCHED_OP_TEXT]);

/* Most chunk-micro-batches in flight per rank, each way of counting; arrays of pp or NULL.
 * until_w: from F until W or fused B is done; until_b: until the input gradient is done;
 * pending_w: input gradient done, weight gradient not. */
typedef struct orr_peaks {
    uint32_t *until_w, *until_b, *pending_w;
} orr_peaks;
void orr_order_peaks(const orr_order *order, orr_peaks *peaks);

/* Start and end of every op (arrays as long as the op list, either may be NULL), by a plain
 * worklist: slower than orr_order_play and independent of it. rank_end [pp] includes trailing
 * transfers. */
orr_status orr_order_times(const orr_order *order, const orr_durations *d, orr_arena *scratch,
                           int64_t *start, int64_t *end, int64_t *rank_end, orr_err *err);

typedef struct orr_play {
    int64_t makespan;     /* end of the last op of any rank */
    int64_t max_span;     /* longest (end - start) of a rank */
    int64_t *rank_end;    /* [pp] caller's array or NULL */
    int64_t *rank_busy;   /* [pp] compute time, or NULL */
    int64_t *grads_ready; /* per chunk: end of its last weight gradient, or NULL */
    int64_t *first_use;   /* per chunk: start of its first forward, or NULL */
} orr_play;

/* Plays the order; exact. Long runs are cut at the periodic steady state, which is detected
 * exactly; `full` forces the whole play. scratch is reset by the caller. */
orr_status orr_order_play(const orr_order *order, const orr_durations *d, bool full,
                          orr_arena *scratch, orr_play *play, orr_err *err);

/* A lower bound of the makespan from stage times alone; never above the exact value. */
int64_t orr_schedule_bound(const orr_schedule_spec *spec, const orr_durations *d);

bool orr_schedule_needs_durations(orr_schedule_kind kind);
const char *orr_schedule_name(orr_schedule_kind kind); /* "1f1b", "interleaved", "zb-h1" ... */
bool orr_schedule_find(const char *name, orr_schedule_kind *out);
/* Default p2p mode: 1F1B blocking, interleaved overlapped, others async. */
orr_p2p_mode orr_schedule_default_p2p(orr_schedule_kind kind);
/* vpp that a kind implies (V shapes: 2), or 0 when it is free. */
uint32_t orr_schedule_fixed_vpp(orr_schedule_kind kind);
/* Place of a chunk in its chain, from 0, as in orr_order_view; `second` (may be NULL): the chunk
 * belongs to the second direction. */
uint32_t orr_schedule_position(orr_schedule_kind kind, uint32_t pp, uint32_t rank, uint32_t chunk,
                               bool *second);
/* Whether two directions share the ranks: then each chunk of a rank is of another chain. */
bool orr_schedule_two_way(orr_schedule_kind kind);
/* Whether input and weight gradients are separate ops. */
bool orr_schedule_splits_backward(orr_schedule_kind kind);

/* One broken rule of a spec: id such as "SCH-INTERLEAVED-GROUP", message, hint. */
typedef struct orr_schedule_rule {
    const char *id;
    char message[192], hint[128];
} orr_schedule_rule;
/* Fills up to `max` broken rules and returns how many there are; 0 means legal. */
uint32_t orr_schedule_check(const orr_schedule_spec *spec, orr_schedule_rule *broken, uint32_t max);

/* ---- layer splits --------------------------------------------------------------------------- */

typedef enum orr_split_kind {
    ORR_SPLIT_EVEN = 0,
    ORR_SPLIT_EMBEDDING = 1 << 0, /* the embedding counts as a layer (account-for-embedding) */
    ORR_SPLIT_LOSS = 1 << 1,      /* the loss counts as a layer */
    ORR_SPLIT_COUNTS = 1 << 2     /* first and last rank get given counts */
} orr_split_kind;

typedef struct orr_split_spec {
    uint32_t flags; /* orr_split_kind bits */
    uint32_t layers, pp, vpp;
    uint32_t first, last; /* for ORR_SPLIT_COUNTS; 0: as the others */
} orr_split_spec;

/* Layers of each chunk: count and first global index, per chunk (caller's arrays of pp*vpp).
 * ORR_E_INFEASIBLE names the divisibility that fails. Megatron's rules. */
orr_status orr_split_layers(const orr_split_spec *spec, uint32_t *count, uint32_t *offset,
                            orr_err *err);

/* A chain of layers to be cut into pp * vpp consecutive chunks (loop placement, as above). */
typedef struct orr_balance {
    uint32_t layers, pp, vpp;
    uint32_t least;            /* layers that every chunk gets at least */
    const int64_t *time_ps;    /* [layers] forward and backward together */
    int64_t first_ps, last_ps; /* more on the first chunk (embedding), on the last (head, loss) */
    const uint64_t *static_bytes;     /* [layers] parameters and their states; NULL: none */
    const uint64_t *live_bytes;       /* [layers] saved by one micro-batch; NULL: none */
    uint64_t first_bytes, last_bytes; /* static, on the first and the last chunk */
    const uint32_t *in_flight;        /* per chunk: micro-batches held at once; NULL: none */
    uint64_t cap_bytes; /* of a rank; 0: no cap. With several chunks a rank each chunk gets
                           an equal share of it, so that the rank's cap holds */
} orr_balance;
enum { ORR_MAX_BALANCED = 4096 }; /* layers, and chunks */

/* Finds, by dynamic programming over all cuts, the split whose longest chunk is shortest within the
 * cap, and of those the one with the least sum of deviations from the mean. worst_ps: time of the
 * longest chunk (NULL: not wanted). ORR_E_INFEASIBLE when nothing fits. */
orr_status orr_split_balance(const orr_balance *balance, uint32_t *count, uint32_t *offset,
                             int64_t *worst_ps, orr_err *err);

#endif
