"""Trajectories of SWE-agent and mini-SWE-agent (`.traj`, `.traj.json`): one run each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.records.json_places import Place, parse_places, stream_places
from calipers.records.logs.conversations import USER, drop_texts, list_calls, read_said
from calipers.records.logs.log import Found, LogReader, Record
from calipers.records.logs.parts import as_mapping, read_text
from calipers.records.logs.shape import look, read_number
from calipers.support.registry import register

_DONE = "submitted"
_ASKED_WITHIN = 2  # messages: one of the system, one of the user
_TOLD = frozenset(("exit_status", "submission", "model_stats"))  # what is known of a run
_STEP, _MESSAGE, _HISTORY = _PLACES = parse_places("trajectory.[]", "messages.[]", "history.[]")


def _fits(document: Any) -> bool:
    found = as_mapping(document)
    info = found.get("info")
    if not isinstance(info, Mapping):
        return False
    is_brief = "trajectory_format" in found or ("messages" in found and not _TOLD.isdisjoint(info))
    return isinstance(found.get("trajectory"), list) or is_brief


def _read_records(path: Path, _: Collection[str]) -> Iterator[Found]:
    run = _Trajectory()
    for place, value, _done in stream_places(path, _PLACES):
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
        self.calls.append(drop_texts(message))


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
        found = [each for each in self._conversations.values() if each.first]
        said = found[0] if found else _Conversation()
        return {
            "id": read_text(self._beside.get("instance_id")) or path.name.partition(".traj")[0],
            "model": read_text(look(info, "config.model.model_name | model_name")),
            "input": read_said(said.first, USER) if said.first else None,
            "answer": read_text(info.get("submission")),
            "cost_usd": read_number(used.get("instance_cost")),
            "prompt_tokens": read_number(used.get("tokens_sent")),
            "completion_tokens": read_number(used.get("tokens_received")),
            "model_calls": read_number(used.get("api_calls")),
            "tool_seconds": sum(self._seconds) if self._seconds else None,
            "steps": self._steps or None,
            "exit_status": status,
            "error": None if status is None or status.lower().startswith(_DONE) else status,
            "trace": {"tool_calls": self._actions or list_calls(said.calls)},
        }


register(
    LogReader(
        name="SWE-agent",
        fits=_fits,
        records=_read_records,
        suffixes=(".traj",),
        in_folders=("*.traj", "*/*.traj", "*.traj.json", "*/*.traj.json"),
    )
)
