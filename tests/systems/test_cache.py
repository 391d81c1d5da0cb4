"""Which requests a cached reply answers, and what is never kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from calipers.systems.calls import Call, Reply, ToolCall
from calipers.systems.models import CachedModel
from calipers.systems.redact import Mask

KEY = "sk-0123456789abcdef"
ASKED: dict[str, Any] = {"record": {"id": "CORE-001", "run": 1}, "prompt": "2 + 2?"}
REPLY = Reply(
    text="4",
    fields={"prompt_tokens": 3, "finish_reason": "stop"},
    reasoning="Two and two.",
    logprobs=(("4", -0.25),),
    tool_calls=(ToolCall(id="c1", name="add", arguments="{}"),),
    messages=({"role": "assistant", "content": "4"},),
)


def ask(folder: Path, *calls: dict[str, Any], reply: Reply = REPLY, **more: Any) -> list[bool]:
    """Return which of the calls were answered from the cache."""

    async def model(call: Call) -> Reply:
        del call
        return reply

    async def ask_all() -> list[bool]:
        given = {"of": {"model": "openai:tiny"}, "reads": True, **more}
        cached = CachedModel(model, folder, say=pytest.fail, mask=Mask([KEY]), **given)
        return [(await cached(Call(**each))).is_cached for each in calls]

    return asyncio.run(ask_all())


@pytest.mark.parametrize(
    "other",
    [
        {"record": {"id": "CORE-001", "run": 2}},
        {"prompt": "2 + 2 ?"},
        {"system": "Add."},
        {"messages": [{"role": "user", "content": "2 + 2?"}]},
        {"tools": [{"name": "add", "description": "Adds.", "parameters": {}}]},
        {"settings": {"temperature": 1}},
        {"images": {"cat.png": SimpleNamespace(sha256="0a")}},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_reply_answers_the_same_request_only(tmp_path: Path, other: dict[str, Any]) -> None:
    another = {**ASKED, **other}
    assert ask(tmp_path, ASKED, ASKED, another, another) == [False, True, False, True]


def test_a_reply_answers_for_the_same_task_of_any_name(tmp_path: Path) -> None:
    renamed = {**ASKED, "record": {"id": "CORE-002", "run": 1}}
    assert ask(tmp_path, ASKED, renamed) == [False, True]


def test_another_model_is_asked(tmp_path: Path) -> None:
    assert ask(tmp_path, ASKED) == [False]
    assert ask(tmp_path, ASKED, of={"model": "openai:large"}) == [False]


def test_a_fresh_run_asks_again_and_keeps_what_it_hears(tmp_path: Path) -> None:
    assert ask(tmp_path, ASKED) == [False]
    assert ask(tmp_path, ASKED, ASKED, reads=False) == [False, False]
    assert ask(tmp_path, ASKED) == [True]


def test_a_reply_with_a_key_in_it_is_not_kept(tmp_path: Path) -> None:
    told = Reply(text=f"It is {KEY}.")
    assert ask(tmp_path, ASKED, ASKED, reply=told) == [False, False]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_kept_reply_is_the_same(tmp_path: Path) -> None:
    async def fail(call: Call) -> Reply:
        pytest.fail(f"asked again: {call}")

    ask(tmp_path, ASKED)
    again = CachedModel(
        fail, tmp_path, {"model": "openai:tiny"}, say=pytest.fail, mask=Mask([]), reads=True
    )
    kept = asyncio.run(again(Call(**ASKED)))
    for name in ("text", "fields", "reasoning", "logprobs", "tool_calls"):
        assert getattr(kept, name) == getattr(REPLY, name)
    assert list(kept.messages) == list(REPLY.messages)
    assert kept.seconds is not None  # as long as the model took
