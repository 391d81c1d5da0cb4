"""Spans of OpenTelemetry in the shapes that exporters write, as one.

OTLP/JSON envelopes, the JavaScript and Python exporters' objects, and trees of spans whose children
are inside them; a file is one JSON, or one after another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from calipers.records.logs.parts import listed, mapping, number, objects, text, whole_number

_VALUES = ("stringValue", "boolValue", "doubleValue")
_DURATION = re.compile(r"PT(?:(?P<h>[\d.]+)H)?(?:(?P<m>[\d.]+)M)?(?:(?P<s>[\d.]+)S)?")
_FAILED = ("error", "status_code_error", "2")


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
    events: tuple[tuple[str, Mapping[str, Any]], ...] = field(default=())


def is_spans(document: Any) -> bool:
    """Say whether a JSON holds spans."""
    if isinstance(document, list):
        return bool(document) and is_spans(document[0])
    found = mapping(document)
    if "resourceSpans" in found or "resource_spans" in found:
        return True
    if isinstance(found.get("spans"), list):
        return bool(found["spans"]) and is_spans(found["spans"][0])
    span = _span(found)
    has_attributes = "attributes" in found or "span_attributes" in found
    return bool(has_attributes and span.name and span.id and span.trace)


def spans_in(document: Any) -> Iterator[Span]:
    """All spans of a JSON, parents before children."""
    if isinstance(document, list):
        for each in document:
            yield from spans_in(each)
        return
    found = mapping(document)
    resources = found.get("resourceSpans", found.get("resource_spans"))
    if resources is not None:
        for resource in objects(resources):
            for scope in objects(resource.get("scopeSpans", resource.get("scope_spans"))):
                for span in objects(scope.get("spans")):
                    yield _span(span)
    elif isinstance(found.get("spans"), list):
        yield from spans_in(found["spans"])
    elif found:
        yield _span(found)
        yield from spans_in(listed(found.get("child_spans")))


def _span(found: Mapping[str, Any]) -> Span:
    context = mapping(found.get("spanContext") or found.get("context"))
    start, seconds = _times(found)
    code, message = _status(found)
    return Span(
        trace=_id(_either(found, "traceId", "trace_id") or _either(context, "traceId", "trace_id")),
        id=_id(_either(found, "spanId", "span_id") or _either(context, "spanId", "span_id")),
        parent=_id(_parent(found)) or None,
        name=text(_either(found, "name", "span_name")) or "",
        start=start,
        seconds=seconds,
        attributes=_attributes(_either(found, "attributes", "span_attributes")),
        failed=code in _FAILED,
        message=message,
        events=tuple(
            (text(each.get("name")) or "", _attributes(each.get("attributes")))
            for each in objects(found.get("events"))
        ),
    )


def _either(found: Mapping[str, Any], *names: str) -> Any:
    return next((found[name] for name in names if found.get(name) is not None), None)


def _id(value: Any) -> str:
    return (text(value) or "").removeprefix("0x").lower()


def _parent(found: Mapping[str, Any]) -> Any:
    near = _either(found, "parentSpanId", "parent_span_id", "parent_id")
    return near or mapping(found.get("parentSpanContext")).get("spanId")


def _status(found: Mapping[str, Any]) -> tuple[str, str | None]:
    status = mapping(found.get("status"))
    code = _either(status, "code", "status_code") or found.get("status_code")
    message = _either(status, "message", "description") or found.get("status_message")
    return str(code or "").lower(), text(message) or None


def _attributes(found: Any) -> Mapping[str, Any]:
    """By name; OTLP has them in a list, each value with its type."""
    if isinstance(found, list):
        return {text(each.get("key")) or "": _value(each.get("value")) for each in objects(found)}
    return mapping(found)


def _value(value: Any) -> Any:
    typed = mapping(value)
    for name in _VALUES:
        if name in typed:
            return typed[name]
    if "intValue" in typed:
        return whole_number(typed["intValue"])
    if "arrayValue" in typed:
        return [_value(each) for each in listed(mapping(typed["arrayValue"]).get("values"))]
    if "kvlistValue" in typed:
        return dict(_attributes(listed(mapping(typed["kvlistValue"]).get("values"))))
    return None


def _times(found: Mapping[str, Any]) -> tuple[float | None, float | None]:
    start = _moment(_either(found, "startTimeUnixNano", "startTime", "start_time", "timestamp"))
    end = _moment(_either(found, "endTimeUnixNano", "endTime", "end_time"))
    if start is not None and end is not None:
        return start, max(0.0, end - start)
    return start, _duration(found.get("duration"))


def _moment(value: Any) -> float | None:
    """Seconds: nanoseconds since 1970, a pair of seconds and nanoseconds, or a date and time."""
    if isinstance(value, list) and len(value) == 2:  # noqa: PLR2004
        seconds, nano = number(value[0]), number(value[1])
        return None if seconds is None or nano is None else seconds + nano / 1e9
    if isinstance(value, str) and not value.isdecimal():
        try:
            return datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError):
            return None
    found = whole_number(value)
    return None if found is None else found / 1e9


def _duration(value: Any) -> float | None:
    if isinstance(value, str) and (parts := _DURATION.fullmatch(value)):
        return sum(
            float(part) * size
            for part, size in zip(parts.group("h", "m", "s"), (3600, 60, 1), strict=True)
            if part and part.replace(".", "", 1).isdigit()
        )
    if isinstance(value, list):
        return _moment(value)
    return None
