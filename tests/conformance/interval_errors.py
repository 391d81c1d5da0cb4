"""Standard errors of clustered rows in plain Python, which the reference intervals stand on."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import optimize, stats

from tests.conformance.reference import (
    Options,
    Record,
    _text,
)

Row = tuple[Any, Hashable]  # what counts of a record, and its cluster


@dataclass(frozen=True)
class Asked:
    """What moves an interval beside the data."""

    confidence: float = 0.95
    cluster: str | None = None
    options: Options = field(default_factory=Options)


@dataclass(frozen=True)
class Bounds:
    """An interval; `slack` is what the rounding of sums may do to its standard error."""

    low: float | None
    high: float | None
    stderr: float | None
    slack: float = 0.0


NOTHING = Bounds(None, None, None)


class UncertainError(Exception):
    """Rounding decides: a bin's gap is 0, where |gap| has no derivative."""


def _cluster(row: Record, number: int, asked: Asked) -> Hashable:
    """Rows of one task, or with one value in the field asked for; else each row by itself."""
    known = _text(row, "id" if asked.cluster is None else asked.cluster)
    return number if known is None else known


def _known(values: Sequence[Any], clusters: Sequence[Hashable]) -> list[Row]:
    return [
        (value, cluster)
        for value, cluster in zip(values, clusters, strict=True)
        if value is not None
    ]


def _sums(effects: Sequence[float], rows: Sequence[Row]) -> list[float]:
    """The sum of the rows' effects in each cluster."""
    found: dict[Hashable, list[float]] = defaultdict(list)
    for effect, (_, cluster) in zip(effects, rows, strict=True):
        found[cluster].append(effect)
    return [math.fsum(each) for each in found.values()]


def _variance(effects: Sequence[float], rows: Sequence[Row]) -> float:
    """CR2: Σ_c (Σ_i effect)² / (1 − share) / n², an effect being x − mean (Bell & McCaffrey 2002)."""
    sums, shares = _sums(effects, rows), _shares(rows)
    corrected = (each**2 / (1 - share) for each, share in zip(sums, shares, strict=True))
    return math.fsum(corrected) / len(rows) ** 2


def _shares(rows: Sequence[Row]) -> list[float]:
    """Each cluster's share of the rows."""
    counts = Counter(cluster for _, cluster in rows)
    return [count / len(rows) for count in counts.values()]


def _inflation(shares: Sequence[float]) -> float:
    """One over what the clusters' squares hold of the variance.

    A cluster's mean, with a variance of 1, lies off the mean of all by a square of
    (1 − share)² + Σ others' share² on average.
    """
    together = math.fsum(share**2 for share in shares)
    kept = math.fsum(share**2 * ((1 - share) ** 2 + together - share**2) for share in shares)
    return together / max(kept, 1e-9 * together)


def _kish(shares: Sequence[float]) -> float:
    return 1 / math.fsum(share**2 for share in shares)


def _weight_degrees(shares: Sequence[float]) -> float:
    """Of a sum of squares with the weights share² (Satterthwaite), less one for the mean."""
    weights = [share**2 for share in shares]
    return max(1.0, math.fsum(weights) ** 2 / math.fsum(each**2 for each in weights) - 1)


def _degrees(effects: Sequence[float], rows: Sequence[Row]) -> float:
    """Bell & McCaffrey's, from the whole covariance of rows with the correlation they show."""
    counts = list(Counter(cluster for _, cluster in rows).values())
    n, clusters = len(rows), len(counts)
    sums = _sums(effects, rows)
    between = math.fsum(each**2 / count for each, count in zip(sums, counts, strict=True))
    within = max(0.0, math.fsum(each**2 for each in effects) - between)
    of_clusters, of_rows = between / max(1, clusters - 1), within / max(1, n - clusters)
    size = (n - sum(count**2 for count in counts) / n) / max(1, clusters - 1)
    whole = of_clusters + (size - 1) * of_rows
    alike = max(0.0, (of_clusters - of_rows) / whole) if whole > 0 else 1.0
    if between + within <= 1e-14 * n:  # nothing but rounding
        alike = 1.0
    labels = np.repeat(np.arange(clusters), counts)
    covariance = np.where(labels[:, None] == labels[None, :], alike, 0.0)
    np.fill_diagonal(covariance, 1.0)
    residuals = np.eye(n) - 1 / n
    adding = (labels[None, :] == np.arange(clusters)[:, None]).astype(float)
    weights = np.diag([1 / math.sqrt(1 - count / n) for count in counts])
    found = weights @ adding @ residuals @ covariance @ residuals @ adding.T @ weights
    return max(1.0, float(np.trace(found) ** 2 / np.square(found).sum()))


def _clusters(rows: Sequence[Row]) -> int:
    return len({cluster for _, cluster in rows})


def _apart(rows: list[Row]) -> list[Row]:
    """Rows that are all of one cluster stand for themselves."""
    if _clusters(rows) > 1:
        return rows
    return [(value, number) for number, (value, _) in enumerate(rows)]


def _design_effect(
    effects: Sequence[float], rows: Sequence[Row], *, unlike: float, least: float = 1.0
) -> float:
    """The variance over that of as many independent rows, never below 1, or what t makes 1.

    With few rows unlike the others it is drawn to its worst, n/C, with the weight of one more.
    """
    n, clusters = len(rows), _clusters(rows)
    independent = math.fsum(effect**2 for effect in effects) / (n * (n - 1))
    worth = _kish(_shares(rows))
    worst = seen = n / worth
    if independent * (n - 1) > 1e-12:
        seen = max(least, _variance(effects, rows) / independent)
    share = 1 / (unlike * max(worth / clusters, _inside(effects, rows)) + 1)
    return (1 - share) * seen + share * max(seen, worst)


def _inside(effects: Sequence[float], rows: Sequence[Row]) -> float:
    """The part of the rows' squares that lies within unequal clusters."""
    counts = Counter(cluster for _, cluster in rows).values()
    squares = math.fsum(effect**2 for effect in effects)
    between = math.fsum(e**2 / n for e, n in zip(_sums(effects, rows), counts, strict=True))
    return 0.0 if squares <= 1e-14 * len(rows) else max(0.0, 1 - between / squares)


def _skewed(effects: Sequence[float], rows: Sequence[Row], t: float) -> tuple[float, float] | None:
    """How many standard errors Hall's (1992) interval of a mean extends below and above it.

    His transformation of Student's t is x + κx²/3 + κ²x³/27 + κ/6; found by bisection, no further
    than where it is flat.
    """
    sums = _sums(effects, rows)
    squares = math.fsum(each**2 for each in sums)
    skewness: float = math.fsum(each**3 for each in sums) / math.sqrt(squares) ** 3
    worth = _kish(_shares(rows))
    if worth <= 2 or abs(skewness) * worth <= 1.5 * math.sqrt(6):
        return None

    def transform(x: float) -> float:
        return x + skewness * x**2 / 3 + skewness**2 * x**3 / 27 + skewness / 6

    def invert(quantile: float) -> float:
        return float(optimize.brentq(lambda x: transform(x) - quantile, -1e9, 1e9, xtol=1e-13))

    flat = 3 / abs(skewness)  # beyond which the inverse runs away
    return min(flat, invert(t)), min(flat, -invert(-t))


def _student(effects: Sequence[float], rows: Sequence[Row], asked: Asked) -> float:
    return float(stats.t.ppf((1 + asked.confidence) / 2, _degrees(effects, rows)))


def _slack(values: Sequence[float]) -> float:
    """Squares of n numbers of this size lose some 1e-14 of their sum."""
    return 1e-7 * math.sqrt(math.fsum(value**2 for value in values)) / len(values)
