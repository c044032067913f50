#!/bin/bash
#SBATCH --job-name=deepseek-v3
#SBATCH --nodes=32
#SBATCH --ntasks-per-node=8
#SBATCH --gres=gpu:8
#SBATCH --time=04:00:00
#SBATCH --exclusive
# DeepSeek-V3 on 256 GPUs: PP 16, EP 16, DeepEP, MLA, one depth of multi-token prediction.

cd "$SLURM_SUBMIT_DIR" || exit 1
MODEL="--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 \
    --kv-channels 128 --multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 \
    --qk-head-dim 128 --qk-pos-emb-head-dim 64 --v-head-dim 128 --qk-layernorm \
    --normalization RMSNorm --swiglu --disable-bias-linear --position-embedding-type rope \
    --untie-embeddings-and-output-weights --mtp-num-layers 1 --padded-vocab-size 129280 \
    --attention-dropout 0 --hidden-dropout 0 --seq-length 4096 --max-position-embeddings 4096"
MOE="--num-experts 256 --moe-layer-freq '([0]*3+[1]*58)' --moe-ffn-hidden-size 2048 \
    --moe-shared-expert-intermediate-size 2048 --moe-router-topk 8 --moe-router-num-groups 8 \
    --moe-router-group-topk 4 --moe-router-score-function sigmoid --moe-router-pre-softmax \
    --moe-router-enable-expert-bias --moe-router-bias-update-rate 1e-3 --moe-grouped-gemm \
    --moe-token-dispatcher-type flex --moe-enable-deepep --moe-permute-fusion"
LAYOUT='Et*3|(tt|)*29m|L'
PARALLEL="--tensor-model-parallel-size 1 --pipeline-model-parallel-size 16 \
    --expert-model-parallel-size 16 --expert-tensor-parallel-size 1 --context-parallel-size 1 \
    --pipeline-model-parallel-layout '$LAYOUT' --use-distributed-optimizer --overlap-grad-reduce \
    --overlap-param-gather"
TRAIN="--micro-batch-size 1 --global-batch-size 8192 --bf16 --use-precision-aware-optimizer \
    --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16 --main-grads-dtype fp32 --fp8-format e4m3 \
    --fp8-recipe blockwise --recompute-granularity selective --recompute-modules mla_up_proj mlp \
    --cross-entropy-loss-fusion --cross-entropy-fusion-impl te"

srun --mpi=pmix --container-image=/images/train.sqsh \
    bash -c "python -u pretrain_gpt.py $MODEL $MOE $PARALLEL $TRAIN"
