torchrun --nproc_per_node 1 pretrain_gpt.py --num-layers 80 --hidden-size 8192 \
  --ffn-hidden-size 28672 --num-attention-heads 64 --group-query-attention --num-query-groups 8 \
  --seq-length 4096 --max-position-embeddings 4096 --vocab-size 32000 --swiglu \
  --normalization RMSNorm --disable-bias-linear --position-embedding-type rope \
  --untie-embeddings-and-output-weights --hidden-dropout 0 --attention-dropout 0 \
  --micro-batch-size 1 --global-batch-size 1 --bf16 --recompute-granularity full \
  --recompute-method uniform --recompute-num-layers 1
