"""Requests to chat completions and their responses, as proxies and one's own code log them.

Also lines of the OpenAI Batch API, and a conversation with `choices` or `usage` beside it.
"""

from __future__ import annotations

from calipers.records.logs.log import Record
from calipers.records.logs.parts import (
    ASSISTANT,
    USER,
    as_list,
    as_mapping,
    find_last_said,
    list_calls,
    list_objects,
    read_text,
)
from calipers.records.logs.shape import Row, Shape, find_value, read_number
from calipers.support.plugins import register

_REPLY = "response.body | response | completion | output"
_ASKED = "request.body | request | input | kwargs"
_OK = 400


def _read_call(row: Row) -> Record:
    reply = as_mapping(find_value(row, _REPLY)) or row
    request = as_mapping(find_value(row, _ASKED)) or row
    messages = as_list(request.get("messages") or row.get("messages"))
    choices = list(list_objects(reply.get("choices")))
    said = as_mapping(choices[0].get("message")) if choices else {}
    calls = list_calls([*messages, said])
    cached = read_number(
        find_value(
            reply, "usage.prompt_tokens_details.cached_tokens | usage.cache_read_input_tokens"
        )
    )
    prompt = read_number(find_value(reply, "usage.prompt_tokens | usage.input_tokens"))
    inclusive = find_value(reply, "usage.prompt_tokens_details.cached_tokens") is not None
    if prompt is not None and inclusive:
        prompt = max(0, prompt - (cached or 0))
    return {
        "id": read_text(find_value(row, "custom_id | id | request_id"))
        or read_text(reply.get("id")),
        "model": read_text(reply.get("model") or request.get("model") or row.get("model")),
        "messages": [*messages, said] if messages and said else messages or None,
        "input": find_last_said(messages, USER) if messages else None,
        "answer": _read_answer(said, reply),
        "cot": read_text(said.get("reasoning_content") or said.get("reasoning")),
        "finish_reason": read_text(choices[0].get("finish_reason")) if choices else None,
        "prompt_tokens": prompt,
        "completion_tokens": read_number(
            find_value(reply, "usage.completion_tokens | usage.output_tokens")
        ),
        "cache_read_tokens": cached,
        "cache_write_tokens": read_number(find_value(reply, "usage.cache_creation_input_tokens")),
        "reasoning_tokens": read_number(
            find_value(reply, "usage.completion_tokens_details.reasoning_tokens")
        ),
        "trace": {"tool_calls": calls} if calls else None,
        "error": _describe_error(row, reply),
    }


def _read_answer(said: Row, reply: Row) -> str | None:
    if said:
        return read_text(said.get("content")) or None
    content = reply.get("content")
    return find_last_said(content, ASSISTANT) if content else None


def _describe_error(row: Row, reply: Row) -> str | None:
    said = find_value(row, "error.message | error") or find_value(reply, "error.message | error")
    status = read_number(find_value(row, "response.status_code | status_code"))
    if said is None and status is not None and status >= _OK:
        return f"status {status:.0f}"
    return read_text(said)


def _is_call(row: Row) -> bool:
    """Return True if a row holds a request to a model or its response, as OpenAI's API has it."""
    reply = as_mapping(find_value(row, "response.body | response")) or row
    answered = isinstance(reply.get("choices"), list) or (
        isinstance(reply.get("content"), list) and "stop_reason" in reply
    )
    asked = as_mapping(find_value(row, "request.body | request")) or row
    return "custom_id" in row or (answered and isinstance(asked.get("messages"), list))


_SHAPE = Shape(
    name="chat completions",
    has="custom_id response error | request response | messages response | messages choices",
    tells=_is_call,
    fields={
        "latency_ms": "latency_ms | latency * 1000 | duration_ms | response_time_ms",
        "cost_usd": "cost_usd | cost | response_cost",
    },
    more=_read_call,
    left_behind=("request", "response", "messages", "choices", "usage"),
)
register(_SHAPE.make_reader())
