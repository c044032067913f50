/* Compile and link. A layer kind is lowered once per split into an object: its ops, what they keep
 * for the backward pass, its parameters and transients. A plan is linked from objects and a
 * schedule order. Objects hold facts only, no times: memory and time read the same object, so they
 * cannot disagree about what happens. ARCHITECTURE.md. */
#ifndef ORR_PROGRAM_H
#define ORR_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "hardware/hardware.h"
#include "plan/plan.h"
#include "program/routing.h"

typedef enum orr_op_kind {
    ORR_OP_GEMM = 0,
    ORR_OP_GROUPED_GEMM,
    ORR_OP_ATTENTION, /* fused */
    ORR_OP_MEMORY,    /* bound by HBM: norms, elementwise, permutes, casts */
    ORR_OP_COLLECTIVE
} orr_op_kind;
typedef enum orr_phase {
    ORR_PHASE_FORWARD = 0,
    ORR_PHASE_INPUT_GRAD = 1,
    ORR_PHASE_WEIGHT_GRAD = 2,
    ORR_PHASE_COUNT
} orr_phase;
typedef enum orr_stream {
    ORR_STREAM_COMPUTE = 0,
    ORR_STREAM_TP,
    ORR_STREAM_CP,
    ORR_STREAM_EP,
    ORR_STREAM_DP, /* FSDP gathers and scatters of a layer */
    ORR_STREAM_COUNT
} orr_stream;
/* Where an op's time shows in the breakdown; communication shows under its stream. */
typedef enum orr_class {
    ORR_CLASS_GEMM = 0,
    ORR_CLASS_ATTENTION,
    ORR_CLASS_ELEMENTWISE,
    ORR_CLASS_LOSS,
    ORR_CLASS_TP,
    ORR_CLASS_CP,
    ORR_CLASS_EP,
    ORR_CLASS_DP,
    ORR_CLASS_COUNT
} orr_class;
typedef enum orr_collective {
    ORR_ALL_REDUCE = 0,
    ORR_ALL_GATHER,     /* bytes: whole output */
    ORR_REDUCE_SCATTER, /* bytes: whole input */
    ORR_ALL_TO_ALL,     /* bytes: whole send buffer of a rank */
    ORR_SEND_RECV,      /* bytes: one message */
    ORR_BROADCAST,
    ORR_COLLECTIVE_COUNT
} orr_collective;
/* Families of memory-bound kernels that reach different shares of HBM bandwidth. */
typedef enum orr_memop {
    ORR_MEMOP_ELEMENTWISE = 0,
    ORR_MEMOP_NORM_FWD,
    ORR_MEMOP_NORM_BWD,
    ORR_MEMOP_SOFTMAX,
    ORR_MEMOP_PERMUTE,
    ORR_MEMOP_LOSS,
    ORR_MEMOP_EMBEDDING,
    ORR_MEMOP_CAST,  /* quantise, transpose, amax */
    ORR_MEMOP_EAGER, /* an eager norm: `bytes` counts elements, and the software says how many bytes
                        each costs (norm_eager_fwd_bytes, _bwd_bytes) */
    ORR_MEMOP_BULK,  /* whole shards of parameters at once: optimizer, accumulation */
    ORR_MEMOP_COUNT
} orr_memop;
/* Their words and those of orr_collective, wherever files and options name them. */
#define ORR_MEMOP_WORDS                                                                            \
    "elementwise", "norm_fwd", "norm_bwd", "softmax", "permute", "loss", "embedding", "cast",      \
        "eager", "bulk"
#define ORR_COLLECTIVE_WORDS                                                                       \
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "broadcast"

typedef struct orr_op {
    uint8_t kind;      /* orr_op_kind */
    uint8_t phase;     /* orr_phase */
    uint8_t stream;    /* orr_stream */
    uint8_t class;     /* orr_class */
    uint8_t dtype;     /* orr_dtype of the inputs */
    uint8_t out_bytes; /* GEMM: bytes written (and for 8, also read) per output element */
    uint8_t sub;       /* orr_memop, or orr_collective */
    uint8_t causal;    /* attention */
    uint16_t name;     /* index for orr_op_name */
    uint16_t modules;  /* orr_module bits whose recompute re-runs a forward op */
    int16_t dep[2];    /* earlier ops of the object, -1: none */
    union {
        struct { /* C[m,n] += A[m,k] B[k,n], `batch` times; grouped: batch local experts, m rows
                    each on average */
            uint64_t m, n, k, batch;
        } gemm;
        struct { /* per micro-batch on one rank */
            uint32_t batch, heads, kv_heads, head_dim, v_dim, window;
            uint64_t seq_q, seq_kv;
        } attention;
        struct {
            uint64_t rank_bytes;   /* see orr_collective */
            uint32_t size, stride; /* of the group in rank order */
            uint32_t count;        /* so many of them, one after the other */
            /* All-to-all that sends a token once per destination rank: rank_bytes counts that, and
             * the routing says how often it crosses to other domains. Zeros: plain */
            orr_routing routing;
        } comm;
        struct {
            uint32_t kernels; /* launches */
        } memory;
    } shape;
    double flops; /* of this rank, 2 a multiply-add; causal attention counts the triangle */
    double bytes; /* HBM traffic of a memory op; else 0 */
} orr_op;

/* A tensor kept from forward to backward. Storages are distinct: views are not listed. */
typedef struct orr_saved {
    uint16_t name;    /* index for orr_op_name */
    uint16_t module;  /* position in the layer, index for orr_op_name: "attn.core" ... */
    uint16_t dropped; /* orr_module bits that discard it */
    uint16_t only; /* orr_module bits of which one must be recomputed for it to exist; 0: always */
    uint64_t bytes;
} orr_saved;
/* Whether it is kept when `modules` are recomputed. */
static inline bool orr_saved_alive(const orr_saved *saved, uint32_t modules) {
    return !(saved->dropped & modules) && (!saved->only || (saved->only & modules));
}

typedef enum orr_object_what {
    ORR_OBJECT_LAYER = 0,
    ORR_OBJECT_EMBEDDING, /* with position table, embedding norm, dropout */
    ORR_OBJECT_HEAD,      /* final norm, head, loss */
    ORR_OBJECT_MTP        /* one multi-token-prediction depth without its layer */
} orr_object_what;

/* Everything an object depends on. Zero-padded: its bytes are the memo key. */
typedef struct orr_object_key {
    uint32_t what;    /* orr_object_what */
    uint32_t vocab;   /* padded; 0 for layers */
    uint32_t max_seq; /* learned positions of the embedding */
    /* Of embedding, head and MTP. tied_first_use: 1 when the rank already holds the matrices that
     * this object uses too (head: tied with the embedding; MTP: embedding and head), so it adds
     * none; 0: it brings one; 2: both (MTP). */
    uint8_t norm, tied_first_use, embedding_norm, head_bias;
    uint8_t norm_bare, token_types, encoder, reserved;
    orr_layer layer;
    orr_split split;
    uint32_t mbs, seq;
    uint32_t replica_stretch; /* with dp_shards > 1, see orr_plan_replica_stretch; else 1 */
    uint32_t dp_shards;       /* FSDP and ZeRO-3: ranks that parameters are sharded over; else 1 */
    orr_numeric numeric;
    orr_lora lora; /* ends: rank 1 says that they are frozen */
    orr_variant variant;
} orr_object_key;

/* Parameters on one rank, elements (before optimizer sharding), by how they are sharded. Beside
 * adapters the model's own are frozen: no gradients, no optimizer states. */
typedef struct orr_params {
    uint64_t dense;  /* replicated over dp*cp */
    uint64_t expert; /* replicated over the expert data-parallel group */
    uint64_t norms;  /* part of dense that TP replicates */
    uint64_t frozen_dense, frozen_expert;
    uint64_t frozen_linear_dense, frozen_linear_expert; /* of them, linears: may rest quantised */
} orr_params;

/* Bytes needed for a while, besides saved tensors. */
typedef struct orr_transient {
    uint64_t forward;            /* peak of temporaries inside the forward */
    uint64_t backward;           /* inside the backward, on top of the layer's saved set */
    uint64_t loss_fwd, loss_bwd; /* moments A and B; head only. Replace the saved loss tensors */
    uint64_t dummy_wgrad; /* persistent bf16 weight-gradient dummies, distinct shapes: see link */
    uint64_t gather;      /* sequence-parallel gather buffer, grow-only */
    /* Kept from the input to the weight gradient when a schedule parts them: inputs and output
     * gradients of the linears. */
    uint64_t pending_w;
} orr_transient;

/* Parameter tensors as the framework registers them, front to back: optimizer buffers are laid out
 * tensor by tensor. */
typedef struct orr_param_tensor {
    uint64_t numel;  /* on this rank, before optimizer sharding */
    uint32_t repeat; /* equal tensors in a row */
    uint8_t expert;  /* sharded by the expert data-parallel group */
    uint8_t linear;  /* weight of a linear that low-precision formats quantise */
    uint8_t reserved[2];
} orr_param_tensor;

/* Hidden matrices as an orthogonalising optimizer takes them, one by one: no embedding, head, norm
 * or bias; q, k and v apart where they are one tensor; this rank's piece under TP. */
typedef struct orr_matrix {
    uint32_t rows, cols, count;
    uint8_t expert; /* sharded by the expert data-parallel group */
    uint8_t reserved[3];
} orr_matrix;

/* Sums over them, dense [0] and expert [1], in elements. */
typedef struct orr_tensor_sums {
    uint64_t aligned[2]; /* each rounded up to ORR_TENSOR_ALIGN */
    uint64_t linear[2];  /* of linears */
    uint64_t largest;    /* one tensor */
} orr_tensor_sums;
/* Tensors start at multiples of so many elements in an optimizer's buffer (Megatron-Core). */
enum { ORR_TENSOR_ALIGN = 64 };

enum { ORR_MAX_OPS = 288, ORR_MAX_SAVED = 96, ORR_MAX_WEIGHT_SHAPES = 24, ORR_MAX_MATRICES = 24 };

typedef struct orr_object {
    orr_object_key key;
    uint32_t op_count, saved_count;
    const orr_op *op; /* forward ops, then input gradients, then weight gradients */
    const orr_saved *saved;
    uint64_t saved_all;  /* nothing recomputed */
    uint64_t saved_loss; /* of it, tensors of the loss (logits, softmax), listed last: */
    uint32_t saved_loss_count;
    uint32_t tensor_count;
    const orr_param_tensor *tensor; /* [tensor_count]; sums to params */
    uint32_t matrix_count;
    const orr_matrix *matrix; /* [matrix_count] trained, equal ones together */
    orr_tensor_sums sums;
    uint64_t saved_input; /* the layer input alone: full recompute */
    orr_params params;
    orr_transient transient;
    uint32_t weight_count; /* TE linear weights (rows, cols) for dummy gradients */
    struct orr_weight_shape {
        uint32_t rows, cols;
    } weight[ORR_MAX_WEIGHT_SHAPES];
    double host_ops; /* kernels launched forward: scales the host floor */
} orr_object;

const char *orr_op_name(uint16_t index);

/* Lowers a key. Pure. The object lives in arena. */
orr_status orr_lower(orr_arena *arena, const orr_object_key *key, orr_object **out, orr_err *err);
/* Bytes kept when `modules` (orr_module bits) are recomputed. */
uint64_t orr_object_saved(const orr_object *object, uint32_t modules);

/* ---- link ----------------------------------------------------------------------------------- */

enum { ORR_MAX_PARTS = 12, ORR_MAX_CHUNK_KINDS = 64 };

typedef enum orr_part_role {
    ORR_PART_END = 0, /* embedding, head, what joins an MTP depth */
    ORR_PART_LAYER,
    ORR_PART_MTP_LAYER /* the layers of the MTP depths */
} orr_part_role;
/* Equal layers of a chunk. */
typedef struct orr_part {
    const orr_object *object;
    uint32_t count;
    uint32_t checkpointed;    /* of them under full recompute */
    uint8_t role, layer_kind; /* orr_part_role; index into the model's kinds */
} orr_part;
/* What a chunk runs, front to back: embedding, layers, MTP, head. */
typedef struct orr_chunk {
    uint32_t layers, part_count;
    uint32_t first_layer; /* of the model, in one of the chunks of this kind */
    orr_part part[ORR_MAX_PARTS];
    uint64_t saved_bytes;     /* of one micro-batch, loss tensors of the head excluded */
    uint64_t recompute_bytes; /* largest set rebuilt at once in the backward */
    orr_params params;
    bool has_embedding, has_head;
} orr_chunk;

typedef struct orr_program {
    const orr_resolved *resolved;
    const orr_order *order;
    uint32_t chunk_kind_count;
    const orr_chunk *chunk_kind;
    const uint8_t *chunk; /* [pp*vpp], rank*vpp + chunk: index into chunk_kind */
    uint32_t modules;     /* orr_module bits that are recomputed everywhere (selective) */
} orr_program;

/* Objects and orders made so far, by key. One per thread. */
typedef struct orr_linker orr_linker;
orr_linker *orr_linker_new(void);
void orr_linker_free(orr_linker *linker);
/* Forgets all orders when they take more bytes than this. Returns how often that has happened:
 * orders found under another count are gone. */
uint32_t orr_linker_trim(orr_linker *linker, size_t most_bytes);
/* The same for objects, which are dead then. Returns whether they were forgotten. */
bool orr_linker_trim_objects(orr_linker *linker, size_t most_bytes);
/* The object of a key: memoised. Valid as long as the linker. */
orr_status orr_linker_object(orr_linker *linker, const orr_object_key *key, const orr_object **out,
                             orr_err *err);
/* Links a legal plan. The program lives in arena and refers to the linker's objects. Schedules
 * whose order depends on durations get `d` (may be NULL: unit times are used, relink later). */
orr_status orr_link(orr_linker *linker, orr_arena *arena, const orr_resolved *resolved,
                    const orr_durations *d, orr_program *out, orr_err *err);

/* The two halves of orr_link: what the chunks run (order stays NULL), and the order, which under a
 * memory budget asks what the chunks keep. */
orr_status orr_link_chunks(orr_linker *linker, orr_arena *arena, const orr_resolved *resolved,
                           orr_program *out, orr_err *err);
orr_status orr_link_order(orr_linker *linker, orr_arena *arena, const orr_plan *plan,
                          const orr_program *program, const orr_durations *d, const orr_order **out,
                          orr_err *err);

/* Fits chunk kinds, linked for a plan, to one that differs in recompute alone; returns the modules
 * recomputed everywhere. saved_bytes, and recompute_bytes without checkpoints, are left as they
 * were: memory counts by parts. */
uint32_t orr_link_recompute(const orr_resolved *resolved, orr_chunk *kind, uint32_t kind_count);

/* The vocabulary as the plan's framework pads it. */
uint32_t orr_link_vocab(const orr_model *model, const orr_plan *plan);
/* The memo key of a layer under a plan. */
void orr_link_layer_key(const orr_plan *plan, const orr_layer *layer, orr_object_key *key);

static inline const orr_chunk *orr_program_chunk(const orr_program *program, uint32_t rank,
                                                 uint32_t chunk) {
    uint32_t vpp = program->resolved->plan.pipe.vpp;
    return &program->chunk_kind[program->chunk[rank * vpp + chunk]];
}

#endif
