"""Coverage is the proof: 95 % intervals hold the true value in 93 to 97 % of simulated data sets.

Heavy-tailed means: at least 90 %. Some shapes are promised no upper limit: there the interval is
wider than it need be, and docs/intervals.md says so.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests import simulated
from tests.shapes import LIMITS, SHAPES, Shape, coverage

PAGE = Path(__file__).resolve().parents[1] / "docs" / "intervals.md"


def _id(shape: Shape) -> str:
    return f"{shape.metric}: {shape.name}"


DATASETS = 2000


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.quick], ids=_id)
def test_intervals_cover(shape: Shape) -> None:
    _check(shape)


@pytest.mark.long
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if not shape.quick], ids=_id)
def test_intervals_cover_on_further_shapes(shape: Shape) -> None:
    _check(shape)


def _check(shape: Shape) -> None:
    found = coverage(shape, DATASETS)
    assert found.is_kept, f"{found.covered:.2%} of {DATASETS:,} data sets"


def test_every_method_is_guarded_in_every_run() -> None:
    assert {shape.method for shape in SHAPES if shape.quick} == {
        *("wilson", "t", "order statistics", "delta", "delta of logarithm", "MOVER")
    }
    clustered = {s.method for s in SHAPES if s.quick and ("tasks ×" in s.name or s.cluster)}
    assert clustered >= {"wilson", "t", "delta"}


def test_the_page_shows_every_shape() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for shape in (*SHAPES, *LIMITS):
        row = f"| `{shape.metric}` | {shape.name} | {shape.method} |"
        assert row in page, f"write it anew: python -m benchmarks.coverage; lacks {row}"


@pytest.mark.parametrize("metric", simulated.OVER_TASKS)
def test_true_values_over_tasks(metric: str) -> None:
    """The exact means agree with a simulation of a million runs."""
    rng = np.random.default_rng(1)
    tasks = 200_000
    shares = np.cumsum(rng.dirichlet(simulated.EASY, tasks), axis=1)
    runs = (rng.random((tasks, simulated.RUNS, 1)) > shares[:, None, :]).sum(axis=2)
    counts = np.stack([(runs == answer).sum(axis=1) for answer in range(4)], axis=1)
    kinds, times = np.unique(counts, axis=0, return_counts=True)
    figures = [simulated.OVER_TASKS[metric](kind.tolist()) for kind in kinds]
    found = float(np.average(figures, weights=times))
    assert found == pytest.approx(simulated.mean_over_tasks(metric, simulated.EASY), abs=0.005)
