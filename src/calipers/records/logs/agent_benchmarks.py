"""Agents and their benchmarks: SWE-agent, SWE-bench, and tau-bench.

SWE-agent and mini-SWE-agent: a trajectory (`.traj`, `.traj.json`) is one run. SWE-bench: reports of
its harness, of a run or of an instance, and predictions. tau-bench: a list of trials; tau²-bench:
`simulations` in one object.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.records.logs.coding_agents import count_in_patch, name_repository
from calipers.records.logs.log import Figure, LogReader, LogRecord, Record, find_files
from calipers.records.logs.parts import (
    ASSISTANT,
    USER,
    as_list,
    as_mapping,
    as_number,
    find_last_said,
    has_keys,
    keep_call_parts,
    list_calls,
    list_objects,
    read_text,
    read_whole,
)
from calipers.records.logs.shape import Row, Shape, find_value, name_scores, read_number
from calipers.records.readers.json_documents import Place, parse_places, stream_places
from calipers.support.plugins import register

_SUBMITTED = "submitted"
_ASKED_WITHIN = 2  # messages: one of the system, one of the user
_RUN_INFO = frozenset(("exit_status", "submission", "model_stats"))  # what is known of a run
_STEP, _MESSAGE, _HISTORY = _TRAJECTORY_PLACES = parse_places(
    "trajectory.[]", "messages.[]", "history.[]"
)


def _fits_swe_agent(document: Any) -> bool:
    document = as_mapping(document)
    info = document.get("info")
    if not isinstance(info, Mapping):
        return False
    is_brief = "trajectory_format" in document or (
        "messages" in document and not _RUN_INFO.isdisjoint(info)
    )
    return isinstance(document.get("trajectory"), list) or is_brief


def _read_trajectory(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    run = _Trajectory()
    for place, value, _done in stream_places(path, _TRAJECTORY_PLACES):
        run.add(place, value)
    yield run.make_record(path), 1.0


class _Conversation:
    """The messages of a run: what was asked, and the tools that were called."""

    def __init__(self) -> None:
        self.first: list[Mapping[str, Any]] = []
        self.calls: list[Mapping[str, Any]] = []

    def add(self, message: Mapping[str, Any]) -> None:
        if len(self.first) < _ASKED_WITHIN:
            self.first.append(message)
        self.calls.append(keep_call_parts(message))


class _Trajectory:
    """What is collected of a run while its file is read."""

    def __init__(self) -> None:
        self._beside: dict[str, Any] = {}
        self._conversations = {_MESSAGE: _Conversation(), _HISTORY: _Conversation()}
        self._steps = 0
        self._seconds: list[float] = []
        self._actions: list[dict[str, Any]] = []

    def add(self, place: Place, value: Any) -> None:
        if place == _STEP and isinstance(value, dict):
            self._add_step(value)
        elif place in self._conversations and isinstance(value, dict):
            self._conversations[place].add(value)
        elif place:
            self._beside[place[0]] = value

    def _add_step(self, step: Mapping[str, Any]) -> None:
        self._steps += 1
        seconds = read_number(step.get("execution_time"))
        self._seconds += [] if seconds is None else [seconds]
        words = (read_text(step.get("action")) or "").strip().split(maxsplit=1)
        if words:  # the first word is the tool, the rest its argument
            argument = {"context": words[1]} if words[1:] else {}
            self._actions.append({"tool_name": words[0], **argument})

    def make_record(self, path: Path) -> Record:
        info = as_mapping(self._beside.get("info"))
        used = as_mapping(info.get("model_stats"))
        status = read_text(info.get("exit_status"))
        found = [
            conversation for conversation in self._conversations.values() if conversation.first
        ]
        said = found[0] if found else _Conversation()
        name = read_text(self._beside.get("instance_id")) or path.name.partition(".traj")[0]
        return {
            "id": name,
            "repository": name_repository(name),
            "model": read_text(find_value(info, "config.model.model_name | model_name")),
            "input": find_last_said(said.first, USER) if said.first else None,
            "answer": read_text(info.get("submission")),
            "cost_usd": read_number(used.get("instance_cost")),
            "prompt_tokens": read_number(used.get("tokens_sent")),
            "completion_tokens": read_number(used.get("tokens_received")),
            "model_calls": read_number(used.get("api_calls")),
            "tool_seconds": sum(self._seconds) if self._seconds else None,
            "steps": self._steps or None,
            "exit_status": status,
            "error": None if status is None or status.lower().startswith(_SUBMITTED) else status,
            "trace": {"tool_calls": self._actions or list_calls(said.calls)},
        }


register(
    LogReader(
        name="SWE-agent",
        fits=_fits_swe_agent,
        records=_read_trajectory,
        suffixes=(".traj",),
        in_folders=("*.traj", "*/*.traj", "*.traj.json", "*/*.traj.json"),
    )
)


_is_run_report = has_keys("resolved_ids", "submitted_ids")
_is_instance_report = has_keys("patch_successfully_applied", "resolved")


def _fits_swe_bench(document: Any) -> bool:
    document = as_mapping(document)
    return bool(document) and (
        _is_run_report(document) or all(map(_is_instance_report, document.values()))
    )


def _read_swe_bench(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    report = as_mapping(read_whole(path))
    model = path.name.split(".")[0] if _is_run_report(report) else path.parent.parent.name or None
    made = list(_list_submitted(report) if _is_run_report(report) else _list_instances(report))
    for place, record in enumerate(made, start=1):
        yield {"model": model, **record}, place / len(made)


def _list_submitted(report: Mapping[str, Any]) -> Iterator[Record]:
    """Yield the submitted instances; one that could not be evaluated is not counted as failed."""
    resolved, broken, empty = (
        set(map(str, as_list(report.get(name))))
        for name in ("resolved_ids", "error_ids", "empty_patch_ids")
    )
    for name in map(str, as_list(report.get("submitted_ids"))):
        yield {
            "id": name,
            "category": name.partition("__")[0],
            "repository": name_repository(name),
            "passed": name in resolved,
            "empty_patch": name in empty,
            "error": "the harness could not evaluate it" if name in broken else None,
        }


def _list_instances(report: Mapping[str, Any]) -> Iterator[Record]:
    for name, instance in report.items():
        tests = as_mapping(instance.get("tests_status"))
        yield {
            "id": name,
            "category": name.partition("__")[0],
            "repository": name_repository(str(name)),
            "passed": instance.get("resolved") is True,
            "empty_patch": instance.get("patch_exists") is False,
            "patch_applied": instance.get("patch_successfully_applied"),
            **name_scores({kind: _compute_share(found) for kind, found in tests.items()}),
        }


def _compute_share(tests: Any) -> float | None:
    good, bad = (len(as_list(as_mapping(tests).get(name))) for name in ("success", "failure"))
    return good / (good + bad) if good + bad else None


def _list_resolved(path: Path) -> Iterator[Figure]:
    """Yield the share of the submitted instances that the report of a run counts as resolved."""
    report = as_mapping(read_whole(path))
    resolved, submitted = (
        as_number(report.get(f"{kind}_instances")) for kind in ("resolved", "submitted")
    )
    if resolved is not None and submitted:
        yield Figure(
            name="resolved_instances / submitted_instances",
            value=resolved / submitted,
            n=int(submitted),
            ours=("pass_rate",),
            reason="it counts instances that could not be evaluated, as --errors fail does"
            if report.get("error_ids")
            else "",
        )


def _is_of_instances(document: Any) -> bool:
    document = as_mapping(document)
    return bool(document) and all(map(_is_instance_report, document.values()))


register(
    LogReader(
        name="SWE-bench",
        fits=_fits_swe_bench,
        records=_read_swe_bench,
        stated=_list_resolved,
        find=find_files(
            *(f"{'*/' * depth}report.json" for depth in range(4)), fits=_is_of_instances
        ),
    )
)


def _read_prediction(row: Row) -> Record:
    name = read_text(row.get("instance_id")) or ""
    return {
        "category": name.partition("__")[0],
        "repository": name_repository(name),
        "files_changed": count_in_patch(row.get("model_patch")),
    }


_SWE_BENCH_PREDICTIONS = Shape(
    name="SWE-bench predictions",
    has="instance_id model_patch model_name_or_path",
    fields={"id": "instance_id", "model": "model_name_or_path", "answer": "model_patch"},
    more=_read_prediction,
)
register(_SWE_BENCH_PREDICTIONS.make_reader())


_FULL_REWARD = 1.0  # a reward within rounding of this is a pass
_REWARD_ROUNDING = 1e-6


def _read_tau_trial(row: Row) -> Record:
    messages = list(list_objects(find_value(row, "traj | messages")))
    asked = [message for message in messages if message.get("role") == USER]
    reward = read_number(find_value(row, "reward | reward_info.reward"))
    run = read_number(row.get("trial"))
    error = str(row.get("termination_reason") or "")
    return {
        "run": None if run is None else int(run) + 1,
        "input": find_value(row, "info.task.instruction") or find_last_said(asked[:1], USER),
        "answer": find_last_said(messages, ASSISTANT) if messages else None,
        "passed": None if reward is None else abs(reward - _FULL_REWARD) <= _REWARD_ROUNDING,
        "messages": messages or None,
        "trace": {"tool_calls": list_calls(messages)},
        "error": error if "error" in error else None,
        **name_scores({"reward": reward}),
    }


_TAU_BENCH = Shape(
    name="tau-bench",
    has="task_id trial reward traj | task_id trial reward_info messages",
    rows="simulations",
    shared={"model": "info.agent_info.llm", "category": "info.environment_info.domain_name"},
    fields={"id": "task_id", "cost_usd": "agent_cost", "duration_seconds": "duration"},
    more=_read_tau_trial,
    left_behind=("traj", "info", "messages", "task"),
)
register(_TAU_BENCH.make_reader())
