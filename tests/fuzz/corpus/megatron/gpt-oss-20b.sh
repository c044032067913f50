#!/bin/bash
# gpt-oss 20B on 16 GPUs: windows of 128 in every other layer, attention sinks, biases, 32 experts.
MODEL_ARGS=(
    --num-layers 24 --hidden-size 2880 --ffn-hidden-size 2880 --num-attention-heads 64
    --group-query-attention --num-query-groups 8 --kv-channels 64
    --normalization RMSNorm --position-embedding-type yarn --untie-embeddings-and-output-weights
    --add-qkv-bias --disable-bias-linear --swiglu --softmax-type learnable
    --window-size 128,0 --window-attn-skip-freq 2
    --num-experts 32 --moe-router-topk 4 --moe-ffn-hidden-size 2880
    --moe-grouped-gemm --moe-token-dispatcher-type alltoall
    --hidden-dropout 0 --attention-dropout 0 --padded-vocab-size 201088
)
torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py "${MODEL_ARGS[@]}" \
    --seq-length 4096 --max-position-embeddings 131072 --micro-batch-size 1 \
    --global-batch-size 128 --bf16 --expert-model-parallel-size 8 --use-distributed-optimizer \
    --overlap-grad-reduce --overlap-param-gather
