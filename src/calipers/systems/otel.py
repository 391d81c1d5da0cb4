"""OpenTelemetry: spans of our calls are exported, and spans that systems emit become traces.

`Tracing` writes a span per call in the GenAI conventions, where the program exports any.
`SpanCollector` keeps the spans that a function or an agent emits during a call: they belong to the
call in whose context they begin, so that concurrent calls stay apart. Nothing of OpenTelemetry is
imported until it is used.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from threading import Lock
from time import time_ns
from typing import Any
from urllib.parse import urlsplit

from calipers.records.fields import BILLED_TOKENS
from calipers.support.errors import UsageError
from calipers.systems.calls import Reply
from calipers.systems.spec import SystemSpec

_MOST_SPANS = 10_000  # spans of a call
_TOKENS = (*BILLED_TOKENS, "reasoning_tokens")


@dataclass(slots=True)
class _CallSpans:
    """The spans of one call, as long as it lasts."""

    spans: list[Any] = field(default_factory=list)
    is_over: bool = False


_CALL: ContextVar[_CallSpans | None] = ContextVar("calipers_call", default=None)


@dataclass(frozen=True, slots=True)
class WatchedResult:
    """What a call gave, and the spans that it emitted."""

    value: Any
    spans: list[Any]


class SpanCollector:
    """A span processor of OpenTelemetry's that keeps each span for the call it is of."""

    def __init__(self) -> None:
        self._owners: dict[int, _CallSpans] = {}
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
            if owner is not None and not owner.is_over and len(owner.spans) < _MOST_SPANS:
                owner.spans.append(span)

    def shutdown(self) -> None:
        """Do nothing: the spans are with their calls."""

    def force_flush(self, timeout_millis: int = 0) -> bool:
        """Return True: nothing is buffered."""
        return timeout_millis >= 0

    def _on_ending(self, span: Any) -> None:
        """Do nothing before a span ends."""

    def watch(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function wrapped to return a `WatchedResult`."""

        async def awaited(reply: Awaitable[Any], kept: _CallSpans) -> WatchedResult:
            before = _CALL.set(kept)
            try:
                return self._close_call(await reply, kept)
            finally:
                kept.is_over = True
                _CALL.reset(before)

        def called(*args: Any) -> Any:
            kept = _CallSpans()
            before = _CALL.set(kept)
            try:
                made = function(*args)
            finally:
                _CALL.reset(before)
            return (
                awaited(made, kept) if inspect.isawaitable(made) else self._close_call(made, kept)
            )

        async def called_async(*args: Any) -> WatchedResult:
            return await awaited(function(*args), _CallSpans())

        return called_async if inspect.iscoroutinefunction(function) else called

    def _close_call(self, value: Any, kept: _CallSpans) -> WatchedResult:
        """Close a call; spans that are still open are not waited for."""
        with self._lock:
            kept.is_over = True
            self._owners = {k: owner for k, owner in self._owners.items() if owner is not kept}
        return WatchedResult(value, kept.spans)


def add_spans(reply: Reply, spans: list[Any]) -> Reply:
    """Return a reply with the trace that spans tell, and their tokens where it has none itself."""
    if not spans:
        return reply
    from calipers.records.logs.opentelemetry import make_trace_record  # noqa: PLC0415 (only where spans are kept)
    from calipers.records.logs.otel_spans import list_spans  # noqa: PLC0415

    trace = make_trace_record(
        [read_span for span in spans for read_span in list_spans(json.loads(span.to_json()))]
    )
    fields = {name: trace[name] for name in ("trace",) if trace.get(name) is not None}
    if not any(reply.fields.get(name) is not None for name in _TOKENS):
        fields |= {name: trace[name] for name in _TOKENS if trace.get(name) is not None}
    return replace(reply, fields={**reply.fields, **fields})


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


_USAGE = {
    "gen_ai.usage.output_tokens": ("completion_tokens",),
    "gen_ai.usage.cache_read.input_tokens": ("cache_read_tokens",),
    "gen_ai.usage.cache_creation.input_tokens": ("cache_write_tokens",),
    # Their counts include cached tokens, ours do not.
    "gen_ai.usage.input_tokens": ("prompt_tokens", "cache_read_tokens", "cache_write_tokens"),
}


# Their names of providers, where pydantic-ai's differ.
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "google-cloud": "gcp.vertex_ai",
    "google-vertex": "gcp.vertex_ai",
    "grok": "x_ai",
    "mistral": "mistral_ai",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "xai": "x_ai",
}
_REQUEST = (
    *("temperature", "top_p", "top_k", "max_tokens", "seed"),
    *("frequency_penalty", "presence_penalty"),
)
_OURS = ("id", "model", "tier", "variant", "run", "attempts")


class SpanExporter:
    """Writes a span per call; costs nothing where OpenTelemetry is not in use."""

    def __init__(self) -> None:
        self._tracer = _find_tracer()

    def record(
        self,
        system: SystemSpec,
        record: Mapping[str, Any],
        seconds: float,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Export a span of a call that has just ended, its attempts and the waits between them."""
        if self._tracer is None:
            return
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415 (is there)

        ours = {f"calipers.{name}": record.get(name) for name in _OURS}
        attributes = {**_describe_call(system, settings or {}), **_read_usage(record)}
        attributes |= {name: value for name, value in ours.items() if value is not None}
        end = time_ns()
        operation = attributes["gen_ai.operation.name"]
        named = attributes.get("gen_ai.request.model", system.name)
        span = self._tracer.start_span(
            f"{operation} {named}",
            kind=SpanKind.CLIENT if system.python is None else SpanKind.INTERNAL,
            attributes=attributes,
            start_time=end - int(seconds * 1e9),
        )
        if record.get("finish_reason") is not None:
            span.set_attribute("gen_ai.response.finish_reasons", [str(record["finish_reason"])])
        if record.get("error") is not None:
            kind, _, message = str(record["error"]).partition(": ")
            span.set_attribute("error.type", kind)
            span.set_status(Status(StatusCode.ERROR, message))
        span.end(end_time=end)


def _describe_call(system: SystemSpec, settings: Mapping[str, Any]) -> dict[str, Any]:
    provider, _, model = (system.model or "").partition(":")
    places = system.urls or [system.http or ""]
    url = urlsplit(places[0] if len(places) == 1 else "")  # of several it could be any
    call: dict[str, Any] = {"gen_ai.operation.name": "chat" if model else "invoke_agent"}
    if model:
        name = _PROVIDERS.get(provider, provider)
        call |= {"gen_ai.provider.name": name, "gen_ai.request.model": model}
        asked = {f"gen_ai.request.{name}": settings.get(name) for name in _REQUEST}
        call |= {name: value for name, value in asked.items() if isinstance(value, int | float)}
    else:
        call["gen_ai.agent.name"] = system.name
    if url.hostname:
        call["server.address"] = url.hostname
        call["server.port"] = url.port or (443 if url.scheme == "https" else 80)
    return call


def _read_usage(record: Mapping[str, Any]) -> dict[str, int]:
    return {
        name: int(sum(record.get(field) or 0 for field in fields))
        for name, fields in _USAGE.items()
        if record.get(fields[0]) is not None
    }


def _find_tracer() -> Any:
    """Return a tracer if somebody exports spans, else None; nothing is imported to find out."""
    asked = any(name.startswith("OTEL_") and "EXPORTER" in name for name in os.environ)
    if not asked and "opentelemetry.sdk.trace" not in sys.modules:
        return None
    try:
        from opentelemetry import trace  # noqa: PLC0415 (where it is installed)
    except ImportError:
        return None
    if asked:
        with suppress(ImportError):
            _configure(trace)
    return trace.get_tracer("calipers")


def _configure(trace: Any) -> None:
    """Set up the exporter that the environment names, unless the program has one already."""
    from opentelemetry.exporter.otlp.proto.http import trace_exporter  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(trace_exporter.OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
