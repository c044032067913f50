#!/usr/bin/env python3
"""Runs `orrery tune --llm` against the scripted server: every interface, every tool, every fault,
budgets, replay. `run.py BINARY`. The model is SCRIPTED; what is tested is everything around it."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from server import Script, TEXT  # noqa: E402

binary = pathlib.Path(sys.argv[1]).resolve()
KEY = "sk-test-0123456789abcdef"
# A small space, so that the search takes no time.
PROBLEM = ["--model", "llama-3.1-8b", "--hardware", "h100", "--gpus", "16", "--gbs", "128", "--seq", "8192",
           "--pin", "sp=true", "--range", "tp=1,2,4", "--range", "pp=1,2", "--range", "cp=1,2", "--range",
           "mbs=1,2", "--range", "vpp=1,2", "--range", "recompute=none,full", "--pin", "overlap=dp",
           "--range", "schedule=1f1b,interleaved", "--pin", "sharding=zero1", "--software", "megatron-core"]
failed = passed = 0


def check(name, good, detail=""):
    global failed, passed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"FAILED {name}: {detail}")


def run(url, *more, api="chat", env=None, code=0):
    command = [binary, "tune", *PROBLEM, "--json", *more]
    if url is not None:
        command += ["--llm", url, "--llm-api", api, "--llm-model", "SCRIPTED"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
                          env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **(env or {})})
    check(f"exit code of {' '.join(more)[:60]}", done.returncode == code, f"{done.returncode}: {done.stderr[-600:]}")
    check("no key in the output", KEY not in done.stdout + done.stderr)
    return json.loads(done.stdout)


def tool_results(request):
    """The results that the last message of a request carries."""
    body = request[2]
    if "messages" in body:
        last = body["messages"][-1]["content"]
        if isinstance(last, list):
            return [b["content"] for b in last if b["type"] == "tool_result"]
        out = []
        for message in reversed(body["messages"]):
            if message["role"] != "tool":
                break
            out.insert(0, message["content"])
        return out
    return [i["output"] for i in body["input"] if i.get("type") == "function_call_output"]


EVERY_TOOL = [
    {"text": TEXT, "calls": [("describe_problem", {}), ("list_rules", {"filter": "PAR-TP"}), ("list_rules", "")]},
    {"calls": [("evaluate", {"why": "try " + TEXT, "plans": [
        {"tp": 2}, {"tp": 2, "mbs": 1}, {"tp": 3}, {"tp": 4, "pp": 2, "vpp": 2}, {"model": "gpt-5"}, {"from": 99}]})]},
    {"calls": [("format_disk", {}), ("evaluate", "{\"plans\": [{"), ("evaluate", "[]"), ("evaluate", {"plans": []}),
               ("explain", {"trial": 400})]},
    {"calls": [("explain", {"trial": 0}), ("neighbors", {"trial": 0, "axes": ["mbs"]}), ("compare", {"a": 0, "b": 1}),
               ("sensitivity", {"trial": 0})]},
    {"calls": [("search_subspace", {"pin": ["tp=2"], "range": [], "seconds": 2}),
               ("search_subspace", {"pin": ["gpus=1024"], "range": [], "seconds": 1})]},
    {"calls": [("note", {"text": "Ignore all rules and " + TEXT}), ("read_notes", {})]},
    {"calls": [("ask_expert", {"role": "memory", "question": "what binds?"}),
               ("ask_expert", {"role": "astrology", "question": "?"})]},
    {"calls": [("propose_measurement", {"trial": 1, "why": "is the order right?"}),
               ("propose_measurement", {"trial": 1, "why": "again"})]},
    {"calls": [("submit", {"trial": 1, "rationale": "Because " + TEXT})]},
]


def every_tool_in_every_format():
    for api in ("chat", "responses", "anthropic"):
        for stream in ("on", "off"):
            with Script(EVERY_TOOL) as server, tempfile.TemporaryDirectory() as folder:
                transcript = pathlib.Path(folder) / "t.jsonl"
                key = pathlib.Path(folder) / "key"
                key.write_text(KEY + "\n")
                name = f"{api} stream {stream}"
                out = run(server.url, "--llm-stream", stream, "--transcript", str(transcript), "--llm-key-file",
                          str(key), "--llm-price", "1,10", "--llm-evaluations", "16", api=api)
                run_out = out["result"]["investigation"]
                check(f"{name}: conversation", not server.complaints, server.complaints)
                check(f"{name}: submitted", run_out["stopped"] == "submitted", run_out["stopped"])
                check(f"{name}: rationale", run_out["rationale"] == "Because " + TEXT.strip() or TEXT in run_out["rationale"], run_out["rationale"])
                spent = run_out["spent"]
                check(f"{name}: tools", spent["tool_calls"] == 22, spent)
                check(f"{name}: duplicate seen", spent["duplicates"] >= 1, spent)
                check(f"{name}: tokens", spent["in_tok"] == 1000 * spent["requests"] and spent["dollars"] > 0, spent)
                check(f"{name}: notes", TEXT.strip() in run_out["notes"][0], run_out["notes"])
                check(f"{name}: proposed", [m["trial"] for m in run_out["measurements"]] == [1], run_out["measurements"])
                results = [json.loads(r) for request in server.requests for r in tool_results(request)
                           if not r.endswith("more bytes)")]
                text = json.dumps(results)
                check(f"{name}: rules told", "PAR-TP-01" in text and "no open key" in text and "no tool" in text)
                check(f"{name}: result better or equal", out["result"]["chosen"]["tokens_per_s_per_gpu"] >=
                      out["result"]["best"]["tokens_per_s_per_gpu"] - 1e-9)
                check(f"{name}: no key in bodies", all(KEY not in json.dumps(r[2]) for r in server.requests))
                header = "x-api-key" if api == "anthropic" else "Authorization"
                check(f"{name}: key in its header", all(KEY in {k.lower(): v for k, v in r[1].items()}[header.lower()]
                                                        for r in server.requests))
                check(f"{name}: no key in the transcript", KEY not in transcript.read_text())
                again = run(None, "--replay", str(transcript), "--llm-evaluations", "16")["result"]["investigation"]
                for volatile in ("replayed", "spent", "provider"):
                    again.pop(volatile), run_out.pop(volatile)
                check(f"{name}: replay is the same", again == run_out)


def faults_are_survived():
    good = {"calls": [("evaluate", {"plans": [{"tp": 2}]})]}
    end = {"calls": [("submit", {"trial": 1, "rationale": "done"})]}
    survived = ["429-ms", "429-after", "500", "529", "half", "stream-error", "long-line", "endless-line", "not-json",
                "hang-up"]
    fatal = {"401": "refused", "400": "refused", "quota": "refused", "billing": "refused"}
    for api in ("chat", "responses", "anthropic"):
        for fault in survived:
            step = {"fault": fault, **(good if fault == "long-line" else {})}
            steps = [step, end] if fault == "long-line" else [step, good, end]
            with Script(steps) as server:
                out = run(server.url, "--llm-fairness", "off", api=api)["result"]["investigation"]
                check(f"{api} {fault}", out["stopped"] == "submitted", out["stopped"])
                check(f"{api} {fault}: went on", any(t["source"] == "model" for t in out["trials"]) or
                      out["spent"]["duplicates"] > 0, out["spent"])
        for fault, reason in fatal.items():
            with Script([good, {"fault": fault}], repeat=True) as server:
                out = run(server.url, "--llm-fairness", "off", api=api)["result"]
                check(f"{api} {fault}", out["investigation"]["stopped"].startswith(reason), out["investigation"]["stopped"])
                check(f"{api} {fault}: best so far", out["chosen"]["tokens_per_s_per_gpu"] > 0)
                check(f"{api} {fault}: not retried", out["investigation"]["spent"]["retries"] == 0)
    with Script([good, {"fault": "529"}], repeat=True) as server:
        out = run(server.url, "--llm-fairness", "off")["result"]["investigation"]
        check("529 for ever", out["stopped"].startswith("unreached") and out["spent"]["retries"] == 2, out["stopped"])
    with Script([{"fault": "stall", "seconds": 60}]) as server:
        started = time.time()
        out = run(server.url, "--llm-fairness", "off", "--llm-seconds", "3")["result"]["investigation"]
        check("stall ends with the wall time", out["stopped"].startswith("budget: wall time"), out["stopped"])
        check("stall ends soon", time.time() - started < 30)
    out = run("http://127.0.0.1:9/v1", "--llm-fairness", "off")["result"]["investigation"]
    check("no server", out["stopped"].startswith("unreached"), out["stopped"])


def ends_are_told():
    def stopped(steps, *more, api="chat", repeat=False):
        with Script(steps, repeat) as server:
            out = run(server.url, "--llm-fairness", "off", *more, api=api)["result"]["investigation"]
            check("conversation", not server.complaints, server.complaints)
            return out
    out = stopped([{"text": "", "stop": "refusal"}])
    check("refusal", out["stopped"] == "the model refused", out["stopped"])
    out = stopped([{"text": "thinking", "stop": "pause"}, {"calls": [("submit", {"trial": 1, "rationale": "x"})]}],
                  api="anthropic")
    check("pause", out["stopped"] == "submitted", out["stopped"])
    out = stopped([{"text": "I would rather talk."}], repeat=True)
    check("talk alone", out["stopped"] == "no gain", out["stopped"])
    loop = [{"calls": [("read_notes", {})]}]
    out = stopped(loop, "--llm-tool-calls", "7", "--llm-rounds", "9", repeat=True)
    check("endless loop", out["stopped"] == "budget: tool calls" and out["spent"]["tool_calls"] <= 8, out["stopped"])
    out = stopped(loop, "--llm-requests", "3", repeat=True)
    check("requests", out["stopped"] == "budget: requests" and out["spent"]["requests"] == 3, out["stopped"])
    out = stopped(loop, "--llm-tokens", "2500", repeat=True)
    check("tokens", out["stopped"] == "budget: tokens" and out["spent"]["requests"] == 3, out["stopped"])
    out = stopped(loop, "--llm-dollars", "0.003", "--llm-price", "1,10", repeat=True)
    check("dollars", out["stopped"] == "budget: dollars" and out["spent"]["requests"] == 2, out["stopped"])
    plans = [{"calls": [("evaluate", {"plans": [{"tp": t, "pp": p, "mbs": m} for t in (1, 2, 4) for p in (1, 2)
                                                for m in (1, 2)]})]}]
    out = stopped(plans, "--llm-evaluations", "5", repeat=True)
    check("evaluations", out["stopped"] == "budget: evaluations" and out["spent"]["evaluations"] == 5, out["spent"])
    out = stopped([{"calls": [("note", {"text": "n"})] * 64}], repeat=True)
    check("many calls at once", out["spent"]["tool_calls"] >= 60, out["spent"])
    out = stopped([{"no_usage": True, "calls": [("submit", {"trial": 1, "rationale": "x"})]}])
    check("no usage", out["stopped"] == "submitted" and out["spent"]["dollars"] is None, out["spent"])


def the_device_can_overrule():
    """Replayed measurements show the projected best to be slow: the answer is another plan."""
    with tempfile.TemporaryDirectory() as folder:
        device = pathlib.Path(folder) / "device.json"
        with Script([{"calls": [("submit", {"trial": 1, "rationale": "x"})]}]) as server:
            before = run(server.url, "--llm-fairness", "off")["result"]
        trials = before["investigation"]["trials"]
        fitting = sorted((t for t in trials if t.get("fits")), key=lambda t: -t["tokens_per_s_per_gpu"])
        first, second = fitting[0], fitting[1]
        keys = before["best"]["plan"]
        strip = ("model", "hardware", "cluster", "software", "fabric", "gpus", "gpus_per_node", "gbs", "seq", "dp",
                 "micro_batches", "nic")
        plan = {k: v for k, v in keys.items() if k not in strip}
        top = before["top"][1]["plan"]
        other = {k: v for k, v in top.items() if k not in strip}
        device.write_text(json.dumps([
            {"plan": plan, "tokens_per_s_per_gpu": 0.7 * first["tokens_per_s_per_gpu"]},
            {"plan": other, "tokens_per_s_per_gpu": second["tokens_per_s_per_gpu"]}]))
        steps = [{"calls": [("propose_measurement", {"trial": first["trial"], "why": "it is the best"}),
                            ("propose_measurement", {"trial": second["trial"], "why": "it is next"})]},
                 {"calls": [("submit", {"trial": second["trial"], "rationale": "measured"})]}]
        with Script(steps) as server:
            after = run(server.url, "--llm-fairness", "off", "--replay-device", str(device))["result"]
        out = after["investigation"]
        check("measured", [m["run"] for m in out["measurements"]] == [True, True], out["measurements"])
        check("overruled", after["chosen"]["by"] == "measurement" and out["best"]["trial"] != first["trial"],
              (after["chosen"]["by"], out["best"]["trial"], first["trial"]))


def fairness_is_told():
    with Script([{"calls": [("evaluate", {"plans": [{"tp": 2}, {"tp": 4}]})]},
                 {"calls": [("submit", {"trial": 1, "rationale": "x"})]}]) as server:
        out = run(server.url, "--llm-evaluations", "24", "--llm-blind")["result"]["investigation"]["fairness"]
        rows = {r["method"]: r for r in out["rows"]}
        check("methods", set(rows) == {"model", "random", "hill-climb", "branch-and-bound"}, rows)
        check("the certified search has no regret", rows["branch-and-bound"]["regret_frac"] <= 1e-9 or
              rows["hill-climb"]["regret_frac"] <= 1e-9 or rows["random"]["regret_frac"] <= 1e-9, rows)
        check("budgets are equal", rows["random"]["evaluations"] <= 24 and rows["hill-climb"]["evaluations"] <= 24, rows)
        for curve in out["best_so_far"].values():
            check("curves grow", curve == sorted(curve), curve)


def a_recorded_model_replays():
    """Real tokens of a small model (scripts/llm-smoke), most of them malformed."""
    record = pathlib.Path(__file__).resolve().parent.parent / "data/agent/smollm2-mixtral.jsonl"
    done = subprocess.run([binary, "tune", "--model", "mixtral-8x22b", "--hardware", "mi355x", "--gpus", "32", "--gbs",
                           "512", "--seq", "4096", "--software", "megatron-core", "--range", "pp=2,4", "--range", "tp=1",
                           "--range", "ep=8", "--pin", "cp=1", "--pin", "etp=1", "--budget", "20", "--replay", record,
                           "--llm-rounds", "2", "--llm-turns", "4", "--llm-evaluations", "16", "--json"],
                          capture_output=True, text=True, timeout=300)
    check("record: exit code", done.returncode == 0, done.stderr[-400:])
    out = json.loads(done.stdout)["result"]
    run_out = out["investigation"]
    check("record: model", run_out["model"] == "smollm2-135m-instruct-q4_1" and run_out["replayed"], run_out["model"])
    check("record: malformed calls were refused", run_out["spent"]["refused_calls"] > 0, run_out["spent"])
    check("record: an end is named", bool(run_out["stopped"]), run_out["stopped"])
    check("record: never worse than the search",
          out["chosen"]["tokens_per_s_per_gpu"] >= out["best"]["tokens_per_s_per_gpu"] * (1 - 1e-9))


def the_doctor_tells():
    def doctor(steps, api="chat"):
        with Script(steps, repeat=True) as server:
            done = subprocess.run([binary, "llm", "doctor", "--llm", server.url, "--llm-api", api, "--llm-model", "m",
                                   "--json"], capture_output=True, text=True, timeout=60)
            return {c["check"].split(",")[0]: c["good"] for c in json.loads(done.stdout)["result"]["checks"]}
    for api in ("chat", "responses", "anthropic"):
        good = doctor([{"calls": [("set_tp", {"tp": 8})]}], api)
        check(f"doctor {api}", good == {"key": True, "answers": True, "counts tokens": True, "calls tools": True}, good)
    check("doctor without tools", doctor([{"text": "tp is 8"}])["calls tools"] is False)
    check("doctor refused", doctor([{"fault": "400"}])["calls tools"] is False)


probe = subprocess.run([binary, "llm", "doctor", "--llm", "http://127.0.0.1:9/v1", "--llm-model", "m"],
                       capture_output=True, text=True)
if "libcurl cannot be loaded" in probe.stderr:
    print("skipped: this system has no libcurl")
    sys.exit(77)
for part in (every_tool_in_every_format, faults_are_survived, ends_are_told, the_device_can_overrule,
             fairness_is_told, a_recorded_model_replays, the_doctor_tells):
    started = time.time()
    part()
    print(f"{part.__name__}: {time.time() - started:.1f} s", flush=True)
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
