/* The plan: how a model is spread over a cluster and trained. Plain data in zero-padded
 * sub-structs, so that the bytes of each are one memo key. Legality is decided here, by rules that
 * each have an id, a message and a hint. Keys and values: keys.c, docs/internals/plan.md. */
#ifndef ORR_PLAN_H
#define ORR_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/cluster.h"
#include "model/model.h"
#include "schedule/schedule.h"
#include "software/software.h"

typedef enum orr_precision {
    ORR_PRECISION_BF16 = 0,
    ORR_PRECISION_FP16,
    ORR_PRECISION_FP8,
    ORR_PRECISION_FP8_CS,
    ORR_PRECISION_FP8_MX,
    ORR_PRECISION_FP8_BLOCKWISE,
    ORR_PRECISION_NVFP4,
    ORR_PRECISION_COUNT
} orr_precision;
typedef enum orr_sharding {
    ORR_SHARD_NONE = 0,
    ORR_SHARD_ZERO1,
    ORR_SHARD_ZERO2,
    ORR_SHARD_ZERO3,
    ORR_SHARD_FSDP2,
    ORR_SHARD_HSDP,
    ORR_SHARD_COUNT
} orr_sharding;
typedef enum orr_recompute_kind {
    ORR_RECOMPUTE_NONE = 0,
    ORR_RECOMPUTE_FULL,      /* every layer its own checkpoint */
    ORR_RECOMPUTE_SELECTIVE, /* modules: orr_module bits */
    ORR_RECOMPUTE_BLOCK,     /* the first n layers of each chunk */
    ORR_RECOMPUTE_UNIFORM,   /* checkpoints of n layers */
    ORR_RECOMPUTE_UNKNOWN    /* not stated: answers are intervals from none to full */
} orr_recompute_kind;
/* Modules that ops and saved tensors belong to, and that selective recompute names. */
typedef enum orr_module {
    ORR_MODULE_CORE_ATTN = 1 << 0,
    ORR_MODULE_LAYERNORM = 1 << 1,
    ORR_MODULE_MLP = 1 << 2,
    ORR_MODULE_MOE = 1 << 3,
    ORR_MODULE_MOE_ACT = 1 << 4,
    ORR_MODULE_SHARED_EXPERTS = 1 << 5,
    ORR_MODULE_MLA_UP_PROJ = 1 << 6,
    ORR_MODULE_SAC = 1 << 7,   /* per-operator checkpointing: every second matmul is kept */
    ORR_MODULE_LAYER = 1 << 15 /* the layer itself: full recompute keeps its input alone */
} orr_module;
typedef enum orr_cp_kind { ORR_CP_RING = 0, ORR_CP_ALLGATHER = 1, ORR_CP_A2A = 2 } orr_cp_kind;
typedef enum orr_optimizer { ORR_ADAM = 0, ORR_ADAM8BIT = 1, ORR_MUON = 2 } orr_optimizer;
/* Neighbours in rank order, innermost first. Pipeline stages outermost, or inside data parallelism:
 * then replicas lie further apart and stages nearer. */
typedef enum orr_rank_order { ORR_ORDER_PP_LAST = 0, ORR_ORDER_DP_LAST = 1 } orr_rank_order;
typedef enum orr_overlap_bit {
    ORR_OVERLAP_TP = 1 << 0,
    ORR_OVERLAP_DP = 1 << 1,
    ORR_OVERLAP_PP = 1 << 2,
    ORR_OVERLAP_EP = 1 << 3
} orr_overlap_bit;

typedef struct orr_split {
    uint32_t tp, cp, ep, etp;
    uint8_t sp;      /* sequence-parallel regions */
    uint8_t cp_kind; /* orr_cp_kind */
    /* Token copies of the fullest expert rank over the mean, in ORR_LOAD_ONE-ths: imbalance, or the
     * capacity that rows are padded to. 0: balanced. */
    uint16_t load;
} orr_split;
enum { ORR_LOAD_ONE = 256 };
/* The fullest expert rank's rows over the mean. */
static inline double orr_split_load(const orr_split *split) {
    return split->load > 0 ? (double)split->load / ORR_LOAD_ONE : 1;
}
typedef struct orr_pipe {
    uint32_t pp, vpp;
    uint32_t group;                     /* micro-batches a virtual-stage group; 0: pp */
    uint8_t schedule, p2p;              /* orr_schedule_kind, orr_p2p_mode */
    uint8_t split_flags;                /* orr_split_kind bits of the layer split */
    uint8_t placement;                  /* orr_placement */
    uint32_t first_layers, last_layers; /* ORR_SPLIT_COUNTS */
    uint32_t memory_limit;              /* schedules with a budget */
    uint32_t order;                     /* orr_rank_order */
    uint64_t layout_hash; /* of orr_plan.layout, which it stands for in memo keys; 0: none */
} orr_pipe;
typedef struct orr_batch {
    uint32_t mbs;           /* sequences of a micro-batch */
    uint32_t micro_batches; /* per step and data-parallel rank */
    uint32_t seq;           /* tokens of a sequence */
} orr_batch;
typedef struct orr_numeric {
    uint8_t precision;    /* orr_precision */
    uint8_t optimizer;    /* orr_optimizer */
    uint8_t param_bytes;  /* of a resident parameter: 2; 4 for fp32 shards; 1 for fp8 primary */
    uint8_t grad_bytes;   /* of the gradient buffer: 2 or 4 */
    uint8_t master_bytes; /* 4, 2 (remainders), 0 (parameters are their own master) */
    uint8_t exp_avg_bytes, exp_avg_sq_bytes; /* 4 each, 2 or 1 when precision-aware */
    uint8_t wire_bytes; /* a gradient takes in reduction, where it is stored otherwise; 0: grad */
} orr_numeric;
typedef struct orr_recompute {
    uint32_t modules; /* orr_module bits, for SELECTIVE */
    uint32_t layers;  /* n of BLOCK and UNIFORM */
    uint8_t kind;     /* orr_recompute_kind */
    uint8_t reserved[3];
} orr_recompute;
typedef struct orr_shard {
    uint32_t dp;    /* data-parallel replicas: gpus / (tp pp cp) */
    uint32_t group; /* ranks of a shard group (HSDP, optimizer groups); 0: all of dp*cp */
    uint8_t kind;   /* orr_sharding */
    uint8_t reserved[3];
} orr_shard;

/* Linears that low-rank adapters stand beside, by the part of a layer. One adapter serves a fused
 * product where it is named as such, else q, k, v and gate, up have one each. */
typedef enum orr_lora_target {
    ORR_LORA_Q = 1 << 0,
    ORR_LORA_K = 1 << 1,
    ORR_LORA_V = 1 << 2,
    ORR_LORA_O = 1 << 3,
    ORR_LORA_GATE = 1 << 4,
    ORR_LORA_UP = 1 << 5,
    ORR_LORA_DOWN = 1 << 6,
    ORR_LORA_QKV = 1 << 7,
    ORR_LORA_FC1 = 1 << 8,
    ORR_LORA_ATTENTION_IN = ORR_LORA_Q | ORR_LORA_K | ORR_LORA_V | ORR_LORA_QKV,
    ORR_LORA_MLP_IN = ORR_LORA_GATE | ORR_LORA_UP | ORR_LORA_FC1,
    ORR_LORA_ALL_LINEAR = ORR_LORA_Q | ORR_LORA_K | ORR_LORA_V | ORR_LORA_O | ORR_LORA_GATE |
                          ORR_LORA_UP | ORR_LORA_DOWN
} orr_lora_target;
/* Format that frozen linears rest in; embeddings, head, norms and router stay in 16 bits. */
typedef enum orr_base_format {
    ORR_BASE_16BIT = 0,
    ORR_BASE_INT8,
    ORR_BASE_NF4,       /* an fp32 scale each 64 weights */
    ORR_BASE_NF4_DOUBLE /* scales quantised too: a byte each 64, an fp32 each 256 of those */
} orr_base_format;
/* Adapters beside frozen weights. rank 0: none, everything trains. */
typedef struct orr_lora {
    uint32_t rank;
    uint32_t alpha;   /* scale of their output; costs nothing */
    uint16_t targets; /* orr_lora_target bits */
    uint8_t base;     /* orr_base_format */
    uint8_t reserved;
} orr_lora;

/* What waits in host memory. Its transfers are taken as hidden. */
typedef struct orr_offload {
    uint32_t layers;             /* activations of so many layers of a chunk, from the front */
    uint32_t optimizer_permille; /* of the optimizer's states */
} orr_offload;

/* A Megatron layout string taken apart: what each stage of the chain holds. Lives in the arena of
 * the request that read it. */
typedef struct orr_layout {
    const char *text;
    uint32_t stages;
    uint32_t mtp_stage;     /* stage of the MTP depths; the last when there are none */
    uint32_t mtp_layers;    /* "m" in the string */
    const uint16_t *layers; /* [stages] "t" of each */
} orr_layout;

typedef struct orr_plan {
    uint32_t gpus;
    uint32_t gbs;     /* sequences of a step */
    uint32_t overlap; /* orr_overlap_bit bits */
    orr_split split;
    orr_pipe pipe;
    orr_batch batch;
    orr_numeric numeric;
    orr_variant variant; /* the software's, with the plan's overrides */
    orr_recompute recompute;
    orr_shard shard;
    orr_offload offload;
    orr_lora lora;
    const orr_layout *layout; /* NULL: none; not part of any memo key, see pipe.layout_hash */
} orr_plan;

/* Ranks that share the optimizer states of dense and of expert parameters. */
uint32_t orr_plan_dense_shards(const orr_plan *plan);  /* dp*cp, or the group */
uint32_t orr_plan_expert_shards(const orr_plan *plan); /* gpus / (etp ep pp) */
/* Parameters that adapters train, over the whole model. */
uint64_t orr_plan_adapter_params(const orr_model *model, const orr_lora *lora);
/* Memory traffic of an optimizer step on a rank that updates `shard` parameters and holds `local`:
 * the profile's bytes, in proportion to what the plan's number formats take where fp32 states of
 * 16-bit parameters take 30; norm, zeroing and copies of gathered shards. */
double orr_plan_optimizer_bytes(const orr_plan *plan, const orr_software *software, double shard,
                                double local);
/* Bytes a frozen weight of a linear rests in, scales included. */
double orr_base_bytes(uint8_t base);
/* Ranks from one stage to the next. */
uint32_t orr_plan_stage_stride(const orr_plan *plan);
/* How many times further apart than with stages outermost replicas are. */
uint32_t orr_plan_replica_stretch(const orr_plan *plan);
/* Tokens of a micro-batch on a rank outside sequence-parallel regions: seq*mbs/cp. */
uint64_t orr_plan_tokens(const orr_plan *plan);
/* The schedule module's key of this plan. */
orr_schedule_spec orr_plan_schedule(const orr_plan *plan);
/* Stages that a micro-batch crosses: pp*vpp, or pp where two directions share the ranks. */
uint32_t orr_plan_stages(const orr_plan *plan);
/* Place of a chunk in the chain of its direction, from 0; `second` (may be NULL) says whether it
 * belongs to the second direction. */
uint32_t orr_plan_stage(const orr_plan *plan, uint32_t rank, uint32_t chunk, bool *second);
/* Stage that holds the multi-token-prediction depths: the last, unless a layout says otherwise. */
uint32_t orr_plan_mtp_stage(const orr_plan *plan);

enum { ORR_MAX_ASSUMPTIONS = 40, ORR_MAX_VIOLATIONS = 32 };

/* Something filled in that nobody stated. */
typedef struct orr_assumption {
    const char *key;   /* plan key */
    const char *value; /* as text */
    const char *why;
} orr_assumption;

/* How much of what decides memory somebody said. */
typedef enum orr_sureness {
    ORR_SURE_PARTLY = 0,
    ORR_SURE_STATED, /* recompute, kernels, formats and sharding are all stated */
    ORR_SURE_GUESSED /* recompute is not, or nobody says which software runs */
} orr_sureness;

typedef struct orr_resolved {
    const orr_model *model;
    const orr_cluster *cluster;
    const orr_software *software;
    orr_plan plan;
    /* What named the inputs, as given; NULL: taken by default. For orr_plan_write. */
    const orr_tree *model_key, *hardware_key, *cluster_key, *software_key, *fabric_key;
    double nic_Bps;     /* as stated; 0: the cluster's */
    bool graphs_stated; /* then `software` is the profile's copy with them */
    uint32_t sureness;  /* orr_sureness */
    uint32_t assumption_count;
    orr_assumption assumption[ORR_MAX_ASSUMPTIONS];
} orr_resolved;

/* Turns plan keys (a map; spans serve messages) into a plan: finds model, hardware, cluster,
 * software and fabric, derives dp and micro-batches, fills defaults and lists them. "model" may be
 * a name or an inline map. What cannot be read or contradicts itself is an error; a plan that
 * breaks a rule is not (see orr_plan_check). */
orr_status orr_plan_resolve(orr_arena *arena, const orr_tree *keys, orr_resolved *out,
                            orr_err *err);
/* The same for many plans: what their keys name is read once and kept, as is a map given in place
 * of a name, which must live and stay as it is as long as the cache. One per thread. */
typedef struct orr_plan_cache orr_plan_cache;
orr_plan_cache *orr_plan_cache_new(void);
void orr_plan_cache_free(orr_plan_cache *cache); /* what was resolved with it goes too */
orr_status orr_plan_resolve_cached(orr_plan_cache *cache, orr_arena *arena, const orr_tree *keys,
                                   orr_resolved *out, orr_err *err);
/* Everything that is wrong with the keys, not only the first: a list of {status, message, hint,
 * file, line, column}; empty when they resolve. */
orr_tree *orr_plan_problems(orr_arena *arena, const orr_tree *keys);
/* Keys from one file or several sources over each other: entries of `over` win. */
orr_tree *orr_plan_merge(orr_arena *arena, const orr_tree *under, const orr_tree *over);
/* The plan's keys back as a map that resolves to the same plan. */
orr_tree *orr_plan_write(orr_arena *arena, const orr_resolved *resolved);
/* The table of plan keys {name, type, default, unit, values, doc} for options, help and schema. */
orr_tree *orr_plan_fields(orr_arena *arena);

typedef enum orr_rule_effect {
    ORR_RULE_ILLEGAL = 0,        /* contradicts itself: nothing takes it */
    ORR_RULE_DOES_NOT_START = 1, /* the framework would refuse at launch */
    ORR_RULE_WARNING = 2         /* runs, but not as one would want */
} orr_rule_effect;
typedef struct orr_violation {
    const char *rule;    /* "PAR-TP-02" */
    uint32_t effect;     /* orr_rule_effect */
    const char *message; /* with the numbers */
    const char *hint;    /* the nearest legal values */
} orr_violation;
/* All broken rules at once, worst first; returns how many, at most ORR_MAX_VIOLATIONS are written.
 */
uint32_t orr_plan_check(orr_arena *arena, const orr_resolved *resolved, orr_violation *violations);
/* No ILLEGAL and no DOES_NOT_START; makes no text. */
bool orr_plan_legal(const orr_resolved *resolved);
/* Every rule {id, effect, summary}, for `orrery help rules` and the tests. */
orr_tree *orr_plan_rules(orr_arena *arena);

/* "E", "t", "m", "L" and "|", with "(x)*n" and "c*n" (Megatron-Core's pipeline layouts). */
orr_status orr_layout_read(orr_arena *arena, const char *text, orr_layout **out, orr_err *err);
/* Layers of each chunk by the plan's placement, per chunk (arrays of pp*vpp): how many, and the
 * global index of the first. A chunk's layers are consecutive. ORR_E_INFEASIBLE when the placement
 * does not take this many layers. */
orr_status orr_plan_layers(const orr_model *model, const orr_plan *plan, uint32_t *count,
                           uint32_t *offset, orr_err *err);

#endif
