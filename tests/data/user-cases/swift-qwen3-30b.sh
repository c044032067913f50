torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 48 --hidden-size 2048 \
  --ffn-hidden-size 6144 --num-attention-heads 32 --kv-channels 128 --group-query-attention \
  --num-query-groups 4 --qk-layernorm --seq-length 102400 --max-position-embeddings 102400 \
  --vocab-size 151936 --swiglu --normalization RMSNorm --disable-bias-linear \
  --position-embedding-type rope --untie-embeddings-and-output-weights --hidden-dropout 0 \
  --attention-dropout 0 --num-experts 128 --moe-router-topk 8 --moe-ffn-hidden-size 768 \
  --moe-grouped-gemm --moe-token-dispatcher-type alltoall --context-parallel-size 2 \
  --expert-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 8 --bf16 \
  --use-distributed-optimizer --cross-entropy-loss-fusion --cross-entropy-fusion-impl te --recompute-granularity full --recompute-method uniform \
  --recompute-num-layers 1
