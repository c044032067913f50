# GPT3-1B: 24 layers of 2,048; mixed precision, eight slices, taken as micro-batches.
torchrun --nproc_per_node 4 pretrain_gpt.py --num-layers 24 --hidden-size 2048 \
  --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 --vocab-size 50257 \
  --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --micro-batch-size 1 \
  --global-batch-size 1 --fp16 --DDP-impl local --hidden-dropout 0 --attention-dropout 0
