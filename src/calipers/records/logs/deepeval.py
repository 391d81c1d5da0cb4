"""Test runs of DeepEval: the files of its results folder and of `.deepeval`, and dumped results.

A test case is a task; where cases share name and input, these are its runs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.records.logs.log import Found, LogReader, Record
from calipers.records.logs.parts import (
    as_list,
    as_mapping,
    as_number,
    find_last_text,
    keep_extra,
    list_objects,
    read_text,
    read_whole,
    spell,
    spread_scores,
)
from calipers.support.registry import register

_CASES = ("test_cases", "conversational_test_cases", "test_results")
_RUN = {"test_passed", "test_failed", "metrics_scores", "confident_link", "test_run_id"}


def _fits(document: Any) -> bool:
    run = _run(document)
    cases = _cases(run)
    has_cases = "test_cases" in run or bool(cases and "metrics_data" in cases[0])
    return has_cases and not _RUN.isdisjoint(run)


def _run(document: Any) -> Mapping[str, Any]:
    """Return the test run; the newest one is kept inside an object with a link to it."""
    found = as_mapping(document)
    return _spelled_alike(as_mapping(found["testRunData"]) if "testRunData" in found else found)


def _cases(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [_spelled_alike(case) for name in _CASES for case in list_objects(run.get(name))]


def _spelled_alike(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the names that Python gives its fields; files have `actualOutput`."""
    return {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(): found[name] for name in found}


def _records(path: Path, _: Collection[str]) -> Iterator[Found]:
    run = _run(read_whole(path))
    cases = _cases(run)
    inputs: dict[str | None, set[str | None]] = {}
    for case in cases:
        inputs.setdefault(read_text(case.get("name")), set()).add(_input(case))
    runs: Counter[tuple[str | None, str | None]] = Counter()
    shared = {
        "model": read_text(as_mapping(run.get("hyperparameters")).get("model")),
        "identifier": run.get("identifier"),
    }
    for place, case in enumerate(cases, start=1):
        name, asked = read_text(case.get("name")), _input(case)
        runs[name, asked] += 1
        is_one_task = len(inputs[name]) == 1
        record = {
            "id": name if is_one_task else f"{name}/{case.get('order', place - 1)}",
            "run": runs[name, asked] if is_one_task else 1,
            **shared,
            **_record(case),
        }
        yield record, place / len(cases)


def _record(case: Mapping[str, Any]) -> Record:
    metadata = case.get("metadata")
    measured = [
        each for each in list_objects(case.get("metrics_data")) if read_text(each.get("name"))
    ]
    reasons = [
        read_text(each.get("error") or each.get("reason")) for each in measured if _fails(each)
    ]
    turns = [
        {"role": each.get("role"), "content": read_text(each.get("content"))}
        for each in list_objects(case.get("turns"))
    ]
    return {
        **keep_extra(metadata),
        "category": read_text(as_mapping(metadata).get("category")),
        "tags": [each for each in as_list(case.get("tags")) if isinstance(each, str)] or None,
        "input": _input(case),
        "messages": turns or None,
        "answer": find_last_text(turns, "assistant") if turns else spell(case.get("actual_output")),
        "reference": spell(case.get("expected_output") or case.get("expected_outcome")),
        "retrieval_context": spell(case.get("retrieval_context")),
        "passed": _passed(case, measured),
        "reason": "; ".join(each for each in reasons if each) or None,
        "cost_usd": as_number(case.get("token_cost")),
        "duration_seconds": as_number(case.get("completion_time")),
        "trace": _trace(case),
        **spread_scores({_field(each["name"]): as_number(each.get("score")) for each in measured}),
    }


def _input(case: Mapping[str, Any]) -> str | None:
    if case.get("input") is not None or "turns" not in case:
        return spell(case.get("input"))
    asked = (each for each in list_objects(case.get("turns")) if each.get("role") == "user")
    return read_text(case.get("scenario")) or read_text(
        as_mapping(next(asked, None)).get("content")
    )


def _field(name: str) -> str:
    """Return a metric's name as a field: `Correctness [GEval]` is `correctness_geval`."""
    return re.sub(r"\W+", "_", name.lower()).strip("_")


def _fails(metric: Mapping[str, Any]) -> bool:
    return metric.get("success") is False and metric.get("flaky") is not True


def _passed(case: Mapping[str, Any], measured: list[Mapping[str, Any]]) -> bool | None:
    """Return whether the case passed; None where only metrics that broke say that it did not."""
    success = case.get("success")
    failed = [each for each in measured if _fails(each)]
    if success is False and failed and all(each.get("error") is not None for each in failed):
        return None
    return success if isinstance(success, bool) else None


def _trace(case: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the tools that were called, in their order; None where nothing is said of any."""
    turns = [case, *map(_spelled_alike, list_objects(case.get("turns")))]
    calls = [call for each in turns for call in list_objects(each.get("tools_called"))]
    if all(each.get("tools_called") is None for each in turns):
        return None
    return {
        "tool_calls": [
            {"tool_name": call["name"], "args": as_mapping(call.get("input_parameters"))}
            for call in map(_spelled_alike, calls)
            if isinstance(call.get("name"), str)
        ]
    }


register(LogReader(name="DeepEval", fits=_fits, records=_records))
