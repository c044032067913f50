# Sizes alone: sourced by launchers, no command of its own.
MODEL_ARGS=(
    --num-layers 32
    --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --normalization RMSNorm
    --swiglu
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --position-embedding-type rope
    --vocab-size 128256
    --hidden-dropout 0
    --attention-dropout 0
)
: ${TP:=2}
PARALLEL_ARGS="--tensor-model-parallel-size ${TP} --sequence-parallel --bf16"
