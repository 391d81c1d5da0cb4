"""Metrics under weights: a cluster of weight k counts as k copies of its rows would."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator, Sequence
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
from calipers.engines.resampling import CODE, WeightedValues, add_codes, measure_influences
from calipers.metrics import Metric, catalogue, metric_named, metrics_of
from calipers.metrics.declare.declaration import CLUSTER, TASK
from calipers.metrics.declare.settings import Settings
from calipers.statistics.bootstrap import draw_weights
from tests.conformance.reference import _text
from tests.conformance.strategies import data_sets
from tests.engines.compact import compact
from tests.engines.drawn_logs import Record, logs
from tests.examples import examples

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
    if name in ("passages", "relevant_ids"):
        return value if value is None or isinstance(value, str) else json.dumps(value)
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
            measured = expected.get(number, {}).get(metric.name)  # some are left out if null
            wanted = None if measured is None else measured.value
            if wanted is None:
                assert np.isnan(value), metric.name
            else:
                assert value == pytest.approx(wanted, rel=1e-9, abs=1e-12), metric.name


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


def test_effects_do_not_depend_on_the_order_of_the_rows() -> None:
    """Polars gives levels of confidence in the order in which they come; their sums must not be."""
    rng = np.random.default_rng(0)
    rows = [
        {"id": str(number), "prob_correct": round(rng.random(), 2), "correct": rng.random() < 0.6}
        for number in range(400)
    ]
    metric = metric_named("auroc")
    plan = Plan((metric,), (), Settings())
    coded = add_codes(compact(plan, rows), TASK)
    totals = WeightedValues(coded, [metric], 400).totals()
    found = {
        measure_influences(coded.sample(fraction=1, shuffle=True), metric, totals, 400).tobytes()
        for _ in range(10)
    }
    assert len(found) == 1


@pytest.mark.long
def test_many_tasks_are_compared_the_same_every_time() -> None:
    """With several threads Polars adds up a group's rows in the order of time, unless told not to."""
    n, rng = 50_000, np.random.default_rng(0)
    probability = rng.random(n)
    ids = [f"t{number}" for number in range(n)]
    runs = [
        pl.DataFrame({"id": ids, "prob_correct": probability, "correct": rng.random(n) < chance})
        for chance in (0.8 * probability, 0.8 * probability + 0.05)
    ]
    found = {cal.compare(*runs, metrics=["auroc", "ece"]).to_json() for _ in range(6)}
    assert len(found) == 1


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


def test_codes_number_the_clusters_from_0() -> None:
    frame = pl.DataFrame({TASK: [5, None, 5, 3, None]}, schema={TASK: pl.Int64})
    codes = add_codes(frame, TASK)[CODE].to_list()
    assert codes[0] == codes[2]
    assert sorted(set(codes)) == [0, 1, 2, 3]
    assert codes[1] != codes[4], "a row without an id is a task of its own"
