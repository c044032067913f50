"""Real PyTorch steps of one and two ranks on gloo against their projections; for
scripts/hybrid-check, which reads the list of cases that this prints as JSON, one a line.

Ranks are processes. For each case they first measure, both at once, each with the other's load: a
layer forward and backward, the head's and the embedding's ops, the optimizer, collectives of the
plan's sizes with the copies that DDP and FSDP make around them, what FSDP's hooks cost a rank by
itself, and what part of a reduction shows when a backward runs beside it. Then they run whole steps
of more layers: split by DDP, by FSDP2, or by tensor parallelism with layers of megatron.core.
`orrery project --evidence` sees what was measured first; nothing of the steps. Cases that differ in
the number of micro-batches alone share one measurement."""
import argparse
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist

import sharded
from measuring import Probe

DDP, FSDP, MEGATRON = "ddp", "fsdp", "megatron"
CONTROLS = [("alone", "small", {"gbs": 2})]
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
REPEATS, STEPS = 16, 3  # of what is measured; steps of a repetition
WARM_UP = (2, 1)  # steps ahead of the first repetition, and of each later one
HEAP_BYTES = 1 << 30  # touched ahead of all, so that no step waits for new pages
LIMIT_S = 240  # of one case
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
        self.task, self.rank = task, rank
        torch.manual_seed(1)
        self.way, self.keys = task["way"], task["keys"]
        self.ranks = self.keys["gpus"]
        if self.ranks > 1 and not dist.is_initialized():
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
            return layer(kind, self.split, torch.float32)
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
        unit = torch.nn.Module()
        for i, p in enumerate(self.unit_of(one["bytes"] // 2)):  # the plan counts 16 bits
            unit.register_parameter(f"p{i}", p)
        unit = fully_shard(unit, mesh=init_device_mesh("cpu", (self.ranks,)))

        def work():
            unit.unshard()
            unit.reshard()
        return work

    def scatter_as_fsdp(self, one):
        """Gradients into one buffer, the reduction, its mean added to what is there."""
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
        buckets = torch.zeros(count).split(BUCKET_BYTES // 4)

        def work():
            for bucket in buckets:
                bucket.div_(self.ranks)
                dist.all_reduce(bucket)
        return work

    def exposed_share(self, probe):
        """Share of a reduction that a backward beside it does not hide."""
        block = self.block(self.kinds[0])
        x = torch.randn(self.mbs, self.seq, self.hidden, requires_grad=True)
        bucket = torch.zeros(sum(p.numel() for p in block.parameters()))
        out = [None]

        def forward():
            out[0] = block(x).sum()
            dist.barrier()

        def both():
            reduction = dist.all_reduce(bucket, async_op=True)
            out[0].backward()
            reduction.wait()

        alone = statistics.median(probe.sample(lambda: out[0].backward(), prepare=forward))
        moved = statistics.median(probe.sample(lambda: dist.all_reduce(bucket),
                                               prepare=dist.barrier))
        beside = statistics.median(probe.sample(both, prepare=forward))
        return min(1.0, max(0.0, (beside - alone) / moved))

    def kernels(self):
        """Runs what lies between two collectives of a step: a layer's forward."""
        block = self.block(self.kinds[0])
        x = torch.randn(self.mbs, self.seq, self.hidden)

        def work():
            with torch.no_grad():
                block(x)
        return work

    def measure_collective(self, probe, one, kernels):
        if self.way == FSDP:
            made = {"all_gather": self.gather_as_fsdp, "reduce_scatter": self.scatter_as_fsdp}
            probe.collective_as(one, lambda: made[one["op"]](one), kernels)
            if one["op"] == "all_gather":
                sharded.measure(probe, one["bytes"], len(self.unit_of(one["bytes"] // 2)))
        elif self.way == DDP and one["op"] == "all_reduce":
            probe.collective_as(one, lambda: self.reduce_as_ddp(one))
        else:
            probe.collective(one, 2)  # fp32 here in place of 16 bits

    def measure(self):
        probe = Probe("cpu", REPEATS, 60)
        for kind, count in zip(self.kinds, self.counts):
            probe.layer(kind, self.split, [self.block(kind) for _ in range(min(count, TURNS))],
                        accumulate=self.way != FSDP, waits=self.way == FSDP)
        shapes = {"tokens": self.mbs * self.seq, "vocab": self.vocab // self.tp,
                  "hidden": self.hidden}
        seen, kernels = [], self.kernels() if self.way == FSDP else None
        for one in self.task["scope"]["work"]:
            if one in seen:
                continue
            seen.append(one)
            if one["class"] == "collective":
                self.measure_collective(probe, one, kernels)
            elif one["name"] == "optimizer":
                probe.optimizer(one, list(self.wrapped(self.model()).parameters()))
            elif one.get("outside_layers"):
                probe.kernel(one, shapes)
        exposed = self.exposed_share(probe) if self.way == DDP else 1.0
        if self.rank == 0:
            probe.write(self.task["evidence"], "cpu-core", self.task["software"])
        return {"exposed": exposed, "missing": probe.missing}

    # -- steps

    def steps(self, gbs, warm_up):
        net = self.model()
        whole = self.ranks == 1 or self.way in (DDP, FSDP)
        reference = [p.detach().clone() for p in net.parameters()] if whole else None
        wrapped = self.wrapped(net)
        optimizer = torch.optim.AdamW(wrapped.parameters(), lr=1e-6, foreach=True)
        replicas = self.ranks // self.tp
        micro = gbs // replicas // self.mbs
        batch = torch.randint(self.vocab, (gbs, self.seq + 1),
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
        for i in range(-warm_up, STEPS):
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


def follow_parent():
    """Ends this rank when whoever started it is gone, whatever it waits for."""
    parent = os.getppid()

    def watch():
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def put(path, document):
    """Whole or not at all: the driver reads while ranks write."""
    part = pathlib.Path(f"{path}.part")
    part.write_text(json.dumps(document))
    part.replace(path)


def worker(options):
    follow_parent()
    torch.set_num_threads(1)
    torch.ones(HEAP_BYTES // 4)  # and freed: the heap keeps it
    ranks = 1
    for task in json.loads(pathlib.Path(options.tasks).read_text()):
        rank = Rank(task, options.worker)
        ranks = rank.ranks
        measured = rank.measure()
        for one in task["steps"]:
            own = [rank.steps(one["gbs"], WARM_UP[min(i, 1)]) for i in range(task["repetitions"])]
            put(f"{one['answer']}.{options.worker}", {**measured, "steps": own})
    if ranks > 1:
        dist.destroy_process_group()


# ---- driver


class Ranks:
    """Processes that work through a list of tasks; ended when the caller leaves."""

    def __init__(self, tasks, ranks):
        # freed memory is kept, as a device's allocator does: no new pages in every step
        env = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()),
                   OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", PYTHONWARNINGS="ignore",
                   MALLOC_TRIM_THRESHOLD_=str(1 << 34), MALLOC_MMAP_THRESHOLD_=str(1 << 34),
                   MALLOC_TOP_PAD_=str(64 << 20))
        self.children, self.errors = [], []
        for rank in range(ranks):
            self.errors.append(f"{tasks}.{rank}.err")
            with open(self.errors[-1], "w") as errors:  # a pipe that nobody reads would fill
                self.children.append(subprocess.Popen(
                    [sys.executable, __file__, "--worker", str(rank), "--tasks", str(tasks)],
                    env=env, stdout=subprocess.DEVNULL, stderr=errors))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in self.children:
            child.kill()
            child.wait()

    def answers(self, path):
        """What each rank wrote, as soon as all have."""
        paths = [pathlib.Path(f"{path}.{r}") for r in range(len(self.children))]
        deadline = time.monotonic() + LIMIT_S
        while not all(p.exists() for p in paths):
            for rank, child in enumerate(self.children):
                if child.poll() not in (None, 0):
                    text = pathlib.Path(self.errors[rank]).read_text()
                    sys.exit(f"{path}: rank {rank} left with {child.returncode}\n{text[-1500:]}")
            if time.monotonic() > deadline:
                sys.exit(f"{path}: no end within {LIMIT_S} s")
            time.sleep(0.05)
        return [json.loads(p.read_text()) for p in paths]


def orrery(options, *arguments):
    done = subprocess.run([options.orrery, *map(str, arguments), "--json"], capture_output=True,
                          text=True, timeout=60)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}: {done.stderr}")
    return json.loads(done.stdout)["result"]


def keys_of(way, keys):
    return {"gpus": 1 if way == "alone" else 2, "mbs": 1, "seq": 256, "sharding": SHARDING[way],
            **keys}


def name_of(way, model, keys):
    keys = keys_of(way, keys)
    return "-".join(["torch", way, model] + [f"{k}{keys[k]}" for k in ("gbs", "mbs", "seq")])


def write_plan(folder, name, way, model, keys, exposed=1.0):
    software, plan = folder / f"{name}.software.yaml", folder / f"{name}.yaml"
    software.write_text("name: torch-gloo\n" + PROFILE.format(exposed=exposed))
    plan.write_text("".join(f"{k}: {v}\n" for k, v in {
        "model": folder / f"{model}.yaml", "hardware": folder / "cpu.yaml", "software": software,
        "overlap": "dp" if way == DDP else "none", "recompute": "none", **keys}.items()))
    return plan


def tasks_of(options, cases):
    """One task for the cases that differ in gbs alone: they are measured once."""
    tasks = {}
    for way, model, own in cases:
        keys = keys_of(way, own)
        shared = json.dumps([way, model, {k: v for k, v in keys.items() if k != "gbs"}])
        name = name_of(way, model, own)
        if shared not in tasks:
            plan = write_plan(options.folder, name, way, model, keys)
            scope = orrery(options, "measure", "--plan", plan, "--gpus", keys["gpus"], "--dry-run")
            tasks[shared] = {"way": way, "model": model, "keys": keys, "scope": scope, "steps": [],
                             "evidence": str(options.folder / f"{name}.json"),
                             "software": "torch-gloo", "repetitions": options.repetitions}
        tasks[shared]["steps"].append({"gbs": keys["gbs"], "name": name,
                                       "answer": str(options.folder / f"{name}.answer")})
    return list(tasks.values())


def row_of(options, task, one, ranks):
    """A case's projection beside its steps."""
    name, way, model = one["name"], task["way"], task["model"]
    keys = {**task["keys"], "gbs": one["gbs"]}
    missing = [m for r in ranks for m in r["missing"]]
    if missing:
        sys.exit(f"{name}: could not measure {missing[0]['what']}: {missing[0]['why']}")
    exposed = statistics.mean(r["exposed"] for r in ranks)
    plan = write_plan(options.folder, name, way, model, keys, exposed)
    projected = orrery(options, "project", plan, "--evidence", task["evidence"])
    samples = [[max(s) for s in zip(*[r["steps"][i]["samples"] for r in ranks])]
               for i in range(options.repetitions)]
    medians = [statistics.median(s) for s in samples]
    differences = [s["difference"] for r in ranks for s in r["steps"] if "difference" in s]
    if differences and not max(differences) < SAME:
        sys.exit(f"{name}: the loss of two ranks is off by {max(differences):g}")
    real_s = statistics.median(medians)
    return {"name": name, "case": way, "model": model, "keys": keys, "by": "torch",
            "ranks": keys["gpus"], "projected_s": projected["step_time_s"], "real_s": real_s,
            "samples_s": medians, "all_samples_s": samples,
            "error": projected["step_time_s"] / real_s - 1, "exposed": exposed,
            "evidence": json.loads(pathlib.Path(task["evidence"]).read_text())["records"],
            "measured_share": projected["provenance"]["measured_s"] / projected["step_time_s"]}


def run_cases(options, cases):
    """Prints a row as each case ends."""
    for ranks in (1, 2):
        tasks = tasks_of(options, [c for c in cases if keys_of(c[0], c[2])["gpus"] == ranks])
        if not tasks:
            continue
        path = options.folder / f"torch-{ranks}.tasks"
        path.write_text(json.dumps(tasks))
        with Ranks(path, ranks) as running:
            for task in tasks:
                for one in task["steps"]:
                    row = row_of(options, task, one, running.answers(one["answer"]))
                    print(json.dumps(row), flush=True)


def has_megatron():
    return subprocess.run([sys.executable, "-W", "ignore", "-c", "import megatron.core"],
                          capture_output=True).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--tasks", help=argparse.SUPPRESS)
    parser.add_argument("--orrery")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--cases", type=int, default=len(CONTROLS) + len(CASES))
    parser.add_argument("--only", help="ways, such as fsdp,ddp")
    parser.add_argument("--skip", default="", help="names of cases that are there, by commas")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    if options.worker is not None:
        worker(options)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked to stop"))
    cases = [c for c in CONTROLS + CASES if options.only is None or c[0] in options.only.split(",")]
    cases = [c for c in cases if name_of(*c) not in options.skip.split(",")][:options.cases]
    if any(c[0] == MEGATRON for c in cases) and not has_megatron():
        print("megatron.core is not installed: its cases are left out", file=sys.stderr)
        cases = [c for c in cases if c[0] != MEGATRON]
    run_cases(options, cases)


if __name__ == "__main__":
    main()
