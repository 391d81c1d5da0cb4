"""Paired differences: sign flips, McNemar's mid-p test, means over tasks or runs.

Student's interval of a mean difference is right where differences are many and smooth. Two things
break it. Most tasks may come out alike, so that the spread looks too small, or like none at all:
then up to two more tasks are added, one up and one down by what an unseen task may differ, as
Bonett & Price (2012), Br. J. Math. Stat. Psychol. 65, 479, do for shares. What they add to the
spread is given, not estimated, so the degrees of freedom grow with it (Satterthwaite 1946). And one
side may have fewer runs of a task than the other, which hides its luck in a few values: there the
variance is at least that of the permutation test that deals the runs of each task out again to the
two sides (Pitman 1937).

The interval of an area under a ROC curve is found by the same search for a boundary.

>>> low, high, p_value = share_difference(9, 2, 50, confidence=0.95)
>>> round(low, 3), round(high, 3), round(p_value, 4)
(0.004, 0.265, 0.0386)
>>> low, high = area_interval(0.75, 97, 3, z=1.96)
>>> round(low, 3), round(high, 3)
(0.323, 0.943)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from math import copysign, erfc, inf, sqrt
from typing import TYPE_CHECKING, Any

from calipers.statistics import special
from calipers.statistics.clusters import Floats
from calipers.statistics.elementwise import at_least, choose
from calipers.statistics.intervals import normal_quantile
from calipers.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXACT = 16  # flips: all 65,536 sign patterns are tried
NORMAL = 20_000  # differences that count: their sum is normal, p < 0.05 right to 0.001

_ROUNDING = 1e-12
_BLOCK = 8  # flips that one random byte decides
_BLOCKS_AT_ONCE = 64  # bounds memory: 640 kB of bytes for 10,000 resamples


def permute_signs(differences: Floats, *, seed: int, resamples: int) -> float | None:
    """Return the two-sided p of the sum of differences under random flips of their signs.

    Fisher's (1935) randomisation test: exact up to 16 flips, from seeded resamples above, where
    (count + 1) / (resamples + 1) keeps the level: Phipson & Smyth (2010). Of very many, the normal
    distribution that the sum tends to, whose variance is known: Σd². None for more than 16 where
    `resamples` is 0. Neither the order of the differences nor which side is the base decides.
    """
    differences = differences[differences != 0]
    if differences.size:  # by a power of two, which rounds nothing: 4th powers stay within a double
        differences = np.ldexp(differences, -np.frexp(np.abs(differences).max())[1])
    moved = np.sort(np.abs(differences))
    observed = abs(differences.sum()) - _ROUNDING * moved.sum()
    if moved.size <= EXACT:
        return float(np.mean(np.abs(_sum_signed(moved)) >= observed))
    if not resamples:
        return None
    squares = moved * moved
    variance = float(squares.sum())
    if variance**2 >= NORMAL * float(squares @ squares):  # few large ones count for few
        return erfc(abs(float(differences.sum())) / sqrt(2 * variance))
    rng = np.random.default_rng(seed)
    sums = np.zeros(resamples)
    blocks = np.pad(moved, (0, -moved.size % _BLOCK)).reshape(-1, _BLOCK)
    for start in range(0, len(blocks), _BLOCKS_AT_ONCE):
        tables = _sum_signed(blocks[start : start + _BLOCKS_AT_ONCE])
        picks = np.frombuffer(rng.bytes(len(tables) * resamples), dtype=np.uint8)
        for table, pick in zip(tables, picks.reshape(-1, resamples), strict=True):
            sums += table.take(pick)
    return float((1 + np.count_nonzero(np.abs(sums) >= observed)) / (resamples + 1))


def _sum_signed(values: Floats) -> Floats:
    """Return the sums along the last axis under every pattern of signs."""
    sums = np.zeros((*values.shape[:-1], 1))
    for column in np.moveaxis(values, -1, 0):
        step = column[..., np.newaxis]
        sums = np.concatenate([sums + step, sums - step], axis=-1)
    return sums


_HALVINGS = 60  # of an interval no wider than 2: to the last bit


def share_difference(
    higher: int, lower: int, n: int, *, confidence: float
) -> tuple[float, float, float]:
    """Return the bounds of the difference of two paired shares, and the p-value of no difference.

    The p-value is McNemar's mid-p, the bounds are those of Bonett and Price, and the two agree: p
    is below 1 − confidence exactly where the interval leaves 0 out. Where the interval would
    without the test, its bound is moved to 0; where the test rejects sooner, the bound is that of
    the mid-p test itself, given how many pairs changed.
    """
    low, high = bonett_price(higher, lower, n, confidence=confidence)
    p_value = mcnemar(higher, lower)
    if p_value >= 1 - confidence:
        return min(low, 0.0), max(high, 0.0), p_value
    if higher > lower:
        return low if low > 0 else _find_mid_p_bound(higher, lower, n, confidence), high, p_value
    return low, high if high < 0 else -_find_mid_p_bound(lower, higher, n, confidence), p_value


def mcnemar(higher: int, lower: int) -> float:
    """Return the two-sided mid-p of McNemar's test, that changed pairs go up as often as down.

    Half of the probability of what was seen counts as more extreme: Fagerland, Lydersen & Laake
    (2013), BMC Med. Res. Methodol. 13, 91, who found that it keeps the level and has more power
    than the exact test. Without a changed pair p is 1.

    >>> round(mcnemar(6, 16), 4)
    0.0347
    """
    if higher == lower:
        return 1.0
    return min(1.0, _compute_mid_p(min(higher, lower), higher + lower, 0.5))


def tango(higher: int, lower: int, n: int, difference: float) -> float:
    """Return the score statistic of paired shares against a true difference, standard normal.

    Tango (1998), Stat. Med. 17, 891: the variance is that of the most likely shares with this
    difference, so that the test keeps its level where few pairs changed. At −margin, a statistic
    above 1.96 says that the candidate is not worse by the margin.

    >>> round(tango(6, 16, 161, -0.15), 3), round(tango(6, 16, 161, 0.0), 3)
    (2.668, -2.132)
    """
    both = higher + lower
    linear = (2 * n - higher + lower) * difference - both
    constant = -lower * difference * (1 - difference)
    share = (sqrt(max(0.0, linear * linear - 8 * n * constant)) - linear) / (4 * n)
    variance = n * (2 * share + difference * (1 - difference))
    apart = higher - lower - n * difference
    if variance <= _ROUNDING:
        return copysign(inf, apart) if apart else 0.0
    return apart / sqrt(variance)


def bonett_price(higher: int, lower: int, n: int, *, confidence: float) -> tuple[float, float]:
    """Return the adjusted Wald interval of a difference of paired proportions.

    Bonett & Price (2012), Br. J. Math. Stat. Psychol. 65, 479: one pair more that goes up and one
    that goes down. Of width above 0 also when no pair changed, and never without the difference
    that was seen. Fagerland, Lydersen & Laake (2014), Stat. Med. 33, 2850, recommend it.

    >>> [round(bound, 4) for bound in bonett_price(6, 16, 161, confidence=0.95)]
    [-0.1195, -0.0032]
    """
    size, seen = n + 2, (higher - lower) / n
    centre = (higher - lower) / size
    variance = (higher + lower + 2) / size - centre**2
    half = normal_quantile(confidence) * sqrt(variance / size)
    return max(-1.0, min(seen, centre - half)), min(1.0, max(seen, centre + half))


def _find_mid_p_bound(higher: int, lower: int, n: int, confidence: float) -> float:
    """Return the lower bound of the difference by the mid-p test, given the changed pairs.

    Only for `higher` above `lower`, and a test that rejects: then it is above 0.
    """
    changed = higher + lower

    def is_rejected(share: float) -> bool:
        return _compute_mid_p(lower, changed, 1 - share) < 1 - confidence

    most: float = find_boundary(is_rejected, 0.5, 1.0)
    return (2 * most - 1) * changed / n


def _compute_mid_p(fewer: int, changed: int, share: float) -> float:
    """Return the two-sided mid-p of so few among the changed pairs, if `share` are expected."""
    up_to = special.bdtr(fewer, changed, share)
    return up_to + (special.bdtr(fewer - 1, changed, share) if fewer else 0.0)


def find_boundary(
    holds: Callable[[Any], Any], inside: Any, outside: Any, steps: int = _HALVINGS
) -> Any:
    """Return where a condition that holds at `inside` and not at `outside` ends; columns too."""
    for _ in range(steps):
        middle = (inside + outside) / 2
        is_held = holds(middle)
        inside, outside = choose(is_held, middle, inside), choose(is_held, outside, middle)
    return inside


FEW = 6  # rows of a kind; of so many their own spread can be told


def area_interval(area: Any, right: Any, wrong: Any, *, z: Any) -> tuple[Any, Any]:
    """Return the areas that lie within z of their own standard errors; of columns, columns.

    Newcombe (2006), Statistics in Medicine 25, 559, method 5, with Hanley and McNeil's variance. He
    puts the mean of both sizes where one of each stands; here it is the larger, so that it holds
    also where the few rows lie twice as far apart as the others.
    """
    larger = at_least(right, wrong)

    def is_within(other: Any) -> Any:
        of_pairs = at_least(0.0, larger - 1) * ((1 - other) / (2 - other) + other / (1 + other))
        variance = other * (1 - other) * (1 + of_pairs) / (right * wrong)
        apart = area - other
        return apart * apart <= z * z * variance

    return find_boundary(is_within, area, 0.0), find_boundary(is_within, area, 1.0)


_MOST_UNSEEN = 2.0
_NEARLY_ALL = 0.9  # tasks that differ alike, from which on two unseen ones are counted
_LESS = 0.25  # of the divisor's 1 that each unseen task takes back
_CERTAIN = 1e9  # degrees of freedom of a spread that is not estimated
_DECIMALS = 12  # of values that are the same
_TWO = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """The runs behind each pair: how many on either side, and their squared deviations in all."""

    base: Floats
    candidate: Floats
    squares: Floats  # Σ(run − its side's mean)², both sides together

    @property
    def unequal(self) -> bool:
        """Say whether any task has more runs on one side."""
        return bool((self.base != self.candidate).any())

    @property
    def unequal_rows(self) -> NDArray[np.bool_]:
        """Say the same of each pair of systems, where there is a row of tasks per pair."""
        return np.asarray((self.base != self.candidate).any(axis=1))

    def as_row(self) -> Repeats:
        """Return the runs as those of one of many pairs."""
        return Repeats(**{each.name: getattr(self, each.name)[np.newaxis] for each in fields(self)})

    def take_row(self, place: int) -> Repeats:
        """Return the runs behind one of many pairs."""
        return Repeats(**{each.name: getattr(self, each.name)[place] for each in fields(self)})

    @property
    def shares(self) -> Floats:
        """Return the variance of each difference in units of a run's variance."""
        return 1 / self.base + 1 / self.candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceBounds:
    """An interval of a mean difference, the p-value of none, and its standard error."""

    low: float
    high: float
    p_value: float
    stderr: float


def bound_over_tasks(
    differences: Floats,
    *,
    confidence: float,
    reach: float,
    step: float,
    repeats: Repeats | None = None,
    freedom: float | None = None,
) -> DifferenceBounds:
    """Return the interval of the mean over tasks like these, and its p-value; the two agree.

    Args:
        differences: one per task, two or more.
        confidence: of the interval.
        reach: the largest difference that there can be, either way.
        step: how far one run can move a task that has a single one.
        repeats: the runs behind the differences, where these are means of runs.
        freedom: degrees of freedom, where tasks do not weigh alike; else one less than tasks.
    """
    rows = None if repeats is None else repeats.as_row()
    found = bound_pairs_over_tasks(
        differences[np.newaxis],
        confidence=confidence,
        reach=reach,
        step=step,
        repeats=rows,
        freedom=freedom,
    )
    return DifferenceBounds(
        low=found.low.item(),
        high=found.high.item(),
        p_value=found.p_value.item(),
        stderr=found.stderr.item(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundColumns:
    """The bounds of many mean differences: an element each, as in `DifferenceBounds`."""

    low: Floats
    high: Floats
    p_value: Floats
    stderr: Floats


def bound_pairs_over_tasks(
    differences: Floats,
    *,
    confidence: float,
    reach: float,
    step: float,
    repeats: Repeats | None = None,
    freedom: float | None = None,
) -> BoundColumns:
    """Return `bound_over_tasks` of many pairs of systems: a row of differences each."""
    n = differences.shape[1]
    mean = differences.mean(axis=1)
    unseen, square = _count_unseen(differences, step, repeats)
    size = n + unseen
    centre = mean * n / size
    seen = np.square(differences - mean[:, np.newaxis]).sum(axis=1)
    added = n * (mean - centre) ** 2 + unseen * (square + centre**2)
    variance = (seen + added) / (size - 1 + _LESS * unseen)
    # Of a part of the spread that is given, degrees of freedom grow with it.
    grown = np.full_like(mean, _CERTAIN)
    known = seen > _ROUNDING
    grown[known] = np.minimum(((seen[known] + added[known]) / seen[known]) ** 2, _CERTAIN)
    degrees = (size - 1 if freedom is None else freedom) * grown
    stderr = np.sqrt(variance / size)
    half = np.array([t_reach(each, confidence) for each in degrees.tolist()]) * stderr
    low, high = np.minimum(mean, centre - half), np.maximum(mean, centre + half)
    statistic = np.full_like(mean, np.inf)
    np.divide(centre, stderr, out=statistic, where=stderr > 0)
    squares = (statistic**2).tolist()
    p_value = np.array(list(map(_compute_p, squares, degrees.tolist())))
    if repeats is not None:
        factor = t_reach(_CERTAIN, confidence) ** 2
        for place in np.flatnonzero(repeats.unequal_rows).tolist():
            dealt = _permute_runs(
                differences[place],
                repeats.take_row(place),
                float(unseen[place] * square[place]),
                float(size[place]),
            )
            bounds = dealt.bounds(float(mean[place]), factor / float(size[place]), reach)
            low[place], high[place] = min(low[place], bounds[0]), max(high[place], bounds[1])
            permuted = dealt.statistic(float(mean[place]), float(size[place]))
            p_value[place] = max(p_value[place], _compute_p(permuted, _CERTAIN))
    return BoundColumns(
        low=np.maximum(-reach, low), high=np.minimum(reach, high), p_value=p_value, stderr=stderr
    )


def bound_over_runs(
    differences: Floats, *, confidence: float, reach: float | None, step: float, repeats: Repeats
) -> DifferenceBounds | None:
    """Return the interval of the mean over these very tasks: only their runs might vary.

    A task's runs vary as both sides' runs do around their means; one with a single run on either
    side as the runs of the others. None where no task has more than that. Degrees of freedom after
    Satterthwaite (1946).
    """
    known = repeats.base + repeats.candidate - _TWO
    if not known.sum():
        return None
    n = differences.size
    mean = float(differences.mean())
    pooled = float(repeats.squares.sum() / known.sum())
    of_run = np.divide(repeats.squares, known, out=np.full(n, pooled), where=known > 0)
    of_tasks = of_run * repeats.shares
    total = float(of_tasks.sum())
    degrees = float(np.maximum(known, 1).sum())
    if total > 0:
        degrees = min(degrees, total**2 / float((of_tasks**2 / np.maximum(known, 1)).sum()))
    still = float(np.mean(repeats.squares <= _ROUNDING))
    unseen = _MOST_UNSEEN * still * step**2 * float(_average_square_of_run(repeats))
    stderr = sqrt(total + unseen) / n
    half = t_reach(max(1.0, degrees), confidence) * stderr
    largest = np.inf if reach is None else reach
    return DifferenceBounds(
        low=max(-largest, mean - half),
        high=min(largest, mean + half),
        p_value=_compute_p((mean / stderr) ** 2 if stderr else np.inf, max(1.0, degrees)),
        stderr=stderr,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variance:
    """The variance of a task's difference, were the mean x: constant + linear · x + square · x²."""

    constant: float
    linear: float = 0.0
    square: float = 0.0

    def bounds(self, mean: float, factor: float, reach: float) -> tuple[float, float]:
        """Return the means that lie within √factor standard deviations of the observed one."""
        second = 1 - factor * self.square
        first = mean + factor * self.linear / 2
        if second <= 0:
            return -reach, reach
        root = sqrt(max(0.0, first**2 - second * (mean**2 - factor * self.constant)))
        return (first - root) / second, (first + root) / second

    def statistic(self, mean: float, size: float) -> float:
        """Return the squared statistic of a true mean of 0."""
        return mean**2 * size / self.constant if self.constant else np.inf


def _permute_runs(differences: Floats, repeats: Repeats, unseen: float, size: float) -> _Variance:
    """Return the variance when the runs of each task are dealt out again to the two sides."""
    per_run = 1 / (repeats.base + repeats.candidate - 1)
    within = float((repeats.shares * per_run * repeats.squares).sum())
    return _Variance(
        constant=(within + unseen + float((per_run * differences**2).sum())) / size,
        linear=-2 * float((per_run * differences).sum()) / size,
        square=float(per_run.sum()) / size,
    )


def _count_unseen(
    differences: Floats, step: float, repeats: Repeats | None
) -> tuple[Floats, Floats]:
    """Return how many unseen tasks to count in each row, and the square of each one's difference.

    Two where nearly all tasks differ alike, none where no two do. An unseen one differs like those
    that are unlike the most, with one more among them that differs by what a single run can do, and
    by no more than that.
    """
    rows, n = differences.shape
    mean = differences.mean(axis=1)
    ordered = np.sort(differences.round(_DECIMALS), axis=1)
    is_new = np.ones(differences.shape, dtype=bool)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=is_new[:, 1:])
    starts = np.flatnonzero(is_new)
    values, row = ordered.ravel()[starts], starts // n
    counts = np.diff(starts, append=rows * n)
    firsts = np.searchsorted(row, np.arange(rows))  # of each row's values
    most = np.maximum.reduceat(counts, firsts)
    # The usual difference: of the values that are there most often the nearest to the mean.
    apart = np.where(counts == most[row], np.abs(values - mean[row]), np.inf)
    nearest = np.flatnonzero(apart == np.minimum.reduceat(apart, firsts)[row])
    usual = values[nearest[np.searchsorted(row[nearest], np.arange(rows))]]
    squares = np.square(differences - usual[:, np.newaxis]).sum(axis=1)
    of_runs = 1.0 if repeats is None else _average_square_of_run(repeats)
    one_run = step * step * of_runs
    alike = np.minimum(1.0, (most - 1) / (n - 1) / _NEARLY_ALL)
    return _MOST_UNSEEN * alike, np.minimum(one_run, (squares + one_run) / (n - most + 1))


def _average_square_of_run(repeats: Repeats) -> Floats:
    """Return the mean square by which one run of a step of 1 moves a task's difference."""
    averaged: Floats = np.mean(1 / (repeats.base * repeats.candidate), axis=-1)
    return averaged


def t_reach(freedom: float, confidence: float) -> float:
    """Return the number of standard errors that an interval extends, by Student's t."""
    return special.stdtrit(freedom, (1 + confidence) / 2)


def _compute_p(square: float, freedom: float) -> float:
    return 2 * special.stdtr(freedom, -sqrt(square)) if np.isfinite(square) else 0.0
