"""From a group's totals to its measured values, and the order in which groups are shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Any

import polars as pl

from calipers.engines.group_totals import ManyGroups, allow_unknown, open_groups
from calipers.engines.outcome import TEXT, Outcome
from calipers.engines.per_task import TASKS
from calipers.engines.plan import Plan
from calipers.engines.totals import ERRORS, FAILURES, RECORDS, TRUNCATED_REPLIES
from calipers.metrics import Metric
from calipers.metrics.declare.columns import Columns, GroupRow, evaluate, shorten_column, tell
from calipers.metrics.declare.declaration import GROUP, Rank, Totals, is_met
from calipers.metrics.declare.distributions import EDGES, describe, read_bins, read_wide_bins
from calipers.metrics.declare.interval_methods import name_one_cluster
from calipers.metrics.families.calibration import list_bins
from calipers.metrics.families.cost import MEDIANS, T_GRADES, composite_score
from calipers.metrics.families.judged import count_flagged
from calipers.metrics.provenance import JUDGED_BY, WORDS, read_words
from calipers.metrics.user_defined import resolve_share
from calipers.scores.group_columns import NUMBERS, GroupColumns, MeasuredColumn
from calipers.scores.options import Options
from calipers.scores.result import (
    ALL_FAILED,
    BoundedValue,
    Group,
    Histogram,
    Measured,
    ReliabilityBin,
)
from calipers.statistics.elementwise import (
    as_whole,
    choose,
    is_anywhere,
    is_everywhere,
    is_number,
    is_one,
    is_single,
    is_text,
)
from calipers.statistics.intervals import NO_BOUND, Interval, wilson
from calipers.support.lazy_numpy import np
from calipers.support.names import split_natural


def sort_keys(groups: Iterable[str], by: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return each group's fields by the text that stands for it, in display order."""
    texts = list(groups)
    keys: dict[str, dict[str, Any]] = dict(
        zip(texts, json.loads(f"[{','.join(texts)}]"), strict=True)
    )
    whole = [name for name in by if _is_whole(key[name] for key in keys.values())]
    for key in keys.values() if whole else ():
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


def measure_groups(outcome: Outcome, plan: Plan, options: Options) -> Mapping[str, Group]:
    """Return the groups with their values, by their texts, in the order to show them.

    Of many groups the values are columns, where nothing is asked for that is made group by group.
    """
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
    has_words = WORDS.name in outcome.tallies
    own = (unknown, is_judged, is_fixed, has_words, outcome.intervals, plan.medians)
    of_groups = (plan.described, plan.binned, plan.widely_binned, plan.reliability)
    if isinstance(outcome.groups, ManyGroups) and not any((*own, *of_groups)):
        with allow_unknown(outcome.groups):
            return _measure_columns(outcome.groups, metrics, plan, options)
    if is_judged:
        # Only for judged records.
        from calipers.scores.calibration import correct_group, list_judges  # noqa: PLC0415

        judges = list_judges(outcome.tallies[JUDGED_BY])
    words = _list_words(outcome.tallies[WORDS.name]) if has_words else {}
    if is_fixed:
        from calipers.scores.evidence import add_fixed_intervals  # noqa: PLC0415
    groups, read = {}, open_groups(outcome.groups)
    for text, key in sort_keys(outcome.groups, plan.by).items():
        totals = read(text)
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


class GroupsByText(Mapping[str, Group]):
    """Groups in columns, by the texts that stand for them."""

    def __init__(self, texts: Sequence[str], groups: GroupColumns) -> None:
        self._texts = texts
        self.groups = groups
        self._numbers: dict[str, int] | None = None

    def __getitem__(self, text: str) -> Group:
        if self._numbers is None:
            self._numbers = {text: number for number, text in enumerate(self._texts)}
        return self.groups[self._numbers[text]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def list_keys(by_text: Mapping[str, Group]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each group's text and its fields, without making the group."""
    if isinstance(by_text, GroupsByText):
        return zip(by_text, by_text.groups.by, strict=True)
    return ((text, group.by) for text, group in by_text.items())


def list_measured(by_text: Mapping[str, Group]) -> Sequence[Group]:
    """Return the groups, in the order to show them."""
    return by_text.groups if isinstance(by_text, GroupsByText) else tuple(by_text.values())


def _measure_columns(
    groups: ManyGroups, metrics: Sequence[Metric], plan: Plan, options: Options
) -> GroupsByText:
    totals = groups.columns
    counts = {
        name: as_whole(totals.get(total, np.zeros(totals.rows, dtype=np.int64)))
        for name, total in _COUNTS.items()
    }
    called = counts["records"] - counts["errors"]
    measured = {
        metric.name: MeasuredColumn(
            **{
                name: shorten_column(part) if name not in NUMBERS else part
                for name, part in _measure_parts(metric, totals, called, plan).items()
            }
        )
        for metric in metrics
    }
    kept = {
        metric.name: measured[metric.name]
        for metric in metrics
        if not _may_hide(metric, options) or measured[metric.name].has_value.any()
    }
    flagged = shorten_column(tell(count_flagged, totals))
    keys = sort_keys(groups, plan.by)
    places = np.fromiter(map(groups.find, keys), dtype=np.int64, count=len(keys))
    shown = GroupColumns(list(keys.values()), places, counts, flagged, kept)
    cost, warnings = kept.get("cost_of_pass"), shown.list_warnings(np.arange(totals.rows))
    if cost is not None and warnings is not None:
        kept["cost_of_pass"] = replace(cost, remarks={"warning": warnings})
    return GroupsByText(list(keys), shown)


def _may_hide(metric: Metric, options: Options) -> bool:
    """Say whether a metric is left out where no group has a value."""
    return metric.name not in options.metrics and (
        metric.optional == "unless named" or bool(metric.optional and not options.profile)
    )


_COUNTS = {
    "records": RECORDS,
    "errors": ERRORS,
    "truncated": TRUNCATED_REPLIES,
    "failures": FAILURES,
}


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
        if _may_hide(metric, options)
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
    parts = _measure_parts(metric, totals, called, plan, resampled)
    method, known = parts.pop("method"), parts["low"] is not None or parts["high"] is not None
    return Measured(**parts, interval=method if known else None)


def _measure_parts(
    metric: Metric, totals: Any, called: Any, plan: Plan, resampled: Interval | None = None
) -> dict[str, Any]:
    """Return a metric's value, interval and evidence in a group, or in columns of groups."""
    n = as_whole(totals.get(metric.rows, 0))
    about = called if metric.about is None else as_whole(totals.get(metric.about, 0))
    extras = {
        name: tell(extra, totals) if callable(extra) else as_whole(totals.get(extra, 0))
        for name, extra in metric.extras.items()
    }
    refused = tell(metric.refused, totals) if metric.refused else None
    is_null = (n == 0) | is_text(refused)
    why = choose(is_null & is_text(refused), refused, metric.empty)
    found: dict[str, Any] = {
        "n": choose(is_null, 0, n),
        "missing": about,
        "reason": choose(is_null, choose(called == 0, ALL_FAILED, why), None),
        "extras": extras,
        "method": metric.interval.name if resampled is None else "BCa bootstrap",
    }
    if is_everywhere(is_null):
        null = None if is_one(n) else np.full(len(n), nan)
        texts = dict.fromkeys(("worth", "interval_reason", "scope"))
        return {**found, **dict.fromkeys(NUMBERS, null), **texts}
    there = is_null == 0
    value = evaluate(metric.value, totals, where=there)
    value = float(value) if is_one(n) else value
    around = resampled or _find_interval(metric, value, totals, plan.confidence, there)
    used = n if metric.used is None else as_whole(totals.get(metric.used, 0))
    low, high = clip(metric, around.low), clip(metric, around.high)
    is_known, is_whole = is_number(low) | is_number(high), is_number(low) & is_number(high)
    lack = choose(is_text(around.reason), around.reason, NO_BOUND)
    return {
        **found,
        "missing": about - choose(is_null, 0, used),
        "value": _mask(value, there),
        "low": _mask(low, there),
        "high": _mask(high, there),
        "stderr": _mask(around.stderr, there),
        "interval_reason": choose(there & (is_whole == 0), lack, None),
        "scope": _find_scope(metric, totals, plan, there & is_known),
        "worth": None if around.worth is None else _mask(around.worth, there),
    }


def _mask(value: Any, there: Any) -> Any:
    """Return a number or null; or a column of numbers, NaN where there is none."""
    if is_one(there):
        return None if value is None else float(value)
    return np.where(there, nan if value is None else value, nan)


def _find_interval(
    metric: Metric, value: Any, totals: Any, confidence: float, where: Any
) -> Interval:
    """Return the interval around a value, or columns of those around many."""
    if not isinstance(totals, Columns):
        return metric.interval.interval(value, totals, confidence)
    try:
        around = metric.interval.interval(value, totals, confidence)
    except (TypeError, ValueError):  # it branches on a number: group by group
        return _find_each_interval(metric, value, totals, confidence, where)
    low, high, stderr = (
        np.full(totals.rows, nan if part is None else part) if is_single(part) else part
        for part in (around.low, around.high, around.stderr)
    )
    return replace(around, low=low, high=high, stderr=stderr)


def _find_each_interval(
    metric: Metric, value: Any, totals: Columns, confidence: float, where: Any
) -> Interval:
    names = ("low", "high", "stderr", "worth")
    numbers = {name: np.full(totals.rows, nan) for name in names}
    reason = np.full(totals.rows, None, dtype=object)
    for place in np.flatnonzero(where).tolist():
        own = metric.interval.interval(float(value[place]), GroupRow(totals, place), confidence)
        for name, column in numbers.items():
            part = getattr(own, name)
            column[place] = nan if part is None else part
        reason[place] = own.reason
    return Interval(**numbers, reason=reason)


def _find_scope(metric: Metric, totals: Any, plan: Plan, where: Any) -> Any:
    """Return what alone the interval holds for; None if it holds for further tasks too."""
    if metric.influence is None:
        return None
    is_alone = where & (totals.get(name_one_cluster(metric.influence.name), False) != 0)
    scope = "runs of one task" if plan.cluster is None else f"rows of one {plan.cluster}"
    return choose(is_alone, scope, None) if is_anywhere(is_alone) else None


def clip(metric: Metric, bound: Any) -> Any:
    """Return a bound, or a column of bounds, within the metric's range."""
    low, high = metric.range
    if bound is None:
        return None
    if is_one(bound):
        return float(min(high, max(low, bound)))
    return np.minimum(high, np.maximum(low, bound)) + 0.0  # no minus zero


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
