"""OpenTelemetry spans of the calls, in its GenAI conventions, where the program exports any."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from time import time_ns
from typing import Any

from calipers.suites import System

_USAGE = {
    "gen_ai.usage.output_tokens": ("completion_tokens",),
    "gen_ai.usage.cache_read.input_tokens": ("cache_read_tokens",),
    "gen_ai.usage.cache_creation.input_tokens": ("cache_write_tokens",),
    # Theirs are with the cache, ours without.
    "gen_ai.usage.input_tokens": ("prompt_tokens", "cache_read_tokens", "cache_write_tokens"),
}


class Tracing:
    """Writes a span per call; costs nothing where OpenTelemetry is not in use."""

    def __init__(self) -> None:
        self._tracer = _tracer()

    def record(self, system: System, record: Mapping[str, Any], seconds: float) -> None:
        """A span of a call that has just ended."""
        if self._tracer is None:
            return
        provider, _, model = (system.model or "").partition(":")
        operation = "chat" if model else "invoke_agent"
        attributes: dict[str, Any] = {"gen_ai.operation.name": operation}
        attributes["gen_ai.conversation.id"] = str(record.get("id"))
        if model:
            attributes |= {"gen_ai.provider.name": provider, "gen_ai.request.model": model}
        else:
            attributes["gen_ai.agent.name"] = system.name
        for name, fields in _USAGE.items():
            if record.get(fields[0]) is not None:
                attributes[name] = int(sum(record.get(field) or 0 for field in fields))
        if record.get("error") is not None:
            attributes["error.type"] = str(record["error"]).partition(":")[0]
        end = time_ns()
        span = self._tracer.start_span(
            f"{operation} {model or system.name}",
            attributes=attributes,
            start_time=end - int(seconds * 1e9),
        )
        span.end(end_time=end)


def _tracer() -> Any:
    """A tracer if somebody exports spans, else None; nothing is loaded to find that out."""
    asked = any(name.startswith("OTEL_") and "EXPORTER" in name for name in os.environ)
    if not asked and "opentelemetry.sdk.trace" not in sys.modules:
        return None
    try:
        from opentelemetry import trace  # noqa: PLC0415 (where it is installed)
    except ImportError:
        return None
    if asked:
        _configure()
    return trace.get_tracer("calipers")


def _configure() -> None:
    """Export as the environment says, unless the program has seen to that already."""
    try:
        from opentelemetry import trace  # noqa: PLC0415
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        return
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
