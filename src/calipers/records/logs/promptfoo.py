"""Output of promptfoo (`promptfoo eval -o out.json` or `out.jsonl`), versions 1 to 4.

A test is a task, a provider a model, and each of several prompts a tier; a test that was repeated
has as many runs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.records.bytestream import decompress
from calipers.records.fields import name_finish_reason
from calipers.records.limits import get_limits
from calipers.records.logs.log import Found, LogReader, Record
from calipers.records.logs.parts import (
    as_list,
    as_mapping,
    as_number,
    keep_extra,
    list_objects,
    parse_json,
    read_numbered_lines,
    read_text,
    read_whole,
    spell,
    spread_scores,
)
from calipers.support.errors import DataError
from calipers.support.registry import register

_ERROR = 2  # the reason of a failure that is none of the model's
_LABEL = 80  # characters of a prompt that name a tier
_LINE = {"prompt", "vars", "testCase", "testIdx", "promptIdx", "provider"}


def _fits(document: Any) -> bool:
    found = as_mapping(document)
    rows = _list_rows(found)
    first = as_mapping(rows[0]) if rows else {}
    return (
        _is_line(found)
        or ({"prompt", "vars"} <= first.keys() and ("success" in first or "gradingResult" in first))
        or ("results" in found and not rows and ("prompts" in found or "evalId" in found))
    )


def _is_line(found: Mapping[str, Any]) -> bool:
    return found.keys() >= _LINE


def _list_rows(document: Mapping[str, Any]) -> list[Any]:
    results = document.get("results")
    return as_list(results if isinstance(results, list) else as_mapping(results).get("results"))


def _records(path: Path, _: Collection[str]) -> Iterator[Found]:
    rows = _read(path)
    several = len({_name_prompt(row) for row in rows}) > 1
    tests: dict[str, Any] = {}
    runs: Counter[tuple[str, str | None, str | None]] = Counter()
    for place, row in enumerate(rows, start=1):
        task = tests.setdefault(_test(row), row.get("testIdx", len(tests)))
        same = str(task), _find_model(row), _name_prompt(row)
        runs[same] += 1
        record = {"id": task, "run": runs[same], **_record(row, several=several)}
        yield record, place / len(rows)


def _read(path: Path) -> list[Mapping[str, Any]]:
    """Return the rows ordered by test; promptfoo has them in the order of completion."""
    with path.open("rb") as file:
        first = decompress(file, str(path)).readline(get_limits().record_bytes)
    if _begins_lines(first):
        rows = [line for _, line, _ in read_numbered_lines(path)]
    else:
        rows = [as_mapping(each) for each in _list_rows(as_mapping(read_whole(path)))]
    return sorted(rows, key=lambda row: as_number(row.get("testIdx")) or 0)


def _begins_lines(first: bytes) -> bool:
    try:
        return _is_line(as_mapping(parse_json(first, "")))
    except DataError:
        return False


def _test(row: Mapping[str, Any]) -> str:
    return json.dumps([row.get("vars"), row.get("testCase")], sort_keys=True)


def _find_model(row: Mapping[str, Any]) -> str | None:
    provider = row.get("provider")
    if isinstance(provider, str):
        return provider
    return read_text(as_mapping(provider).get("label") or as_mapping(provider).get("id"))


def _name_prompt(row: Mapping[str, Any]) -> str | None:
    prompt = as_mapping(row.get("prompt"))
    return read_text(prompt.get("label") or prompt.get("display") or prompt.get("raw"))


def _record(row: Mapping[str, Any], *, several: bool) -> Record:
    case, response = as_mapping(row.get("testCase")), as_mapping(row.get("response"))
    tier = _name_prompt(row) if several else None
    grading = as_mapping(row.get("gradingResult"))
    metadata = case.get("metadata")
    error = _describe_error(row)
    return {
        **keep_extra(row.get("vars"), metadata),
        "model": _find_model(row),
        "tier": None if tier is None else tier[:_LABEL],
        "category": read_text(as_mapping(metadata).get("category")),
        "input": read_text(as_mapping(row.get("prompt")).get("raw")),
        "target": _find_target(case, grading),
        "answer": spell(response.get("output")),
        "passed": row.get("success") if isinstance(row.get("success"), bool) else None,
        "finish_reason": name_finish_reason(response.get("finishReason")),
        **_read_usage(response),
        "cost_usd": as_number(row.get("cost", response.get("cost"))),
        "latency_ms": as_number(row.get("latencyMs")),
        "error": error,
        "score": as_number(row.get("score")),
        "reason": read_text(grading.get("reason")),
        **spread_scores(
            {"total": as_number(row.get("score")), **as_mapping(row.get("namedScores"))}
        ),
    }


def _read_usage(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return tokens used; of a reply from promptfoo's cache only their sum, which cost nothing."""
    used = as_mapping(response.get("tokenUsage"))
    details = as_mapping(used.get("completionDetails"))
    cached = {"cached_tokens": as_number(used.get("cached")) or None}
    if not used.get("prompt") and not used.get("completion"):
        return cached
    return {
        **cached,
        "cache_read_tokens": as_number(details.get("cacheReadInputTokens")),
        "cache_write_tokens": as_number(details.get("cacheCreationInputTokens")),
        "prompt_tokens": as_number(used.get("prompt")),
        "completion_tokens": as_number(used.get("completion")),
        "reasoning_tokens": as_number(details.get("reasoning")),
    }


def _describe_error(row: Mapping[str, Any]) -> str | None:
    """Return why there is no reply, or None; a reply that does not pass is not an error."""
    failed = row.get("failureReason") == _ERROR or as_mapping(row.get("response")).get("error")
    said = row.get("error") or as_mapping(row.get("response")).get("error")
    return (read_text(said) or "error") if failed else None


def _find_target(case: Mapping[str, Any], grading: Mapping[str, Any]) -> str | None:
    """Return what the answer must equal; None if only its template is known."""
    for each in list_objects(grading.get("componentResults")):
        rendered = as_mapping(each.get("metadata")).get("renderedAssertionValue")
        if as_mapping(each.get("assertion")).get("type") == "equals" and rendered is not None:
            return spell(rendered)
    for each in list_objects(case.get("assert")):
        value = spell(each.get("value"))
        if each.get("type") == "equals" and value is not None and "{{" not in value:
            return value
    return None


register(LogReader(name="promptfoo", fits=_fits, records=_records))
