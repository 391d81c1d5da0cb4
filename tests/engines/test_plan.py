"""The plan: a row's features do not depend on the rows beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from calipers.engines.plan import IDENTITY, Plan
from calipers.metrics import catalogue
from calipers.metrics.declare.settings import Settings
from tests.engines.compact import compact

METRICS = tuple(
    metric for metric in catalogue().values() if not metric.name.startswith("semantic_")
)
PLAN = Plan(METRICS, ("model",), Settings())

FULL = {
    "id": "full",
    "model": "m",
    "answer": "1",
    "target": "1",
    "cot": "1 + 1 = 3",
    "reference": '["1"]',
    "prob_correct": 0.5,
    "prompt_tokens": 10.0,
    "completion_tokens": 20.0,
    "latency_ms": 5.0,
    "passed": True,
    "impl_rate": 0.5,
    "cost_usd": 1.0,
    "duration_seconds": 2.0,
    "judgments": '[{"score": 0.5, "passed": true, "cost_usd": 0.1}]',
    "expected_behaviors": '["a"]',
    "observed_behaviors": '["a", "b"]',
    "violations": '["v"]',
    "usage": '[{"model": "m", "prompt_tokens": 1, "completion_tokens": 1}]',
}


@pytest.mark.parametrize(
    "fields",
    [
        ("id",),
        ("id", "passed"),
        ("id", "answer", "target"),
        ("id", "expected_behaviors"),
        ("id", "judgments", "impl_rate"),
        ("model", "prompt_tokens", "completion_tokens"),
    ],
    ids=" ".join,
)
def test_features_of_fields_that_no_row_has_are_those_beside_a_row_that_has_them(
    fields: tuple[str, ...],
) -> None:
    few: list[dict[str, Any]] = [{name: FULL[name] for name in fields}] * 3
    alone = compact(PLAN, few)
    beside = compact(PLAN, [*few, FULL]).head(3)
    assert alone.schema == PLAN.schema
    assert_frame_equal(alone, beside)


@pytest.mark.parametrize(
    ("by", "regrouped_by", "different"),
    [(("model",), (), 2), ((), (), 3), (("model",), ("tier",), 3)],
    ids=["of one model in a group", "of all models", "in groups to come"],
)
def test_calls_of_a_task_are_told_apart(
    by: tuple[str, ...], regrouped_by: tuple[str, ...], different: int
) -> None:
    plan = replace(PLAN, by=by, regrouped_by=regrouped_by)
    calls = [{"model": "a"}, {"model": "b"}, {"model": "b", "run": "2"}]
    found = compact(plan, [{"id": "t", **call} for call in (*calls, *calls)])[IDENTITY]
    assert found.n_unique() == different
    assert found.head(3).equals(found.tail(3), null_equal=True)
