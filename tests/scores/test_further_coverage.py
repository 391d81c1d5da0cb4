"""How often intervals hold whose truth is not one number for all data sets: fixed tasks, uplift."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import calipers as cal
from tests.simulated import DATASET, own_chance, table

SETS = 400
LEAST = 0.93 - 0.026  # two standard errors of a share of 400 data sets


@pytest.mark.long
@pytest.mark.parametrize("mean", [0.6, 0.9, 0.98])
@pytest.mark.parametrize("runs", [2, 5])
def test_fixed_tasks_hold_the_mean_of_these_very_tasks(mean: float, runs: int) -> None:
    rng = np.random.default_rng([int(100 * mean), runs])
    chance = own_chance(rng, mean, 0.3, (SETS, 30, 1))
    rows = table({"correct": rng.random((SETS, 30, runs)) < chance})
    score = cal.score(rows, by=DATASET, metrics=["accuracy"], tasks="fixed")
    truths = chance.mean(axis=(1, 2))
    held = [
        (found.low or 0) <= truths[int(group.by[DATASET])] <= (found.high or 0)
        for group in score.groups
        for found in [group.metrics["accuracy"]]
    ]
    assert len(held) == SETS
    assert np.mean(held) >= LEAST, f"{np.mean(held):.1%} of {SETS} data sets"


@pytest.mark.long
@pytest.mark.parametrize(("tasks", "runs"), [(12, 10), (40, 3)])
def test_uplift_holds_the_ratio_of_the_medians(tasks: int, runs: int) -> None:
    """The medians of composite_score are 0.7 and 0.8: an uplift of a seventh."""
    rng = np.random.default_rng([tasks, runs])
    ease = rng.uniform(-0.1, 0.1, (SETS, tasks, 1))
    tiers = [
        table({"impl_rate": middle + ease + rng.uniform(-0.1, 0.1, (SETS, tasks, runs))})
        for middle in (0.4, 0.6)
    ]
    rows = pl.concat(
        part.with_columns(tier=pl.lit(f"T{number}"), passed=pl.lit(value=True))
        for number, part in enumerate(tiers)
    )
    score = cal.score(rows, by=[DATASET, "tier"], profile="tiers")
    found = [each.uplift_intervals["T1"] for each in score.tiers]
    held = [(each.low or 0) <= 1 / 7 <= (each.high or 0) for each in found]
    assert len(held) == SETS
    assert np.mean(held) >= LEAST, f"{np.mean(held):.1%} of {SETS} data sets"
