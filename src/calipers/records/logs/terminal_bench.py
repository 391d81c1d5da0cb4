"""Terminal-Bench: the `results.json` of a run, or of a trial, with `run_metadata.json` of the run.

A trial that an agent could not be installed for, or whose tests could not be read, failed to run;
one that ran out of time or context did not pass.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.records.logs.coding_agents import measure_seconds, name_repository
from calipers.records.logs.log import Figure, LogReader, LogRecord, Record, find_files
from calipers.records.logs.parts import (
    as_mapping,
    as_number,
    has_keys,
    read_text,
    read_whole,
)
from calipers.records.logs.shape import make_duration_fields, name_scores
from calipers.records.readers.json_documents import parse_places, stream_places
from calipers.support.plugins import register

_METADATA = "run_metadata.json"
_ABOVE = 3  # folders above a trial's results in which its run is described
_NUMBER = re.compile(r"\.(\d+)-of-\d+")
(_TRIAL,) = _PLACES = parse_places("results.[]")
_QUIET = ("unset", "none")  # ways to fail that are none
_NOT_RUN = (
    *("unknown_agent_error", "agent_installation_failed", "parse_error"),
    *("test_timeout", "unknown"),
)
_is_trial = has_keys("task_id", "trial_name", "is_resolved")


def _fits(document: Any) -> bool:
    document = as_mapping(document)
    rows = document.get("results")
    of_run = isinstance(rows, list) and bool(rows) and _is_trial(rows[0])
    return _is_trial(document) or of_run


def _read_records(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    about = _find_metadata(path)
    whole: dict[str, Any] = {}
    for place, value, done in stream_places(path, _PLACES):
        if place == _TRIAL:
            yield _make_record(as_mapping(value), about), done
        elif len(place) == 1:
            whole[place[0]] = value
    if _is_trial(whole):
        yield _make_record(whole, about), 1.0


def _find_metadata(path: Path) -> Mapping[str, Any]:
    """Return what the folder of a file, or one above it, says of the run; nothing without it."""
    for folder in path.absolute().parents[:_ABOVE]:
        if (folder / _METADATA).is_file():
            return as_mapping(read_whole(folder / _METADATA))
    return {}


def _make_record(trial: Mapping[str, Any], about: Mapping[str, Any]) -> Record:
    name, task = read_text(trial.get("trial_name")), read_text(trial.get("task_id"))
    attempt = _NUMBER.search(name or "")
    agent, model = read_text(about.get("agent_name")), read_text(about.get("model_name"))
    ended = read_text(trial.get("failure_mode"))
    resolved = trial.get("is_resolved")
    failed = resolved is not True and ended in _NOT_RUN
    tests = list(as_mapping(trial.get("parser_results")).values())
    took = measure_seconds(trial.get("agent_started_at"), trial.get("agent_ended_at"))
    return {
        "id": task,
        "run": int(attempt[1]) if attempt else name,
        "repository": name_repository(task),
        "dataset": read_text(about.get("dataset_name")),
        "model": model or agent,
        "variant": agent if model else None,
        "input": read_text(trial.get("instruction")),
        "passed": None if failed else resolved is True,
        "prompt_tokens": as_number(trial.get("total_input_tokens")),
        "completion_tokens": as_number(trial.get("total_output_tokens")),
        **make_duration_fields(took),
        "trial_seconds": measure_seconds(
            trial.get("trial_started_at"), trial.get("trial_ended_at")
        ),
        "exit_status": None if ended in _QUIET else ended,
        "error": ended if failed else None,
        **name_scores({"tests": tests.count("passed") / len(tests) if tests else None}),
    }


def _list_stated(path: Path) -> Iterator[Figure]:
    """Yield the accuracy and the pass@k of a run's results."""
    stated = {
        place[0]: value for place, value, _ in stream_places(path, _PLACES) if len(place) == 1
    }
    good, bad = (as_number(stated.get(name)) for name in ("n_resolved", "n_unresolved"))
    reason = (
        "Terminal-Bench counts every trial that is not resolved as failed, as --errors fail does"
    )
    if (accuracy := as_number(stated.get("accuracy"))) is not None and "results" not in stated:
        count = None if good is None or bad is None else int(good + bad)
        yield Figure(name="accuracy", value=accuracy, n=count, ours=("pass_rate",), reason=reason)
    for k, value in as_mapping(stated.get("pass_at_k")).items():
        if (chance := as_number(value)) is not None:
            yield Figure(name=f"pass_at_{k}", value=chance, ours=(f"pass_at_{k}",), reason=reason)


register(
    LogReader(
        name="Terminal-Bench",
        fits=_fits,
        records=_read_records,
        stated=_list_stated,
        find=find_files("results.json", "*/results.json", fits=_fits),
    )
)
