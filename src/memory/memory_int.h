/* Inside the memory module. Everything is counted in whole bytes (uint64_t, or doubles that hold
 * integers below 2^53), so that the ledger's sum equals the fast path exactly. */
#ifndef ORR_MEMORY_INT_H
#define ORR_MEMORY_INT_H

#include "base/map.h"
#include "memory/memory.h"

/* ---- layout.c: buffers of the distributed optimizer ------------------------------------------ */

/* The same walk for many objects: begin, add them from the back, end: the padded total. */
typedef struct orr_buffer_walk {
    orr_buffer_layout *out; /* NULL: only the total is wanted */
    uint64_t divisor, limit;
    uint64_t bucket_start, end;
    uint32_t bucket_count;
    bool open; /* the bucket holds a tensor */
} orr_buffer_walk;
void orr_buffer_begin(orr_buffer_walk *walk, uint64_t shards, uint64_t bucket_elements);
void orr_buffer_add(orr_buffer_walk *walk, const orr_param_tensor *tensor, uint32_t count,
                    bool expert);
uint64_t orr_buffer_end(orr_buffer_walk *walk);
/* Multiple that buckets are padded to. */
uint64_t orr_buffer_divisor(uint64_t shards, bool busbw_padding);

enum { ORR_MAX_KIND_SHAPES = 32 };

/* ---- sizes.c: what the objects and chunk kinds of a program weigh ---------------------------- */

/* The allocator hands out multiples of this. */
double orr_memory_rounded(double bytes);

/* One object under the plan's recompute: bytes that one micro-batch and one layer keep, as the
 * allocator counts them. `slack` is what rounding adds to them. */
typedef struct orr_object_bytes {
    const orr_object *object;
    double kept, kept_slack;   /* plain layer, loss tensors apart */
    double input, input_slack; /* layer under full recompute */
    double loss, loss_slack;   /* kept by the loss */
    double loss_fwd, loss_bwd; /* the loss's own peaks, which replace `loss` */
    double rebuilt;            /* by selective recompute in the backward of a plain layer */
} orr_object_bytes;

/* The worst instant inside a chunk's forward or backward of one micro-batch: what that micro-batch
 * holds then. */
typedef struct orr_instant {
    double bytes;        /* all of the following, for the running micro-batch */
    uint32_t part;       /* parts before it are held whole */
    uint32_t plain;      /* plain layers of that part still held */
    uint32_t inputs;     /* checkpoint inputs of that part still held */
    uint32_t whole_loss; /* losses of that part held as saved, besides the running one */
    double rebuilt, temporary, loss;
    double loss_held; /* in bytes: losses held as saved, of earlier parts and of this one */
    double slack;     /* rounding in all of it */
    bool occurs;
    bool moving; /* a layer on its way to or from the host is held too */
} orr_instant;

enum { ORR_INSTANT_FORWARD = 0, ORR_INSTANT_LOSS, ORR_INSTANT_BACKWARD, ORR_INSTANT_COUNT };

typedef struct orr_kind_bytes {
    const orr_chunk *chunk;
    const orr_object_bytes *part[ORR_MAX_PARTS];
    double kept, kept_slack; /* of a micro-batch in flight, loss included */
    double loss;             /* of kept */
    orr_instant instant[ORR_INSTANT_COUNT];
    double pending_w;
    double gather, stage_input;
    /* parameters, elements */
    double dense, expert;
    double dense_aligned, expert_aligned; /* with the gaps of the optimizer's buffer */
    double linear_dense, linear_expert;   /* of them, weights that low precision quantises */
    double frozen_dense, frozen_expert;   /* bytes of weights that do not train */
    double unit, root;                    /* largest layer; embedding and head */
    double frozen_unit, frozen_root;      /* the same of frozen weights, bytes */
    double frozen_root_unit;
    double root_unit; /* larger of embedding and head */
    double matrix;    /* largest weight of a layer */
    uint32_t shape_count;
    struct orr_weight_shape shape[ORR_MAX_KIND_SHAPES]; /* distinct */
} orr_kind_bytes;

/* Object bytes remembered between evaluations of one search. */
typedef struct orr_weigh_memo {
    orr_arena *arena;
    orr_map bytes;
} orr_weigh_memo;

/* A program's weights, made once an evaluation. */
typedef struct orr_weighed {
    const orr_program *program;
    const orr_plan *plan;
    const orr_software *software;
    orr_order_view order;
    double dense_shards, expert_shards;
    double need_uncut;    /* orr_memory_need_uncut */
    orr_weigh_memo *memo; /* instead of `object`; or NULL */
    uint32_t object_count;
    orr_object_bytes *object;
    orr_kind_bytes *kind; /* [chunk_kind_count] */
    /* Scratch of the rank at work, [vpp] each. */
    const orr_kind_bytes **rank_kind;
    double *rank_kept;
} orr_weighed;

void orr_memory_weigh(const orr_program *program, orr_arena *arena, orr_weighed *out);
/* The same in three: what recompute does not change (kind is the caller's, order is left), what a
 * micro-batch in flight keeps, and the instants. */
void orr_memory_weigh_params(orr_weighed *weighed, const orr_program *program);
void orr_memory_weigh_kept(orr_weighed *weighed);
void orr_memory_weigh_instants(const orr_weighed *weighed);
/* From the memo, which must be there. */
const orr_object_bytes *orr_memory_object(const orr_weighed *weighed, const orr_object *object);
/* Layers of a part whose tensors the device holds between forward and backward. While layers run
 * one more of those that go to the host is there, coming or going (`moving`). */
typedef struct orr_kept_layers {
    uint32_t plain, inputs;
    uint32_t away; /* layers of the part, from its front, that wait in host memory */
} orr_kept_layers;
orr_kept_layers orr_memory_kept_layers(const orr_plan *plan, const orr_chunk *chunk, uint32_t part,
                                       bool moving);

/* ---- static.c: bytes that stay all the time -------------------------------------------------- */

typedef enum orr_item {
    ORR_ITEM_PARAMS_DENSE = 0,
    ORR_ITEM_PARAMS_EXPERT,
    ORR_ITEM_PARAMS_PADDING,
    ORR_ITEM_FROZEN_DENSE,
    ORR_ITEM_FROZEN_EXPERT,
    ORR_ITEM_GRADS_DENSE,
    ORR_ITEM_GRADS_EXPERT,
    ORR_ITEM_GRADS_PADDING,
    ORR_ITEM_GRADS_ACCUMULATED,
    ORR_ITEM_MASTER_DENSE,
    ORR_ITEM_MASTER_EXPERT,
    ORR_ITEM_EXP_AVG_DENSE,
    ORR_ITEM_EXP_AVG_EXPERT,
    ORR_ITEM_EXP_AVG_SQ_DENSE,
    ORR_ITEM_EXP_AVG_SQ_EXPERT,
    ORR_ITEM_DDP_BUCKETS,
    ORR_ITEM_FP8_COPIES,
    ORR_ITEM_FSDP_UNIT,
    ORR_ITEM_FSDP_ROOT,
    ORR_ITEM_FSDP_STAGES,
    ORR_ITEM_FSDP_GRADS,
    ORR_ITEM_WORKSPACE,
    ORR_ITEM_DUMMY_WGRAD,
    ORR_ITEM_GATHER,
    ORR_ITEM_P2P,
    ORR_ITEM_COUNT
} orr_item;
const char *orr_item_name(orr_item item);
orr_memory_part orr_item_part(orr_item item);

typedef struct orr_static {
    double item[ORR_ITEM_COUNT];
    double part[ORR_PART_COUNT]; /* the items summed */
    double total;
    double away;           /* of ORR_ITEM_FSDP_UNIT, not there before layers run backward */
    double live_grads;     /* moment D: gradients in the parameters' format */
    double optimizer_temp; /* moment E */
} orr_static;
void orr_memory_static(const orr_weighed *weighed, uint32_t rank, orr_static *out);
/* What of them is not there at a moment. */
static inline double orr_memory_away(const orr_static *fixed, orr_moment moment) {
    bool before = moment == ORR_MOMENT_FORWARD_END || moment == ORR_MOMENT_LOSS_BACKWARD;
    return before ? fixed->away : 0;
}

/* ---- peak.c ---------------------------------------------------------------------------------- */

/* The worst moment of a rank and what it consists of. */
typedef struct orr_peak {
    double moment[ORR_MOMENT_COUNT]; /* allocated; 0: does not occur */
    orr_moment worst;
    uint32_t live[ORR_MOMENT_COUNT]; /* index of the live vector behind each of A to D */
    double dynamic;                  /* of the worst moment: all that is not static */
    double activations, transient, logits, slack;
    double in_flight; /* micro-batches of the worst live vector, in whole stages */
} orr_peak;
void orr_memory_peak(const orr_weighed *weighed, uint32_t rank, const orr_static *fixed,
                     orr_peak *out);

/* ---- fold.c: ranks and live vectors that weigh the same, for searches --------------------------
 */

/* Ranks with equal chunks, and the kinds that these have. */
typedef struct orr_rank_class {
    uint32_t rank; /* the first of them */
    uint32_t kinds;
    uint8_t kind[ORR_MAX_CHUNK_KINDS];
    uint8_t slot[ORR_MAX_VPP]; /* of each chunk, its place among the kinds */
} orr_rank_class;
typedef struct orr_rank_classes {
    uint32_t ranks, vpp, count;
    uint16_t of_rank[ORR_MAX_PP];
    orr_rank_class class[ORR_MAX_PP];
} orr_rank_classes;
void orr_rank_classes_find(orr_rank_classes *classes, const orr_program *program);

/* Micro-batches in flight by kind of chunk; see orr_live. */
typedef struct orr_live_sum {
    uint8_t event;   /* ORR_SOP_F, _W, or _B for backwards of both sorts */
    uint8_t running; /* whose event it is: index into the class's kinds */
    uint16_t pending_w;
} orr_live_sum;
/* Those of one order, class by class as they are asked for. */
typedef struct orr_fold {
    struct {
        bool known;
        uint32_t first, vectors, number; /* its vectors; where their counts begin */
    } of_class[ORR_MAX_PP];
    orr_live_sum *vector;
    double *count; /* kinds of the class for each vector */
    uint32_t vectors, vector_capacity, counts, count_capacity;
} orr_fold;
void orr_fold_begin(orr_fold *fold, const orr_rank_classes *classes);
void orr_fold_release(orr_fold *fold);
void orr_fold_class(orr_fold *fold, const orr_rank_classes *classes, uint32_t class,
                    const orr_order_view *order);

/* Dynamic bytes of a class's fullest rank at its worst, moment by moment and without gradients
 * alive: those of moments A and B in `before`, of C in `held`, and under a running backward alone.
 */
typedef struct orr_held {
    double before, held, in_backward;
    bool has_backward;
} orr_held;
orr_held orr_fold_held(const orr_fold *fold, const orr_rank_classes *classes, uint32_t class,
                       const orr_kind_bytes *kinds);
/* A part of them: what micro-batches in flight hold at the end of a forward. */
double orr_fold_kept(const orr_fold *fold, const orr_rank_classes *classes, uint32_t class,
                     const orr_kind_bytes *kinds);

/* ---- verdict.c ------------------------------------------------------------------------------- */

/* Reserved, device and need of a rank, from its static and dynamic bytes. */
void orr_memory_judge(const orr_weighed *weighed, const orr_static *fixed, const orr_peak *peak,
                      double capacity_bytes, orr_rank_memory *out);
/* Bytes of need for tensors that TP leaves whole. */
double orr_memory_need_uncut(const orr_program *program);
/* What the verdict compares. */
double orr_memory_need_of(const orr_weighed *weighed, double fixed_bytes, double dynamic_bytes);
orr_fit_band orr_memory_band(double need_bytes, double capacity_bytes);
double orr_memory_capacity(const orr_resolved *resolved);

#endif
