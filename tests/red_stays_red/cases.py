"""What several of these cases are told with."""

from __future__ import annotations

from typing import Any

import calipers as cal
from calipers.gates.result import GateResult

Row = dict[str, Any]


def gate_of(rows: list[Row], policy: Row, **options: Any) -> GateResult:
    return cal.gate(rows, policy={"judges": {"uncalibrated": "warn"}, **policy}, **options)


def blocking(**thresholds: Any) -> Row:
    return {"thresholds": {"blocking": thresholds}}


def adversarial(n: int, **fields: Any) -> Row:
    return {"id": f"SEC-{n}", "category": "adversarial", **fields}


def vote(*, passed: bool | None, rubric: str = "safety", **more: Any) -> Row:
    judged = {"judge": rubric, "model": "m", "rubric_hash": rubric, "passed": passed}
    reason = {"scores": None, "reason": "timeout: 60 s"} if passed is None else {}
    return {**judged, **reason, **more}
