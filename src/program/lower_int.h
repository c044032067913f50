/* Inside lowering: the builder that collects ops, saved tensors and parameters of one object.
 *
 * Each helper adds a forward op together with what its backward needs. Backward ops are pushed in
 * forward order and turned round at the end, dependencies too, so that modules are written down
 * once. Sources of byte and flop counts: docs/internals/program.md. */
#ifndef ORR_PROGRAM_LOWER_INT_H
#define ORR_PROGRAM_LOWER_INT_H

#include "program/names_int.h"
#include "program/program.h"
#include "program/traffic.h"

/* Sizes on one rank; symbols: docs/internals/program.md. */
typedef struct orr_sizes {
    uint64_t n;        /* tokens outside sequence-parallel regions */
    uint64_t sharded;  /* N: tokens inside them */
    uint64_t h;        /* hidden */
    uint64_t heads;    /* A */
    uint64_t kv_heads; /* G, at least one */
    uint64_t d, dv;    /* of q and k; of v */
    uint64_t ffn;      /* F */
    uint64_t vocab;    /* v, or all of it where the loss gathers */
    uint64_t copies;   /* of tokens that a rank sends out, padding included */
    uint64_t rows;     /* r: token copies that reach this rank's experts */
    uint64_t slots;    /* of the buffers they lie in: r, or the most that could ever reach it */
    uint64_t experts;  /* on this rank */
    uint64_t expert_h; /* width that experts read and write */
    uint64_t expert_ffn, shared_ffn;
    uint64_t scores;     /* elements of one rank's attention score matrix */
    uint64_t norm_stats; /* st: bytes of statistics a token */
} orr_sizes;

/* One of forward, input gradient, weight gradient while it is built. */
enum { ORR_MAX_LANE = 144 };
typedef struct orr_lane {
    orr_op op[ORR_MAX_LANE];
    uint32_t count;
    int16_t tail, join; /* what the next op waits for; -1: nothing */
} orr_lane;

typedef struct orr_builder {
    const orr_object_key *key;
    orr_sizes size;
    orr_lane forward, backward, weight;
    uint16_t modules;               /* recompute bits that forward ops get now */
    uint8_t gemm_dtype, wide_dtype; /* of linears; of everything kept wide */
    double element_bytes;           /* of a linear's input as computed and gathered */
    bool low;                       /* linears run in fp8 or less */
    bool layer_norm;                /* else root-mean-square norms */
    uint32_t norm_tensors;          /* parameters of a norm */
    bool one_norm;                  /* attention and MLP read one normalised input */
    bool frozen;                    /* only adapters train */
    bool adapting;                  /* what is owned now is an adapter's */
    uint64_t adapter_out;           /* most elements that one puts out */
    uint64_t unpacked;              /* most elements of a quantised weight in use */
    bool tensor, sequence;          /* TP over more than one rank; with sequence-parallel regions */
    uint32_t saved_count, tensor_count, weight_count, matrix_count;
    orr_saved saved[ORR_MAX_SAVED];
    orr_param_tensor param[ORR_MAX_SAVED];
    struct orr_weight_shape weight_shape[ORR_MAX_WEIGHT_SHAPES];
    orr_matrix matrix[ORR_MAX_MATRICES];
    orr_params params;
    uint32_t loss_first;     /* first saved tensor of the loss */
    uint32_t tail, tail_end; /* forward ops whose results no backward op reads: a residual sum's */
    double host_ops;
    bool overflow; /* a fixed table was too small: a bug */
} orr_builder;

/* ---- ops ------------------------------------------------------------------------------------ */

/* Any op at the end of a lane. */
void orr_add_op(orr_builder *b, orr_phase phase, orr_op op);
/* A collective of `count` repeats in one lane; nothing when the group has one rank. */
typedef struct orr_comm {
    uint16_t name;
    uint8_t stream, class, kind;
    uint64_t bytes;
    uint32_t size, stride, count;
    orr_routing routing; /* see orr_op */
} orr_comm;
void orr_add_comm(orr_builder *b, orr_phase phase, orr_comm comm);
void orr_add_tp(orr_builder *b, orr_phase phase, uint16_t name, orr_collective kind,
                uint64_t bytes);

/* A product C[m,n] += A[m,k] B[k,n] and its two gradients. */
typedef struct orr_product {
    uint16_t name;
    uint8_t class, dtype;
    uint8_t grouped;
    uint64_t m, n, k, batch; /* grouped: `batch` groups of m rows together */
} orr_product;
void orr_add_gemm(orr_builder *b, orr_phase phase, orr_product p);

typedef struct orr_linear {
    uint16_t name;
    uint64_t tokens;  /* rows of the GEMM */
    uint64_t out, in; /* on this rank */
    uint8_t wide;     /* stays in 16 bits whatever the recipe */
    uint8_t expert;   /* grouped over the local experts */
    uint8_t lone;     /* no collective around it: replicated, or a partner does it */
} orr_linear;
/* Gathers its input where sequence-parallel; reduces the input gradient. */
void orr_add_column(orr_builder *b, orr_linear l);
/* Reduces or scatters its output. */
void orr_add_row(orr_builder *b, orr_linear l);
/* Neither. */
void orr_add_linear(orr_builder *b, orr_linear l);
/* The low-rank adapter beside a linear of this shape, if the plan has one there: with its ops, what
 * it keeps and owns. `out` and `in` are those of this rank. */
typedef enum orr_adapter_kind {
    ORR_ADAPTER_COLUMN, /* beside a column-parallel linear */
    ORR_ADAPTER_ROW,
    ORR_ADAPTER_LONE
} orr_adapter_kind;
void orr_add_adapter(orr_builder *b, uint32_t target, orr_adapter_kind kind, orr_linear l);
bool orr_adapts(const orr_builder *b, uint32_t target);
/* Whether the core runs in 8 bits: fused, of a low-precision plan that asks for it, without a
 * window, for which libraries have no such kernel. */
bool orr_low_attention(const orr_builder *b, bool backward);

/* Memory-bound work in a lane. */
void orr_add_memory(orr_builder *b, orr_phase phase, uint16_t name, orr_class class,
                    orr_memop family, double bytes, uint32_t kernels);
/* Forward and backward of an elementwise op. */
void orr_add_elementwise(orr_builder *b, uint16_t name, double elements, double forward_bytes,
                         double backward_bytes, uint32_t kernels);
/* The same as traffic.h counts it. */
void orr_add_traffic(orr_builder *b, uint16_t name, double elements, const orr_traffic *traffic);
void orr_add_norm(orr_builder *b, uint16_t name, double elements);
void orr_add_residual(orr_builder *b, uint16_t name);

/* A second path from an earlier forward op: begin, lower it, end; the next op waits for both. */
typedef struct orr_fork {
    int16_t forward, backward;
} orr_fork;
orr_fork orr_fork_here(const orr_builder *b);
orr_fork orr_fork_switch(orr_builder *b, orr_fork to);
void orr_fork_join(orr_builder *b, orr_fork other);

/* ---- what is kept and owned ----------------------------------------------------------------- */

void orr_keep(orr_builder *b, uint16_t module, uint16_t name, uint64_t bytes, uint32_t dropped,
              uint32_t only);
/* The input of a linear as its weight gradient needs it. */
void orr_keep_input(orr_builder *b, uint16_t module, uint64_t elements, uint32_t dropped);
/* The same where the linear may be frozen: then only an adapter's input, in 16 bits. */
void orr_keep_linear_input(orr_builder *b, uint16_t module, uint64_t elements, uint32_t dropped,
                           uint32_t target);
uint64_t orr_low_bytes(const orr_builder *b, uint64_t elements); /* fp8 or fp4 copy with scales */

typedef enum orr_owner {
    ORR_OWN_SHARDED,    /* over TP */
    ORR_OWN_REPLICATED, /* on every TP rank */
    ORR_OWN_EXPERT
} orr_owner;
void orr_own(orr_builder *b, orr_owner owner, uint64_t numel, uint32_t repeat);
/* A trained matrix, rows x cols on this rank, that is owned already. */
void orr_note_matrix(orr_builder *b, orr_owner owner, uint64_t rows, uint64_t cols,
                     uint32_t repeat);
/* The weight of a linear, rows x cols on this rank, and its bias (0: none). */
void orr_own_linear(orr_builder *b, orr_owner owner, uint64_t rows, uint64_t cols, uint64_t bias,
                    orr_owner bias_owner, uint32_t repeat);
/* The same where several matrices lie in one tensor, each to be noted. */
void orr_own_fused(orr_builder *b, orr_owner owner, uint64_t rows, uint64_t cols, uint64_t bias,
                   orr_owner bias_owner, uint32_t repeat);
/* A weight that gets a bf16 gradient dummy where the framework keeps those. */
void orr_note_weight(orr_builder *b, uint64_t rows, uint64_t cols);
/* One of the layer's own kind; the norms of latents and heads have a weight alone. */
void orr_own_norm(orr_builder *b, uint64_t width, uint32_t repeat);

/* ---- parts ---------------------------------------------------------------------------------- */

void orr_lower_attention(orr_builder *b);
void orr_lower_linear_attention(orr_builder *b);
void orr_lower_mlp(orr_builder *b);
void orr_add_mlp_adapters(orr_builder *b, orr_adapter_kind kind, orr_linear up);
void orr_add_activation(orr_builder *b, uint16_t name, double elements);
void orr_lower_moe(orr_builder *b);
void orr_lower_embedding(orr_builder *b);
void orr_lower_head(orr_builder *b);
void orr_lower_mtp(orr_builder *b);
void orr_lower_shards(orr_builder *b); /* FSDP gathers and scatters of everything owned */

void orr_keep_layer(orr_builder *b);
void orr_keep_norm(orr_builder *b, uint16_t module, uint64_t tokens, uint64_t width,
                   uint32_t dropped);
void orr_keep_loss(orr_builder *b);
void orr_keep_linear_attention(orr_builder *b, uint32_t dropped, uint32_t norm);

orr_transient orr_transient_of(const orr_builder *b);

#endif
