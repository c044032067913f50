torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 28 --hidden-size 3584 \
  --ffn-hidden-size 18944 --num-attention-heads 28 --group-query-attention --num-query-groups 4 \
  --seq-length 65536 --max-position-embeddings 65536 --vocab-size 152064 --swiglu \
  --normalization RMSNorm --disable-bias-linear --add-qkv-bias --position-embedding-type rope \
  --untie-embeddings-and-output-weights --hidden-dropout 0 --attention-dropout 0 \
  --tensor-model-parallel-size 2 --sequence-parallel --micro-batch-size 1 --global-batch-size 4 \
  --bf16
