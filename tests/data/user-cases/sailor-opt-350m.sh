# OPT-350M in fp16 under Megatron-DeepSpeed; sequences of 2,048.
torchrun --nnodes 1 --nproc_per_node 4 pretrain_gpt.py --num-layers 24 --hidden-size 1024 \
  --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 --vocab-size 50272 \
  --make-vocab-size-divisible-by 128 --tensor-model-parallel-size 4 \
  --pipeline-model-parallel-size 1 --micro-batch-size 1 --global-batch-size 32 --fp16 \
  --hidden-dropout 0 --attention-dropout 0
