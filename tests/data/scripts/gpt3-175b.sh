#!/bin/bash
# GPT-3 175B on 1,024 A100: TP 8, PP 16, three layers a virtual stage, sequence parallelism and
# selective recompute. Sizes: Brown et al. 2020; layout: Narayanan et al. 2021, Korthikanti et al.
# 2022.
export CUDA_DEVICE_MAX_CONNECTIONS=1

GPUS_PER_NODE=8
NNODES=128
MASTER_ADDR=${MASTER_ADDR:-localhost}

DISTRIBUTED_ARGS="--nproc_per_node $GPUS_PER_NODE --nnodes $NNODES \
    --master_addr $MASTER_ADDR --master_port 6000"

GPT_ARGS="
    --num-layers 96
    --hidden-size 12288
    --num-attention-heads 96
    --seq-length 2048
    --max-position-embeddings 2048
    --micro-batch-size 1
    --global-batch-size 1536
    --tensor-model-parallel-size 8
    --pipeline-model-parallel-size 16
    --num-layers-per-virtual-pipeline-stage 3
    --sequence-parallel
    --recompute-activations
    --lr 6.0e-5 --min-lr 6.0e-6 --lr-decay-style cosine
    --train-iters 500000 --clip-grad 1.0
    --fp16
"
DATA_ARGS="--data-path /data/text_document --vocab-file gpt2-vocab.json \
           --merge-file gpt2-merges.txt --tokenizer-type GPT2BPETokenizer --split 949,50,1"

python -m torch.distributed.launch $DISTRIBUTED_ARGS pretrain_gpt.py \
    $GPT_ARGS \
    $DATA_ARGS \
    --distributed-backend nccl --save /ckpt --save-interval 1000
