# GPT-Neo 2.7B in fp16 under Megatron-DeepSpeed; sequences of 2,048.
torchrun --nnodes 2 --nproc_per_node 4 pretrain_gpt.py --num-layers 32 --hidden-size 2560 \
  --num-attention-heads 20 --seq-length 2048 --max-position-embeddings 2048 --vocab-size 50257 \
  --make-vocab-size-divisible-by 128 --tensor-model-parallel-size 4 \
  --pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 1 --fp16 \
  --hidden-dropout 0 --attention-dropout 0
