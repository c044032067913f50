#!/usr/bin/env python3
"""Drives `orrery mcp` with the official Python SDK, in both eras of the protocol: lists and calls
every tool, reads resources, watches progress. `mcp_sdk.py BINARY FOLDER` keeps the SDK in a virtual
environment under FOLDER and exits 77 (skipped) when it cannot be installed."""
import os
import pathlib
import shlex
import subprocess
import sys

SDK = "mcp==2.3.0"


def enter_environment(folder):
    python = folder / "bin" / "python"
    if pathlib.Path(sys.prefix).resolve() == folder.resolve():
        return
    ready = subprocess.run([python, "-c", "import mcp.client.client"], capture_output=True) if python.exists() else None
    if ready is None or ready.returncode != 0:
        try:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
            subprocess.run([python, "-m", "pip", "install", "-q", SDK], check=True, capture_output=True, timeout=300)
        except (subprocess.SubprocessError, OSError) as error:
            print(f"skipped: {SDK} cannot be installed here ({error})")
            sys.exit(77)
    os.execv(python, [python, __file__, *sys.argv[1:]])


binary, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
enter_environment(folder)

import anyio  # noqa: E402
from mcp import Client, MCPError, StdioServerParameters  # noqa: E402

root = pathlib.Path(__file__).resolve().parent.parent.parent
# Commands whose example names a file of the user's.
EVIDENCE = str(root / "tests/data/evidence/layer.json")
STUDY = {name: str(root / f"tests/data/study/{name}.{end}")
         for name, end in (("runs", "csv"), ("models", "json"), ("tiers", "csv"))}
FILES = {"validate": STUDY, "calibrate": {**STUDY, "stage": "nanotron"},
         "measure": {"plan": str(root / "tests/data/evidence/target.yaml"), "dry_run": True},
         "import": {"file": str(root / "tests/data/demo/pretrain_llama3_70b.sh")},
         "evidence_show": {"file": EVIDENCE}, "evidence_merge": {"file": EVIDENCE}}


def example(tool):
    """Arguments of the command's own example, as its help prints it."""
    if tool in FILES:
        return FILES[tool]
    known = subprocess.run([binary, "help", tool.replace("_", " ")], capture_output=True, text=True)
    if "\nexample\n" not in known.stdout:
        return {}
    words = shlex.split(known.stdout.split("\nexample\n")[1].splitlines()[0])[1 + len(tool.split("_")):]
    arguments, index = {}, 0
    while index < len(words):
        if words[index].startswith("--"):
            flag = index + 1 == len(words) or words[index + 1].startswith("--")
            value = True if flag else words[index + 1]
            arguments[words[index][2:].replace("-", "_")] = int(value) if str(value).isdigit() else value
            index += 1 if flag else 2
        else:
            arguments["name"] = words[index]
            index += 1
    return arguments


SEARCH = {"model": "mixtral-8x22b", "hardware": "h100", "gpus": 512, "gbs": 2048, "seq": 4096}


async def cancels(client):
    """A search of many seconds ends when its request is given up, and the server answers the next one."""
    going = anyio.Event()

    async def on_progress(done, total, message):
        going.set()

    async with anyio.create_task_group() as group:
        async def search():
            await client.call_tool("tune", {**SEARCH, "budget": 60}, progress_callback=on_progress)

        group.start_soon(search)
        with anyio.fail_after(60):
            await going.wait()
        given_up = anyio.current_time()
        group.cancel_scope.cancel()
    with anyio.fail_after(30):
        rules = await client.call_tool("rules", {})
    assert not rules.is_error
    print(f"  a search was cancelled; the next answer came {anyio.current_time() - given_up:.1f} s later")


async def session(mode):
    server = StdioServerParameters(command=str(binary), args=["mcp"], cwd=str(root))
    progress = []

    async def on_progress(done, total, message):
        progress.append((done, total, message))

    async with Client(server, mode=mode, read_timeout_seconds=120) as client:
        tools = (await client.list_tools()).tools
        assert len(tools) >= 15, tools
        called = 0
        for tool in tools:
            result = await client.call_tool(tool.name, example(tool.name), progress_callback=on_progress)
            assert not result.is_error, (tool.name, result.content[0].text[:400])
            assert result.structured_content["schema"].startswith("orrery."), tool.name
            called += 1
        assert called == len(tools)
        assert not any(tool.name.startswith("llm") for tool in tools)
        assert not any(key.startswith("llm") for tool in tools for key in tool.input_schema["properties"])
        refused = await client.call_tool("tune", {**SEARCH, "llm": "http://127.0.0.1:9/v1", "llm_model": "m"})
        assert refused.is_error and "no language model" in refused.content[0].text
        await cancels(client)
        wrong = await client.call_tool("project", {"model": "nothing"})
        assert wrong.is_error
        try:
            await client.call_tool("format_disk", {})
        except MCPError as error:
            assert "unknown tool" in str(error)
        else:
            raise AssertionError("an unknown tool was called")
        resources = (await client.list_resources()).resources
        read = await client.read_resource(resources[0].uri)
        assert resources[0].name in read.contents[0].text
        assert progress and all(total is None or done <= total for done, total, _ in progress)
        print(f"{mode}: protocol {client.protocol_version}, {called} tools called, "
              f"{len(resources)} resources, {len(progress)} progress messages")
        return client.protocol_version


async def main():
    assert await session("legacy") == "2025-11-25"
    assert await session("auto") == "2026-07-28"
    assert await session("2026-07-28") == "2026-07-28"


anyio.run(main)
