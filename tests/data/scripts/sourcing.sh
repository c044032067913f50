#!/bin/bash
# The sizes come from a neighbour; the folder is computed, the values are not.
HERE="$( cd "$( dirname "${BASH_SOURCE[0]}" )" && pwd )"
TP=4
source "${HERE}/sizes-8b.sh"
torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py "${MODEL_ARGS[@]}" ${PARALLEL_ARGS} \
    --seq-length 8192 --max-position-embeddings 8192 --micro-batch-size 1 --global-batch-size 64 \
    --use-distributed-optimizer --save <CHECKPOINT DIRECTORY> --fp8-format hybrid
