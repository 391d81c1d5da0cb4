"""Test runs of DeepEval: the files of its results folder and of `.deepeval`, and dumped results.

A test case is a task; where cases share name and input, these are its runs.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from hashlib import blake2b
from math import fsum
from pathlib import Path
from typing import Any

from calipers.records.logs.log import Figure, LogReader, LogRecord, Record
from calipers.records.logs.parts import (
    as_list,
    as_mapping,
    as_number,
    find_last_text,
    format_text,
    keep_extra,
    list_objects,
    read_text,
    spread_scores,
)
from calipers.records.readers.json_documents import parse_places, stream_places
from calipers.support.plugins import register

_CASES = ("test_cases", "conversational_test_cases", "test_results")
_RUN = {"test_passed", "test_failed", "metrics_scores", "confident_link", "test_run_id"}
_NEWEST = "testRunData"  # what the newest run is kept in, beside a link to it
_PLACES = parse_places(
    *(
        f"{around}{name}.[]"
        for around in ("", f"{_NEWEST}.")
        for name in (*_CASES, "testCases", "conversationalTestCases", "testResults")
    )
)


def _fits(document: Any) -> bool:
    document = as_mapping(document)
    run = _respell(as_mapping(document.get(_NEWEST, document)))
    cases = [_respell(case) for name in _CASES for case in list_objects(run.get(name))]
    if "test_cases" in run and not _RUN.isdisjoint(run):
        return True
    return bool(cases) and cases[0].keys() >= {"metrics_data", "success"}


def _respell(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the names that Python gives its fields; files have `actualOutput`."""
    return {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(): found[name] for name in found}


def _read_records(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    run, names = _look_through(path)
    runs: Counter[bytes] = Counter()
    shared = {
        "model": read_text(as_mapping(run.get("hyperparameters")).get("model")),
        "identifier": run.get("identifier"),
    }
    cases = ((case, done) for key, case, done in _stream(path) if key is None)
    for place, (case, done) in enumerate(cases):
        name, task = read_text(case.get("name")), _digest(case)
        runs[task] += 1
        is_one_task = names[name] is not None
        record = {
            "id": name if is_one_task else f"{name}/{case.get('order', place)}",
            "run": runs[task] if is_one_task else 1,
            **shared,
            **_make_record(case),
        }
        yield record, done


def _look_through(path: Path) -> tuple[dict[str, Any], dict[str | None, bytes | None]]:
    """Return what is said of the run, and by name the task of its cases; None if of several."""
    run: dict[str, Any] = {}
    names: dict[str | None, bytes | None] = {}
    for key, value, _ in _stream(path):
        if key is not None:
            run[key] = value
        else:
            name, task = read_text(value.get("name")), _digest(value)
            names[name] = task if names.get(name, task) == task else None
    return run, names


def _stream(path: Path) -> Iterator[tuple[str | None, Any, float]]:
    """Yield the test cases one by one, and what else is said of the run, under its key."""
    for place, value, done in stream_places(path, _PLACES):
        if place in _PLACES and isinstance(value, dict):
            yield None, _respell(value), done
        elif place and place not in _PLACES:
            yield next(iter(_respell({place[-1]: None}))), value, done


def _digest(case: Mapping[str, Any]) -> bytes:
    """Return what cases of one task share: their name and input."""
    told = json.dumps([read_text(case.get("name")), _read_input(case)])
    return blake2b(told.encode(), digest_size=16).digest()


def _make_record(case: Mapping[str, Any]) -> Record:
    metadata = case.get("metadata")
    measured = [
        metric for metric in list_objects(case.get("metrics_data")) if read_text(metric.get("name"))
    ]
    failed = filter(_has_failed, measured)
    reasons = [read_text(metric.get("error") or metric.get("reason")) for metric in failed]
    turns = [
        {"role": turn.get("role"), "content": read_text(turn.get("content"))}
        for turn in list_objects(case.get("turns"))
    ]
    return {
        **keep_extra(metadata),
        "category": read_text(as_mapping(metadata).get("category")),
        "tags": [tag for tag in as_list(case.get("tags")) if isinstance(tag, str)] or None,
        "input": _read_input(case),
        "messages": turns or None,
        "answer": find_last_text(turns, "assistant")
        if turns
        else format_text(case.get("actual_output")),
        "reference": format_text(case.get("expected_output") or case.get("expected_outcome")),
        "passages": case.get("retrieval_context") or None,
        "passed": _decide(case, measured),
        "reason": "; ".join(reason for reason in reasons if reason) or None,
        "cost_usd": as_number(case.get("token_cost")),
        "duration_seconds": as_number(case.get("completion_time")),
        "trace": _make_trace(case),
        **spread_scores(
            {_name_field(metric.get("name")): as_number(metric.get("score")) for metric in measured}
        ),
    }


def _read_input(case: Mapping[str, Any]) -> str | None:
    if case.get("input") is not None or "turns" not in case:
        return format_text(case.get("input"))
    asked = (turn for turn in list_objects(case.get("turns")) if turn.get("role") == "user")
    return read_text(case.get("scenario")) or read_text(
        as_mapping(next(asked, None)).get("content")
    )


def _name_field(metric: object) -> str:
    """Return a metric's name as a field: `Correctness [GEval]` is `correctness_geval`."""
    return re.sub(r"\W+", "_", (read_text(metric) or "").lower()).strip("_")


def _has_failed(metric: Mapping[str, Any]) -> bool:
    return metric.get("success") is False and metric.get("flaky") is not True


def _decide(case: Mapping[str, Any], measured: list[Mapping[str, Any]]) -> bool | None:
    """Return whether the case passed; None where only metrics that broke say that it did not."""
    success = case.get("success")
    failed = [metric for metric in measured if _has_failed(metric)]
    if success is False and failed and all(metric.get("error") is not None for metric in failed):
        return None
    return success if isinstance(success, bool) else None


def _make_trace(case: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the tools that were called, in their order; None where nothing is said of any."""
    turns = [case, *map(_respell, list_objects(case.get("turns")))]
    calls = [call for turn in turns for call in list_objects(turn.get("tools_called"))]
    if all(turn.get("tools_called") is None for turn in turns):
        return None
    return {
        "tool_calls": [
            {"tool_name": call["name"], "args": as_mapping(call.get("input_parameters"))}
            for call in map(_respell, calls)
            if isinstance(call.get("name"), str)
        ]
    }


def _list_stated(path: Path) -> Iterator[Figure]:
    """Yield the share of cases that passed, and the mean of each metric's scores."""
    run = {key: value for key, value, _ in _stream(path) if key is not None}
    passed, failed = as_number(run.get("test_passed")), as_number(run.get("test_failed"))
    if passed is not None and failed is not None and passed + failed:
        yield Figure(
            name="test_passed (share)",
            value=passed / (passed + failed),
            n=int(passed + failed),
            ours=("pass_rate",),
            reason="cases in which only broken metrics failed are left open here",
        )
    for metric in map(_respell, list_objects(run.get("metrics_scores"))):
        scores = [
            score for score in map(as_number, as_list(metric.get("scores"))) if score is not None
        ]
        name = read_text(metric.get("metric"))
        if scores and name:
            yield Figure(
                name=f"{name} (mean)",
                value=fsum(scores) / len(scores),
                n=len(scores),
                ours=(f"score_{_name_field(name)}",),
            )


register(LogReader(name="DeepEval", fits=_fits, records=_read_records, stated=_list_stated))
