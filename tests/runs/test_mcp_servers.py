"""Servers of the Model Context Protocol as tools: the official SDK's, and ones that misbehave."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from calipers.systems import mcp_servers
from tests.runs.chat_server import ChatServer, serve_chat
from tests.runs.suites_at_hand import SuiteFolder, chat, suite_folder

pytest.importorskip("mcp", reason="the extra mcp is not installed")

SERVER = """
import os, sys
from pathlib import Path
from mcp.server import MCPServer
from stock import count

server = MCPServer("warehouse")
here = Path(__file__).parent
(here / "pids.txt").open("a").write(f"{os.getpid()}\\n")

@server.tool()
def look_up(order: int) -> str:
    "Looks an order up."
    with (here / "calls.txt").open("a") as file:
        file.write(f"{order}\\n")
    if order == 13:
        raise ValueError("no such order")
    if order == 66:
        os._exit(7)
    if order == 99:
        return "x" * (5 << 20)
    return f"order {order}: {count()}"

@server.tool()
def cancel(order: int) -> str:
    return "cancelled"

if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]))
else:
    server.run()
"""

PLAIN = """
import json, os, sys
from stock import count

def reply(asked):
    params = asked.get("params", {})
    if asked.get("method") == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "plain", "version": "1"},
        }
    if asked.get("method") == "tools/list":
        schema = {"type": "object", "properties": {"order": {"type": "integer"}}}
        return {"tools": [{"name": name, "inputSchema": schema} for name in ("look_up", "cancel")]}
    if asked.get("method") != "tools/call":
        return None
    order = params["arguments"]["order"]
    with open("calls.txt", "a") as file:
        file.write(f"{order}\\n")
    if order == 1:
        return {"content": 3}
    if order == 2:
        print("Traceback: garbage", flush=True)
    if order in (2, 3):
        return None
    said = f"order {order}: {count()}"
    if order == 5:
        said = os.environ.get("WAREHOUSE_TOKEN", "no token") + os.environ.get("OTHER_KEY", "")
    return {"content": [{"type": "text", "text": said}]}

for line in sys.stdin:
    asked = json.loads(line)
    if (result := reply(asked)) is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def _reply(body: dict[str, Any]) -> dict[str, Any]:
    """A model that looks orders up and says what it was told."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return {"content": f"told: {last['content'][:200]}"}
    arguments = json.dumps({"order": int(last["content"].split()[1])})
    call = {"name": "look_up", "arguments": arguments}
    return {"content": None, "tool_calls": [{"id": "c1", "type": "function", "function": call}]}


@pytest.fixture
def chatting() -> Iterator[ChatServer]:
    with serve_chat(_reply) as found:
        yield found


def folder(path: Path, chatting: ChatServer, *orders: int, **more: Any) -> SuiteFolder:
    (path / "server.py").write_text(SERVER)
    (path / "plain.py").write_text(PLAIN)
    (path / "stock.py").write_text("def count():\n    return 17\n")
    tasks = [{"id": f"task-{order}", "input": f"order {order}"} for order in orders]
    more = {"mcp": [{"command": [sys.executable, "plain.py"]}], "retries": 0, **more}
    return suite_folder(path, tasks, [chat(chatting.url)], **more)


SDK = [{"command": [sys.executable, "server.py"]}]


def read_calls(path: Path) -> list[str]:
    file = path / "calls.txt"
    return file.read_text().split() if file.exists() else []


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_tools_of_a_program_are_called_and_traced(tmp_path: Path, chatting: ChatServer) -> None:
    suite = folder(tmp_path, chatting, 17, 13, mcp=SDK)
    told = suite.run()
    assert told.exit_code == 0, told.output
    found = {each["id"]: each for each in suite.records()}
    assert found["task-17"]["answer"] == "told: order 17: 17"
    [call] = found["task-17"]["trace"]["tool_calls"]
    assert (call["tool_name"], call["args"], call["success"]) == ("look_up", {"order": 17}, True)
    assert (call["server"], call["reply"]) == ("server.py", "order 17: 17")
    assert call["duration"] > 0
    [refused] = found["task-13"]["trace"]["tool_calls"]
    assert refused["success"] is False
    assert "Error executing tool look_up" in found["task-13"]["answer"]
    assert [each["function"]["name"] for each in chatting.seen[0]["tools"]] == ["look_up", "cancel"]
    assert "order" in chatting.seen[0]["tools"][0]["function"]["parameters"]["properties"]
    [pid] = map(int, (tmp_path / "pids.txt").read_text().split())
    assert not is_alive(pid)
    assert not (suite.results / ".tool_replies.jsonl").exists()
    suite.run()
    assert sorted(read_calls(tmp_path)) == ["13", "17"]  # nothing is called again


@contextmanager
def serve_http(path: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "server.py", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=path, **quiet) as server:  # type: ignore[call-overload]
        try:
            until = time.monotonic() + 30
            while time.monotonic() < until:
                with socket.socket() as knocking:
                    if knocking.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.kill()


def test_tools_by_http_those_allowed_alone(tmp_path: Path, chatting: ChatServer) -> None:
    folder(tmp_path, chatting, 17)
    with serve_http(tmp_path) as url:
        suite = folder(
            tmp_path, chatting, 17, 99, mcp=[{"url": url, "name": "depot", "tools": ["look_up"]}]
        )
        told = suite.run()
    found = {each["id"]: each for each in suite.records()}
    assert found["task-17"]["answer"] == "told: order 17: 17", told.output
    assert found["task-17"]["trace"]["tool_calls"][0]["server"] == "depot"
    assert found["task-99"]["error"].startswith("bad_response: mcp depot: ")
    assert [each["function"]["name"] for each in chatting.seen[0]["tools"]] == ["look_up"]


def test_a_server_that_dies_or_floods_fails_its_call_alone(
    tmp_path: Path, chatting: ChatServer
) -> None:
    suite = folder(tmp_path, chatting, 66, 99, 17, concurrency=1, mcp=SDK)
    suite.run()
    found = {each["id"]: each for each in suite.records()}
    dead, huge = found["task-66"]["error"], found["task-99"]["error"]
    assert dead == "connection: mcp server.py: it has ended: exit code 7"
    assert huge == "bad_response: mcp server.py: a message of more than 4 MiB"
    assert found["task-17"]["answer"] == "told: order 17: 17"  # it was started anew
    assert not any(is_alive(int(pid)) for pid in (tmp_path / "pids.txt").read_text().split())


SILENT = "import time; time.sleep(60)"
NOISY = "import time\nwhile True:\n    print('hello', flush=True); time.sleep(0.2)"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (SILENT, "it has not started within 0.5 s"),
        (NOISY, "what is no message of the protocol: 'hello"),
        ("raise SystemExit('no database')", "it has ended: exit code 1: no database"),
    ],
)
def test_a_server_that_does_not_start_ends_the_run_before_the_first_call(
    tmp_path: Path, chatting: ChatServer, program: str, said: str
) -> None:
    (tmp_path / "bad.py").write_text(program)
    patience = 0.5 if program is SILENT else 2
    server = {"command": [sys.executable, "bad.py"], "timeout_seconds": patience}
    told = folder(tmp_path, chatting, 17, mcp=[server]).run()
    assert told.exit_code == 2
    assert said in told.output
    assert chatting.seen == []


@pytest.mark.parametrize(
    ("order", "error"),
    [
        (1, "bad_response: mcp plain.py: ValidationError"),
        (2, "bad_response: mcp plain.py: it writes what is no message of the protocol"),
        (3, "timeout: mcp plain.py: no reply within 3 s"),
    ],
)
def test_a_reply_that_is_none_is_an_error_of_its_kind(
    tmp_path: Path, chatting: ChatServer, order: int, error: str
) -> None:
    server = {"command": [sys.executable, "plain.py"], "timeout_seconds": 3}
    suite = folder(tmp_path, chatting, order, mcp=[server])
    suite.run()
    [record] = suite.records()
    assert record["error"].startswith(error)


def test_two_tools_of_one_name_are_an_error_before_the_first_call(
    tmp_path: Path, chatting: ChatServer
) -> None:
    server = {"command": [sys.executable, "plain.py"]}
    (tmp_path / "tools.yaml").write_text("- {name: cancel, reply: gone}")
    told = folder(tmp_path, chatting, 17, tools="tools.yaml").run()
    assert told.exit_code == 2
    assert "tools.yaml and plain.py have a tool cancel each" in told.output
    told = folder(tmp_path, chatting, 17, mcp=[server, {**server, "name": "second"}]).run()
    assert "plain.py and second have a tool look_up each" in told.output
    told = folder(tmp_path, chatting, 17, mcp=[{**server, "tools": ["lookup"]}]).run()
    assert "plain.py has no tool lookup" in told.output
    assert "look_up" in told.output
    assert chatting.seen == []


def test_what_was_called_is_heard_again_and_not_called_again(
    tmp_path: Path, chatting: ChatServer
) -> None:
    suite = folder(tmp_path, chatting, 17)
    answer = chatting.reply

    def fail_after_the_tool(body: dict[str, Any]) -> dict[str, Any]:
        chatting.status = 500 if body["messages"][-1]["role"] == "tool" else 200
        return answer(body)

    chatting.reply = fail_after_the_tool
    suite.run()
    [failed] = suite.records()
    assert failed["error"].startswith("server: ")
    chatting.reply, chatting.status = answer, 200
    suite.run()
    [record] = suite.records()
    assert record["answer"] == "told: order 17: 17"
    assert record["trace"]["tool_calls"][0]["replayed"] is True
    assert read_calls(tmp_path) == ["17"]


def test_a_servers_files_are_code_under_test(tmp_path: Path, chatting: ChatServer) -> None:
    suite = folder(tmp_path, chatting, 17, cache="cache")
    suite.run()
    (tmp_path / "stock.py").write_text("def count():\n    return 1018\n")
    told = suite.run()
    assert told.exit_code == 2
    assert "stock.py has changed" in told.output
    suite.run("--fresh")
    assert suite.records()[0]["answer"] == "told: order 17: 1018"


def test_the_cache_answers_for_models_never_for_tools(tmp_path: Path, chatting: ChatServer) -> None:
    suite = folder(tmp_path, chatting, 17, cache="cache")
    suite.run()
    (tmp_path / "stock.py").write_text("def count():\n    return 1018\n")
    suite.write(name="another").run("-o", str(tmp_path / "second"))
    lines = (tmp_path / "second" / "records.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["answer"] == "told: order 17: 1018"
    assert read_calls(tmp_path) == ["17", "17"]


def test_keys_come_from_the_environment_and_are_written_nowhere(
    tmp_path: Path, chatting: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_KEY", "planted-other-key-4712")
    server = {"command": [sys.executable, "plain.py"], "env": ["WAREHOUSE_TOKEN"]}
    suite = folder(tmp_path, chatting, 5, mcp=[server])
    told = suite.run()
    assert told.exit_code == 2
    assert "WAREHOUSE_TOKEN is not set" in told.output
    monkeypatch.setenv("WAREHOUSE_TOKEN", "planted-token-4711")
    suite.run()
    said = chatting.seen[-1]["messages"][-1]["content"]
    assert said == "planted-token-4711"  # what it was given, and no other key
    written = [file.read_text() for file in suite.results.rglob("*") if file.is_file()]
    assert not any("planted" in text for text in written)


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({}, "either command or url"),
        ({"command": ["a"], "url": "http://127.0.0.1:1/mcp"}, "either command or url"),
        ({"url": "http://127.0.0.1:1/mcp?token=abc"}, "holds a key"),
        ({"url": "http://127.0.0.1:1/mcp", "env": ["HOME"]}, "env is for a command"),
        ({"command": ["a"], "env": ["A=b"]}, "not the name of an environment variable"),
    ],
)
def test_a_mistake_in_the_suite_is_an_error(
    tmp_path: Path, chatting: ChatServer, server: dict[str, Any], said: str
) -> None:
    told = folder(tmp_path, chatting, 17, mcp=[server]).run()
    assert told.exit_code == 2
    assert said in told.output


def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, chatting: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calipers.support.errors.find_spec", lambda _: None)
    told = folder(tmp_path, chatting, 17).run()
    assert told.exit_code == 2
    assert "pip install 'calipers[mcp]'" in told.output
    assert mcp_servers.MOST_BYTES == 4 << 20
