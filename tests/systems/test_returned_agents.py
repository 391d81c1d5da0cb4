"""Agents that functions make and messages that they yield, by objects with the libraries' parts.

The libraries themselves are asked in `test_agent_libraries.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace as Part
from typing import Any

import pytest

import calipers as cal
from calipers.support.errors import UsageError
from calipers.systems.functions import run_in_thread
from tests.runs.suites_at_hand import quick, suite_folder

__all__ = ["quick"]

pytestmark = pytest.mark.usefixtures("quick")

TASKS = [{"id": "a", "input": "order 17"}]


def ask(
    system: Any, tasks: list[dict[str, Any]] | None = None, **more: Any
) -> list[dict[str, Any]]:
    """Return the records of a run of a function or an agent."""
    records = cal.run(system, tasks=tasks or TASKS, **more).records.to_dicts()
    for record in records:
        record.setdefault("error", None)
        for name in {"trace", "messages"} & record.keys():
            record[name] = json.loads(record[name] or "null")
    return records


class AutoGenAgent:
    """Keeps what it was asked, as AutoGen's do."""

    component_type = "agent"
    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.asked: list[str] = []

    async def run(self, *, task: str) -> Part:
        self.asked.append(task)
        begun = datetime(2026, 1, 1, tzinfo=UTC)
        common = {"source": "desk", "created_at": begun, "models_usage": None}
        call = Part(id="c", name="look_up", arguments='{"order": 17}')
        reply = Part(call_id="c", content="it is sent", is_error=False)
        used = Part(prompt_tokens=10, completion_tokens=2)
        said = "; ".join(self.asked)
        after = {**common, "created_at": begun + timedelta(seconds=2)}
        return Part(
            stop_reason=None,
            messages=[
                Part(type="TextMessage", source="user"),
                Part(
                    type="ToolCallRequestEvent", content=[call], **{**common, "models_usage": used}
                ),
                Part(type="ToolCallExecutionEvent", content=[reply], **after),
                Part(
                    type="TextMessage",
                    content=said,
                    to_text=lambda: said,
                    to_model_message=None,
                    **{**after, "models_usage": used},
                ),
            ],
        )

    async def run_stream(self, *, task: str) -> Any:
        result = await self.run(task=task)
        for message in result.messages:
            yield message
        yield result

    async def save_state(self) -> None: ...
    async def load_state(self) -> None: ...


def test_a_function_makes_an_agent_for_each_task() -> None:
    AutoGenAgent.made = 0

    def agent() -> AutoGenAgent:
        return AutoGenAgent()

    tasks = [{"id": name, "turns": [f"order {name}", "thanks"]} for name in ("17", "18")]
    first, second = sorted(ask(agent, tasks), key=lambda each: str(each["id"]))
    assert (first["answer"], second["answer"]) == ("order 17; thanks", "order 18; thanks")
    assert AutoGenAgent.made == 2
    assert first["prompt_tokens"] == 40


def test_what_an_agent_of_autogen_did_is_in_the_record() -> None:
    async def agent() -> AutoGenAgent:  # made in the loop, as clients may want it
        return AutoGenAgent()

    [record] = ask(agent)
    [call] = record["trace"]["tool_calls"]
    assert (call["tool_name"], call["args"], call["agent_id"]) == ("look_up", {"order": 17}, "desk")
    assert (call["success"], call["duration"], call["context"]) == (True, 2.0, "order 17")
    assert (record["prompt_tokens"], record["completion_tokens"]) == (20, 4)
    assert [each["role"] for each in record["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


def test_an_agent_that_keeps_the_conversation_is_refused() -> None:
    with pytest.raises(UsageError, match="each task needs its own") as raised:
        ask(AutoGenAgent())
    assert "def agent(): return AssistantAgent(…)" in raised.value.fix


def test_a_function_may_return_an_agent_for_its_record() -> None:
    def agent(record: dict[str, Any]) -> AutoGenAgent:
        made = AutoGenAgent()
        made.asked.append(str(record["shop"]))
        return made

    [record] = ask(agent, [{**TASKS[0], "shop": "Basel"}])
    assert record["answer"] == "Basel; order 17"


def _yield_texts(prompt: str) -> Any:
    async def texts() -> Any:
        for word in prompt.split():
            yield word

    return texts()


def _yield_autogen(prompt: str) -> Any:
    return AutoGenAgent().run_stream(task=prompt)


async def _yield_nothing(_: str) -> Any:
    for each in list[Any]():
        yield each


async def _yield_numbers(_: str) -> Any:
    yield 7


@pytest.mark.parametrize(
    ("function", "answer"),
    [(_yield_texts, "order17"), (_yield_autogen, "order 17")],
    ids=["texts", "autogen"],
)
def test_a_function_may_yield(function: Callable[[str], Any], answer: str) -> None:
    [record] = ask(function)
    assert (record["answer"], record["error"]) == (answer, None)
    assert record["messages"][-1]["content"] == answer


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (_yield_nothing, "the function yields nothing"),
        (_yield_numbers, "the function yields values of type int: it may yield texts, messages of"),
        (lambda: "7", "the function has no parameters, and gives a value of type str instead"),
    ],
    ids=["nothing", "numbers", "no parameters"],
)
def test_what_a_function_may_not_give(function: Callable[..., Any], said: str) -> None:
    [record] = ask(function, retries=0)
    assert record["error"].startswith("bad_response: ")
    assert said in record["error"]


def claude(**changed: Any) -> list[Any]:
    """Return messages as the Claude Agent SDK has them: a tool fails, a subagent helps."""
    used = {"input_tokens": 10, "output_tokens": 2, "cache_read_input_tokens": 4}
    about = {"parent_tool_use_id": None, "model": "claude", "usage": used, "error": None}
    about |= {"stop_reason": None}
    call = Part(id="t1", name="Edit", input={"file_path": "a.py"})
    done = Part(tool_use_id="t1", content=[{"type": "text", "text": "no such file"}], is_error=True)
    result = {
        "subtype": "success",
        "duration_ms": 5,
        "is_error": False,
        "num_turns": 2,
        "session_id": "s",
        "stop_reason": "end_turn",
        "total_cost_usd": 0.5,
        "usage": {**used, "input_tokens": 20, "output_tokens": 4},
        "result": "It failed.",
        "structured_output": None,
        "api_error_status": None,
        "model_usage": None,
    }
    return [
        Part(subtype="init", data={"type": "system", "subtype": "init", "session_id": "s"}),
        Part(content=[Part(thinking="hm", signature="")], message_id="m1", **about),
        Part(content=[call], message_id="m1", **about),
        Part(content=[done], parent_tool_use_id=None),
        Part(
            content=[Part(text="aside")], message_id="m2", **{**about, "parent_tool_use_id": "t1"}
        ),
        Part(content=[Part(text="It failed.")], message_id="m3", **about),
        Part(uuid="u", event={}),  # a piece of a message
        Part(**{**result, **changed}),
    ]


def stream(messages: list[Any], error: Exception | None = None) -> Callable[[str], Any]:
    async def agent(_: str) -> Any:
        for message in messages:
            yield message
        if error is not None:
            raise error

    return agent


def test_messages_of_the_claude_agent_sdk() -> None:
    [record] = ask(stream(claude()))
    assert record["answer"] == "It failed."
    counts = [record[f"{name}_tokens"] for name in ("prompt", "completion", "cache_read")]
    assert counts == [20, 4, 4]
    assert (record["cost_usd"], record["finish_reason"]) == (0.5, "stop")
    [call] = record["trace"]["tool_calls"]
    assert (call["tool_name"], call["success"], call["context"]) == ("Edit", False, "order 17")
    assert [each["content"] for each in record["messages"]] == [
        *("order 17", None, "no such file", "It failed."),
    ]


def test_lines_that_claude_code_prints() -> None:
    said = {"id": "m", "model": "claude", "content": [{"type": "text", "text": "Done."}]}
    lines = [
        {"type": "assistant", "message": said, "parent_tool_use_id": None},
        {"type": "result", "subtype": "success", "is_error": False, "result": "Done."},
    ]
    assert [each["answer"] for each in ask(stream(lines))] == ["Done."]


@pytest.mark.parametrize(
    ("changed", "error", "kind"),
    [
        ({"is_error": True, "api_error_status": 529}, RuntimeError("exit 1"), "server: 529"),
        ({"is_error": True, "api_error_status": 400}, None, "bad_request: 400"),
        ({"is_error": True, "result": "broken"}, None, "exception: broken"),
        ({}, RuntimeError("exit 1"), "exception: RuntimeError"),
    ],
)
def test_errors_of_a_session_have_their_kind(
    changed: dict[str, Any], error: Exception | None, kind: str
) -> None:
    [record] = ask(stream(claude(**changed), error), retries=0)
    assert record["error"].startswith(kind)


def test_a_session_out_of_turns_is_no_error() -> None:
    ended = {"is_error": True, "subtype": "error_max_turns", "result": None}
    [record] = ask(stream(claude(**ended)))
    assert (record["error"], record["answer"]) == (None, "It failed.")


def event(author: str, parts: list[Part], **more: Any) -> Part:
    """Return an event of Google's ADK."""
    given: dict[str, Any] = {
        "partial": None,
        "error_code": None,
        "error_message": None,
        "usage_metadata": None,
        "finish_reason": None,
        "invocation_id": "i",
        "timestamp": 100.0,
        "actions": Part(transfer_to_agent=None),
    }
    return Part(author=author, content=Part(parts=parts), **{**given, **more})


def part(**given: Any) -> Part:
    empty = {"text": None, "thought": None, "function_call": None, "function_response": None}
    return Part(**{**empty, **given})


def test_events_of_googles_adk() -> None:
    used = Part(
        prompt_token_count=10,
        candidates_token_count=2,
        thoughts_token_count=3,
        total_token_count=15,
        cached_content_token_count=4,
    )
    call = Part(id="c", name="look_up", args={"order": 17})
    reply = Part(id="c", response={"error": "no such order"})
    events = [
        event(
            "desk", [part(text="so", thought=True), part(function_call=call)], usage_metadata=used
        ),
        event("desk", [part(function_response=reply)], timestamp=102.5),
        event("desk", [part(text="It is")], partial=True),
        event("desk", [part(text="It is not here.")], finish_reason=Part(name="STOP")),
    ]
    [record] = ask(stream(events))
    assert (record["answer"], record["finish_reason"]) == ("It is not here.", "stop")
    names = ("prompt", "completion", "cache_read", "reasoning")
    assert [record[f"{name}_tokens"] for name in names] == [6, 5, 4, 3]
    [made] = record["trace"]["tool_calls"]
    assert (made["success"], made["duration"], made["agent_id"]) == (False, 2.5, "desk")
    failed = event("desk", [], error_code="SAFETY", error_message="no")
    [record] = ask(stream([failed]), retries=0)
    assert record["error"] == "bad_response: SAFETY: no"


class CrewAgent:
    """Counts its tokens where its copies do, as CrewAI's do."""

    role, goal, backstory = "desk", "answer", "long"

    def __init__(self, model: Part) -> None:
        self.llm = model

    def copy(self) -> CrewAgent:
        return CrewAgent(Part(_token_usage=self.llm._token_usage))

    async def kickoff_async(self, messages: list[dict[str, Any]]) -> Part:
        self.llm._token_usage["prompt_tokens"] += 10
        count = self.llm._token_usage["prompt_tokens"]
        function = {"name": "look_up", "arguments": '{"order": 17}'}
        made = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "function": function}],
        }
        said = {"role": "assistant", "content": f"{len(messages)} said"}
        failed = Part(tool_name="look_up", tool_args={"order": 17})
        return Part(
            raw=said["content"],
            agent_role="desk",
            messages=[
                *messages,
                made,
                {"role": "tool", "content": "no", "tool_call_id": "c"},
                said,
            ],
            tool_failures=[failed],
            token_usage=Part(prompt_tokens=count, completion_tokens=2, cached_prompt_tokens=4),
        )


def test_agents_of_crewai_have_copies_that_count_for_themselves() -> None:
    agent = CrewAgent(Part(_token_usage={"prompt_tokens": 1000}))
    tasks = [{"id": name, "turns": [f"order {name}", "thanks"]} for name in ("17", "18")]
    for record in ask(agent, tasks):
        assert record["answer"] == "5 said"
        assert (record["prompt_tokens"], record["cache_read_tokens"]) == (12, 8)
        assert [each["success"] for each in record["trace"]["tool_calls"]] == [False, False]
        assert [each["role"] for each in record["messages"]].count("user") == 2


def test_an_image_is_refused_where_crewai_would_write_it_as_a_text(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(b"\x89PNG\r\n\x1a\npixels")
    (tmp_path / "agent.py").write_text(
        "from tests.systems.test_returned_agents import CrewAgent, Part\n"
        "agent = CrewAgent(Part(_token_usage={'prompt_tokens': 0}))\n",
        encoding="utf-8",
    )
    image = {"type": "image_url", "image_url": {"url": "cat.png"}}
    content: list[dict[str, Any]] = [{"type": "text", "text": "what?"}, image]
    tasks = [
        {"id": "seen", "messages": [{"role": "user", "content": content}]},
        {"id": "read", "messages": [{"role": "user", "content": content[:1]}]},
    ]
    suite = suite_folder(tmp_path, tasks, [{"name": "desk", "python": "agent.py:agent"}])
    suite.run()
    read, seen = suite.records()
    assert seen["error"] == "bad_request: an agent or a crew of CrewAI takes no images"
    assert read["answer"] == "1 said"


class SmolAgent:
    """Keeps its steps and runs where it is called, as those of smolagents do."""

    name, instructions = None, "desk"

    def __init__(self, step: Part, events: list[Part]) -> None:
        self.memory, self.state = Part(steps=["of another run"]), {"old": 1}
        self.managed_agents: dict[str, Any] = {}
        self.step_callbacks = Part(callback=lambda *_, **__: None)
        self.step, self.events = step, events

    def write_memory_to_messages(self) -> None: ...

    def run(self, task: str, *, stream: bool, reset: bool, images: None) -> Any:
        assert (stream, reset, images) == (True, False, None)
        self.memory.steps.append(task)
        self.step_callbacks.callback(self.step, agent=self)
        yield from self.events
        yield self.step
        final = Part(output=f"{len(self.memory.steps)} {self.instructions}")
        self.step_callbacks.callback(final, agent=self)
        yield final

    def __call__(self, *_: Any) -> str:
        raise AssertionError("a managed agent is not asked for")


def smol(error: str | None = None, **more: Any) -> SmolAgent:
    function = Part(name="look_up", arguments={"order": 17})
    message = Part(tool_calls=[Part(id="c", function=function)], raw=None)
    step = Part(
        timing=1,
        tool_calls=None if error else [Part(id="c", name="look_up", arguments={"order": 17})],
        model_output_message=message,
        observations=None,
        error=error,
        token_usage=Part(input_tokens=10, output_tokens=2),
    )
    for name, value in more.items():
        setattr(step, name, value)
    return SmolAgent(step, [] if error else [Part(id="c", observation="it is sent")])


def test_agents_of_smolagents_are_run_and_not_called() -> None:
    agent = smol()
    tasks = [{"id": name, "turns": ["order 17", "thanks"]} for name in ("a", "b")]
    for record in ask(agent, tasks):
        assert record["answer"] == "2 desk"  # of its own run alone, and of both turns
        assert record["prompt_tokens"] == 20
        calls = record["trace"]["tool_calls"]
        assert [(each["tool_name"], each["success"]) for each in calls] == [("look_up", True)] * 2
        assert record["messages"][2]["content"] == "it is sent"
    assert agent.memory.steps == ["of another run"]


def test_a_tool_of_smolagents_that_fails_and_tokens_that_nobody_counts() -> None:
    [record] = ask(smol("no such order", token_usage=None))
    [call] = record["trace"]["tool_calls"]
    assert (call["success"], record["messages"][2]["content"]) == (False, "no such order")
    assert record.get("prompt_tokens") is None


class RefusedError(Exception):
    status_code = 429


class APIConnectionError(Exception):
    """The name that OpenAI's client has for it."""


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (RefusedError("slowly"), "rate_limit: 429 slowly"),
        (APIConnectionError("Connection error."), "connection: ValueError"),
        (TimeoutError(), "timeout: ValueError"),
        (KeyError("order"), "exception: ValueError"),
    ],
)
def test_the_providers_error_is_found_behind_one_of_the_library(
    cause: Exception, kind: str
) -> None:
    class Broken(SmolAgent):
        def run(self, *_: Any, **__: Any) -> Any:
            raise ValueError("generation failed") from cause

    [record] = ask(Broken(Part(), []), retries=1)
    assert record["error"].startswith(kind)
    assert record.get("attempts", 1) == (1 if kind.startswith("exception") else 2)


def test_a_thread_has_the_context_that_is_given() -> None:
    asked: ContextVar[str] = ContextVar("asked", default="nobody")
    asked.set("somebody")

    async def look() -> list[str]:
        seen = [await run_in_thread(asked.get, context) for context in (None, copy_context())]
        return [value for value, _ in seen]

    assert asyncio.run(look()) == ["nobody", "somebody"]


def test_an_agent_of_smolagents_in_a_file(tmp_path: Path) -> None:
    """The line that failed before: the object is callable, and a call of it means something else."""
    (tmp_path / "agent.py").write_text(
        "from tests.systems.test_returned_agents import smol\nagent = smol()\n", encoding="utf-8"
    )
    suite = suite_folder(tmp_path, TASKS, [{"name": "desk", "python": "agent.py:agent"}])
    assert suite.run().exit_code == 0
    assert suite.records()[0]["answer"] == "1 desk"
