NGPUS=${1:-2}
torchrun --nproc_per_node 2 pretrain_llama.py --num-layers 32 --hidden-size 4096 \
  --ffn-hidden-size 11008 --num-attention-heads 32 --seq-length 2048 \
  --max-position-embeddings 2048 --vocab-size 32000 --swiglu --normalization RMSNorm \
  --disable-bias-linear --position-embedding-type rope --untie-embeddings-and-output-weights \
  --hidden-dropout 0 --attention-dropout 0 --tensor-model-parallel-size 2 \
  --micro-batch-size 4 --global-batch-size 4 --bf16
