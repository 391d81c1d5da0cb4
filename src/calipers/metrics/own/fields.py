"""The subject of a user's metric: a field, an expression, or a function of the record."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from math import inf
from typing import Any, Literal
from zlib import crc32

import polars as pl

from calipers.metrics.declare.declaration import Feature
from calipers.records.fields import FIELDS, Kind
from calipers.support.arguments import require_type
from calipers.support.errors import UsageError
from calipers.support.quick_dataclasses import dataclass

Better = Literal["higher", "lower"] | None
Range = tuple[float, float]
Of = str | pl.Expr | Callable[[Mapping[str, Any]], Any]

STATISTICS = ("mean", "p50", "p95", "p99", "sum")
WRITTEN = re.compile(r"([a-z0-9]+)\((.*)\)", re.DOTALL)
SCORE = re.compile(r"score_.+", re.DOTALL)  # a score that another tool's log brings
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,79}")
_LONGEST = 200
_LOWER = re.compile(r".*(latency|cost|duration|tokens).*|error")
_MEASURED = (Kind.NUMBER, Kind.BOOLEAN, Kind.SCALAR)
_TYPES = (pl.Float64(), pl.String(), pl.Boolean())


def check_field(field: str) -> str:
    """Return the name of a field that can be measured, or raise UsageError."""
    if not field or len(field) > _LONGEST or not field.isprintable():
        raise UsageError(
            f"{field[:60]!r} is not a name of a field", fix="for example mean(score_toxicity)"
        )
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


def as_measurable(of: Of, name: str | None) -> Measurable:
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
        lambda _: pl.col(field).cast(pl.Float64),
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
        numbers=tuple(each for each in fields if _must_be_number(expression, each)),
    )
    text = " ".join(str(expression).split())[:_LONGEST]
    return Measurable(feature, text, fields, expression.meta.serialize(format="json"))


def _must_be_number(expression: pl.Expr, field: str) -> bool:
    """Say whether an expression makes sense of a user's field only if it holds numbers."""
    if field in FIELDS:
        return False
    others = expression.meta.root_names()
    known = {each: FIELDS[each].dtype if each in FIELDS else pl.Float64() for each in others}
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


def name_of(name: str | None, statistic: str, measured: Measurable) -> str:
    """Return the metric's name, or raise UsageError for one that cannot be written."""
    if name is None:
        return f"{statistic}({measured.text})"
    require_type("name", name, str, expected="a text", fix='for example "politeness_mean"')
    if not (_NAME.fullmatch(name) or SCORE.fullmatch(name) or WRITTEN.fullmatch(name)):
        raise UsageError(
            f"{name[:60]!r} is not a name of a metric",
            fix="letters, digits and underscores, a letter first: politeness_mean",
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
    low, high = (float(each) for each in given)
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
