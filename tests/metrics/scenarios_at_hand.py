"""Scenarios for tests of their metrics."""

from __future__ import annotations

from typing import Any

import calipers as cal
from calipers.scores.result import Measured

Record = dict[str, Any]


def measured(rows: list[Record], name: str, **options: Any) -> Measured:
    (group,) = cal.score(rows, metrics=[name], **options).groups
    return group.metrics[name]


def scenario(
    expected: list[str] | None = None,
    observed: list[str] | None = None,
    violations: list[str] | None = None,
    **fields: Any,
) -> Record:
    return {
        "expected_behaviors": expected,
        "observed_behaviors": observed,
        "violations": violations,
        **fields,
    }


SUITE = [
    scenario(["a"], ["a"], category="adversarial", correct=True, latency_ms=1000),
    scenario(["a", "b"], ["a"], category="happy_path", correct=False, latency_ms=2000),
]
