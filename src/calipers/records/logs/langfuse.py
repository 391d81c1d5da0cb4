"""Langfuse: traces and observations as its pages, its API and its exports to storage write them."""

from __future__ import annotations

from calipers.records.logs.log import Record
from calipers.records.logs.parts import list_objects, read_text
from calipers.records.logs.shape import Row, Shape, look, sum_numbers
from calipers.support.registry import register

_GENERATION = "GENERATION"


def _sum_observations(row: Row) -> Record:
    """Return the tokens of a trace's generations, its model, and the tools it called."""
    inside = list(list_objects(look(row, "observations")))
    calls = [each for each in inside if each.get("type") == _GENERATION]
    models = [read_text(each.get("model")) for each in calls]
    tools = [each for each in inside if each.get("type") == "TOOL"]
    trace = [
        {"tool_name": str(each.get("name")), "success": each.get("level") != "ERROR"}
        for each in tools
    ]
    return {
        "model": next(filter(None, models), None),
        "prompt_tokens": sum_numbers(calls, "usageDetails.input | usage.input | promptTokens"),
        "completion_tokens": sum_numbers(
            calls, "usageDetails.output | usage.output | completionTokens"
        ),
        "trace": {"tool_calls": trace} if trace else None,
    }


_SHAPE = Shape(
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
register(_SHAPE.make_reader())
