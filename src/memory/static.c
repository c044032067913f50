/* Bytes of a rank that stay all the time: parameters, gradients, optimizer states by shard group,
 * and persistent buffers. docs/internals/memory.md, "Static bytes". */
#include "memory/memory_int.h"

#include <math.h>

#include "base/mem.h"
#include "base/num.h"

static const struct {
    const char *name;
    orr_memory_part part;
} items[ORR_ITEM_COUNT] = {
    [ORR_ITEM_PARAMS_DENSE] = {"parameters: dense", ORR_PART_PARAMS},
    [ORR_ITEM_PARAMS_EXPERT] = {"parameters: experts", ORR_PART_PARAMS},
    [ORR_ITEM_PARAMS_PADDING] = {"parameters: padding of the buffer", ORR_PART_PARAMS},
    [ORR_ITEM_FROZEN_DENSE] = {"frozen parameters: dense", ORR_PART_PARAMS},
    [ORR_ITEM_FROZEN_EXPERT] = {"frozen parameters: experts", ORR_PART_PARAMS},
    [ORR_ITEM_GRADS_DENSE] = {"gradients: dense", ORR_PART_GRADS},
    [ORR_ITEM_GRADS_EXPERT] = {"gradients: experts", ORR_PART_GRADS},
    [ORR_ITEM_GRADS_PADDING] = {"gradients: padding of the buffer", ORR_PART_GRADS},
    [ORR_ITEM_GRADS_ACCUMULATED] = {"gradients: fp32 accumulation", ORR_PART_GRADS},
    [ORR_ITEM_MASTER_DENSE] = {"main parameters: dense", ORR_PART_MASTER},
    [ORR_ITEM_MASTER_EXPERT] = {"main parameters: experts", ORR_PART_MASTER},
    [ORR_ITEM_EXP_AVG_DENSE] = {"first moment: dense", ORR_PART_MOMENTS},
    [ORR_ITEM_EXP_AVG_EXPERT] = {"first moment: experts", ORR_PART_MOMENTS},
    [ORR_ITEM_EXP_AVG_SQ_DENSE] = {"second moment: dense", ORR_PART_MOMENTS},
    [ORR_ITEM_EXP_AVG_SQ_EXPERT] = {"second moment: experts", ORR_PART_MOMENTS},
    [ORR_ITEM_DDP_BUCKETS] = {"data-parallel gradient buckets", ORR_PART_BUFFERS},
    [ORR_ITEM_FP8_COPIES] = {"cached low-precision weights", ORR_PART_BUFFERS},
    [ORR_ITEM_FSDP_UNIT] = {"gathered unit and its gradients", ORR_PART_BUFFERS},
    [ORR_ITEM_FSDP_ROOT] = {"gathered root unit", ORR_PART_BUFFERS},
    [ORR_ITEM_FSDP_STAGES] = {"gathered stages", ORR_PART_BUFFERS},
    [ORR_ITEM_FSDP_GRADS] = {"unsharded gradients", ORR_PART_BUFFERS},
    [ORR_ITEM_WORKSPACE] = {"matrix-multiply workspaces", ORR_PART_PERSISTENT},
    [ORR_ITEM_DUMMY_WGRAD] = {"weight-gradient dummies", ORR_PART_PERSISTENT},
    [ORR_ITEM_GATHER] = {"sequence-parallel gather buffer", ORR_PART_PERSISTENT},
    [ORR_ITEM_P2P] = {"pipeline receive buffers", ORR_PART_PERSISTENT},
};

const char *orr_item_name(orr_item item) {
    return item < ORR_ITEM_COUNT ? items[item].name : "?";
}

orr_memory_part orr_item_part(orr_item item) {
    return items[item].part;
}

/* Parameters are cut over the data-parallel ranks too, and gathered unit by unit. */
static bool shards_params(const orr_plan *plan) {
    return plan->shard.kind == ORR_SHARD_ZERO3 || plan->shard.kind == ORR_SHARD_FSDP2 ||
           plan->shard.kind == ORR_SHARD_HSDP;
}

/* A part of `elements` that the fullest rank of `shards` holds. */
static double share(double elements, double shards) {
    return ceil(elements / shards);
}

/* Elements of a rank, dense or expert. */
typedef struct elements {
    double real;   /* without padding */
    double buffer; /* as gradient and parameter buffers hold them */
    double state;  /* as the optimizer of the fullest rank holds them */
    double linear; /* of `real`, weights that low precision quantises */
    double frozen; /* bytes that do not train */
} elements;

/* Buckets as large as Megatron makes them (core/distributed/distributed_data_parallel.py). */
enum { BUCKET_ELEMENTS = 40000000, BUCKET_ELEMENTS_A_RANK = 1000000 };

/* First rank, first chunk, gradients overlapped: the buffer has several buckets, each padded. */
static double bucketed(const orr_weighed *w, const orr_kind_bytes *kind, bool expert,
                       double shards) {
    orr_buffer_walk walk;
    uint64_t ranks = (uint64_t)shards;
    uint64_t dp = orr_max_u32(1, w->plan->shard.dp);
    uint64_t limit = orr_max_u64(BUCKET_ELEMENTS, BUCKET_ELEMENTS_A_RANK * dp);
    orr_buffer_begin(&walk, ranks, limit);
    for (uint32_t p = kind->chunk->part_count; p-- > 0;) {
        const orr_object *object = kind->chunk->part[p].object;
        for (uint32_t k = 0; k < kind->chunk->part[p].count; k++) {
            orr_buffer_add(&walk, object->tensor, object->tensor_count, expert);
        }
    }
    return (double)orr_buffer_end(&walk);
}

static elements group_elements(const orr_weighed *w, uint32_t rank, bool expert) {
    const orr_plan *plan = w->plan;
    double shards = expert ? w->expert_shards : w->dense_shards;
    bool padded = plan->shard.kind == ORR_SHARD_ZERO1;
    bool buckets = padded && rank == 0 && (plan->overlap & ORR_OVERLAP_DP);
    double divisor = padded ? (double)orr_buffer_divisor((uint64_t)shards, false) : 1;
    elements sum = {0};
    for (uint32_t c = 0; c < plan->pipe.vpp; c++) {
        const orr_kind_bytes *kind = &w->kind[w->program->chunk[rank * plan->pipe.vpp + c]];
        double real = expert ? kind->expert : kind->dense;
        double aligned = orr_max_f64(real, expert ? kind->expert_aligned : kind->dense_aligned);
        double buffer = padded ? ceil(aligned / divisor) * divisor : real;
        if (buckets && c == 0 && real > 0 && aligned > BUCKET_ELEMENTS) {
            buffer = orr_max_f64(buffer, bucketed(w, kind, expert, shards));
        }
        sum.real += real;
        sum.linear += expert ? kind->linear_expert : kind->linear_dense;
        sum.buffer += buffer;
        sum.frozen += expert ? kind->frozen_expert : kind->frozen_dense;
        sum.state += padded ? orr_min_f64(real, buffer / shards) : real;
    }
    if (plan->shard.kind == ORR_SHARD_ZERO2 || shards_params(plan)) {
        sum.state = share(sum.real, shards);
    }
    return sum;
}

/* Resident parameters. One byte a parameter means low-precision primary weights, which only
 * linears have; the others take two. */
static double param_bytes(const orr_weighed *w, double real, double linear) {
    uint32_t bytes = w->plan->numeric.param_bytes;
    return bytes == 1 ? linear + 2 * (real - linear) : bytes * real;
}

/* Bytes a quantised element takes with its scales. */
static double quantised_bytes(uint8_t precision) {
    switch (precision) {
    case ORR_PRECISION_FP8_MX: return 1 + 1.0 / 32;
    case ORR_PRECISION_FP8_BLOCKWISE: return 1 + 4.0 / (128 * 128);
    case ORR_PRECISION_NVFP4: return 0.5 + 1.0 / 16;
    case ORR_PRECISION_FP8:
    case ORR_PRECISION_FP8_CS: return 1;
    default: return 0;
    }
}

/* Low-precision copies of a weight that are kept. Per-tensor scales serve both directions where the
 * hardware multiplies in any layout; primary weights are one of the copies. */
static uint32_t cached_copies(const orr_weighed *w) {
    const orr_plan *plan = w->plan;
    uint32_t copies = plan->variant.fp8_copies;
    bool per_tensor = plan->numeric.precision == ORR_PRECISION_FP8 ||
                      plan->numeric.precision == ORR_PRECISION_FP8_CS;
    if (per_tensor && w->program->resolved->cluster->accelerator->arch == ORR_ARCH_BLACKWELL) {
        copies = orr_min_u32(copies, 1);
    }
    return plan->numeric.param_bytes == 1 && copies > 0 ? copies - 1 : copies;
}

static void add_states(const orr_weighed *w, uint32_t rank, orr_static *out) {
    const orr_plan *plan = w->plan;
    const orr_numeric *numeric = &plan->numeric;
    const elements dense = group_elements(w, rank, false), expert = group_elements(w, rank, true);
    double params_dense = param_bytes(w, dense.real, dense.linear);
    double params_expert = param_bytes(w, expert.real, expert.linear);
    double grads_dense = dense.real, grads_expert = expert.real;
    double frozen_dense = dense.frozen, frozen_expert = expert.frozen;
    if (shards_params(plan)) {
        params_dense = share(params_dense, w->dense_shards);
        params_expert = share(params_expert, w->expert_shards);
        frozen_dense = share(frozen_dense, w->dense_shards);
        frozen_expert = share(frozen_expert, w->expert_shards);
    }
    if (shards_params(plan) || plan->shard.kind == ORR_SHARD_ZERO2) {
        grads_dense = dense.state;
        grads_expert = expert.state;
    }
    /* Gradients in fp16 are scaled instead of accumulated in fp32. */
    const double accumulated =
        numeric->precision == ORR_PRECISION_FP16 ? 0 : w->software->fp32_accumulation_bytes;
    double padding = dense.buffer - dense.real + expert.buffer - expert.real;
    double *item = out->item;
    item[ORR_ITEM_PARAMS_DENSE] = params_dense;
    item[ORR_ITEM_PARAMS_EXPERT] = params_expert;
    item[ORR_ITEM_PARAMS_PADDING] = numeric->param_bytes * padding;
    item[ORR_ITEM_FROZEN_DENSE] = frozen_dense;
    item[ORR_ITEM_FROZEN_EXPERT] = frozen_expert;
    item[ORR_ITEM_GRADS_DENSE] = numeric->grad_bytes * grads_dense;
    item[ORR_ITEM_GRADS_EXPERT] = numeric->grad_bytes * grads_expert;
    item[ORR_ITEM_GRADS_PADDING] = numeric->grad_bytes * padding;
    item[ORR_ITEM_GRADS_ACCUMULATED] = floor(accumulated * (dense.real + expert.real));
    item[ORR_ITEM_MASTER_DENSE] = numeric->master_bytes * dense.state;
    item[ORR_ITEM_MASTER_EXPERT] = numeric->master_bytes * expert.state;
    item[ORR_ITEM_EXP_AVG_DENSE] = numeric->exp_avg_bytes * dense.state;
    item[ORR_ITEM_EXP_AVG_EXPERT] = numeric->exp_avg_bytes * expert.state;
    item[ORR_ITEM_EXP_AVG_SQ_DENSE] = numeric->exp_avg_sq_bytes * dense.state;
    item[ORR_ITEM_EXP_AVG_SQ_EXPERT] = numeric->exp_avg_sq_bytes * expert.state;
    double here = 1 - plan->offload.optimizer_permille / 1000.0;
    for (uint32_t i = ORR_ITEM_MASTER_DENSE; i <= ORR_ITEM_EXP_AVG_SQ_EXPERT; i++) {
        item[i] = ceil(here * item[i]);
    }
    if (shards_params(plan)) { /* the step runs where the states are: gradients follow them */
        item[ORR_ITEM_GRADS_DENSE] = ceil(here * item[ORR_ITEM_GRADS_DENSE]);
        item[ORR_ITEM_GRADS_EXPERT] = ceil(here * item[ORR_ITEM_GRADS_EXPERT]);
    }
    if (w->dense_shards > 1 && !shards_params(plan)) {
        item[ORR_ITEM_DDP_BUCKETS] =
            floor(w->software->ddp_bucket_bytes * (dense.real + expert.real));
    }
    if (!shards_params(plan)) {
        /* With sharded parameters the backward quantises again. */
        item[ORR_ITEM_FP8_COPIES] = floor(cached_copies(w) * quantised_bytes(numeric->precision) *
                                          (dense.linear + expert.linear));
    }
    out->live_grads = w->software->grads_live ? 2 * (dense.real + expert.real) : 0;

    bool copies_grads = numeric->grad_bytes < 4 && numeric->master_bytes == 4 &&
                        numeric->exp_avg_bytes == 4 && accumulated <= 0;
    double states = ceil(here * (dense.state + expert.state));
    out->optimizer_temp = (copies_grads ? 4 * states : 0) +
                          (w->software->optimizer_foreach ? numeric->exp_avg_sq_bytes * states : 0);
}

/* Buffers of parameters that are gathered unit by unit. Two-byte units: gathered
 * twice (in use, prefetched), their gradients, and two reduce-scatter inputs in the gradients'
 * format. */
static void add_units(const orr_weighed *w, uint32_t rank, orr_static *out) {
    const orr_plan *plan = w->plan;
    const orr_software *software = w->software;
    const uint32_t vpp = plan->pipe.vpp;
    const double grad = plan->numeric.grad_bytes, gathered = 2;
    /* Low-precision weights are gathered as they are kept. */
    const double unit_gathered = plan->numeric.param_bytes == 1 ? 1 : gathered;
    double unit = 0, root = 0, root_unit = 0, largest[3] = {0}, all = 0;
    double frozen_unit = 0, frozen_root = 0,
           frozen_root_unit = 0; /* bytes as they rest, gathered like the others */
    for (uint32_t c = 0; c < vpp; c++) {
        const orr_kind_bytes *kind = &w->kind[w->program->chunk[rank * vpp + c]];
        double chunk = kind->dense + kind->expert;
        frozen_unit = orr_max_f64(frozen_unit, kind->frozen_unit);
        frozen_root += kind->frozen_root;
        frozen_root_unit = orr_max_f64(frozen_root_unit, kind->frozen_root_unit);
        unit = orr_max_f64(unit, software->gathers_matrices ? kind->matrix : kind->unit);
        root += kind->root;
        root_unit = orr_max_f64(root_unit, kind->root_unit);
        all += chunk;
        chunk += (kind->frozen_dense + kind->frozen_expert) / gathered;
        for (uint32_t k = 0; k < 3; k++) {
            double lower = orr_min_f64(chunk, largest[k]);
            largest[k] = orr_max_f64(chunk, largest[k]);
            chunk = lower;
        }
    }
    if (plan->shard.kind == ORR_SHARD_ZERO2) {
        /* Gradients of one unit fill a bucket while another is reduced. */
        out->item[ORR_ITEM_FSDP_UNIT] =
            w->dense_shards > 1 ? 2 * gathered * orr_max_f64(unit, root_unit) : 0;
        return;
    }
    if (plan->pipe.pp > 1) {
        /* Stages stay gathered between micro-batches, three at most; gradients are reduced after
         * the last micro-batch only. */
        out->item[ORR_ITEM_FSDP_STAGES] = gathered * (largest[0] + largest[1] + largest[2]);
        out->item[ORR_ITEM_FSDP_GRADS] = grad * (plan->batch.micro_batches > 1 ? all : unit);
        return;
    }
    double unit_bytes = software->fsdp_unit_bytes, root_bytes = software->fsdp_root_bytes;
    if (unit_bytes <= 0) {
        unit_bytes = 2 * unit_gathered + gathered + 2 * grad;
        root_bytes = gathered + grad;
        root = root_unit; /* embedding and head are gathered where they are used */
    }
    if (software->gathers_matrices) {
        root = root_unit;
        root_bytes = gathered + grad;
    }
    if (root_bytes <= 0) { /* embedding and head are units of their own */
        unit = orr_max_f64(unit, root_unit);
        frozen_unit = orr_max_f64(frozen_unit, frozen_root_unit);
        frozen_root = 0;
    }
    /* in use and on its way; forwards and the loss hold no gradients of them */
    double forward = orr_min_f64(unit_bytes, 2 * unit_gathered);
    out->item[ORR_ITEM_FSDP_UNIT] = floor(unit_bytes * unit) + 2 * frozen_unit;
    out->away = floor(unit_bytes * unit) - floor(forward * unit);
    out->item[ORR_ITEM_FSDP_ROOT] = floor(root_bytes * root) + frozen_root;
}

/* One dummy a distinct shape, on this rank, whatever the number of layers. */
static double dummy_bytes(const orr_weighed *w, uint32_t rank) {
    const uint32_t vpp = w->plan->pipe.vpp;
    ORR_UNSET struct orr_weight_shape seen[2 * ORR_MAX_KIND_SHAPES];
    uint32_t seen_count = 0;
    uint64_t seen_kinds = 0;
    double bytes = 0;
    for (uint32_t c = 0; c < vpp; c++) {
        uint32_t index = w->program->chunk[rank * vpp + c];
        const orr_kind_bytes *kind = &w->kind[index];
        if (seen_kinds >> index & 1) {
            continue;
        }
        seen_kinds |= (uint64_t)1 << index;
        for (uint32_t i = 0; i < kind->shape_count; i++) {
            bool known = false;
            for (uint32_t k = 0; k < seen_count && !known; k++) {
                known = seen[k].rows == kind->shape[i].rows && seen[k].cols == kind->shape[i].cols;
            }
            if (!known && seen_count < 2 * ORR_MAX_KIND_SHAPES) {
                seen[seen_count++] = kind->shape[i];
                bytes += orr_memory_rounded(2.0 * kind->shape[i].rows * kind->shape[i].cols);
            }
        }
    }
    return bytes;
}

/* Grouped multiplications spread over so many streams (Transformer Engine). */
enum { GROUPED_STREAMS = 4 };

static void add_persistent(const orr_weighed *w, uint32_t rank, orr_static *out) {
    const orr_plan *plan = w->plan;
    const uint32_t vpp = plan->pipe.vpp;
    double stage_input = 0;
    bool experts = false;
    for (uint32_t c = 0; c < vpp; c++) {
        const orr_kind_bytes *kind = &w->kind[w->program->chunk[rank * vpp + c]];
        experts |= kind->expert > 0;
        out->item[ORR_ITEM_GATHER] = orr_max_f64(out->item[ORR_ITEM_GATHER], kind->gather);
        stage_input = orr_max_f64(stage_input, kind->stage_input);
    }
    /* Where parameters are sharded, recipes turn the fusion off that needs dummies. */
    if (plan->variant.dummy_wgrad && !shards_params(plan)) {
        out->item[ORR_ITEM_DUMMY_WGRAD] = dummy_bytes(w, rank);
    }
    double streams = 1 + (experts ? GROUPED_STREAMS : 0);
    out->item[ORR_ITEM_WORKSPACE] =
        orr_memory_rounded(floor(w->software->gemm_workspace_bytes)) * streams;
    /* A stage keeps a received input; overlapped transfers receive the next one, both ways. */
    bool overlapped =
        plan->pipe.p2p == ORR_P2P_OVERLAP || plan->pipe.p2p == ORR_P2P_OVERLAP_WARMUP_FLUSH;
    double received = overlapped ? 2 : rank > 0 ? 1 : 0;
    out->item[ORR_ITEM_P2P] = plan->pipe.pp > 1 ? received * stage_input : 0;
}

void orr_memory_static(const orr_weighed *w, uint32_t rank, orr_static *out) {
    *out = (orr_static){0};
    add_states(w, rank, out);
    if (shards_params(w->plan) || w->plan->shard.kind == ORR_SHARD_ZERO2) {
        add_units(w, rank, out);
    }
    add_persistent(w, rank, out);
    for (uint32_t i = 0; i < ORR_ITEM_COUNT; i++) {
        out->part[items[i].part] += out->item[i];
        out->total += out->item[i];
    }
}
