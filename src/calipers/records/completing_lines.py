"""The same as `completing`, for blocks of JSON lines that Polars reads in one call."""

from __future__ import annotations

from typing import Any

import polars as pl

from calipers.records.batch import CHECK, UnusualRows, Wanted
from calipers.records.completing import (
    DURATION,
    SYNONYMS,
    TIMES,
    TRACE,
    TRACE_PARTS,
    list_derived,
    parse_seconds_in,
    trace_text,
)
from calipers.records.fields import find_field
from calipers.records.trace_shape import AS_READ

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
        columns[TRACE] = pl.coalesce(TRACE, trace_text(parts))
    for name, other in SYNONYMS.items():
        if other in there and name in derived:
            columns[name] = pl.coalesce(columns[name], other)
            checks[f"{CHECK}{name}"] = find_field(name).mark_outside(columns[name]).any()
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
    parts = {each.name: each.dtype for each in AS_READ.fields} if TRACE in columns else {}
    if parts:
        trace = pl.struct(pl.col(TRACE).struct.field(name) for name in parts)
        columns[TRACE] = pl.when(pl.col(TRACE).is_not_null()).then(trace)
    return {TRACE: pl.Struct({**parts, **dict.fromkeys(TIMES, pl.String())})}


def _complete_durations(
    columns: Expressions, checks: Expressions, *places: tuple[pl.Expr, ...]
) -> None:
    """Add the seconds between the times of the first place that has both, and what is odd."""
    found = columns[DURATION]
    odd = find_field(DURATION).mark_outside(found)
    for start, end in places:
        lasted = parse_seconds_in(end) - parse_seconds_in(start)
        wrong = (start.is_not_null() & parse_seconds_in(start).is_null()) | (
            end.is_not_null() & parse_seconds_in(end).is_null()
        )
        odd |= found.is_null() & (wrong | (lasted < 0))
        found = pl.coalesce(found, lasted)
    columns[DURATION] = found
    checks[f"{CHECK}{DURATION}"] = odd.any()
