"""Every Eval Ever: the instance-level lines of its schema (0.2, 0.3), and the results beside them.

A sample has a line for each result that it is part of. One result counts, the first that says right
or wrong about every sample, unless records are grouped by `evaluation_result_id`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from calipers.records.logs.log import Figure, LogRecord, Record
from calipers.records.logs.parts import (
    ASSISTANT,
    as_mapping,
    as_number,
    as_truth,
    find_last_said,
    list_objects,
    place_target,
    read_text,
    read_whole,
)
from calipers.records.logs.shape import Row, Shape, find_value
from calipers.support.plugins import register

_RESULT = "evaluation_result_id"
_SCORE = "score_score"
_SAMPLES = "_samples.jsonl"


def _read_more(row: Row) -> Record:
    """Return the answer that was extracted last, and the tools of a conversation."""
    extracted = [
        read_text(attribution.get("extracted_value"))
        for attribution in list_objects(row.get("answer_attribution"))
        if attribution.get("is_terminal") is not False
    ]
    messages = list(list_objects(row.get("messages")))
    calls = [
        {"tool_name": call["name"], "args": as_mapping(call.get("arguments"))}
        for message in messages
        for call in list_objects(message.get("tool_calls"))
        if isinstance(call.get("name"), str)
    ]
    task, name = row.get("evaluation_name"), row.get("sample_id")
    return {
        "id": f"{task}/{name}",
        "task": read_text(task),
        "answer": (extracted[-1] if extracted else None)
        or (find_last_said(messages, ASSISTANT) if messages else None),
        "trace": {"tool_calls": calls} if calls else None,
    }


_SHAPE = Shape(
    name="every_eval_ever",
    has="evaluation_id model_id sample_id interaction_type evaluation",
    fields={
        "model": "model_id",
        "run": "metadata.epoch",
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


def _read_records(path: Path, keys: Collection[str]) -> Iterator[LogRecord]:
    counted, decides = _look_through(path)
    for record, done in _SHAPE.records(path, keys):
        result = None if record is None else record.get(_RESULT)
        if record is None or (_RESULT not in keys and result != counted):
            yield None, done
            continue
        correct = record.pop("correct", None) if decides[result] else None
        target = place_target(record.pop("target", None), correct=correct, judged=True)
        yield {**record, **target, "correct": correct}, done


def _look_through(path: Path) -> tuple[str | None, Mapping[str | None, bool]]:
    """Return the result that counts, and of each whether it says right or wrong of every sample."""
    state = path.stat()
    return _look_through_state(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _look_through_state(path: Path, *_: int) -> tuple[str | None, Mapping[str | None, bool]]:
    decides: dict[str | None, bool] = {}
    for record, _done in _SHAPE.records(path, ()):
        if record is not None:
            score = record.get(_SCORE)
            is_verdict = score is None or as_truth(score) is not None
            result = record.get(_RESULT)
            decides[result] = decides.get(result, True) and is_verdict
    return next(
        (name for name, is_sure in decides.items() if is_sure), next(iter(decides), None)
    ), decides


def _list_stated(path: Path) -> Iterator[Figure]:
    """Yield the results in the file beside the samples."""
    results = path.with_name(f"{path.name.removesuffix(_SAMPLES)}.json")
    if not path.name.endswith(_SAMPLES) or not results.is_file():
        return
    counted, decides = _look_through(path)
    for result in list_objects(as_mapping(read_whole(results)).get("evaluation_results")):
        value = as_number(find_value(result, "score_details.score"))
        if value is None:
            continue
        count = as_number(find_value(result, "score_details.uncertainty.num_samples"))
        is_ours = result.get(_RESULT) == counted
        ours = ("accuracy", _SCORE) if decides[counted] else (_SCORE,)
        yield Figure(
            name=str(result.get(_RESULT) or result.get("evaluation_name")),
            value=value,
            n=None if count is None else int(count),
            ours=ours if is_ours else (),
        )


register(
    replace(
        _SHAPE.make_reader(),
        records=_read_records,
        stated=_list_stated,
        left_out=f"lines of further results were left out; --by {_RESULT} shows them",
    )
)
