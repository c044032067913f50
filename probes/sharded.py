"""What FSDP2 does on the host around one unit of sharded parameters: measured on one rank.

Hooks, views, bookkeeping. Units of as many parameters as the real one, each of two elements, run on
a mesh of one rank, so that there is nothing to gather, copy or reduce. Their forward and backward
as wrapped, less the same ones plain, less a gather's own host time, which the record of the gather
holds. Between two units kernels run, so that the processor's caches are as they are in a step."""
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

UNITS = 4  # in a row: what a root does once a step is spread over them
EVICT_BYTES = 16 << 20  # more than caches of a processor's own


class Use(torch.autograd.Function):
    """Needs all parameters, computes nothing."""

    @staticmethod
    def forward(ctx, x, *parameters):
        ctx.shapes = [p.shape for p in parameters]
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return (gradient, *[torch.zeros(s, device=gradient.device) for s in ctx.shapes])


class Between(torch.autograd.Function):
    """Runs kernels in either direction and keeps their time apart."""

    @staticmethod
    def forward(ctx, x, run):
        ctx.run = run
        run()
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.run()
        return gradient, None


class Unit(nn.Module):
    def __init__(self, count):
        super().__init__()
        for i in range(count):
            self.register_parameter(f"p{i}", nn.Parameter(torch.zeros(2)))

    def forward(self, x):
        return Use.apply(x, *self.parameters())


class Chain(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.units = nn.ModuleList(Unit(count) for _ in range(UNITS))
        self.other_s = 0.0
        self.a, self.b = (torch.ones(EVICT_BYTES // 8) for _ in range(2))

    def between(self):
        start = time.perf_counter()
        torch.mul(self.a, 0.5, out=self.b)
        torch.mm(self.a[:1 << 18].view(512, 512), self.b[:1 << 18].view(512, 512))
        self.other_s += time.perf_counter() - start

    def forward(self, x):
        for unit in self.units:
            x = Between.apply(unit(x), self.between)
        return x

    def sharded(self, mesh):
        from torch.distributed.fsdp import fully_shard
        for unit in self.units:
            fully_shard(unit, mesh=mesh, reshard_after_forward=True)
        return fully_shard(self, mesh=mesh)


def one_rank_mesh(device):
    """A mesh of this rank alone; starts torch.distributed where nobody has."""
    from torch.distributed.device_mesh import init_device_mesh
    if not dist.is_initialized():
        dist.init_process_group("gloo" if device.type == "cpu" else "nccl",
                                store=dist.HashStore(), rank=0, world_size=1)
    return init_device_mesh(device.type, (dist.get_world_size(), 1),
                            mesh_dim_names=("all", "alone"))["alone"]


def time_chain(probe, chain):
    """Seconds of the host a unit: of forwards and of backwards."""
    x = torch.ones(4, device=probe.device, requires_grad=True)
    out, ahead, back = [None], [], []

    def forward():
        out[0] = chain(x)

    def once(work):
        chain.other_s = 0.0
        took = probe.on_host(work)
        return (took - chain.other_s) / UNITS

    for i in range(-2, probe.repeats):
        took = once(forward), once(lambda: out[0].backward(torch.ones_like(out[0])))
        if i >= 0:
            ahead.append(took[0])
            back.append(took[1])
    return ahead, back


def time_gathers(probe, chain):
    """Host time of a gather of nothing and of the release after it, with kernels between."""
    samples = []
    for _ in range(probe.repeats):
        chain.between()
        unit = chain.units[0]
        samples.append(probe.on_host(lambda: (unit.unshard(), unit.reshard())))
    return statistics.median(samples)


def measure(probe, gather_bytes, count):
    """Records the host's time around a unit of `count` parameters whose gather has that many
    bytes."""
    def work():
        bare = time_chain(probe, Chain(count).to(probe.device))
        chain = Chain(count).to(probe.device).sharded(one_rank_mesh(probe.device))
        full = time_chain(probe, chain)
        gather_s = time_gathers(probe, chain)
        for phase, whole, less in zip(("forward", "backward"), full, bare):
            other_s = statistics.median(less) + gather_s
            probe.record({"class": "layer", "op": "unit", "phase": phase, "bytes": gather_bytes},
                         [max(1e-9, s - other_s) for s in whole])

    probe.guarded(f"the host's part of a sharded unit of {count} parameters", work)
