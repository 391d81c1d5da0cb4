"""Traces of OpenTelemetry and OpenInference: each is a record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from tests.records.log_files import agent_spans, written


@pytest.mark.parametrize("shape", ["envelope", "pretty", "lines of envelopes", "pretty spans"])
def test_a_trace_is_a_record_whose_tokens_count_once(tmp_path: Path, shape: str) -> None:
    spans = agent_spans()

    def enveloped(some: list[dict[str, Any]]) -> dict[str, Any]:
        return {"resourceSpans": [{"scopeSpans": [{"spans": some}]}]}

    path = tmp_path / ("t.jsonl" if shape == "lines of envelopes" else "t.json")
    if shape == "lines of envelopes":
        written(path, *(enveloped([span]) for span in reversed(spans)))
    elif shape == "pretty spans":  # as ConsoleSpanExporter writes them
        written(path, *reversed(spans), indent=4)
    else:
        written(path, enveloped(spans), indent=2 if shape == "pretty" else None)
    [record] = cal.read(path).to_dicts()
    assert record["id"] == "t1"
    assert (record["prompt_tokens"], record["completion_tokens"]) == (67, 13)
    assert record["cache_read_tokens"] == 40
    assert record["latency_ms"] == pytest.approx(19_000)
    trace = json.loads(record["trace"])
    assert [(call["tool_name"], call["agent_id"]) for call in trace["tool_calls"]] == [
        ("python", "coder")
    ]
    assert trace["agent_interactions"] == [{"from": "lead", "to": "coder", "type": "task_request"}]
    assert trace["agent_tasks"] == {"lead": 1, "coder": 1}
    assert {each["model"] for each in json.loads(record["usage"])} == {"gpt-4o", "gpt-4o-mini"}


def test_spans_of_python_and_of_openinference_trees_are_read(tmp_path: Path) -> None:
    python = {
        "name": "chat",
        "context": {"trace_id": "0xAB", "span_id": "0x1"},
        "parent_id": None,
        "start_time": "2025-01-01T00:00:00Z",
        "end_time": "2025-01-01T00:00:02Z",
        "status": {"status_code": "ERROR", "description": "too slow"},
        "attributes": {"gen_ai.usage.input_tokens": 3, "gen_ai.request.model": "m"},
    }
    tree = {
        "trace_id": "cd",
        "spans": [
            {
                "trace_id": "cd",
                "span_id": "1",
                "span_name": "main",
                "timestamp": "2025-01-01T00:00:00Z",
                "duration": "PT1M1.5S",
                "span_attributes": {},
                "child_spans": [
                    {
                        "trace_id": "cd",
                        "span_id": "2",
                        "parent_span_id": "1",
                        "span_name": "LLM",
                        "span_attributes": {
                            "openinference.span.kind": "LLM",
                            "llm.token_count.prompt": 5,
                            "llm.token_count.completion": 2,
                            "llm.model_name": "o3",
                        },
                        "child_spans": [],
                    }
                ],
            }
        ],
    }
    [one] = cal.read(written(tmp_path / "a.json", python, indent=1)).to_dicts()
    assert (one["id"], one["error"], one["latency_ms"]) == ("ab", "too slow", 2000)
    [other] = cal.read(written(tmp_path / "b.json", tree, indent=1)).to_dicts()
    assert (other["id"], other["model"], other["prompt_tokens"]) == ("cd", "o3", 5)
    assert other["duration_seconds"] == 61.5


def test_evaluations_in_a_trace_are_scores(tmp_path: Path) -> None:
    [span] = agent_spans()[1:2]
    span["events"] = [
        {
            "name": "gen_ai.evaluation.result",
            "attributes": [
                {"key": "gen_ai.evaluation.name", "value": {"stringValue": "relevance"}},
                {"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": 0.8}},
                {"key": "gen_ai.evaluation.score.label", "value": {"stringValue": "pass"}},
            ],
        }
    ]
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    [record] = cal.read(written(tmp_path / "a.json", document)).to_dicts()
    assert (record["passed"], record["score_relevance"]) == (True, 0.8)


def test_an_agent_that_alone_counts_tokens_is_counted(tmp_path: Path) -> None:
    [root] = agent_spans()[:1]
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [root]}]}]}
    assert cal.read(written(tmp_path / "a.json", document))["prompt_tokens"].to_list() == [999]


def test_spans_that_are_each_others_parents_are_read(tmp_path: Path) -> None:
    one, other = agent_spans()[1:3]
    one["parentSpanId"], other["parentSpanId"] = other["spanId"], one["spanId"]
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [one, other]}]}]}
    assert cal.read(written(tmp_path / "a.json", document))["prompt_tokens"].to_list() == [60]


def test_spans_of_a_run_of_ours_keep_the_names_of_its_records(tmp_path: Path) -> None:
    tracing = {"calipers.id": "sums/1", "calipers.model": "small", "calipers.run": 2}
    span = {
        "name": "chat m",
        "context": {"trace_id": "0xab", "span_id": "0x1"},
        "attributes": {"gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 3, **tracing},
    }
    [record] = cal.read(written(tmp_path / "a.json", span, indent=4)).to_dicts()
    assert (record["id"], record["model"], record["run"]) == ("sums/1", "small", 2)
