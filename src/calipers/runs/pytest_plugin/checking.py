"""The fixture `calipers`: answers that are checked, and records that are scored, inside a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from calipers.runs.pytest_plugin import MARKER

if TYPE_CHECKING:
    from calipers.scores.results import Score

_MOST_SHOWN = 500  # characters of an answer


class Calipers:
    """Checks answers and scores records; what was scored is in the summary of the session."""

    def __init__(self, test: pytest.Item) -> None:
        self._test = test

    def check(
        self,
        answer: str | Mapping[str, Any],
        *,
        forbid: Mapping[str, Any] | None = None,
        checks: str | Path | Sequence[Mapping[str, Any]] | None = None,
        **expect: Any,
    ) -> None:
        """Fail the test unless all checks of an answer hold.

        Args:
            answer: The answer; or a record, whose other fields checks may look at.
            forbid: Tests that must not hold: `forbid={"pii": ["email"]}`.
            checks: A file or a list of checks, as a suite has them.
            expect: Tests that must hold, by their names in a suite: `contains="17"`.

        Raises:
            AssertionError: A check does not hold; it says what was looked for, and the answer.
            UsageError: A test is not known, or has a wrong value.
        """
        __tracebackhide__ = True
        from calipers.runs.pytest_plugin.answers import list_failed  # noqa: PLC0415 (loads Polars)

        record = {"answer": answer} if isinstance(answer, str) else dict(answer)
        if failed := list_failed(record, expect, forbid or {}, checks):
            raise AssertionError("\n".join((*failed, _show(record))))

    def score(self, data: Any, **options: Any) -> Score:
        """Measure records as `calipers.score` does; the summary shows what was measured."""
        from calipers.scores.api import score  # noqa: PLC0415 (loads Polars)

        measured = score(data, **options)
        table = str(measured).strip("\n")
        self._test.user_properties.append((MARKER, f"\n{table}"))
        return measured


def _show(record: Mapping[str, Any]) -> str:
    """Return the answer of a record, or which fields it has instead."""
    answer = record.get("answer")
    if answer is None:
        return f"the record has no answer; its fields: {', '.join(record) or 'none'}"
    text = str(answer)
    return f"answer: {text}" if len(text) <= _MOST_SHOWN else f"answer: {text[:_MOST_SHOWN]}…"
