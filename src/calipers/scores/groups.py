"""From a group's totals to its measured values, and the order in which groups are shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from calipers.engines.outcome import TEXT, Outcome
from calipers.engines.per_task import TASKS
from calipers.engines.plan import Plan
from calipers.engines.totals import ERRORS, FAILURES, RECORDS, TRUNCATED_REPLIES
from calipers.metrics import Metric
from calipers.metrics.declare.declaration import GROUP, Rank, Totals, is_met
from calipers.metrics.declare.distributions import EDGES, describe, read_bins, read_wide_bins
from calipers.metrics.declare.interval_methods import is_of_one_cluster
from calipers.metrics.families.calibration import list_bins
from calipers.metrics.families.cost import MEDIANS, T_GRADES, composite_score
from calipers.metrics.families.judged import count_flagged
from calipers.metrics.provenance import JUDGED_BY, WORDS, read_words
from calipers.metrics.user_defined import resolve_share
from calipers.scores.options import Options
from calipers.scores.result import (
    ALL_FAILED,
    BoundedValue,
    Group,
    Histogram,
    Measured,
    ReliabilityBin,
)
from calipers.statistics.intervals import NO_BOUND, Interval, wilson
from calipers.support.names import split_natural


def sort_keys(groups: Iterable[str], by: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return each group's fields by the text that stands for it, in display order."""
    keys: dict[str, dict[str, Any]] = {text: json.loads(text) for text in groups}
    whole = [name for name in by if _is_whole(key[name] for key in keys.values())]
    for key in keys.values():
        key |= {name: int(key[name]) for name in whole if isinstance(key[name], float)}
    return dict(sorted(keys.items(), key=lambda item: [_sort_key(item[1][name]) for name in by]))


def _is_whole(values: Iterable[Any]) -> bool:
    """Return True if all of a field's numbers are whole, so that 1.0 may be shown as 1."""
    numbers = [value for value in values if isinstance(value, float)]
    return bool(numbers) and all(value.is_integer() for value in numbers)


def _sort_key(value: Any) -> tuple[int, float, tuple[Any, ...]]:
    """Return the sort key of a value: numbers by size, then texts, nulls last."""
    if value is None:
        return 2, 0.0, ()
    return (1, 0.0, split_natural(value)) if isinstance(value, str) else (0, value, ())


_COMPOSITE = next(rank for rank in MEDIANS if rank.feature is composite_score)


def measure_groups(outcome: Outcome, plan: Plan, options: Options) -> dict[str, Group]:
    """Return the groups with their values, by their texts, in the order to show them."""
    metrics = [  # some are shares of these values, or are not
        resolve_share(metric, outcome.sum_groups(metric.others) if metric.others is not None else 0)
        for metric in plan.restrict(outcome.present).metrics
    ]
    present = (outcome.present | plan.also_present).__contains__
    unknown = {  # of which only failed calls would give a value
        metric.name: metric.empty
        for metric in metrics
        if plan.counts_failures and not all(is_met(need, present) for need in metric.needs)
    }
    is_judged, is_fixed = JUDGED_BY in outcome.tallies, options.tasks == "fixed"
    if is_judged:
        # Only for judged records.
        from calipers.scores.calibration import correct_group, list_judges  # noqa: PLC0415

        judges = list_judges(outcome.tallies[JUDGED_BY])
    words = _list_words(outcome.tallies[WORDS.name]) if WORDS.name in outcome.tallies else {}
    if is_fixed:
        from calipers.scores.evidence import add_fixed_intervals  # noqa: PLC0415
    groups = {}
    for text, key in sort_keys(outcome.groups, plan.by).items():
        totals = outcome.groups[text]
        group = _make_group(key, totals, metrics, plan, outcome.intervals.get(text, {}))
        if unknown:
            group = _drop_unknown(group, unknown)
        if is_judged:
            group = replace(group, judges=judges.get(text, ()))
            group = correct_group(group, totals, options.calibrations, plan.confidence)
        if text in words:
            group = replace(group, words=words[text])
        if is_fixed:
            group = add_fixed_intervals(group, totals, metrics, plan.confidence)
        groups[text] = group
    shown = _drop_empty(list(groups.values()), metrics, options)
    return dict(zip(groups, map(_with_warning, shown), strict=True))


def _list_words(tally: pl.DataFrame) -> dict[str, dict[str, frozenset[str]]]:
    """Return what decided the rows of each group, by the text that stands for the group."""
    return {
        group: read_words(texts) for group, texts in tally.group_by(GROUP).agg(TEXT).iter_rows()
    }


def _with_warning(group: Group) -> Group:
    """Return the group with the warning about failed calls beside its cost of pass."""
    cost = group.metrics.get("cost_of_pass")
    if group.warning is None or cost is None:
        return group
    warned = replace(cost, extras={**cost.extras, "warning": group.warning})
    return replace(group, metrics={**group.metrics, "cost_of_pass": warned})


def _drop_unknown(group: Group, unknown: Mapping[str, str]) -> Group:
    """Return the group with null for metrics that only failed calls have a value of."""
    nulls = {
        name: Measured(value=None, n=0, missing=metric.n + metric.missing, reason=unknown[name])
        for name, metric in group.metrics.items()
        if name in unknown
    }
    statistics = group.statistics and {
        name: None if name in unknown else statistic for name, statistic in group.statistics.items()
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
            metrics={
                name: measured for name, measured in group.metrics.items() if name not in hidden
            },
        )
        for group in groups
    ]


def _make_group(
    by: Mapping[str, Any],
    totals: Totals,
    metrics: Sequence[Metric],
    plan: Plan,
    resampled: Mapping[str, Interval],
) -> Group:
    records, errors = int(totals[RECORDS]), int(totals[ERRORS])
    statistics = {feature.name: describe(feature.name, totals) for feature in plan.described}
    median = _measure_median_composite(totals) if plan.medians else None
    scale = plan.settings.grade_scale or T_GRADES
    ends = () if median is None else (median.low, median.high)
    low, high = (None if each is None else scale.grade(each) for each in ends or (None, None))
    return Group(
        by=by,
        records=records,
        errors=errors,
        truncated=int(totals[TRUNCATED_REPLIES]),
        failures=int(totals.get(FAILURES, 0)),
        metrics={
            metric.name: _measure_metric(
                metric, totals, records - errors, plan, resampled.get(metric.name)
            )
            for metric in metrics
        },
        statistics=statistics if plan.described else None,
        grade=None if median is None or median.value is None else scale.grade(median.value),
        grade_interval=None if low is None or high is None else (low, high),
        median_composite=median,
        histograms=_read_histograms(totals, plan),
        reliability=tuple(_read_reliability(totals, plan)) if plan.reliability else (),
        flagged=count_flagged(totals),
    )


def _measure_metric(
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
    whole = around.low is not None and around.high is not None
    return Measured(
        value=value,
        n=n,
        missing=about - (n if metric.used is None else int(totals[metric.used])),
        low=clip(metric, around.low),
        high=clip(metric, around.high),
        stderr=around.stderr,
        interval=method if known else None,
        interval_reason=None if whole else around.reason or NO_BOUND,
        scope=_find_scope(metric, totals, plan) if known else None,
        worth=around.worth,
        extras=extras,
    )


def _find_scope(metric: Metric, totals: Totals, plan: Plan) -> str | None:
    """Return what alone the interval holds for; None if it holds for further tasks too."""
    if metric.influence is None or not is_of_one_cluster(metric.influence.name, totals):
        return None
    return "runs of one task" if plan.cluster is None else f"rows of one {plan.cluster}"


def clip(metric: Metric, bound: float | None) -> float | None:
    """Return a bound within the metric's range."""
    low, high = metric.range
    return None if bound is None else float(min(high, max(low, bound)))


def bound_median(rank: Rank, totals: Totals) -> tuple[float, float] | None:
    """Return the order statistics around a median; None with too few values."""
    low, high = totals.get(rank.low_name), totals.get(rank.high_name)
    statistics = describe(rank.feature.name, totals)
    if low is None or high is None or statistics is None:
        return None
    median = statistics["median"]
    assert median is not None
    return min(low, median), max(high, median)


def _measure_median_composite(totals: Totals) -> BoundedValue | None:
    statistics = describe(composite_score.name, totals)
    if statistics is None:
        return None
    bounds = bound_median(_COMPOSITE, totals)
    if bounds is None:
        few = f"{statistics['count']} runs are too few for an interval of the median"
        return BoundedValue(value=statistics["median"], reason=few)
    one = (
        " over the runs of one task" if totals.get(TASKS) == 1 and statistics["count"] != 1 else ""
    )
    return BoundedValue(
        value=statistics["median"], low=bounds[0], high=bounds[1], interval=f"order statistics{one}"
    )


def _read_histograms(totals: Totals, plan: Plan) -> dict[str, Histogram | None]:
    """Return the histograms that the plan asks for; unbounded ones only if they hold a value."""
    histograms: dict[str, Histogram | None] = {}
    for feature in plan.binned:
        counts = read_bins(feature.name, totals)
        histograms[feature.name] = None if counts is None else Histogram(edges=EDGES, counts=counts)
    for feature in plan.widely_binned:
        if wide := read_wide_bins(feature.name, totals):
            histograms[feature.name] = Histogram(edges=wide[0], counts=wide[1])
    return histograms


def _read_reliability(totals: Totals, plan: Plan) -> Iterator[ReliabilityBin]:
    """Yield the bins that hold answers; their intervals treat rows as independent."""
    for low, high, n, confidence, right in list_bins(plan.settings.bins, totals):
        around = wilson(right / n, n, 0.0, n, plan.confidence)
        yield ReliabilityBin(
            low=low,
            high=high,
            n=n,
            confidence=confidence,
            accuracy=right / n,
            accuracy_low=around.low,
            accuracy_high=around.high,
        )
