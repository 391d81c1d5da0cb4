"""Two systems on the same tasks: their difference, how sure it is, and who wins how often.

>>> base, candidate = [0, 0, 1, 1, 0, 1, 0, 0], [1, 1, 1, 1, 1, 0, 1, 1]
>>> found = compare_paired(base, candidate, binary=True, higher_is_better=True)
>>> found.difference, found.wins, found.losses, round(found.p_value, 5)
(0.5, 5, 1, 0.125)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from calipers.statistics import special
from calipers.statistics.arrays import Floats, Labels, as_finite, sum_clusters
from calipers.statistics.paired_means import Repeats, bound_over_runs, bound_over_tasks
from calipers.statistics.paired_shares import share_difference
from calipers.statistics.sign_flips import EXACT, permute_signs
from calipers.support.late import np
from calipers.support.quick_dataclasses import dataclass

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_ROUNDING = 1e-12  # 0.1 + 0.2 against 0.3 is a tie

NOTHING_VARIES = "nothing varies, so the role of chance is unknown"
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
    Cohen's dz, which allows for tasks it has not seen (`paired_means`); beside it the p-value of
    flipped signs, which decides where few tasks differ. With `clusters` (tasks of one repository,
    say) the t test is the cluster-robust one for either kind, and signs flip per cluster.

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
    exact = binary and groups is None and not fixed
    differences = second - first
    if exact:
        require_binary(first, second)
    else:
        size = np.maximum(np.abs(first), np.abs(second))
        differences = np.where(np.abs(differences) > _ROUNDING * size, differences, 0.0)
    higher, lower = int((differences > 0).sum()), int((differences < 0).sum())
    wins, losses = (lower, higher) if higher_is_better is False else (higher, lower)
    n = differences.size
    mean, stderr, degrees = estimate_mean(differences, groups)
    found = partial(
        Comparison,
        difference=mean,
        stderr=stderr,
        test="mid-p McNemar" if exact else "paired t" if groups is None else "clustered paired t",
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
        effect=mean / deviation if deviation > _ROUNDING * largest else None,
        permutation_p=permute_signs(flips, seed=seed, resamples=resamples),
    )
    if fixed:
        return _compare_fixed_tasks(found, differences, confidence, reach, step, repeats)
    if groups is not None or reach is None or n <= 1:
        freedom = degrees if freedom is None else freedom
        low_t, high_t, p_t, reason = student(
            mean, stderr, freedom, largest=largest, confidence=confidence
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
) -> tuple[float | None, float | None, int]:
    """Return mean, standard error and degrees of freedom; the error is None for one cluster.

    √(C/(C−1) · Σ_c(Σ_i(vᵢ−v̄))²) / n, as in Miller (2024), arXiv 2411.00640, with the factor for
    few clusters of Cameron & Miller (2015). Without clusters each value is its own.
    """
    if not values.size:
        return None, None, 0
    mean = values.mean()
    totals = sum_clusters(values - mean, clusters)
    freedom = totals.size - 1
    if not freedom:
        return float(mean), None, 0
    variance = totals.size / freedom * np.square(totals).sum()
    return float(mean), float(np.sqrt(variance) / values.size), freedom


def student(
    difference: float, stderr: float | None, freedom: float, *, largest: float, confidence: float
) -> tuple[float | None, float | None, float | None, str | None]:
    """Return Student's (1908) interval, the two-sided p of no difference, and why they are missing.

    An error that is nothing beside the `largest` value is rounding: then nothing varied.
    """
    if stderr is None:
        return None, None, None, "a single value or cluster does not show how much others vary"
    if stderr <= _ROUNDING * largest:
        return None, None, None, NOTHING_VARIES
    reach = special.stdtrit(freedom, (1 + confidence) / 2) * stderr
    p_value = 2 * special.stdtr(freedom, -abs(difference) / stderr)
    return difference - reach, difference + reach, p_value, None


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
