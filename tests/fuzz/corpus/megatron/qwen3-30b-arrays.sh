#!/bin/bash
# Qwen3-30B-A3B, sizes picked by name; node count from the scheduler.
MODEL=${1:-30B-A3B}
case "$MODEL" in
8B)
    SIZE=(--num-layers 36 --hidden-size 4096 --ffn-hidden-size 12288 --num-attention-heads 32)
    ;;
30B-A3B | 30b)
    SIZE=(--num-layers 48 --hidden-size 2048 --ffn-hidden-size 6144 --num-attention-heads 32)
    SIZE+=(--num-experts 128 --moe-router-topk 8 --moe-ffn-hidden-size 768)
    ;;
*)
    echo "unknown model $MODEL" >&2
    exit 2
    ;;
esac
declare -a COMMON=(
    --group-query-attention --num-query-groups 4 --kv-channels 128 --qk-layernorm
    --normalization RMSNorm --swiglu --disable-bias-linear --position-embedding-type rope
    --untie-embeddings-and-output-weights --attention-dropout 0.0 --hidden-dropout 0.0
    --seq-length 4096 --max-position-embeddings 40960
    --make-vocab-size-divisible-by 1187 --vocab-size 151936
)
unset EXTRA
for flag in --moe-grouped-gemm; do
    EXTRA+=("$flag")
done
[[ ${USE_DEEPEP:-1} -eq 1 ]] && EXTRA+=(--moe-token-dispatcher-type flex --moe-enable-deepep)

torchrun --nproc_per_node 8 --nnodes 4 \
    ./pretrain_gpt.py "${SIZE[@]}" "${COMMON[@]}" "${EXTRA[@]}" \
    --tensor-model-parallel-size 4 --sequence-parallel --expert-model-parallel-size 8 \
    --expert-tensor-parallel-size 1 --micro-batch-size 1 --global-batch-size 512 --bf16 \
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 \
    --num-distributed-optimizer-instances 2
