"""Judged means without the judge's error, by records that people rated as well.

Two ways, each with an interval that is wider by what the correction itself is unsure of:

- scores: prediction-powered inference, tuned for power (Angelopoulos et al. 2023, Science 382, 669;
  PPI++, arXiv 2311.01453). The people's mean on their records, moved by as much of the judge's
  difference between all records and these as the judge can be trusted for.
- pass or fail: Rogan & Gladen's estimate (1978, Am J Epidemiol 107, 71) from the judge's
  sensitivity and specificity, with Lang & Reiczigel's interval (2014, Prev Vet Med 113, 13).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

from calipers.statistics import special
from calipers.statistics.clusters import Floats
from calipers.statistics.estimates import Corrected, Sampling, spread
from calipers.statistics.intervals import count_worth, effective_size, normal_quantile
from calipers.support.lazy_numpy import np

_FEWEST = 3  # clusters that people rated: one is spent on the mean, one on the tuning
_NOTHING = 1e-12  # an error that is only rounding
_UNLIKE = 3  # records on which the judge knows nothing, for one at either end of the scale
SAME_MIX = "the rated records are a random part of records like these: the mix has not shifted"
SAME_ERRORS = "the judge errs on these records as often as on the rated ones, in either direction"
_NO_BETTER = "the judge passes what people pass no more often than what they fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """A judge's and people's ratings of the same records, as far as a correction needs them.

    A spread is the sum over clusters of the product of two means' influences: see `intervals`.
    Clusters of records with weights are as many as they are worth where each stands for most.
    """

    n: int
    clusters: int
    judge: float  # means
    people: float
    judge_spread: float
    both_spread: float
    people_spread: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """How a judge's verdicts go with people's; sizes count dependent records as they are worth.

    Counts are whole, but for records with weights, whose sum is that of the records.
    """

    passed: float  # by people
    both_passed: float
    failed: float
    both_failed: float
    passed_size: float
    failed_size: float


def compute_moments(judge: Floats, people: Floats, sampling: Sampling) -> Moments:
    """Return the moments of two columns of ratings."""
    n = len(judge)
    means = [float(np.average(column, weights=sampling.weights)) for column in (judge, people)]
    first, second = (
        sampling.shares * (column - mean)
        for column, mean in zip((judge, people), means, strict=True)
    )
    own, counted = spread(first, sampling)
    theirs, _ = spread(second, sampling)
    both, _ = spread(first + second, sampling)
    return Moments(
        n=n,
        clusters=max(1, int(counted.count * sampling.least_units / n + _NOTHING)),
        judge=means[0],
        people=means[1],
        judge_spread=own,
        both_spread=(both - own - theirs) / 2,
        people_spread=theirs,
    )


def count_verdicts(judge: Floats, people: Floats, sampling: Sampling) -> Verdicts:
    """Return the counts of two columns of verdicts, 1 for passed."""
    passed = people > 1 / 2
    of_passed, both_passed, passed_size = _count_agreed(judge > 1 / 2, sampling, passed)
    of_failed, both_failed, failed_size = _count_agreed(judge <= 1 / 2, sampling, ~passed)
    return Verdicts(
        passed=of_passed,
        both_passed=both_passed,
        failed=of_failed,
        both_failed=both_failed,
        passed_size=passed_size,
        failed_size=failed_size,
    )


def _count_agreed(
    agreed: np.ndarray, whole: Sampling, of: np.ndarray
) -> tuple[float, float, float]:
    """Return how many there are, how many of them agree, and how many rows they are worth."""
    agreed, sampling = agreed[of], whole.keep(of)
    n, most = len(agreed), sampling.least_units
    if not n:
        return 0, 0, 0.0
    share = float(np.average(agreed, weights=sampling.weights))
    squares, counted = spread((agreed - share) * sampling.shares, sampling)
    if sampling.strata is None:
        return n, int(agreed.sum()), count_worth(share, n, squares, counted)
    mass = most * len(whole.clusters) / whole.least_units
    return mass, share * mass, effective_size(share, n, squares, counted, most=most)


def correct_with_ratings(
    mean: float,
    stderr: float,
    clusters: int,
    rated: Moments,
    *,
    confidence: float,
    n: int | None = None,
    overlap: int = 0,
    evenness: float = 1.0,
    within: tuple[float, float] | None = None,
) -> Corrected:
    """Return a judge's mean over n records, corrected towards the people's ratings.

    Of the rated records, `overlap` are among the n: the judge's two means then move together, and
    the variance has that covariance in it; where the rated have weights, they are worth a part of
    their number, `evenness` (Kish). `within` are the ends of the scale: people and judge may
    differ on records that nobody has rated, so the interval counts some more as rated: see
    `with_unseen`. Their part fades with the number of the rated.

    >>> told = Moments(n=100, clusters=100, judge=0.7, people=0.6, judge_spread=4e-4,
    ...                both_spread=4e-4, people_spread=5e-4)
    >>> found = correct_with_ratings(0.8, 0.005, 2000, told, confidence=0.95)
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (0.694, 0.672, 0.716)
    """
    if rated.clusters < _FEWEST:
        return Corrected(value=None, n=rated.n, reason=f"people rated {rated.n} records only")
    share = 0.0 if not overlap else min(1.0, evenness * overlap / (n or overlap))
    value, _, _ = _correct_mean(mean, stderr, rated, share)
    told = rated if within is None else with_unseen(rated, within, confidence)
    middle, own, left = _correct_mean(mean, stderr, told, share)
    tuned = rated.clusters / (rated.clusters - 2)  # the power is estimated too
    parts = ((own, clusters - 1), (tuned * max(0.0, left), rated.clusters - 2))
    variance = sum(part for part, _ in parts)
    if variance <= _NOTHING**2:
        return Corrected(value=value, n=rated.n, assumes=SAME_MIX)
    freedom = variance**2 / sum(part**2 / max(1, free) for part, free in parts)
    reach = special.stdtrit(freedom, (1 + confidence) / 2) * sqrt(variance)
    return Corrected(
        value=value,
        low=min(value, middle - reach),
        high=max(value, middle + reach),
        stderr=sqrt(variance),
        interval="prediction-powered",
        n=rated.n,
        assumes=SAME_MIX,
        overlap=overlap,
    )


def _correct_mean(
    mean: float, stderr: float, rated: Moments, share: float
) -> tuple[float, float, float]:
    """Return the estimate and the parts of its variance: the judge's on all records, the rest.

    `share` of the records are rated ones. With the judge's mean over all as the control variate of
    people's, the best power is the one that leaves least variance.
    """
    few = rated.clusters / (rated.clusters - 1)
    own = stderr**2
    known = own + few * rated.judge_spread * (1 - 2 * share)
    gained = few * rated.both_spread * (1 - share)
    power = min(1.0, max(0.0, gained / known)) if known > _NOTHING**2 else 0.0
    left = rated.people_spread - 2 * power * rated.both_spread + power**2 * rated.judge_spread
    together = 2 * power * share * (rated.both_spread - power * rated.judge_spread)
    return rated.people + power * (mean - rated.judge), power**2 * own, left + together


def with_unseen(rated: Moments, within: tuple[float, float], confidence: float) -> Moments:
    """Return the moments as if some more records, or clusters of their size, had been rated.

    One at either end of the scale, judge and people alike, since ratings may all be the same by
    luck; and three on which the judge knows nothing, its scores and people's being spread as they
    are over all, since its errors may not have been seen. That is at 95 %: z²/4 each.
    """
    per_cluster = rated.n / rated.clusters
    each = normal_quantile(confidence) ** 2 / 4 * per_cluster
    known = rated.n + len(within) * each
    judge, people = (
        (rated.n * mean + each * sum(within)) / known for mean in (rated.judge, rated.people)
    )
    of_judge, of_people = (rated.judge, judge), (rated.people, people)

    def spread_of(seen: float, first: tuple[float, float], second: tuple[float, float]) -> float:
        """Return the spread of two columns, of old means and new ones, with the ends among them."""
        moved = rated.n * (first[0] - first[1]) * (second[0] - second[1])
        at_ends = each * sum((end - first[1]) * (end - second[1]) for end in within)
        return seen * rated.n**2 + per_cluster * (moved + at_ends)

    unlike = _UNLIKE * each
    total, more = known + unlike, 1 + unlike / known
    return Moments(
        n=rated.n,
        clusters=rated.clusters,
        judge=judge,
        people=people,
        judge_spread=more * spread_of(rated.judge_spread, of_judge, of_judge) / total**2,
        both_spread=spread_of(rated.both_spread, of_judge, of_people) / total**2,
        people_spread=more * spread_of(rated.people_spread, of_people, of_people) / total**2,
    )


def correct_share(
    share: float,
    size: float,
    rated: Verdicts,
    *,
    confidence: float,
    n: int | None = None,
    overlap: int = 0,
    evenness: float = 1.0,
) -> Corrected:
    """Return the share that people would pass, from the share of records that a judge passes.

    Where `overlap` of the n records are the rated ones, errors are not those of other records: then
    it is the prediction-powered mean of the verdicts.

    >>> told = Verdicts(passed=100, both_passed=90, failed=100, both_failed=80,
    ...                 passed_size=100, failed_size=100)
    >>> found = correct_share(0.6, 1000, told, confidence=0.95)
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (0.571, 0.49, 0.655)
    """
    if overlap:
        error = sqrt(max(share * (1 - share), _NOTHING) / size)
        found = correct_with_ratings(
            share,
            error,
            max(2, round(size)),
            convert_verdicts(rated),
            confidence=confidence,
            n=n,
            overlap=overlap,
            evenness=evenness,
            within=(0.0, 1.0),
        )
        inside, low, high = (
            None if each is None else min(1.0, max(0.0, each))
            for each in (found.value, found.low, found.high)
        )
        return replace(found, value=inside, low=low, high=high)
    n = round(rated.passed + rated.failed)
    if not (rated.passed_size and rated.failed_size):
        kind = "passed" if not rated.passed_size else "failed"
        why = f"people {kind} none of the records that they rated, or all of one task"
        return Corrected(value=None, n=n, reason=why)
    sensitivity, specificity = rated.both_passed / rated.passed, rated.both_failed / rated.failed
    informed = sensitivity + specificity - 1
    z = normal_quantile(confidence)
    share_, size_ = (share * size + z * z / 2) / (size + z * z), size + z * z
    of_passed, of_failed = rated.passed_size + 2, rated.failed_size + 2
    sens = (sensitivity * rated.passed_size + 1) / of_passed
    spec = (specificity * rated.failed_size + 1) / of_failed
    if informed <= 0 or sens + spec <= 1:
        return Corrected(value=None, n=n, reason=_NO_BETTER)
    middle = (share_ + spec - 1) / (sens + spec - 1)
    of_sens, of_spec = sens * (1 - sens) / of_passed, spec * (1 - spec) / of_failed
    shift = 2 * z * z * (middle * of_sens - (1 - middle) * of_spec)
    variance = (
        share_ * (1 - share_) / size_ + middle**2 * of_sens + (1 - middle) ** 2 * of_spec
    ) / (sens + spec - 1) ** 2
    reach = z * sqrt(variance)
    value = min(1.0, max(0.0, (share + specificity - 1) / informed))
    return Corrected(
        value=value,
        low=min(value, max(0.0, middle + shift - reach)),
        high=max(value, min(1.0, middle + shift + reach)),
        stderr=sqrt(variance),
        interval="Rogan–Gladen, Lang–Reiczigel",
        n=n,
        assumes=SAME_ERRORS,
    )


def convert_verdicts(rated: Verdicts) -> Moments:
    """Return the moments of verdicts as numbers, 1 for passed, in effective numbers of rows."""
    n = round(rated.passed + rated.failed)
    judge = (rated.both_passed + rated.failed - rated.both_failed) / n
    people = rated.passed / n
    worth = max(1.0, n / max(1.0, rated.passed_size + rated.failed_size)) / n
    return Moments(
        n=n,
        clusters=max(1, min(n, round(rated.passed_size + rated.failed_size))),
        judge=judge,
        people=people,
        judge_spread=judge * (1 - judge) * worth,
        both_spread=(rated.both_passed / n - judge * people) * worth,
        people_spread=people * (1 - people) * worth,
    )
