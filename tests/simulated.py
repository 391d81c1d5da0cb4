"""Simulated data sets whose true values are known.

A `Draw` gives many data sets at once, a table with a row per run of a task. Arrays are of data sets
× tasks × runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations_with_replacement
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

Rng = np.random.Generator
Array = NDArray[Any]
Draw = Callable[[Rng, int], pl.DataFrame]

DATASET = "dataset"
DOCUMENT = "document"


def table(columns: Mapping[str, Array], runs: Array | None = None) -> pl.DataFrame:
    """A row per run. `runs` says how many runs of each task are there; else all are."""
    shape = np.broadcast_shapes(*(each.shape for each in columns.values()))
    sets, tasks, most = shape
    numbers = {
        DATASET: np.arange(sets)[:, None, None],
        "id": np.arange(tasks)[None, :, None],
        "_run": np.arange(most)[None, None, :],
    }
    every = numbers | dict(columns)
    frame = pl.DataFrame({n: np.broadcast_to(each, shape).ravel() for n, each in every.items()})
    if runs is not None:
        frame = frame.filter(pl.col("_run") < np.broadcast_to(runs, shape).ravel())
    texts = [name for name in ("id", "answer") if name in frame.columns]
    return frame.drop("_run").with_columns(pl.col(texts).cast(pl.String))


def _some_of(runs: int, rng: Rng, sets: int, tasks: int, *, unequal: bool) -> Array | None:
    """One run or more of each task."""
    return rng.integers(1, runs + 1, (sets, tasks, 1)) if unequal else None


def _document(documents: int, tasks: int) -> Array:
    """The document of each task, equally many of each."""
    return np.arange(documents * tasks)[None, :, None] // tasks


# --- Right or wrong ---


def right(p: float, n: int) -> Draw:
    return lambda rng, sets: table({"correct": rng.random((sets, n, 1)) < p})


def own_chance(rng: Rng, mean: float, correlation: float, size: tuple[int, ...]) -> Array:
    """Chances from the beta distribution, such that what shares one is so much correlated."""
    strength = (1 - correlation) / correlation
    return rng.beta(mean * strength, (1 - mean) * strength, size)


def right_in_tasks(
    mean: float, correlation: float, tasks: int, runs: int, *, unequal: bool = False
) -> Draw:
    """Beta-binomial: every task has a chance of its own."""

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        chance = own_chance(rng, mean, correlation, (sets, tasks, 1))
        there = _some_of(runs, rng, sets, tasks, unequal=unequal)
        return table({"correct": rng.random((sets, tasks, runs)) < chance}, there)

    return draw


def right_in_documents(mean: float, correlation: float, documents: int, tasks: int) -> Draw:
    """Every document has a chance of its own, which its tasks share."""

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        chance = np.repeat(own_chance(rng, mean, correlation, (sets, documents, 1)), tasks, axis=1)
        correct = rng.random(chance.shape) < chance
        return table({"correct": correct, DOCUMENT: _document(documents, tasks)})

    return draw


# --- Costs ---


def paid_runs(mean: float, correlation: float, tasks: int, runs: int) -> Draw:
    """Runs that pass with their task's own chance, and cost more where that is small."""

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        chance = own_chance(rng, mean, correlation, (sets, tasks, 1))
        passed = rng.random((sets, tasks, runs)) < chance
        cost = rng.gamma(2, 0.5, (sets, tasks, runs)) * (2 - chance)
        return table({"passed": passed, "cost_usd": cost})

    return draw


def cost_of_pass(mean: float) -> float:
    """Its true value for these runs."""
    return (2 - mean) / mean


# --- Times ---

NORMAL_MEAN = 1000.0
LOGNORMAL_MEAN = math.exp(0.5)
LOGNORMAL_P95 = math.exp(1.6448536269514722)


def correlated(rng: Rng, sets: int, clusters: int, each: int) -> Array:
    """Standard normal, half of the variance shared within a cluster."""
    own, shared = rng.normal(size=(sets, clusters, each)), rng.normal(size=(sets, clusters, 1))
    return (own + shared) / math.sqrt(2)


def _times(normal: Array, *, heavy_tailed: bool) -> Array:
    return np.exp(normal) if heavy_tailed else NORMAL_MEAN + 100 * normal


def times(n: int, *, heavy_tailed: bool = False) -> Draw:
    """Normal, or lognormal with σ = 1."""
    return lambda rng, sets: table(
        {"latency_ms": _times(rng.normal(size=(sets, n, 1)), heavy_tailed=heavy_tailed)}
    )


def times_in_tasks(
    tasks: int, runs: int, *, unequal: bool = False, heavy_tailed: bool = False
) -> Draw:
    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        found = _times(correlated(rng, sets, tasks, runs), heavy_tailed=heavy_tailed)
        there = _some_of(runs, rng, sets, tasks, unequal=unequal)
        return table({"latency_ms": found}, there)

    return draw


def times_mostly_once(tasks: int, runs: int) -> Draw:
    """One task of eight has several runs, the others one."""

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        found = _times(correlated(rng, sets, tasks, runs), heavy_tailed=False)
        several = rng.random((sets, tasks, 1)) < 1 / 8
        return table({"latency_ms": found}, np.where(several, runs, 1))

    return draw


def times_in_documents(documents: int, tasks: int) -> Draw:
    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        found = _times(correlated(rng, sets, documents, tasks), heavy_tailed=False)
        columns = {"latency_ms": found.reshape(sets, -1, 1)}
        return table({**columns, DOCUMENT: _document(documents, tasks)})

    return draw


# --- Answers ---

EIGHT = (0.30, 0.20, 0.15, 0.10, 0.10, 0.05, 0.05, 0.05)
FIVE = (0.50, 0.20, 0.15, 0.10, 0.05)
YES_NO = (0.6, 0.4)
FOUR_ALIKE = (0.27, 0.25, 0.25, 0.23)
ONE_MOSTLY = (0.97, 0.01, 0.01, 0.01)


def long_tail(several: int) -> tuple[float, ...]:
    """So many answers, the k-th 1/k as often as the first."""
    total = math.fsum(1 / rank for rank in range(1, several + 1))
    return tuple(1 / rank / total for rank in range(1, several + 1))


def entropy(shares: Sequence[float]) -> float:
    return -math.fsum(share * math.log(share) for share in shares if share)


def answers(shares: Sequence[float], tasks: int, runs: int = 1, *, kept: float = 0.0) -> Draw:
    """A task has an answer of its own, kept in so many runs; the others draw another."""

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        own = rng.choice(len(shares), p=shares, size=(sets, tasks, 1))
        other = rng.choice(len(shares), p=shares, size=(sets, tasks, runs))
        return table({"answer": np.where(rng.random(other.shape) < kept, own, other)})

    return draw


# --- Stated confidence ---

_STATED = (0.8, 0.9, 0.95, 1.0)
_AS_THE_TASK = 0.6  # of a task's runs: these go as the task goes, the others by themselves


def _outcomes(rng: Rng, stated: Array, chance: Array, runs: int) -> pl.DataFrame:
    sets, tasks, _ = stated.shape
    luck = rng.random((sets, tasks, runs))
    shared = (rng.random(luck.shape) < _AS_THE_TASK) & (runs > 1)
    luck = np.where(shared, rng.random((sets, tasks, 1)), luck)
    return table({"prob_correct": stated, "correct": luck < chance})


def overconfident(by: float, tasks: int, runs: int = 1) -> Draw:
    """Right so much more seldom than stated: an ECE of just that."""

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        stated = rng.choice(_STATED, size=(sets, tasks, 1))
        return _outcomes(rng, stated, stated - by, runs)

    return draw


CALIBRATED_BRIER = 1 / 6  # the mean of p (1 − p)


def calibrated(tasks: int, runs: int = 1) -> Draw:
    """Right as often as stated, from 0 to 1: an ECE of 0."""

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        stated = rng.random((sets, tasks, 1))
        return _outcomes(rng, stated, stated, runs)

    return draw


def told_apart(area: float, tasks: int, runs: int = 1) -> Draw:
    """Seven tasks of ten are right; normal scores tell them from the others with this AUROC."""
    apart = math.sqrt(2) * NormalDist().inv_cdf(area)

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        correct = rng.random((sets, tasks, 1)) < 0.7
        score = correlated(rng, sets, tasks, runs) + apart * correct
        return table({"prob_correct": 1 / (1 + np.exp(-score)), "correct": correct})

    return draw


# --- Several runs of a task: values that are means over tasks ---

RUNS = 5
EASY = (2.0, 0.7, 0.5, 0.3)  # Dirichlet: how the shares of a task's four answers are spread
HARD = (0.8, 0.7, 0.7, 0.8)
_TARGET = 0

OVER_TASKS: dict[str, Callable[[Sequence[int]], float]] = {
    "answer_entropy": lambda counts: entropy([count / RUNS for count in counts]),
    "determinism_index": lambda counts: max(counts) / RUNS,
    "mode_accuracy": lambda counts: counts.index(max(counts)) == _TARGET,
    "stability": lambda counts: counts[_TARGET] in (0, RUNS),
}


def repeated(tasks: int) -> Draw:
    """Dirichlet-multinomial: every task has its own shares of four answers."""
    return lambda rng, sets: _runs(rng, rng.dirichlet(EASY, (sets, tasks)))


def repeated_in_documents(documents: int, tasks: int) -> Draw:
    """The tasks of a document are all easy or all hard."""

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        easy, hard = (rng.dirichlet(each, (sets, documents * tasks)) for each in (EASY, HARD))
        is_hard = np.repeat(rng.random((sets, documents, 1)) < 0.5, tasks, axis=1)
        shares = np.where(is_hard, hard, easy)
        return _runs(rng, shares, document=_document(documents, tasks))

    return draw


def _runs(rng: Rng, shares: Array, **columns: Array) -> pl.DataFrame:
    sets, tasks, several = shares.shape
    ends = np.cumsum(shares, axis=2)[:, :, None, :]
    beyond = rng.random((sets, tasks, RUNS, 1)) > ends
    found = np.minimum(beyond.sum(axis=3), several - 1)
    return table({"answer": found, **columns}).with_columns(target=pl.lit(str(_TARGET)))


def mean_over_tasks(metric: str, shares: Sequence[float]) -> float:
    """The mean of a task's figure over all ways that its runs may fall, exactly."""
    figure = OVER_TASKS[metric]
    ways = list(_ways(len(shares)))
    assert math.isclose(math.fsum(math.exp(_log_chance(way, shares)) for way in ways), 1)
    return math.fsum(math.exp(_log_chance(way, shares)) * figure(way) for way in ways)


def _ways(several: int) -> Iterator[tuple[int, ...]]:
    """How often each answer may come up."""
    for runs in combinations_with_replacement(range(several), RUNS):
        yield tuple(runs.count(answer) for answer in range(several))


def _log_chance(counts: Sequence[int], shares: Sequence[float]) -> float:
    """The Dirichlet-multinomial distribution."""
    found = math.lgamma(RUNS + 1) + math.lgamma(sum(shares)) - math.lgamma(RUNS + sum(shares))
    for count, share in zip(counts, shares, strict=True):
        found += math.lgamma(count + share) - math.lgamma(count + 1) - math.lgamma(share)
    return found
