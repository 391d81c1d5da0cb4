"""OpenTelemetry spans of the calls, in its GenAI conventions, where the program exports any."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from time import time_ns
from typing import Any
from urllib.parse import urlsplit

from calipers.systems.spec import SystemSpec

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
_OURS = ("id", "model", "tier", "run", "attempts")


class Tracing:
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
    found: dict[str, Any] = {"gen_ai.operation.name": "chat" if model else "invoke_agent"}
    if model:
        name = _PROVIDERS.get(provider, provider)
        found |= {"gen_ai.provider.name": name, "gen_ai.request.model": model}
        asked = {f"gen_ai.request.{name}": settings.get(name) for name in _REQUEST}
        found |= {name: value for name, value in asked.items() if isinstance(value, int | float)}
    else:
        found["gen_ai.agent.name"] = system.name
    if url.hostname:
        found["server.address"] = url.hostname
        found["server.port"] = url.port or (443 if url.scheme == "https" else 80)
    return found


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
