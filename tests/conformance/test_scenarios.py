"""The scenario metrics and their intervals on every engine give what plain Python gives."""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import calipers as cal
from calipers.engines.features import measure_records
from calipers.engines.plan import Plan
from calipers.engines.resampling import CODE, WeightedValues, add_codes
from calipers.metrics import catalogue, metrics_of
from calipers.metrics.declare.declaration import TASK
from calipers.metrics.declare.settings import Settings
from calipers.records.batch import Wanted
from calipers.records.readers.tables import RowList
from calipers.scores.result import Measured
from tests.conformance.interval_errors import Asked, Bounds
from tests.conformance.scenario_intervals import METHODS, interval
from tests.conformance.scenarios_reference import REFERENCES, Options, Record
from tests.engines_at_hand import needs_spark
from tests.examples import examples

Groups = list[list[Record]]

PASSAGE = "passage"
_HEALTH = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]

_NAMES = [
    "greet",
    "ask",
    "Ask",
    " ask",
    "",
    'say "no"',
    "a\\b",
    "größe 🙂",
    "line\nbreak",
    "[1, 2]",
]
_shares = st.one_of(st.sampled_from([0, 0.0, 0.5, 1]), st.floats(0, 1))
_counts = st.one_of(st.integers(0, 3), st.integers(0, 10**6))
_lists = st.lists(st.sampled_from(_NAMES[:3]), max_size=4) | st.lists(
    st.sampled_from(_NAMES), max_size=4
)
_judgments = st.lists(
    st.fixed_dictionaries(
        {"judge": st.sampled_from("xyz")},
        optional={"passed": st.booleans(), "weighted_score": _shares},
    ),
    max_size=3,
)
_LABELS: dict[str, list[Any]] = {
    "boolean": [True, False],
    "text": ["yes", "no", "Yes", "1"],
    "number": [0, 1, 2, 0.5],
}


def _maybe(values: st.SearchStrategy[Any], *, often: int = 3) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), *([values] * often))


def _scenarios(labels: str) -> st.SearchStrategy[Record]:
    label = st.sampled_from(_LABELS[labels])
    return st.fixed_dictionaries(
        {"id": st.sampled_from(["a", "b", "c", "d"])},
        optional={
            "category": _maybe(st.sampled_from(["adversarial", "adversarial", "Adversarial", "x"])),
            "capability": _maybe(st.sampled_from(["core", "extra"])),
            "expected_behaviors": _maybe(_lists),
            "observed_behaviors": _maybe(_lists),
            "violations": _maybe(st.sampled_from([[], [], [], ["leak"], ["leak", "leak"]])),
            "passed": _maybe(st.booleans(), often=1),
            "judgments": _maybe(_judgments, often=1),
            "impl_rate": st.none() | st.none() | _shares,
            "correct": _maybe(st.booleans()),
            "predicted": _maybe(label),
            "actual": _maybe(label),
            "latency_ms": _maybe(st.one_of(st.sampled_from([0, 250, 5000]), st.floats(0, 1e5))),
            "prompt_tokens": _maybe(_counts),
            "completion_tokens": _maybe(_counts),
            "error": st.sampled_from([None, None, None, None, "timeout: none"]),
            PASSAGE: _maybe(st.sampled_from("pqr")),
        },
    )


@st.composite
def _data_sets(draw: st.DrawFn, *, least: int = 1, groups: int = 3, rows: int = 12) -> Groups:
    """Groups whose labels are all of one type, as those of a file are."""
    one = st.lists(_scenarios(draw(st.sampled_from(sorted(_LABELS)))), min_size=1, max_size=rows)
    found = draw(st.lists(one, min_size=least, max_size=groups))
    found[0][0][PASSAGE] = "p"  # a field that no record has is refused
    return found


_weights = st.sampled_from([0, 0.5, 1, 2, 3.5])
_options = st.builds(
    Options,
    pass_score=st.sampled_from([1.0, 0.5, 1 / 3, 0.75]),
    positive=st.sampled_from([None, "yes", "1", "true", "0.5"]),
    latency_budget_ms=st.sampled_from([5000.0, 300.0, 0.1]),
    by_category=st.dictionaries(st.sampled_from(["adversarial", "x", "unheard"]), _weights),
    by_capability=st.dictionaries(st.just("core"), _weights),
)


def _asked(options: Options) -> dict[str, Any]:
    """The same as arguments of score."""
    asked = asdict(options)
    weights = {name: asked.pop(name) for name in ("by_category", "by_capability")}
    return asked | {"case_weights": cal.CaseWeights(**weights)}


def _rows(groups: Groups) -> list[Record]:
    return [row | {"case": number} for number, group in enumerate(groups) for row in group]


def _score(data: Any, options: Options, **asked: Any) -> cal.Score:
    return cal.score(data, by="case", profile="scenarios", **_asked(options), **asked)


def test_every_metric_is_checked() -> None:
    declared = {metric.name: metric.interval.name for metric in metrics_of("scenarios")}
    assert set(declared) == set(REFERENCES)
    assert declared == METHODS


@given(groups=_data_sets(), options=_options)
@examples(80, deadline=None, suppress_health_check=_HEALTH)
def test_polars_agrees_with_plain_python_on_lists(groups: Groups, options: Options) -> None:
    _compare(_score(_rows(groups), options), groups, options)


@given(groups=_data_sets(), options=_options)
@examples(40, deadline=None, suppress_health_check=_HEALTH)
def test_polars_agrees_with_plain_python_on_files(
    groups: Groups, options: Options, tmp_path: Path
) -> None:
    """Rows of one group lie in two files, so that no number depends on how they are split."""
    rows = _rows(groups)
    files = [tmp_path / "even.jsonl", tmp_path / "odd.jsonl"]
    for start, file in enumerate(files):
        lines = (json.dumps(row, ensure_ascii=start == 0) for row in rows[start::2])
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    _compare(_score(files, options), groups, options)


@given(groups=_data_sets(), confidence=st.sampled_from([0.8, 0.95]), options=_options)
@examples(40, deadline=None, suppress_health_check=_HEALTH)
def test_intervals_agree_with_plain_python(
    groups: Groups, confidence: float, options: Options
) -> None:
    for cluster in (None, PASSAGE):
        score = _score(_rows(groups), options, confidence=confidence, cluster=cluster)
        asked = Asked(confidence=confidence, cluster=cluster)
        _compare_intervals(score, groups, asked, options)


def _drawn(rng: random.Random) -> Record:
    """A record that may lack anything, and mostly does not."""
    lists: list[Any] = [["greet", "ask"], ["greet"], [], ["greet", "ask", "close"]]
    choices: dict[str, list[Any]] = {
        "id": [f"t{number}" for number in range(40)],
        "category": ["adversarial", "happy_path", "edge_case", None],
        "capability": ["core", "extra", None],
        "expected_behaviors": [*lists, lists[3], None],
        "observed_behaviors": [*lists, lists[3], lists[3], lists[3], None],
        "violations": [*[[]] * 8, ["leak"], None],
        "correct": [True, True, True, False, None],
        "predicted": [True, False, None],
        "actual": [True, False],
        "latency_ms": [100.0 * number for number in range(60)],
        "prompt_tokens": [10, 200, 3000, None],
        "completion_tokens": [5, 50],
        "error": [None] * 12 + ["timeout"],
        PASSAGE: ["p", "q", "r", "s", None],
    }
    return {name: rng.choice(values) for name, values in choices.items()}


_HEAVY = Options(by_category={"adversarial": 3.0}, by_capability={"extra": 0.5}, pass_score=0.5)


@pytest.mark.parametrize("cluster", [None, PASSAGE])
def test_larger_groups_have_every_bound(cluster: str | None) -> None:
    rng = random.Random(5)
    groups = [[_drawn(rng) for _ in range(300)] for _ in range(2)]
    score = _score(_rows(groups), _HEAVY, cluster=cluster)
    _compare(score, groups, _HEAVY)
    _compare_intervals(score, groups, Asked(cluster=cluster), _HEAVY)
    for group in score.groups:
        for name, found in group.metrics.items():
            assert found.value is not None
            low, high = found.low, found.high
            if cluster is None:
                assert low is not None
                assert high is not None
                assert 0 <= low < found.value < high, name


@needs_spark
@pytest.mark.long
@pytest.mark.parametrize("cluster", [None, PASSAGE])
def test_spark_agrees_with_plain_python(cluster: str | None, tmp_path: Path) -> None:
    """Many groups at once: a call of Spark takes seconds whatever it counts."""
    rng = random.Random(11)
    groups = [[_drawn(rng) for _ in range(rng.randint(1, 40))] for _ in range(60)]
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in _rows(groups)), encoding="utf-8")
    score = _score(path, _HEAVY, engine="spark", cluster=cluster)
    _compare(score, groups, _HEAVY)
    _compare_intervals(score, groups, Asked(cluster=cluster), _HEAVY)


@given(data=st.data(), rows=st.lists(_scenarios("boolean"), min_size=1, max_size=10))
@examples(40, deadline=None, suppress_health_check=_HEALTH)
def test_weights_of_a_bootstrap_count_as_copies(data: st.DataObject, rows: list[Record]) -> None:
    metrics = tuple(metrics_of("scenarios"))
    plan = Plan(metrics, (), Settings(case_weights=cal.CaseWeights(by_category={"x": 2})))
    [chunk] = RowList(rows, "<rows>").chunks(Wanted(plan.fields))
    measured = measure_records(plan, chunk.exact().frame).select(*plan.schema).collect()
    coded = add_codes(measured, TASK)
    codes = coded[CODE].to_list()
    clusters = max(codes) + 1
    counts = data.draw(st.lists(st.integers(0, 3), min_size=clusters, max_size=clusters))
    values = WeightedValues(coded, metrics, clusters)(np.array([counts], dtype=np.float64))
    copies = [row for row, code in zip(rows, codes, strict=True) for _ in range(counts[code])]
    for metric in metrics:
        expected = REFERENCES[metric.name](copies, Options(by_category={"x": 2})).value
        found = values[metric.name][0]
        if expected is None:
            assert not np.isfinite(found), metric.name  # left out of resamples
        else:
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-12), metric.name


def test_every_metric_has_a_bootstrap_interval_around_its_value() -> None:
    rng = random.Random(2)
    rows = [_drawn(rng) for _ in range(300)]
    plain, found = (
        cal.score(rows, profile="scenarios", resamples=resamples).groups[0].metrics
        for resamples in (0, 1000)
    )
    for name, measured in found.items():
        assert measured.interval == "BCa bootstrap", name
        assert measured.value == plain[name].value
        assert measured.low is not None
        assert measured.high is not None
        assert measured.low < measured.high, name
        closed, drawn = plain[name].stderr, measured.stderr
        assert closed is not None
        assert drawn is not None
        # Order statistics lie on values: near the end of 300 rows they reach further than they must.
        least = 0.5 if plain[name].interval == "order statistics" else 0.6
        assert least < drawn / closed < 1.4, name


def _compare(score: cal.Score, groups: Groups, options: Options) -> None:
    for number, (records, group) in enumerate(zip(groups, score.groups, strict=True)):
        assert group.by["case"] == number
        for name, reference in REFERENCES.items():
            expected, found = reference(records, options), group.metrics[name]
            where = f"{name} of {records} with {options}"
            assert (found.n, found.missing) == (expected.n, expected.missing), where
            if name != "safety_rate":
                assert found.n + found.missing + group.errors == group.records == len(records)
            assert found.extras == expected.extras, where
            if expected.value is None:
                assert found.value is None, where
                assert found.reason, where
            else:
                assert found.value == pytest.approx(expected.value, rel=1e-9, abs=1e-12), where


def _compare_intervals(score: cal.Score, groups: Groups, asked: Asked, options: Options) -> None:
    for records, group in zip(groups, score.groups, strict=True):
        for name, found in group.metrics.items():
            if found.value is None:
                assert (found.low, found.high, found.stderr, found.interval) == (None,) * 4
                continue
            expected = interval(name, records, asked, options)
            where = f"{name}: {found}, not {expected}\n{json.dumps(records)}"
            assert _same(found, expected, name), where
            low = found.value if found.low is None else found.low
            high = found.value if found.high is None else found.high
            assert low <= found.value <= high, where


def _same(found: Measured, expected: Bounds, name: str) -> bool:
    """Whether an interval is as expected, cut to the metric's range, but for rounding."""
    least, most = catalogue()[name].range
    pairs = [
        (one, None if other is None else min(most, max(least, other)))
        for one, other in ((found.low, expected.low), (found.high, expected.high))
    ]
    known = expected.low is not None or expected.high is not None
    slack = 100 * expected.slack + 1e-12
    return found.interval == (METHODS[name] if known else None) and all(
        (one is None) == (other is None)
        and (other is None or one == pytest.approx(other, rel=1e-7, abs=slack))
        for one, other in (*pairs, (found.stderr, expected.stderr))
    )
