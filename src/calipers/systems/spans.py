"""The OpenTelemetry spans that a function or an agent emits during a call: the record's trace.

Spans belong to the call in whose context they begin, so that calls beside each other stay apart;
threads and tasks that carry the context on belong to it too.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import field, replace
from functools import cache
from threading import Lock
from typing import Any

from calipers.support.errors import UsageError
from calipers.support.quick_dataclasses import dataclass
from calipers.systems.calls import Reply

_MOST = 10_000  # spans of a call
_TOKENS = (
    *("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens"),
    "reasoning_tokens",
)


@dataclass(slots=True)
class _Kept:
    """The spans of one call, as long as it lasts."""

    spans: list[Any] = field(default_factory=list)
    is_over: bool = False


_CALL: ContextVar[_Kept | None] = ContextVar("calipers_call", default=None)


@dataclass(frozen=True, slots=True)
class Watched:
    """What a call gave, and the spans that it emitted."""

    value: Any
    spans: list[Any]


class SpanCollector:
    """A span processor of OpenTelemetry's that keeps each span for the call it is of."""

    def __init__(self) -> None:
        self._owners: dict[int, _Kept] = {}
        self._lock = Lock()

    def on_start(self, span: Any, parent_context: Any = None) -> None:  # noqa: ARG002 (theirs)
        """Note whose call a span is of: that of its context, else that of its parent."""
        parent = getattr(span, "parent", None)
        owner = _CALL.get() or (None if parent is None else self._owners.get(parent.span_id))
        if owner is not None:
            with self._lock:
                self._owners[span.context.span_id] = owner

    def on_end(self, span: Any) -> None:
        """Keep a span that is over, unless its call was over before."""
        with self._lock:
            owner = self._owners.pop(span.context.span_id, None)
            if owner is not None and not owner.is_over and len(owner.spans) < _MOST:
                owner.spans.append(span)

    def shutdown(self) -> None:
        """Do nothing: the spans are with their calls."""

    def force_flush(self, timeout_millis: int = 0) -> bool:
        """Say that nothing is held back."""
        return timeout_millis >= 0

    def _on_ending(self, span: Any) -> None:
        """Do nothing before a span ends."""

    def watch(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that gives what this one does, `Watched`."""

        async def awaited(found: Awaitable[Any], kept: _Kept) -> Watched:
            before = _CALL.set(kept)
            try:
                return self._close_call(await found, kept)
            finally:
                kept.is_over = True
                _CALL.reset(before)

        def called(*args: Any) -> Any:
            kept = _Kept()
            before = _CALL.set(kept)
            try:
                found = function(*args)
            finally:
                _CALL.reset(before)
            return (
                awaited(found, kept)
                if inspect.isawaitable(found)
                else self._close_call(found, kept)
            )

        async def called_async(*args: Any) -> Watched:
            return await awaited(function(*args), _Kept())

        return called_async if inspect.iscoroutinefunction(function) else called

    def _close_call(self, value: Any, kept: _Kept) -> Watched:
        """Close a call; spans that are still open are not waited for."""
        with self._lock:
            kept.is_over = True
            self._owners = {k: each for k, each in self._owners.items() if each is not kept}
        return Watched(value, kept.spans)


def add_spans(reply: Reply, spans: list[Any]) -> Reply:
    """Return a reply with the trace that spans tell, and their tokens where it has none itself."""
    if not spans:
        return reply
    from calipers.records.logs.otel import record_of  # noqa: PLC0415 (only where spans are kept)
    from calipers.records.logs.spans import list_spans  # noqa: PLC0415

    told = record_of([each for span in spans for each in list_spans(json.loads(span.to_json()))])
    found = {name: told[name] for name in ("trace",) if told.get(name) is not None}
    if not any(reply.fields.get(name) is not None for name in _TOKENS):
        found |= {name: told[name] for name in _TOKENS if told.get(name) is not None}
    return replace(reply, fields={**reply.fields, **found})


def open_collector() -> SpanCollector:
    """Return the collector of this process's tracer provider; one is made where there is none.

    Raises:
        UsageError: OpenTelemetry's SDK is not installed.
    """
    try:
        from opentelemetry import trace  # noqa: PLC0415 (where it is installed)
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    except ImportError:
        raise UsageError(
            "otel: true needs OpenTelemetry's SDK", fix="pip install opentelemetry-sdk"
        ) from None
    provider = trace.get_tracer_provider()
    if not hasattr(provider, "add_span_processor"):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    return _add_collector(provider)


@cache
def _add_collector(provider: Any) -> SpanCollector:
    collector = SpanCollector()
    provider.add_span_processor(collector)
    return collector
