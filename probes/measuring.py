"""Timing with warm-up and spread, records of evidence, and time limits."""
import datetime
import json
import os
import platform
import signal
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

from blocks import Block

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


AHEAD_CYCLES = 200000  # that a device waits, so that the host's first launches are behind it
STALL = 5  # robust standard deviations: further off, something else ran


class TooLong(Exception):
    pass


def typical(samples):
    """The mean, since times add up to a step as means do; stalls are left out."""
    middle = statistics.median(samples)
    off = 1.4826 * statistics.median(abs(s - middle) for s in samples)
    kept = [s for s in samples if abs(s - middle) <= STALL * max(off, 0.01 * middle)]
    return statistics.mean(kept)


def plain(one, *others):
    """Fields of a record: without what the work list says beside them."""
    beside = ("of_phase", "outside_layers", "bytes_per_param", *others)
    return {k: v for k, v in one.items() if k not in beside}


class Probe:
    """Collects records; whatever goes wrong with one becomes an entry under `missing`."""

    def __init__(self, device, repeats=10, limit_s=60, dtype=None):
        self.device, self.repeats, self.limit_s = torch.device(device), repeats, limit_s
        self.on_gpu = self.device.type == "cuda"
        self.dtype = dtype or (torch.bfloat16 if self.on_gpu else torch.float32)
        self.ranks = dist.get_world_size() if dist.is_initialized() else 1
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.records, self.missing = [], []
        self.sink = None  # path, device, software of the file that is kept up to date

    # ---- time

    def sync(self):
        if self.on_gpu:
            torch.cuda.synchronize()

    def once(self, work):
        if not self.on_gpu:
            start = time.perf_counter()
            work()
            return time.perf_counter() - start
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(AHEAD_CYCLES)
        start.record()
        work()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e-3

    def on_host(self, work):
        """Seconds until the host is through, whatever the device still does."""
        self.sync()
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    def sample(self, work, prepare=None, repeats=None):
        """Seconds of each repetition; `prepare` runs ahead of each, untimed."""
        samples = []
        for i in range(-2, repeats or self.repeats):
            if prepare:
                prepare()
            self.sync()
            taken = self.once(work)
            if i >= 0:
                samples.append(taken)
        return samples

    def slowest(self, samples):
        """Of each repetition the time of the last rank: what follows waits for it."""
        if self.ranks == 1:
            return samples
        both = torch.tensor(samples, dtype=torch.float64, device=self.device)
        dist.all_reduce(both, op=dist.ReduceOp.MAX)
        return both.tolist()

    def record(self, fields, samples):
        middle = statistics.median(samples)
        off = statistics.median(abs(s - middle) for s in samples)
        self.records.append({**fields, "time_us": 1e6 * typical(samples),
                             "spread": 1.4826 * off / middle if middle > 0 else 0,
                             "samples": len(samples)})

    def guarded(self, what, work):
        """Runs one part under a time limit."""
        def late(number, frame):
            raise TooLong()

        before = signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, self.limit_s)
        try:
            return work()
        except TooLong:
            self.missing.append({"what": what, "why": f"no end within {self.limit_s:g} s"})
        except (RuntimeError, NotImplementedError, ValueError, AssertionError, ImportError,
                TypeError) as error:
            self.missing.append({"what": what, "why": str(error).split("\n")[0][:200]})
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            if self.sink:  # whatever ends the probe leaves what was measured until then
                self.write(*self.sink, "everything after " + what)
        return None

    def tensor(self, *shape, grad=False):
        return torch.randn(*shape, device=self.device, dtype=self.dtype, requires_grad=grad)

    # ---- parts

    def layer(self, kind, split, blocks=None, accumulate=True, waits=False):
        """A layer as a whole: forward, and backward without recomputation, in turn as in training.

        Several `blocks` of the kind take turns, so that weights come from memory and not from a
        cache that one layer alone would fit. accumulate: gradients are added to what is there.
        waits: a collective follows forward and backward, which begins when the last rank is there.
        """
        tp = split["tp"]
        name = "a layer of width %d" % kind["hidden"]

        def work():
            layers = [b.to(self.device, self.dtype) for b in blocks or [Block(kind, tp)]]
            x = self.tensor(split["mbs"], split["seq"] // split["cp"], kind["hidden"], grad=True)
            gradient = torch.ones_like(x)
            ahead, back = [], []
            for i in range(-2 * len(layers), self.repeats):
                layer = layers[i % len(layers)]
                out = [None]
                if not accumulate:
                    layer.zero_grad(set_to_none=True)

                def forward():
                    out[0] = layer(x)

                def backward():
                    out[0].backward(gradient)

                took = []
                for half in (forward, backward):
                    if self.ranks > 1 and (waits or half is forward):
                        dist.barrier()
                    self.sync()
                    took.append(self.once(half))
                if i >= 0:
                    ahead.append(took[0])
                    back.append(took[1])
            if waits:
                ahead, back = self.slowest(ahead), self.slowest(back)
            fields = {"class": "layer", "op": "layer", "hidden": kind["hidden"],
                      "heads": kind["heads"], "kv_heads": kind.get("kv_heads", kind["heads"]),
                      "head_dim": kind["head_dim"],
                      "v_dim": kind.get("v_dim", kind["head_dim"]), "seq": split["seq"],
                      "mbs": split["mbs"], "tp": tp, "cp": split["cp"], "ep": split["ep"],
                      "sp": int(split.get("sp", False))}
            for size in ("ffn", "experts", "topk", "expert_ffn", "shared_ffn"):
                if kind.get(size):
                    fields[size] = kind[size]
            self.record({**fields, "phase": "forward"}, ahead)
            self.record({**fields, "phase": "backward"}, back)

        self.guarded(name, work)

    def kernel(self, one, shapes):
        """One op of the work list. `shapes`: tokens and vocabulary, which a loss needs."""
        fields = plain(one)
        what = " ".join(str(one[k]) for k in ("name", "op", "phase") if k in one)

        def work():
            self.record(fields, self.sample(*self.kernel_work(one, shapes)))

        self.guarded(what, work)

    def kernel_work(self, one, shapes):
        op = one["op"]
        if op in ("gemm", "grouped_gemm"):
            m, n, k, batch = (one[s] for s in ("m", "n", "k", "batch"))
            count = (batch,) if batch > 1 else ()
            phase = one.get("phase", "forward")
            a = self.tensor(*count, k, m) if phase == "weight_grad" else self.tensor(*count, m, k)
            b = self.tensor(*count, n, k) if phase == "forward" else self.tensor(*count, k, n)
            a = a.transpose(-1, -2) if phase == "weight_grad" else a
            b = b.transpose(-1, -2) if phase == "forward" else b
            if one.get("out_bytes") == 8:  # a sum in fp32 is kept beside the product
                total = torch.zeros(*count, m, n, device=self.device)
                return (lambda: total.add_(torch.matmul(a, b)),)
            return (lambda: torch.matmul(a, b),)
        if op == "attention":
            shape = (one["batch"], one["heads"])
            q = self.tensor(*shape, one["seq_q"], one["head_dim"], grad=True)
            k = self.tensor(*shape, one["seq_kv"], one["head_dim"], grad=True)
            v = self.tensor(*shape, one["seq_kv"], one["v_dim"], grad=True)
            out, gradient = [None], self.tensor(*shape, one["seq_q"], one["v_dim"])

            def forward():
                out[0] = F.scaled_dot_product_attention(q, k, v, is_causal=one["causal"])

            if one["phase"] == "forward":
                return (forward,)
            return (lambda: out[0].backward(gradient)), forward
        if op == "memory":
            return self.memory_work(one, shapes)
        raise NotImplementedError(f"the probe does not run '{op}'")

    def memory_work(self, one, shapes):
        backward = one.get("of_phase") == "backward"
        if one["family"] == "loss":
            logits = self.tensor(shapes["tokens"], shapes["vocab"], grad=True)
            targets = torch.randint(shapes["vocab"], (shapes["tokens"],), device=self.device)
            return self.both(lambda: F.cross_entropy(logits.float(), targets), backward)
        if one["family"] in ("norm_fwd", "norm_bwd"):
            x = self.tensor(shapes["tokens"], shapes["hidden"], grad=True)
            weight = self.tensor(shapes["hidden"], grad=True)
            return self.both(lambda: F.rms_norm(x, (shapes["hidden"],), weight), backward)
        if one["family"] == "embedding":
            table = self.tensor(shapes["vocab"], shapes["hidden"], grad=True)
            ids = torch.randint(shapes["vocab"], (shapes["tokens"],), device=self.device)
            return self.both(lambda: F.embedding(ids, table), backward)
        # as much traffic, half of it reads
        bytes_each = torch.empty(0, dtype=self.dtype).element_size()
        x = self.tensor(max(1, one["bytes"] // (2 * bytes_each)))
        out = torch.empty_like(x)
        return (lambda: torch.mul(x, 0.5, out=out),)

    @staticmethod
    def both(function, backward):
        out = [None]

        def forward():
            out[0] = function()

        if not backward:
            return (forward,)
        return (lambda: out[0].backward(torch.ones_like(out[0]))), forward

    def optimizer(self, fields, parameters):
        """A step of AdamW over real parameters, gradients cleared after it, recorded as the plan's
        optimizer."""
        def work():
            for p in parameters:
                p.grad = torch.ones_like(p)
            optimizer = torch.optim.AdamW(parameters, lr=1e-6, foreach=True)

            def step():
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)

            self.record(plain(fields), self.sample(step))

        self.guarded("optimizer step", work)

    def collective_as(self, one, make, before=None):
        """One that a wrapper of the framework runs, with the copies that it makes. make() gives
        what to time; `before` runs ahead of it, untimed: kernels, so that caches are not its own.
        """
        def prepare():
            if before:
                before()
            dist.barrier()

        def work():
            samples = self.slowest(self.sample(make(), prepare, 2 * self.repeats))
            self.record(plain(one, "name"), samples)

        self.guarded(f"{one['op']} of {one['bytes']} bytes", work)

    def collective(self, one, stand_in=1):
        """stand_in: bytes moved by those that the plan counts (2: fp32 in place of 16 bits)."""
        what = f"{one['op']} of {one['bytes']} bytes"

        def work():
            if one["ranks"] != self.ranks:
                raise NotImplementedError(f"needs {one['ranks']} ranks, there are {self.ranks}")
            size = torch.empty(0, dtype=self.dtype).element_size()
            count = max(1, round(one["bytes"] * stand_in / size / self.ranks)) * self.ranks
            whole, part = self.tensor(count), self.tensor(count // self.ranks)
            other = torch.empty_like(whole)
            peer = (self.rank + 1) % self.ranks
            works = {
                "all_reduce": lambda: dist.all_reduce(whole),
                "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
                "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),
                "all_to_all": lambda: dist.all_to_all_single(other, whole),
                "broadcast": lambda: dist.broadcast(whole, 0),
                "send_recv": lambda: [r.wait() for r in dist.batch_isend_irecv(
                    [dist.P2POp(dist.isend, whole, peer),
                     dist.P2POp(dist.irecv, other, (self.rank - 1) % self.ranks)])],
            }
            self.record(plain(one, "name"),
                        self.slowest(self.sample(works[one["op"]], prepare=dist.barrier)))

        self.guarded(what, work)

    # ---- file

    def detail(self):
        if not self.on_gpu:
            machine = platform.processor() or platform.machine()
            return f"{machine}, {torch.get_num_threads()} threads"
        clock = ""
        try:
            clock = f", {torch.cuda.clock_rate(self.device)} MHz"
        except (RuntimeError, ModuleNotFoundError, AttributeError):
            pass  # no management library
        return torch.cuda.get_device_name(self.device) + clock

    def write(self, path, device, software, unfinished=None):
        """unfinished: what is not there yet, for a file that is to be written again."""
        document = {"schema": "orrery.evidence/1",
                    "device": {"name": device, "detail": self.detail()},
                    "software": software,
                    "source": f"probe, torch {torch.__version__}, {self.dtype}",
                    "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
                    "records": self.records}
        missing = list(self.missing)
        if unfinished:
            missing.append({"what": unfinished, "why": "the probe was ended before its end"})
        if missing:
            document["missing"] = missing
        part = f"{path}.part"
        with open(part, "w") as file:
            json.dump(document, file, indent=1)
            file.write("\n")
        os.replace(part, path)
