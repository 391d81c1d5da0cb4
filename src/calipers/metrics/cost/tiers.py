"""Repeated runs over tiers (T): quality of a run, its cost and duration, and the cost of a pass."""

from __future__ import annotations

from math import exp, hypot, inf, log
from typing import Any

import polars as pl

from calipers.metrics.cost.cost import COSTED, SOURCES, UNPRICED, cost_usd, explain_unpriced
from calipers.metrics.declare.columns import declare_recorded
from calipers.metrics.declare.declaration import Aggregate, Feature, Metric, OneOf, Rank, Totals
from calipers.metrics.declare.influence import Influence, centre
from calipers.metrics.declare.intervals import read_spread
from calipers.metrics.declare.means import mean
from calipers.metrics.declare.settings import Settings
from calipers.metrics.judged.judgments import judged_impl_rate
from calipers.metrics.scenarios.passing import PASSED, VERSION, passed
from calipers.statistics.intervals import NO_SPREAD, Interval, positive_interval, wilson
from calipers.support.late import np
from calipers.support.quick_dataclasses import dataclass

TIER = "tier"
RATED = OneOf((("impl_rate",), ("judgments",)))

impl_rate = Feature(
    "impl_rate",
    ("impl_rate", judged_impl_rate),
    lambda _: pl.coalesce("impl_rate", judged_impl_rate.name),
)

duration_seconds = declare_recorded("duration_seconds")


def _express_composite(settings: Settings) -> pl.Expr:
    of_pass, of_rate = settings.pass_weight, settings.impl_weight
    rated = pl.col("passed").cast(pl.Float64) * of_pass + pl.col("impl_rate") * of_rate
    return rated / (of_pass + of_rate)


composite_score = Feature("composite_score", (passed, impl_rate), _express_composite)
pass_rate_of_run = Feature(
    "pass_rate", (passed,), lambda _: pl.col("passed").cast(pl.Float64), listed=False
)
cost_of_pass = Feature(
    "cost_of_pass",
    (passed, cost_usd),
    lambda _: pl.when(pl.col("passed").is_not_null() & pl.col("cost_usd").is_not_null()).then(
        pl.when("passed").then("cost_usd").otherwise(inf)
    ),
)

DESCRIBED = (pass_rate_of_run, impl_rate, cost_usd, duration_seconds, cost_of_pass, composite_score)
"""The features that `statistics` describe."""

MEDIANS = tuple(  # of features whose medians grade, uplift and variances between tiers use
    Rank(feature=feature, percent=50, of_family=of_family)
    for feature in (composite_score, cost_usd)
    for of_family in (False, True)
)

impl_rate_mean = mean(
    impl_rate,
    says="How far runs meet their requirements, by the judges' weighted scores.",
    formula="mean(impl_rate), impl_rate = recorded, else the median of the judges' weighted scores",
    spec="T 2",
    needs=(RATED,),
    nulls="a run without `impl_rate` or judgments is left out",
    range=(0, 1),
    better="higher",
)

duration_mean = mean(
    duration_seconds,
    says="How long a run takes.",
    formula="mean(duration_seconds)",
    spec="T 4",
    needs=("duration_seconds",),
    nulls="a run without a duration is left out",
    unit="s",
    better="lower",
)

composite_mean = mean(
    composite_score,
    says="Passing and meeting the requirements, weighted (--pass-weight, --impl-weight).",
    formula="mean((passed · pass_weight + impl_rate · impl_weight) / (pass_weight + impl_weight))",
    spec="T 6",
    needs=(PASSED, RATED),
    nulls="a run without both parts is left out",
    range=(0, 1),
    better="higher",
    version=VERSION,
)


def _compute_ratio(totals: Totals) -> Any:
    cost, passes = totals["cost_of_pass__cost"], totals["cost_of_pass__passes"]
    return np.where(np.equal(passes, 0), inf, cost / np.maximum(passes, 1))


_cost, _counted = pl.col("cost_usd"), ~pl.col("cost_of_pass").is_null()
_paid_pass = pl.col("passed") & ~_cost.is_null()

COSTS_OF_PASSES = {
    "cost_of_pass__n": pl.col("cost_of_pass").count(),
    "cost_of_pass__cost": pl.when(_counted).then(_cost).sum(),
    "cost_of_pass__passes": _paid_pass.cast(pl.Int64).sum(),
}
"""What the runs cost that are known to pass or fail, and how many of them passed."""

_costs = Aggregate(
    features=(cost_of_pass, passed, cost_usd, *SOURCES.features),
    totals={
        **SOURCES.totals,
        **COSTS_OF_PASSES,
        "cost_of_pass__cost_squares": pl.when(_counted).then(_cost * _cost).sum(),
        "cost_of_pass__passed_cost": pl.when(_paid_pass).then(_cost).sum(),
    },
)


def _compute_finite_ratio(totals: Totals) -> float:
    return float(_compute_ratio(totals)) if totals["cost_of_pass__passes"] else 0.0


def _sum_squares(totals: Totals) -> float:
    """Return Σ (cost − ratio · passed)² over the runs."""
    ratio = _compute_finite_ratio(totals)
    names = ("cost_squares", "passed_cost", "passes")
    squares, cross, passes = (totals[f"cost_of_pass__{name}"] for name in names)
    return max(0.0, squares - 2 * ratio * cross + ratio * ratio * passes)


@dataclass(frozen=True)
class _CostOfPassDelta:
    """The delta method on the logarithm of the ratio, which cannot fall below 0.

    If nothing passed, the pass rate is at most Wilson's upper bound, and the cost of a pass at
    least the cost per run at that rate. If all passed, the rate may be as low as Wilson's lower
    bound, which the spread of the costs does not show.
    """

    name: str = "delta of logarithm"

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        spread, clusters = read_spread("cost_of_pass", totals)
        n = int(totals["cost_of_pass__n"])
        if value == inf:
            most = wilson(0.0, n, 0.0, clusters, confidence).high
            low = None if most is None else totals["cost_of_pass__cost"] / n / most
            return Interval(low=low, high=inf, stderr=None)
        around = positive_interval(value, spread, clusters, confidence)
        has_failed = totals["cost_of_pass__passes"] < n
        if has_failed or around.reason not in (None, NO_SPREAD) or not value:
            return around
        least = wilson(1.0, n, 0.0, clusters, confidence).low
        reach = 0.0 if around.high is None else log(around.high / value)
        high = inf if not least else value * exp(hypot(reach, log(least)))
        return Interval(low=value * exp(-reach), high=high, stderr=around.stderr)


cost_of_pass_ratio = Metric(
    name="cost_of_pass",
    says="What it costs to get one run that passes; infinite when none does.",
    formula="Σ cost_usd / number of passes = mean(cost_usd) / pass_rate",
    spec="T 5",
    needs=(COSTED, PASSED),
    nulls="a run without a cost, or without knowing whether it passed, is left out",
    unit="USD",
    range=(0, inf),
    better="lower",
    aggregate=_costs,
    rows="cost_of_pass__n",
    value=_compute_ratio,
    empty="no record has both a cost and passed, or judgments",
    version=VERSION,
    also=(UNPRICED,),
    refused=lambda totals: None if totals.get("cost_of_pass__n") else explain_unpriced(totals),
    optional="unless asked for",
    work="{cost_of_pass__cost} / {cost_of_pass__passes}",
    interval=_CostOfPassDelta(),
    influence=Influence(
        name="cost_of_pass",
        rows="cost_of_pass__n",
        centre=_compute_finite_ratio,
        effect=pl.when(_counted).then(
            _cost - centre("cost_of_pass") * pl.col("passed").cast(pl.Float64)
        ),
        squares=_sum_squares,
        per="cost_of_pass__passes",
    ),
    weight=lambda _: pl.col("cost_usd"),
)
