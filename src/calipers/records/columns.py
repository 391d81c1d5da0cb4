"""Convert typed columns to the record's types, and find the values that a field refuses."""

from __future__ import annotations

import json
import math
from typing import Any

import polars as pl

from calipers.records.batch import BadRow, Batch, Wanted, make_nulls, select_column, select_path
from calipers.records.derived_fields import (
    PASSAGE_NAMES,
    PASSAGES,
    SYNONYMS,
    complete_column,
    list_derived,
)
from calipers.records.fields import (
    FIELDS,
    PROB_CORRECT,
    USUAL_NAMES,
    BadValue,
    Field,
    Kind,
    Number,
    OutsideRange,
    find_field,
)
from calipers.records.rows import EXACT_WHOLE, Reader, make_reader, read_inside

_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_WORDS = ("true", "false")
_NO_TEXT = (pl.Binary, pl.Object, pl.Duration)


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
    columns: dict[str, pl.Series] = {}
    lacking: list[pl.Expr] = []  # one value each, whatever the number of rows
    problems = _Problems(nulls_outside=wanted.nulls_outside)
    derived = list_derived(wanted)
    for name in wanted.fields:
        field, theirs = find_field(name), wanted.get_name(name)
        is_there = theirs in frame.columns
        given = _select_given(frame, theirs)
        if given is None and name not in derived:
            lacking.append(pl.lit(None, dtype=field.dtype).alias(name))
            continue
        if given is None:
            column = make_nulls(name, frame.height, field.dtype)
        else:
            if field.kind is Kind.SCALAR:
                field = _choose_field(given, field, wanted)
            column = _read_column(given, field, problems, theirs, is_text=parse and is_there)
            column = column.alias(name)
        if name in derived:
            column = _complete(column, frame, problems, parse=parse)
        columns[name] = column  # by the name, which may be empty
        if thorough and field.kind is Kind.NESTED:
            columns[name] = _look_inside(column, make_reader(name, wanted), problems, theirs)
    clean = pl.DataFrame(columns) if columns else pl.DataFrame(height=frame.height)
    clean = clean.with_columns(lacking).select(map(select_column, wanted.fields))
    numbers = range(first_row, first_row + frame.height)
    if not (problems or problems.nulled):
        return Batch(clean, numbers=numbers)
    keep = pl.Series(range(frame.height)).is_in(list(problems)).not_()
    found = [(index, problem, False) for index, problem in problems.items()]
    found += [(index, problem, True) for index, problem in problems.nulled if index not in problems]
    rows = (
        BadRow(
            source=source,
            row=first_row + index,
            problem=problem,
            content=json.dumps(frame.row(index, named=True), default=str),
            stays=stays,
        )
        for index, problem, stays in sorted(found)
    )
    kept = [number for number in numbers if number - first_row not in problems]
    return Batch(clean.filter(keep), tuple(rows), kept)


class _Problems(dict[int, str]):
    """What is wrong with rows that are left out, and with values that become null."""

    def __init__(self, *, nulls_outside: bool) -> None:
        super().__init__()
        self.nulls_outside = nulls_outside
        self.nulled: list[tuple[int, str]] = []

    def add(self, index: int, problem: BadValue, theirs: str) -> bool:
        """Note what is wrong with a value; return True if it becomes null and its row stays."""
        if self.nulls_outside and isinstance(problem, OutsideRange):
            self.nulled.append((index, f"{theirs}: {problem}"))
            return True
        self.setdefault(index, f"{theirs}: {problem}")
        return False


def _select_given(frame: pl.DataFrame, theirs: str) -> pl.Series | None:
    """Return a column, or what is at a path; Polars reads a name such as ^x$ as a pattern."""
    given = frame[theirs] if theirs in frame.columns else select_path(frame, theirs)
    return None if given is None else given.alias("given")


def _read_column(
    given: pl.Series,
    field: Field,
    problems: _Problems,
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
    nulled = [
        index
        for index in (bad if among is None else bad & among).arg_true()
        if problems.add(index, _explain_refusal(given[index], field, parse=is_text), theirs)
    ]
    return column.scatter(nulled, None) if nulled else column


def _choose_field(column: pl.Series, field: Field, wanted: Wanted) -> Field:
    """Return the field as it is measured, or as it is read where other rows hold texts."""
    settled = (wanted.types or {}).get(field.name)
    if field.name in wanted.numbers:
        is_boolean = _holds_booleans(column) if settled is None else settled == pl.Boolean
        return Field(field.name, Kind.BOOLEAN if is_boolean else Kind.NUMBER)
    return Field(field.name, Kind.TEXT) if settled == pl.String else field


def find_column_kinds(frame: pl.DataFrame, name: str, wanted: Wanted) -> set[type]:
    """Return the kinds of values in a field of some rows, of which there may be none."""
    theirs = wanted.get_name(name)
    given = _select_given(frame, theirs)
    if given is None or given.null_count() == len(given):
        return set()
    if name in wanted.numbers:
        return {bool if _holds_booleans(given) else float}
    is_wide = name in wanted.keys and given.dtype.is_integer() and not _are_exact(given)
    return {str} if is_wide else classify_type(given.dtype)


def classify_type(dtype: pl.DataType) -> set[type]:
    """Return the kind of values in a column of this type, if it can hold any."""
    if dtype == pl.Null:
        return set()
    return {float} if dtype.is_numeric() else {bool} if dtype == pl.Boolean else {str}


def _are_exact(whole: pl.Series) -> bool:
    """Return True if doubles hold all of these whole numbers."""
    return not (whole.cast(pl.Float64).abs() >= EXACT_WHOLE).any()


def _holds_booleans(column: pl.Series) -> bool:
    """Return True if a column is of booleans, or of nothing but their words."""
    texts = column.dtype == pl.String and column.drop_nulls().str.to_lowercase()
    return column.dtype == pl.Boolean or (
        isinstance(texts, pl.Series) and len(texts) > 0 and bool(texts.is_in(_WORDS).all())
    )


def _complete(
    column: pl.Series, frame: pl.DataFrame, problems: _Problems, *, parse: bool
) -> pl.Series:
    """Fill a field from its alternatives, in the rows that lack it."""
    name = column.name
    others = PASSAGE_NAMES if name == PASSAGES else (SYNONYMS.get(name),)
    if others == (None,):
        column, wrong = complete_column(column, frame)
        for index, why in wrong.items():
            problems.setdefault(index, why)
        return column
    for other in others:
        if other in frame.columns:
            lacking = column.is_null()
            given = frame[other]
            values = _read_column(given, FIELDS[name], problems, other, lacking, is_text=parse)
            column = column.zip_with(~lacking, values.alias(name))
    return column


def _look_inside(texts: pl.Series, reader: Reader, problems: _Problems, theirs: str) -> pl.Series:
    """Add what is wrong inside nested values to the problems of their rows; return the values."""
    left: dict[int, Any] = {}
    for index in texts.is_not_null().arg_true():
        try:
            reader.read(texts[index])
        except BadValue as problem:
            if problems.add(index, problem, theirs):
                left[index] = read_inside(texts.name, texts[index])
    return texts.scatter([*left], pl.Series([*left.values()], dtype=texts.dtype)) if left else texts


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
    if column.dtype.is_integer() and not _are_exact(column):
        return column, column.is_null() & column.is_not_null()
    return floats, floats.is_infinite().fill_null(value=False)


def _convert_texts(column: pl.Series, field: Field) -> pl.Series:
    """Return the column as text; null if the field does not take the value."""
    if column.dtype.is_float():
        return column.cast(pl.String).set(column.is_infinite(), None)
    if field.kind is Kind.TEXTS and column.dtype.is_nested():
        return pl.Series(column.name, [_read(value, field) for value in column], dtype=pl.String)
    if field.kind is Kind.ITEMS and isinstance(column.dtype, pl.List):
        return _write_lists(column)
    takes_nested = field.kind in (Kind.ANY, Kind.ITEMS, Kind.NESTED) or field.name not in FIELDS
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
        return _write_lists(column), nothing
    if column.dtype == pl.String and column.str.contains(USUAL_NAMES).all():
        return column, nothing
    texts = pl.Series(column.name, [_read(value, field) for value in column], dtype=pl.String)
    return texts, column.is_not_null() & texts.is_null()


def _write_lists(column: pl.Series) -> pl.Series:
    """Return lists as JSON text."""
    rows = column.alias("names").to_frame().select(pl.struct("names").struct.json_encode())
    texts = rows.to_series().str.slice(len('{"names":')).str.head(-1)
    return texts.set(column.is_null(), None)


def _mark_outside(numbers: pl.Series, field: Field) -> tuple[pl.Series, pl.Series]:
    outside = numbers.to_frame("given").select(field.mark_outside(pl.col("given"))).to_series()
    return numbers, outside.fill_null(value=False)


def _as_python(value: Any) -> Any:
    return value.to_list() if isinstance(value, pl.Series) else value


def _explain_refusal(value: Any, field: Field, *, parse: bool) -> BadValue:
    value = _as_python(value)
    if parse and field.kind is Kind.NUMBER:
        value = _as_number(value)
    try:
        field.read(value)
    except BadValue as problem:
        return problem
    return BadValue(f"{value!r} is not {field.kind.value}")


def _as_number(text: str) -> str:
    try:
        return text if math.isnan(float(text)) else Number(text.strip())
    except ValueError:
        return text
