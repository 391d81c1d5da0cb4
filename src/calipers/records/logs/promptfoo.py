"""Output of promptfoo (`promptfoo eval -o out.json`, `out.jsonl` or `out.csv`), versions 1 to 4.

A test is a task, a provider a model, and each of several prompts a tier; a test that was repeated
has as many runs. In CSV, after the variables, each prompt has a column `[provider] prompt` with the
replies, and behind it `Status`, `Score`, `Named Scores`, `Grader Reason` and `Comment`.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from calipers.records.fields import name_finish_reason
from calipers.records.logs.log import Figure, LogReader, LogRecord, Record
from calipers.records.logs.parts import (
    as_list,
    as_mapping,
    as_number,
    format_text,
    has_keys,
    keep_extra,
    list_objects,
    read_json_lines,
    read_text,
    spread_scores,
)
from calipers.records.logs.shape import name_scores, read_number, read_score
from calipers.records.readers.csv_file import Csv
from calipers.records.readers.joins import iterate_rows, parse_cell
from calipers.records.readers.json_documents import parse_places, stream_list, stream_places
from calipers.records.readers.sniff import read_head
from calipers.support.plugins import register

_Same = tuple[bytes, str | None, str | None]

_ERROR = 2  # the reason of a failure that is none of the model's
_LABEL = 80  # characters of a prompt that name a tier
_is_line = has_keys("prompt", "vars", "testCase", "testIdx", "promptIdx", "provider")
_PROMPT = re.compile(r"\[(?P<provider>[^\]]+)\] (?P<prompt>.*)", re.DOTALL)
_REPEATED = re.compile(r"_duplicated_\d+$")  # what a second column of the same name is called
_PARTS = ("Status", "Score", "Named Scores", "Grader Reason", "Comment")
_METRIC = "Metric: "
_PLACES = parse_places("results.[]", "results.results.[]", "results.table.body.[]", "table.body.[]")


def _fits(document: Any) -> bool:
    document = as_mapping(document)
    rows = _list_rows(document)
    first = as_mapping(rows[0]) if rows else {}
    return (
        _is_line(document)
        or ({"prompt", "vars"} <= first.keys() and ("success" in first or "gradingResult" in first))
        or ("results" in document and not rows and ("prompts" in document or "evalId" in document))
    )


def _list_rows(document: Mapping[str, Any]) -> list[Any]:
    results = document.get("results")
    return as_list(results if isinstance(results, list) else as_mapping(results).get("results"))


def _read_records(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    """Yield the rows as they were completed, after a first look at which tests they are of."""
    places: dict[_Same, list[float]] = defaultdict(list)
    for place, (row, _done) in enumerate(_read(path)):
        places[_find_same(row)].append(_find_place(row, place))
    tests: dict[bytes, float] = {}
    for (test, _model, _prompt), found in places.items():
        found.sort()
        tests[test] = min(found[0], tests.get(test, found[0]))
    several = len({prompt for _, _, prompt in places}) > 1
    for place, (row, done) in enumerate(_read(path)):
        same = _find_same(row)
        run = places[same].index(_find_place(row, place)) + 1
        yield {"id": tests[same[0]], "run": run, **_make_record(row, several=several)}, done


def _find_same(row: Mapping[str, Any]) -> _Same:
    """Return what the runs of a test by one model with one prompt have in common."""
    return _hash_test(row), _find_model(row), _name_prompt(row)


def _find_place(row: Mapping[str, Any], place: int) -> float:
    index = as_number(row.get("testIdx"))
    return place if index is None else index


def _read(path: Path) -> Iterator[tuple[Mapping[str, Any], float]]:
    head = read_head(path)
    if head.on_one_line and _is_line(as_mapping(head.first)):
        yield from read_json_lines(path)
        return
    is_flat = isinstance(as_mapping(head.first).get("results"), list)
    keys = ("results",) if is_flat else ("results", "results")
    for row, done in stream_list(path, keys, {}):
        yield as_mapping(row), done


def _hash_test(row: Mapping[str, Any]) -> bytes:
    """Return what tells tests apart: a hash of what they ask and expect."""
    told = json.dumps([row.get("vars"), row.get("testCase")], sort_keys=True)
    return sha256(told.encode("utf-8", "replace")).digest()


def _find_model(row: Mapping[str, Any]) -> str | None:
    provider = row.get("provider")
    if isinstance(provider, str):
        return provider
    return read_text(as_mapping(provider).get("label") or as_mapping(provider).get("id"))


def _name_prompt(row: Mapping[str, Any]) -> str | None:
    prompt = as_mapping(row.get("prompt"))
    return read_text(prompt.get("label") or prompt.get("display") or prompt.get("raw"))


def _make_record(row: Mapping[str, Any], *, several: bool) -> Record:
    case, response = as_mapping(row.get("testCase")), as_mapping(row.get("response"))
    tier = _name_prompt(row) if several else None
    grading = as_mapping(row.get("gradingResult"))
    metadata = case.get("metadata")
    return {
        **keep_extra(row.get("vars"), metadata),
        "model": _find_model(row),
        "tier": None if tier is None else tier[:_LABEL],
        "category": read_text(as_mapping(metadata).get("category")),
        "input": read_text(as_mapping(row.get("prompt")).get("raw")),
        "target": _find_target(case, grading),
        "answer": format_text(response.get("output")),
        "passed": row.get("success") if isinstance(row.get("success"), bool) else None,
        "finish_reason": name_finish_reason(response.get("finishReason")),
        **_read_usage(response),
        "cost_usd": as_number(row.get("cost", response.get("cost"))),
        "latency_ms": as_number(row.get("latencyMs")),
        "error": _describe_error(row),
        "score": as_number(row.get("score")),
        "reason": read_text(grading.get("reason")),
        **spread_scores(
            {"total": as_number(row.get("score")), **as_mapping(row.get("namedScores"))}
        ),
    }


def _read_usage(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return tokens used; of a reply from promptfoo's cache only their sum, which cost nothing.

    Those of the prompt that the provider had cached are among its `prompt`, and counted once.
    """
    used = as_mapping(response.get("tokenUsage"))
    details = as_mapping(used.get("completionDetails"))
    cached = {"cached_tokens": as_number(used.get("cached")) or None}
    if not used.get("prompt") and not used.get("completion"):
        return cached
    prompt = as_number(used.get("prompt"))
    read = as_number(details.get("cacheReadInputTokens"))
    write = as_number(details.get("cacheCreationInputTokens"))
    return {
        **cached,
        "cache_read_tokens": read,
        "cache_write_tokens": write,
        "prompt_tokens": None if prompt is None else max(0, prompt - (read or 0) - (write or 0)),
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
    for component in list_objects(grading.get("componentResults")):
        rendered = as_mapping(component.get("metadata")).get("renderedAssertionValue")
        if as_mapping(component.get("assertion")).get("type") == "equals" and rendered is not None:
            return format_text(rendered)
    for assertion in list_objects(case.get("assert")):
        value = format_text(assertion.get("value"))
        if assertion.get("type") == "equals" and value is not None and "{{" not in value:
            return value
    return None


def _list_stated(path: Path) -> Iterator[Figure]:
    """Yield the counts of tests that the document states, and the share that passed."""
    head = read_head(path)
    if head.on_one_line and _is_line(as_mapping(head.first)):
        return
    stats: Mapping[str, Any] = {}
    for place, value, _ in stream_places(path, _PLACES):
        if place and place[-1] == "stats" and len(place) < len(_PLACES[1]):
            stats = as_mapping(value)
    counts = {
        name: int(count)
        for name in ("successes", "failures", "errors")
        if (count := as_number(stats.get(name))) is not None
    }
    passed, failed = counts.get("successes"), counts.get("failures")
    if passed is not None and failed is not None and passed + failed:
        yield Figure(
            name="stats/successes (share)",
            value=passed / (passed + failed),
            n=passed + failed,
            ours=("pass_rate",),
            reason="" if "errors" in counts else "its failures may have failed calls among them",
        )
    for name, count in counts.items():
        yield Figure(name=f"stats/{name}", value=count)


register(LogReader(name="promptfoo", fits=_fits, records=_read_records, stated=_list_stated))


class _Prompt(NamedTuple):
    provider: str
    prompt: str
    reply: str  # the column of the replies
    parts: dict[str, str]  # the columns behind it, by what they hold


def _matches(columns: Collection[str]) -> bool:
    return {"Status", "Score", "Grader Reason"} <= set(columns) and any(
        _PROMPT.fullmatch(column) for column in columns
    )


def _find_prompts(columns: Sequence[str]) -> tuple[list[str], list[_Prompt]]:
    """Return the columns of variables, and the prompts with theirs."""
    variables: list[str] = []
    prompts: list[_Prompt] = []
    for place, column in enumerate(columns):
        follows = _strip(columns[place + 1]) if place + 1 < len(columns) else ""
        part = _strip(column)
        match = _PROMPT.fullmatch(part)
        if match is not None and follows == "Status":
            prompts.append(_Prompt(match["provider"], match["prompt"], column, {}))
        elif prompts and (part in _PARTS or part.startswith(_METRIC)):
            prompts[-1].parts[part] = column
        elif not prompts:
            variables.append(column)
    return variables, prompts


def _strip(column: str) -> str:
    return _REPEATED.sub("", column)


def _read_table(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    table = Csv(path)
    variables, prompts = _find_prompts(table.columns())
    several = len({tested.prompt for tested in prompts}) > 1
    for place, (row, done) in enumerate(iterate_rows(table)):
        for tested in prompts:
            if row.get(tested.parts.get("Status", "")):
                given = keep_extra({name: row[name] for name in variables})
                tier = {"tier": tested.prompt[:_LABEL]} if several else {}
                yield {"id": str(place), **given, **tier, **_read_reply(row, tested)}, done


def _read_reply(row: Any, prompt: _Prompt) -> Record:
    found = {part: row.get(column) for part, column in prompt.parts.items()}
    status = found.get("Status")
    metrics = {
        name.removeprefix(_METRIC): read_score(value)
        for name, value in found.items()
        if name.startswith(_METRIC)
    }
    return {
        "model": prompt.provider,
        "answer": row.get(prompt.reply),
        "passed": None if status == "ERROR" else status == "PASS",
        "error": (found.get("Grader Reason") or "error") if status == "ERROR" else None,
        "reason": found.get("Grader Reason"),
        "comment": found.get("Comment"),
        **name_scores(
            {
                "total": read_number(found.get("Score")),
                **as_mapping(parse_cell(found.get("Named Scores"))),
                **metrics,
            }
        ),
    }


register(
    LogReader(name="promptfoo CSV", records=_read_table, fits=lambda _: False, tables=_matches)
)
