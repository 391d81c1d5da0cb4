"""pydantic-evals: an `EvaluationReport` as JSON, of one run of each case or of several.

A case passes where all its assertions hold, unless one of its evaluators failed. Its averages are
not in the JSON: what the report states are the scalars of its analyses.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.records.logs.log import Figure, LogReader, LogRecord, Record
from calipers.records.logs.parts import (
    as_list,
    as_mapping,
    as_number,
    format_text,
    has_keys,
    keep_extra,
    list_objects,
    read_text,
)
from calipers.records.logs.shape import make_duration_fields, name_scores
from calipers.records.readers.json_documents import parse_places, stream_places
from calipers.support.plugins import register

_CASE, _FAILURE = _PLACES = parse_places("cases.[]", "failures.[]")
_RUN = re.compile(r" \[(\d+)/\d+\]$")
_METRICS = {  # that the tool counts in the spans of a case, and the field of each
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "cache_read_tokens": "cache_read_tokens",
    "cache_write_tokens": "cache_write_tokens",
    "cost": "cost_usd",
    "requests": "turns",
}
_ABOUT = ("experiment_metadata", "name")
_has_parts = has_keys("name", "cases", "failures")


def _fits(document: Any) -> bool:
    document = as_mapping(document)
    return _has_parts(document) and not {"analyses", "report_evaluator_failures"}.isdisjoint(
        document
    )


def _read_records(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    about: dict[str, Any] = {}
    for place, value, _done in stream_places(path, _PLACES):
        if len(place) == 1 and place[0] in _ABOUT:
            about[place[0]] = value
    told = as_mapping(about.get("experiment_metadata"))
    model = read_text(told.get("model")) or read_text(about.get("name"))
    for place, value, done in stream_places(path, _PLACES):
        if place in (_CASE, _FAILURE):
            made = _make_record(as_mapping(value), failed=place == _FAILURE)
            yield {"model": model, **made}, done


def _make_record(case: Mapping[str, Any], *, failed: bool) -> Record:
    name, source = read_text(case.get("name")), read_text(case.get("source_case_name"))
    number = _RUN.search(name or "") if source is not None else None
    metrics = as_mapping(case.get("metrics"))
    counts = {ours: as_number(metrics.get(name)) for name, ours in _METRICS.items()}
    scores = {
        kind: {name: as_mapping(score).get("value") for name, score in as_mapping(found).items()}
        for kind in ("scores", "assertions", "labels")
        if (found := case.get(kind))
    }
    return {
        **keep_extra(case.get("metadata"), case.get("attributes")),
        **{name: metric for name, metric in metrics.items() if name not in _METRICS},
        "id": source or name,
        "run": int(number[1]) if number else None,
        "input": format_text(case.get("inputs")),
        "answer": format_text(case.get("output")),
        "reference": format_text(case.get("expected_output")),
        **_take_cached(counts),
        **make_duration_fields(as_number(case.get("task_duration"))),
        "passed": None if failed else _find_passed(case, scores.get("assertions", {})),
        "error": (read_text(case.get("error_message")) or "the task failed") if failed else None,
        **name_scores({name: score for found in scores.values() for name, score in found.items()}),
    }


def _take_cached(counts: Mapping[str, float | None]) -> Record:
    """Return the counts with the cached tokens, which those of the input have in them, apart."""
    total = counts.get("prompt_tokens")
    cached = [counts.get(name) or 0 for name in ("cache_read_tokens", "cache_write_tokens")]
    return {**counts, "prompt_tokens": None if total is None else max(0, total - sum(cached))}


def _find_passed(case: Mapping[str, Any], assertions: Mapping[str, Any]) -> bool | None:
    """Return whether all assertions hold; None where there is none, or an evaluator failed."""
    if any(value is False for value in assertions.values()):
        return False
    holds = bool(assertions) and all(value is True for value in assertions.values())
    is_decided = holds and not as_list(case.get("evaluator_failures"))
    return True if is_decided else None


def _list_stated(path: Path) -> Iterator[Figure]:
    """Yield the scalars among the analyses of the whole report."""
    for place, value, _ in stream_places(path, _PLACES):
        for analysis in list_objects(value) if place == ("analyses",) else ():
            number, title = as_number(analysis.get("value")), read_text(analysis.get("title"))
            if number is not None and title:
                yield Figure(name=title, value=number)


register(LogReader(name="pydantic-evals", fits=_fits, records=_read_records, stated=_list_stated))
