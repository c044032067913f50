"""Measures the part of a plan that the devices at hand can run, in PyTorch, and writes evidence.

    orrery measure --plan train.sh --gpus N --dry-run --json > scope.json
    torchrun --nproc-per-node N probes/probe.py --scope scope.json --device h100 --write node.json
"""
import argparse
import json
import os

import torch
import torch.distributed as dist

from blocks import Block
from measuring import DTYPES, Probe


def megatron_layer(kind, split):
    """A layer of megatron.core with its Transformer Engine spec where there is one."""
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.models.gpt.gpt_layer_specs import (get_gpt_layer_local_spec,
                                                          get_gpt_layer_with_transformer_engine_spec)
    from megatron.core.transformer.spec_utils import build_module
    from megatron.core.transformer.transformer_config import TransformerConfig
    if not parallel_state.is_initialized():
        parallel_state.initialize_model_parallel(tensor_model_parallel_size=split["tp"],
                                                 context_parallel_size=split["cp"],
                                                 expert_model_parallel_size=split["ep"])
        tensor_parallel.model_parallel_cuda_manual_seed(1)
    config = TransformerConfig(
        num_layers=1, hidden_size=kind["hidden"], num_attention_heads=kind["heads"],
        num_query_groups=kind.get("kv_heads", kind["heads"]), kv_channels=kind["head_dim"],
        ffn_hidden_size=kind.get("ffn") or kind["expert_ffn"], gated_linear_unit=bool(kind["gated"]),
        num_moe_experts=kind.get("experts"), moe_router_topk=kind.get("topk", 2),
        moe_ffn_hidden_size=kind.get("expert_ffn"), add_bias_linear=False, bf16=True,
        params_dtype=torch.bfloat16, normalization="RMSNorm",
        tensor_model_parallel_size=split["tp"], sequence_parallel=bool(split.get("sp")))
    experts = {"num_experts": kind.get("experts")}
    try:
        spec = get_gpt_layer_with_transformer_engine_spec(**experts)
    except (ImportError, AssertionError):
        spec = get_gpt_layer_local_spec(**experts)
    layer = build_module(spec, config=config)

    class Turned(torch.nn.Module):
        """Megatron's sequence comes first."""

        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x.transpose(0, 1), attention_mask=None)[0].transpose(0, 1)

    return Turned()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scope", required=True)
    parser.add_argument("--device", required=True, help="name in the catalog, or of the hardware file")
    parser.add_argument("--software", default="", help="profile that this stands for")
    parser.add_argument("--stack", choices=("plain", "megatron"), default="plain")
    parser.add_argument("--write", required=True)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--limit", type=float, default=60, help="seconds a part")
    parser.add_argument("--dtype", choices=sorted(DTYPES))
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    with open(options.scope) as file:
        result = json.load(file)["result"]
    scope, split = result["scope"], result["scope"]["reduced"]
    gpu = torch.cuda.is_available() and not options.cpu
    local = int(os.environ.get("LOCAL_RANK", 0))
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if gpu else "gloo")
    if gpu:
        torch.cuda.set_device(local)
    probe = Probe(f"cuda:{local}" if gpu else "cpu", options.repeats, options.limit,
                  DTYPES.get(options.dtype))
    if split["tp"] * split["cp"] * split["dp"] != probe.ranks:
        parser.error(f"the scope is of {scope['gpus']} ranks, there are {probe.ranks}")

    parameters = []
    for kind in scope["layers"]:
        block = None
        if options.stack == "megatron":
            block = probe.guarded("a megatron.core layer", lambda k=kind: megatron_layer(k, split))
            if block is None:
                continue
        elif kind.get("experts") and split["ep"] > 1:
            probe.missing.append({"what": "a routed layer", "why": "plain blocks have no ep"})
            continue
        elif split["cp"] > 1:
            probe.missing.append({"what": "a layer", "why": "plain blocks have no cp"})
            continue
        block = block or Block(kind, split["tp"])
        probe.layer(kind, split, block)
        parameters += list(block.parameters())
    shapes = {"tokens": split["mbs"] * split["seq"] // split["cp"], "vocab": scope["vocab"],
              "hidden": scope["hidden"]}
    for one in result["work"]:
        if one["class"] == "collective":
            if probe.ranks > 1:
                probe.collective(one)
        elif one["name"] == "optimizer":
            # of the layers at hand, by its own traffic: four tensors read, three written
            traffic = sum(7 * p.numel() * p.element_size() for p in parameters)
            if parameters:
                probe.optimizer({**one, "bytes": traffic}, parameters)
        else:
            probe.kernel(one, shapes)
    if gpu:
        print(f"peak memory {torch.cuda.max_memory_allocated() / 2 ** 30:.2f} GiB allocated, "
              f"{torch.cuda.max_memory_reserved() / 2 ** 30:.2f} GiB reserved")
    if probe.rank == 0:
        probe.write(options.write, options.device, options.software)
        print(f"{len(probe.records)} records, {len(probe.missing)} missing: {options.write}")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
