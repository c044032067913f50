#!/usr/bin/env python3
"""The framework probe with each of its stacks on the CPU, where PyTorch is.

    tests/torch/stacks.py ORRERY PROBES

A stack that is not installed leaves an entry under `missing` that says so, and the rest goes on.
TorchTitan is stood in for where it is not installed, so that the way through it is run."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

orrery, probes = sys.argv[1:3]
here = pathlib.Path(__file__).resolve().parent
PLAN = """model: {name: t, layers: 2, hidden: 64, heads: 2, kv_heads: 1, head_dim: 32, ffn: 128,
        vocab: 256}
hardware: h100
software: executor
gpus: 1
mbs: 1
gbs: 1
seq: 64
"""


def main():
    python = os.environ.get("ORR_TORCH_PYTHON", sys.executable)

    def has(module):
        return subprocess.run([python, "-W", "ignore", "-c", f"import {module}"],
                              capture_output=True).returncode == 0

    if not has("torch"):
        print("skipped: PyTorch is not installed (ORR_TORCH_PYTHON names a Python that has it)")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        plan, scope, out = folder / "plan.yaml", folder / "scope.json", folder / "out.json"
        plan.write_text(PLAN)
        scope.write_text(subprocess.run([orrery, "measure", "--plan", plan, "--dry-run", "--json"],
                                        capture_output=True, text=True, check=True).stdout)

        def probe(stack, path=None):
            env = dict(os.environ, OMP_NUM_THREADS="1")
            if path:
                env["PYTHONPATH"] = str(path)
            done = subprocess.run([python, "-W", "ignore", pathlib.Path(probes) / "probe.py",
                                   "--scope", scope, "--device", "h100", "--cpu", "--repeats", "3",
                                   "--stack", stack, "--write", out],
                                  capture_output=True, text=True, env=env, timeout=200)
            if done.returncode != 0:
                sys.exit(f"{stack}: {done.stderr[-2000:]}")
            document = json.loads(out.read_text())
            layers = [r["phase"] for r in document["records"] if r["op"] == "layer"]
            return layers, document.get("missing", []), len(document["records"])

        for stack, path in (("plain", None), ("torchtitan", None),
                            ("torchtitan", here / "stand_in")):
            layers, missing, records = probe(stack, path)
            here_too = stack == "plain" or path or has("torchtitan")
            if here_too and layers != ["forward", "backward"]:
                sys.exit(f"{stack}: no layer was measured: {missing}")
            said = any("TorchTitan is not installed" in m["why"] for m in missing)
            if not here_too and not said:
                sys.exit(f"{stack}: nothing says that it is not installed: {missing}")
            if records < 10:
                sys.exit(f"{stack}: {records} records")
            kind = "stood in for" if path else "installed" if here_too else "not installed, said so"
            print(f"{stack}: {kind}, {records} records")


if __name__ == "__main__":
    main()
