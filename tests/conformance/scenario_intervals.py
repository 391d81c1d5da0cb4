"""The interval of every scenario metric in plain Python, from the formulas of docs/intervals.md.

What a row does to a value is its derivative by the row's weight, taken numerically.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence

from scipy import stats

from tests.conformance.interval_derivatives import _derivatives
from tests.conformance.interval_errors import (
    NOTHING,
    Asked,
    Bounds,
    Row,
    _apart,
    _cluster,
    _clusters,
    _inflation,
    _kish,
    _known,
    _shares,
    _slack,
    _student,
    _sums,
    _variance,
    _weight_degrees,
)
from tests.conformance.interval_means import _logit_t, _order_statistics, _score_bounds, _wilson
from tests.conformance.scenarios_reference import (
    QUALITIES,
    Options,
    Record,
    correct,
    found_and_expected,
    is_positive,
    normalized_latency,
    p95,
    passed,
    quality_kind,
    score,
    tokens,
    weight,
)
from tests.conformance.tiers_reference import called

METHODS = {
    **dict.fromkeys(
        "pass_rate weighted_pass_rate accuracy precision recall safety_rate "
        "behavior_coverage_pooled".split(),
        "wilson",
    ),
    "behavior_coverage": "logit t",
    "latency_p95_ms": "order statistics",
    "token_efficiency": "delta of logarithm",
    "final_score": "MOVER",
}


def interval(name: str, records: list[Record], asked: Asked, options: Options) -> Bounds:
    """The interval of a metric that has a value, before it is cut to the metric's range."""
    rows = called(records)
    clusters = [_cluster(row, number, asked) for number, row in enumerate(rows)]

    def known(value: Callable[[Record], object]) -> list[Row]:
        return _apart(_known([value(row) for row in rows], clusters))

    if name == "weighted_pass_rate":
        return _weighted(known(lambda row: _weighed(row, options)), asked)
    if name == "behavior_coverage":
        return _logit_t(known(score), asked)
    if name == "behavior_coverage_pooled":
        return _partial(known(found_and_expected), asked)
    if name == "token_efficiency":
        return _efficiency(known(lambda row: _spent(row, quality_kind(records))), asked)
    if name == "final_score":
        return _final(rows, clusters, asked, options)
    values: dict[str, Callable[[Record], object]] = {
        "pass_rate": lambda row: passed(row, options),
        "accuracy": correct,
        "precision": lambda row: _among(row, "predicted", "actual", options),
        "recall": lambda row: _among(row, "actual", "predicted", options),
        "safety_rate": lambda row: _safe(row, options),
        "latency_p95_ms": lambda row: row.get("latency_ms"),
    }
    method = _order_statistics if name == "latency_p95_ms" else _wilson
    return method(known(values[name]), asked)


def _weighed(row: Record, options: Options) -> tuple[float, float] | None:
    """The weight that passed, and the weight."""
    did = passed(row, options)
    return None if did is None else (did * weight(row, options), weight(row, options))


def _safe(row: Record, options: Options) -> bool | None:
    return passed(row, options) if row.get("category") == "adversarial" else None


def _among(row: Record, kind: str, other: str, options: Options) -> bool | None:
    """Whether a row that is positive in one way is so in the other."""
    if row.get(kind) is None or row.get(other) is None or not is_positive(row[kind], options):
        return None
    return is_positive(row[other], options)


def _spent(row: Record, kind: str | None) -> tuple[float, float] | None:
    """Quality and tokens."""
    quality = None if kind is None else QUALITIES[kind](row)
    used = tokens(row)
    return None if quality is None or used is None else (float(quality), used)


def _ratio(rows: Sequence[Row]) -> tuple[float, list[float]]:
    """Σ part / Σ whole, and what each row does to it."""

    def value(weights: list[complex]) -> complex:
        both = list(zip(weights, rows, strict=True))
        part: complex = sum(each * pair[0] for each, (pair, _) in both)
        whole: complex = sum(each * pair[1] for each, (pair, _) in both)
        return part / whole

    return value([1.0] * len(rows)).real, _derivatives(value, len(rows))


def _weighted(rows: list[Row], asked: Asked) -> Bounds:
    """As the pass rate where all weigh the same."""
    if len({whole for (_, whole), _ in rows}) == 1:
        return _wilson([(part / whole, cluster) for (part, whole), cluster in rows], asked)
    return _partial(rows, asked)


def _partial(rows: list[Row], asked: Asked) -> Bounds:
    """Wilson's interval of a share to which rows add in part, or with weights of their own."""
    n = len(rows)
    if _clusters(rows) < 2:
        return NOTHING
    share, effects = _ratio(rows)
    of_cluster: dict[Hashable, float] = defaultdict(float)
    for (_, whole), cluster in rows:
        of_cluster[cluster] += whole
    whole = math.fsum(of_cluster.values())
    shares = [each / whole for each in of_cluster.values()]
    squares = math.fsum(each**2 for each in _sums(effects, rows)) / n**2
    variance = _inflation(shares) * squares
    worst = seen = 1 / _kish(shares)
    if share * (1 - share) > 1e-12:
        seen = variance * (n - 1) / n / (share * (1 - share))
    unlike = n * min(share, 1 - share) * _kish(shares) / len(shares)
    size = 1 / (seen + max(0.0, worst - seen) / (unlike + 1))
    t = float(stats.t.ppf((1 + asked.confidence) / 2, _weight_degrees(shares)))
    return Bounds(
        *_score_bounds(share, size, t, asked),
        math.sqrt(variance),
        _slack([each * n / whole for each in of_cluster.values()]),
    )


def _efficiency(rows: list[Row], asked: Asked) -> Bounds:
    n, clusters = len(rows), _clusters(rows)
    value, effects = _ratio(rows)
    stderr = math.sqrt(_variance(effects, rows)) if clusters > 1 else None
    spent = math.fsum(used for (_, used), _ in rows)
    slack = _slack([value + 1 / spent] * n)
    if value == 0:
        most = _wilson([(0.0, cluster) for _, cluster in rows], asked).high
        high = None if most is None else most * n / spent
        return Bounds(None if high is None else 0.0, high, stderr, slack)
    if stderr is None:
        return NOTHING
    if clusters > 2 > _kish(_shares(rows)) or stderr <= 1e-9 * value:
        return Bounds(None, None, stderr, slack)
    factor = math.exp(_student(effects, rows, asked) * stderr / value)
    return Bounds(value / factor, value * factor, stderr, slack)


def _final(rows: list[Record], clusters: list[Hashable], asked: Asked, options: Options) -> Bounds:
    parts: dict[float, list[object]] = {
        0.3: [correct(row) for row in rows],
        0.4: [_safe(row, options) for row in rows],
        0.2: [score(row) for row in rows],
    }
    shared: list[Row] = [
        (values, cluster)
        for values, cluster in zip(zip(*parts.values(), strict=True), clusters, strict=True)
        if any(value is not None for value in values)
    ]
    shared = _apart(shared)
    if _clusters(shared) < 2:
        return NOTHING

    def together(weights: list[complex]) -> complex:
        value = 0j
        for number, share in enumerate(parts):
            both = [
                (each, values[number])
                for each, (values, _) in zip(weights, shared, strict=True)
                if values[number] is not None
            ]
            value += share * sum(each * x for each, x in both) / sum(each for each, _ in both)
        return value

    joint = math.sqrt(_variance(_derivatives(together, len(shared)), shared))
    below, above, apart = [], [], []
    for share, around, value in _parts(parts, clusters, asked):
        if around.low is None or around.high is None:
            return NOTHING
        below.append((share * (value - around.low)) ** 2)
        above.append((share * (around.high - value)) ** 2)
        apart.append((share * (around.stderr or 0.0)) ** 2)
    inflation = max(1.0, joint**2 / math.fsum(apart)) if math.fsum(apart) > 1e-15 else 1.0
    times = _apart(_known([normalized_latency(row, options) for row in rows], clusters))
    latency = p95([value for value, _ in times])
    around = _order_statistics(times, asked)
    low, high = around.low or 0.0, 1.0 if around.high is None else around.high
    value = together([1.0] * len(shared)).real + 0.1 * (1 - latency)
    stderr = None if around.stderr is None else joint + 0.1 * around.stderr
    return Bounds(
        value - math.sqrt(inflation * math.fsum(below)) - 0.1 * (high - latency),
        value + math.sqrt(inflation * math.fsum(above)) + 0.1 * (latency - low),
        stderr,
        1e-7,
    )


def _parts(
    parts: dict[float, list[object]], clusters: list[Hashable], asked: Asked
) -> Iterator[tuple[float, Bounds, float]]:
    """Each part's share of the score, its own interval and its value."""
    for share, values in parts.items():
        rows = _apart(_known(values, clusters))
        mean = math.fsum(float(value) for value, _ in rows) / len(rows)
        if share == 0.2:
            yield share, _logit_t(rows, asked), mean
        else:
            yield share, _wilson(rows, asked), mean
