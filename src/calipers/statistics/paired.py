"""Two systems on the same tasks: their difference, how certain it is, and how often each wins.

`compare_paired` takes a value per task; `compare_tasks` takes tasks with the runs behind them, and
weighs them by task or by row.

>>> base, candidate = [0, 0, 1, 1, 0, 1, 0, 0], [1, 1, 1, 1, 1, 0, 1, 1]
>>> found = compare_paired(base, candidate, binary=True, higher_is_better=True)
>>> found.difference, found.wins, found.losses, round(found.p_value, 5)
(0.5, 5, 1, 0.125)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from calipers.statistics import special
from calipers.statistics.clusters import (
    Clusters,
    Floats,
    Labels,
    as_finite,
    measure_skewness,
    sum_clusters,
)
from calipers.statistics.guarantee import (
    BETS,
    UNEQUAL,
    average_clusters,
    guarantee_mean,
    guarantee_p,
)
from calipers.statistics.intervals import partial_wilson, skewed_reach, transform_skewed
from calipers.statistics.paired_tests import (
    EXACT,
    Repeats,
    bound_over_runs,
    bound_over_tasks,
    find_boundary,
    permute_signs,
    share_difference,
)
from calipers.support.lazy_numpy import np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

ROUNDING = 1e-12  # 0.1 + 0.2 against 0.3 is a tie

MCNEMAR = "mid-p McNemar"
NOTHING_VARIES = "nothing varies, so the role of chance is unknown"
_ENOUGH_FLIPS = 25  # per chance of an error: with fewer, their p-value is too rough to decide
_FEW_FLIPS = 10  # at least as far out: of fewer, p is not known well
_FLIPPED_STEPS = 20  # halvings to find the bound of flips

RUN_ONCE = "no task has more than one run on a side, so how far runs vary is unknown"


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


def compare_paired(
    base: ArrayLike,
    candidate: ArrayLike,
    *,
    binary: bool,
    higher_is_better: bool | None,
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int = 10_000,
    clusters: ArrayLike | None = None,
    reach: float | None = None,
    step: float | None = None,
    repeats: Repeats | None = None,
    fixed: bool = False,
    freedom: float | None = None,
) -> Comparison:
    """Return the comparison of two systems, given a value per task from each.

    p is below 1 − confidence exactly where the interval leaves 0 out. Of 0 and 1: McNemar's mid-p
    test with the interval of Bonett and Price, and Cohen's g. Else a t test on the differences with
    Cohen's dz, which allows for unseen tasks (`bound_over_tasks`); beside it the p-value of
    flipped signs, which decides where few tasks differ. With `clusters` (tasks of one repository,
    say) the interval is the cluster-robust one for either kind (CR2), and p is that of signs
    flipped per cluster, from six clusters on.

    Args:
        base: a finite value per task.
        candidate: the same tasks' values, in the same order.
        binary: whether all values are 0 or 1, each of a single run.
        higher_is_better: what a win is; None counts higher values as wins.
        confidence: of the interval.
        seed: of the flipped signs.
        resamples: how many of these, above 16 tasks that differ.
        clusters: a label per task.
        reach: the largest difference that there can be; None where it has no bound.
        step: how far one run can move a value; `reach` unless given.
        repeats: the runs behind the values, where these are means of runs.
        fixed: whether the tasks are all there are: then only their runs vary.
        freedom: degrees of freedom, where tasks do not weigh alike.

    Raises:
        ValueError: for values that are not finite, not paired, or not binary where they should be.
    """
    first, second = as_finite(base), as_finite(candidate)
    if first.shape != second.shape:
        raise ValueError(f"{first.size} values cannot be paired with {second.size}")
    groups = None if clusters is None else np.asarray(clusters)
    if groups is not None and np.unique(groups).size == first.size:
        groups = None  # a cluster each
    exact = binary and groups is None and not fixed
    differences = second - first
    if exact:
        require_binary(first, second)
    else:
        size = np.maximum(np.abs(first), np.abs(second))
        differences = np.where(np.abs(differences) > ROUNDING * size, differences, 0.0)
    higher, lower = int((differences > 0).sum()), int((differences < 0).sum())
    wins, losses = (lower, higher) if higher_is_better is False else (higher, lower)
    n = differences.size
    mean, stderr, degrees = estimate_mean(differences, groups)
    found = partial(
        Comparison,
        difference=mean,
        stderr=stderr,
        test=MCNEMAR if exact else "paired t" if groups is None else "clustered paired t",
        interval="Bonett-Price" if exact else "t",
        effect_name="Cohen's g" if exact else "Cohen's dz",
        wins=wins,
        losses=losses,
        ties=n - wins - losses,
        n_pairs=n,
    )
    if mean is None:
        return found(reason="no pairs")
    if exact:
        low, high, p_value = share_difference(higher, lower, n, confidence=confidence)
        effect = higher / (higher + lower) - 0.5 if higher or lower else None
        return found(low=low, high=high, p_value=p_value, effect=effect)
    largest = float(size.max())
    deviation = float(differences.std(ddof=1)) if n > 1 else 0.0
    flips = sum_clusters(differences, groups)
    found = partial(
        found,
        effect=mean / deviation if deviation > ROUNDING * largest else None,
        permutation_p=permute_signs(flips, seed=seed, resamples=resamples),
    )
    if fixed:
        return _compare_fixed_tasks(found, differences, confidence, reach, step, repeats)
    if groups is not None or reach is None or n <= 1:
        freedom = degrees if freedom is None else freedom
        tail = Tail.of(differences, groups) if reach is None and n > 1 else _EVEN
        low_t, high_t, p_t, reason = student(
            mean, stderr, freedom, largest=largest, confidence=confidence, tail=tail
        )
        found = partial(found, low=low_t, high=high_t, p_value=p_t, reason=reason)
    else:
        bounds = bound_over_tasks(
            differences,
            confidence=confidence,
            reach=reach,
            step=reach if step is None else step,
            repeats=repeats,
            freedom=freedom,
        )
        found = partial(found, low=bounds.low, high=bounds.high, p_value=bounds.p_value)
    if repeats is not None and repeats.unequal and groups is None and reach is not None:
        return found(test="paired t, permuted runs")
    if groups is not None:
        return _decide_by_flips(found(), differences, groups, confidence, resamples, reach)
    differing = int(np.count_nonzero(flips))
    few = 0 < differing <= EXACT and 2 * differing < flips.size  # all flips can be enumerated
    return _apply_flips(found(), confidence) if few else found()


def _apply_flips(found: Comparison, confidence: float) -> Comparison:
    """Return the comparison with the p-value of sign flips, if that is the larger one."""
    flipped = found.permutation_p
    if flipped is None or found.p_value is None or found.low is None or found.high is None:
        return found
    if flipped <= found.p_value:
        return found
    may_be_none = flipped >= 1 - confidence
    return replace(
        found,
        low=min(found.low, 0.0) if may_be_none else found.low,
        high=max(found.high, 0.0) if may_be_none else found.high,
        p_value=flipped,
        test="sign-flip permutation",
    )


def _decide_by_flips(
    found: Comparison,
    differences: Floats,
    groups: Labels,
    confidence: float,
    resamples: int,
    reach: float | None,
) -> Comparison:
    """Return the comparison with the p-value of signs flipped per cluster.

    A cluster's sign is as likely either way if there is no difference, whatever its size (Canay,
    Romano & Shaikh 2017, Econometrica 85, 1013). The interval leaves 0 out exactly where p is below
    1 − confidence: where it would otherwise, its bound is 0; where the flips reject sooner, the
    bound is the least difference that flips do not reject. So few clusters that no flips can reject
    are left to t, and so are p-values smaller than the resamples can show.
    """
    flipped, tail = found.permutation_p, 1 - confidence
    _, members, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    can_reject = 2.0 ** (1 - sizes.size) < tail
    if flipped is None or found.p_value is None or found.low is None or found.high is None:
        return found
    if not can_reject or (sizes.size > EXACT and resamples < _ENOUGH_FLIPS / tail):
        return found
    p_value = min(flipped, found.p_value) if flipped <= _FEW_FLIPS / resamples else flipped
    p_value = flipped if sizes.size <= EXACT else p_value
    low, high = found.low, found.high
    if p_value >= tail:
        low, high = min(low, 0.0), max(high, 0.0)
    elif low <= 0 <= high:
        assert found.difference is not None
        totals = np.bincount(members.ravel(), weights=differences)

        def is_rejected(mean: float) -> bool:
            p = permute_signs(totals - mean * sizes, seed=0, resamples=resamples)
            return p is not None and p < tail

        bound = find_boundary(is_rejected, 0.0, found.difference, steps=_FLIPPED_STEPS)
        bound = bound or found.difference / 2**_FLIPPED_STEPS  # resamples may be split at 0
        low, high = (bound, high) if found.difference > 0 else (low, bound)
    if reach is not None:
        low, high = max(-reach, low), min(reach, high)
    return replace(
        found,
        low=low,
        high=high,
        p_value=p_value,
        test="sign flips per cluster",
        interval="t (CR2)",
    )


def _compare_fixed_tasks(
    found: Callable[..., Comparison],
    differences: Floats,
    confidence: float,
    reach: float | None,
    step: float | None,
    repeats: Repeats | None,
) -> Comparison:
    """Return the comparison over these very tasks, or without bounds where runs are unknown."""
    named = partial(found, test="t over runs", interval="t over runs")
    bounds = None
    if repeats is not None:
        bounds = bound_over_runs(
            differences,
            confidence=confidence,
            reach=reach,
            step=(reach or 0.0) if step is None else step,
            repeats=repeats,
        )
    if bounds is None:
        return named(stderr=None, reason=RUN_ONCE)
    if not bounds.stderr:
        return named(stderr=None, reason=NOTHING_VARIES)
    return named(low=bounds.low, high=bounds.high, p_value=bounds.p_value, stderr=bounds.stderr)


def estimate_mean(
    values: Floats, clusters: Labels | None = None
) -> tuple[float | None, float | None, float]:
    """Return mean, standard error and degrees of freedom; the error is None for one cluster.

    With clusters the error is CR2, with Bell and McCaffrey's degrees: see `statistics.clusters`.
    Without clusters each value is its own.
    """
    if not values.size:
        return None, None, 0
    mean = float(values.mean())
    squares, counted = Clusters.of_influences(values - mean, clusters)
    if counted.too_few:
        return mean, None, 0
    return mean, float(np.sqrt(counted.inflation * squares)) / values.size, counted.degrees


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """How long the tail of a mean's error is on one side: its skewness, and what tells of it."""

    skewness: float = 0.0
    worth: float = 0.0  # so many equal clusters

    @classmethod
    def of(cls, values: Floats, clusters: Labels | None = None) -> Tail:
        """Return that of a mean of values without an end."""
        off = values - values.mean()
        alone = clusters is None
        worth = float(off.size) if alone else Clusters.of_influences(off, clusters)[1].worth
        return cls(skewness=measure_skewness(off, clusters), worth=worth)


_EVEN = Tail()


def student(
    difference: float,
    stderr: float | None,
    freedom: float,
    *,
    largest: float,
    confidence: float,
    tail: Tail = _EVEN,
) -> tuple[float | None, float | None, float | None, str | None]:
    """Return Student's (1908) interval, the two-sided p of no difference, and why they are missing.

    With a long tail they reach further on its side (`skewed_reach`). An error that is nothing
    beside the `largest` value is rounding: then nothing varied.
    """
    if stderr is None:
        return None, None, None, "a single value or cluster does not show how much others vary"
    if stderr <= ROUNDING * largest:
        return None, None, None, NOTHING_VARIES
    t = special.stdtrit(freedom, (1 + confidence) / 2)
    statistic = difference / stderr
    p_value = 2 * special.stdtr(freedom, -abs(statistic))
    below, above = t, t
    if (skewed := skewed_reach(tail.skewness, tail.worth, t)) is not None:
        below, above = max(below, skewed[0]), max(above, skewed[1])
        transformed = abs(transform_skewed(statistic, tail.skewness))
        p_value = max(p_value, 2 * special.stdtr(freedom, -transformed))
    return difference - below * stderr, difference + above * stderr, p_value, None


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return the p-values adjusted for multiple tests: Holm (1979), step down; a null stays one.

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


def require_binary(*samples: Floats) -> None:
    """Refuse values other than 0 and 1."""
    if any(((sample != 0) & (sample != 1)).any() for sample in samples):
        raise ValueError("binary values are 0 or 1; averages of several runs are not binary")


_ROUNDING = 1e-9  # two values that differ by less are shown alike
_DECIMALS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueScale:
    """What a metric's values can be: right or wrong, how far apart, and which way is better."""

    yes_or_no: bool
    reach: float | None  # the largest difference; None where it has no bound
    step: float | None  # how far one run can move a value
    higher_is_better: bool | None


@dataclass(frozen=True, kw_only=True)
class PairedTasks:
    """A metric's value of each task on both sides, and how many runs each is the mean of."""

    base: Floats
    candidate: Floats
    base_runs: Floats
    candidate_runs: Floats
    squares: Floats | None  # of the runs around their means; None where a task has one value

    @property
    def repeats(self) -> Repeats | None:
        """Return the runs behind the values, where the values are means of runs."""
        if self.squares is None:
            return None
        return Repeats(base=self.base_runs, candidate=self.candidate_runs, squares=self.squares)

    @property
    def by_task(self) -> tuple[float, float]:
        """Return the value of each side when all tasks count the same."""
        return float(self.base.mean()), float(self.candidate.mean())

    @property
    def by_row(self) -> tuple[float, float] | None:
        """Return the value of each side when all rows do; None where a task has one value."""
        if self.squares is None:
            return None
        return (
            float(np.average(self.base, weights=self.base_runs)),
            float(np.average(self.candidate, weights=self.candidate_runs)),
        )

    @property
    def weights_matter(self) -> bool:
        """Say whether a side has another value when rows count the same."""
        by_row = self.by_row
        return by_row is not None and not np.allclose(
            self.by_task, by_row, rtol=_ROUNDING, atol=_ROUNDING
        )

    def weigh_rows(self) -> tuple[Floats, Floats, float]:
        """Return values whose means are those over rows, and how many tasks they are worth.

        A task moves such a mean by its share of the rows times how far it lies from it, and that
        is how its value here lies from the mean. The worth is that of Kish (1965): (Σw)² / Σw².
        """
        sides = []
        for values, runs in ((self.base, self.base_runs), (self.candidate, self.candidate_runs)):
            mean = np.average(values, weights=runs)
            sides.append(mean + runs / runs.mean() * (values - mean))
        weights = self.base_runs / self.base_runs.mean()
        weights = weights + self.candidate_runs / self.candidate_runs.mean()
        worth = float(weights.sum() ** 2 / np.square(weights).sum())
        return sides[0], sides[1], worth


def compare_tasks(
    tasks: PairedTasks,
    scale: ValueScale,
    *,
    weight: Literal["task", "row"],
    confidence: float,
    seed: int,
    resamples: int,
    fixed: bool = False,
    clusters: Labels | None = None,
    by_sides: bool = False,
    guarantee: bool = False,
) -> Comparison:
    """Return the comparison of two sides over the tasks of both, weighed by task or by row.

    `guarantee`: with an interval that holds for any shape of the differences.

    `by_sides`: bounds of shares allow for what each side has not seen (`_bound_by_sides`), as is
    due where they decide on a margin other than 0.
    """
    by_row = weight == "row" and tasks.weights_matter
    before, after, worth = tasks.weigh_rows() if by_row else (tasks.base, tasks.candidate, None)
    zeros_and_ones = all(bool(np.isin(each, (0.0, 1.0)).all()) for each in (before, after))
    found = compare_paired(
        before,
        after,
        binary=scale.yes_or_no and zeros_and_ones and not by_row,
        higher_is_better=scale.higher_is_better,
        confidence=confidence,
        seed=seed,
        resamples=resamples,
        clusters=clusters,
        reach=scale.reach,
        step=scale.step,
        repeats=None if by_row and not fixed else tasks.repeats,
        fixed=fixed,
        freedom=None if worth is None else max(1.0, worth - 1),
    )
    if guarantee:
        return _guarantee(found, tasks, scale, confidence, clusters, by_row=by_row)
    if by_sides and scale.yes_or_no and clusters is None and not fixed and not by_row:
        found = _bound_by_sides(found, tasks, confidence)
    if not by_row:
        return found
    change = np.sign(np.round(tasks.candidate - tasks.base, _DECIMALS))
    better = -1 if scale.higher_is_better is False else 1
    wins, losses = int((change == better).sum()), int((change == -better).sum())
    return replace(found, wins=wins, losses=losses, ties=change.size - wins - losses)


NO_GUARANTEE = "no interval is guaranteed for values without an end"
BY_ROW = "the guarantee is for the mean over tasks: --weight task"


def _guarantee(
    found: Comparison,
    tasks: PairedTasks,
    scale: ValueScale,
    confidence: float,
    clusters: Labels | None,
    *,
    by_row: bool,
) -> Comparison:
    """Return the comparison with an interval and a p-value by bets; null where there are none."""
    if found.difference is None:
        return found
    differences = average_clusters(tasks.candidate - tasks.base, clusters)
    reason = BY_ROW if by_row else NO_GUARANTEE if scale.reach is None else None
    reason = UNEQUAL if differences is None else reason
    if reason is not None or differences is None or scale.reach is None:
        return replace(found, low=None, high=None, p_value=None, test=BETS, reason=reason)
    ends = -scale.reach, scale.reach
    around = guarantee_mean(differences, ends=ends, confidence=confidence)
    return replace(
        found,
        low=min(found.difference, around.low),
        high=max(found.difference, around.high),
        p_value=guarantee_p(differences, ends=ends, mark=0.0),
        test=BETS,
        interval=BETS,
        reason=None,
    )


def _bound_by_sides(found: Comparison, tasks: PairedTasks, confidence: float) -> Comparison:
    """Return the comparison of shares with bounds that allow for what each side has not seen.

    Where tasks have other numbers of runs on one side, the differences are skewed: a side that ran
    once is right or wrong, and near 1 its few failures tell most of the spread. So each side's own
    interval is counted too (MOVER, Newcombe 1998, Stat. Med. 17, 2635, method 10), with the
    correlation of the tasks' values.
    """
    repeats = tasks.repeats
    if repeats is None or not repeats.unequal or found.low is None or found.high is None:
        return found
    (before, low_before, high_before), (after, low_after, high_after) = (
        _bound_side(values, confidence) for values in (tasks.base, tasks.candidate)
    )
    alike = _correlate(tasks.base, tasks.candidate)

    def reach(one: float, other: float) -> float:
        return float(np.sqrt(max(0.0, one * one + other * other - 2 * alike * one * other)))

    difference = after - before
    below = reach(after - low_after, high_before - before)
    above = reach(high_after - after, before - low_before)
    towards = below if difference > 0 else above
    p_value = found.p_value or 0.0
    if towards > 0:
        z = special.ndtri((1 + confidence) / 2)
        p_value = max(p_value, 2 * special.ndtr(-z * abs(difference) / towards))
    return replace(
        found,
        low=max(-1.0, min(found.low, difference - below)),
        high=min(1.0, max(found.high, difference + above)),
        p_value=p_value,
    )


def _bound_side(values: Floats, confidence: float) -> tuple[float, float, float]:
    """Return the mean of tasks' shares, and the bounds of Wilson's interval for shares in part."""
    mean = float(values.mean())
    spread = float(np.square(values - mean).sum()) / values.size**2
    around = partial_wilson(mean, values.size, spread, Clusters.of(values.size), confidence)
    if around.low is None or around.high is None:
        return mean, 0.0, 1.0
    return mean, min(mean, around.low), max(mean, around.high)


def _correlate(first: Floats, second: Floats) -> float:
    """Return the correlation of two columns, from 0 on; 0 where either does not vary."""
    apart = [each - each.mean() for each in (first, second)]
    size = float(np.sqrt((apart[0] @ apart[0]) * (apart[1] @ apart[1])))
    return max(0.0, float(apart[0] @ apart[1]) / size) if size > 0 else 0.0
