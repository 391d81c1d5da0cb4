"""Small logs of other tools, as these write them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calipers.records.logs.log import Log
from calipers.records.sources import open_sources


def write_texts(path: Path, *lines: Any, indent: int | None = None) -> Path:
    """A file of JSON texts."""
    path.write_text("\n".join(json.dumps(line, indent=indent) for line in lines), encoding="utf-8")
    return path


def recognize(path: Path) -> str | None:
    """The tool that a file is read as a log of; None for plain records."""
    [source] = open_sources(path)
    return source.format.name if isinstance(source, Log) else None


HEADER: dict[str, Any] = {
    "version": 2,
    "status": "success",
    "eval": {
        "task": "sums",
        "model": "openai/gpt-4o-mini",
        "model_roles": {"grader": {"model": "openai/gpt-4o"}},
        "tags": ["nightly"],
    },
    "results": {"scores": [{"name": "match", "scorer": "match"}]},
}


def sample(number: int, value: Any = "C", **fields: Any) -> dict[str, Any]:
    return {
        "id": number,
        "epoch": 1,
        "input": [
            {"role": "system", "content": "Add."},
            {"role": "user", "content": "attachment://abc"},
        ],
        "target": ["4", "four"],
        "messages": [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"id": "1", "function": "add", "arguments": {"a": 2}},
                    {"id": "2", "function": "check", "arguments": {}},
                ],
            },
            {"role": "tool", "tool_call_id": "2", "content": "", "error": {"message": "no"}},
        ],
        "output": {
            "choices": [
                {
                    "message": {
                        "content": [
                            {"type": "reasoning", "reasoning": "2 + 2 = 4"},
                            {"type": "text", "text": "It is 4"},
                        ]
                    }
                }
            ]
        },
        "scores": {"style": {"value": 0.5}, "match": {"value": value, "answer": "4"}},
        "metadata": {"category": "easy", "level": 1, "nested": {"a": 1}, "model": "not ours"},
        "model_usage": {
            "openai/gpt-4o-mini": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
            "openai/gpt-4o": {"input_tokens": 100, "output_tokens": 50, "total_tokens": 150},
        },
        "role_usage": {"grader": {"input_tokens": 100, "output_tokens": 50}},
        "total_time": 2.0,
        "working_time": 1.5,
        "attachments": {"abc": "2 + 2?"},
        **fields,
    }


def write_inspect_log(path: Path, samples: Sequence[Any], header: str = "header.json") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as log:
        log.writestr(header, json.dumps(HEADER))
        for each in samples:
            log.writestr(f"samples/{each['id']}_epoch_{each['epoch']}.json", json.dumps(each))
        log.writestr("summaries.json", "[]")
    return path


def make_lm_eval_line(
    number: int, of: str = "strict", right: float = 1.0, **fields: Any
) -> dict[str, Any]:
    return {
        "doc_id": number,
        "doc": {"question": "2 + 2?", "category": "sums"},
        "target": "4",
        "arguments": {},
        "resps": [["So it is 4"]],
        "filtered_resps": ["4"],
        "filter": of,
        "metrics": ["exact_match"],
        "exact_match": right,
        **fields,
    }


def make_promptfoo_row(test: int, prompt: str, **fields: Any) -> dict[str, Any]:
    return {
        "prompt": {"raw": f"{prompt} {test}", "label": prompt},
        "vars": {"language": "French"},
        "testIdx": test,
        "provider": {"id": "openai:gpt-4o-mini", "label": ""},
        "response": {"output": "Bonjour", "tokenUsage": {"prompt": 7, "completion": 2, "total": 9}},
        "success": True,
        "score": 1,
        "namedScores": {"tone": 0.5},
        "latencyMs": 12,
        "cost": 0.001,
        "testCase": {
            "assert": [{"type": "equals", "value": "Bonjour"}],
            "metadata": {"owner": "x"},
        },
        **fields,
    }


def make_deepeval_case(name: str, **fields: Any) -> dict[str, Any]:
    """A case as DeepEval 4.3 writes it."""
    metric = {"name": "Exact Match", "threshold": 1.0, "success": True, "score": 1.0}
    judged = {"name": "Correctness [GEval]", "threshold": 0.5, "success": False, "score": 0.25}
    return {
        "name": name,
        "input": "2 + 2",
        "actualOutput": "4",
        "expectedOutput": "It is 4.",
        "tokenCost": 0.01,
        "completionTime": 1.5,
        "tags": ["math"],
        "flaky": False,
        "success": False,
        "metricsData": [
            {**metric, "reason": "The same.", "strictMode": False, "flaky": False},
            {**judged, "reason": "Too short.", "strictMode": False, "flaky": False},
        ],
        "order": 0,
        "metadata": {"level": 1},
        **fields,
    }


def make_otlp_span(number: int, parent: int | None, name: str, **attributes: Any) -> dict[str, Any]:
    def add_type(value: Any) -> dict[str, Any]:
        if isinstance(value, bool):
            return {"boolValue": value}
        return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}

    return {
        "traceId": "t1",
        "spanId": f"s{number}",
        **({} if parent is None else {"parentSpanId": f"s{parent}"}),
        "name": name,
        "startTimeUnixNano": str(1_000_000_000 * (number + 1)),
        "endTimeUnixNano": str(20_000_000_000 - number),
        "attributes": [
            {"key": key.replace("__", "."), "value": add_type(value)}
            for key, value in attributes.items()
        ],
        "events": [],
        "status": {},
    }


def make_agent_spans() -> list[dict[str, Any]]:
    operation = "gen_ai__operation__name"
    return [
        make_otlp_span(
            0,
            None,
            "lead",
            **{
                operation: "invoke_agent",
                "gen_ai__agent__name": "lead",
                "gen_ai__usage__input_tokens": 999,
            },
        ),
        make_otlp_span(
            1,
            0,
            "chat",
            **{
                operation: "chat",
                "gen_ai__request__model": "gpt-4o",
                "gen_ai__usage__input_tokens": 100,
                "gen_ai__usage__output_tokens": 10,
                "gen_ai__usage__cache_read__input_tokens": 40,
            },
        ),
        make_otlp_span(
            2, 0, "coder", **{operation: "invoke_agent", "gen_ai__agent__name": "coder"}
        ),
        make_otlp_span(3, 2, "run", **{operation: "execute_tool", "gen_ai__tool__name": "python"}),
        make_otlp_span(
            4,
            2,
            "chat",
            **{
                operation: "chat",
                "gen_ai__request__model": "gpt-4o-mini",
                "gen_ai__usage__input_tokens": 7,
                "gen_ai__usage__output_tokens": 3,
            },
        ),
    ]
