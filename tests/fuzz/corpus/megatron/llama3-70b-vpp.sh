#!/bin/bash
# Llama 3 70B on 64 GPUs: TP 4, PP 4, five layers a virtual stage, TP overlap, full recompute of
# one layer a virtual stage when memory is short.
GPUS_PER_NODE=8
NODES=8
WORLD_SIZE=$(( GPUS_PER_NODE * NODES ))
TP=4
PP=4
CP=2
DP=$(( WORLD_SIZE / (TP * PP * CP) ))
MBS=1
ACCUMULATION=32
GBS=$((MBS * DP * ACCUMULATION))
LAYERS=80
VPP=5
RECOMPUTE=${RECOMPUTE:-block}

OPTS="--num-layers $LAYERS --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64"
OPTS+=" --group-query-attention --num-query-groups 8 --normalization RMSNorm --swiglu"
OPTS+=" --position-embedding-type rope --untie-embeddings-and-output-weights --disable-bias-linear"
OPTS+=" --attention-dropout 0 --hidden-dropout 0 --seq-length 8192 --max-position-embeddings 8192"
OPTS="$OPTS --tokenizer-type HuggingFaceTokenizer --tokenizer-model meta-llama/Meta-Llama-3-70B"
OPTS="$OPTS --tensor-model-parallel-size=$TP --pipeline-model-parallel-size=$PP"
OPTS="$OPTS --context-parallel-size=$CP --num-layers-per-virtual-pipeline-stage $((LAYERS / PP / VPP))"
OPTS="$OPTS --micro-batch-size $MBS --global-batch-size $GBS --bf16 --sequence-parallel"
OPTS="$OPTS --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather"
OPTS="$OPTS --tp-comm-overlap --fp8-format hybrid --fp8-recipe tensorwise"

if [ "$RECOMPUTE" == "block" ]; then
    OPTS="$OPTS --recompute-granularity full --recompute-method block --recompute-num-layers 1"
elif [ "$RECOMPUTE" == "selective" ]; then
    OPTS="$OPTS --recompute-activations"
fi

run="torchrun --nnodes=$NODES --nproc-per-node=$GPUS_PER_NODE \
  --rdzv_endpoint=${HEAD_NODE}:29500 pretrain_gpt.py $OPTS"
echo $run
eval $run
