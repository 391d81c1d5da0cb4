"""Every interval on every engine is what plain Python gives, and keeps what intervals promise."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import calipers as cal
from calipers.engines import read_rows
from calipers.engines.store import Store
from calipers.metrics import catalogue
from calipers.scores.result import Measured
from tests.conformance.interval_errors import Asked, Bounds, UncertainError
from tests.conformance.interval_reference import METHODS, possible_intervals
from tests.conformance.reference import REFERENCES, Options
from tests.conformance.strategies import data_sets
from tests.conformance.test_conformance import compare_values
from tests.engines_at_hand import needs_spark
from tests.examples import examples

Record = dict[str, Any]
Groups = list[list[Record]]

PASSAGE = "passage"
_HEALTH = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
_confidences = st.sampled_from([0.8, 0.95, 0.99])
_ROW: Record = {
    "id": "a",
    "answer": "7",
    "target": "7",
    "prob_correct": 0.9,
    "cot": "1. so 3 + 4 = 7",
    "prompt_tokens": 3,
    "completion_tokens": 4,
    "latency_ms": 5.0,
}


@st.composite
def clustered_sets(draw: st.DrawFn, *, groups: int, rows: int) -> Groups:
    """Groups of records with passages: none, of whole tasks, across tasks, some without one."""
    found = draw(data_sets(groups=groups, rows=rows))
    kind = draw(st.sampled_from(["across", "of tasks", "alone"]))
    for group in found:
        of_task = {key: draw(_passages) for key in ("a", "b", "c", 4)} if kind == "of tasks" else {}
        for number, row in enumerate(group):
            own = f"p{number}" if kind == "alone" else None
            row[PASSAGE] = of_task[row["id"]] if of_task and "id" in row else own or draw(_passages)
    found[0][0][PASSAGE] = "p"  # a field that no record has is refused
    return found


_passages = st.sampled_from(["p", "q", "r", None])


def test_every_metric_names_its_method() -> None:
    declared = {name: metric.interval.name for name, metric in catalogue().items()}
    assert {name: declared[name] for name in METHODS} == METHODS


@given(groups=data_sets(groups=3, rows=8), confidence=_confidences)
@examples(60, deadline=None, suppress_health_check=_HEALTH)
def test_tasks_are_clusters(groups: Groups, confidence: float) -> None:
    _compare(_score(groups, confidence=confidence), groups, Asked(confidence=confidence))


@given(groups=clustered_sets(groups=3, rows=8), confidence=_confidences)
@examples(60, deadline=None, suppress_health_check=_HEALTH)
def test_a_field_names_the_clusters(groups: Groups, confidence: float) -> None:
    score = _score(groups, confidence=confidence, cluster=PASSAGE)
    _compare(score, groups, Asked(confidence=confidence, cluster=PASSAGE))


@pytest.mark.long
@pytest.mark.parametrize("cluster", [pytest.param(None, marks=pytest.mark.long), PASSAGE])
def test_larger_groups_have_every_bound(cluster: str | None) -> None:
    """Enough rows for both bounds of a quantile and an entropy, and for gaps that are there."""
    rng = random.Random(3)
    groups = [[_drawn(rng) | _of_task(rng, 30) for _ in range(240)] for _ in range(2)]
    score = _score(groups, cluster=cluster)
    _compare(score, groups, Asked(cluster=cluster))
    for name in ("ece", "sce", "auroc", "latency_p95_ms", "accuracy", "stability"):
        for found in _of(score, name):
            assert found.low is not None, name
            assert found.high is not None, name
            few = name == "ece" and cluster is not None  # passages: each may be unlike in any bin
            assert (0 if few else 1e-9) <= found.low < found.high, name


def _of_task(rng: random.Random, tasks: int) -> Record:
    """A run of one of so many tasks, the first right more often, all overconfident."""
    task = rng.randrange(tasks)
    return {
        "id": f"t{task}",
        "target": "7",
        "answer": "7" if rng.random() < (0.6 if 2 * task < tasks else 0.2) else rng.choice("89"),
        "prob_correct": rng.choice([0.7, 0.75, 0.9, 0.99] if task % 3 else [0.8, 0.95]),
        "latency_ms": task / 10 + rng.expovariate(1),
        PASSAGE: f"p{task // 2}" if task else None,
    }


@needs_spark
@pytest.mark.parametrize("cluster", [None, pytest.param(PASSAGE, marks=pytest.mark.long)])
def test_spark_gives_the_same_values_and_intervals(cluster: str | None) -> None:
    """Many groups at once: a call of Spark takes seconds whatever it counts."""
    rng = random.Random(7)
    groups = [[_drawn(rng) for _ in range(rng.randint(1, 14))] for _ in range(80)]
    score = _score(groups, cluster=cluster, engine="spark")
    compare_values(score, groups, Options())
    _compare(score, groups, Asked(cluster=cluster))


def _drawn(rng: random.Random) -> Record:
    """A record with an id that may lack anything else."""
    choices: dict[str, list[Any]] = {
        "answer": ["7", "7.0", " 8", "9", None],
        "target": ["7", "8", "7", None],
        "prob_correct": [0.05, 0.3, 0.5, 0.85, 1.0, None],
        "cot": ["", "1. so 3 + 4 = 7", "sorry, 2 + 2 = 5\n- 3 = 3", None],
        "prompt_tokens": [0, 3, 10**9, None],
        "completion_tokens": [1, 2, None],
        "latency_ms": [1, 2.5, 3, 250.125, None],
        "error": [None] * 8 + ["timeout"],
        PASSAGE: ["p", "q", "r", None],
        "id": ["a", "b", "c"],
    }
    return {name: rng.choice(values) for name, values in choices.items()}


@given(groups=clustered_sets(groups=2, rows=8), cluster=st.sampled_from([None, PASSAGE]))
@examples(30, deadline=None, suppress_health_check=_HEALTH)
def test_intervals_keep_their_promises(groups: Groups, cluster: str | None) -> None:
    narrow, wide = (_score(groups, cluster=cluster, confidence=each) for each in (0.8, 0.99))
    for name, metric in catalogue().items():
        for found, wider in zip(_of(narrow, name), _of(wide, name), strict=True):
            if found.value is None:
                assert (found.low, found.high, found.stderr, found.interval) == (None,) * 4
                continue
            low, high = _ends(found)
            assert low <= found.value <= high, name
            assert all(
                metric.range[0] <= bound <= metric.range[1]
                for bound in (found.low, found.high)
                if bound is not None
            ), name
            assert (found.interval is None) == (found.low is None and found.high is None)
            assert found.stderr is None or found.stderr >= 0
            wider_low, wider_high = _ends(wider)
            assert wider_low <= low, name
            assert wider_high >= high, name


@pytest.mark.long
@given(groups=clustered_sets(groups=2, rows=10), seed=st.integers(0, 99))
@examples(12, deadline=None, suppress_health_check=_HEALTH)
def test_how_rows_are_split_changes_nothing(
    groups: Groups, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another order, over three files, in as many parts on disk as there are."""
    rows = _rows(groups)
    random.Random(seed).shuffle(rows)
    files = [tmp_path / f"{number}.jsonl" for number in range(3)]
    for number, file in enumerate(files):
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows[number::3]), "utf-8")
    for cluster in (None, PASSAGE):
        whole = _score(groups, cluster=cluster)
        with monkeypatch.context() as patch:
            patch.setattr(read_rows, "Store", partial(Store, held_bytes=1))
            patch.setattr("calipers.engines.spilling.SPILL_BYTES", 5_000)
            parts = cal.score(files, by="case", profile="reasoning", cluster=cluster)
        for name in REFERENCES:
            for records, one, other in zip(groups, _of(whole, name), _of(parts, name), strict=True):
                if one.value is None:
                    assert other.value is None
                    continue
                try:
                    slack = next(possible_intervals(name, records, Asked(cluster=cluster))).slack
                except UncertainError:
                    continue
                expected = Bounds(one.low, one.high, one.stderr, slack)
                assert _differences(other, expected, name, reach=100) == [], name


@pytest.mark.parametrize("cluster", [None, PASSAGE])
def test_one_cluster_speaks_of_its_own_rows_alone(cluster: str | None) -> None:
    """Runs of one task have an interval that holds for that task, and says so; or a reason."""
    scope = "runs of one task" if cluster is None else f"rows of one {cluster}"
    rows = [
        _ROW | {PASSAGE: "p", "answer": answer, "latency_ms": ms}
        for answer, ms in (("7", 4.0), ("7", 5.0), ("8", 9.0))
    ]
    alone = [row | {"id": str(number), PASSAGE: str(number)} for number, row in enumerate(rows)]
    independent = cal.score(alone, cluster=cluster).groups[0].metrics
    over_tasks = {"mode_accuracy", "stability", "answer_entropy", "determinism_index"}
    for name, found in cal.score(rows, cluster=cluster).groups[0].metrics.items():
        assert found.value is not None
        if name in over_tasks or name.startswith("pass_"):  # of tasks, whatever their runs
            continue
        same = independent[name]
        assert (found.low, found.high, found.stderr) == (same.low, same.high, same.stderr), name
        assert found.scope == (None if found.interval is None else scope), name
        assert (found.interval_reason is None) == (None not in (found.low, found.high)), name


def test_one_task_gives_no_interval_over_tasks_and_says_why() -> None:
    found = cal.score([_ROW, _ROW], metrics=["determinism_index"]).groups[0]
    measured = found.metrics["determinism_index"]
    assert (measured.low, measured.high) == (None, None)
    assert measured.to_dict()["interval_reason"] == "one task does not show how much others vary"


def test_one_cluster_has_a_quantile_of_its_own_rows() -> None:
    rows = [_ROW | {"latency_ms": float(ms)} for ms in range(40)]
    score = cal.score(rows, metrics=["latency_p95_ms"], confidence=0.5)
    found = score.groups[0].metrics["latency_p95_ms"].to_dict()
    assert (found["low"], found["high"], found["scope"]) == (36.0, 39.0, "runs of one task")


def test_one_row() -> None:
    """A share of one row has Wilson's interval, p99 a lower bound; nothing else has one."""
    for name, found in cal.score([_ROW], profile="reasoning").groups[0].metrics.items():
        if name == "latency_p99_ms":  # one value in a hundred is above it
            assert (found.low, found.high, found.interval) == (5.0, None, "order statistics")
        elif METHODS[name] == "wilson" and found.value is not None:
            assert found.interval == "wilson"
            assert 0 < found.high - found.low < 1  # type: ignore[operator]
        else:
            assert (found.low, found.high, found.interval) == (None,) * 3, name
        assert found.stderr is None


def test_equal_values() -> None:
    """No spread does not make a value sure: what has an end allows for the unseen, else none."""
    rows = [_ROW | {"id": str(number)} for number in range(30)]
    metrics = cal.score(rows).groups[0].metrics
    mean = metrics["latency_mean_ms"]
    assert (mean.low, mean.value, mean.high, mean.stderr) == (None, 5.0, None, 0.0)
    assert mean.interval_reason == "all values are equal: they do not show how much others vary"
    brier = metrics["brier"]
    assert brier.stderr == pytest.approx(0, abs=1e-9)
    assert brier.high == pytest.approx(0.01 + 0.99 * 1.959964**2 / (30 + 1.959964**2))
    accuracy, entropy = metrics["accuracy"], metrics["sce"]
    assert accuracy.low == pytest.approx(30 / (30 + 1.959964**2))
    assert (accuracy.high, accuracy.stderr) == (1.0, 0.0)
    assert (entropy.low, entropy.value) == (0.0, 0.0)
    assert entropy.high == pytest.approx(2.0452 * math.log(31) / 30, rel=1e-4)


def test_balanced_clusters() -> None:
    """Every task right in one of three runs: it is rounding whether they spread at all."""
    rows = [{"id": f"{task}", "correct": run == 0} for task in range(12) for run in range(3)]
    score = _score([rows])
    _compare(score, [rows], Asked())
    found = score.groups[0].metrics["accuracy"]
    reordered = cal.score(rows[::3] + rows[1::3] + rows[2::3], metrics=["accuracy"])
    assert found.stderr == pytest.approx(0, abs=1e-8)
    assert reordered.groups[0].metrics["accuracy"].low == pytest.approx(found.low, rel=1e-9)


def test_few_rows_per_answer_have_no_upper_bound() -> None:
    rows = [_ROW | {"id": str(number), "answer": str(number // 4)} for number in range(40)]
    for name in ("sce", "sce_normalized"):
        found = cal.score(rows, metrics=[name]).groups[0].metrics[name]
        assert found.low is not None
        assert found.high is None
        assert found.interval == "delta"


def _rows(groups: Groups) -> list[Record]:
    return [row | {"case": number} for number, group in enumerate(groups) for row in group]


def _score(groups: Groups, **options: Any) -> cal.Score:
    return cal.score(_rows(groups), by="case", profile="reasoning", **options)


def _of(score: cal.Score, name: str) -> Iterator[Measured]:
    """The metric in each group, in their order."""
    none = Measured(value=None, n=0, missing=0, reason="not shown")  # some are left out if null
    return (group.metrics.get(name, none) for group in score.groups)


def _ends(found: Measured) -> tuple[float, float]:
    """The bounds; without one there is no end."""
    low = -math.inf if found.low is None else found.low
    return low, math.inf if found.high is None else found.high


def _compare(score: cal.Score, groups: Groups, asked: Asked) -> None:
    shown = {name for group in score.groups for name in group.metrics}
    for name in REFERENCES.keys() & shown:
        for records, found in zip(groups, _of(score, name), strict=True):
            if found.value is None:
                assert (found.low, found.high, found.stderr, found.interval) == (None,) * 4
                continue
            try:
                expected = list(possible_intervals(name, records, asked))
            except UncertainError:
                continue
            wrong = [_differences(found, each, name, reach=_reach(asked)) for each in expected]
            assert [] in wrong, f"{name}: {found}, not {expected}\n{json.dumps(records)}"


def _reach(asked: Asked) -> float:
    """The most standard errors that an interval can reach: two clusters."""
    return 1 / math.tan(math.pi * (1 - asked.confidence) / 2)


def _differences(found: Measured, expected: Bounds, name: str, *, reach: float) -> list[str]:
    """What of the interval is not as expected, but for rounding."""
    low, high = catalogue()[name].range
    cut: Callable[[float | None], float | None] = lambda bound: (  # noqa: E731
        None if bound is None else min(high, max(low, bound))
    )
    slack = expected.slack + 1e-12
    size = abs(found.value or 0.0)
    pairs = {
        "low": (found.low, cut(expected.low), 2 * reach * slack + 1e-9 * size),
        "high": (found.high, cut(expected.high), 2 * reach * slack + 1e-9 * size),
        "stderr": (found.stderr, expected.stderr, slack),
    }
    known = expected.low is not None or expected.high is not None
    wrong = [
        side
        for side, (one, other, absolute) in pairs.items()
        if (one is None) != (other is None)
        or (other is not None and one != pytest.approx(other, rel=1e-9, abs=absolute))
    ]
    return wrong + ([] if found.interval == (METHODS[name] if known else None) else ["method"])
