#! /bin/bash
# A script of 2021: local DDP, full checkpointing of every layer, fp16.
WORLD_SIZE=16
python -m torch.distributed.launch --nproc_per_node 8 --nnodes 2 --node_rank $RANK \
       --master_addr 10.0.0.1 --master_port 6000 \
       pretrain_gpt.py \
       --model-parallel-size 8 \
       --pipeline-model-parallel-size 2 \
       --num-layers 48 \
       --hidden-size 6144 \
       --num-attention-heads 48 \
       --batch-size 2 \
       --global-batch-size 64 \
       --seq-length 2048 \
       --max-position-embeddings 2048 \
       --vocab-file gpt2-vocab.json \
       --merge-file gpt2-merges.txt \
       --tokenizer-type GPT2BPETokenizer \
       --DDP-impl local \
       --activations-checkpoint-method uniform \
       --fp16
