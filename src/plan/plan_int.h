/* Inside of the plan module. keys.c reads and writes the keys, resolve*.c turn them into a plan,
 * layers.c places layers, rules*.c judge. */
#ifndef ORR_PLAN_PLAN_INT_H
#define ORR_PLAN_PLAN_INT_H

#include "base/err.h"
#include "base/map.h"
#include "base/num.h"
#include "base/text.h"
#include "doc/doc.h"
#include "plan/plan.h"

/* ---- keys ----------------------------------------------------------------------------------- */

/* Order of the key table; bit i of `seen` belongs to key i. */
typedef enum plan_key {
    KEY_MODEL = 0,
    KEY_HARDWARE,
    KEY_CLUSTER,
    KEY_SOFTWARE,
    KEY_FABRIC,
    KEY_NODES,
    KEY_GPUS,
    KEY_GPUS_PER_NODE,
    KEY_NIC,
    KEY_TP,
    KEY_SP,
    KEY_PP,
    KEY_VPP,
    KEY_LAYOUT,
    KEY_PLACEMENT,
    KEY_FIRST_LAYERS,
    KEY_LAST_LAYERS,
    KEY_EP,
    KEY_ETP,
    KEY_CP,
    KEY_CP_KIND,
    KEY_DP,
    KEY_MBS,
    KEY_GBS,
    KEY_MICRO_BATCHES,
    KEY_SEQ,
    KEY_PRECISION,
    KEY_FP8_PARAMS,
    KEY_SHARDING,
    KEY_SHARD_GROUP,
    KEY_SCHEDULE,
    KEY_GROUP,
    KEY_MEMORY_LIMIT,
    KEY_P2P,
    KEY_RECOMPUTE,
    KEY_ATTENTION,
    KEY_FP8_ATTENTION,
    KEY_FP8_ATTENTION_BACKWARD,
    KEY_LOSS,
    KEY_DISPATCH,
    KEY_OVERLAP,
    KEY_DROPOUT,
    KEY_GRAD_DTYPE,
    KEY_PARAM_DTYPE,
    KEY_MASTER_DTYPE,
    KEY_EXP_AVG_DTYPE,
    KEY_EXP_AVG_SQ_DTYPE,
    KEY_OPTIMIZER,
    KEY_IMBALANCE,
    KEY_CAPACITY,
    KEY_OFFLOAD_LAYERS,
    KEY_OFFLOAD_OPTIMIZER,
    KEY_LORA,
    KEY_BASE_DTYPE,
    KEY_ORDER,
    KEY_GRAPHS,
    KEY_COUNT
} plan_key;

/* Inputs that plans name, read once. */
struct orr_plan_cache {
    orr_arena *arena;
    orr_map named[KEY_COUNT]; /* by the name in a key */
    orr_map given;            /* by the place of a map */
};

/* Keys as read: a value counts only when its bit of `seen` is set. */
typedef struct plan_keys {
    const orr_tree *model, *hardware, *cluster, *software, *fabric, *seq, *imbalance, *lora;
    const char *layout, *recompute;
    uint32_t nodes, gpus, gpus_per_node;
    uint32_t tp, pp, vpp, first_layers, last_layers, ep, etp, cp, dp;
    uint32_t mbs, gbs, micro_batches, shard_group, group, memory_limit;
    uint32_t overlap, dropout; /* bits */
    uint32_t offload_layers;
    double nic_Bps, capacity, offload_optimizer;
    bool sp, fp8_params, fp8_attention, fp8_attention_backward;
    uint8_t placement, cp_kind, precision, sharding, schedule, p2p;
    uint8_t attention, loss, dispatch, optimizer, graphs;
    uint8_t grad_dtype, param_dtype, master_dtype, exp_avg_dtype, exp_avg_sq_dtype, base_dtype;
    uint8_t order;
} plan_keys;

/* Value of plan_keys.schedule: a plan cannot give ops, so that slot of the names is free. */
enum { SCHEDULE_AUTO = ORR_SCHEDULE_USER };
enum { DROPOUT_HIDDEN = 1 << 0, DROPOUT_ATTENTION = 1 << 1 };

/* The table; parts that name other modules' values are filled in here. */
orr_schema orr_plan_schema(orr_arena *arena);
const char *orr_plan_key_name(plan_key key);
/* Name of an enumerated value, for messages and assumptions; "" outside. */
const char *orr_plan_value_name(plan_key key, uint32_t value);
/* Bytes of an element of the dtype keys, and back (the first name with these bytes). */
uint8_t orr_plan_dtype_bytes(plan_key key, uint8_t index);
uint8_t orr_plan_dtype_index(plan_key key, uint8_t bytes);

/* "none", "full", "selective[:modules]", "block:N", "uniform:N", "unknown". */
bool orr_recompute_read(const char *text, orr_recompute *out, orr_err *err);
const char *orr_recompute_name(orr_arena *arena, const orr_recompute *recompute);
/* How unevenly tokens reach the ranks of experts: rows of the fullest rank over the mean. */
bool orr_imbalance_read(orr_arena *arena, const orr_tree *node, const orr_model *model, uint32_t ep,
                        double *out, orr_err *err);
/* Adapters: a rank, "RANK:TARGETS", or {rank, alpha, targets}; and back (NULL: none). */
orr_status orr_lora_read(const orr_tree *node, orr_lora *out, orr_err *err);
orr_tree *orr_lora_write(orr_arena *arena, const orr_lora *lora);
/* Tokens of a sequence: a whole number, or text such as "8k" (8,192). */
bool orr_seq_read(const orr_tree *node, uint32_t *out);

/* ---- layers --------------------------------------------------------------------------------- */

/* How a plan's layers are placed, once "where L does not divide" is decided. */
typedef enum placing {
    PLACING_SPLIT,    /* orr_split_layers with `flags` */
    PLACING_LAYOUT,   /* plan.layout */
    PLACING_WALK,     /* cumulative cost */
    PLACING_BALANCED, /* min-max */
    PLACING_SPREAD,   /* as even as counts can be, embedding and head as layers */
} placing;
placing orr_plan_placing(const orr_model *model, const orr_plan *plan, uint32_t *flags);
/* Whether orr_plan_layers would succeed, without doing it. */
bool orr_plan_placeable(const orr_model *model, const orr_plan *plan);
/* A stage that would hold nothing at all: its number, or UINT32_MAX. */
uint32_t orr_plan_empty_stage(const orr_model *model, const orr_plan *plan);

/* ---- rules ---------------------------------------------------------------------------------- */

/* Where a check leaves its words; NULL when only the answer counts. */
typedef struct rule_note {
    orr_arena *arena;
    const char *id; /* instead of the table's */
    const char *message, *hint;
} rule_note;

typedef struct plan_rule {
    const char *id;
    orr_rule_effect effect;
    const char *summary;
    bool (*broken)(const orr_resolved *r, rule_note *note);
} plan_rule;

typedef struct rule_list {
    const plan_rule *rules;
    size_t count;
} rule_list;
extern const rule_list orr_rules_groups, orr_rules_pipeline, orr_rules_experts, orr_rules_numeric,
    orr_rules_adapters;

/* Both do nothing when note is NULL. rule_say returns true, so that checks end with it. */
bool orr_rule_say(rule_note *note, const char *format, ...) __attribute__((format(printf, 2, 3)));
void orr_rule_hint(rule_note *note, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Hints "use KEY a or b": the nearest values below and above for which fits() holds, up to limit.
 */
void orr_rule_nearest(rule_note *note, const char *key, const orr_resolved *r, uint32_t value,
                      uint32_t limit, bool (*fits)(const orr_resolved *, uint32_t));

static inline bool divides(uint64_t part, uint64_t whole) {
    return part != 0 && whole % part == 0;
}
static inline bool is_moe(const orr_model *model) {
    for (uint32_t i = 0; i < model->kind_count; i++) {
        if (model->kind[i].mlp.experts > 0) {
            return true;
        }
    }
    return false;
}
static inline bool is_fp8(uint8_t precision) {
    return precision >= ORR_PRECISION_FP8;
}
static inline bool shards_params(uint8_t sharding) {
    return sharding == ORR_SHARD_ZERO3 || sharding == ORR_SHARD_FSDP2 || sharding == ORR_SHARD_HSDP;
}

#endif
