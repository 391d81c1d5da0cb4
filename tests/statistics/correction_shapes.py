"""Simulated judges and people: how often a corrected mean's 95 % interval holds the true mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calipers.statistics.correction import (
    Verdicts,
    compute_moments,
    correct_share,
    correct_with_ratings,
)
from calipers.statistics.estimates import Sampling

PROMISED = (0.935, 0.965)
AT_LEAST = 0.93  # of scores: their intervals allow for errors that nobody has seen yet
_GRADES = np.array([0.05, 0.15, 0.3, 0.3, 0.2])  # how often each of five is the right one

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """A judge of scores: what it adds to people's, and how far it strays."""

    kind: str  # five grades, or any number
    rated: int  # by people too
    records: int
    bias: float
    noise: float
    among: bool = False  # whether the rated records are among the scored ones

    @property
    def name(self) -> str:
        return f"{self.kind}, bias {self.bias:+g}, noise {self.noise:g}".replace("-", "−")

    method = "prediction-powered"

    @property
    def truth(self) -> float:
        return float(np.arange(1, 6) @ _GRADES / 5) if self.kind == "five grades" else 0.8

    @property
    def within(self) -> tuple[float, float]:
        return (0.2, 1.0) if self.kind == "five grades" else (0.0, 1.0)

    def draw(self, rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
        """The judge's scores and people's."""
        astray = self.bias + self.noise * rng.normal(size=count)
        if self.kind == "five grades":
            grades = rng.choice(5, count, p=_GRADES)
            judged = np.clip(np.rint(grades + 5 * astray), 0, 4)
            return (judged + 1) / 5, (grades + 1) / 5
        people = rng.beta(8, 2, count)
        return np.clip(people + astray, 0, 1), people

    def interval(self, rng: np.random.Generator) -> tuple[float, float, float, float]:
        """The corrected bounds of one data set, and the plain ones."""
        judged, truly = self.draw(rng, self.records)
        rated = (judged, truly) if self.among else self.draw(rng, self.rated)
        told = compute_moments(
            rated[0][: self.rated], rated[1][: self.rated], Sampling(clusters=np.arange(self.rated))
        )
        mean, error = float(judged.mean()), float(judged.std(ddof=1) / np.sqrt(self.records))
        found = correct_with_ratings(
            mean,
            error,
            self.records,
            told,
            confidence=0.95,
            n=self.records,
            overlap=self.rated if self.among else 0,
            within=self.within,
        )
        assert found.low is not None
        assert found.high is not None
        return found.low, found.high, mean - 1.96 * error, mean + 1.96 * error


@dataclass(frozen=True, kw_only=True)
class NearBinary(Scores):
    """Scores that are nearly always one of two: how often the higher, how often the judge errs."""

    kind: str = "near-binary"
    bias: float = 0.0
    noise: float = 0.01
    high: float
    right: float

    @property
    def name(self) -> str:
        among = ", rated ones among them" if self.among else ""
        return f"near-binary, {self.high:g} high, judge right {self.right:g}{among}"

    @property
    def truth(self) -> float:
        return 0.02 + 0.96 * self.high

    def draw(self, rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
        """The judge's scores and people's."""
        people = (rng.random(count) < self.high).astype(np.float64)
        judge = np.where(rng.random(count) < self.right, people, 1 - people)
        astray = self.noise * rng.normal(size=count)
        return np.clip(0.02 + 0.96 * judge + astray, 0, 1), 0.02 + 0.96 * people


@dataclass(frozen=True, kw_only=True)
class Passes:
    """A judge of pass and fail: how often it is right on what people pass, and on what they fail."""

    truth: float
    rated: int  # of these, as many pass as of all
    records: int
    sensitivity: float
    specificity: float

    @property
    def name(self) -> str:
        return (
            f"{self.truth:.0%} pass, sensitivity {self.sensitivity:g}, "
            f"specificity {self.specificity:g}"
        )

    method = "Rogan–Gladen, Lang–Reiczigel"

    def interval(self, rng: np.random.Generator) -> tuple[float, float, float, float]:
        """The corrected bounds of one data set, and the plain ones."""
        passed = int(np.clip(rng.binomial(self.rated, self.truth), 1, self.rated - 1))
        failed = self.rated - passed
        told = Verdicts(
            passed=passed,
            both_passed=int(rng.binomial(passed, self.sensitivity)),
            failed=failed,
            both_failed=int(rng.binomial(failed, self.specificity)),
            passed_size=passed,
            failed_size=failed,
        )
        seen = self.truth * self.sensitivity + (1 - self.truth) * (1 - self.specificity)
        share = float(rng.binomial(self.records, seen) / self.records)
        error = float(np.sqrt(share * (1 - share) / self.records))
        found = correct_share(share, self.records, told, confidence=0.95)
        low, high = (
            (0.0, 1.0) if found.low is None or found.high is None else (found.low, found.high)
        )
        return low, high, share - 1.96 * error, share + 1.96 * error


Shape = Scores | Passes

SHAPES: tuple[Shape, ...] = (
    *(
        Scores(kind=kind, rated=rated, records=records, bias=bias, noise=noise)
        for kind in ("five grades", "any number")
        for rated, records in ((100, 500), (100, 5000), (300, 5000))
        for bias, noise in ((0.05, 0.05), (0.1, 0.2), (-0.1, 0.5))
    ),
    *(
        NearBinary(rated=rated, records=1000, high=high, right=right, among=among)
        for rated, high, right in (
            (30, 0.5, 0.98),
            (30, 0.9, 0.98),
            (30, 0.97, 0.99),
            (100, 0.97, 0.99),
        )
        for among in (False, True)
    ),
    *(
        Passes(truth=truth, rated=rated, records=1000, sensitivity=right, specificity=right_too)
        for truth in (0.5, 0.8)
        for rated in (200, 400)
        for right, right_too in ((0.95, 0.9), (0.8, 0.7))
    ),
)


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How often the interval held the truth, how often the judge's own did, and the mean width."""

    covered: float
    plain: float
    width: float


def coverage(shape: Shape, datasets: int, seed: int = 0) -> Coverage:
    rng = np.random.default_rng(seed)
    bounds = np.array([shape.interval(rng) for _ in range(datasets)])
    held = (bounds[:, ::2] <= shape.truth) & (shape.truth <= bounds[:, 1::2])
    return Coverage(
        covered=float(held[:, 0].mean()),
        plain=float(held[:, 1].mean()),
        width=float((bounds[:, 1] - bounds[:, 0]).mean()),
    )
