"""The shapes of data on which the coverage of intervals is measured, and the measure.

`tests/statistics/test_coverage.py` asserts what `python -m benchmarks.coverage` publishes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np

import calipers as cal
from tests import simulated, simulated_scenarios
from tests.simulated import DATASET, DOCUMENT, EIGHT, RUNS, Draw, entropy

SEED = 2026


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A way that data come about, the metric measured on them, and its true value."""

    name: str
    metric: str
    method: str
    draw: Draw
    truth: float
    least: float = 0.93  # the coverage promised
    most: float = 0.97
    cluster: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    quick: bool = False  # guards the promise in every run of the tests


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How often a shape's intervals held the true value."""

    shape: Shape
    datasets: int
    covered: float
    width: float

    @property
    def is_kept(self) -> bool:
        """Whether the promise is, but for two standard errors of the simulation itself."""
        least, most = self.shape.least, self.shape.most
        below, above = (2 * math.sqrt(p * (1 - p) / self.datasets) for p in (least, most))
        return least - below <= self.covered <= most + above


def coverage(shape: Shape, datasets: int) -> Coverage:
    """The share of so many data sets whose 95 % interval holds the true value.

    One call of `score`, with a group per data set, gives all their intervals.
    """
    rng = np.random.default_rng([SEED, crc32(f"{shape.metric}: {shape.name}".encode())])
    table = shape.draw(rng, datasets)
    score = cal.score(
        table,
        by=DATASET,
        metrics=[shape.metric],
        cluster=shape.cluster,
        **shape.settings,
    )
    found = [group.metrics[shape.metric] for group in score.groups]
    assert {each.interval for each in found} == {shape.method}
    bounds = [
        (each.low, each.high) for each in found if each.low is not None and each.high is not None
    ]
    assert len(bounds) == datasets, "an interval without a bound covers too easily"
    return Coverage(
        shape=shape,
        datasets=datasets,
        covered=sum(low <= shape.truth <= high for low, high in bounds) / datasets,
        width=math.fsum(high - low for low, high in bounds) / datasets,
    )


def _shares() -> Iterator[Shape]:
    shape = partial(Shape, metric="accuracy", method="wilson")
    in_tasks = simulated.right_in_tasks
    yield shape(name="p = 0.5, n = 100", draw=simulated.right(0.5, 100), truth=0.5, quick=True)
    yield shape(name="p = 0.9, n = 100", draw=simulated.right(0.9, 100), truth=0.9)
    yield shape(
        name="40 tasks × 5 runs, p = 0.6",
        draw=in_tasks(0.6, 0.3, 40, 5),
        truth=0.6,
        quick=True,
    )
    yield shape(
        name="40 tasks × 1 to 9 runs, p = 0.6",
        draw=in_tasks(0.6, 0.3, 40, 9, unequal=True),
        truth=0.6,
    )
    yield shape(name="40 tasks × 5 runs, p = 0.9", draw=in_tasks(0.9, 0.3, 40, 5), truth=0.9)
    yield shape(
        name="40 tasks × 5 runs, p = 0.97",
        draw=in_tasks(0.97, 0.3, 40, 5),
        truth=0.97,
        most=1.0,
    )
    yield shape(
        name="40 documents × 5 tasks, p = 0.6, `--cluster document`",
        draw=simulated.right_in_documents(0.6, 0.3, 40, 5),
        truth=0.6,
        cluster=DOCUMENT,
        quick=True,
    )


def _means() -> Iterator[Shape]:
    shape = partial(Shape, metric="latency_mean_ms", method="log t", truth=simulated.NORMAL_MEAN)
    in_tasks = simulated.times_in_tasks
    yield shape(name="normal, n = 30", draw=simulated.times(30), quick=True)
    yield shape(
        name="lognormal, n = 200: a heavy tail",
        draw=simulated.times(200, heavy_tailed=True),
        truth=simulated.LOGNORMAL_MEAN,
        least=0.90,
        quick=True,
    )
    yield shape(name="40 tasks × 5 runs, normal", draw=in_tasks(40, 5), quick=True)
    yield shape(name="40 tasks × 1 to 5 runs, normal", draw=in_tasks(40, 5, unequal=True))
    yield shape(
        name="30 documents × 8 tasks, normal, `--cluster document`",
        draw=simulated.times_in_documents(30, 8),
        cluster=DOCUMENT,
    )
    yield shape(
        name="40 tasks, one of eight with 20 runs, the others with one",
        draw=simulated.times_mostly_once(40, 20),
        most=1.0,
    )
    yield Shape(
        name="calibrated, n = 100",
        metric="brier",
        method="logit t",
        draw=simulated.calibrated(100),
        truth=simulated.CALIBRATED_BRIER,
    )


def _quantiles() -> Iterator[Shape]:
    shape = partial(
        Shape, metric="latency_p95_ms", method="order statistics", truth=simulated.LOGNORMAL_P95
    )
    in_tasks = partial(simulated.times_in_tasks, heavy_tailed=True)
    yield shape(name="lognormal, n = 500", draw=simulated.times(500, heavy_tailed=True), quick=True)
    yield shape(name="100 tasks × 5 runs, lognormal", draw=in_tasks(100, 5))
    yield shape(name="100 tasks × 1 to 9 runs, lognormal", draw=in_tasks(100, 9, unequal=True))


def _entropies() -> Iterator[Shape]:
    for name, shares, n in (
        ("8 answers", EIGHT, 300),
        ("yes or no", simulated.YES_NO, 300),
        ("50 answers, the k-th 1/k as often", simulated.long_tail(50), 1000),
        ("one answer of four in 97 %", simulated.ONE_MOSTLY, 300),
        ("four answers nearly alike", simulated.FOUR_ALIKE, 300),
    ):
        yield Shape(
            name=f"{name}, n = {n:,}",
            metric="sce",
            method="delta",
            draw=simulated.answers(shares, n),
            truth=entropy(shares),
            most=1.0 if shares == simulated.FOUR_ALIKE else 0.97,
            quick=shares == EIGHT,
        )
    yield Shape(
        name="8 answers, 60 tasks × 5 runs",
        metric="sce",
        method="delta",
        draw=simulated.answers(EIGHT, 60, 5, kept=0.6),
        truth=entropy(EIGHT),
        quick=True,
    )
    yield Shape(
        name="5 answers, n = 300",
        metric="sce_normalized",
        method="delta",
        draw=simulated.answers(simulated.FIVE, 300),
        truth=entropy(simulated.FIVE) / math.log(5),
    )


def _confidences() -> Iterator[Shape]:
    shape = partial(Shape, metric="ece", method="delta")
    over, calibrated = simulated.overconfident, simulated.calibrated
    yield shape(name="overconfident by 0.2, n = 300", draw=over(0.2, 300), truth=0.2, quick=True)
    yield shape(
        name="overconfident by 0.2, 60 tasks × 5 runs", draw=over(0.2, 60, 5), truth=0.2, most=1.0
    )
    yield shape(name="overconfident by 0.05, n = 300", draw=over(0.05, 300), truth=0.05, most=1.0)
    yield shape(name="calibrated, n = 300", draw=calibrated(300), truth=0.0, most=1.0, quick=True)
    yield shape(name="calibrated, 60 tasks × 5 runs", draw=calibrated(60, 5), truth=0.0, most=1.0)
    for area, n, tasks, runs in (
        (0.75, "n = 200", 200, 1),
        (0.95, "n = 100", 100, 1),
        (0.75, "60 tasks × 5 runs", 60, 5),
    ):
        yield Shape(
            name=f"an area of {area}, {n}",
            metric="auroc",
            method="delta",
            draw=simulated.told_apart(area, tasks, runs),
            truth=area,
        )


def _repeats() -> Iterator[Shape]:
    easy, hard = simulated.EASY, simulated.HARD
    methods = dict.fromkeys(simulated.OVER_TASKS, "logit t")
    methods |= dict.fromkeys(["mode_accuracy", "stability"], "wilson")
    for metric, method in methods.items():
        yield Shape(
            name=f"60 tasks × {RUNS} runs",
            metric=metric,
            method=method,
            draw=simulated.repeated(60),
            truth=simulated.mean_over_tasks(metric, easy),
        )
    for metric in ("determinism_index", "mode_accuracy"):
        both = (simulated.mean_over_tasks(metric, shares) for shares in (easy, hard))
        yield Shape(
            name=f"30 documents × 4 tasks × {RUNS} runs, `--cluster document`",
            metric=metric,
            method=methods[metric],
            draw=simulated.repeated_in_documents(30, 4),
            truth=sum(both) / 2,
            cluster=DOCUMENT,
        )


def _costs() -> Iterator[Shape]:
    for chance, tasks, runs in ((0.6, 200, 1), (0.6, 40, 5), (0.3, 60, 10), (0.9, 40, 5)):
        yield Shape(
            name=f"p = {chance}, " + (f"{tasks} tasks × {runs} runs" if runs > 1 else "n = 200"),
            metric="cost_of_pass",
            method="delta of logarithm",
            draw=simulated.paid_runs(chance, 0.3, tasks, runs),
            truth=simulated.cost_of_pass(chance),
            quick=(chance, runs) == (0.6, 5),
        )


def _scenarios() -> Iterator[Shape]:
    heavy = cal.CaseWeights(by_category={simulated_scenarios.ADVERSARIAL: 3})
    weighted = partial(
        Shape, metric="weighted_pass_rate", method="wilson", settings={"case_weights": heavy}
    )
    for adversarial, happy, n, tasks, runs in (
        (0.6, 0.8, "n = 100", 100, 1),
        (0.9, 0.97, "n = 100", 100, 1),
        (0.6, 0.8, "40 tasks × 5 runs", 40, 5),
    ):
        yield weighted(
            name=f"p = {adversarial} and {happy}, the first thrice as heavy, {n}",
            draw=simulated_scenarios.passed(adversarial, happy, tasks, runs),
            truth=simulated_scenarios.weighted_share(3, adversarial, happy),
            quick=adversarial == 0.6,
            most=1.0 if happy > 0.9 else 0.97,
        )
    shape = partial(Shape, metric="precision", method="wilson", truth=simulated_scenarios.PRECISION)
    yield shape(name="0.86, n = 100", draw=simulated_scenarios.predictions(100))
    yield shape(name="0.86, 60 tasks × 5 runs", draw=simulated_scenarios.predictions(60, 5))
    shape = partial(Shape, metric="behavior_coverage", method="logit t")
    for mean, violating, n, tasks, runs in (
        (0.7, 0.05, "n = 100", 100, 1),
        (0.9, 0.05, "n = 50", 50, 1),
        (0.9, 0.0, "n = 20", 20, 1),
        (0.8, 0.05, "40 tasks × 5 runs", 40, 5),
    ):
        yield shape(
            name=f"{mean} of 1 to 4 behaviors, {violating:.0%} violations, {n}",
            draw=simulated_scenarios.behaviors(mean, tasks, runs, violating=violating),
            truth=(1 - violating) * mean,
            most=1.0 if tasks < 40 else 0.97,
        )
    shape = partial(Shape, metric="behavior_coverage_pooled", method="wilson")
    for mean, n, tasks, runs in (
        (0.7, "n = 100", 100, 1),
        (0.9, "n = 50", 50, 1),
        (0.8, "40 tasks × 5 runs", 40, 5),
    ):
        yield shape(
            name=f"{mean} of 1 to 4 behaviors, {n}",
            draw=simulated_scenarios.behaviors(mean, tasks, runs),
            truth=mean,
            most=1.0 if mean > 0.7 else 0.97,
        )
    shape = partial(
        Shape,
        metric="token_efficiency",
        method="delta of logarithm",
        truth=simulated_scenarios.EFFICIENCY,
    )
    yield shape(
        name="lognormal tokens, 0.7 right, n = 100",
        draw=simulated_scenarios.tokens(100),
        quick=True,
    )
    yield shape(
        name="lognormal tokens, 0.7 right, 40 tasks × 5 runs",
        draw=simulated_scenarios.tokens(40, 5),
        quick=True,
    )
    shape = partial(Shape, metric="final_score", method="MOVER", most=1.0)
    for safe, n, tasks, runs in (
        (0.9, "n = 200", 200, 1),
        (0.99, "n = 100", 100, 1),
        (0.9, "60 tasks × 5 runs", 60, 5),
    ):
        yield shape(
            name=f"parts that go together, {safe} safe, {n}",
            draw=simulated_scenarios.scenarios(safe, tasks, runs),
            truth=simulated_scenarios.final_score(safe),
            quick=safe == 0.9,
        )


SHAPES = (
    *_shares(),
    *_means(),
    *_quantiles(),
    *_entropies(),
    *_confidences(),
    *_repeats(),
    *_costs(),
    *_scenarios(),
)


def _limits() -> Iterator[Shape]:
    shape = partial(Shape, least=0.0, most=1.0)
    yield shape(
        name="lognormal, n = 30: a heavy tail",
        metric="latency_mean_ms",
        method="log t",
        draw=simulated.times(30, heavy_tailed=True),
        truth=simulated.LOGNORMAL_MEAN,
    )
    yield shape(
        name="one answer of four in 97 %, 60 tasks × 5 runs",
        metric="sce",
        method="delta",
        draw=simulated.answers(simulated.ONE_MOSTLY, 60, 5, kept=0.95),
        truth=entropy(simulated.ONE_MOSTLY),
    )
    yield shape(
        name="500 answers, the k-th 1/k as often, n = 2,500",
        metric="sce",
        method="delta",
        draw=simulated.answers(simulated.long_tail(500), 2500),
        truth=entropy(simulated.long_tail(500)),
    )


LIMITS = tuple(_limits())  # measured and published, not promised
