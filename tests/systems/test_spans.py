"""The spans that functions and agents emit, by OpenTelemetry's own SDK, as traces of records."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runs.chat_server import serve_chat
from tests.runs.suites_at_hand import SuiteFolder, suite_folder

FUNCTIONS = """
import asyncio
from contextvars import copy_context
from threading import Barrier, Thread

from opentelemetry import trace

tracer = trace.get_tracer("agent")
together = Barrier(4)


def tool(name):
    about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name,
             "gen_ai.tool.call.arguments": '{"of": "%s"}' % name}
    with tracer.start_as_current_span(f"execute_tool {name}", attributes=about):
        pass


def model():
    about = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 7,
             "gen_ai.usage.output_tokens": 3}
    with tracer.start_as_current_span("chat", attributes=about):
        pass


def plain(record):
    together.wait(60)  # four calls are under way at the same time
    tool(record["id"])
    thread = Thread(target=copy_context().run, args=(tool, record["id"] + "2"))
    thread.start()
    thread.join()
    model()
    together.wait(60)
    return "done"


async def later(record):
    tool(record["id"])
    await asyncio.sleep(0.01)
    await asyncio.gather(asyncio.to_thread(tool, record["id"] + "2"))
    model()
    return {"answer": "done", "prompt_tokens": 1, "completion_tokens": 1}


def silent(record):
    return {"answer": "done", "trace": {"tool_calls": [{"tool_name": "own"}]}}
"""
AGENT = """
from opentelemetry import trace
from pydantic_ai import Agent
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings

settings = InstrumentationSettings(tracer_provider=trace.get_tracer_provider())
agent = Agent("openai-chat:tiny", name="desk", capabilities=[Instrumentation(settings=settings)])


@agent.tool_plain
def look_up(order: int) -> str:
    return f"order {order} is sent"
"""


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="opentelemetry-sdk is missing")
    found = sdk.TracerProvider()
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: found)
    yield found
    found.shutdown()


def folder(path: Path, function: str, **more: Any) -> SuiteFolder:
    (path / "agent.py").write_text(FUNCTIONS)
    system = {"name": "a", "python": f"agent.py:{function}", "otel": True}
    tasks = [{"id": each, "input": "x"} for each in "abcd"]
    return suite_folder(path, tasks, [system], **more)


@pytest.mark.usefixtures("provider")
@pytest.mark.parametrize("function", ["plain", "later"])
def test_calls_beside_each_other_stay_apart(tmp_path: Path, function: str) -> None:
    suite = folder(tmp_path, function)
    told = suite.run("--no-report")
    assert told.exit_code == 0, told.output
    for record in suite.records():
        calls = record["trace"]["tool_calls"]
        name = record["id"]
        assert [each["tool_name"] for each in calls] == [name, f"{name}2"]
        assert calls[0]["args"] == {"of": name}
        assert calls[0]["success"] is True
        assert record["prompt_tokens"] == (7 if function == "plain" else 1)


@pytest.mark.usefixtures("provider")
def test_without_spans_the_trace_is_the_functions_own(tmp_path: Path) -> None:
    suite = folder(tmp_path, "silent")
    assert suite.run("--no-report").exit_code == 0
    assert suite.records()[0]["trace"] == {"tool_calls": [{"tool_name": "own"}]}


@pytest.mark.usefixtures("provider")
@pytest.mark.filterwarnings("ignore")
def test_an_agent_of_pydantic_ai(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pydantic_ai", reason="the extra run is not installed")

    def reply(body: dict[str, Any]) -> dict[str, Any]:
        if body["messages"][-1]["role"] == "tool":
            return {"content": body["messages"][-1]["content"]}
        call = {"name": "look_up", "arguments": '{"order": 17}'}
        return {"tool_calls": [{"id": "c", "type": "function", "function": call}]}

    with serve_chat(reply) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "planted-key-4711")
        suite = folder(tmp_path, "agent")
        (tmp_path / "agent.py").write_text(AGENT)
        told = suite.run("--no-report")
        assert told.exit_code == 0, told.output
    for record in suite.records():
        [call] = record["trace"]["tool_calls"]
        assert (call["tool_name"], call["agent_id"]) == ("look_up", "desk")
        assert call["args"] == {"order": 17}
        assert record["trace"]["agent_tasks"] == {"desk": 1}
        assert record["prompt_tokens"] == 20


def test_without_the_sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    suite = folder(tmp_path, "answer")
    (tmp_path / "agent.py").write_text("def answer(record):\n    return 'x'\n")
    told = suite.run("--no-report")
    assert told.exit_code == 2
    assert "pip install opentelemetry-sdk" in told.output


def test_only_functions_and_agents_are_watched(tmp_path: Path) -> None:
    system = {"name": "a", "model": "openai:tiny", "otel": True}
    told = suite_folder(tmp_path, [{"id": "a", "input": "x"}], [system]).run("--no-report")
    assert told.exit_code == 2
    assert "otel is for python" in told.output
