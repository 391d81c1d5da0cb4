"""Two systems on the same tasks: their difference, how sure it is, and who wins how often.

>>> base, candidate = [0, 0, 1, 1, 0, 1, 0, 0], [1, 1, 1, 1, 1, 0, 1, 1]
>>> found = paired(base, candidate, binary=True, higher_is_better=True)
>>> found.difference, found.wins, found.losses, round(found.p_value, 5)
(0.5, 5, 1, 0.21875)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calipers.stats.intervals import normal_quantile

Floats: TypeAlias = NDArray[np.float64]
Labels: TypeAlias = NDArray[Any]

_ROUNDING = 1e-12  # 0.1 + 0.2 against 0.3 is a tie
_EXACT = 16  # flips: all 65,536 sign patterns are tried
_BLOCK = 8  # flips that one random byte decides
_BLOCKS_AT_ONCE = 64  # bounds memory: 640 kB of bytes for 10,000 resamples
_HALVINGS = 60  # of an interval no wider than 2: to the last bit


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Candidate − base with its evidence; `effect` has the same sign."""

    difference: float | None
    low: float | None = None
    high: float | None = None
    stderr: float | None = None
    p_value: float | None = None
    test: str
    interval: str
    effect: float | None = None
    effect_name: str
    reason: str | None = None

    def __post_init__(self) -> None:
        if (None in (self.low, self.high, self.p_value)) != (self.reason is not None):
            raise ValueError("a null needs a reason, and only a null has one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Difference):
    """The difference over pairs; a win is better in the metric's direction."""

    wins: int
    losses: int
    ties: int
    n_pairs: int
    permutation_p: float | None = None


def paired(
    base: ArrayLike,
    candidate: ArrayLike,
    *,
    binary: bool,
    higher_is_better: bool | None,
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int = 10_000,
    clusters: ArrayLike | None = None,
) -> Comparison:
    """The comparison of two systems, a value per task from each.

    Of 0 and 1: the exact McNemar test (two-sided binomial, not mid-p), Tango's interval, Cohen's
    g. Else a t test on the differences with Cohen's dz and, as a check that assumes no normality,
    the p-value of flipped signs. With `clusters` (tasks of one repository, say) the t test is the
    cluster-robust one for either kind, and signs flip per cluster.

    Tango's interval is no inversion of the exact test: when few pairs changed it can leave out 0
    while p is above 1 − confidence. The verdict is the test's.
    """
    first, second = finite(base), finite(candidate)
    if first.shape != second.shape:
        raise ValueError(f"{first.size} values cannot be paired with {second.size}")
    size = np.maximum(np.abs(first), np.abs(second))
    differences = np.where(np.abs(second - first) > _ROUNDING * size, second - first, 0.0)
    groups = None if clusters is None else np.asarray(clusters)
    exact = binary and groups is None
    if exact:
        require_binary(first, second)
    test = "exact McNemar" if exact else "paired t" if groups is None else "clustered paired t"
    higher, lower = int((differences > 0).sum()), int((differences < 0).sum())
    wins, losses = (lower, higher) if higher_is_better is False else (higher, lower)
    n = differences.size
    mean, stderr, freedom = mean_and_error(differences, groups)
    found = partial(
        Comparison,
        difference=mean,
        stderr=stderr,
        test=test,
        interval="Tango score" if exact else "t",
        effect_name="Cohen's g" if exact else "Cohen's dz",
        wins=wins,
        losses=losses,
        ties=n - wins - losses,
        n_pairs=n,
    )
    if mean is None:
        return found(reason="no pairs")
    if exact:
        low, high = tango(higher, lower, n, confidence=confidence)
        effect = higher / (higher + lower) - 0.5 if higher or lower else None
        return found(low=low, high=high, p_value=mcnemar(higher, lower), effect=effect)
    largest = float(size.max())
    low_t, high_t, p_value, reason = student(
        mean, stderr, freedom, largest=largest, confidence=confidence
    )
    deviation = float(differences.std(ddof=1)) if n > 1 else 0.0
    flips = differences if groups is None else _totals(differences, groups)
    return found(
        low=low_t,
        high=high_t,
        p_value=p_value,
        effect=mean / deviation if deviation > _ROUNDING * largest else None,
        permutation_p=sign_flip(flips, seed=seed, resamples=resamples),
        reason=reason,
    )


def mcnemar(higher: int, lower: int) -> float:
    """Two-sided exact p of McNemar (1947), that changed pairs go up as often as down.

    A cautious test: it errs less often than its level says. Without a changed pair p is 1.
    """
    from scipy.special import bdtr  # noqa: PLC0415 (slow to load)

    return min(1.0, 2 * float(bdtr(min(higher, lower), higher + lower, 0.5)))


def tango(higher: int, lower: int, n: int, *, confidence: float) -> tuple[float, float]:
    """Score interval of a difference of paired proportions: Tango (1998), Stat. Med. 17, 891.

    The differences that a score test does not reject; of width above 0 also when no pair changed.

    >>> [round(bound, 4) for bound in tango(6, 16, 161, confidence=0.95)]
    [-0.124, -0.0054]
    """
    z = normal_quantile(confidence)
    return -_tango_high(lower, higher, n, z), _tango_high(higher, lower, n, z)


def _tango_high(higher: int, lower: int, n: int, z: float) -> float:
    """The largest difference whose score statistic is within z, found by halving."""
    inside, outside = (higher - lower) / n, 1.0
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        # q: the likeliest share of pairs that go down, were the difference `middle`.
        linear = (2 * n - higher + lower) * middle - higher - lower
        root = sqrt(linear * linear + 8 * n * lower * middle * (1 - middle))
        q = max(0.0, root - linear) / (4 * n)
        variance = n * (2 * q + middle * (1 - middle))
        if (higher - lower - n * middle) ** 2 <= z * z * variance:
            inside = middle
        else:
            outside = middle
    return outside


def sign_flip(differences: Floats, *, seed: int, resamples: int) -> float:
    """Two-sided p of the sum of differences when each sign might as well be the other one.

    Fisher's (1935) randomisation test: exact up to 16 flips, from seeded resamples above, where
    (count + 1) / (resamples + 1) keeps the level: Phipson & Smyth (2010).
    """
    moved = differences[differences != 0]
    observed = abs(moved.sum()) - _ROUNDING * np.abs(moved).sum()
    if moved.size <= _EXACT:
        return float(np.mean(np.abs(_signed_sums(moved)) >= observed))
    rng = np.random.default_rng(seed)
    sums = np.zeros(resamples)
    blocks = np.pad(moved, (0, -moved.size % _BLOCK)).reshape(-1, _BLOCK)
    for start in range(0, len(blocks), _BLOCKS_AT_ONCE):
        tables = _signed_sums(blocks[start : start + _BLOCKS_AT_ONCE])
        picks = np.frombuffer(rng.bytes(len(tables) * resamples), dtype=np.uint8)
        for table, pick in zip(tables, picks.reshape(-1, resamples), strict=True):
            sums += table.take(pick)
    return float((1 + np.count_nonzero(np.abs(sums) >= observed)) / (resamples + 1))


def _signed_sums(values: Floats) -> Floats:
    """The sums along the last axis under every pattern of signs."""
    sums = np.zeros((*values.shape[:-1], 1))
    for column in np.moveaxis(values, -1, 0):
        step = column[..., np.newaxis]
        sums = np.concatenate([sums + step, sums - step], axis=-1)
    return sums


def mean_and_error(
    values: Floats, clusters: Labels | None = None
) -> tuple[float | None, float | None, int]:
    """Mean, standard error and degrees of freedom; the error is None for a single cluster.

    √(C/(C−1) · Σ_c(Σ_i(vᵢ−v̄))²) / n, as in Miller (2024), arXiv 2411.00640, with the factor for
    few clusters of Cameron & Miller (2015). Without clusters each value is its own.
    """
    if not values.size:
        return None, None, 0
    mean = values.mean()
    totals = values - mean if clusters is None else _totals(values - mean, clusters)
    freedom = totals.size - 1
    if not freedom:
        return float(mean), None, 0
    variance = totals.size / freedom * np.square(totals).sum()
    return float(mean), float(np.sqrt(variance) / values.size), freedom


def student(
    difference: float, stderr: float | None, freedom: float, *, largest: float, confidence: float
) -> tuple[float | None, float | None, float | None, str | None]:
    """Student's (1908) interval, the two-sided p of no difference, and why they are missing.

    An error that is nothing beside the `largest` value is rounding: then nothing varied.
    """
    from scipy.special import stdtr, stdtrit  # noqa: PLC0415 (slow to load)

    if stderr is None:
        return None, None, None, "a single value or cluster does not tell how others vary"
    if stderr <= _ROUNDING * largest:
        return None, None, None, "nothing varies, so the role of chance is unknown"
    reach = float(stdtrit(freedom, (1 + confidence) / 2)) * stderr
    p_value = 2 * float(stdtr(freedom, -abs(difference) / stderr))
    return difference - reach, difference + reach, p_value, None


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """The p-values made fit for a family of tests: Holm (1979), step down; a null stays one.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    adjusted: list[float | None] = [None] * len(p_values)
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    running = 0.0
    for rank, (p, place) in enumerate(known):
        running = max(running, min(1.0, (len(known) - rank) * p))
        adjusted[place] = running
    return adjusted


def finite(values: ArrayLike) -> Floats:
    """The values as an array of floats; none may be missing or infinite."""
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("values must be finite numbers: leave missing ones out first")
    return array


def require_binary(*samples: Floats) -> None:
    """Refuse values other than 0 and 1."""
    if any(((sample != 0) & (sample != 1)).any() for sample in samples):
        raise ValueError("binary values are 0 or 1; averages of several runs are not binary")


def _totals(values: Floats, clusters: Labels) -> Floats:
    """The sum in each cluster."""
    _, at = np.unique(clusters, return_inverse=True)
    return np.bincount(at, weights=values).astype(np.float64)
