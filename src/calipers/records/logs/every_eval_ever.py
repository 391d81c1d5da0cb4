"""Every Eval Ever: the instance-level lines of its schema (0.2)."""

from __future__ import annotations

from calipers.records.logs.conversations import ASSISTANT, read_said
from calipers.records.logs.log import Record
from calipers.records.logs.parts import as_mapping, list_objects, read_text
from calipers.records.logs.shape import Row, Shape
from calipers.support.registry import register


def _read_more(row: Row) -> Record:
    """Return the answer that was extracted last, and the tools of a conversation."""
    extracted = [
        read_text(each.get("extracted_value"))
        for each in list_objects(row.get("answer_attribution"))
        if each.get("is_terminal") is not False
    ]
    messages = list(list_objects(row.get("messages")))
    calls = [
        {"tool_name": call["name"], "args": as_mapping(call.get("arguments"))}
        for each in messages
        for call in list_objects(each.get("tool_calls"))
        if isinstance(call.get("name"), str)
    ]
    task, name = row.get("evaluation_name"), row.get("sample_id")
    return {
        "id": f"{task}/{name}",
        "task": read_text(task),
        "answer": (extracted[-1] if extracted else None)
        or (read_said(messages, ASSISTANT) if messages else None),
        "trace": {"tool_calls": calls} if calls else None,
    }


_SHAPE = Shape(
    name="every_eval_ever",
    has="evaluation_id model_id sample_id interaction_type evaluation",
    fields={
        "model": "model_id",
        "input": "input.raw | input.formatted",
        "target": "input.reference.0 | input.reference",
        "answer": "output.raw.0 | output.raw",
        "cot": "output.reasoning_trace.0 | output.reasoning_trace",
        "correct": "evaluation.is_correct",
        "prompt_tokens": "token_usage.input_tokens",
        "completion_tokens": "token_usage.output_tokens",
        "cache_read_tokens": "token_usage.input_tokens_cache_read",
        "cache_write_tokens": "token_usage.input_tokens_cache_write",
        "reasoning_tokens": "token_usage.reasoning_tokens",
        "latency_ms": "performance.latency_ms",
        "category": "metadata.category | metadata.subject",
        "error": "error",
    },
    scores="evaluation",
    more=_read_more,
)
register(_SHAPE.make_reader())
