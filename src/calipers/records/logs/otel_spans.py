"""Spans of OpenTelemetry in the shapes that exporters write, as one.

OTLP/JSON envelopes, the JavaScript and Python exporters' objects, and trees of spans whose children
are inside them; a file is one JSON, or one after another. Spans are put together by trace, those of
a large log in files, not in memory.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Self
from zlib import crc32

from calipers.records.logs.parts import (
    as_list,
    as_mapping,
    as_number,
    list_objects,
    parse_number,
    read_text,
)

_VALUES = ("stringValue", "boolValue", "doubleValue")
_DURATION = re.compile(r"PT(?:(?P<h>[\d.]+)H)?(?:(?P<m>[\d.]+)M)?(?:(?P<s>[\d.]+)S)?")
_FAILED = ("error", "status_code_error", "2")
HELD = 128 << 20  # characters of spans that are held in memory
_PARTS = 64  # files, each read as a whole in the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One step of a trace."""

    trace: str
    id: str
    parent: str | None
    name: str
    start: float | None  # seconds
    seconds: float | None
    attributes: Mapping[str, Any]
    failed: bool
    message: str | None
    events: tuple[tuple[str, Mapping[str, Any]], ...] = ()


Trace = tuple[str, list[Span]]


def is_spans(document: Any) -> bool:
    """Return True if a JSON holds spans."""
    if isinstance(document, list):
        return bool(document) and is_spans(document[0])
    found = as_mapping(document)
    if "resourceSpans" in found or "resource_spans" in found:
        return True
    if isinstance(found.get("spans"), list):
        return bool(found["spans"]) and is_spans(found["spans"][0])
    span = _read_span(found)
    has_attributes = "attributes" in found or "span_attributes" in found
    return bool(has_attributes and span.name and span.id and span.trace)


def list_spans(document: Any) -> Iterator[Span]:
    """Yield all spans of a JSON document, parents before children."""
    if isinstance(document, list):
        for part in document:
            yield from list_spans(part)
        return
    found = as_mapping(document)
    resources = found.get("resourceSpans", found.get("resource_spans"))
    if resources is not None:
        for resource in list_objects(resources):
            for scope in list_objects(resource.get("scopeSpans", resource.get("scope_spans"))):
                for span in list_objects(scope.get("spans")):
                    yield _read_span(span)
    elif isinstance(found.get("spans"), list):
        yield from list_spans(found["spans"])
    elif found:
        yield _read_span(found)
        yield from list_spans(as_list(found.get("child_spans")))


def _read_span(found: Mapping[str, Any]) -> Span:
    context = as_mapping(found.get("spanContext") or found.get("context"))
    near = _get_first(found, "parentSpanId", "parent_span_id", "parent_id")
    start, seconds = _read_times(found)
    code, message = _read_status(found)
    return Span(
        trace=_read_id(*(_get_first(ids, "traceId", "trace_id") for ids in (found, context))),
        id=_read_id(*(_get_first(ids, "spanId", "span_id") for ids in (found, context))),
        parent=_read_id(near or as_mapping(found.get("parentSpanContext")).get("spanId")) or None,
        name=read_text(_get_first(found, "name", "span_name")) or "",
        start=start,
        seconds=seconds,
        attributes=_read_attributes(_get_first(found, "attributes", "span_attributes")),
        failed=code in _FAILED,
        message=message,
        events=tuple(
            (read_text(event.get("name")) or "", _read_attributes(event.get("attributes")))
            for event in list_objects(found.get("events"))
        ),
    )


def _get_first(found: Mapping[str, Any], *names: str) -> Any:
    return next((found[name] for name in names if found.get(name) is not None), None)


def _read_id(*values: Any) -> str:
    return (read_text(values[0] or values[-1]) or "").removeprefix("0x").lower()


def _read_status(found: Mapping[str, Any]) -> tuple[str, str | None]:
    status = as_mapping(found.get("status"))
    code = _get_first(status, "code", "status_code") or found.get("status_code")
    message = _get_first(status, "message", "description") or found.get("status_message")
    return str(code or "").lower(), read_text(message) or None


def _read_attributes(found: Any) -> Mapping[str, Any]:
    """Return attributes by name; OTLP has them in a list, each value with its type."""
    if isinstance(found, list):
        return {
            read_text(attribute.get("key")) or "": _read_value(attribute.get("value"))
            for attribute in list_objects(found)
        }
    return as_mapping(found)


def _read_value(value: Any) -> Any:
    typed = as_mapping(value)
    for name in _VALUES:
        if name in typed:
            return typed[name]
    if "intValue" in typed:
        return parse_number(typed["intValue"])
    if "arrayValue" in typed:
        values = as_mapping(typed["arrayValue"]).get("values")
        return [_read_value(item) for item in as_list(values)]
    if "kvlistValue" in typed:
        return dict(_read_attributes(as_list(as_mapping(typed["kvlistValue"]).get("values"))))
    return None


def _read_times(found: Mapping[str, Any]) -> tuple[float | None, float | None]:
    began = _get_first(found, "startTimeUnixNano", "startTime", "start_time", "timestamp")
    ended = _get_first(found, "endTimeUnixNano", "endTime", "end_time")
    start, end = _parse_time(began), _parse_time(ended)
    if start is not None and end is not None:
        return start, max(0.0, end - start)
    return start, _parse_duration(found.get("duration"))


def _parse_time(value: Any) -> float | None:
    """Return seconds, from nanoseconds since 1970, a pair of seconds and nanoseconds, or a date."""
    if isinstance(value, list) and len(value) == 2:  # noqa: PLR2004
        seconds, nano = as_number(value[0]), as_number(value[1])
        return None if seconds is None or nano is None else seconds + nano / 1e9
    if isinstance(value, str) and not value.isdecimal():
        try:
            return datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError):
            return None
    number = parse_number(value)
    return None if number is None else number / 1e9


def _parse_duration(value: Any) -> float | None:
    if isinstance(value, str) and (parts := _DURATION.fullmatch(value)):
        return sum(
            float(part) * size
            for part, size in zip(parts.group("h", "m", "s"), (3600, 60, 1), strict=True)
            if part and part.replace(".", "", 1).isdigit()
        )
    if isinstance(value, list):
        return _parse_time(value)
    return None


class TraceStore:
    """Collects spans in any order and returns them by trace."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._size = 0
        self._folder: TemporaryDirectory[str] | None = None
        self._files: list[IO[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, span: Span) -> None:
        """Keep a span."""
        self._spans.append(span)
        self._size += 500 + sum(
            len(value) for value in span.attributes.values() if isinstance(value, str | list)
        )
        if self._size > HELD:
            self._put_away()

    def list_traces(self) -> Iterator[tuple[Trace, float]]:
        """Yield each trace with its spans, and the share of all that is behind it."""
        if self._folder is None:
            yield from _group(self._spans, 0, 1)
            return
        self._put_away()
        for part, file in enumerate(self._files):
            file.seek(0)
            yield from _group([_load(line) for line in file], part, _PARTS)

    def _put_away(self) -> None:
        """Write what is held to the files, all spans of a trace to the same."""
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="calipers-")
            folder = Path(self._folder.name)
            self._files = [
                (folder / str(part)).open("w+", encoding="utf-8", errors="surrogatepass")
                for part in range(_PARTS)
            ]
        for span in self._spans:
            part = crc32(span.trace.encode("utf-8", "replace")) % _PARTS
            self._files[part].write(f"{json.dumps(asdict(span))}\n")
        self._spans, self._size = [], 0


def _group(spans: list[Span], part: int, parts: int) -> Iterator[tuple[Trace, float]]:
    traces: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        traces[span.trace].append(span)
    for place, trace in enumerate(traces.items(), start=1):
        yield trace, (part + place / len(traces)) / parts


def _load(line: str) -> Span:
    found: dict[str, Any] = json.loads(line)
    events = tuple((name, attributes) for name, attributes in found.pop("events"))
    return Span(**found, events=events)
