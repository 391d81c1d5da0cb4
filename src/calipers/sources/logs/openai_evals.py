"""Record logs of OpenAI evals: events of samples, which are put together here."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.sources.logs.log import Found, LogFormat, Record
from calipers.sources.logs.parts import (
    last_text,
    listed,
    mapping,
    number,
    numbered_lines,
    score_fields,
    text,
    truth,
)


def _fits(line: Any) -> bool:
    found = mapping(line)
    spec = mapping(found.get("spec"))
    return "completion_fns" in spec or {"run_id", "event_id", "sample_id", "type"} <= found.keys()


def _records(path: Path, _: Collection[str]) -> Iterator[Found]:
    spec: Mapping[str, Any] = {}
    samples: dict[str, Record] = {}
    for _number, line, _done in numbered_lines(path):
        spec = mapping(line.get("spec")) or spec
        if isinstance(line.get("sample_id"), str):
            record = samples.setdefault(line["sample_id"], {"id": line["sample_id"]})
            _READ.get(str(line.get("type")), _other)(record, mapping(line.get("data")))
    models = listed(spec.get("completion_fns"))
    for place, record in enumerate(samples.values(), start=1):
        shared = {"model": text(models[0]) if models else None, "task": spec.get("eval_name")}
        yield {**shared, **record}, place / len(samples)


def _sampling(record: Record, data: Mapping[str, Any]) -> None:
    prompt, sampled = data.get("prompt"), data.get("sampled")
    record["input"] = last_text(prompt, "user") if isinstance(prompt, list) else text(prompt)
    record["answer"] = text(sampled[0] if isinstance(sampled, list) and sampled else sampled)
    used = mapping(data.get("usage"))
    record["prompt_tokens"] = number(used.get("prompt_tokens"))
    record["completion_tokens"] = number(used.get("completion_tokens"))


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


_READ = {"sampling": _sampling, "match": _match, "metrics": _metrics, "error": _error}

OPENAI_EVALS = LogFormat(name="OpenAI evals", fits=_fits, records=_records)
