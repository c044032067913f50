#!/usr/bin/env python3
"""A scripted model server: plays OpenAI Chat Completions, OpenAI Responses and Anthropic Messages,
streamed and whole, and everything that goes wrong with them.

A script is a list of steps, one for each request that carries tools:
  {"text": "..."}                           an answer in words
  {"calls": [("evaluate", {...}), ...]}     tool calls; arguments as a dict, or as raw text
  {"stop": "refusal" | "pause" | "length"}  how the answer ends
  {"fault": NAME, ...}                      one of FAULTS; the next step is for the retry
Requests without tools (experts, the doctor's first question) get the text "ready".
The model's name is SCRIPTED, so that nobody takes it for one."""
import http.server
import json
import socket
import threading
import time

MODEL = "SCRIPTED"
TEXT = "Ünïcode “quotes” and 漢字 in every answer. "


def arguments_text(arguments):
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def arguments_object(arguments):
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
        return value if isinstance(value, dict) else {}
    except ValueError:
        return {}


class Chat:
    path = "/chat/completions"

    @staticmethod
    def whole(step, usage):
        message = {"role": "assistant", "content": step.get("text")}
        stop = {"refusal": "content_filter", "length": "length"}.get(step.get("stop"), "stop")
        if step.get("calls"):
            message["tool_calls"] = [{"id": f"call_{i}", "type": "function",
                                      "function": {"name": name, "arguments": arguments_text(a)}}
                                     for i, (name, a) in enumerate(step["calls"])]
            stop = "tool_calls"
        if step.get("stop") == "refusal":
            message["refusal"] = "I will not."
        body = {"id": "chatcmpl-1", "object": "chat.completion", "model": MODEL,
                "choices": [{"index": 0, "finish_reason": stop, "message": message}]}
        if usage:
            body["usage"] = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
        return body

    @staticmethod
    def events(step, usage):
        whole = Chat.whole(step, usage)
        choice = whole["choices"][0]
        message = choice["message"]

        def chunk(delta, finish=None):
            return None, {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": MODEL,
                          "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        yield chunk({"role": "assistant"})
        for piece in pieces(message.get("content") or ""):
            yield chunk({"content": piece})
        if message.get("refusal"):
            yield chunk({"refusal": message["refusal"]})
        calls = message.get("tool_calls", [])
        for i, call in enumerate(calls):
            yield chunk({"tool_calls": [{"index": i, "id": call["id"], "type": "function",
                                         "function": {"name": call["function"]["name"], "arguments": ""}}]})
        # Arguments of parallel calls come interleaved.
        parts = [list(pieces(call["function"]["arguments"])) for call in calls]
        for n in range(max(map(len, parts), default=0)):
            for i, part in enumerate(parts):
                if n < len(part):
                    yield chunk({"tool_calls": [{"index": i, "function": {"arguments": part[n]}}]})
        yield chunk({}, choice["finish_reason"])
        if usage:
            yield None, {"id": "chatcmpl-1", "choices": [], "usage": whole["usage"]}
        yield None, "[DONE]"

    @staticmethod
    def error(kind, message):
        return {"error": {"type": kind, "code": kind, "message": message, "param": None}}


class Responses:
    path = "/responses"

    @staticmethod
    def whole(step, usage):
        output = [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "opaque"}]
        if step.get("text"):
            output.append({"type": "message", "role": "assistant",
                           "content": [{"type": "output_text", "text": step["text"], "annotations": []}]})
        if step.get("stop") == "refusal":
            output.append({"type": "message", "role": "assistant",
                           "content": [{"type": "refusal", "refusal": "I will not."}]})
        for i, (name, a) in enumerate(step.get("calls", [])):
            output.append({"type": "function_call", "id": f"fc_{i}", "call_id": f"call_{i}",
                           "name": name, "arguments": arguments_text(a), "status": "completed"})
        body = {"id": "resp_1", "object": "response", "model": MODEL, "status": "completed",
                "error": None, "output": output}
        if step.get("stop") == "length":
            body["status"] = "incomplete"
            body["incomplete_details"] = {"reason": "max_output_tokens"}
        if usage:
            body["usage"] = {"input_tokens": 1000, "output_tokens": 50, "total_tokens": 1050}
        return body

    @staticmethod
    def events(step, usage):
        whole = Responses.whole(step, usage)
        yield "response.created", {"type": "response.created", "sequence_number": 0,
                                   "response": {**whole, "status": "in_progress", "output": []}}
        for piece in pieces(step.get("text") or ""):
            yield "response.output_text.delta", {"type": "response.output_text.delta", "delta": piece}
        last = "response.incomplete" if whole["status"] == "incomplete" else "response.completed"
        yield last, {"type": last, "response": whole}

    error = Chat.error


class Anthropic:
    path = "/v1/messages"

    @staticmethod
    def whole(step, usage):
        content = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]
        if step.get("text"):
            content.append({"type": "text", "text": step["text"]})
        for i, (name, a) in enumerate(step.get("calls", [])):
            content.append({"type": "tool_use", "id": f"toolu_{i}", "name": name, "input": arguments_object(a)})
        stop = {"refusal": "refusal", "pause": "pause_turn", "length": "max_tokens"}.get(
            step.get("stop"), "tool_use" if step.get("calls") else "end_turn")
        body = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL,
                "content": content, "stop_reason": stop, "stop_sequence": None}
        if usage:
            body["usage"] = {"input_tokens": 900, "cache_read_input_tokens": 100, "output_tokens": 50}
        return body

    @staticmethod
    def events(step, usage):
        whole = Anthropic.whole(step, usage)
        start = {**whole, "content": [], "stop_reason": None}
        yield "message_start", {"type": "message_start", "message": start}
        yield "ping", {"type": "ping"}
        raw = [None] * (len(whole["content"]) - len(step.get("calls", []))) + [a for _, a in step.get("calls", [])]
        for i, block in enumerate(whole["content"]):
            kind = block["type"]
            empty = {"thinking": {"thinking": "", "signature": ""}, "text": {"text": ""},
                     "tool_use": {"input": {}}}[kind]
            yield "content_block_start", {"type": "content_block_start", "index": i,
                                          "content_block": {**block, **empty}}

            def delta(fields):
                return "content_block_delta", {"type": "content_block_delta", "index": i, "delta": fields}
            if kind == "thinking":
                yield delta({"type": "thinking_delta", "thinking": block["thinking"]})
                yield delta({"type": "signature_delta", "signature": block["signature"]})
            elif kind == "text":
                for piece in pieces(block["text"]):
                    yield delta({"type": "text_delta", "text": piece})
            else:
                for piece in pieces(arguments_text(raw[i])):
                    yield delta({"type": "input_json_delta", "partial_json": piece})
            yield "content_block_stop", {"type": "content_block_stop", "index": i}
        usage_now = {"usage": {"output_tokens": 50}} if usage else {}
        yield "message_delta", {"type": "message_delta", "delta": {"stop_reason": whole["stop_reason"]}, **usage_now}
        yield "message_stop", {"type": "message_stop"}

    @staticmethod
    def error(kind, message):
        return {"type": "error", "error": {"type": kind, "message": message}}


APIS = {"chat": Chat, "responses": Responses, "anthropic": Anthropic}


def pieces(text, size=7):
    return (text[i:i + size] for i in range(0, len(text), size))


def render(name, data):
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return (f"event: {name}\n" if name else "") + f"data: {text}\n\n"


def check_conversation(api, body):
    """What a real server would refuse: calls without results, results without calls."""
    if api is Chat:
        open_calls = set()
        for message in body["messages"]:
            if message["role"] == "tool":
                assert message["tool_call_id"] in open_calls, "a result without its call"
                open_calls.discard(message["tool_call_id"])
            else:
                assert not open_calls, f"calls without results: {open_calls}"
                open_calls = {c["id"] for c in message.get("tool_calls") or []}
                for call in message.get("tool_calls") or []:
                    json.loads(call["function"]["arguments"])
        assert not open_calls
    elif api is Anthropic:
        assert body["max_tokens"] > 0
        open_calls = set()
        for message in body["messages"]:
            blocks = message["content"]
            results = {b["tool_use_id"] for b in blocks if b["type"] == "tool_result"}
            assert results == open_calls, (results, open_calls)
            open_calls = {b["id"] for b in blocks if b["type"] == "tool_use"}
            assert all(isinstance(b["input"], dict) for b in blocks if b["type"] == "tool_use")
            assert all(b["text"] for b in blocks if b["type"] == "text"), "an empty text"
            if message["role"] == "assistant" and open_calls:
                assert blocks[0]["type"] == "thinking" and blocks[0]["signature"], "a thought was dropped"
        assert not open_calls
    else:
        assert body["store"] is False
        kinds = [item.get("type") for item in body["input"]]
        calls = [i["call_id"] for i in body["input"] if i.get("type") == "function_call"]
        outputs = [i["call_id"] for i in body["input"] if i.get("type") == "function_call_output"]
        assert len(calls) == len(outputs), (calls, outputs)
        assert not calls or "reasoning" in kinds, "a thought was dropped"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body, headers=()):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def chunk(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def start_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("x-request-id", "req_1")
        self.end_headers()

    def stream(self, text, size=11, stop_after=None):
        """Sends text in pieces that halve characters; stop_after bytes are sent when given."""
        data = text.encode()[:stop_after]
        for i in range(0, len(data), size):
            self.chunk(data[i:i + size])

    def end_stream(self):
        self.wfile.write(b"0\r\n\r\n")

    def do_POST(self):
        server = self.server.script
        api = next((a for a in APIS.values() if self.path.endswith(a.path)), None)
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        body = json.loads(raw)
        with server.lock:
            server.requests.append((self.path, dict(self.headers), body))
            try:
                check_conversation(api, body)
            except AssertionError as error:
                server.complaints.append(str(error))
            if not server.always and not body.get("tools") and "response_format" not in body:
                step = {"text": "ready"}
            else:
                step = server.next_step(body)
        try:
            self.play(api, step, body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client hung up, as it may

    def play(self, api, step, body):
        fault = step.get("fault")
        usage = not step.get("no_usage")
        if fault is not None:
            FAULTS[fault](self, api, step, body)
        elif body.get("stream"):
            self.start_stream()
            self.stream(": keep-alive\n\n" + "".join(render(*e) for e in api.events(step, usage)))
            self.end_stream()
        else:
            self.answer(200, api.whole(step, usage))


# ---- faults -----------------------------------------------------------------------------------

def status(code, kind, headers=()):
    def play(self, api, step, body):
        self.answer(code, api.error(kind, "as scripted"), headers)
    return play


def half_a_stream(self, api, step, body):
    self.start_stream()
    text = "".join(render(*e) for e in api.events({"text": TEXT * 3}, True))
    self.stream(text, stop_after=len(text.encode()) // 2)
    self.close_connection = True
    self.connection.shutdown(socket.SHUT_RDWR)


def error_in_stream(self, api, step, body):
    self.start_stream()
    events = list(api.events({"text": TEXT}, True))
    self.stream("".join(render(*e) for e in events[:2]))
    if api is Responses:
        data = {"type": "response.failed", "response": {"status": "failed", "error": {
            "code": "server_error", "message": "as scripted"}}}
        self.stream(render("response.failed", data))
    else:
        self.stream(render("error" if api is Anthropic else None, api.error("overloaded_error", "as scripted")))
    self.end_stream()


def stall(self, api, step, body):
    self.start_stream()
    events = list(api.events({"text": TEXT}, True))
    self.stream(render(*events[0]))
    self.server.script.stalled.wait(step.get("seconds", 30))
    self.close_connection = True


def long_line(self, api, step, body):
    self.start_stream()
    filled = {"text": "x" * 65536 + TEXT, "calls": step.get("calls", [])}
    self.stream("".join(render(*e) for e in api.events(filled, True)), size=4096)
    self.end_stream()


def endless_line(self, api, step, body):
    self.start_stream()
    for _ in range(64):
        self.chunk(b"data: " + b"x" * 65536)
    self.end_stream()


def not_json(self, api, step, body):
    self.answer(200, b"<html>captive portal</html>")


def echo_key(self, api, step, body):
    self.answer(401, api.error("authentication_error", "bad key " + str(self.headers.get("Authorization"))))


def hang_up(self, api, step, body):
    self.close_connection = True
    self.connection.shutdown(socket.SHUT_RDWR)


FAULTS = {
    "401": status(401, "authentication_error"),
    "400": status(400, "invalid_request_error"),
    "429": status(429, "rate_limit_error"),
    "429-after": status(429, "rate_limit_error", [("retry-after", "1")]),
    "429-ms": status(429, "rate_limit_error", [("retry-after-ms", "50")]),
    "quota": status(429, "insufficient_quota"),
    "billing": status(402, "billing_error"),
    "500": status(500, "server_error", [("retry-after-ms", "50")]),
    "529": status(529, "overloaded_error", [("retry-after-ms", "50")]),
    "half": half_a_stream,
    "stream-error": error_in_stream,
    "echo-key": echo_key,
    "stall": stall,
    "long-line": long_line,
    "endless-line": endless_line,
    "not-json": not_json,
    "hang-up": hang_up,
}


class Script:
    """One server with one script. Steps beyond its end repeat the last one, if `repeat` says so."""

    def __init__(self, steps, repeat=False, always=False):
        self.steps, self.repeat = steps, repeat
        self.always = always  # also where no tool is offered, which else is an expert's or doctor's question
        self.requests, self.complaints = [], []
        self.lock, self.stalled, self.at = threading.Lock(), threading.Event(), 0

    def next_step(self, body):
        if self.at < len(self.steps):
            step = self.steps[self.at]
            self.at += 1
        else:
            step = self.steps[-1] if self.repeat else {"text": "Nothing more to say."}
        return step(body) if callable(step) else step

    def __enter__(self):
        self.httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.httpd.daemon_threads = True
        self.httpd.handle_error = lambda request, address: None  # clients may hang up
        self.httpd.script = self
        self.url = f"http://127.0.0.1:{self.httpd.server_address[1]}/v1"
        threading.Thread(target=self.httpd.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.stalled.set()
        self.httpd.shutdown()
        self.httpd.server_close()


def main():
    import argparse
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("script", help="JSON file: a list of steps")
    with open(parser.parse_args().script) as file:
        steps = json.load(file)
    with Script(steps) as server:
        print(server.url, flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
