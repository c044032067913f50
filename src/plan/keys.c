/* The table of plan keys: one description for reading, help, schema and writing back. */
#include <string.h>

#include "plan/plan_int.h"

static const char *const placements[] = {"even", "slots", "cost-walk", "balanced", "spread", NULL};
static const char *const cp_kinds[] = {"ring", "allgather", "a2a", NULL};
static const char *const precisions[] = {"bf16",   "fp16",          "fp8",   "fp8_cs",
                                         "fp8_mx", "fp8_blockwise", "nvfp4", NULL};
static const char *const shardings[] = {"none",  "zero1", "zero2",         "zero3",
                                        "fsdp2", "hsdp",  "megatron-fsdp", NULL};
static const char *const p2p_modes[] = {"async", "blocking", "overlap", "overlap-warmup-flush",
                                        NULL};
static const char *const attentions[] = {"flash", "unfused", NULL};
static const char *const losses[] = {"native", "te", "fused", "eager", NULL};
static const char *const dispatches[] = {"alltoall",    "allgather",   "deepep", "sync-free-1",
                                         "sync-free-2", "sync-free-3", NULL};
static const char *const overlaps[] = {"tp", "dp", "pp", "ep", NULL};
static const char *const dropouts[] = {"hidden", "attention", NULL};
static const char *const grad_dtypes[] = {"fp32", "bf16", NULL};
static const char *const param_dtypes[] = {"bf16", "fp32", NULL};
static const char *const master_dtypes[] = {"fp32", "16bit", "none", NULL};
static const char *const moment_dtypes[] = {"fp32", "bf16", "fp16", "fp8", "none", NULL};
static const char *const orders[] = {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", NULL};
static const char *const base_dtypes[] = {"16bit", "int8", "nf4", "nf4-double", NULL};
static const char *const graphs[] = {"none", "partial", "full_iteration", NULL};
static const char *const optimizers[] = {"adam", "adam8bit", "muon", NULL};

static const uint8_t grad_bytes[] = {4, 2}, param_bytes[] = {2, 4}, master_bytes[] = {4, 2, 0},
                     moment_bytes[] = {4, 2, 2, 1, 0};

/* Every default is "": what a key becomes when nobody states it depends on the other inputs. */
#define KEY(index, label, kind, member, low, high, words, unit_, text)                             \
    [index] = {.name = label,                                                                      \
               .type = ORR_FIELD_##kind,                                                           \
               .offset = offsetof(plan_keys, member),                                              \
               .min = low,                                                                         \
               .max = high,                                                                        \
               .values = words,                                                                    \
               .fallback = "",                                                                     \
               .unit = unit_,                                                                      \
               .doc = text}
#define TREE_KEY(index, label, text) KEY(index, #label, TREE, label, 0, 0, NULL, NULL, text)
#define U32_KEY(index, label, low, high, text)                                                     \
    KEY(index, #label, U32, label, low, high, NULL, NULL, text)
#define ENUM_KEY(index, label, words, text) KEY(index, #label, ENUM, label, 0, 0, words, NULL, text)

static const orr_field fields[KEY_COUNT] = {
    TREE_KEY(KEY_MODEL, model,
             "Model: a catalog name, a path to a config.json or card, or the card itself."),
    TREE_KEY(KEY_HARDWARE, hardware, "Accelerator: a catalog name, a path, or a map."),
    TREE_KEY(KEY_CLUSTER, cluster,
             "Cluster: a catalog name, a path, or a map; default: the accelerator's usual one."),
    TREE_KEY(KEY_SOFTWARE, software, "Software profile: a catalog name, a path, or a map."),
    TREE_KEY(KEY_FABRIC, fabric,
             "Fabric profile: a catalog name, a path, or a map; default: the cluster's."),
    U32_KEY(KEY_NODES, nodes, 1, ORR_MAX_GPUS, "Hosts; times gpus_per_node it is gpus."),
    U32_KEY(KEY_GPUS, gpus, 1, ORR_MAX_GPUS, "Accelerators in all."),
    U32_KEY(KEY_GPUS_PER_NODE, gpus_per_node, 1, 4096,
            "Accelerators of a host; default: as the accelerator is usually built."),
    KEY(KEY_NIC, "nic", QUANTITY, nic_Bps, 1, 1e15, NULL, "bytes/s",
        "Network of one accelerator, one direction, such as 400Gb/s; default: the cluster's."),
    U32_KEY(KEY_TP, tp, 1, ORR_MAX_GPUS, "Tensor-parallel degree; default 1."),
    KEY(KEY_SP, "sp", BOOL, sp, 0, 0, NULL, NULL,
        "Sequence-parallel regions beside tensor parallelism; default: as the software, tp > 1."),
    U32_KEY(KEY_PP, pp, 1, ORR_MAX_PP, "Pipeline stages; default 1."),
    U32_KEY(KEY_VPP, vpp, 1, ORR_MAX_VPP,
            "Chunks of layers a pipeline rank holds; default 1, or what schedule, layout or "
            "software imply."),
    KEY(KEY_LAYOUT, "layout", TEXT, layout, 0, 0, NULL, NULL,
        "Layers of the stages: auto (balances stage times within memory); even, slots, cost-walk, "
        "balanced, spread; embedding, loss or embedding,loss (these count as layers); or a "
        "Megatron string such as "
        "\"Et*3|(tt|)*29m|L\"."),
    ENUM_KEY(KEY_PLACEMENT, placement, placements,
             "Placement where no layout says it; default: the software's."),
    U32_KEY(KEY_FIRST_LAYERS, first_layers, 0, ORR_MAX_LAYERS,
            "Layers of the first pipeline rank; 0: as the others."),
    U32_KEY(KEY_LAST_LAYERS, last_layers, 0, ORR_MAX_LAYERS,
            "Layers of the last pipeline rank; 0: as the others."),
    U32_KEY(KEY_EP, ep, 1, ORR_MAX_GPUS, "Expert-parallel degree; default 1."),
    U32_KEY(KEY_ETP, etp, 1, ORR_MAX_GPUS,
            "Tensor-parallel degree inside experts; default: tp where it fits, else 1."),
    U32_KEY(KEY_CP, cp, 1, ORR_MAX_GPUS, "Context-parallel degree; default 1."),
    ENUM_KEY(KEY_CP_KIND, cp_kind, cp_kinds,
             "How context parallelism moves keys and values; default ring, allgather for windowed "
             "attention."),
    U32_KEY(KEY_DP, dp, 1, ORR_MAX_GPUS, "Data-parallel replicas; only checked: gpus/(tp pp cp)."),
    U32_KEY(KEY_MBS, mbs, 1, 1 << 20, "Sequences of a micro-batch; default 1."),
    U32_KEY(KEY_GBS, gbs, 1, 1 << 30, "Sequences of a step."),
    U32_KEY(KEY_MICRO_BATCHES, micro_batches, 1, ORR_MAX_MICRO_BATCHES,
            "Micro-batches of a step and replica; gbs/(mbs dp)."),
    KEY(KEY_SEQ, "seq", TREE, seq, 1, ORR_MAX_SEQ, NULL, "tokens",
        "Tokens of a sequence; \"8k\" is 8192."),
    ENUM_KEY(KEY_PRECISION, precision, precisions, "Number format of the matmuls; default bf16."),
    KEY(KEY_FP8_PARAMS, "fp8_params", BOOL, fp8_params, 0, 0, NULL, NULL,
        "Parameters are kept in fp8 between steps; default: as the software."),
    ENUM_KEY(KEY_SHARDING, sharding, shardings,
             "What data-parallel ranks share out; default: the software's. Megatron-FSDP is zero3 "
             "under Megatron's profiles (hsdp where copies are fewer than ranks); megatron-fsdp is "
             "another word for zero3."),
    U32_KEY(KEY_SHARD_GROUP, shard_group, 0, ORR_MAX_GPUS,
            "Ranks that share one copy; 0: all of dp cp (hsdp: a node's)."),
    ENUM_KEY(KEY_SCHEDULE, schedule, NULL,
             "Pipeline schedule; default 1f1b, interleaved where vpp > 1."),
    U32_KEY(KEY_GROUP, group, 0, ORR_MAX_MICRO_BATCHES,
            "Micro-batches of a virtual-stage group; 0: pp."),
    U32_KEY(KEY_MEMORY_LIMIT, memory_limit, 0, 1 << 20,
            "Chunks in flight, for schedules with a budget; 0: the schedule's own."),
    ENUM_KEY(KEY_P2P, p2p, p2p_modes,
             "What a hop between stages costs; default: 1f1b blocking, interleaved overlap."),
    KEY(KEY_RECOMPUTE, "recompute", TEXT, recompute, 0, 0, NULL, NULL,
        "none, full, selective[:modules], block:N, uniform:N, or unknown (gives an interval); "
        "default none."),
    ENUM_KEY(KEY_ATTENTION, attention, attentions, "Attention kernel; default: the software's."),
    KEY(KEY_FP8_ATTENTION, "fp8_attention", BOOL, fp8_attention, 0, 0, NULL, NULL,
        "Fused attention runs in 8 bits beside low-precision matmuls (Transformer Engine's "
        "fp8_dpa); "
        "windowed layers stay in 16; default off."),
    KEY(KEY_FP8_ATTENTION_BACKWARD, "fp8_attention_backward", BOOL, fp8_attention_backward, 0, 0,
        NULL, NULL,
        "The backward of 8-bit attention runs in 8 bits too; off: in 16 (Transformer Engine's "
        "NVTE_FP8_DPA_BWD=0); default on."),
    ENUM_KEY(KEY_LOSS, loss, losses, "Cross-entropy kernel; default: the software's."),
    ENUM_KEY(KEY_DISPATCH, dispatch, dispatches,
             "How tokens reach their experts; default: the software's."),
    KEY(KEY_OVERLAP, "overlap", FLAGS, overlap, 0, 0, overlaps, NULL,
        "Communication hidden behind compute: all, none or a list; default: the software's."),
    KEY(KEY_DROPOUT, "dropout", FLAGS, dropout, 0, 0, dropouts, NULL,
        "Dropouts that are on: all, none or a list; default: the software's."),
    ENUM_KEY(KEY_GRAD_DTYPE, grad_dtype, grad_dtypes,
             "Gradient buffer and reduction; default: the software's."),
    ENUM_KEY(KEY_PARAM_DTYPE, param_dtype, param_dtypes,
             "Resident parameters: bf16 stands for 16 bits; default: the software's."),
    ENUM_KEY(KEY_MASTER_DTYPE, master_dtype, master_dtypes,
             "Main parameters of the optimizer; none: the resident ones are their own; default "
             "fp32."),
    ENUM_KEY(KEY_EXP_AVG_DTYPE, exp_avg_dtype, moment_dtypes,
             "First moment of the optimizer; default fp32."),
    ENUM_KEY(KEY_EXP_AVG_SQ_DTYPE, exp_avg_sq_dtype, moment_dtypes,
             "Second moment of the optimizer; default fp32."),
    ENUM_KEY(KEY_OPTIMIZER, optimizer, optimizers, "Optimizer; default adam."),
    TREE_KEY(KEY_IMBALANCE, imbalance,
             "Routing of tokens to experts: balanced, a number (rows of the fullest rank over the "
             "mean), power:A (popularity falls as rank^-A), or a list of loads, one an expert; "
             "default balanced."),
    KEY(KEY_CAPACITY, "capacity", REAL, capacity, 0, 64, NULL, NULL,
        "Capacity factor: experts take so many times the mean, padded; what is above is dropped; "
        "0 or default: dropless."),
    U32_KEY(KEY_OFFLOAD_LAYERS, offload_layers, 0, ORR_MAX_LAYERS,
            "Layers of each chunk whose activations wait in host memory; default 0."),
    KEY(KEY_OFFLOAD_OPTIMIZER, "offload_optimizer", REAL, offload_optimizer, 0, 1, NULL, NULL,
        "Share of the optimizer's states in host memory; default 0."),
    TREE_KEY(KEY_LORA, lora,
             "Low-rank adapters beside frozen weights: a rank, RANK:TARGETS (as 16:q+v), or {rank, "
             "alpha, targets}; targets: all-linear (default), attention, mlp, q, k, v, o, gate, "
             "up, down, or qkv and fc1 for one adapter on a fused product; default none."),
    KEY(KEY_ORDER, "rank_order", ENUM, order, 0, 0, orders, NULL,
        "Order of ranks, nearest neighbours first: stages outermost, or inside data "
        "parallelism; decides which network a group crosses; default tp-cp-ep-dp-pp."),
    ENUM_KEY(KEY_BASE_DTYPE, base_dtype, base_dtypes,
             "Format that frozen linears rest in under lora; nf4 is four bits and a scale each 64 "
             "weights; default 16bit."),
    ENUM_KEY(KEY_GRAPHS, graphs, graphs,
             "What is captured and replayed without the host: partial leaves out routed experts; "
             "default: the software's."),
};

const char *orr_plan_key_name(plan_key key) {
    return fields[key].name;
}

orr_schema orr_plan_schema(orr_arena *arena) {
    const char **schedules = ORR_NEW_ARRAY(arena, const char *, ORR_SCHEDULE_COUNT + 1);
    for (int i = 0; i < ORR_SCHEDULE_COUNT; i++) {
        schedules[i] = orr_schedule_name((orr_schedule_kind)i);
    }
    schedules[SCHEDULE_AUTO] = "auto";
    orr_field *copy = ORR_NEW_ARRAY(arena, orr_field, KEY_COUNT);
    memcpy(copy, fields, sizeof fields);
    copy[KEY_SCHEDULE].values = schedules;
    return (orr_schema){.title = "plan", .fields = copy, .count = KEY_COUNT};
}

orr_tree *orr_plan_fields(orr_arena *arena) {
    orr_schema schema = orr_plan_schema(arena);
    return orr_schema_fields(&schema, arena);
}

const char *orr_plan_value_name(plan_key key, uint32_t value) {
    if (key == KEY_SCHEDULE) {
        return value == SCHEDULE_AUTO ? "auto" : orr_schedule_name((orr_schedule_kind)value);
    }
    const char *const *values = fields[key].values;
    for (uint32_t i = 0; values != NULL && values[i] != NULL; i++) {
        if (i == value) {
            return values[i];
        }
    }
    return "";
}

/* ---- dtypes --------------------------------------------------------------------------------- */

static const uint8_t *bytes_of(plan_key key, size_t *count) {
    const uint8_t *table = moment_bytes;
    *count = sizeof moment_bytes;
    if (key == KEY_GRAD_DTYPE) {
        table = grad_bytes;
        *count = sizeof grad_bytes;
    } else if (key == KEY_PARAM_DTYPE) {
        table = param_bytes;
        *count = sizeof param_bytes;
    } else if (key == KEY_MASTER_DTYPE) {
        table = master_bytes;
        *count = sizeof master_bytes;
    }
    return table;
}

uint8_t orr_plan_dtype_bytes(plan_key key, uint8_t index) {
    size_t count;
    const uint8_t *table = bytes_of(key, &count);
    return index < count ? table[index] : table[0];
}

uint8_t orr_plan_dtype_index(plan_key key, uint8_t bytes) {
    size_t count;
    const uint8_t *table = bytes_of(key, &count);
    for (size_t i = 0; i < count; i++) {
        if (table[i] == bytes) {
            return (uint8_t)i;
        }
    }
    return 0;
}

/* ---- recompute ------------------------------------------------------------------------------ */

static const char *const modules[] = {"core_attn", "layernorm",      "mlp",         "moe",
                                      "moe_act",   "shared_experts", "mla_up_proj", "sac"};
enum { MODULES = sizeof modules / sizeof *modules, WORD_MAX = 64 };

static orr_status read_modules(const char *text, uint32_t *bits, orr_err *err) {
    char word[WORD_MAX];
    for (const char *p = text; *p != '\0';) {
        size_t length = strcspn(p, "+, ");
        if (length >= WORD_MAX) {
            return orr_fail(err, ORR_E_SCHEMA, "\"recompute\" has no module \"%.60s\"", p);
        }
        memcpy(word, p, length);
        word[length] = '\0';
        p += length + (p[length] != '\0');
        int found = -1;
        for (int i = 0; i < MODULES && length > 0; i++) {
            found = orr_name_equal(word, modules[i]) ? i : found;
        }
        if (found < 0 && length > 0) {
            (void)orr_fail(err, ORR_E_SCHEMA, "\"recompute\" has no module \"%s\"", word);
            int near = orr_name_nearest(word, modules, MODULES);
            orr_hint(err,
                     "%s%s%sits modules are core_attn, layernorm, mlp, moe, moe_act, "
                     "shared_experts, mla_up_proj, sac",
                     near < 0 ? "" : "did you mean \"", near < 0 ? "" : modules[near],
                     near < 0 ? "" : "\"? ");
            return ORR_E_SCHEMA;
        }
        *bits |= found < 0 ? 0 : 1u << found;
    }
    return ORR_OK;
}

static orr_status bad_recompute(const char *text, orr_err *err) {
    static const char *const words[] = {"none", "full", "selective", "block", "uniform", "unknown"};
    char word[WORD_MAX] = "";
    size_t length = orr_min_u64(strcspn(text, ":"), WORD_MAX - 1);
    memcpy(word, text, length);
    (void)orr_fail(err, ORR_E_SCHEMA, "\"recompute\" has no value \"%.60s\"", text);
    int near = orr_name_nearest(word, words, sizeof words / sizeof *words);
    orr_hint(err,
             "%s%s%sit takes none, full, selective, selective:MODULES, block:N, uniform:N, "
             "unknown",
             near < 0 ? "" : "did you mean \"", near < 0 ? "" : words[near],
             near < 0 ? "" : "\"? ");
    return ORR_E_SCHEMA;
}

static bool read_count(const char *text, const char *word, uint32_t *out) {
    size_t length = strlen(word);
    int64_t value;
    if (strncmp(text, word, length) != 0 || text[length] != ':' ||
        !orr_parse_int(text + length + 1, &value) || value < 0 || value > ORR_MAX_LAYERS) {
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

bool orr_recompute_read(const char *text, orr_recompute *out, orr_err *err) {
    *out = (orr_recompute){0};
    if (orr_name_equal(text, "none")) {
        out->kind = ORR_RECOMPUTE_NONE;
    } else if (orr_name_equal(text, "full")) {
        out->kind = ORR_RECOMPUTE_FULL;
    } else if (orr_name_equal(text, "unknown")) {
        out->kind = ORR_RECOMPUTE_UNKNOWN;
    } else if (orr_name_equal(text, "selective")) {
        out->kind = ORR_RECOMPUTE_SELECTIVE;
        out->modules = ORR_MODULE_CORE_ATTN;
    } else if (strncmp(text, "selective:", 10) == 0) {
        out->kind = ORR_RECOMPUTE_SELECTIVE;
        if (read_modules(text + 10, &out->modules, err) != ORR_OK) {
            return false;
        }
        out->modules = out->modules == 0 ? ORR_MODULE_CORE_ATTN : out->modules;
    } else if (read_count(text, "block", &out->layers)) {
        out->kind = ORR_RECOMPUTE_BLOCK;
    } else if (read_count(text, "uniform", &out->layers)) {
        out->kind = ORR_RECOMPUTE_UNIFORM;
    } else {
        return bad_recompute(text, err) == ORR_OK;
    }
    bool counted = out->kind == ORR_RECOMPUTE_BLOCK || out->kind == ORR_RECOMPUTE_UNIFORM;
    if (counted && out->layers == 0) { /* what frameworks make of it */
        out->kind = ORR_RECOMPUTE_NONE;
    }
    return true;
}

const char *orr_recompute_name(orr_arena *arena, const orr_recompute *recompute) {
    switch (recompute->kind) {
    case ORR_RECOMPUTE_FULL: return "full";
    case ORR_RECOMPUTE_UNKNOWN: return "unknown";
    case ORR_RECOMPUTE_BLOCK: return orr_arena_format(arena, "block:%u", recompute->layers);
    case ORR_RECOMPUTE_UNIFORM: return orr_arena_format(arena, "uniform:%u", recompute->layers);
    case ORR_RECOMPUTE_SELECTIVE: {
        orr_text text = orr_text_new(arena, 256);
        orr_text_add(&text, "selective");
        for (uint32_t i = 0, n = 0; i < MODULES; i++) {
            if (recompute->modules >> i & 1) {
                orr_text_format(&text, "%s%s", n++ == 0 ? ":" : "+", modules[i]);
            }
        }
        return orr_text_done(&text);
    }
    default: return "none";
    }
}

/* ---- sequence length ------------------------------------------------------------------------ */

bool orr_seq_read(const orr_tree *node, uint32_t *out) {
    double value = orr_tree_real(node, -1);
    if (orr_tree_kind_of(node) == ORR_TREE_TEXT) {
        const char *text = orr_tree_text(node, "");
        size_t length = strlen(text);
        char digits[32] = "";
        if (length == 0 || length >= sizeof digits || length != orr_tree_text_length(node)) {
            return false;
        }
        memcpy(digits, text, length);
        char last = digits[length - 1];
        double unit = last == 'k' || last == 'K' ? 1024 : last == 'm' || last == 'M' ? 1048576 : 1;
        digits[length - (unit > 1)] = '\0';
        if (!orr_parse_real(digits, &value)) {
            return false;
        }
        value *= unit;
    }
    if (!(value >= 1 && value <= ORR_MAX_SEQ) || value != (double)(uint32_t)value) {
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

/* ---- merging -------------------------------------------------------------------------------- */

static bool states(const orr_tree *map, plan_key key) {
    return orr_tree_kind_of(orr_tree_get(map, fields[key].name)) != ORR_TREE_NULL;
}

#define BIT(key) (UINT64_C(1) << (key))

/* Keys of `under` that a statement of `over` makes meaningless: a derived figure would otherwise
 * contradict the new one. */
static const struct {
    plan_key key;
    uint64_t by;
} overridden[] = {
    {KEY_NODES, BIT(KEY_GPUS)},
    {KEY_GPUS, BIT(KEY_NODES)},
    {KEY_GBS, BIT(KEY_MICRO_BATCHES)},
    {KEY_MICRO_BATCHES, BIT(KEY_GBS) | BIT(KEY_GPUS) | BIT(KEY_NODES) | BIT(KEY_TP) | BIT(KEY_PP) |
                            BIT(KEY_CP) | BIT(KEY_MBS)},
    {KEY_DP, BIT(KEY_GPUS) | BIT(KEY_NODES) | BIT(KEY_TP) | BIT(KEY_PP) | BIT(KEY_CP)},
    {KEY_HARDWARE, BIT(KEY_CLUSTER)},
    {KEY_CLUSTER, BIT(KEY_HARDWARE)},
    {KEY_LAYOUT, BIT(KEY_PLACEMENT)},
    {KEY_PLACEMENT, BIT(KEY_LAYOUT)},
};

static uint64_t stated_bits(const orr_tree *map) {
    uint64_t bits = 0;
    for (int key = 0; key < KEY_COUNT; key++) {
        bits |= states(map, (plan_key)key) ? BIT(key) : 0;
    }
    return bits;
}

/* A lone micro_batches of `under` stays: it is then the statement, and nothing contradicts it. */
static bool is_dropped(uint64_t under, uint64_t over, const char *name) {
    bool lone = ((under | over) & BIT(KEY_GBS)) == 0;
    for (size_t i = 0; i < sizeof overridden / sizeof *overridden; i++) {
        if (strcmp(fields[overridden[i].key].name, name) == 0) {
            return (over & overridden[i].by) != 0 &&
                   !(lone && overridden[i].key == KEY_MICRO_BATCHES);
        }
    }
    return false;
}

static void put_entry(orr_arena *arena, orr_tree *map, const orr_tree *from, size_t index) {
    const orr_tree *node = orr_tree_at(from, index);
    orr_tree *copy = orr_tree_copy(arena, node);
    orr_tree_set_span(copy, orr_tree_span(node));
    orr_tree_put_at(arena, map, orr_tree_key(from, index), orr_tree_key_span(from, index), copy);
}

orr_tree *orr_plan_merge(orr_arena *arena, const orr_tree *under, const orr_tree *over) {
    orr_tree *out = orr_tree_new_map(arena);
    orr_tree_set_span(out, (orr_span){orr_tree_span(under).file, 0, 0});
    uint64_t under_bits = stated_bits(under), over_bits = stated_bits(over);
    for (size_t i = 0; i < orr_tree_size(under); i++) {
        const char *name = orr_tree_key(under, i);
        if (name != NULL && !is_dropped(under_bits, over_bits, name)) {
            put_entry(arena, out, under, i);
        }
    }
    for (size_t i = 0; i < orr_tree_size(over); i++) {
        if (orr_tree_key(over, i) != NULL) {
            put_entry(arena, out, over, i);
        }
    }
    return out;
}
