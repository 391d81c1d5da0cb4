"""Spans of calls, where OpenTelemetry is in use."""

from __future__ import annotations

from typing import Any

import pytest

from calipers.runner.tracing import Tracing
from calipers.suites import System


class Tracer:
    def __init__(self) -> None:
        self.spans: list[tuple[str, dict[str, Any]]] = []

    def start_span(self, name: str, *, attributes: dict[str, Any], start_time: int) -> Tracer:
        self.spans.append((name, attributes))
        self.started = start_time
        return self

    def end(self, end_time: int) -> None:
        self.lasted = end_time - self.started


def test_a_call_is_a_span_in_the_genai_conventions(monkeypatch: pytest.MonkeyPatch) -> None:
    tracer = Tracer()
    monkeypatch.setattr("calipers.runner.tracing._tracer", lambda: tracer)
    record = {"id": "t", "prompt_tokens": 5, "cache_read_tokens": 2, "completion_tokens": 3}
    Tracing().record(System(name="mini", model="openai:tiny"), record, 0.5)
    failed = {"id": "t", "error": "timeout: no reply"}
    Tracing().record(System(name="agent", command=["a"]), failed, 0.1)
    assert tracer.lasted == pytest.approx(1e8)
    (chat, of_chat), (agent, of_agent) = tracer.spans
    assert (chat, agent) == ("chat tiny", "invoke_agent agent")
    assert of_chat["gen_ai.usage.input_tokens"] == 7  # with the cache
    assert of_chat["gen_ai.usage.output_tokens"] == 3
    assert of_chat["gen_ai.provider.name"] == "openai"
    assert of_agent["error.type"] == "timeout"


def test_without_an_exporter_nothing_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER"):
        monkeypatch.delenv(name, raising=False)
    Tracing().record(System(name="mini", model="openai:tiny"), {}, 0.0)
