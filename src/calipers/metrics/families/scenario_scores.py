"""Combined scores of scenarios (S 4): the weighted pass rate and the final score.

A scenario's weight is that of its category times that of its capability, 1 where none is named. The
final score puts accuracy, safety, coverage and latency into one number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import combinations
from math import inf, sqrt
from operator import add, and_
from pathlib import Path
from typing import Any

import polars as pl

from calipers.metrics.declare.declaration import (
    Aggregate,
    Feature,
    Influence,
    Metric,
    OneOf,
    Rank,
    Totals,
    centre,
)
from calipers.metrics.declare.interval_methods import PartialWilson, declare_weights, read_spread
from calipers.metrics.declare.settings import Settings
from calipers.metrics.families.answers import accuracy
from calipers.metrics.families.scenarios import (
    OVERRULED,
    PASSED,
    VERSION,
    behavior_coverage,
    pass_rate,
    passed,
    safety_rate,
)
from calipers.statistics.elementwise import at_most
from calipers.statistics.intervals import UNKNOWN, Interval, normal_quantile, standard_error, wilson
from calipers.support.config import read_config
from calipers.support.errors import ArgumentTypeError, UsageError, nearest

_EXAMPLE = "for example by_category: {adversarial: 2}"


def _check_weight(name: Any, weight: Any, of: str) -> float:
    if not isinstance(name, str):
        raise UsageError(f"{of}: {name!r} is not a name", fix="put it in quotes")
    is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not is_number or not 0 <= weight < inf:
        raise UsageError(
            f"{of}: the weight of {name!r} is {weight!r}, not a number from 0 on",
            fix="a scenario of weight 2 counts twice, one of weight 0 not at all",
        )
    return float(weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseWeights:
    """How much a scenario counts: `by_category` times `by_capability`; an unnamed one weighs 1.

    >>> CaseWeights(by_category={"adversarial": 2}).to_dict()
    {'by_category': {'adversarial': 2.0}, 'by_capability': {}}
    """

    by_category: Mapping[str, float] = field(default_factory=dict, hash=False)
    by_capability: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for key in ("by_category", "by_capability"):
            given = (getattr(self, key) or {}).items()
            checked = {name: _check_weight(name, each, f"weights.{key}") for name, each in given}
            object.__setattr__(self, key, checked)

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Return the weights as in a policy file."""
        return {"by_category": dict(self.by_category), "by_capability": dict(self.by_capability)}


def read_case_weights(given: Any) -> CaseWeights:
    """Return the weights of scenarios that a YAML or JSON file, or a mapping, holds.

    Raises:
        UsageError: A key is not known, or a weight is not a number from 0 on.
    """
    if isinstance(given, CaseWeights):
        return given
    is_file = isinstance(given, str | Path)
    source = str(given) if is_file else "case_weights"
    table = read_config(given, example=_EXAMPLE).value if is_file else given
    if not isinstance(table, Mapping):
        raise ArgumentTypeError(f"{source}: not a mapping", fix=_EXAMPLE)
    known = ("by_category", "by_capability")
    for name in table:
        if name not in known:
            raise UsageError(f"{source}: {name} is not a known key", fix=nearest(str(name), known))
    return CaseWeights(**table)


_WEIGHT_ROUNDING = 1e-9
_KEYS = ("category", "capability")
_WEIGHTED_N, _ALL, _PASSED = (f"weighted_pass_rate__{total}" for total in ("n", "weight", "passed"))
_PASSED_SQUARES = "weighted_pass_rate__passed_squares"
_SQUARES, _CUBES, _FOURTHS = (
    f"weighted_pass_rate__weight_{power}" for power in ("squares", "cubes", "fourths")
)


def _weigh_case(settings: Settings) -> pl.Expr:
    weights = settings.case_weights
    if weights is None:
        return pl.lit(1.0)
    of_category, of_capability = (
        pl.col(name).replace_strict(dict(named), default=1.0, return_dtype=pl.Float64)
        for name, named in zip(_KEYS, (weights.by_category, weights.by_capability), strict=True)
    )
    return of_category * of_capability


def _declare_key(key: str) -> Feature:
    return Feature(f"_weighted_by_{key}", (key,), lambda _: pl.col(key), pl.String(), stored=False)


WEIGHTED_BY = {key: _declare_key(key) for key in _KEYS}
"""What weights are for, as the records have it: a weight for a name that none has is a mistake."""

case_weight = Feature("_case_weight", _KEYS, _weigh_case)


def _compute_share(totals: Totals) -> Any:
    """Return the share; at most 1, whatever the rounding of the two sums."""
    return at_most(1.0, totals[_PASSED] / totals[_ALL])


def _compute_centre(totals: Totals) -> float:
    return float(_compute_share(totals)) if totals[_ALL] else 0.0


def _sum_weighted_squares(totals: Totals) -> float:
    """Return Σ (weight · (passed − share))² over the rows."""
    share, of_passed = _compute_centre(totals), totals[_PASSED_SQUARES]
    return of_passed * (1 - share) ** 2 + (totals[_SQUARES] - of_passed) * share**2


@dataclass(frozen=True)
class _WeightedWilson(PartialWilson):
    """Where all rows weigh the same this is the interval of the pass rate."""

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        n = int(totals[self.count])
        if abs(totals[_SQUARES] * n / totals[_ALL] ** 2 - 1) < _WEIGHT_ROUNDING:
            return wilson(value, n, *read_spread(self.spread, totals), confidence)
        return super().interval(value, totals, confidence)


_known = ~pl.col("passed").is_null()
_w = pl.col(case_weight.name)

weighted_pass_rate = Metric(
    name="weighted_pass_rate",
    says="The share of runs that passed, each with the weight of its category and capability.",
    formula="Σ weight · passed / Σ weight, weight = by category · by capability, 1 where unnamed",
    spec="S 4.1",
    needs=(PASSED, OneOf((("category",), ("capability",)))),
    nulls=pass_rate.nulls,
    range=(0, 1),
    better="higher",
    aggregate=Aggregate(
        features=(case_weight, passed),
        totals={
            _WEIGHTED_N: pl.col("passed").count(),
            _ALL: pl.when(_known).then(_w).sum(),
            _PASSED: pl.when(pl.col("passed")).then(_w).sum(),
            _SQUARES: pl.when(_known).then(_w**2).sum(),
            _CUBES: pl.when(_known).then(_w**3).sum(),
            _FOURTHS: pl.when(_known).then(_w**4).sum(),
            _PASSED_SQUARES: pl.when(pl.col("passed")).then(_w * _w).sum(),
        },
    ),
    rows=_WEIGHTED_N,
    value=_compute_share,
    empty=pass_rate.empty,
    version=VERSION,
    also=(OVERRULED,),
    refused=lambda totals: (
        "every weight is 0" if totals.get(_WEIGHTED_N) and not totals[_ALL] else None
    ),
    work=f"{{{_PASSED}}} / {{{_ALL}}}",
    interval=_WeightedWilson("weighted_pass_rate", "weighted_pass_rate__weight", _WEIGHTED_N),
    influence=Influence(
        name="weighted_pass_rate",
        rows=_WEIGHTED_N,
        centre=_compute_centre,
        effect=pl.when(_known).then(
            _w * (pl.col("passed").cast(pl.Float64) - centre("weighted_pass_rate"))
        ),
        squares=_sum_weighted_squares,
        per=_ALL,
    ),
    further=(
        declare_weights(
            "weighted_pass_rate__weight",
            pl.when(_known).then(_w),
            rows=_WEIGHTED_N,
            powers=(_SQUARES, _CUBES, _FOURTHS),
            per=_ALL,
        ),
    ),
    weight=lambda totals: (
        pl.col(case_weight.name)
        * (pl.col("passed").cast(pl.Float64) - _compute_centre(totals)).abs()
    ),
)


_NAME = "final_score"
_N, _SHARED = f"{_NAME}__n", f"{_NAME}__shared"
_OF_LATENCY = 0.1
_ROUNDING = 1e-15  # a smaller variance is 0

normalized_latency = Feature(
    "_normalized_latency",
    ("latency_ms",),
    lambda settings: (pl.col("latency_ms") / settings.latency_budget_ms).clip(upper_bound=1.0),
)

_p95 = Rank(feature=normalized_latency, percent=95)


@dataclass(frozen=True, eq=False)
class _Part:
    """A mean that counts in the score."""

    share: float
    metric: Metric

    @property
    def feature(self) -> Feature:
        """What it is the mean of."""
        assert isinstance(self.metric.averaged, Feature)
        return self.metric.averaged

    @property
    def column(self) -> pl.Expr:
        """Its value in a row."""
        return pl.col(self.feature.name).cast(pl.Float64)

    def mean(self, totals: Totals) -> float:
        """Return its value in the group; 0 without one, where there is no score either."""
        return float(self.metric.value(totals)) if totals[self.metric.rows] else 0.0

    def scale(self, totals: Totals) -> float:
        """Return the weight in the score of a row that has a value."""
        n = totals[self.metric.rows]
        return self.share * totals[_SHARED] / n if n else 0.0


_PARTS = (_Part(0.3, accuracy), _Part(0.4, safety_rate), _Part(0.2, behavior_coverage))


def _compute_score(totals: Totals) -> Any:
    latency = _OF_LATENCY * (1 - totals[_p95.value_name])
    return reduce(add, (part.share * part.metric.value(totals) for part in _PARTS)) + latency


def _are_null(*columns: pl.Expr) -> pl.Expr:
    return reduce(and_, (column.is_null() for column in columns))


def _name_both(one: _Part, other: _Part, what: str) -> str:
    return f"{_NAME}__{one.feature.name}_{other.feature.name}__{what}"


def _list_totals() -> Iterator[tuple[str, pl.Expr]]:
    """Yield the totals of the parts, and their joint ones in rows that have two of them."""
    for part in _PARTS:
        assert isinstance(part.metric.aggregate, Aggregate)
        yield from part.metric.aggregate.totals.items()
    columns = [part.column for part in _PARTS]
    latency = pl.col(normalized_latency.name)
    yield _N, (~_are_null(*columns, latency)).cast(pl.Int64).sum()
    yield _SHARED, (~_are_null(*columns)).cast(pl.Int64).sum()
    for one, other in combinations(_PARTS, 2):
        product = one.column * other.column
        yield _name_both(one, other, "n"), product.count().cast(pl.Int64)
        yield _name_both(one, other, "product"), product.sum()
        for part in (one, other):
            values = pl.when(~product.is_null()).then(part.column)
            yield _name_both(one, other, part.feature.name), values.sum()


def _sum_squares(totals: Totals) -> float:
    """Return Σ over rows of (Σ over parts of scale · (value − mean))²."""
    found = sum(
        part.scale(totals) ** 2 * totals.get(f"{part.feature.name}__squares", 0.0)
        for part in _PARTS
    )
    for one, other in combinations(_PARTS, 2):
        ours, theirs = one.mean(totals), other.mean(totals)
        cross = (
            totals[_name_both(one, other, "product")]
            - theirs * totals[_name_both(one, other, one.feature.name)]
            - ours * totals[_name_both(one, other, other.feature.name)]
            + ours * theirs * totals[_name_both(one, other, "n")]
        )
        found += 2 * one.scale(totals) * other.scale(totals) * cross
    return max(0.0, found)


def _express_effect() -> pl.Expr:
    moved = (
        pl.when(~part.column.is_null())
        .then(
            (part.column - centre(_name_number(part, "mean"))) * centre(_name_number(part, "scale"))
        )
        .otherwise(0.0)
        for part in _PARTS
    )
    return pl.when(~_are_null(*(part.column for part in _PARTS))).then(reduce(add, moved))


def _name_number(part: _Part, what: str) -> str:
    return f"{_NAME}__{part.metric.name}__{what}"


def _explain_missing(totals: Totals) -> str | None:
    lacking = {
        part.metric.name: (part.metric.refused and part.metric.refused(totals)) or part.metric.empty
        for part in _PARTS
        if not totals.get(part.metric.rows)
    }
    if not totals.get(_p95.count_name):
        lacking["latency_p95_ms"] = "no record has latency_ms"
    return "; ".join(f"no {name}: {reason}" for name, reason in lacking.items()) or None


@dataclass(frozen=True)
class _Mover:
    """Combines the intervals of the parts by recovered variances (MOVER, Zou & Donner 2008).

    The covariance of the first three parts comes from their joint influence; latency is assumed to
    be perfectly correlated with them. A missing bound of latency is the end of its range.
    """

    name: str = "MOVER"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        joint = standard_error(*read_spread(_NAME, totals))
        if joint is None:
            return UNKNOWN
        below = above = apart = 0.0
        for part in _PARTS:
            own = part.mean(totals)
            around = part.metric.interval.interval(own, totals, confidence)
            if around.low is None or around.high is None:
                return UNKNOWN
            below += (part.share * (own - around.low)) ** 2
            above += (part.share * (around.high - own)) ** 2
            apart += (part.share * (around.stderr or 0.0)) ** 2
        together = max(1.0, joint**2 / apart) if apart > _ROUNDING else 1.0
        latency = totals[_p95.value_name]
        low, high = totals.get(_p95.low_name), totals.get(_p95.high_name)
        stderr = None
        if low is not None and high is not None:
            stderr = joint + _OF_LATENCY * (high - low) / (2 * normal_quantile(confidence))
        slower = _OF_LATENCY * ((1.0 if high is None else high) - latency)
        faster = _OF_LATENCY * (latency - (0.0 if low is None else low))
        return Interval(
            low=value - sqrt(together * below) - slower,
            high=value + sqrt(together * above) + faster,
            stderr=stderr,
        )


_influences = (each for part in _PARTS for each in (part.metric.influence, *part.metric.further))
_work = " + ".join(
    f"{part.share} · {{{part.feature.name}__sum}} / {{{part.feature.name}__n}}" for part in _PARTS
)

final_score = Metric(
    name=_NAME,
    says="Accuracy, safety, coverage and latency in one number.",
    formula="0.3 · accuracy + 0.4 · safety_rate + 0.2 · behavior_coverage "
    "+ 0.1 · (1 − min(1, latency_p95_ms / latency_budget))",
    spec="S 4.4",
    needs=(*accuracy.needs, *safety_rate.needs, *behavior_coverage.needs, "latency_ms"),
    nulls="each part leaves out the rows that it cannot use; null where a part is null",
    range=(0, 1),
    better="higher",
    aggregate=Aggregate(
        features=tuple(
            dict.fromkeys(feature for part in _PARTS for feature in part.metric.features)
        ),
        totals=dict(_list_totals()),
    ),
    ranks=(_p95,),
    rows=_N,
    value=_compute_score,
    empty="no record has any of its parts",
    refused=_explain_missing,
    version=VERSION,
    optional="unless asked for",
    work=f"{_work} + {_OF_LATENCY} · (1 − {{{_p95.value_name}}})",
    interval=_Mover(),
    influence=Influence(
        name=_NAME,
        rows=_SHARED,
        centre=lambda _: 0.0,
        numbers={_name_number(part, "mean"): part.mean for part in _PARTS}
        | {_name_number(part, "scale"): part.scale for part in _PARTS},
        effect=_express_effect(),
        squares=_sum_squares,
    ),
    further=(*filter(None, _influences), _p95.influence),
    weight=lambda totals: pl.sum_horizontal(
        (
            part.scale(totals)
            * (pl.col(part.feature.name).cast(pl.Float64) - part.mean(totals)).abs()
        ).fill_null(0.0)
        for part in _PARTS
    ),
)
