"""The tier metrics and statistics on every engine give what plain Python gives."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import calipers as cal
from calipers.metrics import metrics_of
from tests.conformance import tiers_reference as reference
from tests.engines_at_hand import needs_spark
from tests.examples import examples

Groups = list[list[dict[str, Any]]]
_TRIES = (1, 2, 3, 4, 5, 10)
_REUSED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]

_shares = st.one_of(st.sampled_from([0, 0.0, 0.5, 1, 1.0]), st.floats(0, 1))
_amounts = st.one_of(st.sampled_from([0, 0.0, 0.25, 0.25, 1]), st.floats(0, 1e6))


def _maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values, values)


_judgments = st.lists(
    st.fixed_dictionaries(
        {"judge": st.sampled_from("xyz")},
        optional={
            "passed": _maybe(st.booleans()),
            "weighted_score": _maybe(_shares),
            "cost_usd": _maybe(_amounts),
        },
    ),
    max_size=3,
)
_runs = st.fixed_dictionaries(
    {"id": st.sampled_from(["a", "b", "c"])},
    optional={
        "passed": _maybe(st.booleans()),
        "impl_rate": _maybe(_shares),
        "cost_usd": _maybe(_amounts),
        "duration_seconds": _maybe(_amounts),
        "judgments": _maybe(_judgments),
        "violations": st.sampled_from([None, [], ["leak"]]),
        "error": st.sampled_from([None, None, None, "timeout: none"]),
    },
)
_groups = st.lists(st.lists(_runs, min_size=1, max_size=12), min_size=1, max_size=3)


def test_every_metric_is_checked() -> None:
    of_runs = "pass_rate impl_rate cost_usd duration_seconds cost_of_pass composite_score".split()
    of_runs.append("judge_cost_usd")
    tries = [f"pass_{kind}_{k}" for kind in ("at", "hat") for k in _TRIES]
    judged = ["quality"]  # tests/judges/test_built_in_rubrics.py
    assert {metric.name for metric in metrics_of("tiers")} == {*of_runs, *tries, *judged}


@given(groups=_groups, weights=st.sampled_from([(0.5, 0.5), (1.0, 0.0), (2.0, 1.0)]))
@examples(60, deadline=None, suppress_health_check=_REUSED)
def test_polars_agrees_with_plain_python(groups: Groups, weights: tuple[float, float]) -> None:
    rows = [row | {"tier": f"T{number}"} for number, group in enumerate(groups) for row in group]
    score = cal.score(
        rows, by="tier", profile="tiers", pass_weight=weights[0], impl_weight=weights[1]
    )
    _compare(score, groups, weights)


@given(groups=_groups)
@examples(50, deadline=None, suppress_health_check=_REUSED)
def test_what_judging_cost_is_apart_or_included(groups: Groups) -> None:
    rows = [row | {"tier": f"T{number}"} for number, group in enumerate(groups) for row in group]
    apart = cal.score(rows, by="tier", metrics=["judge_cost_usd"])
    for group, records in zip(apart.groups, groups, strict=True):
        costs = [reference.judge_cost(run) for run in reference.called(records)]
        known = [cost for cost in costs if cost is not None]
        found = group.metrics["judge_cost_usd"]
        assert found.n == len(known)
        _same(found.value, math.fsum(known) / len(known) if known else None, records)
    included = cal.score(rows, by="tier", profile="tiers", judge_cost="included")
    _compare(included, [[*map(reference.with_judges, group)] for group in groups], (0.5, 0.5))


@needs_spark
@pytest.mark.long
@given(groups=st.lists(st.lists(_runs, min_size=1, max_size=12), min_size=20, max_size=30))
@settings(max_examples=2, deadline=None, suppress_health_check=_REUSED)
def test_spark_agrees_with_plain_python(groups: Groups, tmp_path: Path) -> None:
    rows = [row | {"tier": f"T{number}"} for number, group in enumerate(groups) for row in group]
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    _compare(cal.score(path, by="tier", profile="tiers", engine="spark"), groups, (0.5, 0.5))


def _compare(score: cal.Score, groups: Groups, weights: tuple[float, float]) -> None:
    measured = {group.by["tier"]: group for group in score.groups}
    for number, records in enumerate(groups):
        group = measured[f"T{number}"]
        values = reference.per_run(records, weights)
        for name, each in values.items():
            assert group.statistics is not None
            _same_statistics(
                group.statistics[name], reference.statistics(each), f"{name} {records}"
            )
            found = group.metrics[name]
            assert found.n == len(each), (name, records)
            if name == "cost_of_pass":
                _same(found.value, reference.cost_of_pass_of_all(records), records)
            elif each:
                _same(found.value, math.fsum(each) / len(each), records)
        histogram = group.histograms["composite_score"]
        counts = None if histogram is None else histogram.counts
        assert counts == reference.histogram(values["composite_score"]), records
        for k in _TRIES:
            for kind in ("at", "hat"):
                name = f"pass_{kind}_{k}"
                expected = reference.pass_k(records, k, every=kind == "hat")
                found_value = group.metrics[name].value if name in group.metrics else None
                _same(found_value, expected, (name, records))


def _same(found: float | None, expected: float | None, where: object) -> None:
    if expected is None:
        assert found is None, where
    else:
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12), where


def _same_statistics(found: Any, expected: Any, where: str) -> None:
    if expected is None:
        assert found is None, where
        return
    assert list(found) == list(expected)
    for key, value in expected.items():
        if value is None or math.isinf(value):
            assert found[key] == value, (key, where)
        else:
            assert found[key] == pytest.approx(value, rel=1e-9, abs=1e-7), (key, where)
