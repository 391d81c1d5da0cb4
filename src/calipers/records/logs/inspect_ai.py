"""Logs of Inspect AI: `.eval` (a zip of a header and a file per sample) and `.json`.

An unfinished `.eval` has no header: what its journal began with says which model and task it is.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import zstandard

from calipers.records.bytestream import shorten_error
from calipers.records.fields import name_finish_reason
from calipers.records.limits import get_limits
from calipers.records.logs.inspect_events import list_scorer_calls
from calipers.records.logs.log import Found, LogReader, Record
from calipers.records.logs.parts import (
    as_list,
    as_mapping,
    as_number,
    as_truth,
    keep_extra,
    list_objects,
    parse_json,
    place_target,
    read_text,
    read_whole,
    spread_scores,
    sum_usage,
)
from calipers.records.logs.tools import list_calls
from calipers.support.errors import DataError
from calipers.support.registry import register

_ZIP = b"PK\x03\x04"
_ZSTD = 93
_FINISHED = "success"
_START = 1_000  # bytes of a .json in which its status stands
_ATTACHMENT = "attachment://"
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    zstandard.ZstdError,
    NotImplementedError,  # a way of packing that no one knows
    RuntimeError,  # encrypted
    EOFError,
    ValueError,  # a place before the file's start
)
_NAMED = ("category", "capability")  # metadata that mean what the record's fields do
_COUNTS = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "cache_read_tokens": "input_tokens_cache_read",
    "cache_write_tokens": "input_tokens_cache_write",
    "reasoning_tokens": "reasoning_tokens",
    "cost_usd": "total_cost",
}


def _fits(document: Any) -> bool:
    found = as_mapping(document)
    return isinstance(found.get("eval"), Mapping) and "status" in found and "version" in found


def _records(path: Path, _: Collection[str]) -> Iterator[Found]:
    with path.open("rb") as file:
        packed = file.read(4) == _ZIP
    if packed:
        yield from _of_zip(path)
        return
    log = as_mapping(read_whole(path))
    samples = as_list(log.get("samples"))
    for place, sample in enumerate(samples, start=1):
        yield _record(as_mapping(sample), log), place / len(samples)


def _is_unfinished(path: Path) -> bool:
    """Say whether the log's run was stopped, failed, or is still going on."""
    with path.open("rb") as file:
        start = file.read(_START)
    if start.startswith(_ZIP):
        with zipfile.ZipFile(path) as log:
            return _read_header(log, path).get("status") != _FINISHED
    status = re.search(rb'"status":\s*"(\w+)"', start)
    return status is not None and status[1].decode() != _FINISHED


def _read_header(log: zipfile.ZipFile, path: Path) -> Mapping[str, Any]:
    names = set(log.namelist())
    start = "header.json" if "header.json" in names else "_journal/start.json"
    return as_mapping(_read_member(log, path, start)) if start in names else {}


def _of_zip(path: Path) -> Iterator[Found]:
    try:
        with zipfile.ZipFile(path) as log:
            expanded = sum(info.file_size for info in log.infolist())
            get_limits().check_expansion(path.stat().st_size, expanded, str(path))
            header = _read_header(log, path)
            samples = [each for each in dict.fromkeys(log.namelist()) if _is_sample(each)]
            for place, name in enumerate(samples, start=1):
                sample = as_mapping(_read_member(log, path, name))
                yield _record(sample, header), place / len(samples)
    except _DAMAGE as error:
        raise DataError(
            f"{path}: a damaged Inspect log: {shorten_error(error)}",
            fix="copy it again, or have Inspect write it again: inspect log convert",
        ) from error


def _is_sample(name: str) -> bool:
    return name.startswith("samples/") and name.endswith(".json")


def _read_member(log: zipfile.ZipFile, path: Path, name: str) -> Any:
    info = log.getinfo(name)
    where = f"{path}: {name}"
    limits = get_limits()
    if info.file_size > limits.record_bytes:
        raise limits.record_too_large(where)
    data = _unpack(log, info) if info.compress_type == _ZSTD else log.read(info)
    limits.check_record(data, where)
    return parse_json(data, where)


def _unpack(log: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return a member compressed with zstd, which Python's zipfile does not know before 3.14."""
    stream = log.fp
    assert stream is not None
    stream.seek(info.header_offset)
    header = stream.read(30)
    names = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    stream.seek(names, 1)
    packed = stream.read(info.compress_size)
    # Not in one go: a frame's own header may claim any size, and that much is set aside.
    with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as unpacked:
        data = unpacked.read(info.file_size)
    if zlib.crc32(data) != info.CRC:
        raise zipfile.BadZipFile(f"wrong checksum of {info.filename}")
    return data


def _record(sample: Mapping[str, Any], log: Mapping[str, Any]) -> Record:
    about = as_mapping(log.get("eval"))
    attached = as_mapping(sample.get("attachments"))
    scores = {name: as_mapping(score) for name, score in as_mapping(sample.get("scores")).items()}
    first = _find_main_score(log, scores)
    completion, reasoning = _read_completion(sample, attached)
    answer = _text(first.get("answer"), attached) or completion
    said = "\n".join(part for part in (reasoning, completion) if part)
    correct, error = as_truth(first.get("value")), _describe_error(sample)
    judged = error is None and bool(scores or _list_scorers(log))
    task, name = about.get("task"), sample.get("id")
    return {
        **_read_metadata(sample.get("metadata")),
        "id": f"{task}/{name}" if task else name,
        "model": about.get("model"),
        "run": sample.get("epoch"),
        "task": task,
        "tags": about.get("tags") or None,
        "input": _read_input(sample.get("input"), attached),
        **place_target(_read_target(sample.get("target")), correct=correct, judged=judged),
        "answer": answer,
        "cot": said if said.strip() != (answer or "").strip() else None,
        "finish_reason": _finish_reason(sample),
        "correct": correct,
        "latency_ms": _to_milliseconds(sample.get("working_time", sample.get("total_time"))),
        "duration_seconds": as_number(sample.get("total_time")),
        "trace": _trace(sample.get("messages")),
        "error": error,
        **_sum_usage(sample, about),
        **spread_scores({name: score.get("value") for name, score in scores.items()}),
        "limit": as_mapping(sample.get("limit")).get("type"),
    }


def _read_metadata(metadata: Any) -> dict[str, Any]:
    named = {name: read_text(as_mapping(metadata).get(name)) for name in _NAMED}
    return {**named, **keep_extra(metadata, used=_NAMED)}


def _list_scorers(log: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the log's scores and who gave each, the first of which counts."""
    found = list_objects(as_mapping(log.get("results")).get("scores"))
    return [(str(each.get("name")), str(each.get("scorer"))) for each in found]


def _find_main_score(
    log: Mapping[str, Any], scores: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Return the first scorer's score; samples may have theirs in another order, or not all."""
    scorers = _list_scorers(log)
    for name in scorers[0] if scorers else ():
        if name in scores:
            return scores[name]
    others = {name for each in scorers for name in each}
    return next((score for name, score in scores.items() if name not in others), {})


def _read_completion(
    sample: Mapping[str, Any], attached: Mapping[str, Any]
) -> tuple[str | None, str | None]:
    """Return the model's final reply, and its reasoning before it."""
    output = as_mapping(sample.get("output"))
    choices = as_list(output.get("choices"))
    content = as_mapping(as_mapping(choices[0]).get("message")).get("content") if choices else None
    parts = list(list_objects(content))
    thought = [_text(part.get("reasoning"), attached) for part in parts]
    said = (
        [_text(part.get("text"), attached) for part in parts]
        if parts
        else [_text(content if content is not None else output.get("completion"), attached)]
    )
    return "\n".join(filter(None, said)) or None, "\n".join(filter(None, thought)) or None


def _finish_reason(sample: Mapping[str, Any]) -> str | None:
    choices = as_list(as_mapping(sample.get("output")).get("choices"))
    return name_finish_reason(as_mapping(choices[0]).get("stop_reason")) if choices else None


def _read_input(given: Any, attached: Mapping[str, Any]) -> str | None:
    if not isinstance(given, list):
        return _text(given, attached)
    asked = [each for each in list_objects(given) if each.get("role") == "user"]
    content = asked[-1].get("content") if asked else None
    parts = [_text(part, attached) for part in (as_list(content) or [content])]
    return "\n".join(filter(None, parts)) or None


def _text(value: Any, attached: Mapping[str, Any]) -> str | None:
    found = read_text(value)
    if found is not None and found.startswith(_ATTACHMENT):
        return read_text(attached.get(found.removeprefix(_ATTACHMENT), found))
    return found


def _read_target(target: Any) -> str | None:
    return (
        read_text(target[0]) if isinstance(target, list) and target else read_text(target) or None
    )


def _to_milliseconds(seconds: Any) -> float | None:
    found = as_number(seconds)
    return None if found is None else found * 1000


def _sum_usage(sample: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the models used, without what scorers did."""
    output = as_mapping(sample.get("output"))
    used = as_mapping(sample.get("model_usage")) or {"": output.get("usage")}
    counts = {model: _read_counts(each) for model, each in used.items()}
    for model, graded in _list_graded(sample, about):
        own = counts.get(model)
        if own is None:
            continue
        counts[model] = {
            name: None if count is None else max(0, count - (graded[name] or 0))
            for name, count in own.items()
        }
        if model != about.get("model") and not any(counts[model].values()):
            del counts[model]
    return sum_usage(counts)


def _list_graded(
    sample: Mapping[str, Any], about: Mapping[str, Any]
) -> list[tuple[str, dict[str, float | None]]]:
    """Return what each model used for scorers, by the sample's events or the grader's role."""
    found = list_scorer_calls(sample.get("events"))
    if found:
        return [(model, _read_counts(used)) for model, used in found]
    roles = as_mapping(sample.get("role_usage"))
    grader = as_mapping(as_mapping(about.get("model_roles")).get("grader")).get("model")
    return [(str(grader), _read_counts(roles["grader"]))] if grader and "grader" in roles else []


def _read_counts(used: Any) -> dict[str, float | None]:
    return {ours: as_number(as_mapping(used).get(theirs)) for ours, theirs in _COUNTS.items()}


def _trace(messages: Any) -> dict[str, Any] | None:
    """Return the tools that were called, and whether each call succeeded; None without any."""
    calls = list_calls(as_list(messages))
    return {"tool_calls": calls} if calls else None


def _describe_error(sample: Mapping[str, Any]) -> str | None:
    if sample.get("error"):
        return read_text(as_mapping(sample["error"]).get("message")) or "exception"
    if sample.get("invalidation"):
        reason = read_text(as_mapping(sample["invalidation"]).get("reason"))
        return f"invalidated: {reason or 'no reason'}"
    return None


register(
    LogReader(
        name="Inspect",
        fits=_fits,
        records=_records,
        unfinished=_is_unfinished,
        suffixes=(".eval",),
        in_folders=("*.eval",),
    )
)
