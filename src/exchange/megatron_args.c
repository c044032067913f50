/* The arguments of Megatron-LM that decide size, layout, speed or memory.
 *
 * Names, kinds and defaults: megatron/training/arguments.py and the configuration classes it reads,
 * of releases v2.5 to core_v0.19 and main of August 2026. Where releases differ, the newer default
 * stands and the note says so. A row with "of" sets another argument: old spellings and negations.
 */
#include <string.h>

#include "exchange/exchange_int.h"

#define FLAG(name, note) {name, MEGATRON_FLAG, NULL, NULL, "false", NULL, note}
#define ON(name, note) {name, MEGATRON_FLAG, NULL, NULL, "true", NULL, note}
#define SETS(name, of, value) {name, MEGATRON_FLAG, of, value, NULL, NULL, NULL}
#define SAME(name, of, kind) {name, kind, of, NULL, NULL, NULL, NULL}
#define INT(name, fallback, target, note) {name, MEGATRON_INT, NULL, NULL, fallback, target, note}
#define REAL(name, fallback, note) {name, MEGATRON_REAL, NULL, NULL, fallback, NULL, note}
#define TEXT(name, fallback, note) {name, MEGATRON_TEXT, NULL, NULL, fallback, NULL, note}
#define LIST(name, fallback, note) {name, MEGATRON_LIST, NULL, NULL, fallback, NULL, note}

const megatron_arg orr_megatron_args[] = {
    /* size of the model */
    INT("num-layers", NULL, "model.layers", NULL),
    SAME("decoder-num-layers", "num-layers", MEGATRON_INT),
    INT("hidden-size", NULL, "model.hidden", NULL),
    INT("num-attention-heads", NULL, "model.heads", NULL),
    INT("ffn-hidden-size", NULL, NULL, "4 x hidden; gated: two thirds of it, down to 64"),
    INT("kv-channels", NULL, NULL, "width of a head; hidden / heads"),
    FLAG("group-query-attention", "else num-query-groups is ignored"),
    INT("num-query-groups", "1", NULL, "key and value heads"),
    INT("max-position-embeddings", NULL, "model.max_seq", "rows of a learned position table"),
    INT("vocab-size", NULL, NULL, "else the tokenizer's"),
    INT("padded-vocab-size", NULL, NULL, "rows as they are, padding included"),
    INT("make-vocab-size-divisible-by", "128", NULL, "rows are padded to this x tp"),
    TEXT("tokenizer-type", NULL, "implies a vocabulary"),
    TEXT("tokenizer-model", NULL, "implies a vocabulary"),
    TEXT("normalization", "LayerNorm", "LayerNorm or RMSNorm"),
    FLAG("swiglu", "gated SiLU"),
    TEXT("activation-func", NULL, "of YAML files: gelu, swiglu, squaredrelu"),
    FLAG("squared-relu", NULL),
    FLAG("quick-geglu", "gated GELU"),
    FLAG("openai-gelu", NULL),
    TEXT("position-embedding-type", "learned_absolute", NULL),
    SETS("use-rotary-position-embeddings", "position-embedding-type", "rope"),
    SETS("no-position-embedding", "position-embedding-type", "none"),
    FLAG("untie-embeddings-and-output-weights", "tied by default"),
    ON("add-bias-linear", "biases of all linear layers"),
    SETS("disable-bias-linear", "add-bias-linear", "false"),
    FLAG("add-qkv-bias", "where linear layers have none"),
    FLAG("qk-layernorm", NULL),
    INT("mtp-num-layers", NULL, "model.mtp_layers", "multi-token-prediction depths"),
    TEXT("window-size", NULL, "tokens to the left, and to the right"),
    TEXT("window-attn-skip-freq", NULL, "N: every N-th layer sees all; or a list, 1: windowed"),
    TEXT("hybrid-layer-pattern", NULL, "!hybrid stacks; decides the layers"),
    SAME("hybrid-override-pattern", "hybrid-layer-pattern", MEGATRON_TEXT),
    TEXT("linear-attention-freq", NULL, "!linear attention"),
    TEXT("experimental-attention-variant", NULL, "!another attention"),
    TEXT("heterogeneous-layers-config-path", NULL, "!layers differ, described in another file"),
    TEXT("heterogeneous-layers-config-encoded-json", NULL, "!layers differ"),
    FLAG("enable-mhc-connections", "!several residual streams"),
    FLAG("attention-output-gate", "a gate on the attention output"),
    TEXT("softmax-type", "vanilla", "learnable: attention sinks"),
    TEXT("spec", NULL, "!layers come from a module of the user's"),
    TEXT("yaml-cfg", NULL, "!arguments come from another file"),
    FLAG("use-checkpoint-args", "!arguments come from a checkpoint"),
    FLAG("use-mp-args-from-checkpoint-args", "!parallel sizes come from a checkpoint"),
    /* mixture of experts */
    INT("num-experts", NULL, NULL, NULL),
    SAME("num-moe-experts", "num-experts", MEGATRON_INT),
    INT("moe-router-topk", "2", NULL, NULL),
    INT("moe-ffn-hidden-size", NULL, NULL, "ffn-hidden-size when absent"),
    INT("moe-shared-expert-intermediate-size", NULL, NULL, "all shared experts together"),
    FLAG("moe-shared-expert-gate", "a gate on the shared expert"),
    TEXT("moe-layer-freq", "1", "N: every N-th layer; or a list of 0 and 1"),
    TEXT("moe-router-score-function", "softmax", NULL),
    FLAG("moe-router-pre-softmax", "softmax before the choice of experts"),
    FLAG("moe-router-enable-expert-bias", NULL),
    INT("moe-router-num-groups", NULL, NULL, "group-limited routing"),
    INT("moe-router-group-topk", NULL, NULL, "group-limited routing"),
    TEXT("moe-token-dispatcher-type", "allgather", "allgather, alltoall, flex"),
    TEXT("moe-flex-dispatcher-backend", "deepep", "of flex"),
    FLAG("moe-enable-deepep", NULL),
    FLAG("moe-grouped-gemm", "one kernel for all local experts"),
    FLAG("moe-use-legacy-grouped-gemm", "!another grouped GEMM kernel"),
    FLAG("moe-permute-fusion", NULL),
    FLAG("moe-router-fusion", NULL),
    FLAG("moe-shared-expert-overlap", "!the shared expert beside the all-to-all"),
    FLAG("moe-layer-recompute", "recomputes the whole MoE layer"),
    FLAG("moe-extended-tp", "!experts split over tp x ep"),
    REAL("moe-expert-capacity-factor", NULL, "drops tokens beyond a capacity"),
    FLAG("moe-pad-expert-input-to-capacity", "static expert shapes"),
    FLAG("moe-router-force-load-balancing", "random, balanced routing"),
    INT("moe-latent-size", NULL, NULL, "experts work in this width"),
    REAL("moe-expert-rank-capacity-factor", NULL, "!drops tokens beyond a capacity"),
    FLAG("moe-paged-stash", "!activations of experts in pages"),
    /* latent attention */
    FLAG("multi-latent-attention", NULL),
    INT("q-lora-rank", NULL, NULL, "none: queries are not compressed"),
    INT("kv-lora-rank", "32", NULL, NULL),
    INT("qk-head-dim", "128", NULL, NULL),
    INT("qk-pos-emb-head-dim", "64", NULL, NULL),
    INT("v-head-dim", "128", NULL, NULL),
    FLAG("mla-down-proj-fusion", "!one down-projection for queries and keys"),
    /* parallelism */
    INT("tensor-model-parallel-size", "1", "tp", NULL),
    SAME("model-parallel-size", "tensor-model-parallel-size", MEGATRON_INT),
    INT("pipeline-model-parallel-size", "1", "pp", NULL),
    INT("context-parallel-size", "1", "cp", NULL),
    INT("expert-model-parallel-size", "1", NULL, NULL),
    INT("expert-tensor-parallel-size", NULL, NULL, "tp when absent"),
    FLAG("sequence-parallel", "off unless given"),
    INT("num-layers-per-virtual-pipeline-stage", NULL, NULL, "layers of a virtual stage"),
    INT("num-virtual-stages-per-pipeline-rank", NULL, NULL, NULL),
    SAME("virtual-pipeline-model-parallel-size", "num-virtual-stages-per-pipeline-rank",
         MEGATRON_INT),
    INT("decoder-first-pipeline-num-layers", NULL, NULL, NULL),
    SAME("num-layers-in-first-pipeline-stage", "decoder-first-pipeline-num-layers", MEGATRON_INT),
    INT("decoder-last-pipeline-num-layers", NULL, NULL, NULL),
    SAME("num-layers-in-last-pipeline-stage", "decoder-last-pipeline-num-layers", MEGATRON_INT),
    TEXT("pipeline-model-parallel-layout", NULL, "E, t, m, L between |"),
    FLAG("account-for-embedding-in-pipeline-split", "the embedding counts as a layer"),
    FLAG("account-for-loss-in-pipeline-split", "the head counts as a layer"),
    INT("microbatch-group-size-per-virtual-pipeline-stage", NULL, NULL, "pp when absent"),
    SAME("microbatch-group-size-per-vp-stage", "microbatch-group-size-per-virtual-pipeline-stage",
         MEGATRON_INT),
    INT("encoder-tensor-model-parallel-size", "0", NULL, "!an encoder of its own"),
    INT("encoder-pipeline-model-parallel-size", "0", NULL, "!an encoder of its own"),
    LIST("cp-comm-type", "p2p", "p2p, a2a, allgather, a2a+p2p"),
    LIST("hierarchical-context-parallel-sizes", NULL, "!context groups of two levels"),
    FLAG("hybrid-context-parallel", "!context parallelism by sample"),
    INT("tensor-parallel-num-weight-shards", NULL, NULL, "!weights sharded beyond tp"),
    FLAG("use-tp-pp-dp-mapping", "stages inside data parallelism"),
    FLAG("standalone-embedding-stage", "!the embedding has a stage of its own"),
    /* batch */
    INT("micro-batch-size", NULL, "mbs", "sequences"),
    SAME("batch-size", "micro-batch-size", MEGATRON_INT),
    INT("global-batch-size", NULL, "gbs", "sequences; mbs x dp when absent"),
    LIST("rampup-batch-size", NULL, "!the batch grows at first; the final one is taken"),
    TEXT("step-batch-size-schedule", NULL, "!the batch changes"),
    INT("seq-length", NULL, "seq", "tokens"),
    SAME("encoder-seq-length", "seq-length", MEGATRON_INT),
    FLAG("sft", "!packed sequences of different length"),
    /* numbers */
    FLAG("bf16", NULL),
    FLAG("fp16", NULL),
    TEXT("fp8-format", NULL, "e4m3 or hybrid; none: no fp8"),
    SAME("fp8", "fp8-format", MEGATRON_TEXT),
    SETS("fp8-e4m3", "fp8-format", "e4m3"),
    SETS("fp8-hybrid", "fp8-format", "hybrid"),
    TEXT("fp8-recipe", "delayed", "delayed, tensorwise, mxfp8, blockwise"),
    FLAG("fp8-param-gather", "parameters stay in fp8"),
    SAME("fp8-param", "fp8-param-gather", MEGATRON_FLAG),
    FLAG("fp8-dot-product-attention", "fused attention in fp8"),
    FLAG("fp8-multi-head-attention", "the same, what stands around it too"),
    FLAG("first-last-layers-bf16", "!the outer layers stay in bf16"),
    TEXT("fp4-format", NULL, "e2m1; none: no fp4"),
    SAME("fp4", "fp4-format", MEGATRON_TEXT),
    FLAG("fp4-param-gather", "!parameters are gathered in fp4"),
    ON("fp8-wgrad", NULL),
    SETS("no-fp8-wgrad", "fp8-wgrad", "false"),
    FLAG("accumulate-allreduce-grads-in-fp32", "bf16 implies it unless grad-reduce-in-bf16"),
    FLAG("grad-reduce-in-bf16", "two-byte gradients"),
    FLAG("use-precision-aware-optimizer", "optimizer states in other formats"),
    TEXT("main-grads-dtype", "fp32", NULL),
    TEXT("main-params-dtype", "fp32", NULL),
    TEXT("exp-avg-dtype", "fp32", NULL),
    TEXT("exp-avg-sq-dtype", "fp32", NULL),
    FLAG("fp32-residual-connection", "!the residual stream in fp32"),
    FLAG("attention-softmax-in-fp32", NULL),
    TEXT("optimizer", "adam", NULL),
    /* data parallelism */
    FLAG("use-distributed-optimizer", "optimizer states sharded over data-parallel ranks"),
    INT("num-distributed-optimizer-instances", "1", NULL, "replicas of the sharded optimizer"),
    FLAG("use-torch-fsdp2", NULL),
    ON("torch-fsdp2-reshard-after-forward", NULL),
    SETS("torch-fsdp2-no-reshard-after-forward", "torch-fsdp2-reshard-after-forward", "false"),
    FLAG("use-megatron-fsdp", NULL),
    SAME("use-custom-fsdp", "use-megatron-fsdp", MEGATRON_FLAG),
    TEXT("data-parallel-sharding-strategy", "optim_grads_params",
         "of megatron-fsdp; no_shard before core_v0.16"),
    TEXT("outer-dp-sharding-strategy", "no_shard", "!hybrid sharding"),
    FLAG("fsdp-double-buffer", "!two fixed units of buffers"),
    FLAG("overlap-grad-reduce", "gradients are reduced beside the backward pass"),
    FLAG("overlap-param-gather", "parameters are gathered beside the forward pass"),
    FLAG("overlap-param-gather-with-optimizer-step", "!"),
    FLAG("delay-grad-reduce", NULL),
    INT("ddp-bucket-size", NULL, NULL, "!elements of a gradient bucket"),
    INT("ddp-num-buckets", NULL, NULL, "!gradient buckets"),
    FLAG("use-nccl-ub", "!registered communication buffers"),
    FLAG("use-sharp", "!reductions in the switches"),
    TEXT("DDP-impl", NULL, "of Megatron-LM before 2022"),
    ON("use-contiguous-buffers-in-ddp", NULL),
    /* overlap of the other dimensions */
    FLAG("tp-comm-overlap", NULL),
    ON("overlap-p2p-comm", "of the interleaved schedule"),
    SETS("no-overlap-p2p-communication", "overlap-p2p-comm", "false"),
    FLAG("overlap-p2p-communication-warmup-flush", "p2p overlap in warm-up and flush too"),
    SAME("overlap-p2p-comm-warmup-flush", "overlap-p2p-communication-warmup-flush", MEGATRON_FLAG),
    FLAG("overlap-moe-expert-parallel-comm", "the all-to-all beside another micro-batch"),
    FLAG("delay-wgrad-compute", "!weight gradients later"),
    FLAG("defer-embedding-wgrad-compute", "!the head's weight gradient later"),
    /* recompute and offload */
    TEXT("recompute-granularity", NULL, "full or selective"),
    SETS("recompute-activations", "recompute-granularity", "selective"),
    SETS("checkpoint-activations", "recompute-granularity", "full"),
    SETS("activations-checkpoint", "recompute-granularity", "full"),
    TEXT("recompute-method", NULL, "uniform or block"),
    SAME("activations-checkpoint-method", "recompute-method", MEGATRON_TEXT),
    INT("recompute-num-layers", NULL, NULL, "layers of a unit, or of the block of each stage"),
    SAME("checkpoint-num-layers", "recompute-num-layers", MEGATRON_INT),
    SAME("activations-checkpoint-num-layers", "recompute-num-layers", MEGATRON_INT),
    LIST("recompute-modules", "core_attn", "of selective"),
    FLAG("distribute-saved-activations", "!saved inputs are split over tp"),
    SAME("distribute-checkpointed-activations", "distribute-saved-activations", MEGATRON_FLAG),
    INT("cpu-offloading-num-layers", "0", NULL, "activations of layers go to the host"),
    FLAG("fine-grained-activation-offloading", "!activations go to the host"),
    LIST("offload-modules", NULL, "!activations go to the host"),
    FLAG("optimizer-cpu-offload", "optimizer states on the host"),
    REAL("optimizer-offload-fraction", "1", "of optimizer-cpu-offload"),
    /* kernels */
    TEXT("transformer-impl", "transformer_engine", "local before 2024"),
    TEXT("attention-backend", "auto", "flash, fused, unfused, local, auto"),
    FLAG("use-flash-attn", NULL),
    FLAG("use-legacy-models", "layers of Megatron-LM before 2024"),
    ON("masked-softmax-fusion", "of unfused attention"),
    SETS("no-masked-softmax-fusion", "masked-softmax-fusion", "false"),
    ON("bias-gelu-fusion", NULL),
    SETS("no-bias-gelu-fusion", "bias-gelu-fusion", "false"),
    ON("bias-swiglu-fusion", NULL),
    SETS("no-bias-swiglu-fusion", "bias-swiglu-fusion", "false"),
    ON("bias-dropout-fusion", NULL),
    SETS("no-bias-dropout-fusion", "bias-dropout-fusion", "false"),
    ON("apply-rope-fusion", NULL),
    SETS("no-rope-fusion", "apply-rope-fusion", "false"),
    ON("persist-layer-norm", NULL),
    SETS("no-persist-layer-norm", "persist-layer-norm", "false"),
    ON("gradient-accumulation-fusion", NULL),
    SETS("no-gradient-accumulation-fusion", "gradient-accumulation-fusion", "false"),
    FLAG("cross-entropy-loss-fusion", NULL),
    TEXT("cross-entropy-fusion-impl", "native", "native or te"),
    TEXT("cuda-graph-impl", "none", "!CUDA graphs"),
    FLAG("enable-cuda-graph", "!CUDA graphs"),
    FLAG("external-cuda-graph", "!CUDA graphs"),
    LIST("cuda-graph-scope", NULL, "!CUDA graphs"),
    LIST("cuda-graph-modules", NULL, "!CUDA graphs"),
    FLAG("deterministic-mode", "!slower kernels"),
    FLAG("use-transformer-engine-op-fuser", "!other fusions"),
    FLAG("use-kitchen-attention", "!another attention"),
    REAL("hidden-dropout", "0.1", "above 0: a mask a byte an element is kept"),
    REAL("attention-dropout", "0.1", "above 0: masks, in unfused attention"),
    /* Primus adds (primus/configs/modules/megatron) */
    FLAG("enable-primus-turbo", "the main switch of its kernels"),
    FLAG("use-turbo-attention", NULL),
    FLAG("use-turbo-gemm", NULL),
    FLAG("use-turbo-grouped-gemm", NULL),
    SAME("use-turbo-grouped-mlp", "use-turbo-grouped-gemm", MEGATRON_FLAG),
    FLAG("use-turbo-parallel-linear", NULL),
    FLAG("use-turbo-rms-norm", NULL),
    FLAG("use-turbo-fused-act-with-probs", NULL),
    FLAG("use-turbo-autotune", NULL),
    FLAG("enable-turbo-attention-float8", "!attention in fp8"),
    FLAG("use-turbo-mega-moe", "!the MoE layer in one kernel"),
    FLAG("moe-use-fused-router-with-aux-score", NULL),
    FLAG("use-turbo-deepep", NULL),
    INT("turbo-deepep-num-cu", "32", NULL, "compute units of DeepEP"),
    FLAG("turbo-deepep-use-comm-stream", NULL),
    INT("turbo-sync-free-moe-stage", "0", NULL, "0 to 3"),
    LIST("recompute-layer-ids", NULL, "layers that are recomputed, by number"),
    LIST("decoder-pipeline-manual-split-list", NULL, "!layers of each stage by hand"),
    FLAG("patch-moe-overlap", "!another overlap of the all-to-all"),
    FLAG("patch-primus-pipeline", "lets pp-algorithm decide"),
    TEXT("pp-algorithm", "1f1b-interleaved", NULL),
    FLAG("patch-zero-bubble", "lets enable-zero-bubble decide"),
    FLAG("enable-zero-bubble", NULL),
    FLAG("zero-bubble-v-schedule", NULL),
    TEXT("zero-bubble-v-schedule-mem-setup", "half", "zb, half or min"),
    TEXT("zero-bubble-max-pending-backward", "auto", NULL),
    FLAG("enable-1f1b-v", "!1F1B in a V shape"),
    INT("num-seq-splits", "1", NULL, "!sequences in slices"),
    INT("offload-chunk-num", "0", NULL, "!chunks on the host"),
    FLAG("cpu-offload", "!optimizer states on the host"),
    FLAG("use-sink-attention", "learned sinks"),
    INT("sink-sliding-window", "0", NULL, "!windowed attention"),
};
const size_t orr_megatron_arg_count = sizeof orr_megatron_args / sizeof *orr_megatron_args;

static bool name_equal(const char *a, const char *b) {
    for (; *a != '\0' && *b != '\0'; a++, b++) {
        if (*a != *b && !((*a == '_' || *a == '-') && (*b == '_' || *b == '-'))) {
            return false;
        }
    }
    return *a == *b;
}

const megatron_arg *orr_megatron_find(const char *name) {
    for (size_t i = 0; i < orr_megatron_arg_count; i++) {
        if (name_equal(orr_megatron_args[i].name, name)) {
            return &orr_megatron_args[i];
        }
    }
    return NULL;
}

bool orr_megatron_other(const char *name, char *arity, bool *matters) {
    for (size_t i = 0; i < orr_megatron_quiet_count; i++) {
        if (name_equal(orr_megatron_quiet[i] + 2, name)) {
            *arity = orr_megatron_quiet[i][0];
            *matters = orr_megatron_quiet[i][1] == '!';
            return true;
        }
    }
    return false;
}

bool orr_megatron_knows(const char *name) {
    char arity;
    bool matters;
    return orr_megatron_find(name) != NULL || orr_megatron_other(name, &arity, &matters);
}
