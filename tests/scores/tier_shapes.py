"""Simulated tiers on the same tasks: how often what is said of them holds the truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import polars as pl

import calipers as cal
from calipers.engines.per_task import MOST_RUNS
from calipers.scores.result import BoundedValue, Tiers
from tests.simulated import DATASET, table

TIERS = ((0.0, 0.55, 1.0), (0.5, 0.6, 1.4), (1.2, 0.7, 2.0))  # ease, part done, median cost
OF_SPREADS = ("cost_delta", "cost_variance", "pass_rate_variance", "pass_rate_mean_variance")
_LIKELY = 100_000  # tasks that tell the truth: their error is a small part of what is measured


@dataclass(frozen=True, kw_only=True)
class TierShape:
    """So many tasks, each run so often by each of three tiers, and how much tasks differ."""

    tasks: int
    runs: int
    spread: float

    @property
    def name(self) -> str:
        alike = "alike" if not self.spread else "easy and hard"
        return f"{self.tasks:,} tasks, {alike}, × {self.runs} runs × 3 tiers"

    def draw(self, rng: np.random.Generator, sets: int) -> pl.DataFrame:
        """Return the runs of many data sets."""
        ease = self.spread * rng.standard_normal((sets, self.tasks, 1))
        shape = (sets, self.tasks, self.runs)
        parts = [
            table(
                {
                    "passed": rng.random(shape) < 1 / (1 + np.exp(-ease - own)),
                    "impl_rate": np.clip(done + ease / 10 + rng.uniform(-0.2, 0.2, shape), 0, 1),
                    "cost_usd": cost * np.exp(-ease / 4 + 0.5 * rng.standard_normal(shape)),
                }
            ).with_columns(tier=pl.lit(f"T{number}"))
            for number, (own, done, cost) in enumerate(TIERS)
        ]
        return pl.concat(parts)


SHAPES = tuple(
    TierShape(tasks=tasks, runs=runs, spread=spread)
    for tasks, runs in ((20, 5), (100, 5), (700, 5))
    for spread in (0.0, 1.0)
)


@cache
def _truth(spread: float) -> Tiers:
    many = TierShape(tasks=_LIKELY, runs=1, spread=spread)
    rows = many.draw(np.random.default_rng(1), 1).drop(DATASET)
    return cal.score(rows, by="tier", profile="tiers").tiers[0]


def coverage(
    shape: TierShape, sets: int, *, resampled: bool = False
) -> Iterator[tuple[str, str, float]]:
    """Yield what, by which method, and how often its interval held the truth.

    All data sets are scored at once, and are then too many runs to resample; `resampled` scores
    each by itself.
    """
    truth = _truth(shape.spread)
    rows = shape.draw(np.random.default_rng([shape.tasks, shape.runs]), sets)
    if resampled:
        assert shape.tasks * shape.runs * len(TIERS) <= MOST_RUNS
        parts = [part.drop(DATASET) for part in rows.partition_by(DATASET)]
        found = [cal.score(part, by="tier", profile="tiers") for part in parts]
    else:
        found = [cal.score(rows, by=[DATASET, "tier"], profile="tiers")]
    tiers = [each for score in found for each in score.tiers]
    assert len(tiers) == sets
    for name in ("T1", "T2"):
        bounds = [each.uplift_intervals[name] for each in tiers]
        yield f"uplift of {name}", _method(bounds), _held(bounds, truth.uplift[name])
    if resampled:
        return
    for name in OF_SPREADS:
        bounds = [each.intervals[name] for each in tiers]
        yield name, _method(bounds), _held(bounds, getattr(truth, name))
    for name in ("T0", "T2"):
        bounds = [each.median_composite[name] for each in tiers]
        value = truth.median_composite[name].value
        yield f"median composite of {name}", _method(bounds), _held(bounds, value)


def _method(bounds: list[BoundedValue]) -> str:
    return next(each.interval for each in bounds if each.interval is not None)


def _held(bounds: list[BoundedValue], truth: float | None) -> float:
    """Return the share that held, of those that have an interval; a null has its reason."""
    assert truth is not None
    known = [each for each in bounds if each.low is not None and each.high is not None]
    assert all(each.reason for each in bounds if each not in known)
    return float(np.mean([(each.low or 0) <= truth <= (each.high or 0) for each in known]))
