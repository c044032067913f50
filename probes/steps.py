"""Real PyTorch steps of one and two ranks on gloo against their projections; for
scripts/hybrid-check, which reads the list of cases that this prints as JSON.

Each case starts its ranks as processes. They first measure: one layer forward and backward (both
ranks at once, each with the other's load), the head's and the embedding's ops, the optimizer,
collectives of the plan's sizes. `orrery project --evidence` takes that. Then the ranks run whole
steps of more layers: the model split by DDP, FSDP2 or tensor parallelism."""
import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

CASES = [
    ("deeper", "small", {"gpus": 1, "gbs": 2}),
    ("ddp", "small", {"gpus": 2, "gbs": 4, "sharding": "none"}),
    ("fsdp", "small", {"gpus": 2, "gbs": 4, "sharding": "fsdp2"}),
    ("tp", "small", {"gpus": 2, "gbs": 2, "tp": 2, "sp": "off"}),
    ("ddp", "wide", {"gpus": 2, "gbs": 4, "sharding": "none"}),
    ("fsdp", "wide", {"gpus": 2, "gbs": 4, "sharding": "fsdp2"}),
    ("ddp", "deep", {"gpus": 2, "gbs": 4, "sharding": "none"}),
    ("tp", "wide", {"gpus": 2, "gbs": 2, "tp": 2, "sp": "off"}),
]
# what PyTorch does here, said to the projection: fp32, nothing hidden behind compute on full cores
PROFILE = """like: executor
source: 'PyTorch on gloo, one thread a rank'
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# ---- ranks


def worker(options):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from blocks import Block, Model
    from measuring import Probe

    torch.set_num_threads(1)
    torch.manual_seed(1)
    task = json.loads(pathlib.Path(options.task).read_text())
    keys, scope, ranks = task["keys"], task["scope"]["scope"], task["keys"]["gpus"]
    if ranks > 1:
        dist.init_process_group("gloo", rank=options.worker, world_size=ranks)
    split, target = scope["reduced"], scope["target"]
    kinds = [{k: v for k, v in kind.items() if k != "stands_for"} for kind in scope["layers"]]
    counts = [kind["stands_for"] for kind in scope["layers"]]
    tp, seq = target["tp"], target["seq"]

    def model(layers):
        return Model(kinds, layers, scope["vocab"], tp)

    def measure():
        probe = Probe("cpu", task["repeats"], 60)
        for kind in kinds:
            probe.layer(kind, {**split, "tp": tp}, Block(kind, tp))
        shapes = {"tokens": seq, "vocab": scope["vocab"], "hidden": scope["hidden"]}
        whole = list(model(counts).parameters())
        for one in task["scope"]["work"]:
            if one["class"] == "collective":
                if ranks > 1:
                    # activations and gathered weights are fp32 here in place of 16 bits;
                    # gradients are fp32 in both
                    wide = one["op"] == "reduce_scatter" or keys.get("sharding") == "none"
                    probe.collective(one, 1 if wide else 2)
            elif one["name"] == "optimizer":
                local = whole if keys.get("sharding") != "fsdp2" else [
                    torch.nn.Parameter(torch.randn((p.numel() + 1) // 2)) for p in whole]
                probe.optimizer(one, local)
            elif one["name"].startswith(("output", "final_norm", "loss", "embedding")):
                probe.kernel(one, shapes)
        if options.worker == 0:
            probe.write(task["evidence"], "cpu-core", task["software"])

    def steps():
        net = model(counts)
        # one and two ranks must agree: the loss of the same weights on the same batch
        reference = [p.detach().clone() for p in net.parameters()] if tp == 1 else None
        if keys.get("sharding") == "none" and ranks > 1:
            wrapped = DistributedDataParallel(net)
        elif keys.get("sharding") == "fsdp2":
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard
            mesh = init_device_mesh("cpu", (ranks,))
            for block in net.blocks:
                fully_shard(block, mesh=mesh)
            fully_shard(net, mesh=mesh)
            wrapped = net
        else:
            wrapped = net
        optimizer = torch.optim.AdamW(wrapped.parameters(), lr=1e-6, foreach=True)
        replicas = ranks // tp
        micro = keys["gbs"] // replicas
        generator = torch.Generator().manual_seed(7)
        batch = torch.randint(scope["vocab"], (keys["gbs"], seq + 1), generator=generator)
        own = batch[options.worker // tp * micro:][:micro] if replicas > 1 else batch

        def step():
            optimizer.zero_grad(set_to_none=False)
            total = 0.0
            for i in range(micro):
                last = i + 1 == micro
                if isinstance(wrapped, DistributedDataParallel):
                    wrapped.require_backward_grad_sync = last
                rows = own[i:i + 1]
                loss = wrapped(rows[:, :-1], rows[:, 1:]) / micro
                loss.backward()
                total += loss.item()
            optimizer.step()
            return total

        losses, samples = [], []
        for i in range(-2, task["steps"]):
            if ranks > 1:
                dist.barrier()
            start = time.perf_counter()
            losses.append(step())
            if ranks > 1:
                dist.barrier()
            if i >= 0:
                samples.append(time.perf_counter() - start)
        out = {"samples": samples}
        if ranks > 1 and tp == 1:
            mean = torch.tensor(losses[0])
            dist.all_reduce(mean)
            alone = model(counts)
            with torch.no_grad():
                for p, q in zip(alone.parameters(), reference):
                    p.copy_(q)
                own_loss = sum(alone(batch[i:i + 1, :-1], batch[i:i + 1, 1:]).item()
                               for i in range(len(batch))) / len(batch)
            out["difference"] = abs(mean.item() / ranks - own_loss) / abs(own_loss)
        pathlib.Path(f"{options.task}.{options.worker}").write_text(json.dumps(out))

    {"measure": measure, "steps": steps}[options.stage]()
    if ranks > 1:
        dist.destroy_process_group()


# ---- driver


def launch(task, stage, ranks, limit_s):
    env = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()),
               OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", PYTHONWARNINGS="ignore")
    children = [subprocess.Popen([sys.executable, __file__, "--worker", str(r), "--stage", stage,
                                  "--task", str(task)], env=env, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True) for r in range(ranks)]
    try:
        deadline = time.monotonic() + limit_s
        for child in children:
            _, errors = child.communicate(timeout=max(1, deadline - time.monotonic()))
            if child.returncode != 0:
                sys.exit(f"{stage} of {task}: exit {child.returncode}\n{errors[-1500:]}")
    except subprocess.TimeoutExpired:
        sys.exit(f"{stage} of {task}: no end within {limit_s} s")
    finally:
        for child in children:
            child.kill()


def orrery(options, *arguments):
    done = subprocess.run([options.orrery, *map(str, arguments), "--json"], capture_output=True,
                          text=True, timeout=60)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}: {done.stderr}")
    return json.loads(done.stdout)["result"]


def run_case(options, folder, name, model, keys):
    software = folder / "torch-gloo.yaml"
    software.write_text(PROFILE)
    plan = folder / f"torch-{name}-{model}.yaml"
    plan.write_text("".join(f"{k}: {v}\n" for k, v in {
        "model": folder / f"{model}.yaml", "hardware": folder / "cpu.yaml", "software": software,
        "mbs": 1, "seq": 256, "recompute": "none", **keys}.items()))
    scope = orrery(options, "measure", "--plan", plan, "--gpus", keys["gpus"], "--dry-run")
    task, evidence = folder / f"torch-{name}-{model}.json", folder / f"torch-{name}-{model}-ev.json"
    task.write_text(json.dumps({"keys": keys, "scope": scope, "evidence": str(evidence),
                                "software": "torch-gloo", "repeats": 10, "steps": 5}))
    launch(task, "measure", keys["gpus"], 240)
    projected = orrery(options, "project", plan, "--evidence", evidence)
    medians, differences = [], []
    for _ in range(options.repetitions):
        launch(task, "steps", keys["gpus"], 240)
        ranks = [json.loads(pathlib.Path(f"{task}.{r}").read_text()) for r in range(keys["gpus"])]
        medians.append(statistics.median(max(s) for s in zip(*[r["samples"] for r in ranks])))
        differences += [r["difference"] for r in ranks if "difference" in r]
    if differences and max(differences) > 1e-4:
        sys.exit(f"{name}: the loss of two ranks is off by {max(differences):g}")
    real_s = statistics.median(medians)
    return {"case": name, "model": model, "by": "torch", "ranks": keys["gpus"],
            "projected_s": projected["step_time_s"], "real_s": real_s, "samples_s": medians,
            "spread": (max(medians) - min(medians)) / real_s,
            "error": projected["step_time_s"] / real_s - 1,
            "measured_share": projected["provenance"]["measured_s"] / projected["step_time_s"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--stage", help=argparse.SUPPRESS)
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--orrery")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--cases", type=int, default=len(CASES))
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    if options.worker is not None:
        worker(options)
        return
    print(json.dumps([run_case(options, options.folder, *case)
                      for case in CASES[:options.cases]]))


if __name__ == "__main__":
    main()
