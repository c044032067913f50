/* The fields of a software profile: four tables over one struct. */
#include "software/software_int.h"

#include <stddef.h>
#include <string.h>

static const char *const attention_words[] = {"flash", "unfused", "eager", "eager_fp32", NULL};
static const char *const loss_words[] = {"native", "te", "fused", "eager", "eager_bf16", NULL};
static const char *const dispatch_words[] = {"alltoall",    "allgather",   "deepep", "sync-free-1",
                                             "sync-free-2", "sync-free-3", NULL};
static const char *const copies_words[] = {"none", "row", "row_and_column", NULL};
static const char *const sums_words[] = {"none", "one", "two", NULL};
static const char *const placement_words[] = {"even",     "slots",  "cost_walk",
                                              "balanced", "spread", NULL};
static const char *const figure_words[] = {"allocated", "reserved", "device", NULL};
static const char *const graph_words[] = {"none", "partial", "full_iteration", NULL};
static const char *const bytes_words[] = {"0", "1", "2", "3", "4", NULL};
/* Values as in plan.h, which stands above this module. */
static const char *const sharding_words[] = {"none",  "zero1", "zero2", "zero3",
                                             "fsdp2", "hsdp",  NULL};
static const char *const refusal_words[] = {"m-below-pp-less-1",
                                            "m-below-pp",
                                            "fsdp-pp",
                                            "fsdp-ep",
                                            "zero2-pp",
                                            "moe-tp-no-sp",
                                            "vpp",
                                            "cp",
                                            "ep",
                                            "fsdp2-ep",
                                            NULL};
/* Bits of `schedules`; names as in schedule.h, which stands beside this module. */
static const char *const schedule_words[] = {
    "gpipe", "1f1b",   "interleaved", "zb-h1",    "zb-h2",     "zb-1p", "zb-2p",
    "zbv",   "v-half", "v-min",       "dualpipe", "dualpipev", NULL};

bool orr_software_has_schedule(const orr_software *software, const char *name) {
    for (int i = 0; schedule_words[i] != NULL; i++) {
        if (strcmp(schedule_words[i], name) == 0) {
            return software->schedules == 0 || (software->schedules >> i & 1) != 0;
        }
    }
    return false;
}

#define FLAG(name_, member_, doc_)                                                                 \
    {.name = name_,                                                                                \
     .type = ORR_FIELD_BOOL,                                                                       \
     .offset = offsetof(orr_software, member_),                                                    \
     .fallback = "no",                                                                             \
     .doc = doc_}
#define WORD(name_, member_, values_, fallback_, doc_)                                             \
    {.name = name_,                                                                                \
     .type = ORR_FIELD_ENUM,                                                                       \
     .offset = offsetof(orr_software, member_),                                                    \
     .values = values_,                                                                            \
     .fallback = fallback_,                                                                        \
     .doc = doc_}
#define REAL(name_, max_, fallback_, doc_)                                                         \
    {.name = #name_,                                                                               \
     .type = ORR_FIELD_REAL,                                                                       \
     .offset = offsetof(orr_software, name_),                                                      \
     .max = max_,                                                                                  \
     .fallback = fallback_,                                                                        \
     .doc = doc_}
#define SECONDS(name_, doc_)                                                                       \
    {.name = #name_,                                                                               \
     .type = ORR_FIELD_QUANTITY,                                                                   \
     .offset = offsetof(orr_software, name_),                                                      \
     .max = 100,                                                                                   \
     .unit = "s",                                                                                  \
     .fallback = "0",                                                                              \
     .doc = doc_}
#define BYTES(name_, fallback_, doc_)                                                              \
    {.name = #name_,                                                                               \
     .type = ORR_FIELD_QUANTITY,                                                                   \
     .offset = offsetof(orr_software, name_),                                                      \
     .max = 1e13,                                                                                  \
     .unit = "bytes",                                                                              \
     .fallback = fallback_,                                                                        \
     .doc = doc_}

static const orr_field variant_fields[] = {
    WORD("attention", variant.attention, attention_words, "flash", "Attention kernel."),
    WORD("loss", variant.loss, loss_words, "native",
         "Loss kernel: which copies of the logits live."),
    FLAG("loss_gathered", variant.loss_gathered, "Logits are gathered over TP."),
    FLAG("fused_norm", variant.fused_norm, "Norms are one kernel."),
    FLAG("fused_activation", variant.fused_activation,
         "The gated product is fused: 6 bytes an element kept, else 8."),
    FLAG("fused_rope", variant.fused_rope, "Rotary positions are one kernel."),
    FLAG("hidden_dropout", variant.hidden_dropout, "Trains with dropout on hidden states."),
    FLAG("attention_dropout", variant.attention_dropout, "Trains with dropout on attention."),
    FLAG("qkv_copy", variant.qkv_copy, "One more contiguous copy of Q, K and V is kept."),
    FLAG("fused_permute", variant.fused_permute, "MoE permutation kernels are fused."),
    FLAG("einsum_dispatch", variant.einsum_dispatch,
         "Tokens reach padded experts through products with one-hot masks."),
    FLAG("static_rows", variant.static_rows,
         "Shapes are compiled: without a capacity, experts work in buffers for the worst case."),
    FLAG("recompute_stops", variant.recompute_stops,
         "A recomputation ends with the last tensor that the backward needs, before the last "
         "product of a layer."),
    FLAG("fused_casts", variant.fused_casts,
         "Inputs are quantised by the kernel that makes them: their 16-bit values are not read."),
    FLAG(
        "expert_tp_by_width", variant.expert_tp_by_width,
        "Between ranks of expert TP each row is cut along its width: a pass over what was gathered "
        "puts the pieces side by side, another takes them apart."),
    WORD("scattered_sums", variant.scattered_sums, sums_words, "none",
         "Gathers that bring tokens into the order of experts and whose gradients are added row by "
         "row in memory."),
    FLAG("eager_expert_bias", variant.eager_expert_bias,
         "Experts' output biases are weighed by the routing and added by separate operations in "
         "fp32."),
    FLAG("probs_in_activation", variant.probs_in_activation,
         "MoE probabilities are applied before the second matmul."),
    FLAG("grad_fp32", variant.grad_fp32, "Main gradients are fp32."),
    FLAG("fused_grad_accumulation", variant.fused_grad_accumulation,
         "The weight-gradient matmul adds into the main gradient."),
    WORD("dispatch", variant.dispatch, dispatch_words, "alltoall", "MoE token dispatch."),
    WORD("fp8_copies", variant.fp8_copies, copies_words, "row_and_column",
         "fp8 weight copies that are cached under fp8 training."),
    FLAG("dummy_wgrad", variant.dummy_wgrad,
         "A bf16 weight-gradient dummy a distinct shape stays allocated."),
    FLAG("activation_fp8", variant.activation_fp8, "The activation's input is kept in fp8."),
    FLAG("norm_square", variant.norm_square,
         "An eager RMSNorm keeps its fp32 square too, as under PyTorch 1."),
    FLAG("vocab_unpadded", variant.vocab_unpadded, "The vocabulary is not padded."),
    FLAG("separate_projections", variant.separate_projections,
         "Q, K, V and gate, up are matmuls of their own."),
};

static const orr_field switch_fields[] = {
    WORD("placement", placement, placement_words, "even", "How layers are put on stages."),
    WORD("figure", figure, figure_words, "allocated", "Which memory figure its logs print."),
    FLAG("sequence_parallel", sequence_parallel, "Default where tp > 1."),
    FLAG("interleaved_default", interleaved_default,
         "Not stating virtual stages means one layer a chunk."),
    FLAG("p2p_overlap", p2p_overlap, "Interleaved schedules overlap their sends."),
    FLAG("p2p_scatter", p2p_scatter,
         "TP ranks send a share of an activation each and gather it on arrival."),
    FLAG("dp_overlap_grads", dp_overlap_grads, "Gradient reduction runs under the backward."),
    FLAG("dp_overlap_unsharded", dp_overlap_unsharded,
         "Gradients of unsharded data parallelism are reduced under the backward, whatever "
         "dp_overlap_grads says."),
    FLAG("dp_overlap_params", dp_overlap_params, "Parameter gathers run under the forward."),
    FLAG("post_validation", post_validation,
         "Under zb-h2 and zb-2p, whose ranks end one after another, a rank's optimizer steps at "
         "once and is checked later: a step lasts as long as the longest rank, not until the last "
         "one ends."),
    WORD("graphs", graphs, graph_words, "none", "CUDA graphs: they take the host cost away."),
    {.name = "nccl_minor",
     .type = ORR_FIELD_U32,
     .offset = offsetof(orr_software, nccl_minor),
     .max = 999,
     .fallback = "0",
     .doc = "Minor version of NCCL 2 that it runs with, from which algorithms follow (NVLSTree 18, "
            "PAT 23); 0: not known."},
    FLAG("grads_live", grads_live, "Parameter gradients persist beside the main ones."),
    FLAG("optimizer_foreach", optimizer_foreach, "Temporaries of a whole shard at the step."),
    FLAG("blackwell_unfused_mla", blackwell_unfused_mla,
         "On Blackwell no fused attention trains keys that are wider than values: scores are "
         "written out."),
    FLAG("gathers_matrices", gathers_matrices,
         "Sharded parameters are gathered and reduced weight by weight, not layer by layer."),
    WORD("param_bytes", param_bytes, bytes_words, "2",
         "Bytes of a resident parameter; 1: fp8 weights under fp8 precisions, else 2."),
    WORD("default_sharding", default_sharding, sharding_words, "zero1",
         "Sharding when a plan does not say."),
    {.name = "refuses",
     .type = ORR_FIELD_FLAGS,
     .offset = offsetof(orr_software, refuses),
     .values = refusal_words,
     .fallback = "",
     .doc = "Launches that it refuses."},
    {.name = "schedules",
     .type = ORR_FIELD_FLAGS,
     .offset = offsetof(orr_software, schedules),
     .values = schedule_words,
     .fallback = "",
     .doc = "Pipeline schedules that it has, which a search takes; none: all."},
};

static const orr_field time_fields[] = {
    REAL(tp_overlap_fwd_frac, 1, "0", "TP communication hidden in the forward."),
    REAL(tp_overlap_bwd_frac, 1, "0", "TP communication hidden in the backward."),
    REAL(cp_exposed_min_frac, 1, "0", "CP communication that always shows."),
    REAL(ep_overlap_frac, 1, "0", "All-to-all hidden where EP overlap is on."),
    REAL(fsdp_slowdown_frac, 1, "0", "Compute lost while collectives run; 0: unharmed."),
    REAL(dp_window_frac, 1, "0", "Share of one micro-batch's backward that hides gradients."),
    REAL(dp_exposed_min_frac, 1, "0", "DP communication that always shows."),
    REAL(gemm_factor, 4, "1",
         "GEMM time by that of the tuned libraries that architectures are fitted to."),
    REAL(memop_efficiency_frac, 1, "0",
         "Share of HBM bandwidth of memory-bound kernels; 0: as calibrated for the architecture."),
    REAL(attention_efficiency_frac, 1, "0",
         "Share of peak of fused attention; 0: as calibrated for the architecture."),
    REAL(attention_narrow_frac, 2, "0",
         "Share of that which heads narrower than 80 reach; 0: as calibrated."),
    REAL(attention_grouped_backward_frac, 1, "1",
         "Share of its usual speed that the backward keeps where query heads share keys."),
    REAL(attention_new_arch_frac, 1, "1",
         "Share of it left on Hopper and later, for kernels that were written for Ampere."),
    BYTES(norm_eager_fwd_bytes, "0", "Traffic an element of an eager norm, forward; 0: the usual."),
    BYTES(norm_eager_bwd_bytes, "0", "The same backward; 0: 1.4 times the forward's."),
    SECONDS(host_fwd_s, "Host time of a layer, forward: the step is never faster."),
    SECONDS(host_bwd_s, "Host time of a layer, backward."),
    SECONDS(host_moe_fwd_s, "Host time of an MoE layer, forward."),
    SECONDS(host_moe_bwd_s, "Host time of an MoE layer, backward."),
    REAL(graph_partial_frac, 1, "0.82", "Share of the host time that partial graphs leave."),
    SECONDS(
        host_pp_tp_fwd_s,
        "More of it per layer and TP rank while a pipeline over several nodes is full, tp > 1."),
    SECONDS(host_pp_tp_bwd_s, "The same, backward."),
    SECONDS(step_s, "Constant of a step."),
    BYTES(optimizer_shard_bytes, "0", "Traffic of the step per parameter of the local shard."),
    BYTES(optimizer_local_bytes, "0", "And per local parameter: norm, zeroing."),
    BYTES(gather_copy_bytes, "0",
          "Traffic of copies into and out of the buffers of a parameter gather, per local "
          "parameter."),
    BYTES(reduce_bucket_bytes, "0",
          "Bytes of 16-bit gradients that one reduction of plain data parallelism covers; 0: those "
          "of a chunk."),
    BYTES(accumulate_bytes, "0", "Unfused accumulation, per parameter and micro-batch."),
    BYTES(grad_wire_bytes, "0", "Reduced bytes per parameter; 0: the gradient's own size."),
    REAL(straggler_frac, 1, "0", "Standard deviation between ranks: all wait for the slowest."),
    REAL(straggler_each_frac, 2, "0",
         "The same of single micro-batches, whose lags average over those of a step."),
    REAL(p2p_factor, 10, "1", "Multiplies the time of a blocking hop."),
    REAL(nic_efficiency_frac, 2, "0", "Share of the NIC line rate; 0: the fabric's."),
    SECONDS(tp_fixed_s, "Added to every TP collective."),
    REAL(interval_dense_frac, 2, "0.2", "Half width of the 90 % interval, dense models."),
    REAL(interval_moe_frac, 2, "0.3", "Half width of the 90 % interval, MoE models."),
    REAL(interval_anchored_frac, 2, "0.06", "Half width when a measured run is scaled."),
    REAL(
        interval_host_frac, 100, "0",
        "How much longer than its floors a host may take: the lower end of an interval allows it."),
};

static const orr_field memory_fields[] = {
    BYTES(ddp_bucket_bytes, "0", "Flat buckets per parameter when dp > 1."),
    BYTES(fp32_accumulation_bytes, "0", "Unsharded fp32 gradient copy per parameter."),
    BYTES(loss_fwd_bytes, "0", "Per logit at the end of the forward; 0: by the kernel."),
    BYTES(loss_bwd_bytes, "0", "Per logit at the start of the backward; 0: by the kernel."),
    BYTES(loss_previous_bytes, "0", "Per logit of the previous micro-batch, still referenced."),
    BYTES(loss_cut_bytes, "0", "Per logit more where TP cuts the vocabulary."),
    BYTES(fsdp_unit_bytes, "0",
          "Gathered buffers per parameter of the largest unit; 0: by the number formats."),
    BYTES(fsdp_root_bytes, "0",
          "Gathered buffers per parameter of embedding and head; 0: they are units."),
    REAL(dynamic_factor, 4, "1", "Reserved over allocated, of what is not static."),
    BYTES(unsharded_nh_bytes, "0", "Reserved per token and hidden element x (1 - 1/tp)."),
    REAL(need_factor, 4, "1", "The factor on what is not static, for the verdict."),
    BYTES(need_unsharded_nh_bytes, "0", "The unsharded bytes, for the verdict."),
    BYTES(device_overhead_bytes, "0", "Outside the allocator: context, NCCL, libraries."),
    BYTES(gemm_workspace_bytes, "0", "Inside it, one for each stream that multiplies matrices."),
    REAL(oom_slope, 1000, "17", "Slope of P(OOM) in the logarithm of need / capacity."),
    REAL(oom_slope_stated, 1000, "0",
         "The same where the plan states all that decides memory; 0: no steeper."),
    REAL(oom_slope_guessed, 1000, "8",
         "The same where recompute or the software itself is guessed."),
    REAL(oom_half_frac, 4, "0.94", "Need / capacity at which P(OOM) is one half."),
};

static const orr_field head_fields[] = {
    {.name = "name",
     .type = ORR_FIELD_TEXT,
     .offset = offsetof(orr_software, name),
     .fallback = "",
     .doc = "Catalog name."},
    {.name = "source",
     .type = ORR_FIELD_TEXT,
     .offset = offsetof(orr_software, source),
     .fallback = "",
     .doc = "Where the profile comes from."},
    {.name = "known",
     .type = ORR_FIELD_BOOL,
     .offset = offsetof(orr_software, known),
     .fallback = "yes",
     .doc = "No: stands in for software without a profile; wide intervals."},
    {.name = "assumed",
     .type = ORR_FIELD_BOOL,
     .offset = offsetof(orr_software, assumed),
     .fallback = "no",
     .doc = "Too few runs behind it: intervals widen."},
};

#define SCHEMA(title_, fields_) {title_, fields_, sizeof fields_ / sizeof *fields_, false}
const orr_schema orr_software_sections[ORR_SECTION_COUNT] = {
    SCHEMA("software profile", head_fields),
    SCHEMA("variant of the software profile", variant_fields),
    SCHEMA("switches of the software profile", switch_fields),
    SCHEMA("time of the software profile", time_fields),
    SCHEMA("memory of the software profile", memory_fields),
};
const char *const orr_software_section_names[ORR_SECTION_COUNT] = {"", "variant", "switches",
                                                                   "time", "memory"};
