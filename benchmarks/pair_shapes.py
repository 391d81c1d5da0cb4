"""Pairs of runs whose true difference is known: right or wrong, scores, ratings, several runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Kind = Literal["binary", "bounded", "ratings"]
Draw = Callable[[np.random.Generator, int], tuple[Floats, Floats]]


@dataclass(frozen=True, kw_only=True)
class PairShape:
    """How to draw the runs of base and candidate, a row per task; NaN is no run."""

    name: str
    kind: Kind
    truth: float  # of candidate less base
    draw: Draw


def _right(rng: np.random.Generator, ease: Floats, runs: int) -> Floats:
    return (rng.random((ease.size, runs)) < ease[:, None]).astype(np.float64)


def _shares(base: float, candidate: float) -> Draw:
    """Right or wrong once each, alike on easy and on hard tasks."""
    from scipy.special import ndtri  # noqa: PLC0415

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        ease = rng.standard_normal(n)
        own = rng.standard_normal((2, n))
        sides = [
            ((ease + noise) / np.sqrt(2) < ndtri(share)).astype(np.float64)[:, None]
            for noise, share in zip(own, (base, candidate), strict=True)
        ]
        return sides[0], sides[1]

    return draw


def _scores(a: float, b: float, concentration: float) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        ease = rng.beta(a, b, n).clip(0.001, 0.999)
        sides = [rng.beta(ease * concentration, (1 - ease) * concentration) for _ in range(2)]
        return sides[0][:, None], sides[1][:, None]

    return draw


def _ratings(top: float, same: float) -> Draw:
    """From 1 to 5, as [0, 1]; so many are the same on both sides."""
    shares = np.append(np.array([0.1, 0.15, 0.25, 0.5]) * (1 - top), top)

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        base, fresh = (rng.choice(5, n, p=shares) / 4 for _ in range(2))
        candidate = np.where(rng.random(n) < same, base, fresh)
        return base[:, None], candidate[:, None]

    return draw


def _worse(share: float) -> Draw:
    """Ratings of which a few lose two steps."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        base = rng.choice([0.5, 0.75, 1.0], n, p=[0.2, 0.3, 0.5])
        return base[:, None], np.where(rng.random(n) < share, base - 0.5, base)[:, None]

    return draw


def _stated(base: float, candidate: float, confidence: float) -> Draw:
    """The Brier scores of answers that are all stated with the same confidence."""
    shares = _shares(base, candidate)

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        sides = [np.square(confidence - side) for side in shares(rng, n)]
        return sides[0], sides[1]

    return draw


def _runs(mean: float, lost: float, base: int | None, candidate: int | None) -> Draw:
    """Several runs of tasks, some easy and some hard; None: from 1 to 8 of each."""

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        ease = rng.beta(6 * mean, 6 * (1 - mean), n)
        sides = []
        for runs, right in ((base, ease), (candidate, ease * (1 - lost / mean))):
            side = _right(rng, right, runs or 8)
            if runs is None:
                side[np.arange(8) >= rng.integers(1, 9, n)[:, None]] = np.nan
            sides.append(side)
        return sides[0], sides[1]

    return draw


def _shape(name: str, kind: Kind, truth: float, draw: Draw) -> PairShape:
    return PairShape(name=name, kind=kind, truth=truth, draw=draw)


SHAPES: tuple[PairShape, ...] = (
    _shape("right or wrong, .50 and .50", "binary", 0.0, _shares(0.5, 0.5)),
    _shape("right or wrong, .80 and .90", "binary", 0.1, _shares(0.8, 0.9)),
    _shape("right or wrong, .95 and .95", "binary", 0.0, _shares(0.95, 0.95)),
    _shape("right or wrong, .99 and .97", "binary", -0.02, _shares(0.99, 0.97)),
    _shape("scores, beta(2, 2)", "bounded", 0.0, _scores(2, 2, 10)),
    _shape("scores, beta(9, 1)", "bounded", 0.0, _scores(9, 1, 20)),
    _shape("ratings", "ratings", 0.0, _ratings(0.3, 0.3)),
    _shape("ratings, mostly the best", "ratings", 0.0, _ratings(0.85, 0.5)),
    _shape("ratings, 3 % got worse", "ratings", -0.015, _worse(0.03)),
    _shape("ratings, 10 % got worse", "ratings", -0.05, _worse(0.1)),
    _shape("brier at .99, right in .99 and .92", "bounded", 0.0686, _stated(0.99, 0.92, 0.99)),
    _shape("4 runs each, .70", "binary", 0.0, _runs(0.7, 0, 4, 4)),
    _shape("4 runs each, .95 and .85", "binary", -0.1, _runs(0.95, 0.1, 4, 4)),
    _shape("1 run against 10, .90", "binary", 0.0, _runs(0.9, 0, 1, 10)),
    _shape("1 run against 10, .95", "binary", 0.0, _runs(0.95, 0, 1, 10)),
    _shape("1 to 8 runs, .90", "binary", 0.0, _runs(0.9, 0, None, None)),
)
SIZES = (5, 10, 20, 50, 200, 1000)


def data_sets(
    shape: PairShape, n: int, count: int, seed: int | None = None
) -> list[tuple[Floats, Floats]]:
    """Draw data sets, the same for the same shape, size and seed."""
    rng = np.random.default_rng([n, *shape.name.encode(), *([] if seed is None else [seed])])
    return [shape.draw(rng, n) for _ in range(count)]


def stacked(sets: list[tuple[Floats, Floats]]) -> dict[str, Any]:
    """Put data sets into two arrays."""
    return {
        "base": np.stack([base for base, _ in sets]),
        "candidate": np.stack([candidate for _, candidate in sets]),
    }
