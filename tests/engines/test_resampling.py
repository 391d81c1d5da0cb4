"""Metrics under weights: a cluster of weight k counts as k copies of its rows would."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from numpy.typing import NDArray

import calipers as cal
from calipers.engines import resampling as module
from calipers.engines.plan import Plan
from calipers.engines.resampling import CODE, WeightedValues, add_codes
from calipers.metrics import Metric, catalogue, metrics_of
from calipers.metrics.declare.declaration import CLUSTER, TASK
from calipers.metrics.declare.settings import Settings
from calipers.statistics.bootstrap import draw_weights
from tests.conformance.reference import _text
from tests.conformance.strategies import data_sets
from tests.engines.compact import compact
from tests.examples import examples

Record = dict[str, Any]
Floats = NDArray[np.float64]

METRICS = tuple(metrics_of("reasoning"))


def weighted_values(
    rows: Sequence[Record], metrics: Sequence[Metric] = METRICS, *, cluster: str | None = None
) -> tuple[WeightedValues, list[int]]:
    """The values under weights, and the number of each row's cluster."""
    plan = Plan(tuple(metrics), (), Settings(), cluster=cluster)
    read = [{name: _read(row, name) for name in row} for row in rows]
    coded = add_codes(compact(plan, read), TASK if cluster is None else CLUSTER)
    codes = coded[CODE].to_list()
    return WeightedValues(coded, metrics, max(codes) + 1), codes


def _read(row: Record, name: str) -> Any:
    """A field's value as a reader hands it over."""
    value = row[name]
    if value is not None and name in ("id", "answer", "target", "cot", "error", "site"):
        return _text(row, name)
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def copies(rows: Sequence[Record], codes: Sequence[int], counts: Sequence[int]) -> Iterator[Record]:
    """Each row as often as its cluster is drawn; a task drawn again is another task."""
    for number, (row, code) in enumerate(zip(rows, codes, strict=True)):
        for copy in range(counts[code]):
            task = f"row {number}" if row.get("id") is None else row["id"]
            yield {**row, "id": f"{task}#{copy}"}


slowly = examples(
    40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@slowly
@given(data=st.data(), groups=data_sets(groups=1, rows=10))
def test_weights_count_as_copies(data: st.DataObject, groups: list[list[Record]]) -> None:
    [rows] = groups
    values, codes = weighted_values(rows)
    _check(data, values, rows, codes)


@slowly
@given(data=st.data(), groups=data_sets(groups=1, rows=10))
def test_clusters_of_several_tasks(data: st.DataObject, groups: list[list[Record]]) -> None:
    [rows] = groups
    for number, row in enumerate(rows):
        task = row.setdefault("id", f"t{number}")
        row["site"] = {"a": "x", "b": "x", "c": "y"}.get(task)  # others are clusters of their own
    values, codes = weighted_values(rows, cluster="site")
    if any(
        row["site"] is None and sum(each["id"] == row["id"] for each in rows) > 1 for row in rows
    ):
        return  # runs of one task in several clusters: it lies in one of them
    _check(data, values, rows, codes)


def _check(
    data: st.DataObject, values: WeightedValues, rows: Sequence[Record], codes: Sequence[int]
) -> None:
    counts = st.lists(st.integers(0, 3), min_size=values.clusters, max_size=values.clusters)
    drawn = data.draw(st.lists(counts, min_size=1, max_size=4))
    found = values(np.array(drawn, dtype=np.float64))
    table = [
        {**row, "draw": number}
        for number, each in enumerate(drawn)
        for row in copies(rows, codes, each)
    ]
    score = cal.score(table, by="draw", profile="reasoning") if table else None
    expected = {group.by["draw"]: group.metrics for group in score.groups} if score else {}
    for number in range(len(drawn)):
        for metric in METRICS:
            value = found[metric.name][number]
            wanted = expected[number][metric.name].value if number in expected else None
            if wanted is None:
                assert np.isnan(value), metric.name
            else:
                assert value == pytest.approx(wanted, rel=1e-9, abs=1e-12), metric.name


def logs(tasks: int, seed: int = 0, *, runs: int = 1, sites: int = 7) -> list[Record]:
    chance = random.Random(seed)
    return [
        {
            "id": f"t{task}",
            "site": f"s{task % sites}",
            "target": "7",
            "answer": chance.choice("77123"),
            "prob_correct": chance.random(),
            "latency_ms": chance.expovariate(1 / 100),
            "cot": chance.choice(["1. 2 + 2 = 4", "sorry, 2 + 2 = 5\n- so", "no"]),
        }
        for task in range(tasks)
        for _ in range(runs)
    ]


def test_pieces_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few numbers are held at a time, the values are the same."""
    rows = logs(60, runs=2)
    [drawn] = draw_weights(60, 200, 0)
    whole = weighted_values(rows)[0](drawn)
    monkeypatch.setattr(module, "_KEYED_CELLS", 500)
    monkeypatch.setattr(module, "_RANKED_CELLS", 500)
    pieces = weighted_values(rows)[0](drawn)
    for name, values in whole.items():
        np.testing.assert_allclose(values, pieces[name], rtol=1e-12, err_msg=name)


def test_values_are_the_same_every_time() -> None:
    """Sums come in one order: the streaming engine's would differ in the last bits."""
    rows = logs(400, runs=3)
    [drawn] = draw_weights(400, 500, 0)
    first = weighted_values(rows)[0](drawn)
    for _ in range(4):
        again = weighted_values(rows)[0](drawn)
        for name, values in first.items():
            assert np.array_equal(values, again[name], equal_nan=True), name


def test_a_rank_outside_its_band_is_still_found() -> None:
    """A band around the rank is searched first; few large clusters move it far away."""
    rows = [
        {"id": f"{site}-{n}", "site": site, "latency_ms": float(1000 * (site == "slow") + n)}
        for site in ("slow", "fast")
        for n in range(500)
    ]
    metric = catalogue()["latency_p95_ms"]
    values, codes = weighted_values(rows, [metric], cluster="site")
    slow = codes[0]
    drawn = np.zeros((3, 2))
    drawn[0, slow], drawn[1, 1 - slow] = 2, 2
    drawn[2] = 1
    assert values(drawn)["latency_p95_ms"].tolist() == [1474.0, 474.0, 1449.0]


def test_few_clusters_of_many_rows_fit_in_memory() -> None:
    rows = [{"id": str(n), "site": f"s{n % 4}", "latency_ms": float(n)} for n in range(20_000)]
    values, _ = weighted_values(rows, [catalogue()["latency_p95_ms"]], cluster="site")
    tracemalloc.start()
    found = values.resample(2_000, 0)["latency_p95_ms"]  # 320 MB as one matrix
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.isfinite(found).all()
    assert peak < 200_000_000


# From score


def measured(rows: Sequence[Record], **asked: Any) -> Mapping[str, Any]:
    (group,) = cal.score(rows, **{"resamples": 2000, **asked}).groups
    return group.metrics


def test_every_metric_has_a_bootstrap_interval_around_its_value() -> None:
    plain = measured(logs(80, runs=2), resamples=0)
    for name, found in measured(logs(80, runs=2)).items():
        assert found.value == plain[name].value
        refused = ("ece", "sce", "sce_normalized", "latency_p99_ms")
        if name in ("time_score", *refused):  # time_score: all are 1
            assert found == plain[name]
            continue
        assert found.interval == "BCa bootstrap", name
        assert found.low < found.high, name
        assert found.stderr == pytest.approx(plain[name].stderr, rel=0.35), name


def test_the_same_seed_the_same_bytes() -> None:
    rows = logs(60, runs=2)
    first, again, other = (
        cal.score(rows, resamples=500, seed=seed).to_json() for seed in (1, 1, 2)
    )
    assert first == again != other


def test_a_group_does_not_depend_on_the_others() -> None:
    ours, theirs = (
        [{**row, "model": model} for row in logs(40, seed)] for seed, model in enumerate("ab")
    )
    both = cal.score([*theirs, *ours], by="model", resamples=500).groups
    alone = cal.score(ours, by="model", resamples=500).groups
    assert both[0].metrics == alone[0].metrics
    assert both[1].metrics != alone[0].metrics


def test_what_few_clusters_carry_is_not_resampled() -> None:
    score = cal.score(
        [{"id": str(n), "correct": n > 1} for n in range(80)], metrics=["accuracy"], resamples=500
    )
    assert score.groups[0].metrics["accuracy"].interval == "wilson"
    [notice] = score.notices
    assert notice.endswith("accuracy in some groups: fewer than 5 clusters carry the variance")


def test_the_order_of_the_rows_makes_no_difference() -> None:
    rows = logs(60, runs=2)
    other = list(rows)
    random.Random(3).shuffle(other)
    first, second = (measured(each, resamples=300) for each in (rows, other))
    for name, found in first.items():
        assert (found.low, found.high) == pytest.approx((second[name].low, second[name].high))


def test_one_minus_accuracy_mirrors_it() -> None:
    found = measured([{"id": str(n), "correct": n < 7} for n in range(80)], resamples=20_000)
    accuracy, wrong = found["accuracy"], found["error_rate"]
    assert (1 - wrong.high, 1 - wrong.low) == pytest.approx((accuracy.low, accuracy.high))
    # 7 of 80 may well be 14 of 80, and hardly 0: the skewness moves both bounds up.
    assert accuracy.high - 7 / 80 > 7 / 80 - accuracy.low


def test_the_upper_tail_of_a_quantile_is_the_longer() -> None:
    """The bounds are near the exact ones by order statistics, which are not symmetric in ranks."""
    rows = [{"id": str(n), "latency_ms": float(n)} for n in range(1, 201)]
    exact, found = measured(rows, resamples=0), measured(rows, resamples=20_000)
    ours, theirs = found["latency_p95_ms"], exact["latency_p95_ms"]
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1.5)


def test_runs_of_a_task_are_drawn_together() -> None:
    chance = random.Random(1)
    rows = [
        {"id": str(task), "latency_ms": level + chance.gauss(0, 1)}
        for task in range(40)
        for level in [chance.gauss(100, 10)]
        for _ in range(5)
    ]
    together = measured(rows)["latency_mean_ms"]
    apart = measured([{**row, "id": str(n)} for n, row in enumerate(rows)])["latency_mean_ms"]
    assert together.stderr > 1.7 * apart.stderr


def test_records_without_ids_are_clusters_of_their_own() -> None:
    rows = logs(50)
    without = [{name: value for name, value in row.items() if name != "id"} for row in rows]
    ours, theirs = measured(rows)["brier"], measured(without)["brier"]
    assert ours.stderr == pytest.approx(theirs.stderr, rel=0.1)


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": "1", "latency_ms": 0.1}] * 3,
        [{"id": str(n), "latency_ms": 0.1} for n in range(13)],
        [{"id": str(n), "latency_ms": 5, "error": "timeout: 60 s"} for n in range(3)],
        [{"id": str(n), "latency_ms": 1e308} for n in range(4)],
        [{"id": str(n), "latency_ms": 1e200 * n} for n in range(9)],
        [{"id": "1"}],
    ],
    ids=["one task", "constant", "every call failed", "overflow", "squares overflow", "nothing"],
)
def test_where_resampling_says_nothing_the_closed_form_stands(rows: list[Record]) -> None:
    plain = measured(rows, resamples=0, profile="reasoning")
    found = measured(rows, resamples=200, profile="reasoning")
    for name, metric in found.items():
        assert metric.value == plain[name].value
        assert metric.reason == plain[name].reason
        if metric.interval != "BCa bootstrap":
            assert metric == plain[name]


def test_codes_number_the_clusters_from_0() -> None:
    frame = pl.DataFrame({TASK: [5, None, 5, 3, None]}, schema={TASK: pl.Int64})
    codes = add_codes(frame, TASK)[CODE].to_list()
    assert codes[0] == codes[2]
    assert sorted(set(codes)) == [0, 1, 2, 3]
    assert codes[1] != codes[4], "a row without an id is a task of its own"
