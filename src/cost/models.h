/* Kernel models: closed forms from a shape, an accelerator's data sheet and fitted constants to
 * seconds. Pure functions of their arguments; no files, no plans. The calibration fits the
 * constants of exactly these functions. docs/internals/cost.md says where they come from. */
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

/* Bytes of a stored element with its share of block scales. */
double orr_stored_bytes(orr_dtype dtype);

/* Clocks fall when a chip computes for long at its power limit. Benchmarks run a kernel for
 * milliseconds, training for days. */
typedef enum orr_power {
    ORR_POWER_BENCHMARK = 0, /* grows with the kernel's own duration */
    ORR_POWER_SUSTAINED = 1  /* fully throttled */
} orr_power;

/* ---- GEMM ----------------------------------------------------------------------------------- */

typedef struct orr_gemm_shape {
    double m, n, k, batch;
    double in_bytes;  /* of an input element, block scales included */
    double out_bytes; /* moved per output element; 8: an fp32 accumulator is read and written */
} orr_gemm_shape;

enum { ORR_GEMM_TILES = 11 };
/* Rows and columns of the tile shapes that a library is taken to choose from. */
extern const double ORR_GEMM_TILE[ORR_GEMM_TILES][2];

/* t = start + T (1 + throttle·x/(1+x)) + quantise, x = T/throttle_half, T the least over tiles and
 * K splits of (tc^q + tl^q + (td + (1-a) to)^q)^(1/q) + a·to + waves·tile + split. Tiles are
 * of unequal efficiency and may be part-filled, deep products are slower. docs/internals/cost.md,
 * "How a GEMM is priced". */
typedef struct orr_gemm_constants {
    double start_s;         /* launch and drain */
    double efficiency;      /* of peak, in the main loop of a 128x128 tile at K = 4096 */
    double hbm_frac;        /* of HBM bandwidth */
    double tile_s;          /* prologue and epilogue of one wave */
    double unit_Bps;        /* operand bytes into one unit from L2 */
    double occupancy;       /* HBM share reached grows as this times the busy units */
    double serial_output;   /* a: part of the output write that nothing hides, 0..1 */
    double norm;            /* q: how sharply the slowest resource decides */
    double split_s;         /* a reduction over K splits */
    double quantisation;    /* 1: whole waves of tiles, 0: none */
    double fill;            /* part of a full tile's cost that padding has, 0..1 */
    double depth;           /* compute slows as (K/4096)^depth */
    double throttle;        /* slow-down of long kernels at the power limit */
    double throttle_half_s; /* duration at which half of it shows */
    double quantise_frac; /* HBM share of a separate kernel that quantises A; 0: none in the time */
    double tile_gain[ORR_GEMM_TILES]; /* main-loop efficiency of each tile by that of 128x128 */
} orr_gemm_constants;

double orr_gemm_time_s(const orr_gemm_constants *c, const orr_machine *machine,
                       const orr_gemm_shape *shape, orr_power power);
/* What that time is made of. */
typedef struct orr_gemm_parts {
    double tile_m, tile_n, split; /* the best cut, and pieces of K */
    double tiles, waves;
    double compute_s, operands_s, hbm_s; /* overlap */
    double output_s, ramp_s, reduce_s;   /* follow: output left over, tiles' ramps, split sums */
    double start_s, throttle_s, quantise_s;
} orr_gemm_parts;
orr_gemm_parts orr_gemm_explain(const orr_gemm_constants *c, const orr_machine *machine,
                                const orr_gemm_shape *shape, orr_power power);

/* ---- attention ------------------------------------------------------------------------------ */

/* Sequences of their own lengths in one call, each masked against the others. */
typedef struct orr_packed {
    const double *length;
    uint32_t count;
} orr_packed;

typedef struct orr_attention_shape {
    double batch, heads, kv_heads, head_dim, v_dim;
    double seq_q, seq_kv;
    double window; /* 0: none */
    bool causal, backward;
    bool deterministic;       /* sums in one order, whatever that costs */
    const orr_packed *packed; /* else `batch` sequences of seq_q; NULL: none */
} orr_attention_shape;

/* Sequences of a call, one kind at a time: how many, and their shape as a batch of that length.
 * The shape itself where nothing is packed. */
uint32_t orr_attention_pieces(const orr_attention_shape *shape);
orr_attention_shape orr_attention_piece(const orr_attention_shape *shape, uint32_t index);
/* Sums over all sequences of a call. */
typedef struct orr_attention_work {
    double tiles;   /* of 128 queries and a head */
    double pairs;   /* of queries and keys that are computed, of one head */
    double queries; /* tokens */
} orr_attention_work;
orr_attention_work orr_attention_work_of(const orr_attention_shape *shape);

typedef struct orr_attention_constants {
    double start_s;
    double efficiency;            /* of peak at head_dim >= 120, forward */
    double medium_frac;           /* of it at head_dim < 120 */
    double narrow_frac;           /* of it at head_dim < 80 */
    double tile_s;                /* ramp of one tile */
    double backward_flops;        /* arithmetic of the backward by that of the forward */
    double backward_frac;         /* its efficiency by that of the forward */
    double grouped_backward_frac; /* what is left of that where query heads share keys; 0: all */
} orr_attention_constants;

double orr_attention_time_s(const orr_attention_constants *c, const orr_machine *machine,
                            const orr_attention_shape *shape);
/* Keys an average query sees, whole tiles on the diagonal counted. */
double orr_attention_keys(const orr_attention_shape *shape);
/* Moved at least, in 16 bits: each operand and result once. */
double orr_attention_bytes(const orr_attention_shape *shape);

/* ---- attention as measured ------------------------------------------------------------------ */

/* Classes of head dimension (the mean of keys' and values'): up to 64, 96, 128, 192, above; and
 * those that are no multiple of 16, which some libraries run on a slow path. */
enum { ORR_FLASH_WIDTHS = 6, ORR_FLASH_UNALIGNED = 5 };

/* A library's kernel alone: tiles of 128 queries, each with its own ramp; causal tiles of unequal
 * length; HBM traffic; a host floor that grows with the sequences of a batch. */
typedef struct orr_flash_constants {
    double start_s;
    double sequence_s;                   /* each sequence of the batch */
    double efficiency[ORR_FLASH_WIDTHS]; /* of peak, by head dimension; 0: never measured */
    double causal_frac;                  /* of it with a causal mask */
    double grouped_frac;                 /* of it where query heads share keys */
    double deterministic_frac;           /* of it where sums keep one order */
    double masked_frac;                  /* of the keys outside a window, computed all the same */
    double tile_s;                       /* ramp of one tile */
    double block_s;                      /* softmax and bookkeeping per 128 keys of a tile */
    double quantisation;                 /* 1: whole waves */
    double tail;                         /* how sharply the longest tile decides */
    double hbm_frac, norm;
    double throttle, throttle_half_s;
} orr_flash_constants;

/* The class of a head dimension. */
int orr_flash_width(double width);
double orr_flash_time_s(const orr_flash_constants *c, const orr_machine *machine,
                        const orr_attention_shape *shape);

/* ---- memory-bound kernels as measured ------------------------------------------------------- */

/* t = start + rows·row/units + bytes through HBM at hbm_frac of its bandwidth, what the L2 still
 * holds faster. */
typedef struct orr_stream_constants {
    double start_s;
    double row_s; /* of a unit, each row */
    double hbm_frac;
    double cached;  /* bytes that stay in L2, by its capacity */
    double speedup; /* of those bytes */
} orr_stream_constants;

double orr_stream_time_s(const orr_stream_constants *c, const orr_machine *machine, double bytes,
                         double rows);

/* ---- experts as measured -------------------------------------------------------------------- */

typedef struct orr_experts_shape {
    double tokens;      /* of the layer, before they are copied to experts; 0: a bare product */
    double rows;        /* token-expert rows of this rank, balanced */
    double most_rows;   /* no skew brings more */
    double groups;      /* local experts */
    double topk;        /* of them that a token goes to; 0: rows are spread at random */
    double row_flops;   /* of one row through all products */
    double group_bytes; /* weights of one expert, read; gradients, written */
    double token_bytes; /* activations of the layer, in and out */
    double depth;       /* input columns of all products */
    double columns;     /* output columns of all products */
    double width_in, width_out; /* of the first product */
    double ranks;               /* that share the experts */
    bool skewed;                /* routing by a power law */
    uint8_t scales;             /* kinds of low precision, by number, which surfaces tell apart */
} orr_experts_shape;
typedef struct orr_experts_constants {
    double start_s;
    double efficiency;              /* of peak */
    double hbm_frac;                /* of HBM bandwidth */
    double pad_rows;                /* lost in the tiles of a group */
    double group_s;                 /* each group with rows */
    double norm;                    /* how sharply the slower of arithmetic and memory decides */
    double skew;                    /* load of the fullest rank: ranks^skew */
    double read_bytes, write_bytes; /* an activation that goes into a product, or comes out */
    double depth;   /* by which every product is deeper than it is, to fill the units */
    double token_s; /* routing and sorting a token */
    double wave;    /* share of a wave of tiles lost at the end */
} orr_experts_constants;
double orr_experts_time_s(const orr_experts_constants *c, const orr_machine *machine,
                          const orr_experts_shape *shape);

/* Dispatch and combine of an expert-parallel layer, together. */
typedef struct orr_exchange_shape {
    double ranks, nodes, tokens, hidden, topk, experts;
    double units; /* SMs given to it */
} orr_exchange_shape;
typedef struct orr_exchange_constants {
    double start_s, rank_s, node_s;
    double link_Bps, unit_Bps, nic_Bps; /* inside the domain, of one SM, between domains */
    double norm;
    double token_bytes; /* beside the hidden state */
    double own_copies;  /* a token costs by this many more than the ranks it goes to */
} orr_exchange_constants;
double orr_exchange_time_s(const orr_exchange_constants *c, const orr_exchange_shape *shape);

/* ---- collectives ---------------------------------------------------------------------------- */

/* A message cut into pieces that follow one another through the members: with m pieces it takes
 * start + wire/Bps + wire/(m Bps) + m·piece, and libraries cut (and choose protocol and channels)
 * so that this is about least: t = start + wire/Bps + 2 sqrt(piece·wire/Bps). */
typedef struct orr_message {
    double start_s, Bps, piece_s;
} orr_message;

double orr_message_time_s(const orr_message *message, double wire_bytes);

/* A hierarchy of scale-up domains behind NICs, as one collective sees it. */
typedef struct orr_rails {
    double ranks, inner, domains;
    double inner_Bps; /* bus bandwidth inside a domain, of rings */
    double nic_Bps;   /* attained, per rank, one direction */
    double site_Bps;  /* of all NICs of the group in the domain that has fewest */
    double base_s, hop_s, peer_hop_s;
    double tree_hop_s;  /* a level of a tree; 0: 1.5 x hop_s */
    double stall_ranks; /* ring length at which stalls halve the bandwidth; 0: none */
    /* all-reduces that a domain's switches add up (NVLS): bus bandwidth, start; 0: they do not */
    double switch_Bps, switch_s;
} orr_rails;

double orr_rails_ring_s(const orr_rails *rails, double bytes, bool all_reduce);
double orr_rails_tree_s(const orr_rails *rails, double bytes); /* all-reduce */
/* all-reduce; needs switch_Bps */
double orr_rails_nvls_tree_s(const orr_rails *rails, double bytes);
double orr_rails_sharp_s(const orr_rails *rails, double bytes); /* all-reduce */
/* all-gather, reduce-scatter; one rank a domain */
double orr_rails_pat_s(const orr_rails *rails, double bytes);
/* Share of an all-reduce's bytes that crosses each rank's links, in and out, where switches add up:
 * it sends all of its own and one sum, and receives the other way round. */
double orr_switch_wire_frac(double ranks);
/* Links that a byte passes on its way from rank to rank of a torus, on average, or 1; dimensions of
 * equal length. */
double orr_torus_hops(double ranks, double dimensions);
/* `crossing`: share of a rank's bytes that leaves its domain; (ranks - inner) / ranks unless tokens
 * bound for several ranks of a domain cross once. */
double orr_rails_all_to_all_s(const orr_rails *rails, double bytes, double crossing_frac);
#endif
