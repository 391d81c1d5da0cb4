"""The mean that decides a check while a run is in progress.

A quantile meets its threshold if enough rows meet it: its check is one on a share of rows.
"""

from __future__ import annotations

import polars as pl

from calipers.gates.baselines import RecordedGroup
from calipers.gates.policy_values import SAFETY, Rule, find_metric, share_scale
from calipers.metrics.declare.declaration import Feature, Metric, Rank
from calipers.metrics.judged.who import list_judged_parts
from calipers.metrics.scenarios.passing import ADVERSARIAL
from calipers.metrics.thresholds import Threshold
from calipers.support.quick_dataclasses import dataclass

CORRECTED = "decided without the judge's error"
NO_MEAN = "no mean over calls of values between 0 and 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """What is known before a run about how one of its groups will be checked."""

    before: RecordedGroup | None = None  # the baseline's group
    corrected: bool = False  # judged means, without the judge's error


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A check that blocks, and the mean that decides it."""

    name: str
    on: Threshold | None = None  # what the mean has to be
    value: pl.Expr | None = None  # of a measured row
    metrics: tuple[str, ...] = ()  # that have to be measured for it
    category: str | None = None  # the tasks that it is about, where not all
    scenario: str | None = None
    within: str | None = None
    why_not: str | None = None


def make_demand(rule: Rule, *, corrected: bool) -> Demand:
    """Return the mean that decides a threshold of a metric, or why only the whole run can."""
    metric = find_metric(rule.name)
    if corrected and list_judged_parts(metric):
        return Demand(name=metric.name, why_not=CORRECTED)
    measured = (metric.name,)
    if isinstance(metric.aggregate, Rank):
        # A quantile meets the threshold if that share of rows does.
        good = rule.threshold.holds(pl.col(metric.aggregate.feature.name)).cast(pl.Float64)
        share = metric.aggregate.percent / 100
        on = Threshold(operator="≥", value=share, scale=share_scale(metric.name))
        within = str(rule.threshold)
        return Demand(name=metric.name, on=on, value=good, metrics=measured, within=within)
    value = find_row_value(metric)
    if value is None:
        return Demand(name=metric.name, why_not=NO_MEAN)
    return Demand(
        name=metric.name,
        on=rule.threshold,
        value=value,
        metrics=measured,
        category=ADVERSARIAL if metric.name == SAFETY else None,
    )


def find_row_value(metric: Metric) -> pl.Expr | None:
    """Return the value of a measured row, in [0, 1], whose mean the metric is; None without one."""
    feature = metric.averaged
    if not isinstance(feature, Feature):
        feature = None if metric.influence is None else metric.influence.feature
    low, high = metric.range
    if feature is None or low < 0 or high > 1:
        return None
    value = pl.col(feature.name).cast(pl.Float64)
    return 1 - value if metric.complement else value
