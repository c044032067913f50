#!/usr/bin/env bash
# A trainer's own arguments beside a DeepSpeed file that leaves the batch to them.
deepspeed --num_gpus 8 train.py \
    --model_name_or_path meta-llama/Llama-2-7b-hf \
    --per_device_train_batch_size 4 \
    --gradient_accumulation_steps 2 \
    --model_max_length 2048 \
    --bf16 True --gradient_checkpointing True \
    --learning_rate 2e-5 --output_dir out \
    --deepspeed conf/ds_z3.json
