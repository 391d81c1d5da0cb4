"""Convert typed columns to the record's types, and find the values that a field refuses."""

from __future__ import annotations

import json
import math
from typing import Any

import polars as pl

from calipers.records.batch import BadRow, Batch, Wanted
from calipers.records.completing import SYNONYMS, complete_column, list_derived
from calipers.records.fields import (
    FIELDS,
    PROB_CORRECT,
    USUAL_NAMES,
    BadValue,
    Field,
    Kind,
    Number,
    find_field,
)
from calipers.records.paths import make_nulls, select_path
from calipers.records.rows import Reader, make_reader

_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_WORDS = ("true", "false")
_NO_TEXT = (pl.Binary, pl.Object, pl.Duration)
_EXACT_WHOLE = 2**53  # from here on doubles skip whole numbers


def conform_columns(
    frame: pl.DataFrame,
    wanted: Wanted,
    source: str,
    first_row: int,
    *,
    parse: bool = False,
    thorough: bool = False,
) -> Batch:
    """Return the wanted columns in the record's types; rows that a field refuses are separated.

    With `parse`, numbers and booleans are read from text, as in CSV where all is text. Only a
    `thorough` reading looks into nested fields.
    """
    columns: list[pl.Series] = []
    lacking: list[pl.Expr] = []  # one value each, whatever the number of rows
    problems: dict[int, str] = {}
    derived = list_derived(wanted)
    for name in wanted.fields:
        field, theirs = find_field(name), wanted.get_name(name)
        is_there = theirs in frame.columns
        given = frame[theirs] if is_there else select_path(frame, theirs)
        if given is None and name not in derived:
            lacking.append(pl.lit(None, dtype=field.dtype).alias(name))
            continue
        if given is None:
            column = make_nulls(name, frame.height, field.dtype)
        else:
            if name in wanted.numbers and field.kind is Kind.SCALAR:
                field = _choose_field(given, field)
            column = _read_column(given, field, problems, theirs, is_text=parse and is_there)
            column = column.alias(name)
        if name in derived:
            column = _complete(column, frame, problems, parse=parse)
        columns.append(column)
        if thorough and field.kind is Kind.NESTED:
            _look_inside(column, make_reader(name, wanted), problems, theirs)
    clean = pl.DataFrame(columns) if columns else pl.DataFrame(height=frame.height)
    clean = clean.with_columns(lacking).select(wanted.fields)
    numbers = range(first_row, first_row + frame.height)
    if not problems:
        return Batch(clean, numbers=numbers)
    keep = pl.Series(range(frame.height)).is_in(list(problems)).not_()
    rows = (
        BadRow(
            source=source,
            row=first_row + index,
            problem=problems[index],
            content=json.dumps(frame.row(index, named=True), default=str),
        )
        for index in sorted(problems)
    )
    kept = [number for number in numbers if number - first_row not in problems]
    return Batch(clean.filter(keep), tuple(rows), kept)


def _read_column(
    given: pl.Series,
    field: Field,
    problems: dict[int, str],
    theirs: str,
    among: pl.Series | None = None,
    *,
    is_text: bool,
) -> pl.Series:
    """Return the values as the field holds them; note those, or those `among` some, it refuses."""
    given = _drop_blanks(given, field) if is_text else given
    if field.kind is Kind.NAMES:
        column, bad = _convert_names(given, field)
    else:
        column, bad = _parse_cells(given, field) if is_text else _convert(given, field)
    for index in (bad if among is None else bad & among).arg_true():
        why = _explain_refusal(given[index], field, parse=is_text)
        problems.setdefault(index, f"{theirs}: {why}")
    return column


def _choose_field(column: pl.Series, field: Field) -> Field:
    """Return the field as it is measured: booleans if that is all there is, or numbers."""
    texts = column.dtype == pl.String and column.drop_nulls().str.to_lowercase()
    is_boolean = column.dtype == pl.Boolean or (
        isinstance(texts, pl.Series) and len(texts) > 0 and texts.is_in(_WORDS).all()
    )
    return Field(field.name, Kind.BOOLEAN if is_boolean else Kind.NUMBER)


def _complete(
    column: pl.Series, frame: pl.DataFrame, problems: dict[int, str], *, parse: bool
) -> pl.Series:
    """Fill a field from its alternatives, in the rows that lack it."""
    name = column.name
    if name not in SYNONYMS:
        column, wrong = complete_column(column, frame)
        for index, why in wrong.items():
            problems.setdefault(index, why)
        return column
    if (other := SYNONYMS[name]) not in frame.columns:
        return column
    lacking = column.is_null()
    values = _read_column(frame[other], FIELDS[name], problems, other, lacking, is_text=parse)
    return column.zip_with(~lacking, values.alias(name))


def _look_inside(texts: pl.Series, reader: Reader, problems: dict[int, str], theirs: str) -> None:
    """Add what is wrong inside nested values to the problems of their rows."""
    for index in texts.is_not_null().arg_true():
        try:
            reader.read(texts[index])
        except BadValue as problem:
            problems.setdefault(index, f"{theirs}: {problem}")


def _drop_blanks(cells: pl.Series, field: Field) -> pl.Series:
    """Return cells of CSV; an empty quoted one is a text, or null if the field takes no text."""
    if field.kind not in (Kind.NUMBER, Kind.BOOLEAN, Kind.NAMES, Kind.NESTED):
        return cells
    return cells.set(cells.str.strip_chars() == "", None)


def _convert(column: pl.Series, field: Field) -> tuple[pl.Series, pl.Series]:
    dtype = column.dtype
    if dtype.is_float():
        column = column.fill_nan(None)
    everything = column.is_not_null()
    nothing = everything & column.is_null()
    if field.kind is Kind.NUMBER:
        if dtype.is_numeric() or dtype == pl.Null:
            return _mark_outside(column.cast(pl.Float64), field)
        has_names = field.name == PROB_CORRECT and isinstance(dtype, pl.Struct)
        nulls = make_nulls(column.name, len(column), pl.Float64())
        return nulls, nothing if has_names else everything
    if field.kind is Kind.BOOLEAN:
        if dtype in (pl.Boolean, pl.Null):
            return column.cast(pl.Boolean), nothing
        return make_nulls(column.name, len(column), pl.Boolean()), everything
    if field.kind is Kind.SCALAR and (dtype.is_numeric() or dtype == pl.Boolean):
        return (column, nothing) if dtype == pl.Boolean else _convert_floats(column)
    texts = _convert_texts(column, field)
    return texts, everything & texts.is_null()


def _convert_floats(column: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return doubles, as JSON numbers are, so that both kinds of file give the same groups."""
    floats = column.cast(pl.Float64)
    if column.dtype.is_integer() and (floats.abs() >= _EXACT_WHOLE).any():
        return column, column.is_null() & column.is_not_null()
    return floats, floats.is_infinite().fill_null(value=False)


def _convert_texts(column: pl.Series, field: Field) -> pl.Series:
    """Return the column as text; null if the field does not take the value."""
    if column.dtype.is_float():
        return column.cast(pl.String).set(column.is_infinite(), None)
    if field.kind is Kind.TEXTS and column.dtype.is_nested():
        return pl.Series(column.name, [_read(value, field) for value in column], dtype=pl.String)
    takes_nested = field.kind in (Kind.ANY, Kind.NESTED) or field.name not in FIELDS
    if takes_nested and (column.dtype.is_nested() or column.dtype == pl.Object):
        texts = [
            None if value is None else json.dumps(_as_python(value), default=str)
            for value in column
        ]
        return pl.Series(column.name, texts, dtype=pl.String)
    if not (column.dtype.is_nested() or column.dtype in _NO_TEXT):
        return column.cast(pl.String)
    return make_nulls(column.name, len(column), pl.String())


def _read(value: Any, field: Field) -> str | None:
    try:
        text: str | None = field.read(_as_python(value))
    except BadValue:
        return None
    return text


def _parse_cells(column: pl.Series, field: Field) -> tuple[pl.Series, pl.Series]:
    if field.kind is Kind.NUMBER:
        numbers = column.str.strip_chars().cast(pl.Float64, strict=False)
        unread = column.is_not_null() & numbers.is_null()
        if field.name == PROB_CORRECT:  # several with names, as JSON, are read by their paths
            unread &= ~column.str.contains(r"^\s*\{").fill_null(value=False)
        numbers, outside = _mark_outside(numbers.fill_nan(None), field)
        return numbers, unread | outside
    if field.kind is Kind.BOOLEAN:
        words = column.str.strip_chars().str.to_lowercase()
        flags = words.replace_strict(_TRUTH, default=None, return_dtype=pl.Boolean)
        return flags, column.is_not_null() & flags.is_null()
    return column, column.is_null() & column.is_not_null()


def _convert_names(column: pl.Series, field: Field) -> tuple[pl.Series, pl.Series]:
    """Return lists of texts as JSON; unusual columns are read value by value."""
    nothing = column.is_null() & column.is_not_null()
    if column.dtype == pl.List(pl.String) and not column.list.contains(None).any():
        rows = column.alias("names").to_frame().select(pl.struct("names").struct.json_encode())
        texts = rows.to_series().str.slice(len('{"names":')).str.head(-1)
        return texts.set(column.is_null(), None), nothing
    if column.dtype == pl.String and column.str.contains(USUAL_NAMES).all():
        return column, nothing
    texts = pl.Series(column.name, [_read(value, field) for value in column], dtype=pl.String)
    return texts, column.is_not_null() & texts.is_null()


def _mark_outside(numbers: pl.Series, field: Field) -> tuple[pl.Series, pl.Series]:
    outside = numbers.to_frame("given").select(field.mark_outside(pl.col("given"))).to_series()
    return numbers, outside.fill_null(value=False)


def _as_python(value: Any) -> Any:
    return value.to_list() if isinstance(value, pl.Series) else value


def _explain_refusal(value: Any, field: Field, *, parse: bool) -> str:
    value = _as_python(value)
    if parse and field.kind is Kind.NUMBER:
        value = _as_number(value)
    try:
        field.read(value)
    except BadValue as problem:
        return str(problem)
    return f"{value!r} is not {field.kind.value}"


def _as_number(text: str) -> str:
    try:
        return text if math.isnan(float(text)) else Number(text.strip())
    except ValueError:
        return text
