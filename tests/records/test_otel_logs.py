"""Traces of OpenTelemetry and OpenInference: each is a record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from tests.records.log_files import make_agent_spans, write_texts


@pytest.mark.parametrize("shape", ["envelope", "pretty", "lines of envelopes", "pretty spans"])
def test_a_trace_is_a_record_whose_tokens_count_once(tmp_path: Path, shape: str) -> None:
    spans = make_agent_spans()

    def enveloped(some: list[dict[str, Any]]) -> dict[str, Any]:
        return {"resourceSpans": [{"scopeSpans": [{"spans": some}]}]}

    path = tmp_path / ("t.jsonl" if shape == "lines of envelopes" else "t.json")
    if shape == "lines of envelopes":
        write_texts(path, *(enveloped([span]) for span in reversed(spans)))
    elif shape == "pretty spans":  # as ConsoleSpanExporter writes them
        write_texts(path, *reversed(spans), indent=4)
    else:
        write_texts(path, enveloped(spans), indent=2 if shape == "pretty" else None)
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
    [one] = cal.read(write_texts(tmp_path / "a.json", python, indent=1)).to_dicts()
    assert (one["id"], one["error"], one["latency_ms"]) == ("ab", "too slow", 2000)
    [other] = cal.read(write_texts(tmp_path / "b.json", tree, indent=1)).to_dicts()
    assert (other["id"], other["model"], other["prompt_tokens"]) == ("cd", "o3", 5)
    assert other["duration_seconds"] == 61.5


def test_evaluations_in_a_trace_are_scores(tmp_path: Path) -> None:
    [span] = make_agent_spans()[1:2]
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
    [record] = cal.read(write_texts(tmp_path / "a.json", document)).to_dicts()
    assert (record["passed"], record["score_relevance"]) == (True, 0.8)


def test_an_agent_that_alone_counts_tokens_is_counted(tmp_path: Path) -> None:
    [root] = make_agent_spans()[:1]
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [root]}]}]}
    assert cal.read(write_texts(tmp_path / "a.json", document))["prompt_tokens"].to_list() == [999]


def test_spans_that_are_each_others_parents_are_read(tmp_path: Path) -> None:
    one, other = make_agent_spans()[1:3]
    one["parentSpanId"], other["parentSpanId"] = other["spanId"], one["spanId"]
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [one, other]}]}]}
    assert cal.read(write_texts(tmp_path / "a.json", document))["prompt_tokens"].to_list() == [60]


def test_spans_of_a_run_of_ours_keep_the_names_of_its_records(tmp_path: Path) -> None:
    tracing = {"calipers.id": "sums/1", "calipers.model": "small", "calipers.run": 2}
    span = {
        "name": "chat m",
        "context": {"trace_id": "0xab", "span_id": "0x1"},
        "attributes": {"gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 3, **tracing},
    }
    [record] = cal.read(write_texts(tmp_path / "a.json", span, indent=4)).to_dicts()
    assert (record["id"], record["model"], record["run"]) == ("sums/1", "small", 2)


def _span(number: int, parent: int | None, name: str, kind: str, **attributes: Any) -> Any:
    return {
        "name": name,
        "context": {"trace_id": "0x1", "span_id": f"0x{number}"},
        "parent_id": None if parent is None else f"0x{parent}",
        "start_time": f"2026-01-01T00:00:0{number}Z",
        "end_time": "2026-01-01T00:00:09Z",
        "status": {"status_code": "OK"},
        "attributes": {
            "openinference.span.kind": kind,
            **{key.replace("__", "."): value for key, value in attributes.items()},
        },
    }


def test_a_trace_of_langgraph_has_its_texts_and_its_agent(tmp_path: Path) -> None:
    def message(kind: str, content: str) -> dict[str, Any]:
        return {"type": kind, "data": {"content": content, "type": kind}}

    asked = {"messages": [{"role": "user", "content": "2 + 2?"}]}
    said = {
        "messages": [message("human", "2 + 2?"), message("tool", "4"), message("ai", "It is 4")]
    }
    wrapped = {"lc": 1, "id": ["langchain", "schema", "messages", "AIMessage"]}
    last = {**wrapped, "kwargs": {"content": "It is 4", "type": "ai"}}
    told = json.dumps({"lc_agent_name": "adder"})
    spans = [
        _span(1, None, "adder", "CHAIN", input__value=json.dumps(asked), metadata=told)
        | {"end_time": "2026-01-01T00:00:09Z"},
        _span(2, 1, "model", "CHAIN", metadata=told),
        _span(
            *(3, 2, "M", "LLM"),
            output__value=json.dumps({"generations": [[{"text": "", "message": last}]]}),
            llm__token_count__prompt=10,
            llm__token_count__completion=3,
        ),
        _span(4, 1, "add", "TOOL", tool__name="add", input__value='{"a": 2}', metadata=told),
    ]
    without = cal.read(write_texts(tmp_path / "a.jsonl", *spans)).to_dicts()[0]
    assert (without["input"], without["answer"]) == ("2 + 2?", "It is 4")  # of the last call
    spans[0]["attributes"]["output.value"] = json.dumps(said)
    record = cal.read(write_texts(tmp_path / "b.jsonl", *spans)).to_dicts()[0]
    assert (record["input"], record["answer"], record["prompt_tokens"]) == ("2 + 2?", "It is 4", 10)
    trace = json.loads(record["trace"])
    assert trace["agent_tasks"] == {"adder": 1}
    [call] = trace["tool_calls"]
    assert (call["tool_name"], call["args"], call["agent_id"]) == ("add", {"a": 2}, "adder")


def test_the_workflow_around_agents_is_no_agent(tmp_path: Path) -> None:
    spans = [
        _span(1, None, "Agent workflow", "AGENT"),
        _span(2, 1, "triage", "AGENT", agent__name="triage"),
        _span(3, 2, "handoff to solver", "TOOL", input__value="triage"),
        _span(4, 1, "solver", "AGENT", agent__name="solver"),
        _span(5, 4, "plus", "TOOL", tool__name="plus", input__value='{"a": 2}'),
    ]
    trace = json.loads(cal.read(write_texts(tmp_path / "a.jsonl", *spans))["trace"][0])
    assert trace["agent_tasks"] == {"triage": 1, "solver": 1}
    assert trace["agent_interactions"] == [{"from": "triage", "to": "solver", "type": "handoff"}]
    assert [call["tool_name"] for call in trace["tool_calls"]] == ["plus"]


def test_attributes_of_the_root_are_kept_to_join_on(tmp_path: Path) -> None:
    spans = [_span(1, None, "run", "CHAIN", task_id="q7", metadata='{"dataset": "d"}')]
    path = write_texts(tmp_path / "a.jsonl", *spans)
    record = cal.read(path).to_dicts()[0]
    assert (record["task_id"], record["dataset"]) == ("q7", "d")
    tasks = write_texts(tmp_path / "tasks.jsonl", {"task_id": "q7", "target": "4"})
    assert cal.read(path, join=tasks, on="task_id")["target"].to_list() == ["4"]


def test_spans_of_a_large_log_wait_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = [
        {**each, "traceId": f"t{number}"} for number in range(20) for each in make_agent_spans()
    ]
    spans = [*spans[::2], *spans[1::2]]  # those of a trace apart
    path = write_texts(tmp_path / "a.jsonl", *spans)
    held = cal.read(path).sort("id")
    monkeypatch.setattr("calipers.records.logs.otel_spans.HELD", 1_000)
    assert cal.read(path).sort("id").equals(held)
    assert held.height == 20
