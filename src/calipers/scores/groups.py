"""A group's totals turned into its measured values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from calipers.engines.outcome import Outcome
from calipers.engines.plan import Plan
from calipers.engines.totals import ERRORS, FAILURES, RECORDS, TRUNCATED_REPLIES
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import Totals, is_met
from calipers.metrics.declare.description import describe
from calipers.metrics.declare.intervals import is_of_one_cluster
from calipers.metrics.judged.judgments import count_flagged
from calipers.metrics.judged.who import JUDGED_BY
from calipers.metrics.own.statistics import settle
from calipers.scores.figure_data import read_histograms, read_reliability
from calipers.scores.keys import sort_keys
from calipers.scores.medians import measure_median_composite
from calipers.scores.options import Options
from calipers.scores.results import ALL_FAILED, BoundedValue, Group, Measured
from calipers.scores.tiering import grade
from calipers.statistics.intervals import NO_BOUND, Interval


def measure_groups(outcome: Outcome, plan: Plan, options: Options) -> dict[str, Group]:
    """Return the groups with their values, by their texts, in the order to show them."""
    metrics = _settle_metrics(plan.restrict(outcome.present).metrics, outcome)
    keys = sort_keys(outcome.groups, plan.by)
    groups = {
        text: _group(key, outcome.groups[text], metrics, plan, outcome.intervals.get(text, {}))
        for text, key in keys.items()
    }
    if plan.counts_failures:
        unknown = _explain_unknown(metrics, outcome.present | plan.also_present)
        groups = {text: _drop_unknown(group, unknown) for text, group in groups.items()}
    if JUDGED_BY in outcome.tallies:
        # Only for judged records.
        from calipers.scores.correction import correct_group, list_judges  # noqa: PLC0415

        judges = list_judges(outcome.tallies[JUDGED_BY])
        groups = {
            text: correct_group(
                replace(group, judges=judges.get(text, ())),
                outcome.groups[text],
                options.calibrations,
                plan.confidence,
            )
            for text, group in groups.items()
        }
    if options.tasks == "fixed":
        from calipers.scores.fixed_tasks import add_fixed_intervals  # noqa: PLC0415

        groups = {
            text: add_fixed_intervals(group, outcome.groups[text], metrics, plan.confidence)
            for text, group in groups.items()
        }
    shown = _drop_empty(list(groups.values()), metrics, options)
    return dict(zip(groups, map(_with_warning, shown), strict=True))


def _settle_metrics(metrics: Sequence[Metric], outcome: Outcome) -> list[Metric]:
    """Return the metrics adapted to these values: some are shares, or are not."""
    return [
        settle(metric, outcome.sum_groups(metric.others) if metric.others is not None else 0)
        for metric in metrics
    ]


def _with_warning(group: Group) -> Group:
    """Return the group with the warning about failed calls beside its cost of pass."""
    cost = group.metrics.get("cost_of_pass")
    if group.warning is None or cost is None:
        return group
    told = replace(cost, extras={**cost.extras, "warning": group.warning})
    return replace(group, metrics={**group.metrics, "cost_of_pass": told})


def _explain_unknown(metrics: Sequence[Metric], present: Collection[str]) -> dict[str, str]:
    """Return why metrics are null whose fields no record has; failed calls give no value."""
    return {
        metric.name: metric.empty
        for metric in metrics
        if not all(is_met(need, present.__contains__) for need in metric.needs)
    }


def _drop_unknown(group: Group, unknown: Mapping[str, str]) -> Group:
    """Return the group with null for metrics that only failed calls have a value of."""
    nulls = {
        name: Measured(value=None, n=0, missing=each.n + each.missing, reason=unknown[name])
        for name, each in group.metrics.items()
        if name in unknown
    }
    statistics = group.statistics and {
        name: None if name in unknown else found for name, found in group.statistics.items()
    }
    known = replace(group, metrics={**group.metrics, **nulls}, statistics=statistics)
    if "composite_score" not in unknown:
        return known
    return replace(known, grade=None, grade_interval=None, median_composite=None)


def _drop_empty(
    groups: Sequence[Group], metrics: Sequence[Metric], options: Options
) -> list[Group]:
    """Return the groups without the metrics that have no value and were not asked for."""
    hidden = {
        metric.name
        for metric in metrics
        if metric.name not in options.metrics
        and (metric.optional == "unless named" or (metric.optional and not options.profile))
        and all(group.metrics[metric.name].value is None for group in groups)
    }
    return [
        replace(
            group,
            metrics={name: each for name, each in group.metrics.items() if name not in hidden},
        )
        for group in groups
    ]


def _group(
    by: Mapping[str, Any],
    totals: Totals,
    metrics: Sequence[Metric],
    plan: Plan,
    resampled: Mapping[str, Interval],
) -> Group:
    records, errors = int(totals[RECORDS]), int(totals[ERRORS])
    statistics = {feature.name: describe(feature.name, totals) for feature in plan.described}
    median = measure_median_composite(totals) if plan.medians else None
    return Group(
        by=by,
        records=records,
        errors=errors,
        truncated=int(totals[TRUNCATED_REPLIES]),
        failures=int(totals.get(FAILURES, 0)),
        metrics={
            metric.name: _measure(
                metric, totals, records - errors, plan, resampled.get(metric.name)
            )
            for metric in metrics
        },
        statistics=statistics if plan.described else None,
        grade=None if median is None else grade(median.value),
        grade_interval=None if median is None else _grade_bounds(median),
        median_composite=median,
        histograms=read_histograms(totals, plan),
        reliability=tuple(read_reliability(totals, plan)) if plan.reliability else (),
        flagged=count_flagged(totals),
    )


def _grade_bounds(median: BoundedValue) -> tuple[str, str] | None:
    low, high = grade(median.low), grade(median.high)
    return None if low is None or high is None else (low, high)


def _measure(
    metric: Metric, totals: Totals, called: int, plan: Plan, resampled: Interval | None
) -> Measured:
    n = int(totals.get(metric.rows, 0))
    about = called if metric.about is None else int(totals.get(metric.about, 0))
    extras: dict[str, float | str | None] = {
        name: extra(totals) if callable(extra) else int(totals.get(extra, 0) or 0)
        for name, extra in metric.extras.items()
    }
    refused = metric.refused(totals) if metric.refused else None
    if not n or refused:
        reason = (refused or metric.empty) if called else ALL_FAILED
        return Measured(value=None, n=0, missing=about, reason=reason, extras=extras)
    value = float(metric.value(totals))
    around = resampled or metric.interval.interval(value, totals, plan.confidence)
    method = metric.interval.name if resampled is None else "BCa bootstrap"
    known = around.low is not None or around.high is not None
    alone = resampled is None and metric.influence is not None and known
    return Measured(
        value=value,
        n=n,
        missing=about - (n if metric.used is None else int(totals[metric.used])),
        low=_clip(metric, around.low),
        high=_clip(metric, around.high),
        stderr=around.stderr,
        interval=method if known else None,
        interval_reason=_explain_bounds(around),
        scope=_find_scope(metric, totals, plan) if alone else None,
        worth=around.worth,
        extras=extras,
    )


def _explain_bounds(around: Interval) -> str | None:
    """Return why a bound is null; None if both are known."""
    if around.low is not None and around.high is not None:
        return None
    return around.reason or NO_BOUND


def _find_scope(metric: Metric, totals: Totals, plan: Plan) -> str | None:
    """Return what alone the interval holds for; None if it holds for further tasks too."""
    assert metric.influence is not None
    if not is_of_one_cluster(metric.influence.name, totals):
        return None
    return "runs of one task" if plan.cluster is None else f"rows of one {plan.cluster}"


def _clip(metric: Metric, bound: float | None) -> float | None:
    """Return a bound within the metric's range."""
    low, high = metric.range
    return None if bound is None else float(min(high, max(low, bound)))
