#!/usr/bin/env bash
# Llama 3 8B on eight GPUs: context parallelism 2, distributed optimizer, micro-batch 1, batch 128.
set -euo pipefail

NUM_GPUS=8
NUM_NODES=${SLURM_NNODES:-1}
CP_SIZE=${CP_SIZE:-2}

MODEL_ARGS=(
    --use-mcore-models
    --num-layers 32
    --hidden-size 4096
    --ffn-hidden-size 14336          # not the default
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --kv-channels 128
    --seq-length 8192
    --max-position-embeddings 8192
    --position-embedding-type rope
    --rotary-base 500000
    --normalization RMSNorm
    --swiglu
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --hidden-dropout 0.0
    --attention-dropout 0.0
)
TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size 128
    --train-samples 1953125
    --bf16
    --cross-entropy-loss-fusion
    --cross-entropy-fusion-impl te
    --grad-reduce-in-bf16
)
PARALLEL_ARGS=(
    --tensor-model-parallel-size 1
    --context-parallel-size "$CP_SIZE"
    --use-distributed-optimizer
    --overlap-grad-reduce
    --overlap-param-gather
)
DATA_ARGS=(--mock-data --tokenizer-type NullTokenizer --vocab-size 128256)

torchrun --nproc_per_node "$NUM_GPUS" --nnodes "$NUM_NODES" pretrain_gpt.py \
    "${MODEL_ARGS[@]}" "${TRAINING_ARGS[@]}" "${PARALLEL_ARGS[@]}" "${DATA_ARGS[@]}"
