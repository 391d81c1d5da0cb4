"""Apply checks to one answer, as to records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from calipers.metrics.checks.check import Rule
from calipers.metrics.checks.checks import Checks, read_checks
from calipers.metrics.checks.combining import RESULTS
from calipers.metrics.checks.registered import check_kinds
from calipers.runs.checking import apply_checks
from calipers.support.errors import UsageError, nearest

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
    kinds = check_kinds()
    for key, value in tests.items():
        if key not in kinds:
            raise UsageError(f"check(): {key} is not a known test", fix=nearest(key, kinds))
        yield {rule: f"{key}={value!r}", key: value}


def list_failures(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each result of a check that did not come out as it should.

    A call that failed has no results: its record keeps the checks of its task as they are written.
    """
    for each in results:
        if "held" not in each:
            continue
        found = f"{each['name']}: {each['detail'] or each['kind']}"
        if each["held"] is None:
            yield f"cannot be decided: {found}"
        elif each["held"] != (each["rule"] == "expect"):
            yield f"{'expected' if each['rule'] == 'expect' else 'forbidden'}: {found}"
