torchrun --nproc_per_node 2 pretrain_gpt.py --num-layers 36 --hidden-size 2560 \
  --ffn-hidden-size 9728 --num-attention-heads 32 --kv-channels 128 --group-query-attention \
  --num-query-groups 8 --qk-layernorm --seq-length 65536 --max-position-embeddings 65536 \
  --vocab-size 151936 --swiglu --normalization RMSNorm --disable-bias-linear \
  --position-embedding-type rope --hidden-dropout 0 --attention-dropout 0 \
  --tensor-model-parallel-size 2 --sequence-parallel --micro-batch-size 1 --global-batch-size 1 \
  --bf16 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
