"""Fields that a record gives in another form: under another name, in parts, or as two times.

`input_tokens` and `output_tokens` are read as `prompt_tokens` and `completion_tokens`;
`contexts`, `retrieved_contexts` and the like as `passages`;
`tool_calls`, `agent_interactions` and `agent_tasks` at top level as a trace; `start_time` and
`end_time`, there or in the trace, as `duration_seconds`. The field itself takes precedence.

The rules stand here for single rows, for the columns of a table, and for blocks of JSON lines that
Polars reads in one call.

>>> complete_row({"input_tokens": 5, "start_time": 1.5, "end_time": 4}, DERIVED)["duration_seconds"]
2.5
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import date
from typing import Any

import polars as pl

from calipers.records.batch import CHECK, UnusualRows, Wanted
from calipers.records.fields import (
    FIELDS,
    BadValue,
    find_field,
    is_null,
    is_text,
    load_json,
    load_nested,
)
from calipers.records.nested_fields import TRACE_TYPE

SYNONYMS = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
PASSAGES = "passages"
PASSAGE_NAMES = (
    *("contexts", "retrieved_contexts", "retrieval_context", "context"),
    *("documents", "source_documents"),
)
TIMES = ("start_time", "end_time")
TRACE_PARTS = ("tool_calls", "agent_interactions", "agent_tasks")
DURATION, TRACE = "duration_seconds", "trace"
DERIVED = (*SYNONYMS, PASSAGES, TRACE, DURATION)

_INPUTS: Mapping[str, tuple[str, ...]] = {
    **{name: (other,) for name, other in SYNONYMS.items()},
    PASSAGES: PASSAGE_NAMES,
    TRACE: TRACE_PARTS,
    DURATION: (*TIMES, TRACE),
}
_NUMBER = r"^-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$"
_ISO = (
    r"^(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ](?P<hours>[01][0-9]|2[0-3]):(?P<minutes>[0-5][0-9])"
    r"(?::(?P<seconds>(?:[0-5][0-9]|60)(?:\.[0-9]{1,9})?))? ?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<off_hours>[01][0-9]|2[0-3]):?(?P<off_minutes>[0-5][0-9]))?$"
)
_IN_PYTHON = re.compile(_ISO)
_UNIX_DAY = date(1970, 1, 1).toordinal()
_LATEST = 1e14  # seconds: a larger number is not a time


def list_derived(wanted: Wanted) -> tuple[str, ...]:
    """Return the wanted fields that may be given in another way; a mapped one may not."""
    return tuple(name for name in DERIVED if name in wanted.fields and name not in wanted.map)


def list_source_names(wanted: Wanted) -> tuple[str, ...]:
    """Return the further names under which a record may give wanted fields."""
    return tuple(dict.fromkeys(column for name in list_derived(wanted) for column in _INPUTS[name]))


def list_derivable(columns: Collection[str]) -> tuple[str, ...]:
    """Return the fields that columns of these names give in another way."""
    given = (*SYNONYMS, PASSAGES, TRACE)
    names = [name for name in given if not set(_INPUTS[name]).isdisjoint(columns)]
    return (*names, *((DURATION,) if set(TIMES) <= set(columns) else ()))


def complete_row(row: Mapping[str, Any], names: Iterable[str]) -> Mapping[str, Any]:
    """Return a row with the fields that it gives in another form; raise BadValue for a bad one."""
    derived: dict[str, Any] = {}
    for name in names:
        if is_null(row.get(name)) and not row.keys().isdisjoint(_INPUTS[name]):
            value = _derive(row, name)
            if value is not None:
                derived[name] = value
    return {**row, **derived} if derived else row


def _derive(row: Mapping[str, Any], name: str) -> Any:
    if name in SYNONYMS:
        value = row.get(SYNONYMS[name])
        try:
            FIELDS[name].read(value)
        except BadValue as problem:
            raise type(problem)(f"{SYNONYMS[name]}: {problem}") from None
        return value
    if name == PASSAGES:
        return next((row[name] for name in PASSAGE_NAMES if not is_null(row.get(name))), None)
    if name == TRACE:
        parts = {part: row[part] for part in TRACE_PARTS if not is_null(row.get(part))}
        return {part: load_nested(parts[part], f"{part} is not JSON") for part in parts} or None
    return _measure_duration(row)


def _measure_duration(row: Mapping[str, Any]) -> float | None:
    """Return the seconds between the two times of a row, or else of its trace."""
    trace = row.get(TRACE)
    trace = load_json(trace) if is_text(trace) else trace  # its reader reports what is not JSON
    for within in (row, trace if isinstance(trace, Mapping) else {}):
        times = {name: within.get(name) for name in TIMES}
        if any(map(is_null, times.values())):
            continue  # one time alone tells no duration, and is not read
        start, end = (parse_seconds(value, name) or 0.0 for name, value in times.items())
        if end < start:
            raise BadValue("end_time is before start_time")
        return end - start
    return None


def parse_seconds(value: Any, name: str) -> float | None:
    """Return a time as seconds since 1970; raise BadValue unless a number or ISO 8601."""
    if is_null(value):
        return None
    number = _as_number(value)
    if number is not None and abs(number) <= _LATEST:
        return number
    match = _IN_PYTHON.match(value.strip(" ")) if isinstance(value, str) else None
    if match is None:
        raise BadValue(f"{name}: {str(value)[:60]} is not a time (seconds, or ISO 8601)")
    try:
        days = date.fromisoformat(match["date"]).toordinal() - _UNIX_DAY
    except ValueError:
        raise BadValue(f"{name}: {str(value)[:60]} is not a calendar date") from None
    minutes = int(match["hours"]) * 60 + int(match["minutes"])
    if match["sign"]:
        shift = int(match["off_hours"]) * 60 + int(match["off_minutes"])
        minutes -= shift if match["sign"] == "+" else -shift
    return float(days * 86400 + minutes * 60) + float(match["seconds"] or 0)


def _as_number(value: Any) -> float | None:
    if isinstance(value, str):
        text = value.strip(" ")
        return float(text) if re.match(_NUMBER, text) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    return None


def parse_seconds_in(text: pl.Expr) -> pl.Expr:
    """Return texts as seconds since 1970, as `parse_seconds` does; null if they are not times."""
    text = text.str.strip_chars(" ")
    number = pl.when(text.str.contains(_NUMBER)).then(text).cast(pl.Float64, strict=False)
    parts = text.str.extract_groups(_ISO)

    def read_whole(name: str) -> pl.Expr:
        return parts.struct.field(name).cast(pl.Int64, strict=False)

    day = parts.struct.field("date").str.to_date("%Y-%m-%d", strict=False)
    days = pl.when(day.dt.year() > 0).then(day.dt.epoch("d"))  # Python has no year 0
    shift = (read_whole("off_hours") * 60 + read_whole("off_minutes")).fill_null(0)
    shift = pl.when(parts.struct.field("sign") == "-").then(-shift).otherwise(shift)
    minutes = read_whole("hours") * 60 + read_whole("minutes") - shift
    seconds = parts.struct.field("seconds").cast(pl.Float64, strict=False).fill_null(0.0)
    seconds_told = (days.cast(pl.Int64) * 86400 + minutes * 60).cast(pl.Float64) + seconds
    return pl.when(number.abs() <= _LATEST).then(number).otherwise(seconds_told)


def build_trace_text(parts: Iterable[str]) -> pl.Expr:
    """Return the JSON text of a trace of these columns of JSON text; null where all are null."""
    keys = [
        pl.when(pl.col(part).is_not_null()).then(pl.format(f'"{part}": {{}}', part))
        for part in parts
    ]
    inside = pl.concat_str(keys, separator=", ", ignore_nulls=True)
    return pl.when(pl.any_horizontal(key.is_not_null() for key in keys)).then(
        pl.concat_str(pl.lit("{"), inside, pl.lit("}"))
    )


def complete_column(column: pl.Series, frame: pl.DataFrame) -> tuple[pl.Series, dict[int, str]]:
    """Return a trace or a duration where rows give it in another way, and what is wrong in which.

    The columns of `frame` are as the table has them; those of traces are JSON text or objects.
    """
    inputs = [name for name in _INPUTS[column.name] if name in frame.columns]
    lacking = column.is_null()
    if not inputs or not lacking.any():
        return column, {}
    if column.name == DURATION and set(TIMES) <= set(inputs):
        start, end = (_convert_times(frame[name]) for name in TIMES)
        seconds = (end - start).alias(DURATION)
        column = column.zip_with(~lacking | (seconds < 0).fill_null(value=False), seconds)
        lacking = column.is_null()
    given = frame.select(inputs)
    there = given.select(pl.any_horizontal(pl.all().is_not_null())).to_series()
    problems: dict[int, str] = {}
    values: dict[int, Any] = {}
    for index in (lacking & there).arg_true():
        row = {name: _as_json(value) for name, value in given.row(index, named=True).items()}
        try:
            value = complete_row(row, (column.name,)).get(column.name)
        except BadValue as problem:
            problems[index] = str(problem)
            continue
        if value is not None:
            values[index] = json.dumps(value, default=str) if isinstance(value, dict) else value
    if values:
        column = column.scatter(list(values), pl.Series([*values.values()], dtype=column.dtype))
    return column, problems


def _convert_times(times: pl.Series) -> pl.Series:
    """Return a column of times as seconds; null if one is not a time."""
    if times.dtype == pl.Datetime:
        return times.dt.epoch("us").cast(pl.Float64) / 1e6
    if times.dtype.is_numeric():
        return times.cast(pl.Float64).fill_nan(None)
    if times.dtype == pl.String:
        return times.to_frame("time").select(parse_seconds_in(pl.col("time"))).to_series()
    return pl.Series(times.name, [None] * len(times), dtype=pl.Float64)


def _as_json(value: Any) -> Any:
    """Return a value as in JSON: a table's time as ISO 8601."""
    if isinstance(value, pl.Series):
        return value.to_list()
    return value.isoformat() if hasattr(value, "isoformat") else value


MAYBE_UNESCAPED = r"^[\[{](?s:.*)[\x00-\x1f\\]"
"""Of all that JSON escapes in a text, Polars escapes no more than quotes and ends of lines in the
texts of a list or an object. So a backslash in one may be anything, and a tab breaks it."""

Expressions = dict[str, pl.Expr]


def complete_lines(
    data: bytes,
    wanted: Wanted,
    inputs: list[str],
    schema: dict[str, Any],
    columns: Expressions,
    checks: Expressions,
) -> pl.LazyFrame:
    """Read a block with what its rows give in another way, under the names `inputs`.

    Raises UnusualRows where only reading row by row can tell: `columns` and `checks` are what the
    block is read as without.
    """
    if not schema.keys().isdisjoint(inputs):
        raise UnusualRows  # wanted for themselves too, in a type of their own
    derived = list_derived(wanted)
    types = {name: pl.Float64 if name in SYNONYMS.values() else pl.String for name in inputs}
    frame = pl.read_ndjson(data, schema={**schema, **types})
    there = [name for name in inputs if frame[name].null_count() < frame.height]
    if parts := [name for name in TRACE_PARTS if name in there and TRACE in derived]:
        frame = pl.read_ndjson(data, schema={**schema, **types, TRACE: pl.String})
        unescaped = pl.any_horizontal(pl.col(TRACE, *parts).str.contains(MAYBE_UNESCAPED))
        checks[f"{CHECK}{TRACE}"] = unescaped.any()
        columns[TRACE] = pl.coalesce(TRACE, build_trace_text(parts))
    for name, other in SYNONYMS.items():
        if other in there and name in derived:
            columns[name] = pl.coalesce(columns[name], other)
            checks[f"{CHECK}{name}"] = find_field(name).mark_outside(columns[name]).any()
    others = [name for name in PASSAGE_NAMES if name in there]
    if others and PASSAGES in derived:
        columns[PASSAGES] = pl.coalesce(columns[PASSAGES], *others)
        checks[f"{CHECK}{PASSAGES}"] = columns[PASSAGES].str.contains(MAYBE_UNESCAPED).any()
    if DURATION in derived:
        if b'"trace"' in data and all(f'"{name}"'.encode() in data for name in TIMES):
            if parts:
                raise UnusualRows
            frame = pl.read_ndjson(data, schema={**schema, **types, **_add_times(columns)})
            _complete_durations(columns, checks, _TOP_LEVEL, _IN_TRACE)
        elif set(TIMES) <= set(there):
            _complete_durations(columns, checks, _TOP_LEVEL)
    return frame.lazy().select(**columns, **checks)


_TOP_LEVEL = tuple(pl.col(name) for name in TIMES)
_IN_TRACE = tuple(pl.col(TRACE).struct.field(name) for name in TIMES)


def _add_times(columns: Expressions) -> dict[str, pl.DataType]:
    """Return the type of a trace with its times; the column of traces stays without."""
    parts = {field.name: field.dtype for field in TRACE_TYPE.fields} if TRACE in columns else {}
    if parts:
        trace = pl.struct(pl.col(TRACE).struct.field(name) for name in parts)
        columns[TRACE] = pl.when(pl.col(TRACE).is_not_null()).then(trace)
    return {TRACE: pl.Struct({**parts, **dict.fromkeys(TIMES, pl.String())})}


def _complete_durations(
    columns: Expressions, checks: Expressions, *places: tuple[pl.Expr, ...]
) -> None:
    """Add the seconds between the times of the first place that has both, and what is odd."""
    durations = columns[DURATION]
    odd = find_field(DURATION).mark_outside(durations)
    for start, end in places:
        lasted = parse_seconds_in(end) - parse_seconds_in(start)
        wrong = (start.is_not_null() & parse_seconds_in(start).is_null()) | (
            end.is_not_null() & parse_seconds_in(end).is_null()
        )
        odd |= durations.is_null() & (wrong | (lasted < 0))
        durations = pl.coalesce(durations, lasted)
    columns[DURATION] = durations
    checks[f"{CHECK}{DURATION}"] = odd.any()
