"""Intervals of entropy and calibration in plain Python, by numerical derivatives."""

from __future__ import annotations

import cmath
import math
from collections import Counter, defaultdict
from collections.abc import Callable

from scipy import optimize, stats

from tests.conformance.interval_errors import (
    NOTHING,
    Asked,
    Bounds,
    Row,
    UncertainError,
    _clusters,
    _degrees,
    _design_effect,
    _kish,
    _shares,
    _slack,
    _student,
    _variance,
)
from tests.conformance.interval_means import _wilson
from tests.conformance.reference import (
    Record,
    _correct,
    _field,
)


def _derivatives(value: Callable[[list[complex]], complex], n: int) -> list[float]:
    """How the value changes with the weight of each row, times n: by the complex step.

    Squire & Trapp (1998): Im f(x + ih) / h, without the cancellation of a difference.
    """
    step = 1e-30
    found = []
    for row in range(n):
        weights: list[complex] = [1.0] * n
        weights[row] += step * 1j
        found.append(n * value(weights).imag / step)
    return found


def _entropy(rows: list[Row], asked: Asked, *, normalized: bool) -> Bounds:
    n, clusters = len(rows), _clusters(rows)
    if clusters < 2:
        return NOTHING

    def entropy(weights: list[complex]) -> complex:
        total = sum(weights)
        shares: dict[str, complex] = defaultdict(complex)
        for weight, (answer, _) in zip(weights, rows, strict=True):
            shares[answer] += weight / total
        return -sum((p * cmath.log(p) for p in shares.values()), 0j)

    value = entropy([1.0] * n).real
    effects = _derivatives(entropy, n)
    counts = Counter(answer for answer, _ in rows)
    size = n / _design_effect(effects, rows, unlike=n - max(counts.values()))
    stderr, t = math.sqrt(_variance(effects, rows)), _student(effects, rows, asked)
    distinct = len(counts)
    middle = value + (distinct - 1) / (2 * size)
    unseen = max(0.0, math.log(size + 1) - value) / size
    low = min(value, middle - t * stderr - t**2 / (2 * size))
    high = max(value, middle + t * math.sqrt(stderr**2 + unseen**2))
    unit = math.log(max(2, distinct)) if normalized else 1.0
    return Bounds(
        low / unit,
        high / unit if size + 1e-9 >= 5 * distinct else None,
        stderr / unit,
        _slack([1 + math.log(n)] * n),
    )


def _forecast(row: Record, asked: Asked) -> tuple[float, bool] | None:
    prob, correct = _field(row, "prob_correct"), _correct(row, asked.options)
    return None if prob is None or correct is None else (prob, correct)


def _ece(rows: list[Row], asked: Asked) -> Bounds:
    n, clusters = len(rows), _clusters(rows)
    if clusters < 2:
        return NOTHING

    bins = asked.options.bins
    bin_of = [next(k for k in range(1, bins + 1) if prob <= k / bins) for (prob, _), _ in rows]

    def calibration_error(weights: list[complex]) -> complex:
        gaps: dict[int, complex] = defaultdict(complex)
        for weight, number, ((prob, correct), _) in zip(weights, bin_of, rows, strict=True):
            gaps[number] += weight * (prob - correct)
        if any(abs(gap.real) < 1e-9 for gap in gaps.values()):
            raise UncertainError
        return sum(gap if gap.real > 0 else -gap for gap in gaps.values()) / sum(weights)

    value = calibration_error([1.0] * n).real
    effects = _derivatives(calibration_error, n)
    stderr = math.sqrt(_variance(effects, rows))
    design = _design_effect(effects, rows, unlike=math.inf)
    # A bin whose errors are 0 on average strays by the root of their squares, more in clusters;
    # its absolute value is then √(2/π) of that on average. Bins with a clear gap have none.
    errors: dict[int, list[float]] = defaultdict(list)
    for number, ((prob, correct), _) in zip(bin_of, rows, strict=True):
        errors[number].append(prob - correct)
    inflated = next((step for step in (1, 2, 4, 8, 16, 32, 64) if design <= step + 1e-9), 64)
    noise = 0.0
    for each in errors.values():
        strays = math.sqrt(math.fsum(error**2 for error in each))
        if abs(math.fsum(each)) < 1.96 * math.sqrt(inflated) * strays:
            noise += math.sqrt(2 / math.pi) * math.sqrt(design) * strays / n
    # One more cluster in each bin, as large as they are worth, right where the others are wrong;
    # the less, the more of its rows already are.
    size, unseen = n / _kish(_shares(rows)), 0.0
    for number, each in errors.items():
        right = sum(rows[at][0][1] for at, found in enumerate(bin_of) if found == number)
        unlike = min(right, len(each) - right)
        unseen += size**2 * len(each) / (len(each) + 1) / (1 + unlike / inflated)
    reach = _student(effects, rows, asked) * math.sqrt(stderr**2 + unseen / n**2)
    return Bounds(value - reach - noise, value + reach, stderr, _slack([1.0] * n))


def _auroc(rows: list[Row], asked: Asked) -> Bounds:
    n = len(rows)
    if _clusters(rows) < 2:
        return NOTHING
    numbered = [(number, prob, right) for number, ((prob, right), _) in enumerate(rows)]
    pairs = [
        (one, other, 1.0 if above > below else 0.5 if above == below else 0.0)
        for one, above, is_right in numbered
        for other, below, is_also_right in numbered
        if is_right and not is_also_right
    ]

    def area(weights: list[complex]) -> complex:
        won = sum(weights[one] * weights[other] * win for one, other, win in pairs)
        return won / sum(weights[one] * weights[other] for one, other, _ in pairs)

    value = area([1.0] * n).real
    effects = _derivatives(area, n)
    stderr = math.sqrt(_variance(effects, rows))
    slack = _slack([float(n)] * n)
    if value in (0, 1):
        rarer = min(sum(right == kind for _, _, right in numbered) for kind in (True, False))
        size = max(1, rarer * _clusters(rows) // n)
        alike: list[Row] = [(value, number) for number in range(size)]
        of_rows = _wilson(alike, asked)
        return Bounds(of_rows.low, of_rows.high, stderr, slack)
    worth = [
        sum(right == kind for _, _, right in numbered) * _kish(_shares(rows)) / n
        for kind in (True, False)
    ]
    if min(worth) < 6:
        if abs(min(worth) - 6) < 1e-9:
            raise UncertainError
        t = float(stats.t.ppf((1 + asked.confidence) / 2, _degrees(effects, rows)))
        return Bounds(*_of_few(value, worth, t), stderr, slack)
    # Each kind's rows by themselves, with half a row more that lies anywhere.
    independent = math.fsum(effect**2 for effect in effects) / (n * (n - 1))
    design = max(1.0, stderr**2 / independent) if independent > 1e-18 else 1.0
    kinds, freedom = [], []
    for kind in (True, False):
        own = [effects[number] / n for number, _, right in numbered if right == kind]
        others = max(1, len(own) - 1)
        unseen = value * (1 - value) / 2 * (n / _kish(_shares(rows)) / len(own)) ** 2
        squares = math.fsum(effect**2 for effect in own)
        kinds.append(squares * len(own) / others * design + unseen)
        freedom.append(kinds[-1] ** 2 / others)
    degrees = max(1.0, min(_degrees(effects, rows), sum(kinds) ** 2 / sum(freedom)))
    t = float(stats.t.ppf((1 + asked.confidence) / 2, degrees))
    # On the scale of the log odds, whose derivative is 1 / (p (1 − p)).
    reach = t * math.sqrt(sum(kinds)) / (value * (1 - value))
    low, high = (1 / (1 + (1 - value) / value * math.exp(-sign * reach)) for sign in (-1, 1))
    return Bounds(low, high, stderr, slack)


def _of_few(area: float, worth: list[float], t: float) -> tuple[float, float]:
    """Where the area lies t of Hanley and McNeil's standard errors away, both sizes the larger."""

    def apart(other: float) -> float:
        q1, q2 = other / (2 - other), 2 * other**2 / (1 + other)
        more = max(0.0, max(worth) - 1) * (q1 + q2 - 2 * other**2)
        return (area - other) ** 2 - t**2 * (other * (1 - other) + more) / math.prod(worth)

    return optimize.brentq(apart, 0, area, xtol=1e-14), optimize.brentq(apart, area, 1, xtol=1e-14)
