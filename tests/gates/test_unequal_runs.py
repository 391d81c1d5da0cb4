"""Baselines where tasks have other numbers of runs than now: what an unchanged system gets."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calipers as cal

SETS = 120


def _runs(chances: np.ndarray, least: int, most: int, rng: np.random.Generator) -> pl.DataFrame:
    sets, tasks = chances.shape
    runs = rng.integers(least, most + 1, (sets, tasks))
    return pl.DataFrame(
        {
            "release": np.repeat(np.arange(sets), runs.sum(axis=1)),
            "id": np.repeat(np.tile(np.arange(tasks), sets), runs.ravel()).astype(str),
            "correct": rng.random(runs.sum()) < np.repeat(chances.ravel(), runs.ravel()),
        }
    )


@pytest.mark.parametrize(("before", "now"), [((1, 1), (1, 20)), ((1, 20), (1, 1))])
def test_a_loss_as_large_as_the_margin_rarely_passes(
    before: tuple[int, int], now: tuple[int, int], tmp_path: Path
) -> None:
    rng = np.random.default_rng(9)
    chances = np.clip(rng.beta(20, 1, (SETS, 60)), 0.06, 1)
    policy = {"baseline": {"margins": {"accuracy": "5%"}}}
    file = str(tmp_path / "baseline.json")
    cal.gate(_runs(chances, *before, rng), by="release", policy=policy, save_baseline=file)
    found = cal.gate(_runs(chances - 0.05, *now, rng), by="release", policy=policy, against=file)
    verdicts = Counter(check.verdict for check in found.checks)
    assert sum(verdicts.values()) >= SETS
    assert verdicts["pass"] <= 0.05 * SETS  # 2.5 %, and the luck of 120 sets
    still = cal.gate(_runs(chances, *now, rng), by="release", policy=policy, against=file)
    assert Counter(check.verdict for check in still.checks)["fail"] <= 0.05 * SETS
