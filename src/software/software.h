/* Software profiles: what a training framework does, as physical switches and a few numbers.
 *
 * No framework name appears in code. Switches choose op variants and their saved tensors, numbers
 * are times and shares; every value in a data file says where it comes from (code, documentation,
 * fitted), and a value without evidence counts as a fitted parameter. docs/software-profile.md.
 */
#ifndef ORR_SOFTWARE_H
#define ORR_SOFTWARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "orrery/status.h"
#include "orrery/tree.h"

typedef enum orr_attention_kernel {
    ORR_KERNEL_FLASH = 0,
    ORR_KERNEL_UNFUSED = 1,   /* batched GEMMs around a fused softmax */
    ORR_KERNEL_EAGER = 2,     /* plain framework ops */
    ORR_KERNEL_EAGER_FP32 = 3 /* the same with an fp32 softmax, cast back */
} orr_attention_kernel;
/* Copies of the logits that a loss keeps. */
typedef enum orr_loss_kernel {
    ORR_LOSS_NATIVE = 0, /* vocabulary-parallel, fp32 softmax saved */
    ORR_LOSS_TE = 1,     /* gradient written in place into bf16 logits */
    ORR_LOSS_FUSED = 2,  /* chunked linear cross-entropy: no logits kept */
    ORR_LOSS_EAGER = 3,  /* cross_entropy(logits.float()) */
    ORR_LOSS_EAGER_BF16 = 4
} orr_loss_kernel;
typedef enum orr_placement {
    ORR_PLACE_EVEN = 0,
    ORR_PLACE_SLOTS = 1,     /* embedding and loss count as layers where L does not divide */
    ORR_PLACE_COST_WALK = 2, /* blocks by cumulative compute cost (nanotron) */
    ORR_PLACE_BALANCED = 3,  /* slots where those divide, else min-max with head and MTP */
    ORR_PLACE_SPREAD = 4     /* embedding and head always count as layers; the first stages take
                                the remainder */
} orr_placement;
/* Launches that a framework refuses; bits. */
typedef enum orr_refusal {
    ORR_REFUSES_M_BELOW_PP_LESS_1 = 1 << 0, /* "m-below-pp-less-1": micro-batches < pp - 1 */
    ORR_REFUSES_M_BELOW_PP = 1 << 1,        /* "m-below-pp": micro-batches < pp */
    ORR_REFUSES_FSDP_PP = 1 << 2,           /* "fsdp-pp": sharded parameters and pp > 1 */
    ORR_REFUSES_FSDP_EP = 1 << 3,           /* "fsdp-ep": sharded parameters and ep > 1 */
    ORR_REFUSES_ZERO2_PP = 1 << 4,          /* "zero2-pp": sharded gradients and pp > 1 */
    ORR_REFUSES_MOE_TP_NO_SP = 1 << 5,      /* "moe-tp-no-sp": MoE, tp > 1, sp off */
    ORR_REFUSES_VPP = 1 << 6,               /* "vpp": has no virtual stages */
    ORR_REFUSES_CP = 1 << 7,                /* "cp": has no context parallelism */
    ORR_REFUSES_EP = 1 << 8,                /* "ep": has no expert parallelism */
    ORR_REFUSES_FSDP2_EP = 1 << 9           /* "fsdp2-ep": PyTorch's FSDP2 and ep > 1 */
} orr_refusal;
typedef enum orr_graphs {
    ORR_GRAPHS_NONE = 0,
    ORR_GRAPHS_PARTIAL = 1, /* attention and routing; experts are launched by the host */
    ORR_GRAPHS_FULL = 2     /* a whole iteration: host cost vanishes */
} orr_graphs;
typedef enum orr_memory_figure {
    ORR_ALLOCATED = 0,
    ORR_RESERVED = 1,
    ORR_DEVICE = 2
} orr_memory_figure;
typedef enum orr_dispatch {
    ORR_DISPATCH_ALLTOALL = 0,
    ORR_DISPATCH_ALLGATHER,
    ORR_DISPATCH_DEEPEP,
    ORR_DISPATCH_SYNC_FREE_1,
    ORR_DISPATCH_SYNC_FREE_2,
    ORR_DISPATCH_SYNC_FREE_3
} orr_dispatch;

enum { ORR_LOW_FORWARD = 2 }; /* of fp8_attention below */

/* Which variant of each op runs: part of every object's key. Plain, zero-padded. */
typedef struct orr_variant {
    uint8_t attention;        /* orr_attention_kernel */
    uint8_t loss;             /* orr_loss_kernel */
    uint8_t loss_gathered;    /* logits are gathered over TP: nothing is divided by t */
    uint8_t fused_norm;       /* else the fp32 chain of an eager norm */
    uint8_t fused_activation; /* gated product fused: 6 bytes an element kept, else 8 */
    uint8_t fused_rope;
    uint8_t hidden_dropout, attention_dropout; /* training with dropout on */
    uint8_t qkv_copy;                          /* one more contiguous copy of QKV is kept */
    uint8_t fused_permute;                     /* MoE permutation kernels */
    uint8_t probs_in_activation;               /* MoE probabilities applied before fc2 */
    uint8_t grad_fp32;                         /* main gradients are fp32 */
    uint8_t fused_grad_accumulation; /* the weight-gradient GEMM adds into the main gradient */
    uint8_t dispatch;                /* orr_dispatch */
    uint8_t fp8_copies;              /* cached fp8 weight copies: 0, 1 (row), 2 (row, column) */
    uint8_t dummy_wgrad;    /* one bf16 weight-gradient dummy a distinct shape stays (TE fusion) */
    uint8_t activation_fp8; /* the activation's input is kept in fp8 */
    uint8_t vocab_unpadded; /* else the vocabulary is padded to a multiple of 128 x tp */
    uint8_t separate_projections; /* q, k, v and gate, up are products of their own */
    uint8_t capacity; /* of a plan: experts' rows are padded to a capacity, the rest dropped */
    uint8_t einsum_dispatch; /* tokens reach padded experts through products with one-hot masks */
    uint8_t static_rows;     /* shapes are compiled: dropless experts work in worst-case buffers */
    uint8_t norm_square;     /* an eager RMSNorm keeps the fp32 square as well (PyTorch 1) */
    uint8_t recompute_stops; /* a recomputation ends with the last tensor that the backward needs */
    uint8_t fused_casts;     /* quantising is part of the kernel that makes the values */
    uint8_t expert_tp_by_width; /* expert TP cuts rows: a pass puts the pieces side by side */
    uint8_t eager_expert_bias;  /* biases of experts' outputs are weighed and added in fp32 */
    uint8_t fp8_attention;  /* of a plan: fused attention runs in the 8-bit format of its recipe; 2:
                               its backward in 16 bits */
    uint8_t scattered_sums; /* gathers of expert rows whose gradients are added one by one */
} orr_variant;

/* Fields named _frac are shares, _s seconds, _bytes bytes; see the schema's docs (help software).
 */
typedef struct orr_software {
    const char *name; /* "megatron-core" */
    const char *source;
    orr_variant variant;         /* defaults; a plan may override attention, loss, dispatch ... */
    uint8_t placement;           /* orr_placement */
    uint8_t figure;              /* orr_memory_figure its logs print */
    uint8_t sequence_parallel;   /* default where tp > 1 */
    uint8_t interleaved_default; /* blank vpp with pp > 1 means one layer a chunk */
    uint8_t p2p_overlap;         /* interleaved schedules overlap p2p */
    uint8_t p2p_scatter;         /* TP ranks send a share of the activation each and gather it */
    uint8_t dp_overlap_grads, dp_overlap_params;
    uint8_t dp_overlap_unsharded;  /* plain all-reduces overlap where sharded ones do not */
    uint8_t post_validation;       /* zero-bubble steps begin before all ranks have ended */
    uint8_t graphs;                /* orr_graphs */
    uint8_t grads_live;            /* parameter gradients persist: memory moment D */
    uint8_t optimizer_foreach;     /* temporaries of a whole shard at the step */
    uint8_t gathers_matrices;      /* sharded parameters are gathered weight by weight */
    uint8_t blackwell_unfused_mla; /* no fused attention trains keys wider than values there */
    uint8_t param_bytes;           /* resident parameter: 2, or 4 for fp32 shards */
    uint8_t known;                 /* 0: the default for unknown software, wide intervals */
    uint8_t assumed;
    uint8_t default_sharding; /* orr_sharding of plan.h when a plan does not say */
    uint32_t nccl_minor;      /* of NCCL 2; 0: not known */
    uint32_t refuses;         /* orr_refusal bits */
    uint32_t schedules;       /* that it has: orr_software_has_schedule */
    /* time */
    double tp_overlap_fwd_frac, tp_overlap_bwd_frac; /* TP communication hidden */
    double cp_exposed_min_frac;
    double ep_overlap_frac;    /* of the all-to-all that may hide, when overlap says so */
    double fsdp_slowdown_frac; /* compute lost while collectives run; 0: unharmed */
    double dp_window_frac;     /* share of one micro-batch's backward that hides gradients */
    double dp_exposed_min_frac;
    double gemm_factor; /* on GEMM time, by the tuned libraries that architectures are fitted to */
    double memop_efficiency_frac;           /* of HBM bandwidth */
    double attention_efficiency_frac;       /* 0: the architecture's calibrated one */
    double attention_new_arch_frac;         /* of it, on architectures after the kernel's own */
    double attention_narrow_frac;           /* of it, heads below 80; 0: the architecture's */
    double attention_grouped_backward_frac; /* of it, backward, query heads sharing keys */
    double norm_eager_fwd_bytes, norm_eager_bwd_bytes; /* traffic per element of an eager norm */
    double host_fwd_s, host_bwd_s;                     /* floor of one layer, launch-bound */
    double host_moe_fwd_s, host_moe_bwd_s;
    double graph_partial_frac;                 /* of the host floors left when graphs is 1 */
    double host_pp_tp_fwd_s, host_pp_tp_bwd_s; /* per layer x tp, in a full pipeline over nodes */
    double step_s;                             /* per step */
    double optimizer_shard_bytes;              /* step traffic per parameter of the local shard */
    double optimizer_local_bytes;              /* and per local parameter (norm, zeroing) */
    double gather_copy_bytes;   /* copies around a gather of shards, per local parameter */
    double reduce_bucket_bytes; /* of parameters, that one reduction covers; 0: a chunk at once */
    double accumulate_bytes;    /* unfused accumulation, per parameter and micro-batch */
    double grad_wire_bytes;     /* reduced bytes per parameter; 0: the gradient's own size */
    double straggler_frac;      /* one sd between ranks, of a step */
    double
        straggler_each_frac; /* the same of a micro-batch, where lags of one are not the next's */
    double p2p_factor;       /* multiplies the time of a blocking hop */
    double nic_efficiency_frac; /* 0: the fabric's */
    double tp_fixed_s;          /* added to every TP collective */
    /* memory */
    double ddp_bucket_bytes;        /* flat buckets per parameter when dp > 1 */
    double fp32_accumulation_bytes; /* unsharded fp32 copy per parameter */
    double loss_fwd_bytes, loss_bwd_bytes, loss_previous_bytes; /* per logit; 0: by the kernel */
    double loss_cut_bytes;                       /* more of both where TP cuts the vocabulary */
    double fsdp_unit_bytes, fsdp_root_bytes;     /* gathered buffers per parameter of unit / root */
    double dynamic_factor;                       /* reserved / allocated of what is not static */
    double unsharded_nh_bytes;                   /* per token and hidden x (1 - 1/t) */
    double need_factor, need_unsharded_nh_bytes; /* the same two for the verdict */
    double device_overhead_bytes;                /* outside the allocator */
    double gemm_workspace_bytes;                 /* inside it, one a stream that multiplies */
    double oom_slope;                            /* P(OOM): logistic slope in ln(need / capacity) */
    double oom_slope_stated, oom_slope_guessed;  /* with everything stated, with guesses */
    double oom_half_frac;                        /* need / capacity at which P is one half */
    /* half width of the 90 % interval of throughput: by kind, and for scaling a measured run */
    double interval_dense_frac, interval_moe_frac, interval_anchored_frac;
    double interval_host_frac;  /* by how much more a host may need than its floors say */
    uint32_t fitted_parameters; /* how many values above are fitted, by their own evidence */
    const orr_tree *evidence;   /* map: stated field to {value, evidence, note} */
} orr_software;

/* A profile file has the sections variant, switches, time and memory. A field is a plain value, or
 * {value, evidence: code|documentation|measured|fitted|assumed, note}; `like: NAME` starts from
 * another profile. */
orr_status orr_software_read(orr_arena *arena, const orr_tree *file, const char *fallback_name,
                             orr_software **out, orr_err *err);
orr_status orr_software_find(orr_arena *arena, const char *name, orr_software **out, orr_err *err);
/* A number of a profile by its name, for fitting; NULL when there is none. */
double *orr_software_number(orr_software *software, const char *name);
/* A stated number of the time section that neither code nor document nor measurement backs, and
 * that is not neutral: a free parameter. Its value goes to *value. Intervals are none. */
bool orr_software_is_free(const orr_software *software, const char *name, double *value);
orr_tree *orr_software_catalog(orr_arena *arena);
orr_tree *orr_software_write(orr_arena *arena, const orr_software *software);

/* Whether it has the schedule of the name, as in schedule.h; a profile that states none has all. */
bool orr_software_has_schedule(const orr_software *software, const char *name);

#endif
