"""Record logs of OpenAI evals: events of samples, which are put together here."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.records.fields import name_finish_reason
from calipers.records.logs.log import Figure, LogReader, LogRecord, Record
from calipers.records.logs.parts import (
    as_list,
    as_mapping,
    as_number,
    as_truth,
    find_last_text,
    read_json_lines,
    read_text,
    spread_scores,
)
from calipers.support.plugins import register

_GRADE = "score_choice"  # what a grader chose


def _fits(line: Any) -> bool:
    line = as_mapping(line)
    spec = as_mapping(line.get("spec"))
    return "completion_fns" in spec or {"run_id", "event_id", "sample_id", "type"} <= line.keys()


def _read_records(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    spec: Mapping[str, Any] = {}
    samples: dict[str, Record] = {}
    calls: dict[str, list[Mapping[str, Any]]] = {}
    for line, _done in read_json_lines(path):
        spec = as_mapping(line.get("spec")) or spec
        name, data = line.get("sample_id"), as_mapping(line.get("data"))
        if isinstance(name, str):
            record = samples.setdefault(name, {"id": name})
            if line.get("type") == "sampling":
                calls.setdefault(name, []).append(data)
            else:
                _add_event(record, str(line.get("type")), data)
    models = as_list(spec.get("completion_fns"))
    for place, (name, record) in enumerate(samples.items(), start=1):
        shared = {"model": read_text(models[0]) if models else None, "task": spec.get("eval_name")}
        graded = _GRADE in record
        yield (
            {**shared, **record, **_read_calls(calls.get(name, []), graded=graded)},
            place / len(samples),
        )


def _read_calls(calls: list[Mapping[str, Any]], *, graded: bool) -> Record:
    """Return the final question and answer; if a model graded, the last call is the grader's."""
    own = calls[:-1] if graded and len(calls) > 1 else calls
    if not own:
        return {}
    prompt, sampled = own[-1].get("prompt"), own[-1].get("sampled")
    used = [as_mapping(call.get("usage")) for call in own]
    return {
        "input": find_last_text(prompt, "user") if isinstance(prompt, list) else read_text(prompt),
        "answer": read_text(_take_first(sampled)),
        "prompt_tokens": _sum(used, "prompt_tokens"),
        "completion_tokens": _sum(used, "completion_tokens"),
        "finish_reason": name_finish_reason(own[-1].get("finish_reason")),
    }


def _sum(used: list[Mapping[str, Any]], name: str) -> float | None:
    known = [count for usage in used if (count := as_number(usage.get(name))) is not None]
    return sum(known) if known else None


def _add_event(record: Record, kind: str, data: Mapping[str, Any]) -> None:
    """Add what an event says; those of other kinds say nothing about right or wrong."""
    if kind == "match":
        record["correct"] = as_truth(data.get("correct"))
        record["target"] = read_text(_take_first(data.get("expected")))
        record.setdefault("answer", read_text(data.get("sampled", data.get("picked"))))
    elif kind == "metrics":
        record |= spread_scores(data)
    elif kind == "error":
        record["error"] = read_text(data.get("message")) or json.dumps(data)


def _take_first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value


def _list_stated(path: Path) -> Iterator[Figure]:
    """Yield the figures of the final report."""
    report: Mapping[str, Any] = {}
    for line, _done in read_json_lines(path):
        report = as_mapping(line.get("final_report")) or report
    for name, value in report.items():
        if (number := as_number(value)) is not None:
            field = next(iter(spread_scores({name: number})))
            ours = ("accuracy", field) if name == "accuracy" else (field,)
            yield Figure(name=f"final_report/{name}", value=number, ours=ours)


register(LogReader(name="OpenAI evals", fits=_fits, records=_read_records, stated=_list_stated))
