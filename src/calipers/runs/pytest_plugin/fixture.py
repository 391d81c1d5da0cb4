"""The fixture `calipers`: answers that are checked, and records that are scored, inside a test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from calipers.metrics.checks.check import Rule, list_check_kinds
from calipers.metrics.checks.checks import RESULTS, Checks, read_checks
from calipers.runs.call_records import apply_checks
from calipers.runs.pytest_plugin import MARKER
from calipers.support.errors import UsageError, nearest

if TYPE_CHECKING:
    from calipers.scores.result import Score

_MOST_SHOWN = 500  # characters of an answer


class CalipersFixture:
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

        record = {"answer": answer} if isinstance(answer, str) else dict(answer)
        if failed := list_failed(record, expect, forbid or {}, checks):
            raise AssertionError("\n".join((*failed, _format_answer(record))))

    def score(self, data: Any, **options: Any) -> Score:
        """Measure records as `calipers.score` does; the summary shows what was measured."""
        from calipers.scores.score import score  # noqa: PLC0415 (loads Polars)

        measured = score(data, **options)
        table = str(measured).strip("\n")
        self._test.user_properties.append((MARKER, f"\n{table}"))
        return measured


def _format_answer(record: Mapping[str, Any]) -> str:
    """Return the answer of a record, or which fields it has instead."""
    answer = record.get("answer")
    if answer is None:
        return f"the record has no answer; its fields: {', '.join(record) or 'none'}"
    text = str(answer)
    return f"answer: {text}" if len(text) <= _MOST_SHOWN else f"answer: {text[:_MOST_SHOWN]}…"


_EXAMPLE = 'for example calipers.check(answer, contains="17", forbid={"pii": ["email"]})'


def list_failed(
    record: Mapping[str, Any],
    expect: Mapping[str, Any],
    forbid: Mapping[str, Any],
    checks: str | Path | Sequence[Mapping[str, Any]] | None,
) -> list[str]:
    """Return a line for each check that does not hold, or cannot be decided.

    `expect` are tests that must hold, by key, and `forbid` tests that must not.

    Raises:
        UsageError: There is no check, or one has a mistake.
    """
    asked = [*_write_checks("expect", expect), *_write_checks("forbid", forbid)]
    every = Checks(()) if not asked else read_checks(asked, source="check()")
    if checks is not None:
        every += read_checks(checks)
    if not every:
        raise UsageError("check(): nothing is looked for", fix=_EXAMPLE)
    return list(list_failures(apply_checks(every, record)[RESULTS]))


def _write_checks(rule: Rule, tests: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the tests as checks, each under what it looks for."""
    kinds = list_check_kinds()
    for key, value in tests.items():
        if key not in kinds:
            raise UsageError(f"check(): {key} is not a known test", fix=nearest(key, kinds))
        yield {rule: f"{key}={value!r}", key: value}


def list_failures(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each result of a check that did not come out as it should.

    A call that failed has no results: its record keeps the checks of its task as they are written.
    """
    for result in results:
        if "held" not in result:
            continue
        problem = f"{result['name']}: {result['detail'] or result['kind']}"
        if result["held"] is None:
            yield f"cannot be decided: {problem}"
        elif result["held"] != (result["rule"] == "expect"):
            yield f"{'expected' if result['rule'] == 'expect' else 'forbidden'}: {problem}"
