#!/bin/bash
# A template with places to fill in, and an encoder.
CHECKPOINT_PATH=<PATH TO CHECKPOINTS>
ARGS="--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 512 \
 --max-position-embeddings 512 --micro-batch-size 4 --global-batch-size 32 --fp16 \
 --vocab-size 30522 --data-path <DATA>"
python pretrain_bert.py $ARGS --load $CHECKPOINT_PATH --tensor-model-parallel-size <TP>
