"""Output of promptfoo (`promptfoo eval -o out.json`), versions 1 to 4.

A test is a task, a provider a model, and each of several prompts a tier.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.sources.logs.log import Found, LogFormat, Record
from calipers.sources.logs.parts import (
    extra_fields,
    listed,
    mapping,
    number,
    objects,
    score_fields,
    text,
    whole,
)

_ERROR = 2  # the reason of a failure that is none of the model's
_LABEL = 80  # characters of a prompt that name a tier


def _fits(document: Any) -> bool:
    found = mapping(document)
    rows = _rows(found)
    first = mapping(rows[0]) if rows else {}
    return (
        {"prompt", "vars"} <= first.keys() and ("success" in first or "gradingResult" in first)
    ) or ("results" in found and not rows and ("prompts" in found or "evalId" in found))


def _rows(document: Mapping[str, Any]) -> list[Any]:
    results = document.get("results")
    return listed(results if isinstance(results, list) else mapping(results).get("results"))


def _records(path: Path, _: Collection[str]) -> Iterator[Found]:
    rows = [mapping(each) for each in _rows(mapping(whole(path)))]
    prompts = {_prompt(row) for row in rows}
    tests: dict[str, int] = {}
    for place, row in enumerate(rows, start=1):
        task = row.get("testIdx", tests.setdefault(_vars(row), len(tests)))
        yield _record(row, task, several=len(prompts) > 1), place / len(rows)


def _vars(row: Mapping[str, Any]) -> str:
    return json.dumps(row.get("vars"), sort_keys=True, default=str)


def _prompt(row: Mapping[str, Any]) -> str | None:
    prompt = mapping(row.get("prompt"))
    return text(prompt.get("label") or prompt.get("display") or prompt.get("raw"))


def _record(row: Mapping[str, Any], task: Any, *, several: bool) -> Record:
    case, response = mapping(row.get("testCase")), mapping(row.get("response"))
    provider = row.get("provider")
    named = (
        provider
        if isinstance(provider, str)
        else (mapping(provider).get("label") or mapping(provider).get("id"))
    )
    tier = _prompt(row) if several else None
    grading = mapping(row.get("gradingResult"))
    metadata = case.get("metadata")
    error = _error(row)
    return {
        **extra_fields(row.get("vars"), metadata),
        "id": task,
        "model": text(named),
        "tier": None if tier is None else tier[:_LABEL],
        "category": text(mapping(metadata).get("category")),
        "input": text(mapping(row.get("prompt")).get("raw")),
        "target": _target(case),
        "answer": text(response.get("output")),
        "passed": row.get("success") if isinstance(row.get("success"), bool) else None,
        **_usage(response),
        "cost_usd": number(row.get("cost", response.get("cost"))),
        "latency_ms": number(row.get("latencyMs")),
        "error": error,
        "score": number(row.get("score")),
        "reason": text(grading.get("reason")),
        **score_fields(mapping(row.get("namedScores"))),
    }


def _usage(response: Mapping[str, Any]) -> dict[str, Any]:
    """Tokens that were used; of a reply from promptfoo's cache it keeps only their sum."""
    used = mapping(response.get("tokenUsage"))
    if not used.get("prompt") and not used.get("completion"):
        return {}
    return {
        "prompt_tokens": number(used.get("prompt")),
        "completion_tokens": number(used.get("completion")),
    }


def _error(row: Mapping[str, Any]) -> str | None:
    """Why there is no reply; a reply that does not pass is none."""
    failed = row.get("failureReason") == _ERROR or mapping(row.get("response")).get("error")
    said = row.get("error") or mapping(row.get("response")).get("error")
    return (text(said) or "error") if failed else None


def _target(case: Mapping[str, Any]) -> str | None:
    for each in objects(case.get("assert")):
        if each.get("type") == "equals":
            return text(each.get("value"))
    return None


PROMPTFOO = LogFormat(name="promptfoo", fits=_fits, records=_records)
