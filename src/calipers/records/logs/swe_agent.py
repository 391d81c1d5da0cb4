"""Trajectories of SWE-agent and mini-SWE-agent (`.traj`, `.traj.json`): one run each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.records.logs.log import Found, LogReader, Record
from calipers.records.logs.parts import as_list, as_mapping, list_objects, read_text, read_whole
from calipers.records.logs.shape import look, read_number
from calipers.records.logs.texts import USER, read_said
from calipers.records.logs.tools import list_calls
from calipers.support.registry import register

_DONE = "submitted"


def _fits(document: Any) -> bool:
    found = as_mapping(document)
    if not isinstance(found.get("info"), Mapping):
        return False
    return isinstance(found.get("trajectory"), list) or "trajectory_format" in found


def _records(path: Path, _: Collection[str]) -> Iterator[Found]:
    yield _record(as_mapping(read_whole(path)), path), 1.0


def _record(run: Mapping[str, Any], path: Path) -> Record:
    info = as_mapping(run.get("info"))
    used = as_mapping(info.get("model_stats"))
    steps = list(list_objects(run.get("trajectory")))
    messages = list(list_objects(run.get("messages") or run.get("history")))
    status = read_text(info.get("exit_status"))
    times = [read_number(step.get("execution_time")) for step in steps]
    known = [each for each in times if each is not None]
    return {
        "id": read_text(run.get("instance_id")) or path.name.partition(".traj")[0],
        "model": read_text(look(info, "config.model.model_name | model_name")),
        "input": read_said(messages[:2], USER) if messages else None,
        "answer": read_text(info.get("submission")),
        "cost_usd": read_number(used.get("instance_cost")),
        "prompt_tokens": read_number(used.get("tokens_sent")),
        "completion_tokens": read_number(used.get("tokens_received")),
        "model_calls": read_number(used.get("api_calls")),
        "tool_seconds": sum(known) if known else None,
        "steps": len(steps) or None,
        "exit_status": status,
        "error": None if status is None or status.lower().startswith(_DONE) else status,
        "trace": {"tool_calls": _list_actions(steps) or list_calls(messages)},
    }


def _list_actions(steps: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the commands of the steps: the first word is the tool, the rest its argument."""
    calls = []
    for step in steps:
        words = (read_text(step.get("action")) or "").strip().split(maxsplit=1)
        if words:
            calls.append({"tool_name": words[0], "context": "".join(as_list(words[1:])) or None})
    return [{k: v for k, v in call.items() if v is not None} for call in calls]


register(
    LogReader(
        name="SWE-agent",
        fits=_fits,
        records=_records,
        suffixes=(".traj",),
        in_folders=("*.traj", "*/*.traj", "*.traj.json", "*/*.traj.json"),
    )
)
