"""Which checks of a policy can be decided while a run goes on, and by which mean.

A quantile is good enough where the share of rows that are is: its check is one on a share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import polars as pl

from calipers.gates.baselines import RecordedGroup, tolerances
from calipers.gates.checks import PASS_RATE
from calipers.gates.policy import SAFETY, Policy
from calipers.gates.rules import FINAL_SCORE, Rule, known_metric, share_scale
from calipers.metrics.answers.accuracy import correct
from calipers.metrics.declare.declaration import Feature, Metric, Rank
from calipers.metrics.judged.who import judged_parts
from calipers.metrics.scenarios.passing import ADVERSARIAL, passed
from calipers.metrics.thresholds import Threshold

_CORRECTED = "decided without the judge's error"
_AT_THE_END = "compared with the baseline task by task, at the end"
_NO_MEAN = "no mean over calls of values between 0 and 1"
_OF_SCENARIOS = (PASS_RATE, "accuracy")


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


def demands(policy: Policy, baseline: RecordedGroup | None) -> Iterator[Demand]:
    """What blocks, in the order of the checks."""
    rules = [*policy.thresholds.blocking.values(), *policy.row(None).values()]
    corrected = policy.judges.corrected
    yield from (_of_metric(rule, corrected=corrected) for rule in rules)
    if baseline is not None:
        margins = {} if policy.baseline is None else policy.baseline.margins
        for name in tolerances(baseline, margins):
            yield Demand(name=name, why_not=_AT_THE_END)
    criteria = policy.pass_criteria
    shares = [_of_passing(rule, category) for category, rule in criteria.by_category.items()]
    if criteria.overall is not None:
        shares.insert(0, _of_passing(criteria.overall))
    for share in shares:
        yield replace(share, on=None, why_not=_CORRECTED) if corrected else share
    for scenario in policy.required_scenarios.ids:
        yield Demand(
            name=scenario,
            on=Threshold(operator="=", value=1.0, scale=share_scale(scenario)),
            value=pl.coalesce(passed.name, correct.name).fill_null(value=False).cast(pl.Float64),
            metrics=_OF_SCENARIOS,
            scenario=scenario,
        )
    if policy.composite is not None:
        yield Demand(name=FINAL_SCORE, why_not=_NO_MEAN)


def _of_passing(rule: Rule, category: str | None = None) -> Demand:
    value = pl.col(passed.name).cast(pl.Float64)
    return Demand(
        name=rule.name, on=rule.threshold, value=value, metrics=(PASS_RATE,), category=category
    )


def _of_metric(rule: Rule, *, corrected: bool) -> Demand:
    metric = known_metric(rule.name)
    if corrected and judged_parts(metric):
        return Demand(name=metric.name, why_not=_CORRECTED)
    measured = (metric.name,)
    if isinstance(metric.aggregate, Rank):
        # The value at the rank is good enough where so many rows are.
        good = rule.threshold.holds(pl.col(metric.aggregate.feature.name)).cast(pl.Float64)
        share = metric.aggregate.percent / 100
        on = Threshold(operator="≥", value=share, scale=share_scale(metric.name))
        within = str(rule.threshold)
        return Demand(name=metric.name, on=on, value=good, metrics=measured, within=within)
    feature = _averaged(metric)
    low, high = metric.range
    if feature is None or low < 0 or high > 1:
        return Demand(name=metric.name, why_not=_NO_MEAN)
    value = pl.col(feature.name).cast(pl.Float64)
    return Demand(
        name=metric.name,
        on=rule.threshold,
        value=1 - value if metric.complement else value,
        metrics=measured,
        category=ADVERSARIAL if metric.name == SAFETY else None,
    )


def _averaged(metric: Metric) -> Feature | None:
    """The feature whose mean over the rows that have it the metric is."""
    if isinstance(metric.averaged, Feature):
        return metric.averaged
    return None if metric.influence is None else metric.influence.feature
