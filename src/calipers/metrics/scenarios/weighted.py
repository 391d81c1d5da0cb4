"""Weighted pass rate (S): not all scenarios are equally important."""

from __future__ import annotations

from typing import Any

import polars as pl

from calipers.metrics.declare.declaration import Aggregate, Feature, Metric, OneOf, Totals
from calipers.metrics.declare.elementwise import at_most
from calipers.metrics.declare.influence import Influence, centre
from calipers.metrics.declare.intervals import PartialWilson, declare_weights, read_spread
from calipers.metrics.declare.settings import Settings
from calipers.metrics.scenarios.passing import OVERRULED, PASSED, VERSION, pass_rate, passed
from calipers.statistics.intervals import Interval, wilson
from calipers.support.quick_dataclasses import dataclass

_ROUNDING = 1e-9
_KEYS = ("category", "capability")
_N, _ALL, _PASSED = (f"weighted_pass_rate__{each}" for each in ("n", "weight", "passed"))
_PASSED_SQUARES = "weighted_pass_rate__passed_squares"
_SQUARES, _CUBES, _FOURTHS = (
    f"weighted_pass_rate__weight_{each}" for each in ("squares", "cubes", "fourths")
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


def _sum_squares(totals: Totals) -> float:
    """Return Σ (weight · (passed − share))² over the rows."""
    share, of_passed = _compute_centre(totals), totals[_PASSED_SQUARES]
    return of_passed * (1 - share) ** 2 + (totals[_SQUARES] - of_passed) * share**2


@dataclass(frozen=True)
class _WeightedWilson(PartialWilson):
    """Where all rows weigh the same this is the interval of the pass rate."""

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        n = int(totals[self.count])
        if abs(totals[_SQUARES] * n / totals[_ALL] ** 2 - 1) < _ROUNDING:
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
            _N: pl.col("passed").count(),
            _ALL: pl.when(_known).then(_w).sum(),
            _PASSED: pl.when(pl.col("passed")).then(_w).sum(),
            _SQUARES: pl.when(_known).then(_w**2).sum(),
            _CUBES: pl.when(_known).then(_w**3).sum(),
            _FOURTHS: pl.when(_known).then(_w**4).sum(),
            _PASSED_SQUARES: pl.when(pl.col("passed")).then(_w * _w).sum(),
        },
    ),
    rows=_N,
    value=_compute_share,
    empty=pass_rate.empty,
    version=VERSION,
    also=(OVERRULED,),
    refused=lambda totals: "every weight is 0" if totals.get(_N) and not totals[_ALL] else None,
    work=f"{{{_PASSED}}} / {{{_ALL}}}",
    interval=_WeightedWilson("weighted_pass_rate", "weighted_pass_rate__weight", _N),
    influence=Influence(
        name="weighted_pass_rate",
        rows=_N,
        centre=_compute_centre,
        effect=pl.when(_known).then(
            _w * (pl.col("passed").cast(pl.Float64) - centre("weighted_pass_rate"))
        ),
        squares=_sum_squares,
        per=_ALL,
    ),
    further=(
        declare_weights(
            "weighted_pass_rate__weight",
            pl.when(_known).then(_w),
            rows=_N,
            powers=(_SQUARES, _CUBES, _FOURTHS),
            per=_ALL,
        ),
    ),
    weight=lambda totals: (
        pl.col(case_weight.name)
        * (pl.col("passed").cast(pl.Float64) - _compute_centre(totals)).abs()
    ),
)
