#!/bin/bash
#SBATCH --nodes=8
#SBATCH --gpus-per-node=8
# Llama-3 70B on 64 GPUs, TP 8 x PP 4, as a Megatron-LM launch script.
GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-8}
TP=8
PP=4
SEQ=8192

MODEL_ARGS=(
    --num-layers 80
    --hidden-size 8192
    --ffn-hidden-size 28672
    --num-attention-heads 64
    --group-query-attention --num-query-groups 8
    --seq-length $SEQ --max-position-embeddings $SEQ
    --position-embedding-type rope --normalization RMSNorm --swiglu
    --untie-embeddings-and-output-weights --disable-bias-linear
    --vocab-size 128256
    --attention-dropout 0 --hidden-dropout 0
)
PARALLEL_ARGS=(
    --tensor-model-parallel-size $TP --sequence-parallel
    --pipeline-model-parallel-size $PP
    --num-layers-per-virtual-pipeline-stage 5
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
    --tp-comm-overlap
)
TRAIN_ARGS=(
    --micro-batch-size 1
    --global-batch-size 128
    --bf16 --use-flash-attn
    --lr 1.5e-4 --train-iters 1000
)
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py \
    "${MODEL_ARGS[@]}" "${PARALLEL_ARGS[@]}" "${TRAIN_ARGS[@]}"
