#!/bin/bash
# What only a run can tell: no number may come of it. Nothing here may be executed either.
touch /tmp/orrery-was-executed
GPUS=$(nvidia-smi --list-gpus | wc -l)
NODES=`wc -l < hostfile`
TP=$(( GPUS / 2 ))
HIDDEN=4096
HIDDEN="$HIDDEN"
LOOP="$LOOP $LOOP x"
MBS=$1
SEQ=$((4096 * 2))
if nvidia-smi | grep -q H100; then
    GBS=512
else
    GBS=256
fi
cat > config.txt <<EOF
--tensor-model-parallel-size 64
\$(touch /tmp/orrery-was-executed)
EOF
LATE=$((1 / 0))
for size in 1 2 4; do
    EP=$size
done
source ./common-args.sh
torchrun --nproc_per_node $GPUS --nnodes $NODES pretrain_gpt.py --num-layers $((16 + 16)) \
    --hidden-size $HIDDEN --num-attention-heads 32 --seq-length $SEQ --micro-batch-size $MBS \
    --global-batch-size $GBS --tensor-model-parallel-size $TP --context-parallel-size $LATE \
    --bf16 --use-distributed-optimizer --num-experts 8 --expert-model-parallel-size $EP \
    --my-own-kernel fast --data-path "$(cat paths.txt)" $COMMON_ARGS; rm -rf /tmp/never
