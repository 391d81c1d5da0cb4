"""Coverage is the proof: 95 % intervals hold the true value in 93 to 97 % of simulated data sets.

Heavy-tailed means: at least 90 %. Some shapes are promised no upper limit: there the interval is
wider than it need be, and docs/intervals.md says so. Each bar gives way by two standard errors of
the simulation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calipers.metrics import catalogue
from tests import bootstrap_shapes, simulated
from tests.every_shape import EVERY_OTHER
from tests.shapes import LIMITS, SHAPES, Shape, coverage
from tests.unequal_shapes import UNEQUAL
from tests.unseen_shapes import RARE, UNSEEN

PAGE = Path(__file__).resolve().parents[2] / "docs" / "intervals.md"


def _id(shape: Shape) -> str:
    return f"{shape.metric}: {shape.name}"


DATASETS = 1000
A_FEW = 300  # show that a method is not far off
EVERY = (*SHAPES, *UNSEEN, *EVERY_OTHER, *UNEQUAL)


@pytest.mark.parametrize("shape", [shape for shape in EVERY if shape.quick], ids=_id)
def test_intervals_cover(shape: Shape) -> None:
    _check(shape, A_FEW)


@pytest.mark.long
@pytest.mark.parametrize("shape", EVERY, ids=_id)
def test_intervals_of_every_shape_cover(shape: Shape) -> None:
    _check(shape, DATASETS)


def _check(shape: Shape, datasets: int) -> None:
    found = coverage(shape, datasets)
    assert found.is_kept, f"{found.covered:.2%} of {datasets:,} data sets"


def test_every_method_is_guarded_in_every_run() -> None:
    assert {shape.method for shape in EVERY if shape.quick} == {
        *("wilson", "log t", "order statistics", "delta", "delta of logarithm", "MOVER"),
        "logit t",
    }
    clustered = {s.method for s in SHAPES if s.quick and ("tasks ×" in s.name or s.cluster)}
    assert clustered >= {"wilson", "log t", "delta"}


def test_the_page_shows_every_shape() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for shape in (*EVERY, *LIMITS, *RARE):
        row = f"| `{shape.metric}` | {shape.name} | {shape.method} |"
        assert row in page, f"write it again: python -m benchmarks.coverage; lacks {row}"


def test_every_metric_that_has_an_interval_is_simulated() -> None:
    assert set(catalogue()) == {shape.metric for shape in EVERY}


def test_the_page_names_the_method_of_every_metric() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    for name, metric in catalogue().items():
        method = f"| `{metric.interval.name}` |"
        assert any(f"`{name}`" in row and method in row for row in rows), f"{name} {method}"


@pytest.fixture(scope="module")
def drawn_tasks() -> tuple[Any, Any]:
    """A million runs: how often each answer came in a task, and in how many tasks so."""
    rng = np.random.default_rng(1)
    tasks = 200_000
    shares = np.cumsum(rng.dirichlet(simulated.EASY, tasks), axis=1)
    runs = (rng.random((tasks, simulated.RUNS, 1)) > shares[:, None, :]).sum(axis=2)
    counts = np.stack([(runs == answer).sum(axis=1) for answer in range(4)], axis=1)
    return np.unique(counts, axis=0, return_counts=True)


@pytest.mark.parametrize("metric", simulated.OVER_TASKS)
def test_true_values_over_tasks(metric: str, drawn_tasks: tuple[Any, Any]) -> None:
    """The exact means agree with a simulation."""
    kinds, times = drawn_tasks
    figures = [simulated.OVER_TASKS[metric](kind.tolist()) for kind in kinds]
    found = float(np.average(figures, weights=times))
    assert found == pytest.approx(simulated.mean_over_tasks(metric, simulated.EASY), abs=0.005)


@pytest.mark.long
@pytest.mark.parametrize("shape", bootstrap_shapes.one_of_each(), ids=_id)
def test_resampled_intervals_cover(shape: Shape) -> None:
    found = bootstrap_shapes.coverage(shape, 400)
    least = bootstrap_shapes.LEAST - bootstrap_shapes.SLACK
    assert found.covered >= least, f"{found.covered:.1%} of 400 data sets"
