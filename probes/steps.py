"""Real PyTorch steps of one and two ranks on gloo against their projections; for
scripts/hybrid-check, which reads the list of cases that this prints as JSON, one a line.

Each case starts its ranks as processes. They first measure, both at once, each with the other's
load: a layer forward and backward, the head's and the embedding's ops, the optimizer, collectives
of the plan's sizes with the copies that DDP and FSDP make around them, and what part of a reduction
shows when a backward runs beside it. Then they run whole steps of more layers: split by DDP, by
FSDP2, or by tensor parallelism with layers of megatron.core. `orrery project --evidence` sees what
was measured first; nothing of the steps."""
import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

DDP, FSDP, MEGATRON = "ddp", "fsdp", "megatron"
CONTROLS = [("alone", "small", {"gpus": 1, "gbs": 2})]
CASES = [
    (FSDP, "small", {"gbs": 4}),
    (FSDP, "wide", {"gbs": 4}),
    (MEGATRON, "small", {"gbs": 2, "tp": 2, "sp": "off"}),
    (DDP, "small", {"gbs": 4}),
    (FSDP, "deep", {"gbs": 4}),
    (FSDP, "moe", {"gbs": 4}),
    (FSDP, "small", {"gbs": 8}),
    (FSDP, "deep", {"gbs": 8}),
    (MEGATRON, "wide", {"gbs": 2, "tp": 2, "sp": "off"}),
    (DDP, "deep", {"gbs": 4}),
    (FSDP, "wide", {"gbs": 4, "mbs": 2}),
    (FSDP, "small", {"gbs": 4, "seq": 512}),
    (MEGATRON, "deep", {"gbs": 2, "tp": 2, "sp": "off"}),
]
SHARDING = {DDP: "none", FSDP: "fsdp2", MEGATRON: "none", "alone": "none"}
SAME = 1e-4  # of the loss, between one and two ranks
BUCKET_BYTES = 25 << 20  # of DDP
TURNS = 3  # layers of a kind that take turns being measured
# what PyTorch does here, said to the projection: kernels one after the other; {exposed}: measured
PROFILE = """like: executor
source: 'PyTorch on gloo, one thread a rank'
switches:
  dp_overlap_grads: {{value: yes, evidence: code}}
time:
  dp_window_frac: {{value: 1, evidence: code, note: 'buckets go out while the backward runs'}}
  dp_exposed_min_frac: {{value: {exposed:.4f}, evidence: measured}}
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# ---- ranks


class Rank:
    """What one process of a case does."""

    def __init__(self, task, rank):
        import torch
        import torch.distributed as dist
        self.torch, self.dist, self.task, self.rank = torch, dist, task, rank
        torch.set_num_threads(1)
        torch.manual_seed(1)
        self.way, self.keys = task["way"], task["keys"]
        self.ranks = self.keys["gpus"]
        if self.ranks > 1:
            dist.init_process_group("gloo", rank=rank, world_size=self.ranks)
        scope = task["scope"]["scope"]
        self.split = {**scope["reduced"], "tp": scope["target"]["tp"]}
        self.tp, self.seq, self.mbs = self.split["tp"], self.split["seq"], self.split["mbs"]
        self.vocab, self.hidden = scope["vocab"], scope["hidden"]
        self.kinds = [{k: v for k, v in kind.items() if k != "stands_for"}
                      for kind in scope["layers"]]
        self.counts = [kind["stands_for"] for kind in scope["layers"]]

    # -- models

    def model(self):
        if self.way == MEGATRON:
            from megatron_stack import Model
            return Model(self.kinds, self.counts, self.vocab, self.split)
        from blocks import Model
        return Model(self.kinds, self.counts, self.vocab)

    def block(self, kind):
        if self.way == MEGATRON:
            from megatron_stack import layer
            return layer(kind, self.split, self.torch.float32)
        from blocks import Block
        return Block(kind)

    def shard(self, net):
        """Units as the projection has them: embedding, each layer, norm and head."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh("cpu", (self.ranks,))
        for unit in (net.embedding, *net.blocks, [net.norm, net.head]):
            fully_shard(unit, mesh=mesh, reshard_after_forward=True)
        return fully_shard(net, mesh=mesh)

    def wrapped(self, net):
        if self.way == DDP:
            from torch.nn.parallel import DistributedDataParallel
            return DistributedDataParallel(net, bucket_cap_mb=BUCKET_BYTES >> 20,
                                           gradient_as_bucket_view=True)
        return self.shard(net) if self.way == FSDP else net

    # -- evidence

    def unit_of(self, count):
        """Parameters of the unit of that size, as the projection has units: experts apart."""
        net = self.model()
        layer = list(net.blocks[0].parameters())
        experts = [p for p in layer if p.dim() == 3]
        units = [list(net.embedding.parameters()), [p for p in layer if p.dim() < 3], experts,
                 [*net.norm.parameters(), *net.head.parameters()]]
        return {sum(p.numel() for p in unit): unit for unit in units}[count]

    def gather_as_fsdp(self, one):
        """The gather of one unit with the copies into and out of its buffer."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        unit = self.torch.nn.Module()
        for i, p in enumerate(self.unit_of(one["bytes"] // 2)):  # the plan counts 16 bits
            unit.register_parameter(f"p{i}", p)
        unit = fully_shard(unit, mesh=init_device_mesh("cpu", (self.ranks,)))

        def work():
            unit.unshard()
            unit.reshard()
        return work

    def scatter_as_fsdp(self, one):
        """Gradients into one buffer, the reduction, its mean added to what is there."""
        torch, dist = self.torch, self.dist
        gradients = [torch.randn_like(p) for p in self.unit_of(one["bytes"] // 4)]
        rows = [-(-g.shape[0] // self.ranks) * (g.numel() // g.shape[0]) for g in gradients]
        total = torch.zeros(sum(rows))

        def work():
            flat = torch.empty(self.ranks, sum(rows))
            torch._chunk_cat(gradients, dim=0, num_chunks=self.ranks, out=flat)
            part = torch.empty(sum(rows))
            dist.reduce_scatter_tensor(part, flat.view(-1))
            part.div_(self.ranks)
            total.add_(part)
        return work

    def reduce_as_ddp(self, one):
        """Bucket by bucket, the mean taken ahead of the sum."""
        count = one["bytes"] // 4
        buckets = self.torch.zeros(count).split(BUCKET_BYTES // 4)

        def work():
            for bucket in buckets:
                bucket.div_(self.ranks)
                self.dist.all_reduce(bucket)
        return work

    def exposed_share(self, probe):
        """Share of a reduction that a backward beside it does not hide."""
        block = self.block(self.kinds[0])
        x = self.torch.randn(self.mbs, self.seq, self.hidden, requires_grad=True)
        bucket = self.torch.zeros(sum(p.numel() for p in block.parameters()))
        out = [None]

        def forward():
            out[0] = block(x).sum()
            self.dist.barrier()

        def both():
            reduction = self.dist.all_reduce(bucket, async_op=True)
            out[0].backward()
            reduction.wait()

        alone = statistics.median(probe.sample(lambda: out[0].backward(), prepare=forward))
        moved = statistics.median(probe.sample(lambda: self.dist.all_reduce(bucket),
                                               prepare=self.dist.barrier))
        beside = statistics.median(probe.sample(both, prepare=forward))
        return min(1.0, max(0.0, (beside - alone) / moved))

    def measure_collective(self, probe, one):
        if self.way == FSDP:
            made = {"all_gather": self.gather_as_fsdp, "reduce_scatter": self.scatter_as_fsdp}
            probe.collective_as(one, made[one["op"]](one))
        elif self.way == DDP and one["op"] == "all_reduce":
            probe.collective_as(one, self.reduce_as_ddp(one))
        else:
            probe.collective(one, 2)  # fp32 here in place of 16 bits

    def measure(self):
        from measuring import Probe
        probe = Probe("cpu", self.task["repeats"], 60)
        for kind, count in zip(self.kinds, self.counts):
            probe.layer(kind, self.split, [self.block(kind) for _ in range(min(count, TURNS))],
                        accumulate=self.way != FSDP)
        shapes = {"tokens": self.mbs * self.seq, "vocab": self.vocab // self.tp,
                  "hidden": self.hidden}
        seen = []
        for one in self.task["scope"]["work"]:
            if one in seen:
                continue
            seen.append(one)
            if one["class"] == "collective":
                self.measure_collective(probe, one)
            elif one["name"] == "optimizer":
                probe.optimizer(one, list(self.wrapped(self.model()).parameters()))
            elif one["name"].startswith(("output", "final_norm", "loss", "embedding")):
                probe.kernel(one, shapes)
        exposed = self.exposed_share(probe) if self.way == DDP else 1.0
        if self.rank == 0:
            probe.write(self.task["evidence"], "cpu-core", self.task["software"])
        return {"exposed": exposed, "missing": probe.missing}

    # -- steps

    def steps(self):
        torch, dist = self.torch, self.dist
        net = self.model()
        whole = self.ranks == 1 or self.way in (DDP, FSDP)
        reference = [p.detach().clone() for p in net.parameters()] if whole else None
        wrapped = self.wrapped(net)
        optimizer = torch.optim.AdamW(wrapped.parameters(), lr=1e-6, foreach=True)
        replicas = self.ranks // self.tp
        micro = self.keys["gbs"] // replicas // self.mbs
        batch = torch.randint(self.vocab, (self.keys["gbs"], self.seq + 1),
                              generator=torch.Generator().manual_seed(7))
        own = batch[self.rank // self.tp * micro * self.mbs:][:micro * self.mbs]

        def step():
            total = 0.0
            for i in range(micro):
                if self.way == DDP:
                    wrapped.require_backward_grad_sync = i + 1 == micro
                rows = own[i * self.mbs:(i + 1) * self.mbs]
                loss = wrapped(rows[:, :-1], rows[:, 1:]) / micro
                loss.backward()
                total += loss.item()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            return total

        losses, samples = [], []
        for i in range(-2, self.task["steps"]):
            if self.ranks > 1:
                dist.barrier()
            start = time.perf_counter()
            losses.append(step())
            if self.ranks > 1:
                dist.barrier()
            if i >= 0:
                samples.append(time.perf_counter() - start)
        out = {"samples": samples}
        if self.ranks > 1 and whole:
            # one and two ranks must agree: the loss of the same weights on the same batch
            mean = torch.tensor(losses[0])
            dist.all_reduce(mean)
            alone = self.model()
            with torch.no_grad():
                for p, q in zip(alone.parameters(), reference):
                    p.copy_(q)
                own_loss = sum(alone(batch[i:i + 1, :-1], batch[i:i + 1, 1:]).item()
                               for i in range(len(batch))) / len(batch)
            out["difference"] = abs(mean.item() / self.ranks - own_loss) / abs(own_loss)
        return out


def worker(options):
    task = json.loads(pathlib.Path(options.task).read_text())
    rank = Rank(task, options.worker)
    out = rank.measure()
    out["steps"] = [rank.steps() for _ in range(task["repetitions"])]
    pathlib.Path(f"{options.task}.{options.worker}").write_text(json.dumps(out))
    if rank.ranks > 1:
        rank.dist.destroy_process_group()


# ---- driver


def launch(task, ranks, limit_s):
    # freed memory is kept, as a device's allocator does: no new pages in every step
    env = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()),
               OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", PYTHONWARNINGS="ignore",
               MALLOC_TRIM_THRESHOLD_=str(1 << 34), MALLOC_MMAP_THRESHOLD_=str(1 << 34),
               MALLOC_TOP_PAD_=str(64 << 20))
    children = []
    for rank in range(ranks):
        errors = open(f"{task}.{rank}.err", "w")  # a pipe that nobody reads would fill
        children.append(subprocess.Popen([sys.executable, __file__, "--worker", str(rank),
                                          "--task", str(task)], env=env,
                                         stdout=subprocess.DEVNULL, stderr=errors))
        errors.close()
    try:
        deadline = time.monotonic() + limit_s
        while any(child.poll() is None for child in children):
            failed = [r for r, child in enumerate(children) if child.poll() not in (None, 0)]
            if failed:
                break
            if time.monotonic() > deadline:
                sys.exit(f"{task}: no end within {limit_s} s")
            time.sleep(0.05)
        for rank, child in enumerate(children):
            if child.poll() not in (None, 0):
                text = pathlib.Path(f"{task}.{rank}.err").read_text()
                sys.exit(f"{task}: rank {rank} left with {child.returncode}\n{text[-1500:]}")
    finally:
        for child in children:
            child.kill()
            child.wait()


def orrery(options, *arguments):
    done = subprocess.run([options.orrery, *map(str, arguments), "--json"], capture_output=True,
                          text=True, timeout=60)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}: {done.stderr}")
    return json.loads(done.stdout)["result"]


def run_case(options, folder, way, model, keys):
    keys = {"gpus": 2, "mbs": 1, "seq": 256, "sharding": SHARDING[way], **keys}
    name = "-".join(["torch", way, model] + [f"{k}{keys[k]}" for k in ("gbs", "mbs", "seq")])
    software, plan = folder / "torch-gloo.yaml", folder / f"{name}.yaml"
    software.write_text(PROFILE.format(exposed=1))
    plan.write_text("".join(f"{k}: {v}\n" for k, v in {
        "model": folder / f"{model}.yaml", "hardware": folder / "cpu.yaml", "software": software,
        "overlap": "dp" if way == DDP else "none", "recompute": "none", **keys}.items()))
    scope = orrery(options, "measure", "--plan", plan, "--gpus", keys["gpus"], "--dry-run")
    task, evidence = folder / f"{name}.task", folder / f"{name}.json"
    task.write_text(json.dumps({"way": way, "keys": keys, "scope": scope, "repeats": 12,
                                "evidence": str(evidence), "software": "torch-gloo", "steps": 5,
                                "repetitions": options.repetitions}))
    launch(task, keys["gpus"], 240)
    ranks = [json.loads(pathlib.Path(f"{task}.{r}").read_text()) for r in range(keys["gpus"])]
    missing = [m for r in ranks for m in r["missing"]]
    if missing:
        sys.exit(f"{name}: could not measure {missing[0]['what']}: {missing[0]['why']}")
    exposed = statistics.mean(r["exposed"] for r in ranks)
    software.write_text(PROFILE.format(exposed=exposed))
    projected = orrery(options, "project", plan, "--evidence", evidence)
    medians = [statistics.median(max(s) for s in zip(*[r["steps"][i]["samples"] for r in ranks]))
               for i in range(options.repetitions)]
    differences = [s["difference"] for r in ranks for s in r["steps"] if "difference" in s]
    if differences and not max(differences) < SAME:
        sys.exit(f"{name}: the loss of two ranks is off by {max(differences):g}")
    real_s = statistics.median(medians)
    return {"case": way, "model": model, "keys": keys, "by": "torch", "ranks": keys["gpus"],
            "projected_s": projected["step_time_s"], "real_s": real_s, "samples_s": medians,
            "spread": (max(medians) - min(medians)) / real_s,
            "error": projected["step_time_s"] / real_s - 1, "exposed": exposed,
            "measured_share": projected["provenance"]["measured_s"] / projected["step_time_s"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--orrery")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--cases", type=int, default=len(CONTROLS) + len(CASES))
    parser.add_argument("--only", help="way, such as fsdp")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    if options.worker is not None:
        worker(options)
        return
    cases = [c for c in CONTROLS + CASES if options.only in (None, c[0])]
    if not all(subprocess.run([sys.executable, "-W", "ignore", "-c", "import megatron.core"],
                              capture_output=True).returncode == 0
               for c in cases[:1] if any(c[0] == MEGATRON for c in cases)):
        cases = [c for c in cases if c[0] != MEGATRON]
    for case in cases[:options.cases]:
        print(json.dumps(run_case(options, options.folder, *case)), flush=True)


if __name__ == "__main__":
    main()
