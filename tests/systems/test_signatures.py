"""What a Python system is given."""

from __future__ import annotations

from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, NewType, Optional, Union

import pytest

from calipers.systems.functions import takes_text
from tests.runs.suites_at_hand import suite_folder, sums

Prompt = NewType("Prompt", str)


def text(prompt: str) -> None: ...
async def later(prompt: str) -> None: ...
def maybe(prompt: str | None = None) -> None: ...
def older(prompt: Optional[str]) -> None: ...  # noqa: UP045
def told(prompt: Annotated[str, "asked"]) -> None: ...
def named(prompt: Prompt, /) -> None: ...
def bare(record): ...  # type: ignore[no-untyped-def]
def mapping(record: dict[str, Any]) -> None: ...
def either(record: Union[str, dict[str, Any]]) -> None: ...  # noqa: UP007
def anything(record: Any) -> None: ...
def unknown(record: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def none() -> None: ...
def many(*records: str) -> None: ...


class Agent:
    """Is called itself, or by a method."""

    def __call__(self, prompt: str) -> None: ...

    def solve(self, record: dict[str, Any]) -> None: ...

    @staticmethod
    def ask(prompt: str) -> None: ...


def with_model(model: object, prompt: str) -> None: ...


@wraps(text)
def wrapped(*args: Any) -> Any: ...


@pytest.mark.parametrize(
    "function",
    [text, later, maybe, older, told, named, Agent(), Agent.ask, partial(with_model, 1), wrapped],
)
def test_a_text(function: Any) -> None:
    assert takes_text(function)


@pytest.mark.parametrize(
    "function",
    [bare, mapping, either, anything, unknown, none, many, Agent().solve, with_model, len],
)
def test_the_record(function: Any) -> None:
    assert not takes_text(function)


SYSTEM = """
from __future__ import annotations

def answer(prompt: str) -> str:
    return f"<{prompt}>"
"""


@pytest.mark.parametrize(
    ("more", "given"),
    [({}, "<0 + 1>"), ({"prompt": "What is {input}?"}, "<What is 0 + 1?>")],
)
def test_the_prompt_reaches_the_function(tmp_path: Path, more: dict[str, str], given: str) -> None:
    (tmp_path / "system.py").write_text(SYSTEM)
    suite = suite_folder(tmp_path, sums(1), [{"name": "s", "python": "system.py:answer"}], **more)
    assert suite.run().exit_code == 0
    assert suite.records()[0]["answer"] == given


def test_a_task_without_input_is_a_failed_call(tmp_path: Path) -> None:
    (tmp_path / "system.py").write_text(SYSTEM)
    suite = suite_folder(tmp_path, [{"id": "a"}], [{"name": "s", "python": "system.py:answer"}])
    result = suite.run()
    assert result.exit_code == 3
    assert "the function takes a text, and the task has no input" in result.stderr
