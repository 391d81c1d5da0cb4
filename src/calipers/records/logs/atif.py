"""ATIF, the trajectories of Harbor and of those who write its format: `trajectory.json`.

Its counts of prompt tokens have the cached ones in them. The final metrics are those of the whole
run; where they lack a count it is the sum over the steps. Steps that were copied from an earlier
trajectory are of that one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calipers.records.logs.coding_agents import Calls, EventTimes, name_repository, read_tokens
from calipers.records.logs.log import Figure, LogReader, LogRecord, Record, find_files
from calipers.records.logs.parts import as_mapping, as_number, list_objects, read_text
from calipers.records.logs.shape import find_value, make_duration_fields
from calipers.records.readers.json_documents import parse_places, stream_places
from calipers.support.plugins import register

_STEP, _OTHER_AGENT = _PLACES = parse_places("steps.[]", "subagent_trajectories.[]")
_FINAL = "final_metrics"
_OF_STEPS = {  # a metric of a step, and what the final metrics call its sum
    "prompt_tokens": "total_prompt_tokens",
    "completion_tokens": "total_completion_tokens",
    "cached_tokens": "total_cached_tokens",
    "cost_usd": "total_cost_usd",
}
_REASONING = "extra.reasoning_output_tokens | extra.reasoning_tokens | extra.thoughts_tokens"
_WRITTEN = (
    "extra.total_cache_write_input_tokens | extra.total_cache_creation_input_tokens"
    " | extra.cache_creation_input_tokens"
)


@dataclass
class Trajectory:
    """What is collected of a trajectory while its file is read."""

    beside: dict[str, Any] = field(default_factory=dict)
    calls: Calls = field(default_factory=Calls)
    clock: EventTimes = field(default_factory=EventTimes)
    asked: str | None = None
    said: str | None = None
    model: str | None = None
    turns: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    def add(self, step: Mapping[str, Any]) -> None:
        """Take a step."""
        source, text = step.get("source"), read_text(step.get("message"))
        if source == "user" and self.asked is None:
            self.asked = text
        if step.get("is_copied_context") is True:
            return
        self.clock.see(step.get("timestamp"))
        if source == "agent":
            self.turns += 1
            self.said = text or self.said
            self.model = self.model or read_text(step.get("model_name"))
            for name in _OF_STEPS:
                if (count := as_number(find_value(step, f"metrics.{name}"))) is not None:
                    self.sums[name] = self.sums.get(name, 0) + count
        for call in list_objects(step.get("tool_calls")):
            self.calls.add(
                call.get("tool_call_id"),
                call.get("function_name"),
                call.get("arguments"),
                step.get("timestamp"),
            )
        for result in list_objects(as_mapping(step.get("observation")).get("results")):
            self.calls.settle(
                result.get("source_call_id"), success=_find_success(as_mapping(result))
            )

    def find_count(self, name: str) -> float | None:
        """Return a count of the whole run, by the name that it has in a step."""
        final = as_number(find_value(self.beside, f"{_FINAL}.{_OF_STEPS[name]}"))
        return self.sums.get(name) if final is None else final

    def make_record(self) -> Record:
        """Return what the trajectory says of the run."""
        agent = as_mapping(self.beside.get("agent"))
        final = as_mapping(self.beside.get(_FINAL))
        name, model = read_text(agent.get("name")), read_text(agent.get("model_name")) or self.model
        return {
            "model": model or name,
            "variant": name if model else None,
            "agent_version": read_text(agent.get("version")),
            "input": self.asked,
            "answer": self.said,
            "turns": self.turns,
            **read_tokens(
                self.find_count("prompt_tokens"),
                self.find_count("cached_tokens"),
                as_number(find_value(final, _WRITTEN)),
            ),
            "completion_tokens": self.find_count("completion_tokens"),
            "reasoning_tokens": as_number(find_value(final, _REASONING)),
            "cost_usd": self.find_count("cost_usd"),
            **make_duration_fields(self.clock.seconds),
            **self.calls.make_fields(),
        }


def _find_success(result: Mapping[str, Any]) -> bool | None:
    """Return whether a result says that its call failed or succeeded; None if it says neither."""
    for place in ("extra.tool_result_is_error", "extra.is_error", "extra.metadata.is_error"):
        if isinstance(said := find_value(result, place), bool):
            return not said
    code = as_number(find_value(result, "extra.exit_code | extra.tool_metadata.exit_code"))
    return None if code is None else code == 0


def read_trajectory(path: Path) -> Trajectory:
    """Return the trajectory in a file, of which a step at a time is held."""
    run = Trajectory()
    for place, value, _ in stream_places(path, _PLACES):
        if place == _STEP:
            run.add(as_mapping(value))
        elif place and place != _OTHER_AGENT:
            run.beside[place[0]] = value
    return run


def _read_records(path: Path, _: Collection[str]) -> Iterator[LogRecord]:
    run = read_trajectory(path)
    name = read_text(run.beside.get("session_id")) or read_text(run.beside.get("trajectory_id"))
    task = name or path.name.partition(".")[0]
    yield {"id": task, "repository": name_repository(task), **run.make_record()}, 1.0


def _list_stated(path: Path) -> Iterator[Figure]:
    """Yield the sums of the final metrics."""
    final: Mapping[str, Any] = {}
    for place, value, _ in stream_places(path, _PLACES):
        if place == (_FINAL,):
            final = as_mapping(value)
    ours = {"total_cost_usd": "sum(cost_usd)", "total_completion_tokens": "sum(completion_tokens)"}
    for name in _OF_STEPS.values():
        if (value := as_number(final.get(name))) is not None:
            metrics = (ours[name],) if name in ours else ()
            yield Figure(name=f"{_FINAL}/{name}", value=value, n=1, ours=metrics)


def _fits(document: Any) -> bool:
    document = as_mapping(document)
    return str(document.get("schema_version")).startswith("ATIF") and "steps" in document


register(
    LogReader(
        name="ATIF",
        fits=_fits,
        records=_read_records,
        stated=_list_stated,
        find=find_files(*("trajectory.json", "*/trajectory.json", "*.trajectory.json"), fits=_fits),
    )
)
