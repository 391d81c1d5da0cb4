"""Exports of observability platforms: Braintrust, Langfuse, LangSmith, MLflow and W&B Weave.

Each is a `Shape`, a table of paths. Braintrust: rows of experiments and logs. Langfuse: traces and
observations. LangSmith: runs, and the tables of experiments. MLflow: tables of evaluations and of
traces, and traces as `Trace.to_json` writes them. Weave: calls, of which those of an evaluation are
the records where there are any.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime
from typing import Any

from calipers.records.logs.log import Record
from calipers.records.logs.parts import (
    ASSISTANT,
    USER,
    as_mapping,
    find_last_said,
    format_text,
    list_objects,
    read_text,
)
from calipers.records.logs.shape import (
    Row,
    Shape,
    find_value,
    make_duration_fields,
    read_number,
    sum_numbers,
)
from calipers.support.plugins import register


def _measure_braintrust(row: Row) -> Record:
    start, end = (read_number(find_value(row, f"metrics.{name}")) for name in ("start", "end"))
    return make_duration_fields(None if start is None or end is None else end - start)


def _is_root_span(row: Row) -> bool:
    """Return True if a span is a whole case, not a step of one."""
    root = find_value(row, "is_root")
    if root is not None:
        return str(root).lower() == "true"
    return row.get("span_id") == row.get("root_span_id")


_BRAINTRUST = Shape(
    name="Braintrust",
    has="root_span_id span_id | span_attributes root_span_id | input output expected scores",
    fields={
        "id": "dataset_record_id | origin.id | id",
        "input": "input",
        "answer": "output",
        "reference": "expected",
        "model": "metadata.model",
        "prompt_tokens": "metrics.prompt_tokens",
        "completion_tokens": "metrics.completion_tokens",
        "cost_usd": "metrics.estimated_cost",
        "tags": "tags",
        "error": "error",
    },
    scores="scores",
    more=_measure_braintrust,
    counts=_is_root_span,
    left_out="spans inside others were left out",
)
register(_BRAINTRUST.make_reader())


_GENERATION = "GENERATION"


def _sum_observations(row: Row) -> Record:
    """Return the tokens of a trace's generations, its model, and the tools it called."""
    inside = list(list_objects(find_value(row, "observations")))
    calls = [span for span in inside if span.get("type") == _GENERATION]
    models = [read_text(call.get("model")) for call in calls]
    tools = [span for span in inside if span.get("type") == "TOOL"]
    trace = [
        {"tool_name": str(tool.get("name")), "success": tool.get("level") != "ERROR"}
        for tool in tools
    ]
    return {
        "model": next(filter(None, models), None),
        "prompt_tokens": sum_numbers(calls, "usageDetails.input | usage.input | promptTokens"),
        "completion_tokens": sum_numbers(
            calls, "usageDetails.output | usage.output | completionTokens"
        ),
        "trace": {"tool_calls": trace} if trace else None,
    }


_LANGFUSE = Shape(
    name="Langfuse",
    has="htmlPath projectId | htmlPath observations | traceId projectId type"
    " | projectId timestamp input output | trace_id project_id type start_time"
    " | project_id environment timestamp input output | traceId parentObservationId type"
    " | traceId type usageDetails",
    fields={
        "id": "id",
        "model": "model | providedModelName | provided_model_name | model_id",
        "input": "input",
        "answer": "output",
        "reference": "expectedOutput | expected_output",
        "tags": "tags",
        "latency_ms": "latency * 1000",
        "duration_seconds": "latency",
        "cost_usd": "totalCost | calculatedTotalCost | total_cost | costDetails.total",
        "prompt_tokens": "usageDetails.input | usage_details.input | usage.input | inputUsage",
        "completion_tokens": "usageDetails.output | usage_details.output | usage.output"
        " | outputUsage",
    },
    scores="scores",
    more=_sum_observations,
    counts=lambda row: row.get("type") in (None, _GENERATION, "TRACE"),
    left_out="observations other than generations were left out",
    left_behind=("observations",),
)
register(_LANGFUSE.make_reader())


_LANGSMITH_COLUMNS = {
    "input": ("inputs.", USER),
    "answer": ("outputs.", ASSISTANT),
    "reference": ("reference.", ASSISTANT),
}
_INVOKED = "extra.invocation_params"


def _read_langsmith(row: Row) -> Record:
    """Return the texts of columns such as `inputs.question`, and how long the run took."""
    found: Record = {}
    for name, (prefix, role) in _LANGSMITH_COLUMNS.items():
        parts = {
            key.removeprefix(prefix): value
            for key, value in row.items()
            if key.startswith(prefix) and value is not None
        }
        if parts:
            found[name] = find_last_said(parts, role)
    return found | _measure_langsmith(row)


def _measure_langsmith(row: Row) -> Record:
    seconds = read_number(find_value(row, "execution_time | latency"))
    start, end = (read_text(find_value(row, name)) for name in ("start_time", "end_time"))
    if seconds is None and start and end:
        try:
            took = datetime.fromisoformat(end) - datetime.fromisoformat(start)
            seconds = took.total_seconds()
        except (ValueError, TypeError):
            pass  # no times, or only one of them with a zone
    return make_duration_fields(seconds)


_LANGSMITH = Shape(
    name="LangSmith",
    has="inputs outputs run_type | inputs outputs reference_example_id"
    " | inputs outputs example_id | inputs outputs feedback_stats"
    " | example_id execution_time",
    fields={
        "id": "reference_example_id | example_id | id",
        "input": "inputs",
        "answer": "outputs",
        "reference": "reference_outputs | reference",
        "model": f"extra.metadata.ls_model_name | {_INVOKED}.model | {_INVOKED}.model_name",
        "prompt_tokens": "prompt_tokens",
        "completion_tokens": "completion_tokens",
        "cost_usd": "total_cost",
        "tags": "tags",
        "error": "error",
    },
    scores="feedback_stats | feedback",
    score_columns=r"feedback\.(?P<name>.+)",
    more=_read_langsmith,
    counts=lambda row: not row.get("parent_run_id"),
    left_out="runs inside others were left out",
)
register(_LANGSMITH.make_reader())


_MLFLOW_SCORES = r"(?P<name>.+?)(?:/v\d+)?/(?:score|value)"
_MLFLOW_USAGE = (
    "trace_metadata.mlflow.trace.tokenUsage | info.trace_metadata.mlflow.trace.tokenUsage"
)
_MLFLOW_SPAN_TYPE = "attributes.mlflow.spanType | span_type | type"
_MLFLOW_TRACE_FIELDS = {
    "id": "client_request_id | info.client_request_id | trace_id | info.trace_id",
    "input": "request | info.trace_metadata.mlflow.traceInputs | info.request_preview",
    "answer": "response | info.trace_metadata.mlflow.traceOutputs | info.response_preview",
    "latency_ms": "execution_duration | execution_time_ms | info.execution_duration_ms"
    " | info.execution_time_ms",
    "duration_seconds": "execution_duration * 0.001 | info.execution_duration_ms * 0.001",
    "prompt_tokens": " | ".join(
        f"{place.strip()}.input_tokens" for place in _MLFLOW_USAGE.split("|")
    ),
    "completion_tokens": " | ".join(
        f"{place.strip()}.output_tokens" for place in _MLFLOW_USAGE.split("|")
    ),
}


def _read_mlflow_trace(row: Row) -> Record:
    """Return what the spans and the assessments of a trace tell."""
    spans = list(list_objects(find_value(row, "spans | data.spans")))
    calls = [
        {
            "tool_name": name,
            "args": as_mapping(find_value(span, "attributes.mlflow.spanInputs | inputs")),
            "success": "ERROR"
            not in str(find_value(span, "status.code | status.status_code | status")),
        }
        for span in spans
        if str(find_value(span, _MLFLOW_SPAN_TYPE)).strip('"') == "TOOL"
        and (name := read_text(span.get("name")))
    ]
    models = [read_text(find_value(span, "attributes.mlflow.llm.model")) for span in spans]
    failed = str(find_value(row, "state | info.state | status") or "").upper() == "ERROR"
    said = find_value(row, _MLFLOW_TRACE_FIELDS["answer"])
    assessed = list_objects(find_value(row, "assessments | info.assessments"))
    expected = (find_value(assessment, "expectation.value") for assessment in assessed)
    return {
        "answer": _unquote(said) if isinstance(said, str) else None,
        "model": next((model.strip('"') for model in models if model), None),
        "reference": next((format_text(value) for value in expected if value is not None), None),
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


# Names that MLflow gives to what a case expects.
_MLFLOW_EXPECTED = {
    "expected_response",
    "expected_facts",
    "expected_retrieved_context",
    "guidelines",
}


def _list_mlflow_expected(row: Row) -> set[str]:
    """Return the names of the assessments that are expectations: ground truth, no scores."""
    assessed = list_objects(find_value(row, "assessments | info.assessments"))
    names = (
        read_text(find_value(assessment, "assessment_name | name"))
        for assessment in assessed
        if assessment.get("expectation") is not None
    )
    return {*_MLFLOW_EXPECTED, *filter(None, names), *as_mapping(find_value(row, "expectations"))}


_MLFLOW = Shape(
    name="MLflow",
    has="inputs predictions | inputs outputs targets | inputs outputs ground_truth"
    " | inputs outputs expectations",
    fields={
        "input": "inputs",
        "answer": "outputs | predictions",
        "reference": "targets | ground_truth | expectations.expected_response | expectations",
        "latency_ms": "latency * 1000",
    },
    score_columns=_MLFLOW_SCORES,
    scores="assessments",
    expected=_list_mlflow_expected,
)
register(_MLFLOW.make_reader())
_MLFLOW_TRACES = Shape(
    name="MLflow traces",
    has="trace_id request response assessments | trace_id request response spans"
    " | trace_id request response trace_metadata | request_id request response spans",
    fields=_MLFLOW_TRACE_FIELDS,
    scores="assessments | info.assessments",
    score_columns=_MLFLOW_SCORES,
    expected=_list_mlflow_expected,
    more=_read_mlflow_trace,
    left_behind=("trace", "spans", "data", "info"),
)
register(_MLFLOW_TRACES.make_reader())
register(
    replace(
        _MLFLOW_TRACES,
        name="MLflow trace files",
        has="info data",
        tells=lambda row: isinstance(as_mapping(row["data"]).get("spans"), list),
    ).make_reader()
)


_WEAVE_SCORED = "predict_and_score"
_WEAVE_OBJECT = re.compile(r"weave:///[^/]+/[^/]+/object/")
_WEAVE_REFERENCE = "_ref"  # of an example to the row of its dataset
_WEAVE_EXPECTED = ("expected", "target", "answer", "ground_truth", "reference", "label")


def _read_weave_call(row: Row) -> Record:
    """Return what an evaluation asked and got, and what the models used."""
    output = as_mapping(find_value(row, "output"))
    used = as_mapping(find_value(row, "summary.usage"))
    seconds = read_number(output.get("model_latency"))
    weave_call: Record = {
        "model": next(iter(used), None) or _name_weave_model(find_value(row, "inputs.model")),
        "prompt_tokens": sum_numbers(used.values(), "prompt_tokens | input_tokens"),
        "completion_tokens": sum_numbers(used.values(), "completion_tokens | output_tokens"),
        "latency_ms": None if seconds is None else seconds * 1000,
    }
    if "scores" not in output:
        return weave_call
    given = find_value(row, "inputs.example")
    example = as_mapping(given)
    asked = {k: v for k, v in example.items() if k not in (*_WEAVE_EXPECTED, _WEAVE_REFERENCE)}
    expected = next((example[k] for k in _WEAVE_EXPECTED if k in example), None)
    return {
        **weave_call,
        "id": read_text(given if isinstance(given, str) else example.get(_WEAVE_REFERENCE)),
        "input": find_last_said(asked, USER) if asked else read_text(given or None),
        "reference": None if expected is None else find_last_said(expected, ASSISTANT),
        "answer": None
        if output.get("output") is None
        else find_last_said(output["output"], ASSISTANT),
    }


def _name_weave_model(model: Any) -> str | None:
    """Return the model's name; of a reference to one, its name and version."""
    named = as_mapping(model).get("name") if isinstance(model, dict) else model
    return _WEAVE_OBJECT.sub("", read_text(named) or "") or None


def _is_weave_case(row: Row) -> bool:
    """Return True if a call is a case of an evaluation, or no part of another call."""
    name = str(row.get("op_name"))
    if _WEAVE_SCORED in name:
        return True
    return not row.get("parent_id") and "Evaluation.evaluate" not in name


_WEAVE = Shape(
    name="Weave",
    has="op_name trace_id inputs | op_name trace_id output",
    fields={
        "id": "id",
        "input": "inputs",
        "answer": "output",
        "latency_ms": "summary.weave.latency_ms",
        "error": "exception",
    },
    scores="output.scores",
    more=_read_weave_call,
    counts=_is_weave_case,
    left_out="calls inside others were left out",
)
register(_WEAVE.make_reader())
