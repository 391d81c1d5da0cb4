"""Shapes whose data sets often show nothing of what is rare, or weigh few rows or tasks heavily.

`tests/statistics/test_coverage.py` asserts what `python -m benchmarks.coverage` publishes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl
from scipy import special

import calipers as cal
from tests import simulated
from tests.shapes import Shape
from tests.simulated import Draw, Rng, table
from tests.simulated_scenarios import ADVERSARIAL

RATINGS = ((1.0, 0.85), (0.75, 0.1), (0.5, 0.03), (0.25, 0.01), (0.0, 0.01))


def stated(confidence: float, rate: float, n: int) -> Draw:
    """Every answer stated with the same confidence."""
    return lambda rng, sets: table(
        {
            "correct": rng.random((sets, n, 1)) < rate,
            "prob_correct": np.full((sets, n, 1), confidence),
        }
    )


def paid_alike(rate: float, n: int) -> Draw:
    """Every run costs the same, whether it passes or not."""
    return lambda rng, sets: table(
        {"passed": rng.random((sets, n, 1)) < rate, "cost_usd": np.ones((sets, n, 1))}
    )


def rated(n: int, *, runs: int = 1) -> Draw:
    """Ratings of which most lie at the maximum."""
    values, chances = zip(*RATINGS, strict=True)
    return lambda rng, sets: table({"impl_rate": rng.choice(values, (sets, n, runs), p=chances)})


def scored(a: float, b: float, n: int) -> Draw:
    return lambda rng, sets: table({"impl_rate": rng.beta(a, b, (sets, n, 1))})


def judged(n: int) -> Draw:
    """Three criteria, each mostly 5 of 5."""
    names = ("factual_correctness", "methodology_understanding", "domain_knowledge")
    texts = {score: json.dumps([{"scores": dict.fromkeys(names, score)}]) for score in (3, 4, 5)}

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        scores = rng.choice([5, 4, 3], (sets, n, 1), p=[0.85, 0.1, 0.05])
        return (
            table({"score": scores})
            .with_columns(
                pl.col("score").replace_strict(texts, return_dtype=pl.String).alias("judgments")
            )
            .drop("score")
        )

    return draw


def mostly_once(p: float, often: int, runs: int, once: int) -> Draw:
    """Some tasks with many runs, alike in half their chance, beside others with one."""

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        tasks = often + once
        chances = simulated.own_chance(rng, p, 0.5, (sets, tasks, 1))
        counts = np.where(np.arange(tasks) < often, runs, 1)[None, :, None]
        return table({"correct": rng.random((sets, tasks, runs)) < chances}, counts)

    return draw


def tried(a: float, b: float, tasks: int, runs: int) -> Draw:
    """Runs that pass with the chance of their task."""

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        chances = rng.beta(a, b, (sets, tasks, 1))
        return table({"passed": rng.random((sets, tasks, runs)) < chances})

    return draw


def few_heavy(p: float, heavy: int, n: int) -> Draw:
    """A few rows of the heavy category."""
    kinds = np.where(np.arange(n) < heavy, ADVERSARIAL, "happy_path")[None, :, None]
    return lambda rng, sets: table({"passed": rng.random((sets, n, 1)) < p, "category": kinds})


def few_wrong(area: float, right: int, wrong: int) -> Draw:
    """So many right and wrong answers, told apart so well."""
    apart = float(np.sqrt(2) * special.ndtri(area))

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        correct = np.broadcast_to(np.arange(right + wrong) < right, (sets, right + wrong))[
            ..., None
        ]
        scores = special.expit(rng.normal(size=correct.shape) + apart * correct)
        return table({"correct": correct, "prob_correct": scores})

    return draw


def waited(n: int, *, outliers: bool) -> Draw:
    """Exponential times, or one in a hundred a hundred times as long as the others."""

    def draw(rng: Rng, sets: int) -> pl.DataFrame:
        if not outliers:
            return table({"latency_ms": rng.exponential(1.0, (sets, n, 1))})
        times = rng.uniform(0.8, 1.2, (sets, n, 1))
        return table({"latency_ms": np.where(rng.random(times.shape) < 0.01, 100.0, 1.0) * times})

    return draw


def power_mean(a: float, b: float, k: int) -> float:
    """The mean of a chance to the k-th power."""
    return float(special.beta(a + k, b) / special.beta(a, b))


def _unseen() -> Iterator[Shape]:
    brier = partial(Shape, metric="brier", method="logit t", most=1.0)
    for confidence, n in ((0.99, 20), (0.99, 100), (0.95, 50)):
        yield brier(
            name=f"stated with {confidence}, right as often, n = {n}",
            draw=stated(confidence, confidence, n),
            truth=confidence * (1 - confidence),
            quick=n == 20,
        )
    ece = partial(Shape, metric="ece", method="delta", most=1.0)
    for confidence, rate, n in (
        (0.99, 0.99, 20),
        (0.99, 0.99, 100),
        (0.7, 0.95, 20),
        (0.95, 0.8, 50),
    ):
        yield ece(
            name=f"stated with {confidence}, right in {rate:.0%}, n = {n}",
            draw=stated(confidence, rate, n),
            truth=abs(confidence - rate),
        )
    accuracy = partial(Shape, metric="accuracy", method="wilson", most=1.0)
    for p, n in ((0.95, 10), (0.95, 20), (0.99, 100)):
        yield accuracy(name=f"p = {p}, n = {n}", draw=simulated.right(p, n), truth=p, quick=n == 20)
    yield accuracy(
        name="5 tasks × 20 runs and 35 with one, p = 0.6",
        draw=mostly_once(0.6, 5, 20, 35),
        truth=0.6,
        quick=True,
    )
    yield accuracy(
        name="one task × 100 runs and 20 with one, p = 0.6",
        draw=mostly_once(0.6, 1, 100, 20),
        truth=0.6,
    )
    rating = partial(Shape, metric="impl_rate", method="logit t", most=1.0)
    for n in (20, 50):
        yield rating(name=f"ratings mostly at the maximum, n = {n}", draw=rated(n), truth=0.9425)
    for a, b, n in ((9, 1, 20), (1, 1, 20), (0.5, 0.5, 20), (9, 1, 5)):
        yield rating(name=f"beta({a}, {b}), n = {n}", draw=scored(a, b, n), truth=a / (a + b))
    yield Shape(
        name="mostly 5 of 5, n = 10",
        metric="technical_accuracy",
        method="logit t",
        draw=judged(10),
        truth=0.96,
        most=1.0,
    )
    yield Shape(
        name="hard tasks, 30 tasks × 5 runs",
        metric="pass_hat_5",
        method="logit t",
        draw=tried(0.5, 2, 30, 5),
        truth=power_mean(0.5, 2, 5),
        most=1.0,
    )
    yield Shape(
        name="easy tasks, 30 tasks × 5 runs",
        metric="pass_at_3",
        method="logit t",
        draw=tried(3, 0.5, 30, 5),
        truth=1 - power_mean(0.5, 3, 3),
        most=1.0,
    )
    yield Shape(
        name="p = 0.9, 5 of 100 rows twenty times as heavy",
        metric="weighted_pass_rate",
        method="wilson",
        draw=few_heavy(0.9, 5, 100),
        truth=0.9,
        most=1.0,
        settings={"case_weights": cal.CaseWeights(by_category={ADVERSARIAL: 20})},
    )
    for rate, n in ((0.98, 20), (0.9, 20), (0.98, 100)):
        yield Shape(
            name=f"runs that cost the same, {rate:.0%} pass, n = {n}",
            metric="cost_of_pass",
            method="delta of logarithm",
            draw=paid_alike(rate, n),
            truth=1 / rate,
            most=1.0,
        )
    auroc = partial(Shape, metric="auroc", method="delta", most=1.0)
    for area, right, wrong in ((0.75, 97, 3), (0.9, 97, 3), (0.9, 90, 10)):
        yield auroc(
            name=f"an area of {area}, {right} right and {wrong} wrong",
            draw=few_wrong(area, right, wrong),
            truth=area,
        )
    yield Shape(
        name="exponential, n = 30",
        metric="latency_mean_ms",
        method="log t",
        draw=waited(30, outliers=False),
        truth=1.0,
    )


def _rare() -> Iterator[Shape]:
    """What no interval can know: rows so rare and so far off that most data sets lack them."""
    shape = partial(Shape, least=0.0, most=1.0)
    for n in (100, 1000):
        yield shape(
            name=f"one in 100 a hundred times as long, n = {n:,}",
            metric="latency_mean_ms",
            method="log t",
            draw=waited(n, outliers=True),
            truth=1.99,
        )
    yield shape(
        name="scores of 0.9 ± 0.03, one in 50 is 0, n = 50",
        metric="impl_rate",
        method="logit t",
        draw=lambda rng, sets: table(
            {
                "impl_rate": np.where(
                    rng.random((sets, 50, 1)) < 0.02, 0.0, rng.beta(90, 10, (sets, 50, 1))
                )
            }
        ),
        truth=0.882,
    )


UNSEEN = tuple(_unseen())
RARE = tuple(_rare())  # measured and published, not promised
