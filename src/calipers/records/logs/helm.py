"""HELM: the `scenario_state.json` of a run, with the `per_instance_stats.json` beside it.

Only unperturbed instances count, unless records are grouped by `perturbation`. If each reference
was a request of its own, the first one represents the instance.
"""

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
    has_keys,
    list_objects,
    place_target,
    read_text,
)
from calipers.records.logs.shape import look, name_scores
from calipers.support.registry import register

_DECISIVE = ("exact_match", "quasi_exact_match", "prefix_exact_match", "math_equiv")
_STATS = "per_instance_stats.json"
_PERTURBATION = "perturbation"
_Key = tuple[str, str, str]


def _read_records(path: Path, keys: Collection[str]) -> Iterator[Found]:
    beside: dict[str, Any] = {}
    stats = _read_stats(path.parent / _STATS)
    for each, done in stream_list(path, ("request_states",), beside):
        state, adapter = as_mapping(each), as_mapping(beside.get("adapter_spec"))
        # Not about a further reference, nor for calibration.
        is_own = not state.get("reference_index") and state.get("request_mode") != "calibration"
        counts = is_own and (_PERTURBATION in keys or _find_perturbation(state) is None)
        yield _make_record(state, adapter, path.parent.name, stats) if counts else None, done


def _find_perturbation(state: Mapping[str, Any]) -> str | None:
    return read_text(look(state, "instance.perturbation.name"))


def _read_stats(path: Path) -> dict[_Key, dict[str, float]]:
    """Return the mean of each statistic by instance and trial; none without such a file."""
    found: dict[_Key, dict[str, float]] = {}
    if not path.is_file():
        return found
    for entry, _ in stream_list(path, (), {}):
        means = {
            str(look(each, "name.name")): mean
            for each in list_objects(as_mapping(entry).get("stats"))
            if (mean := as_number(each.get("mean"))) is not None
        }
        key = _make_key(as_mapping(entry), "instance_id", "perturbation.name")
        found.setdefault(key, {}).update(means)
    return found


def _make_key(entry: Mapping[str, Any], name: str, perturbation: str) -> _Key:
    trial = entry.get("train_trial_index")
    return str(look(entry, name)), str(trial), str(look(entry, perturbation))


def _make_record(
    state: Mapping[str, Any],
    adapter: Mapping[str, Any],
    run: str,
    stats: Mapping[_Key, Mapping[str, float]],
) -> Record:
    scores = stats.get(_make_key(state, "instance.id", "instance.perturbation.name"), {})
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
        _PERTURBATION: _find_perturbation(state),
        "input": read_text(look(state, "instance.input.text | request.prompt")),
        **place_target(next(filter(None, right), None), correct=correct, judged=bool(scores)),
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
    if state.get("reference_index") is not None:
        return None  # what was sent: no model said it
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
        fits=has_keys("adapter_spec", "request_states"),
        records=_read_records,
        left_out="requests about perturbed instances, further references or calibration"
        " were left out; --by perturbation shows the perturbed",
        in_folders=("scenario_state.json", "*/scenario_state.json"),
    )
)
