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
from megatron_stack import layer as megatron_layer
from titan_stack import layer as titan_layer


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scope", required=True)
    parser.add_argument("--device", required=True, help="name in the catalog, or of the hardware")
    parser.add_argument("--software", default="", help="profile that this stands for")
    parser.add_argument("--stack", choices=("plain", "megatron", "torchtitan"), default="plain")
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
    inner = split["tp"] * split["cp"] * split["dp"]
    if probe.ranks not in (inner, scope["at_hand"]) or (inner > 1 and probe.ranks != inner):
        parser.error(f"the scope is of {scope['gpus']} ranks, there are {probe.ranks}")

    if probe.rank == 0:
        probe.sink = options.write, options.device, options.software
        probe.write(*probe.sink, "everything")
    parameters = []
    for kind in scope["layers"]:
        block = None
        if options.stack != "plain":
            make = {"megatron": megatron_layer, "torchtitan": titan_layer}[options.stack]
            block = probe.guarded(f"a layer of {options.stack}", lambda: make(kind, split))
            if block is None:
                continue
        elif kind.get("experts") and split["ep"] > 1:
            probe.missing.append({"what": "a routed layer", "why": "plain blocks have no ep"})
            continue
        elif split["cp"] > 1:
            probe.missing.append({"what": "a layer", "why": "plain blocks have no cp"})
            continue
        block = block or Block(kind, split["tp"])
        probe.layer(kind, split, [block])
        parameters += list(block.parameters())
    shapes = {"tokens": split["mbs"] * split["seq"] // split["cp"], "vocab": scope["vocab"],
              "hidden": scope["hidden"]}
    for one in result["work"]:
        if one["class"] == "collective":
            if probe.ranks > 1:
                probe.collective(one)
        elif one["name"] == "optimizer":
            # of the layers at hand: as many bytes as the plan would count for these parameters
            traffic = round(one["bytes_per_param"] * sum(p.numel() for p in parameters))
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
