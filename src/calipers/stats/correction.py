"""Judged means without the judge's error, by records that people rated as well.

Two ways, each with an interval that is wider by what the correction itself is unsure of:

- scores: prediction-powered inference, tuned for power (Angelopoulos et al. 2023, Science 382, 669;
  PPI++, arXiv 2311.01453). The people's mean on their records, moved by as much of the judge's
  difference between all records and these as the judge can be trusted for.
- pass or fail: Rogan & Gladen's estimate (1978, Am J Epidemiol 107, 71) from the judge's
  sensitivity and specificity, with Lang & Reiczigel's interval (2014, Prev Vet Med 113, 13).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from calipers.stats.influence import Floats, Whole, spread
from calipers.stats.intervals import normal_quantile, rows_worth

_FEWEST = 3  # clusters that people rated: one is spent on the mean, one on the tuning
_NOTHING = 1e-12  # an error that is only rounding
_NO_BETTER = "the judge passes what people pass no more often than what they fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """A judge's and people's ratings of the same records, as far as a correction needs them.

    A spread is the sum over clusters of the product of two means' influences: see `intervals`.
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
    """How a judge's verdicts go with people's; sizes count dependent records as they are worth."""

    passed: int  # by people
    both_passed: int
    failed: int
    both_failed: int
    passed_size: float
    failed_size: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """A judged mean without the judge's error; a null has its reason."""

    value: float | None
    low: float | None = None
    high: float | None = None
    stderr: float | None = None
    interval: str | None = None
    n: int  # records that people rated as well
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) != (self.reason is not None):
            raise ValueError("a null needs a reason, and only a null has one")


def moments(judge: Floats, people: Floats, clusters: Whole) -> Moments:
    """What two columns of ratings come to."""
    n = len(judge)
    apart = [(column - column.mean()) / n for column in (judge, people)]
    own, counted = spread(apart[0], clusters)
    theirs, _ = spread(apart[1], clusters)
    both, _ = spread(apart[0] + apart[1], clusters)
    return Moments(
        n=n,
        clusters=counted,
        judge=float(judge.mean()),
        people=float(people.mean()),
        judge_spread=own,
        both_spread=(both - own - theirs) / 2,
        people_spread=theirs,
    )


def verdicts(judge: Floats, people: Floats, clusters: Whole) -> Verdicts:
    """What two columns of verdicts, 1 for passed, come to."""
    passed = people > 1 / 2
    both_passed, passed_size = _agreed(judge[passed] > 1 / 2, clusters[passed])
    both_failed, failed_size = _agreed(judge[~passed] <= 1 / 2, clusters[~passed])
    return Verdicts(
        passed=int(passed.sum()),
        both_passed=both_passed,
        failed=int((~passed).sum()),
        both_failed=both_failed,
        passed_size=passed_size,
        failed_size=failed_size,
    )


def _agreed(agreed: np.ndarray, clusters: Whole) -> tuple[int, float]:
    n = len(agreed)
    if not n:
        return 0, 0.0
    share = float(agreed.mean())
    squares, counted = spread((agreed - share) / n, clusters)
    return int(agreed.sum()), rows_worth(share, n, squares, counted)


def prediction_powered(
    mean: float, stderr: float, clusters: int, rated: Moments, *, confidence: float
) -> Corrected:
    """A judge's mean over records, with its error, moved to where people's would be.

    >>> told = Moments(n=100, clusters=100, judge=0.7, people=0.6, judge_spread=4e-4,
    ...                both_spread=4e-4, people_spread=5e-4)
    >>> found = prediction_powered(0.8, 0.005, 2000, told, confidence=0.95)
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (0.694, 0.672, 0.716)
    """
    from scipy.special import stdtrit  # noqa: PLC0415 (slow to load)

    if rated.clusters < _FEWEST:
        return Corrected(value=None, n=rated.n, reason=f"people rated {rated.n} records only")
    few = rated.clusters / (rated.clusters - 1)
    own = stderr**2
    known = own + few * rated.judge_spread
    power = min(1.0, max(0.0, few * rated.both_spread / known)) if known else 0.0
    value = rated.people + power * (mean - rated.judge)
    left = rated.people_spread - 2 * power * rated.both_spread + power**2 * rated.judge_spread
    tuned = rated.clusters / (rated.clusters - 2)  # the power is estimated too
    parts = ((power**2 * own, clusters - 1), (tuned * max(0.0, left), rated.clusters - 2))
    variance = sum(part for part, _ in parts)
    if variance <= _NOTHING**2:
        return Corrected(value=value, n=rated.n)
    freedom = variance**2 / sum(part**2 / max(1, free) for part, free in parts)
    reach = float(stdtrit(freedom, (1 + confidence) / 2)) * sqrt(variance)
    return Corrected(
        value=value,
        low=value - reach,
        high=value + reach,
        stderr=sqrt(variance),
        interval="prediction-powered",
        n=rated.n,
    )


def misclassified(share: float, size: float, rated: Verdicts, *, confidence: float) -> Corrected:
    """The share that people would pass, from the share of so many records that a judge passes.

    >>> told = Verdicts(passed=100, both_passed=90, failed=100, both_failed=80,
    ...                 passed_size=100, failed_size=100)
    >>> found = misclassified(0.6, 1000, told, confidence=0.95)
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (0.571, 0.49, 0.655)
    """
    n = rated.passed + rated.failed
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
    )
