# finds: bf16 and fp16 are both on
torchrun --nnodes 1 --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 \
  --num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 --vocab-size 50257 \
  --micro-batch-size 1 --global-batch-size 64 --hidden-dropout 0 --attention-dropout 0 \
  --bf16 --fp16
