"""Arize Phoenix: tables of spans (`get_spans_dataframe`), as CSV, JSON lines or Parquet.

A trace is a record, as in OpenTelemetry, which Phoenix's spans are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from calipers.records.any_rows import parse_cell
from calipers.records.logs.documents import Row, read_rows
from calipers.records.logs.log import Found, LogReader
from calipers.records.logs.otel import read_traces
from calipers.records.logs.shape import name_scores, read_number, read_score
from calipers.records.logs.spans import Span, list_spans
from calipers.support.registry import register

_ID = "context.trace_id"
_NESTED = "attributes."
_TIMES = ("start_time", "end_time")
_YEAR_2001 = 1e18  # nanoseconds since 1970
_SCORE = re.compile(r"(?:eval|annotation)\.(?P<name>.+)\.score")


def _matches(keys: Collection[str]) -> bool:
    return {"name", _ID, "context.span_id"} <= set(keys)


def _fits(document: Any) -> bool:
    first = document[0] if isinstance(document, list) and document else document
    return isinstance(first, dict) and _matches(first.keys())


def _read_span(row: Row) -> Iterator[Span]:
    attributes = {
        name.removeprefix(_NESTED): parse_cell(value)
        for name, value in row.items()
        if name.startswith(_NESTED) and value is not None
    }
    if row.get("span_kind") is not None:
        attributes.setdefault("openinference.span.kind", row["span_kind"])
    scores = {
        told["name"]: read_score(value)
        for name, value in row.items()
        if (told := _SCORE.fullmatch(name)) is not None
    }
    context = {"trace_id": row.get(_ID), "span_id": row.get("context.span_id")}
    named = {f"calipers.{name}": value for name, value in name_scores(scores).items()}
    plain = {name: value for name, value in row.items() if "." not in name}
    times = {name: _spell_time(plain[name]) for name in _TIMES if plain.get(name)}
    span = {**plain, **times, "context": context, "attributes": {**attributes, **named}}
    return list_spans(span)


def _spell_time(value: Any) -> str:
    """Return a time as OpenTelemetry writes it; pandas may count in milliseconds."""
    number = read_number(value)
    if number is None or number <= 0:
        return str(value)
    while number < _YEAR_2001:
        number *= 1_000
    return str(int(number))


def _read_records(path: Path, _: Collection[str]) -> Iterator[Found]:
    rows = read_rows(path, "", _matches)
    return read_traces(span for row, _ in rows for span in _read_span(row))


register(LogReader(name="Phoenix", fits=_fits, records=_read_records, tables=_matches))
