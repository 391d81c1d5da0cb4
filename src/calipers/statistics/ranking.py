"""Several systems at once: their means, intervals that hold together, ranks, letters and strengths.

Intervals that hold for all systems at once follow from the largest of several standardised errors
(max-t). Its distribution is drawn by a bootstrap with Gaussian multipliers: a draw weighs every
task by the same random number for all systems, so that systems which fail on the same tasks stay
correlated (Chernozhukov, Chetverikov & Kato 2013, Ann. Statist. 41, 2786). Such draws are normal
with the covariance of the estimates, which is therefore all that is needed, however many tasks
there are. The draws only give the level at which to take each single interval; the intervals
themselves are those of one estimate, exact or corrected for few tasks.

Strengths are those of Bradley & Terry (1952, Biometrika 39, 324): the odds that one system wins
against another are e to the difference of their strengths, which sum to 0. A tie counts as half a
win for either side. Several comparisons on one task depend on each other, so errors are summed by
task (a sandwich covariance, Liang & Zeger 1986, Biometrika 73, 13).

>>> independent = MaxT.of_each(np.eye(10), seed=0)
>>> round(1 - independent.level(0.95), 3)  # Šidák: 1 - 0.95 ** (1 / 10) = 0.005
0.005
>>> round(independent.adjust(0.005), 2), independent.adjust(0.9)
(0.05, 1.0)
>>> met = Comparisons(first=[0, 0, 0, 0], second=[1, 1, 1, 1], result=[1, 1, 1, 0])
>>> found = fit_strengths(met, systems=2)
>>> round(float(found.values[0] - found.values[1]), 4)  # ln 3
1.0986
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, islice
from math import ceil, erf, inf, sqrt
from string import ascii_letters
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calipers.statistics.clusters import (
    Clusters,
    Floats,
    Labels,
    Whole,
    measure_skewness,
)
from calipers.statistics.intervals import (
    Interval,
    interval_of_mean,
    normal_quantile,
    partial_wilson,
    score_bounds,
)
from calipers.statistics.paired_tests import t_reach
from calipers.statistics.special import ndtri


def pareto_front(costs: Sequence[float], gains: Sequence[float]) -> list[int]:
    """Return the positions of the points on the front, cheapest first; equal points are all on it.

    A point is on the front when no other costs at most as much and gains at least as much, one of
    the two strictly.

    >>> pareto_front([1, 2, 3], [0.5, 0.9, 0.8])
    [0, 1]
    """
    order = sorted(range(len(costs)), key=lambda at: (costs[at], -gains[at], at))
    front: list[int] = []
    best, at_cost = -inf, -inf
    for at in order:
        if gains[at] > best or (gains[at] == best and costs[at] == at_cost):
            front.append(at)
            best, at_cost = gains[at], costs[at]
    return front


def mean_interval(
    values: Floats,
    *,
    ends: tuple[float, float],
    is_share: bool,
    confidence: float,
    clusters: Labels | None = None,
) -> Interval:
    """Return the interval of the mean over tasks like these.

    Args:
        values: one per task, at least one.
        ends: what values can be; infinite where they have no end.
        is_share: whether a task is right or wrong: where all values are 0 or 1, Wilson's interval
            with Student's t. The normal quantile would do at 95 %, but not at the higher levels at
            which several intervals hold together: four of 40 tasks did so in 93 % of simulations.
        confidence: of the interval.
        clusters: a label per task; tasks that share one depend on each other.
    """
    mean, n = float(values.mean()), values.size
    off = values - mean
    squares, sizes = Clusters.of_influences(off, clusters)
    spread = squares / n**2
    if is_share and bool(np.isin(values, (0.0, 1.0)).all()):
        return partial_wilson(mean, n, spread, sizes, confidence)
    skewness = measure_skewness(off, clusters)
    return interval_of_mean(mean, spread, sizes, confidence, ends=ends, skewness=skewness)


def covariance_of_means(values: Floats, clusters: Labels | None = None) -> Floats:
    """Return the covariance of several systems' means over the same tasks, a row of values each.

    With clusters it is CR2: see `statistics.clusters`.
    """
    off = values - values.mean(axis=1, keepdims=True)
    if clusters is None:
        totals, shares = off, np.full(off.shape[1], 1 / max(2, off.shape[1]))
    else:
        _, members, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
        adding = np.zeros((off.shape[1], sizes.size))
        adding[np.arange(off.shape[1]), members.ravel()] = 1.0
        totals, shares = off @ adding, sizes / off.shape[1]
    weighed = totals / np.maximum(_ROUNDING, 1 - shares)
    found: Floats = weighed @ totals.T / values.shape[1] ** 2
    return found


def fixed_interval(
    value: float,
    variance: float,
    *,
    rows: int,
    freedom: int,
    bounds: tuple[float, float] | None,
    confidence: float,
) -> Interval:
    """Return the interval of a mean on fixed tasks, given the variance of its runs.

    Between bounds it is Wilson's, of as many rows as would vary so much; few rows unlike the others
    tell little of that, and count as if one more had told the most, that each stands for itself.

    Args:
        value: the mean.
        variance: of the mean, from the spread of runs within tasks.
        rows: how many runs there are in all.
        freedom: how many of them are not the first of their task.
        bounds: what values can be; None where they have no bounds.
        confidence: of the interval.

    >>> found = fixed_interval(1.0, 0.0, rows=80, freedom=60, bounds=(0, 1), confidence=0.95)
    >>> round(found.low, 3), found.high
    (0.952, 1.0)
    """
    z = t_reach(freedom, confidence)
    stderr = sqrt(variance)
    if bounds is None:
        return Interval(low=value - z * stderr, high=value + z * stderr, stderr=stderr)
    low, high = bounds
    share, reach = (value - low) / (high - low), high - low
    possible = share * (1 - share)
    worst = 1 / rows
    seen = variance / reach**2 / possible if possible > 0 else 0.0
    unlike = rows * min(share, 1 - share)
    size = 1 / (seen + max(0.0, worst - seen) / (unlike + 1))
    least, most = score_bounds(share, size, z)
    return Interval(
        low=low + reach * min(share, least), high=low + reach * max(share, most), stderr=stderr
    )


DRAWS = 20_000

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class MaxT:
    """The largest of several standardised errors: sorted draws of it, and how many there are."""

    largest: Floats
    tests: int

    @classmethod
    def of_each(cls, covariance: Floats, *, seed: int, draws: int = DRAWS) -> Self:
        """Return the distribution over the estimates themselves."""
        covariance = _sort_alike(covariance)
        rng = np.random.default_rng([seed, 0])
        errors = _draw(covariance, rng, draws)
        deviations = np.sqrt(np.diag(covariance))
        known = deviations > _ROUNDING * deviations.max(initial=0.0)
        errors[:, known] /= deviations[known]
        errors[:, ~known] = rng.standard_normal((draws, int((~known).sum())))
        return cls(np.sort(np.abs(errors).max(axis=1)), deviations.size)

    @classmethod
    def of_pairs(cls, covariance: Floats, *, seed: int, draws: int = DRAWS) -> Self:
        """Return the distribution over the differences between any two of the estimates.

        A difference that does not vary counts as one more, independent of the others.
        """
        covariance = _sort_alike(covariance)
        rng = np.random.default_rng([seed, 1])
        errors = _draw(covariance, rng, draws)
        deviations = np.triu(pair_deviations(covariance), 1)
        count = len(covariance)
        known = int(np.count_nonzero(deviations))
        tests = count * (count - 1) // 2
        largest = _draw_largest(rng, tests - known, draws)
        if known:
            largest = _find_largest_apart(np.ascontiguousarray(errors.T), deviations, largest)
        return cls(np.sort(largest), tests)

    def level(self, confidence: float) -> float:
        """Return the confidence of each single interval at which all hold with `confidence`."""
        if self.tests <= 1:
            return confidence
        draws = self.largest.size
        beyond = max(0, ceil((1 - confidence) * (draws + 1) - 1) - 1)
        reach = max(float(self.largest[draws - 1 - beyond]), normal_quantile(confidence))
        return erf(reach / sqrt(2))

    def adjust(self, p_value: float) -> float:
        """Return the p-value of one test adjusted for all: below 1 − C where its level rejects."""
        return float(self.adjust_each(np.array([p_value]))[0])

    def adjust_each(self, p_values: Floats) -> Floats:
        """Return the p-values of several tests, each adjusted for all; NaN stays NaN."""
        if self.tests <= 1:
            return p_values
        reach = [normal_quantile(1 - p) if p > 0 else inf for p in p_values.tolist()]
        draws = self.largest.size
        beyond = draws - np.searchsorted(self.largest, reach, side="left")
        drawn = (beyond + 1) / (draws + 1)
        # Further out than any draw: what Bonferroni's inequality allows.
        drawn = np.where(beyond > 0, drawn, np.minimum(drawn, self.tests * p_values))
        found: Floats = np.where(np.isnan(p_values), np.nan, np.maximum(p_values, drawn))
        return found


_BLOCK = 12  # systems whose errors are bounded together
_MOST_DRAWN = 1_000  # pairs that do not vary of which each is drawn; of more, only the largest


def _draw_largest(rng: np.random.Generator, count: int, draws: int) -> Floats:
    """Return the largest size of so many independent standard normal errors, in each draw."""
    largest = np.zeros(draws)
    if count > _MOST_DRAWN:
        shares = (1 + rng.random(draws) ** (1 / count)) / 2
        return np.array([ndtri(share) for share in shares.tolist()])
    for _ in range(count):
        np.maximum(largest, np.abs(rng.standard_normal(draws)), out=largest)
    return largest


def _find_largest_apart(errors: Floats, deviations: Floats, largest: Floats) -> Floats:
    """Return how far apart any two estimates lie in each draw, in deviations; at least `largest`.

    Of a block of estimates and another, no two can lie further apart than the highest of one and
    the lowest of the other, over the least deviation: draws in which that is less than what was
    found are left out, and so are most. Rounding keeps the order, so nothing is lost by that.

    Args:
        errors: a row per estimate, a column per draw.
        deviations: of each difference, above the diagonal; 0 where it does not vary.
        largest: what is known in each draw.
    """
    apart = deviations + deviations.T
    apart[apart == 0] = inf
    every = np.arange(errors.shape[1])
    for ends in (errors.argmax(axis=0), errors.argmin(axis=0)):  # those at the ends come first
        end = errors[ends, every]
        for other, own in enumerate(errors):
            np.maximum(largest, np.abs(end - own) / apart[ends, other], out=largest)
    starts = np.arange(0, len(errors), _BLOCK)
    high, low = (bound.reduceat(errors, starts, axis=0) for bound in (np.maximum, np.minimum))
    least = np.minimum.reduceat(apart, starts, axis=1)  # of each estimate to a block
    of_blocks = np.minimum.reduceat(least, starts, axis=0)
    for one, other in combinations_with_replacement(range(starts.size), 2):
        bound = np.maximum(high[one] - low[other], high[other] - low[one])
        draws = np.flatnonzero(bound / of_blocks[one, other] > largest)
        if not draws.size:
            continue
        block = errors[starts[other] : starts[other] + _BLOCK, draws]
        found, top, bottom = largest[draws], high[other, draws], low[other, draws]
        for row in range(starts[one], min(starts[one] + _BLOCK, len(errors))):
            own = errors[row, draws]
            bound = np.maximum(top - own, own - bottom) / least[row, other]
            some = np.flatnonzero(bound > found)
            of_block = apart[row, starts[other] : starts[other] + _BLOCK, np.newaxis]
            sizes = np.abs(own[some] - block[:, some]) / of_block
            found[some] = np.maximum(found[some], sizes.max(axis=0))
        largest[draws] = found
    return largest


def pair_deviations(covariance: Floats) -> Floats:
    """Return the standard error of each difference; 0 where it is rounding."""
    own = np.diag(covariance)
    total = own[:, None] + own[None, :]
    squares = total - 2 * covariance
    return np.sqrt(np.where(squares > _ROUNDING * total, squares, 0.0))


def _sort_alike(covariance: Floats) -> Floats:
    """Return the covariance in an order that does not depend on the estimates' names.

    Which random numbers an estimate gets must depend on its row alone. Rows whose variance, sum and
    sums of powers agree to nine digits can be exchanged.
    """
    largest = float(np.abs(covariance).max(initial=0.0)) or 1.0
    scaled = covariance / largest
    keys = [np.diag(scaled), *(np.sum(scaled**power, axis=1) for power in (1, 2, 3))]
    order = np.lexsort([np.round(key, 9) for key in reversed(keys)])
    return covariance[np.ix_(order, order)]


def _draw(covariance: Floats, rng: np.random.Generator, draws: int) -> Floats:
    """Return normal errors with a covariance, a row per draw."""
    return rng.standard_normal((draws, len(covariance))) @ _compute_root(covariance).T


def _compute_root(covariance: Floats) -> Floats:
    """Return the Cholesky factor of a covariance, which need not be of full rank."""
    count = len(covariance)
    root = np.zeros((count, count))
    for place in range(count):
        left = covariance[place:, place] - root[place:, :place] @ root[place, :place]
        if left[0] > _ROUNDING * covariance[place, place]:
            root[place:, place] = left / np.sqrt(left[0])
    return root


Flags = NDArray[np.bool_]


def ranks(values: NDArray[np.float64], *, higher_is_better: bool) -> list[int]:
    """Return each value's rank, 1 for the best; equal values share the better one.

    >>> ranks(np.array([0.5, 0.9, 0.9, 0.1]), higher_is_better=True)
    [3, 1, 1, 4]
    """
    signed = values if higher_is_better else -values
    rounding = _ROUNDING * np.abs(signed).max(initial=0.0)
    return [1 + int((signed > value + rounding).sum()) for value in signed]


def rank_bounds(better: Flags) -> tuple[list[int], list[int]]:
    """Return the best and the worst rank that each system may have.

    `better[i, j]` says that i is significantly better than j. If these decisions hold all at once
    with a confidence, so do the bounds (Klein, Wright & Wieczorek 2020, J. R. Stat. Soc. A 183,
    589; Mogstad, Romano, Shaikh & Wilhelm 2024, Rev. Econ. Stud. 91, 476).

    >>> rank_bounds(np.array([[False, False, True], [False, False, True], [False] * 3]))
    ([1, 1, 3], [2, 2, 3])
    """
    count = len(better)
    return (1 + better.sum(axis=0)).tolist(), (count - better.sum(axis=1)).tolist()


MOST_LETTERS = 1_000  # sets of systems; their number may double with each further system


def share_letters(different: Flags) -> list[str] | None:
    """Return a text of letters per system: two share one exactly where they do not differ.

    A compact letter display (Piepho 2004, J. Comput. Graph. Stat. 13, 456): a letter for each
    largest set of systems of which no two differ, the first ones for the first systems. None where
    there are more sets than anybody could read.

    >>> different = np.zeros((3, 3), dtype=bool)
    >>> different[0, 2] = different[2, 0] = True
    >>> share_letters(different)
    ['a', 'ab', 'b']
    """
    alike = ~different
    np.fill_diagonal(alike, val=False)
    packed = np.packbits(alike, axis=1, bitorder="little")
    neighbours = [int.from_bytes(row.tobytes(), "little") for row in packed]
    found = list(islice(_list_largest_sets(neighbours), MOST_LETTERS + 1))
    if len(found) > MOST_LETTERS:
        return None
    letters = [""] * len(alike)
    for number, members in enumerate(sorted(map(_list_bits, found))):
        again, letter = divmod(number, len(ascii_letters))  # with a digit once all are used up
        for place in members:
            letters[place] += f"{ascii_letters[letter]}{again or ''}"
    return letters


def _list_bits(chosen: int) -> list[int]:
    bits = np.frombuffer(chosen.to_bytes(chosen.bit_length() // 8 + 1, "little"), dtype=np.uint8)
    places: list[int] = np.flatnonzero(np.unpackbits(bits, bitorder="little")).tolist()
    return places


def _list_largest_sets(neighbours: Sequence[int]) -> Iterator[int]:
    """Yield the sets, as bits, that are alike throughout and in no larger one.

    Bron & Kerbosch (1973, Commun. ACM 16, 575) with pivots, on a stack of its own: a set may have
    more members than Python has room for calls.
    """
    stack = [(0, (1 << len(neighbours)) - 1, 0)]
    while stack:
        chosen, open_, done = stack.pop()
        if not open_ and not done:
            yield chosen
        if not open_:
            continue
        pivot = max(
            _list_bits(open_ | done), key=lambda place: (neighbours[place] & open_).bit_count()
        )
        for place in _list_bits(open_ & ~neighbours[pivot]):
            one = 1 << place
            stack.append((chosen | one, open_ & neighbours[place], done & neighbours[place]))
            open_ &= ~one
            done |= one


_STEPS = 200
_CLOSE = 1e-12
_FEWEST = 2


@dataclass(frozen=True, slots=True, init=False)
class Comparisons:
    """Who met whom: 1 where the first won, 0 where the second did, ½ for a tie."""

    first: Whole
    second: Whole
    result: Floats
    clusters: Whole  # comparisons that share one depend on each other

    def __init__(
        self,
        first: ArrayLike,
        second: ArrayLike,
        result: ArrayLike,
        clusters: ArrayLike | None = None,
    ) -> None:
        set_ = object.__setattr__
        set_(self, "first", np.asarray(first, dtype=np.int64))
        set_(self, "second", np.asarray(second, dtype=np.int64))
        set_(self, "result", np.asarray(result, dtype=np.float64))
        labels = np.arange(self.first.size) if clusters is None else np.asarray(clusters)
        if not _is_numbered(labels):
            labels = np.unique(labels, return_inverse=True)[1]
        set_(self, "clusters", labels.astype(np.int64, copy=False))


def _is_numbered(labels: Labels) -> bool:
    """Say whether labels are the numbers from 0 on, each at least once: sorting is slow."""
    if labels.dtype.kind != "i" or not labels.size or labels.min() != 0:
        return False
    return labels.max() < labels.size and bool(np.bincount(labels).all())


@dataclass(frozen=True, slots=True, kw_only=True)
class Strengths:
    """The strengths with their covariance, how many clusters tell them, and who won how often."""

    values: Floats
    covariance: Floats
    clusters: int
    win_rates: Floats  # a tie is half a win
    ties_added: bool  # where some side won, or lost, all that there was


def fit_strengths(met: Comparisons, systems: int) -> Strengths:
    """Return the strengths of largest likelihood.

    Where some systems won everything against all the others, no finite strengths are the most
    likely. Then each system counts one further comparison: a tie with one of average strength.

    Raises:
        ValueError: No chain of comparisons joins all systems.
    """
    wins = np.zeros((systems, systems))
    np.add.at(wins, (met.first, met.second), met.result)
    np.add.at(wins, (met.second, met.first), 1 - met.result)
    played = wins + wins.T
    if not is_joined(played > 0):
        raise ValueError("no chain of comparisons joins all systems")
    rates = wins.sum(axis=1) / played.sum(axis=1)
    is_open = not is_joined(wins > 0)
    added = np.zeros((systems + 1, systems + 1))  # the last is an average system
    if is_open:
        wins, played = (np.pad(each, (0, 1)) for each in (wins, played))
        added[:systems, systems] = added[systems, :systems] = 0.5
    else:
        added = added[:systems, :systems]
    values = _find_most_likely(wins + added)
    inverse = np.linalg.pinv(_compute_information(values, played + added + added.T))
    spread = _compute_information(values, added + added.T)
    spread[:systems, :systems] += _sum_by_cluster(met, values[:systems], systems)
    centred = np.eye(systems, len(values)) - 1 / systems * (np.arange(len(values)) < systems)
    covariance = centred @ inverse @ spread @ inverse @ centred.T
    if is_open:
        covariance = _widen(covariance, centred @ inverse @ centred.T)
    return Strengths(
        values=values[:systems] - values[:systems].mean(),
        covariance=covariance,
        clusters=int(met.clusters.max(initial=-1)) + 1,
        win_rates=rates,
        ties_added=is_open,
    )


def _widen(covariance: Floats, modelled: Floats) -> Floats:
    """Return the covariance with variances no less than the modelled ones.

    From few comparisons of systems that nearly always win, or lose, the sums of squares tell too
    little: then the model's own variance, were comparisons independent, is the larger.
    """
    ratio = np.diag(modelled) / np.maximum(np.diag(covariance), _ROUNDING)
    scale = np.sqrt(np.maximum(1.0, ratio))
    widened: Floats = covariance * np.outer(scale, scale)
    return widened


def is_joined(edges: NDArray[np.bool_]) -> bool:
    """Say whether steps along the edges lead from each place to every other one."""
    return all(_find_reached(each).all() for each in (edges, edges.T))


def _find_reached(edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which places steps from the first one lead to."""
    found = np.zeros(len(edges), dtype=bool)
    found[0] = True
    while True:
        further = found | edges[found].any(axis=0)
        if (further == found).all():
            return found
        found = further


def _compute_chances(values: Floats) -> Floats:
    """Return the probability that each wins against each."""
    found: Floats = np.exp(-np.logaddexp(0, values[None, :] - values[:, None]))
    return found


def _compute_information(values: Floats, played: Floats) -> Floats:
    """Return how much so many comparisons say: minus the second derivative of the likelihood."""
    chances = _compute_chances(values)
    weights = played * chances * (1 - chances)
    np.fill_diagonal(weights, 0.0)
    return np.diag(weights.sum(axis=1)) - weights


def _find_most_likely(wins: Floats) -> Floats:
    """Return the strengths of largest likelihood (Newton's method, its steps halved if need be)."""
    played = wins + wins.T
    values = np.zeros(len(wins))

    def likelihood(strengths: Floats) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(_compute_chances(strengths))
        return float(np.where(wins > 0, wins * logs, 0.0).sum())

    reached = likelihood(values)
    for _ in range(_STEPS):
        slope = (wins - played * _compute_chances(values)).sum(axis=1)
        step = np.linalg.pinv(_compute_information(values, played)) @ slope
        while (next_ := likelihood(values + step)) < reached and np.abs(step).max() > _CLOSE:
            step /= 2
        values, reached = values + step, next_
        if np.abs(step).max() <= _CLOSE:
            break
    found: Floats = values - values.mean()
    return found


def _sum_by_cluster(met: Comparisons, values: Floats, systems: int) -> Floats:
    """Return the sum over clusters of the squares of what each adds to the slopes."""
    surprise = met.result - _compute_chances(values)[met.first, met.second]
    clusters = int(met.clusters.max(initial=-1)) + 1
    slopes = np.zeros((clusters, systems))
    np.add.at(slopes, (met.clusters, met.first), surprise)
    np.add.at(slopes, (met.clusters, met.second), -surprise)
    few = clusters / (clusters - 1) if clusters >= _FEWEST else 1.0
    found: Floats = few * slopes.T @ slopes
    return found
