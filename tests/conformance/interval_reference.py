"""The interval of every reasoning metric in plain Python: slow, from the formulas alone.

What a cluster does to a value is a derivative, taken numerically; Wilson's bounds are found by
bisection; binomial tails are summed in fractions. Student's t comes from scipy.

>>> rows = [{"latency_ms": ms} for ms in (1.0, 2.0, 3.0)]
>>> [found] = possible_intervals("latency_mean_ms", rows, Asked())
>>> round(found.stderr, 6), round(found.low, 4), round(found.high, 4)
(0.57735, 0.5776, 6.9255)
"""

from __future__ import annotations

import cmath
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import product
from statistics import NormalDist
from typing import Any

from scipy import optimize, stats

from tests.conformance.reference import (
    REFERENCES,
    Options,
    Record,
    _answer,
    _called,
    _correct,
    _field,
    _text,
)

BY_WILSON = {"accuracy", "usr", "error_rate", "self_correction_rate"}
BOUNDED = {"brier", "math_usr", "determinism_index", "answer_entropy"}
OVER_TASKS = {"answer_entropy", "determinism_index", "mode_accuracy", "stability"}
METHODS = {
    **dict.fromkeys(REFERENCES, "log t"),
    **dict.fromkeys([*BY_WILSON, "mode_accuracy", "stability"], "wilson"),
    **dict.fromkeys(BOUNDED, "logit t"),
    **dict.fromkeys(["sce", "sce_normalized", "ece", "auroc"], "delta"),
    **{f"latency_p{percent}_ms": "order statistics" for percent in (50, 95, 99)},
}

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


def possible_intervals(name: str, records: list[Record], asked: Asked) -> Iterator[Bounds]:
    """The interval of a metric that has a value, before it is cut to the metric's range.

    More than one where the runs of a task lie in several clusters: the task may be put in any.
    """
    if name in OVER_TASKS:
        yield from _over_tasks(name, records, asked)
        return
    rows = _called(records)
    clusters = [_cluster(row, number, asked) for number, row in enumerate(rows)]
    if name in {"sce", "sce_normalized"}:
        answers = _apart(_known([_answer(row, asked.options) for row in rows], clusters))
        yield _entropy(answers, asked, normalized=name == "sce_normalized")
    elif name in {"ece", "auroc"}:
        forecasts = _apart(_known([_forecast(row, asked) for row in rows], clusters))
        yield (_ece if name == "ece" else _auroc)(forecasts, asked)
    else:
        # The mean of one row is what the row counts for.
        values = [REFERENCES[name]([row], asked.options).value for row in rows]
        yield _method(name)(_apart(_known(values, clusters)), asked)


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


def _over_tasks(name: str, records: list[Record], asked: Asked) -> Iterator[Bounds]:
    """Tasks take the place of rows; each lies in a cluster of its runs, or is one of its own."""
    tasks: dict[str, list[Record]] = defaultdict(list)
    choices: dict[str, set[Hashable]] = defaultdict(set)
    for row in records:
        if (task := _text(row, "id")) is not None:
            tasks[task].append(row)
            known = None if asked.cluster is None else _text(row, asked.cluster)
            choices[task] |= set() if known is None else {known}
    every = {task: REFERENCES[name](rows, asked.options).value for task, rows in tasks.items()}
    values = {task: value for task, value in every.items() if value is not None}
    used = list(values)
    for chosen in product(*(choices[task] or {("task", task)} for task in used)):
        # The entropy of r runs is at most ln r: a share of that.
        most = 1.0
        if name == "answer_entropy":
            runs = sum(REFERENCES[name](tasks[task], asked.options).n for task in used)
            mean = math.fsum(values[task] for task in used) / len(used)
            most = max(mean, math.log(runs / len(used)))
        rows: list[Row] = [
            (values[task] / most, cluster) for task, cluster in zip(used, chosen, strict=True)
        ]
        yield _times(most, _method(name)(rows, asked))


def _times(unit: float, found: Bounds) -> Bounds:
    low, high, stderr = (
        None if each is None else unit * each for each in (found.low, found.high, found.stderr)
    )
    return Bounds(low, high, stderr, found.slack * unit)


# --- Standard errors ---


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


# --- Means and shares ---


def _log_t(rows: list[Row], asked: Asked) -> Bounds:
    """On the scale of the logarithm; values without any spread do not tell how far others lie."""
    if _clusters(rows) < 2:
        return NOTHING
    values = [float(value) for value, _ in rows]
    mean = math.fsum(values) / len(values)
    stderr = math.sqrt(_variance([value - mean for value in values], rows))
    uneven = _clusters(rows) > 2 > _kish(_shares(rows))
    if uneven or mean == 0 or stderr <= 1e-9 * mean:
        return Bounds(None, None, stderr, _slack(values))
    if stderr < 2e-7 * mean:
        raise UncertainError
    reach = _student(rows, asked) * stderr / mean
    if reach > 50:
        raise UncertainError
    factor = math.exp(reach)
    return Bounds(mean / factor, mean * factor, stderr, _slack(values) * factor)


def _logit_t(rows: list[Row], asked: Asked) -> Bounds:
    """t on the scale of the log odds, and as much of the unseen as the values leave room for."""
    if _clusters(rows) < 2:
        return NOTHING
    values = [float(value) for value, _ in rows]
    mean = math.fsum(values) / len(values)
    stderr = math.sqrt(_variance([value - mean for value in values], rows))
    worth = _kish(_shares(rows))
    # Wilson's bound of a share of which nothing was seen: p with p² = z² p (1 − p) / worth.
    z = NormalDist().inv_cdf((1 + asked.confidence) / 2)
    unseen = 1 - 1 / (1 + z**2 / worth)
    possible = mean * (1 - mean)
    if possible > 1e-12 and worth > _clusters(rows) - 1e-6:
        # No values between the ends spread as far as those at the ends.
        squares = math.fsum(each**2 for each in _sums([value - mean for value in values], rows))
        seen = squares * _clusters(rows) / len(rows) ** 2 / possible
        if 1 - 1e-7 < seen < 1 - 1e-11:
            raise UncertainError
        if seen >= 1 - 1e-9:
            z = NormalDist().inv_cdf((1 + asked.confidence) / 2)
            bounds = _score_bounds(mean, float(_clusters(rows)), z, asked)
            return Bounds(*bounds, stderr, _slack(values))
    ends = []
    for sign, distance in ((-1, mean), (1, 1 - mean)):
        of_spread = 0.0
        if possible > 1e-12:
            log_odds = math.log(mean / (1 - mean))
            log_odds += sign * min(_student(rows, asked) * stderr / possible, 700)
            of_spread = abs(1 / (1 + math.exp(-log_odds)) - mean)
        of_unseen = 0.0
        if distance > 0:
            spread = stderr * math.sqrt(worth) / distance
            of_unseen = unseen * distance / (1 + (spread / 0.02) ** 2)
        ends.append(min(1.0, max(0.0, mean + sign * math.hypot(of_spread, of_unseen))))
    steepness = max(1.0, 0.25 / max(possible, 1e-12))
    low, high = max(0.0, ends[0]), min(1.0, ends[1])
    return Bounds(low, high, stderr, _slack(values) * min(steepness, 1e4))


def _wilson(rows: list[Row], asked: Asked) -> Bounds:
    n, clusters = len(rows), _clusters(rows)
    values = [float(value) for value, _ in rows]
    share = math.fsum(values) / n
    effects = [value - share for value in values]
    stderr = math.sqrt(_variance(effects, rows)) if clusters > 1 else None
    if clusters == n:
        z, size = NormalDist().inv_cdf((1 + asked.confidence) / 2), float(n)
    elif clusters > 1:
        z = _student(rows, asked)
        size = n / _design_effect(effects, rows, unlike=n * min(share, 1 - share))
    else:
        return NOTHING

    return Bounds(*_score_bounds(share, size, z, asked), stderr, _slack(values))


def _score_bounds(share: float, size: float, z: float, asked: Asked) -> tuple[float, float]:
    """Wilson's bounds, or those of the exact interval that misses twice as often, if further."""

    def is_inside(p: float) -> bool:
        return (share - p) ** 2 <= z**2 * p * (1 - p) / size

    low, high = _last(is_inside, share, 0.0), _last(is_inside, share, 1.0)
    tail = min(0.5, 1 - asked.confidence)
    if share > 0:
        k = max(1.0, share * size)
        low = min(low, float(stats.beta.ppf(tail, k, max(0.0, size - k) + 1)))
    if share < 1:
        k = max(1.0, (1 - share) * size)
        high = max(high, 1 - float(stats.beta.ppf(tail, k, max(0.0, size - k) + 1)))
    return low, high


def _last(holds: Callable[[float], bool], start: float, end: float) -> float:
    """How far from start towards end it holds."""
    if start == end or holds(end):
        return end
    for _ in range(200):
        middle = (start + end) / 2
        start, end = (middle, end) if holds(middle) else (start, middle)
    return start


# --- Quantiles ---


def _order_statistics(rows: list[Row], asked: Asked, *, percent: int = 95) -> Bounds:
    values = sorted(float(value) for value, _ in rows)
    n, clusters = len(rows), _clusters(rows)
    share = Fraction(percent, 100)
    position = math.ceil(share * n)
    size = n
    if clusters < n:
        if clusters < 2:
            return NOTHING
        effects = [(value <= values[position - 1]) - percent / 100 for value, _ in rows]
        # The squares of the rows are known, as their share is: what clusters add is counted.
        of_rows = n * float(share * (1 - share))
        added = math.fsum(each**2 for each in _sums(effects, rows))
        added -= math.fsum(effect**2 for effect in effects)
        shares = _shares(rows)
        variance = _inflation(shares) * max(0.0, of_rows + added) / n**2
        seen = max(1.0, variance / (of_rows / (n * (n - 1))))
        weight = 1 / (float(min(share, 1 - share)) * n * _kish(shares) / clusters + 1)
        worst = n / _kish(shares)
        size = math.floor(n / ((1 - weight) * seen + weight * max(seen, worst)) + 1e-9)
        if size < 1:
            return NOTHING
    tail = Fraction((1 - asked.confidence) / 2)
    from_below = _most(size, share, tail) * n // size
    from_above = _most(size, 1 - share, tail) * n // size
    low = values[min(from_below, position) - 1] if from_below else None
    high = values[max(n + 1 - from_above, position) - 1] if from_above else None
    if low is None or high is None:
        return Bounds(low, high, None)
    reach = NormalDist().inv_cdf((1 + asked.confidence) / 2)
    return Bounds(low, high, (high - low) / (2 * reach))


def _most(trials: int, share: Fraction, tail: Fraction) -> int:
    """The largest k such that fewer than k of so many trials have at most this probability."""
    below, k = Fraction(0), 0
    while k <= trials:
        below += math.comb(trials, k) * share**k * (1 - share) ** (trials - k)
        if below > tail:
            break
        k += 1
    return k


# --- Derivatives: entropy and calibration ---


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
    stderr, t = math.sqrt(_variance(effects, rows)), _student(rows, asked)
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
    reach = _student(rows, asked) * math.sqrt(stderr**2 + unseen / n**2)
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
    stderr = math.sqrt(_variance(_derivatives(area, n), rows))
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
        t = float(stats.t.ppf((1 + asked.confidence) / 2, _degrees(_shares(rows))))
        return Bounds(*_of_few(value, worth, t), stderr, slack)
    # Each kind's rows by themselves, with half a row more that lies anywhere.
    effects = _derivatives(area, n)
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
    degrees = max(1.0, min(_degrees(_shares(rows)), sum(kinds) ** 2 / sum(freedom)))
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


_METHODS: dict[str, Callable[[list[Row], Asked], Bounds]] = {
    "log t": _log_t,
    "logit t": _logit_t,
    "wilson": _wilson,
    "order statistics": _order_statistics,
}


def _method(name: str) -> Callable[[list[Row], Asked], Bounds]:
    if name.startswith("latency_p"):
        return partial(_order_statistics, percent=int(name[9:11]))
    return _METHODS[METHODS[name]]
