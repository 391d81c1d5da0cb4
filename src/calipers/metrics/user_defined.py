"""User-defined metrics: the mean, a percentile or the sum of a field, an expression or a function.

`mean(FIELD)`, `p50(FIELD)`, `p95(FIELD)`, `p99(FIELD)` and `sum(FIELD)` name a metric of any field.
The same functions declare a metric under a name of the user's own, over a field (a dotted path
reaches into objects), over a Polars expression, or over a Python function of the whole record,
`def polite(record: dict) -> float | bool | None`.

>>> from calipers.metrics import mean
>>> mean("toxicity", name="toxic", better="lower", range=(0, 1)).formula
'mean(toxicity)'
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from typing import Any, Literal
from zlib import crc32

import polars as pl

from calipers.metrics.declare.declaration import Aggregate, Feature, HasInterval, Metric, Totals
from calipers.metrics.declare.interval_methods import Wilson
from calipers.metrics.declare.means import declare_mean as mean_of
from calipers.metrics.declare.means import declare_quantile as quantile_of
from calipers.metrics.declare.means import declare_sums
from calipers.records.batch import select_column
from calipers.records.fields import FIELDS, Kind
from calipers.statistics.intervals import Interval
from calipers.support.errors import DataError, UsageError
from calipers.support.lazy_numpy import is_numpy_scalar
from calipers.support.options import require_type

Better = Literal["higher", "lower"] | None
Range = tuple[float, float]
Of = str | pl.Expr | Callable[[Mapping[str, Any]], Any]

STATISTICS = ("mean", "p50", "p95", "p99", "sum")
WRITTEN = re.compile(r"([a-z0-9]+)\((.*)\)", re.DOTALL)
SCORE = re.compile(r"score_.+", re.DOTALL)  # a score that another tool's log brings
_LONGEST_NAME = 80
_LONGEST = 200
_LOWER = re.compile(r".*(latency|cost|duration|tokens).*|error")
_MEASURED = (Kind.NUMBER, Kind.BOOLEAN, Kind.SCALAR)
_TYPES = (pl.Float64(), pl.String(), pl.Boolean())


def check_field(field: str) -> str:
    """Return the name of a field, or raise UsageError for one that cannot be measured."""
    known = FIELDS.get(field)
    if known is not None and known.kind not in _MEASURED:
        raise UsageError(
            f"{field} holds {known.kind.value}, which has no mean",
            fix="name a field of numbers, or of true and false",
        )
    return field


@dataclass(frozen=True)
class Measurable:
    """What a user's metric measures: its feature, and its text for people."""

    feature: Feature
    text: str
    needs: tuple[str, ...]
    definition: Hashable


def make_measurable(of: Of, name: str | None) -> Measurable:
    """Return what is measured; a metric of an expression or a function needs a name."""
    require_type(
        "metric",
        of,
        str | pl.Expr | Callable,
        expected="a field, a Polars expression or a function",
        fix='for example calipers.metrics.mean("politeness")',
    )
    if isinstance(of, str):
        return _declare_field(check_field(of))
    if name is None:
        raise UsageError(
            "a metric of an expression or a function needs a name", fix='for example name="polite"'
        )
    if isinstance(of, pl.Expr):
        return _declare_expression(of, name)
    return _declare_function(of, name)


@cache
def _declare_field(field: str) -> Measurable:
    known = FIELDS.get(field)
    is_typed = known is not None and known.kind in (Kind.NUMBER, Kind.BOOLEAN)
    feature = Feature(
        _name_column(field),
        (field,),
        lambda _: select_column(field).cast(pl.Float64),
        shown=field,
        numbers=() if is_typed else (field,),
    )
    return Measurable(feature, field, (field,), field)


def _declare_expression(expression: pl.Expr, name: str) -> Measurable:
    fields = tuple(dict.fromkeys(expression.meta.root_names()))
    if not fields:
        raise UsageError(f"{name}: the expression reads no field", fix='for example pl.col("x")')
    feature = Feature(
        _name_column(name),
        fields,
        lambda _: expression.cast(pl.Float64),
        shown=name,
        numbers=tuple(field for field in fields if _must_be_number(expression, field)),
    )
    text = " ".join(str(expression).split())[:_LONGEST]
    return Measurable(feature, text, fields, expression.meta.serialize(format="json"))


def _must_be_number(expression: pl.Expr, field: str) -> bool:
    """Return True if an expression makes sense of a user's field only if it holds numbers."""
    if field in FIELDS:
        return False
    others = expression.meta.root_names()
    known = {name: FIELDS[name].dtype if name in FIELDS else pl.Float64() for name in others}
    return _is_numeric(expression, known) and not _is_numeric(
        expression, {**known, field: pl.String()}
    )


def _is_numeric(expression: pl.Expr, types: Mapping[str, pl.DataType]) -> bool:
    try:
        frame = pl.DataFrame(schema=dict(types)).select(expression.cast(pl.Float64))
    except pl.exceptions.PolarsError:
        return False
    return frame.width == 1


def _declare_function(function: Callable[[Mapping[str, Any]], Any], name: str) -> Measurable:
    feature = Feature(_name_column(name), (), _refuse_expression, shown=name, of_record=function)
    code = getattr(function, "__code__", None)
    said = (
        getattr(function, "__module__", None),
        getattr(function, "__qualname__", None),
        None if code is None else (code.co_code, str(code.co_consts)),
    )
    return Measurable(feature, f"{name}(record)", (), said)


def _refuse_expression(_: object) -> pl.Expr:
    raise AssertionError("a function of the record is applied before expressions are")


def _name_column(name: str) -> str:
    """Return a column name that no field, feature or engine uses otherwise."""
    return f"own_{re.sub(r'[^A-Za-z0-9]', '_', name)[:40]}_{crc32(name.encode()):08x}"


def choose_name(name: str | None, statistic: str, measured: Measurable) -> str:
    """Return the metric's name, or raise UsageError for one that cannot be written."""
    if name is None:
        return f"{statistic}({measured.text})"
    require_type("name", name, str, expected="a text", fix='for example "politeness_mean"')
    is_seen = name == name.strip() and name.isprintable()
    is_short = 0 < len(name) <= _LONGEST_NAME
    if not ((is_short and is_seen) or SCORE.fullmatch(name) or WRITTEN.fullmatch(name)):
        raise UsageError(
            f"{name[:60]!r} is not a name of a metric",
            fix=f"1 to {_LONGEST_NAME} characters that can be seen: Politeness (v2)",
        )
    return name


def choose_range(name: str, given: Range | None, of: Of) -> Range:
    """Return the range that was given, or that of the record's field; otherwise unbounded."""
    if given is None:
        known = FIELDS.get(of) if isinstance(of, str) else None
        if known is None:
            return (-inf, inf)
        return (0.0, 1.0) if known.kind is Kind.BOOLEAN else (known.low, known.high)
    fix = "for example range=(0, 1)"
    require_type(f"{name}: range", given, tuple | list, expected="a pair of numbers", fix=fix)
    if len(given) != 2:  # noqa: PLR2004
        raise UsageError(f"{name}: range has {len(given)} numbers, not two", fix=fix)
    for each in given:
        require_type(f"{name}: range", each, int | float, expected="a pair of numbers", fix=fix)
    low, high = (float(end) for end in given)
    if not low < high:
        raise UsageError(f"{name}: the range [{low:g}, {high:g}] is empty", fix="[0, 1], say")
    return low, high


def choose_direction(name: str, better: Better, of: Of) -> Better:
    """Return which values are better: as given, or as for the record's field."""
    if better not in ("higher", "lower", None):
        raise UsageError(f"{name}: better is {better!r}", fix='"higher", "lower" or None')
    if better is not None or not isinstance(of, str) or of not in FIELDS:
        return better
    if FIELDS[of].kind not in (Kind.NUMBER, Kind.BOOLEAN):
        return None
    return "lower" if _LOWER.fullmatch(of) else "higher"


def find_unit(of: Of) -> str | None:
    """Return the unit that a field of the record has."""
    if not isinstance(of, str) or of not in FIELDS:
        return None
    units = {"_ms": "ms", "_seconds": "s", "_usd": "USD", "_tokens": "tokens"}
    return next((unit for end, unit in units.items() if of.endswith(end)), None)


MetricFunction = Callable[[Mapping[str, Any]], Any]

_AS_JSON = (Kind.NESTED, Kind.NAMES, Kind.TEXTS, Kind.ITEMS)
_STARTS = ("{", "[")


def apply_function(feature: Feature, records: pl.DataFrame, failed: pl.Series) -> pl.Series:
    """Return what a feature's function makes of each record; null for calls that failed.

    Raises DataError that names the record for which the function fails.
    """
    assert feature.of_record is not None
    values = [
        None if skip else _compute(feature.of_record, row, feature.label)
        for row, skip in zip(records.iter_rows(named=True), failed, strict=True)
    ]
    return pl.Series(feature.name, values, dtype=pl.Float64)


def _decode(name: str, value: Any) -> Any:
    """Return a field as a Python value: lists and objects are held as JSON text."""
    if not isinstance(value, str) or not value.startswith(_STARTS):
        return value
    if name not in FIELDS or FIELDS[name].kind in _AS_JSON:
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _compute(function: MetricFunction, row: Mapping[str, Any], name: str) -> float | None:
    record = {key: _decode(key, value) for key, value in row.items() if not key.startswith("_")}
    try:
        value = function(record)
    except Exception as error:
        raise DataError(
            f"{name}: the function fails for {_describe(record)}: {type(error).__name__}: {error}",
            fix="return None for a record that it does not apply to, or fix the function",
        ) from error
    if is_numpy_scalar(value):
        value = value.item()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise DataError(
            f"{name}: the function returns {str(value)[:60]!r} for {_describe(record)}",
            fix="return a finite number, True, False, or None where it does not apply",
        )
    return float(value)


def _describe(record: Mapping[str, Any]) -> str:
    """Return a record's name for a message: its id, or else how it begins."""
    if record.get("id") is not None:
        return f"the record with id {record['id']}"
    known = {name: value for name, value in record.items() if value is not None}
    return f"the record {json.dumps(known, default=str, ensure_ascii=False)[:80]}"


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
    return _make_metric(match[1], check_field(match[2]), None)


@cache
def _make_metric(statistic: str, field: str, name: str | None) -> Metric:
    if statistic == "mean":
        return mean(field, name=name)
    return sum(field) if statistic == "sum" else quantile(field, int(statistic[1:]))


def mean(
    of: Of,
    *,
    name: str | None = None,
    better: Better = None,
    range: Range | None = None,  # noqa: A002 (the word the catalogue shows)
    unit: str | None = None,
    says: str | None = None,
    profile: str | None = None,
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
        profile: The family it belongs to: `--profile NAME` computes these alone.

    Returns:
        A metric, to be added with `calipers.register`.
    """
    measured = make_measurable(of, name)
    name = choose_name(name, "mean", measured)
    ends = choose_range(name, range, of)
    metric = mean_of(
        measured.feature,
        name=name,
        says=says or f"The mean of {measured.text}.",
        formula=f"mean({measured.text})",
        profiles=() if profile is None else (profile,),
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
    profile: str | None = None,
) -> Metric:
    """Declare a percentile: the value that `percent` of the rows do not exceed (nearest rank).

    Its interval is made of two of the values themselves. Arguments as for `mean`.
    """
    if isinstance(percent, bool) or not isinstance(percent, int) or not 1 <= percent <= 99:  # noqa: PLR2004
        raise UsageError(
            f"a quantile at {percent} percent: not a whole number from 1 to 99", fix="95, say"
        )
    measured = make_measurable(of, name)
    name = choose_name(name, f"p{percent}", measured)
    return quantile_of(
        measured.feature,
        percent,
        measured.text,
        name=name,
        says=says or f"The value within which {percent} % of {measured.text} lie.",
        profiles=() if profile is None else (profile,),
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
            part: None if (bound := getattr(around, part)) is None else bound * n
            for part in ("low", "high", "stderr")
        }
        return Interval(**times, reason=around.reason)


def sum(  # noqa: A001 (as in a spreadsheet)
    of: Of,
    *,
    name: str | None = None,
    better: Better = None,
    range: Range | None = None,  # noqa: A002 (as above)
    unit: str | None = None,
    says: str | None = None,
    profile: str | None = None,
) -> Metric:
    """Declare the sum over the rows that have a value; `range` is that of one row.

    Its interval is that of the mean times the number of rows. Arguments as for `mean`.
    """
    measured = make_measurable(of, name)
    own_name = choose_name(name, "sum", measured)
    per_row = mean(of, name=own_name, better=better, range=range, unit=unit, profile=profile)
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


def resolve_share(metric: Metric, others: float) -> Metric:
    """Return the metric as a share where no value is other than 0 or 1, else as it is."""
    return metric.yes_or_no if metric.yes_or_no is not None and not others else metric
