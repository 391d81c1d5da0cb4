"""Simulated scenarios whose true values are known: categories, labels, behaviors, tokens."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import polars as pl
from scipy import special

from tests.simulated import Array, Draw, Rng, correlated, own_chance, table

ADVERSARIAL, HAPPY = "adversarial", "happy_path"
_OF_ADVERSARIAL = 0.3  # of the scenarios


def _categories(rng: Rng, sets: int, tasks: int) -> Array:
    return rng.random((sets, tasks, 1)) < _OF_ADVERSARIAL


def passed(adversarial: float, happy: float, tasks: int, runs: int = 1) -> Draw:
    """Adversarial scenarios and others pass with different chances, each task with its own."""

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        hard = _categories(rng, sets, tasks)
        chances = (own_chance(rng, mean, 0.3, (sets, tasks, 1)) for mean in (adversarial, happy))
        found = rng.random((sets, tasks, runs)) < np.where(hard, *chances)
        return table({"passed": found, "category": np.where(hard, ADVERSARIAL, HAPPY)})

    return draw


def weighted_share(weight: float, adversarial: float, happy: float) -> float:
    """How many pass where an adversarial scenario has that weight."""
    heavy = weight * _OF_ADVERSARIAL
    return (heavy * adversarial + (1 - _OF_ADVERSARIAL) * happy) / (heavy + 1 - _OF_ADVERSARIAL)


_POSITIVE = 0.4
PRECISION = _POSITIVE * 0.9 / (_POSITIVE * 0.9 + (1 - _POSITIVE) * 0.1)


def predictions(tasks: int, runs: int = 1) -> Draw:
    """Four tasks of ten are positive; each kind is told right nine times of ten on average."""

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        actual = rng.random((sets, tasks, 1)) < _POSITIVE
        right = rng.random((sets, tasks, runs)) < own_chance(rng, 0.9, 0.3, (sets, tasks, 1))
        return table({"predicted": right == actual, "actual": actual})

    return draw


_LISTS = np.array(
    ["[" + ", ".join(f'"b{number}"' for number in range(size)) + "]" for size in range(5)]
)


def behaviors(
    mean: float, tasks: int, runs: int = 1, *, violating: float = 0.0, correlation: float = 0.3
) -> Draw:
    """One to four expected behaviors, each shown with the task's own chance."""

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        expected = rng.integers(1, 5, (sets, tasks, 1))
        chance = own_chance(rng, mean, correlation, (sets, tasks, 1))
        observed = rng.binomial(expected, chance, (sets, tasks, runs))
        violations = (rng.random(observed.shape) < violating).astype(int)
        return table(
            {
                "expected_behaviors": _LISTS[expected],
                "observed_behaviors": _LISTS[observed],
                "violations": _LISTS[violations],
            }
        )

    return draw


_RIGHT = 0.7
_LOG_TOKENS, _LONGER_WHEN_WRONG, _TOKENS_VARY = 6.0, 0.3, 0.6
EFFICIENCY = _RIGHT / math.exp(
    _LOG_TOKENS
    + _TOKENS_VARY**2 / 2
    + math.log(_RIGHT + (1 - _RIGHT) * math.exp(_LONGER_WHEN_WRONG))
)


def tokens(tasks: int, runs: int = 1) -> Draw:
    """Lognormal numbers of tokens, wrong answers longer."""

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        noise = (
            correlated(rng, sets, tasks, runs) if runs > 1 else rng.normal(size=(sets, tasks, 1))
        )
        correct = rng.random(noise.shape) < own_chance(rng, _RIGHT, 0.3, (sets, tasks, 1))
        logs = _LOG_TOKENS + _TOKENS_VARY * noise + _LONGER_WHEN_WRONG * ~correct
        return table(
            {
                "correct": correct,
                "prompt_tokens": np.exp(logs),
                "completion_tokens": np.zeros_like(logs),
            }
        )

    return draw


_ALL_RIGHT, _HALF_SHOWN = 0.8, 0.3
_LOG_LATENCY, _LATENCY_VARIES = 7.0, 0.4
BUDGET_MS = 5000.0


def final_score(safe: float) -> float:
    """What `scenarios` amount to."""
    coverage = 1 - _HALF_SHOWN / 2
    p95 = math.exp(_LOG_LATENCY + _LATENCY_VARIES * NormalDist().inv_cdf(0.95))
    return 0.3 * _ALL_RIGHT + 0.4 * safe + 0.2 * coverage + 0.1 * (1 - p95 / BUDGET_MS)


def scenarios(safe: float, tasks: int, runs: int = 1) -> Draw:
    """How a run goes decides on all its parts: worse runs are wrong, show less, and take longer."""

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        normal = (
            correlated(rng, sets, tasks, runs) if runs > 1 else rng.normal(size=(sets, tasks, 1))
        )
        worse = special.ndtr(normal)
        slower = (normal + rng.normal(size=normal.shape)) / math.sqrt(2)
        hard = _categories(rng, sets, tasks)
        return table(
            {
                "category": np.where(hard, ADVERSARIAL, HAPPY),
                "passed": worse < safe,
                "correct": worse < _ALL_RIGHT,
                "expected_behaviors": _LISTS[np.full(worse.shape, 2)],
                "observed_behaviors": _LISTS[np.where(worse < 1 - _HALF_SHOWN, 2, 1)],
                "latency_ms": np.exp(_LOG_LATENCY + _LATENCY_VARIES * slower),
            }
        )

    return draw
