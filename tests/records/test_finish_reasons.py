"""Why replies ended, in OpenAI's words, from the logs of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import calipers as cal
from tests.records.log_files import (
    HEADER,
    make_otlp_span,
    make_promptfoo_row,
    sample,
    write_texts,
)


def inspect(path: Path) -> Path:
    message = {"message": {"content": "It is"}, "stop_reason": "max_tokens"}
    usage = {"openai/gpt-4o-mini": {"input_tokens": 9, "output_tokens": 7, "reasoning_tokens": 5}}
    found = sample(1, output={"choices": [message]}, model_usage=usage)
    return write_texts(path / "a.json", {**HEADER, "samples": [found]}, indent=1)


def promptfoo(path: Path) -> Path:
    used = {"prompt": 9, "completion": 7, "total": 16, "completionDetails": {"reasoning": 5}}
    response = {"output": "It is", "tokenUsage": used, "finishReason": "length"}
    row = make_promptfoo_row(1, "Say", response=response)
    return write_texts(path / "a.json", {"version": 3, "results": {"version": 3, "results": [row]}})


def otel(path: Path) -> Path:
    span = make_otlp_span(
        0,
        None,
        "chat",
        gen_ai__operation__name="chat",
        gen_ai__usage__input_tokens=9,
        gen_ai__usage__output_tokens=7,
        gen_ai__usage__reasoning__output_tokens=5,
    )
    reasons = {"arrayValue": {"values": [{"stringValue": "max_tokens"}]}}
    span["attributes"].append({"key": "gen_ai.response.finish_reasons", "value": reasons})
    spans: dict[str, Any] = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    return write_texts(path / "a.json", spans)


@pytest.mark.parametrize("tool", [inspect, promptfoo, otel])
def test_a_truncated_reply_is_counted_in_the_logs_of_other_tools(tmp_path: Path, tool: Any) -> None:
    path = tool(tmp_path)
    record = cal.read(path).to_dicts()[0]
    assert (record["finish_reason"], record["reasoning_tokens"]) == ("length", 5)
    score = cal.score(path)
    assert score.groups[0].truncated == 1
    assert any("1 reply was truncated" in notice for notice in score.notices)


def test_cached_tokens_in_a_providers_usage_are_not_paid_twice() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 40},
        "completion_tokens_details": {"reasoning_tokens": 8},
    }
    from calipers.records.nested_fields import read_usage  # noqa: PLC0415

    expected = {"prompt_tokens": 60.0, "completion_tokens": 10.0, "cache_read_tokens": 40.0}
    assert read_usage(usage) == [expected]
