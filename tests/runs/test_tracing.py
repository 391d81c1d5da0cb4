"""Spans of calls, by OpenTelemetry's own SDK, where it is in use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.model_server import ModelServer
from calipers.systems.otel import SpanExporter
from calipers.systems.spec import SystemSpec
from tests.runs.suites_at_hand import ANSWER, chat, suite_folder, sums

pytestmark = pytest.mark.usefixtures("quick")

KEY = "planted-key-4711"


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What the SDK would send."""
    reason = "opentelemetry-sdk is not installed"
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason=reason)
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import (  # noqa: PLC0415
        InMemorySpanExporter,
    )

    exporter = InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


def by_task(exporter: Any) -> dict[str, Any]:
    return {span.attributes["calipers.id"]: span for span in exporter.get_finished_spans()}


def test_a_call_is_a_span_in_the_genai_conventions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exported: Any
) -> None:
    monkeypatch.setenv("MINI_KEY", KEY)
    server = ModelServer(latency=0.02)
    with server.in_thread() as url:
        system = chat(url, api_key_env="MINI_KEY", settings={"temperature": 0, "max_tokens": 99})
        tasks = [*sums(1), {"id": "late", "input": "1 [[500, drop]]"}]
        tasks += [{"id": "bad", "input": "2 [[leak]]"}]
        suite = suite_folder(tmp_path, tasks, [system], answer=ANSWER)
        assert suite.run().exit_code == 3
        port = int(url.rpartition(":")[2].removesuffix("/v1"))
    spans = by_task(exported)
    assert set(spans) == {"t0", "late", "bad"}
    good = spans["t0"]
    assert (good.name, good.kind.name, good.status.status_code.name) == (
        *("chat tiny", "CLIENT", "UNSET"),
    )
    assert dict(good.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "tiny",
        "gen_ai.request.temperature": 0,
        "gen_ai.request.max_tokens": 99,
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 11,
        "gen_ai.response.finish_reasons": ("stop",),
        "server.address": "127.0.0.1",
        "server.port": port,
        "calipers.id": "t0",
        "calipers.model": "mini",
        "calipers.run": 1,
    }
    assert good.end_time - good.start_time >= 0.02e9
    late, bad = spans["late"], spans["bad"]
    assert late.attributes["calipers.attempts"] == 3
    assert late.end_time - late.start_time >= 0.06e9  # all attempts
    assert bad.attributes["error.type"] == "bad_request"
    assert bad.status.status_code.name == "ERROR"
    assert KEY not in "".join(span.to_json() for span in spans.values())


def test_names_are_those_of_the_conventions(exported: Any) -> None:
    semconv = pytest.importorskip("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    known = {value for name, value in vars(semconv).items() if name.startswith("GEN_AI_")}
    providers = {each.value for each in semconv.GenAiProviderNameValues}
    record = {"id": "t", "prompt_tokens": 5, "cache_read_tokens": 2, "cache_write_tokens": 1}
    record |= {"completion_tokens": 3}
    settings: dict[str, Any] = {"temperature": 1, "top_p": 0.5, "top_k": 3, "max_tokens": 9}
    settings |= {"frequency_penalty": 0.1, "presence_penalty": 0.1, "stop_sequences": ["x"]}
    settings |= {"seed": 4}
    tracing = SpanExporter()
    for model in ("google:a", "bedrock:a", "mistral:a", "anthropic:a", "openai-responses:a"):
        tracing.record(SystemSpec(name="m", model=model), record, 0.1, settings)
    tracing.record(SystemSpec(name="agent", command=["a"]), {"error": "timeout: no reply"}, 0.1)
    tracing.record(SystemSpec(name="f", python="a.py:f"), {}, 0.1)
    *models, agent, function = exported.get_finished_spans()
    for span in models:
        assert {name for name in span.attributes if name.startswith("gen_ai.")} <= known
        assert span.attributes["gen_ai.provider.name"] in providers
        assert span.attributes["gen_ai.usage.input_tokens"] == 8  # with the cache
    assert (agent.name, agent.attributes["error.type"]) == ("invoke_agent agent", "timeout")
    assert function.kind.name == "INTERNAL"


def test_without_an_exporter_nothing_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER"):
        monkeypatch.delenv(name, raising=False)
    SpanExporter().record(SystemSpec(name="mini", model="openai:tiny"), {}, 0.0)
