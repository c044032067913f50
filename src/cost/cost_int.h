/* A cost table from inside: what was chosen from the calibration for one accelerator, cluster and
 * software, ready to price. */
#ifndef ORR_COST_INT_H
#define ORR_COST_INT_H

#include "cost/calibration.h"
#include "cost/cost.h"
#include "cost/models.h"

/* GEMMs of one dtype. */
typedef struct orr_gemm_prices {
    const orr_gemm_fit *fit;
    orr_gemm_constants constants; /* the fit's, with the dtype's own main loop */
    const orr_surface *surface;   /* of this device and dtype itself; NULL: none */
    orr_machine machine;
    double in_bytes;
    double apart_frac; /* what another device, format or training adds to the fit's error */
    uint8_t provenance, kin;
} orr_gemm_prices;

/* One operation inside a scale-up domain, by rank count. */
typedef struct orr_curve {
    const orr_collective_fit *fit; /* the donor's largest */
    uint32_t count, mesh;
    struct {
        double ranks;
        const orr_fit *fit;
        orr_message message;        /* already scaled to this device's links */
        const orr_surface *surface; /* of this device itself; NULL: none */
    } point[ORR_MAX_RANK_POINTS];
    const orr_transfer *transfer;
    double apart_frac; /* what another device's links add to its errors */
    uint8_t provenance, kin;
} orr_curve;

/* What a sweep of message sizes, measured on the machine itself, says of the constants of one
 * operation: factors on starts and on bandwidths. */
typedef struct orr_sweep {
    uint32_t records; /* 0: none, factors are 1 */
    double start_factor, rate_factor;
    double relerr_frac; /* of the records around the corrected constants */
} orr_sweep;

/* What one library reaches in 8 bits and in 16, on this device or a sibling: a step's attention in
 * 8 bits takes less than in 16 as theirs does. */
typedef struct orr_low_attention {
    const orr_flash_fit *low, *wide; /* NULL: not measured on the architecture */
    bool sibling;
} orr_low_attention;

struct orr_prices_table {
    const orr_cluster *cluster;
    const orr_software *software;
    const orr_accelerator *accelerator;
    const orr_calibration *calibration;
    const orr_arch_fit *arch;
    orr_kin arch_kin;
    orr_gemm_prices gemm[ORR_DTYPE_COUNT];
    orr_attention_constants attention;
    orr_machine attention_machine;
    orr_low_attention low_attention[2][2]; /* of fp8 and mxfp8; forward and backward */
    double memory_Bps[ORR_MEMOP_COUNT];    /* attained */
    orr_curve curve[ORR_COLLECTIVE_COUNT];
    orr_sweep inside[ORR_COLLECTIVE_COUNT], across[ORR_COLLECTIVE_COUNT]; /* domains */
    const orr_evidence *evidence;                                         /* NULL: models alone */
    const orr_evidence_field *field; /* evidence as seen from shapes that it does not hold */
    struct orr_memo *memo;           /* filled as prices are asked for; never changes an answer */
};

/* curve.c: what training uses (any NCCL or RCCL), measured on the device or on the nearest. */
void orr_curve_init(orr_curve *curve, const orr_calibration *calibration,
                    const orr_accelerator *accelerator, orr_collective op);
/* Whether a domain's switches add up: those of NVLink 4 and later do (NVLS). */
bool orr_switches_add_up(const orr_accelerator *accelerator);
/* policy.c: which algorithm a library takes, and what it costs. */
/* routing: of a de-duplicating all-to-all, else zeros. */
orr_cost orr_policy_price(const orr_cost_table *table, orr_collective kind, double bytes,
                          orr_group group, const orr_routing *routing);
/* Across domains: what each algorithm takes that the library has for the operation. */
typedef enum orr_algorithm {
    ORR_BY_MESSAGE = 0,
    ORR_BY_RING,
    ORR_BY_TREE,
    ORR_BY_NVLS_TREE,
    ORR_BY_SHARP,
    ORR_BY_PAT,
    ORR_BY_DIRECT,
    ORR_ALGORITHM_COUNT
} orr_algorithm;
const char *orr_algorithm_name(orr_algorithm algorithm);
typedef struct orr_routes {
    double time_s[ORR_ALGORITHM_COUNT];
    uint32_t offered; /* bits, by algorithm */
    orr_algorithm best;
} orr_routes;
orr_routes orr_policy_routes(const orr_cost_table *table, orr_collective kind, double bytes,
                             orr_group group, const orr_routing *routing);
/* Share of an all-to-all's bytes that leaves the domain. */
double orr_crossing_frac(orr_group group, const orr_routing *routing);
/* Tokens of few choices cost an exchange more than their copies: see policy.c. */
bool orr_policy_few_choices(uint32_t topk);
/* Whether a domain's switches add up for the library (NVLS). */
bool orr_policy_has_nvls(const orr_cost_table *table);
/* Line rate of a member's NIC towards the group's other domains. */
double orr_policy_line_Bps(const orr_cost_table *table, orr_group group);
/* The least time that links and NICs allow an algorithm; inside a domain the best that the library
 * has. *of: what it is made of, for people. */
double orr_collective_roof_s(const orr_cost_table *table, orr_collective kind, double bytes,
                             orr_group group, const orr_routing *routing, orr_algorithm algorithm,
                             const char **of);
/* How such a group hangs together, across domains. */
orr_rails orr_policy_rails(const orr_cost_table *table, orr_collective kind, orr_group group);
/* Constants for a number of ranks that may lie between or beyond the measured ones. */
orr_message orr_curve_at(const orr_curve *curve, double ranks);
/* Time of so many bytes (as in orr_collective): the constants, and what was measured beyond them.
 */
double orr_curve_time_s(const orr_curve *curve, orr_collective op, double ranks, double bytes);
/* Relative error, one sd, there. */
double orr_curve_error(const orr_curve *curve, double ranks, double bytes);

/* A collective as a table of benchmarks describes it, and its price by the nearest record. */
typedef struct orr_collective_ask {
    const orr_accelerator *accelerator;
    const char *site, *library; /* as the table calls them */
    orr_collective op;
    double ranks, nodes;
} orr_collective_ask;
bool orr_collective_price(const orr_calibration *calibration, const orr_collective_ask *ask,
                          double bytes, double *time_s, double *relerr_frac);

/* from_evidence.c: the best that is known of a key, given what the model says of it. */
orr_cost orr_cost_best(const orr_cost_table *table, const orr_evidence_key *key, orr_cost model);
orr_measured orr_measured_of(const orr_cost_table *table, const orr_evidence_key *key,
                             orr_cost model);

/* memo.c: prices of GEMM shapes, shared by threads without locks. */
typedef struct orr_memo_key {
    uint64_t m, n, k, batch;
    uint8_t kind, dtype, out_bytes, phase, pad[4];
} orr_memo_key;
struct orr_memo *orr_memo_new(orr_arena *arena);
bool orr_memo_get(const struct orr_memo *memo, const orr_memo_key *key, orr_cost *out);
void orr_memo_put(struct orr_memo *memo, const orr_memo_key *key, const orr_cost *cost);

/* What a step multiplies the tile model of a product by. A grouped one runs at a share of that rate
 * and takes launches_s at least. */
typedef struct orr_gemm_factors {
    double runs, software, surface, misaligned, grouped_share, launches_s;
} orr_gemm_factors;
orr_gemm_factors orr_cost_gemm_factors(const orr_cost_table *table, const orr_op *op);

/* states.c: in words, what the prices of a step (how: orr_measured) and of a benchmark (NULL: there
 * is none) are of. */
void orr_cost_put_states(orr_arena *arena, const orr_cost_table *table, const orr_op *op,
                         uint8_t how, const char *library, const orr_tree *benchmark,
                         orr_tree *out);

/* Where a price is of several kernels, of which op is one. */
void orr_cost_put_several(orr_arena *arena, const orr_cost_table *table, const orr_op *op,
                          orr_tree *out);

/* explain.c: time, error and provenance; rate, roof and fit of products of one dtype. */
void orr_explain_price(orr_arena *arena, const orr_cost *cost, orr_tree *out);
void orr_explain_products(orr_arena *arena, const orr_cost_table *table, orr_dtype dtype,
                          double time_s, double flops, double bytes, orr_tree *out);

/* low_attention.c: how many times less an op takes than in 16 bits; 1 in 16 bits, and where nobody
 * measured (*of NULL). */
void orr_low_attention_init(struct orr_prices_table *table);
double orr_low_attention_gain(const orr_cost_table *table, const orr_op *op,
                              const orr_attention_shape *shape, const orr_low_attention **of);
double orr_low_attention_error(const orr_low_attention *of);

/* The shape of an attention op as its model takes it. */
orr_attention_shape orr_attention_shape_of(const orr_op *op);
/* What the model says of it; packed NULL: sequences as the op has them. */
orr_cost orr_cost_attention(const orr_cost_table *table, const orr_op *op,
                            const orr_packed *packed);
double orr_cost_memory_bytes(const orr_cost_table *table, const orr_op *op);

#endif
