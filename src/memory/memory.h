/* Bytes on every rank: static, in flight, transient; the verdict; and the ledger that can say what
 * any byte is. Four figures, kept apart: live (tensors), allocated (rounded as the allocator does),
 * reserved (what the allocator holds), device (with context, libraries, communicators).
 * docs/internals/memory.md. */
#ifndef ORR_MEMORY_H
#define ORR_MEMORY_H

#include "program/program.h"

typedef enum orr_moment {
    ORR_MOMENT_FORWARD_END = 0, /* A: end of forward on the loss stage, logits alive */
    ORR_MOMENT_LOSS_BACKWARD,   /* B: softmax, logits gradient, head weight gradient */
    ORR_MOMENT_LAYER_BACKWARD,  /* C: one layer's backward with its recompute and temporaries */
    ORR_MOMENT_BACKWARD_END, /* D: all parameter gradients alive (where a framework keeps them) */
    ORR_MOMENT_OPTIMIZER,    /* E: the step */
    ORR_MOMENT_COUNT
} orr_moment;
const char *orr_moment_name(orr_moment moment); /* "forward_end" ... */

/* What static and persistent bytes are for. */
typedef enum orr_memory_part {
    ORR_PART_PARAMS = 0,
    ORR_PART_GRADS,
    ORR_PART_MASTER,
    ORR_PART_MOMENTS,    /* both optimizer moments */
    ORR_PART_BUFFERS,    /* DDP buckets, FSDP units, fp8 copies */
    ORR_PART_PERSISTENT, /* workspaces, dummy gradients, gather buffers */
    ORR_PART_ACTIVATIONS,
    ORR_PART_TRANSIENT, /* at the worst moment, logits apart */
    ORR_PART_LOGITS,
    ORR_PART_COUNT
} orr_memory_part;
const char *orr_memory_part_name(orr_memory_part part);

typedef struct orr_rank_memory {
    double part_bytes[ORR_PART_COUNT];     /* at the rank's worst moment; sums to allocated */
    double moment_bytes[ORR_MOMENT_COUNT]; /* allocated at each moment; 0: does not occur */
    double allocated_bytes, reserved_bytes, device_bytes, live_bytes;
    double need_bytes; /* allocated plus the calibrated reserve: what the verdict compares */
    uint32_t moment;   /* orr_moment of the maximum */
} orr_rank_memory;

typedef enum orr_fit_band { ORR_FITS = 0, ORR_TIGHT, ORR_LIKELY_OOM, ORR_OOM } orr_fit_band;
const char *orr_fit_name(orr_fit_band fit);

typedef struct orr_memory {
    uint32_t worst_rank; /* pipeline rank with the largest need */
    uint32_t fit;        /* orr_fit_band */
    double capacity_bytes;
    double p_oom; /* 0..1 */
    orr_rank_memory worst;
    const orr_rank_memory *rank; /* [pp], or NULL when only the verdict was asked */
} orr_memory;

/* Exact for a legal, linked plan. all_ranks keeps every rank's figures (in arena). Microseconds. */
void orr_memory_evaluate(const orr_program *program, orr_arena *arena, bool all_ranks,
                         orr_memory *out);
/* The verdict of `need` bytes: also used by search, so that there is one and only one. */
double orr_memory_p_oom(const orr_software *software, orr_sureness sureness, double need_bytes,
                        double capacity_bytes);
/* Slope of P(OOM) in ln(need / capacity): what is guessed flattens it. docs/internals/memory.md. */
double orr_memory_oom_slope(const orr_software *software, orr_sureness sureness);

/* The verdict's `need` alone, many times over, for searches. A weigher is told a program whose
 * chunks are linked, then an order and recompute, and answers for the plan's sharding and overlap
 * as they stand. Each step keeps what those before it left; one per thread. */
typedef struct orr_weigher orr_weigher;
orr_weigher *orr_weigher_new(void);
void orr_weigher_free(orr_weigher *weigher);
void orr_weigher_forget(orr_weigher *weigher); /* objects are dead; chunks must come again */
void orr_weigher_chunks(orr_weigher *weigher, const orr_program *program); /* parameters */
/* What is in flight. An order that was told since the chunks were is known again, by its address
 * within a generation. */
void orr_weigher_order(orr_weigher *weigher, const orr_order *order, uint32_t generation);
void orr_weigher_recompute(orr_weigher *weigher); /* after the program's recompute changed */
/* Of the worst rank: orr_memory.worst.need_bytes. */
double orr_weigher_need(orr_weigher *weigher);
/* A lower bound of it: what two ranks hold between ops. */
double orr_weigher_floor(orr_weigher *weigher);
/* Of what stays all the time alone; needs no order. */
double orr_weigher_states(orr_weigher *weigher);
/* A lower bound that needs no order and holds for every schedule and layout: the mean over ranks of
 * states and of one micro-batch held everywhere. */
double orr_weigher_share(orr_weigher *weigher);
double orr_weigher_states_share(orr_weigher *weigher); /* of the states alone */
/* Bytes kept, summed over all chunks, that must go for that bound to be `need_bytes`. */
double orr_weigher_excess(orr_weigher *weigher, double need_bytes);
/* Bytes that recompute of one whole layer of an object saves; recompute of the program is none. */
double orr_weigher_saved(orr_weigher *weigher, const orr_object *object);

/* One entry of the ledger of a rank: bytes alive at `moment`, `count` times. */
typedef struct orr_ledger_row {
    const char *what; /* "attn.core: q" */
    uint32_t part;    /* orr_memory_part */
    uint32_t chunk;   /* local chunk, or UINT32_MAX */
    uint64_t bytes;   /* of one */
    double count;     /* micro-batches x layers; sharded states are whole bytes already */
} orr_ledger_row;
typedef struct orr_ledger {
    uint32_t rank, moment;
    uint32_t row_count;
    const orr_ledger_row *row;
    double total_bytes; /* equals the rank's allocated_bytes: proven by a property test */
} orr_ledger;
/* The ledger of one rank at its worst moment; built only when asked. */
void orr_memory_ledger(const orr_program *program, orr_arena *arena, uint32_t rank,
                       orr_ledger *out);

/* What a rank holds while it runs one op of its order, and after it. */
typedef struct orr_memory_point {
    uint8_t op; /* orr_sched_op_kind; its second chunk, of pairs, is not listed */
    uint32_t chunk, micro_batch;
    double peak_bytes, held_bytes; /* allocated; static bytes included */
} orr_memory_point;
typedef struct orr_memory_timeline {
    uint32_t rank, count;
    double static_bytes; /* between ops: without gradients of a gathered unit */
    double step_bytes;   /* at the optimizer step, after all ops */
    const orr_memory_point *point;
} orr_memory_timeline;
/* Op by op in the order of the schedule; in arena. The largest peak is that of moments A to C. */
orr_status orr_memory_trace(const orr_program *program, orr_arena *arena, uint32_t rank,
                            orr_memory_timeline *out, orr_err *err);

/* A replay of a rank's allocations through a model of the caching allocator, from the building of
 * the model to the end of the second step. It explains the reserved figure and shows what
 * expandable segments would do; the verdict does not ask it. */
typedef struct orr_replay {
    double allocated_bytes, reserved_bytes; /* peaks */
    double first_step_bytes;                /* allocated peak of the first step, no moments yet */
    double save_bytes; /* while a checkpoint is saved: the largest tensor gathered in fp32 */
    uint32_t segments; /* at the end */
    uint32_t flushes;  /* times the cache was given back under pressure */
    bool fits;         /* under the capacity */
    bool complete;     /* false: cut, too many micro-batches or tensors in flight */
} orr_replay;
void orr_memory_replay(const orr_program *program, orr_arena *arena, uint32_t rank,
                       bool expandable_segments, orr_replay *out);

/* ---- buffers of the distributed optimizer -----------------------------------------------------
 */

/* Tensors of one buffer in registration order; the walk goes over them from the back. */
typedef struct orr_buffer_spec {
    const orr_param_tensor *tensor;
    uint32_t tensor_count;
    uint64_t shards;          /* data-parallel ranks that share it */
    uint64_t bucket_elements; /* a bucket closes once it holds so many; 0: one bucket */
    bool busbw_padding;       /* buckets padded for large collectives too */
    const uint8_t *alone; /* per tensor: takes a bucket of its own (shared embedding), or NULL */
} orr_buffer_spec;

/* Where things lie, in elements. The arrays are the caller's or NULL: range of each tensor (repeats
 * counted one by one) and its bucket, and the buckets, of which at most max_buckets are written. */
typedef struct orr_buffer_layout {
    uint64_t total; /* padded */
    uint64_t shard; /* of one rank */
    uint32_t bucket_count;
    uint64_t (*range)[2];
    uint32_t *bucket_of;
    uint64_t (*bucket)[2];
    uint64_t *bucket_unpadded;
    uint32_t max_buckets;
} orr_buffer_layout;

void orr_buffer_lay_out(const orr_buffer_spec *spec, orr_buffer_layout *out);

#endif
