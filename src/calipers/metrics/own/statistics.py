"""Any field is a metric: `mean(FIELD)`, `p50(FIELD)`, `p95(FIELD)`, `p99(FIELD)`, `sum(FIELD)`.

The same functions declare a metric under a name of one's own, over a field (a dotted path reaches
into objects), over a Polars expression, or over a Python function of the record.

>>> from calipers.metrics import mean
>>> mean("toxicity", name="toxic", better="lower", range=(0, 1)).formula
'mean(toxicity)'
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import inf

import polars as pl

from calipers.metrics.declare.declaration import Aggregate, Feature, HasInterval, Metric, Totals
from calipers.metrics.declare.intervals import Wilson
from calipers.metrics.declare.means import declare_sums
from calipers.metrics.declare.means import mean as mean_of
from calipers.metrics.declare.means import quantile as quantile_of
from calipers.metrics.own.fields import (
    SCORE,
    STATISTICS,
    WRITTEN,
    Better,
    Of,
    Range,
    as_measurable,
    check_field,
    choose_direction,
    choose_range,
    find_unit,
    name_of,
)
from calipers.statistics.intervals import Interval
from calipers.support.errors import UsageError
from calipers.support.quick_dataclasses import dataclass

_ANYWHERE, _SHARE = (-inf, inf), (0, 1)


def parse_metric(name: str) -> Metric | None:
    """Return the metric that a name such as `mean(meta.confidence)` stands for, or None.

    Raises UsageError where the name has that form and its field cannot be measured.
    """
    if SCORE.fullmatch(name):
        return _make_metric("mean", check_field(name), name)
    match = WRITTEN.fullmatch(name)
    if match is None:
        return None
    if match[1] not in STATISTICS:
        raise UsageError(
            f"{name[:60]}: no statistic of a field is called {match[1]}", fix=", ".join(STATISTICS)
        )
    return _make_metric(match[1], check_field(match[2].strip()), None)


@cache
def _make_metric(statistic: str, field: str, name: str | None) -> Metric:
    if statistic == "mean":
        return mean(field, name=name)
    return total(field) if statistic == "sum" else quantile(field, int(statistic[1:]))


def mean(
    of: Of,
    *,
    name: str | None = None,
    better: Better = None,
    range: Range | None = None,  # noqa: A002 (the word the catalogue shows)
    unit: str | None = None,
    says: str | None = None,
) -> Metric:
    """Declare the mean of a field, of a Polars expression, or of a function of the record.

    Its interval follows from the data and from `range`: Wilson's where all values are 0 or 1 (or
    true and false), otherwise one for values that lie in the range, from 0 on, or anywhere.

    Args:
        of: A field's name, a dotted path, an expression over fields, or `def f(record: dict)`.
        name: What it is called; without one, `mean(FIELD)`.
        better: Whether "higher" or "lower" values are better; None for neither.
        range: The least and the greatest value that is possible.
        unit: For example "ms".
        says: One sentence for the catalogue.

    Returns:
        A metric, to be added with `calipers.register`.
    """
    measured = as_measurable(of, name)
    name = name_of(name, "mean", measured)
    ends = choose_range(name, range, of)
    metric = mean_of(
        measured.feature,
        name=name,
        says=says or f"The mean of {measured.text}.",
        formula=f"mean({measured.text})",
        needs=measured.needs,
        unit=unit or find_unit(of),
        range=ends,
        better=choose_direction(name, better, of),
        aggregate=_with_others(measured.feature),
        empty=f"no record has a value of {measured.text}",
        definition=("mean", name, better, ends, unit, says, measured.definition),
    )
    if ends not in (_ANYWHERE, _SHARE):
        return metric
    wilson = Wilson(measured.feature.name, f"{measured.feature.name}__n")
    share = replace(metric, interval=wilson, range=_SHARE)
    return replace(metric, others=_name_others(measured.feature), yes_or_no=share)


def quantile(
    of: Of,
    percent: int,
    *,
    name: str | None = None,
    better: Better = None,
    range: Range | None = None,  # noqa: A002 (as above)
    unit: str | None = None,
    says: str | None = None,
) -> Metric:
    """Declare a percentile: the value that `percent` of the rows do not exceed (nearest rank).

    Its interval is made of two of the values themselves. Arguments as for `mean`.
    """
    if isinstance(percent, bool) or not isinstance(percent, int) or not 1 <= percent <= 99:  # noqa: PLR2004
        raise UsageError(
            f"a quantile at {percent} percent: not a whole number from 1 to 99", fix="95, say"
        )
    measured = as_measurable(of, name)
    name = name_of(name, f"p{percent}", measured)
    return quantile_of(
        measured.feature,
        percent,
        measured.text,
        name=name,
        says=says or f"The value within which {percent} % of {measured.text} lie.",
        needs=measured.needs,
        unit=unit or find_unit(of),
        range=choose_range(name, range, of),
        better=choose_direction(name, better, of),
        empty=f"no record has a value of {measured.text}",
        definition=("quantile", percent, name, better, range, unit, says, measured.definition),
    )


@dataclass(frozen=True)
class OfSum:
    """For sums: the interval of the mean, times the number of rows."""

    of_mean: HasInterval
    count: str

    @property
    def name(self) -> str:
        """How people call it: as the mean's."""
        return self.of_mean.name

    def interval(self, value: float, totals: Totals, confidence: float) -> Interval:
        """Return the bounds of the mean times the number of rows."""
        n = totals[self.count]
        around = self.of_mean.interval(value / n, totals, confidence)
        times = {
            each: None if (bound := getattr(around, each)) is None else bound * n
            for each in ("low", "high", "stderr")
        }
        return Interval(**times, reason=around.reason)


def total(
    of: Of,
    *,
    name: str | None = None,
    better: Better = None,
    range: Range | None = None,  # noqa: A002 (as above)
    unit: str | None = None,
    says: str | None = None,
) -> Metric:
    """Declare the sum over the rows that have a value; `range` is that of one row.

    Its interval is that of the mean times the number of rows. Arguments as for `mean`.
    """
    measured = as_measurable(of, name)
    per_row = mean(of, name=name_of(name, "sum", measured), better=better, range=range, unit=unit)
    summed, count = f"{measured.feature.name}__sum", f"{measured.feature.name}__n"
    low, high = per_row.range
    ends = (-inf if low < 0 else 0.0, inf if high > 0 else 0.0)
    return replace(
        _as_sum(per_row, summed, count, ends),
        says=says or f"The sum of {measured.text}.",
        formula=f"sum({measured.text})",
        definition=("sum", per_row.definition, says),
        yes_or_no=per_row.yes_or_no and _as_sum(per_row.yes_or_no, summed, count, ends),
    )


def _as_sum(metric: Metric, summed: str, count: str, ends: Range) -> Metric:
    return replace(
        metric,
        range=ends,
        value=lambda totals: totals[summed],
        work=f"{{{summed}}}, of {{{count}}} rows",
        interval=OfSum(metric.interval, count),
        averaged=None,
    )


def _name_others(feature: Feature) -> str:
    return f"{feature.name}__others"


@cache
def _with_others(feature: Feature) -> Aggregate:
    """Return what a mean needs, and how many values are neither 0 nor 1."""
    value = pl.col(feature.name)
    other = (value != 0) & (value != 1)
    return declare_sums(feature, **{_name_others(feature): other.cast(pl.Int64).sum()})


def settle(metric: Metric, others: float) -> Metric:
    """Return the metric as a share where no value is other than 0 or 1, else as it is."""
    return metric.yes_or_no if metric.yes_or_no is not None and not others else metric
