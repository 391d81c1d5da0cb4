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

from calipers.records.bytestream import decompressed
from calipers.records.fields import name_finish_reason
from calipers.records.limits import current_limits
from calipers.records.logs.log import Found, LogReader, Record
from calipers.records.logs.parts import (
    extra_fields,
    listed,
    mapping,
    number,
    numbered_lines,
    objects,
    parsed,
    score_fields,
    spelled,
    text,
    whole,
)
from calipers.support.errors import DataError
from calipers.support.registry import register

_ERROR = 2  # the reason of a failure that is none of the model's
_LABEL = 80  # characters of a prompt that name a tier
_LINE = {"prompt", "vars", "testCase", "testIdx", "promptIdx", "provider"}


def _fits(document: Any) -> bool:
    found = mapping(document)
    rows = _rows(found)
    first = mapping(rows[0]) if rows else {}
    return (
        _is_line(found)
        or ({"prompt", "vars"} <= first.keys() and ("success" in first or "gradingResult" in first))
        or ("results" in found and not rows and ("prompts" in found or "evalId" in found))
    )


def _is_line(found: Mapping[str, Any]) -> bool:
    return found.keys() >= _LINE


def _rows(document: Mapping[str, Any]) -> list[Any]:
    results = document.get("results")
    return listed(results if isinstance(results, list) else mapping(results).get("results"))


def _records(path: Path, _: Collection[str]) -> Iterator[Found]:
    rows = _read(path)
    several = len({_prompt(row) for row in rows}) > 1
    tests: dict[str, Any] = {}
    runs: Counter[tuple[str, str | None, str | None]] = Counter()
    for place, row in enumerate(rows, start=1):
        task = tests.setdefault(_test(row), row.get("testIdx", len(tests)))
        same = str(task), _model(row), _prompt(row)
        runs[same] += 1
        record = {"id": task, "run": runs[same], **_record(row, several=several)}
        yield record, place / len(rows)


def _read(path: Path) -> list[Mapping[str, Any]]:
    """The rows by their tests: promptfoo has them as they were done."""
    with path.open("rb") as file:
        first = decompressed(file, str(path)).readline(current_limits().record_bytes)
    if _begins_lines(first):
        rows = [line for _, line, _ in numbered_lines(path)]
    else:
        rows = [mapping(each) for each in _rows(mapping(whole(path)))]
    return sorted(rows, key=lambda row: number(row.get("testIdx")) or 0)


def _begins_lines(first: bytes) -> bool:
    try:
        return _is_line(mapping(parsed(first, "")))
    except DataError:
        return False


def _test(row: Mapping[str, Any]) -> str:
    return json.dumps([row.get("vars"), row.get("testCase")], sort_keys=True)


def _model(row: Mapping[str, Any]) -> str | None:
    provider = row.get("provider")
    if isinstance(provider, str):
        return provider
    return text(mapping(provider).get("label") or mapping(provider).get("id"))


def _prompt(row: Mapping[str, Any]) -> str | None:
    prompt = mapping(row.get("prompt"))
    return text(prompt.get("label") or prompt.get("display") or prompt.get("raw"))


def _record(row: Mapping[str, Any], *, several: bool) -> Record:
    case, response = mapping(row.get("testCase")), mapping(row.get("response"))
    tier = _prompt(row) if several else None
    grading = mapping(row.get("gradingResult"))
    metadata = case.get("metadata")
    error = _error(row)
    return {
        **extra_fields(row.get("vars"), metadata),
        "model": _model(row),
        "tier": None if tier is None else tier[:_LABEL],
        "category": text(mapping(metadata).get("category")),
        "input": text(mapping(row.get("prompt")).get("raw")),
        "target": _target(case, grading),
        "answer": spelled(response.get("output")),
        "passed": row.get("success") if isinstance(row.get("success"), bool) else None,
        "finish_reason": name_finish_reason(response.get("finishReason")),
        **_usage(response),
        "cost_usd": number(row.get("cost", response.get("cost"))),
        "latency_ms": number(row.get("latencyMs")),
        "error": error,
        "score": number(row.get("score")),
        "reason": text(grading.get("reason")),
        **score_fields({"total": number(row.get("score")), **mapping(row.get("namedScores"))}),
    }


def _usage(response: Mapping[str, Any]) -> dict[str, Any]:
    """Tokens that were used; of a reply from promptfoo's cache it keeps only their sum."""
    used = mapping(response.get("tokenUsage"))
    if not used.get("prompt") and not used.get("completion"):
        return {}
    return {
        "prompt_tokens": number(used.get("prompt")),
        "completion_tokens": number(used.get("completion")),
        "reasoning_tokens": number(mapping(used.get("completionDetails")).get("reasoning")),
    }


def _error(row: Mapping[str, Any]) -> str | None:
    """Why there is no reply; a reply that does not pass is none."""
    failed = row.get("failureReason") == _ERROR or mapping(row.get("response")).get("error")
    said = row.get("error") or mapping(row.get("response")).get("error")
    return (text(said) or "error") if failed else None


def _target(case: Mapping[str, Any], grading: Mapping[str, Any]) -> str | None:
    """What the answer must equal; None where only the template of it is known."""
    for each in objects(grading.get("componentResults")):
        rendered = mapping(each.get("metadata")).get("renderedAssertionValue")
        if mapping(each.get("assertion")).get("type") == "equals" and rendered is not None:
            return spelled(rendered)
    for each in objects(case.get("assert")):
        value = spelled(each.get("value"))
        if each.get("type") == "equals" and value is not None and "{{" not in value:
            return value
    return None


register(LogReader(name="promptfoo", fits=_fits, records=_records))
