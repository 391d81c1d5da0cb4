"""Standard errors of clustered rows in plain Python, which the reference intervals stand on."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from scipy import stats

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
    """C/(C−1) · Σ_c (Σ_i effect)² / n², an effect being x − mean: Miller (2024).

    More than C/(C−1) where clusters are of unequal size: then the squares lack more.
    """
    sums = _sums(effects, rows)
    return _inflation(_shares(rows)) * math.fsum(each**2 for each in sums) / len(rows) ** 2


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


def _degrees(shares: Sequence[float]) -> float:
    """Of a sum of squares with the weights share² (Satterthwaite), less one for the mean."""
    weights = [share**2 for share in shares]
    return max(1.0, math.fsum(weights) ** 2 / math.fsum(each**2 for each in weights) - 1)


def _clusters(rows: Sequence[Row]) -> int:
    return len({cluster for _, cluster in rows})


def _apart(rows: list[Row]) -> list[Row]:
    """Rows that are all of one cluster stand for themselves."""
    if _clusters(rows) > 1:
        return rows
    return [(value, number) for number, (value, _) in enumerate(rows)]


def _design_effect(effects: Sequence[float], rows: Sequence[Row], *, unlike: float) -> float:
    """The variance over that of as many independent rows, never below 1.

    With few rows unlike the others it is drawn to its worst, n/C, with the weight of one more.
    """
    n, clusters = len(rows), _clusters(rows)
    independent = math.fsum(effect**2 for effect in effects) / (n * (n - 1))
    worth = _kish(_shares(rows))
    worst = seen = n / worth
    if independent * (n - 1) > 1e-12:
        seen = max(1.0, _variance(effects, rows) / independent)
    share = 1 / (unlike * worth / clusters + 1)
    return (1 - share) * seen + share * max(seen, worst)


def _student(rows: Sequence[Row], asked: Asked) -> float:
    return float(stats.t.ppf((1 + asked.confidence) / 2, _degrees(_shares(rows))))


def _slack(values: Sequence[float]) -> float:
    """Squares of n numbers of this size lose some 1e-14 of their sum."""
    return 1e-7 * math.sqrt(math.fsum(value**2 for value in values)) / len(values)
