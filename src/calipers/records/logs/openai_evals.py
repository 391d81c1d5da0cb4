"""Record logs of OpenAI evals: events of samples, which are put together here."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.records.fields import name_finish_reason
from calipers.records.logs.log import Found, LogReader, Record
from calipers.records.logs.parts import (
    last_text,
    listed,
    mapping,
    number,
    numbered_lines,
    score_fields,
    text,
    truth,
)
from calipers.support.registry import register

_GRADE = "score_choice"  # what a grader chose


def _fits(line: Any) -> bool:
    found = mapping(line)
    spec = mapping(found.get("spec"))
    return "completion_fns" in spec or {"run_id", "event_id", "sample_id", "type"} <= found.keys()


def _records(path: Path, _: Collection[str]) -> Iterator[Found]:
    spec: Mapping[str, Any] = {}
    samples: dict[str, Record] = {}
    calls: dict[str, list[Mapping[str, Any]]] = {}
    for _number, line, _done in numbered_lines(path):
        spec = mapping(line.get("spec")) or spec
        name, data = line.get("sample_id"), mapping(line.get("data"))
        if isinstance(name, str):
            record = samples.setdefault(name, {"id": name})
            if line.get("type") == "sampling":
                calls.setdefault(name, []).append(data)
            else:
                _READ.get(str(line.get("type")), _other)(record, data)
    models = listed(spec.get("completion_fns"))
    for place, (name, record) in enumerate(samples.items(), start=1):
        shared = {"model": text(models[0]) if models else None, "task": spec.get("eval_name")}
        graded = _GRADE in record
        yield (
            {**shared, **record, **_said(calls.get(name, []), graded=graded)},
            place / len(samples),
        )


def _said(calls: list[Mapping[str, Any]], *, graded: bool) -> Record:
    """What was asked and answered in the end; where a model graded, the last call is its."""
    own = calls[:-1] if graded and len(calls) > 1 else calls
    if not own:
        return {}
    prompt, sampled = own[-1].get("prompt"), own[-1].get("sampled")
    used = [mapping(call.get("usage")) for call in own]
    return {
        "input": last_text(prompt, "user") if isinstance(prompt, list) else text(prompt),
        "answer": text(sampled[0] if isinstance(sampled, list) and sampled else sampled),
        "prompt_tokens": _sum(used, "prompt_tokens"),
        "completion_tokens": _sum(used, "completion_tokens"),
        "finish_reason": name_finish_reason(own[-1].get("finish_reason")),
    }


def _sum(used: list[Mapping[str, Any]], name: str) -> float | None:
    known = [count for each in used if (count := number(each.get(name))) is not None]
    return sum(known) if known else None


def _match(record: Record, data: Mapping[str, Any]) -> None:
    expected = data.get("expected")
    record["correct"] = truth(data.get("correct"))
    record["target"] = text(expected[0] if isinstance(expected, list) and expected else expected)
    record.setdefault("answer", text(data.get("sampled", data.get("picked"))))


def _metrics(record: Record, data: Mapping[str, Any]) -> None:
    record |= score_fields(data)


def _error(record: Record, data: Mapping[str, Any]) -> None:
    record["error"] = text(data.get("message")) or json.dumps(data)


def _other(record: Record, data: Mapping[str, Any]) -> None:
    del record, data  # events of a kind that says nothing about right or wrong


_READ = {"match": _match, "metrics": _metrics, "error": _error}

register(LogReader(name="OpenAI evals", fits=_fits, records=_records))
