"""MLflow: tables of evaluations and of traces, and traces as `Trace.to_json` writes them."""

from __future__ import annotations

import json
from dataclasses import replace

from calipers.records.logs.log import Record
from calipers.records.logs.parts import as_mapping, list_objects, read_text, spell
from calipers.records.logs.shape import Row, Shape, look
from calipers.support.registry import register

_SCORES = r"(?P<name>.+?)(?:/v\d+)?/(?:score|value)"
_USED = "trace_metadata.mlflow.trace.tokenUsage | info.trace_metadata.mlflow.trace.tokenUsage"
_KIND = "attributes.mlflow.spanType | span_type | type"
_OF_TRACE = {
    "id": "client_request_id | info.client_request_id | trace_id | info.trace_id",
    "input": "request | info.trace_metadata.mlflow.traceInputs | info.request_preview",
    "answer": "response | info.trace_metadata.mlflow.traceOutputs | info.response_preview",
    "latency_ms": "execution_duration | execution_time_ms | info.execution_duration_ms"
    " | info.execution_time_ms",
    "duration_seconds": "execution_duration * 0.001 | info.execution_duration_ms * 0.001",
    "prompt_tokens": " | ".join(f"{place.strip()}.input_tokens" for place in _USED.split("|")),
    "completion_tokens": " | ".join(f"{place.strip()}.output_tokens" for place in _USED.split("|")),
}


def _read_trace(row: Row) -> Record:
    """Return what the spans and the assessments of a trace tell."""
    spans = list(list_objects(look(row, "spans | data.spans")))
    calls = [
        {
            "tool_name": name,
            "args": as_mapping(look(span, "attributes.mlflow.spanInputs | inputs")),
            "success": "ERROR" not in str(look(span, "status.code | status.status_code | status")),
        }
        for span in spans
        if str(look(span, _KIND)).strip('"') == "TOOL" and (name := read_text(span.get("name")))
    ]
    models = [read_text(look(span, "attributes.mlflow.llm.model")) for span in spans]
    failed = str(look(row, "state | info.state | status") or "").upper() == "ERROR"
    said = look(row, _OF_TRACE["answer"])
    assessed = list_objects(look(row, "assessments | info.assessments"))
    expected = (look(each, "expectation.value") for each in assessed)
    return {
        "answer": _unquote(said) if isinstance(said, str) else None,
        "model": next((each.strip('"') for each in models if each), None),
        "reference": next((spell(each) for each in expected if each is not None), None),
        "trace": {"tool_calls": calls} if calls else None,
        "error": "error" if failed else None,
    }


def _unquote(text: str) -> str | None:
    """Return the text whose JSON this is; None for anything else."""
    try:
        found = json.loads(text) if text.startswith('"') else None
    except ValueError:
        return None
    return found if isinstance(found, str) else None


_SHAPE = Shape(
    name="MLflow",
    has="inputs predictions | inputs outputs targets | inputs outputs ground_truth"
    " | inputs outputs expectations",
    fields={
        "input": "inputs",
        "answer": "outputs | predictions",
        "reference": "targets | ground_truth | expectations.expected_response | expectations",
        "latency_ms": "latency * 1000",
    },
    score_columns=_SCORES,
    scores="assessments",
)
register(_SHAPE.make_reader())
_TRACES = Shape(
    name="MLflow traces",
    has="trace_id request response assessments | trace_id request response spans"
    " | trace_id request response trace_metadata | request_id request response spans",
    fields=_OF_TRACE,
    scores="assessments | info.assessments",
    score_columns=_SCORES,
    more=_read_trace,
    left_behind=("trace", "spans", "data", "info"),
)
register(_TRACES.make_reader())
register(
    replace(
        _TRACES,
        name="MLflow trace files",
        has="info data",
        tells=lambda row: isinstance(as_mapping(row["data"]).get("spans"), list),
    ).make_reader()
)
