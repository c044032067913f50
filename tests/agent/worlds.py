#!/usr/bin/env python3
"""Worlds that contradict the projection, drawn by a seeded generator that knows nothing of
data/agent/doubts.yaml: each hides one or two factors of random size on random mechanisms (an overlap
that happens in part, slow links or network, a kernel class that is slow under some condition, slow
memory, a dispatch that falls back, less memory than thought), and every plan has an error of its own.
  worlds.py BINARY [--worlds N] [--seed S] [--measurements M] [--loops N] [--verbose]
For each world: the regret of deciding without measuring, after M measurements that the planner chose
(`orrery next`), after the M fastest by projection, and after M at random. The first --loops worlds are
also played by the whole loop (`orrery tune --llm`) with a SCRIPTED model that follows the planner, and
with one that measures at random. Fails unless the planner and the loop beat random in the mean."""
import argparse
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from server import Script  # noqa: E402

WORKLOADS = [
    dict(model="mixtral-8x22b", hardware="mi355x", gpus=32, gbs=512, seq=4096),
    dict(model="mixtral-8x22b", hardware="h100", gpus=64, gbs=128, seq=4096),
    dict(model="llama-3.1-70b", hardware="h100", gpus=128, gbs=512, seq=8192),
    dict(model="llama-3.1-70b", hardware="mi300x", gpus=32, gbs=96, seq=8192),
    dict(model="llama-3.1-8b", hardware="h100", gpus=16, gbs=128, seq=8192),
]
VALUES = dict(tp=[1, 2, 4, 8], pp=[1, 2, 4, 8], vpp=[1, 2, 4, 7], ep=[1, 2, 4, 8], mbs=[1, 2, 4],
              schedule=["1f1b", "interleaved", "zb-h1", "zbv"], recompute=["none", "selective", "full", "block:2"],
              sharding=["none", "zero1", "zero2"], overlap=["none", "dp", "tp,dp", "dp,ep", "tp,dp,ep"])
NEAR = 0.85  # of the fastest drawn: plans that an error of the projection can put in another order
# What the workload states, and what follows from it; what a plan has that does not say.
WORKLOAD = {"model", "hardware", "cluster", "software", "fabric", "nodes", "gpus", "gpus_per_node", "nic", "dp",
            "micro_batches", "gbs", "seq"}
DEFAULTS = dict(tp=1, pp=1, vpp=1, ep=1, mbs=1, schedule="1f1b", recompute="none", overlap="none")
CONDITIONS = {
    "all plans": lambda p: True, "mbs 1": lambda p: p["mbs"] == 1, "mbs above 1": lambda p: p["mbs"] > 1,
    "tp above 1": lambda p: p["tp"] > 1, "tp 4 or more": lambda p: p["tp"] >= 4, "vpp above 1": lambda p: p["vpp"] > 1,
    "recompute": lambda p: p["recompute"] != "none", "pp 4 or more": lambda p: p["pp"] >= 4,
}


class Orrery:
    """`orrery mcp` as a quick way to many answers."""

    def __init__(self, binary):
        self.process = subprocess.Popen([binary, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.count = 0
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                "clientInfo": {"name": "worlds", "version": "1"}})

    def ask(self, method, params):
        self.count += 1
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}) + "\n")
        self.process.stdin.flush()
        while True:
            line = json.loads(self.process.stdout.readline())
            if line.get("id") == self.count:
                return line["result"]

    def call(self, tool, **arguments):
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        if answer.get("isError"):
            return None
        return answer["structuredContent"]["result"]

    def rows(self, base, plans):
        out = []
        for i in range(0, len(plans), 16):
            out += self.call("evaluate", **base, plans=plans[i:i + 16])["rows"]
        return out


def draw_plan(base, rng):
    """Values at random, without combinations that mean nothing (rules decide on the rest)."""
    plan = {key: rng.choice(values) for key, values in VALUES.items()}
    if plan["pp"] == 1:
        plan["schedule"] = "1f1b"
    if plan["schedule"] in ("1f1b", "zb-h1"):
        plan["vpp"] = 1
    elif plan["schedule"] == "zbv":
        plan["vpp"] = 2
    plan["vpp"] = max(plan["vpp"], 2) if plan["schedule"] == "interleaved" else plan["vpp"]
    plan["ep"] = plan["ep"] if "mixtral" in base["model"] else 1
    words = [w for w in plan["overlap"].split(",") if w in ("dp", "none") or plan[w] > 1]
    plan["overlap"] = ",".join(words) or "none"
    return plan


def draw_pool(orrery, base, rng):
    """Legal plans that fit, none far behind the best, each with its share of time by slice."""
    fits, seen, pool = [], set(), []
    for _ in range(40):
        plans = []
        while len(plans) < 64:
            plans.append(draw_plan(base, rng))
        fits += [(row, plan) for row, plan in zip(orrery.rows(base, plans), plans) if row.get("fits")]
        fits.sort(key=lambda one: -one[0]["tokens_per_s_per_gpu"])
        near = {row["id"] for row, _ in fits if row["tokens_per_s_per_gpu"] >= NEAR * fits[0][0]["tokens_per_s_per_gpu"]}
        if len(near) >= 40:
            break
    for row, plan in fits:
        if row["id"] in near and row["id"] not in seen:
            seen.add(row["id"])
            pool.append((row, plan))
    return pool


def figure(orrery, base, name):
    return orrery.call("hardware_show", name=base["hardware"])[name]


def draw_mechanism(orrery, base, rng):
    """A name, and a function of a plan's row and keys: its log time over the projected one; infinity
    when it does not run."""
    moe = "mixtral" in base["model"]
    kind = rng.choice(["overlap", "link", "network", "kernel", "kernel", "memory speed", "capacity"] + ["dispatch"] * moe)
    changed, strength = {}, 1.0

    def projected(row, plan):
        other = orrery.rows(base, [{**plan, **changed(plan)}])[0]
        if not other.get("legal"):
            return 0.0
        return strength * math.log(row["tokens_per_s_per_gpu"] / other["tokens_per_s_per_gpu"])
    if kind == "overlap":
        word, strength = rng.choice(["tp", "dp"] + ["ep"] * moe), rng.uniform(0.4, 1.0)

        def changed(plan):
            words = plan["overlap"] if isinstance(plan["overlap"], list) else plan["overlap"].split(",")
            left = [w for w in words if w != word]
            return {"overlap": ",".join(left) or "none"}
        return f"{word} overlap hides {100 * (1 - strength):.0f} %", projected
    if kind in ("link", "network", "memory speed"):
        factor = rng.uniform(*{"link": (0.25, 0.8), "network": (0.15, 0.8), "memory speed": (0.6, 0.92)}[kind])
        key = {"link": "link_Bps", "network": "nic_Bps", "memory speed": "hbm_Bps"}[kind]
        value = figure(orrery, base, key) * factor
        fixed = {"nic": value} if kind == "network" else {"hardware": {"like": base["hardware"], key: value}}

        def changed(plan):
            return fixed
        return f"{key} times {factor:.2f}", projected
    if kind == "dispatch":
        strength = rng.uniform(0.4, 1.0)

        def changed(plan):
            return {"dispatch": "alltoall"}
        return f"dispatch falls back by {100 * strength:.0f} %", projected
    if kind == "capacity":
        limit = 1 - rng.uniform(0.03, 0.2)
        return f"memory ends at {100 * limit:.0f} %", lambda row, plan: (
            math.inf if row["memory"]["of_usable_frac"] > limit else 0.0)
    piece, factor = rng.choice(["gemm", "attention", "elementwise"]), rng.uniform(1.08, 1.7)
    condition = rng.choice(sorted(CONDITIONS))

    def slower(row, plan):
        if not CONDITIONS[condition](plan):
            return 0.0
        slices = orrery.call("project", **base, **plan)
        share = slices["breakdown"][piece + "_s"] / slices["step_time_s"]
        return math.log(1 + share * (factor - 1))
    return f"{piece} slower by {100 * (factor - 1):.0f} % where {condition}", slower


class World:
    """What a device shows, and what is true of it behind the noise of a measurement."""

    def __init__(self, orrery, pools, rng):
        self.base, pool = rng.choice(pools)
        hidden = [draw_mechanism(orrery, self.base, rng) for _ in range(rng.choice([1, 1, 2]))]
        self.hidden, self.effects = " and ".join(name for name, _ in hidden), [f for _, f in hidden]
        self.salt = rng.random()
        candidates = rng.sample(pool, 12)
        self.plans, self.rows = [plan for _, plan in candidates], [row for row, _ in candidates]
        self.projected = [row["tokens_per_s_per_gpu"] for row in self.rows]
        self.truth, self.seen = zip(*(self.run(row, plan) for row, plan in zip(self.rows, self.plans)))

    def run(self, row, plan):
        """Tokens/s/GPU in truth and as measured; 0: it does not run. Every plan has an own error."""
        own = random.Random(f"{self.salt} {row['id']}")
        log_time = sum(effect(row, plan) for effect in self.effects) + own.gauss(0, 0.02)
        truth = row["tokens_per_s_per_gpu"] * math.exp(-log_time)
        return truth, truth * math.exp(own.gauss(0, 0.01))


def look(orrery, world, measured):
    out = orrery.call("next", **world.base, plans=world.plans,
                      measured=[{"plan": world.plans[i], "tokens_per_s_per_gpu": world.seen[i]} for i in measured])
    best = max(out["candidates"], key=lambda c: c["expected"])["plan"]
    following = out["next"]["plan"] if out["next"] else None
    return world.plans.index(best), None if following is None else world.plans.index(following)


def regret(world, chosen):
    return 1 - world.truth[chosen] / max(world.truth)


def play(orrery, world, count, draws, rng):
    measured = []
    blind, following = look(orrery, world, [])
    while following is not None and len(measured) < count:
        measured.append(following)
        chosen, following = look(orrery, world, measured)
    planned = regret(world, chosen if measured else blind)
    fastest = sorted(range(len(world.plans)), key=lambda i: -world.projected[i])[:count]
    greedy = regret(world, look(orrery, world, fastest)[0])
    at_random = [regret(world, look(orrery, world, rng.sample(range(len(world.plans)), count))[0]) for _ in range(draws)]
    return regret(world, blind), planned, len(measured), greedy, sum(at_random) / draws


# ---- the whole loop ---------------------------------------------------------------------------

def last_results(body):
    return [json.loads(m["content"]) for m in body["messages"] if m["role"] == "tool"]


def scripted(plans, order, count):
    """SCRIPTED: tries the plans, has `count` trials measured, submits. order: indices of the trials that
    fit; None: the fastest first, then whatever the planner says."""
    state = {"left": count}

    def step(body):
        results = last_results(body)
        if not results:
            return {"calls": [("evaluate", {"plans": plans, "why": "SCRIPTED"})]}
        fits = [row["trial"] for row in results[0]["trials"] if row.get("fits")]
        trial = fits[order[count - state["left"]] % len(fits)] if order and state["left"] else None
        if order is None and state["left"]:
            fastest = max((row for row in results[0]["trials"] if row.get("fits")), key=lambda row: row["tokens_per_s_per_gpu"])
            trial = results[-1]["planner"]["would_measure_trial"] if "planner" in results[-1] else fastest["trial"]
        if trial is None:
            return {"calls": [("submit", {"trial": fits[0], "rationale": "SCRIPTED"})]}
        state["left"] -= 1
        return {"calls": [("propose_measurement", {"trial": trial, "why": "SCRIPTED"})]}
    return step


def tune(binary, base, *more):
    options = [word for key, value in base.items() for word in (f"--{key}", str(value))]
    done = subprocess.run([binary, "tune", *options, "--budget", "2", "--json", *more], capture_output=True, text=True,
                          timeout=300)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-500:])
    return json.loads(done.stdout)["result"]


def loops(orrery, binary, world, count, draws, rng):
    """Regret of the whole loop, following the planner and measuring at random: against the best of all
    that it knew, what the search found included."""
    result = tune(binary, world.base)
    known = [result["best"]["plan"]] + [one["plan"] for one in result["top"]]
    own = [{}] + [{key: value for key, value in plan.items() if key not in WORKLOAD} for plan in known] + world.plans
    rows = orrery.rows(world.base, own)
    device, truth = [], {}
    for row, plan in zip(rows, own):
        if row.get("fits") and row["id"] not in truth:
            truth[row["id"]], seen = world.run(row, {**DEFAULTS, **plan})
            device.append({"plan": plan, "tokens_per_s_per_gpu": seen})
    plans = own[:16]

    def once(order):
        with tempfile.TemporaryDirectory() as folder, Script([scripted(plans, order, count)], repeat=True) as server:
            file = pathlib.Path(folder) / "device.json"
            file.write_text(json.dumps(device))
            run = tune(binary, world.base, "--llm", server.url, "--llm-api", "chat", "--llm-model", "SCRIPTED",
                       "--llm-fairness", "off", "--llm-rounds", "1", "--llm-turns", "20", "--device-s", "1e9",
                       "--replay-device", str(file))["investigation"]
        assert sum(m["run"] for m in run["measurements"]) <= count, run["measurements"]
        assert run["best"]["id"] in truth, run["best"]
        return 1 - truth[run["best"]["id"]] / max(truth.values())
    at_random = [once([rng.randrange(1000) for _ in range(count)]) for _ in range(draws)]
    return once(None), sum(at_random) / draws


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("--worlds", type=int, default=40)
    parser.add_argument("--loops", type=int, default=6)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--measurements", type=int, default=3)
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    orrery = Orrery(options.binary)
    pools = [(base, draw_pool(orrery, base, rng)) for base in WORKLOADS]
    pools = [(base, pool) for base, pool in pools if len(pool) >= 12]
    assert len(pools) >= 3, "too few plans were found"
    sums, of_loops = [0.0] * 4, []
    flips = better = worse = 0
    for number in range(options.worlds):
        world = World(orrery, pools, rng)
        blind, planned, spent, greedy, at_random = play(orrery, world, options.measurements, options.draws, rng)
        for i, value in enumerate((blind, planned, greedy, at_random)):
            sums[i] += value / options.worlds
        flips += blind > 0.01
        better += planned < at_random - 1e-9
        worse += planned > at_random + 1e-9
        if number < options.loops:
            of_loops.append(loops(orrery, options.binary, world, options.measurements, 2, rng))
        if options.verbose:
            print(f"{number:3} {world.base['model']:14} {world.hidden:66} unmeasured {100 * blind:5.2f} %, planner "
                  f"{100 * planned:5.2f} % ({spent}), fastest {100 * greedy:5.2f} %, random {100 * at_random:5.2f} %", flush=True)
    print(f"{options.worlds} held-out worlds of seed {options.seed}, {options.measurements} measurements of 12 plans; the "
          f"projection's choice is more than 1 % off in {flips}")
    for name, value in zip(("without measuring", "planner", "fastest by projection", "at random"), sums):
        print(f"  mean regret {name:22} {100 * value:5.2f} %")
    print(f"  the planner is better than random in {better}, worse in {worse}")
    passed = [sums[1] < sums[3], sums[1] < sums[0]]
    if of_loops:
        led, at_random = (sum(column) / len(of_loops) for column in zip(*of_loops))
        print(f"the whole loop in the first {len(of_loops)} of them, its model SCRIPTED:\n"
              f"  mean regret {'following the planner':22} {100 * led:5.2f} %\n"
              f"  mean regret {'at random':22} {100 * at_random:5.2f} %")
        passed.append(led < at_random)
    print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
