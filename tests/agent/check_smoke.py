#!/usr/bin/env python3
"""What must hold of investigations that a real model led: `check_smoke.py FOLDER NAME...` reads
NAME.json, NAME.replay.json and NAME.jsonl of each (scripts/llm-smoke)."""
import json
import pathlib
import sys

folder, names = pathlib.Path(sys.argv[1]), sys.argv[2:]
passed = failed = tried = 0


def check(what, good, detail=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"FAILED {what}: {detail}")


for name in names:
    live, again = (json.loads((folder / f"{name}{end}.json").read_text())["result"] for end in ("", ".replay"))
    lines = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
    run, spent = live["investigation"], live["investigation"]["spent"]
    search, chosen = live["best"]["tokens_per_s_per_gpu"], live["chosen"]["tokens_per_s_per_gpu"]
    # Experts answer in words; all other answers are calls.
    replies = [line["body"] for line in lines if line["kind"] == "reply" and line["with_tools"]]
    cut = sum(body["choices"][0]["finish_reason"] == "length" for body in replies)
    tools = [line["name"] for line in lines if line["kind"] == "tool"]
    print(f"{name}: {run['model']}, {spent['requests']} requests, {spent['in_tok']} tokens in, {spent['out_tok']} out, "
          f"{cut} cut off; {spent['tool_calls']} calls ({', '.join(sorted(set(tools)))}), {spent['refused_calls']} refused, "
          f"{spent['evaluations']} plans tried; ended: {run['stopped']}")
    for row in run["fairness"]["rows"]:
        print(f"  {row['method']:18} best {row['best']:8.1f}  regret {100 * row['regret_frac']:6.2f} %")
    print(f"  chosen by {live['chosen']['by']}: {chosen:.1f} tokens/s/GPU (search {search:.1f})")
    check(f"{name}: never worse than the search", chosen >= search * (1 - 1e-9), (chosen, search))
    check(f"{name}: real tokens", spent["out_tok"] > 0 and len(replies) + spent["expert_calls"] == spent["requests"], spent)
    for body in replies:
        if body["choices"][0]["finish_reason"] == "stop":
            call = json.loads(body["choices"][0]["message"]["content"])
            check(f"{name}: the grammar held", set(call) == {"tool", "arguments"}, call)
    check(f"{name}: what is cut off is refused, not lost", cut <= spent["refused_calls"], (cut, spent))
    check(f"{name}: calls are counted", spent["tool_calls"] == len(tools) == len(replies), (spent, len(tools)))
    same = [[(t["id"], t["source"]) for t in r["investigation"]["trials"] if "id" in t] for r in (live, again)]
    check(f"{name}: the replay is the same", same[0] == same[1] and
          again["investigation"]["stopped"] == run["stopped"] and again["chosen"] == live["chosen"],
          (run["stopped"], again["investigation"]["stopped"]))
    if name == "cut-off":
        check("cut-off: answers were cut off", cut > 0, cut)
    if name == "tokens":
        check("tokens: the budget held", run["stopped"] == "budget: tokens", run["stopped"])
    tried += spent["evaluations"]
    if name == "few-tools":
        check("few-tools: no other tool", set(tools) <= {"evaluate", ""}, tools)
check("the model's own plans were tried", tried > 0, tried)
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
