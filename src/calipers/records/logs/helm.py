"""HELM: the `scenario_state.json` of a run, with the `per_instance_stats.json` beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from calipers.records.json_values import stream_list
from calipers.records.logs.log import Found, LogReader, Record
from calipers.records.logs.parts import (
    as_list,
    as_mapping,
    as_number,
    as_truth,
    list_objects,
    read_text,
)
from calipers.records.logs.shape import look, name_scores
from calipers.support.registry import register

_DECISIVE = ("exact_match", "quasi_exact_match", "prefix_exact_match", "math_equiv")
_STATS = "per_instance_stats.json"
_Key = tuple[str, str]


def _fits(document: Any) -> bool:
    return as_mapping(document).keys() >= {"adapter_spec", "request_states"}


def _records(path: Path, _: Collection[str]) -> Iterator[Found]:
    beside: dict[str, Any] = {}
    stats = _read_stats(path.parent / _STATS)
    for state, done in stream_list(path, ("request_states",), beside):
        adapter = as_mapping(beside.get("adapter_spec"))
        yield _record(as_mapping(state), adapter, path.parent.name, stats), done


def _read_stats(path: Path) -> dict[_Key, dict[str, float]]:
    """Return the mean of each statistic by instance and trial; none without such a file."""
    found: dict[_Key, dict[str, float]] = {}
    if not path.is_file():
        return found
    for entry, _ in stream_list(path, (), {}):
        means = {
            str(look(each, "name.name")): mean
            for each in list_objects(as_mapping(entry).get("stats"))
            if not look(each, "name.perturbation")
            and (mean := as_number(each.get("mean"))) is not None
        }
        found.setdefault(_key(as_mapping(entry), "instance_id"), {}).update(means)
    return found


def _key(entry: Mapping[str, Any], name: str) -> _Key:
    return str(look(entry, name)), str(entry.get("train_trial_index"))


def _record(
    state: Mapping[str, Any],
    adapter: Mapping[str, Any],
    run: str,
    stats: Mapping[_Key, Mapping[str, float]],
) -> Record:
    scores = stats.get(_key(state, "instance.id"), {})
    decisive = next((name for name in _DECISIVE if name in scores), None)
    correct = None if decisive is None else as_truth(scores[decisive])
    seconds = as_number(look(state, "result.request_time"))
    right = [
        read_text(look(each, "output.text"))
        for each in list_objects(look(state, "instance.references"))
        if "correct" in as_list(each.get("tags"))
    ]
    return {
        "id": read_text(look(state, "instance.id")),
        "task": run.partition(":")[0] or None,
        "model": read_text(look(state, "request.model_deployment | request.model"))
        or read_text(adapter.get("model")),
        "run": as_number(state.get("train_trial_index")),
        "category": read_text(look(state, "instance.sub_split | instance.split")),
        "input": read_text(look(state, "instance.input.text | request.prompt")),
        "target" if correct is not None or not scores else "expected": next(
            filter(None, right), None
        ),
        "answer": _read_answer(state),
        "correct": correct,
        "latency_ms": None if seconds is None else seconds * 1000,
        "prompt_tokens": scores.get("num_prompt_tokens"),
        "completion_tokens": scores.get("num_output_tokens") or scores.get("num_completion_tokens"),
        "finish_reason": read_text(look(state, "result.completions.0.finish_reason.reason")),
        "error": _describe_error(state),
        **name_scores(scores),
    }


def _read_answer(state: Mapping[str, Any]) -> str | None:
    """Return the completion; where letters stand for choices, the text of the choice."""
    said = read_text(look(state, "result.completions.0.text"))
    choices = as_mapping(state.get("output_mapping"))
    return read_text(choices.get((said or "").strip())) or said


def _describe_error(state: Mapping[str, Any]) -> str | None:
    if look(state, "result.success") is not False:
        return None
    return read_text(look(state, "result.error")) or "the request failed"


register(
    LogReader(
        name="HELM",
        fits=_fits,
        records=_records,
        in_folders=("scenario_state.json", "*/scenario_state.json"),
    )
)
