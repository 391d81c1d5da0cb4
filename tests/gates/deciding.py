"""Rows, and the gate that decides on them."""

from __future__ import annotations

from typing import Any

from calipers.gates.result import Check, GateResult

Record = dict[str, Any]


def record(name: str, *, passed: bool | None = True, **fields: Any) -> Record:
    return {"id": name, "passed": passed, **fields}


def runs(passed: int, failed: int, **fields: Any) -> list[Record]:
    return [
        record(f"{fields.get('category', 's')}-{n}", passed=n < passed, **fields)
        for n in range(passed + failed)
    ]


def blocking(**thresholds: Any) -> dict[str, Any]:
    return {"thresholds": {"blocking": thresholds}}


def only(result: GateResult) -> Check:
    (check,) = result.checks
    return check


def verdicts(result: GateResult) -> dict[str, str]:
    return {check.name: check.verdict for check in result.checks}
